//! The backing device: initialisation, registration, teardown, references.
//!
//! Mirrors:    mm/backing-dev.c, wb_init(), cgwb_bdi_init() to bdi_dev_name(); fidelity: mirror.
//! Simplified: every bdi is allocated; the tree of ids is a table; the device is an object with a name.
//! Locks:      bdi_lock (bh) for ids and bdi_list; cgwb_release_mutex around the whole shutdown loop.
//! Ordering:   the root wb's WB_registered is cleared (under work_lock) before the kill loop takes cgwb_lock; creators test it
//!             inside cgwb_lock. An expedited grace period ends bdi_list walks before anything is torn down.
//! Rules:      LT-LIST-11, LT-MEM-3, LT-PROG-6, LT-REF-6.

use super::kill::{cgwb_kill, wb_exit, wb_shutdown};
use crate::container_of;
use crate::kfn;
use crate::linux::fs::fs_writeback::{INODE_SWITCH_WBS_WORK_FN, WB_UPDATE_BANDWIDTH_WORKFN, WB_WORKFN};
use crate::linux::include::backing_dev_defs::{BackingDevInfo, BdiWriteback, Device, WB_REGISTERED, wb_fields};
use crate::linux::kernel::workqueue::{BDI_WQ, ISW_WQ};
use crate::linux::{MAX_BDI_ID, globals};
use crate::mutants::{Mutant, mutated};
use crate::rules::{Unreg, rules};
use crate::sync::{Gfp, NULL, Pred, Tp, emit, kfree, kzalloc, report, synchronize_rcu_expedited, wait_event, with};

const ENOMEM: i64 = -12;
const ENOSPC: i64 = -28;

/// `wb_init`: a zeroed wb becomes a wb of `bdi`, not registered. Also the works, which the kernel initialises in the callers.
pub(super) fn wb_init(wb: BdiWriteback, bdi: BackingDevInfo) {
    kfn!(wb_init);
    wb.bdi().set(bdi);
    wb.b_dirty().init();
    wb.b_io().init();
    wb.b_more_io().init();
    wb.b_dirty_time().init();
    wb.work_list().init();
    wb.dwork().init(WB_WORKFN, BDI_WQ);
    wb.bw_dwork().init(WB_UPDATE_BANDWIDTH_WORKFN, BDI_WQ);
    wb.switch_work().init(INODE_SWITCH_WBS_WORK_FN, ISW_WQ);
}

/// `bdi_alloc`: null when out of memory. The caller owns one reference.
pub fn bdi_alloc() -> BackingDevInfo {
    kfn!(bdi_alloc);
    let bdi = BackingDevInfo(kzalloc(BackingDevInfo::TYPE, Gfp::Kernel, "bdi_alloc"));
    if bdi.is_null() {
        return bdi;
    }
    bdi_init(bdi);
    bdi.cap_writeback().set(true);
    bdi
}

/// `bdi_init` of a zeroed bdi.
pub fn bdi_init(bdi: BackingDevInfo) {
    kfn!(bdi_init);
    bdi.refcnt().set(1);
    bdi.bdi_list().init();
    bdi.wb_list().init();
    // cgwb_bdi_init()
    let wb = bdi.wb();
    wb_init(wb, bdi);
    wb.b_attached().init();
    wb.memcg_css().set(globals().root_mem_cgroup().get());
    wb.blkcg_css().set(globals().blkcg_root().get());
}

/// `bdi_get`: only while owning a reference, or under bdi_lock for a registered bdi.
pub async fn bdi_get(bdi: BackingDevInfo) {
    bdi.refcnt().inc().await;
}

/// `bdi_put`: the last one frees the bdi at once, without a grace period.
pub async fn bdi_put(bdi: BackingDevInfo) {
    if bdi.refcnt().dec().await == 1 {
        release_bdi(bdi);
    }
}

fn release_bdi(bdi: BackingDevInfo) {
    kfn!(release_bdi);
    if bdi.wb().state().get() & 1 << WB_REGISTERED != 0 || !bdi.dev().get().is_null() {
        let n = with(|m| m.mem.name(bdi.ptr()));
        report("LT-REF-5", format!("{n} is freed while it is registered"));
    }
    wb_exit(bdi.wb());
    kfree(bdi.ptr());
}

/// `bdi_get_by_id`: a registered bdi, with a reference; null if the id denotes none.
pub async fn bdi_get_by_id(id: u64) -> BackingDevInfo {
    kfn!(bdi_get_by_id);
    if id >= u64::from(MAX_BDI_ID) {
        return BackingDevInfo::NULL;
    }
    let _lock = globals().bdi_lock().lock_bh().await;
    let bdi = BackingDevInfo(globals().bdi_tree().slot(id as u32).get());
    if !bdi.is_null() {
        bdi_get(bdi).await;
    }
    bdi
}

