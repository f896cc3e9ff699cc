//! VIEWS, and what TABLES and COLUMNS say of views.

use std::sync::Arc;

use keel_base::SqlResult;
use keel_catalog::account::Privileges;
use keel_catalog::{CheckOption, View as CatalogView};
use keel_expr::rights as see;
use keel_value::Value;

use super::objects::column_row;
use super::{RowMaker, View, Wanted, text};

/// The views that are wanted, in order of database and name.
fn wanted_views(view: &View<'_>, wanted: Wanted<'_>) -> Vec<Arc<CatalogView>> {
    let catalog = view.served.database().catalog();
    let mut found = Vec::new();
    for schema in catalog.schemas().filter(|schema| wanted.takes_schema(&schema.name)) {
        match wanted.table {
            Some(name) => found.extend(schema.view(name).cloned()),
            None => found.extend(schema.views().into_iter().cloned()),
        }
    }
    found.retain(|of| see::lists_table(view.session, &catalog.accounts, &of.schema, &of.name));
    found
}

/// Columns of TABLES that MariaDB fills without opening a view. Where only these are read, nothing is said of a view that names
/// what is not there.
const KNOWN_UNOPENED: &[&str] = &[
    "TABLE_CATALOG",
    "TABLE_SCHEMA",
    "TABLE_NAME",
    "TABLE_TYPE",
    "ENGINE",
    "TABLE_COLLATION",
    "TABLE_COMMENT",
    "TEMPORARY",
];

/// Rows of TABLES and COLUMNS for views. One that names what is not there has no columns.
pub fn rows(view: &View<'_>, wanted: Wanted<'_>, rows: &mut RowMaker<'_>) {
    let database = view.served.database().clone();
    let catalog = database.catalog();
    let accounts = &*catalog.accounts;
    let opens = rows.reads_any(&wanted, |column| !KNOWN_UNOPENED.contains(&column));
    for of in wanted_views(view, wanted) {
        if rows.table() == "COLUMNS" {
            let Ok(table) = database.definer().describe_view(view.session, &of) else { continue };
            for (position, column) in table.columns.iter().enumerate() {
                let own = see::on_column(view.session, accounts, (&of.schema, &of.name), &column.name);
                if !own.is_none() {
                    column_row(rows, &table, position, column, (own, &*view.session.vars.time_zone));
                }
            }
            continue;
        }
        let error = opens.then(|| database.definer().describe_view(view.session, &of).err()).flatten();
        let comment = error.map_or_else(|| "VIEW".to_string(), |error| error.message.into_owned());
        rows.row([
            ("TABLE_CATALOG", text("def")),
            ("TABLE_SCHEMA", text(&of.schema)),
            ("TABLE_NAME", text(&of.name)),
            ("TABLE_TYPE", text("VIEW")),
            ("TABLE_COMMENT", text(comment)),
        ]);
        for name in ["TEMPORARY", "CREATE_OPTIONS", "MAX_INDEX_LENGTH"] {
            rows.also(name, Value::Null);
        }
    }
}

/// Rows of VIEWS.
pub fn fill(view: &View<'_>, wanted: Wanted<'_>, rows: &mut RowMaker<'_>) -> SqlResult<()> {
    let database = view.served.database().clone();
    for of in wanted_views(view, wanted) {
        let updatable = match database.definer().is_updatable_view(view.session, &of) {
            Some(true) => "YES",
            Some(false) => "NO",
            None => "",
        };
        let catalog = database.catalog();
        let own = see::on_whole_table(view.session, &catalog.accounts, &of.schema, &of.name);
        let access = &view.session.access;
        let is_definer = *of.definer.0 == *access.user && *of.definer.1 == *access.host;
        let shows = is_definer || own.has(Privileges::SHOW_VIEW.and(Privileges::SELECT));
        rows.row([
            ("TABLE_CATALOG", text("def")),
            ("TABLE_SCHEMA", text(&of.schema)),
            ("TABLE_NAME", text(&of.name)),
            ("VIEW_DEFINITION", text(if shows { &*of.text } else { "" })),
            (
                "CHECK_OPTION",
                text(match of.check_option {
                    CheckOption::None => "NONE",
                    option => option.word(),
                }),
            ),
            ("IS_UPDATABLE", text(updatable)),
            ("DEFINER", text(format!("{}@{}", of.definer.0, of.definer.1))),
            ("SECURITY_TYPE", text(if of.invoker { "INVOKER" } else { "DEFINER" })),
            ("CHARACTER_SET_CLIENT", text(of.client_collation.charset().name())),
            ("COLLATION_CONNECTION", text(of.connection_collation.name())),
            ("ALGORITHM", text(of.algorithm.word())),
        ]);
    }
    let catalog = view.served.database().catalog();
    for schema in [super::MYSQL, super::system::SYS].into_iter().filter(|schema| wanted.takes_schema(schema))
    {
        for own in super::system::tables_of(schema).into_iter().flat_map(|tables| tables.values()) {
            let name = &own.table.name;
            let is_seen = see::lists_table(view.session, &catalog.accounts, schema, name);
            if own.is_view && is_seen && wanted.takes_table(name) {
                system_view(rows, own);
            }
        }
    }
    Ok(())
}

/// The row of a built-in view; `sys` has none.
fn system_view(rows: &mut RowMaker<'_>, own: &super::system::SystemTable) {
    let table = &own.table;
    let of_accounts = *table.schema == *super::MYSQL;
    let query = if of_accounts { super::accounts::user_view(table) } else { String::new() };
    rows.row([
        ("TABLE_CATALOG", text("def")),
        ("TABLE_SCHEMA", text(&table.schema)),
        ("TABLE_NAME", text(&table.name)),
        ("VIEW_DEFINITION", text(query)),
        ("CHECK_OPTION", text("NONE")),
        ("IS_UPDATABLE", text("NO")),
        ("DEFINER", text("root@localhost")),
        ("SECURITY_TYPE", text(if of_accounts { "DEFINER" } else { "INVOKER" })),
        ("CHARACTER_SET_CLIENT", text("utf8mb3")),
        ("COLLATION_CONNECTION", text("utf8mb3_general_ci")),
        ("ALGORITHM", text("UNDEFINED")),
    ]);
}
