//! The sync layer: the only door to concurrency, time, allocation and memory ordering.
//!
//! Purpose:  kernel text is `async fn`; each `.await` on a [`Step`] is a scheduling point and nothing else is.
//! Main type: [`Machine`], one execution's whole state: a flat checked memory, tasks with their pending operations,
//!           the commit log, RCU, and the rules that every operation obeys.
//! Contract: a primitive *is* an [`Op`] value. `Machine::enabled(op)` says when it may happen and `Machine::perform(op)`
//!           what it does. A driver (stepper, shuttle, loom, coroutine) only decides *when*; it has no semantics.
//! Must not know: kernel objects, cases, oracles, schedulers.
//!
//! Every shared datum is a cell of the machine's memory, so that use after free, stale views, reads-from, footprints
//! and canonical state hashes are one mechanism and not one per primitive. Kernel structs are typed views of cells
//! ([`kstruct!`](crate::kstruct)), `Copy` and addressed by [`Ptr`], whose value depends on who allocated it and not on the schedule.

mod atomic;
pub mod backend;
mod callback;
mod choose;
mod event;
mod list;
mod lock;
mod lockdep;
mod machine;
mod mem;
mod op;
mod percpu;
mod radix;
mod rcu;
mod settle;
mod snapshot;
mod step;
mod task;
mod twins;
mod wait;
mod weak;
mod work;

pub use atomic::{Bits, Var, Word, smp_mb, smp_rmb, smp_wmb};
pub use callback::FnPtr;
pub use choose::{Choice, Chooser, choose, set_chooser};
pub use event::{End, Event, Kfn, Scope, Stop, Tp, Violation, Watch, emit, fatal, report, scope};
pub use list::{LIST_POISON1, LIST_POISON2, ListHead, Llist};
pub use lock::{Mutex, MutexGuard, ReadGuard, Rwsem, SpinGuard, SpinLock, WriteGuard, lockdep_assert_held};
pub use lockdep::LockClass;
pub use machine::{Config, Machine, with};
pub use mem::{Access, AllocInfo, Field, FieldInfo, Gfp, Mark, Memory, NULL, Ptr, TypeInfo, immortal, kcalloc_nofail, kfree, kzalloc, kzalloc_nofail};
pub use op::{Kind, Mode, Op, Pred};
pub use percpu::{CpuGuard, PerCpu, PerCpuLong, get_cpu, nr_cpu_ids};
pub use radix::{EEXIST, ENOMEM, RadixTree};
pub use rcu::{RcuGuard, call_rcu, rcu_read_lock, rcu_read_unlock, synchronize_rcu, synchronize_rcu_expedited};
pub use snapshot::Snapshot;
pub use step::{Step, at_once, cond_resched, step};
pub use task::{Fut, Level, Observed, Spawn, Task, TaskLabel, TaskName, join, spawn, spawn_irq};
pub use twins::equal;
pub use wait::{WaitQueue, prepare_to_wait, schedule, wait_event, waitqueue_active, wake_up_all};
pub use work::{DelayedWork, Work, WorkFn, Workqueue, flush_delayed_work, flush_work, mod_delayed_work, queue_delayed_work, queue_work, requeue_delayed_work};
