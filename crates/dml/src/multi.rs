//! UPDATE and DELETE over joins: a query finds the rows, then each target's rows change once.
//!
//! The statement becomes a locking query over the same tables whose items are the clustered key of each target and the
//! assigned values. Its rows are sorted first by target and key, each key once, so that no change is seen by the query that
//! finds the next.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_catalog::counter::Step;
use keel_catalog::{IndexKind, TableDef, names};
use keel_context::engine_error;
use keel_context::result::{Completion, RowView};
use keel_context::sort::Sorter;
use keel_exec::join::TableSource;
use keel_exec::scratch::RowBuffers;
use keel_exec::select::{self, RowOutput, RowPacker, SelectPlan, result_layout};
use keel_exec::session::Session;
use keel_planner::bind::{BindContext, Binder, Notes, ROW_NUMBER, display};
use keel_sql::ast::{self, ColumnName, Expr, SelectItem, TableRef};
use keel_value::row::{Layout, RowRef};
use keel_value::{SqlType, TypeKind, Value};

use super::assign::{now_value, write_row};
use super::check::{Checks, is_ignorable};
use super::convert::{Strictness, into_column};
use super::delete::refuse_reading;
use super::filter::refuse_ordinals;
use super::foreign::{Doing, Family, is_of_foreign_key};
use super::generated::{Generated, refuse_value};
use super::order;
use super::rows::{self, Touched, Written};
use super::through::{Named, NamedView, named_tables};
use super::update::is_ignored;

/// A planned UPDATE or DELETE over several tables.
pub struct MultiPlan {
    /// The query that finds the rows.
    pub query: Box<SelectPlan>,
    targets: Vec<Target>,
    deletes: bool,
    ignore: bool,
}

struct Target {
    table: Arc<TableDef>,
    /// Its name in the statement.
    alias: Box<str>,
    /// First item of its clustered key; its hidden row number where it has none.
    key_start: usize,
    /// Columns assigned, and the items of their values; none for DEFAULT.
    assigned: Vec<(usize, Option<usize>)>,
    touched: Touched,
    family: Option<Arc<Family>>,
    /// None of a table that only loses rows.
    checks: Option<Checks>,
    generated: Option<Generated>,
    /// The generated columns that may change with those that are assigned.
    following: Vec<usize>,
}

impl Target {
    /// Whether a table of the query is this one. Within a view it goes by a name of its own there.
    fn is_read_as(&self, source: &TableSource) -> bool {
        let is_named = self.alias.starts_with('\0') || names::same(&self.alias, &source.alias);
        is_named && Arc::ptr_eq(&self.table, &source.table)
    }
}

/// A table whose rows change.
pub struct Changed<'p> {
    /// The table.
    pub table: &'p Arc<TableDef>,
    /// It changes through a view.
    pub of_view: bool,
    /// The columns that are assigned to.
    pub columns: Vec<u16>,
}

impl MultiPlan {
    /// What the rows are tied to by foreign keys.
    pub fn families(&self) -> impl Iterator<Item = &Arc<Family>> {
        self.targets.iter().filter_map(|target| target.family.as_ref())
    }

    /// The query that finds its rows.
    pub fn query(&self) -> &SelectPlan {
        &self.query
    }

    /// The tables whose rows change.
    pub fn targets(&self) -> impl Iterator<Item = &Arc<TableDef>> {
        self.targets.iter().map(|t| &t.table)
    }

    /// What changes of each of them.
    pub fn changed(&self) -> impl Iterator<Item = Changed<'_>> {
        self.targets.iter().map(|t| Changed {
            table: &t.table,
            of_view: t.alias.starts_with('\0'),
            columns: t.assigned.iter().map(|(column, _)| *column as u16).collect(),
        })
    }

    /// The same with the names that they have in the statement.
    pub fn named_targets(&self) -> impl Iterator<Item = (&Arc<TableDef>, &str)> {
        self.targets.iter().map(|t| (&t.table, &*t.alias))
    }
}

