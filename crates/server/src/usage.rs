//! The use of accounts with limits: concurrent connections, and connections and statements within an hour.

use std::sync::{Arc, Weak};
use std::time::Duration;

use hashbrown::HashMap;
use keel_base::{SqlResult, errors};
use keel_catalog::account::{Account, Limits, Privileges};
use keel_runtime::time::{self, Instant};
use parking_lot::Mutex;

const HOUR: Duration = Duration::from_secs(3600);

/// Accounts whose use is remembered while nobody is connected.
const IDLE_MAX: usize = 4096;

/// An account's name and host.
type Key = (Arc<str>, Arc<str>);

struct Used {
    now: u32,
    since: Instant,
    connections: u32,
    queries: u32,
    updates: u32,
}

/// Wrong passwords for an account as it was then: a change of it, or another one of its name, starts over.
struct Wrong {
    account: Weak<Account>,
    count: u64,
}

impl Wrong {
    fn is_of(&self, account: &Arc<Account>) -> bool {
        std::ptr::eq(self.account.as_ptr(), Arc::as_ptr(account))
    }
}

/// What accounts have used.
#[derive(Clone, Default)]
pub struct Usage {
    accounts: Arc<Mutex<HashMap<Key, Used>>>,
    /// Wrong passwords in a row; only of accounts that there are.
    wrong_passwords: Arc<Mutex<HashMap<Key, Wrong>>>,
}

/// A connection of an account that has limits; it ends with this value.
pub struct Limited {
    key: Key,
    limits: Limits,
    usage: Usage,
}

impl Usage {
    /// Counts a connection; 1203 or 1226 where there are enough. `max` is `max_user_connections`. None where nothing is
    /// limited.
    pub fn connect(&self, account: &Account, max: u64) -> SqlResult<Option<Limited>> {
        let limits = account.limits;
        let unlimited = Limits { statement_time: limits.statement_time, ..Limits::default() };
        if limits == unlimited && max == 0 {
            return Ok(None);
        }
        let key = (account.user.clone(), account.host.clone());
        let mut accounts = self.accounts.lock();
        if accounts.len() >= IDLE_MAX {
            accounts.retain(|_, used| used.now > 0);
        }
        let used = accounts.entry(key.clone()).or_insert_with(Used::new);
        used.turn();
        // A negative bound keeps everybody out.
        let own_max = i64::from(limits.at_once);
        if own_max != 0 && i64::from(used.now) >= own_max {
            return Err(errors::user_limit_reached(&account.user, "max_user_connections", own_max));
        }
        if own_max == 0 && max > 0 && u64::from(used.now) >= max {
            return Err(errors::too_many_user_connections(&account.user));
        }
        if limits.connections > 0 && used.connections >= limits.connections {
            let value = limits.connections;
            return Err(errors::user_limit_reached(&account.user, "max_connections_per_hour", value));
        }
        used.now += 1;
        used.connections += 1;
        Ok(Some(Limited { key, limits, usage: self.clone() }))
    }

    /// Whether there were `max` wrong passwords in a row.
    pub fn is_blocked(&self, account: &Arc<Account>, max: u64) -> bool {
        let known = self.wrong_passwords.lock();
        !known.is_empty()
            && known.get(&key_of(account)).is_some_and(|wrong| wrong.is_of(account) && wrong.count >= max)
            && is_bounded(account, max)
    }

    /// Counts a wrong password.
    pub fn password_failed(&self, account: &Arc<Account>, max: u64) {
        if !is_bounded(account, max) {
            return;
        }
        let mut known = self.wrong_passwords.lock();
        if known.len() >= IDLE_MAX {
            known.retain(|_, wrong| wrong.account.strong_count() > 0);
        }
        let new = || Wrong { account: Arc::downgrade(account), count: 0 };
        let wrong = known.entry(key_of(account)).or_insert_with(new);
        if !wrong.is_of(account) {
            *wrong = new();
        }
        wrong.count += 1;
    }

    /// The password was right: begins to count again.
    pub fn password_proven(&self, account: &Account) {
        let mut known = self.wrong_passwords.lock();
        if !known.is_empty() {
            known.remove(&key_of(account));
        }
    }

    /// FLUSH PRIVILEGES: nobody has said a wrong password.
    pub fn forget_passwords(&self) {
        self.wrong_passwords.lock().clear();
    }

    /// FLUSH USER_RESOURCES: nobody has done anything within this hour.
    pub fn flush(&self) {
        let mut accounts = self.accounts.lock();
        accounts.retain(|_, used| used.now > 0);
        accounts.values_mut().for_each(|used| *used = Used { now: used.now, ..Used::new() });
    }
}

fn key_of(account: &Account) -> Key {
    (account.user.clone(), account.host.clone())
}

/// Whether `max_password_errors` concerns an account; its greatest value is no bound. Who may end others' connections from
/// the server's own machine is never shut out.
fn is_bounded(account: &Account, max: u64) -> bool {
    let rules = Privileges::CONNECTION_ADMIN.and(Privileges::SUPER);
    let is_near = matches!(&*account.host, "localhost" | "127.0.0.1" | "::1");
    max < u64::from(u32::MAX) && !(is_near && account.global.has_any(rules))
}

impl Used {
    fn new() -> Used {
        Used { now: 0, since: time::now(), connections: 0, queries: 0, updates: 0 }
    }

    /// Begins a new hour where one is over.
    fn turn(&mut self) {
        if self.since.elapsed() >= HOUR {
            *self = Used { now: self.now, ..Used::new() };
        }
    }
}

impl Limited {
    /// Counts a statement; 1226 where there were enough within the hour.
    pub fn count(&self, is_update: bool) -> SqlResult<()> {
        if self.limits.queries == 0 && self.limits.updates == 0 {
            return Ok(());
        }
        let mut accounts = self.usage.accounts.lock();
        let Some(used) = accounts.get_mut(&self.key) else { return Ok(()) };
        used.turn();
        let (user, limits) = (&self.key.0, self.limits);
        if !is_update {
            if limits.queries > 0 && used.queries >= limits.queries {
                return Err(errors::user_limit_reached(user, "max_queries_per_hour", limits.queries));
            }
            used.queries += 1;
            return Ok(());
        }
        if limits.updates > 0 && used.updates >= limits.updates {
            return Err(errors::user_limit_reached(user, "max_updates_per_hour", limits.updates));
        }
        used.updates += 1;
        Ok(())
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        if let Some(used) = self.usage.accounts.lock().get_mut(&self.key) {
            used.now = used.now.saturating_sub(1);
        }
    }
}
