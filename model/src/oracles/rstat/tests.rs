//! Each rule sees a violation made on purpose, and a true sequence raises no alarm. Operations happen at once.

use crate::linux::include::cgroup_defs::{Css, MemCgroup, Subsys};
use crate::linux::kernel::cgroup::cgroup::{boot, cgroup_mkdir};
use crate::linux::kernel::cgroup::rstat::css_rstat_exit;
use crate::linux::mm::memcontrol::stats::{
    self, StatItem, mem_cgroup_flush_stats, mem_cgroup_flush_stats_force, mem_cgroup_flush_stats_ratelimited, mem_cgroup_wb_stats, mod_memcg_state, statistics,
};
use crate::linux::{boot_globals, globals};
use crate::mutants::{Mutant, set_mutant};
use crate::policy::FlushPolicy;
use crate::sync::{Config, End, Field, Machine, Var, at_once, with};

const DIRTY: StatItem = StatItem::FileDirty;

/// The root, a child of it, and a grandchild with 200 dirty pages, on two CPUs.
struct World {
    root: MemCgroup,
    parent: MemCgroup,
    child: MemCgroup,
}

fn world(policy: FlushPolicy) -> World {
    set_mutant(None);
    with(|m| m.reset(Config { nr_cpus: 2, ..Config::default() }));
    boot_globals();
    super::super::install();
    stats::boot(policy, 100);
    boot();
    with(|m| m.migrate(0));
    let parent = at_once(cgroup_mkdir(globals().root_cgroup().get(), 1, true, false));
    let child = at_once(cgroup_mkdir(parent, 2, true, false));
    let memcg = |css: Css| css.memcg();
    let w = World {
        root: memcg(globals().root_mem_cgroup().get()),
        parent: memcg(parent.subsys(Subsys::Memory).get()),
        child: memcg(child.subsys(Subsys::Memory).get()),
    };
    at_once(mod_memcg_state(w.child, DIRTY, 200));
    w
}

fn violated() -> Vec<&'static str> {
    with(|m| m.violations.iter().map(|v| v.rule).collect())
}

/// After `f`, the first rule that is violated is `rule`.
#[track_caller]
fn check(rule: &str, policy: FlushPolicy, f: impl FnOnce(&World)) {
    let w = world(policy);
    assert_eq!(violated(), [""; 0]);
    f(&w);
    Machine::finish(End::Complete);
    assert_eq!(violated().first(), Some(&rule), "{:?}", with(|m| m.violations.clone()));
    set_mutant(None);
}

fn flush(memcg: MemCgroup) {
    at_once(mem_cgroup_flush_stats_force(memcg));
}

fn spoil(cell: Var<i64>, by: i64) {
    cell.set(cell.get() + by);
}

/// Takes everything off the first CPU's list without a word.
fn forget_the_list() {
    Var::<u64>::at(statistics().rstat().lhead().get().cpu(0).head().ptr()).set(0);
}

#[test]
fn a_true_sequence_raises_no_alarm() {
    let w = world(FlushPolicy::Always);
    flush(w.child);
    at_once(mod_memcg_state(w.parent, DIRTY, -3));
    with(|m| m.migrate(1));
    at_once(mod_memcg_state(w.child, StatItem::PercpuB, 17));
    at_once(mem_cgroup_flush_stats(w.root));
    flush(w.root);
    assert_eq!(at_once(mem_cgroup_wb_stats(w.parent, 0)).dirty, 197);
    Machine::finish(End::Complete);
    assert_eq!(violated(), [""; 0]);
}

#[test]
fn a_total_that_is_no_sum_is_seen() {
    check("TH-RST-4", FlushPolicy::Always, |w| {
        spoil(w.parent.vmstats().get().state().item(DIRTY), 1);
        flush(w.root);
    });
    check("TH-RST-1", FlushPolicy::Always, |w| {
        // All totals of the chain agree, and none is right.
        for m in [w.root, w.parent, w.child] {
            spoil(m.vmstats().get().state().item(DIRTY), 1);
        }
        spoil(w.child.vmstats().get().state_local().item(DIRTY), 1);
        flush(w.root);
    });
}

#[test]
fn a_gate_that_lets_too_much_pass_is_seen() {
    let blind = |m: MemCgroup| {
        at_once(mod_memcg_state(m, DIRTY, 100));
        m.vmstats().get().stats_updates().set(0);
        at_once(mem_cgroup_flush_stats(m));
    };
    check("TH-RST-2", FlushPolicy::Always, |w| blind(w.child));
    check("TH-RST-2c", FlushPolicy::Always, |w| blind(w.parent));
    check("TH-RST-10", FlushPolicy::Always, |w| {
        flush(w.root);
        w.child.vmstats().get().stats_updates().set(129);
        at_once(mem_cgroup_flush_stats(w.child));
    });
}

#[test]
fn a_reader_that_trusts_too_long_is_seen() {
    check("TH-RST-3", FlushPolicy::Ratelimited, |w| {
        at_once(mod_memcg_state(w.child, DIRTY, 100));
        globals().jiffies().set(globals().jiffies().get() + 401);
        statistics().flush_last_time().set(globals().jiffies().get());
        at_once(mem_cgroup_flush_stats_ratelimited(w.child));
    });
}

#[test]
fn a_flush_that_passes_changes_by_is_seen() {
    check("TH-RST-5", FlushPolicy::Always, |w| {
        forget_the_list();
        flush(w.root);
    });
    check("TH-RST-8", FlushPolicy::Always, |_| forget_the_list());
    check("TH-RST-9", FlushPolicy::Always, |w| {
        with(|m| m.migrate(1));
        flush(w.root);
        with(|m| m.migrate(0));
        set_mutant(Some(Mutant::VRstNoExitFlush));
        at_once(mod_memcg_state(w.child, DIRTY, 1));
        at_once(css_rstat_exit(w.child.css()));
    });
}

#[test]
fn a_counter_that_is_not_exact_is_seen() {
    check("TH-RST-6", FlushPolicy::AtomicPerMemcg, |w| {
        spoil(w.parent.vmstats().get().exact_dirty(), 1);
        at_once(mem_cgroup_wb_stats(w.parent, 0));
    });
}

#[test]
fn a_tree_that_is_not_one_is_seen() {
    check("TH-RST-7", FlushPolicy::Always, |w| {
        w.parent.css().rstat_cpu().get().cpu(1).updated_next().set(w.root.css());
        flush(w.child);
    });
    check("TH-RST-7", FlushPolicy::Always, |w| {
        w.root.css().rstat_cpu().get().cpu(1).updated_children().set(w.parent.css());
        flush(w.child);
    });
}

#[test]
fn a_negative_number_of_pages_is_seen() {
    check("TH-RST-11", FlushPolicy::Always, |w| {
        flush(w.root);
        w.parent.vmstats().get().state_local().item(StatItem::InactiveFile).set(-1);
    });
    check("TH-RST-13", FlushPolicy::Ratelimited, |w| {
        set_mutant(Some(Mutant::H051));
        w.parent.vmstats().get().state().item(DIRTY).set(-1);
        at_once(mem_cgroup_wb_stats(w.parent, 0));
    });
}

#[test]
fn a_lock_that_is_held_too_long_is_seen() {
    check("TH-RST-12", FlushPolicy::Always, |w| {
        set_mutant(Some(Mutant::H066));
        with(|m| m.migrate(1));
        at_once(mod_memcg_state(w.child, DIRTY, 1));
        flush(w.root);
    });
}
