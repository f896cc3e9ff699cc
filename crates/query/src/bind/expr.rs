//! Trees of the statement to typed expressions.
use keel_base::SqlResult;
use keel_sql::ast;

use super::Binder;
use crate::expr::Expr;

impl Binder<'_> {
    pub(super) fn expr(&mut self, _tree: &ast::Expr) -> SqlResult<Expr> {
        unimplemented!()
    }
}
