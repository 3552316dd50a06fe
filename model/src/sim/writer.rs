//! Tasks that write: through the page cache, or past it.

use super::engine::{Ns, SECOND};
use super::pages::MemcgId;
use super::rng::Rng;
use super::state::{Flight, InodeId, On, Reason, Work, memcg_of, pages_of};
use super::throttle::WbView;
use super::world::World;
use crate::disk::{Kind, Request};
use crate::linux::mm::page_writeback::ratelimited::{balance_dirty_pages_ratelimited, leak_on_exit};
use crate::linux::mm::page_writeback::throttle::{BDP_ASYNC, TaskThrottle};
use crate::scenarios::{PAGE_BYTES, Pattern};
use std::rc::Rc;

/// Reclaim takes at least so many pages at a time.
const RECLAIM_BATCH: u64 = 64;
/// A task that found nothing to reclaim tries again after so long.
const RECLAIM_WAIT: Ns = 10_000_000;
/// After so many tries the limit gives way, as the kernel's does for tasks that can't be killed for it.
const RECLAIM_TRIES: u32 = 500;
/// `MEMCG_DELAY_PRECISION_SHIFT`
const HIGH_PRECISION: u32 = 20;
/// `MEMCG_DELAY_SCALING_SHIFT`
const HIGH_SCALE: u32 = 14;
/// `MEMCG_CHARGE_BATCH`: delays are for so many pages.
const HIGH_BATCH: u64 = 64;
/// Class of direct requests in a disk's accounts.
const DIRECT_CLASS: u16 = 1;

/// Time for `bytes` at a speed.
fn transfer(bytes: u64, bps: u64) -> Ns {
    (u128::from(bytes) * u128::from(SECOND) / u128::from(bps.max(1))) as Ns
}

/// Where the writes of a task go.
struct Cursor {
    pattern: Pattern,
    first: InodeId,
    count: u64,
    /// Writes so far.
    turn: u64,
    /// Next byte of a sequential writer.
    at: u64,
    /// Size of its file at the start, bytes.
    size: u64,
    rng: Rng,
}

impl Cursor {
    /// The inode and the first byte of the next write of `len` bytes; `end` tells where a file ends.
    fn next(&mut self, len: u64, end: impl Fn(InodeId) -> u64) -> (InodeId, u64) {
        let which = self.turn % self.count;
        self.turn += 1;
        let inode = self.first + which as InodeId;
        match self.pattern {
            Pattern::Append => (inode, end(inode)),
            Pattern::Random => (inode, self.rng.below((self.size / len.max(1)).max(1)) * len),
            Pattern::Sequential => {
                if which == 0 && self.turn > 1 {
                    self.at += len;
                }
                if self.at + len > self.size {
                    self.at = 0;
                }
                (inode, self.at)
            }
        }
    }
}

/// A task that writes through the page cache.
pub async fn buffered(w: Rc<World>, n: u32, first: InodeId, seed: u64) {
    let task = w.scenario.writers[n as usize].clone();
    let (memcg, cpu) = (memcg_of(task.memcg), n as usize % w.st.borrow().nr_cpus as usize);
    let file = &w.scenario.files[task.file];
    let mut cursor = Cursor {
        pattern: task.pattern,
        first,
        count: u64::from(file.count.max(1)),
        turn: 0,
        at: 0,
        size: file.size_bytes.max(task.block_bytes),
        rng: Rng::new(seed, 100 + u64::from(n)),
    };
    let meta = task.metadata.map(|f| (w.first_inode(f), pages_of(w.scenario.files[f].size_bytes).max(1)));
    let mut meta_rng = Rng::new(seed, 5000 + u64::from(n));
    let mut throttle = TaskThrottle::default();
    w.engine.sleep_until(task.start_us.saturating_mul(1000)).await;
    let stop = task.stop_us.map_or(Ns::MAX, |us| us * 1000);
    let begin = w.now();
    let mut written = 0;
    w.measure.borrow_mut().begins(n, begin);
    while w.now() < stop && task.total_bytes.is_none_or(|total| written < total) {
        if let Some(pace) = task.pace_bps {
            w.engine.sleep_until(begin + transfer(written, pace)).await;
            if w.now() >= stop {
                break;
            }
        }
        let t0 = w.now();
        let (inode, at) = cursor.next(task.block_bytes, |i| w.st.borrow().inodes[i as usize].size_bytes);
        write(&w, n, inode, at, task.block_bytes, memcg, cpu, &mut throttle).await;
        if let Some((first, pages)) = meta {
            for _ in 0..task.metadata_pages {
                let page = meta_rng.below(pages);
                dirty(&w, n, first, page, 1, memcg, cpu, &mut throttle).await;
            }
        }
        written += task.block_bytes;
        let lag = task.pace_bps.map(|pace| w.now().saturating_sub(begin + transfer(written, pace)));
        w.measure.borrow_mut().wrote(n, t0, w.now(), task.block_bytes, lag);
    }
    if task.fsync {
        for i in 0..cursor.count {
            fsync(&w, first + i as InodeId).await;
        }
    }
    leak_on_exit(&throttle, &mut w.st.borrow_mut().cpus[cpu]);
    let end = w.now();
    w.measure.borrow_mut().ends(n, end);
}

