//! The state of the simulated machine, and the small steps that keep it consistent.
//!
//! Main type: [`St`]. Everything here is done at one moment of time; what takes time is in the tasks.

use super::engine::{Ns, SECOND, WaitList};
use super::pages::{Extent, MemcgId, Pages};
use super::rng::Rng;
use super::stats::{Item, Stats};
use crate::disk::Disk;
use crate::linux::include::cgroup_defs::MEMCG_CGWB_FRN_CNT;
use crate::linux::lib::flex_proportions::{FpropLocalPercpu, OnCpu, prop_batch};
use crate::linux::lib::percpu_counter::{PercpuCounter, percpu_counter_batch};
use crate::linux::mm::memcontrol::frn::FrnRecord;
use crate::linux::mm::page_writeback::bandwidth::WbBandwidth;
use crate::linux::mm::page_writeback::limits::{BdiThrottle, Sysctl, WbDomain};
use crate::linux::mm::page_writeback::ratelimited::CpuRatelimit;
use crate::linux::mm::page_writeback::surroundings::WbStatItem;
use crate::scenarios::{PAGE_BYTES, Scenario};
use std::collections::VecDeque;

/// Index of a wb.
pub type WbId = u32;
/// Index of an inode.
pub type InodeId = u32;
/// Index of a bdi, which is that of its file system.
pub type BdiId = u32;
/// The root memcg.
pub const ROOT: MemcgId = 0;

/// A memcg.
#[derive(Debug)]
pub struct Memcg {
    /// Parent; the root has none.
    pub parent: Option<MemcgId>,
    /// `memory.max` in pages.
    pub max: u64,
    /// `memory.high` in pages.
    pub high: u64,
    /// Charged pages of the memcg and all below it: exact.
    pub used: u64,
    /// Was removed.
    pub dying: bool,
    /// Reserve of the `dirty_min` policy, pages.
    pub dirty_min: u64,
    /// A dirty ratio of its own.
    pub dirty_ratio: Option<u32>,
    /// Its throttling domain.
    pub domain: WbDomain,
    /// Foreign records.
    pub frn: [FrnRecord; MEMCG_CGWB_FRN_CNT as usize],
    /// Block-device inodes in which it has foreign pages, for the targeted policy.
    pub bdev_marks: Vec<InodeId>,
    /// Clean pages, oldest first; entries may be out of date.
    pub clean: VecDeque<(InodeId, u64, u64)>,
    /// Pages dirtied since the last flush of its statistics that a throttled task made.
    pub dirtied_since_flush: u64,
    /// Dirty pages read at the moment it was removed; its counter stands still.
    pub frozen_dirty: u64,
}

/// Why a flusher writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// Over the background threshold.
    Background,
    /// Old data.
    Periodic,
    /// sync(2), fsync(2) and the like.
    Sync,
    /// A throttled task of another memcg asked.
    ForeignFlush,
    /// Reclaim found nothing clean.
    Vmscan,
}

impl Reason {
    /// As the tracepoints print it.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Background => "background",
            Reason::Periodic => "periodic",
            Reason::Sync => "sync",
            Reason::ForeignFlush => "foreign_flush",
            Reason::Vmscan => "vmscan",
        }
    }
}

/// A work item of a wb.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Work {
    /// Pages left to write.
    pub nr_pages: i64,
    /// Why.
    pub reason: Reason,
    /// Integrity: everything that was dirty when it started.
    pub sync: bool,
    /// syncfs(2): its caller waits for the pages itself, at the end.
    pub for_sync: bool,
    /// Only this inode.
    pub only: Option<InodeId>,
    /// Who asked: a memcg, and the slot of its records.
    pub asked_by: Option<(MemcgId, Option<u8>)>,
}

/// A wb's list that an inode is on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum On {
    /// None: clean.
    None,
    /// `b_dirty`
    Dirty,
    /// `b_io`
    Io,
    /// `b_more_io`
    MoreIo,
}

