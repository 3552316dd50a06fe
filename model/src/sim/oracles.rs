//! What must hold of every simulation, whatever the policy: oracles TH-* on the state and on what tasks go through.
//!
//! Main functions: [`World::check_state`] at every sample, [`World::check_pause`] at every sleep of a throttled task,
//! [`World::check_end`]. Sums are recomputed from pages and inodes; bounds are computed from the scenario's parameters, never
//! from measured rates. An oracle reports an invariant once.

use super::engine::{Ns, SECOND};
use super::pages::MemcgId;
use super::state::{ROOT, St, WbId};
use super::stats::Item;
use super::world::World;
use crate::linux::mm::page_writeback::surroundings::{WbStatItem, wb_stat_error};
use crate::policy::{FlushPolicy, ForeignPolicy, Freerun};
use crate::scenarios::{Owner, PAGE_BYTES, Writer};

/// Updates that a gate leaves unseen, for each CPU: its threshold of 64 and a residue of 63.
const GATE_ERROR: u64 = 127;

impl World {
    fn broken(&self, id: &'static str, what: impl FnOnce() -> String) {
        let at = self.now() / 1000;
        let mut m = self.measure.borrow_mut();
        if !m.violations.iter().any(|v| v.0 == id) {
            m.violations.push((id, at, what()));
        }
    }
    fn require(&self, holds: bool, id: &'static str, what: impl FnOnce() -> String) {
        if !holds {
            self.broken(id, what);
        }
    }

    /// How far a gated reading of a memcg may be off, in pages: updates below the gate, and one step of each writer.
    pub fn gate_error(&self, st: &St) -> u64 {
        GATE_ERROR * u64::from(st.nr_cpus) + self.steps()
    }
    /// Pages that all writers together dirty between two checks, beyond what their throttle state says: one step each.
    fn steps(&self) -> u64 {
        self.scenario.writers.iter().map(|w| (w.block_bytes / PAGE_BYTES).max(1) + u64::from(w.metadata_pages)).sum()
    }

    /// Is the state to be checked with this sample? The more inodes there are, the more rarely.
    pub fn check_due(&self) -> bool {
        let every = 1 + self.st.borrow().inodes.len() as u64 / 500;
        (self.now() / super::world::SAMPLE_NS).is_multiple_of(every)
    }
    /// Sums, recomputed from pages.
    pub fn check_state(&self) {
        let st = self.st.borrow();
        let (mut dirty, mut writeback) = (0, 0);
        let mut mappings = vec![0; st.wbs.len()];
        let mut of_wb = vec![(0, 0); st.wbs.len()];
        for i in &st.inodes {
            dirty += i.pages.dirty();
            writeback += i.pages.writeback();
            if let Some(wb) = i.wb {
                of_wb[wb as usize].0 += i.pages.dirty() as i64;
                of_wb[wb as usize].1 += i.pages.writeback() as i64;
                mappings[wb as usize] += u64::from(i.pages.writeback() > 0);
            }
        }
        self.require((dirty, writeback) == (st.global.dirty, st.global.writeback), "TH-ACC-1", || {
            format!("{dirty} dirty and {writeback} writeback pages are counted as {} and {}", st.global.dirty, st.global.writeback)
        });
        let root = (st.stats.exact(ROOT, Item::Dirty), st.stats.exact(ROOT, Item::Writeback));
        self.require(root == (dirty, writeback), "TH-ACC-1", || format!("memcg statistics sum to {root:?}, pages to {:?}", (dirty, writeback)));
        let old_fuse = |wb: WbId| self.own_accounting(st.wbs[wb as usize].bdi);
        for (wb, w) in st.wbs.iter().enumerate() {
            let id = wb as WbId;
            let sums = (st.wb_sum(id, WbStatItem::Reclaimable), st.wb_sum(id, WbStatItem::Writeback));
            if old_fuse(id) {
                self.require(w.writeback_inodes == 0, "TH-ACC-2", || "FUSE's own accounting counts no mappings".into());
                continue;
            }
            self.require(sums == of_wb[wb], "TH-ACC-1", || format!("wb {wb} counts {sums:?}, its inodes have {:?}", of_wb[wb]));
            self.require(w.writeback_inodes == mappings[wb], "TH-ACC-2", || {
                format!("wb {wb} counts {} mappings under writeback, there are {}", w.writeback_inodes, mappings[wb])
            });
            self.require(self.policy.foreign != ForeignPolicy::OneInFlight || w.foreign_works <= 1, "TH-FRN-2", || {
                format!("wb {wb} has {} foreign works", w.foreign_works)
            });
            self.require(w.bw.avg_write_bandwidth >= 1 && w.bw.dirty_ratelimit >= 1, "TH-BW-1", || format!("wb {wb}: {:?}", w.bw));
        }
        for (b, bdi) in st.bdis.iter().enumerate() {
            let dirty = bdi.wbs.iter().filter(|wb| st.wbs[**wb as usize].has_dirty_io());
            let sum: i64 = dirty.map(|wb| st.wbs[*wb as usize].bw.avg_write_bandwidth as i64).sum();
            self.require(sum == bdi.throttle.tot_write_bandwidth, "TH-BW-2", || {
                format!("wbs of bdi {b} with dirty inodes have {sum} pages/s, the total is {}", bdi.throttle.tot_write_bandwidth)
            });
        }
        for (m, memcg) in st.memcgs.iter().enumerate().skip(1).filter(|m| !m.1.dying) {
            let read = st.wb_stats(m as MemcgId, self.policy.flush);
            let (g, own) = st.limits_now(m as MemcgId, read);
            let Some(own) = own else { continue };
            for d in [&g, &own] {
                self.require(d.bg_thresh < d.thresh || d.thresh == 0, "TH-LIM-1", || format!("background {} of {}", d.bg_thresh, d.thresh));
            }
            self.require(own.avail >= read.filepages && own.avail <= read.filepages.saturating_add(read.headroom), "TH-LIM-3", || {
                format!("memcg {m}: available {} from {read:?}", own.avail)
            });
            let asked = |w: &&super::state::Work| w.asked_by.is_some_and(|(by, slot)| by == m as MemcgId && slot.is_some());
            let queued: usize = st.wbs.iter().map(|wb| wb.works.iter().filter(asked).count()).sum();
            self.require(queued <= memcg.frn.len(), "TH-FRN-1", || format!("memcg {m} has {queued} foreign works queued"));
        }
        self.check_overshoot(&st);
    }

