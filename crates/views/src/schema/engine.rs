//! INNODB_METRICS, INNODB_BUFFER_POOL_STATS, and InnoDB's dictionary: what they say is the engine's own status.
//!
//! A metric is listed where the engine has the figure. Numbers of tables are the catalog's, numbers of indexes and spaces
//! those of trees: each index is a file.

use keel_base::TreeId;
use keel_catalog::{IndexDef, IndexKind, TableDef};
use keel_storage::EngineStatus;
use keel_value::Value;

use super::{RowMaker, View, constraints, number, pages, second, text};
use crate::monitor::figures::{file_syncs, file_writes};
use crate::monitor::transactions::unix_of;

/// The size of a page in bytes.
const PAGE_BYTES: u64 = 16 << 10;

/// Makes the rows of one of these tables; those about what this engine does not have stay empty.
pub fn fill(view: &View<'_>, rows: &mut RowMaker<'_>) {
    match rows.table() {
        "INNODB_METRICS" => metrics(view, rows),
        "INNODB_BUFFER_POOL_STATS" => pool(view, rows),
        "INNODB_SYS_TABLES"
        | "INNODB_SYS_INDEXES"
        | "INNODB_SYS_FIELDS"
        | "INNODB_SYS_COLUMNS"
        | "INNODB_SYS_TABLESPACES"
        | "INNODB_SYS_TABLESTATS"
        | "INNODB_SYS_FOREIGN"
        | "INNODB_SYS_FOREIGN_COLS" => dictionary(view, rows),
        "INNODB_BUFFER_PAGE" | "INNODB_BUFFER_PAGE_LRU" => pages::page_rows(view, rows),
        _ => {}
    }
}

/// A counter, its part of the engine, its type, what it counts.
type Metric = (&'static str, &'static str, &'static str, fn(&EngineStatus) -> u64, &'static str);

/// Type of what has an amount at any time.
const VALUE: &str = "value";
/// Of what grows.
const GROWS: &str = "status_counter";
/// Of what goes up and down.
const COUNTER: &str = "counter";

fn data_pages(status: &EngineStatus) -> u64 {
    status.store.pages_total.saturating_sub(status.store.pages_free)
}

