//! Notes about conditions that cannot use an index because of their types or collations.
//!
//! As in MariaDB, the conditions of a SELECT are inspected twice: equalities beside each other by AND for every key part
//! that their column is, then, table by table, intervals for the keys whose first part is compared with a constant.
//! UPDATE and DELETE of one table inspect all conditions for all keys at once. Within OR nothing behind the first
//! alternative without an interval is inspected.
//!
//! A plan keeps the notes without the values of parameters; each execution adds those and decides by `note_verbosity`
//! whether to give them.

use std::sync::Arc;

use keel_base::{SqlError, errors};
use keel_sql::ast::IndexHint;
use keel_storage::runtime::fiber;
use keel_value::types::Class;
use keel_value::{CollationId, SqlType, TypeKind, Value, collation};

use super::choose::is_hinted_away;
use keel_catalog::{IndexDef, IndexKind, TableDef};
use keel_expr::print::text_of_lookup;
use keel_expr::{CompareOp, Comparison, Expr, Node, walk};

/// Characters of a value's text that a note shows, the last three replaced by dots where it is longer.
const VALUE_CHARS: usize = 64;
/// The operator of a pattern, in notes.
const LIKE: &str = "like";
/// The least integer literal that is a BIGINT: it has ten digits.
const BIGINT_FROM: u64 = 1_000_000_000;
/// Notes that a plan keeps.
const NOTES_MAX: usize = 1024;

/// Why a condition cannot use a key.
#[derive(Debug, Clone, Copy)]
enum Reason {
    /// The values compare as another type than the column's.
    Type,
    /// They compare by this collation.
    Collation(CollationId),
}

/// A key part that a condition cannot use.
pub struct UnusableKey {
    table: Arc<TableDef>,
    key: usize,
    part: usize,
    column: usize,
    op: &'static str,
    value: Expr,
    reason: Reason,
}

impl UnusableKey {
    /// The note, with the values that parameters have now; `literals` says that those are the literals of a text. None
    /// for a pattern that now begins with a wildcard.
    pub fn note(&self, params: &[Value], literals: bool) -> Option<SqlError> {
        let UnusableKey { table, part, op, .. } = self;
        if *op == LIKE && !begins_plain(&self.value, params) {
            return None;
        }
        let column = &table.columns[self.column];
        let text = cut(text_of_lookup(&self.value, params));
        let (of, own, other) = match self.reason {
            Reason::Type => ("type", type_name(&column.ty), value_type(&self.value, params, literals)),
            Reason::Collation(by) => ("collation", column.ty.collation.name().into(), by.name().into()),
        };
        Some(errors::unknown_error(format_args!(
            "Cannot use key {} part[{part}] for lookup: {}.{}.{} of {of} `{own}` {op} \"{text}\" of {of} `{other}`",
            quoted(&table.indexes[self.key].name),
            quoted(&table.schema),
            quoted(&table.name),
            quoted(&column.name),
        )))
    }
}

fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A text as MariaDB's `%.*T` shows it.
fn cut(text: String) -> String {
    if text.chars().count() <= VALUE_CHARS {
        return text;
    }
    text.chars().take(VALUE_CHARS - 3).chain("...".chars()).collect()
}

/// The name of a type's handler in MariaDB.
fn type_name(ty: &SqlType) -> String {
    let name = match ty.kind {
        TypeKind::TinyText => "tinyblob",
        TypeKind::Text => "blob",
        TypeKind::MediumText => "mediumblob",
        TypeKind::LongText => "longblob",
        TypeKind::Binary => "char",
        TypeKind::VarBinary => "varchar",
        _ => {
            let name = ty.sql_name();
            let end = name.find(['(', ' ']).unwrap_or(name.len());
            let is_int = ty.class() == Class::Int && !matches!(ty.kind, TypeKind::Year | TypeKind::Bit);
            let sign = if ty.unsigned && is_int { " unsigned" } else { "" };
            return format!("{}{sign}", &name[..end]);
        }
    };
    name.to_string()
}

/// A value's type. Integer literals of a text have that of their digits, parameters of EXECUTE their own.
fn value_type(value: &Expr, params: &[Value], literals: bool) -> String {
    let known = match &value.node {
        Node::Param(index) if literals => params.get(*index as usize),
        Node::Constant(value) => Some(value),
        _ => None,
    };
    match known {
        Some(Value::Int(n)) if matches!(value.ty.kind, TypeKind::Int | TypeKind::BigInt) => {
            let is_big = n.unsigned_abs() >= BIGINT_FROM;
            if is_big { "bigint" } else { "int" }.to_string()
        }
        _ => type_name(&value.ty),
    }
}

