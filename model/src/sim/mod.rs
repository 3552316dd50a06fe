//! Simulation: writers, throttling, flushers and a modelled disk in virtual time.

mod output;

pub use output::{METRICS, Metric, Of, Output, Sample, Unit, WriterOutput, metric};
