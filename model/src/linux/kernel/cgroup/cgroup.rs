//! The life of cgroups and csses.
//!
//! Mirrors:    kernel/cgroup/cgroup.c and include/linux/cgroup.h, css_create() to css_free_rwork_fn(); fidelity: model.
//! Simplified: two controllers; io needs memory in the same cgroup; a cgroup's own css is a count whose last put frees the
//!             cgroup after a grace period; a task uses one cgroup for the whole case, `populated` counts tasks that keep
//!             running after their cgroup was removed; controllers are switched one cgroup at a time.
//! Locks:      cgroup_mutex around creation, kill, offline and release; cgroup_idr_lock (bh) around ids.
//! Ordering:   DYING is set before the reference is killed, with a full barrier before the test for tasks; a grace period
//!             confirms the kill, a second one precedes offline, a third one separates release and free.
//! Rules:      LT-CSS-1, LT-LOOK-8, LT-MEM-2, LT-PROG-8.

use crate::kfn;
use crate::linux::block::blk_cgroup::{blkcg_css_alloc, blkcg_css_free, blkcg_css_offline, blkcg_css_online};
use crate::linux::include::cgroup_defs::{CSS_DYING, CSS_NO_REF, CSS_ONLINE, CSS_RELEASED, Cgroup, Css, NR_SUBSYS, Subsys, cgroup_fields, css_fields};
use crate::linux::kernel::cgroup::rstat::{css_rstat_exit, css_rstat_init};
use crate::linux::kernel::workqueue::{CGROUP_FREE_WQ, CGROUP_OFFLINE_WQ, CGROUP_RELEASE_WQ, queue_rcu_work};
use crate::linux::mm::memcontrol::{self, mem_cgroup_css_alloc, mem_cgroup_css_free, mem_cgroup_css_offline};
use crate::linux::{MAX_CSS_ID, Table, globals};
use crate::mutants::{Mutant, mutated};
use crate::sync::{
    FnPtr, Fut, Gfp, NULL, Pred, Ptr, Tp, Var, WorkFn, call_rcu, emit, immortal, kfree, kzalloc, kzalloc_nofail, queue_work, rcu_read_lock, report, smp_mb,
    wait_event, wake_up_all, with,
};

const EBUSY: i64 = -16;
const ENODEV: i64 = -19;
const ENOMEM: i64 = -12;
const ENOENT: i64 = -2;
const ENOSPC: i64 = -28;

/// Steps of a css's life, in order: the value of a [`Tp::Css`] event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CssStep {
    /// DYING is set.
    Dying = 0,
    /// The reference is about to be killed.
    Kill = 1,
    /// Every CPU sees the kill.
    Confirm = 2,
    /// The controller's offline callback begins.
    Offline = 3,
    /// ONLINE is cleared, the cgroup no longer points to it.
    OnlineCleared = 4,
    /// The count is zero.
    Zero = 5,
    /// Its id denotes nothing, and is still taken.
    IdNull = 6,
    /// Its memory is freed.
    Free = 7,
    /// Its id may be used again.
    IdFree = 8,
}

/// The controllers, in the order of their ids.
const SUBSYS: [Subsys; NR_SUBSYS as usize] = [Subsys::Memory, Subsys::Io];

/// Builds the root cgroup with root csses of id 1, and starts the clock.
pub fn boot() {
    let g = globals();
    // Late enough that a record with stamp 0 is expired.
    g.jiffies().set(2 * memcontrol::DIRTY_EXPIRE);
    let cgrp = Cgroup(kzalloc_nofail(Cgroup::TYPE));
    immortal(cgrp.ptr());
    cgrp.refcnt().set(1);
    g.root_cgroup().set(cgrp);
    for ss in SUBSYS {
        let css = match ss {
            Subsys::Memory => mem_cgroup_css_alloc(Css::NULL),
            Subsys::Io => blkcg_css_alloc(),
        };
        immortal(css.ptr());
        css.id().set(1);
        css.ss().set(ss as u32);
        css.flags().set(CSS_NO_REF | CSS_ONLINE);
        css.online_cnt().set(1);
        css.cgroup().set(cgrp);
        cgrp.subsys(ss).set(css);
        cgrp.cset(ss).set(css);
        g.css_ids().slot(ss as u32).set(Ptr(0b11));
        idr(ss).slot(1).set(css.ptr());
        css_rstat_init(css);
        match ss {
            Subsys::Memory => g.root_mem_cgroup().set(css),
            Subsys::Io => g.blkcg_root().set(css),
        }
    }
}

