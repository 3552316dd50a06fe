//! mm/page-writeback.c: the pages of an inode in `folio`, dirty throttling in the rest.
//!
//! The lifetime model uses `folio` alone. Throttling is plain arithmetic on numbers in [`limits`], [`position`],
//! [`bandwidth`] and [`pause`], and three functions that ask a world for those numbers: [`throttle::balance_dirty_pages`],
//! [`ratelimited::balance_dirty_pages_ratelimited`] and [`background::wb_over_bg_thresh`].

pub mod background;
pub mod bandwidth;
pub mod folio;
pub mod limits;
pub mod pause;
pub mod position;
pub mod ratelimited;
pub mod surroundings;
pub mod throttle;

#[cfg(test)]
mod tests;

pub use folio::*;

/// `PAGE_SIZE`, in bytes.
pub const PAGE_SIZE: u64 = 1 << crate::linux::fs::fs_writeback::foreign::PAGE_SHIFT;
/// `RATELIMIT_CALC_SHIFT`: a position ratio of 1.0 is 1 << 10.
pub const RATELIMIT_CALC_SHIFT: u32 = 10;

/// `BANDWIDTH_INTERVAL`: estimates and the slow limit move once per so many jiffies (200 ms).
pub fn bandwidth_interval(hz: u64) -> u64 {
    (hz / 5).max(1)
}
