//! The program of the bench `steps`, or with a file name that case, under a fixed random strategy, for counting instructions: see
//! `ci/callgrind.sh`.

use std::cell::RefCell;
use std::rc::Rc;
use wbexplore::stepper::Stepper;
use wbexplore::strategy::Strategy;
use wbmodel::cases;
use wbmodel::kstruct;
use wbmodel::sync::{Choice, Config, Level, Machine, SpinLock, Var, immortal, kzalloc_nofail, spawn, with};
use wbmodel::world::World;

const EXECUTIONS: u64 = 1000;

kstruct! {
    /// Shared state.
    pub struct Bare: "bare", "LT-MEM-0", bare {
        count: Var<i64>,
        flag: Var<u64>,
        lock: SpinLock,
    }
}

fn boot() {
    with(|m| m.reset(Config::default()));
    let b = Bare(kzalloc_nofail(Bare::TYPE));
    immortal(b.0);
    for i in 0..4 {
        let body = async move {
            for _ in 0..8 {
                b.count().fetch_add(1).await;
                b.flag().read_once().await;
                drop(b.lock().lock().await);
            }
        };
        spawn(i, Level::Task, None, Box::pin(body));
    }
}

/// Uniform choice by a generator with next to no cost.
struct Uniform {
    state: u64,
    steps: u64,
}

impl Strategy for Uniform {
    fn begin(&mut self, _: u64) -> bool {
        true
    }
    fn pick(&mut self, _: &mut Machine, enabled: u64, _: Option<usize>) -> Option<usize> {
        self.steps += 1;
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let n = (self.state >> 33) as u32 % enabled.count_ones();
        let rest = (0..n).fold(enabled, |rest, _| rest & (rest - 1));
        Some(rest.trailing_zeros() as usize)
    }
    fn choose(&mut self, _: &Machine, _: Choice) -> u32 {
        0
    }
}

#[inline(never)]
fn measured(stepper: &mut Stepper, boot: &dyn Fn(), strategy: &Rc<RefCell<Uniform>>) {
    for _ in 0..EXECUTIONS {
        stepper.run(boot, strategy);
    }
}

fn main() {
    let world = std::env::args().nth(1).map(|file| World::new(&cases::load(file.as_ref()).unwrap_or_else(|e| panic!("{e}"))));
    let boot = || world.as_ref().map_or_else(boot, World::boot);
    let mut stepper = Stepper::new();
    let strategy = Rc::new(RefCell::new(Uniform { state: 1, steps: 0 }));
    // The first executions grow and keep what later ones reuse.
    for _ in 0..3 {
        stepper.run(&boot, &strategy);
    }
    strategy.borrow_mut().steps = 0;
    measured(&mut stepper, &boot, &strategy);
    println!("{EXECUTIONS} executions, {} steps", strategy.borrow().steps);
}
