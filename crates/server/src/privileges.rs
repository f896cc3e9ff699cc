//! The privileges of the statements that the server executes itself: SHOW, SET GLOBAL, FLUSH, KILL.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_catalog::account::Privileges;
use keel_expr::rights as see;
use keel_settings::variables::Variable;
use keel_sql::ast::{SetItem, ShowKind, Statement};
use keel_views::registry::Client;

use crate::core::Core;

/// Whether the session may run a statement of the server.
pub fn check(core: &Core, statement: &Statement) -> SqlResult<()> {
    use Privileges as P;
    let session = &core.sql;
    if session.access.expired && !changes_password(statement) {
        return see::expired(session);
    }
    match statement {
        Statement::Flush(_) => see::require_global(session, P::RELOAD),
        Statement::Shutdown => see::require_global(session, P::SHUTDOWN),
        Statement::Show(show) => check_show(core, &show.what),
        Statement::Unsupported { wants: Some(wanted), .. } => {
            core.state.database().definer().check_wanted(&core.sql, wanted)
        }
        Statement::Unsupported { what, .. } => check_unsupported(core, what),
        _ => Ok(()),
    }
}

/// The privileges of statements that are known and not supported: who lacks them does not learn that.
fn check_unsupported(core: &Core, what: &str) -> SqlResult<()> {
    use Privileges as P;
    let session = &core.sql;
    let wanted = match what.split(' ').next().unwrap_or_default() {
        "BACKUP" if what.ends_with("LOCK") => P::RELOAD.and(P::LOCK_TABLES),
        "BACKUP" | "RESET" => P::RELOAD,
        "CHANGE" | "START" | "STOP" => P::SUPER.and(P::REPLICATION_SLAVE_ADMIN),
        "PURGE" => P::SUPER.and(P::BINLOG_ADMIN),
        "BINLOG" => P::SUPER.and(P::BINLOG_REPLAY),
        "INSTALL" => return check_plugins(core, P::INSERT, "INSERT"),
        "UNINSTALL" => return check_plugins(core, P::DELETE, "DELETE"),
        _ if what.ends_with(" SERVER") => P::SUPER.and(P::FEDERATED_ADMIN),
        _ => return Ok(()),
    };
    see::require_global(session, wanted)
}

/// A privilege on the table of plugins, or 1142.
fn check_plugins(core: &Core, wanted: Privileges, command: &str) -> SqlResult<()> {
    let catalog = core.state.database().catalog();
    if see::on_whole_table(&core.sql, &catalog.accounts, "mysql", "plugin").has(wanted) {
        return Ok(());
    }
    let (user, host) = (&core.sql.user, &core.sql.client_host);
    Err(errors::tableaccess_denied(command, user, host, "mysql", "plugin"))
}

/// What may be said while an expired password has not been changed.
fn changes_password(statement: &Statement) -> bool {
    match statement {
        Statement::Set(items) => items.iter().all(|item| {
            matches!(item, SetItem::Password { .. } | SetItem::Names { .. } | SetItem::Charset(_))
        }),
        Statement::CreateUser(create) => create.alter,
        Statement::Empty => true,
        _ => false,
    }
}

fn check_show(core: &Core, what: &ShowKind) -> SqlResult<()> {
    use Privileges as P;
    let wanted = match what {
        ShowKind::Engine { .. } => P::PROCESS,
        ShowKind::BinaryLogs | ShowKind::BinlogStatus => P::SUPER.and(P::BINLOG_MONITOR),
        ShowKind::BinlogEvents => P::BINLOG_MONITOR,
        ShowKind::Events { db } => return check_events(core, db.as_deref()),
        ShowKind::CreateOther { kind, name } if kind == "EVENT" => {
            return check_events(core, name.db.as_deref());
        }
        ShowKind::ReplicaStatus { .. } => P::SUPER.and(P::SLAVE_MONITOR),
        ShowKind::ReplicaHosts => P::REPLICATION_MASTER_ADMIN,
        _ => return Ok(()),
    };
    see::require_global(&core.sql, wanted)
}

/// SHOW EVENTS and SHOW CREATE EVENT: EVENT on the database.
fn check_events(core: &Core, db: Option<&str>) -> SqlResult<()> {
    let Some(db) = db.or(core.sql.database.as_deref()) else { return Ok(()) };
    let catalog = core.state.database().catalog();
    see::require_on_database(&core.sql, &catalog.accounts, db, Privileges::EVENT)
}

/// Variables that a privilege beside SUPER lets set, those of connections and of the binary log.
const OF_CONNECTIONS: &[&str] = &[
    "connect_timeout",
    "disconnect_on_expired_password",
    "extra_max_connections",
    "init_connect",
    "max_connections",
    "max_connect_errors",
    "max_password_errors",
    "proxy_protocol_networks",
    "secure_auth",
    "slow_launch_time",
    "thread_pool_dedicated_listener",
    "thread_pool_exact_stats",
    "thread_pool_idle_timeout",
    "thread_pool_max_threads",
    "thread_pool_oversubscribe",
    "thread_pool_prio_kickup_timer",
    "thread_pool_priority",
    "thread_pool_size",
    "thread_pool_stall_limit",
];

