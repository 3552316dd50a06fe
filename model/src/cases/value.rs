//! Values in the text: how each type of parameter is read from a KDL value and written back.

use super::ast::{BdiRef, CgroupRef, InodeRef, Irq, Names, SbRef, TaskRef, WbRef};
use crate::linux::mm::memcontrol::stats::StatItem;
use crate::policy::FlushPolicy;
use crate::text::{Bad, Entries, boolean, number, quote, string, wrong};
use kdl::{KdlEntry, KdlNode, KdlValue};
use miette::SourceSpan;

/// A memcg by id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CssId {
    /// The css id of the memory css that this cgroup got when it was made, whether or not it still has it.
    Of(CgroupRef),
    /// This number.
    Number(u32),
}

/// Which entry of the kernel a flush of memory statistics goes through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlushEntry {
    /// `mem_cgroup_flush_stats`: if enough is pending.
    Gated,
    /// What the periodic worker calls: whatever is pending.
    Forced,
    /// `mem_cgroup_flush_stats_ratelimited`: if enough is pending and the periodic worker is late.
    Ratelimited,
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

impl Value for bool {
    const WHAT: &'static str = "#true or #false";
    fn read(v: &KdlValue, _: &Names) -> Result<Self, Bad> {
        boolean(v)
    }
    fn write(&self, _: &Names) -> String {
        if *self { "#true".into() } else { "#false".into() }
    }
}

impl Value for u64 {
    const WHAT: &'static str = "a whole number";
    fn read(v: &KdlValue, _: &Names) -> Result<Self, Bad> {
        number(v)
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

impl Value for i32 {
    const WHAT: &'static str = "a whole number";
    fn read(v: &KdlValue, _: &Names) -> Result<Self, Bad> {
        let n = v.as_integer().ok_or_else(|| wrong(v, Self::WHAT))?;
        i32::try_from(n).map_err(|_| Bad::new(format!("{n} is out of range")))
    }
    fn write(&self, _: &Names) -> String {
        self.to_string()
    }
}

/// Values that are one of a few words.
macro_rules! words {
    ($($ty:ty, $thing:literal, $what:literal, $names:expr;)*) => {$(
        impl Value for $ty {
            const WHAT: &'static str = $what;
            fn read(v: &KdlValue, _: &Names) -> Result<Self, Bad> {
                let s = string(v, Self::WHAT)?;
                let names: &[(&str, $ty)] = $names;
                match names.iter().find(|n| n.0 == s) {
                    Some(n) => Ok(n.1),
                    None => Err(Bad::new(format!(concat!("no ", $thing, " called `{}`"), s)).suggest(&s, names.iter().map(|n| n.0))),
                }
            }
            fn write(&self, _: &Names) -> String {
                let names: &[(&str, $ty)] = $names;
                quote(names.iter().find(|n| n.1 == *self).map_or("", |n| n.0))
            }
        }
    )*};
}

words! {
    Irq, "interrupt level", "\"soft\" or \"hard\"", &[("none", Irq::None), ("soft", Irq::Soft), ("hard", Irq::Hard)];
    FlushPolicy, "flush policy", "the name of a flush policy", FlushPolicy::NAMES;
    StatItem, "statistic", "the name of a memory statistic", StatItem::NAMES;
    FlushEntry, "flush", "\"gated\", \"forced\" or \"ratelimited\"",
        &[("gated", FlushEntry::Gated), ("forced", FlushEntry::Forced), ("ratelimited", FlushEntry::Ratelimited)];
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

/// Reads the entries of a node as parameters.
pub(crate) struct Reader<'a> {
    entries: Entries<'a>,
    names: &'a Names,
}

impl<'a> Reader<'a> {
    pub fn new(node: &'a KdlNode, names: &'a Names) -> Reader<'a> {
        Reader { entries: Entries::new(node), names }
    }
    /// Where the node stands.
    pub fn span(&self) -> SourceSpan {
        self.entries.node().span()
    }
    fn value<T: Value>(&self, e: &KdlEntry) -> Result<T, Bad> {
        T::read(e.value(), self.names).map_err(|b| b.at(e.span()))
    }
    /// The next positional argument, if there is one.
    pub fn next(&mut self) -> Option<&'a KdlEntry> {
        self.entries.next()
    }
    /// The next positional argument.
    pub fn arg<T: Value>(&mut self) -> Result<T, Bad> {
        let e = self.entries.arg(T::WHAT)?;
        self.value(e)
    }
    /// A property.
    pub fn prop<T: Value>(&mut self, name: &str) -> Result<T, Bad> {
        let e = self.entries.prop(name, T::WHAT)?;
        self.value(e)
    }
    /// A property that may be left out.
    pub fn prop_or<T: Value>(&mut self, name: &str, default: T) -> Result<T, Bad> {
        match self.entries.find(name) {
            Some(e) => self.value(e),
            None => Ok(default),
        }
    }
    /// As [`Entries::done`].
    pub fn done(self, known: &[&str]) -> Result<(), Bad> {
        self.entries.done(known)
    }
    /// As [`Entries::done_with_block`].
    pub fn done_with_block(self, known: &[&str]) -> Result<(), Bad> {
        self.entries.done_with_block(known)
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
