//! What all verbs share: the context of a run, its clock, its stop button, and where findings go.

use crate::args::{Engine, Output, Seeds, Shard, Work};
use crate::corpus::Subject;
use crate::problem::Problem;
use crate::report::{Header, RunEvent, SCHEMA, Sink};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use wbexplore::finding::decisions_of;
use wbexplore::plan::{self, Plan, SEARCHES, Wish};
use wbexplore::shuttle::SCHEDULERS;
use wbexplore::verdict::Found;
use wbmodel::cases::{self, Case, Finding, RuleSet};
use wbmodel::scenarios::EditError;
use wbmodel::text::LoadError;

/// Set by Ctrl-C: everything stops at its next execution.
pub static STOP: AtomicBool = AtomicBool::new(false);

/// Commit that this program was built from.
pub const COMMIT: Option<&str> = option_env!("WBCHECK_COMMIT");

/// Was the run interrupted?
pub fn interrupted() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Why a verb ends early.
pub enum Early {
    /// The user's or the machine's error.
    Problem(Problem),
    /// Stdout cannot be written.
    Output(io::Error),
    /// A bug in wbcheck, noted by the panic hook.
    Panic,
}

impl From<Problem> for Early {
    fn from(p: Problem) -> Early {
        Early::Problem(p)
    }
}

impl From<EditError> for Early {
    fn from(e: EditError) -> Early {
        Early::Problem(Problem::new(e.message, e.help.unwrap_or_else(|| "`wbcheck list policies` shows the knobs of policies".to_string())))
    }
}

impl From<io::Error> for Early {
    fn from(e: io::Error) -> Early {
        Early::Output(e)
    }
}

impl From<crate::pool::Panic> for Early {
    fn from(_: crate::pool::Panic) -> Early {
        Early::Panic
    }
}

impl From<LoadError> for Early {
    fn from(e: LoadError) -> Early {
        Early::Problem(e.into())
    }
}

/// A clock that can be told to say nothing.
pub struct Clock {
    start: Instant,
    shown: bool,
}

impl Clock {
    /// Starts now.
    pub fn start(out: &Output) -> Clock {
        Clock { start: Instant::now(), shown: !out.no_times }
    }
    /// Seconds so far, unless times are left out.
    pub fn seconds(&self) -> Option<f64> {
        self.shown.then(|| (self.start.elapsed().as_secs_f64() * 1000.0).round() / 1000.0)
    }
    /// Have this many seconds passed?
    pub fn passed(&self, limit: Option<f64>) -> bool {
        limit.is_some_and(|l| self.start.elapsed().as_secs_f64() >= l)
    }
}

/// First line of a run that explores or replays on the engine.
pub fn header_on(engine: Engine, command: &'static str, work: Option<&Work>, rules: Vec<String>, cases: usize) -> RunEvent {
    match header(command, work, rules, cases) {
        RunEvent::Header(h) => RunEvent::Header(Header { engine: engine.name(), ..h }),
        other => other,
    }
}

/// First line of a run.
pub fn header(command: &'static str, work: Option<&Work>, rules: Vec<String>, cases: usize) -> RunEvent {
    RunEvent::Header(Header {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        commit: COMMIT,
        command,
        seed: work.map_or(0, |w| w.seed),
        engine: work.map_or(Engine::Stepper, |w| w.engine).name(),
        scheduler: work.and_then(|w| w.scheduler.clone()),
        max_executions: work.and_then(|w| w.max_executions),
        max_seconds: work.and_then(|w| w.max_seconds),
        rules,
        cases,
        shard: work.and_then(|w| w.shard).map(|s: Shard| format!("{}/{}", s.index + 1, s.of)),
    })
}

/// What the command line asks for instead of what the cases ask for.
pub fn wish(work: &Work) -> Wish {
    Wish { engine: work.engine.into(), search: work.scheduler.clone(), seed: work.seed, max_executions: work.max_executions }
}

/// First line of a run that simulates.
pub fn header_of_simulation(command: &'static str, seeds: &Seeds, policies: Vec<String>, scenarios: usize) -> RunEvent {
    match header(command, None, policies, scenarios) {
        RunEvent::Header(h) => RunEvent::Header(Header { engine: "simulation", seed: seeds.seed, ..h }),
        other => other,
    }
}

