//! Subqueries in expressions: one value, a row, EXISTS, IN, ANY and ALL.

use std::sync::Arc;

use keel_base::SqlResult;
use keel_value::Cell;

use super::SelectPlan;
use crate::expr::{CompareOp, Comparison, EvalContext, Expr};

/// What a subquery is asked.
#[derive(Debug, Clone)]
pub enum SubqueryTest {
    /// Its only value; 1242 if it has more than one row.
    Scalar,
    /// EXISTS.
    Exists,
    /// `operands [NOT] IN (subquery)`.
    In {
        /// NOT IN.
        negated: bool,
        /// The left side, one per column.
        operands: Vec<Expr>,
        /// How each is compared.
        by: Vec<Comparison>,
    },
    /// `operand op ANY | ALL (subquery)`, or a row comparison with a single-row subquery.
    Quantified {
        /// The comparison.
        op: CompareOp,
        /// ALL; else ANY.
        all: bool,
        /// The left side.
        operands: Vec<Expr>,
        /// How it is compared.
        by: Vec<Comparison>,
    },
}

impl SubqueryTest {
    /// The expressions of the enclosing query.
    pub fn operands(&self) -> &[Expr] {
        match self {
            SubqueryTest::In { operands, .. } | SubqueryTest::Quantified { operands, .. } => operands,
            SubqueryTest::Scalar | SubqueryTest::Exists => &[],
        }
    }

    /// The same, to change them.
    pub fn operands_mut(&mut self) -> &mut [Expr] {
        match self {
            SubqueryTest::In { operands, .. } | SubqueryTest::Quantified { operands, .. } => operands,
            SubqueryTest::Scalar | SubqueryTest::Exists => &mut [],
        }
    }
}

/// A subquery in an expression.
#[derive(Clone)]
pub struct Subquery {
    /// What is asked.
    pub test: SubqueryTest,
    /// The query.
    pub plan: Arc<SelectPlan>,
    /// Columns of enclosing queries that it reads: how many queries outwards, slot, column.
    pub reads: Vec<(u16, u16, u16)>,
    /// It gives another result each time.
    pub volatile: bool,
    /// Where an uncorrelated subquery's rows are kept for the execution.
    pub cell: u32,
}

impl std::fmt::Debug for Subquery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subquery")
            .field("test", &self.test)
            .field("reads", &self.reads)
            .finish_non_exhaustive()
    }
}

impl Subquery {
    pub(crate) fn eval<'f>(&'f self, _cx: &mut EvalContext<'_, 'f>) -> SqlResult<Cell<'f>> {
        unimplemented!()
    }
}
