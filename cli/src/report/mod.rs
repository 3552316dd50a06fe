//! What a run has to say: one stream of [`RunEvent`]s, and the writers that put it on stdout.
//!
//! Main types: [`RunEvent`], [`Sink`]. The writers see the same stream, so that they cannot disagree.

mod human;
mod json;
mod matrix;
mod scenario;
mod style;

use serde::Serialize;
use std::io::{self, Write};

pub use human::Human;
pub use json::Json;
pub use scenario::{Band, BandStatus, ScenarioLine, SeedLine, SweepLine};
pub use style::Style;

/// Version of the JSON lines.
pub const SCHEMA: u32 = 1;

/// First line of a run: enough to repeat it.
#[derive(Serialize, Clone, Debug)]
pub struct Header {
    /// Version of the line format.
    pub schema: u32,
    /// Version of wbcheck.
    pub version: &'static str,
    /// Commit it was built from, if known.
    pub commit: Option<&'static str>,
    /// The verb.
    pub command: &'static str,
    /// Seed of all random choices.
    pub seed: u64,
    /// Who runs the tasks.
    pub engine: &'static str,
    /// Scheduler, if one was asked for.
    pub scheduler: Option<String>,
    /// Executions for each piece of work, if bounded on the command line.
    pub max_executions: Option<u64>,
    /// Seconds for each piece of work, if bounded on the command line.
    pub max_seconds: Option<f64>,
    /// Rule sets selected.
    pub rules: Vec<String>,
    /// Number of cases selected.
    pub cases: usize,
    /// Part of the work, as i/n.
    pub shard: Option<String>,
}

/// How an invariant fared in a case under a rule set.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Not violated in what was explored.
    Holds,
    /// Violated in some execution.
    Violated,
    /// The case never reached what it must reach.
    Vacuous,
    /// A budget ran out before a verdict.
    Budget,
}

/// One invariant in one case under one rule set.
#[derive(Serialize, Clone, Debug)]
pub struct ResultLine {
    /// Rule set.
    pub rules: String,
    /// Case.
    pub case: String,
    /// Id of the invariant.
    pub invariant: &'static str,
    /// How it fared.
    pub status: Status,
    /// What is declared for it.
    pub expected: Status,
    /// Executions of the case.
    pub executions: u64,
    /// Distinct traces among them, where they are counted.
    pub traces: Option<u64>,
    /// Every execution within the bound was covered.
    pub exhaustive: bool,
    /// Bound on preemptions; none: unbounded.
    pub bound: Option<u32>,
    /// Time that the case took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Command that shows the violation again.
    pub replay: Option<String>,
    /// Expected against observed, for a violation.
    pub detail: Option<String>,
}

/// A case under a rule set, as a whole.
#[derive(Serialize, Clone, Debug)]
pub struct CaseLine {
    /// Rule set.
    pub rules: String,
    /// Case.
    pub case: String,
    /// How it was explored.
    pub search: String,
    /// Executions.
    pub executions: u64,
    /// Those of them that a reduction did not cut short; divided by `traces`, the waste of an exhaustive search.
    pub complete: u64,
    /// Distinct traces among them, where they are counted.
    pub traces: Option<u64>,
    /// Steps.
    pub steps: u64,
    /// Every execution within the bound was covered.
    pub exhaustive: bool,
    /// Bound on preemptions; none: unbounded.
    pub bound: Option<u32>,
    /// What stopped the exploration early, if anything did.
    pub stopped: Option<&'static str>,
    /// What must be reached and was not.
    pub unreached: Vec<String>,
    /// Time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

/// What became of a mutant.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub enum MutantStatus {
    /// An invariant that must catch it did.
    Caught,
    /// None did.
    Missed,
    /// Its hook was never passed.
    Unreached,
    /// A control that stayed clean.
    Clean,
}

/// One mutant.
#[derive(Serialize, Clone, Debug)]
pub struct MutantLine {
    /// Id.
    pub id: &'static str,
    /// What became of it.
    pub status: MutantStatus,
    /// Invariant that caught it, or that a control broke.
    pub invariant: Option<&'static str>,
    /// Case in which it did.
    pub case: Option<String>,
    /// Scheduler that found it.
    pub scheduler: Option<String>,
    /// Executions until it was caught, or in all.
    pub executions: u64,
    /// Time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Command that shows it again.
    pub replay: Option<String>,
    /// What is changed.
    pub says: &'static str,
}

/// A line of `list`.
#[derive(Serialize, Clone, Debug)]
pub struct Item {
    /// What it is: `case`, `rules`, `invariant`, `mutant`, `switch`, `scheduler`, `scenario`, `policy`, `metric`.
    pub kind: &'static str,
    /// Name that other commands accept.
    pub name: String,
    /// What it is about.
    pub about: String,
}