/// A `bdi_writeback`.
#[derive(Debug)]
pub struct Wb {
    /// Its bdi.
    pub bdi: BdiId,
    /// Its memcg.
    pub memcg: MemcgId,
    /// Was killed: its memcg is gone.
    pub dying: bool,
    /// Estimates.
    pub bw: WbBandwidth,
    /// `stat[]`: reclaimable, writeback, dirtied, written.
    pub stat: [PercpuCounter; 4],
    /// Completions in the global and in the memcg's domain.
    pub completions: [FpropLocalPercpu; 2],
    /// Dirty inodes, oldest first.
    pub b_dirty: VecDeque<InodeId>,
    /// Inodes to write, next first.
    pub b_io: VecDeque<InodeId>,
    /// Inodes with more to write, next first.
    pub b_more_io: VecDeque<InodeId>,
    /// Work items, next first.
    pub works: VecDeque<Work>,
    /// `WB_writeback_running`
    pub running: bool,
    /// `last_old_flush`, in jiffies.
    pub last_old_flush: u64,
    /// When its flusher is to run.
    pub due: Option<Ns>,
    /// Its flusher waits here.
    pub idle: WaitList,
    /// When its bandwidth is to be estimated.
    pub bw_due: Option<Ns>,
    /// Mappings with a page under writeback.
    pub writeback_inodes: u64,
    /// Foreign works queued or running.
    pub foreign_works: u32,
    /// Attached inodes.
    pub attached: u64,
    /// Its list lock is held until then, by who hands its inodes over.
    pub list_locked_until: Ns,
}

impl Wb {
    /// `wb_has_dirty_io`
    pub fn has_dirty_io(&self) -> bool {
        !(self.b_dirty.is_empty() && self.b_io.is_empty() && self.b_more_io.is_empty())
    }
    fn list(&mut self, on: On) -> Option<&mut VecDeque<InodeId>> {
        match on {
            On::None => None,
            On::Dirty => Some(&mut self.b_dirty),
            On::Io => Some(&mut self.b_io),
            On::MoreIo => Some(&mut self.b_more_io),
        }
    }
}

impl Inode {
    /// Has it pages or anything else to write?
    pub fn is_dirty(&self) -> bool {
        self.pages.dirty() > 0 || self.dirty_sync
    }
}

/// An inode.
#[derive(Debug)]
pub struct Inode {
    /// File system.
    pub fs: BdiId,
    /// Owner, once attached.
    pub wb: Option<WbId>,
    /// When it became dirty, in jiffies.
    pub dirtied_when: u64,
    /// Where it is.
    pub on: On,
    /// `I_DIRTY_SYNC`: there is something to write besides pages.
    pub dirty_sync: bool,
    /// Is being written (`I_SYNC`).
    pub syncing: bool,
    /// Its pages in memory.
    pub pages: Pages,
    /// Size, bytes.
    pub size_bytes: u64,
    /// Where the next cyclic writeback begins.
    pub writeback_index: u64,
    /// Votes of the wbs that wrote it: last winner, average time, history.
    pub frn_winner: u32,
    /// See `frn_winner`.
    pub frn_avg_time: u64,
    /// See `frn_winner`.
    pub frn_history: u16,
    /// Order of its folios.
    pub order: u32,
    /// The inode of a block device.
    pub bdev: bool,
    /// Tasks that wait for its writeback to end.
    pub sync_wait: WaitList,
    /// Completed pages whose writeback ends with a batch.
    pub held_back: Vec<(u64, u64)>,
    /// Pages in `held_back`.
    pub held_pages: u64,
}

/// A bdi, with its file system.
#[derive(Debug)]
pub struct Bdi {
    /// Settings.
    pub throttle: BdiThrottle,
    /// The wb of the root memcg.
    pub root_wb: WbId,
    /// wbs of memcgs that can be found.
    pub cgwb: Vec<Option<WbId>>,
    /// All wbs.
    pub wbs: Vec<WbId>,
}

