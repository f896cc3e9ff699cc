//! The timers of one worker.
//!
//! A fiber or connection has at most one live entry. It is not removed when the wait ends early: when it fires and the
//! owner now wants a later time, it is set again. A wait with the usual timeout thus costs no heap operation at all.
//! Entries that an earlier deadline has made useless are dropped when they fire, or by `compact` when they pile up.

use crate::fiber::Core;
use crate::net::{ConnId, Conns};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Entries below which nothing is dropped ahead of its time.
const COMPACT_MIN: usize = 4096;

/// Whom a timer is for.
#[derive(Clone, Copy)]
pub(crate) enum Target {
    /// A parked fiber.
    Fiber(&'static Core),
    /// A connection's idle timeout.
    Conn(ConnId),
    /// A listener that pauses after an error, by its place in the worker's list.
    Listener(usize),
    /// Bytes on their way through the simulated network.
    Delivery(ConnId),
    /// Time to look at pooled fibers nobody needs.
    Trim,
}

struct Entry {
    at: u64,
    sequence: u64,
    target: Target,
}
impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.sequence) == (other.at, other.sequence)
    }
}
impl Eq for Entry {}
impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

/// Timers by time, then by order of arming.
#[derive(Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<Entry>>,
    sequence: u64,
    compact_at: usize,
}

impl Timers {
    pub fn arm(&mut self, at: u64, target: Target, conns: &Conns) {
        if self.heap.len() >= self.compact_at.max(COMPACT_MIN) {
            self.compact(conns);
        }
        self.sequence += 1;
        self.heap.push(Reverse(Entry { at, sequence: self.sequence, target }));
    }
    /// Time of the next entry.
    pub fn next(&self) -> Option<u64> {
        self.heap.peek().map(|e| e.0.at)
    }
    /// The next entry that is due.
    pub fn pop_due(&mut self, now: u64) -> Option<(u64, Target)> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|e| (e.0.at, e.0.target))
    }
    /// Drops what would do nothing when it fired.
    fn compact(&mut self, conns: &Conns) {
        self.heap.retain(|e| match e.0.target {
            Target::Fiber(core) => core.timer_at.get() == e.0.at,
            Target::Conn(id) => conns.get(id).is_some_and(|c| c.timer_at() == e.0.at),
            Target::Delivery(id) => conns.get(id).is_some(),
            Target::Listener(_) | Target::Trim => true,
        });
        self.compact_at = self.heap.len() * 2;
    }
}
