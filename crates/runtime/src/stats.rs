//! Counters of the whole process, kept per worker: only the worker itself writes them.

use crate::wait::WaitEvent;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the runtime has done since the process began (in a simulated world: since the world began).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Fibers resumed.
    pub switches: u64,
    /// Wakes that had to signal a sleeping worker.
    pub signals: u64,
    /// Reads, writes and syncs of files.
    pub file_ops: u64,
    /// Reads that were held back until others were done.
    pub reads_held: u64,
    /// Times a worker entered the kernel to submit or to wait.
    pub enters: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Bytes received on sockets.
    pub bytes_received: u64,
    /// Bytes sent on sockets.
    pub bytes_sent: u64,
    /// Fibers that exist, busy or pooled.
    pub fibers: u64,
    /// Jobs that ended by a panic.
    pub panics: u64,
}

/// The counters, summed over workers.
pub fn totals() -> Totals {
    let mut t = Totals::default();
    crate::worker::for_each_counters(|c| {
        for (sum, counter) in [
            (&mut t.switches, &c.switches),
            (&mut t.signals, &c.signals),
            (&mut t.file_ops, &c.file_ops),
            (&mut t.reads_held, &c.reads_held),
            (&mut t.enters, &c.enters),
            (&mut t.accepted, &c.accepted),
            (&mut t.bytes_received, &c.bytes_received),
            (&mut t.bytes_sent, &c.bytes_sent),
            (&mut t.fibers, &c.fibers),
            (&mut t.panics, &c.panics),
        ] {
            *sum += counter.get();
        }
    });
    t
}

/// A number that one thread writes and all read.
#[derive(Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }
    /// For the counters that several threads write.
    #[inline]
    pub fn add_shared(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }
    pub fn set(&self, n: u64) {
        self.0.store(n, Ordering::Relaxed);
    }
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of one worker.
#[derive(Default)]
pub(crate) struct Counters {
    pub switches: Counter,
    /// Written by the workers that signal.
    pub signals: Counter,
    pub file_ops: Counter,
    pub reads_held: Counter,
    pub enters: Counter,
    pub accepted: Counter,
    pub bytes_received: Counter,
    pub bytes_sent: Counter,
    pub fibers: Counter,
    pub panics: Counter,
    waits: [(Counter, Counter); WaitEvent::COUNT],
}

impl Counters {
    #[inline]
    pub fn count_wait(&self, event: WaitEvent, nanos: u64) {
        let (count, sum) = &self.waits[event as usize];
        count.add(1);
        sum.add(nanos);
    }
    /// Back to zero.
    pub fn reset(&self) {
        let Counters {
            switches,
            signals,
            file_ops,
            reads_held,
            enters,
            accepted,
            bytes_received,
            bytes_sent,
            fibers,
            panics,
            waits,
        } = self;
        let plain = [
            switches,
            signals,
            file_ops,
            reads_held,
            enters,
            accepted,
            bytes_received,
            bytes_sent,
            fibers,
            panics,
        ];
        plain.into_iter().chain(waits.iter().flat_map(|(count, sum)| [count, sum])).for_each(|c| c.set(0));
    }
    /// Count and nanoseconds.
    pub fn waits(&self, event: WaitEvent) -> (u64, u64) {
        let (count, sum) = &self.waits[event as usize];
        (count.get(), sum.get())
    }
}
