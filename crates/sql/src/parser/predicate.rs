//! BETWEEN, IN, LIKE, REGEXP, SOUNDS LIKE.

use super::Parser;
use super::expr::{Parenthesized, binary};
use crate::ast::{BinaryOp, Expr};
use crate::keyword::Kw;
use crate::lexer::Tok;
use keel_base::SqlResult;

impl Parser<'_> {
    /// A predicate, or what stands without one.
    pub(super) fn predicate(&mut self) -> SqlResult<Expr> {
        let mut left = self.bit_expr()?;
        let mut length = 0;
        while let Some((kw, negated)) = self.predicate_word()? {
            self.chain(&mut length)?;
            left = self.predicate_after(left, kw, negated)?;
        }
        Ok(left)
    }

    /// The right side of LIKE, REGEXP and SOUNDS LIKE. They join from left to right, but a NOT binds tighter: `a LIKE b NOT IN (c)` is
    /// `a LIKE (b NOT IN (c))`.
    fn right_side(&mut self) -> SqlResult<Expr> {
        let mut left = self.bit_expr()?;
        let mut length = 0;
        while self.at_kw(Kw::NOT) {
            let Some((kw, negated)) = self.predicate_word()? else { break };
            self.chain(&mut length)?;
            left = self.nested(|parser| parser.predicate_after(left, kw, negated))?;
        }
        Ok(left)
    }

    /// Behind `left` and NOT, at the predicate's word.
    fn predicate_after(&mut self, left: Expr, kw: Kw, negated: bool) -> SqlResult<Expr> {
        self.advance();
        Ok(match kw {
            Kw::IN => self.in_predicate(left, negated)?,
            // Its upper bound takes whatever predicate follows.
            Kw::BETWEEN => self.nested(|parser| parser.between(left, negated))?,
            Kw::LIKE => self.like(left, negated)?,
            Kw::SOUNDS => {
                self.expect_kw(Kw::LIKE)?;
                binary(BinaryOp::SoundsLike, left, self.right_side()?)
            }
            _ => {
                let pattern = self.right_side()?;
                Expr::Regexp { negated, expr: Box::new(left), pattern: Box::new(pattern) }
            }
        })
    }

    /// The word that continues a predicate, not taken, and whether NOT stands before it, taken.
    fn predicate_word(&mut self) -> SqlResult<Option<(Kw, bool)>> {
        let negated = self.accept_kw(Kw::NOT);
        match self.peek().kw {
            Some(kw @ (Kw::IN | Kw::BETWEEN | Kw::LIKE | Kw::REGEXP | Kw::RLIKE)) => Ok(Some((kw, negated))),
            _ if negated => Err(self.unexpected()),
            Some(Kw::SOUNDS) if self.peek_at(1).kw == Some(Kw::LIKE) => Ok(Some((Kw::SOUNDS, false))),
            _ => Ok(None),
        }
    }

    fn in_predicate(&mut self, left: Expr, negated: bool) -> SqlResult<Expr> {
        if !self.at(Tok::LParen) {
            return Err(self.unexpected());
        }
        let expr = Box::new(left);
        Ok(match self.nested(Self::parenthesized)? {
            Parenthesized::Query(query) => Expr::InSubquery { negated, expr, query },
            Parenthesized::Exprs(list) => Expr::InList { negated, expr, list },
        })
    }

    fn between(&mut self, left: Expr, negated: bool) -> SqlResult<Expr> {
        let low = self.predicate()?;
        self.expect_kw(Kw::AND)?;
        let high = self.predicate()?;
        Ok(Expr::Between { negated, expr: Box::new(left), low: Box::new(low), high: Box::new(high) })
    }

    fn like(&mut self, left: Expr, negated: bool) -> SqlResult<Expr> {
        let pattern = self.right_side()?;
        let escape = if self.accept_kw(Kw::ESCAPE) { Some(Box::new(self.right_side()?)) } else { None };
        Ok(Expr::Like { negated, expr: Box::new(left), pattern: Box::new(pattern), escape })
    }
}
