//! The engine as its users look at it: open transactions, who waits for whom, deadlocks with their story, and the report of
//! SHOW ENGINE INNODB STATUS.
//!
//! What sessions must note for it while they work is in [`history`] and in [`crate::registry::Activity`], and is little;
//! all else is made when somebody asks, or when a deadlock is found.

pub mod deadlocks;
pub mod figures;
pub mod foreign;
pub mod history;
pub mod json;
pub mod names;
pub mod text;
pub mod transactions;
