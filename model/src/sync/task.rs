//! Tasks: schedulable flows with a context (CPU, level, held locks, RCU nesting) and a stable name.

use super::atomic::Word;
use super::event::Kfn;
use super::lockdep::Held;
use super::machine::{Machine, with};
use super::mem::{NULL, Ptr, mix};
use super::op::{Kind, Op};
use std::collections::HashMap;
use std::future::Future;
use std::hash::{BuildHasherDefault, Hasher};
use std::panic::Location;
use std::pin::Pin;

/// A boxed task body.
pub type Fut = Pin<Box<dyn Future<Output = ()>>>;

/// Stable identity of a task: the same creation gives the same name in every execution on one thread.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TaskName(pub u16);

/// Name of the boot task, which builds the world before anything is scheduled.
pub(super) const BOOT: TaskName = TaskName(1);

/// Nesting level on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// Process context.
    Task,
    /// Soft interrupt.
    Softirq,
    /// Hard interrupt.
    Hardirq,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum NameKey {
    User(u16),
    Work(Ptr, u32),
    Timer(Ptr, u32),
    Rcu(Ptr, u32),
    Irq(Ptr, u32),
    /// No task: a further memory region of the task with this name.
    Region(TaskName, u32),
}

/// Hasher for keys made of a few small numbers.
#[derive(Default)]
pub(super) struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&b| self.write_u64(u64::from(b)));
    }
    fn write_u16(&mut self, v: u16) {
        self.write_u64(u64::from(v));
    }
    fn write_u32(&mut self, v: u32) {
        self.write_u64(u64::from(v));
    }
    fn write_u64(&mut self, v: u64) {
        self.0 = mix(self.0, v);
    }
    fn write_isize(&mut self, v: isize) {
        self.write_u64(v as u64);
    }
}

/// Interns creation keys; kept from execution to execution so that names and regions agree.
#[derive(Default)]
pub(super) struct Names {
    map: HashMap<NameKey, u16, BuildHasherDefault<Mixer>>,
    next: u16,
}

impl Names {
    pub(super) fn get(&mut self, k: NameKey) -> TaskName {
        let next = &mut self.next;
        TaskName(*self.map.entry(k).or_insert_with(|| {
            *next += 1;
            *next + BOOT.0
        }))
    }
}

