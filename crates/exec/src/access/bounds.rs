//! From conditions and values to disjoint, ordered ranges of encoded keys.
//!
//! Every range is `[lower, upper)` over bytes: a key is in it if it is not less than `lower` and less than `upper`, where an
//! empty `lower` and a missing `upper` are open ends. A point is the range from its encoding to its successor, so that
//! prefixes of a key (leading columns) are points as well.

use keel_base::SqlResult;
use keel_catalog::{Holds, KeyRange};
use keel_storage::runtime::fiber;
use keel_value::key::{self, KeyPart};
use keel_value::types::Class;
use keel_value::{CollationId, Date, Decimal, FixedKind, SqlType, TypeKind, Value, ValueRef, convert};

use super::PartCondition;
use crate::catalog::IndexDef;
use crate::expr::compare::shown;
use crate::expr::{EvalContext, Expr, Frame, Node};
use crate::select::Subquery;
use crate::session::Session;

/// How ranges will be read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    /// What is read is locked. Then also what can hold no row is looked at, such as what lies between two integers that follow
    /// each other: the gap there is locked.
    pub locking: bool,
    /// Rows by a unique key keep ranges of their own, to be locked each as such.
    pub apart: bool,
}

/// Most ranges that a statement makes of IN lists before it reads a wider range instead.
const RANGES_MAX: usize = 100_000;

/// How a value stands among those that a column can hold.
enum Fit {
    /// One of them.
    Exact(Value),
    /// Between this and the next greater one.
    JustAbove(Value),
    /// Less than all.
    Below,
    /// Greater than all.
    Above,
    /// NULL.
    Null,
    /// More than all as bits: the greatest of them is sought, and compared.
    Most(Value),
    /// The column's order says nothing about it.
    Unknown,
}

/// Gives values to the expressions of conditions.
trait Values {
    /// How an expression's value stands among those of a column type.
    fn fit(&mut self, to: &SqlType, expr: &Expr) -> SqlResult<Fit>;
    /// How the values that a query gives stand among those of a column type; none where they are not known or too many.
    fn query(&mut self, to: &SqlType, query: &Subquery) -> SqlResult<Option<Vec<Fit>>>;
    /// A pattern's value.
    fn pattern(&mut self, expr: &Expr) -> SqlResult<Value>;
}

/// Values of one execution.
struct Evaluated<'s, 'f> {
    session: &'s mut Session,
    frame: Frame<'f>,
}

impl Evaluated<'_, '_> {
    fn value(&mut self, expr: &Expr) -> SqlResult<Value> {
        // The expression outlives this call; the frame's own lifetime may be shorter.
        let frame = self.frame;
        let mut context = EvalContext::new(&mut *self.session, frame);
        Ok(expr.eval(&mut context)?.into_value())
    }
}

impl Values for Evaluated<'_, '_> {
    fn fit(&mut self, to: &SqlType, expr: &Expr) -> SqlResult<Fit> {
        let value = self.value(expr)?;
        let today = if to.is_temporal() { self.session.base_day() } else { Date::default() };
        Ok(fit_of(to, expr, value.as_ref(), self.session, today))
    }

    fn query(&mut self, to: &SqlType, query: &Subquery) -> SqlResult<Option<Vec<Fit>>> {
        let frame = self.frame;
        let mut context = EvalContext::new(&mut *self.session, frame);
        let Some(values) = query.column(&mut context, RANGES_MAX)? else { return Ok(None) };
        let today = if to.is_temporal() { self.session.base_day() } else { Date::default() };
        let from = &query.plan.types()[0].0;
        Ok(Some(values.iter().map(|v| fit(to, from, v.as_ref(), self.session, today)).collect()))
    }

    fn pattern(&mut self, expr: &Expr) -> SqlResult<Value> {
        self.value(expr)
    }
}

/// Values that are known when a plan is made, for estimates: constants and the first execution's parameters.
struct Sampled<'s> {
    session: &'s Session,
    params: &'s [Value],
    /// Whether some value was not known.
    missed: bool,
}

impl Sampled<'_> {
    fn value(&mut self, expr: &Expr) -> Option<Value> {
        let found = match &expr.node {
            Node::Constant(value) => Some(value.clone()),
            Node::Param(index) => self.params.get(*index as usize).cloned(),
            Node::Once(_, inner) => return self.value(inner),
            _ => None,
        };
        self.missed |= found.is_none();
        found
    }
}

