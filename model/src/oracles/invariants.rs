//! The table of invariants: what must hold, where it comes from, and what each built-in rule set does about it.
//!
//! Main type: [`Invariant`]. Ids are those of the lifetime specification, section 8; a few more name what the checked memory
//! and the mutants need beyond it (LT-MEM-0, -6, -7, LT-LIST-0, LT-ISW-6, LT-PROG-11 to -13). TH-RST-1 to -6 are those of the
//! throttling specification, section 17, TH-RST-2 cut in three by what 7.3.4 keeps of it; those after them say what it needs. Kernel functions are those of Linux 7.3.4.
//! Must not know: how an invariant is checked.

/// What a rule set does about an invariant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Must hold.
    Holds,
    /// Known to be violated: that is what the rule set is criticised for. The oracle reports it.
    Violated,
    /// Holds with this condition, which the oracle tests where it can; with [`NOT_REQUIRED`] it is not checked at all.
    Conditional(&'static str),
}

/// Condition of an invariant that a rule set breaks on purpose: no error, and no oracle reports it there.
///
/// These are LT-LIST-4a where a wb keeps its slot until release, LT-LIST-4d where kill empties the slot, LT-LIST-14 (an attached
/// inode may be on no list, OBS-6) and LT-PROG-4b (the cleaner runs only when some memcg goes offline, OBS-4).
pub const NOT_REQUIRED: &str = "not required under this rule set";

impl Status {
    /// Does an oracle check the invariant under this rule set?
    pub fn checked(self) -> bool {
        self != Status::Conditional(NOT_REQUIRED)
    }
}

/// One invariant.
#[derive(Clone, Copy, Debug)]
pub struct Invariant {
    /// Stable id, `LT-*` or `TH-*`.
    pub id: &'static str,
    /// Readable name, kebab-case; states what is true when all is well.
    pub name: &'static str,
    /// The predicate in one sentence.
    pub says: &'static str,
    /// Kernel function that upholds it.
    pub source: &'static str,
    /// Under mainline, wb-list and tree-until-release, in the order of [`Rules::BUILT_IN`](crate::rules::Rules::BUILT_IN).
    pub status: [Status; 3],
}

/// The invariant with this id.
pub fn invariant(id: &str) -> Option<&'static Invariant> {
    INVARIANTS.iter().find(|i| i.id == id)
}

const Y: Status = Status::Holds;
const N: Status = Status::Violated;
const X: Status = Status::Conditional(NOT_REQUIRED);
const fn c(condition: &'static str) -> Status {
    Status::Conditional(condition)
}

const OBS_1: Status = c("not across a switch to the root wb, which holds nothing on the bdi (OBS-1)");
const OBS_2: Status = c("not for a wb_list walker that left RCU while the bdi was unregistered (OBS-2)");
const DIRTY_FIRST: Status = c("only for a wb with dirty io, and only if no live matching wb is found first");
const QUIET: Status = c("where the dirty bit, the mark and the accounting of a page are one step (OBS-16)");

const SC: Status = c("where memory is sequentially consistent: nothing orders an update before the next flush");
const FLUSH: Status = c("not for changes made while the last flush was under way (TH-RST-2b)");
const LAST: Status = c("not for a last update that finds its node queued by a flush that has read the counter already (H-056)");

macro_rules! invariants {
    ($($id:literal $name:literal $source:literal [$ml:expr, $v1:expr, $v2:expr] $says:literal;)*) => {
        /// All invariants, by group as in the specification.
        pub const INVARIANTS: &[Invariant] = &[$(Invariant { id: $id, name: $name, says: $says, source: $source, status: [$ml, $v1, $v2] }),*];
    };
}

