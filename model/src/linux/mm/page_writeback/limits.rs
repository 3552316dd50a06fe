//! How many pages may be dirty: in a domain, and for one wb in it.
//!
//! Mirrors:    mm/page-writeback.c, wb_min_max_ratio() to wb_domain_init(), __bdi_set_min_ratio() to __wb_calc_thresh(),
//!             update_dirty_limit(), wb_dirty_limits(), domain_dirty_freerun(), writeback_set_ratelimit();
//!             wb_domain_size_changed() of include/linux/writeback.h; fidelity: mirror.
//! Simplified: no highmem; node limits, which only the page allocator asks for, are left out.
//! Locks:      none: every function is one step. The kernel has dom->lock, and bdi_lock around the ratios.
//! Ordering:   limits are read and used without a lock in the kernel too.
//! Rules:      TH-LIM-1, TH-LIM-2, TH-LIM-3.

use super::{PAGE_SIZE, bandwidth_interval};
use crate::linux::include::jiffies::time_before;
use crate::linux::include::math64::{div_round_up, div_u64};
use crate::linux::lib::flex_proportions::{FPROP_FRAC_BASE, FpropGlobal, FpropLocalPercpu, OnCpu};

/// `BDI_RATIO_SCALE`: ratios of a bdi are parts per million, 10000 a percent.
pub const BDI_RATIO_SCALE: u32 = 10_000;
const WHOLE: u64 = 100 * BDI_RATIO_SCALE as u64;
const EINVAL: i64 = -22;
const ERANGE: i64 = -34;

/// Which limits a dirty count is held against.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Domain {
    /// The machine's.
    Global,
    /// Those of the wb's memcg; the root memcg has none.
    Memcg,
}

/// The settings `vm.dirty_*`. Bytes, where not 0, replace the ratio.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sysctl {
    /// `vm.dirty_ratio`, percent of available memory, 0 to 100.
    pub dirty_ratio: u32,
    /// `vm.dirty_bytes`
    pub dirty_bytes: u64,
    /// `vm.dirty_background_ratio`, percent of available memory, 0 to 100.
    pub dirty_background_ratio: u32,
    /// `vm.dirty_background_bytes`
    pub dirty_background_bytes: u64,
}

impl Default for Sysctl {
    fn default() -> Self {
        Sysctl { dirty_ratio: 20, dirty_bytes: 0, dirty_background_ratio: 10, dirty_background_bytes: 0 }
    }
}

impl Sysctl {
    /// `dirty_ratio_handler`: true if the limits changed, so that [`writeback_set_ratelimit`] is due.
    ///
    /// # Errors
    /// `EINVAL` for more than 100 percent.
    pub fn set_dirty_ratio(&mut self, percent: u32) -> Result<bool, i64> {
        if percent > 100 {
            return Err(EINVAL);
        }
        let changed = percent != self.dirty_ratio;
        if changed {
            self.dirty_ratio = percent;
            self.dirty_bytes = 0;
        }
        Ok(changed)
    }

    /// `dirty_bytes_handler`: true if the limits changed, so that [`writeback_set_ratelimit`] is due.
    ///
    /// # Errors
    /// `EINVAL` below two pages, `ERANGE` for 2^32 pages or more.
    pub fn set_dirty_bytes(&mut self, bytes: u64) -> Result<bool, i64> {
        if bytes < 2 * PAGE_SIZE {
            return Err(EINVAL);
        }
        let changed = bytes != self.dirty_bytes;
        if changed {
            if div_round_up(bytes, PAGE_SIZE) > u64::from(u32::MAX) {
                return Err(ERANGE);
            }
            self.dirty_bytes = bytes;
            self.dirty_ratio = 0;
        }
        Ok(changed)
    }

    /// `dirty_background_ratio_handler`
    ///
    /// # Errors
    /// `EINVAL` for more than 100 percent.
    pub fn set_dirty_background_ratio(&mut self, percent: u32) -> Result<(), i64> {
        if percent > 100 {
            return Err(EINVAL);
        }
        self.dirty_background_ratio = percent;
        self.dirty_background_bytes = 0;
        Ok(())
    }

    /// `dirty_background_bytes_handler`
    ///
    /// # Errors
    /// `EINVAL` for 0, `ERANGE` for 2^32 pages or more.
    pub fn set_dirty_background_bytes(&mut self, bytes: u64) -> Result<(), i64> {
        if bytes == 0 {
            return Err(EINVAL);
        }
        if div_round_up(bytes, PAGE_SIZE) > u64::from(u32::MAX) {
            return Err(ERANGE);
        }
        self.dirty_background_bytes = bytes;
        self.dirty_background_ratio = 0;
        Ok(())
    }
}

