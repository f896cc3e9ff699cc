//! Long lists of rows: `(a, b) IN ((1, 2), (3, 4), …)`.
//!
//! Bound, such a list is an OR of equalities, from which access paths are taken as from any other. To ask a row it is
//! sorted once for an execution and searched. Rows of the list that compare otherwise than the first one (in another
//! domain, after another conversion) are asked one by one.

use std::cmp::Ordering;

use keel_base::SqlResult;
use keel_storage::runtime::fiber;
use keel_value::{Cell, SqlType, Value};
use smallvec::SmallVec;

use super::compare::{self, canonical_type, in_domain, list_element};
use super::frame::Kept;
use super::{CompareOp, Comparison, EvalContext, Expr, Node, walk};

/// A list of rows as an execution keeps it.
#[derive(Debug, Default)]
pub struct ListRows {
    /// The types that values of each column have once converted to its domain.
    types: Vec<SqlType>,
    /// Those that compare as the first one does and have no NULL, sorted.
    sorted: Vec<Box<[Value]>>,
    /// The places of those that compare so and have a NULL: no row equals them.
    with_null: Vec<u32>,
    /// The places of all others.
    others: Vec<u32>,
}

/// `left = right` in a domain.
type Equality<'f> = (Comparison, &'f Expr, &'f Expr);
type Equalities<'f> = SmallVec<[Equality<'f>; 4]>;

/// The equalities that an alternative asks for all at once; none where it asks for anything else.
fn equalities(alternative: &Expr) -> Equalities<'_> {
    let parts = match &alternative.node {
        Node::And(parts) => &parts[..],
        _ => std::slice::from_ref(alternative),
    };
    parts.iter().map(equality).collect::<Option<_>>().unwrap_or_default()
}

fn equality(condition: &Expr) -> Option<Equality<'_>> {
    match &condition.node {
        Node::Compare { op: CompareOp::Eq, by, left, right } => Some((*by, left, right)),
        _ => None,
    }
}

/// Whether an OR can be kept as a list: what stands on the right in its alternatives is constant.
pub fn is_list(alternatives: &[Expr]) -> bool {
    alternatives.iter().all(|alternative| {
        let equalities = equalities(alternative);
        !equalities.is_empty() && equalities.iter().all(|(_, _, right)| right.is_constant())
    })
}

/// The truth of the list `any`, kept in `cell`. With `for_filter` NULL may be told as false.
pub fn truth<'f>(
    any: &'f Expr,
    cell: u32,
    for_filter: bool,
    cx: &mut EvalContext<'_, 'f>,
) -> SqlResult<Option<bool>> {
    let (Node::Or(alternatives), Some(kept)) = (&any.node, cx.frame.once.get(cell as usize)) else {
        return any.truth(cx);
    };
    if kept.get().is_none() {
        let rows = ListRows::of(alternatives, cx)?;
        let _ = kept.set(Kept::Rows(Box::new(rows)));
    }
    let Some(Kept::Rows(rows)) = kept.get() else { unreachable!("cell {cell} holds rows") };
    let mut unknown = false;
    match rows.find(&equalities(&alternatives[0]), for_filter, cx)? {
        Some(true) => return Ok(Some(true)),
        Some(false) => {}
        None => unknown = true,
    }
    let nulls = if for_filter { &[] } else { &rows.with_null[..] };
    for place in nulls.iter().chain(&rows.others) {
        match alternatives[*place as usize].truth(cx)? {
            Some(true) => return Ok(Some(true)),
            Some(false) => {}
            None => unknown = true,
        }
    }
    Ok(if unknown { None } else { Some(false) })
}

