//! kernel/

pub mod cgroup;
pub mod workqueue;
