//! `wbcheck mutants`: the unmutated baseline first, then each mutant until an invariant catches it.

use crate::args::{self, Tier};
use crate::check::{self, Declared, declared};
use crate::corpus::{self, Subject};
use crate::exit::Exit;
use crate::pool;
use crate::problem::Problem;
use crate::progress::Meter;
use crate::report::{MutantLine, MutantStatus, RunEvent, Sink, Summary};
use crate::run::{self, Clock, Early, Findings, say};
use wbexplore::plan::{Plan, Wish, search_name};
use wbexplore::verdict::{Found, Scene, judge};
use wbexplore::{Scheduler, Search};
use wbmodel::cases::RuleSet;
use wbmodel::mutants::{Row, TABLE, by_id};

/// Executions of the baseline and of each mutant in each case, by tier.
fn budget(tier: Tier) -> (u64, u64) {
    match tier {
        Tier::Fast => (300, 4_000),
        Tier::Full => (2_000, 4_000),
    }
}

/// A case under a base, without mutant.
struct Baseline {
    /// Functions that its executions enter.
    functions: Vec<&'static str>,
    /// What was found and is not declared.
    undeclared: Vec<Found>,
    executions: u64,
    steps: u64,
    seconds: Option<f64>,
}

/// What became of a mutant.
struct Outcome {
    status: MutantStatus,
    /// The case, the plan, and what caught it there or spoke up without being asked to.
    caught: Option<(usize, Plan, Found)>,
    executions: u64,
    steps: u64,
    seconds: Option<f64>,
}

struct Hunt<'a> {
    a: &'a args::Mutants,
    subjects: Vec<Subject>,
    plans: Vec<Plan>,
    bases: Vec<RuleSet>,
    /// By base, then by case.
    baseline: Vec<Vec<Option<Baseline>>>,
}

/// Runs the verb.
pub fn run(a: &args::Mutants, sink: &mut dyn Sink) -> Result<Exit, Early> {
    let clock = Clock::start(&a.out);
    let mut rows: Vec<&'static Row> = Vec::new();
    for id in &a.mutants {
        rows.push(by_id(id).ok_or_else(|| Problem::unknown("mutant", id, TABLE.iter().map(|r| r.id), "mutants"))?);
    }
    if a.mutants.is_empty() {
        rows = TABLE.iter().collect();
    }
    if let Some(shard) = a.work.shard {
        rows = rows.into_iter().enumerate().filter(|(i, _)| i % shard.of == shard.index).map(|(_, r)| r).collect();
    }
    let subjects = check::subjects(&a.work.cases)?;
    let mut names: Vec<&str> = rows.iter().map(|r| r.base).collect();
    names.sort_unstable();
    names.dedup();
    let bases: Vec<RuleSet> = names.iter().map(|n| corpus::rules(n)).collect::<Result<_, _>>()?;
    let mut hunt = Hunt { a, plans: Vec::new(), subjects, bases, baseline: Vec::new() };
    let (base_budget, mutant_budget) = budget(a.tier);
    say(sink, run::header("mutants", Some(&a.work), names.iter().map(|n| (*n).to_string()).collect(), hunt.subjects.len()))?;

    let mut sum = Summary { selected: rows.len() as u64, ..Summary::default() };
    let mut findings = Findings::new(&a.work.output);
    hunt.plans = hunt.plans_with(base_budget)?;
    hunt.run_baseline(&mut sum, &mut findings, sink)?;
    hunt.plans = hunt.plans_with(mutant_budget)?;

    let meter = Meter::new(a.out.progress, rows.len() as u64);
    let mut early = None;
    let work = |i: usize| {
        if run::interrupted() {
            return None;
        }
        meter.begin(rows[i].id);
        Some(hunt.hunt(rows[i]))
    };
    pool::run(run::jobs(a.work.jobs), rows.len(), &work, &mut |i, o: Outcome| {
        meter.end(rows[i].id);
        sum.done += 1;
        sum.executions += o.executions;
        sum.steps += o.steps;
        let good = match o.status {
            MutantStatus::Caught => !rows[i].breaks.is_empty(),
            MutantStatus::Clean => true,
            MutantStatus::Missed | MutantStatus::Unreached => false,
        };
        sum.as_declared += u64::from(good);
        sum.missing += u64::from(!good && !rows[i].breaks.is_empty());
        sum.undeclared += u64::from(!good && rows[i].breaks.is_empty());
        match meter.aside(|| hunt.tell(rows[i], &o, &mut findings, sink)) {
            Ok(()) => true,
            Err(e) => {
                early = Some(e);
                false
            }
        }
    })?;
    meter.finish();
    if let Some(e) = early {
        return Err(e);
    }
    sum.interrupted = run::interrupted();
    let exit = if sum.missing + sum.undeclared > 0 {
        Exit::Failed
    } else if sum.selected == 0 || hunt.subjects.is_empty() {
        Exit::Vacuous
    } else if sum.done < sum.selected {
        Exit::Budget
    } else {
        Exit::AsDeclared
    };
    sum.exit = exit.code();
    sum.ok = exit == Exit::AsDeclared;
    sum.seconds = clock.seconds();
    say(sink, RunEvent::Summary(sum))?;
    Ok(exit)
}

