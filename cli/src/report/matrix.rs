//! The matrix invariant by rule set.

use super::style::Style;
use super::{ResultLine, Status};
use wbmodel::oracles::INVARIANTS;

/// What all cases together say about one invariant under one rule set.
#[derive(Clone, Copy, Default)]
struct Cell {
    holds: bool,
    violated: bool,
    declared: bool,
    undeclared: bool,
    missing: bool,
    vacuous: bool,
    budget: bool,
}

/// Collects results into a table.
#[derive(Default)]
pub struct Matrix {
    rules: Vec<String>,
    rows: Vec<(&'static str, Vec<Cell>)>,
}

fn index<T: PartialEq>(v: &mut Vec<T>, x: T) -> usize {
    v.iter().position(|y| *y == x).unwrap_or_else(|| {
        v.push(x);
        v.len() - 1
    })
}

impl Matrix {
    /// Adds a result.
    pub fn add(&mut self, r: &ResultLine) {
        let col = index(&mut self.rules, r.rules.clone());
        let row = self.rows.iter().position(|x| x.0 == r.invariant).unwrap_or_else(|| {
            self.rows.push((r.invariant, Vec::new()));
            self.rows.len() - 1
        });
        let cells = &mut self.rows[row].1;
        if cells.len() <= col {
            cells.resize(col + 1, Cell::default());
        }
        let c = &mut cells[col];
        let declared = r.expected == Status::Violated;
        match r.status {
            Status::Holds if declared => c.missing = true,
            Status::Holds => c.holds = true,
            Status::Violated => {
                c.violated = true;
                c.declared |= declared;
                c.undeclared |= !declared;
            }
            Status::Vacuous => c.vacuous = true,
            Status::Budget => c.budget = true,
        }
    }

    /// Nothing was added.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as lines; `name` gives the readable name of an invariant.
    pub fn lines(&self, style: Style, name: &dyn Fn(&str) -> &'static str) -> Vec<String> {
        // In the order of the table of invariants, whichever rule set was seen first.
        let mut rows: Vec<&(&'static str, Vec<Cell>)> = self.rows.iter().collect();
        rows.sort_by_key(|r| INVARIANTS.iter().position(|i| i.id == r.0).unwrap_or(usize::MAX));
        let labels: Vec<String> = rows.iter().map(|(id, _)| format!("{id} {}", name(id)).trim_end().to_string()).collect();
        let first = labels.iter().map(String::len).max().unwrap_or(0).max("invariant".len());
        let width: Vec<usize> = self.rules.iter().map(|r| r.chars().count().max(19)).collect();
        let mut out = Vec::new();
        let mut head = format!("{:first$}", "invariant");
        for (r, w) in self.rules.iter().zip(&width) {
            head += &format!("  {r:w$}");
        }
        out.push(style.head(head.trim_end()));
        for ((_, cells), label) in rows.iter().zip(&labels) {
            let mut line = format!("{label:first$}");
            for (i, w) in width.iter().enumerate() {
                let text = cell_text(cells.get(i));
                let padded = format!("{:w$}", text.0);
                line += "  ";
                line += &match text.1 {
                    Tone::Bad => style.bad(&padded),
                    Tone::Good => style.good(&padded),
                    Tone::Note => style.note(&padded),
                    Tone::Dim => style.dim(&padded),
                };
            }
            out.push(line.trim_end().to_string());
        }
        out
    }
}

enum Tone {
    Bad,
    Good,
    Note,
    Dim,
}

fn cell_text(c: Option<&Cell>) -> (&'static str, Tone) {
    match c {
        None => ("-", Tone::Dim),
        Some(c) if c.undeclared => ("VIOLATED", Tone::Bad),
        Some(c) if c.missing => ("NOT AS DECLARED", Tone::Bad),
        Some(c) if c.violated && c.declared => ("violated, declared", Tone::Note),
        Some(c) if c.budget => ("budget", Tone::Note),
        Some(c) if c.holds => ("holds", Tone::Good),
        Some(c) if c.vacuous => ("vacuous", Tone::Note),
        Some(_) => ("-", Tone::Dim),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(rules: &str, invariant: &'static str, status: Status, expected: Status) -> ResultLine {
        ResultLine {
            rules: rules.into(),
            case: "c".into(),
            invariant,
            status,
            expected,
            executions: 1,
            traces: None,
            exhaustive: true,
            bound: None,
            seconds: None,
            replay: None,
            detail: None,
        }
    }

    #[test]
    fn the_worst_case_decides_a_cell() {
        let mut m = Matrix::default();
        m.add(&line("mainline", "LT-A", Status::Holds, Status::Holds));
        m.add(&line("mainline", "LT-A", Status::Violated, Status::Violated));
        m.add(&line("other", "LT-A", Status::Holds, Status::Violated));
        m.add(&line("mainline", "LT-B", Status::Violated, Status::Holds));
        m.add(&line("other", "LT-B", Status::Holds, Status::Holds));
        let text = m.lines(Style::plain(), &|_| "name");
        assert_eq!(text.len(), 3);
        assert!(text[1].contains("violated, declared") && text[1].contains("NOT AS DECLARED"), "{}", text[1]);
        assert!(text[2].contains("VIOLATED") && text[2].ends_with("holds"), "{}", text[2]);
    }
}
