//! SHOW GRANTS, SHOW CREATE USER, SHOW PRIVILEGES.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_catalog::account::{Account, Accounts, PUBLIC, Privileges};
use keel_catalog::layout::Layout;
use keel_definitions::account::show;
use keel_expr::rights as see;
use keel_sql::ast;

use super::{Caller, Plain, Rows, varchar};
use crate::schema::text;

/// The account that a statement means, if it is there.
fn find<'a>(
    caller: &Caller<'_>,
    accounts: &'a Accounts,
    whose: Option<&ast::Account>,
) -> Option<&'a Arc<Account>> {
    let access = &caller.session.access;
    match whose {
        None | Some(ast::Account::CurrentUser) => accounts.user(&access.user, &access.host),
        Some(ast::Account::CurrentRole) => accounts.role(access.role.as_deref()?),
        Some(ast::Account::Role(role)) => accounts.role(role),
        Some(ast::Account::User { user, .. }) if user.eq_ignore_ascii_case(PUBLIC) => accounts.role(PUBLIC),
        Some(ast::Account::User { user, host }) => {
            accounts.find(user, if host.is_empty() { "%" } else { host })
        }
    }
}

/// Refuses what does not concern the session's own account or roles to who may not read `mysql`.
fn check(caller: &Caller<'_>, accounts: &Accounts, whose: Option<&ast::Account>) -> SqlResult<()> {
    let access = &caller.session.access;
    let own = match whose {
        None | Some(ast::Account::CurrentUser | ast::Account::CurrentRole) => true,
        Some(ast::Account::User { user, host }) => {
            let is_role = access.role.as_deref() == Some(user);
            (*user == *access.user && *host == *access.host) || (host == "%" && is_role)
        }
        Some(ast::Account::Role(_)) => false,
    };
    if own { Ok(()) } else { see::require_mysql(caller.session, accounts, Privileges::SELECT) }
}

/// Whether the session's own account is meant, as a user and not as a role.
fn names_own_user(caller: &Caller<'_>, whose: Option<&ast::Account>) -> bool {
    let access = &caller.session.access;
    match whose {
        None | Some(ast::Account::CurrentUser) => true,
        Some(ast::Account::User { user, host }) => *user == *access.user && *host == *access.host,
        Some(ast::Account::CurrentRole | ast::Account::Role(_)) => false,
    }
}

/// SHOW GRANTS.
pub fn grants(caller: &Caller<'_>, whose: Option<&ast::Account>) -> SqlResult<Rows> {
    let catalog = caller.served.database().catalog();
    let accounts = &catalog.accounts;
    if accounts.unchecked {
        return Err(errors::option_prevents_statement("--skip-grant-tables"));
    }
    check(caller, accounts, whose)?;
    let Some(account) = find(caller, accounts, whose) else {
        return Err(match whose {
            Some(ast::Account::User { user, host }) => errors::nonexisting_grant(user, host),
            _ => errors::nonexisting_grant(&caller.session.access.user, &caller.session.access.host),
        });
    };
    let mut lines = match account.is_role {
        true => show::grants_of_role(accounts, &account.user),
        false => show::own_grants(account),
    };
    if whose.is_none()
        && let Some(role) = &caller.session.access.role
    {
        lines.extend(show::grants_of_role(accounts, role));
    }
    if !account.is_role {
        lines.extend(show::default_role(account));
    }
    if whose.is_none() {
        lines.extend(show::grants_of_role(accounts, PUBLIC));
    }
    let title = format!("Grants for {}", show::title(account));
    let layout = Layout::of(&caller.session.vars);
    let rows = lines.into_iter().map(|line| vec![text(layout.quoted(&line))]).collect();
    Ok(Rows::plain(vec![Plain(&title, varchar(1024), false)], rows))
}

