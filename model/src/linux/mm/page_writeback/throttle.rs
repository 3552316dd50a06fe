//! The loop that holds back a task which dirties pages.
//!
//! Mirrors:    mm/page-writeback.c, domain_dirty_avail(), wb_dirty_limits() to balance_dirty_pages(); fidelity: mirror.
//! Simplified: the task's state flag is not modelled; a memcg's own policy ([`MemcgPolicy`]) is not mainline's.
//! Locks:      none.
//! Ordering:   statistics of the memcg may be flushed in each round, foreign flushes start in each round that is not free,
//!             before any pause is decided. Time passes at these and in the sleep; `now` is of the start of the round.
//! Rules:      TH-FR-1, TH-FR-2, TH-FR-3, TH-LOOP-1 to TH-LOOP-4.

use super::RATELIMIT_CALC_SHIFT;
use super::bandwidth::__wb_update_bandwidth;
use super::limits::{self, Domain, Dtc, Sysctl, WbShare, dirty_freerun_ceiling, domain_dirty_limits, mdtc_calc_avail, wb_min_max_ratio};
use super::pause::{dirty_poll_interval, wb_max_pause, wb_min_pause};
use super::position::wb_position_ratio;
use super::surroundings::{MemcgPolicy, TaskSurroundings, WbStatItem, WbSurroundings, wb_stat_error};
use crate::linux::include::trace_events_writeback::{BalanceDirtyPages, Trace, kbps};

/// `BDP_ASYNC`: do not sleep, say that one should.
pub const BDP_ASYNC: u32 = 1;
/// What an asynchronous caller gets in place of a pause.
pub const EAGAIN: i64 = 11;

/// What throttling keeps in `struct task_struct`. The two page counts are ints: what is stored here fits 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskThrottle {
    /// Pages dirtied since the task was last throttled for; negative after pages were redirtied.
    pub nr_dirtied: i64,
    /// Pages after which it goes to the throttler.
    pub nr_dirtied_pause: i64,
    /// When the last pause ended, in jiffies, or ends: debt moves it ahead. 0: never paused.
    pub dirty_paused_when: u64,
}

impl Default for TaskThrottle {
    /// A new task's.
    fn default() -> Self {
        TaskThrottle { nr_dirtied: 0, nr_dirtied_pause: 128 >> (crate::linux::fs::fs_writeback::foreign::PAGE_SHIFT - 10), dirty_paused_when: 0 }
    }
}

/// Everything that the wb's part of a threshold depends on.
pub(super) fn wb_share<W: WbSurroundings>(w: &W, of: Domain) -> WbShare {
    let (numerator, denominator) = w.fprop_fraction(of);
    let avg_write_bandwidth = w.with_bandwidth(|wb| wb.avg_write_bandwidth);
    let bdi_min_ratio = w.bdi_min_ratio();
    w.with_bdi(|bdi| {
        let (min_ratio, max_ratio) = wb_min_max_ratio(avg_write_bandwidth, bdi);
        WbShare { numerator, denominator, min_ratio, max_ratio, bdi_min_ratio, strictlimit: bdi.strictlimit }
    })
}

/// `domain_dirty_avail`, then `domain_dirty_limits`. `gdtc` is given for the memcg's domain.
pub(super) async fn domain_avail_and_limits<W: WbSurroundings>(w: &W, dtc: &mut Dtc, gdtc: Option<&Dtc>, include_writeback: bool) {
    let mut sysctl = w.sysctl();
    match gdtc {
        None => {
            dtc.avail = w.global_dirtyable_memory();
            dtc.dirty = w.nr_file_dirty();
            if include_writeback {
                dtc.dirty = dtc.dirty.wrapping_add(w.nr_writeback());
            }
        }
        Some(gdtc) => {
            let stats = w.mem_cgroup_wb_stats().await;
            dtc.dirty = stats.dirty;
            if include_writeback {
                dtc.dirty = dtc.dirty.wrapping_add(stats.writeback);
            }
            mdtc_calc_avail(dtc, gdtc, stats.filepages, stats.headroom);
            if let Some(dirty_ratio) = w.memcg_policy().dirty_ratio {
                sysctl = Sysctl { dirty_ratio, dirty_bytes: 0, ..sysctl };
            }
        }
    }
    let global_dirty_limit = w.with_domain(Domain::Global, |dom| dom.dirty_limit);
    domain_dirty_limits(dtc, gdtc, &sysctl, w.rt_or_dl_task(), global_dirty_limit);
    if gdtc.is_none() {
        w.trace(Trace::GlobalDirtyState { bg_thresh: dtc.bg_thresh, thresh: dtc.thresh });
    }
}

/// `wb_dirty_limits`: the counters are summed where a cheap read might be off by half the threshold.
fn wb_dirty_limits<W: WbSurroundings>(w: &W, of: Domain, dtc: &mut Dtc) {
    limits::wb_dirty_limits(dtc, &wb_share(w, of));
    let exact = dtc.wb_thresh < 2 * wb_stat_error(w.nr_cpu_ids());
    let stat = |item| if exact { w.percpu_counter_sum(item) } else { w.percpu_counter_read(item) }.max(0) as u64;
    dtc.wb_dirty = stat(WbStatItem::Reclaimable).wrapping_add(stat(WbStatItem::Writeback));
}

