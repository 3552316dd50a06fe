//! From KDL nodes to a [`Case`]: first the names that the case declares, then everything that refers to them.

use super::ast::{Case, CgroupRef, Decision, Expect, Finding, Irq, MachineSpec, Names, SCHEMA, Search, Span, Stmt, Task};
use super::limits;
use super::ops::{self, OPS, Op, SETUP, TASK, TEARDOWN};
use super::value::{Reader, Value};
use crate::text::{Bad, LoadError, TextError, check_name, children, document, read_text, schema, string};
use kdl::{KdlEntry, KdlNode, KdlValue};
use std::path::Path;

/// Nodes at the top of a file.
const TOP: &[&str] = &["schema", "case", "machine", "ask", "setup", "task", "teardown", "reach", "expect", "search", "finding"];

/// The case written in `text`; `name` names the file in errors.
pub fn parse(name: &str, text: &str) -> Result<Case, TextError> {
    document(text).and_then(|doc| case(doc.nodes())).map_err(|bad| TextError::new(name, text, bad))
}

/// Reads and parses the case in a file.
pub fn load(path: &Path) -> Result<Case, LoadError> {
    let text = read_text(path)?;
    Ok(parse(&path.display().to_string(), &text)?)
}

fn span(node: &KdlNode) -> Span {
    Span { offset: node.span().offset(), len: node.span().len() }
}

fn case(nodes: &[KdlNode]) -> Result<Case, Bad> {
    schema(nodes, SCHEMA, "case")?;
    let mut case = Case { names: names(nodes)?, ..Case::default() };
    let none = Names::default();
    let mut seen: Vec<&str> = Vec::new();
    for n in nodes {
        let kind = n.name().value();
        if !TOP.contains(&kind) {
            return Err(Bad::new(format!("nothing is called `{kind}` at the top of a case")).at(n.name().span()).suggest(kind, TOP.iter().copied()));
        }
        if !matches!(kind, "task" | "expect" | "finding") {
            if seen.contains(&kind) {
                return Err(Bad::new(format!("a second `{kind}`")).at(n.name().span()).label("there is one already"));
            }
            seen.push(kind);
        }
        let names = &case.names;
        let mut r = Reader::new(n, names);
        match kind {
            "schema" => {}
            "case" => head(n, &mut case)?,
            "machine" => case.machine = machine(r)?,
            "ask" => case.ask = list(r, n)?,
            "setup" => {
                r.done_with_block(&[])?;
                case.setup = body(n, names, SETUP)?;
            }
            "teardown" => {
                r.done_with_block(&[])?;
                case.teardown = body(n, names, TEARDOWN)?;
            }
            "task" => case.tasks.push(task(r, n, names)?),
            "reach" => case.reach = list(r, n)?,
            "expect" => {
                let e = expect(r, n)?;
                if case.expect.iter().any(|o| o.rules == e.rules) {
                    return Err(Bad::new(format!("a second expectation for `{}`", e.rules)).at(n.span()).label("name all its invariants on one line"));
                }
                case.expect.push(e);
            }
            "search" => {
                case.search = Search {
                    engine: r.prop_or("engine", None)?,
                    preemptions: r.prop_or("preemptions", None)?,
                    executions: r.prop_or("executions", None)?,
                    seed: r.prop_or("seed", None)?,
                    depth: r.prop_or("depth", None)?,
                };
                r.done(&["engine", "preemptions", "executions", "seed", "depth"])?;
            }
            _ => case.findings.push(finding(n, &none)?),
        }
    }
    if !seen.contains(&"case") {
        return Err(Bad::new("the file has no `case`").help("a case begins with: schema 1, then case \"name\""));
    }
    Ok(case)
}

