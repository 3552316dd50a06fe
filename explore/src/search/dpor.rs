//! Dynamic partial-order reduction: source sets and sleep sets (Optimal Dynamic Partial Order Reduction, POPL 2014).
//!
//! Each step is an event with a vector clock. When an event races with an earlier one, a task that can start the reversal
//! is added to what is tried before the earlier one. Two details come from the machine:
//! * A step's footprint holds the accesses of its operation and of the text up to the next announcement, so it is known
//!   only afterwards; a sleeping task carries the footprint observed when it was run.
//! * Waiting is ordered after the releases that enabled it and independent of all others. A release before an acquisition
//!   of the same lock is ordered but cannot be reversed; the two acquisitions are what races.
//!
//! With a cache, an execution is cut where it reaches a state again; [`summary`](super::summary) says what is looked at instead.
//!
//! May miss executions, and then says so: with preemptible RCU off or with shared CPUs, where a task can become runnable
//! without any access that the footprints show.

use super::summary::{Accesses, Bits, Edge, Summary, merge, releases, takes};
use super::tree::{Footprint, Tree, conflict, normalise};
use crate::schedulers::bits;
use crate::strategy::Strategy;
use crate::trace::WordHash;
use std::collections::HashMap;
use std::rc::Rc;
use wbmodel::sync::{Access, Choice, End, Kind, Machine, Ptr};

/// Dense number of a task, by order of first appearance in the search.
type Tid = usize;

#[derive(Default, Clone)]
struct Ev {
    task: Tid,
    slot: usize,
    footprint: Footprint,
    /// `clock[t] - 1`: last event of task `t` that happens before this one or is this one.
    clock: Vec<u32>,
    /// Tasks that it started.
    children: Bits,
}

fn at(clock: &[u32], t: Tid) -> u32 {
    clock.get(t).copied().unwrap_or(0)
}

fn join(a: &mut Vec<u32>, b: &[u32]) {
    if a.len() < b.len() {
        a.resize(b.len(), 0);
    }
    for (x, y) in a.iter_mut().zip(b) {
        *x = (*x).max(*y);
    }
}

/// How the reversal of two events begins if nothing between them does.
#[derive(Clone, Copy)]
enum Start {
    /// With the later event, of the task in this slot.
    At(usize),
    /// With a step of each of these slots, on one way or another.
    Each(u64),
}

/// An earlier event that conflicts with the one looked at and is not yet known to happen before it.
#[derive(Clone, Copy)]
struct Rival {
    ev: usize,
    cell: Ptr,
    access: Access,
    /// Could go the other way round.
    races: bool,
    /// Made the event looked at possible.
    enables: bool,
}

/// The lock that a step with this footprint had to wait for. A trylock asks first, and waits for nobody.
fn lock_of(footprint: &[(Ptr, Access)]) -> Option<Ptr> {
    let asked = |p: Ptr| footprint.iter().any(|x| x.0 == p && x.1 == Access::Read);
    footprint.iter().find(|x| takes(x.1) && !asked(x.0)).map(|x| x.0)
}

/// A state whose continuations were explored.
struct Seen {
    /// Names of the tasks that slept then.
    slept: Vec<u16>,
    below: Rc<Summary>,
}

/// What is kept about a node of the path.
#[derive(Default)]
struct Mark {
    key: u64,
    slept: Vec<u16>,
    below: Summary,
}

/// States seen, for a search that cuts where it reaches one again.
#[derive(Default)]
struct Cache {
    accesses: Accesses,
    seen: HashMap<u64, Vec<Seen>, WordHash>,
    /// By node.
    marks: Vec<Mark>,
    /// What can happen below the end of the path.
    leaf: Rc<Summary>,
    states: u64,
}

/// Every trace at least once, and hardly any twice; with a cache, every state and every race at least once.
pub struct Dpor {
    tree: Tree,
    events: Vec<Ev>,
    /// Events that are valid: those of the current path.
    len: usize,
    tids: HashMap<u16, Tid, WordHash>,
    /// By task: event that started it.
    born: Vec<usize>,
    /// By cell: accesses in order.
    history: HashMap<Ptr, Vec<(u32, Access)>, WordHash>,
    name: u16,
    exact: bool,
    rivals: Vec<Rival>,
    prior: Vec<u32>,
    cache: Option<Box<Cache>>,
    /// Tasks that the step under way has started.
    children: Bits,
    /// This search has cut the execution under way.
    cut: bool,
}

impl Default for Dpor {
    fn default() -> Self {
        Self::new()
    }
}

