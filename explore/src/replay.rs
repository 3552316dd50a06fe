//! Replay: a schedule as text that outlives small edits of the case and of the model.
//!
//! Main types: [`Schedule`], who runs for how many steps and which choices were answered other than 0; [`Replay`], the
//! strategy that follows one; [`Record`], the strategy that writes one down while another strategy decides.
//! Replay tolerates divergence: a decision that does not apply is skipped *and reported* ([`Divergence`]), and where the
//! schedule says nothing, the running task goes on until it cannot, then the first task by (user index, label) goes.
//! Must not know: cases, oracles, files. Tasks are named by label, which is stable as long as the objects they work for are.

use crate::strategy::Strategy;
use crate::timeline::op_text;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use wbmodel::sync::{Choice, Machine, TaskLabel, TaskName};

/// A stretch of steps of one task.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Run {
    /// Label of the task, as in `flusher` or `kworker:cgwb_release_workfn(wb#1)`.
    pub task: String,
    /// Where it ends.
    pub end: RunEnd,
}

/// Where a run ends.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RunEnd {
    /// After so many steps.
    Steps(u32),
    /// Just before the task performs this operation ([`next_op`]) for the nth time in the run, counted from 1.
    Before(String, u32),
    /// When the task has to wait or ends.
    Blocked,
}

/// A choice answered other than 0.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Answer {
    /// Name of the choice point.
    pub choice: String,
    /// Which question of that name in the execution, counted from 1.
    pub nth: u32,
    /// The answer.
    pub value: u32,
}

/// The decisions of one execution.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Schedule {
    /// Who runs, in order.
    pub runs: Vec<Run>,
    /// Choices answered other than 0, in the order in which they were asked.
    pub answers: Vec<Answer>,
}

impl Schedule {
    /// Joins neighbouring runs of one task and drops empty ones.
    pub fn join_neighbours(&mut self) {
        let mut out: Vec<Run> = Vec::with_capacity(self.runs.len());
        for r in self.runs.drain(..) {
            if r.end == RunEnd::Steps(0) {
                continue;
            }
            match out.last_mut() {
                Some(l) if l.task == r.task => {
                    l.end = match (&l.end, r.end) {
                        (RunEnd::Steps(a), RunEnd::Steps(b)) => RunEnd::Steps(a.saturating_add(b)),
                        (_, end) => end,
                    }
                }
                _ => out.push(r),
            }
        }
        self.runs = out;
    }

    /// Number of changes from one task to another.
    pub fn switches(&self) -> usize {
        self.runs.len().saturating_sub(1)
    }

    /// Number of different tasks that are named.
    pub fn tasks(&self) -> usize {
        let mut names: Vec<&str> = self.runs.iter().map(|r| r.task.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names.len()
    }
}

/// A decision of a schedule that did not apply.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Divergence {
    /// The run could not begin, or did not get to its end.
    Run {
        /// Index of the run.
        index: usize,
        /// What was wanted.
        run: Run,
        /// Steps that were done.
        done: u32,
        /// Why there were not more.
        why: Why,
    },
    /// The choice was asked less often than the answer supposes, or never.
    NotAsked(Answer),
    /// The choice has fewer answers than that.
    NoSuchAnswer(Answer),
    /// The schedule was not used up when the execution ended: index of the first run that was not begun.
    Unused(usize),
}

/// Why a task did not run although the schedule wanted it to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// It had to wait.
    Waits,
    /// No task of that label was there (not yet, or no longer).
    Absent,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Divergence::Run { index, run, done, why } => {
                let why = match why {
                    Why::Waits => "has to wait",
                    Why::Absent => "is not there",
                };
                write!(f, "decision {}: task {} {why} after {done} steps", index + 1, run.task)?;
                match &run.end {
                    RunEnd::Steps(n) => write!(f, " of {n}"),
                    RunEnd::Before(op, n) => write!(f, ", never at \"{}\"", point(op, *n)),
                    RunEnd::Blocked => Ok(()),
                }
            }
            Divergence::NotAsked(a) => write!(f, "choice {} was not asked a {}. time", a.choice, a.nth),
            Divergence::NoSuchAnswer(a) => write!(f, "choice {} has no answer {}", a.choice, a.value),
            Divergence::Unused(i) => write!(f, "the execution ended before decision {}", i + 1),
        }
    }
}

/// Words for the operation that a task performs next: `cgwb_create: spin_lock(cgwb_lock)`.
pub fn next_op(m: &Machine, slot: usize) -> String {
    let t = &m.tasks[slot];
    let func = t.stack.last().map_or(String::new(), |f| format!("{}: ", f.name));
    func + &op_text(m, t.pending.kind, t.pending.obj)
}

/// Words for a point in a run, as cases have them; [`parse_point`] reads it back.
pub fn point(op: &str, nth: u32) -> String {
    if nth == 1 { op.to_string() } else { format!("{op}, time {nth}") }
}

