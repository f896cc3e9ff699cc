//! Binding of WITH and WITH RECURSIVE: which tables read each other, and which parts of a recursion are its anchors.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_catalog::names;
use keel_context::result::ResultColumns;
use keel_exec::select::carry::{local_type, result_layout};
use keel_exec::select::recursive::{RecursivePlan, WorkingPlan};
use keel_exec::select::{Body, SelectPlan};
use keel_sql::ast::{CommonTable as Tree, QueryBody, SetOp, SetOperand, With};
use keel_value::{SqlType, TypeKind};

use crate::bind::Binder;
use crate::select::{build, from, union};

/// A table that WITH names, while binding.
#[derive(Clone)]
pub(crate) struct CommonTable {
    pub(crate) name: String,
    pub plan: Arc<SelectPlan>,
    pub(crate) columns: Vec<String>,
    /// The recursion whose last round it reads.
    pub(crate) round_of: Option<Round>,
}

/// The recursion whose rows a table of WITH gives while a recursive part is bound.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Round {
    /// The recursion's number.
    pub number: u32,
    /// Subqueries around the recursive part.
    subquery_depth: u32,
    /// Derived tables around the recursive part.
    derived_depth: usize,
}

/// Binds the tables of WITH RECURSIVE, those that a table reads before it. Of tables that read each other one must have anchors:
/// it is the recursion, and the others are what its parts make of its rows.
pub(super) fn bind_with(binder: &mut Binder<'_>, with: &With) -> SqlResult<()> {
    let outer = std::mem::take(&mut binder.later_common);
    let bound = in_order(&with.tables).and_then(|order| {
        for (at, step) in order.iter().enumerate() {
            binder.later_common = order[at + 1..].iter().map(|later| later.table.name.clone()).collect();
            bind_table(binder, step)?;
        }
        Ok(())
    });
    binder.later_common = outer;
    bound
}

fn bind_table(binder: &mut Binder<'_>, step: &Step<'_>) -> SqlResult<()> {
    binder.derived_depth += 1;
    let plan = from::apart(binder, |binder| plan(binder, step));
    binder.derived_depth -= 1;
    let (name, columns) = (step.table.name.clone(), step.table.columns.clone());
    binder.common.push(CommonTable { name, plan: Arc::new(plan?), columns, round_of: None });
    Ok(())
}

/// A table of WITH RECURSIVE, and those that its parts read its rows through, each behind those that it reads.
struct Step<'w> {
    table: &'w Tree,
    through: Vec<&'w Tree>,
}

impl Step<'_> {
    /// Whether a name is the table or reads its rows while it is being made.
    fn is_own(&self, name: &str) -> bool {
        names::same(name, &self.table.name) || self.through.iter().any(|table| names::same(name, &table.name))
    }
}

/// The tables in the order of binding.
fn in_order(tables: &[Tree]) -> SqlResult<Vec<Step<'_>>> {
    let count = tables.len();
    let mut reaches: Vec<Vec<bool>> = tables
        .iter()
        .map(|table| {
            tables.iter().map(|other| reads(table, &|name| names::same(name, &other.name))).collect()
        })
        .collect();
    for via in 0..count {
        let beyond = reaches[via].clone();
        for own in reaches.iter_mut().filter(|own| own[via]) {
            own.iter_mut().zip(&beyond).for_each(|(reached, more)| *reached |= more);
        }
    }
    // Whoever reads more of the others comes later; equal ones stay as they were written.
    let others = |table: &usize| (0..count).filter(|other| other != table && reaches[*table][*other]).count();
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by_key(others);
    let mut steps: Vec<Step<'_>> = Vec::with_capacity(count);
    for &table in &order {
        let is_mutual = |other: usize| other != table && reaches[table][other] && reaches[other][table];
        let group: Vec<usize> = (0..count).filter(|other| *other == table || is_mutual(*other)).collect();
        if group.len() > 1 && steps.iter().any(|step| step.table.name == tables[group[0]].name) {
            continue;
        }
        if group.len() == 1 {
            steps.push(Step { table: &tables[table], through: Vec::new() });
            continue;
        }
        let group: Vec<&Tree> = group.into_iter().map(|member| &tables[member]).collect();
        let leader = leader_of(&group)?;
        let through = behind(leader, &group)?;
        steps.push(Step { table: leader, through: through.clone() });
        steps.extend(through.into_iter().map(|table| Step { table, through: Vec::new() }));
    }
    Ok(steps)
}