/// Binds an UPDATE over several tables.
pub fn plan_update(
    cx: BindContext<'_>,
    update: &ast::Update,
    find: super::Find<'_>,
    notes: &mut Notes,
) -> SqlResult<MultiPlan> {
    let (tables, views) = named_tables(cx, update.with.as_ref(), &update.tables, find)?;
    let mut changed_through: Vec<(&str, usize)> = Vec::new();
    let mut items = Vec::new();
    let mut targets: Vec<(usize, Target)> = Vec::new();
    for assignment in &update.assignments {
        let owned = owner(&tables, &views, &assignment.column);
        let (place, column, view) =
            owned.map_err(|error| match of_function(&update.tables, &assignment.column) {
                Some(alias) => errors::non_updatable_table(alias, "UPDATE"),
                None => error,
            })?;
        if let Some(view) = view {
            if view.checks {
                return Err(errors::not_supported_yet("UPDATE of a join view WITH CHECK OPTION"));
            }
            if changed_through.iter().any(|(alias, other)| *alias == view.alias && *other != place) {
                return Err(errors::view_multiupdate(&view.schema, &view.name));
            }
            changed_through.push((&view.alias, place));
        }
        let item = match &assignment.value {
            Expr::Default(None) => None,
            Expr::Ignore => continue,
            value => Some(push(&mut items, value.clone())),
        };
        let table = &tables[place].table;
        let target = match targets
            .iter()
            .position(|(_, t)| Arc::ptr_eq(&t.table, table) && *t.alias == *tables[place].alias)
        {
            Some(known) => known,
            None => {
                targets.push((place, new_target(&tables[place], &mut items, "UPDATE")?));
                targets.len() - 1
            }
        };
        targets[target].1.assigned.push((column, item));
    }
    // Rows change in the order of tables, not of assignments.
    targets.sort_by_key(|(place, _)| *place);
    let mut targets: Vec<Target> = targets.into_iter().map(|(_, target)| target).collect();
    refuse_moved_keys(&targets)?;
    for target in &mut targets {
        let assigned = &target.assigned;
        let table = target.table.clone();
        let is_assigned = |c: usize| table.columns[c].on_update_now || assigned.iter().any(|(a, _)| *a == c);
        let generated = Generated::bind(cx.catalog, cx.session, &table)?;
        target.following = generated.follow(is_assigned);
        let following = &target.following;
        let changes = |c: usize| is_assigned(c) || following.contains(&c);
        target.touched = Touched::of(&table, changes);
        let doing = Doing { inserts: false, deletes: false, changes: &changes };
        target.family = Family::of(cx.catalog, cx.session, &table, doing)?;
        target.checks = Some(Checks::bind(cx.catalog, cx.session, &table)?);
        target.generated = Some(generated);
    }
    let query = ast::Query {
        order_by: update.order_by.clone(),
        limit: update.limit.clone(),
        ..locking_query(update.with.as_ref(), &update.tables, update.filter.as_ref(), items)
    };
    let mut binder = Binder::new(cx);
    refuse_ordinals(&mut binder, &update.order_by)?;
    binder.changing = locking_select(&query);
    let mut query = Box::new(keel_planner::select::plan_select(&mut binder, &query)?);
    query.keep_assigned_digits();
    query.share_unless(&|source| targets.iter().any(|target| target.is_read_as(source)));
    notes.take(&binder);
    // Those that are only read may be changed by the next UPDATE alike: MariaDB locks them so before it knows.
    notes.lock(&binder, |named| !named.in_derived && !named.in_subquery);
    notes.locks_view |= binder.views.iter().any(|named| named.is_own);
    Ok(MultiPlan { query, targets, deletes: false, ignore: update.ignore })
}

/// Refuses (1706) to change a table's primary key where it is changed under two names.
fn refuse_moved_keys(targets: &[Target]) -> SqlResult<()> {
    for (place, first) in targets.iter().enumerate() {
        let Some(key) = first.table.indexes.iter().find(|index| index.kind == IndexKind::Primary) else {
            continue;
        };
        let moves = |target: &Target| {
            target.assigned.iter().any(|(column, _)| key.parts.iter().any(|part| part.column == *column))
        };
        let is_same = |other: &&Target| Arc::ptr_eq(&other.table, &first.table);
        for second in targets[place + 1..].iter().filter(is_same) {
            if moves(first) || moves(second) {
                return Err(errors::multi_update_key_conflict(&*first.alias, &*second.alias));
            }
        }
    }
    Ok(())
}

