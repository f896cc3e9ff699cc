//! What every room of Keel shares and nobody owns: identifiers, the error catalogue, checksums.
//!
//! This crate knows nothing of the rest. It does no I/O, holds no state and has no unsafe code.
#![forbid(unsafe_code)]

pub mod checksum;
pub mod error;
pub mod id;

pub use error::{Level, SqlError, SqlResult, Warning, code, errors};
pub use id::{Lsn, PageNo, TreeId, TrxId};
