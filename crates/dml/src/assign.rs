//! Assignments of UPDATE and ON DUPLICATE KEY UPDATE: what a row becomes.

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, code, errors};
use keel_catalog::column_type::implicit_default;
use keel_catalog::{ColumnDef, ColumnDefault, TableDef};
use keel_exec::session::Session;
use keel_expr::{EvalContext, Expr, Frame, Node, typing, walk};
use keel_planner::bind::{BindContext, Binder, Clause, ParamSource, ScopeTable, display};
use keel_sql::ast;
use keel_value::row::{self, RowRef};
use keel_value::temporal::DateRules;
use keel_value::text::{append_date, append_datetime};
use keel_value::{SqlMode, SqlType, TypeKind, Value, ValueRef, convert};

use super::convert::{Strictness, into_column};
use super::generated::{Generated, refuse_value};
use super::through;

/// Where a column's value comes from.
#[derive(Clone)]
pub(super) enum Source {
    /// An expression.
    Expr(Expr),
    /// DEFAULT.
    Default,
    /// A value as the column keeps it.
    Stored(Value),
}

/// `column = value` for some columns of a table.
pub(super) struct Assignments {
    pub list: Vec<(usize, Source)>,
    /// Whether an expression reads a column that an earlier one assigned.
    sequential: bool,
    /// ON UPDATE CURRENT_TIMESTAMP columns that nothing assigns.
    on_update: Vec<usize>,
    /// Generated columns that are assigned DEFAULT.
    told: Vec<u16>,
    /// Values for generated columns, which are not taken.
    pub refused: Vec<(usize, Expr)>,
    generated: Generated,
    /// The generated columns that may change with the others.
    following: Vec<usize>,
    /// What columns stand for that rows do not hold and that values read: worked out before the first assignment.
    worked_out: Vec<(usize, Expr)>,
    /// The AUTO_INCREMENT column of a table that a statement inserts into: NULL assigned to it is 0.
    counted: Option<usize>,
    /// They belong to a statement that inserts.
    inserts: bool,
}

impl Assignments {
    /// Binds the list; columns are those of `table`, at `slot` of the frame. `clauses` name columns and values in messages.
    pub fn bind(
        binder: &mut Binder<'_>,
        table: &Arc<TableDef>,
        slot: u16,
        list: &[ast::Assignment],
        clauses: (Clause, Clause),
    ) -> SqlResult<Assignments> {
        let mut bound: Vec<(usize, Source)> = Vec::with_capacity(list.len());
        let (mut refused, mut told) = (Vec::new(), Vec::new());
        for assignment in list {
            binder.names_only = true;
            let column =
                binder.among_targets(|binder| target_column(binder, slot, &assignment.column, clauses.0));
            binder.names_only = false;
            let column = column?;
            let is_generated = table.columns[column].generated.is_some();
            let source = match &assignment.value {
                // In statements that insert it is DEFAULT.
                ast::Expr::Ignore if clauses.0 == Clause::Set => continue,
                ast::Expr::Default(None) | ast::Expr::Ignore if is_generated => {
                    told.push(column as u16);
                    continue;
                }
                ast::Expr::Default(None) | ast::Expr::Ignore => default_source(binder, table, column)?,
                tree => {
                    // Not hoisted but for subqueries: its warnings come once per row, as MariaDB's do.
                    let mut value = binder.bind(tree, clauses.1)?;
                    walk::hoist_subqueries(&mut value, &mut binder.scope_mut().once);
                    typing::keep_digits(&mut value);
                    Source::Expr(value)
                }
            };
            match source {
                Source::Expr(value) if is_generated => refused.push((column, value)),
                source => bound.push((column, source)),
            }
        }
        let simultaneous = binder.cx.session.vars.sql_mode.has(SqlMode::SIMULTANEOUS_ASSIGNMENT);
        let sequential = !simultaneous && reads_assigned(&bound, slot);
        let on_update = (0..table.columns.len())
            .filter(|c| table.columns[*c].on_update_now && !bound.iter().any(|(b, _)| b == c))
            .collect();
        let mut made = Assignments {
            list: bound,
            sequential,
            on_update,
            refused,
            told,
            generated: Generated::bind(binder.cx.catalog, binder.cx.session, table)?,
            following: Vec::new(),
            worked_out: Vec::new(),
            counted: table.auto_increment.filter(|_| clauses.0 != Clause::Set).map(|auto| auto.column),
            inserts: clauses.0 != Clause::Set,
        };
        made.following =
            made.generated.follow(|column| made.assigns(column) || made.on_update.contains(&column));
        Ok(made)
    }