// ---- references ------------------------------------------------------------------------------------------------------

/// `css_get`: only while owning a reference.
pub async fn css_get(css: Css) {
    if !css.is_root() {
        css.refcnt().get().await;
    }
}

/// `css_tryget`: succeeds until the count is zero, killed or not.
pub async fn css_tryget(css: Css) -> bool {
    css.is_root() || css.refcnt().tryget().await
}

/// `css_tryget_online`: fails once the kill is seen, which is before the css is offline.
pub async fn css_tryget_online(css: Css) -> bool {
    css.is_root() || css.refcnt().tryget_live().await
}

/// `css_put`: may be the last one.
pub async fn css_put(css: Css) {
    if !css.is_root() {
        css.refcnt().put().await;
    }
}

/// `css_from_id`: what an id denotes, under RCU; null if nothing, or while the css is being released.
pub async fn css_from_id(id: u32, ss: Subsys) -> Css {
    if id >= MAX_CSS_ID {
        return Css::NULL;
    }
    Css(idr(ss).slot(id).read_once().await)
}

/// `cgroup_css`: a cgroup's own css for a controller, or null.
pub fn cgroup_css(cgrp: Cgroup, ss: Subsys) -> Var<Css> {
    cgrp.subsys(ss)
}

/// `cgroup_get_e_css`: the css in force for a cgroup, with a reference: its own or the nearest ancestor's that is not killed.
pub async fn cgroup_get_e_css(cgroup: Cgroup, ss: Subsys) -> Css {
    kfn!(cgroup_get_e_css);
    let _rcu = rcu_read_lock();
    let mut cgrp = cgroup;
    while !cgrp.is_null() {
        let css = cgroup_css(cgrp, ss).read_once().await;
        if !css.is_null() && css_tryget_online(css).await {
            return css;
        }
        cgrp = cgrp.parent().get();
    }
    root_css(ss)
}

/// `task_css` of a task in `cgroup`: one load, as of `task->cgroups`.
pub async fn task_css(cgroup: Cgroup, ss: Subsys) -> Css {
    let mut css = cgroup.cset(ss).read_once().await;
    let mut cgrp = cgroup;
    while css.is_null() {
        cgrp = cgrp.parent().get();
        css = cgrp.cset(ss).get();
    }
    css
}

/// `task_get_css` of a task in `cgroup`: with a reference.
pub async fn task_get_css(cgroup: Cgroup, ss: Subsys) -> Css {
    kfn!(task_get_css);
    let _rcu = rcu_read_lock();
    loop {
        let css = task_css(cgroup, ss).await;
        if css_tryget(css).await {
            return css;
        }
    }
}

fn root_css(ss: Subsys) -> Css {
    match ss {
        Subsys::Memory => globals().root_mem_cgroup().get(),
        Subsys::Io => globals().blkcg_root().get(),
    }
}

// ---- ids -------------------------------------------------------------------------------------------------------------

fn idr(ss: Subsys) -> Table<MAX_CSS_ID> {
    match ss {
        Subsys::Memory => globals().css_idr_memory(),
        Subsys::Io => globals().css_idr_io(),
    }
}

/// `cgroup_idr_alloc`: the lowest free id from 2 on, denoting nothing yet.
async fn cgroup_idr_alloc(ss: Subsys) -> Result<u32, i64> {
    let _lock = globals().cgroup_idr_lock().lock_bh().await;
    let used = globals().css_ids().slot(ss as u32);
    let id = (2..MAX_CSS_ID).find(|&id| used.get().0 & 1 << id == 0).ok_or(ENOSPC)?;
    used.set(Ptr(used.get().0 | 1 << id));
    Ok(id)
}

