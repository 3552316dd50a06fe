//! kernel/cgroup/

#[allow(clippy::module_inception)]
pub mod cgroup;
pub mod rstat;
