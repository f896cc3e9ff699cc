//! `information_schema`: the tables and columns of MariaDB 10.11, with rows that are computed when a table is read.
//!
//! `columns.tsv` lists every table with its columns. Rows are made by `objects` (databases, tables, columns, keys),
//! `server` (character sets, variables, status, processes), `locks` (transactions and waits), `deadlocks`, `pages`
//! (the buffer pool), and `engine` (the rest of InnoDB's tables); a table that none of them knows is empty.
//! SHOW uses the same rows ([`crate::show`]).

pub(crate) mod accounts;
mod constraints;
pub(crate) mod deadlocks;
pub(crate) mod engine;
pub(crate) mod locks;
mod log_tables;
mod memory;
pub(crate) mod objects;
pub(crate) mod pages;
pub(crate) mod server;
mod settings;
mod stats;
mod sys;
pub mod system;
mod variables;
pub(crate) mod views;
pub(crate) mod zones;

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use keel_base::SqlResult;
use keel_catalog::account::Privileges;
use keel_catalog::{ColumnDefault, TableDef};
use keel_exec::Session;
use keel_expr::rights as see;
use keel_value::temporal::Zone;
use keel_value::{CollationId, DateTime, Decimal, SqlType, TypeKind, Value};

use crate::Served;

/// Databases that are not in the catalog.
pub const SCHEMAS: &[&str] = &["information_schema", "performance_schema", "sys"];

/// The collation of all text here.
const COLLATION: CollationId = CollationId::UTF8MB3_GENERAL_CI;

/// The session that reads a view, and what the server shows.
pub struct View<'a> {
    /// What the server shows.
    pub served: &'a Served,
    /// The session that reads.
    pub session: &'a Session,
}

/// The rows and columns of a table that are needed. Rows outside may be omitted; the caller filters again.
#[derive(Clone, Copy, Default)]
pub struct Wanted<'a> {
    /// Objects of this database only.
    pub schema: Option<&'a str>,
    /// Objects of this table only.
    pub table: Option<&'a str>,
    /// This table alone, which is a temporary one of the session's.
    pub own: Option<&'a Arc<TableDef>>,
    /// Marks of the columns that are read; `None` means all.
    pub read: Option<&'a [bool]>,
}

impl<'a> Wanted<'a> {
    /// What a condition on a table of `information_schema` leaves: the columns that name databases and tables are looked up,
    /// as MariaDB does, so that case counts in them.
    pub fn of(table: &TableDef, values: &'a [(usize, Value)]) -> Wanted<'a> {
        let (schema, name) = match &*table.name {
            "SCHEMATA" => ("SCHEMA_NAME", ""),
            "REFERENTIAL_CONSTRAINTS" | "CHECK_CONSTRAINTS" => ("CONSTRAINT_SCHEMA", "TABLE_NAME"),
            "TABLES" | "COLUMNS" | "STATISTICS" | "KEY_COLUMN_USAGE" | "TABLE_CONSTRAINTS" | "PARTITIONS"
            | "VIEWS" => ("TABLE_SCHEMA", "TABLE_NAME"),
            _ => return Wanted::default(),
        };
        let value_of = |wanted: &str| {
            let mut values = values.iter().filter(|(column, _)| *table.columns[*column].name == *wanted);
            match values.next() {
                Some((_, Value::Bytes(text))) if text.is_ascii() => std::str::from_utf8(text).ok(),
                _ => None,
            }
        };
        Wanted { schema: value_of(schema), table: value_of(name), own: None, read: None }
    }

    /// Whether objects of that database are wanted.
    pub fn takes_schema(&self, name: &str) -> bool {
        self.schema.is_none_or(|wanted| match name {
            "information_schema" => wanted.eq_ignore_ascii_case(name),
            _ => wanted == name,
        })
    }

    /// Whether a column of `table` is read that `are_meant` names.
    pub fn reads_any(&self, table: &TableDef, are_meant: impl Fn(&str) -> bool) -> bool {
        let is_read = |place| self.read.is_none_or(|marks| marks.get(place).is_none_or(|mark| *mark));
        (0..).zip(&table.columns).any(|(place, column)| is_read(place) && are_meant(&column.name))
    }

    /// Whether that table is wanted.
    pub fn takes_table(&self, name: &str) -> bool {
        self.table.is_none_or(|wanted| wanted == name)
    }
}

static TABLES: LazyLock<BTreeMap<String, Arc<TableDef>>> =
    LazyLock::new(|| read_tables(include_str!("columns.tsv")));

/// The database of MariaDB's own tables. The tables of accounts are virtual and read-only.
pub const MYSQL: &str = "mysql";

fn read_tables(text: &'static str) -> BTreeMap<String, Arc<TableDef>> {
    let mut columns: BTreeMap<&str, Vec<(&str, SqlType, bool)>> = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [table, column, ty, nullable] = fields[..] else { panic!("columns.tsv: {line}") };
        columns.entry(table).or_default().push((column, read_type(ty), nullable == "YES"));
    }
    columns
        .into_iter()
        .map(|(name, columns)| {
            let mut table = TableDef::virtual_table("information_schema", name, columns);
            table.options.collation = COLLATION;
            (name.to_ascii_lowercase(), Arc::new(table))
        })
        .collect()
}

