//! Memory ordering: exact outcome sets of the usual shapes, with and without each barrier.
//!
//! Load buffering (both loads see the other task's later store) and writes to one cell seen in another order than they
//! happened are never produced, with or without barriers: see the header of `sync/weak.rs`.

use crate::support::{Regs, Shared, sc, weak};
use crate::task;
use wbmodel::sync::{Fut, smp_mb, smp_rmb, smp_wmb};

/// Store buffering with a full barrier on either side or not.
fn sb(mb0: bool, mb1: bool) -> impl Fn(Shared, Regs) -> Vec<Fut> {
    move |s, r| {
        vec![
            task!(s, r, {
                s.x().write_once(1).await;
                if mb0 {
                    smp_mb().await;
                }
                r.set("a", s.y().read_once().await);
            }),
            task!(s, r, {
                s.y().write_once(1).await;
                if mb1 {
                    smp_mb().await;
                }
                r.set("b", s.x().read_once().await);
            }),
        ]
    }
}

const SC_SB: [&str; 3] = ["a=0 b=1", "a=1 b=0", "a=1 b=1"];
const ALL_SB: [&str; 4] = ["a=0 b=0", "a=0 b=1", "a=1 b=0", "a=1 b=1"];

#[test]
fn store_buffering_needs_both_full_barriers() {
    sc().check(&sb(false, false), &SC_SB);
    weak().check(&sb(true, true), &SC_SB);
    weak().check(&sb(true, false), &ALL_SB);
    weak().check(&sb(false, true), &ALL_SB);
    weak().check(&sb(false, false), &ALL_SB);
}

#[test]
fn store_buffering_is_not_prevented_by_locks_of_their_own() {
    let program = |s: Shared, r: Regs| {
        vec![
            task!(s, r, {
                s.x().write_once(1).await;
                drop(s.lock().lock().await);
                r.set("a", s.y().read_once().await);
            }),
            task!(s, r, {
                s.y().write_once(1).await;
                drop(s.lock2().lock().await);
                r.set("b", s.x().read_once().await);
            }),
        ]
    };
    weak().check(&program, &ALL_SB);
}

/// ORD-1: counter against flag; the increment with or without an order of its own.
fn counter_and_flag(ordered_inc: bool, mb: bool) -> impl Fn(Shared, Regs) -> Vec<Fut> {
    move |s, r| {
        vec![
            task!(s, r, {
                if ordered_inc {
                    s.x().fetch_add(1).await;
                } else {
                    s.x().inc().await;
                }
                if mb {
                    smp_mb().await;
                }
                r.set("dead", s.y().read_once().await);
            }),
            task!(s, r, {
                s.y().write_once(1).await;
                smp_mb().await;
                r.set("nr", s.x().read_once().await);
            }),
        ]
    }
}

#[test]
fn a_void_atomic_is_no_barrier_and_one_with_a_result_is() {
    let sc_only = ["dead=0 nr=1", "dead=1 nr=0", "dead=1 nr=1"];
    let all = ["dead=0 nr=0", "dead=0 nr=1", "dead=1 nr=0", "dead=1 nr=1"];
    weak().check(&counter_and_flag(false, false), &all);
    weak().check(&counter_and_flag(false, true), &sc_only);
    weak().check(&counter_and_flag(true, false), &sc_only);
}

#[test]
fn bit_operations_order_only_with_a_result() {
    let program = |with_result: bool| {
        move |s: Shared, r: Regs| {
            vec![
                task!(s, r, {
                    s.x().write_once(1).await;
                    if with_result {
                        s.bits().test_and_set_bit(0).await;
                    } else {
                        s.bits().set_bit(0).await;
                    }
                    r.set("a", s.y().read_once().await);
                }),
                task!(s, r, {
                    s.y().write_once(1).await;
                    smp_mb().await;
                    r.set("b", s.x().read_once().await);
                }),
            ]
        }
    };
    weak().check(&program(true), &SC_SB);
    weak().check(&program(false), &ALL_SB);
}