/// One write(2): `balance_dirty_pages_ratelimited`, then a folio, until all is copied.
///
/// Folios that no check can come between are one step.
#[allow(clippy::too_many_arguments)]
async fn write(w: &Rc<World>, n: u32, inode: InodeId, at: u64, len: u64, memcg: MemcgId, cpu: usize, throttle: &mut TaskThrottle) {
    let task = &w.scenario.writers[n as usize];
    let (fs, folio) = {
        let st = w.st.borrow();
        let i = &st.inodes[inode as usize];
        (i.fs, 1u64 << i.order)
    };
    {
        let i = &mut w.st.borrow_mut().inodes[inode as usize];
        i.size_bytes = i.size_bytes.max(at + len);
    }
    let mut page = at / PAGE_BYTES;
    let end = (at + len).div_ceil(PAGE_BYTES);
    while page < end {
        let view = WbView::writer(w, w.wb_of(fs, memcg), n, cpu);
        loop {
            let flags = if task.nowait { BDP_ASYNC } else { 0 };
            let (lines, paused_when) = (w.measure.borrow().lines(n), throttle.dirty_paused_when);
            if balance_dirty_pages_ratelimited(&view, throttle, flags).await == 0 {
                if w.measure.borrow().lines(n) == lines && throttle.dirty_paused_when != paused_when {
                    w.check_free(throttle.nr_dirtied, throttle.nr_dirtied_pause);
                }
                break;
            }
            let tick = SECOND / w.st.borrow().hz;
            w.engine.sleep(tick).await;
        }
        let until_check = {
            let st = w.st.borrow();
            let own = (throttle.nr_dirtied_pause - throttle.nr_dirtied).max(1) as u64;
            let own = if st.wbs[view.wb() as usize].bw.dirty_exceeded { own.min(8) } else { own };
            own.min((st.global.ratelimit_pages - i64::from(st.cpus[cpu].bdp_ratelimits)).max(1) as u64)
        };
        let step = (end - page).min(until_check.next_multiple_of(folio) - page % folio);
        dirty(w, n, inode, page, step, memcg, cpu, throttle).await;
        page += step;
    }
}

/// Copies into pages that are next to each other and dirties them; metadata is dirtied so without a look at the limits.
#[allow(clippy::too_many_arguments)]
async fn dirty(w: &Rc<World>, n: u32, inode: InodeId, page: u64, nr: u64, memcg: MemcgId, cpu: usize, throttle: &mut TaskThrottle) {
    let (folio, fs) = {
        let st = w.st.borrow();
        let i = &st.inodes[inode as usize];
        (1u64 << i.order, i.fs as usize)
    };
    make_room(w, memcg, nr.next_multiple_of(folio), cpu).await;
    let copy = transfer(nr * PAGE_BYTES, w.scenario.writers[n as usize].copy_bps);
    w.engine.sleep((copy + nr.div_ceil(folio) * w.scenario.filesystems[fs].folio_cost_ns).max(1)).await;
    // A clean inode goes on a list of its wb, whose lock may be held for long.
    let held = {
        let st = w.st.borrow();
        let i = &st.inodes[inode as usize];
        i.wb.filter(|_| i.on == On::None).map_or(0, |wb| st.wbs[wb as usize].list_locked_until)
    };
    w.engine.sleep_until(held).await;
    let newly = w.dirty(inode, page, nr, memcg, cpu);
    throttle.nr_dirtied += newly as i64;
    w.st.borrow_mut().cpus[cpu].bdp_ratelimits += newly as i32;
    over_high(w, memcg, newly, cpu).await;
}

/// Makes room for `nr` pages of a memcg: reclaims clean pages, or waits until there are some.
async fn make_room(w: &Rc<World>, memcg: MemcgId, nr: u64, cpu: usize) {
    for _ in 0..RECLAIM_TRIES {
        let over = w.st.borrow().over(memcg, nr);
        let Some(m) = over else { break };
        let freed = w.st.borrow_mut().reclaim(m, cpu, nr.max(RECLAIM_BATCH));
        if freed == 0 {
            wake_flushers(w);
            w.engine.sleep(RECLAIM_WAIT).await;
        }
    }
}

