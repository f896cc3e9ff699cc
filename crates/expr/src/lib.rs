//! Bound expressions: typed trees over column slots, parameters and constants.
//!
//! The binder (crate `planner`) makes them from the tree of the statement; [`Expr::eval`] computes one over a
//! [`Frame`], i.e. the current row of each table, the statement's parameters and the rows of enclosing queries.
//!
//! 1. A column is `(slot, column)`: slot = the place of its table in the frame, column = its place in the table.
//! 2. An expression holds no value of a row: it can be shared by all executions of a plan, at the same time.
//! 3. What does not depend on a row is computed once per execution ([`Node::Once`]), conversions included, so that a
//!    predicate compares values of one class without converting per row.
//! 4. Evaluation never parks, except through subqueries, SLEEP and the lock functions.
//!
//! Types, nullability and coercibility follow MariaDB 10.11 (checked by goldens in the tests of `database`).

#![forbid(unsafe_code)]

pub mod arith;
pub mod cast;
pub mod compare;
pub mod env;
pub mod eval;
pub mod files;
pub mod frame;
pub mod func;
mod generated;
pub mod one_of;
pub mod print;
pub mod rights;
pub mod routine;
mod tape;
pub mod typing;
pub mod walk;

pub use env::{Env, Executor, FileRules, Server};
pub use frame::{EvalContext, Frame, RowSlot};
pub use routine::Routine;
pub use tape::Tape;

use std::sync::Arc;

use keel_sql::ast::{BinaryOp, IntervalUnit, VarScope};
use keel_value::types::Format;
use keel_value::{CollationId, FixedKind, SqlType, Value};

use crate::func::Function;

/// How strongly an expression's collation binds, as COERCIBILITY() says: the lower number wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Derivation {
    /// A COLLATE clause.
    Explicit = 0,
    /// Two collations that do not agree.
    None = 1,
    /// A column.
    Implicit = 2,
    /// What is made from a system constant: USER(), DATABASE().
    System = 3,
    /// A literal.
    Coercible = 4,
    /// A number or date as text.
    Numeric = 5,
    /// NULL.
    Ignorable = 6,
}

/// A bound expression.
#[derive(Debug, Clone)]
pub struct Expr {
    /// What it computes.
    pub node: Node,
    /// The type of its values.
    pub ty: SqlType,
    /// Whether it may be NULL.
    pub nullable: bool,
    /// How strongly its collation binds.
    pub derivation: Derivation,
}

/// The slot of a merged view, which is none.
pub const NO_SLOT: u16 = u16::MAX;

/// The slot of a table of an enclosing query, as far as anyone asks.
pub const OUTSIDE: u16 = NO_SLOT - 1;

/// A column of the current row of one table.
#[derive(Debug, Clone)]
pub struct ColumnRef {
    /// Place of its table in the frame.
    pub slot: u16,
    /// Place of the column in its table.
    pub column: u16,
    /// "`db`.`table`.`column`", for messages.
    pub name: Arc<str>,
}

/// How two operands are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// As integers, signed or not.
    Int,
    /// As decimals.
    Decimal,
    /// As doubles.
    Real,
    /// As text of a collation (`binary` for octets).
    Text(CollationId),
    /// As dates with time.
    DateTime,
    /// As dates.
    Date,
    /// As times.
    Time,
    /// As addresses or UUIDs; what is none is NULL.
    Fixed(FixedKind),
}

/// Comparison operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum CompareOp {
    Eq,
    NullSafeEq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// Arithmetic operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ArithOp {
    Add,
    Sub,
    Mul,
    Div,
    IntDiv,
    Mod,
}

/// Operators over 64 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum BitOp {
    Or,
    And,
    Xor,
    ShiftLeft,
    ShiftRight,
}

/// What IS asks of a truth value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TruthTest {
    True,
    False,
    Unknown,
}

