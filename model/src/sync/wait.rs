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

/// `prepare_to_wait(wq)`: enters the queue at once, for callers that test their condition under the lock they hold.
pub fn prepare_to_wait(wq: WaitQueue) {
    super::machine::with(|m| {
        let s = m.current;
        let mask = m.mem.peek(wq.0) | 1 << s;
        m.write(wq.0, mask);
    });
}

/// `schedule()` after [`prepare_to_wait`]: sleeps until woken from that queue.
///
/// The queue is not touched when the task wakes up, so that its object may be gone by then.
#[track_caller]
pub fn schedule(wq: WaitQueue) -> Step {
    step(Op::new(Kind::Sleep, wq.0))
}

/// `waitqueue_active(wq)`: plain read, exact under the lock that all waiters enter the queue with.
pub fn waitqueue_active(wq: WaitQueue) -> bool {
    super::machine::with(|m| m.read(wq.0)) != 0
}
