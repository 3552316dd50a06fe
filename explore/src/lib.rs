//! Explores the executions of a modelled machine.
//!
//! Reading order: [`stepper`] (one execution), [`strategy`] (who decides), [`explore()`] (the loop around both), then the
//! sampling [`schedulers`] and the exhaustive [`search`]es.

mod decision;
mod explore;
pub mod schedulers;
pub mod search;
pub mod shuttle;
pub mod stepper;
pub mod strategy;
pub mod trace;

pub use decision::Decision;
pub use explore::{Budget, Execution, Search, Stats, drive, explore};
pub use schedulers::Scheduler;
