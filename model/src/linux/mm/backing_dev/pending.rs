//! The smallest flusher that lets wbs be shut down, until fs/fs-writeback.c is mirrored.

use crate::linux::include::backing_dev_defs::{BdiWriteback, wb_fields};
use crate::linux::include::cgroup_defs::WbCompletion;
use crate::linux::include::writeback::WbReason;
use crate::sync::{Pred, WorkFn, wait_event};

/// Flusher: there are no works.
pub const WB_WORKFN: WorkFn = WorkFn {
    name: "wb_workfn",
    body: |work| {
        Box::pin(async move {
            let wb = BdiWriteback(work.sub(wb_fields::dwork));
            wb.state().read_once().await;
        })
    },
};
/// Bandwidth update.
pub const WB_UPDATE_BANDWIDTH_WORKFN: WorkFn = WorkFn { name: "wb_update_bandwidth_workfn", body: |_| Box::pin(async {}) };
/// Switch worker.
pub const INODE_SWITCH_WBS_WORK_FN: WorkFn = WorkFn { name: "inode_switch_wbs_work_fn", body: |_| Box::pin(async {}) };

/// Nothing is attached, so nothing is switched.
pub async fn cleanup_offline_cgwb(_wb: BdiWriteback) -> bool {
    false
}

/// Finds nothing.
pub async fn cgroup_writeback_by_id(_bdi_id: u64, _memcg_id: u32, _reason: WbReason, _done: WbCompletion) -> i64 {
    -2
}

/// `wb_wait_for_completion`
pub async fn wb_wait_for_completion(done: WbCompletion) {
    done.cnt().dec().await;
    wait_event(done.wait_queue(), done.cnt().ptr(), Pred::Zero).await;
}
