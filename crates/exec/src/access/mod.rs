//! How the rows of one table are reached: by a unique key, by ranges of an index, or all of them.
//!
//! The planner looks at a table's predicates and picks an [`AccessPath`]; a [`TableReader`] runs it for given parameters
//! and enclosing rows, one row into a [`RowSlot`](crate::expr::RowSlot) at a time. Paths hold expressions, not values, so
//! that a plan serves all parameters: bounds are encoded when the reader opens.
//!
//! 1. A path never loses a row that fulfils the predicates it was made from; it may give more, so the caller checks them
//!    again unless [`AccessChoice::exact`] names them.
//! 2. Ranges are made disjoint and ordered when the reader opens: no row is seen twice.
//! 3. A value that the index's order cannot compare (text with a number) widens its range, to the whole index if need be.

pub mod bounds;
pub mod choice;
mod reader;
mod sieve;

use std::sync::Arc;

use keel_base::SqlResult;

use crate::catalog::TableDef;
use crate::expr::{Expr, Frame};
use crate::select::Subquery;
use crate::session::Session;

pub use bounds::{Point, encode_point};
pub use choice::{AccessChoice, AccessKind, KeyOrder};
pub use keel_catalog::{Holds, KeyRange};
pub use reader::{ReadMode, TableReader, plain_read, read_mode};

/// A way to a table's rows.
#[derive(Debug, Clone)]
pub enum AccessPath {
    /// No row can fulfil the predicates.
    Empty,
    /// At most one row: every part of a unique index equals a value that is not NULL.
    Point {
        /// Position in the table's indexes.
        index: usize,
        /// One value per part of the index.
        key: Vec<Expr>,
    },
    /// Ranges of an index.
    Ranges {
        /// Position in the table's indexes.
        index: usize,
        /// A row fulfils at least one of these.
        alternatives: Vec<Vec<PartCondition>>,
        /// From the end to the start.
        reverse: bool,
    },
    /// Rows that fulfil one of several conditions, each found by an index of its own. They have no order.
    Union(Vec<(usize, Vec<Vec<PartCondition>>)>),
    /// Every row, in the order of an index, or of the rows' own tree.
    Scan {
        /// Position in the table's indexes; none is the tree of the rows.
        index: Option<usize>,
        /// From the end to the start.
        reverse: bool,
    },
    /// Every row of a virtual table; at least those whose columns have these values. The statement reads the columns that are
    /// marked; all of them where there are no marks.
    Virtual(Vec<(usize, Expr)>, Option<Arc<[bool]>>),
}

/// What one part of an index must fulfil. A list of them names single values of the leading parts, then it may have an interval.
/// What stands behind that narrows the interval's ends only.
#[derive(Debug, Clone)]
pub enum PartCondition {
    /// `= value`; no row where the value is NULL.
    Equal(Expr),
    /// `<=> value`.
    NullSafeEqual(Expr),
    /// `IS NULL`.
    IsNull,
    /// `IN (list)`: shared, since each index that may serve takes the condition.
    In(Arc<[Expr]>),
    /// `IN (query)`, where the query reads nothing of its surroundings and so many rows are expected of it.
    InQuery(Box<Subquery>, f64),
    /// Between bounds; NULL is not in it.
    Range {
        /// Lower bound, and whether it is included.
        lower: Option<(Expr, bool)>,
        /// Upper bound, and whether it is included.
        upper: Option<(Expr, bool)>,
    },
    /// `LIKE pattern`: what stands before the first wildcard.
    Like {
        /// The pattern.
        pattern: Expr,
        /// The escape character.
        escape: Option<char>,
    },
}

impl PartCondition {
    /// Whether it names single values, so that the next part may be used too.
    pub fn is_points(&self) -> bool {
        !matches!(self, PartCondition::Range { .. } | PartCondition::Like { .. })
    }

    /// Whether it names one value.
    pub fn is_equality(&self) -> bool {
        matches!(self, PartCondition::Equal(_) | PartCondition::NullSafeEqual(_) | PartCondition::IsNull)
    }

    /// Whether it is the same for all rows of what stands around.
    pub fn is_constant(&self) -> bool {
        let bound =
            |bound: &Option<(Expr, bool)>| bound.as_ref().is_none_or(|(value, _)| value.is_constant());
        match self {
            PartCondition::Equal(value) | PartCondition::NullSafeEqual(value) => value.is_constant(),
            PartCondition::IsNull | PartCondition::InQuery(..) => true,
            PartCondition::In(list) => list.iter().all(Expr::is_constant),
            PartCondition::Range { lower, upper } => bound(lower) && bound(upper),
            PartCondition::Like { pattern, .. } => pattern.is_constant(),
        }
    }

    /// Whether NULL may fulfil it.
    fn takes_null(&self) -> bool {
        matches!(self, PartCondition::IsNull | PartCondition::NullSafeEqual(_))
    }

    /// Whether it is LIKE.
    pub fn is_like(&self) -> bool {
        matches!(self, PartCondition::Like { .. })
    }
}

impl AccessPath {
    /// Whether it reads the same rows whatever the rows around are: the whole table, or a constant part of it.
    pub fn is_constant(&self) -> bool {
        let are_constant = |alternatives: &[Vec<PartCondition>]| {
            alternatives.iter().flatten().all(PartCondition::is_constant)
        };
        match self {
            AccessPath::Scan { .. } => true,
            AccessPath::Ranges { alternatives, .. } => are_constant(alternatives),
            AccessPath::Union(branches) => {
                branches.iter().all(|(_, alternatives)| are_constant(alternatives))
            }
            AccessPath::Empty | AccessPath::Point { .. } | AccessPath::Virtual(..) => false,
        }
    }
}

/// Whether no range of an index is left for a path whose bounds are constant.
pub(crate) fn has_no_range(
    table: &TableDef,
    path: &AccessPath,
    session: &mut Session,
    frame: Frame<'_>,
) -> SqlResult<bool> {
    match path {
        AccessPath::Empty => Ok(true),
        AccessPath::Ranges { index, alternatives, .. } if path.is_constant() => {
            let reading = bounds::Reading { locking: false, apart: false };
            let mut ranges = Vec::new();
            bounds::ranges(&table.indexes[*index], alternatives, reading, session, frame, &mut ranges)?;
            Ok(ranges.is_empty())
        }
        _ => Ok(false),
    }
}

/// The index of a path, where it has one.
pub fn path_index(path: &AccessPath) -> Option<usize> {
    match path {
        AccessPath::Point { index, .. } | AccessPath::Ranges { index, .. } => Some(*index),
        AccessPath::Scan { index, .. } => *index,
        AccessPath::Empty | AccessPath::Union(_) | AccessPath::Virtual(..) => None,
    }
}

/// Every index that a path reads.
pub fn path_indexes(path: &AccessPath) -> impl Iterator<Item = usize> {
    let branches = match path {
        AccessPath::Union(branches) => branches.as_slice(),
        _ => &[],
    };
    path_index(path).into_iter().chain(branches.iter().map(|(index, _)| *index))
}

/// Reads every row of a table in its own order.
pub fn full_scan(table: &TableDef) -> AccessPath {
    if table.is_made_up() {
        AccessPath::Virtual(Vec::new(), None)
    } else {
        AccessPath::Scan { index: None, reverse: false }
    }
}
