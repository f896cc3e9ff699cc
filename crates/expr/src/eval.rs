//! Evaluation of bound expressions.
//!
//! [`Expr::eval`] gives a value that borrows from the row, the parameters or the expression wherever it can;
//! [`Expr::truth`] is the way for conditions, which never make a value of their truth. AND and OR stop early as MariaDB's
//! do. Warnings go to the session; where the statement runs strictly, a warning is the statement's error.

use std::borrow::Cow;

use keel_base::{SqlError, SqlResult, errors};
use keel_context::user_variables::UserVariable;
use keel_value::convert::{self, Problem};
use keel_value::temporal::{DateRules, Moment, ParsedTime};
use keel_value::types::Class;
use keel_value::{Cell, Date, DateTime, Decimal, SqlType, Time, TypeKind, Value, ValueRef, collation};

use super::frame::Kept;
use super::{
    ColumnRef, CompareOp, Comparison, EvalContext, Expr, Frame, Node, TruthTest, arith, cast, compare,
    one_of, typing,
};
use crate::func::numeric::{extreme_of_numbers, is_extreme_of_texts};
use crate::func::{datetime, json};
use crate::typing::bytes_as_number;

impl<'s, 'f> EvalContext<'s, 'f> {
    /// Reports a warning; an error where the statement's warnings are errors.
    pub fn warn(&mut self, problem: SqlError) -> SqlResult<()> {
        self.env_mut().warn_or_fail(problem)
    }

