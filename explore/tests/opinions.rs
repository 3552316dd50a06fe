//! Two engines and a declaration: the invariants that the stepper breaks, those that shuttle breaks, and those that the case says.
//!
//! The four smallest cases run on loom too, in `loom-tests/tests/violations.rs`, against the same declarations. A violation that is
//! declared and rare would need more executions than a test has; the cases here show each of theirs once in some hundred random
//! executions (measured with three seeds), so that the fixed seed decides and not luck.

use std::collections::BTreeSet;
use std::path::Path;
use wbexplore::plan::{Engine, Plan, Wish};
use wbexplore::verdict::{Detail, Scene, judge, replay_on};
use wbmodel::cases::{self, Case};
use wbmodel::rules::Rules;

/// Executions of a case under a rule set, on each engine.
const EXECUTIONS: u64 = 1_500;

fn case(name: &str) -> Case {
    cases::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../corpus/cases/{name}.kdl"))).unwrap_or_else(|e| panic!("{e}"))
}

/// Invariants that some execution breaks.
fn broken(case: &Case, rules: Rules, engine: Engine, scheduler: &str) -> BTreeSet<String> {
    let wish = Wish { engine, search: Some(scheduler.to_string()), seed: 3, max_executions: Some(EXECUTIONS) };
    let plan = Plan::of(&case.search, &wish).expect("a scheduler");
    let v = judge(&Scene::of_case(case, rules, None), &plan, &|| false);
    assert!(v.unreached.is_empty(), "{} never reaches {:?} on {engine:?}", case.name, v.unreached);
    v.found.iter().map(|f| f.rule.to_string()).collect()
}

#[track_caller]
fn check(name: &str) {
    let case = case(name);
    for (rules, set) in Rules::BUILT_IN {
        let declared: BTreeSet<String> = case.expected(rules).iter().cloned().collect();
        assert_eq!(broken(&case, *set, Engine::Stepper, "portfolio"), declared, "stepper: {name} under {rules}");
        assert_eq!(broken(&case, *set, Engine::Shuttle, "random"), declared, "shuttle: {name} under {rules}");
    }
}

#[test]
fn lookups_of_a_killed_wb() {
    ["killed-by-id", "two-lookups", "kill-get"].into_iter().for_each(check);
}

#[test]
fn publications() {
    ["publish-offline", "create-offline", "two-creators"].into_iter().for_each(check);
}

#[test]
fn removed_owners() {
    ["removed-owner", "unregister-dying", "takeover-release"].into_iter().for_each(check);
}

#[test]
fn every_scheduler_of_shuttle_finds_the_missed_lookup() {
    let case = case("removed-owner");
    for scheduler in ["random", "pct:3", "urw"] {
        assert!(broken(&case, Rules::mainline(), Engine::Shuttle, scheduler).contains("LT-LOOK-3"), "{scheduler}");
    }
    // Depth first begins with the schedules that hardly switch.
    assert!(broken(&self::case("two-lookups"), Rules::mainline(), Engine::Shuttle, "dfs").contains("LT-LOOK-3"));
}

#[test]
fn a_finding_of_one_engine_replays_on_the_other_with_the_same_trace() {
    let case = case("removed-owner");
    let scene = Scene::of_case(&case, Rules::mainline(), None);
    for engine in [Engine::Stepper, Engine::Shuttle] {
        let wish = Wish { engine, search: Some("random".into()), seed: 5, max_executions: Some(200) };
        let v = judge(&scene, &Plan::of(&case.search, &wish).expect("a scheduler"), &|| false);
        assert!(!v.found.is_empty(), "{engine:?}");
        for f in &v.found {
            let [a, b] = [Engine::Stepper, Engine::Shuttle].map(|e| replay_on(e, &scene, &f.schedule, None, Detail::Words));
            assert!(a.violations.iter().any(|x| x.rule == f.rule), "{} of {engine:?}", f.rule);
            assert_eq!(a.diverged, [""; 0]);
            assert_eq!((a.end, a.steps, a.preemptions), (b.end, b.steps, b.preemptions));
            assert_eq!(a.schedule, b.schedule);
            assert_eq!(a.violations, b.violations);
            assert_eq!(a.timeline.to_text(), b.timeline.to_text());
        }
    }
}

#[test]
fn equal_seeds_give_equal_findings_on_shuttle() {
    let case = case("removed-owner");
    let once = || {
        let wish = Wish { engine: Engine::Shuttle, search: Some("random".into()), seed: 9, max_executions: Some(100) };
        let v = judge(&Scene::of_case(&case, Rules::mainline(), None), &Plan::of(&case.search, &wish).expect("a scheduler"), &|| false);
        let found: Vec<_> = v.found.into_iter().map(|f| (f.rule, f.first, f.schedule)).collect();
        (v.stats.executions, v.stats.steps, found)
    };
    assert_eq!(once(), once());
}
