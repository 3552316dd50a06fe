//! mm/

pub mod backing_dev;
pub mod memcontrol;
