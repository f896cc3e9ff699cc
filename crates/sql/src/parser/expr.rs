//! Expressions above the predicates: OR, XOR, AND, NOT, IS and comparisons; and below them: arithmetic and operands.
//!
//! MariaDB's levels, from loose to tight: OR; XOR; AND; NOT; IS and the comparisons; BETWEEN, IN, LIKE, REGEXP; `|`; `&`;
//! shifts; `+ -`; `* / DIV %`; `^`; `||` under PIPES_AS_CONCAT; the signs, `~`, `!`, BINARY; COLLATE.

use super::{Parser, TemporalLiteral};
use crate::ast::{
    BinaryOp, ColumnName, Expr, IntervalUnit, IsTest, Literal, LiteralValue, Query, SysVar, UnaryOp, VarScope,
};
use crate::keyword::Kw;
use crate::lexer::Tok;
use keel_base::SqlResult;

/// Levels of binding.
const OR: u8 = 1;
const XOR: u8 = 2;
const AND: u8 = 3;
const NOT: u8 = 4;
const COMPARISON: u8 = 5;
const PREDICATE: u8 = 7;
const BIT_OR: u8 = 8;
const BIT_AND: u8 = 9;
const SHIFT: u8 = 10;
const SUM: u8 = 11;
const PRODUCT: u8 = 12;
const BIT_XOR: u8 = 13;
const CONCAT: u8 = 14;

/// What stands behind an operand.
#[derive(Debug, Clone, Copy)]
enum Operator {
    /// AND, OR: their chains become balanced trees.
    Chain(BinaryOp),
    /// Any other with two operands.
    Binary(BinaryOp),
    /// IS.
    Is,
    /// BETWEEN, IN, LIKE, ..., NOT before it or not.
    Predicate(Kw, bool),
}

/// What a parenthesis held.
pub(super) enum Parenthesized {
    /// A query.
    Query(Box<Query>),
    /// One or more expressions.
    Exprs(Vec<Expr>),
}

pub(super) fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    Expr::Binary { op, left: Box::new(left), right: Box::new(right) }
}

/// Joins operands of AND or OR into a tree of logarithmic depth, in their order; operands that are such chains themselves are
/// taken apart first, so that a chain has one shape however it was parenthesised.
fn balanced(op: BinaryOp, operands: Vec<Expr>) -> Expr {
    let mut operands = flattened(op, operands);
    while operands.len() > 1 {
        let mut joined = Vec::with_capacity(operands.len().div_ceil(2));
        let mut rest = operands.into_iter();
        while let Some(left) = rest.next() {
            joined.push(match rest.next() {
                Some(right) => binary(op, left, right),
                None => left,
            });
        }
        operands = joined;
    }
    operands.swap_remove(0)
}

/// The operands of `op`, those of chains of `op` among them in place of the chains.
fn flattened(op: BinaryOp, operands: Vec<Expr>) -> Vec<Expr> {
    let mut flat = Vec::with_capacity(operands.len());
    let mut stack = operands;
    stack.reverse();
    while let Some(operand) = stack.pop() {
        match operand {
            Expr::Binary { op: inner, left, right } if inner == op => {
                stack.push(*right);
                stack.push(*left);
            }
            other => flat.push(other),
        }
    }
    flat
}

