//! The text of SHOW CREATE TABLE, VIEW and DATABASE, byte for byte as MariaDB 10.11 prints it.

use std::borrow::Cow;
use std::fmt::Write;

use keel_value::convert::timestamp_to_local;
use keel_value::temporal::{Utc, Zone};
use keel_value::types::NOT_FIXED;
use keel_value::{CollationId, TypeKind, Value, text};

use super::layout::Layout;
use super::names::{self, push_quoted};
use super::{CheckOption, ColumnDef, ColumnDefault, IndexDef, IndexKind, TableDef, TableOptions, View};

/// Table options before ROW_FORMAT, in the order in which MariaDB prints them.
pub const OPTION_ORDER: [&str; 10] = [
    "MIN_ROWS",
    "MAX_ROWS",
    "AVG_ROW_LENGTH",
    "PACK_KEYS",
    "STATS_PERSISTENT",
    "STATS_AUTO_RECALC",
    "STATS_SAMPLE_PAGES",
    "CHECKSUM",
    "PAGE_CHECKSUM",
    "DELAY_KEY_WRITE",
];

/// SHOW CREATE TABLE as a session wants it, with defaults of TIMESTAMP in the session's time zone. `next_auto` is the next
/// AUTO_INCREMENT value.
pub fn table_as(table: &TableDef, next_auto: u64, layout: Layout, zone: &dyn Zone) -> String {
    layout.quoted(&text_of_table(table, next_auto, layout, zone)).into_owned()
}

/// SHOW CREATE TABLE in full.
pub fn table(table: &TableDef, next_auto: u64) -> String {
    text_of_table(table, next_auto, Layout::FULL, &Utc)
}

fn text_of_table(table: &TableDef, next_auto: u64, layout: Layout, zone: &dyn Zone) -> String {
    let mut out = String::with_capacity(256);
    out.push_str(if table.is_temporary() { "CREATE TEMPORARY TABLE " } else { "CREATE TABLE " });
    push_quoted(&mut out, &table.name);
    out.push_str(" (\n");
    for (i, column) in table.columns.iter().enumerate() {
        if i > 0 {
            out.push_str(",\n");
        }
        push_column(&mut out, &in_zone(column, zone), table.options.collation, layout);
    }
    for index in &table.indexes {
        out.push_str(",\n");
        push_index(&mut out, table, index, layout);
    }
    for key in &table.foreign_keys {
        out.push_str(",\n  ");
        key.push_definition(&table.schema, &mut out);
    }
    for check in &table.checks {
        out.push_str(",\n  CONSTRAINT ");
        push_quoted(&mut out, &check.name);
        push(&mut out, format_args!(" CHECK ({})", check.condition));
    }
    if !layout.table_options {
        out.push_str("\n)");
        return out;
    }
    let engine = if table.series.is_some() { "SEQUENCE" } else { "InnoDB" };
    push(&mut out, format_args!("\n) {}={engine}", layout.engine));
    if next_auto > 1 {
        push(&mut out, format_args!(" AUTO_INCREMENT={next_auto}"));
    }
    if !table.is_sequence() && layout.charsets {
        push_charset(&mut out, " DEFAULT CHARSET=", " COLLATE=", table.options.collation);
    }
    push_options(&mut out, table, layout);
    out
}

/// SHOW CREATE SEQUENCE.
pub fn sequence(table: &TableDef, values: &crate::sequence::Values, layout: Layout) -> String {
    let mut out = String::from("CREATE SEQUENCE ");
    push_quoted(&mut out, &table.name);
    let cache = if values.cache == 0 { "nocache".to_string() } else { format!("cache {}", values.cache) };
    push(
        &mut out,
        format_args!(
            " start with {} minvalue {} maxvalue {} increment by {} {cache} {}",
            values.start,
            values.minimum,
            values.maximum,
            values.increment,
            if values.cycle != 0 { "cycle" } else { "nocycle" },
        ),
    );
    if layout.table_options {
        push(&mut out, format_args!(" {}=InnoDB", layout.engine));
    }
    if layout.table_options && !table.options.comment.is_empty() {
        out.push_str(" COMMENT=");
        push_string(&mut out, table.options.comment.as_bytes());
    }
    layout.quoted(&out).into_owned()
}

/// SHOW CREATE DATABASE, and the same with IF NOT EXISTS.
pub fn schema(name: &str, collation: CollationId, comment: &str, if_not_exists: bool) -> String {
    let mut out = String::from("CREATE DATABASE ");
    if if_not_exists {
        out.push_str("/*!32312 IF NOT EXISTS*/ ");
    }
    push_quoted(&mut out, name);
    push_charset(&mut out, " /*!40100 DEFAULT CHARACTER SET ", " COLLATE ", collation);
    out.push_str(" */");
    if !comment.is_empty() {
        out.push_str(" COMMENT ");
        push_string(&mut out, comment.as_bytes());
    }
    out
}

