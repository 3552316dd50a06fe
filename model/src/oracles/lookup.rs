//! What lookups and creation paths return (LT-LOOK-1 to LT-LOOK-8), their rounds (LT-PROG-1), and foreign flushes (LT-PROG-7).
//!
//! Each call remembers what held when it began; its effective blkcgs are collected while it runs. "Live at some instant in the
//! call" is then "not dead when it began": a wb that is found dead and was alive at the start died in between.

use super::lists::state_bit;
use super::refs::css_flag;
use super::shadow::{Frame, Fun, bits, ptr_at};
use super::{Oracles, bad};
use crate::linux::include::backing_dev_defs::{BackingDevInfo, BdiWriteback, WB_HAS_DIRTY_IO, WB_REGISTERED};
use crate::linux::include::cgroup_defs::{CSS_DYING, CSS_NO_REF, Cgroup, Css, Subsys};
use crate::linux::include::writeback::WbWritebackWork;
use crate::linux::{MAX_BDI_ID, MAX_CSS_ID};
use crate::rules::{CreatePub, LookId, rules};
use crate::sync::{Access, Machine, NULL, Ptr};

const ENOENT: i64 = -2;

impl Oracles {
    /// Csses that `cgroup_get_e_css` may return for io in `cgroup` now, on some CPU.
    fn effective(&self, m: &Machine, cgroup: Ptr) -> u64 {
        let mut mask = 0;
        let mut at = cgroup;
        while !at.is_null() && m.mem.live(at) {
            let css = ptr_at(m, Cgroup(at).subsys(Subsys::Io).ptr());
            if let Some(i) = self.s.css(css) {
                let r = Css(css).refcnt();
                if css_flag(m, css, CSS_NO_REF) || !r.peek_dead(m) {
                    return mask | 1 << i;
                }
                // Killed and not confirmed: some CPU may not know.
                if !r.peek_folded(m) {
                    mask |= 1 << i;
                }
            }
            at = ptr_at(m, Cgroup(at).parent().ptr());
        }
        mask | self.s.css(ptr_at(m, self.s.g.blkcg_root().ptr())).map_or(0, |i| 1 << i)
    }

    /// The same for a creation call.
    fn effective_of(&self, m: &Machine, f: &Frame) -> u64 {
        if f.fun == Fun::GetCreate {
            return self.effective(m, ptr_at(m, Css(Ptr(f.arg as u32)).cgroup().ptr()));
        }
        // The current task's: its own io css, or what is effective where its memcg is.
        let (mut mask, mut at) = (0, Ptr(f.arg as u32));
        while !at.is_null() && m.mem.live(at) {
            mask |= self.effective(m, at) | self.s.css(ptr_at(m, Cgroup(at).cset(Subsys::Io).ptr())).map_or(0, |i| 1 << i);
            at = ptr_at(m, Cgroup(at).parent().ptr());
        }
        mask
    }

    /// Collects the effective blkcg of every creation under way.
    pub(super) fn poll_effective(&mut self, m: &Machine) {
        for s in 0..self.s.slots.len() {
            for k in 0..self.s.slots[s].frames.len() {
                let f = self.s.slots[s].frames[k];
                if matches!(f.fun, Fun::GetCreate | Fun::GetCreateCurrent) {
                    let new = self.effective_of(m, &f) & !f.eff;
                    if new != 0 {
                        let f = &mut self.s.slots[s].frames[k];
                        f.eff |= new;
                        f.paid += 1;
                    }
                }
            }
        }
    }

