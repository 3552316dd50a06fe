//! The tracepoints of dirty throttling, as values with the kernel's fields and units.
//!
//! Mirrors:    include/trace/events/writeback.h; fidelity: mirror.
//! Simplified: who watches adds the name of the bdi and the wb's cgroup, and to `global_dirty_state` the global counters.

use crate::linux::fs::fs_writeback::foreign::PAGE_SHIFT;

/// A line of one of the tracepoints of throttling.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trace {
    /// `global_dirty_state`: limits of the global domain were computed. Pages.
    GlobalDirtyState {
        /// Background threshold.
        bg_thresh: u64,
        /// Threshold.
        thresh: u64,
    },
    /// `bdi_dirty_ratelimit`: the base rate was stepped.
    BdiDirtyRatelimit(BdiDirtyRatelimit),
    /// `balance_dirty_pages`: a throttled pass decided on a pause.
    BalanceDirtyPages(BalanceDirtyPages),
}

/// Fields of `bdi_dirty_ratelimit`: KiB/s.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BdiDirtyRatelimit {
    /// `write_bandwidth` before this interval's bandwidth update.
    pub write_bw: u64,
    /// `avg_write_bandwidth` before this interval's bandwidth update.
    pub avg_write_bw: u64,
    /// Rate at which pages of the wb became dirty.
    pub dirty_rate: u64,
    /// Base rate after the step.
    pub dirty_ratelimit: u64,
    /// Base rate before the step times the position ratio, plus one page.
    pub task_ratelimit: u64,
    /// New estimate of the balanced rate.
    pub balanced_dirty_ratelimit: u64,
}

/// Fields of `balance_dirty_pages`: pages, KiB/s, milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BalanceDirtyPages {
    /// Hard limit of the domain that decides.
    pub limit: u64,
    /// Where the domain is held.
    pub setpoint: u64,
    /// Dirty pages of the domain as read, those under writeback included.
    pub dirty: u64,
    /// The wb's part of the setpoint.
    pub wb_setpoint: u64,
    /// Dirty pages of the wb, those under writeback included.
    pub wb_dirty: u64,
    /// Base rate, KiB/s.
    pub dirty_ratelimit: u64,
    /// Rate of this task, KiB/s.
    pub task_ratelimit: u64,
    /// Since when the task is in the throttler, ms.
    pub paused: u64,
    /// The pause, ms; negative is debt, without a sleep.
    pub pause: i64,
    /// Time that the pages are worth, ms.
    pub period: u64,
    /// Time since the last pause ended, ms; negative if that lies ahead.
    pub think: i64,
    /// Pages that the task is charged for.
    pub dirtied: u32,
    /// Pages after which it was to come here, as it was before this pass.
    pub dirtied_pause: u32,
}

/// `KBps`: KiB/s of a rate in pages a second.
pub fn kbps(pps: u64) -> u64 {
    pps << (PAGE_SHIFT - 10)
}
