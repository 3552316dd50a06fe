//! The memory controller's css, its dirty counter, and foreign-flush records.
//!
//! Mirrors:    mm/memcontrol.c, mem_cgroup_css_alloc() to mem_cgroup_css_free(), mem_cgroup_track_foreign_dirty(),
//!             mem_cgroup_flush_foreign(); fidelity: model.
//! Simplified: no charges, so pages hold no reference on a memcg; the number of dirty pages that sizes a flush is one plain
//!             counter, whose staleness `stats` models; time stands still unless the case moves it, and a case may ask for other outcomes of the comparisons by named choices.
//! Locks:      the records are lockless; racing writers may mix them, which costs at most a useless flush.
//! Ordering:   completions are drained before the memcg is freed, when no reference is left to start another flush.
//! Rules:      LT-CSS-4, LT-MEM-2, LT-PROG-7.

pub mod frn;
pub mod stats;

use self::frn::{FrnScan, frn_is_fresh, frn_needs_refresh};
use crate::kfn;
use crate::linux::fs::fs_writeback::{cgroup_writeback_by_id, wb_wait_for_completion};
use crate::linux::globals;
use crate::linux::include::backing_dev_defs::BdiWriteback;
use crate::linux::include::cgroup_defs::{Css, MEMCG_CGWB_FRN_CNT, MemCgroup};
use crate::linux::include::fs::Inode;
use crate::linux::include::writeback::WbReason;
use crate::linux::mm::backing_dev::wb_memcg_offline;
use crate::linux::mm::memcontrol::stats::{memcg_stats_alloc, memcg_stats_free, reparent_state_local};
use crate::mutants::{Mutant, mutated};
use crate::sync::{Choice, Gfp, Tp, choose, emit, kfree, kzalloc, rcu_read_lock};

/// `dirty_expire_interval` in jiffies.
pub const DIRTY_EXPIRE: u64 = 3000;
/// A record's stamp is refreshed when it is older than this: the shorter of a second and an eighth of [`DIRTY_EXPIRE`].
const UPDATE_INTERVAL: u64 = 100;

/// `mem_cgroup_css_alloc` below `parent`, which is null for the root; null when out of memory.
pub fn mem_cgroup_css_alloc(parent: Css) -> Css {
    kfn!(mem_cgroup_css_alloc);
    let memcg = MemCgroup(kzalloc(MemCgroup::TYPE, Gfp::Kernel, "mem_cgroup_alloc"));
    if memcg.is_null() {
        return Css::NULL;
    }
    memcg_stats_alloc(memcg, parent);
    memcg.cgwb_list().init();
    for i in 0..MEMCG_CGWB_FRN_CNT {
        let done = memcg.cgwb_frn().get(i).done();
        done.cnt().set(1);
        done.waitq().set(globals().memcg_cgwb_frn_waitq().ptr());
    }
    memcg.css()
}

/// `mem_cgroup_css_offline`
pub async fn mem_cgroup_css_offline(css: Css) {
    kfn!(mem_cgroup_css_offline);
    reparent_state_local(css.memcg(), css.parent().get().memcg()).await;
    wb_memcg_offline(css.memcg()).await;
}

/// `mem_cgroup_css_free`: waits for the flushes that its records started.
pub async fn mem_cgroup_css_free(css: Css) {
    kfn!(mem_cgroup_css_free);
    for i in 0..MEMCG_CGWB_FRN_CNT {
        wb_wait_for_completion(css.memcg().cgwb_frn().get(i).done()).await;
    }
    memcg_stats_free(css.memcg());
    kfree(css.ptr());
}

/// Adds to the dirty-page counter of a memcg, or of its nearest ancestor that is not DYING.
///
/// The caller holds what keeps the memcg alive. A statistic: no scheduling point.
pub fn mod_memcg_dirty(css: Css, nr: i64) {
    let mut css = css;
    while css.is_dying() {
        css = css.parent().get();
    }
    let counter = css.memcg().nr_dirty();
    counter.set(counter.get() + nr);
}

