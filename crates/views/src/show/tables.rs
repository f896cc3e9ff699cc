//! SHOW TABLES, COLUMNS, INDEX, CREATE TABLE, TABLE STATUS; DESCRIBE; COM_FIELD_LIST.

use std::sync::Arc;

use keel_base::{Level, SqlError, SqlResult, Warning, code, errors};
use keel_catalog::account::Privileges;
use keel_catalog::layout::Layout;
use keel_catalog::{ColumnDef, ColumnDefault, TableDef, View as CatalogView, show_create};
use keel_exec::ColumnMeta;
use keel_expr::rights as see;
use keel_expr::rights::Denied;
use keel_sql::ast::ObjectName;
use keel_value::temporal::Zone;
use keel_value::types::flags;
use keel_value::{CollationId, Value, collation};

use super::{Caller, Plain, Rows, database_of, system as system_tables, varchar};
use crate::schema::{self, View, Wanted, maybe, objects, system, text};

/// Columns of SHOW TRIGGERS.
pub const TRIGGERS: &[(&str, &str)] = &[
    ("Trigger", "TRIGGER_NAME"),
    ("Event", "EVENT_MANIPULATION"),
    ("Table", "EVENT_OBJECT_TABLE"),
    ("Statement", "ACTION_STATEMENT"),
    ("Timing", "ACTION_TIMING"),
    ("Created", "CREATED"),
    ("sql_mode", "SQL_MODE"),
    ("Definer", "DEFINER"),
    ("character_set_client", "CHARACTER_SET_CLIENT"),
    ("collation_connection", "COLLATION_CONNECTION"),
    ("Database Collation", "DATABASE_COLLATION"),
];

/// Columns of SHOW EVENTS.
pub const EVENTS: &[(&str, &str)] = &[
    ("Db", "EVENT_SCHEMA"),
    ("Name", "EVENT_NAME"),
    ("Definer", "DEFINER"),
    ("Time zone", "TIME_ZONE"),
    ("Type", "EVENT_TYPE"),
    ("Execute at", "EXECUTE_AT"),
    ("Interval value", "INTERVAL_VALUE"),
    ("Interval field", "INTERVAL_FIELD"),
    ("Starts", "STARTS"),
    ("Ends", "ENDS"),
    ("Status", "STATUS"),
    ("Originator", "ORIGINATOR"),
    ("character_set_client", "CHARACTER_SET_CLIENT"),
    ("collation_connection", "COLLATION_CONNECTION"),
    ("Database Collation", "DATABASE_COLLATION"),
];

/// Columns of SHOW PROCEDURE STATUS and SHOW FUNCTION STATUS.
pub const ROUTINES: &[(&str, &str)] = &[
    ("Db", "ROUTINE_SCHEMA"),
    ("Name", "ROUTINE_NAME"),
    ("Type", "ROUTINE_TYPE"),
    ("Definer", "DEFINER"),
    ("Modified", "LAST_ALTERED"),
    ("Created", "CREATED"),
    ("Security_type", "SECURITY_TYPE"),
    ("Comment", "ROUTINE_COMMENT"),
    ("character_set_client", "CHARACTER_SET_CLIENT"),
    ("collation_connection", "COLLATION_CONNECTION"),
    ("Database Collation", "DATABASE_COLLATION"),
];

/// Columns of SHOW OPEN TABLES.
pub const OPEN_TABLES: &[(&str, &str)] =
    &[("Database", "Database"), ("Table", "Table"), ("In_use", "In_use"), ("Name_locked", "Name_locked")];

const TABLE_STATUS: &[(&str, &str)] = &[
    ("Name", "TABLE_NAME"),
    ("Engine", "ENGINE"),
    ("Version", "VERSION"),
    ("Row_format", "ROW_FORMAT"),
    ("Rows", "TABLE_ROWS"),
    ("Avg_row_length", "AVG_ROW_LENGTH"),
    ("Data_length", "DATA_LENGTH"),
    ("Max_data_length", "MAX_DATA_LENGTH"),
    ("Index_length", "INDEX_LENGTH"),
    ("Data_free", "DATA_FREE"),
    ("Auto_increment", "AUTO_INCREMENT"),
    ("Create_time", "CREATE_TIME"),
    ("Update_time", "UPDATE_TIME"),
    ("Check_time", "CHECK_TIME"),
    ("Collation", "TABLE_COLLATION"),
    ("Checksum", "CHECKSUM"),
    ("Create_options", "CREATE_OPTIONS"),
    ("Comment", "TABLE_COMMENT"),
    ("Max_index_length", "MAX_INDEX_LENGTH"),
    ("Temporary", "TEMPORARY"),
];

