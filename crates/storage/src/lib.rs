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
mod log;
pub mod mtr;
pub mod options;
mod page;
mod recovery;
pub mod scan;
mod space;
pub mod store;
pub mod tree;
pub mod txn;

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
