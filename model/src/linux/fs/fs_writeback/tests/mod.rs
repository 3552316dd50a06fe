//! The inode side under one plain schedule: what must hold before any interleaving is looked at.

mod random;

use super::foreign::ENOENT;
use super::*;
use crate::linux::block::bdev::{bdev_alloc, blkdev_put_whole, del_gendisk, disk_release};
use crate::linux::boot_globals;
use crate::linux::fs::inode::{drop_nlink, ihold, iput, new_inode};
use crate::linux::fs::super_::{alloc_super, kill_sb, retire_super, sync_one_super};
use crate::linux::globals;
use crate::linux::include::backing_dev_defs::BackingDevInfo;
use crate::linux::include::cgroup_defs::{Cgroup, Css};
use crate::linux::include::fs::{I_DIRTY_ALL, I_DIRTY_SYNC, I_DIRTY_TIME, I_WB_SWITCH, SuperBlock};
use crate::linux::include::writeback::WbReason;
use crate::linux::kernel::cgroup::cgroup::{self, cgroup_mkdir, cgroup_rmdir};
use crate::linux::mm::backing_dev::{self, bdi_alloc, bdi_get, bdi_put, bdi_register, wb_get_create};
use crate::linux::mm::page_writeback::{balance_dirty_pages_ratelimited, folio_mark_dirty};
use crate::mutants::set_mutant;
use crate::rules::{Rules, set_rules};
use crate::sync::{Config, End, Gfp, Machine, Ptr, Stop};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

/// Runs a task and everything that it sets going, until nothing can go on. `Err` holds the ids of broken rules.
fn try_run<T: 'static>(f: impl Future<Output = T> + 'static) -> Result<T, Vec<&'static str>> {
    let out = Rc::new(RefCell::new(None));
    let result = out.clone();
    let end = catch_unwind(AssertUnwindSafe(|| Machine::settle(Box::pin(async move { *result.borrow_mut() = Some(f.await) }))));
    let end = match end {
        Ok(end) => end,
        Err(p) if p.is::<Stop>() => End::Fatal,
        Err(p) => resume_unwind(p),
    };
    let broken: Vec<&'static str> = with(|m| m.violations.iter().map(|v| v.rule).collect());
    if end == End::Complete && broken.is_empty() { Ok(out.take().expect("the task ended")) } else { Err(broken) }
}

#[track_caller]
fn run<T: 'static>(f: impl Future<Output = T> + 'static) -> T {
    match try_run(f) {
        Ok(v) => v,
        Err(_) => panic!("{:?}", with(|m| m.violations.clone())),
    }
}

/// A superblock with a bdi of its own, and a child of the root cgroup with both controllers.
#[derive(Clone, Copy)]
struct World {
    bdi: BackingDevInfo,
    sb: SuperBlock,
    cg: Cgroup,
    css: Css,
}

fn world(rules: Rules) -> World {
    set_rules(rules);
    set_mutant(None);
    with(|m| m.reset(Config::default()));
    boot_globals();
    cgroup::boot();
    backing_dev::boot();
    Machine::finish_boot();
    let bdi = bdi_alloc();
    run(bdi_register(bdi));
    let cg = run(cgroup_mkdir(globals().root_cgroup().get(), 1, true, true));
    World { bdi, sb: alloc_super(bdi, true, true), cg, css: cg.subsys_memory().get() }
}

impl World {
    /// An inode with dirty pages of the child cgroup, and one reference.
    fn dirty_inode(self, pages: i64) -> Inode {
        let inode = run(new_inode(self.sb));
        run(folio_mark_dirty(inode, self.css, pages));
        inode
    }
    fn by_id(self) -> i64 {
        let (id, css_id) = (self.bdi.id().get(), self.css.id().get());
        let bdi = self.bdi;
        run(async move {
            let done = define_wb_completion(bdi);
            let ret = cgroup_writeback_by_id(id, css_id, WbReason::ForeignFlush, done).await;
            wb_wait_for_completion(done).await;
            kfree(done.ptr());
            ret
        })
    }
}

