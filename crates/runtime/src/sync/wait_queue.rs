//! Fibers that wait for a condition somebody else makes true.

use super::queue::Queue;
use crate::fiber;
use crate::time::Instant;
use crate::wait::WaitEvent;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

/// A queue of waiters without a condition of its own.
///
/// Across workers use [`WaitQueue::wait_while`]: it enters the queue first and looks at the condition then, so that a wake
/// between the look and the wait is not lost. Plain [`WaitQueue::wait`] is for conditions that change on the caller's own
/// worker only, or for loops that tolerate a missed wake.
pub struct WaitQueue {
    queue: Queue,
    /// Waiters entered; lets `wake_*` skip the lock when nobody waits.
    entered: AtomicUsize,
}

impl WaitQueue {
    /// An empty queue.
    pub const fn new() -> Self {
        WaitQueue { queue: Queue::new(), entered: AtomicUsize::new(0) }
    }
    /// Waits for a wake that comes after this call.
    pub fn wait(&self, event: WaitEvent) {
        self.wait_once(event, Instant::FAR, &mut || true);
    }
    /// Waits for a wake until `deadline`; false if that passed first.
    pub fn wait_until(&self, event: WaitEvent, deadline: Instant) -> bool {
        self.wait_once(event, deadline, &mut || true)
    }
    /// Waits while `condition` holds, looking again after each wake.
    pub fn wait_while(&self, event: WaitEvent, mut condition: impl FnMut() -> bool) {
        while condition() {
            self.wait_once(event, Instant::FAR, &mut condition);
        }
    }
    /// Waits while `condition` holds; false if it still held at `deadline`.
    pub fn wait_while_until(
        &self,
        event: WaitEvent,
        deadline: Instant,
        mut condition: impl FnMut() -> bool,
    ) -> bool {
        while condition() {
            if !self.wait_once(event, deadline, &mut condition) {
                return !condition();
            }
        }
        true
    }
    /// Wakes the first waiter; false if there is none. Call it after the condition has changed.
    pub fn wake_one(&self) -> bool {
        if !self.has_waiters() {
            return false;
        }
        let mut list = self.queue.lock();
        let served = self.queue.serve_front(&mut list);
        drop(list);
        if let Some(fiber) = served {
            self.entered.fetch_sub(1, Ordering::Relaxed);
            fiber.wake();
        }
        served.is_some()
    }
    /// Wakes all waiters. Call it after the condition has changed.
    pub fn wake_all(&self) {
        if !self.has_waiters() {
            return;
        }
        let mut list = self.queue.lock();
        let mut served = self.queue.serve_all(&mut list);
        drop(list);
        self.entered.fetch_sub(served.len(), Ordering::Relaxed);
        fiber::wake_many(&mut served);
    }
    /// Does anybody wait?
    pub fn has_waiters(&self) -> bool {
        // Pairs with the fence in `wait_once`: either the waiter sees the condition changed, or we see the waiter.
        fence(Ordering::SeqCst);
        self.entered.load(Ordering::Relaxed) > 0
    }

    fn wait_once(&self, event: WaitEvent, deadline: Instant, condition: &mut dyn FnMut() -> bool) -> bool {
        let ticket = self.queue.lock().push_current(0);
        self.entered.fetch_add(1, Ordering::Relaxed);
        let entry = Entry { owner: self, ticket };
        fence(Ordering::SeqCst);
        if !condition() {
            // Nothing to wait for. A wake that met us here belongs to the next in line.
            if entry.leave() {
                self.wake_one();
            }
            return true;
        }
        let served = self.queue.park_for(ticket, event, deadline);
        served | entry.leave()
    }
}

impl Default for WaitQueue {
    fn default() -> Self {
        Self::new()
    }
}

/// A place in the queue; leaves it on drop, so that a panicking condition strands nobody.
struct Entry<'a> {
    owner: &'a WaitQueue,
    ticket: u64,
}
impl Entry<'_> {
    /// True if the waiter had been served.
    fn leave(self) -> bool {
        self.owner.queue.is_served(self.ticket)
    }
}
impl Drop for Entry<'_> {
    fn drop(&mut self) {
        if self.owner.queue.is_served(self.ticket) {
            return;
        }
        let mut list = self.owner.queue.lock();
        if self.owner.queue.withdraw(&mut list, self.ticket) {
            self.owner.entered.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
