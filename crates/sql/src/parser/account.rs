//! Accounts, CREATE USER, GRANT, REVOKE.

use super::Parser;
use crate::ast::{
    Account, AuthSpec, CreateRole, CreateUser, Grant, GrantLevel, GrantWhat, PasswordExpire, RoleName,
    Statement, UserOptions, UserSpec,
};
use crate::keyword::Kw;
use crate::lexer::Tok;
use keel_base::{SqlResult, errors};

impl Parser<'_> {
    /// `user@host`, `user`, CURRENT_USER, CURRENT_ROLE.
    pub(super) fn account(&mut self) -> SqlResult<Account> {
        if let Some(kw) = self.accept_any(&[Kw::CURRENT_USER, Kw::CURRENT_ROLE]) {
            if self.accept(Tok::LParen) {
                self.expect(Tok::RParen)?;
            }
            return Ok(if kw == Kw::CURRENT_USER { Account::CurrentUser } else { Account::CurrentRole });
        }
        let user = self.name_or_text()?;
        let at = self.peek();
        if !self.accept(Tok::At) {
            return Ok(Account::User { user, host: "%".to_owned() });
        }
        let token = self.peek();
        if token.start != at.end {
            return Err(self.unexpected());
        }
        let host = match token.tok {
            Tok::Hostname | Tok::Quoted => {
                self.advance();
                self.name_of(token)?
            }
            Tok::String => self.string()?.to_text(),
            _ => return Err(self.unexpected()),
        };
        Ok(Account::User { user, host: host.to_ascii_lowercase() })
    }

    /// A role, CURRENT_ROLE.
    pub(super) fn role_name(&mut self) -> SqlResult<RoleName> {
        if !self.accept_kw(Kw::CURRENT_ROLE) {
            return Ok(RoleName::Named(self.name_or_text()?));
        }
        if self.accept(Tok::LParen) {
            self.expect(Tok::RParen)?;
        }
        Ok(RoleName::Current)
    }

    /// CREATE USER, ALTER USER; at USER.
    pub(super) fn create_user(&mut self, or_replace: bool) -> SqlResult<Statement> {
        let alter = self.tokens[self.pos - 1].kw == Some(Kw::ALTER);
        self.advance();
        let if_exists_clause = if alter { self.if_exists()? } else { self.if_not_exists()? };
        let users = self.list(Self::user_spec)?;
        let mut options = UserOptions::default();
        self.user_options(&mut options)?;
        Ok(Statement::CreateUser(CreateUser { alter, or_replace, if_exists_clause, users, options }))
    }

    /// CREATE ROLE; at ROLE.
    pub(super) fn create_role(&mut self, or_replace: bool) -> SqlResult<Statement> {
        self.advance();
        let if_not_exists = self.if_not_exists()?;
        let roles = self.list(Self::role_name)?;
        let admin = if self.accept_then(Kw::WITH, &[Kw::ADMIN])? { Some(self.account()?) } else { None };
        Ok(Statement::CreateRole(CreateRole { or_replace, if_not_exists, roles, admin }))
    }

    /// An account with IDENTIFIED.
    fn user_spec(&mut self) -> SqlResult<UserSpec> {
        let account = self.account()?;
        let mut auth = Vec::new();
        if self.accept_kw(Kw::IDENTIFIED) {
            if self.accept_kw(Kw::BY) {
                let hash = self.accept_kw(Kw::PASSWORD);
                let text = self.string()?;
                auth.push(if hash { AuthSpec::Hash(text) } else { AuthSpec::Password(text) });
            } else {
                self.expect_any(&[Kw::VIA, Kw::WITH])?;
                auth.push(self.auth_plugin()?);
                while self.accept_kw(Kw::OR) {
                    auth.push(self.auth_plugin()?);
                }
            }
        }
        Ok(UserSpec { account, auth })
    }

    fn auth_plugin(&mut self) -> SqlResult<AuthSpec> {
        let name = self.name_or_text()?;
        let said = self.accept_any(&[Kw::USING, Kw::AS]).is_some();
        let using = if said { Some(self.password_value()?) } else { None };
        Ok(AuthSpec::Plugin { name, using })
    }

    fn user_options(&mut self, options: &mut UserOptions) -> SqlResult<()> {
        self.require(options)?;
        while self.at_kw(Kw::WITH) && self.peek_at(1).kw != Some(Kw::GRANT) {
            self.advance();
            while let Some(limit) = self.user_limit()? {
                options.limits.push(limit);
            }
        }
        loop {
            if self.accept_kw(Kw::ACCOUNT) {
                options.lock = Some(self.expect_any(&[Kw::LOCK, Kw::UNLOCK])? == Kw::LOCK);
            } else if self.accept_then(Kw::PASSWORD, &[Kw::EXPIRE])? {
                options.expire = Some(self.password_expire()?);
            } else {
                return Ok(());
            }
        }
    }

    fn password_expire(&mut self) -> SqlResult<PasswordExpire> {
        if self.accept_kw(Kw::NEVER) {
            return Ok(PasswordExpire::Never);
        }
        if self.accept_kw(Kw::DEFAULT) {
            return Ok(PasswordExpire::Default);
        }
        if self.accept_kw(Kw::INTERVAL) {
            let days = self.integer()?;
            self.expect_kw(Kw::DAY)?;
            if days == 0 {
                return Err(errors::wrong_value("DAY", days));
            }
            return Ok(PasswordExpire::Days(days));
        }
        Ok(PasswordExpire::Now)
    }

    fn require(&mut self, options: &mut UserOptions) -> SqlResult<()> {
        if !self.accept_kw(Kw::REQUIRE) {
            return Ok(());
        }
        loop {
            let kw = self.expect_any(&[Kw::NONE, Kw::SSL, Kw::X509, Kw::SUBJECT, Kw::ISSUER, Kw::CIPHER])?;
            let alone = matches!(kw, Kw::NONE | Kw::SSL | Kw::X509);
            let text = if alone { None } else { Some(self.string()?) };
            options.require.push((kw.name().to_owned(), text));
            self.accept_kw(Kw::AND);
            if alone || !self.at_any(&[Kw::SUBJECT, Kw::ISSUER, Kw::CIPHER]) {
                return Ok(());
            }
        }
    }

    fn user_limit(&mut self) -> SqlResult<Option<(String, f64)>> {
        let words = [
            Kw::MAX_QUERIES_PER_HOUR,
            Kw::MAX_UPDATES_PER_HOUR,
            Kw::MAX_CONNECTIONS_PER_HOUR,
            Kw::MAX_USER_CONNECTIONS,
            Kw::MAX_STATEMENT_TIME,
        ];
        match self.accept_any(&words) {
            Some(kw) => {
                let fraction =
                    kw == Kw::MAX_STATEMENT_TIME && matches!(self.peek().tok, Tok::Decimal | Tok::Float);
                let negative = kw == Kw::MAX_USER_CONNECTIONS && self.accept(Tok::Minus);
                let value = if fraction { self.number()? } else { self.integer()? as f64 };
                Ok(Some((kw.name().to_owned(), if negative { -value } else { value })))
            }
            None => Ok(None),
        }
    }

    /// A number with a fraction, at one.
    fn number(&mut self) -> SqlResult<f64> {
        let token = self.advance();
        let text = String::from_utf8_lossy(self.text_of(token)).into_owned();
        text.parse().map_err(|_| self.unexpected())
    }

    /// At GRANT.
    pub(super) fn grant(&mut self) -> SqlResult<Statement> {
        self.advance();
        let what = self.grant_what()?;
        self.expect_kw(Kw::TO)?;
        let to = self.list(Self::user_spec)?;
        let mut grant = Grant { what, to, options: UserOptions::default(), grant_option: false };
        self.require(&mut grant.options)?;
        if self.accept_kw(Kw::WITH) {
            if self.at(Tok::End) {
                return Err(self.unexpected());
            }
            loop {
                if self.accept_any(&[Kw::GRANT, Kw::ADMIN]).is_some() {
                    self.expect_kw(Kw::OPTION)?;
                    grant.grant_option = true;
                } else if let Some(limit) = self.user_limit()? {
                    grant.options.limits.push(limit);
                } else {
                    break;
                }
            }
        }
        Ok(Statement::Grant(Box::new(grant)))
    }

    /// At REVOKE.
    pub(super) fn revoke(&mut self) -> SqlResult<Statement> {
        self.advance();
        let mut grant_option = false;
        let what = if self.at_revoke_everything() {
            self.advance();
            self.accept_kw(Kw::PRIVILEGES);
            self.expect(Tok::Comma)?;
            self.expect_kw(Kw::GRANT)?;
            self.expect_kw(Kw::OPTION)?;
            GrantWhat::Everything
        } else {
            grant_option = self.accept_then(Kw::ADMIN, &[Kw::OPTION, Kw::FOR])?;
            self.grant_what()?
        };
        self.expect_kw(Kw::FROM)?;
        let to = self.list(|parser| Ok(UserSpec { account: parser.account()?, auth: Vec::new() }))?;
        Ok(Statement::Revoke(Box::new(Grant { what, to, options: UserOptions::default(), grant_option })))
    }

    fn at_revoke_everything(&self) -> bool {
        self.at_kw(Kw::ALL) && {
            let behind = if self.peek_at(1).kw == Some(Kw::PRIVILEGES) { 2 } else { 1 };
            self.peek_at(behind).tok == Tok::Comma
        }
    }

    fn grant_what(&mut self) -> SqlResult<GrantWhat> {
        if self.accept_then(Kw::PROXY, &[Kw::ON])? {
            return Ok(GrantWhat::Proxy(self.account()?));
        }
        let role = (self.at_ident() || self.at(Tok::String))
            && matches!(self.peek_at(1).kw, Some(Kw::TO | Kw::FROM));
        let privilege = PRIVILEGES.iter().any(|words| self.at_kw(words[0]));
        if role || self.at_kw(Kw::CURRENT_ROLE) || (self.at_ident() && !privilege) {
            return Ok(GrantWhat::Role(self.role_name()?));
        }
        let privileges = if self.accept_kw(Kw::ALL) {
            self.accept_kw(Kw::PRIVILEGES);
            vec![("ALL PRIVILEGES".to_owned(), Vec::new())]
        } else {
            self.list(Self::privilege)?
        };
        self.expect_kw(Kw::ON)?;
        Ok(GrantWhat::Privileges { privileges, on: self.grant_level()? })
    }

    /// A privilege's words, then columns where it takes some.
    fn privilege(&mut self) -> SqlResult<(String, Vec<String>)> {
        let begun = self.begun_privilege();
        let found = PRIVILEGES.iter().find(|words| self.at_kws(words));
        let Some(words) = found.filter(|words| words.len() >= begun) else {
            self.pos += begun;
            return Err(self.unexpected());
        };
        self.pos += words.len();
        let name: Vec<&str> = words.iter().map(|kw| kw.name()).collect();
        let with_columns = matches!(words, [Kw::SELECT | Kw::INSERT | Kw::UPDATE | Kw::REFERENCES]);
        let columns =
            if with_columns && self.at(Tok::LParen) { self.parens(Self::ident)? } else { Vec::new() };
        Ok((name.join(" "), columns))
    }

    /// How many of the next words some privilege begins with.
    fn begun_privilege(&self) -> usize {
        let begun =
            |words: &[Kw]| (0..=words.len()).rev().find(|&len| self.at_kws(&words[..len])).unwrap_or(0);
        PRIVILEGES.iter().map(|words| begun(words)).max().unwrap_or(0)
    }

    fn grant_level(&mut self) -> SqlResult<GrantLevel> {
        let kind = self.accept_any(&[Kw::TABLE, Kw::PROCEDURE, Kw::FUNCTION, Kw::PACKAGE]);
        if let Some(kw) = kind.filter(|&kw| kw != Kw::TABLE) {
            if kw == Kw::PACKAGE && self.at_kw(Kw::BODY) {
                return Err(errors::not_supported_yet("PACKAGE BODY"));
            }
            return Ok(GrantLevel::Routine(kw.name().to_owned(), self.object_name()?));
        }
        if self.accept(Tok::Star) {
            if self.accept(Tok::Dot) {
                self.expect(Tok::Star)?;
                return Ok(GrantLevel::Global);
            }
            return Ok(GrantLevel::Database(None));
        }
        if self.peek_at(1).tok == Tok::Dot && self.peek_at(2).tok == Tok::Star {
            let database = self.ident()?;
            self.pos += 2;
            return Ok(GrantLevel::Database(Some(database)));
        }
        self.object_name().map(GrantLevel::Table)
    }
}

