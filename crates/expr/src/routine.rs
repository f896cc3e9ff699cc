//! Values that are not computed from operands alone: subqueries and calls of sequences.
//!
//! A [`Routine`] stands in an expression as [`Node::Routine`](super::Node::Routine). The code that defines it knows what
//! the [`Executor`](super::Executor) of its statement is; expressions know only what its value depends on.

use std::any::Any;
use std::fmt::Debug;

use keel_base::SqlResult;
use keel_value::Cell;

use super::print::Text;
use super::{EvalContext, Expr};

/// Computes a value by means that expressions do not have.
pub trait Routine: Any + Debug + Send + Sync {
    /// The value over the context's frame.
    fn eval<'f>(&'f self, cx: &mut EvalContext<'_, 'f>) -> SqlResult<Cell<'f>>;

    /// The expressions of the enclosing query that it is given.
    fn operands(&self) -> &[Expr] {
        &[]
    }

    /// The same, to change them.
    fn operands_mut(&mut self) -> &mut [Expr] {
        &mut []
    }

    /// Columns of enclosing queries that it reads: how many queries outwards as seen from within (1 = the query that it
    /// stands in), slot, column.
    fn reads(&self) -> &[(u16, u16, u16)] {
        &[]
    }

    /// Whether each evaluation may give another value.
    fn is_volatile(&self) -> bool;

    /// Whether it runs a query.
    fn is_query(&self) -> bool {
        false
    }

    /// Whether it asks the same as another routine, though each may get another value.
    fn asks_same(&self, _other: &dyn Routine) -> bool {
        false
    }

    /// Writes its text.
    fn print(&self, out: &mut Text<'_>);

    /// A copy.
    fn boxed(&self) -> Box<dyn Routine>;
}

impl Clone for Box<dyn Routine> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}

impl dyn Routine {
    /// The routine as what it is, if it is a `T`.
    pub fn downcast_ref<T: Routine>(&self) -> Option<&T> {
        (self as &dyn Any).downcast_ref()
    }

    /// The same, to change it.
    pub fn downcast_mut<T: Routine>(&mut self) -> Option<&mut T> {
        (self as &mut dyn Any).downcast_mut()
    }
}

/// What an execution of a plan keeps for a routine.
pub struct Memory(pub Box<dyn Any>);

impl Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Memory")
    }
}
