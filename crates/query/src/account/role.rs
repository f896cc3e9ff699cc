//! Roles: CREATE, DROP, GRANT, REVOKE, SET ROLE, SET DEFAULT ROLE.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_sql::ast;

use super::change::{Edit, give_role};
use super::expand::{Name, not_granted, require_manager, require_mysql, role_name};
use super::{Account, Accounts, Granted, Privileges};
use crate::Database;
use crate::session::Session;

impl Database {
    /// CREATE ROLE.
    pub(crate) fn create_roles(&self, session: &mut Session, create: &ast::CreateRole) -> SqlResult<()> {
        require_manager(session, &self.catalog().accounts, Privileges::INSERT)?;
        if create.or_replace {
            require_manager(session, &self.catalog().accounts, Privileges::DELETE)?;
        }
        create.roles.iter().try_for_each(|role| role_name(role))?;
        let admin = Name::of(session, create.admin.as_ref().unwrap_or(&ast::Account::CurrentUser))?;
        self.change_accounts(session, |edit, session| {
            let mut failed = Vec::new();
            for name in &create.roles {
                if let Some(known) = edit.accounts.role(name).cloned() {
                    if create.if_not_exists {
                        session.note(errors::role_create_exists(name));
                        continue;
                    }
                    if !create.or_replace {
                        failed.push(format!("'{name}'"));
                        continue;
                    }
                    remove_role(edit, &known);
                }
                let role = Account::new(name, "", true);
                let name = role.user.clone();
                edit.put(role);
                let Some(owner) = admin.find(&edit.accounts) else {
                    session.warn(errors::password_no_match());
                    continue;
                };
                let mut owner = Account::clone(owner);
                give_role(&mut owner, &name, true);
                edit.put(owner);
            }
            Ok(complain("CREATE ROLE", &failed))
        })
    }

    /// DROP ROLE.
    pub(crate) fn drop_roles(
        &self,
        session: &mut Session,
        roles: &[String],
        if_exists: bool,
    ) -> SqlResult<()> {
        require_manager(session, &self.catalog().accounts, Privileges::DELETE)?;
        self.change_accounts(session, |edit, session| {
            let mut failed = Vec::new();
            for name in roles {
                match edit.accounts.role(name).cloned() {
                    Some(role) => remove_role(edit, &role),
                    None if if_exists => session.note(errors::role_drop_exists(name)),
                    None => failed.push(format!("'{name}'")),
                }
            }
            Ok(complain("DROP ROLE", &failed))
        })
    }

    /// GRANT role, REVOKE role.
    pub(crate) fn grant_role(
        &self,
        session: &mut Session,
        role: &str,
        grant: &ast::Grant,
        revoke: bool,
    ) -> SqlResult<()> {
        self.change_accounts(session, |edit, session| {
            let Some(role) = edit.accounts.role(role).map(|role| role.user.clone()) else {
                return Err(errors::invalid_role(role));
            };
            if !may_grant(session, &edit.accounts, &role) {
                let access = &session.access;
                return Err(errors::access_denied_no_password(&access.user, &access.host));
            }
            let mut outcome = Ok(());
            let mut failed = Vec::new();
            for spec in &grant.to {
                let name = Name::of(session, &spec.account)?;
                let Some(account) = name.find(&edit.accounts).cloned() else {
                    outcome = outcome.and(match revoke {
                        true => {
                            failed.push(name.quoted());
                            Ok(())
                        }
                        false => Err(errors::password_no_match()),
                    });
                    continue;
                };
                let fits = match revoke {
                    true => take_role(edit, &account, &role, grant.grant_option),
                    false => add_role(edit, &account, &role, grant.grant_option),
                };
                if !fits {
                    failed.push(account.quoted());
                }
            }
            if !failed.is_empty() {
                let whom = failed.join(",");
                outcome = outcome.and(Err(match revoke {
                    true => errors::cannot_revoke_role(&role, whom),
                    false => errors::cannot_grant_role(&role, whom),
                }));
            }
            Ok(outcome)
        })
    }

    /// SET ROLE; none is NONE.
    pub fn set_role(&self, session: &mut Session, role: Option<&str>) -> SqlResult<()> {
        let accounts = self.catalog().accounts.clone();
        if accounts.unchecked {
            return Err(errors::option_prevents_statement("--skip-grant-tables"));
        }
        let role = match role {
            None => None,
            Some(name) => Some(available(session, &accounts, name)?),
        };
        session.access.choose_role(&accounts, role);
        let database = session.database.clone();
        session.access.choose_database(&accounts, database.as_deref());
        Ok(())
    }

