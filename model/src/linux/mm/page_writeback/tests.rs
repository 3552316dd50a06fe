//! What the specification of throttling claims, as properties of the functions: sections TH-LIM to TH-LOOP.

use super::bandwidth::{WbBandwidth, wb_bandwidth_estimate_start, wb_update_bandwidth, wb_update_dirty_ratelimit, wb_update_write_bandwidth};
use super::limits::*;
use super::pause::{max_pause, wb_max_pause, wb_min_pause};
use super::position::{pos_ratio_polynom, wb_position_ratio};
use super::ratelimited::{CpuRatelimit, balance_dirty_pages_ratelimited, leak_on_exit, ratelimit};
use super::surroundings::{MemcgPolicy, MemcgWbStats};
use super::throttle::{BDP_ASYNC, EAGAIN, TaskThrottle, balance_dirty_pages};
use crate::linux::include::trace_events_writeback::{BalanceDirtyPages, Trace};
use crate::linux::lib::flex_proportions::{FpropLocalPercpu, OnCpu};
use crate::vectors::throttle::{World, at_once};
use proptest::prelude::*;
use std::cell::{Cell, RefCell};

const HZ: [u64; 3] = [100, 250, 1000];

fn hz() -> impl Strategy<Value = u64> {
    prop::sample::select(&HZ[..])
}

/// Numbers of every size up to 2^bits.
fn sized(bits: u32) -> impl Strategy<Value = u64> {
    (0..=bits, any::<u64>()).prop_map(|(b, n)| n.checked_rem(1 << b).unwrap_or(0))
}

fn limits_of(avail: u64, gdtc: Option<&Dtc>, sysctl: &Sysctl, rt: bool, global_dirty_limit: u64) -> Dtc {
    let mut dtc = Dtc { avail, ..Dtc::default() };
    domain_dirty_limits(&mut dtc, gdtc, sysctl, rt, global_dirty_limit);
    dtc
}

/// A domain with thresholds as the kernel computes them, a slow limit, and more dirty pages than freerun allows.
fn throttled() -> impl Strategy<Value = (Dtc, u64)> {
    (sized(32), sized(32), sized(30), sized(32)).prop_map(|(thresh, bg, lag, over)| {
        let thresh = thresh.max(1);
        let bg_thresh = if bg >= thresh { thresh / 2 } else { bg };
        let dirty = dirty_freerun_ceiling(thresh, bg_thresh) + 1 + over;
        (Dtc { thresh, bg_thresh, dirty, ..Dtc::default() }, (thresh + lag).saturating_sub(lag * 2))
    })
}

