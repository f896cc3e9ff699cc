//! Subqueries in expressions.
use keel_base::{SqlResult, errors};
use keel_sql::ast::{self, BinaryOp, Query};

use super::Binder;
use crate::expr::{CompareOp, Expr};

impl Binder<'_> {
    pub(super) fn in_subquery(&mut self, _n: bool, _e: &ast::Expr, _q: &Query) -> SqlResult<Expr> {
        Err(errors::not_supported_yet("subqueries"))
    }
    pub(super) fn quantified(
        &mut self,
        _o: BinaryOp,
        _a: bool,
        _l: &ast::Expr,
        _q: &Query,
    ) -> SqlResult<Expr> {
        Err(errors::not_supported_yet("subqueries"))
    }
    pub(super) fn exists(&mut self, _q: &Query) -> SqlResult<Expr> {
        Err(errors::not_supported_yet("subqueries"))
    }
    pub(super) fn scalar_subquery(&mut self, _q: &Query) -> SqlResult<Expr> {
        Err(errors::not_supported_yet("subqueries"))
    }
    pub(super) fn row_subquery(
        &mut self,
        _o: CompareOp,
        _l: &ast::Expr,
        _r: &ast::Expr,
    ) -> SqlResult<Option<Expr>> {
        Ok(None)
    }
}
