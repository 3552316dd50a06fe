//! Plain, marked and atomic accesses to one cell.
//!
//! `get` and `set` are plain accesses: no scheduling point, for data that a held lock or sole ownership protects.
//! Everything that another task may race with is awaited. Atomic operations that return a value are fully ordered, void ones are
//! not ordered at all; that and the barriers matter for cells declared [`weak`](Var::weak) while `Config::weak` is on.

use super::backend;
use super::machine::with;
use super::mem::{Field, NULL, Ptr};
use super::op::{BLIND, COUNT, Kind, Op};
use super::step::{Step, step};
use super::weak::{self, ORDERED, RELAXED};
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A value that fits a cell.
pub trait Word: Copy {
    /// Its cell value; 0 is the zeroed state.
    fn to_word(self) -> u64;
    /// The value of a cell.
    fn from_word(w: u64) -> Self;
}

macro_rules! word_int {
    ($($t:ty),*) => {$(
        impl Word for $t {
            fn to_word(self) -> u64 { self as i64 as u64 }
            fn from_word(w: u64) -> Self { w as $t }
        }
    )*};
}
word_int!(u8, u16, u32, u64, i32, i64, usize);

impl Word for bool {
    fn to_word(self) -> u64 {
        u64::from(self)
    }
    fn from_word(w: u64) -> bool {
        w != 0
    }
}

impl Word for Ptr {
    fn to_word(self) -> u64 {
        u64::from(self.0)
    }
    fn from_word(w: u64) -> Ptr {
        Ptr(w as u32)
    }
}

/// One cell that holds a `T`.
pub struct Var<T>(Ptr, PhantomData<T>);

impl<T> Clone for Var<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Var<T> {}

impl<T: Word> Field for Var<T> {
    const CELLS: u32 = 1;
    fn at(p: Ptr) -> Self {
        Var(p, PhantomData)
    }
}

/// A [`Step`] whose result is a `T`.
pub struct TypedStep<T>(Step, PhantomData<T>);

impl<T: Word + Unpin> Future for TypedStep<T> {
    type Output = T;
    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        Pin::new(&mut self.0).poll(cx).map(T::from_word)
    }
}

impl<T: Word> Var<T> {
    /// Address of the cell.
    pub fn ptr(self) -> Ptr {
        self.0
    }
    /// Declares the cell weak: from now on, loads may return older values down to the present one, as barriers allow.
    /// Call it when the cell is initialised, before its object is published. No effect while `Config::weak` is off.
    pub fn weak(self) {
        with(|m| m.declare_weak(self.0));
    }
    /// Plain read.
    #[inline]
    pub fn get(self) -> T {
        backend::touch_load(self.0);
        T::from_word(with(|m| m.read(self.0)))
    }
    /// Plain write.
    #[inline]
    pub fn set(self, v: T) {
        backend::store(self.0, v.to_word());
        with(|m| m.write(self.0, v.to_word()));
    }
    #[track_caller]
    #[inline]
    fn op(self, kind: Kind, a: u64, b: u64) -> TypedStep<T> {
        TypedStep(step(Op { kind, obj: self.0, a, b }), PhantomData)
    }
    /// `READ_ONCE`, `rcu_dereference`, `atomic_read`.
    #[track_caller]
    #[inline]
    pub fn read_once(self) -> TypedStep<T> {
        self.op(Kind::Load, 0, 0)
    }
    /// `WRITE_ONCE`, `rcu_assign_pointer`, `atomic_set`.
    #[track_caller]
    #[inline]
    pub fn write_once(self, v: T) -> TypedStep<T> {
        self.op(Kind::Store, v.to_word(), 0)
    }
    /// `smp_load_acquire`
    #[track_caller]
    pub fn load_acquire(self) -> TypedStep<T> {
        self.op(Kind::Load, 0, ORDERED)
    }
    /// `smp_store_release`
    #[track_caller]
    pub fn store_release(self, v: T) -> TypedStep<T> {
        self.op(Kind::Store, v.to_word(), ORDERED)
    }
    /// `atomic_add`, `atomic_sub` and other void additions: indivisible, not ordered. Yields the old value cut to -1..=2, for
    /// what only asks how far from 0 and 1 it was.
    #[track_caller]
    pub fn add_relaxed(self, v: T) -> TypedStep<T> {
        self.op(Kind::Add, v.to_word(), RELAXED)
    }
    /// `xchg`: yields the old value.
    #[track_caller]
    #[inline]
    pub fn xchg(self, v: T) -> TypedStep<T> {
        self.op(Kind::Xchg, v.to_word(), 0)
    }
    /// `cmpxchg`: yields the old value, which equals `old` exactly on success.
    #[track_caller]
    #[inline]
    pub fn cmpxchg(self, old: T, new: T) -> TypedStep<T> {
        self.op(Kind::Cmpxchg, old.to_word(), new.to_word())
    }
    /// Adds; yields the *old* value.
    #[track_caller]
    #[inline]
    pub fn fetch_add(self, v: T) -> TypedStep<T> {
        self.op(Kind::Add, v.to_word(), 0)
    }
    /// Adds `v` unless the value is `u`, which is 0 or 1; yields the old value cut to -1..=2.
    #[track_caller]
    #[inline]
    pub fn add_unless(self, v: T, u: T) -> TypedStep<T> {
        self.op(Kind::AddUnless, v.to_word(), u.to_word())
    }
}

