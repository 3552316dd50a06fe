//! Work items that run after a grace period, and the work queues of the mirrored code.
//!
//! Mirrors:    kernel/workqueue.c, queue_rcu_work(); the kernel's own queueing is in the sync layer; fidelity: mirror.
//! Simplified: no queue limits how many different items run at once: more parallelism is legal, and less would make one
//!             item's start depend on another item's end through something that is not memory.
//! Ordering:   one grace period lies between queue_rcu_work() and the start of the work function.
//! Rules:      LT-CSS-1.

use crate::kfn;
use crate::sync::{Field, Fut, Ptr, Work, WorkFn, Workqueue, call_rcu, queue_work};

/// Flushers and bandwidth updates (`bdi_wq`).
pub const BDI_WQ: Workqueue = Workqueue { id: 1, max_active: 0 };
/// `cgwb_release_wq`
pub const CGWB_RELEASE_WQ: Workqueue = Workqueue { id: 2, max_active: 0 };
/// `isw_wq`
pub const ISW_WQ: Workqueue = Workqueue { id: 3, max_active: 0 };
/// `system_dfl_wq`
pub const SYSTEM_DFL_WQ: Workqueue = Workqueue { id: 4, max_active: 0 };
/// `cgroup_offline_wq`
pub const CGROUP_OFFLINE_WQ: Workqueue = Workqueue { id: 5, max_active: 0 };
/// `cgroup_release_wq`
pub const CGROUP_RELEASE_WQ: Workqueue = Workqueue { id: 6, max_active: 0 };
/// `cgroup_free_wq`
pub const CGROUP_FREE_WQ: Workqueue = Workqueue { id: 7, max_active: 0 };

/// `struct rcu_work`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RcuWork(Ptr);

const RCU: u32 = Work::CELLS;

impl Field for RcuWork {
    const CELLS: u32 = Work::CELLS + 1;
    fn at(p: Ptr) -> Self {
        RcuWork(p)
    }
}

impl RcuWork {
    /// `INIT_RCU_WORK`; the work function gets the address of the rcu_work.
    pub fn init(self, func: WorkFn, wq: Workqueue) {
        Work::at(self.0).init(func, wq);
    }
}

/// `queue_rcu_work`: happens at once, inside the current step.
pub fn queue_rcu_work(w: RcuWork) {
    kfn!(queue_rcu_work);
    call_rcu(w.0.add(RCU), "rcu_work_rcufn", rcu_work_rcufn);
}

fn rcu_work_rcufn(rcu: Ptr) -> Fut {
    Box::pin(async move {
        kfn!(rcu_work_rcufn);
        queue_work(Work::at(rcu.sub(RCU))).await;
    })
}
