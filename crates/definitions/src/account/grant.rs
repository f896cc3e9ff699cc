//! GRANT and REVOKE of privileges.

use keel_base::{SqlResult, errors};
use keel_catalog::account::{Account, PUBLIC, Privileges, Proxied};
use keel_catalog::names;
use keel_exec::session::Session;
use keel_expr::env::schema_of;
use keel_expr::rights::{self as see, database_denied, require_mysql};
use keel_planner::check;
use keel_sql::ast::{self, GrantLevel, GrantWhat};
use keel_value::SqlMode;

use super::change::Edit;
use super::expand::{Name, require_manager};
use super::user;
use crate::ddl::Definer;

/// What is granted, on what.
struct GrantRequest {
    /// On the whole.
    whole: Privileges,
    /// On columns.
    columns: Vec<(String, Privileges)>,
    level: Level,
}

enum Level {
    Global,
    Database(String),
    Table(String, String),
}

impl GrantRequest {
    /// All privileges that it names.
    fn all(&self) -> Privileges {
        self.columns.iter().fold(self.whole, |all, (_, p)| all.and(*p))
    }

    /// The same with what the grantor needs to give them.
    fn needed(&self) -> Privileges {
        self.all().and(Privileges::GRANT)
    }
}

impl Definer<'_> {
    /// GRANT, or REVOKE.
    pub(crate) fn grant(&self, session: &mut Session, grant: &ast::Grant, revoke: bool) -> SqlResult<()> {
        let (privileges, on) = match &grant.what {
            GrantWhat::Role(role) => return self.grant_role(session, role, grant, revoke),
            GrantWhat::Proxy(account) => return self.grant_proxy(session, account, grant, revoke),
            GrantWhat::Everything => return self.revoke_everything(session, grant),
            GrantWhat::Privileges { privileges, on } => (privileges, on),
        };
        let wanted = wanted(session, privileges, on, grant.grant_option)?;
        self.check_grantor(session, &wanted)?;
        self.refuse_writes(session)?;
        if let Level::Table(database, table) = &wanted.level
            && !revoke
        {
            self.check_granted_table(database, table, &wanted)?;
        }
        self.change_accounts(session, |edit, session| {
            let mut outcome = Ok(());
            for spec in &grant.to {
                let name = Name::of(session, &spec.account)?;
                let done = match revoke {
                    true => revoke_from(edit, &name, &wanted),
                    false => grant_to(edit, session, spec, &name, &wanted, &grant.options),
                };
                outcome = outcome.and(done);
            }
            Ok(outcome)
        })
    }

    /// Whether the session may give that away.
    fn check_grantor(&self, session: &Session, wanted: &GrantRequest) -> SqlResult<()> {
        let (access, accounts) = (&session.access, &self.catalog().accounts);
        let needed = wanted.needed();
        match &wanted.level {
            Level::Global if access.global.has(needed) => Ok(()),
            Level::Global => {
                let using = if access.with_password { "YES" } else { "NO" };
                Err(errors::access_denied(&access.user, &access.host, using))
            }
            Level::Database(database) => {
                let holders = access.holders(accounts);
                let given = holders.iter().map(|holder| holder.over_pattern(database));
                let has = given.fold(access.global, Privileges::and).has(needed);
                if has { Ok(()) } else { Err(database_denied(session, database)) }
            }
            Level::Table(database, table) => {
                check::lasting(session, accounts, (database, table), needed)?;
                let have = see::granted_on_table(session, accounts, database, table);
                let missing = wanted.whole.without(have);
                if !missing.is_none() {
                    return Err(check::denied(session, missing, database, table));
                }
                let grants = session.access.on_table(accounts, database, table);
                for (column, privileges) in &wanted.columns {
                    let missing = privileges.without(have.and(grants.on_column(column)));
                    if !missing.is_none() {
                        return Err(check::column_denied(session, missing, column, table));
                    }
                }
                Ok(())
            }
        }
    }

    /// The table is there with the columns, unless it may be made by what is granted.
    fn check_granted_table(&self, database: &str, table: &str, wanted: &GrantRequest) -> SqlResult<()> {
        let catalog = self.catalog();
        let of_table = catalog.table(database, table).cloned();
        let columns: Vec<String> = match (
            of_table.or_else(|| self.host().virtual_table(database, table)),
            catalog.view(database, table),
        ) {
            (Some(table), _) => table.columns.iter().map(|column| column.name.to_string()).collect(),
            (None, Some(view)) => view.columns.clone(),
            (None, None) => {
                let may_come = wanted.whole.has(Privileges::CREATE) && wanted.columns.is_empty();
                return if may_come { Ok(()) } else { Err(errors::no_such_table(database, table)) };
            }
        };
        let unknown = wanted.columns.iter().find(|(c, _)| !columns.iter().any(|known| names::same(known, c)));
        unknown.map_or(Ok(()), |(column, _)| Err(errors::bad_field(column, table)))
    }

    /// REVOKE ALL PRIVILEGES, GRANT OPTION.
    fn revoke_everything(&self, session: &mut Session, grant: &ast::Grant) -> SqlResult<()> {
        require_manager(session, &self.catalog().accounts, Privileges::UPDATE)?;
        self.change_accounts(session, |edit, session| {
            let mut outcome = Ok(());
            for spec in &grant.to {
                let name = Name::of(session, &spec.account)?;
                let Some(account) = name.find(&edit.accounts) else {
                    outcome = outcome.and(Err(errors::revoke_grants()));
                    continue;
                };
                let mut account = Account::clone(account);
                account.global = Privileges::NONE;
                account.databases.clear();
                account.tables.clear();
                account.roles.clear();
                edit.put(account);
            }
            Ok(outcome)
        })
    }

    /// GRANT PROXY, REVOKE PROXY.
    fn grant_proxy(
        &self,
        session: &mut Session,
        proxied: &ast::Account,
        grant: &ast::Grant,
        revoke: bool,
    ) -> SqlResult<()> {
        let whom = Name::of(session, proxied)?;
        let accounts = self.catalog().accounts.clone();
        let access = &session.access;
        let fits = |p: &Proxied| {
            p.grant && (p.user.is_empty() || p.user == whom.user) && (p.host == "%" || p.host == whom.host)
        };
        let own = access.holders(&accounts).iter().any(|account| account.proxied.iter().any(fits));
        let itself = *access.user == whom.user && *access.host == whom.host;
        if !own && !itself {
            return Err(errors::access_denied_no_password(&access.user, &session.client_host));
        }
        self.change_accounts(session, |edit, session| {
            let mut outcome = Ok(());
            for spec in &grant.to {
                let name = Name::of(session, &spec.account)?;
                let known = edit.accounts.user(&name.user, &name.host).cloned();
                let same = |p: &Proxied| p.user == whom.user && p.host == whom.host;
                if let Err(denied) = refuse_password(edit, session, spec, &name) {
                    outcome = outcome.and(Err(denied));
                    continue;
                }
                let Some(mut account) = known.map(|known| Account::clone(&known)) else {
                    let missing = match revoke {
                        true => errors::nonexisting_grant(&name.user, &name.host),
                        false => errors::password_no_match(),
                    };
                    outcome = outcome.and(Err(missing));
                    continue;
                };
                if !revoke && !spec.auth.is_empty() {
                    user::set_auth(&mut account, &spec.auth)?;
                }
                let had = account.proxied.iter().any(same);
                account.proxied.retain(|p| !same(p));
                if !revoke {
                    account.proxied.push(Proxied {
                        user: whom.user.clone(),
                        host: whom.host.clone(),
                        grant: grant.grant_option,
                    });
                } else if !had {
                    outcome = outcome.and(Err(errors::nonexisting_grant(&name.user, &name.host)));
                    continue;
                }
                edit.put(account);
            }
            Ok(outcome)
        })
    }
}

