//! CREATE TABLE.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use keel_base::{SqlError, SqlResult, TreeId, code, errors};
use keel_catalog::column_type::{choose_collation, implicit_default};
use keel_catalog::{
    ColumnDef, ColumnDefault, MAKING, Schema, Shared, TableDef, TableOptions, TableRecord, names, series,
};
use keel_context::mdl::{Owned, TableLock};
use keel_context::result::Completion;
use keel_exec::select::Origin;
use keel_exec::sequence;
use keel_exec::session::Session;
use keel_expr::env::schema_of;
use keel_expr::typing;
use keel_planner::bind::{BindContext, Binder, ParamSource, Shape};
use keel_planner::check;
use keel_sql::ast::{self, ByteStr, ColumnKey, KeyDef, KeyKind, KeyOptions, ObjectName, TableOption};
use keel_value::collation::Charset;
use keel_value::decimal::MAX_PRECISION;
use keel_value::types::Format;
use keel_value::{CollationId, SqlMode, SqlType, TypeKind, Value};

use super::columns::{self, ColumnContext};
use super::{
    Definition, PendingTrees, are_same, checks, engine_options, foreign, generated, kept, keys, row_size,
};
use crate::ddl::Definer;

/// Engines of MariaDB whose tables Keel keeps in its own, whatever `sql_mode` says: a dump that names them is restored.
const REPLACED: [&str; 6] = ["MyISAM", "Aria", "MEMORY", "HEAP", "CSV", "ARCHIVE"];

/// Engines of MariaDB that mean something which a table of Keel's is not.
const OTHERS: [&str; 4] = ["BLACKHOLE", "MRG_MyISAM", "MERGE", "SEQUENCE"];

/// A table that is to be made.
struct NewTable {
    record: TableRecord,
    shared: Arc<Shared>,
    /// The row of a sequence.
    first: Option<sequence::Values>,
    next_auto: u64,
}

/// What `old` is now, which another table is to replace. 1050 if another one has come in its place.
fn replaceable(session: &Session, definition: &Definition<'_>, old: &TableDef) -> SqlResult<Arc<TableDef>> {
    let now = definition.catalog.table(&old.schema, &old.name).cloned();
    let now = now.filter(|now| Arc::ptr_eq(&now.shared.lock, &old.shared.lock));
    let now = now.ok_or_else(|| errors::table_exists(&old.name))?;
    match session.vars.foreign_key_checks && definition.referrer(&now, &[]).is_some() {
        true => Err(foreign::is_referenced()),
        false => Ok(now),
    }
}

/// What binding takes the parameters of a prepared CREATE TABLE ... SELECT for.
fn param_types(session: &Session, params: &[Value]) -> Vec<SqlType> {
    params.iter().map(|value| Shape::of(value).ty(session.vars.connection_collation)).collect()
}

/// Whether a wait ended badly: by a deadlock, a time-out, or since the statement was to end.
fn is_of_wait(error: &SqlError) -> bool {
    use code::{CONNECTION_KILLED, LOCK_DEADLOCK, LOCK_WAIT_TIMEOUT, QUERY_INTERRUPTED, STATEMENT_TIMEOUT};
    let waits = [LOCK_DEADLOCK, LOCK_WAIT_TIMEOUT, QUERY_INTERRUPTED, STATEMENT_TIMEOUT, CONNECTION_KILLED];
    waits.contains(&error.code)
}