/// The one with anchors among tables that read each other. Without a table that has anchors the others must not be
/// recursive.
fn leader_of<'w>(group: &[&'w Tree]) -> SqlResult<&'w Tree> {
    let in_group = |name: &str| group.iter().any(|table| names::same(name, &table.name));
    let mut leader = None;
    let mut several = false;
    for &table in group {
        if operands_of(table, &in_group).iter().any(|operand| !operand.recursive) {
            behind(table, group)?;
            several |= leader.replace(table).is_some();
        }
    }
    if several {
        return Err(errors::not_supported_yet(
            "WITH RECURSIVE of several tables with anchors that name each other",
        ));
    }
    leader.ok_or_else(|| errors::recursive_without_anchors(&group[0].name))
}

/// The rest of the group, each behind those that it reads; without the leader none may reach itself.
fn behind<'w>(leader: &Tree, group: &[&'w Tree]) -> SqlResult<Vec<&'w Tree>> {
    let mut rest: Vec<&Tree> = group.iter().copied().filter(|table| table.name != leader.name).collect();
    let mut ordered = Vec::with_capacity(rest.len());
    while !rest.is_empty() {
        let reads_none =
            |table: &&Tree| !reads(table, &|name| rest.iter().any(|other| names::same(name, &other.name)));
        let Some(next) = rest.iter().position(reads_none) else {
            return Err(errors::unacceptable_mutual_recursion(&leader.name));
        };
        ordered.push(rest.remove(next));
    }
    Ok(ordered)
}

/// Whether a table's query reads one that `is_it` accepts.
fn reads(table: &Tree, is_it: &dyn Fn(&str) -> bool) -> bool {
    operands_of(table, is_it).iter().any(|operand| operand.recursive)
}

/// Whether the tables of a recursive table's own WITH hide the recursive table from its parts. MariaDB resolves the
/// names of a WITH without RECURSIVE last.
fn hides(with: &With, name: &str) -> bool {
    with.recursive && with.tables.iter().any(|own| names::same(&own.name, name))
}

/// Whether the tables of a WITH read one that `is_it` accepts.
fn with_reads(with: &With, is_it: &dyn Fn(&str) -> bool) -> bool {
    for table in &with.tables {
        let is_same = is_it(&table.name);
        if !(is_same && with.recursive) && table.query.reads(is_it) {
            return true;
        }
        if is_same {
            return false;
        }
    }
    false
}

/// A part of a recursive query: what joins it to those before it, and whether it reads the table itself.
struct Operand<'q> {
    joined: Option<(SetOp, bool)>,
    body: &'q QueryBody,
    recursive: bool,
}

fn flatten<'q>(body: &'q QueryBody, out: &mut Vec<Operand<'q>>) {
    match body {
        QueryBody::SetOps { first, rest } => {
            flatten(first, out);
            out.extend(rest.iter().map(|operand| Operand {
                joined: Some((operand.op, operand.all)),
                body: &operand.body,
                recursive: false,
            }));
        }
        body => out.push(Operand { joined: None, body, recursive: false }),
    }
}

/// The parts of a table's query; recursive are those that read a table which `is_own` accepts. Where the tables of its own
/// WITH read one, no part is an anchor.
fn operands_of<'t>(table: &'t Tree, is_own: &dyn Fn(&str) -> bool) -> Vec<Operand<'t>> {
    let mut operands = Vec::new();
    flatten(&table.query.body, &mut operands);
    let with = table.query.with.as_ref();
    let by_with = with.is_some_and(|with| with_reads(with, is_own));
    let is_own = |name: &str| is_own(name) && !with.is_some_and(|with| hides(with, name));
    for operand in &mut operands {
        operand.recursive = by_with || operand.body.reads(&is_own);
    }
    operands
}

