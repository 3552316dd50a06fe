//! What the oracles remember: objects, calls under way, references that tasks hold.
//!
//! Main types: [`Shadow`], [`Wb`], [`Inode`], [`Frame`]. Everything here is derived from committed events and from memory cells.
//! Sets of objects are bit masks over small tables, so that an event costs a few instructions; hashes go by address and task
//! name, never by table position. Tables hold [`MAX`] objects of a kind; more are not watched, and [`Shadow::overflow`] says so.
//! Must not know: any mirrored function beyond its name.

use crate::linux::Globals;
use crate::linux::include::backing_dev_defs::{BackingDevInfo, BdiWriteback};
use crate::linux::include::cgroup_defs::Css;
use crate::linux::include::fs::{Inode as KInode, SuperBlock};
use crate::sync::{ListHead, Machine, NULL, Ptr, TaskName};

/// Objects of one kind that are watched at once.
pub(super) const MAX: usize = 64;

/// A wb, root or not.
#[derive(Clone, Copy, Default)]
pub(super) struct Wb {
    /// Address; null: the entry is free.
    pub p: Ptr,
    pub bdi: Ptr,
    pub root: bool,
    /// memcg css, known from publication on.
    pub memcg: Ptr,
    /// blkcg css, known from publication on.
    pub blkcg: Ptr,
    /// memcg css id.
    pub key: u32,
    /// Count by events.
    pub count: i64,
    pub init: bool,
    pub published: bool,
    /// DEAD was stored.
    pub dead: bool,
    /// The counters were folded.
    pub folded: bool,
    /// The grace period of the kill is over.
    pub gp_over: bool,
    /// Runs of the release callback.
    pub released: u8,
    /// Release work returned.
    pub release_done: bool,
    /// Another wb of the same key was published later.
    pub superseded: bool,
    /// WB_has_dirty_io when list_lock was last released.
    pub dirty: bool,
    /// The bit was set by the end of somebody's writeback, and the flusher was not woken since.
    pub silent: bool,
    /// Removed from wb_list by wb_shutdown.
    pub unlisted: bool,
    /// Release work (or a mutant) put the memcg css.
    pub memcg_put: bool,
    pub blkcg_put: bool,
    pub pin_put: bool,
    pub bdi_put: bool,
}

impl Wb {
    pub fn k(&self) -> BdiWriteback {
        BdiWriteback(self.p)
    }
    pub fn live(&self) -> bool {
        self.published && !self.dead
    }
    fn bits(&self) -> u64 {
        let b = [
            self.root,
            self.init,
            self.published,
            self.dead,
            self.folded,
            self.gp_over,
            self.release_done,
            self.superseded,
            self.dirty,
            self.silent,
            self.unlisted,
            self.memcg_put,
            self.blkcg_put,
            self.pin_put,
            self.bdi_put,
        ];
        b.iter().fold(u64::from(self.released), |h, &x| h << 1 | u64::from(x))
    }
}

/// An inode.
#[derive(Clone, Copy, Default)]
pub(super) struct Inode {
    /// Address; null: the entry is free.
    pub p: Ptr,
    /// wb it is attached to.
    pub wb: Ptr,
    /// I_WB_SWITCH was seen set.
    pub switching: bool,
    /// Context that has it as an unprocessed entry.
    pub isw: Ptr,
    /// It was switched while I_SYNC was set, so that I_SYNC_QUEUED says nothing any more (OBS-7).
    pub moved_in_sync: bool,
    /// Seen on b_io or b_more_io when list_lock was last released.
    pub queued: bool,
    /// A cleaner run that began since has to get rid of it.
    pub cleanable: bool,
}

impl Inode {
    pub fn k(&self) -> KInode {
        KInode(self.p)
    }
}

/// A css that is not root, or a root css.
#[derive(Clone, Copy, Default)]
pub(super) struct CssS {
    /// Address; null: the entry is free.
    pub p: Ptr,
    pub memory: bool,
    /// Life-cycle steps seen.
    pub step: u8,
    /// Its list of wbs was seen closed.
    pub closed: bool,
    /// It was online at some time.
    pub onlined: bool,
}

impl CssS {
    pub fn k(&self) -> Css {
        Css(self.p)
    }
}

/// A bdi.
#[derive(Clone, Copy, Default)]
pub(super) struct Bdi {
    /// Address; null: the entry is free.
    pub p: Ptr,
    /// Was registered at some time.
    pub was_registered: bool,
    /// The kill loop of its unregister is over.
    pub kill_loop_done: bool,
}

