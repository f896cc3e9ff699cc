//! CHECK, ANALYZE, OPTIMIZE and REPAIR TABLE.
//!
//! CHECK compares, in one snapshot, every index entry with its row and every row with its entries, and asks the engine
//! about the structure of each tree. The others have nothing to do here: the engine counts rows whenever a plan asks, and
//! gives space back by itself.

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, code, errors};
use keel_catalog::row_entries::clustered_key;
use keel_catalog::{IndexDef, TableDef, View, names};
use keel_context::engine_error;
use keel_context::mdl::{Kind, Owned, TableLock};
use keel_context::result::{ColumnMeta, Completion, ResultColumns, RowSink, RowView};
use keel_context::waits::Contender;
use keel_dml::{EntryBuffers, write_entry};
use keel_exec::session::Session;
use keel_planner::check::have_definers;
use keel_sql::ast::{LockWait, Maintain, MaintainOp, ObjectName, Persistent, VarScope};
use keel_storage::{Read, ScanRange, Txn, TxnOptions};
use keel_value::row::RowRef;
use keel_value::types::NOT_SPECIFIED;
use keel_value::{CollationId, SqlType, TypeKind, Value};

use crate::ddl::{Definer, lock_timeout};

/// Problems reported for one table.
const PROBLEMS_MAX: usize = 20;

/// Runs the statement: four columns, one or more rows per table.
pub fn run(
    database: Definer<'_>,
    session: &mut Session,
    what: &Maintain,
    sink: &mut dyn RowSink,
) -> SqlResult<Completion> {
    let word = match what.op {
        MaintainOp::Check => "check",
        MaintainOp::Analyze => "analyze",
        MaintainOp::Optimize => "optimize",
        MaintainOp::Repair => "repair",
        MaintainOp::Checksum => return crate::checksum::run(database, session, what, sink),
    };
    if database.analyzes_lasting(session, what) {
        database.refuse_writes(session)?;
    }
    sink.columns(&columns())?;
    let mut rows = 0;
    for name in &what.tables {
        let schema = keel_expr::env::schema_of(session, name)?.to_string();
        for (kind, text) in report(database, session, what, &schema, name)? {
            let cells = [format!("{schema}.{}", name.name), word.to_string(), kind.to_string(), text];
            let values = cells.map(|c| Value::bytes(c.as_bytes()));
            sink.row(RowView::Values(&values))?;
            rows += 1;
        }
        sink.breathe()?;
    }
    Ok(Completion { affected_rows: rows, had_rows: true, ..Completion::default() })
}

fn columns() -> Arc<ResultColumns> {
    let column = |name: &str, length: u32| ColumnMeta {
        schema: "".into(),
        table: "".into(),
        org_table: "".into(),
        name: name.into(),
        org_name: "".into(),
        ty: match length {
            ..=512 => SqlType::varchar(length, CollationId::UTF8MB4_GENERAL_CI),
            _ => SqlType::new(TypeKind::MediumText).with_length(length),
        }
        .with_decimals(NOT_SPECIFIED),
        nullable: true,
        flags: 0,
        length: None,
        is_plain: false,
    };
    ResultColumns::new(vec![
        column("Table", 128),
        column("Op", 10),
        column("Msg_type", 10),
        column("Msg_text", 393_216),
    ])
}

