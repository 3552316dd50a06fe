//! Cgroups, css, memcg and blkcg.
//!
//! Mirrors:    include/linux/cgroup-defs.h, struct mem_cgroup (memcontrol.h), struct blkcg (blk-cgroup.c); fidelity: model
//!             (the fields that writeback lifetimes depend on).
//! Simplified: a task belongs to one cgroup for the whole case; two controllers; ids below MAX_CSS_ID; a css_set is the pair
//!             of csses that tasks of one cgroup use (`cset_memory`, `cset_io`); a cgroup's own css is a plain count.
//! Rules:      LT-CSS-1 to LT-CSS-4, LT-REF-5, LT-MEM-2.

use crate::kstruct;
use crate::linux::kernel::cgroup::rstat::CssRstatCpu;
use crate::linux::kernel::workqueue::RcuWork;
use crate::linux::lib::percpu_refcount::PercpuRef;
use crate::linux::mm::memcontrol::stats::{MemcgVmstats, MemcgVmstatsPercpu};
use crate::sync::{Field, ListHead, PerCpu, Ptr, Var, WaitQueue, Work};

/// Number of controllers.
pub const NR_SUBSYS: u32 = 2;

/// Controller of a css.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Subsys {
    /// memory
    Memory = 0,
    /// io
    Io = 1,
}

/// `CSS_ONLINE`
pub const CSS_ONLINE: u64 = 1 << 1;
/// `CSS_RELEASED`
pub const CSS_RELEASED: u64 = 1 << 2;
/// `CSS_NO_REF`: a root css, never counted.
pub const CSS_NO_REF: u64 = 1 << 0;
/// `CSS_DYING`
pub const CSS_DYING: u64 = 1 << 4;

kstruct! {
    /// `struct cgroup_subsys_state`; always the first member of a [`MemCgroup`] or a [`Blkcg`].
    pub struct Css: "css", "LT-MEM-2", css_fields {
        /// Subsystem-unique id; the key of `cgwb_tree` for memory. Root is 1.
        id: Var<u32>,
        /// 0 memory, 1 io.
        ss: Var<u32>,
        /// `CSS_*`
        flags: Var<u64>,
        /// Reference count; unused on root.
        refcnt: PercpuRef,
        /// Self if online plus online children.
        online_cnt: Var<i64>,
        /// Parent css (referenced); null for root.
        parent: Var<Css>,
        /// Its cgroup.
        cgroup: Var<Cgroup>,
        /// Release work.
        destroy_work: Work,
        /// Offline, later free work, each after a grace period.
        destroy_rwork: RcuWork,
        /// Deferred second half of the kill, once no task is left below.
        kill_finish_work: Work,
        /// Its nodes in the lists of updated csses; null: it has no statistics.
        rstat_cpu: Var<PerCpu<CssRstatCpu>>,
        /// Next in the list of a flush. rstat_ss_lock.
        rstat_flush_next: Var<Css>,
    }
}

kstruct! {
    /// `struct cgroup`
    pub struct Cgroup: "cgroup", "LT-MEM-2", cgroup_fields {
        /// Index in the case's list of cgroups.
        index: Var<u32>,
        /// Parent; null for root.
        parent: Var<Cgroup>,
        /// memory css, null when none. RCU.
        subsys_memory: Var<Css>,
        /// io css, null when none. RCU.
        subsys_io: Var<Css>,
        /// memory css that its tasks use; null: the parent's. RCU.
        cset_memory: Var<Css>,
        /// io css that its tasks use; null: the parent's. RCU.
        cset_io: Var<Css>,
        /// Base, each css, each child.
        refcnt: Var<i64>,
        /// Child cgroups that are not removed. cgroup_mutex.
        nr_children: Var<i64>,
        /// Tasks in it, plus children in or below which there are tasks.
        populated: Var<i64>,
        /// Removed. cgroup_mutex.
        dead: Var<bool>,
        /// Waiters for a css of it to be offline.
        offline_waitq: WaitQueue,
        /// RCU head of the free.
        rcu: Var<Ptr>,
    }
}

/// `MEMCG_CGWB_FRN_CNT`
pub const MEMCG_CGWB_FRN_CNT: u32 = 4;

