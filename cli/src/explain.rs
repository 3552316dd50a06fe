//! `wbcheck explain`: a finding as a timeline with one column a task, or what an invariant means.

use crate::args;
use crate::corpus::{self, Subject};
use crate::exit::Exit;
use crate::finding::{self, Recorded};
use crate::list::statuses;
use crate::replay::end_words;
use crate::report::{RunEvent, Sink};
use crate::run::{self, Early, say};
use wbexplore::timeline::{Row, Timeline};
use wbexplore::verdict::{Detail, Replayed, replay};
use wbmodel::mutants::TABLE;
use wbmodel::oracles::{Invariant, invariant};
use wbmodel::sync::Violation;

/// Characters of a column at most; longer text is wrapped.
const WIDTH: usize = 44;
/// More tasks than this share columns: one a user task, one for workers, one for RCU callbacks and timers.
const COLUMNS: usize = 4;
/// Operations in a row of one task that are shown at each end of a longer stretch.
const ENDS: usize = 8;

/// Runs the verb.
pub fn run(a: &args::Explain, sink: &mut dyn Sink) -> Result<Exit, Early> {
    say(sink, run::header("explain", None, Vec::new(), 0))?;
    if let Some(i) = invariant(&a.subject) {
        say(sink, RunEvent::Text { lines: meaning(i)? })?;
        return Ok(Exit::AsDeclared);
    }
    let subject = corpus::case(&a.subject)?;
    for r in finding::open(&subject, None)? {
        let x = replay(&r.scene(&subject.case), &r.schedule, r.finding.violation.as_deref(), Detail::Words);
        say(sink, RunEvent::Text { lines: story(&subject, &r, &x, a.all) })?;
    }
    Ok(Exit::AsDeclared)
}

/// What an invariant means, and what is known about it.
fn meaning(i: &Invariant) -> Result<Vec<String>, Early> {
    let mut out = vec![format!("{} {}", i.id, i.name), format!("  {}", i.says), format!("  upheld by {}", i.source)];
    let known = statuses(&i.status);
    out.push(format!("  status  {}", if known.is_empty() { "must hold under every built-in rule set" } else { known.trim_start_matches("; ") }));
    let mutants: Vec<&str> = TABLE.iter().filter(|r| r.breaks.contains(&i.id)).map(|r| r.id).collect();
    out.push(format!("  mutants that it must catch  {}", if mutants.is_empty() { "none".into() } else { mutants.join(", ") }));
    for s in corpus::all_cases()? {
        for e in s.case.expect.iter().filter(|e| e.violates.iter().any(|v| v == i.id)) {
            out.push(format!("  shown by case {} under {}", s.source, if e.rules == "*" { "every rule set" } else { &e.rules }));
        }
    }
    Ok(out)
}

/// A finding: what was expected, what happened, and the way there.
fn story(subject: &Subject, r: &Recorded, x: &Replayed, all: bool) -> Vec<String> {
    let name = r.finding.violation.as_deref();
    let broken = x.violations.iter().find(|v| name.is_none_or(|n| n == v.rule)).or(x.violations.first());
    let mut out = Vec::new();
    let row = broken.and_then(|v| x.timeline.row_at(v.at));
    let mutant = r.finding.mutant.as_ref().map_or(String::new(), |m| format!(", mutant {m}"));
    match (broken, row.map(|i| &x.timeline.rows[i])) {
        (Some(v), Some(at)) => {
            let who = &x.timeline.tasks[at.task];
            out.push(format!(
                "FAIL  {} {}   {}, rules {}{mutant}   step {} of {}, task {who}",
                v.rule,
                name_of(v),
                subject.case.name,
                r.set.name,
                at.step,
                x.timeline.steps
            ));
        }
        (Some(v), None) => out.push(format!("FAIL  {} {}   {}, rules {}{mutant}", v.rule, name_of(v), subject.case.name, r.set.name)),
        (None, _) => out.push(format!("no violation   {}, rules {}{mutant}: {}", subject.case.name, r.set.name, end_words(x.end))),
    }
    if let Some(v) = broken {
        out.push(format!("  expected  {}", invariant(v.rule).map_or("no violation", |i| i.says)));
        out.push(format!("  observed  {}", v.detail));
    }
    out.extend(x.diverged.iter().map(|d| format!("  does not apply: {d}")));
    if !subject.case.about.is_empty() {
        out.push(format!("  about     {}", subject.case.about));
    }
    out.push(String::new());
    out.extend(table(&x.timeline, row.zip(broken.map(|v| v.rule)), all));
    out.push(format!("  replay: wbcheck replay {}", subject.source));
    out
}

fn name_of(v: &Violation) -> &'static str {
    invariant(v.rule).map_or("", |i| i.name)
}

/// Which column a task is in, and the columns' headings.
///
/// One column a task, as far as they fit; otherwise the kernel's own tasks share columns and are named where they start to run.
fn layout(t: &Timeline, used: impl Fn(usize) -> bool) -> (Vec<usize>, Vec<String>) {
    let share = (0..t.tasks.len()).filter(|&i| used(i)).count() > COLUMNS;
    let mut heads: Vec<String> = Vec::new();
    let of = t.tasks.iter().map(|label| {
        let head = match label.split_once(':') {
            Some(("kworker", _)) if share => "kworkers",
            Some(("rcu" | "timer", _)) if share => "softirqs",
            _ => label,
        };
        heads.iter().position(|h| h == head).unwrap_or_else(|| {
            heads.push(head.to_string());
            heads.len() - 1
        })
    });
    (of.collect(), heads)
}

