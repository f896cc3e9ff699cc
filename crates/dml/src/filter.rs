//! The rows that UPDATE and DELETE work on: found along an access path, locked, checked, in order, up to a limit.

use std::cell::OnceCell;
use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_catalog::TableDef;
use keel_context::counts::Counts;
use keel_context::sort::Sorter;
use keel_exec::access::{self, AccessPath, TableReader};
use keel_exec::select::{SortPart, encode_sort_part};
use keel_exec::session::Session;
use keel_expr::frame::{Kept, once_cells};
use keel_expr::{EvalContext, Expr, Frame, Node, RowSlot};
use keel_planner::access::AccessRequest;
use keel_planner::bind::{Binder, Clause};
use keel_planner::select::ordinal;
use keel_sql::ast;
use keel_storage::Read;
use keel_storage::runtime::time;
use keel_value::types::Class;
use keel_value::{Value, key};

use super::rows;

/// What is done with each row: it stands in slot 0 of the frame; then comes its clustered key.
type OnRow<'f> = &'f mut dyn FnMut(&mut Session, Frame<'_>, &[u8]) -> SqlResult<bool>;

/// Which rows a statement works on.
pub struct Targets {
    pub table: Arc<TableDef>,
    path: Arc<AccessPath>,
    predicates: Vec<Expr>,
    /// Predicates left where the reader's ranges are exact.
    inexact: Vec<usize>,
    order: Vec<(Expr, SortPart)>,
    limit: Option<Expr>,
    pub once: u32,
    /// Rows that others have locked are passed over under READ COMMITTED if they did not match when last committed.
    pub semi_consistent: bool,
    /// Rows may be passed over, which then do not count for LIMIT.
    pub passes_over: bool,
    /// What was read, for ANALYZE.
    pub counts: Option<Arc<Counts>>,
}

/// Whether a constant condition never holds.
fn is_untrue(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Int(0))
}

impl Targets {
    /// Binds WHERE, ORDER BY and LIMIT over the binder's only table and chooses how its rows are found. `of_view` are
    /// conditions of a view through which they are changed.
    pub fn bind(
        binder: &mut Binder<'_>,
        table: &Arc<TableDef>,
        filter: Option<&ast::Expr>,
        order_by: &[ast::OrderItem],
        limit: Option<&ast::Limit>,
        hints: &[ast::IndexHint],
        of_view: Vec<Expr>,
    ) -> SqlResult<Targets> {
        let mut predicates = match filter {
            Some(filter) => binder.bind_condition(filter, Clause::Where)?,
            None => Vec::new(),
        };
        predicates.extend(of_view);
        let mut order = Vec::with_capacity(order_by.len());
        refuse_ordinals(binder, order_by)?;
        for item in order_by {
            order.push((binder.bind(&item.expr, Clause::Order)?, item.desc));
        }
        let limit = match limit {
            None => None,
            Some(limit) if limit.offset.is_some() => {
                return Err(errors::not_supported_yet("LIMIT with OFFSET here"));
            }
            Some(limit) => {
                limit.count.as_ref().map(|count| binder.bind(count, Clause::Fields)).transpose()?
            }
        };
        let wished: Option<Vec<(u16, bool)>> =
            order.iter().map(|(e, desc)| e.as_column().map(|c| (c.column, *desc))).collect();
        let wished = wished.unwrap_or_default();
        let needed = vec![true; table.columns.len()];
        let conjuncts: Vec<&Expr> = predicates.iter().collect();
        let choice = keel_planner::access::choose(&AccessRequest {
            table,
            slot: 0,
            predicates: &conjuncts,
            known: &|_| false,
            once: true,
            needed: &needed,
            order: &wished,
            limit: limit.as_ref().map(|_| 1),
            locking: true,
            hints,
            session: binder.cx.session,
            sample: binder.cx.params.values,
        })?;
        let mut unusable = Vec::new();
        keel_planner::access::unusable_keys_of_change(table, hints, &predicates, &mut unusable);
        binder.unusable.extend(unusable.into_iter().map(Arc::new));
        if choice.ordered {
            order.clear();
        }
        let with_part = |(expr, descending): (Expr, bool)| {
            let part = key::KeyPart { descending, ..key::KeyPart::new(expr.ty.clone(), true) };
            (expr, SortPart::new(part))
        };
        let order = order.into_iter().map(with_part).collect();
        let inexact = (0..predicates.len()).filter(|p| !choice.exact.contains(p)).collect();
        let path = Arc::new(choice.path.clone());
        let once = binder.once_count();
        let table = table.clone();
        let counts = binder.counts();
        Ok(Targets {
            table,
            path,
            predicates,
            inexact,
            order,
            limit,
            once,
            semi_consistent: false,
            passes_over: false,
            counts,
        })
    }

