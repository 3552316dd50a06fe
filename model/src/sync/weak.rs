//! Weak memory for declared cells: which older values a load may still return.
//!
//! Purpose:  finds a missing barrier on the stepper. Each declared cell keeps the history of its values; a task's *view* names,
//!           cell by cell, the oldest write that the task may still read. Off ([`Config::weak`](super::Config::weak)) it costs nothing.
//! Main type: [`Weak`]. A load asks [`Choice::Stale`] which visible value it returns; 0 is the newest.
//!
//! | kernel | here |
//! |---|---|
//! | `READ_ONCE`, plain load | any write not older than the view (coherence: the view of that cell moves up to it) |
//! | `WRITE_ONCE`, plain store | newest write, carrying what the last `smp_wmb`, `smp_mb` or lock made it carry |
//! | `smp_wmb` | later writes carry this task's earlier writes |
//! | `smp_rmb` | the view takes in what the writes read so far carry |
//! | `smp_mb`, value-returning atomics that succeed, bit operations with a result | both, and exchange of the view with one global view |
//! | void atomics (`atomic_inc`, `set_bit`), failed `cmpxchg` | indivisible on the newest value, no ordering |
//! | store-release, unlock, queueing, waking, exit, end of a read section | the object (or write) carries all that the task has seen |
//! | load-acquire, lock, start of work, return from a wait, join | the view takes that in |
//! | grace period | who starts reading after its start sees all before it; after its end all of the sections that ended is seen; full barrier |
//!
//! Stronger than the kernel's memory model in: no load buffering (a load never sees a write of the future), writes to one cell
//! are ordered as they happen (no 2+2W), failed compare-and-swap reads the newest value, and the two fences around a
//! value-returning atomic are one step with it. Cells that are not declared are sequentially consistent and order nothing.

use super::choose::{Choice, choose_in};
use super::machine::{Machine, with};
use super::mem::{Access, Ptr, mix};
use super::op::{Kind, Op};

/// Per declared cell the index of a write in its history; cells beyond the end stand at 0.
type View = Vec<u32>;

fn join(a: &mut View, b: &View) {
    if a.len() < b.len() {
        a.resize(b.len(), 0);
    }
    for (x, y) in a.iter_mut().zip(b) {
        *x = (*x).max(*y);
    }
}

fn get(v: &View, i: usize) -> u32 {
    v.get(i).copied().unwrap_or(0)
}

fn raise(v: &mut View, i: usize, t: u32) {
    if v.len() <= i {
        v.resize(i + 1, 0);
    }
    v[i] = v[i].max(t);
}

struct Write {
    val: u64,
    /// Event that wrote it.
    wr: u32,
    carries: View,
}

struct WeakCell {
    at: Ptr,
    writes: Vec<Write>,
}

/// What one task knows.
#[derive(Default)]
struct Views {
    /// Oldest writes it may still read.
    now: View,
    /// Carried by the writes it has read; counts after the next read barrier.
    read: View,
    /// Carried by its next writes.
    carry: View,
    /// Its own writes.
    wrote: View,
    /// What `carry` is again after a store-release.
    saved: Option<View>,
    /// It is an RCU reader.
    reader: bool,
    /// It starts after a grace period.
    after_gp: bool,
}

impl Views {
    fn seen(&self) -> View {
        let mut v = self.now.clone();
        join(&mut v, &self.read);
        v
    }
}

/// Histories and views of one execution.
#[derive(Default)]
pub(super) struct Weak {
    cells: Vec<WeakCell>,
    tasks: Vec<Views>,
    /// Exchanged by full barriers.
    sc: View,
    /// All that came before a grace period began.
    before_gp: View,
    /// All that was seen in read sections that ended.
    readers: View,
    /// Carried by locks, work items, wait queues, ended tasks.
    objects: Vec<(Ptr, View)>,
    /// Loads that returned an older value.
    stale: u32,
    /// Event that wrote the value of the last load.
    rf: u32,
}

impl Weak {
    pub(super) fn reset(&mut self) {
        self.cells.clear();
        self.tasks.clear();
        self.sc.clear();
        self.before_gp.clear();
        self.readers.clear();
        self.objects.clear();
        self.stale = 0;
    }