/// `cgroup_idr_replace`
async fn cgroup_idr_replace(ss: Subsys, id: u32, css: Ptr) {
    let _lock = globals().cgroup_idr_lock().lock_bh().await;
    idr(ss).slot(id).write_once(css).await;
}

/// `cgroup_idr_remove`
async fn cgroup_idr_remove(ss: Subsys, id: u32) {
    let _lock = globals().cgroup_idr_lock().lock_bh().await;
    let used = globals().css_ids().slot(ss as u32);
    used.set(Ptr(used.get().0 & !(1 << id)));
    idr(ss).slot(id).write_once(NULL).await;
}

// ---- creation --------------------------------------------------------------------------------------------------------

/// `css_create`: a new online css of `cgrp`, or an errno. The parent must have that controller.
pub async fn css_create(cgrp: Cgroup, ss: Subsys) -> Result<Css, i64> {
    kfn!(css_create);
    lockdep_assert_held_mutex();
    let parent_css = cgroup_css(cgrp.parent().get(), ss).get();
    if parent_css.is_null() {
        return Err(ENOENT);
    }
    let css = match ss {
        Subsys::Memory => mem_cgroup_css_alloc(parent_css),
        Subsys::Io => blkcg_css_alloc(),
    };
    if css.is_null() {
        return Err(ENOMEM);
    }
    // init_and_link_css()
    cgrp.refcnt().inc().await;
    css.cgroup().set(cgrp);
    css.ss().set(ss as u32);
    css.kill_finish_work().init(KILL_FINISH_WORK_FN, CGROUP_OFFLINE_WQ);
    css.parent().set(parent_css);
    css_get(parent_css).await;

    css.refcnt().init(css_release);
    match cgroup_idr_alloc(ss).await {
        Ok(id) => css.id().set(id),
        Err(err) => {
            css.destroy_rwork().init(CSS_FREE_RWORK_FN, CGROUP_FREE_WQ);
            queue_rcu_work(css.destroy_rwork());
            return Err(err);
        }
    }
    css_rstat_init(css);
    cgroup_idr_replace(ss, css.id().get(), css.ptr()).await;
    online_css(css).await;
    Ok(css)
}

async fn online_css(css: Css) {
    kfn!(online_css);
    if css.subsys() == Subsys::Io {
        blkcg_css_online(css).await;
    }
    css.flags().set(css.flags().get() | CSS_ONLINE);
    cgroup_css(css.cgroup().get(), css.subsys()).write_once(css).await;
    css.online_cnt().inc().await;
    css.parent().get().online_cnt().inc().await;
}

/// `cgroup_mkdir`: a child of `parent` with the controllers asked for, as far as `parent` has them; null on failure.
///
/// `index` is the cgroup's number in the case. io implies memory.
pub async fn cgroup_mkdir(parent: Cgroup, index: u32, memory: bool, io: bool) -> Cgroup {
    kfn!(cgroup_mkdir);
    let _mutex = globals().cgroup_mutex().lock().await;
    if parent.dead().get() {
        return Cgroup::NULL;
    }
    let cgrp = Cgroup(kzalloc(Cgroup::TYPE, Gfp::Kernel, "cgroup_create"));
    if cgrp.is_null() {
        return Cgroup::NULL;
    }
    cgrp.index().set(index);
    cgrp.parent().set(parent);
    cgrp.refcnt().set(1);
    parent.refcnt().inc().await;
    parent.nr_children().set(parent.nr_children().get() + 1);
    for (ss, wanted) in [(Subsys::Memory, memory || io), (Subsys::Io, io)] {
        let parent_css = cgroup_css(parent, ss).get();
        if !wanted || parent_css.is_null() || parent_css.is_dying() {
            continue;
        }
        match css_create(cgrp, ss).await {
            Ok(css) => cgrp.cset(ss).set(css),
            Err(_) => {
                cgroup_destroy_locked(cgrp).await;
                return Cgroup::NULL;
            }
        }
    }
    cgrp
}

