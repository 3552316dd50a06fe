//! The program as its users meet it: exit codes, lines, messages.

use assert_cmd::Command;
use serde_json::Value;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const CASE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/removed-owner.kdl");

struct Ran {
    code: i32,
    out: String,
    err: String,
}

fn wbcheck(dir: &TempDir, args: &[&str]) -> Ran {
    let out = Command::cargo_bin("wbcheck").expect("the binary is built").current_dir(dir.path()).args(args).output().expect("it runs");
    let text = |b: Vec<u8>| String::from_utf8(b).expect("UTF-8");
    Ran { code: out.status.code().expect("no signal"), out: text(out.stdout), err: text(out.stderr) }
}

fn temp() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn write(dir: &TempDir, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let p = dir.path().join(name);
    std::fs::write(&p, bytes).expect("written");
    p
}

fn lines(out: &str, kind: &str) -> Vec<Value> {
    out.lines().map(|l| serde_json::from_str::<Value>(l).expect("one object a line")).filter(|v| v["type"] == kind).collect()
}

/// Checks the fixture under mainline and gives the path of the finding for LT-LOOK-3.
fn finding(dir: &TempDir) -> String {
    let r = wbcheck(dir, &["check", "--case", CASE, "--rules", "mainline", "--format", "json"]);
    assert_eq!(r.code, 0, "{}{}", r.out, r.err);
    let replay = lines(&r.out, "result").into_iter().find(|l| l["invariant"] == "LT-LOOK-3").expect("declared")["replay"].clone();
    replay.as_str().and_then(|c| c.strip_prefix("wbcheck replay ")).expect("a command").to_string()
}

#[test]
fn built_in_rule_sets_break_what_they_declare_and_nothing_else() {
    let d = temp();
    let r = wbcheck(&d, &["check", "--case", CASE, "--format", "json"]);
    assert_eq!(r.code, 0, "{}{}", r.out, r.err);
    let results = lines(&r.out, "result");
    let violated: Vec<_> = results.iter().filter(|l| l["status"] == "violated").map(|l| (l["rules"].as_str(), l["invariant"].as_str())).collect();
    assert_eq!(violated, [(Some("mainline"), Some("LT-LOOK-3")), (Some("mainline"), Some("LT-LOOK-4"))]);
    for field in ["rules", "case", "invariant", "status", "expected", "executions", "traces", "exhaustive", "bound", "seconds", "replay"] {
        assert!(results.iter().all(|l| l.get(field).is_some()), "{field}");
    }
    assert_eq!(lines(&r.out, "header")[0]["schema"], 1);
    let summary = &lines(&r.out, "summary")[0];
    assert_eq!((&summary["ok"], &summary["exit"]), (&Value::Bool(true), &Value::from(0)));
}

#[test]
fn one_switch_turned_back_gives_1_and_names_the_invariant() {
    let d = temp();
    let rules = write(&d, "half.kdl", "schema 1\nrules \"half\" base=\"tree-until-release\" {\n    set \"R-TREE-OUT\" \"kill\"\n}\n");
    let r = wbcheck(&d, &["check", "--case", CASE, "--rules", rules.to_str().unwrap()]);
    assert_eq!(r.code, 1, "{}{}", r.out, r.err);
    assert!(r.out.contains("FAIL  LT-LOOK-3"), "{}", r.out);
    let replay = r.out.lines().find_map(|l| l.trim().strip_prefix("replay    wbcheck ").filter(|c| c.contains("LT-LOOK-3"))).expect("a command");
    assert_eq!(wbcheck(&d, &replay.split(' ').collect::<Vec<_>>()).code, 1);
}

#[test]
fn a_declared_violation_that_does_not_happen_fails() {
    let d = temp();
    let text = std::fs::read_to_string(CASE).unwrap().replace("expect \"*\" holds", "expect \"*\" violates \"LT-LOCK-1\"");
    let case = write(&d, "less.kdl", text);
    let r = wbcheck(&d, &["check", "--case", case.to_str().unwrap(), "--rules", "wb-list"]);
    assert_eq!(r.code, 1, "{}", r.out);
    assert!(r.out.contains("LESS  LT-LOCK-1"), "{}", r.out);
    let r = wbcheck(&d, &["check", "--case", case.to_str().unwrap(), "--rules", "wb-list", "--max-executions", "5"]);
    assert_eq!(r.code, 3, "no verdict within a lowered budget: {}", r.out);
}

