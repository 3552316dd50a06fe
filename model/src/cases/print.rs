//! Writes a case as text, in the order in which the documentation shows a file.

use super::ast::{Case, Decision, Finding, MachineSpec, Names, SCHEMA, Search, Stmt, Task};
use super::ops::Op;
use super::value::Writer;
use crate::text::block;
use crate::text::quote;
use std::fmt::Write;

/// The text of a case: what [`parse`](super::parse) turns back into an equal case.
pub fn print(case: &Case) -> String {
    let mut out = format!("schema {SCHEMA}\n");
    let head: Vec<String> =
        [("about", &case.about), ("source", &case.source)].iter().filter(|(_, s)| !s.is_empty()).map(|(k, s)| format!("{k} {}", quote(s))).collect();
    block(&mut out, &format!("case {}", quote(&case.name)), &head);
    machine(&mut out, case);
    list(&mut out, "ask", &case.ask);
    stmts(&mut out, "setup", case, &case.setup);
    for (i, t) in case.tasks.iter().enumerate() {
        task(&mut out, case, i, t);
    }
    stmts(&mut out, "teardown", case, &case.teardown);
    list(&mut out, "reach", &case.reach);
    for e in &case.expect {
        let _ = write!(out, "expect {}", quote(&e.rules));
        if e.violates.is_empty() {
            out.push_str(" holds\n");
        } else {
            out.push_str(" violates");
            list(&mut out, "", &e.violates);
        }
    }
    search(&mut out, case);
    for f in &case.findings {
        finding(&mut out, case, f);
    }
    out
}

fn list(out: &mut String, node: &str, items: &[String]) {
    if !items.is_empty() {
        out.push_str(node);
        for i in items {
            out.push(' ');
            out.push_str(&quote(i));
        }
        out.push('\n');
    }
}

fn machine(out: &mut String, case: &Case) {
    let (m, d) = (&case.machine, MachineSpec::default());
    if *m == d {
        return;
    }
    let mut w = Writer::new("machine", &case.names);
    w.prop_unless("cpus", &m.cpus, &d.cpus);
    w.prop_unless("preempt-rcu", &m.preempt_rcu, &d.preempt_rcu);
    w.prop_unless("timers", &m.timers, &d.timers);
    w.prop_unless("max-steps", &m.max_steps, &d.max_steps);
    w.prop_unless("faults", &m.faults, &d.faults);
    w.prop_unless("shared-cpus", &m.shared_cpus, &d.shared_cpus);
    w.prop_unless("background-pages", &m.background_pages, &d.background_pages);
    w.prop_unless("weak", &m.weak, &d.weak);
    w.prop_unless("stale", &m.stale, &d.stale);
    w.prop_unless("stats", &m.stats, &d.stats);
    out.push_str(&w.finish());
    out.push('\n');
}

fn search(out: &mut String, case: &Case) {
    let s = &case.search;
    if *s == Search::default() {
        return;
    }
    let mut w = Writer::new("search", &case.names);
    w.prop_unless("engine", &s.engine, &None);
    w.prop_unless("preemptions", &s.preemptions, &None);
    w.prop_unless("executions", &s.executions, &None);
    w.prop_unless("seed", &s.seed, &None);
    w.prop_unless("depth", &s.depth, &None);
    out.push_str(&w.finish());
    out.push('\n');
}

/// One operation as it is written in a case.
pub fn print_op(op: &Op, names: &Names) -> String {
    let mut w = Writer::new(op.name(), names);
    op.write(&mut w);
    w.finish()
}

fn lines(case: &Case, body: &[Stmt]) -> Vec<String> {
    body.iter().map(|s| print_op(&s.op, &case.names)).collect()
}

fn stmts(out: &mut String, node: &str, case: &Case, body: &[Stmt]) {
    if !body.is_empty() {
        block(out, node, &lines(case, body));
    }
}

fn task(out: &mut String, case: &Case, index: usize, t: &Task) {
    let mut w = Writer::new("task", &case.names);
    w.arg(&super::TaskRef(index as u16));
    w.prop_unless("cpu", &t.cpu, &None);
    w.prop_unless("irq", &t.irq, &super::Irq::None);
    block(out, &w.finish(), &lines(case, &t.body));
}

fn finding(out: &mut String, case: &Case, f: &Finding) {
    let mut w = Writer::new("finding", &case.names);
    w.prop("rules", &f.rules);
    w.prop_unless("mutant", &f.mutant, &None);
    w.prop_unless("violation", &f.violation, &None);
    let lines: Vec<String> = f
        .decisions
        .iter()
        .map(|d| match d {
            Decision::Run { task, steps, until } => {
                let mut w = Writer::new("run", &case.names);
                w.arg(task);
                w.prop_unless("steps", steps, &None);
                w.prop_unless("until", until, &None);
                w.finish()
            }
            Decision::Choose { site, value } => {
                let mut w = Writer::new("choose", &case.names);
                w.arg(site);
                w.arg(value);
                w.finish()
            }
        })
        .collect();
    block(out, &w.finish(), &lines);
}