/// `domain_poll_intv`
fn domain_poll_intv(dtc: &Dtc, strictlimit: bool) -> u64 {
    if strictlimit { dirty_poll_interval(dtc.wb_dirty, dtc.wb_thresh) } else { dirty_poll_interval(dtc.dirty, dtc.thresh) }
}

/// `balance_domain_limits`: limits and whether the domain is in freerun.
async fn balance_domain_limits<W: WbSurroundings>(w: &W, of: Domain, dtc: &mut Dtc, gdtc: Option<&Dtc>, strictlimit: bool) {
    domain_avail_and_limits(w, dtc, gdtc, true).await;
    if strictlimit {
        wb_dirty_limits(w, of, dtc);
    }
    dtc.freerun = limits::domain_dirty_freerun(dtc, strictlimit);
}

/// `wb_dirty_freerun`: the second chance of a task that writes back what others dirty.
fn wb_dirty_freerun<W: TaskSurroundings>(w: &W, of: Domain, dtc: &mut Dtc, strictlimit: bool) {
    dtc.freerun = false;
    if strictlimit {
        return;
    }
    wb_dirty_limits(w, of, dtc);
    if w.local_throttle() {
        dtc.freerun = dtc.wb_dirty < dirty_freerun_ceiling(dtc.wb_thresh, dtc.wb_bg_thresh);
    }
}

/// `balance_wb_limits`: with `freerun` still unset, sets `dirty_exceeded` and `pos_ratio`, else leaves those as they were.
fn balance_wb_limits<W: TaskSurroundings>(w: &W, of: Domain, dtc: &mut Dtc, strictlimit: bool) {
    wb_dirty_freerun(w, of, dtc, strictlimit);
    if dtc.freerun {
        return;
    }
    dtc.dirty_exceeded = dtc.wb_dirty > dtc.wb_thresh && (dtc.dirty > dtc.thresh || strictlimit);
    let dirty_limit = w.with_domain(of, |dom| dom.dirty_limit);
    wb_position_ratio(dtc, dirty_limit, strictlimit, w.with_bandwidth(|wb| wb.avg_write_bandwidth));
}

/// Is the task below a reserve of its memcg? Not in mainline.
fn below_reserve(policy: MemcgPolicy, mdtc: Option<&Dtc>) -> bool {
    mdtc.is_some_and(|mdtc| mdtc.dirty < policy.dirty_min)
}

/// A pause that was decided on, for its trace line. Jiffies.
struct Pause {
    dirty_ratelimit: u64,
    task_ratelimit: u64,
    pages_dirtied: u64,
    period: u64,
    pause: i64,
    start_time: u64,
}

/// `trace_balance_dirty_pages`
fn trace_balance_dirty_pages<W: WbSurroundings>(w: &W, task: &TaskThrottle, dtc: &Dtc, p: &Pause) {
    let (now, hz) = (w.jiffies(), w.hz());
    let ms = |jiffies: u64| jiffies.wrapping_mul(1000) / hz;
    let signed_ms = |jiffies: i64| jiffies.wrapping_mul(1000) / hz as i64;
    let setpoint = dtc.limit.wrapping_add(dirty_freerun_ceiling(dtc.thresh, dtc.bg_thresh)) / 2;
    w.trace(Trace::BalanceDirtyPages(BalanceDirtyPages {
        limit: dtc.limit,
        setpoint,
        dirty: dtc.dirty,
        wb_setpoint: setpoint.wrapping_mul(dtc.wb_thresh) / dtc.thresh.wrapping_add(1),
        wb_dirty: dtc.wb_dirty,
        dirty_ratelimit: kbps(p.dirty_ratelimit),
        task_ratelimit: kbps(p.task_ratelimit),
        paused: ms(now.wrapping_sub(p.start_time)),
        pause: signed_ms(p.pause),
        period: ms(p.period),
        think: if task.dirty_paused_when == 0 { 0 } else { signed_ms(now.wrapping_sub(task.dirty_paused_when) as i64) },
        dirtied: p.pages_dirtied as u32,
        dirtied_pause: task.nr_dirtied_pause as u32,
    }));
}