#[test]
fn what_is_never_reached_is_vacuous() {
    let d = temp();
    let case = write(&d, "far.kdl", std::fs::read_to_string(CASE).unwrap().replace("reach \"cgwb_kill\"", "reach \"sync_inodes_sb\""));
    let r = wbcheck(&d, &["check", "--case", case.to_str().unwrap(), "--rules", "wb-list"]);
    assert_eq!(r.code, 4, "{}{}", r.out, r.err);
    assert!(r.out.contains("never reached sync_inodes_sb"), "{}", r.out);
}

#[test]
fn output_is_the_same_with_one_and_two_jobs() {
    let d = temp();
    for format in ["human", "json"] {
        let run = |jobs: &str| wbcheck(&d, &["check", "--case", CASE, "--case", CASE, "--format", format, "--no-times", "--jobs", jobs]).out;
        assert_eq!(run("1"), run("2"));
    }
}

#[test]
fn shards_together_are_the_whole() {
    let d = temp();
    let count = |shard: &str| lines(&wbcheck(&d, &["check", "--case", CASE, "--format", "json", "--shard", shard]).out, "case").len();
    assert_eq!([count("1/2"), count("2/2"), count("1/1")], [2, 1, 3]);
}

#[test]
fn a_finding_replays_with_the_same_trace_and_explains_itself() {
    let d = temp();
    let file = finding(&d);
    let r = wbcheck(&d, &["replay", &file, "--times", "1000", "--format", "json"]);
    assert_eq!(r.code, 1, "{}{}", r.out, r.err);
    let line = &lines(&r.out, "replay")[0];
    assert_eq!((&line["times"], &line["same"]), (&Value::from(1000), &Value::from(1000)));
    assert_eq!(line["diverged"], Value::Array(Vec::new()));
    let r = wbcheck(&d, &["explain", &file]);
    assert_eq!(r.code, 0, "{}", r.err);
    for word in ["FAIL  LT-LOOK-3", "expected", "observed", "step |", "cgroup_writeback_by_id", "breaks"] {
        assert!(r.out.contains(word), "{word}: {}", r.out);
    }
}

#[test]
fn a_shrunk_finding_is_smaller_and_still_fails() {
    let d = temp();
    let file = finding(&d);
    let r = wbcheck(&d, &["shrink", &file, "--format", "json", "--max-executions", "3000"]);
    assert_eq!(r.code, 0, "{}{}", r.out, r.err);
    let line = &lines(&r.out, "shrink")[0];
    let size = |when: &str, what: &str| line[when][what].as_u64().unwrap();
    for what in ["operations", "tasks", "preemptions", "switches", "steps"] {
        assert!(size("after", what) <= size("before", what), "{what}: {line}");
    }
    assert!(size("after", "tasks") <= 3 && size("after", "preemptions") <= 4, "{line}");
    let r = wbcheck(&d, &["replay", line["file"].as_str().unwrap()]);
    assert_eq!(r.code, 1, "{}", r.out);
    assert!(!r.out.contains("does not apply"), "{}", r.out);
}

#[test]
fn decisions_that_no_longer_apply_are_told() {
    let d = temp();
    let text = std::fs::read_to_string(CASE).unwrap() + "finding rules=\"wb-list\" violation=\"LT-LOOK-3\" {\n    run \"kworker:nothing(wb#9)\" steps=3\n}\n";
    let r = wbcheck(&d, &["replay", write(&d, "old.kdl", text).to_str().unwrap()]);
    assert_eq!(r.code, 4, "{}{}", r.out, r.err);
    assert!(r.out.contains("does not apply") && r.out.contains("kworker:nothing(wb#9)"), "{}", r.out);
}

