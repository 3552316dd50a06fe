//! A booted machine, kept so that it can be put back: what a boot costs is then paid once and not in every execution.
//!
//! Main type: [`Snapshot`]. Everything that [`Machine::reset`] clears is in it; what the driver sets (what is recorded) is not.
//! Bodies cannot be copied, so that a machine is kept only while nothing but armed timers is under way; theirs are empty.

use super::event::{Event, Violation, Watch};
use super::lockdep::Lockdep;
use super::machine::{Config, Machine};
use super::mem::{Memory, Ptr};
use super::task::{Spawn, Task, TaskName};
use super::work::WorkState;

/// State of a machine in boot.
pub struct Snapshot {
    id: u64,
    config: Config,
    mem: Memory,
    tasks: Vec<Task>,
    log: Vec<Event>,
    violations: Vec<Violation>,
    /// Slots of armed timers, in the order in which the driver will adopt them.
    timers: Vec<usize>,
    choices_asked: u32,
    watch: Box<dyn Watch>,
    lockdep: Lockdep,
    works: Vec<WorkState>,
    callbacks: Vec<Ptr>,
    timers_fired: u32,
    gps: u32,
    ready: u64,
    may_block: u64,
}

impl Machine {
    /// Keeps this machine, which is in boot. `None` where it cannot be kept: weak memory, a body under way, nobody watching.
    pub fn snapshot(&mut self) -> Option<Snapshot> {
        let timers: Vec<usize> = self.spawned.iter().map(|t| t.slot).collect();
        let whole = self.immediate && !self.aborted && !self.config.weak && self.at_rest.is_none() && self.twins.is_empty();
        if !whole || timers.iter().any(|&s| !self.tasks[s].daemon) {
            return None;
        }
        self.snapshots += 1;
        self.log_of = self.snapshots;
        Some(Snapshot {
            id: self.snapshots,
            config: self.config.clone(),
            mem: self.mem.clone(),
            tasks: self.tasks.clone(),
            log: self.log.clone(),
            violations: self.violations.clone(),
            timers,
            choices_asked: self.choices_asked,
            watch: self.watch.as_ref()?.copy(),
            lockdep: self.lockdep.clone(),
            works: self.works.clone(),
            callbacks: self.callbacks.clone(),
            timers_fired: self.timers_fired,
            gps: self.gps,
            ready: self.ready,
            may_block: self.may_block,
        })
    }

    /// Puts a machine of this thread back: as [`Machine::reset`] and the boot that led there.
    pub fn restore(&mut self, from: &Snapshot) {
        self.mem.restore(&from.mem);
        for (t, old) in self.tasks.iter_mut().zip(&from.tasks) {
            t.restore(old);
        }
        for t in self.tasks.iter_mut().skip(from.tasks.len()) {
            t.live = false;
            t.name = TaskName(0);
        }
        if self.config != from.config {
            self.config = from.config.clone();
        }
        // Events are only ever appended.
        if self.log_of == from.id {
            self.log.truncate(from.log.len());
        } else {
            self.log.clone_from(&from.log);
            self.log_of = from.id;
        }
        self.violations.clone_from(&from.violations);
        self.aborted = false;
        self.log_on = true;
        self.immediate = true;
        self.current = 0;
        self.spawned.clear();
        self.spawned.extend(from.timers.iter().map(|&slot| Spawn { slot, body: super::work::timer_body() }));
        self.choices_asked = from.choices_asked;
        if !self.watch.as_mut().is_some_and(|w| w.become_copy(&*from.watch)) {
            self.watch = Some(from.watch.copy());
        }
        self.lockdep.clone_from(&from.lockdep);
        self.works.clone_from(&from.works);
        self.callbacks.clone_from(&from.callbacks);
        self.timers_fired = from.timers_fired;
        self.gps = from.gps;
        self.ready = from.ready;
        self.may_block = from.may_block;
        self.parked_boot.clear();
        self.twins.clear();
        self.settling = false;
        self.at_rest = None;
    }
}
