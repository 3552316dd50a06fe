//! Tree and list membership (LT-LIST-1 to LT-LIST-13), and writes outside the lock (LT-LOCK-3).
//!
//! Judged when the lock that protects the lists is released. Publication of a wb is noticed here, too.

use super::shadow::{Fun, bits, empty, entries, linked, ptr_at};
use super::{Oracles, TREES, bad};
use crate::linux::MAX_CSS_ID;
use crate::linux::include::backing_dev_defs::{BdiWriteback, WB_HAS_DIRTY_IO, wb_fields};
use crate::linux::include::cgroup_defs::Css;
use crate::linux::include::fs::{I_DIRTY, I_FREEING, I_SYNC, I_SYNC_QUEUED, I_WILL_FREE, Inode, inode_fields};
use crate::rules::{TreeOut, rules};
use crate::sync::{ListHead, Machine, Ptr};

/// Bit of `wb->state`, from memory.
pub(super) fn state_bit(m: &Machine, wb: Ptr, nr: u32) -> bool {
    m.mem.peek(BdiWriteback(wb).state().ptr()) & 1 << nr != 0
}

/// Is some task in this function?
pub(super) fn on_stack(m: &Machine, name: &str) -> bool {
    m.tasks.iter().any(|t| t.live && t.stack.iter().any(|f| f.name == name))
}

impl Oracles {
    /// Fingerprint of trees and wb_lists, and the occupied slots: (bdi index, key, wb).
    fn trees(&mut self, m: &mut Machine) -> u64 {
        if let Some(print) = self.print.filter(|_| !m.mem.news(TREES)) {
            return print;
        }
        m.mem.heard(TREES);
        self.slots.clear();
        let mut print = 0u64;
        for (b, bdi) in self.s.bdis.iter().enumerate().filter(|x| !x.1.p.is_null()) {
            let k = bdi.k();
            for key in 0..MAX_CSS_ID {
                let p = k.cgwb_tree().peek(m, key);
                if !p.is_null() {
                    self.slots.push((b, key, p));
                    print = print.wrapping_add((u64::from(p.0) << 8 | u64::from(key)).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(bdi.p.0));
                }
            }
            let mut n = 1u64;
            for e in entries(m, k.wb_list()) {
                n += 1;
                print = print.wrapping_add((u64::from(e.0) << 32 | n).wrapping_mul(0xbf58_476d_1ce4_e5b9));
            }
        }
        self.print = Some(print);
        print
    }

    /// cgwb_lock was taken: nothing may have changed since it was released.
    pub(super) fn cgwb_locked(&mut self, m: &mut Machine) {
        let print = self.trees(m);
        if let Some(old) = self.s.tree_print
            && old != print
        {
            bad(m, "LT-LOCK-3", |_| "cgwb_tree or wb_list changed while cgwb_lock was free".into());
        }
    }

    /// cgwb_lock was released by the task of slot `s`.
    pub(super) fn cgwb_unlocked(&mut self, m: &mut Machine, s: usize) {
        for i in 0..self.s.wbs.len() {
            self.poll_ref(m, i, s);
        }
        self.s.tree_print = Some(self.trees(m));
        let mut on_list = 0u64;
        for b in self.s.bdis.iter().filter(|b| !b.p.is_null()) {
            for e in entries(m, b.k().wb_list()) {
                if let Some(i) = self.s.wb(e.sub(wb_fields::bdi_node)) {
                    on_list |= 1 << i;
                }
            }
        }
        let mut in_tree = 0u64;
        for k in 0..self.slots.len() {
            if let Some(i) = self.s.wb(self.slots[k].2) {
                in_tree |= 1 << i;
            }
        }
        self.publish(m, (on_list | in_tree) & !self.s.wbs_where(|w| w.published), s);
        if let Some(slot) = self.s.slots.get_mut(s) {
            slot.killing = Ptr(0);
            match slot.frames.last().map(|f| (f.fun, f.obj)) {
                Some((Fun::Shutdown, wb)) => {
                    if let Some(i) = self.s.wb(wb) {
                        self.s.wbs[i].unlisted = true;
                    }
                }
                Some((Fun::CgwbBdiUnregister, bdi)) => {
                    if let Some(b) = self.s.bdi(bdi) {
                        self.s.bdis[b].kill_loop_done = true;
                    }
                }
                _ => {}
            }
        }
        self.judge_wbs(m, on_list, in_tree);
        self.judge_slots(m);
        self.closed_memcgs(m);
    }

