//! Choosing among a table's indexes.
//!
//! Candidates are the clustered key and every index that a predicate restricts, that covers the statement, or that gives
//! the wished order, and for an OR the union of one index for each of its alternatives. Each is priced by the rows it reads:
//! an entry costs 1, fetching its row by the clustered key `FETCH` more, telling it from other rows of a union
//! `UNION_CHECK`, sorting what was read a little per row, locking it without need `LOCKED` times as much. Rows in ranges
//! are counted by the engine where values are known (constants and the parameters of the first execution), else guessed
//! from the number of parts.

use std::sync::Arc;

use keel_base::SqlResult;
use keel_catalog::{IndexDef, TableDef};
use keel_context::engine_error;
use keel_exec::access::choice::{AccessChoice, AccessKind, KeyOrder};
use keel_exec::access::{AccessPath, PartCondition, bounds};
use keel_exec::session::Session;
use keel_expr::{Expr, Node, walk};
use keel_sql::ast::{IndexHint, IndexHintKind};
use keel_storage::ScanRange;
use keel_storage::runtime::fiber;
use keel_value::{SqlType, TypeKind, Value};

use crate::access::split::{Found, Target};

/// What is asked of a table.
pub struct AccessRequest<'a> {
    /// The table.
    pub table: &'a Arc<TableDef>,
    /// Its place in the frame.
    pub slot: u16,
    /// Conditions that all rows must fulfil; those about other tables do no harm.
    pub predicates: &'a [&'a Expr],
    /// Whether the row of another slot is there when this table is read.
    pub known: &'a dyn Fn(u16) -> bool,
    /// Whether the table is opened once in an execution of its query.
    pub once: bool,
    /// Which columns anybody reads.
    pub needed: &'a [bool],
    /// The order that would save a sort; empty for none.
    pub order: &'a [KeyOrder],
    /// Rows after which the statement ends, if the order is given.
    pub limit: Option<u64>,
    /// Whether rows are locked: then entries alone do not do, and what is read beyond need is dear.
    pub locking: bool,
    /// USE, FORCE, IGNORE INDEX.
    pub hints: &'a [IndexHint],
    /// The session that plans.
    pub session: &'a Session,
    /// The first execution's parameters, where known.
    pub sample: &'a [Value],
}

/// Price of fetching a row by its clustered key after an index entry, in entries.
const FETCH: f64 = 2.0;
/// Price of seeing whether a row came by another way already.
const UNION_CHECK: f64 = 0.5;
/// Most alternatives of an OR that are read by an index each.
const UNION_MAX: usize = 16;
/// Price of a row that is locked without need, in rows.
const LOCKED: f64 = 4.0;
/// Ranges whose rows the engine is asked for; more are extrapolated.
const COUNTED_MAX: usize = 16;

/// The cheapest way to a table's rows.
pub fn choose(request: &AccessRequest<'_>) -> SqlResult<AccessChoice> {
    let table = request.table;
    if table.is_made_up() {
        let rows = if table.is_sequence() { 1.0 } else { 100.0 };
        return Ok(plain(
            AccessPath::Virtual(sought(request), Some(request.needed.into())),
            AccessKind::All,
            rows,
        ));
    }
    let target =
        Target { table, slot: request.slot, known: request.known, once: request.once, by_bytes: true };
    // Alternatives by one index are a list of numbers.
    let listed = Target { by_bytes: false, ..target };
    let mut found = Vec::new();
    let mut unions: Vec<(usize, &[Expr])> = Vec::new();
    for (number, predicate) in request.predicates.iter().enumerate() {
        match &predicate.node {
            Node::Or(parts) => unions.push((number, parts)),
            Node::OneOf(any, _) if let Node::Or(parts) = &any.node => unions.push((number, parts)),
            Node::Constant(value) if is_false(value) => {
                return Ok(plain(AccessPath::Empty, AccessKind::Empty, 0.0));
            }
            _ => target.conditions(predicate, number, &mut found),
        }
    }
    let total = table_rows(table)?.max(1.0);
    let restricting: Vec<_> =
        unions.iter().filter_map(|(number, parts)| PartsOfOr::new(&listed, *number, parts)).collect();
    let mut offers = Vec::with_capacity(table.indexes.len());
    let mut forced = false;
    for (position, index) in table.indexes.iter().enumerate() {
        match hint(request.hints, table, position) {
            Hint::Ignored => continue,
            Hint::Forced => forced = true,
            Hint::None => {}
        }
        offers.push((position, alternatives(index, &found, &restricting)));
    }
    let mut best = union_of(request, &target, &offers, &found, &unions, total)?;
    let possible_keys = possible_keys(&offers, best.as_ref());
    let matching = matching_rows(request, &offers, best.as_ref().map_or(total, |b| b.rows))?;
    for (position, alternatives) in offers {
        for candidate in candidates(request, position, alternatives, total, matching)? {
            if best.as_ref().is_none_or(|b| is_better(&candidate, b)) {
                best = Some(candidate);
            }
        }
    }
    let mut scan = full_scan(request, total, matching);
    let by_bytes = |found: &Found| is_by_bytes(&table.columns[found.column].ty, &found.condition);
    if (forced || found.iter().any(by_bytes)) && best.is_some() {
        scan.cost = f64::MAX;
    }
    if request.locking && best.is_some() {
        // What is read stays locked.
        scan.cost *= LOCKED;
    }
    let mut choice = match best {
        Some(best) if !is_better(&scan, &best) => best,
        _ => scan,
    };
    choice.possible_keys = possible_keys;
    Ok(choice)
}

