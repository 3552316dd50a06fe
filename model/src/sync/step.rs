//! The future that stands for one operation: it announces, yields, and passes on the result. The driver has the machine perform it.

use super::machine::with;
use super::mem::NULL;
use super::op::{Kind, Op};
use std::cell::Cell;
use std::future::Future;
use std::panic::Location;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

thread_local! {
    /// What the running text announced last, and what its last operation yielded: text and driver meet here without a look at the
    /// machine.
    static ANNOUNCED: Cell<(Op, &'static Location<'static>)> = const { Cell::new((Op { kind: Kind::Start, obj: NULL, a: 0, b: 0 }, Location::caller())) };
    static RESULT: Cell<u64> = const { Cell::new(0) };
    /// Whoever polls wants no announcements: operations happen where they stand.
    static AT_ONCE: Cell<bool> = const { Cell::new(false) };
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
    step_at(op, Location::caller())
}

/// The same, at a place of the caller's choice: that of the primitive which it is a part of.
#[inline]
pub(super) fn step_at(op: Op, site: &'static Location<'static>) -> Step {
    Step { op, site, announced: false }
}

impl Future for Step {
    type Output = u64;
    #[inline]
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<u64> {
        if AT_ONCE.get() {
            return Poll::Ready(with(|m| m.perform_at_once(self.op, self.site)));
        }
        if self.announced {
            return Poll::Ready(RESULT.get());
        }
        self.announced = true;
        ANNOUNCED.set((self.op, self.site));
        Poll::Pending
    }
}

/// Runs `f` in the running task while operations happen at once, as at boot, and yields its result.
///
/// # Panics
/// If `f` waits for something that is no operation: nothing is scheduled here.
pub fn at_once<T>(f: impl Future<Output = T>) -> T {
    debug_assert!(with(|m| m.immediate));
    let _reset = AtOnce(AT_ONCE.replace(true));
    match pin!(f).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(v) => v,
        Poll::Pending => panic!("text that should run at once waits"),
    }
}

/// Puts [`AT_ONCE`] back, also when a violation unwinds.
struct AtOnce(bool);

impl Drop for AtOnce {
    fn drop(&mut self) {
        AT_ONCE.set(self.0);
    }
}

/// `cond_resched()`: a scheduling point; a quiescent state where RCU is not preemptible.
#[track_caller]
pub fn cond_resched() -> Step {
    step(Op::new(Kind::Yield, NULL))
}