fn push(out: &mut String, args: std::fmt::Arguments<'_>) {
    out.write_fmt(args).expect("a String takes all text");
}

/// `binary` has one collation, which is not named.
fn push_charset(out: &mut String, charset: &str, collate: &str, collation: CollationId) {
    push(out, format_args!("{charset}{}", collation.charset().name()));
    if collation != CollationId::BINARY {
        push(out, format_args!("{collate}{}", collation.name()));
    }
}

fn push_options(out: &mut String, table: &TableDef, layout: Layout) {
    let others = &table.options.others;
    for name in OPTION_ORDER {
        if let Some((_, value)) = others.iter().find(|(n, _)| n == name) {
            push(out, format_args!(" {name}={value}"));
        }
    }
    if let Some(format) = &table.options.row_format {
        push(out, format_args!(" ROW_FORMAT={format}"));
    }
    for name in ["TRANSACTIONAL", "KEY_BLOCK_SIZE"] {
        if let Some((_, value)) = others.iter().find(|(n, _)| n == name) {
            push(out, format_args!(" {name}={value}"));
        }
    }
    if table.is_sequence() {
        out.push_str(" SEQUENCE=1");
    }
    if !table.options.comment.is_empty() {
        out.push_str(" COMMENT=");
        push_string(out, table.options.comment.as_bytes());
    }
    if let Some((_, value)) = others.iter().find(|(n, _)| n == "CONNECTION") {
        out.push_str(" CONNECTION=");
        push_string(out, value.as_bytes());
    }
    push_engine_options(out, table, layout);
}

/// Options that engines name; those that InnoDB does not know in a comment, unless the session lets them pass.
fn push_engine_options(out: &mut String, table: &TableDef, layout: Layout) {
    let mut hidden = false;
    for (name, value) in table.options.engine_options() {
        let hide = !layout.unknown_options && !TableOptions::is_known(name);
        if hidden != hide {
            out.push_str(if hide { " /*" } else { " */" });
            hidden = hide;
        }
        out.push(' ');
        push_quoted(out, name);
        out.push('=');
        push_string(out, value.as_bytes());
    }
    if hidden {
        out.push_str(" */");
    }
}

/// A column whose default, if it is a TIMESTAMP, is the wall clock of a time zone.
fn in_zone<'c>(column: &'c ColumnDef, zone: &dyn Zone) -> Cow<'c, ColumnDef> {
    match &column.default {
        ColumnDefault::Value(Value::DateTime(utc)) if column.ty.kind == TypeKind::Timestamp => {
            let local = Value::DateTime(timestamp_to_local(*utc, zone));
            Cow::Owned(ColumnDef { default: ColumnDefault::Value(local), ..column.clone() })
        }
        _ => Cow::Borrowed(column),
    }
}

fn push_column(out: &mut String, column: &ColumnDef, table_collation: CollationId, layout: Layout) {
    out.push_str("  ");
    push_quoted(out, &column.name);
    out.push(' ');
    if (layout.oracle && column.ty.kind == TypeKind::Date)
        || (layout.maxdb && column.ty.kind == TypeKind::Timestamp)
    {
        out.push_str("mariadb_schema.");
    }
    push_type(out, column);
    if layout.oracle && column.ty.kind == TypeKind::Blob {
        out.push_str("(65535)");
    }
    if column.ty.is_text() && !layout.charsets {
        let is_plain = matches!(column.ty.kind, TypeKind::Char | TypeKind::VarChar);
        let is_binary = column.ty.collation.name().ends_with("_bin");
        out.push_str(if is_plain && is_binary { " binary" } else { "" });
    } else if column.ty.is_text() && column.ty.collation != table_collation {
        push_charset(out, " CHARACTER SET ", " COLLATE ", column.ty.collation);
    }
    if let Some(generated) = &column.generated {
        push(out, format_args!(" GENERATED ALWAYS AS ({})", generated.expression));
        out.push_str(if generated.stored { " STORED" } else { " VIRTUAL" });
    } else if !column.nullable {
        out.push_str(" NOT NULL");
    } else if column.ty.kind == TypeKind::Timestamp {
        out.push_str(" NULL");
    }
    if column.invisible {
        out.push_str(" INVISIBLE");
    }
    if let Some(default) = default_text(column).filter(|_| column.generated.is_none()) {
        out.push_str(" DEFAULT ");
        out.push_str(&default);
    }
    if column.on_update_now && layout.column_options {
        out.push_str(" ON UPDATE ");
        push_now(out, column);
    }
    if column.auto_increment && layout.auto_increment {
        out.push_str(" AUTO_INCREMENT");
    }
    if !column.comment.is_empty() {
        out.push_str(" COMMENT ");
        push_string(out, column.comment.as_bytes());
    }
    if let Some(condition) = &column.check {
        push(out, format_args!(" CHECK ({condition})"));
    }
}

