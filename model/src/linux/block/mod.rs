//! block/

pub mod blk_cgroup;
