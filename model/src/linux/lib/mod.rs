//! lib/

pub mod percpu_refcount;
