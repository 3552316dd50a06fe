//! Random walk: the baseline that every other scheduler is compared with.

use super::{Policy, Profile, any_bit};
use fastrand::Rng;
use wbmodel::sync::Machine;

pub(super) struct Random;

impl Policy for Random {
    fn pick(&mut self, _: &Machine, enabled: u64, _: Option<usize>, rng: &mut Rng, _: &Profile) -> usize {
        any_bit(enabled, rng)
    }
}
