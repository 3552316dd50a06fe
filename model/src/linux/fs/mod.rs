//! fs/

pub mod fs_writeback;
pub mod inode;
pub mod super_;
