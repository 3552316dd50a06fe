//! From a path or a text to a KDL document, with every way in which that can fail told apart.

use super::entries::{Entries, number};
use super::error::{Bad, TextError};
use kdl::{KdlDocument, KdlNode};
use std::fmt;
use std::io::Read;
use std::path::Path;

/// Largest file, in bytes.
pub const MAX_TEXT: usize = 1 << 20;
/// Blocks (`{`) and comments (`/*`) of a file at most.
pub const MAX_BLOCKS: usize = 256;

/// A file that could not be read as what it should be.
#[derive(Debug)]
pub enum LoadError {
    /// The file system says no.
    Io {
        /// Path.
        path: String,
        /// Why.
        error: std::io::Error,
    },
    /// Its bytes are not text.
    NotText {
        /// Path.
        path: String,
        /// Offset of the first byte that is not UTF-8.
        offset: usize,
    },
    /// It is too big to be read.
    TooBig {
        /// Path.
        path: String,
    },
    /// Its text is not what it should be.
    Text(Box<TextError>),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Io { path, error } => write!(f, "{path}: {error}"),
            LoadError::NotText { path, offset } => write!(f, "{path}: not UTF-8 text (byte {offset})"),
            LoadError::TooBig { path } => write!(f, "{path}: larger than {MAX_TEXT} bytes"),
            LoadError::Text(e) => f.write_str(&e.one_line()),
        }
    }
}

impl std::error::Error for LoadError {}

impl From<TextError> for LoadError {
    fn from(e: TextError) -> LoadError {
        LoadError::Text(Box::new(e))
    }
}

/// Reads a file as text of at most [`MAX_TEXT`] bytes.
pub fn read_text(path: &Path) -> Result<String, LoadError> {
    let name = || path.display().to_string();
    let io = |error| LoadError::Io { path: name(), error };
    let mut bytes = Vec::new();
    std::fs::File::open(path).map_err(io)?.take(MAX_TEXT as u64 + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() > MAX_TEXT {
        return Err(LoadError::TooBig { path: name() });
    }
    String::from_utf8(bytes).map_err(|e| LoadError::NotText { path: name(), offset: e.utf8_error().valid_up_to() })
}

/// Parses text as KDL within the limits.
pub(crate) fn document(text: &str) -> Result<KdlDocument, Bad> {
    if text.len() > MAX_TEXT {
        return Err(Bad::new(format!("the text is larger than {MAX_TEXT} bytes")));
    }
    // The KDL parser recurses on nesting. Their number bounds their depth, whatever strings and comments hold.
    let opens = |i: &usize| text[*i..].starts_with('{') || text[*i..].starts_with("/*");
    if let Some(i) = (0..text.len()).filter(|i| text.is_char_boundary(*i)).filter(opens).nth(MAX_BLOCKS) {
        let mut bad = Bad::new(format!("more than {MAX_BLOCKS} blocks and comments in one file"));
        bad.span = Some((i, 1));
        return Err(bad);
    }
    KdlDocument::parse_v2(text).map_err(|e| match e.diagnostics.into_iter().next() {
        Some(d) => {
            let mut bad = Bad::new(d.message.unwrap_or_else(|| "this is not KDL".into())).at(d.span);
            bad.help = d.help;
            if let Some(l) = d.label {
                bad.label = l;
            }
            bad
        }
        None => Bad::new("this is not KDL"),
    })
}

/// The nodes of a document whose `schema` node says a version that this program understands; `what` is what the file holds.
pub(crate) fn schema(nodes: &[KdlNode], newest: u32, what: &str) -> Result<(), Bad> {
    let Some(n) = nodes.iter().find(|n| n.name().value() == "schema") else {
        return Err(Bad::new("the file does not say which schema it follows").help(format!("the first line of a {what} is: schema {newest}")));
    };
    let mut entries = Entries::new(n);
    let e = entries.arg("a whole number")?;
    let version = number(e.value()).map_err(|b| b.at(e.span()))?;
    entries.done(&[])?;
    if version > u64::from(newest) {
        return Err(Bad::new(format!("schema {version} is newer than this program understands ({newest})")).at(n.span()).help("use a newer wbcheck"));
    }
    if version == 0 {
        return Err(Bad::new("there is no schema 0").at(n.span()));
    }
    Ok(())
}
