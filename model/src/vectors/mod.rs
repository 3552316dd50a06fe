//! Recorded inputs and results of the kernel's own arithmetic, recomputed by the mirrored functions.
//!
//! Main items: [`CHECKERS`], one row a file; [`check`]. A file is a table whose columns are known by name; every output column
//! of every row is computed from the inputs and compared. Nothing here knows a result, and a checker that compares nothing
//! cannot be written: its outputs are what the file's output columns are parsed into.
//!
//! Can miss: whatever no row reaches. Must not know: where files come from, and how results are shown.

mod cell;
mod limits;
mod rates;
mod rstat;
mod sequences;
mod table;
pub(crate) mod throttle;

#[cfg(test)]
mod tests;

pub use table::{Mismatch, Report, VectorError};

use crate::text::nearest;
use table::Checker;

/// The files that can be checked, by name.
pub const CHECKERS: &[Checker] = &[
    Checker::of::<throttle::Call>(),
    Checker::of::<throttle::Ratelimited>(),
    throttle::TRACE,
    Checker::of::<limits::RatioSet>(),
    Checker::of::<sequences::Foreign>(),
    Checker::of::<rates::PollInterval>(),
    Checker::of::<limits::DomainDirtyLimits>(),
    Checker::of::<sequences::Fprop>(),
    Checker::of::<limits::MemcgAvail>(),
    Checker::of::<rstat::Rstat>(),
    Checker::of::<rates::Polynom>(),
    Checker::of::<limits::UpdateDirtyLimit>(),
    Checker::of::<limits::CalcThresh>(),
    Checker::of::<rates::MaxPause>(),
    Checker::of::<rates::MinPause>(),
    Checker::of::<throttle::OverBgThresh>(),
    Checker::of::<rates::PositionRatio>(),
    Checker::of::<rates::SplitBdiPages>(),
    Checker::of::<rates::DirtyRatelimit>(),
    Checker::of::<rates::WriteBandwidth>(),
    Checker::of::<rates::ChunkSize>(),
];

/// A file to check: its name, without folders, and its bytes.
#[derive(Clone, Copy, Debug)]
pub struct File<'a> {
    /// Name, which says what is in it.
    pub name: &'a str,
    /// Contents.
    pub bytes: &'a [u8],
}

/// Checks files, in the order given.
///
/// # Errors
/// A name that is not in [`CHECKERS`], a file that is not the table it should be, or one that needs another that is not there.
/// Names are looked at first.
pub fn check(files: &[File<'_>]) -> Result<Vec<Report>, VectorError> {
    let checkers: Vec<&Checker> = files.iter().map(|f| checker(f.name)).collect::<Result<_, _>>()?;
    checkers.iter().map(|c| c.check(files)).collect()
}

fn checker(name: &str) -> Result<&'static Checker, VectorError> {
    CHECKERS.iter().find(|c| c.file == name).ok_or_else(|| {
        let known: Vec<&str> = CHECKERS.iter().map(|c| c.file).collect();
        let help = match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean {near}?"),
            None => format!("known are {}", known.join(", ")),
        };
        VectorError::of_file(name, "no such vectors are known", help)
    })
}