fn head(n: &KdlNode, case: &mut Case) -> Result<(), Bad> {
    let names = Names::default();
    let mut r = Reader::new(n, &names);
    let e = r.next().ok_or_else(|| Bad::new("`case` needs a name").at(n.name().span()))?;
    case.name = string(e.value(), "a name").map_err(|b| b.at(e.span()))?;
    check_name(&case.name).map_err(|b| b.at(e.span()))?;
    r.done_with_block(&[])?;
    for c in children(n) {
        let mut r = Reader::new(c, &names);
        let into = match c.name().value() {
            "about" => &mut case.about,
            "source" => &mut case.source,
            other => return Err(Bad::new(format!("`case` has no `{other}`")).at(c.name().span()).suggest(other, ["about", "source"])),
        };
        *into = r.arg()?;
        r.done(&[])?;
    }
    Ok(())
}

fn machine(mut r: Reader<'_>) -> Result<MachineSpec, Bad> {
    let d = MachineSpec::default();
    let m = MachineSpec {
        cpus: r.prop_or("cpus", d.cpus)?,
        preempt_rcu: r.prop_or("preempt-rcu", d.preempt_rcu)?,
        timers: r.prop_or("timers", d.timers)?,
        max_steps: r.prop_or("max-steps", d.max_steps)?,
        faults: r.prop_or("faults", d.faults)?,
        shared_cpus: r.prop_or("shared-cpus", d.shared_cpus)?,
        background_pages: r.prop_or("background-pages", d.background_pages)?,
        weak: r.prop_or("weak", d.weak)?,
        stale: r.prop_or("stale", d.stale)?,
        stats: r.prop_or("stats", d.stats)?,
    };
    let at = r.span();
    r.done(&["cpus", "preempt-rcu", "timers", "max-steps", "faults", "shared-cpus", "background-pages", "weak", "stale", "stats"])?;
    if m.cpus == 0 || m.cpus > limits::MAX_CPUS {
        return Err(Bad::new(format!("a machine has 1 to {} CPUs", limits::MAX_CPUS)).at(at));
    }
    if [m.timers, m.faults, m.stale, m.background_pages].iter().any(|n| *n > limits::MAX_AMOUNT) {
        return Err(Bad::new(format!("timers, faults, stale loads and pages are at most {}", limits::MAX_AMOUNT)).at(at));
    }
    Ok(m)
}

/// All arguments of a node, as strings, none twice.
fn strings(r: &mut Reader<'_>) -> Result<Vec<String>, Bad> {
    let mut out: Vec<String> = Vec::new();
    while let Some(e) = r.next() {
        let s = string(e.value(), "a name").map_err(|b| b.at(e.span()))?;
        check_name(&s).map_err(|b| b.at(e.span()))?;
        if out.contains(&s) {
            return Err(Bad::new(format!("`{s}` stands here twice")).at(e.span()));
        }
        out.push(s);
        if out.len() > limits::MAX_LIST {
            return Err(Bad::new(format!("more than {} names", limits::MAX_LIST)).at(e.span()));
        }
    }
    Ok(out)
}

fn list(mut r: Reader<'_>, n: &KdlNode) -> Result<Vec<String>, Bad> {
    let out = strings(&mut r)?;
    r.done(&[])?;
    if out.is_empty() {
        return Err(Bad::new(format!("`{}` needs names", n.name().value())).at(n.span()));
    }
    Ok(out)
}

fn expect(mut r: Reader<'_>, n: &KdlNode) -> Result<Expect, Bad> {
    let rules: KdlString = r.arg()?;
    if rules.0 != "*" {
        check_name(&rules.0).map_err(|b| b.at(n.span()))?;
    }
    let verb: KdlString = r.arg()?;
    let violates = strings(&mut r)?;
    r.done(&[])?;
    match (verb.0.as_str(), violates.is_empty()) {
        ("holds", true) | ("violates", false) => Ok(Expect { rules: rules.0, violates, span: span(n) }),
        ("holds", false) => Err(Bad::new("`holds` takes no invariants").at(n.span()).help("every invariant holds that `violates` does not name")),
        ("violates", true) => Err(Bad::new("`violates` needs the ids of invariants").at(n.span()).help("as in: expect \"mainline\" violates \"LT-LOOK-3\"")),
        (v, _) => Err(Bad::new(format!("an expectation is `holds` or `violates`, not `{v}`")).at(n.span()).suggest(v, ["holds", "violates"])),
    }
}

