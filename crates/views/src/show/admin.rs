//! SHOW about the server itself: processes, warnings, variables, status, grants, the engine's report.

use keel_base::{Level, SqlResult, errors};
use keel_catalog::account::Privileges;
use keel_database::xa::PreparedBranch;
use keel_logs::secrets::hidden;
use keel_runtime::fiber::Fiber;
use keel_runtime::wait::WaitEvent;
use keel_sql::ast::{ShowKind, ShowLimit, VarScope};
use keel_value::{SqlType, TypeKind, Value};

use super::{Caller, Plain, Rows, accounts, integer, status, unsigned, unsupported, varchar};
use crate::monitor;
use crate::registry::Activity;
use crate::schema::{self, View, maybe, number, text};

/// Columns of SHOW ENGINES.
pub const ENGINES: &[(&str, &str)] = &[
    ("Engine", "ENGINE"),
    ("Support", "SUPPORT"),
    ("Comment", "COMMENT"),
    ("Transactions", "TRANSACTIONS"),
    ("XA", "XA"),
    ("Savepoints", "SAVEPOINTS"),
];

/// Columns of SHOW CHARACTER SET.
pub const CHARACTER_SETS: &[(&str, &str)] = &[
    ("Charset", "CHARACTER_SET_NAME"),
    ("Description", "DESCRIPTION"),
    ("Default collation", "DEFAULT_COLLATE_NAME"),
    ("Maxlen", "MAXLEN"),
];

/// Columns of SHOW COLLATION.
pub const COLLATIONS: &[(&str, &str)] = &[
    ("Collation", "COLLATION_NAME"),
    ("Charset", "CHARACTER_SET_NAME"),
    ("Id", "ID"),
    ("Default", "IS_DEFAULT"),
    ("Compiled", "IS_COMPILED"),
    ("Sortlen", "SORTLEN"),
];

/// Columns of SHOW PLUGINS.
pub const PLUGINS: &[(&str, &str)] = &[
    ("Name", "PLUGIN_NAME"),
    ("Status", "PLUGIN_STATUS"),
    ("Type", "PLUGIN_TYPE"),
    ("Library", "PLUGIN_LIBRARY"),
    ("License", "PLUGIN_LICENSE"),
];

/// The SHOWs that are not a table of `information_schema`.
pub fn rows(caller: &mut Caller<'_>, what: &ShowKind) -> SqlResult<Rows> {
    match what {
        ShowKind::Variables(scope) => Ok(variables(caller, *scope)),
        ShowKind::Status(scope) => {
            let own = *scope != VarScope::Global;
            Ok(named_values("SESSION_STATUS", status::all(caller.served, Some(caller.client), own)))
        }
        ShowKind::Processlist { full } => Ok(processlist(caller, *full)),
        ShowKind::Warnings(limit) => Ok(warnings(caller, *limit, false)),
        ShowKind::Errors(limit) => Ok(warnings(caller, *limit, true)),
        ShowKind::CountWarnings => {
            Ok(count("@@session.warning_count", caller.session.diagnostics.warning_count))
        }
        ShowKind::CountErrors => Ok(count("@@session.error_count", caller.session.diagnostics.error_count)),
        ShowKind::Engine { engine, what, json } => engine_report(caller, engine.as_deref(), what, *json),
        ShowKind::Grants(account) => accounts::grants(caller, account.as_ref()),
        ShowKind::CreateUser(account) => accounts::create_user(caller, account.as_ref()),
        ShowKind::Privileges => Ok(accounts::privileges()),
        ShowKind::BinlogStatus => Ok(empty(&[
            ("File", varchar(512)),
            ("Position", unsigned(TypeKind::BigInt, 20)),
            ("Binlog_Do_DB", varchar(255)),
            ("Binlog_Ignore_DB", varchar(255)),
        ])),
        ShowKind::BinaryLogs => Err(errors::no_binary_logging()),
        ShowKind::BinlogEvents => Ok(empty(&[
            ("Log_name", varchar(20)),
            ("Pos", unsigned(TypeKind::BigInt, 21)),
            ("Event_type", varchar(20)),
            ("Server_id", unsigned(TypeKind::Int, 10)),
            ("End_log_pos", unsigned(TypeKind::BigInt, 21)),
            ("Info", varchar(20)),
        ])),
        ShowKind::ReplicaStatus { all } => Ok(replica_status(*all)),
        ShowKind::ReplicaHosts => Ok(empty(&[
            ("Server_id", unsigned(TypeKind::Int, 10)),
            ("Host", varchar(20)),
            ("Port", unsigned(TypeKind::Int, 7)),
            ("Master_id", unsigned(TypeKind::Int, 10)),
        ])),
        ShowKind::Profiles => Ok(empty(&[
            ("Query_ID", unsigned(TypeKind::Int, 10)),
            ("Duration", unsigned(TypeKind::Double, 8).with_decimals(0)),
            ("Query", varchar(40)),
        ])),
        ShowKind::Authors | ShowKind::Contributors => {
            Ok(empty(&[("Name", varchar(40)), ("Location", varchar(40)), ("Comment", varchar(512))]))
        }
        ShowKind::CreateOther { kind, .. } if kind == "TRIGGER" => Err(errors::trg_does_not_exist()),
        ShowKind::CreateOther { kind, name } if kind == "EVENT" => {
            Err(errors::event_does_not_exist(&name.name))
        }
        ShowKind::CreateOther { kind, name } => Err(errors::sp_does_not_exist(kind, &name.name)),
        ShowKind::RoutineCode { .. } => {
            Err(errors::feature_disabled("SHOW PROCEDURE|FUNCTION CODE", "--with-debug"))
        }
        ShowKind::Profile => Ok(empty(&[("Status", varchar(30)), ("Duration", SqlType::decimal(9, 6))])),
        _ => Err(unsupported("of this kind")),
    }
}

