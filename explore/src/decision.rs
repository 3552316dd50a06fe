//! What was decided in an execution: the whole difference between two executions of one case.

use wbmodel::sync::{Kind, Ptr, TaskName};

/// One decision, in the order taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// A task performed the operation it had announced.
    Task {
        /// Which task.
        name: TaskName,
        /// What it had announced.
        kind: Kind,
        /// On which object.
        obj: Ptr,
        /// Another task had run before and could have gone on: a preemption.
        preempts: bool,
    },
    /// A choice was answered during the task's step.
    Choice {
        /// Name of the choice point.
        name: &'static str,
        /// Answer; 0 is the ordinary outcome.
        value: u32,
    },
}
