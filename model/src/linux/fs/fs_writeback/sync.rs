//! Writeback on behalf of somebody who waits: sync, fsync, and kicking all flushers.
//!
//! Mirrors:    fs/fs-writeback.c, bdi_split_work_to_wbs(), writeback_single_inode(), wakeup_flusher_threads() and
//!             wait_sb_inodes() to sync_inode_metadata(); generic_file_fsync() of fs/libfs.c; fidelity: mirror.
//! Simplified: works are not split by bandwidth; WB_SYNC_NONE requests for a superblock write everything.
//! Locks:      s_umount (held by the caller) > wb_switch_rwsem (write) > completion wait; s_umount > s_sync_lock >
//!             s_inode_wblist_lock; wb_list under RCU.
//! Ordering:   no inode switches while a data-integrity work is split and carried out.
//! Rules:      LT-SYNC-1, LT-ISW-5, LT-PROG-2, LT-MEM-1, LT-MEM-5, LT-LIST-12.

use super::dirty::{dirtied_now, inode_sync_complete, inode_wait_for_writeback, redirty_tail_locked};
use super::flusher::{__writeback_single_inode, LONG_MAX};
use super::foreign::wbc_attach_and_unlock_inode;
use super::{
    define_wb_completion, inode_cgwb_move_to_attached, inode_io_list_move_locked, inode_to_wb_and_lock_list, wb_queue_work, wb_wait_for_completion, wb_wakeup,
    wbc_detach_inode,
};
use crate::linux::fs::inode::{__iget, iput};
use crate::linux::globals;
use crate::linux::include::backing_dev::{unlocked_inode_to_wb_begin, unlocked_inode_to_wb_end, wb_has_dirty_io};
use crate::linux::include::backing_dev_defs::{
    BackingDevInfo, BdiWriteback, WB_REGISTERED, WB_START_ALL, WB_START_DONTCACHE, WB_WRITEBACK_RUNNING, bdi_fields, wb_fields,
};
use crate::linux::include::cgroup_defs::Cgroup;
use crate::linux::include::fs::{
    I_DIRTY, I_DIRTY_ALL, I_DIRTY_TIME, I_FREEING, I_NEW, I_SYNC, I_SYNC_QUEUED, I_WILL_FREE, Inode, ListOnStack, SuperBlock, inode_fields,
};
use crate::linux::include::writeback::{SyncMode, WbReason, WbWritebackWork, WritebackControl};
use crate::linux::mm::page_writeback::{file_write_and_wait, filemap_fdatawait};
use crate::mutants::{Mutant, mutated};
use crate::rules::{WalkRecheck, rules};
use crate::sync::{Field, Gfp, ListHead, Ptr, Tp, emit, kfree, kzalloc, kzalloc_nofail, rcu_read_lock, report, with};
use crate::{container_of, kfn};

/// `rcu_dereference(entry->next)`
async fn next_rcu(entry: ListHead) -> ListHead {
    ListHead::at(Ptr::from_word(entry.next_rcu().await))
}

/// A copy of `base` in `work`.
fn copy_work(work: WbWritebackWork, base: WbWritebackWork) {
    work.nr_pages().set(base.nr_pages().get());
    work.sb().set(base.sb().get());
    work.sync_mode().set(base.sync_mode().get());
    work.for_sync().set(base.for_sync().get());
    work.done().set(base.done().get());
}

/// `bdi_split_work_to_wbs`: queues a copy of `base` on every wb of the bdi that has something to write.
///
/// Without memory for a copy it pins the wb, leaves the read section, waits for an on-stack work, and goes on from the pinned wb.
pub async fn bdi_split_work_to_wbs(bdi: BackingDevInfo, base: WbWritebackWork, skip_if_busy: bool) {
    kfn!(bdi_split_work_to_wbs);
    let head = bdi.wb_list();
    let mut pos = head;
    let mut last_wb = BdiWriteback::NULL;
    'restart: loop {
        let rcu = rcu_read_lock();
        if !last_wb.is_null() && rules().walk_recheck == WalkRecheck::Yes && !last_wb.state().test_bit(WB_REGISTERED).await {
            // Off the list, and so may be the wbs after it.
            break;
        }
        loop {
            pos = next_rcu(pos).await;
            if pos == head {
                break 'restart;
            }
            let wb = container_of!(pos, BdiWriteback, wb_fields::bdi_node);
            if !last_wb.is_null() {
                last_wb.put().await;
                last_wb = BdiWriteback::NULL;
            }
            // Data integrity writes dirty timestamps, too.
            if !wb_has_dirty_io(wb).await && (base.mode() == SyncMode::None || mutated(Mutant::H029) || next_rcu(wb.b_dirty_time()).await == wb.b_dirty_time())
            {
                continue;
            }
            if skip_if_busy && wb.state().test_bit(WB_WRITEBACK_RUNNING).await {
                continue;
            }
            let work = WbWritebackWork(kzalloc(WbWritebackWork::TYPE, Gfp::Atomic, "bdi_split_work_to_wbs"));
            if !work.is_null() {
                copy_work(work, base);
                work.auto_free().set(true);
                wb_queue_work(wb, work).await;
                continue;
            }
            if mutated(Mutant::H010) {
                wb.get().await;
            } else if !wb.tryget().await {
                continue;
            }
            let done = define_wb_completion(bdi);
            let work = WbWritebackWork(kzalloc_nofail(WbWritebackWork::TYPE));
            copy_work(work, base);
            work.done().set(done);
            wb_queue_work(wb, work).await;
            last_wb = wb;
            drop(rcu);
            wb_wait_for_completion(done).await;
            kfree(work.ptr());
            kfree(done.ptr());
            continue 'restart;
        }
    }
    if !last_wb.is_null() {
        last_wb.put().await;
    }
}