#[test]
fn a_mutant_is_caught_and_its_finding_replays() {
    let d = temp();
    let r = wbcheck(&d, &["mutants", "--mutant", "V2-M01", "--case", CASE, "--tier", "fast", "--format", "json"]);
    assert_eq!(r.code, 0, "{}{}", r.out, r.err);
    let line = &lines(&r.out, "mutant")[0];
    assert_eq!((&line["status"], &line["invariant"]), (&Value::from("caught"), &Value::from("LT-LOOK-3")));
    for field in ["id", "case", "scheduler", "executions", "seconds", "replay"] {
        assert!(!line[field].is_null(), "{field}");
    }
    let file = line["replay"].as_str().unwrap().strip_prefix("wbcheck replay ").unwrap();
    assert_eq!(wbcheck(&d, &["replay", file]).code, 1);
}

#[test]
fn a_mutant_that_no_case_reaches_is_unreached() {
    let d = temp();
    let r = wbcheck(&d, &["mutants", "--mutant", "H-008", "--case", CASE, "--tier", "fast", "--format", "json"]);
    assert_eq!(r.code, 1, "{}{}", r.out, r.err);
    assert_eq!(lines(&r.out, "mutant")[0]["status"], "unreached");
}

/// One clear error: exit 2, the words, a help line, nothing on stdout that looks like a result, no bug.
#[track_caller]
fn refused(r: &Ran, words: &[&str]) {
    assert_eq!(r.code, 2, "{}{}", r.out, r.err);
    assert_eq!(r.err.matches("error:").count(), 1, "{}", r.err);
    for w in words.iter().chain(&["help:"]) {
        assert!(r.err.contains(w), "{w} in {}", r.err);
    }
    assert!(!r.out.contains("\"result\"") && !r.err.contains("bug"), "{}{}", r.out, r.err);
}

#[test]
fn bad_files_give_one_error_with_its_place() {
    let d = temp();
    let good = std::fs::read_to_string(CASE).unwrap();
    let path = |p: &Path| p.to_str().unwrap().to_string();
    let file = |name: &str, bytes: &[u8]| path(&write(&d, name, bytes));
    let cases: Vec<(String, &str)> = vec![
        (file("cut.kdl", &good.as_bytes()[..good.len() / 2]), "cut.kdl:"),
        (file("utf.kdl", &[good.as_bytes(), b"\n\xff\xfe"].concat()), "utf.kdl:24:1"),
        (file("new.kdl", good.replace("schema 1", "schema 99").as_bytes()), "new.kdl:1:"),
        (file("op.kdl", good.replace("by-id", "by-ib").as_bytes()), "op.kdl:17:"),
        (file("object.kdl", good.replace("inode \"f\" sb=\"fs\"", "inode \"f\" sb=\"gs\"").as_bytes()), "object.kdl:10:"),
        (file("deep.kdl", &[b"schema 1\n".as_slice(), &b"a {".repeat(100_000)].concat()), "deep.kdl:"),
        (file("big.kdl", &vec![b' '; 100_000_000]), "big.kdl"),
        (file("invariant.kdl", good.replace("LT-LOOK-3", "LT-LOOK-33").as_bytes()), "invariant.kdl:20:"),
        (file("empty.kdl", b""), "empty.kdl"),
        (path(&d.path().join("missing.kdl")), "missing.kdl"),
    ];
    for (p, place) in &cases {
        for verb in ["check", "replay", "shrink", "explain"] {
            let args: &[&str] = if verb == "check" { &["check", "--case", p] } else { &[verb, p] };
            refused(&wbcheck(&d, args), &[place]);
        }
    }
    let finding = |decisions: &str| good.clone() + "finding rules=\"mainline\" violation=\"LT-LOOK-3\" { " + decisions + " }\n";
    let nobody = file("nobody.kdl", finding("run \"nobody\" steps=1").as_bytes());
    refused(&wbcheck(&d, &["replay", &nobody]), &["nobody", "nobody.kdl:23:"]);
    let mutant = file("mutant.kdl", (good.clone() + "finding rules=\"mainline\" mutant=\"V9\" violation=\"LT-LOOK-3\"\n").as_bytes());
    refused(&wbcheck(&d, &["replay", &mutant]), &["V9", "mutant.kdl:23:"]);
    let rules = file("rules.kdl", b"schema 1\nrules \"x\" base=\"mainline\" {\n    set \"R-TREE-OUT\" \"kil\"\n}\n");
    refused(&wbcheck(&d, &["check", "--case", CASE, "--rules", &rules]), &["rules.kdl:3:", "kill"]);
}

