//! The modelled disk.
