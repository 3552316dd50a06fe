//! Locks and interrupt contexts: who excludes whom, and what is reported as misuse.

use crate::support::{Regs, Shared, Task, sc};
use crate::task;
use wbmodel::sync::{Fut, Level};

/// Two increments, each a load and a store, under the lock that `which` names.
fn increments(which: &'static str) -> impl Fn(Shared, Regs) -> Vec<Fut> {
    move |s, r| {
        let body = |last: bool| {
            let r = r.clone();
            Box::pin(async move {
                let spin = if which == "spin" { Some(s.lock().lock().await) } else { None };
                let mutex = if which == "mutex" { Some(s.mutex().lock().await) } else { None };
                let write = if which == "write" { Some(s.sem().write().await) } else { None };
                let read = if which == "read" { Some(s.sem().read().await) } else { None };
                let x = s.x().read_once().await;
                s.x().write_once(x + 1).await;
                drop((spin, mutex, write, read));
                s.y().fetch_add(1).await;
                if last || s.y().get() == 2 {
                    r.set("x", s.x().get());
                }
            }) as Fut
        };
        vec![body(false), body(false)]
    }
}

#[test]
fn spinlock_mutex_and_writer_exclude_and_readers_do_not() {
    for exclusive in ["spin", "mutex", "write"] {
        sc().check(&increments(exclusive), &["x=2"]);
    }
    sc().check(&increments("read"), &["x=1", "x=2"]);
    sc().check(&increments("none"), &["x=1", "x=2"]);
}

#[test]
fn taking_a_held_lock_again_never_ends() {
    let program = |s: Shared, r: Regs| {
        vec![task!(s, r, {
            let _a = s.lock().lock().await;
            let _b = s.lock().lock().await;
        })]
    };
    sc().check(&program, &["Stuck"]);
}

#[test]
fn opposite_lock_orders_are_reported_even_where_they_do_not_meet() {
    let program = |s: Shared, r: Regs| {
        vec![
            task!(s, r, {
                let _a = s.lock().lock().await;
                let _b = s.lock2().lock().await;
            }),
            task!(s, r, {
                let _b = s.lock2().lock().await;
                let _a = s.lock().lock().await;
            }),
        ]
    };
    sc().check(&program, &["LT-LOCK-1", "Stuck"]);
}

#[test]
fn a_mutex_under_a_spinlock_is_reported() {
    let program = |s: Shared, r: Regs| {
        vec![task!(s, r, {
            let _a = s.lock().lock().await;
            let _b = s.mutex().lock().await;
        })]
    };
    sc().check(&program, &["LT-LOCK-2"]);
}

#[test]
fn ending_with_a_lock_held_is_reported() {
    let program = |s: Shared, r: Regs| {
        vec![task!(s, r, {
            s.lock().lock().await.forget();
        })]
    };
    sc().check(&program, &["LT-LOCK-2"]);
}

#[test]
fn a_trylock_for_reading_fails_beside_a_writer_only_and_never_waits() {
    let beside_writer = |s: Shared, r: Regs| {
        vec![
            task!(s, r, {
                let g = s.sem().write().await;
                s.x().write_once(1).await;
                g.up().await;
            }),
            task!(s, r, {
                match s.sem().try_read().await {
                    Some(g) => {
                        // 0 before the writer, 1 after it: never in between.
                        r.set("x", s.x().read_once().await);
                        g.up().await;
                    }
                    None => r.set("busy", 1),
                }
            }),
        ]
    };
    sc().check(&beside_writer, &["busy=1", "x=0", "x=1"]);
    let beside_reader = |s: Shared, r: Regs| {
        vec![
            task!(s, r, {
                let g = s.sem().read().await;
                g.up().await;
            }),
            task!(s, r, {
                let g = s.sem().try_read().await;
                r.set("got", i64::from(g.is_some()));
            }),
        ]
    };
    sc().check(&beside_reader, &["got=1"]);
}

