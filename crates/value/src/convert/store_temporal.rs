//! Assignment to DATE, TIME, DATETIME and TIMESTAMP, and the same readings for expressions.

use super::{Problem, Report, StoreContext, Stored, bent, printable};
use crate::temporal::{
    BadTemporal, DateRules, Flaw, Interval, Moment, ParsedDateTime, ParsedTime, TIMESTAMP_MAX, Zone,
    datetime_from_number, moment_from_number, parse_datetime, parse_moment, parse_time, time_from_number,
};
use crate::{Cell, CollationId, Date, DateTime, Decimal, SqlType, Time, TypeKind, Value, ValueRef};

/// A TIMESTAMP read from a row in the session's zone.
pub fn timestamp_to_local(value: DateTime, zone: &dyn Zone) -> DateTime {
    if value.is_zero() { value } else { zone.to_local(value) }
}

/// What a value is as a point in time, and what got lost on the way.
struct Reading<T> {
    value: T,
    has_time: bool,
    flaw: Option<Flaw>,
}

/// Whole, microseconds and billionths of a number; digits behind those are cut.
struct Split {
    negative: bool,
    whole: u64,
    micros: u32,
    /// Billionths of a second behind the microseconds.
    nanos: u32,
}

fn split(number: &Decimal) -> Split {
    let size = number.abs();
    let whole = size.truncate(0);
    let fraction = size.sub(&whole).map_or(Decimal::ZERO, |f| f.truncate(9));
    let nanos =
        fraction.mul(&Decimal::from_u64(1_000_000_000)).map_or(0, |f| f.truncate(0).to_u64().unwrap_or(0));
    Split {
        negative: number.is_negative(),
        whole: whole.to_u64().unwrap_or_else(|bound| bound),
        micros: (nanos / 1000) as u32,
        nanos: (nanos % 1000) as u32,
    }
}

fn number_of(value: ValueRef<'_>, from: &SqlType) -> Split {
    match value {
        ValueRef::Int(v) if !from.unsigned => Split::of_whole(v < 0, v.unsigned_abs()),
        ValueRef::Int(v) => Split::of_whole(false, v as u64),
        ValueRef::UInt(v) => Split::of_whole(false, v),
        ValueRef::Decimal(v) => split(&v),
        _ => {
            let v = super::to_f64(value, from, &mut |_| {});
            let size = v.abs();
            let nanos = ((size - size.floor()) * 1e9) as u32;
            let (micros, nanos) = ((nanos / 1000).min(999_999), nanos % 1000);
            Split { negative: v < 0.0, whole: size.floor() as u64, micros, nanos }
        }
    }
}

fn read_datetime(
    value: ValueRef<'_>,
    from: &SqlType,
    context: &StoreContext<'_>,
    rules: DateRules,
) -> Result<Reading<DateTime>, BadTemporal> {
    let parsed = match value {
        ValueRef::Bytes(text) => parse_datetime(text, rules)?,
        _ if is_read_as_text(from) => parse_datetime(&text_of(value, from), rules)?,
        ValueRef::UInt(year) if from.kind == TypeKind::Year => {
            return checked(Date { year: year as u16, ..Date::ZERO }.midnight(), rules);
        }
        ValueRef::DateTime(v) => return checked(v.shown(), rules),
        ValueRef::Date(v) => return checked(v.midnight(), rules),
        ValueRef::Time(v) => {
            return checked(on_day(context.today, v)?, rules);
        }
        _ => {
            let number = number_of(value, from);
            if number.negative {
                return Err(BadTemporal::Syntax);
            }
            numeric_datetime(&number, rules)?
        }
    };
    Ok(Reading { value: parsed.value, has_time: parsed.has_time, flaw: parsed.flaw })
}

/// ENUM, SET and BIT are dates by their text.
fn is_read_as_text(from: &SqlType) -> bool {
    from.has_members() || from.is_octets_of_bits()
}

fn text_of(value: ValueRef<'_>, from: &SqlType) -> Vec<u8> {
    let mut text = Vec::new();
    super::to_text(value, from, &mut text);
    text
}

