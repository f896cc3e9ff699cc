//! Expressions of a view's text: negations are pushed inwards, synonyms of functions have one name.

use keel_planner::bind::place;
use keel_sql::ast::{
    BinaryOp, CastType, ColumnName, Expr, FunctionCall, IntervalUnit, IsTest, Limit, Literal, LiteralValue,
    OrderItem, Query, QueryBody, UnaryOp, WindowSpec,
};

use super::view_text::{Around, Rewriter, aggregates, aliased, listed};

pub(super) fn int(value: u64) -> Expr {
    Expr::Literal(Literal { value: LiteralValue::Int(value), index: None })
}

pub(super) fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
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
    /// Where only truth matters, a column is compared with 0.
    pub(super) fn condition(&self, expr: &Expr, around: Around<'_>) -> Expr {
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
    pub(super) fn expr(&self, expr: &Expr, around: Around<'_>) -> Expr {
        let own = |e: &Expr| self.expr(e, around);
        let boxed = |e: &Expr| Box::new(self.expr(e, around));
        let subquery = |query: &Query| Box::new(self.rewrite(query, false, None));
        match expr {
            Expr::Column(name) => {
                let in_window = || self.names.in_window(self.window?, name);
                let whole = self.names.column(name).or_else(in_window);
                Expr::Column(whole.cloned().unwrap_or_else(|| name.clone()))
            }
            Expr::Unary { op: UnaryOp::Not, expr } => self.negated(expr, around),
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
            Expr::Trim { side, what, expr, oracle } => {
                let what = what.as_ref().map(|e| boxed(e));
                Expr::Trim { side: *side, what, expr: boxed(expr), oracle: *oracle }
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
            Expr::Sequence(call) => {
                let mut whole = call.clone();
                whole.name.db = self.names.database(&**call).cloned().or(whole.name.db);
                Expr::Sequence(whole)
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

    /// Whether a name is that of an item which is no column.
    fn is_computed(&self, name: &ColumnName, around: Around<'_>) -> bool {
        aliased(around.items, name).is_some_and(|item| !matches!(item, Expr::Column(_)))
    }

    /// A window with all that the windows say which it names.
    fn window(&self, window: &WindowSpec, around: Around<'_>) -> WindowSpec {
        let named = window.name.as_ref().and_then(|name| {
            let is_it = |(other, _): &&(String, WindowSpec)| other.eq_ignore_ascii_case(name);
            around.windows.iter().find(is_it).map(|(_, spec)| self.window(spec, around))
        });
        let base = named.unwrap_or_default();
        let inner = Rewriter { window: Some(place(window)), ..*self };
        // A name alone is an item of the select list first.
        let key = |item: &OrderItem| match &item.expr {
            Expr::Column(name) if self.is_computed(name, around) => {
                self.order(std::slice::from_ref(item), around)
            }
            _ => inner.order(std::slice::from_ref(item), Around { items: &[], ..around }),
        };
        let order_by: Vec<OrderItem> = window.order_by.iter().flat_map(key).collect();
        let around = Around { items: &[], ..around };
        let own = |list: &[Expr]| list.iter().map(|e| inner.expr(e, around)).collect::<Vec<_>>();
        let partition_by = own(&window.partition_by);
        WindowSpec {
            is_name: false,
            name: None,
            partition_by: if partition_by.is_empty() { base.partition_by } else { partition_by },
            order_by: if order_by.is_empty() { base.order_by } else { order_by },
            frame: window.frame.clone().or(base.frame),
        }
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

fn call(name: &str, args: Vec<Expr>) -> Expr {
    Expr::Function(Box::new(FunctionCall {
        db: None,
        name: name.to_string(),
        written: Default::default(),
        spaced: false,
        args,
        named: Default::default(),
        star: false,
        distinct: false,
        order_by: Vec::new(),
        separator: None,
        limit: None,
        over: None,
    }))
}
