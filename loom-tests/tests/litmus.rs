//! The litmus programs of the stepper on loom: the same text, another memory model, the same outcome sets.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use wbmodel_loom::kstruct;
use wbmodel_loom::linux::boot_globals;
use wbmodel_loom::linux::lib::percpu_refcount::PercpuRef;
use wbmodel_loom::sync::backend::{Bounds, run};
use wbmodel_loom::sync::{
    Config, End, Field, Fut, Level, Machine, Mutex as KMutex, NULL, Pred, Ptr, Rwsem, SpinLock, Var, WaitQueue, Work, WorkFn, Workqueue, call_rcu, flush_work,
    immortal, kfree, kzalloc_nofail, queue_work, rcu_read_lock, smp_mb, smp_rmb, smp_wmb, spawn, synchronize_rcu, wait_event, wake_up_all, with,
};

kstruct! {
    /// What the programs share; x, y, z are weak.
    pub struct Shared: "s", "LT-MEM-1", shared_fields {
        x: Var<i64>,
        y: Var<i64>,
        z: Var<i64>,
        plain: Var<i64>,
        lock: SpinLock,
        mutex: KMutex,
        sem: Rwsem,
        wq: WaitQueue,
        work: Work,
        refcnt: PercpuRef,
    }
}

kstruct! {
    /// What a program frees.
    pub struct Obj: "obj", "LT-MEM-1", obj_fields {
        val: Var<i64>,
        rcu: Var<Ptr>,
    }
}

thread_local! {
    static REGS: RefCell<BTreeMap<&'static str, i64>> = const { RefCell::new(BTreeMap::new()) };
}

fn reg(name: &'static str, v: i64) {
    REGS.with_borrow_mut(|r| r.insert(name, v));
}

fn task(f: impl Future<Output = ()> + 'static) -> Fut {
    Box::pin(f)
}

/// Every outcome as text, and the number of executions.
fn outcomes(preemptions: Option<usize>, tasks: impl Fn(Shared) -> Vec<Fut> + Send + Sync + 'static) -> (BTreeSet<String>, u64) {
    let all = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = all.clone();
    let boot = move || {
        REGS.with_borrow_mut(BTreeMap::clear);
        with(|m| m.reset(Config { weak: true, nr_cpus: 1, ..Config::default() }));
        boot_globals();
        let s = Shared(kzalloc_nofail(Shared::TYPE));
        immortal(s.0);
        [s.x(), s.y(), s.z()].into_iter().for_each(Var::weak);
        for (i, f) in tasks(s).into_iter().enumerate() {
            spawn(i as u16, Level::Task, None, f);
        }
    };
    let n = run(Bounds { preemptions, ..Bounds::default() }, boot, move |m: &mut Machine, end| {
        let mut text: Vec<String> = REGS.with_borrow(|r| r.iter().map(|(k, v)| format!("{k}={v}")).collect());
        if end != End::Complete {
            text.push(format!("{end:?}"));
        }
        text.extend(m.violations.iter().map(|v| v.rule.to_string()));
        seen.lock().expect("not poisoned").insert(text.join(" "));
    });
    let all = all.lock().expect("not poisoned").clone();
    (all, n)
}

#[track_caller]
fn check(tasks: impl Fn(Shared) -> Vec<Fut> + Send + Sync + 'static, expected: &[&str]) {
    let (all, n) = outcomes(None, tasks);
    let expected: BTreeSet<String> = expected.iter().map(|s| s.to_string()).collect();
    assert_eq!(all, expected, "{n} executions");
}

fn sb(mb0: bool, mb1: bool) -> impl Fn(Shared) -> Vec<Fut> {
    move |s| {
        vec![
            task(async move {
                s.x().write_once(1).await;
                if mb0 {
                    smp_mb().await;
                }
                reg("a", s.y().read_once().await);
            }),
            task(async move {
                s.y().write_once(1).await;
                if mb1 {
                    smp_mb().await;
                }
                reg("b", s.x().read_once().await);
            }),
        ]
    }
}

