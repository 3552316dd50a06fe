//! Amounts with units: how they are read, and the shortest way to write them.
//!
//! `GB`, `MB`, `KB` are powers of 1000 and `GiB`, `MiB`, `KiB` powers of 1024, as on the packaging of disks and in the kernel's
//! messages. An amount that is not a whole number of the smallest unit is refused, so that nothing is rounded unseen.

use crate::text::{Bad, nearest};

/// A unit and its factor.
pub(super) type Unit = (&'static str, u64);

/// Bytes, largest first.
pub(super) const BYTES: &[Unit] = &[
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1000),
    ("B", 1),
];
/// Bytes a second.
pub(super) const RATES: &[Unit] = &[
    ("TiB/s", 1 << 40),
    ("TB/s", 1_000_000_000_000),
    ("GiB/s", 1 << 30),
    ("GB/s", 1_000_000_000),
    ("MiB/s", 1 << 20),
    ("MB/s", 1_000_000),
    ("KiB/s", 1 << 10),
    ("KB/s", 1000),
    ("B/s", 1),
];
/// Microseconds.
pub(super) const MICROS: &[Unit] = &[("s", 1_000_000), ("ms", 1000), ("us", 1)];
/// Nanoseconds.
pub(super) const NANOS: &[Unit] = &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1000), ("ns", 1)];
/// Hundredths of a second.
pub(super) const CENTIS: &[Unit] = &[("s", 100), ("cs", 1)];
/// Parts of a million.
pub(super) const PPM: &[Unit] = &[("%", 10_000), ("ppm", 1)];
/// Percent.
pub(super) const PERCENT: &[Unit] = &[("%", 1)];

/// Largest amount, in the smallest unit.
pub(super) const MAX: u64 = 1 << 53;

/// The amount in the smallest unit.
pub(super) fn read(text: &str, units: &[Unit]) -> Result<u64, Bad> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let named = || units.iter().map(|u| u.0).collect::<Vec<_>>().join(", ");
    if whole.is_empty() || part.contains('.') || (digits.contains('.') && part.is_empty()) {
        return Err(Bad::new(format!("`{text}` is not an amount")).help(format!("an amount is a number and a unit, as in 5{}", units[0].0)));
    }
    if unit.is_empty() {
        return Err(Bad::new(format!("`{text}` has no unit")).help(format!("units are {}", named())));
    }
    let Some((_, factor)) = units.iter().find(|u| u.0 == unit) else {
        let bad = Bad::new(format!("no unit called `{unit}`"));
        return Err(match nearest(unit, units.iter().map(|u| u.0)) {
            Some(n) => bad.help(format!("did you mean `{n}`? units are {}", named())),
            None => bad.help(format!("units are {}", named())),
        });
    };
    if whole.len() > 18 || part.len() > 18 {
        return Err(Bad::new(format!("`{text}` has too many digits")));
    }
    let scale = 10u128.pow(part.len() as u32);
    let parse = |s: &str| if s.is_empty() { 0 } else { s.parse::<u128>().unwrap_or(u128::MAX) };
    // At most 10^36 in all: two numbers of 18 digits, and a factor of which the result is below 2^53 or refused.
    let amount = (parse(whole) * scale + parse(part)).saturating_mul(u128::from(*factor));
    if amount % scale != 0 {
        let smallest = units[units.len() - 1].0;
        return Err(Bad::new(format!("`{text}` is not a whole number of {smallest}")));
    }
    u64::try_from(amount / scale).ok().filter(|n| *n <= MAX).ok_or_else(|| Bad::new(format!("`{text}` is too large")))
}

/// The amount in the largest unit of which it is a whole number.
pub(super) fn write(amount: u64, units: &[Unit]) -> String {
    let smallest = units[units.len() - 1];
    let (unit, factor) = units.iter().find(|u| amount != 0 && amount.is_multiple_of(u.1)).unwrap_or(&smallest);
    format!("{}{unit}", amount / factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_are_exact() {
        assert_eq!(read("8GB", BYTES), Ok(8_000_000_000));
        assert_eq!(read("8GiB", BYTES), Ok(8 << 30));
        assert_eq!(read("1.25GB/s", RATES), Ok(1_250_000_000));
        assert_eq!(read("0.2s", MICROS), Ok(200_000));
        assert_eq!(read("1.5%", PPM), Ok(15_000));
        assert_eq!(write(8_000_000_000, BYTES), "8GB");
        assert_eq!(write(1_250_000_000, RATES), "1250MB/s");
        assert_eq!(write(0, BYTES), "0B");
    }

    #[test]
    fn wrong_amounts_are_told_apart() {
        let bad = |text: &str, units| {
            let b = read(text, units).unwrap_err();
            format!("{}; {}", b.message, b.help.unwrap_or_default())
        };
        assert_eq!(bad("8", BYTES), "`8` has no unit; units are TiB, TB, GiB, GB, MiB, MB, KiB, KB, B");
        assert_eq!(bad("8gb", PERCENT), "no unit called `gb`; units are %");
        assert_eq!(bad("8sec", MICROS), "no unit called `sec`; units are s, ms, us");
        assert_eq!(bad("0.5us", MICROS), "`0.5us` is not a whole number of us; ");
        assert_eq!(bad("fast", MICROS), "`fast` is not an amount; an amount is a number and a unit, as in 5s");
        assert_eq!(bad("1.s", MICROS), "`1.s` is not an amount; an amount is a number and a unit, as in 5s");
        assert_eq!(bad("-1s", MICROS), "`-1s` is not an amount; an amount is a number and a unit, as in 5s");
        assert_eq!(bad("999999999999999999TB", BYTES), "`999999999999999999TB` is too large; ");
        assert_eq!(bad("9999999999999999999B", BYTES), "`9999999999999999999B` has too many digits; ");
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(n in 0..=MAX, which in 0usize..7) {
            let units = [BYTES, RATES, MICROS, NANOS, CENTIS, PPM, PERCENT][which];
            prop_assert_eq!(read(&write(n, units), units), Ok(n));
        }
    }
}
