//! Which statement it is.

use super::{Parser, TypeFamily};
use crate::ast::{ExplainTarget, Statement, *};
use crate::keyword::Kw;
use crate::lexer::Tok;
use keel_base::SqlResult;

impl Parser<'_> {
    /// One statement.
    pub(super) fn statement(&mut self) -> SqlResult<Statement> {
        if self.at(Tok::LParen) {
            return Ok(Statement::Query(self.whole_query()?));
        }
        let Some(kw) = self.peek().kw else { return Err(self.unexpected()) };
        if let Some(result) = self.data_statement(kw) {
            return result;
        }
        if let Some(result) = self.session_statement(kw) {
            return result;
        }
        if let Some(result) = self.definition_statement(kw) {
            return result;
        }
        self.rare_statement(kw)
    }

    /// Queries and changes of rows.
    fn data_statement(&mut self, kw: Kw) -> Option<SqlResult<Statement>> {
        Some(match kw {
            Kw::SELECT | Kw::VALUES => self.whole_query().map(Statement::Query),
            Kw::WITH => self.with_statement(),
            Kw::INSERT | Kw::REPLACE => {
                self.advance();
                self.insert(kw == Kw::REPLACE)
            }
            Kw::UPDATE => {
                self.advance();
                self.update(None)
            }
            Kw::DELETE => {
                self.advance();
                self.delete(None)
            }
            Kw::DO => {
                self.advance();
                self.do_statement()
            }
            Kw::LOAD => self.load(),
            _ => return None,
        })
    }

    /// A query; UPDATE and DELETE take WITH in later versions only.
    fn with_statement(&mut self) -> SqlResult<Statement> {
        Ok(Statement::Query(self.whole_query()?))
    }

    fn do_statement(&mut self) -> SqlResult<Statement> {
        self.first_next = true;
        let exprs = self.list(Self::expr)?;
        self.first_next = false;
        Ok(Statement::Do(exprs))
    }

    /// Transactions, SET, SHOW and what else concerns the session.
    fn session_statement(&mut self, kw: Kw) -> Option<SqlResult<Statement>> {
        Some(match kw {
            Kw::SET => self.set_statement(),
            Kw::SHOW => self.show_statement(),
            Kw::DESCRIBE | Kw::DESC | Kw::EXPLAIN => self.explain(),
            Kw::USE => {
                self.advance();
                self.ident().map(Statement::Use)
            }
            Kw::BEGIN => self.begin(),
            Kw::START => self.start(),
            Kw::COMMIT | Kw::ROLLBACK => self.end_transaction(kw == Kw::COMMIT),
            Kw::SAVEPOINT => {
                self.advance();
                self.ident().map(Statement::Savepoint)
            }
            Kw::RELEASE => self.release_savepoint(),
            Kw::KILL => self.kill(),
            Kw::LOCK => self.lock_tables(),
            Kw::UNLOCK => self.unlock_tables(),
            Kw::PREPARE => self.prepare(),
            Kw::EXECUTE => self.execute(),
            Kw::DEALLOCATE => self.deallocate(),
            Kw::XA => self.xa(),
            _ => return None,
        })
    }

    fn definition_statement(&mut self, kw: Kw) -> Option<SqlResult<Statement>> {
        Some(match kw {
            Kw::CREATE => self.create(),
            Kw::DROP => self.drop_statement(),
            Kw::ALTER => self.alter(),
            Kw::RENAME => self.rename(),
            Kw::TRUNCATE => self.truncate(),
            Kw::GRANT => self.grant(),
            Kw::REVOKE => self.revoke(),
            _ => return None,
        })
    }

    fn rare_statement(&mut self, kw: Kw) -> SqlResult<Statement> {
        match kw {
            Kw::FLUSH => self.flush(),
            Kw::RESET if self.peek_at(1).kw == Some(Kw::QUERY) => self.flush(),
            Kw::ANALYZE if !self.at_maintenance() => self.explain(),
            Kw::CHECK | Kw::ANALYZE | Kw::OPTIMIZE | Kw::REPAIR | Kw::CHECKSUM => self.maintain(kw),
            Kw::HELP => {
                self.advance();
                Ok(Statement::Help(ByteStr::from(self.ident_or_text()?.as_str())))
            }
            Kw::SHUTDOWN => {
                self.advance();
                self.accept_then(Kw::WAIT, &[Kw::FOR, Kw::ALL])?;
                Ok(Statement::Shutdown)
            }
            Kw::CALL => self.call_procedure(),
            Kw::DECLARE if self.options.types == TypeFamily::Oracle => self.anonymous_block(),
            Kw::BACKUP if self.peek_at(1).tok != Tok::End => Ok(self.unsupported(2)),
            Kw::HANDLER | Kw::CACHE if self.peek_at(1).tok != Tok::End => Ok(self.unsupported_of_tables(kw)),
            Kw::HANDLER
            | Kw::INSTALL
            | Kw::UNINSTALL
            | Kw::RESET
            | Kw::PURGE
            | Kw::CHANGE
            | Kw::STOP
            | Kw::CACHE
            | Kw::BINLOG
            | Kw::SIGNAL
            | Kw::RESIGNAL
            | Kw::GET
            | Kw::BACKUP
            | Kw::IF
            | Kw::CASE
            | Kw::FOR
            | Kw::WHILE
            | Kw::LOOP
            | Kw::REPEAT => {
                if self.peek_at(1).tok == Tok::End {
                    self.advance();
                    return Err(self.unexpected());
                }
                self.compound = matches!(kw, Kw::IF | Kw::CASE | Kw::FOR | Kw::WHILE | Kw::LOOP | Kw::REPEAT);
                Ok(self.unsupported(1))
            }
            _ => Err(self.unexpected()),
        }
    }

    /// Known to MariaDB and not to Keel: named by its next `words` words.
    pub(super) fn unsupported(&mut self, words: usize) -> Statement {
        let tokens = &self.tokens[self.pos..];
        let names = tokens.iter().take(words).take_while(|token| token.tok == Tok::Word);
        let what: Vec<String> =
            names.map(|&token| String::from_utf8_lossy(self.text_of(token)).to_ascii_uppercase()).collect();
        Statement::Unsupported { what: what.join(" "), wants: None }
    }

    /// At ANALYZE: whether tables follow, not a statement.
    fn at_maintenance(&self) -> bool {
        matches!(self.peek_at(1).kw, Some(Kw::TABLE | Kw::TABLES | Kw::NO_WRITE_TO_BINLOG | Kw::LOCAL))
    }

    /// EXPLAIN, DESCRIBE, ANALYZE.
    fn explain(&mut self) -> SqlResult<Statement> {
        let analyze = self.advance().kw == Some(Kw::ANALYZE);
        if !analyze && self.accept_then(Kw::FOR, &[Kw::CONNECTION])? {
            return self.explain_connection(false);
        }
        let mut formatted = false;
        let mut explain = Explain {
            analyze,
            extended: false,
            partitions: false,
            json: false,
            what: ExplainTarget::Connection(Box::new(Self::bare_word(String::new()))),
        };
        let extended_all = usize::from(self.peek_at(1).kw == Some(Kw::ALL));
        if !analyze && self.at_kw(Kw::EXTENDED) && self.explains(1 + extended_all) {
            (0..=extended_all).for_each(|_| {
                self.advance();
            });
            explain.extended = true;
        } else if !analyze && self.at_kw(Kw::PARTITIONS) && self.explains(1) {
            self.advance();
            explain.partitions = true;
        } else if self.at_kw(Kw::FORMAT) && (analyze || self.peek_at(1).tok == Tok::Eq) {
            self.advance();
            self.expect(Tok::Eq)?;
            explain.json = self.explain_format()?;
            formatted = true;
            if !analyze && self.accept_then(Kw::FOR, &[Kw::CONNECTION])? {
                return self.explain_connection(explain.json);
            }
        }
        if !analyze && !formatted && !self.explains(0) {
            return self.describe();
        }
        if !self.explains(0) {
            return Err(self.unexpected());
        }
        let statement = self.nested(Self::statement)?;
        explain.what = ExplainTarget::Statement(Box::new(statement));
        Ok(Statement::Explain(Box::new(explain)))
    }

    fn explain_connection(&mut self, json: bool) -> SqlResult<Statement> {
        let what = ExplainTarget::Connection(Box::new(self.expr()?));
        Ok(Statement::Explain(Box::new(Explain {
            analyze: false,
            extended: false,
            partitions: false,
            json,
            what,
        })))
    }

    /// FORMAT's value: JSON or TRADITIONAL.
    pub(super) fn explain_format(&mut self) -> SqlResult<bool> {
        let name = self.ident_or_text()?;
        if name.eq_ignore_ascii_case("json") {
            return Ok(true);
        }
        if name.eq_ignore_ascii_case("traditional") {
            return Ok(false);
        }
        Err(keel_base::errors::unknown_format("EXPLAIN/ANALYZE", name))
    }

    /// Whether the token `ahead` begins a statement that EXPLAIN takes.
    fn explains(&self, ahead: usize) -> bool {
        let token = self.peek_at(ahead);
        token.tok == Tok::LParen
            || matches!(
                token.kw,
                Some(Kw::SELECT | Kw::INSERT | Kw::REPLACE | Kw::UPDATE | Kw::DELETE | Kw::WITH | Kw::VALUES)
            )
    }

    fn describe(&mut self) -> SqlResult<Statement> {
        let table = self.object_name()?;
        let column = if self.at(Tok::String) || self.at_ident() { Some(self.ident_or_text()?) } else { None };
        Ok(Statement::Describe { table, column })
    }
}
