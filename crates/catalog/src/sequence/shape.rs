//! The columns of a sequence's table.

use keel_base::{SqlResult, errors};
use keel_value::{SqlType, TypeKind};

use crate::{ColumnDef, TableOptions, TableRecord, names};

/// The table option that makes a table a sequence.
pub const OPTION: &str = "SEQUENCE";

const STARTED: &str = "start value when sequences is created or value if RESTART is used";
const CYCLES: &str =
    "0 if no cycles are allowed, 1 if the sequence should begin a new cycle when maximum_value is passed";

/// The columns of every sequence.
pub fn columns() -> Vec<ColumnDef> {
    let signed = || SqlType::bigint().with_length(21);
    let column = |name: &str, ty: SqlType, comment: &str| ColumnDef {
        comment: comment.to_string(),
        ..ColumnDef::plain(name, ty, false)
    };
    vec![
        column("next_not_cached_value", signed(), ""),
        column("minimum_value", signed(), ""),
        column("maximum_value", signed(), ""),
        column("start_value", signed(), STARTED),
        column("increment", signed(), "increment value"),
        column("cache_size", SqlType::bigint_unsigned().with_length(21), ""),
        column("cycle_option", SqlType::new(TypeKind::TinyInt).with_unsigned().with_length(1), CYCLES),
        column("cycle_count", signed(), "How many cycles have been done"),
    ]
}

impl TableOptions {
    /// Whether they make the table a sequence.
    pub fn is_sequence(&self) -> bool {
        self.others.iter().any(|(name, _)| name == OPTION)
    }
}

/// 4086 where a table that is to be a sequence cannot be one.
pub fn check_shape(record: &TableRecord) -> SqlResult<()> {
    let wanted = columns();
    let invalid =
        |reason: &str| Err(errors::sequence_invalid_table_structure(&record.schema, &record.name, reason));
    if record.columns.len() != wanted.len() {
        return invalid("Wrong number of columns");
    }
    if !record.indexes.is_empty() || !record.foreign_keys.is_empty() {
        return invalid("Sequence tables cannot have any keys");
    }
    if !record.checks.is_empty() {
        return invalid("Sequence tables cannot have any constraints");
    }
    let fits = |(column, wanted): (&ColumnDef, &ColumnDef)| {
        names::same(&column.name, &wanted.name)
            && (column.ty.kind, column.ty.unsigned) == (wanted.ty.kind, wanted.ty.unsigned)
            && !column.nullable
            && column.check.is_none()
            && column.generated.is_none()
    };
    let misfit = record.columns.iter().zip(&wanted).find(|(column, wanted)| !fits((column, wanted)));
    misfit.map_or(Ok(()), |(column, _)| invalid(&column.name))
}
