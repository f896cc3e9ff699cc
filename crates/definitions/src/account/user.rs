//! CREATE USER, ALTER USER, DROP USER, RENAME USER, SET PASSWORD.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_catalog::account::auth::{self, Auth, NATIVE};
use keel_catalog::account::{Account, Lifetime, Privileges, Require};
use keel_exec::session::Session;
use keel_expr::rights::require_mysql;
use keel_sql::ast::{self, AuthSpec, CreateUser, PasswordExpire, PasswordValue, UserOptions};
use keel_storage::runtime::time;

use super::change::Edit;
use super::expand::{Name, require_manager};
use crate::ddl::Definer;

impl Definer<'_> {
    /// CREATE USER and ALTER USER.
    pub(crate) fn create_users(&self, session: &mut Session, create: &CreateUser) -> SqlResult<()> {
        let wanted = if create.alter { Privileges::UPDATE } else { Privileges::INSERT };
        require_manager(session, &self.catalog().accounts, wanted)?;
        if create.or_replace {
            require_manager(session, &self.catalog().accounts, Privileges::DELETE)?;
            if create.if_exists_clause {
                return Err(errors::wrong_usage("OR REPLACE", "IF NOT EXISTS"));
            }
        }
        // What is written wrong changes nothing at all.
        for spec in &create.users {
            let name = Name::of(session, &spec.account)?;
            let Err(error) = ways(&spec.auth) else { continue };
            // ALTER USER names the account that could not be changed, and says before why.
            if create.alter {
                session.push_error(&error);
                return Err(errors::cannot_user("ALTER USER", name.quoted()));
            }
            let is_there = self.catalog().accounts.user(&name.user, &name.host).is_some();
            if !is_there || create.or_replace {
                return Err(error);
            }
        }
        self.change_accounts(session, |edit, session| {
            let mut failed = Vec::new();
            for spec in &create.users {
                let name = Name::of(session, &spec.account)?;
                if !put_user(edit, session, create, spec, &name)? {
                    // MariaDB's words for an account that was dropped under its session.
                    let is_own = create.alter && matches!(spec.account, ast::Account::CurrentUser);
                    failed.push(if is_own { "'*current_user'".into() } else { name.quoted() });
                }
            }
            let outcome = complain(if create.alter { "ALTER USER" } else { "CREATE USER" }, &failed);
            if let (Err(error), true, true) = (&outcome, create.alter, create.if_exists_clause) {
                session.note(error.clone());
                return Ok(Ok(()));
            }
            Ok(outcome)
        })
    }

    /// DROP USER.
    pub(crate) fn drop_users(
        &self,
        session: &mut Session,
        users: &[ast::Account],
        if_exists: bool,
    ) -> SqlResult<()> {
        require_manager(session, &self.catalog().accounts, Privileges::DELETE)?;
        self.change_accounts(session, |edit, session| {
            let mut failed = Vec::new();
            for account in users {
                let name = Name::of(session, account)?;
                match edit.accounts.user(&name.user, &name.host).cloned() {
                    Some(account) => edit.remove(&account),
                    None if if_exists => session.note(errors::user_drop_exists(&name.user, &name.host)),
                    None => failed.push(name.quoted()),
                }
            }
            Ok(complain("DROP USER", &failed))
        })
    }

    /// RENAME USER.
    pub(crate) fn rename_users(
        &self,
        session: &mut Session,
        renames: &[(ast::Account, ast::Account)],
    ) -> SqlResult<()> {
        require_manager(session, &self.catalog().accounts, Privileges::UPDATE)?;
        self.change_accounts(session, |edit, session| {
            let mut failed = Vec::new();
            for (old, new) in renames {
                let (old, new) = (Name::of(session, old)?, Name::of(session, new)?);
                let known = edit.accounts.user(&old.user, &old.host).cloned();
                match known.filter(|_| edit.accounts.user(&new.user, &new.host).is_none()) {
                    None => failed.push(old.quoted()),
                    Some(account) => {
                        edit.remove(&account);
                        let fresh = Account::new(&new.user, &new.host, false);
                        let (id, user, host) = (fresh.id, fresh.user, fresh.host);
                        edit.put(Account { id, user, host, ..Account::clone(&account) });
                    }
                }
            }
            Ok(complain("RENAME USER", &failed))
        })
    }

    /// SET PASSWORD.
    pub fn set_password(
        &self,
        session: &mut Session,
        whose: Option<&ast::Account>,
        password: &PasswordValue,
    ) -> SqlResult<()> {
        self.refuse_unchecked()?;
        let name = Name::of(session, whose.unwrap_or(&ast::Account::CurrentUser))?;
        let own = name.user == *session.access.user && name.host == *session.access.host;
        if !own {
            require_mysql(session, &self.catalog().accounts, Privileges::UPDATE)?;
        } else if session.access.user.is_empty() {
            return Err(errors::password_anonymous_user());
        }
        self.change_accounts(session, |edit, session| {
            let Some(account) = edit.accounts.user(&name.user, &name.host) else {
                return Err(errors::password_no_match());
            };
            let mut account = Account::clone(account);
            let Some(way) = account.auth.iter_mut().find(|way| way.has_password()) else {
                let plugin = account.auth.first().map_or(NATIVE, |way| &way.plugin);
                return Err(errors::set_password_auth_plugin(plugin));
            };
            way.string = stored(&way.plugin, Some(password))?;
            account.password_changed = now();
            edit.put(account);
            if own {
                session.access.expired = false;
            }
            Ok(Ok(()))
        })
    }
}

