//! Text for reading.

use super::matrix::Matrix;
use super::scenario::{Bands, SweepTable};
use super::style::Style;
use super::{CaseLine, Header, MutantLine, MutantStatus, ReplayLine, ResultLine, RunEvent, ShrinkLine, Sink, Sizes, Status, Summary, VectorLine};
use std::io::{self, Write};
use wbmodel::oracles;

/// Writes events as text; keeps what belongs together until the end.
pub struct Human<W> {
    out: W,
    style: Style,
    matrix: Matrix,
    bands: Bands,
    sweep: SweepTable,
    declared: Vec<ResultLine>,
    cases: Vec<CaseLine>,
    last_kind: &'static str,
    command: &'static str,
}

impl<W: Write> Human<W> {
    /// Writes to `out`.
    pub fn new(out: W, style: Style) -> Human<W> {
        Human {
            out,
            style,
            matrix: Matrix::default(),
            bands: Bands::default(),
            sweep: SweepTable::default(),
            declared: Vec::new(),
            cases: Vec::new(),
            last_kind: "",
            command: "",
        }
    }

    fn header(&mut self, h: &Header) -> io::Result<()> {
        self.command = h.command;
        let commit = h.commit.map_or(String::new(), |c| format!(" (commit {c})"));
        write!(self.out, "wbcheck {}{commit} {}", h.version, h.command)?;
        if h.cases > 0 {
            let simulates = matches!(h.command, "simulate" | "sweep");
            write!(self.out, ": {}", count(h.cases as u64, if simulates { "scenario" } else { "case" }))?;
            if !h.rules.is_empty() {
                write!(self.out, ", {} {}", if simulates { "policy" } else { "rules" }, h.rules.join(", "))?;
            }
        }
        write!(self.out, ", engine {}, seed {}", h.engine, h.seed)?;
        if let Some(s) = &h.scheduler {
            write!(self.out, ", scheduler {s}")?;
        }
        if let Some(n) = h.max_executions {
            write!(self.out, ", at most {n} executions each")?;
        }
        if let Some(n) = h.max_seconds {
            write!(self.out, ", at most {n} s each")?;
        }
        if let Some(s) = &h.shard {
            write!(self.out, ", shard {s}")?;
        }
        writeln!(self.out)
    }

    fn result(&mut self, r: &ResultLine) -> io::Result<()> {
        self.matrix.add(r);
        let declared = r.expected == Status::Violated;
        let name = invariant_name(r.invariant);
        match r.status {
            Status::Violated if !declared => {
                writeln!(self.out, "\n{}  {} {name}   case {}, rules {}", self.style.bad("FAIL"), r.invariant, r.case, r.rules)?;
                writeln!(self.out, "  expected  {}", invariant_says(r.invariant))?;
                writeln!(self.out, "  observed  {}", r.detail.as_deref().unwrap_or("-"))?;
                if let Some(c) = &r.replay {
                    writeln!(self.out, "  replay    {c}")?;
                }
            }
            Status::Holds if declared => {
                writeln!(self.out, "\n{}  {} {name}   case {}, rules {}", self.style.bad("LESS"), r.invariant, r.case, r.rules)?;
                writeln!(self.out, "  expected  a violation, as declared")?;
                writeln!(self.out, "  observed  none in {}{}", count(r.executions, "execution"), if r.exhaustive { ", all there are" } else { "" })?;
            }
            Status::Violated => self.declared.push(r.clone()),
            _ => {}
        }
        Ok(())
    }

    fn mutant(&mut self, m: &MutantLine) -> io::Result<()> {
        let word = match m.status {
            MutantStatus::Caught => self.style.good("caught   "),
            MutantStatus::Clean => self.style.good("clean    "),
            MutantStatus::Missed => self.style.bad("MISSED   "),
            MutantStatus::Unreached => self.style.bad("UNREACHED"),
        };
        write!(self.out, "{word}  {:8}", m.id)?;
        if let (Some(i), Some(c)) = (m.invariant, &m.case) {
            write!(self.out, "  {i} in {c}, execution {}", m.executions)?;
            if let Some(s) = &m.scheduler {
                write!(self.out, " of {s}")?;
            }
        } else {
            write!(self.out, "  {}", count(m.executions, "execution"))?;
        }
        if let Some(s) = m.seconds {
            write!(self.out, ", {s:.2} s")?;
        }
        writeln!(self.out)?;
        writeln!(self.out, "{}", self.style.dim(&format!("           {}", m.says)))?;
        if let Some(r) = &m.replay {
            writeln!(self.out, "           replay: {r}")?;
        }
        Ok(())
    }

