//! Queries: SELECT, VALUES, set operations, WITH, ORDER BY, LIMIT, windows.

use super::Parser;
use super::cursor::NAME_SOURCE_MAX;
use crate::ast::{
    CommonTable, Expr, FrameBound, FrameExclude, IntoTarget, LateInto, Limit, LiteralValue, LockClause,
    LockWait, OrderItem, Query, QueryBody, Select, SelectInto, SelectItem, SelectOptions, SetOp, SetOperand,
    SourceText, WindowFrame, WindowSpec, With,
};
use crate::keyword::Kw;
use crate::lexer::Tok;
use keel_base::{SqlResult, errors};

/// Characters that a name has at most.
const NAME_CHARS_MAX: usize = 64;

/// A column's name made of a text: without blanks and control characters in front, and no NUL, which no name can have.
fn column_name_of(text: &str) -> String {
    let shown = text.trim_start_matches(|c: char| c <= ' ' || c == '\x7f');
    shown.replace('\0', "\\x00")
}

/// Whether a view's text may have it as the name of a select item.
fn is_name_of_column(name: &str) -> bool {
    !name.is_empty() && !name.ends_with(' ') && name.chars().count() <= NAME_CHARS_MAX
}

/// A query that is a body only.
fn bare(body: QueryBody) -> Query {
    let (order_by, late_into) = (Vec::new(), LateInto::default());
    Query { with: None, body, order_by, limit: None, into: None, late_into, lock: None }
}

/// The query in parentheses as an operand of a set operation: its parentheses are dropped where they say nothing.
fn operand(query: Box<Query>) -> QueryBody {
    let plain = query.is_bare() && matches!(query.body, QueryBody::Select(_) | QueryBody::Values(..));
    if plain { query.body } else { QueryBody::Nested(query) }
}

/// Operands of set operations; one alone is itself.
fn chained(first: QueryBody, rest: Vec<SetOperand>) -> QueryBody {
    if rest.is_empty() { first } else { QueryBody::SetOps { first: Box::new(first), rest } }
}

