//! The words in which callers of the engine say what they want: isolation, locking, ranges, outcomes.

use std::ops::Bound;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use keel_runtime::fiber::Fiber;
use parking_lot::Mutex;

use crate::engine::TreeHandle;
use crate::owner::Owner;
use crate::store::{Durability, StoreConfig};

/// How an engine is opened.
#[derive(Debug, Clone)]
pub struct EngineConfig {
    /// The store below.
    pub store: StoreConfig,
    /// How long a row lock is waited for unless the transaction says otherwise.
    pub lock_wait_timeout: Duration,
    /// Row locks that a transaction keeps one by one; those of one that has more are kept as ranges of keys.
    pub row_locks_max: usize,
}

impl EngineConfig {
    /// Defaults for the data folder `dir`.
    pub fn new(dir: impl Into<PathBuf>) -> EngineConfig {
        EngineConfig {
            store: StoreConfig::new(dir),
            lock_wait_timeout: Duration::from_secs(50),
            row_locks_max: 8 << 10,
        }
    }

    /// Sets when commits are acknowledged.
    pub fn durability(mut self, durability: Durability) -> EngineConfig {
        self.store.durability = durability;
        self
    }
}

/// SQL's isolation levels, with InnoDB's meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// Plain reads see uncommitted rows.
    ReadUncommitted,
    /// Each statement reads as of its start; no gap locks.
    ReadCommitted,
    /// The transaction reads as of its first read; locking reads lock gaps.
    RepeatableRead,
    /// As repeatable read; the caller makes plain reads locking ones.
    Serializable,
}

impl Isolation {
    /// Whether locking reads keep others from inserting into what they passed.
    pub fn locks_gaps(self) -> bool {
        matches!(self, Isolation::RepeatableRead | Isolation::Serializable)
    }
}

/// How a transaction begins.
#[derive(Debug, Clone)]
pub struct TxnOptions {
    /// Its isolation level.
    pub isolation: Isolation,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether locking a row that the snapshot does not see is an error ([`crate::Error::RecordChanged`]), where one
    /// snapshot serves the whole transaction.
    pub snapshot_isolation: bool,
    /// How long a row lock is waited for; `None` takes the engine's default.
    pub lock_wait_timeout: Option<Duration>,
    /// The session's switch for ending waits and scans from outside; `None` makes one.
    pub interrupt: Option<Interrupt>,
    /// The session, for those who look at it from outside.
    pub owner: Option<Arc<Owner>>,
}

impl Default for TxnOptions {
    fn default() -> TxnOptions {
        TxnOptions {
            isolation: Isolation::RepeatableRead,
            read_only: false,
            snapshot_isolation: false,
            lock_wait_timeout: None,
            interrupt: None,
            owner: None,
        }
    }
}

/// Ends a statement from outside (KILL QUERY): scans and lock waits answer [`crate::Error::Interrupted`].
/// Stays raised until [`Interrupt::clear`].
#[derive(Debug, Clone, Default)]
pub struct Interrupt {
    inner: Arc<InterruptInner>,
}

#[derive(Debug, Default)]
struct InterruptInner {
    raised: AtomicBool,
    waiter: Mutex<Option<Fiber>>,
}

impl Interrupt {
    /// A switch that is not raised.
    pub fn new() -> Interrupt {
        Interrupt::default()
    }

    /// Raises it and wakes its transaction's lock wait, if any.
    pub fn raise(&self) {
        self.inner.raised.store(true, Ordering::SeqCst);
        if let Some(fiber) = *self.inner.waiter.lock() {
            fiber.wake();
        }
    }

    /// Lowers it again.
    pub fn clear(&self) {
        self.inner.raised.store(false, Ordering::SeqCst);
    }

    /// Whether it is raised.
    #[inline]
    pub fn is_raised(&self) -> bool {
        self.inner.raised.load(Ordering::Relaxed)
    }

    /// Says which fiber to wake; `None` after the wait.
    pub(crate) fn set_waiter(&self, fiber: Option<Fiber>) {
        *self.inner.waiter.lock() = fiber;
    }
}

/// Strength of a row lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockMode {
    /// Others may read with locks, not write.
    Shared,
    /// Others may do neither.
    Exclusive,
}

/// What to do when a row lock is not free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Wait as long as the transaction's timeout says.
    Default,
    /// Answer [`crate::Error::LockNotAvailable`].
    NoWait,
    /// Pass over the row.
    SkipLocked,
    /// Wait this long.
    Timeout(Duration),
}

/// How a read sees rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// As of the snapshot (uncommitted rows under READ UNCOMMITTED).
    Snapshot,
    /// The newest row, locked until the transaction ends.
    Lock(LockMode, Wait),
}

impl Read {
    /// `SELECT ... FOR UPDATE`.
    pub const FOR_UPDATE: Read = Read::Lock(LockMode::Exclusive, Wait::Default);
    /// `SELECT ... LOCK IN SHARE MODE`.
    pub const FOR_SHARE: Read = Read::Lock(LockMode::Shared, Wait::Default);

    /// How rows of `tree` are read: nobody locks those of a temporary one.
    #[inline]
    pub(crate) fn of(self, tree: &TreeHandle) -> Read {
        if tree.is_temporary() { Read::Snapshot } else { self }
    }
}

/// A range of keys to scan.
#[derive(Debug, Clone, Copy)]
pub struct ScanRange<'a> {
    /// Where it begins.
    pub lower: Bound<&'a [u8]>,
    /// Where it ends.
    pub upper: Bound<&'a [u8]>,
    /// From the upper end down.
    pub reverse: bool,
}

impl ScanRange<'_> {
    /// Everything, ascending.
    pub const ALL: ScanRange<'static> =
        ScanRange { lower: Bound::Unbounded, upper: Bound::Unbounded, reverse: false };
}

/// What a locking scan locks where its range ends, if its isolation level locks gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeEnd {
    /// The gap up to the next row: the range holds all keys with one prefix.
    Gap,
    /// The gap and that row, as for any other range. Under levels that lock no gaps a scan upwards in the tree of the rows waits
    /// for that row and lets it go.
    NextKey,
    /// Nothing if a row was found: only one can have the key.
    Unique,
    /// The gap, and that row if there was one in the range: it is read to see that it is not in it.
    NextKeyIfFound,
    /// The gap up to the next row, but none between the rows that are found.
    GapBehind,
}

/// What an insert came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Insert {
    /// The row is in.
    Done,
    /// A live row stands there; this transaction now holds a lock on it.
    Duplicate,
}

/// What to do on finding a live row where one is to be inserted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnDuplicate {
    /// Lock it shared (plain INSERT).
    #[default]
    LockShared,
    /// Lock it exclusively (REPLACE, ON DUPLICATE KEY UPDATE).
    LockExclusive,
}

/// What the caller of [`crate::Txn::update_by`] decides on seeing the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Write the new row that was put into the buffer.
    Update,
    /// Delete the row.
    Delete,
    /// Leave it: it is not wanted. The lock stays, or goes under READ COMMITTED if it was neither held before nor waited for.
    Keep,
    /// Leave it as it is, locked.
    Hold,
}

/// What [`crate::Txn::update_by`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// The new row is in.
    Updated,
    /// The row is deleted.
    Deleted,
    /// The row was left as it is.
    Unchanged,
    /// There is no such row.
    NotFound,
}
