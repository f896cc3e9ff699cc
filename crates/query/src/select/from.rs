//! FROM: names to tables, joins to a tree with bound conditions, USING and NATURAL to merged columns.

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, errors};
use keel_sql::ast::{ColumnName, JoinCondition, JoinKind, Query, TableRef};

use keel_value::{SqlType, TypeKind};

use super::carry::result_layout;
use super::{Body, SelectPlan, build, merge, view};
use crate::bind::{Binder, Clause, MergedColumn, Scope, ScopeColumn, ScopeTable, ViewPart};
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
    /// ORDER BY of a merged view, for a query without one.
    pub order: Vec<(Expr, bool)>,
    /// What views ask of new rows.
    pub checks: Vec<Expr>,
    /// Sides of outer joins, around what is being bound, that may be empty.
    pub empty_sides: u32,
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
pub(super) type Part = (FromTree, Vec<Expr>);

/// Binds FROM into the innermost scope.
pub(super) fn bind(binder: &mut Binder<'_>, tables: &[TableRef]) -> SqlResult<From> {
    let mut from = From::default();
    for table in tables {
        let (tree, conditions) = table_ref(binder, &mut from, table)?;
        from.conditions.extend(conditions);
        from.tree = Some(crossed(from.tree.take(), tree));
    }
    Ok(from)
}

/// A table beside those before it.
pub(super) fn crossed(before: Option<FromTree>, tree: FromTree) -> FromTree {
    let Some(left) = before else { return tree };
    FromTree::Join {
        outer: false,
        straight: false,
        left: Box::new(left),
        right: Box::new(tree),
        on: Vec::new(),
    }
}

