//! Accounts: who may connect, by which proof, and what each may do.
//!
//! An [`Accounts`] is a part of a version of the catalog: an immutable value that GRANT and its like replace as a whole, in
//! the same transaction that writes the changed accounts' records. Roles are accounts without a host.
//!
//! 1. A privilege holds globally, on databases whose names match a pattern, on a table, or on a column. What a session has
//!    globally and in its default database is settled when it connects, chooses a role or a database ([`Access`]); what
//!    it has on tables is looked up in the newest version. So it is in MariaDB.
//! 2. Every list of accounts is in the order in which they are tried: exact hosts first.

pub mod access;
pub mod auth;
pub mod pattern;
pub mod privilege;
pub mod record;
pub mod sha_crypt;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

pub use access::Access;
pub use privilege::Privileges;

use sha1::{Digest, Sha1};

use auth::Auth;

/// The role that everybody has.
pub const PUBLIC: &str = "PUBLIC";

/// WITH limits of an account; 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Limits {
    /// MAX_QUERIES_PER_HOUR.
    pub queries: u32,
    /// MAX_UPDATES_PER_HOUR.
    pub updates: u32,
    /// MAX_CONNECTIONS_PER_HOUR.
    pub connections: u32,
    /// MAX_USER_CONNECTIONS.
    pub at_once: i32,
    /// MAX_STATEMENT_TIME, seconds.
    pub statement_time: f64,
}

/// REQUIRE: what the connection must be encrypted with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Require {
    /// NONE.
    #[default]
    None,
    /// SSL.
    Ssl,
    /// X509.
    X509,
    /// ISSUER, SUBJECT, CIPHER; empty where not said.
    Specified {
        /// ISSUER.
        issuer: String,
        /// SUBJECT.
        subject: String,
        /// CIPHER.
        cipher: String,
    },
}

/// When a password expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Lifetime {
    /// As `default_password_lifetime` says.
    #[default]
    Default,
    /// NEVER.
    Never,
    /// INTERVAL n DAY.
    Days(u32),
}

/// A role that somebody has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// The role.
    pub role: Arc<str>,
    /// WITH ADMIN OPTION.
    pub admin: bool,
}

/// An account that somebody may stand for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxied {
    /// Its user.
    pub user: String,
    /// Its host.
    pub host: String,
    /// WITH GRANT OPTION.
    pub grant: bool,
}

/// What is granted on a table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableGrants {
    /// On the table as a whole.
    pub table: Privileges,
    /// On single columns, by name; without regard to case.
    pub columns: BTreeMap<Box<str>, Privileges>,
}

impl TableGrants {
    /// On the table or on one of its columns.
    pub fn any(&self) -> Privileges {
        self.columns.values().fold(self.table, |all, p| all.and(*p))
    }

    /// On a column, the table's included.
    pub fn on_column(&self, column: &str) -> Privileges {
        let own = self.columns.iter().find(|(name, _)| crate::names::same(name, column));
        self.table.and(own.map_or(Privileges::NONE, |(_, p)| *p))
    }
}

/// A user, or a role.
#[derive(Debug, Clone)]
pub struct Account {
    /// A number of its own as long as the server runs.
    pub id: u32,
    /// The name.
    pub user: Arc<str>,
    /// From where; empty for a role.
    pub host: Arc<str>,
    /// It is a role.
    pub is_role: bool,
    /// The ways to prove to be it, in order; none for a role.
    pub auth: Vec<Auth>,
    /// What it may do everywhere.
    pub global: Privileges,
    /// WITH limits.
    pub limits: Limits,
    /// REQUIRE.
    pub require: Require,
    /// ACCOUNT LOCK.
    pub locked: bool,
    /// When the password expires.
    pub lifetime: Lifetime,
    /// When it was changed, seconds since 1970; 0 has expired.
    pub password_changed: i64,
    /// SET DEFAULT ROLE.
    pub default_role: Option<Arc<str>>,
    /// The roles that it has itself, the newest last.
    pub roles: Vec<Granted>,
    /// Those for whom it may stand.
    pub proxied: Vec<Proxied>,
    /// By patterns of databases.
    pub databases: BTreeMap<Box<str>, Privileges>,
    /// By database and table.
    pub tables: BTreeMap<(Box<str>, Box<str>), TableGrants>,
}

/// Numbers of accounts.
static NEXT_ID: AtomicU32 = AtomicU32::new(1);