/// What the words mean on that level; 1144 and 1221 where they may not stand there.
fn wanted(
    session: &Session,
    privileges: &[(String, Vec<String>)],
    on: &GrantLevel,
    grant_option: bool,
) -> SqlResult<GrantRequest> {
    let (level, possible) = match on {
        GrantLevel::Global => (Level::Global, Privileges::ALL),
        GrantLevel::Database(database) => {
            let database = match database {
                Some(database) => database.clone(),
                None => session.require_database()?.to_string(),
            };
            (Level::Database(database), Privileges::OF_DATABASE)
        }
        GrantLevel::Table(name) => {
            let database = schema_of(session, name)?.to_string();
            (Level::Table(database, name.name.clone()), Privileges::OF_TABLE)
        }
        GrantLevel::Routine(kind, _) => {
            return Err(errors::not_supported_yet(format_args!("GRANT on a {kind}")));
        }
    };
    if let Level::Database(database) | Level::Table(database, _) = &level
        && database.eq_ignore_ascii_case("information_schema")
    {
        return Err(database_denied(session, database));
    }
    let mut wanted = GrantRequest { whole: Privileges::NONE, columns: Vec::new(), level };
    for (words, columns) in privileges {
        let privilege = match words.as_str() {
            "ALL PRIVILEGES" => possible.without(Privileges::GRANT),
            words => Privileges::named(words)
                .ok_or_else(|| errors::not_supported_yet(format_args!("GRANT {words}")))?,
        };
        for column in columns {
            match wanted.columns.iter_mut().find(|(name, _)| names::same(name, column)) {
                Some((_, known)) => *known = known.and(privilege),
                None => wanted.columns.push((column.clone(), privilege)),
            }
        }
        if columns.is_empty() {
            wanted.whole = wanted.whole.and(privilege);
        }
    }
    let is_table = matches!(wanted.level, Level::Table(..));
    if !wanted.columns.is_empty() && !is_table {
        return Err(errors::illegal_grant_for_table());
    }
    if !possible.has(wanted.whole) {
        return Err(match is_table {
            true => errors::illegal_grant_for_table(),
            false => errors::wrong_usage("DB GRANT", "GLOBAL PRIVILEGES"),
        });
    }
    if grant_option {
        wanted.whole = wanted.whole.and(Privileges::GRANT);
    }
    Ok(wanted)
}