const COLUMNS: &[(&str, &str)] = &[
    ("Field", "COLUMN_NAME"),
    ("Type", "COLUMN_TYPE"),
    ("Null", "IS_NULLABLE"),
    ("Key", "COLUMN_KEY"),
    ("Default", "COLUMN_DEFAULT"),
    ("Extra", "EXTRA"),
];

const FULL_COLUMNS: &[(&str, &str)] = &[
    ("Field", "COLUMN_NAME"),
    ("Type", "COLUMN_TYPE"),
    ("Collation", "COLLATION_NAME"),
    ("Null", "IS_NULLABLE"),
    ("Key", "COLUMN_KEY"),
    ("Default", "COLUMN_DEFAULT"),
    ("Extra", "EXTRA"),
    ("Privileges", "PRIVILEGES"),
    ("Comment", "COLUMN_COMMENT"),
];

const INDEXES: &[(&str, &str)] = &[
    ("Table", "TABLE_NAME"),
    ("Non_unique", "NON_UNIQUE"),
    ("Key_name", "INDEX_NAME"),
    ("Seq_in_index", "SEQ_IN_INDEX"),
    ("Column_name", "COLUMN_NAME"),
    ("Collation", "COLLATION"),
    ("Cardinality", "CARDINALITY"),
    ("Sub_part", "SUB_PART"),
    ("Packed", "PACKED"),
    ("Null", "NULLABLE"),
    ("Index_type", "INDEX_TYPE"),
    ("Comment", "COMMENT"),
    ("Index_comment", "INDEX_COMMENT"),
    ("Ignored", "IGNORED"),
];

/// Refuses databases that do not exist, as SHOW ... FROM does.
pub fn check_database(caller: &Caller<'_>, named: Option<&str>) -> SqlResult<String> {
    let name = database_of(caller, named)?;
    // Any global privilege but GRANT OPTION lets lists be asked for; they may be empty.
    if caller.session.access.global.without(Privileges::GRANT).is_none() {
        see::require_database(
            caller.session,
            &caller.served.database().catalog().accounts,
            &name,
            Denied::Account,
        )?;
    }
    if let Some(known) = schema::SCHEMAS.iter().find(|s| s.eq_ignore_ascii_case(&name)) {
        return Ok(known.to_string());
    }
    caller.served.database().catalog().require_schema(&name)?;
    Ok(name)
}

/// Characters that SHOW TABLES announces for a name.
const TABLE_NAME_CHARS: u32 = 73;

/// SHOW TABLES.
pub fn tables(caller: &Caller<'_>, db: Option<&str>, full: bool) -> SqlResult<Rows> {
    let db = check_database(caller, db)?;
    let wanted = Wanted { schema: Some(&db), ..Wanted::default() };
    let title = format!("Tables_in_{db}");
    let all = [(title.as_str(), "TABLE_NAME"), ("Table_type", "TABLE_TYPE")];
    let columns = if full { &all[..] } else { &all[..1] };
    let mut rows = Rows::of_table(caller, schema::table("TABLES"), wanted, columns)?;
    rows.rows.sort_by(|a, b| bytes_of(&a[0]).cmp(bytes_of(&b[0])));
    let mut metas = rows.columns.columns.clone();
    for meta in &mut metas {
        meta.table = "TABLE_NAMES".into();
        meta.org_table = "TABLE_NAMES".into();
    }
    metas[0].ty.length = TABLE_NAME_CHARS;
    Ok(Rows { columns: keel_exec::ResultColumns::new(metas), rows: rows.rows })
}

fn bytes_of(value: &Value) -> &[u8] {
    match value {
        Value::Bytes(bytes) => bytes,
        _ => b"",
    }
}

