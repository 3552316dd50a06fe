use super::*;
use crate::scenarios::{Cap, Fault, FaultKind};
use proptest::prelude::*;

const MS: Ns = 1_000_000;

fn spec() -> scenarios::Disk {
    scenarios::Disk { name: "d".into(), write_bps: 100_000_000, read_bps: 200_000_000, queue: 8, ..Default::default() }
}

fn write(token: u64, pages: u32) -> Request {
    Request { token, kind: Kind::Write, stream: 0, offset: 0, pages, memcg: None, class: 0 }
}

fn fault(kind: FaultKind, at_us: u64, for_us: u64) -> Fault {
    Fault { name: "f".into(), kind, at_us, for_us }
}

/// Everything that is queued, to the end.
fn drain(disk: &mut Disk) -> Vec<Completion> {
    let mut out = Vec::new();
    while let Some(at) = disk.next_event() {
        let c = disk.advance(at).expect("an event is a completion");
        assert_eq!(c.at, at);
        out.push(c);
    }
    out
}

fn ends(completions: &[Completion]) -> Vec<(u64, Ns)> {
    completions.iter().map(|c| (c.token, c.at)).collect()
}

#[test]
fn bytes_take_their_time_at_the_bandwidth_exactly() {
    // 3 bytes a second and requests of one page: each division leaves something.
    let mut disk = Disk::new(&scenarios::Disk { write_bps: 3_000_000_007, ..spec() });
    for i in 0..3000 {
        disk.submit(0, write(i, 1));
    }
    let last = drain(&mut disk).last().unwrap().at;
    assert_eq!(last, 3000 * 4096 * SECOND / 3_000_000_007);
    assert_eq!(disk.busy(), last);
    assert_eq!(disk.total().written_pages, 3000);
}

#[test]
fn requests_of_all_kinds_share_the_disk_by_arrival() {
    let mut disk = Disk::new(&spec());
    disk.submit(0, write(1, 100));
    disk.submit(1, Request { kind: Kind::Read, ..write(2, 100) });
    disk.submit(2, write(3, 100));
    // 409600 bytes: 4.096 ms to write, 2.048 ms to read.
    assert_eq!(ends(&drain(&mut disk)), [(1, 4_096_000), (2, 6_144_000), (3, 10_240_000)]);
    assert_eq!(disk.traffic(), [Traffic { written_pages: 200, read_pages: 100, failed_pages: 0, requests: 3 }]);
}

#[test]
fn an_idle_disk_starts_when_a_request_comes() {
    let mut disk = Disk::new(&spec());
    disk.submit(0, write(1, 100));
    drain(&mut disk);
    disk.submit(10 * MS, write(2, 100));
    assert_eq!(disk.next_event(), Some(14_096_000));
    assert_eq!(disk.advance(14_095_999), None);
    assert_eq!(disk.advance(14_096_000).map(|c| c.token), Some(2));
    assert_eq!(disk.busy(), 2 * 4_096_000);
}

#[test]
fn the_queue_has_room_until_it_is_full() {
    let mut disk = Disk::new(&scenarios::Disk { queue: 2, ..spec() });
    disk.submit(0, write(1, 1));
    assert!(disk.has_room(None));
    disk.submit(0, write(2, 1));
    assert!(!disk.has_room(None));
    disk.advance(SECOND);
    assert!(disk.has_room(None));
}

#[test]
fn a_capped_memcg_keeps_its_rate_and_others_pass_it() {
    let caps = vec![Cap { memcg: Some(0), bps: 4_096_000 }];
    let mut disk = Disk::new(&scenarios::Disk { caps, write_bps: 4_096_000_000, ..spec() });
    for i in 0..4 {
        disk.submit(0, Request { memcg: Some(0), ..write(i, 1) });
    }
    disk.submit(0, Request { memcg: Some(1), ..write(10, 1) });
    disk.submit(0, write(11, 1));
    // A page a millisecond for the capped one, the first at once; 1 us each on the disk.
    assert_eq!(ends(&drain(&mut disk)), [(0, 1000), (10, 2000), (11, 3000), (1, MS + 1000), (2, 2 * MS + 1000), (3, 3 * MS + 1000)]);
}

