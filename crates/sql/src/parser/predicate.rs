//! BETWEEN, IN, LIKE, REGEXP, SOUNDS LIKE.

use super::Parser;
use super::expr::{Parenthesized, binary};
use crate::ast::{BinaryOp, Expr};
use crate::keyword::Kw;
use crate::lexer::Tok;
use keel_base::SqlResult;

impl Parser<'_> {
    /// The right side of LIKE, REGEXP and SOUNDS LIKE. They join from left to right, but a NOT binds tighter: `a LIKE b NOT IN (c)` is
    /// `a LIKE (b NOT IN (c))`.
    #[inline(never)]
    fn right_side(&mut self) -> SqlResult<Expr> {
        let mut left = self.bit_expr()?;
        let mut length = 0;
        while let Some((kw, negated)) = self.predicate_word().filter(|&(_, negated)| negated) {
            self.chain(&mut length)?;
            left = self.nested(|parser| parser.predicate_after(left, kw, negated))?;
        }
        Ok(left)
    }

    /// Behind `left`, at the predicate's word or the NOT before it.
    #[inline(never)]
    pub(super) fn predicate_after(&mut self, left: Expr, kw: Kw, negated: bool) -> SqlResult<Expr> {
        if negated {
            self.advance();
        }
        if kw == Kw::NOT {
            return Err(self.unexpected());
        }
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

    /// The word that continues a predicate, and whether NOT stands before it; NOT itself where it negates nothing.
    pub(super) fn predicate_word(&self) -> Option<(Kw, bool)> {
        let negated = self.at_kw(Kw::NOT);
        match self.peek_at(usize::from(negated)).kw {
            Some(kw @ (Kw::IN | Kw::BETWEEN | Kw::LIKE | Kw::REGEXP | Kw::RLIKE)) => Some((kw, negated)),
            _ if negated => Some((Kw::NOT, true)),
            Some(Kw::SOUNDS) if self.peek_at(1).kw == Some(Kw::LIKE) => Some((Kw::SOUNDS, false)),
            _ => None,
        }
    }

    #[inline(never)]
    fn in_predicate(&mut self, left: Expr, negated: bool) -> SqlResult<Expr> {
        if !self.at(Tok::LParen) {
            return Err(self.unexpected());
        }
        let expr = Box::new(left);
        Ok(match self.nested(Self::parenthesized)? {
            Parenthesized::Query(query) => Expr::InSubquery { negated, expr, query },
            // `IN ((SELECT ...))` is the query too, not a list of one value.
            Parenthesized::Exprs(mut list) => match list.pop() {
                Some(Expr::Subquery(query)) if list.is_empty() => Expr::InSubquery { negated, expr, query },
                last => {
                    list.extend(last);
                    Expr::InList { negated, expr, list }
                }
            },
        })
    }

    #[inline(never)]
    fn between(&mut self, left: Expr, negated: bool) -> SqlResult<Expr> {
        let low = self.predicate()?;
        self.expect_kw(Kw::AND)?;
        let high = self.predicate()?;
        Ok(Expr::Between { negated, expr: Box::new(left), low: Box::new(low), high: Box::new(high) })
    }

    #[inline(never)]
    fn like(&mut self, left: Expr, negated: bool) -> SqlResult<Expr> {
        let pattern = self.right_side()?;
        let escape = if self.accept_kw(Kw::ESCAPE) { Some(Box::new(self.right_side()?)) } else { None };
        Ok(Expr::Like { negated, expr: Box::new(left), pattern: Box::new(pattern), escape })
    }
}