impl Values for Sampled<'_> {
    fn fit(&mut self, to: &SqlType, expr: &Expr) -> SqlResult<Fit> {
        Ok(match self.value(expr) {
            Some(value) => fit_of(to, expr, value.as_ref(), self.session, Date::default()),
            None => Fit::Unknown,
        })
    }

    fn query(&mut self, _: &SqlType, _: &Subquery) -> SqlResult<Option<Vec<Fit>>> {
        self.missed = true;
        Ok(None)
    }

    fn pattern(&mut self, expr: &Expr) -> SqlResult<Value> {
        Ok(self.value(expr).unwrap_or_default())
    }
}

/// The ranges that `alternatives` will have for known values; none where some are not known.
pub fn sampled_ranges(
    index: &IndexDef,
    alternatives: &[Vec<PartCondition>],
    session: &Session,
    params: &[Value],
) -> SqlResult<Option<Vec<KeyRange>>> {
    let values = Sampled { session, params, missed: false };
    let mut maker = Maker { index, exact: true, locking: false, values };
    let mut out = Vec::new();
    for conditions in alternatives {
        fiber::tick();
        maker.expand(conditions, &mut out)?;
    }
    normalise(&mut out, false);
    Ok((!maker.values.missed).then_some(out))
}

/// The ranges of `alternatives` on an index, ordered and disjoint; and whether they hold exactly what fulfils them.
pub(super) fn ranges(
    index: &IndexDef,
    alternatives: &[Vec<PartCondition>],
    reading: Reading,
    session: &mut Session,
    frame: Frame<'_>,
    out: &mut Vec<KeyRange>,
) -> SqlResult<bool> {
    if let [conditions] = alternatives
        && conditions.iter().all(|condition| matches!(condition, PartCondition::Equal(_)))
    {
        return equal_range(index, conditions, session, frame, out);
    }
    out.clear();
    let mut maker =
        Maker { index, exact: true, locking: reading.locking, values: Evaluated { session, frame } };
    for conditions in alternatives {
        fiber::tick();
        maker.expand(conditions, out)?;
    }
    normalise(out, reading.apart);
    Ok(maker.exact)
}

/// The same for one value of each part, as an inner table of a join has for each row: buffers are used again.
fn equal_range(
    index: &IndexDef,
    conditions: &[PartCondition],
    session: &mut Session,
    frame: Frame<'_>,
    out: &mut Vec<KeyRange>,
) -> SqlResult<bool> {
    out.truncate(1);
    let mut range = out.pop().unwrap_or_default();
    let key = &mut range.lower;
    key.clear();
    let mut exact = true;
    let mut parts = 0;
    for (encoder, condition) in index.encoders.iter().zip(conditions) {
        let PartCondition::Equal(expr) = condition else { continue };
        match encode_part(encoder, expr, session, frame, key)? {
            Point::At => {
                exact &= encoder.prefix.is_none();
                parts += 1;
            }
            Point::Near => {
                exact = false;
                parts += 1;
            }
            Point::Unknown => {
                exact = false;
                break;
            }
            Point::Nothing => return Ok(exact),
        }
    }
    range.holds = held(index, parts, false, &range.lower);
    // MariaDB compares a row of a unique key once more.
    exact &= range.holds != Holds::Row || !has_text_of_bits(index, conditions);
    range.behind = false;
    let mut upper = range.upper.take().unwrap_or_default();
    upper.clear();
    upper.extend_from_slice(&range.lower);
    range.upper = key::successor(&mut upper).then_some(upper);
    out.push(range);
    Ok(exact)
}

/// What a range of all keys that begin with `key` holds, which is made of the first `parts` parts of `index`.
fn held(index: &IndexDef, parts: usize, may_be_null: bool, key: &[u8]) -> Holds {
    if index.is_unique() && !index.hashed && !may_be_null && parts == index.encoders.len() {
        Holds::Row
    } else if key.is_empty() {
        Holds::Between
    } else if parts == index.encoders.len() {
        Holds::Points
    } else {
        Holds::Prefixes
    }
}

/// Sorts encoded values. Others run meanwhile.
fn sort_points(points: &mut [Vec<u8>]) {
    points.sort_unstable_by(|a, b| {
        fiber::tick();
        a.cmp(b)
    });
}