impl Definer<'_> {
    pub(super) fn create_table(
        &self,
        session: &mut Session,
        create: &ast::CreateTable,
        params: &[Value],
    ) -> SqlResult<Completion> {
        self.check_sequence(session, create)?;
        if create.temporary {
            return self.create_temporary(session, create, params);
        }
        loop {
            match self.create_lasting(session, create, params) {
                // Somebody made it since it was looked for, so that it is there now.
                Err(error)
                    if error.code == code::TABLE_EXISTS && (create.if_not_exists || create.or_replace) => {}
                done => return done,
            }
        }
    }

    /// 4085 where the options of a new sequence do not fit together.
    pub fn check_sequence(&self, session: &Session, create: &ast::CreateTable) -> SqlResult<()> {
        let Some(options) = &create.sequence else { return Ok(()) };
        let schema = schema_of(session, &create.name)?;
        sequence::made(session, (schema, &create.name.name), options).map(|_| ())
    }

    /// One attempt. 1050 although the statement minds no table of that name says that another session was faster.
    fn create_lasting(
        &self,
        session: &mut Session,
        create: &ast::CreateTable,
        params: &[Value],
    ) -> SqlResult<Completion> {
        let schema = schema_of(session, &create.name)?.to_string();
        self.refuse_virtual(session, &schema)?;
        names::check_table(&create.name.name)?;
        if let Some(like) = &create.like
            && like.name == create.name.name
            && schema_of(session, like)? == schema
        {
            return Err(errors::nonuniq_table(&like.name));
        }
        let catalog = self.catalog();
        let home = catalog.require_schema(&schema)?;
        if home.view(&create.name.name).is_some() {
            let error = match create.or_replace {
                true => errors::it_is_a_view(format_args!("{schema}.{}", create.name.name)),
                false => errors::table_exists(&create.name.name),
            };
            if !create.if_not_exists || create.or_replace {
                return Err(error);
            }
            session.note(error);
            return Ok(Completion::default());
        }
        if let Some(existing) = home.table(&create.name.name) {
            if create.or_replace {
                self.check_replacement(session, create, existing, params)?;
                return self.replace(session, home, create, existing, params);
            } else if create.if_not_exists {
                session.note(errors::table_exists(&create.name.name));
                return Ok(Completion::default());
            } else {
                return Err(errors::table_exists(&create.name.name));
            }
        }
        if home.table(&create.name.name).is_none() && series::parse(&create.name.name).is_some() {
            if !create.if_not_exists {
                return Err(errors::table_exists(&create.name.name));
            }
            session.note(errors::table_exists(&create.name.name));
            return Ok(Completion::default());
        }
        let new = self.new_table(session, home, create, params)?;
        let parents = self.own_parents(session, &new.record, &[])?;
        let Some(select) = &create.select else {
            self.put_new(session, self.definition(session)?, new, false)?;
            return Ok(Completion::default());
        };
        // Nobody else uses the table before it has its rows.
        let mut owned = Owned::default();
        owned.take(&new.shared.lock, session, Duration::ZERO)?;
        let table = self.put_new(session, self.definition(session)?, new, true)?;
        drop(parents);
        session.filling = owned.locks().to_vec();
        let filled = self.fill(session, select, &table, params);
        session.filling.clear();
        filled
    }

    fn new_table(
        &self,
        session: &mut Session,
        home: &Schema,
        create: &ast::CreateTable,
        params: &[Value],
    ) -> SqlResult<NewTable> {
        let (record, next_auto) = match &create.like {
            Some(like) => (self.like(session, home, &create.name, like)?, 1),
            None => self.record_of(session, home, create, params)?,
        };
        let first = self.first_row(session, create, &record)?;
        Ok(NewTable { record, shared: Arc::new(Shared::default()), first, next_auto })
    }

    /// Puts a new table in the place of `old`. One goes and the other comes in the same definition, so that a crash leaves
    /// either; an error leaves none, as MariaDB does, which has dropped the old one by then.
    fn replace(
        &self,
        session: &mut Session,
        home: &Schema,
        create: &ast::CreateTable,
        old: &Arc<TableDef>,
        params: &[Value],
    ) -> SqlResult<Completion> {
        let mut new = self.new_table(session, home, create, params);
        if let Ok(new) = &mut new
            && session.named_locks.keeps(&old.shared.lock)
        {
            // LOCK TABLES locks the new one as it has locked the old one.
            let lock = old.shared.lock.clone();
            new.shared = Arc::new(Shared { lock, ..Shared::default() });
        }
        let owned = self.own_locks(session, std::slice::from_ref(&old.shared.lock), None)?;
        replaceable(session, &self.definition(session)?, old)?;
        let replaced = new.and_then(|new| match &create.select {
            Some(select) => self.replace_by_filled(session, select, new, (old, owned), params),
            None => {
                let _owned = self.own_for(session, &new.record, (old, owned))?;
                let definition = self.without(session, old)?;
                self.put_new(session, definition, new, false)?;
                Ok(Completion::default())
            }
        });
        // The old table goes where the new one cannot be made, but not for a wait that ends badly, of which most end before a row is
        // read, nor for a table of the query that LOCK TABLES has not locked.
        let stays = |error: &SqlError| {
            use code::{TABLE_EXISTS, TABLE_NOT_LOCKED, TABLE_NOT_LOCKED_FOR_WRITE};
            [TABLE_EXISTS, TABLE_NOT_LOCKED, TABLE_NOT_LOCKED_FOR_WRITE].contains(&error.code)
                || is_of_wait(error)
        };
        if replaced.as_ref().is_err_and(|error| !stays(error)) {
            let interrupt = session.interrupt.clone();
            interrupt.held_off(|| {
                let now = self.catalog().table(&old.schema, &old.name).cloned();
                now.map_or(Ok(()), |now| self.drop_one(session, &now))
            })?;
        }
        replaced
    }

    /// The locks under which a new table takes the place of `old`, whose lock is owned: with those of the tables that it
    /// refers to, which are not waited for while another is owned.
    fn own_for(
        &self,
        session: &Session,
        record: &TableRecord,
        (old, owned): (&TableDef, Owned),
    ) -> SqlResult<Owned> {
        if self.parent_locks(record).is_empty() {
            return Ok(owned);
        }
        drop(owned);
        self.own_parents(session, record, std::slice::from_ref(&old.shared.lock))
    }

    /// The locks of the tables that a new one refers to, and those of `more`.
    fn own_parents(
        &self,
        session: &Session,
        record: &TableRecord,
        more: &[Arc<TableLock>],
    ) -> SqlResult<Owned> {
        loop {
            let parents = self.parent_locks(record);
            let owned = self.own_locks(session, &[&parents[..], more].concat(), None)?;
            // Others may have such names by now.
            if are_same(&self.parent_locks(record), &parents) {
                return Ok(owned);
            }
        }
    }

    /// A definition in which `old`, or what was made of it meanwhile, is gone. Its lock is owned.
    fn without(&self, session: &Session, old: &TableDef) -> SqlResult<Definition<'_>> {
        let mut definition = self.definition(session)?;
        let now = replaceable(session, &definition, old)?;
        definition.drop_trees(&now.record().trees())?;
        definition.remove_table(&now)?;
        Ok(definition)
    }

    /// CREATE OR REPLACE TABLE ... SELECT: the rows go into trees that nobody names before they take the old table's place.
    fn replace_by_filled(
        &self,
        session: &mut Session,
        select: &ast::CreateSelect,
        new: NewTable,
        (old, owned): (&TableDef, Owned),
        params: &[Value],
    ) -> SqlResult<Completion> {
        let NewTable { mut record, shared, next_auto, .. } = new;
        record.id = self.catalog_tree().next_table_id(self.engine())?;
        record.version = self.catalog().version + 1;
        let mut pending = PendingTrees::new(self, false);
        let id = record.id;
        record.make_trees(|| pending.create(session, id))?;
        let table = Arc::new(record.clone().open(self.engine(), shared.clone())?);
        if next_auto > 1 {
            self.raise_auto_increment(&table, next_auto - 1)?;
        }
        session.filling = owned.locks().to_vec();
        let filled =
            catch_unwind(AssertUnwindSafe(|| self.fill_in_the_making(session, select, &table, params)));
        session.filling.clear();
        let filled = match filled {
            Ok(filled) => filled,
            Err(panic) => {
                // What was inserted goes with the session, and what is left of the trees at the next start.
                pending.keep();
                resume_unwind(panic)
            }
        };
        let committed = filled.and_then(|filled| self.commit(session).map(|_| filled));
        if committed.is_err() {
            let interrupt = session.interrupt.clone();
            interrupt.held_off(|| self.rollback(session))?;
        }
        let filled = committed?;
        let _owned = self.own_for(session, &record, (old, owned))?;
        // Rows of parents may have gone since: they had no child.
        self.check_added(session, &record, &record.foreign_keys)?;
        let mut definition = self.without(session, old)?;
        definition.check_new(session, &record)?;
        record.version = definition.catalog.version + 1;
        let table = definition.put_table(record, shared)?;
        definition.tell_relatives(&table)?;
        definition.commit()?;
        pending.keep();
        Ok(filled)
    }

    /// The locks of the tables that a new one refers to.
    fn parent_locks(&self, record: &TableRecord) -> Vec<Arc<TableLock>> {
        let catalog = self.catalog();
        let parents = record.foreign_keys.iter();
        let parents = parents.filter_map(|key| catalog.table(&key.ref_schema, &key.ref_table));
        parents.map(|parent| parent.shared.lock.clone()).collect()
    }

    /// Whether what takes a table's place can be made without it: what it is to be like is there, and its query can be bound.
    pub(super) fn check_replacement(
        &self,
        session: &Session,
        create: &ast::CreateTable,
        existing: &Arc<TableDef>,
        params: &[Value],
    ) -> SqlResult<()> {
        if let Some(like) = &create.like {
            self.find_table(session, like)?;
        }
        if create.sequence.is_some() {
            refuse_sequence_engine(&create.options)?;
        }
        let Some(select) = &create.select else { return Ok(()) };
        let catalog = self.catalog_of(session);
        let types = param_types(session, params);
        let params = ParamSource { literals: None, types: &types, values: params };
        let mut binder =
            Binder::new(BindContext { catalog: &catalog, session, params, assigned: &[], counting: None });
        keel_planner::select::plan_select(&mut binder, &select.query)?;
        check::needs(session, &catalog.accounts, &binder.needs)?;
        if binder.reads_table(existing) && existing.is_temporary() {
            return Err(errors::cant_reopen_table(&existing.name));
        }
        if binder.reads_table(existing) {
            return Err(errors::update_table_used(&existing.name, "CREATE"));
        }
        Ok(())
    }

    /// CREATE TABLE ... SELECT: inserts the rows; the table goes again if that fails, and at the next start if a crash comes
    /// before it is finished.
    fn fill(
        &self,
        session: &mut Session,
        select: &ast::CreateSelect,
        table: &Arc<TableDef>,
        params: &[Value],
    ) -> SqlResult<Completion> {
        let filled =
            catch_unwind(AssertUnwindSafe(|| self.fill_in_the_making(session, select, table, params)));
        let filled = match filled {
            Ok(filled) => filled,
            Err(panic) => {
                // What was inserted goes with the session, behind which the table is as good as any.
                let _ = self.finish(session, table);
                resume_unwind(panic)
            }
        };
        let finished = filled.and_then(|filled| {
            self.commit(session)?;
            self.finish(session, table)?;
            Ok(filled)
        });
        if finished.is_err() {
            let interrupt = session.interrupt.clone();
            interrupt.held_off(|| {
                self.rollback(session)?;
                self.drop_unfinished(session, table).inspect_err(|_| self.hide_unfinished(session, table))
            })?;
        }
        finished
    }

    fn finish(&self, session: &Session, table: &TableDef) -> SqlResult<()> {
        let mut definition = self.next_definition(session)?;
        definition.finish(table)?;
        definition.commit()
    }

    /// Inserts the rows into a table that statements do not find by its name, or not yet.
    pub(super) fn fill_in_the_making(
        &self,
        session: &mut Session,
        select: &ast::CreateSelect,
        table: &Arc<TableDef>,
        params: &[Value],
    ) -> SqlResult<Completion> {
        session.temporary.make(Some(table.clone()));
        let name = ObjectName { db: Some(table.schema.to_string()), name: MAKING.to_string() };
        let filled = self.insert_rows(session, select, name, params);
        session.temporary.make(None);
        filled
    }

    fn insert_rows(
        &self,
        session: &mut Session,
        select: &ast::CreateSelect,
        table: ObjectName,
        params: &[Value],
    ) -> SqlResult<Completion> {
        let columns = self.query_columns(session, select, params)?;
        let columns = columns.into_iter().map(|c| ast::ColumnName {
            db: None,
            table: None,
            column: c.name.to_string(),
        });
        let insert = ast::Insert {
            replace: select.duplicates == Some(ast::OnDuplicate::Replace),
            priority: None,
            ignore: select.duplicates == Some(ast::OnDuplicate::Ignore),
            table,
            partitions: Vec::new(),
            columns: columns.collect(),
            has_column_list: true,
            source: ast::InsertSource::Query(select.query.clone()),
            on_duplicate: Vec::new(),
            returning: Vec::new(),
        };
        let statement = Arc::new(ast::Statement::Insert(Box::new(insert)));
        self.statements.run_within(session, statement, params)
    }

    /// The columns that a query gives to the table made of it: those of tables keep their defaults.
    fn query_columns(
        &self,
        session: &mut Session,
        select: &ast::CreateSelect,
        params: &[Value],
    ) -> SqlResult<Vec<ColumnDef>> {
        let catalog = self.catalog_of(session);
        let types = param_types(session, params);
        let params = ParamSource { literals: None, types: &types, values: params };
        let mut binder = Binder::new(BindContext {
            catalog: &catalog,
            session: &*session,
            params,
            assigned: &[],
            counting: None,
        });
        let plan = keel_planner::select::plan_select(&mut binder, &select.query)?;
        let united = matches!(select.query.body, ast::QueryBody::SetOps { .. });
        let described = plan.columns().columns.iter().zip(plan.types()).enumerate();
        Ok(described
            .map(|(place, (meta, (ty, nullable)))| {
                let model = catalog.table(&meta.schema, &meta.org_table);
                let model = model.and_then(|t| Some(&t.columns[t.column_index(&meta.org_name)?]));
                let origin = if model.is_some() { Origin::Merged } else { plan.origin(place) };
                let ty = storable_result(ty, origin);
                let mut column = ColumnDef::plain(&meta.name, ty.clone(), *nullable);
                if united && !*nullable {
                    column.default = ColumnDefault::Value(implicit_default(&column.ty));
                }
                if let Some(model) = model {
                    column.comment = model.comment.clone();
                }
                if let Some(model) = model.filter(|m| m.nullable == *nullable) {
                    column.default = kept_default(&model.default, *nullable);
                    column.on_update_now = model.on_update_now && !united;
                    if model.auto_increment {
                        column.default = ColumnDefault::Value(implicit_default(&ty));
                    }
                }
                column
            })
            .collect())
    }

    /// Makes the trees of a new table and shows it; one that is `unfinished` goes at the next start.
    fn put_new(
        &self,
        session: &mut Session,
        mut definition: Definition<'_>,
        new: NewTable,
        unfinished: bool,
    ) -> SqlResult<Arc<TableDef>> {
        let NewTable { mut record, shared, first, next_auto } = new;
        definition.check_new(session, &record)?;
        record.id = self.catalog_tree().next_table_id(self.engine())?;
        record.version = definition.catalog.version + 1;
        let id = record.id;
        record.make_trees(|| definition.create_tree(id))?;
        let table = definition.put_table(record, shared)?;
        if unfinished {
            definition.begin_filling(&table)?;
        }
        if let Some(first) = first.filter(|_| !unfinished) {
            definition.write_sequence(&table, &first)?;
        }
        if next_auto > 1 {
            // Before the commit, so that it is as durable.
            self.raise_auto_increment(&table, next_auto - 1)?;
        }
        definition.tell_relatives(&table)?;
        definition.commit()?;
        Ok(table)
    }

    /// The row that a new sequence begins with; none of a table that is none.
    pub(super) fn first_row(
        &self,
        session: &Session,
        create: &ast::CreateTable,
        record: &TableRecord,
    ) -> SqlResult<Option<sequence::Values>> {
        if !record.options.is_sequence() {
            return Ok(None);
        }
        sequence::check_shape(record)?;
        let options = create.sequence.as_deref().cloned().unwrap_or_default();
        sequence::made(session, (&record.schema, &record.name), &options).map(Some)
    }

    /// The greatest AUTO_INCREMENT value so far, 0 where the table has no such column.
    pub(super) fn last_auto_increment(&self, table: &TableDef) -> SqlResult<u64> {
        table.counting().map_or(Ok(0), |counting| counting.last())
    }

    /// Makes `last` the greatest AUTO_INCREMENT value so far, if the table has such a column.
    pub(super) fn raise_auto_increment(&self, table: &TableDef, last: u64) -> SqlResult<()> {
        table.counting().map_or(Ok(()), |counting| counting.keep(last))
    }

    pub(super) fn record_of(
        &self,
        session: &mut Session,
        home: &Schema,
        create: &ast::CreateTable,
        params: &[Value],
    ) -> SqlResult<(TableRecord, u64)> {
        if create.sequence.is_some() {
            refuse_sequence_engine(&create.options)?;
        }
        let (mut options, next_auto) = options(session, home.collation, &create.name.name, &create.options)?;
        check_row_format(session, &create.options)
            .map_err(|_| foreign::wrong_options(session, &home.name, &create.name.name))?;
        if create.sequence.is_some() && !options.is_sequence() {
            options.others.push((sequence::OPTION.to_string(), "1".to_string()));
        }
        let catalog = self.catalog();
        let mut cx =
            ColumnContext { session: &mut *session, catalog: &catalog, collation: options.collation };
        for column in &create.columns {
            generated::check_names(&home.name, &create.name.name, column)?;
        }
        let mut columns = match (&create.select, create.columns.is_empty()) {
            _ if create.sequence.is_some() => sequence::columns(),
            (Some(_), true) => Vec::new(),
            _ => columns::define(&mut cx, &create.columns)?,
        };
        if let Some(select) = &create.select {
            let mut own = columns.len();
            for column in self.query_columns(session, select, params)? {
                match columns.iter().position(|c| names::same(&c.name, &column.name)) {
                    Some(place) if place >= own => return Err(errors::dup_fieldname(&column.name)),
                    // What is said of a column stands; its place is the query's.
                    Some(place) => {
                        let said = columns.remove(place);
                        columns.push(said);
                        own -= 1;
                    }
                    None => {
                        names::check_column(&column.name)?;
                        columns::check_kept_defaults(session, [&column])?;
                        columns.push(column);
                    }
                }
            }
            columns::check_all(&columns)?;
        }
        check_memory(session, &create.options, &columns)?;
        let mut indexes = Vec::new();
        let ties = keeps_foreign_keys(&create.options);
        if ties {
            foreign::refuse_own_names(session, &columns)?;
            for name in create.keys.iter().filter_map(|key| key.name.as_ref().or(key.constraint.as_ref())) {
                foreign::refuse_own_index(session, name, true)?;
            }
        }
        let of_column =
            |column| column_key(column).into_iter().chain(foreign::of_column(column).filter(|_| ties));
        let keys: Vec<KeyDef> =
            create.columns.iter().flat_map(of_column).chain(create.keys.iter().cloned()).collect();
        let is_foreign = |key: &&KeyDef| key.kind == KeyKind::Foreign;
        for key in &keys {
            let add = if is_foreign(&key) { keys::add_made } else { keys::add };
            add(session, &mut columns, &mut indexes, &mut Vec::new(), key)?;
        }
        keys.iter().try_for_each(|key| engine_options::check_key(session, key))?;
        engine_options::keep_all(session, &mut options, &create.options)?;
        engine_options::check_new(session, &home.name, &create.name.name, &options, &create.options)?;
        columns::check_defaults(session, &catalog, &columns)?;
        keys::sort(&columns, &mut indexes);
        keys::check_auto(&columns, &indexes)?;
        let mut record = TableRecord {
            schema: home.name.clone(),
            name: create.name.name.as_str().into(),
            id: 0,
            version: 0,
            created: session.now_micros().div_euclid(1_000_000),
            tree_id: TreeId(0),
            options,
            columns,
            indexes,
            foreign_keys: Vec::new(),
            checks: Vec::new(),
            slots: Vec::new(),
        };
        keys::check_ignored(&record)?;
        keys::check_primary(&record, self.forces_primary_key())?;
        keys::take_block_size(&mut record, |_| true);
        columns::check_invisible(&record.columns, &[])?;
        for key in keys.iter().filter(is_foreign) {
            let made = foreign::make(&record, &[], key)?;
            if ties {
                generated::check_key(&record.columns, &made)?;
                record.foreign_keys.push(made);
            }
        }
        foreign::sort(&mut record);
        for check in &create.checks {
            checks::add(session, &mut record, check)?;
        }
        checks::settle_names(&mut record);
        kept::check_literals(session, &record, None, &create.name.name)?;
        if ties {
            keys::check_row_format(&record, |_| true)?;
            row_size::check_columns(session, &record)?;
            row_size::check(session, &record, None)?;
        } else if record.columns.len() > columns::COLUMNS_MAX {
            return Err(errors::too_many_fields());
        }
        generated::settle(session, &catalog, &record)?;
        checks::settle(session, &catalog, &mut record, None)?;
        Ok((record, next_auto))
    }

    pub(super) fn like(
        &self,
        session: &mut Session,
        home: &Schema,
        name: &ObjectName,
        like: &ObjectName,
    ) -> SqlResult<TableRecord> {
        let model = self.find_table(session, like)?;
        let mut record = model.record();
        columns::check_kept_defaults(session, &record.columns)?;
        record.schema = home.name.clone();
        record.name = name.name.as_str().into();
        record.foreign_keys.clear();
        record.created = session.now_micros().div_euclid(1_000_000);
        Ok(record)
    }
}

