//! Estimates of one wb: how fast it writes, and how fast one task may dirty it.
//!
//! Mirrors:    mm/page-writeback.c, wb_update_write_bandwidth(), wb_update_dirty_ratelimit() to wb_bandwidth_estimate_start();
//!             struct bdi_writeback of include/linux/backing-dev-defs.h, its bandwidth fields; fidelity: mirror.
//! Locks:      none: an update is one step. In the kernel wb->list_lock covers it.
//! Ordering:   the rate is stepped with the bandwidth of before the update; with a memcg domain it is stepped twice, the second
//!             time from the result of the first.
//! Rules:      TH-BW-1, TH-BW-3.

use super::limits::{Domain, Dtc, dirty_freerun_ceiling, domain_update_dirty_limit, hard_dirty_limit};
use super::surroundings::{WbStatItem, WbSurroundings};
use super::{RATELIMIT_CALC_SHIFT, bandwidth_interval};
use crate::linux::fs::fs_writeback::foreign::INIT_BW;
use crate::linux::include::jiffies::time_before;
use crate::linux::include::math64::{div_round_up, div_u64, ilog2, roundup_pow_of_two};
use crate::linux::include::trace_events_writeback::{BdiDirtyRatelimit, Trace, kbps};

/// What throttling keeps in `struct bdi_writeback`. Rates are pages a second, times jiffies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WbBandwidth {
    /// Time of the last update.
    pub bw_time_stamp: u64,
    /// Pages dirtied until then.
    pub dirtied_stamp: u64,
    /// Pages written until then.
    pub written_stamp: u64,
    /// Average over about three seconds.
    pub write_bandwidth: u64,
    /// The same, smoothed once more; at least 1.
    pub avg_write_bandwidth: u64,
    /// Base rate of every task that dirties the wb; at least 1.
    pub dirty_ratelimit: u64,
    /// Last estimate of the rate at which tasks dirty as fast as the device writes.
    pub balanced_dirty_ratelimit: u64,
    /// The last throttled pass found the wb over its part. A pass in freerun does not clear it.
    pub dirty_exceeded: bool,
}

impl WbBandwidth {
    /// As `wb_init` leaves it at time `now`.
    pub fn new(now: u64) -> Self {
        WbBandwidth {
            bw_time_stamp: now,
            dirtied_stamp: 0,
            written_stamp: 0,
            write_bandwidth: INIT_BW,
            avg_write_bandwidth: INIT_BW,
            dirty_ratelimit: INIT_BW,
            balanced_dirty_ratelimit: INIT_BW,
            dirty_exceeded: false,
        }
    }

    /// Is the last update more than [`bandwidth_interval`] ago?
    pub fn is_due(&self, now: u64, hz: u64) -> bool {
        time_before(self.bw_time_stamp.wrapping_add(bandwidth_interval(hz)), now)
    }
}

/// `wb_update_write_bandwidth`: `written` pages in all, `elapsed` jiffies (at least 1) after the last update.
///
/// Yields the change of `avg_write_bandwidth`, which the bdi's total follows if the wb has dirty inodes. The average moves
/// towards the *old* bandwidth, while the new one is further in that direction.
pub fn wb_update_write_bandwidth(wb: &mut WbBandwidth, elapsed: u64, written: u64, hz: u64) -> i64 {
    let period = roundup_pow_of_two(3 * hz);
    let mut avg = wb.avg_write_bandwidth;
    let old = wb.write_bandwidth;
    // Pages that are redirtied on their way are taken back, so that the count may have fallen.
    let mut bw = (written - written.min(wb.written_stamp)).wrapping_mul(hz);
    if elapsed > period {
        bw /= elapsed;
        avg = bw;
    } else {
        bw = bw.wrapping_add(old.wrapping_mul(period - elapsed)) >> ilog2(period);
        if avg > old && old >= bw {
            avg -= (avg - old) >> 3;
        }
        if avg < old && old <= bw {
            avg += (old - avg) >> 3;
        }
    }
    avg = avg.max(1);
    let delta = avg.wrapping_sub(wb.avg_write_bandwidth) as i64;
    wb.write_bandwidth = bw;
    wb.avg_write_bandwidth = avg;
    delta
}

