//! Per-CPU data, and what makes a CPU one's own for a while.
//!
//! Main types: [`PerCpu`], one object for each possible CPU; [`PerCpuLong`], a small array of longs inside another object.
//! A `this_cpu` operation of the kernel is one instruction: no interrupt of the same CPU comes between its load and its store, but
//! a store of another CPU may, and is lost. Where only the own CPU ever stores it is one step ([`Var::this_cpu_add`]),
//! otherwise two.

use super::atomic::{Var, Word};
use super::machine::{Machine, with};
use super::mem::{Field, NULL, Ptr, TypeInfo, kcalloc_nofail};
use super::op::{BLIND, Kind, Op};
use super::step::{Step, step, step_at};
use super::weak::RELAXED;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::Location;

/// Slots of a [`PerCpuLong`]; more CPUs than that share them.
pub const NR_CPUS: u32 = 4;

/// `long __percpu *`, inside another object.
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
        let cpu = with(|m| m.this_cpu()) % NR_CPUS;
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
    /// Number of slots in use.
    pub fn cpus() -> u32 {
        with(|m| m.config.nr_cpus).min(NR_CPUS)
    }
}

/// `T __percpu *`: one `T` for each possible CPU, allocated together.
pub struct PerCpu<T>(Ptr, PhantomData<T>);

impl<T> Clone for PerCpu<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for PerCpu<T> {}

impl<T> Word for PerCpu<T> {
    fn to_word(self) -> u64 {
        self.0.to_word()
    }
    fn from_word(w: u64) -> Self {
        PerCpu(Ptr::from_word(w), PhantomData)
    }
}

impl<T: Field> PerCpu<T> {
    /// The null pointer.
    pub const NULL: Self = PerCpu(NULL, PhantomData);

    /// `alloc_percpu` of objects described by `ty`; never fails.
    #[track_caller]
    pub fn alloc(ty: &'static TypeInfo) -> Self {
        debug_assert_eq!(ty.cells, T::CELLS);
        PerCpu(kcalloc_nofail(ty, nr_cpu_ids()), PhantomData)
    }
    /// True for the null pointer.
    pub fn is_null(self) -> bool {
        self.0.is_null()
    }
    /// Address of the allocation, for `free_percpu`.
    pub fn ptr(self) -> Ptr {
        self.0
    }
    /// `per_cpu_ptr`
    #[inline]
    pub fn cpu(self, cpu: u32) -> T {
        T::at(self.0.add(cpu * T::CELLS))
    }
}

/// `nr_cpu_ids`: the possible CPUs are 0 up to this.
pub fn nr_cpu_ids() -> u32 {
    with(|m| m.config.nr_cpus)
}

/// The running task stays on its CPU, and is not preempted there, until this is dropped.
#[must_use = "preemption is switched on again when the guard is dropped"]
pub struct CpuGuard(u32);

impl CpuGuard {
    /// The CPU.
    pub fn cpu(&self) -> u32 {
        self.0
    }
}

/// `get_cpu()`. The section begins with the task's next operation, as a read section of RCU does, and it is one.
pub fn get_cpu() -> CpuGuard {
    with(|m| {
        let s = m.current;
        m.tasks[s].preempt_lazy += 1;
        CpuGuard(m.this_cpu())
    })
}

impl Drop for CpuGuard {
    /// `put_cpu()`
    fn drop(&mut self) {
        with(|m| {
            if m.aborted {
                return;
            }
            let s = m.current;
            if m.tasks[s].preempt_lazy > 0 {
                m.tasks[s].preempt_lazy -= 1;
            } else {
                m.tasks[s].preempt_off -= 1;
                m.reader_changed(s);
            }
        });
    }
}

/// Interrupts of this CPU are off until this is dropped.
struct IrqOff(());

impl IrqOff {
    fn new() -> IrqOff {
        with(|m| {
            let s = m.current;
            m.tasks[s].irq_off += 1;
        });
        IrqOff(())
    }
}

impl Drop for IrqOff {
    fn drop(&mut self) {
        with(|m: &mut Machine| {
            let s = m.current;
            if !m.aborted {
                m.tasks[s].irq_off -= 1;
            }
        });
    }
}

impl<T: Word + Unpin> Var<T> {
    /// Loads, then stores `new` of what was loaded, with interrupts off in between; yields what was loaded.
    #[track_caller]
    fn this_cpu_update(self, new: impl FnOnce(T) -> T) -> impl Future<Output = T> {
        let site = Location::caller();
        let p = self.ptr();
        let load = Op::new(Kind::Load, p);
        let store = move |old: T| Op { kind: Kind::Store, obj: p, a: new(old).to_word(), b: 0 };
        async move {
            if with(|m| m.immediate) {
                // Nothing comes between.
                return with(|m| {
                    let old = T::from_word(m.perform_at_once(load, site));
                    m.perform_at_once(store(old), site);
                    old
                });
            }
            let old = T::from_word(step_at(load, site).await);
            let _irq = IrqOff::new();
            step_at(store(old), site).await;
            old
        }
    }
    /// `this_cpu_xchg`: yields the old value.
    #[track_caller]
    pub fn this_cpu_xchg(self, v: T) -> impl Future<Output = T> {
        self.this_cpu_update(move |_| v)
    }
    /// `this_cpu_cmpxchg`: yields the old value, which equals `old` exactly on success. One that fails stores the old value back,
    /// as the unlocked instruction does.
    #[track_caller]
    pub fn this_cpu_cmpxchg(self, old: T, new: T) -> impl Future<Output = T> {
        self.this_cpu_update(move |v| if v.to_word() == old.to_word() { new } else { v })
    }
}

impl Var<i64> {
    /// `this_cpu_add`, of a variable that only its own CPU stores to: one step, not ordered, and nobody learns the old value.
    #[track_caller]
    pub fn this_cpu_add(self, v: i64) -> Step {
        let b = if with(|m| m.config.weak) { RELAXED } else { BLIND };
        step(Op { kind: Kind::Add, obj: self.ptr(), a: v as u64, b })
    }
    /// `this_cpu_add_return`: yields the new value.
    #[track_caller]
    pub fn this_cpu_add_return(self, v: i64) -> impl Future<Output = i64> {
        let add = self.this_cpu_update(move |old| old.wrapping_add(v));
        async move { add.await.wrapping_add(v) }
    }
}