/// Sorts ranges and joins those that overlap or touch; with `apart` not those that hold a row each.
pub(super) fn normalise(ranges: &mut Vec<KeyRange>, apart: bool) {
    if ranges.len() < 2 {
        return;
    }
    ranges.sort_unstable_by(|a, b| {
        fiber::tick();
        a.cmp(b)
    });
    let mut kept = 0;
    for next in 1..ranges.len() {
        fiber::tick();
        let touches = match &ranges[kept].upper {
            None => true,
            Some(upper) if apart && ranges[next].holds == Holds::Row => *upper > ranges[next].lower,
            Some(upper) => *upper >= ranges[next].lower,
        };
        if touches {
            ranges[kept].holds = ranges[kept].holds.min(ranges[next].holds).min(Holds::Points);
            let further = ranges[next].upper.take();
            let before = &mut ranges[kept].upper;
            if further.is_none() || before.as_ref().is_some_and(|b| further.as_ref().is_some_and(|f| f > b)) {
                *before = match before {
                    None => None,
                    Some(_) => further,
                };
            }
        } else {
            kept += 1;
            ranges.swap(kept, next);
        }
    }
    ranges.truncate(kept + 1);
}

struct Maker<'i, V> {
    index: &'i IndexDef,
    exact: bool,
    locking: bool,
    values: V,
}

