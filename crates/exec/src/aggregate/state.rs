//! The state of one aggregate while the rows of a group pass.

mod remove;

use std::cmp::Ordering;
use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_value::decimal::Small;
use keel_value::key::KeyPart;
use keel_value::row::Layout;
use keel_value::types::Class;
use keel_value::{Cell, Decimal, SqlType, Value, ValueRef, collation};
use smallvec::SmallVec;

use super::{AggregateCall, AggregateKind};
use crate::expr::{ColumnRef, Comparison, EvalContext, Expr, Frame, Node, RowSlot, compare};
use crate::func::{self, json};
use crate::select::{RowPacker, encode_key_part, result_layout, stored_type};
use crate::session::{OfSession, Session};
use crate::sort::{Distinct, Sorter};

/// What an aggregate knows of the rows so far.
#[derive(Debug)]
pub struct State {
    /// Values seen by an aggregate over DISTINCT, as encoded keys. Rows that cannot be told yet are set aside: of
    /// GROUP_CONCAT `[length u32][sort key][text]`, of others the arguments in the layout of [`layout_aside`].
    seen: Option<Box<Distinct>>,
    /// Bytes held outside of this struct.
    held_bytes: usize,
    sum: Sum,
}

#[derive(Debug)]
enum Sum {
    Count(i64),
    /// Integers, exactly.
    Whole {
        total: i128,
        count: i64,
    },
    /// Decimals, exactly: `digits / 10^scale` as long as that is enough.
    Fixed {
        digits: i128,
        scale: u8,
        count: i64,
    },
    Exact {
        total: Decimal,
        count: i64,
    },
    Real {
        total: f64,
        count: i64,
    },
    /// The best so far.
    Best(Option<Value>),
    Bits(u64),
    /// Count, mean and sum of squared distances (Welford).
    Spread {
        count: i64,
        mean: f64,
        squares: f64,
    },
    Text(Box<Texts>),
}

/// What GROUP_CONCAT, JSON_ARRAYAGG and JSON_OBJECTAGG join.
#[derive(Default)]
struct Texts {
    /// What is joined already, where no order is asked for.
    joined: Vec<u8>,
    /// Sort key and text of each row, where one is.
    parts: Vec<(Vec<u8>, Vec<u8>)>,
    parts_bytes: usize,
    /// What was left when rows were last dropped.
    parts_bytes_kept: usize,
    /// Rows that were given a place by their sort keys.
    ordered: u64,
    /// All rows with sort keys, once those that the result may need are too large for memory.
    sorter: Option<Sorter>,
    rows: u64,
    cut: Option<u64>,
}

impl Sum {
    /// No decimals.
    const FIXED: Sum = Sum::Fixed { digits: 0, scale: 0, count: 0 };

    /// Adds a number to the digits; false where they do not hold the sum.
    #[inline]
    fn add_small(&mut self, value: Small) -> bool {
        let Sum::Fixed { digits, scale, count } = self else { return false };
        if value.scale == *scale {
            match digits.checked_add(i128::from(value.digits)) {
                Some(sum) => *digits = sum,
                None => return false,
            }
        } else {
            let larger = value.scale.max(*scale);
            let factor = |from: u8| POW10.get(usize::from(larger - from)).copied();
            let sum = || {
                let own = digits.checked_mul(factor(*scale)?)?;
                own.checked_add(i128::from(value.digits).checked_mul(factor(value.scale)?)?)
            };
            let Some(sum) = sum() else { return false };
            (*digits, *scale) = (sum, larger);
        }
        *count += 1;
        true
    }

    /// Adds a number of any size to a sum of decimals.
    fn add_decimal(&mut self, value: &Decimal) -> SqlResult<()> {
        if let Some(small) = value.to_small()
            && self.add_small(small)
        {
            return Ok(());
        }
        let (total, count) = self.exact();
        let total = total.add(value).map_err(|_| errors::data_out_of_range("DECIMAL", "sum"))?;
        *self = Sum::Exact { total, count: count + 1 };
        Ok(())
    }