/// `struct dirty_throttle_control`: what one pass knows about one domain. Pages, but for `pos_ratio`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Dtc {
    /// Memory that may be dirtied.
    pub avail: u64,
    /// Dirty pages; those under writeback too when throttling.
    pub dirty: u64,
    /// Threshold, below 2^32.
    pub thresh: u64,
    /// Background threshold, below `thresh` unless both are 0.
    pub bg_thresh: u64,
    /// Hard limit: the threshold, or the domain's slow limit where that is higher. Set by `wb_position_ratio`.
    pub limit: u64,
    /// Dirty pages of the wb; those under writeback too when throttling.
    pub wb_dirty: u64,
    /// The wb's part of `thresh`.
    pub wb_thresh: u64,
    /// The wb's part of `bg_thresh`.
    pub wb_bg_thresh: u64,
    /// Scale of the wb's base rate, 1024 for 1.0; not bounded above without strictlimit.
    pub pos_ratio: u64,
    /// Few enough pages are dirty that nobody waits.
    pub freerun: bool,
    /// The wb is over its part of a domain that is over its threshold.
    pub dirty_exceeded: bool,
}

/// `struct wb_domain`
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WbDomain {
    /// Writeback completions of all wbs in the domain.
    pub completions: FpropGlobal,
    /// When the running period of the proportions ends, in jiffies; 0 while ageing is stopped.
    pub period_time: u64,
    /// Limit that follows the threshold up at once and down slowly, in pages.
    pub dirty_limit: u64,
    /// Last update of `dirty_limit`, in jiffies.
    pub dirty_limit_tstamp: u64,
}

impl WbDomain {
    /// `wb_domain_init` at time `now`.
    pub fn new(now: u64, nr_cpu_ids: u32) -> Self {
        WbDomain { completions: FpropGlobal::new(nr_cpu_ids), period_time: 0, dirty_limit: 0, dirty_limit_tstamp: now }
    }

    /// `wb_domain_size_changed`: forgets the slow limit; for a memcg whose memory.max or memory.high was written.
    pub fn size_changed(&mut self, now: u64) {
        self.dirty_limit_tstamp = now;
        self.dirty_limit = 0;
    }

    /// `wb_domain_writeout_add`: `nr` pages of the wb whose side is `completions` finished writeback.
    ///
    /// Yields when the period timer is to run, if it must be armed.
    #[must_use]
    pub fn writeout_add(&mut self, completions: &mut FpropLocalPercpu, max_prop_frac: u32, nr: i64, now: u64, hz: u64, on: OnCpu) -> Option<u64> {
        completions.add_max(&mut self.completions, max_prop_frac, nr, on);
        if self.period_time == 0 {
            self.period_time = wp_next_time(now, hz);
            Some(self.period_time)
        } else {
            None
        }
    }

    /// `writeout_period`: the deferrable period timer runs, perhaps late. Yields when it is to run next; `None` stops ageing.
    #[must_use]
    pub fn writeout_period(&mut self, now: u64, hz: u64, on: OnCpu) -> Option<u64> {
        let len = VM_COMPLETIONS_PERIOD_SECONDS * hz;
        let miss_periods = (now.wrapping_sub(self.period_time) / len) as i32;
        if self.completions.new_period(miss_periods.wrapping_add(1), on) {
            // A product of ints.
            let missed = i64::from(miss_periods.wrapping_mul(len as i32));
            self.period_time = wp_next_time(self.period_time.wrapping_add(missed as u64), hz);
            Some(self.period_time)
        } else {
            self.period_time = 0;
            None
        }
    }
}

/// `VM_COMPLETIONS_PERIOD_LEN`, in seconds.
const VM_COMPLETIONS_PERIOD_SECONDS: u64 = 3;

/// `wp_next_time`: 0 is taken for "never".
fn wp_next_time(cur_time: u64, hz: u64) -> u64 {
    match cur_time.wrapping_add(VM_COMPLETIONS_PERIOD_SECONDS * hz) {
        0 => 1,
        t => t,
    }
}