/// A number that is a date alone has no room for a fraction.
fn numeric_datetime(number: &Split, rules: DateRules) -> Result<ParsedDateTime, BadTemporal> {
    let mut parsed = datetime_from_number(number.whole, number.micros, rules)?;
    if !parsed.has_time && number.micros > 0 {
        parsed.value.micros = 0;
        parsed.flaw = Some(Flaw::Fraction);
    } else if rules.round && number.nanos >= HALF_A_MICROSECOND {
        let micro = Interval { micros: 1, ..Interval::default() };
        parsed.value = parsed.value.add_interval(micro).ok_or(BadTemporal::OutOfRange)?;
    }
    Ok(parsed)
}

/// From so many billionths of a second on a microsecond is rounded up.
const HALF_A_MICROSECOND: u32 = 500;
/// The last microsecond of a second.
const MICROS_MAX: u32 = 999_999;

impl Split {
    fn of_whole(negative: bool, whole: u64) -> Split {
        Split { negative, whole, micros: 0, nanos: 0 }
    }

    /// As a time. MariaDB refuses what stands behind the last microsecond of a second where it rounds.
    fn time(&self, rules: DateRules) -> Result<ParsedTime, BadTemporal> {
        let parsed = time_from_number(self.negative, self.whole, self.micros)?;
        if !rules.round || self.nanos == 0 {
            return Ok(parsed);
        }
        if parsed.datetime.is_some() {
            let datetime = numeric_datetime(self, DateRules { allow_invalid: true, ..rules })?.value;
            return Ok(ParsedTime { value: datetime.time(), datetime: Some(datetime), ..parsed });
        }
        if self.micros == MICROS_MAX {
            return Err(BadTemporal::Syntax);
        }
        let up = u32::from(self.nanos >= HALF_A_MICROSECOND);
        time_from_number(self.negative, self.whole, self.micros + up)
    }
}

fn checked(value: DateTime, rules: DateRules) -> Result<Reading<DateTime>, BadTemporal> {
    if rules.allows(value) {
        Ok(Reading { value, has_time: true, flaw: None })
    } else {
        Err(BadTemporal::OutOfRange)
    }
}

/// Counts a time from a day's midnight. From the zero day all months have 31 days.
fn on_day(day: Date, time: Time) -> Result<DateTime, BadTemporal> {
    if day == Date::ZERO {
        let days = time.hours() / 24;
        if time.micros < 0 {
            return Err(BadTemporal::OutOfRange);
        }
        let date = Date::new(0, (days / 31) as u8, (days % 31) as u8);
        return Ok(date.at(Time { micros: time.micros % 86_400_000_000 }));
    }
    let span = Interval { micros: time.micros, ..Interval::default() };
    day.midnight().add_interval(span).ok_or(BadTemporal::OutOfRange)
}

fn read_time(value: ValueRef<'_>, from: &SqlType, rules: DateRules) -> Result<ParsedTime, BadTemporal> {
    let given = |value: Time, datetime: Option<DateTime>| ParsedTime {
        value,
        datetime,
        has_date_alone: false,
        digits: 6,
        flaw: None,
    };
    let of_day = |v: DateTime| given(v.time(), Some(v));
    match value {
        ValueRef::Bytes(text) => parse_time(text, rules),
        _ if is_read_as_text(from) => parse_time(&text_of(value, from), rules),
        ValueRef::UInt(_) if from.kind == TypeKind::Year => Ok(of_day(Date::ZERO.midnight())),
        ValueRef::Time(v) => Ok(given(v, None)),
        ValueRef::DateTime(v) => Ok(of_day(v)),
        ValueRef::Date(v) => Ok(of_day(v.midnight())),
        _ => number_of(value, from).time(rules),
    }
}

fn kind_of(to: &SqlType) -> &'static str {
    match to.kind {
        TypeKind::Date => "date",
        TypeKind::Time => "time",
        _ => "datetime",
    }
}