    /// `sql_safe_updates` refuses a statement that reads all rows, but for a `limit`.
    pub fn check_safe(&self, session: &Session) -> SqlResult<()> {
        let reads_all = matches!(&*self.path, AccessPath::Scan { .. });
        if session.vars.safe_updates && reads_all && self.limit.is_none() {
            return Err(errors::update_without_key_in_safe_mode());
        }
        Ok(())
    }

    /// Whether there is a WHERE.
    pub fn has_filter(&self) -> bool {
        !self.predicates.is_empty()
    }

    /// The clustered key that all parts of the path equal, if that is all there is to say: no order, no limit.
    pub fn point(&self) -> Option<&[Expr]> {
        match &*self.path {
            AccessPath::Point { index, key }
                if self.table.clustered == Some(*index)
                    && self.limit.is_none()
                    && self.order.is_empty()
                    && self.counts.is_none() =>
            {
                Some(key)
            }
            _ => None,
        }
    }

    /// Whether no row can be meant, whatever the table holds: LIMIT 0, or a condition that says so by itself.
    pub fn is_never(&self, session: &mut Session, params: &[Value]) -> SqlResult<bool> {
        if self.limit(session, params)? == 0 {
            return Ok(true);
        }
        Ok(self.predicates.iter().any(|predicate| match &predicate.node {
            Node::IsNull { negated: false, value } => value.as_column().is_some() && !value.nullable,
            Node::Constant(value) => is_untrue(value),
            Node::Param(index) => is_untrue(&params[*index as usize]),
            _ => false,
        }))
    }

    /// Whether a row must be checked before its page is latched.
    pub fn comes_first(&self) -> bool {
        self.predicates.iter().any(super::assign::comes_first)
    }

    /// Whether changing a column could move a row along the path that finds it.
    pub fn moves(&self, changes: impl Fn(usize) -> bool) -> bool {
        let of_index = |i: usize| self.table.indexes[i].parts.iter().any(|p| changes(p.column));
        access::path_indexes(&self.path).chain(self.table.clustered).any(of_index)
    }

