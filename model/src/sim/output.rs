//! What a simulation yields: metrics with units in their names, and time series.

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

/// A named metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metric {
    /// Name, as in JSON and in expectations.
    pub name: &'static str,
    /// Unit.
    pub unit: Unit,
    /// What it means, in a phrase.
    pub about: &'static str,
}

macro_rules! metrics {
    ($($name:literal $unit:ident $about:literal)*) => {
        /// Every metric. A metric marked "of a writer" exists for each as `writer.metric`, and for all of them together by itself.
        pub const METRICS: &[Metric] = &[$(Metric { name: $name, unit: Unit::$unit, about: $about }),*];
    };
}

metrics! {
    "peak_dirty_pages" Pages "most dirty and writeback pages of the watched memcg, exact"
    "limit_pages" Pages "its hard limit at that time"
    "peak_over_limit" Ratio "the two divided"
    "peak_global_dirty_pages" Pages "most dirty and writeback pages of the machine"
    "max_stall_ms" Milliseconds "longest throttle time of one write; of a writer"
    "max_write_ms" Milliseconds "longest write; of a writer"
    "p99_write_ms" Milliseconds "99th percentile of write times; of a writer"
    "worst_lag_ms" Milliseconds "furthest behind its schedule; of a writer"
    "throttled_ms" Milliseconds "time asleep in the throttling loop; of a writer"
    "throughput_bps" BytesPerSecond "bytes written divided by the time it ran; of a writer"
    "duration_ms" Milliseconds "time until it was done; of a writer"
    "device_written_pages" Pages "pages that reached the disks"
    "stat_flushes" Count "statistics flushes by the throttling loop"
    "stat_flushes_per_s" Ratio "the same for each second"
    "stat_flush_lock_ms" Milliseconds "time those held the lock"
    "foreign_flushes" Count "foreign flushes asked for"
    "foreign_failed" Count "of them not found"
    "foreign_written_pages" Pages "pages written by foreign flushes"
    "foreign_amplification" Ratio "pages written by foreign flushes for each foreign page among them"
    "pause_variation" Ratio "standard deviation of pauses divided by their mean; of a writer"
    "io_error_pages" Pages "pages whose writeback failed"
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

/// What one writer saw.
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
    /// Writers, in the scenario's order.
    pub writers: Vec<WriterOutput>,
    /// One sample every 20 ms.
    pub samples: Vec<Sample>,
    /// Flusher passes: (start, end, pages written, reason).
    pub passes: Vec<(u64, u64, u64, &'static str)>,
    /// Statistics flushes of the root: times in microseconds.
    pub root_flushes: Vec<u64>,
    /// Broken invariants: (id, at microseconds, what).
    pub violations: Vec<(&'static str, u64, String)>,
    /// Simulated pages dirtied, for speed figures.
    pub pages: u64,
}
