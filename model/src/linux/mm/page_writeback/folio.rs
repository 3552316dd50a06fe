//! Pages of an inode: dirty, on their way to the device, under writeback, clean.
//!
//! Mirrors:    mm/page-writeback.c, __folio_mark_dirty() to __folio_start_writeback(), do_writepages(),
//!             balance_dirty_pages_ratelimited_flags(); __filemap_fdatawrite_range() and __filemap_fdatawait_range() of
//!             mm/filemap.c; truncate_inode_pages_final() of mm/truncate.c; fidelity: model.
//! Simplified: pages are counted, not kept; one folio lock an inode; setting the dirty bit, the mark and the account is one
//!             step (OBS-16); throttling is one round that always starts the flusher and the foreign flushes.
//! Locks:      i_pages lock (irq) > s_inode_wblist_lock, work_lock, cgwb_lock; folio_lock from clearing the dirty bit to
//!             setting the writeback mark.
//! Ordering:   clearing the dirty bit and its account run inside one unlocked_inode_to_wb transaction, everything else that
//!             is counted on i_wb under the i_pages lock.
//! Rules:      LT-ACC-1, LT-REF-1, LT-LOOK-2, LT-PROG-7, LT-PROG-12, LT-SYNC-1, LT-MEM-1.

use crate::kfn;
use crate::linux::fs::fs_writeback::dirty::{sb_clear_inode_writeback, sb_mark_inode_writeback};
use crate::linux::fs::fs_writeback::foreign::{PAGE_SHIFT, wbc_account_cgroup_owner};
use crate::linux::fs::fs_writeback::{inode_attach_wb, mark_inode_dirty_by, wb_test, wb_wakeup, wbc_attach_fdatawrite_inode, wbc_detach_inode};
use crate::linux::globals;
use crate::linux::include::backing_dev::{inode_to_wb, unlocked_inode_to_wb_begin, unlocked_inode_to_wb_end, wb_get_create_current};
use crate::linux::include::backing_dev_defs::{BackingDevInfo, BdiWriteback, WB_REGISTERED};
use crate::linux::include::cgroup_defs::{Cgroup, Css};
use crate::linux::include::fs::{I_DIRTY_PAGES, Inode};
use crate::linux::include::writeback::{SyncMode, WritebackControl};
use crate::linux::mm::memcontrol::{mem_cgroup_flush_foreign, mem_cgroup_track_foreign_dirty, mod_memcg_dirty};
use crate::mutants::{Mutant, mutated};
use crate::sync::{Choice, Gfp, Pred, SpinGuard, Tp, choose, emit, queue_delayed_work, report, spawn_irq, wait_event, waitqueue_active, wake_up_all, with};

fn add(counter: crate::sync::Var<i64>, nr: i64) {
    counter.set(counter.get() + nr);
}

/// `folio_account_dirtied`: counts `nr` newly dirty pages of memcg `folio_css` on the inode's wb. i_pages lock.
pub async fn folio_account_dirtied(inode: Inode, folio_css: Css, nr: i64) {
    kfn!(folio_account_dirtied);
    inode_attach_wb(inode, folio_css, Cgroup::NULL).await;
    let wb = inode_to_wb(inode);
    mod_memcg_dirty(folio_css, nr);
    add(wb.stat_reclaimable(), nr);
    mem_cgroup_track_foreign_dirty(inode, folio_css, wb).await;
}

/// `folio_mark_dirty` of `nr` clean pages charged to memcg `folio_css`, which the caller keeps alive.
pub async fn folio_mark_dirty(inode: Inode, folio_css: Css, nr: i64) {
    kfn!(__folio_mark_dirty);
    // Without the barrier, the flag test may be older than the dirty mark.
    let early = mutated(Mutant::Ord15a) && inode.i_state().read_once().await & I_DIRTY_PAGES != 0;
    let i_pages = inode.i_pages().lock_irq().await;
    folio_account_dirtied(inode, folio_css, nr).await;
    add(inode.nr_dirty(), nr);
    inode.folio_memcg_id().set(folio_css.id().get());
    emit(Tp::DirtyPages, inode.ptr(), nr as u64);
    drop(i_pages);
    if !early {
        mark_inode_dirty_by(inode, I_DIRTY_PAGES, Cgroup::NULL).await;
    }
}

