//! How long a pause is, and after how many pages a task asks again.
//!
//! Mirrors:    mm/page-writeback.c, dirty_poll_interval(), wb_max_pause(), wb_min_pause(); fidelity: mirror.
//! Locks:      none.
//! Rules:      TH-PAUSE-1.

use crate::linux::include::math64::{ilog2, roundup_pow_of_two};

/// `DIRTY_POLL_THRESH`, in pages: a task is not made to ask more often than this, if a longer pause can avoid it.
pub const DIRTY_POLL_THRESH: i32 = 32;

/// `MAX_PAUSE`, in jiffies (200 ms).
pub fn max_pause(hz: u64) -> u64 {
    (hz / 5).max(1)
}

/// `dirty_poll_interval`: pages that may be dirtied before the next look; about the root of what is left.
pub fn dirty_poll_interval(dirty: u64, thresh: u64) -> u64 {
    if thresh > dirty { 1 << (ilog2(thresh - dirty) >> 1) } else { 1 }
}

/// `wb_max_pause`, in jiffies, 1 to [`max_pause`]: an eighth of the time that the wb's dirty pages keep the device busy.
pub fn wb_max_pause(avg_write_bandwidth: u64, wb_dirty: u64, hz: u64) -> i64 {
    let per_pause = avg_write_bandwidth / roundup_pow_of_two(1 + hz / 8);
    // The sums cannot wrap to 0: the quotient is at most a sixteenth of 2^64.
    let t = (wb_dirty / (1 + per_pause)).wrapping_add(1);
    t.min(max_pause(hz)) as i64
}

/// `wb_min_pause`: a pause shorter than this, in jiffies, is not slept but remembered; and the next `nr_dirtied_pause`.
///
/// `wb_dirty_ratelimit` is the wb's base rate now, `dirty_ratelimit` the rate as the caller read it before.
pub fn wb_min_pause(avg_write_bandwidth: u64, wb_dirty_ratelimit: u64, max_pause: i64, task_ratelimit: u64, dirty_ratelimit: u64, hz: u64) -> (i64, i32) {
    let hi = ilog2(avg_write_bandwidth);
    let lo = ilog2(wb_dirty_ratelimit);
    let second = roundup_pow_of_two(hz);
    // Pages at a rate for some jiffies: an unsigned product, kept in an int.
    let pages_in = |rate: u64, t: i64| (rate.wrapping_mul(t as u64) / second) as i32;

    // 10 ms for one writer, as much again for each doubling of their number.
    let mut t = (hz / 100).max(1) as i64;
    if hi > lo {
        t += (hi - lo) * (10 * hz as i64) / 1024;
    }
    t = t.min(1 + max_pause / 2);
    let mut pages = pages_in(dirty_ratelimit, t);
    if pages < DIRTY_POLL_THRESH {
        t = max_pause;
        pages = pages_in(dirty_ratelimit, t);
        if pages > DIRTY_POLL_THRESH {
            pages = DIRTY_POLL_THRESH;
            // A rate of 0 gives no pages.
            t = (hz.wrapping_mul(DIRTY_POLL_THRESH as u64) / dirty_ratelimit) as i64;
        }
    }
    // A product of ints. A rate of 2^64 - 1 would trap.
    let pause = i64::from((hz as i32).wrapping_mul(pages)) as u64 / task_ratelimit.wrapping_add(1);
    if pause as i64 > max_pause {
        t = max_pause;
        pages = pages_in(task_ratelimit, t);
    }
    (if pages >= DIRTY_POLL_THRESH { 1 + t / 2 } else { t }, pages)
}
