//! Values in the text: how each type of parameter is read from a KDL value and written back.

use super::ast::{BdiRef, CgroupRef, InodeRef, Irq, Names, SbRef, TaskRef, WbRef};
use super::error::Bad;
use kdl::{KdlEntry, KdlNode, KdlValue};
use miette::SourceSpan;

/// Largest whole number of the format.
pub(crate) const MAX_NUMBER: u64 = 1 << 53;
/// Longest name of an object, in characters.
pub(crate) const MAX_NAME: usize = 80;

/// A memcg by id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CssId {
    /// The css id of the memory css that this cgroup got when it was made, whether or not it still has it.
    Of(CgroupRef),
    /// This number.
    Number(u32),
}

/// Something that an operation names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ref {
    /// A device.
    Bdi(BdiRef),
    /// A cgroup.
    Cgroup(CgroupRef),
    /// A file system.
    Sb(SbRef),
    /// An inode.
    Inode(InodeRef),
    /// A kept reference.
    Wb(WbRef),
    /// A task.
    Task(TaskRef),
}

/// A parameter's type.
pub(crate) trait Value: Sized + Clone {
    /// What it takes, for messages: "the name of an inode".
    const WHAT: &'static str;
    /// What it names, if anything.
    fn names(&self) -> Option<Ref> {
        None
    }
    fn read(v: &KdlValue, names: &Names) -> Result<Self, Bad>;
    /// KDL text.
    fn write(&self, names: &Names) -> String;
}

fn wrong(v: &KdlValue, what: &str) -> Bad {
    let is = match v {
        KdlValue::String(_) => "a string",
        KdlValue::Integer(_) => "a whole number",
        KdlValue::Float(_) => "a fraction",
        KdlValue::Bool(_) => "a boolean",
        KdlValue::Null => "null",
    };
    Bad::new(format!("expected {what}, found {is}"))
}

pub(crate) fn string(v: &KdlValue, what: &str) -> Result<String, Bad> {
    v.as_string().map(str::to_owned).ok_or_else(|| wrong(v, what))
}

impl Value for bool {
    const WHAT: &'static str = "#true or #false";
    fn read(v: &KdlValue, _: &Names) -> Result<Self, Bad> {
        v.as_bool().ok_or_else(|| wrong(v, Self::WHAT).help("booleans are written #true and #false"))
    }
    fn write(&self, _: &Names) -> String {
        if *self { "#true".into() } else { "#false".into() }
    }
}

impl Value for u64 {
    const WHAT: &'static str = "a whole number";
    fn read(v: &KdlValue, _: &Names) -> Result<Self, Bad> {
        let n = v.as_integer().ok_or_else(|| wrong(v, Self::WHAT))?;
        u64::try_from(n).ok().filter(|n| *n <= MAX_NUMBER).ok_or_else(|| Bad::new(format!("{n} is out of range")))
    }
    fn write(&self, _: &Names) -> String {
        self.to_string()
    }
}

impl Value for u32 {
    const WHAT: &'static str = "a whole number";
    fn read(v: &KdlValue, names: &Names) -> Result<Self, Bad> {
        let n = u64::read(v, names)?;
        u32::try_from(n).map_err(|_| Bad::new(format!("{n} is out of range")))
    }
    fn write(&self, _: &Names) -> String {
        self.to_string()
    }
}

impl Value for String {
    const WHAT: &'static str = "a string";
    fn read(v: &KdlValue, _: &Names) -> Result<Self, Bad> {
        string(v, Self::WHAT)
    }
    fn write(&self, _: &Names) -> String {
        quote(self)
    }
}

impl<T: Value> Value for Option<T> {
    const WHAT: &'static str = T::WHAT;
    fn names(&self) -> Option<Ref> {
        self.as_ref().and_then(T::names)
    }
    fn read(v: &KdlValue, names: &Names) -> Result<Self, Bad> {
        T::read(v, names).map(Some)
    }
    fn write(&self, names: &Names) -> String {
        self.as_ref().map_or_else(|| "#null".into(), |v| v.write(names))
    }
}

impl Value for Irq {
    const WHAT: &'static str = "\"soft\" or \"hard\"";
    fn read(v: &KdlValue, _: &Names) -> Result<Self, Bad> {
        match string(v, Self::WHAT)?.as_str() {
            "none" => Ok(Irq::None),
            "soft" => Ok(Irq::Soft),
            "hard" => Ok(Irq::Hard),
            s => Err(Bad::new(format!("no interrupt level called `{s}`")).suggest(s, ["none", "soft", "hard"])),
        }
    }
    fn write(&self, _: &Names) -> String {
        quote(match self {
            Irq::None => "none",
            Irq::Soft => "soft",
            Irq::Hard => "hard",
        })
    }
}

