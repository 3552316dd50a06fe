//! A boot that puts a kept machine back is a boot: executions after it are those after a boot from nothing.

use std::path::Path;
use wbexplore::{Budget, Decision, Scheduler, Search, explore};
use wbmodel::cases::{self, Case};
use wbmodel::mutants::{Mutant, hook_passed, set_mutant};
use wbmodel::rules::{Rules, set_rules};
use wbmodel::sync::{Violation, with};
use wbmodel::world::World;

/// Everything that an execution leaves.
#[derive(PartialEq, Debug)]
struct Left {
    decisions: Vec<Decision>,
    violations: Vec<Violation>,
    log: Vec<String>,
    state: u64,
}

fn left(boot: &dyn Fn(), executions: u64) -> Vec<Left> {
    let mut all = Vec::new();
    let budget = Budget { max_executions: executions, ..Budget::default() };
    explore(boot, &Search::sample(Scheduler::Portfolio, 1), &budget, &mut |e| {
        let (log, state) = with(|m| (m.log.iter().map(|e| format!("{e:?}")).collect(), m.state_hash()));
        all.push(Left { decisions: e.decisions.to_vec(), violations: e.violations.to_vec(), log, state });
    });
    all
}

fn corpus() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/cases");
    let mut files: Vec<_> = std::fs::read_dir(folder).expect("the corpus is there").map(|f| f.expect("it can be read").path()).collect();
    files.sort();
    files.iter().filter(|f| f.extension().is_some_and(|x| x == "kdl")).map(|f| cases::load(f).unwrap_or_else(|e| panic!("{e}"))).collect()
}

#[test]
fn executions_do_not_depend_on_how_the_machine_was_booted() {
    for case in corpus() {
        for (name, rules) in Rules::BUILT_IN {
            set_rules(*rules);
            let world = World::new(&case);
            let (kept, anew) = (left(&|| world.boot(), 4), left(&|| World::new(&case).boot(), 4));
            for (nth, (a, b)) in kept.iter().zip(&anew).enumerate() {
                assert!(a == b, "{} under {name}, execution {nth}: {a:?}\n{b:?}", case.name);
            }
        }
    }
}

#[test]
fn another_rule_set_or_mutant_is_another_machine() {
    let text = "schema 1\ncase \"c\"\nsetup { bdi \"sda\"; cgroup \"m\"; get-create \"sda\" of=\"m\" }\ntask \"t\" { rmdir \"m\" }";
    let case = cases::parse("test.kdl", text).expect("well formed");
    let world = World::new(&case);
    let state = |rules: Rules, mutant: Option<Mutant>| {
        set_rules(rules);
        set_mutant(mutant);
        left(&|| world.boot(), 3)
    };
    let plain = state(Rules::mainline(), None);
    assert_eq!(state(Rules::mainline(), None), plain);
    let mutants: Vec<Mutant> = wbmodel::mutants::TABLE.iter().map(|r| r.mutant).collect();
    for m in mutants {
        let own = World::new(&case);
        set_mutant(Some(m));
        let anew = left(&|| own.boot(), 1);
        let passed = hook_passed();
        assert_eq!(state(Rules::mainline(), Some(m))[..1], anew[..], "{m:?}");
        // Twice, so that the second time the machine is put back.
        assert_eq!(state(Rules::mainline(), Some(m))[..1], anew[..], "{m:?}");
        assert!(hook_passed() || !passed, "{m:?}");
    }
    set_mutant(None);
    assert_eq!(state(Rules::mainline(), None), plain);
}
