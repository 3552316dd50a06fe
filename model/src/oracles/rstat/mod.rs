//! Memory statistics: what the totals are worth, how much may be pending, and the shape of lists and trees (TH-RST-*).
//!
//! Main type: [`Rstat`], with exact sums of its own: what callers asked for, and what of it no flush has looked at yet. A change
//! counts from the step that adds it to its CPU's counter, a look from the step that reads that counter.
//! Can miss: what overlaps an update is judged for its size only; with weak memory, totals are not judged at all, because nothing
//! orders an update that has returned before a flush that begins.

#[cfg(test)]
mod tests;

use super::bad;
use crate::linux::Globals;
use crate::linux::include::cgroup_defs::{Css, MemCgroup};
use crate::linux::kernel::cgroup::rstat::{CssRstatCpu, RstatHead};
use crate::linux::mm::memcontrol::stats::{MemcgVmstats, MemcgVmstatsPercpu, NR_ITEMS, StatItem, Statistics, statc_fields, unpack};
use crate::policy::FlushPolicy;
use crate::sync::{Event, Field, Kind, Machine, Ptr, TaskName, Tp, Word};

const ITEMS: usize = NR_ITEMS as usize;
/// Pages an online CPU that have to be pending for a gated flush.
const GATE: i64 = 64;
/// Seconds for which a ratelimited reader relies on the periodic flush.
const PATIENCE: u64 = 4;

/// A memcg with statistics, also when it is gone.
#[derive(Clone)]
struct Memcg {
    p: Ptr,
    parent: Option<usize>,
    gone: bool,
    percpu: Ptr,
    vmstats: Ptr,
    rstat_cpu: Ptr,
    /// What was asked for: the memcg's own share.
    own: [i64; ITEMS],
    /// Absolute changes in pages that no flush has seen, by CPU and item.
    unseen: Vec<[i64; ITEMS]>,
    /// Totals when it went.
    last: [i64; ITEMS],
    /// Jiffies at the beginning of the last flush that went over it and has ended.
    covered: u64,
    /// Pages changed in the subtree while the last such flush was under way.
    overlap: i64,
    /// Pages changed in the subtree since the last flush that no update overlapped.
    since: i64,
}

/// An update under way.
#[derive(Clone, Copy)]
struct Update {
    memcg: usize,
    cpu: u32,
    item: StatItem,
    by: i64,
    /// The counter was changed.
    added: bool,
}

/// A flush under way.
#[derive(Clone)]
struct Flush {
    root: usize,
    began: u64,
    /// No update of the subtree overlapped it so far.
    quiet: bool,
    /// Times the lock was taken.
    holds: u32,
    /// Memcgs with something to flush on this CPU when the lock was taken.
    due: Vec<usize>,
    /// Visited since then.
    visited: Vec<(usize, u32)>,
}

/// Calls under way in a task.
#[derive(Clone, Default)]
struct Calls {
    name: TaskName,
    update: Option<Update>,
    flush: Option<Flush>,
    visit: Option<(usize, u32)>,
    /// Not forced, with the gate when it was asked.
    gated: Option<i64>,
}

/// Statistics by events.
#[derive(Clone)]
pub(super) struct Rstat {
    g: Globals,
    s: Statistics,
    memcgs: Vec<Memcg>,
    calls: Vec<Calls>,
}

/// A change in pages, never 0.
fn pages(item: StatItem, by: i64) -> i64 {
    let page = StatItem::FileDirty.unit();
    ((by.unsigned_abs() * item.unit() / page) as i64).max(1)
}

fn peek(m: &Machine, p: Ptr) -> i64 {
    m.mem.peek(p) as i64
}

fn ptr_at(m: &Machine, p: Ptr) -> Ptr {
    Ptr::from_word(m.mem.peek(p))
}

impl Rstat {
    pub fn new(g: Globals, s: Ptr) -> Rstat {
        Rstat { g, s: Statistics(s), memcgs: Vec::new(), calls: Vec::new() }
    }

