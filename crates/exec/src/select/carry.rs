//! Rows of several tables as bytes, and back: what groups, hash joins and spills keep of a joined row.
//!
//! Only the columns that somebody reads later are kept. Put back, a slot looks like one read through a covering index, so
//! expressions notice no difference.

use std::sync::Arc;

use keel_value::key::KeyPart;
use keel_value::row::{self, Layout};
use keel_value::types::{Class, Format};
use keel_value::{SqlType, TypeKind, ValueRef};

use crate::expr::frame::NOT_COVERED;
use crate::expr::{Expr, RowSlot};

/// The kept columns of one slot.
#[derive(Clone)]
struct Part {
    slot: u16,
    columns: Vec<u16>,
    layout: Arc<Layout>,
    map: Arc<[u16]>,
}

/// The kept columns of all slots.
#[derive(Clone, Default)]
pub struct Carry {
    parts: Vec<Part>,
}

/// A type whose stored form holds every value of an expression of type `ty`: integers in eight bytes, timestamps as the
/// local time that expressions see. A fraction digit makes room for which of two instants a local time is.
pub fn stored_type(ty: &SqlType) -> SqlType {
    match ty.class() {
        Class::Int if ty.is_integer() => SqlType { unsigned: ty.unsigned, ..SqlType::bigint() },
        Class::Null => SqlType::varbinary(0),
        _ if ty.is_instant() => SqlType::temporal(TypeKind::DateTime, ty.decimals.max(1)),
        _ => ty.clone(),
    }
}

/// A layout for results of these types.
pub fn result_layout<'t>(types: impl Iterator<Item = &'t SqlType>) -> Arc<Layout> {
    let columns: Vec<(SqlType, bool)> = types.map(|ty| (stored_type(ty), true)).collect();
    Arc::new(Layout::new(&columns))
}

/// Columns read of one slot: their types by place, and which are wanted.
pub struct SlotColumns<'a> {
    /// The slot.
    pub slot: u16,
    /// The types of all its columns.
    pub types: Vec<&'a SqlType>,
    /// Which of them are read.
    pub wanted: &'a [bool],
}

impl Carry {
    /// Keeps the wanted columns of the given slots. Values are kept as the slot holds them (timestamps in UTC).
    pub fn new<'a>(slots: impl Iterator<Item = SlotColumns<'a>>) -> Carry {
        let parts = slots
            .map(|slot| {
                let columns: Vec<u16> =
                    (0..slot.types.len() as u16).filter(|c| slot.wanted[*c as usize]).collect();
                let kept: Vec<(SqlType, bool)> =
                    columns.iter().map(|c| (held_type(slot.types[*c as usize]), true)).collect();
                let mut map = vec![NOT_COVERED; slot.types.len()];
                for (place, column) in columns.iter().enumerate() {
                    map[*column as usize] = place as u16;
                }
                Part { slot: slot.slot, columns, layout: Arc::new(Layout::new(&kept)), map: map.into() }
            })
            .collect();
        Carry { parts }
    }

    /// Appends the kept columns of the current rows.
    pub fn save(&self, slots: &[RowSlot], out: &mut Vec<u8>) {
        for part in &self.parts {
            let slot = &slots[part.slot as usize];
            let start = out.len();
            out.extend_from_slice(&[0; 4]);
            if !matches!(slot, RowSlot::Null) {
                row::encode_with(&part.layout, |i| slot.get(part.columns[i]), out);
                let length = (out.len() - start - 3) as u32;
                out[start..start + 4].copy_from_slice(&length.to_le_bytes());
            }
        }
    }

    /// Puts kept columns back; gives what follows them.
    pub fn load<'b>(&self, mut bytes: &'b [u8], slots: &mut [RowSlot]) -> &'b [u8] {
        for part in &self.parts {
            let (head, rest) = bytes.split_at(4);
            let length = u32::from_le_bytes(head.try_into().expect("four octets")) as usize;
            let slot = &mut slots[part.slot as usize];
            if length == 0 {
                *slot = RowSlot::Null;
                bytes = rest;
                continue;
            }
            let (row, rest) = rest.split_at(length - 1);
            bytes = rest;
            if let RowSlot::Stored { layout, map: Some(map), bytes: buffer } = slot
                && Arc::ptr_eq(layout, &part.layout)
                && Arc::ptr_eq(map, &part.map)
            {
                buffer.clear();
                buffer.extend_from_slice(row);
                continue;
            }
            *slot = RowSlot::Stored {
                layout: part.layout.clone(),
                map: Some(part.map.clone()),
                bytes: row.to_vec(),
            };
        }
        bytes
    }

    /// Makes all its slots NULL: the group of no rows.
    pub fn clear(&self, slots: &mut [RowSlot]) {
        for part in &self.parts {
            slots[part.slot as usize] = RowSlot::Null;
        }
    }
}

/// Like [`stored_type`], but for values as slots hold them: a timestamp stays one.
fn held_type(ty: &SqlType) -> SqlType {
    if ty.kind == TypeKind::Timestamp { ty.clone() } else { stored_type(ty) }
}

/// A value that fits its type's stored form: what an expression gave in another shape is NULL-safe converted.
pub(crate) fn fits(ty: &SqlType, value: ValueRef<'_>) -> bool {
    match value {
        ValueRef::Null => true,
        ValueRef::Int(_) => ty.is_integer(),
        ValueRef::UInt(_) => ty.class() == Class::Int || ty.has_members(),
        ValueRef::Double(_) => ty.kind == TypeKind::Double,
        ValueRef::Float(_) => ty.kind == TypeKind::Float,
        ValueRef::Decimal(d) => {
            ty.kind == TypeKind::Decimal
                && u32::from(d.scale()) <= u32::from(ty.decimals)
                && d.precision().saturating_sub(u32::from(d.scale())) <= ty.length - u32::from(ty.decimals)
        }
        ValueRef::Bytes(_) => ty.is_string(),
        ValueRef::Date(_) => ty.kind == TypeKind::Date,
        ValueRef::Time(_) => ty.kind == TypeKind::Time,
        ValueRef::DateTime(_) => matches!(ty.kind, TypeKind::DateTime | TypeKind::Timestamp),
        ValueRef::Fixed(v) => ty.kind == v.kind().type_kind(),
    }
}

/// How a key of an order is encoded.
pub fn sort_part(expr: &Expr, descending: bool) -> KeyPart {
    let mut part = KeyPart::new(stored_type(&expr.ty), true);
    part.descending = descending;
    part
}

/// A result's type as a column: timestamps are local times from here on.
pub fn local_type(ty: &SqlType) -> SqlType {
    match ty.kind {
        TypeKind::Timestamp => {
            SqlType::temporal(TypeKind::DateTime, ty.decimals).with_format(Format::Instant)
        }
        TypeKind::Bit => ty.clone().with_format(Format::Plain),
        _ => ty.clone(),
    }
}
