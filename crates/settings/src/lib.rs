//! System variables and options: their table, their values, option files, and what an option means for the start.
//!
//! [`variables`] has MariaDB 10.11's system variables with their global and session values. [`options`] reads the command
//! line and option files. [`budget`] and [`descriptors`] divide memory and file descriptors by what was asked for.
//!
//! 1. The crate knows no server and no statement in execution: the caller passes values in and applies the result.
//! 2. A session reads its variables without a lock on the global ones: it keeps the array of its start.
#![forbid(unsafe_code)]

pub mod budget;
pub mod descriptors;
pub mod options;
pub mod variables;

pub use options::{OptionError, Options};