    // ---- what there is -----------------------------------------------------------------------------------------------

    fn find(&self, css: Ptr) -> Option<usize> {
        self.memcgs.iter().position(|x| x.p == css)
    }

    fn born(&mut self, m: &Machine, css: Ptr) {
        let memcg = MemCgroup(css);
        self.memcgs.push(Memcg {
            p: css,
            parent: self.find(ptr_at(m, Css(css).parent().ptr())),
            gone: false,
            percpu: ptr_at(m, memcg.vmstats_percpu().ptr()),
            vmstats: ptr_at(m, memcg.vmstats().ptr()),
            rstat_cpu: ptr_at(m, memcg.css().rstat_cpu().ptr()),
            own: [0; ITEMS],
            unseen: vec![[0; ITEMS]; m.config.nr_cpus as usize],
            last: [0; ITEMS],
            covered: self.now(m),
            overlap: 0,
            since: 0,
        });
    }

    fn now(&self, m: &Machine) -> u64 {
        m.mem.peek(self.g.jiffies().ptr())
    }

    /// Is `i` the memcg `top` or below it?
    fn below(&self, i: usize, top: usize) -> bool {
        let mut at = Some(i);
        while let Some(x) = at {
            if x == top {
                return true;
            }
            at = self.memcgs[x].parent;
        }
        false
    }

