//! Quiescent accounting (LT-ACC-1, LT-ACC-2).

use super::lists::state_bit;
use super::shadow::Wb;
use super::{Oracles, bad};
use crate::linux::include::backing_dev_defs::WB_HAS_DIRTY_IO;
use crate::sync::Machine;

impl Oracles {
    /// Counters of a wb against the inodes attached to it; nothing is under way.
    pub(super) fn wb_counts(&self, m: &mut Machine, w: &Wb) {
        let k = w.k();
        let (mut dirty, mut writeback, mut inodes) = (0i64, 0i64, 0i64);
        for (_, i) in self.s.each_inode().filter(|x| x.1.wb == w.p) {
            let n = m.mem.peek(i.k().nr_writeback().ptr()) as i64;
            // Pages on their way to writeback have left the count and keep the mark.
            dirty += m.mem.peek(i.k().nr_dirty().ptr()) as i64 - m.mem.peek(i.k().nr_cleaning().ptr()) as i64;
            writeback += n;
            inodes += i64::from(n > 0);
        }
        let got = [k.stat_reclaimable().ptr(), k.stat_writeback().ptr(), k.writeback_inodes().ptr()].map(|p| m.mem.peek(p) as i64);
        if got != [dirty, writeback, inodes] {
            bad(m, "LT-ACC-1", |m| {
                format!("{} counts {got:?} dirty pages, pages and inodes under writeback; its inodes have [{dirty}, {writeback}, {inodes}]", m.mem.name(w.p))
            });
        }
    }

    /// `tot_write_bandwidth` of each bdi; nothing is under way.
    pub(super) fn bandwidth(&self, m: &mut Machine) {
        for b in self.s.bdis.iter().filter(|b| !b.p.is_null()) {
            let tot = m.mem.peek(b.k().tot_write_bandwidth().ptr()) as i64;
            let n =
                self.s.wbs.iter().filter(|w| !w.p.is_null() && (w.root || w.published) && w.bdi == b.p && state_bit(m, w.p, WB_HAS_DIRTY_IO)).count() as i64;
            if tot != n {
                bad(m, "LT-ACC-2", |m| format!("{} counts {tot} wbs with dirty io and has {n}", m.mem.name(b.p)));
            }
        }
    }
}
