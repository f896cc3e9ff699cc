//! Window functions: what a query computes for each row from rows around it, once its rows or groups are there.
//!
//! A window is a partition (rows alike in PARTITION BY), an order within it, and a frame: the rows from one bound to
//! another that a function sees from the current row. Windows whose partitions are the same and whose orders are
//! beginnings of one order share a [`Stage`]: one sort, then one pass over each partition. Stages follow each other, so
//! rows come out in the order of the last one. Functions of one stage with the same frame share a [`FrameGroup`].
//!
//! 1. A row on its way through the stages is `[ends of its key's parts][key][columns kept][group][results so far]`.
//! 2. Both bounds of a frame only move forward within a partition; what enters is added to the functions' states and what
//!    leaves is taken out of them, or the state made again where that cannot be (`crate::aggregate::State::remove`).
//! 3. A sort is bounded by `sort_buffer_size`, the partition at hand by `tmp_memory_table_size`; what is beyond lies in
//!    files, of which a few blocks are kept (`rows::Partition`).
//!
//! Where MariaDB differs from the standard this follows MariaDB: a frame is allowed with LAG and LEAD and ignored, EXCLUDE
//! is refused, RANGE with an offset takes numbers only.

mod frame;
pub mod plan;
mod result;
mod rows;
mod run;

pub use plan::{WindowPlan, place};
pub(crate) use run::WindowRun;

use keel_value::SqlType;
use keel_value::key::KeyPart;

use crate::aggregate::AggregateCall;
use crate::expr::Expr;

/// Which window function.
#[derive(Debug, Clone)]
pub enum WindowKind {
    /// ROW_NUMBER.
    RowNumber,
    /// RANK.
    Rank,
    /// DENSE_RANK.
    DenseRank,
    /// PERCENT_RANK.
    PercentRank,
    /// CUME_DIST.
    CumeDist,
    /// NTILE.
    Ntile,
    /// LAG and LEAD: rows behind (negative) or ahead by the second argument; one where there is none.
    Shift {
        /// LEAD.
        ahead: bool,
    },
    /// FIRST_VALUE.
    FirstValue,
    /// LAST_VALUE.
    LastValue,
    /// NTH_VALUE.
    NthValue,
    /// PERCENTILE_CONT, and MEDIAN for a half.
    PercentileCont,
    /// PERCENTILE_DISC.
    PercentileDisc,
    /// An aggregate over the frame.
    Aggregate(Box<AggregateCall>),
}

/// One call of a window function.
#[derive(Debug, Clone)]
pub struct WindowCall {
    /// Which function.
    pub kind: WindowKind,
    /// Its arguments; those of an aggregate stand in its own call. Of percentiles the fraction, then what is ordered.
    pub args: Vec<Expr>,
    /// The type of the result.
    pub ty: SqlType,
    /// Whether the result may be NULL.
    pub nullable: bool,
}

/// One end of a frame.
#[derive(Debug, Clone)]
pub enum Bound {
    /// The partition's end on that side.
    Unbounded,
    /// The current row; under RANGE all that are equal to it in order.
    Current,
    /// ROWS: so many rows before (negative) or behind the current one.
    Rows(i64),
    /// RANGE: the value of the order's key that bounds the frame, computed from the current row's in the key slot.
    Value(Box<Expr>),
}

/// The rows that a function sees.
#[derive(Debug, Clone)]
pub struct Frame {
    /// RANGE; else ROWS.
    pub range: bool,
    /// Where it begins.
    pub start: Bound,
    /// Where it ends.
    pub end: Bound,
}

/// Functions that share a frame.
pub struct FrameGroup {
    /// Parts of the stage's key, PARTITION BY included, that rows equal in order have in common.
    pub peer_parts: usize,
    /// The order's only key and whether it is descending, where the frame is bounded by its values.
    pub range_key: Option<(Expr, bool)>,
    /// The frame.
    pub frame: Frame,
    /// The functions, by number.
    pub calls: Vec<usize>,
}

/// A sort and the functions computed over its rows.
pub struct Stage {
    /// PARTITION BY, then ORDER BY.
    pub keys: Vec<Expr>,
    /// How each is encoded.
    pub parts: Vec<KeyPart>,
    /// How many of them are PARTITION BY's.
    pub partition_parts: usize,
    /// The functions, by their frames.
    pub groups: Vec<FrameGroup>,
}