/// What the machine has one of.
#[derive(Debug)]
pub struct Global {
    /// `vm.dirty_*`
    pub sysctl: Sysctl,
    /// The global domain.
    pub domain: WbDomain,
    /// `NR_FILE_DIRTY`
    pub dirty: u64,
    /// `NR_WRITEBACK`
    pub writeback: u64,
    /// Pages in the page cache.
    pub file: u64,
    /// Pages that are neither free nor page cache.
    pub other: u64,
    /// All pages.
    pub memory: u64,
    /// `ratelimit_pages`
    pub ratelimit_pages: i64,
    /// Sum of minimum ratios.
    pub bdi_min_ratio: u32,
    /// `flush_last_time` of the statistics, in jiffies.
    pub flush_last_time: u64,
    /// Next victim of global reclaim.
    pub reclaim_hand: usize,
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
pub enum Flight {
    /// Pages of an inode, and why they are written.
    Pages(InodeId, Extent, Reason),
    /// A request of a direct task.
    Direct(u32),
}

/// A disk with who waits for it.
pub struct DiskSt {
    /// The disk.
    pub disk: Disk,
    /// Tasks that wait for room in its queue.
    pub room: WaitList,
    /// When it next has news.
    pub due: Option<Ns>,
}

/// The machine.
pub struct St {
    /// Ticks a second.
    pub hz: u64,
    /// CPUs.
    pub nr_cpus: u32,
    /// Memcgs; the root first, then those of the scenario in order.
    pub memcgs: Vec<Memcg>,
    /// One for each file system.
    pub bdis: Vec<Bdi>,
    /// All wbs ever.
    pub wbs: Vec<Wb>,
    /// All inodes.
    pub inodes: Vec<Inode>,
    /// Disks.
    pub disks: Vec<DiskSt>,
    /// Requests by token.
    pub flights: Vec<Option<Flight>>,
    /// Free tokens.
    pub free_flights: Vec<usize>,
    /// Statistics.
    pub stats: Stats,
    /// The rest.
    pub global: Global,
    /// CPUs.
    pub cpus: Vec<CpuRatelimit>,
    /// Chance.
    pub rng: Rng,
    /// For extents that a step handles one after the other.
    pub scratch: Vec<Extent>,
}

/// Clock start in jiffies: 0 must be older than every interval.
pub const JIFFIES_START: u64 = 1 << 32;

impl St {
    /// The time in jiffies.
    pub fn jiffies(&self, now: Ns) -> u64 {
        JIFFIES_START + (u128::from(now) * u128::from(self.hz) / u128::from(SECOND)) as u64
    }
    /// The first moment of a jiffy.
    pub fn at_jiffy(&self, jiffies: u64) -> Ns {
        (u128::from(jiffies.saturating_sub(JIFFIES_START)) * u128::from(SECOND)).div_ceil(u128::from(self.hz)) as Ns
    }
    /// The nearest memcg at or above `memcg` that was not removed.
    pub fn live(&self, memcg: MemcgId) -> MemcgId {
        let mut m = memcg;
        while self.memcgs[m as usize].dying {
            m = self.memcgs[m as usize].parent.unwrap_or(ROOT);
        }
        m
    }
    /// Free pages.
    pub fn free(&self) -> u64 {
        self.global.memory.saturating_sub(self.global.file + self.global.other)
    }
    /// Changes one of a wb's counters.
    pub fn wb_stat(&mut self, wb: WbId, item: WbStatItem, cpu: usize, nr: i64) {
        let batch = prop_batch(self.nr_cpus);
        self.wbs[wb as usize].stat[item as usize].add_batch(cpu, nr, batch);
    }
    /// Exact value of one of a wb's counters.
    pub fn wb_sum(&self, wb: WbId, item: WbStatItem) -> i64 {
        self.wbs[wb as usize].stat[item as usize].sum()
    }
    /// Changes the statistics of a page's memcg.
    pub fn memcg_stat(&mut self, memcg: MemcgId, item: Item, cpu: usize, nr: i64) {
        let m = self.live(memcg);
        self.stats.add(m, item, cpu, nr);
    }
    /// `on` in the terms of the floating proportions.
    pub fn on_cpu(&self, cpu: usize) -> OnCpu {
        OnCpu { cpu, batch: self.global_batch() }
    }

    /// A new wb of a memcg on a bdi.
    pub fn new_wb(&mut self, bdi: BdiId, memcg: MemcgId, now: Ns) -> WbId {
        let jiffies = self.jiffies(now);
        let id = self.wbs.len() as WbId;
        let n = self.nr_cpus;
        self.wbs.push(Wb {
            bdi,
            memcg,
            dying: false,
            bw: WbBandwidth::new(jiffies),
            stat: std::array::from_fn(|_| PercpuCounter::new(0, n)),
            completions: std::array::from_fn(|_| FpropLocalPercpu::new(n)),
            b_dirty: VecDeque::new(),
            b_io: VecDeque::new(),
            b_more_io: VecDeque::new(),
            works: VecDeque::new(),
            running: false,
            last_old_flush: jiffies,
            due: None,
            idle: WaitList::default(),
            bw_due: None,
            writeback_inodes: 0,
            foreign_works: 0,
            attached: 0,
            list_locked_until: 0,
        });
        self.bdis[bdi as usize].wbs.push(id);
        id
    }

