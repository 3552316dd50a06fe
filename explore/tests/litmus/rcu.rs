//! RCU: a reader sees all that came before a grace period or the grace period's end sees all of the reader.

use crate::support::{Regs, Shared, sc, weak};
use crate::task;
use wbmodel::kstruct;
use wbmodel::sync::{Field, Fut, Ptr, Var, call_rcu, cond_resched, join, kfree, kzalloc_nofail, rcu_read_lock, smp_mb, synchronize_rcu};

kstruct! {
    pub struct Obj: "obj", "LT-MEM-1", obj_fields {
        val: Var<i64>,
        rcu: Var<Ptr>,
    }
}

/// x, grace period, y; the reader reads them in either order.
fn publish(locked: bool, y_first: bool) -> impl Fn(Shared, Regs) -> Vec<Fut> {
    move |s, r| {
        vec![
            task!(s, r, {
                s.x().write_once(1).await;
                synchronize_rcu().await;
                s.y().write_once(1).await;
            }),
            task!(s, r, {
                let g = locked.then(rcu_read_lock);
                if y_first {
                    r.set("y", s.y().read_once().await);
                    r.set("x", s.x().read_once().await);
                } else {
                    r.set("x", s.x().read_once().await);
                    r.set("y", s.y().read_once().await);
                }
                drop(g);
            }),
        ]
    }
}

#[test]
fn a_reader_sees_both_sides_of_a_grace_period_or_only_the_first() {
    let rule = ["x=0 y=0", "x=1 y=0", "x=1 y=1"];
    for p in [sc, weak] {
        p().check(&publish(true, true), &rule);
        p().check(&publish(true, false), &rule);
    }
    // Without a section each weakens in its own way: by order of reading, and by stale values.
    sc().check(&publish(false, false), &["x=0 y=0", "x=0 y=1", "x=1 y=0", "x=1 y=1"]);
    sc().check(&publish(false, true), &rule);
    weak().check(&publish(false, true), &["x=0 y=0", "x=0 y=1", "x=1 y=0", "x=1 y=1"]);
}

/// Store buffering where one side's barrier is a grace period and the other's is a read section.
fn sb_rcu(locked: bool) -> impl Fn(Shared, Regs) -> Vec<Fut> {
    move |s, r| {
        vec![
            task!(s, r, {
                s.x().write_once(1).await;
                synchronize_rcu().await;
                r.set("a", s.y().read_once().await);
            }),
            task!(s, r, {
                let g = locked.then(rcu_read_lock);
                s.y().write_once(1).await;
                r.set("b", s.x().read_once().await);
                drop(g);
            }),
        ]
    }
}

#[test]
fn a_read_section_is_as_good_as_a_full_barrier_against_a_grace_period() {
    weak().check(&sb_rcu(true), &["a=0 b=1", "a=1 b=0", "a=1 b=1"]);
    weak().check(&sb_rcu(false), &["a=0 b=0", "a=0 b=1", "a=1 b=0", "a=1 b=1"]);
}

#[test]
fn a_region_under_a_spinlock_is_a_read_section() {
    let program = |s: Shared, r: Regs| {
        vec![
            task!(s, r, {
                s.x().write_once(1).await;
                synchronize_rcu().await;
                r.set("a", s.y().read_once().await);
            }),
            task!(s, r, {
                let _g = s.lock().lock().await;
                s.y().set(1);
                r.set("b", s.x().read_once().await);
            }),
        ]
    };
    weak().check(&program, &["a=0 b=1", "a=1 b=0", "a=1 b=1"]);
}

/// A ring of store buffering: one task passes from x to y, two read sections pass from y to z and from z to x.
fn ring(grace_periods: u32) -> impl Fn(Shared, Regs) -> Vec<Fut> {
    move |s, r| {
        vec![
            task!(s, r, {
                s.x().write_once(1).await;
                for _ in 0..grace_periods {
                    synchronize_rcu().await;
                }
                r.set("a", s.y().read_once().await);
            }),
            task!(s, r, {
                let _g = rcu_read_lock();
                s.y().write_once(1).await;
                r.set("b", s.z().read_once().await);
            }),
            task!(s, r, {
                let _g = rcu_read_lock();
                s.z().write_once(1).await;
                r.set("c", s.x().read_once().await);
            }),
        ]
    }
}

#[test]
fn as_many_grace_periods_as_read_sections_forbid_a_ring() {
    assert!(weak().outcomes(&ring(1)).contains_key("a=0 b=0 c=0"));
    assert!(!weak().outcomes(&ring(2)).contains_key("a=0 b=0 c=0"));
    assert!(weak().outcomes(&ring(2)).contains_key("a=0 b=0 c=1"));
}

#[test]
fn a_full_barrier_is_no_grace_period() {
    let program = |s: Shared, r: Regs| {
        vec![
            task!(s, r, {
                s.x().write_once(1).await;
                smp_mb().await;
                s.y().write_once(1).await;
            }),
            task!(s, r, {
                let _g = rcu_read_lock();
                r.set("x", s.x().read_once().await);
                r.set("y", s.y().read_once().await);
            }),
        ]
    };
    sc().check(&program, &["x=0 y=0", "x=0 y=1", "x=1 y=0", "x=1 y=1"]);
}

/// A reader follows a pointer; the updater unlinks and frees.
#[derive(Clone, Copy, PartialEq)]
enum Free {
    Now,
    AfterGp,
    Callback,
}

