//! A memcg's statistics: per-CPU changes, totals as of the last flush, and when somebody flushes.
//!
//! Mirrors:    mm/memcontrol.c, memcg_vmstats_needs_flush() to mod_memcg_state(), mem_cgroup_css_rstat_flush(),
//!             reparent_state_local(), mem_cgroup_wb_stats(), memcg_hotplug_cpu_dead(); fidelity: mirror.
//! Simplified: the items that dirty limits need and one in bytes; no events, no node has statistics of its own (what 7.3.4 keeps in
//!             a memcg's node is kept in the memcg); no NMI counters; allocations do not fail.
//! Locks:      rstat_ss_lock around state_prev, the totals and what is pending; preemption off around an update.
//! Ordering:   none; readers take single totals as they are.
//! Rules:      TH-RST-1 to TH-RST-6, TH-RST-10, TH-RST-11, TH-RST-13.
//!
//! Two counters are the model's own, for policies that 7.3.4 has not: exact ones of dirty pages and pages under writeback, and
//! the pages dirtied since the last flush.

use crate::container_of;
use crate::kfn;
use crate::kstruct;
use crate::linux::include::cgroup_defs::{CSS_DYING, CSS_ONLINE, Css, MemCgroup};
use crate::linux::kernel::cgroup::rstat::{RstatSubsys, css_rstat_flush, css_rstat_init, css_rstat_updated, ss_rstat_init};
use crate::linux::kernel::workqueue::SYSTEM_DFL_WQ;
use crate::linux::mm::memcontrol::mem_cgroup_css_alloc;
use crate::linux::{boot_globals, globals};
use crate::mutants::{Mutant, mutated};
use crate::policy::FlushPolicy;
use crate::sync::{
    Config, DelayedWork, Field, PerCpu, Ptr, RcuGuard, Tp, Var, Word, WorkFn, emit, get_cpu, immortal, kfree, kzalloc_nofail, nr_cpu_ids, queue_delayed_work,
    rcu_read_lock, rcu_read_unlock, with,
};

/// `MEMCG_CHARGE_BATCH`
pub const MEMCG_CHARGE_BATCH: i64 = 64;
/// Bytes of a page.
const PAGE_SIZE: u64 = 4096;

