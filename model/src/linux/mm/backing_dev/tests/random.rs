//! Random schedules of small crowds on one bdi: what memory, lists, locks and the end state show without any oracle.

use super::*;
use crate::linux::kernel::cgroup::cgroup::{css_put, css_tryget};
use crate::rules::WalkRecheck;
use crate::sync::{AllocInfo, cond_resched, rcu_read_lock};
use std::collections::BTreeMap;
use std::ops::Range;

/// Violations over many seeds: rule to number of executions. `stuck` and `leak` stand for ends that are no violation by themselves.
fn violations(rules: Rules, mutant: Option<Mutant>, seeds: Range<u64>, crowd: fn(&World) -> Vec<Fut>) -> BTreeMap<&'static str, u32> {
    let mut all = BTreeMap::new();
    for seed in seeds {
        set_mutant(None);
        let w = world(rules);
        let tasks = crowd(&w);
        set_mutant(mutant);
        for (i, t) in tasks.into_iter().enumerate() {
            spawn(i as u16 + 1, Level::Task, None, t);
        }
        let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // Priorities of slots, drawn anew after runs whose mean length goes with the seed: from a switch at each step to
        // one task standing still while all others finish.
        let mut draw = seed;
        let mut pick = |enabled: u64| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            if (x >> 20) % (1 << (seed % 10)) == 0 {
                draw = x;
            }
            (0..64u32).filter(|s| enabled & 1 << s != 0).max_by_key(|&s| (draw ^ u64::from(s)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).unwrap_or(0)
        };
        let mut complete = schedule(|| false, &mut pick);
        if complete && !stuck() {
            spawn(0, Level::Task, None, Box::pin(bdi_unregister_once(w.bdi)));
            complete = schedule(|| false, &mut pick);
        }
        let mut seen: Vec<&'static str> = with(|m| m.violations.iter().map(|v| v.rule).collect());
        if complete && seen.is_empty() {
            if stuck() {
                seen.push("stuck");
            } else if with(|m| m.mem.allocs().to_vec()).iter().any(|a| a.freed == u32::MAX && leaked(a)) {
                seen.push("leak");
            }
        }
        for r in seen {
            *all.entry(r).or_insert(0) += 1;
        }
    }
    set_mutant(None);
    all
}

/// An object that must not be there once the bdi is unregistered; a css only if its removal began.
fn leaked(a: &AllocInfo) -> bool {
    match a.ty.label {
        "wb" | "bdi" | "node" => true,
        "memcg" | "blkcg" => Css(a.base).is_dying(),
        _ => false,
    }
}

/// The end of a crowd that has not unregistered the bdi itself.
async fn bdi_unregister_once(bdi: BackingDevInfo) {
    let id = 1;
    let found = bdi_get_by_id(id).await;
    if !found.is_null() {
        bdi_unregister(bdi).await;
        bdi_put(bdi).await;
        bdi_put(bdi).await;
    }
}

async fn create_and_put(w: (BackingDevInfo, Css)) {
    let (bdi, css) = w;
    let rcu = rcu_read_lock();
    let got = css_tryget(css).await;
    drop(rcu);
    if got {
        let wb = wb_get_create(bdi, css, Gfp::Kernel).await;
        css_put(css).await;
        if !wb.is_null() {
            cond_resched().await;
            wb.put().await;
        }
    }
}

async fn look_up_by_id(bdi_id: u64, id: u32) {
    let bdi = bdi_get_by_id(bdi_id).await;
    if bdi.is_null() {
        return;
    }
    let rcu = rcu_read_lock();
    let css = css_from_id(id, Subsys::Memory).await;
    let got = !css.is_null() && css_tryget(css).await;
    drop(rcu);
    if got {
        let wb = wb_get_lookup(bdi, css).await;
        if !wb.is_null() {
            wb.put().await;
        }
        css_put(css).await;
    }
    bdi_put(bdi).await;
}

/// A cgroup is removed and another one gets its id, while the bdi is unregistered and wbs are created and looked up.
fn removal(w: &World) -> Vec<Fut> {
    let (bdi, root) = (w.bdi, w.root);
    let cg = now(cgroup_mkdir(root, 1, true, false));
    let other = now(cgroup_mkdir(root, 2, true, false));
    let (css, css2) = (memcg(cg), memcg(other));
    // A task owns a reference on the css that it creates for, and one on the bdi.
    assert!(now(css_tryget(css)) && now(css_tryget(css2)));
    now(async move {
        bdi_get(bdi).await;
        bdi_get(bdi).await;
    });
    vec![
        Box::pin(async move {
            create_and_put((bdi, css)).await;
            css_put(css).await;
            bdi_put(bdi).await;
        }),
        Box::pin(async move {
            cgroup_enable_controller(cg, Subsys::Io).await;
            cgroup_rmdir(cg).await;
            cgroup_rmdir(other).await;
        }),
        Box::pin(async move {
            wb_get_create_current(bdi, root, Gfp::Kernel).await.put().await;
            look_up_by_id(1, 2).await;
            bdi_put(bdi).await;
        }),
        Box::pin(async move {
            create_and_put((bdi, css2)).await;
            css_put(css2).await;
            bdi_unregister(bdi).await;
            bdi_put(bdi).await;
        }),
    ]
}

#[test]
fn random_removals_break_nothing_under_every_rule_set() {
    for (name, rules) in Rules::BUILT_IN {
        let v = violations(*rules, None, 1..1501, removal);
        assert!(v.is_empty(), "{name}: {v:?}");
    }
}

