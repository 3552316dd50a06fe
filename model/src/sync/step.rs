//! The future that drives one operation: announce, yield, act, commit. It has no semantics of its own.

use super::machine::with;
use super::mem::NULL;
use super::op::{Kind, Op};
use std::future::Future;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll};

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
        with(|m| {
            if !self.announced {
                m.announce(self.op, self.site);
                if !m.immediate {
                    self.announced = true;
                    return Poll::Pending;
                }
            }
            Poll::Ready(m.perform())
        })
    }
}

/// `cond_resched()`: a scheduling point; a quiescent state where RCU is not preemptible.
#[track_caller]
pub fn cond_resched() -> Step {
    step(Op::new(Kind::Yield, NULL))
}
