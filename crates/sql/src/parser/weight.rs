//! What may stand behind WEIGHT_STRING()'s text: `AS CHAR(n)`, `AS BINARY(n)`, `LEVEL 1 DESC REVERSE, 2` or `LEVEL 1-3`.
//!
//! It becomes three arguments, which MariaDB takes too: octets of the result (0), weights on each level, flags.

use super::Parser;
use crate::ast::{CastType, Expr, Literal, LiteralValue};
use crate::keyword::Kw;
use crate::lexer::Tok;
use keel_base::SqlResult;

/// Pads with spaces.
const PAD: u64 = 0x40;
/// The first level; the next bits are the others.
const LEVEL: u64 = 0x01;
/// Turns the first level's bits round.
const DESC: u64 = 0x100;
/// Gives the first level's octets from the last to the first.
const REVERSE: u64 = 0x1_0000;
/// Levels of which flags tell.
const LEVELS: u64 = 6;

impl Parser<'_> {
    /// Takes the options behind the first argument, if there are any.
    pub(super) fn weight_options(&mut self, args: &mut Vec<Expr>) -> SqlResult<bool> {
        let (mut count, mut flags) = (0, 0);
        let Some(kw) = self.accept_any(&[Kw::AS, Kw::LEVEL]) else { return Ok(false) };
        let mut has_levels = kw == Kw::LEVEL;
        if kw == Kw::AS {
            let as_binary = self.accept_kw(Kw::BINARY);
            if !as_binary {
                self.expect_kw(Kw::CHAR)?;
            }
            count = self.weight_count()?;
            flags = PAD;
            if as_binary {
                flags |= LEVEL;
                let length = Some(count);
                let expr = std::mem::replace(&mut args[0], number(0));
                args[0] = Expr::Cast { expr: Box::new(expr), to: CastType::Binary(length) };
            } else {
                has_levels = self.accept_kw(Kw::LEVEL);
            }
        }
        if has_levels {
            flags |= self.weight_levels()?;
        }
        args.extend([number(0), number(count), number(flags)]);
        Ok(true)
    }

    /// `(n)`; 0 is an error where it stands.
    fn weight_count(&mut self) -> SqlResult<u64> {
        self.expect(Tok::LParen)?;
        let place = self.pos;
        let count = self.integer()?;
        if count == 0 {
            self.pos = place;
            return Err(self.unexpected());
        }
        self.expect(Tok::RParen)?;
        Ok(count)
    }

    fn weight_levels(&mut self) -> SqlResult<u64> {
        let first = self.weight_level()?;
        if self.accept(Tok::Minus) {
            let last = self.weight_level()?;
            return Ok((first..=last).fold(0, |flags, level| flags | LEVEL << level));
        }
        let mut flags = self.weight_level_flags(first);
        while self.accept(Tok::Comma) {
            let level = self.weight_level()?;
            flags |= self.weight_level_flags(level);
        }
        Ok(flags)
    }

    /// A level, counted from 0.
    fn weight_level(&mut self) -> SqlResult<u64> {
        Ok(self.integer()?.clamp(1, LEVELS) - 1)
    }

    fn weight_level_flags(&mut self, level: u64) -> u64 {
        let mut flags = LEVEL;
        if self.accept_any(&[Kw::ASC, Kw::DESC]) == Some(Kw::DESC) {
            flags |= DESC;
        }
        if self.accept_kw(Kw::REVERSE) {
            flags |= REVERSE;
        }
        flags << level
    }
}

fn number(value: u64) -> Expr {
    Expr::Literal(Literal { value: LiteralValue::Int(value), index: None })
}
