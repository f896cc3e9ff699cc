//! Accounts as statements name them.

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, errors};
use keel_catalog::account::{Account, Accounts, PUBLIC, Privileges};
use keel_expr::Env;
use keel_expr::rights::require_global;
use keel_sql::ast;

/// Characters of a user's and of a role's name.
const USER_CHARS_MAX: usize = 128;
/// Characters of a name that is too long which its error shows.
const SHOWN_CHARS: usize = 67;
/// Characters of a host.
const HOST_CHARS_MAX: usize = 255;

/// A name and a host, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Name {
    pub user: String,
    pub host: String,
    /// CURRENT_ROLE: a role for sure.
    pub is_role: bool,
}

impl Name {
    /// What a statement means by an account.
    pub fn of(session: &Env, account: &ast::Account) -> SqlResult<Name> {
        let name = match account {
            ast::Account::User { user, host } => {
                let host = if host.is_empty() { "%" } else { host };
                Name { user: user.clone(), host: host.to_string(), is_role: false }
            }
            ast::Account::CurrentUser => {
                let access = &session.access;
                Name { user: access.user.to_string(), host: access.host.to_string(), is_role: false }
            }
            ast::Account::Role(role) => Name { user: role.clone(), host: String::new(), is_role: true },
            ast::Account::CurrentRole => match &session.access.role {
                Some(role) => Name { user: role.to_string(), host: String::new(), is_role: true },
                None => return Err(errors::malformed_definer()),
            },
        };
        check_length(&name.user, "user name", USER_CHARS_MAX)?;
        check_length(&name.host, "host name", HOST_CHARS_MAX)?;
        Ok(name)
    }

    /// The account itself, if it is there.
    pub fn find<'a>(&self, accounts: &'a Accounts) -> Option<&'a Arc<Account>> {
        match self.is_role {
            true => accounts.role(&self.user),
            false => accounts.find(&self.user, &self.host).or_else(|| self.as_public(accounts)),
        }
    }

    fn as_public<'a>(&self, accounts: &'a Accounts) -> Option<&'a Arc<Account>> {
        if self.is_public() { accounts.role(PUBLIC) } else { None }
    }

    /// Whether it is PUBLIC.
    pub fn is_public(&self) -> bool {
        self.host == "%" && self.user.eq_ignore_ascii_case(PUBLIC)
    }

    /// `'user'@'host'`, a role without a host.
    pub fn quoted(&self) -> String {
        if self.is_role { format!("'{}'", self.user) } else { format!("'{}'@'{}'", self.user, self.host) }
    }
}

/// 1470 for names that are too long or hold what no name may.
pub(crate) fn check_length(text: &str, what: &str, max: usize) -> SqlResult<()> {
    if text.contains('\0') {
        return Err(errors::cannot_user("CREATE USER", text.replace('\0', "\\0")));
    }
    if text.chars().count() > max {
        // MariaDB shows so many characters of it.
        let shown: String = text.chars().take(SHOWN_CHARS).collect();
        return Err(errors::too_long_string(format_args!("{shown}..."), what, max));
    }
    Ok(())
}

/// No role: what SET ROLE NONE and SET DEFAULT ROLE NONE choose.
pub(crate) const NONE: &str = "NONE";

/// A role's name as it is looked for: spaces at its end do not count, nor does the case of NONE and PUBLIC.
pub(crate) fn plain_role(name: &str) -> &str {
    let name = name.trim_end_matches(' ');
    let special = [NONE, PUBLIC].into_iter().find(|special| name.eq_ignore_ascii_case(special));
    special.unwrap_or(name)
}

/// The same of a role that a statement names; 1446 where the session has none that CURRENT_ROLE could be.
pub(crate) fn role_name<'r>(session: &'r Env, role: &'r ast::RoleName) -> SqlResult<&'r str> {
    match role {
        ast::RoleName::Named(name) => Ok(plain_role(name)),
        ast::RoleName::Current => session.access.role.as_deref().ok_or_else(errors::malformed_definer),
    }
}

/// The same, or 1959 where no role can be called so.
pub(crate) fn real_role<'r>(session: &'r Env, role: &'r ast::RoleName) -> SqlResult<&'r str> {
    let name = role_name(session, role)?;
    check_length(name, "user name", USER_CHARS_MAX)?;
    if name.is_empty() || name == NONE || name == PUBLIC {
        return Err(errors::invalid_role(name));
    }
    Ok(name)
}

/// 1227, unless the session may manage accounts: by CREATE USER, or by `table` on `mysql`.
pub(crate) fn require_manager(session: &Env, accounts: &Accounts, table: Privileges) -> SqlResult<()> {
    let default = session.database.as_deref();
    if session.access.on_database(accounts, default, "mysql").has(table) {
        return Ok(());
    }
    require_global(session, Privileges::CREATE_USER)
}

/// 1959 of a role that is there but was not granted.
#[cold]
pub(crate) fn not_granted(user: &str, host: &str, role: &str) -> SqlError {
    let message = format!("User `{user}`@`{host}` has not been granted role `{role}`");
    SqlError { message: message.into(), ..errors::invalid_role(role) }
}
