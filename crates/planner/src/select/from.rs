//! FROM: names to tables, joins to a tree with bound conditions.

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, errors};
use keel_catalog::{TableDef, names};
use keel_exec::join::Matching;
use keel_exec::select::carry::{local_type, result_layout};
use keel_exec::select::{Body, SelectPlan, WorkingPlan};
use keel_expr::Expr;
use keel_sql::ast::{IndexHint, IndexHintKind, JoinCondition, JoinKind, Query, TableRef};

use crate::bind::{Binder, Clause, Scope, ScopeColumn, ScopeTable, ViewPart};
use crate::join::order::{FromTree, Leaf, LeafKind};
use crate::select::natural::{self, Columns};
use crate::select::{build, function, merge, view, with};

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
    /// Left sides of RIGHT JOINs around what is being bound: table functions there read the right side too, once it is
    /// bound.
    pub right_joins: u32,
    /// Slots that table functions may not read: what stands before a RIGHT JOIN comes behind its right side.
    pub hidden: u64,
    /// Slots of table functions whose documents are not bound yet.
    pub pending: Vec<u16>,
}

impl From {
    /// Tables whose rows may be read above the joins.
    pub fn lasting(&self) -> impl Iterator<Item = &Leaf> {
        self.leaves.iter().filter(|leaf| !leaf.merged)
    }

    /// The rows of a recursion's round that a slot reads.
    pub fn working(&self, slot: u16) -> Option<&WorkingPlan> {
        match &self.leaves.get(slot as usize)?.kind {
            LeafKind::Derived(plan, ..) => match &plan.body {
                Body::Working(working) => Some(working),
                _ => None,
            },
            LeafKind::Table(..) | LeafKind::Function(_) => None,
        }
    }
}

/// A part of FROM, with the conditions of derived tables that were merged into it.
pub(super) type Part = (FromTree, Vec<Expr>);

/// Binds FROM into the innermost scope.
pub(super) fn bind(binder: &mut Binder<'_>, tables: &[TableRef]) -> SqlResult<From> {
    let mut from = From::default();
    let (tree, conditions) = bind_list(binder, &mut from, tables)?;
    (from.tree, from.conditions) = (tree, conditions);
    Ok(from)
}

/// Binds a list of tables into the innermost scope; none has no tree.
pub fn bind_list(
    binder: &mut Binder<'_>,
    from: &mut From,
    tables: &[TableRef],
) -> SqlResult<(Option<FromTree>, Vec<Expr>)> {
    let mut tree = None;
    let mut conditions = Vec::new();
    let mut columns: Option<Columns> = None;
    for table in tables {
        let (next, own, listed) = operand(binder, from, table)?;
        conditions.extend(own);
        tree = Some(crossed(tree, next));
        columns = Some(match columns {
            Some(before) => before.and(listed, binder.scope()),
            None => listed,
        });
    }
    if let Some(Columns::Listed(listed)) = columns {
        binder.scope_mut().listed = Some(listed);
    }
    Ok((tree, conditions))
}

/// A table or a join, and what `*` and unqualified names mean of it.
fn operand(
    binder: &mut Binder<'_>,
    from: &mut From,
    table: &TableRef,
) -> SqlResult<(FromTree, Vec<Expr>, Columns)> {
    match table {
        TableRef::Join { .. } => join(binder, from, table),
        _ => {
            let start = binder.scope().tables.len();
            let (tree, conditions) = table_ref(binder, from, table)?;
            Ok((tree, conditions, Columns::Tables(start..binder.scope().tables.len())))
        }
    }
}

/// Refuses index hints of a table, shown as `shown`, that name no index of it or contradict each other.
pub fn check_hints(hints: &[IndexHint], def: &TableDef, shown: &str) -> SqlResult<()> {
    let mut names = hints.iter().flat_map(|hint| &hint.indexes);
    if let Some(unknown) = names.find(|index| def.hinted_index(index).is_none()) {
        return Err(errors::key_does_not_exist(unknown, shown));
    }
    let says = |kind| hints.iter().any(|hint| hint.kind == kind);
    match says(IndexHintKind::Use) && says(IndexHintKind::Force) {
        true => Err(errors::wrong_usage("USE INDEX", "FORCE INDEX")),
        false => Ok(()),
    }
}

/// A table beside those before it.
pub(super) fn crossed(before: Option<FromTree>, tree: FromTree) -> FromTree {
    let Some(left) = before else { return tree };
    FromTree::Join {
        kind: Matching::Inner,
        straight: false,
        left: Box::new(left),
        right: Box::new(tree),
        on: Vec::new(),
    }
}