#[test]
fn a_capped_memcg_takes_no_room_from_others() {
    let mut disk = Disk::new(&scenarios::Disk { caps: vec![Cap { memcg: Some(0), bps: 1 }], queue: 1, ..spec() });
    disk.submit(0, Request { memcg: Some(0), ..write(1, 1) });
    assert!(!disk.has_room(Some(0)));
    assert!(disk.has_room(Some(1)));
    assert!(disk.has_room(None));
}

#[test]
fn only_what_does_not_continue_its_stream_seeks() {
    let mut disk = Disk::new(&scenarios::Disk { seek_us: 1000, write_bps: 4_096_000_000, ..spec() });
    let at = |token, stream, offset| Request { stream, offset, ..write(token, 1) };
    for r in [at(0, 7, 0), at(1, 7, 1), at(2, 8, 0), at(3, 7, 2), at(4, 7, 2)] {
        disk.submit(0, r);
    }
    let seek = MS + 1000;
    assert_eq!(ends(&drain(&mut disk)), [(0, seek), (1, seek + 1000), (2, 2 * seek + 1000), (3, 2 * seek + 2000), (4, 3 * seek + 2000)]);
}

#[test]
fn credit_is_spent_at_once_and_comes_back_at_the_bandwidth() {
    let mut disk = Disk::new(&scenarios::Disk { burst_bytes: 8192, write_bps: 4_096_000, ..spec() });
    for i in 0..4 {
        disk.submit(0, write(i, 1));
    }
    assert_eq!(ends(&drain(&mut disk)), [(0, 0), (1, 0), (2, MS), (3, 2 * MS)]);
    // Idle for one page's time: one page of credit.
    disk.submit(3 * MS, write(4, 2));
    assert_eq!(ends(&drain(&mut disk)), [(4, 4 * MS)]);
}

#[test]
fn errors_hit_what_is_submitted_in_their_time() {
    let mut disk = Disk::new(&scenarios::Disk { faults: vec![fault(FaultKind::Error, 10, 10)], ..spec() });
    for (i, now) in [9_999, 10_000, 19_999, 20_000].into_iter().enumerate() {
        disk.submit(now, write(i as u64, 1));
    }
    let outcomes: Vec<Outcome> = drain(&mut disk).iter().map(|c| c.outcome).collect();
    assert_eq!(outcomes, [Outcome::Done, Outcome::Eio, Outcome::Eio, Outcome::Done]);
    assert_eq!(disk.total().failed_pages, 2);
}

#[test]
fn torn_writes_and_lost_flushes_look_like_success() {
    let mut disk = Disk::new(&scenarios::Disk { faults: vec![fault(FaultKind::Torn, 0, 1), fault(FaultKind::LostFlush, 0, 1)], ..spec() });
    disk.submit(0, write(0, 2));
    disk.submit(0, Request { kind: Kind::Flush, ..write(1, 0) });
    disk.submit(1000, write(2, 2));
    disk.submit(1000, Request { kind: Kind::Flush, ..write(3, 0) });
    let outcomes: Vec<Outcome> = drain(&mut disk).iter().map(|c| c.outcome).collect();
    assert_eq!(outcomes, [Outcome::Torn, Outcome::LostFlush, Outcome::Done, Outcome::Done]);
    assert_eq!(disk.total(), Traffic { written_pages: 4, read_pages: 0, failed_pages: 0, requests: 4 });
}

#[test]
fn a_flush_follows_what_was_written_before() {
    let mut disk = Disk::new(&spec());
    disk.submit(0, write(0, 100));
    disk.submit(0, Request { kind: Kind::Flush, ..write(1, 0) });
    assert_eq!(ends(&drain(&mut disk)), [(0, 4_096_000), (1, 4_096_000)]);
}

