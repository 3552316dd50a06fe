//! The typed form of a case: what a parsed file holds, with every name resolved to an index.
//!
//! Equality ignores [`Span`]s, so that a case and what is parsed from its printed text are equal.

use super::ops::Op;
use crate::policy::FlushPolicy;

/// Version of the text format that this program writes, and the newest one it reads.
pub const SCHEMA: u32 = 1;

/// Where something stands in the text, in bytes; plays no part in comparisons.
#[derive(Clone, Copy, Debug, Default, Eq)]
pub struct Span {
    /// First byte.
    pub offset: usize,
    /// Length.
    pub len: usize,
}

impl PartialEq for Span {
    fn eq(&self, _: &Span) -> bool {
        true
    }
}

macro_rules! refs {
    ($($(#[$m:meta])* $name:ident)*) => {$(
        $(#[$m])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub struct $name(pub u16);
        impl $name {
            /// As an index into the table of names.
            pub fn index(self) -> usize {
                usize::from(self.0)
            }
        }
    )*};
}

refs! {
    /// A backing device, by index in [`Names::bdis`].
    BdiRef
    /// A cgroup, by index in [`Names::cgroups`]; 0 is the root cgroup.
    CgroupRef
    /// A superblock, by index in [`Names::sbs`].
    SbRef
    /// An inode, by index in [`Names::inodes`].
    InodeRef
    /// A reference on a wb that the case keeps, by index in [`Names::wbs`].
    WbRef
    /// A task, by index in [`Names::tasks`].
    TaskRef
}

impl CgroupRef {
    /// The root cgroup, written `"/"`.
    pub const ROOT: CgroupRef = CgroupRef(0);
}

/// Names by index: every object that some operation of the case creates, in the order of the text, and the tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// Backing devices.
    pub bdis: Vec<String>,
    /// Cgroups by path; index 0 is the root cgroup.
    pub cgroups: Vec<String>,
    /// Superblocks.
    pub sbs: Vec<String>,
    /// Inodes.
    pub inodes: Vec<String>,
    /// Kept references on wbs.
    pub wbs: Vec<String>,
    /// Tasks.
    pub tasks: Vec<String>,
}

impl Default for Names {
    fn default() -> Self {
        let none = Vec::new;
        Names { bdis: none(), cgroups: vec!["/".into()], sbs: none(), inodes: none(), wbs: none(), tasks: none() }
    }
}

impl Names {
    /// Parent of a cgroup: the one whose path is left when the last component is taken away. `None` for the root, and
    /// for a path whose parent is not in the table.
    pub fn cgroup_parent(&self, c: CgroupRef) -> Option<CgroupRef> {
        if c == CgroupRef::ROOT {
            return None;
        }
        match self.cgroups.get(c.index())?.rsplit_once('/') {
            None => Some(CgroupRef::ROOT),
            Some((up, _)) => self.cgroups.iter().position(|n| n == up).map(|i| CgroupRef(i as u16)),
        }
    }
}

/// An operation at its place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stmt {
    /// What is done.
    pub op: Op,
    /// Where it is written.
    pub span: Span,
}

impl From<Op> for Stmt {
    fn from(op: Op) -> Stmt {
        Stmt { op, span: Span::default() }
    }
}

/// The machine that a case runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineSpec {
    /// Slots of per-CPU variables.
    pub cpus: u32,
    /// Preemptible RCU.
    pub preempt_rcu: bool,
    /// How often timers of delayed work may fire in one execution.
    pub timers: u32,
    /// Steps after which an execution counts as not ending.
    pub max_steps: u32,
    /// Choices that may be answered other than 0 in one execution.
    pub faults: u32,
    /// Tasks of one CPU compete for it.
    pub shared_cpus: bool,
    /// Dirty pages from which a wb is over its background threshold; 0: none ever is.
    pub background_pages: u32,
    /// Memory that is declared weak follows the kernel's memory model.
    pub weak: bool,
    /// Loads that may return an older value in one execution.
    pub stale: u32,
    /// Memory csses have statistics, which readers flush by this policy.
    pub stats: Option<FlushPolicy>,
}

