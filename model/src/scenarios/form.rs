//! Forms: how a property of a node is written, and which values it may have.

use super::ast::{FaultKind, NEVER, Owner, Pattern};
use super::units::{self, Unit};
use crate::policy::{Cleanup, FlushPolicy, ForeignPolicy, Freerun, FuseAccounting, OrderCap, Sizing};
use crate::rules::Rules;
use crate::text::{Bad, Entries, boolean, number, quote, string, wrong};
use kdl::KdlValue;
use std::marker::PhantomData;

/// Names that nodes refer to, by index.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    pub memcgs: Vec<String>,
    pub disks: Vec<String>,
    pub filesystems: Vec<String>,
    pub files: Vec<String>,
}

/// How a value of some type is written.
pub(super) trait Form {
    type Value: Clone + PartialEq;
    /// What it takes, for messages.
    const WHAT: &'static str;
    fn read(v: &KdlValue, names: &Names) -> Result<Self::Value, Bad>;
    /// KDL text.
    fn write(value: &Self::Value, names: &Names) -> String;
}

/// A kind of node, and its properties.
pub(super) trait Node: Sized {
    /// What the node is called.
    const KIND: &'static str;
    /// Its properties: (name, what it takes).
    const PROPS: &'static [(&'static str, &'static str)];
    /// Takes the properties; what is not stated is as in `base`.
    fn read(base: Self, entries: &mut Entries<'_>, names: &Names) -> Result<Self, Bad>;
    /// The properties that differ from `base`, and those that must be stated.
    fn write(&self, base: &Self, names: &Names) -> String;
    /// Names of the properties.
    fn known() -> Vec<&'static str> {
        Self::PROPS.iter().map(|p| p.0).collect()
    }
}

/// One row a property: field, form, name; `required` if it must be stated.
macro_rules! nodes {
    ($($ty:ty = $kind:literal { $($field:ident: $form:ty = $prop:literal $($required:ident)?,)* })*) => {$(
        impl Node for $ty {
            const KIND: &'static str = $kind;
            const PROPS: &'static [(&'static str, &'static str)] = &[$(($prop, <$form as Form>::WHAT)),*];
            fn read(base: Self, entries: &mut Entries<'_>, names: &Names) -> Result<Self, Bad> {
                let mut node = base;
                $(if let Some(e) = nodes!(@find entries, $prop, $form $(, $required)?) {
                    node.$field = <$form as Form>::read(e.value(), names).map_err(|b| b.at(e.span()))?;
                })*
                Ok(node)
            }
            fn write(&self, base: &Self, names: &Names) -> String {
                let mut out = String::new();
                $(if nodes!(@shown $($required)?) || self.$field != base.$field {
                    out.push_str(concat!(" ", $prop, "="));
                    out.push_str(&<$form as Form>::write(&self.$field, names));
                })*
                out
            }
        }
    )*};
    (@find $e:ident, $prop:literal, $form:ty) => { $e.find($prop) };
    (@find $e:ident, $prop:literal, $form:ty, required) => { Some($e.prop($prop, <$form as Form>::WHAT)?) };
    (@shown) => { false };
    (@shown required) => { true };
}
pub(super) use nodes;

/// An amount with a unit, given as a string.
fn amount(v: &KdlValue, what: &str, units: &[Unit]) -> Result<u64, Bad> {
    match v {
        KdlValue::String(s) => units::read(s, units),
        KdlValue::Integer(n) => Err(Bad::new(format!("`{n}` has no unit")).help(format!("write it with a unit and in quotes, as in \"{n}{}\"", units[0].0))),
        _ => Err(wrong(v, what)),
    }
}

