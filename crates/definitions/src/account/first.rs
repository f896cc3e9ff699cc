//! The accounts of a new data folder.

use std::sync::Arc;

use keel_base::SqlResult;
use keel_catalog::account::auth::{self, Auth};
use keel_catalog::account::{Account, Accounts, Privileges, Proxied, record};
use keel_context::engine_error;
use keel_storage::TxnOptions;

use crate::ddl::Definer;

/// The user with all privileges in every new data folder.
const ROOT: &str = "root";

/// The hosts of root where it authenticates by a password.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// How the first accounts authenticate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FirstAccounts {
    /// `root@localhost`, and an account of the operating system's user that owns the data folder, both by `unix_socket`.
    Socket {
        /// The owner, if it has a name.
        owner: Option<String>,
    },
    /// root from this machine, without a password.
    Insecure,
    /// root from this machine, with this password.
    Password(Vec<u8>),
}

impl FirstAccounts {
    /// The accounts.
    pub fn accounts(&self) -> Vec<Account> {
        match self {
            FirstAccounts::Socket { owner } => {
                let owner = owner.as_deref().filter(|owner| *owner != ROOT);
                let ways = || vec![Auth::native(auth::INVALID.into()), Auth::socket()];
                [ROOT].into_iter().chain(owner).map(|user| administrator(user, "localhost", ways())).collect()
            }
            FirstAccounts::Insecure => root_with(&[]),
            FirstAccounts::Password(password) => root_with(password),
        }
    }
}

fn root_with(password: &[u8]) -> Vec<Account> {
    let hash = auth::hashed(auth::NATIVE, password);
    LOOPBACK.iter().map(|host| administrator(ROOT, host, vec![Auth::native(hash.clone())])).collect()
}

/// An account with all privileges.
fn administrator(user: &str, host: &str, auth: Vec<Auth>) -> Account {
    let mut account = Account::new(user, host, false);
    account.auth = auth;
    account.global = Privileges::ALL;
    account.password_changed = keel_storage::runtime::time::unix_micros() / 1_000_000;
    if host == "localhost" {
        account.proxied = vec![Proxied { user: String::new(), host: "%".into(), grant: true }];
    }
    account
}

impl Definer<'_> {
    /// Whether the data folder has no accounts yet, because it is new or its first start was cut short.
    pub fn lacks_accounts(&self) -> bool {
        self.catalog().accounts.version == 0
    }

    /// Writes the first accounts of a data folder that lacks them. Call before the first session.
    pub fn make_accounts(&self, first: &FirstAccounts) -> SqlResult<()> {
        let mut txn = self.engine().begin(TxnOptions::default());
        let mut accounts = Accounts::first_version();
        self.catalog_tree().put_raw(&mut txn, &[record::KEY], &[])?;
        for account in first.accounts() {
            self.catalog_tree().put_raw(&mut txn, &record::key(&account), &record::encode(&account))?;
            accounts.put(Arc::new(account));
        }
        txn.commit().map_err(engine_error)?;
        let mut catalog = keel_catalog::Catalog::clone(&self.catalog());
        catalog.accounts = Arc::new(accounts);
        catalog.version += 1;
        self.publish(catalog);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(first: &FirstAccounts) -> Vec<(String, String)> {
        first.accounts().iter().map(|a| (a.user.to_string(), a.host.to_string())).collect()
    }

    #[test]
    fn first_accounts_by_socket_are_of_root_and_the_owner() {
        let socket = |owner: Option<&str>| FirstAccounts::Socket { owner: owner.map(str::to_string) };
        let pair = |user: &str| (user.to_string(), "localhost".to_string());
        assert_eq!(names(&socket(Some("keel"))), [pair("root"), pair("keel")]);
        assert_eq!(names(&socket(Some("root"))), [pair("root")]);
        assert_eq!(names(&socket(None)), [pair("root")]);
        assert!(socket(None).accounts()[0].auth.iter().all(|way| !way.takes_password()));
    }

    #[test]
    fn first_accounts_by_password_are_of_root_on_loopback() {
        for first in [FirstAccounts::Insecure, FirstAccounts::Password(b"secret".to_vec())] {
            assert_eq!(names(&first).len(), LOOPBACK.len());
        }
        let account = &FirstAccounts::Password(b"secret".to_vec()).accounts()[0];
        assert_eq!(account.auth[0].string, "*14E65567ABDB5135D0CFD9A70B3032C179A49EE7");
    }
}