/// The plan for a case.
pub fn plan(subject: &Subject, wish: &Wish) -> Result<Plan, Problem> {
    Plan::of(&subject.case.search, wish).map_err(|e| {
        let table = if wish.engine == plan::Engine::Shuttle { SCHEDULERS } else { SEARCHES };
        let names = table.iter().map(|s| s.0);
        if wish.search.is_some() {
            Problem::unknown("scheduler", &e.0, names, "schedulers")
        } else {
            Problem::new(format!("{}: {e}", subject.file), "`wbcheck list schedulers` shows what there is")
        }
    })
}

/// Number of threads: as asked for, or one a core.
pub fn jobs(asked: Option<u16>) -> usize {
    asked.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from)
}

/// Where findings are written.
pub struct Findings<'a> {
    dir: &'a Path,
    made: bool,
}

impl<'a> Findings<'a> {
    /// In this folder, which is made when the first is written.
    pub fn new(dir: &'a Path) -> Findings<'a> {
        Findings { dir, made: false }
    }

    #[allow(clippy::too_many_arguments, reason = "one caller a verb, and a struct for it would be named after this function")]
    /// Writes a finding as a case and returns the command that replays it. `name` becomes the file's name.
    pub fn write(&mut self, name: &str, case: &Case, rules: &RuleSet, given: &str, mutant: Option<&str>, found: &Found, how: &str) -> Result<String, Problem> {
        let finding = Finding {
            rules: rules.name.clone(),
            mutant: mutant.map(str::to_string),
            violation: Some(found.rule.to_string()),
            decisions: decisions_of(&found.schedule),
            ..Finding::default()
        };
        let case = Case { findings: vec![finding], ..case.clone() };
        let path = self.dir.join(format!("{}.kdl", file_name(name)));
        let text = finding_text(&case, found, how);
        self.make_dir()?;
        std::fs::write(&path, text).map_err(|e| Problem::new(format!("{}: {e}", path.display()), "--output DIR puts findings elsewhere"))?;
        Ok(replay_command(&path, rules, given))
    }

    fn make_dir(&mut self) -> Result<(), Problem> {
        if !self.made {
            let cannot = |e| Problem::new(format!("{}: {e}", self.dir.display()), "--output DIR puts findings elsewhere");
            std::fs::create_dir_all(self.dir).map_err(cannot)?;
            self.made = true;
        }
        Ok(())
    }
}

/// A finding as text: what it is and where it comes from, then the case with its decisions.
fn finding_text(case: &Case, found: &Found, how: &str) -> String {
    let commit = COMMIT.map_or(String::new(), |c| format!(", commit {c}"));
    let detail = found.detail.replace(['\n', '\r'], " ");
    format!("// {} violated: {detail}\n// found by wbcheck {}{commit}: {how}\n{}", found.rule, env!("CARGO_PKG_VERSION"), cases::print(case))
}

/// The command that replays a file; `given` is how the rule set was named on the command line.
pub fn replay_command(path: &Path, rules: &RuleSet, given: &str) -> String {
    let file = quote(&path.display().to_string());
    if crate::corpus::rules_names().any(|n| n == rules.name) {
        format!("wbcheck replay {file}")
    } else {
        format!("wbcheck replay {file} --rules {}", quote(given))
    }
}

/// A word for the shell.
fn quote(s: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=+,@%".contains(c);
    if !s.is_empty() && s.chars().all(plain) { s.to_string() } else { format!("'{}'", s.replace('\'', r"'\''")) }
}

/// A name as part of a file name.
pub fn file_name(s: &str) -> String {
    s.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' }).collect()
}

/// Writes a file into a folder, which is made if it is not there; `flag` is where the user named it.
pub fn write_into(dir: &Path, name: &str, text: &str, flag: &str) -> Result<PathBuf, Problem> {
    let path = dir.join(name);
    let cannot = |path: &Path, e: io::Error| Problem::new(format!("{}: {e}", path.display()), format!("{flag} DIR names a folder that can be written"));
    std::fs::create_dir_all(dir).map_err(|e| cannot(dir, e))?;
    std::fs::write(&path, text).map_err(|e| cannot(&path, e))?;
    Ok(path)
}

/// Path for the shrunk form of a finding.
pub fn shrunk_path(file: &Path) -> PathBuf {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    file.with_file_name(format!("{stem}.min.kdl"))
}

/// Sends an event.
pub fn say(sink: &mut dyn Sink, e: RunEvent) -> Result<(), Early> {
    Ok(sink.event(&e)?)
}
