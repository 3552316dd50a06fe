use super::*;
use crate::policy::{FlushPolicy, OrderCap};
use proptest::prelude::*;

const TEXT: &str = r#"schema 1
scenario "s" duration="60s" seeds=3 {
    about "a \"quoted\" text"
    source "seed"
}
machine memory="250GB" cpus=16 hz=1000 dirty-bytes="32MiB" dirty-expire="5s" inode-walk="20us"
policy flush="by-pages-dirtied" order="cap-3" lookup="wb-list"
memcg "pod" max="4GiB" dirty-ratio="10%"
memcg "pod/old" high="8GB" dirty-min="4MiB" anon="1MB"
disk "sda" write="1250MB/s" read="3GB/s" queue=32 seek="1ms" burst="64MiB" {
    cap "pod/old" rate="200MiB/s"
    cap "/" rate="1MB/s"
    fault "glitch" kind="stall" at="5s" for="200ms"
}
fs "data" disk="sda" order=9 completion-batch-pages=4096
fs "mount" disk="sda" max-ratio="2%" fuse=#true
file "out" fs="data" count=1000 size="8MiB" owner="/"
file "meta" fs="data" bdev=#true
writer "fio" memcg="pod/old" file="out" pattern="append" block="64KiB" pace="250MB/s" stop="10s" rt=#true metadata="meta" metadata-pages=2
writer "late" file="out" start="never"
direct "fg" disk="sda" read=#true depth=32 total="16GiB" start="8s"
stat-reader "top" every="100ms" start="never"
event "gone" at="10s" do="remove" memcg="pod/old"
event "limit" at="20s" do="set-max" memcg="pod" max="none"
event "sync" at="never" do="sync" fs="data"
event "ratio" at="1s" do="set-dirty-ratio" ratio="5%"
event "cut" at="2s" do="truncate" file="out"
variant "mainline"
variant "cured" {
    set "policy.flush" "always"
    set "disk.sda.cap.pod/old.rate" "1GB/s"
    set "machine.cpus" "64"
}
expect "mainline" "fio.max_stall_ms" low=4000.0 high=6000.0 seed="4 to 6 s"
expect "cured" "peak_over_limit" relative-to="mainline" high=0.5 unmet="no device model"
expect "cured" "out.written_pages" low=1.0
"#;

fn scenario() -> Scenario {
    parse("s.kdl", TEXT).unwrap_or_else(|e| panic!("{}", e.one_line()))
}

#[track_caller]
fn bad(from: &str, to: &str) -> String {
    assert!(TEXT.contains(from), "{from}");
    let e = parse("s.kdl", &TEXT.replacen(from, to, 1)).unwrap_err();
    let help = e.help.as_ref().map_or(String::new(), |h| format!("; {h}"));
    format!("{}: {}{help}", e.position().map_or(0, |p| p.0), e.message)
}

#[track_caller]
fn edit_error(path: &str, value: &str) -> String {
    let e = scenario().with(&[(path.into(), value.into())]).unwrap_err();
    format!("{}; {}", e.message, e.help.unwrap_or_default())
}

