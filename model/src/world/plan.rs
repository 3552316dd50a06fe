//! What a case's text says about who uses what, and for how long: decided once a case, not in every execution.

use crate::cases::{BdiRef, Case, CgroupRef, InodeRef, Irq, Op, Ref, SbRef, Stmt};

/// Where an operation stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Setup,
    Task(u16),
    Teardown,
}

/// What one task keeps for itself while it needs it, because another task may take it away: as a process keeps its cgroup
/// from going by living in it, a file by a descriptor, and a device by the file.
#[derive(Debug, Default)]
pub(super) struct Keeps {
    /// Cgroups it lives in, each with the index of the last operation that needs it.
    pub cgroups: Vec<(CgroupRef, usize)>,
    /// Files it has open.
    pub inodes: Vec<(InodeRef, usize)>,
    /// Devices it pins.
    pub bdis: Vec<(BdiRef, usize)>,
    /// Superblocks that it may find unmounted, but not freed.
    pub sbs: Vec<(SbRef, usize)>,
}

impl Keeps {
    pub fn is_empty(&self) -> bool {
        self.cgroups.is_empty() && self.inodes.is_empty() && self.bdis.is_empty() && self.sbs.is_empty()
    }
}

/// Which objects of each kind some task takes away.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub bdis: Vec<bool>,
    pub cgroups: Vec<bool>,
    pub sbs: Vec<bool>,
    pub inodes: Vec<bool>,
}

/// The analysis of a case.
#[derive(Debug)]
pub(super) struct Plan {
    /// Where each object is made, by index.
    pub bdis: Vec<Place>,
    pub cgroups: Vec<Place>,
    /// Parent of each cgroup.
    pub parents: Vec<CgroupRef>,
    pub sbs: Vec<Place>,
    pub inodes: Vec<Place>,
    pub keeps: Vec<Keeps>,
    pub taken: Taken,
    /// Tasks that differ in nothing but their names, each with the last such one before it.
    pub equal: Vec<(u16, u16)>,
    /// File system of each inode.
    pub sb_of: Vec<Option<SbRef>>,
    /// Device of each file system, if the file system keeps the device for itself.
    pub own_bdi: Vec<Option<BdiRef>>,
}

fn places(case: &Case) -> impl Iterator<Item = (Place, &Stmt)> {
    let setup = case.setup.iter().map(|s| (Place::Setup, s));
    let tasks = case.tasks.iter().enumerate().flat_map(|(i, t)| t.body.iter().map(move |s| (Place::Task(i as u16), s)));
    setup.chain(tasks).chain(case.teardown.iter().map(|s| (Place::Teardown, s)))
}

impl Plan {
    pub fn new(case: &Case) -> Plan {
        let never = |n: &Vec<String>| vec![Place::Teardown; n.len()];
        let names = &case.names;
        let mut plan = Plan {
            bdis: never(&names.bdis),
            cgroups: never(&names.cgroups),
            parents: (0..names.cgroups.len()).map(|i| names.cgroup_parent(CgroupRef(i as u16)).unwrap_or(CgroupRef::ROOT)).collect(),
            sbs: never(&names.sbs),
            inodes: never(&names.inodes),
            keeps: Vec::new(),
            taken: Taken::default(),
            equal: Vec::new(),
            sb_of: vec![None; names.inodes.len()],
            own_bdi: vec![None; names.sbs.len()],
        };
        plan.cgroups[0] = Place::Setup;
        for (place, s) in places(case) {
            match s.op {
                Op::Bdi { bdi } => plan.bdis[bdi.index()] = place,
                Op::Cgroup { cgroup, .. } => plan.cgroups[cgroup.index()] = place,
                Op::Sb { sb, bdi, own_bdi, .. } => {
                    plan.sbs[sb.index()] = place;
                    plan.own_bdi[sb.index()] = own_bdi.then_some(bdi);
                }
                Op::Inode { inode, sb, .. } => {
                    plan.inodes[inode.index()] = place;
                    plan.sb_of[inode.index()] = Some(sb);
                }
                _ => {}
            }
        }
        let all = |n: usize, r: fn(u16) -> Ref| (0..n).map(|i| plan.taken(case, r(i as u16))).collect::<Vec<bool>>();
        plan.taken = Taken {
            bdis: all(names.bdis.len(), |i| Ref::Bdi(BdiRef(i))),
            cgroups: all(names.cgroups.len(), |i| Ref::Cgroup(CgroupRef(i))),
            sbs: all(names.sbs.len(), |i| Ref::Sb(SbRef(i))),
            inodes: all(names.inodes.len(), |i| Ref::Inode(InodeRef(i))),
        };
        plan.keeps = case.tasks.iter().map(|t| plan.keeps_of(&t.body)).collect();
        plan.equal = plan.equal_tasks(case);
        plan
    }

