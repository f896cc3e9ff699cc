//! Planning of queries: SELECT, set operations, VALUES and WITH.
//!
//! A query block is bound clause by clause into a [`Block`](keel_exec::select::Block): names and types first, then what
//! merges, becomes a join or is kept, then the order of the joins and the paths to rows.

mod build;
mod from;
mod function;
mod group;
mod keyed;
mod merge;
mod metadata;
mod natural;
mod semi;
mod union;
pub mod view;
mod with;

use keel_base::SqlResult;
use keel_exec::select::SelectPlan;
use keel_sql::ast;

use crate::bind::Binder;

pub use build::{bind_list, ordinal};
pub use from::check_hints;
pub(crate) use group::place_aggregates;
pub(crate) use keyed::plan_keyed;
pub use metadata::item_name;
pub(crate) use with::CommonTable;

/// Binds and plans a query in the binder's innermost scope's surroundings (an empty one for a statement of its own).
pub fn plan_select(binder: &mut Binder<'_>, query: &ast::Query) -> SqlResult<SelectPlan> {
    build::plan_query(binder, query)
}
