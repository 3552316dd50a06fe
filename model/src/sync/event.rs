//! The commit log, tracepoints, violations, and the hook for oracles.

use super::machine::{Machine, with};
use super::mem::Ptr;
use super::op::Kind;
use super::task::TaskName;
use std::any::Any;
use std::panic::Location;

/// A mirrored kernel function, for call stacks in traces.
#[derive(Debug)]
pub struct Kfn {
    /// Kernel name.
    pub name: &'static str,
}

/// Tracepoints of the mirrored code and of the world: what oracles and reports cannot see from operations alone.
///
/// `obj` and `val` of the event carry the two arguments.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Tp {
    /// A user operation of the case began: val = index of the operation in its task.
    OpBegin,
    /// It ended: val = its result as a word (0, or a negative errno as u64).
    OpEnd,
    /// A mirrored function was entered: obj = its object.
    Call,
    /// A mirrored function returned: obj = its object, val = result word.
    Return,
    /// A css life-cycle event: obj = css, val = step (`linux::kernel::cgroup::CssStep`).
    Css,
    /// A named event for `reach` in cases: val = index into `trace::MARKS`.
    Mark,
    /// Pages of inode obj were submitted: val = number.
    WritePages,
    /// Pages of inode obj became dirty: val = number.
    DirtyPages,
    /// The case takes over (val 1) or gives back (val 0) a reference on wb obj from or to the running task.
    Kept,
    /// Something else, by convention between one module and one oracle: val = payload.
    Note,
}

/// One committed operation.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// Who.
    pub task: TaskName,
    /// What.
    pub kind: Kind,
    /// Tracepoint, when `kind` is [`Kind::Trace`].
    pub tp: Tp,
    /// On which object.
    pub obj: Ptr,
    /// For reads: index of the event that wrote the value read (0: initial value).
    pub rf: u32,
    /// Value read, written or returned.
    pub val: u64,
    /// Where in the model's source.
    pub site: &'static Location<'static>,
    /// Innermost mirrored function, if any.
    pub func: Option<&'static Kfn>,
}

/// A broken invariant: data, not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Id of the invariant.
    pub rule: &'static str,
    /// Expected against observed, in one line.
    pub detail: String,
    /// Index of the event during which it was noticed.
    pub at: u32,
    /// Who was running.
    pub task: TaskName,
    /// The execution could not go on.
    pub fatal: bool,
}

/// Payload with which the machine unwinds out of a task after a fatal violation.
pub struct Stop;

/// How an execution ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Every task ended (armed timers aside).
    Complete,
    /// Some task can never go on.
    Stuck,
    /// The step budget ran out.
    Budget,
    /// A fatal violation.
    Fatal,
    /// A search cut it short: nothing is known about its end.
    Cut,
}

/// Watches committed events: the interface between the sync layer and oracles.
pub trait Watch {
    /// Called after each committed event.
    fn event(&mut self, m: &mut Machine, e: &Event);
    /// Called once, when the execution is over.
    fn end(&mut self, m: &mut Machine, end: End);
    /// Hash of whatever the watcher remembers that a later verdict depends on, for state caching.
    fn hash(&self) -> u64;
    /// The same watcher once more, for a machine that is put back.
    fn copy(&self) -> Box<dyn Watch>;
    /// Becomes the same as `from` if it is of the same kind; else says no.
    fn become_copy(&mut self, from: &dyn Watch) -> bool;
    /// Itself, to be compared in kind.
    fn as_any(&self) -> &dyn Any;
}

/// Records a violation and lets the execution go on; the first of each rule counts.
pub fn report(rule: &'static str, detail: String) {
    with(|m| m.report(rule, detail));
}

/// Records a violation after which the execution makes no sense, and leaves the running task.
pub fn fatal(rule: &'static str, detail: String) -> ! {
    with(|m| fatal_in(m, rule, detail))
}

#[cold]
pub(super) fn fatal_in(m: &mut Machine, rule: &'static str, detail: String) -> ! {
    m.report(rule, detail);
    if let Some(v) = m.violations.iter_mut().find(|v| v.rule == rule) {
        v.fatal = true;
    }
    m.aborted = true;
    std::panic::resume_unwind(Box::new(Stop))
}

/// Commits a tracepoint in the running task, without a scheduling point.
#[track_caller]
pub fn emit(tp: Tp, obj: Ptr, val: u64) {
    let site = Location::caller();
    with(|m| m.commit(Kind::Trace, tp, obj, val, 0, site));
}

/// Marks a mirrored function as entered until the value is dropped; see [`kfn!`](crate::kfn).
pub struct Scope(bool);

/// Pushes a function on the running task's call stack, which nobody looks at where no log is kept.
pub fn scope(f: &'static Kfn) -> Scope {
    with(|m| {
        let t = m.current;
        if m.log_on {
            m.tasks[t].stack.push(f);
        }
        Scope(m.log_on)
    })
}

impl Drop for Scope {
    fn drop(&mut self) {
        if !self.0 {
            return;
        }
        with(|m| {
            if !m.aborted {
                let t = m.current;
                m.tasks[t].stack.pop();
            }
        });
    }
}

/// First line of a mirrored function: puts its kernel name on the task's call stack until the function returns.
#[macro_export]
macro_rules! kfn {
    ($name:ident) => {
        static KFN: $crate::sync::Kfn = $crate::sync::Kfn { name: stringify!($name) };
        let _kfn = $crate::sync::scope(&KFN);
    };
}