macro_rules! items {
    ($($(#[$m:meta])* $var:ident $name:literal $unit:expr;)*) => {
        /// A statistic of a memcg.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum StatItem { $($(#[$m])* $var),* }
        impl StatItem {
            /// All of them, by index.
            pub const ALL: &[StatItem] = &[$(StatItem::$var),*];
            /// All of them by their names in memory.stat.
            pub const NAMES: &[(&str, StatItem)] = &[$(($name, StatItem::$var)),*];
            /// Name in memory.stat.
            pub fn name(self) -> &'static str {
                match self { $(StatItem::$var => $name),* }
            }
            /// `memcg_page_state_unit`: bytes that a change by 1 stands for.
            pub fn unit(self) -> u64 {
                match self { $(StatItem::$var => $unit),* }
            }
        }
    };
}

items! {
    /// `NR_FILE_DIRTY`
    FileDirty "file_dirty" PAGE_SIZE;
    /// `NR_WRITEBACK`
    Writeback "file_writeback" PAGE_SIZE;
    /// `NR_INACTIVE_FILE`
    InactiveFile "inactive_file" PAGE_SIZE;
    /// `NR_ACTIVE_FILE`
    ActiveFile "active_file" PAGE_SIZE;
    /// `MEMCG_PERCPU_B`
    PercpuB "percpu" 1;
}

/// Number of items.
pub const NR_ITEMS: u32 = StatItem::ALL.len() as u32;

/// One long for each item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Items(Ptr);

impl Field for Items {
    const CELLS: u32 = NR_ITEMS;
    fn at(p: Ptr) -> Self {
        Items(p)
    }
}

impl Items {
    /// That of one item.
    #[inline]
    pub fn item(self, i: StatItem) -> Var<i64> {
        Var::at(self.0.add(i as u32))
    }
}

kstruct! {
    /// `struct memcg_vmstats_percpu`
    pub struct MemcgVmstatsPercpu: "statc", "LT-MEM-2", statc_fields {
        /// Absolute changes, in pages, not yet moved to the memcg's count: its own and those of its descendants.
        stats_updates: Var<i64>,
        /// That of the parent; null for the root.
        parent_pcpu: Var<PerCpu<MemcgVmstatsPercpu>>,
        /// The memcg's totals.
        vmstats: Var<MemcgVmstats>,
        /// Changes made on this CPU, all in all. Stored to by this CPU only.
        state: Items,
        /// What the flushes have seen of them. rstat_ss_lock.
        state_prev: Items,
    }
}

kstruct! {
    /// `struct memcg_vmstats`
    pub struct MemcgVmstats: "vmstats", "LT-MEM-2", vmstats_fields {
        /// Totals of the subtree as of its last flush. Written under rstat_ss_lock.
        state: Items,
        /// Totals of the memcg alone. Written under rstat_ss_lock.
        state_local: Items,
        /// What children have passed on since. rstat_ss_lock.
        state_pending: Items,
        /// Absolute changes, in pages, since the last flush, as far as they were moved here.
        stats_updates: Var<i64>,
        /// Dirty pages of the subtree, exactly. `FlushPolicy::AtomicPerMemcg` only.
        exact_dirty: Var<i64>,
        /// Pages under writeback, likewise.
        exact_writeback: Var<i64>,
        /// Pages dirtied in the subtree since its last flush. `FlushPolicy::ByPagesDirtied` only.
        nr_dirtied: Var<i64>,
    }
}

kstruct! {
    /// The static variables of memory statistics.
    pub struct Statistics: "memcg_stats", "LT-MEM-0", statistics_fields {
        /// Of `memory_cgrp_subsys`.
        rstat: RstatSubsys,
        /// Jiffies at the start of the last flush of the root.
        flush_last_time: Var<u64>,
        /// The periodic flush.
        stats_flush_dwork: DelayedWork,
        /// `num_online_cpus()`
        num_online_cpus: Var<i64>,
        /// `cpu_online_mask`
        online: Var<PerCpu<OnlineCpu>>,
        /// Jiffies a second.
        hz: Var<u64>,
        /// When the throttling loop flushes.
        policy: Var<FlushPolicy>,
    }
}

kstruct! {
    /// One CPU of the online mask.
    pub struct OnlineCpu: "cpu", "LT-MEM-0", online_fields {
        /// It is online.
        online: Var<bool>,
    }
}

impl Word for FlushPolicy {
    fn to_word(self) -> u64 {
        self as u64
    }
    fn from_word(w: u64) -> FlushPolicy {
        FlushPolicy::NAMES[w as usize].1
    }
}

/// What an entry that may flush did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flushed {
    /// It flushed.
    pub ran: bool,
    /// Pairs of memcg and CPU that were visited.
    pub visits: u32,
}

/// The static variables; null on a machine whose memcgs have no statistics.
#[inline]
pub fn statistics() -> Statistics {
    globals().memcg_stats().get()
}

/// Gives this machine's memcgs statistics, before any of them is made. All CPUs are online.
pub fn boot(policy: FlushPolicy, hz: u64) {
    let s = Statistics(kzalloc_nofail(Statistics::TYPE));
    immortal(s.ptr());
    ss_rstat_init(s.rstat());
    immortal(s.rstat().lhead().get().ptr());
    s.hz().set(hz);
    s.policy().set(policy);
    s.num_online_cpus().set(i64::from(nr_cpu_ids()));
    s.online().set(PerCpu::alloc(OnlineCpu::TYPE));
    immortal(s.online().get().ptr());
    for cpu in 0..nr_cpu_ids() {
        s.online().get().cpu(cpu).online().set(true);
    }
    s.stats_flush_dwork().init(FLUSH_MEMCG_STATS_DWORK, SYSTEM_DFL_WQ);
    globals().memcg_stats().set(s);
}