    /// Is the publication gate closed now for a call?
    fn gate_closed(&self, m: &Machine, f: &Frame) -> bool {
        let bdi = BackingDevInfo(f.obj);
        let marked = |head: Ptr| m.mem.peek(head) == 0;
        let memcg = |css: Ptr| marked(Css(css).memcg().cgwb_list().ptr());
        let closed = match f.fun {
            Fun::GetCreate => memcg(Ptr(f.arg as u32)),
            _ => {
                let (mut at, mut any) = (Ptr(f.arg as u32), false);
                while !at.is_null() && m.mem.live(at) {
                    for css in [ptr_at(m, Cgroup(at).subsys(Subsys::Memory).ptr()), ptr_at(m, Cgroup(at).cset(Subsys::Memory).ptr())] {
                        any |= !css.is_null() && memcg(css);
                    }
                    at = ptr_at(m, Cgroup(at).parent().ptr());
                }
                any
            }
        };
        closed || !state_bit(m, bdi.wb().ptr(), WB_REGISTERED) || bits(f.eff).any(|i| marked(self.s.csses[i].k().blkcg().cgwb_list().ptr()))
    }

    /// A call of the lookup family begins: fills in its frame.
    pub(super) fn lookup_called(&mut self, m: &mut Machine, f: &mut Frame) {
        match f.fun {
            Fun::Lookup => f.folded = self.s.wbs_where(|w| w.published && w.count == 0 && !w.root),
            Fun::GetCreate | Fun::GetCreateCurrent => {
                for w in self.s.wbs.iter().filter(|w| !w.root && w.published && w.bdi == f.obj) {
                    m.mem.touch(w.k().refcnt().0, Access::Read);
                }
                f.dead = self.s.wbs_where(|w| w.dead);
                f.folded = self.s.wbs_where(|w| w.gp_over);
                f.eff = self.effective_of(m, f);
                f.closed = self.gate_closed(m, f);
                self.s.creating += 1;
            }
            _ => {}
        }
    }

    /// `cgwb_create` begins inside a creation: another round.
    pub(super) fn round(&mut self, m: &mut Machine, s: usize) {
        self.poll_effective(m);
        let Some(f) = self.s.frame(s, Fun::GetCreate) else { return };
        f.rounds += 1;
        // While the effective blkcg differs between CPUs, rounds are bounded by the grace period of its kill.
        if f.rounds > f.paid + 1 && f.eff.count_ones() == 1 {
            let (n, paid) = (f.rounds, f.paid);
            bad(m, "LT-PROG-1", |_| format!("round {n} of wb_get_create, with {paid} kills, publications or changes of blkcg by others"));
        }
    }

    /// A lookup or a creation path returned `wb`.
    pub(super) fn lookup_returned(&mut self, m: &mut Machine, f: &Frame, wb: Ptr, s: usize) {
        let creation = f.fun != Fun::Lookup;
        let mut eff = f.eff;
        let mut excused = f.failed || f.closed;
        if creation {
            self.s.creating -= 1;
            eff |= self.effective_of(m, f);
            excused |= self.gate_closed(m, &Frame { eff, ..*f });
        }
        if wb.is_null() {
            if creation && !excused {
                bad(m, "LT-LOOK-5", |m| format!("{:?} on {} returned nothing with the gate open and memory at hand", f.fun, m.mem.name(f.obj)));
                bad(m, "LT-LOOK-7", |m| format!("{:?} on {} returned nothing: the gate was open, no allocation failed", f.fun, m.mem.name(f.obj)));
            }
            return;
        }
        let k = BdiWriteback(wb);
        let memcg = ptr_at(m, k.memcg_css().ptr());
        let root = wb == BackingDevInfo(f.obj).wb().ptr();
        let asked = match f.fun {
            Fun::GetCreateCurrent => {
                let of = ptr_at(m, Css(memcg).cgroup().ptr());
                let mut at = Ptr(f.arg as u32);
                while !at.is_null() && at != of && m.mem.live(at) {
                    at = ptr_at(m, Cgroup(at).parent().ptr());
                }
                at == of
            }
            _ => memcg == Ptr(f.arg as u32),
        };
        let held = root || self.s.wb(wb).is_some_and(|i| self.s.slots.get(s).is_some_and(|x| x.holds.iter().any(|h| h.0 as usize == i && h.1 > 0)));
        if !asked || ptr_at(m, k.bdi().ptr()) != f.obj || !held {
            bad(m, "LT-LOOK-1", |m| {
                format!(
                    "{:?} returned {} of {}, asked for on {}; the caller owns a reference: {held}",
                    f.fun,
                    m.mem.name(wb),
                    m.mem.name(memcg),
                    m.mem.name(f.obj)
                )
            });
        }
        let Some(i) = self.s.wb(wb).filter(|_| !root) else { return };
        if f.folded & 1 << i != 0 {
            bad(m, "LT-LOOK-6", |m| format!("{:?} returned {}, which was past its grace period or at count zero when the call began", f.fun, m.mem.name(wb)));
        }
        if creation {
            let blkcg = ptr_at(m, k.blkcg_css().ptr());
            let dead = f.dead & 1 << i != 0;
            let matches = self.s.css(blkcg).is_some_and(|c| eff & 1 << c != 0);
            if dead || !matches {
                bad(m, "LT-LOOK-2", |m| {
                    format!(
                        "{:?} returned {}: dying when the call began: {dead}; its {} was effective in the call: {matches}",
                        f.fun,
                        m.mem.name(wb),
                        m.mem.name(blkcg)
                    )
                });
                if !excused {
                    bad(m, "LT-LOOK-5", |m| format!("{:?} returned {} instead of a live wb of the effective blkcg", f.fun, m.mem.name(wb)));
                }
            }
        }
    }

