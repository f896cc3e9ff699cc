//! Aggregate functions: what a call is, and its state while rows of one group pass.
//!
//! Types follow MariaDB: COUNT is BIGINT(21) NOT NULL, SUM and AVG of exact numbers are DECIMAL and of others DOUBLE, MIN
//! and MAX keep their argument's type. States are bounded: GROUP_CONCAT and
//! JSON_ARRAYAGG by `group_concat_max_len`, JSON_OBJECTAGG by `max_allowed_packet`, the sets of DISTINCT
//! by `tmp_memory_table_size`.

mod state;

pub use state::State;
pub(crate) use state::domain_of;

use std::sync::{Arc, OnceLock};

use keel_sql::ast::ByteStr;
use keel_value::SqlType;
use keel_value::key::KeyPart;
use keel_value::row::Layout;

use crate::expr::Expr;

/// Which aggregate function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum AggregateKind {
    CountStar,
    Count,
    Sum,
    Avg,
    Min,
    Max,
    GroupConcat,
    JsonArray,
    JsonObject,
    BitAnd,
    BitOr,
    BitXor,
    StdPop,
    StdSamp,
    VarPop,
    VarSamp,
    AnyValue,
}

impl AggregateKind {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            AggregateKind::CountStar | AggregateKind::Count => "count",
            AggregateKind::Sum => "sum",
            AggregateKind::Avg => "avg",
            AggregateKind::Min => "min",
            AggregateKind::Max => "max",
            AggregateKind::GroupConcat => "group_concat",
            AggregateKind::JsonArray => "json_arrayagg",
            AggregateKind::JsonObject => "json_objectagg",
            AggregateKind::BitAnd => "bit_and",
            AggregateKind::BitOr => "bit_or",
            AggregateKind::BitXor => "bit_xor",
            AggregateKind::StdPop => "std",
            AggregateKind::StdSamp => "stddev_samp",
            AggregateKind::VarPop => "variance",
            AggregateKind::VarSamp => "var_samp",
            AggregateKind::AnyValue => "any_value",
        }
    }

    /// Whether it adds numbers up.
    pub fn adds(self) -> bool {
        matches!(self, AggregateKind::Sum | AggregateKind::Avg)
    }

    /// Whether it joins texts of rows to one.
    pub fn joins_texts(self) -> bool {
        matches!(self, AggregateKind::GroupConcat | AggregateKind::JsonArray | AggregateKind::JsonObject)
    }
}

/// One aggregate of a query.
#[derive(Debug, Clone)]
pub struct AggregateCall {
    /// Which function.
    pub kind: AggregateKind,
    /// DISTINCT.
    pub distinct: bool,
    /// Its arguments.
    pub args: Vec<Expr>,
    /// How the arguments are encoded where DISTINCT compares them.
    pub parts: Vec<KeyPart>,
    /// GROUP_CONCAT's ORDER BY: expression and whether descending.
    pub order: Vec<(Expr, bool)>,
    /// GROUP_CONCAT's separator.
    pub separator: ByteStr,
    /// GROUP_CONCAT's LIMIT: rows skipped, rows taken.
    pub limit: Option<(u64, u64)>,
    /// The type of the result.
    pub ty: SqlType,
    /// Whether the result may be NULL.
    pub nullable: bool,
    /// How DISTINCT sets the arguments of a row aside, once it has to.
    pub aside: OnceLock<Arc<Layout>>,
}

impl AggregateCall {
    /// The column whose least or greatest value it gives.
    pub(crate) fn column(&self) -> Option<&Expr> {
        let is_extreme = matches!(self.kind, AggregateKind::Min | AggregateKind::Max);
        self.args.first().filter(|arg| is_extreme && arg.as_any_column().is_some())
    }
}