    /// Does every writer dirty inodes of its own wb only, under limits of its domains? A strict limit looks at the wb alone.
    fn writers_own_their_files(&self) -> bool {
        let s = &self.scenario;
        let shared = |w: &Writer| s.writers.iter().any(|o| o.file == w.file && o.memcg != w.memcg);
        let own = |w: &Writer| s.files[w.file].owner.is_none_or(|o| w.memcg.map_or(Owner::Root, Owner::Memcg) == o);
        let fs = |w: &Writer| &s.filesystems[s.files[w.file].fs];
        s.writers.iter().all(|w| own(w) && !shared(w) && w.metadata.is_none() && fs(w).cgroup_writeback && !fs(w).strictlimit)
    }
    /// Exact dirty pages of memcgs whose writers own what they dirty, against the bound of the policy.
    fn check_overshoot(&self, st: &St) {
        if self.policy.flush == FlushPolicy::Ratelimited || !self.writers_own_their_files() || !self.scenario.events.is_empty() {
            return;
        }
        let e_wb = wb_stat_error(st.nr_cpus);
        for (m, memcg) in st.memcgs.iter().enumerate().skip(1) {
            let m = m as MemcgId;
            let owners = st.bdis.iter().filter(|b| b.cgwb[m as usize].is_some()).count() as u64;
            if owners == 0 || memcg.parent != Some(ROOT) {
                continue;
            }
            let dirty = st.stats.exact(m, Item::Dirty) + st.stats.exact(m, Item::Writeback);
            let (_, own) = st.limits_now(m, st.wb_stats(m, self.policy.flush));
            let Some(own) = own else { continue };
            let error = match self.policy.flush {
                FlushPolicy::AtomicPerMemcg | FlushPolicy::AlwaysForced => 0,
                FlushPolicy::ByPagesDirtied => self.gate_error(st) + (own.limit >> self.policy.flush_shift),
                _ => self.gate_error(st),
            };
            let q = self.steps() + u64::from(st.nr_cpus) * st.global.ratelimit_pages.max(0) as u64 + 512;
            // The limit moves with what file pages are known; the machine's own limit counts as well.
            let bound = (own.limit + own.limit / 20).max(owners * e_wb) + error + q;
            self.require(dirty <= bound, "TH-OVR-1", || format!("memcg {m} has {dirty} dirty and writeback pages, at most {bound} with limit {}", own.limit));
        }
    }

