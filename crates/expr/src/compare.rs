//! Comparisons in a domain chosen when binding.
//!
//! The common cases, both sides integers or both sides bytes, are decided by the values' own shape; anything else is
//! converted to the domain as MariaDB's comparators do.

use std::borrow::Cow;
use std::cmp::Ordering;

use keel_base::SqlResult;
use keel_storage::runtime::fiber;
use keel_value::types::{Class, NOT_FIXED};
use keel_value::{
    Cell, CollationId, Decimal, FixedKind, SqlType, TypeKind, Value, ValueRef, collation, convert,
};

use super::frame::Kept;
use super::{Comparison, EvalContext, Expr, Node, cast};

/// Compares two expressions; None if either is NULL.
#[inline]
pub fn operands<'f>(
    by: Comparison,
    left: &'f Expr,
    right: &'f Expr,
    cx: &mut EvalContext<'_, 'f>,
) -> SqlResult<Option<Ordering>> {
    let l = left.eval(cx)?;
    if l.as_ref().is_null() {
        return Ok(None);
    }
    let r = right.eval(cx)?;
    let is_temporal = matches!(by, Comparison::DateTime | Comparison::Date | Comparison::Time);
    if is_temporal && (l.as_ref().as_bytes().is_some() || r.as_ref().as_bytes().is_some()) {
        return dates_of_text(by, (l.as_ref(), left), (r.as_ref(), right), cx);
    }
    if by == Comparison::Decimal {
        let (l, r) = (shown(l.as_ref(), &left.ty), shown(r.as_ref(), &right.ty));
        return values(by, l, &left.ty, r, &right.ty, cx);
    }
    tolerant(by, l.as_ref(), &left.ty, r.as_ref(), &right.ty, cx)
}

/// Whether values of two types that differ may be equal all the same: numbers with fixed digits that are compared as doubles.
pub fn is_tolerant(by: Comparison, left: &SqlType, right: &SqlType) -> bool {
    by == Comparison::Real && is_fixed(left) && is_fixed(right)
}

/// Compares two values as `=` and its like do; None if either is NULL.
pub fn tolerant(
    by: Comparison,
    l: ValueRef<'_>,
    lt: &SqlType,
    r: ValueRef<'_>,
    rt: &SqlType,
    cx: &mut EvalContext<'_, '_>,
) -> SqlResult<Option<Ordering>> {
    let order = values(by, l, lt, r, rt, cx)?;
    match order {
        Some(Ordering::Less | Ordering::Greater) if is_tolerant(by, lt, rt) => {
            within_half_a_digit(l, lt, r, rt, order, cx)
        }
        _ => Ok(order),
    }
}

/// Whether numbers of a type show so many digits behind the point, no more and no fewer.
fn is_fixed(ty: &SqlType) -> bool {
    ty.decimals < NOT_FIXED && matches!(ty.class(), Class::Int | Class::Decimal | Class::Real)
}

/// Numbers with fixed digits are equal, as in MariaDB, where they differ by less than half of the last one behind the digits that
/// both show.
#[cold]
fn within_half_a_digit(
    l: ValueRef<'_>,
    lt: &SqlType,
    r: ValueRef<'_>,
    rt: &SqlType,
    order: Option<Ordering>,
    cx: &mut EvalContext<'_, '_>,
) -> SqlResult<Option<Ordering>> {
    let a = cx.reporting(|report| convert::to_f64(l, lt, report))?;
    let b = cx.reporting(|report| convert::to_f64(r, rt, report))?;
    let digits = i32::from(lt.decimals.max(rt.decimals)) + 1;
    Ok(if (a - b).abs() < 5.0 / 10f64.powi(digits) { Some(Ordering::Equal) } else { order })
}

/// A decimal without the digits behind those that its type shows, as `=` and its like take it.
pub fn shown<'v>(value: ValueRef<'v>, ty: &SqlType) -> ValueRef<'v> {
    match value {
        ValueRef::Decimal(v) if v.scale() > ty.decimals && ty.kind == TypeKind::Decimal => {
            ValueRef::Decimal(v.round(i32::from(ty.decimals)))
        }
        other => other,
    }
}