impl Dpor {
    /// A search that has not begun.
    pub fn new() -> Dpor {
        Dpor {
            tree: Tree::new(true),
            events: Vec::new(),
            len: 0,
            tids: HashMap::default(),
            born: Vec::new(),
            history: HashMap::default(),
            name: 0,
            exact: true,
            rivals: Vec::new(),
            prior: Vec::new(),
            cache: None,
            children: Bits::default(),
            cut: false,
        }
    }

    /// A search that cuts an execution where it reaches a state again whose continuations were explored with no more tasks
    /// asleep. Two steps whose order makes no difference to what is remembered are then tried in both orders only once.
    pub fn cached() -> Dpor {
        Dpor { cache: Some(Box::default()), ..Dpor::new() }
    }

    fn tid(&mut self, name: u16) -> Tid {
        let n = self.tids.len();
        let t = *self.tids.entry(name).or_insert(n);
        if self.born.len() <= t {
            self.born.resize(t + 1, 0);
        }
        t
    }

    /// Forgets the events from `keep` on.
    fn rewind(&mut self, keep: usize) {
        while self.len > keep {
            self.len -= 1;
            for (p, _) in &self.events[self.len].footprint {
                if let Some(h) = self.history.get_mut(p) {
                    while h.last().is_some_and(|x| x.0 as usize >= self.len) {
                        h.pop();
                    }
                }
            }
        }
    }

    /// First node from which on the task in `slot` could take its next step, which is event `i`.
    fn enabled_since(&self, t: Tid, slot: usize, i: usize) -> usize {
        let from = (at(&self.prior, t) as usize).max(self.born[t]);
        let mut j = i;
        while j > from && self.tree.nodes[j - 1].enabled & (1 << slot) != 0 {
            j -= 1;
        }
        j
    }

    /// Finds what event `i` of task `t` with the given footprint conflicts with; leaves its clock in `clock`.
    fn races(&mut self, i: usize, t: Tid, slot: usize, footprint: &Footprint, clock: &mut Vec<u32>) {
        let mut since = None;
        self.rivals.clear();
        clock.clear();
        clock.extend_from_slice(&self.prior);
        for &(cell, a) in footprint {
            let Some(h) = self.history.get(&cell) else { continue };
            for &(j, b) in h.iter().rev() {
                let ev = &self.events[j as usize];
                if ev.task == t || at(&self.prior, ev.task) > j {
                    continue;
                }
                if a == Access::Await {
                    if b == Access::Release && (j as usize) < *since.get_or_insert_with(|| self.enabled_since(t, slot, i)) {
                        self.rivals.push(Rival { ev: j as usize, cell, access: b, races: false, enables: true });
                    }
                } else if a.conflicts(b) {
                    self.rivals.push(Rival { ev: j as usize, cell, access: b, races: a.races(b), enables: false });
                }
            }
        }
        for r in &self.rivals {
            join(clock, &self.events[r.ev].clock);
        }
        if clock.len() <= t {
            clock.resize(t + 1, 0);
        }
        clock[t] = i as u32 + 1;
    }

    fn before(&self, a: usize, b: usize) -> bool {
        at(&self.events[b].clock, self.events[a].task) as usize > a
    }

    /// Is the race with rival `r` hidden, that is, does something come between the two in every equivalent execution?
    fn hidden(&self, r: Rival) -> bool {
        let locks = matches!(r.access, Access::Acquire | Access::AcquireShared);
        // The section that the rival opened is no obstacle: it is left out when the second acquisition comes first.
        let release = locks.then(|| {
            self.history[&r.cell]
                .iter()
                .find(|x| {
                    x.0 as usize >= r.ev && self.events[x.0 as usize].task == self.events[r.ev].task && matches!(x.1, Access::Release | Access::ReleaseShared)
                })
                .map(|x| x.0 as usize)
        });
        let enabled_by = |k: &Rival| k.enables && (k.ev == r.ev || self.before(r.ev, k.ev));
        self.rivals.iter().any(enabled_by)
            || self.rivals.iter().any(|k| {
                k.ev != r.ev
                    && self.before(r.ev, k.ev)
                    && match release {
                        Some(Some(rel)) => k.ev != rel && !self.before(k.ev, rel),
                        Some(None) => false,
                        None => true,
                    }
            })
    }

