//! Choices that are not scheduling: allocation failure, expiry, branch of a nondeterministic rule.

use super::event::Tp;
use super::machine::{Machine, with};
use super::mem::NULL;
use super::op::Kind;
use std::cell::RefCell;
use std::panic::Location;
use std::rc::Rc;

/// A typed, named choice point. Answer 0 is the ordinary outcome.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Choice {
    /// An allocation fails (1) or not (0); named by the allocating kernel function.
    AllocFails(&'static str),
    /// A named choice with an arity.
    Of(&'static str, u32),
    /// Which of the values still visible a weakly ordered load returns: 0 is the newest. Bounded by `Config::max_stale`; not a fault.
    Stale(u32),
}

impl Choice {
    /// Number of answers.
    pub fn arity(self) -> u32 {
        match self {
            Choice::AllocFails(_) => 2,
            Choice::Of(_, n) | Choice::Stale(n) => n,
        }
    }
    /// Name in cases and replays.
    pub fn name(self) -> &'static str {
        match self {
            Choice::AllocFails(s) | Choice::Of(s, _) => s,
            Choice::Stale(_) => "stale",
        }
    }
}

/// Answers choices.
pub trait Chooser {
    /// An answer below the choice's arity.
    fn choose(&mut self, m: &Machine, c: Choice) -> u32;
}

thread_local! {
    static CHOOSER: RefCell<Option<Rc<RefCell<dyn Chooser>>>> = const { RefCell::new(None) };
}

/// Installs who answers choices on this thread; `None` answers 0.
pub fn set_chooser(c: Option<Rc<RefCell<dyn Chooser>>>) {
    CHOOSER.with(|x| *x.borrow_mut() = c);
}

/// Asks for an answer in the running task. Only choices that the configuration enables are asked; others answer 0.
#[track_caller]
pub fn choose(c: Choice) -> u32 {
    let site = Location::caller();
    with(|m| choose_in(m, c, site))
}

/// The same, where the machine is at hand already.
pub(super) fn choose_in(m: &mut Machine, c: Choice, site: &'static Location<'static>) -> u32 {
    if c.arity() < 2 || !m.config.asks(c) || m.immediate || m.settling {
        return 0;
    }
    let v = CHOOSER.with(|x| x.borrow().as_ref().map_or(0, |r| r.borrow_mut().choose(m, c)));
    debug_assert!(v < c.arity());
    m.observe(u64::from(v));
    m.choices_asked += 1;
    m.commit(Kind::Choice, Tp::Note, NULL, u64::from(v), 0, site);
    v
}