/// Turns this thread's machine into one that has memory statistics and nothing else, where operations happen at once and no log is
/// kept; yields the root. For a simulation, which makes memcgs with [`memcg_alone`] and sets `globals().jiffies()`.
pub fn boot_alone(nr_cpus: u32, policy: FlushPolicy, hz: u64) -> MemCgroup {
    with(|m| {
        m.reset(Config { nr_cpus, ..Config::default() });
        m.log_on = false;
        m.mem.hash_on = false;
    });
    boot_globals();
    boot(policy, hz);
    let root = memcg_alone(MemCgroup::NULL);
    globals().root_mem_cgroup().set(root.css());
    root
}

/// A memcg without a cgroup and without an id, of which there are few: all that statistics need. Null `parent` for the root.
pub fn memcg_alone(parent: MemCgroup) -> MemCgroup {
    let parent = Css(parent.ptr());
    let css = mem_cgroup_css_alloc(parent);
    immortal(css.ptr());
    css.parent().set(parent);
    css.flags().set(CSS_ONLINE);
    css_rstat_init(css);
    css.memcg()
}

/// Part of `mem_cgroup_alloc`: the counters of a memcg below `parent`, which is null for the root.
pub fn memcg_stats_alloc(memcg: MemCgroup, parent: Css) {
    if statistics().is_null() {
        return;
    }
    if parent.is_null() {
        // Nothing was ever to be flushed.
        statistics().flush_last_time().set(globals().jiffies().get());
    }
    let vmstats = MemcgVmstats(kzalloc_nofail(MemcgVmstats::TYPE));
    let percpu = PerCpu::<MemcgVmstatsPercpu>::alloc(MemcgVmstatsPercpu::TYPE);
    memcg.vmstats().set(vmstats);
    memcg.vmstats_percpu().set(percpu);
    let pstatc = if parent.is_null() { PerCpu::NULL } else { parent.memcg().vmstats_percpu().get() };
    for cpu in 0..nr_cpu_ids() {
        let statc = percpu.cpu(cpu);
        statc.parent_pcpu().set(pstatc);
        statc.vmstats().set(vmstats);
        statc.state().item(StatItem::FileDirty).weak();
    }
}

/// Part of `mem_cgroup_css_free`.
pub fn memcg_stats_free(memcg: MemCgroup) {
    if !memcg.vmstats().get().is_null() {
        kfree(memcg.vmstats_percpu().get().ptr());
        kfree(memcg.vmstats().get().ptr());
    }
}

// ---- updates ---------------------------------------------------------------------------------------------------------

async fn memcg_vmstats_needs_flush(vmstats: MemcgVmstats) -> bool {
    kfn!(memcg_vmstats_needs_flush);
    let gate = if mutated(Mutant::VRstGate) { 4 * MEMCG_CHARGE_BATCH } else { MEMCG_CHARGE_BATCH };
    vmstats.stats_updates().read_once().await > gate * statistics().num_online_cpus().get()
}

/// `memcg_rstat_updated`: counts a change by `val` pages on `cpu`, for the memcg and its ancestors up to one that is due anyway.
async fn memcg_rstat_updated(memcg: MemCgroup, val: i64, cpu: u32) {
    if val == 0 {
        return;
    }
    css_rstat_updated(memcg.css(), cpu).await;
    let mut statc_pcpu = memcg.vmstats_percpu().get();
    while !statc_pcpu.is_null() {
        let statc = statc_pcpu.cpu(cpu);
        let vmstats = statc.vmstats().get();
        if memcg_vmstats_needs_flush(vmstats).await {
            break;
        }
        let stats_updates = statc.stats_updates().this_cpu_add_return(if mutated(Mutant::VRstSigned) { val } else { val.abs() }).await;
        if stats_updates >= MEMCG_CHARGE_BATCH {
            let stats_updates = statc.stats_updates().this_cpu_xchg(0).await;
            vmstats.stats_updates().add_blindly(stats_updates).await;
        }
        statc_pcpu = statc.parent_pcpu().get();
    }
}

