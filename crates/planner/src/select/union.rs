//! Binding of UNION, EXCEPT, INTERSECT and VALUES.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_catalog::names;
use keel_context::result::{ColumnMeta, ResultColumns};
use keel_exec::aggregate::AggregateKind;
use keel_exec::select::block::{Block, SortKey};
use keel_exec::select::carry::{local_type, result_layout};
use keel_exec::select::setop::{Joined, Part, SetPlan};
use keel_exec::select::{Body, SelectPlan};
use keel_expr::func::{Function, function};
use keel_expr::{Derivation, EvalContext, Expr, Node, typing, walk};
use keel_sql::ast::{
    Expr as Tree, Limit, LockClause, OrderItem, Query, QueryBody, SetOp, SetOperand, SourceText,
};
use keel_storage::runtime::fiber;
use keel_value::types::{Class, NOT_FIXED, NOT_SPECIFIED, flags};
use keel_value::{SqlType, TypeKind, Value, ValueRef, collation};

use crate::bind::{Binder, Clause, Scope, ScopeColumn, ScopeTable};
use crate::select::build;

/// Whether the first SELECT of a body says SQL_CALC_FOUND_ROWS, which no other one may.
fn calc_found_rows(body: &QueryBody) -> SqlResult<bool> {
    match body {
        QueryBody::Select(select) => Ok(select.options.calc_found_rows),
        QueryBody::Values(..) => Ok(false),
        QueryBody::Nested(query) => calc_found_rows(&query.body),
        QueryBody::SetOps { first, rest } => {
            let found = calc_found_rows(first)?;
            for operand in rest {
                if calc_found_rows(&operand.body)? {
                    return Err(errors::cant_use_option_here("SQL_CALC_FOUND_ROWS"));
                }
            }
            Ok(found)
        }
    }
}

/// Plans a body that is no single SELECT. The lock clause behind it is the last SELECT's, unless that stands in parentheses.
pub fn plan(
    binder: &mut Binder<'_>,
    body: &QueryBody,
    order: &[OrderItem],
    limit: Option<&Limit>,
    lock: Option<&LockClause>,
) -> SqlResult<SelectPlan> {
    let ties = limit.is_some_and(|limit| limit.with_ties) && !order.is_empty();
    let calc_found_rows = calc_found_rows(body)?;
    let mut columns = Vec::new();
    let mut root = part(binder, body, lock, &mut columns)?;
    let (types, derivations) = common_types(binder, &root)?;
    convert(&mut root, &types);
    for (meta, (ty, nullable)) in columns.iter_mut().zip(&types) {
        meta.is_plain = false;
        meta.ty = ty.clone();
        meta.nullable = *nullable;
        meta.flags = 0;
        let nothing: Arc<str> = "".into();
        (meta.schema, meta.table, meta.org_table, meta.org_name) =
            (nothing.clone(), nothing.clone(), nothing, meta.name.clone());
    }
    let (order, limit, offset, once) = bind_tail(binder, &columns, order, limit)?;
    // Rows that pass through are not described as columns of a temporary table.
    if order.is_empty() && matches!(root, Part::Chain { .. }) && root.is_union_all() {
        for meta in &mut columns {
            meta.org_name = "".into();
            meta.is_plain = meta.ty.has_members();
            if meta.ty.is_string() || meta.is_plain {
                meta.ty.decimals = NOT_SPECIFIED;
            } else if !meta.ty.is_fixed() {
                meta.flags = flags::BINARY;
            }
        }
    }
    let plain: Vec<SqlType> = types.iter().map(|(ty, _)| ty.clone()).collect();
    let layout = result_layout(plain.iter());
    Ok(SelectPlan {
        body: Body::Set(Box::new(SetPlan {
            root,
            types: plain,
            layout,
            order,
            limit,
            offset,
            ties,
            calc_found_rows,
            once,
        })),
        columns: ResultColumns::new(columns),
        types,
        derivations,
        tables: binder.tables.clone(),
        lock: None,
        into: Vec::new(),
        export: None,
        counts: binder.counts(),
    })
}