impl Var<i64> {
    /// `atomic_inc`: void in the kernel, so not ordered; `fetch_add(1)` is `atomic_inc_return` and is.
    #[track_caller]
    pub fn inc(self) -> TypedStep<i64> {
        self.add_relaxed(1)
    }
    /// `atomic_dec_and_test`: yields the old value cut to -1..=2, so `== 1` is its result; ordered. The void `atomic_dec` is
    /// `add_relaxed(-1)`.
    #[track_caller]
    pub fn dec(self) -> TypedStep<i64> {
        self.op(Kind::Add, (-1i64).to_word(), COUNT)
    }
    /// Adds for nobody to look at the old value: such additions commute.
    #[track_caller]
    pub fn add_blindly(self, v: i64) -> TypedStep<i64> {
        self.op(Kind::Add, v.to_word(), BLIND)
    }
}

/// A word of flag bits; bit numbers as in the kernel.
#[derive(Clone, Copy)]
pub struct Bits(Ptr);

impl Field for Bits {
    const CELLS: u32 = 1;
    fn at(p: Ptr) -> Self {
        Bits(p)
    }
}

impl Bits {
    /// Address of the cell.
    pub fn ptr(self) -> Ptr {
        self.0
    }
    /// Declares the word weak; see [`Var::weak`].
    pub fn weak(self) {
        with(|m| m.declare_weak(self.0));
    }
    /// Plain read of the whole word.
    pub fn get(self) -> u64 {
        backend::touch_load(self.0);
        with(|m| m.read(self.0))
    }
    /// Plain write of the whole word.
    pub fn set(self, v: u64) {
        backend::store(self.0, v);
        with(|m| m.write(self.0, v));
    }
    /// Plain read-modify-write, under the word's lock.
    pub fn or(self, bits: u64) {
        self.set(self.get() | bits);
    }
    /// Plain read-modify-write, under the word's lock.
    pub fn clear(self, bits: u64) {
        self.set(self.get() & !bits);
    }
    /// `READ_ONCE` of the word.
    #[track_caller]
    pub fn read_once(self) -> Step {
        step(Op::new(Kind::Load, self.0))
    }
    /// `WRITE_ONCE` of the word.
    #[track_caller]
    pub fn write_once(self, v: u64) -> Step {
        step(Op::with(Kind::Store, self.0, v))
    }
    /// `test_bit` as a scheduling point.
    #[track_caller]
    pub fn test_bit(self, nr: u32) -> BitStep {
        BitStep(step(Op::new(Kind::Load, self.0)), nr)
    }
    /// `set_bit`: void, so not ordered. Yields the old bit, for tests only.
    #[track_caller]
    pub fn set_bit(self, nr: u32) -> BitStep {
        BitStep(step(Op { kind: Kind::Or, obj: self.0, a: 1 << nr, b: RELAXED }), nr)
    }
    /// `clear_bit`: void, so not ordered. Yields the old bit, for tests only.
    #[track_caller]
    pub fn clear_bit(self, nr: u32) -> BitStep {
        BitStep(step(Op { kind: Kind::And, obj: self.0, a: !(1 << nr), b: RELAXED }), nr)
    }
    /// `test_and_set_bit`: yields the old bit; ordered.
    #[track_caller]
    pub fn test_and_set_bit(self, nr: u32) -> BitStep {
        BitStep(step(Op::with(Kind::Or, self.0, 1 << nr)), nr)
    }
    /// `test_and_clear_bit`: yields the old bit; ordered.
    #[track_caller]
    pub fn test_and_clear_bit(self, nr: u32) -> BitStep {
        BitStep(step(Op::with(Kind::And, self.0, !(1 << nr))), nr)
    }
}

/// A [`Step`] whose result is one bit of the old word.
pub struct BitStep(Step, u32);

impl Future for BitStep {
    type Output = bool;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<bool> {
        let nr = self.1;
        Pin::new(&mut self.0).poll(cx).map(|w| w & (1 << nr) != 0)
    }
}

/// `smp_mb()`, `smp_mb__after_atomic()`. A scheduling point while weak memory is on, nothing otherwise.
#[track_caller]
pub fn smp_mb() -> impl Future<Output = ()> {
    let fence = step(Op::new(Kind::Fence, NULL));
    async move {
        if with(|m| m.config.weak) {
            fence.await;
        }
    }
}
/// `smp_rmb()`. No scheduling point.
pub fn smp_rmb() {
    weak::rmb();
}
/// `smp_wmb()`. No scheduling point.
pub fn smp_wmb() {
    weak::wmb();
}