impl<V: Values> Maker<'_, V> {
    /// Adds the ranges of one list of conditions.
    fn expand(&mut self, conditions: &[PartCondition], out: &mut Vec<KeyRange>) -> SqlResult<()> {
        let mut prefixes: Vec<Vec<u8>> = vec![Vec::new()];
        let (mut parts, mut may_be_null) = (0, false);
        for (place, condition) in conditions.iter().enumerate() {
            let last = place + 1 == conditions.len();
            if !condition.is_points() {
                let Some(interval) = self.interval(place, &conditions[place..], may_be_null)? else {
                    return Ok(());
                };
                out.extend(prefixes.iter().filter_map(|prefix| self.behind_prefix(place, &interval, prefix)));
                return Ok(());
            }
            let Some(points) = self.points(place, condition)? else {
                self.exact = false;
                break;
            };
            if points.len().saturating_mul(prefixes.len()) > RANGES_MAX {
                self.exact = false;
                break;
            }
            prefixes = cross(&prefixes, &points);
            parts += 1;
            may_be_null |= condition.takes_null();
            if last || prefixes.is_empty() {
                break;
            }
        }
        let index = self.index;
        out.extend(prefixes.into_iter().map(|prefix| {
            let holds = held(index, parts, may_be_null, &prefix);
            KeyRange { holds, ..whole(prefix) }
        }));
        Ok(())
    }

    /// The encodings of a part's single values; none where its order cannot tell.
    fn points(&mut self, place: usize, condition: &PartCondition) -> SqlResult<Option<Vec<Vec<u8>>>> {
        let mut points = Vec::new();
        match condition {
            PartCondition::IsNull if self.index.encoders[place].nullable => points.push(self.null(place)),
            PartCondition::IsNull => {}
            PartCondition::Equal(expr) => {
                if !self.point(place, expr, None, &mut points)? {
                    return Ok(None);
                }
            }
            PartCondition::NullSafeEqual(expr) => {
                let null = self.index.encoders[place].nullable.then(|| self.null(place));
                if !self.point(place, expr, Some(null), &mut points)? {
                    return Ok(None);
                }
            }
            PartCondition::In(list) => {
                for expr in list.iter() {
                    fiber::tick();
                    if !self.point(place, expr, None, &mut points)? {
                        return Ok(None);
                    }
                }
                sort_points(&mut points);
                points.dedup();
            }
            PartCondition::InQuery(query, _) => {
                let Some(fits) = self.values.query(&self.index.encoders[place].ty, query)? else {
                    return Ok(None);
                };
                for fit in fits {
                    if !self.placed(place, fit, None, &mut points) {
                        return Ok(None);
                    }
                }
                sort_points(&mut points);
                points.dedup();
            }
            PartCondition::Range { .. } | PartCondition::Like { .. } => {
                unreachable!("intervals are not points")
            }
        }
        Ok(Some(points))
    }

    /// Adds the encoding of one value; `null` is what NULL stands for, if anything. False if the order cannot tell.
    fn point(
        &mut self,
        place: usize,
        expr: &Expr,
        null: Option<Option<Vec<u8>>>,
        points: &mut Vec<Vec<u8>>,
    ) -> SqlResult<bool> {
        let fit = self.values.fit(&self.index.encoders[place].ty, expr)?;
        self.exact &= !is_text_of_bits(&self.index.encoders[place].ty, expr);
        Ok(self.placed(place, fit, null, points))
    }

    /// The same of a value whose place is known.
    fn placed(
        &mut self,
        place: usize,
        fit: Fit,
        null: Option<Option<Vec<u8>>>,
        points: &mut Vec<Vec<u8>>,
    ) -> bool {
        let encoder = &self.index.encoders[place];
        match fit {
            Fit::Exact(value) => {
                self.exact &= encoder.prefix.is_none();
                let mut bytes = Vec::with_capacity(16);
                encoder.encode(value.as_ref(), &mut bytes);
                points.push(bytes);
            }
            Fit::Most(value) => {
                self.exact = false;
                let mut bytes = Vec::with_capacity(16);
                encoder.encode(value.as_ref(), &mut bytes);
                points.push(bytes);
            }
            Fit::Null => points.extend(null.flatten()),
            Fit::JustAbove(_) | Fit::Below | Fit::Above => {}
            Fit::Unknown => return false,
        }
        true
    }

    /// What fulfils a BETWEEN, comparison or LIKE, the first of `conditions`, with its ends narrowed by the others; none if that
    /// is nothing. What stands before may have NULL in it.
    fn interval(
        &mut self,
        place: usize,
        conditions: &[PartCondition],
        mut may_be_null: bool,
    ) -> SqlResult<Option<Interval>> {
        let Some((mut low, mut high)) = self.ends(place, &conditions[0])? else { return Ok(None) };
        let mut parts = place + 1;
        let is_range = matches!(conditions[0], PartCondition::Range { .. });
        if is_range && conditions.len() > 1 {
            let Some((first, last, narrowed)) = self.narrowed(place + 1, low, high, &conditions[1..])? else {
                return Ok(None);
            };
            (low, high, parts) = (first, last, parts + narrowed);
            may_be_null |= conditions[1..].iter().any(PartCondition::takes_null);
        }
        // BETWEEN 5 AND 5 is = 5; what LIKE looks for only begins alike.
        let holds = match (&low, &high) {
            (Edge::At(first), Edge::After(last)) if is_range && first == last => {
                held(self.index, parts, may_be_null, first)
            }
            _ => Holds::Between,
        };
        Ok(Some(Interval { low, high, holds }))
    }

    /// The ends of what fulfils a condition on one part, in the index's order; none if that is nothing.
    fn ends(&mut self, place: usize, condition: &PartCondition) -> SqlResult<Option<(Edge, Edge)>> {
        let encoder = &self.index.encoders[place];
        let (lower, upper) = match condition {
            PartCondition::Range { lower, upper } => {
                let lower = self.edge(place, lower.as_ref(), true)?;
                let upper = self.edge(place, upper.as_ref(), false)?;
                if matches!(lower, Edge::Nothing) || matches!(upper, Edge::Nothing) {
                    return Ok(None);
                }
                (lower, upper)
            }
            PartCondition::Like { pattern, escape } => {
                self.exact = false;
                let pattern = self.values.pattern(pattern)?;
                match like_bounds(encoder, pattern.as_ref(), *escape) {
                    None => return Ok(None),
                    Some(ends) => ends,
                }
            }
            _ => {
                let Some(points) = self.points(place, condition)? else {
                    return Ok(Some((Edge::Open, Edge::Open)));
                };
                let (first, last) = (points.iter().min(), points.iter().max());
                return Ok(first.zip(last).map(|(f, l)| (Edge::At(f.clone()), Edge::After(l.clone()))));
            }
        };
        Ok(Some(if encoder.descending { (upper, lower) } else { (lower, upper) }))
    }

    /// An interval's ends, where their values belong to it, with the ends of the next parts' values behind them; and in how many
    /// parts both were found. None if no value of a part will do.
    fn narrowed(
        &mut self,
        place: usize,
        low: Edge,
        high: Edge,
        conditions: &[PartCondition],
    ) -> SqlResult<Option<(Edge, Edge, usize)>> {
        let [condition, others @ ..] = conditions else { return Ok(Some((low, high, 0))) };
        let Some((first, last)) = self.ends(place, condition)? else { return Ok(None) };
        let Some((first, last, parts)) = self.narrowed(place + 1, first, last, others)? else {
            return Ok(None);
        };
        let KeyPart { nullable, descending, .. } = self.index.encoders[place];
        let first = match first {
            Edge::Open if nullable && !descending => Edge::After(self.null(place)),
            first => first,
        };
        let last = match last {
            Edge::Open if nullable && descending => Edge::At(self.null(place)),
            last => last,
        };
        let is_both = !matches!(first, Edge::Open) && !matches!(last, Edge::Open);
        let low = match (low, first) {
            (Edge::At(low), Edge::At(first)) => Edge::At([low, first].concat()),
            (Edge::At(low), Edge::After(first)) => Edge::After([low, first].concat()),
            (low, _) => low,
        };
        let high = match (high, last) {
            (Edge::After(high), Edge::At(last)) => Edge::At([high, last].concat()),
            (Edge::After(high), Edge::After(last)) => Edge::After([high, last].concat()),
            (high, _) => high,
        };
        Ok(Some((low, high, if is_both { parts + 1 } else { 0 })))
    }

    /// The range of an interval behind a prefix; none if it can hold no key and is not looked at.
    fn behind_prefix(&self, place: usize, interval: &Interval, prefix: &[u8]) -> Option<KeyRange> {
        let Interval { low, high, holds } = interval;
        let behind = matches!(low, Edge::After(_));
        let excluded = matches!((low, high), (Edge::After(first), Edge::At(last)) if first < last);
        let lower = match low {
            Edge::At(bytes) => joined(prefix, bytes),
            Edge::After(bytes) => successor(joined(prefix, bytes)),
            Edge::Open | Edge::Nothing => Some(self.open_lower(place, prefix)),
        }?;
        let upper = match high {
            Edge::At(bytes) => joined(prefix, bytes),
            Edge::After(bytes) => successor(joined(prefix, bytes)),
            Edge::Open | Edge::Nothing => self.open_upper(place, prefix),
        };
        let looks = self.locking && excluded;
        let is_there = upper.as_ref().is_none_or(|upper| *upper > lower || looks && *upper == lower);
        is_there.then_some(KeyRange { lower, upper, holds: *holds, behind })
    }

    /// One end of an interval, in the part's ascending order; where the part is descending its ends change sides, so that
    /// "at" and "after" do too.
    fn edge(&mut self, place: usize, bound: Option<&(Expr, bool)>, is_lower: bool) -> SqlResult<Edge> {
        let Some((expr, included)) = bound else { return Ok(Edge::Open) };
        let encoder = &self.index.encoders[place];
        // What is cut off may order otherwise than what is left where characters have no weight of their own.
        if encoder.prefix.is_some() && !keel_value::collation::is_by_character(encoder.ty.collation) {
            self.exact = false;
            return Ok(Edge::Open);
        }
        let fit = self.values.fit(&encoder.ty, expr)?;
        let (value, included) = match fit {
            Fit::Exact(value) => (value, *included || encoder.prefix.is_some()),
            Fit::JustAbove(value) => (value, !is_lower),
            Fit::Null => return Ok(Edge::Nothing),
            Fit::Below if is_lower => return Ok(Edge::Open),
            Fit::Above if !is_lower => return Ok(Edge::Open),
            Fit::Below | Fit::Above => return Ok(Edge::Nothing),
            Fit::Unknown | Fit::Most(_) => {
                self.exact = false;
                return Ok(Edge::Open);
            }
        };
        self.exact &= encoder.prefix.is_none();
        let mut bytes = Vec::with_capacity(16);
        encoder.encode(value.as_ref(), &mut bytes);
        let is_low_byte_side = is_lower != encoder.descending;
        Ok(if is_low_byte_side == included { Edge::At(bytes) } else { Edge::After(bytes) })
    }

    /// The encoding of NULL in a part.
    fn null(&self, place: usize) -> Vec<u8> {
        let mut null = Vec::new();
        self.index.encoders[place].encode(ValueRef::Null, &mut null);
        null
    }

    /// Where the values that are not NULL begin behind a prefix.
    fn open_lower(&self, place: usize, prefix: &[u8]) -> Vec<u8> {
        let encoder = &self.index.encoders[place];
        let mut lower = prefix.to_vec();
        if encoder.nullable && !encoder.descending {
            encoder.encode(ValueRef::Null, &mut lower);
            return successor(lower.into()).unwrap_or_default();
        }
        lower
    }

    /// Where the values that are not NULL end behind a prefix.
    fn open_upper(&self, place: usize, prefix: &[u8]) -> Option<Vec<u8>> {
        let encoder = &self.index.encoders[place];
        let mut upper = prefix.to_vec();
        if encoder.nullable && encoder.descending {
            encoder.encode(ValueRef::Null, &mut upper);
            return Some(upper);
        }
        if upper.is_empty() { None } else { successor(upper.into()) }
    }
}

