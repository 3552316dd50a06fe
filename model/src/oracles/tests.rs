//! Each oracle sees a violation made on purpose, and small true sequences raise no alarm.

use super::*;
use crate::linux::boot_globals;
use crate::linux::fs::fs_writeback::{cgroup_writeback_by_id, define_wb_completion, inode_switch_wbs, sync::generic_file_fsync, wb_wait_for_completion};
use crate::linux::fs::inode::{drop_nlink, iput, new_inode};
use crate::linux::fs::super_::{alloc_super, kill_sb, sync_one_super};
use crate::linux::include::backing_dev::wb_get_create_current;
use crate::linux::include::backing_dev_defs::WB_HAS_DIRTY_IO;
use crate::linux::include::cgroup_defs::{Cgroup, Css, Subsys};
use crate::linux::include::fs::{Inode, SuperBlock};
use crate::linux::include::writeback::WbReason;
use crate::linux::kernel::cgroup::cgroup::{self, cgroup_enable_controller, cgroup_mkdir, cgroup_rmdir};
use crate::linux::mm::backing_dev::{self, bdi_alloc, bdi_register, bdi_unregister, wb_get_create, wb_get_lookup};
use crate::linux::mm::page_writeback::{balance_dirty_pages_ratelimited, folio_mark_dirty};
use crate::mutants::{Mutant, set_mutant};
use crate::rules::{Rules, set_rules};
use crate::sync::{Choice, Chooser, Config, Fut, Gfp, Level, Stop, cond_resched, set_chooser, spawn};
use crate::sync::{emit, kfree, queue_delayed_work};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

/// A booted machine with one bdi.
#[derive(Clone, Copy)]
pub(super) struct World {
    pub root: Cgroup,
    pub bdi: BackingDevInfo,
    /// With a file system: it, one inode with a dirty page and a reference, its owner, and another cgroup.
    pub sb: SuperBlock,
    pub inode: Inode,
    pub cg: Cgroup,
    pub other: Cgroup,
}

pub(super) type Task = fn(World) -> Fut;

#[derive(Clone)]
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (((self.0 >> 32) * u64::from(n)) >> 32) as u32
    }
}

struct Coin(Rng);

impl Chooser for Coin {
    fn choose(&mut self, _: &Machine, c: Choice) -> u32 {
        if self.0.below(4) == 0 { self.0.below(c.arity()) } else { 0 }
    }
}

/// One execution under a random schedule; yields its end.
pub(super) fn execute(rules: Rules, config: &Config, fs: bool, watched: bool, seed: u64, tasks: &[Task]) -> (End, u64) {
    set_rules(rules);
    let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    set_chooser(Some(Rc::new(RefCell::new(Coin(rng.clone())))));
    let mut bodies: Vec<Option<Fut>> = Vec::new();
    let mut steps = 0u64;
    let end = catch_unwind(AssertUnwindSafe(|| {
        with(|m| m.reset(config.clone()));
        boot_globals();
        if watched {
            install();
        }
        cgroup::boot();
        backing_dev::boot();
        Machine::finish_boot();
        let bdi = bdi_alloc();
        assert_eq!(Machine::settle(Box::pin(async move { assert_eq!(bdi_register(bdi).await, 0) })), End::Complete);
        let root = globals().root_cgroup().get();
        let mut w = World { root, bdi, sb: SuperBlock::NULL, inode: Inode::NULL, cg: Cgroup::NULL, other: Cgroup::NULL };
        if fs {
            w.sb = alloc_super(bdi, true, true);
            let made = Rc::new(RefCell::new((Cgroup::NULL, Cgroup::NULL, Inode::NULL)));
            let out = made.clone();
            let sb = w.sb;
            let body = async move {
                let (cg, other, inode) = (cgroup_mkdir(root, 1, true, true).await, cgroup_mkdir(root, 2, true, true).await, new_inode(sb).await);
                folio_mark_dirty(inode, cg.subsys_memory().get(), 1).await;
                *out.borrow_mut() = (cg, other, inode);
            };
            assert_eq!(Machine::settle(Box::pin(body)), End::Complete);
            (w.cg, w.other, w.inode) = made.take();
        }
        for (i, t) in tasks.iter().enumerate() {
            spawn(i as u16, Level::Task, None, t(w));
        }
        let mut last = 0;
        loop {
            for t in with(|m| std::mem::take(&mut m.spawned)) {
                if bodies.len() <= t.slot {
                    bodies.resize_with(t.slot + 1, || None);
                }
                bodies[t.slot] = Some(t.body);
            }
            let mut mask = with(|m| m.enabled_mask());
            if mask == 0 {
                break if with(|m| m.tasks.iter().any(|t| t.live && !t.daemon)) { End::Stuck } else { End::Complete };
            }
            // Runs of one task are longer than chance, so that calls get somewhere.
            if mask & 1 << last == 0 || rng.below(3) == 0 {
                for _ in 0..rng.below(mask.count_ones()) {
                    mask &= mask - 1;
                }
                last = mask.trailing_zeros() as usize;
            }
            let mut body = bodies[last].take().expect("a live slot has a body");
            if !Machine::advance(last, &mut body) {
                bodies[last] = Some(body);
            }
            steps += 1;
            if steps >= u64::from(config.max_steps) {
                break End::Budget;
            }
        }
    }))
    .unwrap_or_else(|p| if p.is::<Stop>() { End::Fatal } else { resume_unwind(p) });
    Machine::finish(end);
    drop(bodies);
    set_chooser(None);
    (end, steps)
}

