//! What can happen below a state, as far as it may race with something above it.
//!
//! A search that cuts where it reaches a state again must still learn which steps on the way there race with steps that
//! come after (Efficient Stateful Dynamic Partial-Order Reduction, SPIN 2008). A [`Summary`] holds every access that some task
//! makes below the state, each with its *past*: tasks and accesses that come before it below the state on every way to it, and whose
//! steps such a way may begin with, so that a search need not try everything above to get there.
//! An access that something in its past covers is left out: whatever conflicts with it is ordered before it already.

use crate::trace::WordHash;
use std::collections::HashMap;
use wbmodel::sync::{Access, Ptr};

/// Number of an access (cell and kind) in [`Accesses`].
pub(super) type Acc = u32;

/// A set of small numbers.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub(super) struct Bits(Vec<u64>);

impl Bits {
    pub fn set(&mut self, i: usize) {
        if self.0.len() <= i / 64 {
            self.0.resize(i / 64 + 1, 0);
        }
        self.0[i / 64] |= 1 << (i % 64);
    }
    pub fn has(&self, i: usize) -> bool {
        self.0.get(i / 64).is_some_and(|w| w & 1 << (i % 64) != 0)
    }
    pub fn meets(&self, o: &Bits) -> bool {
        self.0.iter().zip(&o.0).any(|(a, b)| a & b != 0)
    }
    pub fn join(&mut self, o: &Bits) {
        if self.0.len() < o.0.len() {
            self.0.resize(o.0.len(), 0);
        }
        for (a, b) in self.0.iter_mut().zip(&o.0) {
            *a |= b;
        }
    }
    fn meet(&mut self, o: &Bits) {
        self.0.truncate(o.0.len());
        for (a, b) in self.0.iter_mut().zip(&o.0) {
            *a &= b;
        }
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(k, &w)| crate::schedulers::bits(w).map(move |b| k * 64 + b))
    }
}

/// The accesses met in a search, what one of them means for another of the same cell, and the pasts met.
#[derive(Default)]
pub(super) struct Accesses {
    ids: HashMap<u64, Acc, WordHash>,
    /// Cell and kind.
    pub list: Vec<(Ptr, Access)>,
    by_cell: HashMap<Ptr, Vec<Acc>, WordHash>,
    about: Vec<About>,
    /// By number.
    pub pasts: Vec<Past>,
    past_ids: HashMap<Past, u32, WordHash>,
    /// What two of them have in common.
    common: HashMap<u64, u32, WordHash>,
    memo: Vec<Memo>,
    folds: u32,
}

/// Accesses of the same cell.
#[derive(Clone, Default)]
struct About {
    conflicts: Bits,
    /// Later ones that come after this one in every equivalent execution.
    orders: Bits,
    /// Those that conflict with nothing that this one does not conflict with.
    covers: Bits,
}

/// What a step means for items with one past; valid for one fold.
#[derive(Clone, Copy, Default)]
struct Memo {
    fold: u32,
    before: bool,
    joined: Option<u32>,
}

impl Accesses {
    pub fn id(&mut self, p: Ptr, a: Access) -> Acc {
        let key = u64::from(p.0) << 8 | a as u64;
        if let Some(&i) = self.ids.get(&key) {
            return i;
        }
        let i = self.list.len();
        self.ids.insert(key, i as Acc);
        self.list.push((p, a));
        self.about.push(About::default());
        let peers = self.by_cell.entry(p).or_default();
        peers.push(i as Acc);
        for &o in peers.iter() {
            let o = o as usize;
            let b = self.list[o].1;
            for (x, x_is, y, y_is) in [(i, a, o, b), (o, b, i, a)] {
                if x_is.conflicts(y_is) {
                    self.about[x].conflicts.set(y);
                    // A release does not hide the race of what was acquired before it.
                    if !(takes(y_is) && releases(x_is)) {
                        self.about[x].orders.set(y);
                    }
                }
                if covers(x_is, y_is) {
                    self.about[x].covers.set(y);
                }
            }
        }
        i as Acc
    }

    fn past(&mut self, p: &Past) -> u32 {
        if let Some(&i) = self.past_ids.get(p) {
            return i;
        }
        let i = self.pasts.len() as u32;
        self.pasts.push(p.clone());
        self.past_ids.insert(p.clone(), i);
        self.memo.push(Memo::default());
        i
    }

    /// Number of what two pasts have in common.
    fn common(&mut self, a: u32, b: u32) -> u32 {
        if a == b {
            return a;
        }
        let key = u64::from(a.min(b)) << 32 | u64::from(a.max(b));
        if let Some(&i) = self.common.get(&key) {
            return i;
        }
        let (mut p, q) = (self.pasts[a as usize].clone(), &self.pasts[b as usize]);
        p.tasks.meet(&q.tasks);
        p.accesses.meet(&q.accesses);
        p.firsts.join(&q.firsts);
        let i = self.past(&p);
        self.common.insert(key, i);
        i
    }

    /// An access that a task would make if it could.
    pub fn wanted(&mut self, task: usize, p: Ptr, a: Access) -> Item {
        Item { task: task as u32, access: self.id(p, a), past: self.past(&Past::of_first(task)) }
    }
}

