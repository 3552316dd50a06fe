//! Errors of the user's or the machine's making: one clear message, where, and what to do about it.

use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, LabeledSpan, NamedSource, Severity, SourceCode, SourceSpan};
use std::fmt;
use std::io::{IsTerminal, Read};
use std::path::Path;
use wbmodel::cases::Span;
use wbmodel::text::{LoadError, MAX_TEXT, TextError, nearest};

/// An error that ends the run with exit code 2.
#[derive(Debug)]
pub enum Problem {
    /// A file is not what it should be, with the place in its text.
    File(Box<TextError>),
    /// Anything else.
    Other(Box<Message>),
}

/// A message, its place in a file if it has one, and what to do.
#[derive(Debug)]
pub struct Message {
    message: String,
    help: Option<String>,
    place: Option<(NamedSource<String>, SourceSpan)>,
}

impl Problem {
    /// A problem without a place.
    pub fn new(message: impl Into<String>, help: impl Into<String>) -> Problem {
        Problem::Other(Box::new(Message { message: message.into(), help: Some(help.into()), place: None }))
    }

    /// A problem at a place in a file.
    pub fn at(message: impl Into<String>, help: impl Into<String>, file: &str, text: &str, span: Span) -> Problem {
        let floor = |i: usize| (0..=i.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
        let (from, to) = (floor(span.offset), floor(span.offset.saturating_add(span.len)));
        let place = (NamedSource::new(file, text.to_string()), SourceSpan::new(from.into(), to.saturating_sub(from)));
        Problem::Other(Box::new(Message { message: message.into(), help: Some(help.into()), place: Some(place) }))
    }

    /// A name that is not among the candidates; suggests the nearest.
    pub fn unknown<'a>(what: &str, name: &str, candidates: impl IntoIterator<Item = &'a str>, list: &str) -> Problem {
        let help = match nearest(name, candidates) {
            Some(c) => format!("did you mean `{c}`? `wbcheck list {list}` shows all"),
            None => format!("`wbcheck list {list}` shows what there is"),
        };
        Problem::new(format!("no {what} called `{name}`"), help)
    }

    /// Writes it to stderr.
    pub fn print(&self) {
        let theme = if std::io::stderr().is_terminal() { GraphicalTheme::unicode() } else { GraphicalTheme::unicode_nocolor() };
        let handler = GraphicalReportHandler::new_themed(theme).with_width(120);
        let mut text = String::new();
        let diagnostic: &dyn Diagnostic = match self {
            Problem::File(e) => &**e,
            Problem::Other(m) => &**m,
        };
        if handler.render_report(&mut text, diagnostic).is_err() {
            text = format!("error: {diagnostic}\n");
        }
        // The report's own heading (a code, a cross) is replaced by ours.
        let text = text.trim_start();
        let text = text.strip_prefix("wbcheck::file").unwrap_or(text).trim_start();
        // Without a place in the text, the report would not name the file either.
        let file = match self {
            Problem::File(e) if e.position().is_none() => format!("{}:1:1: ", e.file()),
            _ => String::new(),
        };
        eprint!("error: {file}{}", text.strip_prefix("× ").unwrap_or(text));
        if diagnostic.help().is_none() {
            eprintln!("  help: the format is KDL, as in corpus/cases and corpus/rules; `wbcheck list` names what it may refer to");
        }
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Message {}

impl Diagnostic for Message {
    fn severity(&self) -> Option<Severity> {
        Some(Severity::Error)
    }
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.help.as_ref().map(|h| Box::new(h) as Box<dyn fmt::Display>)
    }
    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.place.as_ref().map(|p| &p.0 as &dyn SourceCode)
    }
    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let label = LabeledSpan::new_with_span(Some("here".into()), self.place.as_ref()?.1);
        Some(Box::new(std::iter::once(label)))
    }
}

impl From<LoadError> for Problem {
    fn from(e: LoadError) -> Problem {
        match e {
            LoadError::Io { path, error } => {
                let help = match error.kind() {
                    std::io::ErrorKind::NotFound => "`wbcheck list cases` and `wbcheck list rules` show the built-in names; a file is given by its path",
                    _ => "the file must be readable text",
                };
                Problem::new(format!("{path}: {error}"), help)
            }
            LoadError::NotText { path, offset } => {
                let (line, column) = line_of(Path::new(&path), offset);
                Problem::new(format!("{path}:{line}:{column}: not UTF-8 text (byte {offset})"), "cases, findings and rule sets are KDL text in UTF-8")
            }
            LoadError::TooBig { path } => {
                Problem::new(format!("{path}:1:1: the file is larger than {MAX_TEXT} bytes"), "a case, finding or rule set is some kilobytes of KDL text")
            }
            LoadError::Text(e) => Problem::File(e),
        }
    }
}

/// Line and column of a byte of a file, from 1.
fn line_of(path: &Path, offset: usize) -> (usize, usize) {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path).and_then(|f| f.take(offset as u64).read_to_end(&mut bytes));
    if read.is_err() {
        return (1, 1);
    }
    let line = bytes.iter().filter(|b| **b == b'\n').count() + 1;
    let start = bytes.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1);
    (line, String::from_utf8_lossy(&bytes[start..]).chars().count() + 1)
}
