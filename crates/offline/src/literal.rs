//! Values as SQL literals that give them back exactly.

use std::io::Write;

use keel_value::collation::{Charset, convert};
use keel_value::{SqlType, TypeKind, ValueRef, text};

/// Appends a literal of the value, for a client that speaks utf8mb4 in UTC.
pub(super) fn push_literal(out: &mut Vec<u8>, ty: &SqlType, value: ValueRef<'_>) {
    match value {
        ValueRef::Null => out.extend_from_slice(b"NULL"),
        ValueRef::UInt(bits) if ty.kind == TypeKind::Bit => put(out, format_args!("b'{bits:b}'")),
        // The shortest digits that give the same number; text would round them.
        ValueRef::Double(v) => put(out, format_args!("{v:e}")),
        ValueRef::Float(v) => put(out, format_args!("{:e}", f64::from(v))),
        _ if ty.is_numeric() => text::append(out, ty, value),
        _ => {
            let mut bytes = Vec::new();
            text::append(&mut bytes, ty, value);
            push_text(out, ty, &bytes);
        }
    }
}

fn put(out: &mut Vec<u8>, args: std::fmt::Arguments<'_>) {
    out.write_fmt(args).expect("a Vec takes all bytes");
}

fn push_text(out: &mut Vec<u8>, ty: &SqlType, bytes: &[u8]) {
    let is_text = ty.is_text() || ty.has_members();
    let charset = if is_text { ty.collation.charset() } else { Charset::Utf8mb4 };
    if charset == Charset::Binary || (ty.is_string() && !is_text) {
        return push_hex(out, bytes);
    }
    let (utf8, lost) = convert(charset, Charset::Utf8mb4, bytes);
    if lost > 0 || std::str::from_utf8(&utf8).is_err() {
        put(out, format_args!("_{} ", charset.name()));
        return push_hex(out, bytes);
    }
    keel_value::text::append_literal(out, &utf8);
}

fn push_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(b"x'");
    bytes.iter().for_each(|byte| put(out, format_args!("{byte:02x}")));
    out.push(b'\'');
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel_value::CollationId;

    fn literal(ty: SqlType, value: ValueRef<'_>) -> String {
        let mut out = Vec::new();
        push_literal(&mut out, &ty, value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn literals_give_the_value_back() {
        let text = SqlType::varchar(20, CollationId::UTF8MB4_GENERAL_CI);
        assert_eq!(literal(text.clone(), ValueRef::Bytes(b"it's a \\\n")), "'it\\'s a \\\\\\n'");
        assert_eq!(literal(text.clone(), ValueRef::Bytes(&[0xff])), "_utf8mb4 x'ff'");
        assert_eq!(literal(text, ValueRef::Null), "NULL");
        assert_eq!(literal(SqlType::new(TypeKind::Double), ValueRef::Double(0.1)), "1e-1");
        assert_eq!(literal(SqlType::new(TypeKind::Int), ValueRef::Int(-5)), "-5");
        let binary = SqlType::varchar(20, CollationId::BINARY);
        assert_eq!(literal(binary, ValueRef::Bytes(&[0, 255])), "x'00ff'");
    }
}
