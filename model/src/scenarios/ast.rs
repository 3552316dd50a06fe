//! The typed form of a scenario: a machine, who writes what to which disk, the variants to compare, what is expected.
//!
//! Amounts are in the unit that the field's name ends with; `_bps` is bytes a second, times are microseconds. A page is 4096
//! bytes. Defaults are the kernel's, or spec throttle 18.3 where the kernel has none.

use crate::policy::Policy;

/// Version of the text format.
pub const SCHEMA: u32 = 1;
/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;
/// A time that does not come.
pub const NEVER: u64 = u64::MAX;
/// Name of the scenario as it stands, where it has no variants.
pub const BASE: &str = "base";

/// One simulation, its variants and its bands.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// Name, as on the command line.
    pub name: String,
    /// What it shows, in a sentence or two.
    pub about: String,
    /// Where its figures come from.
    pub source: String,
    /// The machine.
    pub machine: Machine,
    /// The knobs, before a variant changes them.
    pub policy: Policy,
    /// Memcgs except the root, parents before children.
    pub memcgs: Vec<Memcg>,
    /// Disks.
    pub disks: Vec<Disk>,
    /// Mounted file systems.
    pub filesystems: Vec<Filesystem>,
    /// Files, or groups of equal files.
    pub files: Vec<File>,
    /// Tasks that write through the page cache.
    pub writers: Vec<Writer>,
    /// Tasks that write past it.
    pub direct: Vec<Direct>,
    /// Tasks that read `memory.stat`.
    pub stat_readers: Vec<StatReader>,
    /// What happens at certain times.
    pub events: Vec<Event>,
    /// Simulated time, microseconds.
    pub duration_us: u64,
    /// Seeds of which reports take the median.
    pub seeds: u32,
    /// What to compare: edits of this scenario by name, in order. None: only the scenario as it stands, called [`BASE`].
    pub variants: Vec<Variant>,
    /// Bands.
    pub expect: Vec<Expect>,
}

impl Default for Scenario {
    fn default() -> Scenario {
        Scenario {
            name: String::new(),
            about: String::new(),
            source: String::new(),
            machine: Machine::default(),
            policy: Policy::mainline(),
            memcgs: Vec::new(),
            disks: Vec::new(),
            filesystems: Vec::new(),
            files: Vec::new(),
            writers: Vec::new(),
            direct: Vec::new(),
            stat_readers: Vec::new(),
            events: Vec::new(),
            duration_us: 60_000_000,
            seeds: 1,
            variants: Vec::new(),
            expect: Vec::new(),
        }
    }
}

/// The machine and its `vm.*` settings.
#[derive(Clone, PartialEq, Debug)]
pub struct Machine {
    /// Memory that can hold page cache or be free, bytes.
    pub memory_bytes: u64,
    /// Online and possible CPUs, 1 to 512.
    pub cpus: u32,
    /// Ticks a second: 100, 250, 300 or 1000.
    pub hz: u32,
    /// `vm.dirty_ratio`, percent.
    pub dirty_ratio: u64,
    /// `vm.dirty_background_ratio`, percent.
    pub dirty_background_ratio: u64,
    /// `vm.dirty_bytes`; 0: the ratio counts.
    pub dirty_bytes: u64,
    /// `vm.dirty_background_bytes`; 0: the ratio counts.
    pub dirty_background_bytes: u64,
    /// `vm.dirty_expire_centisecs`
    pub dirty_expire_centisecs: u64,
    /// `vm.dirty_writeback_centisecs`
    pub dirty_writeback_centisecs: u64,
    /// Time of a statistics flush that does not depend on its size, microseconds.
    pub flush_base_us: u64,
    /// Time of a statistics flush for each CPU and memcg visited, nanoseconds.
    pub flush_visit_ns: u64,
    /// Time to look at one inode of a dying wb, nanoseconds.
    pub inode_walk_ns: u64,
}

impl Default for Machine {
    fn default() -> Machine {
        Machine {
            memory_bytes: 8 << 30,
            cpus: 64,
            hz: 250,
            dirty_ratio: 20,
            dirty_background_ratio: 10,
            dirty_bytes: 0,
            dirty_background_bytes: 0,
            dirty_expire_centisecs: 3000,
            dirty_writeback_centisecs: 500,
            flush_base_us: 5000,
            flush_visit_ns: 20_000,
            inode_walk_ns: 20,
        }
    }
}

/// Index into [`Scenario::memcgs`]; `None` where it is optional: the root.
pub type MemcgRef = usize;
/// Index into [`Scenario::disks`].
pub type DiskRef = usize;
/// Index into [`Scenario::filesystems`].
pub type FsRef = usize;
/// Index into [`Scenario::files`].
pub type FileRef = usize;

