//! DROP, ALTER and CALL of stored programs and foreign servers, none of which exists.

use keel_base::{SqlError, SqlResult, errors};
use keel_catalog::account::{Accounts, Privileges};
use keel_exec::session::Session;
use keel_expr::env::schema_of;
use keel_expr::rights as see;
use keel_planner::check;
use keel_sql::ast::{Account, ObjectName, ProgramAction, ProgramKind, ProgramStatement, Wanted, WantedOf};

use crate::ddl::Definer;

impl Definer<'_> {
    /// Raises the error that the object does not exist, or with IF EXISTS the note.
    pub fn run_program_statement(
        &self,
        session: &mut Session,
        statement: &ProgramStatement,
    ) -> SqlResult<()> {
        if statement.action != ProgramAction::Call {
            session.refuse_in_branch()?;
            self.commit_implicitly(session)?;
        }
        let name = &statement.name;
        let kind = statement.kind;
        may(session, &self.catalog().accounts, statement)?;
        let ProgramAction::Drop { if_exists: true } = statement.action else {
            if kind == ProgramKind::Event && statement.action == ProgramAction::Alter {
                let schema = schema_of(session, name)?;
                if self.catalog().schema(schema).is_none() {
                    return Err(errors::bad_db(schema));
                }
            }
            return Err(missing(session, kind, name)?);
        };
        let note = match kind {
            ProgramKind::Server => return Ok(()),
            ProgramKind::Event => {
                schema_of(session, name)?;
                errors::sp_does_not_exist("Event", &name.name)
            }
            _ => missing(session, kind, name)?,
        };
        session.note(note);
        Ok(())
    }
}

impl Definer<'_> {
    /// Whether the session may run a statement that is not supported: an account without the privileges does not learn that.
    pub fn check_wanted(&self, session: &Session, wanted: &Wanted) -> SqlResult<()> {
        let catalog = self.catalog();
        let accounts = &*catalog.accounts;
        let exists = |schema: &str| match catalog.schema(schema) {
            Some(_) => Ok(()),
            None => Err(errors::bad_db(schema)),
        };
        match &wanted.of {
            WantedOf::Routine(name) => {
                let schema = schema_of(session, name)?;
                see::require_on_database(session, accounts, schema, Privileges::CREATE_ROUTINE)?;
                exists(schema)?;
                may_define_for(session, wanted)
            }
            WantedOf::Library => see::require_on_database(session, accounts, "mysql", Privileges::INSERT),
            WantedOf::Event(name) => {
                let schema = schema_of(session, name)?;
                may_define_for(session, wanted)?;
                see::require_on_database(session, accounts, schema, Privileges::EVENT)?;
                exists(schema)
            }
            WantedOf::Trigger(trigger, table) => {
                schema_of(session, trigger)?;
                let schema = match (&table.db, &trigger.db) {
                    (Some(schema), _) | (None, Some(schema)) => schema.as_str(),
                    (None, None) => schema_of(session, table)?,
                };
                check::lasting(session, accounts, (schema, &table.name), Privileges::TRIGGER)?;
                match catalog.view(schema, &table.name) {
                    Some(_) => Err(errors::wrong_object(schema, &table.name, "BASE TABLE")),
                    None => catalog.require_lasting_table(schema, &table.name).map(|_| ()),
                }?;
                may_define_for(session, wanted)
            }
            WantedOf::Rows(name) => {
                check::table(session, accounts, (schema_of(session, name)?, &name.name), Privileges::SELECT)
            }
            WantedOf::Indexes(words, names) => names.iter().try_for_each(|name| {
                check::any_on_table(session, accounts, (schema_of(session, name)?, &name.name), words)
            }),
        }
    }
}

/// 1227 where a program has another definer and the session may not define for others.
fn may_define_for(session: &Session, wanted: &Wanted) -> SqlResult<()> {
    let access = &session.access;
    match &wanted.definer {
        Some(Account::User { user, host }) if *user != *access.user || *host != *access.host => {
            see::require_global(session, Privileges::SUPER.and(Privileges::SET_USER))
        }
        _ => Ok(()),
    }
}

/// Whether the session may run the statement.
fn may(session: &Session, accounts: &Accounts, statement: &ProgramStatement) -> SqlResult<()> {
    let ProgramStatement { action, kind, name } = statement;
    match kind {
        ProgramKind::Server => {
            see::require_global(session, Privileges::SUPER.and(Privileges::FEDERATED_ADMIN))
        }
        // Without a default database the name is that of a function from a library.
        ProgramKind::Function if name.db.is_none() && session.database.is_none() => Ok(()),
        ProgramKind::Event => {
            see::require_on_database(session, accounts, schema_of(session, name)?, Privileges::EVENT)
        }
        ProgramKind::Trigger => Ok(()),
        ProgramKind::Procedure | ProgramKind::Function | ProgramKind::Package | ProgramKind::PackageBody => {
            let wanted = match action {
                ProgramAction::Call => Privileges::EXECUTE,
                _ => Privileges::ALTER_ROUTINE,
            };
            check::routine(session, accounts, (schema_of(session, name)?, &name.name), wanted)
        }
    }
}

/// The error for an object that does not exist; fails if the name needs a default database and there is none.
fn missing(session: &Session, kind: ProgramKind, name: &ObjectName) -> SqlResult<SqlError> {
    let word = match kind {
        ProgramKind::Procedure => "PROCEDURE",
        ProgramKind::Function if name.db.is_none() && session.require_database().is_err() => {
            return Ok(errors::sp_does_not_exist("FUNCTION (UDF)", &name.name));
        }
        ProgramKind::Function => "FUNCTION",
        ProgramKind::Package => "PACKAGE",
        ProgramKind::PackageBody => "PACKAGE BODY",
        ProgramKind::Server => return Ok(errors::foreign_server_doesnt_exist(&name.name)),
        ProgramKind::Trigger => {
            schema_of(session, name)?;
            return Ok(errors::trg_does_not_exist());
        }
        ProgramKind::Event => {
            schema_of(session, name)?;
            return Ok(errors::event_does_not_exist(&name.name));
        }
    };
    let schema = schema_of(session, name)?;
    Ok(errors::sp_does_not_exist(word, format_args!("{schema}.{}", name.name)))
}
