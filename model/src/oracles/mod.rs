//! The oracles: what must hold, watched from outside.
//!
//! Purpose:  one watcher that turns committed events, tracepoints and memory cells into violations of named invariants.
//! Main types: [`Invariant`] (the table [`INVARIANTS`]), [`install`].
//! Contract: an oracle never calls mirrored code to learn the answer. State predicates are judged when their lock is free,
//!           call-level ones when the call returns, leaks and lost wake-ups when the execution is over.
//! Must not know: cases, schedulers, reports.
//!
//! What plain stores did is noticed at the next event of another task, and booked to the task that ran before: between two
//! scheduling points nobody else can see it either. What the checked memory reports itself (LT-MEM-0 to LT-MEM-6, LT-LIST-0,
//! LT-LOCK-1 to LT-LOCK-3) is not watched again here.

mod accounting;
mod css;
mod invariants;
mod lists;
mod lookup;
mod memory;
mod progress;
mod refs;
mod rstat;
mod shadow;
mod switching;
mod sync;
#[cfg(test)]
mod tests;

pub use invariants::{INVARIANTS, Invariant, NOT_REQUIRED, Status, invariant};

use crate::linux::globals;
use crate::linux::include::backing_dev_defs::{BackingDevInfo, BdiWriteback, bdi_fields, wb_fields};
use crate::linux::include::cgroup_defs::{Cgroup, Css};
use crate::linux::include::cgroup_defs::{blkcg_fields, css_fields};
use crate::linux::include::fs::{Inode, inode_fields, sb_fields};
use crate::sync::{End, Event, Field, Kfn, Kind, Machine, Mark, Ptr, RadixTree, Tp, Watch, with};
use shadow::{Frame, Fun, Shadow};
use std::any::Any;

/// Watches the machine of this thread from now on; called at boot, once the global variables exist.
///
/// Objects that exist already are taken over; what happened to them before is not judged.
pub fn install() {
    let mut o =
        Oracles { s: Shadow::new(globals()), slots: Vec::with_capacity(8), print: None, names: [(std::ptr::null(), Fun::Other); 64], syncs: 0, rstat: None };
    with(|m| {
        for k in 0..m.mem.allocs().len() {
            let a = m.mem.allocs()[k];
            if a.freed == u32::MAX {
                o.born(m, a.ty.label, a.base);
            }
        }
        m.mem.mark(globals().blkcg_root().ptr(), 1, BLKCGS);
        o.s.take_over(m);
        m.watch = Some(Box::new(o));
    });
}

const ENODEV: i64 = -19;

/// What a reference of a wb, or the wb, state and count of an inode, depends on.
const OBJECTS: Mark = Mark::new(0);
/// Cells of trees and wb_lists.
const TREES: Mark = Mark::new(1);
/// What the effective blkcg of a cgroup depends on.
const BLKCGS: Mark = Mark::new(2);

struct Oracles {
    s: Shadow,
    /// Occupied tree slots as (bdi index, key, wb), and a fingerprint of trees and lists, as they were when last looked at.
    slots: Vec<(usize, u32, Ptr)>,
    print: Option<u64>,
    /// Traced functions by address of their [`Kfn`], so that names are compared once.
    names: [(*const Kfn, Fun); 64],
    /// Integrity syncs under way.
    syncs: u32,
    /// Memory statistics, on a machine that has them.
    rstat: Option<Box<rstat::Rstat>>,
}

/// Records a violation; the text is made only for the first of its rule.
#[cold]
fn bad(m: &mut Machine, rule: &'static str, detail: impl FnOnce(&Machine) -> String) {
    if !m.aborted && !m.violations.iter().any(|v| v.rule == rule) {
        let text = detail(m);
        m.report(rule, text);
    }
}

