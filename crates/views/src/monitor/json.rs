//! SHOW ENGINE INNODB STATUS FORMAT=JSON: the figures of the report under names of their own. `docs/STATUS.md` describes
//! each field, and a test compares the two.

use keel_storage::TrxInfo;
use keel_value::temporal::Zone;

use super::deadlocks::{Deadlock, Party};
use super::figures::Figures;
use super::foreign::ForeignKeyError;
use super::history::Statement;
use super::names::LockText;
use super::transactions::{self, Open, Session, isolation_name};
use crate::Served;

/// Transactions in the report.
const TRANSACTIONS_MAX: usize = 1000;
/// Bytes of a statement in the report.
const TEXT_BYTES_MAX: usize = super::history::TEXT_BYTES_MAX;

/// A value of JSON.
enum Json {
    Null,
    Number(u64),
    Bool(bool),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
}

impl Json {
    fn write(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Number(number) => out.push_str(&number.to_string()),
            Json::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            Json::Text(text) => write_text(text, out),
            Json::List(items) => {
                write_items('[', items, ']', out, Json::write);
            }
            Json::Object(fields) => write_items('{', fields, '}', out, |(name, value), out| {
                write_text(name, out);
                out.push_str(": ");
                value.write(out);
            }),
        }
    }
}

fn write_items<T>(open: char, items: &[T], close: char, out: &mut String, write: impl Fn(&T, &mut String)) {
    out.push(open);
    for (place, item) in items.iter().enumerate() {
        if place > 0 {
            out.push_str(", ");
        }
        write(item, out);
    }
    out.push(close);
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\n' => out.push_str("\\n"),
            control if control < ' ' => out.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => out.push(other),
        }
    }
    out.push('"');
}

fn text(text: impl Into<String>) -> Json {
    Json::Text(text.into())
}

fn octets(octets: &[u8]) -> Json {
    text(String::from_utf8_lossy(super::history::beginning(octets, TEXT_BYTES_MAX)))
}

fn maybe<T>(value: Option<T>, make: impl FnOnce(T) -> Json) -> Json {
    value.map_or(Json::Null, make)
}

/// A moment as milliseconds since 1970.
fn moment(unix_micros: i64) -> Json {
    Json::Number((unix_micros / 1000).max(0) as u64)
}

/// The report at this moment; times are of no zone.
pub fn report(state: &Served, _: &dyn Zone) -> String {
    let figures = Figures::take(state);
    let report = Json::Object(vec![
        ("time_ms", moment(figures.now)),
        ("uptime_s", Json::Number(state.uptime())),
        ("since_last_report_ms", Json::Number((figures.seconds * 1000.0) as u64)),
        ("transactions", transactions(state, &figures)),
        ("locks", locks(&figures)),
        ("rows", rows(&figures)),
        ("log", log(&figures)),
        ("buffer_pool", pool(&figures)),
        ("waits", waits()),
        ("latest_deadlock", maybe(figures.deadlock.as_deref(), deadlock)),
        ("latest_foreign_key_error", maybe(state.foreign_key_error.get().as_deref(), foreign_key_error)),
    ]);
    let mut out = String::new();
    report.write(&mut out);
    out
}

fn transactions(state: &Served, figures: &Figures) -> Json {
    let status = &figures.status;
    let open = figures.open.iter().take(TRANSACTIONS_MAX).map(|open| transaction(state, open)).collect();
    Json::Object(vec![
        ("next_id", Json::Number(status.next_trx_id)),
        ("purge_limit", Json::Number(status.purge_limit)),
        ("history_length", Json::Number(status.history_len)),
        ("purged_ahead", Json::Number(status.purged_ahead)),
        ("undo_pages", Json::Number(status.undo_pages)),
        ("snapshots", Json::Number(status.snapshots)),
        ("writing", Json::Number(status.trx_active)),
        ("inside", Json::Number(status.trx_inside)),
        ("queued", Json::Number(status.trx_queued)),
        ("commits", Json::Number(status.commits)),
        ("rollbacks", Json::Number(status.rollbacks)),
        ("open", Json::Number(figures.open.len() as u64)),
        ("list", Json::List(open)),
    ])
}

fn transaction(state: &Served, open: &Open) -> Json {
    let of_trx = |f: fn(&TrxInfo) -> u64| Json::Number(open.locking.as_ref().map_or(0, f));
    let wait = open.locking.as_ref().and_then(|trx| trx.wait.as_ref());
    Json::Object(vec![
        ("trx_id", Json::Number(open.number())),
        ("state", text(open.state())),
        ("began_ms", moment(transactions::unix_of(open.began))),
        ("isolation", text(isolation_name(open.isolation))),
        ("read_only", Json::Bool(open.read_only)),
        ("holds_snapshot", Json::Bool(open.is_reading)),
        ("rows_changed", of_trx(|trx| trx.rows_changed)),
        ("entries_changed", of_trx(|trx| trx.changes)),
        ("row_locks", of_trx(|trx| trx.row_locks)),
        ("gap_trees", of_trx(|trx| trx.gap_trees)),
        ("lock_bytes", of_trx(|trx| trx.lock_bytes)),
        ("session", maybe(open.session.as_ref(), session)),
        ("statement", maybe(open.text.as_deref(), octets)),
        ("waits_since_ms", maybe(wait, |wait| moment(transactions::unix_of(wait.since)))),
        ("waits_for", maybe(wait, |wait| lock(&LockText::of(state, &wait.lock)))),
    ])
}

fn session(session: &Session) -> Json {
    Json::Object(vec![
        ("thread_id", Json::Number(session.id)),
        ("user", text(&*session.user)),
        ("host", text(&*session.host)),
        ("database", maybe(session.database.as_deref(), text)),
        ("state", text(session.state)),
    ])
}