/// The privileges; those that begin with another stand before it.
const PRIVILEGES: &[&[Kw]] = &[
    &[Kw::SELECT],
    &[Kw::INSERT],
    &[Kw::UPDATE],
    &[Kw::REFERENCES],
    &[Kw::DELETE, Kw::HISTORY],
    &[Kw::DELETE],
    &[Kw::USAGE],
    &[Kw::INDEX],
    &[Kw::ALTER, Kw::ROUTINE],
    &[Kw::ALTER],
    &[Kw::CREATE, Kw::TEMPORARY, Kw::TABLES],
    &[Kw::CREATE, Kw::VIEW],
    &[Kw::CREATE, Kw::ROUTINE],
    &[Kw::CREATE, Kw::USER],
    &[Kw::CREATE, Kw::TABLESPACE],
    &[Kw::CREATE],
    &[Kw::DROP],
    &[Kw::EXECUTE],
    &[Kw::RELOAD],
    &[Kw::SHUTDOWN],
    &[Kw::PROCESS],
    &[Kw::FILE],
    &[Kw::GRANT, Kw::OPTION],
    &[Kw::SHOW, Kw::DATABASES],
    &[Kw::SHOW, Kw::VIEW],
    &[Kw::SUPER],
    &[Kw::LOCK, Kw::TABLES],
    &[Kw::REPLICATION, Kw::SLAVE, Kw::ADMIN],
    &[Kw::REPLICATION, Kw::SLAVE],
    &[Kw::REPLICATION, Kw::REPLICA, Kw::ADMIN],
    &[Kw::REPLICATION, Kw::REPLICA],
    &[Kw::REPLICATION, Kw::CLIENT],
    &[Kw::REPLICATION, Kw::MASTER, Kw::ADMIN],
    &[Kw::SLAVE, Kw::MONITOR],
    &[Kw::REPLICA, Kw::MONITOR],
    &[Kw::BINLOG, Kw::ADMIN],
    &[Kw::BINLOG, Kw::MONITOR],
    &[Kw::BINLOG, Kw::REPLAY],
    &[Kw::CONNECTION, Kw::ADMIN],
    &[Kw::FEDERATED, Kw::ADMIN],
    &[Kw::READ, Kw::ONLY, Kw::ADMIN],
    &[Kw::READ_ONLY, Kw::ADMIN],
    &[Kw::SET, Kw::USER],
    &[Kw::EVENT],
    &[Kw::TRIGGER],
];
