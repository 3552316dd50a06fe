//! Threads: the same results in the same order, however many there are.
//!
//! Each piece of work runs on a thread of its own, because the machine under test is thread-local: what an earlier piece
//! left behind (interned task names) must not decide anything in a later one. Results come back in the order of the work.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

/// A panic in a piece of work.
pub type Panic = Box<dyn Any + Send>;

/// Runs `work(0) .. work(n - 1)` on `jobs` threads and hands the results to `done`, in order of index. `work` returns
/// `None` for what it leaves out; once `done` returns false, nothing more is begun.
pub fn run<T: Send>(jobs: usize, n: usize, work: &(dyn Fn(usize) -> Option<T> + Sync), done: &mut dyn FnMut(usize, T) -> bool) -> Result<(), Panic> {
    let next = AtomicUsize::new(0);
    let panic: Mutex<Option<Panic>> = Mutex::new(None);
    let (send, receive) = mpsc::channel::<(usize, Option<T>)>();
    thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, n.max(1)) {
            let send = send.clone();
            let (next, panic) = (&next, &panic);
            scope.spawn(move || {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    if i >= n {
                        break;
                    }
                    let result = thread::scope(|inner| inner.spawn(|| catch_unwind(AssertUnwindSafe(|| work(i)))).join());
                    match result.unwrap_or_else(Err) {
                        Ok(t) => {
                            if send.send((i, t)).is_err() {
                                break;
                            }
                        }
                        Err(p) => {
                            next.fetch_max(n, Ordering::Relaxed);
                            *panic.lock().unwrap_or_else(|e| e.into_inner()) = Some(p);
                            break;
                        }
                    }
                }
            });
        }
        drop(send);
        let mut waiting: BTreeMap<usize, Option<T>> = BTreeMap::new();
        let mut at = 0;
        let mut wanted = true;
        for (i, t) in receive {
            waiting.insert(i, t);
            while let Some(t) = waiting.remove(&at) {
                if let Some(t) = t
                    && wanted
                    && !done(at, t)
                {
                    wanted = false;
                    next.fetch_max(n, Ordering::Relaxed);
                }
                at += 1;
            }
        }
    });
    match panic.into_inner().unwrap_or_else(|e| e.into_inner()) {
        Some(p) => Err(p),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::run;

    fn order(jobs: usize) -> Vec<(usize, usize)> {
        let mut seen = Vec::new();
        run(jobs, 50, &|i| (i % 7 != 3).then_some(i * i), &mut |i, x| {
            seen.push((i, x));
            true
        })
        .map_err(|_| ())
        .expect("no panic");
        seen
    }

    #[test]
    fn results_come_in_order_whatever_the_jobs() {
        assert_eq!(order(1), order(2));
        assert_eq!(order(1), order(9));
        assert_eq!(order(1).len(), 43);
    }

    #[test]
    fn a_panic_is_handed_over() {
        let r = run(2, 10, &|i| if i == 4 { std::panic::resume_unwind(Box::new("boom")) } else { Some(i) }, &mut |_, _| true);
        assert_eq!(r.unwrap_err().downcast_ref::<&str>(), Some(&"boom"));
    }

    #[test]
    fn nothing_more_is_handed_over_once_it_is_enough() {
        let mut seen = Vec::new();
        let r = run(1, 100, &|i| Some(i), &mut |i, _| {
            seen.push(i);
            i < 5
        });
        assert!(r.is_ok());
        assert_eq!(seen, [0, 1, 2, 3, 4, 5]);
    }
}
