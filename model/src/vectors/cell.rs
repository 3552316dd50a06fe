//! What stands in one cell of a table.

use std::fmt::Display;
use std::num::NonZeroU64;

/// A type of cell. Printing a value gives text that parses to it.
pub trait Cell: Sized + PartialEq + Display {
    /// The value, or what would be right.
    fn parse(text: &str) -> Result<Self, String>;
}

macro_rules! numbers {
    ($($t:ty: $what:literal;)*) => {
        $(impl Cell for $t {
            fn parse(text: &str) -> Result<Self, String> {
                text.parse().map_err(|_| format!(concat!($what, " from {} to {}"), <$t>::MIN, <$t>::MAX))
            }
        })*
    };
}

numbers! {
    i32: "a number";
    u32: "a number";
    i64: "a number";
    u64: "a number";
    NonZeroU64: "a number";
}

/// Types that are a number within bounds.
macro_rules! bounded {
    ($($(#[$doc:meta])* $name:ident($t:ty) = $low:expr, $high:expr;)*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $name(pub $t);

        impl Cell for $name {
            fn parse(text: &str) -> Result<Self, String> {
                text.parse().ok().filter(|n| ($low..=$high).contains(n)).map($name).ok_or_else(|| format!("a number from {} to {}", $low, $high))
            }
        }

        impl Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        })*
    };
}

bounded! {
    /// Ticks a second: what some architecture can be built with.
    Hz(u64) = 24, 1200;
    /// Number of CPUs: up to what x86 can be built for.
    Cpus(u32) = 1, 8192;
    /// Threshold in pages: the kernel keeps them within 32 bits.
    Threshold(u64) = 0, u64::from(u32::MAX);
    /// Pages a second: the largest number would make the kernel divide by zero.
    Rate(u64) = 0, u64::MAX - 1;
    /// Percent.
    Percent(u32) = 0, 100;
    /// Parts per million.
    Ppm(u32) = 0, 1_000_000;
    /// Sleeps until a task is killed: bounds a call that nothing else ends.
    Sleeps(u64) = 0, 10_000;
    /// 0 or 1.
    Flag(u32) = 0, 1;
}

impl Flag {
    /// Is it 1?
    pub fn is_set(self) -> bool {
        self.0 == 1
    }
}

impl From<bool> for Flag {
    fn from(b: bool) -> Flag {
        Flag(u32::from(b))
    }
}

/// Text that means nothing to the computation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Label(pub String);

impl Cell for Label {
    fn parse(text: &str) -> Result<Self, String> {
        Ok(Label(text.to_string()))
    }
}

impl Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// A type of cell that is one of a few words.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($variant:ident = $word:literal),* $(,)? })*) => {
        $($(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $name { $($variant),* }

        impl $crate::vectors::cell::Cell for $name {
            fn parse(text: &str) -> Result<Self, String> {
                match text {
                    $($word => Ok($name::$variant),)*
                    _ => Err([$($word),*].join(" or ")),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $($name::$variant => $word),* })
            }
        })*
    };
}

pub(super) use words;
