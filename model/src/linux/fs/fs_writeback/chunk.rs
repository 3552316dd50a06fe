//! How much of a work is written at a time.
//!
//! Mirrors:    fs/fs-writeback.c, wb_split_bdi_pages(), writeback_chunk_size(); fidelity: mirror.
//! Locks:      none.

use crate::linux::include::math64::div_round_up_ull;
use crate::linux::include::writeback::SyncMode;

/// `MIN_WRITEBACK_PAGES`: the initial `s_min_writeback_pages` of a superblock, 4 MiB.
pub const MIN_WRITEBACK_PAGES: i64 = 4096 >> (super::foreign::PAGE_SHIFT - 10);
/// `DIRTY_SCOPE`: a chunk is at most this part of the limit.
const DIRTY_SCOPE: u64 = 8;

/// `wb_split_bdi_pages`: a wb's part of `nr_pages`, by bandwidth; all of it for a wb that the total does not count.
///
/// `i64::MAX` is "everything" and stays so. A total whose low 32 bits are 0 would trap.
pub fn wb_split_bdi_pages(avg_write_bandwidth: u64, tot_write_bandwidth: u64, nr_pages: i64) -> i64 {
    if nr_pages == i64::MAX || tot_write_bandwidth == 0 || avg_write_bandwidth >= tot_write_bandwidth {
        return nr_pages;
    }
    div_round_up_ull((nr_pages as u64).wrapping_mul(avg_write_bandwidth), tot_write_bandwidth) as i64
}

/// `writeback_chunk_size`: pages of one inode to write before the next has its turn; `i64::MAX` where all must be written.
///
/// Half a second's worth, at most an eighth of the *global* slow limit and what the work has left, rounded up by at least one
/// page to a multiple of `s_min_writeback_pages`, a power of two.
pub fn writeback_chunk_size(
    sync_mode: SyncMode,
    tagged_writepages: bool,
    avg_write_bandwidth: u64,
    global_dirty_limit: u64,
    nr_pages: i64,
    s_min_writeback_pages: i64,
) -> i64 {
    if sync_mode == SyncMode::All || tagged_writepages {
        return i64::MAX;
    }
    let pages = ((avg_write_bandwidth / 2).min(global_dirty_limit / DIRTY_SCOPE) as i64).min(nr_pages);
    pages.wrapping_add(s_min_writeback_pages) & !s_min_writeback_pages.wrapping_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_at_least_the_minimum_and_may_exceed_the_work() {
        let chunk = |bw, limit, nr| writeback_chunk_size(SyncMode::None, false, bw, limit, nr, MIN_WRITEBACK_PAGES);
        assert_eq!(chunk(1, 1, 1), 1024);
        assert_eq!(chunk(25_600, 1 << 30, 100), 1024);
        assert_eq!(chunk(25_600, 1 << 30, i64::MAX), 13_312);
        assert_eq!(chunk(25_600, 8 * 1024, i64::MAX), 2048);
        assert_eq!(writeback_chunk_size(SyncMode::All, false, 1, 1, 1, 1024), i64::MAX);
        assert_eq!(writeback_chunk_size(SyncMode::None, true, 1, 1, 1, 1024), i64::MAX);
    }

    #[test]
    fn the_parts_of_all_wbs_are_at_least_the_whole() {
        let parts: i64 = [10, 20, 31].iter().map(|bw| wb_split_bdi_pages(*bw, 61, 1000)).sum();
        assert!((1000..=1003).contains(&parts), "{parts}");
        assert_eq!(wb_split_bdi_pages(5, 0, 7), 7);
        assert_eq!(wb_split_bdi_pages(1, 5, i64::MAX), i64::MAX);
    }
}