/// Warns of the broken views that SHOW TABLE STATUS shows: their comment is the error.
pub fn warn_of_broken_views(caller: &mut Caller<'_>, rows: &Rows) {
    const ENGINE: usize = 1;
    const COMMENT: usize = 17;
    for row in rows.rows.iter().filter(|row| row[ENGINE].is_null()) {
        let Value::Bytes(comment) = &row[COMMENT] else { continue };
        if **comment != *b"VIEW" {
            let message = String::from_utf8_lossy(comment).into_owned().into();
            caller.session.push_warning(Warning { level: Level::Warning, code: code::VIEW_INVALID, message });
        }
    }
}

/// SHOW TABLE STATUS.
pub fn table_status(caller: &Caller<'_>, db: Option<&str>) -> SqlResult<Rows> {
    let db = check_database(caller, db)?;
    let wanted = Wanted { schema: Some(&db), ..Wanted::default() };
    Rows::of_table(caller, schema::table("TABLES"), wanted, TABLE_STATUS)
}

/// The command of error 1142 for statements about the columns of a table.
const SELECT: &str = "SELECT";
/// The command of error 1142 for statements about the definition; privileges on single columns do not suffice.
const SHOW: &str = "SHOW";

/// The table of a name, or 1146; 1142 to who may not see it.
fn find(caller: &Caller<'_>, name: &ObjectName, command: &str) -> SqlResult<Arc<TableDef>> {
    caller.session.refuse_in_closed_branch()?;
    let db = database_of(caller, name.db.as_deref())?;
    let accounts = caller.served.database().catalog().accounts.clone();
    let may = match command {
        SELECT => see::lists_columns(caller.session, &accounts, &db, &name.name),
        _ => see::on_whole_table(caller.session, &accounts, &db, &name.name).has_any(Privileges::SEES_TABLE),
    };
    let own = caller.session.has_temporary(&db, &name.name);
    if !own && !may {
        return Err(see::denied_command(caller.session, command, &db, &name.name));
    }
    let view = View { served: caller.served, session: caller.session };
    if let Some(found) = objects::find_table(&view, &db, &name.name)? {
        if command == SHOW {
            caller.session.refuse_unlocked_table(&found)?;
        }
        return Ok(found);
    }
    if command == SHOW {
        caller.session.refuse_unlocked(&name.name)?;
    }
    if db.eq_ignore_ascii_case("information_schema") {
        return Err(errors::unknown_table(&name.name, db));
    }
    Err(errors::no_such_table(db, &name.name))
}

/// What concerns one table, which may be a temporary one.
fn wanted_of(table: &Arc<TableDef>) -> Wanted<'_> {
    let own = Some(table).filter(|table| table.is_temporary());
    Wanted { schema: Some(&table.schema), table: Some(&table.name), own, read: None }
}

/// SHOW COLUMNS.
pub fn columns(caller: &Caller<'_>, name: &ObjectName, full: bool) -> SqlResult<Rows> {
    let table = find(caller, name, SELECT)?;
    let wanted = wanted_of(&table);
    let columns = if full { FULL_COLUMNS } else { COLUMNS };
    let mut rows = Rows::of_table(caller, schema::table("COLUMNS"), wanted, columns)?;
    let zone = &*caller.session.vars.time_zone;
    let default = columns.iter().position(|(name, _)| *name == "Default").unwrap_or(0);
    for row in &mut rows.rows {
        let named = |column: &&ColumnDef| column.name.as_bytes() == bytes_of(&row[0]);
        let column = table.columns.iter().find(named);
        row[default] = maybe(column.and_then(|column| objects::default_text(column, false, zone)));
    }
    Ok(rows)
}

/// DESCRIBE: SHOW COLUMNS, of one column or those that match.
pub fn describe(caller: &Caller<'_>, name: &ObjectName, column: Option<&str>) -> SqlResult<Rows> {
    let mut rows = columns(caller, name, false)?;
    if let Some(pattern) = column {
        rows.rows.retain(|row| matches(bytes_of(&row[0]), pattern));
    }
    Ok(rows)
}

fn matches(text: &[u8], pattern: &str) -> bool {
    let id = CollationId::UTF8MB3_GENERAL_CI;
    collation::like_match(id, text, pattern.as_bytes(), Some('\\'))
}

/// SHOW INDEX.
pub fn indexes(caller: &Caller<'_>, name: &ObjectName) -> SqlResult<Rows> {
    let table = find(caller, name, SELECT)?;
    let wanted = wanted_of(&table);
    Rows::of_table(caller, schema::table("STATISTICS"), wanted, INDEXES)
}

