//! From a statement's tree to its effect: binder, optimizer, executor, expressions, definitions.
//!
//! The server owns one [`Database`] and a [`Session`] per connection. A text statement is looked for in the plan cache by
//! its digest ([`Database::cached`]); on a miss it is parsed and bound ([`Database::prepare`]); either way
//! [`Database::execute`] runs the plan and hands rows to a [`RowSink`] as slices of pages.
//!
//! Statements are atomic: what a failed one wrote is undone, its transaction goes on, except after a deadlock, which ends
//! the whole transaction. Definitions change the catalog's tree in the same transaction that creates and drops trees of
//! rows, so a crash leaves either all of one or nothing.
#![forbid(unsafe_code)]

pub mod access;
pub mod account;
pub mod aggregate;
pub mod bind;
mod branch;
mod cache;
mod checksum;
mod database;
mod ddl;
mod dml;
mod execute;
mod explain;
mod group;
mod home;
pub mod host;
mod join;
mod json_table;
mod lock_tables;
mod maintain;
mod plan;
mod point;
mod programs;
mod read_lock;
mod read_only;
mod refuse;
mod running;
mod scratch;
pub mod select;
pub mod sequence;
pub mod session;
mod temporary;
#[cfg(test)]
mod testing;
pub mod txn;
mod window;
pub mod xa;

pub use bind::Dependency;
pub use cache::type_family;
pub use database::{Database, LockedThing, Params};
pub use explain::Question;
pub use host::Host;
pub use interrupt::{Interrupt, InterruptState};
pub use keel_base::{SqlError, SqlResult};
pub use keel_catalog::{self as catalog, series};
pub use keel_context::{
    AlterAlgorithm, Diagnostics, HandlerCounts, Locale, Place, PlanCounts, SessionVars, UserVariable,
    admission, result, user_locks, waits,
};
use keel_context::{counts, interrupt, mdl, memory, sort, stack, temp_file};
use keel_expr::files;
pub use keel_expr::func::SYS_CONFIG;
pub use keel_expr::{self as expr, Env, Executor, FileRules, Server, func};
pub use memory::{Allowance, Room, WorkMemory, temporary_tables_max};
pub use plan::{Plan, StatementKind};
pub use result::{Collect, ColumnMeta, Completion, ResultColumns, RowSink, RowView};
pub use running::{Execution, Running};
pub use session::Session;
pub use sort::{RowCursor, RowList};

pub(crate) use keel_context::engine_error;