/// Ways to spoil a good file: name of the new file, its bytes, and the place that the error must name.
fn spoilt(good: &str) -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let lines = good.lines().count() + 1;
    assert!(good.starts_with("schema 1\n") && good.ends_with('\n') && lines < 100);
    let text = |s: String| s.into_bytes();
    vec![
        ("half.kdl", good.as_bytes()[..good.len() / 2].to_vec(), "half.kdl:"),
        ("bytes.kdl", [b"schema 1\n\xff\xfe", good.as_bytes()].concat(), "bytes.kdl:2:1"),
        ("newer.kdl", text(good.replacen("schema 1", "schema 2", 1)), "newer.kdl:1:"),
        ("none.kdl", text(good.replacen("schema 1", "", 1)), "none.kdl:"),
        ("deep.kdl", text(format!("{good}{}{}", "a {".repeat(10_000), "}".repeat(10_000))), "deep.kdl:"),
        ("comments.kdl", text(format!("{good}{}{}", "/*".repeat(10_000), "*/".repeat(10_000))), "comments.kdl:"),
        ("megabyte.kdl", text(good.to_string() + &"// padding\n".repeat(100_000)), "megabyte.kdl:1:1"),
        ("top.kdl", text(format!("schema 1\nfoo 1\n{}", &good[9..])), "top.kdl:2:1"),
        ("empty.kdl", Vec::new(), "empty.kdl:1:1"),
    ]
}

#[test]
fn bad_cases_rule_sets_and_recordings_give_one_error_with_its_place() {
    let d = temp();
    let sparse = d.path().join("sparse.kdl");
    std::fs::File::create(&sparse).and_then(|f| f.set_len(100_000_000)).expect("a sparse file");
    let case = std::fs::read_to_string(CASE).unwrap();
    let recording = std::fs::read_to_string(d.path().join(finding(&d))).unwrap();
    // Without the heading, which says where it comes from.
    let recording = &recording[recording.find("schema 1").unwrap()..];
    let rules = "schema 1\nrules \"x\" base=\"mainline\" {\n    set \"R-TREE-OUT\" \"release\"\n    known \"LT-LOOK-3\"\n}\n";
    let refuse = |parser: &str, p: &str, words: &[&str]| {
        let args = match parser {
            "case" => vec!["check", "--case", p],
            "rules" => vec!["check", "--case", CASE, "--rules", p],
            _ => vec!["replay", p],
        };
        refused(&wbcheck(&d, &args), words);
    };
    for (parser, good) in [("case", case.as_str()), ("rules", rules), ("replay", recording)] {
        for (name, bytes, place) in spoilt(good) {
            refuse(parser, write(&d, name, bytes).to_str().unwrap(), &[place]);
        }
        refuse(parser, sparse.to_str().unwrap(), &["sparse.kdl:1:1"]);
        refuse(parser, d.path().join("missing.kdl").to_str().unwrap(), &["missing.kdl"]);
        refuse(parser, &format!("{}/", d.path().display()), &[d.path().to_str().unwrap()]);
    }
    let unknown: [(&str, &str, String, &[&str]); 9] = [
        ("case", "function", case.replace("reach \"cgwb_kill\"", "reach \"cgwb_kil\""), &["unknown.kdl:", "did you mean `cgwb_kill`"]),
        ("case", "operation", case.replace("rmdir \"", "rmdri \""), &["unknown.kdl:", "did you mean `rmdir`"]),
        ("case", "object", case.replace("by-id \"sda\"", "by-id \"sdb\""), &["unknown.kdl:", "sdb"]),
        ("case", "rule set's verb", case.replace("\"*\" holds", "\"*\" hold"), &["unknown.kdl:", "holds"]),
        ("rules", "switch", rules.replace("R-TREE-OUT", "R-TREE-OUR"), &["unknown.kdl:3:5", "did you mean `R-TREE-OUT`"]),
        ("rules", "value", rules.replace("\"release\"", "\"relaese\""), &["unknown.kdl:3:5", "did you mean `release`"]),
        ("rules", "base", rules.replace("mainline", "mainlin"), &["unknown.kdl:2:1", "did you mean `mainline`"]),
        ("rules", "invariant", rules.replace("LT-LOOK-3", "LT-LOOK-33"), &["unknown.kdl:4:12", "LT-LOOK-33"]),
        ("replay", "task", recording.replace("run \"", "run \"no"), &["unknown.kdl:", "unknown task"]),
    ];
    for (parser, what, text, words) in &unknown {
        let good = ["case", "rules", "replay"].iter().zip([case.as_str(), rules, recording]).find(|g| g.0 == parser).unwrap().1;
        assert_ne!(text, good, "{what}");
        refuse(parser, write(&d, "unknown.kdl", text).to_str().unwrap(), words);
    }
}

