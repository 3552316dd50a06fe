//! RCU: read sections, grace periods, callbacks.
//!
//! A read section begins with the task's next operation and ends at once, so that neither adds a scheduling point and no
//! behaviour is lost (entering moves right, leaving moves left). A grace period waits for the sections that were open when
//! it began; callbacks run as tasks of their own, in any order, any time after their grace period.

use super::event::Tp;
use super::machine::with;
use super::mem::{NULL, Ptr};
use super::op::{Kind, Op};
use super::step::step;
use super::task::{Fut, Level, NameKey, TaskLabel};
use std::panic::Location;

/// An open RCU read section.
#[must_use = "the read section ends when the guard is dropped"]
pub struct RcuGuard(());

/// `rcu_read_lock()`
pub fn rcu_read_lock() -> RcuGuard {
    with(|m| {
        let s = m.current;
        let t = &mut m.tasks[s];
        if t.rcu == 0 {
            t.rcu_lazy = true;
        }
        t.rcu += 1;
    });
    RcuGuard(())
}

impl Drop for RcuGuard {
    fn drop(&mut self) {
        rcu_read_unlock();
    }
}

/// `rcu_read_unlock()` by itself, for text that does not pair it with what began the section; else the guard does it.
pub fn rcu_read_unlock() {
    with(|m| {
        if m.aborted {
            return;
        }
        let s = m.current;
        if m.tasks[s].rcu == 0 {
            m.report("LT-LOCK-3", "an RCU read section ends that has not begun, or has ended".into());
            return;
        }
        m.tasks[s].rcu -= 1;
        if m.tasks[s].rcu == 0 {
            let lazy = std::mem::take(&mut m.tasks[s].rcu_lazy);
            if !lazy {
                m.reader_changed(s);
                m.commit(Kind::RcuExit, Tp::Note, NULL, 0, 0, Location::caller());
            }
        }
    });
}

/// `synchronize_rcu()`: waits for every read section that is open when it starts.
#[track_caller]
pub fn synchronize_rcu() -> impl Future<Output = ()> {
    let begin = step(Op::new(Kind::GpBegin, NULL));
    let end = step(Op::new(Kind::GpEnd, NULL));
    async move {
        begin.await;
        end.await;
    }
}

/// `synchronize_rcu_expedited()`: the same promise.
#[track_caller]
pub fn synchronize_rcu_expedited() -> impl Future<Output = ()> {
    synchronize_rcu()
}

/// `call_rcu(head, f)`: runs `f(head)` in soft-interrupt context after a grace period that starts now.
///
/// `name` is the callback's kernel name. Happens at once, inside the current step.
#[track_caller]
pub fn call_rcu(head: Ptr, name: &'static str, f: fn(Ptr) -> Fut) {
    let site = Location::caller();
    with(|m| {
        let n = m.callbacks.iter().filter(|&&c| c == head).count() as u32;
        let slot = m.spawn_named(NameKey::Rcu(head, n), TaskLabel::Rcu(name, head), Level::Softirq, None, Op::new(Kind::RcuCallback, head), f(head));
        m.callbacks.push(head);
        m.gp_begin(slot);
        m.commit(Kind::CallRcu, Tp::Note, head, 0, 0, site);
    });
}
