//! The stepper: runs one execution of futures polled by hand, under a strategy.

use crate::strategy::Strategy;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use wbmodel::sync::{Choice, Chooser, End, Fut, Machine, Stop, set_chooser, with};

struct Ask<S>(Rc<RefCell<S>>);

impl<S: Strategy> Chooser for Ask<S> {
    fn choose(&mut self, m: &Machine, c: Choice) -> u32 {
        self.0.borrow_mut().choose(m, c)
    }
}

/// Runs executions on this thread's machine.
pub struct Stepper {
    bodies: Vec<Option<Fut>>,
}

impl Default for Stepper {
    fn default() -> Self {
        Self::new()
    }
}

impl Stepper {
    /// A stepper with no execution under way.
    pub fn new() -> Stepper {
        Stepper { bodies: Vec::new() }
    }

    /// Runs one execution: `boot` resets the machine, builds the world and spawns the tasks; `strategy` decides the rest.
    ///
    /// Afterwards the machine of this thread holds the log and the violations. A panic that is not a violation is passed on.
    pub fn run<S: Strategy + 'static>(&mut self, boot: &dyn Fn(), strategy: &Rc<RefCell<S>>) -> End {
        set_chooser(Some(Rc::new(RefCell::new(Ask(strategy.clone())))));
        let end = match catch_unwind(AssertUnwindSafe(|| {
            boot();
            Machine::finish_boot();
            self.schedule(strategy)
        })) {
            Ok(end) => end,
            Err(p) if p.is::<Stop>() => End::Fatal,
            Err(p) => {
                with(|m| m.aborted = true);
                self.bodies.clear();
                resume_unwind(p)
            }
        };
        Machine::finish(end);
        self.bodies.iter_mut().for_each(|b| *b = None);
        with(|m| m.spawned.clear());
        set_chooser(None);
        end
    }

    fn adopt(&mut self) {
        with(|m| {
            for t in m.spawned.drain(..) {
                if self.bodies.len() <= t.slot {
                    self.bodies.resize_with(t.slot + 1, || None);
                }
                self.bodies[t.slot] = Some(t.body);
            }
        });
    }

    fn schedule<S: Strategy>(&mut self, strategy: &Rc<RefCell<S>>) -> End {
        let mut last = None;
        let max = with(|m| m.config.max_steps);
        let mut steps = 0;
        self.adopt();
        loop {
            let pick = with(|m| {
                let enabled = m.enabled_mask();
                if enabled == 0 {
                    let stuck = m.tasks.iter().any(|t| t.live && !t.daemon);
                    return Err(if stuck { End::Stuck } else { End::Complete });
                }
                m.mem.footprint.clear();
                strategy.borrow_mut().pick(m, enabled, last).ok_or(End::Cut)
            });
            let s = match pick {
                Ok(s) => s,
                Err(end) => return end,
            };
            let mut body = self.bodies[s].take().expect("a live slot has a body");
            let done = Machine::advance(s, &mut body);
            if !done {
                self.bodies[s] = Some(body);
            }
            if with(|m| {
                strategy.borrow_mut().stepped(m, s);
                !m.spawned.is_empty()
            }) {
                self.adopt();
            }
            last = (!done).then_some(s);
            steps += 1;
            if steps >= max {
                return End::Budget;
            }
        }
    }
}
