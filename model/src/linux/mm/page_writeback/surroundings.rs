//! What throttling asks of the world around it.
//!
//! Two traits, for a wb as its flusher sees it and for a task that is throttled against it, so that the same arithmetic
//! runs in a simulation, on recorded numbers and in tests. Methods named like a kernel function give what that yields.
//! No borrow of the world is held across an `.await`: what may be changed is lent to a closure.
//!
//! Mirrors:    nothing; the seam at which mm/page-writeback.c reads counters, time and other subsystems.

use super::bandwidth::WbBandwidth;
use super::limits::{BdiThrottle, Domain, Sysctl, WbDomain};
use super::ratelimited::CpuRatelimit;
use crate::linux::include::trace_events_writeback::Trace;
use std::future::Future;

/// `enum wb_stat_item`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WbStatItem {
    /// Dirty pages.
    Reclaimable,
    /// Pages under writeback.
    Writeback,
    /// Pages dirtied, ever.
    Dirtied,
    /// Pages written, ever.
    Written,
}

/// What `mem_cgroup_wb_stats` reads, in pages. `dirty` is without the pages under writeback.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MemcgWbStats {
    /// `NR_FILE_DIRTY` of the memcg, as of the last flush of its statistics; negative as 0.
    pub dirty: u64,
    /// `NR_WRITEBACK`, likewise.
    pub writeback: u64,
    /// Inactive and active file pages, likewise.
    pub filepages: u64,
    /// Least of what the memcg and its ancestors, the root excepted, may still allocate; exact.
    pub headroom: u64,
}

/// Departures from mainline for one memcg. The default has none.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MemcgPolicy {
    /// While fewer pages of the memcg are dirty than this, its tasks are not throttled in either domain. 0: no reserve.
    /// Whoever sets it keeps the sum over memcgs below the global freerun ceiling.
    pub dirty_min: u64,
    /// Percent of the memcg's available memory in place of `vm.dirty_ratio` and `vm.dirty_bytes`.
    pub dirty_ratio: Option<u32>,
}

/// A wb, its bdi and its domains.
pub trait WbSurroundings {
    /// The time now. The clock starts so late that 0 is older than any interval in use.
    fn jiffies(&self) -> u64;
    /// Ticks a second.
    fn hz(&self) -> u64;
    /// `nr_cpu_ids`, at least 1; 1 is not the kernel built without SMP, whose counters are exact.
    fn nr_cpu_ids(&self) -> u32;
    /// Settings.
    fn sysctl(&self) -> Sysctl;
    /// Is the running task a real-time or deadline task?
    fn rt_or_dl_task(&self) -> bool {
        false
    }

    /// `global_dirtyable_memory`, in pages, at least 1.
    fn global_dirtyable_memory(&self) -> u64;
    /// `global_node_page_state(NR_FILE_DIRTY)`
    fn nr_file_dirty(&self) -> u64;
    /// `global_node_page_state(NR_WRITEBACK)`
    fn nr_writeback(&self) -> u64;

    /// `mem_cgroup_wb_domain`: is the wb's memcg a domain, that is, not the root?
    fn has_memcg_domain(&self) -> bool;
    /// `mem_cgroup_wb_stats`: first flushes the memcg's statistics if that is due, which takes time, then reads in the order of
    /// the fields. Asked only if there is a memcg domain.
    fn mem_cgroup_wb_stats(&self) -> impl Future<Output = MemcgWbStats>;
    /// Policy of the wb's memcg.
    fn memcg_policy(&self) -> MemcgPolicy {
        MemcgPolicy::default()
    }
    /// Lends a domain.
    fn with_domain<R>(&self, of: Domain, f: impl FnOnce(&mut WbDomain) -> R) -> R;
    /// `fprop_fraction_percpu` of the wb in a domain, on this CPU: numerator and denominator, which is not 0.
    fn fprop_fraction(&self, of: Domain) -> (u64, u64);

    /// Lends the bdi's settings.
    fn with_bdi<R>(&self, f: impl FnOnce(&mut BdiThrottle) -> R) -> R;
    /// Sum of the minimum ratios of all bdis, in ppm.
    fn bdi_min_ratio(&self) -> u32;

    /// Lends the wb's estimates.
    fn with_bandwidth<R>(&self, f: impl FnOnce(&mut WbBandwidth) -> R) -> R;
    /// `percpu_counter_read` of one of the wb's counters: cheap, off by up to [`wb_stat_error`], perhaps negative.
    fn percpu_counter_read(&self, item: WbStatItem) -> i64;
    /// `percpu_counter_sum` of one of the wb's counters: exact.
    fn percpu_counter_sum(&self, item: WbStatItem) -> i64;
    /// Mappings with a page under writeback.
    fn writeback_inodes(&self) -> u64;
    /// Has the wb dirty inodes?
    fn wb_has_dirty_io(&self) -> bool;

    /// Takes a trace line of the running task.
    fn trace(&self, line: Trace);
}

/// A task that is throttled against a wb.
pub trait TaskSurroundings: WbSurroundings {
    /// `PF_LOCAL_THROTTLE`: the task writes back what others dirty, and is held to the wb's part alone.
    fn local_throttle(&self) -> bool {
        false
    }
    /// Is the wb's flusher at work?
    fn writeback_in_progress(&self) -> bool;
    /// `wb_start_background_writeback`: wakes the flusher.
    fn wb_start_background_writeback(&self);
    /// `mem_cgroup_flush_foreign` for the wb's memcg.
    fn mem_cgroup_flush_foreign(&self) -> impl Future<Output = ()>;
    /// `io_schedule_timeout`, killable: sleeps so many jiffies.
    fn io_schedule_timeout(&self, jiffies: i64) -> impl Future<Output = ()>;
    /// Is the task being killed?
    fn fatal_signal_pending(&self) -> bool;
    /// `ratelimit_pages`: a CPU looks at least once per so many pages.
    fn ratelimit_pages(&self) -> i64;
    /// Lends the counts of the CPU that the task runs on.
    fn with_cpu<R>(&self, f: impl FnOnce(&mut CpuRatelimit) -> R) -> R;
}

/// `wb_stat_error`: how far a cheap read of a wb's counter may be off, in pages.
pub fn wb_stat_error(nr_cpu_ids: u32) -> u64 {
    u64::from(nr_cpu_ids.wrapping_mul(crate::linux::lib::flex_proportions::prop_batch(nr_cpu_ids) as u32))
}