    /// SET DEFAULT ROLE; none is NONE.
    pub fn set_default_role(
        &self,
        session: &mut Session,
        role: Option<&str>,
        whose: Option<&ast::Account>,
    ) -> SqlResult<()> {
        self.refuse_unchecked()?;
        let name = Name::of(session, whose.unwrap_or(&ast::Account::CurrentUser))?;
        let own = name.user == *session.access.user && name.host == *session.access.host;
        if !own {
            require_mysql(session, &self.catalog().accounts, Privileges::UPDATE)?;
        }
        self.change_accounts(session, |edit, session| {
            let Some(account) = edit.accounts.user(&name.user, &name.host).cloned() else {
                return Err(errors::password_no_match());
            };
            let role = match role {
                None => None,
                Some(role) if edit.accounts.role(role).is_none() => return Err(errors::invalid_role(role)),
                Some(role) => Some(role),
            };
            if let Some(role) = role
                && !edit.accounts.has_role(&account, role)
            {
                return Err(if own { not_granted(session, role) } else { other_not_granted(&account, role) });
            }
            edit.put(Account { default_role: role.map(Arc::from), ..Account::clone(&account) });
            Ok(Ok(()))
        })
    }
}

fn complain(operation: &str, failed: &[String]) -> SqlResult<()> {
    if failed.is_empty() { Ok(()) } else { Err(errors::cannot_user(operation, failed.join(","))) }
}

fn other_not_granted(account: &Account, role: &str) -> keel_base::SqlError {
    let message = format!("User `{}`@`{}` has not been granted role `{role}`", account.user, account.host);
    keel_base::SqlError { message: message.into(), ..errors::invalid_role(role) }
}

/// The role, if the session's account has it.
fn available(session: &Session, accounts: &Accounts, name: &str) -> SqlResult<Arc<str>> {
    let role = accounts.role(name).ok_or_else(|| errors::invalid_role(name))?;
    let account = accounts.user(&session.access.user, &session.access.host);
    let is_own = |account: &&Arc<Account>| account.roles.iter().any(|granted| *granted.role == *role.user);
    match account.is_some_and(|account| accounts.has_role(account, name)) {
        true if account.filter(is_own).is_some() => Ok(role.user.clone()),
        // Roles of roles come with those.
        true => Err(not_granted(session, name)),
        // Who may read `mysql` may know that there is such a role.
        false if require_mysql(session, accounts, Privileges::SELECT).is_ok() => {
            Err(not_granted(session, name))
        }
        false => Err(errors::invalid_role(name)),
    }
}

/// Whether the session has the admin option of a role, by its account or its enabled roles.
fn may_grant(session: &Session, accounts: &Accounts, role: &str) -> bool {
    let has = |account: &&Arc<Account>| account.roles.iter().any(|g| g.admin && *g.role == *role);
    session.access.holders(accounts).iter().any(has)
}

/// False where it would make a ring.
fn add_role(edit: &mut Edit, account: &Account, role: &Arc<str>, admin: bool) -> bool {
    let ring = || edit.accounts.closure(role).iter().any(|r| r.user == account.user);
    if account.is_role && ring() {
        return false;
    }
    let mut changed = Account::clone(account);
    give_role(&mut changed, role, admin);
    edit.put(changed);
    true
}

/// Takes a role back, or its admin option only; false where the account has not got it.
fn take_role(edit: &mut Edit, account: &Account, role: &Arc<str>, admin_only: bool) -> bool {
    let mut changed = Account::clone(account);
    let Some(place) = changed.roles.iter().position(|granted| granted.role == *role) else { return false };
    if admin_only {
        changed.roles[place].admin = false;
    } else {
        changed.roles.remove(place);
    }
    edit.put(changed);
    true
}

/// Drops a role, which nobody has any more.
fn remove_role(edit: &mut Edit, role: &Arc<Account>) {
    edit.remove(role);
    edit.each(|account| {
        let had = account.roles.len();
        account.roles.retain(|Granted { role: name, .. }| *name != role.user);
        let was_default = account.default_role.as_deref() == Some(&*role.user);
        if was_default {
            account.default_role = None;
        }
        was_default || account.roles.len() != had
    });
}