/// Whether a condition seeks bits by the bytes of a text.
fn is_by_bytes(ty: &SqlType, condition: &PartCondition) -> bool {
    matches!(condition, PartCondition::Equal(value) if bounds::is_text_of_bits(ty, value))
}

fn seeks_bytes(table: &TableDef, branches: &[(usize, Vec<Vec<PartCondition>>)]) -> bool {
    branches.iter().any(|(index, alternatives)| {
        let encoders = &table.indexes[*index].encoders;
        alternatives
            .iter()
            .any(|list| encoders.iter().zip(list).any(|(e, condition)| is_by_bytes(&e.ty, condition)))
    })
}

/// The indexes that conditions restrict, and those of a union.
fn possible_keys(offers: &[(usize, Option<Vec<Usable>>)], union: Option<&AccessChoice>) -> Vec<usize> {
    let in_union = |position: usize| match union.map(|choice| &choice.path) {
        Some(AccessPath::Union(branches)) => branches.iter().any(|(index, _)| *index == position),
        _ => false,
    };
    let offered = offers.iter().filter(|(position, usable)| usable.is_some() || in_union(*position));
    offered.map(|(position, _)| *position).collect()
}

/// Rows that fulfil all predicates, `most` at most, as far as the narrowest index tells. Only asked where a limit may end a read early.
fn matching_rows(
    request: &AccessRequest<'_>,
    offers: &[(usize, Option<Vec<Usable>>)],
    most: f64,
) -> SqlResult<f64> {
    let mut matching = most;
    if request.limit.is_none() || request.order.is_empty() {
        return Ok(matching);
    }
    for (position, usable) in offers {
        if let Some(usable) = usable {
            let lists: Vec<_> = usable.iter().map(|u| u.conditions.clone()).collect();
            matching = matching.min(rows_in(request, &request.table.indexes[*position], &lists, most)?);
        }
    }
    Ok(matching.max(1.0))
}

/// How many of `rows` are read before the limit is reached, where those that fulfil all predicates lie evenly among them.
fn limited(request: &AccessRequest<'_>, ordered: bool, rows: f64, matching: f64) -> f64 {
    match request.limit {
        Some(limit) if ordered => (rows * limit as f64 / matching.min(rows).max(1.0)).min(rows),
        _ => rows,
    }
}

