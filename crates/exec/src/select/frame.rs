//! The frame of a running query block, and rows packed into bytes.

use std::cell::OnceCell;

use keel_value::key::KeyPart;
use keel_value::row::{self, Layout};
use keel_value::temporal::Utc;
use keel_value::types::Class;
use keel_value::{Cell, CollationId, Date, SqlMode, SqlType, Value, ValueRef, collation, convert};

use super::carry::fits;
use crate::expr::frame::{Kept, once_cells};
use crate::expr::{Frame, RowSlot};
use crate::result::RowView;

/// The slots and kept values of one execution of a query block.
pub struct FrameBuffer<'f> {
    /// The current row of each table.
    pub slots: Vec<RowSlot>,
    /// The execution's parameters.
    pub params: &'f [Value],
    once: Vec<OnceCell<Kept>>,
    outer: Option<&'f Frame<'f>>,
}

impl<'f> FrameBuffer<'f> {
    /// A frame whose rows are all NULL.
    pub fn new(
        slots: usize,
        once: u32,
        params: &'f [Value],
        outer: Option<&'f Frame<'f>>,
    ) -> FrameBuffer<'f> {
        FrameBuffer { slots: vec![RowSlot::Null; slots], params, once: once_cells(once), outer }
    }

    /// As expressions see it.
    #[inline]
    pub fn view(&self) -> Frame<'_> {
        Frame { slots: &self.slots, params: self.params, once: &self.once, outer: self.outer }
    }
}

/// Packs result rows into a layout of stored types.
pub struct RowPacker<'l> {
    layout: &'l Layout,
}

impl<'l> RowPacker<'l> {
    /// A packer for a layout made by `result_layout`.
    pub fn new(layout: &'l Layout) -> RowPacker<'l> {
        RowPacker { layout }
    }

    /// Appends a row from cells.
    pub fn pack_cells(&mut self, cells: &[Cell<'_>], out: &mut Vec<u8>) {
        let columns = self.layout.columns();
        if cells.iter().zip(columns).all(|(cell, column)| fits(&column.ty, cell.as_ref())) {
            row::encode_with(self.layout, |i| cells[i].as_ref(), out);
            return;
        }
        let values: Vec<Value> =
            cells.iter().zip(columns).map(|(cell, column)| reshape(cell.as_ref(), &column.ty)).collect();
        row::encode_values(self.layout, &values, out);
    }

    /// Appends a result row.
    pub fn pack(&mut self, view: RowView<'_>, out: &mut Vec<u8>) {
        match view {
            RowView::Stored { layout, bytes, projection } => {
                let row = row::RowRef::new(layout, bytes);
                let columns = self.layout.columns();
                if projection.iter().zip(columns).all(|(place, column)| fits(&column.ty, row.get(*place))) {
                    row::encode_with(self.layout, |i| row.get(projection[i]), out);
                    return;
                }
                let cells: Vec<Cell<'_>> =
                    projection.iter().map(|place| Cell::Ref(row.get(*place))).collect();
                self.pack_cells(&cells, out);
            }
            RowView::Values(values) => {
                let columns = self.layout.columns();
                if values.iter().zip(columns).all(|(value, column)| fits(&column.ty, value.as_ref())) {
                    row::encode_values(self.layout, values, out);
                    return;
                }
                let shaped: Vec<Value> = values
                    .iter()
                    .zip(columns)
                    .map(|(value, column)| reshape(value.as_ref(), &column.ty))
                    .collect();
                row::encode_values(self.layout, &shaped, out);
            }
        }
    }
}

/// Appends one part of a sort or group key.
#[inline]
pub fn encode_key_part(part: &KeyPart, value: ValueRef<'_>, out: &mut Vec<u8>) {
    if fits(&part.ty, value) {
        part.encode(value, out);
    } else {
        part.encode(reshape(value, &part.ty).as_ref(), out);
    }
}

/// One part of the key of ORDER BY.
pub struct SortPart {
    /// How it is encoded.
    pub key: KeyPart,
    /// MariaDB keeps weights of its texts in sort keys.
    by_weights: bool,
}

impl SortPart {
    /// What is encoded as `key` says.
    pub fn new(key: KeyPart) -> SortPart {
        let by_weights = key.ty.is_string() && {
            let name = key.ty.collation.name();
            let simple = ["_general_ci", "_general_nopad_ci", "_bin", "_nopad_bin"];
            key.ty.collation.charset().is_unicode() && !simple.iter().any(|end| name.ends_with(end))
        };
        SortPart { key, by_weights }
    }
}

/// Appends one part of the key of ORDER BY. `max_sort_length` bounds what counts of a text or of bytes; `parts` are all
/// parts of the key.
#[inline]
pub fn encode_sort_part<'p>(
    sort_part: &SortPart,
    value: ValueRef<'_>,
    most: u32,
    parts: impl Iterator<Item = &'p SortPart>,
    out: &mut Vec<u8>,
) {
    let part = &sort_part.key;
    match value {
        ValueRef::Bytes(bytes) if part.ty.is_string() && part.ty.collation == CollationId::BINARY => {
            encode_sort_bytes(part, bytes, most, out);
        }
        // No limit is less than a quarter of `max_sort_length`, in characters.
        ValueRef::Bytes(bytes) if part.ty.is_string() && bytes.len() > most as usize / 4 => {
            let cut = cut_for_sort(sort_part, bytes, most, parts);
            encode_key_part(part, ValueRef::Bytes(cut), out);
        }
        _ => encode_key_part(part, value, out),
    }
}

/// Bytes of a binary type are compared up to the limit, less the bytes of a length, and then by their length.
fn encode_sort_bytes(part: &KeyPart, bytes: &[u8], most: u32, out: &mut Vec<u8>) {
    let suffix = match part.ty.length {
        ..0x100 => 1,
        0x100..0x1_0000 => 2,
        0x1_0000..0x100_0000 => 3,
        _ => 4,
    };
    let kept = most.saturating_sub(suffix);
    let is_longer = part.ty.length > kept;
    let cut = if is_longer { &bytes[..bytes.len().min(kept as usize)] } else { bytes };
    encode_key_part(part, ValueRef::Bytes(cut), out);
    if is_longer {
        let length = bytes.len() as u32;
        out.extend_from_slice(&if part.descending { !length } else { length }.to_be_bytes());
    }
}

/// What counts of a text. MariaDB keeps weights in short keys, and the text itself in long ones.
fn cut_for_sort<'b, 'p>(
    part: &SortPart,
    bytes: &'b [u8],
    most: u32,
    parts: impl Iterator<Item = &'p SortPart>,
) -> &'b [u8] {
    let collation = part.key.ty.collation;
    let charset = collation.charset();
    let chars = if part.by_weights {
        most / WEIGHT_BYTES
    } else if parts.map(|part| sort_bytes(&part.key, most)).sum::<u32>() >= PACKED_BYTES_MIN {
        let mut end = bytes.len().min(most as usize);
        while charset.is_utf8() && end < bytes.len() && bytes[end] & 0xC0 == 0x80 {
            end -= 1;
        }
        return &bytes[..end];
    } else {
        most.div_ceil(charset.max_bytes())
    };
    collation::substring(collation, bytes, 0, chars as usize)
}