impl Bdi {
    pub fn k(&self) -> BackingDevInfo {
        BackingDevInfo(self.p)
    }
}

/// A switch context.
#[derive(Clone, Copy, Default)]
pub(super) struct Isw {
    pub p: Ptr,
    /// Destination once queued.
    pub dest: Ptr,
}

/// A queued work.
#[derive(Clone, Copy, Default)]
pub(super) struct Work {
    pub p: Ptr,
    pub wb: Ptr,
    pub done: Ptr,
}

/// Traced functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Fun {
    Other,
    Lookup,
    GetCreate,
    GetCreateCurrent,
    Create,
    Kill,
    ReleaseCb,
    Release,
    Shutdown,
    BdiUnregister,
    CgwbBdiUnregister,
    ShutdownSuper,
    Umount,
    SyncInodes,
    WaitSb,
    Process,
    DoSwitch,
    Cleanup,
    ById,
    FlushForeign,
    QueueWork,
    FinishWork,
    WaitCompletion,
    Attach,
    Evict,
    WbcAttach,
    SwitchWbs,
    Writeback,
}

impl Fun {
    pub fn named(name: &str) -> Fun {
        match name {
            "wb_get_lookup" => Fun::Lookup,
            "wb_get_create" => Fun::GetCreate,
            "wb_get_create_current" => Fun::GetCreateCurrent,
            "cgwb_create" => Fun::Create,
            "cgwb_kill" => Fun::Kill,
            "cgwb_release" => Fun::ReleaseCb,
            "cgwb_release_workfn" => Fun::Release,
            "wb_shutdown" => Fun::Shutdown,
            "bdi_unregister" => Fun::BdiUnregister,
            "cgwb_bdi_unregister" => Fun::CgwbBdiUnregister,
            "generic_shutdown_super" => Fun::ShutdownSuper,
            "cgroup_writeback_umount" => Fun::Umount,
            "sync_inodes_sb" => Fun::SyncInodes,
            "wait_sb_inodes" => Fun::WaitSb,
            "process_inode_switch_wbs" => Fun::Process,
            "inode_do_switch_wbs" => Fun::DoSwitch,
            "cleanup_offline_cgwb" => Fun::Cleanup,
            "cgroup_writeback_by_id" => Fun::ById,
            "mem_cgroup_flush_foreign" => Fun::FlushForeign,
            "wb_queue_work" => Fun::QueueWork,
            "finish_writeback_work" => Fun::FinishWork,
            "wb_wait_for_completion" => Fun::WaitCompletion,
            "__inode_attach_wb" => Fun::Attach,
            "evict" => Fun::Evict,
            "wbc_attach_and_unlock_inode" => Fun::WbcAttach,
            "inode_switch_wbs" => Fun::SwitchWbs,
            "wb_writeback" => Fun::Writeback,
            _ => Fun::Other,
        }
    }
    /// Functions that emit a call but no return.
    pub fn call_only(self) -> bool {
        matches!(self, Fun::Kill | Fun::ReleaseCb | Fun::FlushForeign | Fun::QueueWork | Fun::FinishWork | Fun::SwitchWbs)
    }
}

/// A call under way, with what held when it began. Masks are over the tables of [`Shadow`].
#[derive(Clone, Copy)]
pub(super) struct Frame {
    pub fun: Fun,
    pub obj: Ptr,
    pub arg: u64,
    /// wbs dead when it began.
    pub dead: u64,
    /// wbs whose kill's grace period was over when it began.
    pub folded: u64,
    /// wbs published, with count above zero, when it began.
    pub held: u64,
    /// wbs with dirty io when it began.
    pub dirty: u64,
    /// Csses that were the effective blkcg at some instant of it.
    pub eff: u64,
    /// The gate was closed when it began.
    pub closed: bool,
    /// A choice in it was answered otherwise than 0 (an allocation failed).
    pub failed: bool,
    /// Rounds of cgwb_create.
    pub rounds: u32,
    /// Payments for extra rounds.
    pub paid: u32,
    /// Inodes that sync must still write; inodes being attached.
    pub inodes: u64,
    /// bdi and css of a lookup by id; wb published by a creation.
    pub bdi: Ptr,
    pub css: Ptr,
    /// Changes made by this task to the memcg css, blkcg css, online pin and bdi references.
    pub moved: [i32; 4],
    /// wbs with dirty pages when it began.
    pub paged: u64,
    /// wbs that got work for at least one page.
    pub fed: u64,
    /// Function-specific.
    pub flag: bool,
    /// Reference counts dropped and switch counts dropped by the switch worker.
    pub drops: [u32; 2],
}

