//! Time series of a run as files: samples as CSV, everything as JSON.

use crate::problem::Problem;
use crate::run;
use serde::Serialize;
use std::path::Path;
use wbmodel::scenarios::Scenario;
use wbmodel::sim::{Output, Sample};

/// One sample; the fields of [`Sample`], in pages unless the name says otherwise.
#[derive(Serialize)]
struct Row {
    at_us: u64,
    dirty_pages: u64,
    writeback_pages: u64,
    limit_pages: u64,
    freerun_pages: u64,
    memcg_dirty_pages: u64,
    memcg_dirty_read_pages: u64,
    memcg_limit_pages: u64,
    memcg_freerun_pages: u64,
    device_bytes: u64,
}

impl From<&Sample> for Row {
    fn from(s: &Sample) -> Row {
        Row {
            at_us: s.at_us,
            dirty_pages: s.dirty,
            writeback_pages: s.writeback,
            limit_pages: s.limit,
            freerun_pages: s.freerun,
            memcg_dirty_pages: s.memcg_dirty,
            memcg_dirty_read_pages: s.memcg_dirty_read,
            memcg_limit_pages: s.memcg_limit,
            memcg_freerun_pages: s.memcg_freerun,
            device_bytes: s.device_bytes,
        }
    }
}

/// A flusher's pass.
#[derive(Serialize)]
struct Pass {
    start_us: u64,
    end_us: u64,
    pages: u64,
    reason: &'static str,
}

/// What one task saw.
#[derive(Serialize)]
struct Task<'a> {
    name: &'a str,
    /// Greatest lag in each second.
    lag_ms: &'a [f64],
    /// (start, length)
    pauses_us: &'a [(u64, u64)],
    latencies_us: &'a [u64],
}

#[derive(Serialize)]
struct Series<'a> {
    scenario: &'a str,
    samples: Vec<Row>,
    tasks: Vec<Task<'a>>,
    passes: Vec<Pass>,
    root_flushes_us: &'a [u64],
}

/// Names of the tasks of an output, in its order.
pub fn tasks(scenario: &Scenario) -> impl Iterator<Item = &str> {
    scenario.writers.iter().map(|w| w.name.as_str()).chain(scenario.direct.iter().map(|d| d.name.as_str()))
}

/// Writes `name.csv` and `name.json` into a folder.
pub fn write(dir: &Path, name: &str, scenario: &Scenario, output: &Output) -> Result<(), Problem> {
    let broken = |e: &dyn std::fmt::Display| Problem::new(format!("{name}: {e}"), "--series DIR names a folder that can be written");
    let mut csv = csv::Writer::from_writer(Vec::new());
    for s in &output.samples {
        csv.serialize(Row::from(s)).map_err(|e| broken(&e))?;
    }
    let bytes = csv.into_inner().map_err(|e| broken(&e))?;
    run::write_into(dir, &format!("{name}.csv"), &String::from_utf8_lossy(&bytes), "--series")?;
    let series = Series {
        scenario: &scenario.name,
        samples: output.samples.iter().map(Row::from).collect(),
        tasks: tasks(scenario)
            .zip(&output.writers)
            .map(|(name, w)| Task { name, lag_ms: &w.lag_ms, pauses_us: &w.pauses, latencies_us: &w.latencies_us })
            .collect(),
        passes: output.passes.iter().map(|&(start_us, end_us, pages, reason)| Pass { start_us, end_us, pages, reason }).collect(),
        root_flushes_us: &output.root_flushes,
    };
    let text = serde_json::to_string(&series).map_err(|e| broken(&e))?;
    run::write_into(dir, &format!("{name}.json"), &text, "--series")?;
    Ok(())
}
