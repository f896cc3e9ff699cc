//! SHOW CREATE of the server's own tables: what dumps take with them.

use keel_base::{SqlResult, errors};
use keel_catalog::layout::Layout;
use keel_catalog::{TableDef, show_create};

use super::{Plain, Rows, varchar};
use crate::schema::system::SystemTable;
use crate::schema::{accounts, text};

/// The end of a definition that the printer writes.
const ENGINE: &str = "\n) ENGINE=InnoDB";
/// The character set of tables that the server makes up.
const CHARSET: &str = " DEFAULT CHARSET=utf8mb3 COLLATE=utf8mb3_general_ci";

/// The text of a table that the server makes up.
pub fn create_table(table: &TableDef, own: Option<&SystemTable>, layout: Layout) -> String {
    let mut sql = show_create::table_as(table, 0, layout, &keel_value::temporal::Utc);
    if own.is_none() {
        sql = sql.replacen("CREATE TABLE", "CREATE TEMPORARY TABLE", 1);
    }
    let Some(end) = sql.rfind(ENGINE) else { return sql };
    sql.truncate(end);
    sql.push_str("\n) ");
    match own {
        Some(own) if !own.tail.is_empty() => sql.push_str(own.tail),
        Some(own) => sql.push_str(&format!("ENGINE={}{CHARSET}", own.engine())),
        None if table.columns.iter().any(|column| column.ty.is_blob()) => {
            sql.push_str(&format!("ENGINE=Aria{CHARSET} PAGE_CHECKSUM=0"));
        }
        None => sql.push_str(&format!("ENGINE=MEMORY{CHARSET}")),
    }
    sql
}

/// SHOW CREATE VIEW of one of them that is a view in MariaDB.
pub fn create_view(own: &SystemTable) -> SqlResult<Rows> {
    let table = &own.table;
    if *table.schema != *crate::schema::MYSQL {
        return Err(errors::not_supported_yet(format!("SHOW CREATE VIEW of {}", table.schema)));
    }
    let sql = format!(
        "CREATE ALGORITHM=UNDEFINED DEFINER=`root`@`localhost` SQL SECURITY DEFINER VIEW `{}`.`{}` AS {}",
        table.schema,
        table.name,
        accounts::user_view(table)
    );
    let columns = vec![
        Plain("View", varchar(64), false),
        Plain("Create View", varchar(1024), false),
        Plain("character_set_client", varchar(32), false),
        Plain("collation_connection", varchar(64), false),
    ];
    let row = vec![text(&table.name), text(sql), text("utf8mb3"), text("utf8mb3_general_ci")];
    Ok(Rows::plain(columns, vec![row]))
}
