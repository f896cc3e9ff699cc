//! What a session may do: its account and role, and what follows from them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;

use super::{Account, Accounts, PUBLIC, Privileges, TableGrants};

/// A session's account and what it may do everywhere and in its default database.
#[derive(Debug, Clone)]
pub struct Access {
    /// The account's user, as CURRENT_USER() says.
    pub user: Arc<str>,
    /// The account's host.
    pub host: Arc<str>,
    /// The enabled role.
    pub role: Option<Arc<str>>,
    /// Everywhere: as it was when the session connected or chose its role.
    pub global: Privileges,
    /// In the default database beside that: as it was when the session chose it.
    pub database: Privileges,
    /// The client gave a password: messages say so.
    pub with_password: bool,
    /// The password has expired: it must be changed before all else.
    pub expired: bool,
    /// Tells what has been checked for whom: equal for sessions that may do the same.
    stamp: u64,
    /// The version of the accounts that the stamp is of.
    stamp_version: u64,
}

impl Access {
    /// Whoever it is may do everything: the server's own sessions, and `skip-grant-tables`.
    pub fn unlimited(user: &str, host: &str) -> Access {
        Access {
            user: user.into(),
            host: host.into(),
            role: None,
            global: Privileges::ALL,
            database: Privileges::ALL,
            with_password: false,
            expired: false,
            stamp: 0,
            stamp_version: 0,
        }
    }

    /// What an account may do, without a role, unless it is one, and without a database.
    pub fn of(accounts: &Accounts, account: &Account) -> Access {
        let mut access =
            Access { global: Privileges::NONE, ..Access::unlimited(&account.user, &account.host) };
        access.choose_role(accounts, account.is_role.then(|| account.user.clone()));
        access.choose_database(accounts, None);
        access
    }

    /// SET ROLE, of one that the session may have. What it may do everywhere is settled anew.
    pub fn choose_role(&mut self, accounts: &Accounts, role: Option<Arc<str>>) {
        self.stamp = 0;
        self.role = role;
        if !accounts.unchecked {
            self.global = self.holders(accounts).iter().fold(Privileges::NONE, |all, a| all.and(a.global));
        }
    }

    /// Settles what it may do in a new default database.
    pub fn choose_database(&mut self, accounts: &Accounts, database: Option<&str>) {
        self.stamp = 0;
        self.database = match database {
            _ if accounts.unchecked => Privileges::ALL,
            Some(database) => self.granted_on_database(accounts, database),
            None => Privileges::NONE,
        };
    }

    /// The accounts whose privileges it has: its own, those of its role and of everybody.
    pub fn holders<'a>(&self, accounts: &'a Accounts) -> Vec<&'a Arc<Account>> {
        let mut found: Vec<&Arc<Account>> = accounts.user(&self.user, &self.host).into_iter().collect();
        if let Some(role) = &self.role {
            found.extend(accounts.closure(role));
        }
        found.extend(accounts.closure(PUBLIC));
        found
    }

    fn granted_on_database(&self, accounts: &Accounts, database: &str) -> Privileges {
        self.holders(accounts).iter().fold(Privileges::NONE, |all, a| all.and(a.on_database(database)))
    }

    /// What it may do in a database, everywhere included; `default` is the session's.
    pub fn on_database(&self, accounts: &Accounts, default: Option<&str>, database: &str) -> Privileges {
        if self.global.has(Privileges::OF_DATABASE) {
            return self.global;
        }
        let own = match default {
            Some(default) if default == database => self.database,
            _ => self.granted_on_database(accounts, database),
        };
        self.global.and(own)
    }

    /// What is granted to it on a table and its columns.
    pub fn on_table(&self, accounts: &Accounts, database: &str, table: &str) -> TableGrants {
        let mut all = TableGrants::default();
        for holder in self.holders(accounts) {
            let Some(grants) = holder.on_table(database, table) else { continue };
            all.table = all.table.and(grants.table);
            for (column, privileges) in &grants.columns {
                let own = all.columns.entry(column.clone()).or_default();
                *own = own.and(*privileges);
            }
        }
        all
    }

    /// Whether it has privileges on some table of a database.
    pub fn has_tables_in(&self, accounts: &Accounts, database: &str) -> bool {
        self.holders(accounts).iter().any(|a| a.tables.keys().any(|(db, _)| **db == *database))
    }

    /// Equal for sessions that may do the same under this version of the accounts.
    pub fn stamp(&mut self, accounts: &Accounts, default: Option<&str>) -> u64 {
        if self.stamp == 0 || self.stamp_version != accounts.version {
            self.stamp_version = accounts.version;
            self.stamp = stamp_of(Identity {
                version: accounts.version,
                user: self.user.clone(),
                host: self.host.clone(),
                role: self.role.clone(),
                global: self.global,
                default: default.map(Arc::from),
                database: self.database,
            });
        }
        self.stamp
    }
}

/// All that answers of [`super::check`] depend on.
#[derive(PartialEq, Eq, Hash)]
struct Identity {
    version: u64,
    user: Arc<str>,
    host: Arc<str>,
    role: Option<Arc<str>>,
    global: Privileges,
    default: Option<Arc<str>>,
    database: Privileges,
}

/// Identities that are remembered; others get a stamp for each session.
const IDENTITIES_MAX: usize = 4096;

static NEXT_STAMP: AtomicU64 = AtomicU64::new(1);
static STAMPS: Mutex<Option<HashMap<Identity, u64>>> = Mutex::new(None);

fn stamp_of(identity: Identity) -> u64 {
    let mut stamps = STAMPS.lock();
    let stamps = stamps.get_or_insert_default();
    if let Some(stamp) = stamps.get(&identity) {
        return *stamp;
    }
    let stamp = NEXT_STAMP.fetch_add(1, Ordering::Relaxed);
    if stamps.len() >= IDENTITIES_MAX {
        stamps.retain(|known, _| known.version == identity.version);
    }
    if stamps.len() < IDENTITIES_MAX {
        stamps.insert(identity, stamp);
    }
    stamp
}
