//! Moving inodes from one wb to another, and umount's wait for that.
//!
//! Mirrors:    fs/fs-writeback.c, inode_do_switch_wbs() to cleanup_offline_cgwb(), cgroup_writeback_umount(); fidelity: mirror.
//! Simplified: a page is a folio; no dontcache statistics; the scanned inodes of the cleaner move to the young end one by one,
//!             which list_lock hides.
//! Locks:      wb_switch_rwsem (read) > the two list_locks, lower address first > i_lock > i_pages lock. Umount waits for the
//!             superblock's switches with s_umount held for writing, so nothing here may touch s_umount.
//! Ordering:   the switch is counted, then (full barrier) SB_ACTIVE is read again; I_WB_SWITCH is set together with taking
//!             the inode reference; a grace period lies between that and the switch; i_wb is stored before (write barrier)
//!             I_WB_SWITCH is cleared; the inode reference goes before the count does.
//! Rules:      LT-REF-1, LT-REF-8, LT-REF-9, LT-ISW-1 to LT-ISW-5, LT-ACC-1, LT-PROG-4, LT-PROG-5, LT-MEM-1, LT-MEM-6, LT-MEM-7.

use super::dirty::dirtied_now;
use super::{inode_cgwb_move_to_attached, inode_io_list_move_locked, wb_io_lists_depopulated, wb_wakeup};
use crate::linux::fs::inode::{__iget, ihold, iput};
use crate::linux::globals;
use crate::linux::include::backing_dev::{inode_to_bdi, inode_to_wb};
use crate::linux::include::backing_dev_defs::{BdiWriteback, wb_fields};
use crate::linux::include::cgroup_defs::{Css, Subsys};
use crate::linux::include::fs::{I_DIRTY_ALL, I_FREEING, I_WB_SWITCH, I_WILL_FREE, Inode, SuperBlock, wb_inode};
use crate::linux::include::writeback::{ISW_MAX, InodeSwitchWbsContext, isw_fields};
use crate::linux::kernel::cgroup::cgroup::{css_from_id, css_get, css_put, css_tryget};
use crate::linux::mm::backing_dev::{wb_get_create, wb_get_create_unconverted};
use crate::mutants::{Mutant, mutated};
use crate::rules::{UmountFlush, rules};
use crate::sync::{
    Choice, Gfp, ListHead, Llist, Pred, Ptr, Tp, WorkFn, call_rcu, choose, cond_resched, emit, flush_work, kfree, kzalloc, queue_work, rcu_read_lock, report,
    smp_mb, smp_wmb, synchronize_rcu, wait_event, wake_up_all, with,
};
use crate::{container_of, kfn};

/// `WB_FRN_MAX_IN_FLIGHT`
const WB_FRN_MAX_IN_FLIGHT: i64 = 1024;

/// `inode_do_switch_wbs`: moves one inode with its statistics and its place on a list; true if it was moved. Both list_locks.
async fn inode_do_switch_wbs(inode: Inode, old_wb: BdiWriteback, new_wb: BdiWriteback) -> bool {
    kfn!(inode_do_switch_wbs);
    emit(Tp::Call, inode.ptr(), 0);
    let i_lock = inode.i_lock().lock().await;
    let mut i_pages = Some(inode.i_pages().lock_irq().await);
    let mut switched = false;
    if inode.i_state().get() & (I_FREEING | I_WILL_FREE) == 0 {
        // Pages with the dirty mark that are not dirty any more have left the count already.
        let dirty = inode.nr_dirty().get() - inode.nr_cleaning().get();
        let writeback = inode.nr_writeback().get();
        for (wb, sign) in [(old_wb, -1), (new_wb, 1)] {
            wb.stat_reclaimable().set(wb.stat_reclaimable().get() + sign * dirty);
            wb.stat_writeback().set(wb.stat_writeback().get() + sign * writeback);
            if writeback > 0 {
                wb.writeback_inodes().set(wb.writeback_inodes().get() + sign);
            }
        }
        if mutated(Mutant::Ord16) {
            i_pages = None;
        }
        new_wb.get().await;
        if mutated(Mutant::Ord2a) {
            let state = inode.i_state().get();
            inode.i_state().write_once(state & !I_WB_SWITCH).await;
            inode.i_wb().write_once(new_wb).await;
        }
        inode.i_wb().set(new_wb);
        if !inode.i_io_list().is_empty() {
            if inode.i_state().get() & I_DIRTY_ALL != 0 {
                // b_dirty whatever list it was on: always right, and I_SYNC_QUEUED stays as it was.
                dirtied_now(inode);
                inode_io_list_move_locked(inode, new_wb, new_wb.b_dirty());
            } else {
                inode_cgwb_move_to_attached(inode, new_wb);
            }
        }
        inode.i_wb_frn_winner().set(0);
        inode.i_wb_frn_avg_time().set(0);
        inode.i_wb_frn_history().set(0);
        switched = true;
    }
    smp_wmb();
    inode.i_state().clear(I_WB_SWITCH);
    drop(i_pages);
    drop(i_lock);
    emit(Tp::Return, inode.ptr(), u64::from(switched));
    switched
}

