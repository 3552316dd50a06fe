//! One execution's whole state, and the meaning of every operation.

use super::choose::Choice;
use super::event::{End, Event, Kfn, Tp, Violation, Watch, fatal_in};
use super::lockdep::{Held, Lockdep};
use super::mem::{Access, Memory, NULL, Ptr, mix};
use super::op::{BLIND, Kind, Mode, Op, Pred};
use super::task::{BOOT, Fut, Names, Spawn, Task, TaskLabel, TaskName};
use super::weak::Weak;
use super::work::WorkState;
use std::cell::RefCell;
use std::panic::Location;
use std::task::{Context, Waker};

/// Settings of the modelled machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Per-CPU slots of per-CPU variables.
    pub nr_cpus: u32,
    /// Preemptible RCU: a grace period waits for read sections only. Otherwise it also waits for every running task to block.
    pub preempt_rcu: bool,
    /// How often timers of delayed work may fire in one execution.
    pub timers: u32,
    /// Allocation sites that may fail, and named choices that are asked; an empty list answers 0 everywhere.
    pub ask: Vec<&'static str>,
    /// How many choices may be answered other than 0 in one execution.
    pub max_faults: u32,
    /// Several tasks may share a CPU, so that interrupt state and preemption decide who can run.
    pub shared_cpus: bool,
    /// Cells declared weak follow the kernel's memory model instead of being sequentially consistent.
    pub weak: bool,
    /// How many loads may return a value other than the newest in one execution.
    pub max_stale: u32,
    /// Steps after which an execution counts as not ending.
    pub max_steps: u32,
}

impl Default for Config {
    fn default() -> Self {
        Config { nr_cpus: 4, preempt_rcu: true, timers: 0, ask: Vec::new(), max_faults: 1, shared_cpus: false, weak: false, max_stale: 3, max_steps: 20_000 }
    }
}

impl Config {
    pub(super) fn asks(&self, c: Choice) -> bool {
        matches!(c, Choice::Stale(_)) || self.ask.contains(&c.name())
    }
}

/// One execution.
pub struct Machine {
    /// The cells.
    pub mem: Memory,
    /// Task slots.
    pub tasks: Vec<Task>,
    /// Slot of the running task.
    pub current: usize,
    /// Settings.
    pub config: Config,
    /// Committed events, in order; event 0 is a placeholder for initial values.
    pub log: Vec<Event>,
    /// Violations so far, at most one a rule.
    pub violations: Vec<Violation>,
    /// The execution stopped early.
    pub aborted: bool,
    /// Operations happen at once, without scheduling (boot).
    pub immediate: bool,
    /// Tasks that the driver has not adopted yet.
    pub spawned: Vec<Spawn>,
    /// Choices asked so far.
    pub choices_asked: u32,
    /// Keep the log; on after each reset. Off, nothing is known about the past of a long run: reads have no writers.
    pub log_on: bool,
    /// Keep observation hashes (state caching).
    pub observe_on: bool,
    /// Of equal tasks ([`equal`](super::equal)) one goes first.
    pub twins_on: bool,
    /// Watcher of events.
    pub watch: Option<Box<dyn Watch>>,
    pub(super) names: Names,
    pub(super) lockdep: Lockdep,
    pub(super) works: Vec<WorkState>,
    pub(super) weak: Weak,
    pub(super) twins: Vec<super::twins::Twins>,
    pub(super) callbacks: Vec<Ptr>,
    pub(super) timers_fired: u32,
    /// A fixed schedule is under way ([`Machine::settle`]): nobody is asked anything.
    pub(super) settling: bool,
    pub(super) at_rest: Option<super::settle::AtRest>,
    pub(super) parked_boot: Vec<Spawn>,
    pub(super) gps: u32,
    /// Place, from 1, in the footprint where the running task became a reader in this step; 0 if it did not.
    entered: usize,
    /// Slots of live tasks whose operation cannot block.
    pub(super) ready: u64,
    /// Slots of live tasks whose operation may have to wait.
    pub(super) may_block: u64,
    /// Snapshots taken.
    pub(super) snapshots: u64,
    /// Number of the snapshot whose log is the beginning of this one's; 0 if there is none.
    pub(super) log_of: u64,
}

