//! What a session sees of databases, tables and columns: SHOW, USE, `information_schema`.

use keel_base::{SqlError, SqlResult, errors};
use keel_catalog::account::{Accounts, Privileges};

use super::Env;

/// 1820 while an expired password has not been changed.
#[inline]
pub fn expired(session: &Env) -> SqlResult<()> {
    if session.access.expired { Err(errors::must_change_password()) } else { Ok(()) }
}

/// 1227, unless the session has one of those privileges everywhere.
pub fn require_global(session: &Env, any: Privileges) -> SqlResult<()> {
    if session.access.global.has_any(any) {
        return Ok(());
    }
    Err(errors::specific_access_denied(any.list()))
}

/// 1044, unless the session may read or change other accounts through `mysql`.
pub fn require_mysql(session: &Env, accounts: &Accounts, wanted: Privileges) -> SqlResult<()> {
    let default = session.database.as_deref();
    if session.access.on_database(accounts, default, "mysql").has(wanted) {
        return Ok(());
    }
    Err(database_denied(session, "mysql"))
}

/// 1044.
#[cold]
pub fn database_denied(session: &Env, database: &str) -> SqlError {
    errors::dbaccess_denied(&session.access.user, &session.access.host, database)
}

/// 1142 of a command.
#[cold]
pub fn denied_command(session: &Env, command: &str, schema: &str, table: &str) -> SqlError {
    errors::tableaccess_denied(command, &session.access.user, &session.client_host, schema, table)
}

/// Which words a denied statement is told.
pub enum Denied {
    /// The account.
    Account,
    /// The account's user and the client's host.
    Client,
}

/// Whether the session may stand in a database: any privilege in it will do.
pub fn has_database(session: &Env, accounts: &Accounts, name: &str) -> bool {
    if accounts.unchecked || name.eq_ignore_ascii_case("information_schema") {
        return true;
    }
    let (access, default) = (&session.access, session.database.as_deref());
    // GRANT OPTION everywhere shows nothing by itself.
    access.global.has_any(Privileges::OF_DATABASE.without(Privileges::GRANT))
        || access.on_database(accounts, default, name).without(access.global).has_any(Privileges::OF_DATABASE)
        || access.has_tables_in(accounts, name)
}

/// 1044 unless the session may stand in a database.
pub fn require_database(session: &Env, accounts: &Accounts, name: &str, told: Denied) -> SqlResult<()> {
    if has_database(session, accounts, name) {
        return Ok(());
    }
    Err(match told {
        Denied::Account => database_denied(session, name),
        Denied::Client => errors::dbaccess_denied(&session.access.user, &session.client_host, name),
    })
}

/// 1044 unless the session has all of `wanted` on a database.
pub fn require_on_database(
    session: &Env,
    accounts: &Accounts,
    name: &str,
    wanted: Privileges,
) -> SqlResult<()> {
    if accounts.unchecked {
        return Ok(());
    }
    match session.access.on_database(accounts, session.database.as_deref(), name).has(wanted) {
        true => Ok(()),
        false => Err(database_denied(session, name)),
    }
}

/// Whether SHOW DATABASES lists a database.
pub fn lists_database(session: &Env, accounts: &Accounts, name: &str) -> bool {
    session.access.global.has(Privileges::SHOW_DATABASES) || has_database(session, accounts, name)
}

/// What the session has on a table or on some column of it.
pub fn on_table(session: &Env, accounts: &Accounts, schema: &str, table: &str) -> Privileges {
    if schema.eq_ignore_ascii_case("information_schema") {
        return Privileges::SELECT;
    }
    let have = session.access.on_database(accounts, session.database.as_deref(), schema);
    if have.has(Privileges::OF_DATABASE) || accounts.unchecked {
        return Privileges::ALL;
    }
    have.and(session.access.on_table(accounts, schema, table).any())
}

