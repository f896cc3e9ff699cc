//! Waiting between fibers: mutex, reader-writer lock, wait queue, semaphore, event, channel.
//!
//! All of them park the fiber (or the thread, outside fibers), serve in order of arrival, and work across workers. A guard
//! may be held while parked, unlike a latch; it cannot be sent to another thread.
//!
//! Invariant: a waiter stands in its queue under a ticket; tickets leave only from the front (served) or by their owner
//! (deadline). So "served" is `ticket < served_below`, and no waiter's memory is ever touched by another fiber.

mod channel;
mod mutex;
mod queue;
mod rwlock;
mod semaphore;
mod wait_queue;

pub use channel::{Receiver, Sender, TrySendError, channel};
pub use mutex::{Mutex, MutexGuard};
pub use rwlock::{ReadGuard, RwLock, WriteGuard};
pub use semaphore::{Event, Semaphore};
pub use wait_queue::WaitQueue;
