//! The flusher of a wb: what fs/fs-writeback.c does, on the simulated machine's pages and in its time.
//!
//! Functions are named like the kernel's and take the same steps; locks are left out, as nothing runs between two awaits. The
//! lifetime model mirrors the same functions for their races, this one for their timing.

use super::state::{InodeId, On, Reason, WbId, Work};
use super::throttle::WbView;
use super::world::World;
use crate::linux::fs::fs_writeback::chunk::{MIN_WRITEBACK_PAGES, writeback_chunk_size};
use crate::linux::include::jiffies::time_after;
use crate::linux::include::writeback::SyncMode;
use crate::linux::mm::page_writeback::background::wb_over_bg_thresh;
use crate::linux::mm::page_writeback::bandwidth::{wb_bandwidth_estimate_start, wb_update_bandwidth_if_due};
use std::rc::Rc;

/// FUSE: background requests from which writeback that need not happen is put off.
const FUSE_CONGESTION: usize = 9;

/// Starts the flusher of a wb.
pub fn start(world: &Rc<World>, wb: WbId) {
    let w = world.clone();
    world.engine.spawn(async move { wb_workfn(w, wb).await });
}

/// Waits for the flusher's time to come; it is not to run again until somebody says so.
async fn wait_for_work(w: &Rc<World>, wb: WbId) {
    loop {
        {
            let mut st = w.st.borrow_mut();
            let b = &mut st.wbs[wb as usize];
            if b.due.is_some_and(|at| at <= w.now()) {
                b.due = None;
                return;
            }
            w.engine.enlist(&b.idle);
        }
        w.engine.suspend().await;
    }
}

async fn wb_workfn(w: Rc<World>, wb: WbId) {
    loop {
        wait_for_work(&w, wb).await;
        loop {
            wb_do_writeback(&w, wb).await;
            if w.st.borrow().wbs[wb as usize].works.is_empty() {
                break;
            }
        }
        if w.st.borrow().wbs[wb as usize].has_dirty_io() {
            w.wakeup_delayed(wb);
        }
    }
}

async fn wb_do_writeback(w: &Rc<World>, wb: WbId) {
    w.st.borrow_mut().wbs[wb as usize].running = true;
    loop {
        let Some(mut work) = w.st.borrow_mut().wbs[wb as usize].works.pop_front() else { break };
        wb_writeback(w, wb, &mut work).await;
        w.work_done(wb, &work);
    }
    wb_check_old_data_flush(w, wb).await;
    wb_check_background_flush(w, wb).await;
    w.st.borrow_mut().wbs[wb as usize].running = false;
}

async fn wb_check_old_data_flush(w: &Rc<World>, wb: WbId) {
    let interval = w.scenario.machine.dirty_writeback_centisecs;
    let nr_pages = {
        let mut st = w.st.borrow_mut();
        let (now, hz) = (st.jiffies(w.now()), st.hz);
        let b = &mut st.wbs[wb as usize];
        if interval == 0 || now < b.last_old_flush + interval * hz / 100 {
            return;
        }
        b.last_old_flush = now;
        let inodes = (b.b_dirty.len() + b.b_io.len() + b.b_more_io.len()) as u64;
        st.global.dirty + inodes
    };
    if nr_pages > 0 {
        wb_writeback(w, wb, &mut Work { nr_pages: nr_pages as i64, reason: Reason::Periodic, sync: false, for_sync: false, only: None, asked_by: None }).await;
    }
}

async fn wb_check_background_flush(w: &Rc<World>, wb: WbId) {
    if wb_over_bg_thresh(&WbView::flusher(w, wb)).await {
        wb_writeback(w, wb, &mut Work { nr_pages: i64::MAX, reason: Reason::Background, sync: false, for_sync: false, only: None, asked_by: None }).await;
    }
}

/// When an inode must have become dirty for a work to write it.
fn dirtied_before(w: &World, reason: Reason) -> u64 {
    let st = w.st.borrow();
    let now = st.jiffies(w.now());
    match reason {
        Reason::Periodic => now - w.scenario.machine.dirty_expire_centisecs * st.hz / 100,
        _ => now,
    }
}

