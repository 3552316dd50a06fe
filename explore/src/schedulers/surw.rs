//! SURW: the operations on one shared object in uniformly drawn order, everything else left free (Selectively Uniform
//! Concurrency Testing, ASPLOS 2025). The object is drawn anew for every execution.

use super::{Policy, Profile, any_bit, bits};
use fastrand::Rng;
use wbmodel::sync::{Machine, NULL, Op, Ptr, TaskName};

pub(super) struct Surw {
    obj: Ptr,
    /// Operations on the object done so far, by task in its slot.
    done: [(TaskName, u32); 64],
    intended: Option<TaskName>,
}

impl Default for Surw {
    fn default() -> Self {
        Surw { obj: NULL, done: [(TaskName(0), 0); 64], intended: None }
    }
}

impl Surw {
    /// Draws the task whose operation on the object comes next, by what it has left.
    fn intend(&mut self, m: &Machine, rng: &mut Rng, profile: &Profile) {
        for (s, t) in m.tasks.iter().enumerate().filter(|(_, t)| t.live) {
            if self.done[s].0 != t.name {
                self.done[s] = (t.name, 0);
            }
        }
        let left = |s: usize| {
            let t = &m.tasks[s];
            if !t.live {
                return 0;
            }
            let waiting = u32::from(t.pending.obj == self.obj);
            profile.ops_on(self.obj, t.name).saturating_sub(self.done[s].1).max(waiting)
        };
        let sum: u32 = (0..m.tasks.len()).map(left).sum();
        self.intended = None;
        if sum > 0 {
            let mut x = rng.u32(..sum);
            for s in 0..m.tasks.len() {
                if x < left(s) {
                    self.intended = Some(m.tasks[s].name);
                    return;
                }
                x -= left(s);
            }
        }
    }
}

impl Policy for Surw {
    fn start(&mut self, rng: &mut Rng, profile: &Profile) {
        *self = Surw::default();
        let shared = profile.shared();
        if !shared.is_empty() {
            self.obj = shared[rng.usize(..shared.len())];
        }
    }

    fn pick(&mut self, m: &Machine, enabled: u64, _: Option<usize>, rng: &mut Rng, profile: &Profile) -> usize {
        if !self.intended.is_some_and(|i| m.tasks.iter().any(|t| t.live && t.name == i)) {
            self.intend(m, rng, profile);
        }
        let free = |s: &usize| {
            let t = &m.tasks[*s];
            t.pending.obj != self.obj || Some(t.name) == self.intended
        };
        let mask = bits(enabled).filter(free).fold(0, |x, s| x | 1u64 << s);
        if mask != 0 {
            return any_bit(mask, rng);
        }
        // Everybody waits for a task that cannot come: let go.
        let s = any_bit(enabled, rng);
        self.intended = Some(m.tasks[s].name);
        s
    }

    fn stepped(&mut self, _: &Machine, s: usize, op: Op, _: &mut Rng, _: &Profile) {
        if op.obj == self.obj {
            self.intended = None;
            self.done[s].1 += 1;
        }
    }
}
