//! Life of an inode: references, eviction, memory.
//!
//! Mirrors:    fs/inode.c, new_inode() to evict_inodes(), iput(), ihold(), igrab(); fidelity: mirror.
//! Simplified: no LRU, so an unused inode stays until umount or unlink; a lookup is a walk of s_inodes; the file system's
//!             evict_inode truncates, after an on-demand write where the choice `evict_inode` asks for it.
//! Locks:      s_inode_list_lock > i_lock; evict() runs with no lock held and may sleep.
//! Ordering:   I_FREEING and I_WILL_FREE are set under i_lock with i_count 0; memory goes a grace period after the detach.
//! Rules:      LT-REF-8, LT-MEM-6, LT-PROG-5, LT-ACC-1.

use super::fs_writeback::dirty::{inode_wait_for_writeback, sync_lazytime};
use super::fs_writeback::{inode_detach_wb, inode_io_list_del, write_inode_now, writeback_single_inode};
use crate::linux::block::bdev::bdev_free_inode;
use crate::linux::include::fs::{I_CLEAR, I_DIRTY_TIME, I_FREEING, I_NEW, I_WILL_FREE, Inode, SuperBlock, inode_fields};
use crate::linux::include::writeback::{SyncMode, WritebackControl};
use crate::linux::mm::page_writeback::truncate_inode_pages_final;
use crate::sync::{Choice, SpinGuard, Tp, call_rcu, choose, emit, kfree, kzalloc_nofail, report, with};
use crate::{container_of, kfn};

/// `new_inode`: a hashed inode with one link and one reference.
pub async fn new_inode(sb: SuperBlock) -> Inode {
    kfn!(new_inode);
    let inode = Inode(kzalloc_nofail(Inode::TYPE));
    inode.i_sb().set(sb);
    inode.i_bdi().set(sb.s_bdi().get());
    inode.i_count().set(1);
    inode.i_nlink().set(1);
    inode.i_hashed().set(true);
    inode.i_io_list().init();
    inode.i_wb_list().init();
    // The lockless loads of the barrier pairs ORD-2 and ORD-15.
    inode.i_state().weak();
    inode.i_wb().weak();
    inode.nr_dirty().weak();
    let _lock = sb.s_inode_list_lock().lock().await;
    inode.i_sb_list().add(sb.s_inodes());
    inode
}

/// `__iget`: one more reference, legal from zero. i_lock.
pub fn __iget(inode: Inode) {
    inode.i_count().set(inode.i_count().get() + 1);
}

/// `ihold`: one more reference for somebody who has one.
pub async fn ihold(inode: Inode) {
    if inode.i_count().inc().await < 1 {
        report("LT-REF-8", format!("ihold of {} without a reference", with(|m| m.mem.name(inode.ptr()))));
    }
}

/// `igrab`: a reference unless the inode is being freed; the caller keeps its memory.
pub async fn igrab(inode: Inode) -> bool {
    kfn!(igrab);
    let _i_lock = inode.i_lock().lock().await;
    if inode.i_state().get() & (I_FREEING | I_WILL_FREE) != 0 {
        return false;
    }
    __iget(inode);
    true
}

/// `ilookup`: a reference on an inode of `sb` if it is still there; nothing of the inode is touched otherwise.
pub async fn ilookup(sb: SuperBlock, inode: Inode) -> bool {
    kfn!(ilookup);
    let _lock = sb.s_inode_list_lock().lock().await;
    sb.s_inodes().entries().contains(&inode.i_sb_list()) && igrab(inode).await
}

/// `unlink` of the last name: the last iput evicts the inode.
pub async fn drop_nlink(inode: Inode) {
    let _i_lock = inode.i_lock().lock().await;
    inode.i_nlink().set(0);
}

/// `iput`: drops a reference; the last one may evict, hence sleep.
pub async fn iput(inode: Inode) {
    kfn!(iput);
    loop {
        let old = inode.i_count().add_unless(-1, 1).await;
        if old < 1 {
            report("LT-REF-8", format!("iput of {} without a reference", with(|m| m.mem.name(inode.ptr()))));
        }
        if old != 1 {
            return;
        }
        let linked = inode.i_nlink().get() > 0;
        if linked && sync_lazytime(inode).await {
            continue;
        }
        let i_lock = inode.i_lock().lock().await;
        if inode.i_state().get() & I_DIRTY_TIME != 0 && linked {
            continue;
        }
        if inode.i_count().dec().await == 1 {
            iput_final(inode, i_lock).await;
        }
        return;
    }
}

/// `iput_final`: keeps the inode in the cache, or evicts it.
async fn iput_final(inode: Inode, i_lock: SpinGuard) {
    kfn!(iput_final);
    let drop_it = inode.i_nlink().get() == 0 || !inode.i_hashed().get();
    if !drop_it && inode.i_sb().get().s_active().get() {
        return;
    }
    if drop_it {
        inode.i_state().or(I_FREEING);
        drop(i_lock);
    } else {
        inode.i_state().or(I_WILL_FREE);
        drop(i_lock);
        write_inode_now(inode, true).await;
        let _i_lock = inode.i_lock().lock().await;
        inode.i_state().clear(I_WILL_FREE);
        inode.i_state().or(I_FREEING);
    }
    evict(inode).await;
}

/// `evict`: takes an inode with I_FREEING apart and frees it.
pub async fn evict(inode: Inode) {
    kfn!(evict);
    emit(Tp::Call, inode.ptr(), 0);
    let sb = inode.i_sb().get();
    inode_io_list_del(inode).await;
    let list_lock = sb.s_inode_list_lock().lock().await;
    inode.i_sb_list().del_init();
    drop(list_lock);
    let i_lock = inode.i_lock().lock().await;
    // The flusher starts nothing new on the inode; what it has started ends here.
    let i_lock = inode_wait_for_writeback(inode, i_lock).await;
    drop(i_lock);
    if choose(Choice::Of("evict_inode", 2)) == 1 {
        let mut wbc = WritebackControl::new(SyncMode::None, i64::MAX);
        writeback_single_inode(inode, &mut wbc).await;
    }
    truncate_inode_pages_final(inode).await;
    // clear_inode: completions that still hold the i_pages lock are done with the inode afterwards.
    let i_pages = inode.i_pages().lock_irq().await;
    inode.i_state().set(I_FREEING | I_CLEAR);
    drop(i_pages);
    inode_detach_wb(inode).await;
    emit(Tp::Return, inode.ptr(), 0);
    call_rcu(inode.rcu().ptr(), "i_callback", |rcu| {
        Box::pin(async move {
            kfn!(i_callback);
            let inode = Inode(rcu.sub(inode_fields::rcu));
            if inode.i_blkdev().get() {
                bdev_free_inode(inode).await;
            }
            kfree(inode.ptr());
        })
    });
}

/// `evict_inodes`: evicts every inode of a superblock that nobody references.
pub async fn evict_inodes(sb: SuperBlock) {
    kfn!(evict_inodes);
    let mut dispose = Vec::new();
    let list_lock = sb.s_inode_list_lock().lock().await;
    for entry in sb.s_inodes().entries() {
        let inode = container_of!(entry, Inode, inode_fields::i_sb_list);
        if inode.i_count().read_once().await != 0 {
            continue;
        }
        let _i_lock = inode.i_lock().lock().await;
        if inode.i_count().get() != 0 || inode.i_state().get() & (I_NEW | I_FREEING | I_WILL_FREE) != 0 {
            continue;
        }
        inode.i_state().or(I_FREEING);
        dispose.push(inode);
    }
    drop(list_lock);
    for inode in dispose {
        evict(inode).await;
    }
}
