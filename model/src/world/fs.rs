//! Operations on file systems, inodes and writeback.

use super::cgroup::{css_id, device, lives_in};
use super::objects::View;
use super::plan::Place;
use super::{EBADF, EBUSY, ENOENT, own};
use crate::cases::{BdiRef, CgroupRef, CssId, InodeRef, Op, SbRef, WbRef};
use crate::container_of;
use crate::linux::block::bdev::{bdev_alloc, blkdev_put_whole, disk_release};
use crate::linux::fs::fs_writeback::sync::{generic_file_fsync, wakeup_dirtytime_writeback};
use crate::linux::fs::fs_writeback::{
    cgroup_writeback_by_id, inode_attach_wb, inode_switch_wbs, mark_inode_dirty_by, wakeup_flusher_threads, wb_wait_for_completion, wb_wakeup, write_inode_now,
};
use crate::linux::fs::inode::{drop_nlink, ihold, ilookup, iput, new_inode};
use crate::linux::fs::super_::{alloc_super, hold_super, kill_sb, put_super, retire_super, sync_one_super};
use crate::linux::globals;
use crate::linux::include::backing_dev::{inode_to_wb, wb_get_create_current, wb_has_dirty_io};
use crate::linux::include::backing_dev_defs::{BackingDevInfo, BdiWriteback, wb_fields};
use crate::linux::include::cgroup_defs::{Css, Subsys, WbCompletion};
use crate::linux::include::fs::{I_DIRTY_SYNC, I_DIRTY_TIME, Inode, SuperBlock};
use crate::linux::include::writeback::WbReason;
use crate::linux::kernel::cgroup::cgroup::{css_put, task_get_css};
use crate::linux::mm::backing_dev::bdi_get;
use crate::linux::mm::memcontrol::mem_cgroup_flush_foreign;
use crate::linux::mm::page_writeback::{balance_dirty_pages_ratelimited, folio_mark_dirty};
use crate::sync::{Gfp, ListHead, NULL, Ptr, immortal, kfree, kzalloc_nofail, rcu_read_lock};

// ---- what a task keeps ------------------------------------------------------------------------------------------------

/// A file that the case has open, or why it is none.
async fn file(view: View<'_>, inode: InodeRef) -> Result<Inode, i64> {
    let i = view.inode(inode).await;
    if i.is_null() {
        return Err(ENOENT);
    }
    if view.count(view.objects.opens(), inode.index(), 0) == 0 { Err(EBADF) } else { Ok(i) }
}

/// One more or one fewer open file.
fn opened(view: View<'_>, inode: InodeRef, by: i32) -> u32 {
    if let Some(sb) = view.plan.sb_of[inode.index()] {
        view.count(view.objects.sb_users(), sb.index(), by);
    }
    view.count(view.objects.opens(), inode.index(), by)
}

/// A task opens a file that another one may close.
pub(super) async fn keep(view: View<'_>, inode: InodeRef) {
    if let Ok(i) = file(view, inode).await {
        ihold(i).await;
        opened(view, inode, 1);
    }
}

/// It needs it no longer.
pub(super) async fn unkeep(view: View<'_>, inode: InodeRef) {
    let _ = close(view, inode).await;
}

/// A task makes sure that a superblock's memory stays, whoever unmounts it.
pub(super) async fn keep_sb(view: View<'_>, sb: SbRef) {
    let s = view.sb(sb).await;
    if !s.is_null() {
        hold_super(s).await;
    }
}

/// It needs it no longer.
pub(super) async fn unkeep_sb(view: View<'_>, sb: SbRef) {
    let s = view.sb(sb).await;
    if !s.is_null() {
        put_super(s).await;
    }
}

// ---- file systems and files ---------------------------------------------------------------------------------------------

