//! From bound windows to stages.

use std::sync::Arc;

use keel_value::row::Layout;

use super::{Stage, WindowCall};
use crate::expr::{ColumnRef, Expr, Node, RowSlot, walk};
use crate::result::RowView;
use crate::select::{Carry, RowPacker, local_type};

/// A slot whose values are computed: the groups' aggregates, or the functions' results.
pub struct ComputedSlot {
    /// The slot.
    pub slot: u16,
    /// How its values are kept.
    pub layout: Arc<Layout>,
}

/// What a row keeps on its way through the stages.
pub struct WindowCarry {
    /// Columns of tables.
    pub tables: Carry,
    /// Slots whose values are computed.
    pub computed: Vec<ComputedSlot>,
}

/// All windows of a query.
pub struct WindowPlan {
    /// In the order in which they run, at least one.
    pub stages: Vec<Stage>,
    /// By number.
    pub calls: Vec<WindowCall>,
    /// What rows keep.
    pub carry: WindowCarry,
    /// The slot of the functions' results.
    pub slot: u16,
    /// The slot with the current row's key of an order, from which bounds of RANGE are computed.
    pub key_slot: u16,
}

impl WindowPlan {
    /// Every expression over rows.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let keys = self.stages.iter().flat_map(|stage| &stage.keys);
        keys.chain(self.calls.iter().flat_map(WindowCall::expressions))
    }
}

impl super::Bound {
    /// Whether a value of the order bounds the frame.
    pub fn is_value(&self) -> bool {
        matches!(self, super::Bound::Value(_))
    }
}

impl WindowCall {
    /// The expressions that it reads rows by.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let aggregate = match &self.kind {
            super::WindowKind::Aggregate(call) => &call.args[..],
            _ => &[],
        };
        self.args.iter().chain(aggregate)
    }

    /// The same, to change.
    pub fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let aggregate = match &mut self.kind {
            super::WindowKind::Aggregate(call) => &mut call.args[..],
            _ => &mut [],
        };
        self.args.iter_mut().chain(aggregate)
    }
}

impl WindowCarry {
    /// Appends what the current row keeps.
    pub fn save(&self, slots: &[RowSlot], out: &mut Vec<u8>) {
        self.tables.save(slots, out);
        for computed in &self.computed {
            let start = out.len();
            out.extend_from_slice(&[0; 4]);
            match &slots[computed.slot as usize] {
                RowSlot::Null => continue,
                RowSlot::Entry { .. } | RowSlot::Numbered { .. } => {
                    unreachable!("computed columns are of no table")
                }
                RowSlot::Stored { bytes, .. } => out.extend_from_slice(bytes),
                RowSlot::Values(values) => {
                    RowPacker::new(&computed.layout).pack(RowView::Values(values), out)
                }
            }
            let length = (out.len() - start - 3) as u32;
            out[start..start + 4].copy_from_slice(&length.to_le_bytes());
        }
    }

    /// Puts it back.
    pub fn load(&self, bytes: &[u8], slots: &mut [RowSlot]) {
        let mut bytes = self.tables.load(bytes, slots);
        for computed in &self.computed {
            let (head, rest) = bytes.split_at(4);
            let length = u32::from_le_bytes(head.try_into().expect("four octets")) as usize;
            let slot = &mut slots[computed.slot as usize];
            let Some(length) = length.checked_sub(1) else {
                *slot = RowSlot::Null;
                bytes = rest;
                continue;
            };
            let (row, rest) = rest.split_at(length);
            bytes = rest;
            if let RowSlot::Stored { layout, bytes: buffer, .. } = slot
                && Arc::ptr_eq(layout, &computed.layout)
            {
                buffer.clear();
                buffer.extend_from_slice(row);
                continue;
            }
            *slot = RowSlot::Stored { layout: computed.layout.clone(), map: None, bytes: row.to_vec() };
        }
    }
}

/// Makes calls of window functions columns of their results' slot.
pub fn place(expr: &mut Expr, slot: u16) {
    walk::visit_mut(expr, &mut |e| {
        if let Node::Window(number) = e.node {
            let name = "window".into();
            e.node = Node::Column(ColumnRef { slot, column: number as u16, name });
            e.ty = local_type(&e.ty);
        }
    });
}
