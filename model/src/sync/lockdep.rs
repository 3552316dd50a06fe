//! Lock-order checking: one class per (struct type, field); an edge for each acquisition while another lock is held.

use super::machine::Machine;
use super::mem::{Ptr, TypeInfo, mix};
use super::op::Kind;

/// Class of a lock: its type and offset, shared by all objects of the type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockClass {
    ty: *const TypeInfo,
    off: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    pub lock: Ptr,
    pub mode: u64,
    pub how: Kind,
}

#[derive(Clone, Default)]
pub(super) struct Lockdep {
    classes: Vec<(LockClass, Ptr)>,
    /// `edges[a]` has bit `b` when `b` was acquired while `a` was held.
    edges: Vec<u64>,
    hash: u64,
}

impl Lockdep {
    pub(super) fn reset(&mut self) {
        self.classes.clear();
        self.edges.clear();
        self.hash = 0;
    }

    /// Hash of the set of edges, whatever the order in which they came: later reports depend on it.
    pub(super) fn hash(&self) -> u64 {
        self.hash
    }

    fn class(&mut self, c: LockClass, example: Ptr) -> usize {
        if let Some(i) = self.classes.iter().position(|x| x.0 == c) {
            return i;
        }
        assert!(self.classes.len() < 64, "more than 64 lock classes");
        self.classes.push((c, example));
        self.edges.push(0);
        self.classes.len() - 1
    }

    /// Adds the edge and returns a path `b ..= a` if there is one: a cycle.
    fn add(&mut self, a: usize, b: usize) -> Option<Vec<usize>> {
        if self.edges[a] & (1 << b) != 0 {
            return None;
        }
        self.edges[a] |= 1 << b;
        let key = |c: &LockClass| mix(c.ty as u64, u64::from(c.off));
        self.hash = self.hash.wrapping_add(mix(key(&self.classes[a].0), key(&self.classes[b].0)));
        let mut from: Vec<Option<usize>> = vec![None; self.edges.len()];
        let mut todo = vec![b];
        let mut seen = 1u64 << b;
        while let Some(x) = todo.pop() {
            if x == a {
                let mut path = vec![a];
                let mut y = a;
                while let Some(p) = from[y] {
                    path.push(p);
                    y = p;
                }
                path.reverse();
                return Some(path);
            }
            let mut next = self.edges[x] & !seen;
            seen |= next;
            while next != 0 {
                let n = next.trailing_zeros() as usize;
                next &= next - 1;
                from[n] = Some(x);
                todo.push(n);
            }
        }
        None
    }
}

impl Machine {
    fn lock_class(&self, p: Ptr) -> LockClass {
        match self.mem.alloc_of(p) {
            Some(a) => LockClass { ty: a.ty, off: p.0 - a.base.0 },
            None => LockClass { ty: std::ptr::null(), off: p.0 },
        }
    }

    /// Slot `s` acquires `p`; a trylock cannot deadlock and so adds no edge towards it.
    pub(super) fn lockdep_acquire(&mut self, s: usize, p: Ptr, how: Kind) {
        if how == Kind::DownReadTrylock || self.immediate || self.tasks[s].held.is_empty() {
            return;
        }
        self.order(s, p);
    }

    /// Slot `s` waits for something that a holder of `p`'s class has to finish (a flush of a work item).
    pub(super) fn lockdep_wait(&mut self, s: usize, p: Ptr) {
        if !self.immediate && !self.tasks[s].held.is_empty() {
            self.order(s, p);
        }
    }

    fn order(&mut self, s: usize, p: Ptr) {
        let b = self.lock_class(p);
        let b = self.lockdep.class(b, p);
        for i in 0..self.tasks[s].held.len() {
            let h = self.tasks[s].held[i].lock;
            let a = self.lock_class(h);
            let a = self.lockdep.class(a, h);
            if a == b {
                // Two locks of one class: legal in ascending address order only.
                if h >= p {
                    let (x, y) = (self.mem.name(h), self.mem.name(p));
                    self.report("LT-LOCK-1", format!("{y} taken while {x} of the same class is held: not in ascending order"));
                }
                continue;
            }
            if let Some(path) = self.lockdep.add(a, b) {
                let text: Vec<String> = path.iter().map(|&c| self.mem.name(self.lockdep.classes[c].1)).collect();
                self.report("LT-LOCK-1", format!("lock order cycle: {} -> {} closes {}", self.mem.name(h), self.mem.name(p), text.join(" -> ")));
            }
        }
    }
}
