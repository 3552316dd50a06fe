//! From KDL nodes to a [`Scenario`]: first the names that nodes declare, then everything that refers to them, then each variant.

use super::ast::*;
use super::form::{AnyMemcg, Bytes, Form, Maybe, Names, Node, OfFile, OfFs, OfMemcg, Percent, Text, When};
use super::nodes::{EVENT, KINDS};
use crate::policy::Policy;
use crate::sim::{Of, metric};
use crate::text::{Bad, Entries, LoadError, TextError, check_name, children, document, read_text, schema, string};
use kdl::{KdlDocument, KdlNode};
use std::path::Path;

/// Nodes of one kind at most.
const MAX_NODES: usize = 256;
/// Files in all.
const MAX_FILES: u64 = 2_000_000;

/// The scenario written in `text`; `name` names the file in errors.
pub fn parse(name: &str, text: &str) -> Result<Scenario, TextError> {
    document(text).and_then(|doc| read(&doc)).map_err(|bad| TextError::new(name, text, bad))
}

/// Reads and parses the scenario in a file.
pub fn load(path: &Path) -> Result<Scenario, LoadError> {
    let text = read_text(path)?;
    Ok(parse(&path.display().to_string(), &text)?)
}

/// The scenario in a document, with its variants tried and its expectations resolved.
fn read(doc: &KdlDocument) -> Result<Scenario, Bad> {
    let mut s = plain(doc)?;
    for n in doc.nodes().iter().filter(|n| n.name().value() == "variant") {
        let v = variant(n, &s)?;
        s.variants.push(v);
    }
    for n in doc.nodes().iter().filter(|n| n.name().value() == "expect") {
        let e = expect(n, &s)?;
        s.expect.push(e);
    }
    Ok(s)
}

/// The scenario in a document without its variants and expectations.
pub(super) fn plain(doc: &KdlDocument) -> Result<Scenario, Bad> {
    let nodes = doc.nodes();
    schema(nodes, SCHEMA, "scenario")?;
    let names = names(nodes)?;
    let mut s = Scenario::default();
    let mut seen: Vec<&str> = Vec::new();
    for n in nodes {
        let kind = n.name().value();
        match kind {
            "scenario" | "machine" | "policy" | "schema" => {
                if seen.contains(&kind) {
                    return Err(Bad::new(format!("a second `{kind}`")).at(n.name().span()).label("there is one already"));
                }
                seen.push(kind);
            }
            _ => {}
        }
        match kind {
            "schema" | "variant" | "expect" => {}
            "scenario" => s = Scenario { policy: s.policy, machine: s.machine.clone(), ..head(n, s, &names)? },
            "machine" => s.machine = machine(n, &names)?,
            "policy" => s.policy = bare(n, Policy::mainline(), &names)?,
            "memcg" => add(&mut s.memcgs, n, |name| Memcg { parent: parent(&name, &names), name, ..Memcg::default() }, &names)?,
            "disk" => disk(&mut s.disks, n, &names)?,
            "fs" => filesystem(&mut s.filesystems, n, &names)?,
            "file" => add(&mut s.files, n, |name| File { name, ..File::default() }, &names)?,
            "writer" => add(&mut s.writers, n, |name| Writer { name, ..Writer::default() }, &names)?,
            "direct" => add(&mut s.direct, n, |name| Direct { name, ..Direct::default() }, &names)?,
            "stat-reader" => add(&mut s.stat_readers, n, |name| StatReader { name, ..StatReader::default() }, &names)?,
            "event" => event(&mut s.events, n, &names)?,
            other => {
                let known = KINDS.iter().map(|k| k.0).filter(|k| !matches!(*k, "cap" | "fault")).chain(["schema", "variant", "expect"]);
                return Err(Bad::new(format!("nothing is called `{other}` at the top of a scenario")).at(n.name().span()).suggest(other, known));
            }
        }
    }
    if !seen.contains(&"scenario") {
        return Err(Bad::new("the file has no `scenario`").help("a scenario begins with: schema 1, then scenario \"name\" duration=\"60s\""));
    }
    whole(&s, nodes)?;
    Ok(s)
}

