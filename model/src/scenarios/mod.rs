//! Scenarios: simulations with what they are expected to show, as KDL text and as a typed form.
//!
//! Main type: [`Scenario`]. Main functions: [`parse`], [`print`], [`load`], [`Scenario::with`]; `parse(print(s)) == s`.
//! Contract: a parsed scenario is well formed: every name is resolved, amounts have units and are within limits, each variant
//! has been tried, each expectation names a variant and a metric. Bad input is an error with a place in the text, never a panic.
//! Must not know: how anything is simulated.
//!
//! ```text
//! schema 1
//! scenario "overshoot" duration="60s" seeds=20 { about "..."; source "..." }
//! machine memory="250GB" cpus=64
//! policy flush="always" foreign="skip-bdev" sizing="target-wb" order="cap-3" lookup="wb-list"
//! memcg "job" max="8GB"
//! disk "nvme" write="1.25GB/s" queue=64 request="512KiB" { cap "job" rate="1GB/s"; fault "glitch" kind="stall" at="5s" for="1s" }
//! fs "data" disk="nvme" order=9
//! file "out" fs="data" size="16GB"
//! writer "fio" memcg="job" file="out" block="1MiB" copy="3GB/s"
//! direct "fg" disk="nvme" block="1MiB" depth=32 total="16GiB" start="8s"
//! stat-reader "top" memcg="job" every="100ms" start="never"
//! event "shrink" at="30s" do="set-max" memcg="job" max="4GB"
//! variant "mainline"
//! variant "watched" { set "stat-reader.top.start" "0s" }
//! expect "mainline" "peak_over_limit" low=2.0 high=3.1 seed="about 2x, to 5 GB of 1.6"
//! expect "watched" "fio.max_stall_ms" high=500.0 relative-to="mainline"
//! ```

mod ast;
mod edit;
mod form;
mod nodes;
mod parse;
mod print;
#[cfg(test)]
mod tests;
mod units;

pub use ast::{
    Action, BASE, Cap, Direct, Disk, DiskRef, Event, Expect, Fault, FaultKind, File, FileRef, Filesystem, FsRef, Machine, Memcg, MemcgRef, NEVER, Owner,
    PAGE_BYTES, Pattern, SCHEMA, Scenario, StatReader, Variant, Writer,
};
pub use edit::EditError;
pub use nodes::KINDS;
pub use parse::{load, parse};
pub use print::print;
