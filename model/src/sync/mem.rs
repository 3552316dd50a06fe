//! A flat, checked memory of 64-bit cells.
//!
//! Main types: [`Ptr`] (address), [`Memory`], [`TypeInfo`]. An address is `region << 16 | offset`; the region belongs to
//! the task that allocated, named the same way in every execution, so equal states have equal addresses.
//! Nothing is reused inside an execution: an access to a freed cell is always seen. Reuse of *ids* is modelled above.

use super::event::{Tp, fatal_in};
use super::machine::{Machine, with};
use super::op::Kind;
use std::panic::Location;

/// Address of a cell; 0 is the null pointer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Ptr(pub u32);

/// The null pointer.
pub const NULL: Ptr = Ptr(0);

#[allow(clippy::should_implement_trait, reason = "as the methods of raw pointers are called")]
impl Ptr {
    /// True for the null pointer.
    #[inline]
    pub fn is_null(self) -> bool {
        self.0 == 0
    }
    /// The address `n` cells further on.
    #[inline]
    pub fn add(self, n: u32) -> Ptr {
        Ptr(self.0 + n)
    }
    /// The address `n` cells before (`container_of`).
    #[inline]
    pub fn sub(self, n: u32) -> Ptr {
        Ptr(self.0 - n)
    }
    #[inline]
    fn region(self) -> usize {
        (self.0 >> 16) as usize
    }
    #[inline]
    fn offset(self) -> usize {
        (self.0 & 0xffff) as usize
    }
    /// Address from a cell value.
    #[inline]
    pub fn from_word(w: u64) -> Ptr {
        Ptr(w as u32)
    }
}

/// One field of a kernel struct, for names in traces.
#[derive(Debug)]
pub struct FieldInfo {
    /// Kernel field name.
    pub name: &'static str,
    /// First cell, counted from the start of the struct.
    pub off: u32,
    /// Number of cells.
    pub cells: u32,
    /// Fields of an embedded struct.
    pub inner: Option<&'static TypeInfo>,
}

/// A kernel struct type.
#[derive(Debug)]
pub struct TypeInfo {
    /// Short name used in traces: objects print as `label#n`.
    pub label: &'static str,
    /// Id of the invariant that an access after free breaks.
    pub mem_rule: &'static str,
    /// Size in cells.
    pub cells: u32,
    /// Fields in order.
    pub fields: &'static [FieldInfo],
}

impl TypeInfo {
    /// The field at an offset, through embedded structs: `.refcnt.count`.
    fn path(&self, off: u32) -> String {
        let Some(f) = self.fields.iter().find(|f| off >= f.off && off < f.off + f.cells) else { return format!("+{off}") };
        let rest = off - f.off;
        match f.inner {
            Some(t) if rest > 0 || t.cells == 1 => format!(".{}{}", f.name, t.path(rest)),
            _ if rest > 0 => format!(".{}+{rest}", f.name),
            _ => format!(".{}", f.name),
        }
    }
}

/// A value that occupies cells inside a kernel struct.
pub trait Field: Copy {
    /// Cells occupied.
    const CELLS: u32;
    /// Its own fields, for names in traces.
    const INNER: Option<&'static TypeInfo> = None;
    /// The view of the field at address `p`.
    fn at(p: Ptr) -> Self;
}

/// Whether an allocation may sleep (`GFP_KERNEL`) or not; both may fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gfp {
    /// May sleep; fails only where the case asks for it.
    Kernel,
    /// Must not sleep.
    Atomic,
}

/// One allocation.
#[derive(Clone, Copy, Debug)]
pub struct AllocInfo {
    /// First cell.
    pub base: Ptr,
    /// Its type.
    pub ty: &'static TypeInfo,
    /// Size in cells: that of the type, or of several in a row.
    pub cells: u32,
    /// Ordinal among the allocations of this type in this execution, from 1.
    pub nr: u32,
    /// Event index at which it was freed; `u32::MAX` while live.
    pub freed: u32,
    /// A leak of it at the end is not an error (statics, objects owned by the case).
    pub immortal: bool,
}