/// The memcg whose counter a page of `inode` is in: the one that dirtied last, or the root after that is gone.
fn folio_memcg(inode: Inode) -> Css {
    let g = globals();
    let id = inode.folio_memcg_id().get();
    let css = if id == 0 { Css::NULL } else { Css(g.css_idr_memory().slot(id).get()) };
    if css.is_null() { g.root_mem_cgroup().get() } else { css }
}

/// `folio_clear_dirty_for_io`, `__folio_cancel_dirty`: clears the dirty bit of at most `max` pages and yields their number.
///
/// The folio lock is held, and the dirty marks stay until the caller takes them away.
pub async fn folio_clear_dirty_for_io(inode: Inode, max: i64) -> i64 {
    kfn!(folio_clear_dirty_for_io);
    let memcg_lock = lock_folio_memcg().await;
    let (wb, cookie) = unlocked_inode_to_wb_begin(inode).await;
    let cleaning = inode.nr_cleaning().read_once().await;
    let nr = (inode.nr_dirty().get() - cleaning).clamp(0, max);
    if nr > 0 {
        inode.nr_cleaning().set(cleaning + nr);
        wb.stat_reclaimable().fetch_add(-nr).await;
        mod_memcg_dirty(folio_memcg(inode), -nr);
    }
    unlocked_inode_to_wb_end(inode, cookie);
    if memcg_lock.is_some() {
        // The section goes on for a while.
        inode.nr_dirty().read_once().await;
    }
    nr
}

/// The lock that once surrounded changes of a folio's state; for the mutant that needs a caller with interrupts off.
async fn lock_folio_memcg() -> Option<SpinGuard> {
    if mutated(Mutant::H019) { Some(globals().memcg_move_lock().lock_irq().await) } else { None }
}

/// `__folio_start_writeback` of `nr` pages whose dirty bit was cleared.
pub async fn folio_start_writeback(inode: Inode, nr: i64) {
    kfn!(__folio_start_writeback);
    let _i_pages = inode.i_pages().lock_irq().await;
    let on_wblist = inode.nr_writeback().get() > 0;
    add(inode.nr_writeback(), nr);
    let wb = inode_to_wb(inode);
    add(wb.stat_writeback(), nr);
    if !on_wblist {
        add(wb.writeback_inodes(), 1);
        sb_mark_inode_writeback(inode).await;
    }
    add(inode.nr_cleaning(), -nr);
    add(inode.nr_dirty(), -nr);
    emit(Tp::WritePages, inode.ptr(), nr as u64);
}

/// `wb_inode_writeback_end`: an inode of `wb` has no page under writeback any more. i_pages lock.
pub async fn wb_inode_writeback_end(wb: BdiWriteback) {
    kfn!(wb_inode_writeback_end);
    add(wb.writeback_inodes(), -1);
    let _work_lock = wb.work_lock().lock_irq().await;
    if wb_test(wb, WB_REGISTERED) || mutated(Mutant::H035) {
        queue_delayed_work(wb.bw_dwork()).await;
    }
}

/// `folio_end_writeback` of `nr` pages; the inode may be gone when the i_pages lock is dropped.
pub async fn folio_end_writeback(inode: Inode, nr: i64) {
    kfn!(__folio_end_writeback);
    let _memcg_lock = lock_folio_memcg().await;
    let _i_pages = inode.i_pages().lock_irq().await;
    add(inode.nr_writeback(), -nr);
    let wb = inode_to_wb(inode);
    add(wb.stat_writeback(), -nr);
    if inode.nr_writeback().get() == 0 {
        wb_inode_writeback_end(wb).await;
        sb_clear_inode_writeback(inode).await;
        if waitqueue_active(inode.i_writeback_wait()) {
            wake_up_all(inode.i_writeback_wait()).await;
        }
    }
}