    /// Moves an inode to a list of its wb, at the end from which it is taken last.
    pub fn move_inode(&mut self, inode: InodeId, to: On) {
        let i = &mut self.inodes[inode as usize];
        let Some(wb) = i.wb else { return };
        let from = std::mem::replace(&mut i.on, to);
        let w = &mut self.wbs[wb as usize];
        let was_dirty = w.has_dirty_io();
        if let Some(list) = w.list(from) {
            // Usually at one of the ends.
            if list.front() == Some(&inode) {
                list.pop_front();
            } else if list.back() == Some(&inode) {
                list.pop_back();
            } else if let Some(at) = list.iter().position(|x| *x == inode) {
                list.remove(at);
            }
        }
        if let Some(list) = w.list(to) {
            list.push_back(inode);
        }
        self.note_dirty_io(wb, was_dirty);
    }
    /// `wb_io_lists_populated` and `wb_io_lists_depopulated`: only wbs with dirty inodes count for the bdi's bandwidth.
    fn note_dirty_io(&mut self, wb: WbId, was_dirty: bool) {
        let w = &self.wbs[wb as usize];
        let avg = w.bw.avg_write_bandwidth as i64;
        let total = &mut self.bdis[w.bdi as usize].throttle.tot_write_bandwidth;
        match (was_dirty, w.has_dirty_io()) {
            (false, true) => *total += avg,
            (true, false) => *total -= avg,
            _ => {}
        }
    }
    /// Moves an inode with its dirty and writeback pages to another wb (`inode_do_switch_wbs`).
    pub fn switch_inode(&mut self, inode: InodeId, to: WbId, cpu: usize) {
        let i = &self.inodes[inode as usize];
        let (Some(from), on) = (i.wb, i.on) else { return };
        if from == to {
            return;
        }
        let (dirty, writeback) = (i.pages.dirty() as i64, i.pages.writeback() as i64);
        self.move_inode(inode, On::None);
        self.inodes[inode as usize].wb = Some(to);
        self.wbs[from as usize].attached -= 1;
        self.wbs[to as usize].attached += 1;
        for (item, nr) in [(WbStatItem::Reclaimable, dirty), (WbStatItem::Writeback, writeback)] {
            self.wb_stat(from, item, cpu, -nr);
            self.wb_stat(to, item, cpu, nr);
        }
        if writeback > 0 {
            self.wbs[from as usize].writeback_inodes -= 1;
            self.wbs[to as usize].writeback_inodes += 1;
        }
        if on != On::None {
            self.move_inode(inode, On::Dirty);
        }
    }

    /// `redirty_tail`: an inode that is still dirty goes last, with a new time if it would not be in order otherwise.
    pub fn redirty_tail(&mut self, inode: InodeId, now: u64) {
        let Some(wb) = self.inodes[inode as usize].wb else { return };
        let newest = self.wbs[wb as usize].b_dirty.back().copied().filter(|n| *n != inode);
        if newest.is_some_and(|n| self.inodes[n as usize].dirtied_when > self.inodes[inode as usize].dirtied_when) {
            self.inodes[inode as usize].dirtied_when = now;
        }
        self.move_inode(inode, On::Dirty);
    }

    /// Requests in the queue of a disk.
    pub fn flights_on(&self, disk: usize) -> usize {
        self.disks[disk].disk.in_flight()
    }

    /// A token for a request.
    pub fn take_off(&mut self, f: Flight) -> u64 {
        match self.free_flights.pop() {
            Some(i) => {
                self.flights[i] = Some(f);
                i as u64
            }
            None => {
                self.flights.push(Some(f));
                self.flights.len() as u64 - 1
            }
        }
    }

