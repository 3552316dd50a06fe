//! Files about rates, pauses and chunks: `linux::mm::page_writeback::{position, bandwidth, pause}`, `linux::fs::fs_writeback::chunk`.

use super::cell::{Flag, Hz, Label, Rate, Threshold};
use super::table::{Unfit, Vectors, columns};
use crate::linux::fs::fs_writeback::chunk::{wb_split_bdi_pages, writeback_chunk_size};
use crate::linux::include::writeback::SyncMode;
use crate::linux::mm::page_writeback::bandwidth::{WbBandwidth, wb_update_dirty_ratelimit, wb_update_write_bandwidth};
use crate::linux::mm::page_writeback::limits::Dtc;
use crate::linux::mm::page_writeback::pause::{dirty_poll_interval, wb_max_pause, wb_min_pause};
use crate::linux::mm::page_writeback::position::{pos_ratio_polynom, wb_position_ratio};
use std::num::NonZeroU64;

columns! {
    /// Inputs of `pos_ratio_polynom.csv`.
    PolynomIn { setpoint_pages: u64, dirty_pages: u64, limit_pages: u64 }
    /// Its outputs.
    PolynomOut { pos_ratio_q10: i64 }
}

/// `pos_ratio_polynom.csv`
pub struct Polynom;

impl Vectors for Polynom {
    const FILE: &'static str = "pos_ratio_polynom.csv";
    type In = PolynomIn;
    type Out = PolynomOut;
    type State = ();
    fn step((): &mut (), i: &PolynomIn) -> Result<PolynomOut, Unfit> {
        Ok(PolynomOut { pos_ratio_q10: pos_ratio_polynom(i.setpoint_pages, i.dirty_pages, i.limit_pages) })
    }
}

columns! {
    /// Inputs of `wb_position_ratio.csv`.
    PositionIn {
        case: Label, strictlimit: Flag, avg_write_bandwidth_pps: u64, thresh_pages: Threshold, bg_thresh_pages: Threshold,
        dom_dirty_limit_pages: u64, dirty_pages: u64, wb_thresh_pages: u64, wb_bg_thresh_pages: u64, wb_dirty_pages: u64,
    }
    /// Its outputs.
    PositionOut { limit_pages: u64, pos_ratio_q10: u64 }
}

/// `wb_position_ratio.csv`
pub struct PositionRatio;

impl Vectors for PositionRatio {
    const FILE: &'static str = "wb_position_ratio.csv";
    type In = PositionIn;
    type Out = PositionOut;
    type State = ();
    fn step((): &mut (), i: &PositionIn) -> Result<PositionOut, Unfit> {
        let mut dtc = Dtc {
            thresh: i.thresh_pages.0,
            bg_thresh: i.bg_thresh_pages.0,
            dirty: i.dirty_pages,
            wb_thresh: i.wb_thresh_pages,
            wb_bg_thresh: i.wb_bg_thresh_pages,
            wb_dirty: i.wb_dirty_pages,
            ..Dtc::default()
        };
        wb_position_ratio(&mut dtc, i.dom_dirty_limit_pages, i.strictlimit.is_set(), i.avg_write_bandwidth_pps);
        Ok(PositionOut { limit_pages: dtc.limit, pos_ratio_q10: dtc.pos_ratio })
    }
}

columns! {
    /// Inputs of `wb_update_dirty_ratelimit.csv`.
    RatelimitIn {
        case: Label, hz: Hz, strictlimit: Flag, thresh_pages: u64, bg_thresh_pages: u64, dom_dirty_limit_pages: u64, dirty_pages: u64,
        wb_thresh_pages: u64, wb_bg_thresh_pages: u64, wb_dirty_pages: u64, pos_ratio_q10: u64, avg_write_bandwidth_pps: u64,
        dirty_ratelimit_pps: u64, balanced_dirty_ratelimit_pps: u64, dirtied_pages: u64, dirtied_stamp_pages: u64,
        elapsed_jiffies: NonZeroU64,
    }
    /// Its outputs.
    RatelimitOut {
        out_dirty_rate_pps: u64, out_task_ratelimit_pps: u64, out_balanced_dirty_ratelimit_pps: u64, out_dirty_ratelimit_pps: u64,
    }
}

/// `wb_update_dirty_ratelimit.csv`
pub struct DirtyRatelimit;

