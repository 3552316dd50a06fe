//! A concurrent model of Linux cgroup writeback, written as kernel text on a checked memory.
//!
//! Reading order: [`sync`] (what a step is, and what memory, locks, RCU and work items mean), `linux` (the mirrored
//! kernel code), `world` (builds a machine and runs the operations of a case), `oracles` (what must hold).
//! Arrows point one way: `{oracles, world, cases} -> linux -> sync`. Nothing here prints, exits or reads a clock.

pub mod cases;
pub mod disk;
pub mod linux;
pub mod mutants;
pub mod oracles;
pub mod policy;
pub mod rules;
pub mod scenarios;
pub mod sim;
pub mod sync;
pub mod text;
pub mod vectors;
pub mod world;
