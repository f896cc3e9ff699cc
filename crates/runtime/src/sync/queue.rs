//! The list of waiters under every primitive of this folder.

use crate::fiber::{self, Fiber};
use crate::time::{self, Instant};
use crate::wait::WaitEvent;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

/// One who waits; `kind` is the primitive's own (a count of permits, reader or writer).
pub(super) struct Waiter {
    ticket: u64,
    fiber: Fiber,
    pub kind: u64,
}

/// The waiters, guarded by the queue's lock.
pub(super) struct List {
    next_ticket: u64,
    waiters: VecDeque<Waiter>,
}

impl List {
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }
    pub fn front(&self) -> Option<&Waiter> {
        self.waiters.front()
    }
    /// Enters the calling fiber.
    pub fn push_current(&mut self, kind: u64) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiters.push_back(Waiter { ticket, fiber: fiber::current(), kind });
        ticket
    }
    fn remove(&mut self, ticket: u64) -> bool {
        match self.waiters.binary_search_by_key(&ticket, |w| w.ticket) {
            Ok(at) => {
                self.waiters.remove(at);
                true
            }
            Err(_) => false,
        }
    }
}

/// First in, first served.
pub(super) struct Queue {
    list: parking_lot::Mutex<List>,
    served_below: AtomicU64,
}

impl Queue {
    pub const fn new() -> Self {
        Queue {
            list: parking_lot::const_mutex(List { next_ticket: 0, waiters: VecDeque::new() }),
            served_below: AtomicU64::new(0),
        }
    }

    /// The list; never held across a park or a wake.
    pub fn lock(&self) -> parking_lot::MutexGuard<'_, List> {
        self.list.lock()
    }

    /// Serves the first waiter; the caller wakes the fiber after it has released the list.
    pub fn serve_front(&self, list: &mut List) -> Option<Fiber> {
        let waiter = list.waiters.pop_front()?;
        self.served_below.store(waiter.ticket + 1, Ordering::Release);
        Some(waiter.fiber)
    }

    /// Serves everybody.
    pub fn serve_all(&self, list: &mut List) -> Vec<Fiber> {
        self.served_below.store(list.next_ticket, Ordering::Release);
        list.waiters.drain(..).map(|w| w.fiber).collect()
    }

    #[inline]
    pub fn is_served(&self, ticket: u64) -> bool {
        ticket < self.served_below.load(Ordering::Acquire)
    }

    /// Takes an unserved waiter out; false if it was served meanwhile.
    pub fn withdraw(&self, list: &mut List, ticket: u64) -> bool {
        !self.is_served(ticket) && list.remove(ticket)
    }

    /// Parks until served; false when the deadline passed first, and the waiter then still stands in the list.
    pub fn park_for(&self, ticket: u64, event: WaitEvent, deadline: Instant) -> bool {
        while !self.is_served(ticket) {
            if deadline == Instant::FAR {
                fiber::park(event);
            } else if !fiber::park_until(event, deadline) && time::now() >= deadline {
                return self.is_served(ticket);
            }
        }
        true
    }
}
