//! Reading a table, computing its outputs and comparing them.

use super::File;
use std::fmt;

/// Columns of a table as a typed value; see [`columns!`].
pub trait Columns: Sized {
    /// Names, in the order of the fields.
    const NAMES: &'static [&'static str];
    /// Parses cells, given in the order of the names. The error is the index of the cell and what would be right.
    fn parse(cells: &[&str]) -> Result<Self, (usize, String)>;
    /// Calls `differ` with the column and both texts for each field that is not the same in `computed`.
    fn compare(&self, computed: &Self, differ: impl FnMut(&'static str, String, String));
}

/// Name of a column: that of the field, unless another is given.
macro_rules! column_name {
    ($column:ident) => {
        stringify!($column)
    };
    ($column:ident $name:literal) => {
        $name
    };
}

/// Declares a struct whose fields are the columns of those names.
macro_rules! columns {
    ($($(#[$doc:meta])* $name:ident { $($column:ident $(as $other:literal)?: $t:ty),* $(,)? })*) => {
        $($(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name { $(pub $column: $t),* }

        impl $crate::vectors::table::Columns for $name {
            const NAMES: &'static [&'static str] = &[$($crate::vectors::table::column_name!($column $($other)?)),*];
            fn parse(cells: &[&str]) -> Result<Self, (usize, String)> {
                let mut cells = cells.iter().enumerate();
                $(let $column = match cells.next() {
                    Some((i, text)) => <$t as $crate::vectors::cell::Cell>::parse(text).map_err(|what| (i, what))?,
                    None => return Err((0, "a row".to_string())),
                };)*
                Ok($name { $($column),* })
            }
            fn compare(&self, computed: &Self, mut differ: impl FnMut(&'static str, String, String)) {
                $(if self.$column != computed.$column {
                    differ($crate::vectors::table::column_name!($column $($other)?), self.$column.to_string(), computed.$column.to_string());
                })*
            }
        })*
    };
}

pub(super) use {column_name, columns};

/// A file of vectors: what its columns mean, and the computation behind them.
pub trait Vectors {
    /// Name of the file.
    const FILE: &'static str;
    /// Columns that go in.
    type In: Columns;
    /// Columns that must come out.
    type Out: Columns;
    /// What one row leaves for the next; `()` where rows stand alone.
    type State: Default;
    /// Computes a row. The error names a column of the inputs and what would be right there.
    fn step(state: &mut Self::State, input: &Self::In) -> Result<Self::Out, Unfit>;
}

/// An input column outside of what the computation, or the sequence that it stands in, is about; and what would be right.
pub type Unfit = (&'static str, String);

/// A row of the table of checkers.
pub struct Checker {
    /// Name of the file.
    pub file: &'static str,
    /// Columns that are compared.
    pub outputs: &'static [&'static str],
    pub(super) run: fn(&[File<'_>]) -> Result<Report, VectorError>,
}

impl Checker {
    /// The checker of a file whose rows need nothing else.
    pub(super) const fn of<V: Vectors>() -> Checker {
        Checker { file: V::FILE, outputs: V::Out::NAMES, run: |files| run::<V>(files) }
    }

    /// Checks the file, which is among `files`.
    ///
    /// # Errors
    /// As [`super::check`]; also for a file without rows, which would be a check that cannot fail.
    pub fn check(&self, files: &[File<'_>]) -> Result<Report, VectorError> {
        let report = (self.run)(files)?;
        if report.rows == 0 {
            return Err(VectorError::of_file(self.file, "there is no row after the first", "a file without rows checks nothing"));
        }
        Ok(report)
    }
}

/// Result of one file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// Its name.
    pub file: &'static str,
    /// Rows.
    pub rows: u64,
    /// Rows that differ in any output.
    pub mismatches: u64,
    /// The first differences.
    pub first: Vec<Mismatch>,
}

/// A difference.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// Line of the file, from 1; 0 if it should be there and is not.
    pub line: u64,
    /// Column.
    pub column: &'static str,
    /// What the file says.
    pub expected: String,
    /// What was computed.
    pub computed: String,
}

/// Differences that are kept for each file.
const SHOWN: usize = 8;

impl Report {
    pub(super) fn new(file: &'static str) -> Report {
        Report { file, rows: 0, mismatches: 0, first: Vec::new() }
    }

    /// Counts a row and its differences.
    pub(super) fn row<C: Columns>(&mut self, line: u64, expected: &C, computed: &C) {
        self.rows += 1;
        let mut same = true;
        expected.compare(computed, |column, expected, computed| {
            same = false;
            self.keep(Mismatch { line, column, expected, computed });
        });
        self.mismatches += u64::from(!same);
    }

    /// Counts a row that was not computed, or a result that is no row, as a difference; line 0 is the end of the file.
    pub(super) fn lacks(&mut self, line: u64, column: &'static str, expected: String, computed: String) {
        self.rows += 1;
        self.mismatches += 1;
        self.keep(Mismatch { line, column, expected, computed });
    }

    /// Keeps a difference, if it is one of the first.
    fn keep(&mut self, m: Mismatch) {
        if self.first.len() < SHOWN {
            self.first.push(m);
        }
    }
}

/// A file that is not a table of vectors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VectorError {
    /// File.
    pub file: String,
    /// Line, from 1, if it is one.
    pub line: Option<u64>,
    /// Column by name, if it is one.
    pub column: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub help: String,
}

impl VectorError {
    /// About the file as a whole.
    pub(super) fn of_file(file: &str, message: impl Into<String>, help: impl Into<String>) -> VectorError {
        VectorError { file: file.to_string(), line: None, column: None, message: message.into(), help: help.into() }
    }

    fn at_line(self, line: u64) -> VectorError {
        VectorError { line: Some(line), ..self }
    }

    fn at_column(self, column: &str) -> VectorError {
        VectorError { column: Some(column.to_string()), ..self }
    }
}

impl fmt::Display for VectorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": ")?;
        if let Some(column) = &self.column {
            write!(f, "column {column}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for VectorError {}

/// A file being read: its rows, and where the wanted columns are in them.
pub(super) struct Table<'a> {
    file: &'static str,
    reader: csv::Reader<&'a [u8]>,
    record: csv::StringRecord,
    line: u64,
    /// For each wanted column its index in the file.
    places: Vec<usize>,
}

impl<'a> Table<'a> {
    /// Opens the file of that name among `files`; its columns must be those wanted, in any order.
    pub fn open(files: &[File<'a>], file: &'static str, wanted: &[&'static [&'static str]]) -> Result<Table<'a>, VectorError> {
        let Some(found) = files.iter().find(|f| f.name == file) else {
            return Err(VectorError::of_file(file, "this file is needed as well", "it holds the inputs of a file that is to be checked"));
        };
        let wanted: Vec<&str> = wanted.iter().flat_map(|w| w.iter().copied()).collect();
        let mut reader = csv::Reader::from_reader(found.bytes);
        let names = reader.headers().map_err(|e| unreadable(file, &e))?.clone();
        if names.is_empty() {
            return Err(VectorError::of_file(file, "the file is empty", format!("its first line is {}", wanted.join(","))));
        }
        if let Some(name) = names.iter().enumerate().find(|(i, n)| names.iter().skip(i + 1).any(|m| m == *n)).map(|n| n.1) {
            return Err(VectorError::of_file(file, "there are two columns of that name", "each column stands once").at_line(1).at_column(name));
        }
        if let Some(name) = names.iter().find(|n| !wanted.contains(n)) {
            return Err(VectorError::of_file(file, "no such column is known", format!("columns are {}", wanted.join(","))).at_line(1).at_column(name));
        }
        let places = wanted.iter().map(|w| {
            let missing = || VectorError::of_file(file, "the column is missing", format!("columns are {}", wanted.join(","))).at_line(1).at_column(w);
            names.iter().position(|n| n == *w).ok_or_else(missing)
        });
        let places = places.collect::<Result<_, _>>()?;
        if found.bytes.last() != Some(&b'\n') {
            let line = found.bytes.iter().filter(|b| **b == b'\n').count() as u64 + 1;
            return Err(VectorError::of_file(file, "the last line has no end", "the file may have been cut short").at_line(line));
        }
        Ok(Table { file, reader, record: csv::StringRecord::new(), line: 1, places })
    }

    /// The next row, as two groups of columns.
    pub fn next<A: Columns, B: Columns>(&mut self) -> Result<Option<(u64, A, B)>, VectorError> {
        if !self.reader.read_record(&mut self.record).map_err(|e| unreadable(self.file, &e))? {
            return Ok(None);
        }
        self.line = self.record.position().map_or(self.line + 1, csv::Position::line);
        let cells: Vec<&str> = self.places.iter().map(|i| self.record.get(*i).unwrap_or_default()).collect();
        let (a, b) = cells.split_at(A::NAMES.len().min(cells.len()));
        let bad = |cells: &[&str], names: &[&str], (i, what): (usize, String)| {
            let (text, name) = (cells.get(i).copied().unwrap_or_default(), names.get(i).copied().unwrap_or_default());
            VectorError::of_file(self.file, format!("`{}` is not right", shortened(text)), format!("here stands {what}")).at_line(self.line).at_column(name)
        };
        Ok(Some((self.line, A::parse(a).map_err(|e| bad(a, A::NAMES, e))?, B::parse(b).map_err(|e| bad(b, B::NAMES, e))?)))
    }

    /// An error about an input of the row that was read last.
    pub fn unfit(&self, (column, what): Unfit) -> VectorError {
        VectorError::of_file(self.file, "the value does not fit", what).at_line(self.line).at_column(column)
    }
}

/// The beginning of a text, for messages.
fn shortened(text: &str) -> String {
    if text.chars().count() <= 40 { text.to_string() } else { text.chars().take(40).chain("...".chars()).collect() }
}

/// What the reader of tables has against a file.
fn unreadable(file: &str, e: &csv::Error) -> VectorError {
    let (message, help) = match e.kind() {
        csv::ErrorKind::Utf8 { .. } => ("this is not UTF-8 text".to_string(), "vectors are numbers and words, separated by commas"),
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
            (format!("the row has {len} cells and not {expected_len}"), "the file may have been cut short, or a comma is missing")
        }
        _ => (e.to_string(), "vectors are numbers and words, separated by commas"),
    };
    let error = VectorError::of_file(file, message, help);
    match e.position() {
        Some(p) => error.at_line(p.line()),
        None => error,
    }
}

/// Checks a file whose rows need nothing else.
fn run<V: Vectors>(files: &[File<'_>]) -> Result<Report, VectorError> {
    let mut table = Table::open(files, V::FILE, &[V::In::NAMES, V::Out::NAMES])?;
    let mut report = Report::new(V::FILE);
    let mut state = V::State::default();
    while let Some((line, input, expected)) = table.next::<V::In, V::Out>()? {
        let computed = V::step(&mut state, &input).map_err(|e| table.unfit(e))?;
        report.row(line, &expected, &computed);
    }
    Ok(report)
}
