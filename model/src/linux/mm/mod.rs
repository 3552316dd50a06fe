//! mm/

pub mod backing_dev;
pub mod memcontrol;
pub mod page_writeback;
