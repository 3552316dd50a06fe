//! Soundness of the reductions: on generated small programs each reduced search has exactly the outcomes of plain enumeration.

mod toys;

use fastrand::Rng;
use toys::*;
use wbexplore::Search;
use wbmodel::container_of;
use wbmodel::sync::*;

/// One instruction of a generated task. `Var`s are named by number: 0 for x, 1 for y, 2 for z.
#[derive(Clone, Copy, Debug)]
enum Ins {
    Load(u8),
    Store(u8, u64),
    Add(u8),
    Cas(u8),
    Spin(u8),
    Spin2(u8),
    Mutex(u8),
    Read(u8),
    Write(u8),
    TryRead(u8),
    Wait,
    Wake,
    Queue,
    QueueOrdered(u8),
    Flush,
    Arm,
    Reader,
    FreeNow,
    FreeRcu,
    FreeSync,
    Faulty(u8),
    /// A call that looks at two cells and returns which is greater.
    Call(u8),
}

const ALL: [fn(&mut Rng) -> Ins; 21] = [
    |r| Ins::Load(r.u8(..3)),
    |r| Ins::Store(r.u8(..3), r.u64(1..4)),
    |r| Ins::Add(r.u8(..3)),
    |r| Ins::Cas(r.u8(..3)),
    |r| Ins::Spin(r.u8(..2)),
    |r| Ins::Spin2(r.u8(..2)),
    |r| Ins::Mutex(r.u8(..2)),
    |r| Ins::Read(r.u8(..2)),
    |r| Ins::Write(r.u8(..2)),
    |r| Ins::TryRead(r.u8(..2)),
    |_| Ins::Wait,
    |_| Ins::Wake,
    |_| Ins::Queue,
    |r| Ins::QueueOrdered(r.u8(..2)),
    |_| Ins::Flush,
    |_| Ins::Arm,
    |_| Ins::Reader,
    |_| Ins::FreeNow,
    |_| Ins::FreeRcu,
    |_| Ins::FreeSync,
    |r| Ins::Faulty(r.u8(..3)),
];

fn var(t: Toy, v: u8) -> Var<u64> {
    match v {
        0 => t.x(),
        1 => t.y(),
        _ => t.z(),
    }
}

/// Remembers a value that task `i` has seen.
fn saw(t: Toy, i: u16, v: u64) {
    let out = t.out().of(i);
    out.set(out.get() * 7 + v + 1);
}

fn plain(t: Toy, i: u16, v: u8) {
    let c = var(t, v);
    saw(t, i, c.get());
    c.set(c.get() * 3 + u64::from(i) + 1);
}

fn work_body(p: Ptr) -> Fut {
    let t = container_of!(Var::<u64>::at(p), Toy, toy::work);
    Box::pin(async move {
        let v = t.x().read_once().await;
        t.out().of(7).set(t.out().of(7).get() * 7 + v + 1);
        t.y().fetch_add(1).await;
    })
}

fn ordered_body<const OFF: u32>(p: Ptr) -> Fut {
    let t = Toy(p.sub(OFF));
    Box::pin(async move {
        t.z().write_once(u64::from(OFF)).await;
        let v = t.z().read_once().await;
        t.out().of(6).set(t.out().of(6).get() * 7 + v);
    })
}

