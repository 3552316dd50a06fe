//! Which record of foreign dirtying is used, and which is due: the choices as plain arithmetic on the records' values.
//!
//! Mirrors:    mm/memcontrol.c, the comparisons of mem_cgroup_track_foreign_dirty_slowpath() and mem_cgroup_flush_foreign();
//!             fidelity: mirror.
//! Locks:      none. The kernel reads and writes records without a lock; a caller that can be interrupted between two of them
//!             visits them one by one.
//! Ordering:   a record of time 0 is older than any interval, because the clock starts later than that.

use crate::linux::include::jiffies::{msecs_to_jiffies, time_after, time_before};

/// What a record of foreign dirtying says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrnRecord {
    /// bdi of the foreign wb.
    pub bdi_id: u64,
    /// css id of the foreign wb's memcg.
    pub memcg_id: u64,
    /// When it was last dirtied, in jiffies; 0: never, or flushed since.
    pub at: u64,
    /// No flush of it is in flight.
    pub idle: bool,
}

/// The search for a record to replace, when none is the wb's: the oldest that is idle and older than now; the first of equals.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrnScan {
    oldest_at: u64,
    /// Index of the record found so far.
    pub oldest: Option<usize>,
}

impl FrnScan {
    /// Begins at time `now`.
    pub fn new(now: u64) -> FrnScan {
        FrnScan { oldest_at: now, oldest: None }
    }

    /// Looks at the record at index `i`, which is not the wb's. Records come in order.
    pub fn consider(&mut self, i: usize, at: u64, idle: bool) {
        if time_before(at, self.oldest_at) && idle {
            self.oldest = Some(i);
            self.oldest_at = at;
        }
    }
}

/// Is a record of time `at` old enough to be stamped anew? Not each time, so that it stays in the caches of its readers.
pub fn frn_needs_refresh(at: u64, now: u64, update_intv: u64) -> bool {
    time_before(at, now.wrapping_sub(update_intv))
}

/// Is a record of time `at` fresh, so that a flush of it is due unless one is in flight?
pub fn frn_is_fresh(at: u64, now: u64, intv: u64) -> bool {
    time_after(at, now.wrapping_sub(intv))
}

/// How long a record is fresh, in jiffies: dirty_expire_interval.
pub fn frn_expire_interval(hz: u64, dirty_expire_centisecs: u32) -> u64 {
    msecs_to_jiffies(dirty_expire_centisecs.wrapping_mul(10), hz)
}

/// After which time a record is stamped anew, in jiffies: a second, or an eighth of [`frn_expire_interval`] if that is less.
pub fn frn_update_interval(hz: u64, dirty_expire_centisecs: u32) -> u64 {
    hz.min(frn_expire_interval(hz, dirty_expire_centisecs) / 8)
}

/// `mem_cgroup_track_foreign_dirty_slowpath` in one step. The event is lost if no record is idle and older than `now`.
pub fn track_foreign_dirty(records: &mut [FrnRecord], bdi_id: u64, memcg_id: u64, now: u64, update_intv: u64) {
    let mut scan = FrnScan::new(now);
    for (i, frn) in records.iter_mut().enumerate() {
        if frn.bdi_id == bdi_id && frn.memcg_id == memcg_id {
            if frn_needs_refresh(frn.at, now, update_intv) {
                frn.at = now;
            }
            return;
        }
        scan.consider(i, frn.at, frn.idle);
    }
    if let Some(frn) = scan.oldest.and_then(|i| records.get_mut(i)) {
        *frn = FrnRecord { bdi_id, memcg_id, at: now, ..*frn };
    }
}

/// `mem_cgroup_flush_foreign` of one record in one step: consumes it and says whether a flush of it starts.
///
/// It is consumed before the wb is looked up; if that fails, nothing is flushed and nothing comes back.
pub fn take_fresh(frn: &mut FrnRecord, now: u64, intv: u64) -> bool {
    let due = frn_is_fresh(frn.at, now, intv) && frn.idle;
    if due {
        frn.at = 0;
    }
    due
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: FrnRecord = FrnRecord { bdi_id: 0, memcg_id: 0, at: 0, idle: true };
    const NOW: u64 = 1 << 32;

    fn used(memcg_id: u64, at: u64) -> FrnRecord {
        FrnRecord { bdi_id: 1, memcg_id, at, idle: true }
    }

    #[test]
    fn the_oldest_idle_record_is_replaced_and_a_busy_one_never() {
        let mut r = [used(1, NOW - 9), FrnRecord { idle: false, ..used(2, NOW - 99) }, used(3, NOW - 10), used(4, NOW)];
        track_foreign_dirty(&mut r, 1, 7, NOW, 250);
        assert_eq!(r[2], used(7, NOW));
        track_foreign_dirty(&mut r, 1, 8, NOW, 250);
        assert_eq!(r[0], used(8, NOW));
        let full = r;
        track_foreign_dirty(&mut r, 1, 9, NOW, 250);
        assert_eq!(r, full, "the event is lost");
    }

    #[test]
    fn a_match_is_stamped_anew_after_the_interval_even_while_it_is_flushed() {
        let mut r = [FREE, FrnRecord { idle: false, ..used(2, NOW - 250) }];
        track_foreign_dirty(&mut r, 1, 2, NOW, 250);
        assert_eq!(r[1].at, NOW - 250);
        track_foreign_dirty(&mut r, 1, 2, NOW + 1, 250);
        assert_eq!(r[1].at, NOW + 1);
        assert_eq!(r[0], FREE);
    }

    #[test]
    fn a_fresh_idle_record_is_taken_once() {
        let mut r = used(2, NOW - 99);
        assert!(take_fresh(&mut r, NOW, 100));
        assert!(!take_fresh(&mut r, NOW, 100));
        assert!(!take_fresh(&mut used(2, NOW - 100), NOW, 100));
        assert!(!take_fresh(&mut FrnRecord { idle: false, ..used(2, NOW) }, NOW, 100));
    }

    #[test]
    fn intervals_are_30_seconds_and_one_by_default() {
        assert_eq!((frn_expire_interval(250, 3000), frn_update_interval(250, 3000)), (7500, 250));
        assert_eq!((frn_expire_interval(1000, 500), frn_update_interval(1000, 500)), (5000, 625));
    }
}
