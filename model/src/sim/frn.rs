//! Records of foreign dirtying: which slot is taken, which are flushed (spec throttle 13.2, 13.3).

/// A record.
#[derive(Clone, Copy, Default, Debug)]
pub struct FrnSlot {
    bdi: u64,
    memcg: u32,
    at: u64,
    in_flight: bool,
}

impl FrnSlot {
    /// Is a work of this record queued or running?
    pub fn in_flight(&self) -> bool {
        self.in_flight
    }
    /// A work of this record is queued.
    pub fn start(&mut self) {
        self.in_flight = true;
    }
    /// It is done.
    pub fn complete(&mut self) {
        self.in_flight = false;
    }
}

/// Notes (bdi, memcg) at `now`.
pub fn record(slots: &mut [FrnSlot; 4], bdi: u64, memcg: u32, now: u64, hz: u64, expire: u64) {
    let update = hz.min(expire / 8);
    let mut oldest: Option<usize> = None;
    for i in 0..slots.len() {
        if (slots[i].bdi, slots[i].memcg) == (bdi, memcg) {
            if slots[i].at < now.saturating_sub(update) {
                slots[i].at = now;
            }
            return;
        }
        let least = oldest.map_or(now, |o| slots[o].at);
        if slots[i].at < least && !slots[i].in_flight {
            oldest = Some(i);
        }
    }
    if let Some(i) = oldest {
        slots[i] = FrnSlot { bdi, memcg, at: now, in_flight: false };
    }
}

/// Takes a record that is fresh and idle.
pub fn flush_due(slot: &mut FrnSlot, now: u64, expire: u64) -> Option<(u64, u32)> {
    if slot.at > now.saturating_sub(expire) && !slot.in_flight {
        slot.at = 0;
        return Some((slot.bdi, slot.memcg));
    }
    None
}
