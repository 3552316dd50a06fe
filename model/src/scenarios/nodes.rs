//! The properties of each kind of node: the one table from which parsing, printing, editing and help come.

use super::ast::{Cap, Direct, Disk, Expect, Fault, File, Filesystem, Machine, Memcg, Scenario, StatReader, Writer};
use super::form::*;
use crate::policy::Policy;
use crate::text::{Bad, Entries};

nodes! {
    Scenario = "scenario" {
        duration_us: Duration = "duration" required,
        seeds: Whole<u32, 1, 1000> = "seeds",
    }
    Machine = "machine" {
        memory_bytes: Memory = "memory" required,
        cpus: Whole<u32, 1, 512> = "cpus",
        hz: Hz = "hz",
        dirty_ratio: Percent = "dirty-ratio",
        dirty_background_ratio: Percent = "dirty-background-ratio",
        dirty_bytes: Size = "dirty-bytes",
        dirty_background_bytes: Size = "dirty-background-bytes",
        dirty_expire_centisecs: Centis = "dirty-expire",
        dirty_writeback_centisecs: Centis = "dirty-writeback",
        flush_base_us: Micros = "flush-base",
        flush_visit_ns: Nanos = "flush-visit",
        inode_walk_ns: Nanos = "inode-walk",
    }
    Policy = "policy" {
        flush: Flush = "flush",
        flush_shift: Whole<u32, 0, 20> = "flush-shift",
        foreign: Foreign = "foreign",
        sizing: Sizes = "sizing",
        freerun: Free = "freerun",
        fuse: Fuse = "fuse",
        order: Order = "order",
        cleanup: Clean = "cleanup",
        rules: Lookup = "lookup",
    }
    Memcg = "memcg" {
        max_bytes: Maybe<Bytes> = "max",
        high_bytes: Maybe<Bytes> = "high",
        dirty_min_bytes: Size = "dirty-min",
        dirty_ratio: Maybe<Percent> = "dirty-ratio",
        anon_bytes: Size = "anon",
    }
    Disk = "disk" {
        write_bps: Rate = "write" required,
        read_bps: Rate = "read",
        queue: Whole<u32, 1, 4096> = "queue",
        request_bytes: RequestBytes = "request",
        seek_us: Micros = "seek",
        burst_bytes: Size = "burst",
    }
    Cap = "cap" {
        bps: Rate = "rate" required,
    }
    Fault = "fault" {
        kind: FaultWord = "kind" required,
        at_us: When = "at" required,
        for_us: Micros = "for",
    }
    Filesystem = "fs" {
        disk: OfDisk = "disk" required,
        fuse: Flag = "fuse",
        cgroup_writeback: Flag = "cgroup-writeback",
        strictlimit: Flag = "strictlimit",
        min_ratio_ppm: Ppm = "min-ratio",
        max_ratio_ppm: Ppm = "max-ratio",
        order: Whole<u32, 0, MAX_ORDER> = "order",
        completion_batch_pages: Whole<u64, 0, 1_000_000> = "completion-batch-pages",
        folio_cost_ns: Nanos = "folio-cost",
        dirty_sync_leftovers: Flag = "dirty-sync-leftovers",
    }
    File = "file" {
        fs: OfFs = "fs" required,
        count: Whole<u32, 1, 1_000_000> = "count",
        size_bytes: Size = "size",
        owner: Maybe<OwnerName> = "owner",
        bdev: Flag = "bdev",
    }
    Writer = "writer" {
        memcg: AnyMemcg = "memcg",
        file: OfFile = "file" required,
        pattern: Where = "pattern",
        block_bytes: Block = "block",
        copy_bps: Rate = "copy",
        pace_bps: Maybe<Rate> = "pace",
        start_us: When = "start",
        stop_us: Maybe<Micros> = "stop",
        total_bytes: Maybe<Bytes> = "total",
        rt: Flag = "rt",
        local_throttle: Flag = "local-throttle",
        nowait: Flag = "nowait",
        fsync: Flag = "fsync",
        metadata: Maybe<OfFile> = "metadata",
        metadata_pages: Whole<u32, 0, 1024> = "metadata-pages",
    }
    Direct = "direct" {
        memcg: AnyMemcg = "memcg",
        disk: OfDisk = "disk" required,
        read: Flag = "read",
        block_bytes: Block = "block",
        depth: Whole<u32, 1, 4096> = "depth",
        total_bytes: Maybe<Bytes> = "total",
        start_us: When = "start",
    }
    StatReader = "stat-reader" {
        memcg: AnyMemcg = "memcg",
        every_us: Period = "every" required,
        start_us: When = "start",
    }
    Expect = "expect" {
        relative_to: Maybe<Text> = "relative-to",
        low: Maybe<Real> = "low",
        high: Maybe<Real> = "high",
        seed_value: Text = "seed",
        unmet: Maybe<Text> = "unmet",
    }
}

/// Properties of an event: when, what, and of what.
pub(super) const EVENT: &[(&str, &str)] = &[
    ("at", When::WHAT),
    ("do", "remove, sync, set-max, set-dirty-ratio or truncate"),
    ("memcg", OfMemcg::WHAT),
    ("fs", OfFs::WHAT),
    ("file", OfFile::WHAT),
    ("max", Bytes::WHAT),
    ("ratio", Percent::WHAT),
];

/// Kinds of nodes that edits reach, with their properties: (name, what it takes).
pub const KINDS: &[(&str, &[(&str, &str)])] = &[
    (Scenario::KIND, Scenario::PROPS),
    (Machine::KIND, Machine::PROPS),
    (Policy::KIND, Policy::PROPS),
    (Memcg::KIND, Memcg::PROPS),
    (Disk::KIND, Disk::PROPS),
    (Cap::KIND, Cap::PROPS),
    (Fault::KIND, Fault::PROPS),
    (Filesystem::KIND, Filesystem::PROPS),
    (File::KIND, File::PROPS),
    (Writer::KIND, Writer::PROPS),
    (Direct::KIND, Direct::PROPS),
    (StatReader::KIND, StatReader::PROPS),
    ("event", EVENT),
];
