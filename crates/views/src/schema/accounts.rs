//! Accounts: the tables of privileges and roles of `information_schema`, and those of `mysql`, which are only read.
//!
//! Who may not read `mysql` sees only what concerns its own account.

use std::sync::Arc;

use keel_catalog::TableDef;
use keel_catalog::account::auth::NATIVE;
use keel_catalog::account::{Account, Lifetime, Privileges, Require};
use keel_expr::rights as see;
use keel_value::{Decimal, Value};

use super::{RowMaker, View, flag, moment, number, text, yes_no};

/// Makes the rows of one of these tables; false where it is none of them.
pub fn fill(view: &View<'_>, rows: &mut RowMaker<'_>) -> bool {
    match rows.table() {
        "USER_PRIVILEGES" => visible(view).filter(|a| !a.is_role).for_each(|a| user_privileges(rows, &a)),
        "SCHEMA_PRIVILEGES" => visible(view).for_each(|a| schema_privileges(rows, &a)),
        "TABLE_PRIVILEGES" => visible(view).for_each(|a| table_privileges(rows, &a)),
        "COLUMN_PRIVILEGES" => visible(view).for_each(|a| column_privileges(rows, &a)),
        "APPLICABLE_ROLES" => applicable_roles(view, rows),
        "ENABLED_ROLES" => enabled_roles(view, rows),
        _ => return false,
    }
    true
}

/// The accounts of which the session may see the privileges.
fn visible(view: &View<'_>) -> impl Iterator<Item = Arc<Account>> + use<> {
    let catalog = view.served.database().catalog();
    let sees_all = see::require_mysql(view.session, &catalog.accounts, Privileges::SELECT).is_ok();
    let access = view.session.access.clone();
    let mut all: Vec<Arc<Account>> = catalog.accounts.all().cloned().collect();
    // Those of a name stay in the order in which they are tried.
    all.sort_by(|a, b| a.user.cmp(&b.user));
    all.into_iter().filter(move |a| sees_all || (a.user == access.user && a.host == access.host))
}

fn grantee(account: &Account) -> Value {
    text(format!("'{}'@'{}'", account.user, account.host))
}

/// The names of privileges as rows list them: USAGE where there is none.
fn listed(own: Privileges) -> Vec<&'static str> {
    let names: Vec<&str> = own.without(Privileges::GRANT).names().collect();
    if names.is_empty() { vec!["USAGE"] } else { names }
}

fn user_privileges(rows: &mut RowMaker<'_>, account: &Account) {
    for name in listed(account.global) {
        rows.row([
            ("GRANTEE", grantee(account)),
            ("TABLE_CATALOG", text("def")),
            ("PRIVILEGE_TYPE", text(name)),
            ("IS_GRANTABLE", yes_no(account.global.has(Privileges::GRANT))),
        ]);
    }
}

fn schema_privileges(rows: &mut RowMaker<'_>, account: &Account) {
    for (database, own) in &account.databases {
        for name in listed(*own) {
            rows.row([
                ("GRANTEE", grantee(account)),
                ("TABLE_CATALOG", text("def")),
                ("TABLE_SCHEMA", text(database)),
                ("PRIVILEGE_TYPE", text(name)),
                ("IS_GRANTABLE", yes_no(own.has(Privileges::GRANT))),
            ]);
        }
    }
}

fn table_privileges(rows: &mut RowMaker<'_>, account: &Account) {
    for ((database, table), grants) in &account.tables {
        if grants.table.is_none() && !grants.columns.is_empty() {
            continue;
        }
        for name in listed(grants.table) {
            rows.row([
                ("GRANTEE", grantee(account)),
                ("TABLE_CATALOG", text("def")),
                ("TABLE_SCHEMA", text(database)),
                ("TABLE_NAME", text(table)),
                ("PRIVILEGE_TYPE", text(name)),
                ("IS_GRANTABLE", yes_no(grants.table.has(Privileges::GRANT))),
            ]);
        }
    }
}

fn column_privileges(rows: &mut RowMaker<'_>, account: &Account) {
    for ((database, table), grants) in &account.tables {
        for (column, own) in &grants.columns {
            for name in own.names() {
                rows.row([
                    ("GRANTEE", grantee(account)),
                    ("TABLE_CATALOG", text("def")),
                    ("TABLE_SCHEMA", text(database)),
                    ("TABLE_NAME", text(table)),
                    ("COLUMN_NAME", text(column)),
                    ("PRIVILEGE_TYPE", text(name)),
                    ("IS_GRANTABLE", yes_no(grants.table.has(Privileges::GRANT))),
                ]);
            }
        }
    }
}