    /// wbs of the mask are seen for the first time; the task of slot `s` has published them.
    fn publish(&mut self, m: &mut Machine, mask: u64, s: usize) {
        for i in bits(mask) {
            let k = self.s.wbs[i].k();
            let (bdi, memcg, blkcg) = (ptr_at(m, k.bdi().ptr()), ptr_at(m, k.memcg_css().ptr()), ptr_at(m, k.blkcg_css().ptr()));
            let w = &mut self.s.wbs[i];
            (w.bdi, w.memcg, w.blkcg, w.published) = (bdi, memcg, blkcg, true);
            if w.root {
                continue;
            }
            w.key = m.mem.peek(Css(memcg).id().ptr()) as u32;
            let p = w.p;
            for (j, o) in self.s.wbs.iter_mut().enumerate() {
                o.superseded |= j != i && o.published && o.bdi == bdi && o.memcg == memcg;
            }
            if let Some(f) = self.s.frame(s, Fun::Create) {
                f.css = p;
            }
            self.pay(s);
        }
    }

    /// A memcg's list was closed: a cleaner run is due for its wbs.
    fn closed_memcgs(&mut self, m: &Machine) {
        for c in 0..self.s.csses.len() {
            let css = self.s.csses[c];
            if css.p.is_null() || !css.memory || css.closed || !ptr_at(m, css.k().memcg().cgwb_list().ptr()).is_null() {
                continue;
            }
            self.s.csses[c].closed = true;
            for w in 0..self.s.wbs.len() {
                if self.s.wbs[w].memcg == css.p {
                    self.stamp_cleanable(m, w);
                }
            }
        }
    }

    fn judge_wbs(&mut self, m: &mut Machine, on_list: u64, in_tree: u64) {
        let tree_out = rules().tree_out;
        for i in 0..self.s.wbs.len() {
            let w = self.s.wbs[i];
            if w.p.is_null() || !w.published {
                continue;
            }
            let k = w.k();
            let listed = on_list & 1 << i != 0;
            if listed == w.unlisted {
                bad(m, "LT-LIST-1", |m| format!("{} on wb_list: {listed}; removed by wb_shutdown: {}", m.mem.name(w.p), w.unlisted));
            }
            if w.root {
                continue;
            }
            let (live, slot) = (w.live(), in_tree & 1 << i != 0);
            let (a, b) = (linked(m, k.memcg_node()), linked(m, k.blkcg_node()));
            if a != live || b != live {
                bad(m, "LT-LIST-2", |m| format!("{} live: {live}; on its memcg's list: {a}, on its blkcg's: {b}", m.mem.name(w.p)));
            }
            let offline = linked(m, k.offline_node());
            if (offline && !w.dead) || (!offline && w.dead && w.released == 0) || (offline && w.release_done) {
                bad(m, "LT-LIST-3", |m| {
                    format!("{} on the offline list: {offline}; killed: {}, release work done: {}", m.mem.name(w.p), w.dead, w.release_done)
                });
            }
            if slot && !live && tree_out == TreeOut::Kill {
                bad(m, "LT-LIST-4a", |m| format!("{} is dying and in the tree", m.mem.name(w.p)));
            }
            if !slot && w.dead && w.count > 0 && w.released == 0 && !w.superseded && tree_out == TreeOut::Release {
                bad(m, "LT-LIST-4d", |m| format!("{} is dying with count {} and not in its slot", m.mem.name(w.p), w.count));
            }
            if live {
                self.judge_live(m, i, slot);
            }
        }
    }

    fn judge_live(&mut self, m: &mut Machine, i: usize, in_tree: bool) {
        let w = self.s.wbs[i];
        if !in_tree || !self.slots.iter().any(|x| x.2 == w.p && x.1 == w.key) {
            bad(m, "LT-LIST-4b", |m| format!("{} is live and not in slot {}", m.mem.name(w.p), w.key));
        }
        if let Some(o) = self.s.wbs.iter().find(|o| o.p != w.p && o.live() && !o.root && o.bdi == w.bdi && o.memcg == w.memcg) {
            let o = o.p;
            bad(m, "LT-LIST-5", |m| format!("{} and {} are live for one bdi and memcg", m.mem.name(w.p), m.mem.name(o)));
        }
        let heads = [Css(w.memcg).memcg().cgwb_list(), Css(w.blkcg).blkcg().cgwb_list()];
        if heads.iter().any(|h| ptr_at(m, h.ptr()).is_null()) {
            bad(m, "LT-LIST-10", |m| format!("{} is live although the list of {} or {} is closed", m.mem.name(w.p), m.mem.name(w.memcg), m.mem.name(w.blkcg)));
        }
        if self.s.bdi(w.bdi).is_some_and(|b| self.s.bdis[b].kill_loop_done) {
            bad(m, "LT-LIST-11", |m| format!("{} is live after the kill loop of {}", m.mem.name(w.p), m.mem.name(w.bdi)));
        }
    }

