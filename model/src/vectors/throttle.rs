//! Files about the throttling loop and what comes before and beside it, in a world as small as they need.

use super::File;
use super::cell::{Cpus, Flag, Hz, Label, Percent, Ppm, Sleeps};
use super::table::{Checker, Columns, Report, Table, Unfit, VectorError, Vectors, columns};
use crate::linux::include::trace_events_writeback::Trace;
use crate::linux::lib::flex_proportions::normalised;
use crate::linux::mm::page_writeback::background::wb_over_bg_thresh;
use crate::linux::mm::page_writeback::bandwidth::WbBandwidth;
use crate::linux::mm::page_writeback::limits::{BdiThrottle, Domain, Sysctl, WbDomain};
use crate::linux::mm::page_writeback::ratelimited::{CpuRatelimit, ratelimit};
use crate::linux::mm::page_writeback::surroundings::{MemcgPolicy, MemcgWbStats, TaskSurroundings, WbStatItem, WbSurroundings};
use crate::linux::mm::page_writeback::throttle::{BDP_ASYNC, TaskThrottle, balance_dirty_pages};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

columns! {
    /// Inputs of `balance_dirty_pages_ratelimited.csv`.
    RatelimitedIn {
        nr_dirtied: i32, nr_dirtied_pause: i32, wb_dirty_exceeded: Flag, ratelimit_pages: i64, cpu_bdp_ratelimits: i32,
        cpu_dirty_throttle_leaks: i32,
    }
    /// Its outputs.
    RatelimitedOut {
        out_called: Flag, out_pages_dirtied_arg: u64, out_nr_dirtied: i64, out_cpu_bdp_ratelimits: i32,
        out_cpu_dirty_throttle_leaks: i32,
    }
}

/// `balance_dirty_pages_ratelimited.csv`
pub struct Ratelimited;

impl Vectors for Ratelimited {
    const FILE: &'static str = "balance_dirty_pages_ratelimited.csv";
    type In = RatelimitedIn;
    type Out = RatelimitedOut;
    type State = ();
    fn step((): &mut (), i: &RatelimitedIn) -> Result<RatelimitedOut, Unfit> {
        let mut task = TaskThrottle { nr_dirtied: i.nr_dirtied.into(), nr_dirtied_pause: i.nr_dirtied_pause.into(), dirty_paused_when: 0 };
        let mut cpu = CpuRatelimit { bdp_ratelimits: i.cpu_bdp_ratelimits, dirty_throttle_leaks: i.cpu_dirty_throttle_leaks };
        let called = ratelimit(&mut task, i.wb_dirty_exceeded.is_set(), i.ratelimit_pages, &mut cpu);
        Ok(RatelimitedOut {
            out_called: called.is_some().into(),
            out_pages_dirtied_arg: called.unwrap_or(0),
            out_nr_dirtied: task.nr_dirtied,
            out_cpu_bdp_ratelimits: cpu.bdp_ratelimits,
            out_cpu_dirty_throttle_leaks: cpu.dirty_throttle_leaks,
        })
    }
}

/// A world of one task and one wb, in which nothing moves but by a sleep of the task. Counters are exact.
///
/// The page counts are those of the surroundings that they are named after.
pub(crate) struct World {
    pub hz: u64,
    pub nr_cpus: u32,
    pub sysctl: Sysctl,
    pub rt_task: bool,
    pub local_throttle: bool,
    pub has_memcg: bool,
    pub policy: MemcgPolicy,
    pub dirtyable_pages: u64,
    pub nr_writeback: u64,
    pub memcg: Cell<MemcgWbStats>,
    pub wb_writeback: u64,
    pub wb_dirtied: u64,
    pub writeback_inodes: u64,
    /// Of the global domain and of the memcg's.
    pub fractions: [(u64, u64); 2],
    pub has_dirty_io: bool,
    /// Pages a second that a sleep takes from each dirty count.
    pub drain_pps: u64,
    pub fatal_after_sleeps: u64,
    pub jiffies: Cell<u64>,
    pub nr_file_dirty: Cell<u64>,
    pub wb_reclaimable: Cell<u64>,
    pub wb_written: Cell<u64>,
    pub in_progress: Cell<bool>,
    /// The global domain and the memcg's.
    pub domains: [RefCell<WbDomain>; 2],
    pub bdi: RefCell<BdiThrottle>,
    pub bandwidth: RefCell<WbBandwidth>,
    /// Times that the flusher was woken.
    pub bg_starts: Cell<u64>,
    /// Times that foreign flushes were looked for.
    pub foreign_flushes: Cell<u64>,
    /// Every sleep, in jiffies.
    pub sleeps: RefCell<Vec<i64>>,
    /// Every trace line.
    pub traces: RefCell<Vec<Trace>>,
}

