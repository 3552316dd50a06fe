//! Function pointers stored in cells (release and confirm callbacks).

use super::atomic::Word;
use super::mem::Ptr;
use super::task::Fut;
use std::cell::RefCell;

type Raw = fn(Ptr) -> Fut;

thread_local! {
    static TABLE: RefCell<Vec<Raw>> = const { RefCell::new(Vec::new()) };
}

/// A callback `fn(object) -> body`, as a cell value: 0 is NULL.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FnPtr(u32);

impl FnPtr {
    /// The null function pointer.
    pub const NULL: FnPtr = FnPtr(0);

    /// A cell value for `f`; the same `f` gives the same value on one thread.
    pub fn new(f: Raw) -> FnPtr {
        TABLE.with_borrow_mut(|t| {
            let i = t.iter().position(|&g| std::ptr::fn_addr_eq(g, f)).unwrap_or_else(|| {
                t.push(f);
                t.len() - 1
            });
            FnPtr(i as u32 + 1)
        })
    }
    /// True for the null pointer.
    pub fn is_null(self) -> bool {
        self.0 == 0
    }
    /// Calls it in the running task; calling NULL is reported like any wild access.
    pub fn call(self, arg: Ptr) -> Fut {
        let f = TABLE.with_borrow(|t| t.get((self.0 as usize).wrapping_sub(1)).copied());
        match f {
            Some(f) => f(arg),
            None => super::event::fatal("LT-MEM-0", "call of a null function pointer".into()),
        }
    }
}

impl Word for FnPtr {
    fn to_word(self) -> u64 {
        u64::from(self.0)
    }
    fn from_word(w: u64) -> Self {
        FnPtr(w as u32)
    }
}
