//! Execution.
use keel_base::SqlResult;
use keel_value::Value;

use super::{RowOutput, SelectPlan};
use crate::expr::Frame;
use crate::result::RowSink;
use crate::session::Session;

pub(super) fn to_sink(
    _p: &SelectPlan,
    _s: &mut Session,
    _v: &[Value],
    _k: &mut dyn RowSink,
) -> SqlResult<u64> {
    unimplemented!()
}
pub(super) fn each(
    _p: &SelectPlan,
    _s: &mut Session,
    _v: &[Value],
    _o: Option<&Frame<'_>>,
    _out: &mut dyn RowOutput,
) -> SqlResult<()> {
    unimplemented!()
}