fn part(
    binder: &mut Binder<'_>,
    body: &QueryBody,
    lock: Option<&LockClause>,
    columns: &mut Vec<ColumnMeta>,
) -> SqlResult<Part> {
    let plan = match body {
        QueryBody::SetOps { first, rest } => return chain(binder, first, rest, lock, columns),
        QueryBody::Values(rows, names) => return values(binder, rows, names, columns),
        QueryBody::Select(select) => build::plan_select(binder, select, &[], None, lock)?,
        QueryBody::Nested(query) if lock.is_some() => {
            build::plan_query(binder, &Query { lock: lock.cloned(), ..Query::clone(query) })?
        }
        QueryBody::Nested(query) => build::plan_query(binder, query)?,
    };
    if columns.is_empty() {
        columns.clone_from(&plan.columns.columns);
    }
    Ok(Part::Query(Box::new(plan)))
}

/// A chain; one that begins with another goes on with it.
fn chain(
    binder: &mut Binder<'_>,
    first: &QueryBody,
    operands: &[SetOperand],
    lock: Option<&LockClause>,
    columns: &mut Vec<ColumnMeta>,
) -> SqlResult<Part> {
    let (first, mut rest) = match part(binder, first, None, columns)? {
        Part::Chain { first, rest } => (first, rest),
        single => (Box::new(single), Vec::with_capacity(operands.len())),
    };
    for (number, SetOperand { op, all, body }) in operands.iter().enumerate() {
        let lock = lock.filter(|_| number + 1 == operands.len());
        rest.push(Joined { op: *op, all: *all, part: operand(binder, *op, body, lock, columns)? });
    }
    Ok(Part::Chain { first, rest })
}

/// The right side of a set operation. INTERSECT there within UNION or EXCEPT is a derived table in MariaDB: it has types of
/// its own, and its columns' names must differ.
fn operand(
    binder: &mut Binder<'_>,
    around: SetOp,
    body: &QueryBody,
    lock: Option<&LockClause>,
    columns: &mut Vec<ColumnMeta>,
) -> SqlResult<Part> {
    if around == SetOp::Intersect || !matches!(body, QueryBody::SetOps { .. }) {
        return part(binder, body, lock, columns);
    }
    let plan = plan(binder, body, &[], None, lock)?;
    let described = &plan.columns.columns;
    for (number, column) in described.iter().enumerate() {
        if described[..number].iter().any(|c| names::same(&c.name, &column.name)) {
            return Err(errors::dup_fieldname(&column.name));
        }
    }
    if columns.is_empty() {
        columns.clone_from(described);
    }
    Ok(Part::Query(Box::new(plan)))
}

fn values(
    binder: &mut Binder<'_>,
    rows: &[Vec<Tree>],
    names: &[SourceText],
    columns: &mut Vec<ColumnMeta>,
) -> SqlResult<Part> {
    binder.scopes.push(Scope::default());
    let pins = std::mem::replace(&mut binder.pins_literals, true);
    let bound: SqlResult<Vec<Vec<Expr>>> =
        rows.iter().map(|row| row.iter().map(|e| binder.bind(e, Clause::Fields)).collect()).collect();
    binder.pins_literals = pins;
    binder.pop_scope();
    let bound = bound?;
    let width = bound[0].len();
    if bound.iter().any(|row| row.len() != width) {
        return Err(errors::wrong_number_of_values_in_tvc());
    }
    if columns.is_empty() {
        for ((expr, tree), text) in bound[0].iter().zip(&rows[0]).zip(names) {
            let client = binder.cx.session.vars.client_collation;
            let name =
                crate::select::metadata::shortened(crate::select::metadata::item_name(tree, text), client);
            columns.push(crate::select::metadata::describe(expr, name.into(), &[]));
        }
    }
    Ok(Part::Rows(bound))
}

/// For each column its expressions in all parts, as stand-ins that carry type and nullability.
fn collect(part: &Part, out: &mut Vec<Vec<Expr>>) -> SqlResult<()> {
    let mut add = |row: Vec<Expr>| -> SqlResult<()> {
        if out.is_empty() {
            out.resize_with(row.len(), Vec::new);
        }
        if out.len() != row.len() {
            return Err(errors::wrong_number_of_columns_in_select());
        }
        for (column, expr) in out.iter_mut().zip(row) {
            column.push(expr);
        }
        Ok(())
    };
    match part {
        Part::Query(plan) => match &plan.body {
            Body::Block(block) => add(block.project.clone()),
            _ => {
                let columns = plan.types.iter().zip(&plan.derivations);
                add(columns.map(|((ty, nullable), by)| stand_in(ty, *nullable, *by)).collect())
            }
        },
        Part::Rows(rows) => rows.iter().try_for_each(|row| {
            fiber::tick();
            add(row.clone())
        }),
        Part::Chain { first, rest } => {
            collect(first, out)?;
            rest.iter().try_for_each(|joined| collect(&joined.part, out))
        }
    }
}