#[test]
fn a_failed_compare_and_swap_is_no_barrier() {
    let program = |old: i64| {
        move |s: Shared, r: Regs| {
            vec![
                task!(s, r, {
                    s.x().write_once(1).await;
                    s.z().cmpxchg(old, 5).await;
                    r.set("a", s.y().read_once().await);
                }),
                task!(s, r, {
                    s.y().write_once(1).await;
                    smp_mb().await;
                    r.set("b", s.x().read_once().await);
                }),
            ]
        }
    };
    weak().check(&program(0), &SC_SB);
    weak().check(&program(7), &ALL_SB);
}

/// Message passing with either barrier or not.
fn mp(wmb: bool, rmb: bool) -> impl Fn(Shared, Regs) -> Vec<Fut> {
    move |s, r| {
        vec![
            task!(s, r, {
                s.x().write_once(1).await;
                if wmb {
                    smp_wmb();
                }
                s.y().write_once(1).await;
            }),
            task!(s, r, {
                r.set("flag", s.y().read_once().await);
                if rmb {
                    smp_rmb();
                }
                r.set("x", s.x().read_once().await);
            }),
        ]
    }
}

const SC_MP: [&str; 3] = ["flag=0 x=0", "flag=0 x=1", "flag=1 x=1"];
const ALL_MP: [&str; 4] = ["flag=0 x=0", "flag=0 x=1", "flag=1 x=0", "flag=1 x=1"];

#[test]
fn message_passing_needs_write_and_read_barrier() {
    sc().check(&mp(false, false), &SC_MP);
    weak().check(&mp(true, true), &SC_MP);
    weak().check(&mp(true, false), &ALL_MP);
    weak().check(&mp(false, true), &ALL_MP);
    weak().check(&mp(false, false), &ALL_MP);
}

#[test]
fn message_passing_by_release_and_acquire() {
    let program = |release: bool, acquire: bool| {
        move |s: Shared, r: Regs| {
            vec![
                task!(s, r, {
                    s.x().write_once(1).await;
                    if release {
                        s.y().store_release(1).await;
                    } else {
                        s.y().write_once(1).await;
                    }
                }),
                task!(s, r, {
                    let flag = if acquire { s.y().load_acquire().await } else { s.y().read_once().await };
                    r.set("flag", flag);
                    r.set("x", s.x().read_once().await);
                }),
            ]
        }
    };
    weak().check(&program(true, true), &SC_MP);
    weak().check(&program(true, false), &ALL_MP);
    weak().check(&program(false, true), &ALL_MP);
}

#[test]
fn a_release_orders_nothing_after_itself() {
    let program = |s: Shared, r: Regs| {
        vec![
            task!(s, r, {
                s.z().store_release(1).await;
                s.x().write_once(1).await;
                s.y().write_once(1).await;
            }),
            task!(s, r, {
                r.set("flag", s.y().load_acquire().await);
                r.set("x", s.x().read_once().await);
            }),
        ]
    };
    weak().check(&program, &ALL_MP);
}

#[test]
fn a_void_atomic_keeps_what_the_write_before_it_carries() {
    let program = |s: Shared, r: Regs| {
        vec![
            task!(s, r, {
                s.x().write_once(1).await;
                smp_wmb();
                s.y().write_once(1).await;
            }),
            task!(s, r, {
                s.y().inc().await;
            }),
            task!(s, r, {
                r.set("flag", i64::from(s.y().read_once().await == 2));
                smp_rmb();
                r.set("x", s.x().read_once().await);
            }),
        ]
    };
    // flag is set only where the increment came second.
    weak().check(&program, &SC_MP);
}

#[test]
fn loads_of_one_cell_never_go_back() {
    let program = |s: Shared, r: Regs| {
        vec![
            task!(s, r, {
                s.x().write_once(1).await;
                s.x().write_once(2).await;
            }),
            task!(s, r, {
                r.set("a", s.x().read_once().await);
                r.set("b", s.x().read_once().await);
            }),
        ]
    };
    weak().check(&program, &["a=0 b=0", "a=0 b=1", "a=0 b=2", "a=1 b=1", "a=1 b=2", "a=2 b=2"]);
}

