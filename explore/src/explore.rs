//! The loop around the stepper: search, budget, statistics.

use crate::decision::Decision;
use crate::schedulers::{Sampler, Scheduler};
use crate::search::{Dfs, Dpor, States};
use crate::shuttle;
use crate::stepper::Stepper;
use crate::strategy::Strategy;
use crate::trace::{Tracer, WordHash};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use wbmodel::sync::{End, Violation, with};

/// How to choose executions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Search {
    /// Sampling. `(scheduler, seed, index)` names an execution exactly; the indices are `first`, `first + stride`, ...
    Sample {
        /// Who decides.
        scheduler: Scheduler,
        /// Seed of the campaign.
        seed: u64,
        /// First index.
        first: u64,
        /// Distance of indices: the number of shards; at least 1.
        stride: u64,
    },
    /// Plain enumeration of all schedules, optionally with at most so many preemptions.
    Dfs {
        /// Bound.
        preemptions: Option<u32>,
    },
    /// Every trace once or a little more: source-set dynamic partial-order reduction with sleep sets.
    Dpor,
    /// The same, cut at states seen before: every state and every race, but not every trace.
    Cached,
    /// Depth first, cut at states seen before, optionally with at most so many preemptions.
    States {
        /// Bound.
        preemptions: Option<u32>,
    },
    /// The tasks run on shuttle, under one of its schedulers. Traces are not counted.
    Shuttle {
        /// Who decides.
        scheduler: shuttle::Scheduler,
        /// Seed of the random ones, and of choices.
        seed: u64,
    },
}

impl Search {
    /// Sampling from index 0, one shard.
    pub fn sample(scheduler: Scheduler, seed: u64) -> Search {
        Search::Sample { scheduler, seed, first: 0, stride: 1 }
    }
}

/// When to stop. The library has no clock: `stop` is asked after each execution.
pub struct Budget<'a> {
    /// Most executions.
    pub max_executions: u64,
    /// Most steps in total.
    pub max_steps: u64,
    /// Asked after each execution; true ends the search.
    pub stop: &'a dyn Fn() -> bool,
    /// Count distinct traces (costs time when sampling).
    pub count_traces: bool,
}

impl Default for Budget<'_> {
    fn default() -> Self {
        Budget { max_executions: u64::MAX, max_steps: u64::MAX, stop: &|| false, count_traces: false }
    }
}

/// One execution, as handed to the caller. The thread's machine still holds its log and memory.
pub struct Execution<'a> {
    /// Its number in this search, from 0. When sampling, the index is `first + nth * stride`.
    pub nth: u64,
    /// How it ended.
    pub end: End,
    /// Violations found in it.
    pub violations: &'a [Violation],
    /// Everything that was decided.
    pub decisions: &'a [Decision],
    /// Steps performed.
    pub steps: u32,
    /// Hash of its trace, if traces are counted.
    pub trace: Option<u64>,
}

/// What a search did, and what it did not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Executions, cut ones included.
    pub executions: u64,
    /// Executions in which every task ended.
    pub complete: u64,
    /// Executions that ended with tasks that can never go on.
    pub stuck: u64,
    /// Executions that used up the steps of the case.
    pub out_of_steps: u64,
    /// Executions ended by a fatal violation.
    pub fatal: u64,
    /// Executions that a search cut short because what follows is covered elsewhere.
    pub cut: u64,
    /// Executions with at least one violation.
    pub violating: u64,
    /// Steps in total.
    pub steps: u64,
    /// Steps of the longest execution.
    pub max_depth: u32,
    /// Distinct traces among executions that were not cut; 0 if not counted.
    pub traces: u64,
    /// Traces seen exactly once.
    pub traces_once: u64,
    /// States remembered by a state-caching search.
    pub states: u64,
    /// Everything within the bounds was covered.
    pub exhaustive: bool,
    /// Preemption bound that is covered, if the search was bounded.
    pub bound: Option<u32>,
}

impl Stats {
    /// Chance that the next sample is a new trace (Good-Turing); only meaningful when sampling with traces counted.
    pub fn discovery_rate(&self) -> f64 {
        let n = self.executions - self.cut;
        if n == 0 { 1.0 } else { self.traces_once as f64 / n as f64 }
    }

    /// Counts an execution.
    fn count(&mut self, end: End, steps: u32, violating: bool) {
        self.executions += 1;
        self.steps += u64::from(steps);
        self.max_depth = self.max_depth.max(steps);
        self.violating += u64::from(violating);
        match end {
            End::Complete => self.complete += 1,
            End::Stuck => self.stuck += 1,
            End::Budget => self.out_of_steps += 1,
            End::Fatal => self.fatal += 1,
            End::Cut => self.cut += 1,
        }
    }

