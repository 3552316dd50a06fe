//! Writes a scenario as text, in the order in which the documentation shows a file.

use super::ast::*;
use super::form::{Bytes, Form, Maybe, Names, Node, OfFile, OfFs, OfMemcg, Percent, When};
use crate::policy::Policy;
use crate::text::block;
use crate::text::quote;
use std::fmt::Write;

/// The text of a scenario: what [`parse`](super::parse) turns back into an equal one.
pub fn print(s: &Scenario) -> String {
    let mut out = plain(s);
    for v in &s.variants {
        let set: Vec<String> = v.set.iter().map(|(path, value)| format!("set {} {}", quote(path), quote(value))).collect();
        block(&mut out, &format!("variant {}", quote(&v.name)), &set);
    }
    for e in &s.expect {
        let _ = writeln!(out, "expect {} {}{}", quote(&e.variant), quote(&e.metric), e.write(&Expect::default(), &Names::default()));
    }
    out
}

/// The text without variants and expectations.
pub(super) fn plain(s: &Scenario) -> String {
    let names = Names {
        memcgs: s.memcgs.iter().map(|m| m.name.clone()).collect(),
        disks: s.disks.iter().map(|d| d.name.clone()).collect(),
        filesystems: s.filesystems.iter().map(|f| f.name.clone()).collect(),
        files: s.files.iter().map(|f| f.name.clone()).collect(),
    };
    let mut out = format!("schema {SCHEMA}\n");
    let head: Vec<String> = [("about", &s.about), ("source", &s.source)].iter().filter(|h| !h.1.is_empty()).map(|(k, v)| format!("{k} {}", quote(v))).collect();
    block(&mut out, &format!("scenario {}{}", quote(&s.name), s.write(&Scenario::default(), &names)), &head);
    let _ = writeln!(out, "machine{}", s.machine.write(&Machine::default(), &names));
    if s.policy != Policy::mainline() {
        let _ = writeln!(out, "policy{}", s.policy.write(&Policy::mainline(), &names));
    }
    let mut node = |name: &str, rest: String, kind: &str, lines: &[String]| block(&mut out, &format!("{kind} {}{rest}", quote(name)), lines);
    for m in &s.memcgs {
        node(&m.name, m.write(&Memcg::default(), &names), Memcg::KIND, &[]);
    }
    for d in &s.disks {
        let caps = d.caps.iter().map(|c| format!("cap {}{}", super::form::AnyMemcg::write(&c.memcg, &names), c.write(&Cap::default(), &names)));
        let faults = d.faults.iter().map(|f| format!("fault {}{}", quote(&f.name), f.write(&Fault::default(), &names)));
        let lines: Vec<String> = caps.chain(faults).collect();
        node(&d.name, d.write(&Disk { read_bps: d.write_bps, ..Disk::default() }, &names), Disk::KIND, &lines);
    }
    for f in &s.filesystems {
        let fuse = if f.fuse { " fuse=#true" } else { "" };
        node(&f.name, format!("{}{fuse}", f.write(&Filesystem::of(f.fuse), &names)), Filesystem::KIND, &[]);
    }
    for f in &s.files {
        node(&f.name, f.write(&File::default(), &names), File::KIND, &[]);
    }
    for w in &s.writers {
        node(&w.name, w.write(&Writer::default(), &names), Writer::KIND, &[]);
    }
    for d in &s.direct {
        node(&d.name, d.write(&Direct::default(), &names), Direct::KIND, &[]);
    }
    for r in &s.stat_readers {
        node(&r.name, r.write(&StatReader::default(), &names), StatReader::KIND, &[]);
    }
    for e in &s.events {
        node(&e.name, event(e, &names), "event", &[]);
    }
    out
}

fn event(e: &Event, names: &Names) -> String {
    let what = match &e.what {
        Action::Remove(m) => format!("\"remove\" memcg={}", OfMemcg::write(m, names)),
        Action::Sync(fs) => format!("\"sync\" fs={}", OfFs::write(fs, names)),
        Action::SetMax(m, max) => format!("\"set-max\" memcg={} max={}", OfMemcg::write(m, names), Maybe::<Bytes>::write(max, names)),
        Action::SetDirtyRatio(r) => format!("\"set-dirty-ratio\" ratio={}", Percent::write(r, names)),
        Action::Truncate(f) => format!("\"truncate\" file={}", OfFile::write(f, names)),
    };
    format!(" at={} do={what}", When::write(&e.at_us, names))
}