    /// Charges pages of the page cache to a memcg and those above it.
    pub fn charge(&mut self, memcg: MemcgId, cpu: usize, nr: u64) {
        self.global.file += nr;
        let mut at = Some(memcg);
        while let Some(m) = at {
            self.memcgs[m as usize].used += nr;
            at = self.memcgs[m as usize].parent;
        }
        self.memcg_stat(memcg, Item::File, cpu, nr as i64);
    }
    /// Takes back what [`St::charge`] did.
    pub fn uncharge(&mut self, memcg: MemcgId, cpu: usize, nr: u64) {
        self.global.file -= nr;
        let mut at = Some(memcg);
        while let Some(m) = at {
            self.memcgs[m as usize].used -= nr;
            at = self.memcgs[m as usize].parent;
        }
        self.memcg_stat(memcg, Item::File, cpu, -(nr as i64));
    }
    /// Frees up to `nr` clean pages of the memcg and those below it, oldest first; yields how many.
    pub fn reclaim(&mut self, memcg: MemcgId, cpu: usize, nr: u64) -> u64 {
        let mut freed = 0;
        let count = self.memcgs.len();
        // Its own pages first, then those of the memcgs below it in turn.
        let hand = self.global.reclaim_hand;
        let below = (0..count).map(|k| (hand + k) % count).filter(|m| *m != memcg as usize);
        for m in std::iter::once(memcg as usize).chain(below) {
            if !self.is_below(m as MemcgId, memcg) {
                continue;
            }
            while freed < nr {
                let Some((inode, start, len)) = self.memcgs[m].clean.pop_front() else { break };
                let mut gone = std::mem::take(&mut self.scratch);
                let mut left = nr - freed;
                self.inodes[inode as usize].pages.drop_clean(start, len, left, |e| gone.push(e));
                let mut end = start;
                for e in gone.drain(..) {
                    self.uncharge(e.memcg, cpu, e.len);
                    freed += e.len;
                    left -= e.len;
                    end = e.start + e.len;
                }
                self.scratch = gone;
                if left == 0 && end < start + len {
                    self.memcgs[m].clean.push_front((inode, end, start + len - end));
                }
            }
            if freed >= nr {
                break;
            }
        }
        self.global.reclaim_hand = (hand + 1) % count;
        freed
    }
    /// Is `memcg` at or below `above`?
    pub fn is_below(&self, memcg: MemcgId, above: MemcgId) -> bool {
        let mut at = Some(memcg);
        while let Some(m) = at {
            if m == above {
                return true;
            }
            at = self.memcgs[m as usize].parent;
        }
        false
    }
    /// What the memcg may still charge by its limits and those above it, pages.
    pub fn headroom(&self, memcg: MemcgId) -> u64 {
        let mut least = (i64::MAX as u64) / PAGE_BYTES;
        let mut m = memcg;
        while let Some(parent) = self.memcgs[m as usize].parent {
            let memcg = &self.memcgs[m as usize];
            let ceiling = memcg.max.min(memcg.high);
            least = least.min(ceiling - ceiling.min(memcg.used));
            m = parent;
        }
        least
    }
    /// The limit that `nr` more pages of a memcg would break, if any: a memcg, or the machine as the root.
    pub fn over(&self, memcg: MemcgId, nr: u64) -> Option<MemcgId> {
        let mut m = memcg;
        while let Some(parent) = self.memcgs[m as usize].parent {
            if self.memcgs[m as usize].used + nr > self.memcgs[m as usize].max {
                return Some(m);
            }
            m = parent;
        }
        (self.free() < nr).then_some(ROOT)
    }
    /// Batch of the global completions.
    pub fn global_batch(&self) -> i32 {
        percpu_counter_batch(self.nr_cpus)
    }
}

/// Pages that hold so many bytes.
pub fn pages_of(bytes: u64) -> u64 {
    bytes.div_ceil(PAGE_BYTES)
}

/// Memcg of the simulation for one of the scenario.
pub fn memcg_of(m: Option<usize>) -> MemcgId {
    m.map_or(ROOT, |m| m as MemcgId + 1)
}

/// Parents of all memcgs of a scenario, the root first.
pub fn parents(s: &Scenario) -> Vec<Option<usize>> {
    std::iter::once(None).chain(s.memcgs.iter().map(|m| Some(memcg_of(m.parent) as usize))).collect()
}
