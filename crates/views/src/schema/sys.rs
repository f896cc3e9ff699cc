//! The views of `sys`: those over definitions, variables and InnoDB have rows, those over instruments have none.

use std::collections::BTreeMap;
use std::sync::Arc;

use keel_base::SqlResult;
use keel_catalog::{IndexDef, TableDef, names};
use keel_value::{Decimal, TypeKind, Value};

use super::objects::real_tables;
use super::{RowMaker, View, Wanted, number, text};
use crate::VERSION;
use crate::show::status;

/// The version of `sys` that MariaDB 10.11 has.
const SYS_VERSION: &str = "1.5.1";

/// Makes the rows of a view.
pub fn fill(view: &View<'_>, rows: &mut RowMaker<'_>) -> SqlResult<()> {
    match rows.table() {
        "version" => rows.row([("sys_version", text(SYS_VERSION)), ("mysql_version", text(VERSION))]),
        "sys_config" => config(rows),
        "metrics" => metrics(view, rows)?,
        "schema_object_overview" => overview(view, rows)?,
        "schema_auto_increment_columns" => auto_increment(view, rows),
        "x$schema_flattened_keys" => flattened(view, rows),
        "schema_redundant_indexes" => redundant(view, rows),
        "memory_global_total" | "x$memory_global_total" => rows.row([("total_allocated", Value::Null)]),
        _ => {}
    }
    Ok(())
}

/// Settings of procedures that are not here; functions read one of them.
fn config(rows: &mut RowMaker<'_>) {
    for (name, value) in keel_exec::SYS_CONFIG {
        rows.row([("variable", text(name)), ("value", super::maybe(*value))]);
    }
}

fn metrics(view: &View<'_>, rows: &mut RowMaker<'_>) -> SqlResult<()> {
    let add = |rows: &mut RowMaker<'_>, name: String, value: String, kind: String| {
        rows.row([
            ("Variable_name", text(name)),
            ("Variable_value", text(value)),
            ("Type", text(kind)),
            ("Enabled", text("YES")),
        ]);
    };
    for (name, value) in status::all(view.served, None, false) {
        add(rows, name.to_lowercase(), value, "Global Status".into());
    }
    let table = super::table("INNODB_METRICS");
    for row in super::rows(view, table, Wanted::default())? {
        let cell = |name: &str| table.column_index(name).map_or(String::new(), |place| shown(&row[place]));
        add(rows, cell("NAME"), cell("COUNT"), format!("InnoDB Metrics - {}", cell("SUBSYSTEM")));
    }
    Ok(())
}

fn shown(value: &Value) -> String {
    match value {
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::UInt(number) => number.to_string(),
        _ => String::new(),
    }
}

/// How many objects of each kind a database has.
fn overview(view: &View<'_>, rows: &mut RowMaker<'_>) -> SqlResult<()> {
    let mut counts: BTreeMap<(String, String), u64> = BTreeMap::new();
    for (table, what) in [("TABLES", "TABLE_TYPE"), ("STATISTICS", "INDEX_TYPE")] {
        let table = super::table(table);
        let (Some(db), Some(what)) = (table.column_index("TABLE_SCHEMA"), table.column_index(what)) else {
            continue;
        };
        for row in super::rows(view, table, Wanted::default())? {
            let kind = match &*table.name {
                "STATISTICS" => format!("INDEX ({})", shown(&row[what])),
                _ => shown(&row[what]),
            };
            *counts.entry((shown(&row[db]), kind)).or_default() += 1;
        }
    }
    for ((db, kind), count) in counts {
        rows.row([("db", text(db)), ("object_type", text(kind)), ("count", number(count))]);
    }
    Ok(())
}

/// The tables that are users' own.
fn own_tables(view: &View<'_>) -> impl Iterator<Item = Arc<TableDef>> {
    real_tables(view, Wanted::default()).into_iter().filter(|table| *table.schema != *super::MYSQL)
}