    fn task(&mut self, s: usize) -> &mut Views {
        if self.tasks.len() <= s {
            self.tasks.resize_with(s + 1, Views::default);
        }
        &mut self.tasks[s]
    }

    fn index(&self, p: Ptr) -> usize {
        self.cells.iter().position(|c| c.at == p).expect("a cell marked weak has a history")
    }

    fn full(&mut self, s: usize) {
        self.task(s);
        let t = &mut self.tasks[s];
        let read = std::mem::take(&mut t.read);
        join(&mut t.now, &read);
        join(&mut self.sc, &t.now);
        t.now.clone_from(&self.sc);
        t.carry.clone_from(&self.sc);
    }

    fn take_in(&mut self, s: usize, v: &View) {
        let t = self.task(s);
        join(&mut t.now, v);
        join(&mut t.carry, v);
    }

    fn acquire(&mut self, s: usize, p: Ptr) {
        if let Some(i) = self.objects.iter().position(|o| o.0 == p) {
            let v = self.objects[i].1.clone();
            self.take_in(s, &v);
        }
    }

    fn release(&mut self, s: usize, p: Ptr) {
        let v = self.task(s).seen();
        match self.objects.iter_mut().find(|o| o.0 == p) {
            Some(o) => join(&mut o.1, &v),
            None => self.objects.push((p, v)),
        }
    }
}

/// Pseudo-cell of the global view in footprints: full barriers do not commute.
const SC: Ptr = Ptr(0xffff);
/// `b` of a store, load or atomic: no ordering for an atomic.
pub(super) const RELAXED: u64 = 1;
/// `b` of a store: release. `b` of a load: acquire.
pub(super) const ORDERED: u64 = 1;

impl Machine {
    /// Declares a cell weak; its present value is the oldest that anybody can read. No effect while weak memory is off.
    pub(super) fn declare_weak(&mut self, p: Ptr) {
        if self.config.weak && self.mem.mark_weak(p) {
            let (val, wr) = (self.mem.peek(p), self.mem.writer(p));
            super::backend::declare(p, val);
            self.weak.cells.push(WeakCell { at: p, writes: vec![Write { val, wr, carries: View::new() }] });
        }
    }

    /// A load of a weak cell: which write it reads is a choice among those that the task may still see.
    pub(super) fn weak_load(&mut self, p: Ptr) -> u64 {
        let (s, i) = (self.current, self.weak.index(p));
        if let Some(v) = super::backend::given() {
            return v;
        }
        let newest = self.weak.cells[i].writes.len() as u32 - 1;
        let visible = newest - get(&self.weak.task(s).now, i) + 1;
        let stale = if visible > 1 && self.weak.stale < self.config.max_stale {
            let site = self.tasks[s].site;
            choose_in(self, Choice::Stale(visible), site)
        } else {
            0
        };
        self.weak.stale += u32::from(stale > 0);
        self.weak_read(s, i, newest - stale)
    }

    fn weak_read(&mut self, s: usize, i: usize, nr: u32) -> u64 {
        let w = &self.weak.cells[i].writes[nr as usize];
        let t = &mut self.weak.tasks[s];
        raise(&mut t.now, i, nr);
        join(&mut t.read, &w.carries);
        self.weak.rf = w.wr;
        w.val
    }

    /// Event whose write the last load of a weak cell returned.
    pub(super) fn weak_rf(&self) -> u32 {
        self.weak.rf
    }

    /// A store to a weak cell.
    pub(super) fn weak_store(&mut self, p: Ptr, val: u64, wr: u32) {
        let (s, i) = (self.current, self.weak.index(p));
        let carries = self.weak.task(s).carry.clone();
        self.weak_push(s, i, Write { val, wr, carries });
    }

    fn weak_push(&mut self, s: usize, i: usize, w: Write) {
        let nr = self.weak.cells[i].writes.len() as u32;
        self.weak.cells[i].writes.push(w);
        let t = self.weak.task(s);
        raise(&mut t.now, i, nr);
        raise(&mut t.wrote, i, nr);
    }

    fn full_barrier(&mut self, s: usize) {
        self.weak.full(s);
        self.mem.touch(SC, Access::Write);
    }

