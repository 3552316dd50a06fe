//! References: who holds a wb, and what a wb holds (LT-REF-1 to LT-REF-5, LT-REF-7).
//!
//! Each reference operation is booked to the task that performs it; inodes, switch contexts, the base and the mode switch take
//! references over from tasks. A task that ends with a balance other than zero has lost or stolen one. What is not seen: two
//! errors in one task that cancel out.

use super::shadow::{Frame, Fun, Shadow, ptr_at};
use super::{Oracles, bad};
use crate::linux::include::cgroup_defs::{CSS_NO_REF, Css};
use crate::linux::lib::percpu_refcount::PercpuRef;
use crate::sync::{Event, Field, Kind, Machine, NULL, Ptr};

/// More than any number of references: such a change removes the bias.
const FOLD: i64 = 1 << 40;

/// Positions in [`Frame::moved`].
pub(super) const MEMCG: usize = 0;
pub(super) const BLKCG: usize = 1;
pub(super) const PIN: usize = 2;
pub(super) const BDI: usize = 3;

/// Is `off` inside a percpu_ref that starts at `start`?
pub(super) fn inside(off: u32, start: u32) -> bool {
    off >= start && off < start + PercpuRef::CELLS
}

/// 1 for a counted css, 0 for a root css.
fn counted(m: &Machine, css: Ptr) -> i32 {
    i32::from(m.mem.peek(Css(css).flags().ptr()) & CSS_NO_REF == 0)
}

impl Oracles {
    /// Notices what plain stores did to the reference of wb `i`; they were made by the task of slot `s`.
    #[inline]
    pub(super) fn poll_ref(&mut self, m: &mut Machine, i: usize, s: usize) {
        let w = &self.s.wbs[i];
        if w.p.is_null() || w.root || w.folded {
            return;
        }
        let r = w.k().refcnt();
        if !w.init {
            if r.peek_count(m).is_some() {
                let w = &mut self.s.wbs[i];
                w.init = true;
                w.count = 1;
            }
            return;
        }
        if !w.dead {
            if !r.peek_dead(m) || r.peek_count(m).is_none() {
                return;
            }
            let w = &mut self.s.wbs[i];
            w.dead = true;
            // Kill takes the reference of the mode switch plainly; the base now belongs to the killer.
            w.count += 1;
            self.s.hold(s, i, 1);
        }
        if r.peek_folded(m) {
            self.s.wbs[i].folded = true;
            self.s.hold(s, i, 1);
        }
    }

    /// Extra rounds of other tasks' creations are paid for.
    pub(super) fn pay(&mut self, by: usize) {
        for (_, slot) in self.s.slots.iter_mut().enumerate().filter(|x| x.0 != by) {
            slot.frames.iter_mut().filter(|f| f.fun == Fun::GetCreate).for_each(|f| f.paid += 1);
        }
    }

    /// An atomic addition to the reference of the wb at `wb`.
    pub(super) fn wb_ref_op(&mut self, m: &mut Machine, e: &Event, wb: Ptr, delta: i64, s: usize) {
        let Some(i) = self.s.wb(wb) else { return };
        if self.s.wbs[i].root {
            bad(m, "LT-REF-7", |m| format!("reference operation on the root wb of {}", m.mem.owner_name(e.obj)));
            return;
        }
        self.poll_ref(m, i, s);
        let w = &self.s.wbs[i];
        let folding = !w.folded && e.func.is_some_and(|f| f.name == "percpu_ref_switch_to_atomic_rcu");
        if delta == 0 || delta.unsigned_abs() > FOLD as u64 || folding {
            return;
        }
        let before = w.count;
        self.s.wbs[i].count += delta;
        self.s.hold(s, i, delta as i32);
        if delta > 0 && e.kind == Kind::Add && before < 1 {
            bad(m, "LT-REF-4", |m| format!("plain get of {} while its count is {before}", m.mem.name(wb)));
        }
        let count = before + delta;
        let real = self.s.wbs[i].k().refcnt().peek_count(m);
        if count < 0 || real.is_some_and(|c| c != count) {
            bad(m, "LT-REF-1", |m| format!("count of {}: {count} by its operations, {real:?} in memory", m.mem.name(wb)));
        }
    }

    /// The case keeps a reference for the running task, or hands it back.
    pub(super) fn kept(&mut self, wb: Ptr, takes: u64, s: usize) {
        if let Some(i) = self.s.wb(wb).filter(|&i| !self.s.wbs[i].root) {
            self.s.hold(s, i, if takes == 1 { -1 } else { 1 });
        }
    }

    /// A task ended: it must not take references with it.
    pub(super) fn refs_exit(&mut self, m: &mut Machine, s: usize) {
        let Some(slot) = self.s.slots.get(s) else { return };
        if let Some(&(i, n)) = slot.holds.first() {
            let wb = self.s.wbs[i as usize].p;
            let label = m.tasks[s].label;
            bad(m, "LT-REF-1", |m| format!("{} ends with {n:+} references on {}", m.task_label(label, &[]), m.mem.name(wb)));
        }
    }