#[test]
fn a_task_reads_its_own_write() {
    let program = |s: Shared, r: Regs| {
        vec![
            task!(s, r, {
                s.x().write_once(1).await;
                r.set("a", s.x().read_once().await);
            }),
            task!(s, r, {
                s.x().write_once(2).await;
            }),
        ]
    };
    weak().check(&program, &["a=1", "a=2"]);
}

/// Two writers, two readers that read in opposite orders.
fn iriw(barrier: &'static str) -> impl Fn(Shared, Regs) -> Vec<Fut> {
    move |s, r| {
        let fence = move || async move {
            match barrier {
                "mb" => smp_mb().await,
                "rmb" => smp_rmb(),
                _ => {}
            }
        };
        vec![
            task!(s, r, {
                s.x().write_once(1).await;
            }),
            task!(s, r, {
                s.y().write_once(1).await;
            }),
            task!(s, r, {
                r.set("a", s.x().read_once().await);
                fence().await;
                r.set("b", s.y().read_once().await);
            }),
            task!(s, r, {
                r.set("c", s.y().read_once().await);
                fence().await;
                r.set("d", s.x().read_once().await);
            }),
        ]
    }
}

#[test]
fn independent_reads_of_independent_writes_need_full_barriers() {
    let odd = "a=1 b=0 c=1 d=0";
    assert_eq!(weak().outcomes(&iriw("")).len(), 16);
    assert!(weak().outcomes(&iriw("rmb")).contains_key(odd));
    let mb = weak().outcomes(&iriw("mb"));
    assert_eq!(mb.len(), 15);
    assert!(!mb.contains_key(odd));
    assert_eq!(sc().outcomes(&iriw("")).len(), 15);
}

#[test]
fn load_buffering_is_not_produced() {
    let program = |s: Shared, r: Regs| {
        vec![
            task!(s, r, {
                r.set("a", s.y().read_once().await);
                s.x().write_once(1).await;
            }),
            task!(s, r, {
                r.set("b", s.x().read_once().await);
                s.y().write_once(1).await;
            }),
        ]
    };
    weak().check(&program, &["a=0 b=0", "a=0 b=1", "a=1 b=0"]);
}

/// Write-to-read causality: the middle task forwards with a full barrier or only a write barrier.
fn wrc(full: bool) -> impl Fn(Shared, Regs) -> Vec<Fut> {
    move |s, r| {
        vec![
            task!(s, r, {
                s.x().write_once(1).await;
            }),
            task!(s, r, {
                let a = s.x().read_once().await;
                if full {
                    smp_mb().await;
                } else {
                    smp_wmb();
                }
                s.y().write_once(a).await;
            }),
            task!(s, r, {
                r.set("flag", s.y().read_once().await);
                smp_rmb();
                r.set("x", s.x().read_once().await);
            }),
        ]
    }
}

#[test]
fn a_full_barrier_forwards_what_others_wrote_and_a_write_barrier_does_not() {
    weak().check(&wrc(true), &SC_MP);
    weak().check(&wrc(false), &ALL_MP);
}

#[test]
fn a_full_barrier_is_a_step_of_its_own() {
    // The other task sees x, runs its own barrier before this one, and then need not see the earlier store to w; but this task
    // must then see y. With the barrier glued to a neighbouring operation this outcome is lost.
    let program = |s: Shared, r: Regs| {
        vec![
            task!(s, r, {
                s.w().write_once(1).await;
                s.x().write_once(1).await;
                smp_mb().await;
                r.set("y", s.y().read_once().await);
            }),
            task!(s, r, {
                r.set("x", s.x().read_once().await);
                s.y().write_once(1).await;
                smp_mb().await;
                r.set("w", s.w().read_once().await);
            }),
        ]
    };
    let all = weak().outcomes(&program);
    assert!(all.contains_key("w=0 x=1 y=1"), "{all:?}");
    assert!(!all.contains_key("w=0 x=1 y=0"), "{all:?}");
}

