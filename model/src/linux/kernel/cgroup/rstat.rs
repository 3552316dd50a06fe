//! Which csses have statistics to be flushed, CPU by CPU, and the flush.
//!
//! Mirrors:    kernel/cgroup/rstat.c and struct css_rstat_cpu of include/linux/cgroup-defs.h; fidelity: mirror.
//! Simplified: the memory controller only, so no base statistics; no BPF hooks; updates from NMIs are those of a hard interrupt; the
//!             lock is taken at once, without the trylock that its tracepoint wants.
//! Locks:      rstat_ss_lock (irq) around one CPU's list and tree at a time; updaters take none.
//! Ordering:   none between an update and the test of its node's mark: an update that finds the node queued may be seen by the
//!             flush under way or by none before the next update of that node (H-056).
//! Rules:      TH-RST-1, TH-RST-5, TH-RST-7, TH-RST-8, TH-RST-9, TH-RST-12.

use crate::container_of;
use crate::kfn;
use crate::kstruct;
use crate::linux::include::cgroup_defs::{Css, Subsys};
use crate::linux::mm::memcontrol::stats::{mem_cgroup_css_rstat_flush, statistics};
use crate::mutants::{Mutant, mutated};
use crate::sync::{Field, Llist, NULL, PerCpu, Ptr, SpinGuard, SpinLock, Tp, Var, cond_resched, emit, kfree, lockdep_assert_held, nr_cpu_ids, report, with};

kstruct! {
    /// `struct css_rstat_cpu`: a css's node in the lists of one CPU.
    pub struct CssRstatCpu: "rstat_cpu", "LT-MEM-2", rstat_cpu_fields {
        /// The css.
        owner: Var<Css>,
        /// First child with something to flush, or the css itself. rstat_ss_lock.
        updated_children: Var<Css>,
        /// Next sibling with something to flush, or the parent after the last one; null: not linked. A root points to itself.
        /// rstat_ss_lock.
        updated_next: Var<Css>,
        /// Entry of the CPU's lockless list; points to itself while it is on none.
        lnode: Var<Ptr>,
    }
}

kstruct! {
    /// `lhead` of one CPU.
    pub struct RstatHead: "rstat_lhead", "LT-MEM-0", rstat_head_fields {
        /// Nodes that were updated since the list was last emptied.
        head: Llist,
    }
}

kstruct! {
    /// What a `struct cgroup_subsys` has for its statistics.
    pub struct RstatSubsys: "rstat_ss", "LT-MEM-0", rstat_ss_fields {
        /// Protects the tree and what callbacks add up.
        rstat_ss_lock: SpinLock,
        /// Lockless lists.
        lhead: Var<PerCpu<RstatHead>>,
    }
}

/// Has this css statistics here?
fn css_uses_rstat(css: Css) -> bool {
    !css.rstat_cpu().get().is_null()
}

fn css_rstat_cpu(css: Css, cpu: u32) -> CssRstatCpu {
    css.rstat_cpu().get().cpu(cpu)
}

fn ss_rstat_lock() -> SpinLock {
    statistics().rstat().rstat_ss_lock()
}

fn ss_lhead_cpu(cpu: u32) -> Llist {
    statistics().rstat().lhead().get().cpu(cpu).head()
}

/// `__css_rstat_updated`: puts the node of `css` on the list of `cpu`, which is the caller's own, unless it is on it.
///
/// Safe against interrupts that do the same: whoever swaps the mark adds the node, the others rely on that.
pub async fn css_rstat_updated(css: Css, cpu: u32) {
    kfn!(__css_rstat_updated);
    if !css_uses_rstat(css) {
        return;
    }
    let lnode = css_rstat_cpu(css, cpu).lnode();
    if lnode.read_once().await != lnode.ptr() {
        return;
    }
    let old = if mutated(Mutant::H055) { lnode.this_cpu_cmpxchg(lnode.ptr(), NULL).await } else { lnode.cmpxchg(lnode.ptr(), NULL).await };
    if old == lnode.ptr() {
        ss_lhead_cpu(cpu).add(lnode.ptr()).await;
    }
}

/// Links a css and every ancestor that is not linked yet, each at the head of its parent's children.
fn __css_process_update_tree(css: Css, cpu: u32) {
    let mut css = css;
    loop {
        let rstatc = css_rstat_cpu(css, cpu);
        // One that is linked has linked ancestors.
        if !rstatc.updated_next().get().is_null() {
            return;
        }
        let parent = css.parent().get();
        if parent.is_null() {
            rstatc.updated_next().set(css);
            return;
        }
        let prstatc = css_rstat_cpu(parent, cpu);
        rstatc.updated_next().set(prstatc.updated_children().get());
        prstatc.updated_children().set(css);
        css = parent;
    }
}

/// Empties the lockless list of a CPU into its tree: csses of the whole hierarchy, whatever is being flushed.
async fn css_process_update_tree(cpu: u32) {
    kfn!(css_process_update_tree);
    let lhead = ss_lhead_cpu(cpu);
    loop {
        let lnode = Var::<Ptr>::at(lhead.del_first().await);
        if lnode.ptr().is_null() {
            return;
        }
        lnode.write_once(lnode.ptr()).await;
        let rstatc = container_of!(lnode, CssRstatCpu, rstat_cpu_fields::lnode);
        __css_process_update_tree(rstatc.owner().get(), cpu);
    }
}

