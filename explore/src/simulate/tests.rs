use super::*;
use wbmodel::scenarios::parse;

const TEXT: &str = r#"schema 1
scenario "s" duration="1s" seeds=3
machine memory="8GB" cpus=2
disk "d" write="1MB/s"
fs "f" disk="d"
file "x" fs="f"
writer "w" file="x"
variant "two"
variant "four" { set "machine.cpus" 4 }
expect "four" "stat_flushes" low=40 high=50 seed="42"
expect "four" "stat_flushes" relative-to="two" low=2 high=3
expect "four" "stat_flushes" high=1 unmet="known"
expect "four" "stat_flushes" high=100 unmet="out of date"
"#;

/// Ten for each CPU, plus the seed.
fn core(s: &Scenario, seed: u64) -> Output {
    let mut out = Output::default();
    out.metrics.insert("stat_flushes", f64::from(s.machine.cpus * 10) + seed as f64);
    out
}

fn scenario() -> Scenario {
    parse("s", TEXT).unwrap_or_else(|e| panic!("{}", e.one_line()))
}

fn results(sim: &Simulation) -> Vec<Results> {
    let mut all = vec![Results::default(); sim.variants.len()];
    for run in 0..sim.runs() {
        let (variant, seed) = sim.run_of(run);
        all[variant].runs.push(Run::of(&sim.scenario, seed, &sim.run(run, core)));
    }
    all
}

fn verdicts(names: &[&str]) -> Vec<(Option<f64>, Verdict)> {
    let names: Vec<String> = names.iter().map(|n| n.to_string()).collect();
    let sim = Simulation::new(&scenario(), &names, 1, None).unwrap();
    let all = results(&sim);
    let median = |variant: &str, metric: &str| all[sim.variants.iter().position(|v| v.name == variant)?].median(metric);
    sim.scenario.expectations("four").map(|e| judge(e, &median)).map(|j| (j.value, j.verdict)).collect()
}

#[test]
fn each_variant_runs_with_each_seed() {
    let sim = Simulation::new(&scenario(), &[], 7, None).unwrap();
    let runs: Vec<(usize, u64)> = (0..sim.runs()).map(|r| sim.run_of(r)).collect();
    assert_eq!(runs, [(0, 7), (0, 8), (0, 9), (1, 7), (1, 8), (1, 9)]);
}

#[test]
fn bands_judge_medians() {
    let ratio = 42.0 / 22.0;
    let judged = verdicts(&[]);
    assert_eq!(judged[0], (Some(42.0), Verdict::Ok));
    assert_eq!(judged[1], (Some(ratio), Verdict::Outside));
    assert_eq!(judged[2], (Some(42.0), Verdict::KnownOutside));
    assert_eq!(judged[3], (Some(42.0), Verdict::NoLongerOutside));
}

#[test]
fn what_is_relative_to_a_variant_that_was_not_run_is_not_judged() {
    assert_eq!(verdicts(&["four"])[1], (None, Verdict::NotJudged));
}

#[test]
fn a_metric_that_is_missing_or_no_number_is_outside() {
    let e = Expect { high: Some(1.0), ..Expect::default() };
    assert_eq!(judge(&e, &|_, _| None).verdict, Verdict::Outside);
    assert_eq!(judge(&e, &|_, _| Some(f64::NAN)).verdict, Verdict::Outside);
}

#[test]
fn the_median_of_an_even_number_is_a_run() {
    let sim = Simulation::new(&scenario(), &["two".into()], 1, Some(4)).unwrap();
    let r = &results(&sim)[0];
    assert_eq!((r.median("stat_flushes"), r.range("stat_flushes")), (Some(22.0), Some((21.0, 24.0))));
    assert_eq!((r.median("nothing"), r.range("nothing")), (None, None));
}

#[test]
fn a_policy_may_be_written_as_edits() {
    let sim = Simulation::new(&scenario(), &["flush=always,machine.cpus=8".into()], 1, Some(1)).unwrap();
    assert_eq!(sim.variants[0].scenario.machine.cpus, 8);
    assert_eq!(sim.variants[0].scenario.policy.flush, wbmodel::policy::FlushPolicy::Always);
    let e = Simulation::new(&scenario(), &["six".into()], 1, None).unwrap_err();
    assert_eq!(e.message, "no variant called `six`");
    let e = Simulation::new(&scenario(), &["flush=sometimes".into()], 1, None).unwrap_err();
    assert_eq!(e.message, "policy.flush = sometimes: `sometimes` is not a flush policy");
}

#[test]
fn a_sweep_has_every_combination() {
    let axes = [Axis::parse("machine.cpus=1,2").unwrap(), Axis::parse("policy.flush=always, ratelimited").unwrap()];
    let sweep = Sweep::new(&scenario(), &axes, 1, 2).unwrap();
    let values: Vec<Vec<&str>> = (0..sweep.points()).map(|p| sweep.values(p)).collect();
    assert_eq!(values, [["1", "always"], ["1", "ratelimited"], ["2", "always"], ["2", "ratelimited"]]);
    assert_eq!(sweep.scenario(2).machine.cpus, 2);
    assert_eq!((sweep.runs(), sweep.run_of(5)), (8, (2, 2)));
    assert_eq!(sweep.run(5, core).metrics["stat_flushes"], 22.0);
    assert!(Sweep::new(&scenario(), &[Axis::parse("machine.cpus=0").unwrap()], 1, 1).is_err());
}

#[test]
fn an_axis_is_a_path_and_values() {
    for bad in ["", "a", "=1", "a=", "a=1,,2"] {
        assert_eq!(Axis::parse(bad), None, "{bad}");
    }
}
