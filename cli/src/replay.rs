//! `wbcheck replay`: one recorded schedule again.

use crate::args;
use crate::corpus;
use crate::exit::Exit;
use crate::finding::{self, Recorded};
use crate::report::{ReplayLine, RunEvent, Sink, Summary};
use crate::run::{self, Clock, Early, say};
use wbexplore::verdict::{Detail, Replayed, Scene, replay_on};
use wbmodel::cases::Case;
use wbmodel::sync::End;

/// Runs the verb: 1 if a rule is violated, 4 if decisions do not apply and nothing is violated, 70 if runs differ.
pub fn run(a: &args::Replay, sink: &mut dyn Sink) -> Result<Exit, Early> {
    let clock = Clock::start(&a.out);
    let subject = corpus::case(&a.subject)?;
    let all = finding::open(&subject, a.rules.as_deref())?;
    say(sink, run::header_on(a.engine, "replay", None, all.iter().map(|r| r.set.name.clone()).collect(), 1))?;
    let mut exit = Exit::AsDeclared;
    let mut sum = Summary { selected: all.len() as u64, ..Summary::default() };
    for r in &all {
        let scene = r.scene(&subject.case);
        let (line, first) = repeat(a, &subject.case, r, &scene);
        sum.done += 1;
        sum.executions += u64::from(line.times);
        sum.steps += u64::from(line.times) * u64::from(line.steps);
        sum.undeclared += u64::from(!line.violations.is_empty());
        if a.trace {
            say(sink, RunEvent::Text { lines: first.timeline.to_text().lines().map(str::to_string).collect() })?;
        }
        exit = exit.max(if line.same < line.times && !run::interrupted() {
            Exit::Internal
        } else if !line.violations.is_empty() {
            Exit::Failed
        } else if !line.diverged.is_empty() {
            Exit::Vacuous
        } else if line.times < a.times {
            Exit::Budget
        } else {
            Exit::AsDeclared
        });
        say(sink, RunEvent::Replay(line))?;
    }
    sum.interrupted = run::interrupted();
    sum.exit = exit.code();
    sum.ok = exit == Exit::AsDeclared;
    sum.seconds = clock.seconds();
    say(sink, RunEvent::Summary(sum))?;
    Ok(exit)
}

/// Runs it as often as asked for and compares the traces; Ctrl-C makes it fewer.
fn repeat(a: &args::Replay, case: &Case, r: &Recorded, scene: &Scene) -> (ReplayLine, Replayed) {
    let once = || replay_on(a.engine.into(), scene, &r.schedule, None, Detail::Words);
    let first = once();
    let text = first.timeline.to_text();
    let (mut ran, mut same) = (1, 1);
    while ran < a.times && !run::interrupted() {
        let again = once();
        ran += 1;
        same += u32::from(again.timeline.to_text() == text && again.violations == first.violations);
    }
    let line = ReplayLine {
        case: case.name.clone(),
        rules: r.set.name.clone(),
        mutant: r.finding.mutant.clone(),
        expected: r.finding.violation.clone(),
        violations: first.violations.iter().map(|v| (v.rule.to_string(), v.detail.clone())).collect(),
        end: end_words(first.end).to_string(),
        steps: first.steps,
        times: ran,
        same,
        diverged: first.diverged.clone(),
    };
    (line, first)
}

/// Words for how an execution ended.
pub fn end_words(e: End) -> &'static str {
    match e {
        End::Complete => "every task ended",
        End::Stuck => "some task can never go on",
        End::Budget => "the steps of the case ran out",
        End::Fatal => "ended by a violation",
        End::Cut => "cut short",
    }
}
