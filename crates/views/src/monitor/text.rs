//! The text of SHOW ENGINE INNODB STATUS: InnoDB's sections in its order and words, so that what reads those reads this.
//!
//! A line says what is true here or is left out. Numbers that InnoDB's lines must have and that mean nothing here are 0: the
//! page and place of a locked record (locks belong to keys) and the thread of a session (sessions are fibers). The number
//! behind `query id` counts the statements of its connection. Sessions without a transaction have no entry.

use std::fmt::Write;

use keel_base::code;
use keel_storage::{LockKind, LockMode, TrxInfo};
use keel_value::temporal::Zone;
use keel_value::{DateTime, SqlType, TypeKind, ValueRef, convert};

use super::deadlocks::{Deadlock, Party, Told};
use super::figures::{Figures, file_syncs, file_writes};
use super::foreign::ForeignKeyError;
use super::history::{Statement, beginning};
use super::names::{LockText, SUPREMUM};
use super::transactions::{self, Open, Session};
use crate::Served;
use crate::schema::locks::{operation, operation_in};

/// Bytes of the report, as in InnoDB.
pub const TEXT_BYTES_MAX: usize = 1 << 20;
/// Of those, what the sections behind the list of transactions may need.
const REST_BYTES: usize = 16 << 10;
/// Bytes of a statement.
const QUERY_BYTES_MAX: usize = 3000;
/// Bytes of a page.
const PAGE_BYTES: u64 = 16 << 10;

/// What writes lines; writing into a String cannot fail.
macro_rules! line {
    ($out:expr, $($text:tt)*) => {{
        let _ = writeln!($out, $($text)*);
    }};
}

/// The report at this moment.
pub fn report(state: &Served, zone: &dyn Zone) -> String {
    let figures = Figures::take(state);
    let mut out = String::from("\n");
    let rule = "=".repeat(37);
    line!(out, "{rule}\n{} 0x0 INNODB MONITOR OUTPUT\n{rule}", shown_time(figures.now, zone));
    line!(out, "Per second averages calculated from the last {:.0} seconds", figures.seconds);
    background(&mut out, &figures);
    semaphores(&mut out);
    if let Some(error) = state.foreign_key_error.get() {
        latest_foreign_key_error(&mut out, &error, zone);
    }
    if let Some(deadlock) = state.deadlocks.last_told() {
        latest_deadlock(&mut out, &deadlock, zone);
    }
    transactions(&mut out, state, &figures);
    files(&mut out, &figures);
    log(&mut out, &figures);
    pool(&mut out, &figures);
    rows(&mut out, &figures);
    let rule = "-".repeat(28);
    line!(out, "{rule}\nEND OF INNODB MONITOR OUTPUT\n{}", "=".repeat(28));
    out
}

fn shown_time(unix_micros: i64, zone: &dyn Zone) -> String {
    let seconds = unix_micros.div_euclid(1_000_000);
    let local = convert::timestamp_to_local(DateTime::from_unix(seconds, 0), zone);
    let mut text = Vec::new();
    convert::to_text(ValueRef::DateTime(local), &SqlType::new(TypeKind::DateTime), &mut text);
    String::from_utf8_lossy(&text).into_owned()
}

fn heading(out: &mut String, name: &str) {
    let rule = "-".repeat(name.len());
    line!(out, "{rule}\n{name}\n{rule}");
}

fn background(out: &mut String, figures: &Figures) {
    let store = &figures.status.store;
    heading(out, "BACKGROUND THREAD");
    line!(out, "log writer: {} writes, {} bytes", store.log_writes, store.log_bytes);
    line!(out, "flusher: {} pages written, {} doublewrite batches", store.writes, store.doublewrite_batches);
}

/// What fibers have waited for since the start.
fn semaphores(out: &mut String) {
    heading(out, "SEMAPHORES");
    for total in keel_runtime::wait::totals().iter().filter(|total| total.count > 0) {
        line!(out, "{}: {} waits, {} ms", total.event.name(), total.count, total.nanos / 1_000_000);
    }
}

