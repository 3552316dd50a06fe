//! Who dirties an inode, and writing back the wb of another memcg.
//!
//! Mirrors:    fs/fs-writeback.c, wbc_attach_and_unlock_inode() to wbc_account_cgroup_owner(), cgroup_writeback_by_id();
//!             fidelity: mirror.
//! Simplified: bandwidth is the constant a new wb starts with; the vote's verdict may also come from the choice
//!             `wbc_detach_inode`, because real histories are longer than an exploration.
//! Locks:      i_lock on entry of wbc_attach_and_unlock_inode; a wbc holds a reference on its wb.
//! Ordering:   the vote's fields are racy by design.
//! Rules:      LT-REF-1, LT-LOOK-1, LT-LOOK-3, LT-PROG-7, LT-PROG-9, LT-PROG-11.

use super::{inode_attach_wb, inode_switch_wbs, wb_queue_work};
use crate::kfn;
use crate::linux::include::backing_dev::{inode_cgwb_enabled, inode_to_wb};
use crate::linux::include::backing_dev_defs::BdiWriteback;
use crate::linux::include::cgroup_defs::{CSS_ONLINE, Cgroup, Css, Subsys, WbCompletion};
use crate::linux::include::fs::Inode;
use crate::linux::include::writeback::{SyncMode, WbReason, WbWritebackWork, WritebackControl};
use crate::linux::kernel::cgroup::cgroup::{css_from_id, css_put, css_tryget};
use crate::linux::mm::backing_dev::{bdi_get_by_id, bdi_put, wb_get_lookup, wb_get_lookup_dying};
use crate::mutants::{Mutant, mutated};
use crate::rules::{LookId, Size, rules};
use crate::sync::{Choice, Gfp, NULL, SpinGuard, Tp, choose, emit, kzalloc, rcu_read_lock};

/// `-ENOENT`
pub const ENOENT: i64 = -2;
/// `-ENOMEM`
pub const ENOMEM: i64 = -12;

/// log2 of the units in a second: `WB_FRN_TIME_SHIFT`.
const WB_FRN_TIME_SHIFT: u32 = 13;
/// `WB_FRN_TIME_AVG_SHIFT`
const WB_FRN_TIME_AVG_SHIFT: u32 = 3;
/// `WB_FRN_TIME_CUT_DIV`
const WB_FRN_TIME_CUT_DIV: u64 = 8;
/// Units a history slot stands for: an eighth of a second.
const WB_FRN_HIST_UNIT: u64 = 2 * (1 << WB_FRN_TIME_SHIFT) / 16;
/// More foreign slots than this ask for a switch.
const WB_FRN_HIST_THR_SLOTS: u32 = 8;
/// Most slots that one round can fill.
const WB_FRN_HIST_MAX_SLOTS: u64 = 5;
/// log2 of the bytes in a page.
pub const PAGE_SHIFT: u32 = 12;
/// `avg_write_bandwidth` of a new wb, in pages a second.
pub const INIT_BW: u64 = 100 << (20 - PAGE_SHIFT);

/// `wbc_attach_and_unlock_inode`: makes `wbc` work for the inode's wb, and asks for a new wb if that one is dying for good.
pub async fn wbc_attach_and_unlock_inode(wbc: &mut WritebackControl, inode: Inode, i_lock: SpinGuard) {
    kfn!(wbc_attach_and_unlock_inode);
    if !inode_cgwb_enabled(inode) {
        return;
    }
    emit(Tp::Call, inode.ptr(), 0);
    let wb = inode_to_wb(inode);
    wbc.wb = wb;
    wbc.inode = inode;
    wbc.wb_id = wb.memcg_css().get().id().get();
    wbc.wb_lcand_id = inode.i_wb_frn_winner().get();
    wbc.wb_tcand_id = 0;
    wbc.wb_bytes = 0;
    wbc.wb_lcand_bytes = 0;
    wbc.wb_tcand_bytes = 0;
    wb.get().await;
    drop(i_lock);
    // Dying with a live memcg: the blkcg changed, and a new wb can be made. Otherwise asking would fail for ever.
    if wb.dying() && (!wb.memcg_css().get().is_dying() || mutated(Mutant::H027)) {
        inode_switch_wbs(inode, wbc.wb_id).await;
    }
    emit(Tp::Return, inode.ptr(), 0);
}

/// `wbc_attach_fdatawrite_inode`: the same for writeback that a task in `current` starts itself.
pub async fn wbc_attach_fdatawrite_inode(wbc: &mut WritebackControl, inode: Inode, current: Cgroup) {
    kfn!(wbc_attach_fdatawrite_inode);
    let i_lock = inode.i_lock().lock().await;
    inode_attach_wb(inode, Css::NULL, current).await;
    wbc_attach_and_unlock_inode(wbc, inode, i_lock).await;
}