/// `domain_dirty_limits`: sets `thresh` and `bg_thresh` from `avail`; `gdtc` is given for a memcg's domain.
///
/// A real-time or deadline task gets a quarter more, and 1/32 of the *global* slow limit.
pub fn domain_dirty_limits(dtc: &mut Dtc, gdtc: Option<&Dtc>, sysctl: &Sysctl, rt_or_dl_task: bool, global_dirty_limit: u64) {
    let (mut bytes, mut bg_bytes) = (sysctl.dirty_bytes, sysctl.dirty_background_bytes);
    // Parts of a page size, for precision.
    let mut ratio = u64::from(sysctl.dirty_ratio) * PAGE_SIZE / 100;
    let mut bg_ratio = u64::from(sysctl.dirty_background_ratio) * PAGE_SIZE / 100;
    if let Some(gdtc) = gdtc {
        // Bytes are the machine's; by global pages they become a ratio.
        if bytes != 0 {
            ratio = div_round_up(bytes, gdtc.avail).min(PAGE_SIZE);
        }
        if bg_bytes != 0 {
            bg_ratio = div_round_up(bg_bytes, gdtc.avail).min(PAGE_SIZE);
        }
        (bytes, bg_bytes) = (0, 0);
    }
    let pages = |bytes, ratio: u64| if bytes != 0 { div_round_up(bytes, PAGE_SIZE) } else { ratio.wrapping_mul(dtc.avail) / PAGE_SIZE };
    let mut thresh = pages(bytes, ratio);
    let mut bg_thresh = pages(bg_bytes, bg_ratio);
    if rt_or_dl_task {
        let lift = |t: u64| t.wrapping_add(t / 4).wrapping_add(global_dirty_limit / 32);
        bg_thresh = lift(bg_thresh);
        thresh = lift(thresh);
    }
    thresh = thresh.min(u64::from(u32::MAX));
    if bg_thresh >= thresh {
        bg_thresh = thresh / 2;
    }
    dtc.thresh = thresh;
    dtc.bg_thresh = bg_thresh;
}

/// `mdtc_calc_avail`: sets a memcg's `avail` from its file pages and what it may still allocate.
///
/// What it may allocate is bounded by the machine's clean pages that are not the memcg's own.
pub fn mdtc_calc_avail(mdtc: &mut Dtc, gdtc: &Dtc, filepages: u64, headroom: u64) {
    let clean = filepages - filepages.min(mdtc.dirty);
    let global_clean = gdtc.avail - gdtc.avail.min(gdtc.dirty);
    let other_clean = global_clean - global_clean.min(clean);
    mdtc.avail = filepages.wrapping_add(headroom.min(other_clean));
}

/// `dirty_freerun_ceiling`
pub fn dirty_freerun_ceiling(thresh: u64, bg_thresh: u64) -> u64 {
    thresh.wrapping_add(bg_thresh) / 2
}

/// `hard_dirty_limit`
pub fn hard_dirty_limit(dirty_limit: u64, thresh: u64) -> u64 {
    thresh.max(dirty_limit)
}

/// `domain_dirty_freerun` once the wb's numbers are in `dtc`, which only strictlimit looks at.
pub fn domain_dirty_freerun(dtc: &Dtc, strictlimit: bool) -> bool {
    if strictlimit {
        dtc.wb_dirty <= dirty_freerun_ceiling(dtc.wb_thresh, dtc.wb_bg_thresh)
    } else {
        dtc.dirty <= dirty_freerun_ceiling(dtc.thresh, dtc.bg_thresh)
    }
}

/// `update_dirty_limit`: one step of the slow limit towards the threshold, or towards the dirty pages where those are more.
///
/// A gap of less than 32 pages stays.
pub fn update_dirty_limit(dom: &mut WbDomain, dtc: &Dtc) {
    let limit = dom.dirty_limit;
    if limit < dtc.thresh {
        dom.dirty_limit = dtc.thresh;
        return;
    }
    let thresh = dtc.thresh.max(dtc.dirty);
    if limit > thresh {
        dom.dirty_limit = limit - ((limit - thresh) >> 5);
    }
}

/// `domain_update_dirty_limit`: the same, once per [`bandwidth_interval`].
pub fn domain_update_dirty_limit(dom: &mut WbDomain, dtc: &Dtc, now: u64, hz: u64) {
    if !time_before(now, dom.dirty_limit_tstamp.wrapping_add(bandwidth_interval(hz))) {
        update_dirty_limit(dom, dtc);
        dom.dirty_limit_tstamp = now;
    }
}

