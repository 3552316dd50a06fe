//! Work items and wait queues.

use crate::support::{Regs, Shared, sc, shared_fields, weak};
use crate::task;
use wbmodel::sync::{
    Fut, Pred, Ptr, WorkFn, Workqueue, flush_delayed_work, flush_work, mod_delayed_work, queue_delayed_work, queue_work, smp_mb, wait_event, wake_up_all,
};

const WQ: Workqueue = Workqueue { id: 0, max_active: 0 };

/// Raises x, then z; y counts runs that are under way at once, and w its maximum.
fn body(s: Shared) -> Fut {
    Box::pin(async move {
        s.y().fetch_add(1).await;
        s.w().set(s.w().get().max(s.y().get()));
        s.x().fetch_add(1).await;
        s.y().fetch_add(-1).await;
    })
}

const COUNT: WorkFn = WorkFn { name: "count", body: |p: Ptr| body(Shared(p.sub(shared_fields::work))) };
const COUNT2: WorkFn = WorkFn { name: "count2", body: |p: Ptr| body(Shared(p.sub(shared_fields::work2))) };
const DELAYED: WorkFn = WorkFn { name: "delayed", body: |p: Ptr| body(Shared(p.sub(shared_fields::dwork))) };

#[test]
fn a_pending_item_is_queued_once_and_a_running_one_again() {
    let program = |s: Shared, r: Regs| {
        s.work().init(COUNT, WQ);
        vec![task!(s, r, {
            let a = queue_work(s.work()).await;
            let b = queue_work(s.work()).await;
            flush_work(s.work()).await;
            r.set("queued", (a + b) as i64);
            r.set("runs", s.x().read_once().await);
            r.set("w", s.w().get());
        })]
    };
    // Twice only if the first run had begun; and then one after the other.
    sc().check(&program, &["queued=1 runs=1 w=1", "queued=2 runs=2 w=1"]);
}

#[test]
fn different_items_run_beside_each_other_unless_the_queue_is_ordered() {
    let program = |max_active: u32| {
        move |s: Shared, r: Regs| {
            let wq = Workqueue { id: 1, max_active };
            s.work().init(COUNT, wq);
            s.work2().init(COUNT2, wq);
            vec![task!(s, r, {
                queue_work(s.work()).await;
                queue_work(s.work2()).await;
                flush_work(s.work()).await;
                flush_work(s.work2()).await;
                r.set("w", s.w().get());
            })]
        }
    };
    sc().check(&program(0), &["w=1", "w=2"]);
    sc().check(&program(1), &["w=1"]);
}

#[test]
fn a_flush_waits_for_what_was_queued_before_it_and_for_nothing_later() {
    let program = |s: Shared, r: Regs| {
        s.work().init(COUNT, WQ);
        vec![
            task!(s, r, {
                let seen = queue_work(s.work()).await;
                flush_work(s.work()).await;
                r.set("done", s.x().read_once().await);
                r.set("seen", seen as i64);
            }),
            task!(s, r, {
                queue_work(s.work()).await;
            }),
        ]
    };
    // At least one run is over after the flush; the other task's queueing may come later and is then not waited for.
    let all = sc().outcomes(&program);
    assert!(all.keys().all(|k| !k.contains("done=0")), "{all:?}");
    assert!(all.contains_key("done=1 seen=1") && all.contains_key("done=2 seen=1"), "{all:?}");
}

#[test]
fn flushing_an_idle_item_returns_at_once() {
    let program = |s: Shared, r: Regs| {
        s.work().init(COUNT, WQ);
        vec![task!(s, r, {
            flush_work(s.work()).await;
            r.set("x", s.x().get());
        })]
    };
    sc().check(&program, &["x=0"]);
}

#[test]
fn work_sees_what_its_queuer_wrote_and_the_flusher_sees_the_work() {
    let program = |s: Shared, r: Regs| {
        s.work().init(WorkFn { name: "copy", body: |p: Ptr| copy(Shared(p.sub(shared_fields::work))) }, WQ);
        vec![task!(s, r, {
            s.x().write_once(1).await;
            queue_work(s.work()).await;
            flush_work(s.work()).await;
            r.set("y", s.y().read_once().await);
        })]
    };
    fn copy(s: Shared) -> Fut {
        Box::pin(async move {
            let x = s.x().read_once().await;
            s.y().write_once(x).await;
        })
    }
    weak().check(&program, &["y=1"]);
}

#[test]
fn even_a_failed_queueing_is_seen_by_the_next_run() {
    let program = |s: Shared, r: Regs| {
        s.work().init(WorkFn { name: "copy", body: |p: Ptr| copy(Shared(p.sub(shared_fields::work))) }, WQ);
        vec![
            task!(s, r, {
                s.x().write_once(1).await;
                let was_idle = queue_work(s.work()).await;
                flush_work(s.work()).await;
                let _ = was_idle;
                r.set("y", s.y().read_once().await);
            }),
            task!(s, r, {
                queue_work(s.work()).await;
            }),
        ]
    };
    fn copy(s: Shared) -> Fut {
        Box::pin(async move {
            let x = s.x().read_once().await;
            if x == 1 {
                s.y().write_once(1).await;
            }
        })
    }
    weak().check(&program, &["y=1"]);
}