/// A memory cgroup.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Memcg {
    /// Path below the root.
    pub name: String,
    /// Parent; `None`: the root.
    pub parent: Option<MemcgRef>,
    /// `memory.max`, bytes; `None`: no limit.
    pub max_bytes: Option<u64>,
    /// `memory.high`, bytes; `None`: no limit.
    pub high_bytes: Option<u64>,
    /// Reserve of [`crate::policy::Freerun::DirtyMin`], bytes.
    pub dirty_min_bytes: u64,
    /// A dirty ratio of its own, percent; `None`: `vm.dirty_ratio`.
    pub dirty_ratio: Option<u64>,
    /// Memory charged from the start that is not page cache, bytes.
    pub anon_bytes: u64,
}

/// A modelled disk.
#[derive(Clone, PartialEq, Debug)]
pub struct Disk {
    /// Name.
    pub name: String,
    /// Write bandwidth.
    pub write_bps: u64,
    /// Read bandwidth.
    pub read_bps: u64,
    /// Requests in flight at most.
    pub queue: u32,
    /// Largest request.
    pub request_bytes: u64,
    /// Time a request takes besides its transfer when it does not follow the one before it.
    pub seek_us: u64,
    /// Bytes that go through at once after the disk was idle, before the bandwidth limits.
    pub burst_bytes: u64,
    /// Bandwidth caps of memcgs on this disk (`io.max`).
    pub caps: Vec<Cap>,
    /// Faults.
    pub faults: Vec<Fault>,
}

impl Default for Disk {
    fn default() -> Disk {
        Disk {
            name: String::new(),
            write_bps: 0,
            read_bps: 0,
            queue: 64,
            request_bytes: 512 << 10,
            seek_us: 0,
            burst_bytes: 0,
            caps: Vec::new(),
            faults: Vec::new(),
        }
    }
}

/// The bandwidth that a memcg, not counting its children, has of a disk at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cap {
    /// Memcg; `None`: the root.
    pub memcg: Option<MemcgRef>,
    /// Bytes a second, reads and writes together.
    pub bps: u64,
}

/// Something that a disk does wrong, from a time on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Fault {
    /// Name, for edits.
    pub name: String,
    /// What.
    pub kind: FaultKind,
    /// From when; [`NEVER`] turns it off.
    pub at_us: u64,
    /// For how long; for the kinds that hit requests: those submitted in that time.
    pub for_us: u64,
}

/// Kinds of faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum FaultKind {
    /// Requests fail with an I/O error.
    #[default]
    Error,
    /// Nothing completes.
    Stall,
    /// Requests complete, and the first half of each is durable only.
    Torn,
    /// Cache flushes complete without effect.
    LostFlush,
    /// The disk is gone: everything fails, at once, and for good.
    Removal,
}

/// A mounted file system, and its bdi. What is not stated follows from whether it is a FUSE mount: [`Filesystem::of`].
#[derive(Clone, PartialEq, Debug)]
pub struct Filesystem {
    /// Name.
    pub name: String,
    /// Where it is.
    pub disk: DiskRef,
    /// A FUSE mount: strict limit, 1 % of the threshold, no cgroup writeback unless stated.
    pub fuse: bool,
    /// Cgroup writeback.
    pub cgroup_writeback: bool,
    /// `BDI_CAP_STRICTLIMIT`
    pub strictlimit: bool,
    /// `min_ratio`, parts per million.
    pub min_ratio_ppm: u64,
    /// `max_ratio`, parts per million.
    pub max_ratio_ppm: u64,
    /// Order of its folios, 0 to 9.
    pub order: u32,
    /// Pages whose writeback ends together (spec throttle 9.5, C); 0: request by request.
    pub completion_batch_pages: u64,
    /// Time that a write takes for each folio besides copying, nanoseconds.
    pub folio_cost_ns: u64,
    /// Can leave inodes `I_DIRTY_SYNC` after syncfs.
    pub dirty_sync_leftovers: bool,
}

impl Filesystem {
    /// What a file system is like if nothing is stated. A FUSE mount has a strict limit of 1 % and no cgroup writeback.
    pub fn of(fuse: bool) -> Filesystem {
        Filesystem {
            name: String::new(),
            disk: 0,
            fuse,
            cgroup_writeback: !fuse,
            strictlimit: fuse,
            min_ratio_ppm: 0,
            max_ratio_ppm: if fuse { 10_000 } else { 1_000_000 },
            order: 0,
            completion_batch_pages: 0,
            folio_cost_ns: 0,
            dirty_sync_leftovers: false,
        }
    }
}

impl Default for Filesystem {
    fn default() -> Filesystem {
        Filesystem::of(false)
    }
}

/// `count` equal files.
#[derive(Clone, PartialEq, Debug)]
pub struct File {
    /// Name; of a group, with a number after it.
    pub name: String,
    /// File system.
    pub fs: FsRef,
    /// Files in the group.
    pub count: u32,
    /// Size of each at the start, bytes, all of it clean and not in memory.
    pub size_bytes: u64,
    /// Memcg whose wb owns the inodes at the start; `None`: whoever dirties first.
    pub owner: Option<Owner>,
    /// The inode of the block device, where a file system keeps its metadata.
    pub bdev: bool,
}

impl Default for File {
    fn default() -> File {
        File { name: String::new(), fs: 0, count: 1, size_bytes: 0, owner: None, bdev: false }
    }
}

