//! Worlds: turn a case into an execution.
//!
//! Main type: [`World`]. [`World::boot`] resets the machine, builds the kernel's globals, runs the setup to rest, and starts
//! the case's tasks; each performs its operations by calling mirrored functions the way their callers in the kernel do.
//! Contract: the same case gives the same machine. A case that asks for something senseless (a closed file, a cgroup that was
//! never made) gets an errno as the operation's result, and in the setup a violation of [`SETUP_RULE`]; it never panics.
//! Must not know: schedulers, reports.
//!
//! What a task uses it keeps: where another task may remove a cgroup, close a file or drop a device, the task lives in that
//! cgroup, has the file open or pins the device until its last operation that needs it, as a process would.

mod cgroup;
mod fs;
mod objects;
mod plan;
mod stats;

pub use objects::Objects;

use crate::cases::{self, Case, Irq, Op, Stmt};
use crate::linux::include::cgroup_defs::Cgroup;
use crate::linux::{Globals, boot_globals, globals, kernel, mm, set_globals};
use crate::mutants::{Mutant, hook_passed, mutant, pass_hook};
use crate::rules::{Rules, rules};
use crate::sync::{Config, End, Level, Machine, NULL, Ptr, Snapshot, Tp, cond_resched, emit, equal, fatal, immortal, join, report, spawn, with};
use objects::View;
use plan::{Place, Plan};
use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

/// Rule that a case breaks when its own setup or teardown fails.
pub const SETUP_RULE: &str = "CASE-SETUP";

/// Ticks a second of the modelled time.
const HZ: u64 = 100;

pub(crate) const EBADF: i64 = -9;
pub(crate) const EBUSY: i64 = -16;
pub(crate) const ENODEV: i64 = -19;
pub(crate) const ENOENT: i64 = -2;
pub(crate) const ENOMEM: i64 = -12;

struct Inner {
    case: Case,
    plan: Plan,
    config: Config,
    objects: RefCell<Objects>,
    booted: RefCell<Booted>,
}

/// A machine as the setup left it, and what was in force.
struct Kept {
    rules: Rules,
    mutant: Option<Mutant>,
    /// The mutant's hook was passed.
    passed: bool,
    globals: Globals,
    machine: Snapshot,
}

/// What the setup has led to, kept from the second boot on: most cases are executed once or many times.
enum Booted {
    Never,
    Once,
    Kept(Box<Kept>),
}

/// A case, ready to be executed any number of times.
#[derive(Clone)]
pub struct World(Rc<Inner>);

/// Names of choice points live as long as the program: there are few of them.
fn intern(name: &str) -> &'static str {
    thread_local! {
        static NAMES: RefCell<HashSet<&'static str>> = RefCell::default();
    }
    NAMES.with_borrow_mut(|names| match names.get(name) {
        Some(n) => n,
        None => {
            let n: &'static str = Box::leak(name.to_owned().into_boxed_str());
            names.insert(n);
            n
        }
    })
}

/// Settings of the machine that a case runs on.
pub fn config(case: &Case) -> Config {
    let m = &case.machine;
    Config {
        nr_cpus: m.cpus,
        preempt_rcu: m.preempt_rcu,
        timers: m.timers,
        ask: case.ask.iter().map(|a| intern(a)).collect(),
        max_faults: m.faults,
        shared_cpus: m.shared_cpus,
        weak: m.weak,
        max_stale: m.stale,
        max_steps: m.max_steps,
    }
}

/// Boots the world of `case` on this thread's machine; see [`World::boot`].
pub fn boot(case: &Case) {
    World::new(case).boot();
}

impl World {
    /// Prepares a case.
    pub fn new(case: &Case) -> World {
        World(Rc::new(Inner {
            case: case.clone(),
            plan: Plan::new(case),
            config: config(case),
            objects: RefCell::new(Objects::NULL),
            booted: RefCell::new(Booted::Never),
        }))
    }

    /// The case.
    pub fn case(&self) -> &Case {
        &self.0.case
    }

    /// Its machine's settings.
    pub fn config(&self) -> &Config {
        &self.0.config
    }

    /// Names of the tasks, for [`Machine::task_label`].
    pub fn task_names(&self) -> &[String] {
        &self.0.case.names.tasks
    }