/// The default that a column made by a query takes over: not one that gives something else each time.
fn kept_default(default: &ColumnDefault, nullable: bool) -> ColumnDefault {
    match default {
        ColumnDefault::Expression(text) if is_random(text) => {
            if nullable {
                ColumnDefault::Value(Value::Null)
            } else {
                ColumnDefault::None
            }
        }
        other => other.clone(),
    }
}

fn is_random(text: &str) -> bool {
    let parsed = keel_sql::parse(format!("DO {text}").as_bytes(), &keel_sql::ParseOptions::default());
    match parsed.map(|parsed| parsed.statement) {
        Ok(ast::Statement::Do(list)) => list.iter().any(calls_random),
        _ => false,
    }
}

fn calls_random(tree: &ast::Expr) -> bool {
    const RANDOM: &[&str] = &["rand", "uuid", "uuid_short", "sys_guid", "random_bytes"];
    if matches!(tree, ast::Expr::Function(call) if RANDOM.contains(&call.name.as_str())) {
        return true;
    }
    let mut found = false;
    tree.each_part(&mut |part| {
        if let ast::walk::Part::Expr(part) = part {
            found |= calls_random(part);
        }
    });
    found
}

/// Most bytes of a VARCHAR column that keeps an expression's values.
const VARCHAR_OCTETS_MAX: u64 = 65_532;

