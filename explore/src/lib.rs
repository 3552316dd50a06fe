//! Explores the executions of a modelled machine.
//!
//! Reading order: [`stepper`] (one execution), [`strategy`] (who decides), then the schedulers and searches.

pub mod shuttle;
pub mod stepper;
pub mod strategy;
