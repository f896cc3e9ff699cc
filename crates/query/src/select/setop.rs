//! Set operations.
pub(crate) struct SetPlan;