    /// A throttled task is to sleep so many jiffies.
    pub fn check_pause(&self, memcg: MemcgId, jiffies: i64) {
        let st = self.st.borrow();
        let longest = (st.hz / 5).max(1) as i64;
        self.require((1..=longest).contains(&jiffies), "TH-PAUSE-1", || format!("a pause of {jiffies} jiffies"));
        if self.policy.freerun == Freerun::DirtyMin && memcg != ROOT {
            let m = &st.memcgs[memcg as usize];
            let exact = st.stats.exact(memcg, Item::Dirty) + st.stats.exact(memcg, Item::Writeback);
            let late = self.policy.flush == FlushPolicy::Ratelimited;
            // A late reading may be above the reserve when the truth is not.
            self.require(late || exact + self.gate_error(&st) >= m.dirty_min, "TH-FR-3", || {
                format!("a task of memcg {memcg} sleeps with {exact} dirty pages, its reserve is {}", m.dirty_min)
            });
        }
    }

    /// A task left the loop as free.
    pub fn check_free(&self, nr_dirtied: i64, nr_dirtied_pause: i64) {
        self.require(nr_dirtied == 0 && (1..=1 << 15).contains(&nr_dirtied_pause), "TH-FR-1", || {
            format!("free with {nr_dirtied} pages and {nr_dirtied_pause} to the next look")
        });
    }

    /// The statistics were flushed completely.
    pub fn check_flushed(&self) {
        let st = self.st.borrow();
        for m in 0..st.memcgs.len() as MemcgId {
            for item in [Item::Dirty, Item::Writeback, Item::File] {
                self.require(st.stats.read(m, item) == st.stats.exact(m, item), "TH-RST-1", || {
                    format!("{item:?} of memcg {m} reads {} after a flush and is {}", st.stats.read(m, item), st.stats.exact(m, item))
                });
            }
        }
    }
    /// The throttling loop has flushed the statistics of a memcg, if its policy asks for it.
    pub fn check_read(&self, memcg: MemcgId) {
        let st = self.st.borrow();
        let bound = match self.policy.flush {
            FlushPolicy::AtomicPerMemcg | FlushPolicy::AlwaysForced => 0,
            // The gate of an ancestor may miss any number of updates below it: a known weakness.
            FlushPolicy::Always if st.stats.is_leaf(memcg) => self.gate_error(&st),
            _ => return,
        };
        let id = if bound == 0 { "TH-RST-6" } else { "TH-RST-2" };
        let read = st.wb_stats(memcg, self.policy.flush);
        for (read, item) in [(read.dirty, Item::Dirty), (read.writeback, Item::Writeback)] {
            let exact = st.stats.exact(memcg, item);
            self.require(read.abs_diff(exact) <= bound, id, || format!("{item:?} of memcg {memcg} reads {read} and is {exact}"));
        }
    }

    /// Nothing is lost: what was dirtied was written, truncated, failed, or is still there.
    pub fn check_end(&self) {
        self.check_state();
        let st = self.st.borrow();
        let (dirtied, flying, dirty) = {
            let m = self.measure.borrow();
            let held: u64 = st.inodes.iter().map(|i| i.held_pages).sum();
            (m.pages, st.global.writeback - held.min(st.global.writeback), st.global.dirty)
        };
        let m = self.measure.borrow();
        let (written, failed, truncated) = (m.device_pages, m.io_error_pages, m.truncated);
        drop(m);
        self.require(dirtied == written + failed + truncated + flying + dirty, "TH-CONS", || {
            format!("{dirtied} pages dirtied: {written} written, {failed} failed, {truncated} truncated, {flying} on their way, {dirty} dirty")
        });
    }

    /// Longest throttle time of a write that the policy allows (TH-LAT-1), nanoseconds, if the scenario states what it depends on.
    pub fn stall_bound(&self, peak: u64, limit: u64) -> Option<Ns> {
        let s = &self.scenario;
        let [disk] = &s.disks[..] else { return None };
        let alone = s.writers.len() == 1 && s.direct.is_empty() && s.events.is_empty() && disk.faults.is_empty() && disk.caps.is_empty();
        if !alone || disk.seek_us > 0 {
            return None;
        }
        let batch = s.filesystems.iter().map(|f| f.completion_batch_pages).max().unwrap_or(0) + disk.request_bytes * u64::from(disk.queue) / PAGE_BYTES;
        let pages = peak.saturating_sub(limit) + batch;
        let drain = (u128::from(pages * PAGE_BYTES) * u128::from(SECOND) / u128::from(disk.write_bps.max(1))) as Ns;
        let late = match self.policy.flush {
            FlushPolicy::Ratelimited => 2 * SECOND + self.root_flush_ns(s.memcgs.len() as u64 * u64::from(s.machine.cpus)),
            _ => 0,
        };
        Some(drain + late + 2 * SECOND / 5)
    }
}
