//! Sampling schedulers. Each is a [`Policy`]; [`Sampler`] makes a [`Strategy`] of it: random numbers, choices, profile.
//!
//! `(scheduler, seed, index)` names an execution exactly: what a policy has to know about the program (its length, who
//! does what) comes from a few profiling executions that depend on the seed alone, never from earlier samples.

mod delay;
mod few_choices;
mod pct;
mod pos;
mod preempt;
mod profile;
mod random;
mod surw;
mod urw;

pub use profile::Profile;

use crate::strategy::Strategy;
use crate::trace::mix;
use fastrand::Rng;
use std::fmt;
use std::str::FromStr;
use wbmodel::sync::{Choice, End, Machine, Op};

/// A sampling scheduler and its parameters.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scheduler {
    /// Uniform among the runnable tasks at every point.
    Random,
    /// Random priorities with `depth - 1` demotions: finds what needs `depth` ordering constraints.
    Pct {
        /// Depth, at least 1.
        depth: u32,
    },
    /// Tasks weighted by the steps they have left: nearly uniform over interleavings.
    Urw,
    /// A random priority an operation, redrawn when operations conflict.
    Pos,
    /// Uniform over the orders of the operations on one shared object, the rest left free.
    Surw,
    /// A fixed order of tasks, run until they block, with so many randomly placed delays.
    Delay {
        /// Number of delays.
        delays: u32,
    },
    /// A short random prefix of choices, then stay on the current task.
    FewChoices,
    /// Stay on the current task, but switch with probability 1 in `one_in`.
    Preempt {
        /// Mean length of a run, at least 1.
        one_in: u32,
    },
    /// All of these in rotation.
    Portfolio,
}

/// Members of the portfolio, in order of rotation. No scheduler beats another on every shape of bug.
pub const PORTFOLIO: [Scheduler; 12] = [
    Scheduler::FewChoices,
    Scheduler::Random,
    Scheduler::Pos,
    Scheduler::Pct { depth: 3 },
    Scheduler::FewChoices,
    Scheduler::Surw,
    Scheduler::Preempt { one_in: 8 },
    Scheduler::Pct { depth: 2 },
    Scheduler::Delay { delays: 2 },
    Scheduler::Urw,
    Scheduler::Pct { depth: 5 },
    Scheduler::Delay { delays: 4 },
];

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheduler::Random => f.write_str("random"),
            Scheduler::Pct { depth } => write!(f, "pct:{depth}"),
            Scheduler::Urw => f.write_str("urw"),
            Scheduler::Pos => f.write_str("pos"),
            Scheduler::Surw => f.write_str("surw"),
            Scheduler::Delay { delays } => write!(f, "delay:{delays}"),
            Scheduler::FewChoices => f.write_str("few-choices"),
            Scheduler::Preempt { one_in } => write!(f, "preempt:{one_in}"),
            Scheduler::Portfolio => f.write_str("portfolio"),
        }
    }
}

/// The text names no scheduler.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownScheduler(pub String);

impl fmt::Display for UnknownScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unknown scheduler `{}`: one of random, pct[:depth], urw, pos, surw, delay[:n], few-choices, preempt[:n], portfolio", self.0)
    }
}

impl std::error::Error for UnknownScheduler {}

impl FromStr for Scheduler {
    type Err = UnknownScheduler;
    fn from_str(s: &str) -> Result<Self, UnknownScheduler> {
        let unknown = || UnknownScheduler(s.to_string());
        let (name, arg) = match s.split_once(':') {
            Some((n, a)) => (n, Some(a.parse::<u32>().ok().filter(|a| (1..=1000).contains(a)).ok_or_else(unknown)?)),
            None => (s, None),
        };
        match (name, arg) {
            ("random", None) => Ok(Scheduler::Random),
            ("pct", d) => Ok(Scheduler::Pct { depth: d.unwrap_or(3) }),
            ("urw", None) => Ok(Scheduler::Urw),
            ("pos", None) => Ok(Scheduler::Pos),
            ("surw", None) => Ok(Scheduler::Surw),
            ("delay", n) => Ok(Scheduler::Delay { delays: n.unwrap_or(2) }),
            ("few-choices", None) => Ok(Scheduler::FewChoices),
            ("preempt", n) => Ok(Scheduler::Preempt { one_in: n.unwrap_or(8) }),
            ("portfolio", None) => Ok(Scheduler::Portfolio),
            _ => Err(unknown()),
        }
    }
}

/// Decides among two or more runnable tasks.
trait Policy {
    /// A new execution begins.
    fn start(&mut self, rng: &mut Rng, profile: &Profile) {
        let _ = (rng, profile);
    }
    /// Picks a slot of `enabled`, which has two bits or more.
    fn pick(&mut self, m: &Machine, enabled: u64, last: Option<usize>, rng: &mut Rng, profile: &Profile) -> usize;
    /// Slot `s` performed `op`.
    fn stepped(&mut self, m: &Machine, s: usize, op: Op, rng: &mut Rng, profile: &Profile) {
        let _ = (m, s, op, rng, profile);
    }
}

fn policy(s: Scheduler) -> Box<dyn Policy> {
    match s {
        Scheduler::Random => Box::new(random::Random),
        Scheduler::Pct { depth } => Box::new(pct::Pct::new(depth)),
        Scheduler::Urw => Box::new(urw::Urw::default()),
        Scheduler::Pos => Box::new(pos::Pos::default()),
        Scheduler::Surw => Box::new(surw::Surw::default()),
        Scheduler::Delay { delays } => Box::new(delay::Delay::new(delays)),
        Scheduler::FewChoices | Scheduler::Portfolio => Box::new(few_choices::FewChoices::default()),
        Scheduler::Preempt { one_in } => Box::new(preempt::Preempt::new(one_in)),
    }
}