fn plan(binder: &mut Binder<'_>, step: &Step<'_>) -> SqlResult<SelectPlan> {
    let table = step.table;
    let query = &*table.query;
    let operands = operands_of(table, &|name| step.is_own(name));
    if !operands.iter().any(|operand| operand.recursive) {
        let plan = build::plan_query(binder, query)?;
        check_width(table, &plan)?;
        return Ok(plan);
    }
    if operands.iter().all(|operand| operand.recursive) {
        return Err(errors::recursive_without_anchors(&table.name));
    }
    if !query.order_by.is_empty() || query.limit.is_some() {
        return Err(errors::not_supported_yet("global ORDER_BY/LIMIT in recursive CTE spec"));
    }
    let joins: Vec<(SetOp, bool)> = operands.iter().filter_map(|operand| operand.joined).collect();
    if joins.iter().any(|(op, _)| *op != SetOp::Union) {
        return Err(errors::not_supported_yet("EXCEPT and INTERSECT in recursive CTE spec"));
    }
    let all = joins.iter().all(|(_, all)| *all);
    if joins.iter().any(|(_, own)| *own != all) {
        return Err(errors::not_supported_yet(
            "mix of ALL and DISTINCT UNION operations in recursive CTE spec",
        ));
    }
    let known = binder.common.len();
    if let Some(with) = &query.with {
        build::bind_with(binder, with)?;
    }
    let own = binder.common[known..].to_vec();
    let anchors = plan_anchors(binder, &operands, all)?;
    binder.common.truncate(known);
    check_width(table, &anchors)?;
    plan_steps(binder, step, own, anchors, &operands, all)
}

fn check_width(table: &Tree, plan: &SelectPlan) -> SqlResult<()> {
    if !table.columns.is_empty() && table.columns.len() != plan.types.len() {
        return Err(errors::with_col_wrong_list());
    }
    Ok(())
}

fn operand(binder: &mut Binder<'_>, body: &QueryBody) -> SqlResult<SelectPlan> {
    match body {
        QueryBody::Select(select) => build::plan_select(binder, select, &[], None, None),
        QueryBody::Nested(query) => build::plan_query(binder, query),
        body => union::plan(binder, body, &[], None, None),
    }
}

fn plan_anchors(binder: &mut Binder<'_>, operands: &[Operand<'_>], all: bool) -> SqlResult<SelectPlan> {
    let mut anchors = operands.iter().filter(|operand| !operand.recursive).map(|operand| operand.body);
    let first = anchors.next().expect("some part is an anchor");
    let rest: Vec<SetOperand> =
        anchors.map(|body| SetOperand { op: SetOp::Union, all, body: body.clone() }).collect();
    if rest.is_empty() {
        return operand(binder, first);
    }
    let body = QueryBody::SetOps { first: Box::new(first.clone()), rest };
    union::plan(binder, &body, &[], None, None)
}

fn plan_steps(
    binder: &mut Binder<'_>,
    step: &Step<'_>,
    own: Vec<CommonTable>,
    anchors: SelectPlan,
    operands: &[Operand<'_>],
    all: bool,
) -> SqlResult<SelectPlan> {
    let table = step.table;
    let mut described = anchors.columns.columns.to_vec();
    let mut types = anchors.types.clone();
    let derivations = anchors.derivations.clone();
    for (index, (meta, (ty, nullable))) in described.iter_mut().zip(&mut types).enumerate() {
        *ty = column_type(ty);
        *nullable = true;
        let nothing: Arc<str> = "".into();
        (meta.schema, meta.table, meta.org_table) = (nothing.clone(), nothing.clone(), nothing);
        (meta.ty, meta.nullable, meta.flags) = (ty.clone(), true, 0);
        if let Some(name) = table.columns.get(index) {
            meta.name = name.as_str().into();
        }
        meta.org_name = meta.name.clone();
    }
    let columns =
        described.iter().zip(&types).map(|(meta, (ty, _))| (meta.name.clone(), ty.clone())).collect();
    let distinct = if !table.cycle.is_empty() {
        let place = |name: &String| {
            let place = described.iter().position(|meta| names::same(&meta.name, name));
            place.ok_or_else(|| errors::bad_field(name, "CYCLE clause"))
        };
        let places = table.cycle.iter().map(place).collect::<SqlResult<Vec<usize>>>()?;
        if let Some(twice) = (1..places.len()).find(|at| places[..*at].contains(&places[*at])) {
            return Err(errors::dup_fieldname(&table.cycle[twice]));
        }
        Some(places)
    } else {
        (!all).then(|| (0..types.len()).collect())
    };
    let described = ResultColumns::new(described);
    let layout = result_layout(types.iter().map(|(ty, _)| ty));
    binder.recursions += 1;
    let number = binder.recursions;
    let as_plan = |body: Body, binder: &Binder<'_>| SelectPlan {
        body,
        columns: described.clone(),
        types: types.clone(),
        derivations: derivations.clone(),
        tables: binder.tables.clone(),
        lock: None,
        into: Vec::new(),
        export: None,
        counts: binder.counts(),
    };
    let name = table.name.as_str().into();
    let working = WorkingPlan { number, name, layout: layout.clone(), width: types.len() };
    let working = Arc::new(as_plan(Body::Working(working), binder));
    let mut steps = Vec::new();
    for part in operands.iter().filter(|operand| operand.recursive) {
        let known = binder.common.len();
        let outer = std::mem::take(&mut binder.working_uses);
        let planned = enter(binder, step, &own, number, &working)
            .and_then(|()| from::apart(binder, |binder| operand(binder, part.body)));
        let uses = std::mem::replace(&mut binder.working_uses, outer);
        binder.common.truncate(known);
        let planned = planned?;
        if uses.iter().filter(|use_of| **use_of == number).count() > 1 {
            exceed_standard(binder, number, &table.name)?;
        }
        if planned.types.len() != types.len() {
            return Err(errors::wrong_number_of_columns_in_select());
        }
        steps.push(planned);
    }
    let reads_all = binder.free_recursions.contains(&number);
    let plan = RecursivePlan { number, anchors, steps, columns, layout, distinct, reads_all };
    Ok(as_plan(Body::Recursive(Box::new(plan)), binder))
}