impl Frame {
    pub const EMPTY: Frame = Frame {
        fun: Fun::Other,
        obj: NULL,
        arg: 0,
        dead: 0,
        folded: 0,
        held: 0,
        dirty: 0,
        eff: 0,
        closed: false,
        failed: false,
        rounds: 0,
        paid: 0,
        inodes: 0,
        bdi: NULL,
        css: NULL,
        moved: [0; 4],
        paged: 0,
        fed: 0,
        flag: false,
        drops: [0; 2],
    };
}

/// What is remembered about the task in a slot.
#[derive(Default)]
pub(super) struct Slot {
    pub name: TaskName,
    pub frames: Vec<Frame>,
    /// References on wbs that the task holds: (index, number).
    pub holds: Vec<(u8, i32)>,
    /// Inodes with I_WB_SWITCH when its last grace period began, and when the last one that ended began.
    pub gp_begun: u64,
    pub gp_ended: u64,
    /// wb that it is killing: references of the csses must not move until it leaves cgwb_lock.
    pub killing: Ptr,
}

impl Clone for Slot {
    fn clone(&self) -> Slot {
        Slot { frames: self.frames.clone(), holds: self.holds.clone(), ..*self }
    }
    fn clone_from(&mut self, from: &Slot) {
        let (mut frames, mut holds) = (std::mem::take(&mut self.frames), std::mem::take(&mut self.holds));
        frames.clone_from(&from.frames);
        holds.clone_from(&from.holds);
        *self = Slot { frames, holds, ..*from };
    }
}

/// All of it.
pub(super) struct Shadow {
    pub g: Globals,
    pub wbs: Vec<Wb>,
    pub inodes: Vec<Inode>,
    pub csses: Vec<CssS>,
    pub bdis: Vec<Bdi>,
    pub sbs: Vec<Ptr>,
    pub isws: Vec<Isw>,
    pub works: Vec<Work>,
    pub slots: Vec<Slot>,
    /// Slot and name of the task of the last event.
    pub last: usize,
    pub last_name: TaskName,
    /// Memory css by id as last seen, then io.
    pub ids: [[Ptr; crate::linux::MAX_CSS_ID as usize]; 2],
    /// Fingerprint of trees and wb_lists when cgwb_lock was last released; none when a bdi came or went since.
    pub tree_print: Option<u64>,
    /// Frames under way that a change of the effective blkcg concerns.
    pub creating: u32,
    /// A cleaner run is under way.
    pub cleaner: bool,
    /// An object could not be watched.
    pub overflow: bool,
}

pub(super) fn mix(a: u64, b: u64) -> u64 {
    let x = (a ^ b.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (x ^ x >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ x >> 32
}

/// Iterates over the positions of the bits of a mask.
pub(super) fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (mask != 0).then(|| {
            let i = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            i
        })
    })
}

/// A word that holds an address.
#[inline]
pub(super) fn ptr_at(m: &Machine, p: Ptr) -> Ptr {
    Ptr::from_word(m.mem.peek(p))
}

/// Is the entry on a list, by its own pointers and its neighbours'?
pub(super) fn linked(m: &Machine, e: ListHead) -> bool {
    let (next, prev) = (ptr_at(m, e.ptr()), ptr_at(m, e.ptr().add(1)));
    next != e.ptr() && !next.is_null() && m.mem.live(next) && ptr_at(m, next.add(1)) == e.ptr() && ptr_at(m, prev) == e.ptr()
}

/// Entries of a list from memory, first to last; ends early on a list that is not well formed.
pub(super) fn entries(m: &Machine, head: ListHead) -> impl Iterator<Item = Ptr> + '_ {
    let mut at = ptr_at(m, head.ptr());
    let mut left = 1000;
    std::iter::from_fn(move || {
        if at == head.ptr() || at.is_null() || left == 0 || !m.mem.live(at) {
            return None;
        }
        left -= 1;
        let e = at;
        at = ptr_at(m, at);
        Some(e)
    })
}

/// An empty list head, or one that was never initialised.
pub(super) fn empty(m: &Machine, head: ListHead) -> bool {
    let n = ptr_at(m, head.ptr());
    n == head.ptr() || n.is_null()
}

