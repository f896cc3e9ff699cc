//! Operands that begin with a keyword, and function calls.

use super::{Parser, TypeFamily};
use crate::ast::{
    CastType, Expr, FunctionCall, IntervalUnit, LiteralValue, MatchMode, OrderItem, SequenceOp, SourceText,
    TrimSide, WindowSpec,
};
use crate::keyword::Kw;
use crate::lexer::Tok;
use keel_base::SqlResult;

/// How many arguments the functions take that stand in MariaDB's grammar, where a wrong count is a syntax error. The others are
/// checked when bound.
#[rustfmt::skip]
const ARITY: &[(&str, usize, usize)] = &[
    ("adddate", 2, 2), ("ascii", 1, 1), ("avg", 1, 1), ("bit_and", 1, 1), ("bit_or", 1, 1), ("bit_xor", 1, 1), ("charset", 1, 1),
    ("cume_dist", 0, 0), ("curdate", 0, 0), ("curtime", 0, 1), 
    ("date", 1, 1), ("day", 1, 1), ("dense_rank", 0, 0), ("first_value", 1, 1), ("hour", 1, 1), ("if", 3, 3),
    ("insert", 4, 4), ("lag", 1, 2), ("last_value", 1, usize::MAX), ("lead", 1, 2), ("left", 2, 2), ("max", 1, 1), ("median", 1, 1),
    ("min", 1, 1), ("minute", 1, 1), ("mod", 2, 2), ("month", 1, 1), ("now", 0, 1), ("nth_value", 2, 2),
    ("ntile", 1, 1), ("password", 1, 1), ("percentile_cont", 1, 1), ("percentile_disc", 1, 1), ("percent_rank", 0, 0), ("rank", 0, 0),
    ("repeat", 2, 2), ("replace", 3, 3), ("right", 2, 2), ("row_number", 0, 0),
    ("second", 1, 1), ("std", 1, 1), ("stddev_samp", 1, 1), ("subdate", 2, 2), ("sum", 1, 1), ("sysdate", 0, 1), ("time", 1, 1),
    ("timestamp", 1, 2), ("truncate", 2, 2), ("user", 0, 0), ("utc_date", 0, 0), ("utc_time", 0, 1), ("utc_timestamp", 0, 1),
    ("variance", 1, 1), ("var_samp", 1, 1), ("year", 1, 1), ("json_objectagg", 2, 2),
];

/// The others that stand in MariaDB's grammar: their arguments have no names.
const IN_GRAMMAR: &[&str] = &["char", "interval", "trim", "trim_oracle", "weight_string"];

/// Aggregates: they take ALL and OVER, some DISTINCT.
const AGGREGATES: &[&str] = &[
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "count",
    "group_concat",
    "json_arrayagg",
    "json_objectagg",
    "max",
    "min",
    "std",
    "stddev_samp",
    "sum",
    "variance",
    "var_samp",
];

/// Aggregates that may have DISTINCT.
const DISTINCT: &[&str] = &["avg", "count", "group_concat", "json_arrayagg", "max", "min", "sum"];

/// Window functions that are no aggregates.
const WINDOW_ONLY: &[&str] = &[
    "cume_dist",
    "dense_rank",
    "first_value",
    "lag",
    "last_value",
    "lead",
    "median",
    "nth_value",
    "ntile",
    "percent_rank",
    "percentile_cont",
    "percentile_disc",
    "rank",
    "row_number",
];

/// Whether a word before a parenthesis is one of [`NO_SPACE`].
pub(super) fn is_function_word(word: &[u8]) -> bool {
    NO_SPACE.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(word))
}

/// Names that are functions only if the parenthesis follows directly; otherwise MariaDB looks for a stored function.
const NO_SPACE: &[&str] = &[
    "adddate",
    "bit_and",
    "bit_or",
    "bit_xor",
    "cast",
    "count",
    "cume_dist",
    "curdate",
    "curtime",
    "date_add",
    "date_sub",
    "dense_rank",
    "extract",
    "first_value",
    "group_concat",
    "json_arrayagg",
    "json_objectagg",
    "lag",
    "lead",
    "max",
    "median",
    "mid",
    "min",
    "now",
    "nth_value",
    "ntile",
    "percent_rank",
    "percentile_cont",
    "percentile_disc",
    "position",
    "rank",
    "session_user",
    "std",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "subdate",
    "substr",
    "substring",
    "sum",
    "system_user",
    "trim",
    "variance",
    "var_pop",
    "var_samp",
];