/// Binds a DELETE from several tables.
pub fn plan_delete(
    cx: BindContext<'_>,
    delete: &ast::Delete,
    find: super::Find<'_>,
    notes: &mut Notes,
) -> SqlResult<MultiPlan> {
    if cx.session.database.is_none() && delete.targets.iter().any(|target| target.db.is_none()) {
        return Err(errors::no_db());
    }
    let (tables, views) = named_tables(cx, delete.with.as_ref(), &delete.from, find)?;
    let mut items = Vec::new();
    let mut targets = Vec::new();
    for (place, name) in delete.targets.iter().enumerate() {
        if delete.targets[..place].iter().any(|before| before.name == name.name && before.db == name.db) {
            return Err(errors::nonuniq_table(&name.name));
        }
        let fits =
            |t: &&Named| t.alias == name.name && name.db.as_deref().is_none_or(|db| *db == *t.table.schema);
        let through = views.iter().find(|view| view.alias == name.name);
        let of_view = through.map(|view| table_behind(&tables, view)).transpose()?;
        let Some(named) = of_view.or_else(|| tables.iter().find(fits)) else {
            return Err(errors::unknown_table(&name.name, "MULTI DELETE"));
        };
        let mut target = new_target(named, &mut items, "DELETE")?;
        let doing = Doing { inserts: false, deletes: true, changes: &|_| false };
        target.family = Family::of(cx.catalog, cx.session, &target.table, doing)?;
        targets.push(target);
    }
    let query = locking_query(delete.with.as_ref(), &delete.from, delete.filter.as_ref(), items);
    let mut binder = Binder::new(cx);
    binder.changing = locking_select(&query);
    let mut query = Box::new(keel_planner::select::plan_select(&mut binder, &query)?);
    query.share_unless(&|source| targets.iter().any(|target| target.is_read_as(source)));
    notes.take(&binder);
    for (target, name) in targets.iter().zip(&delete.targets) {
        refuse_reading(&binder, &target.table, Some(&name.name))?;
    }
    let targets = in_order(&query, &delete.from, targets);
    Ok(MultiPlan { query, targets, deletes: true, ignore: delete.ignore })
}

/// Puts targets into the order in which MariaDB deletes from them.
fn in_order(query: &SelectPlan, from: &[TableRef], targets: Vec<Target>) -> Vec<Target> {
    let mut seen = Vec::new();
    query.each_table(&mut |source, outer| {
        let target = targets.iter().position(|target| target.is_read_as(source));
        seen.push(order::Read::new(source, target, outer));
    });
    let aliases: Vec<&str> = targets.iter().map(|target| &*target.alias).collect();
    let tables: Vec<&TableDef> = targets.iter().map(|target| &*target.table).collect();
    let order = order::of(&seen, &order::straight(from, &aliases), &tables);
    let mut targets: Vec<Option<Target>> = targets.into_iter().map(Some).collect();
    order.into_iter().filter_map(|target| targets[target].take()).collect()
}

/// The only table of a view that a DELETE names.
fn table_behind<'t>(tables: &'t [Named], view: &NamedView) -> SqlResult<&'t Named> {
    if !view.merged {
        return Err(errors::non_updatable_table(&view.alias, "DELETE"));
    }
    let mut places = view.columns.iter().filter_map(|(_, meant)| meant.map(|(place, _)| place));
    let first = places.next().ok_or_else(|| errors::non_updatable_table(&view.alias, "DELETE"))?;
    if view.tables > 1 || places.any(|place| place != first) {
        return Err(errors::view_delete_merge_view(&view.schema, &view.name));
    }
    Ok(&tables[first])
}

fn push(items: &mut Vec<Expr>, item: Expr) -> usize {
    items.push(item);
    items.len() - 1
}

/// A target whose clustered key, or hidden row number, stands among the items.
fn new_target(named: &Named, items: &mut Vec<Expr>, verb: &str) -> SqlResult<Target> {
    let table = &named.table;
    super::through::refuse_server_rows(table, verb)?;
    if table.is_virtual() {
        return Err(errors::non_updatable_table(&named.alias, verb));
    }
    let key_start = items.len();
    // Tables of two databases may have one name; those within a view have names of their own.
    let db = (!named.alias.starts_with('\0')).then(|| table.schema.to_string());
    let item = |column: &str| {
        let table = Some(named.alias.clone());
        Expr::Column(ColumnName { db: db.clone(), table, column: column.to_owned() })
    };
    match table.clustered_index() {
        Some(index) => items.extend(index.parts.iter().map(|part| item(&table.columns[part.column].name))),
        None => items.push(item(ROW_NUMBER)),
    }
    Ok(Target {
        table: table.clone(),
        alias: named.alias.as_str().into(),
        key_start,
        assigned: Vec::new(),
        touched: Touched::default(),
        family: None,
        checks: None,
        generated: None,
        following: Vec::new(),
    })
}

