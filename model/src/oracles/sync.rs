//! Data-integrity sync (LT-SYNC-1) and the life of queued works (LT-REF-10, LT-CSS-4).

use super::lists::state_bit;
use super::shadow::{Frame, Fun, bits, entries, linked, ptr_at};
use super::{Oracles, bad};
use crate::linux::include::backing_dev_defs::{BackingDevInfo, BdiWriteback, WB_REGISTERED};
use crate::linux::include::cgroup_defs::WbCompletion;
use crate::linux::include::fs::{I_DIRTY_ALL, I_FREEING, I_WILL_FREE, inode_fields};
use crate::linux::include::writeback::WbWritebackWork;
use crate::sync::{Machine, Ptr};

impl Oracles {
    /// `sync_inodes_sb` begins: these inodes must be written before it returns.
    pub(super) fn sync_called(&mut self, m: &Machine, f: &mut Frame) {
        let sb = super::shadow::sb(f.obj);
        f.bdi = ptr_at(m, sb.s_bdi().ptr());
        // Without data integrity there is nothing to promise.
        f.closed = state_bit(m, BackingDevInfo(f.bdi).wb().ptr(), WB_REGISTERED) && m.mem.peek(sb.s_no_data_integrity().ptr()) == 0;
        if !f.closed {
            return;
        }
        self.syncs += 1;
        for (i, ino) in self.s.each_inode() {
            let k = ino.k();
            let state = m.mem.peek(k.i_state().ptr());
            let wb = BdiWriteback(ino.wb);
            let listed = linked(m, k.i_io_list()) && !entries(m, wb.b_attached()).any(|e| e == k.i_io_list().ptr());
            if ptr_at(m, k.i_sb().ptr()) == f.obj && state & I_DIRTY_ALL != 0 && state & (I_FREEING | I_WILL_FREE) == 0 && listed {
                f.inodes |= 1 << i;
            }
        }
    }

    /// Inode `i` was submitted, or is clean.
    pub(super) fn written(&mut self, i: usize) {
        for s in &mut self.s.slots {
            s.frames.iter_mut().filter(|f| f.fun == Fun::SyncInodes).for_each(|f| f.inodes &= !(1 << i));
        }
    }

    /// `sync_inodes_sb` returned.
    pub(super) fn sync_returned(&mut self, m: &mut Machine, f: &Frame) {
        if f.closed {
            self.syncs = self.syncs.saturating_sub(1);
        }
        if !f.closed || !m.mem.live(f.bdi) || !state_bit(m, BackingDevInfo(f.bdi).wb().ptr(), WB_REGISTERED) {
            return;
        }
        for i in bits(f.inodes) {
            let ino = self.s.inodes[i];
            let state = m.mem.peek(ino.k().i_state().ptr());
            if ino.p.is_null() || state & (I_FREEING | I_WILL_FREE) != 0 || state & I_DIRTY_ALL == 0 {
                continue;
            }
            bad(m, "LT-SYNC-1", |m| format!("{} was dirty when the sync of {} began and was not written", m.mem.name(ino.p), m.mem.name(f.obj)));
        }
    }

    /// `wb_writeback` begins: it must at least take these inodes off b_dirty before it may end for lack of inodes.
    pub(super) fn writeback_called(&self, m: &Machine, f: &mut Frame) {
        let (wb, work) = (BdiWriteback(f.obj), WbWritebackWork(Ptr::from_word(f.arg)));
        // These two give way to other works.
        if m.mem.peek(work.for_background().ptr()) != 0 || m.mem.peek(work.for_kupdate().ptr()) != 0 {
            return;
        }
        let sb = ptr_at(m, work.sb().ptr());
        for e in entries(m, wb.b_dirty()) {
            if let Some(i) = self.s.inode(e.sub(inode_fields::i_io_list))
                && (sb.is_null() || ptr_at(m, self.s.inodes[i].k().i_sb().ptr()) == sb)
            {
                f.inodes |= 1 << i;
            }
        }
    }

    /// Inode `i` was looked at by a flusher, or is none of its business any more.
    pub(super) fn looked_at(&mut self, i: usize) {
        for s in &mut self.s.slots {
            s.frames.iter_mut().filter(|f| f.fun == Fun::Writeback).for_each(|f| f.inodes &= !(1 << i));
        }
    }

    /// `wb_writeback` returned, with pages left to write if it found no more.
    pub(super) fn writeback_returned(&mut self, m: &mut Machine, f: &Frame) {
        let left = m.mem.peek(WbWritebackWork(Ptr::from_word(f.arg)).nr_pages().ptr()) as i64;
        for i in bits(f.inodes) {
            let ino = self.s.inodes[i];
            if left > 0 && !ino.p.is_null() && ino.wb == f.obj {
                bad(m, "LT-PROG-10", |m| format!("a flush of {} with {left} pages to go ends and never looked at {}", m.mem.name(f.obj), m.mem.name(ino.p)));
            }
        }
    }

    /// A wait for a completion returned in slot `s`.
    pub(super) fn waited(&mut self, s: usize) {
        if let Some(f) = self.s.frame(s, Fun::SyncInodes) {
            // The split is complete.
            f.flag = false;
        }
    }

    /// `finish_writeback_work` begins.
    pub(super) fn work_finished(&mut self, m: &mut Machine, wb: Ptr, work: Ptr) {
        let Some(x) = self.s.works.iter().position(|w| w.p == work) else {
            bad(m, "LT-REF-10", |m| format!("{} of {} is finished and was not queued", m.mem.name(work), m.mem.name(wb)));
            return;
        };
        let w = self.s.works[x];
        if !w.done.is_null() && m.mem.live(w.done) {
            let visible = 1 + self.s.works.iter().filter(|o| o.p != work && o.done == w.done && linked(m, WbWritebackWork(o.p).list())).count() as i64;
            let cnt = m.mem.peek(WbCompletion(w.done).cnt().ptr()) as i64;
            // The owner gives up its own unit when it begins to wait.
            let visible = visible + i64::from(!self.s.any_frame(Fun::WaitCompletion, |f| f.obj == w.done));
            if cnt < visible {
                bad(m, "LT-REF-10", |m| format!("{} counts {cnt} with {visible} works unfinished", m.mem.name(w.done)));
            }
        }
        self.s.works.swap_remove(x);
    }

    /// A memcg is freed.
    pub(super) fn memcg_freed(&mut self, m: &mut Machine, memcg: Ptr) {
        let work = self.s.works.iter().find(|w| m.mem.alloc_of(w.done).is_some_and(|a| a.base == memcg)).map(|w| w.p);
        if let Some(work) = work {
            bad(m, "LT-CSS-4", |m| format!("{} is freed while {} is unfinished", m.mem.name(memcg), m.mem.name(work)));
        }
    }

    /// Works on the list of a wb that nobody will run.
    pub(super) fn stranded_work(&self, m: &Machine) -> Option<(Ptr, Ptr)> {
        self.s.wbs.iter().filter(|w| !w.p.is_null()).find_map(|w| {
            let work = entries(m, w.k().work_list()).next()?;
            (m.mem.peek(w.k().dwork().ptr()) & 3 == 0).then_some((w.p, work))
        })
    }
}