/// Free words that are never a function's name.
#[rustfmt::skip]
const NO_CALL: &[Kw] = &[
    Kw::ANY, Kw::BACKUP, Kw::BEGIN, Kw::BINLOG, Kw::BIT, Kw::BOOL, Kw::BOOLEAN, Kw::BYTE, Kw::CACHE,
    Kw::CHECKPOINT, Kw::CHECKSUM, Kw::CLOB, Kw::CLOSE, Kw::CODE, Kw::COMMENT, Kw::COMMIT, Kw::COMPRESSED,
    Kw::DATETIME, Kw::DEALLOCATE, Kw::DO, Kw::END, Kw::ENUM, Kw::EXAMINED, Kw::EXCLUDE, Kw::EXECUTE,
    Kw::FIXED, Kw::FLUSH, Kw::FOLLOWING, Kw::FOLLOWS, Kw::FUNCTION, Kw::GET, Kw::GLOBAL, Kw::HANDLER,
    Kw::HELP, Kw::HOST, Kw::ID, Kw::IGNORED, Kw::INSTALL, Kw::JSON, Kw::LANGUAGE, Kw::LOCAL, Kw::MEDIUM,
    Kw::NAMES, Kw::NATIONAL, Kw::NCHAR, Kw::NO, Kw::NUMBER, Kw::NVARCHAR, Kw::OPEN, Kw::OPTION, Kw::OPTIONS,
    Kw::OTHERS, Kw::OWNER, Kw::PARSER, Kw::PERIOD, Kw::PORT, Kw::PRECEDES, Kw::PRECEDING, Kw::PREPARE,
    Kw::RAW, Kw::REMOVE, Kw::REPAIR, Kw::REPLICA, Kw::REPLICAS, Kw::RESET, Kw::RESTORE, Kw::ROLE,
    Kw::ROLLBACK, Kw::SAVEPOINT, Kw::SECURITY, Kw::SERIAL, Kw::SERVER, Kw::SESSION,
    Kw::SHUTDOWN, Kw::SIGNED, Kw::SLAVE, Kw::SLAVES, Kw::SOCKET, Kw::SOME, Kw::SONAME, Kw::SOUNDS,
    Kw::START, Kw::STOP, Kw::STORED, Kw::TEXT, Kw::TIES, Kw::UNBOUNDED, Kw::UNICODE, Kw::UNINSTALL,
    Kw::UPGRADE, Kw::VARCHAR2, Kw::WINDOW, Kw::WRAPPER, Kw::XA,
];

fn canonical(name: &str) -> &str {
    match name {
        "current_timestamp" | "localtime" | "localtimestamp" => "now",
        "current_date" => "curdate",
        "current_time" => "curtime",
        "substr" | "mid" => "substring",
        "session_user" | "system_user" => "user",
        "schema" => "database",
        "stddev" | "stddev_pop" => "std",
        "var_pop" => "variance",
        other => other,
    }
}

/// What a function's name means under sql_mode ORACLE, where empty texts are NULL, and NULL is one.
fn oracle_name(name: &str) -> &str {
    match name {
        "concat" => "concat_operator_oracle",
        "decode" => "decode_oracle",
        "length" => "char_length",
        "lpad" => "lpad_oracle",
        "ltrim" => "ltrim_oracle",
        "replace" => "replace_oracle",
        "rpad" => "rpad_oracle",
        "rtrim" => "rtrim_oracle",
        other => other,
    }
}

