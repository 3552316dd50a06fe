//! Each oracle sees a violation made on purpose, and small true sequences raise no alarm.

use super::*;
use crate::linux::boot_globals;
use crate::linux::include::backing_dev::wb_get_create_current;
use crate::linux::include::cgroup_defs::{Cgroup, Css, Subsys};
use crate::linux::kernel::cgroup::cgroup::{self, cgroup_enable_controller, cgroup_mkdir, cgroup_rmdir};
use crate::linux::mm::backing_dev::{self, bdi_alloc, bdi_put, bdi_register, bdi_unregister, wb_get_create, wb_get_lookup};
use crate::mutants::{Mutant, set_mutant};
use crate::rules::{Rules, set_rules};
use crate::sync::{Choice, Chooser, Config, Fut, Gfp, Level, Stop, cond_resched, set_chooser, spawn};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

/// A booted machine with one bdi.
#[derive(Clone, Copy)]
pub(super) struct World {
    pub root: Cgroup,
    pub bdi: BackingDevInfo,
}

pub(super) type Task = fn(World) -> Fut;

#[derive(Clone)]
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 32) * u64::from(n) >> 32) as u32
    }
}

struct Coin(Rng);

impl Chooser for Coin {
    fn choose(&mut self, _: &Machine, c: Choice) -> u32 {
        if self.0.below(4) == 0 { self.0.below(c.arity()) } else { 0 }
    }
}

/// One execution under a random schedule; yields its end.
pub(super) fn execute(rules: Rules, config: &Config, watched: bool, seed: u64, tasks: &[Task]) -> (End, u64) {
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
        let w = World { root: globals().root_cgroup().get(), bdi };
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
    seeds: std::ops::Range<u64>,
    tasks: &[Task],
) -> BTreeMap<&'static str, (u64, String)> {
    set_mutant(mutant);
    let mut seen = BTreeMap::new();
    for seed in seeds {
        let (end, _) = execute(rules, config, true, seed, tasks);
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
            let seen = sample(*rules, None, &faults(&["cgwb_create", "radix_tree_insert"]), 1..300, set);
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
                seen.append(&mut sample(rules, Some(*mutant), &faults(&["cgwb_create", "radix_tree_insert"]), seeds, set));
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
    let seen = sample(Rules::tree_until_release(), Some(Mutant::V2M25), &faults(&["cgwb_create"]), 1..300, &[owner, creator, creator]);
    assert!(seen.is_empty(), "{seen:#?}");
}
