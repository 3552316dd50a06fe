//! The page cache of one inode, as runs of pages in one state.
//!
//! Main type: [`Pages`]. A run is a stretch of pages of one memcg in one state; neighbours that are alike are one run, so that
//! a file written from end to end is a handful of runs however large it is.
//! Must not know: counters, wbs; its owner accounts what the methods report.

use std::collections::{BTreeMap, BTreeSet};

/// Index of a memcg.
pub type MemcgId = u32;

/// State of a page in the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// As on the disk.
    Clean,
    /// To be written.
    Dirty,
    /// On its way to the disk.
    Writeback,
    /// On its way to the disk, and changed since.
    Redirtied,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    len: u64,
    memcg: MemcgId,
    state: State,
}

/// A stretch of pages of one memcg.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// First page.
    pub start: u64,
    /// Number of pages.
    pub len: u64,
    /// Memcg they are charged to.
    pub memcg: MemcgId,
}

/// The pages of an inode that are in memory.
#[derive(Clone, Default, Debug)]
pub struct Pages {
    runs: BTreeMap<u64, Run>,
    /// Where runs that are [`State::Dirty`] begin: writeback looks for the next one of them.
    to_write: BTreeSet<u64>,
    /// Pages that are [`State::Dirty`] or [`State::Redirtied`].
    dirty: u64,
    /// Pages that are [`State::Writeback`] or [`State::Redirtied`].
    writeback: u64,
}

impl Pages {
    /// Pages to be written.
    pub fn dirty(&self) -> u64 {
        self.dirty
    }
    /// Pages on their way to the disk.
    pub fn writeback(&self) -> u64 {
        self.writeback
    }
    /// Runs in memory; for tests of cost.
    #[cfg(test)]
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    fn insert(&mut self, start: u64, run: Run) {
        self.runs.insert(start, run);
        if run.state == State::Dirty {
            self.to_write.insert(start);
        }
    }
    fn remove(&mut self, start: u64) {
        if self.runs.remove(&start).is_some_and(|r| r.state == State::Dirty) {
            self.to_write.remove(&start);
        }
    }
    /// Makes a run begin at `at` if one covers it.
    fn split(&mut self, at: u64) {
        if let Some((&start, &run)) = self.runs.range(..at).next_back()
            && start + run.len > at
        {
            self.insert(start, Run { len: at - start, ..run });
            self.insert(at, Run { len: start + run.len - at, ..run });
        }
    }
    /// Puts a run in an empty stretch, as part of its neighbours if they are alike.
    fn put(&mut self, start: u64, run: Run) {
        let (mut start, mut run) = (start, run);
        if let Some((&s, &r)) = self.runs.range(..start).next_back()
            && s + r.len == start
            && (r.memcg, r.state) == (run.memcg, run.state)
        {
            self.remove(s);
            (start, run.len) = (s, run.len + r.len);
        }
        if let Some(&r) = self.runs.get(&(start + run.len))
            && (r.memcg, r.state) == (run.memcg, run.state)
        {
            self.remove(start + run.len);
            run.len += r.len;
        }
        self.insert(start, run);
    }
    /// The run that covers `at`, cut to `[at, end)`.
    fn at(&self, at: u64, end: u64) -> Option<Run> {
        let (&start, &run) = self.runs.range(..=at).next_back()?;
        (start + run.len > at).then(|| Run { len: (start + run.len).min(end) - at, ..run })
    }
    /// Length of the gap at `at`, at most to `end`.
    fn gap(&self, at: u64, end: u64) -> u64 {
        self.runs.range(at..end).next().map_or(end, |(&s, _)| s) - at
    }

    /// Dirties `[start, start + len)`. Pages that are not in memory are charged to `memcg`. Reports each stretch that was not dirty
    /// before, and whether it is new in memory.
    pub fn dirty_range(&mut self, start: u64, len: u64, memcg: MemcgId, mut newly: impl FnMut(Extent, bool)) {
        let end = start + len;
        let mut at = start;
        while at < end {
            let (n, was) = match self.at(at, end) {
                Some(run) => (run.len, Some(run)),
                None => (self.gap(at, end), None),
            };
            let (owner, state) = match was {
                None => (memcg, State::Dirty),
                Some(r) => match r.state {
                    State::Clean => (r.memcg, State::Dirty),
                    State::Writeback => (r.memcg, State::Redirtied),
                    State::Dirty | State::Redirtied => {
                        at += n;
                        continue;
                    }
                },
            };
            self.split(at);
            self.split(at + n);
            self.remove(at);
            self.put(at, Run { len: n, memcg: owner, state });
            self.dirty += n;
            newly(Extent { start: at, len: n, memcg: owner }, was.is_none());
            at += n;
        }
    }

    /// The first stretch of at most `max` dirty pages at or after `from` that are not under writeback, which becomes under writeback.
    pub fn start_writeback(&mut self, from: u64, max: u64) -> Option<Extent> {
        let covers = |s: &u64| self.runs.get(s).is_some_and(|r| s + r.len > from);
        let start = self.to_write.range(..=from).next_back().copied().filter(covers).or_else(|| self.to_write.range(from..).next().copied())?;
        let run = *self.runs.get(&start)?;
        let at = start.max(from);
        let n = (start + run.len - at).min(max);
        self.split(at);
        self.split(at + n);
        self.remove(at);
        self.put(at, Run { len: n, memcg: run.memcg, state: State::Writeback });
        self.dirty -= n;
        self.writeback += n;
        Some(Extent { start: at, len: n, memcg: run.memcg })
    }