/// An owner that is stated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// The root memcg.
    Root,
    /// This one.
    Memcg(MemcgRef),
}

/// Where the next write goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pattern {
    /// From the start to the end, and from the start again.
    #[default]
    Sequential,
    /// To the end of the file; with many files, of each in turn.
    Append,
    /// To an aligned place that the seed chooses.
    Random,
}

/// A task that writes through the page cache.
#[derive(Clone, PartialEq, Debug)]
pub struct Writer {
    /// Name.
    pub name: String,
    /// Memcg; `None`: the root.
    pub memcg: Option<MemcgRef>,
    /// File or group of files.
    pub file: FileRef,
    /// Where it writes.
    pub pattern: Pattern,
    /// Bytes of one write(2).
    pub block_bytes: u64,
    /// Speed at which the data is copied into the page cache.
    pub copy_bps: u64,
    /// Schedule that it keeps; `None`: as fast as it can. Lag is the time behind it.
    pub pace_bps: Option<u64>,
    /// When it starts; [`NEVER`] leaves it out.
    pub start_us: u64,
    /// When it stops; `None`: at the end.
    pub stop_us: Option<u64>,
    /// Bytes after which it stops.
    pub total_bytes: Option<u64>,
    /// Real-time or deadline class.
    pub rt: bool,
    /// `PF_LOCAL_THROTTLE`
    pub local_throttle: bool,
    /// Writes that are not to wait (`IOCB_NOWAIT`): they are tried again a tick later.
    pub nowait: bool,
    /// fsync when it stops; its time counts as the writer's.
    pub fsync: bool,
    /// Pages of this file dirtied with every write: the metadata that goes with the data.
    pub metadata: Option<FileRef>,
    /// Metadata pages with every write.
    pub metadata_pages: u32,
}

impl Default for Writer {
    fn default() -> Writer {
        Writer {
            name: String::new(),
            memcg: None,
            file: 0,
            pattern: Pattern::Sequential,
            block_bytes: 1 << 20,
            copy_bps: 3_000_000_000,
            pace_bps: None,
            start_us: 0,
            stop_us: None,
            total_bytes: None,
            rt: false,
            local_throttle: false,
            nowait: false,
            fsync: false,
            metadata: None,
            metadata_pages: 0,
        }
    }
}

/// A task that writes (or reads) past the page cache.
#[derive(Clone, PartialEq, Debug)]
pub struct Direct {
    /// Name.
    pub name: String,
    /// Memcg, for the disk's caps; `None`: the root.
    pub memcg: Option<MemcgRef>,
    /// Disk.
    pub disk: DiskRef,
    /// Reads instead of writes.
    pub read: bool,
    /// Bytes of a request.
    pub block_bytes: u64,
    /// Requests that it keeps in flight.
    pub depth: u32,
    /// Bytes after which it stops; `None`: at the end.
    pub total_bytes: Option<u64>,
    /// When it starts; [`NEVER`] leaves it out.
    pub start_us: u64,
}

impl Default for Direct {
    fn default() -> Direct {
        Direct { name: String::new(), memcg: None, disk: 0, read: false, block_bytes: 1 << 20, depth: 1, total_bytes: None, start_us: 0 }
    }
}

/// A task that reads `memory.stat`, which flushes the statistics.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct StatReader {
    /// Name, for edits.
    pub name: String,
    /// Memcg whose file it reads; `None`: the root's.
    pub memcg: Option<MemcgRef>,
    /// Time between two reads.
    pub every_us: u64,
    /// When it starts; [`NEVER`] leaves it out.
    pub start_us: u64,
}

/// Something that an administrator does.
#[derive(Clone, PartialEq, Debug)]
pub struct Event {
    /// Name, for edits.
    pub name: String,
    /// When; [`NEVER`] leaves it out.
    pub at_us: u64,
    /// What.
    pub what: Action,
}

/// What an administrator can do.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// `rmdir`: the memcg and its blkcg go offline.
    Remove(MemcgRef),
    /// `syncfs`
    Sync(FsRef),
    /// Writes `memory.max`; `None`: no limit.
    SetMax(MemcgRef, Option<u64>),
    /// Writes `vm.dirty_ratio`.
    SetDirtyRatio(u64),
    /// Truncates a file, or a group of them, to nothing.
    Truncate(FileRef),
}

/// The scenario with other values.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Variant {
    /// Name: the `policy` of reports.
    pub name: String,
    /// Edits: (path, value), as [`Scenario::with`] takes them.
    pub set: Vec<(String, String)>,
}

/// A band for a metric of a variant.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Expect {
    /// Variant.
    pub variant: String,
    /// Metric, as in [`crate::sim::METRICS`]; of one writer with `writer.metric`.
    pub metric: String,
    /// The metric is divided by that of this variant.
    pub relative_to: Option<String>,
    /// What the source of the scenario says, in its own words.
    pub seed_value: String,
    /// Least value.
    pub low: Option<f64>,
    /// Greatest value.
    pub high: Option<f64>,
    /// Why the band can't be met, if it is known not to be.
    pub unmet: Option<String>,
}
