//! A second opinion: the same tasks under the schedulers of the shuttle crate.
//!
//! Purpose:  each task is a shuttle future whose every poll is one step of our machine; a wrapper around shuttle's scheduler offers
//!           it the tasks whose announced operation is enabled, and ends the execution when there is none or a violation is fatal.
//! Contract: what a step does is the machine's business alone, so that a difference in verdicts is a difference of scheduling.
//! Can miss: choices other than scheduling are answered at random, and by 0 under [`Scheduler::Dfs`], which cannot branch on them.
//! Each run uses an OS thread of its own, because shuttle may leave a thread unusable after a panic.
//! Shuttle itself lets the environment variable `SHUTTLE_RANDOM_SEED` override seeds.

use ::shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler, Schedule, Scheduler as Inner, Task, TaskId, UrwRandomScheduler};
use ::shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use wbmodel::sync::{Choice, Chooser, End, Fut, Machine, Stop, Violation, set_chooser, with};

/// Shuttle's schedulers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheduler {
    /// Uniform among the enabled tasks.
    Random,
    /// Priorities with `depth - 1` changes.
    Pct {
        /// Bug depth aimed at, at least 1.
        depth: usize,
    },
    /// Uniform among interleavings, by counts estimated in the first execution.
    Urw,
    /// Depth-first enumeration.
    Dfs,
}

/// What to run and when to stop.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Scheduler.
    pub scheduler: Scheduler,
    /// Most executions.
    pub iterations: usize,
    /// Seed of the random schedulers and of choices.
    pub seed: u64,
    /// Stop after the first execution that broke a rule or did not complete.
    pub first_only: bool,
}

/// An execution that broke a rule or did not complete.
#[derive(Clone, Debug)]
pub struct Failing {
    /// Number of the execution, from 0.
    pub nth: u64,
    /// How it ended.
    pub end: End,
    /// What was violated.
    pub violations: Vec<Violation>,
}

/// What a run saw.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Executions.
    pub executions: u64,
    /// Steps of all executions.
    pub steps: u64,
    /// Executions that broke a rule or did not complete.
    pub failing: u64,
    /// First of them.
    pub first: Option<Failing>,
    /// By rule: executions that broke it, and the first.
    pub rules: BTreeMap<&'static str, (u64, u64)>,
    /// Executions in which some task could never go on.
    pub stuck: u64,
    /// Executions that ran out of steps.
    pub out_of_steps: u64,
    /// [`Scheduler::Dfs`] only: nothing is left to explore.
    pub exhausted: bool,
}

/// State of the execution under way, shared by the tasks and the scheduler on one thread.
#[derive(Default)]
struct Run {
    /// Machine slot of each shuttle task; the main task has none.
    slots: Vec<Option<usize>>,
    /// The running task is spawning others: it goes on whatever the scheduler thinks.
    spawning: bool,
    /// Tasks that the inner scheduler has been told of.
    known: usize,
    over: bool,
    steps: u32,
    stats: Stats,
    stop: bool,
}

thread_local! {
    static RUN: RefCell<Run> = RefCell::default();
    static ENDED: RefCell<Option<Arc<Ended>>> = const { RefCell::new(None) };
}

type Ended = dyn Fn(&mut Machine, End) + Send + Sync;

/// The execution is over; from here on every task returns as soon as it is polled.
fn finish(end: End) {
    Machine::finish(end);
    with(|m| {
        m.spawned.clear();
        ENDED.with_borrow(|f| {
            if let Some(f) = f {
                f(m, end);
            }
        });
        RUN.with_borrow_mut(|r| {
            r.over = true;
            let s = &mut r.stats;
            let nth = s.executions;
            s.executions += 1;
            s.steps += u64::from(r.steps);
            s.stuck += u64::from(end == End::Stuck);
            s.out_of_steps += u64::from(end == End::Budget);
            for v in &m.violations {
                s.rules.entry(v.rule).or_insert((0, nth)).0 += 1;
            }
            if end != End::Complete || !m.violations.is_empty() {
                s.failing += 1;
                s.first.get_or_insert_with(|| Failing { nth, end, violations: m.violations.clone() });
            }
        });
    });
}

/// Hands new tasks of the machine to shuttle, in the order in which they were made.
fn adopt() {
    let new = with(|m| std::mem::take(&mut m.spawned));
    for t in new {
        RUN.with_borrow_mut(|r| {
            r.spawning = true;
            r.slots.push(Some(t.slot));
        });
        // The handle is of no use, and dropping it lets the task go on.
        drop(::shuttle::future::spawn_local(Body { slot: t.slot, text: Some(t.body) }));
        RUN.with_borrow_mut(|r| r.spawning = false);
    }
}

/// One task: each poll is one step.
struct Body {
    slot: usize,
    text: Option<Fut>,
}

