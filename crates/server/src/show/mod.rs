//! SHOW: most of it is a table of `information_schema` under other column names; the rest is made in [`admin`].
//!
//! LIKE matches the first column of the answer. WHERE is any expression over its columns: the rows are put up as a table for
//! the executor to filter.

pub mod accounts;
pub mod admin;
pub mod explain;
pub mod status;
mod system;
pub mod tables;

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, errors};
use keel_query::catalog::TableDef;
use keel_query::{Collect, ColumnMeta, ResultColumns};
use keel_query::{account::Privileges, account::see};
use keel_sql::ast::{Expr, QueryBody, Show, ShowFilter, ShowKind, Statement};
use keel_value::types::{NOT_SPECIFIED, flags};
use keel_value::{CollationId, SqlType, TypeKind, Value, collation};

use crate::core::Core;
use crate::counters::Counter;
use crate::schema::{self, View, Wanted};

/// A made-up result.
pub struct Rows {
    /// Its columns.
    pub columns: Arc<ResultColumns>,
    /// Its rows.
    pub rows: Vec<Vec<Value>>,
}

/// A column that comes from no table.
pub struct Plain<'a>(pub &'a str, pub SqlType, pub bool);

/// Text of at most so many characters.
pub fn varchar(length: u32) -> SqlType {
    SqlType::varchar(length, CollationId::UTF8MB3_GENERAL_CI)
}

/// An integer of so many digits.
pub fn integer(kind: TypeKind, length: u32) -> SqlType {
    SqlType::new(kind).with_length(length)
}

/// An unsigned integer of so many digits.
pub fn unsigned(kind: TypeKind, length: u32) -> SqlType {
    SqlType { unsigned: true, ..integer(kind, length) }
}

impl Rows {
    /// A result of columns that come from no table.
    pub fn plain(columns: Vec<Plain<'_>>, rows: Vec<Vec<Value>>) -> Rows {
        let none: Arc<str> = "".into();
        let metas = columns
            .into_iter()
            .map(|Plain(name, ty, nullable)| ColumnMeta {
                schema: none.clone(),
                table: none.clone(),
                org_table: none.clone(),
                name: name.into(),
                org_name: none.clone(),
                flags: if ty.is_text() { 0 } else { flags::BINARY },
                ty: if ty.is_string() { ty.with_decimals(NOT_SPECIFIED) } else { ty },
                nullable,
                length: None,
                is_plain: false,
            })
            .collect();
        Rows { columns: ResultColumns::new(metas), rows }
    }

    /// Columns of a table of `information_schema` under the names that SHOW gives them.
    pub fn of_table(
        core: &Core,
        table: &TableDef,
        wanted: Wanted<'_>,
        columns: &[(&str, &str)],
    ) -> SqlResult<Rows> {
        let view = View { state: &core.state, session: &core.sql };
        let all = schema::rows(&view, table, wanted)?;
        let places: Vec<usize> = columns.iter().map(|(_, name)| place_of(table, name)).collect();
        let rows =
            all.into_iter().map(|row| places.iter().map(|place| row[*place].clone()).collect()).collect();
        Ok(Rows { columns: Rows::shape(table, columns), rows })
    }

    /// The columns of such a result.
    pub fn shape(table: &TableDef, columns: &[(&str, &str)]) -> Arc<ResultColumns> {
        ResultColumns::new(
            columns.iter().map(|(name, org)| meta(table, place_of(table, org), name)).collect(),
        )
    }

    /// Renames the first column.
    fn rename_first(self, name: &str) -> Rows {
        let mut metas = self.columns.columns.clone();
        if let Some(first) = metas.first_mut() {
            first.name = name.into();
        }
        Rows { columns: ResultColumns::new(metas), rows: self.rows }
    }
}

fn place_of(table: &TableDef, name: &str) -> usize {
    table.column_index(name).unwrap_or_else(|| panic!("no column {name} in {}", table.name))
}

