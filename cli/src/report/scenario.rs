//! What simulations have to say: lines for machines, tables for people.

use super::style::Style;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a band says.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum BandStatus {
    /// Within.
    Ok,
    /// Outside.
    Outside,
    /// Outside, as the scenario says it is known to be.
    Known,
    /// Within, though the scenario says that it can't be.
    NoLonger,
    /// Relative to a variant that was not run.
    NotJudged,
}

/// An expectation and what became of it.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct Band {
    /// Metric.
    pub metric: String,
    /// Variant by whose value it is divided.
    pub relative_to: Option<String>,
    /// What the source of the scenario says.
    pub seed_value: String,
    /// Simulated: the median over the seeds.
    pub value: Option<f64>,
    /// Least value.
    pub low: Option<f64>,
    /// Greatest value.
    pub high: Option<f64>,
    /// Within the band.
    pub ok: bool,
    /// What the band says, in full.
    pub status: BandStatus,
    /// Why it can't be met, if that is known.
    pub unmet: Option<String>,
}

/// A variant of a scenario: medians over its seeds, and its bands.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct ScenarioLine {
    /// Scenario.
    pub scenario: String,
    /// What it shows.
    pub about: String,
    /// Variant.
    pub policy: String,
    /// First seed.
    pub seed: u64,
    /// Number of seeds.
    pub seeds: usize,
    /// Metrics with units in their names.
    #[serde(flatten)]
    pub metrics: BTreeMap<String, f64>,
    /// Bands.
    pub expect: Vec<Band>,
    /// Broken invariants.
    pub violations: Vec<String>,
}

/// One seed of a variant.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct SeedLine {
    /// Scenario.
    pub scenario: String,
    /// Variant.
    pub policy: String,
    /// Seed.
    pub seed: u64,
    /// Metrics with units in their names.
    #[serde(flatten)]
    pub metrics: BTreeMap<String, f64>,
}

/// One combination of values of a sweep.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct SweepLine {
    /// Scenario.
    pub scenario: String,
    /// Variant that it begins with.
    pub policy: String,
    /// Metric.
    pub metric: String,
    /// (path, value), one or two.
    pub over: Vec<(String, String)>,
    /// Median over the seeds.
    pub value: f64,
    /// Least.
    pub low: f64,
    /// Greatest.
    pub high: f64,
    /// Number of seeds.
    pub seeds: usize,
}

