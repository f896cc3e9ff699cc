//! Rows taken back out of a state, for frames that move.

use keel_base::{SqlResult, errors};
use keel_value::types::Class;

use super::{State, Sum};
use crate::aggregate::{AggregateCall, AggregateKind};
use crate::expr::EvalContext;

impl Sum {
    /// The same of no rows, of those that rows can be taken back from.
    fn empty(&self) -> Sum {
        match self {
            Sum::Whole { .. } => Sum::Whole { total: 0, count: 0 },
            Sum::Fixed { .. } | Sum::Exact { .. } => Sum::FIXED,
            Sum::Bits(_) => Sum::Bits(0),
            _ => Sum::Count(0),
        }
    }
}

impl State {
    /// Whether a row that was taken can be taken back: what is left is exactly what the other rows give.
    pub(crate) fn removes(call: &AggregateCall) -> bool {
        match call.kind {
            AggregateKind::CountStar | AggregateKind::Count | AggregateKind::BitXor => true,
            AggregateKind::Sum | AggregateKind::Avg => {
                !matches!(call.args[0].class(), Class::Real | Class::String | Class::Null)
            }
            _ => false,
        }
    }

    /// Takes the current row back, which was taken before; for calls that [`State::removes`] admits.
    pub(crate) fn remove<'f>(
        &mut self,
        call: &'f AggregateCall,
        cx: &mut EvalContext<'_, 'f>,
    ) -> SqlResult<()> {
        let mut row = State { seen: None, held_bytes: 0, sum: self.sum.empty() };
        row.add(call, cx)?;
        match (&mut self.sum, row.sum) {
            (Sum::Count(n), Sum::Count(one)) => *n -= one,
            (Sum::Whole { total, count }, Sum::Whole { total: value, count: one }) => {
                *total -= value;
                *count -= one;
            }
            (
                sum @ (Sum::Fixed { .. } | Sum::Exact { .. }),
                row @ (Sum::Fixed { .. } | Sum::Exact { .. }),
            ) => {
                let ((total, count), (value, one)) = (sum.exact(), row.exact());
                let total = total.sub(&value).map_err(|_| errors::data_out_of_range("DECIMAL", "sum"))?;
                *sum = Sum::Exact { total, count: count - one };
            }
            (Sum::Bits(bits), Sum::Bits(value)) => *bits ^= value,
            _ => unreachable!("only calls that remove"),
        }
        Ok(())
    }
}