    fn judge_slots(&mut self, m: &mut Machine) {
        for x in 0..self.slots.len() {
            let (_, key, p) = self.slots[x];
            let ok = self.s.wb(p).is_some_and(|i| {
                let w = &self.s.wbs[i];
                w.published && w.key == key && !w.memcg_put && m.mem.live(w.memcg)
            });
            if !ok {
                bad(m, "LT-LIST-4c", |m| format!("slot {key} holds {}, which is freed, of another id, or does not hold its memcg css any more", m.mem.name(p)));
            }
        }
    }

    /// A wb is freed: nothing may lead to it.
    pub(super) fn wb_freed(&mut self, m: &mut Machine, i: usize) {
        let w = self.s.wbs[i];
        if !w.published {
            return;
        }
        self.trees(m);
        if self.slots.iter().any(|x| x.2 == w.p) {
            bad(m, "LT-LIST-4c", |m| format!("{} is freed while its slot holds it", m.mem.name(w.p)));
        }
        if m.mem.live(w.bdi) && entries(m, crate::linux::include::backing_dev_defs::BackingDevInfo(w.bdi).wb_list()).any(|e| e == w.p.add(wb_fields::bdi_node))
        {
            bad(m, "LT-LIST-1", |m| format!("{} is freed while it is on wb_list", m.mem.name(w.p)));
        }
    }

    /// Release work starts.
    pub(super) fn release_starts(&mut self, m: &mut Machine, wb: Ptr) {
        let k = BdiWriteback(wb);
        let lists = [k.b_dirty(), k.b_io(), k.b_more_io(), k.b_dirty_time(), k.b_attached()];
        let listed = lists.iter().any(|&l| !empty(m, l));
        let dirty = state_bit(m, wb, WB_HAS_DIRTY_IO);
        let switches = m.mem.peek(k.switch_wbs_ctxs().ptr()) != 0;
        if listed || dirty || switches {
            bad(m, "LT-LIST-9", |m| format!("{} is released; inodes listed: {listed}, dirty bit: {dirty}, switches queued: {switches}", m.mem.name(wb)));
        }
    }

    /// `cgwb_bdi_unregister` returned.
    pub(super) fn unregister_returned(&mut self, m: &mut Machine, bdi: Ptr) {
        let Some(b) = self.s.bdi(bdi) else { return };
        if !empty(m, self.s.bdis[b].k().wb_list()) {
            bad(m, "LT-LIST-11", |m| format!("wb_list of {} is not empty after its unregister", m.mem.name(bdi)));
        }
    }

    /// list_lock of a wb was released.
    pub(super) fn list_unlocked(&mut self, m: &mut Machine, wb: Ptr) {
        let k = BdiWriteback(wb);
        if !m.mem.live(wb) {
            return;
        }
        let root = self.s.wb(wb).is_some_and(|i| self.s.wbs[i].root);
        let (mut populated, mut found) = (false, 0u64);
        for (which, head) in [k.b_dirty(), k.b_io(), k.b_more_io(), k.b_dirty_time(), k.b_attached()].into_iter().enumerate() {
            if empty(m, head) {
                continue;
            }
            populated |= which < 3;
            let mut at = ptr_at(m, head.ptr());
            let mut left = 1000;
            while at != head.ptr() && !at.is_null() && m.mem.live(at) && left > 0 {
                left -= 1;
                let next = ptr_at(m, at);
                if let Some(i) = self.s.inode(at.sub(inode_fields::i_io_list)) {
                    if found & 1 << i != 0 {
                        bad(m, "LT-LIST-6", |m| format!("{} is on two lists of {}", m.mem.owner_name(at), m.mem.name(wb)));
                    }
                    found |= 1 << i;
                    self.judge_listed(m, i, wb, which, root);
                }
                at = next;
            }
        }
        for i in 0..self.s.inodes.len() {
            let p = self.s.inodes[i].p;
            if found & 1 << i == 0
                && !p.is_null()
                && ptr_at(m, Inode(p).i_wb().ptr()) == wb
                && linked(m, Inode(p).i_io_list())
                && !on_stack(m, "evict")
                && !self.private_list(m, p)
            {
                bad(m, "LT-LIST-6", |m| format!("{} is on a list that is not one of {}", m.mem.name(p), m.mem.name(wb)));
            }
        }
        let bit = state_bit(m, wb, WB_HAS_DIRTY_IO);
        if !bit && populated {
            bad(m, "LT-LIST-8a", |m| format!("{} has dirty inodes and no dirty bit", m.mem.name(wb)));
        }
        if bit && !populated && !self.s.any_frame(Fun::Process, |_| true) {
            bad(m, "LT-LIST-8b", |m| format!("{} has the dirty bit and no dirty inode", m.mem.name(wb)));
        }
        if let Some(i) = self.s.wb(wb) {
            let stack = &m.tasks[m.current].stack;
            let by = |name: &str| stack.iter().any(|f| f.name == name);
            let w = &mut self.s.wbs[i];
            w.silent = bit && (w.silent || (!w.dirty && (by("writeback_single_inode") || by("writeback_sb_inodes")) && !by("__mark_inode_dirty")));
            w.dirty = bit;
        }
        if bit && self.s.cleaner {
            self.s.inodes.iter_mut().filter(|i| i.wb == wb).for_each(|i| i.cleanable = false);
        }
    }