/// A number for reading: three or four digits that count.
pub fn number(x: f64) -> String {
    let text = match x.abs() {
        a if !a.is_finite() => return "-".to_string(),
        a if a >= 100.0 => return format!("{x:.0}"),
        a if a >= 1.0 => format!("{x:.2}"),
        _ => format!("{x:.3}"),
    };
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// Metrics that are shown of a variant without bands.
const SHOWN: [&str; 4] = ["peak_over_limit", "max_stall_ms", "worst_lag_ms", "throughput_bps"];

/// Widths of the columns of the table of bands.
const WIDTHS: (usize, usize, usize, usize) = (44, 44, 12, 18);

/// Prints the bands of variants, one table a scenario.
#[derive(Default)]
pub struct Bands {
    last: String,
}

impl Bands {
    /// The lines for one variant; those of its scenario first, if it is new.
    pub fn lines(&mut self, l: &ScenarioLine, style: Style) -> Vec<String> {
        let (m, s, v, b) = WIDTHS;
        let mut out = Vec::new();
        if self.last != l.scenario {
            self.last = l.scenario.clone();
            out.push(String::new());
            out.push(format!("{}  {}", style.head(&l.scenario), l.about));
            out.push(style.dim(&format!("  {:m$}  {:s$}  {:>v$}  {:b$}  verdict", "variant, metric", "seed figure", "simulated", "band")));
        }
        let seeds = if l.seeds == 1 { format!("seed {}", l.seed) } else { format!("median of {} seeds", l.seeds) };
        out.push(format!("  {} ({seeds})", l.policy));
        for e in &l.expect {
            let of = e.relative_to.as_ref().map_or(String::new(), |r| format!(" / {r}"));
            let value = e.value.map_or("-".to_string(), number);
            let verdict = match e.status {
                BandStatus::Ok => style.good("ok"),
                BandStatus::Outside => style.bad("OUTSIDE"),
                BandStatus::Known => style.note(&format!("outside, known: {}", e.unmet.as_deref().unwrap_or(""))),
                BandStatus::NoLonger => style.bad("NO LONGER OUTSIDE, remove unmet="),
                BandStatus::NotJudged => style.note("not judged: the other variant was not run"),
            };
            let metric = format!("  {}{of}", e.metric);
            out.push(format!("  {metric:m$}  {:s$}  {value:>v$}  {:b$}  {verdict}", e.seed_value, band(e.low, e.high)));
        }
        if l.expect.is_empty() {
            for name in SHOWN {
                if let Some(x) = l.metrics.get(name) {
                    out.push(format!("  {:m$}  {:s$}  {:>v$}", format!("  {name}"), "", number(*x)));
                }
            }
        }
        for x in &l.violations {
            out.push(format!("    {}  {x}", style.bad("VIOLATED")));
        }
        out
    }
}

fn band(low: Option<f64>, high: Option<f64>) -> String {
    match (low, high) {
        (Some(l), Some(h)) => format!("{} to {}", number(l), number(h)),
        (Some(l), None) => format!(">= {}", number(l)),
        (None, Some(h)) => format!("<= {}", number(h)),
        (None, None) => String::new(),
    }
}

/// Collects a sweep into a table: of one property a row each, of two a matrix.
#[derive(Default)]
pub struct SweepTable {
    points: Vec<SweepLine>,
}

impl SweepTable {
    /// Adds a combination.
    pub fn add(&mut self, l: &SweepLine) {
        self.points.push(l.clone());
    }

    /// The table; nothing if nothing was added.
    pub fn lines(&self, style: Style) -> Vec<String> {
        let Some(first) = self.points.first() else { return Vec::new() };
        let mut out = vec![String::new(), format!("{}  {} ({}, median of {})", style.head(&first.scenario), first.metric, first.policy, first.seeds)];
        let width = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
        let path = |axis: usize| first.over.get(axis).map_or("", |o| o.0.as_str());
        let label = width(&mut self.points.iter().filter_map(|p| p.over.first()).map(|o| o.1.chars().count()).chain([path(0).chars().count()]));
        if first.over.len() < 2 {
            out.push(style.dim(&format!("  {:label$}  {:>12}  {:>12}  {:>12}", path(0), "median", "least", "greatest")));
            for p in &self.points {
                let value = p.over.first().map_or("", |o| o.1.as_str());
                out.push(format!("  {value:label$}  {:>12}  {:>12}  {:>12}", number(p.value), number(p.low), number(p.high)));
            }
            return out;
        }
        let unique = |axis: usize| {
            let mut seen: Vec<&str> = Vec::new();
            for p in &self.points {
                if let Some(o) = p.over.get(axis).filter(|o| !seen.contains(&o.1.as_str())) {
                    seen.push(&o.1);
                }
            }
            seen
        };
        let columns = unique(1);
        let cell = width(&mut columns.iter().map(|c| c.chars().count())).max(10);
        out.push(style.dim(&format!("  {:label$}  {}", "", path(1))));
        let heads: Vec<String> = columns.iter().map(|c| format!("{c:>cell$}")).collect();
        out.push(style.dim(&format!("  {:label$}  {}", path(0), heads.join("  "))));
        for row in unique(0) {
            let at = |column: &&str| self.points.iter().find(|p| p.over[0].1 == row && p.over[1].1 == **column);
            let cells: Vec<String> = columns.iter().map(|c| format!("{:>cell$}", at(c).map_or("-".to_string(), |p| number(p.value)))).collect();
            out.push(format!("  {row:label$}  {}", cells.join("  ")));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.0, 0.123_45, 2.34, 2.0, 1_234_567.8, f64::NAN].map(number), ["0", "0.123", "2.34", "2", "1234568", "-"]);
    }

    fn line(policy: &str) -> ScenarioLine {
        let band = Band {
            metric: "max_stall_ms".into(),
            relative_to: None,
            seed_value: "4 to 6 s".into(),
            value: Some(5000.0),
            low: Some(4000.0),
            high: Some(6000.0),
            ok: true,
            status: BandStatus::Ok,
            unmet: None,
        };
        let metrics = BTreeMap::from([("max_stall_ms".to_string(), 5000.0)]);
        ScenarioLine {
            scenario: "s".into(),
            about: "what".into(),
            policy: policy.into(),
            seed: 1,
            seeds: 3,
            metrics,
            expect: vec![band],
            violations: vec!["TH-X at 5 ms".into()],
        }
    }

    #[test]
    fn a_scenario_is_one_table() {
        let mut bands = Bands::default();
        let first = bands.lines(&line("a"), Style::plain());
        let second = bands.lines(&line("b"), Style::plain());
        assert_eq!((first.len(), second.len()), (6, 3));
        let cells: Vec<&str> = first[4].split("  ").map(str::trim).filter(|c| !c.is_empty()).collect();
        assert_eq!(cells, ["max_stall_ms", "4 to 6 s", "5000", "4000 to 6000", "ok"]);
        assert!(first[5].contains("VIOLATED  TH-X"));
    }

    #[test]
    fn metrics_stand_beside_the_other_fields() {
        let json = serde_json::to_value(line("a")).unwrap();
        assert_eq!(json["max_stall_ms"], 5000.0);
        assert_eq!(json["expect"][0]["status"], "ok");
        assert_eq!(json["expect"][0]["ok"], true);
    }

    fn point(over: &[(&str, &str)], value: f64) -> SweepLine {
        let over = over.iter().map(|(p, v)| (p.to_string(), v.to_string())).collect();
        SweepLine { scenario: "s".into(), policy: "base".into(), metric: "m".into(), over, value, low: value, high: value, seeds: 1 }
    }

    #[test]
    fn two_properties_make_a_matrix() {
        let mut t = SweepTable::default();
        for (x, y, v) in [("1", "a", 1.0), ("1", "b", 2.0), ("2", "a", 3.0), ("2", "b", 4.0)] {
            t.add(&point(&[("p.x", x), ("p.y", y)], v));
        }
        let lines = t.lines(Style::plain());
        let words: Vec<Vec<&str>> = lines[3..].iter().map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(words, [vec!["p.x", "a", "b"], vec!["1", "1", "2"], vec!["2", "3", "4"]]);
    }
}
