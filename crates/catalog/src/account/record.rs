//! Accounts as the catalog's tree keeps them.
//!
//! ```text
//! key:    [4]                          accounts have been made: nobody gets the first ones again
//!         [4][user] [0] [host] [kind]  an account; kind is 1 for a role
//! record: [format u8][what the account is][roles][proxied][databases][tables]
//! ```
//! Integers and strings are as in the catalog's other records.

use std::sync::Arc;

use super::auth::Auth;
use super::{Account, Granted, Lifetime, Limits, Privileges, Proxied, Require, TableGrants};
use crate::codec::{Reader, Writer};

/// The first octet of the keys.
pub const KEY: u8 = 4;

const FORMAT: u8 = 1;

/// The key of an account.
pub fn key(account: &Account) -> Vec<u8> {
    [&[KEY], account.user.as_bytes(), &[0], account.host.as_bytes(), &[u8::from(account.is_role)]].concat()
}

/// The record of an account.
pub fn encode(account: &Account) -> Vec<u8> {
    let mut out = Writer(vec![FORMAT]);
    out.list(&account.auth, |out, auth| {
        out.text(&auth.plugin);
        out.text(&auth.string);
    });
    out.u64(account.global.0);
    let limits = account.limits;
    [limits.queries, limits.updates, limits.connections, limits.at_once as u32]
        .into_iter()
        .for_each(|n| out.u32(n));
    out.u64(limits.statement_time.to_bits());
    require(&mut out, &account.require);
    out.flag(account.locked);
    out.u32(match account.lifetime {
        Lifetime::Default => u32::MAX,
        Lifetime::Never => 0,
        Lifetime::Days(days) => days,
    });
    out.u64(account.password_changed as u64);
    out.optional(account.default_role.as_deref(), |out, role| out.text(role));
    out.list(&account.roles, |out, granted| {
        out.text(&granted.role);
        out.flag(granted.admin);
    });
    out.list(&account.proxied, |out, proxied| {
        out.text(&proxied.user);
        out.text(&proxied.host);
        out.flag(proxied.grant);
    });
    let databases: Vec<_> = account.databases.iter().collect();
    out.list(&databases, |out, (name, privileges)| {
        out.text(name);
        out.u64(privileges.0);
    });
    let tables: Vec<_> = account.tables.iter().collect();
    out.list(&tables, |out, ((database, table), grants)| {
        out.text(database);
        out.text(table);
        out.u64(grants.table.0);
        let columns: Vec<_> = grants.columns.iter().collect();
        out.list(&columns, |out, (name, privileges)| {
            out.text(name);
            out.u64(privileges.0);
        });
    });
    out.0
}

fn require(out: &mut Writer, require: &Require) {
    match require {
        Require::None => out.u8(0),
        Require::Ssl => out.u8(1),
        Require::X509 => out.u8(2),
        Require::Specified { issuer, subject, cipher } => {
            out.u8(3);
            [issuer, subject, cipher].into_iter().for_each(|text| out.text(text));
        }
    }
}

/// Reads an account from what follows the first octet of its key, and its record; none if either is damaged or newer.
pub fn decode(names: &[u8], record: &[u8]) -> Option<Account> {
    let (kind, names) = names.split_last()?;
    let (user, host) = std::str::from_utf8(names).ok()?.split_once('\0')?;
    let mut account = Account::new(user, host, *kind == 1);
    let mut input = Reader(record);
    if input.u8()? != FORMAT {
        return None;
    }
    account.auth = input.list(|input| Some(Auth { plugin: input.text()?.into(), string: input.text()? }))?;
    account.global = Privileges(input.u64()?);
    account.limits = Limits {
        queries: input.u32()?,
        updates: input.u32()?,
        connections: input.u32()?,
        at_once: input.u32()? as i32,
        statement_time: f64::from_bits(input.u64()?),
    };
    account.require = match input.u8()? {
        0 => Require::None,
        1 => Require::Ssl,
        2 => Require::X509,
        3 => Require::Specified { issuer: input.text()?, subject: input.text()?, cipher: input.text()? },
        _ => return None,
    };
    account.locked = input.flag()?;
    account.lifetime = match input.u32()? {
        u32::MAX => Lifetime::Default,
        0 => Lifetime::Never,
        days => Lifetime::Days(days),
    };
    account.password_changed = input.u64()? as i64;
    account.default_role = input.optional(Reader::text)?.map(Arc::from);
    account.roles = input.list(|input| Some(Granted { role: input.text()?.into(), admin: input.flag()? }))?;
    account.proxied = input
        .list(|input| Some(Proxied { user: input.text()?, host: input.text()?, grant: input.flag()? }))?;
    let privileges = |input: &mut Reader<'_>| Some((Box::from(input.text()?), Privileges(input.u64()?)));
    account.databases = input.list(privileges)?.into_iter().collect();
    let tables = input.list(|input| {
        let name = (Box::from(input.text()?), Box::from(input.text()?));
        let table = Privileges(input.u64()?);
        Some((name, TableGrants { table, columns: input.list(privileges)?.into_iter().collect() }))
    })?;
    account.tables = tables.into_iter().collect();
    Some(account)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_come_back_as_written() {
        let mut account = Account::new("joe", "10.%", false);
        account.auth = vec![Auth::native("*00".into())];
        account.global = Privileges::SELECT;
        account.limits.at_once = -1;
        account.require =
            Require::Specified { issuer: "i".into(), subject: String::new(), cipher: "c".into() };
        account.lifetime = Lifetime::Days(3);
        account.default_role = Some("r".into());
        account.roles = vec![Granted { role: "r".into(), admin: true }];
        account.proxied = vec![Proxied { user: "a".into(), host: "b".into(), grant: true }];
        account.databases.insert("d%".into(), Privileges::INSERT);
        let columns = [("c".into(), Privileges::UPDATE)].into_iter().collect();
        account.tables.insert(("d".into(), "t".into()), TableGrants { table: Privileges::DELETE, columns });
        let back = decode(&key(&account)[1..], &encode(&account)).unwrap();
        assert_eq!(
            format!("{:?}", Account { id: 0, ..back }),
            format!("{:?}", Account { id: 0, ..account.clone() })
        );
        let record = encode(&account);
        assert!((0..record.len()).all(|cut| decode(&key(&account)[1..], &record[..cut]).is_none()));
        let role = Account::new("r", "", true);
        assert!(decode(&key(&role)[1..], &encode(&role)).unwrap().is_role);
    }
}