/// What can only be judged when everything has been read.
fn whole(s: &Scenario, nodes: &[KdlNode]) -> Result<(), Bad> {
    let files: u64 = s.files.iter().map(|f| u64::from(f.count)).sum();
    let bad = |kind: &str, name: &str, message: String| {
        let at = nodes.iter().find(|n| n.name().value() == kind && name_of(n) == Some(name));
        let bad = Bad::new(message);
        Err(at.map_or(bad.clone(), |n| bad.at(n.span())))
    };
    if files > MAX_FILES {
        return Err(Bad::new(format!("{files} files in all")).help(format!("at most {MAX_FILES} are simulated")));
    }
    if s.writers.is_empty() && s.direct.is_empty() {
        return Err(Bad::new("nobody writes").help("add writer \"name\" file=\"...\", or direct \"name\" disk=\"...\""));
    }
    for w in &s.writers {
        if s.direct.iter().any(|d| d.name == w.name) {
            return bad("direct", &w.name, format!("a writer is called `{}` already", w.name));
        }
        if w.stop_us.is_some_and(|stop| stop <= w.start_us) && w.start_us != NEVER {
            return bad("writer", &w.name, format!("`{}` stops before it starts", w.name));
        }
        if w.metadata.is_some() != (w.metadata_pages > 0) {
            return bad("writer", &w.name, "metadata= and metadata-pages= go together".into());
        }
    }
    Ok(())
}

// ---- nodes ----------------------------------------------------------------------------------------------------------

fn head(n: &KdlNode, base: Scenario, names: &Names) -> Result<Scenario, Bad> {
    let mut entries = Entries::new(n);
    let name = take_name(&mut entries)?;
    let mut s = Scenario::read(Scenario { name, ..base }, &mut entries, names)?;
    entries.done_with_block(&Scenario::known())?;
    for c in children(n) {
        let mut entries = Entries::new(c);
        let into = match c.name().value() {
            "about" => &mut s.about,
            "source" => &mut s.source,
            other => return Err(Bad::new(format!("`scenario` has no `{other}`")).at(c.name().span()).suggest(other, ["about", "source"])),
        };
        let e = entries.arg(Text::WHAT)?;
        *into = Text::read(e.value(), names).map_err(|b| b.at(e.span()))?;
        entries.done(&[])?;
    }
    Ok(s)
}

/// A node without a name.
fn bare<T: Node>(n: &KdlNode, base: T, names: &Names) -> Result<T, Bad> {
    let mut entries = Entries::new(n);
    let node = T::read(base, &mut entries, names)?;
    entries.done(&T::known())?;
    Ok(node)
}

fn machine(n: &KdlNode, names: &Names) -> Result<Machine, Bad> {
    let m = bare(n, Machine::default(), names)?;
    if m.dirty_bytes != 0 && m.dirty_bytes < 2 * PAGE_BYTES {
        return Err(Bad::new("dirty-bytes is at least two pages").at(n.span()));
    }
    Ok(m)
}

/// A node with a name and nothing else besides its properties.
fn add<T: Node>(into: &mut Vec<T>, n: &KdlNode, base: impl Fn(String) -> T, names: &Names) -> Result<(), Bad> {
    let mut entries = Entries::new(n);
    let name = take_name(&mut entries)?;
    let node = T::read(base(name), &mut entries, names)?;
    entries.done(&T::known())?;
    into.push(node);
    Ok(())
}

fn disk(into: &mut Vec<Disk>, n: &KdlNode, names: &Names) -> Result<(), Bad> {
    let mut entries = Entries::new(n);
    let name = take_name(&mut entries)?;
    let mut d = Disk::read(Disk { name, ..Disk::default() }, &mut entries, names)?;
    entries.done_with_block(&Disk::known())?;
    if d.read_bps == 0 {
        d.read_bps = d.write_bps;
    }
    for c in children(n) {
        match c.name().value() {
            "cap" => {
                let mut entries = Entries::new(c);
                let e = entries.arg(AnyMemcg::WHAT)?;
                let memcg = AnyMemcg::read(e.value(), names).map_err(|b| b.at(e.span()))?;
                let cap = Cap::read(Cap { memcg, bps: 0 }, &mut entries, names)?;
                entries.done(&Cap::known())?;
                if d.caps.iter().any(|o| o.memcg == cap.memcg) {
                    return Err(Bad::new("a second cap of this memcg on this disk").at(c.span()));
                }
                d.caps.push(cap);
            }
            "fault" => {
                unique(children(n), "fault", c)?;
                add(&mut d.faults, c, |name| Fault { name, ..Fault::default() }, names)?;
            }
            other => return Err(Bad::new(format!("`disk` has no `{other}`")).at(c.name().span()).suggest(other, ["cap", "fault"])),
        }
    }
    into.push(d);
    Ok(())
}

