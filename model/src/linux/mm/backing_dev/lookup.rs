//! Finding the wb of a memcg on a bdi, and creating it.
//!
//! Mirrors:    mm/backing-dev.c, cgwb_create() to wb_get_create(); fidelity: mirror.
//! Simplified: one allocation stands for the wb and its counters.
//! Locks:      lookups under RCU; cgwb_create takes cgwb_lock (irq) twice, and allocates in between.
//! Ordering:   a wb is complete and WB_registered before it is published; the publication gate and the insertion are one
//!             section, against the kill loops that close the gate first.
//! Rules:      LT-LOOK-1 to LT-LOOK-7, LT-LIST-4b, LT-LIST-5, LT-LIST-10, LT-LIST-11, LT-PROG-1.

use super::kill::{CGWB_RELEASE_WORKFN, cgwb_kill, cgwb_release, wb_exit};
use super::register::{bdi_get, bdi_put, wb_init};
use crate::linux::block::blk_cgroup::blkcg_pin_online;
use crate::linux::globals;
use crate::linux::include::backing_dev::wb_has_dirty_io;
use crate::linux::include::backing_dev_defs::{BackingDevInfo, BdiWriteback, WB_REGISTERED, wb_fields};
use crate::linux::include::cgroup_defs::{Css, Subsys};
use crate::linux::kernel::cgroup::cgroup::{cgroup_get_e_css, css_get, css_put};
use crate::linux::kernel::workqueue::CGWB_RELEASE_WQ;
use crate::mutants::{Mutant, mutated};
use crate::rules::{CreateBlkcg, CreateGet, CreatePre, CreatePub, LookBlkcg, rules};
use crate::sync::{EEXIST, ENOMEM, Gfp, ListHead, NULL, Observed, Ptr, Tp, emit, kfree, kzalloc, rcu_read_lock};
use crate::{container_of, kfn};

const EBUSY: i64 = -16;
const ENODEV: i64 = -19;

/// Reference that a lookup takes on what it found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Get {
    Tryget,
    TrygetLive,
    /// `wb_dying()` and then tryget: legally the same as tryget_live.
    DyingThenTryget,
}

/// `wb_get_lookup`: the wb of a memcg on a bdi, with a reference; null if there is none. The caller owns a reference on the css.
pub async fn wb_get_lookup(bdi: BackingDevInfo, memcg_css: Css) -> BdiWriteback {
    kfn!(wb_get_lookup);
    emit(Tp::Call, bdi.ptr(), u64::from(memcg_css.ptr().0));
    let blkcg = rules().look_blkcg == LookBlkcg::Yes || mutated(Mutant::V2M10);
    let get = if mutated(Mutant::V2M24) { Get::TrygetLive } else { Get::Tryget };
    let call = Observed::begin();
    let wb = call.returns(lookup(bdi, memcg_css, blkcg, get).await);
    emit(Tp::Return, wb.ptr(), u64::from(memcg_css.ptr().0));
    wb
}

/// `wb_get_lookup_dying`, the fallback of [`LookId::WbList`](crate::rules::LookId): any wb of the memcg on wb_list with dirty io,
/// oldest first, live or dying, with a reference; null if there is none.
pub async fn wb_get_lookup_dying(bdi: BackingDevInfo, memcg_css: Css) -> BdiWriteback {
    kfn!(wb_get_lookup_dying);
    let _rcu = rcu_read_lock();
    let mut pos = ListHead(Ptr::from_word(bdi.wb_list().next_rcu().await));
    while pos != bdi.wb_list() {
        let wb = container_of!(pos, BdiWriteback, wb_fields::bdi_node);
        if wb.memcg_css().get() == memcg_css && wb_has_dirty_io(wb).await && wb.tryget().await {
            return wb;
        }
        pos = ListHead(Ptr::from_word(pos.next_rcu().await));
    }
    BdiWriteback::NULL
}

/// The creation path's lookup. Where its rules are those of `wb_get_lookup`, it is `wb_get_lookup`.
async fn wb_get_lookup_live(bdi: BackingDevInfo, memcg_css: Css) -> BdiWriteback {
    let r = rules();
    let blkcg = r.create_blkcg == CreateBlkcg::Yes;
    if r.create_get == CreateGet::Tryget && blkcg == (r.look_blkcg == LookBlkcg::Yes) {
        return wb_get_lookup(bdi, memcg_css).await;
    }
    kfn!(wb_get_lookup_live);
    let get = match r.create_get {
        CreateGet::Tryget => Get::Tryget,
        CreateGet::TrygetLive if mutated(Mutant::V2M08) => Get::Tryget,
        CreateGet::TrygetLive if mutated(Mutant::V2M25) => Get::DyingThenTryget,
        CreateGet::TrygetLive => Get::TrygetLive,
    };
    let call = Observed::begin();
    call.returns(lookup(bdi, memcg_css, blkcg && !mutated(Mutant::V2M11), get).await)
}

