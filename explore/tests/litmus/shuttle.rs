//! Shuttle's schedulers on the same programs: a second opinion on outcome sets and counts.

use crate::support::{Program, Regs, Shared, plain, sc, weak};
use crate::task;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use wbexplore::shuttle::{Options, Scheduler, Stats, run};
use wbmodel::sync::{Fut, Machine, Pred, call_rcu, kfree, rcu_read_lock, synchronize_rcu, wait_event, wake_up_all};

fn options(scheduler: Scheduler, iterations: usize) -> Options {
    Options { scheduler, iterations, seed: 7, first_only: false }
}

/// Outcomes under a scheduler of shuttle.
fn outcomes(program: Program, options: Options, tasks: impl Fn(Shared, Regs) -> Vec<Fut> + Send + Sync + 'static) -> (BTreeMap<String, u64>, Stats) {
    let all = Arc::new(Mutex::new(BTreeMap::new()));
    let seen = all.clone();
    let boot = move || program.boot(&|s, r| plain(tasks(s, r)));
    let stats = run(options, boot, move |m: &mut Machine, end| {
        *seen.lock().expect("not poisoned").entry(Regs::of_this_thread().text(m, end)).or_insert(0) += 1;
    });
    let all = all.lock().expect("not poisoned").clone();
    (all, stats)
}

fn sb(s: Shared, r: Regs) -> Vec<Fut> {
    vec![
        task!(s, r, {
            s.x().write_once(1).await;
            r.set("a", s.y().read_once().await);
        }),
        task!(s, r, {
            s.y().write_once(1).await;
            r.set("b", s.x().read_once().await);
        }),
    ]
}

fn lost_update(s: Shared, r: Regs) -> Vec<Fut> {
    let add = |name: &'static str| {
        let r = r.clone();
        Box::pin(async move {
            let _g = s.lock().lock().await;
            let v = s.x().read_once().await;
            s.x().write_once(v + 1).await;
            r.set(name, v);
        }) as Fut
    };
    vec![add("a"), add("b"), add("c")]
}

fn lost_wakeup(s: Shared, r: Regs) -> Vec<Fut> {
    s.x().set(1);
    vec![
        task!(s, r, {
            wait_event(s.wq(), s.x().ptr(), Pred::Zero).await;
        }),
        task!(s, r, {
            wake_up_all(s.wq()).await;
            s.x().write_once(0).await;
        }),
    ]
}

fn publish(s: Shared, r: Regs) -> Vec<Fut> {
    vec![
        task!(s, r, {
            s.x().write_once(1).await;
            synchronize_rcu().await;
            s.y().write_once(1).await;
        }),
        task!(s, r, {
            let _g = rcu_read_lock();
            r.set("x", s.x().read_once().await);
            r.set("y", s.y().read_once().await);
        }),
    ]
}

fn callback(s: Shared, r: Regs) -> Vec<Fut> {
    let o = crate::rcu::Obj(wbmodel::sync::kzalloc_nofail(crate::rcu::Obj::TYPE));
    vec![
        task!(s, r, {
            call_rcu(o.0, "obj_free_rcu", |p| Box::pin(async move { kfree(p) }));
        }),
        task!(s, r, {
            o.val().read_once().await;
            o.val().read_once().await;
        }),
    ]
}

type Tasks = fn(Shared, Regs) -> Vec<Fut>;
const ALL: [(&str, Tasks); 5] = [("sb", sb), ("lost_update", lost_update), ("lost_wakeup", lost_wakeup), ("publish", publish), ("callback", callback)];

#[test]
fn shuttle_dfs_runs_the_same_executions_as_plain_enumeration() {
    for (name, tasks) in ALL {
        let ours = sc().every_start().outcomes(&tasks);
        let (theirs, stats) = outcomes(sc(), options(Scheduler::Dfs, 100_000), tasks);
        assert!(stats.exhausted, "{name}");
        assert_eq!(ours, theirs, "{name}");
        assert_eq!(stats.executions, ours.values().sum::<u64>(), "{name}");
    }
}

#[test]
fn random_schedulers_of_shuttle_see_every_outcome_of_small_programs() {
    // Each outcome has a probability of at least 1 in 50 under each scheduler: 2000 executions miss one with less than 1e-17.
    for scheduler in [Scheduler::Random, Scheduler::Pct { depth: 3 }, Scheduler::Urw] {
        for (name, tasks) in ALL {
            let ours = sc().outcomes(&tasks);
            let (theirs, stats) = outcomes(sc(), options(scheduler, 2000), tasks);
            assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "{name} {scheduler:?}");
            assert_eq!(stats.executions, 2000);
        }
    }
}

#[test]
fn older_values_are_seen_under_shuttle_too() {
    let (all, _) = outcomes(weak(), options(Scheduler::Random, 2000), sb);
    assert_eq!(all.len(), 4, "{all:?}");
}

#[test]
fn a_run_can_stop_at_the_first_failure() {
    let (_, stats) = outcomes(sc(), Options { first_only: true, ..options(Scheduler::Random, 2000) }, callback);
    assert_eq!(stats.failing, 1);
    let first = stats.first.expect("one failed");
    assert_eq!((first.nth + 1, first.violations[0].rule), (stats.executions, "LT-MEM-1"));
    let (_, stats) = outcomes(sc(), Options { first_only: true, ..options(Scheduler::Urw, 2000) }, lost_wakeup);
    assert_eq!((stats.failing, stats.stuck), (1, 1));
}

#[test]
fn equal_seeds_give_equal_runs() {
    for scheduler in [Scheduler::Random, Scheduler::Pct { depth: 3 }, Scheduler::Urw] {
        let a = outcomes(sc(), options(scheduler, 100), lost_wakeup);
        let b = outcomes(sc(), options(scheduler, 100), lost_wakeup);
        assert_eq!((a.0, a.1.steps), (b.0, b.1.steps), "{scheduler:?}");
    }
}

#[test]
#[should_panic(expected = "a bug of the program")]
fn a_panic_that_is_no_violation_is_passed_on() {
    let boom = |s: Shared, r: Regs| vec![task!(s, r, { assert!(s.x().get() == 1, "a bug of the program") })];
    outcomes(sc(), options(Scheduler::Random, 1), boom);
}
