//! Permits, and a flag to wait for.

use super::queue::Queue;
use super::wait_queue::WaitQueue;
use crate::fiber::{self, Fiber};
use crate::time::Instant;
use crate::wait::WaitEvent;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A number of permits, given out in order of arrival.
pub struct Semaphore {
    /// Free permits. Taken only under the queue's lock.
    free: AtomicU64,
    queue: Queue,
}

impl Semaphore {
    /// A semaphore with so many permits.
    pub const fn new(permits: u64) -> Self {
        Semaphore { free: AtomicU64::new(permits), queue: Queue::new() }
    }
    /// Waits for `n` permits.
    pub fn acquire(&self, n: u64, event: WaitEvent) {
        self.acquire_until(n, event, Instant::FAR);
    }
    /// Waits for `n` permits until `deadline`; false if that passed first.
    pub fn acquire_until(&self, n: u64, event: WaitEvent, deadline: Instant) -> bool {
        let mut list = self.queue.lock();
        if list.is_empty() && self.take(n) {
            return true;
        }
        let ticket = list.push_current(n);
        drop(list);
        if self.queue.park_for(ticket, event, deadline) {
            return true;
        }
        let mut list = self.queue.lock();
        if !self.queue.withdraw(&mut list, ticket) {
            return true;
        }
        let mut served = self.serve(&mut list);
        drop(list);
        fiber::wake_many(&mut served);
        false
    }
    /// Takes `n` permits if they are free and nobody waits.
    pub fn try_acquire(&self, n: u64) -> bool {
        let list = self.queue.lock();
        list.is_empty() && self.take(n)
    }
    /// Gives `n` permits back.
    pub fn release(&self, n: u64) {
        let mut list = self.queue.lock();
        self.free.fetch_add(n, Ordering::Relaxed);
        let mut served = self.serve(&mut list);
        drop(list);
        fiber::wake_many(&mut served);
    }
    /// Permits free now.
    pub fn available(&self) -> u64 {
        self.free.load(Ordering::Relaxed)
    }

    fn take(&self, n: u64) -> bool {
        let free = self.free.load(Ordering::Relaxed);
        if free < n {
            return false;
        }
        self.free.store(free - n, Ordering::Relaxed);
        true
    }
    fn serve(&self, list: &mut super::queue::List) -> Vec<Fiber> {
        let mut served = Vec::new();
        while let Some(n) = list.front().map(|w| w.kind) {
            if !self.take(n) {
                break;
            }
            served.extend(self.queue.serve_front(list));
        }
        served
    }
}

/// A flag that fibers wait for.
#[derive(Default)]
pub struct Event {
    set: AtomicBool,
    waiters: WaitQueue,
}

impl Event {
    /// An event that has not happened.
    pub const fn new() -> Self {
        Event { set: AtomicBool::new(false), waiters: WaitQueue::new() }
    }
    /// It has happened: wakes all waiters, now and later.
    pub fn set(&self) {
        self.set.store(true, Ordering::SeqCst);
        self.waiters.wake_all();
    }
    /// It has not happened again yet.
    pub fn clear(&self) {
        self.set.store(false, Ordering::SeqCst);
    }
    /// Has it happened?
    pub fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }
    /// Waits until it has.
    pub fn wait(&self, event: WaitEvent) {
        self.waiters.wait_while(event, || !self.is_set());
    }
    /// Waits until it has or `deadline` passed; false for the latter.
    pub fn wait_until(&self, event: WaitEvent, deadline: Instant) -> bool {
        self.waiters.wait_while_until(event, deadline, || !self.is_set())
    }
}
