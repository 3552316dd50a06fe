//! Life cycles under one plain schedule: what must hold before any interleaving is looked at.

mod half_done;
mod random;

use super::*;
use crate::linux::include::backing_dev::wb_get_create_current;
use crate::linux::include::backing_dev_defs::{BackingDevInfo, BdiWriteback};
use crate::linux::include::cgroup_defs::{Cgroup, Css, Subsys};
use crate::linux::kernel::cgroup::cgroup::{
    self, cgroup_attach_task, cgroup_disable_controller, cgroup_enable_controller, cgroup_mkdir, cgroup_rmdir, cgroup_task_dead, css_from_id,
};
use crate::linux::{MAX_BDI_ID, MAX_CSS_ID, boot_globals};
use crate::mutants::{Mutant, set_mutant};
use crate::rules::{Rules, TreeOut, set_rules};
use crate::sync::{Config, Fut, Gfp, Level, Machine, Ptr, Stop, spawn, with};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

thread_local! {
    static BODIES: RefCell<Vec<Option<Fut>>> = const { RefCell::new(Vec::new()) };
    /// Slots that are not scheduled.
    static PAUSED: Cell<u64> = const { Cell::new(0) };
}

/// Lets tasks go on until `done` or until none can, `pick` choosing among the enabled slots. False after a fatal violation.
fn schedule(done: impl Fn() -> bool, mut pick: impl FnMut(u64) -> u32) -> bool {
    let max = with(|m| m.config.max_steps);
    for _ in 0..max {
        if done() {
            return true;
        }
        for t in with(|m| std::mem::take(&mut m.spawned)) {
            BODIES.with_borrow_mut(|b| {
                if b.len() <= t.slot {
                    b.resize_with(t.slot + 1, || None);
                }
                b[t.slot] = Some(t.body);
            });
        }
        let enabled = with(|m| m.enabled_mask()) & !PAUSED.get();
        if enabled == 0 {
            return true;
        }
        let slot = pick(enabled) as usize;
        let mut body = BODIES.with_borrow_mut(|b| b[slot].take()).expect("a live slot has a body");
        match catch_unwind(AssertUnwindSafe(|| Machine::advance(slot, &mut body))) {
            Ok(true) => {}
            Ok(false) => BODIES.with_borrow_mut(|b| b[slot] = Some(body)),
            Err(p) if p.is::<Stop>() => return false,
            Err(p) => resume_unwind(p),
        }
    }
    with(|m| m.report("LT-PROG-1", "the schedule does not end".into()));
    true
}

fn schedule_plainly(done: impl Fn() -> bool) {
    if !schedule(done, u64::trailing_zeros) {
        panic!("{:?}", with(|m| m.violations.clone()));
    }
}

fn stuck() -> bool {
    with(|m| m.tasks.iter().any(|t| t.live && !t.daemon))
}

/// Runs a task under a plain schedule; `None` if it does not end within the step budget.
fn attempt<T: 'static>(f: impl Future<Output = T> + 'static) -> Option<T> {
    let out = Rc::new(RefCell::new(None));
    let result = out.clone();
    spawn(0, Level::Task, None, Box::pin(async move { *result.borrow_mut() = Some(f.await) }));
    schedule_plainly(|| out.borrow().is_some());
    out.take()
}

/// Runs a task to its end, and others only as far as the scheduler happens to.
fn now<T: 'static>(f: impl Future<Output = T> + 'static) -> T {
    attempt(f).expect("the task ended")
}

/// Runs queued works and callbacks until none can go on; nothing may be left that never can.
fn settle() {
    schedule_plainly(|| false);
    assert!(!stuck(), "a task is stuck");
}

struct World {
    root: Cgroup,
    bdi: BackingDevInfo,
}

fn world(rules: Rules) -> World {
    set_rules(rules);
    // What an earlier execution left must not release its locks in this one.
    with(|m| m.aborted = true);
    BODIES.with_borrow_mut(Vec::clear);
    PAUSED.set(0);
    with(|m| m.reset(Config::default()));
    boot_globals();
    cgroup::boot();
    boot();
    Machine::finish_boot();
    let bdi = bdi_alloc();
    assert_eq!(now(bdi_register(bdi)), 0);
    World { root: globals().root_cgroup().get(), bdi }
}

fn clean() {
    let v = with(|m| m.violations.clone());
    assert!(v.is_empty(), "{v:?}");
}

fn alive(p: Ptr) -> bool {
    with(|m| m.mem.live(p))
}

