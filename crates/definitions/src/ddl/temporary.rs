//! Definitions of temporary tables: no other session is concerned, so there are no locks, and no transaction takes them back.

use std::sync::Arc;

use keel_base::{SqlResult, TreeId, errors};
use keel_catalog::{Schema, Shared, TableDef, TableRecord, TableSet, names};
use keel_context::engine_error;
use keel_context::result::Completion;
use keel_exec::sequence;
use keel_exec::session::Session;
use keel_exec::temporary::TemporaryTables;
use keel_expr::env::schema_of;
use keel_sql::ast::{self, KeyKind};
use keel_storage::TxnOptions;

use super::foreign;
use crate::ddl::Definer;

/// The old name and the new one.
type Rename = (ast::ObjectName, ast::ObjectName);

impl Definer<'_> {
    /// CREATE TEMPORARY TABLE.
    pub(super) fn create_temporary(
        &self,
        session: &mut Session,
        create: &ast::CreateTable,
        params: &[keel_value::Value],
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
        if let Some(existing) = session.temporary.get(&schema, &create.name.name).cloned() {
            if create.or_replace {
                self.check_replacement(session, create, &existing, params)?;
                session.temporary.drop_table(self.engine(), &existing);
            } else if create.if_not_exists {
                session.note(errors::table_exists(&create.name.name));
                return Ok(Completion::default());
            } else {
                return Err(errors::table_exists(&create.name.name));
            }
        }
        session.temporary.check_room()?;
        let of_columns = create.columns.iter().any(|column| column.references.is_some());
        if of_columns || create.keys.iter().any(|key| key.kind == KeyKind::Foreign) {
            return Err(foreign::refuse_temporary(session, &schema, &create.name.name, "Create"));
        }
        let home = match self.catalog().schema(&schema) {
            Some(home) => home.clone(),
            // MariaDB asks for none.
            None => Arc::new(Schema::new(&schema, session.vars.server_collation, "")),
        };
        if let Some(like) = &create.like
            && session.named_locks.is_in_force()
        {
            let model = self.find_table(session, like)?;
            if !model.is_temporary() {
                session.named_locks.check(&model, false)?;
            }
        }
        let (record, next_auto) = match &create.like {
            Some(like) => (self.like(session, &home, &create.name, like)?, 1),
            None => self.record_of(session, &home, create, params)?,
        };
        let first = self.first_row(session, create, &record)?;
        let table = self.make_temporary(session, record)?;
        if let Some(first) = &first {
            self.write_temporary_sequence(&table, first)?;
        }
        let made = self.fill_temporary(session, create, &table, next_auto, params);
        match &made {
            Ok(_) => session.temporary.put(table),
            Err(_) => session.temporary.drop_trees(self.engine(), &table.record().trees()),
        }
        made
    }

    /// The row of a new temporary sequence; no transaction of the session's takes it back.
    fn write_temporary_sequence(&self, table: &TableDef, first: &sequence::Values) -> SqlResult<()> {
        let mut txn = self.engine().begin(TxnOptions::default());
        sequence::write_first(&mut txn, table, first)?;
        txn.commit().map_err(engine_error)?;
        Ok(())
    }

    /// What is to be in a new table at once; it stays there, whatever becomes of the transaction.
    fn fill_temporary(
        &self,
        session: &mut Session,
        create: &ast::CreateTable,
        table: &Arc<TableDef>,
        next_auto: u64,
        params: &[keel_value::Value],
    ) -> SqlResult<Completion> {
        if next_auto > 1 {
            self.raise_auto_increment(table, next_auto - 1)?;
        }
        let Some(select) = &create.select else { return Ok(Completion::default()) };
        let filled = self.fill_in_the_making(session, select, table, params)?;
        if let Some(txn) = &mut session.txn {
            table.record().trees().into_iter().for_each(|tree| txn.exempt(tree));
        }
        Ok(filled)
    }

    /// A new table with empty trees, which the session does not see yet.
    pub(super) fn make_temporary(
        &self,
        session: &mut Session,
        mut record: TableRecord,
    ) -> SqlResult<Arc<TableDef>> {
        record.id = TemporaryTables::next_id();
        record.version = 1;
        let mut made = Vec::new();
        let opened = self
            .give_temporary_trees(session, &mut record, &mut made)
            .and_then(|()| record.open(self.engine(), Arc::new(Shared::default())));
        if opened.is_err() {
            session.temporary.drop_trees(self.engine(), &made);
        }
        Ok(Arc::new(opened?))
    }

    fn give_temporary_trees(
        &self,
        session: &mut Session,
        record: &mut TableRecord,
        made: &mut Vec<TreeId>,
    ) -> SqlResult<()> {
        let mut create = || {
            let tree = session.temporary.create_tree(self.engine())?;
            made.push(tree);
            Ok(tree)
        };
        record.make_trees(&mut create)
    }

    /// Whether a definition concerns temporary tables alone, and with them nobody but the session.
    pub fn concerns_temporary(&self, session: &Session, definition: &ast::Statement) -> bool {
        use ast::Statement;
        if session.temporary.is_empty() {
            return false;
        }
        let tables = match definition {
            Statement::DropTable(drop) => &drop.tables[..],
            Statement::AlterTable(alter) => std::slice::from_ref(&alter.table),
            Statement::AlterSequence(alter) => std::slice::from_ref(&alter.name),
            Statement::CreateIndex(create) => std::slice::from_ref(&create.table),
            Statement::DropIndex(drop) => std::slice::from_ref(&drop.table),
            Statement::Truncate { table, .. } => std::slice::from_ref(table),
            Statement::RenameTable { renames, .. } => {
                return self.rename_temporary(session, renames).is_ok_and(|(_, others)| others.is_empty());
            }
            _ => return false,
        };
        let is_temporary = |name: &ast::ObjectName| {
            schema_of(session, name).is_ok_and(|schema| session.temporary.get(schema, &name.name).is_some())
        };
        tables.iter().all(is_temporary)
    }

    /// TRUNCATE of a temporary table.
    pub(super) fn truncate_temporary(&self, session: &mut Session, table: &TableDef) -> SqlResult<()> {
        let empty = self.make_temporary(session, table.record())?;
        session.temporary.put(empty);
        session.temporary.drop_trees(self.engine(), &table.record().trees());
        Ok(())
    }

    /// Puts an altered temporary table, whose new trees are filled, in the place of the old one.
    pub(super) fn replace_temporary(
        &self,
        session: &mut Session,
        old: &TableDef,
        record: TableRecord,
    ) -> SqlResult<()> {
        let (before, after) = (old.record().trees(), record.trees());
        let altered = Arc::new(record.open(self.engine(), Arc::new(Shared::default()))?);
        let mut tables = session.temporary.set_copy();
        tables.remove(&old.schema, &old.name);
        tables.put(altered);
        session.temporary.set(tables);
        let gone: Vec<TreeId> = before.into_iter().filter(|tree| !after.contains(tree)).collect();
        session.temporary.drop_trees(self.engine(), &gone);
        Ok(())
    }

    /// Renames the temporary tables among those of a RENAME TABLE; gives the other renames.
    pub(super) fn rename_temporary<'r>(
        &self,
        session: &Session,
        renames: &'r [Rename],
    ) -> SqlResult<(Option<TableSet>, Vec<&'r Rename>)> {
        if session.temporary.is_empty() {
            return Ok((None, renames.iter().collect()));
        }
        let mut tables = session.temporary.set_copy();
        let mut others = Vec::new();
        for rename in renames {
            let (old, new) = rename;
            let Some(table) = tables.get(schema_of(session, old)?, &old.name).cloned() else {
                others.push(rename);
                continue;
            };
            let to = schema_of(session, new)?;
            self.refuse_virtual(session, to)?;
            names::check_table(&new.name)?;
            if tables.get(to, &new.name).is_some() {
                return Err(errors::table_exists(&new.name));
            }
            let mut record = table.record();
            foreign::rename_table(&mut record, to.into(), new.name.as_str().into());
            tables.remove(&table.schema, &table.name);
            tables.put(Arc::new(record.open(self.engine(), table.shared.clone())?));
        }
        Ok((Some(tables), others))
    }

    /// Drops the session's temporary tables, at its end. Waits.
    pub fn drop_temporary_tables(&self, session: &mut Session) {
        if !session.temporary.is_empty() {
            session.temporary.drop_all(self.engine());
        }
    }
}
