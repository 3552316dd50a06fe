//! The wb_stats file of debugfs: a walk of `wb_list` that leaves its RCU section.
//!
//! Mirrors:    mm/backing-dev.c, cgwb_debug_stats_show(); fidelity: model.
//! Simplified: no numbers are shown; the flush of statistics is one point at which the task may sleep.
//! Locks:      RCU, and a reference on the wb at which the walk stands.
//! Ordering:   a reference keeps the wb, not its place on the list: a wb that was shut down meanwhile still points to what
//!             followed it then, which may have been freed since (OBS-2). R-WALK-RECHECK stops there.
//! Rules:      LT-MEM-1, LT-MEM-4.

use crate::container_of;
use crate::kfn;
use crate::linux::include::backing_dev_defs::{BackingDevInfo, BdiWriteback, WB_REGISTERED, wb_fields};
use crate::rules::{WalkRecheck, rules};
use crate::sync::{ListHead, Ptr, cond_resched, rcu_read_lock};

/// `cgwb_debug_stats_show`: visits every wb of a bdi that it can pin; yields how many.
pub async fn cgwb_debug_stats_show(bdi: BackingDevInfo) -> u32 {
    kfn!(cgwb_debug_stats_show);
    let head = bdi.wb_list();
    let mut shown = 0;
    let mut rcu = rcu_read_lock();
    let mut pos = ListHead(Ptr::from_word(head.next_rcu().await));
    while pos != head {
        let wb = container_of!(pos, BdiWriteback, wb_fields::bdi_node);
        if wb.tryget().await {
            shown += 1;
            let mut gone = false;
            if !wb.memcg_css().get().is_root() {
                drop(rcu);
                // cgwb_calc_thresh() may sleep.
                cond_resched().await;
                rcu = rcu_read_lock();
                gone = rules().walk_recheck == WalkRecheck::Yes && !wb.state().test_bit(WB_REGISTERED).await;
            }
            wb.put().await;
            if gone {
                break;
            }
        }
        pos = ListHead(Ptr::from_word(pos.next_rcu().await));
    }
    drop(rcu);
    shown
}
