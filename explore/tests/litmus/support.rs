//! Runs a small program under every schedule and every answer to its choices, and collects what came out.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;
use wbexplore::stepper::Stepper;
use wbexplore::strategy::Strategy;
use wbmodel::kstruct;
use wbmodel::linux::boot_globals;
use wbmodel::linux::lib::percpu_refcount::PercpuRef;
use wbmodel::sync::{
    Bits, Choice, Config, DelayedWork, End, Fut, Kind, Level, ListHead, Llist, Machine, Mutex, Pred, RadixTree, Rwsem, SpinLock, Var, WaitQueue, Work,
    immortal, kzalloc_nofail, spawn, wait_event, wake_up_all, with,
};

kstruct! {
    /// What the programs share.
    pub struct Shared: "s", "LT-MEM-1", shared_fields {
        x: Var<i64>,
        y: Var<i64>,
        z: Var<i64>,
        w: Var<i64>,
        bits: Bits,
        lock: SpinLock,
        lock2: SpinLock,
        mutex: Mutex,
        sem: Rwsem,
        wq: WaitQueue,
        work: Work,
        work2: Work,
        dwork: DelayedWork,
        head: ListHead,
        a: ListHead,
        b: ListHead,
        llist: Llist,
        tree: RadixTree,
        /// 1 until a callback ran, if the program waits for one.
        todo: Var<i64>,
        /// Woken when it did.
        todo_wq: WaitQueue,
        refcnt: PercpuRef,
    }
}

/// Where a task runs.
#[derive(Clone, Copy)]
pub struct Task {
    pub level: Level,
    pub cpu: Option<u32>,
}

impl Shared {
    /// The callback that somebody waits for ran.
    pub async fn done(self) {
        self.todo().write_once(0).await;
        wake_up_all(self.todo_wq()).await;
    }
    /// Waits for it.
    pub async fn wait_done(self) {
        wait_event(self.todo_wq(), self.todo().ptr(), Pred::Zero).await;
    }
}

/// Runs kernel text at boot, where operations happen at once.
pub fn at_boot(f: impl Future<Output = ()>) {
    wbmodel::sync::at_once(f);
}

