//! Finding the wb of an inode and of the current task.
//!
//! Mirrors:    include/linux/backing-dev.h; fidelity: mirror.
//! Simplified: both controllers are always on the default hierarchy; the current task is named by its cgroup.
//! Locks:      `inode_to_wb` under i_lock, the i_pages lock or the wb's list_lock; `wb_find_current` under RCU.
//! Ordering:   unlocked_inode_to_wb_begin reads I_WB_SWITCH, then (read barrier) i_wb; pairs with the write barrier of the switch.
//! Rules:      LT-LOOK-1, LT-LOOK-2, LT-ACC-1.

use crate::kfn;
use crate::linux::include::backing_dev_defs::{BackingDevInfo, BdiWriteback, WB_HAS_DIRTY_IO};
use crate::linux::include::cgroup_defs::{Cgroup, Subsys};
use crate::linux::include::fs::{I_WB_SWITCH, Inode};
use crate::linux::kernel::cgroup::cgroup::{css_put, task_css, task_get_css};
use crate::linux::mm::backing_dev::wb_get_create;
use crate::mutants::{Mutant, mutated};
use crate::rules::{CurGet, rules};
use crate::sync::{Gfp, NULL, RcuGuard, SpinGuard, Tp, emit, rcu_read_lock, report, smp_rmb, with};

/// `wb_has_dirty_io`: a hint without locks.
pub async fn wb_has_dirty_io(wb: BdiWriteback) -> bool {
    wb.state().test_bit(WB_HAS_DIRTY_IO).await
}

/// `inode_to_bdi`
pub fn inode_to_bdi(inode: Inode) -> BackingDevInfo {
    inode.i_bdi().get()
}

/// `inode_cgwb_enabled`: the bdi can write back and the file system supports cgroup writeback.
pub fn inode_cgwb_enabled(inode: Inode) -> bool {
    inode_to_bdi(inode).cap_writeback().get() && inode.i_sb().get().s_cgroupwb().get()
}

/// `wb_find_current`: the wb that matches memcg and blkcg of a task in `cgroup`, without a reference; null if there is none.
///
/// The caller is in an RCU read section. The wb may be dying where rules leave dying wbs in the tree.
pub async fn wb_find_current(bdi: BackingDevInfo, cgroup: Cgroup) -> BdiWriteback {
    kfn!(wb_find_current);
    let memcg_css = task_css(cgroup, Subsys::Memory).await;
    if memcg_css.is_root() {
        return bdi.wb();
    }
    let wb = BdiWriteback(bdi.cgwb_tree().lookup_rcu(memcg_css.id().get()).await);
    if !wb.is_null() && wb.blkcg_css().get() == task_css(cgroup, Subsys::Io).await { wb } else { BdiWriteback::NULL }
}

/// `wb_get_create_current`: the wb that a task in `cgroup` is throttled by, with a reference; null if it cannot be made.
pub async fn wb_get_create_current(bdi: BackingDevInfo, cgroup: Cgroup, gfp: Gfp) -> BdiWriteback {
    kfn!(wb_get_create_current);
    emit(Tp::Call, bdi.ptr(), u64::from(cgroup.ptr().0));
    let rcu = rcu_read_lock();
    let mut wb = wb_find_current(bdi, cgroup).await;
    if !wb.is_null() {
        let got = match rules().cur_get {
            CurGet::TrygetLive if !mutated(Mutant::V2M09) => wb.tryget_live().await,
            _ => wb.tryget().await,
        };
        if !got {
            wb = BdiWriteback(NULL);
        }
    }
    drop(rcu);
    if wb.is_null() {
        let memcg_css = task_get_css(cgroup, Subsys::Memory).await;
        wb = wb_get_create(bdi, memcg_css, gfp).await;
        css_put(memcg_css).await;
    }
    emit(Tp::Return, wb.ptr(), u64::from(cgroup.ptr().0));
    wb
}

/// `inode_to_wb`: the association, which one of the three locks keeps from changing.
pub fn inode_to_wb(inode: Inode) -> BdiWriteback {
    let wb = inode.i_wb().get();
    let held = inode.i_lock().held() || inode.i_pages().held() || (!wb.is_null() && wb.list_lock().held());
    if !held && inode.i_sb().get().s_cgroupwb().get() && !with(|m| m.immediate) {
        let n = with(|m| m.mem.name(inode.ptr()));
        report("LT-LOCK-3", format!("inode_to_wb of {n} with none of i_lock, the i_pages lock and list_lock held"));
    }
    wb
}

/// `struct wb_lock_cookie`, with the read section that begin opened.
#[must_use = "the transaction ends when the cookie is passed to unlocked_inode_to_wb_end"]
pub struct Cookie {
    locked: Option<SpinGuard>,
    rcu: RcuGuard,
}

impl Cookie {
    /// The i_pages lock is held by the transaction.
    pub fn locked(&self) -> bool {
        self.locked.is_some()
    }
}

/// `unlocked_inode_to_wb_begin`: the association, which does not change until the transaction ends. No reference, no sleeping.
pub async fn unlocked_inode_to_wb_begin(inode: Inode) -> (BdiWriteback, Cookie) {
    kfn!(unlocked_inode_to_wb_begin);
    let rcu = rcu_read_lock();
    // Without the barrier the two loads may happen in the other order.
    let early = if mutated(Mutant::Ord2b) { Some(inode.i_wb().read_once().await) } else { None };
    let switching = inode.i_state().read_once().await & I_WB_SWITCH != 0;
    smp_rmb();
    let locked = if switching { Some(inode.i_pages().lock_irq().await) } else { None };
    let wb = match early {
        _ if locked.is_some() => inode.i_wb().get(),
        Some(wb) => wb,
        None => inode.i_wb().read_once().await,
    };
    (wb, Cookie { locked, rcu })
}

/// `unlocked_inode_to_wb_end`
pub fn unlocked_inode_to_wb_end(_inode: Inode, cookie: Cookie) {
    match cookie.locked {
        // Does not ask whether they were on.
        Some(lock) if mutated(Mutant::H019) => lock.unlock_irq(),
        lock => drop(lock),
    }
    drop(cookie.rcu);
}