async fn run(t: Toy, i: u16, ins: Ins) {
    match ins {
        Ins::Load(v) => saw(t, i, var(t, v).read_once().await),
        Ins::Store(v, n) => {
            var(t, v).write_once(n).await;
        }
        Ins::Add(v) => saw(t, i, var(t, v).fetch_add(1).await),
        Ins::Cas(v) => saw(t, i, var(t, v).cmpxchg(0, u64::from(i) + 5).await),
        Ins::Spin(v) => {
            let _g = t.lock().lock().await;
            plain(t, i, v);
            saw(t, i, t.z().read_once().await);
            plain(t, i, v);
        }
        Ins::Spin2(v) => {
            let _g = t.lock().lock().await;
            let _h = t.lock2().lock_irq().await;
            plain(t, i, v);
        }
        Ins::Mutex(v) => {
            let _g = t.mutex().lock().await;
            plain(t, i, v);
        }
        Ins::Read(v) => {
            let g = t.sem().read().await;
            saw(t, i, var(t, v).read_once().await);
            var(t, 1 - v).write_once(u64::from(i) + 1).await;
            g.up().await;
        }
        Ins::Write(v) => {
            let g = t.sem().write().await;
            plain(t, i, v);
            g.up().await;
        }
        Ins::TryRead(v) => match t.sem().try_read().await {
            Some(g) => {
                saw(t, i, var(t, v).read_once().await);
                g.up().await;
            }
            None => saw(t, i, 99),
        },
        Ins::Wait => wait_event(t.wq(), t.z().ptr(), Pred::Is(1)).await,
        Ins::Wake => {
            t.z().write_once(1).await;
            wake_up_all(t.wq()).await;
        }
        Ins::Queue => saw(t, i, queue_work(t.work()).await),
        Ins::QueueOrdered(n) => {
            if n == 0 {
                queue_work(t.work2()).await;
            } else {
                mod_delayed_work(t.dwork()).await;
            }
        }
        Ins::Flush => flush_work(t.work()).await,
        Ins::Arm => {
            queue_delayed_work(t.dwork()).await;
        }
        Ins::Reader => {
            let _r = rcu_read_lock();
            let p = t.p().read_once().await;
            if !p.is_null() {
                saw(t, i, Var::<u64>::at(p).read_once().await);
            }
        }
        Ins::FreeNow | Ins::FreeRcu | Ins::FreeSync => {
            let p = t.p().xchg(NULL).await;
            if p.is_null() {
                return;
            }
            match ins {
                Ins::FreeNow => kfree(p),
                Ins::FreeRcu => call_rcu(p, "free", |p| Box::pin(async move { kfree(p) })),
                _ => {
                    synchronize_rcu().await;
                    kfree(p);
                }
            }
        }
        Ins::Call(v) => {
            let call = Observed::begin();
            let (a, b) = (var(t, v).read_once().await, var(t, (v + 1) % 3).read_once().await);
            saw(t, i, u64::from(call.returns(a > b)));
        }
        Ins::Faulty(v) => {
            let n = u64::from(choose(Choice::Of("faulty", 3)));
            if n > 0 {
                saw(t, i, var(t, v).fetch_add(n).await);
            }
        }
    }
}

static OBJECT: TypeInfo = TypeInfo { label: "object", mem_rule: "LT-MEM-1", cells: 1, fields: &[] };

fn machine() -> Toy {
    let t = world(Config { timers: 1, ask: vec!["faulty"], max_faults: 1, ..Config::default() });
    t.work().init(WorkFn { name: "work", body: work_body }, QUEUE);
    t.work2().init(WorkFn { name: "work2", body: ordered_body::<{ toy::work2 }> }, ORDERED);
    t.dwork().init(WorkFn { name: "dwork", body: ordered_body::<{ toy::dwork }> }, ORDERED);
    let p = kzalloc_nofail(&OBJECT);
    immortal(p);
    t.p().set(p);
    t
}

fn boot(program: &[Vec<Ins>]) {
    let t = machine();
    for (i, body) in program.iter().enumerate() {
        let (i, body) = (i as u16, body.clone());
        task(i, async move {
            for ins in body {
                run(t, i, ins).await;
            }
        });
    }
}

/// Compares the searches on one program; false if plain enumeration is too long for it.
fn agree(program: &[Vec<Ins>], limit: u64) -> bool {
    let boot = || boot(program);
    let (dfs, all) = outcomes(&boot, &Search::Dfs { preemptions: None }, limit);
    if !dfs.exhaustive {
        return false;
    }
    let (st, reduced) = outcomes(&boot, &Search::Dpor, limit);
    assert!(st.exhaustive, "{program:?} {st:?}");
    assert_eq!(all, reduced, "partial-order reduction of {program:?}: {dfs:?} {st:?}");
    assert!(st.traces <= dfs.traces);
    if dfs.fatal == 0 {
        assert_eq!(st.traces, dfs.traces, "traces of {program:?}: {dfs:?} {st:?}");
        let whole = st.executions - st.cut;
        assert!(whole * 100 <= st.traces * 105, "{program:?}: {whole} executions for {} traces", st.traces);
    }
    let (st, cached) = outcomes(&boot, &Search::Cached, limit);
    assert!(st.exhaustive, "{program:?} {st:?}");
    assert_eq!(all, cached, "partial-order reduction with a cache of {program:?}: {dfs:?} {st:?}");
    let (st, cached) = outcomes(&boot, &Search::States { preemptions: None }, limit);
    assert!(st.exhaustive);
    assert_eq!(all, cached, "state caching of {program:?}: {dfs:?} {st:?}");
    let (_, all) = outcomes(&boot, &Search::Dfs { preemptions: Some(1) }, limit);
    let (_, cached) = outcomes(&boot, &Search::States { preemptions: Some(1) }, limit);
    assert_eq!(all, cached, "state caching with one preemption of {program:?}");
    true
}

fn generated(seed: u64, tasks: usize, len: usize, from: &[fn(&mut Rng) -> Ins]) -> Vec<Vec<Ins>> {
    let mut r = Rng::with_seed(seed);
    (0..tasks).map(|_| (0..r.usize(1..=len)).map(|_| from[r.usize(..from.len())](&mut r)).collect()).collect()
}