/// `cgroup_writeback_pin`
async fn cgroup_writeback_pin(sb: SuperBlock) {
    sb.s_isw_nr_in_flight().inc().await;
}

/// `cgroup_writeback_unpin`: umount may free the superblock as soon as the count is zero.
async fn cgroup_writeback_unpin(sb: SuperBlock) {
    if sb.s_isw_nr_in_flight().dec().await == 1 {
        wake_up_all(globals().bit_wait_table()).await;
    }
}

/// `cgroup_writeback_drain`
async fn cgroup_writeback_drain(sb: SuperBlock) {
    wait_event(globals().bit_wait_table(), sb.s_isw_nr_in_flight().ptr(), Pred::Zero).await;
}

/// `process_inode_switch_wbs`: switches the inodes of one context, after the grace period; consumes it.
async fn process_inode_switch_wbs(new_wb: BdiWriteback, isw: InodeSwitchWbsContext) {
    kfn!(process_inode_switch_wbs);
    emit(Tp::Call, new_wb.ptr(), 0);
    let inode_at = |i: u32| isw.inodes().at(i).get();
    let bdi = inode_to_bdi(inode_at(0));
    // Stable: I_WB_SWITCH is ours.
    let old_wb = inode_at(0).i_wb().get();
    let mut nr_switched = 0;
    let rwsem = bdi.wb_switch_rwsem().read().await;
    let mut i = 0;
    'relock: loop {
        let (low, high) = if old_wb < new_wb { (old_wb, new_wb) } else { (new_wb, old_wb) };
        let one_lock = mutated(Mutant::Ord17);
        let first = if one_lock { old_wb } else { low }.list_lock().lock().await;
        let second = if one_lock { None } else { Some(high.list_lock().lock().await) };
        while !inode_at(i).is_null() {
            let inode = inode_at(i);
            if inode.i_wb().get() != old_wb {
                report("LT-ISW-2", format!("{} is not on the wb that it is switched from", with(|m| m.mem.name(inode.ptr()))));
            }
            nr_switched += i64::from(inode_do_switch_wbs(inode, old_wb, new_wb).await);
            i += 1;
            if !inode_at(i).is_null() && choose(Choice::Of("isw_need_resched", 2)) == 1 {
                drop(second);
                drop(first);
                cond_resched().await;
                continue 'relock;
            }
        }
        wb_io_lists_depopulated(old_wb);
        drop(second);
        drop(first);
        break;
    }
    drop(rwsem);
    if nr_switched > 0 {
        wb_wakeup(new_wb).await;
        old_wb.put_many(nr_switched).await;
    }
    let mut i = 0;
    while !inode_at(i).is_null() {
        let inode = inode_at(i);
        let sb = inode.i_sb().get();
        if mutated(Mutant::Ord11) {
            cgroup_writeback_unpin(sb).await;
            iput(inode).await;
        } else {
            iput(inode).await;
            cgroup_writeback_unpin(sb).await;
        }
        i += 1;
    }
    new_wb.put().await;
    kfree(isw.ptr());
    globals().isw_nr_in_flight().dec().await;
    emit(Tp::Return, new_wb.ptr(), nr_switched as u64);
}

/// `inode_switch_wbs_work_fn`: the work function of `wb->switch_work`.
pub const INODE_SWITCH_WBS_WORK_FN: WorkFn =
    WorkFn { name: "inode_switch_wbs_work_fn", body: |work| Box::pin(switch_work(BdiWriteback(work.sub(wb_fields::switch_work)))) };

async fn switch_work(new_wb: BdiWriteback) {
    kfn!(inode_switch_wbs_work_fn);
    let mut node = new_wb.switch_wbs_ctxs().del_all().await;
    if node.is_null() {
        // A reference held by a context may be all that keeps the wb.
        report("LT-ISW-4", format!("switch work of {} starts with an empty list", with(|m| m.mem.owner_name(new_wb.ptr()))));
        return;
    }
    if !mutated(Mutant::H025) {
        new_wb.get().await;
    }
    if !mutated(Mutant::Ord3) {
        synchronize_rcu().await;
    }
    while !node.is_null() {
        let isw = InodeSwitchWbsContext(node.sub(isw_fields::list));
        node = Llist::next(node);
        process_inode_switch_wbs(new_wb, isw).await;
    }
    if mutated(Mutant::H025) {
        // A worker that looks for more before it ends.
        new_wb.switch_wbs_ctxs().first().await;
    } else {
        new_wb.put().await;
    }
}