/// `cgroup_put`: the last one frees the cgroup after a grace period, because walks towards the root are under RCU.
async fn cgroup_put(cgrp: Cgroup) {
    if cgrp.refcnt().dec().await == 1 {
        call_rcu(cgrp.rcu().ptr(), "cgroup_free_rcu", |rcu| {
            Box::pin(async move {
                let cgrp = Cgroup(rcu.sub(cgroup_fields::rcu));
                let parent = cgrp.parent().get();
                kfree(cgrp.ptr());
                cgroup_put(parent).await;
            })
        });
    }
}

// ---- tasks and controllers -------------------------------------------------------------------------------------------

/// A task that keeps its cgroup's csses from being killed until [`cgroup_task_dead`], also after the cgroup was removed.
pub async fn cgroup_attach_task(cgroup: Cgroup) {
    kfn!(css_set_move_task);
    let mut cgrp = cgroup;
    while !cgrp.is_null() && cgrp.populated().inc().await == 0 {
        cgrp = cgrp.parent().get();
    }
}

/// `cgroup_task_dead`: the task has run for the last time; fires the kill of csses that waited for it.
pub async fn cgroup_task_dead(cgroup: Cgroup) {
    kfn!(css_update_populated);
    let mut cgrp = cgroup;
    while !cgrp.is_null() {
        // Stands for the task's css_set, which keeps the csses' memory until the task is gone.
        let _rcu = rcu_read_lock();
        let csses = SUBSYS.map(|ss| cgroup_css(cgrp, ss).get());
        if cgrp.populated().dec().await != 1 {
            break;
        }
        // Pairs with the barrier in kill_css_sync(): either side sees the other.
        smp_mb().await;
        for css in csses.into_iter().filter(|c| !c.is_null() && !c.is_root()) {
            let dying = css.flags().read_once().await & CSS_DYING != 0;
            // It can be gone only if the remover saw no task, and killed it itself.
            if dying && css_tryget(css).await && queue_work(css.kill_finish_work()).await == 0 {
                css_put(css).await;
            }
        }
        cgrp = cgrp.parent().get();
    }
}

const KILL_FINISH_WORK_FN: WorkFn = WorkFn {
    name: "kill_css_finish_work_fn",
    body: |work| {
        Box::pin(async move {
            kfn!(kill_css_finish_work_fn);
            let css = Css(work.sub(css_fields::kill_finish_work));
            let mutex = globals().cgroup_mutex().lock().await;
            kill_css_finish(css).await;
            drop(mutex);
            css_put(css).await;
        })
    },
};

/// Enables a controller for `cgroup` (a write to its parent's `cgroup.subtree_control`): first the css, then the tasks move.
///
/// Waits until an earlier css of that controller is offline. 0 or an errno.
pub async fn cgroup_enable_controller(cgroup: Cgroup, ss: Subsys) -> i64 {
    kfn!(cgroup_subtree_control_write);
    let _mutex = loop {
        let mutex = globals().cgroup_mutex().lock().await;
        let css = cgroup_css(cgroup, ss).get();
        if css.is_null() || !css.is_dying() || cgroup.dead().get() {
            break mutex;
        }
        // cgroup_lock_and_drain_offline()
        drop(mutex);
        wait_event(cgroup.offline_waitq(), cgroup_css(cgroup, ss).ptr(), Pred::Zero).await;
    };
    if cgroup.dead().get() {
        return ENODEV;
    }
    if !cgroup_css(cgroup, ss).get().is_null() {
        return 0;
    }
    let memory = cgroup_css(cgroup, Subsys::Memory).get();
    if ss == Subsys::Io && (memory.is_null() || memory.is_dying()) {
        return ENOENT;
    }
    match css_create(cgroup, ss).await {
        Ok(css) => {
            cgroup.cset(ss).write_once(css).await;
            0
        }
        Err(err) => err,
    }
}

