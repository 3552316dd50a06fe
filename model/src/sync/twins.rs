//! Equal tasks: of two that differ in nothing but their names, one goes first, and a search need not try it the other way round.
//!
//! *First* is about a fixed step of each, here the first spinlock it takes. Every execution has the leader take its first spinlock
//! (or end without) before the follower does, or becomes such an execution when the two change names. So the follower's lock waits
//! for the leader's, and what is left out has the outcomes of what is not, up to the names.
//!
//! Who declares two tasks equal says that nothing depends on who is who: the same text, nothing named after either, no CPU of their
//! own that matters (per-CPU counters count only as sums). Only drivers that explore everything ask for it ([`Machine::twins_on`]).

use super::machine::{Machine, with};
use super::mem::{Access, Ptr, mix};
use super::op::Kind;
use super::task::{NameKey, TaskName};

/// A follower and its leader.
#[derive(Clone, Copy)]
pub(super) struct Twins {
    leader: TaskName,
    follower: TaskName,
    /// The leader has gone first.
    gone: bool,
}

/// Pseudo-cell that stands for the leader having gone before this follower, in footprints.
fn cell(follower: TaskName) -> Ptr {
    Ptr(0xfffb_0000 | u32::from(follower.0))
}

/// Declares that user tasks `leader` and `follower`, which have not begun, are equal.
pub fn equal(leader: u16, follower: u16) {
    with(|m| {
        if m.twins_on {
            let [leader, follower] = [leader, follower].map(|i| m.names.get(NameKey::User(i)));
            m.twins.push(Twins { leader, follower, gone: false });
        }
    });
}

impl Machine {
    /// Slot `s` announces its next spinlock: must it wait for its twin?
    pub(super) fn twin_waits(&self, s: usize) -> bool {
        let name = self.tasks[s].name;
        self.twins.iter().any(|t| t.follower == name && !t.gone)
    }

    /// Is there a task that could go on but for its twin? What it does then is done elsewhere, under the other name.
    pub fn held_by_twin(&self) -> bool {
        !self.twins.is_empty()
            && (0..self.tasks.len()).any(|s| {
                let t = &self.tasks[s];
                t.live && t.pending.kind == Kind::SpinLock && self.mem.peek(t.pending.obj) == 0 && self.twin_waits(s)
            })
    }

    /// Slot `s` takes a spinlock.
    pub(super) fn twin_locks(&mut self, s: usize) {
        let name = self.tasks[s].name;
        if let Some(i) = self.twins.iter().position(|t| t.follower == name && t.gone) {
            self.twins.swap_remove(i);
            self.mem.touch(cell(name), Access::Await);
        }
        self.twin_goes(name);
    }

    /// The task has taken its first spinlock, or ended without.
    pub(super) fn twin_goes(&mut self, leader: TaskName) {
        for i in 0..self.twins.len() {
            let t = self.twins[i];
            if t.leader == leader && !t.gone {
                self.twins[i].gone = true;
                self.mem.touch(cell(t.follower), Access::Release);
            }
        }
    }

    /// Hash of who still waits.
    pub(super) fn twins_hash(&self) -> u64 {
        self.twins.iter().fold(0, |h, t| h.wrapping_add(mix(u64::from(t.follower.0) << 1 | u64::from(t.gone), 0x7477)))
    }
}