fn blob_of(octets: u64, collation: CollationId) -> SqlType {
    SqlType::new(typing::blob_kind(octets, collation == CollationId::BINARY)).with_collation(collation)
}

/// The same for a query's column that is not a column of a table: a long text becomes TEXT, and one without room CHAR(0).
pub(super) fn storable_result(ty: &SqlType, origin: Origin) -> SqlType {
    // A column of another query keeps what it was computed from.
    let is_computed = match origin {
        Origin::Computed => true,
        Origin::Column => ty.decimals == typing::STRING_DECIMALS,
        Origin::Assigned | Origin::Merged => false,
    };
    match ty.kind {
        _ if origin == Origin::Merged => storable(ty),
        TypeKind::VarChar | TypeKind::VarBinary if ty.length > typing::COMPUTED_CHARS_MAX && is_computed => {
            blob_of(ty.max_octets().max(u64::from(u16::MAX)), ty.collation)
        }
        TypeKind::VarChar | TypeKind::Char if ty.length == 0 && is_computed => SqlType::char(0, ty.collation),
        TypeKind::VarBinary if ty.length == 0 && is_computed => SqlType::new(TypeKind::Binary).with_length(0),
        TypeKind::Char if origin == Origin::Computed => SqlType::varchar(ty.length, ty.collation),
        // A user variable keeps no dates and no members. MariaDB writes dates in latin1.
        TypeKind::Null if origin == Origin::Assigned => SqlType::varbinary(0),
        _ if matches!(origin, Origin::Assigned | Origin::Computed) && ty.has_members() => {
            SqlType::varchar(ty.display_length(), ty.collation)
        }
        _ if origin == Origin::Assigned && ty.is_temporal() => {
            SqlType::varchar(ty.display_length(), Charset::Latin1.default_collation())
        }
        _ => storable(ty),
    }
}

