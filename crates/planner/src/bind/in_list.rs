//! `IN (list)`.

use keel_base::SqlResult;
use keel_expr::{CompareOp, Comparison, Expr, Node, compare, one_of, typing};
use keel_sql::ast;
use keel_storage::runtime::fiber;
use keel_value::types::Class;

use super::Binder;
use super::expr::{illegal_types, is_exact, not, type_word};
use crate::join::disjunct;

impl Binder<'_> {
    pub(super) fn in_list(
        &mut self,
        negated: bool,
        value: &ast::Expr,
        list: &[ast::Expr],
    ) -> SqlResult<Expr> {
        let mut sides = Vec::with_capacity(list.len() + 1);
        sides.push(self.expr(value)?);
        for element in list {
            sides.push(self.expr(element)?);
        }
        self.in_values(negated, sides)
    }

    /// IN of the first of `sides` in the others, in one list because a long one costs to copy.
    fn in_values(&mut self, negated: bool, mut sides: Vec<Expr>) -> SqlResult<Expr> {
        let is_row = sides.iter().any(|side| matches!(side.node, Node::Row(_)));
        if !is_row && sides.len() == 2 {
            let op = if negated { CompareOp::Ne } else { CompareOp::Eq };
            let only = sides.pop().expect("one element");
            let value = sides.pop().expect("the operand");
            return self.compare(op, value, only);
        }
        if is_row || !self.compares_alike(&sides[0], &sides[1..]) {
            let value = sides.remove(0);
            return self.in_rows(negated, value, sides);
        }
        let nullable = sides.iter().any(|side| side.nullable);
        let by = self.common_domain(&mut sides, "in")?;
        let value = Box::new(sides.remove(0));
        let list = sides;
        let sorted = list.iter().all(Expr::is_constant).then(|| self.new_once());
        Ok(Expr::boolean(Node::In { negated, by, value, list, sorted }, nullable))
    }

    /// Whether all elements compare with the operand in one domain.
    fn compares_alike(&self, value: &Expr, list: &[Expr]) -> bool {
        let connection = self.cx.session.vars.connection_collation;
        let mut domains = list
            .iter()
            .filter(|e| e.class() != Class::Null)
            .inspect(|_| fiber::tick())
            .map(|e| compare::domain(value, e, connection))
            .map(|by| if let Comparison::Text(_) = by { Comparison::Text(connection) } else { by });
        let Some(first) = domains.next() else { return true };
        domains.all(|by| by == first || is_exact(by) && is_exact(first))
    }

    /// IN as a chain of comparisons: rows, and elements that compare in different domains.
    fn in_rows(&mut self, negated: bool, value: Expr, list: Vec<Expr>) -> SqlResult<Expr> {
        for element in &list {
            typing::check_fixed(&[&value, element], "in")?;
        }
        let is_row = |e: &Expr| matches!(e.node, Node::Row(_));
        if list.len() > 1
            && let Some(other) = list.iter().find(|element| is_row(element) != is_row(&value))
        {
            let word = |e: &Expr| if is_row(e) { "row".into() } else { type_word(&e.ty) };
            return Err(illegal_types(word(&value), word(other), "in"));
        }
        let parts = list
            .into_iter()
            .inspect(|_| fiber::tick())
            .map(|element| self.compare(CompareOp::Eq, value.clone(), element))
            .collect::<SqlResult<Vec<_>>>()?;
        let nullable = parts.iter().any(|p| p.nullable);
        // Shorter ones may be taken apart for joins, and cost less than to look anything up.
        let is_long = parts.len() > disjunct::PARTS_MAX && one_of::is_list(&parts);
        let any = if parts.len() == 1 {
            parts.into_iter().next().expect("one part")
        } else {
            Expr::boolean(Node::Or(parts), nullable)
        };
        let any =
            if is_long { Expr::boolean(Node::OneOf(Box::new(any), self.new_once()), nullable) } else { any };
        Ok(if negated { not(any) } else { any })
    }
}