/// A table whose keys are inspected.
#[derive(Clone, Copy)]
pub(crate) struct Inspected<'a> {
    pub slot: u16,
    pub table: &'a Arc<TableDef>,
    pub hints: &'a [IndexHint],
}

/// The key parts that conditions of a SELECT cannot use; `conditions` stand beside each other by AND.
pub(crate) fn of_equalities(tables: &[Inspected<'_>], conditions: &[&Expr], out: &mut Vec<UnusableKey>) {
    let each = |condition: &Expr, out: &mut Vec<UnusableKey>| {
        let Some((op, by, left, right)) = equality(condition) else { return };
        for (column, value) in [(left, right), (right, left)] {
            let Some(found) = tables.iter().find_map(|of| Lookup::new(of, column, op, by, value)) else {
                continue;
            };
            found.with_constant().note(&|_| true, out);
        }
    };
    conditions.iter().for_each(|condition| conjuncts(condition, &mut |part| each(part, out)));
}

/// The key parts that intervals of a SELECT on one table cannot use.
pub(crate) fn of_intervals(of: &Inspected<'_>, conditions: &[&Expr], out: &mut Vec<UnusableKey>) {
    let mut sought = vec![false; of.table.columns.len()];
    conditions.iter().for_each(|condition| mark_constant(of, condition, &mut sought));
    let is_sought = |key: &IndexDef| key.parts.first().is_some_and(|part| sought[part.column]);
    if sought.contains(&true) {
        let walker = Walker { of, keys: &is_sought, equalities: false };
        conditions.iter().for_each(|condition| {
            walker.walk(condition, out);
        });
    }
}

/// The key parts that conditions of an UPDATE or DELETE cannot use.
pub fn of_change(
    table: &Arc<TableDef>,
    hints: &[IndexHint],
    conditions: &[Expr],
    out: &mut Vec<UnusableKey>,
) {
    let of = Inspected { slot: 0, table, hints };
    let walker = Walker { of: &of, keys: &|_| true, equalities: true };
    conditions.iter().for_each(|condition| {
        walker.walk(condition, out);
    });
}

/// Calls `f` with the conditions of one that stand beside each other by AND.
fn conjuncts(condition: &Expr, f: &mut dyn FnMut(&Expr)) {
    match &condition.node {
        Node::And(parts) => parts.iter().for_each(|part| conjuncts(part, f)),
        _ => f(condition),
    }
}

/// An equality, written as such or as a list of one value.
fn equality(condition: &Expr) -> Option<(&'static str, Comparison, &Expr, &Expr)> {
    match &condition.node {
        Node::Compare { op: op @ (CompareOp::Eq | CompareOp::NullSafeEq), by, left, right } => {
            Some((op.symbol(), *by, left, right))
        }
        Node::In { negated: false, by, value, list, .. } if list.len() == 1 => {
            Some(("=", *by, value, &list[0]))
        }
        _ => None,
    }
}

/// Marks the columns that a condition compares with constants.
fn mark_constant(of: &Inspected<'_>, condition: &Expr, sought: &mut [bool]) {
    let mut mark = |column: &Expr, values: &[&Expr]| {
        if let Some(column) = of.column(column)
            && values.iter().all(|value| value.is_constant())
        {
            sought[column] = true;
        }
    };
    match &condition.node {
        Node::And(parts) | Node::Or(parts) => {
            parts.iter().for_each(|part| {
                fiber::tick();
                mark_constant(of, part, sought);
            });
        }
        // All rows of a list compare the same columns.
        Node::OneOf(any, _) => mark_constant(of, first_of(any), sought),
        Node::Compare { left, right, .. } => {
            mark(left, &[right]);
            mark(right, &[left]);
        }
        Node::Between { value, low, high, .. } => mark(value, &[low, high]),
        Node::In { value, list, sorted, .. } if sorted.is_some() || list.iter().all(Expr::is_constant) => {
            mark(value, &[]);
        }
        Node::IsNull { value, .. } => mark(value, &[]),
        Node::Like { negated: false, value, pattern, .. } if begins_plain(pattern, &[]) => {
            mark(value, &[pattern])
        }
        _ => {}
    }
}

/// The first row of a list of rows.
fn first_of(any: &Expr) -> &Expr {
    match &any.node {
        Node::Or(parts) => &parts[0],
        _ => any,
    }
}

/// Whether a pattern may begin with another character than a wildcard.
fn begins_plain(pattern: &Expr, params: &[Value]) -> bool {
    let known = match &pattern.node {
        Node::Constant(value) => Some(value),
        Node::Param(index) => params.get(*index as usize),
        _ => None,
    };
    !matches!(known, Some(Value::Bytes(text)) if matches!(text.first(), Some(b'%' | b'_')))
}

impl Inspected<'_> {
    fn column(&self, operand: &Expr) -> Option<usize> {
        operand.as_column().filter(|column| column.slot == self.slot).map(|column| column.column as usize)
    }
}

