//! include/: structs where the kernel declares them, and its small arithmetic. include/linux/ unless a module says otherwise.

pub mod backing_dev;
pub mod backing_dev_defs;
pub mod cgroup_defs;
pub mod fs;
pub mod jiffies;
pub mod math64;
pub mod trace_events_writeback;
pub mod writeback;
