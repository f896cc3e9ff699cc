//! Values of generated columns that rows do not hold.

use keel_base::SqlResult;
use keel_value::{Cell, Date, SqlType, TypeKind, Value, ValueRef, convert};

use super::{EvalContext, Expr};

/// What a column of type `ty` gives its reader that is worked out from `value`. What does not fit is made to, without a word, as
/// in MariaDB.
pub(super) fn eval<'f>(ty: &SqlType, value: &'f Expr, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Cell<'f>> {
    let worked_out = value.eval(cx)?;
    if worked_out.as_ref().is_null() {
        return Ok(Cell::Ref(ValueRef::Null));
    }
    let today = if ty.is_temporal() { cx.today() } else { Date::default() };
    let context = cx.env().store_context(false, today);
    let kept = match convert::store(ty, &value.ty, worked_out.as_ref(), &context) {
        Ok((cell, _)) => cell.into_value(),
        Err(_) => Value::Null,
    };
    Ok(Cell::Owned(match kept {
        Value::DateTime(utc) if ty.kind == TypeKind::Timestamp => {
            Value::DateTime(convert::timestamp_to_local(utc, &*cx.env().vars.time_zone))
        }
        kept => kept,
    }))
}