thread_local! {
    static MACHINE: RefCell<Machine> = RefCell::new(Machine::new());
}

/// Runs `f` on this thread's machine. Not re-entrant: the sync layer is the only caller inside kernel text.
#[inline]
pub fn with<R>(f: impl FnOnce(&mut Machine) -> R) -> R {
    MACHINE.with(|m| f(&mut m.borrow_mut()))
}

impl Machine {
    fn new() -> Machine {
        let mut m = Machine {
            mem: Memory::new(),
            tasks: Vec::new(),
            current: 0,
            config: Config::default(),
            log: Vec::with_capacity(4096),
            violations: Vec::new(),
            aborted: false,
            immediate: false,
            spawned: Vec::new(),
            choices_asked: 0,
            log_on: true,
            observe_on: false,
            twins_on: false,
            watch: None,
            names: Names::default(),
            lockdep: Lockdep::default(),
            works: Vec::new(),
            weak: Weak::default(),
            twins: Vec::new(),
            callbacks: Vec::new(),
            timers_fired: 0,
            settling: false,
            at_rest: None,
            parked_boot: Vec::new(),
            gps: 0,
            entered: 0,
            ready: 0,
            may_block: 0,
            snapshots: 0,
            log_of: 0,
        };
        m.reset(Config::default());
        m
    }

    /// Forgets the last execution and enters boot: slot 0 is the boot task and operations happen at once.
    pub fn reset(&mut self, config: Config) {
        self.mem.reset();
        for t in &mut self.tasks {
            t.live = false;
            t.name = TaskName(0);
        }
        self.config = config;
        self.log_on = true;
        self.log.clear();
        self.log_of = 0;
        self.violations.clear();
        self.aborted = false;
        self.spawned.clear();
        self.choices_asked = 0;
        self.lockdep.reset();
        self.works.clear();
        self.weak.reset();
        self.callbacks.clear();
        self.twins.clear();
        self.timers_fired = 0;
        self.gps = 0;
        self.ready = 0;
        self.may_block = 0;
        self.parked_boot.clear();
        self.watch = None;
        self.settling = false;
        self.at_rest = None;
        if self.tasks.is_empty() {
            self.tasks.push(Task::vacant());
        }
        self.tasks[0] = Task { name: BOOT, label: TaskLabel::Boot, live: true, ..Task::vacant() };
        self.current = 0;
        self.immediate = true;
        self.commit(Kind::Start, Tp::Note, NULL, 0, 0, Location::caller());
    }

    /// Number of events committed.
    #[inline]
    pub fn log_len(&self) -> u32 {
        self.log.len() as u32
    }

    /// Name of the running task.
    pub fn current_name(&self) -> TaskName {
        self.tasks[self.current].name
    }

    /// CPU index of the running task for per-CPU variables.
    pub fn this_cpu(&self) -> u32 {
        self.tasks[self.current].cpu % self.config.nr_cpus
    }

    /// Remembers a value that the running task has observed.
    #[inline]
    pub fn observe(&mut self, v: u64) {
        if self.observe_on {
            let t = &mut self.tasks[self.current];
            t.obs = mix(t.obs, v);
        }
    }

    /// Declares that the running task's future depends on nothing it has observed before, except `keep`.
    pub fn forget(&mut self, keep: u64) {
        let t = &mut self.tasks[self.current];
        t.obs = mix(u64::from(t.name.0), keep);
    }

    /// Records a violation of `rule`, once an execution.
    pub fn report(&mut self, rule: &'static str, detail: String) {
        if !self.aborted && !self.violations.iter().any(|v| v.rule == rule) {
            self.violations.push(Violation { rule, detail, at: self.log_len().saturating_sub(1), task: self.current_name(), fatal: false });
        }
    }

    /// Appends an event and shows it to the watcher.
    #[inline]
    pub fn commit(&mut self, kind: Kind, tp: Tp, obj: Ptr, val: u64, rf: u32, site: &'static Location<'static>) {
        if !self.log_on {
            return;
        }
        let t = &self.tasks[self.current];
        let func: Option<&'static Kfn> = t.stack.last().copied();
        let e = Event { task: t.name, kind, tp, obj, rf, val, site, func };
        self.log.push(e);
        if self.watch.is_some() {
            self.show(&e);
        }
    }