fn table_ref(binder: &mut Binder<'_>, from: &mut From, table: &TableRef) -> SqlResult<Part> {
    match table {
        TableRef::Table { name, alias, partitions, hints } => {
            if !partitions.is_empty() {
                return Err(errors::partition_clause_on_nonpartitioned());
            }
            if name.db.is_none()
                && let Some(common) = binder.common.iter().rev().find(|c| names::same(&c.name, &name.name))
            {
                let (plan, columns) = (common.plan.clone(), common.columns.clone());
                if let Some(round) = common.round_of {
                    with::note_use(binder, round, &name.name)?;
                }
                let alias = alias.as_deref().unwrap_or(&name.name).to_string();
                return Ok((add_derived(binder, from, plan, Title::of(&alias), &columns)?, Vec::new()));
            }
            if name.db.is_none() && binder.later_common.iter().any(|later| names::same(later, &name.name)) {
                return Err(errors::not_supported_yet("this use of a table of WITH RECURSIVE"));
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
            check_hints(hints, &def, alias.as_deref().unwrap_or(&name.name))?;
            let slot = from.leaves.len() as u16;
            // Tables of `information_schema`, which any spelling finds, are called as they are spelled.
            let alias = match &*def.schema {
                "information_schema" => Some(alias.as_ref().unwrap_or(&name.name)),
                _ => alias.as_ref(),
            };
            let entry = binder.scope_table(slot, def.clone(), alias.map(String::as_str))?;
            from.leaves.push(Leaf {
                slot,
                alias: entry.alias.clone(),
                needed: vec![false; def.columns.len() + usize::from(def.row_number_column().is_some())],
                merged: false,
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
        TableRef::JsonTable(table) => Ok((function::add(binder, from, table)?, Vec::new())),
        TableRef::Join { .. } => join(binder, from, table).map(|(tree, conditions, _)| (tree, conditions)),
    }
}

fn join(
    binder: &mut Binder<'_>,
    from: &mut From,
    table: &TableRef,
) -> SqlResult<(FromTree, Vec<Expr>, Columns)> {
    let TableRef::Join { kind, natural, left, right, on } = table else {
        return operand(binder, from, table);
    };
    let start = binder.scope().tables.len();
    let first_slot = from.leaves.len();
    let turned = *kind == JoinKind::Right;
    from.right_joins += u32::from(turned);
    let left_part = side_of(binder, from, left, turned);
    from.right_joins -= u32::from(turned);
    let (left_tree, left_own, left_columns) = left_part?;
    let middle = binder.scope().tables.len();
    let left_slots = first_slot..from.leaves.len();
    let hidden = from.hidden;
    if turned {
        from.hidden |= function::bits(left_slots.clone());
    }
    let right_part = side_of(binder, from, right, *kind == JoinKind::Left);
    from.hidden = hidden;
    let (right_tree, right_own, right_columns) = right_part?;
    let end = binder.scope().tables.len();
    if turned && from.right_joins == 0 {
        function::bind_left(binder, from, left, left_slots)?;
    }
    // What a derived table filters goes before the join: with ON where its side may be empty, else with WHERE.
    let mut above = Vec::new();
    let (columns, mut conditions) = match on {
        JoinCondition::On(tree) => {
            let columns = left_columns.and(right_columns, binder.scope());
            let scope = binder.scope_mut();
            scope.visible = Some(start..end);
            scope.listed = columns.listed();
            let bound = binder.bind_condition(tree, Clause::On);
            let scope = binder.scope_mut();
            (scope.visible, scope.listed) = (None, None);
            let bound = bound.unwrap_or_else(|error| {
                from.error.get_or_insert(error);
                Vec::new()
            });
            (columns, bound)
        }
        JoinCondition::Using(names) => {
            natural::join(binder, table, (left_columns, right_columns), Some(names), *kind)?
        }
        JoinCondition::None if *natural => {
            natural::join(binder, table, (left_columns, right_columns), None, *kind)?
        }
        JoinCondition::None => (left_columns.and(right_columns, binder.scope()), Vec::new()),
    };
    let nullable = match kind {
        JoinKind::Left => middle..end,
        JoinKind::Right => start..middle,
        JoinKind::Inner | JoinKind::Straight => 0..0,
    };
    for table in &mut binder.scope_mut().tables[nullable] {
        table.outer_joined = true;
    }
    for (own, may_be_empty) in [(left_own, *kind == JoinKind::Right), (right_own, *kind == JoinKind::Left)] {
        if may_be_empty { conditions.extend(own) } else { above.extend(own) }
    }
    let (left, right) =
        if *kind == JoinKind::Right { (right_tree, left_tree) } else { (left_tree, right_tree) };
    let joined = FromTree::Join {
        kind: match kind {
            JoinKind::Left | JoinKind::Right => Matching::Outer,
            JoinKind::Inner | JoinKind::Straight => Matching::Inner,
        },
        straight: *kind == JoinKind::Straight,
        left: Box::new(left),
        right: Box::new(right),
        on: conditions,
    };
    Ok((joined, above, columns))
}

/// One side of a join.
fn side_of(
    binder: &mut Binder<'_>,
    from: &mut From,
    table: &TableRef,
    may_be_empty: bool,
) -> SqlResult<(FromTree, Vec<Expr>, Columns)> {
    from.empty_sides += u32::from(may_be_empty);
    let part = operand(binder, from, table);
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
    let typed = plan.types.iter().zip(&plan.derivations);
    for (index, (meta, ((ty, nullable), derivation))) in described.iter().zip(typed).enumerate() {
        let name: Arc<str> = renamed.get(index).map_or_else(|| meta.name.clone(), |n| n.as_str().into());
        if columns.iter().any(|c| names::same(&c.name, &name)) {
            return Err(errors::dup_fieldname(name));
        }
        columns.push(ScopeColumn {
            name,
            ty: local_type(ty),
            nullable: *nullable,
            invisible: false,
            derivation: *derivation,
        });
    }
    let slot = from.leaves.len() as u16;
    let layout = result_layout(plan.types.iter().map(|(ty, _)| ty));
    // As in MariaDB, also where its expressions would give other values each time.
    let keeps = binder.subquery_depth > 0 && !binder.rows_change;
    let kept_as = keeps.then(keel_exec::join::new_kept_name);
    from.leaves.push(Leaf {
        slot,
        alias: title.alias.into(),
        needed: vec![false; columns.len()],
        merged: false,
        kind: LeafKind::Derived(plan, layout, kept_as),
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
