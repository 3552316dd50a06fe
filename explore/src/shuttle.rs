//! A second opinion: the same tasks under the schedulers of the shuttle crate.
//!
//! Purpose:  each task is a shuttle future whose every poll is one step of our machine; a wrapper around shuttle's scheduler offers
//!           it the tasks whose announced operation is enabled, and ends the execution when there is none or a violation is fatal.
//! Contract: what a step does is the machine's business alone, so that a difference in verdicts is a difference of scheduling.
//! Can miss: choices other than scheduling are answered at random, and by 0 under [`Scheduler::Dfs`], which cannot branch on them.
//!
//! Two entries: [`run`] lets shuttle go from one execution to the next, on an OS thread of its own, because shuttle may leave a
//! thread unusable after a panic; [`Engine`] runs one execution at a time on the caller's thread, as [`crate::stepper::Stepper`]
//! does, under a scheduler of shuttle's or a strategy of ours.
//! Shuttle itself lets the environment variable `SHUTTLE_RANDOM_SEED` override seeds.

use crate::decision::Decision;
use crate::strategy::Strategy;
use ::shuttle::scheduler::{DfsScheduler, PctScheduler, RandomScheduler, Schedule, Scheduler as Inner, Task, TaskId, UrwRandomScheduler};
use ::shuttle::{Config, FailurePersistence, MaxSteps, Runner};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::mem::ManuallyDrop;
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

/// Shuttle's schedulers by name, with what they do.
pub const SCHEDULERS: &[(&str, &str)] = &[
    ("random", "uniform among the runnable tasks at every point"),
    ("pct[:depth]", "random priorities with depth - 1 demotions"),
    ("urw", "tasks weighted by the steps they took in the first execution"),
    ("dfs", "plain enumeration of schedules; other choices are answered by 0"),
];

/// Depth of [`Scheduler::Pct`] where nobody says otherwise.
const DEPTH: usize = 3;

impl std::str::FromStr for Scheduler {
    /// The name.
    type Err = String;
    fn from_str(s: &str) -> Result<Scheduler, String> {
        let depth = |d: &str| d.parse().ok().filter(|d| (1..=1000).contains(d));
        match s.split_once(':') {
            None if s == "random" => Ok(Scheduler::Random),
            None if s == "pct" => Ok(Scheduler::Pct { depth: DEPTH }),
            None if s == "urw" => Ok(Scheduler::Urw),
            None if s == "dfs" => Ok(Scheduler::Dfs),
            Some(("pct", d)) => depth(d).map(|depth| Scheduler::Pct { depth }).ok_or_else(|| s.to_string()),
            _ => Err(s.to_string()),
        }
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheduler::Random => f.write_str("random"),
            Scheduler::Pct { depth } => write!(f, "pct:{depth}"),
            Scheduler::Urw => f.write_str("urw"),
            Scheduler::Dfs => f.write_str("dfs"),
        }
    }
}

impl Scheduler {
    fn start(self, seed: u64, iterations: usize) -> Box<dyn Inner + Send> {
        match self {
            Scheduler::Random => Box::new(RandomScheduler::new_from_seed(seed, iterations)),
            Scheduler::Pct { depth } => Box::new(PctScheduler::new_from_seed(seed, depth.max(1), iterations)),
            Scheduler::Urw => Box::new(UrwRandomScheduler::new_from_seed(seed, iterations)),
            Scheduler::Dfs => Box::new(DfsScheduler::new(Some(iterations), false)),
        }
    }