    /// Runs a conversion that may report problems, as warnings or the statement's error.
    pub fn reporting<T>(&mut self, convert: impl FnOnce(convert::Report<'_>) -> T) -> SqlResult<T> {
        let mut first = None;
        let mut others = Vec::new();
        let result = convert(&mut |problem: Problem| {
            if first.is_none() {
                first = Some(problem);
            } else if others.len() < 8 {
                others.push(problem);
            }
        });
        for problem in first.into_iter().chain(others) {
            self.warn(problem_error(problem))?;
        }
        Ok(result)
    }

    /// A column of the current rows; timestamps in the session's zone.
    #[inline]
    fn column(&self, frame: &Frame<'f>, column: &ColumnRef, ty: &SqlType) -> ValueRef<'f> {
        let value = frame.slots[column.slot as usize].get(column.column);
        if ty.kind == TypeKind::Timestamp
            && let ValueRef::DateTime(utc) = value
        {
            return ValueRef::DateTime(convert::timestamp_to_local(utc, &*self.env().vars.time_zone));
        }
        value
    }

    fn once(&mut self, cell: u32, inner: &'f Expr) -> SqlResult<Cell<'f>> {
        let Some(kept) = self.frame.once.get(cell as usize) else { return inner.eval(self) };
        if kept.get().is_none() {
            let value = inner.eval(self)?.into_value();
            // A subquery that computed the same cell meanwhile gave the same value.
            let _ = kept.set(Kept::Value(value));
        }
        match kept.get() {
            Some(Kept::Value(value)) => Ok(Cell::Ref(value.as_ref())),
            _ => unreachable!("cell {cell} holds a value"),
        }
    }

    /// An expression of a query further out, over that query's frame.
    #[inline(never)]
    fn above(&mut self, level: u16, expr: &'f Expr) -> SqlResult<Cell<'f>> {
        let frame = self.frame.at(level);
        expr.eval(&mut EvalContext::new(self.executor, frame))
    }

    /// The day that a time is counted from where it becomes a date.
    pub fn today(&mut self) -> Date {
        self.env_mut().base_day()
    }
}

/// What a problem in an expression is to the client.
pub fn problem_error(problem: Problem) -> SqlError {
    match problem {
        Problem::TruncatedIncorrect { kind, value } | Problem::TruncatedIncorrectNote { kind, value } => {
            errors::truncated_wrong_value(kind, value)
        }
        Problem::IncorrectTemporal { kind, value, .. } | Problem::IncorrectFixed { kind, value } => {
            SqlError {
                message: format!("Incorrect {kind} value: '{value}'").into(),
                ..errors::truncated_wrong_value(kind, value)
            }
        }
        Problem::Incorrect { kind, value } => errors::truncated_wrong_value(kind, value),
        Problem::SkippedTime { value } => errors::truncated_wrong_value("datetime", value),
        Problem::CannotCast { from, to } => {
            errors::illegal_parameter_data_types2_for_operation(from, to, "cast")
        }
        Problem::OutOfRange | Problem::OutOfRangeTwice => errors::truncated_wrong_value("INTEGER", ""),
        Problem::TooLong | Problem::TooManyBits => errors::truncated_wrong_value("CHAR", ""),
        Problem::Truncated | Problem::TruncatedNote | Problem::TruncatedOutOfRange => {
            errors::truncated_wrong_value("DOUBLE", "")
        }
    }
}

fn of_truth(truth: Option<bool>) -> Cell<'static> {
    Cell::Ref(match truth {
        Some(t) => ValueRef::Int(i64::from(t)),
        None => ValueRef::Null,
    })
}

impl Expr {
    /// The value of a column, or of what the execution knows already: nothing is worked out. None for anything else.
    #[inline]
    pub fn at_hand<'f>(&'f self, frame: &Frame<'f>) -> Option<ValueRef<'f>> {
        match &self.node {
            Node::Column(column) if self.ty.kind != TypeKind::Timestamp => {
                Some(frame.slots[column.slot as usize].get(column.column))
            }
            Node::Constant(value) => Some(value.as_ref()),
            Node::Param(index) => frame.params.get(*index as usize).map(Value::as_ref),
            Node::Once(cell, _) => match frame.once.get(*cell as usize)?.get()? {
                Kept::Value(value) => Some(value.as_ref()),
                _ => None,
            },
            _ => None,
        }
    }

    /// The value over the context's frame.
    pub fn eval<'f>(&'f self, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Cell<'f>> {
        match &self.node {
            Node::Column(column) => Ok(Cell::Ref(cx.column(&cx.frame, column, &self.ty))),
            Node::Constant(value) => Ok(Cell::Ref(value.as_ref())),
            // What is bound outside of an execution, such as a column's default, has none.
            Node::Param(index) => match cx.frame.params.get(*index as usize) {
                Some(value) => Ok(Cell::Ref(value.as_ref())),
                None => Err(errors::not_supported_yet("a parameter here")),
            },
            Node::Once(cell, inner) => cx.once(*cell, inner),
            Node::Above { level, expr } => cx.above(*level, expr),
            Node::Outer { level, column } => Ok(Cell::Ref(cx.column(&cx.frame.at(*level), column, &self.ty))),
            Node::Compare { .. }
            | Node::And(_)
            | Node::Or(_)
            | Node::Xor(..)
            | Node::Not(_)
            | Node::Between { .. }
            | Node::In { .. }
            | Node::OneOf(..)
            | Node::IsNull { .. }
            | Node::IsTruth { .. }
            | Node::Like { .. } => Ok(of_truth(self.truth(cx)?)),
            Node::Arith(op, left, right) => arith::binary(self, *op, left, right, cx),
            Node::Negate(value) => arith::negate(self, value, cx),
            Node::Bits(op, left, right) => arith::bits(*op, left, right, cx),
            Node::BitNot(value) => arith::bit_not(value, cx),
            Node::Case { whens, otherwise } => self.case(whens, otherwise.as_deref(), cx),
            Node::Coalesce(values) => {
                for value in values {
                    let cell = self.taken(value, cx)?;
                    if !cell.as_ref().is_null() {
                        return Ok(cell);
                    }
                }
                Ok(Cell::Ref(ValueRef::Null))
            }
            Node::Call(function, args) => Ok(Cell::Owned((function.eval)(&self.ty, args, cx)?)),
            Node::Cast(value) => cast::cast(&self.ty, value, cx),
            Node::Convert(value) => cast::convert(&self.ty, value, cx),
            Node::Generated(value, _) | Node::Default(value, _) => {
                super::generated::eval(&self.ty, value, cx)
            }
            Node::Collate(value) => value.eval(cx),
            Node::DateArith { date, amount, unit, subtract } => {
                crate::func::datetime::add_interval(&self.ty, date, amount, *unit, *subtract, cx)
                    .map(Cell::Owned)
            }
            Node::UserVar(name, _) => {
                Ok(Cell::Owned(cx.env().user_variables.get(name).map_or(Value::Null, |v| v.value.clone())))
            }
            Node::AssignUserVar(name, value) => {
                let new = value.eval(cx)?.into_value();
                let variable = UserVariable::new(new.clone(), &value.ty);
                cx.env_mut().user_variables.set(name, variable)?;
                Ok(Cell::Owned(new))
            }
            Node::SysVar(scope, name) => {
                let server = cx.env().server.clone();
                server.system_variable(cx.executor, *scope, name).map(Cell::Owned)
            }
            Node::Routine(routine) => routine.eval(cx),
            Node::Row(_) => Err(errors::operand_columns(1)),
            Node::Aggregate(_) | Node::Window(_) => {
                unreachable!("aggregates are replaced before anything runs")
            }
        }
    }

    /// Whether a condition holds: neither false nor NULL.
    #[inline]
    pub fn holds<'f>(&'f self, cx: &mut EvalContext<'_, 'f>) -> SqlResult<bool> {
        let truth = match &self.node {
            Node::OneOf(any, cell) => one_of::truth(any, *cell, true, cx)?,
            _ => self.truth(cx)?,
        };
        Ok(truth == Some(true))
    }

    /// The truth of a condition; None is UNKNOWN.
    pub fn truth<'f>(&'f self, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Option<bool>> {
        match &self.node {
            Node::Compare { op: CompareOp::NullSafeEq, by, left, right } => {
                let (l, r) = (left.eval(cx)?, right.eval(cx)?);
                Ok(Some(match (l.as_ref().is_null(), r.as_ref().is_null()) {
                    (true, true) => true,
                    (false, false) => {
                        let (l, r) = match by {
                            Comparison::Decimal => {
                                (compare::shown(l.as_ref(), &left.ty), compare::shown(r.as_ref(), &right.ty))
                            }
                            _ => (l.as_ref(), r.as_ref()),
                        };
                        compare::tolerant(*by, l, &left.ty, r, &right.ty, cx)?.is_some_and(|o| o.is_eq())
                    }
                    _ => false,
                }))
            }
            Node::Compare { op, by, left, right } => {
                if let (Some(l), Some(r)) = (left.at_hand(&cx.frame), right.at_hand(&cx.frame))
                    && let Some(ordering) = compare::plain(*by, l, &left.ty, r, &right.ty)
                {
                    return Ok(Some(op.holds(ordering)));
                }
                Ok(compare::operands(*by, left, right, cx)?.map(|ordering| op.holds(ordering)))
            }
            Node::And(parts) => {
                let mut unknown = false;
                for part in parts {
                    match part.truth(cx)? {
                        Some(false) => return Ok(Some(false)),
                        Some(true) => {}
                        None => unknown = true,
                    }
                }
                Ok(if unknown { None } else { Some(true) })
            }
            Node::Or(parts) => {
                let mut unknown = false;
                for part in parts {
                    match part.truth(cx)? {
                        Some(true) => return Ok(Some(true)),
                        Some(false) => {}
                        None => unknown = true,
                    }
                }
                Ok(if unknown { None } else { Some(false) })
            }
            Node::Xor(left, right) => {
                let (l, r) = (left.truth(cx)?, right.truth(cx)?);
                Ok(l.zip(r).map(|(l, r)| l != r))
            }
            Node::Not(value) => Ok(value.truth(cx)?.map(|t| !t)),
            Node::Between { negated, by, value, low, high } => {
                if let Some(v) = value.at_hand(&cx.frame)
                    && let (Some(l), Some(h)) = (low.at_hand(&cx.frame), high.at_hand(&cx.frame))
                    && let Some(above) = compare::plain(*by, v, &value.ty, l, &low.ty)
                    && let Some(below) = compare::plain(*by, v, &value.ty, h, &high.ty)
                {
                    return Ok(Some((above.is_ge() && below.is_le()) != *negated));
                }
                let truth = compare::between(*by, value, low, high, cx)?;
                Ok(truth.map(|t| t != *negated))
            }
            Node::In { negated, by, value, list, sorted } => {
                let truth = compare::in_list(*by, value, list, *sorted, cx)?;
                Ok(truth.map(|t| t != *negated))
            }
            Node::OneOf(any, cell) => one_of::truth(any, *cell, false, cx),
            Node::IsNull { negated, value } => Ok(Some(value.eval(cx)?.as_ref().is_null() != *negated)),
            Node::IsTruth { negated, test, value } => {
                let truth = value.truth(cx)?;
                let wanted = match test {
                    TruthTest::True => Some(true),
                    TruthTest::False => Some(false),
                    TruthTest::Unknown => None,
                };
                Ok(Some((truth == wanted) != *negated))
            }
            Node::Like { negated, collation: by, value, pattern, escape } => {
                let Some(text) = value.text(cx)? else { return Ok(None) };
                let Some(pattern) = pattern.text(cx)? else { return Ok(None) };
                Ok(Some(collation::like_match(*by, &text, &pattern, *escape) != *negated))
            }
            _ => {
                let value = self.eval(cx)?;
                match value.as_ref() {
                    ValueRef::Null => Ok(None),
                    ValueRef::Int(v) => Ok(Some(v != 0)),
                    ValueRef::Bytes(bytes) if typing::is_hex(self) => Ok(Some(bytes_as_number(bytes) != 0)),
                    ValueRef::Bytes(found) if json::is_extracted(self) => {
                        Ok(Some(self.json_number(found, convert::to_f64) != 0.0))
                    }
                    other => cx.reporting(|report| convert::to_bool(other, &self.ty, report)),
                }
            }
        }
    }

    fn case<'f>(
        &'f self,
        whens: &'f [(Expr, Expr)],
        otherwise: Option<&'f Expr>,
        cx: &mut EvalContext<'_, 'f>,
    ) -> SqlResult<Cell<'f>> {
        for (condition, value) in whens {
            if condition.holds(cx)? {
                return self.taken(value, cx);
            }
        }
        match otherwise {
            Some(value) => self.taken(value, cx),
            None => Ok(Cell::Ref(ValueRef::Null)),
        }
    }

    /// A branch's value in this expression's own type.
    fn taken<'f>(&'f self, value: &'f Expr, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Cell<'f>> {
        if cast::same_representation(&self.ty, &value.ty) {
            value.eval(cx)
        } else {
            cast::convert(&self.ty, value, cx)
        }
    }

    /// The value as text in the type's own character set; None is NULL.
    pub fn text<'f>(&'f self, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Option<Cow<'f, [u8]>>> {
        Ok(match self.eval(cx)? {
            Cell::Ref(ValueRef::Null) | Cell::Owned(Value::Null) => None,
            Cell::Ref(ValueRef::Bytes(bytes)) => Some(Cow::Borrowed(bytes)),
            Cell::Owned(Value::Bytes(bytes)) => Some(Cow::Owned(bytes.into_vec())),
            other => {
                let mut out = Vec::new();
                convert::to_text(other.as_ref(), &self.ty, &mut out);
                Some(Cow::Owned(out))
            }
        })
    }

    /// The value as a whole number of any sign; None is NULL.
    pub fn integer<'f>(&'f self, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Option<i128>> {
        let value = self.eval(cx)?;
        Ok(match value.as_ref() {
            ValueRef::Null => None,
            ValueRef::Int(v) => Some(i128::from(v)),
            ValueRef::UInt(v) => Some(i128::from(v)),
            ValueRef::Decimal(d) => Some(match d.to_i64() {
                Ok(v) => i128::from(v),
                Err(bound) if bound < 0 => i128::from(bound),
                Err(_) => i128::from(d.to_u64().unwrap_or_else(|bound| bound)),
            }),
            ValueRef::Double(v) => {
                let clamped = v.round_ties_even().clamp(i64::MIN as f64, u64::MAX as f64) as i128;
                Some(clamped.min(i128::from(u64::MAX)))
            }
            ValueRef::Bytes(bytes) if typing::is_hex(self) => Some(i128::from(bytes_as_number(bytes))),
            ValueRef::Bytes(_) if is_extreme_of_texts(self) => extreme_of_numbers(self, cx, Expr::integer)?,
            ValueRef::Bytes(found) if json::is_extracted(self) => {
                Some(i128::from(self.json_number(found, convert::to_i64)))
            }
            ValueRef::Bytes(text) if datetime::writes_date(self) => {
                let (date, ty) = datetime::written_date(text, &self.ty);
                Some(i128::from(cx.reporting(|report| convert::to_i64(date.as_ref(), &ty, report))?))
            }
            other => {
                let v = cx.reporting(|report| convert::to_i64(other, &self.ty, report))?;
                Some(if self.ty.unsigned { i128::from(v as u64) } else { i128::from(v) })
            }
        })
    }

    /// The value as a signed 64-bit integer, out-of-range values at the nearest bound; None is NULL.
    pub fn int64<'f>(&'f self, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Option<i64>> {
        Ok(self.integer(cx)?.map(|v| v.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64))
    }

    /// The value as a double; None is NULL.
    pub fn real<'f>(&'f self, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Option<f64>> {
        let value = self.eval(cx)?;
        Ok(match value.as_ref() {
            ValueRef::Null => None,
            ValueRef::Double(v) => Some(v),
            ValueRef::Float(v) => Some(f64::from(v)),
            ValueRef::Int(v) => Some(v as f64),
            ValueRef::UInt(v) if !self.ty.has_members() => Some(v as f64),
            ValueRef::Bytes(bytes) if typing::is_hex(self) => Some(bytes_as_number(bytes) as f64),
            ValueRef::Bytes(_) if is_extreme_of_texts(self) => extreme_of_numbers(self, cx, Expr::real)?,
            ValueRef::Bytes(found) if json::is_extracted(self) => {
                Some(self.json_number(found, convert::to_f64))
            }
            ValueRef::Bytes(text) if datetime::writes_date(self) => {
                let (date, ty) = datetime::written_date(text, &self.ty);
                Some(cx.reporting(|report| convert::to_f64(date.as_ref(), &ty, report))?)
            }
            other => Some(cx.reporting(|report| convert::to_f64(other, &self.ty, report))?),
        })
    }

    /// The value as a decimal; None is NULL.
    pub fn decimal<'f>(&'f self, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Option<Decimal>> {
        let value = self.eval(cx)?;
        Ok(match value.as_ref() {
            ValueRef::Null => None,
            ValueRef::Decimal(v) => Some(v),
            ValueRef::Int(v) => Some(Decimal::from_i64(v)),
            ValueRef::Bytes(bytes) if typing::is_hex(self) => Some(Decimal::from_u64(bytes_as_number(bytes))),
            ValueRef::Bytes(_) if is_extreme_of_texts(self) => extreme_of_numbers(self, cx, Expr::decimal)?,
            ValueRef::Bytes(found) if json::is_extracted(self) => {
                Some(self.json_number(found, convert::to_decimal))
            }
            ValueRef::Bytes(text) if datetime::writes_date(self) => {
                let (date, ty) = datetime::written_date(text, &self.ty);
                Some(cx.reporting(|report| convert::to_decimal(date.as_ref(), &ty, report))?)
            }
            other => Some(cx.reporting(|report| convert::to_decimal(other, &self.ty, report))?),
        })
    }

    /// What JSON_EXTRACT found as a number; what is none is 0 without a warning.
    fn json_number<T>(&self, found: &[u8], read: fn(ValueRef<'_>, &SqlType, convert::Report<'_>) -> T) -> T {
        read(ValueRef::Bytes(json::number_text(found)), &self.ty, &mut |_| {})
    }

    /// The value as a point in time; None is NULL or what is no date (with a warning).
    pub fn datetime<'f>(&'f self, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Option<DateTime>> {
        let value = self.eval(cx)?;
        cast::value_to_datetime(value.as_ref(), &self.ty, self.column_name(), cx)
    }

    /// The same by rules of its own in place of `sql_mode`.
    pub fn datetime_by<'f>(
        &'f self,
        rules: DateRules,
        cx: &mut EvalContext<'_, 'f>,
    ) -> SqlResult<Option<DateTime>> {
        let value = self.eval(cx)?;
        cast::value_to_datetime_by(rules, value.as_ref(), &self.ty, self.column_name(), cx)
    }

    /// A date of which parts may be zero; None is NULL or what is no date.
    pub fn date_parts<'f>(&'f self, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Option<DateTime>> {
        self.datetime_by(DateRules::default(), cx)
    }

    /// A day of the calendar; None is NULL or what is none.
    pub fn whole_date<'f>(&'f self, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Option<DateTime>> {
        self.datetime_by(DateRules::WHOLE, cx)
    }

    /// The value as a time, with the point in time that it was written as.
    pub fn time_or_datetime<'f>(&'f self, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Option<ParsedTime>> {
        let value = self.eval(cx)?;
        cast::value_to_time_or_datetime(value.as_ref(), &self.ty, DateRules::COMPARED, self.column_name(), cx)
    }

    /// The same of a day that there is: one that a text or number names and no calendar has is no time.
    pub(crate) fn time_of_real_day<'f>(
        &'f self,
        cx: &mut EvalContext<'_, 'f>,
    ) -> SqlResult<Option<ParsedTime>> {
        let value = self.eval(cx)?;
        cast::value_to_time_or_datetime(
            value.as_ref(),
            &self.ty,
            DateRules::default(),
            self.column_name(),
            cx,
        )
    }

    /// The value as what EXTRACT() takes parts of a day from; `is_day`: days are asked for.
    pub(crate) fn moment<'f>(
        &'f self,
        is_day: bool,
        cx: &mut EvalContext<'_, 'f>,
    ) -> SqlResult<Option<Moment>> {
        let value = self.eval(cx)?;
        cast::value_to_moment(value.as_ref(), &self.ty, is_day, self.column_name(), cx)
    }

    /// A number of rows for LIMIT. NULL is zero. EXECUTE refuses a negative number; the binary protocol wraps it around.
    pub fn row_number<'f>(&'f self, cx: &mut EvalContext<'_, 'f>) -> SqlResult<u64> {
        let number = self.integer(cx)?.unwrap_or(0);
        match i64::try_from(number) {
            Ok(..0) if cx.env().by_execute => Err(errors::wrong_arguments("EXECUTE")),
            _ => Ok(number as u64),
        }
    }

    /// The column this is, as messages name it.
    pub(crate) fn column_name(&self) -> Option<&str> {
        self.as_column().map(|column| &*column.name)
    }

    /// The value as a time of day or span; None is NULL or what is no time.
    pub fn time<'f>(&'f self, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Option<Time>> {
        let value = self.eval(cx)?;
        cast::value_to_time(value.as_ref(), &self.ty, self.column_name(), cx)
    }

    /// Whether numbers or text come out of it.
    pub fn class(&self) -> Class {
        self.ty.class()
    }
}
