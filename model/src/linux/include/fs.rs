//! Inodes and superblocks.
//!
//! Mirrors:    struct inode, struct super_block, struct address_space of include/linux/fs.h; fidelity: model.
//! Simplified: the page cache is three numbers an inode (pages with the dirty mark, pages on their way from dirty to
//!             writeback, pages under writeback), one folio lock for all of its folios, and the memcg that dirtied last.
//! Locks:      noted at each field.
//! Rules:      LT-REF-8, LT-LIST-6, LT-LIST-7, LT-ISW-1, LT-ACC-1, LT-MEM-6, LT-MEM-7.

use crate::linux::include::backing_dev_defs::{BackingDevInfo, BdiWriteback};
use crate::sync::{Bits, ListHead, Mutex, Ptr, Rwsem, SpinLock, Var, WaitQueue};
use crate::{container_of, kstruct};

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
        /// Links; an inode without links is evicted by its last iput.
        i_nlink: Var<i64>,
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
        /// Those of them that are not dirty any more: locked, and about to get the writeback mark. Atomic.
        nr_cleaning: Var<i64>,
        /// Pages with the writeback mark. i_pages.
        nr_writeback: Var<i64>,
        /// Waiters for pages under writeback. Waking needs i_pages.
        i_writeback_wait: WaitQueue,
        /// Lock of all of its folios, held from clearing the dirty bit to setting the writeback mark.
        folio_lock: Mutex,
        /// memcg css id of the pages dirtied last; an id, because pages of an offlined memcg are reparented. i_pages.
        folio_memcg_id: Var<u32>,
        /// Its pages stay under writeback until an interrupt completes them; otherwise the submitter completes them at once.
        io_completes_later: Var<bool>,
        /// Submissions so far, to name the completing interrupts.
        nr_bios: Var<u32>,
        /// Winner of the last vote round, a memcg css id.
        i_wb_frn_winner: Var<u32>,
        /// Average time of the vote.
        i_wb_frn_avg_time: Var<u32>,
        /// 16 slots of history.
        i_wb_frn_history: Var<u32>,
        /// Jiffies when it was put on b_dirty or b_dirty_time. i_lock.
        dirtied_when: Var<u64>,
        /// Dirtied long enough ago for periodic writeback: what the kernel derives from `dirtied_when`; set by the case.
        dirtied_expired: Var<bool>,
        /// Whole-disk block-device inode: its RCU free drops the disk's reference on the bdi.
        bd_puts_bdi: Var<bool>,
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
        /// SB_DYING: kill_sb ran; walkers skip it. s_umount.
        s_dying: Var<bool>,
        /// Passive references: they keep the memory, not the mount. Atomic.
        s_count: Var<i64>,
        /// The filesystem keeps this bdi for itself and unregisters it at umount.
        s_own_bdi: Var<bool>,
        /// SB_I_CGROUPWB.
        s_cgroupwb: Var<bool>,
        /// Liveness of the superblock.
        s_umount: Rwsem,
        /// Switches in flight, with prepares in progress.
        s_isw_nr_in_flight: Var<i64>,
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
        /// SB_I_NO_DATA_INTEGRITY: sync only kicks the flushers.
        s_no_data_integrity: Var<bool>,
        /// On super_blocks.
        s_list: ListHead,
        /// RCU head of the free.
        rcu: Var<Ptr>,
    }
}

kstruct! {
    /// A list head that is a local variable.
    pub struct ListOnStack: "list", "LT-MEM-0", list_on_stack_fields {
        /// The head.
        head: ListHead,
    }
}

/// The inode whose `i_io_list` is `e`.
pub fn wb_inode(e: ListHead) -> Inode {
    container_of!(e, Inode, inode_fields::i_io_list)
}
