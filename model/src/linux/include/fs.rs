//! Inodes and superblocks.
//!
//! Mirrors:    struct inode, struct super_block, struct address_space of include/linux/fs.h; fidelity: model.
//! Simplified: the page cache is two numbers an inode, dirty pages and pages under writeback, and the memcg that dirtied last.

use crate::kstruct;
use crate::linux::include::backing_dev_defs::{BackingDevInfo, BdiWriteback};
use crate::linux::include::cgroup_defs::Css;
use crate::sync::{Bits, ListHead, Mutex, Ptr, Rwsem, SpinLock, Var, WaitQueue};

/// `I_NEW`
pub const I_NEW: u64 = 1 << 0;
/// `I_SYNC`: writeback of the inode runs; pins it against eviction.
pub const I_SYNC: u64 = 1 << 1;
/// `I_DIRTY_SYNC`
pub const I_DIRTY_SYNC: u64 = 1 << 3;
/// `I_DIRTY_DATASYNC`
pub const I_DIRTY_DATASYNC: u64 = 1 << 4;
/// `I_DIRTY_PAGES`
pub const I_DIRTY_PAGES: u64 = 1 << 5;
/// `I_WILL_FREE`
pub const I_WILL_FREE: u64 = 1 << 6;
/// `I_FREEING`
pub const I_FREEING: u64 = 1 << 7;
/// `I_CLEAR`
pub const I_CLEAR: u64 = 1 << 8;
/// `I_DIRTY_TIME`
pub const I_DIRTY_TIME: u64 = 1 << 12;
/// `I_WB_SWITCH`: an entry of exactly one switch context that is not switched yet.
pub const I_WB_SWITCH: u64 = 1 << 13;
/// `I_SYNC_QUEUED`: on b_io or b_more_io.
pub const I_SYNC_QUEUED: u64 = 1 << 17;
/// `I_DIRTY_INODE`
pub const I_DIRTY_INODE: u64 = I_DIRTY_SYNC | I_DIRTY_DATASYNC;
/// `I_DIRTY`
pub const I_DIRTY: u64 = I_DIRTY_INODE | I_DIRTY_PAGES;
/// `I_DIRTY_ALL`
pub const I_DIRTY_ALL: u64 = I_DIRTY | I_DIRTY_TIME;

kstruct! {
    /// `struct inode` with its mapping.
    pub struct Inode: "inode", "LT-MEM-6", inode_fields {
        /// Owning superblock; constant.
        i_sb: Var<SuperBlock>,
        /// bdi of its pages (`inode_to_bdi`); constant.
        i_bdi: Var<BackingDevInfo>,
        /// Protects i_state and, with list_lock, i_io_list.
        i_lock: SpinLock,
        /// `I_*` bits.
        i_state: Bits,
        /// Reference count.
        i_count: Var<i64>,
        /// wb it is attached to, or null.
        i_wb: Var<BdiWriteback>,
        /// On one list of i_wb, or empty.
        i_io_list: ListHead,
        /// On s_inodes_wb while a page is under writeback. s_inode_wblist_lock.
        i_wb_list: ListHead,
        /// On s_inodes. s_inode_list_lock.
        i_sb_list: ListHead,
        /// Waiters for I_SYNC.
        i_sync_wait: WaitQueue,
        /// Hashed (reachable by name); an unhashed inode is not put on lists.
        i_hashed: Var<bool>,
        /// Block-device inode.
        i_blkdev: Var<bool>,
        /// DAX: never switched.
        i_dax: Var<bool>,
        /// xarray lock of its mapping, interrupt-safe.
        i_pages: SpinLock,
        /// Pages with the dirty mark. i_pages.
        nr_dirty: Var<i64>,
        /// Pages with the writeback mark. i_pages.
        nr_writeback: Var<i64>,
        /// Waiters for pages under writeback.
        i_writeback_wait: WaitQueue,
        /// Owner (memcg css) of the pages dirtied last.
        folio_css: Var<Css>,
        /// Winner of the last vote round, a memcg css id.
        i_wb_frn_winner: Var<u32>,
        /// Average time of the vote.
        i_wb_frn_avg_time: Var<u32>,
        /// 16 slots of history.
        i_wb_frn_history: Var<u32>,
        /// Old enough for periodic writeback.
        dirtied_expired: Var<bool>,
        /// RCU head of the free.
        rcu: Var<Ptr>,
    }
}

kstruct! {
    /// `struct super_block`
    pub struct SuperBlock: "sb", "LT-MEM-7", sb_fields {
        /// Backing device (referenced).
        s_bdi: Var<BackingDevInfo>,
        /// SB_ACTIVE.
        s_active: Var<bool>,
        /// The filesystem keeps this bdi for itself and unregisters it at umount.
        s_own_bdi: Var<bool>,
        /// SB_I_CGROUPWB.
        s_cgroupwb: Var<bool>,
        /// Liveness of the superblock.
        s_umount: Rwsem,
        /// Switches in flight, with prepares in progress.
        s_isw_nr_in_flight: Var<i64>,
        /// Umount waits here for them.
        s_isw_wait: WaitQueue,
        /// Protects s_inodes.
        s_inode_list_lock: SpinLock,
        /// All inodes.
        s_inodes: ListHead,
        /// Protects s_inodes_wb.
        s_inode_wblist_lock: SpinLock,
        /// Inodes with pages under writeback.
        s_inodes_wb: ListHead,
        /// Serialises wait_sb_inodes.
        s_sync_lock: Mutex,
        /// On super_blocks.
        s_list: ListHead,
    }
}