/// `mem_cgroup_handle_over_high`: a task that charged `nr` pages reclaims what is above memory.high, and sleeps the longer the more
/// is left.
async fn over_high(w: &Rc<World>, memcg: MemcgId, nr: u64, cpu: usize) {
    let (mut above, mut overage) = (Some(memcg), 0);
    while let Some(m) = above {
        let (excess, high) = {
            let st = w.st.borrow();
            let own = &st.memcgs[m as usize];
            above = own.parent;
            (own.used.saturating_sub(own.high), own.high.max(1))
        };
        if excess > 0 {
            let freed = w.st.borrow_mut().reclaim(m, cpu, excess.max(RECLAIM_BATCH));
            if freed < excess {
                wake_flushers(w);
                overage = overage.max(((excess - freed) << HIGH_PRECISION) / high);
            }
        }
    }
    let hz = w.st.borrow().hz;
    let penalty = ((u128::from(overage).pow(2) * u128::from(hz)) >> (HIGH_PRECISION + HIGH_SCALE)) as u64;
    let jiffies = (penalty * nr / HIGH_BATCH).min(2 * hz);
    if jiffies > hz / 100 {
        w.engine.sleep(jiffies * SECOND / hz).await;
    }
}

/// `wakeup_flusher_threads(WB_REASON_VMSCAN)`
fn wake_flushers(w: &Rc<World>) {
    let asks: Vec<_> = {
        let st = w.st.borrow();
        let nr = (st.global.dirty as i64).max(1);
        (0..st.wbs.len() as u32).filter(|wb| st.wbs[*wb as usize].has_dirty_io() && st.wbs[*wb as usize].works.is_empty()).map(|wb| (wb, nr)).collect()
    };
    for (wb, nr_pages) in asks {
        w.queue_work(wb, Work { nr_pages, reason: Reason::Vmscan, sync: false, for_sync: false, only: None, asked_by: None });
    }
}

/// fsync(2): the pages that are dirty now are on the disk when it returns.
pub async fn fsync(w: &Rc<World>, inode: InodeId) {
    loop {
        let (wb, dirty) = {
            let st = w.st.borrow();
            let i = &st.inodes[inode as usize];
            if i.pages.dirty() == 0 && i.pages.writeback() == 0 {
                return;
            }
            w.engine.enlist(&i.sync_wait);
            (i.wb, i.pages.dirty())
        };
        if let Some(wb) = wb
            && dirty > 0
            && !w.st.borrow().wbs[wb as usize].works.iter().any(|x| x.only == Some(inode))
        {
            w.queue_work(wb, Work { nr_pages: i64::MAX, reason: Reason::Sync, sync: true, for_sync: false, only: Some(inode), asked_by: None });
        }
        w.engine.suspend().await;
    }
}

/// A task that writes or reads past the page cache and keeps `depth` requests on their way.
pub async fn direct(w: Rc<World>, n: u32) {
    let task = w.scenario.direct[n as usize].clone();
    w.engine.sleep_until(task.start_us.saturating_mul(1000)).await;
    let begin = w.now();
    let (mut asked, mut offset) = (0, 0);
    let pages = pages_of(task.block_bytes).max(1);
    loop {
        let done = task.total_bytes.is_some_and(|total| asked >= total);
        let may_submit = {
            let st = w.st.borrow();
            let (d, m) = (&st.disks[task.disk], w.measure.borrow());
            let me = &m.direct[n as usize];
            if done && me.flying == 0 {
                break;
            }
            let full = done || me.flying >= task.depth;
            let room = d.disk.has_room(task.memcg);
            if full {
                w.engine.enlist(&me.wait);
            } else if !room {
                w.engine.enlist(&d.room);
            }
            room && !full
        };
        if !may_submit {
            w.engine.suspend().await;
            continue;
        }
        // A block is one request here: its pages are contiguous.
        let now = w.now();
        let mut st = w.st.borrow_mut();
        let token = st.take_off(Flight::Direct(n));
        let request = Request {
            token,
            kind: if task.read { Kind::Read } else { Kind::Write },
            stream: (1 << 40) + u64::from(n),
            offset,
            pages: pages as u32,
            memcg: task.memcg,
            class: DIRECT_CLASS,
        };
        st.disks[task.disk].disk.submit(now, request);
        drop(st);
        let mut m = w.measure.borrow_mut();
        let d = &mut m.direct[n as usize];
        d.flying += 1;
        d.started.push_back(now);
        drop(m);
        asked += task.block_bytes;
        offset += pages;
        w.arm_disk(task.disk);
    }
    let end = w.now();
    let d = &mut w.measure.borrow_mut().direct[n as usize];
    (d.begin, d.end, d.bytes) = (begin, Some(end), asked);
}

impl World {
    /// A request of a direct task is over.
    pub fn direct_done(&self, task: u32) {
        let now = self.now();
        let mut m = self.measure.borrow_mut();
        let d = &mut m.direct[task as usize];
        d.flying -= 1;
        d.done += 1;
        if let Some(start) = d.started.pop_front() {
            d.latencies.push(now - start);
        }
        self.engine.wake_all(&d.wait);
    }
}
