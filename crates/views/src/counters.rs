//! Counters of statements, bytes and connections: one row per worker, so that counting shares no cache line.
//!
//! Each worker writes only its own row, by a plain load and store. Readers add the rows; they may miss the latest counts.

use std::sync::atomic::{AtomicU64, Ordering};

use keel_database::StatementKind;
use keel_sql::ast::Xa;

macro_rules! counters {
    ($($name:ident $text:literal,)*) => {
        /// A counter, under the name of its status variable.
        #[allow(missing_docs)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Counter { $($name,)* }

        impl Counter {
            /// All counters with the names of their status variables.
            pub const ALL: &'static [(Counter, &'static str)] = &[$((Counter::$name, $text),)*];
        }
    };
}

counters! {
    Queries "Queries",
    Questions "Questions",
    BytesReceived "Bytes_received",
    BytesSent "Bytes_sent",
    Connections "Connections",
    AbortedClients "Aborted_clients",
    AbortedConnects "Aborted_connects",
    SlowQueries "Slow_queries",
    AccessDenied "Access_denied_errors",
    ErrorsMaxConnections "Connection_errors_max_connections",
    Running "Threads_running",
    PreparedStatements "Prepared_stmt_count",
    SelectStatements "Com_select",
    Insert "Com_insert",
    InsertSelect "Com_insert_select",
    Replace "Com_replace",
    ReplaceSelect "Com_replace_select",
    Update "Com_update",
    UpdateMulti "Com_update_multi",
    Delete "Com_delete",
    DeleteMulti "Com_delete_multi",
    Load "Com_load",
    Do "Com_do",
    Begin "Com_begin",
    Commit "Com_commit",
    Rollback "Com_rollback",
    Savepoint "Com_savepoint",
    RollbackToSavepoint "Com_rollback_to_savepoint",
    ReleaseSavepoint "Com_release_savepoint",
    CreateDatabase "Com_create_db",
    AlterDatabase "Com_alter_db",
    DropDatabase "Com_drop_db",
    CreateTable "Com_create_table",
    DropTable "Com_drop_table",
    CreateTemporaryTable "Com_create_temporary_table",
    DropTemporaryTable "Com_drop_temporary_table",
    AlterTable "Com_alter_table",
    AlterSequence "Com_alter_sequence",
    RenameTable "Com_rename_table",
    Truncate "Com_truncate",
    CreateIndex "Com_create_index",
    CreateView "Com_create_view",
    DropView "Com_drop_view",
    DropIndex "Com_drop_index",
    Check "Com_check",
    Analyze "Com_analyze",
    Optimize "Com_optimize",
    Repair "Com_repair",
    Checksum "Com_checksum",
    SetOption "Com_set_option",
    ChangeDatabase "Com_change_db",
    Kill "Com_kill",
    Flush "Com_flush",
    XaStart "Com_xa_start",
    XaEnd "Com_xa_end",
    XaPrepare "Com_xa_prepare",
    XaCommit "Com_xa_commit",
    XaRollback "Com_xa_rollback",
    XaRecover "Com_xa_recover",
    Admin "Com_admin_commands",
    StatementPrepare "Com_stmt_prepare",
    StatementExecute "Com_stmt_execute",
    StatementClose "Com_stmt_close",
    StatementFetch "Com_stmt_fetch",
    StatementReset "Com_stmt_reset",
    StatementSendLongData "Com_stmt_send_long_data",
    PrepareSql "Com_prepare_sql",
    ExecuteSql "Com_execute_sql",
    DeallocateSql "Com_dealloc_sql",
    ShowDatabases "Com_show_databases",
    ShowTables "Com_show_tables",
    ShowFields "Com_show_fields",
    ShowKeys "Com_show_keys",
    ShowVariables "Com_show_variables",
    ShowStatus "Com_show_status",
    ShowProcesslist "Com_show_processlist",
    ShowWarnings "Com_show_warnings",
    ShowErrors "Com_show_errors",
    ShowCreateTable "Com_show_create_table",
    ShowCreateDatabase "Com_show_create_db",
    ShowTableStatus "Com_show_table_status",
    ShowEngines "Com_show_storage_engines",
    ShowGrants "Com_show_grants",
    ShowAuthors "Com_show_authors",
    ShowBinlogEvents "Com_show_binlog_events",
    ShowBinlogs "Com_show_binlogs",
    ShowBinlogStatus "Com_show_binlog_status",
    ShowCharsets "Com_show_charsets",
    ShowCollations "Com_show_collations",
    ShowContributors "Com_show_contributors",
    ShowCreateUser "Com_show_create_user",
    ShowEngineMutex "Com_show_engine_mutex",
    ShowEngineStatus "Com_show_engine_status",
    ShowEvents "Com_show_events",
    ShowExplain "Com_show_explain",
    ShowAnalyze "Com_show_analyze",
    ShowFunctionStatus "Com_show_function_status",
    ShowGeneric "Com_show_generic",
    ShowOpenTables "Com_show_open_tables",
    ShowPackageStatus "Com_show_package_status",
    ShowPackageBodyStatus "Com_show_package_body_status",
    ShowPlugins "Com_show_plugins",
    ShowPrivileges "Com_show_privileges",
    ShowProcedureStatus "Com_show_procedure_status",
    ShowProfile "Com_show_profile",
    ShowProfiles "Com_show_profiles",
    ShowReplicaHosts "Com_show_slave_hosts",
    ShowReplicaStatus "Com_show_slave_status",
    ShowTriggers "Com_show_triggers",
    LockTables "Com_lock_tables",
    UnlockTables "Com_unlock_tables",
    EmptyQueries "Empty_queries",
    RowsSent "Rows_sent",
    RowsRead "Rows_read",
    HandlerCommit "Handler_commit",
    HandlerRollback "Handler_rollback",
    HandlerReadFirst "Handler_read_first",
    HandlerReadKey "Handler_read_key",
    HandlerReadLast "Handler_read_last",
    HandlerReadNext "Handler_read_next",
    HandlerReadPrev "Handler_read_prev",
    HandlerIcpAttempts "Handler_icp_attempts",
    HandlerIcpMatch "Handler_icp_match",
    HandlerReadRndNext "Handler_read_rnd_next",
    HandlerWrite "Handler_write",
    HandlerUpdate "Handler_update",
    HandlerDelete "Handler_delete",
    HandlerTmpWrite "Handler_tmp_write",
    CreatedTmpTables "Created_tmp_tables",
    CreatedTmpDiskTables "Created_tmp_disk_tables",
    SelectScan "Select_scan",
    SelectFullJoin "Select_full_join",
    SelectRange "Select_range",
    SelectFullRangeJoin "Select_full_range_join",
    SortScan "Sort_scan",
    SortRange "Sort_range",
    SortRows "Sort_rows",
    SortMergePasses "Sort_merge_passes",
    SortPriorityQueueSorts "Sort_priority_queue_sorts",
}

