//! Throttling in the simulated machine: what the mirrored loop sees, and the foreign flushes that it sends.
//!
//! Main type: [`WbView`], a wb as a task or its flusher sees it.

use super::engine::SECOND;
use super::pages::MemcgId;
use super::state::{ROOT, Reason, St, WbId, Work};
use super::stats::Item;
use super::world::World;
use crate::linux::include::cgroup_defs::MEMCG_CGWB_FRN_CNT;
use crate::linux::include::trace_events_writeback::Trace;
use crate::linux::mm::memcontrol::frn::{frn_expire_interval, frn_update_interval, take_fresh, track_foreign_dirty};
use crate::linux::mm::page_writeback::bandwidth::WbBandwidth;
use crate::linux::mm::page_writeback::limits::{BdiThrottle, Domain, Dtc, Sysctl, WbDomain, domain_dirty_limits, mdtc_calc_avail};
use crate::linux::mm::page_writeback::ratelimited::CpuRatelimit;
use crate::linux::mm::page_writeback::surroundings::{MemcgPolicy, MemcgWbStats, TaskSurroundings, WbStatItem, WbSurroundings};
use crate::policy::{FlushPolicy, ForeignPolicy, Freerun, Sizing};
use crate::rules::{LookId, TreeOut};
use std::rc::Rc;

/// A wb as somebody sees it.
#[derive(Clone)]
pub struct WbView {
    world: Rc<World>,
    wb: WbId,
    memcg: MemcgId,
    bdi: usize,
    /// CPU of the task.
    cpu: usize,
    /// Writer that is throttled; `None`: the flusher looks.
    writer: Option<u32>,
    rt: bool,
    local: bool,
}

impl WbView {
    /// As its flusher sees it.
    pub fn flusher(world: &Rc<World>, wb: WbId) -> WbView {
        let st = world.st.borrow();
        let w = &st.wbs[wb as usize];
        let cpu = wb as usize % st.nr_cpus as usize;
        WbView { world: world.clone(), wb, memcg: w.memcg, bdi: w.bdi as usize, cpu, writer: None, rt: false, local: false }
    }
    /// As a writer sees it.
    pub fn writer(world: &Rc<World>, wb: WbId, writer: u32, cpu: usize) -> WbView {
        let task = &world.scenario.writers[writer as usize];
        WbView { cpu, writer: Some(writer), rt: task.rt, local: task.local_throttle, ..WbView::flusher(world, wb) }
    }
    /// The wb.
    pub fn wb(&self) -> WbId {
        self.wb
    }
    /// The flush of the statistics that the policy asks for before they are read.
    async fn flush_stats(&self) {
        let w = &self.world;
        let visits = {
            let mut st = w.st.borrow_mut();
            let st = &mut *st;
            let flush = match w.policy.flush {
                FlushPolicy::Ratelimited => {
                    // The limit of four seconds; its stamp is of root flushes only.
                    st.jiffies(w.now()) > st.global.flush_last_time + 4 * st.hz && st.stats.flushable(self.memcg)
                }
                FlushPolicy::Always => st.stats.flushable(self.memcg),
                FlushPolicy::AlwaysForced => true,
                FlushPolicy::ByPagesDirtied => {
                    let m = &st.memcgs[self.memcg as usize];
                    m.dirtied_since_flush >= (64 * u64::from(st.nr_cpus)).max(m.domain.dirty_limit >> w.policy.flush_shift)
                }
                FlushPolicy::AtomicPerMemcg => false,
            };
            flush.then(|| {
                st.memcgs[self.memcg as usize].dirtied_since_flush = 0;
                st.stats.flush(self.memcg)
            })
        };
        w.check_read(self.memcg);
        let Some(visits) = visits else { return };
        let ns = visits * w.scenario.machine.flush_visit_ns;
        {
            let mut m = w.measure.borrow_mut();
            m.stat_flushes += 1;
            m.stat_flush_ns += ns;
        }
        w.engine.sleep(ns).await;
    }
}

