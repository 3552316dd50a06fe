//! Work items: idle, timer armed, pending, running, running and pending again.
//!
//! Each queueing makes a worker task whose first step turns pending into running; one item never runs beside itself,
//! different items do. A flush waits for the last queueing that had happened when it started, and for nothing later.

use super::event::Tp;
use super::machine::{Machine, with};
use super::mem::{Access, Field, Ptr, mix};
use super::op::{Kind, Op};
use super::step::{Step, step};
use super::task::{Fut, Level, NameKey, TaskLabel};
use std::panic::Location;

/// A work function with its kernel name.
#[derive(Clone, Copy)]
pub struct WorkFn {
    /// Kernel name.
    pub name: &'static str,
    /// Makes the body from the address of the work item.
    pub body: fn(Ptr) -> Fut,
}

/// A work queue: at most `max_active` items run at once (0: any number).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Workqueue {
    /// Small number that identifies it.
    pub id: u32,
    /// Items that may run at once; 0 for no limit.
    pub max_active: u32,
}

/// `struct work_struct`. Its cell counts changes; the state is kept by the machine, because an item may be freed by its own function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Work(Ptr);

/// `struct delayed_work`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DelayedWork(Ptr);

impl Field for Work {
    const CELLS: u32 = 1;
    fn at(p: Ptr) -> Self {
        Work(p)
    }
}
impl Field for DelayedWork {
    const CELLS: u32 = 1;
    fn at(p: Ptr) -> Self {
        DelayedWork(p)
    }
}

#[derive(Clone)]
pub(super) struct WorkState {
    work: Ptr,
    func: WorkFn,
    wq: Workqueue,
    timer: bool,
    timers: u32,
    pending: bool,
    running: bool,
    queued: u64,
    begun: u64,
    ended: u64,
    /// Slot that runs it.
    slot: usize,
}

impl Work {
    /// `INIT_WORK`: the function it runs and the queue it is always queued on.
    pub fn init(self, func: WorkFn, wq: Workqueue) {
        init(self.0, func, wq);
    }
    /// Address.
    pub fn ptr(self) -> Ptr {
        self.0
    }
    /// `work_pending`
    pub fn pending(self) -> bool {
        with(|m| m.read(self.0) & 1 != 0)
    }
}

impl DelayedWork {
    /// `INIT_DELAYED_WORK`
    pub fn init(self, func: WorkFn, wq: Workqueue) {
        init(self.0, func, wq);
    }
    /// Address.
    pub fn ptr(self) -> Ptr {
        self.0
    }
    /// `delayed_work_pending`: its timer is armed or it is queued.
    pub fn pending(self) -> bool {
        with(|m| m.read(self.0) & 3 != 0)
    }
}

/// A timer does its work in its first step.
pub(super) fn timer_body() -> Fut {
    Box::pin(async {})
}

fn init(p: Ptr, func: WorkFn, wq: Workqueue) {
    with(|m| {
        m.write(p, 0);
        m.works.retain(|w| w.work != p || w.pending || w.running || w.timer);
        if m.works.iter().any(|w| w.work == p) {
            let n = m.mem.name(p);
            m.report("LT-LOCK-3", format!("work item {n} initialised while active"));
            return;
        }
        m.works.push(WorkState { work: p, func, wq, timer: false, timers: 0, pending: false, running: false, queued: 0, begun: 0, ended: 0, slot: 0 });
    });
}

/// `queue_work`: yields 1 if the item was not pending yet.
#[track_caller]
pub fn queue_work(w: Work) -> Step {
    step(Op::with(Kind::QueueWork, w.0, 0))
}
/// `queue_delayed_work`: arms the timer if the item is neither pending nor armed.
#[track_caller]
pub fn queue_delayed_work(w: DelayedWork) -> Step {
    step(Op::with(Kind::QueueWork, w.0, 1))
}
/// `mod_delayed_work(.., 0)`: stops the timer and queues the item now.
#[track_caller]
pub fn mod_delayed_work(w: DelayedWork) -> Step {
    step(Op::with(Kind::QueueWork, w.0, 2))
}
/// `mod_delayed_work(.., 0)` that may meet a flush: a pending item is taken off its queue and queued anew, so that a flush that
/// waits for the old queueing ends with the run under way. Where nothing is queued once a flush began, as between
/// clearing WB_registered and the flush, [`mod_delayed_work`] means the same.
#[track_caller]
pub fn requeue_delayed_work(w: DelayedWork) -> Step {
    step(Op::with(Kind::QueueWork, w.0, 3))
}
/// `flush_work`
#[track_caller]
pub fn flush_work(w: Work) -> impl Future<Output = ()> {
    flush(w.0)
}
/// `flush_delayed_work`: queues the item now if its timer is armed, then waits for the last queueing to finish.
#[track_caller]
pub fn flush_delayed_work(w: DelayedWork) -> impl Future<Output = ()> {
    flush(w.0)
}

#[track_caller]
fn flush(p: Ptr) -> impl Future<Output = ()> {
    let begin = step(Op::new(Kind::FlushBegin, p));
    let wait = step(Op::new(Kind::FlushWait, p));
    async move {
        begin.await;
        wait.await;
    }
}

impl Machine {
    fn work(&mut self, p: Ptr) -> usize {
        match self.works.iter().position(|w| w.work == p) {
            Some(i) => i,
            None => {
                let n = self.mem.name(p);
                super::event::fatal_in(self, "LT-MEM-0", format!("work item {n} was never initialised"));
            }
        }
    }

