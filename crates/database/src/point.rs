//! The direct path of a SELECT that names one row by its clustered key and wants plain columns of it.
//!
//! There is no operator tree: the key is encoded once from the parameters, the engine finds the row, and the wanted
//! columns go from the page to the client's buffer. Whatever is not that simple is left to [`keel_exec::select`].

use std::sync::Arc;

use keel_base::SqlResult;
use keel_catalog::TableDef;
use keel_context::engine_error;
use keel_context::result::{ResultColumns, RowSink, RowView};
use keel_exec::access::{self, AccessPath, Point, encode_point};
use keel_exec::select::SelectPlan;
use keel_exec::session::Session;
use keel_expr::{Expr, Frame};
use keel_planner::access::AccessRequest;
use keel_planner::bind::{BindContext, Binder, Clause};
use keel_sql::ast;
use keel_storage::Read;
use keel_value::{TypeKind, Value};

/// A planned SELECT of one row.
pub(crate) struct PointSelect {
    pub table: Arc<TableDef>,
    key: Vec<Expr>,
    /// Wanted columns in order.
    projection: Vec<usize>,
    /// FOR UPDATE or LOCK IN SHARE MODE.
    lock: Option<ast::LockClause>,
    /// The plan for values that the key's order cannot tell; it also describes the columns.
    pub general: Box<SelectPlan>,
}

impl PointSelect {
    /// The result's columns.
    pub fn columns(&self) -> &Arc<ResultColumns> {
        self.general.columns()
    }

    /// Recognises such a SELECT; else gives the general plan back.
    pub fn recognise(
        cx: BindContext<'_>,
        query: &ast::Query,
        general: SelectPlan,
        find: keel_dml::Find<'_>,
    ) -> SqlResult<Result<PointSelect, SelectPlan>> {
        let Some((select, name, alias)) = candidate(query) else { return Ok(Err(general)) };
        let Ok(table) = find(name) else { return Ok(Err(general)) };
        if table.is_virtual() || general.tables().len() != 1 {
            return Ok(Err(general));
        }
        let mut binder = Binder::new(cx);
        let entry = binder.scope_table(0, table.clone(), alias)?;
        binder.scope_mut().add_table(entry)?;
        let Some(projection) = plain_columns(&mut binder, &table, &select.items)? else {
            return Ok(Err(general));
        };
        let Some(filter) = &select.filter else { return Ok(Err(general)) };
        let predicates = binder.bind_condition(filter, Clause::Where)?;
        let conjuncts: Vec<&Expr> = predicates.iter().collect();
        let choice = keel_planner::access::choose(&AccessRequest {
            table: &table,
            slot: 0,
            predicates: &conjuncts,
            known: &|_| false,
            once: false,
            needed: &vec![true; table.columns.len()],
            order: &[],
            limit: None,
            locking: false,
            hints: &[],
            session: cx.session,
            sample: cx.params.values,
        })?;
        let whole = (0..predicates.len()).all(|p| choice.exact.contains(&p));
        match choice.path {
            AccessPath::Point { index, key }
                if whole && table.clustered == Some(index) && binder.once_count() == 0 =>
            {
                let lock = query.lock.clone();
                Ok(Ok(PointSelect { table, key, projection, lock, general: Box::new(general) }))
            }
            _ => Ok(Err(general)),
        }
    }

    /// How it locks its row; none where it does not.
    pub fn lock(&self) -> Option<&ast::LockClause> {
        self.lock.as_ref()
    }

    /// Runs it; none if the key cannot be encoded from these parameters.
    pub fn run(
        &self,
        session: &mut Session,
        params: &[Value],
        sink: &mut dyn RowSink,
    ) -> SqlResult<Option<u64>> {
        let read = access::read_mode(session, self.lock.as_ref());
        let index = self.table.clustered_index().expect("a point has a clustered key");
        let mut key = std::mem::take(&mut session.scratch.key);
        let point = encode_point(index, &self.key, session, Frame { params, ..Frame::EMPTY }, &mut key);
        let result = match point {
            Ok(Point::Unknown | Point::Near) => Ok(None),
            Ok(Point::Nothing) => sink.columns(self.columns()).map(|()| Some(0)),
            Ok(Point::At) => self.fetch(session, &key, read, sink).map(Some),
            Err(error) => Err(error),
        };
        session.scratch.key = key;
        result
    }

    fn fetch(&self, session: &mut Session, key: &[u8], read: Read, sink: &mut dyn RowSink) -> SqlResult<u64> {
        sink.columns(self.columns())?;
        session.handler.read_key += 1;
        let txn = session.txn.as_mut().expect("a plan runs within a transaction of the engine");
        if read != Read::Snapshot {
            txn.check_current(self.table.rows()).map_err(engine_error)?;
        }
        let (layout, projection) = (&*self.table.layout, self.projection.as_slice());
        let sent = txn.get(self.table.rows(), key, read, |bytes| {
            sink.row(RowView::Stored { layout, bytes, projection })
        });
        match sent.map_err(engine_error)? {
            Some(sent) => {
                session.handler.rows_read += 1;
                sent.map(|()| 1)
            }
            None => Ok(0),
        }
    }
}

/// One table, a WHERE, and nothing that changes the set of rows otherwise.
fn candidate(query: &ast::Query) -> Option<(&ast::Select, &ast::ObjectName, Option<&str>)> {
    let plain =
        query.with.is_none() && query.order_by.is_empty() && query.limit.is_none() && query.into.is_none();
    let ast::QueryBody::Select(select) = &query.body else { return None };
    let options = &select.options;
    let simple = plain
        && !options.distinct
        && !options.calc_found_rows
        && select.group_by.is_empty()
        && select.having.is_none()
        && select.filter.is_some();
    match select.from.as_slice() {
        [ast::TableRef::Table { name, alias, hints, .. }] if simple && hints.is_empty() => {
            Some((select, name, alias.as_deref()))
        }
        _ => None,
    }
}

/// The columns that the select list names, if it names nothing else. Timestamps pass through the session's zone and so are
/// not plain.
fn plain_columns(
    binder: &mut Binder<'_>,
    table: &TableDef,
    items: &[ast::SelectItem],
) -> SqlResult<Option<Vec<usize>>> {
    let mut columns = Vec::with_capacity(items.len());
    for item in items {
        match item {
            ast::SelectItem::Wildcard { .. } => {
                columns.extend((0..table.columns.len()).filter(|c| !table.columns[*c].invisible));
            }
            ast::SelectItem::Expr { expr: expr @ ast::Expr::Column(_), .. } => {
                match binder.bind(expr, Clause::Fields)?.as_column() {
                    Some(column) => columns.push(column.column as usize),
                    None => return Ok(None),
                }
            }
            ast::SelectItem::Expr { .. } => return Ok(None),
        }
    }
    let plain = columns.iter().all(|c| table.columns[*c].ty.kind != TypeKind::Timestamp && table.is_kept(*c));
    Ok(plain.then_some(columns))
}