    /// `cgwb_release`: the count has reached zero.
    pub(super) fn release_called(&mut self, m: &mut Machine, wb: Ptr, s: usize) {
        let Some(i) = self.s.wb(wb) else { return };
        self.poll_ref(m, i, s);
        let w = &mut self.s.wbs[i];
        w.released = w.released.saturating_add(1);
        let (n, dead, gp, published, count) = (w.released, w.dead, w.gp_over, w.published, w.count);
        if n > 1 || !dead || !gp || !published {
            bad(m, "LT-REF-2", |m| format!("release of {}: number {n}, killed {dead}, grace period over {gp}, published {published}", m.mem.name(wb)));
        }
        if count != 0 {
            bad(m, "LT-REF-1", |m| format!("{} is released with count {count}", m.mem.name(wb)));
        }
    }

    /// `cgwb_kill` was entered.
    pub(super) fn kill_called(&mut self, m: &mut Machine, wb: Ptr, s: usize) {
        if let Some(i) = self.s.wb(wb) {
            self.poll_ref(m, i, s);
            if self.s.wbs[i].dead {
                bad(m, "LT-REF-3", |m| format!("{} is killed a second time", m.mem.name(wb)));
            }
        }
        self.s.slot(m).killing = wb;
        self.pay(s);
    }

    /// The innermost creation or release under way in slot `s`.
    pub(super) fn owner_frame(&mut self, s: usize) -> Option<&mut Frame> {
        self.s.slots.get_mut(s)?.frames.iter_mut().rev().find(|f| matches!(f.fun, Fun::Create | Fun::Release))
    }

    /// The task of slot `s` changed the count of a css by `delta`.
    pub(super) fn css_ref_op(&mut self, m: &mut Machine, css: Ptr, memory: bool, delta: i64, s: usize) {
        if delta == 0 || delta.unsigned_abs() > FOLD as u64 {
            return;
        }
        let killing = self.s.slots.get(s).map_or(NULL, |x| x.killing);
        if let Some(k) = self.s.wb(killing) {
            let (mc, bc) = (self.s.wbs[k].memcg, self.s.wbs[k].blkcg);
            if css == mc || css == bc {
                if css == mc {
                    self.s.wbs[k].memcg_put = true;
                }
                bad(m, "LT-REF-5", |m| format!("kill of {} changes the count of {} by {delta:+}", m.mem.name(killing), m.mem.name(css)));
            }
        }
        let Some(f) = self.owner_frame(s) else { return };
        f.moved[if memory { MEMCG } else { BLKCG }] += delta as i32;
        if f.fun == Fun::Release && delta < 0 {
            let wb = f.obj;
            if let Some(i) = self.s.wb(wb) {
                let w = &mut self.s.wbs[i];
                w.memcg_put |= css == w.memcg;
                w.blkcg_put |= css == w.blkcg;
            }
        }
    }

    /// `cgwb_create` returned: what it took must be what the new wb holds.
    pub(super) fn create_returned(&mut self, m: &mut Machine, f: &Frame) {
        let wb = f.css;
        let want = match self.s.wb(wb) {
            Some(i) => [counted(m, self.s.wbs[i].memcg), counted(m, self.s.wbs[i].blkcg), 1, 1],
            None => [0; 4],
        };
        if f.moved != want && (wb.is_null() || self.s.wb(wb).is_some()) {
            let got = f.moved;
            bad(m, "LT-REF-5", |m| {
                format!("cgwb_create publishing {} took {got:?} references on memcg css, blkcg css, online pin, bdi; not {want:?}", m.mem.name(wb))
            });
        }
    }

    /// `cgwb_release_workfn` returned: everything that the wb held must be given back.
    pub(super) fn release_returned(&mut self, m: &mut Machine, f: &Frame) {
        let Some(i) = self.s.wb(f.obj) else { return };
        let w = &mut self.s.wbs[i];
        w.release_done = true;
        let (wb, memcg, blkcg) = (w.p, w.memcg, w.blkcg);
        let want = [-counted(m, memcg), -counted(m, blkcg), -1, -1];
        if f.moved != want {
            let got = f.moved;
            bad(m, "LT-REF-5", |m| format!("release of {} moved {got:?} references on memcg css, blkcg css, online pin, bdi; not {want:?}", m.mem.name(wb)));
        }
    }
}

impl Shadow {
    /// References that inodes and switch contexts hold on a wb.
    pub(super) fn users(&self, wb: Ptr) -> usize {
        self.each_inode().filter(|x| x.1.wb == wb).count() + self.isws.iter().filter(|x| !x.p.is_null() && x.dest == wb).count()
    }
}

/// Is the bit of a css's flags set?
pub(super) fn css_flag(m: &Machine, css: Ptr, bit: u64) -> bool {
    m.mem.peek(Css(css).flags().ptr()) & bit != 0
}

/// Parent css.
pub(super) fn css_parent(m: &Machine, css: Ptr) -> Ptr {
    ptr_at(m, Css(css).parent().ptr())
}