kstruct! {
    /// `struct wb_completion`; may live on a stack.
    pub struct WbCompletion: "completion", "LT-MEM-5", completion_fields {
        /// 1 while its owner does not wait, plus one a queued work.
        cnt: Var<i64>,
        /// Queue to wake; outlives the completion.
        waitq: Var<Ptr>,
    }
}

impl WbCompletion {
    /// The wait queue named by `waitq`.
    pub fn wait_queue(self) -> WaitQueue {
        WaitQueue::at(self.waitq().get())
    }
}

kstruct! {
    /// `struct memcg_cgwb_frn`: a foreign-flush record. Ids, never references.
    pub struct MemcgCgwbFrn: "frn", "LT-MEM-2", frn_fields {
        /// Id of the foreign wb's bdi.
        bdi_id: Var<u64>,
        /// memcg css id of the foreign wb.
        memcg_id: Var<u32>,
        /// Jiffies at the last recorded dirtying; 0 once consumed.
        at: Var<u64>,
        /// Flush in flight; idle when `cnt` is 1.
        done: WbCompletion,
    }
}

/// `struct memcg_cgwb_frn cgwb_frn[4]`
#[derive(Clone, Copy)]
pub struct FrnArray(Ptr);

impl Field for FrnArray {
    const CELLS: u32 = MEMCG_CGWB_FRN_CNT * MemcgCgwbFrn::SIZE;
    fn at(p: Ptr) -> Self {
        FrnArray(p)
    }
}

impl FrnArray {
    /// Record `i`, 0 to 3.
    pub fn get(self, i: u32) -> MemcgCgwbFrn {
        MemcgCgwbFrn(self.0.add(i * MemcgCgwbFrn::SIZE))
    }
}

kstruct! {
    /// `struct mem_cgroup`
    pub struct MemCgroup: "memcg", "LT-MEM-2", memcg_fields {
        /// Must be first.
        css: Css,
        /// Live wbs of this memcg on all bdis; forward pointer NULL is the mark. cgwb_lock.
        cgwb_list: ListHead,
        /// Foreign-flush records.
        cgwb_frn: FrnArray,
        /// Dirty pages charged to it (its own counter; frozen once DYING).
        nr_dirty: Var<i64>,
        /// Statistics; null on a machine without.
        vmstats: Var<MemcgVmstats>,
        /// Changes by CPU.
        vmstats_percpu: Var<PerCpu<MemcgVmstatsPercpu>>,
    }
}

kstruct! {
    /// `struct blkcg`
    pub struct Blkcg: "blkcg", "LT-MEM-2", blkcg_fields {
        /// Must be first.
        css: Css,
        /// Live wbs of this blkcg on all bdis; forward pointer NULL is the mark. cgwb_lock.
        cgwb_list: ListHead,
        /// Base, each wb, each child blkcg.
        online_pin: Var<i64>,
        /// Its blkgs are destroyed.
        blkgs_destroyed: Var<bool>,
    }
}

impl Cgroup {
    /// The cell of its css for a controller (`cgrp->subsys[ss]`).
    pub fn subsys(self, ss: Subsys) -> Var<Css> {
        match ss {
            Subsys::Memory => self.subsys_memory(),
            Subsys::Io => self.subsys_io(),
        }
    }
    /// The cell of the css that its tasks use for a controller.
    pub fn cset(self, ss: Subsys) -> Var<Css> {
        match ss {
            Subsys::Memory => self.cset_memory(),
            Subsys::Io => self.cset_io(),
        }
    }
}

impl Css {
    /// Its controller.
    pub fn subsys(self) -> Subsys {
        if self.ss().get() == Subsys::Memory as u32 { Subsys::Memory } else { Subsys::Io }
    }
    /// A root css: never counted (`CSS_NO_REF`), never dying. Reads a constant field, so that it is no access that could race.
    pub fn is_root(self) -> bool {
        self.parent().get().is_null()
    }
    /// `mem_cgroup_from_css`
    pub fn memcg(self) -> MemCgroup {
        MemCgroup(self.0)
    }
    /// `css_to_blkcg`
    pub fn blkcg(self) -> Blkcg {
        Blkcg(self.0)
    }
    /// `css_is_dying`: removal began.
    pub fn is_dying(self) -> bool {
        self.flags().get() & CSS_DYING != 0
    }
}
