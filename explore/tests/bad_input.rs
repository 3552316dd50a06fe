//! Three parsers on what nobody means to write: a case, a rule set, and a recorded schedule, which is followed as well.

use proptest::prelude::*;
use wbexplore::finding::{decisions_of, schedule_of};
use wbexplore::verdict::{Detail, Scene, replay};
use wbmodel::cases::{self, Case};
use wbmodel::rules::Rules;

const CASE: &str = r#"schema 1
case "c"
setup { bdi "sda"; cgroup "m"; get-create "sda" of="m" keep="w" }
task "a" { rmdir "m" }
task "b" { by-id "sda" id="m"; release "w" }
ask "cgwb_create"
finding rules="mainline" violation="LT-LOOK-3" {
    run "a" until="cgwb_kill: spin_lock(cgwb_lock), time 2"
    run "b" steps=3
    run "kworker:cgwb_release_workfn(wb#2)"
    choose "cgwb_create" 1
    choose "cgwb_create" 0
}
"#;

const RULES: &str = r#"schema 1
rules "x" base="wb-list" {
    about "a"
    set "R-CREATE-PUB" "exist"
    known "LT-PROG-1"
}
"#;

/// Feeds a text to all three; whatever it is, each gives a value that prints and reads back, or an error with words.
fn feed(text: &str) {
    match cases::parse_rules("x", text) {
        Ok(set) => assert_eq!(cases::parse_rules("y", &cases::print_rules(&set)).expect("printed"), set),
        Err(e) => assert!(!e.one_line().is_empty()),
    }
    match cases::parse("x", text) {
        Ok(case) => follow(&case),
        Err(e) => assert!(!e.one_line().is_empty()),
    }
}

/// Follows the recorded schedules of a case: they may diverge, and they never panic.
fn follow(case: &Case) {
    for f in &case.findings {
        let schedule = schedule_of(f);
        // Unanswered questions have no place of their own, so that the first way may lose something and the second may not.
        let again = cases::Finding { decisions: decisions_of(&schedule), ..f.clone() };
        assert_eq!(schedule_of(&again), schedule);
        let scene = Scene::of_case(case, Rules::mainline(), None);
        let r = replay(&scene, &schedule, None, Detail::Words);
        assert_eq!(replay(&scene, &schedule, None, Detail::Words).timeline.to_text(), r.timeline.to_text());
    }
}

#[test]
fn the_good_texts_are_good() {
    assert_eq!(cases::parse("x", CASE).expect("a case").findings.len(), 1);
    cases::parse_rules("x", RULES).expect("a rule set");
    feed(CASE);
    feed(RULES);
}

/// Words that stand in the texts, so that edits produce more than wrong syntax.
const WORDS: &[&str] =
    &["\"a\"", "\"b\"", "\"m\"", "\"sda\"", "steps=", "until=", "run", "choose", "{", "}", "0", "1", "4294967296", "-1", "#true", "set", "\n", ";"];

fn edited(good: &str, edits: &[(usize, u8, u8)]) -> String {
    let mut bytes = good.as_bytes().to_vec();
    for (at, byte, how) in edits {
        let at = at % bytes.len().max(1);
        match how % 4 {
            0 if at < bytes.len() => bytes[at] = *byte,
            1 => drop(bytes.splice(at..at, WORDS[usize::from(*byte) % WORDS.len()].bytes())),
            2 if at < bytes.len() => drop(bytes.remove(at)),
            _ => bytes.truncate(bytes.len() - usize::from(*byte).min(bytes.len()) / 16),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_are_told_apart(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        feed(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn an_edited_text_is_good_or_an_error(edits in proptest::collection::vec((0usize..1000, any::<u8>(), 0u8..4), 1..4)) {
        feed(&edited(CASE, &edits));
        feed(&edited(RULES, &edits));
    }

    #[test]
    fn any_schedule_can_be_followed(decisions in proptest::collection::vec((0usize..5, 0u32..40, 0u8..4), 0..20)) {
        let mut case = cases::parse("x", CASE).expect("a case");
        let task = |i: usize| ["a", "b", "kworker:cgwb_release_workfn(wb#2)", "rcu:cgwb_free_rcu(wb#2)", "nobody"][i].to_string();
        case.findings[0].decisions = decisions.into_iter().map(|(i, n, how)| match how {
            0 => cases::Decision::Run { task: task(i), steps: Some(n), until: None },
            1 => cases::Decision::Run { task: task(i), steps: None, until: Some("spin_lock(cgwb_lock)".into()) },
            2 => cases::Decision::Run { task: task(i), steps: None, until: None },
            _ => cases::Decision::Choose { site: "cgwb_create".into(), value: n },
        }).collect();
        follow(&case);
    }
}
