//! URW: tasks weighted by the steps they have left, which makes every interleaving about equally likely
//! (Selectively Uniform Concurrency Testing, ASPLOS 2025). What a task will start counts for it until it is started.

use super::{Policy, Profile, bits};
use fastrand::Rng;
use wbmodel::sync::{Machine, TaskName};

pub(super) struct Urw {
    /// Task in each slot and the steps expected of it and of what it has yet to start.
    slots: [(TaskName, u32); 64],
}

impl Default for Urw {
    fn default() -> Self {
        Urw { slots: [(TaskName(0), 0); 64] }
    }
}

impl Policy for Urw {
    fn start(&mut self, _: &mut Rng, _: &Profile) {
        *self = Urw::default();
    }

    fn pick(&mut self, m: &Machine, enabled: u64, _: Option<usize>, rng: &mut Rng, profile: &Profile) -> usize {
        for (s, t) in m.tasks.iter().enumerate().filter(|(_, t)| t.live) {
            if self.slots[s].0 != t.name {
                let total = profile.total(t.name);
                self.slots[s] = (t.name, total);
                if let Some(p) = profile.parent(t.name)
                    && let Some(i) = self.slots.iter().position(|x| x.0 == p)
                {
                    self.slots[i].1 = self.slots[i].1.saturating_sub(total);
                }
            }
        }
        // Never zero: the estimate may be short.
        let weight = |s: usize| u64::from(self.slots[s].1.saturating_sub(m.tasks[s].steps).max(1));
        let sum: u64 = bits(enabled).map(weight).sum();
        let mut x = rng.u64(..sum);
        for s in bits(enabled) {
            if x < weight(s) {
                return s;
            }
            x -= weight(s);
        }
        enabled.trailing_zeros() as usize
    }
}
