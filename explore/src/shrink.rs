//! Shrinking: the smallest schedule that still breaks the same rule, in canonical form.
//!
//! Main entry: [`shrink_schedule`]. Delta debugging over runs and answers, joining of neighbours, moving of switches, then
//! the lexicographically least schedule of the same size, then a check that each remaining decision is needed.
//! Source: *Simplifying and Isolating Failure-Inducing Input* (2002), *Isolating Failure-Inducing Thread Schedules* (2002).
//! Must not know: cases and oracles; a candidate is judged by the function that the caller hands over.
//! What it misses: local minima. A smaller failure that no single removal or move leads to is not found.

use crate::replay::{Run, RunEnd, Schedule};

/// A candidate that fails with the rule in question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failing {
    /// What was executed, up to the violation.
    pub schedule: Schedule,
    /// Switches away from a task that could have gone on.
    pub preemptions: u32,
    /// Steps up to the violation.
    pub steps: u32,
}

/// Size of a failing schedule, most important first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Size {
    /// Choices answered other than 0.
    pub answers: usize,
    /// Switches away from a task that could have gone on.
    pub preemptions: u32,
    /// Tasks that ran.
    pub tasks: usize,
    /// Changes from one task to another.
    pub switches: usize,
    /// Steps up to the violation.
    pub steps: u32,
}

impl Failing {
    /// Its size.
    pub fn size(&self) -> Size {
        let s = &self.schedule;
        Size { answers: s.answers.len(), preemptions: self.preemptions, tasks: s.tasks(), switches: s.switches(), steps: self.steps }
    }
}

/// Result of shrinking a schedule.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smallest failing execution found.
    pub best: Failing,
    /// Its decisions, without those that replay takes by itself.
    pub schedule: Schedule,
    /// For each run of `schedule`: the violation vanishes without it.
    pub needed: Vec<bool>,
    /// Candidates executed.
    pub executions: u64,
    /// The budget ran out before nothing more could be taken away.
    pub cut_short: bool,
}

/// Judges candidates within a budget.
pub struct Judge<'a> {
    run: &'a mut dyn FnMut(&Schedule) -> Option<Failing>,
    /// Candidates executed.
    pub executions: u64,
    limit: u64,
    stop: &'a dyn Fn() -> bool,
    /// The budget ran out.
    pub cut_short: bool,
}

impl<'a> Judge<'a> {
    /// A judge that executes at most `limit` candidates with `run`, and none once `stop` says so.
    pub fn new(run: &'a mut dyn FnMut(&Schedule) -> Option<Failing>, limit: u64, stop: &'a dyn Fn() -> bool) -> Judge<'a> {
        Judge { run, executions: 0, limit, stop, cut_short: false }
    }

    fn fails(&mut self, s: &Schedule) -> Option<Failing> {
        if self.executions >= self.limit || (self.stop)() {
            self.cut_short = true;
            return None;
        }
        self.executions += 1;
        (self.run)(s)
    }
}

/// Shrinks the schedule of a failing execution. `None` if replaying `start` does not fail.
pub fn shrink_schedule(start: &Schedule, judge: &mut Judge<'_>) -> Option<Shrunk> {
    let mut best = judge.fails(start)?;
    loop {
        let before = best.size();
        drop_answers(&mut best, judge);
        drop_runs(&mut best, judge);
        join(&mut best, judge);
        move_switches(&mut best, judge);
        if best.size() == before || judge.cut_short {
            break;
        }
    }
    least(&mut best, judge);
    let schedule = implied(&mut best, judge);
    let needed = (0..schedule.runs.len()).map(|i| judge.fails(&without(&schedule, i, i + 1)).is_none()).collect();
    Some(Shrunk { best, schedule, needed, executions: judge.executions, cut_short: judge.cut_short })
}

/// Takes the candidate if it fails and is smaller.
fn take(best: &mut Failing, candidate: &Schedule, judge: &mut Judge<'_>) -> bool {
    match judge.fails(candidate) {
        Some(f) if f.size() < best.size() => {
            *best = f;
            true
        }
        _ => false,
    }
}

fn without(s: &Schedule, from: usize, to: usize) -> Schedule {
    let runs = s.runs.iter().enumerate().filter(|(i, _)| *i < from || *i >= to).map(|(_, r)| r.clone()).collect();
    let mut out = Schedule { runs, answers: s.answers.clone() };
    out.join_neighbours();
    out
}