fn count(wb: BdiWriteback) -> i64 {
    with(|m| wb.refcnt().peek_count(m)).expect("between init and exit")
}

fn alive(p: Ptr) -> bool {
    with(|m| m.mem.live(p))
}

fn only(head: ListHead, inode: Inode) -> bool {
    head.entries() == [inode.i_io_list()]
}

#[test]
fn dirty_inode_is_written_becomes_clean_and_is_evicted() {
    let w = world(Rules::mainline());
    let inode = w.dirty_inode(3);
    let wb = inode.i_wb().get();
    assert_eq!(wb.memcg_css().get(), w.css);
    assert_eq!((count(wb), wb.stat_reclaimable().get()), (2, 3));
    assert!(only(wb.b_dirty(), inode) && wb_test(wb, WB_HAS_DIRTY_IO));
    assert_eq!(w.bdi.tot_write_bandwidth().get(), 1);

    assert!(run(sync_one_super(w.sb)));
    assert_eq!((inode.nr_dirty().get(), inode.nr_writeback().get(), inode.nr_cleaning().get()), (0, 0, 0));
    assert_eq!(inode.i_state().get(), 0);
    assert_eq!((wb.stat_reclaimable().get(), wb.stat_writeback().get(), wb.writeback_inodes().get()), (0, 0, 0));
    assert!(only(wb.b_attached(), inode) && !wb_test(wb, WB_HAS_DIRTY_IO));
    assert_eq!((w.bdi.tot_write_bandwidth().get(), count(wb), w.css.memcg().nr_dirty().get()), (0, 2, 0));

    run(drop_nlink(inode));
    run(iput(inode));
    assert!(!alive(inode.ptr()));
    assert_eq!(count(wb), 1);
    assert!(wb.b_attached().is_empty());
}

#[test]
fn pages_under_writeback_outlive_the_flusher_and_fsync_waits_for_them() {
    let w = world(Rules::mainline());
    let inode = run(new_inode(w.sb));
    inode.io_completes_later().set(true);
    let css = w.css;
    let cg = w.cg;
    run(async move {
        folio_mark_dirty(inode, css, 2).await;
        sync::generic_file_fsync(inode, cg).await;
        assert_eq!(inode.nr_writeback().get(), 0);
        assert_eq!(inode.i_state().get() & I_DIRTY_ALL, 0);
    });
    assert!(inode.i_wb_list().is_empty());
    assert!(inode.i_wb().get().bw_dwork().pending(), "the end of writeback arms the bandwidth update");
}

#[test]
fn switch_moves_pages_references_and_the_place_on_the_list() {
    let w = world(Rules::mainline());
    let inode = w.dirty_inode(3);
    let old = inode.i_wb().get();
    let other = run(cgroup_mkdir(globals().root_cgroup().get(), 2, true, true));
    let css = other.subsys_memory().get();
    let new = run(wb_get_create(w.bdi, css, Gfp::Kernel));
    run(inode_switch_wbs(inode, css.id().get()));
    assert_eq!(inode.i_wb().get(), new);
    assert_eq!((old.stat_reclaimable().get(), new.stat_reclaimable().get()), (0, 3));
    assert_eq!((count(old), count(new)), (1, 3), "base; base, the test's and the inode's");
}

#[test]
fn clean_inode_is_switched_to_the_parent_when_its_memcg_goes() {
    let w = world(Rules::mainline());
    let inode = w.dirty_inode(1);
    let wb = inode.i_wb().get();
    run(sync_one_super(w.sb));
    assert_eq!(run(cgroup_rmdir(w.cg)), 0);
    assert_eq!(inode.i_wb().get(), w.bdi.wb());
    assert!(!alive(wb.ptr()) && !alive(w.css.ptr()) && inode.i_io_list().is_empty());
    assert_eq!((inode.i_state().get() & I_WB_SWITCH, w.sb.s_isw_nr_in_flight().get(), globals().isw_nr_in_flight().get()), (0, 0, 0));
}