#[test]
fn the_newest_value_is_seen_under_the_lock_that_protects_it() {
    let program = |s: Shared, r: Regs| {
        vec![
            task!(s, r, {
                let _g = s.lock().lock().await;
                s.x().set(s.x().get() + 1);
            }),
            task!(s, r, {
                let _g = s.lock().lock().await;
                s.x().set(s.x().get() + 1);
            }),
            task!(s, r, {
                let _g = s.lock2().lock().await;
                r.set("x", s.x().get());
            }),
        ]
    };
    // The third holds another lock: it may see any value, however late it runs.
    weak().check(&program, &["x=0", "x=1", "x=2"]);
    let both = |s: Shared, r: Regs| {
        vec![
            task!(s, r, {
                let _g = s.lock().lock().await;
                s.x().set(s.x().get() + 1);
                r.set("a", s.x().get());
            }),
            task!(s, r, {
                let _g = s.lock().lock().await;
                s.x().set(s.x().get() + 1);
                r.set("b", s.x().get());
            }),
        ]
    };
    weak().check(&both, &["a=1 b=2", "a=2 b=1"]);
}

#[test]
fn unlock_and_lock_forward_to_a_third_task() {
    let program = |s: Shared, r: Regs| {
        vec![
            task!(s, r, {
                let _g = s.lock().lock().await;
                s.x().set(1);
            }),
            task!(s, r, {
                let g = s.lock().lock().await;
                let a = s.x().get();
                drop(g);
                s.y().write_once(a).await;
            }),
            task!(s, r, {
                r.set("flag", s.y().read_once().await);
                smp_rmb();
                r.set("x", s.x().read_once().await);
            }),
        ]
    };
    weak().check(&program, &SC_MP);
}

/// ORD-15: data then flag test against flag clear then data test.
fn dirty_flag(mb0: bool, mb1: bool) -> impl Fn(Shared, Regs) -> Vec<Fut> {
    move |s, r| {
        vec![
            // __mark_inode_dirty: page dirtied, then the lockless flag test. x: flag (1: set), y: data to write.
            task!(s, r, {
                s.y().write_once(1).await;
                if mb0 {
                    smp_mb().await;
                }
                r.set("flag", s.z().read_once().await);
            }),
            // __writeback_single_inode: flag cleared, then the dirty mark tested. z: 0 while set, 1 once cleared.
            task!(s, r, {
                let g = s.lock().lock().await;
                s.z().set(1);
                if mb1 {
                    smp_mb().await;
                }
                r.set("seen", s.y().read_once().await);
                drop(g);
            }),
        ]
    }
}

#[test]
fn a_dirtying_is_missed_only_without_a_barrier() {
    let missed = "flag=0 seen=0";
    assert!(!weak().outcomes(&dirty_flag(true, true)).contains_key(missed));
    assert!(weak().outcomes(&dirty_flag(false, true)).contains_key(missed));
    assert!(weak().outcomes(&dirty_flag(true, false)).contains_key(missed));
}

#[test]
fn older_values_are_bounded_by_the_configuration() {
    weak().config(|c| c.max_stale = 0).check(&sb(false, false), &SC_SB);
    weak().config(|c| c.max_stale = 1).check(&sb(false, false), &ALL_SB);
}

#[test]
fn equal_state_hashes_mean_equal_futures() {
    #[track_caller]
    fn same(program: &dyn Fn(Shared, Regs) -> Vec<Fut>) {
        let all = weak().outcomes(program);
        let by_states = weak().by_states().outcomes(program);
        assert!(by_states.values().sum::<u64>() < all.values().sum::<u64>(), "nothing was cut");
        assert_eq!(all.keys().collect::<Vec<_>>(), by_states.keys().collect::<Vec<_>>());
    }
    for (a, b) in [(false, false), (true, false), (false, true), (true, true)] {
        same(&sb(a, b));
        same(&mp(a, b));
        same(&dirty_flag(a, b));
    }
    for b in ["", "rmb", "mb"] {
        same(&iriw(b));
    }
    for b in [false, true] {
        same(&wrc(b));
        same(&counter_and_flag(b, false));
    }
}
