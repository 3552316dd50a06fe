//! block/

pub mod bdev;
pub mod blk_cgroup;
