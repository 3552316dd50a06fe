//! What the reports and the specification say of whole cases: every foreign flush of the recipe, and the observed
//! use-after-free races with and without their repairs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use wbexplore::plan::Plan;
use wbexplore::verdict::{Scene, judge};
use wbexplore::{Budget, Scheduler, Search, explore};
use wbmodel::cases::{self, Case};
use wbmodel::rules::Rules;
use wbmodel::sync::{End, Tp, with};

const ENOENT: i64 = -2;

fn corpus(kind: &str, name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(kind).join(format!("{name}.kdl"))
}

fn case(name: &str) -> Case {
    cases::load(&corpus("cases", name)).expect("a case of the corpus")
}

fn rules(name: &str) -> Rules {
    Rules::built_in(name).unwrap_or_else(|| cases::load_rules(&corpus("rules", name)).expect("a rule set of the corpus").rules)
}

/// What `cgroup_writeback_by_id` returned, by how often, in all executions; each complete one sends exactly one flush.
fn flush_results(name: &str, of: &str) -> BTreeMap<i64, u64> {
    let scene = Scene::of_case(&case(name), rules(of), None);
    scene.enter();
    let mut results = BTreeMap::new();
    for (search, max_executions) in [(Search::Dpor, 300), (Search::sample(Scheduler::Portfolio, 1), 200)] {
        explore(&*scene.boot, &search, &Budget { max_executions, ..Budget::default() }, &mut |e| {
            let sent = with(|m| {
                let returns = m.log.iter().filter(|e| e.tp == Tp::Return && e.func.is_some_and(|f| f.name == "cgroup_writeback_by_id"));
                returns.map(|e| e.val as i64).collect::<Vec<_>>()
            });
            assert!(sent.len() == 1 || e.end != End::Complete, "{sent:?}");
            sent.into_iter().for_each(|r| *results.entry(r).or_default() += 1);
        });
    }
    results
}

#[test]
fn every_foreign_flush_to_a_removed_owner_fails_in_mainline_and_none_elsewhere() {
    for of in ["mainline", "wb-list", "tree-until-release"] {
        let (removed, alive) = (flush_results("foreign-flush-removed", of), flush_results("foreign-flush-alive", of));
        let expected = if of == "mainline" { ENOENT } else { 0 };
        assert_eq!(removed.keys().collect::<Vec<_>>(), [&expected], "{of}: {removed:?}");
        assert_eq!(alive.keys().collect::<Vec<_>>(), [&0], "{of}: {alive:?}");
    }
}

/// Memory rules that some execution of a case breaks under a rule set.
fn broken(name: &str, of: &str, executions: u64) -> Vec<&'static str> {
    let scene = Scene::of_case(&case(name), rules(of), None);
    let searches = vec![(Search::Dpor, executions), (Search::sample(Scheduler::Portfolio, 1), executions)];
    let plan = Plan { searches, until: vec!["LT-MEM-1", "LT-MEM-3"], count_traces: false, functions: false, lowered: false };
    judge(&scene, &plan, &|| false).found.into_iter().map(|f| f.rule).filter(|r| r.starts_with("LT-MEM")).collect()
}

#[test]
fn the_observed_races_are_found_and_their_repairs_end_them() {
    for (name, rule) in [("obs-1-umount", "LT-MEM-3"), ("obs-2-split", "LT-MEM-1"), ("obs-2-stats", "LT-MEM-1")] {
        for (of, repaired) in [("mainline", "mainline-repaired"), ("tree-until-release", "tree-until-release-repaired")] {
            assert_eq!(broken(name, of, 3_000), [rule], "{name} under {of}");
            assert_eq!(broken(name, repaired, 300), [""; 0], "{name} under {repaired}");
        }
    }
}

#[test]
fn the_observed_races_need_preemptible_rcu_and_a_failed_allocation() {
    for name in ["obs-1-umount-nonpreemptible", "obs-2-split-memory"] {
        assert_eq!(broken(name, "mainline", 300), [""; 0], "{name}");
    }
}