fn latest_foreign_key_error(out: &mut String, error: &ForeignKeyError, zone: &dyn Zone) {
    heading(out, "LATEST FOREIGN KEY ERROR");
    let Some((table, constraint)) = error.constraint() else {
        line!(out, "{} 0x{:x} {}", shown_time(error.at, zone), error.session.id, error.message);
        return;
    };
    line!(out, "{} 0x{:x} Transaction:", shown_time(error.at, zone), error.session.id);
    let of_trx = |f: fn(&TrxInfo) -> u64| error.trx.as_ref().map_or(0, f);
    let head = Head {
        number: of_trx(|trx| trx.number),
        seconds: error.seconds as i64,
        operation: operation_in(error.session.state),
        tables: error.tables,
        tables_locked: error.tables,
        waits: false,
        locks: of_trx(|trx| trx.locks),
        lock_bytes: of_trx(|trx| trx.lock_bytes),
        row_locks: of_trx(|trx| trx.row_locks + trx.rows_changed),
        rows_changed: of_trx(|trx| trx.rows_changed),
        session: Some(&error.session),
        text: Some(&error.text),
        prepared: false,
    };
    head_lines(out, "TRANSACTION", &head);
    line!(out, "Foreign key constraint fails for table {table}:\n,");
    match error.code {
        code::NO_REFERENCED_ROW => line!(out, "  {constraint} in parent table"),
        _ => line!(out, "  {constraint}\nTrying to delete or update in parent table"),
    }
}

fn latest_deadlock(out: &mut String, deadlock: &Deadlock, zone: &dyn Zone) {
    heading(out, "LATEST DETECTED DEADLOCK");
    line!(out, "{} 0x{:x}", shown_time(deadlock.at, zone), deadlock.finder());
    let lines = deadlock_lines(deadlock, |title| format!("{title}\n"));
    out.push_str(lines.trim_start());
}

/// A deadlock as notes in the error log, as `innodb_print_all_deadlocks` wants them; `note` makes one of a text.
pub fn deadlock_notes(deadlock: &Deadlock, note: &dyn Fn(&str) -> String) -> String {
    let mut out = note("InnoDB: Transactions deadlock detected, dumping detailed information.");
    out.push_str(&deadlock_lines(deadlock, |title| note(&format!("InnoDB: {title}\n"))));
    out
}

/// The parts of a deadlock, each behind what `title` makes of its title.
fn deadlock_lines(deadlock: &Deadlock, title: impl Fn(&str) -> String) -> String {
    let mut out = String::new();
    for (place, party) in deadlock.parties.iter().enumerate() {
        out.push_str(&title(&format!("\n*** ({}) TRANSACTION:", place + 1)));
        party_lines(&mut out, deadlock.at, party);
        out.push_str(&title("*** WAITING FOR THIS LOCK TO BE GRANTED:"));
        lock_lines(&mut out, &party.waits_for, party.trx);
        if deadlock.told == Told::Conflicts {
            out.push_str(&title("*** CONFLICTING WITH:"));
            let next = &deadlock.parties[(place + 1) % deadlock.parties.len()];
            lock_lines(&mut out, &next.holds, next.trx);
        }
    }
    out.push_str(&title(&format!("*** WE ROLL BACK TRANSACTION ({})", deadlock.victim + 1)));
    out
}

/// What stands in the first lines of a transaction.
struct Head<'a> {
    number: u64,
    seconds: i64,
    operation: &'static str,
    tables: u64,
    tables_locked: u64,
    waits: bool,
    locks: u64,
    lock_bytes: u64,
    row_locks: u64,
    rows_changed: u64,
    session: Option<&'a Session>,
    text: Option<&'a [u8]>,
    prepared: bool,
}

fn party_lines(out: &mut String, at: i64, party: &Party) {
    let last: Option<&Statement> = party.statements.last();
    let session = party.session.as_ref();
    let head = Head {
        number: party.trx,
        seconds: (at - party.started).max(0) / 1_000_000,
        operation: operation_in(session.map_or("", |session| session.state)),
        tables: party.tables,
        tables_locked: party.tables,
        waits: true,
        locks: party.locks,
        lock_bytes: party.lock_bytes,
        row_locks: party.row_locks + party.rows_changed,
        rows_changed: party.rows_changed,
        session,
        text: last.map(|statement| &*statement.text),
        prepared: false,
    };
    head_lines(out, "TRANSACTION", &head);
}