/// `__writeback_inodes_sb_nr`: starts writeback of a superblock and waits for its submission, not for its end. s_umount.
pub async fn writeback_inodes_sb(sb: SuperBlock, skip_if_busy: bool) {
    kfn!(__writeback_inodes_sb_nr);
    let bdi = sb.s_bdi().get();
    if bdi.tot_write_bandwidth().read_once().await == 0 {
        return;
    }
    split_and_wait(sb, SyncMode::None, skip_if_busy).await;
}

async fn split_and_wait(sb: SuperBlock, mode: SyncMode, skip_if_busy: bool) {
    let bdi = sb.s_bdi().get();
    let done = define_wb_completion(bdi);
    let work = WbWritebackWork(kzalloc_nofail(WbWritebackWork::TYPE));
    work.sb().set(sb);
    work.sync_mode().set(mode as u32);
    work.nr_pages().set(LONG_MAX);
    work.for_sync().set(mode == SyncMode::All);
    work.done().set(done);
    bdi_split_work_to_wbs(bdi, work, skip_if_busy).await;
    wb_wait_for_completion(done).await;
    kfree(work.ptr());
    kfree(done.ptr());
}

/// `sync_inodes_sb`: writes and waits for every dirty inode of a superblock, whatever wb it is on. s_umount held.
pub async fn sync_inodes_sb(sb: SuperBlock) {
    kfn!(sync_inodes_sb);
    emit(Tp::Call, sb.ptr(), 0);
    let bdi = sb.s_bdi().get();
    if sb.s_no_data_integrity().get() {
        let _rcu = rcu_read_lock();
        __wakeup_flusher_threads_bdi(bdi).await;
        emit(Tp::Return, sb.ptr(), 0);
        return;
    }
    let rwsem = if mutated(Mutant::H008) { None } else { Some(bdi.wb_switch_rwsem().write().await) };
    split_and_wait(sb, SyncMode::All, false).await;
    drop(rwsem);
    wait_sb_inodes(sb).await;
    emit(Tp::Return, sb.ptr(), 0);
}

/// `wait_sb_inodes`: waits for every inode that had pages under writeback when it started.
async fn wait_sb_inodes(sb: SuperBlock) {
    kfn!(wait_sb_inodes);
    emit(Tp::Call, sb.ptr(), 0);
    let _mutex = sb.s_sync_lock().lock().await;
    let sync_list = ListOnStack(kzalloc_nofail(ListOnStack::TYPE));
    sync_list.head().init();
    let mut rcu = rcu_read_lock();
    let mut lock = sb.s_inode_wblist_lock().lock_irq().await;
    sb.s_inodes_wb().splice_tail_init(sync_list.head());
    while !sync_list.head().is_empty() {
        let inode = container_of!(sync_list.head().next(), Inode, inode_fields::i_wb_list);
        // Completion removes it from whichever list it is on, so it goes back before the lock is dropped.
        inode.i_wb_list().move_tail(sb.s_inodes_wb());
        if inode.nr_writeback().get() == 0 {
            continue;
        }
        drop(lock);
        let i_lock = inode.i_lock().lock().await;
        if inode.i_state().get() & (I_FREEING | I_WILL_FREE | I_NEW) != 0 {
            drop(i_lock);
            lock = sb.s_inode_wblist_lock().lock_irq().await;
            continue;
        }
        __iget(inode);
        drop(i_lock);
        drop(rcu);
        filemap_fdatawait(inode).await;
        iput(inode).await;
        rcu = rcu_read_lock();
        lock = sb.s_inode_wblist_lock().lock_irq().await;
    }
    drop(lock);
    drop(rcu);
    kfree(sync_list.ptr());
    emit(Tp::Return, sb.ptr(), 0);
}