fn stand_in(ty: &SqlType, nullable: bool, derivation: Derivation) -> Expr {
    Expr { derivation, ..Expr::new(Node::Aggregate(0), ty.clone(), nullable) }
}

/// Types of the results, whether each may be NULL, and how strongly its collation binds.
type Common = (Vec<(SqlType, bool)>, Vec<Derivation>);

fn common_types(binder: &Binder<'_>, root: &Part) -> SqlResult<Common> {
    let mut columns = Vec::new();
    collect(root, &mut columns)?;
    columns.iter_mut().flatten().for_each(|expr| drop_zerofill(&mut expr.ty));
    let connection = binder.cx.session.vars.connection_collation;
    columns
        .iter()
        .map(|exprs| {
            let all: Vec<&Expr> = exprs.iter().collect();
            let (ty, derivation) = typing::aggregate(&all, connection, "UNION")?;
            if derivation == Derivation::None {
                return Err(errors::cant_aggregate_ncollations("UNION"));
            }
            Ok(((as_column(local_type(&ty)), exprs.iter().any(|e| e.nullable)), derivation))
        })
        .collect::<SqlResult<Vec<_>>>()
        .map(|columns| columns.into_iter().unzip())
}

/// The type of a result's column: TEXT and BLOB are as long as their kind may be, and text is no longer an expression's.
fn as_column(ty: SqlType) -> SqlType {
    match ty.is_blob() {
        true => SqlType { length: SqlType::new(ty.kind).length, decimals: 0, ..ty },
        false => ty,
    }
}

/// Set operations give numbers without leading zeros, integers as wide as their type.
fn drop_zerofill(ty: &mut SqlType) {
    if ty.zerofill {
        ty.zerofill = false;
        if ty.is_integer() {
            let signed = SqlType::new(ty.kind).length;
            ty.length = if ty.kind == TypeKind::BigInt { signed } else { signed - 1 };
        }
    }
}

/// A number on its way into a column of texts: bits as a number, FLOAT(m,d) and DOUBLE(m,d) with the digits they have.
fn shown_plainly(mut expr: Expr) -> Expr {
    drop_zerofill(&mut expr.ty);
    match expr.ty.kind {
        TypeKind::Float | TypeKind::Double => expr.ty.decimals = NOT_FIXED,
        TypeKind::Bit => {
            let (nullable, derivation) = (expr.nullable, expr.derivation);
            let ty = SqlType::bigint_unsigned();
            return Expr { node: Node::Convert(Box::new(expr)), ty, nullable, derivation };
        }
        _ => {}
    }
    expr
}

/// A number as text that ends where its column does. It has no name in SQL, and is not printed.
static CUT: Function = function!("cut", 1, 1, |_, args| Ok((args[0].ty.clone(), args[0].nullable)), cut);

fn cut<'f>(ty: &'f SqlType, args: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let text = args[0].eval(cx)?;
    Ok(match text.as_ref() {
        ValueRef::Bytes(text) => {
            Value::bytes(collation::substring(ty.collation, text, 0, ty.length as usize))
        }
        other => other.to_owned(),
    })
}

/// Quotients and means that become text keep all the digits that were computed.
fn keep_quotients(block: &mut Block, types: &[(SqlType, bool)]) {
    for (place, _) in types.iter().enumerate().filter(|(_, (ty, _))| ty.is_string()) {
        let is_mean =
            block.aggregate(&block.project[place]).is_some_and(|call| call.kind == AggregateKind::Avg);
        let expr = &mut block.project[place];
        if is_mean && expr.class() == Class::Decimal {
            expr.ty = typing::unrounded(&expr.ty);
        } else {
            typing::write_quotient_whole(expr);
        }
    }
}

