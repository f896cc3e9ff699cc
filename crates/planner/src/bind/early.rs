//! Bounds of BETWEEN that are converted before a statement runs.
//!
//! MariaDB's optimizer converts the constant bounds of a column with an index to look for ranges. It does so before a statement that
//! changes rows begins to refuse what is wrong, so that a bound that is no date is only warned of.

use keel_base::SqlResult;
use keel_exec::session::OfSession;
use keel_expr::func::{Function, function};
use keel_expr::{Comparison, EvalContext, Expr, Node};
use keel_value::Value;

use super::Binder;

/// Gives its argument; what is wrong with it is not an error. It has no name in SQL, and is not printed.
pub(crate) static CONVERTED_EARLY: Function = function!(
    "converted_early",
    1,
    1,
    |_, args| Ok((args[0].ty.clone(), args[0].nullable)),
    |_, args, cx| { converted(&args[0], cx) }
);

fn converted<'f>(bound: &'f Expr, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Value> {
    let aborts = std::mem::replace(&mut cx.session().abort_on_warning, false);
    let value = bound.eval(cx).map(|cell| cell.into_value());
    cx.session().abort_on_warning = aborts;
    value
}

impl Binder<'_> {
    /// Marks the constant bounds of dates and times with an index in a condition.
    pub(super) fn convert_bounds_early(&self, condition: &mut Expr) {
        match &mut condition.node {
            Node::And(parts) | Node::Or(parts) => {
                parts.iter_mut().for_each(|part| self.convert_bounds_early(part));
            }
            Node::Not(inner) => self.convert_bounds_early(inner),
            Node::Between {
                by: Comparison::Date | Comparison::DateTime | Comparison::Time,
                value,
                low,
                high,
                ..
            } if self.has_index(value) => {
                for bound in [low, high] {
                    if matches!(bound.node, Node::Convert(_)) && bound.is_constant() {
                        let inner = std::mem::replace(&mut **bound, Expr::null());
                        let (ty, nullable, derivation) = (inner.ty.clone(), inner.nullable, inner.derivation);
                        let node = Node::Call(&CONVERTED_EARLY, Box::new([inner]));
                        **bound = Expr { node, ty, nullable, derivation };
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether an expression is a column that is part of an index.
    fn has_index(&self, expr: &Expr) -> bool {
        let Some(column) = expr.as_column() else { return false };
        let table = self.scope().tables.iter().find(|table| table.slot == column.slot);
        let Some(def) = table.and_then(|table| table.def.as_ref()) else { return false };
        let mut indexes = def.indexes.iter().filter(|index| !index.options.ignored);
        indexes.any(|index| index.parts.iter().any(|part| part.column == usize::from(column.column)))
    }
}
