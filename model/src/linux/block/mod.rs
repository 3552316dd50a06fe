//! block/
