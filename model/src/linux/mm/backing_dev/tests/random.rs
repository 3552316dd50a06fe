//! Random schedules of small crowds on one bdi: what memory, lists, locks and the end state show without any oracle.

use super::*;
use crate::linux::kernel::cgroup::cgroup::{css_put, css_tryget};
use crate::mutants::{Mutant, set_mutant};
use crate::sync::{cond_resched, rcu_read_lock};
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
        let (mut slot, mut stay) = (64, 0);
        let mut pick = |enabled: u64| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            // Runs of random length reach deeper than a switch at each step.
            if slot == 64 || enabled & 1 << slot == 0 || stay == 0 {
                let nth = (x >> 20) % u64::from(enabled.count_ones());
                slot = (0..64).filter(|s| enabled & 1 << s != 0).nth(nth as usize).unwrap_or(0);
                stay = (x >> 40) % (1 + seed % 24);
            } else {
                stay -= 1;
            }
            slot
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
            } else {
                if with(|m| m.mem.allocs().iter().any(|a| a.freed == u32::MAX && matches!(a.ty.label, "wb" | "bdi" | "node"))) {
                    seen.push("leak");
                }
            }
        }
        for r in seen {
            *all.entry(r).or_insert(0) += 1;
        }
    }
    set_mutant(None);
    all
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
    // The first task owns a reference on the css, and each task one on the bdi.
    assert!(now(css_tryget(css)));
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

/// Some execution among many shows the mutant.
fn caught(rules: Rules, mutant: Mutant, crowd: fn(&World) -> Vec<Fut>) -> bool {
    (0..30).any(|block| !violations(rules, Some(mutant), block * 100 + 1..block * 100 + 101, crowd).is_empty())
}

#[test]
fn mutants_of_removal_show_without_an_oracle() {
    use Mutant::*;
    let v2 = [V2M07, V2M14, V2M15, V2M16, V2M17, V2M18, V2M20, V2M22, V2M23, V2M27];
    let mainline = [Ord20, H002, H011, H034, OrdNoSwitchGp, OrdBiasFirst];
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
    assert!(caught(Rules::mainline(), Ord21, association));
}

#[test]
fn the_control_mutant_stays_clean() {
    let v = violations(Rules::tree_until_release(), Some(Mutant::V2M25), 1..1501, association);
    assert!(v.is_empty(), "{v:?}");
}
