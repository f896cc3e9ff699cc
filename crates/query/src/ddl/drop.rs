//! DROP TABLE, TRUNCATE TABLE, RENAME TABLE.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_sql::ast::{self, LockWait, ObjectName};

use super::schema_of;
use crate::Database;
use crate::catalog::{Shared, TableDef, names};
use crate::result::Completion;
use crate::session::Session;

impl Database {
    /// Drops what exists; then 1051 names what does not, unless IF EXISTS makes a note of it.
    pub(super) fn drop_tables(&self, session: &mut Session, drop: &ast::DropTable) -> SqlResult<Completion> {
        let mut missing = Vec::new();
        loop {
            missing.clear();
            let catalog = self.catalog();
            let mut tables: Vec<Arc<TableDef>> = Vec::new();
            for name in &drop.tables {
                let schema = schema_of(session, name)?;
                self.refuse_virtual(session, schema)?;
                match catalog.table(schema, &name.name) {
                    Some(table) if drop.temporary => missing.push(format!("{}.{}", table.schema, table.name)),
                    Some(table) if tables.iter().any(|t| Arc::ptr_eq(t, table)) => {
                        return Err(errors::nonuniq_table(&name.name));
                    }
                    Some(table) => tables.push(table.clone()),
                    None => missing.push(format!("{schema}.{}", name.name)),
                }
            }
            if self.drop_all(session, &tables, drop.wait.as_ref())? {
                break;
            }
        }
        if missing.is_empty() {
            return Ok(Completion::default());
        }
        let error = errors::bad_table(missing.join(","));
        if !drop.if_exists {
            return Err(error);
        }
        session.note(error);
        Ok(Completion::default())
    }

    /// Drops one table that was looked up just now; nothing if it is gone meanwhile.
    pub(super) fn drop_one(&self, session: &Session, table: &Arc<TableDef>) -> SqlResult<()> {
        self.drop_all(session, std::slice::from_ref(table), None).map(|_| ())
    }

    /// Drops tables; false, and nothing done, if one of them was changed meanwhile.
    fn drop_all(
        &self,
        session: &Session,
        tables: &[Arc<TableDef>],
        wait: Option<&LockWait>,
    ) -> SqlResult<bool> {
        if tables.is_empty() {
            return Ok(true);
        }
        let locks: Vec<_> = tables.iter().map(|t| t.shared.lock.clone()).collect();
        let _owned = self.own_locks(session, &locks, wait)?;
        let mut definition = self.definition(session)?;
        let unchanged = |t: &Arc<TableDef>| {
            definition.catalog.table(&t.schema, &t.name).is_some_and(|now| Arc::ptr_eq(now, t))
        };
        if !tables.iter().all(unchanged) {
            return Ok(false);
        }
        for table in tables {
            definition.drop_trees(&table.record().trees())?;
            definition.remove_table(table)?;
        }
        definition.commit()?;
        Ok(true)
    }

    /// TRUNCATE: the table gets empty trees.
    pub(super) fn truncate(
        &self,
        session: &mut Session,
        name: &ObjectName,
        wait: Option<&LockWait>,
    ) -> SqlResult<Completion> {
        let (table, _owned) = self.own_table(session, name, wait)?;
        let mut definition = self.definition(session)?;
        let mut record = table.record();
        definition.drop_trees(&record.trees())?;
        record.version = definition.catalog.version + 1;
        record.tree_id = definition.create_tree(record.id)?;
        let clustered = record.clustered();
        for position in 0..record.indexes.len() {
            let own = clustered == Some(position);
            record.indexes[position].tree_id =
                if own { record.tree_id } else { definition.create_tree(record.id)? };
        }
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
        for (old, _) in renames {
            let schema = schema_of(session, old)?;
            self.refuse_virtual(session, schema)?;
            locks.extend(catalog.table(schema, &old.name).map(|t| t.shared.lock.clone()));
        }
        let _owned = self.own_locks(session, &locks, wait)?;
        let mut definition = self.definition(session)?;
        for (old, new) in renames {
            let from = schema_of(session, old)?;
            let Some(table) = definition.catalog.table(from, &old.name).cloned() else {
                if if_exists {
                    session.note(errors::bad_table(format!("{from}.{}", old.name)));
                    continue;
                }
                return Err(errors::no_such_table(from, &old.name));
            };
            if !locks.iter().any(|l| Arc::ptr_eq(l, &table.shared.lock)) {
                return Err(errors::table_def_changed());
            }
            let to = schema_of(session, new)?;
            self.refuse_virtual(session, to)?;
            names::check_table(&new.name)?;
            let home = definition.catalog.require_schema(to)?.clone();
            if home.table(&new.name).is_some() {
                return Err(errors::table_exists(&new.name));
            }
            let mut record = table.record();
            record.schema = home.name.clone();
            record.name = new.name.as_str().into();
            record.version = definition.catalog.version + 1;
            definition.remove_table(&table)?;
            definition.put_table(record, table.shared.clone())?;
        }
        definition.commit()?;
        Ok(Completion::default())
    }
}
