//! Shrinking the workload of a failing case: tasks, operations, and the choices that may go wrong.
//!
//! Main type: [`Subject`], a case with a failing schedule. Each candidate is a well-formed case of its own (it is printed and
//! parsed again, so that a name that nothing makes any more is an error and not a dangling index), and must violate the same rule:
//! first with the schedule at hand, whose decisions may partly not apply, then in a small search.

use crate::plan::Plan;
use crate::replay::Schedule;
use crate::shrink::Failing;
use crate::verdict::{Detail, Scene, judge, replay};
use crate::{Scheduler, Search};
use wbmodel::cases::{Case, Op, Stmt, TaskRef, parse, print};
use wbmodel::mutants::Mutant;
use wbmodel::rules::Rules;

/// What must keep failing.
#[derive(Clone, Debug)]
pub struct Target {
    /// Rule set in force.
    pub rules: Rules,
    /// Mutant in force.
    pub mutant: Option<Mutant>,
    /// The rule that is violated.
    pub rule: &'static str,
    /// Executions of the search that a candidate gets when the schedule at hand does not fail.
    pub search: u64,
}

impl Target {
    /// The scene of a case.
    pub fn scene(&self, case: &Case) -> Scene {
        Scene::of_case(case, self.rules, self.mutant)
    }

    /// Replays a schedule up to the violation.
    pub fn replay(&self, scene: &Scene, schedule: &Schedule) -> Option<Failing> {
        let r = replay(scene, schedule, Some(self.rule), Detail::Outcome);
        r.violations.iter().any(|v| v.rule == self.rule).then_some(Failing { schedule: r.schedule, preemptions: r.preemptions, steps: r.steps })
    }

    /// A failing execution of the case: with the schedule, or found in a small search.
    fn fails(&self, case: &Case, schedule: &Schedule, stop: &dyn Fn() -> bool) -> Option<(Failing, u64)> {
        let scene = self.scene(case);
        if let Some(f) = self.replay(&scene, schedule) {
            return Some((f, 1));
        }
        let search = Search::sample(Scheduler::Portfolio, 1);
        let plan = Plan { searches: vec![(search, self.search)], until: vec![self.rule], count_traces: false, functions: false, lowered: false };
        let v = judge(&scene, &plan, stop);
        let found = v.found.iter().find(|f| f.rule == self.rule)?;
        self.replay(&scene, &found.schedule).map(|f| (f, 2 + v.stats.executions))
    }
}

/// A case and a schedule with which it fails.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The case.
    pub case: Case,
    /// The failing execution.
    pub failing: Failing,
    /// Executions spent on it.
    pub executions: u64,
}

/// Operations of a case.
pub fn operations(case: &Case) -> usize {
    case.setup.len() + case.teardown.len() + case.tasks.iter().map(|t| t.body.len()).sum::<usize>()
}

/// A part of a case that operations can be taken from.
#[derive(Clone, Copy)]
enum Part {
    Teardown,
    Body(usize),
    Setup,
    Ask,
}

impl Part {
    fn len(self, c: &Case) -> usize {
        match self {
            Part::Teardown => c.teardown.len(),
            Part::Body(t) => c.tasks.get(t).map_or(0, |t| t.body.len()),
            Part::Setup => c.setup.len(),
            Part::Ask => c.ask.len(),
        }
    }

    fn without(self, c: &Case, from: usize, to: usize) -> Case {
        let mut c = c.clone();
        let cut = |v: &mut Vec<Stmt>| drop(v.drain(from..to.min(v.len())));
        match self {
            Part::Teardown => cut(&mut c.teardown),
            Part::Body(t) => cut(&mut c.tasks[t].body),
            Part::Setup => cut(&mut c.setup),
            Part::Ask => drop(c.ask.drain(from..to.min(c.ask.len()))),
        }
        c
    }
}

/// Takes away as much of the case as can go, within `limit` executions.
pub fn shrink_workload(mut subject: Subject, target: &Target, limit: u64, stop: &dyn Fn() -> bool) -> Subject {
    // What must be reached and what is expected belong to the case that was; the finding says what this one shows.
    let bare = Case { reach: Vec::new(), findings: Vec::new(), ..subject.case.clone() };
    subject.case = bare;
    loop {
        let before = operations(&subject.case) + subject.case.ask.len() + subject.case.tasks.len();
        let over = |s: &Subject| s.executions >= limit || stop();
        let mut t = subject.case.tasks.len();
        while t > 0 && !over(&subject) {
            t -= 1;
            let candidate = without_task(&subject.case, t);
            take(&mut subject, candidate, target, stop);
        }
        let bodies = (0..subject.case.tasks.len()).map(Part::Body);
        for part in [Part::Teardown, Part::Ask].into_iter().chain(bodies).chain([Part::Setup]) {
            let mut chunk = part.len(&subject.case).div_ceil(2);
            while chunk > 0 && !over(&subject) {
                // From the end: what comes last is needed by nobody before it.
                let mut end = part.len(&subject.case);
                while end > 0 && !over(&subject) {
                    let from = end.saturating_sub(chunk);
                    let candidate = part.without(&subject.case, from, end);
                    take(&mut subject, candidate, target, stop);
                    end = from.min(part.len(&subject.case));
                }
                chunk = if chunk == 1 { 0 } else { chunk.div_ceil(2) };
            }
        }
        let after = operations(&subject.case) + subject.case.ask.len() + subject.case.tasks.len();
        if after == before || over(&subject) {
            return subject;
        }
    }
}

/// Takes the candidate if it is a case and still fails.
fn take(subject: &mut Subject, candidate: Case, target: &Target, stop: &dyn Fn() -> bool) {
    let Ok(case) = parse("candidate", &print(&candidate)) else { return };
    match target.fails(&case, &subject.failing.schedule, stop) {
        Some((failing, spent)) => *subject = Subject { case, failing, executions: subject.executions + spent },
        None => subject.executions += 1 + target.search,
    }
}

fn without_task(case: &Case, t: usize) -> Case {
    let mut c = case.clone();
    c.tasks.remove(t);
    c.names.tasks.remove(t);
    for task in &mut c.tasks {
        task.body.retain(|s| !matches!(&s.op, Op::Join { task } if task.index() == t));
        for s in &mut task.body {
            if let Op::Join { task } = &mut s.op
                && task.index() > t
            {
                *task = TaskRef(task.0 - 1);
            }
        }
    }
    c
}