/// Lets a part see the rows of the last round, what the other tables of its group make of them, and the tables of its own
/// WITH.
fn enter(
    binder: &mut Binder<'_>,
    step: &Step<'_>,
    own: &[CommonTable],
    number: u32,
    working: &Arc<SelectPlan>,
) -> SqlResult<()> {
    let known = binder.common.len();
    let (subquery_depth, derived_depth) = (binder.subquery_depth, binder.derived_depth);
    let round_of = Some(Round { number, subquery_depth, derived_depth });
    let (name, plan) = (step.table.name.clone(), working.clone());
    binder.common.push(CommonTable { name, plan, columns: Vec::new(), round_of });
    for table in &step.through {
        let outer = std::mem::take(&mut binder.working_uses);
        let plan = from::bind_apart(binder, &table.query);
        binder.working_uses = outer;
        let (name, plan) = (table.name.clone(), Arc::new(plan?));
        check_width(table, &plan)?;
        binder.common.push(CommonTable { name, plan, columns: table.columns.clone(), round_of });
    }
    let hides = step.table.query.with.as_ref().is_some_and(|with| with.recursive);
    let at = if hides { binder.common.len() } else { known };
    binder.common.splice(at..at, own.iter().cloned());
    Ok(())
}

/// Notes that a part uses a recursive table beyond what the standard allows; 4008 unless `standard_compliant_cte` is off.
pub(super) fn exceed_standard(binder: &mut Binder<'_>, number: u32, name: &str) -> SqlResult<()> {
    if binder.cx.session.vars.standard_compliant_cte {
        return Err(errors::not_standard_compliant_recursive(name));
    }
    binder.free_recursions.push(number);
    Ok(())
}

/// Notes that FROM names a table of WITH RECURSIVE within that table's own recursive part.
pub(super) fn note_use(binder: &mut Binder<'_>, round: Round, name: &str) -> SqlResult<()> {
    binder.working_uses.push(round.number);
    match binder.subquery_depth > round.subquery_depth {
        true => exceed_standard(binder, round.number, name),
        false => Ok(()),
    }
}

/// The type of a column that has an anchor's type: what later rounds add may have more digits than the anchor's literals.
fn column_type(ty: &SqlType) -> SqlType {
    let whole = matches!(ty.kind, TypeKind::Int | TypeKind::BigInt);
    let full = if ty.kind == TypeKind::Int { SqlType::int() } else { SqlType::bigint() };
    match ty {
        ty if whole => local_type(ty).with_length(full.length),
        ty if ty.is_string() => local_type(ty).with_decimals(0),
        ty => local_type(ty),
    }
}

/// Checks how FROM uses a recursion's rows: not on the empty side of an outer join and, in the recursive part itself, without
/// aggregates.
pub(super) fn check_use(from: &from::From, binder: &mut Binder<'_>, grouped: bool) -> SqlResult<()> {
    let mut exceeded = Vec::new();
    for table in &binder.scope().tables {
        let Some(working) = from.working(table.slot) else { continue };
        let is_round = |round: &Round| round.number == working.number;
        let round = binder.common.iter().rev().filter_map(|common| common.round_of).find(is_round);
        let is_part = round.is_none_or(|round| round.derived_depth == binder.derived_depth);
        if table.outer_joined || grouped && is_part {
            exceeded.push((working.number, working.name.clone()));
        }
    }
    exceeded.into_iter().try_for_each(|(number, name)| exceed_standard(binder, number, &name))
}
