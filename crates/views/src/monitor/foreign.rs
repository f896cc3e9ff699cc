//! The last statement that failed because of a foreign key, for SHOW ENGINE INNODB STATUS.

use std::sync::Arc;

use keel_base::{SqlError, code};
use keel_logs::secrets::hidden;
use keel_runtime::time;
use keel_storage::TrxInfo;
use parking_lot::Mutex;

use super::history::{TEXT_BYTES_MAX, beginning};
use super::transactions::Session;
use crate::Served;
use crate::registry::Client;

/// Words before what failed, in errors 1451 and 1452.
const FAILS: &str = "a foreign key constraint fails (";

/// A failed statement.
pub struct ForeignKeyError {
    /// When it failed, in microseconds since 1970.
    pub at: i64,
    /// Number of the error.
    pub code: u16,
    /// Its text.
    pub message: Box<str>,
    /// The session.
    pub session: Session,
    /// The statement, or its beginning.
    pub text: Box<[u8]>,
    /// The transaction, if it is still open and has locked or written.
    pub trx: Option<TrxInfo>,
    /// The age of the transaction in seconds.
    pub seconds: u64,
    /// Tables that the statement had open.
    pub tables: u64,
}

impl ForeignKeyError {
    /// The child table and the constraint that fails, where the error names them.
    pub fn constraint(&self) -> Option<(&str, &str)> {
        let (_, failed) = self.message.split_once(FAILS)?;
        failed.strip_suffix(')')?.split_once(", ")
    }
}

/// Keeps the last error.
#[derive(Default)]
pub struct LastForeignKeyError(Mutex<Option<Arc<ForeignKeyError>>>);

impl LastForeignKeyError {
    /// The last error since the start.
    pub fn get(&self) -> Option<Arc<ForeignKeyError>> {
        self.0.lock().clone()
    }
}

/// Keeps the error of the running statement of `client`, if a foreign key caused it.
pub fn note(state: &Served, client: &Client, error: &SqlError) {
    if !matches!(error.code, code::ROW_IS_REFERENCED | code::NO_REFERENCED_ROW) {
        return;
    }
    let activity = client.activity.lock();
    let told = ForeignKeyError {
        at: time::unix_micros(),
        code: error.code,
        message: (*error.message).into(),
        session: Session::of(client, &activity),
        text: beginning(&hidden(&activity.text), TEXT_BYTES_MAX).into(),
        trx: state.engine.transaction_of(&client.owner),
        seconds: activity.transaction_began().elapsed().as_secs(),
        tables: u64::from(client.tables.load(std::sync::atomic::Ordering::Relaxed)),
    };
    drop(activity);
    *state.foreign_key_error.0.lock() = Some(Arc::new(told));
}
