//! Expressions.

use super::Printer;
use crate::ast::{
    BinaryOp, CastType, Expr, FrameBound, FrameExclude, FunctionCall, IntervalUnit, IsTest, Literal,
    LiteralValue, MatchMode, SequenceCall, SequenceOp, SysVar, TrimSide, UnaryOp, VarScope, WindowFrame,
    WindowSpec,
};
use crate::keyword::Kw;

/// Levels of binding; an operand of a lower level than its place asks for stands in parentheses.
const OR: u8 = 1;
const XOR: u8 = 2;
const AND: u8 = 3;
const NOT: u8 = 4;
const COMPARISON: u8 = 5;
const BETWEEN: u8 = 6;
const PREDICATE: u8 = 7;
const BIT_OR: u8 = 8;
const SUM: u8 = 11;
const BIT_XOR: u8 = 13;
const CONCAT: u8 = 14;
const SIGN: u8 = 15;
const COLLATE: u8 = 16;
const PRIMARY: u8 = 17;

fn operator(op: BinaryOp) -> (&'static str, u8) {
    match op {
        BinaryOp::Or => (" or ", OR),
        BinaryOp::Xor => (" xor ", XOR),
        BinaryOp::And => (" and ", AND),
        BinaryOp::Eq => (" = ", COMPARISON),
        BinaryOp::NullSafeEq => (" <=> ", COMPARISON),
        BinaryOp::Ne => (" <> ", COMPARISON),
        BinaryOp::Lt => (" < ", COMPARISON),
        BinaryOp::Le => (" <= ", COMPARISON),
        BinaryOp::Gt => (" > ", COMPARISON),
        BinaryOp::Ge => (" >= ", COMPARISON),
        BinaryOp::SoundsLike => (" sounds like ", PREDICATE),
        BinaryOp::BitOr => (" | ", BIT_OR),
        BinaryOp::BitAnd => (" & ", BIT_OR + 1),
        BinaryOp::ShiftLeft => (" << ", BIT_OR + 2),
        BinaryOp::ShiftRight => (" >> ", BIT_OR + 2),
        BinaryOp::Add => (" + ", SUM),
        BinaryOp::Sub => (" - ", SUM),
        BinaryOp::Mul => (" * ", SUM + 1),
        BinaryOp::Div => (" / ", SUM + 1),
        BinaryOp::IntDiv => (" DIV ", SUM + 1),
        BinaryOp::Mod => (" % ", SUM + 1),
        BinaryOp::BitXor => (" ^ ", BIT_XOR),
        BinaryOp::Concat => (" || ", CONCAT),
    }
}

fn level(expr: &Expr) -> u8 {
    match expr {
        Expr::Binary { op, .. } => operator(*op).1,
        // It takes all that follows.
        Expr::AssignUserVar { .. } => 0,
        Expr::Unary { op: UnaryOp::Not, .. } => NOT,
        Expr::Unary { .. } => SIGN,
        Expr::Is { .. } | Expr::Quantified { .. } => COMPARISON,
        Expr::Between { .. } => BETWEEN,
        Expr::InList { .. } | Expr::InSubquery { .. } | Expr::Like { .. } | Expr::Regexp { .. } => PREDICATE,
        Expr::DateArithmetic { .. } => SUM,
        Expr::Collate { .. } => COLLATE,
        _ => PRIMARY,
    }
}

/// Reserved words that are functions' names.
const CALLABLE: &[Kw] = &[
    Kw::IF,
    Kw::INSERT,
    Kw::LEFT,
    Kw::RIGHT,
    Kw::REPEAT,
    Kw::REPLACE,
    Kw::MOD,
    Kw::ROW_NUMBER,
    Kw::INTERVAL,
    Kw::CURRENT_USER,
    Kw::CURRENT_ROLE,
    Kw::UTC_DATE,
    Kw::UTC_TIME,
    Kw::UTC_TIMESTAMP,
];

/// What views call functions that have another name in trees.
const VIEW_NAMES: &[(&str, &str)] = &[("now", "current_timestamp"), ("substring", "substr")];

impl Printer {
    /// An expression where one of at least level `min` is asked for.
    pub(super) fn expr(&mut self, expr: &Expr, min: u8) {
        let level = match expr {
            Expr::Unary { op: UnaryOp::Not, .. } if self.view => SIGN,
            other => level(other),
        };
        if level < min {
            self.parens(|printer| printer.operation(expr));
        } else {
            self.operation(expr);
        }
    }