    /// `cgroup_writeback_by_id` begins: `arg` is bdi id and memcg id.
    pub(super) fn by_id_called(&mut self, m: &mut Machine, f: &mut Frame) {
        let (bdi_id, memcg_id) = ((f.arg >> 32) as u32, f.arg as u32);
        if bdi_id >= MAX_BDI_ID || memcg_id >= MAX_CSS_ID {
            return;
        }
        f.bdi = ptr_at(m, self.s.g.bdi_tree().slot(bdi_id).ptr());
        f.css = ptr_at(m, self.s.g.css_idr_memory().slot(memcg_id).ptr());
        let (bdi, css) = (f.bdi, f.css);
        if bdi.is_null() || css.is_null() {
            return;
        }
        f.held = self.s.wbs_where(|w| !w.root && w.published && w.bdi == bdi && w.memcg == css && w.count > 0);
        self.judged_by_count(m, bdi, css);
        f.dirty = self.s.wbs_where(|w| state_bit(m, w.p, WB_HAS_DIRTY_IO));
        f.paged = self.s.wbs_where(|w| m.mem.peek(w.k().stat_reclaimable().ptr()) as i64 > 0);
        f.flag = m.tasks[m.current].stack.iter().any(|x| x.name == "mem_cgroup_flush_foreign");
    }

    /// The verdict depends on the counts and the dirty pages of the wbs of `bdi` and `memcg`: a search that leaves out
    /// equivalent orders must know that what changes them does not commute with the beginning and the end of the call.
    fn judged_by_count(&self, m: &mut Machine, bdi: Ptr, memcg: Ptr) {
        for k in self.s.wbs.iter().filter(|w| !w.root && w.published && w.bdi == bdi && w.memcg == memcg).map(|w| w.k()) {
            k.refcnt().counters().chain([k.state().ptr(), k.stat_reclaimable().ptr()]).for_each(|p| m.mem.touch(p, Access::Read));
        }
    }

