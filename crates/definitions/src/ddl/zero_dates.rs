//! New DATE and DATETIME columns that are NOT NULL and have no DEFAULT: the rows of their table would show zero dates. Where
//! `sql_mode` refuses these, be it strict or not, a table gets such a column only while it is empty, and MariaDB copies it.

use keel_base::SqlResult;
use keel_catalog::{ColumnDef, ColumnDefault, TableDef};
use keel_context::engine_error;
use keel_context::vars::SessionVars;
use keel_exec::session::Session;
use keel_storage::{Read, ScanRange};
use keel_value::convert::{Problem, Target};
use keel_value::{SqlMode, TypeKind};

use super::alter::Alteration;
use super::online::quiet;
use crate::ddl::Definer;

impl Alteration {
    /// The first new column in which rows would show a zero date that is refused, with the word for its type and the date.
    pub(super) fn zero_date(&self, vars: &SessionVars) -> Option<(&ColumnDef, &'static str, &'static str)> {
        if !vars.sql_mode.has(SqlMode::NO_ZERO_DATE) {
            return None;
        }
        let columns = self.record.columns.iter().zip(&self.column_origin);
        columns.filter(|(_, origin)| origin.is_none()).find_map(|(column, _)| {
            let (kind, value) = zero_of(column)?;
            Some((column, kind, value))
        })
    }
}

impl Definer<'_> {
    /// 1292 for such a column of a table with rows. The table is owned.
    pub(super) fn refuse_zero_dates(
        &self,
        session: &Session,
        table: &TableDef,
        alteration: &Alteration,
    ) -> SqlResult<()> {
        let Some((column, kind, value)) = alteration.zero_date(&session.vars) else { return Ok(()) };
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
        TypeKind::DateTime => Some(("datetime", "0000-00-00 00:00:00")),
        _ => None,
    }
}
