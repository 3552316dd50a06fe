//! Dirty bookkeeping: attaching inodes to wbs, and which list of its wb an inode is on.
//!
//! Mirrors:    fs/fs-writeback.c, __inode_attach_wb(), __mark_inode_dirty(), queue_io(), requeue_inode() and their helpers;
//!             inode_attach_wb() and inode_detach_wb() of include/linux/writeback.h; fidelity: mirror.
//! Simplified: whether `dirtied_when` is old enough for periodic writeback is a bit that the case sets; b_io is not sorted by superblock; a file system
//!             has no dirty_inode and no sync_lazytime operation.
//! Locks:      list_lock > i_lock for every change of a list position; i_lock > i_wb's creation path; s_inode_wblist_lock
//!             inside the i_pages lock.
//! Ordering:   i_wb is set by compare-and-swap from NULL; a full barrier lies between the caller's change of data and the
//!             lockless flag test, and pairs with the one between clearing flags and testing the dirty mark.
//! Rules:      LT-REF-1, LT-LIST-6, LT-LIST-7, LT-LIST-12, LT-LIST-13, LT-MEM-6, LT-PROG-10.

use super::{
    inode_cgwb_move_to_attached, inode_io_list_move_locked, inode_to_wb_and_lock_list, locked_inode_to_wb_and_lock_list, wb_io_lists_depopulated,
    wb_io_lists_populated, wb_wakeup_delayed,
};
use crate::kfn;
use crate::linux::globals;
use crate::linux::include::backing_dev::{inode_cgwb_enabled, inode_to_bdi};
use crate::linux::include::backing_dev_defs::BdiWriteback;
use crate::linux::include::cgroup_defs::{Cgroup, Css, Subsys};
use crate::linux::include::fs::{I_CLEAR, I_DIRTY, I_DIRTY_ALL, I_DIRTY_INODE, I_DIRTY_SYNC, I_DIRTY_TIME, I_FREEING, I_SYNC, I_SYNC_QUEUED, Inode, wb_inode};
use crate::linux::include::writeback::{SyncMode, WbWritebackWork, WritebackControl};
use crate::linux::kernel::cgroup::cgroup::{css_get, css_put, task_get_css};
use crate::linux::mm::backing_dev::wb_get_create;
use crate::mutants::{Mutant, mutated};
use crate::sync::{Gfp, ListHead, SpinGuard, Tp, emit, lockdep_assert_held, prepare_to_wait, report, schedule, smp_mb, waitqueue_active, wake_up_all, with};

/// `inode_attach_wb`: `folio_css` is the memcg of the folio being dirtied, or null for that of the task in `current`.
pub async fn inode_attach_wb(inode: Inode, folio_css: Css, current: Cgroup) {
    if inode.i_wb().get().is_null() {
        __inode_attach_wb(inode, folio_css, current).await;
    }
}

/// `__inode_attach_wb`: several tasks may do it at once; the first one wins.
pub async fn __inode_attach_wb(inode: Inode, folio_css: Css, current: Cgroup) {
    kfn!(__inode_attach_wb);
    emit(Tp::Call, inode.ptr(), 0);
    let bdi = inode_to_bdi(inode);
    let mut wb = BdiWriteback::NULL;
    if inode_cgwb_enabled(inode) {
        let memcg_css = if !folio_css.is_null() {
            css_get(folio_css).await;
            folio_css
        } else if !current.is_null() {
            task_get_css(current, Subsys::Memory).await
        } else {
            // A kernel thread lives in the root cgroup.
            globals().root_mem_cgroup().get()
        };
        wb = wb_get_create(bdi, memcg_css, Gfp::Atomic).await;
        css_put(memcg_css).await;
    }
    if wb.is_null() {
        wb = bdi.wb();
    }
    let old = if mutated(Mutant::Ord8) {
        let old = inode.i_wb().read_once().await;
        if old.is_null() {
            inode.i_wb().write_once(wb).await;
        }
        old
    } else {
        inode.i_wb().cmpxchg(BdiWriteback::NULL, wb).await
    };
    if !old.is_null() {
        wb.put().await;
    }
    emit(Tp::Return, inode.ptr(), 0);
}

/// `inode_detach_wb`: the inode is being destroyed and nobody else uses it.
pub async fn inode_detach_wb(inode: Inode) {
    kfn!(inode_detach_wb);
    let wb = inode.i_wb().get();
    if !wb.is_null() {
        if inode.i_state().get() & I_CLEAR == 0 {
            report("LT-MEM-0", format!("{} leaves its wb while it is in use", with(|m| m.mem.name(inode.ptr()))));
        }
        wb.put().await;
        inode.i_wb().set(BdiWriteback::NULL);
    }
}

/// `inode_io_list_del`: takes an inode off its wb's list.
pub async fn inode_io_list_del(inode: Inode) {
    kfn!(inode_io_list_del);
    let entry = inode.i_io_list();
    if entry.next_rcu().await == u64::from(entry.ptr().0) {
        return;
    }
    let (wb, _list_lock) = inode_to_wb_and_lock_list(inode).await;
    let _i_lock = inode.i_lock().lock().await;
    inode.i_state().clear(I_SYNC_QUEUED);
    entry.del_init();
    wb_io_lists_depopulated(wb);
}