    /// Whether a value meets a test.
    pub fn reads(&self, test: &impl Fn(&Expr) -> bool) -> bool {
        let given = self.list.iter().map(|(_, source)| source);
        let mut given =
            given.filter_map(|source| if let Source::Expr(value) = source { Some(value) } else { None });
        given.any(test) || self.refused.iter().any(|(_, value)| test(value))
    }

    /// Where values see what earlier assignments gave: has them read the columns that rows do not hold as the row was at
    /// first.
    pub fn read_worked_out(&mut self, slot: u16) {
        if !self.sequential {
            return;
        }
        let mut worked_out: Vec<(usize, Expr)> = Vec::new();
        for (_, source) in &mut self.list {
            let Source::Expr(value) = source else { continue };
            walk::visit_mut(value, &mut |e| {
                let Node::Generated(_, place) = &e.node else { return };
                if place.slot != slot {
                    return;
                }
                let place = place.clone();
                let column = place.column as usize;
                let read = Expr { node: Node::Column(place), ..e.clone() };
                let meaning = std::mem::replace(e, read);
                if !worked_out.iter().any(|(known, _)| *known == column) {
                    worked_out.push((column, meaning));
                }
            });
        }
        self.worked_out = worked_out;
    }

    /// Lets no value see what an earlier assignment gave. Not behind [`Assignments::read_worked_out`].
    pub fn read_old_values(&mut self) {
        self.sequential = false;
    }

    /// Whether a column may change.
    pub fn changes(&self, column: usize) -> bool {
        self.assigns(column) || self.on_update.contains(&column) || self.following.contains(&column)
    }

    /// The columns that the list names.
    pub fn assigned(&self) -> impl Iterator<Item = u16> {
        let refused = self.refused.iter().map(|(column, _)| *column as u16);
        self.list.iter().map(|(column, _)| *column as u16).chain(refused).chain(self.told.iter().copied())
    }

    /// Whether the list names a column.
    pub fn assigns(&self, column: usize) -> bool {
        self.list.iter().any(|(c, _)| *c == column)
    }

    /// Whether the values must be worked out before the page is latched: see [`comes_first`].
    pub fn comes_first(&self) -> bool {
        let assigned = self.list.iter().any(|(_, source)| match source {
            Source::Expr(expr) => comes_first(expr),
            Source::Default | Source::Stored(_) => false,
        });
        assigned || self.generated.comes_first() || self.refused.iter().any(|(_, expr)| comes_first(expr))
    }

    /// Works out the new values over a frame; `old` is the row at `slot` of it. Gives those that differ, by column.
    pub fn changed(
        &self,
        session: &mut Session,
        table: &TableDef,
        frame: Frame<'_>,
        old: &RowRef<'_>,
        strictness: Strictness,
        new: &mut Vec<(usize, Value)>,
    ) -> SqlResult<()> {
        new.clear();
        for (column, expr) in &self.refused {
            let value = expr.eval(&mut EvalContext::new(session, frame))?.into_value();
            refuse_value(session, table, *column, (&expr.ty, value), strictness)?;
        }
        if self.sequential {
            self.in_order(session, table, frame, old, strictness, new)?;
        } else {
            for (column, source) in &self.list {
                let value = self.value(session, table, (*column, source), frame, strictness)?;
                put(new, *column, value);
            }
        }
        new.retain(|(column, value)| !is_same(old.get(*column), value.as_ref()));
        if !new.is_empty() {
            for column in &self.on_update {
                new.push((*column, now_value(session, &table.columns[*column].ty)));
            }
            self.generated.change(session, table, old, new, &self.following, strictness)?;
        }
        Ok(())
    }