    /// Writeback of a stretch has ended. Reports the stretches that are clean now.
    pub fn end_writeback(&mut self, start: u64, len: u64, mut clean: impl FnMut(Extent)) {
        let end = start + len;
        let mut at = start;
        while at < end {
            let Some(run) = self.at(at, end) else {
                at += self.gap(at, end);
                continue;
            };
            let state = match run.state {
                State::Writeback => State::Clean,
                State::Redirtied => State::Dirty,
                _ => {
                    at += run.len;
                    continue;
                }
            };
            self.split(at);
            self.split(at + run.len);
            self.remove(at);
            self.put(at, Run { state, ..run });
            self.writeback -= run.len;
            if state == State::Clean {
                clean(Extent { start: at, len: run.len, memcg: run.memcg });
            }
            at += run.len;
        }
    }

    /// Forgets the clean pages of a stretch, at most `max`, and reports them by memcg.
    pub fn drop_clean(&mut self, start: u64, len: u64, max: u64, mut dropped: impl FnMut(Extent)) -> u64 {
        let end = start + len;
        let (mut at, mut left) = (start, max);
        while at < end && left > 0 {
            let Some(run) = self.at(at, end) else {
                at += self.gap(at, end);
                continue;
            };
            if run.state == State::Clean {
                let n = run.len.min(left);
                self.split(at);
                self.split(at + n);
                self.remove(at);
                left -= n;
                dropped(Extent { start: at, len: n, memcg: run.memcg });
            }
            at += run.len;
        }
        max - left
    }

    /// Truncation: forgets everything but what is under writeback, which becomes clean when that ends. Reports each stretch with
    /// whether it was dirty and whether it is out of memory.
    pub fn truncate(&mut self, mut gone: impl FnMut(Extent, bool, bool)) {
        self.to_write.clear();
        for (start, run) in std::mem::take(&mut self.runs) {
            let extent = Extent { start, len: run.len, memcg: run.memcg };
            let dirty = matches!(run.state, State::Dirty | State::Redirtied);
            let stays = matches!(run.state, State::Writeback | State::Redirtied);
            self.dirty -= if dirty { run.len } else { 0 };
            if stays {
                self.put(start, Run { state: State::Writeback, ..run });
            }
            if dirty || !stays {
                gone(extent, dirty, !stays);
            }
        }
    }
    /// Memcg of a page in memory.
    pub fn memcg_at(&self, page: u64) -> Option<MemcgId> {
        self.at(page, page + 1).map(|r| r.memcg)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same by a list of single pages.
    #[derive(Default)]
    struct Plain(BTreeMap<u64, (MemcgId, State)>);

    #[test]
    fn a_file_written_from_end_to_end_is_a_handful_of_runs() {
        let mut p = Pages::default();
        for i in 0..1000 {
            p.dirty_range(i * 256, 256, 1, |_, new| assert!(new));
            if i % 2 == 1 {
                let e = p.start_writeback(0, 512).unwrap();
                assert_eq!((e.start, e.len), ((i - 1) * 256, 512));
                p.end_writeback(e.start, e.len, |c| assert_eq!(c, e));
            }
            assert!(p.runs() <= 3);
        }
        assert_eq!((p.dirty(), p.writeback()), (0, 0));
    }

    proptest! {
        #[test]
        fn runs_are_what_single_pages_would_be(ops in proptest::collection::vec((0..5u8, 0..40u64, 1..12u64, 0..3u32), 1..60)) {
            let (mut p, mut q) = (Pages::default(), Plain::default());
            for (op, start, len, memcg) in ops {
                let range = start..start + len;
                match op {
                    0 | 1 => {
                        let mut newly = 0;
                        p.dirty_range(start, len, memcg, |e, _| newly += e.len);
                        let mut expected = 0;
                        for i in range {
                            let page = q.0.entry(i).or_insert((memcg, State::Clean));
                            let next = match page.1 { State::Clean => State::Dirty, State::Writeback => State::Redirtied, s => s };
                            expected += u64::from(next != page.1);
                            page.1 = next;
                        }
                        prop_assert_eq!(newly, expected);
                    }
                    2 => {
                        let first = q.0.range(start..).find(|(_, v)| v.1 == State::Dirty).map(|(k, v)| (*k, v.0));
                        let e = p.start_writeback(start, len);
                        prop_assert_eq!(e.map(|e| (e.start, e.memcg)), first);
                        if let Some(e) = e {
                            prop_assert!(e.len <= len);
                            for i in e.start..e.start + e.len {
                                let v = q.0.get_mut(&i).unwrap();
                                prop_assert_eq!(*v, (e.memcg, State::Dirty));
                                v.1 = State::Writeback;
                            }
                        }
                    }
                    3 => {
                        let mut clean = 0;
                        p.end_writeback(start, len, |e| clean += e.len);
                        let mut expected = 0;
                        for (_, v) in q.0.range_mut(range) {
                            v.1 = match v.1 { State::Writeback => { expected += 1; State::Clean } State::Redirtied => State::Dirty, s => s };
                        }
                        prop_assert_eq!(clean, expected);
                    }
                    _ => {
                        let n = p.drop_clean(start, len, 5, |_| ());
                        let gone: Vec<u64> = q.0.range(range).filter(|(_, v)| v.1 == State::Clean).map(|(k, _)| *k).take(5).collect();
                        prop_assert_eq!(n, gone.len() as u64);
                        for i in gone { q.0.remove(&i); }
                    }
                }
                let count = |s: &[State]| q.0.values().filter(|v| s.contains(&v.1)).count() as u64;
                prop_assert_eq!(p.dirty(), count(&[State::Dirty, State::Redirtied]));
                prop_assert_eq!(p.writeback(), count(&[State::Writeback, State::Redirtied]));
                for i in 0..60 {
                    prop_assert_eq!(p.at(i, i + 1).map(|r| (r.memcg, r.state)), q.0.get(&i).copied());
                }
            }
        }
    }
}
