//! Status variables: MariaDB's names; what this server does not count is 0.

use std::sync::LazyLock;
use std::sync::atomic::Ordering;

use keel_catalog::account::{Account, Accounts, PUBLIC};
use keel_storage::EngineStatus;
use keel_tls::{Acceptor, certificate};

use crate::Served;
use crate::counters::Counter;
use crate::registry::Client;

/// Bytes of a page.
const PAGE_BYTES: u64 = 16 * 1024;

/// Names with the text that stands for nothing counted.
static NAMES: LazyLock<Vec<(&'static str, &'static str)>> = LazyLock::new(|| {
    include_str!("status.txt")
        .lines()
        .map(|line| match line.split_once('\t') {
            Some((name, "-")) => (name, ""),
            Some((name, value)) => (name, value),
            None => (line, "0"),
        })
        .collect()
});

/// All status variables, in MariaDB's order, as `asker` sees them: with its own counts where it has some, if `own` are asked
/// for. What it is to its connection it sees either way.
pub fn all(state: &Served, asker: Option<&Client>, own: bool) -> Vec<(&'static str, String)> {
    let mut known = known(state, asker.filter(|_| own));
    known.extend(encryption(state, asker));
    NAMES
        .iter()
        .map(|(name, blank)| match known.iter().find(|(n, _)| n == name) {
            Some((_, value)) => (*name, value.clone()),
            None => (*name, blank.to_string()),
        })
        .collect()
}

