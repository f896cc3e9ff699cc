//! The select list of a group where no row can match.
//!
//! Without GROUP BY there is one row of aggregates even where there are no rows. As in MariaDB a subquery in its select list
//! that reads columns of the query's tables is not run where WHERE is false for all rows: a scalar one is NULL, EXISTS, IN
//! and ANY find nothing. A subquery that reads only aggregates is run.

use keel_value::Value;

use super::subquery::SubqueryTest;
use crate::expr::{Expr, Node, walk};

/// The select list without the subqueries that are not run; none where it stays as it is. Aggregates are in place, in the
/// slot `groups`, behind those of the tables.
pub(super) fn project_of_nothing(project: &[Expr], groups: u16) -> Option<Vec<Expr>> {
    let mut replaced = project.to_vec();
    let mut differs = false;
    replaced.iter_mut().for_each(|expr| differs |= leave_out(expr, groups));
    differs.then_some(replaced)
}

fn leave_out(expr: &mut Expr, groups: u16) -> bool {
    if let Node::Subquery(subquery) = &expr.node {
        let reads_tables = subquery.reads.iter().any(|(level, slot, _)| *level == 1 && *slot < groups);
        let value = match &subquery.test {
            _ if !reads_tables => return false,
            SubqueryTest::Scalar(_) => Value::Null,
            SubqueryTest::Exists => Value::Int(0),
            SubqueryTest::In { negated, .. } => Value::Int(i64::from(*negated)),
            SubqueryTest::Quantified { all, .. } => Value::Int(i64::from(*all)),
            SubqueryTest::Row { .. } => return false,
        };
        expr.node = Node::Constant(value);
        return true;
    }
    let mut differs = false;
    walk::children_mut(expr, &mut |operand| differs |= leave_out(operand, groups));
    differs
}
