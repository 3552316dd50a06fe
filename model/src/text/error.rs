//! What is wrong with a file, and where.

use miette::{Diagnostic, NamedSource, SourceSpan};
use std::fmt;

/// A file that is not what it should be, with the place in its text.
#[derive(Debug, Diagnostic)]
#[diagnostic(code(wbcheck::file))]
pub struct TextError {
    /// What is wrong, in a sentence.
    pub message: String,
    #[source_code]
    src: NamedSource<String>,
    #[label("{label}")]
    span: Option<SourceSpan>,
    label: String,
    /// How to put it right, if that is known.
    #[help]
    pub help: Option<String>,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for TextError {}

impl TextError {
    /// Name of the file.
    pub fn file(&self) -> &str {
        self.src.name()
    }
    /// Line and column, both from 1 and the column in characters, of the place that is wrong.
    pub fn position(&self) -> Option<(usize, usize)> {
        let at = self.span?.offset();
        let before = self.src.inner().get(..at)?;
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().map_or(0, |l| l.chars().count()) + 1;
        Some((line, column))
    }
    /// The whole story on one line: `file:line:column: message; help`.
    pub fn one_line(&self) -> String {
        let at = self.position().map_or(String::new(), |(l, c)| format!(":{l}:{c}"));
        let help = self.help.as_ref().map_or(String::new(), |h| format!("; {h}"));
        format!("{}{at}: {}{help}", self.file(), self.message)
    }

    pub(crate) fn new(file: &str, text: &str, bad: Bad) -> TextError {
        // A span outside the text, or inside a character, would make reports of it fail.
        let clamp = |at: usize| {
            let mut at = at.min(text.len());
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            at
        };
        let span = bad.span.map(|(offset, len)| {
            let (a, b) = (clamp(offset), clamp(offset.saturating_add(len)));
            SourceSpan::new(a.into(), b - a)
        });
        TextError { message: bad.message, src: NamedSource::new(file, text.to_owned()), span, label: bad.label, help: bad.help }
    }
}

/// An error before it is tied to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bad {
    pub span: Option<(usize, usize)>,
    pub message: String,
    pub label: String,
    pub help: Option<String>,
}

impl Bad {
    pub fn new(message: impl Into<String>) -> Bad {
        Bad { span: None, message: message.into(), label: "here".into(), help: None }
    }
    pub fn at(mut self, span: SourceSpan) -> Bad {
        self.span = Some((span.offset(), span.len()));
        self
    }
    pub fn label(mut self, label: impl Into<String>) -> Bad {
        self.label = label.into();
        self
    }
    pub fn help(mut self, help: impl Into<String>) -> Bad {
        self.help = Some(help.into());
        self
    }
    /// Suggests the candidate nearest to what was written, or names them all if they are few.
    pub fn suggest<'a>(self, wrote: &str, candidates: impl IntoIterator<Item = &'a str>) -> Bad {
        let all: Vec<&str> = candidates.into_iter().collect();
        match nearest(wrote, all.iter().copied()) {
            Some(c) => self.help(format!("did you mean `{c}`?")),
            None if all.is_empty() => self,
            None if all.len() <= 8 => {
                let list: Vec<String> = all.iter().map(|c| format!("`{c}`")).collect();
                self.help(format!("there is {}", list.join(", ")))
            }
            None => self,
        }
    }
}

/// The candidate that a name is most likely meant to be, for the help line of an error; `None` if none is close.
pub fn nearest<'a>(wrote: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = candidates.into_iter().map(|c| (distance(wrote, c), c)).min();
    near.filter(|(d, c)| *d * 2 <= c.chars().count().max(2)).map(|n| n.1)
}

/// Edits that turn one word into the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().take(64).collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().take(64).enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = change.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested() {
        assert_eq!(Bad::new("x").suggest("f2", ["f1", "log"]).help.as_deref(), Some("did you mean `f1`?"));
        assert_eq!(Bad::new("x").suggest("umonut", ["umount", "unplug"]).help.as_deref(), Some("did you mean `umount`?"));
        assert_eq!(Bad::new("x").suggest("zzzzzz", ["umount"]).help.as_deref(), Some("there is `umount`"));
        assert_eq!(Bad::new("x").suggest("zzzzzz", []).help, None);
    }
}