const SC_SB: [&str; 3] = ["a=0 b=1", "a=1 b=0", "a=1 b=1"];
const ALL_SB: [&str; 4] = ["a=0 b=0", "a=0 b=1", "a=1 b=0", "a=1 b=1"];

#[test]
fn store_buffering_needs_both_full_barriers() {
    check(sb(true, true), &SC_SB);
    check(sb(true, false), &ALL_SB);
    check(sb(false, true), &ALL_SB);
    check(sb(false, false), &ALL_SB);
}

fn counter_and_flag(ordered_inc: bool) -> impl Fn(Shared) -> Vec<Fut> {
    move |s| {
        vec![
            task(async move {
                if ordered_inc {
                    s.x().fetch_add(1).await;
                } else {
                    s.x().inc().await;
                }
                reg("a", s.y().read_once().await);
            }),
            task(async move {
                s.y().write_once(1).await;
                smp_mb().await;
                reg("b", s.x().read_once().await);
            }),
        ]
    }
}

#[test]
fn a_void_atomic_is_no_barrier_and_one_with_a_result_is() {
    check(counter_and_flag(false), &ALL_SB);
    check(counter_and_flag(true), &SC_SB);
}

fn mp(wmb: bool, rmb: bool) -> impl Fn(Shared) -> Vec<Fut> {
    move |s| {
        vec![
            task(async move {
                s.x().write_once(1).await;
                if wmb {
                    smp_wmb();
                }
                s.y().write_once(1).await;
            }),
            task(async move {
                reg("flag", s.y().read_once().await);
                if rmb {
                    smp_rmb();
                }
                reg("x", s.x().read_once().await);
            }),
        ]
    }
}

const SC_MP: [&str; 3] = ["flag=0 x=0", "flag=0 x=1", "flag=1 x=1"];
const ALL_MP: [&str; 4] = ["flag=0 x=0", "flag=0 x=1", "flag=1 x=0", "flag=1 x=1"];

#[test]
fn message_passing_needs_write_and_read_barrier() {
    check(mp(true, true), &SC_MP);
    check(mp(true, false), &ALL_MP);
    check(mp(false, true), &ALL_MP);
    check(mp(false, false), &ALL_MP);
}

#[test]
fn message_passing_by_release_and_acquire() {
    let program = |s: Shared| {
        vec![
            task(async move {
                s.x().write_once(1).await;
                s.y().store_release(1).await;
            }),
            task(async move {
                reg("flag", s.y().load_acquire().await);
                reg("x", s.x().read_once().await);
            }),
        ]
    };
    check(program, &SC_MP);
}

/// Two increments by load and store under the lock that `which` names.
fn increments(which: &'static str) -> impl Fn(Shared) -> Vec<Fut> {
    move |s| {
        let body = |name: &'static str| {
            task(async move {
                let spin = if which == "spin" { Some(s.lock().lock().await) } else { None };
                let mutex = if which == "mutex" { Some(s.mutex().lock().await) } else { None };
                let write = if which == "write" { Some(s.sem().write().await) } else { None };
                let x = s.x().get();
                s.x().set(x + 1);
                reg(name, x);
                drop((spin, mutex, write));
            })
        };
        vec![body("a"), body("b")]
    }
}

#[test]
fn the_newest_value_is_seen_under_the_lock_that_protects_it() {
    for which in ["spin", "mutex", "write"] {
        check(increments(which), &["a=0 b=1", "a=1 b=0"]);
    }
    check(increments("none"), &["a=0 b=0", "a=0 b=1", "a=1 b=0"]);
}

#[test]
fn a_reader_sees_both_sides_of_a_grace_period_or_only_the_first() {
    let program = |locked: bool| {
        move |s: Shared| {
            vec![
                task(async move {
                    s.x().write_once(1).await;
                    synchronize_rcu().await;
                    s.y().write_once(1).await;
                }),
                task(async move {
                    let g = locked.then(rcu_read_lock);
                    reg("y", s.y().read_once().await);
                    reg("x", s.x().read_once().await);
                    drop(g);
                }),
            ]
        }
    };
    check(program(true), &["x=0 y=0", "x=1 y=0", "x=1 y=1"]);
    check(program(false), &["x=0 y=0", "x=0 y=1", "x=1 y=0", "x=1 y=1"]);
}