const OF_BINLOG: &[&str] = &[
    "binlog_annotate_row_events",
    "binlog_cache_size",
    "binlog_commit_wait_count",
    "binlog_commit_wait_usec",
    "binlog_direct_non_transactional_updates",
    "binlog_expire_logs_seconds",
    "binlog_file_cache_size",
    "binlog_format",
    "binlog_row_image",
    "binlog_row_metadata",
    "binlog_stmt_cache_size",
    "expire_logs_days",
    "log_bin_compress",
    "log_bin_compress_min_len",
    "log_bin_trust_function_creators",
    "max_binlog_cache_size",
    "max_binlog_size",
    "max_binlog_stmt_cache_size",
    "sql_log_bin",
    "sync_binlog",
];

const OF_MASTERS: &[&str] = &[
    "gtid_binlog_state",
    "gtid_domain_id",
    "master_verify_checksum",
    "rpl_semi_sync_master_enabled",
    "rpl_semi_sync_master_timeout",
    "rpl_semi_sync_master_trace_level",
    "rpl_semi_sync_master_wait_no_slave",
    "rpl_semi_sync_master_wait_point",
    "server_id",
];

const OF_REPLICAS: &[&str] = &[
    "gtid_cleanup_batch_size",
    "gtid_ignore_duplicates",
    "gtid_pos_auto_engines",
    "gtid_slave_pos",
    "gtid_strict_mode",
    "init_slave",
    "read_binlog_speed_limit",
    "relay_log_purge",
    "relay_log_recovery",
    "replicate_do_db",
    "replicate_do_table",
    "replicate_events_marked_for_skip",
    "replicate_ignore_db",
    "replicate_ignore_table",
    "replicate_rewrite_db",
    "replicate_wild_do_table",
    "replicate_wild_ignore_table",
    "rpl_semi_sync_slave_delay_master",
    "rpl_semi_sync_slave_enabled",
    "rpl_semi_sync_slave_kill_conn_timeout",
    "rpl_semi_sync_slave_trace_level",
    "slave_compressed_protocol",
    "slave_ddl_exec_mode",
    "slave_domain_parallel_threads",
    "slave_exec_mode",
    "slave_max_allowed_packet",
    "slave_net_timeout",
    "slave_parallel_max_queued",
    "slave_parallel_mode",
    "slave_parallel_threads",
    "slave_parallel_workers",
    "slave_run_triggers_for_rbr",
    "slave_sql_verify_checksum",
    "slave_transaction_retry_interval",
    "slave_type_conversions",
    "sync_master_info",
    "sync_relay_log",
    "sync_relay_log_info",
];

/// Session variables that not everybody may set, with one of which privileges one may.
const GUARDED_IN_SESSION: &[(&str, Privileges)] = {
    use Privileges as P;
    &[
        ("binlog_annotate_row_events", P::SUPER.and(P::BINLOG_ADMIN)),
        ("binlog_direct_non_transactional_updates", P::SUPER.and(P::BINLOG_ADMIN)),
        ("binlog_format", P::SUPER.and(P::BINLOG_ADMIN)),
        ("binlog_row_image", P::SUPER.and(P::BINLOG_ADMIN)),
        ("enforce_storage_engine", P::SUPER),
        ("gtid_domain_id", P::SUPER.and(P::BINLOG_REPLAY)),
        ("gtid_seq_no", P::SUPER.and(P::BINLOG_REPLAY)),
        ("innodb_tmpdir", P::FILE),
        ("log_disabled_statements", P::SUPER),
        ("pseudo_thread_id", P::SUPER.and(P::BINLOG_REPLAY)),
        ("server_id", P::SUPER.and(P::BINLOG_REPLAY)),
        ("sql_log_bin", P::SUPER.and(P::BINLOG_ADMIN)),
        ("sql_log_off", P::SUPER),
        ("wsrep_on", P::SUPER),
    ]
};

/// Whether the session may set a variable.
pub fn check_variable(core: &Core, variable: &Variable, global: bool) -> SqlResult<()> {
    use Privileges as P;
    if !global {
        let guarded = GUARDED_IN_SESSION.iter().find(|(name, _)| *name == variable.name);
        return guarded.map_or(Ok(()), |(_, wanted)| see::require_global(&core.sql, *wanted));
    }
    let wanted = match variable.name {
        "read_only" => P::READ_ONLY_ADMIN,
        "slave_max_statement_time" => P::REPLICATION_SLAVE_ADMIN,
        name if OF_MASTERS.contains(&name) => P::SUPER.and(P::REPLICATION_MASTER_ADMIN),
        name if OF_REPLICAS.contains(&name) => P::SUPER.and(P::REPLICATION_SLAVE_ADMIN),
        name if OF_CONNECTIONS.contains(&name) => P::SUPER.and(P::CONNECTION_ADMIN),
        name if OF_BINLOG.contains(&name) => P::SUPER.and(P::BINLOG_ADMIN),
        _ => P::SUPER,
    };
    see::require_global(&core.sql, wanted)
}

/// Whether KILL may end a connection: one's own user's, or anybody's.
pub fn may_end(core: &Core, client: &Arc<Client>) -> bool {
    core.sql.access.global.has_any(Privileges::CONNECTION_ADMIN) || client.is_own_of(&core.sql)
}