#[derive(Clone, Copy)]
struct Cell {
    val: u64,
    /// Index of the event that wrote the value (0: initial).
    wr: u32,
    /// Index of the allocation, with [`FREED`] once freed, [`WEAK`] if declared weak, and its [`Mark`]s.
    alloc: u32,
}

const FREED: u32 = 1 << 31;
const WEAK: u32 = 1 << 30;
/// Bits of [`Cell::alloc`] that are the index.
const INDEX: u32 = (1 << 27) - 1;

/// Kinds of cells whose writes somebody wants to hear of: see [`Memory::mark`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mark(u32);

impl Mark {
    /// Kind number `k`, below 3.
    pub const fn new(k: u32) -> Mark {
        assert!(k < 3);
        Mark(1 << (27 + k))
    }
}

/// Kind of access in the footprint of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Access {
    /// Reads the cell; on a lock: asks whether it is held exclusively.
    Read,
    /// Changes the cell.
    Write,
    /// Changes the cell in a way that commutes with its like (one bit of a set, one reader among several).
    Commute,
    /// Takes a lock exclusively.
    Acquire,
    /// Releases it, or enables what awaits the cell.
    Release,
    /// Takes a lock together with others.
    AcquireShared,
    /// Releases it.
    ReleaseShared,
    /// Waits until a release has happened: ordered after the releases that enabled it, and independent of all others.
    Await,
}

impl Access {
    /// All kinds, in the order of their discriminants.
    pub const ALL: [Access; 8] = {
        use Access::*;
        [Read, Write, Commute, Acquire, Release, AcquireShared, ReleaseShared, Await]
    };

    /// Do two accesses of one cell by different tasks have an order that matters? What enables an `Await` is not covered here.
    #[inline]
    pub fn conflicts(self, other: Access) -> bool {
        const READ: u8 = 1;
        const WRITE: u8 = 1 << 1;
        const COMMUTE: u8 = 1 << 2;
        const ACQUIRE: u8 = 1 << 3;
        const RELEASE: u8 = 1 << 4;
        const SHARED: u8 = 1 << 5 | 1 << 6;
        const OF: [u8; 8] = [
            WRITE | COMMUTE | ACQUIRE | RELEASE,
            READ | WRITE | COMMUTE | ACQUIRE | RELEASE | SHARED,
            READ | WRITE | ACQUIRE | RELEASE | SHARED,
            READ | WRITE | COMMUTE | ACQUIRE | RELEASE | SHARED,
            READ | WRITE | COMMUTE | ACQUIRE | 1 << 5,
            WRITE | COMMUTE | ACQUIRE | RELEASE,
            WRITE | COMMUTE | ACQUIRE,
            0,
        ];
        OF[self as usize] & (1 << other as u8) != 0
    }

    /// Could the two have happened in the other order, so that a search has to try it? Not so for a release and the acquisition after it.
    #[inline]
    pub fn races(self, other: Access) -> bool {
        use Access::*;
        self.conflicts(other)
            && !matches!(
                (self, other),
                (Acquire | AcquireShared, Release) | (Release, Acquire | AcquireShared) | (Acquire, ReleaseShared) | (ReleaseShared, Acquire)
            )
    }
}