fn place<T: Copy>(v: &mut Vec<T>, x: T, vacant: impl Fn(&T) -> bool) -> bool {
    if let Some(e) = v.iter_mut().find(|e| vacant(e)) {
        *e = x;
        return true;
    }
    let ok = v.len() < MAX;
    if ok {
        v.push(x);
    }
    ok
}

impl Clone for Shadow {
    fn clone(&self) -> Shadow {
        let mut s = Shadow::new(self.g);
        s.clone_from(self);
        s
    }
    /// Keeps its own storage.
    fn clone_from(&mut self, from: &Shadow) {
        let mut old = std::mem::replace(
            self,
            Shadow {
                wbs: Vec::new(),
                inodes: Vec::new(),
                csses: Vec::new(),
                bdis: Vec::new(),
                sbs: Vec::new(),
                isws: Vec::new(),
                works: Vec::new(),
                slots: Vec::new(),
                ..*from
            },
        );
        macro_rules! keep {
            ($($table:ident)*) => {$(
                old.$table.clone_from(&from.$table);
                self.$table = old.$table;
            )*};
        }
        keep!(wbs inodes csses bdis sbs isws works);
        old.slots.resize_with(old.slots.len().max(from.slots.len()), Slot::default);
        for (i, s) in old.slots.iter_mut().enumerate() {
            match from.slots.get(i) {
                Some(x) => s.clone_from(x),
                None => s.clone_from(&Slot::default()),
            }
        }
        self.slots = old.slots;
    }
}

impl Shadow {
    pub fn new(g: Globals) -> Shadow {
        Shadow {
            g,
            wbs: Vec::with_capacity(8),
            inodes: Vec::with_capacity(8),
            csses: Vec::with_capacity(8),
            bdis: Vec::with_capacity(2),
            sbs: Vec::with_capacity(2),
            isws: Vec::with_capacity(4),
            works: Vec::with_capacity(4),
            slots: Vec::with_capacity(8),
            last: 0,
            last_name: TaskName(0),
            ids: [[NULL; crate::linux::MAX_CSS_ID as usize]; 2],
            tree_print: None,
            creating: 0,
            cleaner: false,
            overflow: false,
        }
    }

    /// An object came into being.
    pub fn born(&mut self, label: &str, p: Ptr) {
        let ok = match label {
            "wb" => place(&mut self.wbs, Wb { p, ..Wb::default() }, |x| x.p.is_null()),
            "bdi" => {
                self.tree_print = None;
                let r = BackingDevInfo(p).wb().ptr();
                place(&mut self.bdis, Bdi { p, ..Bdi::default() }, |x| x.p.is_null())
                    && place(&mut self.wbs, Wb { p: r, bdi: p, root: true, ..Wb::default() }, |x| x.p.is_null())
            }
            "inode" => place(&mut self.inodes, Inode { p, ..Inode::default() }, |x| x.p.is_null()),
            "memcg" => place(&mut self.csses, CssS { p, memory: true, ..CssS::default() }, |x| x.p.is_null()),
            "blkcg" => place(&mut self.csses, CssS { p, memory: false, ..CssS::default() }, |x| x.p.is_null()),
            "sb" => place(&mut self.sbs, p, |x| x.is_null()),
            "isw" => place(&mut self.isws, Isw { p, dest: NULL }, |x| x.p.is_null()),
            _ => true,
        };
        self.overflow |= !ok;
    }

    /// It was freed: its table entry and its bit in every mask go.
    pub fn died(&mut self, label: &str, p: Ptr) {
        match label {
            "wb" => self.forget_wb(p),
            "bdi" => {
                self.tree_print = None;
                self.forget_wb(BackingDevInfo(p).wb().ptr());
                self.bdis.iter_mut().filter(|x| x.p == p).for_each(|x| *x = Bdi::default());
            }
            "inode" => {
                if let Some(i) = self.inode(p) {
                    self.inodes[i] = Inode::default();
                    self.each_frame(|f| f.inodes &= !(1 << i));
                    for s in &mut self.slots {
                        s.gp_begun &= !(1 << i);
                        s.gp_ended &= !(1 << i);
                    }
                }
            }
            "memcg" | "blkcg" => {
                if let Some(i) = self.css(p) {
                    self.csses[i] = CssS::default();
                    self.each_frame(|f| f.eff &= !(1 << i));
                }
            }
            "sb" => self.sbs.iter_mut().filter(|x| **x == p).for_each(|x| *x = NULL),
            "isw" => self.isws.iter_mut().filter(|x| x.p == p).for_each(|x| *x = Isw::default()),
            _ => {}
        }
    }

