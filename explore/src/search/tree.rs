//! The path of a depth-first search: one node a step, with what is still to be tried there.

use crate::schedulers::bits;
use wbmodel::sync::{Access, Choice, Machine, Ptr};

/// Cells that a step accessed, and how; sorted, without repetitions.
pub(super) type Footprint = Vec<(Ptr, Access)>;

/// Do two footprints conflict?
pub(super) fn conflict(a: &[(Ptr, Access)], b: &[(Ptr, Access)]) -> bool {
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        if a[i].0 < b[j].0 {
            i += 1;
        } else if b[j].0 < a[i].0 {
            j += 1;
        } else {
            let p = a[i].0;
            let n = a[i..].iter().take_while(|x| x.0 == p).count();
            let k = b[j..].iter().take_while(|x| x.0 == p).count();
            if a[i..i + n].iter().any(|x| b[j..j + k].iter().any(|y| x.1.conflicts(y.1))) {
                return true;
            }
            i += n;
            j += k;
        }
    }
    false
}

/// Sorts a footprint and removes repetitions.
pub(super) fn normalise(f: &mut Footprint) {
    f.sort_unstable_by_key(|x| u64::from(x.0.0) << 8 | x.1 as u64);
    f.dedup();
}

/// A task that need not be run until something conflicts with the step it would take.
#[derive(Clone, Debug)]
pub(super) struct Sleeper {
    pub slot: usize,
    /// Footprint of that step, over all answers to its choices.
    pub footprint: Footprint,
}

/// One step of the current path.
#[derive(Default, Debug)]
pub(super) struct Node {
    /// Slots that could run.
    pub enabled: u64,
    /// Slots to try, tried ones included.
    pub todo: u64,
    /// Slots tried with every answer to their choices.
    pub done: u64,
    /// Slot being tried.
    pub slot: usize,
    /// Its choices in this step: answer, number of answers to try.
    pub choices: Vec<(u32, u32)>,
    /// Tasks that sleep here; those done are among them when sleep sets are kept.
    pub sleep: Vec<Sleeper>,
    /// What the slot being tried accesses.
    pub footprint: Footprint,
    /// The slot being tried ended the execution: its step depends on everything.
    pub fatal: bool,
    /// Slot that ran before, if it could go on.
    pub last: Option<usize>,
    /// Preemptions before this step.
    pub preemptions: u32,
    /// Choices answered other than 0 before this step.
    pub faults: u32,
}

impl Node {
    pub fn sleeping(&self) -> u64 {
        self.sleep.iter().fold(0, |m, s| m | 1 << s.slot)
    }

    /// Number of preemptions after the step of `slot`.
    pub fn preemptions_with(&self, slot: usize) -> u32 {
        self.preemptions + u32::from(self.last.is_some_and(|l| l != slot && self.enabled & (1 << l) != 0))
    }

    /// Slots of the enabled ones that a preemption bound allows.
    pub fn within(&self, bound: Option<u32>) -> u64 {
        match bound {
            Some(b) => bits(self.enabled).filter(|&s| self.preemptions_with(s) <= b).fold(0, |m, s| m | 1 << s),
            None => self.enabled,
        }
    }

    fn next_answer(&mut self) -> bool {
        while let Some(c) = self.choices.last_mut() {
            c.0 += 1;
            if c.0 < c.1 {
                return true;
            }
            self.choices.pop();
        }
        false
    }
}

/// The path and the position of the execution under way on it.
#[derive(Default)]
pub(super) struct Tree {
    pub nodes: Vec<Node>,
    /// Steps that the execution under way has picked.
    pub at: usize,
    /// Keep sleep sets.
    pub sleep_sets: bool,
    started: bool,
    answered: usize,
    faults: u32,
    spare: Vec<Node>,
}

impl Tree {
    pub fn new(sleep_sets: bool) -> Tree {
        Tree { sleep_sets, ..Tree::default() }
    }

    /// Moves to the next path; false once there is none.
    pub fn next_path(&mut self) -> bool {
        self.next_path_telling(&mut |_, _| {})
    }

    /// The same; `left` hears of each step of the last path that is given up, deepest first, as (node, false), and of each
    /// node that is done with as (node, true).
    pub fn next_path_telling(&mut self, left: &mut dyn FnMut(usize, bool)) -> bool {
        self.at = 0;
        self.faults = 0;
        self.answered = 0;
        if !self.started {
            self.started = true;
            return true;
        }
        while let Some(i) = self.nodes.len().checked_sub(1) {
            left(i, false);
            let n = &mut self.nodes[i];
            if n.next_answer() {
                return true;
            }
            n.done |= 1 << n.slot;
            if self.sleep_sets && !n.fatal {
                let mut footprint = std::mem::take(&mut n.footprint);
                normalise(&mut footprint);
                n.sleep.push(Sleeper { slot: n.slot, footprint });
            }
            let rest = n.todo & !n.done & !n.sleeping();
            if rest != 0 {
                n.slot = rest.trailing_zeros() as usize;
                n.footprint.clear();
                n.fatal = false;
                return true;
            }
            left(i, true);
            if let Some(mut n) = self.nodes.pop() {
                n.choices.clear();
                n.footprint.clear();
                n.sleep.clear();
                self.spare.push(n);
            }
        }
        false
    }

    /// Is the execution still on the part of the path that it shares with the last one? Then follows it.
    pub fn follow(&mut self) -> Option<usize> {
        let n = self.nodes.get(self.at)?;
        self.at += 1;
        self.answered = 0;
        Some(n.slot)
    }

    /// A new node at the end of the path; its slot is picked by [`Tree::take`].
    pub fn grow(&mut self, enabled: u64, last: Option<usize>) -> &mut Node {
        let preemptions = self.nodes.last().map_or(0, |n| n.preemptions_with(n.slot));
        let mut n = self.spare.pop().unwrap_or_default();
        n.enabled = enabled;
        n.todo = 0;
        n.done = 0;
        n.fatal = false;
        n.last = last;
        n.preemptions = preemptions;
        n.faults = self.faults;
        self.nodes.push(n);
        let i = self.nodes.len() - 1;
        &mut self.nodes[i]
    }

    /// Removes the node just grown: the execution is cut before it.
    pub fn shrink(&mut self) {
        if let Some(mut n) = self.nodes.pop() {
            n.sleep.clear();
            self.spare.push(n);
        }
    }

    /// Picks `slot` at the node just grown.
    pub fn take(&mut self, slot: usize) -> usize {
        let i = self.nodes.len() - 1;
        self.nodes[i].slot = slot;
        self.nodes[i].todo |= 1 << slot;
        self.at = self.nodes.len();
        self.answered = 0;
        slot
    }

    /// Answers a choice of the step under way.
    pub fn choose(&mut self, m: &Machine, c: Choice) -> u32 {
        // The machine itself limits stale loads.
        let counts = !matches!(c, Choice::Stale(_));
        let room = !counts || self.faults < m.config.max_faults;
        let Some(n) = self.at.checked_sub(1).and_then(|i| self.nodes.get_mut(i)) else { return 0 };
        if self.answered == n.choices.len() {
            n.choices.push((0, if room { c.arity() } else { 1 }));
        }
        let v = n.choices[self.answered].0;
        self.answered += 1;
        self.faults += u32::from(v != 0 && counts);
        v
    }
}