/// Bytes of a weight of the Unicode Collation Algorithm.
const WEIGHT_BYTES: u32 = 2;

/// Bytes of a key from which on MariaDB keeps texts in it.
const PACKED_BYTES_MIN: u32 = 132;

/// Bytes of a part in MariaDB's sort keys, about.
fn sort_bytes(part: &KeyPart, most: u32) -> u32 {
    let ty = &part.ty;
    let bytes = match ty.class() {
        Class::String if ty.is_blob() => ty.length.min(most),
        Class::String => ty.length.saturating_mul(ty.collation.charset().max_bytes()).min(most),
        _ => 8,
    };
    bytes + u32::from(part.nullable)
}

/// A value in the shape that a type is stored in, where an expression gave another one.
#[cold]
fn reshape(value: ValueRef<'_>, ty: &SqlType) -> Value {
    if fits(ty, value) {
        return value.to_owned();
    }
    let from = match value {
        ValueRef::Int(_) => SqlType::bigint(),
        ValueRef::UInt(_) => SqlType::bigint_unsigned(),
        ValueRef::Decimal(_) => SqlType::decimal(65, 38),
        ValueRef::Double(_) | ValueRef::Float(_) => SqlType::double(),
        ValueRef::Date(_) => SqlType::new(keel_value::TypeKind::Date),
        ValueRef::Time(_) => SqlType::temporal(keel_value::TypeKind::Time, 6),
        ValueRef::DateTime(_) => SqlType::temporal(keel_value::TypeKind::DateTime, 6),
        ValueRef::Fixed(v) => SqlType::new(v.kind().type_kind()),
        ValueRef::Bytes(_) | ValueRef::Null => SqlType::varchar(u32::MAX, ty.collation),
    };
    let context =
        convert::StoreContext { mode: SqlMode::EMPTY, strict: false, zone: &Utc, today: Date::default() };
    convert::store(ty, &from, value, &context).map_or(Value::Null, |(cell, _)| cell.into_value())
}
