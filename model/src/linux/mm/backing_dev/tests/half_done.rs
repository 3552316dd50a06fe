//! Half-done variants of "in the tree until release", each in the shortest story that shows what it does wrong.

use super::*;
use crate::sync::{Choice, Chooser, Kind, TaskLabel, set_chooser};

/// Under V2: what `story` yields, first without and then with the mutant.
fn compare<T>(m: Mutant, story: impl Fn(&World, &dyn Fn()) -> T) -> (T, T) {
    let run = |mutant: Option<Mutant>| {
        set_mutant(None);
        let w = world(Rules::tree_until_release());
        let out = story(&w, &|| set_mutant(mutant));
        set_mutant(None);
        out
    };
    (run(None), run(Some(m)))
}

/// A memcg that was offlined while somebody holds its wb.
fn offlined(w: &World, io: bool) -> (Css, BdiWriteback) {
    let cg = now(cgroup_mkdir(w.root, 1, true, io));
    let css = memcg(cg);
    let wb = now(wb_get_create(w.bdi, css, Gfp::Kernel));
    now(cgroup_rmdir(cg));
    settle();
    (css, wb)
}

/// A live memcg with a wb, held, whose effective blkcg has changed since.
fn reassociated(w: &World) -> (Cgroup, Css, BdiWriteback) {
    let cg = now(cgroup_mkdir(w.root, 1, true, false));
    let wb = now(wb_get_create(w.bdi, memcg(cg), Gfp::Kernel));
    assert_eq!(now(cgroup_enable_controller(cg, Subsys::Io)), 0);
    (cg, memcg(cg), wb)
}

#[test]
fn a_dying_wb_is_not_found_by_id() {
    for (m, io) in [(Mutant::V2M01, false), (Mutant::V2M24, false), (Mutant::V2M10, true)] {
        let found = compare(m, |w, mutate| {
            mutate();
            let (css, wb) = offlined(w, io);
            now(wb_get_lookup(w.bdi, css)) == wb
        });
        assert_eq!(found, (true, false), "{m:?}");
    }
}

#[test]
fn without_takeover_creation_spins_or_fails() {
    let story = |w: &World, mutate: &dyn Fn()| {
        mutate();
        let (_, css, old) = reassociated(w);
        attempt(wb_get_create(w.bdi, css, Gfp::Kernel)).map(|new| !new.is_null() && new != old)
    };
    assert_eq!(compare(Mutant::V2M03, story), (Some(true), None));
    assert_eq!(compare(Mutant::V2M04, story), (Some(true), Some(false)));
}

#[test]
fn a_dying_match_makes_creation_spin_or_hands_it_out() {
    let story = |w: &World, mutate: &dyn Fn()| {
        let (css, old) = offlined(w, false);
        mutate();
        attempt(wb_get_create(w.bdi, css, Gfp::Kernel)).map(|wb| (wb.is_null(), wb == old))
    };
    assert_eq!(compare(Mutant::V2M06, story), (Some((true, false)), None));
    assert_eq!(compare(Mutant::V2M08, story), (Some((true, false)), Some((false, true))));
}

#[test]
fn a_task_is_throttled_by_a_dying_wb() {
    let found = compare(Mutant::V2M09, |w, mutate| {
        let cg = now(cgroup_mkdir(w.root, 1, true, false));
        let wb = now(wb_get_create(w.bdi, memcg(cg), Gfp::Kernel));
        now(bdi_unregister(w.bdi));
        mutate();
        now(wb_get_create_current(w.bdi, cg, Gfp::Kernel)) == wb
    });
    assert_eq!(found, (false, true));
}

#[test]
fn without_the_comparison_the_old_blkcg_stays() {
    let kept = compare(Mutant::V2M11, |w, mutate| {
        mutate();
        let (_, css, old) = reassociated(w);
        now(wb_get_create(w.bdi, css, Gfp::Kernel)) == old
    });
    assert_eq!(kept, (false, true));
}

#[test]
fn unregister_that_stops_at_a_dying_slot_leaves_a_live_wb() {
    let live = compare(Mutant::V2M19, |w, mutate| {
        offlined(w, false);
        let cg = now(cgroup_mkdir(w.root, 2, true, false));
        let wb = now(wb_get_create(w.bdi, memcg(cg), Gfp::Kernel));
        mutate();
        now(bdi_unregister(w.bdi));
        !wb.dying()
    });
    assert_eq!(live, (false, true));
}

/// The violations after this story: a creator stands before its second locked section, in which it will take over `old`'s slot;
/// meanwhile `old` is freed with its tree node, and another wb gets the slot and dies.
fn slot_moves_under_a_creator(w: &World, mutate: &dyn Fn()) -> Vec<&'static str> {
    let (cg, css, old) = reassociated(w);
    mutate();
    let bdi = w.bdi;
    spawn(1, Level::Task, None, Box::pin(async move { wb_get_create(bdi, css, Gfp::Kernel).await.put().await }));
    let creator = with(|m| m.tasks.iter().position(|t| t.live && t.label == TaskLabel::User(1))).expect("it was spawned");
    let sections = Cell::new(0);
    let before_lock = || {
        let op = with(|m| m.tasks[creator].pending);
        if op.kind == Kind::SpinLock && op.obj == globals().cgwb_lock().ptr() {
            sections.set(sections.get() + 1);
        }
        sections.get() == 2
    };
    PAUSED.set(!(1 << creator));
    schedule_plainly(before_lock);
    PAUSED.set(1 << creator);

    now(old.put());
    schedule_plainly(|| false);
    assert!(!alive(old.ptr()));
    let new = now(wb_get_create(bdi, css, Gfp::Kernel));
    assert_eq!(now(cgroup_disable_controller(cg, Subsys::Io)), 0);
    without_memory(|| assert!(now(wb_get_create(bdi, css, Gfp::Kernel)).is_null()));
    assert!(new.dying());

    PAUSED.set(0);
    schedule(|| false, u64::trailing_zeros);
    with(|m| m.violations.iter().map(|v| v.rule).collect())
}

#[test]
fn a_slot_looked_up_before_the_lock_may_be_gone() {
    assert_eq!(compare(Mutant::V2M30, slot_moves_under_a_creator), (vec![], vec!["LT-MEM-1"]));
}

struct NoMemory;

impl Chooser for NoMemory {
    fn choose(&mut self, _: &Machine, c: Choice) -> u32 {
        u32::from(c == Choice::AllocFails("cgwb_create"))
    }
}

fn without_memory(f: impl FnOnce()) {
    with(|m| m.config.ask = vec!["cgwb_create"]);
    set_chooser(Some(Rc::new(RefCell::new(NoMemory))));
    f();
    set_chooser(None);
}

#[test]
fn takeover_in_two_parts_loses_the_dying_wb_when_memory_runs_out() {
    let found = compare(Mutant::V2M21, |w, mutate| {
        let (_, css, old) = reassociated(w);
        mutate();
        for _ in 0..2 {
            without_memory(|| assert!(now(wb_get_create(w.bdi, css, Gfp::Kernel)).is_null()));
        }
        assert!(old.dying());
        now(wb_get_lookup(w.bdi, css)) == old
    });
    assert_eq!(found, (true, false));
}