    /// Operators; the rest is an operand.
    fn operation(&mut self, expr: &Expr) {
        match expr {
            Expr::Binary { op, left, right } => self.binary(*op, left, right),
            Expr::Unary { op, expr } => self.unary(*op, expr),
            Expr::Is { test, negated, expr } => {
                self.expr(expr, COMPARISON);
                self.word(if *negated { " is not " } else { " is " });
                self.word(match test {
                    IsTest::Null => "null",
                    IsTest::True => "true",
                    IsTest::False => "false",
                    IsTest::Unknown => "unknown",
                });
            }
            Expr::Quantified { op, all, left, query } => {
                self.expr(left, COMPARISON);
                self.word(operator(*op).0);
                self.word(if *all { "all " } else { "any " });
                self.parens(|printer| printer.query(query));
            }
            Expr::Between { negated, expr, low, high } => {
                self.predicate(expr, *negated, " between ");
                self.expr(low, BIT_OR);
                self.word(" and ");
                self.expr(high, BIT_OR);
            }
            Expr::InList { negated, expr, list } => {
                self.predicate(expr, *negated, " in ");
                self.parens(|printer| match list.as_slice() {
                    // A lone subquery as a list's element would be read as the subquery of IN.
                    [only @ Expr::Subquery(_)] => printer.parens(|printer| printer.expr(only, 0)),
                    list => printer.exprs(list),
                });
            }
            Expr::InSubquery { negated, expr, query } => {
                self.predicate(expr, *negated, " in ");
                self.parens(|printer| printer.query(query));
            }
            Expr::Like { negated, expr, pattern, escape } => {
                self.expr(expr, PREDICATE);
                self.flag(*negated && self.view, " ");
                self.flag(*negated, " not");
                self.word(" like ");
                self.expr(pattern, BIT_OR);
                if let Some(escape) = escape {
                    self.word(" escape ");
                    self.expr(escape, BIT_OR);
                }
            }
            Expr::Regexp { negated, expr, pattern } => {
                self.predicate(expr, *negated, " regexp ");
                self.expr(pattern, BIT_OR);
            }
            Expr::Collate { expr, collation } => {
                self.expr(expr, COLLATE);
                self.word(" collate ");
                self.plain(collation);
            }
            Expr::DateArithmetic { expr, amount, unit, subtract } => {
                let (begin, params) = (self.out.len(), self.params.len());
                self.expr(expr, SUM);
                let (middle, params_before) = (self.out.len(), self.params.len());
                self.word(if *subtract { " - interval " } else { " + interval " });
                let amount_at = self.out.len();
                self.interval(amount, *unit);
                // Which parameter is which is told by their order: the amount stood first.
                let first = |from: usize, to: usize| self.params[from..to].first();
                let (of_expr, of_amount) =
                    (first(params, params_before), first(params_before, self.params.len()));
                if of_amount.is_some_and(|amount| of_expr.is_some_and(|expr| amount < expr)) {
                    let text =
                        format!("(interval {} + ({}))", &self.out[amount_at..], &self.out[begin..middle]);
                    self.out.replace_range(begin.., &text);
                    self.params[params..].rotate_left(params_before - params);
                }
            }
            Expr::AssignUserVar { name, value } => {
                self.user_var(name);
                self.word(":=");
                self.expr(value, 0);
            }
            other => self.operand(other),
        }
    }

    fn binary(&mut self, op: BinaryOp, left: &Expr, right: &Expr) {
        let (word, level) = operator(op);
        let word = if self.view && op == BinaryOp::Mod { " MOD " } else { word };
        let tight = if op == BinaryOp::SoundsLike { BIT_OR } else { level + 1 };
        let flat = matches!(op, BinaryOp::And | BinaryOp::Or);
        self.expr(left, level);
        self.word(word);
        self.expr(right, if flat { level } else { tight });
    }

    fn unary(&mut self, op: UnaryOp, expr: &Expr) {
        match op {
            UnaryOp::Not if self.view => self.signed('!', expr),
            UnaryOp::Not => {
                self.word("not ");
                self.expr(expr, NOT);
            }
            UnaryOp::Minus => self.signed('-', expr),
            UnaryOp::BitNot => self.signed('~', expr),
        }
    }