impl WbSurroundings for WbView {
    fn jiffies(&self) -> u64 {
        self.world.jiffies()
    }
    fn hz(&self) -> u64 {
        self.world.st.borrow().hz
    }
    fn nr_cpu_ids(&self) -> u32 {
        self.world.st.borrow().nr_cpus
    }
    fn sysctl(&self) -> Sysctl {
        self.world.st.borrow().global.sysctl
    }
    fn rt_or_dl_task(&self) -> bool {
        self.rt
    }
    fn global_dirtyable_memory(&self) -> u64 {
        self.world.st.borrow().dirtyable()
    }
    fn nr_file_dirty(&self) -> u64 {
        self.world.st.borrow().global.dirty
    }
    fn nr_writeback(&self) -> u64 {
        self.world.st.borrow().global.writeback
    }
    fn has_memcg_domain(&self) -> bool {
        self.memcg != ROOT
    }
    async fn mem_cgroup_wb_stats(&self) -> MemcgWbStats {
        self.flush_stats().await;
        self.world.st.borrow().wb_stats(self.memcg, self.world.policy.flush)
    }
    fn memcg_policy(&self) -> MemcgPolicy {
        let m = &self.world.st.borrow().memcgs[self.memcg as usize];
        let reserve = self.world.policy.freerun == Freerun::DirtyMin;
        MemcgPolicy { dirty_min: if reserve { m.dirty_min } else { 0 }, dirty_ratio: m.dirty_ratio }
    }
    fn with_domain<R>(&self, of: Domain, f: impl FnOnce(&mut WbDomain) -> R) -> R {
        let mut st = self.world.st.borrow_mut();
        f(match of {
            Domain::Global => &mut st.global.domain,
            Domain::Memcg => &mut st.memcgs[self.memcg as usize].domain,
        })
    }
    fn fprop_fraction(&self, of: Domain) -> (u64, u64) {
        let mut st = self.world.st.borrow_mut();
        let st = &mut *st;
        let [global, own] = &mut st.wbs[self.wb as usize].completions;
        match of {
            Domain::Global => global.fraction(&st.global.domain.completions, self.cpu),
            Domain::Memcg => own.fraction(&st.memcgs[self.memcg as usize].domain.completions, self.cpu),
        }
    }
    fn with_bdi<R>(&self, f: impl FnOnce(&mut BdiThrottle) -> R) -> R {
        f(&mut self.world.st.borrow_mut().bdis[self.bdi].throttle)
    }
    fn bdi_min_ratio(&self) -> u32 {
        self.world.st.borrow().global.bdi_min_ratio
    }
    fn with_bandwidth<R>(&self, f: impl FnOnce(&mut WbBandwidth) -> R) -> R {
        f(&mut self.world.st.borrow_mut().wbs[self.wb as usize].bw)
    }
    fn percpu_counter_read(&self, item: WbStatItem) -> i64 {
        self.world.st.borrow().wbs[self.wb as usize].stat[item as usize].read()
    }
    fn percpu_counter_sum(&self, item: WbStatItem) -> i64 {
        self.world.st.borrow().wb_sum(self.wb, item)
    }
    fn writeback_inodes(&self) -> u64 {
        self.world.st.borrow().wbs[self.wb as usize].writeback_inodes
    }
    fn wb_has_dirty_io(&self) -> bool {
        self.world.st.borrow().wbs[self.wb as usize].has_dirty_io()
    }
    fn trace(&self, line: Trace) {
        self.world.measure.borrow_mut().trace(self.world.now(), self.writer, self.wb, line);
    }
}

impl TaskSurroundings for WbView {
    fn local_throttle(&self) -> bool {
        self.local
    }
    fn writeback_in_progress(&self) -> bool {
        self.world.st.borrow().wbs[self.wb as usize].running
    }
    fn wb_start_background_writeback(&self) {
        self.world.wakeup(self.wb);
    }
    async fn mem_cgroup_flush_foreign(&self) {
        self.world.flush_foreign(self.memcg);
    }
    async fn io_schedule_timeout(&self, jiffies: i64) {
        let w = &self.world;
        w.check_pause(self.memcg, jiffies);
        let (start, until) = {
            let st = w.st.borrow();
            let now = w.now();
            (now, st.at_jiffy(st.jiffies(now) + jiffies.max(0) as u64))
        };
        w.engine.sleep_until(until).await;
        if let Some(writer) = self.writer {
            w.measure.borrow_mut().paused(writer, start, w.now());
        }
    }
    fn fatal_signal_pending(&self) -> bool {
        false
    }
    fn ratelimit_pages(&self) -> i64 {
        self.world.st.borrow().global.ratelimit_pages
    }
    fn with_cpu<R>(&self, f: impl FnOnce(&mut CpuRatelimit) -> R) -> R {
        f(&mut self.world.st.borrow_mut().cpus[self.cpu])
    }
}