    /// A sum of decimals, and how many they are.
    fn exact(&self) -> (Decimal, i64) {
        match self {
            Sum::Fixed { digits, scale, count } => (Decimal::from_digits(*digits, *scale), *count),
            Sum::Exact { total, count } => (*total, *count),
            other => unreachable!("{other:?} is no sum of decimals"),
        }
    }
}

/// Powers of ten up to the largest scale of a [`Small`].
const POW10: [i128; 31] = {
    let mut table = [1; 31];
    let mut i = 1;
    while i < table.len() {
        table[i] = table[i - 1] * 10;
        i += 1;
    }
    table
};

impl State {
    /// The state before the first row.
    pub(crate) fn new(call: &AggregateCall, session: &Session) -> State {
        let sum = match call.kind {
            AggregateKind::CountStar | AggregateKind::Count => Sum::Count(0),
            AggregateKind::Sum | AggregateKind::Avg => match call.args[0].class() {
                Class::Int => Sum::Whole { total: 0, count: 0 },
                Class::Real | Class::String | Class::Null => Sum::Real { total: 0.0, count: 0 },
                _ => Sum::FIXED,
            },
            AggregateKind::Min | AggregateKind::Max | AggregateKind::AnyValue => Sum::Best(None),
            AggregateKind::BitAnd => Sum::Bits(u64::MAX),
            AggregateKind::BitOr | AggregateKind::BitXor => Sum::Bits(0),
            AggregateKind::StdPop
            | AggregateKind::StdSamp
            | AggregateKind::VarPop
            | AggregateKind::VarSamp => Sum::Spread { count: 0, mean: 0.0, squares: 0.0 },
            AggregateKind::GroupConcat | AggregateKind::JsonArray | AggregateKind::JsonObject => {
                Sum::Text(Box::default())
            }
        };
        let seen = call.distinct.then(|| Box::new(Distinct::new(session.vars.tmp_room(), session.work())));
        State { seen, held_bytes: 0, sum }
    }

    /// Takes the state out; an empty one stays.
    pub(crate) fn leave(&mut self) -> State {
        let empty = State { seen: None, held_bytes: 0, sum: Sum::Count(0) };
        std::mem::replace(self, empty)
    }