#[test]
fn sync_writes_inodes_of_live_and_dying_wbs_and_dirty_timestamps() {
    let w = world(Rules::mainline());
    let first = w.dirty_inode(2);
    assert_eq!(run(cgroup_rmdir(w.cg)), 0);
    assert!(first.i_wb().get().dying());
    let second = run(new_inode(w.sb));
    let root = globals().root_cgroup().get();
    run(mark_inode_dirty_by(second, I_DIRTY_TIME, root));
    assert!(only(w.bdi.wb().b_dirty_time(), second) && !wb_test(w.bdi.wb(), WB_HAS_DIRTY_IO));
    let third = run(new_inode(w.sb));
    run(mark_inode_dirty_by(third, I_DIRTY_SYNC, root));
    run(sync_one_super(w.sb));
    for inode in [first, second, third] {
        assert_eq!((inode.i_state().get(), inode.nr_dirty().get()), (0, 0));
    }
}

#[test]
fn sync_without_memory_for_works_falls_back_to_one_at_a_time() {
    let w = world(Rules::mainline());
    let inode = w.dirty_inode(2);
    with(|m| {
        m.config.ask = vec!["bdi_split_work_to_wbs"];
        m.config.max_faults = 9;
    });
    struct AlwaysFails;
    impl crate::sync::Chooser for AlwaysFails {
        fn choose(&mut self, _: &Machine, _: crate::sync::Choice) -> u32 {
            1
        }
    }
    crate::sync::set_chooser(Some(Rc::new(RefCell::new(AlwaysFails))));
    run(sync_one_super(w.sb));
    crate::sync::set_chooser(None);
    assert_eq!((inode.nr_dirty().get(), count(inode.i_wb().get())), (0, 2));
}

/// Asks for a switch, and unmounts before its worker has run.
async fn switch_and_umount(w: World, inode: Inode, id: u32) {
    inode_switch_wbs(inode, id).await;
    iput(inode).await;
    kill_sb(w.sb).await;
}

#[test]
fn umount_waits_for_switches_in_flight_and_frees_everything() {
    for umount_flush in [crate::rules::UmountFlush::No, crate::rules::UmountFlush::Yes] {
        let w = world(Rules { umount_flush, ..Rules::mainline() });
        let inode = w.dirty_inode(2);
        run(switch_and_umount(w, inode, 1));
        assert!(!alive(inode.ptr()) && !alive(w.sb.ptr()) && !alive(w.bdi.ptr()));
    }
}

#[test]
fn umount_that_does_not_wait_for_switches_is_seen() {
    let w = world(Rules::mainline());
    let inode = w.dirty_inode(2);
    set_mutant(Some(Mutant::H003));
    let broken = try_run(switch_and_umount(w, inode, 1));
    set_mutant(None);
    assert!(broken.expect_err("busy inodes").contains(&"LT-PROG-5"));
}

#[test]
fn by_id_finds_a_dying_wb_under_the_proposals_only() {
    for (name, rules) in Rules::BUILT_IN {
        let w = world(*rules);
        let inode = w.dirty_inode(2);
        assert_eq!(w.by_id(), 0, "{name}: live");
        assert_eq!(inode.nr_dirty().get(), 0, "{name}: sized by either counter, a live wb is written");
        run(folio_mark_dirty(inode, w.css, 2));
        assert_eq!(run(cgroup_rmdir(w.cg)), 0);
        assert!(inode.i_wb().get().dying());
        let expected = if *name == "mainline" { ENOENT } else { 0 };
        assert_eq!(w.by_id(), expected, "{name}: dying");
        assert_eq!(inode.nr_dirty().get(), if expected == 0 { 0 } else { 2 }, "{name}");
    }
}

