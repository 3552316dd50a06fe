//! Progress on stderr: a bar on a terminal, a line now and then if asked for, else nothing.

use crate::args::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::atomic::{AtomicU64, Ordering};

/// Shows how far a run is.
pub enum Meter {
    /// A bar.
    Bar(ProgressBar),
    /// Lines.
    Plain {
        /// Pieces of work in all.
        total: u64,
        /// Pieces done.
        done: AtomicU64,
    },
    /// Nothing.
    Silent,
}

impl Meter {
    /// A meter for `total` pieces of work.
    pub fn new(how: Progress, total: u64) -> Meter {
        let bar = || {
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
            Meter::Bar(ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr()).with_style(style))
        };
        match how {
            Progress::Bar => bar(),
            Progress::Auto if std::io::stderr().is_terminal() => bar(),
            Progress::Plain => Meter::Plain { total, done: AtomicU64::new(0) },
            Progress::Auto | Progress::None => Meter::Silent,
        }
    }

    /// A piece of work begins.
    pub fn begin(&self, what: &str) {
        if let Meter::Bar(b) = self {
            b.set_message(what.to_string());
        }
    }

    /// A piece of work is done.
    pub fn end(&self, what: &str) {
        match self {
            Meter::Bar(b) => b.inc(1),
            Meter::Plain { total, done } => {
                let n = done.fetch_add(1, Ordering::Relaxed) + 1;
                eprintln!("{n}/{total} {what}");
            }
            Meter::Silent => {}
        }
    }

    /// Runs `f`, which writes to stdout, without the bar in its way.
    pub fn aside<R>(&self, f: impl FnOnce() -> R) -> R {
        match self {
            Meter::Bar(b) => b.suspend(f),
            _ => f(),
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        if let Meter::Bar(b) = self {
            b.finish_and_clear();
        }
    }
}
