//! The case's handles on kernel objects, kept in the machine's memory like everything that tasks share.

use super::plan::{Place, Plan};
use crate::cases::limits::{MAX_BDIS, MAX_CGROUPS, MAX_OBJECTS};
use crate::cases::{BdiRef, CgroupRef, InodeRef, SbRef, WbRef};
use crate::kstruct;
use crate::linux::Table;
use crate::linux::include::backing_dev_defs::{BackingDevInfo, BdiWriteback};
use crate::linux::include::cgroup_defs::Cgroup;
use crate::linux::include::fs::{Inode, SuperBlock};
use crate::sync::{Ptr, immortal, kzalloc_nofail};

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
        /// Inodes.
        inodes: Table<OBJECTS>,
        /// References that the case has on each.
        opens: Table<OBJECTS>,
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

/// Reads a handle. One that another task makes may appear at any time, so looking at it is a step.
async fn read<const N: u32>(table: Table<N>, index: usize, made: Place, here: Place) -> Ptr {
    let slot = table.slot(index as u32);
    match made {
        Place::Task(_) if made != here && here != Place::Teardown => slot.read_once().await,
        _ => slot.get(),
    }
}

impl View<'_> {
    pub async fn bdi(self, b: BdiRef) -> BackingDevInfo {
        BackingDevInfo(read(self.objects.bdis(), b.index(), self.plan.bdis[b.index()], self.here).await)
    }
    pub async fn cgroup(self, c: CgroupRef) -> Cgroup {
        Cgroup(read(self.objects.cgroups(), c.index(), self.plan.cgroups[c.index()], self.here).await)
    }
    pub async fn sb(self, s: SbRef) -> SuperBlock {
        SuperBlock(read(self.objects.sbs(), s.index(), self.plan.sbs[s.index()], self.here).await)
    }
    pub async fn inode(self, i: InodeRef) -> Inode {
        Inode(read(self.objects.inodes(), i.index(), self.plan.inodes[i.index()], self.here).await)
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
        BdiWriteback(self.objects.wbs().slot(w.index() as u32).xchg(Ptr(0)).await)
    }
    /// Changes a count of the case's references and yields the new one.
    pub fn count<const N: u32>(self, table: Table<N>, index: usize, by: i32) -> u32 {
        let slot = table.slot(index as u32);
        let n = slot.get().0.saturating_add_signed(by);
        slot.set(Ptr(n));
        n
    }
}