impl Counter {
    /// Whether each session has this counter too.
    pub fn is_of_sessions(self) -> bool {
        use Counter::*;
        let of_server = matches!(
            self,
            Queries
                | Connections
                | AbortedClients
                | AbortedConnects
                | AccessDenied
                | ErrorsMaxConnections
                | Running
                | PreparedStatements
        );
        !of_server
    }

    /// The counter of an XA statement.
    pub fn of_xa(xa: &Xa) -> Counter {
        match xa {
            Xa::Start { .. } => Counter::XaStart,
            Xa::End { .. } => Counter::XaEnd,
            Xa::Prepare(_) => Counter::XaPrepare,
            Xa::Commit { .. } => Counter::XaCommit,
            Xa::Rollback(_) => Counter::XaRollback,
            Xa::Recover { .. } => Counter::XaRecover,
        }
    }

    /// How many there are.
    pub const COUNT: usize = Counter::ALL.len();

    /// The counter of a kind of statement.
    pub fn of(kind: StatementKind) -> Option<Counter> {
        Some(match kind {
            StatementKind::Select => Counter::SelectStatements,
            StatementKind::Insert => Counter::Insert,
            StatementKind::InsertSelect => Counter::InsertSelect,
            StatementKind::Replace => Counter::Replace,
            StatementKind::ReplaceSelect => Counter::ReplaceSelect,
            StatementKind::Update => Counter::Update,
            StatementKind::UpdateMulti => Counter::UpdateMulti,
            StatementKind::Delete => Counter::Delete,
            StatementKind::DeleteMulti => Counter::DeleteMulti,
            StatementKind::Load => Counter::Load,
            StatementKind::Do => Counter::Do,
            StatementKind::Begin => Counter::Begin,
            StatementKind::Commit => Counter::Commit,
            StatementKind::Rollback => Counter::Rollback,
            StatementKind::Savepoint => Counter::Savepoint,
            StatementKind::RollbackToSavepoint => Counter::RollbackToSavepoint,
            StatementKind::ReleaseSavepoint => Counter::ReleaseSavepoint,
            StatementKind::CreateDatabase => Counter::CreateDatabase,
            StatementKind::AlterDatabase => Counter::AlterDatabase,
            StatementKind::DropDatabase => Counter::DropDatabase,
            StatementKind::CreateTable => Counter::CreateTable,
            StatementKind::DropTable => Counter::DropTable,
            StatementKind::CreateTemporaryTable => Counter::CreateTemporaryTable,
            StatementKind::DropTemporaryTable => Counter::DropTemporaryTable,
            StatementKind::AlterTable => Counter::AlterTable,
            StatementKind::AlterSequence => Counter::AlterSequence,
            StatementKind::RenameTable => Counter::RenameTable,
            StatementKind::Truncate => Counter::Truncate,
            StatementKind::CreateIndex => Counter::CreateIndex,
            StatementKind::DropIndex => Counter::DropIndex,
            StatementKind::CreateView | StatementKind::AlterView => Counter::CreateView,
            StatementKind::DropView => Counter::DropView,
            StatementKind::Check => Counter::Check,
            StatementKind::Analyze => Counter::Analyze,
            StatementKind::Optimize => Counter::Optimize,
            StatementKind::Repair => Counter::Repair,
            StatementKind::Checksum => Counter::Checksum,
            _ => return None,
        })
    }
}

