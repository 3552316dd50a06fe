//! Plain enumeration of all schedules.

use super::tree::Tree;
use crate::strategy::Strategy;
use wbmodel::sync::{Choice, Machine};

/// Every schedule, or every schedule with at most so many preemptions.
pub struct Dfs {
    tree: Tree,
    bound: Option<u32>,
}

impl Dfs {
    /// An enumeration with the given preemption bound.
    pub fn new(bound: Option<u32>) -> Dfs {
        Dfs { tree: Tree::default(), bound }
    }
}

impl Strategy for Dfs {
    fn begin(&mut self, _: u64) -> bool {
        self.tree.next_path()
    }

    fn pick(&mut self, _: &mut Machine, enabled: u64, last: Option<usize>) -> Option<usize> {
        if let Some(s) = self.tree.follow() {
            return Some(s);
        }
        let bound = self.bound;
        let n = self.tree.grow(enabled, last);
        n.todo = n.within(bound);
        let s = match last {
            Some(l) if n.todo & (1 << l) != 0 => l,
            _ => n.todo.trailing_zeros() as usize,
        };
        Some(self.tree.take(s))
    }

    fn choose(&mut self, m: &Machine, c: Choice) -> u32 {
        self.tree.choose(m, c)
    }

    fn covered(&self) -> bool {
        true
    }

    fn bound(&self) -> Option<u32> {
        self.bound
    }
}