    /// A read-modify-write while weak memory is on: yields the old value and the event that wrote it.
    pub(super) fn weak_rmw(&mut self, s: usize, op: Op) -> (u64, u32) {
        let p = op.obj;
        let relaxed = op.b == RELAXED && matches!(op.kind, Kind::Add | Kind::Or | Kind::And);
        let newest = super::backend::given().unwrap_or_else(|| self.mem.peek(p));
        let new = op.applied(newest);
        let ordered = !relaxed && new.is_some();
        if ordered {
            self.full_barrier(s);
        }
        let (old, rf);
        if self.mem.is_weak(p) {
            // Indivisible: its write directly follows the newest one, whose followers it joins.
            let i = self.weak.index(p);
            self.weak.task(s);
            let nr = self.weak.cells[i].writes.len() - 1;
            let mut carries = self.weak.cells[i].writes[nr].carries.clone();
            if relaxed {
                raise(&mut self.weak.task(s).now, i, nr as u32);
            } else {
                self.weak_read(s, i, nr as u32);
            }
            old = newest;
            rf = self.weak.cells[i].writes[nr].wr;
            self.mem.touch(p, Access::Read);
            self.observe(old);
            if let Some(val) = new {
                join(&mut carries, &self.weak.task(s).carry);
                let wr = self.log_len();
                self.mem.raw_write(p, val, wr);
                self.mem.touch(p, Access::Write);
                self.weak_push(s, i, Write { val, wr, carries });
            }
        } else {
            rf = self.mem.writer(p);
            old = self.read(p);
            if let Some(val) = new
                && val != old
            {
                self.write(p, val);
            }
        }
        if ordered {
            self.full_barrier(s);
        }
        (old, rf)
    }

    /// Ordering that an operation has before it acts.
    pub(super) fn weak_before(&mut self, s: usize, op: Op) {
        match op.kind {
            Kind::Store if op.b == ORDERED => {
                let t = self.weak.task(s);
                let seen = t.seen();
                t.saved = Some(std::mem::replace(&mut t.carry, seen));
            }
            Kind::Fence | Kind::QueueWork | Kind::GpBegin => self.full_barrier(s),
            Kind::PrepareWait => {
                let q = Ptr::from_word(op.a);
                self.weak.acquire(s, q);
                self.weak.release(s, q);
                self.full_barrier(s);
            }
            Kind::WorkBegin | Kind::RcuCallback => {
                if self.weak.task(s).after_gp {
                    let v = self.weak.readers.clone();
                    self.weak.take_in(s, &v);
                }
                self.weak.acquire(s, op.obj);
            }
            Kind::GpEnd => {
                let v = self.weak.readers.clone();
                self.weak.take_in(s, &v);
                self.full_barrier(s);
            }
            Kind::TimerFire | Kind::FlushWait | Kind::Sleep => self.weak.acquire(s, op.obj),
            Kind::Join => self.weak.acquire(s, Self::task_cell(super::TaskName(op.a as u16))),
            Kind::WakeAll => self.weak.release(s, op.obj),
            _ => {}
        }
    }

    /// Ordering that an operation has after it acted with result `v`.
    pub(super) fn weak_after(&mut self, s: usize, op: Op, v: u64) {
        match op.kind {
            Kind::Load if op.b == ORDERED => {
                let t = self.weak.task(s);
                let read = std::mem::take(&mut t.read);
                join(&mut t.now, &read);
            }
            Kind::Store => {
                let t = self.weak.task(s);
                if let Some(v) = t.saved.take() {
                    t.carry = v;
                }
            }
            Kind::SpinLock | Kind::MutexLock | Kind::DownWrite | Kind::DownRead => self.weak.acquire(s, op.obj),
            Kind::DownReadTrylock if v == 1 => self.weak.acquire(s, op.obj),
            Kind::QueueWork | Kind::TimerFire => self.weak.release(s, op.obj),
            _ => {}
        }
    }

    /// Slot `s` releases what it has seen to `p` (unlock, end of work, exit).
    pub(super) fn weak_release(&mut self, s: usize, p: Ptr) {
        self.weak.release(s, p);
    }

