//! The state of the engine: open transactions, lock waits, deadlocks with the statements of all parties, and the report of
//! SHOW ENGINE INNODB STATUS.
//!
//! Sessions publish a little for it while they work: [`history`] and [`crate::registry::Activity`]. The rest is computed when
//! a view is read or a deadlock is found.

pub mod deadlocks;
pub mod figures;
pub mod foreign;
pub mod history;
pub(crate) mod json;
pub mod names;
pub(crate) mod text;
pub(crate) mod transactions;
