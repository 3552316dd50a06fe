//! Mirrored kernel code, Linux 7.3.4, and nothing else: a module's path is the kernel file's path.
//!
//! Inside, text follows the kernel's functions step for step; see each file's header for what is simplified. Outside this
//! folder no file has a kernel file behind it.

pub mod block;
pub mod fidelity;
pub mod fs;
pub mod include;
pub mod kernel;
pub mod lib;
pub mod mm;

use crate::kstruct;
use crate::linux::include::cgroup_defs::{Cgroup, Css, NR_SUBSYS};
use crate::linux::mm::memcontrol::stats::Statistics;
use crate::sync::{Field, ListHead, Mutex, Ptr, SpinLock, Var, WaitQueue, Work, kzalloc_nofail};
use std::cell::Cell;

/// Highest css id plus one.
pub const MAX_CSS_ID: u32 = 16;
/// Highest bdi id plus one.
pub const MAX_BDI_ID: u32 = 8;

/// A table of pointers indexed by id, as `idr` and `bdi_tree` are here.
#[derive(Clone, Copy)]
pub struct Table<const N: u32>(Ptr);

impl<const N: u32> Field for Table<N> {
    const CELLS: u32 = N;
    fn at(p: Ptr) -> Self {
        Table(p)
    }
}

impl<const N: u32> Table<N> {
    /// The slot of an id; ids out of range are a bug of the model.
    pub fn slot(self, id: u32) -> Var<Ptr> {
        assert!(id < N, "id {id} out of range");
        Var::at(self.0.add(id))
    }
}

kstruct! {
    /// The kernel's global variables.
    pub struct Globals: "", "LT-MEM-0", global_fields {
        /// Protects cgwb_tree, wb_list, the cgwb_lists and offline_cgwbs. mm/backing-dev.c
        cgwb_lock: SpinLock,
        /// Protects bdi_tree and bdi_list. mm/backing-dev.c
        bdi_lock: SpinLock,
        /// Registered bdis. mm/backing-dev.c
        bdi_list: ListHead,
        /// Registered bdis by id. mm/backing-dev.c
        bdi_tree: Table<MAX_BDI_ID>,
        /// Last id handed out. mm/backing-dev.c
        bdi_id_cursor: Var<u64>,
        /// Dying wbs. mm/backing-dev.c
        offline_cgwbs: ListHead,
        /// mm/backing-dev.c
        cleanup_offline_cgwbs_work: Work,
        /// lib/percpu-refcount.c
        percpu_ref_switch_lock: SpinLock,
        /// lib/percpu-refcount.c
        percpu_ref_switch_waitq: WaitQueue,
        /// Switch contexts in existence. fs/fs-writeback.c
        isw_nr_in_flight: Var<i64>,
        /// kernel/cgroup/cgroup.c
        cgroup_mutex: Mutex,
        /// kernel/cgroup/cgroup.c
        cgroup_idr_lock: SpinLock,
        /// css by id: memory controller. kernel/cgroup/cgroup.c
        css_idr_memory: Table<MAX_CSS_ID>,
        /// css by id: io controller.
        css_idr_io: Table<MAX_CSS_ID>,
        /// Ids in use (a released css's id stays in use until it is freed), a bit mask a controller.
        css_ids: Table<{ NR_SUBSYS }>,
        /// What a teardown that waits for wbs to be gone waits on. mm/backing-dev.c, formerly
        cgwb_release_wait: WaitQueue,
        /// Wait queue of the foreign-flush completions; static, so that it outlives every memcg. mm/memcontrol.c
        memcg_cgwb_frn_waitq: WaitQueue,
        /// Root cgroup.
        root_cgroup: Var<Cgroup>,
        /// Root memcg css, never counted.
        root_mem_cgroup: Var<Css>,
        /// Root blkcg css, never counted.
        blkcg_root: Var<Css>,
        /// Modelled time, advanced by the case only.
        jiffies: Var<u64>,
        /// What lock_folio_memcg() took in kernels of old, outside the i_pages lock and with interrupts off; only for H-019.
        memcg_move_lock: SpinLock,
        /// Waiters for a variable, shared by all of them as the hashed wait queues are. kernel/sched/wait_bit.c
        bit_wait_table: WaitQueue,
        /// Dirty pages from which a wb is over its background threshold; 0: none ever is. Set by the case.
        dirty_background_pages: Var<i64>,
        /// All superblocks, for walks. fs/super.c
        super_blocks: ListHead,
        /// Static variables of memory statistics; null on a machine whose memcgs have none. mm/memcontrol.c
        memcg_stats: Var<Statistics>,
    }
}

thread_local! {
    static GLOBALS: Cell<Ptr> = const { Cell::new(crate::sync::NULL) };
}

/// The kernel's global variables of the machine on this thread.
pub fn globals() -> Globals {
    Globals(GLOBALS.with(Cell::get))
}

/// The global variables of a machine that is put back.
pub(crate) fn set_globals(g: Globals) {
    GLOBALS.with(|x| x.set(g.0));
}

/// Allocates the global variables; called once at boot.
pub fn boot_globals() {
    let p = kzalloc_nofail(Globals::TYPE);
    crate::sync::immortal(p);
    set_globals(Globals(p));
    let g = globals();
    g.bdi_list().init();
    g.offline_cgwbs().init();
    g.super_blocks().init();
}
