//! Memory statistics: values, what counts as pending, and the order in which a flush visits. The mirrored text itself runs here, on a
//! machine of its own, operations happening at once.

use super::cell::{Cell, Cpus, Flag, Label, words};
use super::sequences::{Sequence, follow};
use super::table::{Unfit, Vectors, columns};
use crate::linux::include::cgroup_defs::MemCgroup;
use crate::linux::mm::memcontrol::stats::{
    StatItem, boot_alone, mem_cgroup_flush_stats, mem_cgroup_flush_stats_force, memcg_alone, memcg_page_state, mod_memcg_state,
};
use crate::policy::FlushPolicy;
use crate::sync::{Kind, Tp, at_once, with};
use std::fmt;

words! {
    /// Operation on the statistics.
    RstatOp { Mod = "mod", Flush = "flush" }
}

/// Memcgs of one sequence at most.
const MAX_MEMCGS: usize = 64;
/// CPUs of one sequence at most: what belongs to all CPUs is allocated in one piece.
const MAX_CPUS: u32 = 1024;

/// Parents of memcgs 0, 1, ...: -1 for the root, which is memcg 0, and otherwise an earlier one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tree(Vec<usize>);

impl Cell for Tree {
    fn parse(text: &str) -> Result<Tree, String> {
        let parse = || {
            let rest = text.strip_prefix("-1")?;
            let parents: Vec<usize> = rest.split_ascii_whitespace().map(|p| p.parse().ok()).collect::<Option<_>>()?;
            let fits = parents.len() < MAX_MEMCGS && parents.iter().enumerate().all(|(i, p)| *p <= i);
            fits.then_some(Tree(parents))
        };
        parse().ok_or_else(|| format!("-1, then for each of at most {} more memcgs the number of an earlier one", MAX_MEMCGS - 1))
    }
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("-1")?;
        self.0.iter().try_for_each(|p| write!(f, " {p}"))
    }
}

impl Tree {
    /// Is the memcg `top` or below it?
    fn below(&self, memcg: usize, top: usize) -> bool {
        let mut at = memcg;
        while at != top && at > 0 {
            at = self.0[at - 1];
        }
        at == top
    }
}

columns! {
    /// Inputs of `memcg_rstat_sequence.csv`.
    RstatIn {
        seq: u64, step: u64, nr_cpus: Cpus, tree_parents: Tree, op: RstatOp, memcg: u32, cpu: u32, delta_pages: i32, flush_force: Flag,
    }
    /// Its outputs.
    RstatOut {
        flushed: Flag, flush_order_memcg_at_cpu: Label, true_sum_pages: i64, read_state_pages: u64, vmstats_stats_updates: i64,
        percpu_stats_updates_cpu: i64, root_read_state_pages: u64, root_stats_updates: i64,
    }
}

/// `memcg_rstat_sequence.csv`
pub struct Rstat;

/// The memcgs of a sequence, on this thread's machine.
pub struct Memcgs {
    nr_cpus: u32,
    tree: Tree,
    memcgs: Vec<MemCgroup>,
    /// Pages that each was asked to count.
    own: Vec<i64>,
}

/// The sequence that `memcg_rstat_sequence.csv` is in.
#[derive(Default)]
pub struct RstatState(Option<Sequence<Memcgs>>);

impl Memcgs {
    fn new(nr_cpus: u32, tree: &Tree) -> Memcgs {
        let mut memcgs = vec![boot_alone(nr_cpus, FlushPolicy::Ratelimited, 100)];
        for &p in &tree.0 {
            memcgs.push(memcg_alone(memcgs[p]));
        }
        // For the order of visits.
        with(|m| m.log_on = true);
        Memcgs { nr_cpus, tree: tree.clone(), own: vec![0; memcgs.len()], memcgs }
    }

    /// Pairs of memcg and CPU that were visited since the log was emptied.
    fn visits(&self) -> String {
        let visits: Vec<String> = with(|m| {
            let calls = m.log.iter().filter(|e| e.kind == Kind::Trace && e.tp == Tp::Call && e.func.is_some_and(|f| f.name == "mem_cgroup_css_rstat_flush"));
            let number = |p| self.memcgs.iter().position(|x| x.ptr() == p);
            calls.filter_map(|e| Some(format!("{}@{}", number(e.obj)?, e.val))).collect()
        });
        visits.join(" ")
    }
}

impl Vectors for Rstat {
    const FILE: &'static str = "memcg_rstat_sequence.csv";
    type In = RstatIn;
    type Out = RstatOut;
    type State = RstatState;
    fn step(state: &mut RstatState, i: &RstatIn) -> Result<RstatOut, Unfit> {
        if i.nr_cpus.0 > MAX_CPUS {
            return Err(("nr_cpus", format!("at most {MAX_CPUS}")));
        }
        let w = follow(&mut state.0, i.seq, i.step, || Memcgs::new(i.nr_cpus.0, &i.tree_parents))?;
        if i.nr_cpus.0 != w.nr_cpus {
            return Err(("nr_cpus", format!("{}, as at the beginning of the sequence", w.nr_cpus)));
        }
        if i.tree_parents != w.tree {
            return Err(("tree_parents", format!("{}, as at the beginning of the sequence", w.tree)));
        }
        if i.cpu >= w.nr_cpus {
            return Err(("cpu", format!("a CPU below {}", w.nr_cpus)));
        }
        let at = i.memcg as usize;
        let Some(&memcg) = w.memcgs.get(at) else { return Err(("memcg", format!("a memcg below {}", w.memcgs.len()))) };
        with(|m| {
            m.log.clear();
            m.migrate(i.cpu);
        });
        let mut flushed = false;
        match i.op {
            RstatOp::Mod => {
                w.own[at] += i64::from(i.delta_pages);
                at_once(mod_memcg_state(memcg, StatItem::FileDirty, i64::from(i.delta_pages)));
            }
            RstatOp::Flush if i.flush_force.is_set() => flushed = at_once(mem_cgroup_flush_stats_force(memcg)).ran,
            RstatOp::Flush => flushed = at_once(mem_cgroup_flush_stats(memcg)).ran,
        }
        let read = |m: MemCgroup| at_once(memcg_page_state(m, StatItem::FileDirty));
        let root = w.memcgs[0];
        Ok(RstatOut {
            flushed: flushed.into(),
            flush_order_memcg_at_cpu: Label(w.visits()),
            true_sum_pages: (0..w.own.len()).filter(|m| w.tree.below(*m, at)).map(|m| w.own[m]).sum(),
            read_state_pages: read(memcg),
            vmstats_stats_updates: memcg.vmstats().get().stats_updates().get(),
            percpu_stats_updates_cpu: memcg.vmstats_percpu().get().cpu(i.cpu).stats_updates().get(),
            root_read_state_pages: read(root),
            root_stats_updates: root.vmstats().get().stats_updates().get(),
        })
    }
}