#[test]
fn a_read_section_is_as_good_as_a_full_barrier_against_a_grace_period() {
    let program = |s: Shared| {
        vec![
            task(async move {
                s.x().write_once(1).await;
                synchronize_rcu().await;
                reg("a", s.y().read_once().await);
            }),
            task(async move {
                let _g = rcu_read_lock();
                s.y().write_once(1).await;
                reg("b", s.x().read_once().await);
            }),
        ]
    };
    check(program, &SC_SB);
}

#[test]
fn memory_outlives_the_readers_that_may_see_it() {
    let program = |locked: bool| {
        move |s: Shared| {
            let o = Obj(kzalloc_nofail(Obj::TYPE));
            let slot: Var<Ptr> = Var::at(s.plain().ptr());
            slot.set(o.0);
            vec![
                task(async move {
                    slot.write_once(NULL).await;
                    call_rcu(o.rcu().ptr(), "obj_free_rcu", |p| Box::pin(async move { kfree(p.sub(obj_fields::rcu)) }));
                }),
                task(async move {
                    let g = locked.then(rcu_read_lock);
                    let p = Obj(slot.read_once().await);
                    if !p.is_null() {
                        p.val().read_once().await;
                    }
                    drop(g);
                }),
            ]
        }
    };
    check(program(true), &[""]);
    check(program(false), &["", "Fatal LT-MEM-1"]);
}

#[test]
fn work_sees_what_its_queuer_wrote_and_the_flusher_sees_the_work() {
    fn copy(p: Ptr) -> Fut {
        let s = Shared(p.sub(shared_fields::work));
        Box::pin(async move {
            let x = s.x().read_once().await;
            s.y().write_once(x).await;
        })
    }
    let program = |s: Shared| {
        s.work().init(WorkFn { name: "copy", body: copy }, Workqueue { id: 0, max_active: 0 });
        vec![task(async move {
            s.x().write_once(1).await;
            queue_work(s.work()).await;
            flush_work(s.work()).await;
            reg("y", s.y().read_once().await);
        })]
    };
    check(program, &["y=1"]);
}

#[test]
fn a_waiter_is_never_lost() {
    let program = |s: Shared| {
        s.x().set(1);
        vec![
            task(async move {
                wait_event(s.wq(), s.x().ptr(), Pred::Zero).await;
                reg("woken", 1);
            }),
            task(async move {
                s.x().write_once(0).await;
                wake_up_all(s.wq()).await;
            }),
        ]
    };
    check(program, &["woken=1"]);
}

fn release(p: Ptr) -> Fut {
    let s = Shared(p.sub(shared_fields::refcnt));
    Box::pin(async move {
        s.plain().fetch_add(1).await;
    })
}

#[test]
fn a_kill_beside_tryget_and_put_releases_exactly_once() {
    let program = |s: Shared| {
        let c = s.refcnt();
        c.init(release);
        vec![
            task(async move {
                c.kill().await;
            }),
            task(async move {
                if c.tryget().await {
                    c.put().await;
                }
            }),
        ]
    };
    // Bound 2: enough to enter and leave the window between flags and counter.
    let (all, _) = outcomes(Some(2), move |s| {
        let mut tasks = program(s);
        tasks.push(task(async move {
            wait_event(s.wq(), s.z().ptr(), Pred::Zero).await;
        }));
        tasks
    });
    assert_eq!(all, BTreeSet::from([String::new()]));
}

#[test]
fn tryget_live_never_succeeds_if_it_began_after_the_kill() {
    let program = |s: Shared| {
        let c = s.refcnt();
        c.init(release);
        vec![
            task(async move {
                c.kill().await;
                s.plain().write_once(1).await;
            }),
            task(async move {
                let killed = s.plain().read_once().await;
                let ok = c.tryget_live().await;
                reg("killed", killed);
                reg("ok", i64::from(ok));
                if ok {
                    c.put().await;
                }
            }),
        ]
    };
    // The release counts itself in the same cell, so that 2 stands for killed and released.
    let (all, _) = outcomes(Some(2), program);
    assert!(all.contains("killed=0 ok=1") && all.contains("killed=0 ok=0") && all.contains("killed=1 ok=0"), "{all:?}");
    assert!(!all.contains("killed=1 ok=1"), "{all:?}");
}