    #[inline(never)]
    fn show(&mut self, e: &Event) {
        if let Some(mut w) = self.watch.take() {
            w.event(self, e);
            self.watch = Some(w);
        }
    }

    /// A sleeping primitive was reached: legal only in process context with nothing held.
    pub fn might_sleep(&mut self, what: &str) {
        let t = &self.tasks[self.current];
        if t.atomic() && !self.immediate {
            let (irq, pre, rcu, level) = (t.irq_off, t.preempt_off, t.rcu, t.level);
            let held: Vec<String> = t.held.iter().map(|h| self.mem.name(h.lock)).collect();
            self.report(
                "LT-LOCK-2",
                format!("{what} in atomic context: irqs off {irq}, preemption off {pre}, RCU readers {rcu}, level {level:?}, held [{}]", held.join(", ")),
            );
        }
    }

    /// The running task announces its next operation.
    #[inline]
    pub fn announce(&mut self, op: Op, site: &'static Location<'static>) {
        if op.kind.sleeps() {
            self.announce_sleep(op);
        }
        let t = &mut self.tasks[self.current];
        t.pending = op;
        t.site = site;
        self.note_pending(self.current, op.kind);
    }

    /// Keeps account of which slots can always go on and which have to be asked.
    #[inline]
    pub(super) fn note_pending(&mut self, s: usize, kind: Kind) {
        let (slot, blocks) = (1 << s, kind.can_block());
        self.ready = if blocks { self.ready & !slot } else { self.ready | slot };
        // A timer without a budget never fires.
        let asked = blocks && (kind != Kind::TimerFire || self.timers_fired < self.config.timers);
        self.may_block = if asked { self.may_block | slot } else { self.may_block & !slot };
    }

    fn announce_sleep(&mut self, op: Op) {
        if matches!(op.kind, Kind::FlushBegin | Kind::FlushWait) {
            let cur = self.current;
            self.lockdep_wait(cur, op.obj);
        }
        if self.tasks[self.current].atomic() {
            let what = format!("{:?} of {}", op.kind, if op.obj.is_null() { String::new() } else { self.mem.name(op.obj) });
            self.might_sleep(&what);
        }
    }

    /// Could the operation that slot `s` announced happen now?
    pub fn enabled(&mut self, s: usize) -> bool {
        let op = self.tasks[s].pending;
        if self.config.shared_cpus && !self.cpu_allows(s) {
            return false;
        }
        if !op.kind.can_block() {
            return true;
        }
        match op.kind {
            Kind::SpinLock if !self.twins.is_empty() && self.twin_waits(s) => false,
            Kind::SpinLock | Kind::MutexLock | Kind::DownWrite => self.mem.peek(op.obj) == 0,
            Kind::DownRead => self.mem.peek(op.obj) & WRITER == 0,
            Kind::GpEnd | Kind::RcuCallback => self.gp_over(s),
            Kind::WorkBegin => self.gp_over(s) && self.work_may_begin(op.obj),
            Kind::TimerFire => self.timer_may_fire(op),
            Kind::FlushWait => self.work_done(op.obj, self.tasks[s].flush_target),
            Kind::Sleep => self.mem.peek(op.obj) & (1 << s) == 0,
            Kind::Join => !self.tasks.iter().any(|t| t.live && u64::from(t.name.0) == op.a),
            _ => true,
        }
    }

