//! SCHEMATA, TABLES, COLUMNS, STATISTICS, and with `constraints` KEY_COLUMN_USAGE, TABLE_CONSTRAINTS, CHECK_CONSTRAINTS and
//! REFERENTIAL_CONSTRAINTS: what is in the catalog.

use std::sync::Arc;

use keel_base::SqlResult;
use keel_catalog::account::Privileges;
use keel_catalog::show_create::OPTION_ORDER;
use keel_catalog::{ColumnDef, ColumnDefault, IndexDef, TableDef};
use keel_expr::rights as see;
use keel_expr::rights::SeenConstraints;
use keel_value::convert::timestamp_to_local;
use keel_value::temporal::Zone;
use keel_value::{DateTime, SqlType, TypeKind, Value};

use super::{
    COLLATION, MYSQL, RowMaker, SCHEMAS, View, Wanted, constraints, maybe, number, system, tables, text,
    views, yes_no,
};

/// The size of a page in bytes.
const PAGE_BYTES: u64 = 16 * 1024;

/// Makes the rows of one of these tables.
pub fn fill(view: &View<'_>, wanted: Wanted<'_>, rows: &mut RowMaker<'_>) {
    if rows.table() == "SCHEMATA" {
        schemata(view, wanted, rows);
        return;
    }
    for table in real_tables(view, wanted) {
        one_table(view, rows, &table);
    }
    for schema in [MYSQL, system::PERFORMANCE, system::SYS] {
        system_tables(view, wanted, rows, schema);
    }
    if wanted.own.is_none() && matches!(rows.table(), "TABLES" | "COLUMNS") {
        views::rows(view, wanted, rows);
    }
    if wanted.takes_schema("information_schema") {
        for table in tables().filter(|t| wanted.table.is_none_or(|name| t.name.eq_ignore_ascii_case(name))) {
            one_table(view, rows, table);
        }
    }
}

/// The server's own tables of a database that users may see.
fn system_tables(view: &View<'_>, wanted: Wanted<'_>, rows: &mut RowMaker<'_>, schema: &str) {
    if !wanted.takes_schema(schema) || wanted.own.is_some() {
        return;
    }
    let catalog = view.served.database().catalog();
    // A real table of that name hides it.
    let is_hidden = |name: &str| catalog.schema(schema).is_some_and(|home| home.has(name));
    for own in system::tables_of(schema).into_iter().flat_map(|tables| tables.values()) {
        let table = &own.table;
        let is_seen = see::lists_table(view.session, &catalog.accounts, schema, &table.name);
        if wanted.takes_table(&table.name) && is_seen && !is_hidden(&table.name) {
            one_table(view, rows, table);
        }
    }
}

/// What TABLES says of one of the server's own tables.
fn system_row(rows: &mut RowMaker<'_>, table: &TableDef, own: &system::SystemTable) {
    rows.row([
        ("TABLE_CATALOG", text("def")),
        ("TABLE_SCHEMA", text(&table.schema)),
        ("TABLE_NAME", text(&table.name)),
        ("TABLE_TYPE", text(if own.is_view { "VIEW" } else { "BASE TABLE" })),
        ("CREATE_OPTIONS", Value::Null),
        ("MAX_INDEX_LENGTH", Value::Null),
        ("TEMPORARY", Value::Null),
        ("TABLE_COMMENT", text(if own.is_view { "VIEW" } else { "" })),
    ]);
    if own.is_view {
        return;
    }
    let (engine, blob) = (own.engine(), table.columns.iter().any(|column| column.ty.is_blob()));
    let format = match engine {
        "Aria" => "Page",
        "PERFORMANCE_SCHEMA" if !blob && !table.columns.iter().any(|c| c.ty.kind == TypeKind::VarChar) => {
            "Fixed"
        }
        _ => "Dynamic",
    };
    for (name, value) in [
        ("ENGINE", text(engine)),
        ("VERSION", number(10)),
        ("ROW_FORMAT", text(format)),
        ("TABLE_ROWS", number(0)),
        ("AVG_ROW_LENGTH", number(0)),
        ("DATA_LENGTH", number(0)),
        ("MAX_DATA_LENGTH", number(0)),
        ("INDEX_LENGTH", number(0)),
        ("DATA_FREE", number(0)),
        ("TABLE_COLLATION", text(table.options.collation.name())),
        ("CREATE_OPTIONS", text("")),
        ("MAX_INDEX_LENGTH", number(0)),
        ("TEMPORARY", text("N")),
    ] {
        rows.also(name, value);
    }
}

