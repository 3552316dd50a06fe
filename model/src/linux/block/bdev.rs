//! Block-device inodes, which tie a disk's bdi to the life of an inode.
//!
//! Mirrors:    block/bdev.c, bdev_alloc(), blkdev_put_whole(), bdev_free_inode(); block/genhd.c, del_gendisk() and
//!             disk_release(); fidelity: model.
//! Simplified: a disk is its bdi and its inodes; the gendisk is no object of its own (OBS-15 is not expressible).
//! Locks:      none here; eviction and unregistering take their own.
//! Ordering:   the disk's bdi reference is dropped in the RCU free of the whole-disk inode, after the inode left its wb.
//! Rules:      LT-MEM-0, LT-MEM-3, LT-REF-6.

use crate::kfn;
use crate::linux::fs::fs_writeback::inode_detach_wb;
use crate::linux::fs::inode::{drop_nlink, iput, new_inode};
use crate::linux::include::backing_dev_defs::BackingDevInfo;
use crate::linux::include::cgroup_defs::Cgroup;
use crate::linux::include::fs::{Inode, SuperBlock};
use crate::linux::mm::backing_dev::{bdi_put, bdi_unregister};
use crate::linux::mm::page_writeback::{file_write_and_wait, truncate_inode_pages_final};
use crate::mutants::{Mutant, mutated};

/// `bdev_alloc`: an inode of the block-device superblock for a disk (`whole`) or a partition of it.
///
/// The whole-disk inode takes over one reference on `bdi`.
pub async fn bdev_alloc(blockdev_superblock: SuperBlock, bdi: BackingDevInfo, whole: bool) -> Inode {
    kfn!(bdev_alloc);
    let inode = new_inode(blockdev_superblock).await;
    inode.i_bdi().set(bdi);
    inode.i_blkdev().set(true);
    inode.i_hashed().set(false);
    inode.bd_puts_bdi().set(whole);
    inode
}

/// `blkdev_put_whole`: last close by a task in `current`: writes and drops the pages.
pub async fn blkdev_put_whole(inode: Inode, current: Cgroup) {
    kfn!(blkdev_put_whole);
    file_write_and_wait(inode, current).await;
    truncate_inode_pages_final(inode).await;
    if mutated(Mutant::H015) {
        inode_detach_wb(inode).await;
    }
}

/// `del_gendisk`: the disk is gone; open files stay.
pub async fn del_gendisk(inode: Inode) {
    kfn!(del_gendisk);
    bdi_unregister(inode.i_bdi().get()).await;
}

/// `disk_release`: the last reference on the disk was dropped, and with it that of the disk on its inode.
pub async fn disk_release(inode: Inode) {
    kfn!(disk_release);
    if mutated(Mutant::H016) {
        inode.bd_puts_bdi().set(false);
        bdi_put(inode.i_bdi().get()).await;
    }
    bdev_drop(inode).await;
}

/// `bdev_drop`
pub async fn bdev_drop(inode: Inode) {
    drop_nlink(inode).await;
    iput(inode).await;
}

/// `bdev_free_inode`: the RCU free of a block-device inode.
pub async fn bdev_free_inode(inode: Inode) {
    kfn!(bdev_free_inode);
    if inode.bd_puts_bdi().get() {
        bdi_put(inode.i_bdi().get()).await;
    }
}
