//! Exact arithmetic over the columns of a row, worked out together for several aggregates.
//!
//! A tape is a list of steps, each a number of few digits ([`Small`]) made of earlier ones. It is made once per execution,
//! where constants are known, so that equal parts of different expressions are one step: a column that five sums read is
//! decoded once for each row. A step without a result (NULL, too many digits) leaves its expression to [`Expr::eval`].

use keel_value::decimal::Small;
use keel_value::types::Class;
use keel_value::{TypeKind, Value};

use super::{ArithOp, Expr, Node, RowSlot};

/// Longer tapes are not made.
const STEPS_MAX: usize = 64;
/// Digits of columns that are worth a try.
const DIGITS_MAX: u32 = 18;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Constant(Small),
    Column { slot: u16, column: u16 },
    Add(u8, u8),
    Sub(u8, u8),
    Mul(u8, u8),
}

/// The steps and what they gave for the current row.
#[derive(Debug, Default)]
pub struct Tape {
    steps: Vec<Step>,
    values: Vec<Option<Small>>,
}

impl Tape {
    /// Adds the steps of an expression; gives the place of its result, or none where it is of another kind.
    pub fn push(&mut self, expr: &Expr, params: &[Value]) -> Option<u8> {
        let before = self.steps.len();
        let place = self.step(expr, params);
        if place.is_none() {
            self.steps.truncate(before);
        }
        self.values.resize(self.steps.len(), None);
        place
    }

    fn step(&mut self, expr: &Expr, params: &[Value]) -> Option<u8> {
        let step = match &expr.node {
            Node::Column(column) if has_few_digits(expr) => {
                Step::Column { slot: column.slot, column: column.column }
            }
            Node::Constant(value) => Step::Constant(Small::of(value.as_ref())?),
            Node::Param(index) => Step::Constant(Small::of(params.get(*index as usize)?.as_ref())?),
            // Whole numbers have bounds of their own.
            Node::Arith(op, left, right) if expr.class() == Class::Decimal => {
                let (left, right) = (self.step(left, params)?, self.step(right, params)?);
                match op {
                    ArithOp::Add => Step::Add(left, right),
                    ArithOp::Sub => Step::Sub(left, right),
                    ArithOp::Mul => Step::Mul(left, right),
                    _ => return None,
                }
            }
            _ => return None,
        };
        let place = self.steps.iter().position(|known| *known == step).unwrap_or_else(|| {
            self.steps.push(step);
            self.steps.len() - 1
        });
        (place < STEPS_MAX).then_some(place as u8)
    }

    /// Works all steps out for the current rows.
    #[inline]
    pub fn run(&mut self, slots: &[RowSlot]) {
        for place in 0..self.steps.len() {
            let of = |earlier: u8| self.values[earlier as usize];
            let both = |left, right, f: fn(Small, Small) -> Option<Small>| f(of(left)?, of(right)?);
            self.values[place] = match self.steps[place] {
                Step::Constant(value) => Some(value),
                Step::Column { slot, column } => slots[slot as usize].small(column),
                Step::Add(left, right) => both(left, right, Small::checked_add),
                Step::Sub(left, right) => both(left, right, Small::checked_sub),
                Step::Mul(left, right) => both(left, right, Small::checked_mul),
            };
        }
    }

    /// What the step at a place gave.
    #[inline]
    pub fn value(&self, place: u8) -> Option<Small> {
        self.values[place as usize]
    }
}

fn has_few_digits(column: &Expr) -> bool {
    let ty = &column.ty;
    ty.is_integer() || ty.kind == TypeKind::Decimal && ty.length <= DIGITS_MAX
}
