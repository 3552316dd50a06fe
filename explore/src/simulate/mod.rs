//! Simulations of a scenario: its variants with several seeds, medians, and what the bands say about them.
//!
//! Main types: [`Simulation`] (what is to be run, piece by piece and in any order), [`Results`] (what came of it). A variant is
//! judged by the median over the seeds; an odd number of seeds makes that one of the runs.

mod sweep;

pub use sweep::{Axis, Sweep};

use wbmodel::scenarios::{EditError, Expect, Scenario, Variant};
use wbmodel::sim::Output;

/// What runs a scenario once with a seed.
pub type Core = fn(&Scenario, u64) -> Output;

/// A variant of a scenario, ready to be run.
#[derive(Clone, Debug)]
pub struct Chosen {
    /// Its name: the `policy` of reports.
    pub name: String,
    /// The scenario with the variant's values.
    pub scenario: Scenario,
}

/// Variants of a scenario and seeds: one run for each pair.
#[derive(Clone, Debug)]
pub struct Simulation {
    /// The scenario as written.
    pub scenario: Scenario,
    /// What is run.
    pub variants: Vec<Chosen>,
    /// First seed; the others follow.
    pub seed: u64,
    /// Number of seeds, at least 1.
    pub seeds: u32,
}

impl Simulation {
    /// The scenario's variants of these names, or all if none is named. A name that is not a variant's is read as edits of the scenario:
    /// `flush=always,foreign=skip-bdev`, or with a path, `memcg.job.max=4GB`.
    pub fn new(scenario: &Scenario, names: &[String], seed: u64, seeds: Option<u32>) -> Result<Simulation, EditError> {
        let all = scenario.all_variants();
        let chosen: Vec<Variant> = if names.is_empty() { all } else { names.iter().map(|n| variant(&all, n)).collect::<Result<_, _>>()? };
        let apply = |v: Variant| Ok(Chosen { scenario: scenario.with(&v.set)?, name: v.name });
        let variants = chosen.into_iter().map(apply).collect::<Result<_, EditError>>()?;
        Ok(Simulation { scenario: scenario.clone(), variants, seed, seeds: seeds.unwrap_or(scenario.seeds).max(1) })
    }

    /// Number of runs.
    pub fn runs(&self) -> usize {
        self.variants.len() * self.seeds as usize
    }

    /// The variant and the seed of a run. Those of one variant follow each other.
    pub fn run_of(&self, run: usize) -> (usize, u64) {
        let (variant, n) = (run / self.seeds as usize, run % self.seeds as usize);
        (variant, self.seed.wrapping_add(n as u64))
    }

    /// Performs a run.
    pub fn run(&self, run: usize, core: Core) -> Output {
        let (variant, seed) = self.run_of(run);
        core(&self.variants[variant].scenario, seed)
    }
}

/// A variant by name, or as edits.
fn variant(all: &[Variant], name: &str) -> Result<Variant, EditError> {
    if let Some(v) = all.iter().find(|v| v.name == name) {
        return Ok(v.clone());
    }
    let set = name.split(',').map(|edit| {
        let (path, value) = edit.split_once('=')?;
        let path = path.trim();
        let path = if path.contains('.') { path.to_string() } else { format!("policy.{path}") };
        Some((path, value.trim().to_string()))
    });
    match set.collect::<Option<Vec<_>>>() {
        Some(set) => Ok(Variant { name: name.to_string(), set }),
        None => {
            let names: Vec<&str> = all.iter().map(|v| v.name.as_str()).collect();
            Err(EditError {
                message: format!("no variant called `{name}`"),
                help: Some(format!("there is {}; or knobs of the policy, as in flush=always,foreign=skip-bdev", names.join(", "))),
            })
        }
    }
}

/// What a run came to.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    /// Seed.
    pub seed: u64,
    /// Its metrics: (name as in expectations, value).
    pub metrics: Vec<(String, f64)>,
    /// Broken invariants: (id, at microseconds, what).
    pub violations: Vec<(&'static str, u64, String)>,
}

impl Run {
    /// Of a run's output.
    pub fn of(scenario: &Scenario, seed: u64, output: &Output) -> Run {
        Run { seed, metrics: output.all_metrics(scenario), violations: output.violations.clone() }
    }
}

/// The runs of one variant, in the order of their seeds.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Results {
    /// Runs.
    pub runs: Vec<Run>,
}

impl Results {
    /// Median of a metric over the runs; the lower of two in the middle. `None`: there is no such metric.
    pub fn median(&self, metric: &str) -> Option<f64> {
        let mut all: Vec<f64> = self.runs.iter().filter_map(|r| r.metrics.iter().find(|m| m.0 == metric)).map(|m| m.1).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len().checked_sub(1)? / 2).copied()
    }

    /// Least and greatest value of a metric over the runs.
    pub fn range(&self, metric: &str) -> Option<(f64, f64)> {
        let all = self.runs.iter().filter_map(|r| r.metrics.iter().find(|m| m.0 == metric)).map(|m| m.1);
        all.fold(None, |range, x| Some(range.map_or((x, x), |(low, high): (f64, f64)| (low.min(x), high.max(x)))))
    }

    /// Medians of all metrics.
    pub fn medians(&self) -> Vec<(String, f64)> {
        let names = self.runs.first().map_or(&[][..], |r| &r.metrics);
        names.iter().filter_map(|(n, _)| Some((n.clone(), self.median(n)?))).collect()
    }
}

/// What a band says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Within the band.
    Ok,
    /// Outside of it.
    Outside,
    /// Outside, as the scenario says it is known to be.
    KnownOutside,
    /// Within, though the scenario says that this can't be: what it says is out of date.
    NoLongerOutside,
    /// Relative to a variant that was not run.
    NotJudged,
}

/// An expectation and what became of it.
#[derive(Clone, PartialEq, Debug)]
pub struct Judged {
    /// The expectation.
    pub expect: Expect,
    /// Simulated value; divided by that of the other variant if it is relative to one.
    pub value: Option<f64>,
    /// What the band says.
    pub verdict: Verdict,
}

/// Holds an expectation against what was simulated; `median` gives a metric of a variant, `None` if the variant was not run.
pub fn judge(expect: &Expect, median: &dyn Fn(&str, &str) -> Option<f64>) -> Judged {
    let own = median(&expect.variant, &expect.metric);
    let value = match &expect.relative_to {
        None => own,
        Some(other) => match median(other, &expect.metric) {
            None => return Judged { expect: expect.clone(), value: None, verdict: Verdict::NotJudged },
            Some(base) => own.map(|v| v / base),
        },
    };
    // Not a number is outside of every band.
    let inside = value.is_some_and(|v| expect.low.is_none_or(|low| v >= low) && expect.high.is_none_or(|high| v <= high));
    let verdict = match (inside, &expect.unmet) {
        (true, None) => Verdict::Ok,
        (false, None) => Verdict::Outside,
        (false, Some(_)) => Verdict::KnownOutside,
        (true, Some(_)) => Verdict::NoLongerOutside,
    };
    Judged { expect: expect.clone(), value, verdict }
}

#[cfg(test)]
mod tests;
