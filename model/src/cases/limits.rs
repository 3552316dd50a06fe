//! Sizes beyond which a file is refused.

/// Tasks of a case.
pub const MAX_TASKS: usize = 16;
/// Operations of one task, of the setup, of the teardown.
pub const MAX_OPS: usize = 200;
/// Devices.
pub const MAX_BDIS: usize = crate::linux::MAX_BDI_ID as usize - 1;
/// Cgroups, the root included; one css id stays free so that one more can be made at a time.
pub const MAX_CGROUPS: usize = crate::linux::MAX_CSS_ID as usize - 2;
/// Superblocks, inodes and kept references, of each.
pub const MAX_OBJECTS: usize = 32;
/// Largest number of pages, steps or jiffies in one operation.
pub const MAX_AMOUNT: u32 = 1000;
/// Largest number of CPUs.
pub const MAX_CPUS: u32 = 4;
/// Names after `ask`, `reach` or `violates`.
pub const MAX_LIST: usize = 64;
/// Decisions of one finding.
pub const MAX_DECISIONS: usize = 20_000;