fn of(domain: Domain) -> usize {
    match domain {
        Domain::Global => 0,
        Domain::Memcg => 1,
    }
}

impl World {
    /// A world in which nothing is dirty and nothing was written.
    pub fn idle() -> World {
        World {
            hz: 250,
            nr_cpus: 1,
            sysctl: Sysctl::default(),
            rt_task: false,
            local_throttle: false,
            has_memcg: false,
            policy: MemcgPolicy::default(),
            dirtyable_pages: 1,
            nr_writeback: 0,
            memcg: Cell::default(),
            wb_writeback: 0,
            wb_dirtied: 0,
            writeback_inodes: 0,
            fractions: [(0, 1); 2],
            has_dirty_io: false,
            drain_pps: 0,
            fatal_after_sleeps: u64::MAX,
            jiffies: Cell::new(0),
            nr_file_dirty: Cell::new(0),
            wb_reclaimable: Cell::new(0),
            wb_written: Cell::new(0),
            in_progress: Cell::new(false),
            domains: [0, 1].map(|_| RefCell::new(WbDomain::new(0, 1))),
            bdi: RefCell::default(),
            bandwidth: RefCell::new(WbBandwidth::new(0)),
            bg_starts: Cell::new(0),
            foreign_flushes: Cell::new(0),
            sleeps: RefCell::default(),
            traces: RefCell::default(),
        }
    }
}

/// Takes what there is of `pages` out of a count, and says how many that were.
fn drain(count: &Cell<u64>, pages: u64) -> u64 {
    let taken = pages.min(count.get());
    count.set(count.get() - taken);
    taken
}

impl WbSurroundings for World {
    fn jiffies(&self) -> u64 {
        self.jiffies.get()
    }
    fn hz(&self) -> u64 {
        self.hz
    }
    fn nr_cpu_ids(&self) -> u32 {
        self.nr_cpus
    }
    fn sysctl(&self) -> Sysctl {
        self.sysctl
    }
    fn rt_or_dl_task(&self) -> bool {
        self.rt_task
    }
    fn global_dirtyable_memory(&self) -> u64 {
        self.dirtyable_pages
    }
    fn nr_file_dirty(&self) -> u64 {
        self.nr_file_dirty.get()
    }
    fn nr_writeback(&self) -> u64 {
        self.nr_writeback
    }
    fn has_memcg_domain(&self) -> bool {
        self.has_memcg
    }
    async fn mem_cgroup_wb_stats(&self) -> MemcgWbStats {
        self.memcg.get()
    }
    fn memcg_policy(&self) -> MemcgPolicy {
        self.policy
    }
    fn with_domain<R>(&self, domain: Domain, f: impl FnOnce(&mut WbDomain) -> R) -> R {
        f(&mut self.domains[of(domain)].borrow_mut())
    }
    fn fprop_fraction(&self, domain: Domain) -> (u64, u64) {
        self.fractions[of(domain)]
    }
    fn with_bdi<R>(&self, f: impl FnOnce(&mut BdiThrottle) -> R) -> R {
        f(&mut self.bdi.borrow_mut())
    }
    fn bdi_min_ratio(&self) -> u32 {
        0
    }
    fn with_bandwidth<R>(&self, f: impl FnOnce(&mut WbBandwidth) -> R) -> R {
        f(&mut self.bandwidth.borrow_mut())
    }
    fn percpu_counter_read(&self, item: WbStatItem) -> i64 {
        self.percpu_counter_sum(item)
    }
    fn percpu_counter_sum(&self, item: WbStatItem) -> i64 {
        let count = match item {
            WbStatItem::Reclaimable => self.wb_reclaimable.get(),
            WbStatItem::Writeback => self.wb_writeback,
            WbStatItem::Dirtied => self.wb_dirtied,
            WbStatItem::Written => self.wb_written.get(),
        };
        count as i64
    }
    fn writeback_inodes(&self) -> u64 {
        self.writeback_inodes
    }
    fn wb_has_dirty_io(&self) -> bool {
        self.has_dirty_io
    }
    fn trace(&self, line: Trace) {
        self.traces.borrow_mut().push(line);
    }
}