type Lines = Vec<(&'static str, String)>;

fn report(
    database: Definer<'_>,
    session: &mut Session,
    what: &Maintain,
    schema: &str,
    name: &ObjectName,
) -> SqlResult<Lines> {
    let op = what.op;
    let has = |option: &str| what.options.iter().any(|said| said == option);
    if let Some(view) = database.catalog_of(session).view(schema, &name.name).cloned() {
        if op != MaintainOp::Check && !what.view {
            return Ok(no_table(schema, name, if has("USE_FRM") { "TABLE" } else { "BASE TABLE" }));
        }
        return Ok(match database.describe_view(session, &view) {
            Ok(_) => match check_definers(database, session, &view) {
                Ok(()) => status("OK"),
                Err(error) => vec![("Error", error.message.into_owned()), ("error", "Corrupt".to_string())],
            },
            Err(error) => check_broken(database, session, &view, error),
        });
    }
    let failed = |session: &Session, error: SqlError| -> SqlResult<Lines> {
        session.check_interrupt()?;
        Ok(vec![("Error", error.message.into_owned()), ("status", "Operation failed".to_string())])
    };
    let (table, _kept) = match usable(database, session, (op, what.wait.as_ref()), schema, name) {
        Ok(usable) => usable,
        Err(error) => return failed(session, error),
    };
    if table.is_virtual() {
        return Ok(report_virtual(session, op, &table, name));
    }
    let mut lines = Lines::new();
    let refused = || {
        let refused = if table.is_temporary() { Ok(()) } else { database.refuse_writes(session) };
        refused.err().map(|error| ("Error", error.message.into_owned()))
    };
    if op == MaintainOp::Repair
        && let Some(refused) = refused()
    {
        return Ok(vec![refused, ("error", "Corrupt".to_string())]);
    }
    if op == MaintainOp::Analyze && gathers(session, what) {
        if table.is_temporary() {
            let refused = what.persistent.as_ref().map(|_| ("error", "Invalid argument".to_string()));
            return Ok(refused.map_or_else(|| status("OK"), |line| vec![line]));
        }
        lines.push(("status", "Engine-independent statistics collected".to_string()));
        lines.extend(refused());
        if !what.persistent.as_ref().is_none_or(|named| has_all(&table, named)) {
            lines.push(("error", "Invalid argument".to_string()));
            return Ok(lines);
        }
    }
    let word = match op {
        MaintainOp::Check if !has("FOR UPGRADE") => "check",
        MaintainOp::Analyze => "analyze",
        MaintainOp::Optimize => "optimize",
        _ => "",
    };
    if table.is_sequence() && !word.is_empty() {
        lines.extend(unsupported(word));
        return Ok(lines);
    }
    lines.extend(match op {
        MaintainOp::Check => {
            let problems = check_table(database, session, &table)?;
            if problems.is_empty() {
                status("OK")
            } else {
                let mut lines: Lines = problems.into_iter().map(|p| ("Warning", p)).collect();
                lines.push(("error", "Corrupt".to_string()));
                lines
            }
        }
        MaintainOp::Optimize => {
            drop(table);
            if let Err(error) = database.rebuild(session, name, what.wait.as_ref()) {
                return failed(session, error);
            }
            rebuilt()
        }
        MaintainOp::Repair => unsupported("repair"),
        MaintainOp::Analyze | MaintainOp::Checksum => status("OK"),
    });
    Ok(lines)
}

fn status(text: &str) -> Lines {
    vec![("status", text.to_string())]
}

fn unsupported(word: &str) -> Lines {
    vec![("note", format!("The storage engine for the table doesn't support {word}"))]
}

fn rebuilt() -> Lines {
    let note = "Table does not support optimize, doing recreate + analyze instead";
    vec![("note", note.to_string()), ("status", "OK".to_string())]
}

/// What is said where a view stands in a table's place.
fn no_table(schema: &str, name: &ObjectName, kind: &str) -> Lines {
    let error = errors::wrong_object(schema, &name.name, kind).message.into_owned();
    vec![("Error", error), ("status", "Operation failed".to_string())]
}

/// What is said of the server's own tables: what MariaDB's engines of such tables say where all is well.
fn report_virtual(session: &Session, op: MaintainOp, table: &TableDef, name: &ObjectName) -> Lines {
    let engine = session.host.virtual_engine(table);
    match (op, engine) {
        (MaintainOp::Check, "VIEW" | "Aria" | "CSV" | "InnoDB") => status("OK"),
        (MaintainOp::Check, _) => unsupported("check"),
        (_, "VIEW") => no_table(&table.schema, name, "BASE TABLE"),
        (MaintainOp::Analyze, "Aria") => status("Table is already up to date"),
        (MaintainOp::Optimize | MaintainOp::Repair, "Aria") | (MaintainOp::Repair, "CSV") => status("OK"),
        (MaintainOp::Analyze, "InnoDB") => status("OK"),
        (MaintainOp::Optimize, "InnoDB") => rebuilt(),
        (MaintainOp::Analyze, _) => unsupported("analyze"),
        (MaintainOp::Optimize, _) => unsupported("optimize"),
        _ => unsupported("repair"),
    }
}

/// Whether ANALYZE TABLE would gather MariaDB's statistics that do not depend on the engine. Keel has none, and says so alike.
fn gathers(session: &Session, what: &Maintain) -> bool {
    let when = || session.host.system_variable(session, VarScope::Session, "use_stat_tables");
    let always =
        |when: Value| matches!(&when, Value::Bytes(b) if matches!(&**b, b"COMPLEMENTARY" | b"PREFERABLY"));
    what.persistent.is_some() || when().is_ok_and(always)
}

/// Whether the table has the columns and indexes that PERSISTENT FOR names.
fn has_all(table: &TableDef, named: &Persistent) -> bool {
    let has_index = |name: &String| table.indexes.iter().any(|index| names::same(&index.name, name));
    named.columns.iter().flatten().all(|name| table.column_index(name).is_some())
        && named.indexes.iter().flatten().all(has_index)
}

/// Refuses a view of which a definer is gone, its own or that of one below.
fn check_definers(database: Definer<'_>, session: &Session, view: &Arc<View>) -> SqlResult<()> {
    let (views, _) = keel_planner::select::view::reach(&database.catalog(), session, view)?;
    have_definers(session, &database.catalog().accounts, &views)
}

/// What CHECK TABLE says of a view that cannot be read.
fn check_broken(database: Definer<'_>, session: &Session, view: &Arc<View>, error: SqlError) -> Lines {
    let reason = database.plan_view(session, view).err();
    let reasons = reason.into_iter().filter(|reason| reason.message != error.message);
    let mut lines: Lines = reasons.map(|reason| ("Error", reason.message.into_owned())).collect();
    lines.push(("Error", error.message.into_owned()));
    lines.push(("error", "Corrupt".to_string()));
    lines
}

/// What maintenance keeps of a table's metadata lock until it is dropped.
pub(crate) enum HeldLock {
    /// Definitions are kept out.
    Share(#[expect(dead_code, reason = "kept until it is dropped")] Share),
    /// All others are.
    Own(#[expect(dead_code, reason = "kept until it is dropped")] Owned),
}

/// Keeps definitions of a table out until it is dropped.
pub(crate) struct Share(Arc<TableLock>);

impl Drop for Share {
    fn drop(&mut self) {
        self.0.unshare(false);
    }
}

/// The table as LOCK TABLES lets the session use it. CHECK and ANALYZE share it, REPAIR has it for itself, unless the session
/// has locked it by name.
pub(crate) fn usable(
    database: Definer<'_>,
    session: &Session,
    (op, wait): (MaintainOp, Option<&LockWait>),
    schema: &str,
    name: &ObjectName,
) -> SqlResult<(Arc<TableDef>, Option<HeldLock>)> {
    let named = &session.named_locks;
    loop {
        let Some(table) = database.catalog_of(session).table(schema, &name.name).cloned() else {
            if let Some(table) = session.host.virtual_table(schema, &name.name) {
                return Ok((table, None));
            }
            let locked = named.is_in_force();
            let unknown = || match schema.eq_ignore_ascii_case("information_schema") {
                true => errors::unknown_table(&name.name, "information_schema"),
                false if database.catalog().view(schema, &name.name).is_some() => {
                    errors::wrong_object(schema, &name.name, "BASE TABLE")
                }
                false => errors::no_such_table(schema, &name.name),
            };
            return Err(if locked { errors::table_not_locked(&name.name) } else { unknown() });
        };
        if named.is_in_force() && !table.is_temporary() {
            named.check(&table, matches!(op, MaintainOp::Optimize | MaintainOp::Repair))?;
            return Ok((table, None));
        }
        let lock = table.shared.lock.clone();
        let timeout = lock_timeout(session, wait);
        let kept = match op {
            MaintainOp::Check | MaintainOp::Analyze => {
                if !lock.try_share(false) {
                    session.wait_for(&lock, Kind::Read, timeout)?;
                }
                HeldLock::Share(Share(lock))
            }
            MaintainOp::Repair => {
                let mut owned = Owned::default();
                owned.take(&lock, session, timeout)?;
                HeldLock::Own(owned)
            }
            MaintainOp::Optimize | MaintainOp::Checksum => return Ok((table, None)),
        };
        // The lock may have been waited for behind a definition.
        if database.catalog_of(session).has(&table) {
            return Ok((table, Some(kept)));
        }
    }
}

/// What is wrong with a table, in words; empty is good.
fn check_table(database: Definer<'_>, session: &Session, table: &TableDef) -> SqlResult<Vec<String>> {
    let engine = database.engine();
    let options = TxnOptions { interrupt: Some(session.interrupt.engine().clone()), ..TxnOptions::default() };
    let mut txn = engine.begin(options);
    txn.take_snapshot();
    let mut problems = Vec::new();
    let trees = std::iter::once(table.rows()).chain(other_indexes(table).map(IndexDef::entries));
    for tree in trees {
        let found = engine.check_tree(tree).map_err(engine_error).or_else(unreadable)?;
        problems.extend(found);
    }
    if let Err(error) = compare(&mut txn, table, &mut problems) {
        // The same page is told once.
        let found = unreadable(error)?.into_iter().filter(|text| !problems.contains(text));
        problems.extend(found.collect::<Vec<_>>());
    }
    problems.truncate(PROBLEMS_MAX);
    txn.rollback().map_err(engine_error)?;
    Ok(problems)
}

/// What cannot be read is a problem of the table, not of the statement.
fn unreadable(error: SqlError) -> SqlResult<Vec<String>> {
    if error.code == code::GET_ERRNO { Ok(vec![error.message.into_owned()]) } else { Err(error) }
}

/// The indexes that have a tree of their own.
fn other_indexes(table: &TableDef) -> impl Iterator<Item = &IndexDef> {
    let others = table.indexes.iter().enumerate();
    others.filter(|(position, _)| table.clustered != Some(*position)).map(|(_, index)| index)
}

/// Rows with entries, entries with rows.
fn compare(txn: &mut Txn, table: &TableDef, problems: &mut Vec<String>) -> SqlResult<()> {
    let rows = check_rows(txn, table, problems)?;
    other_indexes(table).try_for_each(|index| check_index(txn, table, index, rows, problems))
}

/// Looks every row's entries up; gives the number of rows.
fn check_rows(txn: &mut Txn, table: &TableDef, problems: &mut Vec<String>) -> SqlResult<u64> {
    let mut scan = txn.scan(table.rows(), ScanRange::ALL, Read::Snapshot).map_err(engine_error)?;
    let mut entry = EntryBuffers::default();
    let (mut primary, mut row) = (Vec::new(), Vec::new());
    let mut count = 0;
    loop {
        match scan.next(txn).map_err(engine_error)? {
            None => return Ok(count),
            Some((key, bytes)) => {
                primary.clear();
                primary.extend_from_slice(key);
                row.clear();
                row.extend_from_slice(bytes);
            }
        }
        count += 1;
        let view = RowRef::new(&table.layout, &row);
        for index in other_indexes(table) {
            if problems.len() >= PROBLEMS_MAX {
                break;
            }
            write_entry(index, &view, &primary, &mut entry);
            let found = txn.get(index.entries(), &entry.key, Read::Snapshot, |value| value == entry.value);
            match found.map_err(engine_error)? {
                Some(true) => {}
                Some(false) => {
                    problems.push(format!("Index '{}' holds other values than row {count}", index.name))
                }
                None => problems.push(format!("Index '{}' lacks row {count}", index.name)),
            }
        }
    }
}

/// Looks every entry's row up.
fn check_index(
    txn: &mut Txn,
    table: &TableDef,
    index: &IndexDef,
    rows: u64,
    problems: &mut Vec<String>,
) -> SqlResult<()> {
    let mut scan = txn.scan(index.entries(), ScanRange::ALL, Read::Snapshot).map_err(engine_error)?;
    let mut primary = Vec::new();
    let mut count = 0;
    while let Some((key, _)) = scan.next(txn).map_err(engine_error)? {
        primary.clear();
        primary.extend_from_slice(clustered_key(index, key));
        count += 1;
        let found = txn.get(table.rows(), &primary, Read::Snapshot, |_| ()).map_err(engine_error)?;
        if found.is_none() && problems.len() < PROBLEMS_MAX {
            problems.push(format!("Index '{}' has an entry without a row", index.name));
        }
    }
    if count != rows {
        problems.push(format!("Index '{}' contains {count} entries, should be {rows}", index.name));
    }
    Ok(())
}
