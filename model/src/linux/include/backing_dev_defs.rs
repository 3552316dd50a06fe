//! The writeback context and the backing device.
//!
//! Mirrors:    include/linux/backing-dev-defs.h; fidelity: mirror (bandwidth fields left out).
//! Simplified: `release_work` and `rcu` do not share storage; a device is an object with a name.
//! Locks:      noted at each field. `wb_dying` is exact under cgwb_lock, where every kill happens.
//! Ordering:   a root wb has no count, so taking or putting a reference on it is only a read of `wb->bdi` (OBS-1).
//! Rules:      LT-REF-1, LT-REF-7, LT-LIST-1 to LT-LIST-14, LT-MEM-1, LT-MEM-3.

use crate::kstruct;
use crate::linux::include::cgroup_defs::Css;
use crate::linux::lib::percpu_refcount::PercpuRef;
use crate::mutants::{Mutant, mutated};
use crate::sync::{Bits, DelayedWork, ListHead, Llist, Mutex, Ptr, RadixTree, Rwsem, SpinLock, Var, WaitQueue, Work};

/// Bit of `wb->state`: works may be queued.
pub const WB_REGISTERED: u32 = 0;
/// Bit of `wb->state`: the flusher runs.
pub const WB_WRITEBACK_RUNNING: u32 = 1;
/// Bit of `wb->state`: b_dirty, b_io or b_more_io is not empty.
pub const WB_HAS_DIRTY_IO: u32 = 2;
/// Bit of `wb->state`: start writeback of everything.
pub const WB_START_ALL: u32 = 3;
/// Bit of `wb->state`: write back dontcache pages.
pub const WB_START_DONTCACHE: u32 = 4;

kstruct! {
    /// `struct bdi_writeback`
    pub struct BdiWriteback: "wb", "LT-MEM-1", wb_fields {
        /// Owning bdi; constant.
        bdi: Var<BackingDevInfo>,
        /// `WB_*` bits. Atomic; WB_REGISTERED is cleared under work_lock, WB_HAS_DIRTY_IO changes under list_lock.
        state: Bits,
        /// Dirty inodes. list_lock.
        b_dirty: ListHead,
        /// Parked for writeback. list_lock.
        b_io: ListHead,
        /// Parked for more writeback. list_lock.
        b_more_io: ListHead,
        /// Only timestamps dirty. list_lock.
        b_dirty_time: ListHead,
        /// Protects the b_* lists.
        list_lock: SpinLock,
        /// Inodes with a page under writeback. Atomic.
        writeback_inodes: Var<i64>,
        /// WB_RECLAIMABLE, in pages.
        stat_reclaimable: Var<i64>,
        /// WB_WRITEBACK, in pages.
        stat_writeback: Var<i64>,
        /// Protects work_list, and the decision to queue dwork or bw_dwork.
        work_lock: SpinLock,
        /// Queued works. work_lock.
        work_list: ListHead,
        /// Flusher.
        dwork: DelayedWork,
        /// Bandwidth update.
        bw_dwork: DelayedWork,
        /// On bdi->wb_list. cgwb_lock, RCU readers.
        bdi_node: ListHead,
        /// Used only for wbs that are not embedded in a bdi.
        refcnt: PercpuRef,
        /// Identity: memcg.
        memcg_css: Var<Css>,
        /// Identity: blkcg.
        blkcg_css: Var<Css>,
        /// On memcg->cgwb_list while live. cgwb_lock.
        memcg_node: ListHead,
        /// On blkcg->cgwb_list while live. cgwb_lock.
        blkcg_node: ListHead,
        /// Clean inodes attached to it. list_lock.
        b_attached: ListHead,
        /// On offline_cgwbs or the cleaner's list while dying. cgwb_lock.
        offline_node: ListHead,
        /// Switches inodes to this wb.
        switch_work: Work,
        /// Switch contexts whose destination is this wb.
        switch_wbs_ctxs: Llist,
        /// Release; in the kernel its storage is shared with the RCU head.
        release_work: Work,
        /// RCU head of the final free.
        rcu: Var<Ptr>,
    }
}

impl BdiWriteback {
    /// Is it the root wb embedded in its bdi (`wb == &wb->bdi->wb`)? Reads `wb->bdi`.
    pub fn is_root(self) -> bool {
        self.bdi().get().wb() == self
    }
    /// `wb_tryget`: true for a root wb; otherwise true until the count is zero, dying or not.
    pub async fn tryget(self) -> bool {
        if self.is_root() {
            return true;
        }
        self.refcnt().tryget().await
    }
    /// `wb_tryget_live`: true for a root wb; otherwise false once the kill is seen. Only in rule sets that have it.
    pub async fn tryget_live(self) -> bool {
        if self.is_root() && !mutated(Mutant::V2M23) {
            return true;
        }
        self.refcnt().tryget_live().await
    }
    /// `wb_get`: only while owning a reference.
    pub async fn get(self) {
        if !self.is_root() {
            self.refcnt().get().await;
        }
    }
    /// `wb_put`
    pub async fn put(self) {
        self.put_many(1).await;
    }
    /// `wb_put_many`: may be the last one, hence legal in any context.
    pub async fn put_many(self, nr: i64) {
        if !self.is_root() {
            self.refcnt().put_many(nr).await;
        }
    }
    /// `wb_dying`, as a plain read: for callers that hold cgwb_lock, or do not care.
    pub fn dying(self) -> bool {
        self.refcnt().is_dying()
    }
    /// `wb_dying` outside cgwb_lock: a scheduling point.
    pub async fn dying_once(self) -> bool {
        self.refcnt().is_dying_once().await
    }
}

kstruct! {
    /// `struct device` of a bdi.
    pub struct Device: "device", "LT-MEM-3", device_fields {
        /// Its name, as a number.
        name: Var<u64>,
    }
}

kstruct! {
    /// `struct backing_dev_info`
    pub struct BackingDevInfo: "bdi", "LT-MEM-3", bdi_fields {
        /// Unique id, 0 before registration.
        id: Var<u64>,
        /// On the global bdi_list. bdi_lock, RCU readers.
        bdi_list: ListHead,
        /// kref.
        refcnt: Var<i64>,
        /// `BDI_CAP_WRITEBACK`.
        cap_writeback: Var<bool>,
        /// Sum over wbs with dirty io: here their number.
        tot_write_bandwidth: Var<i64>,
        /// Root wb.
        wb: BdiWriteback,
        /// All published wbs that are not shut down, R first. cgwb_lock, RCU readers.
        wb_list: ListHead,
        /// wbs by memcg css id. cgwb_lock, RCU readers.
        cgwb_tree: RadixTree,
        /// Pairs shutting a wb down and freeing it with shutting all down.
        cgwb_release_mutex: Mutex,
        /// Read: switching inodes. Write: data-integrity sync.
        wb_switch_rwsem: Rwsem,
        /// Completions on this bdi wait here.
        wb_waitq: WaitQueue,
        /// Its device while registered, or null.
        dev: Var<Device>,
        /// Copy of the device's name; stays for the bdi's whole life.
        dev_name: Var<u64>,
    }
}
