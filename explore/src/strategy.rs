//! Who decides which task goes next and what a choice answers.

use wbmodel::sync::{Choice, End, Machine};

/// A scheduler: decides one execution after another.
pub trait Strategy {
    /// A new execution begins; `nth` counts from 0. False: nothing is left to explore.
    fn begin(&mut self, nth: u64) -> bool;
    /// Picks a slot out of the non-empty mask `enabled`; `last` is the slot that ran before, if it is still alive.
    /// `None` cuts the execution short.
    fn pick(&mut self, m: &mut Machine, enabled: u64, last: Option<usize>) -> Option<usize>;
    /// Answers a choice.
    fn choose(&mut self, m: &Machine, c: Choice) -> u32;
    /// A step of slot `s` was performed: its footprint is `m.mem.footprint`, its events are at the end of `m.log`.
    /// Also called for the step that a fatal violation broke off.
    fn stepped(&mut self, m: &mut Machine, s: usize) {
        let _ = (m, s);
    }
    /// The execution is over.
    fn ended(&mut self, m: &mut Machine, end: End) {
        let _ = (m, end);
    }
    /// What the strategy needs the machine to record: (footprints, observation hashes).
    fn needs(&self) -> (bool, bool) {
        (false, false)
    }
    /// Of equal tasks only one need go first.
    fn twins(&self) -> bool {
        false
    }
    /// After [`Strategy::begin`] said that nothing is left: was every execution within the bounds covered?
    fn covered(&self) -> bool {
        false
    }
    /// States remembered, for searches that remember them.
    fn states(&self) -> u64 {
        0
    }
    /// Largest number of preemptions up to which everything was covered, for bounded searches.
    fn bound(&self) -> Option<u32> {
        None
    }
}

impl Strategy for Box<dyn Strategy> {
    fn begin(&mut self, nth: u64) -> bool {
        (**self).begin(nth)
    }
    fn pick(&mut self, m: &mut Machine, enabled: u64, last: Option<usize>) -> Option<usize> {
        (**self).pick(m, enabled, last)
    }
    fn choose(&mut self, m: &Machine, c: Choice) -> u32 {
        (**self).choose(m, c)
    }
    fn stepped(&mut self, m: &mut Machine, s: usize) {
        (**self).stepped(m, s);
    }
    fn ended(&mut self, m: &mut Machine, end: End) {
        (**self).ended(m, end);
    }
    fn needs(&self) -> (bool, bool) {
        (**self).needs()
    }
    fn twins(&self) -> bool {
        (**self).twins()
    }
    fn covered(&self) -> bool {
        (**self).covered()
    }
    fn states(&self) -> u64 {
        (**self).states()
    }
    fn bound(&self) -> Option<u32> {
        (**self).bound()
    }
}