impl Parser<'_> {
    /// An operand at keyword `kw`.
    #[inline(never)]
    pub(super) fn keyword_operand(&mut self, kw: Kw) -> SqlResult<Expr> {
        let paren = self.peek_at(1).tok == Tok::LParen;
        match kw {
            Kw::NULL | Kw::TRUE | Kw::FALSE => {
                self.advance();
                let value =
                    if kw == Kw::NULL { LiteralValue::Null } else { LiteralValue::Bool(kw == Kw::TRUE) };
                Ok(Self::constant(value))
            }
            Kw::CASE => self.nested(Self::case),
            Kw::EXISTS => {
                self.advance();
                Ok(Expr::Exists(self.subquery()?))
            }
            Kw::BINARY => {
                self.advance();
                let expr = self.nested(Self::simple_expr)?;
                Ok(Expr::Cast { expr: Box::new(expr), to: CastType::Binary(None) })
            }
            Kw::INTERVAL => self.nested(Self::interval_operand),
            Kw::ROW if paren => self.row(),
            Kw::DATE | Kw::TIME | Kw::TIMESTAMP if self.peek_at(1).tok == Tok::String => {
                self.advance();
                self.temporal(kw)
            }
            Kw::DEFAULT => self.default_of(),
            Kw::VALUES if paren && self.in_on_duplicate => self.values_of(),
            Kw::VALUE if paren => self.values_of(),
            Kw::MATCH => self.nested(Self::match_against),
            Kw::CONVERT => self.nested(Self::convert),
            Kw::CHAR if paren => self.nested(Self::char_function),
            Kw::CURRENT_USER | Kw::CURRENT_ROLE => {
                let mut call = self.begin_call(None)?;
                if self.accept(Tok::LParen) {
                    self.expect(Tok::RParen)?;
                }
                call.args.clear();
                Ok(Expr::Function(call))
            }
            Kw::CURRENT_DATE
            | Kw::CURRENT_TIME
            | Kw::CURRENT_TIMESTAMP
            | Kw::LOCALTIME
            | Kw::LOCALTIMESTAMP
            | Kw::UTC_DATE
            | Kw::UTC_TIME
            | Kw::UTC_TIMESTAMP => self.clock(paren),
            Kw::IF
            | Kw::INSERT
            | Kw::LEFT
            | Kw::MOD
            | Kw::REPEAT
            | Kw::REPLACE
            | Kw::RIGHT
            | Kw::ROW_NUMBER
                if paren =>
            {
                self.call(None)
            }
            Kw::CHAR
            | Kw::IF
            | Kw::INSERT
            | Kw::LEFT
            | Kw::MOD
            | Kw::REPEAT
            | Kw::REPLACE
            | Kw::RIGHT
            | Kw::ROW_NUMBER => {
                self.advance();
                Err(self.unexpected())
            }
            Kw::SYSDATE if self.is_oracle() && !paren && self.peek_at(1).tok != Tok::Dot => self.clock(false),
            Kw::NEXT if self.peek_at(1).kw == Some(Kw::VALUE) => self.value_for(SequenceOp::Next),
            Kw::PREVIOUS if self.peek_at(1).kw == Some(Kw::VALUE) => self.value_for(SequenceOp::Last),
            Kw::NEXTVAL | Kw::LASTVAL | Kw::SETVAL if paren => self.sequence_call(kw),
            _ => self.column_or_call(),
        }
    }

    /// `INTERVAL(a, b, ...)`, or `INTERVAL n unit + a`.
    #[inline(never)]
    fn interval_operand(&mut self) -> SqlResult<Expr> {
        if self.at_interval_function() {
            let mut call = self.begin_call(None)?;
            call.args = self.nested(|parser| parser.parens(Self::expr))?;
            return Ok(Expr::Function(call));
        }
        let (amount, unit) = self.interval()?;
        self.expect(Tok::Plus)?;
        let expr = Box::new(self.expr()?);
        Ok(Expr::DateArithmetic { expr, amount, unit, subtract: false })
    }

    #[inline(never)]
    fn row(&mut self) -> SqlResult<Expr> {
        self.advance();
        match self.nested(|parser| parser.parens(Self::expr))? {
            items if items.len() > 1 => Ok(Expr::Row(items)),
            _ => {
                self.pos -= 1;
                Err(self.unexpected())
            }
        }
    }

    #[inline(never)]
    fn case(&mut self) -> SqlResult<Expr> {
        self.advance();
        let operand = if self.at_kw(Kw::WHEN) { None } else { Some(Box::new(self.expr()?)) };
        let mut whens = Vec::new();
        loop {
            self.expect_kw(Kw::WHEN)?;
            let when = self.expr()?;
            self.expect_kw(Kw::THEN)?;
            whens.push((when, self.expr()?));
            if !self.at_kw(Kw::WHEN) {
                break;
            }
        }
        let otherwise = if self.accept_kw(Kw::ELSE) { Some(Box::new(self.expr()?)) } else { None };
        self.expect_kw(Kw::END)?;
        Ok(Expr::Case { operand, whens, otherwise })
    }

    #[inline(never)]
    fn default_of(&mut self) -> SqlResult<Expr> {
        self.advance();
        self.expect(Tok::LParen)?;
        let column = self.column_name()?;
        self.expect(Tok::RParen)?;
        Ok(Expr::Default(Some(column)))
    }

    #[inline(never)]
    fn values_of(&mut self) -> SqlResult<Expr> {
        self.advance();
        self.expect(Tok::LParen)?;
        let column = self.column_name()?;
        self.expect(Tok::RParen)?;
        Ok(Expr::Values(column))
    }

    #[inline(never)]
    fn match_against(&mut self) -> SqlResult<Expr> {
        self.advance();
        let columns = if self.at(Tok::LParen) {
            self.parens(Self::column_name)?
        } else {
            self.list(Self::column_name)?
        };
        self.expect_kw(Kw::AGAINST)?;
        self.expect(Tok::LParen)?;
        let against = Box::new(self.bit_expr()?);
        let mode = if self.accept_kws(&[Kw::IN, Kw::BOOLEAN]) {
            self.expect_kw(Kw::MODE)?;
            MatchMode::Boolean
        } else {
            let _ = self.accept_then(Kw::IN, &[Kw::NATURAL, Kw::LANGUAGE, Kw::MODE])?;
            let expansion = self.accept_then(Kw::WITH, &[Kw::QUERY, Kw::EXPANSION])?;
            if expansion { MatchMode::Expansion } else { MatchMode::Natural }
        };
        self.expect(Tok::RParen)?;
        Ok(Expr::Match { columns, against, mode })
    }

    /// `CONVERT(a, type)`, `CONVERT(a USING charset)`.
    #[inline(never)]
    fn convert(&mut self) -> SqlResult<Expr> {
        self.advance();
        self.expect(Tok::LParen)?;
        let expr = Box::new(self.expr()?);
        let result = if self.accept_kw(Kw::USING) {
            Expr::ConvertUsing { expr, charset: self.charset_or_collation()? }
        } else {
            self.expect(Tok::Comma)?;
            Expr::Cast { expr, to: self.cast_type()? }
        };
        self.expect(Tok::RParen)?;
        Ok(result)
    }

    #[inline(never)]
    fn char_function(&mut self) -> SqlResult<Expr> {
        self.advance();
        self.expect(Tok::LParen)?;
        let args = self.list(Self::expr)?;
        let charset = if self.accept_kw(Kw::USING) { Some(self.charset_or_collation()?) } else { None };
        self.expect(Tok::RParen)?;
        Ok(Expr::Char { args, charset })
    }

    /// `CURRENT_TIMESTAMP`, with or without parentheses.
    #[inline(never)]
    fn clock(&mut self, paren: bool) -> SqlResult<Expr> {
        if paren {
            return self.call(None);
        }
        let call = self.begin_call(None)?;
        Ok(Expr::Function(call))
    }

    /// Whether names of functions mean Oracle's.
    pub(super) fn is_oracle(&self) -> bool {
        self.options.types == TypeFamily::Oracle
    }

    /// Takes a function's name.
    #[inline(never)]
    fn begin_call(&mut self, db: Option<String>) -> SqlResult<Box<FunctionCall>> {
        let token = self.advance();
        let written = self.name_of(token)?;
        let spaced = self.peek().start > token.end;
        let lower = written.to_ascii_lowercase();
        let apart = db.is_some() || spaced && !self.options.ignore_space;
        let spaced = apart && NO_SPACE.contains(&lower.as_str());
        Ok(Box::new(FunctionCall {
            name: if db.is_none() && token.tok != Tok::Quoted && !spaced {
                canonical(&lower).to_owned()
            } else {
                lower
            },
            db,
            written: SourceText(written),
            spaced,
            args: Vec::new(),
            named: Default::default(),
            star: false,
            distinct: false,
            order_by: Vec::new(),
            separator: None,
            limit: None,
            over: None,
        }))
    }

    /// A call; at the function's name, with a parenthesis behind it.
    pub(super) fn call(&mut self, db: Option<String>) -> SqlResult<Expr> {
        if db.is_none() && self.at_any(NO_CALL) {
            self.advance();
            return Err(self.unexpected());
        }
        self.nested(|parser| {
            let call = parser.begin_call(db)?;
            parser.call_after(call)
        })
    }

    /// Behind a function's name, at its parenthesis.
    #[inline(never)]
    fn call_after(&mut self, mut call: Box<FunctionCall>) -> SqlResult<Expr> {
        let plain = call.db.is_none() && !call.spaced;
        self.expect(Tok::LParen)?;
        if plain && let Some(special) = self.special_call(&call.name)? {
            self.expect(Tok::RParen)?;
            return Ok(special);
        }
        let aggregate = plain && AGGREGATES.contains(&call.name.as_str());
        if aggregate {
            self.aggregate_arguments(&mut call)?;
        } else if !self.at(Tok::RParen) {
            self.arguments(&mut call, plain)?;
        }
        self.expect_argument_count(&call, plain)?;
        if plain && self.is_oracle() {
            call.name = oracle_name(&call.name).to_owned();
        }
        self.expect(Tok::RParen)?;
        let window = plain && WINDOW_ONLY.contains(&call.name.as_str());
        if aggregate || window {
            self.over(&mut call)?;
        }
        Ok(Expr::Function(call))
    }

    #[inline(never)]
    fn arguments(&mut self, call: &mut FunctionCall, plain: bool) -> SqlResult<()> {
        let arity = ARITY.iter().find(|entry| plain && entry.0 == call.name);
        let most = arity.map_or(usize::MAX, |entry| entry.2);
        if most == 0 {
            return Err(self.unexpected());
        }
        let in_grammar = arity.is_some() || plain && IN_GRAMMAR.contains(&call.name.as_str());
        let may_be_named = call.db.is_none() && !in_grammar;
        loop {
            call.args.push(self.expr()?);
            if call.name == "weight_string" && plain && self.weight_options(&mut call.args)? {
                return Ok(());
            }
            call.named.0 |= may_be_named && self.select_alias()?.is_some();
            if call.args.len() == most || !self.accept(Tok::Comma) {
                return Ok(());
            }
        }
    }

    /// Too few arguments are an error at the closing parenthesis.
    fn expect_argument_count(&self, call: &FunctionCall, plain: bool) -> SqlResult<()> {
        let least = ARITY.iter().find(|entry| plain && entry.0 == call.name).map_or(0, |entry| entry.1);
        if call.args.len() < least { Err(self.unexpected()) } else { Ok(()) }
    }

    #[inline(never)]
    fn aggregate_arguments(&mut self, call: &mut FunctionCall) -> SqlResult<()> {
        call.distinct = DISTINCT.contains(&call.name.as_str()) && self.accept_kw(Kw::DISTINCT);
        if !call.distinct
            && !matches!(call.name.as_str(), "group_concat" | "json_arrayagg" | "json_objectagg")
        {
            self.accept_kw(Kw::ALL);
        }
        match call.name.as_str() {
            "count" if !call.distinct && self.accept(Tok::Star) => call.star = true,
            "count" if !call.distinct => call.args = vec![self.expr()?],
            "count" => call.args = self.list(Self::expr)?,
            "group_concat" | "json_arrayagg" => {
                call.args = self.list(Self::expr)?;
                if self.accept_then(Kw::ORDER, &[Kw::BY])? {
                    call.order_by = self.order_items()?;
                }
                if call.name == "group_concat" && self.accept_kw(Kw::SEPARATOR) {
                    call.separator = Some(self.string_or_bytes()?);
                }
                call.limit = self.limit()?;
            }
            _ => {
                self.arguments(call, true)?;
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn over(&mut self, call: &mut FunctionCall) -> SqlResult<()> {
        let name = call.name.as_str();
        let percentile = matches!(name, "percentile_cont" | "percentile_disc");
        let must = WINDOW_ONLY.contains(&name) && name != "last_value";
        if percentile {
            self.expect_kw(Kw::WITHIN)?;
            self.expect_kw(Kw::GROUP)?;
            self.expect(Tok::LParen)?;
            self.expect_kw(Kw::ORDER)?;
            self.expect_kw(Kw::BY)?;
            call.order_by = vec![self.order_item()?];
            self.expect(Tok::RParen)?;
        }
        if name == "last_value" && call.args.len() > 1 {
            // The function of the same name, which gives the last of its arguments.
            return Ok(());
        }
        if must && !self.at_kw(Kw::OVER) {
            return Err(self.unexpected());
        }
        if !self.accept_kw(Kw::OVER) {
            return Ok(());
        }
        call.over = Some(if percentile || name == "median" {
            self.partition_only()?
        } else if self.at(Tok::LParen) {
            self.window_spec()?
        } else {
            WindowSpec { name: Some(self.ident()?), is_name: true, ..WindowSpec::default() }
        });
        Ok(())
    }

    /// The calls whose arguments have a syntax of their own; at the first argument.
    #[inline(never)]
    fn special_call(&mut self, name: &str) -> SqlResult<Option<Expr>> {
        Ok(Some(match name {
            "cast" => {
                let expr = Box::new(self.expr()?);
                self.expect_kw(Kw::AS)?;
                Expr::Cast { expr, to: self.cast_type()? }
            }
            "extract" => {
                let unit = self.interval_unit()?;
                self.expect_kw(Kw::FROM)?;
                Expr::Extract { unit, expr: Box::new(self.expr()?) }
            }
            "trim" => self.trim(self.is_oracle())?,
            "trim_oracle" => self.trim(true)?,
            "date_add" | "date_sub" | "adddate" | "subdate" => self.date_add(name)?,
            "timestampadd" | "timestampdiff" => self.timestamp_function(name == "timestampadd")?,
            "position" => {
                let what = self.bit_expr()?;
                self.expect_kw(Kw::IN)?;
                plain_call("locate", vec![what, self.expr()?])
            }
            "substring" => self.substring()?,
            "get_format" => self.get_format()?,
            "now" | "curtime" | "sysdate" | "utc_time" | "utc_timestamp" if !self.at(Tok::RParen) => {
                if !self.at(Tok::Int) {
                    return Err(self.unexpected());
                }
                let precision = self.literal()?;
                self.fix_literals(self.pos - 1);
                plain_call(name, vec![precision])
            }
            _ => return Ok(None),
        }))
    }

    #[inline(never)]
    fn trim(&mut self, oracle: bool) -> SqlResult<Expr> {
        let said = self.accept_any(&[Kw::BOTH, Kw::LEADING, Kw::TRAILING]);
        let side = match said {
            Some(Kw::LEADING) => TrimSide::Leading,
            Some(Kw::TRAILING) => TrimSide::Trailing,
            _ => TrimSide::Both,
        };
        if said.is_some() && self.accept_kw(Kw::FROM) {
            return Ok(Expr::Trim { side, what: None, expr: Box::new(self.expr()?), oracle });
        }
        let first = self.expr()?;
        if said.is_some() || self.at_kw(Kw::FROM) {
            self.expect_kw(Kw::FROM)?;
            let what = Some(Box::new(first));
            return Ok(Expr::Trim { side, what, expr: Box::new(self.expr()?), oracle });
        }
        Ok(Expr::Trim { side, what: None, expr: Box::new(first), oracle })
    }

    #[inline(never)]
    fn date_add(&mut self, name: &str) -> SqlResult<Expr> {
        let subtract = matches!(name, "date_sub" | "subdate");
        let expr = Box::new(self.expr()?);
        self.expect(Tok::Comma)?;
        if self.at_kw(Kw::INTERVAL) {
            let (amount, unit) = self.interval()?;
            return Ok(Expr::DateArithmetic { expr, amount, unit, subtract });
        }
        if matches!(name, "date_add" | "date_sub") {
            return Err(self.unexpected());
        }
        let amount = Box::new(self.expr()?);
        Ok(Expr::DateArithmetic { expr, amount, unit: IntervalUnit::Day, subtract })
    }

    #[inline(never)]
    fn timestamp_function(&mut self, add: bool) -> SqlResult<Expr> {
        let unit = self.timestamp_unit()?;
        self.expect(Tok::Comma)?;
        let first = Box::new(self.expr()?);
        self.expect(Tok::Comma)?;
        let second = Box::new(self.expr()?);
        Ok(if add {
            Expr::TimestampAdd { unit, amount: first, expr: second }
        } else {
            Expr::TimestampDiff { unit, from: first, to: second }
        })
    }

    #[inline(never)]
    fn substring(&mut self) -> SqlResult<Expr> {
        let mut args = vec![self.expr()?];
        let from = self.accept_kw(Kw::FROM);
        if !from {
            self.expect(Tok::Comma)?;
        }
        args.push(self.expr()?);
        let more = if from { self.accept_kw(Kw::FOR) } else { self.accept(Tok::Comma) };
        if more {
            args.push(self.expr()?);
        }
        Ok(plain_call(if self.is_oracle() { "substr_oracle" } else { "substring" }, args))
    }

    /// `GET_FORMAT(DATE, 'USA')`: the type becomes a string argument.
    #[inline(never)]
    fn get_format(&mut self) -> SqlResult<Expr> {
        let kind = self.expect_any(&[Kw::DATE, Kw::TIME, Kw::DATETIME, Kw::TIMESTAMP])?;
        self.expect(Tok::Comma)?;
        let kind = if kind == Kw::TIMESTAMP { "DATETIME" } else { kind.name() };
        let kind = Self::constant(LiteralValue::String { bytes: kind.into(), charset: None });
        Ok(plain_call("get_format", vec![kind, self.expr()?]))
    }

    /// A unit of INTERVAL.
    pub(super) fn interval_unit(&mut self) -> SqlResult<IntervalUnit> {
        let unit = self.peek().kw.and_then(interval_unit).ok_or_else(|| self.unexpected())?;
        self.advance();
        Ok(unit)
    }

    /// A unit of TIMESTAMPADD: a simple one, `SQL_TSI_` before it or not.
    fn timestamp_unit(&mut self) -> SqlResult<IntervalUnit> {
        let unit = match self.peek().kw {
            Some(Kw::SQL_TSI_SECOND) => Some(IntervalUnit::Second),
            Some(Kw::SQL_TSI_MINUTE) => Some(IntervalUnit::Minute),
            Some(Kw::SQL_TSI_HOUR) => Some(IntervalUnit::Hour),
            Some(Kw::SQL_TSI_DAY) => Some(IntervalUnit::Day),
            Some(Kw::SQL_TSI_WEEK) => Some(IntervalUnit::Week),
            Some(Kw::SQL_TSI_MONTH) => Some(IntervalUnit::Month),
            Some(Kw::SQL_TSI_QUARTER) => Some(IntervalUnit::Quarter),
            Some(Kw::SQL_TSI_YEAR) => Some(IntervalUnit::Year),
            Some(kw) => interval_unit(kw).filter(|&unit| (unit as u8) <= IntervalUnit::Year as u8),
            None => None,
        };
        let unit = unit.ok_or_else(|| self.unexpected())?;
        self.advance();
        Ok(unit)
    }

    /// ORDER BY's items.
    pub(super) fn order_items(&mut self) -> SqlResult<Vec<OrderItem>> {
        self.list(Self::order_item)
    }
}

/// A call without anything special.
pub(super) fn plain_call(name: &str, args: Vec<Expr>) -> Expr {
    Expr::Function(Box::new(FunctionCall {
        named: Default::default(),
        db: None,
        name: name.to_owned(),
        written: SourceText(name.to_owned()),
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

fn interval_unit(kw: Kw) -> Option<IntervalUnit> {
    Some(match kw {
        Kw::MICROSECOND => IntervalUnit::Microsecond,
        Kw::SECOND => IntervalUnit::Second,
        Kw::MINUTE => IntervalUnit::Minute,
        Kw::HOUR => IntervalUnit::Hour,
        Kw::DAY => IntervalUnit::Day,
        Kw::WEEK => IntervalUnit::Week,
        Kw::MONTH => IntervalUnit::Month,
        Kw::QUARTER => IntervalUnit::Quarter,
        Kw::YEAR => IntervalUnit::Year,
        Kw::SECOND_MICROSECOND => IntervalUnit::SecondMicrosecond,
        Kw::MINUTE_MICROSECOND => IntervalUnit::MinuteMicrosecond,
        Kw::MINUTE_SECOND => IntervalUnit::MinuteSecond,
        Kw::HOUR_MICROSECOND => IntervalUnit::HourMicrosecond,
        Kw::HOUR_SECOND => IntervalUnit::HourSecond,
        Kw::HOUR_MINUTE => IntervalUnit::HourMinute,
        Kw::DAY_MICROSECOND => IntervalUnit::DayMicrosecond,
        Kw::DAY_SECOND => IntervalUnit::DaySecond,
        Kw::DAY_MINUTE => IntervalUnit::DayMinute,
        Kw::DAY_HOUR => IntervalUnit::DayHour,
        Kw::YEAR_MONTH => IntervalUnit::YearMonth,
        _ => return None,
    })
}
