//! What goes wrong with a disk, and when.

use super::{Kind, Ns, Outcome};
use crate::scenarios::{Fault, FaultKind};

/// From when until when, the end excluded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Window {
    from: Ns,
    to: Ns,
}

/// The faults of one disk, by what they hit.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    /// Windows that decide the fate of what is submitted in them.
    fates: Vec<(Window, FaultKind)>,
    /// Windows without any progress, in order and without overlaps.
    stalls: Vec<Window>,
    removed_at: Option<Ns>,
}

impl Faults {
    pub fn new(faults: &[Fault]) -> Faults {
        let mut out = Faults::default();
        for f in faults {
            let from = f.at_us.saturating_mul(1000);
            let window = Window { from, to: from.saturating_add(f.for_us.saturating_mul(1000)) };
            match f.kind {
                FaultKind::Stall => out.stalls.push(window),
                FaultKind::Removal => out.removed_at = Some(out.removed_at.map_or(from, |r| r.min(from))),
                FaultKind::Error | FaultKind::Torn | FaultKind::LostFlush => out.fates.push((window, f.kind)),
            }
        }
        out.stalls.sort_unstable();
        out.stalls.dedup_by(|next, kept| {
            let overlaps = next.from <= kept.to;
            if overlaps {
                kept.to = kept.to.max(next.to);
            }
            overlaps
        });
        out
    }

    /// How a request submitted now will end, unless the disk is removed first. An error goes before everything else.
    pub fn fate(&self, now: Ns, kind: Kind) -> Outcome {
        let hit = |fault| self.fates.iter().any(|(w, k)| *k == fault && (w.from..w.to).contains(&now));
        match kind {
            _ if hit(FaultKind::Error) => Outcome::Eio,
            Kind::Write if hit(FaultKind::Torn) => Outcome::Torn,
            Kind::Flush if hit(FaultKind::LostFlush) => Outcome::LostFlush,
            _ => Outcome::Done,
        }
    }

    /// When work that takes so long is done if it starts at `start` and rests during stalls.
    pub fn work(&self, start: Ns, mut need: Ns) -> Ns {
        let mut at = start;
        for w in self.stalls.iter().filter(|w| w.to > start) {
            let room = w.from.saturating_sub(at);
            // What would end at the very moment at which the stall begins has not ended before it.
            if need < room {
                break;
            }
            need -= room;
            at = w.to;
        }
        at.saturating_add(need)
    }

    /// From when on the disk is gone.
    pub fn removed_at(&self) -> Option<Ns> {
        self.removed_at
    }
}
