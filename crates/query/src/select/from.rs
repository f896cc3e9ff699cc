//! FROM: names to tables, joins to a tree with bound conditions, USING and NATURAL to merged columns.

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, errors};
use keel_sql::ast::{JoinCondition, JoinKind, Query, TableRef};

use keel_value::{SqlType, TypeKind};

use super::carry::result_layout;
use super::{Body, SelectPlan, build, merge};
use crate::bind::{Binder, Clause, MergedColumn, Scope, ScopeColumn, ScopeTable};
use crate::catalog::names;
use crate::expr::{CompareOp, Derivation, Expr};
use crate::join::order::{FromTree, Leaf, LeafKind};

/// Tables met in FROM.
#[derive(Default)]
pub(super) struct From {
    /// By slot.
    pub leaves: Vec<Leaf>,
    /// Their joins; none without FROM.
    pub tree: Option<FromTree>,
    /// What is wrong with an ON: MariaDB reports the select list's errors first.
    pub error: Option<SqlError>,
    /// Conditions of merged derived tables on no outer join's empty side.
    pub conditions: Vec<Expr>,
}

impl From {
    /// The name of the recursive table whose own query reads it in a slot.
    pub fn working_name(&self, slot: u16) -> Option<&str> {
        match &self.leaves.get(slot as usize)?.kind {
            LeafKind::Derived(plan, _) => match &plan.body {
                Body::Working(working) => Some(&*working.name),
                _ => None,
            },
            LeafKind::Table(..) => None,
        }
    }
}

/// A part of FROM, with the conditions of derived tables that were merged into it.
type Part = (FromTree, Vec<Expr>);

/// Binds FROM into the innermost scope.
pub(super) fn bind(binder: &mut Binder<'_>, tables: &[TableRef]) -> SqlResult<From> {
    let mut from = From::default();
    for table in tables {
        let (tree, conditions) = table_ref(binder, &mut from, table)?;
        from.conditions.extend(conditions);
        from.tree = Some(match from.tree.take() {
            None => tree,
            Some(left) => FromTree::Join {
                outer: false,
                straight: false,
                left: Box::new(left),
                right: Box::new(tree),
                on: Vec::new(),
            },
        });
    }
    Ok(from)
}

fn table_ref(binder: &mut Binder<'_>, from: &mut From, table: &TableRef) -> SqlResult<Part> {
    match table {
        TableRef::Table { name, alias, partitions, hints } => {
            if !partitions.is_empty() {
                return Err(errors::not_supported_yet("PARTITION"));
            }
            if name.db.is_none()
                && let Some(common) = binder.common.iter().rev().find(|c| c.name == name.name)
            {
                let (plan, columns) = (common.plan.clone(), common.columns.clone());
                if let Body::Working(working) = &plan.body {
                    if !binder.reads.is_empty() {
                        return Err(errors::not_standard_compliant_recursive(&name.name));
                    }
                    binder.working_uses.push(working.number);
                }
                let alias = alias.as_deref().unwrap_or(&name.name).to_string();
                return Ok((add_derived(binder, from, plan, &alias, &columns)?, Vec::new()));
            }
            if name.db.is_none() && binder.later_common.contains(&name.name) {
                return Err(errors::not_supported_yet("a table of WITH RECURSIVE before its definition"));
            }
            let def = binder.table(name.db.as_deref(), &name.name, alias.as_deref())?;
            for hint in hints {
                for index in &hint.indexes {
                    if def.index_position(index).is_none() {
                        return Err(errors::key_does_not_exist(
                            index,
                            alias.as_deref().unwrap_or(&name.name),
                        ));
                    }
                }
            }
            let slot = from.leaves.len() as u16;
            let entry = ScopeTable::of(slot, def.clone(), alias.as_deref());
            from.leaves.push(Leaf {
                slot,
                alias: entry.alias.clone(),
                needed: vec![false; def.columns.len()],
                kind: LeafKind::Table(def, hints.clone()),
            });
            binder.scope_mut().add_table(entry)?;
            Ok((FromTree::Leaf(slot), Vec::new()))
        }
        TableRef::Derived { query, alias } => {
            let alias = alias.as_deref().ok_or_else(errors::derived_must_have_alias)?;
            binder.derived_depth += 1;
            let part = derived(binder, from, query, alias);
            binder.derived_depth -= 1;
            part
        }
        TableRef::Join { kind, natural, left, right, on } => {
            let start = from.leaves.len();
            let (left_tree, left_own) = table_ref(binder, from, left)?;
            let middle = from.leaves.len();
            let (right_tree, right_own) = table_ref(binder, from, right)?;
            let end = from.leaves.len();
            let mut conditions = Vec::new();
            match on {
                JoinCondition::On(tree) => {
                    binder.scope_mut().visible = Some(start..end);
                    let bound = binder.bind_condition(tree, Clause::On);
                    binder.scope_mut().visible = None;
                    match bound {
                        Ok(bound) => conditions = bound,
                        Err(error) => drop(from.error.get_or_insert(error)),
                    }
                }
                JoinCondition::Using(columns) => {
                    for column in columns {
                        conditions.push(merge(binder, column, start..middle, middle..end, *kind)?);
                    }
                }
                JoinCondition::None if *natural => {
                    for column in common_columns(binder, start..middle, middle..end) {
                        conditions.push(merge(binder, &column, start..middle, middle..end, *kind)?);
                    }
                }
                JoinCondition::None => {}
            }
            let nullable = match kind {
                JoinKind::Left => middle..end,
                JoinKind::Right => start..middle,
                JoinKind::Inner | JoinKind::Straight => 0..0,
            };
            for table in &mut binder.scope_mut().tables[nullable] {
                table.outer_joined = true;
            }
            let outer = matches!(kind, JoinKind::Left | JoinKind::Right);
            // What a derived table filters goes before the join: with ON where its side may be empty, else with WHERE.
            let mut above = Vec::new();
            for (own, may_be_empty) in
                [(left_own, *kind == JoinKind::Right), (right_own, *kind == JoinKind::Left)]
            {
                if may_be_empty { conditions.extend(own) } else { above.extend(own) }
            }
            let (left, right) =
                if *kind == JoinKind::Right { (right_tree, left_tree) } else { (left_tree, right_tree) };
            let joined = FromTree::Join {
                outer,
                straight: *kind == JoinKind::Straight,
                left: Box::new(left),
                right: Box::new(right),
                on: conditions,
            };
            Ok((joined, above))
        }
    }
}

