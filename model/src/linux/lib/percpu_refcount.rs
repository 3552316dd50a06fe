//! Per-CPU reference counts with a kill switch.
//!
//! Mirrors:    lib/percpu-refcount.c and include/linux/percpu-refcount.h; fidelity: mirror.
//! Simplified: storage is inline, so `percpu_ref_init` fails only where its owner's allocation does; no reinit, no switch
//!             back to per-CPU mode (nothing here uses them).
//! Locks:      percpu_ref_switch_lock around kill; per-CPU updates inside RCU read sections.
//! Ordering:   DEAD and ATOMIC are stored before the grace period of the switch starts; loading the flags and updating the
//!             counter are two steps of one read section; the bias stays until the per-CPU sum is added, in one operation.
//! Rules:      LT-REF-1, LT-REF-2, LT-REF-3, LT-REF-4, LT-MEM-4.

use crate::kfn;
use crate::linux::globals;
use crate::mutants::{Mutant, mutated};
use crate::sync::{
    Field, FieldInfo, FnPtr, Fut, Observed, PerCpuLong, Pred, Ptr, TypeInfo, Var, call_rcu, fatal, rcu_read_lock, report, wait_event, wake_up_all, with,
};

const ATOMIC: u64 = 1;
const DEAD: u64 = 2;
/// Per-CPU storage exists.
const STORAGE: u64 = 4;
/// Between init and exit.
const LIVE: u64 = 8;
/// `PERCPU_COUNT_BIAS`
pub const PERCPU_COUNT_BIAS: i64 = i64::MIN;

/// `struct percpu_ref` with its data; all zero means never initialised.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PercpuRef(pub Ptr);

const PTR: u32 = 0;
const COUNT: u32 = 1;
const CONFIRM: u32 = 2;
const RELEASE: u32 = 3;
const RCU: u32 = 4;
const PERCPU: u32 = 5;

/// Names of its parts in traces.
static PERCPU_REF: TypeInfo = {
    const fn part(name: &'static str, off: u32, cells: u32) -> FieldInfo {
        FieldInfo { name, off, cells, inner: None }
    }
    TypeInfo {
        label: "percpu_ref",
        mem_rule: "LT-MEM-4",
        cells: PercpuRef::CELLS,
        fields: &[
            part("percpu_count_ptr", PTR, 1),
            part("count", COUNT, 1),
            part("confirm_switch", CONFIRM, 1),
            part("release", RELEASE, 1),
            part("rcu", RCU, 1),
            part("percpu_count", PERCPU, PerCpuLong::CELLS),
        ],
    }
};

impl Field for PercpuRef {
    const CELLS: u32 = PERCPU + PerCpuLong::CELLS;
    const INNER: Option<&'static TypeInfo> = Some(&PERCPU_REF);
    fn at(p: Ptr) -> Self {
        PercpuRef(p)
    }
}

impl PercpuRef {
    fn ptr(self) -> Var<u64> {
        Var::at(self.0.add(PTR))
    }
    fn count(self) -> Var<i64> {
        Var::at(self.0.add(COUNT))
    }
    fn confirm_switch(self) -> Var<FnPtr> {
        Var::at(self.0.add(CONFIRM))
    }
    fn release(self) -> Var<FnPtr> {
        Var::at(self.0.add(RELEASE))
    }
    fn percpu(self) -> PerCpuLong {
        PerCpuLong::at(self.0.add(PERCPU))
    }

    /// `percpu_ref_init`: per-CPU mode, count one plus bias.
    pub fn init(self, release: fn(Ptr) -> Fut) {
        self.ptr().set(LIVE | STORAGE);
        self.count().set(PERCPU_COUNT_BIAS + 1);
        self.release().set(FnPtr::new(release));
        self.confirm_switch().set(FnPtr::NULL);
    }

