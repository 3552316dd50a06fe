//! What the text formats share: KDL documents within limits, errors with a place, nodes whose every entry is accounted for.
//!
//! Main types: [`TextError`], [`LoadError`]. Must not know what any of the formats means.

mod entries;
mod error;
mod file;

pub use error::{TextError, nearest};
pub use file::{LoadError, MAX_BLOCKS, MAX_TEXT, read_text};

pub(crate) use entries::{Entries, boolean, check_name, children, number, quote, string, wrong};
pub(crate) use error::Bad;
pub(crate) use file::{document, schema};

use std::fmt::Write;

/// A node whose block holds these lines; without a block when there are none.
pub(crate) fn block(out: &mut String, node: &str, lines: &[String]) {
    out.push_str(node);
    if !lines.is_empty() {
        out.push_str(" {\n");
        for l in lines {
            let _ = writeln!(out, "    {l}");
        }
        out.push('}');
    }
    out.push('\n');
}
