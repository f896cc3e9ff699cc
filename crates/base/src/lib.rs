//! What all crates share: identifiers, the error catalogue, checksums, sizes in options.
//!
//! This crate knows nothing of the rest. It does no I/O, holds no state and has no unsafe code.
#![forbid(unsafe_code)]

pub mod checksum;
pub mod error;
pub mod id;
mod size;

pub use error::{Level, SqlError, SqlResult, Warning, code, errors};
pub use id::{Lsn, PageNo, TreeId, TrxId};
pub use size::parse_size;
