//! The rows of SHOW. Most of them are a table of `information_schema` under other column names; the rest is in [`admin`].
//!
//! LIKE matches the first column of the result ([`like`]). WHERE is an expression over its columns, which the session
//! evaluates.

pub(crate) mod accounts;
pub mod admin;
pub mod status;
mod system;
pub mod tables;

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, errors};
use keel_catalog::TableDef;
use keel_catalog::account::Privileges;
use keel_exec::{ColumnMeta, ResultColumns, Session};
use keel_expr::rights as see;
use keel_sql::ast::ShowKind;
use keel_value::types::{NOT_SPECIFIED, flags};
use keel_value::{CollationId, SqlType, TypeKind, Value, collation};

use crate::Served;
use crate::counters::Counter;
use crate::registry::Client;
use crate::schema::{self, View, Wanted};

/// The session that runs a SHOW.
pub struct Caller<'a> {
    /// What the server shows.
    pub served: &'a Served,
    /// The session's state in the executor.
    pub session: &'a mut Session,
    /// The session's connection.
    pub client: &'a Client,
}

/// A result that no plan produces.
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
        caller: &Caller<'_>,
        table: &TableDef,
        wanted: Wanted<'_>,
        columns: &[(&str, &str)],
    ) -> SqlResult<Rows> {
        let view = View { served: caller.served, session: caller.session };
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

/// The counter of a SHOW.
pub fn counter(what: &ShowKind) -> Option<Counter> {
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

/// The rows of a SHOW, before LIKE and WHERE.
pub fn rows(caller: &mut Caller<'_>, what: &ShowKind) -> SqlResult<Rows> {
    // These open the table as statements do that read it; other SHOWs leave what the statement before them had to say.
    if matches!(what, ShowKind::CreateTable(_) | ShowKind::CreateView(_) | ShowKind::CreateSequence(_)) {
        caller.session.diagnostics.clear();
    }
    let everything = Wanted::default();
    let of = |caller: &Caller<'_>, table: &str, columns: &[(&str, &str)]| {
        Rows::of_table(caller, schema::table(table), everything, columns)
    };
    match what {
        ShowKind::Databases => {
            if caller.served.globals.named("skip_show_database").is_on() {
                see::require_global(caller.session, Privileges::SHOW_DATABASES)?;
            }
            of(caller, "SCHEMATA", &[("Database", "SCHEMA_NAME")])
        }
        ShowKind::Tables { full, db } => tables::tables(caller, db.as_deref(), *full),
        ShowKind::TableStatus { db } => tables::table_status(caller, db.as_deref()),
        ShowKind::Columns { full, table } => tables::columns(caller, table, *full),
        ShowKind::Indexes(table) => tables::indexes(caller, table),
        ShowKind::CreateTable(table) if tables::view_of(caller, table).is_some() => {
            tables::create_view(caller, table, true)
        }
        ShowKind::CreateTable(table) => tables::create_table(caller, table),
        ShowKind::CreateSequence(name) => tables::create_sequence(caller, name),
        ShowKind::CreateDatabase { name, if_not_exists } => {
            tables::create_database(caller, name, *if_not_exists)
        }
        ShowKind::Triggers { db } => {
            tables::check_database(caller, db.as_deref())?;
            of(caller, "TRIGGERS", tables::TRIGGERS)
        }
        ShowKind::Events { db } => {
            // Databases that there are not have no events either.
            if db.is_none() {
                tables::check_database(caller, None)?;
            }
            of(caller, "EVENTS", tables::EVENTS)
        }
        ShowKind::OpenTables { db } => {
            let mut rows = of(caller, "OPEN_TABLES", tables::OPEN_TABLES)?;
            if let Some(db) = db {
                rows.rows.retain(|row| row[0].as_ref().as_bytes() == Some(db.as_bytes()));
            }
            Ok(rows)
        }
        ShowKind::RoutineStatus { .. } => of(caller, "ROUTINES", tables::ROUTINES),
        ShowKind::Engines => of(caller, "ENGINES", admin::ENGINES),
        ShowKind::CharacterSets => of(caller, "CHARACTER_SETS", admin::CHARACTER_SETS),
        ShowKind::Collations => of(caller, "COLLATIONS", admin::COLLATIONS),
        ShowKind::Plugins => of(caller, "PLUGINS", admin::PLUGINS),
        ShowKind::PluginsOfFiles => {
            let all = of(caller, "ALL_PLUGINS", admin::PLUGINS)?;
            Ok(Rows { rows: Vec::new(), ..all })
        }
        ShowKind::Plugin(name) => {
            let headings = admin::headings(name);
            let columns: Vec<(&str, &str)> =
                headings.iter().map(|(heading, column)| (heading.as_str(), *column)).collect();
            of(caller, name, &columns)
        }
        ShowKind::CreateView(table) => tables::create_view(caller, table, false),
        other => admin::rows(caller, other),
    }
}

/// Keeps rows whose first column matches; SHOW DATABASES and SHOW TABLES say so in that column's name.
pub fn like(mut rows: Rows, what: &ShowKind, pattern: &[u8]) -> Rows {
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

/// The named database, or the default one.
pub fn database_of(caller: &Caller<'_>, named: Option<&str>) -> SqlResult<String> {
    match named {
        Some(name) => Ok(name.to_string()),
        None => caller.session.require_database().map(|name| name.to_string()),
    }
}

/// Error 1235 of a SHOW.
pub fn unsupported(what: &str) -> SqlError {
    errors::not_supported_yet(format_args!("SHOW {what}"))
}