/// The ways of an OR whose alternatives each have an index of their own; None where there is no such OR.
fn union_of(
    request: &AccessRequest<'_>,
    target: &Target<'_>,
    offers: &[(usize, Option<Vec<Usable>>)],
    found: &[Found],
    unions: &[(usize, &[Expr])],
    total: f64,
) -> SqlResult<Option<AccessChoice>> {
    let mut best: Option<AccessChoice> = None;
    for (number, parts) in unions.iter().filter(|(_, parts)| parts.len() <= UNION_MAX) {
        let mut branches: Vec<(usize, Vec<Vec<PartCondition>>)> = Vec::new();
        let (mut rows, mut cost) = (0.0, 0.0);
        for part in *parts {
            let mut both = found.to_vec();
            target.conditions(part, *number, &mut both);
            let mut cheapest: Option<AccessChoice> = None;
            for (position, _) in offers {
                let Some(list) = usable(&request.table.indexes[*position], Together(&both, &[])) else {
                    continue;
                };
                if list.predicates.contains(number) || list.conditions.iter().any(PartCondition::is_like) {
                    let choice = by_conditions(request, *position, vec![list], false, total, total)?;
                    if cheapest.as_ref().is_none_or(|c| is_better(&choice, c)) {
                        cheapest = Some(choice);
                    }
                }
            }
            let Some(AccessChoice { path, rows: r, cost: c, .. }) = cheapest else { break };
            rows += r;
            cost += c;
            branches.push(match path {
                AccessPath::Ranges { index, alternatives, .. } => (index, alternatives),
                AccessPath::Point { index, key } => {
                    (index, vec![key.into_iter().map(PartCondition::Equal).collect()])
                }
                _ => break,
            });
        }
        // Alternatives by one index are a list of numbers.
        let is_list = branches.iter().all(|(index, _)| *index == branches[0].0);
        if branches.len() == parts.len() && !(is_list && seeks_bytes(request.table, &branches)) {
            let mut choice = plain(AccessPath::Union(branches), AccessKind::IndexMerge, rows.min(total));
            choice.cost = cost + rows * UNION_CHECK + sort_cost(request, false, rows);
            if best.as_ref().is_none_or(|b| is_better(&choice, b)) {
                best = Some(choice);
            }
        }
    }
    Ok(best)
}

/// Rows of a table, as the engine guesses.
pub fn table_rows(table: &TableDef) -> SqlResult<f64> {
    let Some(engine) = &table.engine else {
        return Ok(table.series.map_or(100.0, |series| series.rows() as f64));
    };
    Ok(engine.row_estimate(table.rows(), ScanRange::ALL).map_err(engine_error)? as f64)
}

fn is_better(a: &AccessChoice, b: &AccessChoice) -> bool {
    a.cost < b.cost
}

fn is_false(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Int(0) | Value::UInt(0))
}

/// The values that predicates demand of columns, told to whoever makes up a table's rows; the predicates are asked all the same.
fn sought(request: &AccessRequest<'_>) -> Vec<(usize, Expr)> {
    let target =
        Target { table: request.table, slot: request.slot, known: &|_| false, once: false, by_bytes: false };
    let mut found = Vec::new();
    for (number, predicate) in request.predicates.iter().enumerate() {
        target.conditions(predicate, number, &mut found);
    }
    let once = |value: &Expr| {
        let facts = walk::facts(value);
        facts.is_constant() && !facts.subquery && !facts.sequences
    };
    let values = found.into_iter().filter_map(|found| match found.condition {
        PartCondition::Equal(value) if once(&value) => Some((found.column, value)),
        _ => None,
    });
    values.collect()
}

fn plain(path: AccessPath, kind: AccessKind, rows: f64) -> AccessChoice {
    AccessChoice {
        path,
        covering: false,
        rows,
        cost: rows,
        exact: Vec::new(),
        ordered: false,
        kind,
        possible_keys: Vec::new(),
        key_parts: 0,
        key_len: 0,
    }
}

enum Hint {
    None,
    Ignored,
    Forced,
}

/// Whether hints, or the index's own definition, keep plans from using it.
pub(super) fn is_hinted_away(hints: &[IndexHint], table: &TableDef, position: usize) -> bool {
    matches!(hint(hints, table, position), Hint::Ignored)
}

/// What hints say about an index.
fn hint(hints: &[IndexHint], table: &TableDef, position: usize) -> Hint {
    let index = &table.indexes[position];
    if index.options.ignored || index.hashed {
        return Hint::Ignored;
    }
    let mut said = Hint::None;
    for hint in hints {
        let named = hint.indexes.iter().any(|name| table.hinted_index(name) == Some(position));
        match (hint.kind, named) {
            (IndexHintKind::Ignore, true) => return Hint::Ignored,
            (IndexHintKind::Use | IndexHintKind::Force, false) => said = Hint::Ignored,
            (IndexHintKind::Force, true) => return Hint::Forced,
            (IndexHintKind::Use, true) => return Hint::None,
            (IndexHintKind::Ignore, false) => {}
        }
    }
    said
}