    /// Bit mask of the slots whose operation could happen now.
    pub fn enabled_mask(&mut self) -> u64 {
        let mut mask = 0;
        if self.config.shared_cpus {
            for s in 0..self.tasks.len() {
                if self.tasks[s].live && self.enabled(s) {
                    mask |= 1 << s;
                }
            }
        } else {
            mask = self.ready;
            let mut ask = self.may_block;
            while ask != 0 {
                let s = ask.trailing_zeros() as usize;
                ask &= ask - 1;
                let op = &self.tasks[s].pending;
                let goes = match op.kind {
                    Kind::SpinLock | Kind::MutexLock | Kind::DownWrite if self.twins.is_empty() => self.mem.peek(op.obj) == 0,
                    _ => self.enabled(s),
                };
                mask |= u64::from(goes) << s;
            }
            // The boot task ends without a step of its own.
            mask &= !u64::from(!self.tasks[0].live);
        }
        if !self.config.preempt_rcu {
            // A task that cannot go on is off the CPU: a quiescent state, which may be what a grace period waited for.
            let off_cpu = (0..self.tasks.len()).filter(|&s| self.tasks[s].live && mask & (1 << s) == 0 && self.tasks[s].pending.kind.sleeps());
            let off_cpu = off_cpu.fold(0, |all, s| all | 1u64 << s);
            let mut over = 0u64;
            for (s, t) in self.tasks.iter_mut().enumerate().filter(|(_, t)| t.live && t.gp_wait & off_cpu != 0) {
                t.gp_wait &= !off_cpu;
                over |= 1 << s;
            }
            while over != 0 {
                let s = over.trailing_zeros() as usize;
                over &= over - 1;
                mask |= u64::from(self.enabled(s)) << s;
            }
        }
        mask
    }

    fn cpu_allows(&self, s: usize) -> bool {
        let t = &self.tasks[s];
        !self.tasks.iter().enumerate().any(|(i, u)| {
            i != s
                && u.live
                && u.cpu == t.cpu
                && u.started
                && (u.level > t.level
                    || (u.level == t.level && (u.preempt_off + u.irq_off > 0 || u.level != super::Level::Task))
                    || (t.level == super::Level::Hardirq && u.level < t.level && u.irq_off > 0)
                    || (t.level == super::Level::Softirq && u.level < t.level && u.irq_off + u.bh_off > 0))
                && !(t.started && t.level > u.level)
        })
    }

    /// Performs an operation where nothing is scheduled, so that nobody has to know of it before.
    #[inline]
    pub(super) fn perform_at_once(&mut self, op: Op, site: &'static Location<'static>) -> u64 {
        if op.kind.sleeps() {
            self.announce_sleep(op);
        }
        self.tasks[self.current].site = site;
        self.act(op, site)
    }

    /// Performs the operation that the running task announced; the driver has made sure that it is enabled.
    #[inline]
    pub fn perform(&mut self) -> u64 {
        let t = &self.tasks[self.current];
        self.act(t.pending, t.site)
    }

