//! Per-CPU longs: one cell a CPU.

use super::machine::with;
use super::mem::{Field, Ptr};
use super::op::{BLIND, Kind, Op};
use super::step::{Step, step};

/// Most CPUs that per-CPU variables have room for.
pub const NR_CPUS: u32 = 4;

/// `long __percpu *`
#[derive(Clone, Copy, Debug)]
pub struct PerCpuLong(Ptr);

impl Field for PerCpuLong {
    const CELLS: u32 = NR_CPUS;
    fn at(p: Ptr) -> Self {
        PerCpuLong(p)
    }
}

impl PerCpuLong {
    /// `this_cpu_add`: one indivisible step on the running task's CPU. Nobody learns the old value, so additions commute.
    #[track_caller]
    pub fn this_cpu_add(self, v: i64) -> impl Future<Output = ()> {
        let cpu = with(|m| m.this_cpu());
        let add = step(Op { kind: Kind::Add, obj: self.0.add(cpu), a: v as u64, b: BLIND });
        async move {
            add.await;
        }
    }
    /// Reads one CPU's value.
    #[track_caller]
    pub fn read(self, cpu: u32) -> Step {
        step(Op::new(Kind::Load, self.0.add(cpu)))
    }
    /// Reads one CPU's value plainly.
    pub fn get(self, cpu: u32) -> i64 {
        with(|m| m.read(self.0.add(cpu))) as i64
    }
    /// Number of CPUs in use.
    pub fn cpus() -> u32 {
        with(|m| m.config.nr_cpus).min(NR_CPUS)
    }
}
