//! CREATE, ALTER and DROP DATABASE.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_catalog::column_type::choose_collation;
use keel_catalog::{Schema, names};
use keel_context::result::Completion;
use keel_exec::session::Session;
use keel_sql::ast::{self, DatabaseOptions};
use keel_value::CollationId;

use super::columns::{COMMENT_CHARS_MAX, fitting_comment};
use super::{Definition, foreign};
use crate::ddl::Definer;

impl Definer<'_> {
    pub(super) fn create_database(
        &self,
        session: &mut Session,
        create: &ast::CreateDatabase,
    ) -> SqlResult<Completion> {
        names::check_schema(&create.name)?;
        self.refuse_virtual(session, &create.name)?;
        let collation = schema_collation(session, &create.options, session.vars.server_collation)?;
        let (mut definition, replaced) = match create.or_replace {
            true => self.without_database(session, &create.name)?,
            false => (self.definition(session)?, None),
        };
        if definition.catalog.schema(&create.name).is_some() {
            let error = errors::db_create_exists(&create.name);
            if !create.if_not_exists {
                return Err(error);
            }
            session.note(error);
            return Ok(Completion::default());
        }
        let comment = create.options.comment.as_ref().map(|c| c.to_text()).unwrap_or_default();
        let comment = fitting(session, &create.name, comment)?;
        let schema = Schema::new(&create.name, collation, &comment);
        self.catalog_tree().put_schema(&mut definition.txn, &schema)?;
        definition.catalog.put_schema(schema);
        definition.commit()?;
        if replaced.is_some() {
            leave(session, &create.name);
        }
        Ok(Completion { affected_rows: 1 + u64::from(replaced.is_some()), ..Completion::default() })
    }

    pub(super) fn alter_database(
        &self,
        session: &mut Session,
        name: Option<&str>,
        options: &DatabaseOptions,
    ) -> SqlResult<Completion> {
        let name: Arc<str> = match name {
            Some(name) => name.into(),
            None => session.require_database()?.clone(),
        };
        self.refuse_virtual(session, &name)?;
        let mut definition = self.definition(session)?;
        let mut schema = Schema::clone(definition.catalog.require_schema(&name)?);
        schema.collation = schema_collation(session, options, schema.collation)?;
        if let Some(comment) = &options.comment {
            schema.comment = fitting(session, &name, comment.to_text())?.into();
        }
        self.catalog_tree().put_schema(&mut definition.txn, &schema)?;
        definition.catalog.put_schema(schema);
        definition.commit()?;
        Ok(Completion { affected_rows: 1, ..Completion::default() })
    }

    pub(super) fn drop_database(
        &self,
        session: &mut Session,
        name: &str,
        if_exists: bool,
    ) -> SqlResult<Completion> {
        names::check_schema(name)?;
        self.refuse_virtual(session, name)?;
        let (definition, dropped) = self.without_database(session, name)?;
        let Some(dropped) = dropped else {
            let error = errors::db_drop_exists(name);
            if !if_exists {
                return Err(error);
            }
            session.note(error);
            return Ok(Completion::default());
        };
        definition.commit()?;
        leave(session, name);
        Ok(Completion { affected_rows: dropped, ..Completion::default() })
    }

    /// A definition in which there is no database of that name, and how many tables and views went with it, if there was
    /// one. Where foreign keys of others keep some of its tables, all else is gone for good, and an error says so.
    fn without_database(
        &self,
        session: &mut Session,
        name: &str,
    ) -> SqlResult<(Definition<'_>, Option<u64>)> {
        loop {
            let Some(seen) = self.catalog().schema(name).cloned() else {
                let definition = self.definition(session)?;
                match definition.catalog.schema(name) {
                    Some(_) => continue,
                    None => return Ok((definition, None)),
                }
            };
            let mut locks: Vec<_> = seen.tables().iter().map(|t| t.shared.lock.clone()).collect();
            locks.extend(seen.views().iter().map(|view| view.lock.clone()));
            let owned = self.own_locks(session, &locks, None)?;
            let mut definition = self.definition(session)?;
            if !definition.catalog.schema(name).is_some_and(|now| Arc::ptr_eq(now, &seen)) {
                continue;
            }
            definition.tables = owned;
            let tables: Vec<_> = seen.tables().into_iter().cloned().collect();
            let mut kept = false;
            seen.views().into_iter().try_for_each(|view| definition.remove_view(view))?;
            for table in &tables {
                if session.vars.foreign_key_checks && definition.referrer(table, &tables).is_some() {
                    kept = true;
                    continue;
                }
                definition.drop_trees(&table.record().trees())?;
                definition.remove_table(table)?;
            }
            if kept {
                definition.commit()?;
                return Err(foreign::is_referenced());
            }
            self.catalog_tree().remove_schema(&mut definition.txn, name)?;
            definition.catalog.remove_schema(name);
            let dropped = (seen.tables().len() + seen.views().len()) as u64;
            return Ok((definition, Some(dropped)));
        }
    }
}

/// A database is gone: it is the session's default no longer, even where one of its name has come in its place.
fn leave(session: &mut Session, name: &str) {
    if session.database.as_deref() == Some(name) {
        session.database = None;
    }
}

pub(super) fn schema_collation(
    session: &Session,
    options: &DatabaseOptions,
    before: CollationId,
) -> SqlResult<CollationId> {
    let server = session.vars.server_collation;
    choose_collation(options.charset.as_deref(), options.collation.as_deref(), before, server)
}

/// A database's comment within its bound.
fn fitting(session: &mut Session, name: &str, comment: String) -> SqlResult<String> {
    let too_long = |max| errors::too_long_database_comment(name, max);
    fitting_comment(session, comment, COMMENT_CHARS_MAX, too_long)
}