/// Conditions on an index's leading parts, and the predicates they come from.
struct Usable {
    conditions: Vec<PartCondition>,
    predicates: Vec<usize>,
}

/// The conditions that each part of an OR puts on columns. They are the same for every index.
struct PartsOfOr {
    /// The predicate's number.
    number: usize,
    found: Vec<Found>,
    /// Where the conditions of each part end in `found`.
    ends: Vec<usize>,
}

impl PartsOfOr {
    /// None where a part puts no condition on a column: then no index can read the OR as a list of ranges.
    fn new(target: &Target<'_>, number: usize, parts: &[Expr]) -> Option<PartsOfOr> {
        let mut of = PartsOfOr { number, found: Vec::new(), ends: Vec::with_capacity(parts.len()) };
        let mut before = 0;
        for part in parts {
            fiber::tick();
            target.conditions(part, number, &mut of.found);
            if of.found.len() == before {
                return None;
            }
            before = of.found.len();
            of.ends.push(before);
        }
        Some(of)
    }

    fn iter(&self) -> impl Iterator<Item = &[Found]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.found[start..*end])
    }
}

/// Conditions that hold together: those of the whole statement and those of one part of an OR.
#[derive(Clone, Copy)]
struct Together<'a>(&'a [Found], &'a [Found]);

impl<'a> Together<'a> {
    fn about(self, column: usize) -> impl Iterator<Item = &'a Found> + Clone {
        self.0.iter().chain(self.1).filter(move |found| found.column == column)
    }
}

/// The lists of conditions that an index can use; a row fulfils at least one of them. None if it can use nothing.
fn alternatives(index: &IndexDef, found: &[Found], unions: &[PartsOfOr]) -> Option<Vec<Usable>> {
    let mut best = usable(index, Together(found, &[])).map(|u| vec![u]);
    for parts in unions {
        let mut lists = Vec::new();
        for part in parts.iter() {
            fiber::tick();
            match usable(index, Together(found, part)) {
                Some(list) if list.predicates.contains(&parts.number) => lists.push(list),
                _ => break,
            }
        }
        let longer = |b: &Vec<Usable>| {
            let before = b.iter().map(|u| u.conditions.len()).min();
            lists.iter().map(|u| u.conditions.len()).min() > before
        };
        if lists.len() == parts.ends.len() && best.as_ref().is_none_or(longer) {
            best = Some(lists);
        }
    }
    best
}

/// The conditions on the leading parts of an index: single values as long as there are any, then one range, then what narrows
/// its ends.
fn usable(index: &IndexDef, found: Together<'_>) -> Option<Usable> {
    let restricted = index.parts.iter().take_while(|part| found.about(part.column).next().is_some()).count();
    if restricted == 0 {
        return None;
    }
    // A list of rows has many of these.
    let mut usable =
        Usable { conditions: Vec::with_capacity(restricted), predicates: Vec::with_capacity(restricted) };
    for (place, part) in index.parts.iter().enumerate() {
        let Some((condition, predicates)) = best_condition(found, part.column) else { break };
        let goes_on = condition.is_points();
        usable.conditions.push(condition);
        usable.predicates.extend(predicates);
        if !goes_on {
            narrow(index, place, found, &mut usable.conditions);
            break;
        }
    }
    (!usable.conditions.is_empty()).then_some(usable)
}

/// What is demanded of a column: single values, else an interval; and the predicates that this covers.
fn best_condition(
    found: Together<'_>,
    column: usize,
) -> Option<(PartCondition, impl IntoIterator<Item = usize>)> {
    let about = found.about(column);
    let points = about.clone().filter(|f| f.condition.is_points());
    match points.min_by_key(|f| points_rank(&f.condition)) {
        Some(points) => {
            Some((points.condition.clone(), Some(points.predicate).into_iter().chain(Vec::new())))
        }
        None => {
            interval(about).map(|(condition, predicates)| (condition, None.into_iter().chain(predicates)))
        }
    }
}

