//! Where weak cells live: in the machine, or in loom.
//!
//! The crate is compiled twice: as itself, and on loom by `loom-tests`, whose build script sets the cfg `model_loom`. No other
//! module knows. On loom, a weak cell is a loom atomic and barriers are loom's fences, and `run` drives the tasks.

#[cfg(not(model_loom))]
mod machine;
#[cfg(not(model_loom))]
pub(super) use machine::{declare, given, rmb, store, touch_load, wmb};

#[cfg(model_loom)]
mod on_loom;
#[cfg(model_loom)]
pub use on_loom::{Bounds, run};
#[cfg(model_loom)]
pub(super) use on_loom::{declare, given, rmb, store, touch_load, wmb};
