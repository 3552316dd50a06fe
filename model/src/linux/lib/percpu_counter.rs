//! A counter with a part on each CPU: cheap to change, cheap to read with an error, exact by summing.
//!
//! Mirrors:    lib/percpu_counter.c; fidelity: mirror.
//! Simplified: the CPU that changes it is an argument; every change is one step. CPUs stay online.
//! Locks:      none; in the kernel fbc->lock covers `count`.

/// `struct percpu_counter`. At rest every per-CPU part is smaller than the batch it was last changed with.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PercpuCounter {
    count: i64,
    counters: Vec<i32>,
}

/// `percpu_counter_batch`: what [`PercpuCounter::add_batch`] is given where the kernel calls `percpu_counter_add`.
pub fn percpu_counter_batch(online_cpus: u32) -> i32 {
    (online_cpus.wrapping_mul(2) as i32).max(32)
}

impl PercpuCounter {
    /// `percpu_counter_init`, for CPUs 0 to `nr_cpu_ids - 1`.
    pub fn new(amount: i64, nr_cpu_ids: u32) -> Self {
        PercpuCounter { count: amount, counters: vec![0; nr_cpu_ids as usize] }
    }

    /// Number of CPUs.
    pub fn nr_cpu_ids(&self) -> u32 {
        self.counters.len() as u32
    }

    /// `percpu_counter_set`
    pub fn set(&mut self, amount: i64) {
        self.counters.fill(0);
        self.count = amount;
    }

    /// `percpu_counter_add_batch` on CPU `cpu`: the part of that CPU moves to the shared count once it reaches `batch`.
    ///
    /// # Panics
    /// If the counter has no CPU of that number.
    pub fn add_batch(&mut self, cpu: usize, amount: i64, batch: i32) {
        let part = &mut self.counters[cpu];
        let count = i64::from(*part).wrapping_add(amount);
        if count.wrapping_abs() >= i64::from(batch) {
            self.count = self.count.wrapping_add(count);
            *part = 0;
        } else {
            *part = count as i32;
        }
    }

    /// `percpu_counter_read`: without the per-CPU parts.
    pub fn read(&self) -> i64 {
        self.count
    }

    /// `percpu_counter_read_positive`: as [`Self::read`], negative as 0.
    pub fn read_positive(&self) -> i64 {
        self.count.max(0)
    }

    /// `percpu_counter_sum`: exact.
    pub fn sum(&self) -> i64 {
        self.counters.iter().fold(self.count, |sum, part| sum.wrapping_add(i64::from(*part)))
    }

    /// `percpu_counter_sum_positive`: as [`Self::sum`], negative as 0.
    pub fn sum_positive(&self) -> i64 {
        self.sum().max(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_moves_when_it_reaches_the_batch_in_size() {
        let mut c = PercpuCounter::new(5, 2);
        c.add_batch(0, 31, 32);
        c.add_batch(1, -31, 32);
        assert_eq!((c.read(), c.sum()), (5, 5));
        c.add_batch(0, 1, 32);
        assert_eq!((c.read(), c.sum()), (37, 6));
        c.add_batch(1, -1, 32);
        assert_eq!((c.read(), c.sum()), (5, 5));
    }

    #[test]
    fn reads_can_be_negative_and_positive_reads_cannot() {
        let mut c = PercpuCounter::new(0, 2);
        c.add_batch(0, 20, 32);
        c.add_batch(1, -40, 32);
        assert_eq!((c.read(), c.read_positive(), c.sum(), c.sum_positive()), (-40, 0, -20, 0));
        c.set(9);
        assert_eq!((c.read(), c.sum()), (9, 9));
    }
}