    /// Adds to node `e` a task that starts the reversal of event `e` and something that comes later than all events before `i`.
    ///
    /// What comes first in the reversal is sought among the events between the two that do not depend on `e`. Event `i`
    /// itself is no candidate unless there are none: without `e` before it, it may do something else.
    fn reverse(&mut self, e: usize, i: usize, start: Start) {
        let mut firsts: Vec<(Tid, usize)> = Vec::new();
        let mut initials = 0u64;
        for k in e + 1..i {
            let ev = &self.events[k];
            if self.before(e, k) || firsts.iter().any(|f| f.0 == ev.task) {
                continue;
            }
            if firsts.iter().all(|&(u, g)| at(&ev.clock, u) as usize <= g) {
                initials |= 1 << ev.slot;
            }
            firsts.push((ev.task, k));
        }
        if firsts.is_empty() {
            match start {
                Start::At(s) => initials = 1 << s,
                Start::Each(slots) => {
                    let n = &mut self.tree.nodes[e];
                    if slots & !n.enabled == 0 {
                        n.todo |= slots & !n.sleeping();
                        return;
                    }
                }
            }
        }
        let n = &mut self.tree.nodes[e];
        initials &= n.enabled;
        if initials == 0 {
            n.todo |= n.enabled;
        } else if initials & (n.todo | n.sleeping()) == 0 {
            n.todo |= initials & initials.wrapping_neg();
        }
    }

    /// A timer that could have fired before the last step and cannot any more, because it was stopped or the budget is used
    /// up, may never fire: that it fires before that step has to be tried at once. Everything else that another step
    /// disables is a lock, whose acquisitions race when both have happened.
    fn disabled(&mut self, m: &Machine, enabled: u64) {
        if let Some(n) = self.tree.at.checked_sub(1).and_then(|i| self.tree.nodes.get_mut(i)) {
            let lost = n.enabled & !enabled & !(1 << n.slot);
            n.todo |= bits(lost).filter(|&s| m.tasks[s].live && m.tasks[s].pending.kind == Kind::TimerFire).fold(0, |x, s| x | 1 << s);
        }
    }

    /// Does event `e` take the lock `l` (and perhaps release it as well)?
    fn taken_by(&self, e: usize, l: Ptr) -> bool {
        self.events[e].footprint.iter().any(|x| x.0 == l && takes(x.1))
    }

    /// The step at node `i` is given up, or the node is done with: what can happen below becomes known above.
    fn left(&mut self, i: usize, done: bool) {
        let Some(cache) = &mut self.cache else { return };
        if !done {
            // Nothing is known of a step that was never taken.
            let (Some(mark), true) = (cache.marks.get_mut(i), i < self.len) else { return };
            let ev = &self.events[i];
            let edge = Edge::new(&mut cache.accesses, ev.task, &ev.footprint, lock_of(&ev.footprint), ev.children.clone());
            edge.fold(&mut cache.accesses, &cache.leaf, &mut mark.below);
        } else if let Some(mark) = cache.marks.pop() {
            cache.leaf = Rc::new(mark.below);
            cache.states += 1;
            let entry = cache.seen.entry(mark.key).or_default();
            entry.retain(|s| !mark.slept.iter().all(|t| s.slept.contains(t)));
            entry.push(Seen { slept: mark.slept, below: cache.leaf.clone() });
        }
    }

    /// Was the state of the node just grown explored before, with no task asleep that is awake now? Then takes over the races
    /// with what happens below.
    fn reached_again(&mut self, m: &Machine) -> bool {
        let Some(mut cache) = self.cache.take() else { return false };
        let n = &self.tree.nodes[self.tree.nodes.len() - 1];
        let key = crate::trace::mix(m.state_hash(), u64::from(n.faults));
        let mut slept: Vec<u16> = n.sleep.iter().map(|s| m.tasks[s.slot].name.0).collect();
        slept.sort_unstable();
        let below = cache.seen.get(&key).and_then(|e| e.iter().find(|s| s.slept.iter().all(|t| slept.binary_search(t).is_ok()))).map(|s| s.below.clone());
        match &below {
            Some(b) => {
                cache.leaf = b.clone();
                self.races_below(m, &mut cache, b);
            }
            None => cache.marks.push(Mark { key, slept, below: Summary::new() }),
        }
        self.cache = Some(cache);
        below.is_some()
    }