fn memcg(cgrp: Cgroup) -> Css {
    cgrp.subsys_memory().get()
}

#[test]
fn wb_and_memcg_are_freed_and_the_id_is_reused_under_every_rule_set() {
    for (name, rules) in Rules::BUILT_IN {
        let w = world(*rules);
        let cg = now(cgroup_mkdir(w.root, 1, true, true));
        let css = memcg(cg);
        assert_eq!(css.id().get(), 2, "{name}");
        let wb = now(wb_get_create(w.bdi, css, Gfp::Kernel));
        assert_eq!(now(wb_get_lookup(w.bdi, css)), wb, "{name}");
        assert_eq!(wb.blkcg_css().get(), cg.subsys_io().get(), "{name}");

        assert_eq!(now(cgroup_rmdir(cg)), 0);
        settle();
        assert!(wb.dying(), "{name}");
        let found = now(wb_get_lookup(w.bdi, css));
        assert_eq!(found.is_null(), rules.tree_out == TreeOut::Kill, "{name}: a dying wb is found only where it stays in the tree");
        assert!(now(wb_get_create(w.bdi, css, Gfp::Kernel)).is_null(), "{name}: the gate is closed");
        assert_eq!(now(css_from_id(2, Subsys::Memory)), css, "{name}: still pinned by its wb");

        now(wb.put_many(if found.is_null() { 2 } else { 3 }));
        settle();
        assert!(!alive(wb.ptr()) && !alive(css.ptr()) && !alive(cg.ptr()), "{name}");
        assert!(w.bdi.cgwb_tree().items().is_empty(), "{name}");

        let again = now(cgroup_mkdir(w.root, 2, true, false));
        assert_eq!(memcg(again).id().get(), 2, "{name}");
        clean();
    }
}

#[test]
fn a_taken_over_slot_survives_the_release_of_the_old_wb() {
    let w = world(Rules::tree_until_release());
    let cg = now(cgroup_mkdir(w.root, 1, true, false));
    let css = memcg(cg);
    let old = now(wb_get_create(w.bdi, css, Gfp::Kernel));
    assert!(old.blkcg_css().get().is_root());
    assert_eq!(now(cgroup_enable_controller(cg, Subsys::Io)), 0);
    assert_eq!(now(wb_get_lookup(w.bdi, css)), old, "by id it is found whatever its blkcg");
    now(old.put());
    let new = now(wb_get_create(w.bdi, css, Gfp::Kernel));
    assert!(new != old && old.dying() && !new.dying());
    now(old.put());
    settle();
    assert!(!alive(old.ptr()));
    assert_eq!(w.bdi.cgwb_tree().items(), [(2, new.ptr())]);
    assert_eq!(now(wb_get_create_current(w.bdi, cg, Gfp::Kernel)), new);
    clean();
}

#[test]
fn a_mismatch_is_killed_and_replaced_in_mainline() {
    let w = world(Rules::mainline());
    let cg = now(cgroup_mkdir(w.root, 1, true, true));
    let css = memcg(cg);
    let old = now(wb_get_create(w.bdi, css, Gfp::Kernel));
    assert_eq!(now(cgroup_disable_controller(cg, Subsys::Io)), 0);
    assert!(now(wb_get_lookup(w.bdi, css)).is_null(), "the effective blkcg changed with the kill of the css");
    let new = now(wb_get_create(w.bdi, css, Gfp::Kernel));
    assert!(old.dying() && new.blkcg_css().get().is_root());
    now(old.put());
    settle();
    assert!(!alive(old.ptr()));
    assert!(cg.subsys_io().get().is_null());
    clean();
}

#[test]
fn unregister_shuts_every_wb_down_and_the_last_one_frees_the_bdi() {
    for (name, rules) in Rules::BUILT_IN {
        let w = world(*rules);
        let cg = now(cgroup_mkdir(w.root, 1, true, true));
        let (a, b) = (now(wb_get_create(w.bdi, memcg(cg), Gfp::Kernel)), {
            let other = now(cgroup_mkdir(w.root, 2, true, false));
            now(wb_get_create(w.bdi, memcg(other), Gfp::Kernel))
        });
        assert_eq!(now(bdi_get_by_id(1)), w.bdi);
        now(bdi_put(w.bdi));
        now(bdi_unregister(w.bdi));
        now(bdi_put(w.bdi));
        assert!(now(bdi_get_by_id(1)).is_null(), "{name}");
        assert!(w.bdi.wb_list().is_empty() && a.dying() && b.dying(), "{name}");
        assert!(now(wb_get_create(w.bdi, memcg(cg), Gfp::Kernel)).is_null(), "{name}");
        settle();
        assert!(alive(a.ptr()) && alive(w.bdi.ptr()), "{name}: held by references");
        for wb in [a, b] {
            now(wb.put());
        }
        settle();
        assert!(!alive(a.ptr()) && !alive(b.ptr()) && !alive(w.bdi.ptr()), "{name}");
        clean();
    }
}

