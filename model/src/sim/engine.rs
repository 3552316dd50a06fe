//! Virtual time: futures on an event queue.
//!
//! Main type: [`Engine`]. A task runs until it waits: for a time ([`Engine::sleep_until`]) or for somebody to wake it
//! ([`Engine::suspend`]). Nothing else takes time. Events at one time happen in the order in which they were made.
//! Must not know: what the tasks do.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

pub use crate::disk::{Ns, SECOND};

/// Names a task.
pub type TaskId = u32;
/// What a timer is for; the owner of the engine gives it a meaning.
pub type TimerId = u32;

/// What is due at a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Due {
    Wake(TaskId),
    Timer(TimerId),
}

/// Tasks that wait for something.
#[derive(Default, Debug)]
pub struct WaitList(RefCell<Vec<TaskId>>);

impl WaitList {
    /// Does nobody wait?
    pub fn is_empty(&self) -> bool {
        self.0.borrow().is_empty()
    }
}

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Clock, event queue and tasks.
#[derive(Default)]
pub struct Engine {
    now: Cell<Ns>,
    seq: Cell<u64>,
    due: RefCell<BinaryHeap<Reverse<(Ns, u64, Due)>>>,
    ready: RefCell<VecDeque<TaskId>>,
    tasks: RefCell<Vec<Option<Task>>>,
    spawned: RefCell<Vec<Task>>,
    /// A task that is woken for one reason is not woken for another before it ran.
    woken: RefCell<Vec<bool>>,
    current: Cell<TaskId>,
}

impl Engine {
    /// The time.
    pub fn now(&self) -> Ns {
        self.now.get()
    }
    /// The running task.
    pub fn current(&self) -> TaskId {
        self.current.get()
    }
    /// Adds a task, which first runs at the present time.
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.spawned.borrow_mut().push(Box::pin(task));
    }
    /// Makes timer `id` due at `at`, or now if that is past. It can't be taken back: whoever owns it ignores a stale one.
    pub fn timer(&self, at: Ns, id: TimerId) {
        self.push(at, Due::Timer(id));
    }
    fn push(&self, at: Ns, due: Due) {
        let seq = self.seq.get();
        self.seq.set(seq + 1);
        self.due.borrow_mut().push(Reverse((at.max(self.now()), seq, due)));
    }
    /// Lets the running task sleep until `at`; at once if that is past.
    pub async fn sleep_until(&self, at: Ns) {
        if at > self.now() {
            self.push(at, Due::Wake(self.current()));
        }
        std::future::poll_fn(|_| if self.now() >= at { Poll::Ready(()) } else { Poll::Pending }).await
    }
    /// Lets the running task sleep for a time.
    pub async fn sleep(&self, ns: Ns) {
        self.sleep_until(self.now().saturating_add(ns)).await
    }
    /// Puts the running task on a list; it then [`Engine::suspend`]s itself. Two steps, so that no borrow of the list is held in between.
    pub fn enlist(&self, list: &WaitList) {
        list.0.borrow_mut().push(self.current());
    }
    /// Lets the running task wait until somebody wakes it. What it waits for may not be true then: test it in a loop.
    pub async fn suspend(&self) {
        let mut first = true;
        std::future::poll_fn(|_| if std::mem::take(&mut first) { Poll::Pending } else { Poll::Ready(()) }).await
    }
    /// Wakes all who wait on the list.
    pub fn wake_all(&self, list: &WaitList) {
        for task in list.0.borrow_mut().drain(..) {
            self.make_ready(task);
        }
    }
    fn make_ready(&self, task: TaskId) {
        let woken = &mut self.woken.borrow_mut()[task as usize];
        if !*woken {
            *woken = true;
            self.ready.borrow_mut().push_back(task);
        }
    }

    fn adopt(&self) {
        for task in self.spawned.borrow_mut().drain(..) {
            let mut tasks = self.tasks.borrow_mut();
            let id = tasks.len() as TaskId;
            tasks.push(Some(task));
            self.woken.borrow_mut().push(true);
            self.ready.borrow_mut().push_back(id);
        }
    }
    fn poll(&self, id: TaskId) {
        self.woken.borrow_mut()[id as usize] = false;
        let Some(mut task) = self.tasks.borrow_mut()[id as usize].take() else { return };
        self.current.set(id);
        if task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            self.tasks.borrow_mut()[id as usize] = Some(task);
        }
    }
    /// Runs until `until`, or until nothing is due any more. `timer` handles due timers.
    pub fn run(&self, until: Ns, mut timer: impl FnMut(TimerId)) {
        loop {
            self.adopt();
            let next = self.ready.borrow_mut().pop_front();
            if let Some(id) = next {
                self.poll(id);
                continue;
            }
            let mut queue = self.due.borrow_mut();
            if queue.peek().is_none_or(|Reverse((at, _, _))| *at > until) {
                break;
            }
            let Some(Reverse((at, _, due))) = queue.pop() else { break };
            drop(queue);
            self.now.set(at);
            match due {
                Due::Wake(task) => self.make_ready(task),
                Due::Timer(id) => {
                    timer(id);
                }
            }
        }
        self.now.set(self.now().max(until));
    }
    /// Drops all tasks; they refer to the engine's owner, which would otherwise never be freed.
    pub fn clear(&self) {
        self.tasks.borrow_mut().clear();
        self.spawned.borrow_mut().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn sleepers_wake_in_the_order_of_their_times_and_then_of_their_asking() {
        let e = Rc::new(Engine::default());
        let log = Rc::new(RefCell::new(Vec::new()));
        for (name, at) in [("c", 30), ("a", 10), ("b", 10)] {
            let (e2, log) = (e.clone(), log.clone());
            e.spawn(async move {
                e2.sleep(at).await;
                log.borrow_mut().push((name, e2.now()));
            });
        }
        e.run(100, |_| ());
        assert_eq!(*log.borrow(), [("a", 10), ("b", 10), ("c", 30)]);
        assert_eq!(e.now(), 100);
    }

    #[test]
    fn a_waiter_sleeps_until_it_is_woken_and_timers_reach_the_owner() {
        let e = Rc::new(Engine::default());
        let list = Rc::new(WaitList::default());
        let woke = Rc::new(Cell::new(0));
        {
            let (e2, list, woke) = (e.clone(), list.clone(), woke.clone());
            e.spawn(async move {
                e2.enlist(&list);
                e2.suspend().await;
                woke.set(e2.now());
            });
        }
        e.timer(50, 7);
        e.run(40, |_| unreachable!());
        assert_eq!(woke.get(), 0);
        e.run(60, |id| {
            assert_eq!((id, e.now()), (7, 50));
            e.wake_all(&list);
        });
        assert_eq!(woke.get(), 50);
    }

    #[test]
    fn what_lies_beyond_the_end_stays_due() {
        let e = Engine::default();
        e.timer(10, 1);
        e.timer(20, 2);
        let mut seen = Vec::new();
        e.run(15, |id| seen.push(id));
        e.run(25, |id| seen.push(id));
        assert_eq!(seen, [1, 2]);
    }
}
