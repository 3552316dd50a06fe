//! Files whose rows follow one another: floating proportions and records of foreign dirtying.

use super::cell::{Cell, Cpus, Flag, Hz, words};
use super::table::{Unfit, Vectors, columns};
use crate::linux::lib::flex_proportions::{FpropGlobal, FpropLocalPercpu, OnCpu};
use crate::linux::lib::percpu_counter::percpu_counter_batch;
use crate::linux::mm::memcontrol::frn::{FrnRecord, frn_expire_interval, frn_update_interval, take_fresh, track_foreign_dirty};
use std::fmt;

/// A sequence in which a row is at place `step`, and what has become of it: a new one begins at step 0, and no step is left out.
pub struct Sequence<T> {
    seq: u64,
    next: u64,
    of: T,
}

/// The state for a row of sequence `seq` at `step`; `begin` makes one for a sequence that begins.
pub(super) fn follow<T>(state: &mut Option<Sequence<T>>, seq: u64, step: u64, begin: impl FnOnce() -> T) -> Result<&mut T, Unfit> {
    if step == 0 {
        *state = Some(Sequence { seq, next: 0, of: begin() });
    }
    let Some(s) = state.as_mut().filter(|s| s.seq == seq) else {
        return Err(("step", "step 0: a sequence begins with it".to_string()));
    };
    if s.next != step {
        return Err(("step", format!("step {}: the rows of a sequence follow one another", s.next)));
    }
    s.next += 1;
    Ok(&mut s.of)
}

words! {
    /// Operation on the proportions.
    FpropOp { Add = "add", Period = "period", Frac = "frac" }
}

columns! {
    /// Inputs of `fprop_sequence.csv`.
    FpropIn {
        seq: u64, step: u64, nr_cpus: Cpus, op: FpropOp, cpu: u32, local: u32, nr_pages: i64, max_frac_q10: u32, periods: i32,
    }
    /// Its outputs.
    FpropOut {
        ret: Flag, numerator: u64, denominator: u64, global_events_read: i64, global_events_sum: i64, global_period: u32,
        local_events_read: i64, local_events_sum: i64, local_period: u32,
    }
}

/// One global side and three local ones.
pub struct Proportions {
    nr_cpus: u32,
    global: FpropGlobal,
    locals: [FpropLocalPercpu; 3],
}

/// `fprop_sequence.csv`
pub struct Fprop;

/// The sequence that `fprop_sequence.csv` is in.
#[derive(Default)]
pub struct FpropState(Option<Sequence<Proportions>>);

impl Vectors for Fprop {
    const FILE: &'static str = "fprop_sequence.csv";
    type In = FpropIn;
    type Out = FpropOut;
    type State = FpropState;
    fn step(state: &mut FpropState, i: &FpropIn) -> Result<FpropOut, Unfit> {
        let nr_cpus = i.nr_cpus.0;
        let begin = || Proportions { nr_cpus, global: FpropGlobal::new(nr_cpus), locals: std::array::from_fn(|_| FpropLocalPercpu::new(nr_cpus)) };
        let p = follow(&mut state.0, i.seq, i.step, begin)?;
        if nr_cpus != p.nr_cpus {
            return Err(("nr_cpus", format!("{}, as at the beginning of the sequence", p.nr_cpus)));
        }
        if i.cpu >= nr_cpus {
            return Err(("cpu", format!("a CPU below {nr_cpus}")));
        }
        let Some(local) = p.locals.get_mut(i.local as usize) else { return Err(("local", "0, 1 or 2".to_string())) };
        let on = OnCpu { cpu: i.cpu as usize, batch: percpu_counter_batch(nr_cpus) };
        // Whether the proportions are still defined; only a new period can say.
        let mut ret = false;
        match i.op {
            FpropOp::Add => local.add_max(&mut p.global, i.max_frac_q10, i.nr_pages, on),
            FpropOp::Period => ret = p.global.new_period(i.periods, on),
            FpropOp::Frac => {}
        }
        let (numerator, denominator) = local.fraction(&p.global, on.cpu);
        Ok(FpropOut {
            ret: ret.into(),
            numerator,
            denominator,
            global_events_read: p.global.events.read(),
            global_events_sum: p.global.events.sum(),
            global_period: p.global.period,
            local_events_read: local.events.read(),
            local_events_sum: local.events.sum(),
            local_period: local.period,
        })
    }
}

words! {
    /// Operation on the records.
    ForeignOp { Track = "track", Flush = "flush", Complete = "complete" }
}

/// A record as text: `bdi:memcg@time#count`, where a count of 1 is idle and 2 has a flush in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slot {
    frn: FrnRecord,
}

