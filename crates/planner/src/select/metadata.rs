//! Column descriptions of results, as MariaDB sends them.

use std::sync::Arc;

use keel_catalog::{ColumnDefault, IndexKind, TableDef};
use keel_context::result::ColumnMeta;
use keel_exec::json_table;
use keel_expr::{ColumnRef, Expr, Node, walk};
use keel_sql::ast::{Expr as Tree, LiteralValue};
use keel_value::collation::{self, Charset};
use keel_value::types::flags;
use keel_value::{CollationId, TypeKind};

use crate::bind::{ScopeTable, ViewPart};

/// The name of a select item without alias: a column's name as written, a string's text, else the item's source text.
pub fn item_name(tree: &Tree, text: &str) -> String {
    match tree {
        Tree::Column(name) => name.column.clone(),
        Tree::Literal(literal) => match &literal.value {
            LiteralValue::String { charset: None, .. } => text.to_string(),
            LiteralValue::String { bytes, charset: Some(charset) } => introduced_name(&bytes.0, charset),
            _ => text.trim().to_string(),
        },
        Tree::Function(call) if call.name == "name_const" => match call.args.first() {
            Some(Tree::Literal(literal)) => {
                given_name(&literal.value).unwrap_or_else(|| text.trim().to_string())
            }
            _ => text.trim().to_string(),
        },
        _ => text.trim().to_string(),
    }
}

/// The name that NAME_CONST() gives.
fn given_name(name: &LiteralValue) -> Option<String> {
    match name {
        LiteralValue::String { bytes, .. } => Some(bytes.to_text()),
        LiteralValue::Int(number) => Some(number.to_string()),
        LiteralValue::Decimal(digits) => Some(digits.clone()),
        _ => None,
    }
}

/// Bytes of a column's name in a result.
const NAME_OCTETS_MAX: usize = 255;

/// The name of a result's column: what is longer ends behind the last character that fits. Characters beyond U+FFFF are
/// none of a name's, unless the client itself sent them as something else.
pub(super) fn shortened(mut name: String, client: CollationId) -> String {
    let is_beyond = |c: char| c > '\u{FFFF}';
    if client.charset() != Charset::Utf8mb3 && name.contains(is_beyond) {
        name = name.replace(is_beyond, "?");
    }
    if name.len() > NAME_OCTETS_MAX {
        let end = name.floor_char_boundary(NAME_OCTETS_MAX);
        name.truncate(end);
    }
    name
}

/// A name made of the bytes behind an introducer.
fn introduced_name(octets: &[u8], charset: &str) -> String {
    match Charset::by_name(charset) {
        Some(charset) if !charset.is_utf8() => {
            let text = collation::convert(charset, Charset::Utf8mb4, octets).0;
            String::from_utf8_lossy(&text).into_owned()
        }
        Some(Charset::Binary) => String::from_utf8(octets.to_vec()).unwrap_or_default(),
        _ => String::from_utf8_lossy(octets).replace(char::REPLACEMENT_CHARACTER, "?"),
    }
}

/// Describes one result column.
pub(super) fn describe(expr: &Expr, name: Arc<str>, tables: &[ScopeTable]) -> ColumnMeta {
    let nothing: Arc<str> = "".into();
    let mut meta = ColumnMeta {
        schema: nothing.clone(),
        table: nothing.clone(),
        org_table: nothing.clone(),
        name,
        org_name: nothing,
        ty: expr.ty.clone(),
        nullable: expr.nullable,
        flags: 0,
        length: None,
        is_plain: false,
    };
    let Some(column) = expr.as_any_column() else {
        meta.flags = computed_flags(expr);
        return meta;
    };
    let Some(table) = tables.iter().find(|t| t.slot == column.slot) else {
        meta.flags = computed_flags(expr);
        return meta;
    };
    let place = column.column as usize;
    if place >= table.columns.len() {
        return meta;
    }
    if table.is_hidden() {
        return describe_in_view(meta, table, column, tables);
    }
    meta.table = table.alias.clone();
    meta.org_table = table.name.clone();
    meta.schema = table.schema.clone();
    meta.org_name = table.columns[place].name.clone();
    match &table.def {
        Some(def) if def.is_virtual() && !def.is_series() => match &*def.schema {
            "mysql" | "performance_schema" => meta.flags = column_flags(def, place),
            // Its tables are views, which are derived ones here.
            "sys" => {
                meta.org_table = "".into();
                meta.schema = "".into();
            }
            _ => meta.flags = flags::NO_DEFAULT_VALUE,
        },
        Some(def) => meta.flags = column_flags(def, place),
        None if matches!(table.view, ViewPart::Function) => meta.schema = json_table::DATABASE.into(),
        // A derived table's columns have a table of their own, but no table behind it.
        None => {
            meta.org_table = "".into();
            meta.schema = "".into();
        }
    }
    meta
}