fn head_lines(out: &mut String, title: &str, head: &Head<'_>) {
    let number = match head.number {
        0 => format!("(0x{:x})", head.session.map_or(0, |session| session.id)),
        number => number.to_string(),
    };
    let space = if head.operation.is_empty() { "" } else { " " };
    let prepared = if head.prepared { " (PREPARED)" } else { "" };
    let free = if head.prepared && head.session.is_none() { " recovered trx" } else { "" };
    line!(out, "{title} {number}, ACTIVE{prepared} {} sec{space}{}{free}", head.seconds, head.operation);
    if head.tables > 0 {
        line!(out, "mysql tables in use {}, locked {}", head.tables, head.tables_locked);
    }
    let waits = if head.waits { "LOCK WAIT " } else { "" };
    let undo = match head.rows_changed {
        0 => String::new(),
        count => format!(", undo log entries {count}"),
    };
    line!(
        out,
        "{waits}{} lock struct(s), heap size {}, {} row lock(s){undo}",
        head.locks,
        head.lock_bytes,
        head.row_locks
    );
    if let Some(session) = head.session {
        line!(
            out,
            "MariaDB thread id {}, OS thread handle 0, query id {} {} {} {}",
            session.id,
            session.query,
            hosts(&session.host),
            session.user,
            session.state
        );
    }
    if let Some(text) = head.text {
        line!(out, "{}", String::from_utf8_lossy(beginning(text, QUERY_BYTES_MAX)));
    }
}

/// Name and address of a client.
fn hosts(shown: &str) -> String {
    match shown.rsplit_once(':') {
        Some(("localhost", _)) => "localhost 127.0.0.1".into(),
        Some((address, _)) => address.into(),
        None => shown.into(),
    }
}

/// A lock as InnoDB prints it, with the columns of the key that is locked.
fn lock_lines(out: &mut String, lock: &LockText, number: u64) {
    let waits = if lock.waits { " waiting" } else { "" };
    if lock.kind == LockKind::Counter {
        line!(out, "TABLE LOCK table {} trx id {number} lock mode AUTO-INC{waits}", lock.table);
        return;
    }
    let mode = if lock.mode == LockMode::Exclusive { "lock_mode X" } else { "lock mode S" };
    let what = match lock.kind {
        LockKind::Row => " locks rec but not gap",
        LockKind::Gap => " locks gap before rec",
        LockKind::NextKey | LockKind::Counter => "",
        LockKind::Insert => " locks gap before rec insert intention",
    };
    line!(
        out,
        "RECORD LOCKS space id {} page no 0 n bits 0 index {} of table {} trx id {number} {mode}{what}{waits}",
        lock.tree,
        lock.index,
        lock.table
    );
    if &*lock.data == SUPREMUM {
        line!(out, "Record lock, heap no 1 PHYSICAL RECORD: n_fields 1; compact format; info bits 0");
        field_line(out, 0, b"supremum");
    } else {
        let count = lock.fields.len();
        line!(out, "Record lock, heap no 0 PHYSICAL RECORD: n_fields {count}; compact format; info bits 0");
        lock.fields.iter().enumerate().for_each(|(place, field)| field_line(out, place, field));
    }
    out.push('\n');
}

fn field_line(out: &mut String, place: usize, octets: &[u8]) {
    let _ = write!(out, " {place}: len {}; hex ", octets.len());
    for octet in octets {
        let _ = write!(out, "{octet:02x}");
    }
    out.push_str("; asc ");
    out.extend(octets.iter().map(|octet| if octet.is_ascii_graphic() { char::from(*octet) } else { ' ' }));
    out.push_str(";;\n");
}

fn transactions(out: &mut String, state: &Served, figures: &Figures) {
    let status = &figures.status;
    heading(out, "TRANSACTIONS");
    line!(out, "Trx id counter {}", status.next_trx_id);
    line!(out, "Purge done for trx's n:o < {} undo n:o < 0 state: running", status.purge_limit);
    line!(out, "History list length {}", status.history_len);
    line!(out, "LIST OF TRANSACTIONS FOR EACH SESSION:");
    for open in &figures.open {
        let before = out.len();
        open_lines(out, state, figures, open);
        if out.len() > TEXT_BYTES_MAX - REST_BYTES {
            out.truncate(before);
            line!(out, "... truncated...");
            state.note_cut_report();
            return;
        }
    }
}