/// Stores into any of the four.
pub(super) fn temporal<'a>(
    to: &SqlType,
    from: &SqlType,
    value: ValueRef<'_>,
    context: &StoreContext<'_>,
) -> Stored<'a> {
    // A YEAR is stored as its number: 2020 is no date, and 20 minutes 20 seconds as a time.
    let number = SqlType::bigint_unsigned();
    let from = if from.kind == TypeKind::Year { &number } else { from };
    let stored = match to.kind {
        TypeKind::Time => store_time(to, from, value, context),
        TypeKind::Timestamp => store_timestamp(to, from, value, context),
        _ => store_datetime(to, from, value, context),
    };
    let (cell, lost) = match stored {
        Ok(stored) => stored,
        Err(_) if is_refused_zero(to, from, value, context) => (zero_of(to), Some(Lost::Range)),
        Err(_) => (zero_of(to), Some(Lost::Value)),
    };
    let incorrect = |out_of_range: bool| {
        // Showing the value costs; only strict mode shows it.
        let value = if context.strict { printable(value, from) } else { String::new() };
        Problem::IncorrectTemporal { kind: kind_of(to), value, out_of_range }
    };
    let problem = lost.map(|lost| match lost {
        Lost::Part => Problem::TruncatedNote,
        Lost::Value => incorrect(false),
        Lost::Range => incorrect(true),
        Lost::Hour => Problem::SkippedTime {
            value: if context.strict { printable(value, from) } else { String::new() },
        },
    });
    match problem {
        Some(problem) => bent(cell, problem),
        None => (Cell::Owned(cell), None),
    }
}

/// Whether a value is the zero date that NO_ZERO_DATE keeps out of a DATE or DATETIME: a warning calls it out of range.
#[cold]
fn is_refused_zero(to: &SqlType, from: &SqlType, value: ValueRef<'_>, context: &StoreContext<'_>) -> bool {
    let rules = DateRules::of(context.mode);
    if !rules.no_zero_date || !matches!(to.kind, TypeKind::Date | TypeKind::DateTime) {
        return false;
    }
    let lenient = DateRules { no_zero_date: false, ..rules };
    read_datetime(value, from, context, lenient).is_ok_and(|reading| reading.value.is_zero())
}

/// What an assignment loses.
enum Lost {
    /// A part that the type has no room for.
    Part,
    /// All or something of what was written.
    Value,
    /// The distance to the nearest bound.
    Range,
    /// A time that the clock skips.
    Hour,
}

type Outcome = Result<(Value, Option<Lost>), BadTemporal>;

fn zero_of(to: &SqlType) -> Value {
    match to.kind {
        TypeKind::Date => Value::Date(Date::ZERO),
        TypeKind::Time => Value::Time(Time::default()),
        _ => Value::DateTime(DateTime::ZERO),
    }
}

fn lost_by(flaw: Option<Flaw>) -> Option<Lost> {
    flaw.map(|flaw| match flaw {
        Flaw::Truncated => Lost::Value,
        Flaw::Fraction => Lost::Part,
        Flaw::OutOfRange => Lost::Range,
    })
}

fn store_datetime(to: &SqlType, from: &SqlType, value: ValueRef<'_>, context: &StoreContext<'_>) -> Outcome {
    // Fewer digits are rounded once, from what was given.
    let rules = DateRules::of(context.mode);
    let rules = DateRules { round: rules.round && to.decimals >= 6, ..rules };
    let reading = read_datetime(value, from, context, rules)?;
    let lost = lost_by(reading.flaw);
    if to.kind == TypeKind::DateTime {
        return Ok((Value::DateTime(reading.value.fit(to.decimals, context.mode)), lost));
    }
    let DateTime { date, hour, minute, second, micros, .. } = reading.value;
    let has_time = (hour, minute, second) != (0, 0, 0) || micros != 0 && !date.is_zero();
    let is_time = matches!(value, ValueRef::Time(_));
    Ok((Value::Date(date), lost.or((has_time || is_time).then_some(Lost::Part))))
}