async fn lookup(bdi: BackingDevInfo, memcg_css: Css, compare_blkcg: bool, get: Get) -> BdiWriteback {
    if memcg_css.is_root() {
        return bdi.wb();
    }
    let _rcu = rcu_read_lock();
    let mut wb = BdiWriteback(bdi.cgwb_tree().lookup_rcu(memcg_css.id().get()).await);
    if wb.is_null() {
        return wb;
    }
    let blkcg_css = if compare_blkcg { cgroup_get_e_css(memcg_css.cgroup().get(), Subsys::Io).await } else { Css::NULL };
    let matches = !compare_blkcg || wb.blkcg_css().get() == blkcg_css;
    let got = matches
        && match get {
            Get::Tryget => wb.tryget().await,
            Get::TrygetLive => wb.tryget_live().await,
            Get::DyingThenTryget => !wb.dying_once().await && wb.tryget().await,
        };
    if !got {
        wb = BdiWriteback::NULL;
    }
    if compare_blkcg {
        css_put(blkcg_css).await;
    }
    wb
}

/// `wb_get_create`: the wb of a memcg on a bdi, made if necessary, with a reference; null if it cannot be made.
pub async fn wb_get_create(bdi: BackingDevInfo, memcg_css: Css, gfp: Gfp) -> BdiWriteback {
    kfn!(wb_get_create);
    emit(Tp::Call, bdi.ptr(), u64::from(memcg_css.ptr().0));
    let mut lost = false;
    let wb = loop {
        let wb = if lost && mutated(Mutant::Ord21) { BdiWriteback::NULL } else { wb_get_lookup_live(bdi, memcg_css).await };
        if !wb.is_null() {
            break wb;
        }
        match create(bdi, memcg_css, gfp).await {
            Ok(won) => lost = !won,
            Err(_) => break wb,
        }
    };
    emit(Tp::Return, wb.ptr(), u64::from(memcg_css.ptr().0));
    wb
}

/// A copy of `wb_get_create` whose lookup takes dying wbs: what a caller that nobody converted would have.
pub async fn wb_get_create_unconverted(bdi: BackingDevInfo, memcg_css: Css, gfp: Gfp) -> BdiWriteback {
    kfn!(wb_get_create);
    emit(Tp::Call, bdi.ptr(), u64::from(memcg_css.ptr().0));
    let mut wb = lookup(bdi, memcg_css, true, Get::Tryget).await;
    if wb.is_null() {
        wb = wb_get_create(bdi, memcg_css, gfp).await;
    }
    emit(Tp::Return, wb.ptr(), u64::from(memcg_css.ptr().0));
    wb
}

/// `cgwb_create`: 0 means "look again", not "created"; otherwise an errno.
pub async fn cgwb_create(bdi: BackingDevInfo, memcg_css: Css, gfp: Gfp) -> i64 {
    create(bdi, memcg_css, gfp).await.map_or_else(|err| err, |_| 0)
}

/// `cgwb_create`, telling whether its wb is the one that was published.
async fn create(bdi: BackingDevInfo, memcg_css: Css, gfp: Gfp) -> Result<bool, i64> {
    kfn!(cgwb_create);
    emit(Tp::Call, bdi.ptr(), u64::from(memcg_css.ptr().0));
    let stale = if mutated(Mutant::V2M30) { bdi.cgwb_tree().lookup_slot(memcg_css.id().get()) } else { NULL };
    let blkcg_css = cgroup_get_e_css(memcg_css.cgroup().get(), Subsys::Io).await;
    let found = look_again(bdi, memcg_css, blkcg_css).await;
    let ret = if found.usable { Ok(false) } else { allocate_and_publish(bdi, memcg_css, blkcg_css, gfp, found.dying, stale).await };
    css_put(blkcg_css).await;
    emit(Tp::Return, bdi.ptr(), ret.map_or_else(|err| err, |_| 0) as u64);
    ret
}

/// What the first locked section found in the slot.
struct Found {
    /// A wb to look up again.
    usable: bool,
    /// The slot held a dying wb.
    dying: bool,
}

