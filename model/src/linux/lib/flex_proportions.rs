//! Floating proportions: each user's share of events, ageing by halves.
//!
//! Mirrors:    lib/flex_proportions.c; fidelity: mirror.
//! Simplified: the CPU and percpu_counter's batch are arguments; every operation is one step.
//! Locks:      none; in the kernel the local lock covers ageing and a sequence count covers a new period.

use super::percpu_counter::PercpuCounter;
use crate::linux::include::math64::{div_u64, ilog2};

/// `FPROP_FRAC_SHIFT`
pub const FPROP_FRAC_SHIFT: u32 = 10;
/// `FPROP_FRAC_BASE`: a share of one.
pub const FPROP_FRAC_BASE: u64 = 1 << FPROP_FRAC_SHIFT;

/// `struct fprop_global`: events of all users.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FpropGlobal {
    /// Events, aged.
    pub events: PercpuCounter,
    /// Periods declared.
    pub period: u32,
}

/// `struct fprop_local_percpu`: events of one user.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct FpropLocalPercpu {
    /// Events, aged up to `period`.
    pub events: PercpuCounter,
    /// Period of the last change.
    pub period: u32,
}

/// Where an operation runs, and the batch of plain counter additions ([`super::percpu_counter::percpu_counter_batch`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OnCpu {
    /// CPU, below the counters' number of CPUs.
    pub cpu: usize,
    /// `percpu_counter_batch`
    pub batch: i32,
}

/// `PROP_BATCH`, the same number as WB_STAT_BATCH: 8 * (1 + ilog2(nr_cpu_ids)).
pub fn prop_batch(nr_cpu_ids: u32) -> i32 {
    8 * (1 + ilog2(u64::from(nr_cpu_ids)) as i32)
}

impl FpropGlobal {
    /// `fprop_global_init`: one event, so that no period is without.
    pub fn new(nr_cpu_ids: u32) -> Self {
        FpropGlobal { events: PercpuCounter::new(1, nr_cpu_ids), period: 0 }
    }

    /// `fprop_new_period`: declares periods; false if ageing has left no event, so that more periods change nothing.
    pub fn new_period(&mut self, periods: i32, on: OnCpu) -> bool {
        let mut events = self.events.sum();
        if events <= 1 {
            return false;
        }
        if periods < 64 {
            // The shift count is taken modulo 64, should it be negative.
            events = events.wrapping_sub(events.wrapping_shr(periods as u32));
        }
        self.events.add_batch(on.cpu, events.wrapping_neg(), on.batch);
        self.period = self.period.wrapping_add(periods as u32);
        true
    }
}

impl FpropLocalPercpu {
    /// `fprop_local_init_percpu`
    pub fn new(nr_cpu_ids: u32) -> Self {
        FpropLocalPercpu { events: PercpuCounter::new(0, nr_cpu_ids), period: 0 }
    }

    /// `fprop_reflect_period_percpu`: ages by the periods declared since the last change.
    fn reflect_period(&mut self, p: &FpropGlobal, cpu: usize) {
        let period = p.period;
        if self.period >= period {
            return;
        }
        let missed = period - self.period;
        if missed < u64::BITS {
            let nr_cpu_ids = self.events.nr_cpu_ids();
            let batch = prop_batch(nr_cpu_ids);
            let mut val = self.events.read();
            if val < i64::from(nr_cpu_ids.wrapping_mul(batch as u32)) {
                val = self.events.sum();
            }
            self.events.add_batch(cpu, (val >> missed).wrapping_sub(val), batch);
        } else {
            self.events.set(0);
        }
        self.period = period;
    }

    /// `__fprop_add_percpu`: `nr` events of this user.
    pub fn add(&mut self, p: &mut FpropGlobal, nr: i64, on: OnCpu) {
        self.reflect_period(p, on.cpu);
        self.events.add_batch(on.cpu, nr, prop_batch(self.events.nr_cpu_ids()));
        p.events.add_batch(on.cpu, nr, on.batch);
    }

    /// `fprop_fraction_percpu`: numerator and denominator of this user's share, at most 1; the denominator is not 0.
    pub fn fraction(&mut self, p: &FpropGlobal, cpu: usize) -> (u64, u64) {
        self.reflect_period(p, cpu);
        normalised(self.events.read_positive() as u64, p.events.read_positive() as u64)
    }

    /// `__fprop_add_percpu_max`: counts as many of `nr` events as keep the share at `max_frac` / [`FPROP_FRAC_BASE`].
    pub fn add_max(&mut self, p: &mut FpropGlobal, max_frac: u32, nr: i64, on: OnCpu) {
        let mut nr = nr;
        let max_frac = u64::from(max_frac);
        if max_frac < FPROP_FRAC_BASE {
            let (numerator, denominator) = self.fraction(p, on.cpu);
            let room = denominator.wrapping_mul(max_frac).wrapping_sub(numerator << FPROP_FRAC_SHIFT);
            let free = FPROP_FRAC_BASE - max_frac;
            if (room as i64) < 0 {
                return;
            }
            // An unsigned comparison, because the right side is.
            if room < (nr as u64).wrapping_mul(free) {
                nr = div_u64(room.wrapping_add(free).wrapping_sub(1), free) as i64;
            }
        }
        self.add(p, nr, on);
    }
}

/// A fraction of at most 1 whose denominator is not 0, in spite of counter errors.
pub fn normalised(numerator: u64, denominator: u64) -> (u64, u64) {
    if denominator <= numerator { (numerator, numerator.max(1)) } else { (numerator, denominator) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ON: OnCpu = OnCpu { cpu: 0, batch: 32 };

    #[test]
    fn ageing_halves_both_sides() {
        let (mut p, mut l) = (FpropGlobal::new(1), FpropLocalPercpu::new(1));
        l.add(&mut p, 1000, ON);
        assert_eq!(l.fraction(&p, 0), (1000, 1001));
        assert!(p.new_period(2, ON));
        assert_eq!(l.fraction(&p, 0), (250, 250));
    }

    #[test]
    fn without_events_a_period_is_not_declared() {
        let mut p = FpropGlobal::new(4);
        assert!(!p.new_period(1, ON));
        assert_eq!(p.period, 0);
    }

    #[test]
    fn a_share_is_capped() {
        let (mut p, mut a, mut b) = (FpropGlobal::new(1), FpropLocalPercpu::new(1), FpropLocalPercpu::new(1));
        a.add(&mut p, 10_000, ON);
        b.add_max(&mut p, 512, 1_000_000, ON);
        let (num, den) = b.fraction(&p, 0);
        assert!(2 * num <= den + 2, "{num}/{den}");
        assert!(2 * num + 2 >= den, "{num}/{den}");
        let before = b.clone();
        b.add_max(&mut p, 10, 1, ON);
        assert_eq!(b, before);
    }

    #[test]
    fn after_64_periods_nothing_is_left() {
        let (mut p, mut l) = (FpropGlobal::new(1), FpropLocalPercpu::new(1));
        l.add(&mut p, 1 << 40, ON);
        assert!(p.new_period(64, ON));
        assert_eq!(l.fraction(&p, 0), (0, 1));
    }
}
