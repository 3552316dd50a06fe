//! The text format of cases: it round-trips, it says what is wrong, and it never panics.

use proptest::prelude::*;
use wbmodel::cases::{self, Case, CgroupRef, CssId, Decision, Irq, OPS, Op};

const FULL: &str = r#"
schema 1
case "removed-owner" {
    about "an owner is removed while its file is dirty"
    source "seed 001"
}
machine cpus=2 preempt-rcu=#false timers=1 faults=2
ask "cgwb_create" "bdi_split_work_to_wbs"
setup {
    bdi "sda"
    cgroup "pod" io=#true
    cgroup "pod/old"
    sb "fs" bdi="sda"
    inode "f1" sb="fs"
    dirty "f1" as="pod/old" pages=2
}
task "admin" { rmdir "pod/old" }
task "new" cpu=1 {
    cgroup "pod/new"
    dirty "f1" as="pod/new"
    throttle "sda" as="pod/new"
    by-id "sda" id="pod/old"
    by-id "sda" id=3 wait=#false
    get-create "sda" of="pod" keep="w"
    release "w"
    noise 3
    join "admin"
}
task "irq" irq="hard" { noise 2 }
teardown { close "f1"; umount "fs"; unplug "sda" }
reach "cgwb_kill" "cgroup_writeback_by_id"
expect "mainline" violates "LT-LOOK-3"
expect "*" holds
search engine="dpor" preemptions=3 executions=20000 seed=7
finding rules="mainline" mutant="V2-M01" violation="LT-LOOK-3" {
    run "admin" steps=12
    run "kworker:cgwb_release_workfn(wb#2)" until="2nd cgwb_lock"
    choose "cgwb_create" 1
}
"#;

fn full() -> Case {
    cases::parse("full.kdl", FULL).unwrap()
}

#[test]
fn names_are_resolved() {
    let c = full();
    assert_eq!(c.name, "removed-owner");
    assert_eq!(c.names.cgroups, ["/", "pod", "pod/old", "pod/new"]);
    assert_eq!(c.names.cgroup_parent(CgroupRef(2)), Some(CgroupRef(1)));
    assert_eq!(c.names.tasks, ["admin", "new", "irq"]);
    assert_eq!(c.tasks[0].body[0].op, Op::Rmdir { cgroup: CgroupRef(2) });
    assert!(matches!(c.tasks[1].body[3].op, Op::ById { id: CssId::Of(CgroupRef(2)), wait: true, .. }));
    assert!(matches!(c.tasks[1].body[4].op, Op::ById { id: CssId::Number(3), wait: false, .. }));
    assert_eq!(c.tasks[2].irq, Irq::Hard);
    assert_eq!(c.expected("mainline"), ["LT-LOOK-3"]);
    assert_eq!(c.expected("tree-until-release"), [""; 0]);
    assert_eq!(c.findings[0].decisions[2], Decision::Choose { site: "cgwb_create".into(), value: 1 });
}

#[test]
fn a_printed_case_parses_to_the_same_case() {
    let c = full();
    let text = cases::print(&c);
    let again = cases::parse("again.kdl", &text).unwrap_or_else(|e| panic!("{}\n{text}", e.one_line()));
    assert_eq!(again, c);
    assert_eq!(cases::print(&again), text);
}

