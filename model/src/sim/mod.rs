//! Simulation: writers, throttling, flushers and a modelled disk in virtual time.
//!
//! Main function: [`run`]. Throttling, its estimators and its limits are the mirrored code of `linux::mm::page_writeback` bit for bit;
//! pages, inodes and flushers are here, at the grain of requests and of the steps between two checks of a writer.
//! Contract: the same scenario and seed give the same output. Must not know: reports, bands.
//!
//! Left out: locks other than the list lock of a dying wb, CPU time of anything but copying and flushing statistics, the journal
//! of a file system beyond the pages it dirties, swap and anonymous memory beyond a fixed charge.

mod admin;
mod engine;
mod flusher;
mod measure;
mod oracles;
mod output;
mod owner;
mod pages;
mod rng;
mod state;
mod stats;
#[cfg(test)]
mod tests;
mod throttle;
mod world;
mod writer;

pub use output::{METRICS, Metric, Of, Output, Sample, Unit, WriterOutput, metric};

use crate::disk::Disk;
use crate::linux::include::cgroup_defs::MEMCG_CGWB_FRN_CNT;
use crate::linux::mm::memcontrol::frn::FrnRecord;
use crate::linux::mm::page_writeback::limits::{BdiThrottle, Sysctl, WbDomain, bdi_set_max_ratio_no_scale, bdi_set_min_ratio_no_scale};
use crate::linux::mm::page_writeback::ratelimited::CpuRatelimit;
use crate::policy::OrderCap;
use crate::scenarios::{Owner, PAGE_BYTES, Scenario};
use engine::{Engine, SECOND, WaitList};
use measure::Measure;
use rng::Rng;
use state::{Bdi, DiskSt, Global, Inode, JIFFIES_START, Memcg, On, ROOT, St, memcg_of, pages_of};
use stats::Stats;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use world::{SAMPLE_NS, Timer, World};

/// Folios that a limit should hold at least, by the rule of 512.
const FOLIOS_IN_A_LIMIT: u64 = 512;

/// Runs a scenario once. What chance decides follows from `seed`.
pub fn run(scenario: &Scenario, seed: u64) -> Output {
    let world = boot(scenario, seed);
    let timers = world.clone();
    world.engine.run(scenario.duration_us * 1000, |id| timers.timer(id));
    world.engine.clear();
    world.output()
}

fn boot(s: &Scenario, seed: u64) -> Rc<World> {
    let machine = &s.machine;
    let (hz, cpus) = (u64::from(machine.hz), machine.cpus);
    let now = JIFFIES_START;
    let limit = |bytes: Option<u64>| bytes.map_or(u64::MAX / PAGE_BYTES, |b| b / PAGE_BYTES);
    let parents = state::parents(s);
    let memcg = |parent: Option<usize>, m: Option<&crate::scenarios::Memcg>| Memcg {
        parent: parent.map(|p| p as u32),
        max: limit(m.and_then(|m| m.max_bytes)),
        high: limit(m.and_then(|m| m.high_bytes)),
        used: 0,
        dying: false,
        dirty_min: m.map_or(0, |m| m.dirty_min_bytes / PAGE_BYTES),
        dirty_ratio: m.and_then(|m| m.dirty_ratio.map(|r| r as u32)),
        domain: WbDomain::new(now, cpus),
        frn: [FrnRecord { bdi_id: 0, memcg_id: 0, at: 0, idle: true }; MEMCG_CGWB_FRN_CNT as usize],
        bdev_marks: Vec::new(),
        clean: VecDeque::new(),
        dirtied_since_flush: 0,
        frozen_dirty: 0,
    };
    let memcgs = parents.iter().enumerate().map(|(i, p)| memcg(*p, i.checked_sub(1).map(|i| &s.memcgs[i]))).collect();
    let st = St {
        hz,
        nr_cpus: cpus,
        memcgs,
        bdis: Vec::new(),
        wbs: Vec::new(),
        inodes: Vec::new(),
        disks: s.disks.iter().map(|d| DiskSt { disk: Disk::new(d), room: WaitList::default(), due: None }).collect(),
        flights: Vec::new(),
        free_flights: Vec::new(),
        stats: Stats::new(&parents, cpus),
        global: Global {
            sysctl: Sysctl {
                dirty_ratio: machine.dirty_ratio as u32,
                dirty_bytes: machine.dirty_bytes,
                dirty_background_ratio: machine.dirty_background_ratio as u32,
                dirty_background_bytes: machine.dirty_background_bytes,
            },
            domain: WbDomain::new(now, cpus),
            dirty: 0,
            writeback: 0,
            file: 0,
            other: 0,
            memory: machine.memory_bytes / PAGE_BYTES,
            ratelimit_pages: 32,
            bdi_min_ratio: 0,
            flush_last_time: now,
            reclaim_hand: 0,
        },
        cpus: vec![CpuRatelimit::default(); cpus as usize],
        rng: Rng::new(seed, 1),
        scratch: Vec::new(),
    };
    let inodes = s.files.iter().map(|f| f.count.max(1) as usize).sum();
    let world = Rc::new(World {
        engine: Engine::default(),
        st: RefCell::new(st),
        measure: RefCell::new(Measure::new(s.writers.len(), s.direct.len(), inodes)),
        scenario: s.clone(),
        policy: s.policy,
    });
    {
        let mut st = world.st.borrow_mut();
        for (i, m) in s.memcgs.iter().enumerate() {
            let pages = pages_of(m.anon_bytes);
            st.global.other += pages;
            let mut at = Some(i as u32 + 1);
            while let Some(m) = at {
                st.memcgs[m as usize].used += pages;
                at = st.memcgs[m as usize].parent;
            }
        }
    }
    world.set_ratelimit();
    for bdi in 0..s.filesystems.len() {
        mount(&world, bdi);
    }
    for file in 0..s.files.len() {
        make_files(&world, file);
    }
    for n in 0..s.writers.len() {
        let first = world.first_inode(s.writers[n].file);
        world.engine.spawn(writer::buffered(world.clone(), n as u32, first, seed));
    }
    for n in 0..s.direct.len() {
        world.engine.spawn(writer::direct(world.clone(), n as u32));
    }
    for r in &s.stat_readers {
        world.engine.spawn(admin::stat_reader(world.clone(), r.clone()));
    }
    let phase = world.st.borrow_mut().rng.below(2 * SECOND);
    world.engine.spawn(admin::stats_worker(world.clone(), phase));
    world.engine.spawn(admin::administrator(world.clone()));
    world.arm(SAMPLE_NS, Timer::Sample);
    world
}

