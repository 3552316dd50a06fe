//! Operations on cgroups and on wbs by cgroup.

use super::objects::View;
use super::{EBUSY, ENODEV, ENOENT, ENOMEM, own, usable};
use crate::cases::{BdiRef, CgroupRef, CssId, Op, WbRef};
use crate::linux::globals;
use crate::linux::include::backing_dev::wb_get_create_current;
use crate::linux::include::backing_dev_defs::{BackingDevInfo, BdiWriteback};
use crate::linux::include::cgroup_defs::{Cgroup, Css, Subsys};
use crate::linux::kernel::cgroup::cgroup::{
    cgroup_attach_task, cgroup_disable_controller, cgroup_enable_controller, cgroup_mkdir, cgroup_rmdir, cgroup_task_dead, css_from_id, css_put, css_tryget,
};
use crate::linux::mm::backing_dev::{bdi_alloc, bdi_get, bdi_put, bdi_register, bdi_unregister, cgwb_debug_stats_show, wb_get_create};
use crate::sync::{Gfp, Observed, Ptr, immortal, rcu_read_lock};

/// A process moves into a cgroup. 0 or an errno.
pub(super) async fn enter(cgroup: Cgroup) -> i64 {
    let _mutex = globals().cgroup_mutex().lock().await;
    match usable(cgroup) {
        Ok(c) => {
            cgroup_attach_task(c).await;
            0
        }
        Err(err) => err,
    }
}

/// A process that entered leaves.
pub(super) async fn leave(cgroup: Cgroup) {
    if !cgroup.is_null() && cgroup.populated().get() > 0 {
        cgroup_task_dead(cgroup).await;
    }
}

async fn mkdir(view: View<'_>, cgroup: CgroupRef, memory: bool, io: bool, is_immortal: bool) -> Result<i64, i64> {
    let parent = usable(view.cgroup(view.plan.parents[cgroup.index()]).await)?;
    let made = cgroup_mkdir(parent, u32::from(cgroup.0), memory, io).await;
    if made.is_null() {
        return Err(ENOMEM);
    }
    // The case's handle keeps the cgroup's memory, as an open directory does; it keeps none of its csses.
    made.refcnt().set(made.refcnt().get() + 1);
    immortal(made.ptr());
    let css = made.subsys_memory().get();
    let id = if css.is_null() { 0 } else { css.id().get() };
    for css in [css, made.subsys_io().get()].into_iter().filter(|c| !c.is_null()) {
        own(css.ptr(), is_immortal);
    }
    view.objects.css_ids().slot(u32::from(cgroup.0)).set(Ptr(id));
    view.store(view.objects.cgroups(), cgroup.index(), made.ptr()).await;
    Ok(0)
}

/// Number of the css id that an operation means.
pub(super) fn css_id(view: View<'_>, id: CssId) -> u32 {
    match id {
        CssId::Of(c) => view.objects.css_ids().slot(u32::from(c.0)).get().0,
        CssId::Number(n) => n,
    }
}

/// A memory css by id, with a reference, as callers outside a cgroup get one; null if there is none.
pub(super) async fn css_by_id(id: u32) -> Css {
    let call = Observed::begin();
    let _rcu = rcu_read_lock();
    let css = css_from_id(id, Subsys::Memory).await;
    call.returns(if !css.is_null() && css_tryget(css).await { css } else { Css::NULL })
}

/// Drops a reference on a wb, or keeps it under a name.
async fn put_or_keep(view: View<'_>, wb: BdiWriteback, keep: Option<WbRef>) -> i64 {
    if wb.is_null() {
        return ENOMEM;
    }
    match keep {
        Some(k) => view.keep_wb(k, wb).await,
        None => wb.put().await,
    }
    0
}

/// A device that an operation may use, or why not.
pub(super) async fn device(view: View<'_>, bdi: BdiRef) -> Result<BackingDevInfo, i64> {
    let b = view.bdi(bdi).await;
    if b.is_null() || view.count(view.objects.bdi_refs(), bdi.index(), 0) == 0 { Err(ENODEV) } else { Ok(b) }
}

async fn new_bdi(view: View<'_>, bdi: BdiRef, is_immortal: bool) -> Result<i64, i64> {
    let made = bdi_alloc();
    if made.is_null() {
        return Err(ENOMEM);
    }
    own(made.ptr(), is_immortal);
    let err = bdi_register(made).await;
    if err != 0 {
        bdi_put(made).await;
        return Err(err);
    }
    view.objects.bdi_ids().slot(u32::from(bdi.0)).set(Ptr(made.id().get() as u32));
    view.count(view.objects.bdi_refs(), bdi.index(), 1);
    view.store(view.objects.bdis(), bdi.index(), made.ptr()).await;
    Ok(0)
}