/// SHOW CREATE USER.
pub fn create_user(caller: &Caller<'_>, whose: Option<&ast::Account>) -> SqlResult<Rows> {
    let catalog = caller.served.database().catalog();
    let account = find(caller, &catalog.accounts, whose).filter(|account| !account.is_role);
    // The session's own account may have been dropped; roles are never shown.
    if account.is_none() && !names_own_user(caller, whose) {
        see::require_mysql(caller.session, &catalog.accounts, Privileges::SELECT)?;
    }
    check(caller, &catalog.accounts, whose)?;
    let account = account.ok_or_else(errors::password_no_match)?;
    let title = format!("CREATE USER for {}", show::title(account));
    let layout = Layout::of(&caller.session.vars);
    let lines = std::iter::once(show::create_user(account)).chain(show::lifetime_of_expired(account));
    let rows = lines.map(|line| vec![text(layout.quoted(&line))]).collect();
    Ok(Rows::plain(vec![Plain(&title, varchar(1024), false)], rows))
}

/// What there is to be allowed, in MariaDB's order.
const PRIVILEGES: &[(&str, &str, &str)] = &[
    ("Alter", "Tables", "To change tables"),
    ("Alter routine", "Functions,Procedures", "To change and drop routines"),
    ("Create", "Databases,Tables,Indexes", "To make databases, tables and indexes"),
    ("Create routine", "Databases", "To make routines"),
    ("Create temporary tables", "Databases", "To make temporary tables"),
    ("Create view", "Tables", "To make views"),
    ("Create user", "Server Admin", "To make, change and drop accounts"),
    ("Delete", "Tables", "To delete rows"),
    ("Delete history", "Tables", "To delete old versions of rows"),
    ("Drop", "Databases,Tables", "To drop databases and tables"),
    ("Event", "Server Admin", "To use events"),
    ("Execute", "Functions,Procedures", "To run routines"),
    ("File", "File access on server", "To read and write the server's files"),
    ("Grant option", "Databases,Tables,Functions,Procedures", "To give away what one has"),
    ("Index", "Tables", "To make and drop indexes"),
    ("Insert", "Tables", "To insert rows"),
    ("Lock tables", "Databases", "To use LOCK TABLES, with SELECT"),
    ("Process", "Server Admin", "To see what all sessions do"),
    ("Proxy", "Server Admin", "To stand for another account"),
    ("References", "Databases,Tables", "To refer to tables by foreign keys"),
    ("Reload", "Server Admin", "To use FLUSH"),
    ("Binlog admin", "Server", "To purge binary logs"),
    ("Binlog monitor", "Server", "To see the binary log's state"),
    ("Binlog replay", "Server", "To use BINLOG"),
    ("Replication master admin", "Server", "To see connected replicas"),
    ("Replication slave admin", "Server", "To start and stop replicas"),
    ("Slave monitor", "Server", "To see a replica's state"),
    ("Replication slave", "Server Admin", "To read the binary log"),
    ("Select", "Tables", "To read rows"),
    ("Show databases", "Server Admin", "To see all databases"),
    ("Show view", "Tables", "To see how views are made"),
    ("Shutdown", "Server Admin", "To stop the server"),
    ("Super", "Server Admin", "To use SET GLOBAL and more"),
    ("Trigger", "Tables", "To use triggers"),
    ("Create tablespace", "Server Admin", "To make tablespaces"),
    ("Update", "Tables", "To change rows"),
    ("Set user", "Server", "To make views for another account"),
    ("Federated admin", "Server", "To define foreign servers"),
    ("Connection admin", "Server", "To pass connection limits and end connections"),
    ("Read_only admin", "Server", "To write where read_only is on"),
    ("Usage", "Server Admin", "Nothing: to connect only"),
];

/// SHOW PRIVILEGES.
pub fn privileges() -> Rows {
    let columns = vec![
        Plain("Privilege", varchar(10), false),
        Plain("Context", varchar(15), false),
        Plain("Comment", varchar(64), false),
    ];
    let rows =
        PRIVILEGES.iter().map(|(name, context, comment)| vec![text(name), text(context), text(comment)]);
    Rows::plain(columns, rows.collect())
}
