//! Functions of dates.
use keel_base::SqlResult;
use keel_sql::ast::IntervalUnit;
use keel_value::{SqlType, Value};

use crate::expr::{EvalContext, Expr};

pub(crate) fn add_interval<'f>(
    _ty: &'f SqlType,
    _d: &'f Expr,
    _a: &'f Expr,
    _u: IntervalUnit,
    _s: bool,
    _cx: &mut EvalContext<'_, 'f>,
) -> SqlResult<Value> {
    unimplemented!()
}