/// `sb_mark_inode_writeback`: the inode got its first page under writeback. i_pages lock.
pub async fn sb_mark_inode_writeback(inode: Inode) {
    let sb = inode.i_sb().get();
    if inode.i_wb_list().is_empty() {
        let _lock = sb.s_inode_wblist_lock().lock_irq().await;
        if inode.i_wb_list().is_empty() {
            inode.i_wb_list().add_tail(sb.s_inodes_wb());
        }
    }
}

/// `sb_clear_inode_writeback`: its last page under writeback is done. i_pages lock.
pub async fn sb_clear_inode_writeback(inode: Inode) {
    let sb = inode.i_sb().get();
    if !inode.i_wb_list().is_empty() {
        let _lock = sb.s_inode_wblist_lock().lock_irq().await;
        if !inode.i_wb_list().is_empty() {
            inode.i_wb_list().del_init();
        }
    }
}

/// `redirty_tail_locked`: back to b_dirty; an inode being freed leaves the lists instead.
pub fn redirty_tail_locked(inode: Inode, wb: BdiWriteback) {
    lockdep_assert_held(inode.i_lock());
    inode.i_state().clear(I_SYNC_QUEUED);
    if inode.i_state().get() & I_FREEING != 0 {
        inode.i_io_list().del_init();
        wb_io_lists_depopulated(wb);
        return;
    }
    inode.dirtied_expired().set(false);
    let youngest = wb.b_dirty().next();
    if !wb.b_dirty().is_empty() && inode.dirtied_when().get() < wb_inode(youngest).dirtied_when().get() {
        dirtied_now(inode);
    }
    inode_io_list_move_locked(inode, wb, wb.b_dirty());
}

/// `redirty_tail`
pub async fn redirty_tail(inode: Inode, wb: BdiWriteback) {
    let _i_lock = inode.i_lock().lock().await;
    redirty_tail_locked(inode, wb);
}

/// `requeue_io`: to be looked at again once b_io is done.
pub fn requeue_io(inode: Inode, wb: BdiWriteback) {
    inode_io_list_move_locked(inode, wb, wb.b_more_io());
}

/// `inode_sync_complete`: writeback of the inode ended. i_lock.
pub async fn inode_sync_complete(inode: Inode) {
    lockdep_assert_held(inode.i_lock());
    inode.i_state().clear(I_SYNC);
    // Waiters enter the queue under i_lock, so that an empty queue needs no wake-up.
    if waitqueue_active(inode.i_sync_wait()) {
        wake_up_all(inode.i_sync_wait()).await;
    }
}

/// `inode_wait_for_writeback`: waits until I_SYNC is clear, dropping i_lock to sleep. The inode is pinned by the caller.
pub async fn inode_wait_for_writeback(inode: Inode, mut i_lock: SpinGuard) -> SpinGuard {
    kfn!(inode_wait_for_writeback);
    while inode.i_state().get() & I_SYNC != 0 {
        prepare_to_wait(inode.i_sync_wait());
        drop(i_lock);
        schedule(inode.i_sync_wait()).await;
        i_lock = inode.i_lock().lock().await;
    }
    i_lock
}

/// `inode_sleep_on_writeback`: sleeps once if I_SYNC is set. The inode may be gone when it returns.
pub async fn inode_sleep_on_writeback(inode: Inode, i_lock: SpinGuard) {
    kfn!(inode_sleep_on_writeback);
    let waitq = inode.i_sync_wait();
    if inode.i_state().get() & I_SYNC == 0 {
        return;
    }
    prepare_to_wait(waitq);
    drop(i_lock);
    schedule(waitq).await;
}

/// The inode's time on its list starts now.
pub fn dirtied_now(inode: Inode) {
    inode.dirtied_expired().set(false);
    inode.dirtied_when().set(globals().jiffies().get());
}

/// `move_expired_inodes`: moves inodes from the old end of `from` to b_io, oldest first, up to one that is too young.
async fn move_expired_inodes(from: ListHead, to: ListHead, dirtied_before: u64, expired_only: bool) -> u32 {
    kfn!(move_expired_inodes);
    let mut moved = 0;
    while !from.is_empty() {
        let inode = wb_inode(from.prev());
        if inode.dirtied_when().get() > dirtied_before || (expired_only && !inode.dirtied_expired().get()) {
            break;
        }
        let _i_lock = inode.i_lock().lock().await;
        inode.i_io_list().move_to(to);
        inode.i_state().or(I_SYNC_QUEUED);
        moved += 1;
    }
    moved
}