/// Does everything that conflicts with `a` conflict with `by` as well, on the same cell?
fn covers(by: Access, a: Access) -> bool {
    Access::ALL.iter().all(|&o| !a.conflicts(o) || by.conflicts(o))
}

/// What comes before an access below the state.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub(super) struct Past {
    /// Tasks that have taken a step.
    pub tasks: Bits,
    /// Accesses made.
    pub accesses: Bits,
    /// Tasks one of which takes, on each way, a step that comes before the access and after nothing else.
    pub firsts: Bits,
}

impl Past {
    /// That of an access in the first step of a task.
    fn of_first(task: usize) -> Past {
        let mut p = Past::default();
        p.firsts.set(task);
        p
    }
}

/// An access of a task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub task: u32,
    pub access: Acc,
    /// Number in [`Accesses::pasts`].
    pub past: u32,
}

impl Item {
    fn key(&self) -> (u32, Acc) {
        (self.task, self.access)
    }
}

/// Sorted by task and access.
pub(super) type Summary = Vec<Item>;

/// A step, seen from above.
pub(super) struct Edge {
    task: usize,
    accesses: Vec<Acc>,
    past: Past,
    about: About,
    /// Tasks that it started.
    children: Bits,
    /// Lock that it takes.
    lock: Option<Acc>,
}

impl Edge {
    /// The step of `task` with the given footprint, which takes the lock cell `lock` if any.
    pub fn new(all: &mut Accesses, task: usize, footprint: &[(Ptr, Access)], lock: Option<Ptr>, children: Bits) -> Edge {
        let mut e = Edge { task, accesses: Vec::new(), past: Past::default(), about: About::default(), children, lock: None };
        for &(p, a) in footprint.iter().filter(|x| x.1 != Access::Await) {
            let i = all.id(p, a);
            e.accesses.push(i);
            e.past.accesses.set(i as usize);
            if lock == Some(p) && takes(a) {
                e.lock = Some(i);
            }
        }
        e.accesses.sort_unstable();
        e.accesses.dedup();
        for &i in &e.accesses {
            let about = &all.about[i as usize];
            e.about.conflicts.join(&about.conflicts);
            e.about.orders.join(&about.orders);
            e.about.covers.join(&about.covers);
        }
        e.past.tasks.set(task);
        e
    }

    /// Adds to `into` what can happen when this step is taken and then what `below` says.
    pub fn fold(&self, all: &mut Accesses, below: &Summary, into: &mut Summary) {
        all.folds += 1;
        let mut new: Summary = Vec::with_capacity(below.len());
        for i in below {
            let k = i.past as usize;
            if all.memo[k].fold != all.folds {
                let p = &all.pasts[k];
                let before = p.tasks.has(self.task) || p.tasks.meets(&self.children) || p.accesses.meets(&self.about.conflicts);
                all.memo[k] = Memo { fold: all.folds, before, joined: None };
            }
            let access = i.access as usize;
            let before = all.memo[k].before || i.task as usize == self.task || self.children.has(i.task as usize) || self.about.orders.has(access);
            if !before {
                new.push(*i);
            } else if !self.about.covers.has(access) {
                let past = match all.memo[k].joined {
                    Some(p) => p,
                    None => {
                        let mut past = all.pasts[k].clone();
                        past.tasks.join(&self.past.tasks);
                        past.accesses.join(&self.past.accesses);
                        // This step is the first of all.
                        past.firsts = Past::of_first(self.task).firsts;
                        let p = all.past(&past);
                        all.memo[k].joined = Some(p);
                        p
                    }
                };
                new.push(Item { past, ..*i });
            }
        }
        merge(all, into, new);
        let mut past = Past::of_first(self.task);
        let free = all.past(&past);
        let locked = self.lock.map(|l| {
            past.accesses.set(l as usize);
            all.past(&past)
        });
        let own = self.accesses.iter().map(|&access| {
            let past = match locked {
                // The rest of the step comes after whatever released the lock.
                Some(p) if self.lock != Some(access) => p,
                _ => free,
            };
            Item { task: self.task as u32, access, past }
        });
        merge(all, into, own.collect());
    }
}

/// Does the access take a lock?
pub(super) fn takes(a: Access) -> bool {
    matches!(a, Access::Acquire | Access::AcquireShared)
}

/// Does the access release one?
pub(super) fn releases(a: Access) -> bool {
    matches!(a, Access::Release | Access::ReleaseShared)
}

/// Unites two summaries; what is in both keeps the past that is common to both.
pub(super) fn merge(all: &mut Accesses, into: &mut Summary, new: Summary) {
    debug_assert!(new.is_sorted_by_key(Item::key));
    if into.is_empty() {
        *into = new;
        return;
    }
    let old = std::mem::take(into);
    into.reserve(old.len().max(new.len()));
    let mut b = new.into_iter().peekable();
    for mut i in old {
        while let Some(x) = b.next_if(|x| x.key() < i.key()) {
            into.push(x);
        }
        if let Some(x) = b.next_if(|x| x.key() == i.key()) {
            i.past = all.common(i.past, x.past);
        }
        into.push(i);
    }
    into.extend(b);
}
