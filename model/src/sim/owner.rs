//! Who owns an inode: votes of what is written, and moving it to another wb.

use super::engine::Ns;
use super::pages::Extent;
use super::state::{InodeId, ROOT};
use super::world::World;
use crate::linux::fs::fs_writeback::foreign::{count_round, vote};
use crate::linux::include::writeback::{SyncMode, WritebackControl};
use crate::scenarios::PAGE_BYTES;
use std::rc::Rc;

/// Time between a switch that is asked for and the moment it happens: a grace period and a worker. [assumption]
const SWITCH_NS: Ns = 20_000_000;

/// The vote of one round of writeback.
pub struct Votes {
    wbc: WritebackControl,
    enabled: bool,
}

impl Votes {
    /// `wbc_attach_and_unlock_inode`
    pub fn begin(w: &World, inode: InodeId) -> Votes {
        let st = w.st.borrow();
        let i = &st.inodes[inode as usize];
        let mut wbc = WritebackControl::new(SyncMode::None, 0);
        wbc.wb_id = i.wb.map_or(ROOT, |wb| st.wbs[wb as usize].memcg) + 1;
        wbc.wb_lcand_id = i.frn_winner;
        Votes { wbc, enabled: w.scenario.filesystems[i.fs as usize].cgroup_writeback }
    }
    /// `wbc_account_cgroup_owner`
    pub fn count(&mut self, w: &World, e: Extent) {
        if self.enabled && !w.st.borrow().memcgs[e.memcg as usize].dying {
            vote(&mut self.wbc, e.memcg + 1, e.len * PAGE_BYTES);
        }
    }
    /// `wbc_detach_inode`
    pub fn end(self, w: &Rc<World>, inode: InodeId) {
        if !self.enabled {
            return;
        }
        let winner = {
            let mut st = w.st.borrow_mut();
            let st = &mut *st;
            let i = &mut st.inodes[inode as usize];
            let Some(wb) = i.wb else { return };
            let round = count_round(&self.wbc, i.frn_avg_time, i.frn_history, st.wbs[wb as usize].bw.avg_write_bandwidth);
            (i.frn_winner, i.frn_avg_time, i.frn_history) = (round.winner, round.avg_time, round.history);
            (round.switch && round.winner != 0).then_some(round.winner - 1)
        };
        if let Some(memcg) = winner {
            let w2 = w.clone();
            w.engine.spawn(async move {
                w2.engine.sleep(SWITCH_NS).await;
                w2.switch(inode, memcg);
            });
        }
    }
}

impl World {
    /// `inode_do_switch_wbs`: the inode goes to the wb of a memcg that is there.
    pub fn switch(self: &Rc<World>, inode: InodeId, memcg: u32) {
        if self.st.borrow().memcgs[memcg as usize].dying {
            return;
        }
        let fs = self.st.borrow().inodes[inode as usize].fs;
        let to = self.wb_of(fs, memcg);
        let cpu = to as usize % self.st.borrow().nr_cpus as usize;
        self.st.borrow_mut().switch_inode(inode, to, cpu);
        self.measure.borrow_mut().switches += 1;
        if self.st.borrow().wbs[to as usize].has_dirty_io() {
            self.wakeup_delayed(to);
        }
    }
}