/// Whether the session may list a table's columns and indexes: SELECT on all tables or on those of the database, or any
/// privilege on the table or on a column.
pub fn lists_columns(session: &Env, accounts: &Accounts, schema: &str, table: &str) -> bool {
    if schema.eq_ignore_ascii_case("information_schema") || accounts.unchecked {
        return true;
    }
    let have = session.access.on_database(accounts, session.database.as_deref(), schema);
    have.has(Privileges::SELECT) || !session.access.on_table(accounts, schema, table).any().is_none()
}

/// What is granted to the session on a table as a whole.
pub fn granted_on_table(session: &Env, accounts: &Accounts, schema: &str, table: &str) -> Privileges {
    let have = session.access.on_database(accounts, session.database.as_deref(), schema);
    have.and(session.access.on_table(accounts, schema, table).table)
}

/// What the session has on a table as a whole.
pub fn on_whole_table(session: &Env, accounts: &Accounts, schema: &str, table: &str) -> Privileges {
    if schema.eq_ignore_ascii_case("information_schema") {
        return Privileges::SELECT;
    }
    if accounts.unchecked {
        return Privileges::ALL;
    }
    granted_on_table(session, accounts, schema, table)
}

/// Whether lists of tables show a table: any privilege on it or on a column, or any but GRANT OPTION on its database.
pub fn lists_table(session: &Env, accounts: &Accounts, schema: &str, table: &str) -> bool {
    sees_tables_of(session, accounts, schema, Privileges::SEES_TABLE)
        || !session.access.on_table(accounts, schema, table).any().is_none()
}

/// Whether the session has one of `any` on all tables of a database.
fn sees_tables_of(session: &Env, accounts: &Accounts, schema: &str, any: Privileges) -> bool {
    if schema.eq_ignore_ascii_case("information_schema") || accounts.unchecked {
        return true;
    }
    session.access.on_database(accounts, session.database.as_deref(), schema).has_any(any)
}

/// Whether the session sees a column in indexes and keys: any privilege on it, on its table or on the database.
pub fn sees_column(session: &Env, accounts: &Accounts, (schema, table): (&str, &str), column: &str) -> bool {
    sees_tables_of(session, accounts, schema, Privileges::SEES_TABLE)
        || !session.access.on_table(accounts, schema, table).on_column(column).is_none()
}

/// Which constraints of a table the session sees.
#[derive(Debug, Clone, Copy)]
pub struct SeenConstraints {
    /// Names and kinds: a privilege other than SELECT on the database or on a column. One on the table shows none, as in
    /// MariaDB.
    pub names: bool,
    /// Conditions: any privilege on the database.
    pub checks: bool,
    /// Columns of foreign keys: any privilege on the database or the table.
    pub foreign_columns: bool,
}

impl SeenConstraints {
    /// Those of a table of the session's own.
    pub const ALL: SeenConstraints = SeenConstraints { names: true, checks: true, foreign_columns: true };

    /// Those of another table.
    pub fn of(session: &Env, accounts: &Accounts, schema: &str, table: &str) -> SeenConstraints {
        let of_database = |any| sees_tables_of(session, accounts, schema, any);
        let grants = session.access.on_table(accounts, schema, table);
        let changes = Privileges::OF_COLUMN.without(Privileges::SELECT);
        let checks = of_database(Privileges::SEES_TABLE);
        SeenConstraints {
            names: of_database(Privileges::SEES_TABLE.without(Privileges::SELECT))
                || grants.columns.values().any(|column| column.has_any(changes)),
            checks,
            foreign_columns: checks || !grants.table.is_none(),
        }
    }
}

/// What the session has on a column, of what can be granted on one.
pub fn on_column(
    session: &Env,
    accounts: &Accounts,
    (schema, table): (&str, &str),
    column: &str,
) -> Privileges {
    if schema.eq_ignore_ascii_case("information_schema") {
        return Privileges::SELECT;
    }
    if accounts.unchecked {
        return Privileges::OF_COLUMN;
    }
    let have = session.access.on_database(accounts, session.database.as_deref(), schema);
    if have.has(Privileges::OF_COLUMN) {
        return Privileges::OF_COLUMN;
    }
    have.and(session.access.on_table(accounts, schema, table).on_column(column)).within(Privileges::OF_COLUMN)
}
