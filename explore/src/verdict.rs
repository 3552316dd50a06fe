//! The verdict of a case under a rule set: which invariants some execution breaks, and which executions those are.
//!
//! Main types: [`Scene`], a case with what is in force for it; [`Verdict`], what exploring it has shown.
//! Must not know: what is declared, files, time. "Not found" is no proof unless the statistics say that the search was exhaustive.

use crate::plan::{Engine, Plan};
use crate::replay::{Divergence, Record, Replay, Schedule};
use crate::stepper::Stepper;
use crate::strategy::Strategy;
use crate::timeline::Timeline;
use crate::{Budget, Decision, Execution, Stats, explore, shuttle};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use wbmodel::cases::Case;
use wbmodel::mutants::{Mutant, set_mutant};
use wbmodel::rules::{Rules, set_rules};
use wbmodel::sync::{Choice, End, Machine, Violation, with};
use wbmodel::world::World;

/// Something to explore: how to boot it, with the rule set and the mutant in force.
#[derive(Clone)]
pub struct Scene {
    /// Resets the machine, builds the world and spawns the tasks.
    pub boot: Rc<dyn Fn()>,
    /// Names of the user tasks.
    pub users: Vec<String>,
    /// Kernel functions that some execution must enter.
    pub reach: Vec<String>,
    /// Rule set in force.
    pub rules: Rules,
    /// Mutant in force.
    pub mutant: Option<Mutant>,
}

impl Scene {
    /// A case under a rule set.
    pub fn of_case(case: &Case, rules: Rules, mutant: Option<Mutant>) -> Scene {
        let (users, reach) = (case.names.tasks.clone(), case.reach.clone());
        let world = World::new(case);
        Scene { boot: Rc::new(move || world.boot()), users, reach, rules, mutant }
    }

    /// Puts rules and mutant in force on this thread.
    pub fn enter(&self) {
        set_rules(self.rules);
        set_mutant(self.mutant);
    }
}

/// An execution that violates an invariant: of those seen, the one with the fewest preemptions and steps.
#[derive(Clone, Debug)]
pub struct Found {
    /// The invariant.
    pub rule: &'static str,
    /// Expected against observed.
    pub detail: String,
    /// Its decisions, in words.
    pub schedule: Schedule,
    /// Switches away from a task that could have gone on.
    pub preemptions: u32,
    /// Steps.
    pub steps: u32,
    /// Which search of the plan.
    pub search: usize,
    /// Number of the first such execution in all searches together, from 1.
    pub first: u64,
}

/// What exploring a scene has shown.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// What was explored, over all searches.
    pub stats: Stats,
    /// Violations, in the order of their ids.
    pub found: Vec<Found>,
    /// What the case must reach and did not.
    pub unreached: Vec<String>,
    /// Kernel functions that were entered, by name, if the plan wants them noted.
    pub functions: Vec<&'static str>,
    /// The caller's `stop` ended it.
    pub stopped: bool,
    /// The mutant's hook was passed.
    pub mutant_passed: bool,
}

struct Candidate {
    rule: &'static str,
    detail: String,
    decisions: Vec<Decision>,
    preemptions: u32,
    steps: u32,
    search: usize,
    first: u64,
}

/// Explores a scene. `stop` is asked after each execution.
pub fn judge(scene: &Scene, plan: &Plan, stop: &dyn Fn() -> bool) -> Verdict {
    scene.enter();
    let boot = &*scene.boot;
    let mut v = Verdict { unreached: scene.reach.clone(), ..Verdict::default() };
    let mut candidates: Vec<Candidate> = Vec::new();
    let caught = Cell::new(false);
    let stopped = Cell::new(false);
    for (search, (how, most)) in plan.searches.iter().enumerate() {
        let stop = || {
            stopped.set(stopped.get() || stop());
            stopped.get() || caught.get()
        };
        let budget = Budget {
            max_executions: *most,
            stop: &stop,
            count_traces: plan.count_traces || matches!(how, crate::Search::Dpor | crate::Search::Cached),
            ..Budget::default()
        };
        let before = v.stats.executions;
        let (unreached, functions) = (&mut v.unreached, &mut v.functions);
        let stats = explore(boot, how, &budget, &mut |e: &Execution<'_>| {
            if !unreached.is_empty() {
                with(|m| unreached.retain(|name| !reaches(m, name)));
            }
            if plan.functions {
                with(|m| note_functions(m, functions));
            }
            for x in e.violations {
                caught.set(caught.get() || plan.until.contains(&x.rule));
                note(&mut candidates, x, e, search, before + e.nth + 1);
            }
        });
        let exhaustive = stats.exhaustive;
        merge(&mut v.stats, &stats);
        if exhaustive || stopped.get() || caught.get() {
            break;
        }
    }
    v.stopped = stopped.get();
    v.mutant_passed = wbmodel::mutants::hook_passed();
    candidates.sort_by_key(|c| c.rule);
    v.found = candidates.into_iter().map(|c| in_words(scene, c)).collect();
    v
}

/// Statistics of searches of one scene, one after the other: the last one's claims about coverage count.
fn merge(all: &mut Stats, s: &Stats) {
    all.merge(s);
    all.exhaustive = s.exhaustive;
    all.bound = s.bound;
}

