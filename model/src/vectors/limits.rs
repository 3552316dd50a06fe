//! Files about limits: `linux::mm::page_writeback::limits`.

use super::cell::{Flag, Percent, Ppm, Threshold, words};
use super::table::{Unfit, Vectors, columns};
use crate::linux::mm::page_writeback::limits::{
    self, BdiThrottle, Dtc, Sysctl, WbDomain, WbShare, bdi_set_max_ratio_no_scale, bdi_set_min_ratio_no_scale, domain_dirty_limits, mdtc_calc_avail,
    update_dirty_limit, wb_dirty_limits, wb_min_max_ratio,
};
use std::num::NonZeroU64;

words! {
    /// Which limits.
    Domain { Global = "global", Memcg = "memcg" }
    /// Which ratio is set.
    RatioOp { SetMin = "set_min", SetMax = "set_max" }
}

columns! {
    /// Inputs of `domain_dirty_limits.csv`.
    LimitsIn {
        domain: Domain, avail_pages: u64, global_avail_pages: NonZeroU64, vm_dirty_ratio_pct: Percent, vm_dirty_bytes: u64,
        dirty_background_ratio_pct: Percent, dirty_background_bytes: u64, rt_task: Flag, global_dirty_limit_pages: u64,
    }
    /// Its outputs.
    LimitsOut { thresh_pages: u64, bg_thresh_pages: u64 }
}

/// `domain_dirty_limits.csv`
pub struct DomainDirtyLimits;

impl Vectors for DomainDirtyLimits {
    const FILE: &'static str = "domain_dirty_limits.csv";
    type In = LimitsIn;
    type Out = LimitsOut;
    type State = ();
    fn step((): &mut (), i: &LimitsIn) -> Result<LimitsOut, Unfit> {
        let sysctl = Sysctl {
            dirty_ratio: i.vm_dirty_ratio_pct.0,
            dirty_bytes: i.vm_dirty_bytes,
            dirty_background_ratio: i.dirty_background_ratio_pct.0,
            dirty_background_bytes: i.dirty_background_bytes,
        };
        let gdtc = Dtc { avail: i.global_avail_pages.get(), ..Dtc::default() };
        let mut dtc = Dtc { avail: i.avail_pages, ..Dtc::default() };
        let gdtc = (i.domain == Domain::Memcg).then_some(&gdtc);
        domain_dirty_limits(&mut dtc, gdtc, &sysctl, i.rt_task.is_set(), i.global_dirty_limit_pages);
        Ok(LimitsOut { thresh_pages: dtc.thresh, bg_thresh_pages: dtc.bg_thresh })
    }
}

columns! {
    /// Inputs of `mdtc_calc_avail.csv`.
    AvailIn { filepages: u64, headroom_pages: u64, memcg_dirty_pages: u64, global_avail_pages: u64, global_dirty_pages: u64 }
    /// Its outputs.
    AvailOut { memcg_avail_pages: u64 }
}

/// `mdtc_calc_avail.csv`
pub struct MemcgAvail;

impl Vectors for MemcgAvail {
    const FILE: &'static str = "mdtc_calc_avail.csv";
    type In = AvailIn;
    type Out = AvailOut;
    type State = ();
    fn step((): &mut (), i: &AvailIn) -> Result<AvailOut, Unfit> {
        let gdtc = Dtc { avail: i.global_avail_pages, dirty: i.global_dirty_pages, ..Dtc::default() };
        let mut mdtc = Dtc { dirty: i.memcg_dirty_pages, ..Dtc::default() };
        mdtc_calc_avail(&mut mdtc, &gdtc, i.filepages, i.headroom_pages);
        Ok(AvailOut { memcg_avail_pages: mdtc.avail })
    }
}

columns! {
    /// Inputs of `update_dirty_limit.csv`.
    SlowLimitIn { dom_dirty_limit_pages: u64, thresh_pages: u64, dirty_pages: u64 }
    /// Its outputs.
    SlowLimitOut { out_dom_dirty_limit_pages: u64 }
}

/// `update_dirty_limit.csv`
pub struct UpdateDirtyLimit;

impl Vectors for UpdateDirtyLimit {
    const FILE: &'static str = "update_dirty_limit.csv";
    type In = SlowLimitIn;
    type Out = SlowLimitOut;
    type State = ();
    fn step((): &mut (), i: &SlowLimitIn) -> Result<SlowLimitOut, Unfit> {
        let mut dom = WbDomain { dirty_limit: i.dom_dirty_limit_pages, ..WbDomain::new(0, 1) };
        update_dirty_limit(&mut dom, &Dtc { thresh: i.thresh_pages, dirty: i.dirty_pages, ..Dtc::default() });
        Ok(SlowLimitOut { out_dom_dirty_limit_pages: dom.dirty_limit })
    }
}