impl Account {
    /// A new account, or a role, without privileges.
    pub fn new(user: &str, host: &str, is_role: bool) -> Account {
        Account {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            user: user.into(),
            host: host.into(),
            is_role,
            auth: Vec::new(),
            global: Privileges::NONE,
            limits: Limits::default(),
            require: Require::None,
            locked: false,
            lifetime: Lifetime::Default,
            password_changed: 0,
            default_role: None,
            roles: Vec::new(),
            proxied: Vec::new(),
            databases: BTreeMap::new(),
            tables: BTreeMap::new(),
        }
    }

    /// What it has on a database by itself, not what it has everywhere: of the patterns that match the most exact counts.
    pub fn on_database(&self, database: &str) -> Privileges {
        self.databases
            .iter()
            .filter(|(pattern, _)| pattern::matches(pattern, database, false))
            .max_by_key(|(pattern, _)| pattern::exactness(pattern))
            .map_or(Privileges::NONE, |(_, privileges)| *privileges)
    }

    /// What it has by itself on every database that matches a pattern.
    pub fn over_pattern(&self, pattern: &str) -> Privileges {
        let over = self.databases.iter().filter(|(own, _)| pattern::covers(own, pattern));
        over.max_by_key(|(own, _)| pattern::exactness(own)).map_or(Privileges::NONE, |(_, given)| *given)
    }

    /// What it has on a table by itself.
    pub fn on_table(&self, database: &str, table: &str) -> Option<&TableGrants> {
        if self.tables.is_empty() {
            return None;
        }
        self.tables.get(&(Box::from(database), Box::from(table)))
    }

    /// Whether it has the role that is its default one: that may have been taken back.
    pub fn has_default_role(&self) -> bool {
        self.roles.iter().any(|granted| Some(&granted.role) == self.default_role.as_ref())
    }

    /// `'user'@'host'`, a role without a host: as messages name it.
    pub fn quoted(&self) -> String {
        if self.is_role { format!("'{}'", self.user) } else { format!("'{}'@'{}'", self.user, self.host) }
    }
}

/// One version of all accounts.
#[derive(Clone, Default)]
pub struct Accounts {
    /// Grows by one with every change.
    pub version: u64,
    /// Everybody may do everything: `skip-grant-tables`.
    pub unchecked: bool,
    users: Vec<Arc<Account>>,
    by_name: BTreeMap<(Arc<str>, Arc<str>), Arc<Account>>,
    roles: BTreeMap<Arc<str>, Arc<Account>>,
}

impl Accounts {
    /// Nobody, in the version that a start begins with.
    pub fn first_version() -> Accounts {
        Accounts { version: 1, ..Accounts::default() }
    }

    /// The account of exactly that name and host.
    pub fn user(&self, user: &str, host: &str) -> Option<&Arc<Account>> {
        self.by_name.get(&(Arc::from(user), Arc::from(host)))
    }

    /// The role of that name.
    pub fn role(&self, name: &str) -> Option<&Arc<Account>> {
        self.roles.get(name)
    }

    /// Whom a view was made for: a user, or a role, which has no host.
    pub fn definer(&self, (user, host): &(String, String)) -> Option<&Arc<Account>> {
        if host.is_empty() { self.role(user) } else { self.user(user, host) }
    }

    /// The account, or the role where no such user is there and no host is said.
    pub fn find(&self, user: &str, host: &str) -> Option<&Arc<Account>> {
        let role = || if host == "%" || host.is_empty() { self.role(user) } else { None };
        self.user(user, host).or_else(role)
    }

    /// The account of a client that says it is `user`.
    pub fn of_client(&self, user: &str, host: &str, address: Option<IpAddr>) -> Option<&Arc<Account>> {
        let fits = |a: &&Arc<Account>| {
            (a.user.is_empty() || *a.user == *user) && pattern::host_matches(&a.host, host, address)
        };
        self.users.iter().find(fits)
    }

    /// The account after whose ways a client with an unknown name is asked: the same one for a name as long as the
    /// accounts stay. Which one cannot be computed without the first account's record.
    pub fn decoy(&self, user: &str) -> Option<&Arc<Account>> {
        let first = self.users.first()?;
        let mut hash = Sha1::new().chain_update(first.password_changed.to_le_bytes());
        first.auth.iter().for_each(|way| hash.update(way.string.as_bytes()));
        let digest = hash.chain_update(user.as_bytes()).finalize();
        let number = digest.iter().take(8).fold(0u64, |number, byte| number << 8 | u64::from(*byte));
        self.users.get((number % self.users.len() as u64) as usize)
    }

    /// Whether anybody may connect from there.
    pub fn knows_host(&self, host: &str, address: Option<IpAddr>) -> bool {
        self.unchecked || self.users.iter().any(|a| pattern::host_matches(&a.host, host, address))
    }

    /// All users in the order in which they are tried.
    pub fn users(&self) -> impl Iterator<Item = &Arc<Account>> {
        self.users.iter()
    }