/// The SELECT of such a query, by its address.
pub fn locking_select(query: &ast::Query) -> Option<usize> {
    match &query.body {
        ast::QueryBody::Select(select) => Some(std::ptr::from_ref(&**select) as usize),
        _ => None,
    }
}

fn locking_query(
    with: Option<&ast::With>,
    from: &[TableRef],
    filter: Option<&ast::Expr>,
    items: Vec<Expr>,
) -> ast::Query {
    let items = items
        .into_iter()
        .map(|expr| SelectItem::Expr { expr, alias: None, text: ast::SourceText::default() })
        .collect();
    ast::Query {
        with: with.cloned(),
        body: ast::QueryBody::Select(Box::new(ast::Select {
            options: ast::SelectOptions::default(),
            items,
            from: from.to_vec(),
            filter: filter.cloned(),
            group_by: Vec::new(),
            rollup: false,
            having: None,
            windows: Vec::new(),
        })),
        order_by: Vec::new(),
        limit: None,
        into: None,
        late_into: ast::LateInto::default(),
        lock: Some(ast::LockClause { update: true, wait: None }),
    }
}

/// The alias of the JSON_TABLE whose column a name means.
fn of_function<'t>(from: &'t [TableRef], name: &ColumnName) -> Option<&'t str> {
    let mut stack: Vec<&TableRef> = from.iter().collect();
    while let Some(part) = stack.pop() {
        match part {
            TableRef::Join { left, right, .. } => stack.extend([&**left, &**right]),
            TableRef::JsonTable(table)
                if name.table.as_ref().is_none_or(|t| *t == table.alias)
                    && table.has_column(&name.column) =>
            {
                return Some(&table.alias);
            }
            _ => {}
        }
    }
    None
}

/// The table and column that an assignment names; with the view through which it does.
fn owner<'v>(
    tables: &[Named],
    views: &'v [NamedView],
    name: &ColumnName,
) -> SqlResult<(usize, usize, Option<&'v NamedView>)> {
    let mut found = None;
    let answers = |alias: &str, schema: &str| {
        name.table.as_ref().is_none_or(|t| *t == *alias) && name.db.as_deref().is_none_or(|db| *db == *schema)
    };
    for (place, named) in tables.iter().enumerate().filter(|(_, named)| !named.alias.starts_with('\0')) {
        if !answers(&named.alias, &named.table.schema) {
            continue;
        }
        if let Some(column) = named.table.columns.iter().position(|c| names::same(&c.name, &name.column)) {
            if found.is_some() {
                return Err(errors::non_uniq(&name.column, "SET"));
            }
            found = Some((place, column, None));
        }
    }
    for view in views.iter().filter(|view| answers(&view.alias, &view.schema)) {
        let Some((_, meant)) = view.columns.iter().find(|(own, _)| names::same(own, &name.column)) else {
            continue;
        };
        if found.is_some() {
            return Err(errors::non_uniq(&name.column, "SET"));
        }
        if !view.merged {
            return Err(errors::non_updatable_table(&view.alias, "UPDATE"));
        }
        let (place, column) = meant.ok_or_else(|| errors::nonupdateable_column(&name.column))?;
        found = Some((place, column, Some(view)));
    }
    found.ok_or_else(|| errors::bad_field(display(name), "SET"))
}

