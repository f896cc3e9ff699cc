//! Expressions.

use super::{ByteStr, OrderItem, Query, SourceText, WindowSpec};

/// An expression. `Box` where it nests.
#[derive(Debug, Clone, PartialEq)]
pub enum Expr {
    /// A number, string, NULL, TRUE, FALSE, ...
    Literal(Literal),
    /// NEXTVAL(), LASTVAL() or SETVAL() of a sequence.
    Sequence(Box<super::SequenceCall>),
    /// `?`, counted from 0 in order of appearance.
    Param(u32),
    /// `a`, `t.a`, `db.t.a`.
    Column(ColumnName),
    /// `@name`.
    UserVar(String),
    /// `@name := value`.
    AssignUserVar {
        /// The variable.
        name: String,
        /// Its new value.
        value: Box<Expr>,
    },
    /// `@@name`, `@@global.name`.
    SysVar(SysVar),
    /// `-a`, `NOT a`, ...
    Unary {
        /// The operator.
        op: UnaryOp,
        /// Its operand.
        expr: Box<Expr>,
    },
    /// `a + b`, `a AND b`, `a <= b`, ...
    Binary {
        /// The operator.
        op: BinaryOp,
        /// Left operand.
        left: Box<Expr>,
        /// Right operand.
        right: Box<Expr>,
    },
    /// `a IS [NOT] NULL | TRUE | FALSE | UNKNOWN`.
    Is {
        /// What is asked.
        test: IsTest,
        /// IS NOT.
        negated: bool,
        /// The operand.
        expr: Box<Expr>,
    },
    /// `a [NOT] BETWEEN low AND high`.
    Between {
        /// NOT BETWEEN.
        negated: bool,
        /// The operand.
        expr: Box<Expr>,
        /// Lower bound, included.
        low: Box<Expr>,
        /// Upper bound, included.
        high: Box<Expr>,
    },
    /// `a [NOT] IN (b, c)`.
    InList {
        /// NOT IN.
        negated: bool,
        /// The operand.
        expr: Box<Expr>,
        /// At least one.
        list: Vec<Expr>,
    },
    /// `a [NOT] IN (SELECT ...)`.
    InSubquery {
        /// NOT IN.
        negated: bool,
        /// The operand, a row where several columns are compared.
        expr: Box<Expr>,
        /// The subquery.
        query: Box<Query>,
    },
    /// `a > ALL (SELECT ...)`, `a = ANY (SELECT ...)`.
    Quantified {
        /// A comparison.
        op: BinaryOp,
        /// ALL; else ANY or SOME.
        all: bool,
        /// The operand.
        left: Box<Expr>,
        /// The subquery.
        query: Box<Query>,
    },
    /// `EXISTS (SELECT ...)`.
    Exists(Box<Query>),
    /// `(SELECT ...)` as a value or row.
    Subquery(Box<Query>),
    /// `a [NOT] LIKE pattern [ESCAPE c]`.
    Like {
        /// NOT LIKE.
        negated: bool,
        /// The operand.
        expr: Box<Expr>,
        /// The pattern.
        pattern: Box<Expr>,
        /// The escape character.
        escape: Option<Box<Expr>>,
    },
    /// `a [NOT] REGEXP pattern`.
    Regexp {
        /// NOT REGEXP.
        negated: bool,
        /// The operand.
        expr: Box<Expr>,
        /// The pattern.
        pattern: Box<Expr>,
    },
    /// `CASE [operand] WHEN a THEN b ... [ELSE c] END`.
    Case {
        /// Compared with each WHEN, where present.
        operand: Option<Box<Expr>>,
        /// WHEN and THEN.
        whens: Vec<(Expr, Expr)>,
        /// ELSE.
        otherwise: Option<Box<Expr>>,
    },
    /// `CAST(a AS type)`, `CONVERT(a, type)`, `BINARY a`.
    Cast {
        /// The operand.
        expr: Box<Expr>,
        /// The type.
        to: CastType,
    },
    /// `CONVERT(a USING charset)`.
    ConvertUsing {
        /// The operand.
        expr: Box<Expr>,
        /// Name of the character set.
        charset: String,
    },
    /// `a COLLATE collation`.
    Collate {
        /// The operand.
        expr: Box<Expr>,
        /// Name of the collation.
        collation: String,
    },
    /// `a + INTERVAL n unit`, `DATE_ADD(a, INTERVAL n unit)`, `DATE_SUB(...)`.
    DateArithmetic {
        /// The date.
        expr: Box<Expr>,
        /// How many units.
        amount: Box<Expr>,
        /// Of what.
        unit: IntervalUnit,
        /// Minus.
        subtract: bool,
    },
    /// A function call with plain arguments, aggregates and window functions included.
    Function(Box<FunctionCall>),
    /// `EXTRACT(unit FROM a)`.
    Extract {
        /// The unit.
        unit: IntervalUnit,
        /// The operand.
        expr: Box<Expr>,
    },
    /// `TRIM([BOTH|LEADING|TRAILING] [what] FROM a)`.
    Trim {
        /// Which ends.
        side: TrimSide,
        /// What is removed; a blank where absent.
        what: Option<Box<Expr>>,
        /// The operand.
        expr: Box<Expr>,
        /// TRIM_ORACLE: an empty text is NULL.
        oracle: bool,
    },
    /// `TIMESTAMPADD(unit, n, a)`.
    TimestampAdd {
        /// The unit.
        unit: IntervalUnit,
        /// How many.
        amount: Box<Expr>,
        /// The date.
        expr: Box<Expr>,
    },
    /// `TIMESTAMPDIFF(unit, a, b)`.
    TimestampDiff {
        /// The unit.
        unit: IntervalUnit,
        /// From.
        from: Box<Expr>,
        /// To.
        to: Box<Expr>,
    },
    /// `CHAR(n, ... [USING charset])`.
    Char {
        /// The codes.
        args: Vec<Expr>,
        /// USING.
        charset: Option<String>,
    },
    /// `MATCH (a, b) AGAINST (c mode)`.
    Match {
        /// The columns.
        columns: Vec<ColumnName>,
        /// The words.
        against: Box<Expr>,
        /// How they are read.
        mode: MatchMode,
    },
    /// `(a, b)` or `ROW(a, b)`; at least two.
    Row(Vec<Expr>),
    /// `DEFAULT` as a value (none), `DEFAULT(column)`.
    Default(Option<ColumnName>),
    /// `VALUES(column)` and `VALUE(column)` in ON DUPLICATE KEY UPDATE.
    Values(ColumnName),
    /// IGNORE as a value in INSERT and UPDATE lists (MariaDB: leave the column as it is).
    Ignore,
}

