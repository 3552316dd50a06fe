//! Weak cells live in the machine (`sync/weak.rs`): nothing to do.

use super::super::mem::Ptr;

/// A cell was declared weak.
#[inline(always)]
pub fn declare(_: Ptr, _: u64) {}
/// A plain load is about to happen.
#[inline(always)]
pub fn touch_load(_: Ptr) {}
/// A plain store is about to happen.
#[inline(always)]
pub fn store(_: Ptr, _: u64) {}
/// Value that a load of a weak cell has to return.
#[inline(always)]
pub fn given() -> Option<u64> {
    None
}
/// A read barrier.
#[inline(always)]
pub fn rmb() {}
/// A write barrier.
#[inline(always)]
pub fn wmb() {}