/// `memcg_state_val_in_pages`: away from zero, so that every change counts.
fn memcg_state_val_in_pages(item: StatItem, val: i64) -> i64 {
    if val == 0 || item.unit() == PAGE_SIZE || mutated(Mutant::H061) {
        return val;
    }
    let pages = (i128::from(val.unsigned_abs()) * i128::from(item.unit()) / i128::from(PAGE_SIZE)) as i64;
    let pages = if mutated(Mutant::H061b) { pages } else { pages.max(1) };
    if val < 0 { -pages } else { pages }
}

async fn __mod_memcg_state(memcg: MemCgroup, item: StatItem, val: i64) {
    kfn!(__mod_memcg_state);
    emit(Tp::Call, memcg.ptr(), pack(item, val));
    let cpu = get_cpu();
    let statc = memcg.vmstats_percpu().get().cpu(cpu.cpu());
    statc.state().item(item).this_cpu_add(val).await;
    memcg_rstat_updated(memcg, memcg_state_val_in_pages(item, val), cpu.cpu()).await;
    mod_memcg_policy(memcg, item, val).await;
    drop(cpu);
    emit(Tp::Return, memcg.ptr(), 0);
}

/// `get_non_dying_memcg_start`: the nearest that is not being removed, and the read section that keeps it.
async fn get_non_dying_memcg_start(memcg: MemCgroup) -> (MemCgroup, Option<RcuGuard>) {
    kfn!(get_non_dying_memcg_start);
    let dying = memcg_is_dying(memcg.css()).await && !mutated(Mutant::VRstDying);
    if !dying {
        return (memcg, None);
    }
    let rcu = rcu_read_lock();
    let mut css = memcg.css();
    while memcg_is_dying(css).await {
        css = css.parent().get();
    }
    (css.memcg(), Some(rcu))
}

/// `memcg_is_dying`
async fn memcg_is_dying(css: Css) -> bool {
    css.flags().read_once().await & CSS_DYING != 0
}

/// `lruvec_stat_mod_folio`: a page of `memcg` changes. The read section covers the test for removal and the update, so that a memcg
/// that goes offline has seen every update that was meant for it.
pub async fn lruvec_stat_mod_folio(memcg: MemCgroup, item: StatItem, val: i64) {
    kfn!(lruvec_stat_mod_folio);
    let _rcu = if mutated(Mutant::VRstNoRcu) { None } else { Some(rcu_read_lock()) };
    mod_memcg_state(memcg, item, val).await;
}

/// `mod_memcg_state`, `mod_memcg_lruvec_state`: adds `val`, in the item's own unit. The caller keeps the memcg.
pub async fn mod_memcg_state(memcg: MemCgroup, item: StatItem, val: i64) {
    let (target, rcu) = get_non_dying_memcg_start(memcg).await;
    __mod_memcg_state(target, item, val).await;
    get_non_dying_memcg_end(memcg, rcu).await;
}

/// `get_non_dying_memcg_end`
async fn get_non_dying_memcg_end(memcg: MemCgroup, rcu: Option<RcuGuard>) {
    if mutated(Mutant::H065) && rcu.is_none() && memcg_is_dying(memcg.css()).await {
        rcu_read_unlock();
    }
    drop(rcu);
}

/// An item and a change in one word, for [`Tp::Call`] of an update.
fn pack(item: StatItem, val: i64) -> u64 {
    (val as u64) << 8 | item as u64
}

/// Reads such a word.
pub fn unpack(word: u64) -> (StatItem, i64) {
    (StatItem::ALL[(word & 0xff) as usize], (word as i64) >> 8)
}