/// The length that MariaDB announces for its long texts here.
const LONGTEXT_CHARS: u32 = 65_535 * 3;

/// Reads a type as `columns.tsv` writes it.
fn read_type(text: &str) -> SqlType {
    if let Some(members) = text.strip_prefix("enum('").and_then(|rest| rest.strip_suffix("')")) {
        let members = members.split("','").map(String::from).collect();
        return SqlType::members_of(TypeKind::Enum, members, COLLATION);
    }
    let (name, rest) = text.split_once(['(', ' ']).unwrap_or((text, ""));
    let number = rest.split([')', ',']).next().and_then(|n| n.parse::<u32>().ok());
    let ty = match name {
        "varchar" => return SqlType::varchar(number.unwrap_or(1), COLLATION),
        "longtext" => {
            let length = number.unwrap_or(LONGTEXT_CHARS);
            return SqlType::new(TypeKind::LongText).with_collation(COLLATION).with_length(length);
        }
        "decimal" => {
            let digits = rest.split([')', ',']).nth(1).and_then(|n| n.parse().ok());
            return SqlType::decimal(number.unwrap_or(10), digits.unwrap_or(0));
        }
        "bigint" => SqlType::new(TypeKind::BigInt),
        "int" => SqlType::new(TypeKind::Int),
        "smallint" => SqlType::new(TypeKind::SmallInt),
        "tinyint" => SqlType::new(TypeKind::TinyInt),
        "double" => SqlType::new(TypeKind::Double),
        "float" => SqlType::new(TypeKind::Float),
        "date" => SqlType::new(TypeKind::Date),
        "datetime" => SqlType::temporal(TypeKind::DateTime, number.unwrap_or(0) as u8),
        "timestamp" => SqlType::temporal(TypeKind::DateTime, number.unwrap_or(0) as u8),
        "time" => SqlType::temporal(TypeKind::Time, number.unwrap_or(0) as u8),
        "mediumtext" => return SqlType::new(TypeKind::MediumText).with_collation(COLLATION),
        _ => return SqlType::varchar(64, COLLATION),
    };
    let ty = match number {
        Some(length) if ty.is_integer() || ty.kind == TypeKind::Double => ty.with_length(length),
        _ => ty,
    };
    if text.ends_with("unsigned") { SqlType { unsigned: true, ..ty } } else { ty }
}

/// The table of that name, whatever its case.
pub fn find(schema: &str, name: &str) -> Option<Arc<TableDef>> {
    if let Some(own) = system::find(schema, name) {
        return Some(own.table.clone());
    }
    if !schema.eq_ignore_ascii_case("information_schema") {
        return None;
    }
    TABLES.get(&name.to_ascii_lowercase()).cloned()
}

/// A table that `columns.tsv` must have.
pub fn table(name: &str) -> &'static Arc<TableDef> {
    TABLES.get(&name.to_ascii_lowercase()).unwrap_or_else(|| panic!("no table {name} in columns.tsv"))
}

/// Names of tables that only SHOW uses.
const HIDDEN: &[&str] = &["OPEN_TABLES"];

/// The names of a virtual database's tables.
pub fn names(schema: &str) -> Vec<String> {
    if !schema.eq_ignore_ascii_case("information_schema") {
        let tables =
            SCHEMAS.iter().any(|own| own.eq_ignore_ascii_case(schema)).then(|| system::tables_of(schema));
        return tables.flatten().map_or_else(Vec::new, |tables| tables.keys().cloned().collect());
    }
    TABLES.values().map(|t| t.name.to_string()).filter(|n| !HIDDEN.contains(&n.as_str())).collect()
}

/// All virtual tables that SHOW TABLES and TABLES list.
pub fn tables() -> impl Iterator<Item = &'static Arc<TableDef>> {
    TABLES.values().filter(|t| !HIDDEN.contains(&&*t.name))
}

