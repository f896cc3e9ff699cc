//! Keel's storage engine: transactions over ordered trees of bytes. Never SQL.
//!
//! The physical half keeps pages, trees and the log; the logical half keeps versions, locks and transactions.

pub mod fault;
pub mod mtr;
pub mod store;
pub mod tree;