/// Runs it.
pub fn run(plan: &MultiPlan, session: &mut Session, params: &[Value]) -> SqlResult<Completion> {
    plan.query.check_safe(session, params)?;
    let strictness = Strictness::of(session, plan.ignore, false);
    session.abort_on_warning = strictness.strict && !plan.deletes;
    session.ignores = plan.ignore;
    let layout = result_layout(plan.query.types().iter().map(|(ty, _)| ty));
    let rows = Sorter::new(None, session.vars.sort_room(), session.work());
    let mut kept = KeptRow { plan, packer: RowPacker::new(&layout), rows, key: Vec::new() };
    select::run_each(&plan.query, session, params, None, &mut kept)?;
    let mut rows = kept.rows.finish()?;
    // Those of values on their way into columns count, not those of expressions.
    let warned = session.diagnostics.warning_count;
    let mut last = Vec::new();
    let mut changer =
        Changer { plan, strictness, buffers: RowBuffers::default(), old: Vec::new(), new: Vec::new() };
    let (mut matched, mut changed) = (0, 0);
    while let Some((key, row)) = rows.next_entry()? {
        if key == last {
            continue;
        }
        last.clear();
        last.extend_from_slice(key);
        session.check_interrupt()?;
        matched += 1;
        session.current_row = matched;
        let found = found(plan, &layout, key, row);
        changed += u64::from(changer.change(session, found)?);
    }
    if plan.deletes {
        return Ok(Completion { affected_rows: changed, ..Completion::default() });
    }
    let affected_rows = if session.vars.found_rows_flag { matched } else { changed };
    let warnings = session.diagnostics.warning_count - warned;
    let info = format!("Rows matched: {matched}  Changed: {changed}  Warnings: {warnings}");
    let last_insert_id = session.statement_insert_id;
    Ok(Completion { affected_rows, last_insert_id, info: Some(info), ..Completion::default() })
}

/// A row to change: its target, its clustered key, and the values assigned.
struct ChangedRow<'k> {
    target: usize,
    key: &'k [u8],
    values: Vec<(usize, Option<(Value, SqlType)>)>,
}

/// A row as it was kept: the key names target and clustered key, the rest are the items of the query.
fn found<'k>(plan: &MultiPlan, layout: &Layout, key: &'k [u8], row: &[u8]) -> ChangedRow<'k> {
    let (number, key) = key.split_at(TARGET_BYTES);
    let target = u16::from_be_bytes([number[0], number[1]]) as usize;
    let row = RowRef::new(layout, row);
    let types = plan.query.types();
    let value = |item: usize| (row.get(item).to_owned(), types[item].0.clone());
    let assigned = &plan.targets[target].assigned;
    ChangedRow { target, key, values: assigned.iter().map(|(c, item)| (*c, item.map(value))).collect() }
}

/// Bytes of a target's number before its key.
const TARGET_BYTES: usize = 2;

struct KeptRow<'p> {
    plan: &'p MultiPlan,
    packer: RowPacker<'p>,
    rows: Sorter,
    key: Vec<u8>,
}

impl RowOutput for KeptRow<'_> {
    fn row(&mut self, session: &mut Session, row: RowView<'_>) -> SqlResult<bool> {
        let mut items = Vec::with_capacity(row.len());
        row.for_each(|_, value| items.push(value.to_owned()));
        for (number, target) in self.plan.targets.iter().enumerate() {
            self.key.clear();
            self.key.extend_from_slice(&(number as u16).to_be_bytes());
            if !clustered_key(session, target, &items, &mut self.key)? {
                continue;
            }
            let (key, packer) = (&self.key, &mut self.packer);
            let fill_key = |out: &mut Vec<u8>| {
                out.extend_from_slice(key);
                Ok(())
            };
            let fill_row = |out: &mut Vec<u8>| {
                packer.pack(RowView::Values(&items), out);
                Ok(())
            };
            self.rows.push(fill_key, fill_row)?;
        }
        Ok(true)
    }
}

/// Appends a target's clustered key or row number in a row of the query; false where an outer join gave it no row.
fn clustered_key(
    session: &mut Session,
    target: &Target,
    items: &[Value],
    key: &mut Vec<u8>,
) -> SqlResult<bool> {
    let table = &target.table;
    let Some(index) = table.clustered_index() else {
        let Value::UInt(number) = items[target.key_start] else { return Ok(false) };
        key.extend_from_slice(&number.to_be_bytes());
        return Ok(true);
    };
    let lenient = Strictness { strict: false, null_is_error: false };
    for (place, part) in index.parts.iter().enumerate() {
        let value = items[target.key_start + place].clone();
        if value.is_null() {
            return Ok(false);
        }
        let ty = &table.columns[part.column].ty;
        // A timestamp was read in the session's zone; its key is in UTC.
        let value = if ty.kind == TypeKind::Timestamp {
            into_column(
                session,
                table,
                part.column,
                &SqlType::temporal(TypeKind::DateTime, 6),
                value,
                lenient,
            )?
        } else {
            value
        };
        index.encoders[place].encode(value.as_ref(), key);
    }
    Ok(true)
}