invariants! {
    "LT-REF-1" "wb-count-is-the-sum-of-its-holders" "wb_get" [Y, Y, Y] "the reference count of a wb is its base, its switch, its inodes, its switch contexts and what running tasks hold, and never negative";
    "LT-REF-2" "wb-is-released-once-after-kill" "cgwb_release" [Y, Y, Y] "the release callback of a published wb runs exactly once, after its kill and the grace period of that kill";
    "LT-REF-3" "wb-is-killed-once" "cgwb_kill" [Y, Y, Y] "a wb is killed at most once, and before it is released";
    "LT-REF-4" "plain-get-needs-a-reference" "wb_get" [Y, Y, Y] "a plain get happens only while the count is at least one without it";
    "LT-REF-5" "wb-pins-its-csses-and-bdi-once" "cgwb_create" [Y, Y, Y] "a published wb holds one reference on its memcg css, blkcg css and bdi and one online pin, until its release work puts them; an unpublished one holds only the bdi";
    "LT-REF-6" "nothing-leaks" "cgwb_release_workfn" [Y, Y, Y] "when all is quiet, no wb of an unregistered bdi or an offline memcg or blkcg exists that no inode uses, and an unregistered bdi without users is freed";
    "LT-REF-7" "root-wb-is-never-counted" "wb_get" [Y, Y, Y] "no reference operation touches the percpu_ref of a root wb";
    "LT-REF-8" "switching-inode-is-pinned" "inode_prepare_wbs_switch" [Y, Y, Y] "an inode in a switch context has a reference, and its superblock counts it, until the worker has dropped first the reference and then the count";
    "LT-REF-9" "switch-contexts-are-counted" "inode_switch_wbs" [Y, Y, Y] "isw_nr_in_flight covers every switch context and returns to zero";
    "LT-REF-10" "work-is-finished-once" "finish_writeback_work" [Y, Y, Y] "each queued work is finished exactly once, and its completion counts it from before it is visible until then";

    "LT-LIST-0" "lists-are-well-formed" "__list_add_valid_or_report" [Y, Y, Y] "no list operation meets a list that is corrupt, and no entry is added or deleted twice";
    "LT-LIST-1" "wb-is-on-wb-list-until-shut-down" "wb_shutdown" [Y, Y, Y] "a wb is on wb_list exactly from its publication until wb_shutdown removed it";
    "LT-LIST-2" "live-wb-is-on-both-css-lists" "cgwb_kill" [Y, Y, Y] "a wb is on the list of its memcg, and on that of its blkcg, exactly while it is live";
    "LT-LIST-3" "dying-wb-is-on-the-offline-list" "cgwb_kill" [Y, Y, Y] "a wb is on offline_cgwbs or the cleaner's list exactly from its kill until its release work unlinks it";
    "LT-LIST-4a" "tree-holds-live-wbs-only" "cgwb_kill" [Y, Y, X] "a wb in the tree is live";
    "LT-LIST-4b" "live-wb-owns-its-slot" "cgwb_create" [Y, Y, Y] "the slot of a live wb's memcg id holds that wb";
    "LT-LIST-4c" "slot-names-a-valid-owner" "cgwb_release_workfn" [Y, Y, Y] "a wb in a slot is published and not freed, its memcg has the slot's key as id, and it still holds its memcg css";
    "LT-LIST-4d" "dying-wb-keeps-its-slot" "cgwb_kill" [X, X, Y] "a dying wb with references is in its slot unless a takeover replaced it";
    "LT-LIST-5" "one-live-wb-per-memcg" "cgwb_create" [Y, Y, Y] "at most one wb of a bdi and memcg is live";
    "LT-LIST-6" "inode-is-on-a-list-of-its-wb" "inode_io_list_move_locked" [Y, Y, Y] "with list_lock free, a listed inode is on exactly one list, and that list is its wb's";
    "LT-LIST-7" "dirty-inode-is-listed" "__mark_inode_dirty" [Y, Y, Y] "a dirty inode is on b_dirty, b_io or b_more_io of its wb, or being written, or being marked";
    "LT-LIST-8a" "no-dirty-bit-no-dirty-inode" "wb_io_lists_depopulated" [Y, Y, Y] "WB_has_dirty_io clear means b_dirty, b_io and b_more_io are empty";
    "LT-LIST-8b" "dirty-bit-has-a-dirty-inode" "wb_io_lists_populated" [c("not while a switch worker has dropped the locks between inodes"), c("not while a switch worker has dropped the locks between inodes"), c("not while a switch worker has dropped the locks between inodes")] "WB_has_dirty_io set means b_dirty, b_io or b_more_io is not empty";
    "LT-LIST-9" "released-wb-is-empty" "cgwb_release_workfn" [Y, Y, Y] "when release work starts, the wb's inode lists and switch contexts are empty and its dirty bit is clear";
    "LT-LIST-10" "marked-css-has-no-live-wb" "wb_memcg_offline" [Y, Y, Y] "a css whose list carries the end mark has no live wb, now and later";
    "LT-LIST-11" "unregistered-bdi-has-no-live-wb" "cgwb_bdi_unregister" [Y, Y, Y] "after the kill loop of an unregister no wb of the bdi is live, and after its return wb_list is empty";
    "LT-LIST-12" "queued-flag-covers-b-io" "queue_io" [c("not for an inode switched clean during its writeback (OBS-7)"), c("not for an inode switched clean during its writeback (OBS-7)"), c("not for an inode switched clean during its writeback (OBS-7)")] "an inode without I_SYNC_QUEUED is on neither b_io nor b_more_io, and whoever dirties one with it leaves it there";
    "LT-LIST-13" "attached-list-holds-clean-inodes" "inode_cgwb_move_to_attached" [c("not while __mark_inode_dirty is between flag and move"), c("not while __mark_inode_dirty is between flag and move"), c("not while __mark_inode_dirty is between flag and move")] "an inode on b_attached belongs to a cgroup wb and is not dirty";
    "LT-LIST-14" "attached-inode-is-listed" "inode_attach_wb" [X, X, X] "an inode attached to a cgroup wb is on one of its lists";

    "LT-LOOK-1" "lookup-returns-what-was-asked" "wb_get_lookup" [Y, Y, Y] "a wb that a lookup returns belongs to the bdi and memcg asked for, and the caller owns a reference";
    "LT-LOOK-2" "creation-returns-a-live-wb" "wb_get_create" [Y, Y, Y] "a wb that a creation path returns was live, and its blkcg was the effective one, at some instant in the call";
    "LT-LOOK-3" "lookup-by-id-finds-referenced-wb" "cgroup_writeback_by_id" [N, DIRTY_FIRST, Y] "a flush by id finds a wb when one of that bdi and memcg has references throughout and was not replaced";
    "LT-LOOK-4" "lookup-by-id-reaches-every-dirty-wb" "cgroup_writeback_by_id" [N, DIRTY_FIRST, c("not for a wb that was taken over")] "every wb with dirty io is returned by the lookup for its bdi and memcg";
    "LT-LOOK-5" "open-gate-gives-a-wb" "wb_get_create" [Y, Y, Y] "with the gate open throughout and memory at hand, a creation path returns a live wb of the effective blkcg";
    "LT-LOOK-6" "no-resurrection" "wb_get_create" [Y, Y, Y] "no creation path that starts after a kill's grace period, and no lookup that starts after the count was zero, returns that wb";
    "LT-LOOK-7" "no-wb-has-a-reason" "wb_get_create" [Y, Y, Y] "a creation path returns nothing only if the gate was closed or an allocation failed during the call";
    "LT-LOOK-8" "an-id-names-one-css" "css_free_rwork_fn" [Y, Y, Y] "an id denotes one css at a time, and when it is given out again no slot holds the last owner's wb";

    "LT-PROG-1" "creation-terminates" "wb_get_create" [Y, Y, Y] "each extra round of wb_get_create is paid for by another task's kill or publication, or by a change of the effective blkcg";
    "LT-PROG-2" "completions-arrive" "wb_wait_for_completion" [Y, Y, Y] "every wait for a completion returns, across shutdown and unregister";
    "LT-PROG-3" "dead-wb-is-freed" "cgwb_release_workfn" [Y, Y, Y] "a killed wb without references is freed";
    "LT-PROG-4" "cleaner-empties-clean-wbs" "cleanup_offline_cgwbs_workfn" [Y, Y, Y] "a killed and clean wb loses its clean inodes by one cleaner run that starts afterwards and the switches that it queues";
    "LT-PROG-4b" "cleaner-needs-no-other-memcg" "cleanup_offline_cgwbs_workfn" [X, X, X] "a killed wb that becomes clean is cleaned without another memcg going offline";
    "LT-PROG-5" "umount-drains-switches" "cgroup_writeback_umount" [Y, Y, Y] "umount's wait for switches ends, and afterwards none holds an inode of the superblock";
    "LT-PROG-6" "unregister-terminates" "cgwb_bdi_unregister" [Y, Y, Y] "cgwb_bdi_unregister returns";
    "LT-PROG-7" "foreign-flush-reaches-the-dirty-wb" "mem_cgroup_flush_foreign" [N, c("needs R-SIZE = wb; the oldest dirty wb of the memcg is the one flushed"), c("needs R-SIZE = wb; not for a wb that was taken over")] "a foreign flush for a recorded wb with dirty io queues work for at least one page on it";
    "LT-PROG-8" "dead-css-is-freed" "css_free_rwork_fn" [Y, Y, Y] "a removed css is killed, offlined and freed once its wbs and children are gone";
    "LT-PROG-9" "inode-leaves-a-dying-wb-of-a-live-memcg" "wbc_attach_and_unlock_inode" [Y, Y, Y] "writing an inode whose wb is dying and whose memcg is not asks for a switch";
    "LT-PROG-10" "dirty-inode-is-written" "wb_workfn" [Y, Y, Y] "a dirty inode on a registered wb has a flusher run due, and a flush of a whole wb does not give up on it";
    "LT-PROG-11" "failed-creations-are-bounded" "wbc_attach_and_unlock_inode" [Y, Y, Y] "writing an inode does not try to create a wb for a memcg that was already dying";
    "LT-PROG-12" "quiesced-wb-stays-quiet" "wb_shutdown" [Y, Y, Y] "no delayed work of a wb is armed after it was unregistered, and none is left when wb_shutdown returns";
    "LT-PROG-13" "relisting-wakes-the-flusher" "redirty_tail_locked" [N, N, N] "the end of a writeback that puts the first dirty inode on a wb has its flusher woken; otherwise a task that is dirtying the inode just then finds the bit set and does not wake it either";

    "LT-MEM-0" "no-wild-access" "kasan_report" [Y, Y, Y] "nothing accesses a null or wild pointer, or frees what is not an object";
    "LT-MEM-1" "wb-outlives-its-users" "cgwb_free_rcu" [OBS_2, OBS_2, OBS_2] "nothing accesses a wb, or a node of its tree, after it was freed";
    "LT-MEM-2" "css-outlives-its-users" "css_free_rwork_fn" [Y, Y, Y] "nothing accesses a css or cgroup after it was freed";
    "LT-MEM-3" "bdi-outlives-its-users" "release_bdi" [OBS_1, OBS_1, OBS_1] "nothing accesses a bdi after it was freed";
    "LT-MEM-4" "percpu-ref-is-used-between-init-and-exit" "percpu_ref_exit" [OBS_1, OBS_1, OBS_1] "no percpu_ref operation happens before init or after exit";
    "LT-MEM-5" "completion-outlives-its-works" "finish_writeback_work" [Y, Y, Y] "nothing accesses a completion or a work after its last finisher gave it back";
    "LT-MEM-6" "inode-outlives-its-users" "evict" [Y, Y, Y] "nothing accesses an inode after it was freed";
    "LT-MEM-7" "superblock-outlives-its-inodes" "generic_shutdown_super" [Y, Y, Y] "umount leaves no busy inode, and nothing accesses a superblock after it was freed";

    "LT-LOCK-1" "lock-order-is-acyclic" "lock_acquire" [Y, Y, Y] "the order of locks, flushes and drains has no cycle";
    "LT-LOCK-2" "atomic-context-does-not-sleep" "__might_resched" [Y, Y, Y] "nothing sleeps with a spinlock held, in an RCU read section, or in interrupt context";
    "LT-LOCK-3" "writes-are-under-their-lock" "lockdep_assert_held" [Y, Y, Y] "every write to a tree or list happens under its lock, and locks are released by their holder";

    "LT-ISW-1" "switch-flag-means-one-context" "inode_prepare_wbs_switch" [Y, Y, Y] "I_WB_SWITCH is set exactly while the inode is an unprocessed entry of one switch context or being prepared for one";
    "LT-ISW-2" "only-the-switcher-moves-an-inode" "inode_do_switch_wbs" [Y, Y, Y] "an attached inode changes its wb only in the switcher, with I_WB_SWITCH set and a grace period after it was set";
    "LT-ISW-3" "queued-context-has-a-worker" "wb_queue_isw" [Y, Y, Y] "a wb with switch contexts has its switch work pending, or a pusher is about to queue it";
    "LT-ISW-4" "switch-work-finds-work" "inode_switch_wbs_work_fn" [Y, Y, Y] "switch work never starts with an empty list";
    "LT-ISW-5" "no-switch-during-integrity-sync" "sync_inodes_sb" [Y, Y, Y] "no inode of a bdi is switched between the split and the completion of a data-integrity sync";
    "LT-ISW-6" "dax-inode-is-not-switched" "inode_prepare_wbs_switch" [Y, Y, Y] "a DAX inode never changes its wb";

    "LT-ACC-1" "page-counts-follow-the-inodes" "inode_do_switch_wbs" [QUIET, QUIET, QUIET] "when all is quiet, a wb counts the dirty pages, the pages under writeback and the inodes under writeback of its inodes";
    "LT-ACC-2" "bdi-bandwidth-means-dirty-io" "wb_io_lists_populated" [Y, Y, Y] "when all is quiet, tot_write_bandwidth counts the wbs with dirty io";
    "LT-SYNC-1" "sync-writes-what-was-dirty" "sync_inodes_sb" [c("while the bdi is registered"), c("while the bdi is registered"), c("while the bdi is registered")] "when sync_inodes_sb returns, every listed inode that was dirty at its start has been written, whatever its wb";

    "LT-CSS-1" "css-steps-are-in-order" "css_killed_work_fn" [Y, Y, Y] "a css goes through dying, kill, confirm, offline, online cleared, zero, id gone, free, id reusable in this order";
    "LT-CSS-2" "wb-keeps-its-csses-allocated" "cgwb_release_workfn" [Y, Y, Y] "the memcg and the blkcg of a wb are allocated from its publication until its release work puts them";
    "LT-CSS-3" "blkgs-outlive-the-online-pins" "blkcg_unpin_online" [Y, Y, Y] "the blkgs of a blkcg are destroyed only after all its wbs and children have dropped their pins, and a pin is never taken from zero";
    "LT-CSS-4" "memcg-outlives-its-foreign-works" "mem_cgroup_css_free" [Y, Y, Y] "a memcg is not freed while a work counted by one of its foreign-flush records is unfinished";

    "TH-RST-1" "flush-makes-totals-exact" "css_rstat_flush" [SC, SC, SC] "after a flush that no update overlapped, every total of the subtree is the sum of all changes, and nothing is pending";
    "TH-RST-2" "gate-bounds-what-is-missing" "memcg_vmstats_needs_flush" [FLUSH, FLUSH, FLUSH] "a gated flush of a memcg without children that does not happen leaves at most 127 pages a CPU and one update a CPU unseen";
    "TH-RST-2b" "gate-counts-across-a-flush" "mem_cgroup_css_rstat_flush" [N, N, N] "the same holds for changes made while the last flush was under way, whose count it may wipe out on its next CPU";
    "TH-RST-2c" "gate-bounds-what-an-ancestor-is-missing" "memcg_rstat_updated" [N, N, N] "the same holds for a memcg with children, whose changes stop being counted for it once they are due themselves";
    "TH-RST-3" "ratelimited-reads-are-fresh-or-close" "mem_cgroup_flush_stats_ratelimited" [Y, Y, Y] "what a ratelimited reader of a memcg without children relies on is at most four seconds old, or within the bound of the gate";
    "TH-RST-4" "totals-are-the-sum-of-their-parts" "mem_cgroup_css_rstat_flush" [Y, Y, Y] "a memcg's total and what is pending for it are its own share and its children's totals, dead ones included";
    "TH-RST-5" "flush-visits-once-children-first" "css_rstat_updated_list" [SC, SC, SC] "a flush visits each memcg of its subtree with changes on a CPU exactly once there, and children before their parents";
    "TH-RST-6" "exact-counters-are-exact" "mod_memcg_state" [Y, Y, Y] "where dirty pages are counted by atomics up to the root, what is read is exact unless an update is under way";
    "TH-RST-7" "update-tree-is-well-formed" "css_rstat_push_children" [Y, Y, Y] "with the lock free, a css is linked exactly if it is once among its parent's children, and then its ancestors are";
    "TH-RST-8" "queued-css-is-on-a-list" "__css_rstat_updated" [Y, Y, Y] "a node marked as queued is on its CPU's list unless somebody is about to put it there or take it off";
    "TH-RST-9" "css-leaves-nothing-behind" "css_rstat_exit" [LAST, LAST, LAST] "when a css goes, flushes have seen all its changes and passed them on";
    "TH-RST-10" "gate-opens-for-pages" "memcg_state_val_in_pages" [Y, Y, Y] "a gated flush happens only if more than 64 pages an online CPU have changed since the last one that no update overlapped";
    "TH-RST-11" "own-pages-are-not-negative" "reparent_state_local" [Y, Y, Y] "a memcg counts no negative number of pages on its own lists once all its changes are flushed";
    "TH-RST-12" "lock-is-dropped-between-cpus" "css_rstat_flush" [Y, Y, Y] "the lock of the statistics, which switches interrupts off, is held for one CPU's memcgs at a time";
    "TH-RST-13" "reads-are-not-negative" "memcg_page_state" [Y, Y, Y] "nobody reads a negative number of pages";
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::TABLE;

    #[test]
    fn ids_and_names_are_unique_and_readable() {
        for (i, a) in INVARIANTS.iter().enumerate() {
            assert!(a.id.starts_with("LT-") || a.id.starts_with("TH-"), "{}", a.id);
            assert!(a.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", a.name);
            assert!(!a.says.is_empty());
            for b in &INVARIANTS[..i] {
                assert_ne!(a.id, b.id);
                assert_ne!(a.name, b.name);
            }
        }
    }

    #[test]
    fn every_rule_that_a_mutant_names_is_in_the_table() {
        for row in TABLE {
            for id in row.breaks {
                assert!(invariant(id).is_some(), "{} names {id}", row.id);
            }
        }
    }

    #[test]
    fn every_rule_that_the_checked_memory_reports_is_in_the_table() {
        for id in ["LT-MEM-0", "LT-MEM-4", "LT-LIST-0", "LT-LOCK-1", "LT-LOCK-2", "LT-LOCK-3", "LT-REF-3"] {
            assert!(invariant(id).is_some(), "{id}");
        }
    }
}