/// First locked section: look again, and discard a wb of another blkcg.
async fn look_again(bdi: BackingDevInfo, memcg_css: Css, blkcg_css: Css) -> Found {
    let _lock = globals().cgwb_lock().lock_irq().await;
    let key = memcg_css.id().get();
    let wb = BdiWriteback(bdi.cgwb_tree().lookup(key));
    if wb.is_null() {
        return Found { usable: false, dying: false };
    }
    let dying = wb.dying();
    let same = wb.blkcg_css().get() == blkcg_css;
    let blind = if same { mutated(Mutant::V2M06) } else { mutated(Mutant::V2M07) };
    if dying && rules().create_pre == CreatePre::SkipDying && !blind {
        // A dying wb keeps its slot until it is released or replaced; killing it again would be fatal.
        if mutated(Mutant::V2M21) {
            bdi.cgwb_tree().delete_item(key, wb.ptr());
        }
        return Found { usable: false, dying };
    }
    if !same {
        cgwb_kill(wb).await;
    }
    Found { usable: same, dying }
}

async fn allocate_and_publish(bdi: BackingDevInfo, memcg_css: Css, blkcg_css: Css, gfp: Gfp, was_dying: bool, stale: Ptr) -> Result<bool, i64> {
    let wb = BdiWriteback(kzalloc(BdiWriteback::TYPE, gfp, "cgwb_create"));
    if wb.is_null() {
        return Err(ENOMEM);
    }
    wb_init(wb, bdi);
    wb.refcnt().init(cgwb_release);
    wb.memcg_css().set(memcg_css);
    wb.blkcg_css().set(blkcg_css);
    wb.b_attached().init();
    wb.release_work().init(CGWB_RELEASE_WORKFN, CGWB_RELEASE_WQ);
    if !mutated(Mutant::Ord7) {
        wb.state().or(1 << WB_REGISTERED);
    }
    bdi_get(bdi).await;

    let lock = globals().cgwb_lock().lock_irq().await;
    let ret = publish(wb, was_dying, stale).await;
    drop(lock);
    if ret == 0 && mutated(Mutant::Ord7) {
        wb.state().test_and_set_bit(WB_REGISTERED).await;
    }
    if ret != 0 {
        bdi_put(bdi).await;
        wb.refcnt().exit();
        wb_exit(wb);
        kfree(wb.ptr());
    }
    match ret {
        0 => Ok(true),
        EEXIST => Ok(false),
        err => Err(err),
    }
}

/// Second locked section: the gate, the slot, and everything that a published wb is on and holds.
///
/// `was_dying` is the first section's verdict and `stale` a slot looked up before the lock: what wrong code would use.
async fn publish(wb: BdiWriteback, was_dying: bool, stale: Ptr) -> i64 {
    let (bdi, memcg_css, blkcg_css) = (wb.bdi().get(), wb.memcg_css().get(), wb.blkcg_css().get());
    let (memcg_cgwb_list, blkcg_cgwb_list) = (memcg_css.memcg().cgwb_list(), blkcg_css.blkcg().cgwb_list());
    let key = memcg_css.id().get();
    // The root wb's bit stands for the whole bdi, and each list's mark for its css being offline.
    let open = bdi.wb().state().get() & 1 << WB_REGISTERED != 0 && !blkcg_cgwb_list.is_marked() && !memcg_cgwb_list.is_marked();
    let old = BdiWriteback(bdi.cgwb_tree().lookup(key));
    let takeover = rules().create_pub == CreatePub::Takeover && !old.is_null() && {
        let dying = if mutated(Mutant::V2M29) && was_dying { true } else { old.dying() };
        dying || mutated(Mutant::V2M05)
    };
    if !(open || takeover && mutated(Mutant::V2M20)) {
        return ENODEV;
    }
    if takeover && !mutated(Mutant::V2M03) {
        if mutated(Mutant::V2M04) {
            return EBUSY;
        }
        if mutated(Mutant::V2M22) {
            cgwb_kill(old).await;
        }
        let slot = if stale.is_null() { bdi.cgwb_tree().lookup_slot(key) } else { stale };
        bdi.cgwb_tree().replace_slot(slot, wb.ptr());
    } else {
        // Occupied: we have raced another instance of this function.
        // The claim was that two creators can both get here with success: there is nothing to change for that.
        let _ = mutated(Mutant::H033);
        let ret = bdi.cgwb_tree().insert(key, wb.ptr());
        if ret != 0 {
            return ret;
        }
    }
    wb.bdi_node().add_tail(bdi.wb_list());
    wb.memcg_node().add(memcg_cgwb_list);
    wb.blkcg_node().add(blkcg_cgwb_list);
    blkcg_pin_online(blkcg_css).await;
    css_get(memcg_css).await;
    css_get(blkcg_css).await;
    0
}