    /// Loads the flags, as every fast path does; an operation outside init..exit is reported here.
    async fn flags(self, what: &str) -> u64 {
        let f = self.ptr().read_once().await;
        if f & LIVE == 0 {
            let n = with(|m| m.mem.name(self.0));
            fatal("LT-MEM-4", format!("{what} on {n} outside percpu_ref_init..percpu_ref_exit"));
        }
        f
    }

    /// The per-CPU update of a fast path; the storage must still be there.
    async fn this_cpu_add(self, v: i64) {
        self.percpu().this_cpu_add(v).await;
        if self.ptr().get() & STORAGE == 0 {
            let n = with(|m| m.mem.name(self.0));
            fatal("LT-MEM-4", format!("per-cpu update of {n} after its per-cpu storage was freed"));
        }
    }

    /// `percpu_ref_get`: only while owning a reference.
    pub async fn get(self) {
        self.get_many(1).await;
    }
    /// `percpu_ref_get_many`
    pub async fn get_many(self, nr: i64) {
        let call = Observed::begin();
        let _rcu = rcu_read_lock();
        if self.flags("percpu_ref_get").await & (ATOMIC | DEAD) == 0 {
            self.this_cpu_add(nr).await;
        } else {
            self.count().add_blindly(nr).await;
        }
        call.returns(0u64);
    }
    /// `percpu_ref_tryget`: succeeds until the count is zero, dead or not.
    pub async fn tryget(self) -> bool {
        let call = Observed::begin();
        let _rcu = rcu_read_lock();
        let got = if self.flags("percpu_ref_tryget").await & (ATOMIC | DEAD) == 0 {
            self.this_cpu_add(1).await;
            true
        } else {
            self.count().add_unless(1, 0).await != 0
        };
        call.returns(got)
    }
    /// `percpu_ref_tryget_live`: fails once DEAD is seen.
    pub async fn tryget_live(self) -> bool {
        let call = Observed::begin();
        let _rcu = rcu_read_lock();
        let f = self.flags("percpu_ref_tryget_live").await;
        let got = if f & (ATOMIC | DEAD) == 0 {
            self.this_cpu_add(1).await;
            true
        } else if f & DEAD == 0 {
            self.count().add_unless(1, 0).await != 0
        } else {
            false
        };
        call.returns(got)
    }
    /// `percpu_ref_put`
    pub async fn put(self) {
        self.put_many(1).await;
    }
    /// `percpu_ref_put_many`: at zero the release callback runs here, in the caller's context.
    pub async fn put_many(self, nr: i64) {
        let call = Observed::begin();
        let _rcu = rcu_read_lock();
        if self.flags("percpu_ref_put").await & (ATOMIC | DEAD) == 0 {
            self.this_cpu_add(-nr).await;
        } else if (if nr == 1 { self.count().dec().await } else { self.count().fetch_add(-nr).await }) == nr {
            self.release().get().call(self.0).await;
        }
        call.returns(0u64);
    }
    /// `percpu_ref_is_dying`
    pub fn is_dying(self) -> bool {
        self.ptr().get() & DEAD != 0
    }

    /// `percpu_ref_is_dying` by a task that nothing orders after the kill: a scheduling point.
    pub async fn is_dying_once(self) -> bool {
        self.ptr().read_once().await & DEAD != 0
    }