/// Compares as dates or times where a side is text; reports name the column that it came from.
#[cold]
fn dates_of_text(
    by: Comparison,
    (l, left): (ValueRef<'_>, &Expr),
    (r, right): (ValueRef<'_>, &Expr),
    cx: &mut EvalContext<'_, '_>,
) -> SqlResult<Option<Ordering>> {
    if r.is_null() {
        return Ok(None);
    }
    if by == Comparison::Time {
        let a = cast::value_to_time(l, &left.ty, left.column_name(), cx)?.unwrap_or_default();
        let b = cast::value_to_time(r, &right.ty, right.column_name(), cx)?.unwrap_or_default();
        return Ok(Some(a.cmp(&b)));
    }
    let a = cast::compared_datetime(l, &left.ty, left.column_name(), cx)?;
    let b = cast::compared_datetime(r, &right.ty, right.column_name(), cx)?;
    Ok(Some(a.cmp(&b)))
}

/// Compares two values of the shapes that conditions on columns mostly have, which nothing needs to be converted for. None
/// for all others, NULL among them.
#[inline]
pub(super) fn plain(
    by: Comparison,
    l: ValueRef<'_>,
    lt: &SqlType,
    r: ValueRef<'_>,
    rt: &SqlType,
) -> Option<Ordering> {
    let shows_all = |v: &Decimal, ty: &SqlType| v.scale() <= ty.decimals || ty.kind != TypeKind::Decimal;
    match (by, l, r) {
        (Comparison::Int | Comparison::Decimal, ValueRef::Int(a), ValueRef::Int(b)) => Some(a.cmp(&b)),
        (Comparison::Decimal, ValueRef::Decimal(a), ValueRef::Decimal(b))
            if shows_all(&a, lt) && shows_all(&b, rt) =>
        {
            Some(a.cmp(&b))
        }
        (Comparison::Decimal, ValueRef::Decimal(a), ValueRef::Int(b)) if shows_all(&a, lt) => {
            Some(a.cmp(&Decimal::from_i64(b)))
        }
        (Comparison::Date | Comparison::DateTime, ValueRef::Date(a), ValueRef::Date(b)) => Some(a.cmp(&b)),
        (Comparison::Date | Comparison::DateTime, ValueRef::Date(a), ValueRef::DateTime(b)) => {
            Some(cast::midnight(a).cmp(&b))
        }
        (Comparison::Date | Comparison::DateTime, ValueRef::DateTime(a), ValueRef::DateTime(b)) => {
            Some(convert::compare_datetimes(a, lt, b, rt))
        }
        (Comparison::Text(by), ValueRef::Bytes(a), ValueRef::Bytes(b)) => Some(collation::compare(by, a, b)),
        _ => None,
    }
}

/// Compares two values of given types; None if either is NULL.
#[inline]
pub fn values(
    by: Comparison,
    l: ValueRef<'_>,
    lt: &SqlType,
    r: ValueRef<'_>,
    rt: &SqlType,
    cx: &mut EvalContext<'_, '_>,
) -> SqlResult<Option<Ordering>> {
    if let Comparison::Text(by) = by {
        return Ok(match (l, r) {
            (ValueRef::Bytes(a), ValueRef::Bytes(b)) => Some(collation::compare(by, a, b)),
            (ValueRef::Null, _) | (_, ValueRef::Null) => None,
            _ => Some(collation::compare(by, &text_of(l, lt), &text_of(r, rt))),
        });
    }
    match (l, r) {
        (ValueRef::Int(a), ValueRef::Int(b)) => Ok(Some(a.cmp(&b))),
        (ValueRef::Null, _) | (_, ValueRef::Null) => Ok(None),
        _ => match by {
            Comparison::Int | Comparison::Decimal | Comparison::Real => {
                numbers(by, l, lt, r, rt, cx).map(Some)
            }
            Comparison::Time => times(l, lt, r, rt, cx),
            Comparison::Fixed(kind) => Ok(fixed(kind, l, lt, r, rt, cx)),
            _ => dates(l, lt, r, rt, cx),
        },
    }
}

fn text_of<'a>(value: ValueRef<'a>, ty: &SqlType) -> Cow<'a, [u8]> {
    match value {
        ValueRef::Bytes(bytes) => Cow::Borrowed(bytes),
        other => {
            let mut out = Vec::new();
            convert::to_text(other, ty, &mut out);
            Cow::Owned(out)
        }
    }
}