/// Tables of the catalog, in order of database and name.
pub fn real_tables(view: &View<'_>, wanted: Wanted<'_>) -> Vec<Arc<TableDef>> {
    if let Some(own) = wanted.own {
        return vec![own.clone()];
    }
    let catalog = view.served.database().catalog();
    let mut found = Vec::new();
    for schema in catalog.schemas().filter(|s| wanted.takes_schema(&s.name)) {
        match wanted.table {
            Some(name) => found.extend(schema.table(name).cloned()),
            None => found.extend(schema.tables().into_iter().cloned()),
        }
    }
    if !view.session.access.global.has_any(Privileges::SEES_TABLE) {
        found.retain(|table| {
            table.is_temporary()
                || see::lists_table(view.session, &catalog.accounts, &table.schema, &table.name)
        });
    }
    found
}

fn one_table(view: &View<'_>, rows: &mut RowMaker<'_>, table: &Arc<TableDef>) {
    match rows.table() {
        "TABLES" => table_row(view, rows, table),
        "PARTITIONS" => unparted_row(view, rows, table),
        "COLUMNS" => {
            let catalog = view.served.database().catalog();
            let name = (&*table.schema, &*table.name);
            for (position, column) in table.columns.iter().enumerate() {
                let own = match table.is_temporary() {
                    true => Privileges::OF_COLUMN,
                    false => see::on_column(view.session, &catalog.accounts, name, &column.name),
                };
                if !own.is_none() {
                    column_row(rows, table, position, column, (own, &*view.session.vars.time_zone));
                }
            }
        }
        "STATISTICS" => {
            let row_count = table.row_estimate().ok();
            let sees = |column: &str| sees_column(view, table, column);
            table.indexes.iter().for_each(|index| index_rows(rows, table, index, row_count, &sees));
        }
        _ => {
            let catalog = view.served.database().catalog();
            let seen = match table.is_temporary() {
                true => SeenConstraints::ALL,
                false => SeenConstraints::of(view.session, &catalog.accounts, &table.schema, &table.name),
            };
            constraints::seen_rows(view, rows, table, seen);
        }
    }
}

/// Whether the session sees a column of a table in its indexes and keys.
pub fn sees_column(view: &View<'_>, table: &TableDef, column: &str) -> bool {
    let catalog = view.served.database().catalog();
    let place = (&*table.schema, &*table.name);
    table.is_temporary() || see::sees_column(view.session, &catalog.accounts, place, column)
}

fn schemata(view: &View<'_>, wanted: Wanted<'_>, rows: &mut RowMaker<'_>) {
    let catalog = view.served.database().catalog();
    let mut all: Vec<(String, keel_value::CollationId, String)> =
        catalog.schemas().map(|s| (s.name.to_string(), s.collation, s.comment.to_string())).collect();
    all.extend(SCHEMAS.iter().map(|name| (name.to_string(), COLLATION, String::new())));
    all.sort();
    all.retain(|(name, ..)| see::lists_database(view.session, &catalog.accounts, name));
    for (name, collation, comment) in all.iter().filter(|(name, ..)| wanted.takes_schema(name)) {
        rows.row([
            ("CATALOG_NAME", text("def")),
            ("SCHEMA_NAME", text(name)),
            ("DEFAULT_CHARACTER_SET_NAME", text(collation.charset().name())),
            ("DEFAULT_COLLATION_NAME", text(collation.name())),
            ("SCHEMA_COMMENT", text(comment)),
        ]);
    }
}

