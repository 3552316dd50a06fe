//! Random schedules of a small crowd on one superblock: what memory, lists, locks, counts and the end state show without oracles.

use super::*;
use crate::linux::mm::backing_dev::cgwb_debug_stats_show;
use crate::linux::mm::page_writeback::file_write_and_wait;
use crate::rules::{UmountFlush, WalkRecheck};
use crate::sync::{Fut, Level, join, spawn};
use std::collections::BTreeMap;
use std::ops::Range;

/// Polls tasks in random order until none can go on; true if the execution did not stop at a fatal violation.
fn schedule(bodies: &mut Vec<Option<Fut>>, pick: &mut impl FnMut(u64) -> u32) -> bool {
    loop {
        for t in with(|m| std::mem::take(&mut m.spawned)) {
            if bodies.len() <= t.slot {
                bodies.resize_with(t.slot + 1, || None);
            }
            bodies[t.slot] = Some(t.body);
        }
        let enabled = with(|m| m.enabled_mask());
        if enabled == 0 {
            return true;
        }
        let slot = pick(enabled) as usize;
        let mut body = bodies[slot].take().expect("a live slot has a body");
        match catch_unwind(AssertUnwindSafe(|| Machine::advance(slot, &mut body))) {
            Ok(true) => {}
            Ok(false) => bodies[slot] = Some(body),
            Err(p) if p.is::<Stop>() => return false,
            Err(p) => resume_unwind(p),
        }
    }
}

fn stuck() -> bool {
    with(|m| m.tasks.iter().any(|t| t.live && !t.daemon))
}

/// What is wrong with the counters while nothing runs.
fn miscounted(w: World) -> bool {
    let mut sum: BTreeMap<BdiWriteback, (i64, i64)> = BTreeMap::new();
    for e in w.sb.s_inodes().entries() {
        let inode = crate::container_of!(e, Inode, crate::linux::include::fs::inode_fields::i_sb_list);
        let on_list = !inode.i_io_list().is_empty();
        if inode.nr_dirty().get() > 0 && (inode.i_state().get() & crate::linux::include::fs::I_DIRTY_PAGES == 0 || !on_list) {
            return true;
        }
        let s = sum.entry(inode.i_wb().get()).or_default();
        s.0 += inode.nr_dirty().get();
        s.1 += inode.nr_writeback().get();
    }
    let wbs = with(|m| m.mem.allocs().to_vec()).into_iter().filter(|a| a.ty.label == "wb" && a.freed == u32::MAX).map(|a| BdiWriteback(a.base));
    wbs.chain([w.bdi.wb()]).any(|wb| {
        let s = sum.get(&wb).copied().unwrap_or_default();
        s != (wb.stat_reclaimable().get(), wb.stat_writeback().get())
    }) || globals().isw_nr_in_flight().get() != 0
        || w.sb.s_isw_nr_in_flight().get() != 0
}