    /// All roles in the order of their names.
    pub fn roles(&self) -> impl Iterator<Item = &Arc<Account>> {
        self.roles.values()
    }

    /// Users and roles.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Account>> {
        self.users.iter().chain(self.roles.values())
    }

    /// Adds an account or puts it in the place of the one of the same name.
    pub fn put(&mut self, account: Arc<Account>) {
        if account.is_role {
            self.roles.insert(account.user.clone(), account);
            return;
        }
        self.by_name.insert((account.user.clone(), account.host.clone()), account.clone());
        let same = |a: &Arc<Account>| a.user == account.user && a.host == account.host;
        match self.users.iter().position(same) {
            Some(place) => self.users[place] = account,
            None => {
                let key = |a: &Account| (pattern::order(&a.user, &a.host), a.host.clone(), a.user.clone());
                let own = key(&account);
                let place = self.users.partition_point(|a| key(a) < own);
                self.users.insert(place, account);
            }
        }
    }

    /// Forgets an account.
    pub fn remove(&mut self, account: &Account) {
        if account.is_role {
            self.roles.remove(&account.user);
        } else {
            self.by_name.remove(&(account.user.clone(), account.host.clone()));
            self.users.retain(|a| a.user != account.user || a.host != account.host);
        }
    }

    /// Whether an account has a role, by itself or through others.
    pub fn has_role(&self, account: &Account, role: &str) -> bool {
        account.roles.iter().any(|granted| {
            *granted.role == *role || self.closure(&granted.role).iter().any(|r| *r.user == *role)
        })
    }

    /// A role with all roles that it has, each once, itself first.
    pub fn closure<'a>(&'a self, role: &str) -> Vec<&'a Arc<Account>> {
        let mut found: Vec<&Arc<Account>> = self.role(role).into_iter().collect();
        let mut next = 0;
        while let Some(account) = found.get(next).copied() {
            next += 1;
            for granted in &account.roles {
                if let Some(role) = self.role(&granted.role)
                    && !found.iter().any(|known| known.id == role.id)
                {
                    found.push(role);
                }
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts(names: &[(&str, &str)]) -> Accounts {
        let mut accounts = Accounts::default();
        names.iter().for_each(|(user, host)| accounts.put(Arc::new(Account::new(user, host, false))));
        accounts
    }

    #[test]
    fn a_nameless_account_of_an_exact_host_hides_others() {
        let all = accounts(&[("joe", "%"), ("", "localhost"), ("joe", "10.0.%")]);
        let host_of = |user: &str, host: &str| {
            all.of_client(user, host, None).map(|a| (a.user.to_string(), a.host.to_string()))
        };
        assert_eq!(host_of("joe", "localhost"), Some((String::new(), "localhost".into())));
        assert_eq!(host_of("joe", "10.0.0.1"), Some(("joe".into(), "10.0.%".into())));
        assert_eq!(host_of("joe", "elsewhere"), Some(("joe".into(), "%".into())));
        assert_eq!(host_of("ann", "elsewhere"), None);
    }

    #[test]
    fn decoys_are_stable_and_spread_over_all_accounts() {
        let all = accounts(&[("a", "%"), ("b", "%"), ("c", "%")]);
        let decoy = |user: &str| all.decoy(user).map(|a| a.user.to_string());
        let names: Vec<String> = (0..60).map(|n| format!("user{n}")).collect();
        let picked: std::collections::BTreeSet<_> = names.iter().map(|name| decoy(name)).collect();
        assert_eq!(picked.len(), 3);
        assert!(names.iter().all(|name| decoy(name) == decoy(name)));
        assert!(Accounts::default().decoy("a").is_none());
    }

    #[test]
    fn the_most_exact_pattern_of_a_database_counts() {
        let mut account = Account::new("a", "%", false);
        account.databases.insert("db%".into(), Privileges::SELECT);
        account.databases.insert("db\\_1".into(), Privileges::INSERT);
        assert_eq!(account.on_database("db_1"), Privileges::INSERT);
        assert_eq!(account.on_database("db2"), Privileges::SELECT);
        assert_eq!(account.on_database("x"), Privileges::NONE);
    }

    #[test]
    fn roles_of_roles_are_found_once() {
        let mut all = Accounts::default();
        for (name, has) in [("a", vec!["b", "c"]), ("b", vec!["c"]), ("c", vec!["a"])] {
            let mut role = Account::new(name, "", true);
            role.roles = has.iter().map(|r| Granted { role: (*r).into(), admin: false }).collect();
            all.put(Arc::new(role));
        }
        let names: Vec<&str> = all.closure("a").iter().map(|r| &*r.user).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }
}