/// The columns of a table that is shown by its name alone, each under its own name with one capital.
pub fn headings(table: &str) -> Vec<(String, &'static str)> {
    let names: Vec<&'static str> = match table {
        "USER_VARIABLES" => vec!["VARIABLE_NAME", "VARIABLE_VALUE"],
        _ => schema::table(table).columns.iter().map(|column| &*column.name).collect(),
    };
    let heading = |name: &str| match name {
        "VARIABLE_VALUE" => "Value".to_string(),
        "ROWS_CHANGED_X_INDEXES" => "Rows_changed_x_#indexes".to_string(),
        _ => {
            let mut heading = name.to_ascii_lowercase();
            heading[..1].make_ascii_uppercase();
            heading
        }
    };
    names.into_iter().map(|name| (heading(name), name)).collect()
}

fn empty(columns: &[(&str, SqlType)]) -> Rows {
    let columns = columns.iter().map(|(name, ty)| Plain(name, ty.clone(), false)).collect();
    Rows::plain(columns, Vec::new())
}

fn count(name: &str, value: u64) -> Rows {
    Rows::plain(vec![Plain(name, unsigned(TypeKind::BigInt, 21), true)], vec![vec![number(value)]])
}

fn variables(caller: &Caller<'_>, scope: VarScope) -> Rows {
    let view = View { served: caller.served, session: caller.session };
    let values = schema::server::values(&view, scope == VarScope::Global);
    let shown = values.into_iter().map(|(name, value)| (name, value.show())).collect();
    named_values("SESSION_VARIABLES", shown)
}

/// Names and values under the columns of one of the tables that hold such pairs.
fn named_values(table: &str, values: Vec<(&'static str, String)>) -> Rows {
    let columns = [("Variable_name", "VARIABLE_NAME"), ("Value", "VARIABLE_VALUE")];
    let rows = values.into_iter().map(|(name, value)| vec![text(name), text(value)]).collect();
    Rows { columns: Rows::shape(schema::table(table), &columns), rows }
}

/// What SHOW PROCESSLIST says about a connection under State: what it waits for, or what its statement does.
pub fn state_of(activity: &Activity) -> &'static str {
    match activity.command {
        "Sleep" => return "",
        "Connect" => return "login",
        "Killed" => return "cleaning up",
        _ => {}
    }
    match activity.fiber.and_then(Fiber::waits_for) {
        Some(WaitEvent::MetadataLock) => "Waiting for table metadata lock",
        Some(WaitEvent::BackupLock) => "Waiting for backup lock",
        Some(WaitEvent::UserLock) => "User lock",
        Some(WaitEvent::LogFlush | WaitEvent::LogWrite) => "Commit",
        Some(WaitEvent::Sleep) => "User sleep",
        Some(WaitEvent::NetWrite) => "Writing to net",
        _ => stage_of(&activity.text),
    }
}