/// `writeback_single_inode`: writes one inode on demand. The caller has a reference, or set I_WILL_FREE or I_FREEING.
pub async fn writeback_single_inode(inode: Inode, wbc: &mut WritebackControl) {
    kfn!(writeback_single_inode);
    let mut i_lock = inode.i_lock().lock().await;
    let state = inode.i_state().get();
    if (inode.i_count().get() == 0) == (state & (I_WILL_FREE | I_FREEING) == 0) && state & I_FREEING == 0 {
        report("LT-MEM-6", format!("{} is written by a task that does not keep it", with(|m| m.mem.name(inode.ptr()))));
    }
    if state & I_SYNC != 0 {
        if wbc.sync_mode != SyncMode::All {
            return;
        }
        i_lock = inode_wait_for_writeback(inode, i_lock).await;
    }
    if inode.i_state().get() & I_DIRTY_ALL == 0 && (wbc.sync_mode != SyncMode::All || inode.nr_writeback().get() == 0) {
        return;
    }
    inode.i_state().or(I_SYNC);
    wbc_attach_and_unlock_inode(wbc, inode, i_lock).await;
    __writeback_single_inode(inode, wbc).await;
    wbc_detach_inode(wbc).await;
    let (wb, list_lock) = inode_to_wb_and_lock_list(inode).await;
    let i_lock = inode.i_lock().lock().await;
    let state = inode.i_state().get();
    // An inode being freed is off its list for good.
    if state & I_FREEING == 0 || mutated(Mutant::H022) {
        if state & I_DIRTY_ALL == 0 {
            inode_cgwb_move_to_attached(inode, wb);
        } else if state & I_SYNC_QUEUED == 0 && !mutated(Mutant::H020b) {
            if state & I_DIRTY != 0 {
                redirty_tail_locked(inode, wb);
            } else if state & I_DIRTY_TIME != 0 {
                dirtied_now(inode);
                inode_io_list_move_locked(inode, wb, wb.b_dirty_time());
            }
        }
    }
    drop(list_lock);
    inode_sync_complete(inode).await;
    drop(i_lock);
}

/// `write_inode_now`
pub async fn write_inode_now(inode: Inode, sync: bool) {
    kfn!(write_inode_now);
    let mut wbc = WritebackControl::new(if sync { SyncMode::All } else { SyncMode::None }, LONG_MAX);
    writeback_single_inode(inode, &mut wbc).await;
}

/// `generic_file_fsync` by a task in `current`: data first, then the inode.
pub async fn generic_file_fsync(inode: Inode, current: Cgroup) {
    kfn!(generic_file_fsync);
    file_write_and_wait(inode, current).await;
    write_inode_now(inode, true).await;
}

/// `wb_start_writeback`: has the flusher write everything; at most one such request is pending.
async fn wb_start_writeback(wb: BdiWriteback) {
    kfn!(wb_start_writeback);
    if !wb_has_dirty_io(wb).await || wb.state().test_and_set_bit(WB_START_ALL).await {
        return;
    }
    wb_wakeup(wb).await;
}

/// `__wakeup_flusher_threads_bdi`, under RCU.
async fn __wakeup_flusher_threads_bdi(bdi: BackingDevInfo) {
    kfn!(__wakeup_flusher_threads_bdi);
    if bdi.tot_write_bandwidth().read_once().await == 0 {
        return;
    }
    let mut pos = next_rcu(bdi.wb_list()).await;
    while pos != bdi.wb_list() {
        wb_start_writeback(container_of!(pos, BdiWriteback, wb_fields::bdi_node)).await;
        pos = next_rcu(pos).await;
    }
}

/// `wakeup_flusher_threads`: has every flusher of every bdi write everything.
pub async fn wakeup_flusher_threads(_reason: WbReason) {
    kfn!(wakeup_flusher_threads);
    let _rcu = rcu_read_lock();
    let head = globals().bdi_list();
    let mut pos = next_rcu(head).await;
    while pos != head {
        __wakeup_flusher_threads_bdi(container_of!(pos, BackingDevInfo, bdi_fields::bdi_list)).await;
        pos = next_rcu(pos).await;
    }
}

/// `wakeup_dirtytime_writeback`: wakes the flushers of wbs that have inodes with dirty timestamps.
pub async fn wakeup_dirtytime_writeback() {
    kfn!(wakeup_dirtytime_writeback);
    let _rcu = rcu_read_lock();
    let head = globals().bdi_list();
    let mut pos = next_rcu(head).await;
    while pos != head {
        let bdi = container_of!(pos, BackingDevInfo, bdi_fields::bdi_list);
        let mut node = next_rcu(bdi.wb_list()).await;
        while node != bdi.wb_list() {
            let wb = container_of!(node, BdiWriteback, wb_fields::bdi_node);
            if next_rcu(wb.b_dirty_time()).await != wb.b_dirty_time() {
                wb_wakeup(wb).await;
            }
            node = next_rcu(node).await;
        }
        pos = next_rcu(pos).await;
    }
}

/// `filemap_dontcache_kick_writeback`: has the flusher of the inode's wb write as many pages as are dirty.
pub async fn filemap_dontcache_kick_writeback(inode: Inode) {
    kfn!(filemap_dontcache_kick_writeback);
    let (wb, cookie) = unlocked_inode_to_wb_begin(inode).await;
    let kick = wb_has_dirty_io(wb).await && !wb.state().test_and_set_bit(WB_START_DONTCACHE).await;
    if kick {
        wb.get().await;
    }
    unlocked_inode_to_wb_end(inode, cookie);
    if kick {
        wb_wakeup(wb).await;
        wb.put().await;
    }
}