/// The row of a table that has no partitions.
fn unparted_row(view: &View<'_>, rows: &mut RowMaker<'_>, table: &TableDef) {
    let names = [
        ("TABLE_CATALOG", text("def")),
        ("TABLE_SCHEMA", text(&table.schema)),
        ("TABLE_NAME", text(&table.name)),
    ];
    if table.is_virtual() {
        rows.row(names);
        return;
    }
    let sizes = Sizes::of(view, table);
    let row_count = sizes.rows.as_ref().ok().copied();
    let [catalog, schema, name] = names;
    rows.row([
        catalog,
        schema,
        name,
        ("TABLE_ROWS", row_count.map_or(Value::Null, number)),
        ("AVG_ROW_LENGTH", row_count.map_or(Value::Null, |count| mean(sizes.data, count))),
        ("DATA_LENGTH", number(sizes.data)),
        ("INDEX_LENGTH", number(sizes.indexes)),
        ("DATA_FREE", number(0)),
        ("CREATE_TIME", created(view, table)),
    ]);
}

/// The average length of a row in bytes.
fn mean(bytes: u64, rows: u64) -> Value {
    number(bytes.checked_div(rows).unwrap_or(0))
}

/// The estimated number of rows and the size of a table in bytes.
struct Sizes {
    /// The error of a table that cannot be read: its row tells it, the others are as good as ever.
    rows: SqlResult<u64>,
    data: u64,
    indexes: u64,
}

impl Sizes {
    fn of(view: &View<'_>, table: &TableDef) -> Sizes {
        let bytes = |tree: &Option<keel_storage::TreeHandle>| {
            tree.as_ref().map_or(0, |t| view.served.engine.tree_pages(t) * PAGE_BYTES)
        };
        let others = table.indexes.iter().filter(|i| i.tree_id != table.tree_id);
        let indexes = others.map(|i| bytes(&i.tree)).sum();
        Sizes { rows: table.row_estimate(), data: bytes(&table.tree), indexes }
    }
}

fn created(view: &View<'_>, table: &TableDef) -> Value {
    let created = DateTime::from_unix(table.created, 0);
    Value::DateTime(timestamp_to_local(created, &*view.session.vars.time_zone))
}

fn table_row(view: &View<'_>, rows: &mut RowMaker<'_>, table: &TableDef) {
    if let Some(own) = system::of(table).filter(|_| table.is_virtual()) {
        return system_row(rows, table, own);
    }
    if table.is_virtual() {
        rows.row([
            ("TABLE_CATALOG", text("def")),
            ("TABLE_SCHEMA", text(&table.schema)),
            ("TABLE_NAME", text(&table.name)),
            ("TABLE_TYPE", text("SYSTEM VIEW")),
            ("ENGINE", text("MEMORY")),
            ("VERSION", number(11)),
            ("ROW_FORMAT", text("Fixed")),
            ("TABLE_COLLATION", text(COLLATION.name())),
            ("CREATE_OPTIONS", text("")),
            ("TEMPORARY", text("Y")),
        ]);
        return;
    }
    let Sizes { rows: row_count, data, indexes } = Sizes::of(view, table);
    // As MariaDB shows a table that it cannot open.
    let (row_count, comment) = match row_count {
        Ok(count) => (Some(count), text(&table.options.comment)),
        Err(error) => (None, text(&error.message)),
    };
    rows.row([
        ("TABLE_CATALOG", text("def")),
        ("TABLE_SCHEMA", text(&table.schema)),
        ("TABLE_NAME", text(&table.name)),
        ("TABLE_TYPE", text(if table.is_sequence() { "SEQUENCE" } else { "BASE TABLE" })),
        ("ENGINE", text("InnoDB")),
        ("VERSION", number(10)),
        ("ROW_FORMAT", text(row_format(table))),
        ("TABLE_ROWS", row_count.map_or(Value::Null, number)),
        ("AVG_ROW_LENGTH", row_count.map_or(Value::Null, |count| mean(data, count))),
        ("DATA_LENGTH", number(data)),
        ("MAX_DATA_LENGTH", number(0)),
        ("INDEX_LENGTH", number(indexes)),
        ("DATA_FREE", number(0)),
        ("AUTO_INCREMENT", auto_increment(view, table)),
        ("CREATE_TIME", created(view, table)),
        ("TABLE_COLLATION", text(table.options.collation.name())),
        ("CREATE_OPTIONS", text(create_options(table))),
        ("TABLE_COMMENT", comment),
        ("MAX_INDEX_LENGTH", number(0)),
        ("TEMPORARY", text("N")),
    ]);
}