fn known(state: &Served, session: Option<&Client>) -> Vec<(&'static str, String)> {
    let mut found: Vec<(&'static str, String)> = Counter::ALL
        .iter()
        .map(|(counter, name)| {
            let count = match session.filter(|_| counter.is_of_sessions()) {
                Some(client) => client.counters.get(*counter),
                None => state.counters.sum(*counter),
            };
            (*name, count.to_string())
        })
        .collect();
    let tables: usize = state.database().catalog().schemas().map(|s| s.tables().len()).sum();
    for (name, value) in [
        ("Created_tmp_files", state.database().host().work_memory().files_made()),
        ("Threads_connected", state.registry.len() as u64),
        ("Threads_created", keel_runtime::worker_count() as u64),
        ("Threadpool_threads", keel_runtime::worker_count() as u64),
        ("Max_used_connections", state.most_connections()),
        ("Uptime", state.uptime()),
        ("Uptime_since_flush_status", state.since_flush_status()),
        ("Open_tables", tables as u64),
        ("Open_table_definitions", tables as u64),
    ] {
        found.push((name, value.to_string()));
    }
    found.extend(accounts(&state.database().catalog().accounts));
    found.extend(engine(&state.engine.status()));
    found.push(("Innodb_truncated_status_writes", state.cut_reports().to_string()));
    found
}

/// How many users, roles and grants there are.
fn accounts(all: &Accounts) -> Vec<(&'static str, String)> {
    let sum = |of: &dyn Fn(&Account) -> usize| all.all().map(|account| of(account)).sum::<usize>();
    let columns = |account: &Account| account.tables.values().map(|grants| grants.columns.len()).sum();
    let numbers = [
        ("Acl_users", all.users().count()),
        ("Acl_roles", all.roles().filter(|role| *role.user != *PUBLIC).count()),
        ("Acl_database_grants", sum(&|account| account.databases.len())),
        ("Acl_table_grants", sum(&|account| account.tables.len())),
        ("Acl_column_grants", sum(&columns)),
        ("Acl_role_grants", sum(&|account| account.roles.len())),
        ("Acl_proxy_users", sum(&|account| account.proxied.len())),
    ];
    numbers.map(|(name, number)| (name, number.to_string())).into()
}

/// `-1` as an unsigned number: certificates' chains may be as long as they are.
const ANY_DEPTH: &str = "18446744073709551615";

/// Seconds that OpenSSL keeps sessions. None are kept here, but this is what it is.
const SESSION_SECONDS: u64 = 7200;

/// What there is to say about TLS and compression.
fn encryption(state: &Served, asker: Option<&Client>) -> Vec<(&'static str, String)> {
    let compressed = asker.is_some_and(|asker| asker.compressed.load(Ordering::Relaxed));
    let mut found = vec![("Compression", if compressed { "ON" } else { "OFF" }.to_string())];
    // As OpenSSL numbers it: asked for, once.
    let mode = |acceptor: &Acceptor| if acceptor.asks_clients { 5 } else { 0 }.to_string();
    match state.tls.acceptor() {
        None => found.push(("Ssl_session_cache_mode", "NONE".into())),
        Some(acceptor) => found.extend([
            ("Ssl_accepts", acceptor.accepts.get().to_string()),
            ("Ssl_finished_accepts", acceptor.finished.get().to_string()),
            ("Ssl_ctx_verify_depth", ANY_DEPTH.into()),
            ("Ssl_ctx_verify_mode", mode(&acceptor)),
            ("Ssl_session_cache_mode", "OFF".into()),
        ]),
    }
    if let Some((acceptor, established)) = asker.and_then(Client::encryption) {
        found.extend([
            ("Ssl_cipher", established.cipher.into()),
            ("Ssl_cipher_list", acceptor.cipher_list.clone()),
            ("Ssl_default_timeout", SESSION_SECONDS.to_string()),
            ("Ssl_server_not_after", certificate::print_time(acceptor.not_after)),
            ("Ssl_server_not_before", certificate::print_time(acceptor.not_before)),
            ("Ssl_verify_depth", ANY_DEPTH.into()),
            ("Ssl_verify_mode", mode(acceptor)),
            ("Ssl_version", established.version.into()),
        ]);
    }
    found
}

/// What the engine counts, under InnoDB's names.
pub fn engine(status: &EngineStatus) -> Vec<(&'static str, String)> {
    let store = &status.store;
    let data = store.pages_total.saturating_sub(store.pages_free);
    let millis = status.lock_wait_nanos / 1_000_000;
    let numbers = [
        ("Innodb_buffer_pool_pages_total", store.pages_total),
        ("Innodb_buffer_pool_pages_free", store.pages_free),
        ("Innodb_buffer_pool_pages_data", data),
        ("Innodb_buffer_pool_bytes_data", data * PAGE_BYTES),
        ("Innodb_buffer_pool_pages_dirty", store.pages_dirty),
        ("Innodb_buffer_pool_bytes_dirty", store.pages_dirty * PAGE_BYTES),
        ("Innodb_buffer_pool_pages_flushed", store.writes),
        ("Innodb_buffer_pool_pages_lru_freed", store.evictions),
        ("Innodb_buffer_pool_read_requests", store.read_requests),
        ("Innodb_buffer_pool_reads", store.misses()),
        ("Innodb_buffer_pool_read_ahead", store.reads_ahead),
        ("Innodb_buffer_pool_wait_free", store.free_waits),
        ("Innodb_buffer_pool_write_requests", store.log_requests),
        ("Innodb_checkpoint_age", store.lsn.saturating_sub(store.checkpoint_lsn)),
        ("Innodb_checkpoint_max_age", store.redo_capacity),
        ("Innodb_data_pending_reads", store.reads_open),
        ("Innodb_data_pending_writes", store.writes_open),
        ("Innodb_num_open_files", store.files_open),
        ("Open_files", store.files_open),
        ("Opened_files", store.files_opened),
        ("Innodb_data_fsyncs", store.data_syncs + store.log_writes),
        ("Innodb_data_reads", store.reads),
        ("Innodb_data_read", store.reads * PAGE_BYTES),
        ("Innodb_data_writes", store.writes + store.log_writes),
        ("Innodb_data_written", store.page_bytes + store.doublewrite_bytes + store.log_bytes),
        ("Innodb_dblwr_pages_written", store.doublewrite_pages),
        ("Innodb_dblwr_writes", store.doublewrite_batches),
        ("Innodb_deadlocks", status.deadlocks),
        ("Innodb_history_list_length", status.history_len),
        ("Innodb_log_waits", store.log_waits),
        ("Innodb_log_write_requests", store.log_requests),
        ("Innodb_log_writes", store.log_writes),
        ("Innodb_lsn_current", store.lsn),
        ("Innodb_lsn_flushed", store.durable_lsn),
        ("Innodb_lsn_last_checkpoint", store.checkpoint_lsn),
        ("Innodb_os_log_written", store.log_bytes),
        ("Innodb_page_size", PAGE_BYTES),
        ("Innodb_max_trx_id", status.next_trx_id),
        ("Innodb_pages_created", store.creates),
        ("Innodb_pages_read", store.reads),
        ("Innodb_pages_written", store.writes),
        ("Innodb_row_lock_current_waits", status.lock_waiting),
        ("Innodb_row_lock_time", millis),
        ("Innodb_row_lock_time_avg", millis.checked_div(status.lock_waits).unwrap_or(0)),
        ("Innodb_row_lock_time_max", status.lock_wait_nanos_max / 1_000_000),
        ("Innodb_row_lock_waits", status.lock_waits),
        ("Innodb_rows_read", status.rows_read),
        ("Innodb_rows_inserted", status.rows_inserted),
        ("Innodb_rows_updated", status.rows_updated),
        ("Innodb_rows_deleted", status.rows_deleted),
    ];
    numbers.into_iter().map(|(name, value)| (name, value.to_string())).collect()
}

/// The text of COM_STATISTICS.
pub fn one_line(state: &Served) -> String {
    let uptime = state.uptime();
    let questions = state.counters.sum(Counter::Questions);
    let tables: usize = state.database().catalog().schemas().map(|s| s.tables().len()).sum();
    let average = questions as f64 / uptime.max(1) as f64;
    format!(
        "Uptime: {uptime}  Threads: {}  Questions: {questions}  Slow queries: 0  Opens: {tables}  Open tables: {tables}  \
         Queries per second avg: {average:.3}",
        state.registry.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_a_name_that_mariadb_knows() {
        for (_, name) in Counter::ALL {
            assert!(NAMES.iter().any(|(n, _)| n == name), "{name}");
        }
        for (name, _) in engine(&EngineStatus::default()) {
            assert!(NAMES.iter().any(|(n, _)| *n == name) || name.starts_with("Innodb_rows_"), "{name}");
        }
    }
}