#[test]
fn readers_meet_and_a_writer_waits_for_all_of_them() {
    // Each reader raises x while inside; the writer must see 0.
    let program = |s: Shared, r: Regs| {
        let reader = |name: &'static str| {
            let r = r.clone();
            Box::pin(async move {
                let g = s.sem().read().await;
                r.set(name, s.x().fetch_add(1).await);
                s.x().fetch_add(-1).await;
                g.up().await;
            }) as Fut
        };
        vec![
            reader("a"),
            reader("b"),
            task!(s, r, {
                let g = s.sem().write().await;
                r.set("w", s.x().read_once().await);
                g.up().await;
            }),
        ]
    };
    sc().check(&program, &["a=0 b=0 w=0", "a=0 b=1 w=0", "a=1 b=0 w=0"]);
}

/// A task and a hard interrupt on one CPU share a lock.
fn interrupt(irq_safe: bool) -> impl Fn(Shared, Regs) -> Vec<(Task, Fut)> {
    move |s, r| {
        vec![
            (
                Task { level: Level::Task, cpu: Some(0) },
                task!(s, r, {
                    let _g = if irq_safe { s.lock().lock_irq().await } else { s.lock().lock().await };
                    s.x().read_once().await;
                }),
            ),
            (
                Task { level: Level::Hardirq, cpu: Some(0) },
                task!(s, r, {
                    let _g = s.lock().lock().await;
                }),
            ),
        ]
    }
}

#[test]
fn an_interrupt_spins_for_ever_on_a_lock_that_its_own_cpu_holds_with_interrupts_on() {
    let p = || sc().config(|c| c.shared_cpus = true);
    p().check_in(&interrupt(false), &["", "Stuck"]);
    p().check_in(&interrupt(true), &[""]);
}

#[test]
fn a_soft_interrupt_is_kept_off_by_bh_locks() {
    let program = |bh: bool| {
        move |s: Shared, r: Regs| {
            vec![
                (
                    Task { level: Level::Task, cpu: Some(0) },
                    task!(s, r, {
                        let _g = if bh { s.lock().lock_bh().await } else { s.lock().lock().await };
                        s.x().read_once().await;
                    }),
                ),
                (
                    Task { level: Level::Softirq, cpu: Some(0) },
                    task!(s, r, {
                        let _g = s.lock().lock().await;
                    }),
                ),
            ]
        }
    };
    let p = || sc().config(|c| c.shared_cpus = true);
    p().check_in(&program(false), &["", "Stuck"]);
    p().check_in(&program(true), &[""]);
}

#[test]
fn an_interrupt_runs_to_its_end_before_its_cpu_goes_on() {
    let program = |s: Shared, r: Regs| {
        vec![
            (
                Task { level: Level::Task, cpu: Some(0) },
                task!(s, r, {
                    r.set("a", s.x().read_once().await);
                    r.set("b", s.x().read_once().await);
                }),
            ),
            (
                Task { level: Level::Hardirq, cpu: Some(0) },
                task!(s, r, {
                    s.x().write_once(1).await;
                    s.x().write_once(2).await;
                }),
            ),
        ]
    };
    // On one CPU the value in between is never seen.
    sc().config(|c| c.shared_cpus = true).check_in(&program, &["a=0 b=0", "a=0 b=2", "a=2 b=2"]);
}

#[test]
fn tasks_of_one_cpu_do_not_preempt_a_spinlock_holder() {
    let program = |s: Shared, r: Regs| {
        vec![
            (
                Task { level: Level::Task, cpu: Some(0) },
                task!(s, r, {
                    let _g = s.lock().lock().await;
                    r.set("a", s.x().read_once().await);
                    r.set("b", s.x().read_once().await);
                }),
            ),
            (
                Task { level: Level::Task, cpu: Some(0) },
                task!(s, r, {
                    s.x().write_once(1).await;
                }),
            ),
        ]
    };
    sc().config(|c| c.shared_cpus = true).check_in(&program, &["a=0 b=0", "a=1 b=1"]);
    sc().check_in(&program, &["a=0 b=0", "a=0 b=1", "a=1 b=1"]);
}