/// Registers of a program: what its tasks saw.
#[derive(Clone, Default)]
pub struct Regs(Rc<RefCell<BTreeMap<&'static str, i64>>>);

impl Regs {
    pub fn set(&self, name: &'static str, v: i64) {
        self.0.borrow_mut().insert(name, v);
    }

    /// The one set that programs on this thread use.
    pub fn of_this_thread() -> Regs {
        REGS.with(Regs::clone)
    }

    /// What an execution came to, as text.
    pub fn text(&self, m: &Machine, end: End) -> String {
        let mut text: Vec<String> = self.0.borrow().iter().map(|(k, v)| format!("{k}={v}")).collect();
        if end != End::Complete {
            text.push(format!("{end:?}"));
        }
        text.extend(m.violations.iter().map(|v| v.rule.to_string()));
        text.join(" ")
    }
}

thread_local! {
    static REGS: Regs = Regs::default();
}

/// Depth-first enumeration of all decisions.
#[derive(Default)]
struct Dfs {
    path: Vec<(u32, u32)>,
    at: usize,
    /// Hashes of the states reached: an execution that arrives at one again is cut there.
    states: Option<HashSet<u64>>,
    every_start: bool,
}

impl Dfs {
    fn decide(&mut self, options: u32) -> u32 {
        if self.at == self.path.len() {
            self.path.push((0, options));
        }
        let (taken, known) = self.path[self.at];
        assert_eq!(known, options, "the program is not deterministic");
        self.at += 1;
        taken
    }
}

impl Strategy for Dfs {
    fn begin(&mut self, nth: u64) -> bool {
        self.at = 0;
        if nth == 0 {
            return true;
        }
        while let Some((taken, options)) = self.path.pop() {
            if taken + 1 < options {
                self.path.push((taken + 1, options));
                return true;
            }
        }
        false
    }
    fn pick(&mut self, m: &mut Machine, enabled: u64, _: Option<usize>) -> Option<usize> {
        // Starting a task commutes with everything, unless it occupies a shared CPU or a grace period has to wait for it.
        let starts = (0..m.tasks.len()).find(|&s| enabled & (1 << s) != 0 && m.tasks[s].pending.kind == Kind::Start);
        if !self.every_start && !m.config.shared_cpus && m.config.preempt_rcu && starts.is_some() {
            return starts;
        }
        if self.at == self.path.len()
            && let Some(states) = &mut self.states
            && !states.insert(m.state_hash())
        {
            return None;
        }
        let n = self.decide(enabled.count_ones());
        let mut rest = enabled;
        for _ in 0..n {
            rest &= rest - 1;
        }
        Some(rest.trailing_zeros() as usize)
    }
    fn choose(&mut self, _: &Machine, c: Choice) -> u32 {
        self.decide(c.arity())
    }
}

/// The machine that a program runs on, and how its executions are enumerated.
#[derive(Clone)]
pub struct Program {
    pub config: Config,
    pub weak: bool,
    most: u64,
    states: bool,
    every_start: bool,
}

/// Memory is sequentially consistent.
pub fn sc() -> Program {
    Program { config: Config::default(), weak: false, most: 200_000, states: false, every_start: false }
}

/// `x`, `y`, `z`, `w` and `bits` are weak.
pub fn weak() -> Program {
    let config = Config { weak: true, max_stale: 8, ..Config::default() };
    Program { config, weak: true, most: 400_000, states: false, every_start: false }
}

impl Program {
    pub fn config(mut self, f: impl Fn(&mut Config)) -> Program {
        f(&mut self.config);
        self
    }

    /// Cuts executions that arrive at a state with a known hash.
    pub fn by_states(mut self) -> Program {
        self.states = true;
        self
    }

    /// Tries every order of the tasks' first steps too.
    pub fn every_start(mut self) -> Program {
        self.every_start = true;
        self
    }

    /// Resets the machine and makes what programs share and their tasks.
    pub fn boot(&self, tasks: &dyn Fn(Shared, Regs) -> Vec<(Task, Fut)>) {
        Regs::of_this_thread().0.borrow_mut().clear();
        with(|m| {
            m.reset(self.config.clone());
            m.observe_on = self.states;
        });
        boot_globals();
        let s = Shared(kzalloc_nofail(Shared::TYPE));
        immortal(s.0);
        s.head().init();
        if self.weak {
            [s.x(), s.y(), s.z(), s.w()].into_iter().for_each(Var::weak);
            s.bits().weak();
        }
        for (i, (t, f)) in tasks(s, Regs::of_this_thread()).into_iter().enumerate() {
            spawn(i as u16, t.level, t.cpu, f);
        }
    }

    /// Every outcome, as text: registers in order of name, then how it ended if not complete, then broken rules. With counts.
    pub fn outcomes(&self, tasks: &dyn Fn(Shared, Regs) -> Vec<Fut>) -> BTreeMap<String, u64> {
        self.outcomes_in(&|s, r| plain(tasks(s, r)))
    }

    /// The same for tasks with a context.
    pub fn outcomes_in(&self, tasks: &dyn Fn(Shared, Regs) -> Vec<(Task, Fut)>) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        let dfs = Rc::new(RefCell::new(Dfs { states: self.states.then(HashSet::new), every_start: self.every_start, ..Dfs::default() }));
        let mut stepper = Stepper::new();
        for nth in 0.. {
            if !dfs.borrow_mut().begin(nth) {
                break;
            }
            assert!(nth < self.most, "more than {} executions", self.most);
            let end = stepper.run(&|| self.boot(tasks), &dfs);
            if end == End::Cut {
                continue;
            }
            *all.entry(with(|m| Regs::of_this_thread().text(m, end))).or_insert(0) += 1;
        }
        all
    }

    /// The program has exactly these outcomes.
    #[track_caller]
    pub fn check(&self, tasks: &dyn Fn(Shared, Regs) -> Vec<Fut>, expected: &[&str]) {
        compare(&self.outcomes(tasks), expected);
    }

    /// The same for tasks with a context.
    #[track_caller]
    pub fn check_in(&self, tasks: &dyn Fn(Shared, Regs) -> Vec<(Task, Fut)>, expected: &[&str]) {
        compare(&self.outcomes_in(tasks), expected);
    }
}

#[track_caller]
fn compare(all: &BTreeMap<String, u64>, expected: &[&str]) {
    let mut expected: Vec<&str> = expected.to_vec();
    expected.sort_unstable();
    let seen: Vec<&str> = all.keys().map(String::as_str).collect();
    assert_eq!(seen, expected, "counts: {all:?}");
}

/// Tasks in process context, each on a CPU of its own.
pub fn plain(tasks: Vec<Fut>) -> Vec<(Task, Fut)> {
    tasks.into_iter().map(|f| (Task { level: Level::Task, cpu: None }, f)).collect()
}

/// A task body that may use the shared object `$s` and the registers `$r`.
#[macro_export]
macro_rules! task {
    ($s:ident, $r:ident, $body:block) => {{
        let ($s, $r) = ($s, $r.clone());
        let _ = (&$s, &$r);
        Box::pin(async move { $body }) as wbmodel::sync::Fut
    }};
}