    fn subtree(&self, top: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.memcgs.len()).filter(move |&i| self.below(i, top))
    }

    fn leaf(&self, i: usize) -> bool {
        !self.memcgs.iter().any(|x| x.parent == Some(i))
    }

    fn vmstats(&self, i: usize) -> MemcgVmstats {
        MemcgVmstats(self.memcgs[i].vmstats)
    }

    fn node(&self, i: usize, cpu: u32) -> CssRstatCpu {
        CssRstatCpu(self.memcgs[i].rstat_cpu.add(cpu * CssRstatCpu::CELLS))
    }

    /// Total of the subtree as readers see it.
    fn state(&self, m: &Machine, i: usize, item: StatItem) -> i64 {
        if self.memcgs[i].gone { self.memcgs[i].last[item as usize] } else { peek(m, self.vmstats(i).state().item(item).ptr()) }
    }

    /// What it should be once all is flushed.
    fn exact(&self, i: usize, item: StatItem) -> i64 {
        self.subtree(i).map(|k| self.memcgs[k].own[item as usize]).sum()
    }

    /// Absolute changes in the subtree that no flush has seen, in pages.
    fn unseen(&self, i: usize) -> i64 {
        self.subtree(i).flat_map(|k| self.memcgs[k].unseen.iter().flatten()).sum()
    }

    fn updates(&self) -> impl Iterator<Item = &Update> {
        self.calls.iter().filter_map(|c| c.update.as_ref())
    }

    fn updating(&self, i: usize, cpu: u32) -> bool {
        self.updates().any(|u| u.memcg == i && u.cpu == cpu)
    }

    /// Pages of updates under way in the subtree.
    fn in_flight(&self, i: usize) -> i64 {
        self.updates().filter(|u| self.below(u.memcg, i)).map(|u| pages(u.item, u.by)).sum()
    }

    fn gate(&self, m: &Machine) -> i64 {
        GATE * peek(m, self.s.num_online_cpus().ptr())
    }

    fn slot(&mut self, m: &Machine) -> usize {
        let s = m.current;
        if self.calls.len() <= s {
            self.calls.resize_with(s + 1, Calls::default);
        }
        if self.calls[s].name != m.current_name() {
            self.calls[s] = Calls { name: m.current_name(), ..Calls::default() };
        }
        s
    }

    // ---- events ------------------------------------------------------------------------------------------------------

    pub fn event(&mut self, m: &mut Machine, e: &Event) {
        match e.kind {
            Kind::Add => self.added(m, e),
            Kind::Load => self.loaded(m, e),
            Kind::SpinLock if e.obj == self.s.rstat().rstat_ss_lock().ptr() => self.locked(m),
            Kind::SpinUnlock if e.obj == self.s.rstat().rstat_ss_lock().ptr() => self.unlocked(m),
            Kind::Trace if matches!(e.tp, Tp::Call | Tp::Return) => {
                let Some(f) = e.func else { return };
                let call = e.tp == Tp::Call;
                match f.name {
                    "css_rstat_init" => self.born(m, e.obj),
                    "__mod_memcg_state" if call => self.update_begins(m, e),
                    "__mod_memcg_state" => self.update_ends(m),
                    "css_rstat_flush" if call => self.flush_begins(m, e.obj),
                    "css_rstat_flush" => self.flush_ends(m),
                    "mem_cgroup_css_rstat_flush" if call => self.visit_begins(m, e),
                    "mem_cgroup_css_rstat_flush" => self.visit_ends(m),
                    "__mem_cgroup_flush_stats" if call => {
                        let gate = (e.val == 0).then(|| self.gate(m));
                        let s = self.slot(m);
                        self.calls[s].gated = gate;
                    }
                    "__mem_cgroup_flush_stats" => {
                        let s = self.slot(m);
                        self.calls[s].gated = None;
                        if e.val == 0 {
                            self.skipped(m, e.obj);
                        }
                    }
                    "mem_cgroup_flush_stats_ratelimited" if !call => self.trusted(m, e.obj),
                    "mem_cgroup_wb_stats" => self.read(m, e),
                    "css_rstat_exit" => self.exited(m, e.obj),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// Memcg, CPU and item of a counter that changes are made to.
    fn counter(&self, m: &Machine, p: Ptr) -> Option<(usize, u32, StatItem)> {
        let a = m.mem.alloc_of(p).filter(|a| a.ty.label == "statc")?;
        let i = self.memcgs.iter().position(|x| x.percpu == a.base)?;
        let off = p.0 - a.base.0;
        let field = (off % MemcgVmstatsPercpu::CELLS).wrapping_sub(statc_fields::state);
        (field < NR_ITEMS).then(|| (i, off / MemcgVmstatsPercpu::CELLS, StatItem::ALL[field as usize]))
    }

    fn update_begins(&mut self, m: &Machine, e: &Event) {
        let Some(memcg) = self.find(e.obj) else { return };
        let (item, by) = unpack(e.val);
        for k in 0..self.calls.len() {
            if let Some(f) = &self.calls[k].flush
                && self.below(memcg, f.root)
                && let Some(f) = &mut self.calls[k].flush
            {
                f.quiet = false;
            }
        }
        let s = self.slot(m);
        self.calls[s].update = Some(Update { memcg, cpu: m.this_cpu(), item, by, added: false });
    }

    fn added(&mut self, m: &Machine, e: &Event) {
        let Some((i, cpu, item)) = self.counter(m, e.obj) else { return };
        let s = self.slot(m);
        let Some(u) = self.calls[s].update.as_mut().filter(|u| u.memcg == i && u.item == item && !u.added) else { return };
        u.added = true;
        let by = u.by;
        let n = pages(item, by);
        self.memcgs[i].own[item as usize] += by;
        self.memcgs[i].unseen[cpu as usize][item as usize] += n;
        let mut at = Some(i);
        while let Some(x) = at {
            self.memcgs[x].since += n;
            if self.covering(x) {
                self.memcgs[x].overlap += n;
            }
            at = self.memcgs[x].parent;
        }
    }

    /// Is a flush under way that goes over this memcg?
    fn covering(&self, i: usize) -> bool {
        self.calls.iter().filter_map(|c| c.flush.as_ref()).any(|f| self.below(i, f.root))
    }

    fn update_ends(&mut self, m: &mut Machine) {
        let s = self.slot(m);
        let Some(u) = self.calls[s].update.take() else { return };
        if !u.added {
            bad(m, "TH-RST-1", |m| format!("an update of {} returns without having changed its CPU's counter", m.mem.name(self.memcgs[u.memcg].p)));
        }
        self.judge_mark(m, u.memcg, u.cpu);
    }

    fn loaded(&mut self, m: &Machine, e: &Event) {
        let Some((i, cpu, item)) = self.counter(m, e.obj) else { return };
        let s = self.slot(m);
        // With weak memory, what was read need not be the newest value.
        if self.calls[s].visit == Some((i, cpu)) && e.val == m.mem.peek(e.obj) {
            self.memcgs[i].unseen[cpu as usize][item as usize] = 0;
        }
    }

    // ---- flushes -----------------------------------------------------------------------------------------------------

    fn flush_begins(&mut self, m: &mut Machine, css: Ptr) {
        let Some(root) = self.find(css) else { return };
        let s = self.slot(m);
        if let Some(gate) = self.calls[s].gated {
            let (changed, gate) = (self.memcgs[root].since, gate.min(self.gate(m)));
            if changed <= gate {
                bad(m, "TH-RST-10", |m| format!("{} is flushed for {changed} pages changed since the last flush, at a gate of {gate}", m.mem.name(css)));
            }
        }
        for i in 0..self.memcgs.len() {
            if self.below(i, root) && !self.covering(i) {
                self.memcgs[i].overlap = self.updates().filter(|u| u.added && self.below(u.memcg, i)).map(|u| pages(u.item, u.by)).sum();
            }
        }
        let quiet = !self.updates().any(|u| self.below(u.memcg, root));
        let began = self.now(m);
        self.calls[s].flush = Some(Flush { root, began, quiet, holds: 0, due: Vec::new(), visited: Vec::new() });
    }

    fn flush_ends(&mut self, m: &mut Machine) {
        let s = self.slot(m);
        let Some(f) = self.calls[s].flush.take() else { return };
        for i in 0..self.memcgs.len() {
            if self.below(i, f.root) {
                let x = &mut self.memcgs[i];
                x.covered = x.covered.max(f.began);
                if f.quiet {
                    x.since = 0;
                }
            }
        }
        if f.quiet && !m.config.weak {
            let live: Vec<usize> = self.subtree(f.root).filter(|&i| !self.memcgs[i].gone).collect();
            live.into_iter().for_each(|i| self.judge_flushed(m, i));
        }
    }

    /// Nothing of the subtree is pending after a flush that no update overlapped.
    fn judge_flushed(&self, m: &mut Machine, i: usize) {
        let (p, v) = (self.memcgs[i].p, self.vmstats(i));
        for &item in StatItem::ALL {
            let (read, exact) = (self.state(m, i, item), self.exact(i, item));
            if read != exact {
                bad(m, "TH-RST-1", |m| format!("{} of {} reads {read} after a flush, and is {exact}", item.name(), m.mem.name(p)));
            }
            if peek(m, v.state_pending().item(item).ptr()) != 0 {
                bad(m, "TH-RST-1", |m| format!("{} of {} is pending after a flush", item.name(), m.mem.name(p)));
            }
        }
    }

    fn locked(&mut self, m: &Machine) {
        let s = self.slot(m);
        let Some(f) = &self.calls[s].flush else { return };
        let (root, cpu) = (f.root, f.holds);
        let due = if m.config.weak || cpu >= m.config.nr_cpus {
            Vec::new()
        } else {
            self.subtree(root).filter(|&i| self.memcgs[i].unseen[cpu as usize].iter().any(|n| *n > 0) && !self.updating(i, cpu)).collect()
        };
        if let Some(f) = &mut self.calls[s].flush {
            f.holds += 1;
            f.due = due;
            f.visited.clear();
        }
    }

    fn unlocked(&mut self, m: &mut Machine) {
        let s = self.slot(m);
        let Some(f) = self.calls[s].flush.clone() else { return };
        let cpu = f.holds - 1;
        for &i in f.due.iter().filter(|&&i| !f.visited.iter().any(|v| v.0 == i)) {
            bad(m, "TH-RST-5", |m| {
                format!("{} has changes on CPU {cpu}, and a flush of {} passes it by", m.mem.name(self.memcgs[i].p), m.mem.name(self.memcgs[f.root].p))
            });
        }
        if let Some(v) = f.visited.iter().find(|v| v.1 != f.visited[0].1) {
            bad(m, "TH-RST-12", |_| format!("the lock is held from CPU {} to CPU {}", f.visited[0].1, v.1));
        }
        self.judge_tree(m, cpu.min(m.config.nr_cpus - 1));
    }

    fn visit_begins(&mut self, m: &mut Machine, e: &Event) {
        let (Some(i), cpu) = (self.find(e.obj), e.val as u32) else { return };
        let s = self.slot(m);
        self.calls[s].visit = Some((i, cpu));
        let Some(f) = &self.calls[s].flush else {
            bad(m, "TH-RST-5", |m| format!("{} is visited outside a flush", m.mem.name(e.obj)));
            return;
        };
        let why = if !self.below(i, f.root) {
            Some("outside the subtree")
        } else if f.visited.contains(&(i, cpu)) {
            Some("twice")
        } else if f.visited.iter().any(|v| v.1 == cpu && v.0 != i && self.below(i, v.0)) {
            Some("after an ancestor of it")
        } else {
            None
        };
        if let Some(why) = why {
            bad(m, "TH-RST-5", |m| format!("{} is visited {why} in a flush of {} on CPU {cpu}", m.mem.name(e.obj), m.mem.name(self.memcgs[f.root].p)));
        }
        if let Some(f) = &mut self.calls[s].flush {
            f.visited.push((i, cpu));
        }
    }

    fn visit_ends(&mut self, m: &mut Machine) {
        let s = self.slot(m);
        let Some((i, _)) = self.calls[s].visit.take() else { return };
        self.judge_totals(m, i);
        if let Some(p) = self.memcgs[i].parent {
            self.judge_totals(m, p);
        }
    }

    /// Totals of the children and the memcg's own make up its total and what is pending for it.
    fn judge_totals(&self, m: &mut Machine, i: usize) {
        for &item in StatItem::ALL {
            let v = self.vmstats(i);
            let have = self.state(m, i, item) + peek(m, v.state_pending().item(item).ptr());
            let children: i64 = (0..self.memcgs.len()).filter(|&k| self.memcgs[k].parent == Some(i)).map(|k| self.state(m, k, item)).sum();
            let parts = children + peek(m, v.state_local().item(item).ptr());
            if have != parts {
                let p = self.memcgs[i].p;
                bad(m, "TH-RST-4", |m| format!("{} of {}: total and pending are {have}, its own and its children's {parts}", item.name(), m.mem.name(p)));
            }
        }
    }

    // ---- readers -----------------------------------------------------------------------------------------------------

    /// A gated flush of `css` found too little pending.
    fn skipped(&self, m: &mut Machine, css: Ptr) {
        let Some(i) = self.find(css) else { return };
        let unseen = self.unseen(i);
        let bound = self.gate(m) + (GATE - 1) * i64::from(m.config.nr_cpus) + self.in_flight(i);
        if unseen <= bound || m.config.weak {
            return;
        }
        let overlap = self.memcgs[i].overlap;
        let rule = match (self.leaf(i), unseen <= bound + overlap) {
            (_, true) => "TH-RST-2b",
            (true, false) => "TH-RST-2",
            (false, false) => "TH-RST-2c",
        };
        bad(m, rule, |m| format!("{} is not flushed, with {unseen} pages changed, {bound} allowed, {overlap} changed during the last flush", m.mem.name(css)));
    }

    /// A ratelimited reader of `css` returns.
    fn trusted(&self, m: &mut Machine, css: Ptr) {
        let Some(i) = self.find(css).filter(|&i| self.leaf(i)) else { return };
        let age = self.now(m).saturating_sub(self.memcgs[i].covered);
        if age <= PATIENCE * m.mem.peek(self.s.hz().ptr()) || self.covering(i) {
            return;
        }
        let unseen = self.unseen(i);
        let bound = self.gate(m) + (GATE - 1) * i64::from(m.config.nr_cpus) + self.in_flight(i) + self.memcgs[i].overlap;
        if unseen > bound {
            bad(m, "TH-RST-3", |m| format!("a reader of {} relies on totals {age} jiffies old that miss {unseen} pages", m.mem.name(css)));
        }
    }

    /// The dirty pages of a memcg were read.
    fn read(&self, m: &mut Machine, e: &Event) {
        let Some(i) = self.find(e.obj) else { return };
        if (e.val as i64) < 0 {
            bad(m, "TH-RST-13", |m| format!("{} dirty pages of {} are read", e.val, m.mem.name(e.obj)));
        }
        let exact = self.exact(i, StatItem::FileDirty).max(0);
        let atomic = m.mem.peek(self.s.policy().ptr()) == FlushPolicy::AtomicPerMemcg.to_word();
        if atomic && e.val as i64 != exact && !self.updates().any(|u| self.below(u.memcg, i)) {
            bad(m, "TH-RST-6", |m| format!("{} dirty pages of {} are read, and there are {exact}", e.val, m.mem.name(e.obj)));
        }
    }

    // ---- ends, and shapes --------------------------------------------------------------------------------------------

    /// The nodes of a memcg are about to be freed.
    fn exited(&mut self, m: &mut Machine, css: Ptr) {
        let Some(i) = self.find(css) else { return };
        let unseen: i64 = self.memcgs[i].unseen.iter().flatten().sum();
        let pending = StatItem::ALL.iter().any(|&item| peek(m, self.vmstats(i).state_pending().item(item).ptr()) != 0);
        if unseen > 0 || pending {
            bad(m, "TH-RST-9", |m| format!("{} goes with {unseen} pages that no flush has seen", m.mem.name(css)));
        }
        self.judge_own(m, i);
        self.memcgs[i].last = std::array::from_fn(|k| self.state(m, i, StatItem::ALL[k]));
        self.memcgs[i].gone = true;
    }

    /// Is a node that is marked as queued on its CPU's list?
    fn judge_mark(&self, m: &mut Machine, i: usize, cpu: u32) {
        let lock = self.s.rstat().rstat_ss_lock().ptr();
        if self.memcgs[i].gone || self.updating(i, cpu) || m.mem.peek(lock) != 0 {
            return;
        }
        let lnode = self.node(i, cpu).lnode().ptr();
        if ptr_at(m, lnode) == lnode {
            return;
        }
        let head = RstatHead(ptr_at(m, self.s.rstat().lhead().ptr()).add(cpu * RstatHead::CELLS)).head().ptr();
        let (mut at, mut left) = (ptr_at(m, head), self.memcgs.len());
        while !at.is_null() && at != lnode && left > 0 {
            at = ptr_at(m, at);
            left -= 1;
        }
        if at != lnode {
            bad(m, "TH-RST-8", |m| format!("{} is marked as queued on CPU {cpu} and is on no list", m.mem.name(self.memcgs[i].p)));
        }
    }

    /// Is everything that is linked reachable from its parent, exactly once, and the other way round?
    fn judge_tree(&self, m: &mut Machine, cpu: u32) {
        let live: Vec<usize> = (0..self.memcgs.len()).filter(|&i| !self.memcgs[i].gone).collect();
        let mut wrong: Option<(usize, &str)> = None;
        for &i in &live {
            let me = self.memcgs[i].p;
            let linked = !ptr_at(m, self.node(i, cpu).updated_next().ptr()).is_null();
            let listed = match self.memcgs[i].parent {
                Some(p) => self.children(m, p, cpu).map_or(2, |c| c.iter().filter(|x| **x == me).count()),
                None => usize::from(linked),
            };
            if linked != (listed == 1) || listed > 1 {
                wrong =
                    Some((i, if linked { "is linked, and not once among its parent's children" } else { "is among its parent's children, and not linked" }));
            }
            if let Some(p) = self.memcgs[i].parent
                && linked
                && ptr_at(m, self.node(p, cpu).updated_next().ptr()).is_null()
            {
                wrong = Some((i, "is linked, and its parent is not"));
            }
        }
        if let Some((i, why)) = wrong {
            bad(m, "TH-RST-7", |m| format!("{} {why} on CPU {cpu}", m.mem.name(self.memcgs[i].p)));
        }
    }

    /// The children linked below a memcg; none if the list does not end with the memcg itself.
    fn children(&self, m: &Machine, i: usize, cpu: u32) -> Option<Vec<Ptr>> {
        let (me, mut out) = (self.memcgs[i].p, Vec::new());
        let mut at = ptr_at(m, self.node(i, cpu).updated_children().ptr());
        while at != me {
            let k = self.find(at).filter(|&k| !self.memcgs[k].gone && out.len() < self.memcgs.len())?;
            out.push(at);
            at = ptr_at(m, self.node(k, cpu).updated_next().ptr());
        }
        Some(out)
    }

    /// The execution is over.
    pub fn end(&self, m: &mut Machine) {
        let live: Vec<usize> = (0..self.memcgs.len()).filter(|&i| !self.memcgs[i].gone && m.mem.live(self.memcgs[i].vmstats)).collect();
        for cpu in 0..m.config.nr_cpus {
            if m.mem.peek(self.s.rstat().rstat_ss_lock().ptr()) == 0 {
                self.judge_tree(m, cpu);
            }
            live.iter().for_each(|&i| self.judge_mark(m, i, cpu));
        }
        live.iter().for_each(|&i| self.judge_own(m, i));
    }

    /// What a memcg counts for itself of its page lists moves with the pages.
    fn judge_own(&self, m: &mut Machine, i: usize) {
        if self.memcgs[i].unseen.iter().flatten().any(|n| *n != 0) {
            return;
        }
        for item in [StatItem::InactiveFile, StatItem::ActiveFile] {
            let local = peek(m, self.vmstats(i).state_local().item(item).ptr());
            if local < 0 {
                bad(m, "TH-RST-11", |m| format!("{} counts {local} {} pages of its own", m.mem.name(self.memcgs[i].p), item.name()));
            }
        }
    }

    pub fn hash(&self) -> u64 {
        use super::shadow::mix;
        let list = |seed: u64, v: &mut dyn Iterator<Item = i64>| v.fold(seed, |h, x| mix(h, x as u64));
        let mut h = 0u64;
        for x in &self.memcgs {
            let own = list(u64::from(x.p.0) << 1 | u64::from(x.gone), &mut x.own.iter().chain(&x.last).copied());
            let rest = list(own, &mut x.unseen.iter().flatten().copied().chain([x.covered as i64, x.overlap, x.since]));
            h = h.wrapping_add(rest);
        }
        for c in &self.calls {
            let mut x = u64::from(c.name.0);
            if let Some(u) = &c.update {
                x = list(x, &mut [1, u.memcg as i64, i64::from(u.cpu), u.item as i64, u.by, i64::from(u.added)].into_iter());
            }
            if let Some(f) = &c.flush {
                x = list(x, &mut [2, f.root as i64, f.began as i64, i64::from(f.quiet), i64::from(f.holds)].into_iter());
                x = list(x, &mut f.due.iter().map(|i| *i as i64).chain(f.visited.iter().map(|v| (v.0 as i64) << 16 | i64::from(v.1))));
            }
            if let Some(v) = c.visit {
                x = list(x, &mut [3, v.0 as i64, i64::from(v.1)].into_iter());
            }
            if let Some(g) = c.gated {
                x = list(x, &mut [4, g].into_iter());
            }
            if x != u64::from(c.name.0) {
                h = h.wrapping_add(mix(x, 5));
            }
        }
        h
    }
}
