//! Spinlocks, mutexes and reader-writer semaphores.
//!
//! Taking a lock is a scheduling point. Dropping a guard releases at once, inside the current step: a release that is not
//! observed by a trylock commutes with everything up to the task's next step. Where a trylock exists (`s_umount`) use
//! [`WriteGuard::up`] and [`ReadGuard::up`], which are scheduling points.

use super::event::Tp;
use super::machine::{Machine, with};
use super::mem::{Field, Ptr};
use super::op::{Kind, Mode, Op};
use super::step::{Step, step};
use std::panic::Location;

fn drop_lock(p: Ptr, kind: Kind) {
    with(|m: &mut Machine| {
        if !m.aborted {
            let s = m.current;
            m.release(s, p);
            m.commit(kind, Tp::Note, p, 0, 0, Location::caller());
        }
    });
}

/// A lock-like cell, free when zeroed.
macro_rules! lock_type {
    ($(#[$m:meta])* $name:ident) => {
        $(#[$m])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub struct $name(Ptr);
        impl Field for $name {
            const CELLS: u32 = 1;
            fn at(p: Ptr) -> Self {
                $name(p)
            }
        }
        impl $name {
            /// Address.
            pub fn ptr(self) -> Ptr {
                self.0
            }
        }
    };
}
macro_rules! guard_type {
    ($(#[$m:meta])* $name:ident, $kind:expr) => {
        $(#[$m])*
        #[must_use = "the lock is released when the guard is dropped"]
        pub struct $name(Ptr);
        impl Drop for $name {
            fn drop(&mut self) {
                drop_lock(self.0, $kind);
            }
        }
    };
}

lock_type! {
    /// `spinlock_t`
    SpinLock
}
guard_type! {
    /// A held spinlock.
    SpinGuard, Kind::SpinUnlock
}

impl SpinLock {
    #[track_caller]
    fn take(self, mode: Mode) -> impl Future<Output = SpinGuard> {
        let s = step(Op::with(Kind::SpinLock, self.0, mode as u64));
        async move {
            s.await;
            SpinGuard(self.0)
        }
    }
    /// `spin_lock`
    #[track_caller]
    pub fn lock(self) -> impl Future<Output = SpinGuard> {
        self.take(Mode::Plain)
    }
    /// `spin_lock_bh`
    #[track_caller]
    pub fn lock_bh(self) -> impl Future<Output = SpinGuard> {
        self.take(Mode::Bh)
    }
    /// `spin_lock_irq`, `spin_lock_irqsave`
    #[track_caller]
    pub fn lock_irq(self) -> impl Future<Output = SpinGuard> {
        self.take(Mode::Irq)
    }
    /// Does the running task hold it?
    pub fn held(self) -> bool {
        with(|m| m.holds(self.0))
    }
}

impl SpinGuard {
    /// Ends the guard without releasing: for functions that return with a lock held. Pair with [`SpinGuard::adopt`].
    pub fn forget(self) {
        std::mem::forget(self);
    }
    /// `spin_unlock_irq`: releases, and switches interrupts on whatever they were before. Dropping the guard is
    /// `spin_unlock_irqrestore`.
    pub fn unlock_irq(self) {
        drop(self);
        with(Machine::local_irq_enable);
    }
    /// A guard for a lock that the running task holds already.
    pub fn adopt(l: SpinLock) -> SpinGuard {
        SpinGuard(l.0)
    }
}

/// `lockdep_assert_held`: the running task holds `l`, else invariant LT-LOCK-3 is broken.
pub fn lockdep_assert_held(l: SpinLock) {
    with(|m| {
        if !m.holds(l.0) && !m.immediate {
            let n = m.mem.name(l.0);
            m.report("LT-LOCK-3", format!("{n} must be held here and is not"));
        }
    });
}

lock_type! {
    /// `struct mutex`
    Mutex
}
guard_type! {
    /// A held mutex.
    MutexGuard, Kind::MutexUnlock
}

impl Mutex {
    /// `mutex_lock`
    #[track_caller]
    pub fn lock(self) -> impl Future<Output = MutexGuard> {
        let s = step(Op::new(Kind::MutexLock, self.0));
        async move {
            s.await;
            MutexGuard(self.0)
        }
    }
}

lock_type! {
    /// `struct rw_semaphore`: bit 63 set while held for writing, else the number of readers.
    Rwsem
}
guard_type! {
    /// A rwsem held for reading.
    ReadGuard, Kind::UpNow
}
guard_type! {
    /// A rwsem held for writing.
    WriteGuard, Kind::UpNow
}

impl Rwsem {
    /// `down_read`
    #[track_caller]
    pub fn read(self) -> impl Future<Output = ReadGuard> {
        let s = step(Op::new(Kind::DownRead, self.0));
        async move {
            s.await;
            ReadGuard(self.0)
        }
    }
    /// `down_read_trylock`
    #[track_caller]
    pub fn try_read(self) -> impl Future<Output = Option<ReadGuard>> {
        let s = step(Op::new(Kind::DownReadTrylock, self.0));
        async move { (s.await == 1).then(|| ReadGuard(self.0)) }
    }
    /// `down_write`
    #[track_caller]
    pub fn write(self) -> impl Future<Output = WriteGuard> {
        let s = step(Op::new(Kind::DownWrite, self.0));
        async move {
            s.await;
            WriteGuard(self.0)
        }
    }
}

impl ReadGuard {
    /// `up_read` with a scheduling point before it.
    #[track_caller]
    pub fn up(self) -> Step {
        let p = self.0;
        std::mem::forget(self);
        step(Op::new(Kind::Up, p))
    }
}

impl WriteGuard {
    /// `up_write` with a scheduling point before it.
    #[track_caller]
    pub fn up(self) -> Step {
        let p = self.0;
        std::mem::forget(self);
        step(Op::new(Kind::Up, p))
    }
}