/// Whether a table needs the privilege PROCESS.
fn is_guarded(name: &str) -> bool {
    (name.starts_with("INNODB_") || name.starts_with("KEEL_"))
        && !["KEEL_MEMORY", "KEEL_SETTINGS"].contains(&name)
}

/// The rows of a table at this moment.
pub fn rows(view: &View<'_>, table: &TableDef, wanted: Wanted<'_>) -> SqlResult<Vec<Vec<Value>>> {
    let mut maker = RowMaker::new(view, table);
    match &*table.schema {
        MYSQL => {
            let known = zones::fill(&mut maker)
                || log_tables::fill(view, &mut maker)
                || stats::fill(view, &mut maker);
            if !known {
                accounts::fill_mysql(view, table, &mut maker);
            }
            return Ok(maker.rows);
        }
        // Nothing is instrumented, as in MariaDB without any setting.
        system::PERFORMANCE => return Ok(maker.rows),
        system::SYS => {
            sys::fill(view, &mut maker)?;
            return Ok(maker.rows);
        }
        _ => {}
    }
    if is_guarded(&table.name) {
        see::require_global(view.session, Privileges::PROCESS)?;
    }
    if accounts::fill(view, &mut maker) {
        return Ok(maker.rows);
    }
    match &*table.name {
        "SCHEMATA"
        | "TABLES"
        | "COLUMNS"
        | "STATISTICS"
        | "KEY_COLUMN_USAGE"
        | "TABLE_CONSTRAINTS"
        | "REFERENTIAL_CONSTRAINTS"
        | "CHECK_CONSTRAINTS"
        | "PARTITIONS" => objects::fill(view, wanted, &mut maker),
        "VIEWS" => views::fill(view, wanted, &mut maker)?,
        "user_variables" => variables::fill(view, &mut maker),
        "KEEL_MEMORY" => memory::fill(view, &mut maker),
        "KEEL_SETTINGS" => settings::fill(view, &mut maker),
        "INNODB_TRX" | "INNODB_LOCKS" | "INNODB_LOCK_WAITS" | "KEEL_TRX_STATEMENTS" => {
            locks::fill(view, &mut maker);
        }
        name if name.starts_with("KEEL_DEADLOCK") => deadlocks::fill(view, &mut maker),
        name if name.starts_with("INNODB_") => engine::fill(view, &mut maker),
        _ => server::fill(view, &mut maker)?,
    }
    Ok(maker.rows)
}

/// Makes rows from values by column name. Other columns are NULL, or empty if the column is not nullable.
pub struct RowMaker<'a> {
    table: &'a TableDef,
    /// The session's zone: moments are stored without one.
    zone: Arc<dyn Zone + Send + Sync>,
    blank: Vec<Value>,
    rows: Vec<Vec<Value>>,
}

impl<'a> RowMaker<'a> {
    fn new(view: &View<'_>, table: &'a TableDef) -> RowMaker<'a> {
        let blank = table
            .columns
            .iter()
            .map(|column| match column.ty.kind {
                _ if column.nullable => Value::Null,
                _ if column.ty.is_string() => Value::bytes(b""),
                _ if column.ty.has_members() => match &column.default {
                    ColumnDefault::Value(value) => value.clone(),
                    _ => Value::UInt(u64::from(column.ty.kind == TypeKind::Enum)),
                },
                TypeKind::Double | TypeKind::Float => Value::Double(0.0),
                TypeKind::Decimal => {
                    Value::Decimal(Decimal::from_i64(0).round(i32::from(column.ty.decimals)))
                }
                TypeKind::DateTime | TypeKind::Timestamp => Value::DateTime(DateTime::default()),
                _ => Value::Int(0),
            })
            .collect();
        RowMaker { table, zone: view.session.vars.time_zone.clone(), blank, rows: Vec::new() }
    }

    /// The table's name.
    pub fn table(&self) -> &'a str {
        &self.table.name
    }

    /// Whether a column is read that `are_meant` names.
    pub fn reads_any(&self, wanted: &Wanted<'_>, are_meant: impl Fn(&str) -> bool) -> bool {
        wanted.reads_any(self.table, are_meant)
    }

    /// Sets further columns of the last row.
    pub fn also(&mut self, name: &str, value: Value) {
        let place = self.table.column_index(name);
        let place = place.unwrap_or_else(|| panic!("no column {name} in {}", self.table.name));
        let value = stored(&self.table.columns[place].ty, value, &*self.zone);
        if let Some(row) = self.rows.last_mut() {
            row[place] = value;
        }
    }

    /// Adds a row.
    pub fn row<'n>(&mut self, cells: impl IntoIterator<Item = (&'n str, Value)>) {
        let mut row = self.blank.clone();
        for (name, value) in cells {
            let place = self.table.column_index(name);
            let place = place.unwrap_or_else(|| panic!("no column {name} in {}", self.table.name));
            row[place] = stored(&self.table.columns[place].ty, value, &*self.zone);
        }
        self.rows.push(row);
    }
}

