//! Conversions.
use keel_base::SqlResult;
use keel_value::{Cell, DateTime, SqlType, Time, ValueRef};

use super::{EvalContext, Expr};

pub(super) fn cast<'f>(_ty: &'f SqlType, _v: &'f Expr, _cx: &mut EvalContext<'_, 'f>) -> SqlResult<Cell<'f>> {
    unimplemented!()
}
pub(super) fn convert<'f>(
    _ty: &'f SqlType,
    _v: &'f Expr,
    _cx: &mut EvalContext<'_, 'f>,
) -> SqlResult<Cell<'f>> {
    unimplemented!()
}
pub(crate) fn same_representation(_a: &SqlType, _b: &SqlType) -> bool {
    unimplemented!()
}
pub(crate) fn value_to_datetime(
    _v: ValueRef<'_>,
    _ty: &SqlType,
    _cx: &mut EvalContext<'_, '_>,
) -> SqlResult<Option<DateTime>> {
    unimplemented!()
}
pub(crate) fn value_to_time(
    _v: ValueRef<'_>,
    _ty: &SqlType,
    _cx: &mut EvalContext<'_, '_>,
) -> SqlResult<Option<Time>> {
    unimplemented!()
}
