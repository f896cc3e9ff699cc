//! Changes of accounts: one transaction, one new version of the catalog.

use std::sync::Arc;

use keel_base::SqlResult;
use keel_catalog::account::{Account, Accounts, Granted};
use keel_context::result::Completion;
use keel_exec::session::Session;

use crate::ddl::Definer;

/// The accounts while they are changed.
pub(crate) struct Edit {
    /// The next version.
    pub accounts: Accounts,
    put: Vec<Arc<Account>>,
    removed: Vec<Arc<Account>>,
}

impl Edit {
    /// Adds an account or puts it in the place of the one of the same name.
    pub fn put(&mut self, account: Account) {
        let account = Arc::new(account);
        self.removed.retain(|other| !is_same(other, &account));
        self.put.retain(|other| !is_same(other, &account));
        self.accounts.put(account.clone());
        self.put.push(account);
    }

    /// Removes an account.
    pub fn remove(&mut self, account: &Arc<Account>) {
        self.put.retain(|other| !is_same(other, account));
        self.accounts.remove(account);
        self.removed.push(account.clone());
    }

    /// Changes what others have by `change`, which says whether it did.
    pub fn each(&mut self, change: impl Fn(&mut Account) -> bool) {
        let all: Vec<Arc<Account>> = self.accounts.all().cloned().collect();
        for account in all {
            let mut changed = Account::clone(&account);
            if change(&mut changed) {
                self.put(changed);
            }
        }
    }
}

fn is_same(a: &Account, b: &Account) -> bool {
    (&a.user, &a.host, a.is_role) == (&b.user, &b.host, b.is_role)
}

impl Definer<'_> {
    /// Changes accounts as a definition does: it commits what is open, and what `edit` leaves behind is there as a whole or
    /// not at all. An error of `edit` comes back as such; what went well before is kept where it says so by `Ok(Err)`.
    pub(crate) fn change_accounts(
        &self,
        session: &mut Session,
        edit: impl FnOnce(&mut Edit, &mut Session) -> SqlResult<SqlResult<()>>,
    ) -> SqlResult<()> {
        session.refuse_in_branch()?;
        self.commit_implicitly(session)?;
        if session.is_read_only() {
            return Err(keel_base::errors::cant_execute_in_read_only_transaction());
        }
        self.refuse_writes(session)?;
        let mut outcome = Ok(());
        self.within_gate(session, true, |session| {
            self.refuse_writes(session)?;
            let mut definition = self.definition(session)?;
            let accounts = Accounts::clone(&definition.catalog.accounts);
            let mut changes = Edit { accounts, put: Vec::new(), removed: Vec::new() };
            outcome = edit(&mut changes, session)?;
            if changes.put.is_empty() && changes.removed.is_empty() {
                return Ok(Completion::default());
            }
            for account in &changes.removed {
                definition.remove_account(account)?;
            }
            for account in &changes.put {
                definition.put_account(account)?;
            }
            changes.accounts.version += 1;
            definition.catalog.accounts = Arc::new(changes.accounts);
            definition.commit()?;
            Ok(Completion::default())
        })?;
        outcome
    }

    /// FLUSH PRIVILEGES: ends `skip-grant-tables` for those who connect from here on.
    pub fn check_grants(&self, session: &Session) -> SqlResult<()> {
        if !self.catalog().accounts.unchecked {
            return Ok(());
        }
        let _alone = self.definition(session)?;
        self.set_unchecked(false);
        Ok(())
    }

    /// `skip-grant-tables`: from here on everybody may do everything, and accounts do not change. For a server that starts.
    pub fn skip_grants(&self) {
        self.set_unchecked(true);
    }

    /// Call while nobody else defines.
    fn set_unchecked(&self, unchecked: bool) {
        let mut catalog = keel_catalog::Catalog::clone(&self.catalog());
        let mut accounts = Accounts::clone(&catalog.accounts);
        accounts.unchecked = unchecked;
        accounts.version += 1;
        catalog.accounts = Arc::new(accounts);
        catalog.version += 1;
        self.publish(catalog);
    }
}

/// Gives an account a role, or the admin option too.
pub(crate) fn give_role(account: &mut Account, role: &Arc<str>, admin: bool) {
    match account.roles.iter_mut().find(|granted| granted.role == *role) {
        Some(granted) => granted.admin |= admin,
        None => account.roles.push(Granted { role: role.clone(), admin }),
    }
}