columns! {
    /// Inputs of `wb_calc_thresh.csv`.
    ShareIn {
        strictlimit: Flag, thresh_pages: Threshold, bg_thresh_pages: Threshold, dirty_pages: u64, fprop_numerator: u64,
        fprop_denominator: NonZeroU64, sum_bdi_min_ratio_ppm: Ppm, bdi_min_ratio_ppm: Ppm, bdi_max_ratio_ppm: Ppm,
        wb_avg_write_bandwidth_pps: u64, bdi_tot_write_bandwidth_pps: u64,
    }
    /// Its outputs.
    ShareOut {
        out_wb_min_ratio_ppm: u64, out_wb_max_ratio_ppm: u64, out_wb_thresh_pages: u64, out_wb_bg_thresh_scaled_pages: u64,
        out_wb_bg_thresh_direct_pages: u64,
    }
}

/// `wb_calc_thresh.csv`
pub struct CalcThresh;

impl Vectors for CalcThresh {
    const FILE: &'static str = "wb_calc_thresh.csv";
    type In = ShareIn;
    type Out = ShareOut;
    type State = ();
    fn step((): &mut (), i: &ShareIn) -> Result<ShareOut, Unfit> {
        let bdi = BdiThrottle {
            min_ratio: i.bdi_min_ratio_ppm.0,
            max_ratio: i.bdi_max_ratio_ppm.0,
            tot_write_bandwidth: i.bdi_tot_write_bandwidth_pps as i64,
            ..BdiThrottle::default()
        };
        let (min_ratio, max_ratio) = wb_min_max_ratio(i.wb_avg_write_bandwidth_pps, &bdi);
        let share = WbShare {
            numerator: i.fprop_numerator,
            denominator: i.fprop_denominator.get(),
            min_ratio,
            max_ratio,
            bdi_min_ratio: i.sum_bdi_min_ratio_ppm.0,
            strictlimit: i.strictlimit.is_set(),
        };
        let mut dtc = Dtc { thresh: i.thresh_pages.0, bg_thresh: i.bg_thresh_pages.0, dirty: i.dirty_pages, ..Dtc::default() };
        wb_dirty_limits(&mut dtc, &share);
        Ok(ShareOut {
            out_wb_min_ratio_ppm: min_ratio,
            out_wb_max_ratio_ppm: max_ratio,
            out_wb_thresh_pages: dtc.wb_thresh,
            out_wb_bg_thresh_scaled_pages: dtc.wb_bg_thresh,
            out_wb_bg_thresh_direct_pages: limits::__wb_calc_thresh(&share, dtc.dirty, dtc.bg_thresh),
        })
    }
}

columns! {
    /// Inputs of `bdi_ratio_set.csv`.
    RatioIn { op: RatioOp, new_ratio_ppm: u32, cur_min_ratio_ppm: u32, cur_max_ratio_ppm: u32, cur_sum_min_ratio_ppm: u32 }
    /// Its outputs.
    RatioOut { ret: i64, out_min_ratio_ppm: u32, out_max_ratio_ppm: u32, out_sum_min_ratio_ppm: u32, out_max_prop_frac_q10: u32 }
}

/// `bdi_ratio_set.csv`
pub struct RatioSet;

impl Vectors for RatioSet {
    const FILE: &'static str = "bdi_ratio_set.csv";
    type In = RatioIn;
    type Out = RatioOut;
    type State = ();
    fn step((): &mut (), i: &RatioIn) -> Result<RatioOut, Unfit> {
        let mut sum = i.cur_sum_min_ratio_ppm;
        let mut bdi = BdiThrottle::default();
        bdi_set_max_ratio_no_scale(&mut bdi, i.cur_max_ratio_ppm).map_err(|_| ("cur_max_ratio_ppm", "a ratio of at most 1000000".to_string()))?;
        bdi.min_ratio = i.cur_min_ratio_ppm;
        let ret = match i.op {
            RatioOp::SetMin => bdi_set_min_ratio_no_scale(&mut bdi, &mut sum, i.new_ratio_ppm),
            RatioOp::SetMax => bdi_set_max_ratio_no_scale(&mut bdi, i.new_ratio_ppm),
        };
        Ok(RatioOut {
            ret: ret.err().unwrap_or(0),
            out_min_ratio_ppm: bdi.min_ratio,
            out_max_ratio_ppm: bdi.max_ratio,
            out_sum_min_ratio_ppm: sum,
            out_max_prop_frac_q10: bdi.max_prop_frac,
        })
    }
}