    /// Whether a row fulfils the predicates that its path does not.
    pub fn accepts(&self, session: &mut Session, frame: Frame<'_>, exact: bool) -> SqlResult<bool> {
        let mut holds = |number: usize| self.predicates[number].holds(&mut EvalContext::new(session, frame));
        if exact {
            for number in &self.inexact {
                if !holds(*number)? {
                    return Ok(false);
                }
            }
        } else {
            for number in 0..self.predicates.len() {
                if !holds(number)? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Calls `f` with each row, which stands in slot 0 of `slots` and is locked, and with its clustered key; `f` says whether
    /// the row counts for LIMIT. Rows are found first and changed afterwards where `collect` says that changing one could bring
    /// it before the reader again.
    pub fn for_each(
        &self,
        session: &mut Session,
        params: &[Value],
        collect: bool,
        f: OnRow<'_>,
    ) -> SqlResult<()> {
        let once = once_cells(self.once);
        let limit = self.limit(session, params)?;
        if limit == 0 {
            return Ok(());
        }
        if let Some(counts) = &self.counts {
            counts.begin();
            let began = time::now();
            let done = self.each::<true>(session, params, &once, (collect, limit), f);
            counts.spend(began);
            return done;
        }
        self.each::<false>(session, params, &once, (collect, limit), f)
    }

    fn each<const COUNTS: bool>(
        &self,
        session: &mut Session,
        params: &[Value],
        once: &[OnceCell<Kept>],
        (collect, limit): (bool, u64),
        f: OnRow<'_>,
    ) -> SqlResult<()> {
        if collect || !self.order.is_empty() {
            // As in MariaDB a row that is passed over counts only where all are found before.
            let most = if self.passes_over && !collect { u64::MAX } else { limit };
            return self.collected::<COUNTS>(session, params, once, (most, limit), f);
        }
        let mut slots = [RowSlot::Null];
        let mut reader = self.open(session, params, once, &slots)?;
        let mut count = 0;
        while reader.next(session, &mut slots[0])? {
            self.count::<COUNTS>(Counts::read);
            let frame = Frame { slots: &slots, params, once, outer: None };
            if !self.accepts(session, frame, reader.is_exact())? {
                reader.unlock(session);
                continue;
            }
            if reader.is_unlocked() {
                reader.insist();
                continue;
            }
            self.count::<COUNTS>(Counts::pass);
            count += u64::from(f(session, frame, reader.primary_key())?);
            if count == limit {
                break;
            }
        }
        Ok(())
    }

    /// Counts in a plan for ANALYZE.
    #[inline]
    fn count<const COUNTS: bool>(&self, what: fn(&Counts)) {
        if COUNTS && let Some(counts) = &self.counts {
            what(counts);
        }
    }

    fn open(
        &self,
        session: &mut Session,
        params: &[Value],
        once: &[OnceCell<Kept>],
        slots: &[RowSlot],
    ) -> SqlResult<TableReader> {
        let mut reader = TableReader::new(&self.table, &self.path, false, Read::FOR_UPDATE).for_change();
        if self.semi_consistent {
            reader = reader.semi_consistent();
        }
        reader.open(session, Frame { slots, params, once, outer: None })?;
        Ok(reader)
    }

    fn limit(&self, session: &mut Session, params: &[Value]) -> SqlResult<u64> {
        let Some(limit) = &self.limit else { return Ok(u64::MAX) };
        let frame = Frame { params, ..Frame::EMPTY };
        limit.row_number(&mut EvalContext::new(session, frame))
    }

    /// Finds rows first, in order and at most `most`, then calls `f` with each that is still there until `limit` count.
    fn collected<const COUNTS: bool>(
        &self,
        session: &mut Session,
        params: &[Value],
        once: &[OnceCell<Kept>],
        (most, limit): (u64, u64),
        f: OnRow<'_>,
    ) -> SqlResult<()> {
        let mut slots = [RowSlot::Null];
        let mut reader = self.open(session, params, once, &slots)?;
        // Without an order all sort keys are equal: rows stay in the order in which they were found.
        let mut found = Sorter::new(Some(most), session.vars.sort_room(), session.work());
        let mut count = 0;
        while reader.next(session, &mut slots[0])? {
            self.count::<COUNTS>(Counts::read);
            let frame = Frame { slots: &slots, params, once, outer: None };
            if !self.accepts(session, frame, reader.is_exact())? {
                reader.unlock(session);
                continue;
            }
            if reader.is_unlocked() {
                reader.insist();
                continue;
            }
            self.count::<COUNTS>(Counts::pass);
            let primary = |out: &mut Vec<u8>| {
                out.extend_from_slice(reader.primary_key());
                Ok(())
            };
            found.push(|out| self.sort_key(session, frame, out), primary)?;
            count += 1;
            if self.order.is_empty() && count == most {
                break;
            }
        }
        drop(reader);
        let mut found = found.finish()?;
        let mut row = Vec::new();
        let (mut number, mut counted) = (0, 0);
        while counted < limit
            && let Some((_, primary)) = found.next_entry()?
        {
            number += 1;
            session.current_row = number;
            let txn = session.txn.as_mut().expect("a plan runs within a transaction of the engine");
            if rows::lock_row(&self.table, txn, primary, &mut row)? {
                let layout = self.table.layout.clone();
                slots[0] = RowSlot::Stored { layout, map: None, bytes: std::mem::take(&mut row) };
                counted +=
                    u64::from(f(session, Frame { slots: &slots, params, once, outer: None }, primary)?);
            }
        }
        Ok(())
    }

    fn sort_key(&self, session: &mut Session, frame: Frame<'_>, out: &mut Vec<u8>) -> SqlResult<()> {
        let most = session.vars.max_sort_length;
        for (expr, part) in &self.order {
            let value = expr.eval(&mut EvalContext::new(session, frame))?;
            if expr.ty.class() == Class::Null {
                continue;
            }
            encode_sort_part(part, value.as_ref(), most, std::iter::once(part), out);
        }
        Ok(())
    }
}

/// The bytes of the row in slot 0.
pub(super) fn row_bytes<'f>(frame: &Frame<'f>) -> &'f [u8] {
    match &frame.slots[0] {
        RowSlot::Stored { bytes, .. } => bytes,
        _ => &[],
    }
}

/// A table's name, alias and hints.
pub(crate) type Single<'a> = (&'a ast::ObjectName, Option<&'a str>, &'a [ast::IndexHint]);

/// The one table of a single-table UPDATE or DELETE, with its alias and hints.
pub fn single_table(tables: &[ast::TableRef]) -> Option<Single<'_>> {
    match tables {
        [ast::TableRef::Table { name, alias, hints, .. }] => Some((name, alias.as_deref(), hints)),
        _ => None,
    }
}

/// 1054 for a number in ORDER BY: there is no select list whose item it could be.
pub(super) fn refuse_ordinals(binder: &mut Binder<'_>, order_by: &[ast::OrderItem]) -> SqlResult<()> {
    for item in order_by {
        if let Some(number) = ordinal(binder, &item.expr) {
            return Err(errors::bad_field(number.to_string(), Clause::Order.words()));
        }
    }
    Ok(())
}
