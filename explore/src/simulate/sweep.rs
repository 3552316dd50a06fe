//! One or two properties of a scenario over several values.

use super::Core;
use wbmodel::scenarios::{EditError, Scenario};
use wbmodel::sim::Output;

/// A property and the values that it takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Axis {
    /// Path of the property.
    pub path: String,
    /// Values, as they are written in a scenario.
    pub values: Vec<String>,
}

impl Axis {
    /// Reads `PATH=V1,V2,...`.
    pub fn parse(text: &str) -> Option<Axis> {
        let (path, values) = text.split_once('=')?;
        let values: Vec<String> = values.split(',').map(|v| v.trim().to_string()).collect();
        let empty = path.is_empty() || values.iter().any(String::is_empty);
        (!empty).then(|| Axis { path: path.trim().to_string(), values })
    }
}

/// A scenario with every combination of the values of its axes, and several seeds.
#[derive(Clone, Debug)]
pub struct Sweep {
    /// One or two properties.
    pub axes: Vec<Axis>,
    /// The scenario for each combination; the last axis changes fastest.
    points: Vec<Scenario>,
    seed: u64,
    seeds: u32,
}

impl Sweep {
    /// All combinations. A value that the property can't have is an error before anything is run.
    pub fn new(base: &Scenario, axes: &[Axis], seed: u64, seeds: u32) -> Result<Sweep, EditError> {
        let mut points: Vec<Vec<(String, String)>> = vec![Vec::new()];
        for axis in axes {
            let with = |p: &Vec<(String, String)>, v: &String| p.iter().cloned().chain([(axis.path.clone(), v.clone())]).collect();
            points = points.iter().flat_map(|p| axis.values.iter().map(move |v| with(p, v))).collect();
        }
        let points = points.iter().map(|edits| base.with(edits)).collect::<Result<_, _>>()?;
        Ok(Sweep { axes: axes.to_vec(), points, seed, seeds: seeds.max(1) })
    }

    /// Number of combinations.
    pub fn points(&self) -> usize {
        self.points.len()
    }

    /// The values of a combination, one for each axis.
    pub fn values(&self, point: usize) -> Vec<&str> {
        let mut rest = point;
        let mut out: Vec<&str> = Vec::new();
        for axis in self.axes.iter().rev() {
            out.insert(0, &axis.values[rest % axis.values.len()]);
            rest /= axis.values.len();
        }
        out
    }

    /// Number of runs.
    pub fn runs(&self) -> usize {
        self.points.len() * self.seeds as usize
    }

    /// The combination and the seed of a run.
    pub fn run_of(&self, run: usize) -> (usize, u64) {
        (run / self.seeds as usize, self.seed.wrapping_add((run % self.seeds as usize) as u64))
    }

    /// The scenario of a combination.
    pub fn scenario(&self, point: usize) -> &Scenario {
        &self.points[point]
    }

    /// Performs a run.
    pub fn run(&self, run: usize, core: Core) -> Output {
        let (point, seed) = self.run_of(run);
        core(&self.points[point], seed)
    }
}