#[test]
fn nothing_ends_in_a_stall() {
    // Two stalls that overlap, and one later; requests of 4.096 ms.
    let stalls = vec![fault(FaultKind::Stall, 30_000, 1000), fault(FaultKind::Stall, 2000, 5000), fault(FaultKind::Stall, 5000, 5000)];
    let mut disk = Disk::new(&scenarios::Disk { faults: stalls, ..spec() });
    for i in 0..3 {
        disk.submit(0, write(i, 100));
    }
    assert_eq!(ends(&drain(&mut disk)), [(0, 12_096_000), (1, 16_192_000), (2, 20_288_000)]);
    disk.submit(30 * MS + 1, write(3, 100));
    assert_eq!(ends(&drain(&mut disk)), [(3, 35_096_000)]);
}

#[test]
fn a_request_that_would_end_as_a_stall_begins_ends_after_it() {
    let mut disk = Disk::new(&scenarios::Disk { faults: vec![fault(FaultKind::Stall, 4096, 1000)], ..spec() });
    disk.submit(0, write(0, 100));
    assert_eq!(ends(&drain(&mut disk)), [(0, 5_096_000)]);
}

#[test]
fn after_removal_everything_fails_at_once() {
    let caps = vec![Cap { memcg: Some(0), bps: 1 }];
    let mut disk = Disk::new(&scenarios::Disk { caps, faults: vec![fault(FaultKind::Removal, 5000, 0)], ..spec() });
    disk.submit(0, write(0, 100));
    disk.submit(0, write(1, 100));
    disk.submit(0, Request { memcg: Some(0), ..write(2, 1) });
    disk.submit(0, Request { memcg: Some(0), ..write(3, 1) });
    let all = drain(&mut disk);
    assert_eq!(ends(&all), [(0, 4_096_000), (1, 5 * MS), (2, 5 * MS), (3, 5 * MS)]);
    assert_eq!(all.iter().filter(|c| c.outcome == Outcome::Eio).count(), 3);
    disk.submit(9 * MS, write(4, 100));
    assert_eq!(drain(&mut disk), [Completion { at: 9 * MS, token: 4, outcome: Outcome::Eio }]);
}

fn any_fault() -> impl Strategy<Value = Fault> {
    let kinds = [FaultKind::Error, FaultKind::Stall, FaultKind::Torn, FaultKind::LostFlush, FaultKind::Removal];
    (0..kinds.len(), 0u64..50_000, 0u64..20_000).prop_map(move |(k, at_us, for_us)| fault(kinds[k], at_us, for_us))
}

fn any_spec() -> impl Strategy<Value = scenarios::Disk> {
    let rate = 1_000_000u64..2_000_000_000;
    (rate.clone(), rate.clone(), 0u64..500, 0u64..1_000_000, prop::option::of(rate), prop::collection::vec(any_fault(), 0..4)).prop_map(
        |(write_bps, read_bps, seek_us, burst_bytes, cap, faults)| scenarios::Disk {
            write_bps,
            read_bps,
            seek_us,
            burst_bytes,
            caps: cap.map(|bps| Cap { memcg: Some(0), bps }).into_iter().collect(),
            faults,
            ..spec()
        },
    )
}

fn any_request() -> impl Strategy<Value = (u64, Request)> {
    let kind = prop::sample::select(vec![Kind::Write, Kind::Read, Kind::Flush]);
    (0u64..2_000_000, kind, 0u64..3, 0u64..4, 1u32..128, prop::option::of(0usize..2)).prop_map(|(gap, kind, stream, offset, pages, memcg)| {
        let pages = if kind == Kind::Flush { 0 } else { pages };
        (gap, Request { token: 0, kind, stream, offset, pages, memcg, class: stream as u16 })
    })
}

