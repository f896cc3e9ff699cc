//! Keel's storage engine: transactions over ordered trees of bytes. Never SQL.
//!
//! The **physical half** keeps bytes: pages ([`tree`], over a pool of frames), changed only through mini-transactions
//! ([`mtr`]), made durable by a redo log, written out by a flusher, brought back by recovery. Its face is [`store::Store`].
//! The **logical half** keeps meaning: versions and undo, snapshots, row and gap locks, purge, savepoints, the registry of
//! trees. Its face, and all that the layer above needs, is [`Engine`], [`Txn`] and [`Scan`].
//!
//! 1. A lock is asked for under the latch of the leaf that holds its key, and waited for with no latch held.
//! 2. Latches go from parent to child and from left to right, then undo pages, then map pages; see `buffer`.
//! 3. No page is written before the redo that describes it is durable.
//! 4. Callers are fibers (`keel_runtime`); methods that may park say that they wait.
//!
//! A crash leaves a folder that [`Engine::open`] brings to the state after some prefix of the commits, which includes
//! every acknowledged one; what was unfinished is rolled back.

mod admission;
mod alloc;
mod buffer;
mod core;
mod doublewrite;
pub mod engine;
pub mod error;
pub mod fault;
mod flush;
mod flush_batch;
pub mod folder;
pub mod fuzz;
pub mod inspect;
mod layout;
mod load;
mod lock;
mod lock_gap;
mod lock_ranges;
mod lock_span;
mod lock_wait;
mod log;
pub mod mtr;
mod open_files;
pub mod options;
mod own_trees;
mod owner;
mod page;
mod pool_report;
pub mod prepared;
mod purge;
mod purge_ahead;
mod purge_walk;
mod recovery;
mod redo_window;
mod registry;
mod report;
mod resize;
mod restart;
mod rollback;
mod row;
pub mod scan;
mod settle;
mod shrink;
mod snapshot;
mod space;
mod stats;
pub mod store;
pub mod tree;
mod trx;
pub mod txn;
mod txn_read;
mod txn_write;
mod undo;
mod undo_ahead;
mod undo_log;
mod version;
mod views;
mod watch;
mod weight;

pub use engine::{Engine, EngineStatus, TreeHandle};
pub use error::{Error, Result};
/// Clock, fibers and files for the layer above, which has no arrow of its own to the runtime.
pub use keel_runtime as runtime;
pub use options::{
    Change, Changed, EngineConfig, Insert, Interrupt, Isolation, LockMode, OnDuplicate, RangeEnd, Read,
    ScanRange, TxnOptions, Wait,
};
pub use owner::{Admit, Owner, Who};
pub use pool_report::{PageKind, PoolPage};
pub use report::{
    Deadlock, DeadlockLog, DeadlockParty, LockInfo, LockKind, LockWait, TREES_MAX, TrxInfo, WaitInfo,
};
pub use scan::{Scan, Sieve};
pub use store::{Durability, StoreConfig};
pub use tree::CountOf;
pub use txn::{Savepoint, Txn};
pub use watch::Watch;