impl Parser<'_> {
    /// An expression.
    pub(super) fn expr(&mut self) -> SqlResult<Expr> {
        self.nested(|parser| parser.climb(OR))
    }

    /// A predicate, or what binds tighter.
    pub(super) fn predicate(&mut self) -> SqlResult<Expr> {
        self.climb(PREDICATE)
    }

    /// Arithmetic and bit operations.
    pub(super) fn bit_expr(&mut self) -> SqlResult<Expr> {
        self.climb(BIT_OR)
    }

    /// An operand and the operators behind it that bind at least as tightly as `min`. One function for all levels, so that a
    /// level of parentheses costs one frame of it; what an operator does stands in functions of its own.
    fn climb(&mut self, min: u8) -> SqlResult<Expr> {
        let prefixed =
            min <= NOT && self.seed.is_none() && !self.options.high_not_precedence && self.at_kw(Kw::NOT);
        let before = std::mem::take(&mut self.links);
        let mut left = if prefixed { self.not()? } else { self.simple_expr()? };
        // An operator binds looser than all before it, or its right side would have taken it.
        let mut max = if prefixed { NOT } else { CONCAT };
        let mut length = 0;
        loop {
            let next = self.operator().filter(|(_, level)| (min..=max).contains(level));
            let Some((operator, level)) = next else { break };
            max = level;
            left = match operator {
                Operator::Chain(op) => self.and_or_chain(op, left)?,
                Operator::Is => self.is_test(left)?,
                Operator::Predicate(kw, negated) => self.predicate_after(left, kw, negated)?,
                Operator::Binary(op) => self.right_operand(op, level, left)?,
            };
            self.chain(&mut length)?;
        }
        self.links = self.links.max(before);
        Ok(left)
    }

    /// NOT before an expression.
    #[inline(never)]
    fn not(&mut self) -> SqlResult<Expr> {
        self.advance();
        let expr = self.nested(|parser| parser.climb(NOT))?;
        Ok(Expr::Unary { op: UnaryOp::Not, expr: Box::new(expr) })
    }

    /// The operator that comes next, not taken, and how tightly it binds.
    fn operator(&self) -> Option<(Operator, u8)> {
        let token = self.peek();
        if token.tok != Tok::Word {
            return self.symbol(token.tok);
        }
        Some(match token.kw? {
            Kw::AND => (Operator::Chain(BinaryOp::And), AND),
            Kw::OR => (Operator::Chain(BinaryOp::Or), OR),
            Kw::XOR => (Operator::Binary(BinaryOp::Xor), XOR),
            Kw::IS => (Operator::Is, COMPARISON),
            Kw::DIV => (Operator::Binary(BinaryOp::IntDiv), PRODUCT),
            Kw::MOD => (Operator::Binary(BinaryOp::Mod), PRODUCT),
            Kw::NOT | Kw::IN | Kw::BETWEEN | Kw::LIKE | Kw::REGEXP | Kw::RLIKE | Kw::SOUNDS => {
                let (kw, negated) = self.predicate_word()?;
                (Operator::Predicate(kw, negated), PREDICATE)
            }
            _ => return None,
        })
    }

    fn symbol(&self, tok: Tok) -> Option<(Operator, u8)> {
        let (op, level) = match tok {
            Tok::OrOr if self.options.pipes_as_concat => {
                (BinaryOp::Concat, if self.is_oracle() { SUM } else { CONCAT })
            }
            Tok::OrOr => return Some((Operator::Chain(BinaryOp::Or), OR)),
            Tok::AndAnd => return Some((Operator::Chain(BinaryOp::And), AND)),
            Tok::Pipe => (BinaryOp::BitOr, BIT_OR),
            Tok::Amp => (BinaryOp::BitAnd, BIT_AND),
            Tok::ShiftLeft => (BinaryOp::ShiftLeft, SHIFT),
            Tok::ShiftRight => (BinaryOp::ShiftRight, SHIFT),
            Tok::Plus => (BinaryOp::Add, SUM),
            Tok::Minus => (BinaryOp::Sub, SUM),
            Tok::Star => (BinaryOp::Mul, PRODUCT),
            Tok::Slash => (BinaryOp::Div, PRODUCT),
            // There it begins an attribute of a cursor.
            Tok::Percent if !self.is_oracle() => (BinaryOp::Mod, PRODUCT),
            Tok::Caret => (BinaryOp::BitXor, BIT_XOR),
            Tok::Eq => (BinaryOp::Eq, COMPARISON),
            Tok::NullSafeEq => (BinaryOp::NullSafeEq, COMPARISON),
            Tok::Ne => (BinaryOp::Ne, COMPARISON),
            Tok::Lt => (BinaryOp::Lt, COMPARISON),
            Tok::Le => (BinaryOp::Le, COMPARISON),
            Tok::Gt => (BinaryOp::Gt, COMPARISON),
            Tok::Ge => (BinaryOp::Ge, COMPARISON),
            _ => return None,
        };
        Some((Operator::Binary(op), level))
    }

    /// The rest of a chain of AND or OR.
    #[inline(never)]
    fn and_or_chain(&mut self, op: BinaryOp, first: Expr) -> SqlResult<Expr> {
        let level = if op == BinaryOp::And { AND } else { OR };
        let mut operands = vec![first];
        while matches!(self.operator(), Some((Operator::Chain(next), _)) if next == op) {
            self.advance();
            operands.push(self.climb(level + 1)?);
        }
        // Together with the link of the chain itself: the height of the balanced tree.
        self.link((operands.len() - 1).checked_ilog2().unwrap_or(0))?;
        Ok(balanced(op, operands))
    }

    #[inline(never)]
    fn is_test(&mut self, left: Expr) -> SqlResult<Expr> {
        self.advance();
        let negated = self.accept_kw(Kw::NOT);
        let test = if self.accept(Tok::NullEscape) {
            IsTest::Null
        } else {
            match self.expect_any(&[Kw::NULL, Kw::TRUE, Kw::FALSE, Kw::UNKNOWN])? {
                Kw::NULL => IsTest::Null,
                Kw::TRUE => IsTest::True,
                Kw::FALSE => IsTest::False,
                _ => IsTest::Unknown,
            }
        };
        Ok(Expr::Is { test, negated, expr: Box::new(left) })
    }

    /// At an operator: `left`, it, and its right side.
    #[inline(never)]
    fn right_operand(&mut self, op: BinaryOp, level: u8, left: Expr) -> SqlResult<Expr> {
        self.advance();
        match level {
            COMPARISON => {
                let quantifier = self.peek().kw.filter(|kw| matches!(kw, Kw::ALL | Kw::ANY | Kw::SOME));
                let subquery = self.peek_at(1).tok == Tok::LParen && op != BinaryOp::NullSafeEq;
                if let Some(quantifier) = quantifier.filter(|_| subquery) {
                    self.advance();
                    let query = self.subquery()?;
                    return Ok(Expr::Quantified {
                        op,
                        all: quantifier == Kw::ALL,
                        left: Box::new(left),
                        query,
                    });
                }
            }
            SUM if self.at_kw(Kw::INTERVAL) && !self.at_interval_function() => {
                let (amount, unit) = self.interval()?;
                let subtract = op == BinaryOp::Sub;
                return Ok(Expr::DateArithmetic { expr: Box::new(left), amount, unit, subtract });
            }
            _ => {}
        }
        let right = self.climb(level + 1)?;
        Ok(match op {
            BinaryOp::Concat if self.is_oracle() => {
                super::function::plain_call("concat_operator_oracle", vec![left, right])
            }
            op => binary(op, left, right),
        })
    }

    /// `INTERVAL n unit`.
    #[inline(never)]
    pub(super) fn interval(&mut self) -> SqlResult<(Box<Expr>, IntervalUnit)> {
        self.expect_kw(Kw::INTERVAL)?;
        let amount = self.expr()?;
        Ok((Box::new(amount), self.interval_unit()?))
    }

    /// At INTERVAL: whether it is the function `INTERVAL(a, b, ...)`: a comma stands in the parenthesis behind it.
    pub(super) fn at_interval_function(&self) -> bool {
        let mut depth = 0u32;
        for token in &self.tokens[self.pos + 1..] {
            match token.tok {
                Tok::LParen => depth += 1,
                Tok::RParen if depth <= 1 => return false,
                Tok::RParen => depth -= 1,
                Tok::Comma if depth == 1 => return true,
                _ if depth == 0 => return false,
                _ => {}
            }
        }
        false
    }

    /// An operand with its signs and COLLATE.
    pub(super) fn simple_expr(&mut self) -> SqlResult<Expr> {
        let mut expr = match self.seed.take() {
            Some(expr) => {
                self.links = self.links.max(self.seed_links);
                expr
            }
            None => self.signed()?,
        };
        let mut length = 0;
        while self.accept_kw(Kw::COLLATE) {
            self.chain(&mut length)?;
            expr = Expr::Collate { expr: Box::new(expr), collation: self.name_or_text()? };
        }
        Ok(expr)
    }

    /// An operand with its signs, COLLATE not taken.
    pub(super) fn operand(&mut self) -> SqlResult<Expr> {
        self.signed()
    }

    fn signed(&mut self) -> SqlResult<Expr> {
        let op = match self.peek().tok {
            Tok::Minus => UnaryOp::Minus,
            // It means nothing.
            Tok::Plus => {
                self.advance();
                return self.nested(Self::simple_expr);
            }
            Tok::Tilde => UnaryOp::BitNot,
            Tok::Bang => UnaryOp::Not,
            Tok::Word if self.at_kw(Kw::NOT) && self.options.high_not_precedence => UnaryOp::Not,
            _ => return self.primary(),
        };
        self.advance();
        let expr = self.nested(Self::simple_expr)?;
        Ok(Expr::Unary { op, expr: Box::new(expr) })
    }

    #[inline(never)]
    fn primary(&mut self) -> SqlResult<Expr> {
        let token = self.peek();
        match token.tok {
            Tok::Param => self.param(),
            Tok::NullEscape => {
                self.advance();
                Ok(Self::constant(LiteralValue::Null))
            }
            Tok::At => self.user_var(),
            Tok::AtAt => Ok(Expr::SysVar(self.sys_var(true)?)),
            Tok::LParen => self.parenthesized_operand(),
            Tok::LBrace => self.odbc(),
            Tok::Dot => self.column_or_call(),
            Tok::Quoted | Tok::PlainWord => self.column_or_call(),
            Tok::Word if self.is_introducer_token(token) => self.introduced(),
            Tok::Word => match token.kw {
                Some(kw) => self.keyword_operand(kw),
                None => self.column_or_call(),
            },
            _ if token.tok.is_literal() => self.literal(),
            _ => Err(self.unexpected()),
        }
    }

    #[inline(never)]
    fn param(&mut self) -> SqlResult<Expr> {
        if !self.options.prepare {
            return Err(self.unexpected());
        }
        Ok(Expr::Param(self.advance().index))
    }

    /// `@a`, `@a := value`; at the sign.
    #[inline(never)]
    fn user_var(&mut self) -> SqlResult<Expr> {
        let name = self.user_var_name()?;
        if !self.accept(Tok::Assign) {
            return Ok(Expr::UserVar(name));
        }
        let value = self.expr()?;
        Ok(Expr::AssignUserVar { name, value: Box::new(value) })
    }

    /// `@a`: the name.
    pub(super) fn user_var_name(&mut self) -> SqlResult<String> {
        let at = self.expect(Tok::At)?;
        let token = self.peek();
        if token.start != at.end {
            return Err(self.unexpected());
        }
        match token.tok {
            Tok::Hostname | Tok::Quoted => {
                self.advance();
                self.name_of(token)
            }
            Tok::String => Ok(self.string()?.to_text()),
            _ => Err(self.unexpected()),
        }
    }

    /// `@@[scope.][instance.]name`; at the signs. Reading refuses instances with the name of a scope.
    #[inline(never)]
    pub(super) fn sys_var(&mut self, reads: bool) -> SqlResult<SysVar> {
        self.expect(Tok::AtAt)?;
        let scope = match self.peek().kw.filter(|_| self.peek_at(1).tok == Tok::Dot) {
            Some(Kw::GLOBAL) => VarScope::Global,
            Some(Kw::SESSION | Kw::LOCAL) => VarScope::Session,
            _ => VarScope::Default,
        };
        if scope != VarScope::Default {
            self.advance();
            self.advance();
        }
        let first = self.sys_var_part()?;
        if !self.accept(Tok::Dot) {
            return Ok(SysVar { scope, instance: None, name: first });
        }
        let is_scope = ["global", "session", "local"].iter().any(|word| word.eq_ignore_ascii_case(&first));
        if reads && is_scope {
            return Err(self.unexpected());
        }
        Ok(SysVar { scope, instance: Some(first), name: self.ident()? })
    }

    fn sys_var_part(&mut self) -> SqlResult<String> {
        if self.accept_any(&[Kw::GLOBAL, Kw::SESSION, Kw::LOCAL]).is_some() {
            return Err(self.unexpected());
        }
        self.ident()
    }

    #[inline(never)]
    fn parenthesized_operand(&mut self) -> SqlResult<Expr> {
        Ok(match self.nested(Self::parenthesized)? {
            Parenthesized::Query(query) => Expr::Subquery(query),
            Parenthesized::Exprs(mut exprs) if exprs.len() == 1 => exprs.swap_remove(0),
            Parenthesized::Exprs(exprs) => Expr::Row(exprs),
        })
    }

    /// `( ... )`: a query or expressions, decided without reading anything twice.
    #[inline(never)]
    pub(super) fn parenthesized(&mut self) -> SqlResult<Parenthesized> {
        self.expect(Tok::LParen)?;
        if self.at_query_word() {
            let query = self.query()?;
            self.expect(Tok::RParen)?;
            return Ok(Parenthesized::Query(query));
        }
        if self.at(Tok::LParen) {
            let inner = self.nested(Self::parenthesized)?;
            self.seed_links = self.links;
            match inner {
                Parenthesized::Query(query) if self.at_query_continuation() => {
                    let query = self.query_after(query)?;
                    self.expect(Tok::RParen)?;
                    return Ok(Parenthesized::Query(query));
                }
                Parenthesized::Query(query) => self.seed = Some(Expr::Subquery(query)),
                Parenthesized::Exprs(mut exprs) if exprs.len() == 1 => self.seed = exprs.pop(),
                Parenthesized::Exprs(exprs) => self.seed = Some(Expr::Row(exprs)),
            }
        }
        let exprs = self.list(Self::expr)?;
        self.expect(Tok::RParen)?;
        Ok(Parenthesized::Exprs(exprs))
    }

    /// `(SELECT ...)` and nothing else.
    #[inline(never)]
    pub(super) fn subquery(&mut self) -> SqlResult<Box<Query>> {
        self.nested(|parser| {
            parser.expect(Tok::LParen)?;
            let query = parser.query()?;
            parser.expect(Tok::RParen)?;
            Ok(query)
        })
    }

    /// `{d '2024-01-02'}`, `{fn now()}`: ODBC's braces.
    #[inline(never)]
    fn odbc(&mut self) -> SqlResult<Expr> {
        self.advance();
        let name = self.ident()?;
        let kind = match name.as_str() {
            "d" => Some(TemporalLiteral::Date),
            "t" => Some(TemporalLiteral::Time),
            "ts" => Some(TemporalLiteral::Timestamp),
            _ => None,
        };
        let mut expr = self.expr()?;
        if let (Some(kind), Expr::Literal(literal)) = (kind, &mut expr) {
            self.odbc_literal(kind, literal);
        }
        self.expect(Tok::RBrace)?;
        Ok(expr)
    }

    /// Makes the string of `{d '..'}` a date, a time or both. A string that is none stays a string.
    fn odbc_literal(&mut self, kind: TemporalLiteral, literal: &mut Literal) {
        let LiteralValue::String { bytes, .. } = &literal.value else { return };
        if let Some(index) = literal.index {
            self.literals[index as usize].fixed = true;
        }
        if self.options.temporal.is_none_or(|check| (check.accepts)(kind, bytes, check.sql_mode)) {
            literal.value = kind.value(bytes.clone());
        }
    }

    /// A name: a column, or a function's if a parenthesis follows.
    #[inline(never)]
    pub(super) fn column_or_call(&mut self) -> SqlResult<Expr> {
        if self.accept(Tok::Dot) {
            let table = self.ident()?;
            self.expect(Tok::Dot)?;
            return Ok(Expr::Column(ColumnName { db: None, table: Some(table), column: self.ident()? }));
        }
        if self.peek_at(1).tok == Tok::LParen && self.at_ident() {
            return self.call(None);
        }
        let first = self.ident()?;
        if !self.accept(Tok::Dot) {
            return Ok(Expr::Column(ColumnName { db: None, table: None, column: first }));
        }
        if self.peek_at(1).tok == Tok::LParen && self.at_ident() {
            return self.call(Some(first));
        }
        let second = self.ident()?;
        if !self.accept(Tok::Dot) {
            return Ok(Expr::Column(ColumnName { db: None, table: Some(first), column: second }));
        }
        Ok(Expr::Column(ColumnName { db: Some(first), table: Some(second), column: self.ident()? }))
    }
}
