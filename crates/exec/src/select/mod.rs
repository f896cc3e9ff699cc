//! Queries: plans of SELECT, set operations and VALUES, and the operators that run them.
//!
//! The planner makes a [`SelectPlan`], which holds no values of one execution and is shared. [`run`] executes it: rows go to a [`RowOutput`] in the order asked for. Operators pull: a source fills
//! the frame's slots with the next joined row, filters look at it in place, and only what must outlive the row (groups,
//! sorts, hash tables) is copied, as bytes, into buffers that are bounded by the session's variables.
//!
//! 1. Every table of a query block has one slot of the frame, in order of FROM; after the tables comes one slot for the
//!    aggregates of a grouped row. Grouping puts the first row's needed columns back into the tables' slots, so that
//!    expressions need not know whether their row is grouped.
//! 2. Nothing parks while a page latch is held: readers copy rows out of pages first.

pub mod block;
pub mod carry;
mod difference;
pub mod export;
pub mod frame;
pub mod loose;
mod memo;
pub mod nothing;
mod plan;
pub mod recursive;
mod run;
pub mod setop;
pub mod subquery;
mod tally;

use keel_base::SqlResult;
use keel_value::Value;

use crate::expr::Frame;
use crate::result::RowSink;
use crate::session::Session;

pub use block::Block;
pub use carry::{Carry, SlotColumns, local_type, result_layout, sort_part, stored_type};
pub use frame::{FrameBuffer, RowPacker, SortPart, encode_key_part, encode_sort_part};
pub use memo::{Keyed, Memo};
pub(crate) use plan::Limits;
pub use plan::{Body, ExplainFacts, Origin, RowOutput, SelectPlan};
pub use recursive::{RecursivePlan, WorkingPlan};
pub use setop::SetPlan;
pub use subquery::{RowSet, Subquery, SubqueryTest};

/// Runs a query and sends its rows to a client; gives the number of rows sent.
pub fn run(
    plan: &SelectPlan,
    session: &mut Session,
    params: &[Value],
    sink: &mut dyn RowSink,
) -> SqlResult<u64> {
    run::to_sink(plan, session, params, sink)
}

/// Runs a query for a consumer inside the server; gives the rows counted, as FOUND_ROWS() does.
pub fn run_each(
    plan: &SelectPlan,
    session: &mut Session,
    params: &[Value],
    outer: Option<&Frame<'_>>,
    output: &mut dyn RowOutput,
) -> SqlResult<u64> {
    run::each(plan, session, params, outer, output)
}