fn drop_answers(best: &mut Failing, judge: &mut Judge<'_>) {
    let mut i = 0;
    while i < best.schedule.answers.len() {
        let mut s = best.schedule.clone();
        s.answers.remove(i);
        if !take(best, &s, judge) {
            i += 1;
        }
    }
}

/// Delta debugging: halves, quarters, down to single runs.
fn drop_runs(best: &mut Failing, judge: &mut Judge<'_>) {
    let mut chunk = best.schedule.runs.len().div_ceil(2);
    while chunk > 0 && !judge.cut_short {
        let mut i = 0;
        let mut any = false;
        while i < best.schedule.runs.len() && !judge.cut_short {
            let s = without(&best.schedule, i, i + chunk);
            if take(best, &s, judge) {
                any = true;
            } else {
                i += chunk;
            }
        }
        if chunk == 1 && !any {
            break;
        }
        chunk = if any { chunk.min(best.schedule.runs.len().div_ceil(2)).max(1) } else { chunk / 2 };
    }
}

/// Brings two stretches of one task together, before or after what separates them.
fn join(best: &mut Failing, judge: &mut Judge<'_>) {
    let mut i = 0;
    while i < best.schedule.runs.len() && !judge.cut_short {
        let runs = &best.schedule.runs;
        let Some(k) = (i + 1..runs.len()).find(|&k| runs[k].task == runs[i].task) else {
            i += 1;
            continue;
        };
        let mut early = best.schedule.clone();
        let moved = early.runs.remove(k);
        early.runs.insert(i + 1, moved);
        early.join_neighbours();
        let mut late = best.schedule.clone();
        let moved = late.runs.remove(i);
        late.runs.insert(k - 1, moved);
        late.join_neighbours();
        if !take(best, &early, judge) && !take(best, &late, judge) {
            i += 1;
        }
    }
}

/// Replaces an interruption by letting the task run on, or moves it by one operation.
fn move_switches(best: &mut Failing, judge: &mut Judge<'_>) {
    let mut i = 0;
    while i < best.schedule.runs.len() && !judge.cut_short {
        if let RunEnd::Steps(n) = best.schedule.runs[i].end {
            for end in [RunEnd::Blocked, RunEnd::Steps(n - n.min(1)), RunEnd::Steps(n + 1)] {
                let mut s = best.schedule.clone();
                s.runs[i].end = end;
                s.join_neighbours();
                if take(best, &s, judge) {
                    break;
                }
            }
        }
        i += 1;
    }
}

/// The lexicographically least schedule of the same size that moves of one run lead to.
fn least(best: &mut Failing, judge: &mut Judge<'_>) {
    /// Positions tried for one switch: a bound on work, not on correctness.
    const TRIES: u32 = 32;
    let mut i = 0;
    let mut take_least = |best: &mut Failing, s: &Schedule| match judge.fails(s) {
        Some(f) if f.size() < best.size() || (f.size() == best.size() && f.schedule < best.schedule) => {
            *best = f;
            true
        }
        _ => false,
    };
    while i < best.schedule.runs.len() {
        if let RunEnd::Steps(n) = best.schedule.runs[i].end {
            for k in 1..n.min(TRIES) {
                let mut s = best.schedule.clone();
                s.runs[i].end = RunEnd::Steps(k);
                if take_least(best, &s) {
                    break;
                }
            }
        }
        let runs = &best.schedule.runs;
        if i + 1 < runs.len() && runs[i + 1].task < runs[i].task {
            let mut s = best.schedule.clone();
            s.runs.swap(i, i + 1);
            s.join_neighbours();
            if take_least(best, &s) {
                i = i.saturating_sub(1);
                continue;
            }
        }
        i += 1;
    }
}

/// Leaves out runs that replay makes by itself, and those without which the violation stays.
fn implied(best: &mut Failing, judge: &mut Judge<'_>) -> Schedule {
    let mut s = best.schedule.clone();
    let mut i = s.runs.len();
    while i > 0 {
        i -= 1;
        let shorter = without(&s, i, i + 1);
        // Longer is fine, more switches are not.
        let steps = |f: &Failing| Size { steps: 0, ..f.size() };
        if let Some(f) = judge.fails(&shorter).filter(|f| steps(f) <= steps(best)) {
            *best = f;
            s = shorter;
            i = i.min(s.runs.len());
        }
    }
    if let Some(Run { end, .. }) = s.runs.last_mut() {
        let exact = std::mem::replace(end, RunEnd::Blocked);
        if judge.fails(&s).is_none_or(|f| f != *best)
            && let Some(r) = s.runs.last_mut()
        {
            r.end = exact;
        }
    }
    s
}
