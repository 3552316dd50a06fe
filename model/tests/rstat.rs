//! Memory statistics at the size that a simulation needs.

use wbmodel::linux::include::cgroup_defs::MemCgroup;
use wbmodel::linux::mm::memcontrol::stats::{self, StatItem, memcg_page_state, mod_memcg_state};
use wbmodel::policy::FlushPolicy;
use wbmodel::sync::{at_once, with};

#[test]
fn hundreds_of_memcgs_on_hundreds_of_cpus_fit() {
    let root = stats::boot_alone(512, FlushPolicy::Always, 250);
    let parent = stats::memcg_alone(root);
    let memcgs: Vec<MemCgroup> = (0..300).map(|_| stats::memcg_alone(parent)).collect();
    at_once(async {
        for (i, m) in memcgs.iter().enumerate() {
            for cpu in [i as u32, 511 - i as u32] {
                with(|m| m.migrate(cpu));
                mod_memcg_state(*m, StatItem::Writeback, 2).await;
            }
        }
        let f = stats::mem_cgroup_flush_stats_force(root).await;
        // Each CPU in use visits its memcgs, their parent and the root: CPUs 212 to 299 have two.
        assert_eq!(f.visits, 600 + 2 * 512);
        assert_eq!(memcg_page_state(root, StatItem::Writeback).await, 1200);
        assert_eq!(memcg_page_state(memcgs[299], StatItem::Writeback).await, 4);
    });
    assert!(with(|m| m.log.len()) < 2 && with(|m| m.violations.is_empty()));
}
