//! Inodes on their way from one wb to another (LT-ISW-1 to LT-ISW-6, LT-REF-8, LT-REF-9, LT-PROG-4).

use super::lists::on_stack;
use super::shadow::{Fun, entries, ptr_at};
use super::{Oracles, bad};
use crate::linux::include::backing_dev_defs::WB_HAS_DIRTY_IO;
use crate::linux::include::fs::{I_CLEAR, I_DIRTY, I_DIRTY_ALL, I_FREEING, I_SYNC, I_SYNC_QUEUED, I_WB_SWITCH, I_WILL_FREE, inode_fields};
use crate::linux::include::writeback::{ISW_MAX, InodeSwitchWbsContext, isw_fields};
use crate::sync::{Machine, NULL, Ptr};

impl Oracles {
    /// Notices what plain stores did to inode `i`; they were made by the task of slot `s`.
    #[inline]
    pub(super) fn poll_inode(&mut self, m: &mut Machine, i: usize, s: usize) {
        let ino = self.s.inodes[i];
        if ino.p.is_null() {
            return;
        }
        let k = ino.k();
        let wb = ptr_at(m, k.i_wb().ptr());
        let state = m.mem.peek(k.i_state().ptr());
        if wb != ino.wb {
            self.attached(m, i, wb, state, s);
        }
        let switching = state & I_WB_SWITCH != 0;
        if switching != ino.switching {
            let x = &mut self.s.inodes[i];
            x.switching = switching;
            if switching {
                for slot in &mut self.s.slots {
                    slot.gp_begun &= !(1 << i);
                    slot.gp_ended &= !(1 << i);
                }
            } else {
                x.isw = NULL;
            }
        }
        if switching && (m.mem.peek(k.i_count().ptr()) as i64) < 1 {
            bad(m, "LT-REF-8", |m| format!("{} is being switched and has no reference", m.mem.name(ino.p)));
        }
        // Marking an inode dirty may turn one kind of dirtiness into another, with a moment between.
        if self.syncs > 0 && state & I_DIRTY_ALL == 0 && (state & I_SYNC != 0 || !on_stack(m, "__mark_inode_dirty")) {
            self.written(i);
        }
        if state & I_DIRTY == 0 || state & (I_SYNC | I_SYNC_QUEUED | I_FREEING | I_WILL_FREE) != 0 {
            self.looked_at(i);
        }
    }

    /// `i_wb` of inode `i` is now `wb`: the task of slot `s` gave one reference to the inode and got the old one from it.
    fn attached(&mut self, m: &mut Machine, i: usize, wb: Ptr, state: u64, s: usize) {
        let ino = self.s.inodes[i];
        self.s.inodes[i].wb = wb;
        self.s.inodes[i].cleanable = false;
        self.s.inodes[i].moved_in_sync |= state & I_SYNC != 0 && !ino.wb.is_null();
        for (p, n) in [(wb, -1), (ino.wb, 1)] {
            if let Some(w) = self.s.wb(p)
                && !self.s.wbs[w].root
            {
                self.s.hold(s, w, n);
            }
        }
        if ino.wb.is_null() {
            return;
        }
        if wb.is_null() {
            if state & (I_FREEING | I_CLEAR) == 0 {
                bad(m, "LT-ISW-2", |m| format!("{} is detached from its wb and not being freed", m.mem.name(ino.p)));
            }
            return;
        }
        let worker = self.s.frame(s, Fun::DoSwitch).is_some_and(|f| f.obj == ino.p);
        let grace = self.s.slots.get(s).is_some_and(|x| x.gp_ended & 1 << i != 0);
        if !worker || !ino.switching || !grace {
            bad(m, "LT-ISW-2", |m| {
                format!(
                    "{} moved from {} to {}; by the switcher: {worker}, I_WB_SWITCH set: {}, grace period since: {grace}",
                    m.mem.name(ino.p),
                    m.mem.name(ino.wb),
                    m.mem.name(wb),
                    ino.switching
                )
            });
        }
        if m.mem.peek(ino.k().i_dax().ptr()) != 0 {
            bad(m, "LT-ISW-6", |m| format!("DAX {} is switched", m.mem.name(ino.p)));
        }
        let bdi = ptr_at(m, ino.k().i_bdi().ptr());
        if self.s.any_frame(Fun::SyncInodes, |f| f.flag && f.bdi == bdi) {
            bad(m, "LT-ISW-5", |m| format!("{} is switched during a data-integrity sync of {}", m.mem.name(ino.p), m.mem.name(bdi)));
        }
    }

    /// Inodes with I_WB_SWITCH.
    pub(super) fn switching(&self) -> u64 {
        self.s.each_inode().filter(|x| x.1.switching).fold(0, |a, (i, _)| a | 1 << i)
    }