/// A literal and its place among the statement's literals; the place never makes two trees differ.
#[derive(Debug, Clone)]
pub struct Literal {
    /// What it says.
    pub value: LiteralValue,
    /// Order of appearance among the text's number and string tokens; none for NULL, TRUE and FALSE, which are not parameters.
    pub index: Option<u32>,
}

impl PartialEq for Literal {
    fn eq(&self, other: &Literal) -> bool {
        self.value == other.value
    }
}

/// What a literal says.
#[derive(Debug, Clone, PartialEq)]
pub enum LiteralValue {
    /// NULL.
    Null,
    /// TRUE and FALSE: the integers 1 and 0.
    Bool(bool),
    /// An integer up to 2^64-1; a longer one is a decimal.
    Int(u64),
    /// Digits as written, with or without a point: `1.50`, `.5`, `5.`.
    Decimal(String),
    /// With an exponent.
    Float(f64),
    /// A string.
    String {
        /// Its bytes, escapes resolved, adjacent strings joined.
        bytes: ByteStr,
        /// `_latin1` before it, without the underscore; `N'..'` says `utf8mb3`.
        charset: Option<String>,
    },
    /// `x'4D'`, `0x4D`.
    Hex {
        /// The bytes.
        bytes: ByteStr,
        /// `x'..'` is always a string; `0x..` is a number where a number is wanted.
        quoted: bool,
        /// An introducer before it.
        charset: Option<String>,
    },
    /// `b'01'`, `0b01`, as bytes, left padded with zero bits.
    Bit {
        /// The bytes.
        bytes: ByteStr,
        /// An introducer before it.
        charset: Option<String>,
    },
    /// `DATE '2024-01-02'`.
    Date(ByteStr),
    /// `TIME '10:11:12'`.
    Time(ByteStr),
    /// `TIMESTAMP '2024-01-02 10:11:12'`.
    Timestamp(ByteStr),
}

/// A column, as qualified as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnName {
    /// The database.
    pub db: Option<String>,
    /// The table or alias.
    pub table: Option<String>,
    /// The column.
    pub column: String,
}

/// A system variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SysVar {
    /// Which value of it.
    pub scope: VarScope,
    /// The part before the point: `hot_cache` of `hot_cache.key_buffer_size`.
    pub instance: Option<String>,
    /// The name.
    pub name: String,
}

/// Which value of a system variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VarScope {
    /// Not said: the session's value, or the global one where it has no other.
    Default,
    /// SESSION, LOCAL.
    Session,
    /// GLOBAL.
    Global,
}

/// Operators before their operand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnaryOp {
    /// `-`
    Minus,
    /// `~`
    BitNot,
    /// `NOT` and `!`
    Not,
}

