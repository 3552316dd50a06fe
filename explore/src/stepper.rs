//! The stepper: runs one execution of futures polled by hand, under a strategy.

use crate::decision::Decision;
use crate::strategy::Strategy;
use crate::trace::Tracer;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use wbmodel::sync::{Choice, Chooser, End, Fut, Machine, Stop, set_chooser, with};

struct Ask<S> {
    strategy: Rc<RefCell<S>>,
    decisions: Rc<RefCell<Vec<Decision>>>,
}

impl<S: Strategy> Chooser for Ask<S> {
    fn choose(&mut self, m: &Machine, c: Choice) -> u32 {
        let value = self.strategy.borrow_mut().choose(m, c);
        self.decisions.borrow_mut().push(Decision::Choice { name: c.name(), value });
        value
    }
}

/// Runs executions on this thread's machine.
pub struct Stepper {
    bodies: Vec<Option<Fut>>,
    decisions: Rc<RefCell<Vec<Decision>>>,
    /// Computes the identity of each execution's trace, when wanted.
    pub tracer: Option<Tracer>,
    /// Steps of the last execution.
    pub steps: u32,
}

impl Default for Stepper {
    fn default() -> Self {
        Self::new()
    }
}

impl Stepper {
    /// A stepper with no execution under way.
    pub fn new() -> Stepper {
        Stepper { bodies: Vec::new(), decisions: Rc::default(), tracer: None, steps: 0 }
    }

    /// Decisions of the last execution.
    pub fn decisions(&self) -> std::cell::Ref<'_, Vec<Decision>> {
        self.decisions.borrow()
    }

    /// Runs one execution: `boot` resets the machine, builds the world and spawns the tasks; `strategy` decides the rest.
    ///
    /// Afterwards the machine of this thread holds the log and the violations. A panic that is not a violation is passed on.
    pub fn run<S: Strategy + 'static>(&mut self, boot: &dyn Fn(), strategy: &Rc<RefCell<S>>) -> End {
        self.decisions.borrow_mut().clear();
        self.steps = 0;
        if let Some(t) = &mut self.tracer {
            t.begin();
        }
        let (footprints, observations) = strategy.borrow().needs();
        let twins = strategy.borrow().twins();
        set_chooser(Some(Rc::new(RefCell::new(Ask { strategy: strategy.clone(), decisions: self.decisions.clone() }))));
        let end = match catch_unwind(AssertUnwindSafe(|| {
            with(|m| {
                m.observe_on = observations;
                m.twins_on = twins;
                m.mem.footprint_on = footprints || self.tracer.is_some();
            });
            boot();
            Machine::finish_boot();
            self.schedule(strategy)
        })) {
            Ok(end) => end,
            Err(p) if p.is::<Stop>() => {
                if self.steps > 0 {
                    with(|m| {
                        let s = m.current;
                        self.note_step(m, s, strategy);
                    });
                }
                End::Fatal
            }
            Err(p) => {
                with(|m| {
                    m.aborted = true;
                    m.twins_on = false;
                });
                self.bodies.clear();
                resume_unwind(p)
            }
        };
        with(|m| strategy.borrow_mut().ended(m, end));
        Machine::finish(end);
        self.bodies.iter_mut().for_each(|b| *b = None);
        with(|m| {
            m.spawned.clear();
            // Who drives this machine next may want all of them.
            m.twins_on = false;
        });
        set_chooser(None);
        end
    }

    fn adopt(&mut self) {
        with(|m| self.adopt_from(m));
    }

    fn adopt_from(&mut self, m: &mut Machine) {
        for t in m.spawned.drain(..) {
            if self.bodies.len() <= t.slot {
                self.bodies.resize_with(t.slot + 1, || None);
            }
            self.bodies[t.slot] = Some(t.body);
        }
    }

    fn note_step<S: Strategy>(&mut self, m: &mut Machine, s: usize, strategy: &Rc<RefCell<S>>) {
        if let Some(t) = &mut self.tracer {
            t.stepped(m, s);
        }
        strategy.borrow_mut().stepped(m, s);
    }

    fn schedule<S: Strategy>(&mut self, strategy: &Rc<RefCell<S>>) -> End {
        let max = with(|m| {
            // Nobody asks for the hash of memory without those of the tasks.
            m.mem.hash_on = m.observe_on;
            m.config.max_steps
        });
        let decisions = self.decisions.clone();
        let mut last = None;
        // The slot that has just run, and whether it has ended.
        let mut ran: Option<(usize, bool)> = None;
        self.adopt();
        loop {
            let next = with(|m| {
                if let Some((s, done)) = ran {
                    m.paused(s, done);
                    self.note_step(m, s, strategy);
                    if !m.spawned.is_empty() {
                        self.adopt_from(m);
                    }
                    last = (!done).then_some(s);
                    if self.steps >= max {
                        return Err(End::Budget);
                    }
                }
                let enabled = m.enabled_mask();
                if enabled == 0 {
                    let done = !m.tasks.iter().any(|t| t.live && !t.daemon);
                    return Err(match done {
                        true => End::Complete,
                        false if m.held_by_twin() => End::Cut,
                        false => End::Stuck,
                    });
                }
                m.mem.footprint.clear();
                let s = strategy.borrow_mut().pick(m, enabled, last).ok_or(End::Cut)?;
                // A strategy may do without footprints for a while; traces may not.
                m.mem.footprint_on |= self.tracer.is_some();
                let t = &m.tasks[s];
                let preempts = last.is_some_and(|l| l != s && enabled & (1 << l) != 0);
                decisions.borrow_mut().push(Decision::Task { name: t.name, kind: t.pending.kind, obj: t.pending.obj, preempts });
                self.steps += 1;
                m.resume(s);
                Ok(s)
            });
            let s = match next {
                Ok(s) => s,
                Err(end) => return end,
            };
            let body = self.bodies[s].as_mut().expect("a live slot has a body");
            let done = Machine::poll(body);
            if done {
                self.bodies[s] = None;
            }
            ran = Some((s, done));
        }
    }
}
