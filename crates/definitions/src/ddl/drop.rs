//! DROP TABLE, TRUNCATE TABLE, RENAME TABLE.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_catalog::{Shared, TableDef, names};
use keel_context::result::Completion;
use keel_exec::session::Session;
use keel_expr::env::schema_of;
use keel_sql::ast::{self, LockWait, ObjectName};
use keel_storage::runtime::console;

use super::foreign;
use crate::ddl::Definer;

impl Definer<'_> {
    /// Drops what exists; then 1051 names what does not, unless IF EXISTS makes a note of it.
    pub(super) fn drop_tables(&self, session: &mut Session, drop: &ast::DropTable) -> SqlResult<Completion> {
        for name in &drop.tables {
            name.db.as_deref().map_or(Ok(()), names::check_schema)?;
            names::check_table(&name.name)?;
        }
        let mut missing = Vec::new();
        let mut temporary: Vec<Arc<TableDef>> = Vec::new();
        let mut views = Vec::new();
        let refused;
        loop {
            missing.clear();
            temporary.clear();
            views.clear();
            let catalog = self.catalog();
            let mut tables: Vec<Arc<TableDef>> = Vec::new();
            for name in &drop.tables {
                let schema = schema_of(session, name)?;
                self.refuse_virtual(session, schema)?;
                let hidden = drop.sequence && !drop.temporary;
                let other = |table: &Arc<TableDef>| drop.sequence && !table.is_sequence();
                let own = session.temporary.get(schema, &name.name);
                if let Some(table) = own.filter(|table| !other(table)) {
                    temporary.push(table.clone());
                    continue;
                }
                match catalog.table(schema, &name.name).filter(|_| hidden || own.is_none() || !drop.sequence)
                {
                    Some(table) if hidden && other(table) => {
                        let name = format!("{}.{}", table.schema, table.name);
                        views.push(errors::not_sequence2(name));
                    }
                    Some(table) if drop.temporary => missing.push(format!("{}.{}", table.schema, table.name)),
                    Some(table) => tables.push(table.clone()),
                    None if catalog.view(schema, &name.name).is_some() => {
                        views.push(errors::it_is_a_view(format_args!("{schema}.{}", name.name)));
                    }
                    None => missing.push(format!("{schema}.{}", name.name)),
                }
            }
            if let Some(kept) = self.drop_all(session, &tables, drop.wait.as_ref())? {
                refused = kept;
                break;
            }
        }
        temporary.iter().for_each(|table| session.temporary.drop_table(self.engine(), table));
        let referenced = refused.then(foreign::is_referenced);
        let unknown = (!missing.is_empty()).then(|| match drop.sequence {
            true => errors::unknown_sequences(missing.join(",")),
            false => errors::bad_table(missing.join(",")),
        });
        let unknown: Vec<_> = views.into_iter().chain(unknown).collect();
        if drop.if_exists {
            unknown.iter().for_each(|note| session.note(note.clone()));
        }
        let mut all = referenced.into_iter().chain(unknown.into_iter().filter(|_| !drop.if_exists));
        let Some(error) = all.next() else { return Ok(Completion::default()) };
        session.push_error(&error);
        all.for_each(|more| session.push_error(&more));
        Err(error)
    }

    /// Drops one table that was looked up just now; nothing if it is gone meanwhile.
    pub(super) fn drop_one(&self, session: &Session, table: &Arc<TableDef>) -> SqlResult<()> {
        match self.drop_all(session, std::slice::from_ref(table), None)? {
            Some(true) => Err(foreign::is_referenced()),
            _ => Ok(()),
        }
    }

    /// Drops a table that has not been finished, of which the session has the lock.
    pub(super) fn drop_unfinished(&self, session: &Session, table: &TableDef) -> SqlResult<()> {
        let mut definition = self.next_definition(session)?;
        definition.drop_trees(&table.record().trees())?;
        definition.finish(table)?;
        definition.remove_table(table)?;
        definition.commit()
    }

    /// Hides a table that cannot be dropped now: the next start drops it, and nobody puts rows there until then.
    pub(super) fn hide_unfinished(&self, session: &Session, table: &TableDef) {
        let hidden = self.next_definition(session).and_then(|mut definition| {
            definition.catalog.remove_table(&table.schema, &table.name);
            definition.commit()
        });
        if let Err(error) = hidden {
            console::warning(format_args!(
                "{}.{} is incomplete and cannot be removed: {error}",
                table.schema, table.name
            ));
        }
    }

    /// Drops tables but those that foreign keys of others refer to; says whether there were such. None, and nothing done, if
    /// one of them was changed meanwhile.
    fn drop_all(
        &self,
        session: &Session,
        tables: &[Arc<TableDef>],
        wait: Option<&LockWait>,
    ) -> SqlResult<Option<bool>> {
        if tables.is_empty() {
            return Ok(Some(false));
        }
        let locks: Vec<_> = tables.iter().map(|t| t.shared.lock.clone()).collect();
        let _owned = self.own_locks(session, &locks, wait)?;
        let mut definition = self.definition(session)?;
        let unchanged = |t: &Arc<TableDef>| {
            definition.catalog.table(&t.schema, &t.name).is_some_and(|now| Arc::ptr_eq(now, t))
        };
        if !tables.iter().all(unchanged) {
            return Ok(None);
        }
        let mut gone: Vec<Arc<TableDef>> = Vec::with_capacity(tables.len());
        for table in tables {
            if session.vars.foreign_key_checks && definition.referrer(table, &gone).is_some() {
                continue;
            }
            definition.drop_trees(&table.record().trees())?;
            definition.remove_table(table)?;
            gone.push(table.clone());
        }
        definition.commit()?;
        Ok(Some(gone.len() < tables.len()))
    }

    /// TRUNCATE: the table gets empty trees.
    pub(super) fn truncate(
        &self,
        session: &mut Session,
        name: &ObjectName,
        wait: Option<&LockWait>,
    ) -> SqlResult<Completion> {
        let schema = schema_of(session, name)?;
        if self.catalog_of(session).view(schema, &name.name).is_some() {
            return Err(errors::no_such_table(schema, &name.name));
        }
        let (table, _owned) = self.own_table(session, name, wait)?;
        if table.is_sequence() {
            return Err(errors::illegal_ha("SEQUENCE", &table.schema, &table.name));
        }
        if table.is_temporary() {
            self.truncate_temporary(session, &table)?;
            return Ok(Completion::default());
        }
        let mut definition = self.definition(session)?;
        if session.vars.foreign_key_checks
            && let Some((child, key)) = definition.referrer(&table, &[])
        {
            return Err(errors::truncate_illegal_fk(key.plain_failure(&child)));
        }
        let mut record = table.record();
        definition.drop_trees(&record.trees())?;
        record.version = definition.catalog.version + 1;
        let id = record.id;
        record.make_trees(|| definition.create_tree(id))?;
        let shared = Shared { lock: table.shared.lock.clone(), ..Shared::default() };
        definition.put_table(record, Arc::new(shared))?;
        definition.commit()?;
        Ok(Completion::default())
    }

    /// RENAME TABLE: all or nothing, in order.
    pub(super) fn rename_tables(
        &self,
        session: &mut Session,
        renames: &[(ObjectName, ObjectName)],
        if_exists: bool,
        wait: Option<&LockWait>,
    ) -> SqlResult<Completion> {
        let catalog = self.catalog();
        let mut locks = Vec::new();
        let (temporary, renames) = self.rename_temporary(session, renames)?;
        for (old, _) in &renames {
            let schema = schema_of(session, old)?;
            self.refuse_virtual(session, schema)?;
            locks.extend(catalog.table(schema, &old.name).map(|t| t.shared.lock.clone()));
            locks.extend(catalog.view(schema, &old.name).map(|view| view.lock.clone()));
            // Those that refer to it are written again.
            let children = catalog.references_to(schema, &old.name).into_iter();
            locks.extend(children.map(|(child, _)| child.shared.lock.clone()));
        }
        let _owned = self.own_locks(session, &locks, wait)?;
        let mut definition = self.definition(session)?;
        for (old, new) in &renames {
            let from = schema_of(session, old)?;
            if let Some(view) = definition.catalog.view(from, &old.name).cloned() {
                if !locks.iter().any(|l| Arc::ptr_eq(l, &view.lock)) {
                    return Err(errors::table_def_changed());
                }
                let to = schema_of(session, new)?;
                self.refuse_virtual(session, to)?;
                names::check_table(&new.name)?;
                let home = definition.catalog.require_schema(to)?.clone();
                if home.has(&new.name) || keel_catalog::series::parse(&new.name).is_some() {
                    return Err(errors::table_exists(&new.name));
                }
                definition.rename_view(&view, home.name.clone(), &new.name)?;
                continue;
            }
            let Some(table) = definition.catalog.table(from, &old.name).cloned() else {
                if if_exists {
                    let missing = errors::no_such_table(from, &old.name);
                    session.note(missing);
                    continue;
                }
                return Err(errors::no_such_table(from, &old.name));
            };
            // A child may have come while the locks were waited for, and be altered by now.
            let is_locked = |table: &Arc<TableDef>| locks.iter().any(|l| Arc::ptr_eq(l, &table.shared.lock));
            let children = definition.catalog.references_to(from, &old.name);
            if !is_locked(&table) || !children.iter().all(|(child, _)| is_locked(child)) {
                return Err(errors::table_def_changed());
            }
            let to = schema_of(session, new)?;
            self.refuse_virtual(session, to)?;
            names::check_table(&new.name)?;
            let home = definition.catalog.require_schema(to)?.clone();
            if home.has(&new.name) || keel_catalog::series::parse(&new.name).is_some() {
                return Err(errors::table_exists(&new.name));
            }
            let mut record = table.record();
            foreign::rename_table(&mut record, home.name.clone(), new.name.as_str().into());
            record.version = definition.catalog.version + 1;
            definition.check_renamed(&table, &record)?;
            definition.remove_table(&table)?;
            definition.rename_references((&table.schema, &table.name), &record, &|_| None)?;
            let renamed = definition.put_table(record, table.shared.clone())?;
            definition.tell_relatives(&renamed)?;
        }
        if !renames.is_empty() {
            definition.commit()?;
        }
        temporary.into_iter().for_each(|tables| session.temporary.set(tables));
        Ok(Completion::default())
    }
}
