//! The entries of a node: who has taken them, what is missing, what is one too many; and values that all formats share.

use super::error::Bad;
use kdl::{KdlEntry, KdlNode, KdlValue};

/// Largest whole number of the format.
pub(crate) const MAX_NUMBER: u64 = 1 << 53;
/// Longest name of an object, in characters.
pub(crate) const MAX_NAME: usize = 80;

/// Error for a value of another type than `what`.
pub(crate) fn wrong(v: &KdlValue, what: &str) -> Bad {
    let is = match v {
        KdlValue::String(_) => "a string",
        KdlValue::Integer(_) => "a whole number",
        KdlValue::Float(_) => "a fraction",
        KdlValue::Bool(_) => "a boolean",
        KdlValue::Null => "null",
    };
    Bad::new(format!("expected {what}, found {is}"))
}

/// A string.
pub(crate) fn string(v: &KdlValue, what: &str) -> Result<String, Bad> {
    v.as_string().map(str::to_owned).ok_or_else(|| wrong(v, what))
}

/// A whole number of the format.
pub(crate) fn number(v: &KdlValue) -> Result<u64, Bad> {
    let n = v.as_integer().ok_or_else(|| wrong(v, "a whole number"))?;
    u64::try_from(n).ok().filter(|n| *n <= MAX_NUMBER).ok_or_else(|| Bad::new(format!("{n} is out of range")))
}

/// A boolean.
pub(crate) fn boolean(v: &KdlValue) -> Result<bool, Bad> {
    v.as_bool().ok_or_else(|| wrong(v, "#true or #false").help("booleans are written #true and #false"))
}

/// Is it fit to be an object's name?
pub(crate) fn check_name(s: &str) -> Result<(), Bad> {
    if s.is_empty() {
        return Err(Bad::new("a name is empty"));
    }
    if s.chars().count() > MAX_NAME {
        return Err(Bad::new(format!("a name is longer than {MAX_NAME} characters")));
    }
    match s.chars().find(|c| !(c.is_ascii_alphanumeric() || "-_./@+".contains(*c))) {
        Some(c) => Err(Bad::new(format!("a name contains {c:?}")).help("names are made of letters, digits and -_./@+")),
        None => Ok(()),
    }
}

/// A string as KDL text.
pub(crate) fn quote(s: &str) -> String {
    let mut out = String::with_capacity(s.len() + 2);
    out.push('"');
    for c in s.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            ' ' => out.push(' '),
            c if c.is_ascii_graphic() || c.is_alphanumeric() => out.push(c),
            c => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
        }
    }
    out.push('"');
    out
}

/// Nodes in the block of a node.
pub(crate) fn children(node: &KdlNode) -> &[KdlNode] {
    node.children().map_or(&[], |d| d.nodes())
}

/// Takes the entries of a node one by one, and complains about what nobody took.
pub(crate) struct Entries<'a> {
    node: &'a KdlNode,
    taken: Vec<bool>,
}

impl<'a> Entries<'a> {
    pub fn new(node: &'a KdlNode) -> Entries<'a> {
        Entries { node, taken: vec![false; node.entries().len()] }
    }
    /// The node.
    pub fn node(&self) -> &'a KdlNode {
        self.node
    }
    /// The next positional argument, if there is one.
    pub fn next(&mut self) -> Option<&'a KdlEntry> {
        let i = (0..self.taken.len()).find(|&i| !self.taken[i] && self.node.entries()[i].name().is_none())?;
        self.taken[i] = true;
        Some(&self.node.entries()[i])
    }
    /// The next positional argument, which must be there.
    pub fn arg(&mut self, what: &str) -> Result<&'a KdlEntry, Bad> {
        let name = self.node.name();
        self.next().ok_or_else(|| Bad::new(format!("`{}` needs {what}", name.value())).at(name.span()).label("nothing follows"))
    }
    /// A property, if it is there.
    pub fn find(&mut self, name: &str) -> Option<&'a KdlEntry> {
        let i = self.node.entries().iter().position(|e| e.name().is_some_and(|n| n.value() == name))?;
        self.taken[i] = true;
        Some(&self.node.entries()[i])
    }
    /// A property, which must be there.
    pub fn prop(&mut self, name: &str, what: &str) -> Result<&'a KdlEntry, Bad> {
        let node = self.node.name();
        self.find(name).ok_or_else(|| Bad::new(format!("`{}` needs {name}=, {what}", node.value())).at(node.span()).label(format!("without {name}=")))
    }
    /// Everything on the node was taken, it has no children and no type annotation.
    pub fn done(self, known: &[&str]) -> Result<(), Bad> {
        if let Some(c) = self.node.children() {
            return Err(Bad::new(format!("`{}` takes no block", self.node.name().value())).at(c.span()));
        }
        self.done_with_block(known)
    }
    /// As [`Entries::done`], for a node with a block.
    pub fn done_with_block(self, known: &[&str]) -> Result<(), Bad> {
        let what = self.node.name().value();
        if let Some(t) = self.node.ty() {
            return Err(Bad::new("type annotations have no meaning here").at(t.span()));
        }
        for (e, taken) in self.node.entries().iter().zip(&self.taken) {
            if let Some(t) = e.ty() {
                return Err(Bad::new("type annotations have no meaning here").at(t.span()));
            }
            if *taken {
                continue;
            }
            return Err(match e.name() {
                Some(n) if known.contains(&n.value()) => Bad::new(format!("{}= is given twice", n.value())).at(e.span()),
                Some(n) => Bad::new(format!("`{what}` has no {}=", n.value())).at(n.span()).suggest(n.value(), known.iter().copied()),
                None => Bad::new(format!("`{what}` takes fewer arguments")).at(e.span()).label("one too many"),
            });
        }
        Ok(())
    }
}
