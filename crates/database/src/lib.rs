//! From a statement's text to its effect: plans, their cache, and how they run.
//!
//! The server owns one [`Database`] and a [`Session`](keel_exec::Session) per connection. A text statement is looked for
//! in the plan cache by its digest ([`Database::cached`]); on a miss it is parsed and bound ([`Database::prepare`]); either
//! way [`Database::execute`] runs the plan and hands rows to a [`RowSink`](keel_exec::RowSink) as slices of pages.
//!
//! Statements are atomic: what a failed one wrote is undone, its transaction goes on, except after a deadlock, which ends
//! the whole transaction. Definitions change the catalog's tree in the same transaction that creates and drops trees of
//! rows, so a crash leaves either all of one or nothing.
#![forbid(unsafe_code)]

mod cache;
mod database;
mod execute;
mod explain;
mod lock_tables;
mod plan;
mod point;
mod refuse;
pub mod xa;

pub use cache::type_family;
pub use database::{Database, LockedThing, Params};
pub use explain::Question;
pub use plan::{Plan, StatementKind};