/// Reads what [`point`] writes.
pub fn parse_point(s: &str) -> (String, u32) {
    match s.rsplit_once(", time ").and_then(|(op, n)| Some((op, n.parse::<u32>().ok().filter(|&n| n > 0)?))) {
        Some((op, n)) => (op.to_string(), n),
        None => (s.to_string(), 1),
    }
}

/// Labels of tasks, and the order in which tasks go where nothing else decides.
#[derive(Default)]
struct Labels {
    users: Vec<String>,
    known: HashMap<TaskName, Rc<str>>,
}

impl Labels {
    fn of(&mut self, m: &Machine, slot: usize) -> Rc<str> {
        let t = &m.tasks[slot];
        let users = &self.users;
        self.known.entry(t.name).or_insert_with(|| m.task_label(t.label, users).into()).clone()
    }

    fn order(&mut self, m: &Machine, a: usize, b: usize) -> Ordering {
        let user = |s: usize| match m.tasks[s].label {
            TaskLabel::User(i) => u32::from(i),
            _ => u32::MAX,
        };
        user(a).cmp(&user(b)).then_with(|| self.of(m, a).cmp(&self.of(m, b))).then(a.cmp(&b))
    }

    /// The first task of the mask.
    fn first(&mut self, m: &Machine, enabled: u64) -> usize {
        slots(enabled).min_by(|&a, &b| self.order(m, a, b)).expect("the mask is not empty")
    }

    /// The first task of the mask with this label.
    fn find(&mut self, m: &Machine, enabled: u64, label: &str) -> Option<usize> {
        slots(enabled).find(|&s| &*self.of(m, s) == label)
    }
}

fn slots(mask: u64) -> impl Iterator<Item = usize> {
    (0..64).filter(move |s| mask & (1 << s) != 0)
}

/// Follows a schedule.
pub struct Replay {
    schedule: Schedule,
    labels: Labels,
    at: usize,
    done: u32,
    passed: u32,
    asked: HashMap<&'static str, u32>,
    used: Vec<bool>,
    diverged: Vec<Divergence>,
}

impl Replay {
    /// A replay of `schedule`; `users` are the names of the case's tasks.
    pub fn new(schedule: Schedule, users: &[String]) -> Replay {
        let used = vec![false; schedule.answers.len()];
        Replay {
            schedule,
            labels: Labels { users: users.to_vec(), known: HashMap::new() },
            at: 0,
            done: 0,
            passed: 0,
            asked: HashMap::new(),
            used,
            diverged: Vec::new(),
        }
    }

    /// Decisions that did not apply, once the execution is over.
    pub fn divergences(&self) -> Vec<Divergence> {
        let mut d = self.diverged.clone();
        let mut unused = self.at;
        if let Some(r) = self.schedule.runs.get(self.at).filter(|_| self.done > 0) {
            unused += 1;
            let over = match r.end {
                RunEnd::Steps(n) => self.done >= n,
                RunEnd::Before(..) => false,
                RunEnd::Blocked => true,
            };
            if !over {
                d.push(Divergence::Run { index: self.at, run: r.clone(), done: self.done, why: Why::Absent });
            }
        }
        if unused < self.schedule.runs.len() {
            d.push(Divergence::Unused(unused));
        }
        d.extend(self.schedule.answers.iter().zip(&self.used).filter(|(_, used)| !**used).map(|(a, _)| Divergence::NotAsked(a.clone())));
        d
    }

    fn next_run(&mut self) {
        self.at += 1;
        self.done = 0;
        self.passed = 0;
    }
}

impl Strategy for Replay {
    fn begin(&mut self, nth: u64) -> bool {
        self.at = 0;
        self.done = 0;
        self.passed = 0;
        self.asked.clear();
        self.labels.known.clear();
        self.diverged.clear();
        self.used.fill(false);
        nth == 0
    }

    fn pick(&mut self, m: &mut Machine, enabled: u64, last: Option<usize>) -> Option<usize> {
        while let Some(r) = self.schedule.runs.get(self.at) {
            if matches!(r.end, RunEnd::Steps(n) if self.done >= n) {
                self.next_run();
                continue;
            }
            if let Some(s) = self.labels.find(m, enabled, &r.task) {
                if let RunEnd::Before(op, nth) = &r.end
                    && next_op(m, s) == *op
                {
                    self.passed += 1;
                    if self.passed >= *nth {
                        self.next_run();
                        continue;
                    }
                }
                self.done += 1;
                return Some(s);
            }
            if r.end != RunEnd::Blocked || self.done == 0 {
                let live = (0..m.tasks.len()).filter(|&s| m.tasks[s].live).fold(0, |x, s| x | 1u64 << s);
                // An operation that has to wait, and that the run was to end before, was reached.
                let there = self.labels.find(m, live, &r.task);
                let reached = matches!((&r.end, there), (RunEnd::Before(op, nth), Some(s)) if self.passed + 1 >= *nth && next_op(m, s) == *op);
                if !reached {
                    let why = if there.is_some() { Why::Waits } else { Why::Absent };
                    self.diverged.push(Divergence::Run { index: self.at, run: r.clone(), done: self.done, why });
                }
            }
            self.next_run();
        }
        Some(last.filter(|&s| enabled & (1 << s) != 0).unwrap_or_else(|| self.labels.first(m, enabled)))
    }

