//! lib/

pub mod flex_proportions;
pub mod percpu_counter;
pub mod percpu_refcount;