    fn signed(&mut self, sign: char, expr: &Expr) {
        self.out.push(sign);
        self.expr(expr, COLLATE);
    }

    fn predicate(&mut self, expr: &Expr, negated: bool, word: &str) {
        self.expr(expr, PREDICATE);
        self.flag(negated, " not");
        self.word(word);
    }

    fn interval(&mut self, amount: &Expr, unit: IntervalUnit) {
        // In parentheses of its own, a comma inside cannot make it look like the function INTERVAL().
        if self.view || matches!(amount, Expr::Literal(_) | Expr::Param(_) | Expr::Column(_)) {
            self.expr(amount, 0);
        } else {
            self.parens(|printer| printer.expr(amount, 0));
        }
        self.out.push(' ');
        self.unit(unit);
    }

    fn unit(&mut self, unit: IntervalUnit) {
        self.word(match unit {
            IntervalUnit::Microsecond => "microsecond",
            IntervalUnit::Second => "second",
            IntervalUnit::Minute => "minute",
            IntervalUnit::Hour => "hour",
            IntervalUnit::Day => "day",
            IntervalUnit::Week => "week",
            IntervalUnit::Month => "month",
            IntervalUnit::Quarter => "quarter",
            IntervalUnit::Year => "year",
            IntervalUnit::SecondMicrosecond => "second_microsecond",
            IntervalUnit::MinuteMicrosecond => "minute_microsecond",
            IntervalUnit::MinuteSecond => "minute_second",
            IntervalUnit::HourMicrosecond => "hour_microsecond",
            IntervalUnit::HourSecond => "hour_second",
            IntervalUnit::HourMinute => "hour_minute",
            IntervalUnit::DayMicrosecond => "day_microsecond",
            IntervalUnit::DaySecond => "day_second",
            IntervalUnit::DayMinute => "day_minute",
            IntervalUnit::DayHour => "day_hour",
            IntervalUnit::YearMonth => "year_month",
        });
    }

    fn operand(&mut self, expr: &Expr) {
        match expr {
            Expr::Literal(literal) => self.literal(literal),
            Expr::Param(number) => {
                self.params.push(*number);
                self.word("?");
            }
            Expr::Column(column) => self.column(column),
            Expr::UserVar(name) => self.user_var(name),
            Expr::SysVar(variable) => self.sys_var(variable),
            Expr::Exists(query) => {
                self.word(if self.view { "exists" } else { "exists " });
                self.parens(|printer| printer.query(query));
            }
            Expr::Subquery(query) => self.parens(|printer| printer.query(query)),
            Expr::Case { operand, whens, otherwise } => {
                self.case(operand.as_deref(), whens, otherwise.as_deref());
            }
            Expr::Cast { expr, to } => {
                self.word("cast(");
                self.expr(expr, 0);
                self.word(" as ");
                self.cast_type(to);
                self.word(")");
            }
            Expr::ConvertUsing { expr, charset } => {
                self.word("convert(");
                self.expr(expr, 0);
                self.word(" using ");
                self.plain(charset);
                self.word(")");
            }
            Expr::Row(items) => self.parens(|printer| printer.exprs(items)),
            Expr::Default(None) => self.word("default"),
            Expr::Default(Some(column)) => {
                self.word("default");
                self.parens(|printer| printer.column(column));
            }
            Expr::Values(column) => {
                // VALUES is this function in ON DUPLICATE KEY UPDATE only, VALUE is it everywhere.
                self.word("value");
                self.parens(|printer| printer.column(column));
            }
            Expr::Ignore => self.word("ignore"),
            Expr::Sequence(call) => self.sequence(call),
            Expr::Function(call) => self.call(call),
            other => self.special_call(other),
        }
    }

    fn sequence(&mut self, call: &SequenceCall) {
        self.word(match call.op {
            SequenceOp::Next => "nextval(",
            SequenceOp::Last => "lastval(",
            SequenceOp::Set { .. } => "setval(",
        });
        // Its database is said even where others are left out.
        if let Some(database) = call.name.db.clone().or_else(|| self.home.clone()) {
            self.ident(&database);
            self.out.push('.');
        }
        self.ident(&call.name.name);
        if let SequenceOp::Set { value, used, round } = call.op {
            self.out.push_str(&format!(",{value},{},{round}", u8::from(used)));
        }
        self.word(")");
    }

