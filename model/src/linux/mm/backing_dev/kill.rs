//! The end of a cgroup wb: kill, release callback, release work, free; and shutdown, which root wbs share.
//!
//! Mirrors:    mm/backing-dev.c, wb_shutdown() to cgwb_remove_from_bdi_list(); fidelity: mirror.
//! Simplified: release work and RCU head do not share storage.
//! Locks:      cgwb_lock (irq) around the kill; cgwb_release_mutex around shutdown and the puts of the csses.
//! Ordering:   WB_registered is cleared under work_lock before the flusher is drained, and the flusher is drained before the
//!             bandwidth work, which it may arm; whatever unlinks the wb precedes the grace period of the final free.
//! Rules:      LT-REF-2, LT-REF-3, LT-REF-5, LT-LIST-1, LT-LIST-3, LT-LIST-4a, LT-LIST-4c, LT-LIST-9, LT-MEM-1, LT-PROG-3.

use super::register::bdi_put;
use crate::kfn;
use crate::linux::block::blk_cgroup::blkcg_unpin_online;
use crate::linux::globals;
use crate::linux::include::backing_dev_defs::{BackingDevInfo, BdiWriteback, WB_REGISTERED, wb_fields};
use crate::linux::kernel::cgroup::cgroup::css_put;
use crate::mutants::{Mutant, mutated};
use crate::rules::{TreeDel, TreeOut, rules};
use crate::sync::{
    Fut, Ptr, Tp, WorkFn, call_rcu, emit, flush_delayed_work, kfree, lockdep_assert_held, mod_delayed_work, queue_work, report, wake_up_all, with,
};

/// `wb_shutdown`: nothing can be queued any more, and what was queued has run. No-op for a wb that is not registered.
pub async fn wb_shutdown(wb: BdiWriteback) {
    kfn!(wb_shutdown);
    emit(Tp::Call, wb.ptr(), 0);
    let lock = wb.work_lock().lock_irq().await;
    let was_registered = wb.state().test_and_clear_bit(WB_REGISTERED).await;
    drop(lock);
    if was_registered {
        cgwb_remove_from_bdi_list(wb).await;
        if mutated(Mutant::H035b) {
            flush_delayed_work(wb.bw_dwork()).await;
        }
        // The flusher drains the list of works of an unregistered wb whatever happens.
        mod_delayed_work(wb.dwork()).await;
        flush_delayed_work(wb.dwork()).await;
        if !wb.work_list().is_empty() {
            report("LT-PROG-2", format!("works left on {} after its shutdown", name(wb)));
        }
        if !mutated(Mutant::H035b) {
            flush_delayed_work(wb.bw_dwork()).await;
        }
    }
    emit(Tp::Return, wb.ptr(), u64::from(was_registered));
}

async fn cgwb_remove_from_bdi_list(wb: BdiWriteback) {
    kfn!(cgwb_remove_from_bdi_list);
    let _lock = globals().cgwb_lock().lock_irq().await;
    wb.bdi_node().del_rcu();
}

/// `wb_exit`
pub(super) fn wb_exit(wb: BdiWriteback) {
    kfn!(wb_exit);
    if wb.dwork().pending() {
        report("LT-PROG-12", format!("the flusher of {} is pending when the wb ends", name(wb)));
    }
}

/// `cgwb_kill`: off the css lists and on `offline_cgwbs`; where rules say so, out of the tree. cgwb_lock is held.
pub async fn cgwb_kill(wb: BdiWriteback) {
    kfn!(cgwb_kill);
    emit(Tp::Call, wb.ptr(), 0);
    lockdep_assert_held(globals().cgwb_lock());
    if rules().tree_out == TreeOut::Kill || mutated(Mutant::V2M01) {
        let removed = remove_from_tree(wb.bdi().get(), wb.memcg_css().get().id().get(), wb);
        if removed.is_null() && rules().tree_del == TreeDel::Key {
            report("LT-LIST-4b", format!("the slot of {} is empty when it is killed", name(wb)));
        }
    }
    wb.memcg_node().del();
    wb.blkcg_node().del();
    wb.offline_node().add(globals().offline_cgwbs());
    wb.refcnt().kill().await;
    if mutated(Mutant::V2M27) {
        css_put(wb.memcg_css().get()).await;
    }
}

/// Deletes by key or by item, as the rules say; yields what was removed. cgwb_lock is held.
fn remove_from_tree(bdi: BackingDevInfo, key: u32, wb: BdiWriteback) -> Ptr {
    lockdep_assert_held(globals().cgwb_lock());
    match rules().tree_del {
        TreeDel::Item if !mutated(Mutant::V2M02) && !mutated(Mutant::V2M13) => bdi.cgwb_tree().delete_item(key, wb.ptr()),
        _ => bdi.cgwb_tree().delete(key),
    }
}