    fn value(
        &self,
        session: &mut Session,
        table: &TableDef,
        (column, source): (usize, &Source),
        frame: Frame<'_>,
        strictness: Strictness,
    ) -> SqlResult<Value> {
        if matches!(source, Source::Default) {
            return match self.inserts {
                true => {
                    check_default(session, table, column, strictness)?;
                    default_value(session, table, column, strictness)
                }
                false => updated_default(session, table, column, strictness),
            };
        }
        value_of(session, table, column, source, frame, strictness, self.counted)
    }

    /// One after the other, each seeing what came before.
    fn in_order(
        &self,
        session: &mut Session,
        table: &TableDef,
        frame: Frame<'_>,
        old: &RowRef<'_>,
        strictness: Strictness,
        new: &mut Vec<(usize, Value)>,
    ) -> SqlResult<()> {
        use keel_expr::RowSlot;
        let mut slots: Vec<RowSlot> = frame.slots.to_vec();
        slots[0] = RowSlot::Values((0..table.columns.len()).map(|c| old.get(c).to_owned()).collect());
        let keep = |slots: &mut [RowSlot], column: usize, value| {
            if let RowSlot::Values(values) = &mut slots[0] {
                values[column] = value;
            }
        };
        // Each stands behind those that it reads.
        for (column, meaning) in &self.worked_out {
            let value =
                meaning.eval(&mut EvalContext::new(session, Frame { slots: &slots, ..frame }))?.into_value();
            let lenient = Strictness { strict: false, null_is_error: false };
            let value = into_column(session, table, *column, &meaning.ty, value, lenient)?;
            keep(&mut slots, *column, value);
        }
        for (column, source) in &self.list {
            let frame = Frame { slots: &slots, ..frame };
            let value = self.value(session, table, (*column, source), frame, strictness)?;
            put(new, *column, value.clone());
            keep(&mut slots, *column, value);
        }
        Ok(())
    }
}

/// What DEFAULT means for a column: an expression where it was defined as one.
pub(super) fn default_source(
    binder: &mut Binder<'_>,
    table: &Arc<TableDef>,
    column: usize,
) -> SqlResult<Source> {
    let ColumnDefault::Expression(text) = &table.columns[column].default else { return Ok(Source::Default) };
    let parsed = keel_sql::parse(format!("DO {text}").as_bytes(), &keel_sql::ParseOptions::default())?;
    let ast::Statement::Do(list) = parsed.statement else { return Ok(Source::Default) };
    // Its literals are its own, not parameters of the statement.
    let mut inner = Binder::new(BindContext { params: ParamSource::default(), ..binder.cx });
    inner.scope_mut().add_table(ScopeTable::of(0, table.clone(), None))?;
    // What it keeps for the execution lies beside what the statement keeps.
    inner.scope_mut().once = binder.once_count();
    let Some(tree) = list.first() else { return Ok(Source::Default) };
    inner.of_default = true;
    let value = inner.bind(tree, Clause::Fields)?;
    binder.scope_mut().once = inner.once_count();
    binder.take_sequences(&inner);
    Ok(Source::Expr(value))
}

/// A later assignment to the same column wins.
fn put(new: &mut Vec<(usize, Value)>, column: usize, value: Value) {
    match new.iter_mut().find(|(c, _)| *c == column) {
        Some(place) => place.1 = value,
        None => new.push((column, value)),
    }
}

