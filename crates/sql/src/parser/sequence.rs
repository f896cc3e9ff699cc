//! CREATE, ALTER and DROP SEQUENCE, and the calls that name a sequence.

use super::Parser;
use crate::ast::*;
use crate::keyword::Kw;
use crate::lexer::Tok;
use keel_base::{SqlResult, errors};

impl Parser<'_> {
    /// Behind CREATE [TEMPORARY] SEQUENCE.
    pub(super) fn create_sequence(&mut self, or_replace: bool, temporary: bool) -> SqlResult<Statement> {
        let mut table = self.new_table(or_replace, temporary)?;
        let mut options = SequenceOptions::default();
        while self.sequence_option(&mut options, false)? {}
        table.sequence = Some(Box::new(options));
        table.options = self.table_options()?;
        Ok(Statement::CreateTable(Box::new(table)))
    }

    /// Behind ALTER SEQUENCE.
    pub(super) fn alter_sequence(&mut self) -> SqlResult<Statement> {
        let if_exists = self.if_exists()?;
        let name = self.object_name()?;
        let mut options = SequenceOptions::default();
        while self.sequence_option(&mut options, true)? {}
        if options == SequenceOptions::default() {
            return Err(self.unexpected());
        }
        Ok(Statement::AlterSequence(Box::new(AlterSequence { if_exists, name, options })))
    }

    /// Behind DROP [TEMPORARY] SEQUENCE.
    pub(super) fn drop_sequence(&mut self, temporary: bool) -> SqlResult<Statement> {
        let if_exists = self.if_exists()?;
        let tables = self.list(Self::object_name)?;
        let wait = self.lock_wait()?;
        self.accept_any(&[Kw::RESTRICT, Kw::CASCADE]);
        Ok(Statement::DropTable(DropTable { temporary, sequence: true, if_exists, tables, wait }))
    }

    /// One option; false where none follows.
    fn sequence_option(&mut self, options: &mut SequenceOptions, alters: bool) -> SqlResult<bool> {
        let Some(kw) = self.peek().kw else { return Ok(false) };
        let taken = match kw {
            Kw::START
            | Kw::MINVALUE
            | Kw::MAXVALUE
            | Kw::NOMINVALUE
            | Kw::NOMAXVALUE
            | Kw::INCREMENT
            | Kw::CACHE
            | Kw::NOCACHE
            | Kw::CYCLE
            | Kw::NOCYCLE
            | Kw::NO => true,
            Kw::RESTART => alters,
            _ => false,
        };
        if !taken {
            return Ok(false);
        }
        self.advance();
        match kw {
            Kw::START => {
                self.sequence_with();
                set_once(&mut options.start, self.signed_integer()?, "START")?;
            }
            Kw::RESTART => {
                self.sequence_with();
                let value = match self.at_signed_integer() {
                    true => Some(self.signed_integer()?),
                    false => None,
                };
                set_once(&mut options.restart, value, "RESTART")?;
            }
            Kw::INCREMENT => {
                if !self.accept_kw(Kw::BY) {
                    self.accept(Tok::Eq);
                }
                set_once(&mut options.increment, self.signed_integer()?, "INCREMENT")?;
            }
            Kw::MINVALUE => {
                self.accept(Tok::Eq);
                options.minimum = Some(Some(self.signed_integer()?));
            }
            Kw::MAXVALUE => {
                self.accept(Tok::Eq);
                options.maximum = Some(Some(self.signed_integer()?));
            }
            Kw::CACHE => {
                self.accept(Tok::Eq);
                set_once(&mut options.cache, self.signed_integer()?, "CACHE")?;
            }
            Kw::NO => {
                let denied = self.expect_any(&[Kw::MINVALUE, Kw::MAXVALUE])?;
                deny(options, denied)?;
            }
            Kw::NOMINVALUE => deny(options, Kw::MINVALUE)?,
            Kw::NOMAXVALUE => deny(options, Kw::MAXVALUE)?,
            Kw::NOCACHE => deny(options, Kw::CACHE)?,
            Kw::NOCYCLE => deny(options, Kw::CYCLE)?,
            _ => set_once(&mut options.cycle, true, "CYCLE")?,
        }
        Ok(true)
    }

    fn sequence_with(&mut self) {
        if !self.accept_kw(Kw::WITH) {
            self.accept(Tok::Eq);
        }
    }

    fn at_signed_integer(&self) -> bool {
        matches!(self.peek().tok, Tok::Int | Tok::Minus | Tok::Plus)
    }

    /// An integer of 64 bits with or without a sign; its literal stays fixed.
    fn signed_integer(&mut self) -> SqlResult<i64> {
        let negative = self.accept(Tok::Minus);
        if !negative {
            self.accept(Tok::Plus);
        }
        let start = self.pos;
        let value = i64::try_from(self.integer()?).map_err(|_| {
            self.pos = start;
            self.unexpected()
        })?;
        Ok(if negative { -value } else { value })
    }

    /// At NEXT or PREVIOUS before VALUE FOR.
    #[inline(never)]
    pub(super) fn value_for(&mut self, op: SequenceOp) -> SqlResult<Expr> {
        self.advance();
        self.expect_kw(Kw::VALUE)?;
        self.expect_kw(Kw::FOR)?;
        let name = self.object_name()?;
        Ok(Expr::Sequence(Box::new(SequenceCall { name, op })))
    }

    /// At NEXTVAL, LASTVAL or SETVAL before a parenthesis.
    #[inline(never)]
    pub(super) fn sequence_call(&mut self, kw: Kw) -> SqlResult<Expr> {
        self.advance();
        self.expect(Tok::LParen)?;
        let name = self.object_name()?;
        let op = match kw {
            Kw::NEXTVAL => SequenceOp::Next,
            Kw::LASTVAL => SequenceOp::Last,
            _ => self.value_to_set()?,
        };
        self.expect(Tok::RParen)?;
        Ok(Expr::Sequence(Box::new(SequenceCall { name, op })))
    }

    fn value_to_set(&mut self) -> SqlResult<SequenceOp> {
        self.expect(Tok::Comma)?;
        let value = self.signed_integer()?;
        let (mut used, mut round) = (true, 0);
        if self.accept(Tok::Comma) {
            used = match self.peek().kw {
                Some(kw @ (Kw::TRUE | Kw::FALSE)) => {
                    self.advance();
                    kw == Kw::TRUE
                }
                _ => self.integer()? != 0,
            };
            if self.accept(Tok::Comma) {
                round = self.integer()?;
            }
        }
        Ok(SequenceOp::Set { value, used, round })
    }
}

/// NO MINVALUE and its like.
fn deny(options: &mut SequenceOptions, what: Kw) -> SqlResult<()> {
    match what {
        Kw::MINVALUE => set_once(&mut options.minimum, None, "MINVALUE"),
        Kw::MAXVALUE => set_once(&mut options.maximum, None, "MAXVALUE"),
        Kw::CACHE => set_once(&mut options.cache, 0, "CACHE"),
        _ => set_once(&mut options.cycle, false, "CYCLE"),
    }
}

/// 1225 where an option was said before.
fn set_once<T>(option: &mut Option<T>, value: T, name: &str) -> SqlResult<()> {
    match option.replace(value) {
        Some(_) => Err(errors::dup_argument(name)),
        None => Ok(()),
    }
}