/// Each role that the session's account has, and by whom.
fn applicable_roles(view: &View<'_>, rows: &mut RowMaker<'_>) {
    let catalog = view.served.database().catalog();
    let accounts = &catalog.accounts;
    let access = &view.session.access;
    let Some(own) = accounts.user(&access.user, &access.host) else { return };
    let mut holders = vec![own.clone()];
    for granted in &own.roles {
        for role in accounts.closure(&granted.role) {
            if !holders.iter().any(|known| known.id == role.id) {
                holders.push(role.clone());
            }
        }
    }
    for holder in holders {
        for granted in &holder.roles {
            let is_default = own.default_role.as_ref() == Some(&granted.role);
            rows.row([
                ("GRANTEE", text(keel_definitions::account::show::title(&holder))),
                ("ROLE_NAME", text(&granted.role)),
                ("IS_GRANTABLE", yes_no(granted.admin)),
                ("IS_DEFAULT", if holder.is_role { Value::Null } else { yes_no(is_default) }),
            ]);
        }
    }
}

fn enabled_roles(view: &View<'_>, rows: &mut RowMaker<'_>) {
    let catalog = view.served.database().catalog();
    let role = view.session.access.role.as_ref();
    let enabled = role.map(|role| catalog.accounts.closure(role)).unwrap_or_default();
    // A role that was dropped meanwhile enables none.
    if enabled.is_empty() {
        rows.row([("ROLE_NAME", Value::Null)]);
    }
    for role in enabled {
        rows.row([("ROLE_NAME", text(&role.user))]);
    }
}

/// Makes the rows of a table of `mysql`.
pub fn fill_mysql(view: &View<'_>, table: &TableDef, rows: &mut RowMaker<'_>) {
    let catalog = view.served.database().catalog();
    let mut all: Vec<&Arc<Account>> = catalog.accounts.all().collect();
    all.sort_by_key(|a| (a.host.clone(), a.user.clone()));
    for account in all {
        match &*table.name {
            "user" => user(rows, table, account),
            "global_priv" => rows.row([
                ("Host", text(&account.host)),
                ("User", text(&account.user)),
                ("Priv", text(as_json(account))),
            ]),
            "db" => databases(rows, table, account),
            "tables_priv" => tables(view, rows, account),
            "columns_priv" => columns(view, rows, account),
            "roles_mapping" => {
                for granted in &account.roles {
                    rows.row([
                        ("Host", text(&account.host)),
                        ("User", text(&account.user)),
                        ("Role", text(&granted.role)),
                        ("Admin_option", text(if granted.admin { "Y" } else { "N" })),
                    ]);
                }
            }
            "proxies_priv" => {
                for proxied in &account.proxied {
                    let host = if proxied.user.is_empty() { "" } else { &*proxied.host };
                    rows.row([
                        ("Host", text(&account.host)),
                        ("User", text(&account.user)),
                        ("Proxied_host", text(host)),
                        ("Proxied_user", text(&proxied.user)),
                        ("With_grant", flag(proxied.grant)),
                        ("Timestamp", moment(view, 0)),
                    ]);
                }
            }
            _ => {}
        }
    }
}

/// Columns that are `Y` for a privilege, as `mysql.user` and `mysql.db` call them.
const FLAGS: &[(&str, Privileges)] = &[
    ("Select_priv", Privileges::SELECT),
    ("Insert_priv", Privileges::INSERT),
    ("Update_priv", Privileges::UPDATE),
    ("Delete_priv", Privileges::DELETE),
    ("Create_priv", Privileges::CREATE),
    ("Drop_priv", Privileges::DROP),
    ("Reload_priv", Privileges::RELOAD),
    ("Shutdown_priv", Privileges::SHUTDOWN),
    ("Process_priv", Privileges::PROCESS),
    ("File_priv", Privileges::FILE),
    ("Grant_priv", Privileges::GRANT),
    ("References_priv", Privileges::REFERENCES),
    ("Index_priv", Privileges::INDEX),
    ("Alter_priv", Privileges::ALTER),
    ("Show_db_priv", Privileges::SHOW_DATABASES),
    ("Super_priv", Privileges::SUPER),
    ("Create_tmp_table_priv", Privileges::CREATE_TEMPORARY),
    ("Lock_tables_priv", Privileges::LOCK_TABLES),
    ("Execute_priv", Privileges::EXECUTE),
    ("Repl_slave_priv", Privileges::REPLICATION_SLAVE),
    ("Repl_client_priv", Privileges::BINLOG_MONITOR),
    ("Create_view_priv", Privileges::CREATE_VIEW),
    ("Show_view_priv", Privileges::SHOW_VIEW),
    ("Create_routine_priv", Privileges::CREATE_ROUTINE),
    ("Alter_routine_priv", Privileges::ALTER_ROUTINE),
    ("Create_user_priv", Privileges::CREATE_USER),
    ("Event_priv", Privileges::EVENT),
    ("Trigger_priv", Privileges::TRIGGER),
    ("Create_tablespace_priv", Privileges::CREATE_TABLESPACE),
    ("Delete_history_priv", Privileges::DELETE_HISTORY),
];