/// `inode_prepare_wbs_switch`: marks and pins an inode for a switch to `new_wb`; false if it must not or need not be switched.
///
/// The caller keeps the inode's memory: a reference, I_SYNC, or a list whose list_lock it holds.
pub async fn inode_prepare_wbs_switch(inode: Inode, new_wb: BdiWriteback) -> bool {
    kfn!(inode_prepare_wbs_switch);
    let sb = inode.i_sb().get();
    if !sb.s_active().read_once().await {
        return false;
    }
    cgroup_writeback_pin(sb).await;
    smp_mb().await;
    if !inode.i_dax().get() || mutated(Mutant::H026) {
        let i_lock = inode.i_lock().lock().await;
        // Without the barrier the second look may be as old as the first.
        let active = mutated(Mutant::Ord1a) || sb.s_active().get();
        if active && inode.i_state().get() & (I_WB_SWITCH | I_FREEING | I_WILL_FREE) == 0 && inode_to_wb(inode) != new_wb {
            inode.i_state().or(I_WB_SWITCH);
            if mutated(Mutant::Ord4) {
                drop(i_lock);
                let _i_lock = inode.i_lock().lock().await;
                __iget(inode);
            } else if mutated(Mutant::H004) {
                ihold(inode).await;
            } else {
                __iget(inode);
            }
            return true;
        }
    }
    cgroup_writeback_unpin(sb).await;
    false
}

/// `wb_queue_isw`: gives a context, with its reference on `wb`, to the worker of `wb`.
async fn wb_queue_isw(wb: BdiWriteback, isw: InodeSwitchWbsContext) {
    kfn!(wb_queue_isw);
    let node = isw.list().ptr();
    if mutated(Mutant::H005) {
        isw.list().set(wb.ptr());
        call_rcu(node, "inode_switch_wbs_rcu_fn", |node| {
            Box::pin(async move {
                let isw = InodeSwitchWbsContext(node.sub(isw_fields::list));
                push_isw(BdiWriteback(isw.list().get()), node).await;
            })
        });
        return;
    }
    push_isw(wb, node).await;
}

async fn push_isw(wb: BdiWriteback, node: Ptr) {
    let list = wb.switch_wbs_ctxs();
    let early = if mutated(Mutant::Ord14) { Some(list.first().await == 0) } else { None };
    let was_empty = list.add(node).await;
    if early.unwrap_or(was_empty) {
        queue_work(wb.switch_work()).await;
    }
}

/// `inode_switch_wbs`: asks for `inode` to be moved to the wb of memcg `new_wb_id`; asynchronous, and may silently do nothing.
pub async fn inode_switch_wbs(inode: Inode, new_wb_id: u32) {
    kfn!(inode_switch_wbs);
    emit(Tp::Call, inode.ptr(), u64::from(new_wb_id));
    if inode.i_state().read_once().await & I_WB_SWITCH != 0 {
        return;
    }
    // A soft limit: the value may be old by the time it counts.
    if globals().isw_nr_in_flight().get() > WB_FRN_MAX_IN_FLIGHT {
        return;
    }
    let isw = InodeSwitchWbsContext(kzalloc(InodeSwitchWbsContext::TYPE, Gfp::Atomic, "inode_switch_wbs"));
    if isw.is_null() {
        return;
    }
    globals().isw_nr_in_flight().inc().await;
    let new_wb = wb_by_memcg_id(inode, new_wb_id).await;
    if !new_wb.is_null() && inode_prepare_wbs_switch(inode, new_wb).await {
        isw.inodes().at(0).set(inode);
        wb_queue_isw(new_wb, isw).await;
        return;
    }
    globals().isw_nr_in_flight().dec().await;
    if !new_wb.is_null() {
        new_wb.put().await;
    }
    kfree(isw.ptr());
}

/// The destination of a switch: the wb of memcg `id`, made if need be, with a reference; null if there can be none.
async fn wb_by_memcg_id(inode: Inode, id: u32) -> BdiWriteback {
    let rcu = rcu_read_lock();
    let mut memcg_css = css_from_id(id, Subsys::Memory).await;
    if !memcg_css.is_null() {
        if mutated(Mutant::H009) {
            css_get(memcg_css).await;
        } else if !css_tryget(memcg_css).await {
            memcg_css = Css::NULL;
        }
    }
    drop(rcu);
    if memcg_css.is_null() {
        return BdiWriteback::NULL;
    }
    let wb = wb_get_create(inode_to_bdi(inode), memcg_css, Gfp::Atomic).await;
    css_put(memcg_css).await;
    wb
}

