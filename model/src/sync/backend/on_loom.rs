//! Loom as the engine: tasks are loom threads, weak cells loom atomics, barriers loom fences.
//!
//! A task polls its future as on the stepper. Before each step it touches a loom atomic that belongs to the announced operation's
//! object, which is where loom switches threads; then the machine performs the operation at once. Lock-like operations touch
//! with acquire and release, all others relaxed, so that order comes from what the kernel orders and from nothing else. The main
//! thread runs work items and callbacks, first come first served.
//!
//! Differences from the stepper are listed in `loom-tests/README.md`.

use super::super::machine::with;
use super::super::mem::Ptr;
use super::super::op::{Kind, Op};
use super::super::weak::{ORDERED, RELAXED};
use super::super::{End, Fut, Machine, Stop};
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread::{self, Thread};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

/// How far loom explores.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Most preemptions in one execution; `None` for all.
    pub preemptions: Option<usize>,
    /// Most executions; `None` for all within the bound.
    pub executions: Option<usize>,
    /// Objects that one execution may touch; each costs loom time in every execution.
    pub objects: usize,
}

impl Default for Bounds {
    /// Everything, for programs of some twenty objects.
    fn default() -> Bounds {
        Bounds { preemptions: None, executions: None, objects: 32 }
    }
}

/// Pseudo-object that starts of grace periods release to and read sections acquire.
const GP: Ptr = Ptr(0xfff0_0001);
/// Pseudo-object that ends of read sections release to and grace periods acquire.
const SECTIONS: Ptr = Ptr(0xfff0_0002);

#[derive(Default)]
struct Run {
    objects: Vec<(Ptr, Rc<AtomicU64>)>,
    /// Made before the threads start: loom takes a later creation for an access that races.
    spare: Vec<Rc<AtomicU64>>,
    weak: Vec<Ptr>,
    /// Released in the machine, not yet in loom: not to be acquired.
    unpublished: Vec<Ptr>,
    /// Blocked loom threads: the slot each waits for, or none for the main thread.
    waiting: Vec<(Option<usize>, Thread)>,
    /// Wake-ups per wait queue.
    wakes: Vec<(Ptr, u32)>,
    users: usize,
    started: bool,
    end: Option<End>,
}

thread_local! {
    static RUN: RefCell<Run> = RefCell::default();
    static BODIES: RefCell<Vec<(usize, Fut)>> = RefCell::default();
    static GIVEN: Cell<Option<u64>> = const { Cell::new(None) };
}

fn object(p: Ptr) -> Rc<AtomicU64> {
    RUN.with_borrow_mut(|r| match r.objects.iter().find(|o| o.0 == p) {
        Some(o) => o.1.clone(),
        None => {
            let a = r.spare.pop().expect("loom-tests: more objects than the bounds say");
            r.objects.push((p, a.clone()));
            a
        }
    })
}

fn weak(p: Ptr) -> Option<Rc<AtomicU64>> {
    RUN.with_borrow(|r| r.weak.contains(&p)).then(|| object(p))
}

/// A loom operation in the middle of a step: other threads may run, so the machine's idea of who runs is put back.
fn inside<R>(f: impl FnOnce() -> R) -> R {
    let s = with(|m| m.current);
    let v = f();
    with(|m| m.current = s);
    v
}

/// Declares a weak cell with its present value, at boot; cells of objects made later stay strong.
pub fn declare(p: Ptr, v: u64) {
    if RUN.with_borrow(|r| r.started) {
        return;
    }
    let a = Rc::new(AtomicU64::new(v));
    RUN.with_borrow_mut(|r| {
        r.weak.push(p);
        r.objects.retain(|o| o.0 != p);
        r.objects.push((p, a));
    });
}

/// A plain load is about to happen.
pub fn touch_load(p: Ptr) {
    if let Some(a) = weak(p) {
        let v = inside(|| {
            meet(p);
            a.load(Ordering::Relaxed)
        });
        GIVEN.set(Some(v));
    }
}