impl Watch for Oracles {
    fn event(&mut self, m: &mut Machine, e: &Event) {
        let s = m.current;
        if e.kind == Kind::Cmpxchg && e.val == 0 && e.task != self.s.last_name {
            // A winner's own store must not be booked to the task that ran before.
            self.attach_won(m, e.obj, s);
        }
        if e.task != self.s.last_name {
            self.boundary(m);
            self.s.enter(s, e.task);
        }
        if let Some(r) = &mut self.rstat {
            r.event(m, e);
        }
        match e.kind {
            Kind::Load if self.s.bdis.iter().any(|b| refs::inside(e.obj.0.wrapping_sub(b.p.0 + bdi_fields::wb), wb_fields::refcnt)) => {
                self.ref_op_on_root(m, e)
            }
            Kind::Add | Kind::AddUnless => self.added(m, e, s),
            Kind::Cmpxchg | Kind::Xchg => self.exchanged(m, e, s),
            Kind::SpinLock if e.obj == self.s.g.cgwb_lock().ptr() => self.cgwb_locked(m),
            Kind::SpinUnlock => self.unlocked(m, e.obj, s),
            Kind::QueueWork => self.armed(m, e, s),
            Kind::Trace => self.traced(m, e, s),
            Kind::Alloc => {
                if let Some(a) = m.mem.alloc_of(e.obj) {
                    let label = a.ty.label;
                    self.born(m, label, e.obj);
                    if label == "memcg_stats" {
                        self.rstat = Some(Box::new(rstat::Rstat::new(self.s.g, e.obj)));
                    }
                }
            }
            Kind::Free => {
                if let Some(a) = m.mem.alloc_of(e.obj) {
                    let label = a.ty.label;
                    self.poll_all(m, s);
                    self.freed(m, label, e.obj, s);
                    m.mem.tell(TREES);
                    m.mem.tell(BLKCGS);
                }
            }
            Kind::WorkBegin if e.obj == self.s.g.cleanup_offline_cgwbs_work().ptr() => self.cleaner_begins(m),
            Kind::WorkEnd if e.obj == self.s.g.cleanup_offline_cgwbs_work().ptr() => self.s.cleaner = false,
            Kind::GpBegin => {
                let mask = self.switching();
                self.s.slot(m).gp_begun = mask;
            }
            Kind::GpEnd => {
                let slot = self.s.slot(m);
                slot.gp_ended = slot.gp_begun;
            }
            Kind::RcuCallback => self.callback(m, e.obj),
            // A context that is handed to a callback is queued by it.
            Kind::CallRcu if m.mem.alloc_of(e.obj).is_some_and(|a| a.ty.label == "isw") => {
                let dest = shadow::ptr_at(m, e.obj);
                self.isw_queued(m, e.obj, dest, s);
            }
            Kind::Choice if e.val != 0 => {
                if let Some(x) = self.s.slots.get_mut(s) {
                    x.frames.iter_mut().filter(|f| f.fun != Fun::WbcAttach).for_each(|f| f.failed = true);
                }
                if self.s.cleaner {
                    self.not_cleanable(|_| true);
                }
            }
            Kind::Exit => self.exited(m, s),
            _ => {}
        }
    }

    fn end(&mut self, m: &mut Machine, end: End) {
        let last = self.s.last;
        self.poll_all(m, last);
        self.ended(m, end);
        if let Some(r) = &self.rstat {
            r.end(m);
        }
    }

    fn hash(&self) -> u64 {
        self.s.hash().wrapping_add(self.rstat.as_ref().map_or(0, |r| r.hash()))
    }

    fn copy(&self) -> Box<dyn Watch> {
        Box::new(Oracles { s: self.s.clone(), slots: Vec::with_capacity(8), print: None, names: self.names, syncs: self.syncs, rstat: self.rstat.clone() })
    }

