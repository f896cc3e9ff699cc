//! Rows that operators leave with the session while a statement runs.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::sort::RowCursor;

/// Where rows are while nobody reads them.
pub type Shelf = Arc<Mutex<Option<RowCursor>>>;

/// Rows of derived tables within subqueries, by their names in the plan, for one statement.
pub type KeptRows = HashMap<u64, Shelf>;

/// The input of a recursion's round; none while it is being read.
pub struct Working {
    /// The number of the recursion.
    pub number: u32,
    /// The rows.
    pub rows: Option<RowCursor>,
}
