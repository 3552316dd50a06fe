//! `wbcheck check`: cases under rule sets, what breaks against what is declared.

use crate::args;
use crate::corpus::{self, Subject};
use crate::exit::Exit;
use crate::pool;
use crate::progress::Meter;
use crate::report::{CaseLine, ResultLine, RunEvent, Sink, Status, Summary};
use crate::run::{self, Clock, Early, Findings, say};
use wbexplore::Search;
use wbexplore::plan::{Plan, search_name};
use wbexplore::verdict::{Found, Scene, Verdict, judge};
use wbmodel::cases::{Case, RuleSet};
use wbmodel::oracles::{INVARIANTS, Invariant, NOT_REQUIRED, invariant};
use wbmodel::rules::Rules;

/// A rule set and how it was named on the command line.
pub struct Chosen {
    /// The rule set.
    pub set: RuleSet,
    /// As given.
    pub given: String,
}

/// What is declared for an invariant in a case under a rule set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Declared {
    /// No execution violates it.
    Holds,
    /// Some execution violates it.
    Violated,
    /// Some execution may.
    MayBeViolated,
}

/// What is declared: the case's line for the rule set, or for its base; what the rule set is known to break may happen anywhere.
pub fn declared(case: &Case, set: &RuleSet, id: &str) -> Declared {
    let own = case.expect.iter().any(|e| e.rules == set.name);
    let violates = case.expected(if own { &set.name } else { &set.base });
    if violates.iter().any(|v| v == id) {
        Declared::Violated
    } else if set.known.iter().any(|k| k == id) {
        Declared::MayBeViolated
    } else {
        Declared::Holds
    }
}

/// Is the invariant judged under this rule set?
fn judged(i: &Invariant, set: &RuleSet) -> bool {
    let base = Rules::BUILT_IN.iter().position(|b| b.0 == set.base).unwrap_or(0);
    i.status[base] != wbmodel::oracles::Status::Conditional(NOT_REQUIRED)
}

/// How an invariant fared.
pub fn status(v: &Verdict, plan: &Plan, id: &str, what: Declared) -> Status {
    if v.found.iter().any(|f| f.rule == id) {
        Status::Violated
    } else if !v.unreached.is_empty() && !v.stopped {
        Status::Vacuous
    } else if !v.stats.exhaustive && (v.stopped || (plan.lowered && what == Declared::Violated)) {
        Status::Budget
    } else {
        Status::Holds
    }
}

/// One case under one rule set, done.
pub struct Done {
    /// What exploring has shown.
    pub verdict: Verdict,
    /// What was to be explored.
    pub plan: Plan,
    /// Time.
    pub seconds: Option<f64>,
}

/// Explores a case on this thread.
pub fn explore(case: &Case, set: &RuleSet, plan: Plan, work: &args::Work, out: &args::Output) -> Done {
    let clock = Clock::start(out);
    let scene = Scene::of_case(case, set.rules, None);
    let verdict = judge(&scene, &plan, &|| run::interrupted() || clock.passed(work.max_seconds));
    Done { verdict, plan, seconds: clock.seconds() }
}

/// Words for how an execution was found.
pub fn how(plan: &Plan, f: &Found, seed: u64) -> String {
    let search = &plan.searches[f.search].0;
    let engine = if matches!(search, Search::Shuttle { .. }) { "shuttle" } else { "stepper" };
    format!("engine {engine}, scheduler {}, seed {seed}, execution {}", search_name(search), f.first)
}

/// The cases that were asked for, or all.
pub fn subjects(names: &[String]) -> Result<Vec<Subject>, Early> {
    if names.is_empty() {
        return Ok(corpus::all_cases()?);
    }
    Ok(names.iter().map(|n| corpus::case(n)).collect::<Result<_, _>>()?)
}

/// Runs the verb.
pub fn run(a: &args::Check, sink: &mut dyn Sink) -> Result<Exit, Early> {
    let clock = Clock::start(&a.out);
    let names: Vec<String> = if a.rules.is_empty() { Rules::BUILT_IN.iter().map(|r| r.0.to_string()).collect() } else { a.rules.clone() };
    let mut rules: Vec<Chosen> = Vec::new();
    for given in names {
        rules.push(Chosen { set: corpus::rules(&given)?, given });
    }
    let subjects = subjects(&a.work.cases)?;
    let wish = run::wish(&a.work);
    let plans: Vec<Plan> = subjects.iter().map(|s| run::plan(s, &wish)).collect::<Result<_, _>>()?;
    let mut items: Vec<(usize, usize)> = (0..subjects.len()).flat_map(|s| (0..rules.len()).map(move |r| (s, r))).collect();
    if let Some(shard) = a.work.shard {
        items = items.into_iter().enumerate().filter(|(i, _)| i % shard.of == shard.index).map(|(_, x)| x).collect();
    }
    say(sink, run::header("check", Some(&a.work), rules.iter().map(|r| r.set.name.clone()).collect(), subjects.len()))?;

    let meter = Meter::new(a.out.progress, items.len() as u64);
    let mut tally = Tally { findings: Findings::new(&a.work.output), seed: a.work.seed, sum: Summary { selected: items.len() as u64, ..Summary::default() } };
    let mut early = None;
    let work = |i: usize| {
        let (s, r) = items[i];
        if run::interrupted() {
            return None;
        }
        meter.begin(&format!("{} under {}", subjects[s].case.name, rules[r].set.name));
        Some(explore(&subjects[s].case, &rules[r].set, plans[s].clone(), &a.work, &a.out))
    };
    pool::run(run::jobs(a.work.jobs), items.len(), &work, &mut |i, done: Done| {
        let (s, r) = items[i];
        meter.end(&format!("{} under {}", subjects[s].case.name, rules[r].set.name));
        match meter.aside(|| tally.add(&subjects[s], &rules[r], &done, sink)) {
            Ok(()) => true,
            Err(e) => {
                early = Some(e);
                false
            }
        }
    })?;
    meter.finish();
    if let Some(e) = early {
        return Err(e);
    }
    let (exit, mut sum) = tally.end();
    sum.seconds = clock.seconds();
    say(sink, RunEvent::Summary(sum))?;
    Ok(exit)
}