impl TaskSurroundings for World {
    fn local_throttle(&self) -> bool {
        self.local_throttle
    }
    fn writeback_in_progress(&self) -> bool {
        self.in_progress.get()
    }
    fn wb_start_background_writeback(&self) {
        self.bg_starts.set(self.bg_starts.get() + 1);
        self.in_progress.set(true);
    }
    async fn mem_cgroup_flush_foreign(&self) {
        self.foreign_flushes.set(self.foreign_flushes.get() + 1);
    }
    async fn io_schedule_timeout(&self, jiffies: i64) {
        self.jiffies.set(self.jiffies.get().wrapping_add(jiffies as u64));
        let pages = self.drain_pps.wrapping_mul(jiffies as u64) / self.hz;
        drain(&self.nr_file_dirty, pages);
        let mut memcg = self.memcg.get();
        memcg.dirty -= pages.min(memcg.dirty);
        self.memcg.set(memcg);
        self.wb_written.set(self.wb_written.get().wrapping_add(drain(&self.wb_reclaimable, pages)));
        self.sleeps.borrow_mut().push(jiffies);
    }
    fn fatal_signal_pending(&self) -> bool {
        self.sleeps.borrow().len() as u64 >= self.fatal_after_sleeps
    }
    fn ratelimit_pages(&self) -> i64 {
        i64::MAX
    }
    fn with_cpu<R>(&self, f: impl FnOnce(&mut CpuRatelimit) -> R) -> R {
        f(&mut CpuRatelimit::default())
    }
}

/// Runs a future that never waits: in a [`World`], what takes time is over at once.
pub(crate) fn at_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => unreachable!("nothing in the world of vectors waits"),
    }
}

columns! {
    /// Inputs of `wb_over_bg_thresh.csv`.
    OverIn {
        nr_cpus: Cpus, strictlimit: Flag, memcg: Flag, dirtyable_pages: NonZeroU64, vm_dirty_ratio_pct: Percent,
        dirty_background_ratio_pct: Percent, nr_file_dirty: u64, nr_writeback: u64, memcg_filepages: u64, memcg_headroom: u64,
        memcg_dirty: u64, memcg_writeback: u64, wb_reclaimable: u64, wb_writeback: u64, g_num: u64, g_den: u64, m_num: u64, m_den: u64,
        bdi_max_ratio_ppm: Ppm, avg_write_bandwidth: u64, bdi_tot_write_bandwidth: i64,
    }
    /// Its outputs.
    OverOut { over_bg_thresh: Flag }
}

/// `wb_over_bg_thresh.csv`
pub struct OverBgThresh;