/// The release side's delete, for rules in which a wb stays in the tree until it is released. The key is read under the
/// lock, unless the caller has `cached` it.
async fn cgwb_remove_from_tree(bdi: BackingDevInfo, wb: BdiWriteback, cached: Option<u32>) {
    kfn!(cgwb_remove_from_tree);
    let lock = if mutated(Mutant::V2M16) { None } else { Some(globals().cgwb_lock().lock_irq().await) };
    let key = cached.unwrap_or_else(|| wb.memcg_css().get().id().get());
    remove_from_tree(bdi, key, wb);
    drop(lock);
}

/// `cgwb_release`: the percpu_ref callback, in any context.
pub(super) fn cgwb_release(refcnt: Ptr) -> Fut {
    Box::pin(async move {
        kfn!(cgwb_release);
        let wb = BdiWriteback(refcnt.sub(wb_fields::refcnt));
        emit(Tp::Call, wb.ptr(), 0);
        queue_work(wb.release_work()).await;
    })
}

/// `cgwb_release_workfn` as the function of `wb->release_work`.
pub(super) const CGWB_RELEASE_WORKFN: WorkFn =
    WorkFn { name: "cgwb_release_workfn", body: |work| Box::pin(cgwb_release_workfn(BdiWriteback(work.sub(wb_fields::release_work)))) };

/// `cgwb_release_workfn`: the count is zero; shut down, give everything back, free after a grace period.
pub async fn cgwb_release_workfn(wb: BdiWriteback) {
    kfn!(cgwb_release_workfn);
    emit(Tp::Call, wb.ptr(), 0);
    let bdi = wb.bdi().get();
    let (memcg_css, blkcg_css) = (wb.memcg_css().get(), wb.blkcg_css().get());
    let key = memcg_css.id().get();
    let stays = rules().tree_out == TreeOut::Release;
    let late = [Mutant::V2M12, Mutant::V2M13, Mutant::V2M14, Mutant::V2M15, Mutant::V2M17].into_iter().any(mutated);

    let mutex = if mutated(Mutant::Ord20) { None } else { Some(bdi.cgwb_release_mutex().lock().await) };
    wb_shutdown(wb).await;
    if stays && !late {
        // Before the css is put: afterwards its id may denote another memcg.
        cgwb_remove_from_tree(bdi, wb, None).await;
    }
    if !mutated(Mutant::V2M27) {
        css_put(memcg_css).await;
    }
    if mutated(Mutant::V2M12) {
        cgwb_remove_from_tree(bdi, wb, None).await;
    }
    if mutated(Mutant::V2M13) {
        cgwb_remove_from_tree(bdi, wb, Some(key)).await;
    }
    if mutated(Mutant::H013) {
        css_put(blkcg_css).await;
        blkcg_unpin_online(blkcg_css).await;
    } else {
        blkcg_unpin_online(blkcg_css).await;
        css_put(blkcg_css).await;
    }
    drop(mutex);

    if mutated(Mutant::H011) {
        wb.refcnt().exit();
    }
    let lock = globals().cgwb_lock().lock_irq().await;
    wb.offline_node().del();
    drop(lock);

    wb_exit(wb);
    bdi_put(bdi).await;
    if mutated(Mutant::H034) {
        wake_up_all(globals().cgwb_release_wait()).await;
    }
    if mutated(Mutant::V2M17) {
        cgwb_remove_from_tree(bdi, wb, Some(key)).await;
    }
    if !wb.b_attached().is_empty() || wb.switch_work().pending() {
        report("LT-LIST-9", format!("{} is released with inodes attached or a switch pending", name(wb)));
    }
    emit(Tp::Return, wb.ptr(), 0);
    call_rcu(wb.rcu().ptr(), "cgwb_free_rcu", cgwb_free_rcu);
}

fn cgwb_free_rcu(rcu: Ptr) -> Fut {
    Box::pin(async move {
        kfn!(cgwb_free_rcu);
        let wb = BdiWriteback(rcu.sub(wb_fields::rcu));
        if mutated(Mutant::V2M15) {
            cgwb_remove_from_tree(wb.bdi().get(), wb, None).await;
        }
        wb.refcnt().exit();
        kfree(wb.ptr());
    })
}

fn name(wb: BdiWriteback) -> String {
    with(|m| m.mem.name(wb.ptr()))
}
