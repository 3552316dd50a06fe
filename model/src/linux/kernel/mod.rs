//! kernel/
