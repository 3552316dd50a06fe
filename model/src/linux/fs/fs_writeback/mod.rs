//! Works of a wb and their completions, the wake-ups of its flusher, and finding and locking the wb of an inode.
//!
//! Mirrors:    fs/fs-writeback.c, its helpers and wb_queue_work() to wb_wait_for_completion(), and
//!             locked_inode_to_wb_and_lock_list(); fidelity: mirror. The rest of the file is in the submodules.
//! Simplified: no bandwidth: `tot_write_bandwidth` counts the wbs with dirty io; no hung-task reports.
//! Locks:      list_lock > i_lock > work_lock; work_lock is interrupt-safe and nothing but leaf locks nests in it.
//! Ordering:   WB_registered is tested under work_lock; `done` is counted before its work is visible; the finisher reads
//!             the wait queue before it counts down and touches nothing of `done` afterwards.
//! Rules:      LT-REF-10, LT-LIST-6, LT-LIST-8a, LT-PROG-2, LT-MEM-1, LT-MEM-5, LT-ACC-2.

pub mod chunk;
pub mod dirty;
pub mod flusher;
pub mod foreign;
pub mod switch;
pub mod sync;

#[cfg(test)]
mod tests;

pub use dirty::{__inode_attach_wb, __mark_inode_dirty, inode_attach_wb, inode_detach_wb, inode_io_list_del, mark_inode_dirty_by};
pub use flusher::{WB_UPDATE_BANDWIDTH_WORKFN, WB_WORKFN};
pub use foreign::{cgroup_writeback_by_id, wbc_attach_fdatawrite_inode, wbc_detach_inode};
pub use switch::{INODE_SWITCH_WBS_WORK_FN, cgroup_writeback_umount, cleanup_offline_cgwb, inode_prepare_wbs_switch, inode_switch_wbs};
pub use sync::{sync_inodes_sb, wakeup_flusher_threads, write_inode_now, writeback_single_inode};

use crate::kfn;
use crate::linux::include::backing_dev::inode_to_wb;
use crate::linux::include::backing_dev_defs::{BackingDevInfo, BdiWriteback, WB_HAS_DIRTY_IO, WB_REGISTERED};
use crate::linux::include::cgroup_defs::WbCompletion;
use crate::linux::include::fs::{I_FREEING, I_SYNC_QUEUED, Inode};
use crate::linux::include::writeback::WbWritebackWork;
use crate::linux::mm::backing_dev::bdi_dev_name;
use crate::mutants::{Mutant, mutated};
use crate::sync::{
    Field, ListHead, Pred, SpinGuard, Tp, WaitQueue, emit, kfree, kzalloc_nofail, lockdep_assert_held, mod_delayed_work, queue_delayed_work, report,
    wait_event, wake_up_all, with,
};

/// Is the bit of `wb->state` set, read plainly under the lock that its changes need?
pub(crate) fn wb_test(wb: BdiWriteback, nr: u32) -> bool {
    wb.state().get() & 1 << nr != 0
}

/// `wb_io_lists_populated`: true if the wb had no dirty io before. list_lock.
pub fn wb_io_lists_populated(wb: BdiWriteback) -> bool {
    if wb_test(wb, WB_HAS_DIRTY_IO) {
        return false;
    }
    wb.state().or(1 << WB_HAS_DIRTY_IO);
    let total = wb.bdi().get().tot_write_bandwidth();
    total.set(total.get() + 1);
    true
}

/// `wb_io_lists_depopulated`: clears the bit if the three lists of dirty io are empty. list_lock.
pub fn wb_io_lists_depopulated(wb: BdiWriteback) {
    if wb_test(wb, WB_HAS_DIRTY_IO) && wb.b_dirty().is_empty() && wb.b_io().is_empty() && wb.b_more_io().is_empty() {
        wb.state().clear(1 << WB_HAS_DIRTY_IO);
        let total = wb.bdi().get().tot_write_bandwidth();
        total.set(total.get() - 1);
        if total.get() < 0 {
            report("LT-ACC-2", format!("{} has less than no wb with dirty io", with(|m| m.mem.owner_name(total.ptr()))));
        }
    }
}

/// The two locks under which an inode's position on a list changes; an inode being freed must not get on a list.
fn assert_list_move(inode: Inode, wb: BdiWriteback) {
    lockdep_assert_held(wb.list_lock());
    lockdep_assert_held(inode.i_lock());
    if inode.i_state().get() & I_FREEING != 0 {
        report("LT-MEM-6", format!("{} is put on a list while it is being freed", with(|m| m.mem.name(inode.ptr()))));
    }
}

/// `inode_io_list_move_locked`: moves an inode to one of the wb's lists; true if it is the wb's first dirty inode.
pub fn inode_io_list_move_locked(inode: Inode, wb: BdiWriteback, head: ListHead) -> bool {
    assert_list_move(inode, wb);
    inode.i_io_list().move_to(head);
    if head != wb.b_dirty_time() {
        return wb_io_lists_populated(wb);
    }
    wb_io_lists_depopulated(wb);
    false
}

