//! Comparing and converting times in ticks of 1/HZ second.
//!
//! Mirrors:    include/linux/jiffies.h; fidelity: mirror. HZ is a parameter.
//! Simplified: conversion for HZ that divide 1000 only.
//! Ordering:   comparison is by signed difference, so that it survives a wrap; a time of 0, which several fields use for "never",
//!             is in the past only if the clock starts late enough.

/// `time_before(a, b)`: `a` is earlier.
pub fn time_before(a: u64, b: u64) -> bool {
    (a.wrapping_sub(b) as i64) < 0
}

/// `time_after(a, b)`: `a` is later.
pub fn time_after(a: u64, b: u64) -> bool {
    time_before(b, a)
}

/// `msecs_to_jiffies` for a HZ that divides 1000: rounds up; negative as a 32-bit number means forever.
pub fn msecs_to_jiffies(ms: u32, hz: u64) -> u64 {
    if (ms as i32) < 0 {
        return MAX_JIFFY_OFFSET;
    }
    let per_jiffy = (1000 / hz) as u32;
    // 32-bit arithmetic: the sum may wrap.
    u64::from(ms.wrapping_add(per_jiffy - 1) / per_jiffy)
}

/// `MAX_JIFFY_OFFSET`: the longest time that is told apart from the past.
pub const MAX_JIFFY_OFFSET: u64 = (i64::MAX as u64 >> 1) - 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparison_survives_the_wrap() {
        assert!(time_before(u64::MAX, 3));
        assert!(!time_before(3, 3));
        assert!(time_after(3, u64::MAX));
    }

    #[test]
    fn milliseconds_round_up() {
        assert_eq!([100, 250, 1000].map(|hz| msecs_to_jiffies(30_001, hz)), [3001, 7501, 30_001]);
        assert_eq!(msecs_to_jiffies(u32::MAX, 250), MAX_JIFFY_OFFSET);
    }
}