    fn equal_tasks(&self, case: &Case) -> Vec<(u16, u16)> {
        let makes = |i: usize| {
            let all = [&self.bdis, &self.cgroups, &self.sbs, &self.inodes];
            all.into_iter().flatten().any(|p| *p == Place::Task(i as u16))
        };
        let joined = |i: usize| places(case).any(|(_, s)| matches!(s.op, Op::Join { task } if usize::from(task.0) == i));
        let alone = |i: usize| makes(i) || joined(i) || case.tasks[i].cpu.is_some() || case.tasks[i].irq != Irq::None;
        let same = |a: usize, b: usize| {
            let ops = |i: usize| case.tasks[i].body.iter().map(|s| &s.op);
            ops(a).eq(ops(b))
        };
        let before = |b: usize| (0..b).rev().find(|&a| same(a, b) && !alone(a) && !alone(b)).map(|a| (a as u16, b as u16));
        // Statistics are kept CPU by CPU: there it matters who has which.
        let by_cpu = case.machine.shared_cpus || case.machine.stats.is_some();
        if by_cpu { Vec::new() } else { (0..case.tasks.len()).filter_map(before).collect() }
    }

    /// Does an operation of some task take this away?
    fn taken(&self, case: &Case, taken: Ref) -> bool {
        places(case).any(|(place, s)| {
            matches!(place, Place::Task(_))
                && match (&s.op, taken) {
                    (Op::Rmdir { cgroup }, Ref::Cgroup(c)) => *cgroup == c,
                    (Op::Close { inode } | Op::DiskRelease { inode }, Ref::Inode(i)) => *inode == i,
                    (Op::Umount { sb }, Ref::Sb(s)) => *sb == s,
                    (Op::BdiPut { bdi }, Ref::Bdi(b)) => *bdi == b,
                    (Op::Umount { sb } | Op::Retire { sb }, Ref::Bdi(b)) => self.own_bdi[sb.index()] == Some(b),
                    _ => false,
                }
        })
    }

    fn keeps_of(&self, body: &[Stmt]) -> Keeps {
        fn note<T: PartialEq>(list: &mut Vec<(T, usize)>, what: T, at: usize) {
            match list.iter_mut().find(|e| e.0 == what) {
                Some(e) => e.1 = at,
                None => list.push((what, at)),
            }
        }
        let mut keeps = Keeps::default();
        for (at, s) in body.iter().enumerate() {
            for (param, r) in s.op.refs() {
                match r {
                    Ref::Cgroup(c) if param == "as" && self.taken.cgroups[c.index()] => note(&mut keeps.cgroups, c, at),
                    Ref::Inode(i) if self.taken.inodes[i.index()] && !matches!(s.op, Op::Close { .. } | Op::Open { .. } | Op::Inode { .. }) => {
                        note(&mut keeps.inodes, i, at);
                    }
                    Ref::Bdi(b) if self.taken.bdis[b.index()] && !matches!(s.op, Op::BdiPut { .. } | Op::Bdi { .. } | Op::ById { .. }) => {
                        note(&mut keeps.bdis, b, at);
                    }
                    Ref::Sb(b) if self.taken.sbs[b.index()] && !matches!(s.op, Op::Umount { .. } | Op::Sb { .. }) => note(&mut keeps.sbs, b, at),
                    _ => {}
                }
            }
        }
        keeps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equal(tasks: &str) -> Vec<(u16, u16)> {
        let text = format!("schema 1\ncase \"c\"\nsetup {{ bdi \"sda\"; cgroup \"m\" }}\n{tasks}");
        Plan::new(&crate::cases::parse("test.kdl", &text).unwrap_or_else(|e| panic!("{}", e.one_line()))).equal
    }

    #[test]
    fn tasks_are_equal_if_nothing_but_their_names_differs() {
        let create = "get-create \"sda\" of=\"m\"";
        let task = |name: &str, body: &str| format!("task \"{name}\" {{ {body} }}\n");
        assert_eq!(equal(&(task("a", create) + &task("b", "rmdir \"m\"") + &task("c", create) + &task("d", create))), [(0, 2), (2, 3)]);
        assert_eq!(equal(&(task("a", create) + &task("b", &format!("{create}; {create}")))), []);
        // Somebody waits for one of them, and not for the other.
        assert_eq!(equal(&(task("a", create) + &task("b", create) + &task("c", "join \"a\""))), []);
        // What they make is named after the one that makes it.
        assert_eq!(equal(&(task("a", "cgroup \"m/x\"") + &task("b", create))), []);
        assert_eq!(equal(&format!("{}task \"b\" cpu=1 {{ {create} }}\n", task("a", create))), []);
    }
}