/// What fulfils a condition that does not name single values.
struct Interval {
    low: Edge,
    high: Edge,
    holds: Holds,
}

/// One end of an interval.
enum Edge {
    /// Not bounded by a value.
    Open,
    /// The interval is empty.
    Nothing,
    /// Just before these bytes.
    At(Vec<u8>),
    /// Just behind every key with these bytes as prefix.
    After(Vec<u8>),
}

/// Encodes a point of all parts from values that are ready.
pub fn encode_point(
    index: &IndexDef,
    key: &[Expr],
    session: &mut Session,
    frame: Frame<'_>,
    out: &mut Vec<u8>,
) -> SqlResult<Point> {
    out.clear();
    let mut point = Point::At;
    for (encoder, expr) in index.encoders.iter().zip(key) {
        match encode_part(encoder, expr, session, frame, out)? {
            // MariaDB compares a row of a unique key once more.
            Point::At if is_text_of_bits(&encoder.ty, expr) => point = Point::Near,
            Point::At => {}
            Point::Near => point = Point::Near,
            elsewhere => return Ok(elsewhere),
        }
    }
    Ok(point)
}

/// Appends a part's value to a key.
#[inline]
fn encode_part(
    encoder: &key::KeyPart,
    expr: &Expr,
    session: &mut Session,
    frame: Frame<'_>,
    key: &mut Vec<u8>,
) -> SqlResult<Point> {
    let mut context = EvalContext::new(&mut *session, frame);
    let cell = expr.eval(&mut context)?;
    if is_plain_integer(&encoder.ty, cell.as_ref()) {
        encoder.encode(cell.as_ref(), key);
        return Ok(Point::At);
    }
    let value = cell.into_value();
    let today = if encoder.ty.is_temporal() { session.base_day() } else { Date::default() };
    match fit_of(&encoder.ty, expr, value.as_ref(), session, today) {
        Fit::Exact(value) => encoder.encode(value.as_ref(), key),
        Fit::Most(value) => {
            encoder.encode(value.as_ref(), key);
            return Ok(Point::Near);
        }
        Fit::Unknown => return Ok(Point::Unknown),
        Fit::JustAbove(_) | Fit::Below | Fit::Above | Fit::Null => return Ok(Point::Nothing),
    }
    Ok(Point::At)
}

