//! Wait queues, and waiting for a condition on a cell.

use super::mem::{Field, Ptr};
use super::op::{Kind, Op, Pred};
use super::step::{Step, step};

/// `wait_queue_head_t`: the set of waiting task slots.
#[derive(Clone, Copy, Debug)]
pub struct WaitQueue(Ptr);

impl Field for WaitQueue {
    const CELLS: u32 = 1;
    fn at(p: Ptr) -> Self {
        WaitQueue(p)
    }
}

impl WaitQueue {
    /// Address.
    pub fn ptr(self) -> Ptr {
        self.0
    }
}

/// `wait_event(wq, cond)` for a condition on one cell: enter the queue, test, sleep until woken, test again.
///
/// A waker that changes the cell without waking leaves the task asleep, as in the kernel.
#[track_caller]
pub fn wait_event(wq: WaitQueue, cell: Ptr, cond: Pred) -> impl Future<Output = ()> {
    let first = step(Op::new(Kind::Load, cell));
    async move {
        // The kernel tests once before it enters the queue, without a barrier: seen only where memory is weak.
        if super::machine::with(|m| m.config.weak) && cond.holds(first.await) {
            return;
        }
        loop {
            let v = step(Op::with(Kind::PrepareWait, cell, u64::from(wq.0.0))).await;
            if cond.holds(v) {
                super::machine::with(|m| {
                    let s = m.current;
                    m.queue_self(s, wq.0, false);
                });
                return;
            }
            step(Op::new(Kind::Sleep, wq.0)).await;
        }
    }
}

/// `wake_up_all(wq)`
#[track_caller]
pub fn wake_up_all(wq: WaitQueue) -> Step {
    step(Op::new(Kind::WakeAll, wq.0))
}