/// The io controller comes and goes below a memcg for which wbs are created, found and put.
fn association(w: &World) -> Vec<Fut> {
    let (bdi, root) = (w.bdi, w.root);
    let cg = now(cgroup_mkdir(root, 1, true, false));
    let css = memcg(cg);
    vec![
        Box::pin(async move {
            create_and_put((bdi, css)).await;
            create_and_put((bdi, css)).await;
        }),
        Box::pin(async move {
            create_and_put((bdi, css)).await;
            // Null if the io css went offline after it was taken for the effective one.
            let wb = wb_get_create_current(bdi, cg, Gfp::Kernel).await;
            if !wb.is_null() {
                wb.put().await;
            }
        }),
        Box::pin(async move {
            cgroup_enable_controller(cg, Subsys::Io).await;
            cgroup_disable_controller(cg, Subsys::Io).await;
        }),
        Box::pin(async move {
            look_up_by_id(1, 2).await;
        }),
    ]
}

#[test]
fn random_association_changes_break_nothing_under_every_rule_set() {
    for (name, rules) in Rules::BUILT_IN {
        let v = violations(*rules, None, 1..1501, association);
        assert!(v.is_empty(), "{name}: {v:?}");
    }
}

/// Statistics of a bdi are read while it is unregistered under three cgroups.
fn statistics(w: &World) -> Vec<Fut> {
    let (bdi, root) = (w.bdi, w.root);
    let wbs: Vec<BdiWriteback> = (1..4)
        .map(|i| {
            let cg = now(cgroup_mkdir(root, i, true, false));
            now(wb_get_create(bdi, memcg(cg), Gfp::Kernel))
        })
        .collect();
    now(bdi_get(bdi));
    vec![
        Box::pin(async move {
            cgwb_debug_stats_show(bdi).await;
            bdi_put(bdi).await;
        }),
        Box::pin(async move {
            for wb in wbs {
                wb.put().await;
            }
            bdi_unregister(bdi).await;
            bdi_put(bdi).await;
        }),
    ]
}

#[test]
fn a_statistics_walk_runs_into_freed_wbs_unless_it_checks_again() {
    let v = violations(Rules::mainline(), None, 1..1501, statistics);
    assert!(v.keys().all(|r| ["LT-MEM-1", "LT-MEM-4"].contains(r)) && !v.is_empty(), "OBS-2: {v:?}");
    let repaired = Rules { walk_recheck: WalkRecheck::Yes, ..Rules::mainline() };
    let v = violations(repaired, None, 1..1501, statistics);
    assert!(v.is_empty(), "{v:?}");
}

/// Two cgroups, one in the other, are removed while a task of the inner one ends.
fn last_task(w: &World) -> Vec<Fut> {
    let parent = now(cgroup_mkdir(w.root, 1, true, true));
    let child = now(cgroup_mkdir(parent, 2, true, true));
    now(cgroup_attach_task(child));
    vec![
        Box::pin(cgroup_task_dead(child)),
        Box::pin(async move {
            cgroup_rmdir(child).await;
            cgroup_rmdir(parent).await;
        }),
    ]
}

#[test]
fn removed_cgroups_go_with_their_last_task() {
    let v = violations(Rules::mainline(), None, 1..1501, last_task);
    assert!(v.is_empty(), "{v:?}");
    assert!(caught(Rules::mainline(), Mutant::Ord22, last_task));
}

/// Some execution among many shows the mutant.
fn caught(rules: Rules, mutant: Mutant, crowd: fn(&World) -> Vec<Fut>) -> bool {
    (0..30).any(|block| !violations(rules, Some(mutant), block * 100 + 1..block * 100 + 101, crowd).is_empty())
}

#[test]
fn mutants_of_removal_show_without_an_oracle() {
    use Mutant::*;
    let v2 = [V2M07, V2M12, V2M14, V2M15, V2M16, V2M17, V2M18, V2M20, V2M22, V2M23, V2M27];
    let mainline = [Ord7, Ord18, Ord20, H002, H011, H013, H034, OrdNoSwitchGp, OrdBiasFirst];
    for (rules, mutants) in [(Rules::tree_until_release(), &v2[..]), (Rules::mainline(), &mainline[..])] {
        for &m in mutants {
            assert!(caught(rules, m, removal), "{m:?}");
        }
    }
}

#[test]
fn mutants_of_creation_show_without_an_oracle() {
    use Mutant::*;
    for m in [V2M02, V2M05, V2M13, V2M29] {
        assert!(caught(Rules::tree_until_release(), m, association), "{m:?}");
    }
    for m in [Ord19, Ord21] {
        assert!(caught(Rules::mainline(), m, association), "{m:?}");
    }
}

/// A wb is created while its bdi is unregistered; nothing else would kill it.
fn late_creation(w: &World) -> Vec<Fut> {
    let bdi = w.bdi;
    let css = memcg(now(cgroup_mkdir(w.root, 1, true, false)));
    now(bdi_get(bdi));
    vec![
        Box::pin(async move {
            create_and_put((bdi, css)).await;
            bdi_put(bdi).await;
        }),
        Box::pin(async move {
            bdi_unregister(bdi).await;
            bdi_put(bdi).await;
        }),
    ]
}

#[test]
fn a_wb_created_during_unregister_is_killed_too() {
    for (name, rules) in Rules::BUILT_IN {
        let v = violations(*rules, None, 1..1501, late_creation);
        assert!(v.is_empty(), "{name}: {v:?}");
    }
    assert!(caught(Rules::mainline(), Mutant::Ord5, late_creation));
}

#[test]
fn the_control_mutant_stays_clean() {
    let v = violations(Rules::tree_until_release(), Some(Mutant::V2M25), 1..1501, association);
    assert!(v.is_empty(), "{v:?}");
}