    /// Adds the result of another shard. Distinct traces cannot be added up and become an upper limit.
    pub fn merge(&mut self, o: &Stats) {
        self.executions += o.executions;
        self.complete += o.complete;
        self.stuck += o.stuck;
        self.out_of_steps += o.out_of_steps;
        self.fatal += o.fatal;
        self.cut += o.cut;
        self.violating += o.violating;
        self.steps += o.steps;
        self.max_depth = self.max_depth.max(o.max_depth);
        self.traces += o.traces;
        self.traces_once += o.traces_once;
        self.states += o.states;
        self.exhaustive |= o.exhaustive;
        self.bound = self.bound.max(o.bound);
    }
}

/// Runs a search on this thread: `boot` resets the machine and builds the case; `on_execution` sees each execution.
pub fn explore(boot: &dyn Fn(), search: &Search, budget: &Budget, on_execution: &mut dyn FnMut(&Execution)) -> Stats {
    match *search {
        Search::Sample { scheduler, seed, first, stride } => {
            let sampler = Rc::new(RefCell::new(Sampler::new(scheduler, seed, first, stride)));
            let mut stepper = Stepper::new();
            while sampler.borrow_mut().begin_profile() {
                stepper.run(boot, &sampler);
            }
            drive(boot, &sampler, budget, on_execution)
        }
        Search::Dfs { preemptions } => drive(boot, &Rc::new(RefCell::new(Dfs::new(preemptions))), budget, on_execution),
        Search::Dpor => drive(boot, &Rc::new(RefCell::new(Dpor::new())), budget, on_execution),
        Search::Cached => drive(boot, &Rc::new(RefCell::new(Dpor::cached())), budget, on_execution),
        Search::States { preemptions } => drive(boot, &Rc::new(RefCell::new(States::new(preemptions))), budget, on_execution),
        Search::Shuttle { scheduler, seed } => on_shuttle(boot, scheduler, seed, budget, on_execution),
    }
}

/// The same with a strategy of the caller's own.
pub fn drive<S: Strategy + 'static>(boot: &dyn Fn(), strategy: &Rc<RefCell<S>>, budget: &Budget, on_execution: &mut dyn FnMut(&Execution)) -> Stats {
    let mut stepper = Stepper::new();
    stepper.tracer = budget.count_traces.then(Tracer::default);
    let mut traces: HashMap<u64, bool, WordHash> = HashMap::default();
    let mut st = Stats::default();
    let mut over = false;
    while st.executions < budget.max_executions && st.steps < budget.max_steps {
        if !strategy.borrow_mut().begin(st.executions) {
            over = true;
            break;
        }
        let end = stepper.run(boot, strategy);
        let violations = with(|m| m.violations.clone());
        let trace = stepper.tracer.as_ref().map(Tracer::hash);
        if let (Some(t), true) = (trace, end != End::Cut) {
            traces.entry(t).and_modify(|once| *once = false).or_insert(true);
        }
        on_execution(&Execution { nth: st.executions, end, violations: &violations, decisions: &stepper.decisions(), steps: stepper.steps, trace });
        st.count(end, stepper.steps, !violations.is_empty());
        if (budget.stop)() {
            break;
        }
    }
    let s = strategy.borrow();
    st.traces = traces.len() as u64;
    st.traces_once = traces.values().filter(|o| **o).count() as u64;
    st.states = s.states();
    st.exhaustive = over && s.covered() && st.out_of_steps == 0;
    st.bound = s.bound();
    st
}

fn on_shuttle(boot: &dyn Fn(), scheduler: shuttle::Scheduler, seed: u64, budget: &Budget, on_execution: &mut dyn FnMut(&Execution)) -> Stats {
    let mut engine = shuttle::Engine::new(scheduler, seed);
    let mut st = Stats::default();
    while st.executions < budget.max_executions && st.steps < budget.max_steps {
        let Some(end) = engine.run(boot) else {
            // Only the depth-first scheduler ever comes to an end; it does not branch on choices.
            st.exhaustive = engine.asked == 0 && st.out_of_steps == 0;
            break;
        };
        let violations = with(|m| m.violations.clone());
        on_execution(&Execution { nth: st.executions, end, violations: &violations, decisions: &engine.decisions, steps: engine.steps, trace: None });
        st.count(end, engine.steps, !violations.is_empty());
        if (budget.stop)() {
            break;
        }
    }
    st
}
