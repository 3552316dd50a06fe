//! The modelled disk: a queue of requests, one server, integer nanoseconds.
//!
//! Main type: [`Disk`]. It is passive: it has no clock and starts nothing. Whoever drives it says what time it is, never going
//! back, and asks with [`Disk::next_event`] when to come again. Requests are served one after the other in the order in which
//! they become ready: at once, or when the cap of their memcg lets them through, so that others pass a capped memcg. A request
//! takes its bytes at the disk's bandwidth, and a seek if it does not continue its stream. Remainders of divisions are
//! carried, so that bandwidth is exact in the long run.
//!
//! Not modelled: request merging, reordering by a scheduler, parallel service, the cache itself. A limit of parents (`io.max` of an
//! ancestor) is that of the memcg that states it only.

mod faults;
#[cfg(test)]
mod tests;

use crate::scenarios::{self, MemcgRef, PAGE_BYTES};
use faults::Faults;
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

/// Nanoseconds since the start of the simulation.
pub type Ns = u64;

/// Nanoseconds of a second.
pub const SECOND: Ns = 1_000_000_000;

/// What a request asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Pages go to the disk.
    Write,
    /// Pages come from the disk.
    Read,
    /// What was written before is to be durable; has no pages.
    Flush,
}

/// One request. Whoever submits it splits what is larger than [`Disk::max_request_pages`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// Comes back with the completion; means nothing to the disk.
    pub token: u64,
    /// What it asks for.
    pub kind: Kind,
    /// What its offset is in: an inode, an extent, a direct writer's file.
    pub stream: u64,
    /// First page.
    pub offset: u64,
    /// Pages; 0 for a flush.
    pub pages: u32,
    /// Memcg that the disk charges; `None`: the root.
    pub memcg: Option<MemcgRef>,
    /// Which of [`Disk::traffic`] it counts for. A small number.
    pub class: u16,
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// As asked.
    Done,
    /// Reported as done, but only the first half of it is durable.
    Torn,
    /// A flush that was reported as done and had no effect.
    LostFlush,
    /// `EIO`
    Eio,
}

/// The end of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// When it ended; not before that of the completion before.
    pub at: Ns,
    /// Which request.
    pub token: u64,
    /// How.
    pub outcome: Outcome,
}

/// What was transferred for one class of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Pages written without an error.
    pub written_pages: u64,
    /// Pages read without an error.
    pub read_pages: u64,
    /// Pages of requests that failed.
    pub failed_pages: u64,
    /// Requests, failed ones included.
    pub requests: u64,
}

/// Turns bytes into time at a fixed rate and carries what the division leaves.
#[derive(Clone, Copy, Debug)]
struct Rate {
    bytes_per_second: u64,
    /// Below `bytes_per_second`; in byte-nanoseconds.
    left: u64,
}

impl Rate {
    fn new(bytes_per_second: u64) -> Rate {
        Rate { bytes_per_second: bytes_per_second.max(1), left: 0 }
    }
    /// Time for so many bytes.
    fn take(&mut self, bytes: u64) -> Ns {
        let work = u128::from(bytes) * u128::from(SECOND) + u128::from(self.left);
        let rate = u128::from(self.bytes_per_second);
        self.left = (work % rate) as u64;
        u64::try_from(work / rate).unwrap_or(Ns::MAX)
    }
}

/// Requests of one memcg with a cap, or of all without.
#[derive(Clone, Copy, Debug)]
struct Lane {
    memcg: Option<MemcgRef>,
    cap: Option<Rate>,
    /// When the cap lets the next request through.
    open_at: Ns,
    /// Requests submitted and not completed.
    in_flight: u32,
}

/// A request in the queue.
#[derive(Clone, Copy, Debug)]
struct Queued {
    ready: Ns,
    seq: u64,
    submitted: Ns,
    lane: usize,
    fate: Outcome,
    request: Request,
}