fn meta(table: &TableDef, place: usize, name: &str) -> ColumnMeta {
    let column = &table.columns[place];
    ColumnMeta {
        schema: table.schema.clone(),
        table: table.name.clone(),
        org_table: table.name.clone(),
        name: name.into(),
        org_name: column.name.clone(),
        ty: column.ty.clone(),
        nullable: column.nullable,
        flags: flags::NO_DEFAULT_VALUE,
        length: None,
        is_plain: false,
    }
}

/// Runs SHOW.
pub fn run(core: &mut Core, show: &Show, params: &[Value]) -> SqlResult<Rows> {
    if let Some(counter) = counter(&show.what) {
        core.count(counter, 1);
    }
    let rows = match &show.what {
        ShowKind::Explain { analyze, json, connection } => {
            explain::run(core, connection, explain::Asked { analyze: *analyze, json: *json }, params)?
        }
        what => rows_of(core, what)?,
    };
    let shown = match &show.filter {
        None => rows,
        Some(ShowFilter::Like(pattern)) => like(rows, &show.what, pattern),
        Some(ShowFilter::Where(condition)) => filter(core, rows, condition, params)?,
    };
    if matches!(show.what, ShowKind::TableStatus { .. }) {
        tables::warn_of_broken_views(core, &shown);
    }
    Ok(shown)
}

/// Whether a SHOW reads tables of `information_schema`.
pub fn reads_tables(what: &ShowKind) -> bool {
    matches!(
        what,
        ShowKind::Databases
            | ShowKind::Tables { .. }
            | ShowKind::Triggers { .. }
            | ShowKind::Events { .. }
            | ShowKind::TableStatus { .. }
            | ShowKind::OpenTables { .. }
            | ShowKind::Columns { .. }
            | ShowKind::Indexes(_)
    )
}

/// Checks a SHOW that is prepared: SHOW CREATE of a table, view or sequence opens it.
pub fn check(core: &mut Core, show: &Show) -> SqlResult<()> {
    match &show.what {
        what @ (ShowKind::CreateTable(_) | ShowKind::CreateView(_) | ShowKind::CreateSequence(_)) => {
            rows_of(core, what).map(|_| ())
        }
        _ => Ok(()),
    }
}

fn counter(what: &ShowKind) -> Option<Counter> {
    Some(match what {
        ShowKind::Databases => Counter::ShowDatabases,
        ShowKind::Tables { .. } => Counter::ShowTables,
        ShowKind::Columns { .. } => Counter::ShowFields,
        ShowKind::Indexes(_) => Counter::ShowKeys,
        ShowKind::Variables(_) => Counter::ShowVariables,
        ShowKind::Status(_) => Counter::ShowStatus,
        ShowKind::Processlist { .. } => Counter::ShowProcesslist,
        ShowKind::Warnings(_) | ShowKind::CountWarnings => Counter::ShowWarnings,
        ShowKind::Errors(_) | ShowKind::CountErrors => Counter::ShowErrors,
        ShowKind::CreateTable(_) | ShowKind::CreateSequence(_) => Counter::ShowCreateTable,
        ShowKind::CreateDatabase { .. } => Counter::ShowCreateDatabase,
        ShowKind::TableStatus { .. } => Counter::ShowTableStatus,
        ShowKind::Engines => Counter::ShowEngines,
        ShowKind::Grants(_) => Counter::ShowGrants,
        ShowKind::Authors => Counter::ShowAuthors,
        ShowKind::BinlogEvents => Counter::ShowBinlogEvents,
        ShowKind::BinaryLogs => Counter::ShowBinlogs,
        ShowKind::BinlogStatus => Counter::ShowBinlogStatus,
        ShowKind::CharacterSets => Counter::ShowCharsets,
        ShowKind::Collations => Counter::ShowCollations,
        ShowKind::Contributors => Counter::ShowContributors,
        ShowKind::CreateUser(_) => Counter::ShowCreateUser,
        ShowKind::Engine { what, .. } if what.eq_ignore_ascii_case("MUTEX") => Counter::ShowEngineMutex,
        ShowKind::Engine { .. } => Counter::ShowEngineStatus,
        ShowKind::Events { .. } => Counter::ShowEvents,
        ShowKind::Explain { analyze: true, .. } => Counter::ShowAnalyze,
        ShowKind::Explain { .. } => Counter::ShowExplain,
        ShowKind::Plugin(_) => Counter::ShowGeneric,
        ShowKind::OpenTables { .. } => Counter::ShowOpenTables,
        ShowKind::Plugins | ShowKind::PluginsOfFiles => Counter::ShowPlugins,
        ShowKind::Privileges => Counter::ShowPrivileges,
        ShowKind::Profile => Counter::ShowProfile,
        ShowKind::Profiles => Counter::ShowProfiles,
        ShowKind::ReplicaHosts => Counter::ShowReplicaHosts,
        ShowKind::ReplicaStatus { .. } => Counter::ShowReplicaStatus,
        ShowKind::Triggers { .. } => Counter::ShowTriggers,
        ShowKind::RoutineStatus { kind } => match kind.as_str() {
            "FUNCTION" => Counter::ShowFunctionStatus,
            "PACKAGE" => Counter::ShowPackageStatus,
            "PACKAGE BODY" => Counter::ShowPackageBodyStatus,
            _ => Counter::ShowProcedureStatus,
        },
        _ => return None,
    })
}

