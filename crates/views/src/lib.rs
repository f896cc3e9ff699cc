//! What a running server shows: `information_schema`, `mysql` and `sys` ([`schema`]), SHOW ([`show`]), and the report of the
//! engine with its deadlocks ([`monitor`]).
//!
//! Views read a [`Served`]: the parts of a server that they show. Sessions publish their state in a [`registry::Client`] and
//! their counts in [`counters`]. Views read both, and change neither.
//!
//! 1. The crate executes no statement. SHOW ... WHERE and SHOW EXPLAIN are run by the session, over rows made here.
//! 2. A session pays for a view only what it publishes: its own lock at each command, and a counter without contention.
//! 3. Rows that a session may not see are left out here, not by the caller.
#![forbid(unsafe_code)]

pub mod counters;
pub mod monitor;
pub mod registry;
pub mod schema;
pub mod served;
pub mod session_variables;
pub mod show;

pub use served::{Served, VERSION};