fn unlink_and_free(locked: bool, free: Free) -> impl Fn(Shared, Regs) -> Vec<Fut> {
    move |s, r| {
        let o = Obj(kzalloc_nofail(Obj::TYPE));
        let slot: Var<Ptr> = Var::at(s.x().ptr());
        slot.set(o.0);
        vec![
            task!(s, r, {
                slot.write_once(wbmodel::sync::NULL).await;
                match free {
                    Free::Now => kfree(o.0),
                    Free::AfterGp => {
                        synchronize_rcu().await;
                        kfree(o.0);
                    }
                    Free::Callback => call_rcu(o.rcu().ptr(), "obj_free_rcu", |p| Box::pin(async move { kfree(p.sub(obj_fields::rcu)) })),
                }
            }),
            task!(s, r, {
                let g = locked.then(rcu_read_lock);
                let p = Obj(slot.read_once().await);
                if !p.is_null() {
                    p.val().read_once().await;
                }
                drop(g);
            }),
        ]
    }
}

#[test]
fn memory_outlives_the_readers_that_may_see_it() {
    for free in [Free::AfterGp, Free::Callback] {
        sc().check(&unlink_and_free(true, free), &[""]);
        sc().check(&unlink_and_free(false, free), &["", "Fatal LT-MEM-1"]);
    }
    sc().check(&unlink_and_free(true, Free::Now), &["", "Fatal LT-MEM-1"]);
}

#[test]
fn a_callback_registered_inside_a_section_waits_for_that_section_too() {
    let program = |s: Shared, r: Regs| {
        let o = Obj(kzalloc_nofail(Obj::TYPE));
        vec![task!(s, r, {
            let g = rcu_read_lock();
            o.val().read_once().await;
            call_rcu(o.rcu().ptr(), "obj_free_rcu", |p| Box::pin(async move { kfree(p.sub(obj_fields::rcu)) }));
            o.val().read_once().await;
            drop(g);
        })]
    };
    sc().check(&program, &[""]);
}

#[test]
fn a_callback_sees_its_registrar_and_every_section_that_ended() {
    // The callback copies x and y into registers of the shared object that nobody else writes.
    fn copy(p: Ptr) -> Fut {
        let s = Shared(p);
        Box::pin(async move {
            let (x, y) = (s.x().read_once().await, s.y().read_once().await);
            let g = s.lock().lock().await;
            s.z().set(x + 2 * y);
            drop(g);
            s.done().await;
        })
    }
    let program = |s: Shared, r: Regs| {
        s.todo().set(1);
        vec![
            task!(s, r, {
                s.x().write_once(1).await;
                call_rcu(s.ptr(), "copy", copy);
            }),
            task!(s, r, {
                let g = rcu_read_lock();
                s.y().write_once(1).await;
                let saw = s.x().read_once().await;
                drop(g);
                s.wait_done().await;
                let _g = s.lock().lock().await;
                r.set("cb", s.z().get());
                r.set("x", saw);
            }),
        ]
    };
    // x is always seen by the callback; y unless the section saw x, which it must if it began after the call.
    let all = weak().config(|c| c.max_stale = 2).outcomes(&program);
    assert!(all.keys().all(|k| ["cb=1 x=1", "cb=3 x=0", "cb=3 x=1"].contains(&k.as_str())), "{all:?}");
    assert!(all.contains_key("cb=1 x=1") && all.contains_key("cb=3 x=0"), "{all:?}");
}

#[test]
fn without_preemptible_rcu_a_grace_period_waits_until_every_running_task_gave_up_its_cpu() {
    let program = |resched: bool| {
        move |s: Shared, r: Regs| {
            vec![
                task!(s, r, {
                    // Not a read section.
                    r.set("x", s.x().read_once().await);
                    if resched {
                        cond_resched().await;
                    }
                    r.set("y", s.y().read_once().await);
                }),
                task!(s, r, {
                    s.x().write_once(1).await;
                    synchronize_rcu().await;
                    s.y().write_once(1).await;
                }),
            ]
        }
    };
    let rule = ["x=0 y=0", "x=1 y=0", "x=1 y=1"];
    let all = ["x=0 y=0", "x=0 y=1", "x=1 y=0", "x=1 y=1"];
    sc().config(|c| c.preempt_rcu = false).check(&program(false), &rule);
    sc().config(|c| c.preempt_rcu = false).check(&program(true), &all);
    sc().check(&program(false), &all);
}

#[test]
fn a_task_that_falls_asleep_does_not_hold_up_a_grace_period() {
    let program = |s: Shared, r: Regs| {
        vec![
            task!(s, r, {
                s.x().write_once(1).await;
                join(1).await;
                r.set("joined", 1);
            }),
            task!(s, r, {
                synchronize_rcu().await;
                r.set("waited", 1);
            }),
        ]
    };
    sc().config(|c| c.preempt_rcu = false).check(&program, &["joined=1 waited=1"]);
}

#[test]
fn waiting_for_a_grace_period_inside_a_section_is_reported() {
    let program = |s: Shared, r: Regs| {
        vec![task!(s, r, {
            let g = rcu_read_lock();
            s.x().read_once().await;
            synchronize_rcu().await;
            drop(g);
        })]
    };
    let all = sc().outcomes(&program);
    assert!(all.keys().all(|k| k.contains("LT-LOCK-2")), "{all:?}");
}
