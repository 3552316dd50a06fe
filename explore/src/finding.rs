//! Schedules as cases keep them: between [`Schedule`] and the decisions of a [`Finding`].

use crate::replay::{Answer, Run, RunEnd, Schedule, parse_point, point};
use wbmodel::cases::{Decision, Finding};

/// The schedule that a finding keeps. The nth `choose` of a name answers the nth question of that name.
pub fn schedule_of(f: &Finding) -> Schedule {
    let mut s = Schedule::default();
    let mut asked: Vec<(&str, u32)> = Vec::new();
    for d in &f.decisions {
        match d {
            Decision::Run { task, steps, until } => {
                let end = match (until, steps) {
                    (Some(u), _) => {
                        let (op, nth) = parse_point(u);
                        RunEnd::Before(op, nth)
                    }
                    (None, Some(n)) => RunEnd::Steps(*n),
                    (None, None) => RunEnd::Blocked,
                };
                s.runs.push(Run { task: task.clone(), end });
            }
            Decision::Choose { site, value } => {
                let i = asked.iter().position(|a| a.0 == site).unwrap_or_else(|| {
                    asked.push((site, 0));
                    asked.len() - 1
                });
                asked[i].1 += 1;
                if *value != 0 {
                    s.answers.push(Answer { choice: site.clone(), nth: asked[i].1, value: *value });
                }
            }
        }
    }
    s
}

/// The decisions of a schedule: runs, then choices, each name's from its first question to the last that is not answered 0.
pub fn decisions_of(s: &Schedule) -> Vec<Decision> {
    let run = |r: &Run| {
        let (steps, until) = match &r.end {
            RunEnd::Steps(n) => (Some(*n), None),
            RunEnd::Before(op, nth) => (None, Some(point(op, *nth))),
            RunEnd::Blocked => (None, None),
        };
        Decision::Run { task: r.task.clone(), steps, until }
    };
    let mut out: Vec<Decision> = s.runs.iter().map(run).collect();
    let mut names: Vec<&str> = Vec::new();
    for a in &s.answers {
        if !names.contains(&a.choice.as_str()) {
            names.push(&a.choice);
        }
    }
    for name in names {
        let mut answers: Vec<&Answer> = s.answers.iter().filter(|a| a.choice == name).collect();
        answers.sort_by_key(|a| a.nth);
        let mut next = 1;
        for a in answers {
            for _ in next..a.nth {
                out.push(Decision::Choose { site: name.to_string(), value: 0 });
            }
            out.push(Decision::Choose { site: name.to_string(), value: a.value });
            next = a.nth + 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_survives_being_kept_in_a_case() {
        let run = |task: &str, end| Run { task: task.into(), end };
        let answer = |choice: &str, nth, value| Answer { choice: choice.into(), nth, value };
        let s = Schedule {
            runs: vec![run("a", RunEnd::Steps(3)), run("b", RunEnd::Before("f: spin_lock(wb#1.list_lock)".into(), 2)), run("a", RunEnd::Blocked)],
            answers: vec![answer("cgwb_create", 2, 1), answer("cgwb_create", 4, 1), answer("stale", 1, 3)],
        };
        let f = Finding { decisions: decisions_of(&s), ..Finding::default() };
        assert_eq!(schedule_of(&f), s);
    }
}
