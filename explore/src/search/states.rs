//! Depth-first search that remembers states and cuts an execution where it reaches one again.
//!
//! A task's future cannot be hashed, but it is a function of what the task has observed: memory, observations, pending
//! operations and grace periods together identify a state. Sleep sets keep the search from going to the same state twice
//! by swapping neighbours; a state is cut only where the sleeping tasks of the first visit sleep again, and otherwise
//! only those that do not are tried (State-Space Caching Revisited, CAV 1992).
//!
//! May miss: nothing, up to collisions of a 64-bit hash, if kernel text learns about shared state through the sync layer only.

use super::tree::{Tree, conflict, normalise};
use crate::schedulers::bits;
use crate::strategy::Strategy;
use crate::trace::{WordHash, mix};
use std::collections::HashMap;
use wbmodel::sync::{Choice, End, Machine};

struct Seen {
    /// Names of the tasks that slept when the state was first explored, and have slept on each visit since.
    slept: Vec<u16>,
    /// Preemptions that were left, at least.
    left: u32,
}

/// Every state once.
pub struct States {
    tree: Tree,
    bound: Option<u32>,
    seen: HashMap<u64, Seen, WordHash>,
    /// Footprint of the last step, for the sleep set of the next node.
    last_step: Vec<(wbmodel::sync::Ptr, wbmodel::sync::Access)>,
}

impl States {
    /// A search with the given preemption bound. A bound rules out sleep sets: the order of independent steps matters to it.
    pub fn new(bound: Option<u32>) -> States {
        States { tree: Tree::new(bound.is_none()), bound, seen: HashMap::default(), last_step: Vec::new() }
    }

    /// What is to be tried at the node just grown.
    fn look_up(&mut self, m: &Machine, last: Option<usize>) -> u64 {
        let i = self.tree.nodes.len() - 1;
        let n = &self.tree.nodes[i];
        let mut key = mix(m.state_hash(), u64::from(n.faults));
        let left = match self.bound {
            Some(b) => {
                key = mix(key, last.map_or(0, |l| u64::from(m.tasks[l].name.0)));
                b.saturating_sub(n.preemptions)
            }
            None => 0,
        };
        let asleep = n.sleeping();
        let open = n.within(self.bound) & !asleep;
        match self.seen.get_mut(&key) {
            None => {
                self.seen.insert(key, Seen { slept: bits(asleep).map(|s| m.tasks[s].name.0).collect(), left });
                open
            }
            Some(old) if left > old.left => {
                old.left = left;
                open
            }
            Some(old) => {
                let awake = bits(open).filter(|&s| old.slept.contains(&m.tasks[s].name.0)).fold(0, |x, s| x | 1 << s);
                old.slept.retain(|&t| bits(asleep).any(|s| m.tasks[s].name.0 == t));
                awake
            }
        }
    }
}

impl Strategy for States {
    fn begin(&mut self, _: u64) -> bool {
        self.tree.next_path()
    }

    fn pick(&mut self, m: &mut Machine, enabled: u64, last: Option<usize>) -> Option<usize> {
        let end = self.tree.nodes.len();
        // There, footprints do not show all that makes a task runnable.
        self.tree.sleep_sets &= m.config.preempt_rcu && !m.config.shared_cpus;
        if let Some(s) = self.tree.follow() {
            m.mem.footprint_on = self.tree.sleep_sets && self.tree.at == end;
            return Some(s);
        }
        self.tree.grow(enabled, last);
        let i = self.tree.nodes.len() - 1;
        if self.tree.sleep_sets && i > 0 {
            let (above, here) = self.tree.nodes.split_at_mut(i);
            let parent = &above[i - 1];
            here[0].sleep.extend(parent.sleep.iter().filter(|x| x.slot != parent.slot && !conflict(&x.footprint, &self.last_step)).cloned());
        }
        let todo = self.look_up(m, last);
        if todo == 0 {
            self.tree.shrink();
            return None;
        }
        self.tree.nodes[i].todo = todo;
        m.mem.footprint_on = self.tree.sleep_sets;
        Some(self.tree.take(match last {
            Some(l) if todo & (1 << l) != 0 => l,
            _ => todo.trailing_zeros() as usize,
        }))
    }

    fn choose(&mut self, m: &Machine, c: Choice) -> u32 {
        self.tree.choose(m, c)
    }

    fn stepped(&mut self, m: &mut Machine, _: usize) {
        if self.tree.sleep_sets && self.tree.at == self.tree.nodes.len() {
            self.last_step.clear();
            self.last_step.extend_from_slice(&m.mem.footprint);
            normalise(&mut self.last_step);
            let last = self.tree.at - 1;
            self.tree.nodes[last].footprint.extend_from_slice(&self.last_step);
        }
    }

    fn ended(&mut self, _: &mut Machine, end: End) {
        if end == End::Fatal
            && let Some(n) = self.tree.at.checked_sub(1).and_then(|i| self.tree.nodes.get_mut(i))
        {
            n.fatal = true;
        }
    }

    fn needs(&self) -> (bool, bool) {
        (self.tree.sleep_sets, true)
    }

    fn covered(&self) -> bool {
        true
    }

    fn states(&self) -> u64 {
        self.seen.len() as u64
    }

    fn bound(&self) -> Option<u32> {
        self.bound
    }
}
