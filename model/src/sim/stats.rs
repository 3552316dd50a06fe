//! Statistics of memcgs, as readers see them: late.
//!
//! Main type: [`Stats`], the contract of `kernel::cgroup::rstat` and `mm::memcontrol::stats` without their steps: millions of updates a second
//! are needed here, and nothing comes between two steps of one. It is held against the same recorded sequences as they are. Every memcg has
//! counters that are exact and counters that a flush brings up to date; a flush costs the (memcg, CPU) pairs that it visits.

use super::pages::MemcgId;

/// What is counted, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Item {
    /// `NR_FILE_DIRTY`
    Dirty,
    /// `NR_WRITEBACK`
    Writeback,
    /// `NR_INACTIVE_FILE` and `NR_ACTIVE_FILE`
    File,
}

const ITEMS: usize = 3;
/// `MEMCG_CHARGE_BATCH`
const BATCH: u64 = 64;

type Counts = [i64; ITEMS];

#[derive(Clone, Default, Debug)]
struct PerCpu {
    delta: Counts,
    updates: u64,
    linked: bool,
}

#[derive(Clone, Default, Debug)]
struct Memcg {
    parent: Option<usize>,
    children: Vec<usize>,
    exact: Counts,
    state: Counts,
    pending: Counts,
    updates: u64,
    cpus: Vec<PerCpu>,
    /// CPUs on which something is pending, here or below.
    linked: Vec<u32>,
}

/// Counters of all memcgs.
#[derive(Clone, Debug)]
pub struct Stats {
    memcgs: Vec<Memcg>,
    nr_cpus: u64,
}

impl Stats {
    /// Memcgs by the index of their parent, parents first; the root has none.
    pub fn new(parents: &[Option<usize>], nr_cpus: u32) -> Stats {
        let mut memcgs: Vec<Memcg> =
            parents.iter().map(|p| Memcg { parent: *p, cpus: vec![PerCpu::default(); nr_cpus as usize], ..Memcg::default() }).collect();
        for (i, p) in parents.iter().enumerate() {
            if let Some(p) = *p {
                memcgs[p].children.push(i);
            }
        }
        Stats { memcgs, nr_cpus: u64::from(nr_cpus) }
    }
    /// Changes a counter of a memcg on a CPU.
    pub fn add(&mut self, memcg: MemcgId, item: Item, cpu: usize, nr: i64) {
        let own = memcg as usize;
        self.memcgs[own].cpus[cpu].delta[item as usize] += nr;
        // Into the update tree, with every ancestor that is not there yet.
        let mut link = Some(own);
        while let Some(i) = link {
            let m = &mut self.memcgs[i];
            if std::mem::replace(&mut m.cpus[cpu].linked, true) {
                break;
            }
            m.linked.push(cpu as u32);
            link = m.parent;
        }
        let mut at = Some(own);
        let mut count = true;
        while let Some(i) = at {
            let m = &mut self.memcgs[i];
            m.exact[item as usize] += nr;
            count &= m.updates <= BATCH * self.nr_cpus;
            if count {
                let c = &mut m.cpus[cpu];
                c.updates += nr.unsigned_abs();
                if c.updates >= BATCH {
                    m.updates += std::mem::take(&mut c.updates);
                }
            }
            at = m.parent;
        }
    }
    /// Has the memcg no children?
    pub fn is_leaf(&self, memcg: MemcgId) -> bool {
        self.memcgs[memcg as usize].children.is_empty()
    }
    /// Is enough pending that a gated flush happens?
    pub fn flushable(&self, memcg: MemcgId) -> bool {
        self.memcgs[memcg as usize].updates > BATCH * self.nr_cpus
    }
    /// Flushes a memcg and all below it; yields how many (memcg, CPU) pairs were visited.
    pub fn flush(&mut self, memcg: MemcgId) -> u64 {
        self.flush_tree(memcg as usize)
    }
    fn flush_tree(&mut self, i: usize) -> u64 {
        let mut visited = 0;
        for c in 0..self.memcgs[i].children.len() {
            visited += self.flush_tree(self.memcgs[i].children[c]);
        }
        let m = &mut self.memcgs[i];
        let mut sum = std::mem::take(&mut m.pending);
        visited += m.linked.len() as u64;
        for cpu in m.linked.drain(..) {
            let c = &mut m.cpus[cpu as usize];
            for (s, d) in sum.iter_mut().zip(std::mem::take(&mut c.delta)) {
                *s += d;
            }
            c.linked = false;
            c.updates = 0;
        }
        m.updates = 0;
        for (s, d) in m.state.iter_mut().zip(sum) {
            *s += d;
        }
        if let Some(p) = m.parent {
            for (s, d) in self.memcgs[p].pending.iter_mut().zip(sum) {
                *s += d;
            }
        }
        visited
    }
    /// What a reader sees: the last flush; never negative.
    pub fn read(&self, memcg: MemcgId, item: Item) -> u64 {
        self.memcgs[memcg as usize].state[item as usize].max(0) as u64
    }
    /// The truth.
    pub fn exact(&self, memcg: MemcgId, item: Item) -> u64 {
        self.memcgs[memcg as usize].exact[item as usize].max(0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded operations on statistics, with what the kernel's arithmetic makes of them.
    const SEQUENCES: &str = include_str!("../../../corpus/vectors/memcg_rstat_sequence.csv");

    #[test]
    fn sequences_give_what_the_kernel_gave() {
        let mut rows = csv::Reader::from_reader(SEQUENCES.as_bytes());
        let names = rows.headers().unwrap().clone();
        let column = |name: &str| names.iter().position(|n| n == name).unwrap();
        let mut stats = Stats::new(&[None], 1);
        let (mut sequence, mut flushed) = (None, 0);
        for row in rows.records() {
            let row = row.unwrap();
            let number = |name: &str| row[column(name)].parse::<i64>().unwrap();
            if sequence != Some(number("seq")) {
                let parents: Vec<Option<usize>> = row[column("tree_parents")].split(' ').map(|p| p.parse().ok()).collect();
                stats = Stats::new(&parents, number("nr_cpus") as u32);
                sequence = Some(number("seq"));
            }
            let (memcg, cpu) = (number("memcg") as MemcgId, number("cpu") as usize);
            match &row[column("op")] {
                "mod" => stats.add(memcg, Item::Dirty, cpu, number("delta_pages")),
                _ => {
                    let flush = number("flush_force") == 1 || stats.flushable(memcg);
                    assert_eq!(i64::from(flush), number("flushed"), "{row:?}");
                    if flush {
                        let visits = stats.flush(memcg);
                        let linked = row[column("flush_order_memcg_at_cpu")].split_whitespace().count() as u64;
                        assert_eq!(visits, linked, "{row:?}");
                        flushed += 1;
                    }
                }
            }
            let m = &stats.memcgs[memcg as usize];
            assert_eq!(m.exact[0], number("true_sum_pages"), "{row:?}");
            assert_eq!(stats.read(memcg, Item::Dirty) as i64, number("read_state_pages"), "{row:?}");
            assert_eq!(m.updates as i64, number("vmstats_stats_updates"), "{row:?}");
            assert_eq!(m.cpus[cpu].updates as i64, number("percpu_stats_updates_cpu"), "{row:?}");
            assert_eq!(stats.read(0, Item::Dirty) as i64, number("root_read_state_pages"), "{row:?}");
            assert_eq!(stats.memcgs[0].updates as i64, number("root_stats_updates"), "{row:?}");
        }
        assert!(flushed > 50);
    }
}