impl Value for CssId {
    const WHAT: &'static str = "a cgroup, or the number of a css id";
    fn names(&self) -> Option<Ref> {
        match self {
            CssId::Of(c) => c.names(),
            CssId::Number(_) => None,
        }
    }
    fn read(v: &KdlValue, names: &Names) -> Result<Self, Bad> {
        match v {
            KdlValue::Integer(_) => u32::read(v, names).map(CssId::Number),
            KdlValue::String(_) => CgroupRef::read(v, names).map(CssId::Of),
            _ => Err(wrong(v, Self::WHAT)),
        }
    }
    fn write(&self, names: &Names) -> String {
        match self {
            CssId::Of(c) => c.write(names),
            CssId::Number(n) => n.to_string(),
        }
    }
}

macro_rules! references {
    ($($ty:ident $kind:ident $table:ident $thing:literal $the:literal)*) => {$(
        impl Value for $ty {
            const WHAT: &'static str = $the;
            fn names(&self) -> Option<Ref> {
                Some(Ref::$kind(*self))
            }
            fn read(v: &KdlValue, names: &Names) -> Result<Self, Bad> {
                let s = string(v, Self::WHAT)?;
                match names.$table.iter().position(|n| *n == s) {
                    Some(i) => Ok($ty(i as u16)),
                    None => Err(Bad::new(format!(concat!("no ", $thing, " called `{}`"), s)).suggest(&s, names.$table.iter().map(String::as_str))),
                }
            }
            fn write(&self, names: &Names) -> String {
                quote(names.$table.get(self.index()).map_or("", String::as_str))
            }
        }
    )*};
}

references! {
    BdiRef Bdi bdis "device" "the name of a device"
    CgroupRef Cgroup cgroups "cgroup" "the path of a cgroup"
    SbRef Sb sbs "file system" "the name of a file system"
    InodeRef Inode inodes "inode" "the name of an inode"
    WbRef Wb wbs "kept reference" "the name of a kept reference"
    TaskRef Task tasks "task" "the name of a task"
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

/// Takes the entries of a node one by one, and complains about what nobody took.
pub(crate) struct Reader<'a> {
    node: &'a KdlNode,
    names: &'a Names,
    taken: Vec<bool>,
}

impl<'a> Reader<'a> {
    pub fn new(node: &'a KdlNode, names: &'a Names) -> Reader<'a> {
        Reader { node, names, taken: vec![false; node.entries().len()] }
    }
    /// Where the node stands.
    pub fn span(&self) -> SourceSpan {
        self.node.span()
    }
    fn value<T: Value>(&self, e: &KdlEntry) -> Result<T, Bad> {
        T::read(e.value(), self.names).map_err(|b| b.at(e.span()))
    }
    /// The next positional argument, if there is one.
    pub fn next(&mut self) -> Option<&'a KdlEntry> {
        let i = (0..self.taken.len()).find(|&i| !self.taken[i] && self.node.entries()[i].name().is_none())?;
        self.taken[i] = true;
        Some(&self.node.entries()[i])
    }
    /// The next positional argument.
    pub fn arg<T: Value>(&mut self) -> Result<T, Bad> {
        match self.next() {
            Some(e) => self.value(e),
            None => Err(Bad::new(format!("`{}` needs {}", self.node.name().value(), T::WHAT)).at(self.node.name().span()).label("nothing follows")),
        }
    }
    fn find(&mut self, name: &str) -> Option<&'a KdlEntry> {
        let i = self.node.entries().iter().position(|e| e.name().is_some_and(|n| n.value() == name))?;
        self.taken[i] = true;
        Some(&self.node.entries()[i])
    }
    /// A property.
    pub fn prop<T: Value>(&mut self, name: &str) -> Result<T, Bad> {
        match self.find(name) {
            Some(e) => self.value(e),
            None => Err(Bad::new(format!("`{}` needs {name}=, {}", self.node.name().value(), T::WHAT))
                .at(self.node.name().span())
                .label(format!("without {name}="))),
        }
    }
    /// A property that may be left out.
    pub fn prop_or<T: Value>(&mut self, name: &str, default: T) -> Result<T, Bad> {
        match self.find(name) {
            Some(e) => self.value(e),
            None => Ok(default),
        }
    }
    /// Everything on the node was taken, it has no children and no type annotation.
    pub fn done(self, known: &[&str]) -> Result<(), Bad> {
        if let Some(c) = self.node.children() {
            return Err(Bad::new(format!("`{}` takes no block", self.node.name().value())).at(c.span()));
        }
        self.done_with_block(known)
    }
    /// As [`Reader::done`], for a node with a block.
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

/// Builds the text of one node.
pub(crate) struct Writer<'a> {
    names: &'a Names,
    text: String,
}

impl<'a> Writer<'a> {
    pub fn new(node: &str, names: &'a Names) -> Writer<'a> {
        Writer { names, text: node.to_owned() }
    }
    pub fn arg<T: Value>(&mut self, v: &T) {
        self.text.push(' ');
        self.text.push_str(&v.write(self.names));
    }
    pub fn prop<T: Value>(&mut self, name: &str, v: &T) {
        self.text.push(' ');
        self.text.push_str(name);
        self.text.push('=');
        self.text.push_str(&v.write(self.names));
    }
    pub fn prop_unless<T: Value + PartialEq>(&mut self, name: &str, v: &T, default: &T) {
        if v != default {
            self.prop(name, v);
        }
    }
    pub fn finish(self) -> String {
        self.text
    }
}
