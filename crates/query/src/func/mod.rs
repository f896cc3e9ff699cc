//! Built-in functions: name, argument counts, type and code of each, in tables by subject.
//!
//! A [`Function`] is static; a call of one is [`Node::Call`](crate::expr::Node::Call) with its bound arguments. `typing`
//! runs once when the call is bound: it may convert arguments and gives type and nullability. `eval` runs per row and
//! gets the call's own type. Functions that MariaDB has and Keel has not are unknown names here, except for those listed
//! in [`KNOWN_MISSING`], which give 1235.

pub mod crypt;
pub mod datetime;
pub mod format;
pub mod info;
pub mod misc;
pub mod numeric;
pub mod pattern;
pub mod string;

use keel_base::SqlResult;
use keel_value::{SqlType, Value};

use crate::bind::BindContext;
use crate::expr::{EvalContext, Expr};

/// What a call's type is, and whether it may be NULL.
pub type Typing = fn(&BindContext<'_>, &mut [Expr]) -> SqlResult<(SqlType, bool)>;

/// Computes a call: its type, its arguments, the context.
pub type Eval = for<'f> fn(&'f SqlType, &'f [Expr], &mut EvalContext<'_, 'f>) -> SqlResult<Value>;

/// A built-in function.
pub struct Function {
    /// Its name in lower case.
    pub name: &'static str,
    /// Fewest arguments.
    pub min: usize,
    /// Most arguments.
    pub max: usize,
    /// Whether equal arguments give equal results within one statement, without effects.
    pub pure: bool,
    /// Type of a call.
    pub typing: Typing,
    /// Value of a call.
    pub eval: Eval,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}