proptest! {
    #[test]
    fn th_lim_1_background_is_below_the_threshold_and_real_time_is_not_below_normal(
        avail in sized(48), global_avail in 1u64..1 << 48, ratio in 0u32..=100, bg_ratio in 0u32..=100, bytes in sized(44),
        bg_bytes in sized(44), memcg: bool, limit in sized(32),
    ) {
        let sysctl = Sysctl { dirty_ratio: ratio, dirty_bytes: bytes, dirty_background_ratio: bg_ratio, dirty_background_bytes: bg_bytes };
        let gdtc = Dtc { avail: global_avail, ..Dtc::default() };
        let gdtc = memcg.then_some(&gdtc);
        let normal = limits_of(avail, gdtc, &sysctl, false, limit);
        let lifted = limits_of(avail, gdtc, &sysctl, true, limit);
        for d in [normal, lifted] {
            prop_assert!(d.bg_thresh < d.thresh || (d.bg_thresh, d.thresh) == (0, 0));
            prop_assert!(d.thresh <= u64::from(u32::MAX));
        }
        if lifted.thresh < u64::from(u32::MAX) {
            prop_assert!(lifted.thresh >= normal.thresh);
            prop_assert!(lifted.bg_thresh >= normal.bg_thresh);
        }
    }

    #[test]
    fn th_lim_2_the_slow_limit_falls_by_a_32nd_and_stops_short(limit in sized(32), thresh in sized(32), dirty in sized(32)) {
        let mut dom = WbDomain { dirty_limit: limit, ..WbDomain::new(0, 1) };
        update_dirty_limit(&mut dom, &Dtc { thresh, dirty, ..Dtc::default() });
        let target = thresh.max(dirty);
        prop_assert!(dom.dirty_limit >= thresh);
        prop_assert!(limit.saturating_sub(dom.dirty_limit) <= limit.saturating_sub(target) / 32);
        if limit >= thresh && limit < target + 32 {
            prop_assert_eq!(dom.dirty_limit, limit);
        }
    }

    #[test]
    fn th_lim_3_a_memcg_has_its_file_pages_and_at_most_its_headroom_more(
        filepages in sized(40), headroom in sized(51), dirty in sized(40), avail in sized(40), global_dirty in sized(40),
    ) {
        let gdtc = Dtc { avail, dirty: global_dirty, ..Dtc::default() };
        let mut mdtc = Dtc { dirty, ..Dtc::default() };
        mdtc_calc_avail(&mut mdtc, &gdtc, filepages, headroom);
        prop_assert!(mdtc.avail >= filepages);
        prop_assert!(mdtc.avail <= filepages + headroom);
    }

    // Dirty pages between where the loop throttles and the limit; far outside the cube wraps.
    #[test]
    fn th_pos_1_the_curve_falls_through_one(below in sized(31), span in 1u64..1 << 31, at in 0u64..1 << 32, more in sized(31)) {
        let setpoint = below + span;
        let limit = setpoint + span;
        let dirty = below + at % (2 * span + 1);
        let next = dirty.saturating_add(more).min(limit);
        let (p, q) = (pos_ratio_polynom(setpoint, dirty, limit), pos_ratio_polynom(setpoint, next, limit));
        prop_assert!(p >= q, "{} at {}, {} at {}", p, dirty, q, next);
        prop_assert!((0..=2048).contains(&p));
        prop_assert_eq!(pos_ratio_polynom(setpoint, setpoint, limit), 1024);
    }

    #[test]
    fn th_pos_2_at_the_limit_and_at_a_strict_threshold_nothing_goes(
        (mut dtc, limit) in throttled(), strict: bool, wb_thresh in sized(32), wb_bg in sized(32), wb_dirty in sized(32), bw in sized(20),
    ) {
        dtc = Dtc { wb_thresh, wb_bg_thresh: wb_bg.min(wb_thresh), wb_dirty, ..dtc };
        wb_position_ratio(&mut dtc, limit, strict, bw);
        prop_assert_eq!(dtc.limit, limit.max(dtc.thresh));
        if dtc.dirty >= dtc.limit || strict && wb_dirty >= wb_thresh {
            prop_assert_eq!(dtc.pos_ratio, 0);
        }
        if strict {
            prop_assert!(dtc.pos_ratio <= 2048);
        }
    }

    #[test]
    fn th_pos_3_the_line_of_the_wb_falls_to_a_quarter(
        (mut dtc, limit) in throttled(), wb_thresh in sized(32), extra in sized(32), more in sized(32), bw in sized(20),
    ) {
        dtc.dirty = dtc.dirty.min(limit.max(dtc.thresh).saturating_sub(1));
        let ratio = |wb_dirty| {
            let mut d = Dtc { wb_thresh, wb_dirty, ..dtc };
            wb_position_ratio(&mut d, limit, false, bw);
            d
        };
        let wb_dirty = wb_thresh.min(dtc.thresh) / 2 + extra;
        let (near, far) = (ratio(wb_dirty), ratio(wb_dirty + more));
        let setpoint = (dirty_freerun_ceiling(dtc.thresh, dtc.bg_thresh) + near.limit) / 2;
        let curve = pos_ratio_polynom(setpoint, dtc.dirty, near.limit) as u64;
        prop_assert!(near.pos_ratio >= curve / 4);
        prop_assert!(far.pos_ratio <= near.pos_ratio);
    }

    #[test]
    fn th_bw_1_rates_stay_above_zero_and_the_balanced_rate_within_the_bandwidth(
        (dtc, limit) in throttled(), pos_ratio in sized(13), avg in 1u64..1 << 21, rate in 1u64..1 << 21, prev in sized(21),
        dirtied in sized(40), stamp in sized(40), elapsed in 1u64..1 << 14, written in sized(40), old in sized(21), hz in hz(), strict: bool,
    ) {
        let mut wb = WbBandwidth {
            avg_write_bandwidth: avg,
            dirty_ratelimit: rate,
            balanced_dirty_ratelimit: prev,
            dirtied_stamp: stamp,
            written_stamp: stamp,
            write_bandwidth: old,
            ..WbBandwidth::new(0)
        };
        wb_update_dirty_ratelimit(&mut wb, &Dtc { pos_ratio, ..dtc }, limit, strict, dirtied, elapsed, hz);
        prop_assert!(wb.dirty_ratelimit >= 1);
        prop_assert!(wb.balanced_dirty_ratelimit <= avg);
        let delta = wb_update_write_bandwidth(&mut wb, elapsed, written, hz);
        prop_assert!(wb.avg_write_bandwidth >= 1);
        prop_assert_eq!(avg.wrapping_add_signed(delta), wb.avg_write_bandwidth);
    }

    #[test]
    fn th_bw_3_the_estimate_closes_in_on_a_constant_rate(pages_a_jiffy in 1u64..4000, start in 1u64..1 << 20, part in 1u64..=20, hz in hz()) {
        let (rate, period) = (pages_a_jiffy * hz, (3 * hz).next_power_of_two());
        let elapsed = period / 20 * part;
        let mut wb = WbBandwidth { write_bandwidth: start, avg_write_bandwidth: start, ..WbBandwidth::new(0) };
        for n in 1..=2000 {
            let gap = wb.write_bandwidth.abs_diff(rate);
            wb_update_write_bandwidth(&mut wb, elapsed, n * elapsed * pages_a_jiffy, hz);
            wb.written_stamp = n * elapsed * pages_a_jiffy;
            let left = wb.write_bandwidth.abs_diff(rate);
            prop_assert!(left <= (gap * (period - elapsed)).div_ceil(period) + 1, "{} after {}", left, gap);
        }
        let floor = period / elapsed + 1;
        prop_assert!(wb.write_bandwidth.abs_diff(rate) <= floor);
        prop_assert!(wb.avg_write_bandwidth.abs_diff(rate) <= floor + 8);
    }

    #[test]
    fn th_pause_1_pauses_are_within_their_bounds(
        avg in 1u64..1 << 22, rate in 1u64..1 << 22, read in 1u64..1 << 22, task in sized(23), wb_dirty in sized(32), hz in hz(),
    ) {
        let longest = wb_max_pause(avg, wb_dirty, hz);
        let (shortest, pages) = wb_min_pause(avg, rate, longest, task, read, hz);
        prop_assert!(1 <= shortest);
        prop_assert!(shortest <= longest);
        prop_assert!(longest as u64 <= max_pause(hz));
        prop_assert!(pages >= 0);
    }
}

