//! Keys and index entries of a row.

use keel_catalog::{IndexDef, TableDef};
use keel_value::convert::timestamp_to_local;
use keel_value::row::RowRef;
use keel_value::temporal::Zone;
use keel_value::{TypeKind, ValueRef};

/// The values of a key as 1062 prints them: joined by `-`.
/// Bytes that are not valid text are printed as `\xNN`, and TIMESTAMP values in the session's zone.
pub(crate) fn printed_key(table: &TableDef, index: &IndexDef, row: &RowRef<'_>, zone: &dyn Zone) -> String {
    let mut text = Vec::new();
    for (place, part) in index.parts.iter().enumerate() {
        if place > 0 {
            text.push(b'-');
        }
        let ty = &table.columns[part.column].ty;
        match row.get(part.column) {
            ValueRef::Null => text.extend_from_slice(b"NULL"),
            ValueRef::Bytes(bytes) => {
                let cut = match part.prefix {
                    Some(chars) => keel_value::collation::substring(ty.collation, bytes, 0, chars as usize),
                    None => bytes,
                };
                push_utf8(ty, cut, &mut text);
            }
            ValueRef::DateTime(utc) if ty.kind == TypeKind::Timestamp => {
                let local = ValueRef::DateTime(timestamp_to_local(utc, zone));
                keel_value::text::append(&mut text, ty, local);
            }
            value => keel_value::text::append(&mut text, ty, value),
        }
    }
    String::from_utf8_lossy(&text).into_owned()
}

fn push_utf8(ty: &keel_value::SqlType, bytes: &[u8], out: &mut Vec<u8>) {
    use keel_value::collation::{Charset, convert};
    let (from, to) = (ty.collation.charset(), Charset::Utf8mb4);
    if from == Charset::Binary || std::str::from_utf8(bytes).is_err() && from == to {
        push_escaped(bytes, out);
    } else if from == to {
        out.extend_from_slice(bytes);
    } else {
        out.extend_from_slice(&convert(from, to, bytes).0);
    }
}

/// Bytes other than printable ASCII as `\xNN`.
fn push_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        match byte {
            b' '..0x7F => out.push(*byte),
            byte => out.extend_from_slice(format!("\\x{byte:02X}").as_bytes()),
        }
    }
}
