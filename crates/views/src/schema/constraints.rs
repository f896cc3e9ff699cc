//! Keys, foreign keys and CHECK: KEY_COLUMN_USAGE, TABLE_CONSTRAINTS, CHECK_CONSTRAINTS, REFERENTIAL_CONSTRAINTS, INNODB_SYS_FOREIGN and its columns.

use keel_catalog::{ForeignAction, ForeignKey, IndexDef, IndexKind, TableDef};
use keel_expr::rights::SeenConstraints;
use keel_value::Value;

use super::objects::sees_column;
use super::{RowMaker, View, number, text};

/// The rows of a table as far as the session may see them.
pub fn seen_rows(view: &View<'_>, rows: &mut RowMaker<'_>, table: &TableDef, seen: SeenConstraints) {
    match rows.table() {
        "KEY_COLUMN_USAGE" => {
            let unique = table.indexes.iter().filter(|index| index.kind != IndexKind::Plain);
            unique.for_each(|index| key_rows(view, rows, table, index));
            if seen.foreign_columns {
                table.foreign_keys.iter().for_each(|key| foreign_key_rows(rows, table, key));
            }
        }
        "CHECK_CONSTRAINTS" if !seen.checks => {}
        "TABLE_CONSTRAINTS" | "REFERENTIAL_CONSTRAINTS" if !seen.names => {}
        _ => self::rows(view, rows, table),
    }
}

/// The rows that a table gives to the one that is made.
pub fn rows(view: &View<'_>, rows: &mut RowMaker<'_>, table: &TableDef) {
    let unique = table.indexes.iter().filter(|index| index.kind != IndexKind::Plain);
    let foreign = table.foreign_keys.iter();
    match rows.table() {
        "CHECK_CONSTRAINTS" => check_rows(rows, table),
        "TABLE_CONSTRAINTS" => {
            for (name, ..) in table.all_checks() {
                constraint_row(rows, table, name, "CHECK");
            }
            for index in unique {
                let kind = if index.kind == IndexKind::Primary { "PRIMARY KEY" } else { "UNIQUE" };
                constraint_row(rows, table, &index.name, kind);
            }
            foreign.for_each(|key| constraint_row(rows, table, &key.name, "FOREIGN KEY"));
        }
        "REFERENTIAL_CONSTRAINTS" => foreign.for_each(|key| referential_row(view, rows, table, key)),
        "INNODB_SYS_FOREIGN" => foreign.for_each(|key| innodb_row(rows, table, key)),
        _ => foreign.for_each(|key| innodb_column_rows(rows, table, key)),
    }
}