/// The counters of one session. Only the session writes them; views read them.
pub struct SessionCounters([AtomicU64; Counter::COUNT]);

impl Default for SessionCounters {
    fn default() -> Self {
        SessionCounters(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl SessionCounters {
    /// Adds to a counter; called by the session.
    #[inline]
    pub fn add(&self, counter: Counter, amount: u64) {
        let cell = &self.0[counter as usize];
        cell.store(cell.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    /// The count.
    pub fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize].load(Ordering::Relaxed)
    }

    /// FLUSH STATUS: sets all counters to 0.
    pub fn clear(&self) {
        self.0.iter().for_each(|cell| cell.store(0, Ordering::Relaxed));
    }
}

/// One worker's row, on cache lines of its own.
#[repr(align(128))]
struct Row([AtomicU64; Counter::COUNT]);

/// The rows of all workers.
pub struct Counters {
    rows: Box<[Row]>,
}

impl Counters {
    /// Zeros for every slot of the caller's runtime.
    pub fn new() -> Counters {
        let row = || Row(std::array::from_fn(|_| AtomicU64::new(0)));
        Counters { rows: (0..keel_runtime::slot_count()).map(|_| row()).collect() }
    }

    /// Adds to a counter; called on a worker.
    #[inline]
    pub fn add(&self, counter: Counter, amount: u64) {
        let cell = &self.rows[keel_runtime::worker_index()].0[counter as usize];
        cell.store(cell.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }

    /// Takes from a counter that goes up and down; called on a worker.
    #[inline]
    pub fn sub(&self, counter: Counter, amount: u64) {
        self.add(counter, amount.wrapping_neg());
    }

    /// The sum over all workers.
    pub fn sum(&self, counter: Counter) -> u64 {
        self.rows
            .iter()
            .fold(0u64, |sum, row| sum.wrapping_add(row.0[counter as usize].load(Ordering::Relaxed)))
    }
}

impl Default for Counters {
    fn default() -> Self {
        Counters::new()
    }
}