/// Adds the conditions on later parts that tell where in the first or the last value of an interval to begin or to end:
/// `k <= 8 AND v < 2` ends before (8, 2). They say nothing of the values in between, so no predicate is covered by them.
fn narrow(index: &IndexDef, place: usize, found: Together<'_>, conditions: &mut Vec<PartCondition>) {
    let mut ends = closed_ends(index, place, &conditions[place]);
    for next in place + 1..index.parts.len() {
        let Some((condition, _)) = best_condition(found, index.parts[next].column) else { return };
        let known = condition.is_constant() && !matches!(condition, PartCondition::InQuery(..));
        let (begins, stops) = bounded_ends(index, next, &condition);
        let (closed_first, closed_last) = closed_ends(index, next, &condition);
        let (first, last) = (ends.0 && begins, ends.1 && stops);
        if !known || condition.is_like() || !(first || last) {
            return;
        }
        ends = (first && closed_first, last && closed_last);
        conditions.push(condition);
    }
}

/// Whether values of a part stand at the two ends, in the index's order, of what fulfils a condition.
fn bounded_ends(index: &IndexDef, place: usize, condition: &PartCondition) -> (bool, bool) {
    let PartCondition::Range { lower, upper } = condition else { return (true, true) };
    let nullable = index.encoders[place].nullable;
    in_order(index, place, (lower.is_some() || nullable, upper.is_some()))
}

/// Whether these values fulfil it too.
fn closed_ends(index: &IndexDef, place: usize, condition: &PartCondition) -> (bool, bool) {
    let is_closed = |end: &Option<(Expr, bool)>| end.as_ref().is_some_and(|(_, included)| *included);
    match condition {
        PartCondition::Range { lower, upper } => in_order(index, place, (is_closed(lower), is_closed(upper))),
        PartCondition::Like { .. } => (false, false),
        _ => (true, true),
    }
}

/// Lower and upper as first and last.
fn in_order(index: &IndexDef, place: usize, (lower, upper): (bool, bool)) -> (bool, bool) {
    if index.encoders[place].descending { (upper, lower) } else { (lower, upper) }
}

fn points_rank(condition: &PartCondition) -> u8 {
    match condition {
        PartCondition::Equal(_) => 0,
        PartCondition::NullSafeEqual(_) => 1,
        PartCondition::IsNull => 2,
        _ => 3,
    }
}

/// The narrowest interval that can be had from ranges on one column: the first lower and the first upper bound.
fn interval<'a>(about: impl Iterator<Item = &'a Found> + Clone) -> Option<(PartCondition, Vec<usize>)> {
    let (mut low, mut high) = (None, None);
    let mut predicates = Vec::new();
    let mut any = false;
    for found in about.clone() {
        let PartCondition::Range { lower, upper } = &found.condition else { continue };
        any = true;
        let takes_low = lower.is_some() && low.is_none();
        let takes_high = upper.is_some() && high.is_none();
        if takes_low {
            low = lower.clone();
        }
        if takes_high {
            high = upper.clone();
        }
        // A predicate with a bound that was not taken, or is not known yet, is not covered.
        if found.whole && (takes_low || lower.is_none()) && (takes_high || upper.is_none()) {
            predicates.push(found.predicate);
        }
    }
    if low.is_none() && high.is_none() {
        let like = about.clone().find(|f| matches!(f.condition, PartCondition::Like { .. }));
        if let Some(like) = like {
            return Some((like.condition.clone(), Vec::new()));
        }
    }
    any.then_some((PartCondition::Range { lower: low, upper: high }, predicates))
}

/// The ways that an index offers: by its conditions, and as a whole where it covers or orders.
fn candidates(
    request: &AccessRequest<'_>,
    position: usize,
    alternatives: Option<Vec<Usable>>,
    total: f64,
    matching: f64,
) -> SqlResult<Vec<AccessChoice>> {
    let table = request.table;
    let index = &table.indexes[position];
    let clustered = table.clustered == Some(position);
    let covering = !clustered && covers(index, request.needed);
    let suffices = covering && !request.locking;
    let fetch = if clustered || suffices { 0.0 } else { FETCH };
    let mut out = Vec::new();
    if let Some(alternatives) = alternatives {
        out.push(by_conditions(request, position, alternatives, covering, total, matching)?);
    } else {
        let direction = order_direction(table, index, clustered, 0, request.order);
        let ordered = direction.is_some();
        let limited = limited(request, ordered, total, matching);
        if suffices || ordered {
            let path = AccessPath::Scan { index: Some(position), reverse: direction == Some(true) };
            let width = if suffices { 0.9 } else { 1.0 + fetch };
            let mut choice = plain(path, AccessKind::Index, total);
            choice.cost = limited * width + sort_cost(request, ordered, total);
            choice.covering = covering;
            choice.ordered = ordered;
            choice.key_len = key_len(table, index, index.parts.len());
            choice.rows = limited;
            out.push(choice);
        }
    }
    Ok(out)
}