    fn case(&mut self, operand: Option<&Expr>, whens: &[(Expr, Expr)], otherwise: Option<&Expr>) {
        self.word("case");
        if let Some(operand) = operand {
            self.out.push(' ');
            self.expr(operand, 0);
        }
        for (when, then) in whens {
            self.word(" when ");
            self.expr(when, 0);
            self.word(" then ");
            self.expr(then, 0);
        }
        if let Some(otherwise) = otherwise {
            self.word(" else ");
            self.expr(otherwise, 0);
        }
        self.word(" end");
    }

    /// Calls whose arguments have a syntax of their own.
    fn special_call(&mut self, expr: &Expr) {
        match expr {
            Expr::Extract { unit, expr } => {
                self.word("extract(");
                self.unit(*unit);
                self.word(" from ");
                self.expr(expr, 0);
            }
            Expr::Trim { side, what: None, expr, oracle } if self.view => {
                self.word(match side {
                    TrimSide::Both => "trim",
                    TrimSide::Leading => "ltrim",
                    TrimSide::Trailing => "rtrim",
                });
                self.word(if *oracle { "_oracle(" } else { "(" });
                self.expr(expr, 0);
            }
            Expr::Trim { side, what, expr, oracle } => {
                self.word(if *oracle { "trim_oracle(" } else { "trim(" });
                self.word(match side {
                    TrimSide::Both => "both ",
                    TrimSide::Leading => "leading ",
                    TrimSide::Trailing => "trailing ",
                });
                if let Some(what) = what {
                    self.expr(what, 0);
                    self.out.push(' ');
                }
                self.word("from ");
                self.expr(expr, 0);
            }
            Expr::TimestampAdd { unit, amount, expr } => {
                self.timestamp_call("timestampadd(", *unit, amount, expr)
            }
            Expr::TimestampDiff { unit, from, to } => self.timestamp_call("timestampdiff(", *unit, from, to),
            Expr::Char { args, charset } => {
                self.word("char(");
                self.exprs(args);
                if let Some(charset) = charset {
                    self.word(" using ");
                    self.plain(charset);
                }
            }
            Expr::Match { columns, against, mode } => {
                self.word("match ");
                self.parens(|printer| printer.list(columns, |printer, column| printer.column(column)));
                self.word(" against (");
                self.expr(against, BIT_OR);
                self.word(match mode {
                    MatchMode::Natural => "",
                    MatchMode::Expansion => " with query expansion",
                    MatchMode::Boolean => " in boolean mode",
                });
            }
            other => unreachable!("printed elsewhere: {other:?}"),
        }
        self.word(")");
    }

    fn timestamp_call(&mut self, name: &str, unit: IntervalUnit, first: &Expr, second: &Expr) {
        self.word(name);
        let start = self.out.len();
        self.unit(unit);
        if self.view {
            self.out[start..].make_ascii_uppercase();
        }
        self.out.push(',');
        self.expr(first, 0);
        self.out.push(',');
        self.expr(second, 0);
    }

    /// In quotes where it has a NUL, which no other name may have.
    pub(super) fn user_var(&mut self, name: &str) {
        self.out.push('@');
        if name.contains('\0') { self.string(name.as_bytes()) } else { self.ident(name) }
    }

    fn sys_var(&mut self, variable: &SysVar) {
        self.word(match variable.scope {
            VarScope::Default => "@@",
            VarScope::Session => "@@session.",
            VarScope::Global => "@@global.",
        });
        if let Some(instance) = &variable.instance {
            self.ident(instance);
            self.out.push('.');
        }
        match self.view {
            true => self.word(&variable.name),
            false => self.ident(&variable.name),
        }
    }

    pub(super) fn octets(&mut self, octets: &[u8], quoted: bool, charset: &Option<String>) {
        self.introducer(charset);
        self.flag(charset.is_some(), " ");
        self.word(match (quoted, self.view) {
            (true, true) => "X'",
            (true, false) => "x'",
            (false, _) => "0x",
        });
        for octet in octets {
            self.word(&format!("{octet:02X}"));
        }
        self.flag(quoted, "'");
    }