/// The column of the changed table that a name means: 1054 otherwise.
fn target_column(
    binder: &mut Binder<'_>,
    slot: u16,
    name: &ast::ColumnName,
    clause: Clause,
) -> SqlResult<usize> {
    let bound = match binder.bind(&ast::Expr::Column(name.clone()), clause) {
        // Of several tables it is the one that changes.
        Err(error) if error.code == code::NON_UNIQ && name.table.is_none() => {
            let own = binder.scope().tables.iter().find(|table| table.slot == slot);
            let table = own.map(|table| table.alias.to_string());
            binder.bind(&ast::Expr::Column(ast::ColumnName { table, ..name.clone() }), clause)?
        }
        bound => bound?,
    };
    match bound.as_any_column() {
        Some(column) if column.slot == slot => Ok(column.column as usize),
        _ if through::reads_other_table(&bound) => {
            let view = binder.scope().view_column(name).map(|(place, _)| &binder.scope().tables[place]);
            let (schema, view) = view.map_or(("", ""), |view| (&*view.schema, &*view.name));
            Err(errors::view_multiupdate(schema, view))
        }
        None if binder.scope().view_column(name).is_some() => Err(errors::nonupdateable_column(&name.column)),
        _ => Err(errors::bad_field(display(name), clause.words())),
    }
}

fn reads_assigned(list: &[(usize, Source)], slot: u16) -> bool {
    let mut assigned: Vec<usize> = Vec::new();
    for (column, source) in list {
        if let Source::Expr(expr) = source {
            let mut reads = false;
            walk::for_each_column(expr, &mut |s, c| reads |= s == slot && assigned.contains(&(c as usize)));
            if reads {
                return true;
            }
        }
        assigned.push(*column);
    }
    false
}

/// Whether an expression must be evaluated before its page is latched: it may park or take long, or what it gives depends on how often
/// that is done, and a write that finds no room in the page begins again.
pub(super) fn comes_first(expr: &Expr) -> bool {
    let facts = walk::facts(expr);
    let mut stays = true;
    walk::visit(expr, &mut |e| match &e.node {
        Node::SysVar(..) => stays = false,
        Node::Call(function, args) if takes_long(function.name, args.len()) => stays = false,
        _ => {}
    });
    facts.subquery || facts.volatile || facts.assigns || !stays
}

/// Whether a call may take long enough for others to be let run meanwhile.
fn takes_long(function: &str, arguments: usize) -> bool {
    keel_expr::func::MAY_TAKE_LONG.contains(&function)
        || keel_expr::func::json::MAY_TAKE_LONG.contains(&function)
        || (function == "json_extract" && arguments > 2)
}

/// A column's value, converted to its type; NULL is 0 for the column `counted`.
pub(super) fn value_of(
    session: &mut Session,
    table: &TableDef,
    column: usize,
    source: &Source,
    frame: Frame<'_>,
    strictness: Strictness,
    counted: Option<usize>,
) -> SqlResult<Value> {
    match source {
        Source::Default => default_value(session, table, column, strictness),
        Source::Stored(value) => Ok(value.clone()),
        Source::Expr(expr) => {
            let value = expr.eval(&mut EvalContext::new(session, frame))?.into_value();
            if counted == Some(column) && value.is_null() {
                return Ok(implicit_default(&table.columns[column].ty));
            }
            into_column(session, table, column, &expr.ty, value, strictness)
        }
    }
}

/// Whether there is nothing that a column gets by itself: an ENUM gets its first member.
pub(super) fn lacks_default(def: &ColumnDef) -> bool {
    def.default == ColumnDefault::None && !def.auto_increment && def.ty.kind != TypeKind::Enum
}