/// The type of a column that keeps an expression's values. JSON becomes text: nothing checks it there.
pub(super) fn storable(ty: &SqlType) -> SqlType {
    // A derived table's column of TIMESTAMP values is one again.
    let kind = if ty.is_instant() { TypeKind::Timestamp } else { ty.kind };
    let ty = SqlType { kind, ..ty.clone().with_format(Format::Plain) };
    match ty.kind {
        TypeKind::Null => SqlType::new(TypeKind::Binary).with_length(0),
        TypeKind::VarChar | TypeKind::VarBinary if ty.max_octets() > VARCHAR_OCTETS_MAX => {
            blob_of(ty.max_octets(), ty.collation)
        }
        _ if ty.is_blob() => {
            let kind = SqlType::new(ty.kind);
            blob_of(u64::from(ty.length.max(kind.length)), ty.collation)
        }
        _ if ty.is_string() => ty.with_decimals(0),
        TypeKind::Decimal => ty.clone().with_length(ty.length.min(MAX_PRECISION)),
        kind if ty.is_fixed() => SqlType::new(kind),
        _ => ty,
    }
}

/// The key that a column definition asks for.
pub(super) fn column_key(column: &ast::ColumnDef) -> Option<KeyDef> {
    let kind = match column.key? {
        ColumnKey::Primary => KeyKind::Primary,
        ColumnKey::Unique => KeyKind::Unique,
    };
    Some(KeyDef {
        kind,
        constraint: None,
        name: None,
        if_not_exists: false,
        columns: vec![ast::KeyPart { column: column.name.clone(), length: None, desc: false }],
        options: KeyOptions::default(),
        references: None,
    })
}