/// `writeback_set_ratelimit`: sets the global slow limit to the threshold and yields `ratelimit_pages`, at least 16.
pub fn writeback_set_ratelimit(global: &mut WbDomain, thresh: u64, online_cpus: u32) -> i64 {
    global.dirty_limit = thresh;
    ((thresh / u64::from(online_cpus.wrapping_mul(32))) as i64).max(16)
}

/// What throttling keeps in `struct backing_dev_info`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BdiThrottle {
    /// Part of every threshold that is this bdi's even when others write more, in ppm.
    pub min_ratio: u32,
    /// Part of every threshold that it may use at most, in ppm.
    pub max_ratio: u32,
    /// `max_ratio` for the proportions, in 1024ths.
    pub max_prop_frac: u32,
    /// `BDI_CAP_STRICTLIMIT`: the wb's own counts are held against its own part, always.
    pub strictlimit: bool,
    /// Sum of `avg_write_bandwidth` over the wbs with dirty inodes, in pages a second.
    pub tot_write_bandwidth: i64,
    /// Last time a task began a pause, in jiffies.
    pub last_bdp_sleep: u64,
}

impl Default for BdiThrottle {
    /// As `bdi_init` leaves it.
    fn default() -> Self {
        BdiThrottle {
            min_ratio: 0,
            max_ratio: 100 * BDI_RATIO_SCALE,
            max_prop_frac: FPROP_FRAC_BASE as u32,
            strictlimit: false,
            tot_write_bandwidth: 0,
            last_bdp_sleep: 0,
        }
    }
}

/// `bdi_set_min_ratio_no_scale`, in ppm. `bdi_min_ratio` is the sum over all bdis, which stays below the whole.
///
/// # Errors
/// `EINVAL` for more than the whole or than the maximum, and when the sum would reach the whole.
pub fn bdi_set_min_ratio_no_scale(bdi: &mut BdiThrottle, bdi_min_ratio: &mut u32, min_ratio: u32) -> Result<(), i64> {
    if u64::from(min_ratio) > WHOLE || min_ratio > bdi.max_ratio {
        return Err(EINVAL);
    }
    if min_ratio < bdi.min_ratio {
        *bdi_min_ratio = bdi_min_ratio.wrapping_sub(bdi.min_ratio - min_ratio);
    } else {
        let sum = bdi_min_ratio.wrapping_add(min_ratio - bdi.min_ratio);
        if u64::from(sum) >= WHOLE {
            return Err(EINVAL);
        }
        *bdi_min_ratio = sum;
    }
    bdi.min_ratio = min_ratio;
    Ok(())
}

/// `bdi_set_max_ratio_no_scale`, in ppm.
///
/// # Errors
/// `EINVAL` for more than the whole or less than the minimum.
pub fn bdi_set_max_ratio_no_scale(bdi: &mut BdiThrottle, max_ratio: u32) -> Result<(), i64> {
    if u64::from(max_ratio) > WHOLE || bdi.min_ratio > max_ratio {
        return Err(EINVAL);
    }
    bdi.max_ratio = max_ratio;
    bdi.max_prop_frac = (FPROP_FRAC_BASE * u64::from(max_ratio) / WHOLE) as u32;
    Ok(())
}

/// `bdi_set_min_ratio`, in percent; the product with [`BDI_RATIO_SCALE`] wraps at 32 bits.
///
/// # Errors
/// As [`bdi_set_min_ratio_no_scale`].
pub fn bdi_set_min_ratio(bdi: &mut BdiThrottle, bdi_min_ratio: &mut u32, percent: u32) -> Result<(), i64> {
    bdi_set_min_ratio_no_scale(bdi, bdi_min_ratio, percent.wrapping_mul(BDI_RATIO_SCALE))
}

/// `bdi_set_max_ratio`, in percent; the product with [`BDI_RATIO_SCALE`] wraps at 32 bits.
///
/// # Errors
/// As [`bdi_set_max_ratio_no_scale`].
pub fn bdi_set_max_ratio(bdi: &mut BdiThrottle, percent: u32) -> Result<(), i64> {
    bdi_set_max_ratio_no_scale(bdi, percent.wrapping_mul(BDI_RATIO_SCALE))
}