/// 1396 with the accounts for which something failed.
fn complain(operation: &str, failed: &[String]) -> SqlResult<()> {
    if failed.is_empty() { Ok(()) } else { Err(errors::cannot_user(operation, failed.join(","))) }
}

/// Seconds since 1970.
fn now() -> i64 {
    time::unix_micros() / 1_000_000
}

/// Makes or changes one account; false where it is there already, or is not.
fn put_user(
    edit: &mut Edit,
    session: &mut Session,
    create: &CreateUser,
    spec: &ast::UserSpec,
    name: &Name,
) -> SqlResult<bool> {
    let known = edit.accounts.user(&name.user, &name.host).cloned();
    let mut account = match (known, create.alter) {
        (Some(known), true) => Account::clone(&known),
        (None, true) => {
            session.push_error(&match spec.auth.is_empty() {
                true => errors::password_no_match(),
                false => errors::cant_create_user_with_grant(),
            });
            return Ok(false);
        }
        (Some(_), false) if create.if_exists_clause => {
            session.note(errors::user_create_exists(&name.user, &name.host));
            return Ok(true);
        }
        (Some(_), false) if !create.or_replace => return Ok(false),
        (_, false) => fresh(name),
    };
    set_auth(&mut account, &spec.auth)?;
    set_options(&mut account, &create.options);
    edit.put(account);
    Ok(true)
}

/// A new user without privileges and without a password.
pub(super) fn fresh(name: &Name) -> Account {
    let mut account = Account::new(&name.user, &name.host, false);
    account.auth = vec![Auth::native(String::new())];
    account.password_changed = now();
    account
}

/// What IDENTIFIED says.
fn ways(specs: &[AuthSpec]) -> SqlResult<Vec<Auth>> {
    let way = |spec: &AuthSpec| {
        Ok(match spec {
            AuthSpec::Password(text) => Auth::native(auth::hashed(NATIVE, text)),
            AuthSpec::Hash(hash) => {
                auth::check_hash(NATIVE, &hash.to_text())?;
                Auth::native(hash.to_text())
            }
            AuthSpec::Plugin { name, using } => {
                let plugin = auth::plugin(name)?;
                let string = stored(&plugin, using.as_ref())?;
                Auth { plugin, string }
            }
        })
    };
    specs.iter().map(way).collect()
}

/// Takes what IDENTIFIED says, if it is said.
pub(super) fn set_auth(account: &mut Account, specs: &[AuthSpec]) -> SqlResult<()> {
    if !specs.is_empty() {
        account.auth = ways(specs)?;
        account.password_changed = now();
    }
    Ok(())
}

/// What a plugin keeps of what it is given.
fn stored(plugin: &Arc<str>, given: Option<&PasswordValue>) -> SqlResult<String> {
    let hash = match given {
        Some(PasswordValue::Plain(text)) => {
            auth::check_password(plugin, text)?;
            return Ok(auth::hashed(plugin, text));
        }
        Some(PasswordValue::Hash(text)) => text.to_text(),
        None => String::new(),
    };
    auth::check_hash(plugin, &hash)?;
    Ok(hash)
}

/// REQUIRE, WITH, ACCOUNT, PASSWORD EXPIRE.
pub(super) fn set_options(account: &mut Account, options: &UserOptions) {
    if !options.require.is_empty() {
        account.require = require(options);
    }
    for (name, value) in &options.limits {
        // The cast takes the most that fits.
        let count = *value as u32;
        let limits = &mut account.limits;
        match name.as_str() {
            "MAX_QUERIES_PER_HOUR" => limits.queries = count,
            "MAX_UPDATES_PER_HOUR" => limits.updates = count,
            "MAX_CONNECTIONS_PER_HOUR" => limits.connections = count,
            // The cast takes the nearest that fits.
            "MAX_USER_CONNECTIONS" => limits.at_once = *value as i32,
            _ => limits.statement_time = *value,
        }
    }
    if let Some(locked) = options.lock {
        account.locked = locked;
    }
    match options.expire {
        None => {}
        Some(PasswordExpire::Now) => account.password_changed = 0,
        Some(PasswordExpire::Never) => account.lifetime = Lifetime::Never,
        Some(PasswordExpire::Default) => account.lifetime = Lifetime::Default,
        Some(PasswordExpire::Days(days)) => {
            account.lifetime = Lifetime::Days(u32::try_from(days).unwrap_or(u32::MAX));
        }
    }
}

fn require(options: &UserOptions) -> Require {
    let (mut issuer, mut subject, mut cipher) = (String::new(), String::new(), String::new());
    for (word, text) in &options.require {
        let text = text.as_ref().map(ast::ByteStr::to_text).unwrap_or_default();
        match word.as_str() {
            "NONE" => return Require::None,
            "SSL" => return Require::Ssl,
            "X509" => return Require::X509,
            "ISSUER" => issuer = text,
            "SUBJECT" => subject = text,
            _ => cipher = text,
        }
    }
    Require::Specified { issuer, subject, cipher }
}