/// What policies that 7.3.4 has not count at a change.
async fn mod_memcg_policy(memcg: MemCgroup, item: StatItem, val: i64) {
    let counter = match (statistics().policy().get(), item) {
        (FlushPolicy::AtomicPerMemcg, StatItem::FileDirty) => MemcgVmstats::exact_dirty,
        (FlushPolicy::AtomicPerMemcg, StatItem::Writeback) => MemcgVmstats::exact_writeback,
        (FlushPolicy::ByPagesDirtied, StatItem::FileDirty) if val > 0 => MemcgVmstats::nr_dirtied,
        _ => return,
    };
    let mut css = memcg.css();
    while !css.is_null() {
        counter(css.memcg().vmstats().get()).add_blindly(val).await;
        if mutated(Mutant::VRstAtomicLeaf) {
            break;
        }
        css = css.parent().get();
    }
}

// ---- flushes ---------------------------------------------------------------------------------------------------------

async fn __mem_cgroup_flush_stats(memcg: MemCgroup, force: bool) -> Flushed {
    kfn!(__mem_cgroup_flush_stats);
    emit(Tp::Call, memcg.ptr(), u64::from(force));
    let needs_flush = memcg_vmstats_needs_flush(memcg.vmstats().get()).await;
    let mut done = Flushed::default();
    if force || needs_flush {
        done = do_flush_stats(memcg).await;
    }
    emit(Tp::Return, memcg.ptr(), u64::from(done.ran));
    done
}

async fn do_flush_stats(memcg: MemCgroup) -> Flushed {
    if memcg.css().is_root() || mutated(Mutant::VRstTime) {
        statistics().flush_last_time().write_once(globals().jiffies().get()).await;
    }
    Flushed { ran: true, visits: css_rstat_flush(memcg.css()).await }
}

/// `mem_cgroup_flush_stats`: flushes if enough is pending.
pub async fn mem_cgroup_flush_stats(memcg: MemCgroup) -> Flushed {
    __mem_cgroup_flush_stats(memcg, false).await
}

/// `mem_cgroup_flush_stats_ratelimited`: the same, and only if the periodic flush is a full cycle late.
pub async fn mem_cgroup_flush_stats_ratelimited(memcg: MemCgroup) -> Flushed {
    kfn!(mem_cgroup_flush_stats_ratelimited);
    emit(Tp::Call, memcg.ptr(), 0);
    let late = statistics().flush_last_time().read_once().await + 2 * flush_time();
    let done = if globals().jiffies().get() > late { mem_cgroup_flush_stats(memcg).await } else { Flushed::default() };
    emit(Tp::Return, memcg.ptr(), u64::from(done.ran));
    done
}

/// A forced flush, as the periodic worker's and that of a memcg going offline.
pub async fn mem_cgroup_flush_stats_force(memcg: MemCgroup) -> Flushed {
    __mem_cgroup_flush_stats(memcg, true).await
}

/// `FLUSH_TIME` in jiffies: from the end of a periodic flush to the next one, and half of what a ratelimited reader waits for.
pub fn flush_time() -> u64 {
    2 * statistics().hz().get()
}

/// What the periodic worker does before it queues itself again: a forced flush of the root.
pub async fn flush_root() -> Flushed {
    mem_cgroup_flush_stats_force(globals().root_mem_cgroup().get().memcg()).await
}

/// `flush_memcg_stats_dwork`
const FLUSH_MEMCG_STATS_DWORK: WorkFn = WorkFn {
    name: "flush_memcg_stats_dwork",
    body: |work| {
        Box::pin(async move {
            kfn!(flush_memcg_stats_dwork);
            flush_root().await;
            let s = container_of!(DelayedWork::at(work), Statistics, statistics_fields::stats_flush_dwork);
            queue_delayed_work(s.stats_flush_dwork()).await;
        })
    },
};

