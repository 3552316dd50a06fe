//! The operations of cases: one row each, from which the type, the parser, the printer and the help text are made.

use super::ast::{BdiRef, CgroupRef, InodeRef, SbRef, TaskRef, WbRef};
use super::value::{CssId, FlushEntry, Reader, Ref, Value, Writer};
use crate::linux::mm::memcontrol::stats::StatItem;
use crate::text::Bad;

/// Bits of [`OpInfo::places`]: in `setup`.
pub const SETUP: u8 = 1;
/// Bits of [`OpInfo::places`]: in a task.
pub const TASK: u8 = 2;
/// Bits of [`OpInfo::places`]: in `teardown`.
pub const TEARDOWN: u8 = 4;
const ANY: u8 = SETUP | TASK | TEARDOWN;

/// Description of one operation.
#[derive(Clone, Copy, Debug)]
pub struct OpInfo {
    /// Node name.
    pub name: &'static str,
    /// Where it may stand.
    pub places: u8,
    /// Parameters: (name, or empty for a positional argument; what it takes; may it be left out).
    pub params: &'static [(&'static str, &'static str, bool)],
    /// What it does.
    pub says: &'static str,
}

macro_rules! ops {
    ($($(#[doc = $says:literal])+ $var:ident $name:literal $places:expr, { $($(#[$fm:meta])* $field:ident: $ty:ty = $how:tt $(or $default:expr)?),* $(,)? })*) => {
        /// One operation of a case.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub enum Op {
            $($(#[doc = $says])+ $var { $($(#[$fm])* $field: $ty),* },)*
        }
        /// Every operation, in the order of the documentation.
        pub const OPS: &[OpInfo] = &[$(OpInfo {
            name: $name,
            places: $places,
            params: &[$((ops!(@name $how), <$ty as Value>::WHAT, ops!(@optional $($default)?))),*],
            says: concat!($($says),+),
        }),*];
        impl Op {
            /// Node name.
            pub fn name(&self) -> &'static str {
                match self { $(Op::$var { .. } => $name),* }
            }
            /// Everything that it names: (parameter, or empty for a positional argument; what it names).
            pub fn refs(&self) -> Vec<(&'static str, Ref)> {
                let mut out = Vec::new();
                match self {
                    $(Op::$var { $($field),* } => { $(out.extend($field.names().map(|r| (ops!(@name $how), r)));)* })*
                }
                out
            }
            #[allow(clippy::redundant_closure_call, reason = "`?` leaves the operation only, not the function")]
            pub(super) fn read(name: &str, r: &mut Reader<'_>) -> Option<Result<Op, Bad>> {
                Some(match name {
                    $($name => (|| Ok(Op::$var { $($field: ops!(@read r, $ty, $how $(, $default)?)),* }))(),)*
                    _ => return None,
                })
            }
            pub(super) fn write(&self, w: &mut Writer<'_>) {
                match self {
                    $(Op::$var { $($field),* } => { $(ops!(@write w, $field, $how $(, $default)?);)* })*
                }
            }
        }
    };
    (@name arg) => { "" };
    (@name $p:literal) => { $p };
    (@optional) => { false };
    (@optional $d:expr) => { true };
    (@read $r:ident, $ty:ty, arg) => { $r.arg::<$ty>()? };
    (@read $r:ident, $ty:ty, $p:literal) => { $r.prop::<$ty>($p)? };
    (@read $r:ident, $ty:ty, $p:literal, $d:expr) => { $r.prop_or::<$ty>($p, $d)? };
    (@write $w:ident, $f:ident, arg) => { $w.arg($f) };
    (@write $w:ident, $f:ident, $p:literal) => { $w.prop($p, $f) };
    (@write $w:ident, $f:ident, $p:literal, $d:expr) => { if *$f != $d { $w.prop($p, $f) } };
}

ops! {
    /// Creates and registers a backing device.
    Bdi "bdi" ANY, {
        /// Its name.
        bdi: BdiRef = arg,
    }
    /// Makes a cgroup below the one that its path names (`mkdir`).
    Cgroup "cgroup" ANY, {
        /// Its path.
        cgroup: CgroupRef = arg,
        /// It has a memory css of its own.
        memory: bool = "memory" or true,
        /// It has an io css of its own.
        io: bool = "io" or false,
    }
    /// Mounts a file system.
    Sb "sb" ANY, {
        /// Its name.
        sb: SbRef = arg,
        /// Device.
        bdi: BdiRef = "bdi",
        /// The file system keeps the device for itself and unregisters it at umount.
        own_bdi: bool = "own-bdi" or false,
        /// The file system supports cgroup writeback.
        cgroup_writeback: bool = "cgroup-writeback" or true,
    }
    /// Makes an inode, with one reference.
    Inode "inode" ANY, {
        /// Its name.
        inode: InodeRef = arg,
        /// File system.
        sb: SbRef = "sb",
        /// It is a DAX inode.
        dax: bool = "dax" or false,
        /// It is a block-device inode.
        blkdev: bool = "blkdev" or false,
        /// Device of a block-device inode; otherwise, and by default, that of the file system.
        bdi: Option<BdiRef> = "bdi" or None,
        /// It is the whole disk's block-device inode: its free drops a reference on the device.
        disk: bool = "disk" or false,
        /// Its pages stay under writeback until an interrupt completes them.
        async_io: bool = "async-io" or false,
    }
    /// Removes the device (`bdi_unregister`).
    Unplug "unplug" ANY, {
        /// Device.
        bdi: BdiRef = arg,
    }
    /// Drops the case's reference on the device (`bdi_put`).
    BdiPut "bdi-put" ANY, {
        /// Device.
        bdi: BdiRef = arg,
    }
    /// Removes a cgroup (`rmdir`).
    Rmdir "rmdir" ANY, {
        /// Cgroup.
        cgroup: CgroupRef = arg,
    }
    /// Gives a cgroup an io css of its own.
    EnableIo "enable-io" ANY, {
        /// Cgroup.
        cgroup: CgroupRef = arg,
    }
    /// Takes a cgroup's own io css away.
    DisableIo "disable-io" ANY, {
        /// Cgroup.
        cgroup: CgroupRef = arg,
    }
    /// A process moves into a cgroup, which is populated from now on.
    Enter "enter" ANY, {
        /// Cgroup.
        cgroup: CgroupRef = arg,
    }
    /// A process leaves a cgroup.
    Leave "leave" ANY, {
        /// Cgroup.
        cgroup: CgroupRef = arg,
    }
    /// Unmounts a file system.
    Umount "umount" ANY, {
        /// File system.
        sb: SbRef = arg,
    }
    /// The device vanishes below a mounted file system (`retire_super`).
    Retire "retire" ANY, {
        /// File system.
        sb: SbRef = arg,
    }
    /// Takes a reference on an inode (`ihold`).
    Open "open" ANY, {
        /// Inode.
        inode: InodeRef = arg,
    }
    /// Drops a reference on an inode (`iput`).
    Close "close" ANY, {
        /// Inode.
        inode: InodeRef = arg,
    }
    /// Takes the last name of an inode away: it goes at its last put.
    Unlink "unlink" ANY, {
        /// Inode.
        inode: InodeRef = arg,
    }
    /// The disk of a block-device inode is released, and with it its reference on the inode.
    DiskRelease "disk-release" ANY, {
        /// Inode.
        inode: InodeRef = arg,
    }
    /// Makes an inode old enough for periodic writeback.
    Expire "expire" ANY, {
        /// Inode.
        inode: InodeRef = arg,
    }
    /// Writes to an inode: pages become dirty and are charged to a cgroup.
    Dirty "dirty" ANY, {
        /// Inode.
        inode: InodeRef = arg,
        /// Cgroup of the writer.
        cgroup: CgroupRef = "as" or CgroupRef::ROOT,
        /// Pages.
        pages: u32 = "pages" or 1,
    }
    /// Changes attributes of an inode (`I_DIRTY_SYNC`).
    DirtyInode "dirty-inode" ANY, {
        /// Inode.
        inode: InodeRef = arg,
        /// Cgroup of the caller.
        cgroup: CgroupRef = "as" or CgroupRef::ROOT,
    }
    /// Changes timestamps of an inode (`I_DIRTY_TIME`).
    DirtyTime "dirty-time" ANY, {
        /// Inode.
        inode: InodeRef = arg,
        /// Cgroup of the caller.
        cgroup: CgroupRef = "as" or CgroupRef::ROOT,
    }
    /// Writes one inode back (`writeback_single_inode`, as `write_inode_now` calls it).
    Writeback "writeback" ANY, {
        /// Inode.
        inode: InodeRef = arg,
        /// Data integrity.
        wait: bool = "wait" or false,
    }
    /// Writes the pages of one file back and waits (`fsync`).
    Fsync "fsync" ANY, {
        /// Inode.
        inode: InodeRef = arg,
        /// Cgroup of the caller.
        cgroup: CgroupRef = "as" or CgroupRef::ROOT,
    }
    /// Starts writeback of everything (`wakeup_flusher_threads`).
    Flush "flush" ANY, {}
    /// Writes back what has only dirty timestamps (`wakeup_dirtytime_writeback`).
    FlushTime "flush-time" ANY, {}
    /// Wakes the flushers of a device, as the periodic timer does.
    Periodic "periodic" ANY, {
        /// Device.
        bdi: BdiRef = arg,
    }
    /// Writes a file system back and waits (`sync_inodes_sb`).
    Sync "sync" ANY, {
        /// File system.
        sb: SbRef = arg,
    }
    /// A writer is over its limit: one round of `balance_dirty_pages_ratelimited`.
    Throttle "throttle" ANY, {
        /// Device it writes to.
        bdi: BdiRef = arg,
        /// Cgroup of the writer.
        cgroup: CgroupRef = "as" or CgroupRef::ROOT,
    }
    /// Sends the foreign flushes that a cgroup has recorded (`mem_cgroup_flush_foreign`).
    FlushForeign "flush-foreign" ANY, {
        /// Device whose wb of the cgroup asks.
        bdi: BdiRef = arg,
        /// Cgroup.
        cgroup: CgroupRef = "as" or CgroupRef::ROOT,
    }
    /// Flushes one memcg's wb on a device (`cgroup_writeback_by_id`).
    ById "by-id" ANY, {
        /// Device.
        bdi: BdiRef = arg,
        /// memcg.
        id: CssId = "id",
        /// Waits for the flush.
        wait: bool = "wait" or true,
    }
    /// Gets the wb of a cgroup, making it if there is none (`wb_get_create`).
    GetCreate "get-create" ANY, {
        /// Device.
        bdi: BdiRef = arg,
        /// Cgroup.
        cgroup: CgroupRef = "of" or CgroupRef::ROOT,
        /// Keeps the reference under this name, instead of dropping it.
        keep: Option<WbRef> = "keep" or None,
    }
    /// Gets the wb of the current cgroup, making it if there is none (`wb_get_create_current`).
    GetCreateCurrent "get-create-current" ANY, {
        /// Device.
        bdi: BdiRef = arg,
        /// Cgroup of the caller.
        cgroup: CgroupRef = "as" or CgroupRef::ROOT,
        /// Keeps the reference under this name, instead of dropping it.
        keep: Option<WbRef> = "keep" or None,
    }
    /// Attaches an inode to a wb if it has none (`inode_attach_wb`).
    Attach "attach" ANY, {
        /// Inode.
        inode: InodeRef = arg,
        /// Cgroup of the caller.
        cgroup: CgroupRef = "as" or CgroupRef::ROOT,
    }
    /// Asks for an inode to be switched to another memcg's wb (`inode_switch_wbs`).
    Switch "switch" ANY, {
        /// Inode.
        inode: InodeRef = arg,
        /// New owner.
        to: CssId = "to",
    }
    /// Reads the debugfs statistics of a device.
    Stats "stats" ANY, {
        /// Device.
        bdi: BdiRef = arg,
    }
    /// Takes a reference on the wb that an inode is attached to, and keeps it.
    Hold "hold" ANY, {
        /// Name of the reference.
        wb: WbRef = arg,
        /// Inode.
        inode: InodeRef = "inode",
    }
    /// Drops a kept reference on a wb.
    Release "release" ANY, {
        /// Name of the reference.
        wb: WbRef = arg,
    }
    /// Changes a statistic of a cgroup's memory css, on the task's CPU (`mod_memcg_state`).
    StatAdd "stat-add" ANY, {
        /// Cgroup.
        cgroup: CgroupRef = arg,
        /// By so much, in the item's unit.
        by: i32 = "by" or 1,
        /// Statistic.
        item: StatItem = "item" or StatItem::FileDirty,
        /// So often.
        times: u32 = "times" or 1,
    }
    /// Flushes the statistics of a cgroup and of those below it.
    StatFlush "stat-flush" ANY, {
        /// Cgroup.
        cgroup: CgroupRef = arg,
        /// Entry.
        entry: FlushEntry = "entry" or FlushEntry::Gated,
    }
    /// Reads what the throttling loop reads of a cgroup's statistics, as the machine's policy says (`mem_cgroup_wb_stats`).
    StatRead "stat-read" ANY, {
        /// Cgroup.
        cgroup: CgroupRef = arg,
        /// Pages that may be dirtied unseen, where the policy counts them.
        quantum: u32 = "quantum" or 0,
    }
    /// A CPU goes away, as far as memory statistics see.
    CpuOffline "cpu-offline" ANY, {
        /// CPU.
        cpu: u32 = arg,
    }
    /// It comes back.
    CpuOnline "cpu-online" ANY, {
        /// CPU.
        cpu: u32 = arg,
    }
    /// Waits until another task of the case has ended.
    Join "join" TASK, {
        /// The other task.
        task: TaskRef = arg,
    }
    /// Passes steps that touch nothing.
    Noise "noise" TASK, {
        /// Number of steps.
        steps: u32 = arg,
    }
    /// Advances the modelled time.
    Tick "tick" ANY, {
        /// By so much.
        jiffies: u32 = arg,
    }
}

/// Description of the operation with this node name.
pub fn info(name: &str) -> Option<&'static OpInfo> {
    OPS.iter().find(|o| o.name == name)
}
