//! The tables of `mysql`, `performance_schema` and `sys`: their columns, keys and options as MariaDB 10.11 has them.
//!
//! A line of `mysql.tsv`, `performance.tsv` and `sys.tsv` is a table and a column with type, whether it may be NULL, collation
//! (where it is not the usual one), default and what else there is; or a table and `@primary`, `@unique` or `@key` with the
//! key's name, columns and algorithm; or `@tail`, which is how SHOW CREATE TABLE ends; or `@view`.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use keel_catalog::{ColumnDef, ColumnDefault, TableDef};
use keel_value::{CollationId, SqlType, TypeKind, Value, collation};

use super::{COLLATION, MYSQL};

/// The database of instruments.
pub const PERFORMANCE: &str = "performance_schema";
/// The database of views over them.
pub const SYS: &str = "sys";

/// A table of one of these databases.
pub struct SystemTable {
    /// Its definition.
    pub table: Arc<TableDef>,
    /// How SHOW CREATE TABLE ends; empty where the server makes the rows up.
    pub tail: &'static str,
    /// Whether it is a view in MariaDB.
    pub is_view: bool,
}

impl SystemTable {
    /// Its engine, as `information_schema.TABLES` names it.
    pub fn engine(&self) -> &'static str {
        let named = self.tail.strip_prefix("ENGINE=").and_then(|rest| rest.split(' ').next());
        named.unwrap_or("PERFORMANCE_SCHEMA")
    }
}

/// Tables by their names.
pub type Tables = BTreeMap<String, SystemTable>;

static MYSQL_TABLES: LazyLock<Tables> = LazyLock::new(|| read(MYSQL, include_str!("mysql.tsv")));
static PERFORMANCE_TABLES: LazyLock<Tables> =
    LazyLock::new(|| read(PERFORMANCE, include_str!("performance.tsv")));
static SYS_TABLES: LazyLock<Tables> = LazyLock::new(|| read(SYS, include_str!("sys.tsv")));

/// The tables of one of these databases, whatever the case of its name; `mysql` is a real one and has case.
pub fn tables_of(schema: &str) -> Option<&'static Tables> {
    match schema {
        MYSQL => Some(&MYSQL_TABLES),
        _ if schema.eq_ignore_ascii_case(PERFORMANCE) => Some(&PERFORMANCE_TABLES),
        _ if schema.eq_ignore_ascii_case(SYS) => Some(&SYS_TABLES),
        _ => None,
    }
}

/// The table of that name.
pub fn find(schema: &str, name: &str) -> Option<&'static SystemTable> {
    tables_of(schema)?.get(name)
}

/// What is known of a table beyond its definition.
pub fn of(table: &TableDef) -> Option<&'static SystemTable> {
    find(&table.schema, &table.name)
}

