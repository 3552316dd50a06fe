//! Identity of an execution's trace: a canonical hash of its happens-before order.
//!
//! Two executions have the same trace when every pair of conflicting accesses has the same order in both; then they
//! differ only in the order of steps that do not concern each other. Each step's hash covers the task's previous step
//! and, cell by cell, all earlier accesses that conflict with its own; the trace is the sum over its steps.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use wbmodel::sync::{Access, Kind, Machine, Ptr};

/// Hasher for keys that are small integers.
#[derive(Default, Clone, Copy)]
pub struct WordHasher(u64);

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        for w in words {
            self.write_u64(u64::from_le_bytes(*w));
        }
        for &b in rest {
            self.write_u64(u64::from(b));
        }
    }
    fn write_u16(&mut self, v: u16) {
        self.write_u64(u64::from(v));
    }
    fn write_usize(&mut self, v: usize) {
        self.write_u64(v as u64);
    }
    fn write_u32(&mut self, v: u32) {
        self.write_u64(u64::from(v));
    }
    fn write_u64(&mut self, v: u64) {
        self.0 = mix(self.0, v);
    }
}

/// A map or set hasher for such keys.
pub type WordHash = BuildHasherDefault<WordHasher>;

/// Mixes two words.
#[inline]
pub(crate) fn mix(a: u64, b: u64) -> u64 {
    let mut x = (a ^ 0x2545_f491_4f6c_dd1d).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b;
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x = (x ^ (x >> 29)).wrapping_mul(0x9fb2_1c65_1e98_df25);
    x ^ (x >> 32)
}

/// Access classes, in the order of [`Access`].
const CLASSES: usize = 8;

/// Computes the trace hash of one execution after another.
#[derive(Default)]
pub struct Tracer {
    cells: HashMap<Ptr, [u64; CLASSES], WordHash>,
    tasks: HashMap<u16, u64, WordHash>,
    seen_events: usize,
    hash: u64,
}

impl Tracer {
    /// Forgets the last execution.
    pub fn begin(&mut self) {
        self.cells.clear();
        self.tasks.clear();
        self.hash = 0;
        self.seen_events = 0;
    }

    /// Adds the step that slot `s` has just performed.
    pub fn stepped(&mut self, m: &Machine, s: usize) {
        // The slot may be vacant again; the step's events know the name.
        let Some(last) = m.log.last() else { return };
        let name = if m.tasks[s].name.0 != 0 { m.tasks[s].name } else { last.task };
        let chain = self.tasks.entry(name.0).or_insert(0);
        let mut h = mix(*chain, u64::from(name.0));
        for e in &m.log[self.seen_events.min(m.log.len())..] {
            if e.kind == Kind::Choice && e.task == name {
                h = mix(h, e.val);
            }
        }
        self.seen_events = m.log.len();
        for &(p, a) in &m.mem.footprint {
            if a == Access::Await {
                continue;
            }
            if let Some(c) = self.cells.get(&p) {
                for (i, sum) in c.iter().enumerate() {
                    if *sum != 0 && Access::ALL[i].conflicts(a) {
                        h = h.wrapping_add(mix(u64::from(p.0) << 4 | i as u64, *sum));
                    }
                }
            }
        }
        h = mix(h, 1);
        for &(p, a) in &m.mem.footprint {
            if a == Access::Await {
                continue;
            }
            let c = self.cells.entry(p).or_default();
            c[a as usize] = c[a as usize].wrapping_add(h);
        }
        *chain = h;
        self.hash = self.hash.wrapping_add(h);
    }

    /// Hash of the trace so far.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}
