//! Rule-set files: a base and the switches that differ from it.
//!
//! ```text
//! schema 1
//! rules "no-takeover" base="tree-until-release" {
//!     about "a dying wb keeps its slot until it is released"
//!     set "R-CREATE-PUB" "exist"
//!     known "LT-PROG-1"
//! }
//! ```

use super::ast::{Names, SCHEMA};
use super::value::Reader;
use crate::rules::{Rules, SwitchError};
use crate::text::{Bad, LoadError, TextError, check_name, children, document, quote, read_text, schema, string};
use std::fmt::Write;
use std::path::Path;

/// A rule set with a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSet {
    /// Name, as in expectations and on the command line.
    pub name: String,
    /// What it is, in a sentence.
    pub about: String,
    /// Built-in rule set from which it differs.
    pub base: String,
    /// The switches.
    pub rules: Rules,
    /// Invariants that it is known to break, whatever the case.
    pub known: Vec<String>,
}

impl RuleSet {
    /// A built-in rule set.
    pub fn built_in(name: &str) -> Option<RuleSet> {
        let rules = Rules::built_in(name)?;
        Some(RuleSet { name: name.into(), about: String::new(), base: name.into(), rules, known: Vec::new() })
    }
    /// The switches in which it differs from its base: (id, value).
    pub fn differences(&self) -> Vec<(&'static str, &'static str)> {
        let base = Rules::built_in(&self.base).unwrap_or(Rules::mainline());
        self.rules.values().into_iter().zip(base.values()).filter(|(own, of_base)| own != of_base).map(|(own, _)| own).collect()
    }
}

/// The rule set written in `text`; `name` names the file in errors.
pub fn parse_rules(name: &str, text: &str) -> Result<RuleSet, TextError> {
    parse_text(text).map_err(|bad| TextError::new(name, text, bad))
}

/// Reads and parses the rule set in a file.
pub fn load_rules(path: &Path) -> Result<RuleSet, LoadError> {
    let text = read_text(path)?;
    Ok(parse_rules(&path.display().to_string(), &text)?)
}

/// The text of a rule set: what [`parse_rules`] turns back into an equal one.
pub fn print_rules(set: &RuleSet) -> String {
    let mut out = format!("schema {SCHEMA}\nrules {} base={} {{\n", quote(&set.name), quote(&set.base));
    if !set.about.is_empty() {
        let _ = writeln!(out, "    about {}", quote(&set.about));
    }
    for (id, value) in set.differences() {
        let _ = writeln!(out, "    set {} {}", quote(id), quote(value));
    }
    if !set.known.is_empty() {
        let known: Vec<String> = set.known.iter().map(|k| quote(k)).collect();
        let _ = writeln!(out, "    known {}", known.join(" "));
    }
    out.push_str("}\n");
    out
}

fn parse_text(text: &str) -> Result<RuleSet, Bad> {
    let doc = document(text)?;
    schema(doc.nodes(), SCHEMA, "rule set")?;
    let names = Names::default();
    let mut found = None;
    for n in doc.nodes() {
        match n.name().value() {
            "schema" => {}
            "rules" if found.is_some() => return Err(Bad::new("a second `rules`").at(n.span()).help("a file holds one rule set")),
            "rules" => found = Some(n),
            other => {
                return Err(Bad::new(format!("nothing is called `{other}` at the top of a rule set")).at(n.name().span()).suggest(other, ["schema", "rules"]));
            }
        }
    }
    let node = found.ok_or_else(|| Bad::new("the file has no `rules`"))?;
    let mut r = Reader::new(node, &names);
    let name: String = r.arg()?;
    check_name(&name).map_err(|b| b.at(node.span()))?;
    let base: String = r.prop("base")?;
    let built_in = || Rules::BUILT_IN.iter().map(|b| b.0);
    let rules = Rules::built_in(&base).ok_or_else(|| Bad::new(format!("no built-in rule set called `{base}`")).at(node.span()).suggest(&base, built_in()))?;
    r.done_with_block(&["base"])?;
    if built_in().any(|b| b == name) {
        return Err(Bad::new(format!("`{name}` is the name of a built-in rule set")).at(node.span()));
    }
    let mut set = RuleSet { name, about: String::new(), base, rules, known: Vec::new() };
    let mut switched: Vec<String> = Vec::new();
    for c in children(node) {
        let mut r = Reader::new(c, &names);
        match c.name().value() {
            "about" => set.about = r.arg()?,
            "set" => {
                let (id, value): (String, String) = (r.arg()?, r.arg()?);
                set.rules.set(&id, &value).map_err(|e| match e {
                    SwitchError::Switch => Bad::new(format!("no switch called `{id}`")).at(c.span()).suggest(&id, Rules::SWITCHES.iter().map(|s| s.0)),
                    SwitchError::Value(values) => Bad::new(format!("{id} cannot be `{value}`")).at(c.span()).suggest(&value, values.iter().copied()),
                })?;
                if switched.contains(&id) {
                    return Err(Bad::new(format!("{id} is set twice")).at(c.span()));
                }
                switched.push(id);
            }
            "known" => {
                while let Some(e) = r.next() {
                    let k = string(e.value(), "the id of an invariant").map_err(|b| b.at(e.span()))?;
                    check_name(&k).map_err(|b| b.at(e.span()))?;
                    set.known.push(k);
                }
            }
            other => return Err(Bad::new(format!("`rules` has no `{other}`")).at(c.name().span()).suggest(other, ["about", "set", "known"])),
        }
        r.done(&[])?;
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "schema 1\nrules \"no-takeover\" base=\"tree-until-release\" {\n    about \"a dying wb keeps its slot\"\n    set \"R-CREATE-PUB\" \"exist\"\n    known \"LT-PROG-1\"\n}\n";

    #[test]
    fn a_rule_set_round_trips() {
        let set = parse_rules("x.kdl", TEXT).unwrap();
        assert_eq!(set.differences(), [("R-CREATE-PUB", "exist")]);
        assert_eq!(print_rules(&set), TEXT);
    }

    #[test]
    fn wrong_switches_are_named() {
        let bad = |from: &str, to: &str| parse_rules("x.kdl", &TEXT.replace(from, to)).unwrap_err().one_line();
        assert_eq!(bad("R-CREATE-PUB", "R-CREATE-BUB"), "x.kdl:4:5: no switch called `R-CREATE-BUB`; did you mean `R-CREATE-PUB`?");
        assert_eq!(bad("\"exist\"", "\"exists\""), "x.kdl:4:5: R-CREATE-PUB cannot be `exists`; did you mean `exist`?");
        assert_eq!(bad("tree-until-release", "tree"), "x.kdl:2:1: no built-in rule set called `tree`; there is `mainline`, `wb-list`, `tree-until-release`");
        assert_eq!(bad("no-takeover", "mainline"), "x.kdl:2:1: `mainline` is the name of a built-in rule set");
    }
}