#[test]
fn shuttle_finds_and_replays_the_same() {
    let d = temp();
    let r = wbcheck(&d, &["check", "--case", CASE, "--engine", "shuttle", "--scheduler", "pct:3", "--format", "json"]);
    assert_eq!(r.code, 0, "{}{}", r.out, r.err);
    assert_eq!(lines(&r.out, "header")[0]["engine"], "shuttle");
    assert_eq!(lines(&r.out, "case")[0]["search"], "pct:3");
    let line = lines(&r.out, "result").into_iter().find(|l| l["invariant"] == "LT-LOOK-3").expect("declared");
    assert_eq!((&line["rules"], &line["status"]), (&Value::from("mainline"), &Value::from("violated")));
    let file = line["replay"].as_str().unwrap().strip_prefix("wbcheck replay ").unwrap();
    let trace = |engine: &str| lines(&wbcheck(&d, &["replay", file, "--engine", engine, "--trace", "--format", "json", "--times", "3"]).out, "text");
    assert_eq!(trace("shuttle"), trace("stepper"));
    assert!(!trace("shuttle").is_empty());
    refused(&wbcheck(&d, &["check", "--case", CASE, "--engine", "shuttle", "--scheduler", "rando"]), &["did you mean `random`"]);
}

#[test]
fn output_depends_on_the_seed_and_on_nothing_else() {
    let d = temp();
    let few = ["removed-owner", "two-lookups", "kill-get", "takeover-release"];
    for engine in ["stepper", "shuttle"] {
        let run = |jobs: &str, seed: &str| {
            let mut args = vec!["check", "--engine", engine, "--scheduler", "random", "--max-executions", "200", "--no-times", "--format", "json"];
            args.extend(few.iter().flat_map(|c| ["--case", *c]));
            args.extend(["--jobs", jobs, "--seed", seed]);
            wbcheck(&d, &args).out
        };
        let first = run("1", "1");
        assert_eq!(first, run("1", "1"), "{engine}: the same seed twice");
        assert_eq!(first, run("2", "1"), "{engine}: one and two jobs");
        let steps = |out: &str| lines(out, "case").iter().map(|c| c["steps"].as_u64().unwrap()).collect::<Vec<_>>();
        assert_ne!(steps(&first), steps(&run("2", "2")), "{engine}: another seed is another sample");
    }
}