/// Characters of a table's comment.
const TABLE_COMMENT_CHARS_MAX: usize = 2048;
/// What MAX_ROWS and MIN_ROWS say at most.
const ROWS_SHOWN_MAX: u64 = u32::MAX as u64;
/// 1478 for engines of MariaDB that keep no sequences.
fn refuse_sequence_engine(options: &[TableOption]) -> SqlResult<()> {
    const WITHOUT: [&str; 4] = ["MEMORY", "HEAP", "CSV", "ARCHIVE"];
    for option in options {
        let TableOption::Engine(name) = option else { continue };
        if let Some(engine) = WITHOUT.iter().find(|without| without.eq_ignore_ascii_case(name)) {
            let engine = if *engine == "HEAP" { "MEMORY" } else { engine };
            return Err(errors::illegal_ha_create_option(engine, sequence::OPTION));
        }
    }
    Ok(())
}

/// Reads table options: what is kept, and AUTO_INCREMENT.
pub(super) fn options(
    session: &mut Session,
    home: CollationId,
    table: &str,
    list: &[TableOption],
) -> SqlResult<(TableOptions, u64)> {
    let mut options = TableOptions { collation: home, ..TableOptions::default() };
    let mut next_auto = 1;
    let (charset, collate) = declared(list)?;
    for option in list {
        match option {
            TableOption::Engine(name) => check_engine(session, name, table)?,
            TableOption::AutoIncrement(next) => next_auto = (*next).max(1),
            TableOption::Charset(_) | TableOption::Collate(_) => {}
            TableOption::Comment(text) => options.comment = text.to_text(),
            TableOption::RowFormat(name) => {
                options.row_format = (name != "DEFAULT").then(|| name.clone());
            }
            TableOption::SystemVersioning => return Err(errors::not_supported_yet("SYSTEM VERSIONING")),
            TableOption::Other(name, value) => keep_other(&mut options, name, value),
            // They are looked at once the columns are known.
            TableOption::Named(..) => {}
        }
    }
    options.collation = choose_collation(charset, collate, home, home)?;
    let comment = std::mem::take(&mut options.comment);
    let too_long = |max| errors::too_long_table_comment(table, max);
    options.comment = columns::fitting_comment(session, comment, TABLE_COMMENT_CHARS_MAX, too_long)?;
    Ok((options, next_auto))
}