async fn mount(view: View<'_>, sb: SbRef, bdi: BdiRef, own_bdi: bool, cgroup_writeback: bool, is_immortal: bool) -> Result<i64, i64> {
    let b = device(view, bdi).await?;
    if own_bdi {
        // The case's own reference goes to the file system, which also unregisters.
        if view.count(view.objects.unplugs(), bdi.index(), 1) > 1 {
            return Err(EBUSY);
        }
        view.count(view.objects.bdi_refs(), bdi.index(), -1);
    } else {
        bdi_get(b).await;
    }
    let s = alloc_super(b, own_bdi, cgroup_writeback);
    own(s.ptr(), is_immortal);
    view.store(view.objects.sbs(), sb.index(), s.ptr()).await;
    Ok(0)
}

async fn umount(view: View<'_>, sb: SbRef) -> Result<i64, i64> {
    let s = view.sb(sb).await;
    if s.is_null() || view.count(view.objects.unmounted(), sb.index(), 0) > 0 {
        return Err(ENOENT);
    }
    if view.count(view.objects.sb_users(), sb.index(), 0) > 0 {
        return Err(EBUSY);
    }
    view.count(view.objects.unmounted(), sb.index(), 1);
    if view.here == Place::Setup {
        view.objects.sbs().slot(u32::from(sb.0)).set(NULL);
    }
    kill_sb(s).await;
    Ok(0)
}

/// A superblock that is mounted, or was when its user began to hold on to it.
async fn superblock(view: View<'_>, sb: SbRef) -> Result<SuperBlock, i64> {
    let s = view.sb(sb).await;
    // Outside tasks nobody holds on to it.
    let gone = !matches!(view.here, Place::Task(_)) && view.count(view.objects.unmounted(), sb.index(), 0) > 0;
    if s.is_null() || gone { Err(ENOENT) } else { Ok(s) }
}

/// Begins an operation for which the file system must be mounted.
async fn enter_mount(view: View<'_>, sb: SbRef) -> Result<SuperBlock, i64> {
    let s = view.sb(sb).await;
    if s.is_null() || view.count(view.objects.unmounted(), sb.index(), 0) > 0 {
        return Err(ENOENT);
    }
    view.count(view.objects.sb_users(), sb.index(), 1);
    Ok(s)
}

async fn create(view: View<'_>, op: &Op, is_immortal: bool) -> Result<i64, i64> {
    let Op::Inode { inode, sb, dax, blkdev, bdi, disk, async_io } = *op else { return Err(ENOENT) };
    let of_disk = match bdi {
        Some(b) => device(view, b).await?,
        None => BackingDevInfo::NULL,
    };
    let s = enter_mount(view, sb).await?;
    let bdi = if of_disk.is_null() { s.s_bdi().get() } else { of_disk };
    let i = if blkdev {
        if disk {
            bdi_get(bdi).await;
        }
        let i = bdev_alloc(s, bdi, disk).await;
        // The first reference is the disk's, the second that of whoever has the device open.
        ihold(i).await;
        i
    } else {
        new_inode(s).await
    };
    own(i.ptr(), is_immortal);
    i.i_dax().set(dax);
    i.io_completes_later().set(async_io);
    opened(view, inode, 1);
    view.count(view.objects.sb_users(), sb.index(), -1);
    view.store(view.objects.inodes(), inode.index(), i.ptr()).await;
    Ok(0)
}

async fn open(view: View<'_>, inode: InodeRef) -> Result<i64, i64> {
    let i = view.inode(inode).await;
    let (false, Some(sb)) = (i.is_null(), view.plan.sb_of[inode.index()]) else { return Err(ENOENT) };
    let s = enter_mount(view, sb).await?;
    let found = ilookup(s, i).await;
    if found {
        opened(view, inode, 1);
    }
    view.count(view.objects.sb_users(), sb.index(), -1);
    if found { Ok(0) } else { Err(ENOENT) }
}

