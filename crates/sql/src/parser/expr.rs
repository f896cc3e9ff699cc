//! Expressions above the predicates: OR, XOR, AND, NOT, IS and comparisons; and below them: arithmetic and operands.
//!
//! MariaDB's levels, from loose to tight: OR; XOR; AND; NOT; IS and the comparisons; BETWEEN, IN, LIKE, REGEXP; `|`; `&`;
//! shifts; `+ -`; `* / DIV %`; `^`; `||` under PIPES_AS_CONCAT; the signs, `~`, `!`, BINARY; COLLATE.

use super::Parser;
use crate::ast::{
    BinaryOp, ColumnName, Expr, IntervalUnit, IsTest, LiteralValue, Query, SysVar, UnaryOp, VarScope,
};
use crate::keyword::Kw;
use crate::lexer::Tok;
use keel_base::SqlResult;

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
        self.nested(Self::or_expr)
    }

    fn at_or(&self) -> bool {
        self.at_kw(Kw::OR) || (self.at(Tok::OrOr) && !self.options.pipes_as_concat)
    }

    fn or_expr(&mut self) -> SqlResult<Expr> {
        let first = self.xor_expr()?;
        if !self.at_or() {
            return Ok(first);
        }
        let mut operands = vec![first];
        while self.at_or() {
            self.advance();
            operands.push(self.xor_expr()?);
        }
        Ok(balanced(BinaryOp::Or, operands))
    }

    fn xor_expr(&mut self) -> SqlResult<Expr> {
        let mut left = self.and_expr()?;
        let mut length = 0;
        while self.accept_kw(Kw::XOR) {
            self.chain(&mut length)?;
            left = binary(BinaryOp::Xor, left, self.and_expr()?);
        }
        Ok(left)
    }

    fn at_and(&self) -> bool {
        self.at_kw(Kw::AND) || self.at(Tok::AndAnd)
    }

    fn and_expr(&mut self) -> SqlResult<Expr> {
        let first = self.not_expr()?;
        if !self.at_and() {
            return Ok(first);
        }
        let mut operands = vec![first];
        while self.at_and() {
            self.advance();
            operands.push(self.not_expr()?);
        }
        Ok(balanced(BinaryOp::And, operands))
    }

    fn not_expr(&mut self) -> SqlResult<Expr> {
        if self.seed.is_none() && !self.options.high_not_precedence && self.accept_kw(Kw::NOT) {
            let expr = self.nested(Self::not_expr)?;
            return Ok(Expr::Unary { op: UnaryOp::Not, expr: Box::new(expr) });
        }
        self.boolean_test()
    }

    /// IS and comparisons, left to right.
    fn boolean_test(&mut self) -> SqlResult<Expr> {
        let mut left = self.predicate()?;
        let mut length = 0;
        loop {
            if self.accept_kw(Kw::IS) {
                self.chain(&mut length)?;
                left = self.is_test(left)?;
            } else if let Some(op) = comparison(self.peek().tok) {
                self.chain(&mut length)?;
                self.advance();
                left = self.comparison_operand(op, left)?;
            } else {
                return Ok(left);
            }
        }
    }

    fn is_test(&mut self, left: Expr) -> SqlResult<Expr> {
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

    /// Behind a comparison's operator.
    fn comparison_operand(&mut self, op: BinaryOp, left: Expr) -> SqlResult<Expr> {
        let quantifier = self.peek().kw.filter(|kw| matches!(kw, Kw::ALL | Kw::ANY | Kw::SOME));
        if let Some(quantifier) =
            quantifier.filter(|_| self.peek_at(1).tok == Tok::LParen && op != BinaryOp::NullSafeEq)
        {
            self.advance();
            let query = self.subquery()?;
            return Ok(Expr::Quantified { op, all: quantifier == Kw::ALL, left: Box::new(left), query });
        }
        Ok(binary(op, left, self.predicate()?))
    }

    /// Arithmetic and bit operations of at least `min`'s level.
    pub(super) fn bit_expr(&mut self) -> SqlResult<Expr> {
        self.arithmetic(1)
    }

    fn arithmetic(&mut self, min: u8) -> SqlResult<Expr> {
        let mut left = self.concat_expr()?;
        let mut length = 0;
        while let Some((op, level)) = self.arithmetic_op().filter(|&(_, level)| level >= min) {
            self.chain(&mut length)?;
            self.advance();
            let sum = matches!(op, BinaryOp::Add | BinaryOp::Sub);
            if sum && self.at_kw(Kw::INTERVAL) && !self.at_interval_function() {
                left = self.plus_interval(left, op == BinaryOp::Sub)?;
            } else {
                left = binary(op, left, self.arithmetic(level + 1)?);
            }
        }
        Ok(left)
    }

    fn arithmetic_op(&self) -> Option<(BinaryOp, u8)> {
        let token = self.peek();
        Some(match token.tok {
            Tok::Pipe => (BinaryOp::BitOr, 1),
            Tok::Amp => (BinaryOp::BitAnd, 2),
            Tok::ShiftLeft => (BinaryOp::ShiftLeft, 3),
            Tok::ShiftRight => (BinaryOp::ShiftRight, 3),
            Tok::Plus => (BinaryOp::Add, 4),
            Tok::Minus => (BinaryOp::Sub, 4),
            Tok::Star => (BinaryOp::Mul, 5),
            Tok::Slash => (BinaryOp::Div, 5),
            Tok::Percent => (BinaryOp::Mod, 5),
            Tok::Caret => (BinaryOp::BitXor, 6),
            Tok::Word => match token.kw? {
                Kw::DIV => (BinaryOp::IntDiv, 5),
                Kw::MOD => (BinaryOp::Mod, 5),
                _ => return None,
            },
            _ => return None,
        })
    }

    /// `left + INTERVAL n unit`, at INTERVAL.
    fn plus_interval(&mut self, left: Expr, subtract: bool) -> SqlResult<Expr> {
        let (amount, unit) = self.interval()?;
        Ok(Expr::DateArithmetic { expr: Box::new(left), amount, unit, subtract })
    }

    /// `INTERVAL n unit`.
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

    /// Operands joined by `||` under PIPES_AS_CONCAT.
    pub(super) fn concat_expr(&mut self) -> SqlResult<Expr> {
        let mut left = self.simple_expr()?;
        let mut length = 0;
        while self.options.pipes_as_concat && self.at(Tok::OrOr) {
            self.chain(&mut length)?;
            self.advance();
            left = binary(BinaryOp::Concat, left, self.simple_expr()?);
        }
        Ok(left)
    }

    /// An operand with its signs and COLLATE.
    pub(super) fn simple_expr(&mut self) -> SqlResult<Expr> {
        let mut expr = match self.seed.take() {
            Some(expr) => expr,
            None => self.signed()?,
        };
        let mut length = 0;
        while self.accept_kw(Kw::COLLATE) {
            self.chain(&mut length)?;
            expr = Expr::Collate { expr: Box::new(expr), collation: self.ident_or_text()? };
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
            Tok::Plus => UnaryOp::Plus,
            Tok::Tilde => UnaryOp::BitNot,
            Tok::Bang => UnaryOp::Not,
            Tok::Word if self.at_kw(Kw::NOT) && self.options.high_not_precedence => UnaryOp::Not,
            _ => return self.primary(),
        };
        self.advance();
        let expr = self.nested(Self::simple_expr)?;
        Ok(Expr::Unary { op, expr: Box::new(expr) })
    }

    fn primary(&mut self) -> SqlResult<Expr> {
        let token = self.peek();
        match token.tok {
            Tok::Param => self.param(),
            Tok::NullEscape => {
                self.advance();
                Ok(Self::constant(LiteralValue::Null))
            }
            Tok::At => self.user_var(),
            Tok::AtAt => Ok(Expr::SysVar(self.sys_var()?)),
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

    fn param(&mut self) -> SqlResult<Expr> {
        if !self.options.prepare {
            return Err(self.unexpected());
        }
        Ok(Expr::Param(self.advance().index))
    }

    /// `@a`, `@a := value`; at the sign.
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
        self.expect(Tok::At)?;
        let token = self.peek();
        match token.tok {
            Tok::Hostname | Tok::Quoted => {
                self.advance();
                self.name_of(token)
            }
            Tok::String => Ok(self.string()?.to_text()),
            _ => Err(self.unexpected()),
        }
    }

    /// `@@[scope.][instance.]name`; at the signs.
    pub(super) fn sys_var(&mut self) -> SqlResult<SysVar> {
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
        Ok(SysVar { scope, instance: Some(first), name: self.ident()? })
    }

    fn sys_var_part(&mut self) -> SqlResult<String> {
        if self.accept_any(&[Kw::GLOBAL, Kw::SESSION, Kw::LOCAL]).is_some() {
            return Err(self.unexpected());
        }
        self.ident()
    }

    fn parenthesized_operand(&mut self) -> SqlResult<Expr> {
        Ok(match self.nested(Self::parenthesized)? {
            Parenthesized::Query(query) => Expr::Subquery(query),
            Parenthesized::Exprs(mut exprs) if exprs.len() == 1 => exprs.swap_remove(0),
            Parenthesized::Exprs(exprs) => Expr::Row(exprs),
        })
    }

    /// `( ... )`: a query or expressions, decided without reading anything twice.
    pub(super) fn parenthesized(&mut self) -> SqlResult<Parenthesized> {
        self.expect(Tok::LParen)?;
        if self.at_query_word() {
            let query = self.query()?;
            self.expect(Tok::RParen)?;
            return Ok(Parenthesized::Query(Box::new(query)));
        }
        if self.at(Tok::LParen) {
            match self.nested(Self::parenthesized)? {
                Parenthesized::Query(query) if self.at_query_continuation() => {
                    let query = self.query_after(query)?;
                    self.expect(Tok::RParen)?;
                    return Ok(Parenthesized::Query(Box::new(query)));
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
    pub(super) fn subquery(&mut self) -> SqlResult<Box<Query>> {
        self.nested(|parser| {
            parser.expect(Tok::LParen)?;
            let query = parser.query()?;
            parser.expect(Tok::RParen)?;
            Ok(Box::new(query))
        })
    }

    /// `{d '2024-01-02'}`, `{fn now()}`: ODBC's braces.
    fn odbc(&mut self) -> SqlResult<Expr> {
        self.advance();
        let name = self.ident()?;
        let kind = match name.as_str() {
            "d" => Some(Kw::DATE),
            "t" => Some(Kw::TIME),
            "ts" => Some(Kw::TIMESTAMP),
            _ => None,
        };
        let expr = match kind.filter(|_| self.at(Tok::String) && self.peek_at(1).tok == Tok::RBrace) {
            Some(kind) => self.temporal(kind)?,
            None => self.expr()?,
        };
        self.expect(Tok::RBrace)?;
        Ok(expr)
    }

    /// A name: a column, or a function's if a parenthesis follows.
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

fn comparison(tok: Tok) -> Option<BinaryOp> {
    Some(match tok {
        Tok::Eq => BinaryOp::Eq,
        Tok::NullSafeEq => BinaryOp::NullSafeEq,
        Tok::Ne => BinaryOp::Ne,
        Tok::Lt => BinaryOp::Lt,
        Tok::Le => BinaryOp::Le,
        Tok::Gt => BinaryOp::Gt,
        Tok::Ge => BinaryOp::Ge,
        _ => return None,
    })
}