/// Broken rules over many seeds, with the number of executions. `stuck`, `leak` and `count` are ends that no rule names by itself.
fn violations(rules: Rules, mutant: Option<Mutant>, seeds: Range<u64>, ask: &[&'static str], crowd: fn(World) -> Vec<Fut>) -> BTreeMap<&'static str, u32> {
    let mut all = BTreeMap::new();
    for seed in seeds {
        let w = world(rules);
        let tasks = crowd(w);
        set_mutant(mutant);
        with(|m| {
            m.config.ask = ask.to_vec();
            m.config.max_faults = 2;
            m.config.timers = 2;
        });
        let mut bodies = Vec::new();
        let mut x = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut draw = seed;
        // Priorities drawn anew after runs whose mean length goes with the seed.
        let mut pick = |enabled: u64| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            if (x >> 20) % (1 << (seed % 9)) == 0 {
                draw = x;
            }
            (0..64u32).filter(|s| enabled & 1 << s != 0).max_by_key(|&s| (draw ^ u64::from(s)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32).unwrap_or(0)
        };
        let nr = tasks.len() as u16;
        for (i, t) in tasks.into_iter().enumerate() {
            spawn(i as u16 + 1, Level::Task, None, t);
        }
        // Umount has to wait for whoever has a file open.
        spawn(
            0,
            Level::Task,
            None,
            Box::pin(async move {
                for i in 1..=nr {
                    join(i).await;
                }
                if seed % 2 == 0 {
                    kill_sb(w.sb).await;
                }
            }),
        );
        let mut complete = schedule(&mut bodies, &mut pick);
        let counted = !complete || stuck() || seed % 2 == 0 || !miscounted(w);
        if complete && !stuck() && seed % 2 == 1 {
            spawn(0, Level::Task, None, Box::pin(kill_sb(w.sb)));
            complete = schedule(&mut bodies, &mut pick);
        }
        let mut seen: Vec<&'static str> = with(|m| m.violations.iter().map(|v| v.rule).collect());
        if complete && seen.is_empty() {
            // A wb that outlives its unregistered bdi, and so everything else of the superblock, was leaked by an inode.
            let left = |a: &crate::sync::AllocInfo| ["wb", "bdi", "inode", "sb", "isw", "work", "completion", "list"].contains(&a.ty.label);
            if stuck() {
                seen.push("stuck");
            } else if with(|m| m.mem.allocs().to_vec()).iter().any(|a| a.freed == u32::MAX && left(a)) {
                seen.push("leak");
            } else if !counted {
                seen.push("count");
            }
        }
        for r in seen {
            *all.entry(r).or_insert(0) += 1;
        }
        with(|m| m.aborted = true);
        drop(bodies);
        set_mutant(None);
    }
    all
}

fn repaired() -> Rules {
    Rules { umount_flush: UmountFlush::Yes, walk_recheck: WalkRecheck::Yes, ..Rules::mainline() }
}

/// One inode is dirtied by two cgroups, switched between them, synced, and its first owner is removed.
fn sharing(w: World) -> Vec<Fut> {
    let other = run(cgroup_mkdir(globals().root_cgroup().get(), 2, true, true));
    let css2 = other.subsys_memory().get();
    let inode = w.dirty_inode(2);
    inode.io_completes_later().set(true);
    let second = w.dirty_inode(1);
    globals().jiffies().set(globals().jiffies().get() + 1000);
    run(async move {
        for _ in 0..3 {
            ihold(inode).await;
        }
        crate::linux::fs::super_::hold_super(w.sb).await;
    });
    let id2 = css2.id().get();
    vec![
        Box::pin(async move {
            folio_mark_dirty(inode, css2, 1).await;
            balance_dirty_pages_ratelimited(w.bdi, other).await;
            iput(inode).await;
        }),
        Box::pin(async move {
            inode_switch_wbs(inode, id2).await;
            iput(inode).await;
        }),
        Box::pin(async move {
            sync_one_super(w.sb).await;
            crate::linux::fs::super_::put_super(w.sb).await;
        }),
        Box::pin(async move {
            file_write_and_wait(inode, other).await;
            mark_inode_dirty_by(inode, I_DIRTY_TIME, other).await;
            iput(inode).await;
        }),
        Box::pin(async move {
            drop_nlink(second).await;
            iput(second).await;
            iput(inode).await;
            assert_eq!(cgroup_rmdir(w.cg).await, 0);
        }),
    ]
}

/// The flusher, an fsync and an unlink meet on inodes of which one has only dirty timestamps; the device may be retired.
fn writing(w: World) -> Vec<Fut> {
    let (a, b) = (w.dirty_inode(1), run(new_inode(w.sb)));
    let cg = w.cg;
    run(mark_inode_dirty_by(b, I_DIRTY_TIME, cg));
    run(async move {
        for inode in [a, b] {
            ihold(inode).await;
            ihold(inode).await;
        }
    });
    let css = w.css;
    // The cgroup is not removed, so its css stays.
    vec![
        Box::pin(async move {
            sync::generic_file_fsync(b, cg).await;
            iput(b).await;
            drop_nlink(a).await;
            iput(a).await;
        }),
        Box::pin(async move {
            folio_mark_dirty(b, css, 1).await;
            folio_mark_dirty(a, css, 1).await;
            wakeup_flusher_threads(WbReason::Sync).await;
            iput(a).await;
            iput(b).await;
        }),
        Box::pin(async move {
            cgwb_debug_stats_show(w.bdi).await;
            write_inode_now(a, false).await;
            sync::filemap_dontcache_kick_writeback(a).await;
            iput(a).await;
            iput(b).await;
        }),
        Box::pin(async move {
            retire_super(w.sb).await;
        }),
    ]
}

/// Flushes by id race with the removal of the device and of the cgroup, and with two switches to one wb.
fn teardown(w: World) -> Vec<Fut> {
    let other = run(cgroup_mkdir(globals().root_cgroup().get(), 2, true, true));
    let (a, b) = (w.dirty_inode(1), w.dirty_inode(1));
    a.io_completes_later().set(true);
    let (bdi_id, id, id2) = (w.bdi.id().get(), w.css.id().get(), other.subsys_memory().get().id().get());
    let flush = move |id: u32| async move {
        bdi_get(w.bdi).await;
        let done = define_wb_completion(w.bdi);
        cgroup_writeback_by_id(bdi_id, id, WbReason::ForeignFlush, done).await;
        wb_wait_for_completion(done).await;
        kfree(done.ptr());
        bdi_put(w.bdi).await;
    };
    vec![
        Box::pin(flush(id)),
        Box::pin(flush(1)),
        Box::pin(async move {
            inode_switch_wbs(a, id2).await;
            iput(a).await;
        }),
        Box::pin(async move {
            inode_switch_wbs(b, id2).await;
            iput(b).await;
        }),
        Box::pin(async move {
            assert_eq!(cgroup_rmdir(w.cg).await, 0);
            assert_eq!(cgroup_rmdir(other).await, 0);
        }),
        Box::pin(async move {
            retire_super(w.sb).await;
        }),
    ]
}

/// An inode is dirtied for the first time while it is switched and written, and its memcg goes away.
fn first_dirty(w: World) -> Vec<Fut> {
    let inode = w.dirty_inode(1);
    run(sync_one_super(w.sb));
    run(ihold(inode));
    run(ihold(inode));
    let (cg, css) = (w.cg, w.css);
    vec![
        Box::pin(async move {
            mark_inode_dirty_by(inode, I_DIRTY_SYNC, cg).await;
            folio_mark_dirty(inode, globals().root_mem_cgroup().get(), 1).await;
            iput(inode).await;
        }),
        Box::pin(async move {
            inode_switch_wbs(inode, 1).await;
            write_inode_now(inode, false).await;
            iput(inode).await;
        }),
        Box::pin(async move {
            assert_eq!(css.id().get(), 2);
            iput(inode).await;
            assert_eq!(cgroup_rmdir(cg).await, 0);
        }),
    ]
}

/// A new inode is attached to a wb by two tasks of different cgroups at once.
fn attaching(w: World) -> Vec<Fut> {
    let other = run(cgroup_mkdir(globals().root_cgroup().get(), 2, true, true));
    let inode = run(new_inode(w.sb));
    run(ihold(inode));
    let css = w.css;
    vec![
        Box::pin(async move {
            folio_mark_dirty(inode, css, 1).await;
            iput(inode).await;
        }),
        Box::pin(async move {
            mark_inode_dirty_by(inode, I_DIRTY_SYNC, other).await;
            iput(inode).await;
        }),
    ]
}

const ASK: &[&str] = &[
    "bdi_split_work_to_wbs",
    "inode_switch_wbs",
    "cleanup_offline_cgwb",
    "isw_need_resched",
    "wbc_detach_inode",
    "evict_inode",
    "folio_redirty_for_writepage",
    "writeback_chunk_size",
    "current_is_workqueue_rescuer",
    "cgroup_writeback_by_id",
];

/// Answers a choice other than 0 one time in four.
struct Dice(u64);

impl crate::sync::Chooser for Dice {
    fn choose(&mut self, m: &Machine, c: crate::sync::Choice) -> u32 {
        self.0 = (self.0 ^ u64::from(m.log_len())).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        if self.0 >> 62 == 0 { (self.0 >> 32) as u32 % c.arity() } else { 0 }
    }
}

/// Runs a check with a fresh source of choices.
fn with_dice(f: impl FnOnce()) {
    crate::sync::set_chooser(Some(Rc::new(RefCell::new(Dice(1)))));
    f();
    crate::sync::set_chooser(None);
}

#[test]
fn repaired_rules_survive_random_schedules() {
    with_dice(|| {
        for (name, rules) in Rules::BUILT_IN {
            let rules = Rules { umount_flush: UmountFlush::Yes, walk_recheck: WalkRecheck::Yes, ..*rules };
            for ask in [&[], ASK] {
                for crowd in [sharing, writing, teardown, first_dirty, attaching] {
                    assert_eq!(violations(rules, None, 0..50, ask, crowd), BTreeMap::new(), "{name}");
                }
            }
        }
    });
}

#[test]
fn switch_worker_touches_a_freed_bdi_unless_umount_flushes_it() {
    seen(Rules::mainline(), None, 1500, &[], first_dirty, &["LT-MEM-3"]);
    with_dice(|| {
        let flush = Rules { umount_flush: UmountFlush::Yes, ..Rules::mainline() };
        assert_eq!(violations(flush, None, 0..300, &[], first_dirty), BTreeMap::new());
    });
}

/// One of these rules is broken in one of these executions.
#[track_caller]
fn seen(base: Rules, mutant: Option<Mutant>, seeds: u64, ask: &[&'static str], crowd: fn(World) -> Vec<Fut>, rules: &[&str]) {
    with_dice(|| {
        for start in (0..seeds).step_by(50) {
            let broken = violations(base, mutant, start..start + 50, ask, crowd);
            if rules.iter().any(|r| broken.contains_key(r)) {
                return;
            }
        }
        panic!("{mutant:?}: none of {rules:?} in {seeds} executions");
    });
}

#[track_caller]
fn caught(mutant: Mutant, seeds: u64, crowd: fn(World) -> Vec<Fut>, rules: &[&str]) {
    seen(repaired(), Some(mutant), seeds, ASK, crowd, rules);
}

#[test]
fn mutants_of_switching_are_caught() {
    caught(Mutant::Ord2a, 2000, first_dirty, &["count"]);
    caught(Mutant::Ord11, 200, sharing, &["LT-MEM-7", "LT-PROG-5"]);
    caught(Mutant::Ord14, 500, teardown, &["LT-ISW-4", "stuck"]);
    caught(Mutant::Ord17, 50, sharing, &["LT-LOCK-3"]);
    caught(Mutant::H003, 200, sharing, &["LT-MEM-7", "LT-PROG-5"]);
    caught(Mutant::H004, 200, sharing, &["LT-REF-8"]);
    caught(Mutant::H005, 1000, sharing, &["LT-MEM-7", "LT-PROG-5"]);
    caught(Mutant::H009, 1000, teardown, &["LT-MEM-2"]);
}

#[test]
fn mutants_of_works_and_lists_are_caught() {
    caught(Mutant::Ord8, 1000, attaching, &["leak", "count", "LT-MEM-1", "LT-REF-1"]);
    caught(Mutant::Ord9, 1000, teardown, &["LT-MEM-5"]);
    caught(Mutant::Ord15a, 1000, sharing, &["count"]);
    caught(Mutant::H001, 1000, teardown, &["LT-PROG-2", "LT-MEM-1"]);
    caught(Mutant::H018, 1000, teardown, &["LT-MEM-5"]);
    caught(Mutant::H020b, 1000, first_dirty, &["count"]);
    caught(Mutant::H021, 50, writing, &["LT-LOCK-3"]);
    caught(Mutant::H022, 200, sharing, &["LT-MEM-6", "LT-LIST-9"]);
    caught(Mutant::H035, 500, teardown, &["LT-MEM-1", "LT-MEM-3"]);
}
