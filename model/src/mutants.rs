//! Mutants: single deviations from a rule set that an oracle must catch.
//!
//! One row here, one hook line (`mutated(Mutant::X)`) at one call site. Rows name the rule set they deviate from, the kernel
//! function that is changed and the invariants that must catch them; a row without invariants is a control that must stay clean.

use std::cell::Cell;

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The mutant.
    pub mutant: Mutant,
    /// Stable id: `V2-M01`, `ORD-4`, `H-001`.
    pub id: &'static str,
    /// Rule set it deviates from.
    pub base: &'static str,
    /// Kernel function that is changed.
    pub function: &'static str,
    /// What is changed, in one sentence.
    pub says: &'static str,
    /// Invariants of which at least one must be violated; empty for a control.
    pub breaks: &'static [&'static str],
}

macro_rules! mutants {
    ($($var:ident $id:literal $base:literal $func:literal $says:literal [$($rule:literal),*];)*) => {
        /// A single deviation.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[allow(missing_docs)]
        pub enum Mutant { $($var),* }
        /// All rows, in order of id.
        pub const TABLE: &[Row] = &[$(Row { mutant: Mutant::$var, id: $id, base: $base, function: $func, says: $says, breaks: &[$($rule),*] }),*];
    };
}

mutants! {
    V2M01 "V2-M01" "tree-until-release" "cgwb_kill" "kill still deletes the wb from the tree" ["LT-LOOK-3"];
    V2M02 "V2-M02" "tree-until-release" "cgwb_release_workfn" "release deletes the key whatever it holds" ["LT-LIST-4b", "LT-LIST-5", "LT-LIST-11", "LT-REF-6"];
    V2M03 "V2-M03" "tree-until-release" "cgwb_create" "no takeover: a dying occupant gives -EEXIST" ["LT-PROG-1"];
    V2M04 "V2-M04" "tree-until-release" "cgwb_create" "no takeover: a dying occupant gives -EBUSY" ["LT-LOOK-5", "LT-LOOK-7"];
    V2M05 "V2-M05" "tree-until-release" "cgwb_create" "takeover does not check that the occupant is dying" ["LT-LIST-4b", "LT-LIST-5", "LT-LIST-11"];
    V2M06 "V2-M06" "tree-until-release" "cgwb_create" "the first check takes a dying matching wb for found" ["LT-PROG-1"];
    V2M07 "V2-M07" "tree-until-release" "cgwb_create" "the first check kills a mismatching wb without testing dying" ["LT-REF-3", "LT-LIST-0"];
    V2M08 "V2-M08" "tree-until-release" "wb_get_create" "the creation lookup uses tryget instead of tryget_live" ["LT-LOOK-2", "LT-LOOK-6"];
    V2M09 "V2-M09" "tree-until-release" "wb_get_create_current" "keeps tryget" ["LT-LOOK-2"];
    V2M10 "V2-M10" "tree-until-release" "wb_get_lookup" "keeps the blkcg comparison" ["LT-LOOK-3"];
    V2M11 "V2-M11" "tree-until-release" "wb_get_create" "the creation lookup does not compare the blkcg" ["LT-LOOK-2", "LT-LOOK-5"];
    V2M12 "V2-M12" "tree-until-release" "cgwb_release_workfn" "delete_item after the memcg css reference is dropped" ["LT-MEM-2"];
    V2M13 "V2-M13" "tree-until-release" "cgwb_release_workfn" "plain delete of a cached id after the memcg css reference is dropped" ["LT-LIST-4b", "LT-LIST-4c"];
    V2M14 "V2-M14" "tree-until-release" "cgwb_release_workfn" "the delete is forgotten" ["LT-MEM-1", "LT-LIST-4c"];
    V2M15 "V2-M15" "tree-until-release" "cgwb_free_rcu" "the delete happens after the grace period" ["LT-MEM-1", "LT-LIST-4c"];
    V2M16 "V2-M16" "tree-until-release" "cgwb_release_workfn" "delete_item without cgwb_lock" ["LT-LOCK-3"];
    V2M17 "V2-M17" "tree-until-release" "cgwb_release_workfn" "delete_item of a cached id after bdi_put" ["LT-MEM-3"];
    V2M18 "V2-M18" "tree-until-release" "cgwb_bdi_unregister" "kills dying slots again" ["LT-REF-3", "LT-LIST-0"];
    V2M19 "V2-M19" "tree-until-release" "cgwb_bdi_unregister" "stops at the first dying slot" ["LT-LIST-11", "LT-REF-6"];
    V2M20 "V2-M20" "tree-until-release" "cgwb_create" "takeover outside the publication gate" ["LT-LIST-10", "LT-LIST-11", "LT-LIST-0"];
    V2M21 "V2-M21" "tree-until-release" "cgwb_create" "takeover as delete in the first section and insert in the second" ["LT-LOOK-3"];
    V2M22 "V2-M22" "tree-until-release" "cgwb_create" "takeover kills the old wb again" ["LT-REF-3", "LT-LIST-0"];
    V2M23 "V2-M23" "tree-until-release" "wb_tryget_live" "does not exempt the root wb" ["LT-MEM-4"];
    V2M24 "V2-M24" "tree-until-release" "wb_get_lookup" "the by-id lookup uses tryget_live" ["LT-LOOK-3"];
    V2M25 "V2-M25" "tree-until-release" "wb_get_create" "wb_dying outside cgwb_lock, then plain tryget, in one RCU section" [];
    V2M26 "V2-M26" "tree-until-release" "cgroup_writeback_by_id" "the flush is sized by the dead memcg's counter" ["LT-PROG-7"];
    V2M27 "V2-M27" "tree-until-release" "cgwb_kill" "the memcg css reference is dropped at kill" ["LT-REF-5", "LT-LIST-4c", "LT-LOOK-1", "LT-MEM-2"];
    V2M28 "V2-M28" "tree-until-release" "cleanup_offline_cgwb" "the ancestor lookup takes dying wbs" ["LT-LOOK-2", "LT-LOOK-6"];
    V2M29 "V2-M29" "tree-until-release" "cgwb_create" "the second section reuses the first one's dying verdict" ["LT-LIST-4b"];
    V2M30 "V2-M30" "tree-until-release" "cgwb_create" "the slot to replace is looked up before cgwb_lock is taken" ["LT-LIST-4b", "LT-MEM-1"];
    Ord1a "ORD-1a" "mainline" "inode_prepare_wbs_switch" "no full barrier between counting the switch and re-reading SB_ACTIVE" ["LT-REF-8", "LT-PROG-5", "LT-MEM-6", "LT-MEM-7"];
    Ord1b "ORD-1b" "mainline" "cgroup_writeback_umount" "no full barrier between clearing SB_ACTIVE and reading the counter" ["LT-REF-8", "LT-PROG-5", "LT-MEM-6", "LT-MEM-7"];
    Ord2a "ORD-2a" "mainline" "inode_do_switch_wbs" "no write barrier between storing i_wb and clearing I_WB_SWITCH" ["LT-ACC-1", "LT-MEM-1"];
    Ord2b "ORD-2b" "mainline" "unlocked_inode_to_wb_begin" "no read barrier between I_WB_SWITCH and i_wb" ["LT-ACC-1", "LT-MEM-1"];
    Ord3 "ORD-3" "mainline" "inode_switch_wbs_work_fn" "no grace period between setting I_WB_SWITCH and switching" ["LT-ISW-2", "LT-ACC-1"];
    Ord4 "ORD-4" "mainline" "inode_prepare_wbs_switch" "check and pin of the inode in two i_lock sections" ["LT-MEM-6", "LT-REF-8"];
    Ord5 "ORD-5" "mainline" "bdi_unregister" "the root wb is shut down after the kill loop" ["LT-LIST-11"];
    Ord6 "ORD-6" "mainline" "wb_queue_work" "WB_registered is tested outside work_lock" ["LT-PROG-2", "LT-PROG-12", "LT-MEM-1"];
    Ord7 "ORD-7" "mainline" "cgwb_create" "WB_registered is set after publication" ["LT-PROG-6", "LT-LIST-1"];
    Ord8 "ORD-8" "mainline" "__inode_attach_wb" "test and plain store instead of compare-and-swap" ["LT-REF-1", "LT-REF-6", "LT-ISW-2"];
    Ord9 "ORD-9" "mainline" "finish_writeback_work" "the wait queue is read after the decrement" ["LT-MEM-5"];
    Ord10 "ORD-10" "mainline" "wb_queue_work" "done is counted after the work is visible" ["LT-REF-10"];
    Ord11 "ORD-11" "mainline" "process_inode_switch_wbs" "the in-flight count is dropped before the inode reference" ["LT-REF-8", "LT-MEM-6", "LT-MEM-7", "LT-PROG-5"];
    OrdNoSwitchGp "ORD-12" "mainline" "percpu_ref_kill_and_confirm" "counters are folded without a grace period" ["LT-REF-1", "LT-REF-2", "LT-MEM-1", "LT-MEM-4"];
    OrdBiasFirst "ORD-13" "mainline" "percpu_ref_switch_to_atomic_rcu" "the bias is removed before the per-cpu sum is added" ["LT-REF-1", "LT-REF-2", "LT-REF-4", "LT-MEM-1", "LT-MEM-4"];
    Ord14 "ORD-14" "mainline" "wb_queue_isw" "test for empty and push in two steps" ["LT-ISW-3", "LT-ISW-4", "LT-PROG-5"];
    Ord15a "ORD-15a" "mainline" "__mark_inode_dirty" "no full barrier before the lockless flag test" ["LT-LIST-7", "LT-PROG-10"];
    Ord15b "ORD-15b" "mainline" "__writeback_single_inode" "no full barrier between clearing flags and testing the dirty mark" ["LT-LIST-7", "LT-PROG-10"];
    Ord16 "ORD-16" "mainline" "inode_do_switch_wbs" "i_wb is stored outside the i_pages lock" ["LT-ACC-1"];
    Ord17 "ORD-17" "mainline" "inode_do_switch_wbs" "only the old list_lock is held during the switch" ["LT-LIST-6", "LT-LIST-0", "LT-LOCK-3"];
    Ord18 "ORD-18" "mainline" "wb_memcg_offline" "the mark is set in a later cgwb_lock section than the kills" ["LT-LIST-10"];
    Ord19 "ORD-19" "mainline" "blkcg_css_offline" "the base online pin is dropped before the wbs are killed" ["LT-CSS-3", "LT-REF-5"];
    Ord20 "ORD-20" "mainline" "cgwb_release_workfn" "without cgwb_release_mutex" ["LT-MEM-1", "LT-MEM-3", "LT-LIST-11"];
    Ord21 "ORD-21" "mainline" "cgwb_create" "the losing creator keeps its stale view of the slot" ["LT-PROG-1"];
    Ord22 "ORD-22" "mainline" "kill_css_sync" "the populated check comes before DYING is set" ["LT-PROG-8", "LT-CSS-1"];
    H001 "H-001" "mainline" "wb_workfn" "re-queues dwork without testing WB_registered" ["LT-MEM-1", "LT-MEM-3", "LT-PROG-2", "LT-PROG-12"];
    H002 "H-002" "mainline" "cgwb_bdi_unregister" "the teardown loop runs without cgwb_release_mutex" ["LT-MEM-1", "LT-LIST-11"];
    H003 "H-003" "mainline" "cgroup_writeback_umount" "umount does not wait for switches in flight" ["LT-MEM-6", "LT-MEM-7", "LT-PROG-5", "LT-REF-8"];
    H004 "H-004" "mainline" "inode_prepare_wbs_switch" "takes the inode reference with the helper that needs an existing one" ["LT-REF-8", "LT-MEM-6"];
    H005 "H-005" "mainline" "cgroup_writeback_umount" "waits for a grace period and flushes the queue while the switch is queued by a callback" ["LT-MEM-6", "LT-MEM-7", "LT-PROG-5"];
    H007 "H-007" "mainline" "cgroup_writeback_umount" "flushes the switch queue instead of draining the counter" ["LT-MEM-6", "LT-MEM-7", "LT-PROG-5"];
    H008 "H-008" "mainline" "sync_inodes_sb" "does not exclude switching while the sync is split" ["LT-SYNC-1", "LT-ISW-5"];
    H009 "H-009" "mainline" "inode_switch_wbs" "takes a plain reference on the memcg found by id" ["LT-MEM-2", "LT-REF-5"];
    H010 "H-010" "mainline" "bdi_split_work_to_wbs" "takes a plain reference in the no-memory fallback" ["LT-REF-4", "LT-MEM-4"];
    H011 "H-011" "mainline" "cgwb_release_workfn" "the counter is torn down before the wb leaves offline_cgwbs" ["LT-MEM-4"];
    H012 "H-012" "mainline" "__mark_inode_dirty" "kicks the flusher after the locks are dropped" ["LT-MEM-1"];
    H013 "H-013" "mainline" "cgwb_release_workfn" "puts the blkcg css before it unpins it" ["LT-MEM-2"];
    H014 "H-014" "mainline" "blkcg_css_online" "a child does not pin its parent blkcg" ["LT-CSS-3"];
    H015 "H-015" "mainline" "blkdev_put_whole" "the last close detaches the block-device inode from its wb" ["LT-MEM-0"];
    H016 "H-016" "mainline" "disk_release" "disk release drops the bdi before the bdev inode is detached" ["LT-MEM-3"];
    H017 "H-017" "mainline" "bdi_dev_name" "the device name goes away with the device" ["LT-MEM-3"];
    H018 "H-018" "mainline" "finish_writeback_work" "wakes through the completion after the decrement" ["LT-MEM-5"];
    H019 "H-019" "mainline" "unlocked_inode_to_wb_end" "ends the transaction by switching interrupts on" ["LT-LOCK-2", "LT-LOCK-1"];
    H020a "H-020a" "mainline" "__mark_inode_dirty" "moves an inode that the flusher has queued" ["LT-SYNC-1", "LT-LIST-12"];
    H020b "H-020b" "mainline" "writeback_single_inode" "leaves a redirtied inode on the timestamp list" ["LT-LIST-7", "LT-PROG-10"];
    H021 "H-021" "mainline" "__mark_inode_dirty" "moves the inode without retaking i_lock" ["LT-LOCK-3", "LT-SYNC-1"];
    H022 "H-022" "mainline" "writeback_single_inode" "puts an inode that is being freed on a list" ["LT-MEM-6", "LT-LIST-9"];
    H023 "H-023" "mainline" "wb_memcg_offline" "clean inodes are never switched away" ["LT-PROG-4", "LT-REF-6"];
    H025 "H-025" "mainline" "inode_switch_wbs_work_fn" "the worker holds no reference of its own on the destination, and looks at its list again" ["LT-MEM-1", "LT-MEM-4"];
    H026 "H-026" "mainline" "inode_prepare_wbs_switch" "switches DAX inodes" ["LT-ISW-6"];
    H027 "H-027" "mainline" "wbc_attach_and_unlock_inode" "asks for a new wb although the memcg is dead" ["LT-PROG-11"];
    H029 "H-029" "mainline" "bdi_split_work_to_wbs" "sync skips wbs that have only timestamps to write" ["LT-SYNC-1"];
    H030 "H-030" "mainline" "wb_writeback" "gives up when left-over b_io made no progress" ["LT-PROG-10"];
    H032 "H-032" "mainline" "mem_cgroup_track_foreign_dirty_slowpath" "the stamp of a record is stored before its ids" [];
    H033 "H-033" "mainline" "cgwb_create" "nothing: the claimed double insert cannot happen" [];
    H034 "H-034" "mainline" "cgwb_bdi_unregister" "waits until no cgroup wb exists" ["LT-PROG-6"];
    H035 "H-035" "mainline" "wb_inode_writeback_end" "arms the bandwidth work without testing WB_registered" ["LT-MEM-1", "LT-MEM-3", "LT-PROG-12"];
    H051 "H-051" "mainline" "memcg_page_state" "a negative total is read as it is" ["TH-RST-13"];
    H054 "H-054" "mainline" "css_rstat_flush" "the list of what is to be flushed is built before the lock is taken" ["TH-RST-5", "TH-RST-7", "TH-RST-1"];
    H055 "H-055" "mainline" "__css_rstat_updated" "the node is claimed by a compare-and-swap that only its own CPU's interrupts respect" ["TH-RST-8", "TH-RST-5"];
    H060 "H-060" "mainline" "mem_cgroup_stat_aggregate" "a memcg without changes of its own passes nothing on" ["TH-RST-1", "TH-RST-4"];
    H061 "H-061" "mainline" "memcg_state_val_in_pages" "bytes count as pages" ["TH-RST-10"];
    H061b "H-061b" "mainline" "memcg_state_val_in_pages" "changes of less than a page do not count" ["TH-RST-2"];
    H062 "H-062" "mainline" "reparent_state_local" "the parent does not take over what its dead child counted" ["TH-RST-11"];
    H063 "H-063" "mainline" "mem_cgroup_wb_stats" "reads the statistics in an RCU read section" ["LT-LOCK-2"];
    H065 "H-065" "mainline" "get_non_dying_memcg_end" "whether there is a read section to end is decided by asking again" ["LT-LOCK-3"];
    H066 "H-066" "mainline" "css_rstat_flush" "the lock is held over all CPUs" ["TH-RST-12"];
    H067 "H-067" "mainline" "memcg_hotplug_cpu_dead" "folds the counters of the CPU it runs on" ["TH-RST-1", "TH-RST-4"];
    VRstGate "RST-1" "mainline" "memcg_vmstats_needs_flush" "four times as much has to be pending" ["TH-RST-2"];
    VRstSigned "RST-2" "mainline" "memcg_rstat_updated" "counts changes with their sign, so that they cancel out" ["TH-RST-2"];
    VRstTime "RST-3" "mainline" "__mem_cgroup_flush_stats" "any flush counts as one of the root" ["TH-RST-3"];
    VRstPendingKept "RST-4" "mainline" "mem_cgroup_stat_aggregate" "what children passed on is taken over again by each flush" ["TH-RST-4", "TH-RST-1"];
    VRstPrev "RST-5" "mainline" "mem_cgroup_stat_aggregate" "what was seen of a CPU's counter is not remembered" ["TH-RST-1"];
    VRstAtomicLeaf "RST-6" "mainline" "mod_memcg_state" "exact counters are kept for the memcg itself only" ["TH-RST-6"];
    VRstNoExitFlush "RST-7" "mainline" "css_rstat_exit" "a css goes without a last flush" ["TH-RST-9", "TH-RST-7"];
    VRstDying "RST-8" "mainline" "get_non_dying_memcg_start" "a memcg that is being removed goes on counting for itself" ["TH-RST-11"];
    VRstNoRcu "RST-9" "mainline" "lruvec_stat_mod_folio" "no read section around the test for removal and the update" ["TH-RST-11"];
    H035b "H-035b" "mainline" "wb_shutdown" "flushes the bandwidth work before the flusher: harmless since arming it tests WB_registered" [];
}

thread_local! {
    static ACTIVE: Cell<Option<Mutant>> = const { Cell::new(None) };
    static PASSED: Cell<bool> = const { Cell::new(false) };
}

/// Is this mutant in force on this thread? Its hook counts as passed from then on.
#[inline]
pub fn mutated(m: Mutant) -> bool {
    let active = ACTIVE.with(Cell::get) == Some(m);
    if active {
        pass_hook();
    }
    active
}

/// Puts a mutant in force on this thread, or none. Its hook was not passed yet.
pub fn set_mutant(m: Option<Mutant>) {
    ACTIVE.with(|x| x.set(m));
    PASSED.with(|x| x.set(false));
}

/// The mutant in force on this thread.
pub fn mutant() -> Option<Mutant> {
    ACTIVE.with(Cell::get)
}

/// The hook of the mutant in force was passed.
pub(crate) fn pass_hook() {
    PASSED.with(|x| x.set(true));
}

/// Was the hook of the mutant in force passed since it was put in force? If not, nothing was changed.
pub fn hook_passed() -> bool {
    PASSED.with(Cell::get)
}

/// The row with this id.
pub fn by_id(id: &str) -> Option<&'static Row> {
    TABLE.iter().find(|r| r.id == id)
}