fn store_timestamp(to: &SqlType, from: &SqlType, value: ValueRef<'_>, context: &StoreContext<'_>) -> Outcome {
    let rules = DateRules::of(context.mode);
    let round = rules.round && to.decimals >= 6;
    let rules = DateRules { no_zero_in_date: true, allow_invalid: false, round, ..rules };
    let reading = read_datetime(value, from, context, rules)?;
    // A TIMESTAMP is copied as the instant that it is, not as what the clock shows.
    let repeated = from.is_temporal() && matches!(value, ValueRef::DateTime(v) if v.repeated);
    let local = DateTime { repeated, ..reading.value.fit(to.decimals, context.mode) };
    if local.is_zero() {
        return Ok((Value::DateTime(local), lost_by(reading.flaw)));
    }
    if !local.date.is_real() {
        return Err(BadTemporal::OutOfRange);
    }
    let (utc, is_skipped) = context.zone.to_utc(local);
    if !(1..=TIMESTAMP_MAX).contains(&utc.to_unix()) {
        return Ok((Value::DateTime(DateTime::ZERO), Some(Lost::Range)));
    }
    Ok((Value::DateTime(utc), if is_skipped { Some(Lost::Hour) } else { lost_by(reading.flaw) }))
}

fn store_time(to: &SqlType, from: &SqlType, value: ValueRef<'_>, context: &StoreContext<'_>) -> Outcome {
    let rules = DateRules::default();
    let is_text = value.as_bytes().is_some();
    let rules = if to.decimals >= 6 || !is_text { rules.rounding_by(context.mode) } else { rules };
    let parsed = read_time(value, from, rules)?;
    let lost = lost_by(parsed.flaw).or(parsed.datetime.map(|_| Lost::Part));
    Ok((Value::Time(parsed.value.fit(to.decimals, context.mode)), lost))
}

/// Reports a value that is not wholly temporal, for expressions.
fn report_flaw(
    flaw: Option<Flaw>,
    kind: &'static str,
    value: ValueRef<'_>,
    ty: &SqlType,
    report: Report<'_>,
) {
    match (flaw, value) {
        (Some(Flaw::Truncated | Flaw::OutOfRange), _) => {
            report(Problem::TruncatedIncorrect { kind, value: plain(value, ty) });
        }
        (Some(Flaw::Fraction), ValueRef::Bytes(_)) => {
            report(Problem::TruncatedIncorrectNote { kind, value: plain(value, ty) });
        }
        _ => {}
    }
}

/// A value as reports about dates show it: numbers without the form of their column.
fn plain(value: ValueRef<'_>, ty: &SqlType) -> String {
    match value {
        ValueRef::Int(_) if !ty.unsigned => printable(value, &SqlType::bigint()),
        ValueRef::Double(_) => printable(value, &SqlType::double()),
        ValueRef::Float(_) => printable(value, &SqlType::new(TypeKind::Float)),
        // Letters beyond ASCII are shown as the octets that they are.
        ValueRef::Bytes(text) if !ty.has_members() => super::printable_text(CollationId::BINARY, text),
        _ => printable(value, ty),
    }
}

/// What a time was read as.
fn kind_of_time(parsed: &ParsedTime) -> &'static str {
    match parsed.datetime {
        None => "time",
        Some(_) if parsed.has_date_alone => "date",
        Some(_) => "datetime",
    }
}

/// As a point in time; `None`, with a report, where it is none that the rules allow. A TIME is today's.
pub fn to_datetime(
    value: ValueRef<'_>,
    ty: &SqlType,
    rules: DateRules,
    context: &StoreContext<'_>,
    report: Report<'_>,
) -> Option<DateTime> {
    if value.is_null() {
        return None;
    }
    match read_datetime(value, ty, context, rules) {
        Ok(reading) => {
            let kind = if reading.has_time { "datetime" } else { "date" };
            report_flaw(reading.flaw, kind, value, ty, report);
            Some(reading.value)
        }
        Err(_) => {
            let is_cut = matches!(value, ValueRef::Time(_)) && context.today == Date::ZERO;
            let (kind, value) = ("datetime", plain(value, ty));
            report(match is_cut {
                true => Problem::TruncatedIncorrect { kind, value },
                false => Problem::IncorrectTemporal { kind, value, out_of_range: false },
            });
            None
        }
    }
}

/// As a date, otherwise as [`to_datetime`].
pub fn to_date(
    value: ValueRef<'_>,
    ty: &SqlType,
    context: &StoreContext<'_>,
    report: Report<'_>,
) -> Option<Date> {
    to_datetime(value, ty, DateRules::of(context.mode), context, report).map(|v| v.date)
}