fn filesystem(into: &mut Vec<Filesystem>, n: &KdlNode, names: &Names) -> Result<(), Bad> {
    let mut entries = Entries::new(n);
    let name = take_name(&mut entries)?;
    let fuse = n.get("fuse").and_then(|v| v.as_bool()).unwrap_or(false);
    let fs = Filesystem::read(Filesystem { name, ..Filesystem::of(fuse) }, &mut entries, names)?;
    entries.done(&Filesystem::known())?;
    if fs.min_ratio_ppm > fs.max_ratio_ppm {
        return Err(Bad::new("min-ratio is above max-ratio").at(n.span()));
    }
    into.push(fs);
    Ok(())
}

fn event(into: &mut Vec<Event>, n: &KdlNode, names: &Names) -> Result<(), Bad> {
    let mut entries = Entries::new(n);
    let name = take_name(&mut entries)?;
    fn prop<F: Form>(entries: &mut Entries<'_>, name: &str, names: &Names) -> Result<F::Value, Bad> {
        let e = entries.prop(name, F::WHAT)?;
        F::read(e.value(), names).map_err(|b| b.at(e.span()))
    }
    let at_us = prop::<When>(&mut entries, "at", names)?;
    let action = entries.prop("do", EVENT[1].1)?;
    let word = string(action.value(), EVENT[1].1).map_err(|b| b.at(action.span()))?;
    let e = &mut entries;
    let what = match word.as_str() {
        "remove" => Action::Remove(prop::<OfMemcg>(e, "memcg", names)?),
        "sync" => Action::Sync(prop::<OfFs>(e, "fs", names)?),
        "set-max" => Action::SetMax(prop::<OfMemcg>(e, "memcg", names)?, prop::<Maybe<Bytes>>(e, "max", names)?),
        "set-dirty-ratio" => Action::SetDirtyRatio(prop::<Percent>(e, "ratio", names)?),
        "truncate" => Action::Truncate(prop::<OfFile>(e, "file", names)?),
        other => {
            let known = ["remove", "sync", "set-max", "set-dirty-ratio", "truncate"];
            return Err(Bad::new(format!("nobody can `{other}`")).at(action.span()).suggest(other, known));
        }
    };
    entries.done(&EVENT.iter().map(|p| p.0).collect::<Vec<_>>())?;
    into.push(Event { name, at_us, what });
    Ok(())
}

fn variant(n: &KdlNode, s: &Scenario) -> Result<Variant, Bad> {
    let mut entries = Entries::new(n);
    let name = take_name(&mut entries)?;
    entries.done_with_block(&[])?;
    let mut v = Variant { name, set: Vec::new() };
    for c in children(n) {
        if c.name().value() != "set" {
            return Err(Bad::new(format!("`variant` has no `{}`", c.name().value())).at(c.name().span()).suggest(c.name().value(), ["set"]));
        }
        let mut entries = Entries::new(c);
        let path = entries.arg("the path of a property")?;
        let path = string(path.value(), "the path of a property").map_err(|b| b.at(path.span()))?;
        let value = entries.arg("a value")?;
        let value = value.value().as_string().map_or_else(|| value.value().to_string(), str::to_owned);
        entries.done(&[])?;
        if v.set.iter().any(|o| o.0 == path) {
            return Err(Bad::new(format!("{path} is set twice")).at(c.span()));
        }
        v.set.push((path, value));
        s.with(&v.set).map_err(|e| {
            let mut bad = Bad::new(e.message).at(c.span());
            bad.help = e.help;
            bad
        })?;
    }
    Ok(v)
}

fn expect(n: &KdlNode, s: &Scenario) -> Result<Expect, Bad> {
    let mut entries = Entries::new(n);
    let mut word = |what: &str| {
        let e = entries.arg(what)?;
        Ok::<_, Bad>((string(e.value(), what).map_err(|b| b.at(e.span()))?, e.span()))
    };
    let (variant, at) = word("the name of a variant")?;
    let (metric, metric_at) = word("a metric")?;
    let known = |name: &str| s.variants.iter().any(|v| v.name == name) || (s.variants.is_empty() && name == BASE);
    let unknown = |name: &str| {
        let names: Vec<&str> = if s.variants.is_empty() { vec![BASE] } else { s.variants.iter().map(|v| v.name.as_str()).collect() };
        Bad::new(format!("no variant called `{name}`")).suggest(name, names)
    };
    if !known(&variant) {
        return Err(unknown(&variant).at(at));
    }
    check_metric(s, &metric).map_err(|b| b.at(metric_at))?;
    let base = Expect { variant, metric, ..Expect::default() };
    let e = Expect::read(base, &mut entries, &Names::default())?;
    entries.done(&Expect::known())?;
    if let Some(r) = e.relative_to.as_ref().filter(|r| !known(r)) {
        return Err(unknown(r).at(n.span()));
    }
    match (e.low, e.high) {
        (None, None) => Err(Bad::new("an expectation has low=, high= or both").at(n.span())),
        (Some(low), Some(high)) if low > high => Err(Bad::new("low= is above high=").at(n.span())),
        _ => Ok(e),
    }
}

