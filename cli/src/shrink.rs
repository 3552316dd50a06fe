//! `wbcheck shrink`: a finding in its smallest form.

use crate::args;
use crate::corpus;
use crate::exit::Exit;
use crate::finding;
use crate::problem::Problem;
use crate::report::{RunEvent, ShrinkLine, Sink, Sizes, Summary};
use crate::run::{self, COMMIT, Clock, Early, say};
use wbexplore::finding::decisions_of;
use wbexplore::replay::{Run, RunEnd, Schedule, point};
use wbexplore::shrink::{Failing, Judge, Shrunk, shrink_schedule};
use wbexplore::verdict::{Detail, replay};
use wbexplore::workload::{Subject, Target, operations, shrink_workload};
use wbmodel::cases::{self, Case, Finding};
use wbmodel::oracles::invariant;

/// Executions of the search that a reduced case gets when the schedule at hand does not fail on it.
const SEARCH: u64 = 100;

/// Runs the verb: 0 with a smaller finding, 4 if the finding does not fail.
pub fn run(a: &args::Shrink, sink: &mut dyn Sink) -> Result<Exit, Early> {
    let clock = Clock::start(&a.out);
    let file = a.file.display().to_string();
    let subject = corpus::case(&file)?;
    let recorded = finding::open(&subject, None)?.remove(0);
    let Some(rule) = recorded.finding.violation.as_deref().and_then(invariant) else {
        return Err(Problem::new(format!("{file}: no finding that names a violation"), "`wbcheck check` writes findings; shrink takes one of them").into());
    };
    say(sink, run::header("shrink", None, vec![recorded.set.name.clone()], 1))?;
    let stop = || run::interrupted() || clock.passed(a.max_seconds);
    let mutant = recorded.scene(&subject.case).mutant;
    let target = Target { rules: recorded.set.rules, mutant, rule: rule.id, search: SEARCH };
    let scene = target.scene(&subject.case);
    let mut sum = Summary { selected: 1, done: 1, ..Summary::default() };
    let Some(first) = target.replay(&scene, &recorded.schedule) else {
        say(sink, RunEvent::Text { lines: vec![format!("{file} does not violate {}: nothing to shrink", rule.id)] })?;
        sum.exit = Exit::Vacuous.code();
        sum.vacuous = 1;
        sum.seconds = clock.seconds();
        say(sink, RunEvent::Summary(sum))?;
        return Ok(Exit::Vacuous);
    };
    let before = sizes(&subject.case, &first);
    // The schedule first: a short one is followed faster, and survives more of what is taken from the case.
    let mut spent = 1;
    let half = a.max_executions / 2;
    let early = schedule(&target, &subject.case, &first.schedule, half, &stop, &mut spent);
    let failing = early.as_ref().map_or(first, |s| s.best.clone());
    let reduced =
        shrink_workload(Subject { case: subject.case.clone(), failing, executions: spent }, &target, a.max_executions.saturating_sub(half / 2), &stop);
    spent = reduced.executions;
    // At least enough to look at each decision once.
    let left = a.max_executions.saturating_sub(spent).max(500);
    let last = schedule(&target, &reduced.case, &reduced.failing.schedule, left, &stop, &mut spent).unwrap_or_else(|| Shrunk {
        // Interrupted: what there is, without a word on which decisions are needed.
        schedule: reduced.failing.schedule.clone(),
        best: reduced.failing.clone(),
        needed: Vec::new(),
        executions: 0,
        cut_short: true,
    });

    let scene = target.scene(&reduced.case);
    let words = replay(&scene, &last.schedule, Some(rule.id), Detail::Words);
    let detail = words.violations.iter().find(|v| v.rule == rule.id).map_or(String::new(), |v| v.detail.replace(['\n', '\r'], " "));
    let text = Some(in_words(&last.schedule, &words.schedule)).filter(|t| target.replay(&scene, t).is_some()).unwrap_or_else(|| last.schedule.clone());
    let finding = Finding { decisions: decisions_of(&text), ..recorded.finding.clone() };
    let case = Case { findings: vec![finding], ..reduced.case.clone() };
    let path = a.output.clone().unwrap_or_else(|| run::shrunk_path(&a.file));
    let commit = COMMIT.map_or(String::new(), |c| format!(", commit {c}"));
    let head =
        format!("// {} violated: {detail}\n// shrunk by wbcheck {}{commit} from {}\n", rule.id, env!("CARGO_PKG_VERSION"), file.replace(['\n', '\r'], " "));
    std::fs::write(&path, head + &cases::print(&case))
        .map_err(|e| Problem::new(format!("{}: {e}", path.display()), "--output FILE puts the result elsewhere"))?;

    let needed = |i: usize| last.needed.get(i).copied().unwrap_or(false);
    let decisions = text
        .runs
        .iter()
        .enumerate()
        .map(|(i, r)| (run_words(r), needed(i)))
        .chain(text.answers.iter().map(|x| (format!("{} answers {}", x.choice, x.value), true)));
    let line = ShrinkLine {
        case: subject.case.name.clone(),
        invariant: rule.id.to_string(),
        before,
        after: sizes(&reduced.case, &last.best),
        decisions: decisions.collect(),
        executions: spent,
        cut_short: last.cut_short || stop(),
        file: path.display().to_string(),
    };
    say(sink, RunEvent::Shrink(line))?;
    sum.ok = true;
    sum.executions = spent;
    sum.interrupted = run::interrupted();
    sum.seconds = clock.seconds();
    say(sink, RunEvent::Summary(sum))?;
    Ok(Exit::AsDeclared)
}

fn schedule(target: &Target, case: &Case, start: &Schedule, limit: u64, stop: &dyn Fn() -> bool, spent: &mut u64) -> Option<Shrunk> {
    let scene = target.scene(case);
    let mut fails = |s: &Schedule| target.replay(&scene, s);
    let mut judge = Judge::new(&mut fails, limit, stop);
    let out = shrink_schedule(start, &mut judge);
    *spent += judge.executions;
    out
}

/// The ends of the runs of `short`, in the words of the execution `full` that it leads to, where the two have them in common.
fn in_words(short: &Schedule, full: &Schedule) -> Schedule {
    let mut from = 0;
    let mut out = short.clone();
    for r in &mut out.runs {
        let Some(k) = full.runs[from..].iter().position(|f| f.task == r.task) else { continue };
        let f = &full.runs[from + k];
        from += k + 1;
        if matches!(r.end, RunEnd::Steps(_)) {
            r.end = f.end.clone();
        }
    }
    out
}

fn run_words(r: &Run) -> String {
    match &r.end {
        RunEnd::Steps(n) => format!("{} for {n} steps", r.task),
        RunEnd::Before(op, nth) => format!("{} until before {}", r.task, point(op, *nth)),
        RunEnd::Blocked => format!("{} until it waits or ends", r.task),
    }
}

fn sizes(case: &Case, f: &Failing) -> Sizes {
    let s = f.size();
    Sizes { operations: operations(case), tasks: s.tasks, preemptions: s.preemptions, switches: s.switches, steps: s.steps }
}