fn open_lines(out: &mut String, state: &Served, figures: &Figures, open: &Open) {
    let of_trx = |f: fn(&TrxInfo) -> u64| open.locking.as_ref().map_or(0, f);
    let wait = open.locking.as_ref().and_then(|trx| trx.wait.as_ref());
    let head = Head {
        number: open.number(),
        seconds: open.began.elapsed().as_secs() as i64,
        operation: operation(open),
        tables: open.tables,
        tables_locked: open.locking.as_ref().map_or(0, |trx| transactions::table_count(state, &trx.trees)),
        waits: wait.is_some(),
        locks: of_trx(|trx| trx.locks),
        lock_bytes: of_trx(|trx| trx.lock_bytes),
        row_locks: of_trx(|trx| trx.row_locks + trx.rows_changed),
        rows_changed: of_trx(|trx| trx.rows_changed),
        session: open.session.as_ref(),
        text: open.text.as_deref(),
        prepared: open.locking.as_ref().is_some_and(|trx| trx.prepared),
    };
    head_lines(out, "---TRANSACTION", &head);
    if let Some((wait, trx)) = wait.zip(open.locking.as_ref()) {
        let micros = (figures.now - transactions::unix_of(wait.since)).max(0);
        line!(out, "------- TRX HAS BEEN WAITING {micros} us FOR THIS LOCK TO BE GRANTED:");
        lock_lines(out, &LockText::of(state, &wait.lock), trx.number);
        line!(out, "------------------");
    }
}

fn files(out: &mut String, figures: &Figures) {
    let status = &figures.status;
    heading(out, "FILE I/O");
    line!(
        out,
        "{} OS file reads, {} OS file writes, {} OS fsyncs",
        status.store.reads,
        file_writes(status),
        file_syncs(status)
    );
    let reads = figures.rate(|status| status.store.reads);
    line!(
        out,
        "{reads:.2} reads/s, {} avg bytes/read, {:.2} writes/s, {:.2} fsyncs/s",
        if reads > 0.0 { PAGE_BYTES } else { 0 },
        figures.rate(file_writes),
        figures.rate(file_syncs)
    );
}

fn log(out: &mut String, figures: &Figures) {
    let store = &figures.status.store;
    heading(out, "LOG");
    line!(out, "Log sequence number {}", store.lsn);
    line!(out, "Log flushed up to   {}", store.durable_lsn);
    line!(out, "Pages flushed up to {}", store.flushed_lsn);
    line!(out, "Last checkpoint at  {}", store.checkpoint_lsn);
    line!(
        out,
        "{} log i/o's done, {:.2} log i/o's/second",
        store.log_writes,
        figures.rate(|s| s.store.log_writes)
    );
}

fn pool(out: &mut String, figures: &Figures) {
    let store = &figures.status.store;
    let data = store.pages_total.saturating_sub(store.pages_free);
    heading(out, "BUFFER POOL AND MEMORY");
    line!(out, "Total large memory allocated {}", store.pages_total * PAGE_BYTES);
    line!(out, "Buffer pool size   {}", store.pages_total);
    line!(out, "Free buffers       {}", store.pages_free);
    line!(out, "Database pages     {data}");
    line!(out, "Old database pages 0");
    line!(out, "Modified db pages  {}", store.pages_dirty);
    let dirty = store.pages_dirty as f64 * 100.0 / (store.pages_total.max(1)) as f64;
    line!(out, "Percent of dirty pages(LRU & free pages): {dirty:.3}");
    line!(out, "Pages read {}, created {}, written {}", store.reads, store.creates, store.writes);
    line!(
        out,
        "{:.2} reads/s, {:.2} creates/s, {:.2} writes/s",
        figures.rate(|status| status.store.reads),
        figures.rate(|status| status.store.creates),
        figures.rate(|status| status.store.writes)
    );
    match figures.hit_rate() {
        (0, _) => line!(out, "No buffer pool page gets since the last printout"),
        (_, rate) => {
            line!(out, "Buffer pool hit rate {rate} / 1000, young-making rate 0 / 1000 not 0 / 1000")
        }
    }
    line!(
        out,
        "Pages read ahead {:.2}/s, evicted without access 0.00/s, Random read ahead 0.00/s",
        figures.rate(|status| status.store.reads_ahead)
    );
    line!(out, "LRU len: {data}, unzip_LRU len: 0");
}

fn rows(out: &mut String, figures: &Figures) {
    let status = &figures.status;
    heading(out, "ROW OPERATIONS");
    line!(out, "{} queries inside InnoDB, {} queries in queue", status.trx_inside, status.trx_queued);
    line!(out, "{} read views open inside InnoDB", status.snapshots);
    line!(
        out,
        "Number of rows inserted {}, updated {}, deleted {}, read {}",
        status.rows_inserted,
        status.rows_updated,
        status.rows_deleted,
        status.rows_read
    );
    line!(
        out,
        "{:.2} inserts/s, {:.2} updates/s, {:.2} deletes/s, {:.2} reads/s",
        figures.rate(|status| status.rows_inserted),
        figures.rate(|status| status.rows_updated),
        figures.rate(|status| status.rows_deleted),
        figures.rate(|status| status.rows_read)
    );
}
