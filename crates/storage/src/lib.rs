//! Keel's storage engine: transactions over ordered trees of bytes. Never SQL.
//!
//! The physical half keeps pages, trees and the log; the logical half keeps versions, locks and transactions.
//! The layer above uses [`Engine`], [`Txn`] and [`Scan`].

mod alloc;
mod buffer;
mod core;
mod doublewrite;
pub mod engine;
pub mod error;
pub mod fault;
mod flush;
mod layout;
mod lock;
mod lock_gap;
mod lock_wait;
mod log;
pub mod mtr;
pub mod options;
mod page;
mod purge;
mod recovery;
mod registry;
mod restart;
mod rollback;
mod row;
pub mod scan;
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
mod undo_log;

pub use engine::{Engine, EngineStatus, LockInfo, TreeHandle, TrxInfo};
pub use error::{Error, Result};
/// Clock, fibers and files for the layer above, which has no arrow of its own to the runtime.
pub use keel_runtime as runtime;
pub use options::{
    Change, Changed, EngineConfig, Insert, Interrupt, Isolation, LockMode, OnDuplicate, Read, ScanRange,
    TxnOptions, Wait,
};
pub use scan::Scan;
pub use store::{Durability, StoreConfig};
pub use txn::{Savepoint, Txn};
