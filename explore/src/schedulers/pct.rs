//! PCT: random task priorities with a few demotions (A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs,
//! ASPLOS 2010). Only points with two or more runnable tasks count, which raises the guaranteed probability.

use super::{Policy, Profile, bits};
use fastrand::Rng;
use wbmodel::sync::{Kind, Machine};

pub(super) struct Pct {
    depth: u32,
    change: Vec<u32>,
    at: u32,
    /// Task in each slot, to notice new ones, and its priority: random ones are above all demoted ones.
    slots: [(u16, u64); 64],
    demoted: u64,
}

impl Pct {
    pub(super) fn new(depth: u32) -> Pct {
        Pct { depth: depth.max(1), change: Vec::new(), at: 0, slots: [(0, 0); 64], demoted: 0 }
    }
}

/// Random priorities lie above this; demotions count down from it.
const RANDOM: u64 = 1 << 62;

impl Policy for Pct {
    fn start(&mut self, rng: &mut Rng, profile: &Profile) {
        self.slots = [(0, 0); 64];
        self.at = 0;
        self.demoted = RANDOM;
        self.change.clear();
        let k = profile.choice_points().max(1);
        self.change.extend((1..self.depth).map(|_| rng.u32(..k)));
    }

    fn pick(&mut self, m: &Machine, enabled: u64, _: Option<usize>, rng: &mut Rng, _: &Profile) -> usize {
        let mut best = usize::MAX;
        for s in bits(enabled) {
            let name = m.tasks[s].name.0;
            if self.slots[s].0 != name {
                self.slots[s] = (name, RANDOM | rng.u64(..RANDOM));
            }
            if best == usize::MAX || self.slots[s].1 > self.slots[best].1 {
                best = s;
            }
        }
        // A task about to be demoted, or one that only offers the CPU, falls below all others; then choose again.
        let demote = self.change.iter().position(|&c| c == self.at);
        if demote.is_some() || m.tasks[best].pending.kind == Kind::Yield {
            if let Some(i) = demote {
                self.change.swap_remove(i);
            }
            self.demoted -= 1;
            self.slots[best].1 = self.demoted;
            best = bits(enabled).max_by_key(|&s| self.slots[s].1).unwrap_or(best);
        }
        self.at += 1;
        best
    }
}
