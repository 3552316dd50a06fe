//! How much of a case is explored, and by what: what the case asks for, changed by what the user asks for.

use crate::{Scheduler, Search, shuttle};
use std::fmt;
use wbmodel::cases;

/// Searches by name, in the order of the documentation, with what they do.
pub const SEARCHES: &[(&str, &str)] = &[
    ("auto", "`cached` within a budget, then the portfolio"),
    ("dpor", "every trace: source sets and sleep sets"),
    ("cached", "the same, cut at states seen before: every state and every race"),
    ("states", "depth first, cut at states seen before"),
    ("dfs", "plain enumeration of schedules"),
    ("portfolio", "all sampling schedulers in rotation"),
    ("random", "uniform among the runnable tasks at every point"),
    ("pct[:depth]", "random priorities with depth - 1 demotions"),
    ("urw", "tasks weighted by the steps they have left"),
    ("pos", "a random priority an operation, redrawn when operations conflict"),
    ("surw", "uniform over the orders of the operations on one shared object"),
    ("delay[:n]", "a fixed order of tasks with n random delays"),
    ("few-choices", "a short random prefix of choices, then stay on the task"),
    ("preempt[:n]", "stay on the task, switch with probability 1/n"),
];

/// The name names no search.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownSearch(pub String);

impl fmt::Display for UnknownSearch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no scheduler called `{}`", self.0)
    }
}

impl std::error::Error for UnknownSearch {}

/// Who runs the tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Engine {
    /// Futures polled by hand.
    #[default]
    Stepper,
    /// Tasks of the crate shuttle.
    Shuttle,
}

/// What the user asks for instead of what a case asks for.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// Who runs the tasks. What a case says about its search is for the stepper; on shuttle its seed and depth count.
    pub engine: Engine,
    /// Name of a search.
    pub search: Option<String>,
    /// Seed of random choices.
    pub seed: u64,
    /// Executions in all.
    pub max_executions: Option<u64>,
}

/// How much to explore, one search after the other until one covers everything.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Searches and the executions that each may take.
    pub searches: Vec<(Search, u64)>,
    /// Stop at the first violation of one of these.
    pub until: Vec<&'static str>,
    /// Count distinct traces.
    pub count_traces: bool,
    /// Note which kernel functions are entered.
    pub functions: bool,
    /// It may take fewer executions than the case asks for: what is not found within them has no verdict.
    pub lowered: bool,
}

/// Executions of an exhaustive search, and of the portfolio after it, where nobody says otherwise.
const EXHAUSTIVE: u64 = 4_000;
/// Executions of the exhaustive search that is tried first where no search is asked for: a case that needs more is left to the portfolio.
const AUTO: u64 = 1_800;
const SAMPLED: u64 = 2_000;

impl Plan {
    /// The plan for a case.
    pub fn of(hints: &cases::Search, wish: &Wish) -> Result<Plan, UnknownSearch> {
        let name = wish.search.as_deref().or(hints.engine.as_deref()).unwrap_or("auto");
        let preemptions = hints.preemptions;
        // The case's own seed moves with the user's, so that another seed is another sample of every case.
        let seed = hints.seed.unwrap_or(0) ^ wish.seed;
        let own = hints.executions;
        let most = wish.max_executions.or(own);
        let one = |s: Search, default: u64| vec![(s, most.unwrap_or(default))];
        let searches = match name {
            _ if wish.engine == Engine::Shuttle => {
                let name = wish.search.as_deref().unwrap_or("random");
                let mut scheduler: shuttle::Scheduler = name.parse().map_err(UnknownSearch)?;
                if let (shuttle::Scheduler::Pct { depth }, Some(d), false) = (&mut scheduler, hints.depth, name.contains(':')) {
                    *depth = d.max(1) as usize;
                }
                one(Search::Shuttle { scheduler, seed }, SAMPLED)
            }
            "auto" => {
                let (exhaustive, sampled) = most.map_or((AUTO, SAMPLED), |all| (all / 3 * 2, all - all / 3 * 2));
                vec![(Search::Cached, exhaustive), (Search::sample(Scheduler::Portfolio, seed), sampled)]
            }
            "dpor" => one(Search::Dpor, EXHAUSTIVE),
            "cached" => one(Search::Cached, EXHAUSTIVE),
            "states" => one(Search::States { preemptions }, EXHAUSTIVE),
            "dfs" => one(Search::Dfs { preemptions }, EXHAUSTIVE),
            other => {
                let mut scheduler: Scheduler = other.parse().map_err(|_| UnknownSearch(other.to_string()))?;
                if let (Scheduler::Pct { depth }, Some(d), false) = (&mut scheduler, hints.depth, other.contains(':')) {
                    *depth = d.max(1);
                }
                one(Search::sample(scheduler, seed), SAMPLED)
            }
        };
        let lowered = wish.max_executions.is_some_and(|w| w < own.unwrap_or(SAMPLED));
        Ok(Plan { searches, until: Vec::new(), count_traces: false, functions: false, lowered })
    }

    /// Most executions in all.
    pub fn max_executions(&self) -> u64 {
        self.searches.iter().map(|s| s.1).sum()
    }
}

/// Name of a search for reports.
pub fn search_name(s: &Search) -> String {
    match s {
        Search::Sample { scheduler, .. } => scheduler.to_string(),
        Search::Dfs { preemptions: None } => "dfs".into(),
        Search::Dfs { preemptions: Some(n) } => format!("dfs, at most {n} preemptions"),
        Search::Dpor => "dpor".into(),
        Search::Cached => "cached".into(),
        Search::States { preemptions: None } => "states".into(),
        Search::States { preemptions: Some(n) } => format!("states, at most {n} preemptions"),
        Search::Shuttle { scheduler, .. } => scheduler.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lowered_budget_is_shared_between_both_searches() {
        for all in [3, 100, 1_800, 1_801, 2_700, 9_000] {
            let wish = Wish { max_executions: Some(all), ..Wish::default() };
            let plan = Plan::of(&cases::Search::default(), &wish).unwrap();
            let shares: Vec<u64> = plan.searches.iter().map(|s| s.1).collect();
            assert_eq!(plan.max_executions(), all);
            assert!(shares.len() == 2 && shares[1] * 3 >= all, "{all}: {shares:?}");
        }
    }
}