/// MariaDB's names for what the engine counts, in its order.
const METRICS: &[Metric] = &[
    ("lock_deadlocks", "lock", VALUE, |s| s.deadlocks, "deadlocks"),
    ("lock_timeouts", "lock", VALUE, |s| s.lock_timeouts, "waits for row locks that timed out"),
    (
        "lock_row_lock_current_waits",
        "lock",
        VALUE,
        |s| s.lock_waiting,
        "transactions that wait for a row lock",
    ),
    (
        "lock_row_lock_time",
        "lock",
        GROWS,
        |s| s.lock_wait_nanos / 1_000_000,
        "milliseconds of waiting for row locks",
    ),
    (
        "lock_row_lock_time_max",
        "lock",
        VALUE,
        |s| s.lock_wait_nanos_max / 1_000_000,
        "milliseconds of the longest wait",
    ),
    ("lock_row_lock_waits", "lock", GROWS, |s| s.lock_waits, "waits for row locks"),
    (
        "lock_row_lock_time_avg",
        "lock",
        VALUE,
        average_wait,
        "milliseconds of a wait for a row lock, on average",
    ),
    ("buffer_pool_size", "server", VALUE, |s| s.store.pages_total * PAGE_BYTES, "octets of the buffer pool"),
    (
        "buffer_pool_reads",
        "buffer",
        GROWS,
        |s| s.store.misses(),
        "pages read because they were not in memory",
    ),
    ("buffer_pool_read_requests", "buffer", GROWS, |s| s.store.read_requests, "page accesses"),
    (
        "buffer_pool_write_requests",
        "buffer",
        GROWS,
        |s| s.store.log_requests,
        "mini-transactions that changed pages",
    ),
    ("buffer_pool_wait_free", "buffer", GROWS, |s| s.store.free_waits, "waits for a free frame"),
    ("buffer_pool_read_ahead", "buffer", GROWS, |s| s.store.reads_ahead, "pages read ahead of scans"),
    (
        "buffer_pool_read_ahead_evicted",
        "buffer",
        GROWS,
        nothing,
        "not counted: pages of scans leave the ring that they came into",
    ),
    ("buffer_pool_pages_total", "buffer", VALUE, |s| s.store.pages_total, "frames"),
    (
        "buffer_pool_pages_misc",
        "buffer",
        VALUE,
        nothing,
        "frames for other purposes: locks lie outside of the pool",
    ),
    ("buffer_pool_pages_data", "buffer", VALUE, data_pages, "frames with a page"),
    ("buffer_pool_bytes_data", "buffer", VALUE, |s| data_pages(s) * PAGE_BYTES, "octets of those"),
    ("buffer_pool_pages_dirty", "buffer", VALUE, |s| s.store.pages_dirty, "pages newer than their file"),
    ("buffer_pool_bytes_dirty", "buffer", VALUE, |s| s.store.pages_dirty * PAGE_BYTES, "octets of those"),
    ("buffer_pool_pages_free", "buffer", VALUE, |s| s.store.pages_free, "frames without a page"),
    ("buffer_pages_created", "buffer", GROWS, |s| s.store.creates, "pages made anew"),
    ("buffer_pages_written", "buffer", GROWS, |s| s.store.writes, "pages written"),
    ("buffer_pages_read", "buffer", GROWS, |s| s.store.reads, "pages read"),
    ("buffer_data_reads", "buffer", GROWS, |s| s.store.reads * PAGE_BYTES, "octets of pages read"),
    ("buffer_data_written", "buffer", GROWS, bytes_written, "octets written, those of the log included"),
    (
        "buffer_LRU_batch_flush_total_pages",
        "buffer",
        GROWS,
        |s| s.store.writes_for_frames,
        "pages written for want of frames",
    ),
    ("buffer_LRU_batch_evict_total_pages", "buffer", GROWS, |s| s.store.evictions, "pages evicted"),
    ("os_data_reads", "os", GROWS, |s| s.store.reads, "reads of files"),
    ("os_data_writes", "os", GROWS, file_writes, "writes of files"),
    ("os_data_fsyncs", "os", GROWS, file_syncs, "syncs of files"),
    ("os_pending_reads", "os", COUNTER, |s| s.store.reads_open, "reads that the device has not answered"),
    ("os_pending_writes", "os", COUNTER, |s| s.store.writes_open, "pages that are being written"),
    ("os_log_bytes_written", "os", GROWS, |s| s.store.log_bytes, "octets of the log"),
    ("trx_rw_commits", "transaction", GROWS, |s| s.commits, "transactions with changes that were committed"),
    (
        "trx_rollbacks",
        "transaction",
        GROWS,
        |s| s.rollbacks,
        "transactions with changes that were rolled back",
    ),
    (
        "trx_rseg_history_len",
        "transaction",
        VALUE,
        |s| s.history_len,
        "ended transactions that are not purged",
    ),
    ("trx_undo_slots_cached", "transaction", VALUE, nothing, "there are no slots: undo is a log"),
    ("trx_rseg_current_size", "transaction", VALUE, |s| s.undo_pages, "pages of undo"),
    ("purge_invoked", "purge", GROWS, |s| s.purge_batches, "batches of purge that had something to remove"),
    ("purge_fibers", "purge", VALUE, |s| s.purge_fibers, "fibers at work on the last batch of purge"),
    (
        "purge_ahead",
        "purge",
        GROWS,
        |s| s.purged_ahead,
        "deleted entries removed while an old reader kept the history of their deletion",
    ),
    ("log_lsn_last_flush", "recovery", VALUE, |s| s.store.durable_lsn, "durable end of the log"),
    ("log_lsn_last_checkpoint", "recovery", VALUE, |s| s.store.checkpoint_lsn, "where recovery would start"),
    ("log_lsn_current", "recovery", VALUE, |s| s.store.lsn, "end of the log"),
    ("log_lsn_checkpoint_age", "recovery", VALUE, checkpoint_age, "octets of log since the checkpoint"),
    (
        "log_lsn_buf_pool_oldest",
        "recovery",
        VALUE,
        |s| s.store.flushed_lsn,
        "pages hold everything before it",
    ),
    ("log_waits", "recovery", GROWS, |s| s.store.log_waits, "waits for room in the log"),
    ("log_write_requests", "recovery", GROWS, |s| s.store.log_requests, "mini-transactions in the log"),
    ("log_writes", "recovery", GROWS, |s| s.store.log_writes, "writes of the log"),
    ("adaptive_hash_searches", "adaptive_hash_index", GROWS, nothing, NO_ADAPTIVE_HASH),
    (
        "adaptive_hash_searches_btree",
        "adaptive_hash_index",
        GROWS,
        |s| s.store.read_requests,
        "page accesses: all are by tree",
    ),
    (
        "file_num_open_files",
        "file_system",
        VALUE,
        |s| s.store.files_open,
        "open files of rows and index entries",
    ),
    ("ibuf_merges_insert", "change_buffer", GROWS, nothing, NO_CHANGE_BUFFER),
    ("ibuf_merges_delete_mark", "change_buffer", GROWS, nothing, NO_CHANGE_BUFFER),
    ("ibuf_merges_delete", "change_buffer", GROWS, nothing, NO_CHANGE_BUFFER),
    ("ibuf_merges_discard_insert", "change_buffer", GROWS, nothing, NO_CHANGE_BUFFER),
    ("ibuf_merges_discard_delete_mark", "change_buffer", GROWS, nothing, NO_CHANGE_BUFFER),
    ("ibuf_merges_discard_delete", "change_buffer", GROWS, nothing, NO_CHANGE_BUFFER),
    ("ibuf_merges", "change_buffer", GROWS, nothing, NO_CHANGE_BUFFER),
    ("ibuf_size", "change_buffer", GROWS, nothing, NO_CHANGE_BUFFER),
    ("innodb_activity_count", "server", GROWS, rows_changed, "rows inserted, updated and deleted"),
    (
        "innodb_dblwr_writes",
        "server",
        GROWS,
        |s| s.store.doublewrite_batches,
        "batches through the doublewrite file",
    ),
    (
        "innodb_dblwr_pages_written",
        "server",
        GROWS,
        |s| s.store.doublewrite_pages,
        "pages through the doublewrite file",
    ),
    ("innodb_page_size", "server", VALUE, |_| PAGE_BYTES, "octets of a page"),
];

