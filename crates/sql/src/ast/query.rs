//! Queries: SELECT, VALUES, set operations, table references, windows.

use super::{ByteStr, ColumnDef, Expr, FileFormat, ObjectName, SourceText};

/// A query expression with what stands around its body.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// WITH.
    pub with: Option<With>,
    /// What produces the rows.
    pub body: QueryBody,
    /// ORDER BY of the whole.
    pub order_by: Vec<OrderItem>,
    /// LIMIT of the whole.
    pub limit: Option<Limit>,
    /// INTO.
    pub into: Option<SelectInto>,
    /// Where it stands.
    pub late_into: LateInto,
    /// FOR UPDATE, LOCK IN SHARE MODE.
    pub lock: Option<LockClause>,
}

impl Query {
    /// Whether nothing stands around its body.
    pub fn is_bare(&self) -> bool {
        self.with.is_none()
            && self.order_by.is_empty()
            && self.limit.is_none()
            && self.lock.is_none()
            && self.into.is_none()
    }

    /// Whether its text begins with the rows of VALUES.
    pub fn begins_with_values(&self) -> bool {
        let mut body = &self.body;
        while let QueryBody::SetOps { first, .. } = body {
            body = first;
        }
        self.with.is_none() && matches!(body, QueryBody::Values(..))
    }
}

/// Whether INTO stands behind more than the select list, which MariaDB warns of (1287); never makes two trees differ.
#[derive(Debug, Clone, Copy, Default)]
pub struct LateInto(pub bool);

impl PartialEq for LateInto {
    fn eq(&self, _: &LateInto) -> bool {
        true
    }
}

/// What produces a query's rows.
#[derive(Debug, Clone, PartialEq)]
pub enum QueryBody {
    /// SELECT.
    Select(Box<Select>),
    /// VALUES (1,2),(3,4): the rows, and the names that the first one gives to columns.
    Values(Vec<Vec<Expr>>, Vec<SourceText>),
    /// UNION, EXCEPT, INTERSECT, from the left to the right. INTERSECT binds tighter: it is a chain within a chain. Chains
    /// may be thousands of operands long.
    SetOps {
        /// The first operand.
        first: Box<QueryBody>,
        /// What is joined to it, at least one.
        rest: Vec<SetOperand>,
    },
    /// `(query)`, where the parentheses matter: it has its own ORDER BY, LIMIT, WITH or set operation.
    Nested(Box<Query>),
}

/// An operand of a chain of set operations but the first.
#[derive(Debug, Clone, PartialEq)]
pub struct SetOperand {
    /// What joins it to the rows of all before it.
    pub op: SetOp,
    /// ALL; else DISTINCT.
    pub all: bool,
    /// Its rows.
    pub body: QueryBody,
}

/// Set operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetOp {
    /// UNION
    Union,
    /// EXCEPT
    Except,
    /// INTERSECT
    Intersect,
}

/// `WITH [RECURSIVE]`.
#[derive(Debug, Clone, PartialEq)]
pub struct With {
    /// RECURSIVE.
    pub recursive: bool,
    /// The named queries.
    pub tables: Vec<CommonTable>,
}

/// One named query of WITH.
#[derive(Debug, Clone, PartialEq)]
pub struct CommonTable {
    /// Its name.
    pub name: String,
    /// Its columns' names, where given.
    pub columns: Vec<String>,
    /// Its rows.
    pub query: Box<Query>,
    /// CYCLE columns RESTRICT.
    pub cycle: Vec<String>,
}

/// One SELECT.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Select {
    /// The words after SELECT.
    pub options: SelectOptions,
    /// The select list, at least one.
    pub items: Vec<SelectItem>,
    /// FROM; empty without it and for DUAL.
    pub from: Vec<TableRef>,
    /// WHERE.
    pub filter: Option<Expr>,
    /// GROUP BY.
    pub group_by: Vec<OrderItem>,
    /// WITH ROLLUP.
    pub rollup: bool,
    /// HAVING.
    pub having: Option<Expr>,
    /// WINDOW name AS (...).
    pub windows: Vec<(String, WindowSpec)>,
}