struct Changer<'p> {
    plan: &'p MultiPlan,
    strictness: Strictness,
    buffers: RowBuffers,
    old: Vec<u8>,
    new: Vec<u8>,
}

impl Changer<'_> {
    /// Changes a row; false if it is gone or stays as it is.
    fn change(&mut self, session: &mut Session, found: ChangedRow<'_>) -> SqlResult<bool> {
        let target = &self.plan.targets[found.target];
        let table = &target.table;
        let txn = session.txn.as_mut().expect("a plan runs within a transaction of the engine");
        if !rows::lock_row(table, txn, found.key, &mut self.old)? {
            return Ok(false);
        }
        if self.plan.deletes {
            return self.delete(session, target, found.key);
        }
        let mut new: Vec<(usize, Value)> = Vec::with_capacity(found.values.len());
        for (column, value) in found.values {
            let is_generated = table.columns[column].generated.is_some();
            let value = match value {
                Some((value, ty)) if is_generated => {
                    refuse_value(session, table, column, (&ty, value), self.strictness)?;
                    continue;
                }
                None if is_generated => continue,
                Some((value, ty)) => into_column(session, table, column, &ty, value, self.strictness)?,
                None => super::assign::updated_default(session, table, column, self.strictness)?,
            };
            new.retain(|(c, _)| *c != column);
            new.push((column, value));
        }
        let old = RowRef::new(&table.layout, &self.old);
        let assigned: Vec<usize> = new.iter().map(|(c, _)| *c).collect();
        new.retain(|(column, value)| old.get(*column) != value.as_ref());
        if new.is_empty() {
            return Ok(false);
        }
        for (column, def) in table.columns.iter().enumerate() {
            if def.on_update_now && !assigned.contains(&column) {
                new.push((column, now_value(session, &def.ty)));
            }
        }
        if let Some(generated) = &target.generated {
            generated.change(session, table, &old, &mut new, &target.following, self.strictness)?;
        }
        write_row(table, &old, &new, &mut self.new);
        if let Some(checks) = &target.checks {
            match checks.test_bytes(session, table, &mut self.new) {
                Err(error) if self.plan.ignore && is_ignorable(&error) => {
                    session.warn(error);
                    return Ok(false);
                }
                tested => tested?,
            }
        }
        self.write(session, target, found.key)
    }

    fn delete(&mut self, session: &mut Session, target: &Target, key: &[u8]) -> SqlResult<bool> {
        let ties = Family::ties(&target.family, session);
        let txn = session.txn.as_mut().expect("a plan runs within a transaction of the engine");
        let savepoint = (self.plan.ignore && ties.is_some()).then(|| txn.savepoint());
        let deleted = rows::delete(&target.table, txn, key, &self.old, &mut self.buffers, ties.as_ref());
        match (deleted, savepoint) {
            (Ok(()), _) => Ok(true),
            (Err(error), Some(savepoint)) if is_of_foreign_key(&error) => {
                txn.rollback_to(savepoint).map_err(engine_error)?;
                session.warn(error);
                Ok(false)
            }
            (Err(error), _) => Err(error),
        }
    }

    fn write(&mut self, session: &mut Session, target: &Target, key: &[u8]) -> SqlResult<bool> {
        let table = &target.table;
        let ties = Family::ties(&target.family, session);
        let txn = session.txn.as_mut().expect("a plan runs within a transaction of the engine");
        let savepoint = self.plan.ignore.then(|| txn.savepoint());
        let (new, buffers) = (&self.new, &mut self.buffers);
        let written = rows::update(table, &target.touched, txn, key, &self.old, new, buffers, ties.as_ref());
        let error = match written {
            Ok(Written::Done) => {
                if let Some(auto) = table.auto_increment
                    && target.assigned.iter().any(|(column, _)| *column == auto.column)
                {
                    rows::raise_auto_increment(
                        table,
                        RowRef::new(&table.layout, &self.new).get(auto.column),
                        Step::ONE,
                    )?;
                }
                return Ok(true);
            }
            Ok(Written::Duplicate(position)) => {
                rows::duplicate_error(table, position, &self.new, &*session.env.vars.time_zone)
            }
            Err(error) => error,
        };
        let Some(savepoint) = savepoint.filter(|_| is_ignored(&error)) else { return Err(error) };
        txn.rollback_to(savepoint).map_err(engine_error)?;
        Ok(false)
    }
}
