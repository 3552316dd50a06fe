//! What goes on besides writing: the statistics worker, readers of statistics, and what an administrator does.

use super::engine::SECOND;
use super::pages::MemcgId;
use super::state::{On, ROOT, Reason, Work, memcg_of};
use super::world::World;
use crate::linux::mm::page_writeback::limits::writeback_set_ratelimit;
use crate::policy::Cleanup;
use crate::scenarios::{Action, StatReader};
use std::rc::Rc;

/// `FLUSH_TIME`, in seconds.
const FLUSH_SECONDS: u64 = 2;
/// Inodes that are handed over together (`WB_MAX_INODES_PER_ISW`).
const SWITCH_BATCH: u64 = 123;

/// `flush_memcg_stats_dwork`: flushes everything, then waits for two seconds.
pub async fn stats_worker(w: Rc<World>, phase_ns: u64) {
    w.engine.sleep(phase_ns).await;
    loop {
        let visits = {
            let mut st = w.st.borrow_mut();
            st.global.flush_last_time = st.jiffies(w.now());
            st.stats.flush(ROOT)
        };
        w.check_flushed();
        w.measure.borrow_mut().root_flushes.push(w.now() / 1000);
        w.engine.sleep(w.root_flush_ns(visits)).await;
        w.engine.sleep(FLUSH_SECONDS * SECOND).await;
    }
}

/// A task that reads memory.stat: a gated flush.
pub async fn stat_reader(w: Rc<World>, r: StatReader) {
    w.engine.sleep(r.start_us.saturating_mul(1000)).await;
    let memcg = memcg_of(r.memcg);
    loop {
        {
            let mut st = w.st.borrow_mut();
            if st.stats.flushable(memcg) {
                if memcg == ROOT {
                    st.global.flush_last_time = st.jiffies(w.now());
                }
                st.stats.flush(memcg);
            }
        }
        w.engine.sleep(r.every_us.max(1000) * 1000).await;
    }
}

/// Does what the scenario says at its times.
pub async fn administrator(w: Rc<World>) {
    let mut events = w.scenario.events.clone();
    events.sort_by_key(|e| e.at_us);
    for e in events {
        w.engine.sleep_until(e.at_us.saturating_mul(1000)).await;
        match e.what {
            Action::Remove(m) => remove(&w, memcg_of(Some(m))),
            Action::Sync(fs) => sync(&w, fs).await,
            Action::SetMax(m, max) => {
                let mut st = w.st.borrow_mut();
                let now = st.jiffies(w.now());
                let m = &mut st.memcgs[memcg_of(Some(m)) as usize];
                m.max = max.map_or(u64::MAX, |b| b / crate::scenarios::PAGE_BYTES);
                m.domain.size_changed(now);
            }
            Action::SetDirtyRatio(percent) => {
                if w.st.borrow_mut().global.sysctl.set_dirty_ratio(percent as u32) == Ok(true) {
                    w.set_ratelimit();
                }
            }
            Action::Truncate(file) => {
                for i in w.inodes_of(file) {
                    w.truncate(i, 0);
                }
            }
        }
    }
}

/// `mem_cgroup_css_offline` and `wb_memcg_offline`: nobody new finds the memcg or its wbs; what is dirty stays theirs.
fn remove(w: &Rc<World>, memcg: MemcgId) {
    {
        let mut st = w.st.borrow_mut();
        let st = &mut *st;
        st.memcgs[memcg as usize].frozen_dirty = st.wb_stats(memcg, w.policy.flush).dirty;
        st.memcgs[memcg as usize].dying = true;
        for b in &mut st.bdis {
            if let Some(wb) = b.cgwb[memcg as usize].take() {
                st.wbs[wb as usize].dying = true;
            }
        }
    }
    let w = w.clone();
    w.clone().engine.spawn(async move { cleanup_offline_cgwbs(w, memcg).await });
}

/// `cleanup_offline_cgwbs_workfn`: hands the inodes of dying wbs that are clean over to the nearest memcg that is there.
async fn cleanup_offline_cgwbs(w: Rc<World>, memcg: MemcgId) {
    let wbs: Vec<u32> = {
        let st = w.st.borrow();
        (0..st.wbs.len() as u32).filter(|wb| st.wbs[*wb as usize].memcg == memcg && st.wbs[*wb as usize].dying).collect()
    };
    for wb in wbs {
        if w.st.borrow().wbs[wb as usize].has_dirty_io() {
            continue;
        }
        // `b_attached` has the inode that became clean last at its head.
        let inodes: Vec<u32> = {
            let st = w.st.borrow();
            (0..st.inodes.len() as u32).rev().filter(|i| st.inodes[*i as usize].wb == Some(wb)).collect()
        };
        let to = w.st.borrow().live(memcg);
        for (batch, chunk) in inodes.chunks(SWITCH_BATCH as usize).enumerate() {
            let walked = match w.policy.cleanup {
                Cleanup::Rewalk => batch as u64 * SWITCH_BATCH + chunk.len() as u64,
                Cleanup::Resume => chunk.len() as u64,
            };
            // The list lock is held for the walk; who dirties an inode of this wb waits.
            let ns = walked * w.scenario.machine.inode_walk_ns;
            w.st.borrow_mut().wbs[wb as usize].list_locked_until = w.now() + ns;
            w.engine.sleep(ns).await;
            for &inode in chunk {
                if w.st.borrow().inodes[inode as usize].on == On::None {
                    w.switch(inode, to);
                }
            }
        }
    }
}

/// syncfs(2): every wb writes what is dirty now, then the caller waits for all pages on their way.
async fn sync(w: &Rc<World>, fs: usize) {
    let wbs: Vec<u32> = {
        let st = w.st.borrow();
        st.bdis[fs].wbs.iter().copied().filter(|wb| st.wbs[*wb as usize].has_dirty_io()).collect()
    };
    for &wb in &wbs {
        w.queue_work(wb, Work { nr_pages: i64::MAX, reason: Reason::Sync, sync: true, for_sync: true, only: None, asked_by: None });
    }
    for wb in wbs {
        loop {
            let busy = {
                let st = w.st.borrow();
                let b = &st.wbs[wb as usize];
                b.running || b.works.iter().any(|x| x.reason == Reason::Sync)
            };
            if !busy {
                break;
            }
            w.engine.sleep(1_000_000).await;
        }
    }
    let inodes = w.st.borrow().inodes.len();
    for inode in 0..inodes {
        loop {
            {
                let st = w.st.borrow();
                let i = &st.inodes[inode];
                if i.fs as usize != fs || i.pages.writeback() == 0 {
                    break;
                }
                w.engine.enlist(&i.sync_wait);
            }
            w.engine.suspend().await;
        }
    }
}

impl World {
    /// `writeback_set_ratelimit`
    pub fn set_ratelimit(&self) {
        let mut st = self.st.borrow_mut();
        let (g, _) = st.limits_now(ROOT, Default::default());
        let cpus = st.nr_cpus;
        st.global.ratelimit_pages = writeback_set_ratelimit(&mut st.global.domain, g.thresh, cpus);
    }
    /// First inode of a file or group of files.
    pub fn first_inode(&self, file: usize) -> u32 {
        self.scenario.files[..file].iter().map(|f| f.count.max(1)).sum()
    }
    /// Inodes of a file or group of files.
    pub fn inodes_of(&self, file: usize) -> std::ops::Range<u32> {
        let first = self.first_inode(file);
        first..first + self.scenario.files[file].count.max(1)
    }
}