const NO_ADAPTIVE_HASH: &str = "there is no adaptive hash index";
const NO_CHANGE_BUFFER: &str = "there is no change buffer";

/// Of what Keel has not, and tools ask for.
fn nothing(_: &EngineStatus) -> u64 {
    0
}

fn rows_changed(status: &EngineStatus) -> u64 {
    status.rows_inserted + status.rows_updated + status.rows_deleted
}

fn average_wait(status: &EngineStatus) -> u64 {
    (status.lock_wait_nanos / 1_000_000).checked_div(status.lock_waits).unwrap_or(0)
}

fn bytes_written(status: &EngineStatus) -> u64 {
    status.store.page_bytes + status.store.doublewrite_bytes + status.store.log_bytes
}

fn checkpoint_age(status: &EngineStatus) -> u64 {
    status.store.lsn.saturating_sub(status.store.checkpoint_lsn)
}

fn metrics(view: &View<'_>, rows: &mut RowMaker<'_>) {
    let status = view.served.engine.status();
    let seconds = view.served.uptime();
    for (name, part, kind, figure, comment) in METRICS {
        let count = figure(&status);
        let average = count as f64 / seconds.max(1) as f64;
        rows.row([
            ("NAME", text(name)),
            ("SUBSYSTEM", text(part)),
            ("COUNT", number(count)),
            ("AVG_COUNT", if *kind == VALUE { Value::Null } else { Value::Double(average) }),
            ("COUNT_RESET", number(count)),
            ("AVG_COUNT_RESET", if *kind == VALUE { Value::Null } else { Value::Double(average) }),
            ("TIME_ENABLED", second(view, unix_of(view.served.started))),
            ("TIME_ELAPSED", number(seconds)),
            ("ENABLED", Value::Int(1)),
            ("TYPE", text(kind)),
            ("COMMENT", text(comment)),
        ]);
    }
}

fn pool(view: &View<'_>, rows: &mut RowMaker<'_>) {
    let status = view.served.engine.status();
    let store = &status.store;
    let hits = store.read_requests.saturating_sub(store.misses());
    let seconds = view.served.uptime().max(1) as f64;
    let rate = |count: u64| Value::Double(count as f64 / seconds);
    rows.row([
        ("POOL_ID", number(0)),
        ("POOL_SIZE", number(store.pages_total)),
        ("FREE_BUFFERS", number(store.pages_free)),
        ("DATABASE_PAGES", number(data_pages(&status))),
        ("MODIFIED_DATABASE_PAGES", number(store.pages_dirty)),
        ("PENDING_READS", number(store.reads_open)),
        ("PENDING_FLUSH_LIST", number(store.writes_open)),
        ("NUMBER_PAGES_READ", number(store.reads)),
        ("NUMBER_PAGES_CREATED", number(store.creates)),
        ("NUMBER_PAGES_WRITTEN", number(store.writes)),
        ("PAGES_READ_RATE", rate(store.reads)),
        ("PAGES_CREATE_RATE", rate(store.creates)),
        ("PAGES_WRITTEN_RATE", rate(store.writes)),
        ("NUMBER_PAGES_READ_AHEAD", number(store.reads_ahead)),
        ("READ_AHEAD_RATE", rate(store.reads_ahead)),
        ("NUMBER_PAGES_GET", number(store.read_requests)),
        ("HIT_RATE", Value::UInt((hits * 1000).checked_div(store.read_requests).unwrap_or(0))),
    ]);
}

/// Bits of INNODB_SYS_INDEXES.TYPE.
const CLUSTERED: u64 = 1;
const UNIQUE: u64 = 2;

/// Columns of each table that are InnoDB's own: row number, transaction, roll pointer.
const HIDDEN_COLUMNS: u64 = 3;

