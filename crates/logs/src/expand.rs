//! The text of a prepared statement with the values of its parameters, as the logs show an execution.

use keel_value::types::TypeKind;
use keel_value::{SqlType, Value};

use crate::tokens::token;

/// The maximum length of the text; beyond it `?` stays as it is.
const BYTES_MAX: usize = 1 << 20;

/// Replaces each `?` outside of quotes and comments by the next value.
pub fn expand(text: &[u8], values: &[Value]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() + values.len() * 8);
    let mut values = values.iter();
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        let end = token(text, at).end;
        match byte {
            b'?' if out.len() < BYTES_MAX => match values.next() {
                Some(value) => append(&mut out, value),
                None => out.push(b'?'),
            },
            _ => out.extend_from_slice(&text[at..end]),
        }
        at = end;
    }
    out
}

fn append(out: &mut Vec<u8>, value: &Value) {
    let kind = match value {
        Value::Null => return out.extend_from_slice(b"NULL"),
        Value::Bytes(bytes) => {
            return keel_value::text::append_literal(out, &bytes[..bytes.len().min(BYTES_MAX)]);
        }
        Value::Int(_) | Value::UInt(_) => TypeKind::BigInt,
        Value::Double(_) => TypeKind::Double,
        Value::Float(_) => TypeKind::Float,
        Value::Decimal(v) => return v.append_to(out),
        Value::Fixed(v) => {
            out.push(b'\'');
            v.append_to(out);
            return out.push(b'\'');
        }
        Value::Date(_) => TypeKind::Date,
        Value::Time(_) => TypeKind::Time,
        Value::DateTime(_) => TypeKind::DateTime,
    };
    let is_temporal = matches!(kind, TypeKind::Date | TypeKind::Time | TypeKind::DateTime);
    let quote: &[u8] = if is_temporal { b"'" } else { b"" };
    out.extend_from_slice(quote);
    let ty = match kind {
        TypeKind::Time | TypeKind::DateTime => SqlType::temporal(kind, 6),
        _ => SqlType::new(kind),
    };
    keel_value::text::append(out, &ty, value.as_ref());
    out.extend_from_slice(quote);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_where_parameters_stood() {
        let shown =
            |text: &str, values: &[Value]| String::from_utf8(expand(text.as_bytes(), values)).unwrap();
        let values = [Value::Int(-1), Value::bytes(b"it's"), Value::Null];
        assert_eq!(shown("SELECT ?, ?, ?", &values), "SELECT -1, 'it\\'s', NULL");
        assert_eq!(
            shown("SELECT '?\\'?', `?`, \"?\" /* ? */, -- ?\n ?", &values[..1]),
            "SELECT '?\\'?', `?`, \"?\" /* ? */, -- ?\n -1"
        );
        assert_eq!(
            shown("SELECT --\t?\n /*! ? */ 'a''?', ?", &values[..1]),
            "SELECT --\t?\n /*! -1 */ 'a''?', ?"
        );
        assert_eq!(shown("SELECT ?, 'open ?", &[]), "SELECT ?, 'open ?");
    }
}
