//! `wbcheck simulate`: scenarios in virtual time, what they show against what they are expected to show.

use crate::args;
use crate::corpus;
use crate::exit::Exit;
use crate::plot;
use crate::pool;
use crate::problem::Problem;
use crate::progress::Meter;
use crate::report::{Band, BandStatus, RunEvent, ScenarioLine, SeedLine, Sink, Summary};
use crate::run::{self, Clock, Early, say};
use crate::series;
use std::collections::BTreeMap;
use wbexplore::simulate::{Judged, Results, Run, Simulation, Verdict, judge};
use wbmodel::scenarios::Scenario;
use wbmodel::sim::{self, Output};

/// A scenario and what its variants have come to so far.
struct Work {
    sim: Simulation,
    results: Vec<Results>,
}

/// Runs the verb.
pub fn run(a: &args::Simulate, sink: &mut dyn Sink) -> Result<Exit, Early> {
    let clock = Clock::start(&a.out);
    let mut names: Vec<String> = if a.all { corpus::scenario_names().map(str::to_string).collect() } else { Vec::new() };
    names.extend(a.scenarios.iter().filter(|s| !a.all || !corpus::scenario_names().any(|n| n == **s)).cloned());
    let scenarios: Vec<Scenario> = names.iter().map(|n| corpus::scenario(n)).collect::<Result<_, _>>()?;
    let mut works: Vec<Work> = Vec::new();
    for s in &scenarios {
        let policies = if scenarios.len() == 1 { a.policies.clone() } else { known(s, &a.policies) };
        if policies.is_empty() && !a.policies.is_empty() {
            continue;
        }
        let sim = Simulation::new(s, &policies, a.seeds.seed, a.seeds.seeds)?;
        works.push(Work { results: vec![Results::default(); sim.variants.len()], sim });
    }
    if works.is_empty() && !scenarios.is_empty() {
        let help = "`wbcheck list scenarios` shows the variants of each; knobs as flush=always go with all of them";
        return Err(Problem::new(format!("none of the scenarios has a variant called {}", a.policies.join(" or ")), help).into());
    }
    say(sink, run::header_of_simulation("simulate", &a.seeds, a.policies.clone(), works.len()))?;

    let items: Vec<(usize, usize)> = works.iter().enumerate().flat_map(|(w, work)| (0..work.sim.runs()).map(move |r| (w, r))).collect();
    let mut sum = Summary { selected: items.len() as u64, ..Summary::default() };
    let meter = Meter::new(a.out.progress, items.len() as u64);
    let sims: Vec<Simulation> = works.iter().map(|w| w.sim.clone()).collect();
    let keep = a.plot.is_some() || a.series.is_some();
    let label = |i: usize| {
        let (w, r) = items[i];
        let (variant, seed) = sims[w].run_of(r);
        format!("{} {} seed {seed}", sims[w].scenario.name, sims[w].variants[variant].name)
    };
    let work = |i: usize| {
        if run::interrupted() {
            return None;
        }
        let (w, r) = items[i];
        meter.begin(&label(i));
        let output = sims[w].run(r, sim::run);
        let (variant, seed) = sims[w].run_of(r);
        let run = Run::of(&sims[w].variants[variant].scenario, seed, &output);
        let pages = output.pages;
        Some((run, pages, (keep && seed == sims[w].seed).then_some(output)))
    };
    let mut early = None;
    pool::run(run::jobs(a.seeds.jobs), items.len(), &work, &mut |i, (one, pages, output): (Run, u64, Option<Output>)| {
        meter.end(&label(i));
        let (w, r) = items[i];
        let variant = works[w].sim.run_of(r).0;
        sum.done += 1;
        sum.executions += 1;
        sum.steps += pages;
        works[w].results[variant].runs.push(one);
        let last = r + 1 == works[w].sim.runs();
        let told = meter.aside(|| {
            if let Some(output) = output {
                write(a, &works[w].sim, variant, &output)?;
            }
            if last { tell(&works[w], &mut sum, sink) } else { Ok(()) }
        });
        early = told.err();
        early.is_none()
    })?;
    meter.finish();
    if let Some(e) = early {
        return Err(e);
    }
    sum.interrupted = run::interrupted();
    let exit = [(sum.undeclared + sum.missing > 0, Exit::Failed), (sum.selected == 0, Exit::Vacuous), (sum.done < sum.selected, Exit::Budget)];
    let exit = exit.into_iter().filter(|x| x.0).map(|x| x.1).max().unwrap_or_default();
    sum.exit = exit.code();
    sum.ok = exit == Exit::AsDeclared;
    sum.seconds = clock.seconds();
    say(sink, RunEvent::Summary(sum))?;
    Ok(exit)
}