fn dictionary(view: &View<'_>, rows: &mut RowMaker<'_>) {
    let catalog = view.served.database().catalog();
    for table in catalog.schemas().flat_map(|schema| schema.tables()) {
        match rows.table() {
            "INNODB_SYS_TABLES" => table_row(table, rows),
            "INNODB_SYS_INDEXES" => index_rows(table, rows),
            "INNODB_SYS_COLUMNS" => pages::column_rows(table, rows),
            "INNODB_SYS_FIELDS" => table.indexes.iter().for_each(|index| field_rows(table, index, rows)),
            "INNODB_SYS_TABLESPACES" => space_rows(view, table, rows),
            "INNODB_SYS_TABLESTATS" => stats_row(view, table, rows),
            _ => constraints::rows(view, rows, table),
        }
    }
}

fn name_of(table: &TableDef) -> String {
    format!("{}/{}", table.schema, table.name)
}

fn space_of(tree: TreeId) -> Value {
    number(u64::from(tree.0))
}

fn table_row(table: &TableDef, rows: &mut RowMaker<'_>) {
    rows.row([
        ("TABLE_ID", number(table.id)),
        ("NAME", text(name_of(table))),
        ("FLAG", number(33)),
        ("N_COLS", number(table.columns.len() as u64 + HIDDEN_COLUMNS)),
        ("SPACE", space_of(table.tree_id)),
        ("ROW_FORMAT", text("Dynamic")),
        ("SPACE_TYPE", text("Single")),
    ]);
}

fn index_rows(table: &TableDef, rows: &mut RowMaker<'_>) {
    let mut add = |name: &str, tree: TreeId, kind: u64, fields: usize| {
        rows.row([
            ("INDEX_ID", space_of(tree)),
            ("NAME", text(name)),
            ("TABLE_ID", number(table.id)),
            ("TYPE", number(kind)),
            ("N_FIELDS", number(fields as u64)),
            ("SPACE", space_of(tree)),
            ("MERGE_THRESHOLD", number(50)),
        ]);
    };
    if table.clustered.is_none() {
        add("GEN_CLUST_INDEX", table.tree_id, CLUSTERED, 0);
    }
    for (position, index) in table.indexes.iter().enumerate() {
        let clustered = if table.clustered == Some(position) { CLUSTERED } else { 0 };
        let unique = if index.kind == IndexKind::Plain { 0 } else { UNIQUE };
        add(&index.name, index.tree_id, clustered | unique, index.parts.len());
    }
}

fn field_rows(table: &TableDef, index: &IndexDef, rows: &mut RowMaker<'_>) {
    for (position, part) in index.parts.iter().enumerate() {
        rows.row([
            ("INDEX_ID", space_of(index.tree_id)),
            ("NAME", text(&table.columns[part.column].name)),
            ("POS", number(position as u64)),
        ]);
    }
}

/// A row for each file: that of the rows under the table's name, those of other indexes under theirs behind it.
fn space_rows(view: &View<'_>, table: &TableDef, rows: &mut RowMaker<'_>) {
    let mut add = |name: String, tree: TreeId| {
        let pages = view.served.engine.tree(tree).map_or(0, |tree| view.served.engine.tree_pages(&tree));
        rows.row([
            ("SPACE", space_of(tree)),
            ("NAME", text(name)),
            ("FLAG", number(21)),
            ("PAGE_SIZE", number(PAGE_BYTES)),
            ("FILENAME", text(format!("./trees/t{tree}.kt"))),
            ("FS_BLOCK_SIZE", number(4096)),
            ("FILE_SIZE", number(pages * PAGE_BYTES)),
            ("ALLOCATED_SIZE", number(pages * PAGE_BYTES)),
        ]);
    };
    add(name_of(table), table.tree_id);
    for index in table.indexes.iter().filter(|index| index.tree_id != table.tree_id) {
        add(format!("{}#{}", name_of(table), index.name), index.tree_id);
    }
}

fn stats_row(view: &View<'_>, table: &TableDef, rows: &mut RowMaker<'_>) {
    let pages = |tree| view.served.engine.tree(tree).map_or(0, |tree| view.served.engine.tree_pages(&tree));
    let others = table.indexes.iter().map(|index| index.tree_id).filter(|tree| *tree != table.tree_id);
    // There are none of a table that cannot be read.
    let row_count = table.row_estimate().ok();
    rows.row([
        ("TABLE_ID", number(table.id)),
        ("NAME", text(name_of(table))),
        ("STATS_INITIALIZED", number(u64::from(row_count.is_some()))),
        ("NUM_ROWS", number(row_count.unwrap_or(0))),
        ("CLUST_INDEX_SIZE", number(pages(table.tree_id))),
        ("OTHER_INDEX_SIZE", number(others.map(pages).sum())),
    ]);
}