impl Vectors for DirtyRatelimit {
    const FILE: &'static str = "wb_update_dirty_ratelimit.csv";
    type In = RatelimitIn;
    type Out = RatelimitOut;
    type State = ();
    fn step((): &mut (), i: &RatelimitIn) -> Result<RatelimitOut, Unfit> {
        let dtc = Dtc {
            thresh: i.thresh_pages,
            bg_thresh: i.bg_thresh_pages,
            dirty: i.dirty_pages,
            wb_thresh: i.wb_thresh_pages,
            wb_bg_thresh: i.wb_bg_thresh_pages,
            wb_dirty: i.wb_dirty_pages,
            pos_ratio: i.pos_ratio_q10,
            ..Dtc::default()
        };
        let mut wb = WbBandwidth {
            avg_write_bandwidth: i.avg_write_bandwidth_pps,
            dirty_ratelimit: i.dirty_ratelimit_pps,
            balanced_dirty_ratelimit: i.balanced_dirty_ratelimit_pps,
            dirtied_stamp: i.dirtied_stamp_pages,
            ..WbBandwidth::new(0)
        };
        let strictlimit = i.strictlimit.is_set();
        let (dirty_rate, task_ratelimit) =
            wb_update_dirty_ratelimit(&mut wb, &dtc, i.dom_dirty_limit_pages, strictlimit, i.dirtied_pages, i.elapsed_jiffies.get(), i.hz.0);
        Ok(RatelimitOut {
            out_dirty_rate_pps: dirty_rate,
            out_task_ratelimit_pps: task_ratelimit,
            out_balanced_dirty_ratelimit_pps: wb.balanced_dirty_ratelimit,
            out_dirty_ratelimit_pps: wb.dirty_ratelimit,
        })
    }
}

columns! {
    /// Inputs of `wb_update_write_bandwidth.csv`.
    BandwidthIn {
        case: Label, hz: Hz, has_dirty_io: Flag, elapsed_jiffies: NonZeroU64, written_pages: u64, written_stamp_pages: u64,
        write_bandwidth_pps: u64, avg_write_bandwidth_pps: u64, tot_write_bandwidth_pps: i64,
    }
    /// Its outputs.
    BandwidthOut { out_write_bandwidth_pps: u64, out_avg_write_bandwidth_pps: u64, out_tot_write_bandwidth_pps: i64 }
}

/// `wb_update_write_bandwidth.csv`
pub struct WriteBandwidth;

impl Vectors for WriteBandwidth {
    const FILE: &'static str = "wb_update_write_bandwidth.csv";
    type In = BandwidthIn;
    type Out = BandwidthOut;
    type State = ();
    fn step((): &mut (), i: &BandwidthIn) -> Result<BandwidthOut, Unfit> {
        let mut wb = WbBandwidth {
            written_stamp: i.written_stamp_pages,
            write_bandwidth: i.write_bandwidth_pps,
            avg_write_bandwidth: i.avg_write_bandwidth_pps,
            ..WbBandwidth::new(0)
        };
        let delta = wb_update_write_bandwidth(&mut wb, i.elapsed_jiffies.get(), i.written_pages, i.hz.0);
        let delta = if i.has_dirty_io.is_set() { delta } else { 0 };
        Ok(BandwidthOut {
            out_write_bandwidth_pps: wb.write_bandwidth,
            out_avg_write_bandwidth_pps: wb.avg_write_bandwidth,
            out_tot_write_bandwidth_pps: i.tot_write_bandwidth_pps.wrapping_add(delta),
        })
    }
}

columns! {
    /// Inputs of `dirty_poll_interval.csv`.
    PollIn { dirty_pages: u64, thresh_pages: u64 }
    /// Its outputs.
    PollOut { interval_pages: u64 }
}

/// `dirty_poll_interval.csv`
pub struct PollInterval;

impl Vectors for PollInterval {
    const FILE: &'static str = "dirty_poll_interval.csv";
    type In = PollIn;
    type Out = PollOut;
    type State = ();
    fn step((): &mut (), i: &PollIn) -> Result<PollOut, Unfit> {
        Ok(PollOut { interval_pages: dirty_poll_interval(i.dirty_pages, i.thresh_pages) })
    }
}