/// A plain string with a message of its own.
#[derive(Clone)]
struct KdlString(String);

impl Value for KdlString {
    const WHAT: &'static str = "a rule set and `holds` or `violates`";
    fn read(v: &KdlValue, _: &Names) -> Result<Self, Bad> {
        string(v, "a word").map(KdlString)
    }
    fn write(&self, names: &Names) -> String {
        self.0.write(names)
    }
}

fn task(mut r: Reader<'_>, n: &KdlNode, names: &Names) -> Result<Task, Bad> {
    r.arg::<super::TaskRef>()?;
    let cpu: Option<u32> = r.prop_or("cpu", None)?;
    let irq = r.prop_or("irq", Irq::None)?;
    r.done_with_block(&["cpu", "irq"])?;
    if cpu.is_some_and(|c| c >= limits::MAX_CPUS) {
        return Err(Bad::new(format!("CPUs are numbered 0 to {}", limits::MAX_CPUS - 1)).at(n.span()));
    }
    Ok(Task { cpu, irq, body: body(n, names, TASK)?, span: span(n) })
}

fn place(places: u8) -> &'static str {
    match places {
        SETUP => "setup",
        TASK => "a task",
        _ => "teardown",
    }
}

fn body(n: &KdlNode, names: &Names, here: u8) -> Result<Vec<Stmt>, Bad> {
    let nodes = children(n);
    if nodes.len() > limits::MAX_OPS {
        return Err(Bad::new(format!("more than {} operations", limits::MAX_OPS)).at(n.name().span()));
    }
    nodes.iter().map(|c| stmt(c, names, here)).collect()
}

fn stmt(n: &KdlNode, names: &Names, here: u8) -> Result<Stmt, Bad> {
    let name = n.name().value();
    let mut r = Reader::new(n, names);
    let Some(info) = ops::info(name) else {
        return Err(Bad::new(format!("no operation called `{name}`")).at(n.name().span()).suggest(name, OPS.iter().map(|o| o.name)));
    };
    if info.places & here == 0 {
        return Err(Bad::new(format!("`{name}` cannot stand in {}", place(here))).at(n.name().span()));
    }
    let op = Op::read(name, &mut r).unwrap_or_else(|| Err(Bad::new("unknown operation")))?;
    let known: Vec<&str> = info.params.iter().map(|p| p.0).filter(|p| !p.is_empty()).collect();
    r.done(&known)?;
    check_op(&op).map_err(|b| b.at(n.span()))?;
    Ok(Stmt { op, span: span(n) })
}

fn check_op(op: &Op) -> Result<(), Bad> {
    if let Op::Inode { blkdev: false, bdi, disk, .. } = op
        && (*disk || bdi.is_some())
    {
        return Err(Bad::new("only a block-device inode has a disk or a device of its own").help("add blkdev=#true"));
    }
    let amounts = match op {
        Op::Dirty { pages: n, .. } | Op::Noise { steps: n } | Op::Tick { jiffies: n } => [*n, 1],
        Op::StatAdd { by, times, .. } => [by.unsigned_abs(), *times],
        _ => return Ok(()),
    };
    if amounts.iter().any(|n| *n == 0 || *n > limits::MAX_AMOUNT) {
        return Err(Bad::new(format!("amounts are 1 to {}", limits::MAX_AMOUNT)));
    }
    Ok(())
}