    #[inline]
    fn act(&mut self, op: Op, site: &'static Location<'static>) -> u64 {
        let s = self.current;
        self.entered = 0;
        let t = &mut self.tasks[s];
        t.steps += 1;
        let lazy = t.rcu_lazy;
        if !std::mem::replace(&mut t.started, true) {
            let c = Self::task_cell(t.name);
            self.mem.touch(c, Access::Await);
        }
        // Where a task stands depends on the steps it has taken too: a loop that only writes observes nothing.
        self.observe(op.kind as u64);
        if lazy {
            self.rcu_enter_now(s);
        }
        if self.tasks[s].preempt_lazy > 0 {
            self.preempt_off_now(s);
        }
        if self.config.shared_cpus {
            let c = Ptr(0xfffc_0000 | self.tasks[s].cpu & 0xffff);
            self.mem.touch(c, Access::Write);
        }
        if self.config.weak {
            self.weak_before(s, op);
        }
        let mut rf = 0;
        let p = op.obj;
        let v = match op.kind {
            Kind::Load => {
                let (v, wr) = self.read_from(p);
                rf = wr;
                v
            }
            Kind::Store => {
                self.write(p, op.a);
                op.a
            }
            Kind::Add if op.b == BLIND && !self.config.weak => {
                rf = self.mem.writer(p);
                let (old, ev) = (self.mem.peek(p), self.log_len());
                self.mem.touch(p, Access::Commute);
                if !self.mem.raw_write(p, old.wrapping_add(op.a), ev) {
                    self.write(p, 0);
                }
                old
            }
            Kind::Add | Kind::Or | Kind::And | Kind::Xchg | Kind::Cmpxchg | Kind::AddUnless => {
                let old;
                if self.config.weak {
                    (old, rf) = self.weak_rmw(s, op);
                } else {
                    rf = self.mem.writer(p);
                    old = self.read_quietly(p);
                    self.observe(op.learned(old));
                    if let Some(new) = op.applied(old)
                        && new != old
                    {
                        self.write(p, new);
                    }
                }
                old
            }
            Kind::SpinLock => {
                if !self.twins.is_empty() {
                    self.twin_locks(s);
                }
                self.do_spin_lock(s, p, op.a)
            }
            Kind::MutexLock => {
                self.take(s, p, SELF, Kind::MutexLock);
                0
            }
            Kind::DownWrite => {
                self.take(s, p, WRITER, Kind::DownWrite);
                0
            }
            Kind::DownRead => {
                let n = self.mem.peek(p);
                self.take(s, p, n + 1, Kind::DownRead);
                0
            }
            Kind::DownReadTrylock => {
                // What the task learns is whether a writer holds it, not how many readers there are.
                self.mem.touch(p, Access::Read);
                let n = self.mem.peek(p);
                let free = n & WRITER == 0;
                if free {
                    self.take(s, p, n + 1, Kind::DownReadTrylock);
                } else if !self.mem.live(p) {
                    self.read(p);
                }
                self.observe(u64::from(free));
                u64::from(free)
            }
            Kind::Up => {
                self.release(s, p);
                0
            }
            Kind::GpBegin => {
                self.gp_begin(s);
                0
            }
            Kind::GpEnd | Kind::RcuCallback => {
                self.touch_gp(s);
                0
            }
            Kind::WorkBegin => {
                self.touch_gp(s);
                self.do_work_begin(s, op)
            }
            Kind::TimerFire => self.do_timer_fire(op),
            Kind::QueueWork => self.do_queue_work(op),
            Kind::FlushBegin => self.do_flush_begin(s, op),
            Kind::FlushWait => {
                self.mem.touch(p, Access::Await);
                0
            }
            Kind::PrepareWait => {
                self.queue_self(s, Ptr::from_word(op.a), true);
                let (v, wr) = self.read_from(p);
                rf = wr;
                v
            }
            Kind::Fence => 0,
            Kind::Sleep => {
                let c = Self::wake_cell(self.tasks[s].name);
                self.mem.touch(c, Access::Await);
                0
            }
            Kind::WakeAll => {
                // Whom it wakes depends on who has entered.
                self.mem.touch(p, Access::Read);
                let mask = self.mem.peek(p);
                self.write(p, 0);
                for i in (0..self.tasks.len()).filter(|i| mask & (1 << i) != 0) {
                    let c = Self::wake_cell(self.tasks[i].name);
                    self.mem.touch(c, Access::Release);
                }
                mask
            }
            Kind::Yield => {
                if !self.config.preempt_rcu {
                    self.reader_gone(s);
                }
                0
            }
            Kind::Join => {
                self.mem.touch(Self::task_cell(TaskName(op.a as u16)), Access::Await);
                0
            }
            Kind::Start => 0,
            k => unreachable!("{k:?} is never announced"),
        };
        if self.config.weak {
            self.weak_after(s, op, v);
        }
        self.commit(op.kind, Tp::Note, p, v, rf, site);
        op.learned(v)
    }

    /// Makes slot `s` the running task and performs the operation that it announced; its text goes on with [`Machine::poll`].
    ///
    /// The caller has made sure that the operation is enabled. Unwinds with [`Stop`](super::Stop) when a violation makes going on
    /// senseless.
    #[inline]
    pub fn resume(&mut self, s: usize) {
        self.current = s;
        super::step::set_result(self.perform());
    }

