//! A radix tree of two levels: enough nodes to be emptied, freed and reused while readers look.
//!
//! Writers hold the tree's lock and change slots inside their critical section; a lookup reads the node pointer and the
//! slot as two separate steps.

use super::choose::{Choice, choose};
use super::machine::{Machine, with};
use super::mem::{Field, FieldInfo, Mark, NULL, Ptr, TypeInfo, kfree, kzalloc_nofail};
use super::op::{Kind, Op};
use super::rcu::call_rcu;
use super::step::step;

/// The slot is occupied.
pub const EEXIST: i64 = -17;
/// No memory for a node.
pub const ENOMEM: i64 = -12;

const FANOUT: u32 = 4;
const ROOTS: u32 = 8;

static NODE: TypeInfo = TypeInfo {
    label: "node",
    mem_rule: "LT-MEM-1",
    cells: FANOUT + 1,
    fields: &[FieldInfo { name: "slots", off: 0, cells: FANOUT, inner: None }, FieldInfo { name: "count", off: FANOUT, cells: 1, inner: None }],
};

/// `struct radix_tree_root`, keys below 32.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RadixTree(Ptr);

impl Field for RadixTree {
    const CELLS: u32 = ROOTS;
    fn at(p: Ptr) -> Self {
        RadixTree(p)
    }
}

impl RadixTree {
    /// Address of the root.
    pub fn ptr(self) -> Ptr {
        self.0
    }
    fn root(self, key: u32) -> Ptr {
        assert!(key < FANOUT * ROOTS, "radix tree key {key} out of range");
        self.0.add(key / FANOUT)
    }
    fn node(self, key: u32) -> Ptr {
        Ptr::from_word(with(|m| m.read(self.root(key))))
    }
    /// `radix_tree_lookup` under the tree's lock: exact, no scheduling point.
    pub fn lookup(self, key: u32) -> Ptr {
        let n = self.node(key);
        if n.is_null() { NULL } else { Ptr::from_word(with(|m| m.read(n.add(key % FANOUT)))) }
    }
    /// `radix_tree_lookup` under RCU: some value the slot held during the call.
    pub async fn lookup_rcu(self, key: u32) -> Ptr {
        let n = Ptr::from_word(step(Op::new(Kind::Load, self.root(key))).await);
        if n.is_null() {
            return NULL;
        }
        Ptr::from_word(step(Op::new(Kind::Load, n.add(key % FANOUT))).await)
    }
    /// `radix_tree_insert`: 0, [`EEXIST`] or [`ENOMEM`].
    pub fn insert(self, key: u32, item: Ptr) -> i64 {
        let mut n = self.node(key);
        if n.is_null() {
            if choose(Choice::AllocFails("radix_tree_insert")) == 1 {
                return ENOMEM;
            }
            n = kzalloc_nofail(&NODE);
            with(|m| m.write(self.root(key), u64::from(n.0)));
        }
        let slot = n.add(key % FANOUT);
        if with(|m| m.read(slot)) != 0 {
            return EEXIST;
        }
        with(|m| {
            m.write(slot, u64::from(item.0));
            let c = m.read_quietly(n.add(FANOUT));
            m.write(n.add(FANOUT), c + 1);
        });
        0
    }
    /// `radix_tree_lookup_slot`: address of a non-empty slot, or null. Valid only inside the same critical section.
    pub fn lookup_slot(self, key: u32) -> Ptr {
        let n = self.node(key);
        if n.is_null() || with(|m| m.read(n.add(key % FANOUT))) == 0 { NULL } else { n.add(key % FANOUT) }
    }
    /// `radix_tree_replace_slot`
    pub fn replace_slot(self, slot: Ptr, item: Ptr) {
        with(|m| m.write(slot, u64::from(item.0)));
    }
    /// `radix_tree_delete`: empties the slot whatever it holds; yields what it held.
    pub fn delete(self, key: u32) -> Ptr {
        self.delete_item(key, NULL)
    }
    /// `radix_tree_delete_item`: empties the slot if it holds `item` (any, if `item` is null); yields what was removed.
    pub fn delete_item(self, key: u32, item: Ptr) -> Ptr {
        let n = self.node(key);
        if n.is_null() {
            return NULL;
        }
        let slot = n.add(key % FANOUT);
        let old = Ptr::from_word(with(|m| m.read(slot)));
        if old.is_null() || (!item.is_null() && item != old) {
            return NULL;
        }
        let left = with(|m| {
            m.write(slot, 0);
            let c = m.read_quietly(n.add(FANOUT)) - 1;
            m.observe(u64::from(c == 0));
            m.write(n.add(FANOUT), c);
            c
        });
        if left == 0 {
            with(|m| m.write(self.root(key), 0));
            call_rcu(n, "radix_tree_node_rcu_free", |p| Box::pin(async move { kfree(p) }));
        }
        old
    }
    /// A new node came into being at `p`: its slots are cells of some tree.
    pub fn mark_node(m: &mut Machine, p: Ptr, mark: Mark) {
        m.mem.mark(p, FANOUT, mark);
    }
    /// What a slot holds, from memory alone: for oracles.
    pub fn peek(self, m: &Machine, key: u32) -> Ptr {
        let n = Ptr::from_word(m.mem.peek(self.root(key)));
        if n.is_null() { NULL } else { Ptr::from_word(m.mem.peek(n.add(key % FANOUT))) }
    }
    /// Occupied keys in ascending order with their items, read plainly under the tree's lock.
    pub fn items(self) -> Vec<(u32, Ptr)> {
        (0..FANOUT * ROOTS).map(|k| (k, self.lookup(k))).filter(|x| !x.1.is_null()).collect()
    }
}