/// Of several scenarios, each runs the variants that it has, and knobs.
fn known(s: &Scenario, policies: &[String]) -> Vec<String> {
    let variants = s.all_variants();
    policies.iter().filter(|p| p.contains('=') || variants.iter().any(|v| v.name == **p)).cloned().collect()
}

/// Plots and series of one run.
fn write(a: &args::Simulate, sim: &Simulation, variant: usize, output: &Output) -> Result<(), Early> {
    let chosen = &sim.variants[variant];
    let name = run::file_name(&format!("{}-{}", chosen.scenario.name, chosen.name));
    if let Some(dir) = &a.plot {
        plot::simulation(dir, &name, &chosen.scenario, output)?;
    }
    if let Some(dir) = &a.series {
        series::write(dir, &name, &chosen.scenario, output)?;
    }
    Ok(())
}

/// Tells what a scenario has shown: each seed, then each variant with its bands.
fn tell(work: &Work, sum: &mut Summary, sink: &mut dyn Sink) -> Result<(), Early> {
    let sim = &work.sim;
    let median = |variant: &str, metric: &str| work.results[sim.variants.iter().position(|v| v.name == variant)?].median(metric);
    for (chosen, results) in sim.variants.iter().zip(&work.results) {
        if results.runs.len() > 1 {
            for r in &results.runs {
                let line =
                    SeedLine { scenario: sim.scenario.name.clone(), policy: chosen.name.clone(), seed: r.seed, metrics: r.metrics.iter().cloned().collect() };
                say(sink, RunEvent::Run(line))?;
            }
        }
        let judged: Vec<Judged> = sim.scenario.expectations(&chosen.name).map(|e| judge(e, &median)).collect();
        let count = |v: Verdict| judged.iter().filter(|j| j.verdict == v).count() as u64;
        let violations: Vec<String> =
            results.runs.iter().flat_map(|r| r.violations.iter().map(|(id, at, what)| format!("{id} at {} ms, seed {}: {what}", at / 1000, r.seed))).collect();
        sum.as_declared += count(Verdict::Ok) + count(Verdict::KnownOutside);
        sum.undeclared += count(Verdict::Outside) + violations.len() as u64;
        sum.missing += count(Verdict::NoLongerOutside);
        let line = ScenarioLine {
            scenario: sim.scenario.name.clone(),
            about: sim.scenario.about.clone(),
            policy: chosen.name.clone(),
            seed: sim.seed,
            seeds: results.runs.len(),
            metrics: results.medians().into_iter().collect::<BTreeMap<String, f64>>(),
            expect: judged.into_iter().map(band).collect(),
            violations,
        };
        say(sink, RunEvent::Scenario(line))?;
    }
    Ok(())
}

fn band(j: Judged) -> Band {
    let status = match j.verdict {
        Verdict::Ok => BandStatus::Ok,
        Verdict::Outside => BandStatus::Outside,
        Verdict::KnownOutside => BandStatus::Known,
        Verdict::NoLongerOutside => BandStatus::NoLonger,
        Verdict::NotJudged => BandStatus::NotJudged,
    };
    Band {
        metric: j.expect.metric,
        relative_to: j.expect.relative_to,
        seed_value: j.expect.seed_value,
        value: j.value,
        low: j.expect.low,
        high: j.expect.high,
        ok: matches!(status, BandStatus::Ok),
        status,
        unmet: j.expect.unmet,
    }
}