/// A value as a column keeps it: members by their numbers, a TIMESTAMP without the session's zone.
fn stored(ty: &SqlType, value: Value, zone: &dyn Zone) -> Value {
    match &value {
        Value::DateTime(local) if ty.kind == TypeKind::Timestamp => {
            Value::DateTime(if local.is_zero() { *local } else { zone.to_utc(*local).0 })
        }
        Value::Bytes(names) if ty.kind == TypeKind::Set => {
            Value::UInt(bits_of(ty, &String::from_utf8_lossy(names)))
        }
        Value::Bytes(name) if ty.has_members() => {
            let place = ty.members().iter().position(|member| member.as_bytes() == &**name);
            Value::UInt(place.map_or(0, |place| place as u64 + 1))
        }
        _ => value,
    }
}

/// The members of a SET by their bits; letters have no case.
fn bits_of(ty: &SqlType, names: &str) -> u64 {
    let members = ty.members().iter().take(64).enumerate();
    let has = |member: &str| names.split(',').any(|name| name.eq_ignore_ascii_case(member));
    members.filter(|(_, member)| has(member)).fold(0, |bits, (place, _)| bits | 1 << place)
}

/// Text.
pub fn text(text: impl AsRef<str>) -> Value {
    Value::bytes(text.as_ref().as_bytes())
}

/// Text, or NULL.
pub fn maybe(value: Option<impl AsRef<str>>) -> Value {
    value.map_or(Value::Null, text)
}

/// A number.
pub fn number(value: u64) -> Value {
    Value::UInt(value)
}

/// 1 or 0.
pub fn flag(value: bool) -> Value {
    Value::Int(i64::from(value))
}

/// Microseconds since 1970 as a time in the session's zone.
pub fn moment(view: &View<'_>, unix_micros: i64) -> Value {
    let utc =
        DateTime::from_unix(unix_micros.div_euclid(1_000_000), unix_micros.rem_euclid(1_000_000) as u32);
    Value::DateTime(keel_value::convert::timestamp_to_local(utc, &*view.session.vars.time_zone))
}

/// A time in the session's zone, without the fraction of the second.
pub fn second(view: &View<'_>, unix_micros: i64) -> Value {
    moment(view, unix_micros - unix_micros.rem_euclid(1_000_000))
}

/// `YES` or `NO`.
pub fn yes_no(value: bool) -> Value {
    text(if value { "YES" } else { "NO" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_found_in_any_case() {
        let tables = find("Information_Schema", "tables").unwrap();
        assert_eq!((&*tables.name, tables.columns.len()), ("TABLES", 23));
        assert!(find("test", "tables").is_none());
        assert!(names("information_schema").contains(&"PROCESSLIST".to_string()));
        assert!(!names("information_schema").contains(&"OPEN_TABLES".to_string()));
    }

    #[test]
    fn every_column_that_mariadb_has_not_is_described() {
        let page = include_str!("../../../../docs/STATUS.md");
        let described: Vec<(&str, &str)> = page
            .split("\n### ")
            .filter(|section| section.starts_with("KEEL_"))
            .flat_map(|section| {
                let table = section.split(':').next().unwrap_or_default();
                let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
                rows.filter_map(move |row| Some((table, row.split_once('`')?.0)))
            })
            .collect();
        let own: Vec<(&str, &str)> = TABLES
            .values()
            .filter(|table| table.name.starts_with("KEEL_"))
            .flat_map(|table| table.columns.iter().map(|column| (&*table.name, &*column.name)))
            .collect();
        let sorted = |mut list: Vec<(&'static str, &'static str)>| {
            list.sort_unstable();
            list
        };
        assert_eq!(sorted(described), sorted(own));
    }

    #[test]
    fn types_are_read() {
        assert_eq!(read_type("bigint(21) unsigned").sql_name(), "bigint(21) unsigned");
        assert_eq!(read_type("varchar(64)").sql_name(), "varchar(64)");
        assert_eq!(read_type("datetime").kind, TypeKind::DateTime);
        assert_eq!(read_type("decimal(9,6)").sql_name(), "decimal(9,6)");
        assert_eq!(read_type("enum('S','S,GAP')").members(), ["S", "S,GAP"]);
    }
}
