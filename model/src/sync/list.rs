//! Doubly linked lists (plain and RCU) and lock-less singly linked lists, intrusive as in the kernel.

use super::event::fatal_in;
use super::machine::{Machine, with};
use super::mem::{Field, NULL, Ptr};
use super::op::{Kind, Op};
use super::step::{Step, step};
use super::weak::ORDERED;

/// `LIST_POISON1`: forward pointer of a deleted entry.
pub const LIST_POISON1: Ptr = Ptr(0xdead_0100);
/// `LIST_POISON2`: backward pointer of a deleted entry.
pub const LIST_POISON2: Ptr = Ptr(0xdead_0122);

/// `struct list_head`: head or entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListHead(pub Ptr);

impl Field for ListHead {
    const CELLS: u32 = 2;
    fn at(p: Ptr) -> Self {
        ListHead(p)
    }
}

impl ListHead {
    /// Address.
    pub fn ptr(self) -> Ptr {
        self.0
    }
    /// Forward pointer.
    pub fn next(self) -> ListHead {
        ListHead(Ptr::from_word(with(|m| m.read(self.0))))
    }
    /// Backward pointer.
    pub fn prev(self) -> ListHead {
        ListHead(Ptr::from_word(with(|m| m.read(self.0.add(1)))))
    }
    /// The neighbours, for changes of the list that tell the caller nothing about them.
    fn around(self, m: &mut Machine) -> (ListHead, ListHead) {
        let mut at = |p: Ptr| ListHead(Ptr::from_word(m.read_quietly(p)));
        (at(self.0.add(1)), at(self.0))
    }
    fn set_next(self, m: &mut Machine, n: Ptr) {
        m.write(self.0, u64::from(n.0));
    }
    fn set_prev(self, m: &mut Machine, n: Ptr) {
        m.write(self.0.add(1), u64::from(n.0));
    }
    fn set_both(self, m: &mut Machine, next: Ptr, prev: Ptr) {
        self.set_next(m, next);
        self.set_prev(m, prev);
    }
    /// `INIT_LIST_HEAD`
    pub fn init(self) {
        with(|m| self.set_both(m, self.0, self.0));
    }
    /// `list_empty`
    pub fn is_empty(self) -> bool {
        self.asks(self.0)
    }
    /// Forward pointer is NULL: the "no more entries, ever" mark of a css's `cgwb_list`.
    pub fn is_marked(self) -> bool {
        self.asks(NULL)
    }
    /// Is `p` the forward pointer? That is all that the caller learns.
    fn asks(self, p: Ptr) -> bool {
        with(|m| {
            let same = Ptr::from_word(m.read_quietly(self.0)) == p;
            m.observe(u64::from(same));
            same
        })
    }
    /// Sets that mark.
    pub fn set_mark(self) {
        with(|m| self.set_next(m, NULL));
    }

    fn link(self, m: &mut Machine, prev: ListHead, next: ListHead) {
        if next.around(m).0 != prev || prev.around(m).1 != next {
            corrupted(m, self, "list_add", prev, next);
        }
        if self == prev || self == next {
            corrupted(m, self, "list_add double add", prev, next);
        }
        next.set_prev(m, self.0);
        self.set_both(m, next.0, prev.0);
        prev.set_next(m, self.0);
    }
    fn link_first(self, m: &mut Machine, head: ListHead) {
        let next = head.around(m).1;
        self.link(m, head, next);
    }
    fn link_last(self, m: &mut Machine, head: ListHead) {
        let prev = head.around(m).0;
        self.link(m, prev, head);
    }
    /// `list_add(self, head)`: right after the head.
    pub fn add(self, head: ListHead) {
        with(|m| self.link_first(m, head));
    }
    /// `list_add_tail(self, head)`, `list_add_tail_rcu`: right before the head.
    pub fn add_tail(self, head: ListHead) {
        with(|m| self.link_last(m, head));
    }