/// Rules violated in the random executions with these seeds, with the number of executions and one text.
pub(super) fn sample(
    rules: Rules,
    mutant: Option<Mutant>,
    config: &Config,
    fs: bool,
    seeds: std::ops::Range<u64>,
    tasks: &[Task],
) -> BTreeMap<&'static str, (u64, String)> {
    set_mutant(mutant);
    let mut seen = BTreeMap::new();
    for seed in seeds {
        let (end, _) = execute(rules, config, fs, true, seed, tasks);
        for v in with(|m| std::mem::take(&mut m.violations)) {
            seen.entry(v.rule).or_insert((0, format!("seed {seed} {end:?}: {}", v.detail))).0 += 1;
        }
    }
    set_mutant(None);
    seen
}

fn faults(ask: &[&'static str]) -> Config {
    Config { ask: ask.to_vec(), max_faults: 2, max_steps: 4000, ..Config::default() }
}

async fn child(w: World, index: u32, io: bool) -> Cgroup {
    cgroup_mkdir(w.root, index, true, io).await
}

async fn first(w: World) -> Cgroup {
    // The cgroup that the other task makes, once it is there.
    for _ in 0..40 {
        let css = Css(globals().css_idr_memory().slot(2).get());
        if !css.is_null() && !css.cgroup().get().is_null() {
            return css.cgroup().get();
        }
        cond_resched().await;
    }
    w.root
}

fn owner(w: World) -> Fut {
    Box::pin(async move {
        let cg = child(w, 1, false).await;
        let wb = wb_get_create_current(w.bdi, cg, Gfp::Kernel).await;
        cgroup_enable_controller(cg, Subsys::Io).await;
        let new = wb_get_create_current(w.bdi, cg, Gfp::Kernel).await;
        for x in [wb, new] {
            if !x.is_null() {
                x.put().await;
            }
        }
        cgroup_rmdir(cg).await;
    })
}

fn creator(w: World) -> Fut {
    Box::pin(async move {
        let cg = first(w).await;
        let css = cgroup::task_get_css(cg, Subsys::Memory).await;
        for _ in 0..2 {
            let wb = wb_get_create(w.bdi, css, Gfp::Kernel).await;
            if !wb.is_null() {
                wb.put().await;
            }
            let wb = wb_get_lookup(w.bdi, css).await;
            if !wb.is_null() {
                wb.put().await;
            }
        }
        cgroup::css_put(css).await;
    })
}

fn unregister(w: World) -> Fut {
    Box::pin(async move {
        bdi_unregister(w.bdi).await;
    })
}

#[test]
fn creation_removal_and_unregister_raise_no_alarm() {
    for (name, rules) in Rules::BUILT_IN {
        for set in [&[owner as Task, creator] as &[Task], &[owner, creator, creator], &[owner, creator, unregister]] {
            let seen = sample(*rules, None, &faults(&["cgwb_create", "radix_tree_insert"]), false, 1..300, set);
            assert!(seen.is_empty(), "{name}: {seen:#?}");
        }
    }
}

/// (mutant, rules that it breaks in these sequences), rule set and tasks by row of the mutant table.
const BREAKS: &[(Mutant, &[&str])] = &[
    (Mutant::V2M01, &["LT-LIST-4d"]),
    (Mutant::V2M02, &["LT-LIST-4b", "LT-LIST-4d", "LT-LIST-5"]),
    (Mutant::V2M03, &["LT-PROG-1"]),
    (Mutant::V2M04, &["LT-LOOK-5", "LT-LOOK-7"]),
    (Mutant::V2M05, &["LT-LIST-4b", "LT-LIST-5"]),
    (Mutant::V2M06, &["LT-PROG-1"]),
    (Mutant::V2M07, &["LT-REF-3"]),
    (Mutant::V2M08, &["LT-LOOK-2", "LT-LOOK-6"]),
    (Mutant::V2M11, &["LT-LOOK-2", "LT-LOOK-5"]),
    (Mutant::V2M14, &["LT-LIST-4c"]),
    (Mutant::V2M15, &["LT-LIST-4c"]),
    (Mutant::V2M16, &["LT-LOCK-3"]),
    (Mutant::V2M20, &["LT-LIST-11"]),
    (Mutant::V2M21, &["LT-LIST-4d"]),
    (Mutant::V2M27, &["LT-REF-5", "LT-LIST-4c"]),
    (Mutant::V2M29, &["LT-LIST-4b"]),
    (Mutant::Ord5, &["LT-LIST-11"]),
    (Mutant::OrdNoSwitchGp, &["LT-REF-1"]),
    (Mutant::OrdBiasFirst, &["LT-REF-1"]),
    (Mutant::Ord21, &["LT-PROG-1"]),
    (Mutant::H034, &["LT-PROG-6"]),
];

#[test]
fn mutants_of_creation_and_kill_are_caught() {
    for (mutant, want) in BREAKS {
        let rules = crate::mutants::TABLE.iter().find(|r| r.mutant == *mutant).and_then(|r| Rules::built_in(r.base)).expect("a row with a built-in rule set");
        let mut seen = BTreeMap::new();
        for chunk in 0..15 {
            for set in [&[owner as Task, creator] as &[Task], &[owner, creator, creator], &[owner, creator, unregister]] {
                let seeds = 20 * chunk + 1..20 * chunk + 21;
                seen.append(&mut sample(rules, Some(*mutant), &faults(&["cgwb_create", "radix_tree_insert"]), false, seeds, set));
            }
            if want.iter().all(|r| seen.contains_key(r)) {
                break;
            }
        }
        for rule in *want {
            assert!(seen.contains_key(rule), "{mutant:?} does not break {rule}: {seen:#?}");
        }
    }
}

#[test]
fn legal_late_success_of_tryget_raises_no_alarm() {
    let seen = sample(Rules::tree_until_release(), Some(Mutant::V2M25), &faults(&["cgwb_create"]), false, 1..300, &[owner, creator, creator]);
    assert!(seen.is_empty(), "{seen:#?}");
}

// ---- with a file system ------------------------------------------------------------------------------------------------

fn dirtier(w: World) -> Fut {
    Box::pin(async move {
        folio_mark_dirty(w.inode, w.other.subsys_memory().get(), 1).await;
        balance_dirty_pages_ratelimited(w.bdi, w.other).await;
        folio_mark_dirty(w.inode, w.other.subsys_memory().get(), 1).await;
    })
}

fn syncer(w: World) -> Fut {
    Box::pin(async move {
        sync_one_super(w.sb).await;
    })
}

fn fsync(w: World) -> Fut {
    Box::pin(async move {
        generic_file_fsync(w.inode, w.other).await;
    })
}

fn switcher(w: World) -> Fut {
    Box::pin(async move {
        inode_switch_wbs(w.inode, w.other.subsys_memory().get().id().get()).await;
        inode_switch_wbs(w.inode, 1).await;
    })
}

fn remover(w: World) -> Fut {
    Box::pin(async move {
        cgroup_rmdir(w.cg).await;
    })
}

fn by_id(w: World) -> Fut {
    Box::pin(async move {
        let done = define_wb_completion(w.bdi);
        cgroup_writeback_by_id(1, 2, WbReason::ForeignFlush, done).await;
        wb_wait_for_completion(done).await;
        kfree(done.ptr());
    })
}

fn unlinker(w: World) -> Fut {
    Box::pin(async move {
        inode_switch_wbs(w.inode, 1).await;
        drop_nlink(w.inode).await;
        iput(w.inode).await;
    })
}

fn umounter(w: World) -> Fut {
    Box::pin(async move {
        inode_switch_wbs(w.inode, w.other.subsys_memory().get().id().get()).await;
        iput(w.inode).await;
        kill_sb(w.sb).await;
    })
}

fn clean_remover(w: World) -> Fut {
    Box::pin(async move {
        sync_one_super(w.sb).await;
        cgroup_rmdir(w.cg).await;
    })
}

fn dax_switcher(w: World) -> Fut {
    w.inode.i_dax().set(true);
    switcher(w)
}

fn fs_config() -> Config {
    Config { timers: 1, ..faults(&["cgwb_create", "bdi_split_work_to_wbs", "inode_switch_wbs", "isw_need_resched"]) }
}

/// Known violations: mainline's lookup (the bug of the thread), and the lost wake-up of a re-listed inode.
const KNOWN: &[&str] = &["LT-LOOK-3", "LT-LOOK-4", "LT-PROG-7", "LT-PROG-13"];

const FS_SETS: &[&[Task]] = &[
    &[dirtier, syncer],
    &[dirtier, switcher, remover],
    &[fsync, switcher, remover, syncer],
    &[remover, by_id, dirtier],
    &[unlinker, remover, syncer],
    &[umounter, remover],
    &[dirtier, fsync, switcher],
    &[clean_remover, switcher],
    &[dax_switcher, syncer],
];

#[test]
fn writeback_switching_and_umount_break_only_what_is_known() {
    for (name, rules) in Rules::BUILT_IN {
        for set in FS_SETS {
            let mut seen = sample(*rules, None, &fs_config(), true, 1..150, set);
            seen.retain(|rule, _| !KNOWN.contains(rule) || (*name != "mainline" && *rule != "LT-PROG-13"));
            assert!(seen.is_empty(), "{name}: {seen:#?}");
        }
    }
}

#[test]
fn mainline_does_not_find_a_dying_wb_by_id() {
    let seen = sample(Rules::mainline(), None, &fs_config(), true, 1..30, &[remover, by_id, dirtier]);
    for rule in ["LT-LOOK-3", "LT-LOOK-4", "LT-PROG-7"] {
        assert!(seen.contains_key(rule), "{rule} {seen:#?}");
    }
}

/// (mutant, rule, tasks): each in at most 400 random schedules.
const FS_BREAKS: &[(Mutant, &str, &[Task])] = &[
    (Mutant::V2M10, "LT-LOOK-3", &[remover, by_id, dirtier]),
    (Mutant::V2M24, "LT-LOOK-3", &[remover, by_id, dirtier]),
    (Mutant::V2M19, "LT-LIST-11", &[umounter, remover]),
    (Mutant::Ord1b, "LT-PROG-5", &[umounter, remover]),
    (Mutant::Ord3, "LT-ISW-2", &[dirtier, switcher]),
    (Mutant::Ord11, "LT-REF-8", &[umounter, remover]),
    (Mutant::Ord15a, "LT-LIST-7", &[dirtier, syncer]),
    (Mutant::Ord16, "LT-ACC-1", &[dirtier, switcher, remover]),
    (Mutant::H003, "LT-PROG-5", &[umounter, remover]),
    (Mutant::H008, "LT-ISW-5", &[fsync, switcher, syncer]),
    (Mutant::H020b, "LT-LIST-7", &[dirtier, fsync, switcher]),
    (Mutant::H023, "LT-PROG-4", &[clean_remover]),
    (Mutant::H026, "LT-ISW-6", &[dax_switcher, syncer]),
    (Mutant::H027, "LT-PROG-11", &[fsync, switcher, remover, syncer]),
];

#[test]
fn mutants_of_writeback_and_switching_are_caught() {
    let mut missed = Vec::new();
    for (mutant, rule, set) in FS_BREAKS {
        let rules = crate::mutants::TABLE.iter().find(|r| r.mutant == *mutant).and_then(|r| Rules::built_in(r.base)).expect("a row with a built-in rule set");
        let mut seen = BTreeMap::new();
        for chunk in 0..20 {
            seen.append(&mut sample(rules, Some(*mutant), &fs_config(), true, 20 * chunk + 1..20 * chunk + 21, set));
            if seen.contains_key(rule) {
                break;
            }
        }
        if !seen.contains_key(rule) {
            missed.push((mutant, rule, seen));
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

// ---- violations by hand ------------------------------------------------------------------------------------------------

/// What a task does wrong, and the rule that it breaks.
const BY_HAND: &[(&str, Task)] = &[
    ("LT-CSS-1", |w| Box::pin(async move { emit(Tp::Css, w.cg.subsys_memory().get().ptr(), 5) })),
    ("LT-REF-9", |_| Box::pin(async { globals().isw_nr_in_flight().set(1) })),
    ("LT-REF-8", |w| Box::pin(async move { w.sb.s_isw_nr_in_flight().set(1) })),
    ("LT-ACC-1", |w| Box::pin(async move { w.bdi.wb().stat_writeback().set(1) })),
    ("LT-ACC-2", |w| Box::pin(async move { w.bdi.tot_write_bandwidth().set(7) })),
    ("LT-LIST-8a", |w| {
        Box::pin(async move {
            let _lock = w.inode.i_wb().get().list_lock().lock().await;
            w.inode.i_wb().get().state().clear(1 << WB_HAS_DIRTY_IO);
        })
    }),
    ("LT-LIST-8b", |w| {
        Box::pin(async move {
            let _lock = w.bdi.wb().list_lock().lock().await;
            w.bdi.wb().state().or(1 << WB_HAS_DIRTY_IO);
        })
    }),
    ("LT-LIST-1", |w| {
        Box::pin(async move {
            let _lock = globals().cgwb_lock().lock_irq().await;
            w.inode.i_wb().get().bdi_node().del_rcu();
        })
    }),
    ("LT-LIST-2", |w| {
        Box::pin(async move {
            let _lock = globals().cgwb_lock().lock_irq().await;
            w.inode.i_wb().get().memcg_node().del();
        })
    }),
    ("LT-REF-1", |w| Box::pin(async move { w.inode.i_wb().get().get().await })),
    ("LT-REF-7", |w| {
        Box::pin(async move {
            w.bdi.wb().refcnt().tryget().await;
        })
    }),
    ("LT-REF-10", |w| {
        Box::pin(async move {
            crate::kfn!(finish_writeback_work);
            emit(Tp::Call, w.bdi.wb().ptr(), 1);
        })
    }),
    ("LT-ISW-1", |w| Box::pin(async move { w.inode.i_state().or(crate::linux::include::fs::I_WB_SWITCH) })),
    ("LT-ISW-2", |w| Box::pin(async move { w.inode.i_wb().set(w.bdi.wb()) })),
    ("LT-ISW-4", |w| {
        Box::pin(async move {
            w.bdi.wb().switch_wbs_ctxs().del_all().await;
        })
    }),
    ("LT-MEM-7", |w| Box::pin(async move { kfree(w.sb.ptr()) })),
    ("LT-PROG-10", |w| Box::pin(async move { w.bdi.wb().state().or(1 << WB_HAS_DIRTY_IO) })),
    ("LT-PROG-12", |w| {
        Box::pin(async move {
            w.bdi.wb().state().clear(1);
            queue_delayed_work(w.bdi.wb().bw_dwork()).await;
        })
    }),
];

#[test]
fn each_violation_by_hand_is_seen() {
    for (rule, task) in BY_HAND {
        let seen = sample(Rules::mainline(), None, &Config::default(), true, 1..2, &[*task]);
        assert!(seen.contains_key(rule), "{rule} is not seen: {seen:#?}");
    }
    let seen = sample(Rules::mainline(), None, &Config::default(), true, 1..2, &[|_| Box::pin(async {})]);
    assert!(seen.is_empty(), "{seen:#?}");
}