impl St {
    /// `global_dirtyable_memory`
    pub fn dirtyable(&self) -> u64 {
        self.free() + self.global.file + 1
    }
    /// What `mem_cgroup_wb_stats` reads after the flush.
    pub fn wb_stats(&self, memcg: MemcgId, flush: FlushPolicy) -> MemcgWbStats {
        let count = |item| if flush == FlushPolicy::AtomicPerMemcg { self.stats.exact(memcg, item) } else { self.stats.read(memcg, item) };
        MemcgWbStats {
            dirty: count(Item::Dirty),
            writeback: count(Item::Writeback),
            filepages: self.stats.read(memcg, Item::File),
            headroom: self.headroom(memcg),
        }
    }
    /// Limits of the global domain and, for a memcg below the root, of its own, as the given counters make them.
    pub fn limits_now(&self, memcg: MemcgId, stats: MemcgWbStats) -> (Dtc, Option<Dtc>) {
        let mut g = Dtc { avail: self.dirtyable(), dirty: self.global.dirty + self.global.writeback, ..Dtc::default() };
        domain_dirty_limits(&mut g, None, &self.global.sysctl, false, self.global.domain.dirty_limit);
        g.limit = g.thresh.max(self.global.domain.dirty_limit);
        if memcg == ROOT {
            return (g, None);
        }
        let own = &self.memcgs[memcg as usize];
        let mut sysctl = self.global.sysctl;
        if let Some(dirty_ratio) = own.dirty_ratio {
            sysctl = Sysctl { dirty_ratio, dirty_bytes: 0, ..sysctl };
        }
        let mut m = Dtc { dirty: stats.dirty + stats.writeback, ..Dtc::default() };
        mdtc_calc_avail(&mut m, &g, stats.filepages, stats.headroom);
        domain_dirty_limits(&mut m, Some(&g), &sysctl, false, self.global.domain.dirty_limit);
        m.limit = m.thresh.max(own.domain.dirty_limit);
        (g, Some(m))
    }
}