fn lock(lock: &LockText) -> Json {
    Json::Object(vec![
        ("table", text(&*lock.table)),
        ("index", text(&*lock.index)),
        ("tree", Json::Number(u64::from(lock.tree))),
        ("mode", text(lock.whole_mode())),
        ("data", text(&*lock.data)),
    ])
}

fn locks(figures: &Figures) -> Json {
    let status = &figures.status;
    let millis = |nanos: u64| Json::Number(nanos / 1_000_000);
    Json::Object(vec![
        ("waits", Json::Number(status.lock_waits)),
        ("waiting", Json::Number(status.lock_waiting)),
        ("wait_ms", millis(status.lock_wait_nanos)),
        ("wait_ms_max", millis(status.lock_wait_nanos_max)),
        ("timeouts", Json::Number(status.lock_timeouts)),
        ("deadlocks", Json::Number(status.deadlocks)),
    ])
}

fn rows(figures: &Figures) -> Json {
    let status = &figures.status;
    Json::Object(vec![
        ("inserted", Json::Number(status.rows_inserted)),
        ("updated", Json::Number(status.rows_updated)),
        ("deleted", Json::Number(status.rows_deleted)),
        ("read", Json::Number(status.rows_read)),
    ])
}

fn log(figures: &Figures) -> Json {
    let store = &figures.status.store;
    Json::Object(vec![
        ("lsn", Json::Number(store.lsn)),
        ("durable_lsn", Json::Number(store.durable_lsn)),
        ("flushed_lsn", Json::Number(store.flushed_lsn)),
        ("checkpoint_lsn", Json::Number(store.checkpoint_lsn)),
        ("capacity_bytes", Json::Number(store.redo_capacity)),
        ("writes", Json::Number(store.log_writes)),
        ("written_bytes", Json::Number(store.log_bytes)),
        ("groups", Json::Number(store.log_requests)),
        ("space_waits", Json::Number(store.log_waits)),
    ])
}

fn pool(figures: &Figures) -> Json {
    let store = &figures.status.store;
    Json::Object(vec![
        ("pages", Json::Number(store.pages_total)),
        ("free", Json::Number(store.pages_free)),
        ("dirty", Json::Number(store.pages_dirty)),
        ("requests", Json::Number(store.read_requests)),
        ("reads", Json::Number(store.reads)),
        ("reads_ahead", Json::Number(store.reads_ahead)),
        ("reads_open", Json::Number(store.reads_open)),
        ("reads_held", Json::Number(keel_runtime::stats::totals().reads_held)),
        ("created", Json::Number(store.creates)),
        ("written", Json::Number(store.writes)),
        ("written_for_frames", Json::Number(store.writes_for_frames)),
        ("writes_open", Json::Number(store.writes_open)),
        ("evicted", Json::Number(store.evictions)),
        ("frame_waits", Json::Number(store.free_waits)),
        ("data_syncs", Json::Number(store.data_syncs)),
        ("doublewrite_batches", Json::Number(store.doublewrite_batches)),
        ("doublewrite_pages", Json::Number(store.doublewrite_pages)),
        ("hit_rate_per_thousand", Json::Number(figures.hit_rate().1)),
    ])
}

fn waits() -> Json {
    let totals = keel_runtime::wait::totals();
    let list = totals.iter().filter(|total| total.count > 0).map(|total| {
        Json::Object(vec![
            ("event", text(total.event.name())),
            ("count", Json::Number(total.count)),
            ("ms", Json::Number(total.nanos / 1_000_000)),
        ])
    });
    Json::List(list.collect())
}

fn foreign_key_error(error: &ForeignKeyError) -> Json {
    Json::Object(vec![
        ("failed_ms", moment(error.at)),
        ("code", Json::Number(error.code.into())),
        ("message", text(&*error.message)),
        ("trx_id", Json::Number(error.trx.as_ref().map_or(0, |trx| trx.number))),
        ("session", session(&error.session)),
        ("statement", octets(&error.text)),
    ])
}

fn deadlock(deadlock: &Deadlock) -> Json {
    Json::Object(vec![
        ("deadlock_id", Json::Number(deadlock.number)),
        ("detected_ms", moment(deadlock.at)),
        ("victim_position", Json::Number(deadlock.victim as u64 + 1)),
        ("parties", Json::List(deadlock.parties.iter().map(party).collect())),
    ])
}

fn party(party: &Party) -> Json {
    let statements = party.statements.iter().zip(&party.begun).map(|(told, begun)| statement(told, *begun));
    Json::Object(vec![
        ("trx_id", Json::Number(party.trx)),
        ("began_ms", moment(party.started)),
        ("isolation", text(isolation_name(party.isolation))),
        ("rows_changed", Json::Number(party.rows_changed)),
        ("row_locks", Json::Number(party.row_locks)),
        ("session", maybe(party.session.as_ref(), session)),
        ("waits_since_ms", moment(party.waits_since)),
        ("waits_for", lock(&party.waits_for)),
        ("holds", lock(&party.holds)),
        ("statements_lost", Json::Number(party.lost)),
        ("statements", Json::List(statements.collect())),
    ])
}

fn statement(told: &Statement, begun: i64) -> Json {
    let parameters = (!told.parameters.is_empty()).then_some(&*told.parameters);
    Json::Object(vec![
        ("began_ms", moment(begun)),
        ("text", octets(&told.text)),
        ("text_length", Json::Number(told.text_len)),
        ("parameters", maybe(parameters, octets)),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped() {
        let mut out = String::new();
        Json::List(vec![text("a\"b\\c\n\u{1}ä"), Json::Null, Json::Bool(true)]).write(&mut out);
        assert_eq!(out, "[\"a\\\"b\\\\c\\n\\u0001ä\", null, true]");
    }
}
