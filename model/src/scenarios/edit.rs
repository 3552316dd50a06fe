//! Other values for a scenario's properties, by path: `disk.nvme.write`, `memcg.job.max`, `machine.cpus`.
//!
//! Edits are made in the document before it is typed, so that they reach every property there is and are checked like text.

use super::ast::{BASE, Expect, Scenario, Variant};
use super::nodes::KINDS;
use super::{parse, print};
use crate::text::{Bad, document, nearest};
use kdl::{KdlDocument, KdlEntry, KdlNode, KdlValue};
use std::fmt;

/// An edit that can't be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EditError {
    /// What is wrong.
    pub message: String,
    /// How to put it right, if that is known.
    pub help: Option<String>,
}

impl fmt::Display for EditError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for EditError {}

impl Scenario {
    /// The scenario with other values, each a (path, value). A path is `kind.name.property`; the name is left out where the node
    /// has none, and may be where it is the only one of its kind. Inside a disk: `disk.sda.cap.job.rate`.
    pub fn with(&self, edits: &[(String, String)]) -> Result<Scenario, EditError> {
        let bug = |b: Bad| EditError { message: b.message, help: b.help };
        let mut doc = document(&print::plain(self)).map_err(bug)?;
        if doc.get("policy").is_none() {
            doc.nodes_mut().push(KdlNode::new("policy"));
        }
        for (path, value) in edits {
            set(&mut doc, path, value)?;
        }
        let edited = parse::plain(&doc).map_err(|b| {
            let edits: Vec<String> = edits.iter().map(|(p, v)| format!("{p} = {v}")).collect();
            EditError { message: format!("{}: {}", edits.join(", "), b.message), help: b.help }
        })?;
        Ok(Scenario { variants: self.variants.clone(), expect: self.expect.clone(), ..edited })
    }

    /// The variants, or the only one there is.
    pub fn all_variants(&self) -> Vec<Variant> {
        if self.variants.is_empty() { vec![Variant { name: BASE.into(), set: Vec::new() }] } else { self.variants.clone() }
    }

    /// Is there such a metric: of the machine, or as `name.metric` of a task or a file?
    pub fn check_metric(&self, metric: &str) -> Result<(), EditError> {
        parse::check_metric(self, metric).map_err(|b| EditError { message: b.message, help: b.help })
    }

    /// Every path that an edit may name.
    pub fn paths(&self) -> Vec<String> {
        document(&print::plain(self)).map_or_else(|_| Vec::new(), |doc| paths(doc.nodes(), ""))
    }

    /// Expectations for a variant.
    pub fn expectations<'a>(&'a self, variant: &'a str) -> impl Iterator<Item = &'a Expect> {
        self.expect.iter().filter(move |e| e.variant == variant)
    }
}

fn properties(kind: &str) -> impl Iterator<Item = &'static str> {
    KINDS.iter().filter(move |k| k.0 == kind).flat_map(|k| k.1).map(|p| p.0)
}

fn paths(nodes: &[KdlNode], prefix: &str) -> Vec<String> {
    let mut out = Vec::new();
    for n in nodes {
        let kind = n.name().value();
        // The scenario's own name stands on the command line.
        let name = parse::name_of(n).filter(|_| kind != "scenario").map_or(String::new(), |s| format!("{s}."));
        let node = format!("{prefix}{kind}.{name}");
        out.extend(properties(kind).map(|p| format!("{node}{p}")));
        out.extend(n.children().map_or_else(Vec::new, |d| paths(d.nodes(), &node)));
    }
    if prefix.is_empty() && !nodes.iter().any(|n| n.name().value() == "policy") {
        out.extend(properties("policy").map(|p| format!("policy.{p}")));
    }
    out
}

/// Indices of nodes, from the top, of the node that a path leads to, and the property that it names there.
fn locate<'p>(nodes: &[KdlNode], path: &'p str) -> Option<(Vec<usize>, &'p str)> {
    let (kind, rest) = path.split_once('.')?;
    let of_kind: Vec<usize> = (0..nodes.len()).filter(|&i| nodes[i].name().value() == kind).collect();
    let named = of_kind.iter().copied().find_map(|i| {
        let name = parse::name_of(&nodes[i])?;
        Some((i, rest.strip_prefix(name)?.strip_prefix('.')?))
    });
    let (i, rest) = match (named, of_kind.as_slice()) {
        (Some(found), _) => found,
        (None, &[only]) => (only, rest),
        _ => return None,
    };
    if properties(kind).any(|p| p == rest) {
        return Some((vec![i], rest));
    }
    let (mut inner, property) = locate(nodes[i].children()?.nodes(), rest)?;
    inner.insert(0, i);
    Some((inner, property))
}

fn set(doc: &mut KdlDocument, path: &str, value: &str) -> Result<(), EditError> {
    let Some((at, property)) = locate(doc.nodes(), path) else {
        let all = paths(doc.nodes(), "");
        let help = match nearest(path, all.iter().map(String::as_str)) {
            Some(n) => format!("did you mean `{n}`?"),
            None => "a path is kind.name.property, as in disk.sda.write or machine.cpus".to_string(),
        };
        return Err(EditError { message: format!("nothing is called `{path}`"), help: Some(help) });
    };
    let mut nodes = doc.nodes_mut();
    for i in &at[..at.len() - 1] {
        nodes = nodes[*i].ensure_children().nodes_mut();
    }
    let entries = nodes[at[at.len() - 1]].entries_mut();
    entries.retain(|e| e.name().is_none_or(|n| n.value() != property));
    entries.push(KdlEntry::new_prop(property, typed(value)));
    Ok(())
}

/// The KDL value that a word of the command line means.
fn typed(value: &str) -> KdlValue {
    match value {
        "true" | "#true" => KdlValue::Bool(true),
        "false" | "#false" => KdlValue::Bool(false),
        _ => value.parse().map(KdlValue::Integer).unwrap_or_else(|_| KdlValue::String(value.into())),
    }
}