    fn forget_wb(&mut self, p: Ptr) {
        let Some(i) = self.wb(p) else { return };
        self.wbs[i] = Wb::default();
        let keep = !(1 << i);
        self.each_frame(|f| {
            f.dead &= keep;
            f.folded &= keep;
            f.held &= keep;
            f.dirty &= keep;
            f.paged &= keep;
            f.fed &= keep;
        });
        for s in &mut self.slots {
            s.holds.retain(|h| h.0 as usize != i);
        }
    }

    fn each_frame(&mut self, mut f: impl FnMut(&mut Frame)) {
        self.slots.iter_mut().flat_map(|s| s.frames.iter_mut()).for_each(&mut f);
    }

    /// Index of a wb.
    #[inline]
    pub fn wb(&self, p: Ptr) -> Option<usize> {
        self.wbs.iter().position(|x| x.p == p && !p.is_null())
    }
    /// Index of an inode.
    #[inline]
    pub fn inode(&self, p: Ptr) -> Option<usize> {
        self.inodes.iter().position(|x| x.p == p && !p.is_null())
    }
    /// Index of a css.
    #[inline]
    pub fn css(&self, p: Ptr) -> Option<usize> {
        self.csses.iter().position(|x| x.p == p && !p.is_null())
    }
    /// Index of a bdi.
    #[inline]
    pub fn bdi(&self, p: Ptr) -> Option<usize> {
        self.bdis.iter().position(|x| x.p == p && !p.is_null())
    }
    /// Mask of the wbs that satisfy a condition.
    pub fn wbs_where(&self, f: impl Fn(&Wb) -> bool) -> u64 {
        self.wbs.iter().enumerate().filter(|(_, w)| !w.p.is_null() && f(w)).fold(0, |a, (i, _)| a | 1 << i)
    }
    /// Existing entries.
    pub fn each_inode(&self) -> impl Iterator<Item = (usize, &Inode)> {
        self.inodes.iter().enumerate().filter(|x| !x.1.p.is_null())
    }
    /// Objects that existed before anybody watched: as they are, whatever led there.
    pub fn take_over(&mut self, m: &Machine) {
        for w in self.wbs.iter_mut().filter(|w| !w.p.is_null() && !w.root) {
            if let Some(c) = w.k().refcnt().peek_count(m) {
                (w.init, w.count) = (true, c);
                (w.dead, w.folded) = (w.k().refcnt().peek_dead(m), w.k().refcnt().peek_folded(m));
                w.gp_over = w.folded;
            }
        }
        for i in self.inodes.iter_mut().filter(|i| !i.p.is_null()) {
            i.wb = ptr_at(m, i.k().i_wb().ptr());
        }
    }
    /// The task `name` runs in slot `s` now.
    pub fn enter(&mut self, s: usize, name: TaskName) {
        (self.last, self.last_name) = (s, name);
        if self.slots.len() <= s {
            self.slots.resize_with(s + 1, Slot::default);
        }
        if self.slots[s].name != name {
            self.clear_slot(s);
            self.slots[s].name = name;
        }
    }
    /// Forgets what the task in slot `s` was doing.
    pub fn clear_slot(&mut self, s: usize) {
        let Some(x) = self.slots.get_mut(s) else { return };
        let (mut frames, mut holds) = (std::mem::take(&mut x.frames), std::mem::take(&mut x.holds));
        let creations = frames.iter().filter(|f| matches!(f.fun, Fun::GetCreate | Fun::GetCreateCurrent)).count() as u32;
        self.creating = self.creating.saturating_sub(creations);
        frames.clear();
        holds.clear();
        *x = Slot { frames, holds, ..Slot::default() };
    }
    /// The slot of the running task.
    pub fn slot(&mut self, m: &Machine) -> &mut Slot {
        self.enter(m.current, m.tasks[m.current].name);
        &mut self.slots[m.current]
    }
    /// Innermost call of `fun` under way in the task of slot `s`.
    pub fn frame(&mut self, s: usize, fun: Fun) -> Option<&mut Frame> {
        self.slots.get_mut(s)?.frames.iter_mut().rev().find(|f| f.fun == fun)
    }
    /// A call of `fun` under way in any task for which the condition holds.
    pub fn any_frame(&self, fun: Fun, cond: impl Fn(&Frame) -> bool) -> bool {
        self.slots.iter().flat_map(|s| &s.frames).any(|f| f.fun == fun && cond(f))
    }
    /// The task of slot `s` gains references on a wb.
    pub fn hold(&mut self, s: usize, wb: usize, n: i32) {
        if self.slots.len() <= s {
            self.slots.resize_with(s + 1, Slot::default);
        }
        let holds = &mut self.slots[s].holds;
        match holds.iter_mut().find(|h| h.0 as usize == wb) {
            Some(h) => h.1 += n,
            None => holds.push((wb as u8, n)),
        }
        holds.retain(|h| h.1 != 0);
    }