/// The cells of one execution.
#[derive(Clone)]
pub struct Memory {
    regions: Vec<Vec<Cell>>,
    allocs: Vec<AllocInfo>,
    /// Per-type counters for names, by label: a type's description may have more than one address.
    counts: Vec<(&'static str, u32)>,
    hash: u64,
    /// Union of what is in [`Cell::alloc`] of the cells written since; only [`Mark`]s are looked at.
    news: u32,
    /// Footprint of the step under way: (cell, access).
    pub footprint: Vec<(Ptr, Access)>,
    /// Whether footprints are collected.
    pub footprint_on: bool,
    /// Whether [`Memory::hash`] follows writes; on after each reset.
    pub hash_on: bool,
}

/// Mixes an address and a value (splitmix-style finaliser).
#[inline]
pub(super) fn mix(a: u64, b: u64) -> u64 {
    let mut x = a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b.wrapping_add(0x2545_f491_4f6c_dd1d);
    x ^= x >> 30;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 27;
    x = x.wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Memory {
    pub(super) fn new() -> Self {
        let mut m =
            Memory { regions: Vec::new(), allocs: Vec::new(), counts: Vec::new(), hash: 0, news: 0, footprint: Vec::new(), footprint_on: false, hash_on: true };
        m.reset();
        m
    }

    pub(super) fn reset(&mut self) {
        for r in &mut self.regions {
            r.clear();
        }
        self.allocs.clear();
        self.counts.clear();
        self.hash = 0;
        self.news = 0;
        self.hash_on = true;
        self.footprint.clear();
    }

    /// Becomes the same as `from`, in its own storage; what is recorded stays.
    pub(super) fn restore(&mut self, from: &Memory) {
        if self.regions.len() < from.regions.len() {
            self.regions.resize_with(from.regions.len(), Vec::new);
        }
        for (k, r) in self.regions.iter_mut().enumerate() {
            r.clear();
            if let Some(old) = from.regions.get(k) {
                r.extend_from_slice(old);
            }
        }
        self.allocs.clone_from(&from.allocs);
        self.counts.clone_from(&from.counts);
        self.hash = from.hash;
        self.news = from.news;
        self.hash_on = true;
        self.footprint.clear();
    }

    /// Hash of all live cells, kept up to date on each write; equal for equal memory contents whatever the schedule.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// All allocations so far, in order.
    pub fn allocs(&self) -> &[AllocInfo] {
        &self.allocs
    }

    /// Has the region room for so many cells more?
    pub(super) fn fits(&self, region: usize, cells: u32) -> bool {
        self.regions.get(region).map_or(1, Vec::len).max(1) + (cells as usize) < 0x10000
    }

    pub(super) fn alloc(&mut self, region: usize, ty: &'static TypeInfo, cells: u32) -> Ptr {
        if self.regions.len() <= region {
            self.regions.resize_with(region + 1, Vec::new);
        }
        let id = self.allocs.len() as u32;
        let r = &mut self.regions[region];
        if r.is_empty() {
            // Offset 0 is never handed out, so that no object is at the null address.
            r.push(Cell { val: 0, wr: 0, alloc: u32::MAX });
        }
        let base = Ptr(((region as u32) << 16) | r.len() as u32);
        r.resize(r.len() + cells as usize, Cell { val: 0, wr: 0, alloc: id });
        let key = ty.label;
        let nr = match self.counts.iter_mut().find(|c| c.0 == key) {
            Some(c) => {
                c.1 += 1;
                c.1
            }
            None => {
                self.counts.push((key, 1));
                1
            }
        };
        self.allocs.push(AllocInfo { base, ty, cells, nr, freed: u32::MAX, immortal: false });
        self.hash = self.hash.wrapping_add(mix(u64::from(base.0), 0x0061_6c6c_6f63));
        base
    }

    pub(super) fn set_immortal(&mut self, p: Ptr) {
        if let Some(i) = self.alloc_index(p) {
            self.allocs[i].immortal = true;
        }
    }

    #[inline]
    fn cell(&self, p: Ptr) -> Option<&Cell> {
        self.regions.get(p.region())?.get(p.offset())
    }

    #[inline]
    fn alloc_index(&self, p: Ptr) -> Option<usize> {
        let a = self.cell(p)?.alloc & INDEX;
        ((a as usize) < self.allocs.len()).then_some(a as usize)
    }

    /// The allocation that `p` points into, live or freed.
    #[inline]
    pub fn alloc_of(&self, p: Ptr) -> Option<&AllocInfo> {
        self.alloc_index(p).map(|i| &self.allocs[i])
    }

    /// Value of a cell without any check, access record or footprint; 0 outside memory. For oracles and reports.
    #[inline]
    pub fn peek(&self, p: Ptr) -> u64 {
        self.cell(p).map_or(0, |c| c.val)
    }

    /// Marks `n` cells from `p` on: each later write to them is news of this kind.
    pub fn mark(&mut self, p: Ptr, n: u32, mark: Mark) {
        if let Some(cells) = self.regions.get_mut(p.region()).and_then(|r| r.get_mut(p.offset()..p.offset() + n as usize)) {
            cells.iter_mut().for_each(|c| c.alloc |= mark.0);
        }
        self.tell(mark);
    }

    /// Was a cell with this mark written since [`Memory::heard`] was called last?
    #[inline]
    pub fn news(&self, mark: Mark) -> bool {
        self.news & mark.0 != 0
    }

    /// What was written to cells with this mark is known now.
    #[inline]
    pub fn heard(&mut self, mark: Mark) {
        self.news &= !mark.0;
    }

    /// Something else than a write calls for another look at the cells with this mark.
    #[inline]
    pub fn tell(&mut self, mark: Mark) {
        self.news |= mark.0;
    }

    /// True when `p` points into a live allocation.
    #[inline]
    pub fn live(&self, p: Ptr) -> bool {
        self.cell(p).is_some_and(|c| c.alloc & FREED == 0)
    }

    pub(super) fn mark_weak(&mut self, p: Ptr) -> bool {
        let Some(c) = self.regions.get_mut(p.region()).and_then(|r| r.get_mut(p.offset())) else { return false };
        let new = c.alloc & (FREED | WEAK) == 0;
        c.alloc |= WEAK;
        new
    }

    pub(super) fn is_weak(&self, p: Ptr) -> bool {
        self.cell(p).is_some_and(|c| c.alloc & (FREED | WEAK) == WEAK)
    }

    /// Index of the event that wrote the cell's value.
    #[inline]
    pub fn writer(&self, p: Ptr) -> u32 {
        self.cell(p).map_or(0, |c| c.wr)
    }

    /// Records an access that is not a read or write of a cell's value (RCU sections, task states).
    #[inline]
    pub fn touch(&mut self, p: Ptr, a: Access) {
        if self.footprint_on {
            self.footprint.push((p, a));
        }
    }

    #[inline]
    pub(super) fn raw_write(&mut self, p: Ptr, v: u64, ev: u32) -> bool {
        let Some(c) = self.regions.get_mut(p.region()).and_then(|r| r.get_mut(p.offset())) else { return false };
        if c.alloc & FREED != 0 {
            return false;
        }
        self.news |= c.alloc;
        if c.val != v && self.hash_on {
            let k = u64::from(p.0);
            self.hash = self.hash.wrapping_sub(mix(k, c.val)).wrapping_add(mix(k, v));
        }
        c.val = v;
        c.wr = ev;
        true
    }

    /// Name of the object that `p` points into: `wb#2`.
    pub fn owner_name(&self, p: Ptr) -> String {
        self.alloc_of(p).map_or_else(|| self.name(p), |a| if a.ty.label.is_empty() { self.name(p) } else { format!("{}#{}", a.ty.label, a.nr) })
    }

    /// Readable name of an address: `wb#2.refcnt+1`.
    pub fn name(&self, p: Ptr) -> String {
        if p.is_null() {
            return "NULL".into();
        }
        let Some(a) = self.alloc_of(p) else { return format!("?{:#x}", p.0) };
        let (off, size) = (p.0 - a.base.0, a.ty.cells.max(1));
        let mut obj = if a.ty.label.is_empty() { String::new() } else { format!("{}#{}", a.ty.label, a.nr) };
        let off = if a.cells > size {
            obj += &format!("[{}]", off / size);
            off % size
        } else {
            off
        };
        if off == 0 && !a.ty.label.is_empty() && a.ty.cells != 1 {
            return obj;
        }
        let path = a.ty.path(off);
        if obj.is_empty() { path.trim_start_matches('.').to_string() } else { obj + &path }
    }
}

impl Machine {
    /// Reads a cell for the running task: checked, remembered in what the task has observed, part of the footprint.
    #[inline]
    pub fn read(&mut self, p: Ptr) -> u64 {
        // Recorded first: a fatal access is part of its step's footprint too.
        self.mem.touch(p, Access::Read);
        match self.mem.cell(p) {
            Some(c) if c.alloc & (FREED | WEAK) == 0 => {
                let v = c.val;
                self.observe(v);
                v
            }
            Some(c) if c.alloc & FREED == 0 => {
                let v = self.weak_load(p);
                self.observe(v);
                v
            }
            _ => self.bad_access(p, "read"),
        }
    }

    /// Reads a cell for a primitive that passes on less than its value: checked and part of the footprint, but not remembered.
    #[inline]
    pub(super) fn read_quietly(&mut self, p: Ptr) -> u64 {
        let on = std::mem::replace(&mut self.observe_on, false);
        let v = self.read(p);
        self.observe_on = on;
        v
    }

    /// Reads a cell like [`Machine::read`]; also says which event wrote the value.
    #[inline]
    pub(super) fn read_from(&mut self, p: Ptr) -> (u64, u32) {
        let rf = self.mem.writer(p);
        let v = self.read(p);
        if self.config.weak && self.mem.is_weak(p) { (v, self.weak_rf()) } else { (v, rf) }
    }

    /// Writes a cell for the running task: checked, part of the footprint.
    #[inline]
    pub fn write(&mut self, p: Ptr, v: u64) {
        let ev = self.log_len();
        self.mem.touch(p, Access::Write);
        if !self.mem.raw_write(p, v, ev) {
            self.bad_access(p, "write");
        }
        if self.config.weak && self.mem.is_weak(p) {
            self.weak_store(p, v, ev);
        }
    }

    #[cold]
    fn bad_access(&mut self, p: Ptr, what: &str) -> u64 {
        let Some(a) = self.mem.alloc_of(p).copied() else {
            fatal_in(self, "LT-MEM-0", format!("{what} of {}: not an object", if p.is_null() { "a null pointer".into() } else { self.mem.name(p) }));
        };
        let name = self.mem.name(p);
        fatal_in(self, a.ty.mem_rule, format!("{what} of {name} after it was freed at step {}", a.freed));
    }

    /// Frees the allocation at `p`; freeing twice or inside an object is a violation.
    pub fn free(&mut self, p: Ptr) {
        self.mem.touch(p, Access::Write);
        let Some(i) = self.mem.alloc_index(p) else {
            let name = self.mem.name(p);
            fatal_in(self, "LT-MEM-0", format!("free of {name}: not an object"));
        };
        let a = self.mem.allocs[i];
        if a.base != p {
            let name = self.mem.name(p);
            fatal_in(self, "LT-MEM-0", format!("free of {name}: not the start of an allocation"));
        }
        if a.freed != u32::MAX {
            let name = self.mem.name(p);
            fatal_in(self, a.ty.mem_rule, format!("double free of {name}, first freed at step {}", a.freed));
        }
        self.mem.allocs[i].freed = self.log_len();
        let r = &mut self.mem.regions[p.region()];
        let start = p.offset();
        let mut h = self.mem.hash;
        let n = a.cells(r.len() - start);
        for (k, c) in r[start..start + n].iter_mut().enumerate() {
            if c.val != 0 {
                h = h.wrapping_sub(mix(u64::from(p.0) + k as u64, c.val)).wrapping_add(mix(u64::from(p.0) + k as u64, 0));
            }
            c.alloc |= FREED;
        }
        self.mem.hash = h.wrapping_add(mix(u64::from(p.0), 0x6672_6565));
        if self.mem.footprint_on {
            for k in 1..n {
                self.mem.footprint.push((p.add(k as u32), Access::Write));
            }
        }
    }
}

impl AllocInfo {
    fn cells(&self, max: usize) -> usize {
        (self.cells as usize).min(max)
    }
}

/// Allocates a zeroed object, or returns the null pointer where the choice point `site` says that memory ran out.
///
/// `site` names the allocation in cases and replays (kernel function that allocates). `GFP_KERNEL` callers must be able to sleep.
#[track_caller]
pub fn kzalloc(ty: &'static TypeInfo, gfp: Gfp, site: &'static str) -> Ptr {
    if gfp == Gfp::Kernel {
        with(|m| m.might_sleep("kzalloc(GFP_KERNEL)"));
    }
    if super::choose(super::Choice::AllocFails(site)) == 1 {
        return NULL;
    }
    kzalloc_nofail(ty)
}

/// Allocates a zeroed object; never fails (boot, and allocations whose failure is not modelled).
#[track_caller]
pub fn kzalloc_nofail(ty: &'static TypeInfo) -> Ptr {
    kcalloc_nofail(ty, 1)
}

/// The same for `n` objects in a row, which are freed together; their cells are at most 65534.
#[track_caller]
pub fn kcalloc_nofail(ty: &'static TypeInfo, n: u32) -> Ptr {
    let site = Location::caller();
    with(|m| {
        let cells = ty.cells * n;
        let region = m.region_for(cells);
        let p = m.mem.alloc(region, ty, cells);
        m.commit(Kind::Alloc, Tp::Note, p, 0, 0, site);
        p
    })
}

/// Frees an object.
#[track_caller]
pub fn kfree(p: Ptr) {
    let site = Location::caller();
    with(|m| {
        m.free(p);
        m.commit(Kind::Free, Tp::Note, p, 0, 0, site);
    });
}

/// An object that is allowed to be alive at the end (statics, objects that the case owns).
pub fn immortal(p: Ptr) {
    with(|m| m.mem.set_immortal(p));
}

/// Declares a kernel struct: a `Copy` handle whose methods are its fields.
///
/// `pub struct Name: "label", "LT-MEM-x", offsets { field: Type, ... }` gives `Name::SIZE`, `Name::TYPE`, one accessor a
/// field, the module `offsets` with each field's offset in cells for [`container_of!`](crate::container_of), and the
/// traits to store a pointer to it in a [`Var`](crate::sync::Var) or to embed it.
#[macro_export]
macro_rules! kstruct {
    ($(#[$meta:meta])* pub struct $name:ident: $label:literal, $rule:literal, $offs:ident {
        $($(#[$fmeta:meta])* $field:ident: $ty:ty),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub $crate::sync::Ptr);
        /// Field offsets in cells.
        #[allow(non_upper_case_globals, missing_docs)]
        pub mod $offs {
            #[allow(unused_imports)]
            use super::*;
            $crate::kstruct!(@offs 0u32; $($field: $ty),*);
        }
        #[allow(missing_docs)]
        impl $name {
            /// Size in cells.
            pub const SIZE: u32 = 0 $(+ <$ty as $crate::sync::Field>::CELLS)*;
            /// Type description.
            pub const TYPE: &'static $crate::sync::TypeInfo = &$crate::sync::TypeInfo {
                label: $label, mem_rule: $rule, cells: Self::SIZE,
                fields: &[$($crate::sync::FieldInfo { name: stringify!($field), off: $offs::$field, cells: <$ty as $crate::sync::Field>::CELLS, inner: <$ty as $crate::sync::Field>::INNER }),*],
            };
            /// The null pointer of this type.
            pub const NULL: Self = $name($crate::sync::NULL);
            /// True for the null pointer.
            pub fn is_null(self) -> bool { self.0.is_null() }
            /// Address.
            pub fn ptr(self) -> $crate::sync::Ptr { self.0 }
            $($(#[$fmeta])* #[inline] pub fn $field(self) -> $ty {
                <$ty as $crate::sync::Field>::at(self.0.add($offs::$field))
            })*
        }
        impl $crate::sync::Field for $name {
            const CELLS: u32 = Self::SIZE;
            const INNER: Option<&'static $crate::sync::TypeInfo> = Some(Self::TYPE);
            fn at(p: $crate::sync::Ptr) -> Self { $name(p) }
        }
        impl $crate::sync::Word for $name {
            fn to_word(self) -> u64 { u64::from((self.0).0) }
            fn from_word(w: u64) -> Self { $name($crate::sync::Ptr::from_word(w)) }
        }
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { write!(f, "{}({:#x})", $label, (self.0).0) }
        }
    };
    (@offs $off:expr; ) => {};
    (@offs $off:expr; $field:ident: $ty:ty $(, $rest:ident: $rty:ty)*) => {
        pub const $field: u32 = $off;
        $crate::kstruct!(@offs $field + <$ty as $crate::sync::Field>::CELLS; $($rest: $rty),*);
    };
}

/// The object that contains a field: `container_of!(node, BdiWriteback, wb_fields::bdi_node)`.
#[macro_export]
macro_rules! container_of {
    ($view:expr, $name:ident, $off:expr) => {
        $name(($view).ptr().sub($off))
    };
}
