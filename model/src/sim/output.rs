//! What a simulation yields: metrics with units in their names, and time series.

use crate::scenarios::Scenario;
use std::collections::BTreeMap;

/// What a metric is measured in; for tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Pages of 4096 bytes.
    Pages,
    /// Milliseconds.
    Milliseconds,
    /// Bytes a second.
    BytesPerSecond,
    /// A number of things.
    Count,
    /// A ratio.
    Ratio,
}

/// What has a metric. One of a task (a writer, or a direct writer) exists for each as `task.metric`, and for all of them together by itself;
/// one of a file or a group of files exists as `file.metric` only.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Of {
    /// The machine.
    Machine,
    /// A task.
    Task,
    /// A file.
    File,
}

/// A named metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metric {
    /// Name, as in JSON and in expectations.
    pub name: &'static str,
    /// Unit.
    pub unit: Unit,
    /// What has it.
    pub of: Of,
    /// What it means, in a phrase.
    pub about: &'static str,
}

macro_rules! metrics {
    ($($name:literal $unit:ident $of:ident $about:literal)*) => {
        /// Every metric.
        pub const METRICS: &[Metric] = &[$(Metric { name: $name, unit: Unit::$unit, of: Of::$of, about: $about }),*];
    };
}

/// A metric by name.
pub fn metric(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|m| m.name == name)
}

metrics! {
    "peak_dirty_pages" Pages Machine "most dirty and writeback pages of the watched memcg, exact"
    "limit_pages" Pages Machine "its hard limit at that time"
    "peak_over_limit" Ratio Machine "the two divided"
    "peak_global_dirty_pages" Pages Machine "most dirty and writeback pages of the machine"
    "max_stall_ms" Milliseconds Task "longest throttle time of one write"
    "max_write_ms" Milliseconds Task "longest write"
    "p99_write_ms" Milliseconds Task "99th percentile of write times"
    "worst_lag_ms" Milliseconds Task "furthest behind its schedule"
    "throttled_ms" Milliseconds Task "time asleep in the throttling loop"
    "throughput_bps" BytesPerSecond Task "bytes written divided by the time it ran"
    "duration_ms" Milliseconds Task "time until it was done"
    "device_written_pages" Pages Machine "pages that reached the disks"
    "stat_flushes" Count Machine "statistics flushes by the throttling loop"
    "stat_flushes_per_s" Ratio Machine "the same for each second"
    "stat_flush_lock_ms" Milliseconds Machine "time those held the lock"
    "foreign_flushes" Count Machine "foreign flushes asked for"
    "foreign_failed" Count Machine "of them not found"
    "foreign_written_pages" Pages Machine "pages written by foreign flushes"
    "foreign_amplification" Ratio Machine "pages written by foreign flushes for each foreign page among them"
    "pause_variation" Ratio Task "standard deviation of pauses divided by their mean"
    "foreign_failed_share" Ratio Machine "foreign flushes not found, divided by those asked for"
    "written_pages" Pages File "pages of the file that reached the disk"
    "io_error_pages" Pages Machine "pages whose writeback failed"
    "blocked_below_limit" Count Machine "throttle lines with a task rate of 0 below the limit"
    "ownership_switches" Count Machine "inodes that changed owner"
}

/// The state at one moment, for series and plots. Pages unless said otherwise.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Sample {
    /// Microseconds since the start.
    pub at_us: u64,
    /// Dirty pages of the machine.
    pub dirty: u64,
    /// Pages of the machine under writeback.
    pub writeback: u64,
    /// Global hard limit.
    pub limit: u64,
    /// Global freerun ceiling.
    pub freerun: u64,
    /// Dirty and writeback pages of the watched memcg, exact.
    pub memcg_dirty: u64,
    /// The same as the throttling loop reads it.
    pub memcg_dirty_read: u64,
    /// Hard limit of the watched memcg.
    pub memcg_limit: u64,
    /// Freerun ceiling of the watched memcg.
    pub memcg_freerun: u64,
    /// Bytes the disks took since the sample before.
    pub device_bytes: u64,
}

/// What one task saw: a writer, or a direct writer, which is never throttled and has no schedule.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct WriterOutput {
    /// Its metrics by name.
    pub metrics: BTreeMap<&'static str, f64>,
    /// Times of its writes in microseconds, sorted, thinned to at most 4096.
    pub latencies_us: Vec<u64>,
    /// Greatest lag in each second, milliseconds.
    pub lag_ms: Vec<f64>,
    /// Pauses: (start, length) in microseconds.
    pub pauses: Vec<(u64, u64)>,
}

/// What a simulation yields.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Output {
    /// Metrics of the machine by name.
    pub metrics: BTreeMap<&'static str, f64>,
    /// Writers, then direct writers, in the scenario's order.
    pub writers: Vec<WriterOutput>,
    /// One sample every 20 ms.
    pub samples: Vec<Sample>,
    /// Flusher passes: (start, end, pages written, reason).
    pub passes: Vec<(u64, u64, u64, &'static str)>,
    /// Statistics flushes of the root: times in microseconds.
    pub root_flushes: Vec<u64>,
    /// Broken invariants: (id, at microseconds, what).
    pub violations: Vec<(&'static str, u64, String)>,
    /// Pages of each file, or group of files, that were written.
    pub file_written_pages: Vec<u64>,
    /// Simulated pages dirtied, for speed figures.
    pub pages: u64,
}

impl Output {
    /// A metric by name: of the machine, or `name.metric` of a task or a file of the scenario that was run. `None` if it has none.
    pub fn metric(&self, scenario: &Scenario, name: &str) -> Option<f64> {
        let Some((subject, plain)) = name.rsplit_once('.') else {
            return match name {
                "foreign_failed_share" => {
                    let (failed, all) = (self.metrics.get("foreign_failed")?, self.metrics.get("foreign_flushes")?);
                    Some(if *all == 0.0 { 0.0 } else { failed / all })
                }
                _ => self.metrics.get(name).copied(),
            };
        };
        match metric(plain)?.of {
            Of::Machine => None,
            Of::Task => {
                let names = scenario.writers.iter().map(|w| &w.name).chain(scenario.direct.iter().map(|d| &d.name));
                let (_, task) = names.zip(&self.writers).find(|(n, _)| *n == subject)?;
                task.metrics.get(plain).copied()
            }
            Of::File => {
                let (_, pages) = scenario.files.iter().zip(&self.file_written_pages).find(|(f, _)| f.name == subject)?;
                Some(*pages as f64)
            }
        }
    }

    /// Every metric that it has: (name as in expectations, value), in the order of the table, the machine's first.
    pub fn all_metrics(&self, scenario: &Scenario) -> Vec<(String, f64)> {
        let tasks = || scenario.writers.iter().map(|w| &w.name).chain(scenario.direct.iter().map(|d| &d.name));
        let plain = METRICS.iter().map(|m| m.name.to_string());
        let of = |what: Of| METRICS.iter().filter(move |m| m.of == what);
        let of_tasks = tasks().flat_map(|t| of(Of::Task).map(move |m| format!("{t}.{}", m.name)));
        let of_files = scenario.files.iter().flat_map(|f| of(Of::File).map(move |m| format!("{}.{}", f.name, m.name)));
        plain.chain(of_tasks).chain(of_files).filter_map(|n| Some((n.clone(), self.metric(scenario, &n)?))).collect()
    }
}
