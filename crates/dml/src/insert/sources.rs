//! Tables of the query of INSERT ... SELECT, where ON DUPLICATE KEY UPDATE reads them.
//!
//! The query gives all their columns behind those that go into the table; each becomes a row of its own beside the row that is
//! there and the one that was to be inserted. Only where the query is neither grouped nor DISTINCT nor a UNION; of the latter
//! two the names are known and may be ambiguous.

use std::sync::Arc;

use keel_base::SqlResult;
use keel_catalog::{TableDef, names};
use keel_exec::select;
use keel_expr::walk;
use keel_planner::aggregate::has_aggregate;
use keel_planner::bind::{Binder, ScopeColumn, ScopeTable};
use keel_sql::ast::{
    ColumnName, Expr, LateInto, ObjectName, Query, QueryBody, Select, SelectItem, SourceText, TableRef,
};
use keel_value::{SqlType, TypeKind};

/// Slots of the row that is there and of the one that was to be inserted.
const OWN_SLOTS: u16 = 2;

/// A table of the query.
struct Named {
    alias: String,
    /// None for views, derived tables and those of WITH.
    table: Option<Arc<TableDef>>,
    columns: Arc<[ScopeColumn]>,
}

/// The tables of a query whose columns ON DUPLICATE KEY UPDATE sees beside those of the table that the rows go to.
pub(super) struct Widened {
    /// The query with all columns of its tables behind its own; none where their rows are not to be had.
    pub query: Option<Query>,
    tables: Vec<Named>,
}

impl Widened {
    /// None where the names of the query's tables are unknown: it is grouped, or has no tables.
    pub fn of(binder: &mut Binder<'_>, query: &Query) -> SqlResult<Option<Widened>> {
        let Some(select) = first_select(&query.body) else { return Ok(None) };
        let grouped =
            |item: &SelectItem| matches!(item, SelectItem::Expr { expr, .. } if has_aggregate(expr));
        if !select.group_by.is_empty() || select.items.iter().any(grouped) || select.from.is_empty() {
            return Ok(None);
        }
        let mut tables = Vec::new();
        for part in &select.from {
            gather(binder, query, part, &mut tables)?;
        }
        let is_plain = matches!(query.body, QueryBody::Select(_)) && !select.options.distinct;
        let query = is_plain.then(|| {
            let mut query = query.clone();
            if let QueryBody::Select(select) = &mut query.body {
                select.items.extend(tables.iter().flat_map(Named::items));
            }
            query
        });
        Ok((!tables.is_empty()).then_some(Widened { query, tables }))
    }

    /// Makes the tables known to what is bound next.
    pub fn enter(&self, binder: &mut Binder<'_>) -> SqlResult<()> {
        for (place, Named { alias, table, columns }) in self.tables.iter().enumerate() {
            let slot = OWN_SLOTS + place as u16;
            let mut entry = match table {
                Some(table) => binder.scope_table(slot, table.clone(), Some(alias))?,
                None => ScopeTable::derived(slot, alias, columns.clone()),
            };
            entry.columns = columns.clone();
            binder.scope_mut().tables.push(entry);
        }
        Ok(())
    }

    /// How many columns each table has.
    pub fn widths(&self) -> Vec<usize> {
        self.tables.iter().map(|named| named.columns.len()).collect()
    }
}

/// Whether assignments read a table of the query.
pub(super) fn reads_sources(expr: &keel_expr::Expr) -> bool {
    let mut reads = false;
    walk::for_each_column(expr, &mut |slot, _| reads |= slot >= OWN_SLOTS);
    reads
}

impl Named {
    /// Its columns as select items.
    fn items(&self) -> impl Iterator<Item = SelectItem> + '_ {
        self.columns.iter().map(|column| SelectItem::Expr {
            expr: Expr::Column(ColumnName {
                db: None,
                table: Some(self.alias.clone()),
                column: column.name.to_string(),
            }),
            // ORDER BY means the others.
            alias: Some(format!("\0{}", column.name)),
            text: SourceText::default(),
        })
    }
}

fn first_select(body: &QueryBody) -> Option<&Select> {
    match body {
        QueryBody::Select(select) => Some(select),
        QueryBody::SetOps { first, .. } => first_select(first),
        QueryBody::Nested(query) if query.with.is_none() => first_select(&query.body),
        QueryBody::Nested(_) | QueryBody::Values(..) => None,
    }
}

/// The tables of a part of FROM.
fn gather(binder: &mut Binder<'_>, query: &Query, part: &TableRef, out: &mut Vec<Named>) -> SqlResult<()> {
    match part {
        TableRef::Join { left, right, .. } => {
            gather(binder, query, left, out)?;
            gather(binder, query, right, out)
        }
        TableRef::Table { name, alias, .. } if is_table(binder, query, name) => {
            let table = binder.table(name.db.as_deref(), &name.name, alias.as_deref())?;
            if !table.is_virtual() {
                let alias = alias.clone().unwrap_or_else(|| name.name.clone());
                let entry = binder.scope_table(OWN_SLOTS, table.clone(), Some(&alias))?;
                // The query gives local time.
                let mut columns = entry.columns.to_vec();
                for column in columns.iter_mut().filter(|column| column.ty.kind == TypeKind::Timestamp) {
                    column.ty = SqlType::temporal(TypeKind::DateTime, column.ty.decimals);
                }
                out.push(Named { alias, table: Some(table), columns: columns.into() });
            }
            Ok(())
        }
        TableRef::Table { name, alias, .. } => {
            let alias = alias.clone().unwrap_or_else(|| name.name.clone());
            gather_rows(binder, query, part, alias, out)
        }
        TableRef::Derived { alias: Some(alias), .. } => gather_rows(binder, query, part, alias.clone(), out),
        TableRef::Derived { .. } | TableRef::JsonTable(_) => Ok(()),
    }
}

/// Whether a name of FROM means neither a view nor a table of WITH.
fn is_table(binder: &Binder<'_>, query: &Query, name: &ObjectName) -> bool {
    let with = query.with.iter().flat_map(|with| &with.tables);
    let is_common = name.db.is_none() && with.into_iter().any(|table| names::same(&table.name, &name.name));
    !is_common && binder.find_view(name.db.as_deref(), &name.name).is_none()
}

/// A table of FROM whose columns its query tells.
fn gather_rows(
    binder: &Binder<'_>,
    query: &Query,
    part: &TableRef,
    alias: String,
    out: &mut Vec<Named>,
) -> SqlResult<()> {
    let items = vec![SelectItem::Wildcard { db: None, table: None }];
    let select = Select { items, from: vec![part.clone()], ..Select::default() };
    let probe = Query {
        with: query.with.clone(),
        body: QueryBody::Select(Box::new(select)),
        order_by: Vec::new(),
        limit: None,
        into: None,
        late_into: LateInto::default(),
        lock: None,
    };
    let plan = keel_planner::select::plan_select(&mut Binder::new(binder.cx), &probe)?;
    let typed = plan.types().iter().zip(&plan.derivations);
    let columns = plan.columns().columns.iter().zip(typed).map(|(meta, ((ty, nullable), derivation))| {
        let (name, ty) = (meta.name.clone(), select::local_type(ty));
        ScopeColumn { name, ty, nullable: *nullable, invisible: false, derivation: *derivation }
    });
    out.push(Named { alias, table: None, columns: columns.collect() });
    Ok(())
}
