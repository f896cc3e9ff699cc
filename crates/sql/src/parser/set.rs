//! SET.

use super::Parser;
use crate::ast::{Expr, Isolation, PasswordValue, SetItem, Statement, VarScope};
use crate::keyword::Kw;
use crate::lexer::Tok;
use keel_base::SqlResult;

impl Parser<'_> {
    /// At SET.
    pub(super) fn set_statement(&mut self) -> SqlResult<Statement> {
        self.advance();
        if self.at_kw(Kw::STATEMENT) && self.peek_at(1).tok != Tok::Eq {
            self.advance();
            return self.set_statement_for();
        }
        if self.accept_kw(Kw::ROLE) {
            return Ok(Statement::Set(vec![SetItem::Role(self.name_or_text()?)]));
        }
        if self.accept_then(Kw::DEFAULT, &[Kw::ROLE])? {
            return self.set_default_role();
        }
        let mut scope = VarScope::Default;
        if let Some(said) = self.accept_scope() {
            scope = said;
            if self.accept_kw(Kw::TRANSACTION) {
                return Ok(Statement::Set(vec![self.set_transaction(scope)?]));
            }
        } else if self.at_kw(Kw::TRANSACTION) && !matches!(self.peek_at(1).tok, Tok::Eq | Tok::Assign) {
            self.advance();
            return Ok(Statement::Set(vec![self.set_transaction(scope)?]));
        }
        let first =
            if scope == VarScope::Default { self.set_item(&mut scope)? } else { self.set_variable(scope)? };
        let mut items = vec![first];
        while self.accept(Tok::Comma) {
            items.push(self.set_item(&mut scope)?);
        }
        Ok(Statement::Set(items))
    }

    fn set_statement_for(&mut self) -> SqlResult<Statement> {
        let variables = self.list(|parser| {
            let name = parser.ident()?;
            let instance = if parser.accept(Tok::Dot) { Some(parser.ident()?) } else { None };
            parser.equals()?;
            let (instance, name) = match instance {
                Some(last) => (Some(name), last),
                None => (None, name),
            };
            Ok(SetItem::SysVar { scope: VarScope::Session, instance, name, value: parser.set_value()? })
        })?;
        self.expect_kw(Kw::FOR)?;
        let statement = Box::new(self.nested(Self::statement)?);
        Ok(Statement::SetStatement { variables, statement })
    }

    fn set_default_role(&mut self) -> SqlResult<Statement> {
        let role = self.role_name()?;
        let user = if self.accept_kw(Kw::FOR) { Some(self.account()?) } else { None };
        Ok(Statement::Set(vec![SetItem::DefaultRole { role, user }]))
    }

    fn accept_scope(&mut self) -> Option<VarScope> {
        if matches!(self.peek_at(1).tok, Tok::Eq | Tok::Assign | Tok::Dot) {
            return None;
        }
        Some(match self.accept_any(&[Kw::GLOBAL, Kw::SESSION, Kw::LOCAL])? {
            Kw::GLOBAL => VarScope::Global,
            _ => VarScope::Session,
        })
    }

    fn equals(&mut self) -> SqlResult<()> {
        if self.accept(Tok::Assign) {
            return Ok(());
        }
        self.expect(Tok::Eq)?;
        Ok(())
    }

    /// One assignment. A GLOBAL or SESSION said before holds on for those that say none.
    fn set_item(&mut self, scope: &mut VarScope) -> SqlResult<SetItem> {
        if let Some(said) = self.accept_scope() {
            *scope = said;
            return self.set_variable(said);
        }
        if self.at(Tok::At) {
            let name = self.user_var_name()?;
            self.equals()?;
            return Ok(SetItem::UserVar { name, value: self.expr()? });
        }
        if self.at(Tok::AtAt) {
            let variable = self.sys_var(false)?;
            self.equals()?;
            let value = self.set_value()?;
            let (scope, instance, name) = (variable.scope, variable.instance, variable.name);
            return Ok(SetItem::SysVar { scope, instance, name, value });
        }
        let assigned = matches!(self.peek_at(1).tok, Tok::Eq | Tok::Assign | Tok::Dot);
        if self.at_kw(Kw::NAMES) {
            self.advance();
            return self.set_names();
        }
        if self.accept_charset_words()? {
            let charset = if self.accept_kw(Kw::DEFAULT) { None } else { Some(self.charset_or_collation()?) };
            return Ok(SetItem::Charset(charset));
        }
        if self.at_kw(Kw::PASSWORD) && (!assigned || self.peek_at(1).tok != Tok::Dot) {
            self.advance();
            return self.set_password();
        }
        // Without `@@` what is not said is the session's; with it `tx_isolation` is the next transaction's alone.
        let said = if *scope == VarScope::Default { VarScope::Session } else { *scope };
        self.set_variable(said)
    }

    fn set_names(&mut self) -> SqlResult<SetItem> {
        if self.accept_kw(Kw::DEFAULT) {
            return Ok(SetItem::Names { charset: None, collation: None });
        }
        let charset = Some(self.charset_or_collation()?);
        let said = self.accept_kw(Kw::COLLATE);
        let collation =
            if said && !self.accept_kw(Kw::DEFAULT) { Some(self.charset_or_collation()?) } else { None };
        Ok(SetItem::Names { charset, collation })
    }

    fn set_password(&mut self) -> SqlResult<SetItem> {
        let user = if self.accept_kw(Kw::FOR) { Some(self.account()?) } else { None };
        self.equals()?;
        Ok(SetItem::Password { user, password: self.password_value()? })
    }

    /// `'*HASH'`, `PASSWORD('plain')`.
    pub(super) fn password_value(&mut self) -> SqlResult<PasswordValue> {
        if self.accept_any(&[Kw::PASSWORD, Kw::OLD_PASSWORD]).is_some() {
            self.expect(Tok::LParen)?;
            let plain = self.string()?;
            self.expect(Tok::RParen)?;
            return Ok(PasswordValue::Plain(plain));
        }
        Ok(PasswordValue::Hash(self.string()?))
    }

    fn set_variable(&mut self, scope: VarScope) -> SqlResult<SetItem> {
        let (first, dotted) = if self.at_kw(Kw::DEFAULT) && self.peek_at(1).tok == Tok::Dot {
            self.advance();
            ("default".to_owned(), self.accept(Tok::Dot))
        } else {
            (self.ident()?, self.accept(Tok::Dot))
        };
        let (instance, name) = if dotted { (Some(first), self.ident()?) } else { (None, first) };
        self.equals()?;
        Ok(SetItem::SysVar { scope, instance, name, value: self.set_value()? })
    }

    /// DEFAULT (none), a bare reserved word, or an expression.
    fn set_value(&mut self) -> SqlResult<Option<Expr>> {
        if self.at_kw(Kw::DEFAULT) && self.peek_at(1).tok != Tok::LParen {
            self.advance();
            return Ok(None);
        }
        let ends =
            matches!(self.peek_at(1).tok, Tok::End | Tok::Comma) || self.peek_at(1).kw == Some(Kw::FOR);
        if ends {
            if let Some(kw) = self.accept_any(&[Kw::ON, Kw::ALL, Kw::BINARY, Kw::ROW, Kw::SYSTEM]) {
                return Ok(Some(Self::bare_word(kw.name().to_owned())));
            }
        } else if self.at_any(&[Kw::ON, Kw::ALL]) {
            self.advance();
            return Err(self.unexpected());
        }
        Ok(Some(self.expr()?))
    }

    /// Behind TRANSACTION.
    fn set_transaction(&mut self, scope: VarScope) -> SqlResult<SetItem> {
        let mut isolation = None;
        let mut read_only = None;
        loop {
            if isolation.is_none() && self.accept_then(Kw::ISOLATION, &[Kw::LEVEL])? {
                isolation = Some(self.isolation()?);
            } else if read_only.is_none() && self.accept_kw(Kw::READ) {
                read_only = Some(self.expect_any(&[Kw::ONLY, Kw::WRITE])? == Kw::ONLY);
            } else {
                return Err(self.unexpected());
            }
            if !self.accept(Tok::Comma) {
                return Ok(SetItem::Transaction { scope, isolation, read_only });
            }
        }
    }

    fn isolation(&mut self) -> SqlResult<Isolation> {
        match self.expect_any(&[Kw::READ, Kw::REPEATABLE, Kw::SERIALIZABLE])? {
            Kw::READ => Ok(match self.expect_any(&[Kw::UNCOMMITTED, Kw::COMMITTED])? {
                Kw::COMMITTED => Isolation::ReadCommitted,
                _ => Isolation::ReadUncommitted,
            }),
            Kw::REPEATABLE => {
                self.expect_kw(Kw::READ)?;
                Ok(Isolation::RepeatableRead)
            }
            _ => Ok(Isolation::Serializable),
        }
    }
}
