//! A session as the engine knows it: who it is to the layer above, and the transaction that it has open.
//!
//! A session has one [`Owner`] and gives it to each of its transactions. Whoever looks at sessions from outside finds the
//! transaction through it, one that only reads too; whoever finds a transaction in a lock table finds the session.

use std::any::Any;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;

use crate::trx::TrxShared;

/// What the layer above knows sessions by; the engine only hands it on.
pub type Who = dyn Any + Send + Sync;

/// Asked before memory is taken for a long value: of how many octets, in whose transaction. It may wait; false ends the
/// statement.
pub type Admit = dyn Fn(u64, &Owner) -> bool + Send + Sync;

/// A session as its transactions know it.
pub struct Owner {
    who: Weak<Who>,
    /// A snapshot is held.
    reading: AtomicBool,
    /// The open transaction, since its first lock or write.
    trx: Mutex<Option<Arc<TrxShared>>>,
    /// The session had locks, of rows or of the layer above, when its last statement ended, or has taken tables since.
    has_locks: AtomicBool,
    admit: OnceLock<Box<Admit>>,
}

impl fmt::Debug for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Owner").field("is_reading", &self.is_reading()).finish_non_exhaustive()
    }
}

impl Owner {
    /// The owner of a session's transactions.
    pub fn new(who: Weak<Who>) -> Arc<Owner> {
        Arc::new(Owner {
            who,
            reading: AtomicBool::new(false),
            trx: Mutex::default(),
            has_locks: AtomicBool::new(false),
            admit: OnceLock::new(),
        })
    }

    /// Whom the layer above knows it by, while the session lives.
    pub fn who(&self) -> Option<Arc<Who>> {
        self.who.upgrade()
    }

    /// Says who is asked before long values are read; once.
    pub fn set_admission(&self, admit: Box<Admit>) {
        let _ = self.admit.set(admit);
    }

    /// Whether a value of so many octets may be read. No latch held; waits.
    pub(crate) fn admits(&self, bytes: u64) -> bool {
        self.admit.get().is_none_or(|admit| admit(bytes, self))
    }

    /// Whether its transaction holds a snapshot.
    pub fn is_reading(&self) -> bool {
        self.reading.load(Ordering::Relaxed)
    }

    /// Whether others may wait for it: its transaction is open and has locked or written, or it had locks when its last
    /// statement ended.
    pub fn is_locking(&self) -> bool {
        self.has_locks.load(Ordering::Relaxed) || self.trx.lock().is_some()
    }

    /// Says whether the session has locks, of rows or of the layer above: as a statement ends, or as it takes tables for itself.
    pub fn set_has_locks(&self, has_locks: bool) {
        self.has_locks.store(has_locks, Ordering::Relaxed);
    }

    pub(crate) fn open(&self) -> Option<Arc<TrxShared>> {
        self.trx.lock().clone()
    }

    #[inline]
    pub(crate) fn set_reading(&self, reading: bool) {
        self.reading.store(reading, Ordering::Relaxed);
    }

    pub(crate) fn set_transaction(&self, trx: Option<Arc<TrxShared>>) {
        *self.trx.lock() = trx;
    }
}