    /// `percpu_ref_kill`
    pub async fn kill(self) {
        self.kill_and_confirm(FnPtr::NULL).await;
    }
    /// `percpu_ref_kill_and_confirm`: `confirm` runs once every CPU sees the reference as dead.
    pub async fn kill_and_confirm(self, confirm: FnPtr) {
        kfn!(percpu_ref_kill_and_confirm);
        let g = globals();
        let mut lock = g.percpu_ref_switch_lock().lock_irq().await;
        if self.is_dying() {
            let n = with(|m| m.mem.name(self.0));
            report("LT-REF-3", format!("{n} killed a second time"));
        }
        self.ptr().set(self.ptr().get() | DEAD);
        while !self.confirm_switch().get().is_null() {
            drop(lock);
            wait_event(g.percpu_ref_switch_waitq(), self.confirm_switch().ptr(), Pred::Zero).await;
            lock = g.percpu_ref_switch_lock().lock_irq().await;
        }
        if self.ptr().get() & ATOMIC == 0 {
            self.ptr().set(self.ptr().get() | ATOMIC);
            self.confirm_switch().set(if confirm.is_null() { FnPtr::new(percpu_ref_noop_confirm_switch) } else { confirm });
            self.count().set(self.count().get() + 1);
            if mutated(Mutant::OrdNoSwitchGp) {
                switch_to_atomic(self).await;
            } else {
                call_rcu(self.0.add(RCU), "percpu_ref_switch_to_atomic_rcu", percpu_ref_switch_to_atomic_rcu);
            }
        } else if !confirm.is_null() {
            confirm.call(self.0).await;
        }
        self.put().await;
        drop(lock);
    }

    /// `percpu_ref_exit`
    pub fn exit(self) {
        self.ptr().set(ATOMIC | DEAD);
    }

    /// True count, from memory alone: for oracles. `None` outside init..exit.
    pub fn peek_count(self, m: &crate::sync::Machine) -> Option<i64> {
        let f = m.mem.peek(self.0.add(PTR));
        if f & LIVE == 0 {
            return None;
        }
        let mut c = m.mem.peek(self.0.add(COUNT)) as i64;
        if f & STORAGE != 0 {
            c = c.wrapping_sub(PERCPU_COUNT_BIAS);
            for i in 0..PerCpuLong::CELLS {
                c = c.wrapping_add(m.mem.peek(self.0.add(PERCPU + i)) as i64);
            }
        }
        Some(c)
    }
    /// Killed, and the per-CPU counters are folded: from memory alone, for oracles.
    pub fn peek_folded(self, m: &crate::sync::Machine) -> bool {
        m.mem.peek(self.0.add(PTR)) & (LIVE | DEAD | STORAGE) == LIVE | DEAD
    }
    /// The cell that says in which stage of its life it is: for oracles.
    pub fn stage(self) -> Ptr {
        self.0.add(PTR)
    }
    /// The cells that make up its count: for oracles.
    pub fn counters(self) -> impl Iterator<Item = Ptr> {
        [PTR, COUNT].into_iter().chain(PERCPU..PERCPU + PerCpuLong::CELLS).map(move |off| self.0.add(off))
    }
    /// DEAD as stored, from memory alone: for oracles.
    pub fn peek_dead(self, m: &crate::sync::Machine) -> bool {
        m.mem.peek(self.0.add(PTR)) & DEAD != 0
    }
}

fn percpu_ref_noop_confirm_switch(_: Ptr) -> Fut {
    Box::pin(async {})
}

fn percpu_ref_switch_to_atomic_rcu(rcu: Ptr) -> Fut {
    Box::pin(async move {
        kfn!(percpu_ref_switch_to_atomic_rcu);
        switch_to_atomic(PercpuRef(rcu.sub(RCU))).await;
    })
}

async fn switch_to_atomic(r: PercpuRef) {
    let mut sum = 0i64;
    for cpu in 0..PerCpuLong::cpus() {
        sum += r.percpu().read(cpu).await as i64;
    }
    if mutated(Mutant::OrdBiasFirst) {
        // Removing the bias before the sum is added lets the count be zero in between.
        r.count().fetch_add(PERCPU_COUNT_BIAS.wrapping_neg()).await;
        r.count().fetch_add(sum).await;
    } else {
        r.count().add_blindly(sum.wrapping_sub(PERCPU_COUNT_BIAS)).await;
    }
    // The per-CPU storage goes now, so that an operation with an old view of the flags would be seen.
    r.ptr().set(r.ptr().get() & !STORAGE);
    r.confirm_switch().get().call(r.0).await;
    r.confirm_switch().write_once(FnPtr::NULL).await;
    wake_up_all(globals().percpu_ref_switch_waitq()).await;
    r.put().await;
}