impl Hunt<'_> {
    /// Plans that take at most so many executions unless the user says otherwise.
    fn plans_with(&self, most: u64) -> Result<Vec<Plan>, Problem> {
        let wish = run::wish(&self.a.work);
        let wish = Wish { max_executions: wish.max_executions.or(Some(most)), ..wish };
        self.subjects.iter().map(|s| run::plan(s, &wish)).collect()
    }

    fn run_baseline(&mut self, sum: &mut Summary, findings: &mut Findings<'_>, sink: &mut dyn Sink) -> Result<(), Early> {
        let items: Vec<(usize, usize)> = (0..self.bases.len()).flat_map(|b| (0..self.subjects.len()).map(move |s| (b, s))).collect();
        let meter = Meter::new(self.a.out.progress, items.len() as u64);
        let mut all: Vec<Vec<Option<Baseline>>> = self.bases.iter().map(|_| self.subjects.iter().map(|_| None).collect()).collect();
        let work = |i: usize| {
            let (b, s) = items[i];
            if run::interrupted() {
                return None;
            }
            meter.begin(&format!("baseline {} under {}", self.subjects[s].case.name, self.bases[b].name));
            Some(self.baseline(b, s))
        };
        pool::run(run::jobs(self.a.work.jobs), items.len(), &work, &mut |i, x: Baseline| {
            meter.end("baseline");
            all[items[i].0][items[i].1] = Some(x);
            true
        })?;
        meter.finish();
        for (b, base) in self.bases.iter().enumerate() {
            for (s, subject) in self.subjects.iter().enumerate() {
                let Some(x) = &all[b][s] else { continue };
                sum.executions += x.executions;
                sum.steps += x.steps;
                for f in &x.undeclared {
                    sum.undeclared += 1;
                    let name = format!("{}-{}-{}", subject.case.name, base.name, f.rule);
                    let how = check::how(&self.plans[s], f, self.a.work.seed);
                    let line = MutantLine {
                        id: "baseline",
                        status: MutantStatus::Caught,
                        invariant: Some(f.rule),
                        case: Some(subject.case.name.clone()),
                        scheduler: Some(search_name(&self.plans[s].searches[f.search].0)),
                        executions: f.first,
                        seconds: x.seconds,
                        replay: Some(findings.write(&name, &subject.case, base, &base.name, None, f, &how)?),
                        says: "nothing changed, and a rule is violated that is not declared",
                    };
                    say(sink, RunEvent::Mutant(line))?;
                }
            }
        }
        self.baseline = all;
        Ok(())
    }

    fn baseline(&self, b: usize, s: usize) -> Baseline {
        let clock = Clock::start(&self.a.out);
        let (set, subject) = (&self.bases[b], &self.subjects[s]);
        let scene = Scene::of_case(&subject.case, set.rules, None);
        let plan = Plan { functions: true, ..self.plans[s].clone() };
        let v = judge(&scene, &plan, &|| self.over(&clock));
        let undeclared = v.found.into_iter().filter(|f| declared(&subject.case, set, f.rule) == Declared::Holds).collect();
        Baseline { functions: v.functions, undeclared, executions: v.stats.executions, steps: v.stats.steps, seconds: clock.seconds() }
    }

    fn over(&self, clock: &Clock) -> bool {
        run::interrupted() || clock.passed(self.a.work.max_seconds)
    }

    /// Cases that enter the mutant's function, those that name the mutant first, then the cheapest.
    fn relevant(&self, row: &Row, b: usize) -> Vec<usize> {
        let mut cases: Vec<(bool, u64, usize)> = Vec::new();
        for (s, x) in self.baseline[b].iter().enumerate() {
            let Some(x) = x else { continue };
            let case = &self.subjects[s].case;
            let named = names(&case.source, row.id) || names(&case.about, row.id);
            if named || x.functions.contains(&row.function) {
                cases.push((!named, x.steps / x.executions.max(1), s));
            }
        }
        if row.breaks.is_empty() && cases.iter().any(|c| !c.0) {
            // A control would go through all of them.
            cases.retain(|c| !c.0);
        }
        cases.sort_unstable();
        cases.into_iter().map(|c| c.2).collect()
    }

    /// A short sample of a case, whatever search it asks for.
    fn first_look(&self, s: usize) -> Plan {
        let plan = &self.plans[s];
        let search = Search::sample(Scheduler::Portfolio, self.a.work.seed);
        Plan { searches: vec![(search, (plan.max_executions() / 10).max(50))], ..plan.clone() }
    }

    fn hunt(&self, row: &'static Row) -> Outcome {
        let clock = Clock::start(&self.a.out);
        let control = row.breaks.is_empty();
        let mut o = Outcome { status: MutantStatus::Unreached, caught: None, executions: 0, steps: 0, seconds: None };
        let Some(b) = self.bases.iter().position(|x| x.name == row.base) else { return o };
        let mut passed = false;
        let relevant = self.relevant(row, b);
        // A little of every case first: most mutants are caught soon in some case, and never in most others.
        let rounds = relevant.iter().map(|&s| (s, self.first_look(s))).chain(relevant.iter().map(|&s| (s, self.plans[s].clone())));
        for (s, plan) in rounds {
            let (case, set) = (&self.subjects[s].case, &self.bases[b]);
            // What the case shows without the mutant proves nothing about the mutant.
            let before = self.baseline[b][s].as_ref();
            let clean = |id: &str| declared(case, set, id) == Declared::Holds && !before.is_some_and(|x| x.undeclared.iter().any(|f| f.rule == id));
            let until: Vec<&'static str> = row.breaks.iter().copied().filter(|id| clean(id)).collect();
            if until.is_empty() && !control {
                continue;
            }
            let plan = Plan { until: until.clone(), ..plan };
            let scene = Scene::of_case(case, set.rules, Some(row.mutant));
            let v = judge(&scene, &plan, &|| self.over(&clock));
            passed |= v.mutant_passed;
            o.executions += v.stats.executions;
            o.steps += v.stats.steps;
            let strange = v.found.iter().find(|f| v.mutant_passed && clean(f.rule) && !until.contains(&f.rule));
            if let Some(f) = until.iter().find_map(|id| v.found.iter().find(|f| f.rule == *id)) {
                o.status = MutantStatus::Caught;
                o.caught = Some((s, plan, f.clone()));
                break;
            } else if let (Some(f), true) = (strange, control || o.caught.is_none()) {
                // Not what must catch it, but worth showing; for a control the end of the story.
                o.caught = Some((s, plan, f.clone()));
                if control {
                    o.status = MutantStatus::Caught;
                    break;
                }
            }
            if self.over(&clock) {
                break;
            }
        }
        if o.status == MutantStatus::Unreached && passed {
            o.status = if control { MutantStatus::Clean } else { MutantStatus::Missed };
        }
        o.seconds = clock.seconds();
        o
    }

    fn tell(&self, row: &'static Row, o: &Outcome, findings: &mut Findings<'_>, sink: &mut dyn Sink) -> Result<(), Early> {
        let replay = match &o.caught {
            Some((s, plan, f)) => {
                let how = check::how(plan, f, self.a.work.seed);
                let base = corpus::rules(row.base)?;
                Some(findings.write(&format!("mutant-{}", row.id), &self.subjects[*s].case, &base, row.base, Some(row.id), f, &how)?)
            }
            None => None,
        };
        let line = MutantLine {
            id: row.id,
            status: o.status,
            invariant: o.caught.as_ref().map(|c| c.2.rule),
            case: o.caught.as_ref().map(|c| self.subjects[c.0].case.name.clone()),
            scheduler: o.caught.as_ref().map(|(_, plan, f)| search_name(&plan.searches[f.search].0)),
            executions: o.executions,
            seconds: o.seconds,
            replay,
            says: row.says,
        };
        say(sink, RunEvent::Mutant(line))
    }
}

/// Does the text name the id as a word of its own?
fn names(text: &str, id: &str) -> bool {
    text.match_indices(id).any(|(i, _)| {
        let next = text[i + id.len()..].chars().next();
        !next.is_some_and(|c| c.is_ascii_alphanumeric())
    })
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn ids_are_words() {
        assert!(names("H-002, ORD-1a; V2-M03", "V2-M03"));
        assert!(names("ORD-1a", "ORD-1a"));
        assert!(!names("ORD-12", "ORD-1"));
    }
}
