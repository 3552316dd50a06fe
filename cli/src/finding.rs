//! Findings of a file, ready to be run again.

use crate::corpus::{self, Subject};
use crate::problem::Problem;
use wbexplore::finding::schedule_of;
use wbexplore::replay::Schedule;
use wbexplore::verdict::Scene;
use wbmodel::cases::{Case, Finding, RuleSet};
use wbmodel::mutants;

/// One recorded execution with what it needs.
pub struct Recorded {
    /// The finding.
    pub finding: Finding,
    /// Rule set in force.
    pub set: RuleSet,
    /// Its decisions.
    pub schedule: Schedule,
}

impl Recorded {
    /// The scene of the finding in a case, which may be a reduced form of its own.
    pub fn scene(&self, case: &Case) -> Scene {
        let mutant = self.finding.mutant.as_ref().and_then(|id| mutants::by_id(id)).map(|r| r.mutant);
        Scene::of_case(case, self.set.rules, mutant)
    }
}

/// The findings of a file or case; a case without any gives one without decisions, which is the default schedule.
pub fn open(subject: &Subject, rules: Option<&str>) -> Result<Vec<Recorded>, Problem> {
    let mut findings = subject.case.findings.clone();
    if findings.is_empty() {
        findings.push(Finding { rules: rules.unwrap_or("mainline").to_string(), ..Finding::default() });
    }
    findings.into_iter().map(|f| recorded(subject, f, rules)).collect()
}

fn recorded(subject: &Subject, finding: Finding, rules: Option<&str>) -> Result<Recorded, Problem> {
    let set = match rules {
        Some(r) => corpus::rules(r)?,
        None if corpus::rules_names().any(|n| n == finding.rules) => corpus::rules(&finding.rules)?,
        None => {
            let message = format!("no built-in rule set called `{}`", finding.rules);
            return Err(subject.finding_problem(&finding, message, "name its file with --rules FILE; `wbcheck list rules` shows the built-in ones"));
        }
    };
    let schedule = schedule_of(&finding);
    let known = |task: &str| subject.case.names.tasks.iter().any(|t| t == task) || ["kworker:", "rcu:", "timer:", "irq:"].iter().any(|p| task.starts_with(p));
    if let Some(r) = schedule.runs.iter().find(|r| !known(&r.task)) {
        let names = subject.case.names.tasks.join(", ");
        return Err(subject.finding_problem(
            &finding,
            format!("a decision names an unknown task `{}`", r.task),
            format!("the case has {names}; workers are kworker:FUNCTION(OBJECT), and so on with rcu, timer and irq"),
        ));
    }
    Ok(Recorded { finding, set, schedule })
}
