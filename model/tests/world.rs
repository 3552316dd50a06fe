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

const FILES: &str = "setup { bdi \"sda\"; cgroup \"old\"; cgroup \"new\"; sb \"fs\" bdi=\"sda\"; inode \"f1\" sb=\"fs\"; inode \"f2\" sb=\"fs\" async-io=#true; dirty \"f1\" as=\"old\" pages=2 }\n";
const DOWN: &str = "teardown { close \"f1\"; close \"f2\"; umount \"fs\"; rmdir \"old\"; rmdir \"new\"; unplug \"sda\"; bdi-put \"sda\" }\n";

/// Nothing that the case made is left.
fn nothing_left(text: &str) {
    let (end, violations, _) = run(text);
    assert_eq!((end, violations), (End::Complete, vec![]));
    let alive: Vec<String> = with(|m| m.mem.allocs().iter().filter(|a| a.freed == u32::MAX && !a.immortal).map(|a| m.mem.name(a.base)).collect());
    assert_eq!(alive, [""; 0]);
}

#[test]
fn files_are_dirtied_and_written() {
    let r = results(&format!(
        "{FILES}task \"t\" {{ dirty \"f2\" as=\"new\"; dirty-time \"f1\" as=\"old\"; dirty-inode \"f2\"; writeback \"f1\" wait=#true; fsync \"f2\" as=\"new\"; flush; flush-time; expire \"f1\"; periodic \"sda\"; sync \"fs\"; attach \"f1\"; tick 5 }}"
    ));
    assert_eq!(r, [0; 12]);
    nothing_left(&format!("{FILES}task \"t\" {{ dirty \"f2\" as=\"new\"; sync \"fs\" }}\n{DOWN}"));
}

#[test]
fn foreign_flushes_are_sent() {
    let r = results(&format!(
        "{FILES}task \"t\" {{ dirty \"f1\" as=\"new\"; throttle \"sda\" as=\"new\"; flush-foreign \"sda\" as=\"new\"; by-id \"sda\" id=\"old\"; by-id \"sda\" id=\"new\" wait=#false; by-id \"sda\" id=9 }}"
    ));
    assert_eq!(r, [0, 0, 0, 0, 0, -2]);
}

#[test]
fn an_inode_is_switched_to_another_owner() {
    let text = format!("{FILES}task \"t\" {{ hold \"w\" inode=\"f1\"; switch \"f1\" to=\"new\"; release \"w\" }}");
    assert_eq!(results(&text), [0; 3]);
    let f1 = with(|m| m.mem.allocs().iter().find(|a| a.ty.label == "inode" && a.nr == 1).unwrap().base);
    let wb = wbmodel::linux::include::fs::Inode(f1).i_wb();
    assert_eq!(with(|m| m.mem.name(wbmodel::sync::Ptr::from_word(m.mem.peek(wb.ptr())))), "wb#2");
}

#[test]
fn a_removed_owner_is_left_behind_and_goes_with_the_last_file() {
    nothing_left(&format!("{FILES}task \"t\" {{ rmdir \"old\"; dirty \"f1\" as=\"new\"; throttle \"sda\" as=\"new\" }}\n{DOWN}"));
}

#[test]
fn mounts_are_busy_while_files_are_open() {
    let r = results(&format!(
        "{FILES}task \"t\" {{ umount \"fs\"; close \"f1\"; close \"f1\"; dirty \"f1\"; open \"f1\"; close \"f1\"; unlink \"f2\"; close \"f2\"; open \"f2\"; umount \"fs\"; umount \"fs\"; sync \"fs\"; inode \"f3\" sb=\"fs\" }}"
    ));
    // f1 stays open until the task's last use of it, f2 likewise.
    assert_eq!(r[0], -16);
    assert!(r.iter().all(|e| *e <= 0));
}