#[test]
fn errors_name_the_place_and_the_way_out() {
    let head = "schema 1\ncase \"c\"\n";
    let with = |s: &str| cases::parse("c.kdl", &format!("{head}{s}")).unwrap_err().one_line();
    let setup = "setup { bdi \"sda\"; sb \"fs\" bdi=\"sda\"; inode \"f1\" sb=\"fs\" }\n";
    for (text, says) in [
        (format!("{setup}task \"t\" {{ dirty \"f2\" }}"), "c.kdl:4:18: no inode called `f2`; did you mean `f1`?"),
        (format!("{setup}task \"t\" {{ umonut \"fs\" }}"), "c.kdl:4:12: no operation called `umonut`; did you mean `umount`?"),
        (format!("{setup}task \"t\" {{ dirty \"f1\" page=2 }}"), "c.kdl:4:23: `dirty` has no page=; did you mean `pages`?"),
        (format!("{setup}task \"t\" {{ dirty \"f1\" pages=0 }}"), "c.kdl:4:12: amounts are 1 to 1000"),
        (format!("{setup}task \"t\" {{ dirty }}"), "c.kdl:4:12: `dirty` needs the name of an inode"),
        (format!("{setup}task \"t\" {{ by-id \"sda\" }}"), "c.kdl:4:12: `by-id` needs id=, a cgroup, or the number of a css id"),
        (format!("{setup}task \"t\" {{ dirty \"f1\" \"f1\" }}"), "c.kdl:4:23: `dirty` takes fewer arguments"),
        ("setup { cgroup \"pod/old\" }".into(), "c.kdl:3:16: the parent cgroup `pod` is not made before; there is `/`"),
        ("setup { bdi \"sda\"; bdi \"sda\" }".into(), "c.kdl:3:24: a second device called `sda`"),
        ("setup { noise 3 }".into(), "c.kdl:3:9: `noise` cannot stand in setup"),
        ("expect \"mainline\" break \"LT-1\"".into(), "c.kdl:3:1: an expectation is `holds` or `violates`, not `break`; there is `holds`, `violates`"),
        ("machine preempt-rcu=1".into(), "c.kdl:3:9: expected #true or #false, found a whole number; booleans are written #true and #false"),
        ("tusk \"a\"".into(), "c.kdl:3:1: nothing is called `tusk` at the top of a case; did you mean `task`?"),
    ] {
        assert_eq!(with(&text), says);
    }
    let plain = |s: &str| cases::parse("c.kdl", s).unwrap_err().one_line();
    assert_eq!(plain("schema 9\ncase \"c\""), "c.kdl:1:1: schema 9 is newer than this program understands (1); use a newer wbcheck");
    assert_eq!(plain("case \"c\""), "c.kdl: the file does not say which schema it follows; the first line of a case is: schema 1");
    assert!(plain("schema 1\ncase \"c\" {").starts_with("c.kdl:"));
}

#[test]
fn oversized_and_deep_texts_are_refused() {
    let big = "/".repeat(wbmodel::text::MAX_TEXT + 1);
    assert!(cases::parse("big", &big).unwrap_err().message.contains("larger than"));
    let deep = "a {".repeat(wbmodel::text::MAX_BLOCKS + 1);
    assert!(cases::parse("deep", &deep).unwrap_err().message.contains("blocks"));
    let deepest = format!("{}{}", "a {".repeat(wbmodel::text::MAX_BLOCKS), "}".repeat(wbmodel::text::MAX_BLOCKS));
    assert!(cases::parse("deep", &deepest).is_err());
    let comments = format!("{}{}", "/*".repeat(wbmodel::text::MAX_BLOCKS), "*/".repeat(wbmodel::text::MAX_BLOCKS));
    assert!(cases::parse("deep", &comments).is_err());
}

#[test]
fn every_operation_is_described() {
    for o in OPS {
        assert!(!o.says.trim().is_empty() && o.places != 0, "{}", o.name);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_text_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = cases::parse("x", &String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn a_mutated_case_is_a_case_or_an_error(edits in proptest::collection::vec((0usize..2000, any::<u8>(), 0u8..3), 1..6)) {
        let mut bytes = FULL.as_bytes().to_vec();
        for (at, byte, how) in edits {
            let at = at % bytes.len();
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte & 0x7f),
                _ => { bytes.remove(at); }
            }
        }
        match cases::parse("x", &String::from_utf8_lossy(&bytes)) {
            Ok(c) => prop_assert_eq!(cases::parse("y", &cases::print(&c)).unwrap(), c),
            Err(e) => { e.one_line(); }
        }
    }
}

/// A small source of choices, so that one number names a random case.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % n
    }
    fn flag(&mut self) -> bool {
        self.below(2) == 1
    }
    fn text(&mut self) -> String {
        (0..self.below(12)).map(|_| ['a', ' ', '"', '\\', '\n', '\u{7}', 'é', '{', '}', '/', '\u{2066}', '#'][self.below(12)]).collect()
    }
}

