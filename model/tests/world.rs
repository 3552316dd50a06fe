//! Worlds: every operation of a case does what it says, and senseless cases are told so.

use wbmodel::cases;
use wbmodel::linux::globals;
use wbmodel::sync::{End, Fut, Machine, with};
use wbmodel::world::World;

/// Runs a case by one fixed schedule: always the live task with the lowest slot that can go on, starting after the last one.
fn run(text: &str) -> (End, Vec<String>, World) {
    let case = cases::parse("test.kdl", &format!("schema 1\ncase \"test\"\n{text}")).unwrap_or_else(|e| panic!("{}", e.one_line()));
    let world = World::new(&case);
    let mut bodies: Vec<Option<Fut>> = Vec::new();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        world.boot();
        Machine::finish_boot();
        loop {
            for t in with(|m| std::mem::take(&mut m.spawned)) {
                bodies.resize_with(bodies.len().max(t.slot + 1), || None);
                bodies[t.slot] = Some(t.body);
            }
            let mask = with(|m| m.enabled_mask());
            if mask == 0 {
                let stuck = with(|m| m.tasks.iter().any(|t| t.live && !t.daemon));
                return if stuck { End::Stuck } else { End::Complete };
            }
            let s = mask.trailing_zeros() as usize;
            let mut body = bodies[s].take().unwrap();
            if !Machine::advance(s, &mut body) {
                bodies[s] = Some(body);
            }
        }
    }));
    let end = match result {
        Ok(end) => end,
        Err(p) if p.is::<wbmodel::sync::Stop>() => End::Fatal,
        Err(p) => std::panic::resume_unwind(p),
    };
    Machine::finish(end);
    drop(bodies);
    (end, with(|m| m.violations.iter().map(|v| format!("{}: {}", v.rule, v.detail)).collect()), world)
}

/// Runs a case that must end without a violation; yields the results of its operations, task by task in order.
fn results(text: &str) -> Vec<i64> {
    use wbmodel::sync::{Kind, Tp};
    let (end, violations, _) = run(text);
    assert_eq!(violations, [""; 0]);
    assert_eq!(end, End::Complete);
    with(|m| m.log.iter().filter(|e| e.kind == Kind::Trace && e.tp == Tp::OpEnd).map(|e| e.val as i64).collect())
}

const CGROUPS: &str = "setup { bdi \"sda\"; cgroup \"pod\" io=#true; cgroup \"pod/old\"; cgroup \"pod/new\" }\n";

#[test]
fn cgroups_come_and_go() {
    let r = results(&format!(
        "{CGROUPS}task \"t\" {{ rmdir \"pod/old\"; rmdir \"pod/old\"; cgroup \"pod/x\"; enable-io \"pod/x\"; disable-io \"pod/x\"; rmdir \"pod\" }}"
    ));
    assert_eq!(r, [0, -19, 0, 0, 0, -16]);
}

#[test]
fn wbs_are_made_kept_and_released() {
    let r = results(&format!(
        "{CGROUPS}task \"t\" {{ get-create \"sda\" of=\"pod/old\" keep=\"w\"; get-create-current \"sda\" as=\"pod/old\"; stats \"sda\"; release \"w\"; release \"w\"; unplug \"sda\"; unplug \"sda\" }}"
    ));
    assert_eq!(r, [0, 0, 2, 0, -2, 0, -19]);
}

#[test]
fn a_removed_cgroup_takes_its_wb_along() {
    let text = format!(
        "{CGROUPS}task \"t\" {{ get-create \"sda\" of=\"pod/old\"; rmdir \"pod/old\" }}\nteardown {{ rmdir \"pod/new\"; rmdir \"pod\"; unplug \"sda\"; bdi-put \"sda\" }}"
    );
    let (end, violations, _) = run(&text);
    assert_eq!((end, violations), (End::Complete, vec![]));
    let alive: Vec<String> = with(|m| m.mem.allocs().iter().filter(|a| a.freed == u32::MAX && !a.immortal).map(|a| m.mem.name(a.base)).collect());
    assert_eq!(alive, [""; 0]);
}

#[test]
fn a_process_keeps_its_cgroup_until_it_leaves() {
    let r = results(&format!(
        "{CGROUPS}task \"admin\" {{ rmdir \"pod/old\" }}\ntask \"user\" {{ get-create-current \"sda\" as=\"pod/old\"; noise 2; get-create-current \"sda\" as=\"pod/old\" }}"
    ));
    assert_eq!(r, [0; 4]);
}

#[test]
fn senseless_operations_fail() {
    let r = results(
        "setup { bdi \"sda\"; cgroup \"a\" }\ntask \"t\" { cgroup \"a/b\"; bdi-put \"sda\"; stats \"sda\"; bdi-put \"sda\"; get-create-current \"sda\" as=\"a/b\"; leave \"a\" }\ntask \"u\" { rmdir \"late\" }\ntask \"v\" { join \"u\"; cgroup \"late\" }",
    );
    assert_eq!(r, [0, 0, 1, -16, 0, 0, -2, 0, 0]);
}

#[test]
fn a_setup_that_fails_is_reported() {
    let (_, violations, _) = run("setup { cgroup \"a\"; rmdir \"a\"; rmdir \"a\" }");
    assert_eq!(violations, ["CASE-SETUP: `rmdir \"a\"` fails: -19"]);
}

#[test]
fn objects_are_known_by_the_names_of_the_case() {
    let (_, _, world) = run(CGROUPS);
    with(|m| {
        let find = |label: &str, nr: u32| m.mem.allocs().iter().find(|a| a.ty.label == label && a.nr == nr).unwrap().base;
        assert_eq!(world.name_of(m, find("cgroup", 3)), Some("pod/old"));
        assert_eq!(world.name_of(m, find("bdi", 1)), Some("sda"));
        assert_eq!(world.name_of(m, globals().ptr()), None);
    });
}

#[test]
fn boots_of_one_case_are_equal() {
    let (_, _, world) = run(CGROUPS);
    let hash = |_| {
        world.boot();
        with(|m| m.state_hash())
    };
    let all: Vec<u64> = (0..3).map(hash).collect();
    assert_eq!(all[0], all[1]);
    assert_eq!(all[1], all[2]);
    Machine::finish_boot();
    Machine::finish(End::Cut);
    with(|m| m.spawned.clear());
}