impl Vectors for OverBgThresh {
    const FILE: &'static str = "wb_over_bg_thresh.csv";
    type In = OverIn;
    type Out = OverOut;
    type State = ();
    fn step((): &mut (), i: &OverIn) -> Result<OverOut, Unfit> {
        let world = World {
            nr_cpus: i.nr_cpus.0,
            sysctl: ratios(i.vm_dirty_ratio_pct, i.dirty_background_ratio_pct),
            has_memcg: i.memcg.is_set(),
            dirtyable_pages: i.dirtyable_pages.get(),
            nr_writeback: i.nr_writeback,
            memcg: Cell::new(MemcgWbStats { dirty: i.memcg_dirty, writeback: i.memcg_writeback, filepages: i.memcg_filepages, headroom: i.memcg_headroom }),
            wb_writeback: i.wb_writeback,
            fractions: [normalised(i.g_num, i.g_den), normalised(i.m_num, i.m_den)],
            nr_file_dirty: Cell::new(i.nr_file_dirty),
            wb_reclaimable: Cell::new(i.wb_reclaimable),
            bdi: bdi(i.strictlimit, i.bdi_max_ratio_ppm, i.bdi_tot_write_bandwidth),
            bandwidth: RefCell::new(WbBandwidth { avg_write_bandwidth: i.avg_write_bandwidth, ..WbBandwidth::new(0) }),
            ..World::idle()
        };
        Ok(OverOut { over_bg_thresh: at_once(wb_over_bg_thresh(&world)).into() })
    }
}

fn ratios(dirty: Percent, background: Percent) -> Sysctl {
    Sysctl { dirty_ratio: dirty.0, dirty_background_ratio: background.0, ..Sysctl::default() }
}

fn bdi(strictlimit: Flag, max_ratio: Ppm, tot_write_bandwidth: i64) -> RefCell<BdiThrottle> {
    RefCell::new(BdiThrottle { max_ratio: max_ratio.0, strictlimit: strictlimit.is_set(), tot_write_bandwidth, ..BdiThrottle::default() })
}

columns! {
    /// Inputs of `balance_dirty_pages.csv`.
    CallIn {
        call: u64, case: Label, hz: Hz, nr_cpus: Cpus, strictlimit: Flag, may_not_sleep as "async": Flag, local_throttle: Flag, rt_task: Flag, memcg: Flag,
        jiffies: u64, dirtyable_pages: NonZeroU64, vm_dirty_ratio_pct: Percent, dirty_background_ratio_pct: Percent,
        nr_file_dirty: u64, nr_writeback: u64, memcg_filepages: u64, memcg_headroom: u64, memcg_dirty: u64, memcg_writeback: u64,
        wb_reclaimable: u64, wb_writeback: u64, wb_dirtied: u64, wb_written: u64, wb_in_progress: Flag, wb_has_dirty_io: Flag,
        g_num: u64, g_den: u64, m_num: u64, m_den: u64, bdi_max_ratio_ppm: Ppm, bdi_tot_write_bandwidth: i64,
        bw_time_stamp: u64, dirtied_stamp: u64, written_stamp: u64, write_bandwidth: u64, avg_write_bandwidth: u64,
        dirty_ratelimit: u64, balanced_dirty_ratelimit: u64, g_dirty_limit: u64, g_dirty_limit_tstamp: u64, m_dirty_limit: u64,
        m_dirty_limit_tstamp: u64, pages_dirtied: i32, task_dirty_paused_when: u64, task_nr_dirtied_pause: i32,
        drain_pps: u64, fatal_after_sleeps: Sleeps,
    }
    /// Its outputs.
    CallOut {
        ret: i64, n_sleeps: u64, total_sleep_jiffies: i64, last_sleep_jiffies: i64, n_bg_starts: u64, n_foreign_flushes: u64,
        n_traces: u64, end_jiffies: u64, out_dirty_paused_when: u64, out_nr_dirtied: i64, out_nr_dirtied_pause: i64,
        out_wb_dirty_exceeded: Flag, out_write_bandwidth: u64, out_avg_write_bandwidth: u64, out_dirty_ratelimit: u64,
        out_balanced_dirty_ratelimit: u64, out_bw_time_stamp: u64, out_g_dirty_limit: u64, out_m_dirty_limit: u64,
        out_nr_file_dirty: u64, out_memcg_dirty: u64,
    }
}

/// `balance_dirty_pages.csv`
pub struct Call;

