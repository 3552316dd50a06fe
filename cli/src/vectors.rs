//! `wbcheck vectors`: recomputes recorded results of the kernel's arithmetic.

use crate::args;
use crate::corpus;
use crate::exit::Exit;
use crate::problem::Problem;
use crate::report::{Difference, RunEvent, Sink, Summary, VectorLine};
use crate::run::{self, Clock, Early, say};
use std::path::Path;
use wbmodel::vectors::{self, File, Report, VectorError};

/// Runs the verb.
pub fn run(a: &args::Vectors, sink: &mut dyn Sink) -> Result<Exit, Early> {
    let clock = Clock::start(&a.out);
    let files = match &a.dir {
        Some(dir) => folder(dir)?,
        None => corpus::vectors().map(|(name, bytes)| (name.to_string(), bytes.to_vec())).collect(),
    };
    let files: Vec<File> = files.iter().map(|(name, bytes)| File { name, bytes }).collect();
    // Nothing is said before all names are known to be right.
    let reports = vectors::check(&files).map_err(|e| problem(a.dir.as_deref(), &e))?;
    say(sink, run::header("vectors", None, Vec::new(), 0))?;
    let (rows, bad) = reports.iter().fold((0, 0), |n, r| (n.0 + r.rows, n.1 + r.mismatches));
    let exit = match (files.len(), bad) {
        (0, _) => Exit::Vacuous,
        (_, 0) => Exit::AsDeclared,
        _ => Exit::Failed,
    };
    for r in reports {
        say(sink, RunEvent::Vector(line(r)))?;
    }
    let summary = Summary {
        ok: exit == Exit::AsDeclared,
        exit: exit.code(),
        done: files.len() as u64,
        selected: files.len() as u64,
        as_declared: rows - bad,
        undeclared: bad,
        seconds: clock.seconds(),
        ..Summary::default()
    };
    say(sink, RunEvent::Summary(summary))?;
    Ok(exit)
}

fn line(r: Report) -> VectorLine {
    let difference = |m: vectors::Mismatch| Difference { line: m.line, column: m.column, expected: m.expected, computed: m.computed };
    VectorLine { file: r.file, rows: r.rows, mismatches: r.mismatches, first: r.first.into_iter().map(difference).collect() }
}

/// The CSV files of a folder by name, in order.
fn folder(dir: &Path) -> Result<Vec<(String, Vec<u8>)>, Problem> {
    let unreadable = |path: &Path, e: std::io::Error| Problem::new(format!("{}: {e}", path.display()), "--dir names a folder of CSV files that can be read");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(|e| unreadable(dir, e))? {
        let path = entry.map_err(|e| unreadable(dir, e))?.path();
        if path.extension().is_some_and(|x| x == "csv") {
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            files.push((name, std::fs::read(&path).map_err(|e| unreadable(&path, e))?));
        }
    }
    files.sort();
    Ok(files)
}

fn problem(dir: Option<&Path>, e: &VectorError) -> Problem {
    let dir = dir.map_or("corpus/vectors".to_string(), |d| d.display().to_string());
    Problem::new(format!("{dir}/{e}"), e.help.clone())
}
