//! Leaks, lost wake-ups, tasks that cannot go on, and work that never ends (LT-PROG-*, LT-REF-6, LT-REF-9, LT-ISW-3).
//!
//! Judged when the execution is over. A stuck task is named after what it waits for; tasks that only wait for a lock are named
//! (LT-LOCK-1) when nobody waits for anything else, because otherwise they are victims.

use super::lists::state_bit;
use super::refs::css_flag;
use super::shadow::{Fun, linked, ptr_at};
use super::{Oracles, bad};
use crate::linux::include::backing_dev_defs::{BdiWriteback, WB_HAS_DIRTY_IO, WB_REGISTERED, wb_fields};
use crate::linux::include::cgroup_defs::{CSS_DYING, CSS_NO_REF, Cgroup, Css};
use crate::linux::include::fs::{I_DIRTY_PAGES, I_FREEING};
use crate::sync::{End, Event, Kind, Machine, Ptr};

/// Functions whose wait breaks a rule, innermost first.
const WAITS: &[(&str, &str)] = &[
    ("wb_wait_for_completion", "LT-PROG-2"),
    ("cgroup_writeback_umount", "LT-PROG-5"),
    ("cgwb_bdi_unregister", "LT-PROG-6"),
    ("bdi_unregister", "LT-PROG-6"),
    ("wb_get_create", "LT-PROG-1"),
    ("cgwb_release_workfn", "LT-PROG-3"),
    ("wait_sb_inodes", "LT-PROG-10"),
    ("wb_workfn", "LT-PROG-10"),
    ("inode_switch_wbs_work_fn", "LT-PROG-5"),
    ("css_killed_work_fn", "LT-PROG-8"),
    ("css_free_rwork_fn", "LT-PROG-8"),
    ("cgroup_subtree_control_write", "LT-PROG-8"),
];

fn rule_for(m: &Machine, t: usize) -> &'static str {
    let stack = &m.tasks[t].stack;
    stack.iter().rev().find_map(|f| WAITS.iter().find(|w| w.0 == f.name)).map_or("LT-PROG-2", |w| w.1)
}

fn describe(m: &Machine, t: usize) -> String {
    let task = &m.tasks[t];
    let func = task.stack.last().map_or("", |f| f.name);
    format!("{} in {func}: {:?} of {}", m.task_label(task.label, &[]), task.pending.kind, m.mem.name(task.pending.obj))
}

impl Oracles {
    /// A delayed work was queued or armed in slot `s`.
    pub(super) fn armed(&mut self, m: &mut Machine, e: &Event, s: usize) {
        let Some(a) = m.mem.alloc_of(e.obj) else { return };
        let off = e.obj.0 - a.base.0;
        let wb = match a.ty.label {
            "wb" => a.base,
            "bdi" => crate::linux::include::backing_dev_defs::BackingDevInfo(a.base).wb().ptr(),
            _ => return,
        };
        let off = off.wrapping_sub(wb.0 - a.base.0);
        if off == wb_fields::dwork
            && let Some(i) = self.s.wb(wb)
        {
            self.s.wbs[i].silent = false;
        }
        let own = self.s.slots.get(s).is_some_and(|x| x.frames.iter().any(|f| f.fun == Fun::Shutdown && f.obj == wb));
        if e.val == 1 && (off == wb_fields::dwork || off == wb_fields::bw_dwork) && !own && !state_bit(m, wb, WB_REGISTERED) {
            bad(m, "LT-PROG-12", |m| format!("{} is armed after its wb was unregistered", m.mem.name(e.obj)));
        }
    }

    /// `wb_shutdown` returned after having done its work.
    pub(super) fn shutdown_returned(&mut self, m: &mut Machine, wb: Ptr) {
        let k = BdiWriteback(wb);
        for p in [k.dwork().ptr(), k.bw_dwork().ptr()] {
            if m.mem.peek(p) != 0 {
                bad(m, "LT-PROG-12", |m| format!("{} is armed, pending or running when wb_shutdown returns", m.mem.name(p)));
            }
        }
        if linked(m, k.work_list()) {
            bad(m, "LT-PROG-2", |m| format!("works are left on {} when wb_shutdown returns", m.mem.name(wb)));
        }
    }

    pub(super) fn ended(&mut self, m: &mut Machine, end: End) {
        match end {
            End::Complete => self.quiet(m),
            End::Stuck => {
                self.lost_isw(m);
                self.stuck(m);
            }
            End::Budget => self.endless(m),
            End::Fatal | End::Cut => {}
        }
    }

