//! Constants beside a column of type YEAR: of one or two digits they mean 1970 to 2069, as they would if they were stored
//! there.

use keel_base::SqlResult;
use keel_expr::func::{Function, function};
use keel_expr::{EvalContext, Expr, Node};
use keel_value::types::Class;
use keel_value::{SqlType, TypeKind, Value, ValueRef};

/// Puts this around a constant. It has no name in SQL, and is not printed.
pub(crate) static COMPARED: Function =
    function!("compared_year", 1, 1, |_, _| Ok((SqlType::bigint(), true)), |_, args, cx| year_of(
        &args[0], cx
    ));

/// Has constants mean years where one of the sides is a column of years.
pub(super) fn complete(sides: &mut [Expr]) {
    let is_year = |side: &Expr| side.ty.kind == TypeKind::Year;
    if !sides.iter().any(|side| is_year(side) && side.as_any_column().is_some()) {
        return;
    }
    let may_be_short = |side: &&mut Expr| {
        matches!(side.class(), Class::Int | Class::String) && !is_year(side) && side.is_constant()
    };
    for side in sides.iter_mut().filter(may_be_short) {
        let (nullable, taken) = (side.nullable, std::mem::replace(side, Expr::null()));
        *side = Expr::new(Node::Call(&COMPARED, Box::new([taken])), SqlType::bigint(), nullable);
    }
}

fn year_of<'f>(arg: &'f Expr, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let short = match arg.eval(cx)?.as_ref() {
        ValueRef::Null => return Ok(Value::Null),
        ValueRef::Bytes(text) => of_text(text.trim_ascii()),
        _ => None,
    };
    Ok(match short {
        Some(year) => Value::Int(year),
        None => arg.integer(cx)?.map_or(Value::Null, |year| {
            Value::Int(whole(i64::try_from(year).unwrap_or(if year < 0 { i64::MIN } else { i64::MAX })))
        }),
    })
}

/// The year of up to four digits; zeros but four of them are 2000.
fn of_text(text: &[u8]) -> Option<i64> {
    let number: i64 = std::str::from_utf8(text).ok().filter(|_| text.len() <= 4)?.parse().ok()?;
    Some(if number == 0 && text.len() < 4 { 2000 } else { whole(number) })
}

fn whole(year: i64) -> i64 {
    match year {
        1..=69 => year + 2000,
        70..=99 => year + 1900,
        _ => year,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_digits_are_the_years_around_2000() {
        let texts = [("70", 1970), ("69", 2069), ("0", 2000), ("00", 2000), ("0000", 0), ("1999", 1999)];
        texts.into_iter().for_each(|(text, year)| assert_eq!(of_text(text.as_bytes()), Some(year), "{text}"));
        assert_eq!((whole(0), whole(70), whole(100)), (0, 1970, 100));
        assert_eq!(of_text(b"abc"), None);
    }
}
