//! `max_statement_time`: ends statements that run too long.
//!
//! One fiber sleeps until the nearest deadline. A statement that ends in time takes its entry back, so the list is never
//! longer than the number of statements that run under a limit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use keel_exec::{Interrupt, InterruptState};
use keel_runtime::fiber::{self, Fiber};
use keel_runtime::time::{self, Instant};
use keel_runtime::wait::WaitEvent;
use parking_lot::Mutex;

/// Deadlines of running statements.
pub struct Timeouts {
    inner: Mutex<Inner>,
}

struct Inner {
    deadlines: BTreeMap<(Instant, u64), Arc<Interrupt>>,
    next: u64,
    fiber: Option<Fiber>,
    stopped: bool,
}

/// A statement's place among the deadlines; taken back when dropped.
pub struct Limit<'a> {
    timeouts: &'a Timeouts,
    key: (Instant, u64),
}

impl Timeouts {
    /// No deadlines.
    pub fn new() -> Timeouts {
        let inner = Inner { deadlines: BTreeMap::new(), next: 0, fiber: None, stopped: false };
        Timeouts { inner: Mutex::new(inner) }
    }

    /// Starts the fiber that watches the deadlines.
    pub fn start(self: &Arc<Self>) {
        let timeouts = self.clone();
        fiber::spawn(move || timeouts.watch());
    }

    /// Ends that fiber.
    pub fn stop(&self) {
        let mut inner = self.inner.lock();
        inner.stopped = true;
        if let Some(fiber) = inner.fiber {
            fiber.wake();
        }
    }

    /// Raises `interrupt` unless the result is dropped before `after` has passed.
    pub fn limit(&self, interrupt: &Arc<Interrupt>, after: Duration) -> Limit<'_> {
        let mut inner = self.inner.lock();
        let key = (time::now() + after, inner.next);
        inner.next += 1;
        inner.deadlines.insert(key, interrupt.clone());
        let is_first = inner.deadlines.first_key_value().is_some_and(|(first, _)| *first == key);
        if let (true, Some(fiber)) = (is_first, inner.fiber) {
            fiber.wake();
        }
        Limit { timeouts: self, key }
    }

    fn watch(&self) {
        self.inner.lock().fiber = Some(fiber::current());
        loop {
            let Some(deadline) = self.raise_due() else { return };
            fiber::park_until(WaitEvent::Idle, deadline);
        }
    }

    /// Raises what is due; gives the next deadline, or None where the server stops.
    fn raise_due(&self) -> Option<Instant> {
        let mut inner = self.inner.lock();
        if inner.stopped {
            return None;
        }
        let now = time::now();
        while let Some(entry) = inner.deadlines.first_entry() {
            if entry.key().0 > now {
                return Some(entry.key().0);
            }
            entry.remove().raise(InterruptState::Timeout);
        }
        Some(now + Duration::from_secs(3600))
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Timeouts::new()
    }
}

impl Drop for Limit<'_> {
    fn drop(&mut self) {
        self.timeouts.inner.lock().deadlines.remove(&self.key);
    }
}