    /// Name that the case gives to the object at `p`, in the last execution on this thread.
    pub fn name_of(&self, m: &Machine, p: Ptr) -> Option<&str> {
        let (objects, names) = (*self.0.objects.borrow(), &self.0.case.names);
        let tables = [
            (objects.bdis().slot(0), &names.bdis),
            (objects.cgroups().slot(0), &names.cgroups),
            (objects.sbs().slot(0), &names.sbs),
            (objects.inodes().slot(0), &names.inodes),
        ];
        let base = m.mem.alloc_of(p)?.base;
        tables.iter().find_map(|(first, names)| {
            let at = |i: usize| Ptr::from_word(m.mem.peek(first.ptr().add(i as u32)));
            (0..names.len()).find(|&i| at(i) == base).map(|i| names[i].as_str())
        })
    }

    /// Resets this thread's machine, builds the world and starts the tasks. Whoever drives the machine then calls
    /// [`Machine::finish_boot`], schedules, and calls [`Machine::finish`].
    pub fn boot(&self) {
        let inner = &self.0;
        if !self.restore() {
            self.build();
            self.keep();
        }
        for (i, t) in inner.case.tasks.iter().enumerate() {
            let level = match t.irq {
                Irq::None => Level::Task,
                Irq::Soft => Level::Softirq,
                Irq::Hard => Level::Hardirq,
            };
            let world = self.clone();
            spawn(i as u16, level, t.cpu, Box::pin(async move { world.run_task(i as u16).await }));
        }
        for &(leader, follower) in &inner.plan.equal {
            equal(leader, follower);
        }
        if !inner.case.teardown.is_empty() || !inner.case.names.wbs.is_empty() {
            let world = self.clone();
            with(|m| m.at_rest(move || world.tear_down()));
        }
    }

    /// The machine as the setup leaves it.
    fn build(&self) {
        let inner = &self.0;
        with(|m| m.reset(inner.config.clone()));
        boot_globals();
        crate::oracles::install();
        if let Some(policy) = inner.case.machine.stats {
            mm::memcontrol::stats::boot(policy, HZ);
        }
        kernel::cgroup::cgroup::boot();
        mm::backing_dev::boot();
        globals().dirty_background_pages().set(i64::from(inner.case.machine.background_pages));
        let objects = Objects::boot();
        *inner.objects.borrow_mut() = objects;
        objects.cgroups().slot(0).set(globals().root_cgroup().get().ptr());
        objects.css_ids().slot(0).set(Ptr(1));
        if inner.case.machine.stats.is_some() {
            Machine::settle(Box::pin(mm::memcontrol::stats::start_periodic_flush()));
        }
        for i in 0..inner.case.setup.len() {
            self.settle(Place::Setup, i);
        }
        self.settle_keeps();
    }

    fn keep(&self) {
        let booted = &mut *self.0.booted.borrow_mut();
        *booted = match booted {
            Booted::Never => Booted::Once,
            _ => match with(Machine::snapshot) {
                Some(machine) => Booted::Kept(Box::new(Kept { rules: rules(), mutant: mutant(), passed: hook_passed(), globals: globals(), machine })),
                None => Booted::Once,
            },
        };
    }

    /// Puts back what an earlier boot has led to, if nothing else is in force now.
    fn restore(&self) -> bool {
        let Booted::Kept(kept) = &*self.0.booted.borrow() else { return false };
        if kept.rules != rules() || kept.mutant != mutant() {
            return false;
        }
        with(|m| m.restore(&kept.machine));
        set_globals(kept.globals);
        if kept.passed {
            pass_hook();
        }
        true
    }

    fn tear_down(&self) -> End {
        for i in 0..self.0.case.teardown.len() {
            let end = self.settle_one(Place::Teardown, i);
            if end != End::Complete {
                return end;
            }
        }
        // What the case still keeps of wbs would look like a leak.
        let world = self.clone();
        let kept = (0..self.0.case.names.wbs.len()).map(|i| cases::WbRef(i as u16));
        let kept: Vec<_> = kept.filter(|w| !self.0.objects.borrow().wbs().slot(u32::from(w.0)).get().is_null()).collect();
        if kept.is_empty() {
            return End::Complete;
        }
        Machine::settle(Box::pin(async move {
            for w in kept {
                world.view(Place::Teardown).take_wb(w).await.put().await;
            }
        }))
    }

    fn body(&self, place: Place) -> &[Stmt] {
        let case = &self.0.case;
        match place {
            Place::Setup => &case.setup,
            Place::Task(t) => &case.tasks[usize::from(t)].body,
            Place::Teardown => &case.teardown,
        }
    }