fn numbers(
    by: Comparison,
    l: ValueRef<'_>,
    lt: &SqlType,
    r: ValueRef<'_>,
    rt: &SqlType,
    cx: &mut EvalContext<'_, '_>,
) -> SqlResult<Ordering> {
    Ok(match (l, r) {
        (ValueRef::UInt(a), ValueRef::UInt(b)) => a.cmp(&b),
        (ValueRef::Int(a), ValueRef::UInt(b)) => i128::from(a).cmp(&i128::from(b)),
        (ValueRef::UInt(a), ValueRef::Int(b)) => i128::from(a).cmp(&i128::from(b)),
        (ValueRef::Double(a), ValueRef::Double(b)) => order_f64(a, b),
        (ValueRef::Decimal(a), ValueRef::Decimal(b)) if by != Comparison::Real => a.cmp(&b),
        (ValueRef::Decimal(a), ValueRef::Int(b)) if by != Comparison::Real => a.cmp(&Decimal::from_i64(b)),
        (ValueRef::Int(a), ValueRef::Decimal(b)) if by != Comparison::Real => Decimal::from_i64(a).cmp(&b),
        _ if by == Comparison::Decimal || (by != Comparison::Real && is_exact(l) && is_exact(r)) => {
            let a = cx.reporting(|report| convert::to_decimal(l, lt, report))?;
            let b = cx.reporting(|report| convert::to_decimal(r, rt, report))?;
            a.cmp(&b)
        }
        _ => {
            let a = cx.reporting(|report| convert::to_f64(l, lt, report))?;
            let b = cx.reporting(|report| convert::to_f64(r, rt, report))?;
            order_f64(a, b)
        }
    })
}

fn is_exact(value: ValueRef<'_>) -> bool {
    !matches!(value, ValueRef::Double(_) | ValueRef::Float(_) | ValueRef::Bytes(_))
}

fn order_f64(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.total_cmp(&b))
}

fn dates(
    l: ValueRef<'_>,
    lt: &SqlType,
    r: ValueRef<'_>,
    rt: &SqlType,
    cx: &mut EvalContext<'_, '_>,
) -> SqlResult<Option<Ordering>> {
    match (l, r) {
        (ValueRef::DateTime(a), ValueRef::DateTime(b)) => {
            return Ok(Some(convert::compare_datetimes(a, lt, b, rt)));
        }
        (ValueRef::Date(a), ValueRef::Date(b)) => return Ok(Some(a.cmp(&b))),
        _ => {}
    }
    // What is no date stands below all dates.
    let a = cast::compared_datetime(l, lt, None, cx)?;
    let b = cast::compared_datetime(r, rt, None, cx)?;
    Ok(Some(a.cmp(&b)))
}

fn times(
    l: ValueRef<'_>,
    lt: &SqlType,
    r: ValueRef<'_>,
    rt: &SqlType,
    cx: &mut EvalContext<'_, '_>,
) -> SqlResult<Option<Ordering>> {
    let a = cast::value_to_time(l, lt, None, cx)?.unwrap_or_default();
    let b = cast::value_to_time(r, rt, None, cx)?.unwrap_or_default();
    Ok(Some(a.cmp(&b)))
}

/// Addresses or UUIDs; what is none compares as NULL.
fn fixed(
    kind: FixedKind,
    l: ValueRef<'_>,
    lt: &SqlType,
    r: ValueRef<'_>,
    rt: &SqlType,
    cx: &mut EvalContext<'_, '_>,
) -> Option<Ordering> {
    if let (ValueRef::Fixed(a), ValueRef::Fixed(b)) = (l, r) {
        return Some(a.cmp(&b));
    }
    let a = cast::value_to_fixed(kind, l, lt, cx)?;
    Some(a.cmp(&cast::value_to_fixed(kind, r, rt, cx)?))
}

