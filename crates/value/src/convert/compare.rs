//! Comparing values of any two types, and when an index of one type answers for a value of another.
//!
//! | operands | compared as |
//! |---|---|
//! | both text | by the collation of the first, or octet by octet if either is `binary` |
//! | both integers | integers, whatever their sign |
//! | integer or decimal with each other; integer with text | decimals |
//! | anything with a double; decimal with text | doubles |
//! | an address or UUID with text | as that |
//! | a temporal with anything | as that temporal; a DATE or DATETIME wins over a TIME |

use std::cmp::Ordering;

use super::number::{Tail, read_number};
use super::store_temporal::{datetime_for_comparison, time_for_comparison};
use super::{Report, StoreContext, store, to_decimal, to_f64, to_fixed};
use crate::types::Class;
use crate::{CollationId, DateTime, SqlType, TypeKind, Value, ValueRef, collation, text};

/// Compares two values as MariaDB does; `None` if one is NULL. Both texts must be of one character set, and a TIMESTAMP in
/// the session's zone: the binder sees to it. A TIME meets a date by its clock alone, unless the binder made it a DATETIME.
pub fn compare(
    a: ValueRef<'_>,
    a_type: &SqlType,
    b: ValueRef<'_>,
    b_type: &SqlType,
    report: Report<'_>,
) -> Option<Ordering> {
    use ValueRef::*;
    Some(match (a, b) {
        (Null, _) | (_, Null) => return None,
        (Int(x), Int(y)) if a_type.unsigned == b_type.unsigned && !a_type.unsigned => x.cmp(&y),
        (UInt(x), UInt(y)) if !is_text(a_type) && !is_text(b_type) => x.cmp(&y),
        (Int(x), UInt(y)) if !a_type.unsigned && !is_text(b_type) => signed_to_unsigned(x, y),
        (UInt(x), Int(y)) if !b_type.unsigned && !is_text(a_type) => signed_to_unsigned(y, x).reverse(),
        (Bytes(x), Bytes(y)) => collation::compare(common_collation(a_type, b_type), x, y),
        (Date(x), Date(y)) => x.cmp(&y),
        (DateTime(x), DateTime(y)) => compare_datetimes(x, a_type, y, b_type),
        (Time(x), Time(y)) => x.cmp(&y),
        (Decimal(x), Decimal(y)) => x.cmp(&y),
        (Double(x), Double(y)) => by_size(x, y),
        (Fixed(x), Fixed(y)) => x.cmp(&y),
        _ => return Some(compare_mixed(a, a_type, b, b_type, report)),
    })
}

/// Compares two TIMESTAMP values as instants; what the clock shows otherwise.
pub fn compare_datetimes(x: DateTime, a_type: &SqlType, y: DateTime, b_type: &SqlType) -> Ordering {
    if x.repeated == y.repeated || a_type.is_instant() && b_type.is_instant() {
        return x.cmp(&y);
    }
    x.shown().cmp(&y.shown())
}

/// Whether a value that is a number inside stands for a name.
fn is_text(ty: &SqlType) -> bool {
    ty.has_members()
}

fn signed_to_unsigned(x: i64, y: u64) -> Ordering {
    u64::try_from(x).map_or(Ordering::Less, |x| x.cmp(&y))
}

/// Values are never NaN.
fn by_size(x: f64, y: f64) -> Ordering {
    x.partial_cmp(&y).unwrap_or(Ordering::Equal)
}

fn common_collation(a: &SqlType, b: &SqlType) -> CollationId {
    let is_octets = |ty: &SqlType| ty.is_string() && ty.collation == CollationId::BINARY;
    match () {
        () if is_octets(a) || is_octets(b) => CollationId::BINARY,
        () if a.is_text() => a.collation,
        () => b.collation,
    }
}

#[cold]
fn compare_mixed(
    a: ValueRef<'_>,
    a_type: &SqlType,
    b: ValueRef<'_>,
    b_type: &SqlType,
    report: Report<'_>,
) -> Ordering {
    let (class_a, class_b) = (class_of(a, a_type), class_of(b, b_type));
    let either = |class: Class| class_a == class || class_b == class;
    if either(Class::DateTime) || either(Class::Date) {
        if either(Class::Time) {
            return time_for_comparison(a, a_type, report).cmp(&time_for_comparison(b, b_type, report));
        }
        return datetime_for_comparison(a, a_type, report).cmp(&datetime_for_comparison(b, b_type, report));
    }
    if either(Class::Time) {
        return time_for_comparison(a, a_type, report).cmp(&time_for_comparison(b, b_type, report));
    }
    if let (Class::Fixed(kind), _) | (_, Class::Fixed(kind)) = (class_a, class_b) {
        return to_fixed(kind, a, a_type).cmp(&to_fixed(kind, b, b_type));
    }
    if class_a == Class::String && class_b == Class::String {
        return compare_names(a, a_type, b, b_type);
    }
    let as_doubles = either(Class::Real) || either(Class::Decimal) && either(Class::String);
    if as_doubles {
        let (x, y) = (to_f64(a, a_type, report), to_f64(b, b_type, report));
        return by_size(x, y);
    }
    to_decimal(a, a_type, report).cmp(&to_decimal(b, b_type, report))
}

