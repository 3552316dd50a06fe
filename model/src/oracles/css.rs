//! The life of csses and their ids (LT-CSS-1 to LT-CSS-3, LT-LOOK-8).

use super::refs::{BDI, PIN, css_flag, css_parent};
use super::shadow::{Fun, ptr_at};
use super::{Oracles, bad};
use crate::linux::MAX_CSS_ID;
use crate::linux::include::backing_dev_defs::BdiWriteback;
use crate::linux::include::cgroup_defs::{CSS_ONLINE, Css};
use crate::linux::kernel::cgroup::cgroup::CssStep;
use crate::sync::{Machine, Ptr};

impl Oracles {
    /// A life-cycle event of a css.
    pub(super) fn css_step(&mut self, m: &mut Machine, css: Ptr, step: u64) {
        let Some(i) = self.s.css(css) else { return };
        let want = self.s.csses[i].step;
        self.s.csses[i].step = step as u8 + 1;
        if step != u64::from(want) {
            bad(m, "LT-CSS-1", |m| format!("{} reaches step {step} of its life when step {want} is due", m.mem.name(css)));
        }
    }

    /// A css is freed.
    pub(super) fn css_freed(&mut self, m: &mut Machine, css: Ptr) {
        let Some(i) = self.s.css(css) else { return };
        let c = self.s.csses[i];
        let (online, step) = (c.onlined || c.step > 0 || css_flag(m, css, CSS_ONLINE), u64::from(c.step));
        if online && step != CssStep::Free as u64 {
            bad(m, "LT-CSS-1", |m| format!("{} is freed when step {step} of its life is due", m.mem.name(css)));
        }
        let user =
            self.s.wbs.iter().find(|w| !w.p.is_null() && !w.root && w.published && ((w.memcg == css && !w.memcg_put) || (w.blkcg == css && !w.blkcg_put)));
        if let Some(w) = user {
            let wb = w.p;
            bad(m, "LT-CSS-2", |m| format!("{} is freed while {} is published and has not put it", m.mem.name(css), m.mem.name(wb)));
        }
        if c.memory {
            self.memcg_freed(m, css);
        }
    }

    /// An online pin changed by `delta`, from `old`, by the task of slot `s`.
    pub(super) fn pin_op(&mut self, m: &mut Machine, blkcg: Ptr, delta: i64, old: i64, s: usize) {
        if let Some(f) = self.owner_frame(s) {
            let (fun, wb) = (f.fun, f.obj);
            if fun == Fun::Create {
                f.moved[PIN] += delta as i32;
            } else if let Some(i) = self.s.wb(wb).filter(|&i| self.s.wbs[i].blkcg == blkcg && !self.s.wbs[i].pin_put) {
                self.s.wbs[i].pin_put = true;
                if let Some(f) = self.owner_frame(s) {
                    f.moved[PIN] += delta as i32;
                }
            }
        }
        if delta > 0 && old < 1 {
            bad(m, "LT-CSS-3", |m| format!("online_pin of {} is taken from {old}", m.mem.name(blkcg)));
        }
        if delta > 0 || old + delta > 0 {
            return;
        }
        let wb = self.s.wbs.iter().find(|w| !w.p.is_null() && !w.root && w.published && w.blkcg == blkcg && !w.pin_put).map(|w| w.p);
        let child = self.s.csses.iter().find(|c| {
            !c.p.is_null()
                && !c.memory
                && (c.step > 0 || css_flag(m, c.p, CSS_ONLINE))
                && css_parent(m, c.p) == blkcg
                && m.mem.peek(Css(c.p).blkcg().online_pin().ptr()) as i64 > 0
        });
        if let Some(user) = wb.or(child.map(|c| c.p)) {
            bad(m, "LT-CSS-3", |m| format!("the last online pin of {} is dropped while {} needs it", m.mem.name(blkcg), m.mem.name(user)));
        }
    }

    /// The kref of a bdi changed by `delta`.
    pub(super) fn bdi_ref_op(&mut self, m: &Machine, bdi: Ptr, delta: i64, s: usize) {
        let Some(f) = self.owner_frame(s) else { return };
        let (fun, obj) = (f.fun, f.obj);
        let same = if fun == Fun::Create { obj == bdi } else { ptr_at(m, BdiWriteback(obj).bdi().ptr()) == bdi };
        if same {
            f.moved[BDI] += delta as i32;
            if fun == Fun::Release
                && let Some(i) = self.s.wb(obj)
            {
                self.s.wbs[i].bdi_put = true;
            }
        }
    }

    /// cgroup_idr_lock was released.
    pub(super) fn ids_unlocked(&mut self, m: &mut Machine) {
        let tables = [self.s.g.css_idr_memory(), self.s.g.css_idr_io()];
        for (ss, table) in tables.into_iter().enumerate() {
            for id in 1..MAX_CSS_ID {
                let p = ptr_at(m, table.slot(id).ptr());
                if p == std::mem::replace(&mut self.s.ids[ss][id as usize], p) || p.is_null() {
                    continue;
                }
                let twin = self.s.csses.iter().find(|c| !c.p.is_null() && c.p != p && c.memory == (ss == 0) && m.mem.peek(c.k().id().ptr()) == u64::from(id));
                if let Some(t) = twin {
                    let t = t.p;
                    bad(m, "LT-LOOK-8", |m| format!("id {id} is given to {} while {} has it", m.mem.name(p), m.mem.name(t)));
                }
                for b in 0..self.s.bdis.len() {
                    let bdi = self.s.bdis[b];
                    let wb = if ss == 0 && !bdi.p.is_null() { bdi.k().cgwb_tree().peek(m, id) } else { Ptr(0) };
                    if !wb.is_null() && ptr_at(m, BdiWriteback(wb).memcg_css().ptr()) != p {
                        bad(m, "LT-LOOK-8", |m| {
                            format!("id {id} is given to {} while its slot on {} holds {}", m.mem.name(p), m.mem.name(bdi.p), m.mem.name(wb))
                        });
                    }
                }
            }
        }
    }
}