/// Result of a replay.
#[derive(Serialize, Clone, Debug)]
pub struct ReplayLine {
    /// Case.
    pub case: String,
    /// Rule set.
    pub rules: String,
    /// Mutant in force.
    pub mutant: Option<String>,
    /// Violation that the file names.
    pub expected: Option<String>,
    /// Violations seen: (invariant, detail).
    pub violations: Vec<(String, String)>,
    /// How the execution ended.
    pub end: String,
    /// Steps.
    pub steps: u32,
    /// Times that it was run.
    pub times: u32,
    /// How many of them had the same trace, byte for byte, as the first.
    pub same: u32,
    /// Decisions that did not apply.
    pub diverged: Vec<String>,
}

/// Size of a finding before or after shrinking.
#[derive(Serialize, Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Operations of the case.
    pub operations: usize,
    /// Tasks that ran, workers and callbacks included.
    pub tasks: usize,
    /// Switches away from a task that could have gone on.
    pub preemptions: u32,
    /// Changes from one task to another.
    pub switches: usize,
    /// Steps up to the violation.
    pub steps: u32,
}

/// Result of shrinking.
#[derive(Serialize, Clone, Debug)]
pub struct ShrinkLine {
    /// Case.
    pub case: String,
    /// Invariant that it violates.
    pub invariant: String,
    /// Before.
    pub before: Sizes,
    /// After.
    pub after: Sizes,
    /// Decisions of the result, with whether the violation vanishes without them.
    pub decisions: Vec<(String, bool)>,
    /// Candidates executed.
    pub executions: u64,
    /// The budget ran out before nothing more could be taken away.
    pub cut_short: bool,
    /// Where the result is.
    pub file: String,
}

/// A file of vectors.
#[derive(Serialize, Clone, Debug)]
pub struct VectorLine {
    /// Its name.
    pub file: &'static str,
    /// Rows.
    pub rows: u64,
    /// Rows that differ.
    pub mismatches: u64,
    /// The first differences.
    pub first: Vec<Difference>,
}

/// A cell that is not what was computed.
#[derive(Serialize, Clone, Debug)]
pub struct Difference {
    /// Line of the file, from 1; 0 for a row that is not there.
    pub line: u64,
    /// Column.
    pub column: &'static str,
    /// What the file says.
    pub expected: String,
    /// What was computed.
    pub computed: String,
}

/// Last line of a run.
#[derive(Serialize, Clone, Debug, Default)]
pub struct Summary {
    /// Everything came out as declared.
    pub ok: bool,
    /// Exit code.
    pub exit: u8,
    /// Pieces of work done: (case, rule set) pairs, mutants, replays, files of vectors, simulations.
    pub done: u64,
    /// Pieces of work selected.
    pub selected: u64,
    /// Results that are as declared; rows of vectors that agree; bands that are kept.
    pub as_declared: u64,
    /// Violations that are not declared; rows of vectors that differ; bands that are not kept.
    pub undeclared: u64,
    /// Declared violations that did not happen, bands kept that are declared not to be.
    pub missing: u64,
    /// Pieces of work that did not reach what they must reach.
    pub vacuous: u64,
    /// Pieces of work whose budget ran out before a verdict.
    pub budget: u64,
    /// Stopped by the user.
    pub interrupted: bool,
    /// Executions; of simulations, runs.
    pub executions: u64,
    /// Steps; of simulations, pages dirtied.
    pub steps: u64,
    /// Time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

/// One thing that a run has to say.
#[derive(Serialize, Clone, Debug)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum RunEvent {
    /// First line.
    Header(Header),
    /// An invariant in a case under a rule set.
    Result(ResultLine),
    /// A case under a rule set.
    Case(CaseLine),
    /// A mutant.
    Mutant(MutantLine),
    /// A thing that other commands accept.
    Item(Item),
    /// A replay.
    Replay(ReplayLine),
    /// A shrunk finding.
    Shrink(ShrinkLine),
    /// A file of vectors.
    Vector(VectorLine),
    /// A variant of a scenario, with the bands for it.
    Scenario(ScenarioLine),
    /// One seed of a variant.
    Run(SeedLine),
    /// One combination of values of a sweep.
    Sweep(SweepLine),
    /// A timeline or an explanation, as text lines.
    Text {
        /// Lines.
        lines: Vec<String>,
    },
    /// Last line.
    Summary(Summary),
}

/// Puts events somewhere.
pub trait Sink {
    /// One event.
    fn event(&mut self, e: &RunEvent) -> io::Result<()>;
}

/// The writer that `--format` asks for.
pub fn sink(out: &crate::args::Output, to: impl Write + 'static) -> Box<dyn Sink> {
    match out.format {
        crate::args::Format::Json => Box::new(Json::new(to)),
        crate::args::Format::Human => Box::new(Human::new(to, Style::pick(out.color))),
    }
}