impl Vectors for Call {
    const FILE: &'static str = "balance_dirty_pages.csv";
    type In = CallIn;
    type Out = CallOut;
    type State = ();
    fn step((): &mut (), i: &CallIn) -> Result<CallOut, Unfit> {
        Ok(call(i)?.0)
    }
}

/// Runs the loop in the world of a row. Yields what came of it and its trace lines.
fn call(i: &CallIn) -> Result<(CallOut, Vec<TraceOut>), Unfit> {
    let domain = |dirty_limit, dirty_limit_tstamp| RefCell::new(WbDomain { dirty_limit, dirty_limit_tstamp, ..WbDomain::new(0, 1) });
    let world = World {
        hz: i.hz.0,
        nr_cpus: i.nr_cpus.0,
        sysctl: ratios(i.vm_dirty_ratio_pct, i.dirty_background_ratio_pct),
        rt_task: i.rt_task.is_set(),
        local_throttle: i.local_throttle.is_set(),
        has_memcg: i.memcg.is_set(),
        dirtyable_pages: i.dirtyable_pages.get(),
        nr_writeback: i.nr_writeback,
        memcg: Cell::new(MemcgWbStats { dirty: i.memcg_dirty, writeback: i.memcg_writeback, filepages: i.memcg_filepages, headroom: i.memcg_headroom }),
        wb_writeback: i.wb_writeback,
        wb_dirtied: i.wb_dirtied,
        fractions: [normalised(i.g_num, i.g_den), normalised(i.m_num, i.m_den)],
        has_dirty_io: i.wb_has_dirty_io.is_set(),
        drain_pps: i.drain_pps,
        fatal_after_sleeps: i.fatal_after_sleeps.0,
        jiffies: Cell::new(i.jiffies),
        nr_file_dirty: Cell::new(i.nr_file_dirty),
        wb_reclaimable: Cell::new(i.wb_reclaimable),
        wb_written: Cell::new(i.wb_written),
        in_progress: Cell::new(i.wb_in_progress.is_set()),
        domains: [domain(i.g_dirty_limit, i.g_dirty_limit_tstamp), domain(i.m_dirty_limit, i.m_dirty_limit_tstamp)],
        bdi: bdi(i.strictlimit, i.bdi_max_ratio_ppm, i.bdi_tot_write_bandwidth),
        bandwidth: RefCell::new(WbBandwidth {
            bw_time_stamp: i.bw_time_stamp,
            dirtied_stamp: i.dirtied_stamp,
            written_stamp: i.written_stamp,
            write_bandwidth: i.write_bandwidth,
            avg_write_bandwidth: i.avg_write_bandwidth,
            dirty_ratelimit: i.dirty_ratelimit,
            balanced_dirty_ratelimit: i.balanced_dirty_ratelimit,
            dirty_exceeded: false,
        }),
        ..World::idle()
    };
    let pages_dirtied = i64::from(i.pages_dirtied);
    let mut task = TaskThrottle { nr_dirtied: pages_dirtied, nr_dirtied_pause: i.task_nr_dirtied_pause.into(), dirty_paused_when: i.task_dirty_paused_when };
    let flags = if i.may_not_sleep.is_set() { BDP_ASYNC } else { 0 };
    let ret = at_once(balance_dirty_pages(&world, &mut task, pages_dirtied as u64, flags));

    let traces: Vec<TraceOut> = world.traces.take().iter().filter_map(TraceOut::of).collect();
    let sleeps = world.sleeps.take();
    let wb = world.bandwidth.into_inner();
    let [g, m] = world.domains.map(|dom| dom.into_inner().dirty_limit);
    let out = CallOut {
        ret,
        n_sleeps: sleeps.len() as u64,
        total_sleep_jiffies: sleeps.iter().sum(),
        last_sleep_jiffies: sleeps.last().copied().unwrap_or(0),
        n_bg_starts: world.bg_starts.get(),
        n_foreign_flushes: world.foreign_flushes.get(),
        n_traces: traces.len() as u64,
        end_jiffies: world.jiffies.get(),
        out_dirty_paused_when: task.dirty_paused_when,
        out_nr_dirtied: task.nr_dirtied,
        out_nr_dirtied_pause: task.nr_dirtied_pause,
        out_wb_dirty_exceeded: wb.dirty_exceeded.into(),
        out_write_bandwidth: wb.write_bandwidth,
        out_avg_write_bandwidth: wb.avg_write_bandwidth,
        out_dirty_ratelimit: wb.dirty_ratelimit,
        out_balanced_dirty_ratelimit: wb.balanced_dirty_ratelimit,
        out_bw_time_stamp: wb.bw_time_stamp,
        out_g_dirty_limit: g,
        out_m_dirty_limit: m,
        out_nr_file_dirty: world.nr_file_dirty.get(),
        out_memcg_dirty: world.memcg.get().dirty,
    };
    Ok((out, traces))
}