/// The class of the value itself, since expressions' types may be broader.
fn class_of(value: ValueRef<'_>, ty: &SqlType) -> Class {
    match value {
        ValueRef::Null => Class::Null,
        ValueRef::Int(_) | ValueRef::UInt(_) if ty.has_members() => Class::String,
        ValueRef::Int(_) | ValueRef::UInt(_) => Class::Int,
        ValueRef::Double(_) | ValueRef::Float(_) => Class::Real,
        ValueRef::Decimal(_) => Class::Decimal,
        ValueRef::Bytes(_) => Class::String,
        ValueRef::Date(_) => Class::Date,
        ValueRef::Time(_) => Class::Time,
        ValueRef::DateTime(_) => Class::DateTime,
        ValueRef::Fixed(v) => Class::Fixed(v.kind()),
    }
}

fn compare_names(a: ValueRef<'_>, a_type: &SqlType, b: ValueRef<'_>, b_type: &SqlType) -> Ordering {
    let (mut x, mut y) = (Vec::new(), Vec::new());
    text::append(&mut x, a_type, a);
    text::append(&mut y, b_type, b);
    collation::compare(common_collation(a_type, b_type), &x, &y)
}

/// The key value with which an index over a column of type `to` finds what equals `value`: `None` where the comparison does
/// not follow the column's order (a text column and a number), or no value of the column can be equal. That a comparison of
/// texts uses the column's collation is for the caller to know: an explicit COLLATE does not show in the types. For ENUM
/// the answer serves equality alone, since `<` compares names and the index orders by number.
pub fn for_index(
    to: &SqlType,
    from: &SqlType,
    value: ValueRef<'_>,
    context: &StoreContext<'_>,
) -> Option<Value> {
    if value.is_null() || !follows_order(to, from, value) || is_cut_by_char(to, value) {
        return None;
    }
    let strict = StoreContext { strict: true, ..*context };
    match store(to, from, value, &strict) {
        Ok((cell, None)) => {
            let stored = cell.into_value();
            // A text that is stored as a member's number is not its name.
            let is_same = value.as_bytes().is_some() && !to.has_members()
                || to.class() == Class::DateTime
                || compare(stored.as_ref(), to, value, from, &mut |_| {}).is_some_and(Ordering::is_eq);
            is_same.then_some(stored)
        }
        _ => None,
    }
}

/// Whether a CHAR column would drop spaces that its collation counts.
fn is_cut_by_char(to: &SqlType, value: ValueRef<'_>) -> bool {
    to.kind == TypeKind::Char
        && to.is_text()
        && !to.collation.pads_spaces()
        && value.as_bytes().is_some_and(|bytes| bytes.ends_with(b" "))
}

/// Whether comparing a column with the value orders as the column itself does.
fn follows_order(to: &SqlType, from: &SqlType, value: ValueRef<'_>) -> bool {
    let class = class_of(value, from);
    match to.class() {
        Class::String if to.has_members() => class == Class::String && to.kind == TypeKind::Enum,
        // What meets an address or UUID is compared as such.
        Class::String => class == Class::String && !from.is_fixed() && collates_alike(to, from),
        Class::Int if to.kind == TypeKind::Bit => class == Class::Int,
        Class::Int => match value.as_bytes() {
            Some(text) => is_whole_text(text),
            None => matches!(class, Class::Int | Class::Decimal | Class::Real),
        },
        Class::Decimal => match value.as_bytes() {
            Some(text) => is_whole_text(text),
            None => matches!(class, Class::Int | Class::Decimal),
        },
        Class::Real => {
            to.kind == TypeKind::Double && class != Class::String || value.as_bytes().is_some_and(is_number)
        }
        Class::Date | Class::DateTime => class != Class::Time,
        Class::Time => !matches!(class, Class::Date | Class::DateTime),
        Class::Fixed(_) => class == to.class() || class == Class::String,
        Class::Null => false,
    }
}

/// An index by weights serves only comparisons by the same weights.
fn collates_alike(to: &SqlType, from: &SqlType) -> bool {
    to.collation == from.collation
        || to.collation == CollationId::BINARY
        || from.is_text() && from.collation != CollationId::BINARY && to.is_text()
        || !from.is_text() && !from.is_string()
}

fn is_number(text: &[u8]) -> bool {
    let number = read_number(text);
    !number.text.is_empty() && number.tail() == Tail::Nothing
}

/// Whether a text is a number without a fraction, so that storing it rounds nothing.
fn is_whole_text(text: &[u8]) -> bool {
    let number = read_number(text);
    number.is_integer && number.tail() == Tail::Nothing
}