/// Starts the periodic flush; part of `mem_cgroup_css_online` of the root.
pub async fn start_periodic_flush() {
    queue_delayed_work(statistics().stats_flush_dwork()).await;
}

/// `mem_cgroup_css_rstat_flush`: takes over what changed on one CPU and what children passed on. rstat_ss_lock.
pub async fn mem_cgroup_css_rstat_flush(css: Css, cpu: u32) {
    kfn!(mem_cgroup_css_rstat_flush);
    emit(Tp::Call, css.ptr(), u64::from(cpu));
    let (memcg, parent) = (css.memcg(), css.parent().get());
    let (vmstats, statc) = (memcg.vmstats().get(), memcg.vmstats_percpu().get().cpu(cpu));
    let ppending = (!parent.is_null()).then(|| parent.memcg().vmstats().get().state_pending());
    for &i in StatItem::ALL {
        mem_cgroup_stat_aggregate(vmstats, statc, ppending, i).await;
    }
    statc.stats_updates().write_once(0).await;
    if vmstats.stats_updates().read_once().await != 0 {
        vmstats.stats_updates().write_once(0).await;
    }
    if statistics().policy().get() == FlushPolicy::ByPagesDirtied {
        vmstats.nr_dirtied().write_once(0).await;
    }
    emit(Tp::Return, css.ptr(), u64::from(cpu));
}

/// One item of `mem_cgroup_stat_aggregate`.
async fn mem_cgroup_stat_aggregate(vmstats: MemcgVmstats, statc: MemcgVmstatsPercpu, ppending: Option<Items>, i: StatItem) {
    let (pending, prev) = (vmstats.state_pending().item(i), statc.state_prev().item(i));
    let mut delta = pending.get();
    let v = statc.state().item(i).read_once().await;
    let delta_cpu = v - prev.get();
    if mutated(Mutant::H060) && delta_cpu == 0 {
        // Nothing changed here, so nothing to look at.
        return;
    }
    if delta != 0 && !mutated(Mutant::VRstPendingKept) {
        pending.set(0);
    }
    if delta_cpu != 0 {
        delta += delta_cpu;
        if !mutated(Mutant::VRstPrev) {
            prev.set(v);
        }
        let local = vmstats.state_local().item(i);
        local.set(local.get() + delta_cpu);
    }
    if delta != 0 {
        let state = vmstats.state().item(i);
        state.write_once(state.get() + delta).await;
        if let Some(p) = ppending {
            p.item(i).set(p.item(i).get() + delta);
        }
    }
}

// ---- readers ---------------------------------------------------------------------------------------------------------

/// `memcg_page_state`: the subtree's total as of its last flush; never negative.
pub async fn memcg_page_state(memcg: MemCgroup, item: StatItem) -> u64 {
    let x = memcg.vmstats().get().state().item(item).read_once().await;
    if mutated(Mutant::H051) { x as u64 } else { x.max(0) as u64 }
}

/// What the throttling loop reads of a memcg: pages, never negative.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WbStats {
    /// Dirty pages.
    pub dirty: u64,
    /// Pages under writeback.
    pub writeback: u64,
    /// Inactive and active file pages.
    pub filepages: u64,
    /// What the flush before it did.
    pub flushed: Flushed,
}

/// The first line of `mem_cgroup_wb_stats`, under the machine's flush policy. `quantum`: pages that may be dirtied unseen under
/// [`FlushPolicy::ByPagesDirtied`].
pub async fn mem_cgroup_flush_stats_for_throttle(memcg: MemCgroup, quantum: u64) -> Flushed {
    match statistics().policy().get() {
        FlushPolicy::Ratelimited | FlushPolicy::AtomicPerMemcg => mem_cgroup_flush_stats_ratelimited(memcg).await,
        FlushPolicy::Always => mem_cgroup_flush_stats(memcg).await,
        FlushPolicy::AlwaysForced => mem_cgroup_flush_stats_force(memcg).await,
        FlushPolicy::ByPagesDirtied => {
            let gate = MEMCG_CHARGE_BATCH * statistics().num_online_cpus().get();
            let dirtied = memcg.vmstats().get().nr_dirtied().read_once().await;
            if dirtied >= gate.max(quantum as i64) { mem_cgroup_flush_stats_force(memcg).await } else { Flushed::default() }
        }
    }
}

