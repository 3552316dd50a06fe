//! Scenarios: simulations with what they are expected to show, as KDL text and as a typed form.

mod ast;

pub use ast::{
    Action, Direct, Disk, DiskRef, Event, Expect, Fault, FaultKind, File, FileRef, Filesystem, FsRef, Machine, Memcg, MemcgRef, Owner, PAGE_BYTES, Pattern,
    SCHEMA, Scenario, StatReader, Variant, Writer,
};
