//! The simulated machine: its state, its clock, and how tasks change the one as the other goes on.
//!
//! Main type: [`World`]. Timers are turned into what they are for here; tasks are in `flusher`, `writer` and `admin`.

use super::engine::{Engine, Ns, SECOND};
use super::measure::Measure;
use super::pages::{Extent, MemcgId};
use super::state::{BdiId, Flight, InodeId, On, ROOT, Reason, St, WbId, Work};
use super::stats::Item;
use super::throttle::WbView;
use crate::disk::{Kind, Outcome, Request};
use crate::linux::mm::page_writeback::bandwidth::wb_update_bandwidth;
use crate::linux::mm::page_writeback::surroundings::WbStatItem;
use crate::policy::{ForeignPolicy, FuseAccounting, Policy};
use crate::scenarios::Scenario;
use std::cell::RefCell;
use std::rc::Rc;

/// What a timer is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timer {
    /// A disk has news.
    Disk(u32),
    /// A flusher is to run.
    Flusher(WbId),
    /// A wb's bandwidth is to be estimated.
    Bandwidth(WbId),
    /// A domain's period ends: the global one, or that of a memcg.
    Period(MemcgId),
    /// A sample is due.
    Sample,
}

impl Timer {
    const KINDS: u32 = 5;
    fn id(self) -> u32 {
        let (kind, of) = match self {
            Timer::Disk(d) => (0, d),
            Timer::Flusher(w) => (1, w),
            Timer::Bandwidth(w) => (2, w),
            Timer::Period(m) => (3, m),
            Timer::Sample => (4, 0),
        };
        of * Timer::KINDS + kind
    }
    fn of(id: u32) -> Timer {
        let of = id / Timer::KINDS;
        match id % Timer::KINDS {
            0 => Timer::Disk(of),
            1 => Timer::Flusher(of),
            2 => Timer::Bandwidth(of),
            3 => Timer::Period(of),
            _ => Timer::Sample,
        }
    }
}

/// Class of the page cache's requests in a disk's accounts.
const BUFFERED_CLASS: u16 = 0;
/// Time between samples.
pub const SAMPLE_NS: Ns = 20_000_000;

/// The simulated machine.
pub struct World {
    /// Clock and tasks.
    pub engine: Engine,
    /// State.
    pub st: RefCell<St>,
    /// What is measured.
    pub measure: RefCell<Measure>,
    /// The scenario.
    pub scenario: Scenario,
    /// The knobs.
    pub policy: Policy,
}

impl World {
    /// The time.
    pub fn now(&self) -> Ns {
        self.engine.now()
    }
    /// The time in jiffies.
    pub fn jiffies(&self) -> u64 {
        self.st.borrow().jiffies(self.now())
    }
    /// Makes a timer due.
    pub fn arm(&self, at: Ns, timer: Timer) {
        self.engine.timer(at, timer.id());
    }
    /// A timer is due.
    pub fn timer(self: &Rc<World>, id: u32) {
        let now = self.now();
        match Timer::of(id) {
            Timer::Disk(d) => {
                // Any other timer of the disk was overtaken.
                let due = self.st.borrow_mut().disks[d as usize].due.take_if(|at| *at == now);
                if due.is_some() {
                    self.disk_news(d as usize);
                }
            }
            Timer::Flusher(wb) => {
                let st = self.st.borrow();
                let w = &st.wbs[wb as usize];
                if w.due.is_some_and(|at| at <= now) {
                    self.engine.wake_all(&w.idle);
                }
            }
            Timer::Bandwidth(wb) => {
                let due = self.st.borrow_mut().wbs[wb as usize].bw_due.take_if(|at| *at == now);
                if due.is_some() {
                    wb_update_bandwidth(&WbView::flusher(self, wb));
                }
            }
            Timer::Period(m) => self.period(m),
            Timer::Sample => {
                self.sample();
                if self.check_due() {
                    self.check_state();
                }
                self.arm(now + SAMPLE_NS, Timer::Sample);
            }
        }
    }

