//! Stays on the current task and preempts it with a fixed probability.

use super::{Policy, Profile, any_bit};
use fastrand::Rng;
use wbmodel::sync::Machine;

pub(super) struct Preempt {
    one_in: u32,
}

impl Preempt {
    pub(super) fn new(one_in: u32) -> Preempt {
        Preempt { one_in: one_in.max(1) }
    }
}

impl Policy for Preempt {
    fn pick(&mut self, _: &Machine, enabled: u64, last: Option<usize>, rng: &mut Rng, _: &Profile) -> usize {
        match last {
            Some(l) if enabled & (1 << l) != 0 && rng.u32(..self.one_in) != 0 => l,
            _ => any_bit(enabled, rng),
        }
    }
}
