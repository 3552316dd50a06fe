//! `wbcheck list`: what the other commands accept.

use crate::args::{self, Listed};
use crate::corpus;
use crate::exit::Exit;
use crate::report::{Item, RunEvent, Sink};
use crate::run::{self, Early, say};
use wbexplore::plan::SEARCHES;
use wbexplore::shuttle::SCHEDULERS;
use wbmodel::cases::{OPS, OpInfo, SETUP, TASK, TEARDOWN};
use wbmodel::mutants::TABLE;
use wbmodel::oracles::{INVARIANTS, NOT_REQUIRED, Status};
use wbmodel::rules::Rules;
use wbmodel::scenarios::KINDS;
use wbmodel::sim::{METRICS, Of};

/// Runs the verb.
pub fn run(a: &args::List, sink: &mut dyn Sink) -> Result<Exit, Early> {
    say(sink, run::header("list", None, Vec::new(), 0))?;
    let all = [
        Listed::Cases,
        Listed::Rules,
        Listed::Invariants,
        Listed::Mutants,
        Listed::Switches,
        Listed::Operations,
        Listed::Schedulers,
        Listed::Scenarios,
        Listed::Policies,
        Listed::Metrics,
    ];
    for what in all.into_iter().filter(|w| a.what.is_none_or(|x| x == *w)) {
        for item in items(what)? {
            say(sink, RunEvent::Item(item))?;
        }
    }
    Ok(Exit::AsDeclared)
}

fn items(what: Listed) -> Result<Vec<Item>, Early> {
    let item = |kind, name: &str, about: String| Item { kind, name: name.to_string(), about };
    Ok(match what {
        Listed::Cases => corpus::all_cases()?.into_iter().map(|s| item("case", &s.source, s.case.about)).collect(),
        Listed::Rules => {
            let mut out = Vec::new();
            for name in corpus::rules_names() {
                let set = corpus::rules(name)?;
                let differs: Vec<String> = set.differences().iter().map(|(id, v)| format!("{id} = {v}")).collect();
                let about = match name {
                    "mainline" => "Linux 7.3.4".to_string(),
                    "wb-list" => "first patch: a lookup by id falls back to wb_list".to_string(),
                    "tree-until-release" => "second patch: a dying wb stays in cgwb_tree until it is released".to_string(),
                    _ => format!("{}; {} with {}", set.about, set.base, differs.join(", ")),
                };
                out.push(item("rules", name, about));
            }
            out
        }
        Listed::Invariants => INVARIANTS.iter().map(|i| item("invariant", i.id, format!("{}: {}{}", i.name, i.says, statuses(&i.status)))).collect(),
        Listed::Mutants => {
            let about = |r: &wbmodel::mutants::Row| {
                let by = if r.breaks.is_empty() { "a control, must stay clean".to_string() } else { r.breaks.join(" or ") };
                format!("{}: {} ({}; {by})", r.function, r.says, r.base)
            };
            TABLE.iter().map(|r| item("mutant", r.id, about(r))).collect()
        }
        Listed::Switches => {
            let of = |id: &str| -> String {
                let value = |r: &Rules| r.values().into_iter().find(|v| v.0 == id).map_or("", |v| v.1);
                Rules::BUILT_IN.iter().map(|(name, r)| format!("{name} {}", value(r))).collect::<Vec<_>>().join(", ")
            };
            Rules::SWITCHES.iter().map(|(id, values)| item("switch", id, format!("{} ({})", values.join(" or "), of(id)))).collect()
        }
        Listed::Operations => OPS.iter().map(|o| item("operation", o.name, operation(o))).collect(),
        Listed::Schedulers => {
            let ours = SEARCHES.iter().map(|(name, about)| item("scheduler", name, (*about).to_string()));
            ours.chain(SCHEDULERS.iter().map(|(name, about)| item("scheduler", name, format!("with --engine shuttle: {about}")))).collect()
        }
        Listed::Scenarios => {
            let mut out = Vec::new();
            for name in corpus::scenario_names() {
                let s = corpus::scenario(name)?;
                let variants: Vec<String> = s.all_variants().into_iter().map(|v| v.name).collect();
                out.push(item("scenario", name, format!("{} ({})", s.about, variants.join(", "))));
            }
            out
        }
        Listed::Policies => {
            let knobs = KINDS.iter().filter(|k| k.0 == "policy").flat_map(|k| k.1);
            knobs.map(|(name, what)| item("policy", name, (*what).to_string())).collect()
        }
        Listed::Metrics => METRICS.iter().map(|m| item("metric", m.name, format!("{} (of {})", m.about, whose(m.of)))).collect(),
    })
}

/// What has a metric.
fn whose(of: Of) -> &'static str {
    match of {
        Of::Machine => "the machine",
        Of::Task => "each task, as task.metric, and of all writers together",
        Of::File => "each file, as file.metric",
    }
}

/// An operation's parameters, what it does, and where it may stand.
fn operation(o: &OpInfo) -> String {
    let param = |(name, what, optional): &(&str, &str, bool)| {
        let text = if name.is_empty() { format!("<{what}>") } else { format!("{name}=<{what}>") };
        if *optional { format!("[{text}]") } else { text }
    };
    let params: Vec<String> = o.params.iter().map(param).collect();
    let places: Vec<&str> = [(SETUP, "setup"), (TASK, "task"), (TEARDOWN, "teardown")].iter().filter(|p| o.places & p.0 != 0).map(|p| p.1).collect();
    let says = o.says.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{}{}{says} ({})", params.join(" "), if params.is_empty() { "" } else { ": " }, places.join(", "))
}

/// Where an invariant does not simply hold.
pub fn statuses(status: &[Status; 3]) -> String {
    let mut out = String::new();
    for ((name, _), s) in Rules::BUILT_IN.iter().zip(status) {
        match s {
            Status::Holds => {}
            Status::Violated => out += &format!("; {name}: known to be violated"),
            Status::Conditional(c) if *c == NOT_REQUIRED => out += &format!("; {name}: not required"),
            Status::Conditional(c) => out += &format!("; {name}: {c}"),
        }
    }
    out
}