fn by_conditions(
    request: &AccessRequest<'_>,
    position: usize,
    alternatives: Vec<Usable>,
    covering: bool,
    total: f64,
    matching: f64,
) -> SqlResult<AccessChoice> {
    let table = request.table;
    let index = &table.indexes[position];
    let clustered = table.clustered == Some(position);
    let fetch = if clustered || covering && !request.locking { 0.0 } else { FETCH };
    let parts = alternatives.iter().map(|u| u.conditions.len()).min().unwrap_or(0);
    let exact = exact_predicates(index, &alternatives);
    let constant =
        alternatives.iter().inspect(|_| fiber::tick()).all(|u| u.conditions.iter().all(reads_no_row));
    let lists: Vec<Vec<PartCondition>> = alternatives.into_iter().map(|u| u.conditions).collect();
    let key_len = key_len(table, index, lists.iter().map(Vec::len).max().unwrap_or(0));
    if let Some(key) = point_key(index, &lists) {
        let kind = if constant { AccessKind::Const } else { AccessKind::EqRef };
        let mut choice = plain(AccessPath::Point { index: position, key }, kind, 1.0);
        choice.cost = 1.0 + fetch;
        choice.covering = covering;
        choice.exact = exact;
        choice.ordered = true;
        choice.key_parts = parts;
        choice.key_len = key_len;
        return Ok(choice);
    }
    let rows = rows_in(request, index, &lists, total)?;
    let fixed = if lists.len() == 1 {
        lists[0].iter().take_while(|c| matches!(c, PartCondition::Equal(_) | PartCondition::IsNull)).count()
    } else {
        0
    };
    let direction = order_direction(table, index, clustered, fixed, request.order);
    let ordered = direction.is_some();
    let limited = limited(request, ordered, rows, matching);
    let reference = lists.len() == 1 && lists[0].iter().all(PartCondition::is_equality);
    let kind = if reference { AccessKind::Ref } else { AccessKind::Range };
    let path = AccessPath::Ranges { index: position, alternatives: lists, reverse: direction == Some(true) };
    let mut choice = plain(path, kind, rows);
    // Reading a part of the rows in their own order is never dearer than reading all.
    let start = if clustered && request.locking { 0.0 } else { 1.0 };
    choice.cost = limited * (1.0 + fetch) + start + sort_cost(request, ordered, rows);
    choice.covering = covering;
    choice.exact = exact;
    choice.ordered = ordered;
    choice.key_parts = parts;
    choice.key_len = key_len;
    Ok(choice)
}

/// The values of all parts of a unique index, if each must equal one.
fn point_key(index: &IndexDef, lists: &[Vec<PartCondition>]) -> Option<Vec<Expr>> {
    let [conditions] = lists else { return None };
    if !index.is_unique()
        || conditions.len() != index.parts.len()
        || index.parts.iter().any(|p| p.prefix.is_some())
    {
        return None;
    }
    conditions
        .iter()
        .map(|c| match c {
            PartCondition::Equal(expr) => Some(expr.clone()),
            _ => None,
        })
        .collect()
}

fn reads_no_row(condition: &PartCondition) -> bool {
    let constant = |e: &Expr| keel_expr::walk::slots_read(e) == 0;
    match condition {
        PartCondition::Equal(e) | PartCondition::NullSafeEqual(e) => constant(e),
        PartCondition::In(list) => list.iter().inspect(|_| fiber::tick()).all(constant),
        PartCondition::Range { lower, upper } => {
            [lower, upper].into_iter().flatten().all(|(e, _)| constant(e))
        }
        PartCondition::IsNull | PartCondition::InQuery(..) | PartCondition::Like { .. } => true,
    }
}

/// Predicates that every row of the ranges fulfils. Zones make the order of timestamps uncertain, prefixes that of strings.
fn exact_predicates(index: &IndexDef, alternatives: &[Usable]) -> Vec<usize> {
    let [only] = alternatives else { return Vec::new() };
    let sure = index.encoders.iter().take(only.conditions.len()).all(|e| {
        e.prefix.is_none()
            && e.ty.kind != TypeKind::Timestamp
            && !matches!(e.ty.kind, TypeKind::Float | TypeKind::Double)
    });
    if sure { only.predicates.clone() } else { Vec::new() }
}