/// Does the scenario have this metric: of the machine, or as `name.metric` of a task or a file?
pub(super) fn check_metric(s: &Scenario, name: &str) -> Result<(), Bad> {
    let (subject, plain) = name.rsplit_once('.').map_or((None, name), |(s, m)| (Some(s), m));
    let Some(m) = metric(plain) else {
        return Err(Bad::new(format!("no metric called `{plain}`")).suggest(plain, crate::sim::METRICS.iter().map(|m| m.name)));
    };
    let Some(subject) = subject else {
        return match m.of {
            Of::File => Err(Bad::new(format!("`{plain}` is a metric of one file")).help(format!("as in file.{plain}"))),
            Of::Machine | Of::Task => Ok(()),
        };
    };
    let subjects: Vec<&str> = match m.of {
        Of::Machine => return Err(Bad::new(format!("`{plain}` is a metric of the whole machine")).help(format!("write {plain}"))),
        Of::Task => s.writers.iter().map(|w| w.name.as_str()).chain(s.direct.iter().map(|d| d.name.as_str())).collect(),
        Of::File => s.files.iter().map(|f| f.name.as_str()).collect(),
    };
    let what = if m.of == Of::File { "file" } else { "task" };
    if subjects.contains(&subject) { Ok(()) } else { Err(Bad::new(format!("no {what} called `{subject}`")).suggest(subject, subjects)) }
}

// ---- names ----------------------------------------------------------------------------------------------------------

/// The name of a node, if it has one.
pub(super) fn name_of(n: &KdlNode) -> Option<&str> {
    n.entries().iter().find(|e| e.name().is_none()).and_then(|e| e.value().as_string())
}

fn take_name(entries: &mut Entries<'_>) -> Result<String, Bad> {
    let e = entries.arg("a name")?;
    let s = string(e.value(), "a name").map_err(|b| b.at(e.span()))?;
    fit(&s).map_err(|b| b.at(e.span()))?;
    Ok(s)
}

/// Is it fit to be a name, and a part of a path?
fn fit(s: &str) -> Result<(), Bad> {
    check_name(s)?;
    if s.contains('.') { Err(Bad::new("a name contains '.'").help("dots separate the parts of paths")) } else { Ok(()) }
}

/// No node of this kind before this one has its name.
fn unique(nodes: &[KdlNode], kind: &str, n: &KdlNode) -> Result<(), Bad> {
    let before = nodes.iter().take_while(|o| !std::ptr::eq(*o, n)).filter(|o| o.name().value() == kind);
    match name_of(n) {
        Some(name) if before.clone().any(|o| name_of(o) == Some(name)) => {
            Err(Bad::new(format!("a second `{kind}` called `{name}`")).at(n.span()).label("the name is taken"))
        }
        _ if before.count() >= MAX_NODES => Err(Bad::new(format!("more than {MAX_NODES} nodes called `{kind}`")).at(n.span())),
        _ => Ok(()),
    }
}

/// Index of the memcg that a path lies in.
fn parent(path: &str, names: &Names) -> Option<MemcgRef> {
    let up = path.rsplit_once('/')?.0;
    names.memcgs.iter().position(|n| n == up)
}

fn names(nodes: &[KdlNode]) -> Result<Names, Bad> {
    let mut names = Names::default();
    for n in nodes {
        let kind = n.name().value();
        if matches!(kind, "schema" | "scenario" | "machine" | "policy" | "expect") {
            continue;
        }
        unique(nodes, kind, n)?;
        let Some(name) = name_of(n) else { continue };
        fit(name).map_err(|b| b.at(n.span()))?;
        let table = match kind {
            "memcg" => {
                let up = name.rsplit_once('/').map(|p| p.0);
                if name.starts_with('/') || name.ends_with('/') {
                    return Err(Bad::new("a memcg's path begins below the root and ends in its name").at(n.span()).help("as in \"pod/old\""));
                }
                if let Some(up) = up.filter(|up| !names.memcgs.iter().any(|m| m == up)) {
                    let bad = Bad::new(format!("the parent memcg `{up}` is not made before")).at(n.span());
                    return Err(bad.suggest(up, names.memcgs.iter().map(String::as_str)));
                }
                &mut names.memcgs
            }
            "disk" => &mut names.disks,
            "fs" => &mut names.filesystems,
            "file" => &mut names.files,
            _ => continue,
        };
        table.push(name.to_owned());
    }
    Ok(names)
}