/// A plain store is about to happen.
pub fn store(p: Ptr, v: u64) {
    if let Some(a) = weak(p) {
        inside(|| {
            meet(p);
            a.store(v, Ordering::Relaxed);
        });
    }
}

/// Value that a load of a weak cell has to return.
pub fn given() -> Option<u64> {
    GIVEN.take()
}

/// A read barrier.
pub fn rmb() {
    inside(|| fence(Ordering::Acquire));
}

/// A write barrier.
pub fn wmb() {
    inside(|| fence(Ordering::Release));
}

fn rmw(p: Ptr, order: Ordering) {
    object(p).fetch_add(0, order);
}

/// Before an access to a weak cell: makes all of them depend on each other. Loom compares an access with the last one only, so
/// that after a load and a store of one task it would never try another task's store before that load.
fn meet(p: Ptr) {
    if RUN.with_borrow(|r| r.started) {
        rmw(Ptr(p.0 | 1 << 31), Ordering::Relaxed);
    }
}

fn wakes(q: Ptr) -> u32 {
    RUN.with_borrow(|r| r.wakes.iter().find(|w| w.0 == q).map_or(0, |w| w.1))
}

/// The visible part of an operation, in loom; its effect on the machine follows without a switch.
fn touch(op: Op) {
    let p = op.obj;
    let cell = weak(p);
    if cell.is_some() {
        meet(p);
    }
    GIVEN.set(None);
    match op.kind {
        Kind::Load => match cell {
            Some(a) => {
                let v = a.load(if op.b == ORDERED { Ordering::Acquire } else { Ordering::Relaxed });
                GIVEN.set(Some(v));
            }
            // Its value is the machine's: a read-modify-write sees the newest and makes no branches for older ones.
            None => rmw(p, Ordering::Relaxed),
        },
        Kind::Store => match cell {
            Some(a) => a.store(op.a, if op.b == ORDERED { Ordering::Release } else { Ordering::Relaxed }),
            None => rmw(p, Ordering::Relaxed),
        },
        Kind::Add | Kind::Or | Kind::And | Kind::Xchg | Kind::Cmpxchg | Kind::AddUnless => {
            let relaxed = op.b == RELAXED && matches!(op.kind, Kind::Add | Kind::Or | Kind::And);
            if !relaxed {
                fence(Ordering::SeqCst);
            }
            let old = match cell {
                Some(a) => {
                    let old = update(op, &a);
                    GIVEN.set(Some(old));
                    old
                }
                None => {
                    rmw(p, Ordering::Relaxed);
                    with(|m| m.mem.peek(p))
                }
            };
            if !relaxed && op.applied(old).is_some() {
                fence(Ordering::SeqCst);
            }
        }
        Kind::Fence => fence(Ordering::SeqCst),
        Kind::Start | Kind::Yield => {}
        Kind::GpBegin => {
            fence(Ordering::SeqCst);
            rmw(GP, Ordering::AcqRel);
        }
        Kind::GpEnd => {
            fence(Ordering::SeqCst);
            rmw(SECTIONS, Ordering::Acquire);
        }
        Kind::RcuCallback => {
            rmw(GP, Ordering::Acquire);
            rmw(SECTIONS, Ordering::Acquire);
        }
        Kind::PrepareWait => {
            let q = Ptr::from_word(op.a);
            loop {
                let before = wakes(q);
                rmw(q, Ordering::AcqRel);
                fence(Ordering::SeqCst);
                touch(Op::new(Kind::Load, p));
                // Entering the queue and testing are one step of the machine: nobody may have woken it in between.
                if wakes(q) == before {
                    break;
                }
            }
        }
        _ => rmw(p, Ordering::AcqRel),
    }
}

/// The read-modify-write in loom: yields the old value, which need not be the machine's newest.
fn update(op: Op, a: &AtomicU64) -> u64 {
    let r = Ordering::Relaxed;
    match op.kind {
        Kind::Add => a.fetch_add(op.a, r),
        Kind::Or => a.fetch_or(op.a, r),
        Kind::And => a.fetch_and(op.a, r),
        Kind::Xchg => a.swap(op.a, r),
        Kind::Cmpxchg => a.compare_exchange(op.a, op.b, r, r).unwrap_or_else(|old| old),
        _ => a.fetch_update(r, r, |old| op.applied(old)).unwrap_or_else(|old| old),
    }
}

