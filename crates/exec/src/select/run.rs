//! Running a planned query: to a client, to variables, or to a consumer inside the server.

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_context::user_variables::UserVariable;
use keel_value::Value;

use super::{Body, Limits, RowOutput, SelectPlan};
use crate::access::{plain_read, read_mode};
use crate::expr::Frame;
use crate::result::{RowSink, RowView};
use crate::session::Session;
use crate::stack::with_room;

/// Sends rows to a client.
struct ToSink<'a> {
    sink: &'a mut dyn RowSink,
    sent: u64,
}

impl RowOutput for ToSink<'_> {
    fn row(&mut self, _: &mut Session, row: RowView<'_>) -> SqlResult<bool> {
        self.sink.row(row)?;
        self.sent += 1;
        self.sink.breathe()?;
        Ok(true)
    }
}

/// Puts the only row into variables.
struct ToVariables<'a> {
    plan: &'a SelectPlan,
    rows: u64,
}

impl RowOutput for ToVariables<'_> {
    fn row(&mut self, session: &mut Session, row: RowView<'_>) -> SqlResult<bool> {
        self.rows += 1;
        if self.rows > 1 {
            return Err(errors::too_many_rows());
        }
        let types = self.plan.types();
        let names: &[Arc<str>] = &self.plan.into;
        let mut result = Ok(());
        row.for_each(|index, value| {
            let variable = UserVariable::new(value.to_owned(), &types[index].0);
            if result.is_ok() {
                result = session.user_variables.set(&names[index], variable);
            }
        });
        result.map(|()| true)
    }
}

/// Runs a query for a client; gives the rows sent.
pub(super) fn to_sink(
    plan: &SelectPlan,
    session: &mut Session,
    params: &[Value],
    sink: &mut dyn RowSink,
) -> SqlResult<u64> {
    let limit = session.vars.select_limit;
    if let Some(export) = &plan.export {
        let (counted, rows) = export.run(session, |session, output| {
            let counted = body(plan, session, params, None, limit, u64::MAX, output);
            Ok(ended(session, counted)?.unwrap_or(0))
        })?;
        session.found_rows = counted;
        return Ok(rows);
    }
    if plan.is_into() {
        let mut variables = ToVariables { plan, rows: 0 };
        let counted = body(plan, session, params, None, limit, u64::MAX, &mut variables);
        let is_over = counted.as_ref().err().is_none_or(|error| session.examined.ends(error));
        if variables.rows == 0 && is_over {
            session.warn(errors::sp_fetch_no_data());
        }
        session.found_rows = ended(session, counted)?.unwrap_or(variables.rows);
        return Ok(variables.rows);
    }
    sink.columns(plan.columns())?;
    let mut output = ToSink { sink, sent: 0 };
    let counted = body(plan, session, params, None, limit, u64::MAX, &mut output);
    let counted = ended(session, counted)?.unwrap_or(output.sent);
    session.found_rows = counted;
    Ok(output.sent)
}

/// The rows that were counted; none, with a warning, where LIMIT ROWS EXAMINED has ended the query early.
fn ended(session: &mut Session, counted: SqlResult<u64>) -> SqlResult<Option<u64>> {
    match counted {
        Ok(counted) => Ok(Some(counted)),
        Err(error) if session.examined.ends(&error) => {
            session.warn(error);
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Runs a query for a consumer inside the server.
pub(super) fn each(
    plan: &SelectPlan,
    session: &mut Session,
    params: &[Value],
    outer: Option<&Frame<'_>>,
    output: &mut dyn RowOutput,
) -> SqlResult<u64> {
    body(plan, session, params, outer, u64::MAX, u64::MAX, output)
}

/// Runs a query of which at most `most` rows are wanted.
pub(super) fn first_rows(
    plan: &SelectPlan,
    session: &mut Session,
    params: &[Value],
    outer: Option<&Frame<'_>>,
    most: u64,
    output: &mut dyn RowOutput,
) -> SqlResult<()> {
    body(plan, session, params, outer, u64::MAX, most, output).map(drop)
}

fn body(
    plan: &SelectPlan,
    session: &mut Session,
    params: &[Value],
    outer: Option<&Frame<'_>>,
    default_count: u64,
    most: u64,
    output: &mut dyn RowOutput,
) -> SqlResult<u64> {
    let read = match &plan.lock {
        Some(lock) => read_mode(session, Some(lock)),
        None => plain_read(session),
    };
    let limits = Limits { read, default_count, most };
    let mut run = || match &plan.body {
        Body::Block(block) => {
            with_room(block.stack_bytes(), || block.run(session, params, outer, limits, output))
        }
        Body::Set(set) => set.run(session, params, outer, limits, output),
        Body::Recursive(recursive) => recursive.run(session, params, outer, output),
        Body::Working(working) => working.run(session, output),
    };
    let Some(counts) = &plan.counts else { return run() };
    let timed = counts.begin_timed();
    let counted = run();
    counts.end(timed);
    counts.read_all(*counted.as_ref().unwrap_or(&0));
    counted
}