    fn stuck(&mut self, m: &mut Machine) {
        let live: Vec<usize> = (0..m.tasks.len()).filter(|&t| m.tasks[t].live && !m.tasks[t].daemon).collect();
        let lock = |k: Kind| matches!(k, Kind::SpinLock | Kind::MutexLock | Kind::DownRead | Kind::DownWrite);
        let waits = |k: Kind| matches!(k, Kind::Sleep | Kind::FlushWait | Kind::GpEnd);
        let mut named = false;
        for &t in &live {
            if waits(m.tasks[t].pending.kind) {
                named = true;
                bad(m, rule_for(m, t), |m| format!("stuck for ever: {}", describe(m, t)));
            }
        }
        for &t in live.iter().filter(|_| !named) {
            let rule = if lock(m.tasks[t].pending.kind) { "LT-LOCK-1" } else { rule_for(m, t) };
            bad(m, rule, |m| format!("stuck for ever: {}", describe(m, t)));
        }
    }

    fn endless(&mut self, m: &mut Machine) {
        for s in 0..self.s.slots.len() {
            for k in 0..self.s.slots[s].frames.len() {
                let f = self.s.slots[s].frames[k];
                match f.fun {
                    Fun::GetCreate if f.rounds > 8 => bad(m, "LT-PROG-1", |_| format!("wb_get_create is in round {} when the step budget runs out", f.rounds)),
                    Fun::CgwbBdiUnregister => {
                        bad(m, "LT-PROG-6", |m| format!("the unregister of {} is under way when the step budget runs out", m.mem.name(f.obj)))
                    }
                    Fun::WaitCompletion => bad(m, "LT-PROG-2", |_| "a wait for a completion is under way when the step budget runs out".into()),
                    _ => {}
                }
            }
        }
    }

    fn lost_isw(&mut self, m: &mut Machine) {
        for w in self.s.wbs.iter().filter(|w| !w.p.is_null()) {
            let (ctxs, work) = (m.mem.peek(w.k().switch_wbs_ctxs().ptr()), m.mem.peek(w.k().switch_work().ptr()));
            if ctxs != 0 && work & 1 == 0 && !m.tasks.iter().any(|t| t.live && t.pending.kind == Kind::QueueWork) {
                let p = w.p;
                bad(m, "LT-ISW-3", |m| format!("{} has switch contexts and its switch work is not pending", m.mem.name(p)));
            }
        }
    }

    /// Everything has ended: nothing may be left over.
    fn quiet(&mut self, m: &mut Machine) {
        self.lost_isw(m);
        for i in 0..self.s.wbs.len() {
            let w = self.s.wbs[i];
            if w.p.is_null() || !(w.root || w.published) {
                continue;
            }
            self.wb_counts(m, &w);
            self.due(m, &w);
            if w.root {
                continue;
            }
            let users = self.s.users(w.p);
            if w.dead && w.count == 0 {
                bad(m, "LT-PROG-3", |m| format!("{} is killed, has no reference and still exists", m.mem.name(w.p)));
            }
            let marked = [Css(w.memcg).memcg().cgwb_list(), Css(w.blkcg).blkcg().cgwb_list()].iter().any(|h| m.mem.peek(h.ptr()) == 0);
            let gone = self.s.bdi(w.bdi).is_none_or(|b| self.s.bdis[b].kill_loop_done);
            if users == 0 && (w.dead || marked || gone) {
                bad(m, "LT-REF-6", |m| format!("{} exists with count {} although no inode uses it; killed: {}", m.mem.name(w.p), w.count, w.dead));
            }
            // The base, until the kill, and its users.
            let want = users as i64 + i64::from(!w.dead);
            if w.count != want {
                bad(m, "LT-REF-1", |m| format!("{} has count {} and {want} holders when all is quiet", m.mem.name(w.p), w.count));
            }
        }
        self.bandwidth(m);
        self.quiet_inodes(m);
        self.quiet_csses(m);
        self.quiet_bdis(m);
        let isws = self.s.isws.iter().filter(|x| !x.p.is_null()).count();
        let counted = m.mem.peek(self.s.g.isw_nr_in_flight().ptr()) as i64;
        if isws != 0 || counted != 0 {
            bad(m, "LT-REF-9", |_| format!("{isws} switch contexts exist and isw_nr_in_flight is {counted} when all is quiet"));
        }
        for sb in self.s.sbs.iter().filter(|s| !s.is_null()) {
            let n = m.mem.peek(super::shadow::sb(*sb).s_isw_nr_in_flight().ptr()) as i64;
            if n != 0 {
                bad(m, "LT-REF-8", |m| format!("{} counts {n} switches when all is quiet", m.mem.name(*sb)));
            }
        }
        if let Some(w) = self.s.works.first() {
            let p = w.p;
            bad(m, "LT-REF-10", |m| format!("{} was queued and never finished", m.mem.name(p)));
        }
        if let Some((wb, work)) = self.stranded_work(m) {
            bad(m, "LT-PROG-2", |m| format!("{} is queued on {}, whose flusher is not due", m.mem.owner_name(work), m.mem.name(wb)));
        }
    }