/// ORD-1, the smallest lifetime protocol: a switch counts itself in and re-tests that the superblock lives; umount clears that and
/// waits for the count.
fn switch_against_umount(mb0: bool, mb1: bool) -> impl Fn(Shared) -> Vec<Fut> {
    move |s| {
        vec![
            task(async move {
                s.x().inc().await;
                if mb0 {
                    smp_mb().await;
                }
                if s.y().read_once().await == 0 {
                    s.plain().write_once(1).await;
                    s.plain().write_once(0).await;
                }
                s.x().dec().await;
                wake_up_all(s.wq()).await;
            }),
            task(async move {
                s.y().write_once(1).await;
                if mb1 {
                    smp_mb().await;
                }
                wait_event(s.wq(), s.x().ptr(), Pred::Zero).await;
                reg("busy", s.plain().read_once().await);
            }),
        ]
    }
}

#[test]
fn umount_waits_for_every_switch_that_saw_it_alive() {
    check(switch_against_umount(true, true), &["busy=0"]);
    check(switch_against_umount(false, true), &["busy=0", "busy=1"]);
    check(switch_against_umount(true, false), &["busy=0", "busy=1"]);
}

/// ORD-2: the association changes, then the mark is cleared; readers look at the mark, then at the association.
fn association(wmb: bool, rmb: bool) -> impl Fn(Shared) -> Vec<Fut> {
    move |s| {
        s.y().set(1);
        vec![
            task(async move {
                let _g = s.lock().lock_irq().await;
                s.x().write_once(2).await;
                if wmb {
                    smp_wmb();
                }
                s.y().write_once(0).await;
            }),
            task(async move {
                let _g = rcu_read_lock();
                let switching = s.y().read_once().await;
                if rmb {
                    smp_rmb();
                }
                if switching == 0 {
                    reg("wb", s.x().read_once().await);
                }
            }),
        ]
    }
}

#[test]
fn a_reader_that_sees_the_mark_cleared_sees_the_new_association() {
    check(association(true, true), &["", "wb=2"]);
    check(association(false, true), &["", "wb=0", "wb=2"]);
    check(association(true, false), &["", "wb=0", "wb=2"]);
}

/// Write-to-read causality: the middle task forwards with a full barrier or only a write barrier.
fn wrc(full: bool) -> impl Fn(Shared) -> Vec<Fut> {
    move |s| {
        vec![
            task(async move {
                s.x().write_once(1).await;
            }),
            task(async move {
                let a = s.x().read_once().await;
                if full {
                    smp_mb().await;
                } else {
                    smp_wmb();
                }
                s.y().write_once(a).await;
            }),
            task(async move {
                reg("flag", s.y().read_once().await);
                smp_rmb();
                reg("x", s.x().read_once().await);
            }),
        ]
    }
}

#[test]
fn a_write_barrier_forwards_what_was_read_unlike_the_kernels() {
    check(wrc(true), &SC_MP);
    check(wrc(false), &SC_MP);
}

#[test]
fn loads_of_one_cell_never_go_back() {
    let program = |s: Shared| {
        vec![
            task(async move {
                s.x().write_once(1).await;
                s.x().write_once(2).await;
            }),
            task(async move {
                reg("a", s.x().read_once().await);
                reg("b", s.x().read_once().await);
            }),
        ]
    };
    check(program, &["a=0 b=0", "a=0 b=1", "a=0 b=2", "a=1 b=1", "a=1 b=2", "a=2 b=2"]);
}

#[test]
fn load_buffering_is_not_produced() {
    let program = |s: Shared| {
        vec![
            task(async move {
                reg("a", s.y().read_once().await);
                s.x().write_once(1).await;
            }),
            task(async move {
                reg("b", s.x().read_once().await);
                s.y().write_once(1).await;
            }),
        ]
    };
    check(program, &["a=0 b=0", "a=0 b=1", "a=1 b=0"]);
}