async fn close(view: View<'_>, inode: InodeRef) -> Result<i64, i64> {
    let i = file(view, inode).await?;
    if view.count(view.objects.opens(), inode.index(), -1) == 0 && i.i_blkdev().get() {
        blkdev_put_whole(i, globals().root_cgroup().get()).await;
    }
    iput(i).await;
    // The mount is pinned by the file until it is closed for good.
    if let Some(sb) = view.plan.sb_of[inode.index()] {
        view.count(view.objects.sb_users(), sb.index(), -1);
    }
    Ok(0)
}

async fn release_disk(view: View<'_>, inode: InodeRef) -> Result<i64, i64> {
    let i = view.inode(inode).await;
    if i.is_null() || view.count(view.objects.released(), inode.index(), 1) > 1 || !i.i_blkdev().get() {
        return Err(ENOENT);
    }
    disk_release(i).await;
    Ok(0)
}

// ---- dirtying and writing ---------------------------------------------------------------------------------------------------

async fn dirty(view: View<'_>, inode: InodeRef, cgroup: CgroupRef, pages: u32) -> Result<i64, i64> {
    let (i, c) = (file(view, inode).await?, lives_in(view, cgroup).await?);
    let css = task_get_css(c, Subsys::Memory).await;
    folio_mark_dirty(i, css, i64::from(pages)).await;
    css_put(css).await;
    Ok(0)
}

async fn mark(view: View<'_>, inode: InodeRef, cgroup: CgroupRef, flags: u64) -> Result<i64, i64> {
    let (i, c) = (file(view, inode).await?, lives_in(view, cgroup).await?);
    mark_inode_dirty_by(i, flags, c).await;
    Ok(0)
}

async fn attach(view: View<'_>, inode: InodeRef, cgroup: CgroupRef) -> Result<i64, i64> {
    let (i, c) = (file(view, inode).await?, lives_in(view, cgroup).await?);
    inode_attach_wb(i, Css::NULL, c).await;
    Ok(0)
}

async fn fsync(view: View<'_>, inode: InodeRef, cgroup: CgroupRef) -> Result<i64, i64> {
    let (i, c) = (file(view, inode).await?, lives_in(view, cgroup).await?);
    generic_file_fsync(i, c).await;
    Ok(0)
}

async fn expire(view: View<'_>, inode: InodeRef) -> Result<i64, i64> {
    file(view, inode).await?.dirtied_expired().write_once(true).await;
    Ok(0)
}

/// Every timer of the device's flushers that is due fires.
async fn periodic(view: View<'_>, bdi: BdiRef) -> Result<i64, i64> {
    let head = device(view, bdi).await?.wb_list();
    let _rcu = rcu_read_lock();
    let mut pos = ListHead(Ptr::from_word(head.next_rcu().await));
    while pos != head {
        let wb = container_of!(pos, BdiWriteback, wb_fields::bdi_node);
        if wb_has_dirty_io(wb).await {
            wb_wakeup(wb).await;
        }
        pos = ListHead(Ptr::from_word(pos.next_rcu().await));
    }
    Ok(0)
}

async fn sync(view: View<'_>, sb: SbRef) -> Result<i64, i64> {
    if sync_one_super(superblock(view, sb).await?).await { Ok(0) } else { Err(ENOENT) }
}

async fn throttle(view: View<'_>, bdi: BdiRef, cgroup: CgroupRef) -> Result<i64, i64> {
    let (b, c) = (device(view, bdi).await?, lives_in(view, cgroup).await?);
    balance_dirty_pages_ratelimited(b, c).await;
    Ok(0)
}

async fn flush_foreign(view: View<'_>, bdi: BdiRef, cgroup: CgroupRef) -> Result<i64, i64> {
    let (b, c) = (device(view, bdi).await?, lives_in(view, cgroup).await?);
    let wb = wb_get_create_current(b, c, Gfp::Kernel).await;
    let wb = if wb.is_null() { b.wb() } else { wb };
    mem_cgroup_flush_foreign(wb).await;
    wb.put().await;
    Ok(0)
}