/// What KEY_COLUMN_USAGE says of any column of a constraint.
fn usage(table: &TableDef, constraint: &str, column: &str, sequence: usize) -> [(&'static str, Value); 8] {
    [
        ("CONSTRAINT_CATALOG", text("def")),
        ("CONSTRAINT_SCHEMA", text(&table.schema)),
        ("CONSTRAINT_NAME", text(constraint)),
        ("TABLE_CATALOG", text("def")),
        ("TABLE_SCHEMA", text(&table.schema)),
        ("TABLE_NAME", text(&table.name)),
        ("COLUMN_NAME", text(column)),
        ("ORDINAL_POSITION", number(sequence as u64 + 1)),
    ]
}

fn key_rows(view: &View<'_>, rows: &mut RowMaker<'_>, table: &TableDef, index: &IndexDef) {
    for (sequence, part) in index.parts.iter().enumerate() {
        if !sees_column(view, table, &table.columns[part.column].name) {
            continue;
        }
        rows.row(usage(table, &index.name, &table.columns[part.column].name, sequence));
    }
}

fn check_rows(rows: &mut RowMaker<'_>, table: &TableDef) {
    for (name, of_column, condition) in table.all_checks() {
        rows.row([
            ("CONSTRAINT_CATALOG", text("def")),
            ("CONSTRAINT_SCHEMA", text(&table.schema)),
            ("TABLE_NAME", text(&table.name)),
            ("CONSTRAINT_NAME", text(name)),
            ("LEVEL", text(if of_column { "Column" } else { "Table" })),
            ("CHECK_CLAUSE", text(condition)),
        ]);
    }
}

fn foreign_key_rows(rows: &mut RowMaker<'_>, table: &TableDef, key: &ForeignKey) {
    for (sequence, (column, referenced)) in key.columns.iter().zip(&key.ref_columns).enumerate() {
        let referenced = [
            ("POSITION_IN_UNIQUE_CONSTRAINT", number(sequence as u64 + 1)),
            ("REFERENCED_TABLE_SCHEMA", text(&key.ref_schema)),
            ("REFERENCED_TABLE_NAME", text(&key.ref_table)),
            ("REFERENCED_COLUMN_NAME", text(referenced)),
        ];
        rows.row(usage(table, &key.name, column, sequence).into_iter().chain(referenced));
    }
}

fn constraint_row(rows: &mut RowMaker<'_>, table: &TableDef, name: &str, kind: &str) {
    rows.row([
        ("CONSTRAINT_CATALOG", text("def")),
        ("CONSTRAINT_SCHEMA", text(&table.schema)),
        ("CONSTRAINT_NAME", text(name)),
        ("TABLE_SCHEMA", text(&table.schema)),
        ("TABLE_NAME", text(&table.name)),
        ("CONSTRAINT_TYPE", text(kind)),
    ]);
}

fn referential_row(view: &View<'_>, rows: &mut RowMaker<'_>, table: &TableDef, key: &ForeignKey) {
    let catalog = view.served.database().catalog();
    let parent = catalog.table(&key.ref_schema, &key.ref_table);
    let index = parent.and_then(|parent| {
        let index = parent.index_beginning_with(&parent.column_places(&key.ref_columns)?)?;
        Some(text(&parent.indexes[index].name))
    });
    let rule = |action| match action {
        ForeignAction::Restrict => "RESTRICT",
        other => other.name(),
    };
    rows.row([
        ("CONSTRAINT_CATALOG", text("def")),
        ("CONSTRAINT_SCHEMA", text(&table.schema)),
        ("CONSTRAINT_NAME", text(&key.name)),
        ("UNIQUE_CONSTRAINT_CATALOG", text("def")),
        ("UNIQUE_CONSTRAINT_SCHEMA", text(&key.ref_schema)),
        ("UNIQUE_CONSTRAINT_NAME", index.unwrap_or(Value::Null)),
        ("MATCH_OPTION", text("NONE")),
        ("UPDATE_RULE", text(rule(key.on_update))),
        ("DELETE_RULE", text(rule(key.on_delete))),
        ("TABLE_NAME", text(&table.name)),
        ("REFERENCED_TABLE_NAME", text(&key.ref_table)),
    ]);
}

fn innodb_name(table: &TableDef, key: &ForeignKey) -> Value {
    text(format!("{}/{}", table.schema, key.name))
}

fn innodb_row(rows: &mut RowMaker<'_>, table: &TableDef, key: &ForeignKey) {
    // As InnoDB's dict_foreign_t numbers them.
    let bits = |action, cascade, set_null, no_action| match action {
        ForeignAction::Restrict => 0,
        ForeignAction::Cascade => cascade,
        ForeignAction::SetNull => set_null,
        ForeignAction::NoAction => no_action,
    };
    rows.row([
        ("ID", innodb_name(table, key)),
        ("FOR_NAME", text(format!("{}/{}", table.schema, table.name))),
        ("REF_NAME", text(format!("{}/{}", key.ref_schema, key.ref_table))),
        ("N_COLS", number(key.columns.len() as u64)),
        ("TYPE", number(bits(key.on_delete, 1, 2, 16) | bits(key.on_update, 4, 8, 32))),
    ]);
}

fn innodb_column_rows(rows: &mut RowMaker<'_>, table: &TableDef, key: &ForeignKey) {
    for (sequence, (column, referenced)) in key.columns.iter().zip(&key.ref_columns).enumerate() {
        rows.row([
            ("ID", innodb_name(table, key)),
            ("FOR_COL_NAME", text(column)),
            ("REF_COL_NAME", text(referenced)),
            ("POS", number(sequence as u64)),
        ]);
    }
}