/// The SELECT by which MariaDB's `mysql.user` would be a view of `mysql.global_priv`.
pub fn user_view(table: &TableDef) -> String {
    let value = |key: &str| format!("json_value(`mysql`.`global_priv`.`Priv`,'$.{key}')");
    let word = |key: &str| format!("ifnull({},'')", value(key));
    let count = |key: &str, ty: &str| format!("cast(ifnull({},0) as {ty})", value(key));
    let expression = |name: &str| match name {
        "Host" | "User" => format!("`mysql`.`global_priv`.`{name}`"),
        "Password" => format!(
            "if({} in ('mysql_native_password','mysql_old_password'),{},'')",
            value("plugin"),
            word("authentication_string")
        ),
        "ssl_type" => format!("elt(ifnull({},0) + 1,'','ANY','X509','SPECIFIED')", value("ssl_type")),
        "max_questions" | "max_updates" | "max_connections" => count(name, "unsigned"),
        "max_user_connections" => count(name, "signed"),
        "max_statement_time" => count(name, "decimal(12,6)"),
        "password_expired" => format!("if(ifnull({},1) = 0,'Y','N')", value("password_last_changed")),
        "is_role" => format!("elt(ifnull({},0) + 1,'N','Y')", value("is_role")),
        _ => match FLAGS.iter().find(|(flag, _)| *flag == name) {
            Some((_, privilege)) => format!("if({} & {},'Y','N')", value("access"), privilege.0),
            None => word(name),
        },
    };
    let item = |name: &str| format!("{} AS `{name}`", expression(name));
    let items: Vec<String> = table.columns.iter().map(|column| item(&column.name)).collect();
    format!("select {} from `mysql`.`global_priv`", items.join(","))
}

fn put_flags(rows: &mut RowMaker<'_>, table: &TableDef, own: Privileges) {
    for (name, privilege) in FLAGS.iter().filter(|(name, _)| table.column_index(name).is_some()) {
        rows.also(name, text(if own.has(*privilege) { "Y" } else { "N" }));
    }
}

fn user(rows: &mut RowMaker<'_>, table: &TableDef, account: &Account) {
    let first = account.auth.first();
    let string = first.map_or("", |way| &way.string);
    let hash = if first.is_some_and(|way| *way.plugin == *NATIVE) { string } else { "" };
    let word = |yes: bool| text(if yes { "Y" } else { "N" });
    let none = String::new();
    let (kind, issuer, subject, cipher) = match &account.require {
        Require::None => ("", &none, &none, &none),
        Require::Ssl => ("ANY", &none, &none, &none),
        Require::X509 => ("X509", &none, &none, &none),
        Require::Specified { issuer, subject, cipher } => ("SPECIFIED", issuer, subject, cipher),
    };
    let limits = account.limits;
    let time = Decimal::parse(format!("{:.6}", limits.statement_time).as_bytes());
    let expired = account.password_changed == 0 && !account.is_role;
    rows.row([
        ("Host", text(&account.host)),
        ("User", text(&account.user)),
        ("Password", text(hash)),
        ("ssl_type", text(kind)),
        ("ssl_cipher", text(cipher)),
        ("x509_issuer", text(issuer)),
        ("x509_subject", text(subject)),
        ("max_questions", number(limits.queries.into())),
        ("max_updates", number(limits.updates.into())),
        ("max_connections", number(limits.connections.into())),
        ("max_user_connections", Value::Int(limits.at_once.into())),
        ("plugin", text(first.map_or("", |way| &way.plugin))),
        ("authentication_string", text(string)),
        ("password_expired", word(expired)),
        ("is_role", word(account.is_role)),
        ("default_role", text(account.default_role.as_deref().unwrap_or(""))),
        ("max_statement_time", time.map_or(Value::Null, Value::Decimal)),
    ]);
    put_flags(rows, table, account.global);
}