    /// Hash of everything that a later verdict depends on, by addresses and task names.
    pub fn hash(&self) -> u64 {
        let wbset = |mask: u64| bits(mask).fold(0u64, |h, i| h.wrapping_add(mix(u64::from(self.wbs[i].p.0), 1)));
        let inoset = |mask: u64| bits(mask).fold(0u64, |h, i| h.wrapping_add(mix(u64::from(self.inodes[i].p.0), 2)));
        let cssset = |mask: u64| bits(mask).fold(0u64, |h, i| h.wrapping_add(mix(u64::from(self.csses[i].p.0), 3)));
        let mut h = u64::from(self.cleaner);
        for w in self.wbs.iter().filter(|w| !w.p.is_null()) {
            h = h.wrapping_add(mix(mix(u64::from(w.p.0), w.bits()), w.count as u64));
        }
        for i in self.inodes.iter().filter(|i| !i.p.is_null()) {
            let f = u64::from(i.switching) | u64::from(i.moved_in_sync) << 1 | u64::from(i.cleanable) << 2 | u64::from(i.queued) << 3;
            h = h.wrapping_add(mix(mix(u64::from(i.p.0), u64::from(i.wb.0)), mix(u64::from(i.isw.0), f)));
        }
        for c in self.csses.iter().filter(|c| !c.p.is_null()) {
            h = h.wrapping_add(mix(u64::from(c.p.0), u64::from(c.step) << 8 | u64::from(c.onlined) << 7 | u64::from(c.closed) << 6 | 4));
        }
        for b in self.bdis.iter().filter(|b| !b.p.is_null()) {
            h = h.wrapping_add(mix(u64::from(b.p.0), u64::from(b.was_registered) | u64::from(b.kill_loop_done) << 1 | 32));
        }
        for i in self.isws.iter().filter(|i| !i.p.is_null()) {
            h = h.wrapping_add(mix(u64::from(i.p.0), u64::from(i.dest.0) << 8 | 5));
        }
        for w in self.works.iter().filter(|w| !w.p.is_null()) {
            h = h.wrapping_add(mix(mix(u64::from(w.p.0), u64::from(w.wb.0)), u64::from(w.done.0) << 8 | 6));
        }
        for ids in &self.ids {
            for (k, p) in ids.iter().enumerate().filter(|x| !x.1.is_null()) {
                h = h.wrapping_add(mix(u64::from(p.0), (k as u64) << 8 | 7));
            }
        }
        for s in &self.slots {
            let mut x = u64::from(s.name.0);
            for (i, n) in &s.holds {
                x = x.wrapping_add(mix(u64::from(self.wbs[*i as usize].p.0), *n as u64));
            }
            for f in &s.frames {
                x = mix(x, u64::from(f.obj.0) | (f.fun as u64) << 32 | u64::from(f.closed) << 40 | u64::from(f.failed) << 41 | u64::from(f.flag) << 42);
                x = mix(x, mix(f.arg, u64::from(f.bdi.0)) ^ u64::from(f.css.0));
                x = mix(x, mix(wbset(f.dead), wbset(f.folded)) ^ mix(wbset(f.held), wbset(f.dirty)));
                x = mix(x, mix(wbset(f.fed) ^ wbset(f.paged).rotate_left(7), inoset(f.inodes)) ^ cssset(f.eff));
                x = mix(x, u64::from(f.rounds) << 32 | u64::from(f.paid));
                x = mix(x, mix(f.moved.iter().fold(0, |a, &d| a << 8 | u64::from(d as u8)), u64::from(f.drops[0]) << 32 | u64::from(f.drops[1])));
            }
            x = mix(x, mix(inoset(s.gp_begun), inoset(s.gp_ended)) ^ u64::from(s.killing.0));
            if x != u64::from(s.name.0) {
                h = h.wrapping_add(mix(x, 8));
            }
        }
        h
    }
}

/// A cell of a superblock.
pub(super) fn sb(p: Ptr) -> SuperBlock {
    SuperBlock(p)
}
