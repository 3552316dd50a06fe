//! Operations on memory statistics.

use super::cgroup::{css_by_id, css_id};
use super::objects::View;
use super::{EBUSY, ENODEV, ENOENT, usable};
use crate::cases::{CgroupRef, CssId, FlushEntry, Op};
use crate::linux::include::cgroup_defs::{Css, MemCgroup};
use crate::linux::kernel::cgroup::cgroup::css_put;
use crate::linux::mm::memcontrol::stats::{
    StatItem, lruvec_stat_mod_folio, mem_cgroup_flush_stats, mem_cgroup_flush_stats_force, mem_cgroup_flush_stats_ratelimited, mem_cgroup_wb_stats,
    mod_memcg_state, set_cpu_online, statistics,
};
use crate::sync::{nr_cpu_ids, with};

/// A memcg that an operation may use.
struct Pinned {
    css: Css,
    /// With a reference, because some task may remove the cgroup.
    counted: bool,
}

impl Pinned {
    fn memcg(&self) -> MemCgroup {
        self.css.memcg()
    }
    async fn put(self) {
        if self.counted {
            css_put(self.css).await;
        }
    }
}

/// As a page or an open file keeps its memcg, also after the cgroup was removed.
async fn pin(view: View<'_>, cgroup: CgroupRef) -> Result<Pinned, i64> {
    if statistics().is_null() {
        return Err(ENODEV);
    }
    let counted = view.plan.taken.cgroups[cgroup.index()];
    let css = if counted { css_by_id(css_id(view, CssId::Of(cgroup))).await } else { usable(view.cgroup(cgroup).await)?.subsys_memory().get() };
    if css.is_null() { Err(ENOENT) } else { Ok(Pinned { css, counted }) }
}

async fn add(view: View<'_>, cgroup: CgroupRef, by: i32, item: StatItem, times: u32) -> Result<i64, i64> {
    let pinned = pin(view, cgroup).await?;
    for _ in 0..times {
        match item {
            StatItem::PercpuB => mod_memcg_state(pinned.memcg(), item, i64::from(by)).await,
            _ => lruvec_stat_mod_folio(pinned.memcg(), item, i64::from(by)).await,
        }
    }
    pinned.put().await;
    Ok(0)
}

/// 1 if it flushed.
async fn flush(view: View<'_>, cgroup: CgroupRef, entry: FlushEntry) -> Result<i64, i64> {
    let pinned = pin(view, cgroup).await?;
    let done = match entry {
        FlushEntry::Gated => mem_cgroup_flush_stats(pinned.memcg()).await,
        FlushEntry::Forced => mem_cgroup_flush_stats_force(pinned.memcg()).await,
        FlushEntry::Ratelimited => mem_cgroup_flush_stats_ratelimited(pinned.memcg()).await,
    };
    pinned.put().await;
    Ok(i64::from(done.ran))
}

/// The dirty pages that were read.
async fn read(view: View<'_>, cgroup: CgroupRef, quantum: u32) -> Result<i64, i64> {
    let pinned = pin(view, cgroup).await?;
    let stats = mem_cgroup_wb_stats(pinned.memcg(), u64::from(quantum)).await;
    pinned.put().await;
    Ok(stats.dirty as i64)
}

async fn set_online(cpu: u32, online: bool) -> Result<i64, i64> {
    if statistics().is_null() || cpu >= nr_cpu_ids() {
        return Err(ENODEV);
    }
    // A CPU goes after its tasks have left it.
    if !online && (with(|m| m.this_cpu()) == cpu || statistics().num_online_cpus().get() == 1) {
        return Err(EBUSY);
    }
    if set_cpu_online(cpu, online).await { Ok(0) } else { Err(EBUSY) }
}

/// Performs the operation, if it is one of those here.
pub(super) async fn perform(view: View<'_>, op: &Op) -> Option<i64> {
    let result = match *op {
        Op::StatAdd { cgroup, by, item, times } => add(view, cgroup, by, item, times).await,
        Op::StatFlush { cgroup, entry } => flush(view, cgroup, entry).await,
        Op::StatRead { cgroup, quantum } => read(view, cgroup, quantum).await,
        Op::CpuOffline { cpu } => set_online(cpu, false).await,
        Op::CpuOnline { cpu } => set_online(cpu, true).await,
        _ => return None,
    };
    Some(result.unwrap_or_else(|err| err))
}