fn rows_of(core: &mut Core, what: &ShowKind) -> SqlResult<Rows> {
    // These open the table as statements do that read it; other SHOWs leave what the statement before them had to say.
    if matches!(what, ShowKind::CreateTable(_) | ShowKind::CreateView(_) | ShowKind::CreateSequence(_)) {
        core.sql.diagnostics.clear();
    }
    let everything = Wanted::default();
    let of = |core: &Core, table: &str, columns: &[(&str, &str)]| {
        Rows::of_table(core, schema::table(table), everything, columns)
    };
    match what {
        ShowKind::Databases => {
            if core.state.globals.named("skip_show_database").is_on() {
                see::require_global(&core.sql, Privileges::SHOW_DATABASES)?;
            }
            of(core, "SCHEMATA", &[("Database", "SCHEMA_NAME")])
        }
        ShowKind::Tables { full, db } => tables::tables(core, db.as_deref(), *full),
        ShowKind::TableStatus { db } => tables::table_status(core, db.as_deref()),
        ShowKind::Columns { full, table } => tables::columns(core, table, *full),
        ShowKind::Indexes(table) => tables::indexes(core, table),
        ShowKind::CreateTable(table) if tables::view_of(core, table).is_some() => {
            tables::create_view(core, table, true)
        }
        ShowKind::CreateTable(table) => tables::create_table(core, table),
        ShowKind::CreateSequence(name) => tables::create_sequence(core, name),
        ShowKind::CreateDatabase { name, if_not_exists } => {
            tables::create_database(core, name, *if_not_exists)
        }
        ShowKind::Triggers { db } => {
            tables::check_database(core, db.as_deref())?;
            of(core, "TRIGGERS", tables::TRIGGERS)
        }
        ShowKind::Events { db } => {
            // Databases that there are not have no events either.
            if db.is_none() {
                tables::check_database(core, None)?;
            }
            of(core, "EVENTS", tables::EVENTS)
        }
        ShowKind::OpenTables { db } => {
            let mut rows = of(core, "OPEN_TABLES", tables::OPEN_TABLES)?;
            if let Some(db) = db {
                rows.rows.retain(|row| row[0].as_ref().as_bytes() == Some(db.as_bytes()));
            }
            Ok(rows)
        }
        ShowKind::RoutineStatus { .. } => of(core, "ROUTINES", tables::ROUTINES),
        ShowKind::Engines => of(core, "ENGINES", admin::ENGINES),
        ShowKind::CharacterSets => of(core, "CHARACTER_SETS", admin::CHARACTER_SETS),
        ShowKind::Collations => of(core, "COLLATIONS", admin::COLLATIONS),
        ShowKind::Plugins => of(core, "PLUGINS", admin::PLUGINS),
        ShowKind::PluginsOfFiles => {
            let all = of(core, "ALL_PLUGINS", admin::PLUGINS)?;
            Ok(Rows { rows: Vec::new(), ..all })
        }
        ShowKind::Plugin(name) => {
            let headings = admin::headings(name);
            let columns: Vec<(&str, &str)> =
                headings.iter().map(|(heading, column)| (heading.as_str(), *column)).collect();
            of(core, name, &columns)
        }
        ShowKind::CreateView(table) => tables::create_view(core, table, false),
        other => admin::rows(core, other),
    }
}

