//! The table of commands and flags, from which parsing, help and errors come.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use wbexplore::simulate::Axis;

/// Judges changes to the concurrency rules of Linux cgroup writeback.
#[derive(Parser, Debug)]
#[command(name = "wbcheck", version, arg_required_else_help = true, after_help = EXIT_HELP)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_HELP: &str = "Exit codes: 0 all as declared; 1 a rule violated, a declared violation missing, a mutant missed or a
vector different; 2 wrong usage, file or
configuration; 3 a budget ran out before a verdict; 4 vacuous or nothing selected; 70 a bug in wbcheck.";

/// The verbs.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run cases under rule sets and compare what breaks with what is declared
    Check(Check),
    /// List what the other commands accept
    List(List),
    /// Run every mutant and say what caught it
    Mutants(Mutants),
    /// Run one recorded schedule again
    Replay(Replay),
    /// Reduce a finding to its smallest form
    Shrink(Shrink),
    /// Show a finding as a timeline, or say what a rule means
    Explain(Explain),
    /// Recompute recorded results of the kernel's arithmetic and compare
    Vectors(Vectors),
    /// Run scenarios in virtual time and hold what they show against their bands
    Simulate(Simulate),
    /// Run a scenario with other values of one or two properties
    Sweep(Sweep),
}

/// Flags of output, common to all verbs.
#[derive(Args, Debug, Clone)]
pub struct Output {
    /// Form of the results
    #[arg(long, value_enum, default_value_t = Format::Human, value_name = "FORM")]
    pub format: Format,
    /// Colours in human output
    #[arg(long, value_enum, default_value_t = When::Auto, value_name = "WHEN")]
    pub color: When,
    /// Progress on stderr; none without a terminal
    #[arg(long, value_enum, default_value_t = Progress::Auto, value_name = "HOW")]
    pub progress: Progress,
    /// Leave out seconds, so that two runs can be compared byte for byte
    #[arg(long)]
    pub no_times: bool,
}

/// Flags that choose and bound the work.
#[derive(Args, Debug, Clone)]
pub struct Work {
    /// Case by name or file; may be repeated [default: all built-in cases]
    #[arg(long = "case", value_name = "CASE")]
    pub cases: Vec<String>,
    /// Who runs the tasks
    #[arg(long, value_enum, default_value_t = Engine::Stepper)]
    pub engine: Engine,
    /// How schedules are chosen, instead of what each case asks for (see `wbcheck list schedulers`)
    #[arg(long, value_name = "NAME")]
    pub scheduler: Option<String>,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Executions for each case under each rule set
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_executions: Option<u64>,
    /// Seconds for each case under each rule set
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub max_seconds: Option<f64>,
    /// Threads [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Only part i of n, as i/n with i from 1
    #[arg(long, value_name = "I/N", value_parser = shard)]
    pub shard: Option<Shard>,
    /// Directory for findings
    #[arg(long, value_name = "DIR", default_value = "target/wbcheck/findings")]
    pub output: PathBuf,
}

/// `wbcheck check`
#[derive(Args, Debug)]
pub struct Check {
    /// Rule set by name or file; may be repeated [default: all built-in rule sets]
    #[arg(long = "rules", value_name = "RULES")]
    pub rules: Vec<String>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub work: Work,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub out: Output,
}

/// `wbcheck list`
#[derive(Args, Debug)]
pub struct List {
    /// What to list [default: everything]
    #[arg(value_enum)]
    pub what: Option<Listed>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub out: Output,
}

/// `wbcheck mutants`
#[derive(Args, Debug)]
pub struct Mutants {
    /// Mutant by id; may be repeated [default: all]
    #[arg(long = "mutant", value_name = "ID")]
    pub mutants: Vec<String>,
    /// How much to spend on each
    #[arg(long, value_enum, default_value_t = Tier::Full)]
    pub tier: Tier,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub work: Work,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub out: Output,
}

/// `wbcheck replay`
#[derive(Args, Debug)]
pub struct Replay {
    /// A finding, or a case by name or file
    #[arg(value_name = "FILE|CASE")]
    pub subject: String,
    /// Rule set instead of the one the finding names
    #[arg(long, value_name = "RULES")]
    pub rules: Option<String>,
    /// Who runs the tasks
    #[arg(long, value_enum, default_value_t = Engine::Stepper)]
    pub engine: Engine,
    /// Run it this often and compare the traces byte for byte
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub times: u32,
    /// Print every committed operation
    #[arg(long)]
    pub trace: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub out: Output,
}

/// `wbcheck shrink`
#[derive(Args, Debug)]
pub struct Shrink {
    /// A finding
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Executions to spend
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub max_executions: u64,
    /// Seconds to spend
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub max_seconds: Option<f64>,
    /// Where the result goes [default: beside the finding, as NAME.min.kdl]
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub out: Output,
}

/// `wbcheck explain`
#[derive(Args, Debug)]
pub struct Explain {
    /// A finding, or the id of an invariant
    #[arg(value_name = "FILE|RULE")]
    pub subject: String,
    /// Show every committed operation, not only those of the kernel's visible steps
    #[arg(long)]
    pub all: bool,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub out: Output,
}

