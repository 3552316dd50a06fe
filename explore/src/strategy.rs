//! Who decides which task goes next and what a choice answers.

use wbmodel::sync::{Choice, Machine};

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
    fn stepped(&mut self, m: &mut Machine, s: usize) {
        let _ = (m, s);
    }
}