/// `balance_dirty_pages`: throttles the task for `pages_dirtied` pages. 0, or `-EAGAIN` where [`BDP_ASYNC`] forbids to sleep.
pub async fn balance_dirty_pages<W: TaskSurroundings>(w: &W, task: &mut TaskThrottle, pages_dirtied: u64, flags: u32) -> i64 {
    let mut gdtc = Dtc::default();
    let mut mdtc = w.has_memcg_domain().then(Dtc::default);
    let strictlimit = w.with_bdi(|bdi| bdi.strictlimit);
    let (hz, stat_error) = (w.hz(), wb_stat_error(w.nr_cpu_ids()));
    let start_time = w.jiffies();

    loop {
        let mut now = w.jiffies();
        let nr_dirty = w.nr_file_dirty();
        balance_domain_limits(w, Domain::Global, &mut gdtc, None, strictlimit).await;
        if let Some(mdtc) = &mut mdtc {
            balance_domain_limits(w, Domain::Memcg, mdtc, Some(&gdtc), strictlimit).await;
        }
        if !w.writeback_in_progress() && (nr_dirty > gdtc.bg_thresh || strictlimit && gdtc.wb_dirty > gdtc.wb_bg_thresh) {
            w.wb_start_background_writeback();
        }

        let mut sdtc = gdtc;
        let free = 'free: {
            if gdtc.freerun && mdtc.is_none_or(|mdtc| mdtc.freerun) || below_reserve(w.memcg_policy(), mdtc.as_ref()) {
                break 'free true;
            }
            // The memcg alone may be over.
            if !w.writeback_in_progress() {
                w.wb_start_background_writeback();
            }
            w.mem_cgroup_flush_foreign().await;
            balance_wb_limits(w, Domain::Global, &mut gdtc, strictlimit);
            if gdtc.freerun {
                break 'free true;
            }
            sdtc = gdtc;
            if let Some(mdtc) = &mut mdtc {
                balance_wb_limits(w, Domain::Memcg, mdtc, strictlimit);
                if mdtc.freerun {
                    break 'free true;
                }
                if mdtc.pos_ratio < gdtc.pos_ratio {
                    sdtc = *mdtc;
                }
            }
            false
        };
        if free {
            task.dirty_paused_when = now;
            task.nr_dirtied = 0;
            let intv = domain_poll_intv(&gdtc, strictlimit);
            let m_intv = mdtc.as_ref().map_or(u64::MAX, |mdtc| domain_poll_intv(mdtc, strictlimit));
            task.nr_dirtied_pause = i64::from(intv.min(m_intv) as i32);
            return 0;
        }

        let dirty_exceeded = gdtc.dirty_exceeded || mdtc.is_some_and(|mdtc| mdtc.dirty_exceeded);
        let time = w.jiffies();
        let due = w.with_bandwidth(|wb| {
            wb.dirty_exceeded = dirty_exceeded;
            wb.is_due(time, hz)
        });
        if due {
            __wb_update_bandwidth(w, &gdtc, mdtc.as_ref(), true);
        }

        let wb = w.with_bandwidth(|wb| *wb);
        let dirty_ratelimit = wb.dirty_ratelimit;
        let task_ratelimit = dirty_ratelimit.wrapping_mul(sdtc.pos_ratio) >> RATELIMIT_CALC_SHIFT;
        let max_pause = wb_max_pause(wb.avg_write_bandwidth, sdtc.wb_dirty, hz);
        let (min_pause, nr_dirtied_pause) = wb_min_pause(wb.avg_write_bandwidth, wb.dirty_ratelimit, max_pause, task_ratelimit, dirty_ratelimit, hz);

        let mut p = Pause { dirty_ratelimit, task_ratelimit, pages_dirtied, period: max_pause as u64, pause: max_pause, start_time };
        if let Some(period) = hz.wrapping_mul(pages_dirtied).checked_div(task_ratelimit) {
            p.period = period;
            p.pause = period as i64;
            if task.dirty_paused_when != 0 {
                p.pause = p.pause.wrapping_sub(now.wrapping_sub(task.dirty_paused_when) as i64);
            }
            if p.pause < min_pause {
                let pause = p.pause;
                p.pause = pause.min(0);
                trace_balance_dirty_pages(w, task, &sdtc, &p);
                if pause < -(hz as i64) {
                    task.dirty_paused_when = now;
                    task.nr_dirtied = 0;
                } else if p.period != 0 {
                    task.dirty_paused_when = task.dirty_paused_when.wrapping_add(p.period);
                    task.nr_dirtied = 0;
                } else if task.nr_dirtied_pause as u64 <= pages_dirtied {
                    // An unsigned comparison; the sum is kept in an int.
                    task.nr_dirtied_pause = i64::from((task.nr_dirtied_pause as i32).wrapping_add(pages_dirtied as i32));
                }
                return 0;
            }
            if p.pause > max_pause {
                // Debt, up to one more pause.
                now = now.wrapping_add((p.pause - max_pause).min(max_pause) as u64);
                p.pause = max_pause;
            }
        }

        trace_balance_dirty_pages(w, task, &sdtc, &p);
        if flags & BDP_ASYNC != 0 {
            return -EAGAIN;
        }
        let time = w.jiffies();
        w.with_bdi(|bdi| bdi.last_bdp_sleep = time);
        w.io_schedule_timeout(p.pause).await;

        task.dirty_paused_when = now.wrapping_add(p.pause as u64);
        task.nr_dirtied = 0;
        task.nr_dirtied_pause = i64::from(nr_dirtied_pause);

        // A blocked task goes on if its rate is not 0, if its wb is all but clean, so that other wbs are not held up by a
        // device that does not answer, or if it is being killed.
        if task_ratelimit != 0 || sdtc.wb_dirty <= stat_error || w.fatal_signal_pending() {
            return 0;
        }
    }
}