/// What a statement does, by its first word.
fn stage_of(text: &[u8]) -> &'static str {
    const STAGES: &[(&str, &str)] = &[
        ("SELECT", "Sending data"),
        ("WITH", "Sending data"),
        ("INSERT", "Update"),
        ("REPLACE", "Update"),
        ("UPDATE", "Updating"),
        ("DELETE", "Updating"),
        ("COMMIT", "Commit"),
        ("ROLLBACK", "Rollback"),
        ("ALTER", "copy to tmp table"),
        ("CREATE", "creating table"),
        ("OPTIMIZE", "copy to tmp table"),
    ];
    let is_rest = |b: &u8| b.is_ascii_whitespace() || *b == b'(';
    let start = text.iter().position(|b| !is_rest(b)).unwrap_or(text.len());
    let word = text[start..].split(|b| !b.is_ascii_alphabetic()).next().unwrap_or_default();
    let stage = STAGES.iter().find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()));
    stage.map_or("starting", |(_, stage)| stage)
}

/// Characters of a statement that SHOW PROCESSLIST prints without FULL.
const INFO_CHARS: usize = 100;

/// SHOW PROCESSLIST.
pub fn processlist(caller: &Caller<'_>, full: bool) -> Rows {
    let packet = caller.session.vars.max_allowed_packet;
    let info = match full {
        // Three bytes for each character, as in MariaDB.
        true => SqlType::new(TypeKind::LongText).with_length((packet * 3).min(u64::from(u32::MAX)) as u32),
        false => varchar(INFO_CHARS as u32),
    };
    let columns = vec![
        Plain("Id", integer(TypeKind::BigInt, 11), false),
        Plain("User", varchar(128), false),
        Plain("Host", varchar(64), false),
        Plain("db", varchar(64), true),
        Plain("Command", varchar(16), false),
        Plain("Time", integer(TypeKind::Int, 7), false),
        Plain("State", varchar(30), true),
        Plain("Info", info, true),
        Plain("Progress", SqlType::double().with_length(7).with_decimals(3), false),
    ];
    let sees_all = caller.session.access.global.has(Privileges::PROCESS);
    let clients = caller.served.registry.all();
    let seen = clients.iter().filter(|client| sees_all || client.is_own_of(caller.session));
    let rows = seen.map(|client| {
        let activity = client.activity.lock();
        let info = String::from_utf8_lossy(&hidden(&activity.text)).into_owned();
        let shown: String = if full { info } else { info.chars().take(INFO_CHARS).collect() };
        vec![
            number(client.id),
            text(&activity.user),
            text(&client.host),
            maybe(activity.database.as_deref()),
            text(activity.command),
            number(activity.since.elapsed().as_secs()),
            text(state_of(&activity)),
            maybe((!shown.is_empty()).then_some(shown)),
            Value::Double(0.0),
        ]
    });
    Rows::plain(columns, rows.collect())
}

fn warnings(caller: &Caller<'_>, limit: Option<ShowLimit>, errors_only: bool) -> Rows {
    let columns = vec![
        Plain("Level", varchar(7), false),
        Plain("Code", unsigned(TypeKind::Int, 4), false),
        Plain("Message", varchar(512), false),
    ];
    let limit = limit.unwrap_or(ShowLimit { offset: 0, count: u64::MAX });
    let rows = caller
        .session
        .diagnostics
        .warnings
        .iter()
        .filter(|w| !errors_only || w.level == Level::Error)
        .skip(usize::try_from(limit.offset).unwrap_or(usize::MAX))
        .take(usize::try_from(limit.count).unwrap_or(usize::MAX))
        .map(|w| vec![text(w.level.name()), number(u64::from(w.code)), text(&w.message)]);
    Rows::plain(columns, rows.collect())
}

/// Lengths of a branch's name in XA RECOVER, as bytes and as SQL.
const XID_LENGTH: u32 = 128;
const XID_SQL_LENGTH: u32 = 285;