fn row_format(table: &TableDef) -> String {
    if table.is_sequence() {
        return "Fixed".into();
    }
    let Some(format) = &table.options.row_format else {
        return if table.options.key_block_size().is_some() { "Compressed" } else { "Dynamic" }.into();
    };
    let mut name = format.to_ascii_lowercase();
    if let Some(first) = name.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    name
}

fn create_options(table: &TableDef) -> String {
    let others = &table.options.others;
    let named = |name: &'static str| others.iter().filter(move |(other, _)| other == name);
    let ordered = OPTION_ORDER.into_iter().flat_map(named);
    let shown = ordered.map(|(name, value)| format!("{}={value}", name.to_lowercase()));
    let format = table.options.row_format.iter().map(|f| format!("row_format={f}"));
    let rest = ["TRANSACTIONAL", "KEY_BLOCK_SIZE"].into_iter().flat_map(named);
    let rest = rest.map(|(name, value)| format!("{}={value}", name.to_lowercase()));
    let engine = table
        .options
        .engine_options()
        .map(|(name, value)| format!("`{}`='{}'", name.replace('`', "``"), value.replace('\'', "''")));
    shown.chain(format).chain(rest).chain(engine).collect::<Vec<_>>().join(" ")
}

fn auto_increment(view: &View<'_>, table: &TableDef) -> Value {
    let Some(auto) = table.auto_increment else { return Value::Null };
    match table.indexes[auto.index].tree {
        Some(_) => number(view.served.database().next_auto_increment(table)),
        None => Value::Null,
    }
}

/// `PRI`, `UNI`, `MUL` or nothing, as MariaDB marks columns.
pub fn column_key(table: &TableDef, column: usize) -> &'static str {
    let leads = |index: &IndexDef| index.parts.first().is_some_and(|part| part.column == column);
    let has = |index: &IndexDef| index.parts.iter().any(|part| part.column == column);
    if table.clustered_index().is_some_and(has) {
        return "PRI";
    }
    if table.indexes.iter().any(|i| i.is_unique() && i.parts.len() == 1 && leads(i)) {
        return "UNI";
    }
    if table.indexes.iter().any(leads) { "MUL" } else { "" }
}

/// The DEFAULT of a column: as SQL (`'x'`, `NULL`) or plain, where SHOW COLUMNS prints it.
pub fn default_text(column: &ColumnDef, as_sql: bool, zone: &dyn Zone) -> Option<String> {
    match &column.default {
        ColumnDefault::None => None,
        ColumnDefault::Value(Value::Null) => as_sql.then(|| "NULL".to_string()),
        ColumnDefault::Value(Value::DateTime(utc)) if column.ty.kind == TypeKind::Timestamp => {
            Some(value_text(&column.ty, &Value::DateTime(timestamp_to_local(*utc, zone)), as_sql))
        }
        ColumnDefault::Value(value) => Some(value_text(&column.ty, value, as_sql)),
        ColumnDefault::Now => Some(now_text(&column.ty)),
        ColumnDefault::Expression(sql) => Some(sql.clone()),
    }
}

fn now_text(ty: &SqlType) -> String {
    if ty.decimals > 0 { format!("current_timestamp({})", ty.decimals) } else { "current_timestamp()".into() }
}