    /// `mod_delayed_work(0)`: the flusher of a wb is to run now.
    pub fn wakeup(&self, wb: WbId) {
        let mut st = self.st.borrow_mut();
        let w = &mut st.wbs[wb as usize];
        w.due = Some(self.now());
        self.engine.wake_all(&w.idle);
    }
    /// `wb_wakeup_delayed`: it is to run in `dirty_writeback_interval`, if it is not to run anyway.
    pub fn wakeup_delayed(&self, wb: WbId) {
        self.run_later(&mut self.st.borrow_mut(), wb);
    }
    fn run_later(&self, st: &mut St, wb: WbId) {
        let interval = self.scenario.machine.dirty_writeback_centisecs * 10_000_000;
        let w = &mut st.wbs[wb as usize];
        if w.due.is_none() && interval > 0 {
            let at = self.now() + interval;
            w.due = Some(at);
            self.arm(at, Timer::Flusher(wb));
        }
    }
    /// `wb_queue_work`
    pub fn queue_work(&self, wb: WbId, work: Work) {
        let mut st = self.st.borrow_mut();
        let w = &mut st.wbs[wb as usize];
        w.foreign_works += u32::from(work.reason == Reason::ForeignFlush);
        w.works.push_back(work);
        drop(st);
        self.wakeup(wb);
    }

    /// `wb_get_create_current`: the wb of a memcg on a bdi, made if there is none.
    pub fn wb_of(self: &Rc<World>, bdi: BdiId, memcg: MemcgId) -> WbId {
        let mut st = self.st.borrow_mut();
        let b = &st.bdis[bdi as usize];
        if memcg == ROOT || !self.scenario.filesystems[bdi as usize].cgroup_writeback {
            return b.root_wb;
        }
        if let Some(wb) = b.cgwb[memcg as usize] {
            return wb;
        }
        let wb = st.new_wb(bdi, memcg, self.now());
        st.bdis[bdi as usize].cgwb[memcg as usize] = Some(wb);
        drop(st);
        super::flusher::start(self, wb);
        wb
    }
    /// `inode_attach_wb`
    pub fn attach(self: &Rc<World>, inode: InodeId, memcg: MemcgId) -> WbId {
        let (fs, wb) = {
            let st = self.st.borrow();
            let i = &st.inodes[inode as usize];
            (i.fs, i.wb)
        };
        wb.unwrap_or_else(|| {
            let wb = self.wb_of(fs, memcg);
            let mut st = self.st.borrow_mut();
            st.inodes[inode as usize].wb = Some(wb);
            st.wbs[wb as usize].attached += 1;
            wb
        })
    }

    /// Dirties `[start, start + len)` of an inode for a task of `memcg` on `cpu`, in whole folios: `folio_account_dirtied`,
    /// `__mark_inode_dirty`. Yields the pages that were not dirty before.
    pub fn dirty(self: &Rc<World>, inode: InodeId, start: u64, len: u64, memcg: MemcgId, cpu: usize) -> u64 {
        let wb = self.attach(inode, memcg);
        let jiffies = self.jiffies();
        let mut newly = 0;
        let mut st = self.st.borrow_mut();
        let mut extents = std::mem::take(&mut st.scratch);
        let i = &mut st.inodes[inode as usize];
        let folio = 1 << i.order;
        let (first, end) = (start / folio * folio, (start + len).next_multiple_of(folio));
        let mut absent = 0;
        i.pages.dirty_range(first, end - first, memcg, |e, new| {
            extents.push(e);
            absent += if new { e.len } else { 0 };
        });
        if absent > 0 {
            st.charge(memcg, cpu, absent);
        }
        for e in extents.drain(..) {
            newly += e.len;
            let (n, m) = (e.len as i64, st.live(e.memcg));
            st.global.dirty += e.len;
            st.memcg_stat(m, Item::Dirty, cpu, n);
            st.wb_stat(wb, WbStatItem::Reclaimable, cpu, n);
            st.wb_stat(wb, WbStatItem::Dirtied, cpu, n);
            st.memcgs[m as usize].dirtied_since_flush += e.len;
            if m != st.wbs[wb as usize].memcg && self.scenario.filesystems[st.inodes[inode as usize].fs as usize].cgroup_writeback {
                self.track_foreign(&mut st, inode, m, wb, jiffies);
            }
        }
        st.scratch = extents;
        if newly > 0 && st.inodes[inode as usize].on == On::None {
            st.inodes[inode as usize].dirtied_when = jiffies;
            // An inode that is being written is put on a list when that is over.
            if !st.inodes[inode as usize].syncing {
                let first = !st.wbs[wb as usize].has_dirty_io();
                st.move_inode(inode, On::Dirty);
                drop(st);
                if first {
                    self.wakeup_delayed(wb);
                }
            }
        }
        self.measure.borrow_mut().pages += newly;
        newly
    }