    /// The context whose list node is `node` was queued for `wb` by the task of slot `s`.
    pub(super) fn isw_queued(&mut self, m: &mut Machine, node: Ptr, wb: Ptr, s: usize) {
        if node.is_null() {
            return;
        }
        let p = node.sub(isw_fields::list);
        let Some(x) = self.s.isws.iter_mut().find(|x| x.p == p && x.dest.is_null()) else { return };
        x.dest = wb;
        if let Some(w) = self.s.wb(wb)
            && !self.s.wbs[w].root
        {
            self.s.hold(s, w, -1);
        }
        for k in 0..ISW_MAX {
            let inode = ptr_at(m, InodeSwitchWbsContext(p).inodes().at(k).ptr());
            let Some(i) = self.s.inode(inode) else { break };
            let x = &mut self.s.inodes[i];
            let (flag, other) = (x.switching, x.isw);
            x.isw = p;
            if !flag || !other.is_null() {
                bad(m, "LT-ISW-1", |m| {
                    format!("{} is queued for switching; I_WB_SWITCH set: {flag}, entry of {} already", m.mem.name(inode), m.mem.name(other))
                });
            }
        }
    }

    /// A context was freed by the task of slot `s`.
    pub(super) fn isw_freed(&mut self, m: &mut Machine, p: Ptr, s: usize) {
        let Some(x) = self.s.isws.iter().find(|x| x.p == p).copied() else { return };
        if let Some(w) = self.s.wb(x.dest)
            && !self.s.wbs[w].root
        {
            self.s.hold(s, w, 1);
        }
        if let Some(i) = self.s.inodes.iter().find(|i| i.isw == p && i.switching && !i.p.is_null()) {
            let inode = i.p;
            bad(m, "LT-ISW-1", |m| format!("{} is freed and {} is still marked as its entry", m.mem.name(p), m.mem.name(inode)));
        }
    }

    /// `s_isw_nr_in_flight` changed by `delta`.
    pub(super) fn sb_in_flight(&mut self, m: &mut Machine, sb: Ptr, delta: i64, now: i64, s: usize) {
        if delta >= 0 {
            return;
        }
        let entries = self.s.each_inode().filter(|x| x.1.switching && ptr_at(m, x.1.k().i_sb().ptr()) == sb).count() as i64;
        if now < entries {
            bad(m, "LT-REF-8", |m| format!("{} counts {now} switches and has {entries} inodes being switched", m.mem.name(sb)));
        }
        if let Some(f) = self.s.frame(s, Fun::Process) {
            f.drops[1] += 1;
            if f.drops[1] > f.drops[0] {
                bad(m, "LT-REF-8", |m| format!("the count of {} is dropped before the reference on the inode", m.mem.name(sb)));
            }
        }
    }

    /// `isw_nr_in_flight` was decremented to `now`.
    pub(super) fn in_flight(&mut self, m: &mut Machine, now: i64) {
        let n = self.s.isws.iter().filter(|x| !x.p.is_null() && !x.dest.is_null()).count() as i64;
        if now < n {
            bad(m, "LT-REF-9", |_| format!("isw_nr_in_flight is {now} with {n} contexts queued"));
        }
    }

    /// Umount's drain returned.
    pub(super) fn umount_returned(&mut self, m: &mut Machine, sb: Ptr) {
        let busy = self.s.each_inode().find(|x| x.1.switching && ptr_at(m, x.1.k().i_sb().ptr()) == sb).map(|x| x.1.p);
        if let Some(inode) = busy {
            bad(m, "LT-PROG-5", |m| format!("{} of {} is being switched after umount waited for switches", m.mem.name(inode), m.mem.name(sb)));
        }
    }

    /// A cleaner run begins: clean inodes of clean dying wbs have to be gone afterwards.
    pub(super) fn cleaner_begins(&mut self, m: &Machine) {
        self.s.cleaner = true;
        for w in 0..self.s.wbs.len() {
            self.stamp_cleanable(m, w);
        }
    }

    /// Marks the inodes that a cleaner run which begins now, or is due, has to move away from wb `w`.
    pub(super) fn stamp_cleanable(&mut self, m: &Machine, w: usize) {
        let wb = self.s.wbs[w];
        if wb.p.is_null() || wb.root || !wb.published || !wb.dead || wb.count < 1 {
            return;
        }
        if super::lists::state_bit(m, wb.p, WB_HAS_DIRTY_IO) {
            self.not_cleanable(|i| i.wb == wb.p);
            return;
        }
        for list in [wb.k().b_attached(), wb.k().b_dirty_time()] {
            for node in entries(m, list) {
                let Some(i) = self.s.inode(node.sub(inode_fields::i_io_list)) else { continue };
                let k = self.s.inodes[i].k();
                let state = m.mem.peek(k.i_state().ptr());
                let active = m.mem.peek(super::shadow::sb(ptr_at(m, k.i_sb().ptr())).s_active().ptr()) != 0;
                let dax = m.mem.peek(k.i_dax().ptr()) != 0;
                self.s.inodes[i].cleanable = active && !dax && state & (I_FREEING | I_WILL_FREE | I_WB_SWITCH) == 0;
            }
        }
    }

    /// Inodes are no longer the cleaner's business.
    pub(super) fn not_cleanable(&mut self, cond: impl Fn(&super::shadow::Inode) -> bool) {
        self.s.inodes.iter_mut().filter(|i| cond(i)).for_each(|i| i.cleanable = false);
    }
}