/// `bdi_dev_name`: 0 for a bdi without a device.
pub async fn bdi_dev_name(bdi: BackingDevInfo) -> u64 {
    kfn!(bdi_dev_name);
    if mutated(Mutant::H017) {
        let dev = bdi.dev().read_once().await;
        return if dev.is_null() { 0 } else { dev.name().read_once().await };
    }
    if bdi.dev().get().is_null() { 0 } else { bdi.dev_name().get() }
}

/// `bdi_register`: 0, or an errno when out of memory or of ids, which are never used again.
pub async fn bdi_register(bdi: BackingDevInfo) -> i64 {
    kfn!(bdi_register_va);
    let g = globals();
    if !bdi.dev().get().is_null() {
        return 0;
    }
    if g.bdi_id_cursor().get() + 1 >= u64::from(MAX_BDI_ID) {
        return ENOSPC;
    }
    let dev = Device(kzalloc(Device::TYPE, Gfp::Kernel, "bdi_register_va"));
    if dev.is_null() {
        return ENOMEM;
    }
    // cgwb_bdi_register()
    let lock = g.cgwb_lock().lock_irq().await;
    bdi.wb().bdi_node().add_tail(bdi.wb_list());
    drop(lock);
    bdi.dev().set(dev);
    bdi.wb().state().test_and_set_bit(WB_REGISTERED).await;

    let _lock = g.bdi_lock().lock_bh().await;
    let id = g.bdi_id_cursor().get() + 1;
    g.bdi_id_cursor().set(id);
    bdi.id().set(id);
    dev.name().set(id);
    bdi.dev_name().set(id);
    g.bdi_tree().slot(id as u32).set(bdi.ptr());
    bdi.bdi_list().add_tail(g.bdi_list());
    0
}

async fn bdi_remove_from_list(bdi: BackingDevInfo) {
    kfn!(bdi_remove_from_list);
    let lock = globals().bdi_lock().lock_bh().await;
    globals().bdi_tree().slot(bdi.id().get() as u32).set(NULL);
    bdi.bdi_list().del_rcu();
    drop(lock);
    synchronize_rcu_expedited().await;
}

/// `bdi_unregister`: afterwards no writeback runs on it. Wbs that something pins stay, dying and shut down.
pub async fn bdi_unregister(bdi: BackingDevInfo) {
    kfn!(bdi_unregister);
    emit(Tp::Call, bdi.ptr(), 0);
    bdi_remove_from_list(bdi).await;
    if !mutated(Mutant::Ord5) {
        wb_shutdown(bdi.wb()).await;
    }
    cgwb_bdi_unregister(bdi).await;
    let dev = bdi.dev().get();
    if !dev.is_null() {
        bdi.dev().write_once(Device::NULL).await;
        kfree(dev.ptr());
    }
    emit(Tp::Return, bdi.ptr(), 0);
}

async fn cgwb_bdi_unregister(bdi: BackingDevInfo) {
    kfn!(cgwb_bdi_unregister);
    emit(Tp::Call, bdi.ptr(), 0);
    let cgwb_lock = globals().cgwb_lock();
    let lock = cgwb_lock.lock_irq().await;
    for (_, slot) in bdi.cgwb_tree().items() {
        let wb = BdiWriteback(slot);
        if wb.dying() && rules().unreg == Unreg::SkipDying && !mutated(Mutant::V2M18) {
            if mutated(Mutant::V2M19) {
                break;
            }
            continue;
        }
        cgwb_kill(wb).await;
    }
    drop(lock);
    if mutated(Mutant::Ord5) {
        wb_shutdown(bdi.wb()).await;
    }
    if mutated(Mutant::H034) {
        wait_for_wbs_gone(bdi).await;
    }

    let mutex = if mutated(Mutant::H002) { None } else { Some(bdi.cgwb_release_mutex().lock().await) };
    let mut lock = cgwb_lock.lock_irq().await;
    while !bdi.wb_list().is_empty() {
        // No reference: a wb that is on the list cannot be freed before its release work gets the mutex.
        let wb = container_of!(bdi.wb_list().next(), BdiWriteback, wb_fields::bdi_node);
        drop(lock);
        wb_shutdown(wb).await;
        lock = cgwb_lock.lock_irq().await;
    }
    drop(lock);
    drop(mutex);
    emit(Tp::Return, bdi.ptr(), 0);
}

/// What teardown once did: wait until the wbs have given back their references on the bdi.
async fn wait_for_wbs_gone(bdi: BackingDevInfo) {
    let lock = globals().cgwb_lock().lock_irq().await;
    let dying = globals().offline_cgwbs().entries().into_iter();
    let wbs = dying.filter(|&e| container_of!(e, BdiWriteback, wb_fields::offline_node).bdi().get() == bdi).count() as i64;
    let others = bdi.refcnt().get() - wbs;
    drop(lock);
    wait_event(globals().cgwb_release_wait(), bdi.refcnt().ptr(), Pred::Is(others as u64)).await;
}
