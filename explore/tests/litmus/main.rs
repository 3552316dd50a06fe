//! Litmus tests: exact outcome sets of small programs, one for each promise of the sync layer.

mod memory;
mod support;
