//! Load control: while many transactions wait for each other's rows, new ones wait before their first lock.
//!
//! A transaction that waits for a row holds the rows it has already. With more clients than the hot rows bear, nearly all
//! of them wait and the few that could go on meet further locks ("data contention thrashing"; A. Thomasian, "Two-phase
//! locking performance and its thrashing behavior", TODS 1993). What helps is to have fewer transactions open at once; who
//! is held back holds no row and costs nothing.
//!
//! A transaction *enters* before its first lock or write and *leaves* at its end. While more than a quarter of those
//! inside wait for locks, who comes stands in a queue, in order of arrival, and each that leaves lets in at most two, so
//! that the crowd grows no faster than its waits are seen.
//!
//! **Never a stall.** As long as few of those inside could run ([`RUNNING_MIN`] for each worker) everybody enters: waits
//! behind one idle session hold nobody back. Waits longer than [`STUCK_AFTER`] do not count, and nobody is held longer than
//! [`HELD_MAX`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::time::Duration;

use keel_runtime::fiber::{self, Fiber};
use keel_runtime::time;
use keel_runtime::wait::WaitEvent;
use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::options::Interrupt;

/// Transactions per worker that must be inside and not waiting before anybody is held back.
const RUNNING_MIN: usize = 16;
/// One in so many of those inside may wait for a lock.
const WAITING_SHARE: usize = 4;
/// How many are let in when one leaves.
const LET_IN: usize = 2;
/// A wait longer than this is not one of a crowd's: its holder is idle.
pub(crate) const STUCK_AFTER: Duration = Duration::from_secs(1);
/// Longer nobody is held back.
const HELD_MAX: Duration = Duration::from_secs(1);

/// Who is inside, who waits there, and who stands before the door.
#[derive(Default)]
pub(crate) struct Admission {
    /// Entered and not left.
    inside: AtomicUsize,
    /// Inside and waiting for a lock.
    waiting: AtomicUsize,
    /// Waiting for longer than `STUCK_AFTER`.
    stuck: AtomicUsize,
    /// Length of `queue`, written under its lock.
    held: AtomicUsize,
    queue: Mutex<VecDeque<Arc<Ticket>>>,
}

struct Ticket {
    fiber: Fiber,
    /// Set under the queue's lock, as the ticket leaves the queue.
    let_in: AtomicBool,
}

impl Admission {
    /// Before the first lock of a transaction; may wait. An error only by the interrupt, and then it has not entered.
    #[inline]
    pub(crate) fn enter(&self, interrupt: &Interrupt) -> Result<()> {
        if self.held.load(Relaxed) == 0 && self.has_room() {
            self.inside.fetch_add(1, Relaxed);
            return Ok(());
        }
        self.stand_in_line(interrupt)
    }

    /// After the end of a transaction that entered.
    #[inline]
    pub(crate) fn leave(&self) {
        self.inside.fetch_sub(1, Relaxed);
        self.let_in();
    }

    /// A transaction inside begins to wait for a lock.
    pub(crate) fn wait_begins(&self) {
        self.waiting.fetch_add(1, Relaxed);
    }