/// Has every part give the common types.
fn convert(part: &mut Part, types: &[(SqlType, bool)]) {
    let adapt = |exprs: &mut Vec<Expr>| {
        for (expr, (ty, _)) in exprs.iter_mut().zip(types) {
            if !keel_expr::cast::same_representation(ty, &expr.ty) {
                let mut taken = std::mem::replace(expr, Expr::null());
                let (nullable, derivation) = (taken.nullable, taken.derivation);
                let is_unrounded = taken.ty.kind == TypeKind::Decimal && taken.ty.decimals == NOT_SPECIFIED;
                if ty.is_string() {
                    taken = shown_plainly(taken);
                }
                let converted = |node| Expr { node, ty: ty.clone(), nullable, derivation };
                *expr = converted(Node::Convert(Box::new(taken)));
                if is_unrounded {
                    let whole = std::mem::replace(expr, Expr::null());
                    *expr = converted(Node::Call(&CUT, Box::new([whole])));
                }
            }
        }
    };
    match part {
        Part::Chain { first, rest } => {
            convert(first, types);
            rest.iter_mut().for_each(|joined| convert(&mut joined.part, types));
        }
        Part::Rows(rows) => rows.iter_mut().for_each(|row| {
            fiber::tick();
            adapt(row);
        }),
        Part::Query(plan) => match &mut plan.body {
            Body::Block(block) => {
                keep_quotients(block, types);
                adapt(&mut block.project);
                block.layout = result_layout(block.project.iter().map(|e| &e.ty));
                if block.project.iter().any(|e| e.as_column().is_none()) {
                    block.direct = None;
                }
            }
            Body::Set(set) => {
                let own = std::mem::take(&mut set.types);
                set.types = own.into_iter().zip(types).map(|(_, (ty, _))| ty.clone()).collect();
                convert(&mut set.root, types);
                set.layout = result_layout(set.types.iter());
            }
            // Only FROM has these.
            Body::Recursive(_) | Body::Working(_) => {}
        },
    }
}

type Tail = (Vec<SortKey>, Option<Expr>, Option<Expr>, u32);

/// ORDER BY and LIMIT of the whole: they see the result's columns only.
fn bind_tail(
    binder: &mut Binder<'_>,
    columns: &[ColumnMeta],
    order: &[OrderItem],
    limit: Option<&Limit>,
) -> SqlResult<Tail> {
    let table = ScopeTable {
        slot: 0,
        schema: "".into(),
        name: "".into(),
        alias: "".into(),
        columns: columns
            .iter()
            .map(|meta| ScopeColumn {
                name: meta.name.clone(),
                ty: meta.ty.clone(),
                nullable: meta.nullable,
                invisible: false,
                derivation: Derivation::Implicit,
            })
            .collect(),
        def: None,
        outer_joined: false,
        view: crate::bind::ViewPart::None,
        worked_out: Vec::new(),
    };
    binder.scopes.push(Scope { tables: vec![table.clone()], ..Scope::default() });
    let bound =
        bind_order(binder, &table, order).and_then(|keys| Ok((keys, build::bind_limit(binder, limit)?)));
    let mut scope = binder.pop_scope();
    let (keys, (limit, offset)) = bound?;
    let mut order = Vec::with_capacity(keys.len());
    for (mut expr, descending) in keys {
        walk::hoist(&mut expr, &mut scope.once);
        order.push(build::sort_key((expr, descending)));
    }
    Ok((order, limit, offset, scope.once))
}

fn bind_order(
    binder: &mut Binder<'_>,
    table: &ScopeTable,
    order: &[OrderItem],
) -> SqlResult<Vec<(Expr, bool)>> {
    let pins = std::mem::replace(&mut binder.pins_literals, true);
    let bound = order
        .iter()
        .map(|item| {
            if let Tree::Column(name) = &item.expr
                && let Some(named) = &name.table
            {
                return Err(errors::tablename_not_allowed_here(named, "ORDER BY"));
            }
            let expr = match build::ordinal(binder, &item.expr) {
                Some(n) => match usize::try_from(n).ok().and_then(|n| n.checked_sub(1)) {
                    Some(index) if index < table.columns.len() => table.column(index),
                    _ => return Err(errors::bad_field(n, "ORDER BY")),
                },
                None => binder.bind(&item.expr, Clause::Order)?,
            };
            Ok((expr, item.desc))
        })
        .collect();
    binder.pins_literals = pins;
    bound
}