    fn replay(&mut self, r: &ReplayLine) -> io::Result<()> {
        let mutant = r.mutant.as_ref().map_or(String::new(), |m| format!(", mutant {m}"));
        writeln!(self.out, "case {}, rules {}{mutant}: {} after {} steps", r.case, r.rules, r.end, r.steps)?;
        for (rule, detail) in &r.violations {
            let word = if r.expected.as_ref().is_none_or(|e| e == rule) { self.style.bad("violated") } else { self.style.note("violated too") };
            writeln!(self.out, "{word}  {rule} {}", invariant_name(rule))?;
            writeln!(self.out, "  expected  {}", invariant_says(rule))?;
            writeln!(self.out, "  observed  {detail}")?;
        }
        if let Some(e) = r.expected.as_ref().filter(|e| !r.violations.iter().any(|v| v.0 == **e)) {
            writeln!(self.out, "{}  {e} is what the file names, and did not happen", self.style.bad("not violated"))?;
        }
        for d in &r.diverged {
            writeln!(self.out, "{}  {d}", self.style.note("does not apply"))?;
        }
        if r.times > 1 {
            writeln!(self.out, "{} of {} runs had the same trace, byte for byte", r.same, r.times)?;
        }
        Ok(())
    }

    fn shrink(&mut self, s: &ShrinkLine) -> io::Result<()> {
        let sizes =
            |z: &Sizes| format!("{} operations, {} tasks, {} preemptions, {} switches, {} steps", z.operations, z.tasks, z.preemptions, z.switches, z.steps);
        writeln!(self.out, "case {}, {} {}", s.case, s.invariant, invariant_name(&s.invariant))?;
        writeln!(self.out, "  before  {}", sizes(&s.before))?;
        writeln!(self.out, "  after   {}", sizes(&s.after))?;
        for (d, needed) in &s.decisions {
            writeln!(self.out, "    {} {d}", if *needed { "needed" } else { "      " })?;
        }
        let cut = if s.cut_short { ", budget used up" } else { "" };
        writeln!(self.out, "  {} tried{cut}", count(s.executions, "candidate"))?;
        writeln!(self.out, "  written to {}", s.file)
    }

    fn vector(&mut self, v: &VectorLine) -> io::Result<()> {
        if self.last_kind.is_empty() {
            writeln!(self.out, "{}", self.style.head("      rows  different  file"))?;
            self.last_kind = "vector";
        }
        let different = format!("{:9}", v.mismatches);
        let different = if v.mismatches == 0 { different } else { self.style.bad(&different) };
        writeln!(self.out, "{:10}  {different}  {}", v.rows, v.file)?;
        for d in &v.first {
            let line = if d.line == 0 { "end".to_string() } else { d.line.to_string() };
            writeln!(self.out, "    {}:{line}  {}  expected {}  computed {}", v.file, d.column, d.expected, d.computed)?;
        }
        Ok(())
    }

    fn summary(&mut self, s: &Summary) -> io::Result<()> {
        if !self.declared.is_empty() {
            writeln!(self.out, "\n{}", self.style.head("violated, as declared"))?;
            for r in &self.declared {
                writeln!(self.out, "  {} {}   case {}, rules {}", r.invariant, invariant_name(r.invariant), r.case, r.rules)?;
                writeln!(self.out, "    observed  {}", r.detail.as_deref().unwrap_or("-"))?;
                if let Some(c) = &r.replay {
                    writeln!(self.out, "    replay    {c}")?;
                }
            }
        }
        for c in self.cases.iter().filter(|c| !c.unreached.is_empty()) {
            writeln!(self.out, "\n{}  case {}, rules {}: never reached {}", self.style.bad("VACUOUS"), c.case, c.rules, c.unreached.join(", "))?;
        }
        if !self.matrix.is_empty() {
            writeln!(self.out)?;
            for l in self.matrix.lines(self.style, &invariant_name) {
                writeln!(self.out, "{l}")?;
            }
        }
        self.explored()?;
        for l in self.sweep.lines(self.style) {
            writeln!(self.out, "{l}")?;
        }
        let simulates = matches!(self.command, "simulate" | "sweep");
        let verdict = match (self.command, s.exit) {
            ("simulate", 0) => self.style.good("all within their bands"),
            ("simulate", 1) => self.style.bad("NOT all as expected"),
            ("check" | "mutants", 0) => self.style.good("all as declared"),
            ("check" | "mutants", 1) => self.style.bad("NOT as declared"),
            ("vectors", 0) => self.style.good("all rows agree"),
            ("vectors", 1) => self.style.bad("NOT all rows agree"),
            (_, 0) => self.style.good("done"),
            (_, 1) => self.style.bad("violated"),
            (_, 3) => self.style.note("no verdict within the budget"),
            (_, 4) => self.style.note("vacuous"),
            _ => self.style.bad("runs differ"),
        };
        write!(self.out, "\n{verdict}: {} of {} done", s.done, s.selected)?;
        let undeclared = match self.command {
            "replay" => "violated",
            "vectors" => "rows different",
            "simulate" | "sweep" => "outside of a band or violated",
            _ => "violated and not declared",
        };
        let missing = if simulates { "within a band declared out of reach" } else { "declared and not violated" };
        for (n, what) in [(s.undeclared, undeclared), (s.missing, missing), (s.vacuous, "vacuous"), (s.budget, "out of budget")] {
            if n > 0 {
                write!(self.out, ", {n} {what}")?;
            }
        }
        if s.interrupted {
            write!(self.out, ", interrupted")?;
        }
        match self.command {
            "vectors" => {}
            "simulate" | "sweep" => write!(self.out, "; {}, {}", count(s.executions, "run"), count(s.steps, "page"))?,
            _ => write!(self.out, "; {}, {}", count(s.executions, "execution"), count(s.steps, "step"))?,
        }
        if let Some(t) = s.seconds {
            write!(self.out, ", {t:.1} s")?;
        }
        writeln!(self.out)
    }