/// A random well-formed case: everything is made in the setup, then used anywhere.
fn random_case(seed: u64) -> Case {
    use cases::{BdiRef, Expect, Finding, InodeRef, SbRef, Search, Span, Task, TaskRef, WbRef};
    let mut d = Dice(seed);
    let mut c = Case { name: "random".into(), about: d.text(), source: d.text(), ..Case::default() };
    let (bdis, cgroups, sbs, inodes, tasks) = (1 + d.below(3), 1 + d.below(4), 1 + d.below(2), 1 + d.below(4), 1 + d.below(4));
    for i in 0..bdis {
        c.names.bdis.push(format!("b{i}"));
        c.setup.push(Op::Bdi { bdi: BdiRef(i as u16) }.into());
    }
    for i in 1..=cgroups {
        let up = d.below(i);
        c.names.cgroups.push(if up == 0 { format!("c{i}") } else { format!("{}/c{i}", c.names.cgroups[up]) });
        c.setup.push(Op::Cgroup { cgroup: CgroupRef(i as u16), memory: d.flag(), io: d.flag() }.into());
    }
    for i in 0..sbs {
        c.names.sbs.push(format!("s{i}"));
        c.setup.push(Op::Sb { sb: SbRef(i as u16), bdi: BdiRef(d.below(bdis) as u16), own_bdi: d.flag(), cgroup_writeback: d.flag() }.into());
    }
    for i in 0..inodes {
        c.names.inodes.push(format!("i{i}"));
        let blkdev = d.flag();
        let bdi = (blkdev && d.flag()).then(|| BdiRef(d.below(bdis) as u16));
        let op =
            Op::Inode { inode: InodeRef(i as u16), sb: SbRef(d.below(sbs) as u16), dax: d.flag(), blkdev, bdi, disk: blkdev && d.flag(), async_io: d.flag() };
        c.setup.push(op.into());
    }
    c.names.tasks = (0..tasks).map(|i| format!("t{i}")).collect();
    for _ in 0..tasks {
        let mut body = Vec::new();
        for _ in 0..d.below(6) {
            let (bdi, cgroup) = (BdiRef(d.below(bdis) as u16), CgroupRef(d.below(cgroups + 1) as u16));
            let (inode, sb) = (InodeRef(d.below(inodes) as u16), SbRef(d.below(sbs) as u16));
            let id = if d.flag() { CssId::Of(cgroup) } else { CssId::Number(d.below(20) as u32) };
            let op = match d.below(14) {
                0 => Op::Dirty { inode, cgroup, pages: 1 + d.below(9) as u32 },
                1 => Op::ById { bdi, id, wait: d.flag() },
                2 => Op::Switch { inode, to: id },
                3 => Op::Noise { steps: 1 + d.below(9) as u32 },
                4 => Op::Join { task: TaskRef(d.below(tasks) as u16) },
                5 => Op::Writeback { inode, wait: d.flag() },
                6 => {
                    let wb = WbRef(c.names.wbs.len() as u16);
                    c.names.wbs.push(format!("w{}", wb.0));
                    match d.below(3) {
                        0 => Op::Hold { wb, inode },
                        1 => Op::GetCreate { bdi, cgroup, keep: Some(wb) },
                        _ => Op::GetCreateCurrent { bdi, cgroup, keep: Some(wb) },
                    }
                }
                7 => Op::Rmdir { cgroup },
                8 => Op::Umount { sb },
                9 => Op::Throttle { bdi, cgroup },
                10 => Op::Unplug { bdi },
                11 => Op::Close { inode },
                12 => Op::EnableIo { cgroup },
                _ => Op::Flush {},
            };
            body.push(op.into());
        }
        let irq = [Irq::None, Irq::Soft, Irq::Hard][d.below(3)];
        c.tasks.push(Task { cpu: d.flag().then(|| d.below(4) as u32), irq, body, span: Span::default() });
    }
    c.machine.preempt_rcu = d.flag();
    c.machine.timers = d.below(3) as u32;
    c.ask = (0..d.below(3)).map(|i| format!("site{i}")).collect();
    c.reach = (0..d.below(3)).map(|i| format!("fn{i}")).collect();
    if d.flag() {
        c.expect.push(Expect { rules: "*".into(), violates: (0..d.below(3)).map(|i| format!("LT-X-{i}")).collect(), span: Span::default() });
    }
    c.search =
        Search { engine: d.flag().then(|| d.text()), preemptions: d.flag().then_some(3), executions: None, seed: d.flag().then_some(1 << 50), depth: None };
    for _ in 0..d.below(3) {
        let mut f = Finding { rules: "mainline".into(), mutant: d.flag().then(|| "V2-M01".into()), violation: None, ..Finding::default() };
        for _ in 0..d.below(5) {
            f.decisions.push(if d.flag() {
                Decision::Run { task: d.text(), steps: d.flag().then_some(7), until: d.flag().then(|| d.text()) }
            } else {
                Decision::Choose { site: d.text(), value: d.below(5) as u32 }
            });
        }
        c.findings.push(f);
    }
    c
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_random_case_round_trips(seed in any::<u64>()) {
        let case = random_case(seed);
        let text = cases::print(&case);
        match cases::parse("random", &text) {
            Ok(again) => prop_assert_eq!(again, case),
            Err(e) => prop_assert!(false, "{}\n{}", e.one_line(), text),
        }
    }

    #[test]
    fn a_random_case_boots_or_says_why_not(seed in any::<u64>()) {
        use wbmodel::sync::{End, Machine, Stop, with};
        let world = wbmodel::world::World::new(&random_case(seed));
        let booted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            world.boot();
            Machine::finish_boot();
        }));
        if let Err(p) = booted {
            prop_assert!(p.is::<Stop>());
        }
        Machine::finish(End::Cut);
        with(|m| m.spawned.clear());
    }
}