async fn by_id(view: View<'_>, bdi: BdiRef, id: CssId, wait: bool) -> i64 {
    let bdi_id = u64::from(view.objects.bdi_ids().slot(u32::from(bdi.0)).get().0);
    // As in a foreign-flush record: the wait queue outlives every device.
    let done = WbCompletion(kzalloc_nofail(WbCompletion::TYPE));
    done.cnt().set(1);
    done.waitq().set(globals().memcg_cgwb_frn_waitq().ptr());
    if !wait {
        immortal(done.ptr());
    }
    let result = cgroup_writeback_by_id(bdi_id, css_id(view, id), WbReason::ForeignFlush, done).await;
    if wait {
        wb_wait_for_completion(done).await;
        kfree(done.ptr());
    }
    result
}

async fn hold(view: View<'_>, wb: WbRef, inode: InodeRef) -> Result<i64, i64> {
    let i = file(view, inode).await?;
    let i_lock = i.i_lock().lock().await;
    let w = inode_to_wb(i);
    if w.is_null() {
        return Err(ENOENT);
    }
    w.get().await;
    drop(i_lock);
    view.keep_wb(wb, w).await;
    Ok(0)
}

/// Performs the operation, if it is one of those here.
pub(super) async fn perform(view: View<'_>, op: &Op, is_immortal: bool) -> Option<i64> {
    let result = match *op {
        Op::Sb { sb, bdi, own_bdi, cgroup_writeback } => mount(view, sb, bdi, own_bdi, cgroup_writeback, is_immortal).await,
        Op::Umount { sb } => umount(view, sb).await,
        Op::Retire { sb } => match superblock(view, sb).await {
            Ok(s) => {
                retire_super(s).await;
                Ok(0)
            }
            Err(err) => Err(err),
        },
        Op::Inode { .. } => create(view, op, is_immortal).await,
        Op::Open { inode } => open(view, inode).await,
        Op::Close { inode } => close(view, inode).await,
        Op::DiskRelease { inode } => release_disk(view, inode).await,
        Op::Unlink { inode } => match file(view, inode).await {
            Ok(i) => {
                drop_nlink(i).await;
                Ok(0)
            }
            Err(err) => Err(err),
        },
        Op::Expire { inode } => expire(view, inode).await,
        Op::Dirty { inode, cgroup, pages } => dirty(view, inode, cgroup, pages).await,
        Op::DirtyInode { inode, cgroup } => mark(view, inode, cgroup, I_DIRTY_SYNC).await,
        Op::DirtyTime { inode, cgroup } => mark(view, inode, cgroup, I_DIRTY_TIME).await,
        Op::Attach { inode, cgroup } => attach(view, inode, cgroup).await,
        Op::Writeback { inode, wait } => match file(view, inode).await {
            Ok(i) => {
                write_inode_now(i, wait).await;
                Ok(0)
            }
            Err(err) => Err(err),
        },
        Op::Fsync { inode, cgroup } => fsync(view, inode, cgroup).await,
        Op::Flush {} => {
            wakeup_flusher_threads(WbReason::Sync).await;
            Ok(0)
        }
        Op::FlushTime {} => {
            wakeup_dirtytime_writeback().await;
            Ok(0)
        }
        Op::Periodic { bdi } => periodic(view, bdi).await,
        Op::Sync { sb } => sync(view, sb).await,
        Op::Throttle { bdi, cgroup } => throttle(view, bdi, cgroup).await,
        Op::FlushForeign { bdi, cgroup } => flush_foreign(view, bdi, cgroup).await,
        Op::ById { bdi, id, wait } => Ok(by_id(view, bdi, id, wait).await),
        Op::Switch { inode, to } => match file(view, inode).await {
            Ok(i) => {
                inode_switch_wbs(i, css_id(view, to)).await;
                Ok(0)
            }
            Err(err) => Err(err),
        },
        Op::Hold { wb, inode } => hold(view, wb, inode).await,
        _ => return None,
    };
    Some(result.unwrap_or_else(|err| err))
}
