//! Accounts as SQL: SHOW GRANTS, SHOW CREATE USER.

use std::cmp::Reverse;

use keel_catalog::account::auth::NATIVE;
use keel_catalog::account::{Account, Accounts, Lifetime, PUBLIC, Privileges, Require, TableGrants, pattern};
use keel_catalog::names::push_quoted;

/// `` `user`@`host` ``, a role without a host.
pub fn name(account: &Account) -> String {
    let mut out = String::new();
    if account.is_role && *account.user == *PUBLIC {
        return PUBLIC.into();
    }
    push_quoted(&mut out, &account.user);
    if !account.is_role {
        out.push('@');
        push_quoted(&mut out, &account.host);
    }
    out
}

/// `user@host`, as titles say it.
pub fn title(account: &Account) -> String {
    if account.is_role { account.user.to_string() } else { format!("{}@{}", account.user, account.host) }
}

/// What SHOW GRANTS says of an account alone: a statement a row.
pub fn own_grants(account: &Account) -> Vec<String> {
    let mut out = roles(account);
    if account.is_role && *account.user == *PUBLIC && account.global.is_none() {
        out.extend(of_databases(account));
    } else {
        out.push(global(account));
        out.extend(of_databases(account));
    }
    out.extend(
        account.tables.iter().map(|((database, table), grants)| of_table(account, database, table, grants)),
    );
    for proxied in &account.proxied {
        let mut text = String::from("GRANT PROXY ON ");
        push_quoted(&mut text, &proxied.user);
        text.push('@');
        push_quoted(&mut text, &proxied.host);
        text += &format!(" TO {}", name(account));
        if proxied.grant {
            text += " WITH GRANT OPTION";
        }
        out.push(text);
    }
    out
}

/// What SHOW GRANTS says of a role: with all roles that it has.
pub fn grants_of_role(accounts: &Accounts, role: &str) -> Vec<String> {
    accounts.closure(role).into_iter().flat_map(|role| own_grants(role)).collect()
}

/// SET DEFAULT ROLE, where there is one.
pub fn default_role(account: &Account) -> Option<String> {
    let role = account.default_role.as_ref()?;
    let mut out = String::from("SET DEFAULT ROLE ");
    push_quoted(&mut out, role);
    Some(out + " FOR " + &name(account))
}

fn roles(account: &Account) -> Vec<String> {
    let text = |granted: &keel_catalog::account::Granted| {
        let mut out = String::from("GRANT ");
        push_quoted(&mut out, &granted.role);
        out += &format!(" TO {}", name(account));
        out + if granted.admin { " WITH ADMIN OPTION" } else { "" }
    };
    account.roles.iter().map(text).collect()
}

/// The privileges in words: ALL PRIVILEGES, some, or USAGE.
fn words(own: Privileges, all: Privileges) -> String {
    let given = own.without(Privileges::GRANT);
    if given.is_none() {
        "USAGE".into()
    } else if given.has(all.without(Privileges::GRANT)) {
        "ALL PRIVILEGES".into()
    } else {
        given.list()
    }
}

fn global(account: &Account) -> String {
    let mut out = format!("GRANT {} ON *.* TO {}", words(account.global, Privileges::ALL), name(account));
    out += &identified(account);
    out += &required(account);
    let limits = limits(account);
    let may_grant = account.global.has(Privileges::GRANT);
    if may_grant || !limits.is_empty() {
        out += " WITH";
    }
    if may_grant {
        out += " GRANT OPTION";
    }
    out + &limits
}

fn of_databases(account: &Account) -> Vec<String> {
    let mut databases: Vec<_> = account.databases.iter().collect();
    databases.sort_by_key(|(name, _)| (Reverse(pattern::exactness(name)), (*name).clone()));
    let text = |database: &str, own: &Privileges| {
        let mut out = format!("GRANT {} ON ", words(*own, Privileges::OF_DATABASE));
        push_quoted(&mut out, database);
        out += &format!(".* TO {}", name(account));
        out + if own.has(Privileges::GRANT) { " WITH GRANT OPTION" } else { "" }
    };
    databases.into_iter().map(|(database, own)| text(database, own)).collect()
}

fn of_table(account: &Account, database: &str, table: &str, grants: &TableGrants) -> String {
    let all = Privileges::OF_TABLE.without(Privileges::GRANT);
    let mut given: Vec<String> = Vec::new();
    if grants.table.has(all) {
        given.push("ALL PRIVILEGES".into());
    } else {
        for (privilege, word) in keel_catalog::account::privilege::NAMES {
            if grants.table.has(*privilege) && *privilege != Privileges::GRANT {
                given.push((*word).into());
            }
            let columns: Vec<String> = grants
                .columns
                .iter()
                .filter(|(_, own)| own.has(*privilege))
                .map(|(column, _)| quoted(column))
                .collect();
            if !columns.is_empty() {
                given.push(format!("{word} ({})", columns.join(", ")));
            }
        }
    }
    if given.is_empty() {
        given.push("USAGE".into());
    }
    let grant = if grants.table.has(Privileges::GRANT) { " WITH GRANT OPTION" } else { "" };
    format!(
        "GRANT {} ON {}.{} TO {}{grant}",
        given.join(", "),
        quoted(database),
        quoted(table),
        name(account)
    )
}