#[test]
fn file_systems_with_a_device_of_their_own_take_it_along() {
    nothing_left(
        "setup { bdi \"b\"; sb \"fs\" bdi=\"b\" own-bdi=#true; cgroup \"a\"; inode \"f\" sb=\"fs\"; dirty \"f\" as=\"a\"; close \"f\" }\ntask \"t\" { umount \"fs\" }\ntask \"u\" { by-id \"b\" id=\"a\"; sync \"fs\" }\nteardown { rmdir \"a\"; umount \"fs\"; unplug \"b\"; bdi-put \"b\" }",
    );
    nothing_left(
        "setup { bdi \"b\"; sb \"fs\" bdi=\"b\" own-bdi=#true; cgroup \"a\"; inode \"f\" sb=\"fs\"; dirty \"f\" as=\"a\"; close \"f\" }\ntask \"t\" { retire \"fs\" }\nteardown { rmdir \"a\"; umount \"fs\" }",
    );
}

#[test]
fn disks_go_with_their_inodes() {
    nothing_left(
        "setup { bdi \"b\"; cgroup \"a\"; sb \"bdev\" bdi=\"b\"; inode \"disk\" sb=\"bdev\" blkdev=#true disk=#true; dirty \"disk\" as=\"a\" }\ntask \"t\" { close \"disk\"; unplug \"b\"; disk-release \"disk\" }\nteardown { rmdir \"a\"; umount \"bdev\"; bdi-put \"b\" }",
    );
}

#[test]
fn statistics_are_added_flushed_and_read() {
    let r = results(
        "machine cpus=2 stats=\"always\"\nsetup { cgroup \"a\"; cgroup \"a/b\" }\ntask \"t\" cpu=0 { stat-add \"a/b\" by=3 times=2; stat-flush \"a\"; stat-read \"a\"; stat-flush \"a\" entry=\"forced\"; stat-read \"a\"; stat-flush \"a\" entry=\"ratelimited\"; cpu-offline 0; cpu-offline 1; cpu-offline 1; cpu-online 1; cpu-offline 2 }",
    );
    assert_eq!(r, [0, 0, 0, 1, 6, 0, -16, 0, -16, 0, -19]);
}

#[test]
fn a_machine_without_statistics_says_so() {
    assert_eq!(results("task \"t\" { stat-add \"/\"; stat-flush \"/\"; stat-read \"/\"; cpu-offline 1 }"), [-19; 4]);
}

#[test]
fn every_operation_can_be_performed() {
    // Anything but an operation that is performed nowhere.
    let ops = [
        "cgroup \"c9\"",
        "sb \"s9\" bdi=\"sda\"",
        "inode \"i9\" sb=\"fs\"",
        "bdi \"b9\"",
        "hold \"w9\" inode=\"f1\"",
        "release \"w9\"",
        "get-create \"sda\" of=\"new\"",
        "join \"u\"",
        "noise 1",
        "tick 1",
        "cpu-offline 1",
        "cpu-online 1",
    ];
    let mut body: Vec<String> = ops.iter().map(|s| s.to_string()).collect();
    for o in cases::OPS.iter().filter(|o| !ops.iter().any(|s| s.split(' ').next() == Some(o.name))) {
        let mut text = o.name.to_string();
        for (name, what, optional) in o.params {
            if *optional {
                continue;
            }
            let v =
                ["device", "cgroup", "file system", "inode"].iter().zip(["sda", "new", "fs", "f1"]).find(|(k, _)| what.contains(*k)).map(|(_, v)| v).unwrap();
            text += &if name.is_empty() { format!(" \"{v}\"") } else { format!(" {name}=\"{v}\"") };
        }
        body.push(text);
    }
    let text = format!("{FILES}task \"t\" {{ {} }}\ntask \"u\" {{ noise 1 }}", body.join("; "));
    let (end, violations, _) = run(&text);
    assert_eq!((end, violations), (End::Complete, vec![]), "{text}");
}
