//! What is measured while the machine runs, and what becomes of it in the end.

use super::engine::{Ns, SECOND, WaitList};
use super::output::{Output, Sample, WriterOutput};
use super::state::{InodeId, ROOT, WbId, memcg_of};
use super::stats::Item;
use super::world::World;
use crate::linux::include::trace_events_writeback::Trace;
use crate::linux::mm::page_writeback::limits::dirty_freerun_ceiling;
use std::collections::VecDeque;

/// Most latencies that are kept of a writer; beyond, every second one is dropped again and again.
const LATENCIES: usize = 1 << 16;
/// Latencies in the output.
const LATENCIES_OUT: usize = 4096;

/// What one writer goes through.
#[derive(Default, Debug)]
pub struct WriterMeasure {
    begin: Ns,
    end: Option<Ns>,
    bytes: u64,
    latencies: Vec<u64>,
    /// Every how many writes one is kept.
    stride: u64,
    writes: u64,
    max_write: Ns,
    worst_lag: Ns,
    lag: Vec<f64>,
    pauses: Vec<(u64, u64)>,
    throttled: Ns,
    /// Throttle time of the write that is going on.
    this_write: Ns,
    max_stall: Ns,
    /// Trace lines of the throttling loop.
    lines: u64,
}

/// What one direct task goes through.
#[derive(Default, Debug)]
pub struct DirectMeasure {
    /// Requests on their way.
    pub flying: u32,
    /// When they began.
    pub started: VecDeque<Ns>,
    /// Times of requests.
    pub latencies: Vec<Ns>,
    /// Requests that are over.
    pub done: u64,
    /// It waits here for one to end.
    pub wait: WaitList,
    /// When it began.
    pub begin: Ns,
    /// When it was done.
    pub end: Option<Ns>,
    /// Bytes asked for.
    pub bytes: u64,
}