/// What became of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Point {
    /// It is encoded.
    At,
    /// It is encoded, by the bytes of a text in place of its number or by the greatest value of the column: a row there is
    /// compared once more.
    Near,
    /// No row can be there: a value is NULL, or none of the column's.
    Nothing,
    /// The index's order cannot tell.
    Unknown,
}

/// An integer that needs no conversion for the column.
#[inline]
fn is_plain_integer(ty: &SqlType, value: ValueRef<'_>) -> bool {
    let ValueRef::Int(v) = value else { return false };
    let (min, max) = ty.integer_range();
    ty.is_integer() && v >= min && (v < 0 || v as u64 <= max) && !ty.unsigned
}

fn cross(prefixes: &[Vec<u8>], points: &[Vec<u8>]) -> Vec<Vec<u8>> {
    prefixes.iter().flat_map(|p| points.iter().map(move |q| [p.as_slice(), q].concat())).collect()
}

/// All keys with a prefix.
pub(super) fn whole(prefix: Vec<u8>) -> KeyRange {
    let upper = if prefix.is_empty() { None } else { successor(prefix.clone().into()) };
    let holds = if prefix.is_empty() { Holds::Between } else { Holds::Prefixes };
    KeyRange { lower: prefix, upper, holds, behind: false }
}

fn joined(prefix: &[u8], bytes: &[u8]) -> Option<Vec<u8>> {
    Some([prefix, bytes].concat())
}

/// The first key behind every key with this prefix; none if there is none.
fn successor(bytes: Option<Vec<u8>>) -> Option<Vec<u8>> {
    let mut bytes = bytes?;
    key::successor(&mut bytes).then_some(bytes)
}

/// How `value` of type `from` stands among the values of a column of type `to`.
fn fit(to: &SqlType, from: &SqlType, value: ValueRef<'_>, session: &Session, today: Date) -> Fit {
    if value.is_null() {
        return Fit::Null;
    }
    // `=` rounds a quotient to the digits that its type shows, BETWEEN and IN take all of it.
    if shown(value, from) != value {
        return Fit::Unknown;
    }
    if to.is_integer()
        && let Some(fit) = fit_integer(to, value)
    {
        return fit;
    }
    if to.kind == TypeKind::Binary
        && let Some(fit) = fit_short_binary(to, from, value)
    {
        return fit;
    }
    if let Some(kind) = FixedKind::of(to.kind) {
        // What is no such value is compared as NULL.
        return convert::to_fixed(kind, value, from)
            .map_or(Fit::Null, |value| Fit::Exact(Value::Fixed(value)));
    }
    match convert::for_index(to, from, value, &session.store_context(false, today)) {
        Some(Value::Null) | None => Fit::Unknown,
        Some(value) => Fit::Exact(value),
    }
}