/// ENUM and SET members may need escapes that a bare type name does not print.
fn push_type(out: &mut String, column: &ColumnDef) {
    if !column.ty.has_members() {
        out.push_str(&column.ty.sql_name());
        return;
    }
    out.push_str(if column.ty.kind == TypeKind::Enum { "enum(" } else { "set(" });
    for (i, member) in column.ty.members().iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        push_string(out, member.as_bytes());
    }
    out.push(')');
}

fn push_now(out: &mut String, column: &ColumnDef) {
    out.push_str("current_timestamp(");
    if column.ty.decimals > 0 && column.ty.decimals != NOT_FIXED && column.ty.is_temporal() {
        push(out, format_args!("{}", column.ty.decimals));
    }
    out.push(')');
}

/// What stands behind DEFAULT, as SHOW CREATE TABLE and information_schema print it; none where nothing stands.
pub fn default_text(column: &ColumnDef) -> Option<String> {
    let mut out = String::new();
    match &column.default {
        ColumnDefault::None => return None,
        ColumnDefault::Value(Value::Null) if !column.nullable || column.auto_increment => return None,
        ColumnDefault::Value(value) => push_value(&mut out, column, value),
        ColumnDefault::Now => push_now(&mut out, column),
        ColumnDefault::Expression(text) => out.push_str(text),
    }
    Some(out)
}

fn push_value(out: &mut String, column: &ColumnDef, value: &Value) {
    if value.is_null() {
        out.push_str("NULL");
        return;
    }
    if let (TypeKind::Bit, Value::UInt(bits)) = (column.ty.kind, value) {
        push(out, format_args!("b'{bits:b}'"));
        return;
    }
    let mut bytes = Vec::new();
    text::append(&mut bytes, &column.ty, value.as_ref());
    if column.ty.is_numeric() {
        out.push_str(&String::from_utf8_lossy(&bytes));
        return;
    }
    let utf8 = keel_value::collation::convert(
        column.ty.collation.charset(),
        keel_value::collation::Charset::Utf8mb4,
        &bytes,
    );
    let bytes = if column.ty.is_text() { utf8.0 } else { bytes.as_slice().into() };
    push_string(out, &bytes);
}

/// A string in quotes, with MariaDB's escapes.
fn push_string(out: &mut String, bytes: &[u8]) {
    out.push('\'');
    for c in String::from_utf8_lossy(bytes).chars() {
        match c {
            '\0' => out.push_str("\\0"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\\' => out.push_str("\\\\"),
            '\'' => out.push_str("''"),
            c => out.push(c),
        }
    }
    out.push('\'');
}

fn push_index(out: &mut String, table: &TableDef, index: &IndexDef, layout: Layout) {
    match index.kind {
        IndexKind::Primary => out.push_str("  PRIMARY KEY"),
        IndexKind::Unique => out.push_str("  UNIQUE KEY "),
        IndexKind::Plain => out.push_str("  KEY "),
    }
    if index.kind != IndexKind::Primary {
        push_quoted(out, &index.name);
    }
    out.push_str(" (");
    for (i, part) in index.parts.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        push_quoted(out, &table.columns[part.column].name);
        if let Some(prefix) = part.prefix {
            push(out, format_args!("({prefix})"));
        }
        if part.descending {
            out.push_str(" DESC");
        }
    }
    out.push(')');
    if !layout.key_options {
        return;
    }
    match &index.using {
        _ if index.hashed => out.push_str(" USING HASH"),
        Some(using) => push(out, format_args!(" USING {using}")),
        None => {}
    }
    let of_table = table.options.key_block_size().unwrap_or(0);
    if index.options.block_size != 0 && index.options.block_size != of_table {
        push(out, format_args!(" KEY_BLOCK_SIZE={}", index.options.block_size));
    }
    if !index.comment.is_empty() {
        out.push_str(" COMMENT ");
        push_string(out, index.comment.as_bytes());
    }
    if index.options.ignored {
        out.push_str(" IGNORED");
    }
}

/// The text of a view: its query is given; `whole` names its database.
pub fn view(view: &View, query: &str, whole: bool, layout: Layout) -> String {
    let mut out = String::from("CREATE ");
    if layout.view_options {
        push(&mut out, format_args!("ALGORITHM={} DEFINER=", view.algorithm.word()));
        names::push_quoted(&mut out, &view.definer.0);
        // A role has no host.
        if !view.definer.1.is_empty() {
            out.push('@');
            names::push_quoted(&mut out, &view.definer.1);
        }
        out.push_str(if view.invoker { " SQL SECURITY INVOKER " } else { " SQL SECURITY DEFINER " });
    }
    out.push_str("VIEW ");
    if whole {
        names::push_quoted(&mut out, &view.schema);
        out.push('.');
    }
    names::push_quoted(&mut out, &view.name);
    out.push_str(" AS ");
    out.push_str(query);
    match view.check_option {
        CheckOption::None => out,
        option => out + &format!(" WITH {} CHECK OPTION", option.word()),
    }
}