impl Default for MachineSpec {
    fn default() -> Self {
        MachineSpec {
            cpus: 4,
            preempt_rcu: true,
            timers: 0,
            max_steps: 20_000,
            faults: 1,
            shared_cpus: false,
            background_pages: 0,
            weak: false,
            stale: 3,
            stats: None,
        }
    }
}

/// Level at which a task's operations run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Irq {
    /// Process context.
    #[default]
    None,
    /// Soft interrupt.
    Soft,
    /// Hard interrupt.
    Hard,
}

/// A task; its name is in [`Names::tasks`] at the same index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// CPU, or one of its own.
    pub cpu: Option<u32>,
    /// Interrupt level.
    pub irq: Irq,
    /// Operations in order.
    pub body: Vec<Stmt>,
    /// Where it is written.
    pub span: Span,
}

/// What some executions of a case under some rule set must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expect {
    /// Name of a rule set, or `*` for all that no other line names.
    pub rules: String,
    /// Ids of the invariants that some execution violates. All others hold; when empty, all hold.
    pub violates: Vec<String>,
    /// Where it is written.
    pub span: Span,
}

/// How the default run explores a case; unset values are the engine's defaults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Search {
    /// Name of the scheduler or search.
    pub engine: Option<String>,
    /// Bound on preemptions.
    pub preemptions: Option<u32>,
    /// Bound on executions.
    pub executions: Option<u64>,
    /// Seed of random schedulers.
    pub seed: Option<u64>,
    /// Number of priority changes of PCT.
    pub depth: Option<u32>,
}

/// One recorded decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// A task runs.
    Run {
        /// Readable label: the name of a task of the case, or that of a worker, callback or timer.
        task: String,
        /// For so many steps.
        steps: Option<u32>,
        /// Until this event is next, in words that replay understands.
        until: Option<String>,
    },
    /// A choice point is answered.
    Choose {
        /// Name of the choice point.
        site: String,
        /// Answer.
        value: u32,
    },
}

/// One recorded execution: a counterexample or a witness.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    /// Rule set in force.
    pub rules: String,
    /// Id of the mutant in force.
    pub mutant: Option<String>,
    /// Invariant that the execution violates.
    pub violation: Option<String>,
    /// Decisions in order.
    pub decisions: Vec<Decision>,
    /// Where it is written.
    pub span: Span,
}

/// A case: one scenario, what must be reached, what must hold, and executions worth keeping.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Case {
    /// Name, as on the command line.
    pub name: String,
    /// What it is about, in a sentence or two.
    pub about: String,
    /// Where it comes from: a spec id, a seed, a commit.
    pub source: String,
    /// Machine.
    pub machine: MachineSpec,
    /// Choice points that may be answered other than 0.
    pub ask: Vec<String>,
    /// Names of everything that operations refer to.
    pub names: Names,
    /// Operations before anything is scheduled.
    pub setup: Vec<Stmt>,
    /// Tasks.
    pub tasks: Vec<Task>,
    /// Operations after every task of the case has ended.
    pub teardown: Vec<Stmt>,
    /// Mirrored functions or marks that must occur in some execution.
    pub reach: Vec<String>,
    /// Expectations.
    pub expect: Vec<Expect>,
    /// Search hints.
    pub search: Search,
    /// Recorded executions.
    pub findings: Vec<Finding>,
}

impl Case {
    /// What is expected under a rule set: the line that names it, else the line for `*`; without either, all must hold.
    pub fn expected(&self, rules: &str) -> &[String] {
        let find = |r: &str| self.expect.iter().find(|e| e.rules == r);
        find(rules).or_else(|| find("*")).map_or(&[], |e| &e.violates)
    }
}