/// A string shorter than a BINARY(n) column against its values, which zero bytes pad: it stands before the padded string, and
/// equals no value. None for all other values.
fn fit_short_binary(to: &SqlType, from: &SqlType, value: ValueRef<'_>) -> Option<Fit> {
    let bytes = value.as_bytes().filter(|_| from.class() == Class::String)?;
    if bytes.len() >= to.length as usize {
        return None;
    }
    let mut before = bytes.to_vec();
    before.resize(to.length as usize, 0);
    // The greatest string of that length which is less.
    for byte in before.iter_mut().rev() {
        let borrows = *byte == 0;
        *byte = byte.wrapping_sub(1);
        if !borrows {
            return Some(Fit::JustAbove(Value::bytes(&before)));
        }
    }
    Some(Fit::Below)
}

/// Whether a constant text meets a column of bits, which are then sought by its bytes.
pub fn is_text_of_bits(to: &SqlType, expr: &Expr) -> bool {
    to.kind == TypeKind::Bit && expr.ty.is_string() && expr.is_constant()
}

/// How the value of an expression stands among those of a column of type `to`.
fn fit_of(to: &SqlType, expr: &Expr, value: ValueRef<'_>, session: &Session, today: Date) -> Fit {
    match value {
        ValueRef::Bytes(text) if is_text_of_bits(to, expr) => fit_bits(to, text),
        _ => fit(to, &expr.ty, value, session, today),
    }
}

fn has_text_of_bits(index: &IndexDef, conditions: &[PartCondition]) -> bool {
    index.encoders.iter().zip(conditions).any(|(encoder, condition)| match condition {
        PartCondition::Equal(expr) => is_text_of_bits(&encoder.ty, expr),
        _ => false,
    })
}

/// The bytes of a text as the number that storing them in a column of bits gives.
fn fit_bits(to: &SqlType, text: &[u8]) -> Fit {
    let most = u64::MAX >> (64 - to.length.clamp(1, 64));
    let start = text.iter().position(|byte| *byte != 0).unwrap_or(text.len());
    let digits = &text[start..];
    let number = digits.iter().fold(0, |number: u64, byte| number << 8 | u64::from(*byte));
    if digits.len() > size_of::<u64>() || number > most {
        Fit::Most(Value::UInt(most))
    } else {
        Fit::Exact(Value::UInt(number))
    }
}

/// Numbers against an integer column; none for values that are not numbers.
fn fit_integer(to: &SqlType, value: ValueRef<'_>) -> Option<Fit> {
    let (floor, fraction) = match value {
        ValueRef::Int(v) => (i128::from(v), false),
        ValueRef::UInt(v) => (i128::from(v), false),
        ValueRef::Double(v) => floor_of(v)?,
        ValueRef::Float(v) => floor_of(f64::from(v))?,
        ValueRef::Decimal(v) => floor_of_decimal(v)?,
        _ => return None,
    };
    let (min, max) = to.integer_range();
    Some(if floor < i128::from(min) {
        Fit::Below
    } else if floor > i128::from(max) || fraction && floor == i128::from(max) {
        Fit::Above
    } else {
        let value = if to.unsigned { Value::UInt(floor as u64) } else { Value::Int(floor as i64) };
        if fraction { Fit::JustAbove(value) } else { Fit::Exact(value) }
    })
}

fn floor_of(v: f64) -> Option<(i128, bool)> {
    (v.abs() < 1e30).then(|| (v.floor() as i128, v.fract() != 0.0))
}

fn floor_of_decimal(v: Decimal) -> Option<(i128, bool)> {
    let mut text = Vec::new();
    v.append_to(&mut text);
    let text = String::from_utf8(text).ok()?;
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let negative = whole.starts_with('-');
    let whole: i128 = if whole == "-" || whole.is_empty() { 0 } else { whole.parse().ok()? };
    let has_fraction = fraction.bytes().any(|b| b != b'0');
    Some((if has_fraction && negative { whole - 1 } else { whole }, has_fraction))
}