async fn wb_writeback(w: &Rc<World>, wb: WbId, work: &mut Work) {
    let (begin, asked) = (w.now(), work.nr_pages);
    let mut cutoff = dirtied_before(w, if work.reason == Reason::Periodic { Reason::Background } else { work.reason });
    let mut queued = false;
    if let Some(inode) = work.only {
        write_only(w, wb, inode, work).await;
    } else {
        while work.nr_pages > 0 {
            let lesser = matches!(work.reason, Reason::Background | Reason::Periodic);
            if lesser && !w.st.borrow().wbs[wb as usize].works.is_empty() {
                break;
            }
            if work.reason == Reason::Background && !wb_over_bg_thresh(&WbView::flusher(w, wb)).await {
                break;
            }
            if w.st.borrow().wbs[wb as usize].b_io.is_empty() {
                if lesser {
                    cutoff = dirtied_before(w, work.reason);
                }
                queue_io(w, wb, cutoff);
                queued = true;
            }
            let progress = writeback_sb_inodes(w, wb, work).await;
            if progress > 0 || !queued {
                continue;
            }
            let waiting = w.st.borrow().wbs[wb as usize].b_more_io.front().copied();
            let Some(inode) = waiting else { break };
            // Somebody else writes it, or it can't be written now.
            let syncing = {
                let st = w.st.borrow();
                let i = &st.inodes[inode as usize];
                if i.syncing {
                    w.engine.enlist(&i.sync_wait);
                }
                i.syncing
            };
            if syncing {
                w.engine.suspend().await;
            } else {
                w.engine.sleep(1_000_000).await;
            }
        }
    }
    let written = asked.saturating_sub(work.nr_pages).max(0) as u64;
    w.measure.borrow_mut().passes.push((begin / 1000, w.now() / 1000, written, work.reason.name()));
}

fn queue_io(w: &World, wb: WbId, cutoff: u64) {
    let mut st = w.st.borrow_mut();
    let st = &mut *st;
    let b = &mut st.wbs[wb as usize];
    // What was left over goes first.
    let mut next = std::mem::take(&mut b.b_more_io);
    next.append(&mut b.b_io);
    while let Some(&inode) = b.b_dirty.front() {
        if st.inodes[inode as usize].dirtied_when > cutoff {
            break;
        }
        b.b_dirty.pop_front();
        next.push_back(inode);
    }
    for &inode in &next {
        st.inodes[inode as usize].on = On::Io;
    }
    b.b_io = next;
}

/// Writes inodes of `b_io` for a while; yields pages written and inodes cleaned.
async fn writeback_sb_inodes(w: &Rc<World>, wb: WbId, work: &mut Work) -> u64 {
    let (start, hz) = {
        let st = w.st.borrow();
        (st.jiffies(w.now()), st.hz)
    };
    let cutoff = dirtied_before(w, work.reason);
    let mut total = 0;
    loop {
        let Some(inode) = w.st.borrow().wbs[wb as usize].b_io.front().copied() else { break };
        if w.st.borrow().inodes[inode as usize].syncing {
            if !work.sync {
                w.st.borrow_mut().move_inode(inode, On::MoreIo);
                continue;
            }
            {
                let st = w.st.borrow();
                w.engine.enlist(&st.inodes[inode as usize].sync_wait);
            }
            w.engine.suspend().await;
            continue;
        }
        let chunk = {
            let st = w.st.borrow();
            let mode = if work.sync { SyncMode::All } else { SyncMode::None };
            writeback_chunk_size(mode, work.sync, st.wbs[wb as usize].bw.avg_write_bandwidth, st.global.domain.dirty_limit, work.nr_pages, MIN_WRITEBACK_PAGES)
        };
        let left = writeback_single_inode(w, inode, chunk, work).await;
        let wrote = chunk.saturating_sub(left).max(0);
        work.nr_pages = work.nr_pages.saturating_sub(wrote);
        total += wrote as u64;
        total += u64::from(!w.st.borrow().inodes[inode as usize].is_dirty());
        requeue_inode(w, inode, left, cutoff, work.sync);
        if total > 0 && (time_after(w.jiffies(), start + hz / 10) || work.nr_pages <= 0) {
            break;
        }
    }
    total
}