impl Future for Body {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if RUN.with_borrow(|r| r.over) {
            self.text = None;
            return Poll::Ready(());
        }
        let slot = self.slot;
        let Some(text) = self.text.as_mut() else { return Poll::Ready(()) };
        let done = match catch_unwind(AssertUnwindSafe(|| Machine::advance(slot, text))) {
            Ok(done) => done,
            Err(p) if p.is::<Stop>() => {
                RUN.with_borrow_mut(|r| r.steps += 1);
                finish(End::Fatal);
                self.text = None;
                return Poll::Ready(());
            }
            Err(p) => {
                with(|m| m.aborted = true);
                resume_unwind(p)
            }
        };
        let steps = RUN.with_borrow_mut(|r| {
            r.steps += 1;
            r.steps
        });
        if steps >= with(|m| m.config.max_steps) {
            finish(End::Budget);
        }
        adopt();
        if done {
            self.text = None;
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// The main task after boot: keeps the execution alive until it is over.
struct UntilOver;

impl Future for UntilOver {
    type Output = ();
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if RUN.with_borrow(|r| r.over) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Offers the inner scheduler only tasks that can go on.
struct Filter {
    inner: Option<Box<dyn Inner + Send>>,
    first_only: bool,
}

impl Inner for Filter {
    fn new_execution(&mut self) -> Option<Schedule> {
        let stop = RUN.with_borrow_mut(|r| {
            let stop = r.stop || (self.first_only && r.stats.failing > 0);
            *r = Run { slots: vec![None], stats: std::mem::take(&mut r.stats), stop, ..Run::default() };
            stop
        });
        if stop {
            // Dropped before its last execution, a scheduler of shuttle prints its seed: there is no other way to keep it quiet.
            std::mem::forget(self.inner.take());
            return None;
        }
        let next = self.inner.as_mut()?.new_execution();
        RUN.with_borrow_mut(|r| r.stats.exhausted = next.is_none());
        next
    }

    fn next_task(&mut self, runnable: &[&Task], current: Option<TaskId>, _: bool) -> Option<TaskId> {
        let inner = self.inner.as_mut()?;
        let (spawning, known, over) = RUN.with_borrow(|r| (r.spawning, r.known, r.over));
        let Some(current) = current else { return Some(runnable.first()?.id()) };
        if spawning {
            return Some(current);
        }
        // Schedulers expect to see each task once, in order of creation, before they see later ones.
        for t in runnable.iter().filter(|t| usize::from(t.id()) >= known) {
            inner.next_task(&[*t], Some(current), false);
            RUN.with_borrow_mut(|r| r.known = usize::from(t.id()) + 1);
        }
        if !over {
            let (mask, waiting) = with(|m| (m.enabled_mask(), m.tasks.iter().any(|t| t.live && !t.daemon)));
            if mask != 0 {
                let can: Vec<&Task> = RUN.with_borrow(|r| {
                    let slot = |t: &&&Task| r.slots.get(usize::from(t.id())).copied().flatten();
                    runnable.iter().filter(|t| slot(t).is_some_and(|s| mask & (1 << s) != 0)).copied().collect()
                });
                return inner.next_task(&can, Some(current), false);
            }
            finish(if waiting { End::Stuck } else { End::Complete });
        }
        Some(runnable.last()?.id())
    }

    fn next_u64(&mut self) -> u64 {
        self.inner.as_mut().map_or(0, |s| s.next_u64())
    }
}

/// Answers choices at random, within the configured number of faults.
struct Answers {
    state: u64,
    faults: u32,
}

impl Chooser for Answers {
    fn choose(&mut self, m: &Machine, c: Choice) -> u32 {
        let fault = !matches!(c, Choice::Stale(_));
        if self.state == 0 || (fault && self.faults >= m.config.max_faults) {
            return 0;
        }
        // xorshift64
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let v = ((self.state >> 32) % u64::from(c.arity())) as u32;
        self.faults += u32::from(fault && v != 0);
        v
    }
}

/// Runs executions: `boot` resets the machine, builds the world and spawns its tasks, as for the stepper; `ended` sees each
/// execution once it is over.
///
/// Everything a thread has of its own (rule set, mutant) has to be set by `boot`: it runs on a new thread. A panic that is
/// not a violation is passed on.
pub fn run(options: Options, boot: impl Fn() + Send + Sync + 'static, ended: impl Fn(&mut Machine, End) + Send + Sync + 'static) -> Stats {
    let result = Arc::new(Mutex::new(Stats::default()));
    let out = result.clone();
    let thread = std::thread::spawn(move || {
        ENDED.set(Some(Arc::new(ended)));
        let Options { scheduler, iterations, seed, first_only } = options;
        let inner: Box<dyn Inner + Send> = match scheduler {
            Scheduler::Random => Box::new(RandomScheduler::new_from_seed(seed, iterations)),
            Scheduler::Pct { depth } => Box::new(PctScheduler::new_from_seed(seed, depth.max(1), iterations)),
            Scheduler::Urw => Box::new(UrwRandomScheduler::new_from_seed(seed, iterations)),
            Scheduler::Dfs => Box::new(DfsScheduler::new(Some(iterations), false)),
        };
        let mut config = Config::new();
        // Mirrored text nests deeper than shuttle's default stack allows.
        config.stack_size = 1 << 20;
        config.failure_persistence = FailurePersistence::None;
        // Steps are bounded by the machine's configuration.
        config.max_steps = MaxSteps::None;
        Runner::new(Filter { inner: Some(inner), first_only }, config).run(move || {
            let nth = RUN.with_borrow(|r| r.stats.executions);
            let state = if scheduler == Scheduler::Dfs { 0 } else { (seed ^ nth.wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1 };
            set_chooser(Some(Rc::new(RefCell::new(Answers { state, faults: 0 }))));
            match catch_unwind(AssertUnwindSafe(|| {
                boot();
                Machine::finish_boot();
            })) {
                Ok(()) => adopt(),
                Err(p) if p.is::<Stop>() => finish(End::Fatal),
                Err(p) => resume_unwind(p),
            }
            ::shuttle::future::block_on(UntilOver);
            set_chooser(None);
        });
        RUN.with_borrow_mut(|r| {
            let mut s = std::mem::take(&mut r.stats);
            s.exhausted &= scheduler == Scheduler::Dfs && s.executions < iterations as u64;
            if let Ok(mut out) = out.lock() {
                *out = s;
            }
        });
    });
    if let Err(p) = thread.join() {
        resume_unwind(p);
    }
    let stats = result.lock().map(|s| s.clone());
    stats.unwrap_or_default()
}
