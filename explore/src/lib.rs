//! Explores the executions of a modelled machine.
//!
//! Reading order: [`stepper`] (one execution), [`strategy`] (who decides), [`explore()`] (the loop around both), the sampling
//! [`schedulers`] and the exhaustive [`search`]es; then [`plan`] and [`verdict`] (a case under a rule set), [`replay`],
//! [`timeline`], [`finding`] (executions as text), [`shrink`] and [`workload`] (smaller ones). [`simulate`] stands beside all of it: scenarios,
//! their variants and seeds, and what their bands say.

mod decision;
mod explore;
pub mod finding;
pub mod plan;
pub mod replay;
pub mod schedulers;
pub mod search;
pub mod shrink;
pub mod shuttle;
pub mod simulate;
pub mod stepper;
pub mod strategy;
pub mod timeline;
pub mod trace;
pub mod verdict;
pub mod workload;

pub use decision::Decision;
pub use explore::{Budget, Execution, Search, Stats, drive, explore};
pub use schedulers::Scheduler;