columns! {
    /// Which line of which call a row of `balance_dirty_pages_trace.csv` is about.
    TraceIn { call: u64, line: u64, hz: Hz }
    /// Its outputs.
    TraceOut {
        limit: u64, setpoint: u64, dirty: u64, wb_setpoint: u64, wb_dirty: u64, dirty_ratelimit_kbps as "dirty_ratelimit_KBps": u64, task_ratelimit_kbps as "task_ratelimit_KBps": u64,
        dirtied: u32, dirtied_pause: u32, paused_ms: u64, pause_ms: i64, period_ms: u64, think_ms: i64,
    }
}

impl TraceOut {
    /// A line of `balance_dirty_pages`; other tracepoints are not in the file.
    fn of(line: &Trace) -> Option<TraceOut> {
        let Trace::BalanceDirtyPages(t) = line else { return None };
        Some(TraceOut {
            limit: t.limit,
            setpoint: t.setpoint,
            dirty: t.dirty,
            wb_setpoint: t.wb_setpoint,
            wb_dirty: t.wb_dirty,
            dirty_ratelimit_kbps: t.dirty_ratelimit,
            task_ratelimit_kbps: t.task_ratelimit,
            dirtied: t.dirtied,
            dirtied_pause: t.dirtied_pause,
            paused_ms: t.paused,
            pause_ms: t.pause,
            period_ms: t.period,
            think_ms: t.think,
        })
    }
}

/// `balance_dirty_pages_trace.csv`: the inputs are the rows of the other file, in the same order of calls.
pub const TRACE: Checker = Checker { file: "balance_dirty_pages_trace.csv", outputs: TraceOut::NAMES, run: check_traces };

/// Every line that a call emits must be a row, and every row a line that its call emits.
fn check_traces(files: &[File<'_>]) -> Result<Report, VectorError> {
    let mut calls = Table::open(files, Call::FILE, &[CallIn::NAMES, CallOut::NAMES])?;
    let mut emitted = BTreeMap::new();
    while let Some((_, input, _)) = calls.next::<CallIn, CallOut>()? {
        let (_, lines) = call(&input).map_err(|e| calls.unfit(e))?;
        emitted.extend((0..).zip(lines).map(|(n, line)| ((input.call, n), (input.hz, line))));
    }
    let mut rows = Table::open(files, TRACE.file, &[TraceIn::NAMES, TraceOut::NAMES])?;
    let mut report = Report::new(TRACE.file);
    while let Some((at, row, expected)) = rows.next::<TraceIn, TraceOut>()? {
        match emitted.remove(&(row.call, row.line)) {
            Some((hz, _)) if hz != row.hz => return Err(rows.unfit(("hz", format!("{hz}, as in {}", Call::FILE)))),
            Some((_, line)) => report.row(at, &expected, &line),
            None => report.lacks(at, "line", row.line.to_string(), format!("call {} has no such line", row.call)),
        }
    }
    for (call, line) in emitted.into_keys() {
        report.lacks(0, "line", "no row".to_string(), format!("line {line} of call {call}"));
    }
    Ok(report)
}