    /// A registered wb with dirty io must have a flusher run due.
    fn due(&self, m: &mut Machine, w: &super::shadow::Wb) {
        let k = w.k();
        let registered =
            state_bit(m, w.p, WB_REGISTERED) && m.mem.peek(crate::linux::include::backing_dev_defs::BackingDevInfo(w.bdi).cap_writeback().ptr()) != 0;
        if registered && state_bit(m, w.p, WB_HAS_DIRTY_IO) && m.mem.peek(k.dwork().ptr()) & 3 == 0 {
            let rule = if w.silent { "LT-PROG-13" } else { "LT-PROG-10" };
            bad(m, rule, |m| format!("{} has dirty io and its flusher is neither pending nor armed", m.mem.name(w.p)));
        }
    }

    fn quiet_inodes(&mut self, m: &mut Machine) {
        for (_, i) in self.s.each_inode() {
            let k = i.k();
            let state = m.mem.peek(k.i_state().ptr());
            if i.switching {
                bad(m, "LT-ISW-1", |m| format!("{} has I_WB_SWITCH when all is quiet", m.mem.name(i.p)));
            }
            let wb = self.s.wb(i.wb);
            if i.cleanable && wb.is_some_and(|w| self.s.wbs[w].dead) {
                bad(m, "LT-PROG-4", |m| format!("{} is still on {} after a cleaner run", m.mem.name(i.p), m.mem.name(i.wb)));
            }
            let placed = m.mem.peek(k.i_hashed().ptr()) != 0 || m.mem.peek(k.i_blkdev().ptr()) != 0;
            let dirty = m.mem.peek(k.nr_dirty().ptr()) as i64 > 0;
            if dirty && placed && state & (I_DIRTY_PAGES | I_FREEING) == 0 && wb.is_some_and(|w| state_bit(m, self.s.wbs[w].p, WB_REGISTERED)) {
                bad(m, "LT-LIST-7", |m| format!("{} has dirty pages and is not marked dirty when all is quiet", m.mem.name(i.p)));
                bad(m, "LT-PROG-10", |m| format!("{} has dirty pages that no flusher will see", m.mem.name(i.p)));
            }
        }
    }

    fn quiet_csses(&mut self, m: &mut Machine) {
        for c in self.s.csses.iter().filter(|c| !c.p.is_null()) {
            let css = Css(c.p);
            if css_flag(m, c.p, CSS_NO_REF) || !css_flag(m, c.p, CSS_DYING) {
                continue;
            }
            let cgroup = ptr_at(m, css.cgroup().ptr());
            let populated = m.mem.live(cgroup) && m.mem.peek(Cgroup(cgroup).populated().ptr()) as i64 > 0;
            let used = self.s.wbs.iter().any(|w| !w.p.is_null() && !w.root && (w.memcg == c.p || w.blkcg == c.p));
            let child = self.s.csses.iter().any(|x| !x.p.is_null() && super::refs::css_parent(m, x.p) == c.p);
            if !populated && !used && !child {
                let step = c.step;
                bad(m, "LT-PROG-8", |m| format!("{} is removed, nothing uses it, and it still exists; next step of its life: {step}", m.mem.name(c.p)));
            }
        }
    }

    fn quiet_bdis(&mut self, m: &mut Machine) {
        for b in self.s.bdis.iter().filter(|b| !b.p.is_null() && b.kill_loop_done) {
            let k = b.k();
            let refs = m.mem.peek(k.refcnt().ptr()) as i64;
            let sbs = self.s.sbs.iter().filter(|s| !s.is_null() && ptr_at(m, super::shadow::sb(**s).s_bdi().ptr()) == b.p).count() as i64;
            let wbs = self.s.wbs.iter().filter(|w| !w.p.is_null() && !w.root && w.published && w.bdi == b.p && !w.bdi_put).count() as i64;
            // Its owner may hold one more.
            let extra = refs - sbs - wbs;
            if refs < 1 || !(0..=1).contains(&extra) {
                bad(m, "LT-REF-6", |m| format!("{} is unregistered and exists with count {refs}, for {sbs} superblocks and {wbs} wbs", m.mem.name(b.p)));
            }
        }
    }
}
