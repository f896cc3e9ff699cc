//! Counters of the whole process, kept per worker: only the worker itself writes them.

use crate::wait::WaitEvent;
use std::sync::atomic::{AtomicU64, Ordering};

/// The table of counters: what each counts, and its name.
macro_rules! counters {
    ($($(#[$what:meta])+ $name:ident,)+) => {
        /// What the runtime has done since the process began (in a simulated world: since the world began).
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Totals {
            $($(#[$what])+ pub $name: u64,)+
        }

        /// The counters of one worker.
        #[derive(Default)]
        pub(crate) struct Counters {
            $($(#[$what])+ pub $name: Counter,)+
            waits: [(Counter, Counter); WaitEvent::COUNT],
        }

        impl Counters {
            fn add_to(&self, totals: &mut Totals) {
                $(totals.$name += self.$name.get();)+
            }
            /// Back to zero.
            pub fn reset(&self) {
                $(self.$name.set(0);)+
                self.waits.iter().flat_map(|(count, sum)| [count, sum]).for_each(|c| c.set(0));
            }
        }
    };
}

counters! {
    /// Fibers resumed.
    switches,
    /// Wakes that had to signal a sleeping worker; written by the workers that signal.
    signals,
    /// Reads, writes and syncs of files.
    file_ops,
    /// Reads that were held back until others were done.
    reads_held,
    /// Times a worker entered the kernel to submit or to wait.
    enters,
    /// Connections accepted.
    accepted,
    /// Bytes received on sockets.
    bytes_received,
    /// Bytes sent on sockets.
    bytes_sent,
    /// Fibers that exist, busy or pooled.
    fibers,
    /// Jobs that ended by a panic.
    panics,
}

/// The counters, summed over workers.
pub fn totals() -> Totals {
    let mut totals = Totals::default();
    crate::worker::for_each_counters(|counters| counters.add_to(&mut totals));
    totals
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

impl Counters {
    #[inline]
    pub fn count_wait(&self, event: WaitEvent, nanos: u64) {
        let (count, sum) = &self.waits[event as usize];
        count.add(1);
        sum.add(nanos);
    }
    /// Count and nanoseconds.
    pub fn waits(&self, event: WaitEvent) -> (u64, u64) {
        let (count, sum) = &self.waits[event as usize];
        (count.get(), sum.get())
    }
}