    /// Bytes held beside the struct itself.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes
    }

    /// Takes the current row.
    #[inline]
    pub fn add<'f>(&mut self, call: &'f AggregateCall, cx: &mut EvalContext<'_, 'f>) -> SqlResult<()> {
        if call.kind == AggregateKind::CountStar {
            if let Sum::Count(n) = &mut self.sum {
                *n += 1;
            }
            return Ok(());
        }
        if self.seen.is_some() && !self.is_new(call, cx)? {
            return Ok(());
        }
        self.take(call, &call.args, cx)
    }

    /// Takes the current row, whose argument is known; false where it does not fit and [`State::add`] must take it.
    #[inline]
    pub(crate) fn add_small(&mut self, value: Small) -> bool {
        self.sum.add_small(value)
    }

    /// Takes a row that counts; `args` are the arguments of `call`, or stand for them.
    fn take<'f>(
        &mut self,
        call: &'f AggregateCall,
        args: &'f [Expr],
        cx: &mut EvalContext<'_, 'f>,
    ) -> SqlResult<()> {
        match &mut self.sum {
            Sum::Whole { total, count } => match args[0].eval(cx)?.as_ref() {
                ValueRef::Null => {}
                ValueRef::Int(v) => {
                    *total += i128::from(v);
                    *count += 1;
                }
                ValueRef::UInt(v) => {
                    *total += i128::from(v);
                    *count += 1;
                }
                _ => {
                    if let Some(v) = args[0].integer(cx)? {
                        *total += v;
                        *count += 1;
                    }
                }
            },
            Sum::Count(n) => {
                for arg in args {
                    if arg.eval(cx)?.as_ref().is_null() {
                        return Ok(());
                    }
                }
                *n += 1;
            }
            sum @ (Sum::Fixed { .. } | Sum::Exact { .. }) => {
                if let Some(v) = args[0].decimal(cx)? {
                    // Of values that DISTINCT keeps one stands for all that are shown alike.
                    let v = if call.distinct { v.round(i32::from(args[0].ty.decimals)) } else { v };
                    sum.add_decimal(&v)?;
                }
            }
            Sum::Real { total, count } => {
                if let Some(v) = args[0].real(cx)? {
                    *total += v;
                    *count += 1;
                }
            }
            Sum::Best(best) => {
                let cell = args[0].eval(cx)?;
                let value = cell.as_ref();
                if value.is_null() || (best.is_some() && call.kind == AggregateKind::AnyValue) {
                    return Ok(());
                }
                let better = match best {
                    None => true,
                    Some(old) => {
                        let order = compare::values(
                            domain_of(&call.ty),
                            value,
                            &call.ty,
                            old.as_ref(),
                            &call.ty,
                            cx,
                        )?;
                        let wanted =
                            if call.kind == AggregateKind::Min { Ordering::Less } else { Ordering::Greater };
                        order == Some(wanted)
                    }
                };
                if better {
                    let held = |best: &Option<Value>| {
                        best.as_ref().and_then(|v| v.as_ref().as_bytes()).map_or(0, <[u8]>::len)
                    };
                    self.held_bytes -= held(best);
                    *best = Some(cell.into_value());
                    self.held_bytes += held(best);
                }
            }
            Sum::Bits(bits) => {
                if let Some(v) = func::bits(&args[0], cx)? {
                    match call.kind {
                        AggregateKind::BitAnd => *bits &= v,
                        AggregateKind::BitOr => *bits |= v,
                        _ => *bits ^= v,
                    }
                }
            }
            Sum::Spread { count, mean, squares } => {
                if let Some(v) = args[0].real(cx)? {
                    *count += 1;
                    let before = v - *mean;
                    *mean += before / *count as f64;
                    *squares += before * (v - *mean);
                }
            }
            Sum::Text(texts) => {
                if let Some((sort_key, text)) = concat_row(call, cx)? {
                    let before = texts.bytes();
                    texts.add(call, sort_key, text, cx.session())?;
                    self.held_bytes = self.held_bytes + texts.bytes() - before;
                }
            }
        }
        Ok(())
    }

    /// For DISTINCT: whether the row's arguments were not seen before; false also where one is NULL.
    fn is_new<'f>(&mut self, call: &'f AggregateCall, cx: &mut EvalContext<'_, 'f>) -> SqlResult<bool> {
        let seen = self.seen.as_mut().expect("asked for DISTINCT only");
        let before = seen.bytes();
        let mut record = Vec::new();
        if seen.is_full() {
            if call.kind.joins_texts() {
                let Some((sort_key, text)) = concat_row(call, cx)? else { return Ok(false) };
                record.extend_from_slice(&(sort_key.len() as u32).to_le_bytes());
                record.extend_from_slice(&sort_key);
                record.extend_from_slice(&text);
            } else {
                let mut cells: SmallVec<[Cell<'_>; 2]> = SmallVec::new();
                for arg in &call.args {
                    cells.push(arg.eval(cx)?);
                }
                RowPacker::new(layout_aside(call)).pack_cells(&cells, &mut record);
            }
        }
        let encode = |encoded: &mut Vec<u8>| {
            for (arg, part) in call.args.iter().zip(&call.parts) {
                let cell = arg.eval(cx)?;
                if cell.as_ref().is_null() && call.kind != AggregateKind::JsonArray {
                    return Ok(false);
                }
                encode_key_part(part, cell.as_ref(), encoded);
            }
            Ok(true)
        };
        let new = seen.is_new_by(encode, |out| out.extend_from_slice(&record))?;
        self.held_bytes = self.held_bytes + seen.bytes() - before;
        Ok(new)
    }

    /// Takes the rows that DISTINCT set aside: all rows have come.
    fn take_rest(&mut self, call: &AggregateCall, session: &mut Session) -> SqlResult<()> {
        let Some(seen) = self.seen.take().filter(|seen| seen.has_rest()) else { return Ok(()) };
        let layout = layout_aside(call);
        let stand_in = |(column, ty): (usize, &SqlType)| {
            let node = Node::Column(ColumnRef { slot: 0, column: column as u16, name: "".into() });
            Expr::new(node, stored_type(ty), true)
        };
        let args: Vec<Expr> = call.args.iter().map(|arg| &arg.ty).enumerate().map(stand_in).collect();
        seen.rest(&mut |row| {
            session.check_interrupt()?;
            if let Sum::Text(texts) = &mut self.sum {
                let (head, rest) = row.split_at(4);
                let length = u32::from_le_bytes(head.try_into().expect("four octets")) as usize;
                let (sort_key, text) = rest.split_at(length);
                texts.add(call, sort_key.to_vec(), text.to_vec(), session)?;
                return Ok(true);
            }
            let slots = [RowSlot::Stored { layout: layout.clone(), map: None, bytes: row.to_vec() }];
            let frame = Frame { slots: &slots, ..Frame::EMPTY };
            self.take(call, &args, &mut EvalContext::new(session, frame))?;
            Ok(true)
        })?;
        Ok(())
    }

    /// The result where MariaDB keeps groups in a temporary table: a deviation that overflows is no number there.
    pub fn finish_held(&mut self, call: &AggregateCall, session: &mut Session) -> SqlResult<Value> {
        let value = self.finish(call, session)?;
        let is_root = matches!(call.kind, AggregateKind::StdPop | AggregateKind::StdSamp);
        Ok(match &self.sum {
            Sum::Spread { count, squares, .. } if is_root && *count > 1 && !squares.is_finite() => {
                Value::Double(f64::INFINITY)
            }
            _ => value,
        })
    }

    /// The result.
    pub fn finish(&mut self, call: &AggregateCall, session: &mut Session) -> SqlResult<Value> {
        self.take_rest(call, session)?;
        Ok(match &mut self.sum {
            Sum::Count(n) => Value::Int(*n),
            Sum::Bits(bits) => Value::UInt(*bits),
            Sum::Best(best) => best.clone().unwrap_or(Value::Null),
            Sum::Whole { count: 0, .. }
            | Sum::Fixed { count: 0, .. }
            | Sum::Exact { count: 0, .. }
            | Sum::Real { count: 0, .. } => Value::Null,
            Sum::Whole { total, count } => {
                exact_result(call, Decimal::from_digits(*total, 0), *count, session)?
            }
            sum @ (Sum::Fixed { .. } | Sum::Exact { .. }) => {
                let (total, count) = sum.exact();
                exact_result(call, total, count, session)?
            }
            Sum::Real { total, count } => {
                Value::Double(if call.kind == AggregateKind::Avg { *total / *count as f64 } else { *total })
            }
            Sum::Spread { count, squares, .. } => spread(call.kind, *count, *squares),
            Sum::Text(texts) => texts.finish(call, session)?,
        })
    }
}

