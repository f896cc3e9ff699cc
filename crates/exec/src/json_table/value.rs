//! Values of JSON_TABLE's columns.

use std::borrow::Cow;

use keel_base::{SqlResult, errors};
use keel_document::json::find::{self, Search};
use keel_document::json::scan::{Kind as Form, Scanner};
use keel_document::json::{Bound, Path, Stop, text};
use keel_value::convert::{self, Problem, Target};
use keel_value::{CollationId, Date, SqlType, Value, ValueRef};

use super::{Column, DATABASE, JsonTable, Kind, Response, TABLE};
use crate::catalog::column_type::padded;
use crate::session::Session;

/// What a column's path leads to.
struct FoundValue {
    value: keel_document::json::Value,
    /// Where it ends.
    end: usize,
    /// The path leads to another value too.
    is_one_of_many: bool,
}

impl JsonTable {
    /// The value of a column that has a path, in a row's part of the document.
    pub(super) fn value(
        &self,
        column: &Column,
        path: &Path<'_>,
        part: &[u8],
        session: &mut Session,
    ) -> SqlResult<Value> {
        let found = look_for(part, path, session)?;
        let (as_json, on_empty, on_error) = match &column.kind {
            Kind::Value { as_json, on_empty, on_error, .. } => (*as_json, on_empty, on_error),
            Kind::Exists(_) | Kind::Ordinality => {
                return stored(session, column, &SqlType::int(), ValueRef::Int(found.is_some().into()));
            }
        };
        let Some(FoundValue { value, end, is_one_of_many }) = found else {
            return respond(session, column, on_empty, || {
                errors::json_table_error_on_field(&column.name, &self.alias)
            });
        };
        if !as_json && !value.is_scalar() {
            return respond(session, column, on_error, || {
                errors::json_table_scalar_expected(&column.name, &self.alias)
            });
        }
        if is_one_of_many {
            return respond(session, column, on_error, || {
                errors::json_table_multiple_matches(&column.name, &self.alias)
            });
        }
        let text = match value.kind {
            _ if as_json => Cow::Borrowed(&part[value.start..end]),
            Form::Null => return Ok(Value::Null),
            Form::True | Form::False if column.ty.is_numeric() => {
                let truth = i64::from(value.kind == Form::True);
                return stored(session, column, &SqlType::int(), ValueRef::Int(truth));
            }
            Form::String if value.marked => text::unescape(value.inner(part)),
            Form::String => Cow::Borrowed(value.inner(part)),
            _ => Cow::Borrowed(value.raw(part)),
        };
        stored(session, column, &text_type(), ValueRef::Bytes(&text))
    }
}

fn text_type() -> SqlType {
    SqlType::varchar(u32::MAX, CollationId::UTF8MB4_BIN)
}

/// What a path leads to first; where it may lead to several values, whether it leads to another one. Faults end the search:
/// the part was read before.
fn look_for(part: &[u8], path: &Path<'_>, session: &Session) -> SqlResult<Option<FoundValue>> {
    let mut found: Option<FoundValue> = None;
    let several = path.is_multiple();
    let mut take = |mut scanner: Scanner<'_>, value: keel_document::json::Value| {
        if let Some(first) = &mut found {
            first.is_one_of_many = true;
            return Ok(Search::Break(()));
        }
        let end = scanner.skip(&value)?;
        found = Some(FoundValue { value, end, is_one_of_many: false });
        Ok(if several { Search::Continue(()) } else { Search::Break(()) })
    };
    let mut scanner = Scanner::new(part);
    if !path.steps.iter().any(|step| step.anywhere) {
        let _ = find::find(&mut scanner, &path.steps, false, &mut |scanner, value| {
            let search = take(*scanner, value)?;
            scanner.skip(&value)?;
            Ok(search)
        });
        return Ok(found);
    }
    let mut go_on = || session.let_others_run();
    let bound = &mut Bound::new(usize::MAX, &mut go_on);
    let visit =
        &mut |scanner: Scanner<'_>, value, _: &[_], _: usize| take(scanner, value).map_err(Stop::Fault);
    match find::walk(&mut scanner, std::slice::from_ref(path), false, bound, visit) {
        Err(Stop::Caller(error)) => Err(error),
        _ => Ok(found),
    }
}

/// What stands for a value that is not there.
#[cold]
fn respond(
    session: &mut Session,
    column: &Column,
    response: &Response,
    error: impl FnOnce() -> keel_base::SqlError,
) -> SqlResult<Value> {
    match response {
        Response::Null => Ok(Value::Null),
        Response::Error => Err(error()),
        Response::Default(text) => stored(session, column, &text_type(), ValueRef::Bytes(text)),
    }
}

/// A value as the column keeps it. What does not fit is bent, with a warning.
fn stored(session: &mut Session, column: &Column, from: &SqlType, value: ValueRef<'_>) -> SqlResult<Value> {
    let ty = &column.ty;
    let today = if ty.is_temporal() { session.base_day() } else { Date::default() };
    let context = session.store_context(false, today);
    let (stored, problem) = match convert::store(ty, from, value, &context) {
        Ok((cell, problem)) => (cell.into_value(), problem),
        Err(problem) => (Value::Null, Some(problem)),
    };
    if let Some(problem) = problem {
        tell(session, column, problem);
    }
    Ok(padded(ty, stored))
}

#[cold]
fn tell(session: &mut Session, column: &Column, problem: Problem) {
    let target = Target { db: DATABASE, table: TABLE, column: &column.name, row: session.current_row };
    let second = problem.second();
    for problem in std::iter::once(problem).chain(second) {
        if session.vars.takes_notes() || !problem.is_note() {
            session.push_warning(problem.to_warning(target));
        }
    }
}
