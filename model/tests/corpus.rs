//! Every file of the corpus is well formed, says so the same way twice, and boots.

use std::path::{Path, PathBuf};
use wbmodel::cases;
use wbmodel::scenarios;
use wbmodel::sync::{End, Machine, with};
use wbmodel::world::World;

fn files(folder: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus").join(folder);
    let mut all: Vec<PathBuf> = std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|x| x == "kdl")).collect();
    all.sort();
    assert!(!all.is_empty());
    all
}

#[test]
fn cases_are_named_as_their_files_and_round_trip() {
    for f in files("cases") {
        let case = cases::load(&f).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(Some(case.name.as_str()), f.file_stem().and_then(|s| s.to_str()));
        assert!(!case.about.is_empty() && !case.source.is_empty() && !case.reach.is_empty(), "{}", f.display());
        assert_eq!(cases::parse("printed", &cases::print(&case)).unwrap(), case);
    }
}

#[test]
fn rule_sets_are_named_as_their_files_and_round_trip() {
    for f in files("rules") {
        let set = cases::load_rules(&f).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(Some(set.name.as_str()), f.file_stem().and_then(|s| s.to_str()));
        assert_eq!(cases::parse_rules("printed", &cases::print_rules(&set)).unwrap(), set);
    }
}

#[test]
fn scenarios_are_named_as_their_files_and_round_trip() {
    for f in files("scenarios") {
        let s = scenarios::load(&f).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(Some(s.name.as_str()), f.file_stem().and_then(|s| s.to_str()));
        assert!(!s.about.is_empty() && !s.source.is_empty() && !s.expect.is_empty(), "{}", f.display());
        assert!(s.expect.iter().all(|e| !e.seed_value.is_empty()), "{}", f.display());
        assert_eq!(scenarios::parse("printed", &scenarios::print(&s)).unwrap(), s);
    }
}

#[test]
fn expectations_name_rule_sets_and_invariants_that_exist() {
    let sets: Vec<String> = files("rules").iter().map(|f| cases::load_rules(f).unwrap().name).collect();
    for f in files("cases") {
        for e in cases::load(&f).unwrap().expect {
            let known = e.rules == "*" || wbmodel::rules::Rules::built_in(&e.rules).is_some() || sets.contains(&e.rules);
            assert!(known, "{}: no rule set called {}", f.display(), e.rules);
            for v in &e.violates {
                assert!(wbmodel::oracles::invariant(v).is_some(), "{}: no invariant called {v}", f.display());
            }
        }
    }
}

#[test]
fn cases_boot() {
    for f in files("cases") {
        let world = World::new(&cases::load(&f).unwrap());
        world.boot();
        Machine::finish_boot();
        let violations = with(|m| m.violations.clone());
        assert!(violations.is_empty(), "{}: {violations:?}", f.display());
        Machine::finish(End::Cut);
        with(|m| m.spawned.clear());
    }
}