#[test]
fn th_bw_4_completions_that_no_update_sees_before_the_idle_restart_are_forgotten() {
    // A burst each two seconds, written in 200 ms. Ordinary accounting updates 200 ms after the last completion.
    let avg = |updates_at_the_end: bool| {
        let mut world = World::idle();
        world.bandwidth = RefCell::new(WbBandwidth { write_bandwidth: 100, avg_write_bandwidth: 100, ..WbBandwidth::new(0) });
        for burst in 1..200 {
            world.jiffies.set(burst * 2 * world.hz);
            wb_bandwidth_estimate_start(&world);
            world.wb_written.set(burst * 10_000);
            world.jiffies.set(world.jiffies.get() + 2 * world.hz / 5);
            if updates_at_the_end {
                wb_update_bandwidth(&world);
            }
        }
        world.bandwidth.into_inner().avg_write_bandwidth
    };
    assert!(avg(true) > 20_000, "{}", avg(true));
    assert_eq!(avg(false), 100);
}

const ON: OnCpu = OnCpu { cpu: 0, batch: 32 };

#[test]
fn the_period_timer_counts_what_it_missed_and_stops_when_nothing_is_left() {
    const HZ: u64 = 250;
    let (mut dom, mut wb) = (WbDomain::new(NOW, 1), FpropLocalPercpu::new(1));
    let arm = |dom: &mut WbDomain, wb: &mut FpropLocalPercpu, now| dom.writeout_add(wb, 1024, 1000, now, HZ, ON);
    assert_eq!(arm(&mut dom, &mut wb, NOW), Some(NOW + 750));
    assert_eq!(arm(&mut dom, &mut wb, NOW + 10), None, "it is armed");
    // Two whole periods late: three are declared, and the next ends in step with the first.
    assert_eq!(dom.writeout_period(NOW + 750 + 1501, HZ, ON), Some(NOW + 750 + 1500 + 750));
    assert_eq!(dom.completions.period, 3);
    assert_eq!(wb.fraction(&dom.completions, 0), (250, 250));
    // After long idleness one event is left, which is none.
    assert!(dom.writeout_period(NOW + 750 * 100, HZ, ON).is_some());
    assert_eq!(dom.writeout_period(NOW + 750 * 101, HZ, ON), None);
    assert_eq!(dom.period_time, 0);
    assert_eq!(arm(&mut dom, &mut wb, NOW + 750 * 200), Some(NOW + 750 * 201));
}