fn mount(world: &Rc<World>, bdi: usize) {
    let fs = &world.scenario.filesystems[bdi];
    let root_wb = {
        let mut st = world.st.borrow_mut();
        let st = &mut *st;
        let mut throttle = BdiThrottle { strictlimit: fs.strictlimit, ..BdiThrottle::default() };
        // The parser has made sure of both.
        let _ = bdi_set_max_ratio_no_scale(&mut throttle, fs.max_ratio_ppm as u32);
        let _ = bdi_set_min_ratio_no_scale(&mut throttle, &mut st.global.bdi_min_ratio, fs.min_ratio_ppm as u32);
        let memcgs = st.memcgs.len();
        st.bdis.push(Bdi { throttle, root_wb: 0, cgwb: vec![None; memcgs], wbs: Vec::new() });
        let root_wb = st.new_wb(bdi as u32, ROOT, 0);
        st.bdis[bdi].root_wb = root_wb;
        root_wb
    };
    flusher::start(world, root_wb);
}

/// Order of the folios of a file system under the policy.
fn folio_order(world: &World, bdi: usize) -> u32 {
    let order = world.scenario.filesystems[bdi].order;
    match world.policy.order {
        OrderCap::None => order,
        OrderCap::Fixed(cap) => order.min(cap),
        OrderCap::Folios512 => {
            let (g, _) = world.st.borrow().limits_now(ROOT, Default::default());
            let limit = g.thresh * world.scenario.filesystems[bdi].max_ratio_ppm / 1_000_000;
            (0..=order).rev().find(|o| limit >> o >= FOLIOS_IN_A_LIMIT).unwrap_or(0)
        }
    }
}

fn make_files(world: &Rc<World>, file: usize) {
    let f = &world.scenario.files[file];
    let order = folio_order(world, f.fs);
    for _ in 0..f.count.max(1) {
        let inode = {
            let mut st = world.st.borrow_mut();
            st.inodes.push(Inode {
                fs: f.fs as u32,
                wb: None,
                dirtied_when: 0,
                on: On::None,
                dirty_sync: false,
                syncing: false,
                pages: Default::default(),
                size_bytes: f.size_bytes,
                writeback_index: 0,
                frn_winner: 0,
                frn_avg_time: 0,
                frn_history: 0,
                order: if f.bdev { 0 } else { order },
                bdev: f.bdev,
                sync_wait: WaitList::default(),
                held_back: Vec::new(),
                held_pages: 0,
            });
            st.inodes.len() as u32 - 1
        };
        match f.owner {
            Some(Owner::Root) => {
                world.attach(inode, ROOT);
            }
            Some(Owner::Memcg(m)) => {
                world.attach(inode, memcg_of(Some(m)));
            }
            None => {}
        }
    }
}