/// Operators between two operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryOp {
    /// `OR`, `||`
    Or,
    /// `XOR`
    Xor,
    /// `AND`, `&&`
    And,
    /// `=`
    Eq,
    /// `<=>`
    NullSafeEq,
    /// `<>`, `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `|`
    BitOr,
    /// `&`
    BitAnd,
    /// `<<`
    ShiftLeft,
    /// `>>`
    ShiftRight,
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `DIV`
    IntDiv,
    /// `%`, `MOD`
    Mod,
    /// `^`
    BitXor,
    /// `||` under PIPES_AS_CONCAT
    Concat,
    /// `SOUNDS LIKE`
    SoundsLike,
}

/// What IS asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsTest {
    /// IS NULL
    Null,
    /// IS TRUE
    True,
    /// IS FALSE
    False,
    /// IS UNKNOWN
    Unknown,
}

/// Whether an argument of a call has a name, as those of loadable functions may: `f(a AS b)`. The binder refuses such calls, and the
/// printer leaves the names out; so it never makes two trees differ.
#[derive(Debug, Clone, Copy, Default)]
pub struct NamedArguments(pub bool);

impl PartialEq for NamedArguments {
    fn eq(&self, _: &NamedArguments) -> bool {
        true
    }
}

/// A function call.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionCall {
    /// `db.f()`.
    pub db: Option<String>,
    /// The name in lower case. The grammar's synonyms have one name: `now` (CURRENT_TIMESTAMP, LOCALTIME, LOCALTIMESTAMP), `curdate`,
    /// `curtime`, `substring` (SUBSTR, MID), `user` (SESSION_USER, SYSTEM_USER), `database` (SCHEMA), `locate` (POSITION), `std` (STDDEV,
    /// STDDEV_POP), `variance` (VAR_POP).
    pub name: String,
    /// The name as written.
    pub written: SourceText,
    /// A blank stands before the parenthesis, or a database before the name, of a name that MariaDB then takes for a stored
    /// function (error 1630): `COUNT (a)`, `d.COUNT(a)`.
    pub spaced: bool,
    /// The arguments.
    pub args: Vec<Expr>,
    /// Whether an argument has a name.
    pub named: NamedArguments,
    /// `COUNT(*)`.
    pub star: bool,
    /// `SUM(DISTINCT a)`.
    pub distinct: bool,
    /// GROUP_CONCAT and JSON_ARRAYAGG: ORDER BY inside; PERCENTILE_CONT: WITHIN GROUP.
    pub order_by: Vec<OrderItem>,
    /// GROUP_CONCAT's separator.
    pub separator: Option<ByteStr>,
    /// GROUP_CONCAT's LIMIT.
    pub limit: Option<super::Limit>,
    /// OVER: the call is a window function.
    pub over: Option<WindowSpec>,
}

/// Units of intervals.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntervalUnit {
    Microsecond,
    Second,
    Minute,
    Hour,
    Day,
    Week,
    Month,
    Quarter,
    Year,
    SecondMicrosecond,
    MinuteMicrosecond,
    MinuteSecond,
    HourMicrosecond,
    HourSecond,
    HourMinute,
    DayMicrosecond,
    DaySecond,
    DayMinute,
    DayHour,
    YearMonth,
}

/// Which ends TRIM works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrimSide {
    /// Both; the default.
    Both,
    /// The start.
    Leading,
    /// The end.
    Trailing,
}

/// How MATCH reads its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchMode {
    /// IN NATURAL LANGUAGE MODE, the default.
    Natural,
    /// WITH QUERY EXPANSION.
    Expansion,
    /// IN BOOLEAN MODE.
    Boolean,
}

/// What CAST makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CastType {
    /// `BINARY[(n)]`
    Binary(Option<u64>),
    /// `CHAR[(n)] [CHARACTER SET x]`
    Char {
        /// Characters kept.
        length: Option<u64>,
        /// CHARACTER SET.
        charset: Option<String>,
        /// COLLATE or the BINARY attribute's `_bin`.
        collation: Option<String>,
    },
    /// DATE
    Date,
    /// `TIME[(n)]`
    Time(u32),
    /// `DATETIME[(n)]`
    DateTime(u32),
    /// `DECIMAL[(m[,d])]`
    Decimal {
        /// Digits; 10 where not said.
        precision: u32,
        /// Digits after the point.
        scale: u32,
    },
    /// `DOUBLE[(m,d)]`
    Double(Option<(u32, u32)>),
    /// FLOAT
    Float,
    /// `SIGNED [INTEGER], INTEGER`
    Signed,
    /// `UNSIGNED [INTEGER]`
    Unsigned,
    /// INTERVAL DAY_SECOND(n)
    IntervalDaySecond(u32),
    /// A type that only a plugin knows: INET6, UUID.
    Other(String),
}
