//! Objects at the end of their life (LT-MEM-7, and what freeing a wb, css or inode must not leave behind).
//!
//! Accesses after free are reported by the checked memory itself, under the rule of the object's type.

use super::shadow::ptr_at;
use super::{Oracles, bad};
use crate::linux::include::fs::{I_CLEAR, I_FREEING};
use crate::sync::{Machine, Ptr};

impl Oracles {
    /// An object is about to leave the tables.
    pub(super) fn freed(&mut self, m: &mut Machine, label: &str, p: Ptr, s: usize) {
        match label {
            "wb" => {
                if let Some(i) = self.s.wb(p) {
                    self.wb_freed(m, i);
                }
            }
            "memcg" | "blkcg" => self.css_freed(m, p),
            "isw" => self.isw_freed(m, p, s),
            "sb" => self.busy_inodes(m, p, "is freed"),
            _ => {}
        }
        self.s.died(label, p);
    }

    /// A superblock goes: no inode of it may be in use.
    pub(super) fn busy_inodes(&mut self, m: &mut Machine, sb: Ptr, what: &str) {
        let busy = self.s.each_inode().find(|(_, i)| {
            let state = m.mem.peek(i.k().i_state().ptr());
            ptr_at(m, i.k().i_sb().ptr()) == sb && state & (I_FREEING | I_CLEAR) == 0
        });
        if let Some((_, i)) = busy {
            let inode = i.p;
            bad(m, "LT-MEM-7", |m| format!("{} {what} with {} busy", m.mem.name(sb), m.mem.name(inode)));
        }
    }
}