fn finding(n: &KdlNode, none: &Names) -> Result<Finding, Bad> {
    let mut r = Reader::new(n, none);
    let mut f =
        Finding { rules: r.prop("rules")?, mutant: r.prop_or("mutant", None)?, violation: r.prop_or("violation", None)?, decisions: Vec::new(), span: span(n) };
    r.done_with_block(&["rules", "mutant", "violation"])?;
    let nodes = children(n);
    if nodes.len() > limits::MAX_DECISIONS {
        return Err(Bad::new(format!("more than {} decisions", limits::MAX_DECISIONS)).at(n.name().span()));
    }
    for c in nodes {
        let mut r = Reader::new(c, none);
        f.decisions.push(match c.name().value() {
            "run" => {
                let d = Decision::Run { task: r.arg()?, steps: r.prop_or("steps", None)?, until: r.prop_or("until", None)? };
                r.done(&["steps", "until"])?;
                d
            }
            "choose" => {
                let d = Decision::Choose { site: r.arg()?, value: r.arg()? };
                r.done(&[])?;
                d
            }
            other => return Err(Bad::new(format!("no decision called `{other}`")).at(c.name().span()).suggest(other, ["run", "choose"])),
        });
    }
    Ok(f)
}

// ---- names ----------------------------------------------------------------------------------------------------------

/// Everything that the case's nodes create: in setup, then in the tasks, then in teardown, as the case is printed.
fn names(nodes: &[KdlNode]) -> Result<Names, Bad> {
    let mut names = Names::default();
    for kind in ["setup", "task", "teardown"] {
        for n in nodes.iter().filter(|n| n.name().value() == kind) {
            if kind == "task" {
                define(&mut names.tasks, "task", limits::MAX_TASKS, n.entries().iter().find(|e| e.name().is_none()))?;
            }
            children(n).iter().try_for_each(|c| declare(&mut names, c))?;
        }
    }
    Ok(names)
}

fn declare(names: &mut Names, n: &KdlNode) -> Result<(), Bad> {
    let first = n.entries().iter().find(|e| e.name().is_none());
    let keep = n.entries().iter().find(|e| e.name().is_some_and(|k| k.value() == "keep"));
    match n.name().value() {
        "bdi" => define(&mut names.bdis, "device", limits::MAX_BDIS, first),
        "sb" => define(&mut names.sbs, "file system", limits::MAX_OBJECTS, first),
        "inode" => define(&mut names.inodes, "inode", limits::MAX_OBJECTS, first),
        "hold" => define(&mut names.wbs, "kept reference", limits::MAX_OBJECTS, first),
        "get-create" | "get-create-current" => define(&mut names.wbs, "kept reference", limits::MAX_OBJECTS, keep),
        "cgroup" => {
            define(&mut names.cgroups, "cgroup", limits::MAX_CGROUPS, first)?;
            let Some((e, path)) = first.and_then(|e| Some((e, e.value().as_string()?))) else { return Ok(()) };
            if path.ends_with('/') {
                return Err(Bad::new("a cgroup's path ends in its name").at(e.span()));
            }
            let made = names.cgroups.len() - 1;
            match (names.cgroup_parent(CgroupRef(made as u16)), path.rsplit_once('/')) {
                (None, Some((up, _))) => Err(Bad::new(format!("the parent cgroup `{up}` is not made before"))
                    .at(e.span())
                    .suggest(up, names.cgroups[..made].iter().map(String::as_str))),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Adds a name to a table. A missing or wrong entry is left to the second pass, which has a better message for it.
fn define(table: &mut Vec<String>, thing: &str, max: usize, entry: Option<&KdlEntry>) -> Result<(), Bad> {
    let Some((e, s)) = entry.and_then(|e| Some((e, e.value().as_string()?))) else { return Ok(()) };
    check_name(s).map_err(|b| b.at(e.span()))?;
    if table.iter().any(|n| n == s) {
        return Err(Bad::new(format!("a second {thing} called `{s}`")).at(e.span()).label("the name is taken"));
    }
    if table.len() >= max {
        return Err(Bad::new(format!("a case has at most {max} of these: {thing}")).at(e.span()));
    }
    table.push(s.to_owned());
    Ok(())
}