/// May slot `s` go on, as far as the machine and pending releases say?
fn ready(s: usize) -> bool {
    let (op, reads, can) = with(|m| (m.tasks[s].pending, m.tasks[s].rcu_lazy, m.enabled(s)));
    can && RUN.with_borrow(|r| {
        let waits = |p: Ptr| r.unpublished.contains(&p);
        let for_section = reads && waits(GP);
        let for_period = matches!(op.kind, Kind::GpEnd | Kind::RcuCallback) && (waits(SECTIONS) || waits(GP));
        !waits(op.obj) && !for_section && !for_period
    })
}

/// Lets those go on who wait for something that is so by now.
fn wake() {
    let waiting = RUN.with_borrow_mut(|r| std::mem::take(&mut r.waiting));
    let over = RUN.with_borrow(|r| r.end.is_some());
    for (s, t) in waiting {
        // The main thread looks for itself.
        if over || s.is_none_or(ready) {
            t.unpark();
        } else {
            RUN.with_borrow_mut(|r| r.waiting.push((s, t)));
        }
    }
}

fn wait(s: Option<usize>) {
    let me = thread::current();
    RUN.with_borrow_mut(|r| r.waiting.push((s, me)));
    thread::park();
}

fn finish(end: End) {
    Machine::finish(end);
    RUN.with_borrow_mut(|r| r.end = Some(end));
    with(|m| m.spawned.clear());
}

enum Stepped {
    Blocked,
    GoesOn,
    Done,
}

/// One step of slot `s`, or nothing if it is blocked.
fn step(s: usize, body: &mut Fut) -> Stepped {
    let over = || RUN.with_borrow(|r| r.end.is_some());
    if with(|m| m.tasks[s].rcu_lazy) {
        // The section begins here: whoever starts a grace period after this waits for it.
        rmw(GP, Ordering::Acquire);
        if over() {
            return Stepped::Done;
        }
        if RUN.with_borrow(|r| r.unpublished.contains(&GP)) {
            return Stepped::Blocked;
        }
        with(|m| {
            m.current = s;
            m.rcu_enter_now(s);
        });
    }
    let op = with(|m| m.tasks[s].pending);
    touch(op);
    if over() {
        return Stepped::Done;
    }
    if !ready(s) {
        return Stepped::Blocked;
    }
    if op.kind == Kind::WakeAll {
        RUN.with_borrow_mut(|r| match r.wakes.iter_mut().find(|w| w.0 == op.obj) {
            Some(w) => w.1 += 1,
            None => r.wakes.push((op.obj, 1)),
        });
    }
    let from = with(|m| m.log_len()) as usize;
    let done = catch_unwind(AssertUnwindSafe(|| Machine::advance(s, body)));
    let done = match done {
        Ok(done) => done,
        Err(p) if p.is::<Stop>() => {
            finish(End::Fatal);
            wake();
            return Stepped::Done;
        }
        Err(p) => {
            with(|m| m.aborted = true);
            resume_unwind(p)
        }
    };
    let name = with(|m| m.tasks[s].name);
    let released: Vec<Ptr> = with(|m| {
        let mine = m.log[from.min(m.log.len())..].iter().filter(|e| done || e.task == name);
        let mut v: Vec<Ptr> = mine
            .filter_map(|e| match e.kind {
                Kind::SpinUnlock | Kind::MutexUnlock | Kind::UpNow | Kind::WorkEnd => Some(e.obj),
                Kind::RcuExit => Some(SECTIONS),
                Kind::CallRcu => Some(GP),
                _ => None,
            })
            .collect();
        v.dedup();
        v
    });
    // Freeing depends on every access to the object.
    let freed: Vec<(u32, u32)> = with(|m| {
        let freed = m.log[from.min(m.log.len())..].iter().filter(|e| e.kind == Kind::Free);
        freed.filter_map(|e| m.mem.alloc_of(e.obj)).map(|a| (a.base.0, a.base.0 + a.cells)).collect()
    });
    RUN.with_borrow_mut(|r| r.unpublished.extend(&released));
    for (start, end) in freed {
        let cells: Vec<Ptr> = RUN.with_borrow(|r| r.objects.iter().map(|o| o.0).filter(|p| (start..end).contains(&p.0)).collect());
        cells.into_iter().for_each(|p| rmw(p, Ordering::Relaxed));
    }
    for p in released {
        rmw(p, Ordering::Release);
        RUN.with_borrow_mut(|r| {
            if let Some(i) = r.unpublished.iter().position(|&u| u == p) {
                r.unpublished.swap_remove(i);
            }
        });
    }
    wake();
    if done { Stepped::Done } else { Stepped::GoesOn }
}