/// What DEFAULT stands for.
pub(super) fn default_value(
    session: &mut Session,
    table: &TableDef,
    column: usize,
    strictness: Strictness,
) -> SqlResult<Value> {
    let def = &table.columns[column];
    match &def.default {
        ColumnDefault::Value(value) => Ok(value.clone()),
        ColumnDefault::Now => Ok(now_value(session, &def.ty)),
        ColumnDefault::None if !lacks_default(def) => Ok(implicit_default(&def.ty)),
        ColumnDefault::None => {
            let error = errors::no_default_for_field(&def.name);
            if strictness.strict {
                return Err(error);
            }
            session.warn(error);
            Ok(implicit_default(&def.ty))
        }
        ColumnDefault::Expression(_) => Err(errors::not_supported_yet("DEFAULT of an expression")),
    }
}

/// DEFAULT in an UPDATE: the default is stored as any other value.
pub(super) fn updated_default(
    session: &mut Session,
    table: &TableDef,
    column: usize,
    strictness: Strictness,
) -> SqlResult<Value> {
    let value = default_value(session, table, column, strictness)?;
    match &value {
        Value::Date(_) | Value::DateTime(_) if refused_default(session, &table.columns[column]).is_some() => {
            let ty = table.columns[column].ty.clone();
            into_column(session, table, column, &ty, value, strictness)
        }
        _ => Ok(value),
    }
}

/// 1978 where an INSERT gives a column a default that `sql_mode` refuses by now.
pub(super) fn check_default(
    session: &mut Session,
    table: &TableDef,
    column: usize,
    strictness: Strictness,
) -> SqlResult<()> {
    let Some(error) = refused_default(session, &table.columns[column]) else { return Ok(()) };
    if strictness.strict {
        return Err(error);
    }
    session.warn(error);
    Ok(())
}

/// Why `sql_mode` refuses a column's default: it has a zero date, or one of a month or day 0.
fn refused_default(session: &Session, def: &ColumnDef) -> Option<SqlError> {
    let moment = match &def.default {
        ColumnDefault::Value(Value::DateTime(moment)) => *moment,
        ColumnDefault::Value(Value::Date(date)) => keel_value::DateTime { date: *date, ..Default::default() },
        _ => return None,
    };
    let rules = DateRules { allow_invalid: true, ..DateRules::of(session.vars.sql_mode) };
    if rules.allows(moment) {
        return None;
    }
    let mut text = Vec::new();
    match def.ty.kind {
        TypeKind::Date => append_date(&mut text, moment.date),
        _ => append_datetime(&mut text, moment, def.ty.decimals),
    }
    Some(errors::invalid_default_value_for_field(String::from_utf8_lossy(&text), &def.name))
}

/// CURRENT_TIMESTAMP as a column of that type keeps it.
pub(super) fn now_value(session: &mut Session, ty: &SqlType) -> Value {
    let now = if ty.kind == TypeKind::Timestamp { session.now_utc() } else { session.now_local() };
    let from = SqlType::temporal(TypeKind::DateTime, 6);
    let utc = keel_value::temporal::Utc;
    let mut context = session.store_context(false, now.date);
    context.zone = &utc;
    // Fractions are cut, not rounded: NOW(3) never lies ahead of the clock.
    let unit = 10u32.pow(6 - u32::from(ty.decimals.min(6)));
    let cut = keel_value::DateTime { micros: now.micros / unit * unit, ..now };
    match convert::store(ty, &from, ValueRef::DateTime(cut), &context) {
        Ok((cell, _)) => cell.into_value(),
        Err(_) => Value::Null,
    }
}

/// Whether a column keeps its bytes.
fn is_same(old: ValueRef<'_>, new: ValueRef<'_>) -> bool {
    old == new
}

/// The bytes of a row with some columns replaced.
pub(super) fn write_row(table: &TableDef, old: &RowRef<'_>, new: &[(usize, Value)], out: &mut Vec<u8>) {
    out.clear();
    row::encode_with(
        &table.layout,
        |place| match new.iter().find(|(c, _)| *c == place) {
            Some((_, value)) => value_ref(value),
            None => old.get(place),
        },
        out,
    );
}

fn value_ref(value: &Value) -> ValueRef<'_> {
    value.as_ref()
}