/// Rows in ranges: counted where values are known, else guessed.
fn rows_in(
    request: &AccessRequest<'_>,
    index: &IndexDef,
    lists: &[Vec<PartCondition>],
    total: f64,
) -> SqlResult<f64> {
    let known = bounds::sampled_ranges(index, lists, request.session, request.sample)?;
    if let (Some(ranges), Some(series)) = (&known, &request.table.series) {
        let rows = ranges.iter().take(COUNTED_MAX).map(|range| series.within(range, false).rows() as f64);
        return Ok(rows.sum::<f64>().max(1.0).min(total));
    }
    let (Some(ranges), Some(engine)) = (known, &request.table.engine) else {
        let per_value = request.table.rows_per_value(index, total)?;
        return Ok(lists.iter().map(|l| guessed(&per_value, l, total)).sum::<f64>().min(total));
    };
    if lists.iter().all(|conditions| names_rows(index, conditions)) {
        return Ok((ranges.len() as f64).max(1.0).min(total));
    }
    let mut rows = 0.0;
    if ranges.len() > 1 {
        index.entries().read_ahead(ranges.iter().take(COUNTED_MAX).map(|range| range.lower.as_slice()));
    }
    for range in ranges.iter().take(COUNTED_MAX) {
        rows += engine.row_estimate(index.entries(), range.as_scan(false)).map_err(engine_error)? as f64;
    }
    let counted = ranges.len().clamp(1, COUNTED_MAX) as f64;
    // Never less than one: an index that covers must win over one that does not, even where nothing is found.
    Ok((rows * ranges.len() as f64 / counted).max(1.0).min(total))
}

/// Whether each of the values has one row at most: as in MariaDB nobody looks whether it has.
fn names_rows(index: &IndexDef, conditions: &[PartCondition]) -> bool {
    let is_value =
        |condition: &PartCondition| matches!(condition, PartCondition::Equal(_) | PartCondition::In(_));
    index.is_unique()
        && conditions.len() == index.parts.len()
        && index.parts.iter().all(|part| part.prefix.is_none())
        && conditions.iter().all(is_value)
}

/// A guess: single values have as many rows as values of the index have on average, a range a share of what is left.
fn guessed(per_value: &[f64], conditions: &[PartCondition], total: f64) -> f64 {
    let (mut rows, mut values) = (total, 1.0);
    for (condition, per_value) in conditions.iter().zip(per_value) {
        values *= match condition {
            PartCondition::Range { lower: Some(_), upper: Some(_) } => return (rows / 20.0).max(1.0),
            PartCondition::Range { lower: None, upper: None } => return rows,
            PartCondition::Range { .. } => return (rows / 3.0).max(1.0),
            PartCondition::Like { .. } => return (rows / 10.0).max(1.0),
            PartCondition::In(list) => list.len() as f64,
            PartCondition::InQuery(_, rows) => *rows,
            _ => 1.0,
        };
        rows = (values * per_value).min(rows);
    }
    rows
}

fn covers(index: &IndexDef, needed: &[bool]) -> bool {
    index.covers(needed.iter().enumerate().filter(|(_, n)| **n).map(|(c, _)| c))
}

/// Whether an index whose first `fixed` parts have one value each gives the wished order: forwards (false) or backwards.
fn order_direction(
    table: &TableDef,
    index: &IndexDef,
    clustered: bool,
    fixed: usize,
    order: &[KeyOrder],
) -> Option<bool> {
    if order.is_empty() {
        return None;
    }
    let mut parts: Vec<(usize, bool)> = Vec::new();
    for part in &index.parts {
        if part.prefix.is_some() {
            break;
        }
        parts.push((part.column, part.descending));
    }
    if !clustered && parts.len() == index.parts.len() {
        let key = table.clustered_index().map(|i| i.parts.as_slice()).unwrap_or_default();
        parts.extend(key.iter().map(|p| (p.column, p.descending)));
    }
    let fixed_columns: Vec<usize> = index.parts.iter().take(fixed).map(|p| p.column).collect();
    let mut rest = parts.into_iter().filter(|(c, _)| !fixed_columns.contains(c));
    let mut reverse = None;
    let mut seen: Vec<usize> = fixed_columns.clone();
    for (column, descending) in order {
        let column = *column as usize;
        if seen.contains(&column) {
            continue;
        }
        let (part, part_descending) = rest.find(|(c, _)| !seen.contains(c))?;
        let backwards = part_descending != *descending;
        if part != column || reverse.is_some_and(|r| r != backwards) || !orders_like_sql(table, column) {
            return None;
        }
        reverse = Some(backwards);
        seen.push(column);
    }
    Some(reverse.unwrap_or(false))
}