/// The timeline as lines; `broken` is the row at which a rule breaks.
fn table(t: &Timeline, broken: Option<(usize, &str)>, all: bool) -> Vec<String> {
    let shown = shown(t, broken.map(|b| b.0), all);
    let (column_of, heads) = layout(t, |task| t.rows.iter().zip(&shown).any(|(r, s)| *s && r.task == task));
    let mut cells: Vec<(String, usize, Vec<String>)> = Vec::new();
    let mut last: Option<(usize, Option<&str>)> = None;
    let mut at = 0;
    for (i, r) in t.rows.iter().enumerate() {
        if !shown[i] {
            continue;
        }
        let hidden = t.rows[at..i].iter().filter(|r| r.visible && r.task == t.rows[i].task).count();
        let mut lines = Vec::new();
        if last.is_none_or(|l| l.0 != r.task) && heads[column_of[r.task]] != t.tasks[r.task] {
            let (_, name) = t.tasks[r.task].split_once(':').unwrap_or(("", &t.tasks[r.task]));
            lines.push(format!("[{name}]"));
        }
        if hidden > 0 {
            lines.push(format!("... {hidden} operations ..."));
        }
        at = i + 1;
        if (hidden > 0 || last != Some((r.task, r.func)))
            && let Some(f) = r.func
        {
            lines.push(format!("{f}():"));
        }
        last = Some((r.task, r.func));
        let mark = broken.filter(|b| b.0 == i).map_or(String::new(), |b| format!("  <-- {} breaks", b.1));
        lines.extend(wrap(&format!("{}{mark}", r.text)));
        cells.push((step_text(r), column_of[r.task], lines));
    }
    let columns: Vec<usize> = (0..heads.len()).filter(|c| cells.iter().any(|x| x.1 == *c)).collect();
    let widths: Vec<usize> = columns
        .iter()
        .map(|c| {
            let text = cells.iter().filter(|x| x.1 == *c).flat_map(|x| &x.2).map(|l| l.chars().count()).max().unwrap_or(0);
            text.max(heads[*c].chars().count().min(WIDTH))
        })
        .collect();
    let line = |step: &str, column: Option<usize>, text: &str| {
        let mut s = format!("{step:>6} |");
        for (c, w) in columns.iter().zip(&widths) {
            s += &format!(" {:w$} |", if column == Some(*c) { text } else { "" });
        }
        s.trim_end_matches([' ', '|']).to_string()
    };
    let mut head = format!("{:>6} |", "step");
    for (c, w) in columns.iter().zip(&widths) {
        head += &format!(" {:w$} |", heads[*c].chars().take(WIDTH).collect::<String>());
    }
    let mut out = vec![head.trim_end_matches([' ', '|']).to_string()];
    for (step, column, lines) in &cells {
        for (i, l) in lines.iter().enumerate() {
            out.push(line(if i + 1 == lines.len() || lines.len() == 1 { step } else { "" }, Some(*column), l));
        }
    }
    out
}

fn step_text(r: &Row) -> String {
    if r.is_step { r.step.to_string() } else { String::new() }
}

/// Which rows are shown: all visible ones, but of a long stretch of one task only its ends.
fn shown(t: &Timeline, broken: Option<usize>, all: bool) -> Vec<bool> {
    let mut shown: Vec<bool> = t.rows.iter().map(|r| all || r.visible).collect();
    if !all {
        let visible: Vec<usize> = (0..t.rows.len()).filter(|i| shown[*i]).collect();
        for stretch in visible.chunk_by(|a, b| t.rows[*a].task == t.rows[*b].task).filter(|s| s.len() > 2 * ENDS + 1) {
            for i in &stretch[ENDS..stretch.len() - ENDS] {
                shown[*i] = false;
            }
        }
    }
    if let Some(b) = broken {
        shown[b] = true;
    }
    shown
}

/// Breaks text at spaces, as far as there are any.
fn wrap(text: &str) -> Vec<String> {
    let mut out = vec![String::from(" ")];
    for word in text.split(' ') {
        let line = out.last_mut().expect("there is a line");
        if line.chars().count() + 1 + word.chars().count() > WIDTH && line.trim() != "" {
            out.push(format!("    {word}"));
        } else {
            line.push(' ');
            line.push_str(word);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(step: u32, task: usize, func: &'static str, text: &str) -> Row {
        Row { event: step, step, task, func: Some(func), text: text.into(), is_step: true, visible: true }
    }

    #[test]
    fn a_timeline_has_one_column_a_task_and_marks_the_break() {
        let t = Timeline {
            tasks: vec!["admin".into(), "flusher".into()],
            rows: vec![row(1, 0, "cgwb_kill", "spin_lock(cgwb_lock)"), row(2, 1, "wb_get_lookup", "read wb#1.refcnt = 0")],
            steps: 2,
        };
        let text = table(&t, Some((1, "LT-LOOK-3")), false);
        assert_eq!(
            text,
            [
                "  step | admin                  | flusher",
                "       | cgwb_kill():",
                "     1 |   spin_lock(cgwb_lock)",
                "       |                        | wb_get_lookup():",
                "     2 |                        |   read wb#1.refcnt = 0  <-- LT-LOOK-3 breaks",
            ]
        );
    }

    #[test]
    fn long_stretches_are_folded_and_counted() {
        let rows = (1..=40).map(|i| row(i, 0, "f", "x")).collect();
        let t = Timeline { tasks: vec!["a".into()], rows, steps: 40 };
        let text = table(&t, None, false).join("\n");
        assert!(text.contains("... 24 operations ..."), "{text}");
        assert!(!table(&t, None, true).join("\n").contains("..."));
    }
}