impl Cell for Slot {
    fn parse(text: &str) -> Result<Slot, String> {
        let parse = || {
            let (bdi_id, rest) = text.split_once(':')?;
            let (memcg_id, rest) = rest.split_once('@')?;
            let (at, count) = rest.split_once('#')?;
            let idle = match count {
                "1" => true,
                "2" => false,
                _ => return None,
            };
            Some(Slot { frn: FrnRecord { bdi_id: bdi_id.parse().ok()?, memcg_id: memcg_id.parse().ok()?, at: at.parse().ok()?, idle } })
        };
        parse().ok_or_else(|| "bdi:memcg@jiffies#count with a count of 1 or 2".to_string())
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FrnRecord { bdi_id, memcg_id, at, idle } = self.frn;
        write!(f, "{bdi_id}:{memcg_id}@{at}#{}", if idle { 1 } else { 2 })
    }
}

/// Flushes that one call issued, in the order of the records: `bdi:memcg`, with `!` where the wb was not found.
///
/// Which are found is an input: it depends on what the ids stand for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Issued {
    flushes: Vec<(u64, u64, bool)>,
}

impl Cell for Issued {
    fn parse(text: &str) -> Result<Issued, String> {
        let one = |word: &str| {
            let (ids, found) = word.strip_suffix('!').map_or((word, true), |ids| (ids, false));
            let (bdi, memcg) = ids.split_once(':')?;
            Some((bdi.parse().ok()?, memcg.parse().ok()?, found))
        };
        let flushes = text.split(' ').filter(|w| !w.is_empty()).map(one).collect::<Option<_>>();
        flushes.map(|flushes| Issued { flushes }).ok_or_else(|| "bdi:memcg or bdi:memcg!, separated by spaces".to_string())
    }
}

impl fmt::Display for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.flushes.iter().map(|(bdi, memcg, found)| format!("{bdi}:{memcg}{}", if *found { "" } else { "!" })).collect();
        f.write_str(&words.join(" "))
    }
}

columns! {
    /// Inputs of `cgwb_frn_sequence.csv`. Of the flushes, only which wbs are not found.
    ForeignIn {
        seq: u64, step: u64, hz: Hz, dirty_expire_centisecs: u32, now_jiffies: u64, op: ForeignOp, bdi_id: u64, memcg_id: u64,
        complete_slot: i32, issued_bdi_memcg: Issued,
    }
    /// Its outputs.
    ForeignOut { issued_bdi_memcg: Issued, slot0: Slot, slot1: Slot, slot2: Slot, slot3: Slot }
}

/// `cgwb_frn_sequence.csv`
pub struct Foreign;

/// The records that `cgwb_frn_sequence.csv` is about.
#[derive(Default)]
pub struct ForeignState(Option<Sequence<[FrnRecord; 4]>>);

impl Vectors for Foreign {
    const FILE: &'static str = "cgwb_frn_sequence.csv";
    type In = ForeignIn;
    type Out = ForeignOut;
    type State = ForeignState;
    fn step(state: &mut ForeignState, i: &ForeignIn) -> Result<ForeignOut, Unfit> {
        let hz = i.hz.0;
        if 1000 % hz != 0 {
            return Err(("hz", "a number that divides 1000".to_string()));
        }
        let records = follow(&mut state.0, i.seq, i.step, || [FrnRecord { bdi_id: 0, memcg_id: 0, at: 0, idle: true }; 4])?;
        let now = i.now_jiffies;
        let mut flushes = Vec::new();
        match i.op {
            ForeignOp::Track => track_foreign_dirty(records, i.bdi_id, i.memcg_id, now, frn_update_interval(hz, i.dirty_expire_centisecs)),
            ForeignOp::Flush => {
                for frn in records.iter_mut() {
                    if take_fresh(frn, now, frn_expire_interval(hz, i.dirty_expire_centisecs)) {
                        let found = !i.issued_bdi_memcg.flushes.contains(&(frn.bdi_id, frn.memcg_id, false));
                        flushes.push((frn.bdi_id, frn.memcg_id, found));
                        frn.idle = !found;
                    }
                }
            }
            ForeignOp::Complete => match usize::try_from(i.complete_slot).ok().and_then(|slot| records.get_mut(slot)) {
                Some(frn) => frn.idle = true,
                None => return Err(("complete_slot", "a slot from 0 to 3".to_string())),
            },
        }
        let [slot0, slot1, slot2, slot3] = records.map(|frn| Slot { frn });
        Ok(ForeignOut { issued_bdi_memcg: Issued { flushes }, slot0, slot1, slot2, slot3 })
    }
}