    /// It returned `wb` and `err`.
    pub(super) fn by_id_returned(&mut self, m: &mut Machine, f: &Frame, wb: Ptr, err: i64) {
        let (bdi_id, memcg_id) = ((f.arg >> 32) as u32, f.arg as u32);
        if f.held == 0 || (err != 0 && err != ENOENT) {
            return;
        }
        self.judged_by_count(m, f.bdi, f.css);
        let registered = ptr_at(m, self.s.g.bdi_tree().slot(bdi_id).ptr()) == f.bdi;
        let known = ptr_at(m, self.s.g.css_idr_memory().slot(memcg_id).ptr()) == f.css;
        let counted = css_flag(m, f.css, CSS_NO_REF) || Css(f.css).refcnt().peek_count(m).is_some_and(|c| c > 0);
        if !registered || !known || !counted {
            return;
        }
        let still = f.held & self.s.wbs_where(|w| w.count > 0);
        let current = still & self.s.wbs_where(|w| !w.superseded);
        let dirty = f.dirty & self.s.wbs_where(|w| state_bit(m, w.p, WB_HAS_DIRTY_IO));
        let r = rules();
        let by_list = r.look_id == LookId::WbList;
        let name = |o: &Oracles, mask: u64| bits(mask).next().map_or(NULL, |i| o.s.wbs[i].p);
        let missed = if by_list { current & dirty } else { current };
        if err == ENOENT && missed != 0 {
            let p = name(self, missed);
            bad(m, "LT-LOOK-3", |m| format!("lookup of bdi {bdi_id}, memcg {memcg_id} found nothing; {} had references throughout", m.mem.name(p)));
        }
        let mut unreached = still & dirty;
        if r.create_pub == CreatePub::Takeover {
            unreached &= current;
        }
        if let Some(i) = self.s.wb(wb) {
            unreached &= !(1 << i);
        }
        if unreached != 0 && !(by_list && err == 0) {
            let p = name(self, unreached);
            bad(m, "LT-LOOK-4", |m| format!("lookup of bdi {bdi_id}, memcg {memcg_id} returned {}; {} has dirty io", m.mem.name(wb), m.mem.name(p)));
        }
        let thirsty = current & dirty & f.paged & self.s.wbs_where(|w| m.mem.peek(w.k().stat_reclaimable().ptr()) as i64 > 0);
        if f.flag && thirsty != 0 && f.fed & thirsty == 0 {
            let p = name(self, thirsty);
            bad(m, "LT-PROG-7", |m| format!("foreign flush of bdi {bdi_id}, memcg {memcg_id} queued no page on {}, which has dirty pages", m.mem.name(p)));
        }
    }

    /// `wb_queue_work` begins in slot `s`.
    pub(super) fn work_queued(&mut self, m: &Machine, wb: Ptr, work: Ptr, s: usize) {
        let k = WbWritebackWork(work);
        self.s.works.push(super::shadow::Work { p: work, wb, done: ptr_at(m, k.done().ptr()) });
        let pages = m.mem.peek(k.nr_pages().ptr()) as i64;
        if let Some(i) = self.s.wb(wb).filter(|_| pages > 0)
            && let Some(f) = self.s.frame(s, Fun::ById)
        {
            f.fed |= 1 << i;
        }
        if let Some(f) = self.s.frame(s, Fun::SyncInodes) {
            f.flag = true;
        }
    }

    /// `wbc_attach_and_unlock_inode` begins: `flag` if the inode has to be asked to move, `failed` if its memcg is going.
    pub(super) fn attach_called(&self, m: &Machine, f: &mut Frame) {
        let wb = ptr_at(m, crate::linux::include::fs::Inode(f.obj).i_wb().ptr());
        if let Some(w) = self.s.wb(wb).map(|i| self.s.wbs[i]).filter(|w| !w.root && w.published) {
            f.css = w.memcg;
            f.failed = css_flag(m, w.memcg, CSS_DYING);
            f.flag = w.dead && !f.failed;
        }
    }

    /// It returned; `closed` says that it asked.
    pub(super) fn attach_returned(&self, m: &mut Machine, f: &Frame) {
        if f.flag && !f.closed && m.mem.live(f.css) && !css_flag(m, f.css, CSS_DYING) {
            bad(m, "LT-PROG-9", |m| format!("{} is on a dying wb of live {} and is not asked to move", m.mem.name(f.obj), m.mem.name(f.css)));
        }
    }

    /// `cgwb_create` failed in slot `s`.
    pub(super) fn creation_failed(&mut self, m: &mut Machine, css: Ptr, s: usize) {
        if let Some(f) = self.s.frame(s, Fun::WbcAttach).filter(|f| f.failed && f.css == css) {
            let inode = f.obj;
            bad(m, "LT-PROG-11", |m| format!("writing {} made and failed a wb for {}, which was dying before", m.mem.name(inode), m.mem.name(css)));
        }
    }
}