/// `queue_io`: fills b_io with b_more_io as it is and with what is old enough of b_dirty and b_dirty_time.
pub async fn queue_io(wb: BdiWriteback, work: WbWritebackWork, dirtied_before: u64) {
    kfn!(queue_io);
    lockdep_assert_held(wb.list_lock());
    while !wb.b_more_io().is_empty() {
        wb.b_more_io().prev().move_to(wb.b_io());
    }
    let mut moved = move_expired_inodes(wb.b_dirty(), wb.b_io(), dirtied_before, work.for_kupdate().get()).await;
    moved += move_expired_inodes(wb.b_dirty_time(), wb.b_io(), dirtied_before, !work.for_sync().get()).await;
    if moved > 0 {
        wb_io_lists_populated(wb);
    }
}

/// `requeue_inode`: puts an inode that the flusher has just written on the list that fits it. list_lock of `wb`, i_lock.
pub fn requeue_inode(inode: Inode, wb: BdiWriteback, wbc: &WritebackControl) {
    kfn!(requeue_inode);
    let state = inode.i_state().get();
    if state & I_FREEING != 0 {
        return;
    }
    if wbc.pages_skipped > 0 {
        if state & I_DIRTY_ALL != 0 {
            redirty_tail_locked(inode, wb);
        } else {
            inode_cgwb_move_to_attached(inode, wb);
        }
    } else if inode.nr_dirty().get() > 0 {
        if wbc.nr_to_write <= 0 {
            // The slice is used up. I_SYNC_QUEUED stays as it is: after a switch it may be clear.
            requeue_io(inode, wb);
        } else {
            redirty_tail_locked(inode, wb);
        }
    } else if state & I_DIRTY != 0 {
        redirty_tail_locked(inode, wb);
    } else if state & I_DIRTY_TIME != 0 {
        dirtied_now(inode);
        inode_io_list_move_locked(inode, wb, wb.b_dirty_time());
        inode.i_state().clear(I_SYNC_QUEUED);
    } else {
        inode_cgwb_move_to_attached(inode, wb);
    }
}

/// `sync_lazytime`: turns dirty timestamps into real dirtiness; true if there were any.
pub async fn sync_lazytime(inode: Inode) -> bool {
    if inode.i_state().read_once().await & I_DIRTY_TIME == 0 {
        return false;
    }
    __mark_inode_dirty(inode, I_DIRTY_SYNC).await;
    true
}

/// `do_writepages`' wish to write dirty timestamps: data integrity, or old enough.
pub fn lazytime_is_due(inode: Inode, wbc: &WritebackControl) -> bool {
    wbc.sync_mode == SyncMode::All || inode.dirtied_expired().get()
}

/// `__mark_inode_dirty` by a kernel thread.
pub async fn __mark_inode_dirty(inode: Inode, flags: u64) {
    mark_inode_dirty_by(inode, flags, Cgroup::NULL).await;
}

/// `__mark_inode_dirty` by a task in `current`: sets dirty flags, and puts an inode that was clean on its wb's list.
pub async fn mark_inode_dirty_by(inode: Inode, flags: u64, current: Cgroup) {
    kfn!(__mark_inode_dirty);
    let mut flags = flags;
    if flags & I_DIRTY_INODE != 0 {
        if inode.i_state().read_once().await & I_DIRTY_TIME != 0 {
            let _i_lock = inode.i_lock().lock().await;
            inode.i_state().clear(I_DIRTY_TIME);
        }
        flags &= !I_DIRTY_TIME;
    }
    smp_mb().await;
    if inode.i_state().read_once().await & flags == flags {
        return;
    }
    let i_lock = inode.i_lock().lock().await;
    if inode.i_state().get() & flags == flags {
        return;
    }
    let was_dirty = inode.i_state().get() & I_DIRTY != 0;
    inode_attach_wb(inode, Css::NULL, current).await;
    inode.i_state().or(flags);
    if was_dirty {
        // Already on a list, whose order by age must not change.
        return;
    }
    // Before the checks below, because it drops i_lock: they must hold together with the move.
    let (wb, list_lock) = locked_inode_to_wb_and_lock_list(inode, i_lock).await;
    let i_lock = if mutated(Mutant::H021) { None } else { Some(inode.i_lock().lock().await) };
    // The flusher owns the position of an inode that it has queued.
    let queued = if mutated(Mutant::H020a) || mutated(Mutant::H020b) { I_SYNC } else { I_SYNC_QUEUED };
    let state = inode.i_state().get();
    let has_place = inode.i_blkdev().get() || inode.i_hashed().get();
    if state & queued != 0 || !has_place || state & I_FREEING != 0 {
        drop(list_lock);
        drop(i_lock);
        return;
    }
    dirtied_now(inode);
    let list = if state & I_DIRTY != 0 { wb.b_dirty() } else { wb.b_dirty_time() };
    let wakeup_bdi = inode_io_list_move_locked(inode, wb, list);
    let wakeup_bdi = wakeup_bdi && wb.bdi().get().cap_writeback().get();
    if mutated(Mutant::H012) {
        drop(list_lock);
        drop(i_lock);
        if wakeup_bdi {
            wb_wakeup_delayed(wb).await;
        }
        return;
    }
    if wakeup_bdi {
        // Under the locks: only they keep the inode's reference on the wb in place.
        wb_wakeup_delayed(wb).await;
    }
    drop(list_lock);
    drop(i_lock);
}