fn note(candidates: &mut Vec<Candidate>, x: &Violation, e: &Execution<'_>, search: usize, nth: u64) {
    let preemptions = e.decisions.iter().filter(|d| matches!(d, Decision::Task { preempts: true, .. })).count() as u32;
    let size = (preemptions, e.steps);
    let make = |first| Candidate { rule: x.rule, detail: x.detail.clone(), decisions: e.decisions.to_vec(), preemptions, steps: e.steps, search, first };
    match candidates.iter_mut().find(|c| c.rule == x.rule) {
        Some(c) if size < (c.preemptions, c.steps) => *c = make(c.first),
        Some(_) => {}
        None => candidates.push(make(nth)),
    }
}

/// Does the execution that the machine holds enter a kernel function of this name?
fn reaches(m: &Machine, name: &str) -> bool {
    m.log.iter().any(|e| e.func.is_some_and(|f| f.name == name))
}

fn note_functions(m: &Machine, functions: &mut Vec<&'static str>) {
    let mut last: Option<&'static str> = None;
    for f in m.log.iter().filter_map(|e| e.func) {
        if last != Some(f.name) {
            last = Some(f.name);
            if let Err(i) = functions.binary_search(&f.name) {
                functions.insert(i, f.name);
            }
        }
    }
}

/// Repeats decisions exactly, on the thread that took them.
struct Script {
    decisions: Vec<Decision>,
    at: usize,
}

impl Strategy for Script {
    fn begin(&mut self, nth: u64) -> bool {
        self.at = 0;
        nth == 0
    }
    fn pick(&mut self, m: &mut Machine, enabled: u64, _: Option<usize>) -> Option<usize> {
        let d = self.decisions.get(self.at);
        self.at += 1;
        let Some(Decision::Task { name, .. }) = d else { return None };
        (0..m.tasks.len()).find(|&s| enabled & (1 << s) != 0 && m.tasks[s].name == *name)
    }
    fn choose(&mut self, _: &Machine, _: Choice) -> u32 {
        let d = self.decisions.get(self.at);
        self.at += 1;
        match d {
            Some(Decision::Choice { value, .. }) => *value,
            _ => 0,
        }
    }
}

fn in_words(scene: &Scene, c: Candidate) -> Found {
    let script = Script { decisions: c.decisions, at: 0 };
    let record = Rc::new(RefCell::new(Record::in_words(script, &scene.users)));
    record.borrow_mut().begin(0);
    Stepper::new().run(&*scene.boot, &record);
    let schedule = record.borrow().schedule();
    Found { rule: c.rule, detail: c.detail, schedule, preemptions: c.preemptions, steps: c.steps, search: c.search, first: c.first }
}

/// One replayed execution.
#[derive(Clone, Debug)]
pub struct Replayed {
    /// How it ended.
    pub end: End,
    /// Violations.
    pub violations: Vec<Violation>,
    /// What happened.
    pub timeline: Timeline,
    /// Decisions that did not apply.
    pub diverged: Vec<String>,
    /// What was executed, interruptions by number of steps.
    pub schedule: Schedule,
    /// Switches away from a task that could have gone on.
    pub preemptions: u32,
    /// Steps.
    pub steps: u32,
}

/// Ends an execution once a rule is violated.
struct UpTo {
    inner: Replay,
    rule: Option<String>,
}

impl Strategy for UpTo {
    fn begin(&mut self, nth: u64) -> bool {
        self.inner.begin(nth)
    }
    fn pick(&mut self, m: &mut Machine, enabled: u64, last: Option<usize>) -> Option<usize> {
        if self.rule.as_ref().is_some_and(|r| m.violations.iter().any(|v| v.rule == r)) {
            return None;
        }
        self.inner.pick(m, enabled, last)
    }
    fn choose(&mut self, m: &Machine, c: Choice) -> u32 {
        self.inner.choose(m, c)
    }
}

/// What [`replay`] is to note down besides the outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Detail {
    /// Nothing more.
    Outcome,
    /// Interruptions in words, and the timeline.
    Words,
}

/// Runs a schedule on the stepper; with `up_to`, only until that rule is violated.
pub fn replay(scene: &Scene, schedule: &Schedule, up_to: Option<&str>, detail: Detail) -> Replayed {
    replay_on(Engine::Stepper, scene, schedule, up_to, detail)
}

/// Runs a schedule; with `up_to`, only until that rule is violated.
pub fn replay_on(engine: Engine, scene: &Scene, schedule: &Schedule, up_to: Option<&str>, detail: Detail) -> Replayed {
    scene.enter();
    let inner = UpTo { inner: Replay::new(schedule.clone(), &scene.users), rule: up_to.map(str::to_string) };
    let record = match detail {
        Detail::Outcome => Record::new(inner, &scene.users),
        Detail::Words => Record::in_words(inner, &scene.users),
    };
    let record = Rc::new(RefCell::new(record));
    record.borrow_mut().begin(0);
    let end = match engine {
        Engine::Stepper => Stepper::new().run(&*scene.boot, &record),
        Engine::Shuttle => shuttle::Engine::under(record.clone()).run(&*scene.boot).unwrap_or(End::Cut),
    };
    let r = record.borrow();
    let (violations, timeline) = with(|m| {
        let timeline = if detail == Detail::Words { Timeline::of(m, &r.labels()) } else { Timeline::default() };
        (m.violations.clone(), timeline)
    });
    // What the schedule had in store after the violation that it was replayed for does not matter.
    let reached = up_to.is_some_and(|rule| violations.iter().any(|v| v.rule == rule));
    let diverged = r.inner.inner.divergences().iter().filter(|d| !(reached && matches!(d, Divergence::Unused(_)))).map(ToString::to_string).collect();
    Replayed { end, violations, timeline, diverged, schedule: r.schedule(), preemptions: r.preemptions(), steps: r.steps() }
}