    fn literal(&mut self, literal: &Literal) {
        match &literal.value {
            LiteralValue::Null => self.word("NULL"),
            LiteralValue::Bool(value) if self.view => self.word(if *value { "1" } else { "0" }),
            LiteralValue::Bool(value) => self.word(if *value { "true" } else { "false" }),
            LiteralValue::Int(value) => self.word(&value.to_string()),
            LiteralValue::Decimal(digits) if self.view => {
                self.flag(digits.starts_with('.'), "0");
                self.word(digits.strip_suffix('.').unwrap_or(digits));
            }
            LiteralValue::Decimal(digits) => self.word(digits),
            LiteralValue::Float(value) => self.word(&format!("{value:e}")),
            LiteralValue::String { bytes, charset }
                if charset.is_some() && std::str::from_utf8(bytes).is_err() =>
            {
                self.octets(bytes, true, charset);
            }
            LiteralValue::String { bytes, charset } => {
                self.introducer(charset);
                self.text(bytes);
            }
            LiteralValue::Hex { bytes, quoted, charset } => self.octets(bytes, *quoted, charset),
            LiteralValue::Bit { bytes, charset: None } if self.view => self.octets(bytes, false, &None),
            LiteralValue::Bit { bytes, charset } => {
                self.introducer(charset);
                self.flag(charset.is_some(), " ");
                self.word("b'");
                for byte in bytes.iter() {
                    self.word(&format!("{byte:08b}"));
                }
                self.word("'");
            }
            LiteralValue::Date(text) => {
                self.word("DATE");
                self.text(text);
            }
            LiteralValue::Time(text) => {
                self.word("TIME");
                self.text(text);
            }
            LiteralValue::Timestamp(text) => {
                self.word("TIMESTAMP");
                self.text(text);
            }
        }
    }

    fn introducer(&mut self, charset: &Option<String>) {
        if let Some(charset) = charset {
            self.out.push('_');
            self.word(charset);
        }
    }

    fn call(&mut self, call: &FunctionCall) {
        if let Some(db) = &call.db {
            self.ident(db);
            self.out.push('.');
        }
        let reserved =
            Kw::lookup(call.name.as_bytes()).is_some_and(|kw| kw.is_reserved() && !CALLABLE.contains(&kw));
        if let Some(other) = VIEW_NAMES.iter().find(|(name, _)| self.view && *name == call.name) {
            self.word(other.1);
            return self.call_arguments(call);
        }
        // What begins with a digit may be a number.
        let first = call.name.bytes().next();
        let plain = first.is_some_and(|first| !first.is_ascii_digit())
            && call.name.bytes().all(crate::lexer::is_ident_byte);
        if plain && !reserved && call.db.is_none() {
            self.word(&call.name);
        } else {
            self.ident(&call.name);
        }
        self.flag(call.spaced, " ");
        self.call_arguments(call);
    }

    /// What stands behind a function's name.
    fn call_arguments(&mut self, call: &FunctionCall) {
        self.word("(");
        self.flag(call.distinct, "distinct ");
        self.flag(call.star, "*");
        self.arguments(call);
        let within = call.name.starts_with("percentile_");
        if !within && self.view {
            self.call_order(call);
        } else if !within {
            self.order_by(&call.order_by);
        }
        if let Some(separator) = &call.separator {
            self.word(" separator ");
            self.text(separator);
        }
        if let Some(limit) = &call.limit {
            self.limit(limit);
        }
        self.word(")");
        if within && !call.order_by.is_empty() {
            self.word(" within group (");
            self.order_by(&call.order_by);
            self.word(")");
        }
        if let Some(window) = &call.over {
            self.word(" over ");
            self.window(window);
        }
    }

    /// ORDER BY within a call of a view, which always says its direction.
    fn call_order(&mut self, call: &FunctionCall) {
        if call.order_by.is_empty() {
            return;
        }
        self.word(" order by ");
        self.list(&call.order_by, |printer, item| {
            printer.expr(&item.expr, 0);
            printer.word(if item.desc { " DESC" } else { " ASC" });
        });
    }

    fn arguments(&mut self, call: &FunctionCall) {
        match call.args.as_slice() {
            [Expr::Literal(Literal { value: LiteralValue::String { bytes, .. }, .. }), rest @ ..]
                if call.name == "get_format" =>
            {
                self.word(&bytes.to_text());
                self.word(",");
                self.exprs(rest);
            }
            args => self.exprs(args),
        }
    }

