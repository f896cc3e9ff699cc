//! Tables of the query of INSERT ... SELECT, where ON DUPLICATE KEY UPDATE reads them.
//!
//! The query gives all their columns behind those that go into the table; each becomes a row of its own beside the row that is
//! there and the one that was to be inserted. Only where the query is neither grouped nor DISTINCT nor a UNION.

use std::sync::Arc;

use keel_base::SqlResult;
use keel_sql::ast::{ColumnName, Expr, Query, QueryBody, SelectItem, SourceText, TableRef};
use keel_value::{SqlType, TypeKind};

use crate::bind::Binder;
use crate::catalog::TableDef;

/// Slots of the row that is there and of the one that was to be inserted.
const OWN_SLOTS: u16 = 2;

/// A table of the query.
struct Named {
    alias: String,
    table: Arc<TableDef>,
}

/// The query with all columns of its tables behind its own; none where their rows are not to be had.
pub(super) struct Widened {
    pub query: Query,
    tables: Vec<Named>,
}

impl Widened {
    pub fn of(binder: &mut Binder<'_>, query: &Query) -> SqlResult<Option<Widened>> {
        let mut query = query.clone();
        let QueryBody::Select(select) = &mut query.body else { return Ok(None) };
        if query.with.is_some() || !select.group_by.is_empty() || select.options.distinct {
            return Ok(None);
        }
        let mut tables = Vec::new();
        for part in &select.from {
            gather(binder, part, &mut tables)?;
        }
        for Named { alias, table } in &tables {
            select.items.extend(table.columns.iter().map(|column| SelectItem::Expr {
                expr: Expr::Column(ColumnName {
                    db: None,
                    table: Some(alias.clone()),
                    column: column.name.to_string(),
                }),
                // ORDER BY means the others.
                alias: Some(format!("\0{}", column.name)),
                text: SourceText::default(),
            }));
        }
        Ok((!tables.is_empty()).then_some(Widened { query, tables }))
    }

    /// Makes the tables known to what is bound next; gives how many columns each has. One that has the name of the table
    /// which the rows go to stays unknown.
    pub fn enter(&self, binder: &mut Binder<'_>) -> SqlResult<Vec<usize>> {
        for (place, Named { alias, table }) in self.tables.iter().enumerate() {
            let mut entry = binder.scope_table(OWN_SLOTS + place as u16, table.clone(), Some(alias))?;
            // The query gives local time.
            let mut columns = entry.columns.to_vec();
            for column in columns.iter_mut().filter(|column| column.ty.kind == TypeKind::Timestamp) {
                column.ty = SqlType::temporal(TypeKind::DateTime, column.ty.decimals);
            }
            entry.columns = columns.into();
            let _ = binder.scope_mut().add_table(entry);
        }
        Ok(self.tables.iter().map(|named| named.table.columns.len()).collect())
    }
}

/// The tables of a part of FROM; views and derived tables are left out.
fn gather(binder: &mut Binder<'_>, part: &TableRef, out: &mut Vec<Named>) -> SqlResult<()> {
    match part {
        TableRef::Join { left, right, .. } => {
            gather(binder, left, out)?;
            gather(binder, right, out)
        }
        TableRef::Table { name, alias, .. } if binder.find_view(name.db.as_deref(), &name.name).is_none() => {
            let table = binder.table(name.db.as_deref(), &name.name, alias.as_deref())?;
            if !table.is_virtual() {
                out.push(Named { alias: alias.clone().unwrap_or_else(|| name.name.clone()), table });
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
