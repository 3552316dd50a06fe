//! Steps per second on one bare program: 4 tasks, 8 rounds of (atomic add, load, lock, unlock). The peer is shuttle.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::cell::RefCell;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::Arc;
use wbexplore::stepper::Stepper;
use wbexplore::strategy::Strategy;
use wbexplore::{Budget, Scheduler, Search, explore};
use wbmodel::kstruct;
use wbmodel::sync::{Choice, Config, Level, Machine, Rwsem, Var, immortal, kzalloc_nofail, spawn, with};

const TASKS: u16 = 4;
const ROUNDS: u32 = 8;
/// Scheduling points of one execution: the first one of each task, then four a round.
const STEPS: u64 = TASKS as u64 * (ROUNDS as u64 * 4 + 1);

kstruct! {
    /// Shared state.
    pub struct Bare: "bare", "LT-MEM-0", bare {
        count: Var<i64>,
        flag: Var<u64>,
        sem: Rwsem,
    }
}

fn boot() {
    with(|m| m.reset(Config::default()));
    let b = Bare(kzalloc_nofail(Bare::TYPE));
    immortal(b.0);
    for i in 0..TASKS {
        spawn(
            i,
            Level::Task,
            None,
            Box::pin(async move {
                for _ in 0..ROUNDS {
                    b.count().fetch_add(1).await;
                    b.flag().read_once().await;
                    let g = b.sem().write().await;
                    g.up().await;
                }
            }),
        );
    }
}

/// Uniform choice with next to no cost, and with what the machine records made selectable.
struct Uniform {
    rng: fastrand::Rng,
    needs: (bool, bool),
}

impl Strategy for Uniform {
    fn begin(&mut self, _: u64) -> bool {
        true
    }
    fn pick(&mut self, m: &mut Machine, enabled: u64, _: Option<usize>) -> Option<usize> {
        if self.needs.1 {
            black_box(m.state_hash());
        }
        let mut mask = enabled;
        for _ in 0..self.rng.u32(..enabled.count_ones()) {
            mask &= mask - 1;
        }
        Some(mask.trailing_zeros() as usize)
    }
    fn choose(&mut self, _: &Machine, _: Choice) -> u32 {
        0
    }
    fn needs(&self) -> (bool, bool) {
        self.needs
    }
}

fn shuttle_program() {
    use shuttle::sync::atomic::{AtomicU64, Ordering};
    use shuttle::sync::{Mutex, atomic::AtomicI64};
    let shared = Arc::new((AtomicI64::new(0), AtomicU64::new(0), Mutex::new(())));
    let threads: Vec<_> = (0..TASKS)
        .map(|_| {
            let s = shared.clone();
            shuttle::thread::spawn(move || {
                for _ in 0..ROUNDS {
                    s.0.fetch_add(1, Ordering::SeqCst);
                    black_box(s.1.load(Ordering::SeqCst));
                    drop(s.2.lock());
                }
            })
        })
        .collect();
    for t in threads {
        let _ = t.join();
    }
}

fn steps(c: &mut Criterion) {
    let mut g = c.benchmark_group("bare");
    const EXECUTIONS: u64 = 200;
    g.throughput(Throughput::Elements(STEPS * EXECUTIONS)).sample_size(20);
    for (name, needs) in [("log", (false, false)), ("log+footprints", (true, false)), ("log+footprints+hashes", (true, true))] {
        g.bench_function(BenchmarkId::new("stepper", name), |b| {
            let strategy = Rc::new(RefCell::new(Uniform { rng: fastrand::Rng::with_seed(1), needs }));
            let mut stepper = Stepper::new();
            b.iter(|| {
                for _ in 0..EXECUTIONS {
                    stepper.run(&boot, &strategy);
                    assert_eq!(u64::from(stepper.steps), STEPS);
                }
            });
        });
    }
    for scheduler in [Scheduler::Random, Scheduler::Pct { depth: 3 }, Scheduler::Pos, Scheduler::Portfolio] {
        g.bench_function(BenchmarkId::new("explore", scheduler), |b| {
            b.iter(|| explore(&boot, &Search::sample(scheduler, 1), &Budget { max_executions: EXECUTIONS, ..Budget::default() }, &mut |_| {}));
        });
    }
    g.bench_function("shuttle random", |b| b.iter(|| shuttle::check_random(shuttle_program, EXECUTIONS as usize)));
    g.finish();
}

criterion_group!(benches, steps);
criterion_main!(benches);