/// What CHARACTER SET and COLLATE say: each one thing, though it may be said twice.
pub(super) fn declared<'a>(
    list: impl IntoIterator<Item = &'a TableOption>,
) -> SqlResult<(Option<&'a str>, Option<&'a str>)> {
    let (mut charset, mut collate) = (None, None);
    for option in list {
        let (word, known, name) = match option {
            TableOption::Charset(name) => ("CHARACTER SET", &mut charset, name.as_str()),
            TableOption::Collate(name) => ("COLLATE", &mut collate, name.as_str()),
            _ => continue,
        };
        match known.replace(name) {
            Some(before) if !before.eq_ignore_ascii_case(name) => {
                let [first, second] = [before, name].map(|name| format!("{word} {name}"));
                return Err(errors::conflicting_declarations(first, second));
            }
            _ => {}
        }
    }
    Ok((charset, collate))
}

/// Whether InnoDB has a row format that is said of a table, unless an engine is said that Keel's takes the place of: 1478
/// where the session is strict about it, else a warning.
pub(super) fn check_row_format(session: &mut Session, list: &[TableOption]) -> SqlResult<()> {
    let other =
        |o: &TableOption| matches!(o, TableOption::Engine(name) if !name.eq_ignore_ascii_case("innodb"));
    let unknown = |o: &TableOption| matches!(o, TableOption::RowFormat(name) if matches!(name.as_str(), "FIXED" | "PAGE"));
    if !list.iter().any(unknown) || list.iter().any(other) {
        return Ok(());
    }
    let error = errors::illegal_ha_create_option("InnoDB", "ROW_TYPE");
    let strict = session.vars.innodb_strict;
    let message =
        if strict { "InnoDB: invalid ROW_FORMAT specifier." } else { "InnoDB: assuming ROW_FORMAT=DYNAMIC." };
    session.warn(SqlError { message: message.into(), ..error.clone() });
    if strict { Err(error) } else { Ok(()) }
}