/// The words after SELECT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SelectOptions {
    /// DISTINCT, DISTINCTROW.
    pub distinct: bool,
    /// ALL, said.
    pub all: bool,
    /// HIGH_PRIORITY.
    pub high_priority: bool,
    /// STRAIGHT_JOIN: tables join in the order written.
    pub straight_join: bool,
    /// SQL_SMALL_RESULT.
    pub small_result: bool,
    /// SQL_BIG_RESULT.
    pub big_result: bool,
    /// SQL_BUFFER_RESULT.
    pub buffer_result: bool,
    /// SQL_CACHE (true), SQL_NO_CACHE (false).
    pub cache: Option<bool>,
    /// SQL_CALC_FOUND_ROWS.
    pub calc_found_rows: bool,
}

/// One item of a select list.
#[derive(Debug, Clone, PartialEq)]
pub enum SelectItem {
    /// `*`, `t.*`, `db.t.*`.
    Wildcard {
        /// The database.
        db: Option<String>,
        /// The table.
        table: Option<String>,
    },
    /// An expression.
    Expr {
        /// The expression.
        expr: Expr,
        /// AS.
        alias: Option<String>,
        /// Its text in the statement, from which MariaDB makes the column's name.
        text: SourceText,
    },
}

/// One item of ORDER BY or GROUP BY.
#[derive(Debug, Clone, PartialEq)]
pub struct OrderItem {
    /// What is ordered by. A lone integer literal is a column's ordinal.
    pub expr: Expr,
    /// DESC.
    pub desc: bool,
}

/// LIMIT, OFFSET, FETCH.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// Rows at most: an integer literal or a parameter. None where only OFFSET or ROWS EXAMINED is said.
    pub count: Option<Expr>,
    /// Rows skipped.
    pub offset: Option<Expr>,
    /// ROWS EXAMINED.
    pub rows_examined: Option<Expr>,
    /// FETCH ... WITH TIES.
    pub with_ties: bool,
}

/// Where a SELECT's rows go instead of to the client.
#[derive(Debug, Clone, PartialEq)]
pub enum SelectInto {
    /// INTO @a, b.
    Variables(Vec<IntoTarget>),
    /// INTO DUMPFILE 'file'.
    Dumpfile(ByteStr),
    /// INTO OUTFILE 'file' ...
    Outfile {
        /// The file.
        file: ByteStr,
        /// CHARACTER SET.
        charset: Option<String>,
        /// FIELDS and LINES.
        format: FileFormat,
    },
}

/// A variable that INTO fills.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IntoTarget {
    /// `@a`
    UserVar(String),
    /// A local variable of a stored program.
    Local(String),
}

/// A locking read.
#[derive(Debug, Clone, PartialEq)]
pub struct LockClause {
    /// FOR UPDATE; else LOCK IN SHARE MODE.
    pub update: bool,
    /// NOWAIT, WAIT n, SKIP LOCKED.
    pub wait: Option<LockWait>,
}

/// How long a lock is waited for.
#[derive(Debug, Clone, PartialEq)]
pub enum LockWait {
    /// NOWAIT
    NoWait,
    /// WAIT n, seconds.
    Wait(u64),
    /// SKIP LOCKED
    SkipLocked,
}

/// What stands in FROM.
#[derive(Debug, Clone, PartialEq)]
pub enum TableRef {
    /// A table or view.
    Table {
        /// Its name.
        name: ObjectName,
        /// AS.
        alias: Option<String>,
        /// PARTITION (...).
        partitions: Vec<String>,
        /// USE, FORCE, IGNORE INDEX.
        hints: Vec<IndexHint>,
    },
    /// `(query) AS alias`.
    Derived {
        /// The query.
        query: Box<Query>,
        /// Its name; always there, since the grammar asks for one.
        alias: Option<String>,
    },
    /// JSON_TABLE.
    JsonTable(Box<JsonTable>),
    /// A join of two.
    Join {
        /// Which rows remain.
        kind: JoinKind,
        /// NATURAL: over all common columns.
        natural: bool,
        /// Left side.
        left: Box<TableRef>,
        /// Right side.
        right: Box<TableRef>,
        /// ON or USING.
        on: JoinCondition,
    },
}