fn requeue_inode(w: &World, inode: InodeId, left: i64, cutoff: u64, sync: bool) {
    let mut st = w.st.borrow_mut();
    let now = st.jiffies(w.now());
    let i = &mut st.inodes[inode as usize];
    i.syncing = false;
    w.engine.wake_all(&i.sync_wait);
    let to = if !i.is_dirty() {
        On::None
    } else {
        if sync {
            i.dirtied_when = now;
        }
        if i.pages.dirty() > 0 && left <= 0 && i.dirtied_when <= cutoff { On::MoreIo } else { On::Dirty }
    };
    if to == On::Dirty {
        st.redirty_tail(inode, now);
    } else {
        st.move_inode(inode, to);
    }
}

/// A work for one inode, whatever list it is on.
async fn write_only(w: &Rc<World>, wb: WbId, inode: InodeId, work: &mut Work) {
    {
        let st = w.st.borrow();
        let i = &st.inodes[inode as usize];
        if i.syncing || i.wb != Some(wb) || i.pages.dirty() == 0 {
            return;
        }
    }
    let left = writeback_single_inode(w, inode, work.nr_pages, work).await;
    work.nr_pages = left;
    let now = w.jiffies();
    requeue_inode(w, inode, left, now, false);
}

/// `__writeback_single_inode`: writes up to `nr_to_write` pages of an inode; yields what is left of those.
async fn writeback_single_inode(w: &Rc<World>, inode: InodeId, nr_to_write: i64, work: &Work) -> i64 {
    let (wb, cpu) = {
        let mut st = w.st.borrow_mut();
        st.inodes[inode as usize].syncing = true;
        let wb = st.inodes[inode as usize].wb.unwrap_or_default();
        (wb, wb as usize % st.nr_cpus as usize)
    };
    let mut votes = super::owner::Votes::begin(w, inode);
    let left = do_writepages(w, wb, inode, nr_to_write, work, cpu, &mut votes).await;
    if work.sync && !work.for_sync {
        // Integrity: wait for the pages too.
        loop {
            {
                let st = w.st.borrow();
                let i = &st.inodes[inode as usize];
                if i.pages.writeback() == 0 {
                    break;
                }
                w.engine.enlist(&i.sync_wait);
            }
            w.engine.suspend().await;
        }
    }
    // What a completion changes from here on is not written with this round.
    w.st.borrow_mut().inodes[inode as usize].dirty_sync = false;
    votes.end(w, inode);
    left
}

async fn do_writepages(w: &Rc<World>, wb: WbId, inode: InodeId, nr_to_write: i64, work: &Work, cpu: usize, votes: &mut super::owner::Votes) -> i64 {
    let view = WbView::flusher(w, wb);
    wb_bandwidth_estimate_start(&view);
    let fs = w.st.borrow().inodes[inode as usize].fs as usize;
    let (disk, fuse) = (w.scenario.filesystems[fs].disk, w.scenario.filesystems[fs].fuse);
    let mut left = nr_to_write;
    let owner = w.st.borrow().wbs[wb as usize].memcg.checked_sub(1).map(|m| m as usize);
    let (mut index, wrapped) = {
        let i = &w.st.borrow().inodes[inode as usize];
        if work.sync { (0, true) } else { (i.writeback_index, false) }
    };
    let mut wrapped = wrapped;
    while left > 0 {
        let max = {
            let st = w.st.borrow();
            let d = &st.disks[disk].disk;
            if !d.has_room(owner) {
                if fuse && !work.sync && st.flights_on(disk) >= FUSE_CONGESTION {
                    break;
                }
                w.engine.enlist(&st.disks[disk].room);
                None
            } else {
                let folio = 1u64 << st.inodes[inode as usize].order;
                // Whole folios; the last one may go beyond what was asked for.
                Some(u64::from(d.max_request_pages()).min((left as u64).next_multiple_of(folio)))
            }
        };
        let Some(max) = max else {
            w.engine.suspend().await;
            continue;
        };
        match w.start_writeback(inode, index, max, cpu) {
            Some(e) => {
                votes.count(w, e);
                w.submit(inode, e, work.reason);
                left -= e.len as i64;
                index = e.start + e.len;
            }
            None if !wrapped && index > 0 => {
                wrapped = true;
                index = 0;
            }
            None => {
                index = 0;
                break;
            }
        }
    }
    w.st.borrow_mut().inodes[inode as usize].writeback_index = index;
    wb_update_bandwidth_if_due(&view);
    left
}
