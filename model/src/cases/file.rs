//! From a path or a text to a KDL document, with every way in which that can fail told apart.

use super::ast::Case;
use super::error::{Bad, CaseError};
use super::limits::{MAX_BLOCKS, MAX_TEXT};
use kdl::KdlDocument;
use std::fmt;
use std::io::Read;
use std::path::Path;

/// A file that could not be read as a case.
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
    /// Its text is not a case.
    Case(Box<CaseError>),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Io { path, error } => write!(f, "{path}: {error}"),
            LoadError::NotText { path, offset } => write!(f, "{path}: not UTF-8 text (byte {offset})"),
            LoadError::TooBig { path } => write!(f, "{path}: larger than {MAX_TEXT} bytes"),
            LoadError::Case(e) => f.write_str(&e.one_line()),
        }
    }
}

impl std::error::Error for LoadError {}

impl From<CaseError> for LoadError {
    fn from(e: CaseError) -> LoadError {
        LoadError::Case(Box::new(e))
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

/// Reads and parses the case in a file.
pub fn load(path: &Path) -> Result<Case, LoadError> {
    let text = read_text(path)?;
    Ok(super::parse(&path.display().to_string(), &text)?)
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