/// A column compared with a value.
struct Lookup<'a> {
    of: &'a Inspected<'a>,
    column: usize,
    op: &'static str,
    value: &'a Expr,
    /// None where keys can be used.
    reason: Option<Reason>,
}

impl<'a> Lookup<'a> {
    /// None where the value is not known before the table is read.
    fn new(
        of: &'a Inspected<'a>,
        column: &Expr,
        op: &'static str,
        by: Comparison,
        value: &'a Expr,
    ) -> Option<Lookup<'a>> {
        let column = of.column(column)?;
        let facts = walk::facts(value);
        if facts.volatile || facts.assigns || walk::slots_read(value) & (1 << of.slot) != 0 {
            return None;
        }
        let value = written(value);
        let ty = &of.table.columns[column].ty;
        let reason = reason(ty, by, op, value);
        Some(Lookup { of, column, op, value, reason })
    }

    /// In a comparison with one constant: beside a BIGINT or a YEAR that is an integer.
    fn with_constant(mut self) -> Lookup<'a> {
        let kind = self.of.table.columns[self.column].ty.kind;
        if matches!(kind, TypeKind::BigInt | TypeKind::Year) && self.value.is_constant() {
            self.reason = None;
        }
        self
    }

    /// Whether one of the keys has the column.
    fn has_key(&self, keys: &dyn Fn(&IndexDef) -> bool) -> bool {
        self.parts(keys).next().is_some()
    }

    /// Keys and their parts that are the column. Plain keys go on by the primary key.
    fn parts(&self, keys: &dyn Fn(&IndexDef) -> bool) -> impl Iterator<Item = (usize, usize)> {
        let table = self.of.table;
        let primary = table.indexes.iter().find(|key| key.kind == IndexKind::Primary);
        let usable = table.indexes.iter().enumerate().filter(move |(position, key)| {
            // MariaDB keeps digests of such keys alone.
            let is_digest = key.kind == IndexKind::Unique && key.using.as_deref() == Some("HASH");
            !is_digest && !is_hinted_away(self.of.hints, table, *position) && keys(key)
        });
        usable.flat_map(move |(position, key)| {
            let has = |column: usize| key.parts.iter().any(|part| part.column == column);
            let is_whole = key.parts.iter().all(|part| part.prefix.is_none());
            let behind = primary.filter(|_| key.kind == IndexKind::Plain && is_whole);
            let behind = behind.into_iter().flat_map(|primary| &primary.parts);
            let columns = key.parts.iter().chain(behind.filter(move |part| !has(part.column)));
            let places = columns.enumerate().filter(|(_, part)| part.column == self.column);
            places.map(move |(place, _)| (position, place))
        })
    }

    fn note(&self, keys: &dyn Fn(&IndexDef) -> bool, out: &mut Vec<UnusableKey>) {
        let Some(reason) = self.reason else { return };
        for (key, part) in self.parts(keys) {
            if out.len() < NOTES_MAX {
                let (table, value) = (self.of.table.clone(), self.value.clone());
                out.push(UnusableKey { table, key, part, column: self.column, op: self.op, value, reason });
            }
        }
    }
}

/// A value without the conversions that binding added.
fn written(value: &Expr) -> &Expr {
    match &value.node {
        Node::Once(_, inner) | Node::Convert(inner) => written(inner),
        _ => value,
    }
}

