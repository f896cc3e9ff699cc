//! Groups that are not read whole: of rows in an index's order the first and the last of a group have its MIN and MAX, and
//! any one stands for a group without aggregates. MariaDB calls it a loose index scan.
//!
//! Whether it pays shows while a group is read: after some rows a search for the group's end costs less than the rest.

use keel_base::SqlResult;
use keel_value::TypeKind;

use super::frame::FrameBuffer;
use super::group::ordering_index;
use crate::aggregate::AggregateKind;
use crate::expr::{EvalContext, Expr, walk};
use crate::group::GroupPlan;
use crate::join::Source;
use crate::session::Session;

/// Rows of a group that are read one after the other before the rest is passed over: a search costs as much as some rows.
pub(super) const ROWS_BEFORE_JUMP: u32 = 16;

/// What is needed of each group.
pub(crate) struct Loose {
    /// MIN's argument: rows are read up to the first where it is not NULL.
    first: Option<Expr>,
    /// MAX: the last row is read.
    pub last: bool,
}

impl Loose {
    /// What is needed of groups that come in the order of their keys; None where that is every row.
    pub fn new(plan: &GroupPlan, source: &Source) -> Option<Loose> {
        let Source::Table(table) = source else { return None };
        let counts = |e: &Expr| {
            let facts = walk::facts(e);
            facts.volatile || facts.assigns || facts.sequences
        };
        if table.numbered || table.filter.iter().chain(&table.implied).any(counts) {
            return None;
        }
        let index = ordering_index(plan, source)?;
        // Behind the declared parts come those of the clustered key.
        let behind = table.table.clustered_index().filter(|clustered| clustered.name != index.name);
        let mut parts = index.parts.iter().chain(behind.iter().flat_map(|clustered| &clustered.parts));
        let next = parts.nth(plan.keys.len());
        let mut loose = Loose { first: None, last: false };
        for call in &plan.aggregates {
            let argument = call.args.first().filter(|argument| is_ordered(argument))?;
            let column = argument.as_column().filter(|column| column.slot == table.slot)?;
            next.filter(|part| {
                part.column == column.column as usize && part.prefix.is_none() && !part.descending
            })?;
            match call.kind {
                AggregateKind::Min => loose.first = Some(argument.clone()),
                AggregateKind::Max => loose.last = true,
                _ => return None,
            }
        }
        Some(loose)
    }

    /// Whether the current row has the group's MIN or comes behind the one that has it.
    pub fn has_first(&self, session: &mut Session, frame: &FrameBuffer<'_>) -> SqlResult<bool> {
        let Some(argument) = &self.first else { return Ok(true) };
        let mut cx = EvalContext::new(session, frame.view());
        Ok(!argument.eval(&mut cx)?.as_ref().is_null())
    }
}

/// Whether MIN and MAX compare values as an index does: members of ENUM and SET have names, and an hour is repeated where the
/// clock is set back.
fn is_ordered(argument: &Expr) -> bool {
    !argument.ty.has_members() && argument.ty.kind != TypeKind::Timestamp
}