fn databases(rows: &mut RowMaker<'_>, table: &TableDef, account: &Account) {
    for (database, own) in &account.databases {
        rows.row([("Host", text(&account.host)), ("Db", text(database)), ("User", text(&account.user))]);
        put_flags(rows, table, *own);
    }
}

/// Privileges as a column of type SET shows them.
fn set_text(own: Privileges) -> Value {
    let word = |name: &str| {
        let lower =
            if name == "DELETE HISTORY" { "delete versioning rows".into() } else { name.to_lowercase() };
        let mut letters = lower.chars();
        letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
    };
    text(own.names().map(word).collect::<Vec<_>>().join(","))
}

fn tables(view: &View<'_>, rows: &mut RowMaker<'_>, account: &Account) {
    for ((database, table), grants) in &account.tables {
        let columns = grants.columns.values().fold(Privileges::NONE, |all, own| all.and(*own));
        rows.row([
            ("Host", text(&account.host)),
            ("Db", text(database)),
            ("User", text(&account.user)),
            ("Table_name", text(table)),
            ("Timestamp", moment(view, 0)),
            ("Table_priv", set_text(grants.table)),
            ("Column_priv", set_text(columns)),
        ]);
    }
}

fn columns(view: &View<'_>, rows: &mut RowMaker<'_>, account: &Account) {
    for ((database, table), grants) in &account.tables {
        for (column, own) in &grants.columns {
            rows.row([
                ("Host", text(&account.host)),
                ("Db", text(database)),
                ("User", text(&account.user)),
                ("Table_name", text(table)),
                ("Column_name", text(column)),
                ("Timestamp", moment(view, 0)),
                ("Column_priv", set_text(*own)),
            ]);
        }
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// An account as `mysql.global_priv` writes it.
fn as_json(account: &Account) -> String {
    let mut out = format!("{{\"access\":{},\"version_id\":101119", account.global.0);
    if account.is_role {
        return out + ",\"is_role\":true}";
    }
    if let Some(first) = account.auth.first() {
        out += &format!(
            ",\"plugin\":{},\"authentication_string\":{}",
            quoted(&first.plugin),
            quoted(&first.string)
        );
    }
    if account.auth.len() > 1 {
        let others = account.auth[1..].iter().map(|way| match way.string.is_empty() {
            true => format!("{{\"plugin\":{}}}", quoted(&way.plugin)),
            false => {
                format!(
                    "{{\"plugin\":{},\"authentication_string\":{}}}",
                    quoted(&way.plugin),
                    quoted(&way.string)
                )
            }
        });
        out += &format!(",\"auth_or\":[{{}},{}]", others.collect::<Vec<_>>().join(","));
    }
    let limits = account.limits;
    for (name, count) in [
        ("max_questions", i64::from(limits.queries)),
        ("max_updates", i64::from(limits.updates)),
        ("max_connections", i64::from(limits.connections)),
        ("max_user_connections", i64::from(limits.at_once)),
    ] {
        if count != 0 {
            out += &format!(",\"{name}\":{count}");
        }
    }
    if limits.statement_time != 0.0 {
        out += &format!(",\"max_statement_time\":{:.6}", limits.statement_time);
    }
    if let Some((kind, cipher, issuer, subject)) = match &account.require {
        Require::None => None,
        Require::Ssl => Some((1, "", "", "")),
        Require::X509 => Some((2, "", "", "")),
        Require::Specified { issuer, subject, cipher } => Some((3, &**cipher, &**issuer, &**subject)),
    } {
        out += &format!(
            ",\"ssl_type\":{kind},\"ssl_cipher\":{},\"x509_issuer\":{},\"x509_subject\":{}",
            quoted(cipher),
            quoted(issuer),
            quoted(subject)
        );
    }
    if account.locked {
        out += ",\"account_locked\":true";
    }
    out += &format!(",\"password_last_changed\":{}", account.password_changed);
    match account.lifetime {
        Lifetime::Default => {}
        Lifetime::Never => out += ",\"password_lifetime\":0",
        Lifetime::Days(days) => out += &format!(",\"password_lifetime\":{days}"),
    }
    if let Some(role) = &account.default_role {
        out += &format!(",\"default_role\":{}", quoted(role));
    }
    out + "}"
}