/// Hands `nr` pages under writeback to the device, which completes them at once or in an interrupt later on.
async fn submit_bio(inode: Inode, nr: i64) {
    if inode.io_completes_later().get() {
        let bio = inode.nr_bios().get() + 1;
        inode.nr_bios().set(bio);
        spawn_irq(inode.ptr(), bio, "end_page_writeback", Box::pin(folio_end_writeback(inode, nr)));
    } else {
        folio_end_writeback(inode, nr).await;
    }
}

/// `do_writepages`: writes dirty pages, at most `wbc.nr_to_write`; does not wait for their completion.
pub async fn do_writepages(inode: Inode, wbc: &mut WritebackControl) {
    kfn!(do_writepages);
    if inode.nr_dirty().read_once().await == 0 {
        return;
    }
    let folio_lock = inode.folio_lock().lock().await;
    if choose(Choice::Of("folio_redirty_for_writepage", 2)) == 1 {
        // Buffers are locked: the pages stay dirty.
        wbc.pages_skipped += inode.nr_dirty().get();
        return;
    }
    let nr = folio_clear_dirty_for_io(inode, wbc.nr_to_write).await;
    if nr > 0 {
        wbc_account_cgroup_owner(wbc, inode.folio_memcg_id().get(), (nr as u64) << PAGE_SHIFT).await;
        wbc.nr_to_write -= nr;
        folio_start_writeback(inode, nr).await;
        drop(folio_lock);
        submit_bio(inode, nr).await;
    }
}

/// `filemap_fdatawait`: waits until no page is under writeback. The caller keeps the inode.
pub async fn filemap_fdatawait(inode: Inode) {
    kfn!(filemap_fdatawait);
    wait_event(inode.i_writeback_wait(), inode.nr_writeback().ptr(), Pred::Zero).await;
}

/// `file_write_and_wait`: data-integrity writeback of the pages by a task in `current`, without I_SYNC.
pub async fn file_write_and_wait(inode: Inode, current: Cgroup) {
    kfn!(file_write_and_wait_range);
    if inode.nr_dirty().read_once().await > 0 {
        let mut wbc = WritebackControl::new(SyncMode::All, i64::MAX);
        wbc_attach_fdatawrite_inode(&mut wbc, inode, current).await;
        do_writepages(inode, &mut wbc).await;
        wbc_detach_inode(&mut wbc).await;
    }
    filemap_fdatawait(inode).await;
}

/// `truncate_inode_pages_final`: waits for writeback and throws dirty pages away.
pub async fn truncate_inode_pages_final(inode: Inode) {
    kfn!(truncate_inode_pages_final);
    if inode.nr_dirty().get() == 0 && inode.nr_writeback().get() == 0 {
        return;
    }
    let _folio_lock = inode.folio_lock().lock().await;
    filemap_fdatawait(inode).await;
    let nr = folio_clear_dirty_for_io(inode, i64::MAX).await;
    let _i_pages = inode.i_pages().lock_irq().await;
    add(inode.nr_cleaning(), -nr);
    add(inode.nr_dirty(), -nr);
    if inode.nr_cleaning().get() != 0 {
        report("LT-ACC-1", format!("{} is truncated while pages are on their way to the device", with(|m| m.mem.name(inode.ptr()))));
    }
}

/// `balance_dirty_pages_ratelimited` by a task in `cgroup`: one round of throttling on its wb.
pub async fn balance_dirty_pages_ratelimited(bdi: BackingDevInfo, cgroup: Cgroup) {
    kfn!(balance_dirty_pages_ratelimited_flags);
    let mut wb = wb_get_create_current(bdi, cgroup, Gfp::Kernel).await;
    if wb.is_null() {
        wb = bdi.wb();
    }
    wb_start_background_writeback(wb).await;
    mem_cgroup_flush_foreign(wb).await;
    wb.put().await;
}

/// `wb_start_background_writeback`: it is the flusher that tests the threshold.
async fn wb_start_background_writeback(wb: BdiWriteback) {
    kfn!(wb_start_background_writeback);
    wb_wakeup(wb).await;
}