/// A sum or a mean with all digits that MariaDB computes: what is shown, stored or compared of it is rounded there.
fn exact_result(call: &AggregateCall, total: Decimal, count: i64, session: &Session) -> SqlResult<Value> {
    if call.kind != AggregateKind::Avg {
        return Ok(Value::Decimal(total));
    }
    let increment = session.vars.div_precision_increment;
    let mean = total
        .div(&Decimal::from_i64(count), increment)
        .map_err(|_| errors::data_out_of_range("DECIMAL", "avg"))?;
    Ok(mean.map_or(Value::Null, Value::Decimal))
}

fn spread(kind: AggregateKind, count: i64, squares: f64) -> Value {
    let (divisor, root) = match kind {
        AggregateKind::StdPop => (count, true),
        AggregateKind::VarPop => (count, false),
        AggregateKind::StdSamp => (count - 1, true),
        _ => (count - 1, false),
    };
    if divisor <= 0 {
        return Value::Null;
    }
    let variance = squares / divisor as f64;
    Value::Double(match root {
        true if variance.is_nan() => return Value::Null,
        // MariaDB shows the greatest number for a deviation that no number is.
        true if !variance.is_finite() => f64::MAX,
        true => variance.sqrt(),
        false => variance,
    })
}

/// The domain in which values of one type are ordered.
pub(crate) fn domain_of(ty: &SqlType) -> Comparison {
    match ty.class() {
        Class::Int => Comparison::Int,
        Class::Decimal => Comparison::Decimal,
        Class::Real => Comparison::Real,
        Class::Date => Comparison::Date,
        Class::Time => Comparison::Time,
        Class::DateTime => Comparison::DateTime,
        Class::Fixed(kind) => Comparison::Fixed(kind),
        Class::String | Class::Null => Comparison::Text(ty.collation),
    }
}