    fn unlink(self, m: &mut Machine) {
        let (prev, next) = self.around(m);
        if next.0 == LIST_POISON1 || prev.0 == LIST_POISON2 || prev.0.is_null() || next.0.is_null() {
            corrupted(m, self, "list_del of an entry that is not linked", prev, next);
        }
        if prev.around(m).1 != self || next.around(m).0 != self {
            corrupted(m, self, "list_del", prev, next);
        }
        next.set_prev(m, prev.0);
        prev.set_next(m, next.0);
    }
    /// `list_del`
    pub fn del(self) {
        with(|m| {
            self.unlink(m);
            self.set_both(m, LIST_POISON1, LIST_POISON2);
        });
    }
    /// `list_del_rcu`: the forward pointer stays for readers.
    pub fn del_rcu(self) {
        with(|m| {
            self.unlink(m);
            self.set_prev(m, LIST_POISON2);
        });
    }
    /// `list_del_init`
    pub fn del_init(self) {
        with(|m| {
            self.unlink(m);
            self.set_both(m, self.0, self.0);
        });
    }
    /// `list_move`
    pub fn move_to(self, head: ListHead) {
        with(|m| {
            self.unlink(m);
            self.link_first(m, head);
        });
    }
    /// `list_move_tail`
    pub fn move_tail(self, head: ListHead) {
        with(|m| {
            self.unlink(m);
            self.link_last(m, head);
        });
    }
    /// `list_splice_tail_init(self, head)`: moves all entries of `self` to the tail of `head`.
    pub fn splice_tail_init(self, head: ListHead) {
        while !self.is_empty() {
            self.next().move_tail(head);
        }
    }
    /// All entries, read plainly under the list's lock; safe against removal of the current one.
    pub fn entries(self) -> Vec<ListHead> {
        let mut v = Vec::new();
        let mut e = self.next();
        while e != self {
            if v.len() > 10_000 {
                with(|m| corrupted(m, self, "list walk does not end", self, e));
            }
            v.push(e);
            e = e.next();
        }
        v
    }
    /// `rcu_dereference(self->next)`: a scheduling point.
    #[track_caller]
    pub fn next_rcu(self) -> Step {
        step(Op::new(Kind::Load, self.0))
    }
}

#[cold]
fn corrupted(m: &mut Machine, e: ListHead, what: &str, prev: ListHead, next: ListHead) -> ! {
    let (e, p, n) = (m.mem.name(e.0), m.mem.name(prev.0), m.mem.name(next.0));
    fatal_in(m, "LT-LIST-0", format!("list corruption: {what} {e}, prev {p}, next {n}"))
}

/// `struct llist_head` with entries that are cells holding the next entry's address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Llist(pub Ptr);

impl Field for Llist {
    const CELLS: u32 = 1;
    fn at(p: Ptr) -> Self {
        Llist(p)
    }
}

impl Llist {
    /// Address.
    pub fn ptr(self) -> Ptr {
        self.0
    }
    /// `llist_add`: pushes by compare-and-swap; true if the list was empty.
    pub async fn add(self, node: Ptr) -> bool {
        loop {
            let first = step(Op::new(Kind::Load, self.0)).await;
            with(|m| m.write(node, first));
            let old = step(Op { kind: Kind::Cmpxchg, obj: self.0, a: first, b: u64::from(node.0) }).await;
            if old == first {
                return first == 0;
            }
        }
    }
    /// `llist_del_all`: takes the whole list, newest first.
    pub async fn del_all(self) -> Ptr {
        Ptr::from_word(step(Op::new(Kind::Xchg, self.0)).await)
    }
    /// `llist_del_first`: takes the newest entry off, or null. One consumer at a time: the caller's lock sees to that.
    pub async fn del_first(self) -> Ptr {
        loop {
            let entry = Ptr::from_word(step(Op { kind: Kind::Load, obj: self.0, a: 0, b: ORDERED }).await);
            if entry.is_null() {
                return NULL;
            }
            let next = step(Op::new(Kind::Load, entry)).await;
            let old = step(Op { kind: Kind::Cmpxchg, obj: self.0, a: u64::from(entry.0), b: next }).await;
            if old == u64::from(entry.0) {
                return entry;
            }
        }
    }
    /// Next entry.
    pub fn next(node: Ptr) -> Ptr {
        Ptr::from_word(with(|m| m.read(node)))
    }
    /// `llist_empty`
    #[track_caller]
    pub fn first(self) -> Step {
        step(Op::new(Kind::Load, self.0))
    }
}