fn value_text(ty: &SqlType, value: &Value, as_sql: bool) -> String {
    if let (TypeKind::Bit, Value::UInt(bits)) = (ty.kind, value) {
        return format!("b'{bits:b}'");
    }
    let mut out = Vec::new();
    keel_value::text::append(&mut out, ty, value.as_ref());
    let from = if ty.is_string() { ty.collation.charset() } else { keel_value::collation::Charset::Utf8mb4 };
    let to = keel_value::collation::Charset::Utf8mb4;
    let (utf8, _) = keel_value::collation::convert(from, to, &out);
    let plain = String::from_utf8_lossy(&utf8).into_owned();
    // Defaults of TEXT and BLOB are expressions to MariaDB, and printed as such.
    if (as_sql || ty.is_blob()) && !ty.is_numeric() {
        return format!("'{}'", plain.replace('\\', "\\\\").replace('\'', "''"));
    }
    plain
}

/// What SHOW COLUMNS prints under Extra.
pub fn extra(column: &ColumnDef) -> String {
    let mut words = Vec::new();
    if let Some(generated) = &column.generated {
        words.push(if generated.stored { "STORED GENERATED" } else { "VIRTUAL GENERATED" }.to_string());
    }
    if column.auto_increment {
        words.push("auto_increment".to_string());
    }
    if column.on_update_now {
        words.push(format!("on update {}", now_text(&column.ty)));
    }
    if column.invisible {
        words.push("INVISIBLE".to_string());
    }
    words.join(", ")
}

pub(super) fn column_row(
    rows: &mut RowMaker<'_>,
    table: &TableDef,
    position: usize,
    column: &ColumnDef,
    (own, zone): (Privileges, &dyn Zone),
) {
    let ty = &column.ty;
    let name = ty.sql_name();
    let data_type = name.split(['(', ' ']).next().unwrap_or(&name).to_string();
    let is_text = ty.is_text();
    let has_length = ty.is_string() || ty.has_members();
    // MariaDB reports a shorter length here than the column can store.
    let is_long = table.is_virtual() && ty.kind == TypeKind::LongText;
    let characters = match () {
        () if is_long => u64::from(u32::MAX),
        () if ty.has_members() => u64::from(ty.display_length()),
        () => u64::from(ty.length),
    };
    let octets = if is_long { characters } else { ty.max_octets() };
    let (precision, scale) = numeric(ty);
    rows.row([
        ("TABLE_CATALOG", text("def")),
        ("TABLE_SCHEMA", text(&table.schema)),
        ("TABLE_NAME", text(&table.name)),
        ("COLUMN_NAME", text(&column.name)),
        ("ORDINAL_POSITION", number(position as u64 + 1)),
        ("COLUMN_DEFAULT", maybe(default_text(column, true, zone))),
        ("IS_NULLABLE", yes_no(column.nullable)),
        ("DATA_TYPE", text(data_type)),
        ("CHARACTER_MAXIMUM_LENGTH", if has_length { number(characters) } else { Value::Null }),
        ("CHARACTER_OCTET_LENGTH", if has_length { number(octets) } else { Value::Null }),
        ("NUMERIC_PRECISION", precision.map_or(Value::Null, number)),
        ("NUMERIC_SCALE", scale.map_or(Value::Null, number)),
        ("DATETIME_PRECISION", fraction(ty)),
        ("CHARACTER_SET_NAME", maybe(is_text.then(|| ty.collation.charset().name()))),
        ("COLLATION_NAME", maybe(is_text.then(|| ty.collation.name()))),
        ("COLUMN_TYPE", text(&name)),
        ("COLUMN_KEY", text(column_key(table, position))),
        ("EXTRA", text(extra(column))),
        ("PRIVILEGES", text(own.names().map(str::to_lowercase).collect::<Vec<_>>().join(","))),
        ("COLUMN_COMMENT", text(&column.comment)),
        ("IS_GENERATED", text(if column.generated.is_some() { "ALWAYS" } else { "NEVER" })),
        ("GENERATION_EXPRESSION", maybe(column.generated.as_ref().map(|g| g.expression.as_str()))),
    ]);
}