/// XA RECOVER: names as bytes, or as SQL.
pub fn xa_recover(branches: &[PreparedBranch], sql: bool) -> Rows {
    let int = || integer(TypeKind::BigInt, 11);
    let data = match sql {
        true => varchar(XID_SQL_LENGTH),
        false => SqlType::varbinary(XID_LENGTH),
    };
    let columns = vec![
        Plain("formatID", int(), false),
        Plain("gtrid_length", int(), false),
        Plain("bqual_length", int(), false),
        Plain("data", data, false),
    ];
    let row = |branch: &PreparedBranch| {
        let data = match sql {
            true => text(xid_as_sql(branch)),
            false => Value::bytes(&[&branch.gtrid[..], &branch.bqual].concat()),
        };
        let lengths = [branch.gtrid.len() as i64, branch.bqual.len() as i64].map(Value::Int);
        vec![Value::Int(branch.format.into()), lengths[0].clone(), lengths[1].clone(), data]
    };
    Rows::plain(columns, branches.iter().map(row).collect())
}

/// A branch's name as XA COMMIT takes it.
fn xid_as_sql(branch: &PreparedBranch) -> String {
    let is_plain = |part: &[u8]| part.iter().all(|b| (b' '..0x7f).contains(b) && !matches!(b, b'\'' | b'\\'));
    let plain = is_plain(&branch.gtrid) && is_plain(&branch.bqual);
    let shown = |part: &[u8]| match plain {
        true => format!("'{}'", String::from_utf8_lossy(part)),
        false => format!("X'{}'", part.iter().map(|b| format!("{b:02x}")).collect::<String>()),
    };
    let mut out = shown(&branch.gtrid);
    if branch.format != 1 || !branch.bqual.is_empty() {
        out += &format!(",{}", shown(&branch.bqual));
    }
    if branch.format != 1 {
        out += &format!(",{}", branch.format);
    }
    out
}

/// HELP: there are no help tables, so no topic is found.
pub fn help() -> Rows {
    empty(&[("name", varchar(64)), ("is_it_category", varchar(1))])
}

/// A column of SHOW SLAVE STATUS, with its length.
#[derive(Clone, Copy)]
enum Of {
    Text(u32),
    Int(u32),
    BigInt(u32),
    Double(u32),
}

/// Columns of SHOW ALL SLAVES STATUS. SHOW SLAVE STATUS has neither the first [`ONLY_FIRST`] nor those from [`ONLY_LAST`] on.
const REPLICA_STATUS: &[(&str, Of)] = {
    use Of::*;
    &[
        ("Connection_name", Text(192)),
        ("Slave_SQL_State", Text(30)),
        ("Slave_IO_State", Text(30)),
        ("Master_Host", Text(766)),
        ("Master_User", Text(385)),
        ("Master_Port", Int(7)),
        ("Connect_Retry", Int(10)),
        ("Master_Log_File", Text(512)),
        ("Read_Master_Log_Pos", BigInt(10)),
        ("Relay_Log_File", Text(512)),
        ("Relay_Log_Pos", BigInt(10)),
        ("Relay_Master_Log_File", Text(512)),
        ("Slave_IO_Running", Text(3)),
        ("Slave_SQL_Running", Text(3)),
        ("Replicate_Do_DB", Text(20)),
        ("Replicate_Ignore_DB", Text(20)),
        ("Replicate_Do_Table", Text(20)),
        ("Replicate_Ignore_Table", Text(23)),
        ("Replicate_Wild_Do_Table", Text(24)),
        ("Replicate_Wild_Ignore_Table", Text(28)),
        ("Last_Errno", Int(4)),
        ("Last_Error", Text(20)),
        ("Skip_Counter", Int(10)),
        ("Exec_Master_Log_Pos", BigInt(10)),
        ("Relay_Log_Space", BigInt(10)),
        ("Until_Condition", Text(6)),
        ("Until_Log_File", Text(512)),
        ("Until_Log_Pos", BigInt(10)),
        ("Master_SSL_Allowed", Text(7)),
        ("Master_SSL_CA_File", Text(512)),
        ("Master_SSL_CA_Path", Text(512)),
        ("Master_SSL_Cert", Text(512)),
        ("Master_SSL_Cipher", Text(512)),
        ("Master_SSL_Key", Text(512)),
        ("Seconds_Behind_Master", BigInt(10)),
        ("Master_SSL_Verify_Server_Cert", Text(3)),
        ("Last_IO_Errno", Int(4)),
        ("Last_IO_Error", Text(20)),
        ("Last_SQL_Errno", Int(4)),
        ("Last_SQL_Error", Text(20)),
        ("Replicate_Ignore_Server_Ids", Text(512)),
        ("Master_Server_Id", Int(8)),
        ("Master_SSL_Crl", Text(512)),
        ("Master_SSL_Crlpath", Text(512)),
        ("Using_Gtid", Text(11)),
        ("Gtid_IO_Pos", Text(30)),
        ("Replicate_Do_Domain_Ids", Text(512)),
        ("Replicate_Ignore_Domain_Ids", Text(512)),
        ("Parallel_Mode", Text(12)),
        ("SQL_Delay", Int(10)),
        ("SQL_Remaining_Delay", Int(8)),
        ("Slave_SQL_Running_State", Text(20)),
        ("Slave_DDL_Groups", BigInt(20)),
        ("Slave_Non_Transactional_Groups", BigInt(20)),
        ("Slave_Transactional_Groups", BigInt(20)),
        ("Replicate_Rewrite_DB", Text(23)),
        ("Retried_transactions", Int(10)),
        ("Max_relay_log_size", BigInt(10)),
        ("Executed_log_entries", Int(10)),
        ("Slave_received_heartbeats", Int(10)),
        ("Slave_heartbeat_period", Double(10)),
        ("Gtid_Slave_Pos", Text(0)),
    ]
};
const ONLY_FIRST: usize = 2;
const ONLY_LAST: &str = "Retried_transactions";

