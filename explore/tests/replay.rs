//! Replay and shrinking on small programs with known failures.

mod toys;

use std::rc::Rc;
use toys::{task, world};
use wbexplore::finding::{decisions_of, schedule_of};
use wbexplore::plan::Plan;
use wbexplore::replay::{Answer, Run, RunEnd, Schedule};
use wbexplore::shrink::{Failing, Judge, Shrunk, shrink_schedule};
use wbexplore::verdict::{Detail, Scene, judge, replay};
use wbexplore::{Scheduler, Search};
use wbmodel::cases::Finding;
use wbmodel::rules::Rules;
use wbmodel::sync::{Choice, Config, choose, report};

fn scene(boot: impl Fn() + 'static, users: &[&str]) -> Scene {
    Scene { boot: Rc::new(boot), users: users.iter().map(|u| (*u).to_string()).collect(), reach: Vec::new(), rules: Rules::mainline(), mutant: None }
}

/// `a` must be interrupted between its two writes by `b`; `noise` does not matter.
fn torn() -> Scene {
    let boot = || {
        let t = world(Config::default());
        task(0, async move {
            for _ in 0..3 {
                t.z().read_once().await;
            }
            t.x().write_once(1).await;
            t.y().write_once(1).await;
        });
        task(1, async move {
            if t.x().read_once().await == 1 && t.y().read_once().await == 0 {
                report("TORN", "x is written and y is not".into());
            }
        });
        task(2, async move {
            for i in 0..6 {
                t.z().write_once(i).await;
            }
        });
    };
    scene(boot, &["a", "b", "noise"])
}

fn search(s: &Scene, executions: u64) -> Option<Schedule> {
    let plan =
        Plan { searches: vec![(Search::sample(Scheduler::Random, 7), executions)], until: vec!["TORN"], count_traces: false, functions: false, lowered: false };
    judge(s, &plan, &|| false).found.into_iter().find(|f| f.rule == "TORN").map(|f| f.schedule)
}

fn shrink(s: &Scene, start: &Schedule) -> Shrunk {
    let mut run = |c: &Schedule| {
        let r = replay(s, c, Some("TORN"), Detail::Outcome);
        (!r.violations.is_empty()).then_some(Failing { schedule: r.schedule, preemptions: r.preemptions, steps: r.steps })
    };
    let mut judge = Judge::new(&mut run, 10_000, &|| false);
    shrink_schedule(start, &mut judge).expect("the start fails")
}

#[test]
fn a_found_schedule_replays_without_divergence_and_with_the_same_trace() {
    let s = torn();
    let found = search(&s, 1000).expect("found");
    let first = replay(&s, &found, None, Detail::Words);
    assert_eq!(first.diverged, [""; 0]);
    assert_eq!(first.violations[0].rule, "TORN");
    let kept = Finding { decisions: decisions_of(&found), ..Finding::default() };
    for _ in 0..100 {
        let again = replay(&s, &schedule_of(&kept), None, Detail::Words);
        assert_eq!(again.timeline.to_text(), first.timeline.to_text());
    }
}

#[test]
fn shrinking_leaves_what_is_needed_and_always_the_same() {
    let s = torn();
    let shrunk = shrink(&s, &search(&s, 1000).expect("found"));
    assert_eq!(shrunk.best.size().tasks, 2, "{:?}", shrunk.best);
    assert_eq!(shrunk.best.preemptions, 1);
    assert_eq!(shrunk.needed, vec![true; shrunk.schedule.runs.len()], "{:?}", shrunk.schedule);
    for seed in 0..5 {
        let plan =
            Plan { searches: vec![(Search::sample(Scheduler::Pos, seed), 1000)], until: vec!["TORN"], count_traces: false, functions: false, lowered: false };
        let other = judge(&s, &plan, &|| false).found.remove(0);
        assert_eq!(shrink(&s, &other.schedule).schedule, shrunk.schedule, "canonical whatever it was found by");
    }
}

#[test]
fn decisions_that_do_not_apply_are_reported_and_the_rest_is_followed() {
    let s = torn();
    let run = |task: &str, end| Run { task: task.into(), end };
    let wish = Schedule {
        runs: vec![run("nobody", RunEnd::Steps(2)), run("a", RunEnd::Before("write toy#1.y".into(), 1)), run("b", RunEnd::Blocked), run("b", RunEnd::Steps(4))],
        answers: vec![Answer { choice: "site".into(), nth: 1, value: 1 }],
    };
    let r = replay(&s, &wish, None, Detail::Words);
    assert_eq!(r.violations.len(), 1, "a stopped before its second write: {}", r.timeline.to_text());
    assert_eq!(r.diverged.len(), 3, "{:?}", r.diverged);
    assert!(r.diverged[0].contains("nobody is not there") && r.diverged[1].contains("task b is not there") && r.diverged[2].contains("site was not asked"));
}

#[test]
fn answers_are_kept_by_question() {
    let boot = || {
        world(Config { ask: vec!["site"], max_faults: 2, ..Config::default() });
        task(0, async move {
            let answers: Vec<u32> = (0..4).map(|_| choose(Choice::Of("site", 3))).collect();
            if answers == [0, 0, 2, 0] {
                report("TORN", "the third question".into());
            }
        });
    };
    let s = scene(boot, &["a"]);
    let answer = |nth, value| Answer { choice: "site".into(), nth, value };
    let third = Schedule { runs: Vec::new(), answers: vec![answer(3, 2)] };
    assert_eq!(replay(&s, &third, None, Detail::Outcome).violations.len(), 1);
    let bad = replay(&s, &Schedule { runs: Vec::new(), answers: vec![answer(1, 3), answer(9, 1)] }, None, Detail::Outcome);
    assert_eq!(bad.diverged, ["choice site has no answer 3", "choice site was not asked a 9. time"]);
}
