//! The text that a view is kept as: its query with whole names, and written as MariaDB writes it. What has several ways
//! to be said has one here: joins, negations, synonyms of functions.

use keel_sql::ast::{
    BinaryOp, CastType, ColumnName, CommonTable, Expr, FunctionCall, IntervalUnit, IsTest, JoinCondition,
    JoinKind, Limit, Literal, LiteralValue, ObjectName, OrderItem, Query, QueryBody, Select, SelectItem,
    TableRef, UnaryOp, WindowSpec, With,
};

use crate::bind::WholeNames;
use crate::select::item_name;

/// Rewrites the queries of one statement.
pub(super) struct Rewriter<'n> {
    pub names: &'n WholeNames,
    /// The character set of the connection, which a CAST to CHAR has.
    pub connection_charset: &'n str,
    /// Within a window.
    pub by_spelling: bool,
}

/// What stands around an expression.
#[derive(Clone, Copy, Default)]
struct Around<'q> {
    /// The select list whose aliases may be used.
    items: &'q [SelectItem],
    windows: &'q [(String, WindowSpec)],
}

fn int(value: u64) -> Expr {
    Expr::Literal(Literal { value: LiteralValue::Int(value), index: None })
}

fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    Expr::Binary { op, left: Box::new(left), right: Box::new(right) }
}

fn not(expr: Expr) -> Expr {
    Expr::Unary { op: UnaryOp::Not, expr: Box::new(expr) }
}

/// The comparison that holds where another does not.
fn opposite(op: BinaryOp) -> Option<BinaryOp> {
    Some(match op {
        BinaryOp::Eq => BinaryOp::Ne,
        BinaryOp::Ne => BinaryOp::Eq,
        BinaryOp::Lt => BinaryOp::Ge,
        BinaryOp::Ge => BinaryOp::Lt,
        BinaryOp::Gt => BinaryOp::Le,
        BinaryOp::Le => BinaryOp::Gt,
        _ => return None,
    })
}

/// Names of functions that have another one.
const SYNONYMS: &[(&str, &str)] = &[
    ("lower", "lcase"),
    ("upper", "ucase"),
    ("length", "octet_length"),
    ("character_length", "char_length"),
    ("power", "pow"),
    ("ceil", "ceiling"),
    ("day", "dayofmonth"),
    ("sha1", "sha"),
    ("nvl", "ifnull"),
];