/// `value BETWEEN low AND high`, in SQL's logic of three values.
pub fn between<'f>(
    by: Comparison,
    value: &'f Expr,
    low: &'f Expr,
    high: &'f Expr,
    cx: &mut EvalContext<'_, 'f>,
) -> SqlResult<Option<bool>> {
    let v = value.eval(cx)?;
    if v.as_ref().is_null() {
        return Ok(None);
    }
    // Text becomes a number once, not once for each bound.
    let number = match (by, v.as_ref()) {
        (Comparison::Decimal | Comparison::Real, text @ ValueRef::Bytes(_)) => {
            Some(in_domain(by, text, &value.ty, cx)?)
        }
        _ => None,
    };
    let canonical = canonical_type(by);
    let (v, ty) = match &number {
        Some(number) => (number.as_ref(), &canonical),
        None => (v.as_ref(), &value.ty),
    };
    let lower = {
        let bound = low.eval(cx)?;
        values(by, v, ty, bound.as_ref(), &low.ty, cx)?.map(|o| o.is_ge())
    };
    if lower == Some(false) {
        return Ok(Some(false));
    }
    let bound = high.eval(cx)?;
    let upper = values(by, v, ty, bound.as_ref(), &high.ty, cx)?.map(|o| o.is_le());
    Ok(match (lower, upper) {
        (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    })
}

/// Lists up to this length are walked: sorting them would cost more than it saves.
const WALKED_LIST_MAX: usize = 4;

/// `value IN (list)`, in SQL's logic of three values.
pub fn in_list<'f>(
    by: Comparison,
    value: &'f Expr,
    list: &'f [Expr],
    sorted: Option<u32>,
    cx: &mut EvalContext<'_, 'f>,
) -> SqlResult<Option<bool>> {
    let mut v = value.eval(cx)?;
    if v.as_ref().is_null() {
        return Ok(None);
    }
    let mut ty = &value.ty;
    let fixed;
    if matches!(by, Comparison::Fixed(_)) {
        v = Cell::Owned(in_domain(by, v.as_ref(), ty, cx)?);
        fixed = canonical_type(by);
        ty = &fixed;
        if v.as_ref().is_null() {
            // What is no such value is none of the list, as MariaDB has it.
            for element in list {
                if list_element(element, cx)?.as_ref().is_null() {
                    return Ok(None);
                }
            }
            return Ok(Some(false));
        }
    }
    if list.len() > WALKED_LIST_MAX
        && let Some(cell) = sorted
        && let Some(kept) = cx.frame.once.get(cell as usize)
    {
        if kept.get().is_none() {
            let built = sort_list(by, list, cx)?;
            let _ = kept.set(built);
        }
        let Some(Kept::Sorted(elements, has_null)) = kept.get() else {
            unreachable!("cell {cell} holds a list")
        };
        let found = search(by, elements, &canonical_type(by), v.as_ref(), ty, cx)?;
        return Ok(if found {
            Some(true)
        } else if *has_null {
            None
        } else {
            Some(false)
        });
    }
    let mut unknown = false;
    for element in list {
        let e = list_element(element, cx)?;
        match values(by, v.as_ref(), ty, e.as_ref(), &element.ty, cx)? {
            Some(Ordering::Equal) => return Ok(Some(true)),
            Some(_) => {}
            None => unknown = true,
        }
    }
    Ok(if unknown { None } else { Some(false) })
}

/// An element of a list: MariaDB converts constant ones before the statement runs, so that what is wrong with them is
/// never its error.
pub(super) fn list_element<'f>(element: &'f Expr, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Cell<'f>> {
    if !matches!(element.node, Node::Once(..)) {
        return element.eval(cx);
    }
    let aborts = std::mem::replace(&mut cx.env_mut().abort_on_warning, false);
    let value = element.eval(cx);
    cx.env_mut().abort_on_warning = aborts;
    value
}

fn search(
    by: Comparison,
    elements: &[Value],
    canonical: &SqlType,
    value: ValueRef<'_>,
    ty: &SqlType,
    cx: &mut EvalContext<'_, '_>,
) -> SqlResult<bool> {
    let (mut from, mut to) = (0, elements.len());
    while from < to {
        let middle = from + (to - from) / 2;
        match values(by, elements[middle].as_ref(), canonical, value, ty, cx)? {
            Some(Ordering::Equal) => return Ok(true),
            Some(Ordering::Less) => from = middle + 1,
            Some(Ordering::Greater) => to = middle,
            None => return Ok(false),
        }
    }
    Ok(false)
}

/// The type that values of a domain have once converted to it.
pub fn canonical_type(by: Comparison) -> SqlType {
    match by {
        Comparison::Int => SqlType::bigint(),
        Comparison::Decimal => SqlType::decimal(65, 38),
        Comparison::Real => SqlType::double(),
        Comparison::Text(collation) => SqlType::varchar(u32::MAX, collation),
        Comparison::DateTime => SqlType::temporal(TypeKind::DateTime, 6),
        Comparison::Date => SqlType::new(TypeKind::Date),
        Comparison::Time => SqlType::temporal(TypeKind::Time, 6),
        Comparison::Fixed(kind) => SqlType::new(kind.type_kind()),
    }
}