/// `wbc_account_cgroup_owner`: counts pages of memcg `folio_memcg_id` that are about to be written.
pub async fn wbc_account_cgroup_owner(wbc: &mut WritebackControl, folio_memcg_id: u32, bytes: u64) {
    kfn!(wbc_account_cgroup_owner);
    if wbc.wb.is_null() {
        return;
    }
    let rcu = rcu_read_lock();
    let css = css_from_id(folio_memcg_id, Subsys::Memory).await;
    // A memcg that is gone has no say; the reference of the kernel's folio is this read section here.
    let online = !css.is_null() && css.flags().get() & CSS_ONLINE != 0;
    drop(rcu);
    if online {
        vote(wbc, folio_memcg_id, bytes);
    }
}

/// One vote of the Boyer-Moore majority count.
pub fn vote(wbc: &mut WritebackControl, id: u32, bytes: u64) {
    if id == wbc.wb_id {
        wbc.wb_bytes += bytes;
        return;
    }
    if id == wbc.wb_lcand_id {
        wbc.wb_lcand_bytes += bytes;
    }
    if wbc.wb_tcand_bytes == 0 {
        wbc.wb_tcand_id = id;
    }
    if id == wbc.wb_tcand_id {
        wbc.wb_tcand_bytes += bytes;
    } else {
        wbc.wb_tcand_bytes -= bytes.min(wbc.wb_tcand_bytes);
    }
}

/// State of the vote that an inode keeps between rounds, and the verdict of one round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Round {
    /// Owner of most of what was written.
    pub winner: u32,
    /// Running average of the winners' times, in [`WB_FRN_TIME_SHIFT`] units.
    pub avg_time: u64,
    /// Past slots: a one is foreign.
    pub history: u16,
    /// The current owner is not the steady winner.
    pub switch: bool,
}

/// Arithmetic of `wbc_detach_inode`: winner, average time and history after this round.
pub fn count_round(wbc: &WritebackControl, avg_time: u64, history: u16, write_bandwidth: u64) -> Round {
    let (winner, max_bytes) = if wbc.wb_bytes >= wbc.wb_lcand_bytes && wbc.wb_bytes >= wbc.wb_tcand_bytes {
        (wbc.wb_id, wbc.wb_bytes)
    } else if wbc.wb_lcand_bytes >= wbc.wb_tcand_bytes {
        (wbc.wb_lcand_id, wbc.wb_lcand_bytes)
    } else {
        (wbc.wb_tcand_id, wbc.wb_tcand_bytes)
    };
    let max_time = ((max_bytes >> PAGE_SHIFT) << WB_FRN_TIME_SHIFT).div_ceil(write_bandwidth.max(1));
    let avg_time = match avg_time {
        0 => max_time,
        a => a + (max_time >> WB_FRN_TIME_AVG_SHIFT) - (a >> WB_FRN_TIME_AVG_SHIFT),
    };
    let mut round = Round { winner, avg_time: avg_time.min(u64::from(u16::MAX)), history, switch: false };
    if max_time >= avg_time / WB_FRN_TIME_CUT_DIV {
        let slots = max_time.div_ceil(WB_FRN_HIST_UNIT).min(WB_FRN_HIST_MAX_SLOTS) as u32;
        round.history <<= slots;
        if winner != wbc.wb_id {
            round.history |= (1 << slots) - 1;
        }
        round.switch = round.history.count_ones() > WB_FRN_HIST_THR_SLOTS;
    }
    round
}

/// `wbc_detach_inode`: counts the round, asks for a switch if another memcg is the steady winner, and drops the reference.
pub async fn wbc_detach_inode(wbc: &mut WritebackControl) {
    kfn!(wbc_detach_inode);
    if wbc.wb.is_null() {
        return;
    }
    let inode = wbc.inode;
    let round = count_round(wbc, u64::from(inode.i_wb_frn_avg_time().get()), inode.i_wb_frn_history().get() as u16, INIT_BW);
    let foreign = round.winner != wbc.wb_id && round.winner != 0;
    if round.switch || (foreign && choose(Choice::Of("wbc_detach_inode", 2)) == 1) {
        inode_switch_wbs(inode, round.winner).await;
    }
    inode.i_wb_frn_winner().set(round.winner);
    inode.i_wb_frn_avg_time().set(round.avg_time as u32);
    inode.i_wb_frn_history().set(u32::from(round.history));
    wbc.wb.put().await;
    wbc.wb = BdiWriteback::NULL;
}