/// SHOW CREATE TABLE.
pub fn create_table(caller: &Caller<'_>, name: &ObjectName) -> SqlResult<Rows> {
    let numbers = |error: SqlError| {
        let db = database_of(caller, name.db.as_deref())?;
        let series = Some(()).filter(|()| error.code == code::NO_SUCH_TABLE);
        let mut table = series.and_then(|()| keel_catalog::series::table(&db, &name.name)).ok_or(error)?;
        if let Some(home) = caller.served.database().catalog().schema(&db) {
            table.options.collation = home.collation;
        }
        Ok(Arc::new(table))
    };
    let table = find(caller, name, SHOW).or_else(numbers)?;
    let layout = Layout::of(&caller.session.vars);
    let own = system::of(&table).filter(|_| table.is_virtual());
    if let Some(view) = own.filter(|own| own.is_view) {
        return system_tables::create_view(view);
    }
    if table.is_virtual() && !table.is_series() {
        let sql = system_tables::create_table(&table, own, layout);
        let columns = vec![Plain("Table", varchar(64), false), Plain("Create Table", varchar(1024), false)];
        return Ok(Rows::plain(columns, vec![vec![text(&table.name), text(sql)]]));
    }
    let sql = match table.is_series() {
        true => show_create::table_as(&table, 0, layout, &*caller.session.vars.time_zone),
        false => {
            caller.served.database().show_create_table_as(&table, layout, &*caller.session.vars.time_zone)
        }
    };
    let columns = vec![Plain("Table", varchar(64), false), Plain("Create Table", varchar(1024), false)];
    Ok(Rows::plain(columns, vec![vec![text(&table.name), text(sql)]]))
}

/// SHOW CREATE SEQUENCE.
pub fn create_sequence(caller: &Caller<'_>, name: &ObjectName) -> SqlResult<Rows> {
    let not = || -> SqlResult<Rows> {
        Err(errors::not_sequence(database_of(caller, name.db.as_deref())?, &name.name))
    };
    if view_of(caller, name).is_some() {
        return not();
    }
    let table = find(caller, name, SHOW)?;
    if !table.is_sequence() {
        return not();
    }
    let values = keel_exec::sequence::values(caller.session, &table)?;
    let layout = Layout::of(&caller.session.vars);
    let sql = show_create::sequence(&table, &values, layout);
    let columns = vec![Plain("Table", varchar(64), false), Plain("Create Table", varchar(1024), false)];
    Ok(Rows::plain(columns, vec![vec![text(&table.name), text(sql)]]))
}

/// SHOW CREATE DATABASE.
pub fn create_database(caller: &Caller<'_>, name: &str, if_not_exists: bool) -> SqlResult<Rows> {
    let catalog = caller.served.database().catalog();
    see::require_database(caller.session, &catalog.accounts, name, Denied::Client)?;
    let name = check_database(caller, Some(name))?;
    let found = catalog.schema(&name);
    let collation = found.map_or(CollationId::UTF8MB3_GENERAL_CI, |s| s.collation);
    let comment = found.map_or("", |s| &*s.comment);
    let sql = show_create::schema(&name, collation, comment, if_not_exists);
    let columns = vec![Plain("Database", varchar(64), false), Plain("Create Database", varchar(1024), false)];
    let sql = Layout::of(&caller.session.vars).quoted(&sql).into_owned();
    Ok(Rows::plain(columns, vec![vec![text(name), text(sql)]]))
}

/// The view of a name.
pub fn view_of(caller: &Caller<'_>, name: &ObjectName) -> Option<Arc<CatalogView>> {
    let db = database_of(caller, name.db.as_deref()).ok()?;
    caller.served.database().catalog_of(caller.session).view(&db, &name.name).cloned()
}

/// The view of a name, even where a temporary table has the same name.
fn lasting_view_of(caller: &Caller<'_>, name: &ObjectName) -> Option<Arc<CatalogView>> {
    let db = database_of(caller, name.db.as_deref()).ok()?;
    caller.served.database().catalog().view(&db, &name.name).cloned()
}

/// 1142 of SELECT instead of SHOW.
fn in_words_of_select(caller: &Caller<'_>, name: &ObjectName, error: SqlError) -> SqlError {
    match (error.code, database_of(caller, name.db.as_deref())) {
        (code::TABLEACCESS_DENIED, Ok(db)) => see::denied_command(caller.session, SELECT, &db, &name.name),
        _ => error,
    }
}