fn quoted(name: &str) -> String {
    let mut out = String::new();
    push_quoted(&mut out, name);
    out
}

fn text_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// IDENTIFIED, with a space before it.
fn identified(account: &Account) -> String {
    match account.auth.as_slice() {
        [] => String::new(),
        [only] if *only.plugin == *NATIVE && only.string.is_empty() => String::new(),
        [only] if *only.plugin == *NATIVE => format!(" IDENTIFIED BY PASSWORD {}", text_quoted(&only.string)),
        ways => {
            let way = |way: &keel_catalog::account::auth::Auth| match way.string.is_empty() {
                true => way.plugin.to_string(),
                false => format!("{} USING {}", way.plugin, text_quoted(&way.string)),
            };
            format!(" IDENTIFIED VIA {}", ways.iter().map(way).collect::<Vec<_>>().join(" OR "))
        }
    }
}

/// REQUIRE, with a space before it.
fn required(account: &Account) -> String {
    match &account.require {
        Require::None => String::new(),
        Require::Ssl => " REQUIRE SSL".into(),
        Require::X509 => " REQUIRE X509".into(),
        Require::Specified { issuer, subject, cipher } => {
            let parts = [("ISSUER", issuer), ("SUBJECT", subject), ("CIPHER", cipher)];
            let said = parts.iter().filter(|(_, text)| !text.is_empty());
            said.fold(String::from(" REQUIRE"), |out, (word, text)| {
                out + &format!(" {word} {}", text_quoted(text))
            })
        }
    }
}

/// The limits that are set, each with a space before it.
fn limits(account: &Account) -> String {
    let limits = account.limits;
    let counts = [
        ("MAX_QUERIES_PER_HOUR", i64::from(limits.queries)),
        ("MAX_UPDATES_PER_HOUR", i64::from(limits.updates)),
        ("MAX_CONNECTIONS_PER_HOUR", i64::from(limits.connections)),
        ("MAX_USER_CONNECTIONS", i64::from(limits.at_once)),
    ];
    let set = counts.iter().filter(|(_, count)| *count != 0);
    let mut out = set.fold(String::new(), |out, (word, count)| out + &format!(" {word} {count}"));
    if limits.statement_time != 0.0 {
        out += &format!(" MAX_STATEMENT_TIME {:.6}", limits.statement_time);
    }
    out
}

/// SHOW CREATE USER.
pub fn create_user(account: &Account) -> String {
    let mut out = format!("CREATE USER {}{}{}", name(account), identified(account), required(account));
    let limits = limits(account);
    if !limits.is_empty() {
        out += " WITH";
        out += &limits;
    }
    if account.locked {
        out += " ACCOUNT LOCK";
    }
    match account.lifetime {
        _ if has_expired(account) => out += " PASSWORD EXPIRE",
        Lifetime::Default => {}
        Lifetime::Never => out += " PASSWORD EXPIRE NEVER",
        Lifetime::Days(days) => out += &format!(" PASSWORD EXPIRE INTERVAL {days} DAY"),
    }
    out
}

/// What follows SHOW CREATE USER of an expired password, whose lifetime its own words do not say.
pub fn lifetime_of_expired(account: &Account) -> Option<String> {
    let whose = name(account);
    match account.lifetime {
        _ if !has_expired(account) => None,
        Lifetime::Default => None,
        Lifetime::Never => Some(format!("ALTER USER {whose} PASSWORD EXPIRE NEVER")),
        Lifetime::Days(days) => Some(format!("ALTER USER {whose} PASSWORD EXPIRE INTERVAL {days} DAY")),
    }
}

fn has_expired(account: &Account) -> bool {
    account.password_changed == 0 && account.auth.iter().any(|way| way.has_password())
}

/// All statements that make the accounts, in an order in which they can run. An account that is there already, as that of
/// whoever runs them is, is changed: one that is replaced has lost the privileges that the rest takes.
pub fn script<'a>(accounts: impl Iterator<Item = &'a Account> + Clone) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for role in accounts.clone().filter(|a| a.is_role && *a.user != *PUBLIC) {
        out.push(format!("CREATE ROLE IF NOT EXISTS {}", name(role)));
    }
    for user in accounts.clone().filter(|a| !a.is_role) {
        out.push(format!("CREATE USER IF NOT EXISTS {}", name(user)));
        out.push(create_user(user).replacen("CREATE USER", "ALTER USER", 1));
        out.extend(lifetime_of_expired(user));
    }
    for account in accounts.clone() {
        let is_empty =
            |text: &str| text.starts_with("GRANT USAGE ON *.*") && !text.ends_with("WITH GRANT OPTION");
        out.extend(own_grants(account).into_iter().filter(|text| !is_empty(text)));
    }
    out.extend(accounts.filter(|account| account.has_default_role()).filter_map(default_role));
    out
}
