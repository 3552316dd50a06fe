//! What can happen below a state, as far as it may race with something above it.
//!
//! A search that cuts where it reaches a state again must still learn which steps on the way there race with steps that
//! come after (Efficient Stateful Dynamic Partial-Order Reduction, SPIN 2008). A [`Summary`] holds every access that some task
//! makes below the state, each with its *past*: tasks and accesses that come before it below the state on every way to it.
//! An access that something in its past covers is left out: whatever conflicts with it is ordered before it already.

use crate::trace::WordHash;
use std::collections::HashMap;
use std::rc::Rc;
use wbmodel::sync::{Access, Ptr};

/// Number of an access (cell and kind) in [`Accesses`].
pub(super) type Acc = u32;

/// A set of small numbers.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
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
    }
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().enumerate().flat_map(|(k, &w)| crate::schedulers::bits(w).map(move |b| k * 64 + b))
    }
}

/// The accesses met in a search, and which of them conflict.
#[derive(Default)]
pub(super) struct Accesses {
    ids: HashMap<u64, Acc, WordHash>,
    /// Cell and kind.
    pub list: Vec<(Ptr, Access)>,
    by_cell: HashMap<Ptr, Vec<Acc>, WordHash>,
    conflicts: Vec<Bits>,
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
        self.conflicts.push(Bits::default());
        let peers = self.by_cell.entry(p).or_default();
        peers.push(i as Acc);
        for &o in peers.iter() {
            if a.conflicts(self.list[o as usize].1) {
                self.conflicts[i].set(o as usize);
                self.conflicts[o as usize].set(i);
            }
        }
        i as Acc
    }
}

/// Does everything that conflicts with `a` conflict with `by` as well, on the same cell?
fn covers(by: Access, a: Access) -> bool {
    Access::ALL.iter().all(|&o| !a.conflicts(o) || by.conflicts(o))
}

/// What comes before an access below the state.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Past {
    /// Tasks that have taken a step.
    pub tasks: Bits,
    /// Accesses made.
    pub accesses: Bits,
}

/// An access of a task.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub task: usize,
    pub access: Acc,
    pub past: Rc<Past>,
}

impl Item {
    fn key(&self) -> (usize, Acc) {
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
    /// What conflicts with it.
    against: Bits,
    /// Tasks that it started.
    children: Bits,
    /// Lock that it takes.
    lock: Option<Acc>,
}

impl Edge {
    /// The step of `task` with the given footprint, which takes the lock cell `lock` if any.
    pub fn new(all: &mut Accesses, task: usize, footprint: &[(Ptr, Access)], lock: Option<Ptr>, children: Bits) -> Edge {
        let mut e = Edge { task, accesses: Vec::new(), past: Past::default(), against: Bits::default(), children, lock: None };
        for &(p, a) in footprint.iter().filter(|x| x.1 != Access::Await) {
            let i = all.id(p, a);
            e.accesses.push(i);
            e.past.accesses.set(i as usize);
            if lock == Some(p) && takes(a) {
                e.lock = Some(i);
            }
        }
        for &i in &e.accesses {
            e.against.join(&all.conflicts[i as usize]);
        }
        e.past.tasks.set(task);
        e
    }

    /// Does the step happen before the item in every equivalent execution?
    fn before(&self, all: &Accesses, i: &Item) -> bool {
        let direct = || {
            let (cell, a) = all.list[i.access as usize];
            // A release does not hide the race of what was acquired before it.
            self.accesses.iter().map(|&x| all.list[x as usize]).any(|(c, b)| c == cell && a.conflicts(b) && !(takes(a) && releases(b)))
        };
        i.task == self.task
            || self.children.has(i.task)
            || i.past.tasks.has(self.task)
            || i.past.tasks.meets(&self.children)
            || i.past.accesses.meets(&self.against)
            || direct()
    }

    fn covers(&self, all: &Accesses, i: &Item) -> bool {
        let (cell, a) = all.list[i.access as usize];
        self.accesses.iter().map(|&x| all.list[x as usize]).any(|(c, b)| c == cell && covers(b, a))
    }

    /// Adds to `into` what can happen when this step is taken and then what `below` says.
    pub fn fold(&self, all: &Accesses, below: &Summary, into: &mut Summary) {
        let mut pasts: Vec<(*const Past, Rc<Past>)> = Vec::new();
        let mut new: Summary = Vec::with_capacity(below.len() + self.accesses.len());
        for i in below {
            if !self.before(all, i) {
                new.push(i.clone());
            } else if !self.covers(all, i) {
                let old = Rc::as_ptr(&i.past);
                let past = match pasts.iter().find(|x| x.0 == old) {
                    Some(x) => x.1.clone(),
                    None => {
                        let mut past = (*i.past).clone();
                        past.tasks.join(&self.past.tasks);
                        past.accesses.join(&self.past.accesses);
                        // Pasts that did not grow stay shared.
                        let past = if past == *i.past { i.past.clone() } else { Rc::new(past) };
                        pasts.push((old, past.clone()));
                        past
                    }
                };
                new.push(Item { past, ..*i });
            }
        }
        let free = Rc::new(Past::default());
        let locked = self.lock.map(|l| {
            let mut p = Past::default();
            p.accesses.set(l as usize);
            Rc::new(p)
        });
        for &access in &self.accesses {
            let past = match &locked {
                // The rest of the step comes after whatever released the lock.
                Some(p) if self.lock != Some(access) => p.clone(),
                _ => free.clone(),
            };
            new.push(Item { task: self.task, access, past });
        }
        merge(into, new);
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

/// An access that a task would make if it could.
pub(super) fn wanted(task: usize, access: Acc) -> Item {
    Item { task, access, past: Rc::default() }
}

/// Unites two summaries; what is in both keeps the past that is common to both.
pub(super) fn merge(into: &mut Summary, mut new: Summary) {
    new.sort_by_key(Item::key);
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
        while let Some(x) = b.next_if(|x| x.key() == i.key()) {
            if !Rc::ptr_eq(&x.past, &i.past) {
                let p = Rc::make_mut(&mut i.past);
                p.tasks.meet(&x.past.tasks);
                p.accesses.meet(&x.past.accesses);
            }
        }
        into.push(i);
    }
    into.extend(b);
}