    /// What was explored and what was not.
    fn explored(&mut self) -> io::Result<()> {
        if self.cases.is_empty() {
            return Ok(());
        }
        let complete: Vec<&CaseLine> = self.cases.iter().filter(|c| c.exhaustive && c.bound.is_none()).collect();
        let bounded: Vec<&CaseLine> = self.cases.iter().filter(|c| c.exhaustive && c.bound.is_some()).collect();
        let sampled: Vec<&CaseLine> = self.cases.iter().filter(|c| !c.exhaustive).collect();
        let traces: u64 = self.cases.iter().filter_map(|c| c.traces).sum();
        writeln!(self.out, "\n{}", self.style.head("explored"))?;
        writeln!(self.out, "  every execution           {}", pairs(&complete))?;
        writeln!(self.out, "  up to a preemption bound  {}", pairs(&bounded))?;
        writeln!(self.out, "  sampled only              {}", pairs(&sampled))?;
        if traces > 0 {
            writeln!(self.out, "  distinct traces           {traces}")?;
        }
        for c in self.cases.iter().filter(|c| c.stopped.is_some()) {
            let why = c.stopped.unwrap_or_default();
            writeln!(self.out, "  {}  {} under {}: {why} after {}", self.style.note("stopped"), c.case, c.rules, count(c.executions, "execution"))?;
        }
        Ok(())
    }
}

impl<W: Write> Sink for Human<W> {
    fn event(&mut self, e: &RunEvent) -> io::Result<()> {
        match e {
            RunEvent::Header(h) => self.header(h)?,
            RunEvent::Result(r) => self.result(r)?,
            RunEvent::Case(c) => self.cases.push(c.clone()),
            RunEvent::Mutant(m) => self.mutant(m)?,
            RunEvent::Item(i) => {
                if i.kind != self.last_kind {
                    if !self.last_kind.is_empty() {
                        writeln!(self.out)?;
                    }
                    writeln!(self.out, "{}", self.style.head(i.kind))?;
                    self.last_kind = i.kind;
                }
                writeln!(self.out, "  {:28} {}", i.name, i.about)?;
            }
            RunEvent::Replay(r) => self.replay(r)?,
            RunEvent::Shrink(s) => self.shrink(s)?,
            RunEvent::Vector(v) => self.vector(v)?,
            RunEvent::Scenario(line) => {
                for l in self.bands.lines(line, self.style) {
                    writeln!(self.out, "{l}")?;
                }
            }
            RunEvent::Run(_) => {}
            RunEvent::Sweep(line) => self.sweep.add(line),
            RunEvent::Text { lines } => {
                for l in lines {
                    writeln!(self.out, "{l}")?;
                }
            }
            RunEvent::Summary(s) => self.summary(s)?,
        }
        self.out.flush()
    }
}

fn pairs(lines: &[&CaseLine]) -> String {
    let executions: u64 = lines.iter().map(|c| c.executions).sum();
    let mut rules: Vec<&str> = lines.iter().map(|c| c.rules.as_str()).collect();
    rules.sort_unstable();
    rules.dedup();
    let mut cases: Vec<&str> = lines.iter().map(|c| c.case.as_str()).collect();
    cases.sort_unstable();
    cases.dedup();
    format!("{} under {}, {}", count(cases.len() as u64, "case"), count(rules.len() as u64, "rule set"), count(executions, "execution"))
}

fn count(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn invariant_name(id: &str) -> &'static str {
    oracles::invariant(id).map_or("", |i| i.name)
}

fn invariant_says(id: &str) -> &'static str {
    oracles::invariant(id).map_or("no violation", |i| i.says)
}
