//! Derived tables that are no more than columns and rows of one table: read as that table, with their conditions, so that
//! its indexes serve them. What is left keeps its rows apart.

use std::sync::Arc;

use keel_base::SqlResult;
use keel_catalog::{TableDef, names};
use keel_expr::{Expr, walk};
use keel_sql::ast::{
    Expr as Tree, IndexHint, ObjectName, Query, QueryBody, Select, SelectItem, SelectOptions, TableRef,
};

use crate::bind::{Binder, Clause, Scope, ScopeColumn, ScopeTable};
use crate::join::order::{FromTree, Leaf, LeafKind};
use crate::select::from::From;

/// The only table of a query that merely filters it.
struct Plain<'q> {
    select: &'q Select,
    name: &'q ObjectName,
    alias: Option<&'q str>,
    hints: &'q [IndexHint],
}

fn plain(query: &Query) -> Option<Plain<'_>> {
    let bare = query.with.is_none()
        && query.order_by.is_empty()
        && query.limit.is_none()
        && query.into.is_none()
        && query.lock.is_none();
    let QueryBody::Select(select) = &query.body else { return None };
    let filters_only = select.options == SelectOptions::default()
        && select.group_by.is_empty()
        && select.having.is_none()
        && select.windows.is_empty();
    match &select.from[..] {
        [TableRef::Table { name, alias, partitions, hints }]
            if bare && filters_only && partitions.is_empty() =>
        {
            Some(Plain { select, name, alias: alias.as_deref(), hints })
        }
        _ => None,
    }
}

/// For each column of the table the name that the derived table has for it. None where it is not that simple: other
/// items than columns, a column twice, another order than the table's.
fn named<'q>(plain: &'q Plain<'q>, def: &TableDef, alias: &str) -> Option<Vec<Option<Arc<str>>>> {
    let mut named: Vec<Option<Arc<str>>> = vec![None; def.columns.len()];
    let mut next = 0;
    for item in &plain.select.items {
        match item {
            SelectItem::Wildcard { db: None, table } if table.as_deref().is_none_or(|t| t == alias) => {
                if next > 0 || plain.select.items.len() > 1 {
                    return None;
                }
                for (name, column) in named.iter_mut().zip(&def.columns) {
                    *name = (!column.invisible).then(|| column.name.clone());
                }
            }
            SelectItem::Expr { expr: Tree::Column(column), alias: renamed, .. }
                if column.db.is_none() && column.table.as_deref().is_none_or(|t| t == alias) =>
            {
                let place = def.column_index(&column.column).filter(|place| *place >= next)?;
                let name = renamed.as_deref().unwrap_or(&column.column);
                if named.iter().flatten().any(|n| names::same(n, name)) {
                    return None;
                }
                named[place] = Some(name.into());
                next = place + 1;
            }
            _ => return None,
        }
    }
    Some(named)
}

/// Adds the table behind a derived table to FROM, under the derived table's name; gives its conditions too. None where the
/// query is more than that.
pub(super) fn derived(
    binder: &mut Binder<'_>,
    from: &mut From,
    query: &Query,
    alias: &str,
) -> SqlResult<Option<(FromTree, Vec<Expr>)>> {
    if binder.whole_names.is_some() || binder.locks_own {
        return Ok(None);
    }
    let named = binder.named.len();
    let merged = try_derived(binder, from, query, alias)?;
    if merged.is_none() {
        // It is bound again as a whole, and names its tables then.
        binder.named.truncate(named);
    }
    Ok(merged)
}

fn try_derived(
    binder: &mut Binder<'_>,
    from: &mut From,
    query: &Query,
    alias: &str,
) -> SqlResult<Option<(FromTree, Vec<Expr>)>> {
    let Some(plain) = plain(query) else { return Ok(None) };
    let is_common = plain.name.db.is_none() && binder.common.iter().any(|c| c.name == plain.name.name);
    if is_common || binder.later_common.contains(&plain.name.name) {
        return Ok(None);
    }
    if binder.find_view(plain.name.db.as_deref(), &plain.name.name).is_some() {
        return Ok(None);
    }
    let def = binder.table(plain.name.db.as_deref(), &plain.name.name, plain.alias)?;
    let inner = plain.alias.unwrap_or(&def.name).to_string();
    let hints_hold = plain.hints.iter().flat_map(|h| &h.indexes).all(|i| def.hinted_index(i).is_some());
    let Some(named) = named(&plain, &def, &inner).filter(|_| hints_hold && !def.is_virtual()) else {
        return Ok(None);
    };
    let listed = named.iter().enumerate().filter(|(_, name)| name.is_some());
    listed.for_each(|(place, _)| {
        let column = def.columns[place].name.clone();
        if !def.is_temporary() {
            binder.note_read((&def.schema, &def.name), &column, false);
        }
    });
    let slot = from.leaves.len() as u16;
    let own = binder.scope_table(slot, def.clone(), Some(&inner))?;
    let Some(conditions) = conditions(binder, &plain, own)? else {
        return Ok(None);
    };
    // To the client it is a table of its own in the same database.
    let own = binder.scope_table(slot, def.clone(), Some(alias))?;
    let mut table = ScopeTable { name: alias.into(), ..own };
    let shown = |(column, name): (&ScopeColumn, &Option<Arc<str>>)| ScopeColumn {
        // A name that nothing can mean.
        name: name.clone().unwrap_or_default(),
        invisible: name.is_none(),
        ..column.clone()
    };
    table.columns = table.columns.iter().zip(&named).map(shown).collect();
    from.leaves.push(Leaf {
        slot,
        alias: table.alias.clone(),
        needed: vec![false; def.columns.len()],
        merged: false,
        kind: LeafKind::Table(def, plain.hints.to_vec()),
    });
    binder.scope_mut().add_table(table)?;
    Ok(Some((FromTree::Leaf(slot), conditions)))
}

/// Binds the derived table's WHERE where only its own table is seen; None where it has queries within.
fn conditions(binder: &mut Binder<'_>, plain: &Plain<'_>, table: ScopeTable) -> SqlResult<Option<Vec<Expr>>> {
    let Some(filter) = &plain.select.filter else { return Ok(Some(Vec::new())) };
    if filter.has_query() {
        return Ok(None);
    }
    let once = binder.scope().once;
    let own = Scope { tables: vec![table], once, ..Scope::default() };
    let scopes = std::mem::replace(&mut binder.scopes, vec![own]);
    let reads = std::mem::take(&mut binder.reads);
    let in_aggregate = std::mem::take(&mut binder.in_aggregate);
    let bound = binder.bind_condition(filter, Clause::Where);
    let own = std::mem::replace(&mut binder.scopes, scopes);
    binder.reads = reads;
    binder.in_aggregate = in_aggregate;
    binder.scope_mut().once = own[0].once;
    let bound = bound?;
    let simple = bound.iter().all(|c| {
        let facts = walk::facts(c);
        !facts.assigns && !facts.volatile
    });
    Ok(simple.then_some(bound))
}
