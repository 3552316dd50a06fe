//! Sampling: executions have exact names, and every scheduler meets what it is made for.

mod toys;

use toys::*;
use wbexplore::schedulers::PORTFOLIO;
use wbexplore::{Budget, Decision, Scheduler, Search, explore};
use wbmodel::sync::*;

/// A reader without a read section meets an object that is freed under it; two bystanders make noise.
fn boot() {
    static OBJECT: TypeInfo = TypeInfo { label: "object", mem_rule: "LT-MEM-1", cells: 1, fields: &[] };
    let t = world(Config { ask: vec!["noise"], max_faults: 2, ..Config::default() });
    t.p().set(kzalloc_nofail(&OBJECT));
    task(0, async move {
        let p = t.p().read_once().await;
        if !p.is_null() {
            Var::<u64>::at(p).read_once().await;
        }
    });
    task(1, async move {
        let p = t.p().xchg(NULL).await;
        call_rcu(p, "free", |p| Box::pin(async move { kfree(p) }));
    });
    for i in 2..4 {
        task(i, async move {
            for _ in 0..3 {
                let n = choose(Choice::Of("noise", 3));
                t.x().fetch_add(u64::from(n)).await;
            }
        });
    }
}

fn sampled(scheduler: Scheduler, seed: u64, first: u64, stride: u64, n: u64) -> Vec<Vec<Decision>> {
    let mut all = Vec::new();
    let budget = Budget { max_executions: n, ..Budget::default() };
    explore(&boot, &Search::Sample { scheduler, seed, first, stride }, &budget, &mut |e| all.push(e.decisions.to_vec()));
    all
}

#[test]
fn seed_and_index_name_an_execution() {
    for s in PORTFOLIO.into_iter().chain([Scheduler::Portfolio]) {
        let all = sampled(s, 7, 0, 1, 40);
        assert_eq!(all, sampled(s, 7, 0, 1, 40), "{s}");
        assert_eq!(all[3..4], sampled(s, 7, 3, 1, 1), "{s}");
        let third: Vec<_> = all.iter().skip(1).step_by(3).take(5).cloned().collect();
        assert_eq!(third, sampled(s, 7, 1, 3, 5), "{s}");
        assert_ne!(all, sampled(s, 8, 0, 1, 40), "{s}");
    }
}

#[test]
fn every_scheduler_finds_a_use_after_free() {
    for s in PORTFOLIO.into_iter().chain([Scheduler::Portfolio]) {
        let mut found = 0;
        let budget = Budget { max_executions: 3000, ..Budget::default() };
        explore(&boot, &Search::sample(s, 1), &budget, &mut |e| found += u64::from(e.violations.iter().any(|v| v.rule == "LT-MEM-1")));
        assert!(found > 0, "{s}");
    }
}

#[test]
fn faults_stay_within_the_configured_number() {
    let mut most = 0;
    let budget = Budget { max_executions: 2000, ..Budget::default() };
    explore(&boot, &Search::sample(Scheduler::Portfolio, 1), &budget, &mut |e| {
        most = most.max(e.decisions.iter().filter(|d| matches!(d, Decision::Choice { value: 1.., .. })).count());
    });
    assert_eq!(most, 2);
}

#[test]
fn budgets_end_a_search_and_it_says_so() {
    let budget = Budget { max_executions: 5, ..Budget::default() };
    let st = explore(&boot, &Search::Dpor, &budget, &mut |_| {});
    assert_eq!((st.executions, st.exhaustive), (5, false));
    let budget = Budget { stop: &|| true, ..Budget::default() };
    let st = explore(&boot, &Search::States { preemptions: None }, &budget, &mut |_| {});
    assert_eq!((st.executions, st.exhaustive), (1, false));
}

#[test]
fn preemptions_are_counted_as_switches_away_from_a_task_that_could_go_on() {
    for bound in 0..3 {
        let mut most = 0;
        let st = explore(&boot, &Search::Dfs { preemptions: Some(bound) }, &Budget { max_executions: 20_000, ..Budget::default() }, &mut |e| {
            most = most.max(e.decisions.iter().filter(|d| matches!(d, Decision::Task { preempts: true, .. })).count());
        });
        assert_eq!((most, st.bound), (bound as usize, Some(bound)));
    }
}