#[test]
fn unknown_names_are_refused_with_a_suggestion() {
    let d = temp();
    refused(&wbcheck(&d, &["check", "--case", "nope"]), &["nope"]);
    refused(&wbcheck(&d, &["check", "--case", CASE, "--rules", "mainlin"]), &["did you mean `mainline`"]);
    refused(&wbcheck(&d, &["check", "--case", CASE, "--scheduler", "portfolo"]), &["did you mean `portfolio`"]);
    refused(&wbcheck(&d, &["mutants", "--mutant", "V2-M99"]), &["V2-M99"]);
    for bad in [&["check", "--shard", "3/2"][..], &["check", "--jobs", "0"], &["frobnicate"], &["replay"], &["check", "--max-seconds", "-1"]] {
        assert_eq!(wbcheck(&d, bad).code, 2, "{bad:?}");
    }
    assert_eq!(wbcheck(&d, &["--help"]).code, 0);
}

#[test]
fn list_shows_what_other_commands_accept() {
    let d = temp();
    let r = wbcheck(&d, &["list", "--format", "json"]);
    assert_eq!(r.code, 0);
    let items = lines(&r.out, "item");
    for (kind, name) in [
        ("rules", "tree-until-release"),
        ("invariant", "LT-LOOK-3"),
        ("mutant", "V2-M25"),
        ("switch", "R-TREE-OUT"),
        ("scheduler", "dpor"),
        ("scenario", "memcg-overshoot"),
        ("policy", "flush"),
        ("metric", "max_stall_ms"),
    ] {
        assert!(items.iter().any(|i| i["kind"] == kind && i["name"] == name), "{kind} {name}");
    }
    assert_eq!(wbcheck(&d, &["explain", "LT-LOOK-3"]).code, 0);
}

#[test]
fn vectors_agree_with_the_kernel() {
    let d = temp();
    let r = wbcheck(&d, &["vectors", "--format", "json"]);
    assert_eq!(r.code, 0, "{}{}", r.out, r.err);
    let vectors = lines(&r.out, "vector");
    assert!(vectors.len() >= 20, "{}", vectors.len());
    for v in &vectors {
        assert_eq!(v["mismatches"], 0, "{v}");
        assert!(v["rows"].as_u64() > Some(100), "{v}");
        assert!(v["file"].is_string(), "{v}");
    }
    assert_eq!(lines(&r.out, "summary")[0]["ok"], true);
    assert!(wbcheck(&d, &["vectors"]).out.contains("all rows agree"));
}

#[test]
fn vectors_that_differ_are_shown_and_files_that_are_none_refused() {
    const GOOD: &str = "dirty_pages,thresh_pages,interval_pages\n3,4,1\n0,8,2\n";
    let d = temp();
    let dir = |name: &str, file: &str, bytes: &[u8]| {
        let dir = d.path().join(name);
        std::fs::create_dir_all(&dir).expect("a folder");
        std::fs::write(dir.join("README.md"), "not a table").expect("written");
        if !file.is_empty() {
            std::fs::write(dir.join(file), bytes).expect("written");
        }
        dir.to_str().unwrap().to_string()
    };
    let file = "dirty_poll_interval.csv";
    let run = |dir: &str, format: &str| wbcheck(&d, &["vectors", "--dir", dir, "--format", format]);
    assert_eq!(run(&dir("good", file, GOOD.as_bytes()), "human").code, 0);
    let bad = dir("bad", file, GOOD.replace("0,8,2", "0,8,3").as_bytes());
    let r = run(&bad, "human");
    assert_eq!(r.code, 1, "{}{}", r.out, r.err);
    assert!(r.out.contains("dirty_poll_interval.csv:3  interval_pages  expected 3  computed 2"), "{}", r.out);
    let r = run(&bad, "json");
    assert_eq!((r.code, &lines(&r.out, "vector")[0]["mismatches"]), (1, &Value::from(1)));
    assert_eq!(run(&dir("none", "", b""), "human").code, 4);
    refused(&run(&dir("unknown", "dirty_pol_interval.csv", GOOD.as_bytes()), "human"), &["unknown/dirty_pol_interval.csv", "dirty_poll_interval.csv?"]);
    refused(&run(&dir("cut", file, &GOOD.as_bytes()[..GOOD.len() - 3]), "human"), &["cut/dirty_poll_interval.csv:3"]);
    refused(&run(&dir("bytes", file, &[GOOD.as_bytes(), b"1,\xff,2\n"].concat()), "human"), &["dirty_poll_interval.csv:4", "UTF-8"]);
    refused(&run(&dir("word", file, GOOD.replace("0,8,2", "0,eight,2").as_bytes()), "human"), &["dirty_poll_interval.csv:3", "thresh_pages"]);
    refused(&run("nowhere", "human"), &["nowhere"]);
}