/// `mem_cgroup_wb_stats` without the headroom, which is not a statistic.
pub async fn mem_cgroup_wb_stats(memcg: MemCgroup, quantum: u64) -> WbStats {
    kfn!(mem_cgroup_wb_stats);
    let _rcu = if mutated(Mutant::H063) { Some(rcu_read_lock()) } else { None };
    let flushed = mem_cgroup_flush_stats_for_throttle(memcg, quantum).await;
    let exact = statistics().policy().get() == FlushPolicy::AtomicPerMemcg;
    let counter = |c: Var<i64>| async move { c.read_once().await.max(0) as u64 };
    let vmstats = memcg.vmstats().get();
    let dirty = if exact { counter(vmstats.exact_dirty()).await } else { memcg_page_state(memcg, StatItem::FileDirty).await };
    emit(Tp::Return, memcg.ptr(), dirty);
    let writeback = if exact { counter(vmstats.exact_writeback()).await } else { memcg_page_state(memcg, StatItem::Writeback).await };
    let filepages = memcg_page_state(memcg, StatItem::InactiveFile).await + memcg_page_state(memcg, StatItem::ActiveFile).await;
    WbStats { dirty, writeback, filepages, flushed }
}

// ---- the ends of memcgs and CPUs -------------------------------------------------------------------------------------

/// `reparent_state_local`: a parent takes over what a memcg that goes offline counted for itself of its page lists.
///
/// The pages are the parent's from here on; without this it would only ever see them go.
pub async fn reparent_state_local(memcg: MemCgroup, parent: MemCgroup) {
    kfn!(reparent_state_local);
    if statistics().is_null() {
        return;
    }
    mem_cgroup_flush_stats_force(memcg).await;
    if !mutated(Mutant::H062) {
        for item in [StatItem::InactiveFile, StatItem::ActiveFile] {
            let value = memcg.vmstats().get().state_local().item(item).read_once().await.max(0);
            if value != 0 {
                __mod_memcg_state(memcg, item, -value).await;
                __mod_memcg_state(parent, item, value).await;
            }
        }
    }
    mem_cgroup_flush_stats_force(parent).await;
}

/// A CPU goes away or comes back. Its counters stay where they are, because flushes go over the possible CPUs; what changes is how
/// much has to be pending for a flush. False if it is so already.
pub async fn set_cpu_online(cpu: u32, online: bool) -> bool {
    let s = statistics();
    let cell = s.online().get().cpu(cpu).online();
    if cell.get() == online {
        return false;
    }
    cell.write_once(online).await;
    s.num_online_cpus().set(s.num_online_cpus().get() + if online { 1 } else { -1 });
    if !online {
        memcg_hotplug_cpu_dead(cpu).await;
    }
    true
}

/// `memcg_hotplug_cpu_dead`: charges are drained, which are not modelled; statistics need nothing.
async fn memcg_hotplug_cpu_dead(cpu: u32) {
    kfn!(memcg_hotplug_cpu_dead);
    emit(Tp::Call, globals().root_mem_cgroup().get().ptr(), u64::from(cpu));
    if mutated(Mutant::H067) {
        // As kernels did that folded the counters here, with the index of the CPU that runs this.
        let root = globals().root_mem_cgroup().get().memcg();
        let statc = root.vmstats_percpu().get().cpu(get_cpu().cpu());
        let state = root.vmstats().get().state().item(StatItem::FileDirty);
        state.write_once(state.get() + statc.state().item(StatItem::FileDirty).get()).await;
    }
}
