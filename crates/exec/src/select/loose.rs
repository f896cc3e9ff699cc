//! Groups that are not read whole: of rows in an index's order the first and the last of a group have its MIN and MAX, and
//! any one stands for a group without aggregates. MariaDB calls it a loose index scan.
//!
//! Whether it pays shows while a group is read: after some rows a search for the group's end costs less than the rest.

use keel_base::SqlResult;

use super::frame::FrameBuffer;
use crate::expr::{EvalContext, Expr};
use crate::session::Session;

/// Rows of a group that are read one after the other before the rest is passed over: a search costs as much as some rows.
pub(super) const ROWS_BEFORE_JUMP: u32 = 16;

/// What is needed of each group.
pub struct Loose {
    /// MIN's argument: rows are read up to the first where it is not NULL.
    pub first: Option<Expr>,
    /// MAX: the last row is read.
    pub last: bool,
}

impl Loose {
    /// Whether the current row has the group's MIN or comes behind the one that has it.
    pub fn has_first(&self, session: &mut Session, frame: &FrameBuffer<'_>) -> SqlResult<bool> {
        let Some(argument) = &self.first else { return Ok(true) };
        let mut cx = EvalContext::new(session, frame.view());
        Ok(!argument.eval(&mut cx)?.as_ref().is_null())
    }
}
