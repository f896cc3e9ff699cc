//! INNODB_TRX, INNODB_LOCKS, INNODB_LOCK_WAITS as MariaDB has them, and the statements of open transactions.
//!
//! Locks belong to keys, not to pages: the page and place of a record are NULL, a lock's name ends in a number made of its
//! key. As in MariaDB, only waits and the locks that block them are shown.

use hashbrown::HashSet;
use keel_storage::{LockInfo, LockKind, LockWait};
use keel_value::Value;

use super::{RowMaker, View, flag, maybe, number, second, text};
use crate::monitor::deadlocks::running;
use crate::monitor::history::Statement;
use crate::monitor::names::LockText;
use crate::monitor::transactions::{self, Open, isolation_name, unix_of};

/// The maximum number of shown locks and waits.
const LOCKS_MAX: usize = 10_000;

/// Characters of the statement in INNODB_TRX.
const QUERY_CHARS: usize = 1024;

/// Makes the rows of one of these tables.
pub fn fill(view: &View<'_>, rows: &mut RowMaker<'_>) {
    match rows.table() {
        "INNODB_TRX" => trx(view, rows),
        "INNODB_LOCKS" => locks(view, rows),
        "INNODB_LOCK_WAITS" => lock_waits(view, rows),
        _ => statements(view, rows),
    }
}

fn trx(view: &View<'_>, rows: &mut RowMaker<'_>) {
    for open in transactions::open(view.served) {
        let wait = open.locking.as_ref().and_then(|trx| trx.wait.as_ref());
        let of_trx = |f: fn(&keel_storage::TrxInfo) -> u64| open.locking.as_ref().map_or(0, f);
        let tables = open.locking.as_ref().map_or(0, |t| transactions::table_count(view.served, &t.trees));
        let query = open
            .text
            .as_ref()
            .map(|text| String::from_utf8_lossy(text).chars().take(QUERY_CHARS).collect::<String>());
        let is_autocommit_read = open.is_autocommit && open.locking.is_none();
        rows.row([
            ("trx_id", number(open.number())),
            ("trx_state", text(open.state())),
            ("trx_started", second(view, unix_of(open.began))),
            ("trx_requested_lock_id", maybe(wait.map(|wait| lock_id(&wait.lock)))),
            ("trx_wait_started", wait.map_or(Value::Null, |wait| second(view, unix_of(wait.since)))),
            ("trx_weight", number(of_trx(|trx| trx.rows_changed + trx.locks))),
            ("trx_mysql_thread_id", number(open.session.as_ref().map_or(0, |session| session.id))),
            ("trx_query", maybe(query)),
            ("trx_operation_state", text(operation(&open))),
            ("trx_tables_in_use", number(open.tables)),
            ("trx_tables_locked", number(tables)),
            ("trx_lock_structs", number(of_trx(|trx| trx.locks))),
            ("trx_lock_memory_bytes", number(of_trx(|trx| trx.lock_bytes))),
            ("trx_rows_locked", number(of_trx(|trx| trx.row_locks + trx.rows_changed))),
            ("trx_rows_modified", number(of_trx(|trx| trx.rows_changed))),
            ("trx_isolation_level", text(isolation_name(open.isolation))),
            ("trx_unique_checks", flag(setting(&open, "unique_checks"))),
            ("trx_foreign_key_checks", flag(setting(&open, "foreign_key_checks"))),
            ("trx_is_read_only", flag(open.read_only || is_autocommit_read)),
            ("trx_autocommit_non_locking", flag(is_autocommit_read)),
        ]);
    }
}

/// A switch of the session; on where there is none.
fn setting(open: &Open, name: &str) -> bool {
    open.client.as_ref().is_none_or(|client| client.settings.lock().named(name).is_on())
}

/// What the running statement does in the engine; empty where none runs.
pub fn operation(open: &Open) -> &'static str {
    match &open.locking {
        Some(trx) if trx.rolling_back => "rollback",
        _ => operation_in(open.session.as_ref().map_or("", |session| session.state)),
    }
}

