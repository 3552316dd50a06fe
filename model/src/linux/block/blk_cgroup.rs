//! The io controller's css, and what keeps its blkgs.
//!
//! Mirrors:    block/blk-cgroup.c, blkcg_css_alloc() to blkcg_css_free(), blkcg_pin_online(); fidelity: model.
//! Simplified: blkgs are one flag, set when the last pin goes; they hold no reference on the css.
//! Locks:      none of its own; wbs pin under cgwb_lock, behind the publication gate.
//! Ordering:   wb_blkcg_offline() excludes pins by new wbs before the base pin is dropped.
//! Rules:      LT-CSS-3, LT-REF-5.

use crate::kfn;
use crate::linux::include::cgroup_defs::{Blkcg, Css};
use crate::linux::mm::backing_dev::wb_blkcg_offline;
use crate::mutants::{Mutant, mutated};
use crate::sync::{Gfp, kfree, kzalloc, report, with};

/// `blkcg_css_alloc`: null when out of memory.
pub fn blkcg_css_alloc() -> Css {
    kfn!(blkcg_css_alloc);
    let blkcg = Blkcg(kzalloc(Blkcg::TYPE, Gfp::Kernel, "blkcg_css_alloc"));
    if blkcg.is_null() {
        return Css::NULL;
    }
    blkcg.online_pin().set(1);
    blkcg.cgwb_list().init();
    blkcg.css()
}

/// `blkcg_css_online`: a child pins its parent, so that blkgs go offline towards the root.
pub async fn blkcg_css_online(css: Css) {
    kfn!(blkcg_css_online);
    let parent = css.parent().get();
    if !parent.is_null() && !mutated(Mutant::H014) {
        blkcg_pin_online(parent).await;
    }
}

/// `blkcg_pin_online`: the caller excludes that the count is zero.
pub async fn blkcg_pin_online(css: Css) {
    kfn!(blkcg_pin_online);
    if css.blkcg().online_pin().inc().await <= 0 {
        let n = with(|m| m.mem.name(css.ptr()));
        report("LT-CSS-3", format!("online_pin of {n} taken from zero"));
    }
}

/// `blkcg_unpin_online`: the last pin destroys the blkgs and goes on with the parent. May sleep.
pub async fn blkcg_unpin_online(css: Css) {
    kfn!(blkcg_unpin_online);
    let mut blkcg = css.blkcg();
    loop {
        if blkcg.online_pin().dec().await != 1 {
            break;
        }
        let parent = blkcg.css().parent().get();
        blkcg_destroy_blkgs(blkcg);
        if parent.is_null() || mutated(Mutant::H014) {
            break;
        }
        blkcg = parent.blkcg();
    }
}

fn blkcg_destroy_blkgs(blkcg: Blkcg) {
    kfn!(blkcg_destroy_blkgs);
    with(|m| m.might_sleep("blkcg_destroy_blkgs"));
    blkcg.blkgs_destroyed().set(true);
}

/// `blkcg_css_offline`
pub async fn blkcg_css_offline(css: Css) {
    kfn!(blkcg_css_offline);
    if mutated(Mutant::Ord19) {
        blkcg_unpin_online(css).await;
        wb_blkcg_offline(css).await;
        return;
    }
    wb_blkcg_offline(css).await;
    blkcg_unpin_online(css).await;
}

/// `blkcg_css_free`
pub fn blkcg_css_free(css: Css) {
    kfn!(blkcg_css_free);
    kfree(css.ptr());
}