    /// Runs the text of the task that was resumed up to its next announcement, or to its end: then true. The machine must hear of
    /// it by [`Machine::paused`].
    #[inline]
    pub fn poll(body: &mut Fut) -> bool {
        body.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    /// The text of slot `s` has run up to an announcement, or to its end.
    #[inline]
    pub fn paused(&mut self, s: usize, done: bool) {
        self.current = s;
        if done {
            self.exit_current();
        } else {
            let (op, site) = super::step::announced();
            self.announce(op, site);
        }
    }

    /// One step of the task in slot `s`: its announced operation, and its text up to the next announcement; while operations happen
    /// at once, all of its steps. True once it ended.
    ///
    /// The caller has made sure that the operation is enabled, and must adopt [`Machine::spawned`] afterwards. Unwinds with
    /// [`Stop`](super::Stop) when a violation makes going on senseless.
    pub fn advance(s: usize, body: &mut Fut) -> bool {
        with(|m| m.resume(s));
        loop {
            let done = Machine::poll(body);
            let at_once = with(|m| {
                m.paused(s, done);
                if m.immediate && !done {
                    m.resume(s);
                }
                m.immediate
            });
            if done || !at_once {
                return done;
            }
        }
    }

    /// Runs everything that boot has started (user tasks and armed timers aside) to completion, operations happening at once;
    /// then schedules for real.
    pub fn finish_boot() {
        loop {
            let Some(mut t) = with(|m| m.spawned.pop()) else { break };
            // Armed timers stay armed, user tasks wait; everything else that boot started is finished before the case begins.
            if with(|m| m.tasks[t.slot].daemon || matches!(m.tasks[t.slot].label, TaskLabel::User(_))) {
                with(|m| m.parked_boot.push(t));
                continue;
            }
            let done = Machine::advance(t.slot, &mut t.body);
            assert!(done, "boot must not block");
        }
        with(|m| {
            m.spawned.append(&mut m.parked_boot);
            m.immediate = false;
            m.tasks[0].live = false;
            m.tasks[0].name = TaskName(0);
        });
    }

    /// The running task's body returned.
    pub fn exit_current(&mut self) {
        let s = self.current;
        let t = &self.tasks[s];
        if (!t.held.is_empty() || t.rcu > 0) && !self.aborted {
            let held: Vec<String> = t.held.iter().map(|h| self.mem.name(h.lock)).collect();
            self.report("LT-LOCK-2", format!("task ended holding [{}], RCU depth {}", held.join(", "), self.tasks[s].rcu));
        }
        let name = self.tasks[s].name;
        self.work_ended(s);
        if self.config.weak {
            self.weak_release(s, Self::task_cell(name));
        }
        self.mem.touch(Self::task_cell(name), Access::Release);
        self.twin_goes(name);
        self.commit(Kind::Exit, Tp::Note, NULL, 0, 0, Location::caller());
        self.ready &= !(1 << s);
        self.may_block &= !(1 << s);
        let t = &mut self.tasks[s];
        t.live = false;
        t.name = TaskName(0);
        self.reader_gone(s);
    }

    /// The execution is over: asks the watcher for its last verdicts, and makes every guard that is still open inert, so
    /// that the bodies of unfinished tasks can be dropped.
    ///
    /// What was to be run at rest runs first.
    pub fn finish(end: End) {
        let end = Machine::come_to_rest(end);
        let w = with(|m| m.watch.take());
        if let Some(mut w) = w {
            with(|m| {
                w.end(m, end);
                m.watch = Some(w);
            });
        }
        with(|m| m.aborted = true);
    }

    // ---- locks -------------------------------------------------------------------------------------------------

    fn do_spin_lock(&mut self, s: usize, p: Ptr, mode: u64) -> u64 {
        self.take(s, p, SELF, Kind::SpinLock);
        let t = &mut self.tasks[s];
        t.preempt_off += 1;
        t.irq_off += u32::from(mode == Mode::Irq as u64);
        t.bh_off += u32::from(mode == Mode::Bh as u64);
        if let Some(h) = t.held.last_mut() {
            h.mode = mode;
        }
        self.reader_changed(s);
        0
    }

    /// `value` is what the lock cell becomes; [`SELF`] stands for the task's own name.
    fn take(&mut self, s: usize, p: Ptr, value: u64, how: Kind) {
        let name = u64::from(self.tasks[s].name.0);
        let shared = matches!(how, Kind::DownRead | Kind::DownReadTrylock);
        self.mem.touch(p, self.lock_access(shared, Access::Acquire));
        let ev = self.log_len();
        let v = if value == SELF { name } else { value };
        if !self.mem.raw_write(p, v, ev) {
            self.read(p);
        }
        self.lockdep_acquire(s, p, how);
        self.tasks[s].held.push(Held { lock: p, mode: 0, how });
    }

    /// How taking or releasing a lock counts. With weak memory a reader sees what earlier readers have seen.
    fn lock_access(&self, shared: bool, a: Access) -> Access {
        match a {
            _ if shared && self.config.weak => Access::Write,
            Access::Acquire if shared => Access::AcquireShared,
            Access::Release if shared => Access::ReleaseShared,
            a => a,
        }
    }

    /// Releases a lock that slot `s` holds; undoes its effect on interrupts and preemption.
    pub(super) fn release(&mut self, s: usize, p: Ptr) {
        let Some(i) = self.tasks[s].held.iter().rposition(|h| h.lock == p) else {
            let n = self.mem.name(p);
            fatal_in(self, "LT-LOCK-3", format!("release of {n} by a task that does not hold it"));
        };
        let h = self.tasks[s].held.remove(i);
        if self.config.weak {
            self.weak_release(s, p);
        }
        let shared = matches!(h.how, Kind::DownRead | Kind::DownReadTrylock);
        self.mem.touch(p, self.lock_access(shared, Access::Release));
        let old = self.mem.peek(p);
        let new = match h.how {
            Kind::DownRead | Kind::DownReadTrylock => old - 1,
            _ => 0,
        };
        let ev = self.log_len();
        if !self.mem.raw_write(p, new, ev) {
            // Checked access: reports the use after free.
            self.read(p);
        }
        if h.how == Kind::SpinLock {
            let t = &mut self.tasks[s];
            t.preempt_off -= 1;
            t.irq_off -= u32::from(h.mode == Mode::Irq as u64);
            t.bh_off -= u32::from(h.mode == Mode::Bh as u64);
            self.reader_changed(s);
        }
    }

    /// `local_irq_enable`: also under locks that were taken with interrupts off.
    pub(super) fn local_irq_enable(&mut self) {
        let t = &mut self.tasks[self.current];
        t.irq_off = 0;
        for h in t.held.iter_mut().filter(|h| h.mode == Mode::Irq as u64) {
            h.mode = Mode::Plain as u64;
        }
    }

    /// Does the running task hold this lock?
    pub fn holds(&self, p: Ptr) -> bool {
        self.tasks[self.current].held.iter().any(|h| h.lock == p)
    }

    // ---- RCU ---------------------------------------------------------------------------------------------------

    fn is_reader(&self, s: usize) -> bool {
        let t = &self.tasks[s];
        (t.rcu > 0 && !t.rcu_lazy) || t.preempt_off > 0
    }

    pub(super) fn rcu_enter_now(&mut self, s: usize) {
        self.tasks[s].rcu_lazy = false;
        if self.config.weak {
            self.weak_reader(s, true);
        }
        if self.config.weak {
            self.mem.touch(READERS, Access::Commute);
        } else {
            self.reader_changed(s);
        }
        let site = self.tasks[s].site;
        self.commit(Kind::RcuEnter, Tp::Note, NULL, 0, 0, site);
    }

    fn preempt_off_now(&mut self, s: usize) {
        let t = &mut self.tasks[s];
        t.preempt_off += std::mem::take(&mut t.preempt_lazy);
        self.reader_changed(s);
    }

    /// Slot `s` enters or leaves a wait queue, whose members do not see each other.
    pub(super) fn queue_self(&mut self, s: usize, q: Ptr, enter: bool) {
        let mask = self.mem.peek(q) & !(1 << s);
        let ev = self.log_len();
        self.mem.touch(q, if self.config.weak { Access::Write } else { Access::Commute });
        if !self.mem.raw_write(q, mask | u64::from(enter) << s, ev) {
            self.write(q, 0);
        }
    }

    /// Called when slot `s` may have stopped or started being a reader.
    pub(super) fn reader_changed(&mut self, s: usize) {
        let reader = self.is_reader(s);
        if self.config.weak {
            self.weak_reader(s, reader);
        } else if reader == self.tasks[s].reader {
            return;
        }
        self.tasks[s].reader = reader;
        if reader && !self.config.weak {
            self.mem.touch(READERS, Access::Commute);
            self.entered = self.mem.footprint.len();
            return;
        }
        // Readers come and go independently of each other, not of the beginning of a grace period. A section inside one step
        // is not seen by any.
        if self.entered > 0 && self.entered <= self.mem.footprint.len() {
            self.mem.footprint.remove(self.entered - 1);
        } else {
            self.mem.touch(READERS, Access::Commute);
            if !reader {
                let c = Self::task_cell(self.tasks[s].name);
                self.mem.touch(c, Access::Release);
            }
        }
        self.entered = 0;
        if !reader && self.config.preempt_rcu {
            self.reader_gone(s);
        }
    }

    fn reader_gone(&mut self, s: usize) {
        if self.gps == 0 {
            return;
        }
        for t in &mut self.tasks {
            t.gp_wait &= !(1 << s);
        }
    }

    /// Begins a grace period that slot `waiter` waits for.
    pub(super) fn gp_begin(&mut self, waiter: usize) {
        self.gps += 1;
        if self.config.weak {
            self.weak_gp_begin(waiter);
        }
        self.mem.touch(READERS, Access::Read);
        let mut mask = 0;
        let mut cells = std::mem::take(&mut self.tasks[waiter].gp_cells);
        cells.clear();
        for s in 0..self.tasks.len() {
            if !self.tasks[s].live || s == waiter {
                continue;
            }
            let running = !self.config.preempt_rcu && self.tasks[s].started && !self.parked(s);
            if self.is_reader(s) || running {
                mask |= 1 << s;
                cells.push(Self::task_cell(self.tasks[s].name));
            }
        }
        self.tasks[waiter].gp_wait = mask;
        self.tasks[waiter].gp_cells = cells;
    }

    /// Blocked in a sleeping operation, hence not on a CPU.
    fn parked(&mut self, s: usize) -> bool {
        self.tasks[s].pending.kind.sleeps() && !self.enabled(s)
    }

    fn gp_over(&mut self, s: usize) -> bool {
        self.tasks[s].gp_wait == 0
    }

    /// The end of a grace period is ordered after everything that ended the sections it waited for.
    fn touch_gp(&mut self, s: usize) {
        if self.config.weak {
            // It also sees what other sections that have ended by then have seen.
            self.mem.touch(READERS, Access::Read);
        }
        for i in 0..self.tasks[s].gp_cells.len() {
            let c = self.tasks[s].gp_cells[i];
            self.mem.touch(c, Access::Await);
        }
    }

    // ---- state hash --------------------------------------------------------------------------------------------

    /// Canonical hash of the global state between steps: memory, every task's observations and pending operation,
    /// RCU waits and the watcher. Equal states have equal hashes whatever the schedule that led to them.
    pub fn state_hash(&self) -> u64 {
        let mut h = self.mem.hash();
        for (slot, t) in self.tasks.iter().enumerate().filter(|(_, t)| t.live) {
            let mut x = mix(
                t.obs,
                u64::from(t.name.0) | (t.pending.kind as u64) << 16 | u64::from(t.rcu) << 24 | u64::from(t.rcu_lazy) << 31 | u64::from(t.pending.obj.0) << 32,
            );
            x = mix(x, t.site as *const _ as u64);
            if t.pending.kind == Kind::Sleep {
                // Wait queues hold slots: whether this task is awake must not depend on which slot it has.
                x = mix(x, self.mem.peek(t.pending.obj) >> slot & 1);
            }
            let mut w = t.gp_wait;
            while w != 0 {
                let s = w.trailing_zeros() as usize;
                w &= w - 1;
                x = x.wrapping_add(mix(0x6770, u64::from(self.tasks[s].name.0)));
            }
            h = h.wrapping_add(mix(x, t.flush_target));
        }
        h = h
            .wrapping_add(self.works_hash())
            .wrapping_add(self.lockdep.hash())
            .wrapping_add(mix(u64::from(self.timers_fired), 7))
            .wrapping_add(self.twins_hash());
        if self.config.weak {
            h = h.wrapping_add(self.weak_hash());
        }
        if let Some(w) = &self.watch {
            h = mix(h, w.hash());
        }
        h
    }

    /// Reads a value and tests it, for conditions.
    pub fn satisfied(&self, p: Ptr, pred: Pred) -> bool {
        pred.holds(self.mem.peek(p))
    }
}

/// Pseudo-cell for the set of RCU readers in footprints.
const READERS: Ptr = Ptr(0xffff_0000);
/// Pseudo-cell for the number of timers that have fired.
pub(super) const TIMERS: Ptr = Ptr(0xffff_0001);
/// Cell value of a rwsem held for writing.
pub(super) const WRITER: u64 = 1 << 63;
/// Placeholder for "the task's own name" in [`Machine::take`].
const SELF: u64 = u64::MAX;