columns! {
    /// Inputs of `wb_max_pause.csv`.
    MaxPauseIn { hz: Hz, avg_write_bandwidth_pps: u64, wb_dirty_pages: u64 }
    /// Its outputs.
    MaxPauseOut { max_pause_jiffies: i64 }
}

/// `wb_max_pause.csv`
pub struct MaxPause;

impl Vectors for MaxPause {
    const FILE: &'static str = "wb_max_pause.csv";
    type In = MaxPauseIn;
    type Out = MaxPauseOut;
    type State = ();
    fn step((): &mut (), i: &MaxPauseIn) -> Result<MaxPauseOut, Unfit> {
        Ok(MaxPauseOut { max_pause_jiffies: wb_max_pause(i.avg_write_bandwidth_pps, i.wb_dirty_pages, i.hz.0) })
    }
}

columns! {
    /// Inputs of `wb_min_pause.csv`.
    MinPauseIn {
        hz: Hz, avg_write_bandwidth_pps: u64, wb_dirty_ratelimit_pps: u64, max_pause_jiffies: i64, task_ratelimit_pps: Rate,
        dirty_ratelimit_pps: u64,
    }
    /// Its outputs.
    MinPauseOut { out_min_pause_jiffies: i64, out_nr_dirtied_pause_pages: i32 }
}

/// `wb_min_pause.csv`
pub struct MinPause;

impl Vectors for MinPause {
    const FILE: &'static str = "wb_min_pause.csv";
    type In = MinPauseIn;
    type Out = MinPauseOut;
    type State = ();
    fn step((): &mut (), i: &MinPauseIn) -> Result<MinPauseOut, Unfit> {
        let (min_pause, pages) =
            wb_min_pause(i.avg_write_bandwidth_pps, i.wb_dirty_ratelimit_pps, i.max_pause_jiffies, i.task_ratelimit_pps.0, i.dirty_ratelimit_pps, i.hz.0);
        Ok(MinPauseOut { out_min_pause_jiffies: min_pause, out_nr_dirtied_pause_pages: pages })
    }
}

columns! {
    /// Inputs of `writeback_chunk_size.csv`.
    ChunkIn {
        sync_all: Flag, tagged_writepages: Flag, avg_write_bandwidth_pps: u64, global_dirty_limit_pages: u64, work_nr_pages: i64,
        s_min_writeback_pages: i64,
    }
    /// Its outputs.
    ChunkOut { chunk_pages: i64 }
}

/// `writeback_chunk_size.csv`
pub struct ChunkSize;

impl Vectors for ChunkSize {
    const FILE: &'static str = "writeback_chunk_size.csv";
    type In = ChunkIn;
    type Out = ChunkOut;
    type State = ();
    fn step((): &mut (), i: &ChunkIn) -> Result<ChunkOut, Unfit> {
        let sync_mode = if i.sync_all.is_set() { SyncMode::All } else { SyncMode::None };
        let tagged = i.tagged_writepages.is_set();
        let (bw, limit) = (i.avg_write_bandwidth_pps, i.global_dirty_limit_pages);
        Ok(ChunkOut { chunk_pages: writeback_chunk_size(sync_mode, tagged, bw, limit, i.work_nr_pages, i.s_min_writeback_pages) })
    }
}

columns! {
    /// Inputs of `wb_split_bdi_pages.csv`.
    SplitIn { avg_write_bandwidth_pps: u64, tot_write_bandwidth_pps: u64, nr_pages: i64 }
    /// Its outputs.
    SplitOut { out_pages: i64 }
}

/// `wb_split_bdi_pages.csv`
pub struct SplitBdiPages;

impl Vectors for SplitBdiPages {
    const FILE: &'static str = "wb_split_bdi_pages.csv";
    type In = SplitIn;
    type Out = SplitOut;
    type State = ();
    fn step((): &mut (), i: &SplitIn) -> Result<SplitOut, Unfit> {
        if i.tot_write_bandwidth_pps != 0 && i.tot_write_bandwidth_pps as u32 == 0 {
            return Err(("tot_write_bandwidth_pps", "a number whose low 32 bits are not all 0, unless it is 0: the kernel divides by those".to_string()));
        }
        Ok(SplitOut { out_pages: wb_split_bdi_pages(i.avg_write_bandwidth_pps, i.tot_write_bandwidth_pps, i.nr_pages) })
    }
}