fn derived(binder: &mut Binder<'_>, from: &mut From, query: &Query, alias: &str) -> SqlResult<Part> {
    if let Some(merged) = merge::derived(binder, from, query, alias)? {
        return Ok(merged);
    }
    let plan = Arc::new(bind_apart(binder, query)?);
    Ok((add_derived(binder, from, plan, alias, &[])?, Vec::new()))
}

/// Plans a query that sees nothing of what stands around it.
pub(super) fn bind_apart(binder: &mut Binder<'_>, query: &Query) -> SqlResult<SelectPlan> {
    apart(binder, |binder| build::plan_query(binder, query))
}

/// Plans something that sees nothing of what stands around it.
pub(super) fn apart(
    binder: &mut Binder<'_>,
    plan: impl FnOnce(&mut Binder<'_>) -> SqlResult<SelectPlan>,
) -> SqlResult<SelectPlan> {
    let scopes = std::mem::replace(&mut binder.scopes, vec![Scope::default()]);
    let reads = std::mem::take(&mut binder.reads);
    let clause = binder.clause;
    let in_aggregate = std::mem::take(&mut binder.in_aggregate);
    let in_window = std::mem::take(&mut binder.in_window);
    let plan = plan(binder);
    binder.scopes = scopes;
    binder.reads = reads;
    binder.clause = clause;
    (binder.in_aggregate, binder.in_window) = (in_aggregate, in_window);
    plan
}

fn add_derived(
    binder: &mut Binder<'_>,
    from: &mut From,
    plan: Arc<SelectPlan>,
    alias: &str,
    renamed: &[String],
) -> SqlResult<FromTree> {
    let described = &plan.columns().columns;
    if !renamed.is_empty() && renamed.len() != described.len() {
        return Err(errors::with_col_wrong_list());
    }
    let mut columns: Vec<ScopeColumn> = Vec::with_capacity(described.len());
    for (index, (meta, (ty, nullable))) in described.iter().zip(&plan.types).enumerate() {
        let name: Arc<str> = renamed.get(index).map_or_else(|| meta.name.clone(), |n| n.as_str().into());
        if columns.iter().any(|c| names::same(&c.name, &name)) {
            return Err(errors::dup_fieldname(name));
        }
        columns.push(ScopeColumn {
            name,
            ty: local_type(ty),
            nullable: *nullable,
            invisible: false,
            derivation: Derivation::Implicit,
        });
    }
    let slot = from.leaves.len() as u16;
    let layout = result_layout(plan.types.iter().map(|(ty, _)| ty));
    from.leaves.push(Leaf {
        slot,
        alias: alias.into(),
        needed: vec![false; columns.len()],
        kind: LeafKind::Derived(plan, layout),
    });
    binder.scope_mut().add_table(ScopeTable {
        slot,
        schema: "".into(),
        name: alias.into(),
        alias: alias.into(),
        columns: columns.into(),
        def: None,
        outer_joined: false,
    })?;
    Ok(FromTree::Leaf(slot))
}

/// A result's type as a column: timestamps are local times from here on.
pub(crate) fn local_type(ty: &SqlType) -> SqlType {
    if ty.kind == TypeKind::Timestamp {
        SqlType::temporal(TypeKind::DateTime, ty.decimals)
    } else {
        ty.clone()
    }
}

type Range = std::ops::Range<usize>;

/// Names that occur on both sides of a NATURAL JOIN, in order of the left side.
fn common_columns(binder: &Binder<'_>, left: Range, right: Range) -> Vec<String> {
    let scope = binder.scope();
    let has = |tables: Range, name: &str| scope.tables[tables].iter().any(|t| t.position(name).is_some());
    let mut out: Vec<String> = Vec::new();
    for table in &scope.tables[left] {
        for column in table.columns.iter().filter(|c| !c.invisible) {
            if has(right.clone(), &column.name) && !out.iter().any(|n| names::same(n, &column.name)) {
                out.push(column.name.to_string());
            }
        }
    }
    out
}

/// One column of USING: the condition, and the merged column in the scope.
fn merge(binder: &mut Binder<'_>, name: &str, left: Range, right: Range, kind: JoinKind) -> SqlResult<Expr> {
    let (l, left_parts) = side(binder, name, left)?;
    let (r, right_parts) = side(binder, name, right)?;
    let scope = binder.scopes.len() - 1;
    [&l, &r].into_iter().for_each(|read| binder.note_reads(scope, read, false));
    let kept = if kind == JoinKind::Right { r.clone() } else { l.clone() };
    let parts: Vec<(u16, u16)> = left_parts.into_iter().chain(right_parts).collect();
    let scope = binder.scope_mut();
    scope.merged.retain(|m| !names::same(&m.name, name));
    scope.merged.push(MergedColumn { name: name.into(), expr: kept, parts });
    binder.compare(CompareOp::Eq, l, r)
}

/// The column of a name on one side, and the places it stands for.
fn side(binder: &Binder<'_>, name: &str, tables: Range) -> SqlResult<(Expr, Vec<(u16, u16)>)> {
    let scope = binder.scope();
    if let Some(merged) = scope.merged.iter().find(|m| {
        names::same(&m.name, name) && m.parts.iter().all(|(slot, _)| tables.contains(&(*slot as usize)))
    }) {
        return Ok((merged.expr.clone(), merged.parts.clone()));
    }
    let mut found = None;
    for table in &scope.tables[tables] {
        if let Some(index) = table.position(name) {
            if found.is_some() {
                return Err(errors::non_uniq(name, "FROM"));
            }
            found = Some((table.column(index), vec![(table.slot, index as u16)]));
        }
    }
    found.ok_or_else(|| errors::bad_field(name, "FROM"))
}

/// The expressions and names of `*` or `table.*`.
pub(super) fn wildcard(
    binder: &Binder<'_>,
    db: Option<&str>,
    table: Option<&str>,
) -> SqlResult<Vec<(Expr, Arc<str>)>> {
    let scope = binder.scope();
    if scope.tables.is_empty() {
        return Err(errors::no_tables_used());
    }
    let mut out = Vec::new();
    let mut any = false;
    let hidden = |slot: u16, column: u16| {
        table.is_none() && scope.merged.iter().any(|m| m.parts.contains(&(slot, column)))
    };
    if table.is_none() {
        out.extend(scope.merged.iter().map(|m| (m.expr.clone(), m.name.clone())));
    }
    for entry in &scope.tables {
        if table.is_some_and(|t| *t != *entry.alias) || db.is_some_and(|d| *d != *entry.schema) {
            continue;
        }
        any = true;
        for (index, column) in entry.columns.iter().enumerate() {
            if !column.invisible && !hidden(entry.slot, index as u16) {
                out.push((entry.column(index), column.name.clone()));
            }
        }
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