/// Keeps rows whose first column matches; SHOW DATABASES and SHOW TABLES say so in that column's name.
fn like(mut rows: Rows, what: &ShowKind, pattern: &[u8]) -> Rows {
    let id = CollationId::UTF8MB3_GENERAL_CI;
    let matches = |text: &[u8]| collation::like_match(id, text, pattern, Some('\\'));
    rows.rows.retain(|row| match row.first() {
        // What collations of several character sets share is found by the name of one of them.
        Some(Value::Bytes(name)) if *what == ShowKind::Collations && row[1].is_null() => {
            matches(&[b"utf8mb4_", &name[..]].concat())
        }
        Some(Value::Bytes(name)) => matches(name),
        _ => false,
    });
    match what {
        ShowKind::Databases | ShowKind::Tables { .. } => {
            let name = rows.columns.columns[0].name.clone();
            rows.rename_first(&format!("{name} ({})", String::from_utf8_lossy(pattern)))
        }
        _ => rows,
    }
}

/// The name under which a session's rows are put up for the executor.
pub const STAGE_PREFIX: &str = "#show ";

/// Keeps rows that meet a condition.
fn filter(core: &mut Core, rows: Rows, condition: &Expr, params: &[Value]) -> SqlResult<Rows> {
    let name = format!("{STAGE_PREFIX}{}", core.client.id);
    let columns = rows.columns.columns.iter().map(|c| (&*c.name, c.ty.clone(), true)).collect();
    let table = Arc::new(TableDef::virtual_table("information_schema", &name, columns));
    core.state.stage.lock().insert(name.clone(), (table, rows.rows));
    let kept = run_filter(core, &name, condition, params);
    core.state.stage.lock().remove(&name);
    Ok(Rows { columns: rows.columns, rows: kept? })
}

fn run_filter(core: &mut Core, name: &str, condition: &Expr, params: &[Value]) -> SqlResult<Vec<Vec<Value>>> {
    let text = format!("SELECT * FROM `information_schema`.`{name}` WHERE 1");
    let mut parsed = keel_sql::parse(text.as_bytes(), &keel_sql::ParseOptions::default())?;
    if let Statement::Query(query) = &mut parsed.statement
        && let QueryBody::Select(select) = &mut query.body
    {
        select.filter = Some(condition.clone());
    }
    let database = core.state.database().clone();
    let plan = database.prepare(&mut core.sql, Arc::new(parsed.statement), params.len() as u32)?;
    let mut kept = Collect::default();
    database.execute(&mut core.sql, &plan, params, &mut kept)?;
    Ok(kept.rows)
}

/// The database that a statement means.
pub fn database_of(core: &Core, named: Option<&str>) -> SqlResult<String> {
    match named {
        Some(name) => Ok(name.to_string()),
        None => core.sql.require_database().map(|name| name.to_string()),
    }
}

/// What is not there yet.
pub fn unsupported(what: &str) -> SqlError {
    errors::not_supported_yet(format_args!("SHOW {what}"))
}