/// Why keys of a column cannot be used to compare it with a value.
fn reason(ty: &SqlType, by: Comparison, op: &str, value: &Expr) -> Option<Reason> {
    let is_equality = matches!(op, "=" | "<=>");
    let is_temporal = matches!(by, Comparison::Date | Comparison::DateTime | Comparison::Time);
    match ty.class() {
        _ if matches!(value.node, Node::Constant(Value::Null)) => None,
        _ if ty.has_members() => match by {
            _ if !is_equality => None,
            Comparison::Text(by) => (by != ty.collation).then_some(Reason::Collation(by)),
            _ => is_temporal.then_some(Reason::Type),
        },
        Class::String => match by {
            Comparison::Text(by) if by == ty.collation || is_equality && collation::is_binary(by) => None,
            Comparison::Text(by) => Some(Reason::Collation(by)),
            _ => Some(Reason::Type),
        },
        Class::Int | Class::Decimal | Class::Real => is_temporal.then_some(Reason::Type),
        Class::Date | Class::DateTime | Class::Time | Class::Fixed(_) | Class::Null => None,
    }
}

/// Walks conditions as the search for intervals does.
struct Walker<'a> {
    of: &'a Inspected<'a>,
    /// The keys that are inspected.
    keys: &'a dyn Fn(&IndexDef) -> bool,
    /// Whether equalities are noted too.
    equalities: bool,
}

impl Walker<'_> {
    /// Notes what a condition cannot use; whether it gives an interval of some key.
    fn walk(&self, condition: &Expr, out: &mut Vec<UnusableKey>) -> bool {
        match &condition.node {
            Node::And(parts) => parts.iter().fold(false, |any, part| self.walk(part, out) | any),
            Node::Or(parts) => parts.iter().inspect(|_| fiber::tick()).all(|part| self.walk(part, out)),
            Node::OneOf(any, _) => self.walk(first_of(any), out),
            Node::Compare { op, by, left, right } => {
                let (op, swapped) = match op {
                    CompareOp::Ne => ("<", "<"),
                    op => (op.symbol(), op.swapped().symbol()),
                };
                let sides = [(left, op, right), (right, swapped, left)];
                sides.into_iter().fold(false, |any, (column, op, value)| {
                    let lookup = Lookup::new(self.of, column, op, *by, value).map(Lookup::with_constant);
                    lookup.is_some_and(|lookup| self.note(&lookup, out)) | any
                })
            }
            Node::Between { negated, by, value, low, high } => {
                let op = if *negated { "<" } else { ">=" };
                self.lookup(value, op, *by, low, out) && self.lookup(value, "<=", *by, high, out)
            }
            Node::In { negated, by, value, list, sorted } => match &list[..] {
                [only] => self.lookup(value, if *negated { "<" } else { "=" }, *by, only, out),
                [first, ..] if !negated && (sorted.is_some() || list.iter().all(Expr::is_constant)) => {
                    let lookup = Lookup::new(self.of, value, "=", *by, first).map(Lookup::with_constant);
                    lookup.is_some_and(|lookup| Walker { equalities: true, ..*self }.note(&lookup, out))
                }
                _ => self.of.column(value).is_some(),
            },
            Node::IsNull { value, .. } => self.of.column(value).is_some(),
            Node::Like { negated: false, collation, value, pattern, .. } if begins_plain(pattern, &[]) => {
                self.like(*collation, value, pattern, out)
            }
            _ => false,
        }
    }

    fn lookup(
        &self,
        column: &Expr,
        op: &'static str,
        by: Comparison,
        value: &Expr,
        out: &mut Vec<UnusableKey>,
    ) -> bool {
        Lookup::new(self.of, column, op, by, value).is_some_and(|lookup| self.note(&lookup, out))
    }

    /// Notes what a lookup cannot use; whether it gives an interval of some key.
    fn note(&self, lookup: &Lookup<'_>, out: &mut Vec<UnusableKey>) -> bool {
        // The values of other tables' rows are known too late for an interval.
        if lookup.value.is_constant() && (self.equalities || !matches!(lookup.op, "=" | "<=>")) {
            lookup.note(self.keys, out);
        }
        lookup.reason.is_none() && lookup.has_key(self.keys)
    }

    fn like(&self, by: CollationId, value: &Expr, pattern: &Expr, out: &mut Vec<UnusableKey>) -> bool {
        let Some(mut lookup) = Lookup::new(self.of, value, LIKE, Comparison::Text(by), pattern) else {
            return false;
        };
        let ty = &self.of.table.columns[lookup.column].ty;
        lookup.reason = match ty.class() {
            _ if ty.has_members() => return false,
            Class::String => (by != ty.collation).then_some(Reason::Collation(by)),
            _ => Some(Reason::Type),
        };
        self.note(&lookup, out)
    }
}
