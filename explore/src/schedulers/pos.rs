//! POS: a random priority an operation, redrawn for the operations that conflict with the one just performed
//! (Partial Order Aware Concurrency Sampling, CAV 2018).

use super::{Policy, Profile, bits};
use fastrand::Rng;
use wbmodel::sync::{Kind, Machine, Op};

pub(super) struct Pos {
    /// Task in each slot and the priority of its next operation; 0: not drawn yet.
    slots: [(u16, u64); 64],
}

impl Default for Pos {
    fn default() -> Self {
        Pos { slots: [(0, 0); 64] }
    }
}

/// Do two announced operations concern each other? An approximation by object: it only shapes the distribution.
pub(super) fn conflict(a: Op, b: Op) -> bool {
    a.obj == b.obj && !a.obj.is_null() && !(a.kind == Kind::Load && b.kind == Kind::Load)
}

impl Policy for Pos {
    fn start(&mut self, _: &mut Rng, _: &Profile) {
        self.slots = [(0, 0); 64];
    }

    fn pick(&mut self, m: &Machine, enabled: u64, _: Option<usize>, rng: &mut Rng, _: &Profile) -> usize {
        let mut best = 0;
        let mut high = 0;
        for s in bits(enabled) {
            let name = m.tasks[s].name.0;
            if self.slots[s].0 != name || self.slots[s].1 == 0 {
                self.slots[s] = (name, rng.u64(1..));
            }
            if self.slots[s].1 > high {
                (best, high) = (s, self.slots[s].1);
            }
        }
        best
    }

    fn stepped(&mut self, m: &Machine, s: usize, op: Op, _: &mut Rng, _: &Profile) {
        self.slots[s].1 = 0;
        for (i, t) in m.tasks.iter().enumerate().filter(|(_, t)| t.live) {
            if conflict(op, t.pending) {
                self.slots[i].1 = 0;
            }
        }
    }
}