/// `wb_update_dirty_ratelimit` for one domain: `dirtied` pages in all, `elapsed` jiffies (at least 1) after the last update.
///
/// Yields the rate at which pages became dirty and the rate of one task, pages a second, for the trace line. Fewer pages
/// dirtied than at the last update (they were redirtied) wrap to a huge rate, of which the low 32 bits divide.
pub fn wb_update_dirty_ratelimit(wb: &mut WbBandwidth, dtc: &Dtc, dom_dirty_limit: u64, strictlimit: bool, dirtied: u64, elapsed: u64, hz: u64) -> (u64, u64) {
    let mut dirty = dtc.dirty;
    let freerun = dirty_freerun_ceiling(dtc.thresh, dtc.bg_thresh);
    let limit = hard_dirty_limit(dom_dirty_limit, dtc.thresh);
    let mut setpoint = freerun.wrapping_add(limit) / 2;
    let write_bw = wb.avg_write_bandwidth;
    let mut dirty_ratelimit = wb.dirty_ratelimit;

    let dirty_rate = dirtied.wrapping_sub(wb.dirtied_stamp).wrapping_mul(hz) / elapsed;
    let task_ratelimit = (dirty_ratelimit.wrapping_mul(dtc.pos_ratio) >> RATELIMIT_CALC_SHIFT).wrapping_add(1);
    let balanced = div_u64(task_ratelimit.wrapping_mul(write_bw), dirty_rate | 1).min(write_bw);

    if strictlimit {
        dirty = dtc.wb_dirty;
        setpoint = dtc.wb_thresh.wrapping_add(dtc.wb_bg_thresh) / 2;
    }
    // Below the setpoint the rate may only rise, and above it only fall, as far as all three agree.
    let mut step = if dirty < setpoint {
        wb.balanced_dirty_ratelimit.min(balanced).min(task_ratelimit).saturating_sub(dirty_ratelimit)
    } else {
        dirty_ratelimit.saturating_sub(wb.balanced_dirty_ratelimit.max(balanced).max(task_ratelimit))
    };
    // A small step becomes smaller still.
    let shift = dirty_ratelimit / step.wrapping_mul(2).wrapping_add(1);
    step = if shift < u64::from(u64::BITS) { div_round_up(step >> shift, 8) } else { 0 };
    dirty_ratelimit = if dirty_ratelimit < balanced { dirty_ratelimit.wrapping_add(step) } else { dirty_ratelimit.wrapping_sub(step) };

    wb.dirty_ratelimit = dirty_ratelimit.max(1);
    wb.balanced_dirty_ratelimit = balanced;
    (dirty_rate, task_ratelimit)
}

/// `__wb_update_bandwidth`: the bandwidth and, if asked, the slow limits and the base rate. `mdtc` is for a memcg domain.
pub fn __wb_update_bandwidth<W: WbSurroundings>(w: &W, gdtc: &Dtc, mdtc: Option<&Dtc>, update_ratelimit: bool) {
    let (now, hz) = (w.jiffies(), w.hz());
    let elapsed = now.wrapping_sub(w.with_bandwidth(|wb| wb.bw_time_stamp)).max(1);
    let dirtied = w.percpu_counter_read(WbStatItem::Dirtied) as u64;
    let written = w.percpu_counter_read(WbStatItem::Written) as u64;

    if update_ratelimit {
        for (of, dtc) in [(Domain::Global, Some(gdtc)), (Domain::Memcg, mdtc)] {
            let Some(dtc) = dtc else { continue };
            let dom_dirty_limit = w.with_domain(of, |dom| {
                domain_update_dirty_limit(dom, dtc, now, hz);
                dom.dirty_limit
            });
            let strictlimit = w.with_bdi(|bdi| bdi.strictlimit);
            let line = w.with_bandwidth(|wb| {
                let (dirty_rate, task_ratelimit) = wb_update_dirty_ratelimit(wb, dtc, dom_dirty_limit, strictlimit, dirtied, elapsed, hz);
                BdiDirtyRatelimit {
                    write_bw: kbps(wb.write_bandwidth),
                    avg_write_bw: kbps(wb.avg_write_bandwidth),
                    dirty_rate: kbps(dirty_rate),
                    dirty_ratelimit: kbps(wb.dirty_ratelimit),
                    task_ratelimit: kbps(task_ratelimit),
                    balanced_dirty_ratelimit: kbps(wb.balanced_dirty_ratelimit),
                }
            });
            w.trace(Trace::BdiDirtyRatelimit(line));
        }
    }
    let delta = w.with_bandwidth(|wb| {
        let delta = wb_update_write_bandwidth(wb, elapsed, written, hz);
        wb.dirtied_stamp = dirtied;
        wb.written_stamp = written;
        wb.bw_time_stamp = now;
        delta
    });
    if w.wb_has_dirty_io() {
        w.with_bdi(|bdi| bdi.tot_write_bandwidth = bdi.tot_write_bandwidth.wrapping_add(delta));
    }
}

/// `wb_update_bandwidth`: the bandwidth only; from the work that the last completion of a mapping arms.
pub fn wb_update_bandwidth<W: WbSurroundings>(w: &W) {
    __wb_update_bandwidth(w, &Dtc::default(), None, false);
}

/// What `do_writepages` does when it is done: the bandwidth only, if an update is due.
pub fn wb_update_bandwidth_if_due<W: WbSurroundings>(w: &W) {
    let (now, hz) = (w.jiffies(), w.hz());
    if w.with_bandwidth(|wb| wb.is_due(now, hz)) {
        wb_update_bandwidth(w);
    }
}

/// `wb_bandwidth_estimate_start`, first in `do_writepages`: a wb that was idle for a second starts to count anew.
///
/// What completed in between is not counted; the estimates stay.
pub fn wb_bandwidth_estimate_start<W: WbSurroundings>(w: &W) {
    let (now, hz) = (w.jiffies(), w.hz());
    let elapsed = now.wrapping_sub(w.with_bandwidth(|wb| wb.bw_time_stamp));
    if elapsed > hz && w.writeback_inodes() == 0 {
        let dirtied = w.percpu_counter_read(WbStatItem::Dirtied).max(0) as u64;
        let written = w.percpu_counter_read(WbStatItem::Written).max(0) as u64;
        w.with_bandwidth(|wb| {
            wb.dirtied_stamp = dirtied;
            wb.written_stamp = written;
            wb.bw_time_stamp = now;
        });
    }
}
