//! Integer arithmetic as the kernel's macros do it: roundings, logarithms, 32-bit divisors.
//!
//! Mirrors:    include/linux/math.h, math64.h, log2.h; fidelity: mirror for a 64-bit kernel. Integers wrap, as the kernel is
//!             built with -fno-strict-overflow.
//! Simplified: a divisor of zero traps here as it does there; callers say why it cannot occur.

/// `div_u64`: the divisor is first cut to its low 32 bits, which must not all be zero.
pub fn div_u64(dividend: u64, divisor: u64) -> u64 {
    dividend / u64::from(divisor as u32)
}

/// `DIV_ROUND_UP` of unsigned longs; wraps when `n` is within `d` of 2^64.
pub fn div_round_up(n: u64, d: u64) -> u64 {
    n.wrapping_add(d.wrapping_sub(1)) / d
}

/// `DIV_ROUND_UP_ULL`: rounds up by the whole divisor, then divides by its low 32 bits, which must not all be zero.
pub fn div_round_up_ull(n: u64, d: u64) -> u64 {
    div_u64(n.wrapping_add(d).wrapping_sub(1), d)
}

/// `ilog2`: floor of the binary logarithm; -1 for 0.
pub fn ilog2(n: u64) -> i64 {
    63 - i64::from(n.leading_zeros())
}

/// `roundup_pow_of_two`: smallest power of two that is at least `n`, for `n` from 1 to 2^63.
pub fn roundup_pow_of_two(n: u64) -> u64 {
    n.next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_64_bit_divisor_loses_its_upper_half() {
        assert_eq!(div_u64(100, (7 << 32) | 3), 33);
        assert_eq!(div_round_up_ull(10, 4), 3);
        assert_eq!(div_round_up_ull(0, (1 << 32) | 1), 1 << 32);
    }

    #[test]
    fn logarithms_round_down_and_powers_up() {
        assert_eq!([ilog2(0), ilog2(1), ilog2(7), ilog2(8), ilog2(u64::MAX)], [-1, 0, 2, 3, 63]);
        assert_eq!([300, 750, 3000].map(roundup_pow_of_two), [512, 1024, 4096]);
    }

    #[test]
    fn rounding_up_wraps() {
        assert_eq!(div_round_up(9, 8), 2);
        assert_eq!(div_round_up(u64::MAX, 8), 0);
    }
}
