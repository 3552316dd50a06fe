//! Writeback control, works and switch contexts.
//!
//! Mirrors:    include/linux/writeback.h, struct wb_writeback_work and struct inode_switch_wbs_context of
//!             fs/fs-writeback.c; fidelity: model.
//! Simplified: an isw holds at most ISW_MAX inodes; page budgets are small numbers.

use crate::kstruct;
use crate::linux::include::backing_dev_defs::BdiWriteback;
use crate::linux::include::cgroup_defs::WbCompletion;
use crate::linux::include::fs::{Inode, SuperBlock};
use crate::sync::{Field, ListHead, Ptr, Var};

/// `enum writeback_sync_modes`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SyncMode {
    /// Do not wait.
    None = 0,
    /// Data integrity.
    All = 1,
}

/// `enum wb_reason`
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum WbReason {
    Background = 0,
    Vmscan = 1,
    Sync = 2,
    Periodic = 3,
    FsFreeSpace = 4,
    ForkerThread = 5,
    ForeignFlush = 6,
    Dontcache = 7,
}

kstruct! {
    /// `struct wb_writeback_work`
    pub struct WbWritebackWork: "work", "LT-MEM-5", work_fields {
        /// Pages still to write; zero or less writes nothing.
        nr_pages: Var<i64>,
        /// Restrict to this superblock; null for all.
        sb: Var<SuperBlock>,
        /// `SyncMode` as a number.
        sync_mode: Var<u32>,
        /// Yields to other works.
        for_background: Var<bool>,
        /// Yields to other works, takes expired inodes only.
        for_kupdate: Var<bool>,
        /// Issued by sync.
        for_sync: Var<bool>,
        /// Freed by who finishes it.
        auto_free: Var<bool>,
        /// Completion to count down, or null.
        done: Var<WbCompletion>,
        /// On wb->work_list.
        list: ListHead,
    }
}

/// Most inodes in one switch context.
pub const ISW_MAX: u32 = 3;

/// The inode array of a switch context, NULL-terminated.
#[derive(Clone, Copy)]
pub struct InodeArray(Ptr);

impl Field for InodeArray {
    const CELLS: u32 = ISW_MAX + 1;
    fn at(p: Ptr) -> Self {
        InodeArray(p)
    }
}

impl InodeArray {
    /// Slot `i`.
    pub fn at(self, i: u32) -> Var<Inode> {
        <Var<Inode> as Field>::at(self.0.add(i))
    }
}

kstruct! {
    /// `struct inode_switch_wbs_context`
    pub struct InodeSwitchWbsContext: "isw", "LT-MEM-0", isw_fields {
        /// On the destination's switch_wbs_ctxs.
        list: Var<Ptr>,
        /// Inodes to switch.
        inodes: InodeArray,
    }
}

/// `struct writeback_control`, a local variable of its owner.
#[derive(Clone, Copy, Debug)]
pub struct WritebackControl {
    /// Data integrity or not.
    pub sync_mode: SyncMode,
    /// Pages left.
    pub nr_to_write: i64,
    /// Pages skipped.
    pub pages_skipped: i64,
    /// wb it is attached to, or null.
    pub wb: BdiWriteback,
    /// Its inode.
    pub inode: Inode,
    /// memcg css id of `wb`.
    pub wb_id: u32,
    /// Owner of the last round's majority.
    pub wb_lcand_id: u32,
    /// This round's candidate.
    pub wb_tcand_id: u32,
    /// Bytes of the current owner.
    pub wb_bytes: u64,
    /// Bytes of the last candidate.
    pub wb_lcand_bytes: u64,
    /// Bytes of this round's candidate.
    pub wb_tcand_bytes: u64,
    /// Issued by sync(2), which waits for the pages itself.
    pub for_sync: bool,
}

impl WritebackControl {
    /// A control that is attached to no wb, for at most `nr_to_write` pages.
    pub fn new(sync_mode: SyncMode, nr_to_write: i64) -> WritebackControl {
        WritebackControl {
            sync_mode,
            nr_to_write,
            pages_skipped: 0,
            wb: BdiWriteback::NULL,
            inode: Inode::NULL,
            wb_id: 0,
            wb_lcand_id: 0,
            wb_tcand_id: 0,
            wb_bytes: 0,
            wb_lcand_bytes: 0,
            wb_tcand_bytes: 0,
            for_sync: false,
        }
    }
}

impl WbWritebackWork {
    /// `work->sync_mode`
    pub fn mode(self) -> SyncMode {
        if self.sync_mode().get() == SyncMode::All as u32 { SyncMode::All } else { SyncMode::None }
    }
}