/// The lines of one table.
#[derive(Default)]
struct Lines {
    columns: Vec<ColumnDef>,
    keys: Vec<[&'static str; 4]>,
    tail: &'static str,
    is_view: bool,
}

fn read(schema: &str, text: &'static str) -> Tables {
    let mut tables: BTreeMap<&str, Lines> = BTreeMap::new();
    for line in text.lines() {
        let mut fields = line.split('\t');
        let mut next = || fields.next().unwrap_or("");
        let lines = tables.entry(next()).or_default();
        match next() {
            "@view" => lines.is_view = true,
            "@tail" => lines.tail = next(),
            kind if kind.starts_with('@') => lines.keys.push([kind, next(), next(), next()]),
            column => lines.columns.push(read_column(column, [next(), next(), next(), next(), next()])),
        }
    }
    tables.into_iter().map(|(name, lines)| (name.to_string(), make(schema, name, lines))).collect()
}

fn make(schema: &str, name: &str, lines: Lines) -> SystemTable {
    let mut table = TableDef::virtual_table(schema, name, Vec::new());
    table.set_virtual_columns(lines.columns);
    let named = |word: &str| lines.tail.split(' ').find_map(|option| option.strip_prefix(word));
    let charset = named("DEFAULT CHARSET=").or(named("CHARSET="));
    table.options.collation = named("COLLATE=")
        .and_then(collation::by_name)
        .or_else(|| charset.and_then(collation::Charset::by_name).map(|set| set.default_collation()))
        .unwrap_or(COLLATION);
    for [kind, key, columns, using] in lines.keys {
        let kind = kind.trim_start_matches('@');
        let places: Vec<usize> = columns.split(',').filter_map(|column| table.column_index(column)).collect();
        table.add_virtual_index(key, kind, &places, using);
    }
    SystemTable { table: Arc::new(table), tail: lines.tail, is_view: lines.is_view }
}

fn read_column(name: &str, [ty, nullable, collation, default, extra]: [&'static str; 5]) -> ColumnDef {
    let collation = collation::by_name(collation).unwrap_or(COLLATION);
    let ty = read_type(ty, collation);
    let mut column = ColumnDef::plain(name, ty, nullable == "YES");
    column.on_update_now = extra.starts_with("on update");
    column.auto_increment = extra == "auto_increment";
    column.default = match default {
        "\\N" | "" => ColumnDefault::None,
        "NULL" => ColumnDefault::Value(Value::Null),
        now if now.starts_with("current_timestamp") => ColumnDefault::Now,
        text if text.starts_with('\'') && !column.ty.is_blob() && !column.ty.is_temporal() => {
            ColumnDefault::Value(default_value(&column.ty, text.trim_matches('\'')))
        }
        number if number.parse::<i64>().is_ok() => ColumnDefault::Value(default_value(&column.ty, number)),
        expression => ColumnDefault::Expression(expression.to_string()),
    };
    column
}

fn default_value(ty: &SqlType, text: &str) -> Value {
    let number = || text.parse::<i64>().unwrap_or(0);
    match ty.kind {
        TypeKind::Enum => {
            Value::UInt(ty.members().iter().position(|m| m == text).map_or(0, |place| place as u64 + 1))
        }
        TypeKind::Set => Value::UInt(super::bits_of(ty, text)),
        _ if ty.is_integer() && ty.unsigned => Value::UInt(number() as u64),
        _ if ty.is_integer() => Value::Int(number()),
        TypeKind::Decimal => keel_value::Decimal::parse(text.as_bytes()).map_or(Value::Null, Value::Decimal),
        _ => Value::bytes(text.as_bytes()),
    }
}

/// Reads a type as `information_schema.COLUMNS` writes it.
fn read_type(text: &str, collation: CollationId) -> SqlType {
    let text = text.split(" /*").next().unwrap_or(text);
    let (name, rest) = text.split_once(['(', ' ']).unwrap_or((text, ""));
    let mut numbers = rest.split([')', ',']).map_while(|n| n.parse::<u32>().ok());
    let (first, second) = (numbers.next(), numbers.next());
    let members = || {
        let list = rest.trim_start_matches('\'').trim_end_matches("')");
        list.split("','").map(String::from).collect::<Vec<_>>()
    };
    let kind = match name {
        "enum" => return SqlType::members_of(TypeKind::Enum, members(), collation),
        "set" => return SqlType::members_of(TypeKind::Set, members(), collation),
        "varchar" => return SqlType::varchar(first.unwrap_or(1), collation),
        "char" => return SqlType::char(first.unwrap_or(1), collation),
        "varbinary" => return SqlType::varbinary(first.unwrap_or(1)),
        "text" => return SqlType::new(TypeKind::Text).with_collation(collation),
        "mediumtext" => return SqlType::new(TypeKind::MediumText).with_collation(collation),
        "longtext" => return SqlType::new(TypeKind::LongText).with_collation(collation),
        "blob" => return SqlType::new(TypeKind::Blob),
        "longblob" => return SqlType::new(TypeKind::LongBlob),
        "datetime" => return SqlType::temporal(TypeKind::DateTime, first.unwrap_or(0) as u8),
        "timestamp" => return SqlType::temporal(TypeKind::Timestamp, first.unwrap_or(0) as u8),
        "time" => return SqlType::temporal(TypeKind::Time, first.unwrap_or(0) as u8),
        "decimal" => SqlType::decimal(first.unwrap_or(10), second.unwrap_or(0) as u8),
        "double" if second.is_some() => {
            let digits = SqlType::new(TypeKind::Double).with_length(first.unwrap_or(10));
            digits.with_decimals(second.unwrap_or(0) as u8)
        }
        "double" => SqlType::new(TypeKind::Double),
        "tinyint" => SqlType::new(TypeKind::TinyInt),
        "smallint" => SqlType::new(TypeKind::SmallInt),
        "bigint" => SqlType::new(TypeKind::BigInt),
        "int" => SqlType::new(TypeKind::Int),
        other => panic!("a system table has a column of type {other}"),
    };
    let ty = match first {
        Some(length) if kind.is_integer() => kind.with_length(length),
        _ => kind,
    };
    if text.ends_with("unsigned") { SqlType { unsigned: true, ..ty } } else { ty }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_reads() {
        assert_eq!(tables_of("mysql").unwrap().len(), 31);
        assert_eq!(tables_of("Performance_Schema").unwrap().len(), 81);
        assert_eq!(tables_of("sys").unwrap().len(), 101);
        let db = find("mysql", "db").unwrap();
        assert_eq!((db.table.indexes.len(), db.engine(), db.is_view), (2, "Aria", false));
        assert!(find("mysql", "user").unwrap().is_view);
        assert!(find("performance_schema", "threads").is_some());
    }
}