/// As a time of day or span; `None`, with a report, where it is none.
pub fn to_time(value: ValueRef<'_>, ty: &SqlType, report: Report<'_>) -> Option<Time> {
    to_time_or_datetime(value, ty, DateRules::COMPARED, report).map(|parsed| parsed.value)
}

/// The same, with the point in time that it was the time of, rounded as `days` say. `None`, with a report, also of a day that a text or number
/// names and that `days` do not allow.
pub fn to_time_or_datetime(
    value: ValueRef<'_>,
    ty: &SqlType,
    days: DateRules,
    report: Report<'_>,
) -> Option<ParsedTime> {
    if value.is_null() {
        return None;
    }
    let is_allowed = |parsed: &ParsedTime| ty.is_temporal() || parsed.datetime.is_none_or(|v| days.allows(v));
    match read_time(value, ty, DateRules { round: days.round, ..DateRules::COMPARED }) {
        Ok(parsed) if is_allowed(&parsed) => {
            report_flaw(parsed.flaw, kind_of_time(&parsed), value, ty, report);
            Some(parsed)
        }
        _ => {
            let value = plain(value, ty);
            report(Problem::IncorrectTemporal { kind: "time", value, out_of_range: false });
            None
        }
    }
}

/// What EXTRACT() takes parts of a day from; `None`, with a report, where it is neither date nor span.
/// `is_day`: days are asked for.
pub fn to_moment(
    value: ValueRef<'_>,
    ty: &SqlType,
    rules: DateRules,
    is_day: bool,
    report: Report<'_>,
) -> Option<Moment> {
    let read = match value {
        ValueRef::Null => return None,
        ValueRef::Bytes(text) => parse_moment(text, rules, is_day),
        ValueRef::UInt(year) if ty.kind == TypeKind::Year => moment_from_number(false, year * 10_000, 0),
        _ if is_read_as_text(ty) => parse_moment(&text_of(value, ty), rules, is_day),
        _ => {
            let number = number_of(value, ty);
            moment_from_number(number.negative, number.whole, number.micros)
        }
    };
    match read {
        Ok(moment) => {
            let (flaw, kind) = match moment {
                Moment::Span(span) => (span.flaw, "time"),
                Moment::Date(date) => (date.flaw, if date.has_time { "datetime" } else { "date" }),
            };
            report_flaw(flaw, kind, value, ty, report);
            Some(moment)
        }
        Err(_) => {
            let value = plain(value, ty);
            report(Problem::IncorrectTemporal { kind: "interval", value, out_of_range: false });
            None
        }
    }
}

/// What a comparison with a temporal sees: any date that can be written, and the zero date, with a report, for what is none.
pub(super) fn datetime_for_comparison(value: ValueRef<'_>, ty: &SqlType, report: Report<'_>) -> DateTime {
    let rules = DateRules { allow_invalid: true, ..DateRules::default() };
    let parsed = match value {
        ValueRef::DateTime(v) => return v.shown(),
        ValueRef::Date(v) => return v.midnight(),
        ValueRef::Bytes(text) => parse_datetime(text, rules),
        _ => {
            let number = number_of(value, ty);
            if number.negative { Err(BadTemporal::Syntax) } else { numeric_datetime(&number, rules) }
        }
    };
    match parsed {
        Ok(parsed) => {
            report_flaw(parsed.flaw, "datetime", value, ty, report);
            parsed.value
        }
        Err(_) => {
            report(Problem::TruncatedIncorrect { kind: "datetime", value: plain(value, ty) });
            DateTime::ZERO
        }
    }
}

/// The same for TIME.
pub(super) fn time_for_comparison(value: ValueRef<'_>, ty: &SqlType, report: Report<'_>) -> Time {
    let parsed = match value {
        ValueRef::Time(v) => return v,
        ValueRef::DateTime(v) => return v.time(),
        ValueRef::Bytes(text) => parse_time(text, DateRules::COMPARED),
        _ => number_of(value, ty).time(DateRules::COMPARED),
    };
    match parsed {
        Ok(parsed) => {
            report_flaw(parsed.flaw, kind_of_time(&parsed), value, ty, report);
            parsed.value
        }
        Err(_) => {
            report(Problem::TruncatedIncorrect { kind: "time", value: plain(value, ty) });
            Time::default()
        }
    }
}