    /// Has every step of the path that races with something below tried the other way round.
    fn races_below(&mut self, m: &Machine, cache: &mut Cache, below: &Summary) {
        let mut last: Vec<Option<usize>> = vec![None; self.tids.len()];
        for (k, ev) in self.events[..self.len].iter().enumerate() {
            last[ev.task] = Some(k);
        }
        // By task; all of them for one that is not there yet.
        let mut slots = vec![u64::MAX; self.tids.len()];
        for (s, t) in m.tasks.iter().enumerate().filter(|x| x.1.live) {
            let Some(&tid) = self.tids.get(&t.name.0) else { continue };
            slots[tid] = 1 << s;
            // A task that has not taken a step yet comes after the one that started it.
            if last[tid].is_none() && self.born[tid] <= self.len {
                last[tid] = self.born[tid].checked_sub(1);
            }
        }
        let mut after: Vec<Option<Vec<u32>>> = vec![None; cache.accesses.list.len()];
        let mut pasts: HashMap<u32, Vec<u32>, WordHash> = HashMap::default();
        let mut clock = Vec::new();
        let mut rivals: Vec<usize> = Vec::new();
        // By access: whether it races with anything above.
        let mut racing: Vec<Option<bool>> = vec![None; cache.accesses.list.len()];
        for item in below {
            let (cell, access) = cache.accesses.list[item.access as usize];
            let races = || self.history.get(&cell).is_some_and(|h| h.iter().any(|x| access.races(x.1)));
            if !*racing[item.access as usize].get_or_insert_with(races) {
                continue;
            }
            let h = &self.history[&cell];
            let past = pasts.entry(item.past).or_insert_with(|| {
                let mut clock = Vec::new();
                for k in cache.accesses.pasts[item.past as usize].tasks.iter().filter_map(|t| last.get(t).copied().flatten()) {
                    join(&mut clock, &self.events[k].clock);
                }
                for a in cache.accesses.pasts[item.past as usize].accesses.iter() {
                    let c = after[a].get_or_insert_with(|| {
                        let mut clock = Vec::new();
                        let (cell, access) = cache.accesses.list[a];
                        for x in self.history.get(&cell).into_iter().flatten().filter(|x| access.conflicts(x.1)) {
                            join(&mut clock, &self.events[x.0 as usize].clock);
                        }
                        clock
                    });
                    join(&mut clock, c);
                }
                clock
            });
            clock.clear();
            clock.extend_from_slice(past);
            if let Some(k) = last.get(item.task as usize).copied().flatten() {
                join(&mut clock, &self.events[k].clock);
            }
            rivals.clear();
            for &(j, b) in h.iter().rev() {
                let ev = &self.events[j as usize];
                if access.races(b) && ev.task != item.task as usize && at(&clock, ev.task) <= j && !rivals.contains(&(j as usize)) {
                    rivals.push(j as usize);
                }
            }
            for &e in &rivals {
                if !rivals.iter().any(|&k| k != e && self.before(e, k)) {
                    // A way that begins with something that comes after the rival is no way round.
                    let after = |t: usize| last.get(t).copied().flatten().is_some_and(|k| k == e || k > e && self.before(e, k));
                    let firsts = cache.accesses.pasts[item.past as usize].firsts.iter().filter(|&t| !after(t));
                    let slots = firsts.fold(0, |all, t| all | slots.get(t).copied().unwrap_or(u64::MAX));
                    if slots != 0 {
                        self.reverse(e, self.len, Start::Each(slots));
                    }
                }
            }
        }
    }

    /// Takes note of an event, or of one that could not happen (`commit` false).
    fn event(&mut self, t: Tid, slot: usize, footprint: Footprint, commit: bool) {
        let i = self.len;
        self.prior.clear();
        if let Some(k) = (0..i).rev().find(|&k| self.events[k].task == t) {
            let c = std::mem::take(&mut self.events[k].clock);
            self.prior.extend_from_slice(&c);
            self.events[k].clock = c;
        }
        let mut clock = if commit && self.events.len() > i { std::mem::take(&mut self.events[i].clock) } else { Vec::new() };
        self.races(i, t, slot, &footprint, &mut clock);
        // What released the lock that the step takes cannot come after it.
        let lock = lock_of(&footprint);
        let released = |r: &Rival| lock.is_some_and(|l| self.events[r.ev].footprint.iter().any(|x| x.0 == l && releases(x.1) && !self.taken_by(r.ev, l)));
        let mut todo: Vec<usize> = self.rivals.iter().filter(|r| r.races && !released(r) && !self.hidden(**r)).map(|r| r.ev).collect();
        todo.sort_unstable();
        todo.dedup();
        for e in todo {
            self.reverse(e, i, Start::At(slot));
        }
        if commit {
            for &(p, a) in &footprint {
                self.history.entry(p).or_default().push((i as u32, a));
            }
            let ev = Ev { task: t, slot, footprint, clock, children: std::mem::take(&mut self.children) };
            if self.events.len() > i {
                self.events[i] = ev;
            } else {
                self.events.push(ev);
            }
            self.len += 1;
        }
    }
}

