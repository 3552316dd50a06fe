//! What memory statistics cost where operations happen at once: `cargo run --release -p wbmodel --example rstat_cost [updates]`.

use std::time::Instant;
use wbmodel::linux::include::cgroup_defs::MemCgroup;
use wbmodel::linux::mm::memcontrol::stats::{StatItem, boot_alone, flush_root, memcg_alone, mod_memcg_state};
use wbmodel::policy::FlushPolicy;
use wbmodel::sync::{at_once, with};

fn main() {
    let n: u32 = std::env::args().nth(1).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    for (cpus, memcgs) in [(1, 2), (64, 10), (512, 300)] {
        let root = boot_alone(cpus, FlushPolicy::Ratelimited, 250);
        let memcg: Vec<MemCgroup> = (0..memcgs).map(|_| memcg_alone(root)).collect();
        let (mut flushes, mut visits, mut in_flush) = (0, 0, 0.0);
        let start = Instant::now();
        at_once(async {
            for i in 0..n {
                with(|m| m.migrate(i % cpus));
                mod_memcg_state(memcg[(i / 7 % memcgs) as usize], StatItem::FileDirty, if i % 2 == 0 { 1 } else { -1 }).await;
                if i % (n / 20) == n / 20 - 1 {
                    let begin = Instant::now();
                    let f = flush_root().await;
                    in_flush += begin.elapsed().as_secs_f64();
                    flushes += 1;
                    visits += f.visits;
                }
            }
        });
        let updates = start.elapsed().as_secs_f64() - in_flush;
        println!(
            "{cpus} CPUs, {memcgs} memcgs: {:.0} ns an update, {:.1} us a flush, {:.0} ns a visit ({visits} visits in {flushes} flushes)",
            updates / f64::from(n) * 1e9,
            in_flush / f64::from(flushes) * 1e6,
            in_flush / f64::from(visits) * 1e9
        );
    }
}
