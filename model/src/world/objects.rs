//! The case's handles on kernel objects, kept in the machine's memory like everything that tasks share.

use super::plan::{Place, Plan};
use crate::cases::limits::{MAX_BDIS, MAX_CGROUPS, MAX_OBJECTS};
use crate::cases::{BdiRef, CgroupRef, InodeRef, SbRef, WbRef};
use crate::kstruct;
use crate::linux::Table;
use crate::linux::include::backing_dev_defs::{BackingDevInfo, BdiWriteback};
use crate::linux::include::cgroup_defs::Cgroup;
use crate::linux::include::fs::{Inode, SuperBlock};
use crate::sync::{NULL, Ptr, Tp, emit, immortal, kzalloc_nofail};

const BDIS: u32 = MAX_BDIS as u32;
const CGROUPS: u32 = MAX_CGROUPS as u32;
const OBJECTS: u32 = MAX_OBJECTS as u32;

kstruct! {
    /// Handles by index in the case's names; null when the object does not exist.
    pub struct Objects: "case", "LT-MEM-0", objects_fields {
        /// Devices.
        bdis: Table<BDIS>,
        /// Their ids, which stay known when they are gone.
        bdi_ids: Table<BDIS>,
        /// References that the case has on each.
        bdi_refs: Table<BDIS>,
        /// 1 once somebody has begun to unregister it.
        unplugs: Table<BDIS>,
        /// Cgroups.
        cgroups: Table<CGROUPS>,
        /// Ids of the memory css that each was made with.
        css_ids: Table<CGROUPS>,
        /// Superblocks that are mounted.
        sbs: Table<OBJECTS>,
        /// 1 once somebody has begun to unmount it.
        unmounted: Table<OBJECTS>,
        /// What keeps each from being unmounted: open files and operations under way.
        sb_users: Table<OBJECTS>,
        /// Inodes.
        inodes: Table<OBJECTS>,
        /// References that the case has on each.
        opens: Table<OBJECTS>,
        /// 1 once the disk of a block-device inode was released.
        released: Table<OBJECTS>,
        /// Kept references on wbs.
        wbs: Table<OBJECTS>,
    }
}

impl Objects {
    /// A fresh table in which nothing exists.
    pub fn boot() -> Objects {
        let p = kzalloc_nofail(Objects::TYPE);
        immortal(p);
        Objects(p)
    }
}

/// The handles as an operation at one place of the case sees them.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub objects: Objects,
    pub plan: &'a Plan,
    pub here: Place,
}

impl View<'_> {
    /// Reads a handle. One that another task makes may appear at any time, so looking at it is a step; if a task also takes
    /// the object away, no other task can hold on to it in time, and it does not exist for them.
    async fn read<const N: u32>(self, table: Table<N>, index: usize, made: Place, taken: bool) -> Ptr {
        let slot = table.slot(index as u32);
        match (made, self.here) {
            (Place::Task(a), Place::Task(b)) if a != b => {
                if taken {
                    NULL
                } else {
                    slot.read_once().await
                }
            }
            _ => slot.get(),
        }
    }
    pub async fn bdi(self, b: BdiRef) -> BackingDevInfo {
        let i = b.index();
        BackingDevInfo(self.read(self.objects.bdis(), i, self.plan.bdis[i], self.plan.taken.bdis[i]).await)
    }
    pub async fn cgroup(self, c: CgroupRef) -> Cgroup {
        // A cgroup's memory stays, so it can be found dead.
        Cgroup(self.read(self.objects.cgroups(), c.index(), self.plan.cgroups[c.index()], false).await)
    }
    pub async fn sb(self, s: SbRef) -> SuperBlock {
        let i = s.index();
        SuperBlock(self.read(self.objects.sbs(), i, self.plan.sbs[i], self.plan.taken.sbs[i]).await)
    }
    pub async fn inode(self, n: InodeRef) -> Inode {
        let i = n.index();
        Inode(self.read(self.objects.inodes(), i, self.plan.inodes[i], self.plan.taken.inodes[i]).await)
    }
    /// Is it a cgroup that other tasks make and take away, so that this one cannot live in it?
    pub fn elusive(self, c: CgroupRef) -> bool {
        matches!((self.plan.cgroups[c.index()], self.here), (Place::Task(a), Place::Task(b)) if a != b) && self.plan.taken.cgroups[c.index()]
    }
    /// Stores a handle; in a task that is a step, because others may look.
    pub async fn store<const N: u32>(self, table: Table<N>, index: usize, p: Ptr) {
        let slot = table.slot(index as u32);
        match self.here {
            Place::Task(_) => {
                slot.write_once(p).await;
            }
            _ => slot.set(p),
        }
    }
    /// Takes a kept reference out of its slot.
    pub async fn take_wb(self, w: WbRef) -> BdiWriteback {
        let wb = self.objects.wbs().slot(w.index() as u32).xchg(NULL).await;
        if !wb.is_null() {
            emit(Tp::Kept, wb, 0);
        }
        BdiWriteback(wb)
    }
    /// Keeps the running task's reference in a slot.
    pub async fn keep_wb(self, w: WbRef, wb: BdiWriteback) {
        emit(Tp::Kept, wb.ptr(), 1);
        self.store(self.objects.wbs(), w.index(), wb.ptr()).await;
    }
    /// Changes a count of the case's references and yields the new one.
    pub fn count<const N: u32>(self, table: Table<N>, index: usize, by: i32) -> u32 {
        let slot = table.slot(index as u32);
        let n = slot.get().0.saturating_add_signed(by);
        slot.set(Ptr(n));
        n
    }
}