#[test]
fn a_period_never_ends_at_the_time_that_means_never() {
    let mut wb = FpropLocalPercpu::new(1);
    assert_eq!(WbDomain::new(0, 1).writeout_add(&mut wb, 1024, 1, 750u64.wrapping_neg(), 250, ON), Some(1));
}

#[test]
fn a_ratio_and_bytes_replace_each_other() {
    let mut s = Sysctl::default();
    assert_eq!(s.set_dirty_ratio(20), Ok(false));
    assert_eq!(s.set_dirty_bytes(32 << 20), Ok(true));
    assert_eq!((s.dirty_ratio, s.dirty_bytes), (0, 32 << 20));
    assert_eq!(s.set_dirty_bytes(32 << 20), Ok(false));
    assert_eq!(s.set_dirty_background_bytes(16 << 20), Ok(()));
    assert_eq!((s.dirty_background_ratio, s.dirty_background_bytes), (0, 16 << 20));
    let global = limits_of(1 << 20, None, &s, false, 0);
    assert_eq!((global.thresh, global.bg_thresh), (8192, 4096));
    let before = s;
    assert!(s.set_dirty_bytes(8191).is_err() && s.set_dirty_bytes(1 << 44).is_err() && s.set_dirty_ratio(101).is_err());
    assert!(s.set_dirty_background_bytes(0).is_err() && s.set_dirty_background_bytes(1 << 44).is_err() && s.set_dirty_background_ratio(101).is_err());
    assert_eq!(s, before);
    assert_eq!(s.set_dirty_ratio(40), Ok(true));
    assert_eq!(s.set_dirty_background_ratio(5), Ok(()));
    assert_eq!(s, Sysctl { dirty_ratio: 40, dirty_bytes: 0, dirty_background_ratio: 5, dirty_background_bytes: 0 });
}