/// `JSON_TABLE(document, path COLUMNS (...)) AS alias`.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonTable {
    /// The text whose parts become rows.
    pub document: Expr,
    /// What leads to each row.
    pub path: ByteStr,
    /// What is made of it.
    pub columns: Vec<JsonColumn>,
    /// Its name.
    pub alias: String,
}

/// A column of JSON_TABLE, or several of them below another path.
#[derive(Debug, Clone, PartialEq)]
pub enum JsonColumn {
    /// `name FOR ORDINALITY`.
    Ordinality(String),
    /// `name type PATH path`.
    Value {
        /// Its name and type.
        column: Box<ColumnDef>,
        /// What leads to its value.
        path: ByteStr,
        /// DEFAULT, NULL or ERROR ON EMPTY.
        on_empty: Option<JsonResponse>,
        /// DEFAULT, NULL or ERROR ON ERROR.
        on_error: Option<JsonResponse>,
    },
    /// `name type EXISTS PATH path`.
    Exists {
        /// Its name and type.
        column: Box<ColumnDef>,
        /// What is looked for.
        path: ByteStr,
    },
    /// `NESTED PATH path COLUMNS (...)`.
    Nested {
        /// What leads to each of its rows.
        path: ByteStr,
        /// Its columns.
        columns: Vec<JsonColumn>,
    },
}

/// What a column of JSON_TABLE holds where its path leads to no value that it can hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsonResponse {
    /// NULL.
    Null,
    /// ERROR: the statement fails.
    Error,
    /// DEFAULT: a text, or a number as it is written.
    Default {
        /// The text.
        text: ByteStr,
        /// Written as a number.
        number: bool,
    },
}

/// Kinds of joins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinKind {
    /// JOIN, INNER JOIN, CROSS JOIN, and the comma inside parentheses.
    Inner,
    /// STRAIGHT_JOIN: inner, and the left side is read first.
    Straight,
    /// LEFT JOIN.
    Left,
    /// RIGHT JOIN.
    Right,
}

/// What joined rows must fulfil.
#[derive(Debug, Clone, PartialEq)]
pub enum JoinCondition {
    /// Nothing.
    None,
    /// ON.
    On(Box<Expr>),
    /// USING (columns).
    Using(Vec<String>),
}

/// USE, FORCE or IGNORE INDEX.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexHint {
    /// Which of the three.
    pub kind: IndexHintKind,
    /// FOR JOIN, FOR ORDER BY, FOR GROUP BY; none is all.
    pub purpose: Option<IndexHintPurpose>,
    /// The indexes; `PRIMARY` as a name; empty for `USE INDEX ()`.
    pub indexes: Vec<String>,
}

/// Which index hint.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexHintKind {
    Use,
    Force,
    Ignore,
}

/// What an index hint is for.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexHintPurpose {
    Join,
    OrderBy,
    GroupBy,
}

/// OVER name, OVER (...), WINDOW name AS (...).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WindowSpec {
    /// `OVER name`, without parentheses: that window itself.
    pub is_name: bool,
    /// The window named, or the one it builds on.
    pub name: Option<String>,
    /// PARTITION BY.
    pub partition_by: Vec<Expr>,
    /// ORDER BY.
    pub order_by: Vec<OrderItem>,
    /// ROWS or RANGE.
    pub frame: Option<WindowFrame>,
}

/// The rows that a window function sees.
#[derive(Debug, Clone, PartialEq)]
pub struct WindowFrame {
    /// RANGE; else ROWS.
    pub range: bool,
    /// First.
    pub start: FrameBound,
    /// Last; the current row where not said.
    pub end: Option<FrameBound>,
    /// EXCLUDE.
    pub exclude: Option<FrameExclude>,
}

/// One end of a frame.
#[derive(Debug, Clone, PartialEq)]
pub enum FrameBound {
    /// UNBOUNDED PRECEDING
    UnboundedPreceding,
    /// n PRECEDING
    Preceding(Box<Expr>),
    /// CURRENT ROW
    CurrentRow,
    /// n FOLLOWING
    Following(Box<Expr>),
    /// UNBOUNDED FOLLOWING
    UnboundedFollowing,
}

/// Rows left out of a frame.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameExclude {
    NoOthers,
    CurrentRow,
    Group,
    Ties,
}