const SCENARIO: &str = r#"schema 1
scenario "tiny" duration="3s" seeds=3 { about "a"; source "b"; }
machine memory="1GiB" cpus=2
memcg "job" max="64MiB"
disk "d" write="50MB/s"
fs "f" disk="d"
file "out" fs="f" size="256MiB"
writer "w" memcg="job" file="out" block="64KiB" copy="500MB/s"
variant "ratelimited"
variant "always" { set "policy.flush" "always"; }
expect "ratelimited" "peak_dirty_pages" low=1 seed="some"
expect "always" "peak_dirty_pages" relative-to="ratelimited" high=1 seed="not more"
"#;

fn simulate(d: &TempDir, text: &str, more: &[&str]) -> Ran {
    let file = write(d, "tiny.kdl", text);
    let args: Vec<&str> = ["simulate", "--scenario", file.to_str().unwrap()].iter().chain(more).copied().collect();
    wbcheck(d, &args)
}

#[test]
fn scenarios_are_held_against_their_bands() {
    let d = temp();
    let r = simulate(&d, SCENARIO, &["--format", "json"]);
    assert_eq!(r.code, 0, "{}{}", r.out, r.err);
    let variants = lines(&r.out, "scenario");
    assert_eq!(variants.iter().map(|v| v["policy"].as_str().unwrap()).collect::<Vec<_>>(), ["ratelimited", "always"]);
    assert_eq!(lines(&r.out, "run").len(), 6);
    for v in &variants {
        for field in ["scenario", "policy", "seed", "peak_dirty_pages", "limit_pages", "max_stall_ms", "p99_write_ms", "w.worst_lag_ms", "device_written_pages"]
        {
            assert!(v.get(field).is_some(), "{field}");
        }
        for field in ["metric", "seed_value", "low", "high", "ok"] {
            assert!(v["expect"][0].get(field).is_some(), "{field}");
        }
    }
    assert_eq!(lines(&r.out, "summary")[0]["ok"], true);

    let r = simulate(&d, &SCENARIO.replace("low=1 ", "high=1 "), &[]);
    assert_eq!(r.code, 1, "{}", r.out);
    assert!(r.out.contains("OUTSIDE") && r.out.contains("1 outside of a band"), "{}", r.out);
    let r = simulate(&d, &SCENARIO.replace("low=1 ", "low=1 unmet=\"no\" "), &[]);
    assert_eq!(r.code, 1, "{}", r.out);
    assert!(r.out.contains("NO LONGER OUTSIDE"), "{}", r.out);
}

#[test]
fn simulations_depend_on_the_seed_and_on_nothing_else() {
    let d = temp();
    let run = |jobs: &str| simulate(&d, SCENARIO, &["--format", "json", "--no-times", "--jobs", jobs]).out;
    assert_eq!(run("1"), run("4"));
}

#[test]
fn a_policy_may_be_a_variant_or_knobs() {
    let d = temp();
    let policies = |p: &str| lines(&simulate(&d, SCENARIO, &["--format", "json", "--seeds", "1", "--policy", p]).out, "scenario");
    assert_eq!(policies("always")[0]["expect"][0]["status"], "not-judged");
    let other = write(&d, "other.kdl", SCENARIO.replace("variant \"always\"", "variant \"often\"").replace("expect \"always\"", "expect \"often\""));
    let both = |p: &str| simulate(&d, SCENARIO, &["--scenario", other.to_str().unwrap(), "--format", "json", "--seeds", "1", "--policy", p]);
    assert_eq!(lines(&both("often").out, "scenario").len(), 1);
    assert_eq!(lines(&both("ratelimited").out, "scenario").len(), 2);
    refused(&both("never"), &["none of the scenarios has a variant called never"]);
    let knobs = policies("flush=atomic-per-memcg,memcg.job.max=32MiB");
    assert_eq!((knobs.len(), &knobs[0]["policy"]), (1, &Value::from("flush=atomic-per-memcg,memcg.job.max=32MiB")));
    assert_eq!(knobs[0]["stat_flushes"], 0.0);
}