#[test]
fn limits_in_bytes_become_ratios_of_the_present_threshold() {
    let mut bdi = BdiThrottle::default();
    let mut sum = 0;
    // 16 MiB of 131072 pages.
    let ratio = bdi_ratio_from_bytes(16 << 20, 1 << 20, 1 << 17).expect("fits");
    assert_eq!(ratio, 31_250);
    bdi_set_max_ratio_no_scale(&mut bdi, ratio).expect("fits");
    assert_eq!((bdi.max_prop_frac, bdi_get_bytes(bdi.max_ratio, 1 << 17), bdi_get_bytes(bdi.max_ratio, 1 << 16)), (32, 16 << 20, 8 << 20));
    assert!(bdi_ratio_from_bytes(u64::MAX, 1 << 20, 1 << 17).is_err() && bdi_ratio_from_bytes(4096, 1, 0).is_err());
    bdi_set_max_ratio(&mut bdi, 50).expect("percent");
    bdi_set_min_ratio(&mut bdi, &mut sum, 10).expect("percent");
    assert_eq!((bdi.min_ratio, bdi.max_ratio, sum), (100_000, 500_000, 100_000));
    assert!(bdi_set_max_ratio(&mut bdi, 9).is_err() && bdi_set_strict_limit(&mut bdi, 2).is_err());
    assert_eq!((bdi_set_strict_limit(&mut bdi, 1), bdi.strictlimit), (Ok(()), true));
}

#[test]
fn the_slow_limit_starts_again_where_memory_or_settings_change() {
    let mut dom = WbDomain { dirty_limit: 77, ..WbDomain::new(0, 1) };
    assert_eq!(writeback_set_ratelimit(&mut dom, 1 << 20, 4), 8192);
    assert_eq!(dom.dirty_limit, 1 << 20);
    assert_eq!(writeback_set_ratelimit(&mut dom, 1000, 64), 16);
    dom.size_changed(NOW);
    assert_eq!((dom.dirty_limit, dom.dirty_limit_tstamp), (0, NOW));
    let dtc = Dtc { thresh: 5, ..Dtc::default() };
    domain_update_dirty_limit(&mut dom, &dtc, NOW + 49, 250);
    assert_eq!(dom.dirty_limit, 0);
    domain_update_dirty_limit(&mut dom, &dtc, NOW + 50, 250);
    assert_eq!((dom.dirty_limit, dom.dirty_limit_tstamp), (5, NOW + 50));
}

#[test]
fn pages_of_ended_tasks_are_charged_to_the_next_on_the_cpu() {
    let mut cpu = CpuRatelimit::default();
    leak_on_exit(&TaskThrottle { nr_dirtied: 31, ..TaskThrottle::default() }, &mut cpu);
    let mut task = TaskThrottle { nr_dirtied: 1, ..TaskThrottle::default() };
    assert_eq!(ratelimit(&mut task, false, 1024, &mut cpu), Some(32));
    assert_eq!((task.nr_dirtied, cpu.dirty_throttle_leaks), (32, 0));
}

#[test]
fn a_task_goes_to_the_throttler_when_its_pages_are_due_and_not_before() {
    let world = World { dirtyable_pages: 1 << 20, ..World::idle() };
    let mut task = TaskThrottle { nr_dirtied: 31, ..TaskThrottle::default() };
    assert_eq!(at_once(balance_dirty_pages_ratelimited(&world, &mut task, 0)), 0);
    assert_eq!((task.nr_dirtied, task.nr_dirtied_pause), (31, 32));
    task.nr_dirtied = 32;
    assert_eq!(at_once(balance_dirty_pages_ratelimited(&world, &mut task, 0)), 0);
    assert_eq!((task.nr_dirtied, task.nr_dirtied_pause), (0, 256), "freerun: the root of 209664 pages");
}