pub(super) fn table_ref(binder: &mut Binder<'_>, from: &mut From, table: &TableRef) -> SqlResult<Part> {
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
                return Ok((add_derived(binder, from, plan, Title::of(&alias), &columns)?, Vec::new()));
            }
            if name.db.is_none() && binder.later_common.contains(&name.name) {
                return Err(errors::not_supported_yet("a table of WITH RECURSIVE before its definition"));
            }
            if let Some(found) = binder.find_view(name.db.as_deref(), &name.name) {
                if let Some(notes) = &mut binder.whole_names {
                    notes.note_database(table, &found.schema);
                }
                if let Some(index) = hints.iter().flat_map(|h| &h.indexes).next() {
                    let alias = alias.as_deref().unwrap_or(&name.name);
                    return Err(errors::key_does_not_exist(index, alias));
                }
                return view::add(binder, from, &found, alias.as_deref());
            }
            let def = binder.table(name.db.as_deref(), &name.name, alias.as_deref())?;
            if let Some(notes) = &mut binder.whole_names {
                notes.note_database(table, &def.schema);
            }
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
            let entry = binder.scope_table(slot, def.clone(), alias.as_deref())?;
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
            let start = binder.scope().tables.len();
            let (left_tree, left_own) = side_of(binder, from, left, *kind == JoinKind::Right)?;
            let middle = binder.scope().tables.len();
            let (right_tree, right_own) = side_of(binder, from, right, *kind == JoinKind::Left)?;
            let end = binder.scope().tables.len();
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
                        conditions.push(merge(binder, table, column, start..middle, middle..end, *kind)?);
                    }
                }
                JoinCondition::None if *natural => {
                    for column in common_columns(binder, start..middle, middle..end) {
                        conditions.push(merge(binder, table, &column, start..middle, middle..end, *kind)?);
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

/// One side of a join.
fn side_of(
    binder: &mut Binder<'_>,
    from: &mut From,
    table: &TableRef,
    may_be_empty: bool,
) -> SqlResult<Part> {
    from.empty_sides += u32::from(may_be_empty);
    let part = table_ref(binder, from, table);
    from.empty_sides -= u32::from(may_be_empty);
    part
}

fn derived(binder: &mut Binder<'_>, from: &mut From, query: &Query, alias: &str) -> SqlResult<Part> {
    if let Some(merged) = merge::derived(binder, from, query, alias)? {
        return Ok(merged);
    }
    let plan = Arc::new(bind_apart(binder, query)?);
    Ok((add_derived(binder, from, plan, Title::of(alias), &[])?, Vec::new()))
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

/// What a table whose rows are gathered is called.
#[derive(Clone, Copy)]
pub(super) struct Title<'a> {
    /// Empty but for views.
    pub schema: &'a str,
    pub name: &'a str,
    pub alias: &'a str,
}

impl<'a> Title<'a> {
    /// Of a derived table.
    fn of(alias: &'a str) -> Title<'a> {
        Title { schema: "", name: alias, alias }
    }
}

pub(super) fn add_derived(
    binder: &mut Binder<'_>,
    from: &mut From,
    plan: Arc<SelectPlan>,
    title: Title<'_>,
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
        alias: title.alias.into(),
        needed: vec![false; columns.len()],
        kind: LeafKind::Derived(plan, layout),
    });
    binder.scope_mut().add_table(ScopeTable {
        slot,
        schema: title.schema.into(),
        name: title.name.into(),
        alias: title.alias.into(),
        columns: columns.into(),
        def: None,
        outer_joined: false,
        view: ViewPart::None,
        worked_out: Vec::new(),
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
    let has = |tables: Range, name: &str| {
        scope.tables[tables].iter().any(|t| !t.is_hidden() && t.position(name).is_some())
    };
    let mut out: Vec<String> = Vec::new();
    for table in scope.tables[left].iter().filter(|t| !t.is_hidden()) {
        for column in table.columns.iter().filter(|c| !c.invisible) {
            if has(right.clone(), &column.name) && !out.iter().any(|n| names::same(n, &column.name)) {
                out.push(column.name.to_string());
            }
        }
    }
    out
}

/// One column of USING: the condition, and the merged column in the scope.
fn merge(
    binder: &mut Binder<'_>,
    join: &TableRef,
    name: &str,
    left: Range,
    right: Range,
    kind: JoinKind,
) -> SqlResult<Expr> {
    let (l, left_parts) = side(binder, name, left)?;
    let (r, right_parts) = side(binder, name, right)?;
    let innermost = binder.scopes.len() - 1;
    for (place, column) in left_parts.iter().chain(&right_parts) {
        binder.note_column(innermost, *place, *column as usize, false);
    }
    let whole = |parts: &[(usize, u16)]| {
        let (table, column) = parts.first()?;
        binder.whole_name_of(&binder.scope().tables[*table], *column as usize)
    };
    let pair = whole(&left_parts).zip(whole(&right_parts));
    if let (Some(notes), Some(pair)) = (&mut binder.whole_names, pair) {
        notes.note_join(join, pair);
    }
    let kept = if kind == JoinKind::Right { r.clone() } else { l.clone() };
    let parts: Vec<(usize, u16)> = left_parts.into_iter().chain(right_parts).collect();
    let scope = binder.scope_mut();
    scope.merged.retain(|m| !names::same(&m.name, name));
    scope.merged.push(MergedColumn { name: name.into(), expr: kept, parts });
    binder.compare(CompareOp::Eq, l, r)
}

/// The column of a name on one side, and the places it stands for.
fn side(binder: &Binder<'_>, name: &str, tables: Range) -> SqlResult<(Expr, Vec<(usize, u16)>)> {
    let scope = binder.scope();
    if let Some(merged) = scope
        .merged
        .iter()
        .find(|m| names::same(&m.name, name) && m.parts.iter().all(|(place, _)| tables.contains(place)))
    {
        return Ok((merged.expr.clone(), merged.parts.clone()));
    }
    let mut found = None;
    for place in tables {
        let table = &scope.tables[place];
        if let Some(index) = table.position(name).filter(|_| !table.is_hidden()) {
            if found.is_some() {
                return Err(errors::non_uniq(name, "FROM"));
            }
            found = Some((table.column(index), vec![(place, index as u16)]));
        }
    }
    found.ok_or_else(|| errors::bad_field(name, "FROM"))
}

/// A column that a `*` stands for.
pub(super) enum Listed {
    /// One of USING or NATURAL, by its number.
    Merged(usize),
    /// One of a table: place of the table, column.
    Of(usize, usize),
}

/// The columns of `*` or `table.*`.
pub(super) fn wildcard(binder: &Binder<'_>, db: Option<&str>, table: Option<&str>) -> SqlResult<Vec<Listed>> {
    let scope = binder.scope();
    if scope.tables.is_empty() {
        return Err(errors::no_tables_used());
    }
    let mut out = Vec::new();
    let mut any = false;
    let hidden = |place: usize, column: u16| {
        table.is_none() && scope.merged.iter().any(|m| m.parts.contains(&(place, column)))
    };
    if table.is_none() {
        out.extend((0..scope.merged.len()).map(Listed::Merged));
    }
    for (place, entry) in scope.tables.iter().enumerate().filter(|(_, entry)| !entry.is_hidden()) {
        if table.is_some_and(|t| *t != *entry.alias) || db.is_some_and(|d| *d != *entry.schema) {
            continue;
        }
        any = true;
        for (index, column) in entry.columns.iter().enumerate() {
            if !column.invisible && !hidden(place, index as u16) {
                out.push(Listed::Of(place, index));
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

impl Listed {
    /// Its value and its name.
    pub fn value(&self, scope: &Scope) -> (Expr, Arc<str>) {
        match *self {
            Listed::Merged(number) => (scope.merged[number].expr.clone(), scope.merged[number].name.clone()),
            Listed::Of(place, index) => {
                let table = &scope.tables[place];
                (table.column(index), table.columns[index].name.clone())
            }
        }
    }

    /// How it is written in full; of merged columns the one whose value they have.
    pub fn whole_name(&self, scope: &Scope) -> Option<ColumnName> {
        match *self {
            Listed::Merged(number) => scope.whole_name(&scope.merged[number].expr),
            Listed::Of(place, index) => Some(scope.tables[place].whole_name(index)),
        }
    }
}