    /// Slot `s` became an RCU reader or stopped being one.
    pub(super) fn weak_reader(&mut self, s: usize, reader: bool) {
        let t = self.weak.task(s);
        if t.reader == reader {
            return;
        }
        t.reader = reader;
        if reader {
            let v = self.weak.before_gp.clone();
            join(&mut self.weak.tasks[s].now, &v);
        } else {
            let v = self.weak.tasks[s].seen();
            join(&mut self.weak.readers, &v);
        }
    }

    /// The running task begins a grace period that slot `waiter` waits for.
    pub(super) fn weak_gp_begin(&mut self, waiter: usize) {
        let s = self.current;
        let v = self.weak.task(s).seen();
        join(&mut self.weak.before_gp, &v);
        self.weak.task(waiter).after_gp = waiter != s;
    }

    /// A task in slot `s` starts with all that its creator has seen.
    pub(super) fn weak_spawn(&mut self, s: usize) {
        let parent = self.current;
        let v = self.weak.task(parent).seen();
        *self.weak.task(s) = Views { now: v.clone(), carry: v, ..Views::default() };
    }

    /// The machine has come to rest: everybody sees the newest values.
    pub(super) fn weak_settled(&mut self) {
        for c in &mut self.weak.cells {
            c.writes.drain(..c.writes.len() - 1);
            c.writes[0].carries.clear();
        }
        let cells = std::mem::take(&mut self.weak.cells);
        self.weak.reset();
        self.weak.cells = cells;
    }

    /// Hash of histories and views: writes that nobody can read any more do not count, and writes are numbered from there.
    pub(super) fn weak_hash(&self) -> u64 {
        let w = &self.weak;
        let mut h = u64::from(w.stale);
        let live: Vec<(usize, &Views)> = (0..w.tasks.len()).filter(|&s| self.tasks.get(s).is_some_and(|t| t.live)).map(|s| (s, &w.tasks[s])).collect();
        let base: Vec<u32> = (0..w.cells.len()).map(|i| live.iter().map(|(_, t)| get(&t.now, i)).min().unwrap_or(0)).collect();
        let gone: Vec<bool> = w.cells.iter().map(|c| !self.mem.live(c.at)).collect();
        let hash_view = |seed: u64, v: &View| {
            let mut x = mix(seed, 0x7669_6577);
            for (i, b) in base.iter().enumerate() {
                if !gone[i] {
                    let t = u64::from(get(v, i).saturating_sub(*b));
                    if t > 0 {
                        x = x.wrapping_add(mix(mix(u64::from(w.cells[i].at.0), t), seed));
                    }
                }
            }
            x
        };
        for (i, c) in w.cells.iter().enumerate().filter(|(i, _)| !gone[*i]) {
            let mut x = u64::from(c.at.0);
            for m in c.writes.get(base[i] as usize..).unwrap_or_default() {
                x = hash_view(mix(x, m.val), &m.carries);
            }
            h = h.wrapping_add(mix(x, 1));
        }
        for (s, t) in live {
            let mut x = mix(u64::from(self.tasks[s].name.0), u64::from(t.reader) | u64::from(t.after_gp) << 1);
            for v in [&t.now, &t.read, &t.carry, &t.wrote] {
                x = hash_view(x, v);
            }
            h = h.wrapping_add(mix(x, 2));
        }
        for (k, v) in [&w.sc, &w.before_gp, &w.readers].into_iter().enumerate() {
            h = h.wrapping_add(hash_view(k as u64 + 3, v));
        }
        let empty = |v: &View| v.iter().zip(&base).zip(&gone).all(|((t, b), g)| *g || t <= b);
        for (p, v) in w.objects.iter().filter(|o| !empty(&o.1)) {
            h = h.wrapping_add(hash_view(u64::from(p.0) << 3, v));
        }
        h
    }
}

/// A read barrier in the running task.
pub(super) fn rmb() {
    super::backend::rmb();
    with(|m| {
        if m.config.weak {
            let s = m.current;
            let t = m.weak.task(s);
            let read = std::mem::take(&mut t.read);
            join(&mut t.now, &read);
        }
    });
}

/// A write barrier in the running task.
pub(super) fn wmb() {
    super::backend::wmb();
    with(|m| {
        if m.config.weak {
            let s = m.current;
            let t = m.weak.task(s);
            join(&mut t.carry, &t.wrote);
        }
    });
}