#[test]
fn a_ratio_of_its_own_moves_the_limit_of_a_memcg_alone() {
    let limit = |dirty_ratio| {
        let stats = MemcgWbStats { dirty: 90_000, writeback: 0, filepages: 400_000, headroom: 0 };
        let policy = MemcgPolicy { dirty_min: 0, dirty_ratio };
        let world = World { dirtyable_pages: 1 << 22, has_memcg: true, memcg: Cell::new(stats), policy, fractions: [(1, 2); 2], ..World::idle() };
        at_once(balance_dirty_pages(&world, &mut TaskThrottle::default(), 32, BDP_ASYNC));
        lines(&world).first().map(|l| l.limit)
    };
    assert_eq!((limit(None), limit(Some(5)), limit(Some(40))), (Some(79_980), Some(19_921), None));
}

/// A world with memory and dirty pages of some size.
#[derive(Clone, Debug)]
struct Scene {
    hz: u64,
    avail: u64,
    dirty: u64,
    writeback: u64,
    memcg: Option<MemcgWbStats>,
    wb_dirty: u64,
    bandwidth: u64,
    rate: u64,
    drain: u64,
    strict: bool,
    local: bool,
    dirty_min: u64,
    paused: Option<u64>,
    pages: u64,
}

fn scene() -> impl Strategy<Value = Scene> {
    let pages = |of: u64| (0..=of).prop_map(|n| n);
    let counts = (1u64 << 10..1 << 20)
        .prop_flat_map(move |avail| (Just(avail), pages(avail / 3), pages(avail / 8), pages(avail / 4), prop::option::of((pages(avail / 4), pages(avail)))));
    let rates = (hz(), 1u64..1 << 17, 1u64..1 << 17, sized(17), prop::option::of(0u64..2000), 1u64..2000);
    (counts, rates, any::<[bool; 3]>(), sized(18)).prop_map(|(counts, rates, flags, dirty_min)| {
        let (avail, dirty, writeback, wb_dirty, memcg) = counts;
        let (hz, bandwidth, rate, drain, paused, pages) = rates;
        let memcg = memcg.map(|(dirty, filepages)| MemcgWbStats { dirty, writeback: dirty / 8, filepages, headroom: filepages / 2 });
        let [strict, local, reserve] = flags;
        let dirty_min = if reserve { dirty_min } else { 0 };
        Scene { hz, avail, dirty, writeback, memcg, wb_dirty, bandwidth, rate, drain, strict, local, dirty_min, paused, pages }
    })
}

const NOW: u64 = 1 << 32;

impl Scene {
    fn world(&self) -> World {
        World {
            hz: self.hz,
            dirtyable_pages: self.avail,
            nr_writeback: self.writeback,
            has_memcg: self.memcg.is_some(),
            memcg: Cell::new(self.memcg.unwrap_or_default()),
            policy: MemcgPolicy { dirty_min: self.dirty_min, dirty_ratio: None },
            local_throttle: self.local,
            fractions: [(1, 2), (2, 3)],
            drain_pps: self.drain,
            fatal_after_sleeps: 20,
            jiffies: Cell::new(NOW),
            nr_file_dirty: Cell::new(self.dirty),
            wb_reclaimable: Cell::new(self.wb_dirty),
            bdi: RefCell::new(BdiThrottle { strictlimit: self.strict, ..BdiThrottle::default() }),
            bandwidth: RefCell::new(WbBandwidth { avg_write_bandwidth: self.bandwidth, dirty_ratelimit: self.rate, ..WbBandwidth::new(NOW) }),
            ..World::idle()
        }
    }

    fn task(&self) -> TaskThrottle {
        TaskThrottle { nr_dirtied: self.pages as i64, nr_dirtied_pause: 32, dirty_paused_when: self.paused.map_or(0, |ago| NOW - ago) }
    }

    /// Are the dirty pages of a domain within freerun at the default ratios?
    fn is_free(dirty: u64, avail: u64) -> bool {
        let thresh = avail * 819 / 4096;
        let bg = (avail * 409 / 4096).min(if avail * 409 / 4096 >= thresh { thresh / 2 } else { u64::MAX });
        dirty <= (thresh + bg) / 2
    }

