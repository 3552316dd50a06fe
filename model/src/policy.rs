//! Policies: the knobs in which cures for throttling and foreign flushes differ, as data.
//!
//! Main type: [`Policy`], one value for every knob; [`Policy::mainline`] is Linux 7.3.4. Lifetime rules (who finds a dying wb)
//! are a [`Rules`] of their own and one knob here. Mirrored code and the simulation ask the policy that they are given;
//! nothing here knows what a knob does.

use crate::rules::Rules;

/// When the throttling loop flushes the statistics of its memcg.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum FlushPolicy {
    /// Reads what the two-second worker left, unless that is four seconds late.
    #[default]
    Ratelimited,
    /// Flushes on every pass if enough is pending, as before the reads were ratelimited.
    Always,
    /// Flushes on every pass, whatever is pending. Model only: the upper bound of cost.
    AlwaysForced,
    /// Flushes when the memcg has dirtied `max(64 * CPUs, thresh >> shift)` pages since its last flush.
    ByPagesDirtied,
    /// Dirty and writeback pages are counted by atomics up to the root and read exactly.
    AtomicPerMemcg,
}

impl FlushPolicy {
    /// All of them by name.
    pub const NAMES: &[(&str, FlushPolicy)] = &[
        ("ratelimited", FlushPolicy::Ratelimited),
        ("always", FlushPolicy::Always),
        ("always-forced", FlushPolicy::AlwaysForced),
        ("by-pages-dirtied", FlushPolicy::ByPagesDirtied),
        ("atomic-per-memcg", FlushPolicy::AtomicPerMemcg),
    ];
}

/// Which foreign flushes are recorded and sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum ForeignPolicy {
    /// Every wb that owns an inode dirtied by another memcg.
    #[default]
    Mainline,
    /// Pages of block-device inodes are not recorded.
    SkipBdev,
    /// No flush for a wb that already has one queued or running.
    OneInFlight,
    /// Block-device inodes are marked by themselves, and only they are written.
    BdevInodeTargeted,
}

/// How many pages a foreign flush asks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Sizing {
    /// Five quarters of the owner memcg's dirty counter.
    #[default]
    Memcg,
    /// Five quarters of the dirty pages of the wb that was found.
    TargetWb,
}

/// When a task leaves the throttling loop at once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Freerun {
    /// When every domain is below its freerun ceiling.
    #[default]
    And,
    /// Also when its memcg has fewer dirty pages than its `dirty_min`.
    DirtyMin,
}

/// Who counts a FUSE mount's pages under writeback.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum FuseAccounting {
    /// The generic code: bandwidth estimates see the start and the end of writeback.
    #[default]
    New,
    /// FUSE itself, before 494d2f508883: the estimates see neither.
    Old,
}

/// Largest folio of a file system's page cache.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum OrderCap {
    /// What the file system asks for.
    #[default]
    None,
    /// At most this order.
    Fixed(u32),
    /// The largest order of which 512 fit into the mount's dirty limit.
    Folios512,
}

/// How the worker that empties a dying wb goes on after a batch of inodes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Cleanup {
    /// From the head of the list: what was handed over before is walked again.
    #[default]
    Rewalk,
    /// From where the last batch ended.
    Resume,
}

/// One value for every knob.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policy {
    /// Statistics flushes.
    pub flush: FlushPolicy,
    /// `shift` of [`FlushPolicy::ByPagesDirtied`]: the fraction of the limit that may go unseen, as a power of two.
    pub flush_shift: u32,
    /// Foreign flushes.
    pub foreign: ForeignPolicy,
    /// Size of foreign flushes.
    pub sizing: Sizing,
    /// Freerun rule.
    pub freerun: Freerun,
    /// FUSE accounting.
    pub fuse: FuseAccounting,
    /// Folio order cap.
    pub order: OrderCap,
    /// Hand-over of a dying wb's inodes.
    pub cleanup: Cleanup,
    /// Who finds a dying wb, and everything else that lifetime rules decide.
    pub rules: Rules,
}

impl Policy {
    /// Linux 7.3.4.
    pub const fn mainline() -> Policy {
        Policy {
            flush: FlushPolicy::Ratelimited,
            flush_shift: 5,
            foreign: ForeignPolicy::Mainline,
            sizing: Sizing::Memcg,
            freerun: Freerun::And,
            fuse: FuseAccounting::New,
            order: OrderCap::None,
            cleanup: Cleanup::Rewalk,
            rules: Rules::mainline(),
        }
    }
}

impl Default for Policy {
    fn default() -> Policy {
        Policy::mainline()
    }
}
