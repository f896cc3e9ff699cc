//! `mysql.innodb_table_stats` and `mysql.innodb_index_stats`: what the optimizer knows of tables and indexes now.

use keel_catalog::{IndexDef, TableDef};
use keel_storage::TreeHandle;
use keel_value::Value;

use super::objects::{distinct, real_tables};
use super::{RowMaker, View, Wanted, number, second, text};

/// Makes the rows of one of these tables; false where it is none of them.
pub fn fill(view: &View<'_>, rows: &mut RowMaker<'_>) -> bool {
    let one = match rows.table() {
        "innodb_table_stats" => table_row,
        "innodb_index_stats" => index_rows,
        _ => return false,
    };
    for table in real_tables(view, Wanted::default()) {
        // Of a table that cannot be read nothing is known.
        if let Ok(count) = table.row_estimate() {
            one(view, rows, &table, count);
        }
    }
    true
}

fn pages(view: &View<'_>, tree: Option<&TreeHandle>) -> u64 {
    tree.map_or(0, |tree| view.served.engine.tree_pages(tree))
}

/// The indexes with trees of their own.
fn others(table: &TableDef) -> impl Iterator<Item = &IndexDef> {
    table.indexes.iter().filter(|index| index.tree_id != table.tree_id)
}

fn table_row(view: &View<'_>, rows: &mut RowMaker<'_>, table: &TableDef, count: u64) {
    let other: u64 = others(table).map(|index| pages(view, index.tree.as_ref())).sum();
    rows.row([
        ("database_name", text(&table.schema)),
        ("table_name", text(&table.name)),
        ("last_update", second(view, table.created * 1_000_000)),
        ("n_rows", number(count)),
        ("clustered_index_size", number(pages(view, table.tree.as_ref()))),
        ("sum_of_other_index_sizes", number(other)),
    ]);
}

fn index_rows(view: &View<'_>, rows: &mut RowMaker<'_>, table: &TableDef, count: u64) {
    if table.clustered.is_none() {
        let rows_of = [(vec!["DB_ROW_ID"], count)];
        one_index(view, rows, table, ("GEN_CLUST_INDEX", table.tree.as_ref()), &rows_of);
    }
    for index in &table.indexes {
        let Ok(per_value) = table.rows_per_value(index, count as f64) else { continue };
        let mut names: Vec<&str> = Vec::new();
        let mut prefixes = Vec::new();
        for (place, part) in index.parts.iter().enumerate() {
            names.push(&table.columns[part.column].name);
            prefixes.push((names.clone(), distinct(count, per_value.get(place).copied())));
        }
        if !index.is_unique() {
            match table.clustered_index() {
                Some(clustered) => {
                    for part in &clustered.parts {
                        let name: &str = &table.columns[part.column].name;
                        if names.contains(&name) {
                            continue;
                        }
                        names.push(name);
                        prefixes.push((names.clone(), count));
                    }
                }
                None => {
                    names.push("DB_ROW_ID");
                    prefixes.push((names, count));
                }
            }
        }
        one_index(view, rows, table, (&index.name, index.tree.as_ref()), &prefixes);
    }
}

/// The rows of an index; `prefixes` are the columns that begin it, and how many different values they have.
fn one_index(
    view: &View<'_>,
    rows: &mut RowMaker<'_>,
    table: &TableDef,
    (index, tree): (&str, Option<&TreeHandle>),
    prefixes: &[(Vec<&str>, u64)],
) {
    let size = pages(view, tree);
    let mut add = |name: String, value: u64, sample: Value, what: String| {
        rows.row([
            ("database_name", text(&table.schema)),
            ("table_name", text(&table.name)),
            ("index_name", text(index)),
            ("last_update", second(view, table.created * 1_000_000)),
            ("stat_name", text(name)),
            ("stat_value", number(value)),
            ("sample_size", sample),
            ("stat_description", text(what)),
        ]);
    };
    for (place, (columns, values)) in prefixes.iter().enumerate() {
        add(format!("n_diff_pfx{:02}", place + 1), *values, number(1), columns.join(","));
    }
    let leaves = size.saturating_sub(u64::from(size > 1));
    add("n_leaf_pages".into(), leaves, Value::Null, "Number of leaf pages in the index".into());
    add("size".into(), size, Value::Null, "Number of pages in the index".into());
}