    fn answers(self, seed: u64, nth: u64) -> Answers {
        let state = if self == Scheduler::Dfs { 0 } else { (seed ^ nth.wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1 };
        Answers { state, faults: 0 }
    }
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
    end: Option<End>,
    steps: u32,
    stats: Stats,
    stop: bool,
    /// Decisions, where they are wanted.
    decisions: Option<Vec<Decision>>,
    /// The task that has run last, if it is still alive.
    last: Option<usize>,
    /// Choices that were asked.
    asked: u64,
    /// Decides instead of a scheduler of shuttle's.
    strategy: Option<Rc<RefCell<dyn Strategy>>>,
}

impl Run {
    fn over(&self) -> bool {
        self.end.is_some()
    }
}

thread_local! {
    static RUN: RefCell<Run> = RefCell::default();
    static ENDED: RefCell<Option<Arc<Ended>>> = const { RefCell::new(None) };
}

type Ended = dyn Fn(&mut Machine, End) + Send + Sync;

/// The execution is over; from here on every task returns as soon as it is polled.
fn finish(end: End) {
    if let Some(s) = RUN.with_borrow(|r| r.strategy.clone()) {
        with(|m| s.borrow_mut().ended(m, end));
    }
    Machine::finish(end);
    with(|m| {
        m.spawned.clear();
        ENDED.with_borrow(|f| {
            if let Some(f) = f {
                f(m, end);
            }
        });
        RUN.with_borrow_mut(|r| {
            r.end = Some(end);
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

/// A step of the slot was performed.
fn stepped(slot: usize, done: bool) -> u32 {
    let (steps, strategy) = RUN.with_borrow_mut(|r| {
        r.steps += 1;
        r.last = (!done).then_some(slot);
        (r.steps, r.strategy.clone())
    });
    if let Some(s) = strategy {
        with(|m| s.borrow_mut().stepped(m, slot));
    }
    steps
}

/// One task: each poll is one step.
struct Body {
    slot: usize,
    text: Option<Fut>,
}

impl Future for Body {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if RUN.with_borrow(Run::over) {
            self.text = None;
            return Poll::Ready(());
        }
        let slot = self.slot;
        let Some(text) = self.text.as_mut() else { return Poll::Ready(()) };
        let done = match catch_unwind(AssertUnwindSafe(|| Machine::advance(slot, text))) {
            Ok(done) => done,
            Err(p) if p.is::<Stop>() => {
                stepped(slot, true);
                finish(End::Fatal);
                self.text = None;
                return Poll::Ready(());
            }
            Err(p) => {
                with(|m| m.aborted = true);
                resume_unwind(p)
            }
        };
        let steps = stepped(slot, done);
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
        if RUN.with_borrow(Run::over) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// Offers the inner scheduler, or the strategy, only tasks that can go on.
fn next_task(mut inner: Option<&mut (dyn Inner + Send)>, runnable: &[&Task], current: Option<TaskId>) -> Option<TaskId> {
    let (spawning, known, over) = RUN.with_borrow(|r| (r.spawning, r.known, r.over()));
    let Some(current) = current else { return Some(runnable.first()?.id()) };
    if spawning {
        return Some(current);
    }
    // Schedulers expect to see each task once, in order of creation, before they see later ones.
    for t in runnable.iter().filter(|t| usize::from(t.id()) >= known) {
        if let Some(inner) = &mut inner {
            inner.next_task(&[*t], Some(current), false);
        }
        RUN.with_borrow_mut(|r| r.known = usize::from(t.id()) + 1);
    }
    if !over {
        let (mask, waiting) = with(|m| (m.enabled_mask(), m.tasks.iter().any(|t| t.live && !t.daemon)));
        if mask == 0 {
            finish(if waiting { End::Stuck } else { End::Complete });
        } else {
            let slot = |t: &Task| RUN.with_borrow(|r| r.slots.get(usize::from(t.id())).copied().flatten());
            let chosen = match inner {
                Some(inner) => {
                    let can: Vec<&Task> = runnable.iter().filter(|t| slot(t).is_some_and(|s| mask & (1 << s) != 0)).copied().collect();
                    let id = inner.next_task(&can, Some(current), false)?;
                    can.iter().find(|t| t.id() == id).and_then(|t| Some((id, slot(t)?)))
                }
                None => {
                    let (strategy, last) = RUN.with_borrow(|r| (r.strategy.clone(), r.last));
                    let picked = strategy.and_then(|s| with(|m| s.borrow_mut().pick(m, mask, last)));
                    picked.and_then(|p| runnable.iter().find(|t| slot(t) == Some(p)).map(|t| (t.id(), p)))
                }
            };
            match chosen {
                Some((id, s)) => {
                    decided(s, mask);
                    return Some(id);
                }
                None => finish(End::Cut),
            }
        }
    }
    Some(runnable.last()?.id())
}

/// Notes a decision for slot `s` out of the mask.
fn decided(s: usize, mask: u64) {
    RUN.with_borrow_mut(|r| {
        let preempts = r.last.is_some_and(|l| l != s && mask & (1 << l) != 0);
        if let Some(d) = &mut r.decisions {
            with(|m| {
                let t = &m.tasks[s];
                d.push(Decision::Task { name: t.name, kind: t.pending.kind, obj: t.pending.obj, preempts });
            });
        }
    });
}

/// Goes from one execution to the next until the inner scheduler has enough.
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
        next_task(Some(&mut **self.inner.as_mut()?), runnable, current)
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

/// Notes what another chooser answers.
struct Noted<C>(C);

impl<C: Chooser> Chooser for Noted<C> {
    fn choose(&mut self, m: &Machine, c: Choice) -> u32 {
        let value = self.0.choose(m, c);
        RUN.with_borrow_mut(|r| {
            r.asked += 1;
            r.decisions.get_or_insert_default().push(Decision::Choice { name: c.name(), value });
        });
        value
    }
}

/// Asks a strategy.
struct Ask(Rc<RefCell<dyn Strategy>>);

impl Chooser for Ask {
    fn choose(&mut self, m: &Machine, c: Choice) -> u32 {
        self.0.borrow_mut().choose(m, c)
    }
}

/// Who decides in an [`Engine`].
#[derive(Clone)]
enum Who {
    /// One of shuttle's. Never dropped: before its last execution it would print its seed.
    Shuttle { inner: Rc<RefCell<ManuallyDrop<Box<dyn Inner + Send>>>>, scheduler: Scheduler, seed: u64 },
    /// One of ours.
    Ours(Rc<RefCell<dyn Strategy>>),
}

/// Lets shuttle run one execution.
struct Once {
    who: Who,
    begun: bool,
    exhausted: Rc<RefCell<bool>>,
}

impl Inner for Once {
    fn new_execution(&mut self) -> Option<Schedule> {
        if std::mem::replace(&mut self.begun, true) {
            return None;
        }
        match &self.who {
            Who::Shuttle { inner, .. } => {
                let next = inner.borrow_mut().new_execution();
                *self.exhausted.borrow_mut() = next.is_none();
                next
            }
            Who::Ours(_) => Some(Schedule::new(0)),
        }
    }

    fn next_task(&mut self, runnable: &[&Task], current: Option<TaskId>, _: bool) -> Option<TaskId> {
        match &self.who {
            Who::Shuttle { inner, .. } => next_task(Some(&mut ***inner.borrow_mut()), runnable, current),
            Who::Ours(_) => next_task(None, runnable, current),
        }
    }

    fn next_u64(&mut self) -> u64 {
        match &self.who {
            Who::Shuttle { inner, .. } => inner.borrow_mut().next_u64(),
            Who::Ours(_) => 0,
        }
    }
}

/// Runs executions as shuttle tasks, one at a time, on this thread's machine.
pub struct Engine {
    who: Who,
    nth: u64,
    /// Steps of the last execution.
    pub steps: u32,
    /// Decisions of the last execution.
    pub decisions: Vec<Decision>,
    /// Choices asked in all executions: [`Scheduler::Dfs`] covers everything only if there are none.
    pub asked: u64,
}

impl Engine {
    /// Under a scheduler of shuttle's.
    pub fn new(scheduler: Scheduler, seed: u64) -> Engine {
        let inner = Rc::new(RefCell::new(ManuallyDrop::new(scheduler.start(seed, usize::MAX))));
        Engine::of(Who::Shuttle { inner, scheduler, seed })
    }

    /// Under a strategy of ours, which sees no footprints and no hashes.
    pub fn under(strategy: Rc<RefCell<dyn Strategy>>) -> Engine {
        Engine::of(Who::Ours(strategy))
    }

    fn of(who: Who) -> Engine {
        Engine { who, nth: 0, steps: 0, decisions: Vec::new(), asked: 0 }
    }

    /// Runs one execution, or nothing if nothing is left to explore: `boot` resets the machine, builds the world and spawns the
    /// tasks. Afterwards the machine of this thread holds the log and the violations.
    pub fn run(&mut self, boot: &dyn Fn()) -> Option<End> {
        let mut decisions = std::mem::take(&mut self.decisions);
        decisions.clear();
        let strategy = match &self.who {
            Who::Shuttle { scheduler, seed, .. } => {
                set_chooser(Some(Rc::new(RefCell::new(Noted(scheduler.answers(*seed, self.nth))))));
                None
            }
            Who::Ours(s) => {
                set_chooser(Some(Rc::new(RefCell::new(Noted(Ask(s.clone()))))));
                Some(s.clone())
            }
        };
        self.nth += 1;
        RUN.set(Run { slots: vec![None], decisions: Some(decisions), strategy, ..Run::default() });
        let exhausted = Rc::new(RefCell::new(false));
        match catch_unwind(AssertUnwindSafe(|| {
            with(|m| {
                m.observe_on = false;
                m.mem.footprint_on = false;
            });
            boot();
            Machine::finish_boot();
        })) {
            Ok(()) => {
                let once = Once { who: self.who.clone(), begun: false, exhausted: exhausted.clone() };
                Runner::new(once, config()).run(|| {
                    adopt();
                    ::shuttle::future::block_on(UntilOver);
                });
            }
            Err(p) if p.is::<Stop>() => finish(End::Fatal),
            Err(p) => resume_unwind(p),
        }
        set_chooser(None);
        let run = RUN.take();
        self.steps = run.steps;
        self.asked += run.asked;
        self.decisions = run.decisions.unwrap_or_default();
        if *exhausted.borrow() { None } else { run.end }
    }
}

fn config() -> Config {
    let mut config = Config::new();
    // Mirrored text nests deeper than shuttle's default stack allows.
    config.stack_size = 1 << 20;
    config.failure_persistence = FailurePersistence::None;
    // Steps are bounded by the machine's configuration.
    config.max_steps = MaxSteps::None;
    config
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
        let inner = scheduler.start(seed, iterations);
        Runner::new(Filter { inner: Some(inner), first_only }, config()).run(move || {
            let nth = RUN.with_borrow(|r| r.stats.executions);
            set_chooser(Some(Rc::new(RefCell::new(scheduler.answers(seed, nth)))));
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