macro_rules! amounts {
    ($($(#[$m:meta])* $name:ident $units:expr, $range:expr, $what:literal)*) => {$(
        $(#[$m])*
        pub(super) struct $name;
        impl Form for $name {
            type Value = u64;
            const WHAT: &'static str = $what;
            fn read(v: &KdlValue, _: &Names) -> Result<u64, Bad> {
                let n = amount(v, $what, $units)?;
                let range: std::ops::RangeInclusive<u64> = $range;
                if range.contains(&n) {
                    return Ok(n);
                }
                let (low, high) = (units::write(*range.start(), $units), units::write(*range.end(), $units));
                Err(Bad::new(format!("{} is out of range", units::write(n, $units))).help(format!("it may be {low} to {high}")))
            }
            fn write(n: &u64, _: &Names) -> String {
                quote(&units::write(*n, $units))
            }
        }
    )*};
}

/// A day, in microseconds.
const DAY: u64 = 86_400_000_000;

amounts! {
    /// Bytes, at least one.
    Bytes units::BYTES, 1..=units::MAX, "a size as \"8GB\""
    /// Bytes, or none.
    Size units::BYTES, 0..=units::MAX, "a size as \"8GB\""
    /// Memory of a machine.
    Memory units::BYTES, 1 << 20..=1 << 50, "a size as \"8GB\""
    /// Bytes of one request or one write.
    Block units::BYTES, 1..=1 << 30, "a size as \"1MiB\""
    /// Bytes of the largest request: at least a page.
    RequestBytes units::BYTES, super::PAGE_BYTES..=1 << 30, "a size as \"512KiB\""
    /// Bytes a second.
    Rate units::RATES, 1..=1 << 50, "a bandwidth as \"1.25GB/s\""
    /// Simulated time.
    Duration units::MICROS, 1000..=DAY, "a time as \"60s\""
    /// Time between two things of a row.
    Period units::MICROS, 1000..=DAY, "a time as \"100ms\""
    /// Microseconds.
    Micros units::MICROS, 0..=DAY, "a time as \"200ms\""
    /// Nanoseconds.
    Nanos units::NANOS, 0..=1_000_000_000_000, "a time as \"20us\""
    /// Hundredths of a second.
    Centis units::CENTIS, 0..=360_000, "a time as \"30s\""
    /// Percent.
    Percent units::PERCENT, 0..=100, "percent as \"20%\""
    /// Parts of a million.
    Ppm units::PPM, 0..=1_000_000, "percent as \"1%\""
}

/// A time, or `"never"`.
pub(super) struct When;

impl Form for When {
    type Value = u64;
    const WHAT: &'static str = "a time as \"10s\", or \"never\"";
    fn read(v: &KdlValue, names: &Names) -> Result<u64, Bad> {
        if v.as_string() == Some("never") { Ok(NEVER) } else { Micros::read(v, names) }
    }
    fn write(n: &u64, names: &Names) -> String {
        if *n == NEVER { quote("never") } else { Micros::write(n, names) }
    }
}

/// A value that may be absent: `"none"`.
pub(super) struct Maybe<F>(PhantomData<F>);

impl<F: Form> Form for Maybe<F> {
    type Value = Option<F::Value>;
    const WHAT: &'static str = F::WHAT;
    fn read(v: &KdlValue, names: &Names) -> Result<Self::Value, Bad> {
        if v.as_string() == Some("none") { Ok(None) } else { F::read(v, names).map(Some) }
    }
    fn write(value: &Self::Value, names: &Names) -> String {
        value.as_ref().map_or_else(|| quote("none"), |v| F::write(v, names))
    }
}

/// A whole number within bounds.
pub(super) struct Whole<T, const MIN: u64, const MAX: u64>(PhantomData<T>);

impl<T: Copy + PartialEq + TryFrom<u64> + Into<u64>, const MIN: u64, const MAX: u64> Form for Whole<T, MIN, MAX> {
    type Value = T;
    const WHAT: &'static str = "a whole number";
    fn read(v: &KdlValue, _: &Names) -> Result<T, Bad> {
        let n = number(v)?;
        let value = T::try_from(n).ok().filter(|_| (MIN..=MAX).contains(&n));
        value.ok_or_else(|| Bad::new(format!("{n} is out of range")).help(format!("it may be {MIN} to {MAX}")))
    }
    fn write(n: &T, _: &Names) -> String {
        let n: u64 = (*n).into();
        n.to_string()
    }
}

/// `HZ`
pub(super) struct Hz;

impl Form for Hz {
    type Value = u32;
    const WHAT: &'static str = "100, 250, 300 or 1000";
    fn read(v: &KdlValue, _: &Names) -> Result<u32, Bad> {
        let n = number(v)?;
        match n {
            100 | 250 | 300 | 1000 => Ok(n as u32),
            _ => Err(Bad::new(format!("no kernel is built with HZ={n}")).help("HZ is 100, 250, 300 or 1000")),
        }
    }
    fn write(n: &u32, _: &Names) -> String {
        n.to_string()
    }
}

/// A boolean.
pub(super) struct Flag;

impl Form for Flag {
    type Value = bool;
    const WHAT: &'static str = "#true or #false";
    fn read(v: &KdlValue, _: &Names) -> Result<bool, Bad> {
        boolean(v)
    }
    fn write(b: &bool, _: &Names) -> String {
        if *b { "#true".into() } else { "#false".into() }
    }
}

/// A finite number.
pub(super) struct Real;

impl Form for Real {
    type Value = f64;
    const WHAT: &'static str = "a number";
    fn read(v: &KdlValue, _: &Names) -> Result<f64, Bad> {
        let x = match v {
            KdlValue::Integer(_) => number(v)? as f64,
            KdlValue::Float(x) => *x,
            _ => return Err(wrong(v, Self::WHAT)),
        };
        if x.is_finite() { Ok(x) } else { Err(Bad::new("a bound is finite")) }
    }
    fn write(x: &f64, _: &Names) -> String {
        format!("{x:?}")
    }
}

/// Any string.
pub(super) struct Text;

impl Form for Text {
    type Value = String;
    const WHAT: &'static str = "a string";
    fn read(v: &KdlValue, _: &Names) -> Result<String, Bad> {
        string(v, Self::WHAT)
    }
    fn write(s: &String, _: &Names) -> String {
        quote(s)
    }
}

/// Words for the values of a type without fields.
macro_rules! words {
    ($($(#[$m:meta])* $name:ident $ty:ident $what:literal { $($word:literal $value:ident,)* })*) => {$(
        $(#[$m])*
        pub(super) struct $name;
        impl Form for $name {
            type Value = $ty;
            const WHAT: &'static str = concat!($what, ":" $(, " ", $word)*);
            fn read(v: &KdlValue, _: &Names) -> Result<$ty, Bad> {
                match string(v, $what)?.as_str() {
                    $($word => Ok($ty::$value),)*
                    other => Err(Bad::new(format!(concat!("`{}` is not ", $what), other)).suggest(other, [$($word),*])),
                }
            }
            fn write(value: &$ty, _: &Names) -> String {
                quote(match value { $($ty::$value => $word),* })
            }
        }
    )*};
}

words! {
    /// When statistics are flushed.
    Flush FlushPolicy "a flush policy" {
        "ratelimited" Ratelimited, "always" Always, "always-forced" AlwaysForced, "by-pages-dirtied" ByPagesDirtied, "atomic-per-memcg" AtomicPerMemcg,
    }
    /// Which foreign flushes are sent.
    Foreign ForeignPolicy "a foreign flush policy" {
        "mainline" Mainline, "skip-bdev" SkipBdev, "one-in-flight" OneInFlight, "bdev-inode-targeted" BdevInodeTargeted,
    }
    /// Size of foreign flushes.
    Sizes Sizing "a sizing of foreign flushes" { "memcg" Memcg, "target-wb" TargetWb, }
    /// Freerun rule.
    Free Freerun "a freerun rule" { "and" And, "dirty-min" DirtyMin, }
    /// FUSE accounting.
    Fuse FuseAccounting "a FUSE accounting" { "new" New, "old" Old, }
    /// Hand-over of a dying wb's inodes.
    Clean Cleanup "a cleanup" { "rewalk" Rewalk, "resume" Resume, }
    /// What a disk does wrong.
    FaultWord FaultKind "a fault" { "error" Error, "stall" Stall, "torn" Torn, "lost-flush" LostFlush, "removal" Removal, }
    /// Where writes go.
    Where Pattern "a pattern" { "sequential" Sequential, "append" Append, "random" Random, }
}

/// Largest folio: `"none"`, `"cap-3"`, `"512-folios"`.
pub(super) struct Order;

impl Form for Order {
    type Value = OrderCap;
    const WHAT: &'static str = "an order cap: none 512-folios, or cap-0 to cap-9";
    fn read(v: &KdlValue, _: &Names) -> Result<OrderCap, Bad> {
        let s = string(v, "an order cap")?;
        match (s.as_str(), s.strip_prefix("cap-").and_then(|o| o.parse::<u32>().ok())) {
            ("none", _) => Ok(OrderCap::None),
            ("512-folios", _) => Ok(OrderCap::Folios512),
            (_, Some(o)) if o <= MAX_ORDER as u32 => Ok(OrderCap::Fixed(o)),
            (_, Some(o)) => Err(Bad::new(format!("order {o} is out of range")).help(format!("it may be 0 to {MAX_ORDER}"))),
            _ => Err(Bad::new(format!("`{s}` is not an order cap")).suggest(&s, ["none", "cap-0", "512-folios"])),
        }
    }
    fn write(cap: &OrderCap, _: &Names) -> String {
        quote(&match cap {
            OrderCap::None => "none".to_string(),
            OrderCap::Folios512 => "512-folios".to_string(),
            OrderCap::Fixed(o) => format!("cap-{o}"),
        })
    }
}

/// Largest order of a folio: 2 MiB.
pub(super) const MAX_ORDER: u64 = 9;

/// Lifetime rules by the name of a built-in rule set.
pub(super) struct Lookup;

impl Form for Lookup {
    type Value = Rules;
    const WHAT: &'static str = "a built-in rule set: mainline wb-list tree-until-release";
    fn read(v: &KdlValue, _: &Names) -> Result<Rules, Bad> {
        let s = string(v, "a built-in rule set")?;
        Rules::built_in(&s).ok_or_else(|| Bad::new(format!("no built-in rule set called `{s}`")).suggest(&s, Rules::BUILT_IN.iter().map(|b| b.0)))
    }
    fn write(rules: &Rules, _: &Names) -> String {
        quote(Rules::BUILT_IN.iter().find(|b| b.1 == *rules).map_or("", |b| b.0))
    }
}

/// Index of a name in a table.
fn find(v: &KdlValue, table: &[String], thing: &str, what: &str) -> Result<usize, Bad> {
    let s = string(v, what)?;
    let found = table.iter().position(|n| *n == s);
    found.ok_or_else(|| Bad::new(format!("no {thing} called `{s}`")).suggest(&s, table.iter().map(String::as_str)))
}

macro_rules! names {
    ($($(#[$m:meta])* $name:ident $table:ident $thing:literal)*) => {$(
        $(#[$m])*
        pub(super) struct $name;
        impl Form for $name {
            type Value = usize;
            const WHAT: &'static str = concat!("the name of a ", $thing);
            fn read(v: &KdlValue, names: &Names) -> Result<usize, Bad> {
                find(v, &names.$table, $thing, Self::WHAT)
            }
            fn write(i: &usize, names: &Names) -> String {
                quote(names.$table.get(*i).map_or("", String::as_str))
            }
        }
    )*};
}

names! {
    /// A memcg that is not the root.
    OfMemcg memcgs "memcg"
    /// A disk.
    OfDisk disks "disk"
    /// A file system.
    OfFs filesystems "file system"
    /// A file.
    OfFile files "file"
}

/// What the root memcg is called.
const ROOT: &str = "/";

/// A memcg, or the root.
pub(super) struct AnyMemcg;

impl Form for AnyMemcg {
    type Value = Option<usize>;
    const WHAT: &'static str = "the path of a memcg";
    fn read(v: &KdlValue, names: &Names) -> Result<Option<usize>, Bad> {
        if v.as_string() == Some(ROOT) { Ok(None) } else { OfMemcg::read(v, names).map(Some) }
    }
    fn write(m: &Option<usize>, names: &Names) -> String {
        m.map_or_else(|| quote(ROOT), |m| OfMemcg::write(&m, names))
    }
}

/// The owner of a file.
pub(super) struct OwnerName;

impl Form for OwnerName {
    type Value = Owner;
    const WHAT: &'static str = "the path of a memcg";
    fn read(v: &KdlValue, names: &Names) -> Result<Owner, Bad> {
        Ok(AnyMemcg::read(v, names)?.map_or(Owner::Root, Owner::Memcg))
    }
    fn write(o: &Owner, names: &Names) -> String {
        let memcg = match o {
            Owner::Root => None,
            Owner::Memcg(m) => Some(*m),
        };
        AnyMemcg::write(&memcg, names)
    }
}