/// SHOW CREATE VIEW, and SHOW CREATE TABLE of a view.
pub fn create_view(caller: &mut Caller<'_>, name: &ObjectName, as_table: bool) -> SqlResult<Rows> {
    caller.session.refuse_in_closed_branch()?;
    let Some(view) = lasting_view_of(caller, name) else {
        let table = find(caller, name, SHOW).map_err(|error| in_words_of_select(caller, name, error))?;
        if let Some(view) = system::of(&table).filter(|own| own.is_view && table.is_virtual()) {
            return system_tables::create_view(view);
        }
        return Err(errors::wrong_object(&table.schema, &table.name, "VIEW"));
    };
    caller.session.refuse_unlocked_view(&view)?;
    let accounts = caller.served.database().catalog().accounts.clone();
    let has = see::on_whole_table(caller.session, &accounts, &view.schema, &view.name);
    let denied = match as_table {
        true if !has.has_any(Privileges::SEES_TABLE) => Some(SHOW),
        false if !has.has(Privileges::SELECT) => Some(SELECT),
        _ if !has.has(Privileges::SHOW_VIEW) => Some("SHOW VIEW"),
        _ => None,
    };
    if let Some(command) = denied {
        return Err(see::denied_command(caller.session, command, &view.schema, &view.name));
    }
    let database = caller.served.database().clone();
    let (sql, broken) = database.definer().show_create_view(caller.session, &view)?;
    match broken {
        Some(error) if error.code == code::VIEW_INVALID => caller.session.warn(error),
        Some(error) => caller.session.note(error),
        None => {}
    }
    let columns = vec![
        Plain("View", varchar(64), false),
        Plain("Create View", varchar(1024), false),
        Plain("character_set_client", varchar(32), false),
        Plain("collation_connection", varchar(64), false),
    ];
    let row = vec![
        text(&view.name),
        text(sql),
        text(view.client_collation.charset().name()),
        text(view.connection_collation.name()),
    ];
    Ok(Rows::plain(columns, vec![row]))
}

/// COM_FIELD_LIST: columns that match, with their defaults.
pub fn fields(caller: &Caller<'_>, table: &str, wild: &str) -> SqlResult<Vec<(ColumnMeta, Option<Vec<u8>>)>> {
    let table = find(caller, &ObjectName { db: None, name: table.to_string() }, SELECT)?;
    let found =
        table.columns.iter().enumerate().filter(|(_, c)| wild.is_empty() || matches(c.name.as_bytes(), wild));
    Ok(found
        .map(|(place, column)| {
            let meta = ColumnMeta {
                schema: table.schema.clone(),
                table: table.name.clone(),
                org_table: table.name.clone(),
                name: column.name.clone(),
                org_name: column.name.clone(),
                ty: column.ty.clone(),
                nullable: column.nullable,
                flags: key_flags(&table, place),
                length: None,
                is_plain: false,
            };
            (meta, field_default(column, &*caller.session.vars.time_zone))
        })
        .collect())
}

/// What COM_FIELD_LIST says a column holds where nothing is given: nothing but constants.
fn field_default(column: &ColumnDef, zone: &dyn Zone) -> Option<Vec<u8>> {
    match &column.default {
        ColumnDefault::Value(_) => objects::default_text(column, false, zone).map(String::into_bytes),
        ColumnDefault::None if column.ty.is_numeric() => Some(b"0".to_vec()),
        ColumnDefault::None if column.ty.is_string() && !column.ty.is_blob() => Some(Vec::new()),
        _ => None,
    }
}

fn key_flags(table: &TableDef, column: usize) -> u16 {
    let key = match objects::column_key(table, column) {
        "PRI" => flags::PRI_KEY | flags::PART_KEY,
        "UNI" => flags::UNIQUE_KEY | flags::PART_KEY,
        "MUL" => flags::MULTIPLE_KEY | flags::PART_KEY,
        _ => 0,
    };
    let automatic = if table.columns[column].auto_increment { flags::AUTO_INCREMENT } else { 0 };
    let definition = &table.columns[column];
    let none = definition.default == ColumnDefault::None && !definition.auto_increment;
    key | automatic | if none { flags::NO_DEFAULT_VALUE } else { 0 }
}