async fn unplug(view: View<'_>, bdi: BdiRef) -> Result<i64, i64> {
    let b = device(view, bdi).await?;
    if view.count(view.objects.unplugs(), bdi.index(), 1) > 1 {
        return Err(ENODEV);
    }
    bdi_unregister(b).await;
    Ok(0)
}

async fn drop_bdi(view: View<'_>, bdi: BdiRef) -> Result<i64, i64> {
    let b = device(view, bdi).await?;
    if view.count(view.objects.bdi_refs(), bdi.index(), 0) == 1 && view.count(view.objects.unplugs(), bdi.index(), 0) == 0 {
        return Err(EBUSY);
    }
    view.count(view.objects.bdi_refs(), bdi.index(), -1);
    bdi_put(b).await;
    Ok(0)
}

/// A task pins a device that another one may drop.
pub(super) async fn keep_bdi(view: View<'_>, bdi: BdiRef) {
    if let Ok(b) = device(view, bdi).await {
        bdi_get(b).await;
        view.count(view.objects.bdi_refs(), bdi.index(), 1);
    }
}

/// It needs it no longer.
pub(super) async fn unkeep_bdi(view: View<'_>, bdi: BdiRef) {
    let _ = drop_bdi(view, bdi).await;
}

async fn rmdir(view: View<'_>, cgroup: CgroupRef) -> Result<i64, i64> {
    Ok(cgroup_rmdir(usable(view.cgroup(cgroup).await)?).await)
}

async fn controller(view: View<'_>, cgroup: CgroupRef, on: bool) -> Result<i64, i64> {
    let c = usable(view.cgroup(cgroup).await)?;
    Ok(if on { cgroup_enable_controller(c, Subsys::Io).await } else { cgroup_disable_controller(c, Subsys::Io).await })
}

async fn get_create(view: View<'_>, bdi: BdiRef, cgroup: CgroupRef, keep: Option<WbRef>) -> Result<i64, i64> {
    let b = device(view, bdi).await?;
    let css = css_by_id(css_id(view, CssId::Of(cgroup))).await;
    if css.is_null() {
        return Err(ENOENT);
    }
    let wb = wb_get_create(b, css, Gfp::Kernel).await;
    css_put(css).await;
    Ok(put_or_keep(view, wb, keep).await)
}

async fn get_create_current(view: View<'_>, bdi: BdiRef, cgroup: CgroupRef, keep: Option<WbRef>) -> Result<i64, i64> {
    let (b, c) = (device(view, bdi).await?, lives_in(view, cgroup).await?);
    let wb = wb_get_create_current(b, c, Gfp::Kernel).await;
    Ok(put_or_keep(view, wb, keep).await)
}

/// The cgroup that a task acts in. One that is dead is so only for tasks that entered before, which keeps its csses.
pub(super) async fn lives_in(view: View<'_>, cgroup: CgroupRef) -> Result<Cgroup, i64> {
    let c = view.cgroup(cgroup).await;
    if c.is_null() || view.elusive(cgroup) {
        return Err(ENOENT);
    }
    if c.dead().get() && c.populated().get() == 0 { Err(ENODEV) } else { Ok(c) }
}

async fn stats(view: View<'_>, bdi: BdiRef) -> Result<i64, i64> {
    Ok(i64::from(cgwb_debug_stats_show(device(view, bdi).await?).await))
}

async fn release(view: View<'_>, wb: WbRef) -> Result<i64, i64> {
    let w = view.take_wb(wb).await;
    if w.is_null() {
        return Err(ENOENT);
    }
    w.put().await;
    Ok(0)
}

/// Performs the operation, if it is one of those here.
pub(super) async fn perform(view: View<'_>, op: &Op, is_immortal: bool) -> Option<i64> {
    let result = match *op {
        Op::Bdi { bdi } => new_bdi(view, bdi, is_immortal).await,
        Op::Unplug { bdi } => unplug(view, bdi).await,
        Op::BdiPut { bdi } => drop_bdi(view, bdi).await,
        Op::Cgroup { cgroup, memory, io } => mkdir(view, cgroup, memory, io, is_immortal).await,
        Op::Rmdir { cgroup } => rmdir(view, cgroup).await,
        Op::EnableIo { cgroup } => controller(view, cgroup, true).await,
        Op::DisableIo { cgroup } => controller(view, cgroup, false).await,
        Op::Enter { cgroup } => Ok(enter(view.cgroup(cgroup).await).await),
        Op::Leave { cgroup } => {
            leave(view.cgroup(cgroup).await).await;
            Ok(0)
        }
        Op::GetCreate { bdi, cgroup, keep } => get_create(view, bdi, cgroup, keep).await,
        Op::GetCreateCurrent { bdi, cgroup, keep } => get_create_current(view, bdi, cgroup, keep).await,
        Op::Stats { bdi } => stats(view, bdi).await,
        Op::Release { wb } => release(view, wb).await,
        _ => return None,
    };
    Some(result.unwrap_or_else(|err| err))
}