/// `inode_cgwb_move_to_attached`: takes a clean inode off the lists; a cgroup wb keeps it on b_attached.
pub fn inode_cgwb_move_to_attached(inode: Inode, wb: BdiWriteback) {
    assert_list_move(inode, wb);
    inode.i_state().clear(I_SYNC_QUEUED);
    if wb.is_root() {
        inode.i_io_list().del_init();
    } else {
        inode.i_io_list().move_to(wb.b_attached());
    }
    wb_io_lists_depopulated(wb);
}

/// `locked_inode_to_wb_and_lock_list`: gives up i_lock and returns the inode's wb with its list_lock held.
///
/// list_lock nests outside i_lock, so the association is read under one, pinned, and checked again under the other.
pub async fn locked_inode_to_wb_and_lock_list(inode: Inode, mut i_lock: SpinGuard) -> (BdiWriteback, SpinGuard) {
    kfn!(locked_inode_to_wb_and_lock_list);
    loop {
        let wb = inode_to_wb(inode);
        wb.get().await;
        drop(i_lock);
        let list_lock = wb.list_lock().lock().await;
        if wb == inode.i_wb().get() {
            // The inode's own reference is enough from here on.
            wb.put().await;
            return (wb, list_lock);
        }
        drop(list_lock);
        wb.put().await;
        i_lock = inode.i_lock().lock().await;
    }
}

/// `inode_to_wb_and_lock_list`
pub async fn inode_to_wb_and_lock_list(inode: Inode) -> (BdiWriteback, SpinGuard) {
    let i_lock = inode.i_lock().lock().await;
    locked_inode_to_wb_and_lock_list(inode, i_lock).await
}

/// `wb_wakeup`: runs the flusher now.
pub async fn wb_wakeup(wb: BdiWriteback) {
    kfn!(wb_wakeup);
    let _work_lock = wb.work_lock().lock_irq().await;
    if wb_test(wb, WB_REGISTERED) {
        mod_delayed_work(wb.dwork()).await;
    }
}

/// `wb_wakeup_delayed`: arms the flusher's timer; never postpones it.
pub async fn wb_wakeup_delayed(wb: BdiWriteback) {
    kfn!(wb_wakeup_delayed);
    let _work_lock = wb.work_lock().lock_irq().await;
    if wb_test(wb, WB_REGISTERED) {
        queue_delayed_work(wb.dwork()).await;
    }
}

/// `DEFINE_WB_COMPLETION`: a completion with its owner's unit counted, whose waiters use the bdi's wait queue.
pub fn define_wb_completion(bdi: BackingDevInfo) -> WbCompletion {
    let done = WbCompletion(kzalloc_nofail(WbCompletion::TYPE));
    done.cnt().set(1);
    done.waitq().set(bdi.wb_waitq().ptr());
    done
}

/// `finish_writeback_work`: frees the work if nobody else will, and counts its completion down.
pub async fn finish_writeback_work(wb: BdiWriteback, work: WbWritebackWork) {
    kfn!(finish_writeback_work);
    emit(Tp::Call, wb.ptr(), u64::from(work.ptr().0));
    let done = work.done().get();
    if work.auto_free().get() {
        kfree(work.ptr());
    }
    if done.is_null() {
        return;
    }
    let late = mutated(Mutant::Ord9) || mutated(Mutant::H018);
    let waitq = if late { None } else { Some(done.wait_queue()) };
    // The owner may free `done` as soon as the count is zero.
    if done.cnt().dec().await == 1 {
        let waitq = match waitq {
            Some(q) => q,
            None => WaitQueue::at(done.waitq().read_once().await),
        };
        wake_up_all(waitq).await;
    }
}

/// `wb_queue_work`: hands a work to the flusher, or finishes it at once if the wb is not registered (any more).
pub async fn wb_queue_work(wb: BdiWriteback, work: WbWritebackWork) {
    kfn!(wb_queue_work);
    emit(Tp::Call, wb.ptr(), u64::from(work.ptr().0));
    // trace_writeback_queue shows the device's name.
    bdi_dev_name(wb.bdi().get()).await;
    let done = work.done().get();
    let late_count = mutated(Mutant::Ord10);
    if !done.is_null() && !late_count {
        done.cnt().inc().await;
    }
    let early = if mutated(Mutant::Ord6) { Some(wb.state().test_bit(WB_REGISTERED).await) } else { None };
    let work_lock = wb.work_lock().lock_irq().await;
    if early.unwrap_or_else(|| wb_test(wb, WB_REGISTERED)) {
        work.list().add_tail(wb.work_list());
        mod_delayed_work(wb.dwork()).await;
        drop(work_lock);
        if !done.is_null() && late_count {
            done.cnt().inc().await;
        }
    } else {
        if !done.is_null() && late_count {
            done.cnt().inc().await;
        }
        finish_writeback_work(wb, work).await;
        drop(work_lock);
    }
}

/// `wb_wait_for_completion`: gives up the owner's unit and waits until every work that counts on `done` is finished.
pub async fn wb_wait_for_completion(done: WbCompletion) {
    kfn!(wb_wait_for_completion);
    emit(Tp::Call, done.ptr(), 0);
    done.cnt().dec().await;
    wait_event(done.wait_queue(), done.cnt().ptr(), Pred::Zero).await;
    emit(Tp::Return, done.ptr(), 0);
}