/// What a row takes beside its text and sort key.
const PART_BYTES: usize = size_of::<(Vec<u8>, Vec<u8>)>();
/// Rows are not dropped before they take this much.
const PARTS_BYTES_MIN: usize = 64 << 10;

/// A row's text; none where the row does not count, as an argument is NULL.
fn row_text<'f>(call: &'f AggregateCall, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Option<Vec<u8>>> {
    let mut text = Vec::new();
    match call.kind {
        AggregateKind::JsonArray => {
            json::append_value(&call.args[0], None, cx, &mut text)?;
        }
        AggregateKind::JsonObject => {
            if call.args[0].eval(cx)?.as_ref().is_null() {
                return Ok(None);
            }
            let to = json::charset_of_members(&call.args);
            json::append_key(&call.args[0], to, cx, &mut text)?;
            text.push(b':');
            json::append_value(&call.args[1], to, cx, &mut text)?;
        }
        _ => {
            for arg in &call.args {
                match arg.text(cx)? {
                    Some(part) => text.extend_from_slice(&part),
                    None => return Ok(None),
                }
            }
        }
    }
    Ok(Some(text))
}

/// The layout of arguments that DISTINCT sets aside.
fn layout_aside(call: &AggregateCall) -> &Arc<Layout> {
    call.aside.get_or_init(|| result_layout(call.args.iter().map(|arg| &arg.ty)))
}

/// A row's sort key and text; none where the row does not count.
fn concat_row<'f>(
    call: &'f AggregateCall,
    cx: &mut EvalContext<'_, 'f>,
) -> SqlResult<Option<(Vec<u8>, Vec<u8>)>> {
    let Some(text) = row_text(call, cx)? else { return Ok(None) };
    let mut sort_key = Vec::new();
    for (expr, descending) in &call.order {
        let cell = expr.eval(cx)?;
        let mut part = KeyPart::new(stored_type(&expr.ty), true);
        part.descending = *descending;
        encode_key_part(&part, cell.as_ref(), &mut sort_key);
    }
    Ok(Some((sort_key, text)))
}

impl Texts {
    /// Takes a row.
    fn add(
        &mut self,
        call: &AggregateCall,
        mut sort_key: Vec<u8>,
        text: Vec<u8>,
        session: &Session,
    ) -> SqlResult<()> {
        let max = max_len(call, session);
        session.hold_long((self.bytes() + text.len()).next_power_of_two() as u64)?;
        if call.order.is_empty() {
            self.join(call, &text, max);
            return Ok(());
        }
        // Of rows with equal keys the last one comes first, as in MariaDB's tree.
        sort_key.extend_from_slice(&(u64::MAX - self.ordered).to_be_bytes());
        self.ordered += 1;
        if let Some(sorter) = &mut self.sorter {
            return sorter.push_bytes(&sort_key, &text);
        }
        self.parts_bytes += sort_key.len() + text.len() + PART_BYTES;
        self.parts.push((sort_key, text));
        if self.parts_bytes
            <= self.parts_bytes_kept.saturating_add(max).saturating_mul(2).max(PARTS_BYTES_MIN)
        {
            return Ok(());
        }
        self.drop_unneeded(call, max);
        let most = usize::try_from(session.vars.tmp_memory_bytes).unwrap_or(usize::MAX);
        if self.parts_bytes <= most.max(max.saturating_mul(2)).max(PARTS_BYTES_MIN) {
            return Ok(());
        }
        let mut sorter = Sorter::new(None, session.vars.tmp_room(), session.work());
        for (sort_key, text) in self.parts.drain(..) {
            sorter.push_bytes(&sort_key, &text)?;
        }
        (self.parts_bytes, self.sorter) = (0, Some(sorter));
        Ok(())
    }