/// A column of a table within a merged view, as a column of the view.
fn describe_in_view(
    mut meta: ColumnMeta,
    table: &ScopeTable,
    column: &ColumnRef,
    tables: &[ScopeTable],
) -> ColumnMeta {
    let same =
        |e: &Expr| e.as_any_column().is_some_and(|c| (c.slot, c.column) == (column.slot, column.column));
    let place = |view: &ScopeTable| match &view.view {
        ViewPart::Whole(meanings) => meanings.iter().position(same),
        _ => None,
    };
    if let Some(def) = table.def.as_ref().filter(|def| !def.is_virtual() || def.is_series()) {
        meta.flags = column_flags(def, column.column as usize);
        meta.schema = def.schema.clone();
    } else if &*table.name == json_table::TABLE && table.def.is_none() {
        meta.schema = json_table::DATABASE.into();
    }
    if let Some((view, place)) = tables.iter().find_map(|view| Some((view, place(view)?))) {
        of_view(&mut meta, view, place);
    }
    meta
}

/// A column of a merged view belongs to the view, in the database of its table.
pub(super) fn of_view(meta: &mut ColumnMeta, view: &ScopeTable, column: usize) {
    meta.table = view.alias.clone();
    meta.org_table = view.alias.clone();
    meta.org_name = view.columns[column].name.clone();
}

/// Beside window functions items are columns of a temporary table, in MariaDB: without keys, and any may be NULL.
pub(super) fn kept_for_windows(meta: &mut ColumnMeta, expr: &mut Expr, grouped: bool) {
    const KEYS: u16 = flags::PRI_KEY | flags::UNIQUE_KEY | flags::MULTIPLE_KEY | flags::PART_KEY;
    if expr.as_column().is_some() {
        meta.flags &= !KEYS;
        (meta.nullable, expr.nullable) = (true, true);
    } else if matches!(expr.node, Node::Aggregate(_)) {
        meta.flags = 0;
    } else if !grouped && !matches!(expr.node, Node::Window(_)) && walk::facts(expr).windows {
        meta.flags = 0;
        meta.org_name = meta.name.clone();
        if meta.ty.is_text() {
            meta.ty.decimals = 0;
        }
    }
}

/// What a query does with its rows before they go out.
#[derive(Clone, Copy)]
pub(super) struct Passage {
    /// Rows are grouped by keys in a temporary table, which holds the aggregates in columns.
    pub holds_aggregates: bool,
    /// So are the other items, as DISTINCT and window functions need it.
    pub holds_items: bool,
}

/// Whether an item's value goes out as a plain number or text although its type has a form of its own (ZEROFILL, YEAR, BIT, ENUM,
/// SET): only columns show it, of a table or of a temporary one. Aggregates and window functions are not placed yet.
pub(super) fn goes_out_plainly(expr: &Expr, passage: Passage) -> bool {
    let ty = &expr.ty;
    if !ty.zerofill && !ty.is_octets_of_bits() && ty.kind != TypeKind::Year && !ty.has_members() {
        return false;
    }
    match expr.node {
        Node::Column(_) | Node::Outer { .. } | Node::Generated(..) | Node::Default(..) => false,
        Node::Constant(_) | Node::Param(_) => false,
        Node::Aggregate(_) => !passage.holds_aggregates,
        Node::Window(_) => !ty.is_octets_of_bits(),
        _ => !passage.holds_items,
    }
}

/// Numbers and dates that are computed carry BINARY.
fn computed_flags(expr: &Expr) -> u16 {
    if expr.ty.is_text() || expr.ty.is_fixed() { 0 } else { flags::BINARY }
}

/// Flags of a table's column beyond those of its type.
fn column_flags(def: &TableDef, place: usize) -> u16 {
    let column = &def.columns[place];
    let mut bits = 0;
    for (number, index) in def.indexes.iter().enumerate() {
        let Some(position) = index.parts.iter().position(|p| p.column == place) else { continue };
        bits |= flags::PART_KEY;
        match index.kind {
            // What orders the rows is MariaDB's primary key, whatever it is called.
            _ if def.clustered == Some(number) => bits |= flags::PRI_KEY,
            IndexKind::Unique if index.parts.len() == 1 => bits |= flags::UNIQUE_KEY,
            _ if position == 0 => bits |= flags::MULTIPLE_KEY,
            _ => {}
        }
    }
    if column.auto_increment {
        bits |= flags::AUTO_INCREMENT;
    } else if column.default == ColumnDefault::None && !column.nullable {
        bits |= flags::NO_DEFAULT_VALUE;
    }
    let is_current = column.on_update_now || column.default == ColumnDefault::Now;
    if is_current && column.ty.kind == TypeKind::Timestamp {
        bits |= flags::TIMESTAMP;
    }
    if column.on_update_now {
        bits |= flags::ON_UPDATE_NOW;
    }
    bits
}
