//! Roles: CREATE, DROP, GRANT, REVOKE, SET ROLE, SET DEFAULT ROLE.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_catalog::account::{Account, Accounts, Granted, PUBLIC, Privileges};
use keel_exec::session::Session;
use keel_expr::rights::require_mysql;
use keel_sql::ast;

use super::change::{Edit, give_role};
use super::expand::{NONE, Name, not_granted, plain_role, real_role, require_manager, role_name};
use crate::ddl::Definer;

impl Definer<'_> {
    /// CREATE ROLE.
    pub(crate) fn create_roles(&self, session: &mut Session, create: &ast::CreateRole) -> SqlResult<()> {
        require_manager(session, &self.catalog().accounts, Privileges::INSERT)?;
        if create.or_replace {
            require_manager(session, &self.catalog().accounts, Privileges::DELETE)?;
        }
        let unknown = |_| errors::cannot_user("CREATE ROLE", "CURRENT_ROLE");
        let roles = create.roles.iter().map(|role| {
            role_name(session, role).map_err(unknown)?;
            Ok(real_role(session, role)?.to_string())
        });
        let roles = roles.collect::<SqlResult<Vec<String>>>()?;
        let admin = Name::of(session, create.admin.as_ref().unwrap_or(&ast::Account::CurrentUser))?;
        if admin.user.is_empty() || create.admin.is_some() && plain_role(&admin.user) != admin.user {
            return Err(errors::invalid_role(&admin.user));
        }
        self.change_accounts(session, |edit, session| {
            let mut failed = Vec::new();
            for name in &roles {
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
                    session.note(errors::no_such_user(&admin.user, &admin.host));
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
        roles: &[ast::RoleName],
        if_exists: bool,
    ) -> SqlResult<()> {
        require_manager(session, &self.catalog().accounts, Privileges::DELETE)?;
        let unknown = |_| errors::cannot_user("DROP ROLE", "CURRENT_ROLE");
        let roles = roles.iter().map(|role| Ok(role_name(session, role).map_err(unknown)?.to_string()));
        let roles = roles.collect::<SqlResult<Vec<String>>>()?;
        self.change_accounts(session, |edit, session| {
            let mut failed = Vec::new();
            for name in &roles {
                match edit.accounts.role(name).filter(|_| name != PUBLIC).cloned() {
                    Some(role) => remove_role(edit, &role),
                    None if if_exists => session.note(errors::role_drop_exists(name)),
                    None if name == PUBLIC => failed.push(name.clone()),
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
        role: &ast::RoleName,
        grant: &ast::Grant,
        revoke: bool,
    ) -> SqlResult<()> {
        let role = real_role(session, role)?.to_string();
        self.change_accounts(session, |edit, session| {
            let Some(role) = edit.accounts.role(&role).map(|role| role.user.clone()) else {
                return Err(errors::invalid_role(&role));
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

    /// SET ROLE.
    pub fn set_role(&self, session: &mut Session, role: &str) -> SqlResult<()> {
        let accounts = self.catalog().accounts.clone();
        if accounts.unchecked {
            return Err(errors::option_prevents_statement("--skip-grant-tables"));
        }
        let account = accounts.user(&session.access.user, &session.access.host);
        let name = Name {
            user: session.access.user.to_string(),
            host: session.client_host.to_string(),
            is_role: false,
        };
        let role = available(session, &accounts, account, &name, plain_role(role))?;
        session.access.choose_role(&accounts, role);
        let database = session.database.clone();
        session.access.choose_database(&accounts, database.as_deref());
        Ok(())
    }

    /// SET DEFAULT ROLE.
    pub fn set_default_role(
        &self,
        session: &mut Session,
        role: &ast::RoleName,
        whose: Option<&ast::Account>,
    ) -> SqlResult<()> {
        self.refuse_unchecked()?;
        let name = Name::of(session, whose.unwrap_or(&ast::Account::CurrentUser))?;
        let own = name.user == *session.access.user && name.host == *session.access.host;
        if !own {
            require_mysql(session, &self.catalog().accounts, Privileges::UPDATE)?;
        }
        let role = match (role, &session.access.role) {
            (ast::RoleName::Current, None) => NONE,
            _ => role_name(session, role)?,
        };
        let role = role.to_string();
        let catalog = self.catalog();
        let accounts = &catalog.accounts;
        // An error of the role precedes that of read_only.
        available(session, accounts, accounts.user(&name.user, &name.host), &name, &role)?;
        self.change_accounts(session, |edit, session| {
            let account = edit.accounts.user(&name.user, &name.host);
            let default_role = available(session, &edit.accounts, account, &name, &role)?;
            if let Some(account) = account.map(|account| Account::clone(account)) {
                edit.put(Account { default_role, ..account });
            }
            Ok(Ok(()))
        })
    }
}

fn complain(operation: &str, failed: &[String]) -> SqlResult<()> {
    if failed.is_empty() { Ok(()) } else { Err(errors::cannot_user(operation, failed.join(","))) }
}

/// The role that an account may choose, of which an error speaks by `name`: one that it has by itself, since roles of roles
/// come with those.
fn available(
    session: &Session,
    accounts: &Accounts,
    account: Option<&Arc<Account>>,
    name: &Name,
    role: &str,
) -> SqlResult<Option<Arc<str>>> {
    if role == NONE {
        return if account.is_some() { Ok(None) } else { Err(errors::invalid_current_user()) };
    }
    let role = accounts.role(role).filter(|_| role != PUBLIC).ok_or_else(|| errors::invalid_role(role))?;
    let is_own = |account: &&Arc<Account>| account.roles.iter().any(|granted| *granted.role == *role.user);
    if account.filter(is_own).is_some() {
        return Ok(Some(role.user.clone()));
    }
    // Who may read `mysql`, or has the role by others, may know that there is such a role.
    let comes_with = account.is_some_and(|account| accounts.has_role(account, &role.user));
    match comes_with || require_mysql(session, accounts, Privileges::SELECT).is_ok() {
        true => Err(not_granted(&name.user, &name.host, &role.user)),
        false => Err(errors::invalid_role(&role.user)),
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

/// Drops a role, which nobody has any more. Who has it as the default role gets one of that name again with the next grant.
fn remove_role(edit: &mut Edit, role: &Arc<Account>) {
    edit.remove(role);
    edit.each(|account| {
        let had = account.roles.len();
        account.roles.retain(|Granted { role: name, .. }| *name != role.user);
        account.roles.len() != had
    });
}
