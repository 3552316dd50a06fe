//! The future that stands for one operation: it announces, yields, and passes on the result. The driver has the machine perform it.

use super::mem::NULL;
use super::op::{Kind, Op};
use std::cell::Cell;
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

thread_local! {
    /// What the running text announced last, and what its last operation yielded: text and driver meet here without a look at the
    /// machine.
    static ANNOUNCED: Cell<(Op, &'static Location<'static>)> = const { Cell::new((Op { kind: Kind::Start, obj: NULL, a: 0, b: 0 }, Location::caller())) };
    static RESULT: Cell<u64> = const { Cell::new(0) };
}

/// What the text that has just stopped wants to do next.
#[inline]
pub(super) fn announced() -> (Op, &'static Location<'static>) {
    ANNOUNCED.get()
}

/// Hands the text that goes on next the result of its operation.
#[inline]
pub(super) fn set_result(v: u64) {
    RESULT.set(v);
}

/// One scheduling point. Yields the operation's result word.
#[must_use = "an operation happens only when it is awaited"]
pub struct Step {
    op: Op,
    site: &'static Location<'static>,
    announced: bool,
}

/// The scheduling point for `op`.
#[track_caller]
#[inline]
pub fn step(op: Op) -> Step {
    Step { op, site: Location::caller(), announced: false }
}

impl Future for Step {
    type Output = u64;
    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u64> {
        if self.announced {
            return Poll::Ready(RESULT.get());
        }
        self.announced = true;
        ANNOUNCED.set((self.op, self.site));
        Poll::Pending
    }
}

/// `cond_resched()`: a scheduling point; a quiescent state where RCU is not preemptible.
#[track_caller]
pub fn cond_resched() -> Step {
    step(Op::new(Kind::Yield, NULL))
}
