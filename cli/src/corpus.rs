//! Cases, rule sets and scenarios by name or path: the built-in corpus, and files.

use crate::problem::Problem;
use std::path::Path;
use wbmodel::cases::{self, Case, Finding, RuleSet, Span};
use wbmodel::mutants;
use wbmodel::oracles;
use wbmodel::rules::Rules;
use wbmodel::scenarios::{self, Scenario};
use wbmodel::text::{nearest, read_text};

mod built_in {
    include!(concat!(env!("OUT_DIR"), "/corpus.rs"));
}

/// A case as it was asked for, with its text for messages.
#[derive(Clone)]
pub struct Subject {
    /// Name of a built-in case, or path of a file: what the command line accepts.
    pub source: String,
    /// Name of the file in messages.
    pub file: String,
    /// Its text.
    pub text: String,
    /// The case.
    pub case: Case,
}

impl Subject {
    fn parse(source: String, file: String, text: String) -> Result<Subject, Problem> {
        let case = cases::parse(&file, &text).map_err(|e| Problem::File(Box::new(e)))?;
        let s = Subject { source, file, text, case };
        s.check_names()?;
        Ok(s)
    }

    /// Names that the parser of cases cannot know.
    fn check_names(&self) -> Result<(), Problem> {
        let invariant = |id: &str, span| match oracles::invariant(id) {
            Some(_) => Ok(()),
            None => Err(Problem::at(format!("no invariant called `{id}`"), "`wbcheck list invariants` shows all", &self.file, &self.text, span)),
        };
        if let Some(name) = self.case.reach.iter().find(|n| built_in::FUNCTIONS.binary_search(&n.as_str()).is_err()) {
            let help = match nearest(name, built_in::FUNCTIONS.iter().copied()) {
                Some(f) => format!("did you mean `{f}`?"),
                None => "`reach` names kernel functions that the model mirrors".to_string(),
            };
            let message = format!("no kernel function called `{name}` is mirrored");
            return Err(Problem::at(message, help, &self.file, &self.text, place_of(&self.text, "reach", name)));
        }
        for e in &self.case.expect {
            e.violates.iter().try_for_each(|id| invariant(id, e.span))?;
        }
        for f in &self.case.findings {
            f.violation.iter().try_for_each(|id| invariant(id, f.span))?;
            if let Some(id) = f.mutant.as_ref().filter(|id| mutants::by_id(id).is_none()) {
                let message = format!("no mutant called `{id}`");
                return Err(Problem::at(message, "`wbcheck list mutants` shows all", &self.file, &self.text, f.span));
            }
        }
        Ok(())
    }

    /// Error about one of its findings.
    pub fn finding_problem(&self, f: &Finding, message: impl Into<String>, help: impl Into<String>) -> Problem {
        Problem::at(message, help, &self.file, &self.text, f.span)
    }
}

/// Names of the built-in cases, in order.
pub fn case_names() -> impl Iterator<Item = &'static str> {
    built_in::CASES.iter().map(|c| c.0)
}

/// Names of the built-in rule sets and of those in the corpus, in order.
pub fn rules_names() -> impl Iterator<Item = &'static str> {
    Rules::BUILT_IN.iter().map(|r| r.0).chain(built_in::RULES.iter().map(|r| r.0))
}

/// The built-in files of vectors, by name and in order.
pub fn vectors() -> impl Iterator<Item = (&'static str, &'static [u8])> {
    built_in::VECTORS.iter().map(|(name, text)| (*name, text.as_bytes()))
}

/// Where a word stands in the text, after the line that begins with the name of a node.
fn place_of(text: &str, node: &str, word: &str) -> Span {
    let begins_line = |i: &usize| text[..*i].rsplit('\n').next().is_some_and(|l| l.trim().is_empty());
    let starts = text.match_indices(node).map(|m| m.0).filter(begins_line);
    let at = starts.filter_map(|i| text[i + node.len()..].find(word).map(|j| i + node.len() + j)).min();
    at.map_or(Span::default(), |offset| Span { offset, len: word.len() })
}

/// Looks like a path and not like a name.
fn is_path(s: &str) -> bool {
    s.contains(['/', '\\']) || s.ends_with(".kdl") || Path::new(s).is_file()
}

/// A case by name or path.
pub fn case(name: &str) -> Result<Subject, Problem> {
    match built_in::CASES.iter().find(|c| c.0 == name) {
        Some((stem, text)) => Subject::parse(name.to_string(), format!("corpus/cases/{stem}.kdl"), (*text).to_string()),
        None if is_path(name) => Subject::parse(name.to_string(), name.to_string(), read_text(Path::new(name))?),
        None => Err(Problem::unknown("case", name, case_names(), "cases")),
    }
}

/// All built-in cases.
pub fn all_cases() -> Result<Vec<Subject>, Problem> {
    case_names().map(case).collect()
}

/// A rule set by name or path.
pub fn rules(name: &str) -> Result<RuleSet, Problem> {
    if let Some(r) = RuleSet::built_in(name) {
        return Ok(r);
    }
    let (file, text) = match built_in::RULES.iter().find(|r| r.0 == name) {
        Some((stem, text)) => (format!("corpus/rules/{stem}.kdl"), (*text).to_string()),
        None if is_path(name) => (name.to_string(), read_text(Path::new(name))?),
        None => return Err(Problem::unknown("rule set", name, rules_names(), "rules")),
    };
    let set = cases::parse_rules(&file, &text).map_err(|e| Problem::File(Box::new(e)))?;
    match set.known.iter().find(|id| oracles::invariant(id).is_none()) {
        Some(id) => {
            let message = format!("no invariant called `{id}`");
            Err(Problem::at(message, "`wbcheck list invariants` shows all", &file, &text, place_of(&text, "known", id)))
        }
        None => Ok(set),
    }
}

/// Names of the built-in scenarios, in order.
pub fn scenario_names() -> impl Iterator<Item = &'static str> {
    built_in::SCENARIOS.iter().map(|s| s.0)
}

/// A scenario by name or path.
pub fn scenario(name: &str) -> Result<Scenario, Problem> {
    let (file, text) = match built_in::SCENARIOS.iter().find(|s| s.0 == name) {
        Some((stem, text)) => (format!("corpus/scenarios/{stem}.kdl"), (*text).to_string()),
        None if is_path(name) => (name.to_string(), read_text(Path::new(name))?),
        None => return Err(Problem::unknown("scenario", name, scenario_names(), "scenarios")),
    };
    scenarios::parse(&file, &text).map_err(|e| Problem::File(Box::new(e)))
}