fn replica_status(all: bool) -> Rows {
    let shown = match all {
        true => REPLICA_STATUS,
        false => {
            let last = REPLICA_STATUS.iter().position(|(name, _)| *name == ONLY_LAST);
            &REPLICA_STATUS[ONLY_FIRST..last.unwrap_or(REPLICA_STATUS.len())]
        }
    };
    let column = |(name, of): &(&'static str, Of)| {
        let ty = match *of {
            Of::Text(length) => varchar(length),
            Of::Int(length) => unsigned(TypeKind::Int, length),
            Of::BigInt(length) => unsigned(TypeKind::BigInt, length),
            Of::Double(length) => SqlType::double().with_length(length).with_decimals(3),
        };
        (*name, ty)
    };
    empty(&shown.iter().map(column).collect::<Vec<_>>())
}

/// Engines of MariaDB that SHOW ENGINE can name.
const OTHER_ENGINES: &[&str] =
    &["Aria", "CSV", "HEAP", "MEMORY", "MERGE", "MRG_MyISAM", "MyISAM", "PERFORMANCE_SCHEMA", "SEQUENCE"];

fn engine_report(caller: &Caller<'_>, engine: Option<&str>, what: &str, json: bool) -> SqlResult<Rows> {
    let columns = vec![
        Plain("Type", varchar(10), false),
        Plain("Name", varchar(512), false),
        Plain("Status", varchar(10), false),
    ];
    if let Some(name) = engine.filter(|name| !name.eq_ignore_ascii_case("innodb")) {
        // Engines that MariaDB has besides say nothing; nor is anything measured for performance_schema.
        return match OTHER_ENGINES.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            true => Ok(Rows::plain(columns, Vec::new())),
            false => Err(errors::unknown_storage_engine(name)),
        };
    }
    let rows = if what.eq_ignore_ascii_case("STATUS") {
        let report = if json { monitor::json::report } else { monitor::text::report };
        vec![vec![text("InnoDB"), text(""), text(report(caller.served, &*caller.session.vars.time_zone))]]
    } else {
        Vec::new()
    };
    Ok(Rows::plain(columns, rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_has_mariadbs_stage() {
        assert_eq!(stage_of(b" (select 1)"), "Sending data");
        assert_eq!(stage_of(b"update t set a=1"), "Updating");
        assert_eq!(stage_of(b"INSERT"), "Update");
        assert_eq!(stage_of(b"show processlist"), "starting");
        assert_eq!(stage_of(b""), "starting");
    }
}
