//! Planning.
use keel_base::SqlResult;
use keel_sql::ast;

use super::SelectPlan;
use crate::bind::Binder;

pub(super) fn plan_query(_b: &mut Binder<'_>, _q: &ast::Query, _o: Option<()>) -> SqlResult<SelectPlan> {
    unimplemented!()
}
