//! The frame of a running query block, and rows packed into bytes.

use std::cell::OnceCell;

use keel_value::key::KeyPart;
use keel_value::row::{self, Layout};
use keel_value::temporal::Utc;
use keel_value::{Cell, Date, SqlMode, SqlType, Value, ValueRef, convert};

use super::carry::fits;
use crate::expr::frame::{Kept, once_cells};
use crate::expr::{Frame, RowSlot};
use crate::result::RowView;

/// The slots and kept values of one execution of a query block.
pub(crate) struct FrameBuffer<'f> {
    pub slots: Vec<RowSlot>,
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
pub(crate) struct RowPacker<'l> {
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
pub(crate) fn encode_key_part(part: &KeyPart, value: ValueRef<'_>, out: &mut Vec<u8>) {
    if fits(&part.ty, value) {
        part.encode(value, out);
    } else {
        part.encode(reshape(value, &part.ty).as_ref(), out);
    }
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
