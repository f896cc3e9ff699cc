//! Subqueries in expressions: bound and planned within the scopes around them.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_exec::select::{Body, Keyed, Origin, SelectPlan, Subquery, SubqueryTest};
use keel_expr::print::AGGREGATE_NAME;
use keel_expr::{CompareOp, Comparison, Derivation, Expr, Node, typing, walk};
use keel_sql::ast::{self, BinaryOp, Query};
use keel_value::SqlType;

use super::expr::type_word;
use super::scope::Place;
use super::{Binder, Clause, SubqueryReads};

impl Binder<'_> {
    fn subquery(
        &mut self,
        query: &Query,
        make: impl FnOnce(&mut Self, &SelectPlan) -> SqlResult<SubqueryTest>,
    ) -> SqlResult<Subquery> {
        let volatile = std::mem::take(&mut self.saw_volatile);
        let (planned, reads) = self.within(|binder| crate::select::plan_select(binder, query));
        let is_volatile = std::mem::replace(&mut self.saw_volatile, volatile);
        self.saw_volatile |= is_volatile;
        let plan = planned?;
        let test = make(self, &plan)?;
        let cell = self.new_once();
        let repeats = |operand: &Expr| {
            // It is worked out for the key, and again where the answer is not kept: without a warning, and cheaply.
            operand.as_column().is_some() || operand.is_constant()
        };
        let keeps =
            !reads.is_empty() && !is_volatile && !self.rows_change && test.operands().iter().all(repeats);
        let memo = keeps.then(|| self.new_once());
        let keyed = if keeps { self.keyed(query, &plan, &test)? } else { None };
        let reduced = self.is_reduced(query, &plan, &test);
        Ok(Subquery { test, plan: Arc::new(plan), reads, volatile: is_volatile, cell, memo, keyed, reduced })
    }

    /// Whether MariaDB puts the query's only item in its place; notes the SELECT if so.
    fn is_reduced(&mut self, query: &Query, plan: &SelectPlan, test: &SubqueryTest) -> bool {
        let (ast::QueryBody::Select(select), Body::Block(block)) = (&query.body, &plan.body) else {
            return false;
        };
        let is_bare = select.from.is_empty()
            && select.filter.is_none()
            && select.having.is_none()
            && block.windows.is_none()
            && block.group.as_ref().is_none_or(|group| group.aggregates.is_empty());
        let [item] = &block.project[..] else { return false };
        let takes = match test {
            SubqueryTest::Scalar(_) => !matches!(item.node, Node::Column(_) | Node::Outer { .. }),
            SubqueryTest::In { .. } | SubqueryTest::Quantified { .. } => true,
            SubqueryTest::Exists | SubqueryTest::Row { .. } => false,
        };
        let mut aggregates = false;
        walk::visit(item, &mut |part| {
            aggregates |= match &part.node {
                Node::Above { .. } => true,
                Node::Outer { column, .. } => &*column.name == AGGREGATE_NAME,
                _ => false,
            }
        });
        // ORDER BY and GROUP BY keep their expressions as they are.
        let keeps = matches!(self.clause, Clause::Order | Clause::Group);
        let reduced = is_bare && takes && !aggregates && !keeps;
        let place = std::ptr::from_ref(&**select) as usize;
        if reduced && !self.reduced.contains(&place) {
            self.reduced.push(place);
        }
        reduced
    }

    /// Binds and plans what stands within a subquery; also what was read of enclosing queries.
    pub(crate) fn within<T>(&mut self, plan: impl FnOnce(&mut Self) -> T) -> (T, Vec<(u16, u16, u16)>) {
        self.reads.push(SubqueryReads { depth: self.scopes.len(), columns: Vec::new() });
        let clause = self.clause;
        let in_aggregate = std::mem::take(&mut self.in_aggregate);
        let in_window = std::mem::take(&mut self.in_window);
        let around = self.scopes.len() - 1;
        let scope = self.scope_mut();
        let takes_aggregates = clause.takes_aggregates() && scope.takes_aggregates;
        let place = std::mem::replace(
            &mut scope.subquery_at,
            Place {
                takes_aggregates,
                in_aggregate,
                sees_aliases: clause.sees_aliases(),
                in_having: clause == Clause::Having,
            },
        );
        self.subquery_depth += 1;
        let planned = plan(self);
        self.subquery_depth -= 1;
        self.scopes[around].subquery_at = place;
        self.clause = clause;
        (self.in_aggregate, self.in_window) = (in_aggregate, in_window);
        (planned, self.reads.pop().expect("pushed above").columns)
    }

    /// The query for all values that it may be asked with, where asking for each would read whole tables.
    fn keyed(
        &mut self,
        query: &Query,
        plan: &SelectPlan,
        test: &SubqueryTest,
    ) -> SqlResult<Option<Arc<Keyed>>> {
        let exists = match test {
            SubqueryTest::Exists => true,
            SubqueryTest::Scalar(_) if plan.types().len() == 1 => false,
            _ => return Ok(None),
        };
        // Within such a query another one is bound as it is, so that the work does not double at each level.
        // The text of a view is made of the names that are met: once.
        if self.in_keyed || self.whole_names.is_some() || !plan.scans() {
            return Ok(None);
        }
        self.in_keyed = true;
        let unusable = self.unusable.len();
        let (keyed, _) = self.within(|binder| crate::select::plan_keyed(binder, query, exists));
        self.in_keyed = false;
        self.unusable.truncate(unusable);
        // What cannot be planned so is asked one by one.
        Ok(keyed.ok().flatten().map(Arc::new))
    }

    pub(super) fn exists(&mut self, query: &Query) -> SqlResult<Expr> {
        let subquery = self.subquery(query, |_, _| Ok(SubqueryTest::Exists))?;
        Ok(Expr::boolean(Node::Routine(Box::new(subquery)), false))
    }

    /// A subquery as a value; as a row where it has several columns.
    pub(super) fn scalar_subquery(&mut self, query: &Query) -> SqlResult<Expr> {
        let subquery = self.subquery(query, |_, _| Ok(SubqueryTest::Scalar(0)))?;
        let width = subquery.plan.types().len();
        if width == 1 {
            return Ok(value_of(subquery, 0));
        }
        let mut parts = Vec::with_capacity(width);
        for column in 1..width {
            let (cell, memo) = (self.new_once(), subquery.memo.map(|_| self.new_once()));
            parts.push(value_of(Subquery { cell, memo, ..subquery.clone() }, column));
        }
        parts.insert(0, value_of(subquery, 0));
        Ok(Expr::new(Node::Row(parts), SqlType::null(), true))
    }

    pub(super) fn in_subquery(&mut self, negated: bool, left: &ast::Expr, query: &Query) -> SqlResult<Expr> {
        let operands = self.operands(left)?;
        let nullable = operands.iter().any(|o| o.nullable);
        let subquery = self.subquery(query, |binder, plan| {
            let (operands, by) = binder.match_columns(operands, plan)?;
            Ok(SubqueryTest::In { negated, operands, by })
        })?;
        let nullable = nullable || subquery.plan.types().iter().any(|(_, n)| *n);
        Ok(Expr::boolean(Node::Routine(Box::new(subquery)), nullable))
    }

    pub(super) fn quantified(
        &mut self,
        op: BinaryOp,
        all: bool,
        left: &ast::Expr,
        query: &Query,
    ) -> SqlResult<Expr> {
        let op = CompareOp::of(op).ok_or_else(errors::syntax_error)?;
        let operands = self.operands(left)?;
        match (op, all) {
            (CompareOp::Eq, false) => return self.in_subquery(false, left, query),
            (CompareOp::Ne, true) => return self.in_subquery(true, left, query),
            _ => {}
        }
        if operands.len() > 1 {
            return Err(errors::operand_columns(1));
        }
        let subquery = self.subquery(query, |binder, plan| {
            let (operands, by) = binder.match_columns(operands, plan)?;
            Ok(SubqueryTest::Quantified { op, all, operands, by })
        })?;
        Ok(Expr::boolean(Node::Routine(Box::new(subquery)), true))
    }

    /// `(a, b) = (SELECT ...)`: a row compared with a query of one row. None where no side is a row with a query beside it.
    pub(super) fn row_subquery(
        &mut self,
        op: CompareOp,
        left: &ast::Expr,
        right: &ast::Expr,
    ) -> SqlResult<Option<Expr>> {
        let (row, query, op) = match (left, right) {
            (row @ ast::Expr::Row(_), ast::Expr::Subquery(query)) => (row, query, op),
            (ast::Expr::Subquery(query), row @ ast::Expr::Row(_)) => (row, query, op.swapped()),
            _ => return Ok(None),
        };
        let operands = self.operands(row)?;
        let subquery = self.subquery(query, |binder, plan| {
            if let [(ty, _)] = plan.types() {
                return Err(errors::illegal_parameter_data_types2_for_operation(
                    "row",
                    type_word(ty),
                    op.symbol(),
                ));
            }
            let (operands, by) = binder.match_columns(operands, plan)?;
            Ok(SubqueryTest::Row { op, operands, by })
        })?;
        Ok(Some(Expr::boolean(Node::Routine(Box::new(subquery)), op != CompareOp::NullSafeEq)))
    }

    /// The left side of IN, in a clause.
    pub(crate) fn operands_in(&mut self, tree: &ast::Expr, clause: Clause) -> SqlResult<Vec<Expr>> {
        let before = std::mem::replace(&mut self.clause, clause);
        let operands = self.operands(tree);
        self.clause = before;
        operands
    }

    fn operands(&mut self, tree: &ast::Expr) -> SqlResult<Vec<Expr>> {
        let bound = self.expr(tree).map_err(|error| error.in_clause(self.clause.words(), "IN/ALL/ANY"))?;
        Ok(match bound.node {
            Node::Row(parts) if parts.iter().any(|part| matches!(part.node, Node::Row(_))) => {
                return Err(errors::operand_columns(1));
            }
            Node::Row(parts) => parts,
            node => vec![Expr { node, ..bound }],
        })
    }

    /// The operands against the query's columns: 1241 if their number differs, else how each pair compares.
    fn match_columns(
        &mut self,
        operands: Vec<Expr>,
        plan: &SelectPlan,
    ) -> SqlResult<(Vec<Expr>, Vec<Comparison>)> {
        if operands.len() != plan.types().len() {
            return Err(errors::operand_columns(operands.len()));
        }
        let mut by = Vec::with_capacity(operands.len());
        let mut out = Vec::with_capacity(operands.len());
        let columns = plan.types().iter().zip(&plan.derivations);
        for (operand, ((ty, nullable), own)) in operands.into_iter().zip(columns) {
            let derivation = if ty.is_string() { *own } else { Derivation::Numeric };
            let column = Expr { node: Node::Aggregate(0), ty: ty.clone(), nullable: *nullable, derivation };
            let mut pair = vec![operand, column];
            by.push(self.common_domain(&mut pair, "=")?);
            pair.truncate(1);
            out.push(pair.pop().expect("one is left"));
        }
        Ok((out, by))
    }
}

/// What a column of a subquery's only row gives.
fn value_of(subquery: Subquery, column: usize) -> Expr {
    let ty = match &subquery.plan.body {
        Body::Block(block) => typing::operand_type(&block.project[column]),
        _ => subquery.plan.types()[column].0.clone(),
    };
    let of_column = ty.is_string() && subquery.plan.origin(column) == Origin::Column;
    let ty = if of_column { ty.with_decimals(typing::STRING_DECIMALS) } else { ty };
    let own = subquery.plan.derivations[column];
    let derivation = if ty.is_string() { own } else { Derivation::Numeric };
    let node = Node::Routine(Box::new(Subquery { test: SubqueryTest::Scalar(column), ..subquery }));
    Expr { node, ty, nullable: true, derivation }
}