impl Strategy for Dpor {
    fn begin(&mut self, _: u64) -> bool {
        let mut tree = std::mem::take(&mut self.tree);
        let more = tree.next_path_telling(&mut |i, done| self.left(i, done));
        self.tree = tree;
        self.cut = false;
        if let Some(c) = &mut self.cache {
            c.leaf = Rc::default();
        }
        // The step at the last node is taken anew: another slot, or other answers.
        self.rewind(self.tree.nodes.len().saturating_sub(1));
        more
    }

    fn pick(&mut self, m: &mut Machine, enabled: u64, last: Option<usize>) -> Option<usize> {
        self.exact &= m.config.preempt_rcu && !m.config.shared_cpus;
        let s = match self.tree.follow() {
            Some(s) => s,
            None => {
                self.disabled(m, enabled);
                self.tree.grow(enabled, last);
                let i = self.tree.nodes.len() - 1;
                if let Some(p) = i.checked_sub(1) {
                    let done = &self.events[p].footprint;
                    let (above, here) = self.tree.nodes.split_at_mut(i);
                    let parent = &above[p];
                    here[0].sleep.extend(parent.sleep.iter().filter(|x| x.slot != parent.slot && !conflict(&x.footprint, done)).cloned());
                }
                let awake = enabled & !self.tree.nodes[i].sleeping();
                if awake == 0 || self.reached_again(m) {
                    self.tree.shrink();
                    self.cut = true;
                    return None;
                }
                self.tree.take(match last {
                    Some(l) if awake & (1 << l) != 0 => l,
                    _ => awake.trailing_zeros() as usize,
                })
            }
        };
        // Only new steps are looked at.
        m.mem.footprint_on = self.tree.at > self.len;
        self.name = m.tasks[s].name.0;
        Some(s)
    }

    fn choose(&mut self, m: &Machine, c: Choice) -> u32 {
        self.tree.choose(m, c)
    }

    fn stepped(&mut self, m: &mut Machine, s: usize) {
        if self.tree.at <= self.len {
            return;
        }
        let t = self.tid(self.name);
        let mut footprint = m.mem.footprint.clone();
        normalise(&mut footprint);
        self.tree.nodes[self.tree.at - 1].footprint.extend_from_slice(&footprint);
        self.children = Bits::default();
        for &(p, a) in &footprint {
            // A release of another task's own cell starts that task.
            if let Some(child) = m.task_of_cell(p)
                && a == Access::Release
                && child != self.name
            {
                let c = self.tid(child);
                self.born[c] = self.len + 1;
                self.children.set(c);
            }
        }
        self.event(t, s, footprint, true);
    }

    fn ended(&mut self, m: &mut Machine, end: End) {
        match end {
            End::Fatal => {
                // Nothing can follow: whatever could have come before has to be tried.
                if let Some(n) = self.tree.at.checked_sub(1).and_then(|i| self.tree.nodes.get_mut(i)) {
                    n.todo |= n.enabled;
                    n.fatal = true;
                }
            }
            // One that ends because a task waits for its twin has come to its end.
            _ if !self.cut && end != End::Budget => {
                self.disabled(m, 0);
                // Operations that never became possible race with what made them impossible.
                for s in 0..m.tasks.len() {
                    if !m.tasks[s].live {
                        continue;
                    }
                    let op = m.tasks[s].pending;
                    let footprint = match op.kind {
                        Kind::SpinLock | Kind::MutexLock | Kind::DownWrite => vec![(op.obj, Access::Acquire)],
                        Kind::DownRead => vec![(op.obj, Access::AcquireShared)],
                        Kind::WorkBegin => m.queue_cell(op.obj).into_iter().collect(),
                        _ => continue,
                    };
                    let t = self.tid(m.tasks[s].name.0);
                    if let Some(c) = &mut self.cache {
                        for &(p, a) in &footprint {
                            let want = c.accesses.wanted(t, p, a);
                            merge(&mut c.accesses, Rc::make_mut(&mut c.leaf), vec![want]);
                        }
                    }
                    self.event(t, s, footprint, false);
                }
            }
            _ => {}
        }
    }

    fn needs(&self) -> (bool, bool) {
        (true, self.cache.is_some())
    }

    fn twins(&self) -> bool {
        self.cache.is_some()
    }

    fn covered(&self) -> bool {
        self.exact
    }

    fn states(&self) -> u64 {
        self.cache.as_ref().map_or(0, |c| c.states)
    }
}
