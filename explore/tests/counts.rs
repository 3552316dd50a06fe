//! Exact numbers of traces of programs for which the number is known.

mod toys;

use toys::*;
use wbexplore::Search;
use wbmodel::sync::*;

fn factorial(n: u64) -> u64 {
    (1..=n).product()
}

fn traces(boot: &dyn Fn()) -> (u64, u64, u64) {
    let (st, _) = outcomes(boot, &Search::Dpor, 2_000_000);
    assert!(st.exhaustive, "{st:?}");
    (st.complete, st.traces, st.cut)
}

#[test]
fn n_writers_of_one_cell_have_n_factorial_traces() {
    for n in 1..=5 {
        let boot = move || {
            let t = world(Config::default());
            for i in 0..n {
                task(i, async move {
                    t.x().write_once(u64::from(i) + 1).await;
                });
            }
        };
        assert_eq!(traces(&boot), (factorial(n.into()), factorial(n.into()), 0));
    }
}

#[test]
fn independent_tasks_have_one_trace() {
    for n in 1..=5 {
        let boot = move || {
            let t = world(Config::default());
            for i in 0..n {
                task(i, async move {
                    for k in 1..4 {
                        t.out().of(i).write_once(k).await;
                        t.x().read_once().await;
                    }
                });
            }
        };
        assert_eq!(traces(&boot), (1, 1, 0));
    }
}

#[test]
fn n_lock_users_have_n_factorial_traces() {
    for n in 1..=4 {
        let boot = move || {
            let t = world(Config::default());
            for i in 0..n {
                task(i, async move {
                    let _g = t.lock().lock().await;
                    t.x().set(t.x().get() * 10 + u64::from(i));
                    t.y().read_once().await;
                    t.x().set(t.x().get() + 1);
                });
            }
        };
        let (complete, traces, cut) = traces(&boot);
        assert_eq!((complete, traces), (factorial(n.into()), factorial(n.into())));
        assert!(cut <= 3 * complete, "{cut}");
    }
}

#[test]
fn readers_beside_one_writer_each_see_it_before_or_after() {
    for n in 1..=4 {
        let boot = move || {
            let t = world(Config::default());
            task(0, async move {
                t.x().write_once(1).await;
            });
            for i in 1..=n {
                task(i, async move {
                    t.out().of(i).set(t.x().read_once().await);
                });
            }
        };
        let (complete, traces, _) = traces(&boot);
        assert_eq!((complete, traces), (1 << n, 1 << n));
    }
}

#[test]
fn readers_of_a_rwsem_do_not_order_each_other() {
    for n in 1..=4 {
        let boot = move || {
            let t = world(Config::default());
            task(0, async move {
                let _g = t.sem().write().await;
            });
            for i in 1..=n {
                task(i, async move {
                    let _g = t.sem().read().await;
                });
            }
        };
        let (complete, traces, _) = traces(&boot);
        assert_eq!((complete, traces), (1 << n, 1 << n));
    }
}