    fn choose(&mut self, _: &Machine, c: Choice) -> u32 {
        let n = self.asked.entry(c.name()).or_insert(0);
        *n += 1;
        let Some(i) = self.schedule.answers.iter().position(|a| a.nth == *n && a.choice == c.name()) else { return 0 };
        self.used[i] = true;
        let a = &self.schedule.answers[i];
        if a.value < c.arity() {
            a.value
        } else {
            self.diverged.push(Divergence::NoSuchAnswer(a.clone()));
            0
        }
    }
}

/// Writes down what another strategy decides.
pub struct Record<S> {
    /// The strategy that decides.
    pub inner: S,
    labels: Labels,
    runs: Vec<Stretch>,
    answers: Vec<Answer>,
    asked: HashMap<&'static str, u32>,
    preemptions: u32,
    /// Write down operations and not only numbers of steps.
    words: bool,
    trail: Vec<String>,
}

struct Stretch {
    task: Rc<str>,
    steps: u32,
    end: Option<RunEnd>,
}

impl<S> Record<S> {
    /// Records the decisions of `inner`, a run that another task interrupts by its number of steps; `users` are the names of the case's tasks.
    pub fn new(inner: S, users: &[String]) -> Record<S> {
        let labels = Labels { users: users.to_vec(), known: HashMap::new() };
        Record { inner, labels, runs: Vec::new(), answers: Vec::new(), asked: HashMap::new(), preemptions: 0, words: false, trail: Vec::new() }
    }

    /// Records in words: a run that another task interrupts ends before a named operation.
    pub fn in_words(inner: S, users: &[String]) -> Record<S> {
        Record { words: true, ..Record::new(inner, users) }
    }

    /// The decisions of the last execution.
    pub fn schedule(&self) -> Schedule {
        let run = |r: &Stretch| Run { task: r.task.to_string(), end: r.end.clone().unwrap_or(RunEnd::Blocked) };
        Schedule { runs: self.runs.iter().map(run).collect(), answers: self.answers.clone() }
    }

    /// Switches away from a task that could have gone on.
    pub fn preemptions(&self) -> u32 {
        self.preemptions
    }

    /// Steps of the last execution.
    pub fn steps(&self) -> u32 {
        self.runs.iter().map(|r| r.steps).sum()
    }

    /// Labels of the tasks that ran in the last execution.
    pub fn labels(&self) -> HashMap<TaskName, String> {
        self.labels.known.iter().map(|(n, l)| (*n, l.to_string())).collect()
    }

    /// The run under way is left although `slot` could go on.
    fn interrupted(&mut self, m: &Machine, slot: usize) {
        let r = self.runs.last_mut().expect("a run is left");
        r.end = Some(if self.words {
            let op = next_op(m, slot);
            let nth = 1 + self.trail.iter().filter(|o| **o == op).count() as u32;
            RunEnd::Before(op, nth)
        } else {
            RunEnd::Steps(r.steps)
        });
    }
}

impl<S: Strategy> Strategy for Record<S> {
    fn begin(&mut self, nth: u64) -> bool {
        self.labels.known.clear();
        self.runs.clear();
        self.answers.clear();
        self.asked.clear();
        self.trail.clear();
        self.preemptions = 0;
        self.inner.begin(nth)
    }

    fn pick(&mut self, m: &mut Machine, enabled: u64, last: Option<usize>) -> Option<usize> {
        let s = self.inner.pick(m, enabled, last)?;
        let label = self.labels.of(m, s);
        if let Some(l) = last.filter(|&l| l != s && enabled & (1 << l) != 0) {
            self.preemptions += 1;
            self.interrupted(m, l);
        } else if let Some(before) = self.runs.last().map(|r| r.task.clone()).filter(|t| *t != label)
            && let Some(other) = self.labels.find(m, enabled, &before)
        {
            // The task cannot go on, but one of the same label could: the next instance of a work item.
            self.interrupted(m, other);
        }
        match self.runs.last_mut() {
            Some(r) if r.task == label => r.steps += 1,
            _ => {
                self.runs.push(Stretch { task: label, steps: 1, end: None });
                self.trail.clear();
            }
        }
        if self.words {
            self.trail.push(next_op(m, s));
        }
        Some(s)
    }

    fn choose(&mut self, m: &Machine, c: Choice) -> u32 {
        let value = self.inner.choose(m, c);
        let n = self.asked.entry(c.name()).or_insert(0);
        *n += 1;
        if value != 0 {
            self.answers.push(Answer { choice: c.name().to_string(), nth: *n, value });
        }
        value
    }

    fn stepped(&mut self, m: &mut Machine, s: usize) {
        self.inner.stepped(m, s);
    }
}