    /// How many have entered, and how many stand before the door.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.inside.load(Relaxed), self.held.load(Relaxed))
    }

    /// How many wait for a lock now.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Relaxed)
    }

    /// Its wait is so long that it does not count any more.
    pub(crate) fn is_stuck(&self) {
        self.stuck.fetch_add(1, Relaxed);
        self.let_in();
    }

    /// Its wait is over.
    pub(crate) fn wait_ends(&self, was_stuck: bool) {
        self.waiting.fetch_sub(1, Relaxed);
        if was_stuck {
            self.stuck.fetch_sub(1, Relaxed);
        }
    }

    /// The counts are read one by one and may be a little off.
    #[inline]
    fn has_room(&self) -> bool {
        let inside = self.inside.load(Relaxed);
        let waiting = self.waiting.load(Relaxed);
        if waiting * WAITING_SHARE <= inside {
            return true;
        }
        let stuck = self.stuck.load(Relaxed);
        inside.saturating_sub(waiting) < RUNNING_MIN * keel_runtime::worker_count()
            || waiting.saturating_sub(stuck) * WAITING_SHARE <= inside.saturating_sub(stuck)
    }

    #[cold]
    fn stand_in_line(&self, interrupt: &Interrupt) -> Result<()> {
        let ticket = Arc::new(Ticket { fiber: fiber::current(), let_in: AtomicBool::new(false) });
        self.change_queue(|queue| queue.push_back(ticket.clone()));
        // There may have come room between the look and the queue.
        self.let_in();
        interrupt.set_waiter(Some(fiber::current()));
        let deadline = time::now() + HELD_MAX;
        while !ticket.let_in.load(Acquire) && !interrupt.is_raised() {
            if !fiber::park_until(WaitEvent::Admission, deadline) {
                break;
            }
        }
        interrupt.set_waiter(None);
        self.change_queue(|queue| queue.retain(|other| !Arc::ptr_eq(other, &ticket)));
        let is_in = ticket.let_in.load(Acquire);
        if interrupt.is_raised() {
            if is_in {
                self.leave();
            }
            return Err(Error::Interrupted);
        }
        if !is_in {
            self.inside.fetch_add(1, Relaxed);
        }
        Ok(())
    }

    #[inline]
    fn let_in(&self) {
        if self.held.load(Relaxed) > 0 {
            self.let_some_in();
        }
    }

    #[cold]
    fn let_some_in(&self) {
        self.change_queue(|queue| {
            for _ in 0..LET_IN {
                if !self.has_room() {
                    break;
                }
                let Some(next) = queue.pop_front() else { break };
                self.inside.fetch_add(1, Relaxed);
                next.let_in.store(true, Release);
                next.fiber.wake();
            }
        });
    }

    fn change_queue(&self, change: impl FnOnce(&mut VecDeque<Arc<Ticket>>)) {
        let mut queue = self.queue.lock();
        change(&mut queue);
        self.held.store(queue.len(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel_runtime::sim::{self, Options};

    /// Runs `f` with a crowd inside of which one in `share` waits, and that could do without nobody.
    fn with_crowd(share: usize, f: impl FnOnce(Arc<Admission>, usize) + Send) {
        sim::run(Options::new(1), || {
            let door = Arc::new(Admission::default());
            let crowd = 4 * RUNNING_MIN * keel_runtime::worker_count();
            let nobody = Interrupt::default();
            (0..crowd).for_each(|_| door.enter(&nobody).unwrap());
            (0..crowd / share).for_each(|_| door.wait_begins());
            f(door, crowd);
        });
    }

    /// A fiber that enters; the list gets its number once it has.
    fn come(door: &Arc<Admission>, entered: &Arc<Mutex<Vec<usize>>>, number: usize) {
        let (door, entered) = (door.clone(), entered.clone());
        fiber::spawn(move || {
            door.enter(&Interrupt::default()).unwrap();
            entered.lock().push(number);
        });
        fiber::sleep(Duration::from_millis(1));
    }

    #[test]
    fn who_comes_where_half_wait_enters_in_order_as_the_waits_end() {
        with_crowd(2, |door, crowd| {
            let entered = Arc::<Mutex<Vec<usize>>>::default();
            (0..5).for_each(|number| come(&door, &entered, number));
            door.leave();
            fiber::sleep(Duration::from_millis(1));
            assert!(entered.lock().is_empty(), "half of them still wait");
            (0..crowd / 2).for_each(|_| door.wait_ends(false));
            for all in [vec![0, 1], vec![0, 1, 2, 3], vec![0, 1, 2, 3, 4]] {
                door.leave();
                fiber::sleep(Duration::from_millis(1));
                entered.lock().sort_unstable();
                assert_eq!(*entered.lock(), all);
            }
        });
    }

    #[test]
    fn few_waits_and_few_runners_hold_nobody_back() {
        for share in [8, 1] {
            with_crowd(share, |door, _| {
                let began = time::now();
                door.enter(&Interrupt::default()).unwrap();
                assert_eq!(time::now(), began);
            });
        }
    }

    #[test]
    fn nobody_is_held_for_long_and_stuck_waits_do_not_count() {
        with_crowd(2, |door, crowd| {
            let began = time::now();
            door.enter(&Interrupt::default()).unwrap();
            assert!(time::now() >= began + HELD_MAX);
            (0..crowd / 2).for_each(|_| door.is_stuck());
            let began = time::now();
            door.enter(&Interrupt::default()).unwrap();
            assert_eq!(time::now(), began);
        });
    }

    #[test]
    fn an_interrupt_ends_the_wait_before_the_door() {
        with_crowd(2, |door, _| {
            let interrupt = Interrupt::default();
            let other = interrupt.clone();
            fiber::spawn(move || {
                fiber::sleep(Duration::from_millis(5));
                other.raise();
            });
            assert!(matches!(door.enter(&interrupt), Err(Error::Interrupted)));
            assert_eq!(door.held.load(Relaxed), 0);
        });
    }
}