    /// The item's cell shows its state, so that hashes, footprints and freed-memory checks see it.
    fn show_work(&mut self, i: usize) {
        let w = &self.works[i];
        let (p, v) = (w.work, u64::from(w.pending) | u64::from(w.timer) << 1 | u64::from(w.running) << 2);
        self.write(p, v);
    }

    fn make_pending(&mut self, i: usize) {
        let w = &mut self.works[i];
        w.pending = true;
        w.timer = false;
        w.queued += 1;
        let (p, f, n) = (w.work, w.func, w.queued as u32);
        self.show_work(i);
        let body = (f.body)(p);
        self.spawn_named(NameKey::Work(p, n), TaskLabel::Work(f.name, p), Level::Task, None, Op::with(Kind::WorkBegin, p, u64::from(n)), body);
    }

    pub(super) fn do_queue_work(&mut self, op: Op) -> u64 {
        self.read_quietly(op.obj);
        let i = self.work(op.obj);
        let w = &self.works[i];
        let queued = match op.a {
            3 if w.pending => {
                let w = &mut self.works[i];
                w.queued += 1;
                w.ended += 1;
                self.show_work(i);
                0
            }
            _ if w.pending => 0,
            0 if w.timer => 0,
            1 if w.timer => 0,
            1 => {
                let w = &mut self.works[i];
                w.timer = true;
                w.timers += 1;
                let (p, n) = (w.work, w.timers);
                self.show_work(i);
                self.spawn_named(NameKey::Timer(p, n), TaskLabel::Timer(p), Level::Softirq, None, Op::with(Kind::TimerFire, p, u64::from(n)), timer_body());
                1
            }
            _ => {
                self.make_pending(i);
                1
            }
        };
        self.observe(queued);
        queued
    }

    pub(super) fn timer_may_fire(&self, op: Op) -> bool {
        self.timers_fired < self.config.timers && self.works.iter().any(|w| w.work == op.obj && w.timer && u64::from(w.timers) == op.a)
    }

    pub(super) fn do_timer_fire(&mut self, op: Op) -> u64 {
        // Timers share one budget.
        self.timers_fired += 1;
        self.mem.touch(super::machine::TIMERS, Access::Write);
        self.read(op.obj);
        let i = self.work(op.obj);
        self.make_pending(i);
        1
    }

    pub(super) fn work_may_begin(&self, p: Ptr) -> bool {
        let Some(w) = self.works.iter().find(|w| w.work == p) else { return true };
        let active = self.works.iter().filter(|x| x.wq == w.wq && x.running).count() as u32;
        !w.running && (w.wq.max_active == 0 || active < w.wq.max_active)
    }

    pub(super) fn do_work_begin(&mut self, s: usize, op: Op) -> u64 {
        self.read_quietly(op.obj);
        let i = self.work(op.obj);
        let w = &mut self.works[i];
        w.pending = false;
        w.running = true;
        w.begun += 1;
        w.slot = s;
        let wq = w.wq;
        self.touch_queue(wq, Access::Acquire);
        self.show_work(i);
        op.a
    }

    /// A limited queue is a lock that its items hold while they run; with room for several it is any shared state.
    fn touch_queue(&mut self, wq: Workqueue, a: Access) {
        if wq.max_active > 0 {
            self.mem.touch(Ptr(0xfffe_0000 | wq.id), if wq.max_active == 1 { a } else { Access::Write });
        }
    }

    /// What beginning to run the item at `p` takes from the other items of its queue, in footprints.
    pub fn queue_cell(&self, p: Ptr) -> Option<(Ptr, Access)> {
        let wq = self.works.iter().find(|w| w.work == p)?.wq;
        (wq.max_active > 0).then_some((Ptr(0xfffe_0000 | wq.id), if wq.max_active == 1 { Access::Acquire } else { Access::Write }))
    }

    pub(super) fn work_ended(&mut self, s: usize) {
        let Some(i) = self.works.iter().position(|w| w.running && w.slot == s) else { return };
        let w = &mut self.works[i];
        w.running = false;
        w.ended += 1;
        let (p, wq) = (w.work, w.wq);
        // The item may be gone: nothing of it is touched but its cell, if it still exists.
        let (v, ev) = (u64::from(w.pending) | u64::from(w.timer) << 1, self.log_len());
        if self.config.weak {
            self.weak_release(s, p);
        }
        self.mem.raw_write(p, v, ev);
        self.mem.touch(p, Access::Release);
        self.touch_queue(wq, Access::Release);
        self.commit(Kind::WorkEnd, Tp::Note, p, 0, 0, Location::caller());
    }

    pub(super) fn do_flush_begin(&mut self, s: usize, op: Op) -> u64 {
        self.read_quietly(op.obj);
        let i = self.work(op.obj);
        if self.works[i].timer {
            self.make_pending(i);
        }
        let w = &self.works[i];
        self.tasks[s].flush_target = if w.pending || w.running { w.queued } else { 0 };
        self.tasks[s].flush_target
    }

    pub(super) fn work_done(&self, p: Ptr, target: u64) -> bool {
        self.works.iter().find(|w| w.work == p).is_none_or(|w| w.ended >= target)
    }

    pub(super) fn works_hash(&self) -> u64 {
        self.works.iter().fold(0, |h, w| h.wrapping_add(mix(u64::from(w.work.0), w.queued << 40 | w.ended << 20 | u64::from(w.timers))))
    }
}