fn auto_increment(view: &View<'_>, rows: &mut RowMaker<'_>) {
    let mut found = Vec::new();
    for table in own_tables(view) {
        let Some(column) = table.columns.iter().find(|column| column.auto_increment) else { continue };
        let next = view.served.database().next_auto_increment(&table).max(1);
        let bits = match column.ty.kind {
            TypeKind::TinyInt => 8,
            TypeKind::SmallInt => 16,
            TypeKind::MediumInt => 24,
            TypeKind::Int => 32,
            _ => 64,
        };
        let most = (u64::MAX >> (64 - bits)) >> u32::from(!column.ty.unsigned);
        let ratio = (u128::from(next) * 10_000 + u128::from(most / 2)) / u128::from(most);
        let ratio = Decimal::parse(format!("{}.{:04}", ratio / 10_000, ratio % 10_000).as_bytes());
        let name = column.ty.sql_name();
        let data_type = name.split(['(', ' ']).next().unwrap_or_default().to_string();
        found.push((
            std::cmp::Reverse(ratio.as_ref().map(ToString::to_string)),
            [
                ("table_schema", text(&table.schema)),
                ("table_name", text(&table.name)),
                ("column_name", text(&column.name)),
                ("data_type", text(data_type)),
                ("column_type", text(&name)),
                ("is_signed", super::flag(!column.ty.unsigned)),
                ("is_unsigned", super::flag(column.ty.unsigned)),
                ("max_value", number(most)),
                ("auto_increment", number(next)),
                ("auto_increment_ratio", ratio.map_or(Value::Null, Value::Decimal)),
            ],
        ));
    }
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found.into_iter().for_each(|(_, row)| rows.row(row));
}

/// An index with its columns as a list.
struct Flat {
    table: Arc<TableDef>,
    name: String,
    unique: bool,
    prefixed: bool,
    columns: String,
}

fn flat_indexes(table: &Arc<TableDef>) -> Vec<Flat> {
    let flat = |index: &IndexDef| {
        let columns: Vec<&str> = index.parts.iter().map(|part| &*table.columns[part.column].name).collect();
        Flat {
            table: table.clone(),
            name: index.name.to_string(),
            unique: index.is_unique(),
            prefixed: index.parts.iter().any(|part| part.prefix.is_some()),
            columns: columns.join(","),
        }
    };
    let mut all: Vec<Flat> = table.indexes.iter().map(flat).collect();
    all.sort_by_key(|index| index.name.to_lowercase());
    all
}

fn flattened(view: &View<'_>, rows: &mut RowMaker<'_>) {
    for index in own_tables(view).flat_map(|table| flat_indexes(&table)) {
        rows.row([
            ("table_schema", text(&index.table.schema)),
            ("table_name", text(&index.table.name)),
            ("index_name", text(&index.name)),
            ("non_unique", super::flag(!index.unique)),
            ("subpart_exists", super::flag(index.prefixed)),
            ("index_columns", text(&index.columns)),
        ]);
    }
}

/// Whether one index serves for all that another one does.
fn dominates(dominant: &Flat, other: &Flat) -> bool {
    if dominant.name == other.name {
        return false;
    }
    let begins = |long: &str, short: &str| long.starts_with(&format!("{short},"));
    if dominant.columns == other.columns {
        // Of two alike the one that is unique stays; of two of a kind the first by name, and the primary key.
        return match (dominant.unique, other.unique) {
            (true, false) => true,
            (false, true) => false,
            _ => dominant.name == "PRIMARY" || other.name != "PRIMARY" && dominant.name < other.name,
        };
    }
    if begins(&dominant.columns, &other.columns) {
        return !other.unique;
    }
    // What a unique index begins is unique already.
    begins(&other.columns, &dominant.columns) && dominant.unique && other.unique
}

fn redundant(view: &View<'_>, rows: &mut RowMaker<'_>) {
    for table in own_tables(view) {
        let all = flat_indexes(&table);
        for other in &all {
            for dominant in all.iter().filter(|dominant| dominates(dominant, other)) {
                let mut drop = String::from("ALTER TABLE ");
                names::push_quoted(&mut drop, &table.schema);
                drop.push('.');
                names::push_quoted(&mut drop, &table.name);
                drop.push_str(" DROP INDEX ");
                names::push_quoted(&mut drop, &other.name);
                rows.row([
                    ("table_schema", text(&table.schema)),
                    ("table_name", text(&table.name)),
                    ("redundant_index_name", text(&other.name)),
                    ("redundant_index_columns", text(&other.columns)),
                    ("redundant_index_non_unique", super::flag(!other.unique)),
                    ("dominant_index_name", text(&dominant.name)),
                    ("dominant_index_columns", text(&dominant.columns)),
                    ("dominant_index_non_unique", super::flag(!dominant.unique)),
                    ("subpart_exists", super::flag(other.prefixed || dominant.prefixed)),
                    ("sql_drop_index", text(drop)),
                ]);
            }
        }
    }
}
