//! Statements about accounts.

use keel_base::{SqlResult, errors};
use keel_exec::session::Session;
use keel_sql::ast::Statement;

use crate::ddl::Definer;

impl Definer<'_> {
    /// Runs CREATE USER, GRANT and their like.
    pub fn run_account_statement(&self, session: &mut Session, statement: &Statement) -> SqlResult<()> {
        self.refuse_unchecked()?;
        match statement {
            Statement::CreateUser(create) => self.create_users(session, create),
            Statement::DropUser { users, if_exists } => self.drop_users(session, users, *if_exists),
            Statement::RenameUser(renames) => self.rename_users(session, renames),
            Statement::CreateRole(create) => self.create_roles(session, create),
            Statement::DropRole { roles, if_exists } => self.drop_roles(session, roles, *if_exists),
            Statement::Grant(grant) => self.grant(session, grant, false),
            Statement::Revoke(grant) => self.grant(session, grant, true),
            _ => Err(errors::not_supported_yet("this statement")),
        }
    }

    /// 1290 under `skip-grant-tables`.
    pub(crate) fn refuse_unchecked(&self) -> SqlResult<()> {
        match self.catalog().accounts.unchecked {
            true => Err(errors::option_prevents_statement("--skip-grant-tables")),
            false => Ok(()),
        }
    }
}