/// What a statement does in the engine whose session is in that state.
pub fn operation_in(state: &str) -> &'static str {
    match state {
        "Rollback" => "rollback",
        "Update" => "inserting",
        "Updating" => "updating or deleting",
        "Commit" => "committing",
        "Sending data" => "fetching rows",
        _ => "",
    }
}

/// The name of a lock: its transaction, tree, and a number made of its key.
fn lock_id(lock: &LockInfo) -> String {
    format!("{}:{}:{}", lock.owner, lock.tree, keel_base::checksum::crc32c(&lock.key))
}

/// The waiting transactions and those that block them.
fn waits(view: &View<'_>) -> Vec<LockWait> {
    let mut found = Vec::new();
    let mut count = 0;
    for client in view.served.registry.all() {
        let Some(wait) = view.served.engine.lock_wait(&client.owner) else { continue };
        count += 1 + wait.held.len();
        found.push(wait);
        if count >= LOCKS_MAX {
            break;
        }
    }
    found
}

fn locks(view: &View<'_>, rows: &mut RowMaker<'_>) {
    let mut seen = HashSet::new();
    for wait in waits(view) {
        for lock in std::iter::once(&wait.asked).chain(&wait.held) {
            let id = lock_id(lock);
            if seen.len() >= LOCKS_MAX || !seen.insert(id.clone()) {
                continue;
            }
            // As in InnoDB an insert waits at the record above it.
            let above = wait.held.first().filter(|_| lock.kind == LockKind::Insert);
            let key = above.map_or(&lock.key, |above| &above.key).clone();
            let told = LockText::of(view.served, &LockInfo { key, ..lock.clone() });
            rows.row([
                ("lock_id", text(id)),
                ("lock_trx_id", number(lock.owner)),
                ("lock_mode", text(told.mode_word())),
                ("lock_type", text(if lock.kind == LockKind::Counter { "TABLE" } else { "RECORD" })),
                ("lock_table", text(&told.table)),
                ("lock_index", maybe((!told.index.is_empty()).then_some(&told.index))),
                ("lock_space", number(u64::from(told.tree))),
                ("lock_data", text(&told.data)),
            ]);
        }
    }
}

fn lock_waits(view: &View<'_>, rows: &mut RowMaker<'_>) {
    for wait in waits(view) {
        for held in wait.held.iter().take(LOCKS_MAX) {
            rows.row([
                ("requesting_trx_id", number(wait.asked.owner)),
                ("requested_lock_id", text(lock_id(&wait.asked))),
                ("blocking_trx_id", number(held.owner)),
                ("blocking_lock_id", text(lock_id(held))),
            ]);
        }
    }
}

fn statements(view: &View<'_>, rows: &mut RowMaker<'_>) {
    for client in view.served.registry.all() {
        let Some(open) = transactions::of_client(&view.served.engine, client.clone()) else { continue };
        let (kept, running, lost) = {
            let activity = client.activity.lock();
            let kept: Vec<Statement> = activity.history.statements().collect();
            (kept, running(&activity), activity.history.lost())
        };
        let count = kept.len();
        for (place, statement) in kept.into_iter().chain(running).enumerate() {
            rows.row([
                ("THREAD_ID", number(client.id)),
                ("TRX_ID", number(open.number())),
                ("STATEMENT_NUMBER", number(lost + place as u64 + 1)),
                ("BEGAN", super::moment(view, unix_of(statement.since))),
                ("IS_RUNNING", flag(place == count)),
                ("STATEMENT", Value::Bytes(statement.text.clone())),
                ("STATEMENT_LENGTH", number(statement.text_len)),
                ("IS_CUT", flag(statement.text_len > statement.text.len() as u64)),
                ("PARAMETERS", parameters(&statement)),
            ]);
        }
    }
}

/// The parameters of a statement, NULL where it has none.
pub fn parameters(statement: &Statement) -> Value {
    match statement.parameters.is_empty() {
        true => Value::Null,
        false => Value::bytes(String::from_utf8_lossy(&statement.parameters).as_bytes()),
    }
}