/// The bounds of what begins like a pattern; open where it begins with a wildcard. None for NULL.
fn like_bounds(encoder: &key::KeyPart, value: ValueRef<'_>, escape: Option<char>) -> Option<(Edge, Edge)> {
    let pattern = match value {
        ValueRef::Null => return None,
        ValueRef::Bytes(bytes) => bytes,
        _ => return Some((Edge::Open, Edge::Open)),
    };
    let literal = literal_prefix(pattern, escape);
    let collation = encoder.ty.collation;
    let is_whole = keel_value::collation::well_formed_len(collation, &literal) == literal.len();
    let by_character = keel_value::collation::is_by_character(collation);
    // What a prefix cuts off may change the weights of what it leaves where characters have none of their own.
    if literal.is_empty() || !is_whole || encoder.prefix.is_some() && !by_character {
        return Some((Edge::Open, Edge::Open));
    }
    let common = match by_character {
        true => common_encoding(encoder, &literal),
        false => encoder.encode_beginning(&literal),
    };
    if common.is_empty() {
        return Some((Edge::Open, Edge::Open));
    }
    // A range over bytes below a prefix: both ends are made of the same bytes, whichever way the part runs.
    Some(if encoder.descending {
        (Edge::After(common.clone()), Edge::At(common))
    } else {
        (Edge::At(common.clone()), Edge::After(common))
    })
}

/// The bytes that all encodings of strings beginning with `literal` share: what stays the same whichever character follows.
fn common_encoding(encoder: &key::KeyPart, literal: &[u8]) -> Vec<u8> {
    let (lowest, greatest): (&[u8], &[u8]) = match encoder.ty.collation {
        CollationId::BINARY => (&[0], &[0xff]),
        id if id.charset().max_bytes() == 1 => (&[1], &[0xff]),
        id if id.charset().max_bytes() == 3 => (&[1], "\u{fffd}".as_bytes()),
        _ => (&[1], "\u{10ffff}".as_bytes()),
    };
    let encode = |tail: &[u8]| {
        let mut out = Vec::new();
        encoder.encode(ValueRef::Bytes(&[literal, tail].concat()), &mut out);
        out
    };
    let (low, high) = (encode(lowest), encode(greatest));
    let shared = low.iter().zip(&high).take_while(|(a, b)| a == b).count();
    low[..shared].to_vec()
}

/// What stands before a pattern's first wildcard. Trailing blanks are left out: they do not count in comparisons.
fn literal_prefix(pattern: &[u8], escape: Option<char>) -> Vec<u8> {
    let escape = escape.filter(char::is_ascii).map(|c| c as u8);
    let mut literal = Vec::new();
    let mut bytes = pattern.iter().copied();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' | b'_' if Some(byte) != escape => break,
            _ if Some(byte) == escape => literal.push(bytes.next().unwrap_or(byte)),
            _ => literal.push(byte),
        }
    }
    while literal.last() == Some(&b' ') {
        literal.pop();
    }
    literal
}

/// Whether a type's index can be searched with [`PartCondition::Like`].
pub fn takes_like(ty: &SqlType) -> bool {
    ty.is_string() && !matches!(ty.kind, TypeKind::Binary)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(lower: &[u8], upper: Option<&[u8]>) -> KeyRange {
        KeyRange {
            lower: lower.to_vec(),
            upper: upper.map(<[u8]>::to_vec),
            holds: Holds::Between,
            behind: false,
        }
    }

    #[test]
    fn ranges_become_disjoint_and_ordered() {
        let mut ranges = vec![
            range(b"m", Some(b"p")),
            range(b"a", Some(b"c")),
            range(b"b", Some(b"d")),
            range(b"d", Some(b"e")),
            range(b"x", None),
            range(b"y", Some(b"z")),
        ];
        normalise(&mut ranges, false);
        assert_eq!(ranges, [range(b"a", Some(b"e")), range(b"m", Some(b"p")), range(b"x", None)]);
        let mut inner = vec![range(b"a", Some(b"z")), range(b"b", Some(b"c"))];
        normalise(&mut inner, false);
        assert_eq!(inner, [range(b"a", Some(b"z"))]);
    }

    #[test]
    fn patterns_give_what_stands_before_the_wildcard() {
        assert_eq!(literal_prefix(b"ab%c", Some('\\')), b"ab");
        assert_eq!(literal_prefix(b"a\\%b_", Some('\\')), b"a%b");
        assert_eq!(literal_prefix(b"%", Some('\\')), b"");
        assert_eq!(literal_prefix(b"ab ", None), b"ab");
    }

    #[test]
    fn numbers_between_integers_are_told_from_integers() {
        let int = SqlType::int();
        assert!(matches!(fit_integer(&int, ValueRef::Double(-0.5)), Some(Fit::JustAbove(Value::Int(-1)))));
        assert!(matches!(fit_integer(&int, ValueRef::Int(5)), Some(Fit::Exact(Value::Int(5)))));
        assert!(matches!(fit_integer(&int, ValueRef::UInt(1 << 40)), Some(Fit::Above)));
        assert!(matches!(fit_integer(&int.with_unsigned(), ValueRef::Int(-1)), Some(Fit::Below)));
    }
}
