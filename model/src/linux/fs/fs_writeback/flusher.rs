//! The flusher: works, old data, background, and the loop that writes inodes.
//!
//! Mirrors:    fs/fs-writeback.c, __writeback_single_inode(), writeback_sb_inodes() to wb_workfn(); fidelity: mirror.
//! Simplified: one call writes all dirty pages of an inode unless the choice `writeback_chunk_size` says otherwise; no limit on the
//!             time one call takes; old data are due whenever an inode is old enough; the background threshold is set by the case.
//! Locks:      list_lock around every look at the lists, dropped while an inode is written; s_umount by trylock only.
//! Ordering:   flags are cleared, then (full barrier) the dirty mark is tested; I_SYNC pins the inode while list_lock is dropped.
//! Rules:      LT-LIST-6, LT-LIST-7, LT-LIST-12, LT-PROG-2, LT-PROG-10, LT-SYNC-1, LT-MEM-1, LT-MEM-6.

use super::dirty::{inode_sleep_on_writeback, inode_sync_complete, lazytime_is_due, queue_io, redirty_tail, redirty_tail_locked, requeue_inode, requeue_io};
use super::foreign::wbc_attach_and_unlock_inode;
use super::{finish_writeback_work, inode_to_wb_and_lock_list, wb_test, wb_wakeup, wb_wakeup_delayed, wbc_detach_inode};
use crate::linux::fs::super_::super_trylock_shared;
use crate::linux::globals;
use crate::linux::include::backing_dev::wb_has_dirty_io;
use crate::linux::include::backing_dev_defs::{BdiWriteback, WB_REGISTERED, WB_START_ALL, WB_START_DONTCACHE, WB_WRITEBACK_RUNNING, wb_fields};
use crate::linux::include::fs::{I_DIRTY, I_DIRTY_ALL, I_DIRTY_PAGES, I_FREEING, I_NEW, I_SYNC, I_WILL_FREE, Inode, SuperBlock, wb_inode};
use crate::linux::include::writeback::{SyncMode, WbWritebackWork, WritebackControl, work_fields};
use crate::linux::mm::backing_dev::bdi_dev_name;
use crate::linux::mm::page_writeback::{do_writepages, filemap_fdatawait};
use crate::mutants::{Mutant, mutated};
use crate::sync::{Choice, ListHead, SpinGuard, Tp, WorkFn, choose, emit, kfree, kzalloc_nofail, requeue_delayed_work, smp_mb};
use crate::{container_of, kfn};

/// `LONG_MAX`: as many pages as there are.
pub const LONG_MAX: i64 = i64::MAX;

/// `MIN_WRITEBACK_PAGES`: 4 MB.
const MIN_WRITEBACK_PAGES: i64 = 1024;

/// `__writeback_single_inode`: writes dirty pages and clears the flags; I_SYNC is the caller's.
pub async fn __writeback_single_inode(inode: Inode, wbc: &mut WritebackControl) {
    kfn!(__writeback_single_inode);
    do_writepages(inode, wbc).await;
    if wbc.sync_mode == SyncMode::All && !wbc.for_sync {
        filemap_fdatawait(inode).await;
    }
    if lazytime_is_due(inode, wbc) {
        super::dirty::sync_lazytime(inode).await;
    }
    let i_lock = inode.i_lock().lock().await;
    let mut early = None;
    if mutated(Mutant::Ord15b) {
        // Without the barrier the mark may be read before others see the flags clear.
        early = Some(inode.nr_dirty().read_once().await);
        inode.i_state().write_once(inode.i_state().get() & !I_DIRTY).await;
    }
    inode.i_state().clear(I_DIRTY);
    smp_mb().await;
    let nr_dirty = match early {
        Some(nr) => nr,
        None => inode.nr_dirty().read_once().await,
    };
    // Cleared above with the others, so that either the dirtier sees the flag clear or the mark is seen here.
    if nr_dirty > 0 {
        inode.i_state().or(I_DIRTY_PAGES);
    }
    drop(i_lock);
}

/// `writeback_chunk_size`: pages of one slice; a slice of one page stands for an inode with more pages than a slice.
fn writeback_chunk_size(work: WbWritebackWork) -> i64 {
    if work.mode() == SyncMode::All {
        return LONG_MAX;
    }
    if choose(Choice::Of("writeback_chunk_size", 2)) == 1 { 1 } else { MIN_WRITEBACK_PAGES }
}