/// `cgroup_writeback_by_id`: starts writeback of the wb named by two ids; 0, -ENOENT or -ENOMEM.
///
/// 0 promises neither that the work asks for more than 0 pages nor that the wb is still registered.
pub async fn cgroup_writeback_by_id(bdi_id: u64, memcg_id: u32, _reason: WbReason, done: WbCompletion) -> i64 {
    kfn!(cgroup_writeback_by_id);
    emit(Tp::Call, NULL, bdi_id << 32 | u64::from(memcg_id));
    let bdi = bdi_get_by_id(bdi_id).await;
    if bdi.is_null() {
        emit(Tp::Return, NULL, ENOENT as u64);
        return ENOENT;
    }
    let rcu = rcu_read_lock();
    let mut memcg_css = css_from_id(memcg_id, Subsys::Memory).await;
    if !memcg_css.is_null() && !css_tryget(memcg_css).await {
        memcg_css = Css::NULL;
    }
    drop(rcu);
    let (mut wb, mut ret) = (BdiWriteback::NULL, ENOENT);
    if !memcg_css.is_null() {
        wb = wb_get_lookup(bdi, memcg_css).await;
        if wb.is_null() && rules().look_id == LookId::WbList {
            wb = wb_get_lookup_dying(bdi, memcg_css).await;
        }
        if !wb.is_null() {
            ret = queue_foreign_work(wb, memcg_css, done).await;
        }
    }
    let found = wb.ptr();
    if !wb.is_null() {
        wb.put().await;
    }
    if !memcg_css.is_null() {
        css_put(memcg_css).await;
    }
    bdi_put(bdi).await;
    emit(Tp::Return, found, ret as u64);
    ret
}

/// Sizes and queues the work of a foreign flush.
async fn queue_foreign_work(wb: BdiWriteback, memcg_css: Css, done: WbCompletion) -> i64 {
    // Either is an estimate; a dying memcg's own counter is frozen.
    let dirty = match rules().size {
        Size::Wb if !mutated(Mutant::V2M26) => wb.stat_reclaimable().get(),
        _ => memcg_css.memcg().nr_dirty().get(),
    };
    let work = WbWritebackWork(kzalloc(WbWritebackWork::TYPE, Gfp::Atomic, "cgroup_writeback_by_id"));
    if work.is_null() {
        return ENOMEM;
    }
    work.nr_pages().set(dirty.max(0) * 10 / 8);
    work.sync_mode().set(SyncMode::None as u32);
    work.done().set(done);
    work.auto_free().set(true);
    wb_queue_work(wb, work).await;
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wbc(own: u64, last: u64, this: u64) -> WritebackControl {
        let mut w = WritebackControl::new(SyncMode::None, 0);
        (w.wb_id, w.wb_lcand_id, w.wb_tcand_id) = (2, 3, 4);
        (w.wb_bytes, w.wb_lcand_bytes, w.wb_tcand_bytes) = (own << PAGE_SHIFT, last << PAGE_SHIFT, this << PAGE_SHIFT);
        w
    }

    #[test]
    fn the_current_owner_wins_ties_and_last_candidate_beats_this_one() {
        assert_eq!(count_round(&wbc(5, 5, 5), 0, 0, INIT_BW).winner, 2);
        assert_eq!(count_round(&wbc(4, 5, 5), 0, 0, INIT_BW).winner, 3);
        assert_eq!(count_round(&wbc(4, 5, 6), 0, 0, INIT_BW).winner, 4);
    }

    #[test]
    fn eight_foreign_slots_are_not_enough_and_nine_are() {
        let w = wbc(0, 0, 1);
        let (mut avg, mut history) = (0, 0);
        for n in 1..=9 {
            let r = count_round(&w, avg, history, INIT_BW);
            (avg, history) = (r.avg_time, r.history);
            assert_eq!(r.switch, n > 8, "round {n}");
        }
        assert_eq!(history.count_ones(), 9);
    }

    #[test]
    fn one_round_fills_at_most_five_slots_and_small_rounds_fill_none() {
        let huge = count_round(&wbc(0, 0, 1 << 20), 0, 0, INIT_BW);
        assert_eq!((huge.history, huge.avg_time), (0b11111, 65535));
        let small = count_round(&wbc(0, 0, 1), huge.avg_time, huge.history, INIT_BW);
        assert_eq!(small.history, huge.history);
    }

    #[test]
    fn votes_against_the_candidate_cancel_it() {
        let mut w = wbc(0, 0, 0);
        vote(&mut w, 7, 100);
        vote(&mut w, 8, 60);
        assert_eq!((w.wb_tcand_id, w.wb_tcand_bytes), (7, 40));
        vote(&mut w, 8, 50);
        vote(&mut w, 8, 10);
        assert_eq!((w.wb_tcand_id, w.wb_tcand_bytes), (8, 10));
    }
}
