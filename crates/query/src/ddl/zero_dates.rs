//! New DATE, DATETIME and TIMESTAMP columns that are NOT NULL and have no DEFAULT: the rows of their table would show zero dates.
//! Where `sql_mode` refuses these, a table gets such a column only while it is empty.

use keel_base::SqlResult;
use keel_storage::{Read, ScanRange};
use keel_value::convert::{Problem, Target};
use keel_value::{SqlMode, TypeKind};

use super::alter::Alteration;
use super::online::quiet;
use crate::Database;
use crate::catalog::{ColumnDef, ColumnDefault, TableDef};
use crate::engine_error;
use crate::session::Session;

impl Database {
    /// 1292 for such a column of a table with rows. The table is owned.
    pub(super) fn refuse_zero_dates(
        &self,
        session: &Session,
        table: &TableDef,
        alteration: &Alteration,
    ) -> SqlResult<()> {
        let refuses = session.is_strict() && session.vars.sql_mode.has(SqlMode::NO_ZERO_DATE);
        let columns = alteration.record.columns.iter().zip(&alteration.column_origin);
        let mut added = columns.filter(|(_, origin)| origin.is_none()).map(|(column, _)| column);
        let Some((column, (kind, value))) = added.find_map(|column| Some((column, zero_of(column)?))) else {
            return Ok(());
        };
        if !refuses || alteration.words.ignore {
            return Ok(());
        }
        let mut reading = self.engine().begin(quiet(session));
        let mut scan = reading.scan(table.rows(), ScanRange::ALL, Read::Snapshot).map_err(engine_error)?;
        let is_empty = scan.next(&mut reading).map_err(engine_error)?.is_none();
        reading.rollback().map_err(engine_error)?;
        if is_empty {
            return Ok(());
        }
        let target = Target { db: &table.schema, table: &table.name, column: &column.name, row: 1 };
        Err(Problem::IncorrectTemporal { kind, value: value.into(), out_of_range: false }.to_error(target))
    }
}

/// The zero date that rows would show in a new column, and the word for its type.
fn zero_of(column: &ColumnDef) -> Option<(&'static str, &'static str)> {
    if column.nullable || column.default != ColumnDefault::None || column.generated.is_some() {
        return None;
    }
    match column.ty.kind {
        TypeKind::Date => Some(("date", "0000-00-00")),
        TypeKind::DateTime | TypeKind::Timestamp => Some(("datetime", "0000-00-00 00:00:00")),
        _ => None,
    }
}