    /// `mem_cgroup_track_foreign_dirty`
    fn track_foreign(&self, st: &mut St, inode: InodeId, memcg: MemcgId, wb: WbId, jiffies: u64) {
        self.measure.borrow_mut().foreign_tracked += 1;
        let bdev = st.inodes[inode as usize].bdev;
        match self.policy.foreign {
            ForeignPolicy::SkipBdev if bdev => return,
            ForeignPolicy::BdevInodeTargeted if bdev => {
                let marks = &mut st.memcgs[memcg as usize].bdev_marks;
                if !marks.contains(&inode) {
                    marks.push(inode);
                }
                return;
            }
            _ => {}
        }
        let (bdi, owner) = (u64::from(st.wbs[wb as usize].bdi) + 1, st.wbs[wb as usize].memcg + 1);
        self.record_foreign(st, memcg, bdi, owner, jiffies);
    }

    /// Clears the dirty bit of the next stretch of an inode and starts its writeback: at most `max` pages at or after `from`.
    pub fn start_writeback(self: &Rc<World>, inode: InodeId, from: u64, max: u64, cpu: usize) -> Option<Extent> {
        let mut st = self.st.borrow_mut();
        let i = &mut st.inodes[inode as usize];
        let none_before = i.pages.writeback() == 0;
        let e = i.pages.start_writeback(from, max)?;
        let (n, wb) = (e.len as i64, i.wb?);
        st.global.dirty -= e.len;
        st.global.writeback += e.len;
        st.memcg_stat(e.memcg, Item::Dirty, cpu, -n);
        st.memcg_stat(e.memcg, Item::Writeback, cpu, n);
        st.wb_stat(wb, WbStatItem::Reclaimable, cpu, -n);
        let (counted, mapping) = self.wb_counts(&st, inode, e.len);
        st.wb_stat(wb, WbStatItem::Writeback, cpu, counted);
        if none_before && mapping {
            st.wbs[wb as usize].writeback_inodes += 1;
        }
        Some(e)
    }
    /// Does the file system count its pages under writeback itself?
    pub fn own_accounting(&self, fs: BdiId) -> bool {
        self.scenario.filesystems[fs as usize].fuse && self.policy.fuse == FuseAccounting::Old
    }
    /// What the wb counts of a stretch under writeback: its pages, and the mapping. FUSE's own accounting counted one for each
    /// folio, and no mapping.
    fn wb_counts(&self, st: &St, inode: InodeId, pages: u64) -> (i64, bool) {
        let i = &st.inodes[inode as usize];
        if self.own_accounting(i.fs) { ((pages >> i.order).max(1) as i64, false) } else { (pages as i64, true) }
    }
    /// Hands an extent to its disk.
    pub fn submit(&self, inode: InodeId, e: Extent, reason: Reason) {
        let mut st = self.st.borrow_mut();
        let fs = st.inodes[inode as usize].fs;
        let disk = self.scenario.filesystems[fs as usize].disk;
        let token = st.take_off(Flight::Pages(inode, e, reason));
        // The disk charges the owner of the wb, as the flusher's bios are.
        let owner = st.inodes[inode as usize].wb.map_or(ROOT, |wb| st.wbs[wb as usize].memcg);
        let memcg = (owner != ROOT).then(|| owner as usize - 1);
        let request = Request { token, kind: Kind::Write, stream: u64::from(inode), offset: e.start, pages: e.len as u32, memcg, class: BUFFERED_CLASS };
        st.disks[disk].disk.submit(self.now(), request);
        drop(st);
        self.arm_disk(disk);
    }
    /// Asks to be told when the disk next has news.
    pub fn arm_disk(&self, disk: usize) {
        let mut st = self.st.borrow_mut();
        let d = &mut st.disks[disk];
        let next = d.disk.next_event().map(|at| at.max(self.now()));
        if d.due != next {
            d.due = next;
            if let Some(at) = next {
                drop(st);
                self.arm(at, Timer::Disk(disk as u32));
            }
        }
    }
    fn disk_news(self: &Rc<World>, d: usize) {
        let now = self.now();
        loop {
            let Some(c) = self.st.borrow_mut().disks[d].disk.advance(now) else { break };
            let flight = {
                let mut st = self.st.borrow_mut();
                self.engine.wake_all(&st.disks[d].room);
                let f = st.flights[c.token as usize].take();
                st.free_flights.push(c.token as usize);
                f
            };
            match flight {
                Some(Flight::Pages(inode, e, reason)) => self.pages_done(inode, e, reason, c.outcome),
                Some(Flight::Direct(task)) => self.direct_done(task),
                None => {}
            }
        }
        self.arm_disk(d);
    }
    /// A request of pages is over: at once, or with a batch of its file, writeback ends.
    fn pages_done(self: &Rc<World>, inode: InodeId, e: Extent, reason: Reason, outcome: Outcome) {
        {
            let mut m = self.measure.borrow_mut();
            match outcome {
                Outcome::Eio => m.io_error_pages += e.len,
                _ => m.device_pages += e.len,
            }
            if reason == Reason::ForeignFlush {
                m.foreign_written += e.len;
                let st = self.st.borrow();
                let wb = st.inodes[inode as usize].wb;
                if wb.is_some_and(|wb| st.wbs[wb as usize].memcg != st.live(e.memcg)) {
                    m.foreign_cleaned += e.len;
                }
            }
            *m.inode_written(inode) += e.len;
        }
        let batch = {
            let st = self.st.borrow();
            self.scenario.filesystems[st.inodes[inode as usize].fs as usize].completion_batch_pages
        };
        if batch == 0 {
            self.end_writeback(inode, e.start, e.len);
            return;
        }
        let ready = {
            let mut st = self.st.borrow_mut();
            let i = &mut st.inodes[inode as usize];
            i.held_back.push((e.start, e.len));
            i.held_pages += e.len;
            // The last page on its way takes the rest along.
            (i.held_pages >= batch || i.held_pages == i.pages.writeback()).then(|| {
                i.held_pages = 0;
                std::mem::take(&mut i.held_back)
            })
        };
        for (start, len) in ready.into_iter().flatten() {
            self.end_writeback(inode, start, len);
        }
    }
    /// `folio_end_writeback` of a stretch.
    fn end_writeback(self: &Rc<World>, inode: InodeId, start: u64, len: u64) {
        let now = self.now();
        let mut st = self.st.borrow_mut();
        // Completions run where the disk interrupts: a CPU that depends on the inode only.
        let cpu = inode as usize % st.nr_cpus as usize;
        let i = &mut st.inodes[inode as usize];
        let (Some(wb), fs) = (i.wb, i.fs) else { return };
        let before = i.pages.writeback();
        let mut clean = Vec::new();
        let memcg = i.pages.memcg_at(start);
        i.pages.end_writeback(start, len, |e| clean.push(e));
        let done = before - i.pages.writeback();
        let last = i.pages.writeback() == 0;
        let wakes = last && !i.sync_wait.is_empty();
        if wakes {
            self.engine.wake_all(&i.sync_wait);
        }
        if last && self.scenario.filesystems[fs as usize].dirty_sync_leftovers && !st.inodes[inode as usize].syncing {
            // The size on the disk follows when the pages are there; that changes the inode once more.
            self.mark_dirty_sync(&mut st, inode);
        }
        for e in clean {
            st.memcgs[e.memcg as usize].clean.push_back((inode, e.start, e.len));
        }
        if done == 0 {
            return;
        }
        let n = done as i64;
        st.global.writeback -= done;
        st.memcg_stat(memcg.unwrap_or(ROOT), Item::Writeback, cpu, -n);
        let (counted, mapping) = self.wb_counts(&st, inode, done);
        st.wb_stat(wb, WbStatItem::Writeback, cpu, -counted);
        st.wb_stat(wb, WbStatItem::Written, cpu, counted);
        self.completed(&mut st, wb, counted, cpu);
        if last && mapping {
            let w = &mut st.wbs[wb as usize];
            w.writeback_inodes -= 1;
            if w.bw_due.is_none() {
                let at = now + SECOND / 5;
                w.bw_due = Some(at);
                drop(st);
                self.arm(at, Timer::Bandwidth(wb));
            }
        }
    }
    /// `__mark_inode_dirty(I_DIRTY_SYNC)`
    fn mark_dirty_sync(&self, st: &mut St, inode: InodeId) {
        let jiffies = st.jiffies(self.now());
        let i = &mut st.inodes[inode as usize];
        i.dirty_sync = true;
        if let (Some(wb), On::None) = (i.wb, i.on) {
            i.dirtied_when = jiffies;
            let first = !st.wbs[wb as usize].has_dirty_io();
            st.move_inode(inode, On::Dirty);
            if first {
                self.run_later(st, wb);
            }
        }
    }
    /// Counts completions in the domains of a wb.
    fn completed(&self, st: &mut St, wb: WbId, nr: i64, cpu: usize) {
        let (jiffies, hz, on) = (st.jiffies(self.now()), st.hz, st.on_cpu(cpu));
        let w = &mut st.wbs[wb as usize];
        let (bdi, memcg) = (w.bdi, w.memcg);
        let frac = st.bdis[bdi as usize].throttle.max_prop_frac;
        let [global, own] = &mut w.completions;
        let mut due = [None; 2];
        due[0] = st.global.domain.writeout_add(global, frac, nr, jiffies, hz, on).map(|at| (at, ROOT));
        if memcg != ROOT {
            due[1] = st.memcgs[memcg as usize].domain.writeout_add(own, frac, nr, jiffies, hz, on).map(|at| (at, memcg));
        }
        for (at, m) in due.into_iter().flatten() {
            self.arm(st.at_jiffy(at), Timer::Period(m));
        }
    }
    fn period(&self, m: MemcgId) {
        let mut st = self.st.borrow_mut();
        let (jiffies, hz, on) = (st.jiffies(self.now()), st.hz, st.on_cpu(0));
        let domain = if m == ROOT { &mut st.global.domain } else { &mut st.memcgs[m as usize].domain };
        if let Some(at) = domain.writeout_period(jiffies, hz, on) {
            let at = st.at_jiffy(at);
            drop(st);
            self.arm(at, Timer::Period(m));
        }
    }
    /// Forgets everything of an inode that is not under writeback.
    pub fn truncate(&self, inode: InodeId, cpu: usize) {
        let mut st = self.st.borrow_mut();
        let i = &mut st.inodes[inode as usize];
        let wb = i.wb;
        i.size_bytes = 0;
        i.dirty_sync = false;
        let mut gone = Vec::new();
        i.pages.truncate(|e, dirty, freed| gone.push((e, dirty, freed)));
        let still = i.pages.writeback();
        for (e, dirty, freed) in gone {
            if dirty {
                st.global.dirty -= e.len;
                st.memcg_stat(e.memcg, Item::Dirty, cpu, -(e.len as i64));
                if let Some(wb) = wb {
                    st.wb_stat(wb, WbStatItem::Reclaimable, cpu, -(e.len as i64));
                }
                self.measure.borrow_mut().truncated += e.len;
            }
            if freed {
                st.uncharge(e.memcg, cpu, e.len);
            }
        }
        if still == 0 && !st.inodes[inode as usize].syncing {
            st.move_inode(inode, On::None);
        }
    }
}