/// `wbcheck vectors`
#[derive(Args, Debug)]
pub struct Vectors {
    /// Folder of CSV files with the names and columns of corpus/vectors [default: those]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub out: Output,
}

/// `wbcheck simulate`
#[derive(Args, Debug)]
pub struct Simulate {
    /// Scenario by name or file; may be repeated
    #[arg(long = "scenario", value_name = "SCENARIO", required_unless_present = "all")]
    pub scenarios: Vec<String>,
    /// All built-in scenarios
    #[arg(long)]
    pub all: bool,
    /// Variant by name, or knobs as flush=always,foreign=skip-bdev or with a path as memcg.job.max=4GB; may be repeated [default: all variants]
    #[arg(long = "policy", value_name = "POLICY")]
    pub policies: Vec<String>,
    /// Write plots of each variant's first seed as SVG
    #[arg(long, value_name = "DIR")]
    pub plot: Option<PathBuf>,
    /// Write time series of each variant's first seed as CSV and JSON
    #[arg(long, value_name = "DIR")]
    pub series: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub seeds: Seeds,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub out: Output,
}

/// `wbcheck sweep`
#[derive(Args, Debug)]
pub struct Sweep {
    /// Scenario by name or file
    #[arg(long, value_name = "SCENARIO")]
    pub scenario: String,
    /// Variant to begin with, or knobs, as in simulate [default: the scenario as it stands]
    #[arg(long, value_name = "POLICY")]
    pub policy: Option<String>,
    /// Property and its values; once or twice
    #[arg(long = "over", value_name = "PATH=V1,V2,...", required = true, value_parser = axis)]
    pub over: Vec<Axis>,
    /// What to show of each run
    #[arg(long, value_name = "METRIC")]
    pub metric: String,
    /// Write a plot as SVG
    #[arg(long, value_name = "DIR")]
    pub plot: Option<PathBuf>,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub seeds: Seeds,
    #[command(flatten)]
    #[allow(missing_docs)]
    pub out: Output,
}

/// Flags of seeds and threads.
#[derive(Args, Debug, Clone)]
pub struct Seeds {
    /// First seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Number of seeds, of which the median counts [default: what the scenario asks for]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub seeds: Option<u32>,
    /// Threads [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
}

/// Form of the results.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// For reading
    Human,
    /// One object a line
    Json,
}

/// When colours are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum When {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// How progress is shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Progress {
    /// A bar on a terminal, else none
    Auto,
    /// A bar
    Bar,
    /// A line now and then
    Plain,
    /// None
    None,
}

/// Who runs the tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Engine {
    /// Futures polled by hand
    Stepper,
    /// Tasks of the crate shuttle, under its schedulers
    Shuttle,
}

impl From<Engine> for wbexplore::plan::Engine {
    fn from(e: Engine) -> Self {
        match e {
            Engine::Stepper => Self::Stepper,
            Engine::Shuttle => Self::Shuttle,
        }
    }
}

impl Engine {
    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Stepper => "stepper",
            Engine::Shuttle => "shuttle",
        }
    }
}

/// How much to spend on each mutant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Tier {
    /// What catches it fastest
    Fast,
    /// Everything
    Full,
}

/// What `list` can show.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Listed {
    /// Built-in cases
    Cases,
    /// Built-in rule sets
    Rules,
    /// Invariants, and where each is known to be violated
    Invariants,
    /// Mutants
    Mutants,
    /// Rule switches and their values
    Switches,
    /// Operations of cases, and where they may stand
    Operations,
    /// Schedulers
    Schedulers,
    /// Built-in scenarios and their variants
    Scenarios,
    /// Knobs of policies and their values
    Policies,
    /// Metrics of simulations
    Metrics,
}

/// Part `index` (from 0) of `of`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    /// Index from 0.
    pub index: usize,
    /// Number of parts.
    pub of: usize,
}

fn shard(s: &str) -> Result<Shard, String> {
    let parts = s.split_once('/').and_then(|(i, n)| Some((i.parse::<usize>().ok()?, n.parse::<usize>().ok()?)));
    match parts {
        Some((i, n)) if i >= 1 && i <= n => Ok(Shard { index: i - 1, of: n }),
        _ => Err("expected i/n with 1 <= i <= n, as in 2/4".into()),
    }
}

fn axis(s: &str) -> Result<Axis, String> {
    Axis::parse(s).ok_or_else(|| "expected a path and values, as in disk.nvme.write=1GB/s,2GB/s".into())
}

fn seconds(s: &str) -> Result<f64, String> {
    match s.parse::<f64>() {
        Ok(x) if x.is_finite() && x > 0.0 && x < 1e9 => Ok(x),
        _ => Err("expected a positive number of seconds".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_table_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn shards_count_from_one() {
        assert_eq!(shard("1/4"), Ok(Shard { index: 0, of: 4 }));
        assert_eq!(shard("4/4"), Ok(Shard { index: 3, of: 4 }));
        for bad in ["0/4", "5/4", "1", "a/b", "1/0", "-1/2"] {
            assert!(shard(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn seconds_are_positive() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        for bad in ["0", "-1", "nan", "inf", "x"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