    fn become_copy(&mut self, from: &dyn Watch) -> bool {
        let Some(from) = from.as_any().downcast_ref::<Oracles>() else { return false };
        self.s.clone_from(&from.s);
        self.slots.clear();
        self.print = None;
        self.syncs = from.syncs;
        self.rstat.clone_from(&from.rstat);
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Oracles {
    /// Another task goes on: what the last one stored plainly becomes visible now.
    #[inline]
    fn boundary(&mut self, m: &mut Machine) {
        let last = self.s.last;
        self.poll_all(m, last);
        if self.s.creating > 0 && m.mem.news(BLKCGS) {
            m.mem.heard(BLKCGS);
            self.poll_effective(m);
        }
    }

    /// An object came into being: from now on changes of what is watched of it are noticed.
    fn born(&mut self, m: &mut Machine, label: &str, p: Ptr) {
        self.s.born(label, p);
        let mem = &mut m.mem;
        match label {
            "wb" => {
                mem.mark(BdiWriteback(p).refcnt().stage(), 1, OBJECTS);
                mem.mark(BdiWriteback(p).bdi_node().ptr(), 2, TREES);
            }
            "bdi" => {
                let bdi = BackingDevInfo(p);
                mem.mark(bdi.wb().bdi_node().ptr(), 2, TREES);
                mem.mark(bdi.wb_list().ptr(), 2, TREES);
                mem.mark(bdi.cgwb_tree().ptr(), RadixTree::CELLS, TREES);
            }
            "node" => RadixTree::mark_node(m, p, TREES),
            "inode" => {
                let inode = Inode(p);
                [inode.i_wb().ptr(), inode.i_state().ptr(), inode.i_count().ptr()].into_iter().for_each(|c| mem.mark(c, 1, OBJECTS));
            }
            "memcg" | "blkcg" => {
                mem.mark(Css(p).flags().ptr(), 1, BLKCGS);
                mem.mark(Css(p).refcnt().stage(), 1, BLKCGS);
                mem.mark(Css(p).cgroup().ptr(), 1, BLKCGS);
            }
            "cgroup" => mem.mark(p, Cgroup::SIZE, BLKCGS),
            _ => {}
        }
    }

    #[inline]
    fn poll_all(&mut self, m: &mut Machine, s: usize) {
        // While a sync is under way it counts who is in which function, too.
        if !m.mem.news(OBJECTS) && self.syncs == 0 {
            return;
        }
        m.mem.heard(OBJECTS);
        for i in 0..self.s.wbs.len() {
            self.poll_ref(m, i, s);
        }
        for i in 0..self.s.inodes.len() {
            self.poll_inode(m, i, s);
        }
    }

    #[cold]
    fn ref_op_on_root(&mut self, m: &mut Machine, e: &Event) {
        bad(m, "LT-REF-7", |m| format!("reference operation on the root wb of {}", m.mem.owner_name(e.obj)));
    }

    fn added(&mut self, m: &mut Machine, e: &Event, s: usize) {
        let Some(a) = m.mem.alloc_of(e.obj) else { return };
        let (label, base, off) = (a.ty.label, a.base, e.obj.0 - a.base.0);
        let now = m.mem.peek(e.obj) as i64;
        let delta = now.wrapping_sub(e.val as i64);
        match label {
            "wb" if refs::inside(off, wb_fields::refcnt) => self.wb_ref_op(m, e, base, delta, s),
            "bdi" if off == bdi_fields::refcnt => self.bdi_ref_op(m, base, delta, s),
            "bdi" if refs::inside(off.wrapping_sub(bdi_fields::wb), wb_fields::refcnt) => self.ref_op_on_root(m, e),
            "memcg" | "blkcg" if refs::inside(off, css_fields::refcnt) => self.css_ref_op(m, base, label == "memcg", delta, s),
            "blkcg" if off == blkcg_fields::online_pin => self.pin_op(m, base, delta, e.val as i64, s),
            "sb" if off == sb_fields::s_isw_nr_in_flight => self.sb_in_flight(m, base, delta, now, s),
            "inode" if off == inode_fields::i_count && delta < 0 => {
                if let Some(f) = self.s.frame(s, Fun::Process) {
                    f.drops[0] += 1;
                }
            }
            "" if e.obj == self.s.g.isw_nr_in_flight().ptr() && delta < 0 => self.in_flight(m, now),
            _ => {}
        }
    }

    /// The task of slot `s` has just given an inode its first wb, if that is what the cell at `p` is.
    fn attach_won(&mut self, m: &mut Machine, p: Ptr, s: usize) {
        if let Some(a) = m.mem.alloc_of(p)
            && a.ty.label == "inode"
            && p.0 - a.base.0 == inode_fields::i_wb
            && let Some(i) = self.s.inode(a.base)
        {
            self.poll_inode(m, i, s);
        }
    }

    fn exchanged(&mut self, m: &mut Machine, e: &Event, s: usize) {
        let Some(a) = m.mem.alloc_of(e.obj) else { return };
        let (label, base) = (a.ty.label, a.base);
        let wb = match label {
            "wb" => base,
            "bdi" => BackingDevInfo(base).wb().ptr(),
            _ => return,
        };
        if e.obj != BdiWriteback(wb).switch_wbs_ctxs().ptr() {
            return;
        }
        if e.kind == Kind::Cmpxchg {
            let node = shadow::ptr_at(m, e.obj);
            self.isw_queued(m, node, wb, s);
        } else if e.val == 0 {
            bad(m, "LT-ISW-4", |m| format!("switch work of {} starts with an empty list", m.mem.name(wb)));
        }
    }

    fn unlocked(&mut self, m: &mut Machine, lock: Ptr, s: usize) {
        if lock == self.s.g.cgwb_lock().ptr() {
            self.cgwb_unlocked(m, s);
            return;
        }
        if lock == self.s.g.cgroup_idr_lock().ptr() {
            self.ids_unlocked(m);
            return;
        }
        let Some(a) = m.mem.alloc_of(lock) else { return };
        let (label, base, off) = (a.ty.label, a.base, lock.0 - a.base.0);
        match label {
            "inode" => {
                if let Some(i) = self.s.inode(base) {
                    self.poll_inode(m, i, s);
                    if off == inode_fields::i_lock {
                        self.inode_unlocked(m, i);
                    }
                }
            }
            "wb" if off == wb_fields::list_lock => {
                self.poll_all(m, s);
                self.list_unlocked(m, base);
            }
            "bdi" if off == bdi_fields::wb + wb_fields::list_lock => {
                self.poll_all(m, s);
                self.list_unlocked(m, BackingDevInfo(base).wb().ptr());
            }
            _ => {}
        }
    }

    /// An RCU callback begins: for a wb's reference, the grace period of its kill is over.
    fn callback(&mut self, m: &Machine, head: Ptr) {
        if let Some(a) = m.mem.alloc_of(head)
            && a.ty.label == "wb"
            && refs::inside(head.0 - a.base.0, wb_fields::refcnt)
            && let Some(i) = self.s.wb(a.base)
        {
            self.s.wbs[i].gp_over = true;
        }
    }

    fn exited(&mut self, m: &mut Machine, s: usize) {
        self.poll_all(m, s);
        self.refs_exit(m, s);
        self.s.clear_slot(s);
    }

    fn fun(&mut self, k: &'static Kfn) -> Fun {
        let p: *const Kfn = k;
        let e = &mut self.names[(p as usize >> 4) % 64];
        if e.0 != p {
            *e = (p, Fun::named(k.name));
        }
        e.1
    }

    fn traced(&mut self, m: &mut Machine, e: &Event, s: usize) {
        match e.tp {
            Tp::Kept => self.kept(e.obj, e.val, s),
            Tp::Css => self.css_step(m, e.obj, e.val),
            Tp::WritePages => {
                if let Some(i) = self.s.inode(e.obj) {
                    self.written(i);
                }
            }
            Tp::DirtyPages => self.not_cleanable(|i| i.p == e.obj),
            Tp::Call | Tp::Return => {
                let Some(k) = e.func else { return };
                let fun = self.fun(k);
                if fun == Fun::Other {
                    return;
                }
                if e.tp == Tp::Call { self.called(m, e, fun, s) } else { self.returned(m, e, fun, s) }
            }
            _ => {}
        }
    }

    fn called(&mut self, m: &mut Machine, e: &Event, fun: Fun, s: usize) {
        let arg = Ptr::from_word(e.val);
        match fun {
            Fun::Kill => self.kill_called(m, e.obj, s),
            Fun::ReleaseCb => self.release_called(m, e.obj, s),
            Fun::QueueWork => self.work_queued(m, e.obj, arg, s),
            Fun::FinishWork => self.work_finished(m, e.obj, arg),
            Fun::SwitchWbs => {
                if let Some(f) = self.s.frame(s, Fun::WbcAttach).filter(|f| f.obj == e.obj) {
                    f.closed = true;
                }
            }
            _ => {}
        }
        if fun.call_only() {
            return;
        }
        let mut f = Frame { fun, obj: e.obj, arg: e.val, ..Frame::EMPTY };
        match fun {
            Fun::Lookup | Fun::GetCreate | Fun::GetCreateCurrent => self.lookup_called(m, &mut f),
            Fun::Create => self.round(m, s),
            Fun::Release => self.release_starts(m, e.obj),
            Fun::ById => self.by_id_called(m, &mut f),
            Fun::SyncInodes => self.sync_called(m, &mut f),
            Fun::Writeback => self.writeback_called(m, &mut f),
            Fun::WbcAttach => self.attach_called(m, &mut f),
            Fun::Umount => {
                let sb = e.obj;
                let gone: Vec<Ptr> = self.s.each_inode().filter(|x| shadow::ptr_at(m, x.1.k().i_sb().ptr()) == sb).map(|x| x.1.p).collect();
                self.not_cleanable(|i| gone.contains(&i.p));
            }
            _ => {}
        }
        if matches!(fun, Fun::Writeback | Fun::SyncInodes) {
            // They look at inodes that nobody touches any more.
            m.mem.tell(OBJECTS);
        }
        self.s.slot(m).frames.push(f);
    }

    fn returned(&mut self, m: &mut Machine, e: &Event, fun: Fun, s: usize) {
        let Some(f) = self.s.slots.get_mut(s).and_then(|x| x.frames.pop_if(|f| f.fun == fun)) else { return };
        match fun {
            Fun::Lookup | Fun::GetCreate | Fun::GetCreateCurrent => self.lookup_returned(m, &f, e.obj, s),
            Fun::Create => {
                self.create_returned(m, &f);
                if e.val as i64 == ENODEV {
                    self.creation_failed(m, Ptr::from_word(f.arg), s);
                }
            }
            Fun::WbcAttach => self.attach_returned(m, &f),
            Fun::Release => self.release_returned(m, &f),
            Fun::Shutdown if e.val == 1 => self.shutdown_returned(m, e.obj),
            Fun::CgwbBdiUnregister => self.unregister_returned(m, e.obj),
            Fun::ById => self.by_id_returned(m, &f, e.obj, e.val as i64),
            Fun::SyncInodes => self.sync_returned(m, &f),
            Fun::Writeback => self.writeback_returned(m, &f),
            Fun::WaitCompletion => self.waited(s),
            Fun::Umount => self.umount_returned(m, e.obj),
            Fun::ShutdownSuper => self.busy_inodes(m, e.obj, "is unmounted"),
            Fun::DoSwitch | Fun::Process => {
                // The move is judged while the call counts as under way.
                self.s.slot(m).frames.push(f);
                self.poll_all(m, s);
                self.s.slot(m).frames.pop();
            }
            _ => {}
        }
    }
}