/// What `bdi_set_min_bytes` and `bdi_set_max_bytes` make of bytes: a ratio in ppm of the present global threshold.
///
/// # Errors
/// `EINVAL` for more than the available memory, without a threshold, and for a ratio of 2^63 or more.
pub fn bdi_ratio_from_bytes(bytes: u64, global_avail: u64, global_thresh: u64) -> Result<u32, i64> {
    let pages = bytes / PAGE_SIZE;
    if pages > global_avail || global_thresh == 0 {
        return Err(EINVAL);
    }
    let ratio = pages.wrapping_mul(WHOLE) / global_thresh;
    // The kernel takes it for a signed long, an error if negative, then for an unsigned int.
    if (ratio as i64) < 0 { Err(ratio as i64) } else { Ok(ratio as u32) }
}

/// `bdi_get_bytes`: what a ratio is worth at the present global threshold.
pub fn bdi_get_bytes(ratio: u32, global_thresh: u64) -> u64 {
    global_thresh.wrapping_mul(PAGE_SIZE).wrapping_mul(u64::from(ratio)) / u64::from(BDI_RATIO_SCALE) / 100
}

/// `bdi_set_strict_limit`
///
/// # Errors
/// `EINVAL` for more than 1.
pub fn bdi_set_strict_limit(bdi: &mut BdiThrottle, strict_limit: u32) -> Result<(), i64> {
    if strict_limit > 1 {
        return Err(EINVAL);
    }
    bdi.strictlimit = strict_limit == 1;
    Ok(())
}

/// `wb_min_max_ratio`: the bdi's ratios, scaled to the wb's part of the bandwidth; ppm.
///
/// A maximum of the whole is not scaled. A wb that is clean by now may have more bandwidth than the total says.
pub fn wb_min_max_ratio(avg_write_bandwidth: u64, bdi: &BdiThrottle) -> (u64, u64) {
    let (this_bw, tot_bw) = (avg_write_bandwidth, bdi.tot_write_bandwidth as u64);
    let (mut min, mut max) = (u64::from(bdi.min_ratio), u64::from(bdi.max_ratio));
    if this_bw < tot_bw {
        min = min.wrapping_mul(this_bw) / tot_bw;
        if max < WHOLE {
            max = max.wrapping_mul(this_bw) / tot_bw;
        }
    }
    (min, max)
}

/// What a wb's part of a threshold depends on, besides the threshold and the domain's dirty pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WbShare {
    /// The wb's completions, of `denominator` in the domain.
    pub numerator: u64,
    /// Not 0.
    pub denominator: u64,
    /// Effective minimum, ppm; see [`wb_min_max_ratio`].
    pub min_ratio: u64,
    /// Effective maximum, ppm.
    pub max_ratio: u64,
    /// Sum of the minima of all bdis, ppm, at most the whole.
    pub bdi_min_ratio: u32,
    /// `BDI_CAP_STRICTLIMIT` of the bdi.
    pub strictlimit: bool,
}

/// `__wb_calc_thresh`: the wb's part of threshold `thresh` of a domain with `dirty` dirty pages.
///
/// At least an eighth of what is not dirty (a hundredth under strictlimit), so that an idle device can start; the maximum
/// goes before that.
pub fn __wb_calc_thresh(share: &WbShare, dirty: u64, thresh: u64) -> u64 {
    // 32-bit arithmetic inside the brackets.
    let rest = (100 * BDI_RATIO_SCALE).wrapping_sub(share.bdi_min_ratio);
    let mut wb_thresh = thresh.wrapping_mul(u64::from(rest)) / WHOLE;
    wb_thresh = wb_thresh.wrapping_mul(share.numerator) / share.denominator;
    wb_thresh = wb_thresh.wrapping_add(thresh.wrapping_mul(share.min_ratio) / WHOLE);
    if thresh > dirty {
        wb_thresh = wb_thresh.max((thresh - dirty) / if share.strictlimit { 100 } else { 8 });
    }
    wb_thresh.min(thresh.wrapping_mul(share.max_ratio) / WHOLE)
}

/// The thresholds of `wb_dirty_limits`: sets `wb_thresh` and, by scaling it, `wb_bg_thresh`.
pub fn wb_dirty_limits(dtc: &mut Dtc, share: &WbShare) {
    dtc.wb_thresh = __wb_calc_thresh(share, dtc.dirty, dtc.thresh);
    // A threshold is not 0 and below 2^32, so neither is its low half 0.
    dtc.wb_bg_thresh = if dtc.thresh == 0 { 0 } else { div_u64(dtc.wb_thresh.wrapping_mul(dtc.bg_thresh), dtc.thresh) };
}
