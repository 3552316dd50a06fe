//! Small programs with known behaviour, built directly on the sync layer.

#![allow(dead_code)]

use std::cell::RefCell;
use std::collections::BTreeSet;
use wbexplore::{Budget, Search, Stats, explore};
use wbmodel::kstruct;
use wbmodel::sync::*;

kstruct! {
    /// Shared state of every toy.
    pub struct Toy: "toy", "LT-MEM-0", toy {
        x: Var<u64>,
        y: Var<u64>,
        z: Var<u64>,
        p: Var<Ptr>,
        lock: SpinLock,
        lock2: SpinLock,
        mutex: Mutex,
        sem: Rwsem,
        wq: WaitQueue,
        work: Work,
        work2: Work,
        dwork: DelayedWork,
        out: PerTask,
    }
}

/// A result cell for each of 8 user tasks.
#[derive(Clone, Copy)]
pub struct PerTask(Ptr);

impl Field for PerTask {
    const CELLS: u32 = 8;
    fn at(p: Ptr) -> Self {
        PerTask(p)
    }
}

impl PerTask {
    /// Result of task `i`.
    pub fn of(self, i: u16) -> Var<u64> {
        Var::at(self.0.add(u32::from(i)))
    }
}

pub const QUEUE: Workqueue = Workqueue { id: 1, max_active: 0 };
pub const ORDERED: Workqueue = Workqueue { id: 2, max_active: 1 };

/// Resets the machine and makes the shared object; it is the first allocation of boot.
pub fn world(config: Config) -> Toy {
    with(|m| m.reset(config));
    let t = Toy(kzalloc_nofail(Toy::TYPE));
    immortal(t.0);
    t
}

/// Starts user task `i`.
pub fn task(i: u16, body: impl Future<Output = ()> + 'static) {
    spawn(i, Level::Task, None, Box::pin(body));
}

/// End of an execution as seen from outside: how it ended, which rules broke, final contents of the shared object.
pub type Outcome = (String, Vec<&'static str>, Vec<u64>);

/// Runs a search to its end and gathers the outcomes.
pub fn outcomes(boot: &dyn Fn(), search: &Search, max: u64) -> (Stats, BTreeSet<Outcome>) {
    let seen = RefCell::new(BTreeSet::new());
    let budget = Budget { max_executions: max, count_traces: true, ..Budget::default() };
    let stats = explore(boot, search, &budget, &mut |e| {
        if e.end == End::Cut {
            return;
        }
        let rules: Vec<&'static str> = e.violations.iter().map(|v| v.rule).collect();
        let cells = with(|m| {
            let a = m.mem.allocs()[0];
            (0..toy::wq).chain(toy::out..Toy::SIZE).map(|k| m.mem.peek(a.base.add(k))).collect::<Vec<u64>>()
        });
        // Where a fatal violation strikes, the rest of the memory depends on who had come how far.
        let cells = if e.end == End::Fatal { Vec::new() } else { cells };
        seen.borrow_mut().insert((format!("{:?}", e.end), rules, cells));
    });
    (stats, seen.into_inner())
}