/// `writeback_sb_inodes`: writes inodes of `sb` on b_io; yields pages and inodes done. Drops and retakes list_lock.
async fn writeback_sb_inodes(sb: SuperBlock, wb: BdiWriteback, work: WbWritebackWork, mut list_lock: SpinGuard) -> (i64, SpinGuard) {
    kfn!(writeback_sb_inodes);
    let mut wbc = WritebackControl::new(work.mode(), 0);
    wbc.for_sync = work.for_sync().get();
    let mut total_wrote = 0;
    while !wb.b_io().is_empty() {
        let inode = wb_inode(wb.b_io().prev());
        if inode.i_sb().get() != sb {
            if work.sb().get().is_null() {
                break;
            }
            redirty_tail(inode, wb).await;
            continue;
        }
        let i_lock = inode.i_lock().lock().await;
        let state = inode.i_state().get();
        if state & (I_NEW | I_FREEING | I_WILL_FREE) != 0 {
            redirty_tail_locked(inode, wb);
            continue;
        }
        if state & I_SYNC != 0 && wbc.sync_mode != SyncMode::All {
            requeue_io(inode, wb);
            continue;
        }
        drop(list_lock);
        if state & I_SYNC != 0 {
            inode_sleep_on_writeback(inode, i_lock).await;
            // The inode may be gone: look at b_io afresh.
            list_lock = wb.list_lock().lock().await;
            continue;
        }
        inode.i_state().or(I_SYNC);
        wbc_attach_and_unlock_inode(&mut wbc, inode, i_lock).await;
        let write_chunk = writeback_chunk_size(work);
        wbc.nr_to_write = write_chunk;
        wbc.pages_skipped = 0;
        __writeback_single_inode(inode, &mut wbc).await;
        wbc_detach_inode(&mut wbc).await;
        let written = write_chunk - wbc.nr_to_write;
        work.nr_pages().set(work.nr_pages().get() - written);
        total_wrote += (written - wbc.pages_skipped).max(0);
        // A switch may have moved the inode: its list is that of its wb now.
        let (tmp_wb, tmp_lock) = inode_to_wb_and_lock_list(inode).await;
        let i_lock = inode.i_lock().lock().await;
        if inode.i_state().get() & I_DIRTY_ALL == 0 {
            total_wrote += 1;
        }
        requeue_inode(inode, tmp_wb, &wbc);
        inode_sync_complete(inode).await;
        drop(i_lock);
        list_lock = tmp_lock;
        if tmp_wb != wb {
            drop(list_lock);
            list_lock = wb.list_lock().lock().await;
        }
        if total_wrote > 0 && work.nr_pages().get() <= 0 {
            break;
        }
    }
    (total_wrote, list_lock)
}

/// `__writeback_inodes_wb`: the same for all superblocks, each only if its s_umount can be had without waiting.
async fn __writeback_inodes_wb(wb: BdiWriteback, work: WbWritebackWork, mut list_lock: SpinGuard) -> (i64, SpinGuard) {
    kfn!(__writeback_inodes_wb);
    let mut wrote = 0;
    while !wb.b_io().is_empty() {
        let inode = wb_inode(wb.b_io().prev());
        let sb = inode.i_sb().get();
        let Some(s_umount) = super_trylock_shared(sb).await else {
            // Not b_more_io: that would be retried at once, and fail again.
            redirty_tail(inode, wb).await;
            continue;
        };
        let nr;
        (nr, list_lock) = writeback_sb_inodes(sb, wb, work, list_lock).await;
        wrote += nr;
        s_umount.up().await;
        if wrote > 0 && work.nr_pages().get() <= 0 {
            break;
        }
    }
    (wrote, list_lock)
}

/// `wb_over_bg_thresh`
fn wb_over_bg_thresh(wb: BdiWriteback) -> bool {
    let thresh = globals().dirty_background_pages().get();
    thresh > 0 && wb.stat_reclaimable().get() >= thresh
}

/// `wb_writeback`: carries out one work.
pub async fn wb_writeback(wb: BdiWriteback, work: WbWritebackWork) {
    kfn!(wb_writeback);
    emit(Tp::Call, wb.ptr(), u64::from(work.ptr().0));
    let mut queued = false;
    let mut dirtied_before = globals().jiffies().get();
    let (background, kupdate) = (work.for_background().get(), work.for_kupdate().get());
    loop {
        if work.nr_pages().get() <= 0 {
            break;
        }
        if (background || kupdate) && !list_empty_once(wb.work_list()).await {
            break;
        }
        if background && !wb_over_bg_thresh(wb) {
            break;
        }
        let mut list_lock = wb.list_lock().lock().await;
        if background || kupdate {
            dirtied_before = globals().jiffies().get();
        }
        if wb.b_io().is_empty() {
            queue_io(wb, work, dirtied_before).await;
            queued = true;
        }
        let progress;
        let sb = work.sb().get();
        (progress, list_lock) =
            if sb.is_null() { __writeback_inodes_wb(wb, work, list_lock).await } else { writeback_sb_inodes(sb, wb, work, list_lock).await };
        if progress > 0 || (!queued && !mutated(Mutant::H030)) {
            continue;
        }
        if wb.b_more_io().is_empty() {
            break;
        }
        // Nothing written: wait for one inode, else this loop would spin.
        let inode = wb_inode(wb.b_more_io().prev());
        let i_lock = inode.i_lock().lock().await;
        drop(list_lock);
        inode_sleep_on_writeback(inode, i_lock).await;
    }
    emit(Tp::Return, wb.ptr(), u64::from(work.ptr().0));
}

/// `list_empty` without the list's lock.
async fn list_empty_once(head: ListHead) -> bool {
    head.next_rcu().await == u64::from(head.ptr().0)
}