struct Tally<'a> {
    findings: Findings<'a>,
    seed: u64,
    sum: Summary,
}

impl Tally<'_> {
    fn add(&mut self, subject: &Subject, rules: &Chosen, done: &Done, sink: &mut dyn Sink) -> Result<(), Early> {
        let (v, set) = (&done.verdict, &rules.set);
        let traces = (v.stats.traces > 0).then_some(v.stats.traces);
        self.sum.done += 1;
        self.sum.executions += v.stats.executions;
        self.sum.steps += v.stats.steps;
        let mut vacuous = false;
        let mut budget = false;
        // A rule that is found and not in the table is shown as well: nothing that was violated may be lost.
        let listed = INVARIANTS.iter().filter(|i| judged(i, set) || v.found.iter().any(|f| f.rule == i.id)).map(|i| i.id);
        let others = v.found.iter().map(|f| f.rule).filter(|r| invariant(r).is_none());
        for id in listed.chain(others) {
            let what = declared(&subject.case, set, id);
            let st = status(v, &done.plan, id, what);
            let found = v.found.iter().find(|f| f.rule == id);
            let replay = match found {
                Some(f) => {
                    let name = format!("{}-{}-{}", subject.case.name, set.name, id);
                    Some(self.findings.write(&name, &subject.case, set, &rules.given, None, f, &how(&done.plan, f, self.seed))?)
                }
                None => None,
            };
            let expected = match what {
                Declared::MayBeViolated if st == Status::Violated => Status::Violated,
                Declared::Violated => Status::Violated,
                _ => Status::Holds,
            };
            match (st, expected) {
                (Status::Violated, Status::Holds) => self.sum.undeclared += 1,
                (Status::Holds, Status::Violated) => self.sum.missing += 1,
                (Status::Vacuous, _) => vacuous = true,
                (Status::Budget, _) => budget = true,
                _ => self.sum.as_declared += 1,
            }
            let line = ResultLine {
                rules: set.name.clone(),
                case: subject.case.name.clone(),
                invariant: id,
                status: st,
                expected,
                executions: v.stats.executions,
                traces,
                exhaustive: v.stats.exhaustive,
                bound: v.stats.bound,
                seconds: done.seconds,
                replay,
                detail: found.map(|f| f.detail.clone()),
            };
            say(sink, RunEvent::Result(line))?;
        }
        self.sum.vacuous += u64::from(vacuous);
        self.sum.budget += u64::from(budget);
        let case = CaseLine {
            rules: set.name.clone(),
            case: subject.case.name.clone(),
            search: done.plan.searches.iter().map(|s| search_name(&s.0)).collect::<Vec<_>>().join(", then "),
            executions: v.stats.executions,
            complete: v.stats.executions - v.stats.cut,
            traces,
            steps: v.stats.steps,
            exhaustive: v.stats.exhaustive,
            bound: v.stats.bound,
            stopped: match (v.stopped, run::interrupted()) {
                (false, _) => None,
                (true, true) => Some("interrupted"),
                (true, false) => Some("--max-seconds"),
            },
            unreached: v.unreached.clone(),
            seconds: done.seconds,
        };
        say(sink, RunEvent::Case(case))
    }

    fn end(mut self) -> (Exit, Summary) {
        self.sum.interrupted = run::interrupted();
        let s = &self.sum;
        let exit = [
            (s.undeclared + s.missing > 0, Exit::Failed),
            (s.vacuous > 0 || s.selected == 0, Exit::Vacuous),
            (s.budget > 0 || s.done < s.selected, Exit::Budget),
        ]
        .into_iter()
        .filter(|x| x.0)
        .map(|x| x.1)
        .max()
        .unwrap_or_default();
        self.sum.exit = exit.code();
        self.sum.ok = exit == Exit::AsDeclared;
        (exit, self.sum)
    }
}