    /// Is the inode on a list whose head is a local variable (queue_io sorts on one)?
    fn private_list(&self, m: &Machine, inode: Ptr) -> bool {
        let head = Inode(inode).i_io_list();
        entries(m, head).any(|e| m.mem.alloc_of(e).is_some_and(|a| a.ty.label == "list"))
    }

    fn judge_listed(&mut self, m: &mut Machine, i: usize, wb: Ptr, which: usize, root: bool) {
        let ino = self.s.inodes[i];
        let k = ino.k();
        let state = m.mem.peek(k.i_state().ptr());
        let owner = ptr_at(m, k.i_wb().ptr());
        if owner != wb {
            bad(m, "LT-LIST-6", |m| format!("{} of {} is on a list of {}", m.mem.name(ino.p), m.mem.name(owner), m.mem.name(wb)));
        }
        let queued = which == 1 || which == 2;
        let by_marker = m.tasks[m.current].stack.iter().any(|f| f.name == "__mark_inode_dirty");
        if ino.queued && !queued && by_marker && state & I_SYNC_QUEUED != 0 {
            bad(m, "LT-LIST-12", |m| format!("{} is taken off the flusher's lists of {} by a task that dirties it", m.mem.name(ino.p), m.mem.name(wb)));
        }
        self.s.inodes[i].queued = queued;
        if queued && state & I_SYNC_QUEUED == 0 && !ino.moved_in_sync {
            bad(m, "LT-LIST-12", |m| format!("{} is on {} of {} without I_SYNC_QUEUED", m.mem.name(ino.p), ["b_io", "b_more_io"][which - 1], m.mem.name(wb)));
        }
        if which == 4 && state & (I_FREEING | I_WILL_FREE) == 0 {
            let hashed = m.mem.peek(k.i_hashed().ptr()) != 0;
            if root || (hashed && state & I_DIRTY != 0 && !on_stack(m, "__mark_inode_dirty")) {
                bad(m, "LT-LIST-13", |m| format!("{} on b_attached of {}, root {root}, state {state:#x}", m.mem.name(ino.p), m.mem.name(wb)));
            }
        }
    }

    /// i_lock of inode `i` was released.
    pub(super) fn inode_unlocked(&mut self, m: &mut Machine, i: usize) {
        let ino = self.s.inodes[i];
        let k = ino.k();
        let state = m.mem.peek(k.i_state().ptr());
        if state & I_DIRTY == 0 {
            return;
        }
        self.s.inodes[i].cleanable = false;
        if state & (I_FREEING | I_WILL_FREE | I_SYNC) != 0 || ino.wb.is_null() || !m.mem.live(ino.wb) {
            return;
        }
        let placed = m.mem.peek(k.i_hashed().ptr()) != 0 || m.mem.peek(k.i_blkdev().ptr()) != 0;
        let w = BdiWriteback(ino.wb);
        let node = k.i_io_list().ptr();
        let on = |l: ListHead| entries(m, l).any(|e| e == node);
        if placed && !on(w.b_dirty()) && !on(w.b_io()) && !on(w.b_more_io()) && !on_stack(m, "__mark_inode_dirty") && !self.private_list(m, ino.p) {
            bad(m, "LT-LIST-7", |m| format!("{} is dirty ({state:#x}) and on no list of {} for dirty inodes", m.mem.name(ino.p), m.mem.name(w.ptr())));
        }
    }
}