/// Disables a controller for `cgroup`: the tasks move to the css above, then the css is killed. 0 or an errno.
///
/// Memory stays while io is enabled, which depends on it; a css with online children stays too.
pub async fn cgroup_disable_controller(cgroup: Cgroup, ss: Subsys) -> i64 {
    kfn!(cgroup_apply_control_disable);
    let _mutex = globals().cgroup_mutex().lock().await;
    let css = cgroup_css(cgroup, ss).get();
    if cgroup.dead().get() || css.is_null() || css.is_dying() {
        return ENODEV;
    }
    let io = cgroup_css(cgroup, Subsys::Io).get();
    if css.is_root() || css.online_cnt().get() > 1 || (ss == Subsys::Memory && !io.is_null() && !io.is_dying()) {
        return EBUSY;
    }
    cgroup.cset(ss).write_once(Css::NULL).await;
    kill_css_sync(css).await;
    kill_css_finish(css).await;
    0
}

// ---- destruction -----------------------------------------------------------------------------------------------------

/// `cgroup_rmdir`: 0, or `-EBUSY` while there are child cgroups. A cgroup that is gone already gives 0.
pub async fn cgroup_rmdir(cgroup: Cgroup) -> i64 {
    kfn!(cgroup_rmdir);
    let _mutex = globals().cgroup_mutex().lock().await;
    if cgroup.dead().get() {
        return 0;
    }
    cgroup_destroy_locked(cgroup).await
}

async fn cgroup_destroy_locked(cgrp: Cgroup) -> i64 {
    kfn!(cgroup_destroy_locked);
    lockdep_assert_held_mutex();
    let parent = cgrp.parent().get();
    if parent.is_null() || cgrp.nr_children().get() > 0 {
        return EBUSY;
    }
    cgrp.dead().set(true);
    parent.nr_children().set(parent.nr_children().get() - 1);
    let early = if mutated(Mutant::Ord22) { Some(cgrp.populated().read_once().await != 0) } else { None };
    // io first, as the subsystem table has it.
    let csses = [cgroup_css(cgrp, Subsys::Io).get(), cgroup_css(cgrp, Subsys::Memory).get()];
    for css in csses.into_iter().filter(|c| !c.is_null()) {
        kill_css_sync(css).await;
    }
    let populated = match early {
        Some(p) => p,
        None => cgrp.populated().read_once().await != 0,
    };
    if !populated {
        for css in csses.into_iter().filter(|c| !c.is_null()) {
            kill_css_finish(css).await;
        }
    }
    cgroup_put(cgrp).await;
    0
}

/// `kill_css_sync`: the half of a css's removal that happens at once.
pub async fn kill_css_sync(css: Css) {
    kfn!(kill_css_sync);
    lockdep_assert_held_mutex();
    if css.is_dying() {
        return;
    }
    css.flags().write_once(css.flags().get() | CSS_DYING).await;
    emit(Tp::Css, css.ptr(), CssStep::Dying as u64);
    // Pairs with the barrier in css_update_populated().
    smp_mb().await;
}

/// `kill_css_finish`: the half that waits until no task is left below.
pub async fn kill_css_finish(css: Css) {
    kfn!(kill_css_finish);
    lockdep_assert_held_mutex();
    if css.refcnt().is_dying() {
        return;
    }
    // Keeps the css beyond its base reference, until it is offline.
    css_get(css).await;
    emit(Tp::Css, css.ptr(), CssStep::Kill as u64);
    css.refcnt().kill_and_confirm(FnPtr::new(css_killed_ref_fn)).await;
}

fn css_killed_ref_fn(refcnt: Ptr) -> Fut {
    Box::pin(async move {
        kfn!(css_killed_ref_fn);
        let css = Css(refcnt.sub(css_fields::refcnt));
        emit(Tp::Css, css.ptr(), CssStep::Confirm as u64);
        if css.online_cnt().dec().await == 1 {
            css.destroy_rwork().init(CSS_KILLED_WORK_FN, CGROUP_OFFLINE_WQ);
            queue_rcu_work(css.destroy_rwork());
        }
    })
}

