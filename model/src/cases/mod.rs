//! Cases: scenarios, what they must reach and what must hold, as KDL text and as a typed form.
//!
//! Main type: [`Case`]. Main functions: [`parse`], [`print`], [`load`]; `parse(print(c)) == c`.
//! Contract: a parsed case is well formed: every name is resolved, every operation stands where it may, sizes are within
//! [`limits`]. Bad input is a [`TextError`](crate::text::TextError) with a place in the text, never a panic.
//! Must not know: the machine, kernel objects; `world` turns a case into an execution.
//!
//! ```text
//! schema 1
//! case "removed-owner" { about "..."; source "seed 001" }
//! machine cpus=4 preempt-rcu=#true timers=0 faults=1
//! ask "cgwb_create"                                       // allocation sites and choice points that may go wrong
//! setup { bdi "sda"; cgroup "pod" io=#true; cgroup "pod/old"; sb "fs" bdi="sda"; inode "f1" sb="fs"; dirty "f1" as="pod/old" }
//! task "admin" { rmdir "pod/old" }
//! task "flusher" cpu=1 { by-id "sda" id="pod/old" }
//! teardown { close "f1"; umount "fs"; unplug "sda" }
//! reach "cgwb_kill" "cgroup_writeback_by_id"
//! expect "mainline" violates "LT-LOOK-3"
//! expect "*" holds
//! search engine="dpor" preemptions=3 executions=20000
//! finding rules="mainline" violation="LT-LOOK-3" { run "admin" steps=12; choose "cgwb_create" 1 }
//! ```

mod ast;
pub mod limits;
mod ops;
mod parse;
mod print;
mod rule_set;
mod value;

pub use ast::{BdiRef, Case, CgroupRef, Decision, Expect, Finding, InodeRef, Irq, MachineSpec, Names, SCHEMA, SbRef, Search, Span, Stmt, Task, TaskRef, WbRef};
pub use ops::{OPS, Op, OpInfo, SETUP, TASK, TEARDOWN, info};
pub use parse::{load, parse};
pub use print::{print, print_op};
pub use rule_set::{RuleSet, load_rules, parse_rules, print_rules};
pub use value::{CssId, FlushEntry, Ref};