/// Counts and series.
#[derive(Default, Debug)]
pub struct Measure {
    writers: Vec<WriterMeasure>,
    /// Direct tasks.
    pub direct: Vec<DirectMeasure>,
    samples: Vec<Sample>,
    /// Flusher passes.
    pub passes: Vec<(u64, u64, u64, &'static str)>,
    /// Root flushes of the statistics, microseconds.
    pub root_flushes: Vec<u64>,
    /// Pages dirtied.
    pub pages: u64,
    /// Pages of dirty data that were truncated.
    pub truncated: u64,
    /// Pages that reached a disk.
    pub device_pages: u64,
    /// Pages whose writeback failed.
    pub io_error_pages: u64,
    /// Foreign dirtyings recorded.
    pub foreign_tracked: u64,
    /// Foreign flushes asked for.
    pub foreign_flushes: u64,
    /// Of those, not found.
    pub foreign_failed: u64,
    /// Pages that foreign flushes wrote.
    pub foreign_written: u64,
    /// Of those, foreign.
    pub foreign_cleaned: u64,
    /// Ownership switches.
    pub switches: u64,
    /// Broken invariants: id, microseconds, what.
    pub violations: Vec<(&'static str, u64, String)>,
    /// Statistics flushes by throttled tasks and flushers.
    pub stat_flushes: u64,
    /// Time those took.
    pub stat_flush_ns: Ns,
    /// Trace lines of throttled tasks.
    pub bdp_lines: u64,
    /// Of those, with a rate of 0 below the limit of the domain that is printed.
    pub blocked_lines: u64,
    by_inode: Vec<u64>,
    peak: (u64, u64),
    peak_global: u64,
    last_device_pages: u64,
}

impl Measure {
    /// For so many writers, direct tasks and inodes.
    pub fn new(writers: usize, direct: usize, inodes: usize) -> Measure {
        let mut m = Measure { by_inode: vec![0; inodes], ..Measure::default() };
        m.writers.resize_with(writers, || WriterMeasure { stride: 1, ..WriterMeasure::default() });
        m.direct.resize_with(direct, DirectMeasure::default);
        m
    }
    /// Pages of an inode that were written.
    pub fn inode_written(&mut self, inode: InodeId) -> &mut u64 {
        &mut self.by_inode[inode as usize]
    }
    /// A writer starts.
    pub fn begins(&mut self, n: u32, now: Ns) {
        self.writers[n as usize].begin = now;
    }
    /// A writer stops.
    pub fn ends(&mut self, n: u32, now: Ns) {
        self.writers[n as usize].end = Some(now);
    }
    /// Trace lines of a writer so far.
    pub fn lines(&self, n: u32) -> u64 {
        self.writers[n as usize].lines
    }
    /// A writer slept in the throttling loop.
    pub fn paused(&mut self, n: u32, start: Ns, end: Ns) {
        let w = &mut self.writers[n as usize];
        w.throttled += end - start;
        w.this_write += end - start;
        w.pauses.push((start / 1000, (end - start) / 1000));
    }
    /// A writer's write(2) is over.
    pub fn wrote(&mut self, n: u32, start: Ns, end: Ns, bytes: u64, lag: Option<Ns>) {
        let w = &mut self.writers[n as usize];
        w.bytes += bytes;
        w.max_write = w.max_write.max(end - start);
        w.max_stall = w.max_stall.max(std::mem::take(&mut w.this_write));
        if w.writes.is_multiple_of(w.stride) {
            w.latencies.push((end - start) / 1000);
            if w.latencies.len() >= LATENCIES {
                let mut i = 0;
                w.latencies.retain(|_| {
                    i += 1;
                    i % 2 == 1
                });
                w.stride *= 2;
            }
        }
        w.writes += 1;
        if let Some(lag) = lag {
            w.worst_lag = w.worst_lag.max(lag);
            let second = (end / SECOND) as usize;
            if w.lag.len() <= second {
                w.lag.resize(second + 1, 0.0);
            }
            w.lag[second] = w.lag[second].max(lag as f64 / 1e6);
        }
    }
    /// A trace line of the throttling code.
    pub fn trace(&mut self, _now: Ns, writer: Option<u32>, _wb: WbId, line: Trace) {
        if let Some(n) = writer
            && let Trace::BalanceDirtyPages(line) = line
        {
            self.writers[n as usize].lines += 1;
            self.bdp_lines += 1;
            self.blocked_lines += u64::from(line.task_ratelimit == 0 && line.dirty < line.limit);
        }
    }
}

fn ms(ns: Ns) -> f64 {
    ns as f64 / 1e6
}

fn percentile(sorted: &[u64], p: f64) -> u64 {
    match sorted.len() {
        0 => 0,
        n => sorted[((n as f64 * p).ceil() as usize).clamp(1, n) - 1],
    }
}

impl World {
    /// The memcg that samples watch: that of the first writer.
    fn watched(&self) -> u32 {
        self.scenario.writers.first().map_or(ROOT, |w| memcg_of(w.memcg))
    }
    /// Takes a sample.
    pub fn sample(&self) {
        let (st, memcg) = (self.st.borrow(), self.watched());
        let read = st.wb_stats(memcg, self.policy.flush);
        let mut exact = read;
        exact.filepages = st.stats.exact(memcg, Item::File);
        let (g, _) = st.limits_now(memcg, read);
        // The limit as it would be without late statistics: those move it about.
        let (_, m) = st.limits_now(memcg, exact);
        let dirty = st.stats.exact(memcg, Item::Dirty) + st.stats.exact(memcg, Item::Writeback);
        let global = st.global.dirty + st.global.writeback;
        let mut measure = self.measure.borrow_mut();
        let dtc = m.unwrap_or(g);
        let (dirty, dirty_read) = if memcg == ROOT { (global, global) } else { (dirty, read.dirty + read.writeback) };
        let device_pages = measure.device_pages;
        let device_bytes = (device_pages - measure.last_device_pages) * crate::scenarios::PAGE_BYTES;
        measure.samples.push(Sample {
            at_us: self.now() / 1000,
            dirty: st.global.dirty,
            writeback: st.global.writeback,
            limit: g.limit,
            freerun: dirty_freerun_ceiling(g.thresh, g.bg_thresh),
            memcg_dirty: dirty,
            memcg_dirty_read: dirty_read,
            memcg_limit: dtc.limit,
            memcg_freerun: dirty_freerun_ceiling(dtc.thresh, dtc.bg_thresh),
            device_bytes,
        });
        measure.last_device_pages = device_pages;
        if dirty > measure.peak.0 {
            measure.peak = (dirty, dtc.thresh);
        }
        measure.peak_global = measure.peak_global.max(global);
    }

    /// What came of it all.
    pub fn output(&self) -> Output {
        self.check_end();
        let m = &mut *self.measure.borrow_mut();
        let now = self.now();
        let seconds = now as f64 / 1e9;
        let mut out = Output {
            samples: std::mem::take(&mut m.samples),
            passes: std::mem::take(&mut m.passes),
            root_flushes: std::mem::take(&mut m.root_flushes),
            pages: m.pages,
            violations: std::mem::take(&mut m.violations),
            ..Output::default()
        };
        let mut all = WriterMeasure::default();
        for w in &mut m.writers {
            all.latencies.extend(&w.latencies);
            all.max_write = all.max_write.max(w.max_write);
            all.max_stall = all.max_stall.max(w.max_stall);
            all.worst_lag = all.worst_lag.max(w.worst_lag);
            all.throttled += w.throttled;
            all.bytes += w.bytes;
            all.pauses.extend(&w.pauses);
            out.writers.push(writer_output(w, now));
        }
        all.begin = m.writers.iter().map(|w| w.begin).min().unwrap_or(0);
        all.end = m.writers.iter().map(|w| w.end.unwrap_or(now)).max();
        out.metrics = writer_output(&mut all, now).metrics;
        for d in &mut m.direct {
            let mut w = WriterMeasure { begin: d.begin, end: d.end, bytes: d.bytes, ..WriterMeasure::default() };
            w.latencies = d.latencies.iter().map(|ns| ns / 1000).collect();
            w.max_write = d.latencies.iter().copied().max().unwrap_or(0);
            out.writers.push(writer_output(&mut w, now));
        }
        if let Some(bound) = self.stall_bound(m.peak.0, m.peak.1)
            && all.max_stall > bound
        {
            out.violations.push(("TH-LAT-1", now / 1000, format!("a write was throttled for {} ms, at most {} ms", ms(all.max_stall), ms(bound))));
        }
        let ratio = |a: u64, b: u64| if b == 0 { 0.0 } else { a as f64 / b as f64 };
        for (name, value) in [
            ("peak_dirty_pages", m.peak.0 as f64),
            ("limit_pages", m.peak.1 as f64),
            ("peak_over_limit", ratio(m.peak.0, m.peak.1)),
            ("peak_global_dirty_pages", m.peak_global as f64),
            ("device_written_pages", m.device_pages as f64),
            ("stat_flushes", m.stat_flushes as f64),
            ("stat_flushes_per_s", m.stat_flushes as f64 / seconds.max(1e-9)),
            ("stat_flush_lock_ms", ms(m.stat_flush_ns)),
            ("foreign_flushes", m.foreign_flushes as f64),
            ("foreign_failed", m.foreign_failed as f64),
            ("foreign_written_pages", m.foreign_written as f64),
            ("foreign_amplification", ratio(m.foreign_written, m.foreign_cleaned)),
            ("io_error_pages", m.io_error_pages as f64),
            ("blocked_below_limit", m.blocked_lines as f64),
            ("ownership_switches", m.switches as f64),
        ] {
            out.metrics.insert(name, value);
        }
        let mut first = 0;
        for f in &self.scenario.files {
            let count = f.count.max(1) as usize;
            out.file_written_pages.push(m.by_inode[first..first + count].iter().sum());
            first += count;
        }
        out
    }
}

fn writer_output(w: &mut WriterMeasure, now: Ns) -> WriterOutput {
    w.latencies.sort_unstable();
    let end = w.end.unwrap_or(now);
    let duration = end.saturating_sub(w.begin);
    let n = w.pauses.len() as f64;
    let mean = w.pauses.iter().map(|p| p.1 as f64).sum::<f64>() / n.max(1.0);
    let variance = w.pauses.iter().map(|p| (p.1 as f64 - mean).powi(2)).sum::<f64>() / n.max(1.0);
    let metrics = [
        ("max_stall_ms", ms(w.max_stall.max(w.this_write))),
        ("max_write_ms", ms(w.max_write)),
        ("p99_write_ms", percentile(&w.latencies, 0.99) as f64 / 1e3),
        ("worst_lag_ms", ms(w.worst_lag)),
        ("throttled_ms", ms(w.throttled)),
        ("throughput_bps", if duration == 0 { 0.0 } else { w.bytes as f64 / (duration as f64 / 1e9) }),
        ("duration_ms", ms(duration)),
        ("pause_variation", if mean > 0.0 { variance.sqrt() / mean } else { 0.0 }),
    ];
    let step = w.latencies.len().div_ceil(LATENCIES_OUT).max(1);
    WriterOutput {
        metrics: metrics.into_iter().collect(),
        // The longest is always among them.
        latencies_us: w.latencies.iter().rev().copied().step_by(step).collect::<Vec<_>>().into_iter().rev().collect(),
        lag_ms: std::mem::take(&mut w.lag),
        pauses: std::mem::take(&mut w.pauses),
    }
}