fn drive(s: usize) {
    let Some(mut body) = BODIES.with_borrow_mut(|b| b.iter().position(|x| x.0 == s).map(|i| b.remove(i).1)) else { return };
    loop {
        match step(s, &mut body) {
            Stepped::Done => break,
            Stepped::GoesOn => {}
            Stepped::Blocked => wait(Some(s)),
        }
    }
    drop(body);
    RUN.with_borrow_mut(|r| r.users -= 1);
    wake();
}

/// Explores `boot` on loom: it resets the machine, builds the world and spawns at most four tasks. `ended` sees each execution.
///
/// Returns how many there were. Loom panics where all threads block: a program here must end in every execution.
pub fn run(bounds: Bounds, boot: impl Fn() + Send + Sync + 'static, ended: impl Fn(&mut Machine, End) + Send + Sync + 'static) -> u64 {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = bounds.preemptions;
    model.max_permutations = bounds.executions;
    // Loom's own limit is meant to catch endless loops: the longest of these programs has some hundred branches.
    model.max_branches = 20_000;
    model.log = false;
    let executions = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = executions.clone();
    model.check(move || {
        RUN.set(Run::default());
        BODIES.take();
        GIVEN.set(None);
        boot();
        Machine::finish_boot();
        let spare = (0..bounds.objects).map(|_| Rc::new(AtomicU64::new(0))).collect();
        RUN.with_borrow_mut(|r| {
            r.spare = spare;
            r.started = true;
        });
        let mut deferred: Vec<(usize, Fut)> = Vec::new();
        for t in with(|m| std::mem::take(&mut m.spawned)) {
            if with(|m| matches!(m.tasks[t.slot].label, super::super::TaskLabel::User(_))) {
                RUN.with_borrow_mut(|r| r.users += 1);
                // Words; the default is too small for mirrored text.
                let built = thread::Builder::new().stack_size(0x10000);
                let slot = t.slot;
                // All loom threads are coroutines of this thread; only loom's signature wants a body that can be sent.
                BODIES.with_borrow_mut(|b| b.push((slot, t.body)));
                built.spawn(move || drive(slot)).expect("loom's spawn never fails");
            } else {
                deferred.push((t.slot, t.body));
            }
        }
        loop {
            deferred.extend(with(|m| std::mem::take(&mut m.spawned)).into_iter().map(|t| (t.slot, t.body)));
            let (over, users) = RUN.with_borrow(|r| (r.end.is_some(), r.users));
            let left = deferred.iter().any(|d| with(|m| !m.tasks[d.0].daemon));
            if users == 0 && (over || !left) {
                break;
            }
            let next = if over { None } else { deferred.iter().position(|d| ready(d.0)) };
            match next {
                Some(i) => {
                    let (slot, mut body) = deferred.remove(i);
                    if !matches!(step(slot, &mut body), Stepped::Done) {
                        deferred.insert(i, (slot, body));
                    }
                }
                None => wait(None),
            }
        }
        let end = RUN.with_borrow(|r| r.end).unwrap_or_else(|| {
            finish(End::Complete);
            End::Complete
        });
        drop(deferred);
        with(|m| ended(m, end));
        count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        // Loom's objects belong to this execution.
        RUN.set(Run::default());
    });
    executions.load(std::sync::atomic::Ordering::Relaxed)
}