/// Takes the descendants off the tree, level by level, and pushes them before `head`: the deepest come to be first.
fn css_rstat_push_children(head: Css, child: Css, cpu: u32) -> Css {
    let (mut head, mut cnext, mut ghead) = (head, child, Css::NULL);
    child.rstat_flush_next().set(Css::NULL);
    if !mutated(Mutant::H054) {
        lockdep_assert_held(ss_rstat_lock());
    }
    loop {
        while !cnext.is_null() {
            let mut child = cnext;
            cnext = child.rstat_flush_next().get();
            let parent = child.parent().get();
            while child != parent {
                child.rstat_flush_next().set(head);
                head = child;
                let crstatc = css_rstat_cpu(child, cpu);
                let grandchild = crstatc.updated_children().get();
                if grandchild != child {
                    crstatc.updated_children().set(child);
                    grandchild.rstat_flush_next().set(ghead);
                    ghead = grandchild;
                }
                child = crstatc.updated_next().get();
                crstatc.updated_next().set(Css::NULL);
            }
        }
        if ghead.is_null() {
            return head;
        }
        cnext = std::mem::replace(&mut ghead, Css::NULL);
    }
}

/// Cuts the subtree of `root` out of the tree of a CPU: the list of what is to be flushed, children before their parents.
async fn css_rstat_updated_list(root: Css, cpu: u32) -> Css {
    kfn!(css_rstat_updated_list);
    css_process_update_tree(cpu).await;
    let rstatc = css_rstat_cpu(root, cpu);
    let next = rstatc.updated_next().get();
    if next.is_null() {
        return Css::NULL;
    }
    let parent = root.parent().get();
    if !parent.is_null() {
        let mut nextp = css_rstat_cpu(parent, cpu).updated_children();
        while nextp.get() != root {
            if nextp.get() == parent {
                report("TH-RST-7", format!("{} is linked, and is not among the children of {}", name(root), name(parent)));
                return Css::NULL;
            }
            nextp = css_rstat_cpu(nextp.get(), cpu).updated_next();
        }
        nextp.set(next);
    }
    rstatc.updated_next().set(Css::NULL);
    root.rstat_flush_next().set(Css::NULL);
    let child = rstatc.updated_children().get();
    rstatc.updated_children().set(root);
    if child == root { root } else { css_rstat_push_children(root, child, cpu) }
}

fn name(css: Css) -> String {
    with(|m| m.mem.name(css.ptr()))
}

/// `css_rstat_flush`: everything pending in the subtree of `css`, one possible CPU after the other. Sleeps.
///
/// Between two CPUs the lock is free and readers see a part of it. Yields the number of (css, CPU) pairs that were visited.
pub async fn css_rstat_flush(css: Css) -> u32 {
    kfn!(css_rstat_flush);
    if !css_uses_rstat(css) {
        return 0;
    }
    with(|m| m.might_sleep("css_rstat_flush"));
    emit(Tp::Call, css.ptr(), 0);
    let mut visits = 0;
    let mut whole: Option<SpinGuard> = None;
    for cpu in 0..nr_cpu_ids() {
        let early = if mutated(Mutant::H054) { Some(css_rstat_updated_list(css, cpu).await) } else { None };
        let lock = match whole.take() {
            Some(lock) => lock,
            None => ss_rstat_lock().lock_irq().await,
        };
        let mut pos = match early {
            Some(pos) => pos,
            None => css_rstat_updated_list(css, cpu).await,
        };
        while !pos.is_null() {
            mem_cgroup_css_rstat_flush(pos, cpu).await;
            visits += 1;
            pos = pos.rstat_flush_next().get();
        }
        if mutated(Mutant::H066) {
            whole = Some(lock);
            continue;
        }
        lock.unlock_irq();
        cond_resched().await;
    }
    drop(whole);
    emit(Tp::Return, css.ptr(), u64::from(visits));
    visits
}

/// `css_rstat_init`: nodes that are on no list, if the css has statistics on this machine. Never fails here.
pub fn css_rstat_init(css: Css) {
    kfn!(css_rstat_init);
    if css.subsys() != Subsys::Memory || statistics().is_null() {
        return;
    }
    let rstat_cpu = PerCpu::<CssRstatCpu>::alloc(CssRstatCpu::TYPE);
    css.rstat_cpu().set(rstat_cpu);
    for cpu in 0..nr_cpu_ids() {
        let rstatc = rstat_cpu.cpu(cpu);
        rstatc.owner().set(css);
        rstatc.updated_children().set(css);
        rstatc.lnode().set(rstatc.lnode().ptr());
        rstatc.lnode().weak();
    }
    emit(Tp::Return, css.ptr(), 0);
}

/// `css_rstat_exit`: the last flush of a css that nobody can reach any more, and the end of its nodes.
pub async fn css_rstat_exit(css: Css) {
    kfn!(css_rstat_exit);
    if !css_uses_rstat(css) {
        return;
    }
    if !mutated(Mutant::VRstNoExitFlush) {
        css_rstat_flush(css).await;
    }
    for cpu in 0..nr_cpu_ids() {
        let rstatc = css_rstat_cpu(css, cpu);
        if rstatc.updated_children().get() != css || !rstatc.updated_next().get().is_null() {
            report("TH-RST-7", format!("{} is still linked on CPU {cpu} when it goes", name(css)));
            return;
        }
    }
    emit(Tp::Return, css.ptr(), 0);
    kfree(css.rstat_cpu().get().ptr());
    css.rstat_cpu().set(PerCpu::NULL);
}

/// `ss_rstat_init`: empty lists.
pub fn ss_rstat_init(ss: RstatSubsys) {
    let lhead = PerCpu::<RstatHead>::alloc(RstatHead::TYPE);
    ss.lhead().set(lhead);
    for cpu in 0..nr_cpu_ids() {
        Var::<Ptr>::at(lhead.cpu(cpu).head().ptr()).weak();
    }
}
