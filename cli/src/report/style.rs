//! Colours, or none.

use crate::args::When;
use std::io::IsTerminal;

/// Marks words for a terminal.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    on: bool,
}

impl Style {
    /// Without colours.
    #[cfg(test)]
    pub fn plain() -> Style {
        Style { on: false }
    }

    /// As `--color` says; `auto` wants a terminal and no `NO_COLOR`.
    pub fn pick(when: When) -> Style {
        let on = match when {
            When::Always => true,
            When::Never => false,
            When::Auto => std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
        };
        Style { on }
    }

    fn wrap(self, code: &str, s: &str) -> String {
        if self.on { format!("\x1b[{code}m{s}\x1b[0m") } else { s.to_string() }
    }

    /// Something is wrong.
    pub fn bad(self, s: &str) -> String {
        self.wrap("1;31", s)
    }
    /// Something is as it should be.
    pub fn good(self, s: &str) -> String {
        self.wrap("32", s)
    }
    /// Something deserves a look.
    pub fn note(self, s: &str) -> String {
        self.wrap("33", s)
    }
    /// A heading.
    pub fn head(self, s: &str) -> String {
        self.wrap("1", s)
    }
    /// Less important.
    pub fn dim(self, s: &str) -> String {
        self.wrap("2", s)
    }
}
