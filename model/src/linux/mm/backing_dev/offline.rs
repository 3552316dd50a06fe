//! What a css going offline does to its wbs, and the cleaner of dying wbs.
//!
//! Mirrors:    mm/backing-dev.c, cleanup_offline_cgwbs_workfn(), wb_memcg_offline(), wb_blkcg_offline(); fidelity: mirror.
//! Locks:      cgwb_lock (irq), which the cleaner drops around each wb.
//! Ordering:   the mark that closes a css's list is set in the section of the kills.
//! Rules:      LT-LIST-2, LT-LIST-3, LT-LIST-10, LT-PROG-4.

use super::kill::cgwb_kill;
use crate::container_of;
use crate::kfn;
use crate::kstruct;
use crate::linux::fs::fs_writeback::cleanup_offline_cgwb;
use crate::linux::globals;
use crate::linux::include::backing_dev::wb_has_dirty_io;
use crate::linux::include::backing_dev_defs::{BdiWriteback, wb_fields};
use crate::linux::include::cgroup_defs::{Css, MemCgroup};
use crate::mutants::{Mutant, mutated};
use crate::sync::{ListHead, WorkFn, cond_resched, kfree, kzalloc_nofail, queue_work};

/// `wb_memcg_offline`: kills all wbs of a memcg, lets no new one appear, and has dying wbs cleaned up.
pub async fn wb_memcg_offline(memcg: MemCgroup) {
    kfn!(wb_memcg_offline);
    let list = memcg.cgwb_list();
    let mut lock = globals().cgwb_lock().lock_irq().await;
    for e in list.entries() {
        cgwb_kill(container_of!(e, BdiWriteback, wb_fields::memcg_node)).await;
    }
    if mutated(Mutant::Ord18) {
        drop(lock);
        lock = globals().cgwb_lock().lock_irq().await;
    }
    list.set_mark();
    drop(lock);
    if !mutated(Mutant::H023) {
        queue_work(globals().cleanup_offline_cgwbs_work()).await;
    }
}

/// `wb_blkcg_offline`: kills all wbs of a blkcg and lets no new one appear. Does not queue the cleaner.
pub async fn wb_blkcg_offline(css: Css) {
    kfn!(wb_blkcg_offline);
    let list = css.blkcg().cgwb_list();
    let _lock = globals().cgwb_lock().lock_irq().await;
    for e in list.entries() {
        cgwb_kill(container_of!(e, BdiWriteback, wb_fields::blkcg_node)).await;
    }
    list.set_mark();
}

kstruct! {
    /// The cleaner's list of wbs it has looked at; on its stack in the kernel.
    pub struct Processed: "", "LT-MEM-0", processed_fields {
        /// wbs by offline_node. cgwb_lock.
        processed: ListHead,
    }
}

/// `cleanup_offline_cgwbs_workfn`: switches inodes away from dying wbs that are clean.
#[allow(non_upper_case_globals)]
pub const cleanup_offline_cgwbs_workfn: WorkFn = WorkFn { name: "cleanup_offline_cgwbs_workfn", body: |_| Box::pin(clean_up()) };

async fn clean_up() {
    kfn!(cleanup_offline_cgwbs_workfn);
    let (cgwb_lock, offline_cgwbs) = (globals().cgwb_lock(), globals().offline_cgwbs());
    let stack = Processed(kzalloc_nofail(Processed::TYPE));
    let processed = stack.processed();
    processed.init();
    let mut lock = cgwb_lock.lock_irq().await;
    while !offline_cgwbs.is_empty() {
        let wb = container_of!(offline_cgwbs.next(), BdiWriteback, wb_fields::offline_node);
        wb.offline_node().move_to(processed);
        // Switching a dirty wb's inodes would free them from its limits; it is left for a later run.
        if wb_has_dirty_io(wb).await || !wb.tryget().await {
            continue;
        }
        drop(lock);
        loop {
            cond_resched().await;
            if !cleanup_offline_cgwb(wb).await {
                break;
            }
        }
        lock = cgwb_lock.lock_irq().await;
        wb.put().await;
    }
    processed.splice_tail_init(offline_cgwbs);
    drop(lock);
    kfree(stack.ptr());
}
