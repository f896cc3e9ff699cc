//! SHOW.

use super::Parser;
use crate::ast::{ObjectName, Show, ShowFilter, ShowKind, ShowLimit, Statement, VarScope};
use crate::keyword::Kw;
use crate::lexer::Tok;
use keel_base::SqlResult;

/// Tables that a plugin lets SHOW and FLUSH name.
pub(super) const PLUGIN_TABLES: &[&str] =
    &["CLIENT_STATISTICS", "INDEX_STATISTICS", "TABLE_STATISTICS", "USER_STATISTICS", "USER_VARIABLES"];

impl Parser<'_> {
    /// At SHOW.
    pub(super) fn show_statement(&mut self) -> SqlResult<Statement> {
        self.advance();
        let what = self.show_kind()?;
        let filter = if takes_filter(&what) { self.show_filter(&what)? } else { None };
        Ok(Statement::Show(Box::new(Show { what, filter })))
    }

    /// LIKE or WHERE; indexes and tables of plugins are named in no column that LIKE could mean.
    fn show_filter(&mut self, what: &ShowKind) -> SqlResult<Option<ShowFilter>> {
        if !matches!(what, ShowKind::Plugin(_) | ShowKind::Indexes(_)) && self.accept_kw(Kw::LIKE) {
            return Ok(Some(ShowFilter::Like(self.string()?)));
        }
        if self.accept_kw(Kw::WHERE) {
            return Ok(Some(ShowFilter::Where(Box::new(self.expr()?))));
        }
        Ok(None)
    }

    fn show_kind(&mut self) -> SqlResult<ShowKind> {
        let full = self.accept_kw(Kw::FULL);
        let Some(kw) = self.peek().kw else { return self.show_plugin_table(full) };
        if full && !matches!(kw, Kw::TABLES | Kw::COLUMNS | Kw::FIELDS | Kw::PROCESSLIST | Kw::TRIGGERS) {
            return Err(self.unexpected());
        }
        if let Some(kind) = self.show_objects(kw, full)? {
            return Ok(kind);
        }
        if let Some(kind) = self.show_server(kw, full)? {
            return Ok(kind);
        }
        if let Some(kind) = self.show_replication(kw)? {
            return Ok(kind);
        }
        self.show_plugin_table(full)
    }

    /// A table of information_schema that its plugin lets SHOW name.
    fn show_plugin_table(&mut self, full: bool) -> SqlResult<ShowKind> {
        let name = String::from_utf8_lossy(self.text_of(self.peek())).to_ascii_uppercase();
        if full || !PLUGIN_TABLES.contains(&name.as_str()) {
            return Err(self.unexpected());
        }
        self.advance();
        Ok(ShowKind::Plugin(name))
    }

    /// Databases, tables and what they consist of.
    fn show_objects(&mut self, kw: Kw, full: bool) -> SqlResult<Option<ShowKind>> {
        let start = self.pos;
        self.advance();
        Ok(Some(match kw {
            Kw::DATABASES | Kw::SCHEMAS => ShowKind::Databases,
            Kw::TABLES => ShowKind::Tables { full, db: self.db_clause()? },
            Kw::TRIGGERS => ShowKind::Triggers { db: self.db_clause()? },
            Kw::EVENTS => ShowKind::Events { db: self.db_clause()? },
            Kw::TABLE if self.accept_kw(Kw::STATUS) => ShowKind::TableStatus { db: self.db_clause()? },
            Kw::TABLE => return Err(self.unexpected()),
            Kw::OPEN => {
                self.expect_kw(Kw::TABLES)?;
                ShowKind::OpenTables { db: self.db_clause()? }
            }
            Kw::COLUMNS | Kw::FIELDS => ShowKind::Columns { full, table: self.table_clause()? },
            Kw::INDEX | Kw::INDEXES | Kw::KEYS => ShowKind::Indexes(self.table_clause()?),
            Kw::CREATE => self.show_create()?,
            _ => {
                self.pos = start;
                return Ok(None);
            }
        }))
    }

    /// FROM db, IN db.
    fn db_clause(&mut self) -> SqlResult<Option<String>> {
        if self.accept_any(&[Kw::FROM, Kw::IN]).is_some() {
            Ok(Some(self.database_name()?))
        } else {
            Ok(None)
        }
    }

    /// `FROM table [FROM db]`.
    fn table_clause(&mut self) -> SqlResult<ObjectName> {
        self.expect_any(&[Kw::FROM, Kw::IN])?;
        let mut table = self.object_name()?;
        if let Some(db) = self.db_clause()? {
            table.db = Some(db);
        }
        Ok(table)
    }

    /// Behind SHOW CREATE.
    fn show_create(&mut self) -> SqlResult<ShowKind> {
        let kw = self.peek().kw.ok_or_else(|| self.unexpected())?;
        Ok(match kw {
            Kw::DATABASE | Kw::SCHEMA => {
                self.advance();
                let if_not_exists = self.if_not_exists()?;
                ShowKind::CreateDatabase { name: self.database_name()?, if_not_exists }
            }
            Kw::TABLE => {
                self.advance();
                ShowKind::CreateTable(self.object_name()?)
            }
            Kw::SEQUENCE => {
                self.advance();
                ShowKind::CreateSequence(self.object_name()?)
            }
            Kw::VIEW => {
                self.advance();
                ShowKind::CreateView(self.object_name()?)
            }
            Kw::USER => {
                self.advance();
                let account = if self.at(Tok::End) { None } else { Some(self.account()?) };
                ShowKind::CreateUser(account)
            }
            Kw::PROCEDURE | Kw::FUNCTION | Kw::TRIGGER | Kw::EVENT | Kw::PACKAGE => {
                self.advance();
                let mut kind = kw.name().to_owned();
                if kw == Kw::PACKAGE && self.accept_kw(Kw::BODY) {
                    kind.push_str(" BODY");
                }
                ShowKind::CreateOther { kind, name: self.program_name()? }
            }
            _ => return Err(self.unexpected()),
        })
    }

    /// Variables, status and what the server has.
    fn show_server(&mut self, kw: Kw, full: bool) -> SqlResult<Option<ShowKind>> {
        let start = self.pos;
        self.advance();
        Ok(Some(match kw {
            Kw::VARIABLES => ShowKind::Variables(VarScope::Default),
            Kw::STATUS => ShowKind::Status(VarScope::Default),
            Kw::GLOBAL | Kw::SESSION | Kw::LOCAL => {
                let scope = if kw == Kw::GLOBAL { VarScope::Global } else { VarScope::Session };
                match self.expect_any(&[Kw::VARIABLES, Kw::STATUS])? {
                    Kw::VARIABLES => ShowKind::Variables(scope),
                    _ => ShowKind::Status(scope),
                }
            }
            Kw::PROCESSLIST => ShowKind::Processlist { full },
            Kw::WARNINGS => ShowKind::Warnings(self.show_limit()?),
            Kw::ERRORS => ShowKind::Errors(self.show_limit()?),
            Kw::COUNT if self.at(Tok::LParen) && self.tokens[start].end == self.peek().start => {
                self.show_count()?
            }
            Kw::ENGINES => ShowKind::Engines,
            Kw::STORAGE => {
                self.expect_kw(Kw::ENGINES)?;
                ShowKind::Engines
            }
            Kw::ENGINE => self.show_engine()?,
            Kw::CHARSET => ShowKind::CharacterSets,
            Kw::CHARACTER | Kw::CHAR => {
                self.expect_kw(Kw::SET)?;
                ShowKind::CharacterSets
            }
            Kw::COLLATION => ShowKind::Collations,
            Kw::PLUGINS => {
                if self.accept_kw(Kw::SONAME) {
                    self.string()?;
                    return Ok(Some(ShowKind::PluginsOfFiles));
                }
                ShowKind::Plugins
            }
            Kw::PRIVILEGES => ShowKind::Privileges,
            Kw::GRANTS => {
                ShowKind::Grants(if self.accept_kw(Kw::FOR) { Some(self.account()?) } else { None })
            }
            Kw::PROCEDURE | Kw::FUNCTION | Kw::PACKAGE => self.show_routine(kw)?,
            Kw::PROFILES => ShowKind::Profiles,
            Kw::PROFILE => self.show_profile()?,
            Kw::AUTHORS => ShowKind::Authors,
            Kw::CONTRIBUTORS => ShowKind::Contributors,
            Kw::EXPLAIN | Kw::ANALYZE => self.show_explain(kw == Kw::ANALYZE)?,
            _ => {
                self.pos = start;
                return Ok(None);
            }
        }))
    }

    fn show_limit(&mut self) -> SqlResult<Option<ShowLimit>> {
        if !self.accept_kw(Kw::LIMIT) {
            return Ok(None);
        }
        let first = self.integer()?;
        if self.accept(Tok::Comma) {
            return Ok(Some(ShowLimit { offset: first, count: self.integer()? }));
        }
        let offset = if self.accept_kw(Kw::OFFSET) { self.integer()? } else { 0 };
        Ok(Some(ShowLimit { offset, count: first }))
    }

    fn show_count(&mut self) -> SqlResult<ShowKind> {
        self.expect(Tok::LParen)?;
        self.expect(Tok::Star)?;
        self.expect(Tok::RParen)?;
        Ok(match self.expect_any(&[Kw::WARNINGS, Kw::ERRORS])? {
            Kw::WARNINGS => ShowKind::CountWarnings,
            _ => ShowKind::CountErrors,
        })
    }

    fn show_engine(&mut self) -> SqlResult<ShowKind> {
        let engine = if self.accept_kw(Kw::ALL) { None } else { Some(self.name_or_text()?) };
        let what = self.expect_any(&[Kw::STATUS, Kw::MUTEX, Kw::LOGS])?;
        let json = what == Kw::STATUS && self.at_kw(Kw::FORMAT) && self.engine_format()?;
        Ok(ShowKind::Engine { engine, what: what.name().to_owned(), json })
    }

    /// FORMAT=JSON behind SHOW ENGINE ... STATUS.
    fn engine_format(&mut self) -> SqlResult<bool> {
        self.advance();
        self.expect(Tok::Eq)?;
        self.explain_format()
    }

    fn show_routine(&mut self, kw: Kw) -> SqlResult<ShowKind> {
        let mut kind = kw.name().to_owned();
        if kw == Kw::PACKAGE && self.accept_kw(Kw::BODY) {
            kind.push_str(" BODY");
        }
        let wanted: &[Kw] = if kw == Kw::PACKAGE { &[Kw::STATUS] } else { &[Kw::STATUS, Kw::CODE] };
        Ok(match self.expect_any(wanted)? {
            Kw::STATUS => ShowKind::RoutineStatus { kind },
            _ => ShowKind::RoutineCode { kind, name: self.program_name()? },
        })
    }

    /// `PROFILE [types] [FOR QUERY n] [LIMIT n]`.
    fn show_profile(&mut self) -> SqlResult<ShowKind> {
        if !matches!(self.peek().tok, Tok::End) && !self.at_any(&[Kw::FOR, Kw::LIMIT]) {
            self.list(|parser| {
                match parser.expect_any(&[
                    Kw::ALL,
                    Kw::BLOCK,
                    Kw::CONTEXT,
                    Kw::CPU,
                    Kw::IPC,
                    Kw::MEMORY,
                    Kw::PAGE,
                    Kw::SOURCE,
                    Kw::SWAPS,
                ])? {
                    Kw::BLOCK => parser.expect_kw(Kw::IO),
                    Kw::CONTEXT => parser.expect_kw(Kw::SWITCHES),
                    Kw::PAGE => parser.expect_kw(Kw::FAULTS),
                    _ => Ok(()),
                }
            })?;
        }
        if self.accept_then(Kw::FOR, &[Kw::QUERY])? {
            self.integer()?;
        }
        self.show_limit()?;
        Ok(ShowKind::Profile)
    }

    fn show_explain(&mut self, analyze: bool) -> SqlResult<ShowKind> {
        let json = self.accept_kw(Kw::FORMAT) && {
            self.expect(Tok::Eq)?;
            self.explain_format()?
        };
        self.expect_kw(Kw::FOR)?;
        Ok(ShowKind::Explain { analyze, json, connection: Box::new(self.expr()?) })
    }

    fn show_replication(&mut self, kw: Kw) -> SqlResult<Option<ShowKind>> {
        let start = self.pos;
        self.advance();
        Ok(Some(match kw {
            Kw::BINARY => {
                self.expect_kw(Kw::LOGS)?;
                ShowKind::BinaryLogs
            }
            Kw::MASTER => match self.expect_any(&[Kw::LOGS, Kw::STATUS])? {
                Kw::LOGS => ShowKind::BinaryLogs,
                _ => ShowKind::BinlogStatus,
            },
            Kw::BINLOG if self.accept_kw(Kw::STATUS) => ShowKind::BinlogStatus,
            Kw::BINLOG | Kw::RELAYLOG => {
                self.show_events()?;
                ShowKind::BinlogEvents
            }
            Kw::SLAVE | Kw::REPLICA => {
                if self.accept_any(&[Kw::HOSTS]).is_some() {
                    ShowKind::ReplicaHosts
                } else {
                    if self.at(Tok::String) {
                        self.string()?;
                    }
                    self.expect_kw(Kw::STATUS)?;
                    ShowKind::ReplicaStatus { all: false }
                }
            }
            Kw::ALL => {
                self.expect_any(&[Kw::SLAVES, Kw::REPLICAS])?;
                self.expect_kw(Kw::STATUS)?;
                ShowKind::ReplicaStatus { all: true }
            }
            _ => {
                self.pos = start;
                return Ok(None);
            }
        }))
    }

    /// `EVENTS [IN 'file'] [FROM position] [LIMIT n]`.
    fn show_events(&mut self) -> SqlResult<()> {
        if self.at(Tok::String) {
            self.string()?;
        }
        self.expect_kw(Kw::EVENTS)?;
        if self.accept_kw(Kw::IN) {
            self.string()?;
        }
        if self.accept_kw(Kw::FROM) {
            self.integer()?;
        }
        self.show_limit()?;
        Ok(())
    }
}

/// Whether LIKE and WHERE may follow.
fn takes_filter(what: &ShowKind) -> bool {
    use ShowKind::*;
    matches!(
        what,
        Databases
            | Tables { .. }
            | Triggers { .. }
            | Events { .. }
            | TableStatus { .. }
            | OpenTables { .. }
            | Columns { .. }
            | Indexes(_)
            | Variables(_)
            | Status(_)
            | CharacterSets
            | Collations
            | Plugins
            | RoutineStatus { .. }
            | Plugin(_)
    )
}
