//! Superblocks: liveness and the order of umount.
//!
//! Mirrors:    fs/super.c, alloc_super(), super_trylock_shared(), retire_super(), generic_shutdown_super(), kill_anon_super(),
//!             put_super(); sync_filesystem() of fs/sync.c; fidelity: mirror.
//! Simplified: one mount a superblock, so the first kill_sb is the last; sync_filesystem issues its data-integrity half only.
//! Locks:      s_umount is held for writing from the start of kill_sb until all inodes are evicted; bdi_unregister of an
//!             ordinary umount comes after it is dropped, that of retire_super before.
//! Ordering:   SB_ACTIVE is cleared, then (full barrier in cgroup_writeback_umount) the switches in flight are read.
//! Rules:      LT-REF-8, LT-PROG-5, LT-MEM-3, LT-MEM-7.

use super::fs_writeback::{cgroup_writeback_umount, sync_inodes_sb};
use super::inode::evict_inodes;
use crate::kfn;
use crate::linux::globals;
use crate::linux::include::backing_dev_defs::BackingDevInfo;
use crate::linux::include::fs::{SuperBlock, sb_fields};
use crate::linux::mm::backing_dev::{bdi_put, bdi_unregister};
use crate::mutants::{Mutant, mutated};
use crate::sync::{ReadGuard, Tp, WriteGuard, call_rcu, emit, kfree, kzalloc_nofail, report, with};

/// A mounted superblock on `bdi`, whose reference it takes over; `own_bdi` (SB_I_PERSB_BDI): it unregisters the bdi at umount.
pub fn alloc_super(bdi: BackingDevInfo, own_bdi: bool, cgroupwb: bool) -> SuperBlock {
    let sb = SuperBlock(kzalloc_nofail(SuperBlock::TYPE));
    sb.s_bdi().set(bdi);
    sb.s_active().set(true);
    sb.s_own_bdi().set(own_bdi);
    sb.s_cgroupwb().set(cgroupwb);
    sb.s_count().set(1);
    sb.s_inodes().init();
    sb.s_inodes_wb().init();
    // ORD-1.
    sb.s_active().weak();
    sb.s_isw_nr_in_flight().weak();
    sb.s_list().add_tail(globals().super_blocks());
    sb
}

/// One more passive reference: keeps the memory, not the mount. Legal for whoever holds one, or while `sb` is mounted.
pub async fn hold_super(sb: SuperBlock) {
    sb.s_count().inc().await;
}

/// `put_super`: drops a passive reference.
pub async fn put_super(sb: SuperBlock) {
    kfn!(put_super);
    if sb.s_count().dec().await == 1 {
        call_rcu(sb.rcu().ptr(), "destroy_super_rcu", |rcu| Box::pin(async move { kfree(rcu.sub(sb_fields::rcu)) }));
    }
}

/// `super_trylock_shared`: s_umount for reading if that needs no waiting and the superblock is not dying.
pub async fn super_trylock_shared(sb: SuperBlock) -> Option<ReadGuard> {
    let guard = sb.s_umount().try_read().await?;
    if sb.s_dying().get() {
        guard.up().await;
        return None;
    }
    Some(guard)
}

/// `super_lock_shared`: waits for s_umount; `None` if the superblock is dying. The caller has a passive reference.
pub async fn super_lock_shared(sb: SuperBlock) -> Option<ReadGuard> {
    let guard = sb.s_umount().read().await;
    if sb.s_dying().get() {
        guard.up().await;
        return None;
    }
    Some(guard)
}

/// `sync_filesystem`, s_umount held.
pub async fn sync_filesystem(sb: SuperBlock) {
    kfn!(sync_filesystem);
    sync_inodes_sb(sb).await;
}

/// `syncfs(2)`, or sync(2) for one superblock; the caller has a passive reference. False if it is unmounted already.
pub async fn sync_one_super(sb: SuperBlock) -> bool {
    kfn!(sync_one_super);
    let Some(s_umount) = super_lock_shared(sb).await else { return false };
    sync_filesystem(sb).await;
    s_umount.up().await;
    true
}

/// `retire_super`: the device is gone; a private bdi is unregistered at once, under s_umount.
pub async fn retire_super(sb: SuperBlock) {
    kfn!(retire_super);
    let s_umount = sb.s_umount().write().await;
    if sb.s_own_bdi().get() {
        bdi_unregister(sb.s_bdi().get()).await;
        sb.s_own_bdi().set(false);
    }
    s_umount.up().await;
}

/// `generic_shutdown_super`, entered with s_umount held for writing, which it drops.
pub async fn generic_shutdown_super(sb: SuperBlock, s_umount: WriteGuard) {
    kfn!(generic_shutdown_super);
    emit(Tp::Call, sb.ptr(), 0);
    sync_filesystem(sb).await;
    if mutated(Mutant::Ord1b) {
        // Without the barrier the counter may be read before the store is seen by others.
        cgroup_writeback_umount(sb).await;
        sb.s_active().write_once(false).await;
    } else {
        sb.s_active().write_once(false).await;
        cgroup_writeback_umount(sb).await;
    }
    evict_inodes(sb).await;
    if !sb.s_inodes().is_empty() {
        report("LT-PROG-5", format!("busy inodes after unmount of {}", with(|m| m.mem.name(sb.ptr()))));
    }
    sb.s_dying().set(true);
    s_umount.up().await;
    let bdi = sb.s_bdi().get();
    if sb.s_own_bdi().get() {
        bdi_unregister(bdi).await;
    }
    bdi_put(bdi).await;
    sb.s_bdi().set(BackingDevInfo::NULL);
    emit(Tp::Return, sb.ptr(), 0);
}

/// `deactivate_super` of the last mount: umount.
pub async fn kill_sb(sb: SuperBlock) {
    kfn!(kill_anon_super);
    let s_umount = sb.s_umount().write().await;
    generic_shutdown_super(sb, s_umount).await;
    sb.s_list().del_init();
    put_super(sb).await;
}