fn sort_list<'f>(by: Comparison, list: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<Kept> {
    let mut elements = Vec::with_capacity(list.len());
    let mut has_null = false;
    for element in list {
        fiber::tick();
        let value = list_element(element, cx)?;
        match in_domain(by, value.as_ref(), &element.ty, cx)? {
            Value::Null => has_null = true,
            value => elements.push(value),
        }
    }
    let canonical = canonical_type(by);
    let mut problem = None;
    elements.sort_by(|a, b| {
        fiber::tick();
        values(by, a.as_ref(), &canonical, b.as_ref(), &canonical, cx)
            .unwrap_or_else(|error| {
                problem = Some(error);
                None
            })
            .unwrap_or(Ordering::Equal)
    });
    match problem {
        Some(error) => Err(error),
        None => Ok(Kept::Sorted(elements, has_null)),
    }
}

/// A value converted to a domain.
pub(super) fn in_domain(
    by: Comparison,
    value: ValueRef<'_>,
    ty: &SqlType,
    cx: &mut EvalContext<'_, '_>,
) -> SqlResult<Value> {
    if value.is_null() {
        return Ok(Value::Null);
    }
    Ok(match by {
        Comparison::Text(_) => Value::Bytes(text_of(value, ty).into_owned().into_boxed_slice()),
        Comparison::DateTime | Comparison::Date => {
            Value::DateTime(cast::compared_datetime(value, ty, None, cx)?)
        }
        Comparison::Time => Value::Time(cast::value_to_time(value, ty, None, cx)?.unwrap_or_default()),
        Comparison::Fixed(kind) => {
            cast::value_to_fixed(kind, value, ty, cx).map_or(Value::Null, Value::Fixed)
        }
        Comparison::Real => match value {
            ValueRef::Int(_) | ValueRef::UInt(_) | ValueRef::Double(_) => value.to_owned(),
            other => Value::Double(cx.reporting(|report| convert::to_f64(other, ty, report))?),
        },
        Comparison::Decimal if value.as_bytes().is_some() => {
            Value::Decimal(cx.reporting(|report| convert::to_decimal(value, ty, report))?)
        }
        _ => value.to_owned(),
    })
}

/// The domain in which MariaDB compares two types; text collations are the caller's to choose.
pub fn domain(left: &Expr, right: &Expr, text: CollationId) -> Comparison {
    let (a, b) = (left.ty.class(), right.ty.class());
    match (a, b) {
        (Class::Null, Class::Null) => Comparison::Text(text),
        (Class::Null, other) | (other, Class::Null) => own_domain(other, text),
        (Class::Fixed(kind), _) | (_, Class::Fixed(kind)) => Comparison::Fixed(kind),
        (Class::String, Class::String) => Comparison::Text(text),
        (Class::Int, Class::Int) => Comparison::Int,
        (Class::Int | Class::Decimal, Class::Int | Class::Decimal) => Comparison::Decimal,
        (Class::Date, Class::Date) => Comparison::Date,
        (Class::Time, Class::Time) => Comparison::Time,
        (Class::Date | Class::DateTime, Class::Date | Class::DateTime | Class::Time) => Comparison::DateTime,
        (Class::Time, Class::Date | Class::DateTime) => Comparison::DateTime,
        // A temporal side makes the comparison temporal, whatever the other is.
        (Class::Date | Class::DateTime, _) | (_, Class::Date | Class::DateTime) => Comparison::DateTime,
        (Class::Time, _) | (_, Class::Time) => Comparison::Time,
        (Class::Int, Class::String) if !right.ty.has_members() => Comparison::Decimal,
        (Class::String, Class::Int) if !left.ty.has_members() => Comparison::Decimal,
        _ => Comparison::Real,
    }
}

fn own_domain(class: Class, text: CollationId) -> Comparison {
    match class {
        Class::Null | Class::String => Comparison::Text(text),
        Class::Int => Comparison::Int,
        Class::Decimal => Comparison::Decimal,
        Class::Real => Comparison::Real,
        Class::Date => Comparison::Date,
        Class::Time => Comparison::Time,
        Class::DateTime => Comparison::DateTime,
        Class::Fixed(kind) => Comparison::Fixed(kind),
    }
}