/// What is shown for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskLabel {
    /// User task of the case, by index.
    User(u16),
    /// Worker that runs a function on an object.
    Work(&'static str, Ptr),
    /// RCU callback.
    Rcu(&'static str, Ptr),
    /// Timer of a delayed work.
    Timer(Ptr),
    /// Interrupt handler that completes something for an object.
    Irq(&'static str, Ptr),
    /// Boot.
    Boot,
}

/// One task slot.
#[derive(Clone)]
pub struct Task {
    /// Stable name.
    pub name: TaskName,
    /// What is shown for it.
    pub label: TaskLabel,
    /// Occupied and not ended.
    pub live: bool,
    /// Has performed its first operation.
    pub started: bool,
    /// Announced operation.
    pub pending: Op,
    /// Where it was announced.
    pub site: &'static Location<'static>,
    /// Mirrored functions entered, outermost first.
    pub stack: Vec<&'static Kfn>,
    pub(super) held: Vec<Held>,
    /// Locks and sections that switch interrupts off.
    pub irq_off: u32,
    /// Locks and sections that switch soft interrupts off.
    pub bh_off: u32,
    /// Sections with preemption off.
    pub preempt_off: u32,
    /// More of them, which begin with the task's next operation.
    pub(super) preempt_lazy: u32,
    /// Depth of RCU read sections.
    pub rcu: u32,
    /// The read section begins with the task's next operation.
    pub(super) rcu_lazy: bool,
    /// Counted as a reader that grace periods wait for.
    pub(super) reader: bool,
    /// CPU it runs on.
    pub cpu: u32,
    /// Nesting level on that CPU.
    pub level: Level,
    /// Readers (slots) its grace period still waits for.
    pub(super) gp_wait: u64,
    /// Pseudo-cells of those readers, for footprints.
    pub(super) gp_cells: Vec<Ptr>,
    /// Run number that a flush waits for.
    pub(super) flush_target: u64,
    /// Hash of all values it has observed.
    pub obs: u64,
    /// Steps performed.
    pub steps: u32,
    /// A daemon does not keep the execution alive (armed timers).
    pub daemon: bool,
}

impl Task {
    pub(super) fn vacant() -> Task {
        Task {
            name: TaskName(0),
            label: TaskLabel::Boot,
            live: false,
            started: false,
            pending: Op::new(Kind::Start, NULL),
            site: Location::caller(),
            stack: Vec::new(),
            held: Vec::new(),
            irq_off: 0,
            bh_off: 0,
            preempt_off: 0,
            preempt_lazy: 0,
            rcu: 0,
            rcu_lazy: false,
            reader: false,
            cpu: 0,
            level: Level::Task,
            gp_wait: 0,
            gp_cells: Vec::new(),
            flush_target: 0,
            obs: 0,
            steps: 0,
            daemon: false,
        }
    }
    /// Becomes the same as `from`, in its own storage.
    pub(super) fn restore(&mut self, from: &Task) {
        if !from.live {
            self.live = false;
            self.name = TaskName(0);
            return;
        }
        let (mut stack, mut held, mut gp_cells) = (std::mem::take(&mut self.stack), std::mem::take(&mut self.held), std::mem::take(&mut self.gp_cells));
        stack.clone_from(&from.stack);
        held.clone_from(&from.held);
        gp_cells.clone_from(&from.gp_cells);
        *self = Task { stack, held, gp_cells, ..*from };
    }
    /// In a context that must not sleep.
    pub fn atomic(&self) -> bool {
        self.irq_off + self.bh_off + self.preempt_off + self.preempt_lazy + self.rcu > 0 || self.level != Level::Task
    }
    /// Locks held, oldest first: (lock, class name).
    pub fn locks(&self) -> impl Iterator<Item = Ptr> + '_ {
        self.held.iter().map(|h| h.lock)
    }
}

/// A new task on its way to the driver, which must adopt its body.
pub struct Spawn {
    /// Slot it occupies.
    pub slot: usize,
    /// Body; its first announced operation is already recorded in the slot.
    pub body: Fut,
}

impl Machine {
    pub(super) fn spawn_named(&mut self, key: NameKey, label: TaskLabel, level: Level, cpu: Option<u32>, first: Op, body: Fut) -> usize {
        let name = self.names.get(key);
        let slot = match self.tasks.iter().position(|t| !t.live && t.name.0 == 0) {
            Some(s) => s,
            None => {
                self.tasks.push(Task::vacant());
                self.tasks.len() - 1
            }
        };
        assert!(slot < 64, "more than 63 tasks alive at once");
        // The parent's past happens before the child's start.
        self.mem.touch(Self::task_cell(name), super::mem::Access::Release);
        // Which slot is free depends on what other tasks do; which CPU a task has must not.
        let n = self.config.nr_cpus.max(1);
        let cpu = cpu.unwrap_or_else(|| match key {
            NameKey::User(i) => u32::from(i) + 1,
            NameKey::Work(p, k) | NameKey::Timer(p, k) | NameKey::Rcu(p, k) | NameKey::Irq(p, k) => {
                n * (0x1000 + u32::from(name.0)) + (mix(u64::from(p.0), u64::from(k)) % u64::from(n)) as u32
            }
            NameKey::Region(..) => 0,
        });
        let (stack, held) = {
            let t = &mut self.tasks[slot];
            (std::mem::take(&mut t.stack), std::mem::take(&mut t.held))
        };
        self.tasks[slot] = Task { name, label, live: true, pending: first, level, cpu, obs: u64::from(name.0), stack, held, ..Task::vacant() };
        self.tasks[slot].stack.clear();
        self.tasks[slot].held.clear();
        self.tasks[slot].daemon = first.kind == Kind::TimerFire;
        self.note_pending(slot, first.kind);
        if self.config.weak {
            self.weak_spawn(slot);
        }
        self.spawned.push(Spawn { slot, body });
        slot
    }

    /// Region of the running task in which so many cells more fit: its first one, or one that it goes on in when that is full.
    pub(super) fn region_for(&mut self, cells: u32) -> usize {
        let name = self.current_name();
        let mut region = name;
        let mut k = 0;
        while !self.mem.fits(usize::from(region.0), cells) {
            k += 1;
            assert!(cells < 0xffff, "an object of {cells} cells");
            region = self.names.get(NameKey::Region(name, k));
        }
        usize::from(region.0)
    }

    /// The running task goes on on another CPU.
    pub fn migrate(&mut self, cpu: u32) {
        self.tasks[self.current].cpu = cpu;
    }

    /// Pseudo-cell that stands for a task's own life (start, RCU state, end) in footprints; never allocated.
    pub(super) fn task_cell(name: TaskName) -> Ptr {
        Ptr(u32::from(name.0))
    }

    /// Pseudo-cell that stands for a task being woken; never allocated.
    pub(super) fn wake_cell(name: TaskName) -> Ptr {
        Ptr(0xfffd_0000 | u32::from(name.0))
    }

    /// Name of the task whose own cell `p` is, in footprints.
    pub fn task_of_cell(&self, p: Ptr) -> Option<u16> {
        (p.0 < 0x10000 && p.0 != 0).then_some(p.0 as u16)
    }

    /// Text for a task, as in `flusher`, `kworker:cgwb_release_workfn(wb#1)`.
    pub fn task_label(&self, label: TaskLabel, users: &[String]) -> String {
        match label {
            TaskLabel::User(i) => users.get(i as usize).cloned().unwrap_or_else(|| format!("task{i}")),
            TaskLabel::Work(f, p) => format!("kworker:{f}({})", self.mem.owner_name(p)),
            TaskLabel::Rcu(f, p) => format!("rcu:{f}({})", self.mem.owner_name(p)),
            TaskLabel::Timer(p) => format!("timer:{}", self.mem.name(p)),
            TaskLabel::Irq(f, p) => format!("irq:{f}({})", self.mem.owner_name(p)),
            TaskLabel::Boot => "boot".into(),
        }
    }
}

/// What the running task had observed when a call began. What it observes inside is gone with the call's local variables, once the
/// call has returned and its caller learns the result alone: states that differ only in what is gone are then one.
#[must_use = "a call that ends says so by what it returns"]
pub struct Observed(u64);

impl Observed {
    /// The call begins.
    pub fn begin() -> Observed {
        Observed(with(|m| m.tasks[m.current].obs))
    }

    /// It returns `result`, after everything else that it does.
    pub fn returns<T: Word>(self, result: T) -> T {
        with(|m| {
            let t = m.current;
            m.tasks[t].obs = self.0;
            m.observe(result.to_word());
        });
        result
    }
}

/// Starts user task number `index` of a case on CPU `cpu` (default: one of its own).
pub fn spawn(index: u16, level: Level, cpu: Option<u32>, body: Fut) {
    with(|m| {
        m.spawn_named(NameKey::User(index), TaskLabel::User(index), level, cpu, Op::new(Kind::Start, NULL), body);
    });
}

/// Waits until user task number `index` of the case has ended.
#[track_caller]
pub fn join(index: u16) -> super::step::Step {
    let name = with(|m| m.names.get(NameKey::User(index)));
    super::step::step(Op::with(Kind::Join, NULL, u64::from(name.0)))
}

/// Starts an interrupt handler that runs any time from now on: completion number `nr` of whatever `obj` submitted.
///
/// Where tasks share CPUs it comes on the CPU that submitted.
pub fn spawn_irq(obj: Ptr, nr: u32, name: &'static str, body: Fut) {
    with(|m| {
        let cpu = m.config.shared_cpus.then(|| m.tasks[m.current].cpu);
        m.spawn_named(NameKey::Irq(obj, nr), TaskLabel::Irq(name, obj), Level::Hardirq, cpu, Op::new(Kind::Start, NULL), body);
    });
}