#[test]
fn foreign_dirtier_has_the_owner_written_when_it_is_throttled() {
    let w = world(Rules::mainline());
    let inode = w.dirty_inode(1);
    let other = run(cgroup_mkdir(globals().root_cgroup().get(), 2, true, true));
    globals().jiffies().set(globals().jiffies().get() + 1000);
    run(folio_mark_dirty(inode, other.subsys_memory().get(), 1));
    run(balance_dirty_pages_ratelimited(w.bdi, other));
    assert_eq!(inode.nr_dirty().get(), 0);
}

#[test]
fn background_writeback_runs_above_its_threshold_only() {
    let w = world(Rules::mainline());
    let inode = w.dirty_inode(2);
    run(wb_wakeup(inode.i_wb().get()));
    assert_eq!(inode.nr_dirty().get(), 2);
    globals().dirty_background_pages().set(2);
    run(wb_wakeup(inode.i_wb().get()));
    assert_eq!(inode.nr_dirty().get(), 0);
}

#[test]
fn old_data_are_written_by_any_run_of_the_flusher() {
    let w = world(Rules::mainline());
    let (old, young) = (w.dirty_inode(1), w.dirty_inode(1));
    old.dirtied_expired().set(true);
    run(wb_wakeup(old.i_wb().get()));
    assert_eq!((old.nr_dirty().get(), young.nr_dirty().get()), (0, 1));
}

#[test]
fn works_of_a_retired_device_are_finished_unexecuted() {
    let w = world(Rules::mainline());
    run(bdi_get(w.bdi));
    let inode = w.dirty_inode(2);
    run(retire_super(w.sb));
    assert!(run(sync_one_super(w.sb)), "nothing is written, and nobody waits for ever");
    assert_eq!(inode.nr_dirty().get(), 2);
    run(ihold(inode));
    run(iput(inode));
    run(iput(inode));
    run(kill_sb(w.sb));
    assert!(!alive(inode.ptr()) && !alive(w.sb.ptr()) && alive(w.bdi.ptr()));
    run(bdi_put(w.bdi));
    assert!(!alive(w.bdi.ptr()));
}

/// A disk with its whole-disk inode, which has a dirty page of memcg `css`, on a block-device superblock of its own.
fn disk(css: Css) -> (Inode, BackingDevInfo) {
    let blockdev_superblock = alloc_super(bdi_alloc(), false, true);
    let bdi = bdi_alloc();
    run(bdi_register(bdi));
    let inode = run(bdev_alloc(blockdev_superblock, bdi, true));
    run(folio_mark_dirty(inode, css, 1));
    (inode, bdi)
}

#[test]
fn bdi_of_a_disk_is_freed_after_its_inode() {
    let w = world(Rules::mainline());
    let (inode, bdi) = disk(w.css);
    assert!(only(inode.i_wb().get().b_dirty(), inode), "a block-device inode needs no name to be on a list");
    run(blkdev_put_whole(inode, w.cg));
    assert_eq!(inode.nr_dirty().get(), 0);
    run(del_gendisk(inode));
    run(disk_release(inode));
    assert!(!alive(inode.ptr()) && !alive(bdi.ptr()));
}

#[test]
fn mutants_of_disk_release_are_caught() {
    for (mutant, rule) in [(Mutant::H015, "LT-MEM-0"), (Mutant::H016, "LT-MEM-3")] {
        let w = world(Rules::mainline());
        // On the root wb, which is part of the bdi; a cgroup wb would keep it.
        let (inode, _) = disk(globals().root_mem_cgroup().get());
        set_mutant(Some(mutant));
        let broken = try_run(async move {
            blkdev_put_whole(inode, w.cg).await;
            del_gendisk(inode).await;
            disk_release(inode).await;
        });
        set_mutant(None);
        assert!(broken.expect_err("freed or detached too early").contains(&rule), "{mutant:?}");
    }
}