    /// The operation as it is written, for messages.
    fn text(&self, place: Place, index: usize) -> String {
        cases::print_op(&self.body(place)[index].op, &self.0.case.names)
    }

    fn settle(&self, place: Place, index: usize) {
        let end = self.settle_one(place, index);
        if end != End::Complete {
            fatal(SETUP_RULE, format!("`{}` never comes to rest: {end:?}", self.text(place, index)));
        }
    }

    fn settle_one(&self, place: Place, index: usize) -> End {
        let world = self.clone();
        Machine::settle(Box::pin(async move {
            let err = world.perform(place, index).await;
            // A teardown may find that the case has done its work already.
            if err < 0 && place == Place::Setup {
                report(SETUP_RULE, format!("`{}` fails: {err}", world.text(place, index)));
            }
        }))
    }

    /// Takes what the tasks keep of the things that exist when they start.
    fn settle_keeps(&self) {
        for t in 0..self.0.case.tasks.len() {
            let keeps = &self.0.plan.keeps[t];
            if keeps.is_empty() {
                continue;
            }
            let world = self.clone();
            Machine::settle(Box::pin(async move {
                let (view, keeps) = (world.view(Place::Setup), &world.0.plan.keeps[t]);
                for (c, _) in &keeps.cgroups {
                    cgroup::enter(view.cgroup(*c).await).await;
                }
                for (i, _) in &keeps.inodes {
                    fs::keep(view, *i).await;
                }
                for (b, _) in &keeps.bdis {
                    cgroup::keep_bdi(view, *b).await;
                }
                for (s, _) in &keeps.sbs {
                    fs::keep_sb(view, *s).await;
                }
            }));
        }
    }

    fn view(&self, here: Place) -> View<'_> {
        View { objects: *self.0.objects.borrow(), plan: &self.0.plan, here }
    }

    async fn run_task(&self, task: u16) {
        let place = Place::Task(task);
        for i in 0..self.body(place).len() {
            emit(Tp::OpBegin, NULL, i as u64);
            let result = self.perform(place, i).await;
            emit(Tp::OpEnd, NULL, result as u64);
            self.leave(task, i).await;
            with(|m| m.forget(i as u64 + 1));
        }
    }

    /// Gives up what no later operation of the task needs.
    async fn leave(&self, task: u16, index: usize) {
        let (view, keeps) = (self.view(Place::Task(task)), &self.0.plan.keeps[usize::from(task)]);
        for (i, _) in keeps.inodes.iter().filter(|k| k.1 == index) {
            fs::unkeep(view, *i).await;
        }
        for (c, _) in keeps.cgroups.iter().filter(|k| k.1 == index) {
            cgroup::leave(view.cgroup(*c).await).await;
        }
        for (b, _) in keeps.bdis.iter().filter(|k| k.1 == index) {
            cgroup::unkeep_bdi(view, *b).await;
        }
        for (s, _) in keeps.sbs.iter().filter(|k| k.1 == index) {
            fs::unkeep_sb(view, *s).await;
        }
    }

    /// Performs one operation; 0 or more, or a negative errno.
    async fn perform(&self, place: Place, index: usize) -> i64 {
        let view = self.view(place);
        let op = &self.body(place)[index].op;
        if let Some(result) = cgroup::perform(view, op, self.immortal()).await {
            return result;
        }
        if let Some(result) = fs::perform(view, op, self.immortal()).await {
            return result;
        }
        if let Some(result) = stats::perform(view, op).await {
            return result;
        }
        match op {
            Op::Join { task } => {
                if place != Place::Task(task.0) {
                    join(task.0).await;
                }
            }
            Op::Noise { steps } => {
                for _ in 0..*steps {
                    cond_resched().await;
                }
            }
            Op::Tick { jiffies } => {
                globals().jiffies().fetch_add(u64::from(*jiffies)).await;
            }
            other => unreachable!("`{}` is performed nowhere", other.name()),
        }
        0
    }

    /// Without a teardown, what the case made may be alive at the end.
    fn immortal(&self) -> bool {
        self.0.case.teardown.is_empty()
    }
}

/// Marks an object that the case made as allowed to be alive at the end.
fn own(p: Ptr, is_immortal: bool) {
    if is_immortal {
        immortal(p);
    }
}

/// `Cgroup` that an operation may use, or why not.
fn usable(cgroup: Cgroup) -> Result<Cgroup, i64> {
    if cgroup.is_null() {
        return Err(ENOENT);
    }
    if cgroup.dead().get() { Err(ENODEV) } else { Ok(cgroup) }
}
