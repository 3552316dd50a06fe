//! Delay bounding, randomised: a deterministic scheduler (run until block, then the next task in a random order) that is
//! made to skip its choice at a few randomly drawn points.

use super::{Policy, Profile, nth_bit};
use fastrand::Rng;
use wbmodel::sync::Machine;

pub(super) struct Delay {
    delays: u32,
    points: Vec<u32>,
    at: u32,
    /// A random rotation of slots stands for the random order of tasks.
    rotate: u32,
}

impl Delay {
    pub(super) fn new(delays: u32) -> Delay {
        Delay { delays, points: Vec::new(), at: 0, rotate: 0 }
    }
}

impl Policy for Delay {
    fn start(&mut self, rng: &mut Rng, profile: &Profile) {
        self.at = 0;
        self.rotate = rng.u32(..64);
        self.points.clear();
        let k = profile.choice_points().max(1);
        self.points.extend((0..self.delays).map(|_| rng.u32(..k)));
    }

    fn pick(&mut self, _: &Machine, enabled: u64, last: Option<usize>, _: &mut Rng, _: &Profile) -> usize {
        // A point drawn twice skips twice.
        let skip = self.points.iter().filter(|&&p| p == self.at).count() as u32;
        self.at += 1;
        let from = match last {
            Some(l) if enabled & (1 << l) != 0 => l as u32,
            Some(l) => l as u32 + 1,
            None => self.rotate,
        } % 64;
        let turned = enabled.rotate_right(from);
        (nth_bit(turned, skip % enabled.count_ones()) + from as usize) % 64
    }
}