#[test]
fn plots_and_series_are_written() {
    let d = temp();
    let r = simulate(&d, SCENARIO, &["--seeds", "1", "--policy", "always", "--plot", "plots", "--series", "series"]);
    assert_eq!(r.code, 0, "{}{}", r.out, r.err);
    for plot in ["memcg", "machine", "pauses", "lag", "latency", "device"] {
        let svg = std::fs::read_to_string(d.path().join(format!("plots/tiny-always-{plot}.svg"))).expect(plot);
        assert!(svg.starts_with("<svg"), "{plot}");
    }
    let csv = std::fs::read_to_string(d.path().join("series/tiny-always.csv")).unwrap();
    assert!(csv.starts_with("at_us,dirty_pages,") && csv.lines().count() > 100, "{csv}");
    let json: Value = serde_json::from_str(&std::fs::read_to_string(d.path().join("series/tiny-always.json")).unwrap()).unwrap();
    assert_eq!(json["tasks"][0]["name"], "w");
}

#[test]
fn a_sweep_is_a_table() {
    let d = temp();
    let file = write(&d, "tiny.kdl", SCENARIO);
    let sweep = |more: &[&str]| {
        let args = ["sweep", "--scenario", file.to_str().unwrap(), "--seeds", "1", "--metric", "limit_pages", "--over"];
        wbcheck(&d, &args.iter().chain(more).copied().collect::<Vec<_>>())
    };
    let r = sweep(&["memcg.job.max=32MiB,64MiB", "--over", "policy.flush=always,ratelimited", "--format", "json"]);
    assert_eq!(r.code, 0, "{}{}", r.out, r.err);
    let points = lines(&r.out, "sweep");
    assert_eq!(points.len(), 4);
    assert_eq!(points[3]["over"][0][1], "64MiB");
    assert!(points[0]["value"].as_f64().unwrap() < points[3]["value"].as_f64().unwrap());
    let r = sweep(&["memcg.job.max=32MiB,64MiB", "--plot", "p"]);
    assert!(r.out.contains("  32MiB") && d.path().join("p/tiny-base-limit_pages.svg").exists(), "{}", r.out);
}

#[test]
fn what_cannot_be_simulated_is_refused_with_a_suggestion() {
    let d = temp();
    let file = write(&d, "tiny.kdl", SCENARIO);
    let file = file.to_str().unwrap();
    refused(&wbcheck(&d, &["simulate", "--scenario", "memcg-overshot"]), &["no scenario called `memcg-overshot`", "did you mean `memcg-overshoot`?"]);
    refused(&wbcheck(&d, &["simulate", "--scenario", file, "--policy", "allways"]), &["no variant called `allways`", "ratelimited, always"]);
    refused(&wbcheck(&d, &["simulate", "--scenario", file, "--policy", "flush=often"]), &["`often` is not a flush policy"]);
    refused(&wbcheck(&d, &["sweep", "--scenario", file, "--metric", "x", "--over", "machine.cpus=1"]), &["no metric called `x`"]);
    refused(&wbcheck(&d, &["sweep", "--scenario", file, "--metric", "limit_pages", "--over", "machine.cpu=1"]), &["did you mean `machine.cpus`?"]);
    for bad in [&["simulate"][..], &["simulate", "--all", "--seeds", "0"], &["sweep", "--scenario", file, "--metric", "limit_pages", "--over", "machine.cpus"]]
    {
        assert_eq!(wbcheck(&d, bad).code, 2, "{bad:?}");
    }
    let bad = write(&d, "bad.kdl", SCENARIO.replace("\"50MB/s\"", "50"));
    refused(&wbcheck(&d, &["simulate", "--scenario", bad.to_str().unwrap()]), &["`50` has no unit", "bad.kdl:5:10"]);
}
