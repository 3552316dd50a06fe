//! percpu_ref: each operation in each state of the table in the specification, section 3.3, and the kill's windows.

use crate::support::{Regs, Shared, at_boot, sc, shared_fields};
use crate::task;
use wbmodel::sync::{Fut, Ptr, rcu_read_lock, with};

/// The release callback counts itself in y.
fn release(p: Ptr) -> Fut {
    let s = Shared(p.sub(shared_fields::refcnt));
    Box::pin(async move {
        s.y().fetch_add(1).await;
        s.done().await;
    })
}

/// Brings the reference into a state, then does what `op` names once; shows the result, the true count and the releases.
fn in_state(state: &'static str, op: &'static str) -> String {
    let program = |s: Shared, r: Regs| {
        let c = s.refcnt();
        c.init(release);
        at_boot(async move {
            // Two references: the base one, and one that puts and gets may use.
            c.get().await;
            if matches!(state, "C" | "Z" | "X") {
                // Boot ends after the switch's callback.
                c.kill().await;
            }
        });
        vec![task!(s, r, {
            // In K, this section keeps the switch's grace period from ending.
            let g = rcu_read_lock();
            if state == "K" {
                s.x().read_once().await;
                c.kill().await;
            }
            if matches!(state, "Z" | "X") {
                c.put().await;
            }
            if state == "X" {
                c.exit();
            }
            let v = match op {
                "get" => {
                    c.get().await;
                    1
                }
                "put" => {
                    c.put().await;
                    1
                }
                "tryget" => i64::from(c.tryget().await),
                "tryget_live" => i64::from(c.tryget_live().await),
                "is_dying" => i64::from(c.is_dying()),
                _ => 0,
            };
            r.set("v", v);
            if let Some(n) = with(|m| c.peek_count(m)) {
                r.set("count", n);
            }
            r.set("released", s.y().get());
            drop(g);
        })]
    };
    let all = sc().config(|c| c.nr_cpus = 1).outcomes(&program);
    assert_eq!(all.len(), 1, "{state} {op}: {all:?}");
    all.into_keys().next().unwrap_or_default()
}

#[track_caller]
fn row(op: &'static str, cells: [&str; 5]) {
    for (state, want) in ["P", "K", "C", "Z", "X"].into_iter().zip(cells) {
        assert_eq!(in_state(state, op), want, "{op} in state {state}");
    }
}

#[test]
fn tryget_succeeds_until_the_count_is_zero() {
    row("tryget", ["count=3 released=0 v=1", "count=3 released=0 v=1", "count=2 released=0 v=1", "count=0 released=1 v=0", "Fatal LT-MEM-4"]);
}

#[test]
fn tryget_live_fails_once_dead_is_seen() {
    row("tryget_live", ["count=3 released=0 v=1", "count=2 released=0 v=0", "count=1 released=0 v=0", "count=0 released=1 v=0", "Fatal LT-MEM-4"]);
}

#[test]
fn get_adds_in_every_state_before_zero() {
    assert_eq!(in_state("P", "get"), "count=3 released=0 v=1");
    assert_eq!(in_state("K", "get"), "count=3 released=0 v=1");
    assert_eq!(in_state("C", "get"), "count=2 released=0 v=1");
    assert_eq!(in_state("X", "get"), "Fatal LT-MEM-4");
}

#[test]
fn put_releases_in_atomic_mode_only() {
    assert_eq!(in_state("P", "put"), "count=1 released=0 v=1");
    // The switch holds a reference of its own until its callback ran.
    assert_eq!(in_state("K", "put"), "count=1 released=0 v=1");
    assert_eq!(in_state("C", "put"), "count=0 released=1 v=1");
    assert_eq!(in_state("X", "put"), "Fatal LT-MEM-4");
}

#[test]
fn is_dying_from_the_kill_on() {
    row("is_dying", ["count=2 released=0 v=0", "count=2 released=0 v=1", "count=1 released=0 v=1", "count=0 released=1 v=1", "released=1 v=1"]);
}

/// A kill beside one operation of another task that owns a reference.
fn beside_kill(op: &'static str) -> impl Fn(Shared, Regs) -> Vec<Fut> {
    move |s, r| {
        let c = s.refcnt();
        c.init(release);
        vec![
            task!(s, r, {
                c.kill().await;
                s.x().write_once(1).await;
            }),
            task!(s, r, {
                let before = s.x().read_once().await;
                let ok = if op == "tryget_live" { c.tryget_live().await } else { c.tryget().await };
                let after = s.x().read_once().await;
                if ok {
                    c.put().await;
                }
                // 0: over before the killer said so; 1: it said so meanwhile; 2: began after that.
                r.set("kill", before + after);
                r.set("ok", i64::from(ok));
            }),
        ]
    }
}

#[test]
fn tryget_live_may_succeed_late_only_if_it_loaded_the_flags_before_the_kill() {
    sc().config(|c| c.nr_cpus = 1).by_states().check(&beside_kill("tryget_live"), &["kill=0 ok=0", "kill=0 ok=1", "kill=1 ok=0", "kill=1 ok=1", "kill=2 ok=0"]);
}

#[test]
fn tryget_may_succeed_even_if_it_began_after_the_kill() {
    sc().config(|c| c.nr_cpus = 1)
        .by_states()
        .check(&beside_kill("tryget"), &["kill=0 ok=0", "kill=0 ok=1", "kill=1 ok=0", "kill=1 ok=1", "kill=2 ok=0", "kill=2 ok=1"]);
}

#[test]
fn the_last_put_beside_a_kill_releases_exactly_once() {
    let program = |s: Shared, r: Regs| {
        s.todo().set(1);
        let c = s.refcnt();
        c.init(release);
        vec![
            task!(s, r, {
                c.kill().await;
            }),
            task!(s, r, {
                if c.tryget().await {
                    c.put().await;
                }
                s.wait_done().await;
                r.set("released", s.y().get());
            }),
        ]
    };
    sc().config(|c| c.nr_cpus = 1).by_states().check(&program, &["released=1"]);
}

#[test]
fn a_grace_period_lies_between_kill_and_release() {
    let program = |s: Shared, r: Regs| {
        let c = s.refcnt();
        c.init(release);
        vec![
            task!(s, r, {
                s.x().write_once(1).await;
                c.kill().await;
            }),
            task!(s, r, {
                let _g = rcu_read_lock();
                let killed = s.x().read_once().await;
                r.set("released", s.y().read_once().await);
                r.set("then", s.y().read_once().await);
                r.set("killed", killed);
            }),
        ]
    };
    // A section that began before the kill never sees the release; one that began later may.
    let all = sc().config(|c| c.nr_cpus = 1).by_states().outcomes(&program);
    assert!(all.contains_key("killed=1 released=0 then=1"), "{all:?}");
    assert!(all.keys().all(|k| !k.starts_with("killed=0") || k == "killed=0 released=0 then=0"), "{all:?}");
}

#[test]
fn a_second_kill_is_reported() {
    let program = |s: Shared, r: Regs| {
        let c = s.refcnt();
        c.init(release);
        vec![task!(s, r, {
            c.get().await;
            c.get().await;
            c.kill().await;
            c.kill().await;
        })]
    };
    let all = sc().config(|c| c.nr_cpus = 1).by_states().outcomes(&program);
    assert!(all.keys().all(|k| k.contains("LT-REF-3")), "{all:?}");
}
