//! Backing devices and the lifetime of their wbs.
//!
//! Mirrors:    mm/backing-dev.c; fidelity: mirror. [`lookup`]: finding and creating a cgroup wb; [`kill`]: kill, shutdown,
//!             release, free; [`register`]: the bdi itself; [`offline`]: what happens when a css goes; [`debug`]: statistics.
//! Simplified: no bandwidth, ratio and per-CPU statistics, hence one allocation a wb.
//! Locks:      cgwb_lock (irq) for cgwb_tree, wb_list, the cgwb_lists and offline_cgwbs; cgwb_release_mutex > work_lock, cgwb_lock.
//! Rules:      LT-REF-1 to LT-REF-7, LT-LIST-1 to LT-LIST-5, LT-LIST-9 to LT-LIST-11, LT-LOOK-1 to LT-LOOK-8, LT-PROG-1 to LT-PROG-6.

pub mod debug;
pub mod kill;
pub mod lookup;
pub mod offline;
pub mod register;

#[cfg(test)]
mod tests;

pub use debug::cgwb_debug_stats_show;
pub use kill::{cgwb_kill, cgwb_release_workfn, wb_shutdown};
pub use lookup::{cgwb_create, wb_get_create, wb_get_create_unconverted, wb_get_lookup, wb_get_lookup_dying};
pub use offline::{cleanup_offline_cgwbs_workfn, wb_blkcg_offline, wb_memcg_offline};
pub use register::{bdi_alloc, bdi_dev_name, bdi_get, bdi_get_by_id, bdi_init, bdi_put, bdi_register, bdi_unregister};

use crate::linux::globals;
use crate::linux::kernel::workqueue::SYSTEM_DFL_WQ;

/// Initialises the one global work item, `cleanup_offline_cgwbs_work`.
pub fn boot() {
    globals().cleanup_offline_cgwbs_work().init(cleanup_offline_cgwbs_workfn, SYSTEM_DFL_WQ);
}