const CSS_KILLED_WORK_FN: WorkFn = WorkFn {
    name: "css_killed_work_fn",
    body: |work| {
        Box::pin(async move {
            kfn!(css_killed_work_fn);
            let mut css = Css(work.sub(css_fields::destroy_rwork));
            let _mutex = globals().cgroup_mutex().lock().await;
            loop {
                offline_css(css).await;
                css_put(css).await;
                // It cannot be freed while cgroup_mutex is held.
                css = css.parent().get();
                if css.is_null() || css.online_cnt().dec().await != 1 {
                    break;
                }
            }
        })
    },
};

async fn offline_css(css: Css) {
    kfn!(offline_css);
    lockdep_assert_held_mutex();
    if css.flags().get() & CSS_ONLINE == 0 {
        return;
    }
    emit(Tp::Css, css.ptr(), CssStep::Offline as u64);
    match css.subsys() {
        Subsys::Memory => mem_cgroup_css_offline(css).await,
        Subsys::Io => blkcg_css_offline(css).await,
    }
    let cgrp = css.cgroup().get();
    css.flags().write_once(css.flags().get() & !CSS_ONLINE).await;
    cgroup_css(cgrp, css.subsys()).write_once(Css::NULL).await;
    emit(Tp::Css, css.ptr(), CssStep::OnlineCleared as u64);
    wake_up_all(cgrp.offline_waitq()).await;
}

/// `css_release`: the percpu_ref callback, in any context.
fn css_release(refcnt: Ptr) -> Fut {
    Box::pin(async move {
        kfn!(css_release);
        let css = Css(refcnt.sub(css_fields::refcnt));
        emit(Tp::Css, css.ptr(), CssStep::Zero as u64);
        css.destroy_work().init(CSS_RELEASE_WORK_FN, CGROUP_RELEASE_WQ);
        queue_work(css.destroy_work()).await;
    })
}

const CSS_RELEASE_WORK_FN: WorkFn = WorkFn {
    name: "css_release_work_fn",
    body: |work| {
        Box::pin(async move {
            kfn!(css_release_work_fn);
            let css = Css(work.sub(css_fields::destroy_work));
            let mutex = globals().cgroup_mutex().lock().await;
            css.flags().write_once(css.flags().get() | CSS_RELEASED).await;
            cgroup_idr_replace(css.subsys(), css.id().get(), NULL).await;
            emit(Tp::Css, css.ptr(), CssStep::IdNull as u64);
            drop(mutex);
            css.destroy_rwork().init(CSS_FREE_RWORK_FN, CGROUP_FREE_WQ);
            queue_rcu_work(css.destroy_rwork());
        })
    },
};

const CSS_FREE_RWORK_FN: WorkFn = WorkFn {
    name: "css_free_rwork_fn",
    body: |work| {
        Box::pin(async move {
            kfn!(css_free_rwork_fn);
            let css = Css(work.sub(css_fields::destroy_rwork));
            let (ss, cgrp, parent, id) = (css.subsys(), css.cgroup().get(), css.parent().get(), css.id().get());
            css.refcnt().exit();
            css_rstat_exit(css).await;
            match ss {
                Subsys::Memory => mem_cgroup_css_free(css).await,
                Subsys::Io => blkcg_css_free(css),
            }
            emit(Tp::Css, css.ptr(), CssStep::Free as u64);
            // An id of 0: creation failed before there was one.
            if id != 0 {
                cgroup_idr_remove(ss, id).await;
                emit(Tp::Css, css.ptr(), CssStep::IdFree as u64);
            }
            cgroup_put(cgrp).await;
            css_put(parent).await;
        })
    },
};

fn lockdep_assert_held_mutex() {
    let m = globals().cgroup_mutex().ptr();
    if !with(|x| x.holds(m) || x.immediate) {
        report("LT-LOCK-3", "cgroup_mutex must be held here and is not".into());
    }
}
