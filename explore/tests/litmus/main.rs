//! Litmus tests: exact outcome sets of small programs, one for each promise of the sync layer.

mod lists;
mod locks;
mod memory;
mod percpu_ref;
mod rcu;
mod shuttle;
mod support;
mod work;