/// The account that GRANT names; it is made where IDENTIFIED is said, or the mode allows.
fn grantee(edit: &Edit, session: &Session, spec: &ast::UserSpec, name: &Name) -> SqlResult<Account> {
    if let Some(known) = name.find(&edit.accounts) {
        return Ok(Account::clone(known));
    }
    if name.is_public() {
        return Ok(Account::new(PUBLIC, "", true));
    }
    if name.user.is_empty() && name.host == "%" {
        return Err(errors::invalid_role(""));
    }
    if spec.auth.is_empty() && session.vars.sql_mode.has(SqlMode::NO_AUTO_CREATE_USER) {
        return Err(errors::password_no_match());
    }
    let default = session.database.as_deref();
    let may_make = session.access.global.has(Privileges::CREATE_USER)
        || session.access.on_database(&edit.accounts, default, "mysql").has(Privileges::INSERT);
    if may_make { Ok(user::fresh(name)) } else { Err(errors::cant_create_user_with_grant()) }
}

/// 1044 where GRANT sets the password of an account that is there, by a session that may not change `mysql`.
fn refuse_password(edit: &Edit, session: &Session, spec: &ast::UserSpec, name: &Name) -> SqlResult<()> {
    let own = name.user == *session.access.user && name.host == *session.access.host;
    match spec.auth.is_empty() || own || edit.accounts.user(&name.user, &name.host).is_none() {
        true => Ok(()),
        false => require_mysql(session, &edit.accounts, Privileges::UPDATE),
    }
}

fn grant_to(
    edit: &mut Edit,
    session: &Session,
    spec: &ast::UserSpec,
    name: &Name,
    wanted: &GrantRequest,
    options: &ast::UserOptions,
) -> SqlResult<()> {
    refuse_password(edit, session, spec, name)?;
    let mut account = grantee(edit, session, spec, name)?;
    if !spec.auth.is_empty() || *options != ast::UserOptions::default() {
        let own = account.user == session.access.user && account.host == session.access.host;
        if !own || *options != ast::UserOptions::default() {
            require_manager(session, &edit.accounts, Privileges::UPDATE)?;
        }
        if account.is_role {
            return Err(errors::invalid_role(&account.user));
        }
        user::set_auth(&mut account, &spec.auth)?;
        user::set_options(&mut account, options);
    }
    match &wanted.level {
        Level::Global => account.global = account.global.and(wanted.whole),
        Level::Database(database) => {
            if !wanted.whole.is_none() {
                let own = account.databases.entry(database.as_str().into()).or_default();
                *own = own.and(wanted.whole);
            }
        }
        Level::Table(database, table) => {
            if !wanted.all().is_none() {
                let key = (database.as_str().into(), table.as_str().into());
                let grants = account.tables.entry(key).or_default();
                grants.table = grants.table.and(wanted.whole);
                for (column, privileges) in &wanted.columns {
                    let known = grants.columns.keys().find(|name| names::same(name, column)).cloned();
                    let own =
                        grants.columns.entry(known.unwrap_or_else(|| column.as_str().into())).or_default();
                    *own = own.and(*privileges);
                }
            }
        }
    }
    edit.put(account);
    Ok(())
}

fn revoke_from(edit: &mut Edit, name: &Name, wanted: &GrantRequest) -> SqlResult<()> {
    let missing = || errors::nonexisting_grant(&name.user, &name.host);
    let Some(account) = name.find(&edit.accounts) else { return Err(missing()) };
    let mut account = Account::clone(account);
    match &wanted.level {
        Level::Global => account.global = account.global.without(wanted.whole),
        Level::Database(database) => {
            let own = account.databases.get_mut(database.as_str()).ok_or_else(missing)?;
            *own = own.without(wanted.whole);
            account.databases.retain(|_, privileges| !privileges.is_none());
        }
        Level::Table(database, table) => {
            let missing = || errors::nonexisting_table_grant(&name.user, &name.host, table);
            let key = (Box::from(database.as_str()), Box::from(table.as_str()));
            let grants = account.tables.get_mut(&key).ok_or_else(missing)?;
            grants.table = grants.table.without(wanted.whole);
            grants.columns.values_mut().for_each(|own| *own = own.without(wanted.whole));
            for (column, privileges) in &wanted.columns {
                let own = grants.columns.iter_mut().find(|(name, _)| names::same(name, column));
                let own = own.map(|(_, own)| own).ok_or_else(missing)?;
                *own = own.without(*privileges);
            }
            grants.columns.retain(|_, own| !own.is_none());
            if grants.table.is_none() && grants.columns.is_empty() {
                account.tables.remove(&key);
            }
        }
    }
    edit.put(account);
    Ok(())
}
