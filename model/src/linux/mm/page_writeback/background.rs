//! Does the flusher have to go on?
//!
//! Mirrors:    mm/page-writeback.c, wb_bg_dirty_limits() to wb_over_bg_thresh(); fidelity: mirror.
//! Locks:      none.
//! Ordering:   the memcg's statistics may be flushed between the two domains.

use super::limits::{__wb_calc_thresh, Domain, Dtc};
use super::surroundings::{WbStatItem, WbSurroundings, wb_stat_error};
use super::throttle::{domain_avail_and_limits, wb_share};

/// `wb_bg_dirty_limits`: the wb's part of the background threshold, computed from that and not scaled.
fn wb_bg_dirty_limits<W: WbSurroundings>(w: &W, of: Domain, dtc: &mut Dtc) {
    dtc.wb_bg_thresh = __wb_calc_thresh(&wb_share(w, of), dtc.dirty, dtc.bg_thresh);
    let exact = dtc.wb_bg_thresh < 2 * wb_stat_error(w.nr_cpu_ids());
    let reclaimable = if exact { w.percpu_counter_sum(WbStatItem::Reclaimable) } else { w.percpu_counter_read(WbStatItem::Reclaimable) };
    dtc.wb_dirty = reclaimable.max(0) as u64;
}

/// `domain_over_bg_thresh`
async fn domain_over_bg_thresh<W: WbSurroundings>(w: &W, of: Domain, dtc: &mut Dtc, gdtc: Option<&Dtc>) -> bool {
    // What is under writeback already needs no more.
    domain_avail_and_limits(w, dtc, gdtc, false).await;
    if dtc.dirty > dtc.bg_thresh {
        return true;
    }
    wb_bg_dirty_limits(w, of, dtc);
    dtc.wb_dirty > dtc.wb_bg_thresh
}

/// `wb_over_bg_thresh`: is the wb, or a domain that it is in, over the background threshold?
pub async fn wb_over_bg_thresh<W: WbSurroundings>(w: &W) -> bool {
    let mut gdtc = Dtc::default();
    if domain_over_bg_thresh(w, Domain::Global, &mut gdtc, None).await {
        return true;
    }
    w.has_memcg_domain() && domain_over_bg_thresh(w, Domain::Memcg, &mut Dtc::default(), Some(&gdtc)).await
}