impl Parser<'_> {
    /// Whether a query begins here with a word.
    pub(super) fn at_query_word(&self) -> bool {
        match self.peek().kw {
            Some(Kw::SELECT | Kw::WITH) => true,
            Some(Kw::VALUES) => !self.in_on_duplicate,
            _ => false,
        }
    }

    /// Whether what comes next continues a query in parentheses.
    pub(super) fn at_query_continuation(&self) -> bool {
        self.at_any(&[Kw::UNION, Kw::EXCEPT, Kw::INTERSECT, Kw::ORDER, Kw::LIMIT, Kw::OFFSET, Kw::FETCH])
            || self.at_lock_clause()
    }

    fn at_lock_clause(&self) -> bool {
        self.at_kws(&[Kw::FOR, Kw::UPDATE]) || self.at_kws(&[Kw::LOCK, Kw::IN])
    }

    /// A query that is a statement, or as good as one: it may have INTO.
    pub(super) fn whole_query(&mut self) -> SqlResult<Box<Query>> {
        self.into_next = true;
        self.first_query()
    }

    /// The query of a statement: its first SELECT alone may say how the whole is run.
    pub(super) fn first_query(&mut self) -> SqlResult<Box<Query>> {
        self.first_next = true;
        self.query()
    }

    /// A query, with WITH and what follows its body.
    #[inline(never)]
    pub(super) fn query(&mut self) -> SqlResult<Box<Query>> {
        let next = std::mem::take(&mut self.into_next);
        let outer = std::mem::replace(&mut self.into_here, next);
        let query = self.query_within()?;
        self.into_here = outer;
        Ok(query)
    }

    fn query_within(&mut self) -> SqlResult<Box<Query>> {
        let is_first = std::mem::take(&mut self.first_next);
        self.nested(|parser| {
            let with = if parser.at_kw(Kw::WITH) { Some(parser.with()?) } else { None };
            let mut into = None;
            parser.first_next = is_first;
            let first = parser.primary_body(&mut into)?;
            let query = parser.finish_query(first, into)?;
            Ok(merge_with(with, query))
        })
    }

    /// The query that begins with `first`, which stood in parentheses.
    #[inline(never)]
    pub(super) fn query_after(&mut self, first: Box<Query>) -> SqlResult<Box<Query>> {
        let outer = std::mem::take(&mut self.into_here);
        let query = self.finish_query(operand(first), None)?;
        self.into_here = outer;
        Ok(query)
    }

    /// Set operations, ORDER BY, LIMIT, INTO and lock clause behind the first body.
    #[inline(never)]
    fn finish_query(&mut self, first: QueryBody, mut into: Option<SelectInto>) -> SqlResult<Box<Query>> {
        let body = self.set_operations(first, &mut into)?;
        let in_brackets = self.last_in_brackets;
        let mut query = Box::new(bare(body));
        if self.accept_then(Kw::ORDER, &[Kw::BY])? {
            let first = self.pos;
            query.order_by = self.order_items()?;
            if compares_items(&query.body) {
                self.fix_literals(first);
            }
        }
        query.limit = self.limit()?;
        query.into = into;
        let mut late = self.accept_into(&mut query.into)?;
        query.lock = self.lock_clause()?;
        if query.lock.is_some() && in_brackets {
            return Err(errors::wrong_usage("lock options", "SELECT in brackets"));
        }
        late |= self.accept_into(&mut query.into)?;
        query.late_into = LateInto(late || std::mem::take(&mut self.into_late));
        // `(query)` alone is the query.
        let alone = query.order_by.is_empty()
            && query.limit.is_none()
            && query.into.is_none()
            && query.lock.is_none();
        if alone && let QueryBody::Nested(inner) = query.body {
            return Ok(inner);
        }
        Ok(query)
    }

    #[inline(never)]
    fn set_operations(&mut self, first: QueryBody, into: &mut Option<SelectInto>) -> SqlResult<QueryBody> {
        self.last_in_brackets = false;
        let first = self.intersections(first, into)?;
        let mut rest = Vec::new();
        let (mut length, mut before) = (0, Kw::UNION);
        while into.is_none()
            && let Some(kw) = self.accept_any(&[Kw::UNION, Kw::EXCEPT])
        {
            self.chain_of_queries(&mut length, kw == Kw::UNION && before == Kw::UNION)?;
            before = kw;
            let all = self.set_quantifier();
            let body = self.operand_body(into)?;
            let body = self.intersections(body, into)?;
            self.into_late |= into.is_some();
            let op = if kw == Kw::UNION { SetOp::Union } else { SetOp::Except };
            rest.push(SetOperand { op, all, body });
        }
        Ok(chained(first, rest))
    }

    fn intersections(&mut self, first: QueryBody, into: &mut Option<SelectInto>) -> SqlResult<QueryBody> {
        let mut rest = Vec::new();
        let mut length = 0;
        while into.is_none() && self.accept_kw(Kw::INTERSECT) {
            self.chain_of_queries(&mut length, false)?;
            let all = self.set_quantifier();
            let body = self.operand_body(into)?;
            self.into_late |= into.is_some();
            rest.push(SetOperand { op: SetOp::Intersect, all, body });
        }
        Ok(chained(first, rest))
    }

    fn set_quantifier(&mut self) -> bool {
        let all = self.accept_kw(Kw::ALL);
        if !all {
            self.accept_kw(Kw::DISTINCT);
        }
        all
    }

    /// The right side of a set operation.
    fn operand_body(&mut self, into: &mut Option<SelectInto>) -> SqlResult<QueryBody> {
        let in_brackets = self.at(Tok::LParen);
        let body = self.primary_body(into)?;
        self.last_in_brackets = in_brackets;
        Ok(body)
    }

    /// SELECT, VALUES or a query in parentheses.
    #[inline(never)]
    fn primary_body(&mut self, into: &mut Option<SelectInto>) -> SqlResult<QueryBody> {
        if self.at(Tok::LParen) {
            let query = self.nested(Self::parenthesized_query)?;
            return Ok(operand(query));
        }
        let is_first = std::mem::take(&mut self.first_next);
        if self.accept_kw(Kw::VALUES) {
            let mut names = Vec::new();
            let mut is_first = true;
            let rows = self.list(|parser| {
                let row = parser.parens(|parser| {
                    let first = parser.pos;
                    let value = parser.expr()?;
                    if is_first {
                        names.push(parser.item_text(first, &value));
                    }
                    Ok(value)
                })?;
                is_first = false;
                Ok(row)
            })?;
            return Ok(QueryBody::Values(rows, names));
        }
        self.expect_kw(Kw::SELECT)?;
        Ok(QueryBody::Select(self.select(is_first, into)?))
    }

    fn parenthesized_query(&mut self) -> SqlResult<Box<Query>> {
        self.expect(Tok::LParen)?;
        let query = self.query()?;
        self.expect(Tok::RParen)?;
        Ok(query)
    }

    #[inline(never)]
    pub(super) fn with(&mut self) -> SqlResult<With> {
        self.expect_kw(Kw::WITH)?;
        let recursive = self.accept_kw(Kw::RECURSIVE);
        let tables = self.list(|parser| parser.common_table(recursive))?;
        Ok(With { recursive, tables })
    }

    fn common_table(&mut self, recursive: bool) -> SqlResult<CommonTable> {
        let name = self.ident()?;
        let columns = if self.at(Tok::LParen) { self.parens(Self::ident)? } else { Vec::new() };
        self.expect_kw(Kw::AS)?;
        let query = self.subquery()?;
        let mut cycle = Vec::new();
        if recursive && self.accept_kw(Kw::CYCLE) {
            cycle = self.list(Self::ident)?;
            self.expect_kw(Kw::RESTRICT)?;
        }
        Ok(CommonTable { name, columns, query, cycle })
    }

    /// Behind SELECT.
    #[inline(never)]
    fn select(&mut self, is_first: bool, into: &mut Option<SelectInto>) -> SqlResult<Box<Select>> {
        let mut select = Box::new(Select {
            options: self.select_options(is_first)?,
            items: Vec::new(),
            from: Vec::new(),
            filter: None,
            group_by: Vec::new(),
            rollup: false,
            having: None,
            windows: Vec::new(),
        });
        let first = self.pos;
        select.items = self.select_items()?;
        let items = first..self.pos;
        let early_into = self.accept_into(into)?;
        if self.accept_kw(Kw::FROM) {
            if !self.accept_kw(Kw::DUAL) {
                select.from = self.table_refs()?;
            }
            self.select_clauses(&mut select)?;
        } else if !early_into {
            self.select_clauses(&mut select)?;
        }
        if !select.group_by.is_empty() {
            // Whether an item is one of those grouped by is seen by comparing trees.
            self.fix_literals_in(items);
        }
        self.into_late |= self.accept_into(into)?;
        Ok(select)
    }

    /// INTO, where none was said before.
    fn accept_into(&mut self, into: &mut Option<SelectInto>) -> SqlResult<bool> {
        let found = self.into_here && into.is_none() && self.at_kw(Kw::INTO);
        if found {
            *into = Some(self.select_into()?);
        }
        Ok(found)
    }

    /// WHERE, GROUP BY, HAVING, WINDOW.
    #[inline(never)]
    fn select_clauses(&mut self, select: &mut Select) -> SqlResult<()> {
        select.filter = self.filter()?;
        if self.accept_then(Kw::GROUP, &[Kw::BY])? {
            let first = self.pos;
            select.group_by = self.order_items()?;
            self.fix_literals(first);
            select.rollup = self.accept_kws(&[Kw::WITH, Kw::ROLLUP]);
        }
        if self.accept_kw(Kw::HAVING) {
            let first = self.pos;
            select.having = Some(self.expr()?);
            if !select.group_by.is_empty() {
                self.fix_literals(first);
            }
        }
        if self.accept_kw(Kw::WINDOW) {
            select.windows = self.list(|parser| {
                let name = parser.ident()?;
                parser.expect_kw(Kw::AS)?;
                Ok((name, parser.window_spec()?))
            })?;
        }
        if self.at_kw(Kw::PROCEDURE) {
            return Err(errors::not_supported_yet("PROCEDURE"));
        }
        Ok(())
    }

    /// WHERE.
    pub(super) fn filter(&mut self) -> SqlResult<Option<Expr>> {
        if self.accept_kw(Kw::WHERE) { Ok(Some(self.expr()?)) } else { Ok(None) }
    }

    fn select_options(&mut self, is_first: bool) -> SqlResult<SelectOptions> {
        let mut options = SelectOptions::default();
        let mut caches = [false; 2];
        while let Some(kw) = self.peek().kw {
            match kw {
                Kw::DISTINCT | Kw::DISTINCTROW => options.distinct = true,
                Kw::ALL => options.all = true,
                Kw::HIGH_PRIORITY => options.high_priority = true,
                Kw::STRAIGHT_JOIN => options.straight_join = true,
                Kw::SQL_SMALL_RESULT => options.small_result = true,
                Kw::SQL_BIG_RESULT => options.big_result = true,
                Kw::SQL_BUFFER_RESULT => options.buffer_result = true,
                Kw::SQL_CACHE | Kw::SQL_NO_CACHE => {
                    let cache = kw == Kw::SQL_CACHE;
                    if is_first && std::mem::replace(&mut caches[usize::from(cache)], true) {
                        return Err(errors::dup_argument(cache_word(cache)));
                    }
                    options.cache = Some(cache);
                }
                Kw::SQL_CALC_FOUND_ROWS => options.calc_found_rows = true,
                _ => break,
            }
            self.advance();
        }
        if options.all && options.distinct {
            return Err(errors::wrong_usage("ALL", "DISTINCT"));
        }
        if caches == [true; 2] {
            return Err(errors::wrong_usage(cache_word(false), cache_word(true)));
        }
        match misplaced(&options) {
            Some(word) if !is_first => Err(errors::cant_use_option_here(word)),
            _ => Ok(options),
        }
    }

    /// A select list.
    #[inline(never)]
    pub(super) fn select_items(&mut self) -> SqlResult<Vec<SelectItem>> {
        let mut items = Vec::new();
        if self.accept(Tok::Star) {
            items.push(SelectItem::Wildcard { db: None, table: None });
        } else {
            items.push(self.select_item()?);
        }
        while self.accept(Tok::Comma) {
            items.push(self.select_item()?);
        }
        Ok(items)
    }

    #[inline(never)]
    fn select_item(&mut self) -> SqlResult<SelectItem> {
        if let Some(wildcard) = self.qualified_wildcard()? {
            return Ok(wildcard);
        }
        let first = self.pos;
        let expr = self.expr()?;
        let text = self.item_text(first, &expr);
        let last = self.pos;
        let alias = self.select_alias()?;
        if alias.is_none() {
            debug_assert_eq!(last, self.pos);
            self.fix_literals(first);
        }
        Ok(SelectItem::Expr { expr, alias, text })
    }

    /// `t.*`, `db.t.*`.
    fn qualified_wildcard(&mut self) -> SqlResult<Option<SelectItem>> {
        let star_at =
            |ahead: usize| self.peek_at(ahead).tok == Tok::Dot && self.peek_at(ahead + 1).tok == Tok::Star;
        let qualified = self.at_ident() && self.peek_at(1).tok == Tok::Dot;
        let table_only = qualified && star_at(1);
        let with_db = qualified && Self::is_ident(self.peek_at(2)) && star_at(3);
        if !table_only && !with_db {
            return Ok(None);
        }
        let first = self.ident()?;
        self.advance();
        let (db, table) = if with_db {
            let table = self.ident()?;
            self.advance();
            (Some(first), table)
        } else {
            (None, first)
        };
        self.expect(Tok::Star)?;
        Ok(Some(SelectItem::Wildcard { db, table: Some(table) }))
    }

    pub(super) fn select_alias(&mut self) -> SqlResult<Option<String>> {
        let given =
            self.accept_kw(Kw::AS) || self.at(Tok::String) || (self.at_ident() && !self.at_kw(Kw::SOUNDS));
        if !given {
            return Ok(None);
        }
        let written = self.ident_or_text()?;
        let name = column_name_of(&written);
        if self.in_view && !is_name_of_column(&written) {
            return Err(errors::wrong_column_name(written));
        }
        if name.len() != written.len() && !written.contains('\0') {
            self.trimmed.push(written);
        }
        Ok(Some(name))
    }

    /// The name that MariaDB gives to a column without alias: a column's own name, a string's content, a number's digits, NULL, and
    /// else the text.
    fn item_text(&self, first: usize, expr: &Expr) -> SourceText {
        let name = match expr {
            Expr::Column(column) => column.column.clone(),
            Expr::Literal(literal) => match &literal.value {
                LiteralValue::Null => "NULL".to_owned(),
                LiteralValue::Bool(true) => "TRUE".to_owned(),
                LiteralValue::Bool(false) => "FALSE".to_owned(),
                LiteralValue::String { bytes, .. } => {
                    let beginning = &bytes.0[..bytes.0.len().min(NAME_SOURCE_MAX)];
                    column_name_of(&String::from_utf8_lossy(beginning))
                }
                LiteralValue::Int(_) | LiteralValue::Decimal(_) | LiteralValue::Float(_) => {
                    self.number_text(first)
                }
                _ => self.source(first).0,
            },
            _ => self.source(first).0,
        };
        SourceText(name)
    }

    /// The digits of the first number from token `first` on, without parentheses around it.
    fn number_text(&self, first: usize) -> String {
        let token = self.tokens[first..self.pos].iter().find(|token| token.tok.is_literal());
        token.map(|&token| String::from_utf8_lossy(self.text_of(token)).into_owned()).unwrap_or_default()
    }

    pub(super) fn order_item(&mut self) -> SqlResult<OrderItem> {
        let first = self.pos;
        let expr = self.expr()?;
        // A lone number is an ordinal.
        if matches!(expr, Expr::Literal(_)) {
            self.fix_literals(first);
        }
        let desc = match self.accept_any(&[Kw::ASC, Kw::DESC]) {
            Some(kw) => kw == Kw::DESC,
            None => false,
        };
        Ok(OrderItem { expr, desc })
    }

    /// LIMIT, or OFFSET and FETCH.
    #[inline(never)]
    pub(super) fn limit(&mut self) -> SqlResult<Option<Limit>> {
        let mut limit = Limit { count: None, offset: None, rows_examined: None, with_ties: false };
        if self.accept_kw(Kw::LIMIT) {
            if self.accept_then(Kw::ROWS, &[Kw::EXAMINED])? {
                limit.rows_examined = Some(self.limit_option()?);
                return Ok(Some(limit));
            }
            let first = self.limit_option()?;
            if self.accept(Tok::Comma) {
                limit.offset = Some(first);
                limit.count = Some(self.limit_option()?);
            } else {
                limit.count = Some(first);
                if self.accept_kw(Kw::OFFSET) {
                    limit.offset = Some(self.limit_option()?);
                }
            }
            if self.accept_then(Kw::ROWS, &[Kw::EXAMINED])? {
                limit.rows_examined = Some(self.limit_option()?);
            }
            return Ok(Some(limit));
        }
        if self.accept_kw(Kw::OFFSET) {
            limit.offset = Some(self.limit_option()?);
            self.expect_any(&[Kw::ROW, Kw::ROWS])?;
            if !self.at_kw(Kw::FETCH) {
                return Ok(Some(limit));
            }
        }
        if !self.accept_kw(Kw::FETCH) {
            return Ok(None);
        }
        self.expect_any(&[Kw::FIRST, Kw::NEXT])?;
        limit.count = Some(if self.at_any(&[Kw::ROW, Kw::ROWS]) {
            Self::constant(LiteralValue::Int(1))
        } else {
            self.limit_option()?
        });
        self.expect_any(&[Kw::ROW, Kw::ROWS])?;
        match self.expect_any(&[Kw::ONLY, Kw::WITH])? {
            Kw::WITH => {
                self.expect_kw(Kw::TIES)?;
                limit.with_ties = true;
            }
            _ => limit.with_ties = false,
        }
        Ok(Some(limit))
    }

    /// A number or parameter of LIMIT.
    pub(super) fn limit_option(&mut self) -> SqlResult<Expr> {
        match self.peek().tok {
            Tok::Int => self.literal(),
            Tok::Param if self.options.prepare => Ok(Expr::Param(self.advance().index)),
            // Names are variables of stored programs.
            _ if self.at_ident() => Err(errors::sp_undeclared_var(self.ident()?)),
            _ => Err(self.unexpected()),
        }
    }

    #[inline(never)]
    fn select_into(&mut self) -> SqlResult<SelectInto> {
        self.expect_kw(Kw::INTO)?;
        if self.accept_kw(Kw::DUMPFILE) {
            return Ok(SelectInto::Dumpfile(self.string()?));
        }
        if self.accept_kw(Kw::OUTFILE) {
            let file = self.string()?;
            let charset =
                if self.accept_charset_words()? { Some(self.charset_or_collation()?) } else { None };
            let format = self.file_format()?;
            return Ok(SelectInto::Outfile { file, charset, format });
        }
        let targets = self.list(|parser| {
            if parser.at(Tok::At) {
                return Ok(IntoTarget::UserVar(parser.user_var_name()?));
            }
            Ok(IntoTarget::Local(parser.ident()?))
        })?;
        Ok(SelectInto::Variables(targets))
    }

    fn lock_clause(&mut self) -> SqlResult<Option<LockClause>> {
        let update = self.accept_then(Kw::FOR, &[Kw::UPDATE])?;
        if !update && !self.accept_then(Kw::LOCK, &[Kw::IN, Kw::SHARE, Kw::MODE])? {
            return Ok(None);
        }
        let wait = if self.accept_then(Kw::SKIP, &[Kw::LOCKED])? {
            Some(LockWait::SkipLocked)
        } else {
            self.lock_wait()?
        };
        Ok(Some(LockClause { update, wait }))
    }

    /// WAIT n or NOWAIT.
    pub(super) fn lock_wait(&mut self) -> SqlResult<Option<LockWait>> {
        if self.accept_kw(Kw::NOWAIT) {
            return Ok(Some(LockWait::NoWait));
        }
        if self.accept_kw(Kw::WAIT) {
            return Ok(Some(LockWait::Wait(self.ulong()?)));
        }
        Ok(None)
    }

    /// `(name PARTITION BY ... ORDER BY ... frame)`.
    #[inline(never)]
    pub(super) fn window_spec(&mut self) -> SqlResult<WindowSpec> {
        self.expect(Tok::LParen)?;
        let name = if self.at_ident() { Some(self.ident()?) } else { None };
        let mut spec = WindowSpec { name, ..WindowSpec::default() };
        if self.accept_then(Kw::PARTITION, &[Kw::BY])? {
            spec.partition_by = self.list(Self::expr)?;
        }
        if self.accept_then(Kw::ORDER, &[Kw::BY])? {
            spec.order_by = self.order_items()?;
        }
        if let Some(kw) = self.accept_any(&[Kw::ROWS, Kw::RANGE]) {
            spec.frame = Some(self.window_frame(kw == Kw::RANGE)?);
        }
        self.expect(Tok::RParen)?;
        Ok(spec)
    }

    /// `([PARTITION BY ...])`, all that percentiles take.
    pub(super) fn partition_only(&mut self) -> SqlResult<WindowSpec> {
        self.expect(Tok::LParen)?;
        let mut spec = WindowSpec::default();
        if self.accept_then(Kw::PARTITION, &[Kw::BY])? {
            spec.partition_by = self.list(Self::expr)?;
        }
        self.expect(Tok::RParen)?;
        Ok(spec)
    }

    fn window_frame(&mut self, range: bool) -> SqlResult<WindowFrame> {
        let (start, end) = if self.accept_kw(Kw::BETWEEN) {
            let start = self.frame_bound(true)?;
            self.expect_kw(Kw::AND)?;
            (start, Some(self.frame_bound(true)?))
        } else {
            (self.frame_bound(false)?, None)
        };
        let exclude = if self.accept_kw(Kw::EXCLUDE) { Some(self.frame_exclude()?) } else { None };
        Ok(WindowFrame { range, start, end, exclude })
    }

    /// One end of a frame; FOLLOWING only behind BETWEEN.
    fn frame_bound(&mut self, between: bool) -> SqlResult<FrameBound> {
        if self.accept_then(Kw::CURRENT, &[Kw::ROW])? {
            return Ok(FrameBound::CurrentRow);
        }
        let sides: &[Kw] = if between { &[Kw::PRECEDING, Kw::FOLLOWING] } else { &[Kw::PRECEDING] };
        if self.accept_kw(Kw::UNBOUNDED) {
            return Ok(match self.expect_any(sides)? {
                Kw::PRECEDING => FrameBound::UnboundedPreceding,
                _ => FrameBound::UnboundedFollowing,
            });
        }
        let offset = Box::new(match self.accept_any(&[Kw::NULL, Kw::TRUE, Kw::FALSE]) {
            Some(Kw::NULL) => Self::constant(LiteralValue::Null),
            Some(word) => Self::constant(LiteralValue::Bool(word == Kw::TRUE)),
            None => self.literal()?,
        });
        Ok(match self.expect_any(sides)? {
            Kw::PRECEDING => FrameBound::Preceding(offset),
            _ => FrameBound::Following(offset),
        })
    }

    fn frame_exclude(&mut self) -> SqlResult<FrameExclude> {
        Ok(match self.expect_any(&[Kw::NO, Kw::CURRENT, Kw::GROUP, Kw::TIES])? {
            Kw::NO => {
                self.expect_kw(Kw::OTHERS)?;
                FrameExclude::NoOthers
            }
            Kw::CURRENT => {
                self.expect_kw(Kw::ROW)?;
                FrameExclude::CurrentRow
            }
            Kw::GROUP => FrameExclude::Group,
            _ => FrameExclude::Ties,
        })
    }
}

fn cache_word(cache: bool) -> &'static str {
    if cache { "SQL_CACHE" } else { "SQL_NO_CACHE" }
}

/// A word that only the first SELECT of a statement may say.
fn misplaced(options: &SelectOptions) -> Option<&'static str> {
    let word = |said: bool, word| said.then_some(word);
    word(options.high_priority, "HIGH_PRIORITY")
        .or(word(options.buffer_result, "SQL_BUFFER_RESULT"))
        .or(word(options.calc_found_rows, "SQL_CALC_FOUND_ROWS"))
        .or(options.cache.map(cache_word))
}

/// Whether ORDER BY's items are looked for among those selected or grouped by.
fn compares_items(body: &QueryBody) -> bool {
    match body {
        QueryBody::Select(select) => !select.group_by.is_empty() || select.options.distinct,
        _ => true,
    }
}

/// `WITH ... query`.
fn merge_with(with: Option<With>, mut query: Box<Query>) -> Box<Query> {
    if with.is_none() {
        return query;
    }
    if query.with.is_some() {
        // `WITH a AS (...) (WITH b AS (...) SELECT ...)`
        query = Box::new(bare(QueryBody::Nested(query)));
    }
    query.with = with;
    query
}