fn numeric(ty: &SqlType) -> (Option<u64>, Option<u64>) {
    let whole = |digits| (Some(digits), Some(0));
    match ty.kind {
        TypeKind::TinyInt => whole(3),
        TypeKind::SmallInt => whole(5),
        TypeKind::MediumInt => whole(if ty.unsigned { 8 } else { 7 }),
        TypeKind::Int => whole(10),
        TypeKind::BigInt => whole(if ty.unsigned { 20 } else { 19 }),
        TypeKind::Decimal => (Some(u64::from(ty.length)), Some(u64::from(ty.decimals))),
        TypeKind::Float | TypeKind::Double => {
            let scale = (ty.decimals != keel_value::types::NOT_FIXED).then(|| u64::from(ty.decimals));
            (Some(u64::from(ty.length)), scale)
        }
        TypeKind::Bit => (Some(u64::from(ty.length)), None),
        _ => (None, None),
    }
}

fn fraction(ty: &SqlType) -> Value {
    match ty.kind {
        TypeKind::Time | TypeKind::DateTime | TypeKind::Timestamp => number(u64::from(ty.decimals)),
        _ => Value::Null,
    }
}

/// Different values among so many rows, where each is shared by `per_value` of them.
pub(super) fn distinct(rows: u64, per_value: Option<f64>) -> u64 {
    let values = rows as f64 / per_value.unwrap_or(1.0);
    (values.round() as u64).max(u64::from(rows > 0))
}

/// Without the rows of a table that cannot be read there is no cardinality either.
fn index_rows(
    rows: &mut RowMaker<'_>,
    table: &TableDef,
    index: &IndexDef,
    row_count: Option<u64>,
    sees: &dyn Fn(&str) -> bool,
) {
    let per_value = |rows: u64| match table.is_virtual() {
        true => Some((rows, Vec::new())),
        false => table.rows_per_value(index, rows as f64).ok().map(|per_value| (rows, per_value)),
    };
    let known = row_count.and_then(per_value);
    let cardinality = |sequence: usize| match &known {
        Some((rows, per_value)) => number(distinct(*rows, per_value.get(sequence).copied())),
        None => Value::Null,
    };
    for (sequence, part) in index.parts.iter().enumerate() {
        let column = &table.columns[part.column];
        if !sees(&column.name) {
            continue;
        }
        rows.row([
            ("TABLE_CATALOG", text("def")),
            ("TABLE_SCHEMA", text(&table.schema)),
            ("TABLE_NAME", text(&table.name)),
            ("NON_UNIQUE", number(u64::from(!index.is_unique()))),
            ("INDEX_SCHEMA", text(&table.schema)),
            ("INDEX_NAME", text(&index.name)),
            ("SEQ_IN_INDEX", number(sequence as u64 + 1)),
            ("COLUMN_NAME", text(&column.name)),
            ("COLLATION", text(if part.descending { "D" } else { "A" })),
            ("CARDINALITY", if index.hashed { Value::Null } else { cardinality(sequence) }),
            ("SUB_PART", part.prefix.map_or(Value::Null, |n| number(u64::from(n)))),
            ("NULLABLE", text(if column.nullable { "YES" } else { "" })),
            // Other indexes that were made USING HASH are trees too.
            ("INDEX_TYPE", text(if index.hashed { "HASH" } else { "BTREE" })),
            ("COMMENT", text("")),
            ("INDEX_COMMENT", text(&index.comment)),
            ("IGNORED", text(if index.options.ignored { "YES" } else { "NO" })),
        ]);
    }
}

/// The definition of a table by its names, real or virtual; of a view what its columns are.
pub fn find_table(view: &View<'_>, schema: &str, name: &str) -> SqlResult<Option<Arc<TableDef>>> {
    if let Some(found) = super::find(schema, name) {
        return Ok(Some(found));
    }
    let database = view.served.database();
    let catalog = database.catalog_of(view.session);
    match catalog.view(schema, name) {
        Some(of) => database.definer().describe_view(view.session, of).map(|table| Some(Arc::new(table))),
        None => Ok(catalog.table(schema, name).cloned()),
    }
}