impl World {
    fn expire_centisecs(&self) -> u32 {
        u32::try_from(self.scenario.machine.dirty_expire_centisecs).unwrap_or(u32::MAX)
    }
    /// Notes that a page of `memcg` was dirtied on an inode of another.
    pub fn record_foreign(&self, st: &mut St, memcg: MemcgId, bdi: u64, owner: MemcgId, jiffies: u64) {
        let update = frn_update_interval(st.hz, self.expire_centisecs());
        track_foreign_dirty(&mut st.memcgs[memcg as usize].frn, bdi, u64::from(owner), jiffies, update);
    }
    /// `mem_cgroup_flush_foreign`: asks for writeback of the wbs that a memcg's records name.
    pub fn flush_foreign(self: &Rc<World>, memcg: MemcgId) {
        if memcg == ROOT {
            return;
        }
        let jiffies = self.jiffies();
        for i in 0..MEMCG_CGWB_FRN_CNT {
            let due = {
                let mut st = self.st.borrow_mut();
                let fresh = frn_expire_interval(st.hz, self.expire_centisecs());
                let record = &mut st.memcgs[memcg as usize].frn[i as usize];
                take_fresh(record, jiffies, fresh).then(|| (record.bdi_id as usize - 1, record.memcg_id as MemcgId - 1))
            };
            if let Some((bdi, owner)) = due {
                self.flush_owner(memcg, i as u8, bdi, owner);
            }
        }
        if self.policy.foreign == ForeignPolicy::BdevInodeTargeted {
            self.flush_marked(memcg);
        }
    }
    /// `cgroup_writeback_by_id`
    fn flush_owner(self: &Rc<World>, memcg: MemcgId, slot: u8, bdi: usize, owner: MemcgId) {
        let found = self.find(&self.st.borrow(), bdi, owner);
        let one = self.policy.foreign == ForeignPolicy::OneInFlight;
        if one && found.is_some_and(|wb| self.st.borrow().wbs[wb as usize].foreign_works > 0) {
            return;
        }
        self.measure.borrow_mut().foreign_flushes += 1;
        let Some(wb) = found else {
            self.measure.borrow_mut().foreign_failed += 1;
            return;
        };
        let nr = {
            let mut st = self.st.borrow_mut();
            st.memcgs[memcg as usize].frn[slot as usize].idle = false;
            let dirty = match self.policy.sizing {
                Sizing::Memcg => self.memcg_dirty(&st, owner),
                Sizing::TargetWb => st.wb_sum(wb, WbStatItem::Reclaimable).max(0) as u64,
            };
            dirty * 10 / 8
        };
        let asked_by = Some((memcg, Some(slot)));
        self.queue_work(wb, Work { nr_pages: nr as i64, reason: Reason::ForeignFlush, sync: false, for_sync: false, only: None, asked_by });
    }
    /// The wb that a foreign flush finds.
    fn find(&self, st: &St, bdi: usize, owner: MemcgId) -> Option<WbId> {
        if owner == ROOT {
            return Some(st.bdis[bdi].root_wb);
        }
        if let Some(wb) = st.bdis[bdi].cgwb[owner as usize] {
            return Some(wb);
        }
        let rules = &self.policy.rules;
        st.bdis[bdi].wbs.iter().copied().find(|wb| {
            let w = &st.wbs[*wb as usize];
            // A wb is released when its last inode has gone.
            let in_tree = rules.tree_out == TreeOut::Release && w.attached > 0;
            let on_list = rules.look_id == LookId::WbList && w.has_dirty_io();
            w.memcg == owner && w.dying && (in_tree || on_list)
        })
    }
    /// The owner's own counter, as foreign flushes are sized by: stale, and still once it is gone.
    fn memcg_dirty(&self, st: &St, owner: MemcgId) -> u64 {
        let m = &st.memcgs[owner as usize];
        match owner {
            ROOT => st.global.dirty,
            _ if m.dying => m.frozen_dirty,
            _ => st.wb_stats(owner, self.policy.flush).dirty,
        }
    }
    /// The targeted policy: queues writeback of the marked block-device inodes, and of nothing else.
    fn flush_marked(self: &Rc<World>, memcg: MemcgId) {
        let marks = std::mem::take(&mut self.st.borrow_mut().memcgs[memcg as usize].bdev_marks);
        let mut keep = Vec::new();
        for inode in marks {
            let ask = {
                let st = self.st.borrow();
                let i = &st.inodes[inode as usize];
                let busy = i.wb.is_some_and(|wb| st.wbs[wb as usize].works.iter().any(|w| w.only == Some(inode)));
                // Once it is the memcg's own, its own flusher sees to it.
                let foreign = i.wb.is_some_and(|wb| st.wbs[wb as usize].memcg != memcg);
                (foreign && i.pages.dirty() > 0).then_some((i.wb, i.pages.dirty(), busy || i.syncing))
            };
            match ask {
                Some((Some(wb), dirty, false)) => {
                    self.measure.borrow_mut().foreign_flushes += 1;
                    let work = Work {
                        nr_pages: dirty as i64,
                        reason: Reason::ForeignFlush,
                        sync: false,
                        for_sync: false,
                        only: Some(inode),
                        asked_by: Some((memcg, None)),
                    };
                    self.queue_work(wb, work);
                    keep.push(inode);
                }
                Some(_) => keep.push(inode),
                None => {}
            }
        }
        let mut st = self.st.borrow_mut();
        let marks = &mut st.memcgs[memcg as usize].bdev_marks;
        for inode in keep {
            if !marks.contains(&inode) {
                marks.push(inode);
            }
        }
    }
    /// A work item is done.
    pub fn work_done(&self, wb: WbId, work: &Work) {
        let mut st = self.st.borrow_mut();
        if work.reason == Reason::ForeignFlush {
            st.wbs[wb as usize].foreign_works -= 1;
        }
        if let Some((memcg, Some(slot))) = work.asked_by {
            st.memcgs[memcg as usize].frn[slot as usize].idle = true;
        }
    }
    /// Time that flushing the statistics of the whole machine takes.
    pub fn root_flush_ns(&self, visits: u64) -> u64 {
        let m = &self.scenario.machine;
        (m.flush_base_us * 1000 + visits * m.flush_visit_ns).min(10 * SECOND)
    }
}