fn keep_other(options: &mut TableOptions, name: &str, value: &ByteStr) {
    let mut text = value.to_text();
    if matches!(name, "MAX_ROWS" | "MIN_ROWS") && text.parse().is_ok_and(|rows: u64| rows > ROWS_SHOWN_MAX) {
        text = ROWS_SHOWN_MAX.to_string();
    }
    if let Some(size) = text.parse::<u64>().ok().filter(|_| name == "KEY_BLOCK_SIZE") {
        // MariaDB keeps 16 bits.
        text = (size & u64::from(u16::MAX)).to_string();
    }
    const ZERO_SAYS: [&str; 5] =
        ["PACK_KEYS", "STATS_PERSISTENT", "STATS_AUTO_RECALC", "PAGE_CHECKSUM", "TRANSACTIONAL"];
    let says_nothing = text.is_empty() || text == "0" && !ZERO_SAYS.contains(&name);
    options.others.retain(|(n, _)| n != name);
    if !says_nothing && text != "DEFAULT" {
        options.others.push((name.to_string(), text));
    }
}

/// Whether the engine named has foreign keys. Those that have none read them over, and so does the table that takes their
/// place: programs that were written for MyISAM never had their rows checked. Their indexes are made all the same.
fn keeps_foreign_keys(list: &[TableOption]) -> bool {
    let named = list.iter().rev().find_map(|option| match option {
        TableOption::Engine(name) => Some(name),
        _ => None,
    });
    !named.is_some_and(|name| REPLACED.iter().any(|engine| engine.eq_ignore_ascii_case(name)))
}

/// Refuses columns that the engine MEMORY does not have: programs expect the error, though the table would be InnoDB's.
pub(super) fn check_memory(
    session: &mut Session,
    options: &[TableOption],
    columns: &[ColumnDef],
) -> SqlResult<()> {
    let is_memory = |name: &str| name.eq_ignore_ascii_case("MEMORY") || name.eq_ignore_ascii_case("HEAP");
    let named = options.iter().rev().find_map(|option| match option {
        TableOption::Engine(name) => Some(name),
        _ => None,
    });
    if !named.is_some_and(|name| is_memory(name)) {
        return Ok(());
    }
    let error = if columns.iter().any(|column| column.ty.is_blob()) {
        errors::table_cant_handle_blob("MEMORY")
    } else if columns.iter().any(|column| column.generated.is_some()) {
        errors::unsupported_engine_for_generated("MEMORY")
    } else {
        return Ok(());
    };
    session.diagnostics.withdraw(code::WARN_USING_OTHER_HANDLER);
    Err(error)
}

/// InnoDB is what Keel calls its engine. Those that it takes the place of are a warning; others are 1286 under
/// NO_ENGINE_SUBSTITUTION, else a warning too.
pub(super) fn check_engine(session: &mut Session, name: &str, table: &str) -> SqlResult<()> {
    if name.eq_ignore_ascii_case("innodb") {
        return Ok(());
    }
    let is_of = |engines: &[&str]| engines.iter().any(|engine| engine.eq_ignore_ascii_case(name));
    if !is_of(&REPLACED) {
        if session.vars.sql_mode.has(SqlMode::NO_ENGINE_SUBSTITUTION) {
            return Err(errors::unknown_storage_engine(name));
        }
        if !is_of(&OTHERS) {
            session.warn(errors::unknown_storage_engine(name));
        }
    }
    session.warn(errors::warn_using_other_handler("InnoDB", table));
    Ok(())
}