/// The `n`th set bit of `mask`, counted from 0; the last one if there are fewer.
fn nth_bit(mut mask: u64, n: u32) -> usize {
    for _ in 0..n {
        if mask & (mask - 1) == 0 {
            break;
        }
        mask &= mask - 1;
    }
    mask.trailing_zeros() as usize
}

/// A uniformly drawn set bit of a non-empty mask.
fn any_bit(mask: u64, rng: &mut Rng) -> usize {
    nth_bit(mask, rng.u32(..mask.count_ones()))
}

/// Slots of a mask, ascending.
pub(crate) fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let s = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            s
        })
    })
}

/// Executions that look at the program before sampling begins.
const PROFILING: u64 = 6;

/// Samples executions with one policy, or with several in rotation.
pub struct Sampler {
    policies: Vec<Box<dyn Policy>>,
    current: usize,
    seed: u64,
    first: u64,
    stride: u64,
    rng: Rng,
    profile: Profile,
    profiled: u64,
    profiling: bool,
    op: Op,
    faults: u32,
    /// A choice is answered other than 0 once in so many times; 0: never.
    fault_one_in: u32,
}

impl Sampler {
    /// Samples the indices `first`, `first + stride`, ... of the campaign `seed`.
    pub fn new(scheduler: Scheduler, seed: u64, first: u64, stride: u64) -> Sampler {
        let members: &[Scheduler] = if scheduler == Scheduler::Portfolio { &PORTFOLIO } else { &[scheduler] };
        Sampler {
            policies: members.iter().map(|&s| policy(s)).collect(),
            current: 0,
            seed,
            first,
            stride: stride.max(1),
            rng: Rng::with_seed(seed),
            profile: Profile::default(),
            profiled: 0,
            profiling: false,
            op: Op::new(wbmodel::sync::Kind::Start, wbmodel::sync::NULL),
            faults: 0,
            fault_one_in: 0,
        }
    }

    /// Prepares the next profiling execution; false once the profile is complete. Call before the first [`Strategy::begin`].
    pub fn begin_profile(&mut self) -> bool {
        self.profiling = self.profiled < PROFILING;
        if self.profiling {
            self.rng = Rng::with_seed(mix(self.seed, !self.profiled));
            self.profiled += 1;
            self.faults = 0;
            self.fault_one_in = 0;
            self.profile.begin();
        }
        self.profiling
    }
}

impl Strategy for Sampler {
    fn begin(&mut self, nth: u64) -> bool {
        let index = self.first.wrapping_add(nth.wrapping_mul(self.stride));
        self.rng = Rng::with_seed(mix(self.seed, index));
        self.current = (index % self.policies.len() as u64) as usize;
        self.profiling = false;
        self.faults = 0;
        // Half of the executions see no fault at all, so that faults do not hide what happens without.
        self.fault_one_in = [0, 0, 2, 8][self.rng.usize(..4)];
        self.policies[self.current].start(&mut self.rng, &self.profile);
        true
    }

    fn pick(&mut self, m: &mut Machine, enabled: u64, last: Option<usize>) -> Option<usize> {
        let s = if enabled & (enabled - 1) == 0 {
            enabled.trailing_zeros() as usize
        } else if self.profiling {
            self.profile.choice_point();
            // Every other one stays on its task, so that both long and short executions are seen.
            match last {
                Some(l) if self.profiled & 1 == 0 && enabled & (1 << l) != 0 => l,
                _ => any_bit(enabled, &mut self.rng),
            }
        } else {
            self.policies[self.current].pick(m, enabled, last, &mut self.rng, &self.profile)
        };
        self.op = m.tasks[s].pending;
        if self.profiling {
            self.profile.step(m, s);
        }
        Some(s)
    }

    fn choose(&mut self, m: &Machine, c: Choice) -> u32 {
        if let Choice::Stale(n) = c {
            // The machine limits how many; half of them old ones.
            return if self.profiling || self.rng.bool() { 0 } else { self.rng.u32(..n) };
        }
        if self.fault_one_in == 0 || self.faults >= m.config.max_faults || self.rng.u32(..self.fault_one_in) != 0 {
            return 0;
        }
        self.faults += 1;
        self.rng.u32(1..c.arity().max(2))
    }

    fn stepped(&mut self, m: &mut Machine, s: usize) {
        if self.profiling {
            self.profile.stepped(m, s);
        } else {
            self.policies[self.current].stepped(m, s, self.op, &mut self.rng, &self.profile);
        }
    }

    fn ended(&mut self, _: &mut Machine, _: End) {
        if self.profiling {
            self.profile.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedulers_text_names_it() {
        for s in PORTFOLIO.iter().chain(&[Scheduler::Portfolio]) {
            assert_eq!(s.to_string().parse(), Ok(*s));
        }
        for bad in ["", "pct:", "pct:0", "pct:x", "random:3", "delay:-1", "preempt:99999999999"] {
            assert_eq!(bad.parse::<Scheduler>(), Err(UnknownScheduler(bad.into())));
        }
    }

    #[test]
    fn the_nth_bit_of_a_mask_is_counted_from_below() {
        assert_eq!((nth_bit(0b1010, 0), nth_bit(0b1010, 1), nth_bit(0b1010, 5), nth_bit(1 << 63, 0)), (1, 3, 3, 63));
        assert_eq!(bits(0b1010).collect::<Vec<_>>(), [1, 3]);
    }
}