impl ListRows {
    fn of<'f>(alternatives: &'f [Expr], cx: &mut EvalContext<'_, 'f>) -> SqlResult<ListRows> {
        let first = equalities(&alternatives[0]);
        let types: Vec<SqlType> = first.iter().map(|(by, ..)| canonical_type(*by)).collect();
        let mut rows = ListRows::default();
        for (place, alternative) in alternatives.iter().enumerate() {
            fiber::tick();
            let own = equalities(alternative);
            let is_alike = own.len() == first.len()
                && own.iter().zip(&first).all(|(a, b)| a.0 == b.0 && walk::same(a.1, b.1));
            if !is_alike {
                rows.others.push(place as u32);
                continue;
            }
            let mut values = Vec::with_capacity(own.len());
            for (by, _, right) in own {
                let value = list_element(right, cx)?;
                values.push(in_domain(by, value.as_ref(), &right.ty, cx)?);
            }
            match values.iter().any(Value::is_null) {
                true => rows.with_null.push(place as u32),
                false => rows.sorted.push(values.into()),
            }
        }
        let mut problem = None;
        rows.sorted.sort_by(|a, b| {
            fiber::tick();
            for ((a, b), ((by, ..), ty)) in a.iter().zip(b).zip(first.iter().zip(&types)) {
                match compare::values(*by, a.as_ref(), ty, b.as_ref(), ty, cx) {
                    Ok(None | Some(Ordering::Equal)) => {}
                    Ok(Some(other)) => return other,
                    Err(error) => problem = Some(error),
                }
            }
            Ordering::Equal
        });
        match problem {
            Some(error) => Err(error),
            None => Ok(ListRows { types, ..rows }),
        }
    }

    /// Whether a sorted row equals the operands; None where that hangs on an operand that is NULL.
    fn find<'f>(
        &self,
        operands: &[Equality<'f>],
        for_filter: bool,
        cx: &mut EvalContext<'_, 'f>,
    ) -> SqlResult<Option<bool>> {
        let mut sides: SmallVec<[Side<'_, 'f>; 4]> = SmallVec::new();
        for ((by, left, _), own) in operands.iter().zip(&self.types) {
            let value = left.eval(cx)?;
            // Text becomes a number once, not once for each row it is compared with.
            let side = match (by, value.as_ref().as_bytes()) {
                (Comparison::Decimal | Comparison::Real, Some(_)) => {
                    let number = in_domain(*by, value.as_ref(), &left.ty, cx)?;
                    Side { by: *by, value: Cell::Owned(number), ty: own, own }
                }
                _ => Side { by: *by, value, ty: &left.ty, own },
            };
            sides.push(side);
        }
        if sides.iter().any(|side| side.value.as_ref().is_null()) {
            if for_filter {
                return Ok(Some(false));
            }
            for row in &self.sorted {
                if order(row, &sides, cx)?.is_none_or(Ordering::is_eq) {
                    return Ok(None);
                }
            }
            return Ok(Some(false));
        }
        let (mut from, mut to) = (0, self.sorted.len());
        while from < to {
            let middle = from + (to - from) / 2;
            match order(&self.sorted[middle], &sides, cx)? {
                Some(Ordering::Equal) => return Ok(Some(true)),
                Some(Ordering::Less) => from = middle + 1,
                Some(Ordering::Greater) => to = middle,
                None => return Ok(None),
            }
        }
        Ok(Some(false))
    }
}

/// One of the operands that rows are compared with.
struct Side<'r, 'f> {
    by: Comparison,
    value: Cell<'f>,
    ty: &'r SqlType,
    /// The type of the rows' values.
    own: &'r SqlType,
}

/// How a row of the list lies to the operands, over those that are not NULL; None where some pair cannot be compared.
fn order(row: &[Value], sides: &[Side<'_, '_>], cx: &mut EvalContext<'_, '_>) -> SqlResult<Option<Ordering>> {
    for (element, side) in row.iter().zip(sides) {
        let value = side.value.as_ref();
        if value.is_null() {
            continue;
        }
        match compare::values(side.by, element.as_ref(), side.own, value, side.ty, cx)? {
            Some(Ordering::Equal) => {}
            other => return Ok(other),
        }
    }
    Ok(Some(Ordering::Equal))
}
