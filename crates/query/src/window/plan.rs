//! From bound windows to stages.

use std::sync::Arc;

use keel_value::row::Layout;

use super::bind::BoundWindow;
use super::{Frame, FrameGroup, Stage, WindowCall};
use crate::expr::{ColumnRef, Expr, Node, RowSlot, walk};
use crate::result::RowView;
use crate::select::{Carry, RowPacker, local_type, result_layout, sort_part};

/// A slot whose values are computed: the groups' aggregates, or the functions' results.
struct ComputedSlot {
    slot: u16,
    layout: Arc<Layout>,
}

/// What a row keeps on its way through the stages.
pub(crate) struct WindowCarry {
    tables: Carry,
    computed: Vec<ComputedSlot>,
}

/// All windows of a query.
pub struct WindowPlan {
    /// In the order in which they run, at least one.
    pub stages: Vec<Stage>,
    /// By number.
    pub(crate) calls: Vec<WindowCall>,
    pub(crate) carry: WindowCarry,
    /// The slot of the functions' results.
    pub slot: u16,
    /// The slot with the current row's key of an order, from which bounds of RANGE are computed.
    pub key_slot: u16,
}

impl WindowPlan {
    /// Plans windows whose functions and keys read their rows from the tables' slots and from `group`: its slot, and its
    /// aggregates' types. `slot` takes the results, the slot behind it keys.
    pub(crate) fn new(
        windows: Vec<BoundWindow>,
        tables: Carry,
        group: Option<(u16, Arc<Layout>)>,
        slot: u16,
    ) -> WindowPlan {
        let mut stages: Vec<Stage> = Vec::new();
        let mut calls = Vec::new();
        for window in windows {
            let number = calls.len();
            let BoundWindow { call, partition, order, frame } = window;
            calls.push(call);
            let stage = stage_for(&mut stages, partition, &order);
            let peer_parts = stage.partition_parts + order.len();
            let by_value = frame.start.is_value() || frame.end.is_value();
            let range_key = if by_value { order.into_iter().next() } else { None };
            let shared =
                |group: &&mut FrameGroup| group.peer_parts == peer_parts && alike(&group.frame, &frame);
            match stage.groups.iter_mut().find(shared) {
                Some(group) => group.calls.push(number),
                None => stage.groups.push(FrameGroup { peer_parts, range_key, frame, calls: vec![number] }),
            }
        }
        // A stage without keys takes rows as they come: first, it leaves their order to the others.
        stages.sort_by_key(|stage| !stage.keys.is_empty());
        let results = ComputedSlot { slot, layout: result_layout(calls.iter().map(|call| &call.ty)) };
        let group = group.map(|(slot, layout)| ComputedSlot { slot, layout });
        let computed = group.into_iter().chain([results]).collect();
        WindowPlan { stages, calls, carry: WindowCarry { tables, computed }, slot, key_slot: slot + 1 }
    }

    /// Every expression over rows.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let keys = self.stages.iter().flat_map(|stage| &stage.keys);
        keys.chain(self.calls.iter().flat_map(WindowCall::expressions))
    }
}

/// The stage that sorts by this partition and order, or by more; a new one where there is none.
fn stage_for<'s>(stages: &'s mut Vec<Stage>, partition: Vec<Expr>, order: &[(Expr, bool)]) -> &'s mut Stage {
    let serves = |stage: &Stage| {
        let (own, rest) = stage.keys.split_at(stage.partition_parts);
        let parts = &stage.parts[stage.partition_parts..];
        own.len() == partition.len()
            && own.iter().zip(&partition).all(|(a, b)| walk::same(a, b))
            && rest.iter().zip(parts).zip(order).all(|((key, part), (expr, descending))| {
                part.descending == *descending && walk::same(key, expr)
            })
    };
    let index = stages.iter().position(serves).unwrap_or_else(|| {
        let parts = partition.iter().map(|key| sort_part(key, false)).collect();
        let partition_parts = partition.len();
        stages.push(Stage { keys: partition, parts, partition_parts, groups: Vec::new() });
        stages.len() - 1
    });
    let stage = &mut stages[index];
    let known = stage.keys.len() - stage.partition_parts;
    for (expr, descending) in order.iter().skip(known) {
        stage.keys.push(expr.clone());
        stage.parts.push(sort_part(expr, *descending));
    }
    stage
}

/// Whether frames are the same, bounds by value excepted.
fn alike(a: &Frame, b: &Frame) -> bool {
    use super::Bound::{Current, Rows, Unbounded};
    let bound = |a: &_, b: &_| match (a, b) {
        (Unbounded, Unbounded) | (Current, Current) => true,
        (Rows(a), Rows(b)) => a == b,
        _ => false,
    };
    a.range == b.range && bound(&a.start, &b.start) && bound(&a.end, &b.end)
}

impl super::Bound {
    pub(super) fn is_value(&self) -> bool {
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

impl BoundWindow {
    /// Every expression over rows.
    pub fn expressions(&self) -> impl Iterator<Item = &Expr> {
        let keys = self.partition.iter().chain(self.order.iter().map(|(key, _)| key));
        keys.chain(self.call.expressions())
    }

    /// The same, to change.
    pub fn expressions_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let keys = self.partition.iter_mut().chain(self.order.iter_mut().map(|(key, _)| key));
        keys.chain(self.call.expressions_mut())
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
