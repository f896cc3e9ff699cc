//! Everything Keel needs from the world outside its own memory: threads, waiting, files, sockets, the clock, randomness.
//!
//! **Words.** A *worker* is a thread with a reactor (io_uring, or epoll plus a small pool of blocking threads). A *fiber* is
//! plain code on a stack of its own that can be parked. A *service* is a fiber with a worker thread to itself (the log
//! writer). A *world* is the simulated twin: all fibers on one thread, seeded scheduler, virtual clock, disk that can crash.
//! Code above this crate uses the same calls in both and cannot tell which it is in.
//!
//! **Invariants.** 1. A started fiber never leaves its worker. 2. No latch is held across a park (asserted, release too).
//! 3. A [`fiber::Fiber`] handle never dangles; waking a finished or reused fiber is a spurious wake. 4. A panic ends at the
//! root of its fiber. 5. Every queue has a bound: connections by the listener's owner, fibers by `fibers_max`, unsent bytes
//! by a limit at which `flush` parks.
//!
//! **Per-worker arrays** in other crates: size them by [`slot_count`] and index them by [`worker_index`]. Ordinary workers
//! are `0..worker_count()`, services come after them, and threads that are no worker share the last slot.
#![warn(missing_docs)]

mod blocking;
mod cgroup;
pub mod console;
pub mod fiber;
pub mod fs;
pub mod heap;
pub mod latch;
pub mod net;
pub mod rand;
mod reactor;
mod share;
mod shared;
pub mod signal;
pub mod sim;
mod stack;
pub mod stats;
pub mod sync;
pub mod system;
mod threads;
pub mod time;
mod timer;
pub mod wait;
mod worker;

use std::io;
use std::time::Duration;

/// Which way a worker talks to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ReactorChoice {
    /// io_uring where the kernel allows it, else epoll.
    #[default]
    Auto,
    /// io_uring or an error.
    IoUring,
    /// epoll and a pool of blocking threads for files.
    Epoll,
}

/// How a real runtime is laid out.
#[derive(Clone, Debug)]
pub struct Config {
    /// Worker threads; 0 means one per core.
    pub workers: usize,
    /// Reactor of each worker.
    pub reactor: ReactorChoice,
    /// Virtual size of a fiber's stack.
    pub stack_bytes: usize,
    /// Fibers alive at once over all workers; jobs beyond wait for one.
    pub fibers_max: usize,
    /// How long [`Runtime::shutdown`] waits for fibers before it abandons them.
    pub shutdown_wait: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            workers: 0,
            reactor: ReactorChoice::Auto,
            stack_bytes: 256 << 10,
            fibers_max: 16 << 10,
            shutdown_wait: Duration::from_secs(10),
        }
    }
}

/// The real world: workers that run fibers until [`Runtime::shutdown`], or until the process ends.
pub struct Runtime {
    threads: threads::Threads,
}

impl Runtime {
    /// Starts the workers. Raises the process's soft limit of open files to the hard one.
    pub fn start(config: Config) -> io::Result<Runtime> {
        system::raise_descriptor_limit();
        threads::Threads::start(&config).map(|threads| Runtime { threads })
    }

    /// `io_uring` or `epoll`.
    pub fn reactor_name(&self) -> &'static str {
        self.threads.reactor_name
    }

    /// Runs `f` on a fiber of worker 0 and waits for it; called from a thread that is no worker. A panic of `f` goes on here.
    pub fn block_on<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        threads::block_on(self.threads.group(), f)
    }

    /// Closes all connections and stops the workers once their fibers have ended, or after `shutdown_wait`. True if all had
    /// ended by themselves; those that had not are abandoned, and what they own is leaked.
    pub fn shutdown(self) -> bool {
        self.threads.stop()
    }
}

/// Ordinary workers of the caller's runtime.
pub fn worker_count() -> usize {
    worker::worker_count()
}

/// Slot of the caller: below [`worker_count`] on a worker, below [`slot_count`] always.
#[inline]
pub fn worker_index() -> usize {
    worker::worker_index()
}

/// Length for arrays indexed by [`worker_index`]: workers, services, and one for all other threads.
pub fn slot_count() -> usize {
    worker::slot_count()
}
