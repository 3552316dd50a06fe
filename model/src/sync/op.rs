//! Operations: what a task announces before it yields and what the machine then does.

use super::mem::Ptr;

/// What an operation does. Kinds marked *immediate* are committed inside another step, without a scheduling point.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Kind {
    /// First step of a task.
    Start,
    /// First step of a work item's run: pending becomes running.
    WorkBegin,
    /// Timer of a delayed work item fires.
    TimerFire,
    /// First step of an RCU callback, after its grace period.
    RcuCallback,
    /// Read a cell.
    Load,
    /// Write `a`.
    Store,
    /// Add `a`; yields the old value, cut to what [`Op::learned`] lets through.
    Add,
    /// Or with `a`; yields the old value.
    Or,
    /// And with `a`; yields the old value.
    And,
    /// Replace by `a`; yields the old value.
    Xchg,
    /// Replace `a` by `b` if equal; yields the old value.
    Cmpxchg,
    /// Add `a` unless the value is `b`; yields the old value.
    AddUnless,
    /// Take a spinlock; `a` is the [`Mode`].
    SpinLock,
    /// Take a mutex.
    MutexLock,
    /// Take a rwsem for reading.
    DownRead,
    /// Try to take a rwsem for reading; yields 1 on success.
    DownReadTrylock,
    /// Take a rwsem for writing.
    DownWrite,
    /// Release a rwsem held for reading or writing, with a scheduling point before it.
    Up,
    /// Start of a grace period that the task waits for.
    GpBegin,
    /// End of that grace period.
    GpEnd,
    /// Queue a work item; yields 1 if it was not pending. `a`: 0 queue, 1 arm the timer, 2 modify to zero delay.
    QueueWork,
    /// Note which run of a work item has to end; queues it at once if only its timer was armed.
    FlushBegin,
    /// Wait until that run ended.
    FlushWait,
    /// Enter a wait queue (`a`) and read a cell.
    PrepareWait,
    /// Sleep until woken from the wait queue.
    Sleep,
    /// Wake everybody in a wait queue.
    WakeAll,
    /// `smp_mb` while weak memory is on.
    Fence,
    /// Offer the CPU.
    Yield,
    /// Wait until the task named by `a` ended.
    Join,
    /// *Immediate*: release a spinlock.
    SpinUnlock,
    /// *Immediate*: release a mutex.
    MutexUnlock,
    /// *Immediate*: release a rwsem.
    UpNow,
    /// *Immediate*: outermost RCU read section began.
    RcuEnter,
    /// *Immediate*: it ended.
    RcuExit,
    /// *Immediate*: RCU callback `a` registered.
    CallRcu,
    /// *Immediate*: run of a work item ended.
    WorkEnd,
    /// *Immediate*: the task ended.
    Exit,
    /// *Immediate*: object allocated.
    Alloc,
    /// *Immediate*: object freed.
    Free,
    /// *Immediate*: a choice `a` was answered with the value.
    Choice,
    /// *Immediate*: tracepoint `a` of the mirrored code.
    Trace,
}

impl Kind {
    /// Operations that may have to wait for another task.
    pub fn can_block(self) -> bool {
        use Kind::*;
        matches!(self, WorkBegin | TimerFire | RcuCallback | SpinLock | MutexLock | DownRead | DownWrite | GpEnd | FlushWait | Sleep | Join)
    }
    /// Operations that must not be reached in atomic context.
    pub fn sleeps(self) -> bool {
        use Kind::*;
        matches!(self, MutexLock | DownRead | DownWrite | GpBegin | GpEnd | FlushBegin | FlushWait | PrepareWait | Sleep | Yield | Join)
    }
}

/// How a spinlock changes the interrupt state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Mode {
    /// `spin_lock`
    Plain,
    /// `spin_lock_bh`
    Bh,
    /// `spin_lock_irq`, `spin_lock_irqsave`
    Irq,
}

/// Second argument of a [`Kind::Add`] whose old value nobody looks at.
pub(super) const BLIND: u64 = 2;
/// Second argument of a [`Kind::Add`] that only tells how far from 0 and 1 the old value was.
pub(super) const COUNT: u64 = 3;

/// A condition on a cell's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pred {
    /// Value is zero.
    Zero,
    /// All these bits are clear.
    Clear(u64),
    /// Value equals.
    Is(u64),
}

impl Pred {
    /// Does the value satisfy the condition?
    pub fn holds(self, v: u64) -> bool {
        match self {
            Pred::Zero => v == 0,
            Pred::Clear(b) => v & b == 0,
            Pred::Is(x) => v == x,
        }
    }
}

/// One operation on one object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Op {
    /// What.
    pub kind: Kind,
    /// On which cell (a lock's, work item's, wait queue's first cell).
    pub obj: Ptr,
    /// First argument, by kind.
    pub a: u64,
    /// Second argument, by kind.
    pub b: u64,
}

impl Op {
    /// An operation without arguments.
    pub fn new(kind: Kind, obj: Ptr) -> Op {
        Op { kind, obj, a: 0, b: 0 }
    }
    /// What the task learns of the old value: remembering less lets more states be seen as equal.
    #[inline]
    pub fn learned(self, old: u64) -> u64 {
        match self.kind {
            Kind::Add if self.b == 0 => old,
            Kind::Add | Kind::AddUnless => (old as i64).clamp(-1, 2) as u64,
            Kind::Or => old & self.a,
            Kind::And => old & !self.a,
            _ => old,
        }
    }
    /// What a read-modify-write stores over `old`; `None` if its condition does not hold or it is another kind.
    #[inline]
    pub fn applied(self, old: u64) -> Option<u64> {
        match self.kind {
            Kind::Add => Some(old.wrapping_add(self.a)),
            Kind::Or => Some(old | self.a),
            Kind::And => Some(old & self.a),
            Kind::Xchg => Some(self.a),
            Kind::Cmpxchg => (old == self.a).then_some(self.b),
            Kind::AddUnless => (old != self.b).then(|| old.wrapping_add(self.a)),
            _ => None,
        }
    }
    /// An operation with one argument.
    pub fn with(kind: Kind, obj: Ptr, a: u64) -> Op {
        Op { kind, obj, a, b: 0 }
    }
}
