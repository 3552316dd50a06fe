//! JSON: one object a line.

use super::{RunEvent, Sink};
use std::io::{self, Write};

/// Writes each event as one line.
pub struct Json<W> {
    out: W,
}

impl<W: Write> Json<W> {
    /// Writes to `out`.
    pub fn new(out: W) -> Json<W> {
        Json { out }
    }
}

impl<W: Write> Sink for Json<W> {
    fn event(&mut self, e: &RunEvent) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, e)?;
        self.out.write_all(b"\n")?;
        self.out.flush()
    }
}