/// What an expression computes.
#[derive(Debug, Clone)]
pub enum Node {
    /// A value known when the statement was bound.
    Constant(Value),
    /// The n-th parameter of the execution.
    Param(u32),
    /// A column of the current row.
    Column(ColumnRef),
    /// A column of an enclosing query's current row, `level` queries outwards (1 = the next).
    Outer {
        /// How many queries outwards.
        level: u16,
        /// Which column there.
        column: ColumnRef,
    },
    /// An expression of an enclosing query, computed over that query's frame.
    Above {
        /// How many queries outwards.
        level: u16,
        /// The expression as it stands there.
        expr: Box<Expr>,
    },
    /// Does not depend on rows: computed once per execution and kept under this number.
    Once(u32, Box<Expr>),
    /// Comparison of two scalars.
    Compare {
        /// Which.
        op: CompareOp,
        /// In which domain.
        by: Comparison,
        /// Left operand.
        left: Box<Expr>,
        /// Right operand.
        right: Box<Expr>,
    },
    /// All are true; flattened, at least two.
    And(Vec<Expr>),
    /// Any is true; flattened, at least two.
    Or(Vec<Expr>),
    /// One of two is true.
    Xor(Box<Expr>, Box<Expr>),
    /// Truth reversed.
    Not(Box<Expr>),
    /// `value [NOT] BETWEEN low AND high`.
    Between {
        /// NOT.
        negated: bool,
        /// In which domain.
        by: Comparison,
        /// The operand.
        value: Box<Expr>,
        /// Lower bound.
        low: Box<Expr>,
        /// Upper bound.
        high: Box<Expr>,
    },
    /// `value [NOT] IN (list)`; every element compares in the same domain.
    In {
        /// NOT.
        negated: bool,
        /// In which domain.
        by: Comparison,
        /// The operand.
        value: Box<Expr>,
        /// The elements.
        list: Vec<Expr>,
        /// All elements are constant for the execution: sorted once and kept under this number.
        sorted: Option<u32>,
    },
    /// A long list of rows: its OR of equalities with constants, which are sorted once and kept under this number.
    OneOf(Box<Expr>, u32),
    /// `value IS [NOT] NULL`.
    IsNull {
        /// IS NOT.
        negated: bool,
        /// The operand.
        value: Box<Expr>,
    },
    /// `value IS [NOT] TRUE | FALSE | UNKNOWN`.
    IsTruth {
        /// IS NOT.
        negated: bool,
        /// What is asked.
        test: TruthTest,
        /// The operand.
        value: Box<Expr>,
    },
    /// Arithmetic in the domain of the expression's own type.
    Arith(ArithOp, Box<Expr>, Box<Expr>),
    /// Minus.
    Negate(Box<Expr>),
    /// Operators over bits.
    Bits(BitOp, Box<Expr>, Box<Expr>),
    /// `~`.
    BitNot(Box<Expr>),
    /// CASE without operand, IF and NULLIF: the first true condition's value.
    Case {
        /// Conditions and values.
        whens: Vec<(Expr, Expr)>,
        /// ELSE; NULL where absent.
        otherwise: Option<Box<Expr>>,
    },
    /// The first that is not NULL.
    Coalesce(Vec<Expr>),
    /// `value [NOT] LIKE pattern`.
    Like {
        /// NOT.
        negated: bool,
        /// Collation that compares.
        collation: CollationId,
        /// The operand.
        value: Box<Expr>,
        /// The pattern.
        pattern: Box<Expr>,
        /// The escape character; none = patterns have no escape.
        escape: Option<char>,
    },
    /// A function of [`crate::func`].
    Call(&'static Function, Box<[Expr]>),
    /// A conversion to the expression's own type, as CAST does it.
    Cast(Box<Expr>),
    /// A conversion to the expression's own type that binding added; as CAST, without its warnings' wording.
    Convert(Box<Expr>),
    /// A generated column that rows do not hold: what it is worked out from, kept as that column would keep it.
    Generated(Box<Expr>, ColumnRef),
    /// DEFAULT(column) where that is an expression, with the column's name.
    Default(Box<Expr>, Arc<str>),
    /// The same bytes under another collation.
    Collate(Box<Expr>),
    /// DATE_ADD and DATE_SUB.
    DateArith {
        /// The date.
        date: Box<Expr>,
        /// How many.
        amount: Box<Expr>,
        /// Of what.
        unit: IntervalUnit,
        /// Minus.
        subtract: bool,
    },
    /// A user variable; whether the statement assigns it, so that it changes from row to row.
    UserVar(Arc<str>, bool),
    /// `@name := value`.
    AssignUserVar(Arc<str>, Box<Expr>),
    /// A system variable.
    SysVar(VarScope, Arc<str>),
    /// A subquery, or a call of a sequence.
    Routine(Box<dyn Routine>),
    /// A row of values: only as operand of a comparison that binding has taken apart, or of a subquery's test.
    Row(Vec<Expr>),
    /// The n-th aggregate of the query: replaced by a column of the grouped row before anything runs.
    Aggregate(u32),
    /// The n-th window function of the query: replaced by a column of the windows' results before anything runs.
    Window(u32),
}

impl Expr {
    /// An expression of a type.
    pub fn new(node: Node, ty: SqlType, nullable: bool) -> Expr {
        let derivation =
            if ty.is_string() || ty.has_members() { Derivation::Coercible } else { Derivation::Numeric };
        Expr { node, ty, nullable, derivation }
    }