/// `get_next_work_item`
async fn get_next_work_item(wb: BdiWriteback) -> Option<WbWritebackWork> {
    kfn!(get_next_work_item);
    let _work_lock = wb.work_lock().lock_irq().await;
    if wb.work_list().is_empty() {
        return None;
    }
    let work = container_of!(wb.work_list().next(), WbWritebackWork, work_fields::list);
    work.list().del_init();
    Some(work)
}

/// A work that is a local variable of the flusher, carried out at once.
async fn run_own_work(wb: BdiWriteback, nr_pages: i64, kind: fn(WbWritebackWork)) {
    let work = WbWritebackWork(kzalloc_nofail(WbWritebackWork::TYPE));
    work.nr_pages().set(nr_pages);
    kind(work);
    wb_writeback(wb, work).await;
    kfree(work.ptr());
}

/// `wb_check_old_data_flush`'s test of time: is the oldest inode of a list old enough?
fn old_data_due(wb: BdiWriteback) -> bool {
    [wb.b_dirty(), wb.b_dirty_time(), wb.b_io(), wb.b_more_io()].into_iter().any(|l| !l.is_empty() && wb_inode(l.prev()).dirtied_expired().get())
}

/// `wb_do_writeback`: all queued works in order, then start-all, dontcache, old data, background.
async fn wb_do_writeback(wb: BdiWriteback) {
    kfn!(wb_do_writeback);
    wb.state().test_and_set_bit(WB_WRITEBACK_RUNNING).await;
    while let Some(work) = get_next_work_item(wb).await {
        wb_writeback(wb, work).await;
        finish_writeback_work(wb, work).await;
    }
    let state = wb.state().read_once().await;
    if state & 1 << WB_START_ALL != 0 {
        run_own_work(wb, LONG_MAX, |_| ()).await;
        wb.state().test_and_clear_bit(WB_START_ALL).await;
    }
    if state & 1 << WB_START_DONTCACHE != 0 {
        wb.state().test_and_clear_bit(WB_START_DONTCACHE).await;
        run_own_work(wb, wb.stat_reclaimable().get(), |_| ()).await;
    }
    if old_data_due(wb) {
        run_own_work(wb, LONG_MAX, |w| w.for_kupdate().set(true)).await;
    }
    if wb_over_bg_thresh(wb) {
        run_own_work(wb, LONG_MAX, |w| w.for_background().set(true)).await;
    }
    wb.state().test_and_clear_bit(WB_WRITEBACK_RUNNING).await;
}

/// `writeback_inodes_wb`: a bounded flush.
async fn writeback_inodes_wb(wb: BdiWriteback, nr_pages: i64) {
    kfn!(writeback_inodes_wb);
    let work = WbWritebackWork(kzalloc_nofail(WbWritebackWork::TYPE));
    work.nr_pages().set(nr_pages);
    let list_lock = wb.list_lock().lock().await;
    if wb.b_io().is_empty() {
        queue_io(wb, work, globals().jiffies().get()).await;
    }
    let (_, list_lock) = __writeback_inodes_wb(wb, work, list_lock).await;
    drop(list_lock);
    kfree(work.ptr());
}

/// `wb_workfn`: the work function of `wb->dwork`.
pub const WB_WORKFN: WorkFn = WorkFn { name: "wb_workfn", body: |dwork| Box::pin(flusher(BdiWriteback(dwork.sub(wb_fields::dwork)))) };

async fn flusher(wb: BdiWriteback) {
    kfn!(wb_workfn);
    // set_worker_desc shows the device's name.
    bdi_dev_name(wb.bdi().get()).await;
    let rescuer = choose(Choice::Of("current_is_workqueue_rescuer", 2)) == 1;
    if !rescuer || !wb_test(wb, WB_REGISTERED) {
        // Also while the wb is shut down: its list of works has to be drained.
        loop {
            wb_do_writeback(wb).await;
            if list_empty_once(wb.work_list()).await {
                break;
            }
        }
    } else {
        writeback_inodes_wb(wb, 1024).await;
    }
    if !list_empty_once(wb.work_list()).await {
        if mutated(Mutant::H001) {
            requeue_delayed_work(wb.dwork()).await;
        } else {
            wb_wakeup(wb).await;
        }
    } else if wb_has_dirty_io(wb).await {
        wb_wakeup_delayed(wb).await;
    }
}

/// `wb_update_bandwidth_workfn`: the work function of `wb->bw_dwork`; bandwidth is not modelled, but it reads the wb.
pub const WB_UPDATE_BANDWIDTH_WORKFN: WorkFn =
    WorkFn { name: "wb_update_bandwidth_workfn", body: |work| Box::pin(update_bandwidth(BdiWriteback(work.sub(wb_fields::bw_dwork)))) };

async fn update_bandwidth(wb: BdiWriteback) {
    kfn!(wb_update_bandwidth_workfn);
    let _list_lock = wb.list_lock().lock().await;
    // The kernel adjusts the bdi's total here if the wb has dirty io.
    wb.bdi().get().tot_write_bandwidth().get();
}
