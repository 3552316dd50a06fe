//! include/linux/: structs where the kernel declares them.

pub mod backing_dev;
pub mod backing_dev_defs;
pub mod cgroup_defs;
pub mod fs;
pub mod writeback;