/// Dirty pages of a memcg by its own counter, at least 0. Arbitrary once the memcg is DYING.
pub fn memcg_dirty_pages(css: Css) -> i64 {
    css.memcg().nr_dirty().get().max(0)
}

/// `mem_cgroup_track_foreign_dirty`: a page of `inode` charged to `folio_css` was dirtied on `wb`.
pub async fn mem_cgroup_track_foreign_dirty(inode: Inode, folio_css: Css, wb: BdiWriteback) {
    let _rcu = rcu_read_lock();
    if !folio_css.is_null() && folio_css != wb.memcg_css().get() {
        mem_cgroup_track_foreign_dirty_slowpath(inode, folio_css, wb).await;
    }
}

async fn mem_cgroup_track_foreign_dirty_slowpath(inode: Inode, folio_css: Css, wb: BdiWriteback) {
    kfn!(mem_cgroup_track_foreign_dirty_slowpath);
    emit(Tp::Call, wb.ptr(), u64::from(inode.ptr().0));
    let now = globals().jiffies().get();
    let (bdi_id, memcg_id) = (wb.bdi().get().id().get(), wb.memcg_css().get().id().get());
    let (mut scan, mut idle) = (FrnScan::new(now), Vec::new());
    for i in 0..MEMCG_CGWB_FRN_CNT {
        let frn = folio_css.memcg().cgwb_frn().get(i);
        let at = if i == 0 { frn.at().read_once().await } else { frn.at().get() };
        if frn.bdi_id().get() == bdi_id && frn.memcg_id().get() == memcg_id {
            if frn_needs_refresh(at, now, UPDATE_INTERVAL) {
                frn.at().write_once(now).await;
            }
            return;
        }
        let is_idle = frn.done().cnt().get() == 1;
        scan.consider(i as usize, at, is_idle);
        if is_idle {
            idle.push((i as usize, frn));
        }
    }
    // Answer 0: by the stamps. Others: time has passed, and another idle record is the oldest.
    let frn = match choose(Choice::Of("mem_cgroup_track_foreign_dirty_slowpath", idle.len() as u32 + 1)) {
        0 => idle.iter().find(|r| Some(r.0) == scan.oldest).map(|r| r.1),
        n => Some(idle[n as usize - 1].1),
    };
    let Some(frn) = frn else { return };
    if mutated(Mutant::H032) {
        // The stamp first: a flush may take the ids of two writers, or those of the last record, for fresh.
        frn.at().write_once(now).await;
    }
    frn.bdi_id().write_once(bdi_id).await;
    frn.memcg_id().write_once(memcg_id).await;
    frn.at().write_once(now).await;
}

/// `mem_cgroup_flush_foreign`: starts a flush for each fresh record of the throttled wb's memcg. The result is ignored.
pub async fn mem_cgroup_flush_foreign(wb: BdiWriteback) {
    kfn!(mem_cgroup_flush_foreign);
    emit(Tp::Call, wb.ptr(), 0);
    let memcg = wb.memcg_css().get().memcg();
    for i in 0..MEMCG_CGWB_FRN_CNT {
        let frn = memcg.cgwb_frn().get(i);
        // A record that was never used, or is consumed, is seen in the step before.
        let at = if i == 0 || frn.at().get() != 0 { frn.at().read_once().await } else { 0 };
        let fresh = frn_is_fresh(at, globals().jiffies().get(), DIRTY_EXPIRE);
        if !fresh || choose(Choice::Of("mem_cgroup_flush_foreign", 2)) == 1 {
            continue;
        }
        if frn.done().cnt().read_once().await != 1 {
            continue;
        }
        frn.at().write_once(0).await;
        cgroup_writeback_by_id(frn.bdi_id().get(), frn.memcg_id().get(), WbReason::ForeignFlush, frn.done()).await;
    }
}