fn with(path: &str, value: &str) -> Scenario {
    scenario().with(&[(path.into(), value.into())]).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_scenario_round_trips() {
    let s = scenario();
    assert_eq!(print(&s), TEXT);
    assert_eq!(parse("printed", &print(&s)).unwrap(), s);
}

#[test]
fn amounts_and_names_are_resolved() {
    let s = scenario();
    assert_eq!((s.memcgs[1].parent, s.memcgs[1].high_bytes), (Some(0), Some(8_000_000_000)));
    assert_eq!(s.disks[0].caps, [Cap { memcg: Some(1), bps: 200 << 20 }, Cap { memcg: None, bps: 1_000_000 }]);
    assert_eq!(s.filesystems[1], Filesystem { name: "mount".into(), max_ratio_ppm: 20_000, ..Filesystem::of(true) });
    assert_eq!(s.files[0].owner, Some(Owner::Root));
    assert_eq!((s.writers[0].metadata, s.writers[1].start_us), (Some(1), NEVER));
    assert_eq!(s.policy.order, OrderCap::Fixed(3));
    assert_eq!(s.events[1].what, Action::SetMax(0, None));
}

#[test]
fn what_is_not_stated_has_its_default() {
    let text = "schema 1\nscenario \"s\" duration=\"1s\"\ndisk \"d\" write=\"1MB/s\"\nfs \"f\" disk=\"d\"\nfile \"x\" fs=\"f\"\nwriter \"w\" file=\"x\"\n";
    let s = parse("x", text).unwrap();
    assert_eq!(s.machine, Machine::default());
    assert_eq!(s.disks[0].read_bps, 1_000_000);
    assert_eq!(s.files[0].count, 1);
    assert_eq!(s.all_variants()[0].name, BASE);
    assert_eq!(parse("y", &print(&s)).unwrap(), s);
}

#[test]
fn values_without_a_unit_are_refused() {
    assert_eq!(bad("max=\"4GiB\"", "max=4"), "8: `4` has no unit; write it with a unit and in quotes, as in \"4TiB\"");
    assert_eq!(bad("duration=\"60s\"", "duration=\"60\""), "2: `60` has no unit; units are s, ms, us");
}

#[test]
fn errors_have_a_place() {
    let e = parse("s.kdl", &TEXT.replace("cpus=16", "cpus=0")).unwrap_err();
    assert_eq!(e.one_line(), "s.kdl:6:24: 0 is out of range; it may be 1 to 512");
}

#[test]
fn limits_are_enforced() {
    assert_eq!(bad("write=\"1250MB/s\"", "write=\"0MB/s\""), "10: 0B/s is out of range; it may be 1B/s to 1024TiB/s");
    assert_eq!(bad("max=\"4GiB\"", "max=\"0B\""), "8: 0B is out of range; it may be 1B to 8192TiB");
    assert_eq!(bad("cpus=16", "cpus=0"), "6: 0 is out of range; it may be 1 to 512");
    assert_eq!(bad("cpus=16", "cpus=513"), "6: 513 is out of range; it may be 1 to 512");
    assert_eq!(bad("hz=1000", "hz=999"), "6: no kernel is built with HZ=999; HZ is 100, 250, 300 or 1000");
    assert_eq!(bad("order=9", "order=10"), "15: 10 is out of range; it may be 0 to 9");
    assert_eq!(bad("cap-3", "cap-10"), "7: order 10 is out of range; it may be 0 to 9");
    assert_eq!(bad("dirty-ratio=\"10%\"", "dirty-ratio=\"101%\""), "8: 101% is out of range; it may be 0% to 100%");
    assert_eq!(bad("max=\"4GiB\"", "max=\"99999999999TiB\""), "8: `99999999999TiB` is too large");
    assert_eq!(bad("dirty-bytes=\"32MiB\"", "dirty-bytes=\"1B\""), "6: dirty-bytes is at least two pages");
    assert_eq!(bad("count=1000", "count=18446744073709551616"), "17: 18446744073709551616 is out of range");
    assert_eq!(bad("max-ratio=\"2%\"", "min-ratio=\"3%\" max-ratio=\"2%\""), "16: min-ratio is above max-ratio");
    assert_eq!(bad("start=\"never\"", "start=\"9s\" stop=\"8s\""), "20: `late` stops before it starts");
    assert_eq!(bad(" metadata-pages=2", ""), "19: metadata= and metadata-pages= go together");
}

#[test]
fn names_are_checked() {
    assert_eq!(bad("memcg \"pod\"", "memcg \"pot\""), "9: the parent memcg `pod` is not made before; did you mean `pot`?");
    assert_eq!(bad("memcg \"pod/old\"", "memcg \"pod\""), "9: a second `memcg` called `pod`");
    assert_eq!(bad("memcg \"pod\"", "memcg \"a.b\""), "8: a name contains '.'; dots separate the parts of paths");
    assert_eq!(bad("disk=\"sda\"", "disk=\"sdb\""), "15: no disk called `sdb`; did you mean `sda`?");
    assert_eq!(bad("direct \"fg\"", "direct \"fio\""), "21: a writer is called `fio` already");
    assert_eq!(bad("cap \"/\"", "cap \"pod/old\""), "12: a second cap of this memcg on this disk");
    assert_eq!(bad("lookup=\"wb-list\"", "lookup=\"wb\""), "7: no built-in rule set called `wb`; there is `mainline`, `wb-list`, `tree-until-release`");
    assert_eq!(bad("flush=\"by-pages-dirtied\"", "flush=\"alwais\""), "7: `alwais` is not a flush policy; did you mean `always`?");
}

#[test]
fn nodes_and_properties_are_checked() {
    assert_eq!(bad("disk \"sda\" write", "disc \"sda\" write"), "10: nothing is called `disc` at the top of a scenario; did you mean `disk`?");
    assert_eq!(bad("stat-reader \"top\"", "stat-raeder \"top\""), "22: nothing is called `stat-raeder` at the top of a scenario; did you mean `stat-reader`?");
    assert_eq!(bad("queue=32", "queu=32"), "10: `disk` has no queu=; did you mean `queue`?");
    assert_eq!(bad("every=\"100ms\" ", ""), "22: `stat-reader` needs every=, a time as \"100ms\"");
    assert_eq!(bad("do=\"remove\"", "do=\"rm\""), "23: nobody can `rm`; there is `remove`, `sync`, `set-max`, `set-dirty-ratio`, `truncate`");
    assert_eq!(bad("do=\"remove\" memcg=\"pod/old\"", "do=\"remove\" fs=\"data\""), "23: `event` needs memcg=, the name of a memcg");
    assert_eq!(bad("scenario \"s\" duration=\"60s\" seeds=3", "scenario \"s\""), "2: `scenario` needs duration=, a time as \"60s\"");
    assert_eq!(parse("x", "schema 1\nscenario \"s\" duration=\"1s\"").unwrap_err().message, "nobody writes");
    assert_eq!(parse("x", "schema 2").unwrap_err().message, "schema 2 is newer than this program understands (1)");
    assert_eq!(parse("x", "schema 1").unwrap_err().message, "the file has no `scenario`");
}

#[test]
fn variants_and_expectations_are_tried() {
    assert_eq!(
        bad("\"machine.cpus\" \"64\"", "\"machine.cpus\" \"1024\""),
        "32: policy.flush = always, disk.sda.cap.pod/old.rate = 1GB/s, machine.cpus = 1024: 1024 is out of range; it may be 1 to 512"
    );
    assert_eq!(bad("\"policy.flush\"", "\"policy.flash\""), "30: nothing is called `policy.flash`; did you mean `policy.flush`?");
    assert_eq!(bad("expect \"cured\"", "expect \"curd\""), "35: no variant called `curd`; did you mean `cured`?");
    assert_eq!(bad("relative-to=\"mainline\"", "relative-to=\"x\""), "35: no variant called `x`; there is `mainline`, `cured`");
    assert_eq!(bad("fio.max_stall_ms", "fio.max_stal_ms"), "34: no metric called `max_stal_ms`; did you mean `max_stall_ms`?");
    assert_eq!(bad("fio.max_stall_ms", "foo.max_stall_ms"), "34: no task called `foo`; did you mean `fio`?");
    assert_eq!(bad("out.written_pages", "written_pages"), "36: `written_pages` is a metric of one file; as in file.written_pages");
    assert_eq!(bad("\"peak_over_limit\"", "\"fio.peak_over_limit\""), "35: `peak_over_limit` is a metric of the whole machine; write peak_over_limit");
    assert_eq!(bad("low=4000.0 ", "low=7000.0 "), "34: low= is above high=");
    assert_eq!(bad(" low=1.0", ""), "36: an expectation has low=, high= or both");
}

#[test]
fn edits_reach_every_property() {
    let s = scenario();
    for path in s.paths() {
        // Whatever the property takes, "?" is not it; that it was found shows in the message.
        match s.with(&[(path.clone(), "?".into())]) {
            Ok(_) => panic!("{path}"),
            Err(e) => assert!(e.message.starts_with(&format!("{path} = ?: ")), "{path}: {}", e.message),
        }
    }
    assert!(s.paths().contains(&"disk.sda.fault.glitch.at".to_string()));
}

#[test]
fn edits_change_one_value() {
    assert_eq!(with("disk.sda.write", "2GB/s").disks[0].write_bps, 2_000_000_000);
    assert_eq!(with("disk.write", "2GB/s").disks[0].write_bps, 2_000_000_000);
    assert_eq!(with("machine.cpus", "512").machine.cpus, 512);
    assert_eq!(with("policy.flush", "always").policy.flush, FlushPolicy::Always);
    assert_eq!(with("memcg.pod.max", "none").memcgs[0].max_bytes, None);
    assert_eq!(with("memcg.pod/old.max", "1GiB").memcgs[1].max_bytes, Some(1 << 30));
    assert_eq!(with("disk.sda.fault.glitch.at", "never").disks[0].faults[0].at_us, NEVER);
    assert!(with("fs.data.strictlimit", "true").filesystems[0].strictlimit);
    assert_eq!(with("event.gone.at", "never").events[0].at_us, NEVER);
    assert_eq!(with("scenario.duration", "5s").duration_us, 5_000_000);
    assert_eq!(Scenario { machine: scenario().machine, ..with("machine.cpus", "512") }, scenario());
}

#[test]
fn edits_that_cannot_be_made_say_why() {
    assert_eq!(edit_error("disk.sda.wirte", "1MB/s"), "nothing is called `disk.sda.wirte`; did you mean `disk.sda.write`?");
    assert_eq!(edit_error("memcg.max", "1MB"), "nothing is called `memcg.max`; did you mean `memcg.pod.max`?");
    assert_eq!(edit_error("disk.sda.write", "fast"), "disk.sda.write = fast: `fast` is not an amount; an amount is a number and a unit, as in 5TiB/s");
    assert_eq!(edit_error("x", "1"), "nothing is called `x`; a path is kind.name.property, as in disk.sda.write or machine.cpus");
}

fn feed(text: &str) {
    match parse("x", text) {
        Ok(s) => assert_eq!(parse("y", &print(&s)).unwrap_or_else(|e| panic!("{}\n{}", e.one_line(), print(&s))), s),
        Err(e) => assert!(!e.one_line().is_empty()),
    }
}

/// Words that stand in scenarios, so that edits of a text produce more than wrong syntax.
const WORDS: &[&str] = &[
    "\"pod\"",
    "\"sda\"",
    "\"1GB\"",
    "\"1s\"",
    "\"never\"",
    "\"none\"",
    "max=",
    "at=",
    "disk",
    "fault",
    "{",
    "}",
    "0",
    "1.5",
    "-1",
    "#true",
    "\n",
    ";",
    ".",
    "/",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_are_told_apart(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        feed(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn an_edited_text_is_good_or_an_error(edits in prop::collection::vec((0usize..3000, any::<u8>(), 0u8..4), 1..4)) {
        let mut bytes = TEXT.as_bytes().to_vec();
        for (at, byte, how) in edits {
            let at = at % bytes.len().max(1);
            match how {
                0 if at < bytes.len() => bytes[at] = byte,
                1 => drop(bytes.splice(at..at, WORDS[usize::from(byte) % WORDS.len()].bytes())),
                2 if at < bytes.len() => drop(bytes.remove(at)),
                _ => bytes.truncate(bytes.len() - usize::from(byte).min(bytes.len()) / 16),
            }
        }
        feed(&String::from_utf8_lossy(&bytes));
    }
}

proptest! {
    // Each edit parses the whole text twice.
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_edit_is_good_or_an_error(path in "[a-z./]{0,12}|disk\\.sda\\.[a-z]{4,6}|machine\\.[a-z-]{2,12}", value in ".{0,8}|[0-9]{1,20}[a-zA-Z/]{0,4}", all: prop::sample::Index) {
        let s = scenario();
        let paths = s.paths();
        for path in [path.as_str(), all.get(&paths).as_str()] {
            match s.with(&[(path.into(), value.clone())]) {
                Ok(s) => feed(&print(&s)),
                Err(e) => prop_assert!(!e.message.is_empty()),
            }
        }
    }
}