    /// A constant of a type.
    pub fn constant(value: Value, ty: SqlType) -> Expr {
        let nullable = value.is_null();
        let derivation = if nullable {
            Derivation::Ignorable
        } else if ty.is_string() {
            Derivation::Coercible
        } else {
            Derivation::Numeric
        };
        Expr { node: Node::Constant(value), ty, nullable, derivation }
    }

    /// The literal NULL.
    pub fn null() -> Expr {
        Expr::constant(Value::Null, SqlType::null())
    }

    /// A truth value: INT(1) 0 or 1.
    pub fn boolean(node: Node, nullable: bool) -> Expr {
        Expr { node, ty: boolean_type(), nullable, derivation: Derivation::Numeric }
    }

    /// The column this is, if it is nothing else.
    pub fn as_column(&self) -> Option<&ColumnRef> {
        match &self.node {
            Node::Column(column) => Some(column),
            _ => None,
        }
    }

    /// The column of a table that this is, whether rows hold it or it is worked out.
    pub fn as_any_column(&self) -> Option<&ColumnRef> {
        match &self.node {
            Node::Column(column) | Node::Generated(_, column) => Some(column),
            _ => None,
        }
    }

    /// Whether it has one value for the whole execution: reads no row of this or an enclosing query and has no effects.
    pub fn is_constant(&self) -> bool {
        match &self.node {
            Node::Constant(_) | Node::Param(_) | Node::Once(..) => true,
            _ => walk::facts(self).is_constant(),
        }
    }
}

/// INT(1), as comparisons have.
pub fn boolean_type() -> SqlType {
    SqlType::int().with_length(1).with_format(Format::Boolean)
}

impl CompareOp {
    /// The operator with its operands exchanged.
    pub fn swapped(self) -> CompareOp {
        match self {
            CompareOp::Lt => CompareOp::Gt,
            CompareOp::Le => CompareOp::Ge,
            CompareOp::Gt => CompareOp::Lt,
            CompareOp::Ge => CompareOp::Le,
            other => other,
        }
    }

    /// The operator that is true where this is false; none for `<=>`.
    pub fn negated(self) -> Option<CompareOp> {
        Some(match self {
            CompareOp::Eq => CompareOp::Ne,
            CompareOp::Ne => CompareOp::Eq,
            CompareOp::Lt => CompareOp::Ge,
            CompareOp::Ge => CompareOp::Lt,
            CompareOp::Gt => CompareOp::Le,
            CompareOp::Le => CompareOp::Gt,
            CompareOp::NullSafeEq => return None,
        })
    }

    /// From the statement's operator.
    pub fn of(op: BinaryOp) -> Option<CompareOp> {
        Some(match op {
            BinaryOp::Eq => CompareOp::Eq,
            BinaryOp::NullSafeEq => CompareOp::NullSafeEq,
            BinaryOp::Ne => CompareOp::Ne,
            BinaryOp::Lt => CompareOp::Lt,
            BinaryOp::Le => CompareOp::Le,
            BinaryOp::Gt => CompareOp::Gt,
            BinaryOp::Ge => CompareOp::Ge,
            _ => return None,
        })
    }

    /// As written.
    pub fn symbol(self) -> &'static str {
        match self {
            CompareOp::Eq => "=",
            CompareOp::NullSafeEq => "<=>",
            CompareOp::Ne => "<>",
            CompareOp::Lt => "<",
            CompareOp::Le => "<=",
            CompareOp::Gt => ">",
            CompareOp::Ge => ">=",
        }
    }

    /// Whether an ordering fulfils it.
    #[inline]
    pub fn holds(self, ordering: std::cmp::Ordering) -> bool {
        match self {
            CompareOp::Eq | CompareOp::NullSafeEq => ordering.is_eq(),
            CompareOp::Ne => ordering.is_ne(),
            CompareOp::Lt => ordering.is_lt(),
            CompareOp::Le => ordering.is_le(),
            CompareOp::Gt => ordering.is_gt(),
            CompareOp::Ge => ordering.is_ge(),
        }
    }
}

impl BitOp {
    /// As written.
    pub fn symbol(self) -> &'static str {
        match self {
            BitOp::Or => "|",
            BitOp::And => "&",
            BitOp::Xor => "^",
            BitOp::ShiftLeft => "<<",
            BitOp::ShiftRight => ">>",
        }
    }
}

impl ArithOp {
    /// As MariaDB prints it in messages.
    pub fn symbol(self) -> &'static str {
        match self {
            ArithOp::Add => "+",
            ArithOp::Sub => "-",
            ArithOp::Mul => "*",
            ArithOp::Div => "/",
            ArithOp::IntDiv => "DIV",
            ArithOp::Mod => "MOD",
        }
    }
}
