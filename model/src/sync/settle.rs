//! Running to rest by one fixed schedule: the setup of a case before anything is explored, and its teardown afterwards.
//!
//! Steps are real (they block, sleep and wait for grace periods), but nobody decides: a task goes on until it cannot or
//! offers the CPU, then the next slot does. Choices are answered 0 and armed timers stay armed.

use super::event::{End, Stop};
use super::machine::{Machine, with};
use super::mem::NULL;
use super::op::{Kind, Op};
use super::task::{Fut, Level, NameKey, Spawn, TaskLabel};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Steps after which a machine counts as never coming to rest.
const MAX_STEPS: u32 = 200_000;

/// Runs when every task of an execution has ended.
pub(super) type AtRest = Box<dyn FnOnce() -> End>;

/// What settling switches off, to be put back.
struct Saved {
    immediate: bool,
    boot_live: bool,
    footprint_on: bool,
    observe_on: bool,
}

impl Drop for Saved {
    fn drop(&mut self) {
        with(|m| {
            m.settling = false;
            m.immediate = self.immediate;
            m.tasks[0].live |= self.boot_live;
            m.mem.footprint_on = self.footprint_on;
            m.observe_on = self.observe_on;
            m.current = 0;
            m.weak_settled();
        });
    }
}

impl Machine {
    /// Runs `body` as a task of the world and everything that it sets going, until nothing can go on.
    ///
    /// [`End::Stuck`] when a task then still waits, [`End::Budget`] when rest is not reached.
    pub fn settle(body: Fut) -> End {
        let _saved = with(|m| {
            let saved = Saved { immediate: m.immediate, boot_live: m.tasks[0].live, footprint_on: m.mem.footprint_on, observe_on: m.observe_on };
            m.immediate = false;
            m.settling = true;
            // The boot task is this function's caller: it must keep its slot and must not run.
            m.tasks[0].live = false;
            m.mem.footprint_on = false;
            m.observe_on = false;
            m.spawn_named(NameKey::User(u16::MAX), TaskLabel::Boot, Level::Task, None, Op::new(Kind::Start, NULL), body);
            saved
        });
        let mut bodies: Vec<Option<Fut>> = Vec::new();
        let mut last = 0;
        let mut end = End::Budget;
        for _ in 0..MAX_STEPS {
            for t in with(|m| std::mem::take(&mut m.spawned)) {
                if bodies.len() <= t.slot {
                    bodies.resize_with(t.slot + 1, || None);
                }
                bodies[t.slot] = Some(t.body);
            }
            let Some(s) = with(|m| m.next_settling(last, bodies.len())) else {
                let waits = |m: &mut Machine| (0..bodies.len()).any(|s| bodies[s].is_some() && m.tasks[s].live && !m.tasks[s].daemon);
                end = if with(waits) { End::Stuck } else { End::Complete };
                break;
            };
            last = s;
            let Some(mut body) = bodies[s].take() else { continue };
            if !Machine::advance(s, &mut body) {
                bodies[s] = Some(body);
            }
        }
        // Armed timers live on; whatever else is left never ran to its end and cannot.
        with(|m| {
            for (slot, body) in bodies.iter_mut().enumerate() {
                if m.tasks[slot].daemon && m.tasks[slot].live {
                    m.spawned.extend(body.take().map(|body| Spawn { slot, body }));
                }
            }
        });
        // Guards in what is left are inert.
        let aborted = with(|m| std::mem::replace(&mut m.aborted, true));
        drop(bodies);
        with(|m| m.aborted = aborted);
        end
    }

    /// The slot that goes on: the last one, unless it offers the CPU or cannot, else the next that can.
    fn next_settling(&mut self, last: usize, slots: usize) -> Option<usize> {
        let mask = self.enabled_mask();
        let runs = |s: usize| mask & (1 << s) != 0;
        if last < slots && runs(last) && !self.tasks[last].daemon && self.tasks[last].pending.kind != Kind::Yield {
            return Some(last);
        }
        (1..=slots).map(|k| (last + k) % slots).find(|&s| runs(s) && !self.tasks[s].daemon)
    }

    /// Has `f` run when every task of this execution has ended, before the watcher gives its last verdicts.
    pub fn at_rest(&mut self, f: impl FnOnce() -> End + 'static) {
        self.at_rest = Some(Box::new(f));
    }

    /// Runs what was to be run at rest, if the execution got there; how the execution ended all told.
    pub(super) fn come_to_rest(end: End) -> End {
        let Some(f) = with(|m| m.at_rest.take()).filter(|_| end == End::Complete) else { return end };
        match catch_unwind(AssertUnwindSafe(f)) {
            Ok(end) => end,
            Err(p) if p.is::<Stop>() => End::Fatal,
            Err(p) => resume_unwind(p),
        }
    }
}

#[cfg(test)]
#[allow(dead_code)]
mod tests {
    use super::*;
    use crate::kstruct;
    use crate::sync::{Config, Mutex, Pred, Var, WaitQueue, call_rcu, immortal, kzalloc_nofail, spawn, synchronize_rcu, wait_event, wake_up_all};

    kstruct! {
        /// What the tests share.
        pub struct Shared: "shared", "LT-MEM-0", shared_fields {
            count: Var<i64>,
            lock: Mutex,
            queue: WaitQueue,
            callback: Var<u64>,
        }
    }

    fn fresh() -> Shared {
        with(|m| m.reset(Config::default()));
        let p = kzalloc_nofail(Shared::TYPE);
        immortal(p);
        Shared(p)
    }

    #[test]
    fn waits_are_real_and_callbacks_run() {
        let s = fresh();
        let end = Machine::settle(Box::pin(async move {
            call_rcu(s.callback().ptr(), "callback", |p| {
                Box::pin(async move {
                    let s = Shared(p.sub(shared_fields::callback));
                    s.count().write_once(7).await;
                    wake_up_all(s.queue()).await;
                })
            });
            synchronize_rcu().await;
            wait_event(s.queue(), s.count().ptr(), Pred::Is(7)).await;
        }));
        assert_eq!(end, End::Complete);
        assert_eq!(s.count().get(), 7);
        assert!(with(|m| m.immediate && m.tasks[0].live && m.violations.is_empty()));
    }

    #[test]
    fn a_wait_without_end_is_stuck() {
        let s = fresh();
        let end = Machine::settle(Box::pin(async move {
            let _guard = s.lock().lock().await;
            wait_event(s.queue(), s.count().ptr(), Pred::Is(1)).await;
        }));
        assert_eq!(end, End::Stuck);
        assert!(with(|m| !m.aborted));
    }

    #[test]
    fn what_runs_at_rest_runs_once_and_only_there() {
        for (end, ran) in [(End::Complete, 1), (End::Cut, 0)] {
            let s = fresh();
            spawn(0, Level::Task, None, Box::pin(async {}));
            with(|m| {
                m.at_rest(move || {
                    Machine::settle(Box::pin(async move {
                        s.count().fetch_add(1).await;
                    }))
                });
            });
            Machine::finish_boot();
            Machine::finish(end);
            Machine::finish(end);
            assert_eq!(with(|m| m.mem.peek(s.count().ptr())), ran);
            with(|m| m.spawned.clear());
        }
    }
}