fn family(tasks: usize, len: usize, from: &[fn(&mut Rng) -> Ins], seeds: u64, least: usize) {
    let agreed = (0..seeds).filter(|&s| agree(&generated(s, tasks, len, from), 2_500)).count();
    assert!(agreed >= least, "only {agreed} programs were small enough to enumerate");
}

#[test]
fn two_tasks_of_any_instructions() {
    family(2, 4, &ALL, 80, 50);
}

#[test]
fn three_tasks_of_any_instructions() {
    family(3, 2, &ALL, 150, 25);
}

#[test]
fn memory_accesses() {
    family(3, 3, &ALL[..4], 60, 12);
}

#[test]
fn locks() {
    family(2, 3, &ALL[4..10], 80, 25);
}

#[test]
fn waits_and_work_items() {
    family(2, 4, &ALL[10..16], 100, 20);
}

#[test]
fn grace_periods() {
    family(3, 2, &ALL[16..20], 100, 20);
}

/// The same without anything that depends on which of the first tasks is which: they share one result.
fn boot_equal(program: &[Vec<Ins>], equals: u16) {
    let t = machine();
    for (i, body) in program.iter().enumerate() {
        let (i, body) = (i as u16, body.clone());
        let shown = if i < equals { 0 } else { i };
        task(i, async move {
            for ins in body {
                run(t, shown, ins).await;
            }
        });
    }
    (1..equals).for_each(|i| equal(i - 1, i));
}

/// Compares the search that lets one of equal tasks go first with plain enumeration, which does not; false if that is too long.
fn equals_agree(program: &[Vec<Ins>], equals: u16, limit: u64) -> bool {
    let (dfs, all) = outcomes(&|| boot_equal(program, equals), &Search::Dfs { preemptions: None }, limit);
    if !dfs.exhaustive {
        return false;
    }
    let (st, cached) = outcomes(&|| boot_equal(program, equals), &Search::Cached, limit);
    assert!(st.exhaustive, "{program:?} {st:?}");
    assert_eq!(all, cached, "equal tasks of {program:?}: {dfs:?} {st:?}");
    true
}

#[test]
fn calls_that_return_less_than_they_saw() {
    let from: [fn(&mut Rng) -> Ins; 5] = [ALL[0], ALL[1], ALL[2], ALL[4], |r| Ins::Call(r.u8(..3))];
    family(2, 4, &from, 80, 30);
}

#[test]
fn equal_tasks() {
    let mut agreed = 0;
    for seed in 0..150 {
        let mut r = Rng::with_seed(seed);
        let (equals, len) = [(3, 1), (2, 2), (2, 1)][seed as usize % 3];
        let body: Vec<Ins> = (0..len).map(|_| ALL[r.usize(..ALL.len())](&mut r)).collect();
        let mut program = vec![body; usize::from(equals)];
        if (equals, len) == (2, 1) {
            program.push(vec![ALL[r.usize(..ALL.len())](&mut r)]);
        }
        agreed += usize::from(equals_agree(&program, equals, 4_000));
    }
    assert!(agreed >= 75, "only {agreed} programs were small enough to enumerate");
}

#[test]
fn lock_users_that_are_equal_come_in_one_order() {
    let program = vec![vec![Ins::Spin(0), Ins::Spin(1)]; 3];
    let (st, _) = outcomes(&|| boot_equal(&program, 3), &Search::Cached, 100_000);
    let (without, _) = outcomes(&|| boot_equal(&program, 0), &Search::Cached, 100_000);
    assert!(st.exhaustive && without.exhaustive);
    assert!(st.states * 2 < without.states, "{st:?} {without:?}");
}

#[test]
fn a_task_that_waits_for_its_twin_alone_is_not_stuck() {
    // Who comes first waits for the other's read section, in which the other takes its first spinlock.
    let boot = |equals: bool| {
        let t = machine();
        for i in 0..2 {
            task(i, async move {
                if t.x().fetch_add(1).await == 0 {
                    synchronize_rcu().await;
                    t.y().write_once(1).await;
                } else {
                    let _reader = rcu_read_lock();
                    t.z().write_once(t.y().read_once().await + 1).await;
                    drop(t.lock().lock().await);
                }
            });
        }
        if equals {
            equal(0, 1);
        }
    };
    let (dfs, all) = outcomes(&|| boot(false), &Search::Dfs { preemptions: None }, 10_000);
    let (st, cached) = outcomes(&|| boot(true), &Search::Cached, 10_000);
    assert!(dfs.exhaustive && st.exhaustive && dfs.stuck == 0 && st.stuck == 0);
    assert_eq!(all, cached);
}
