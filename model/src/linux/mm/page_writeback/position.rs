//! Position control: how the distance from the setpoint scales the base rate.
//!
//! Mirrors:    mm/page-writeback.c, pos_ratio_polynom(), wb_position_ratio(); fidelity: mirror.
//! Locks:      none.
//! Rules:      TH-POS-1, TH-POS-2, TH-POS-3.

use super::RATELIMIT_CALC_SHIFT;
use super::limits::{Dtc, dirty_freerun_ceiling, hard_dirty_limit};
use crate::linux::include::math64::div_u64;

/// `pos_ratio_polynom`: 1 + ((setpoint - dirty) / (limit - setpoint))^3 in 1024ths, held between 0 and 2048.
///
/// The span is made odd, so that it is not 0.
pub fn pos_ratio_polynom(setpoint: u64, dirty: u64, limit: u64) -> i64 {
    let span = (limit.wrapping_sub(setpoint) | 1) as i64;
    let x = ((setpoint as i64).wrapping_sub(dirty as i64) << RATELIMIT_CALC_SHIFT).wrapping_div(span);
    let mut pos_ratio = x;
    pos_ratio = pos_ratio.wrapping_mul(x) >> RATELIMIT_CALC_SHIFT;
    pos_ratio = pos_ratio.wrapping_mul(x) >> RATELIMIT_CALC_SHIFT;
    pos_ratio = pos_ratio.wrapping_add(1 << RATELIMIT_CALC_SHIFT);
    pos_ratio.clamp(0, 2 << RATELIMIT_CALC_SHIFT)
}

/// `wb_position_ratio`: sets `limit` and `pos_ratio`. Thresholds below 2^32, as `domain_dirty_limits` leaves them.
///
/// The domain's curve, then, under strictlimit, the lower of it and the same curve of the wb's own numbers; otherwise scaled
/// by a falling line of the wb's dirty pages, never below a quarter, and raised while the wb has little to write.
pub fn wb_position_ratio(dtc: &mut Dtc, dirty_limit: u64, strictlimit: bool, avg_write_bandwidth: u64) {
    let freerun = dirty_freerun_ceiling(dtc.thresh, dtc.bg_thresh);
    let limit = hard_dirty_limit(dirty_limit, dtc.thresh);
    dtc.limit = limit;
    dtc.pos_ratio = 0;
    if dtc.dirty >= limit {
        return;
    }
    let setpoint = freerun.wrapping_add(limit) / 2;
    let mut pos_ratio = pos_ratio_polynom(setpoint, dtc.dirty, limit);

    let mut wb_thresh = dtc.wb_thresh;
    if strictlimit {
        if dtc.wb_dirty >= wb_thresh {
            return;
        }
        let wb_setpoint = dirty_freerun_ceiling(wb_thresh, dtc.wb_bg_thresh);
        if wb_setpoint == 0 || wb_setpoint == wb_thresh {
            return;
        }
        let wb_pos_ratio = pos_ratio_polynom(wb_setpoint, dtc.wb_dirty, wb_thresh);
        dtc.pos_ratio = pos_ratio.min(wb_pos_ratio) as u64;
        return;
    }

    wb_thresh = wb_thresh.min(dtc.thresh);
    // The wb's part of the domain, in 65536ths.
    let x = div_u64(wb_thresh << 16, dtc.thresh | 1);
    let wb_setpoint = setpoint.wrapping_mul(x) >> 16;
    // One wb alone: 8 seconds' worth of its bandwidth. Many: its own threshold, which moves that much.
    let span = (dtc.thresh - wb_thresh).wrapping_add(avg_write_bandwidth.wrapping_mul(8)).wrapping_mul(x) >> 16;
    let mut x_intercept = wb_setpoint.wrapping_add(span);
    if dtc.wb_dirty < x_intercept.wrapping_sub(span / 4) {
        let product = (pos_ratio as u64).wrapping_mul(x_intercept.wrapping_sub(dtc.wb_dirty));
        pos_ratio = (product / (x_intercept.wrapping_sub(wb_setpoint) | 1)) as i64;
    } else {
        pos_ratio /= 4;
    }

    x_intercept = wb_thresh / 2;
    if dtc.wb_dirty < x_intercept {
        if dtc.wb_dirty > x_intercept / 8 {
            // Not 0, and with the threshold below 2^31.
            pos_ratio = div_u64((pos_ratio as u64).wrapping_mul(x_intercept), dtc.wb_dirty) as i64;
        } else {
            pos_ratio = pos_ratio.wrapping_mul(8);
        }
    }
    dtc.pos_ratio = pos_ratio as u64;
}
