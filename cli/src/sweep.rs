//! `wbcheck sweep`: one metric of a scenario over values of one or two properties.

use crate::args;
use crate::corpus;
use crate::exit::Exit;
use crate::plot;
use crate::pool;
use crate::problem::Problem;
use crate::progress::Meter;
use crate::report::{RunEvent, Sink, Summary, SweepLine};
use crate::run::{self, Clock, Early, say};
use wbexplore::simulate::{Results, Run, Simulation, Sweep};
use wbmodel::sim;

/// Runs the verb.
pub fn run(a: &args::Sweep, sink: &mut dyn Sink) -> Result<Exit, Early> {
    let clock = Clock::start(&a.out);
    if a.over.len() > 2 {
        return Err(Problem::new("more than two properties at once", "give --over once or twice").into());
    }
    let scenario = corpus::scenario(&a.scenario)?;
    scenario.check_metric(&a.metric)?;
    let (policy, base) = match &a.policy {
        None => (wbmodel::scenarios::BASE.to_string(), scenario),
        Some(p) => {
            let chosen = Simulation::new(&scenario, std::slice::from_ref(p), a.seeds.seed, None)?.variants.remove(0);
            (chosen.name, chosen.scenario)
        }
    };
    let sweep = Sweep::new(&base, &a.over, a.seeds.seed, a.seeds.seeds.unwrap_or(base.seeds))?;
    say(sink, run::header_of_simulation("sweep", &a.seeds, vec![policy.clone()], 1))?;

    let mut sum = Summary { selected: sweep.runs() as u64, ..Summary::default() };
    let mut results = vec![Results::default(); sweep.points()];
    let meter = Meter::new(a.out.progress, sweep.runs() as u64);
    let label = |i: usize| {
        let (point, seed) = sweep.run_of(i);
        format!("{} seed {seed}", sweep.values(point).join(", "))
    };
    let work = |i: usize| {
        if run::interrupted() {
            return None;
        }
        meter.begin(&label(i));
        let (point, seed) = sweep.run_of(i);
        let output = sweep.run(i, sim::run);
        Some((Run::of(sweep.scenario(point), seed, &output), output.pages))
    };
    pool::run(run::jobs(a.seeds.jobs), sweep.runs(), &work, &mut |i, (one, pages): (Run, u64)| {
        meter.end(&label(i));
        sum.done += 1;
        sum.executions += 1;
        sum.steps += pages;
        sum.undeclared += one.violations.len() as u64;
        results[sweep.run_of(i).0].runs.push(one);
        true
    })?;
    meter.finish();
    let mut lines = Vec::new();
    for (point, r) in results.iter().enumerate() {
        let (Some(value), Some((low, high))) = (r.median(&a.metric), r.range(&a.metric)) else { continue };
        let over = a.over.iter().map(|axis| axis.path.clone()).zip(sweep.values(point).into_iter().map(str::to_string)).collect();
        lines.push(SweepLine { scenario: base.name.clone(), policy: policy.clone(), metric: a.metric.clone(), over, value, low, high, seeds: r.runs.len() });
    }
    if let Some(dir) = &a.plot {
        plot::sweep(dir, &run::file_name(&format!("{}-{}-{}", base.name, policy, a.metric)), &a.over, &lines)?;
    }
    for l in lines {
        say(sink, RunEvent::Sweep(l))?;
    }
    sum.interrupted = run::interrupted();
    let exit = match (sum.undeclared > 0, sum.done < sum.selected) {
        (true, _) => Exit::Failed,
        (false, true) => Exit::Budget,
        (false, false) => Exit::AsDeclared,
    };
    sum.exit = exit.code();
    sum.ok = exit == Exit::AsDeclared;
    sum.seconds = clock.seconds();
    say(sink, RunEvent::Summary(sum))?;
    Ok(exit)
}