    fn globally_free(&self) -> bool {
        Scene::is_free(self.dirty + self.writeback, self.avail)
    }

    fn memcg_free(&self) -> bool {
        self.memcg.is_none_or(|m| {
            let dirty = m.dirty + m.writeback;
            let clean = (self.avail.saturating_sub(self.dirty + self.writeback)).saturating_sub(m.filepages.saturating_sub(dirty));
            Scene::is_free(dirty, m.filepages + m.headroom.min(clean))
        })
    }

    fn in_reserve(&self) -> bool {
        self.memcg.is_some_and(|m| m.dirty + m.writeback < self.dirty_min)
    }
}

fn lines(world: &World) -> Vec<BalanceDirtyPages> {
    let traces = world.traces.borrow();
    traces.iter().filter_map(|t| if let Trace::BalanceDirtyPages(l) = t { Some(*l) } else { None }).collect()
}

proptest! {
    #[test]
    fn th_fr_without_strictlimit_all_domains_free_or_in_reserve_means_no_trace_of_throttling_and_else_there_is_one(s in scene()) {
        let s = Scene { strict: false, local: false, ..s };
        let (world, mut task) = (s.world(), s.task());
        prop_assert_eq!(at_once(balance_dirty_pages(&world, &mut task, s.pages, 0)), 0);
        let (lines, flushes, sleeps) = (lines(&world).len(), world.foreign_flushes.get(), world.sleeps.borrow().len());
        if s.globally_free() && s.memcg_free() || s.in_reserve() {
            prop_assert_eq!((lines, flushes, sleeps), (0, 0, 0));
            prop_assert_eq!((task.nr_dirtied, task.dirty_paused_when), (0, NOW));
            prop_assert!((1..=1 << 15).contains(&task.nr_dirtied_pause));
        } else {
            prop_assert!(lines > 0);
            prop_assert!(flushes > 0);
            prop_assert!(world.in_progress.get());
        }
    }

    #[test]
    fn th_fr_3_and_th_str_1_below_a_reserve_or_a_strict_ceiling_nobody_sleeps(s in scene()) {
        let (world, mut task) = (s.world(), s.task());
        at_once(balance_dirty_pages(&world, &mut task, s.pages, 0));
        if s.in_reserve() || s.strict && s.wb_dirty == 0 {
            prop_assert_eq!(world.sleeps.borrow().len(), 0);
        }
    }

    #[test]
    fn th_loop_1_only_a_rate_of_zero_sleeps_twice_and_sleeps_are_within_bounds(s in scene()) {
        let (world, mut task) = (s.world(), s.task());
        at_once(balance_dirty_pages(&world, &mut task, s.pages, 0));
        let (lines, sleeps) = (lines(&world), world.sleeps.borrow());
        for pair in lines.windows(2) {
            prop_assert_eq!(pair[0].task_ratelimit, 0);
        }
        for sleep in sleeps.iter() {
            prop_assert!(1 <= *sleep);
            prop_assert!(*sleep as u64 <= max_pause(s.hz));
        }
        // Every line is a sleep, but for the last if it found too little to sleep for.
        prop_assert!(lines.len() == sleeps.len() || lines.len() == sleeps.len() + 1);
    }

    #[test]
    fn th_loop_3_who_may_not_sleep_does_not(s in scene()) {
        let (world, mut task) = (s.world(), s.task());
        let before = task;
        match at_once(balance_dirty_pages(&world, &mut task, s.pages, BDP_ASYNC)) {
            0 => {}
            ret => {
                prop_assert_eq!(ret, -EAGAIN);
                prop_assert_eq!(task, before);
            }
        }
        prop_assert!(world.sleeps.borrow().is_empty());
    }
}
