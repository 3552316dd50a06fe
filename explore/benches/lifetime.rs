//! One lifetime case with all oracles, uniform random schedules: the stepper against shuttle.
//!
//! Same text, same machine, same oracles; only who holds the tasks differs. Shuttle runs them all in one `Runner`, which is its best.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::path::Path;
use wbexplore::shuttle::{self, Options};
use wbexplore::{Budget, Scheduler, Search, explore};
use wbmodel::cases::{self, Case};
use wbmodel::rules::{Rules, set_rules};
use wbmodel::world::World;

const EXECUTIONS: u64 = 200;
const SEED: u64 = 1;

fn on_stepper(world: &World) -> u64 {
    let budget = Budget { max_executions: EXECUTIONS, ..Budget::default() };
    explore(&|| world.boot(), &Search::sample(Scheduler::Random, SEED), &budget, &mut |_| {}).steps
}

fn on_shuttle(case: &Case) -> u64 {
    thread_local! {
        /// Shuttle's tasks share one thread, but its signature wants what can be sent.
        static WORLD: std::cell::OnceCell<World> = const { std::cell::OnceCell::new() };
    }
    let case = case.clone();
    let boot = move || WORLD.with(|w| w.get_or_init(|| World::new(&case)).boot());
    let options = Options { scheduler: shuttle::Scheduler::Random, iterations: EXECUTIONS as usize, seed: SEED, first_only: false };
    shuttle::run(options, boot, |_, _| {}).steps
}

fn lifetime(c: &mut Criterion) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/cases/removed-owner.kdl");
    let case = cases::load(&file).unwrap_or_else(|e| panic!("{e}"));
    set_rules(Rules::mainline());
    let world = World::new(&case);
    let mut g = c.benchmark_group("removed-owner");
    // Other schedules have other lengths: each engine is credited with the steps that it did.
    g.sample_size(20).throughput(Throughput::Elements(on_stepper(&world)));
    g.bench_function(BenchmarkId::new("stepper", "random"), |b| b.iter(|| on_stepper(&world)));
    g.throughput(Throughput::Elements(on_shuttle(&case)));
    g.bench_function(BenchmarkId::new("shuttle", "random"), |b| b.iter(|| on_shuttle(&case)));
    g.finish();
}

criterion_group!(benches, lifetime);
criterion_main!(benches);
