//! Small lifetime cases on loom: the invariants that some execution breaks are those that the case declares.
//!
//! `explore/tests/opinions.rs` holds the stepper and shuttle to the same declarations of the same files, so that all three agree.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use wbmodel_loom::cases;
use wbmodel_loom::rules::{Rules, set_rules};
use wbmodel_loom::sync::backend::{Bounds, run};
use wbmodel_loom::sync::{End, Machine};
use wbmodel_loom::world::World;

/// Enough for every violation that is declared; what is not declared is looked for within it.
const BOUNDS: Bounds = Bounds { preemptions: Some(2), executions: Some(1_500), objects: 256 };

#[track_caller]
fn check(name: &str, text: &str) {
    let case = cases::parse(name, text).expect("well formed");
    for (rules, set) in Rules::BUILT_IN {
        let (own, set) = (case.clone(), *set);
        let found = Arc::new(Mutex::new(BTreeSet::new()));
        let seen = found.clone();
        let boot = move || {
            set_rules(set);
            World::new(&own).boot();
        };
        let n = run(BOUNDS, boot, move |m: &mut Machine, end| {
            let mut seen = seen.lock().expect("not poisoned");
            seen.extend(m.violations.iter().map(|v| v.rule.to_string()));
            if end != End::Complete && m.violations.is_empty() {
                seen.insert(format!("{end:?}"));
            }
        });
        let found = found.lock().expect("not poisoned").clone();
        let expected: BTreeSet<String> = case.expected(rules).iter().cloned().collect();
        assert_eq!(found, expected, "{name} under {rules}, {n} executions");
        assert!(n > 1, "{name} under {rules}");
    }
}

#[test]
fn a_lookup_by_id_of_a_killed_wb() {
    check("killed-by-id", include_str!("../../corpus/cases/killed-by-id.kdl"));
}

#[test]
fn a_kill_beside_a_lookup() {
    check("kill-get", include_str!("../../corpus/cases/kill-get.kdl"));
}

#[test]
fn a_publication_beside_going_offline() {
    check("publish-offline", include_str!("../../corpus/cases/publish-offline.kdl"));
}

#[test]
fn two_lookups_of_a_killed_wb() {
    check("two-lookups", include_str!("../../corpus/cases/two-lookups.kdl"));
}