/// ENUM and SET sort by number in both; every other type's key order is SQL's.
fn orders_like_sql(table: &TableDef, column: usize) -> bool {
    table.columns[column].ty.kind != TypeKind::Null
}

fn sort_cost(request: &AccessRequest<'_>, ordered: bool, rows: f64) -> f64 {
    if ordered || request.order.is_empty() { 0.0 } else { rows * 0.2 * (rows + 2.0).log2() }
}

fn full_scan(request: &AccessRequest<'_>, total: f64, matching: f64) -> AccessChoice {
    let table = request.table;
    let direction = table.clustered_index().and_then(|i| order_direction(table, i, true, 0, request.order));
    let ordered = direction.is_some();
    let path = AccessPath::Scan { index: None, reverse: direction == Some(true) };
    let mut choice = plain(path, AccessKind::All, total);
    let limited = limited(request, ordered, total, matching);
    choice.cost = limited + sort_cost(request, ordered, total);
    choice.ordered = ordered;
    choice
}

/// EXPLAIN's key_len of a union: those of its ways.
pub fn union_key_len(table: &TableDef, branches: &[(usize, Vec<Vec<PartCondition>>)]) -> String {
    let one = |(index, lists): &(usize, Vec<Vec<PartCondition>>)| {
        let parts = lists.iter().map(Vec::len).max().unwrap_or(0);
        key_len(table, &table.indexes[*index], parts).to_string()
    };
    branches.iter().map(one).collect::<Vec<_>>().join(",")
}

/// EXPLAIN's key_len of an index that is read as a whole.
pub fn whole_key_len(table: &TableDef, index: usize) -> usize {
    let index = &table.indexes[index];
    key_len(table, index, index.parts.len())
}

/// EXPLAIN's key_len: bytes of the used parts as MariaDB packs them.
fn key_len(table: &TableDef, index: &IndexDef, parts: usize) -> usize {
    index.parts.iter().take(parts).map(|p| part_len(table, p)).sum()
}

fn part_len(table: &TableDef, part: &keel_catalog::KeyPart) -> usize {
    let column = &table.columns[part.column];
    let ty = &column.ty;
    let fraction = (ty.decimals as usize).div_ceil(2);
    let bytes = match ty.kind {
        TypeKind::Year => 1,
        TypeKind::Date => 3,
        TypeKind::Time => 3 + fraction,
        TypeKind::Timestamp => 4 + fraction,
        TypeKind::DateTime => 5 + fraction,
        TypeKind::Float => 4,
        TypeKind::Double => 8,
        TypeKind::Bit => (ty.length as usize).div_ceil(8),
        TypeKind::Enum => {
            if ty.members().len() > 255 {
                2
            } else {
                1
            }
        }
        TypeKind::Set => match ty.members().len().div_ceil(8) {
            n @ 0..=4 => n,
            _ => 8,
        },
        TypeKind::Decimal => {
            let scale = ty.decimals as usize;
            decimal_octets(ty.length as usize - scale) + decimal_octets(scale)
        }
        _ if ty.is_integer() => ty.integer_bytes(),
        _ => {
            let chars = part.prefix.unwrap_or(ty.length) as usize;
            let per_char = if ty.is_text() { ty.collation.charset().max_bytes() as usize } else { 1 };
            let length_octets = if matches!(ty.kind, TypeKind::Char | TypeKind::Binary) { 0 } else { 2 };
            chars * per_char + length_octets
        }
    };
    bytes + usize::from(column.nullable)
}

fn decimal_octets(digits: usize) -> usize {
    digits / 9 * 4 + [0, 1, 1, 2, 2, 3, 3, 4, 4][digits % 9]
}