    /// The window behind OVER.
    pub(super) fn window(&mut self, window: &WindowSpec) {
        if let Some(name) = window.name.as_ref().filter(|_| window.is_name) {
            self.ident(name);
            return;
        }
        self.word("(");
        if let Some(name) = &window.name {
            self.ident(name);
        }
        if !window.partition_by.is_empty() {
            self.word(" partition by ");
            self.exprs(&window.partition_by);
        }
        self.order_by(&window.order_by);
        if let Some(frame) = &window.frame {
            self.frame(frame);
        }
        self.word(")");
    }

    fn frame(&mut self, frame: &WindowFrame) {
        if self.view {
            self.word(if frame.range { " range between " } else { " rows between " });
            self.view_bound(&frame.start);
            self.word(" and ");
            self.view_bound(frame.end.as_ref().unwrap_or(&FrameBound::CurrentRow));
            return;
        }
        self.word(if frame.range { " range " } else { " rows " });
        match &frame.end {
            Some(end) => {
                self.word("between ");
                self.bound(&frame.start);
                self.word(" and ");
                self.bound(end);
            }
            None => self.bound(&frame.start),
        }
        if let Some(exclude) = frame.exclude {
            self.word(match exclude {
                FrameExclude::NoOthers => " exclude no others",
                FrameExclude::CurrentRow => " exclude current row",
                FrameExclude::Group => " exclude group",
                FrameExclude::Ties => " exclude ties",
            });
        }
    }

    /// A bound as MariaDB prints it, blanks around its words.
    fn view_bound(&mut self, bound: &FrameBound) {
        match bound {
            FrameBound::UnboundedPreceding => self.word(" unbounded  preceding "),
            FrameBound::UnboundedFollowing => self.word(" unbounded  following "),
            FrameBound::CurrentRow => self.word(" current row "),
            FrameBound::Preceding(_) | FrameBound::Following(_) => {
                self.bound(bound);
                self.out.push(' ');
            }
        }
    }

    fn bound(&mut self, bound: &FrameBound) {
        match bound {
            FrameBound::UnboundedPreceding => self.word("unbounded preceding"),
            FrameBound::UnboundedFollowing => self.word("unbounded following"),
            FrameBound::CurrentRow => self.word("current row"),
            FrameBound::Preceding(offset) => {
                self.expr(offset, BIT_OR);
                self.word(" preceding");
            }
            FrameBound::Following(offset) => {
                self.expr(offset, BIT_OR);
                self.word(" following");
            }
        }
    }

    fn cast_type(&mut self, to: &CastType) {
        match to {
            CastType::Binary(length) if self.view => {
                self.sized("char", *length);
                self.word(" charset binary");
            }
            CastType::Binary(length) => self.sized("binary", *length),
            CastType::Char { length, charset, collation } => {
                self.sized("char", *length);
                if let Some(charset) = charset {
                    self.word(" charset ");
                    self.plain(charset);
                }
                match collation.as_deref() {
                    Some("binary") => self.word(" binary"),
                    Some(collation) => {
                        self.word(" collate ");
                        self.plain(collation);
                    }
                    None => {}
                }
            }
            CastType::Date => self.word("date"),
            CastType::Time(0) if self.view => self.word("time"),
            CastType::DateTime(0) if self.view => self.word("datetime"),
            CastType::Time(digits) => self.sized("time", Some(u64::from(*digits))),
            CastType::DateTime(digits) => self.sized("datetime", Some(u64::from(*digits))),
            CastType::Decimal { precision, scale } => self.word(&format!("decimal({precision},{scale})")),
            CastType::Double(None) => self.word("double"),
            CastType::Double(Some((digits, scale))) => self.word(&format!("double({digits},{scale})")),
            CastType::Float => self.word("float"),
            CastType::Signed => self.word("signed"),
            CastType::Unsigned => self.word("unsigned"),
            CastType::IntervalDaySecond(digits) => {
                self.sized("interval day_second", Some(u64::from(*digits)))
            }
            CastType::Other(name) => self.word(name),
        }
    }

    /// A type with its length.
    pub(super) fn sized(&mut self, name: &str, length: Option<u64>) {
        self.word(name);
        if let Some(length) = length {
            self.word(&format!("({length})"));
        }
    }
}
