//! Running queries: plans, operators, and the session that they run in.
//!
//! The planner makes a [`SelectPlan`](select::SelectPlan); [`select::run`] runs it and hands rows to a [`RowSink`] as slices
//! of pages. A [`Session`] is one connection's state; [`Home`] is what all sessions share: engine, catalog, gates,
//! transactions.
#![forbid(unsafe_code)]

pub mod access;
pub mod aggregate;
pub mod branch;
mod flush;
pub mod group;
pub mod home;
pub mod host;
pub mod join;
pub mod json_table;
pub mod kept;
pub mod named_locks;
pub mod read_lock;
pub mod read_only;
pub mod running;
pub mod scratch;
pub mod select;
pub mod sequence;
pub mod session;
pub mod temporary;
#[cfg(test)]
mod testing;
pub mod transaction;
pub mod txn;
pub mod window;

pub use home::Home;
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
pub use result::{Collect, ColumnMeta, Completion, ResultColumns, RowSink, RowView};
pub use running::{Execution, Running};
pub use session::Session;
pub use sort::{RowCursor, RowList};

pub(crate) use keel_context::engine_error;
