//! A short random prefix of choices, then stay on the current task: short executions with few preemptions, placed anywhere
//! near the beginning. The rest of the program runs as it would in production.

use super::{Policy, Profile, any_bit};
use fastrand::Rng;
use wbmodel::sync::Machine;

/// Longest prefix, in choices. Longer ones turn into a random walk.
const PREFIX_MAX: u32 = 64;

#[derive(Default)]
pub(super) struct FewChoices {
    left: u32,
}

impl Policy for FewChoices {
    fn start(&mut self, rng: &mut Rng, _: &Profile) {
        self.left = rng.u32(..PREFIX_MAX);
    }

    fn pick(&mut self, _: &Machine, enabled: u64, last: Option<usize>, rng: &mut Rng, _: &Profile) -> usize {
        if self.left > 0 {
            self.left -= 1;
            return any_bit(enabled, rng);
        }
        match last {
            Some(l) if enabled & (1 << l) != 0 => l,
            _ => enabled.trailing_zeros() as usize,
        }
    }
}