proptest! {
    #[test]
    fn each_request_ends_once_and_in_order(spec in any_spec(), requests in prop::collection::vec(any_request(), 1..60), lazy: bool) {
        let mut disk = Disk::new(&spec);
        let mut now = 0;
        let mut submitted = Vec::new();
        let mut all = Vec::new();
        for (i, (gap, r)) in requests.iter().enumerate() {
            now += gap;
            // Whether completions are taken in time or later changes nothing.
            while let Some(c) = if lazy { None } else { disk.advance(now) } {
                all.push(c);
            }
            disk.submit(now, Request { token: i as u64, ..*r });
            submitted.push(now);
        }
        all.extend(drain(&mut disk));
        let mut tokens: Vec<u64> = all.iter().map(|c| c.token).collect();
        tokens.sort_unstable();
        prop_assert_eq!(tokens, (0..requests.len() as u64).collect::<Vec<_>>());
        prop_assert!(all.windows(2).all(|w| w[0].at <= w[1].at));
        prop_assert!(all.iter().all(|c| c.at >= submitted[c.token as usize]));
        prop_assert_eq!(disk.in_flight(), 0);
        // Those of one memcg stay in order.
        for memcg in [None, Some(0), Some(1)] {
            let own: Vec<u64> = all.iter().map(|c| c.token).filter(|t| requests[*t as usize].1.memcg == memcg).collect();
            prop_assert!(own.windows(2).all(|w| w[0] < w[1]));
        }
        let pages: u64 = requests.iter().map(|r| u64::from(r.1.pages)).sum();
        let t = disk.total();
        prop_assert_eq!(t.written_pages + t.read_pages + t.failed_pages, pages);
        prop_assert_eq!(t.requests, requests.len() as u64);
        let failed: u64 = all.iter().filter(|c| c.outcome == Outcome::Eio).map(|c| u64::from(requests[c.token as usize].1.pages)).sum();
        prop_assert_eq!(t.failed_pages, failed);
        prop_assert!(disk.busy() <= all.last().map_or(0, |c| c.at));
    }

    #[test]
    fn taking_completions_late_changes_nothing(spec in any_spec(), requests in prop::collection::vec(any_request(), 1..60)) {
        let mut prompt = Disk::new(&spec);
        let mut late = Disk::new(&spec);
        let mut now = 0;
        let mut taken = Vec::new();
        for (i, (gap, r)) in requests.iter().enumerate() {
            now += gap;
            while let Some(c) = prompt.advance(now) {
                taken.push(c);
            }
            let r = Request { token: i as u64, ..*r };
            prompt.submit(now, r);
            late.submit(now, r);
        }
        taken.extend(drain(&mut prompt));
        // Removal fails everything that is queued when it comes; who comes late hears of it late.
        if spec.faults.iter().all(|f| f.kind != FaultKind::Removal) {
            prop_assert_eq!(taken, drain(&mut late));
        }
    }

    #[test]
    fn a_busy_disk_transfers_at_its_bandwidth(bps in 1_000_000u64..5_000_000_000, sizes in prop::collection::vec(1u32..128, 1..200)) {
        let mut disk = Disk::new(&scenarios::Disk { write_bps: bps, ..spec() });
        for (i, pages) in sizes.iter().enumerate() {
            disk.submit(0, write(i as u64, *pages));
        }
        let last = drain(&mut disk).last().unwrap().at;
        let bytes: u128 = sizes.iter().map(|p| u128::from(*p) * 4096).sum();
        prop_assert_eq!(u128::from(last), bytes * 1_000_000_000 / u128::from(bps));
    }

    #[test]
    fn a_cap_bounds_what_a_memcg_gets(cap in 1_000_000u64..100_000_000, sizes in prop::collection::vec(1u32..128, 2..100)) {
        let mut disk = Disk::new(&scenarios::Disk { caps: vec![Cap { memcg: Some(3), bps: cap }], write_bps: 4_000_000_000, ..spec() });
        for (i, pages) in sizes.iter().enumerate() {
            disk.submit(0, Request { memcg: Some(3), ..write(i as u64, *pages) });
        }
        let last = drain(&mut disk).last().unwrap().at;
        // All but the last request's bytes at the cap, and the last one's on the disk.
        let before: u128 = sizes[..sizes.len() - 1].iter().map(|p| u128::from(*p) * 4096).sum();
        let earliest = before * 1_000_000_000 / u128::from(cap);
        prop_assert!(u128::from(last) >= earliest);
        prop_assert!(u128::from(last) <= earliest + 200_000);
    }
}