impl Ord for Queued {
    fn cmp(&self, other: &Queued) -> Ordering {
        (self.ready, self.seq).cmp(&(other.ready, other.seq))
    }
}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Queued) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Queued {
    fn eq(&self, other: &Queued) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Queued {}

/// What serves requests: where it stands, and when it is free again.
#[derive(Clone, Copy, Debug)]
struct Server {
    write: Rate,
    read: Rate,
    seek: Ns,
    burst_bytes: u64,
    /// Bytes that may still go through at once.
    credit_bytes: u64,
    free_at: Ns,
    busy: Ns,
}

/// A disk.
#[derive(Clone, Debug)]
pub struct Disk {
    queue: BinaryHeap<Reverse<Queued>>,
    /// The first is that of all memcgs without a cap.
    lanes: Vec<Lane>,
    depth: u32,
    max_request_pages: u32,
    seq: u64,
    server: Server,
    /// The server as it will be after the request at the head of the queue, and how that ends.
    head: Option<(Server, Completion)>,
    /// Where each stream goes on; kept only if seeks take time.
    positions: BTreeMap<u64, u64>,
    faults: Faults,
    traffic: Vec<Traffic>,
}

impl Disk {
    /// A disk that has been idle.
    pub fn new(spec: &scenarios::Disk) -> Disk {
        let lane = |memcg, cap: Option<u64>| Lane { memcg, cap: cap.map(Rate::new), open_at: 0, in_flight: 0 };
        let capped = spec.caps.iter().map(|c| lane(c.memcg, Some(c.bps)));
        Disk {
            queue: BinaryHeap::new(),
            lanes: std::iter::once(lane(None, None)).chain(capped).collect(),
            depth: spec.queue.max(1),
            max_request_pages: u32::try_from(spec.request_bytes / PAGE_BYTES).unwrap_or(u32::MAX).max(1),
            seq: 0,
            server: Server {
                write: Rate::new(spec.write_bps),
                read: Rate::new(spec.read_bps),
                seek: spec.seek_us.saturating_mul(1000),
                burst_bytes: spec.burst_bytes,
                credit_bytes: spec.burst_bytes,
                free_at: 0,
                busy: 0,
            },
            head: None,
            positions: BTreeMap::new(),
            faults: Faults::new(&spec.faults),
            traffic: Vec::new(),
        }
    }

    /// Pages of the largest request.
    pub fn max_request_pages(&self) -> u32 {
        self.max_request_pages
    }

    fn lane(&self, memcg: Option<MemcgRef>) -> usize {
        self.lanes.iter().skip(1).position(|l| l.memcg == memcg).map_or(0, |i| i + 1)
    }

    /// May a request of this memcg be submitted? Each memcg with a cap has a queue of its own, since requests that wait for
    /// a cap take no place in the disk's.
    pub fn has_room(&self, memcg: Option<MemcgRef>) -> bool {
        self.lanes[self.lane(memcg)].in_flight < self.depth
    }

    /// Queues a request. Whoever submits asks [`Disk::has_room`] first; the disk takes what it is given.
    pub fn submit(&mut self, now: Ns, request: Request) {
        let lane = self.lane(request.memcg);
        let l = &mut self.lanes[lane];
        l.in_flight += 1;
        let ready = now.max(l.open_at);
        if let Some(cap) = &mut l.cap {
            l.open_at = ready.saturating_add(cap.take(u64::from(request.pages) * PAGE_BYTES));
        }
        let fate = self.faults.fate(now, request.kind);
        let queued = Queued { ready, seq: self.seq, submitted: now, lane, fate, request };
        self.seq += 1;
        if self.queue.peek().is_none_or(|Reverse(head)| queued < *head) {
            self.head = None;
        }
        self.queue.push(Reverse(queued));
        if self.head.is_none() {
            self.look_ahead();
        }
    }

    /// When the next request ends, if none is submitted before that. `None`: nothing is queued.
    pub fn next_event(&self) -> Option<Ns> {
        self.head.map(|h| h.1.at)
    }

    /// The next request that has ended by `now`. To be called until there is none; requests may be submitted in between.
    pub fn advance(&mut self, now: Ns) -> Option<Completion> {
        let (server, completion) = self.head.filter(|h| h.1.at <= now)?;
        let Reverse(q) = self.queue.pop()?;
        self.server = server;
        self.lanes[q.lane].in_flight -= 1;
        if self.server.seek > 0 && q.request.kind != Kind::Flush {
            self.positions.insert(q.request.stream, q.request.offset + u64::from(q.request.pages));
        }
        self.count(&q.request, completion.outcome);
        self.head = None;
        self.look_ahead();
        Some(completion)
    }

    /// Works out how the request at the head of the queue will be served.
    fn look_ahead(&mut self) {
        let Some(Reverse(q)) = self.queue.peek() else { return };
        let follows = self.positions.get(&q.request.stream) == Some(&q.request.offset);
        let mut server = self.server;
        let (start, need) = server.serve(q, follows);
        let end = self.faults.work(start, need);
        let (at, outcome) = match self.faults.removed_at() {
            Some(gone) if end >= gone => (gone.max(q.submitted).max(server.free_at), Outcome::Eio),
            _ => (end, q.fate),
        };
        server.busy += at.saturating_sub(start);
        server.free_at = at;
        self.head = Some((server, Completion { at, token: q.request.token, outcome }));
    }

    fn count(&mut self, request: &Request, outcome: Outcome) {
        let class = usize::from(request.class);
        if self.traffic.len() <= class {
            self.traffic.resize(class + 1, Traffic::default());
        }
        let t = &mut self.traffic[class];
        t.requests += 1;
        let pages = u64::from(request.pages);
        match (outcome, request.kind) {
            (Outcome::Eio, _) => t.failed_pages += pages,
            (_, Kind::Read) => t.read_pages += pages,
            (_, Kind::Write | Kind::Flush) => t.written_pages += pages,
        }
    }

    /// What was transferred, by class; classes that had no request may be missing at the end.
    pub fn traffic(&self) -> &[Traffic] {
        &self.traffic
    }

    /// What was transferred in all.
    pub fn total(&self) -> Traffic {
        self.traffic.iter().fold(Traffic::default(), |a, t| Traffic {
            written_pages: a.written_pages + t.written_pages,
            read_pages: a.read_pages + t.read_pages,
            failed_pages: a.failed_pages + t.failed_pages,
            requests: a.requests + t.requests,
        })
    }

    /// Time in which requests that have ended were served; divided by the time that has passed, the utilisation.
    pub fn busy(&self) -> Ns {
        self.server.busy
    }

    /// Requests submitted and not completed.
    pub fn in_flight(&self) -> usize {
        self.queue.len()
    }
}

impl Server {
    /// When service of the request starts, and how much work it is. Takes the credit and the remainders that it uses.
    fn serve(&mut self, q: &Queued, follows: bool) -> (Ns, Ns) {
        let start = self.free_at.max(q.ready);
        let idle = start - self.free_at;
        let gained = u128::from(idle) * u128::from(self.write.bytes_per_second) / u128::from(SECOND);
        self.credit_bytes = self.burst_bytes.min(self.credit_bytes.saturating_add(u64::try_from(gained).unwrap_or(u64::MAX)));
        let bytes = u64::from(q.request.pages) * PAGE_BYTES;
        let free = bytes.min(self.credit_bytes);
        self.credit_bytes -= free;
        let transfer = match q.request.kind {
            Kind::Read => self.read.take(bytes - free),
            Kind::Write | Kind::Flush => self.write.take(bytes - free),
        };
        let seek = if follows { 0 } else { self.seek };
        (start, transfer.saturating_add(seek))
    }
}