#[test]
fn a_parent_css_is_offlined_after_its_child() {
    let w = world(Rules::mainline());
    let parent = now(cgroup_mkdir(w.root, 1, true, true));
    let child = now(cgroup_mkdir(parent, 2, true, true));
    let (pcss, ccss) = (memcg(parent), memcg(child));
    assert_eq!(now(cgroup_rmdir(parent)), -16);
    assert_eq!(now(cgroup_rmdir(child)), 0);
    assert_eq!(now(cgroup_rmdir(parent)), 0);
    settle();
    assert!(!alive(pcss.ptr()) && !alive(ccss.ptr()) && !alive(parent.ptr()) && !alive(child.ptr()));
    clean();
}

#[test]
fn a_task_that_still_runs_defers_the_kill_of_its_css() {
    let w = world(Rules::mainline());
    let cg = now(cgroup_mkdir(w.root, 1, true, false));
    now(cgroup_attach_task(cg));
    let css = memcg(cg);
    assert_eq!(now(cgroup_rmdir(cg)), 0);
    settle();
    assert!(css.is_dying() && !css.refcnt().is_dying());
    now(cgroup_task_dead(cg));
    settle();
    assert!(!alive(css.ptr()));
    clean();
}

#[test]
fn statistics_visit_every_wb() {
    let w = world(Rules::mainline());
    let cg = now(cgroup_mkdir(w.root, 1, true, true));
    let wb: BdiWriteback = now(wb_get_create(w.bdi, memcg(cg), Gfp::Kernel));
    assert_eq!(now(cgwb_debug_stats_show(w.bdi)), 2);
    assert!(!wb.is_null());
    clean();
}

/// A wb of a removed child is the last to go. True if its parent's blkgs were still there before that.
fn parent_blkgs_outlive_the_childs_wb() -> bool {
    let w = world(Rules::mainline());
    let parent = now(cgroup_mkdir(w.root, 1, true, true));
    let child = now(cgroup_mkdir(parent, 2, true, true));
    let blkcg = parent.subsys_io().get().blkcg();
    let wb = now(wb_get_create(w.bdi, memcg(child), Gfp::Kernel));
    now(cgroup_rmdir(child));
    now(cgroup_rmdir(parent));
    settle();
    let there = !blkcg.blkgs_destroyed().get();
    now(wb.put());
    settle();
    assert!(!alive(blkcg.ptr()));
    there
}

#[test]
fn a_child_pins_the_blkgs_of_its_parent() {
    assert!(parent_blkgs_outlive_the_childs_wb());
    set_mutant(Some(Mutant::H014));
    let there = parent_blkgs_outlive_the_childs_wb();
    set_mutant(None);
    assert!(!there, "H-014");
}

#[test]
fn a_task_that_leaves_early_lets_the_remover_kill() {
    let w = world(Rules::mainline());
    let cg = now(cgroup_mkdir(w.root, 1, true, true));
    now(cgroup_attach_task(cg));
    now(cgroup_task_dead(cg));
    let css = memcg(cg);
    assert_eq!(now(cgroup_rmdir(cg)), 0);
    assert!(css.refcnt().is_dying());
    settle();
    assert!(!alive(css.ptr()));
    clean();
}

#[test]
fn bdi_ids_run_out_with_an_errno() {
    let w = world(Rules::mainline());
    for _ in 1..MAX_BDI_ID - 1 {
        assert_eq!(now(bdi_register(bdi_alloc())), 0);
    }
    let last = bdi_alloc();
    assert_eq!(now(bdi_register(last)), -28);
    now(bdi_put(last));
    assert!(!alive(last.ptr()) && alive(w.bdi.ptr()));
    clean();
}

#[test]
fn css_ids_run_out_with_no_cgroup() {
    let w = world(Rules::mainline());
    for i in 2..MAX_CSS_ID {
        assert!(!now(cgroup_mkdir(w.root, i, true, false)).is_null());
    }
    assert!(now(cgroup_mkdir(w.root, MAX_CSS_ID, true, false)).is_null());
    settle();
    clean();
}
