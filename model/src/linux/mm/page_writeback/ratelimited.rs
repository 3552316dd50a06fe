//! When a task that dirties pages goes to the throttler.
//!
//! Mirrors:    mm/page-writeback.c, balance_dirty_pages_ratelimited_flags(); do_exit() of kernel/exit.c, the pages that an ending
//!             task leaves behind; fidelity: mirror. Finding the wb is left to the caller.
//! Locks:      none; in the kernel preemption is off while the CPU's counts are used.

use super::surroundings::TaskSurroundings;
use super::throttle::{TaskThrottle, balance_dirty_pages};

/// What throttling keeps for each CPU.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CpuRatelimit {
    /// Pages dirtied on the CPU since a task last went to the throttler from it.
    pub bdp_ratelimits: i32,
    /// Pages that ended tasks dirtied and were not throttled for.
    pub dirty_throttle_leaks: i32,
}

/// Pages after which a task looks again while its wb is over: 32 KiB.
const DIRTY_EXCEEDED_RATELIMIT: i32 = 8;

/// Takes over pages of ended tasks and says for how many pages the task goes to the throttler, if it does.
///
/// Also if it dirtied none: an `nr_dirtied_pause` of 0 sends it there each time.
pub fn ratelimit(task: &mut TaskThrottle, dirty_exceeded: bool, ratelimit_pages: i64, cpu: &mut CpuRatelimit) -> Option<u64> {
    let nr_dirtied = task.nr_dirtied as i32;
    let mut ratelimit = task.nr_dirtied_pause as i32;
    if dirty_exceeded {
        ratelimit = ratelimit.min(DIRTY_EXCEEDED_RATELIMIT);
    }
    if nr_dirtied >= ratelimit {
        cpu.bdp_ratelimits = 0;
    } else if i64::from(cpu.bdp_ratelimits) >= ratelimit_pages {
        cpu.bdp_ratelimits = 0;
        ratelimit = 0;
    }
    let mut taken = 0;
    if cpu.dirty_throttle_leaks > 0 && nr_dirtied < ratelimit {
        // The difference is an int and may wrap.
        taken = cpu.dirty_throttle_leaks.min(ratelimit.wrapping_sub(nr_dirtied));
        cpu.dirty_throttle_leaks = cpu.dirty_throttle_leaks.wrapping_sub(taken);
    }
    let nr_dirtied = nr_dirtied.wrapping_add(taken);
    task.nr_dirtied = i64::from(nr_dirtied);
    (nr_dirtied >= ratelimit).then_some(task.nr_dirtied as u64)
}

/// `balance_dirty_pages_ratelimited_flags` of a task against its own cgroup's wb. Returns as [`balance_dirty_pages`].
///
/// The caller skips it for a bdi without writeback, and holds the wb.
pub async fn balance_dirty_pages_ratelimited<W: TaskSurroundings>(w: &W, task: &mut TaskThrottle, flags: u32) -> i64 {
    let dirty_exceeded = w.with_bandwidth(|wb| wb.dirty_exceeded);
    let ratelimit_pages = w.ratelimit_pages();
    match w.with_cpu(|cpu| ratelimit(task, dirty_exceeded, ratelimit_pages, cpu)) {
        Some(pages_dirtied) => balance_dirty_pages(w, task, pages_dirtied, flags).await,
        None => 0,
    }
}

/// What `do_exit` does with the pages of a task that it was not throttled for.
pub fn leak_on_exit(task: &TaskThrottle, cpu: &mut CpuRatelimit) {
    cpu.dirty_throttle_leaks = cpu.dirty_throttle_leaks.wrapping_add(task.nr_dirtied as i32);
}
