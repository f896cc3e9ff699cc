//! Arithmetic.
use keel_base::SqlResult;
use keel_value::Cell;

use super::{ArithOp, BitOp, EvalContext, Expr};

pub(super) fn binary<'f>(
    _e: &'f Expr,
    _op: ArithOp,
    _l: &'f Expr,
    _r: &'f Expr,
    _cx: &mut EvalContext<'_, 'f>,
) -> SqlResult<Cell<'f>> {
    unimplemented!()
}
pub(super) fn negate<'f>(_e: &'f Expr, _v: &'f Expr, _cx: &mut EvalContext<'_, 'f>) -> SqlResult<Cell<'f>> {
    unimplemented!()
}
pub(super) fn bits<'f>(
    _op: BitOp,
    _l: &'f Expr,
    _r: &'f Expr,
    _cx: &mut EvalContext<'_, 'f>,
) -> SqlResult<Cell<'f>> {
    unimplemented!()
}
pub(super) fn bit_not<'f>(_v: &'f Expr, _cx: &mut EvalContext<'_, 'f>) -> SqlResult<Cell<'f>> {
    unimplemented!()
}