#[test]
fn a_timer_fires_only_where_the_configuration_lets_it() {
    let program = |s: Shared, r: Regs| {
        s.dwork().init(DELAYED, WQ);
        vec![task!(s, r, {
            queue_delayed_work(s.dwork()).await;
            r.set("x", s.x().read_once().await);
        })]
    };
    // An armed timer does not keep an execution alive.
    sc().check(&program, &["x=0"]);
    sc().config(|c| c.timers = 1).check(&program, &["x=0", "x=1"]);
}

#[test]
fn modifying_the_delay_to_zero_runs_an_armed_item_once() {
    let program = |s: Shared, r: Regs| {
        s.dwork().init(DELAYED, WQ);
        vec![task!(s, r, {
            queue_delayed_work(s.dwork()).await;
            mod_delayed_work(s.dwork()).await;
            flush_delayed_work(s.dwork()).await;
            r.set("x", s.x().read_once().await);
            r.set("w", s.w().get());
        })]
    };
    sc().check(&program, &["w=1 x=1"]);
    // The timer may fire before: then the item runs for the timer and once more if that run had begun.
    sc().config(|c| c.timers = 1).check(&program, &["w=1 x=1", "w=1 x=2"]);
}

#[test]
fn flushing_delayed_work_queues_it_now() {
    let program = |s: Shared, r: Regs| {
        s.dwork().init(DELAYED, WQ);
        vec![task!(s, r, {
            queue_delayed_work(s.dwork()).await;
            flush_delayed_work(s.dwork()).await;
            r.set("x", s.x().read_once().await);
        })]
    };
    sc().check(&program, &["x=1"]);
}

#[test]
fn initialising_an_active_item_is_reported() {
    let program = |s: Shared, r: Regs| {
        s.work().init(COUNT, WQ);
        vec![task!(s, r, {
            queue_work(s.work()).await;
            s.work().init(COUNT, WQ);
            s.x().read_once().await;
        })]
    };
    let all = sc().outcomes(&program);
    assert!(all.keys().any(|k| k.contains("LT-LOCK-3")), "{all:?}");
}

#[test]
fn queueing_an_item_that_was_never_initialised_is_fatal() {
    let program = |s: Shared, r: Regs| {
        vec![task!(s, r, {
            queue_work(s.work()).await;
        })]
    };
    sc().check(&program, &["Fatal LT-MEM-0"]);
}

/// One task waits for x to be zero; the other makes it so and wakes, or forgets to.
fn waiter(wake: bool) -> impl Fn(Shared, Regs) -> Vec<Fut> {
    move |s, r| {
        s.x().set(1);
        vec![
            task!(s, r, {
                wait_event(s.wq(), s.x().ptr(), Pred::Zero).await;
                r.set("x", s.x().get());
            }),
            task!(s, r, {
                s.x().write_once(0).await;
                if wake {
                    wake_up_all(s.wq()).await;
                }
            }),
        ]
    }
}

#[test]
fn a_waiter_is_never_lost_unless_the_waker_forgets_to_wake() {
    sc().check(&waiter(true), &["x=0"]);
    sc().check(&waiter(false), &["Stuck", "x=0"]);
    weak().check(&waiter(true), &["x=0"]);
}

#[test]
fn waking_before_the_change_loses_the_waiter() {
    let program = |s: Shared, r: Regs| {
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
    };
    sc().check(&program, &["", "Stuck"]);
}

#[test]
fn everybody_in_the_queue_is_woken() {
    let program = |s: Shared, r: Regs| {
        s.x().set(1);
        let wait = || Box::pin(wait_event(s.wq(), s.x().ptr(), Pred::Zero)) as Fut;
        vec![
            wait(),
            wait(),
            task!(s, r, {
                s.x().write_once(0).await;
                wake_up_all(s.wq()).await;
            }),
        ]
    };
    sc().check(&program, &[""]);
}

/// ORD-1 with its wait: whoever counts itself in and still sees the flag clear is waited for.
fn drain(mb0: bool, mb1: bool) -> impl Fn(Shared, Regs) -> Vec<Fut> {
    move |s, r| {
        vec![
            task!(s, r, {
                s.x().inc().await;
                if mb0 {
                    smp_mb().await;
                }
                if s.y().read_once().await == 0 {
                    s.todo().write_once(1).await;
                    s.todo().write_once(0).await;
                }
                s.x().dec().await;
                wake_up_all(s.wq()).await;
            }),
            task!(s, r, {
                s.y().write_once(1).await;
                if mb1 {
                    smp_mb().await;
                }
                wait_event(s.wq(), s.x().ptr(), Pred::Zero).await;
                r.set("busy", s.todo().read_once().await);
            }),
        ]
    }
}

#[test]
fn a_drain_may_end_on_an_older_count_unless_both_sides_have_a_full_barrier() {
    let p = || weak().config(|c| c.max_stale = 2);
    p().check(&drain(true, true), &["busy=0"]);
    p().check(&drain(false, true), &["busy=0", "busy=1"]);
    p().check(&drain(true, false), &["busy=0", "busy=1"]);
}
