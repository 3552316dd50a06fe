//! The oracles: what must hold, watched from outside.
//!
//! Purpose:  one watcher that turns committed events, tracepoints and memory cells into violations of named invariants.
//! Main types: [`Invariant`] (the table [`INVARIANTS`]), [`install`].
//! Contract: an oracle never calls mirrored code to learn the answer. State predicates are judged when their lock is free,
//!           call-level ones when the call returns, leaks and lost wake-ups when the execution is over.
//! Must not know: cases, schedulers, reports.

mod invariants;
mod shadow;

pub use invariants::{INVARIANTS, Invariant, NOT_REQUIRED, Status, invariant};

use crate::linux::globals;
use crate::sync::{End, Event, Kind, Machine, Watch, with};
use shadow::Shadow;

/// Watches the machine of this thread from now on; called at boot, once the global variables exist.
///
/// Objects that exist already are taken over; what happened to them before is not judged.
pub fn install() {
    let mut o = Oracles { s: Shadow::new(globals()) };
    with(|m| {
        for a in m.mem.allocs().iter().filter(|a| a.freed == u32::MAX) {
            o.s.born(a.ty.label, a.base);
        }
        m.watch = Some(Box::new(o));
    });
}

struct Oracles {
    s: Shadow,
}

impl Watch for Oracles {
    fn event(&mut self, m: &mut Machine, e: &Event) {
        match e.kind {
            Kind::Alloc => {
                if let Some(a) = m.mem.alloc_of(e.obj) {
                    self.s.born(a.ty.label, e.obj);
                }
            }
            Kind::Free => {
                if let Some(a) = m.mem.alloc_of(e.obj) {
                    self.s.died(a.ty.label, e.obj);
                }
            }
            _ => {}
        }
    }
    fn end(&mut self, _: &mut Machine, _: End) {}
    fn hash(&self) -> u64 {
        self.s.hash()
    }
}