/// `isw_prepare_wbs_switch`: prepares inodes from the old end of `list` until the context is full; true if it is.
async fn isw_prepare_wbs_switch(new_wb: BdiWriteback, isw: InodeSwitchWbsContext, list: ListHead, nr: &mut u32) -> bool {
    let entries = list.entries();
    for entry in entries.into_iter().rev() {
        let inode = wb_inode(entry);
        // Scanned inodes go to the young end, so that the next scan starts with the others.
        entry.move_to(list);
        if !inode_prepare_wbs_switch(inode, new_wb).await {
            continue;
        }
        isw.inodes().at(*nr).set(inode);
        *nr += 1;
        if *nr >= ISW_MAX {
            return true;
        }
    }
    false
}

/// `cleanup_offline_cgwb`: switches the clean inodes of a dying wb to an ancestor's wb; true to be called again.
pub async fn cleanup_offline_cgwb(wb: BdiWriteback) -> bool {
    kfn!(cleanup_offline_cgwb);
    emit(Tp::Call, wb.ptr(), 0);
    let isw = InodeSwitchWbsContext(kzalloc(InodeSwitchWbsContext::TYPE, Gfp::Kernel, "cleanup_offline_cgwb"));
    if isw.is_null() {
        emit(Tp::Return, wb.ptr(), 0);
        return false;
    }
    globals().isw_nr_in_flight().inc().await;
    let bdi = wb.bdi().get();
    let mut new_wb = BdiWriteback::NULL;
    let mut memcg_css = wb.memcg_css().get().parent().get();
    while !memcg_css.is_null() && new_wb.is_null() {
        new_wb = if mutated(Mutant::V2M28) {
            wb_get_create_unconverted(bdi, memcg_css, Gfp::Kernel).await
        } else {
            wb_get_create(bdi, memcg_css, Gfp::Kernel).await
        };
        memcg_css = memcg_css.parent().get();
    }
    if new_wb.is_null() {
        new_wb = bdi.wb();
    }
    let mut nr = 0;
    let rwsem = bdi.wb_switch_rwsem().read().await;
    let list_lock = wb.list_lock().lock().await;
    let mut restart = isw_prepare_wbs_switch(new_wb, isw, wb.b_attached(), &mut nr).await;
    if !restart {
        restart = isw_prepare_wbs_switch(new_wb, isw, wb.b_dirty_time(), &mut nr).await;
    }
    drop(list_lock);
    drop(rwsem);
    if nr == 0 {
        globals().isw_nr_in_flight().dec().await;
        new_wb.put().await;
        kfree(isw.ptr());
    } else {
        wb_queue_isw(new_wb, isw).await;
    }
    emit(Tp::Return, wb.ptr(), u64::from(restart));
    restart
}

/// `cgroup_writeback_umount`: waits until no switch of an inode of `sb` is in flight. SB_ACTIVE is clear, so none can start.
pub async fn cgroup_writeback_umount(sb: SuperBlock) {
    kfn!(cgroup_writeback_umount);
    emit(Tp::Call, sb.ptr(), 0);
    let bdi = sb.s_bdi().get();
    if bdi.cap_writeback().get() && !mutated(Mutant::H003) {
        smp_mb().await;
        if mutated(Mutant::H005) || mutated(Mutant::H007) {
            flush_switches(sb).await;
        } else {
            cgroup_writeback_drain(sb).await;
        }
        if rules().umount_flush == UmountFlush::Yes {
            // Nothing else keeps the root wb, and with it its bdi, while its worker runs.
            flush_work(bdi.wb().switch_work()).await;
        }
    }
    emit(Tp::Return, sb.ptr(), 0);
}

/// Umount of older kernels: a grace period if any switch is in flight, then a flush of what is queued.
async fn flush_switches(sb: SuperBlock) {
    if globals().isw_nr_in_flight().read_once().await == 0 {
        return;
    }
    synchronize_rcu().await;
    let bdi = sb.s_bdi().get();
    // The mutex keeps the wbs on the list from being freed, as it does for unregistering.
    let _mutex = bdi.cgwb_release_mutex().lock().await;
    let cgwb_lock = globals().cgwb_lock().lock_irq().await;
    let wbs: Vec<BdiWriteback> = bdi.wb_list().entries().into_iter().map(|e| container_of!(e, BdiWriteback, wb_fields::bdi_node)).collect();
    drop(cgwb_lock);
    for wb in wbs {
        flush_work(wb.switch_work()).await;
    }
}