impl Rewriter<'_> {
    /// A query whose columns have the given names; its own where none are given.
    pub fn query(&self, query: &Query, columns: Option<&[String]>) -> Query {
        self.rewrite(query, true, columns)
    }

    fn rewrite(&self, query: &Query, named: bool, columns: Option<&[String]>) -> Query {
        let around = match &query.body {
            QueryBody::Select(select) => Around { items: &select.items, windows: &select.windows },
            _ => Around::default(),
        };
        Query {
            with: query.with.as_ref().map(|with| self.with(with)),
            body: self.body(&query.body, named, columns),
            order_by: self.order(&query.order_by, around),
            limit: query.limit.as_ref().map(|limit| self.limit(limit, around)),
            into: None,
            lock: query.lock.clone(),
        }
    }

    fn with(&self, with: &With) -> With {
        let table = |table: &CommonTable| CommonTable {
            name: table.name.clone(),
            columns: table.columns.clone(),
            query: Box::new(self.rewrite(
                &table.query,
                true,
                Some(&table.columns).filter(|c| !c.is_empty()).map(Vec::as_slice),
            )),
            cycle: table.cycle.clone(),
        };
        With { recursive: with.recursive, tables: with.tables.iter().map(table).collect() }
    }

    fn body(&self, body: &QueryBody, named: bool, columns: Option<&[String]>) -> QueryBody {
        match body {
            QueryBody::Select(select) => QueryBody::Select(Box::new(self.select(select, named, columns))),
            QueryBody::Values(rows) => QueryBody::Values(
                rows.iter()
                    .map(|row| row.iter().map(|e| self.expr(e, Around::default())).collect())
                    .collect(),
            ),
            QueryBody::SetOp { op, all, left, right } => QueryBody::SetOp {
                op: *op,
                all: *all,
                left: Box::new(self.body(left, named, columns)),
                right: Box::new(self.body(right, named, None)),
            },
            QueryBody::Nested(query) => QueryBody::Nested(Box::new(self.rewrite(query, named, columns))),
        }
    }

    fn select(&self, select: &Select, named: bool, columns: Option<&[String]>) -> Select {
        let around = Around { items: &select.items, windows: &select.windows };
        let mut options = select.options;
        options.all = false;
        let condition = |e: &Option<Expr>| e.as_ref().map(|e| self.condition(e, around));
        Select {
            options,
            items: self.items(&select.items, around, named, columns),
            from: self.from(&select.from).into_iter().collect(),
            filter: condition(&select.filter),
            group_by: self.order(&select.group_by, around),
            rollup: select.rollup,
            having: condition(&select.having),
            windows: Vec::new(),
        }
    }

    /// The select list without `*`; each item with its name where `named` says so.
    fn items(
        &self,
        items: &[SelectItem],
        around: Around<'_>,
        named: bool,
        columns: Option<&[String]>,
    ) -> Vec<SelectItem> {
        let mut out: Vec<SelectItem> = Vec::with_capacity(items.len());
        let mut unchosen = Vec::new();
        for item in items {
            match item {
                SelectItem::Wildcard { .. } => {
                    for whole in self.names.wildcard(item) {
                        let name = named.then(|| whole.column.clone());
                        out.push(listed(Expr::Column(whole.clone()), name));
                    }
                }
                SelectItem::Expr { expr, alias, text } => {
                    let own = alias.clone().or_else(|| named.then(|| item_name(expr, text)));
                    if named && alias.is_none() && !matches!(expr, Expr::Column(_)) {
                        unchosen.push(out.len());
                    }
                    out.push(listed(self.expr(expr, around), own));
                }
            }
        }
        if !named {
            return out;
        }
        if columns.is_none() {
            unchosen.iter().for_each(|place| make_unique(&mut out, *place, &unchosen));
        }
        for (place, item) in out.iter_mut().enumerate() {
            let SelectItem::Expr { alias, .. } = item else { continue };
            let given = columns.and_then(|columns| columns.get(place));
            if let Some(given) = given {
                *alias = Some(given.clone());
            } else if alias.as_deref().is_some_and(is_unfit) {
                *alias = Some(format!("Name_exp_{}", place + 1));
            }
        }
        out
    }

    /// The names of a query's columns: those that nobody chose make way for others.
    pub fn column_names(query: &Query) -> Vec<String> {
        let mut body = &query.body;
        loop {
            body = match body {
                QueryBody::SetOp { left, .. } => left,
                QueryBody::Nested(query) => &query.body,
                QueryBody::Select(select) => {
                    let name = |item: &SelectItem| match item {
                        SelectItem::Expr { alias: Some(alias), .. } => alias.clone(),
                        _ => String::new(),
                    };
                    return select.items.iter().map(name).collect();
                }
                QueryBody::Values(_) => return Vec::new(),
            };
        }
    }

    /// FROM as one join.
    fn from(&self, tables: &[TableRef]) -> Option<TableRef> {
        let join = |left: TableRef, right: TableRef| TableRef::Join {
            kind: JoinKind::Inner,
            natural: false,
            left: Box::new(left),
            right: Box::new(right),
            on: JoinCondition::None,
        };
        tables.iter().map(|table| self.table(table)).reduce(join)
    }

    fn table(&self, table: &TableRef) -> TableRef {
        match table {
            TableRef::Table { name, alias, partitions, hints } => {
                let db = self.names.database(table).cloned().or_else(|| name.db.clone());
                TableRef::Table {
                    name: ObjectName { db, name: name.name.clone() },
                    alias: alias.clone(),
                    partitions: partitions.clone(),
                    hints: hints.clone(),
                }
            }
            TableRef::Derived { query, alias } => {
                TableRef::Derived { query: Box::new(self.rewrite(query, true, None)), alias: alias.clone() }
            }
            TableRef::Join { kind, left, right, on, .. } => {
                let pairs = self.names.join(table).iter().map(|(left, right)| {
                    binary(BinaryOp::Eq, Expr::Column(left.clone()), Expr::Column(right.clone()))
                });
                let condition = match on {
                    JoinCondition::On(condition) => Some(self.condition(condition, Around::default())),
                    _ => pairs.reduce(|all, next| binary(BinaryOp::And, all, next)),
                };
                let (mut left, mut right) = (self.table(left), self.table(right));
                let mut kind = *kind;
                if kind == JoinKind::Right {
                    std::mem::swap(&mut left, &mut right);
                    kind = JoinKind::Left;
                }
                TableRef::Join {
                    kind,
                    natural: false,
                    left: Box::new(left),
                    right: Box::new(right),
                    on: condition.map_or(JoinCondition::None, |c| JoinCondition::On(Box::new(c))),
                }
            }
        }
    }

    /// ORDER BY or GROUP BY: names of computed items are those items.
    fn order(&self, items: &[OrderItem], around: Around<'_>) -> Vec<OrderItem> {
        let key = |item: &OrderItem| {
            if let Expr::Column(name) = &item.expr
                && self.names.column(name).is_none()
                && let Some(meant) = aliased(around.items, name)
            {
                return OrderItem { expr: self.expr(meant, around), desc: item.desc };
            }
            OrderItem { expr: self.expr(&item.expr, around), desc: item.desc }
        };
        items.iter().map(key).collect()
    }

    fn limit(&self, limit: &Limit, around: Around<'_>) -> Limit {
        let number = |e: &Option<Expr>| e.as_ref().map(|e| self.expr(e, around));
        Limit {
            count: number(&limit.count),
            offset: number(&limit.offset),
            rows_examined: number(&limit.rows_examined),
            with_ties: limit.with_ties,
        }
    }

    /// Where only truth matters, a column is compared with 0.
    fn condition(&self, expr: &Expr, around: Around<'_>) -> Expr {
        let new = self.expr(expr, around);
        if matches!(expr, Expr::Column(_)) { binary(BinaryOp::Ne, new, int(0)) } else { new }
    }

    fn negated(&self, expr: &Expr, around: Around<'_>) -> Expr {
        let own = |e: &Expr| self.expr(e, around);
        match expr {
            Expr::Column(_) => binary(BinaryOp::Eq, own(expr), int(0)),
            Expr::Binary { op, left, right } if opposite(*op).is_some() => {
                binary(opposite(*op).unwrap_or(*op), own(left), own(right))
            }
            Expr::Binary { op: BinaryOp::And, left, right } => {
                binary(BinaryOp::Or, self.negated(left, around), self.negated(right, around))
            }
            Expr::Binary { op: BinaryOp::Or, left, right } => {
                binary(BinaryOp::And, self.negated(left, around), self.negated(right, around))
            }
            Expr::Binary { op: BinaryOp::Xor, left, right } => {
                binary(BinaryOp::Xor, self.negated(left, around), own(right))
            }
            Expr::Unary { op: UnaryOp::Not, expr } => self.condition(expr, around),
            Expr::Is { test: test @ (IsTest::Null | IsTest::Unknown), negated, expr } => {
                let _ = test;
                Expr::Is { test: IsTest::Null, negated: !negated, expr: Box::new(own(expr)) }
            }
            Expr::Quantified { op, all, left, query }
                if !matches!((op, all), (BinaryOp::Eq, false) | (BinaryOp::Ne, true)) =>
            {
                Expr::Quantified {
                    op: opposite(*op).unwrap_or(*op),
                    all: !all,
                    left: Box::new(own(left)),
                    query: Box::new(self.rewrite(query, false, None)),
                }
            }
            Expr::Between { .. } | Expr::InList { .. } | Expr::Like { .. } => turned(own(expr)),
            _ => match own(expr) {
                Expr::Unary { op: UnaryOp::Not, expr } => *expr,
                other => not(other),
            },
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm for each kind of expression")]
    fn expr(&self, expr: &Expr, around: Around<'_>) -> Expr {
        let own = |e: &Expr| self.expr(e, around);
        let boxed = |e: &Expr| Box::new(self.expr(e, around));
        let subquery = |query: &Query| Box::new(self.rewrite(query, false, None));
        match expr {
            Expr::Column(name) => {
                let spelled = || self.names.spelled(name).filter(|_| self.by_spelling);
                let whole = self.names.column(name).or_else(spelled);
                Expr::Column(whole.cloned().unwrap_or_else(|| name.clone()))
            }
            Expr::Unary { op: UnaryOp::Not, expr } => self.negated(expr, around),
            Expr::Unary { op: UnaryOp::Plus, expr } => own(expr),
            Expr::Unary { op, expr } => Expr::Unary { op: *op, expr: boxed(expr) },
            Expr::Binary { op: op @ (BinaryOp::And | BinaryOp::Or), left, right } => {
                binary(*op, self.condition(left, around), self.condition(right, around))
            }
            Expr::Binary { op: BinaryOp::Concat, left, right } => call("concat", vec![own(left), own(right)]),
            Expr::Binary { op: BinaryOp::SoundsLike, left, right } => {
                let sound = |e| call("soundex", vec![own(e)]);
                binary(BinaryOp::Eq, sound(left), sound(right))
            }
            Expr::Binary { op, left, right } => binary(*op, own(left), own(right)),
            Expr::Is { test, negated, expr } => {
                let test = if *test == IsTest::Unknown { IsTest::Null } else { *test };
                Expr::Is { test, negated: *negated, expr: boxed(expr) }
            }
            Expr::Between { negated, expr, low, high } => {
                Expr::Between { negated: *negated, expr: boxed(expr), low: boxed(low), high: boxed(high) }
            }
            Expr::InList { negated, expr, list } => match &list[..] {
                [only] if !matches!(only, Expr::Subquery(_)) => {
                    let op = if *negated { BinaryOp::Ne } else { BinaryOp::Eq };
                    binary(op, own(expr), own(only))
                }
                _ => Expr::InList {
                    negated: *negated,
                    expr: boxed(expr),
                    list: list.iter().map(own).collect(),
                },
            },
            Expr::InSubquery { negated, expr, query } => {
                let plain = Expr::InSubquery { negated: false, expr: boxed(expr), query: subquery(query) };
                if *negated { not(plain) } else { plain }
            }
            Expr::Quantified { op, all, left, query } => {
                let contains =
                    || Expr::InSubquery { negated: false, expr: boxed(left), query: subquery(query) };
                match (op, all) {
                    (BinaryOp::Eq, false) => contains(),
                    (BinaryOp::Ne, true) => not(contains()),
                    _ => Expr::Quantified { op: *op, all: *all, left: boxed(left), query: subquery(query) },
                }
            }
            Expr::Exists(query) => Expr::Exists(Box::new(self.existence(query))),
            Expr::Subquery(query) => Expr::Subquery(subquery(query)),
            Expr::Like { negated, expr, pattern, escape } => Expr::Like {
                negated: *negated,
                expr: boxed(expr),
                pattern: boxed(pattern),
                escape: escape.as_ref().map(|e| boxed(e)),
            },
            Expr::Regexp { negated, expr, pattern } => {
                let plain = Expr::Regexp { negated: false, expr: boxed(expr), pattern: boxed(pattern) };
                if *negated { not(plain) } else { plain }
            }
            Expr::Case { operand, whens, otherwise } => Expr::Case {
                operand: operand.as_ref().map(|e| boxed(e)),
                whens: whens.iter().map(|(when, then)| (own(when), own(then))).collect(),
                otherwise: otherwise.as_ref().map(|e| boxed(e)),
            },
            Expr::Cast { expr, to } => Expr::Cast { expr: boxed(expr), to: self.cast_type(to) },
            Expr::ConvertUsing { expr, charset } => {
                Expr::ConvertUsing { expr: boxed(expr), charset: charset.to_lowercase() }
            }
            Expr::Collate { expr, collation } => {
                Expr::Collate { expr: boxed(expr), collation: collation.to_lowercase() }
            }
            Expr::DateArithmetic { expr, amount, unit, subtract } => Expr::DateArithmetic {
                expr: boxed(expr),
                amount: boxed(amount),
                unit: *unit,
                subtract: *subtract,
            },
            Expr::Function(function) => self.call(function, around),
            Expr::Extract { unit, expr } => Expr::Extract { unit: *unit, expr: boxed(expr) },
            Expr::Trim { side, what, expr } => {
                Expr::Trim { side: *side, what: what.as_ref().map(|e| boxed(e)), expr: boxed(expr) }
            }
            Expr::TimestampAdd { unit, amount, expr } => Expr::DateArithmetic {
                expr: boxed(expr),
                amount: boxed(amount),
                unit: *unit,
                subtract: false,
            },
            Expr::TimestampDiff { unit, from, to } => {
                Expr::TimestampDiff { unit: *unit, from: boxed(from), to: boxed(to) }
            }
            Expr::Char { args, charset } => {
                Expr::Char { args: args.iter().map(own).collect(), charset: charset.clone() }
            }
            Expr::Row(items) => Expr::Row(items.iter().map(own).collect()),
            Expr::Default(Some(name)) => {
                Expr::Default(Some(self.names.column(name).cloned().unwrap_or_else(|| name.clone())))
            }
            Expr::Literal(_)
            | Expr::Param(_)
            | Expr::UserVar(_)
            | Expr::AssignUserVar { .. }
            | Expr::SysVar(_)
            | Expr::Match { .. }
            | Expr::Default(None)
            | Expr::Values(_)
            | Expr::Ignore => expr.clone(),
        }
    }

    /// A type of CAST with its character set.
    fn cast_type(&self, to: &CastType) -> CastType {
        match to {
            CastType::Char { length, charset: None, collation: None } => CastType::Char {
                length: *length,
                charset: Some(self.connection_charset.to_string()),
                collation: None,
            },
            CastType::Char { length, charset, collation } => CastType::Char {
                length: *length,
                charset: charset.as_ref().map(|name| name.to_lowercase()),
                collation: collation.as_ref().map(|name| name.to_lowercase()),
            },
            other => other.clone(),
        }
    }

    /// The query of EXISTS: one row says all, whatever is in it.
    fn existence(&self, query: &Query) -> Query {
        let mut new = self.rewrite(query, false, None);
        let takes_rows = query.limit.as_ref().is_none_or(|limit| match &limit.count {
            Some(Expr::Literal(Literal { value: LiteralValue::Int(count), .. })) => *count > 0,
            _ => false,
        });
        if takes_rows && query.limit.as_ref().is_none_or(|limit| limit.offset.is_none()) {
            new.limit =
                Some(Limit { count: Some(int(1)), offset: None, rows_examined: None, with_ties: false });
        }
        let plain = match &query.body {
            QueryBody::Select(select) => {
                select.group_by.is_empty() && select.having.is_none() && !select.items.iter().any(aggregates)
            }
            _ => false,
        };
        if let QueryBody::Select(select) = &mut new.body
            && plain
            && takes_rows
        {
            select.items = vec![listed(int(1), None)];
            new.order_by.clear();
        }
        new
    }

    fn call(&self, function: &FunctionCall, around: Around<'_>) -> Expr {
        let args: Vec<Expr> = function.args.iter().map(|e| self.expr(e, around)).collect();
        let bare = function.db.is_none() && function.over.is_none();
        match (function.name.as_str(), &args[..]) {
            ("isnull", [value]) if bare => {
                return Expr::Is { test: IsTest::Null, negated: false, expr: Box::new(value.clone()) };
            }
            ("mod", [a, b]) if bare => return binary(BinaryOp::Mod, a.clone(), b.clone()),
            ("instr", [text, part]) if bare => return call("locate", vec![part.clone(), text.clone()]),
            ("bin", [n]) if bare => return call("conv", vec![n.clone(), int(10), int(2)]),
            ("oct", [n]) if bare => return call("conv", vec![n.clone(), int(10), int(8)]),
            ("round", [n]) if bare => return call("round", vec![n.clone(), int(0)]),
            ("yearweek", [date]) if bare => return call("yearweek", vec![date.clone(), int(0)]),
            ("date", [value]) if bare => {
                return Expr::Cast { expr: Box::new(value.clone()), to: CastType::Date };
            }
            ("adddate" | "subdate" | "date_add" | "date_sub", [date, days]) if bare => {
                return Expr::DateArithmetic {
                    expr: Box::new(date.clone()),
                    amount: Box::new(days.clone()),
                    unit: IntervalUnit::Day,
                    subtract: function.name.contains("sub"),
                };
            }
            _ => {}
        }
        let synonym = SYNONYMS.iter().find(|(name, _)| *name == function.name).map(|(_, other)| *other);
        let extreme = matches!(function.name.as_str(), "min" | "max");
        let mut new = FunctionCall {
            name: synonym.unwrap_or(&function.name).to_string(),
            args,
            distinct: function.distinct && !extreme,
            order_by: self.order(&function.order_by, around),
            over: function.over.as_ref().map(|window| self.window(window, around)),
            spaced: false,
            ..function.clone()
        };
        if function.star {
            (new.star, new.args) = (false, vec![int(0)]);
        }
        if function.name == "group_concat" && new.separator.is_none() {
            new.separator = Some(",".into());
        }
        Expr::Function(Box::new(new))
    }

    /// A window with all that the windows say which it names.
    fn window(&self, window: &WindowSpec, around: Around<'_>) -> WindowSpec {
        let named = window.name.as_ref().and_then(|name| {
            let is_it = |(other, _): &&(String, WindowSpec)| other.eq_ignore_ascii_case(name);
            around.windows.iter().find(is_it).map(|(_, spec)| self.window(spec, around))
        });
        let base = named.unwrap_or_default();
        // Windows are bound from copies, so their names are known by how they are spelled.
        let inner = Rewriter { by_spelling: true, ..*self };
        let around = Around { items: &[], ..around };
        let own = |list: &[Expr]| list.iter().map(|e| inner.expr(e, around)).collect::<Vec<_>>();
        let partition_by = own(&window.partition_by);
        let order_by = inner.order(&window.order_by, around);
        WindowSpec {
            is_name: false,
            name: None,
            partition_by: if partition_by.is_empty() { base.partition_by } else { partition_by },
            order_by: if order_by.is_empty() { base.order_by } else { order_by },
            frame: window.frame.clone().or(base.frame),
        }
    }
}

/// Gives an item whose name nobody chose another one where the name is taken.
fn make_unique(items: &mut [SelectItem], place: usize, unchosen: &[usize]) {
    let name_of = |item: &SelectItem| match item {
        SelectItem::Expr { alias, .. } => alias.clone().unwrap_or_default(),
        SelectItem::Wildcard { .. } => String::new(),
    };
    let own = name_of(&items[place]);
    let is_taken = |name: &str| {
        let mut others = items.iter().enumerate().filter(|(other, _)| *other != place);
        others.any(|(_, item)| crate::catalog::names::same(&name_of(item), name))
    };
    // Of several that nobody chose the first keeps it.
    let mut others =
        items.iter().enumerate().filter(|(other, _)| *other < place || !unchosen.contains(other));
    if !others.any(|(other, item)| other != place && crate::catalog::names::same(&name_of(item), &own)) {
        return;
    }
    let numbered = (1..=items.len()).map(|number| format!("My_exp_{number}_{own}"));
    let free = std::iter::once(format!("My_exp_{own}")).chain(numbered).find(|name| !is_taken(name));
    if let (Some(free), SelectItem::Expr { alias, .. }) = (free, &mut items[place]) {
        *alias = Some(free);
    }
}

/// A predicate with NOT where it has none.
fn turned(expr: Expr) -> Expr {
    match expr {
        Expr::Between { negated, expr, low, high } => Expr::Between { negated: !negated, expr, low, high },
        Expr::InList { negated, expr, list } => Expr::InList { negated: !negated, expr, list },
        Expr::Like { negated, expr, pattern, escape } => {
            Expr::Like { negated: !negated, expr, pattern, escape }
        }
        Expr::Binary { op, left, right } => binary(opposite(op).unwrap_or(op), *left, *right),
        other => not(other),
    }
}

fn listed(expr: Expr, alias: Option<String>) -> SelectItem {
    SelectItem::Expr { expr, alias, text: Default::default() }
}

fn call(name: &str, args: Vec<Expr>) -> Expr {
    Expr::Function(Box::new(FunctionCall {
        db: None,
        name: name.to_string(),
        written: Default::default(),
        spaced: false,
        args,
        star: false,
        distinct: false,
        order_by: Vec::new(),
        separator: None,
        limit: None,
        over: None,
    }))
}

/// The item that a name means as an alias.
fn aliased<'q>(items: &'q [SelectItem], name: &ColumnName) -> Option<&'q Expr> {
    if name.table.is_some() {
        return None;
    }
    items.iter().find_map(|item| match item {
        SelectItem::Expr { expr, alias: Some(alias), .. } => {
            crate::catalog::names::same(alias, &name.column).then_some(expr)
        }
        _ => None,
    })
}

/// Whether an item is an aggregate.
fn aggregates(item: &SelectItem) -> bool {
    const NAMES: &[&str] = &[
        "count",
        "sum",
        "avg",
        "min",
        "max",
        "std",
        "variance",
        "group_concat",
        "bit_and",
        "bit_or",
        "bit_xor",
    ];
    let is_aggregate = |call: &FunctionCall| {
        NAMES.contains(&call.name.as_str()) || call.name.ends_with("_samp") || call.name.ends_with("agg")
    };
    matches!(item, SelectItem::Expr { expr: Expr::Function(call), .. } if is_aggregate(call))
}

/// Whether a column of a view cannot be called so.
pub(super) fn is_unfit(name: &str) -> bool {
    name.is_empty() || name.ends_with(' ') || name.chars().count() > 64
}
