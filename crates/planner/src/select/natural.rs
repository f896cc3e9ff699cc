//! USING and NATURAL: columns that joins make of two, and what `*` lists.
//!
//! Each part of FROM has columns in an order of its own: those of a table in theirs, those of `a NATURAL JOIN b` the common
//! ones first, then the others of `a`, then those of `b`. A RIGHT JOIN is a LEFT JOIN with its sides exchanged, in this too.

use keel_base::{SqlResult, errors};
use keel_catalog::names;
use keel_expr::{CompareOp, Expr};
use keel_sql::ast::{JoinKind, TableRef};

use crate::bind::{Binder, Listed, MergedColumn, Scope};

/// The columns of a part of FROM.
pub(super) enum Columns {
    /// All of these tables of the scope, one table after the other.
    Tables(std::ops::Range<usize>),
    /// What joins made of them.
    Listed(Vec<Listed>),
}

impl Columns {
    /// These, and behind them the columns of a part further to the right.
    pub fn and(self, other: Columns, scope: &Scope) -> Columns {
        match (self, other) {
            (Columns::Tables(left), Columns::Tables(right)) => Columns::Tables(left.start..right.end),
            (left, right) => {
                let mut all = left.into_list(scope);
                all.extend(right.into_list(scope));
                Columns::Listed(all)
            }
        }
    }

    /// The list, where it is not that of the tables.
    pub fn listed(&self) -> Option<Vec<Listed>> {
        match self {
            Columns::Tables(_) => None,
            Columns::Listed(list) => Some(list.clone()),
        }
    }

    fn into_list(self, scope: &Scope) -> Vec<Listed> {
        match self {
            Columns::Tables(tables) => tables.flat_map(|place| scope.columns_of(place)).collect(),
            Columns::Listed(list) => list,
        }
    }
}

/// Joins two parts of FROM by the columns of USING, or by all that have a name in common. Gives the columns of the join and
/// its conditions.
pub(super) fn join(
    binder: &mut Binder<'_>,
    join: &TableRef,
    (left, right): (Columns, Columns),
    using: Option<&[String]>,
    kind: JoinKind,
) -> SqlResult<(Columns, Vec<Expr>)> {
    let (first, second) = if kind == JoinKind::Right { (right, left) } else { (left, right) };
    let (first, second) = (first.into_list(binder.scope()), second.into_list(binder.scope()));
    if let Some(missing) = using.into_iter().flatten().find(|name| {
        let has = |side: &[Listed]| side.iter().any(|c| names::same(c.name(binder.scope()), name));
        !has(&first) || !has(&second)
    }) {
        return Err(errors::bad_field(missing, "FROM"));
    }
    let mut columns = Vec::with_capacity(first.len() + second.len());
    let (mut rest, mut joined) = (Vec::new(), vec![false; second.len()]);
    let mut conditions = Vec::new();
    for (place, column) in first.iter().enumerate() {
        let scope = binder.scope();
        let name = column.name(scope).clone();
        let is_common = match using {
            Some(using) => using.iter().any(|wanted| names::same(wanted, &name)),
            None => !column.is_invisible(scope) && second.iter().any(|c| names::same(c.name(scope), &name)),
        };
        if !is_common {
            rest.push(*column);
            continue;
        }
        let mut twins = (0..second.len()).filter(|n| names::same(second[*n].name(scope), &name));
        let twin = twins.next().ok_or_else(|| errors::bad_field(&name, "FROM"))?;
        let again = first[..place].iter().any(|before| names::same(before.name(scope), &name));
        if again || twins.next().is_some() {
            return Err(errors::non_uniq(&name, "FROM"));
        }
        joined[twin] = true;
        conditions.push(merge(binder, join, *column, second[twin], kind)?);
        columns.push(Listed::Merged(binder.scope().merged.len() - 1));
    }
    columns.extend(rest);
    columns.extend(second.into_iter().zip(joined).filter(|(_, joined)| !joined).map(|(column, _)| column));
    Ok((Columns::Listed(columns), conditions))
}

/// One column of two: the condition, and the merged column in the scope, which is the first of them.
fn merge(
    binder: &mut Binder<'_>,
    join: &TableRef,
    first: Listed,
    second: Listed,
    kind: JoinKind,
) -> SqlResult<Expr> {
    let scope = binder.scope();
    let name = first.name(scope).clone();
    let (kept, other) = (first.value(scope), second.value(scope));
    let (own, others) = (first.parts(scope), second.parts(scope));
    let innermost = binder.scopes.len() - 1;
    for (place, column) in own.iter().chain(&others) {
        binder.note_column(innermost, *place, *column as usize, false);
    }
    let whole = |parts: &[(usize, u16)]| {
        let (table, column) = parts.first()?;
        binder.whole_name_of(&binder.scope().tables[*table], *column as usize)
    };
    let (left, right) = if kind == JoinKind::Right { (&others, &own) } else { (&own, &others) };
    let pair = whole(left).zip(whole(right));
    if let (Some(notes), Some(pair)) = (&mut binder.whole_names, pair) {
        notes.note_join(join, pair);
    }
    let parts = own.into_iter().chain(others).collect();
    binder.scope_mut().merged.push(MergedColumn { name, parts });
    let (left, right) = if kind == JoinKind::Right { (other, kept) } else { (kept, other) };
    binder.compare(CompareOp::Eq, left, right)
}

/// The columns of `*` or `table.*`.
pub(super) fn wildcard(binder: &Binder<'_>, db: Option<&str>, table: Option<&str>) -> SqlResult<Vec<Listed>> {
    let scope = binder.scope();
    if scope.tables.is_empty() {
        return Err(errors::no_tables_used());
    }
    let visible = |column: &Listed| !column.is_invisible(scope);
    if let (None, Some(listed)) = (table, &scope.listed) {
        return Ok(listed.iter().copied().filter(visible).collect());
    }
    let mut out = Vec::new();
    let mut any = false;
    for (place, entry) in scope.tables.iter().enumerate().filter(|(_, entry)| !entry.is_hidden()) {
        if table.is_some_and(|t| *t != *entry.alias) || db.is_some_and(|d| *d != *entry.schema) {
            continue;
        }
        any = true;
        out.extend(scope.columns_of(place).filter(visible));
    }
    if !any {
        let name = match (db, table, &binder.cx.session.database) {
            (Some(db), Some(table), _) => format!("{db}.{table}"),
            (None, Some(table), Some(db)) => format!("{db}.{table}"),
            (_, table, _) => table.unwrap_or_default().to_string(),
        };
        return Err(errors::bad_table(name));
    }
    Ok(out)
}