    /// Appends a row's text to the result if LIMIT and length admit it.
    fn join(&mut self, call: &AggregateCall, text: &[u8], max: usize) {
        let (skip, take) = call.limit.unwrap_or((0, u64::MAX));
        self.rows += 1;
        if self.rows <= skip || self.rows - skip > take || self.cut.is_some() {
            return;
        }
        if self.rows > skip + 1 {
            self.joined.extend_from_slice(&call.separator);
        }
        self.joined.extend_from_slice(text);
        // What is longer than `group_concat_max_len` is cut at a character's end.
        if self.joined.len() > max {
            // A string that is cut ends with its quote.
            let quoted = call.kind == AggregateKind::JsonArray && text.first() == Some(&b'"') && max > 0;
            self.joined.truncate(max - usize::from(quoted));
            if call.ty.is_text() {
                self.joined.truncate(collation::well_formed_len(call.ty.collation, &self.joined));
            }
            if quoted {
                self.joined.push(b'"');
            }
            self.cut = Some(self.rows);
        }
    }

    /// Bytes held.
    fn bytes(&self) -> usize {
        self.joined.len() + self.parts_bytes
    }

    /// Drops rows that the result cannot reach: it is cut before them, or its LIMIT ends before them.
    fn drop_unneeded(&mut self, call: &AggregateCall, max: usize) {
        self.parts.sort_by(|a, b| a.0.cmp(&b.0));
        let (skip, take) = call.limit.unwrap_or((0, u64::MAX));
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        let end = skip.saturating_add(usize::try_from(take).unwrap_or(usize::MAX));
        let mut length = 0;
        let mut kept = 0;
        for (number, (_, text)) in self.parts.iter().enumerate() {
            if number >= end || length > max {
                break;
            }
            kept += 1;
            length += if number < skip { 0 } else { text.len() + call.separator.len() };
        }
        // The separators count one too often: one row more.
        self.parts.truncate(kept + 1);
        self.parts_bytes = self.parts.iter().map(|(key, text)| key.len() + text.len() + PART_BYTES).sum();
        self.parts_bytes_kept = self.parts_bytes;
    }

    /// The result. All rows have come.
    fn finish(&mut self, call: &AggregateCall, session: &mut Session) -> SqlResult<Value> {
        let max = max_len(call, session);
        let mut parts = std::mem::take(&mut self.parts);
        parts.sort_by(|a, b| a.0.cmp(&b.0));
        parts.iter().for_each(|(_, text)| self.join(call, text, max));
        if let Some(sorter) = self.sorter.take() {
            let mut sorted = sorter.finish()?;
            while self.cut.is_none()
                && let Some((_, text)) = sorted.next_entry()?
            {
                session.check_interrupt()?;
                self.join(call, text, max);
            }
        }
        let joined = std::mem::take(&mut self.joined);
        let row = session.count_joined(std::ptr::from_ref(call).addr(), self.cut.unwrap_or(self.rows));
        if self.cut.is_some() {
            session.warn_or_fail(match call.kind {
                AggregateKind::JsonObject => errors::warn_allowed_packet_overflowed("json_objectagg", max),
                AggregateKind::JsonArray => errors::cut_value_group_concat(row, "JSON_ARRAYAGG"),
                _ => errors::cut_value_group_concat(row, "GROUP_CONCAT"),
            })?;
        }
        Ok(match call.kind {
            _ if self.rows == 0 => Value::Null,
            AggregateKind::JsonObject if self.cut.is_some() => Value::Null,
            AggregateKind::JsonObject => Value::Bytes([b"{", &joined[..], b"}"].concat().into()),
            AggregateKind::JsonArray => Value::Bytes([b"[", &joined[..], b"]"].concat().into()),
            _ => Value::Bytes(joined.into()),
        })
    }
}

fn max_len(call: &AggregateCall, session: &Session) -> usize {
    let max = match call.kind {
        AggregateKind::JsonObject => session.vars.max_allowed_packet,
        _ => session.vars.group_concat_max_len,
    };
    usize::try_from(max).unwrap_or(usize::MAX)
}

impl std::fmt::Debug for Texts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Texts({} rows, {} bytes)", self.rows, self.bytes())
    }
}
