//! Transactions, KILL, LOCK, FLUSH, maintenance, PREPARE, XA.

use super::{Parser, TypeFamily};
use crate::ast::{
    Completion, Expr, Flush, FlushKind, Kill, KillTarget, LiteralValue, Maintain, MaintainOp, ObjectName,
    Persistent, StartTransaction, Statement, TableLock, TableLockKind, Xa, XaStart, Xid,
};
use crate::keyword::Kw;
use crate::lexer::Tok;
use keel_base::SqlResult;

/// Bytes of each part of a transaction's name in XA, and its greatest format.
const XID_PART_BYTES_MAX: usize = 64;
const XID_FORMAT_MAX: u64 = i32::MAX as u64;

impl Parser<'_> {
    pub(super) fn begin(&mut self) -> SqlResult<Statement> {
        // Oracle's BEGIN is a block and no transaction.
        if self.options.types == TypeFamily::Oracle {
            return self.anonymous_block();
        }
        self.advance();
        if self.at_kws(&[Kw::NOT]) {
            return Ok(self.compound("BEGIN NOT ATOMIC".to_owned()));
        }
        self.accept_kw(Kw::WORK);
        Ok(Statement::StartTransaction(StartTransaction::default()))
    }

    /// START TRANSACTION; START SLAVE and its like are not known.
    pub(super) fn start(&mut self) -> SqlResult<Statement> {
        if matches!(self.peek_at(1).kw, Some(Kw::SLAVE | Kw::REPLICA | Kw::ALL)) {
            return Ok(self.unsupported(2));
        }
        self.advance();
        self.expect_kw(Kw::TRANSACTION)?;
        let mut start = StartTransaction::default();
        if self.at_any(&[Kw::WITH, Kw::READ]) {
            let mut twice = false;
            self.list(|parser| {
                if parser.accept_kw(Kw::READ) {
                    twice |= start.read_only.is_some();
                    start.read_only = Some(parser.expect_any(&[Kw::ONLY, Kw::WRITE])? == Kw::ONLY);
                    return Ok(());
                }
                parser.expect_kw(Kw::WITH)?;
                parser.expect_kw(Kw::CONSISTENT)?;
                parser.expect_kw(Kw::SNAPSHOT)?;
                start.consistent_snapshot = true;
                Ok(())
            })?;
            if twice {
                return Err(self.unexpected());
            }
        }
        Ok(Statement::StartTransaction(start))
    }

    pub(super) fn end_transaction(&mut self, commit: bool) -> SqlResult<Statement> {
        self.advance();
        self.accept_kw(Kw::WORK);
        if !commit && self.accept_kw(Kw::TO) {
            // A savepoint may be called SAVEPOINT.
            if self.at_kw(Kw::SAVEPOINT) && Self::is_ident(self.peek_at(1)) {
                self.advance();
            }
            return Ok(Statement::RollbackTo(self.ident()?));
        }
        let mut completion = Completion::default();
        if self.accept_kw(Kw::AND) {
            completion.chain = Some(!self.accept_kw(Kw::NO));
            self.expect_kw(Kw::CHAIN)?;
        }
        if self.accept_kw(Kw::NO) {
            self.expect_kw(Kw::RELEASE)?;
            completion.release = Some(false);
        } else if completion.chain != Some(true) && self.accept_kw(Kw::RELEASE) {
            completion.release = Some(true);
        }
        Ok(if commit { Statement::Commit(completion) } else { Statement::Rollback(completion) })
    }

    pub(super) fn release_savepoint(&mut self) -> SqlResult<Statement> {
        self.advance();
        self.expect_kw(Kw::SAVEPOINT)?;
        Ok(Statement::ReleaseSavepoint(self.ident()?))
    }

    pub(super) fn kill(&mut self) -> SqlResult<Statement> {
        self.advance();
        let soft = match self.accept_any(&[Kw::HARD, Kw::SOFT]) {
            Some(kw) => kw == Kw::SOFT,
            None => false,
        };
        let query = match self.accept_any(&[Kw::CONNECTION, Kw::QUERY]) {
            Some(kw) => kw == Kw::QUERY,
            None => false,
        };
        // ID and USER are columns where nothing follows.
        let alone = self.peek_at(1).tok == Tok::End;
        let what = if query && !alone && self.accept_kw(Kw::ID) {
            KillTarget::QueryId(self.expr()?)
        } else if !alone && self.accept_kw(Kw::USER) {
            let account = self.account()?;
            if query { KillTarget::QueryOfUser(account) } else { KillTarget::User(account) }
        } else {
            let id = self.expr()?;
            if query { KillTarget::Query(id) } else { KillTarget::Connection(id) }
        };
        Ok(Statement::Kill(Box::new(Kill { soft, what })))
    }

    pub(super) fn lock_tables(&mut self) -> SqlResult<Statement> {
        self.advance();
        self.expect_any(&[Kw::TABLES, Kw::TABLE])?;
        let tables = self.list(|parser| {
            let table = parser.object_name()?;
            let alias = parser.table_alias()?;
            Ok(TableLock { table, alias, kind: parser.table_lock_kind()? })
        })?;
        let wait = self.lock_wait()?;
        Ok(Statement::LockTables { tables, wait })
    }

    fn table_lock_kind(&mut self) -> SqlResult<TableLockKind> {
        Ok(match self.expect_any(&[Kw::READ, Kw::WRITE, Kw::LOW_PRIORITY])? {
            Kw::READ if self.accept_kw(Kw::LOCAL) => TableLockKind::ReadLocal,
            Kw::READ => TableLockKind::Read,
            Kw::WRITE if self.accept_kw(Kw::CONCURRENT) => TableLockKind::WriteConcurrent,
            Kw::WRITE => TableLockKind::Write,
            _ => {
                self.expect_kw(Kw::WRITE)?;
                TableLockKind::LowPriorityWrite
            }
        })
    }

    pub(super) fn unlock_tables(&mut self) -> SqlResult<Statement> {
        self.advance();
        self.expect_any(&[Kw::TABLES, Kw::TABLE])?;
        Ok(Statement::UnlockTables)
    }

    pub(super) fn flush(&mut self) -> SqlResult<Statement> {
        self.advance();
        let local = self.accept_any(&[Kw::NO_WRITE_TO_BINLOG, Kw::LOCAL]).is_some();
        if self.accept_any(&[Kw::TABLES, Kw::TABLE]).is_some() {
            let what = vec![self.flush_tables()?];
            return Ok(Statement::Flush(Flush { local, what }));
        }
        let what = self.list(Self::flush_kind)?;
        Ok(Statement::Flush(Flush { local, what }))
    }

    fn flush_tables(&mut self) -> SqlResult<FlushKind> {
        let tables = if self.at_ident() { self.list(Self::object_name)? } else { Vec::new() };
        let read_lock = self.accept_then(Kw::WITH, &[Kw::READ, Kw::LOCK])?;
        if read_lock && self.accept_kw(Kw::AND) {
            // Only Aria has checkpoints that this disables.
            self.expect_kw(Kw::DISABLE)?;
            self.expect_kw(Kw::CHECKPOINT)?;
        }
        let export = !read_lock && !tables.is_empty() && self.accept_then(Kw::FOR, &[Kw::EXPORT])?;
        Ok(FlushKind::Tables { tables, read_lock, export })
    }

    fn flush_kind(&mut self) -> SqlResult<FlushKind> {
        let token = self.peek();
        // What a plugin lets FLUSH name.
        let word = String::from_utf8_lossy(self.text_of(token)).to_ascii_uppercase();
        if super::show::PLUGIN_TABLES.contains(&word.as_str()) {
            self.advance();
            return Ok(FlushKind::Other(word));
        }
        let kw = token.kw.ok_or_else(|| self.unexpected())?;
        match kw {
            Kw::PRIVILEGES => {
                self.advance();
                return Ok(FlushKind::Privileges);
            }
            Kw::STATUS => {
                self.advance();
                return Ok(FlushKind::Status);
            }
            _ => {}
        }
        let words: &[Kw] = match kw {
            Kw::BINARY | Kw::ENGINE | Kw::GENERAL | Kw::SLOW | Kw::ERROR => &[Kw::LOGS],
            Kw::RELAY => &[Kw::LOGS],
            Kw::QUERY => &[Kw::CACHE],
            Kw::LOGS
            | Kw::HOSTS
            | Kw::USER_RESOURCES
            | Kw::SLAVE
            | Kw::MASTER
            | Kw::DES_KEY_FILE
            | Kw::SSL => &[],
            _ => return Err(self.unexpected()),
        };
        let mut what = String::from_utf8_lossy(self.text_of(token)).to_ascii_uppercase();
        self.advance();
        for &word in words {
            self.expect_kw(word)?;
            what.push(' ');
            what.push_str(word.name());
        }
        Ok(FlushKind::Other(what))
    }

    /// CHECK, ANALYZE, OPTIMIZE, REPAIR, CHECKSUM TABLE.
    pub(super) fn maintain(&mut self, kw: Kw) -> SqlResult<Statement> {
        self.advance();
        let op = match kw {
            Kw::CHECK => MaintainOp::Check,
            Kw::ANALYZE => MaintainOp::Analyze,
            Kw::OPTIMIZE => MaintainOp::Optimize,
            Kw::REPAIR => MaintainOp::Repair,
            _ => MaintainOp::Checksum,
        };
        let logged = matches!(op, MaintainOp::Analyze | MaintainOp::Optimize | MaintainOp::Repair);
        let local = logged && self.accept_any(&[Kw::NO_WRITE_TO_BINLOG, Kw::LOCAL]).is_some();
        let view = matches!(op, MaintainOp::Check | MaintainOp::Repair) && self.accept_kw(Kw::VIEW);
        if !view {
            self.expect_any(&[Kw::TABLE, Kw::TABLES])?;
        }
        let tables = self.list(Self::object_name)?;
        let mut options = Vec::new();
        while let Some(option) = self.maintain_option(op, view)? {
            options.push(option.to_owned());
            // The others take several.
            if op == MaintainOp::Checksum || view {
                break;
            }
        }
        let persistent = if op == MaintainOp::Analyze { self.persistent()? } else { None };
        let wait = if op == MaintainOp::Optimize { self.lock_wait()? } else { None };
        Ok(Statement::Maintain(Maintain { op, local, view, tables, options, persistent, wait }))
    }

    fn maintain_option(&mut self, op: MaintainOp, view: bool) -> SqlResult<Option<&'static str>> {
        let allowed: &[Kw] = match op {
            _ if view => &[],
            MaintainOp::Check => &[Kw::QUICK, Kw::FAST, Kw::MEDIUM, Kw::EXTENDED, Kw::CHANGED],
            MaintainOp::Repair => &[Kw::QUICK, Kw::EXTENDED, Kw::USE_FRM],
            MaintainOp::Checksum => &[Kw::QUICK, Kw::EXTENDED],
            MaintainOp::Analyze | MaintainOp::Optimize => &[],
        };
        if let Some(kw) = self.accept_any(allowed) {
            return Ok(Some(kw.name()));
        }
        if op == MaintainOp::Check && self.accept_then(Kw::FOR, &[Kw::UPGRADE])? {
            return Ok(Some("FOR UPGRADE"));
        }
        if op == MaintainOp::Repair && view && self.accept_then(Kw::FROM, &[Kw::MYSQL])? {
            return Ok(Some("FROM MYSQL"));
        }
        Ok(None)
    }

    /// `PERSISTENT FOR ALL`, `PERSISTENT FOR COLUMNS ALL INDEXES (a, b)`.
    fn persistent(&mut self) -> SqlResult<Option<Persistent>> {
        if !self.accept_then(Kw::PERSISTENT, &[Kw::FOR])? {
            return Ok(None);
        }
        if self.accept_kw(Kw::ALL) {
            return Ok(Some(Persistent::default()));
        }
        let columns = self.persistent_list(Kw::COLUMNS)?;
        let indexes = self.persistent_list(Kw::INDEXES)?;
        Ok(Some(Persistent { columns, indexes }))
    }

    fn persistent_list(&mut self, word: Kw) -> SqlResult<Option<Vec<String>>> {
        self.expect_kw(word)?;
        if self.accept_kw(Kw::ALL) {
            return Ok(None);
        }
        self.expect(Tok::LParen)?;
        let mut names = Vec::new();
        if !self.at(Tok::RParen) {
            names = self.list(|parser| match parser.accept_kw(Kw::PRIMARY) {
                true => Ok("PRIMARY".to_owned()),
                false => parser.ident(),
            })?;
        }
        self.expect(Tok::RParen)?;
        Ok(Some(names))
    }

    pub(super) fn prepare(&mut self) -> SqlResult<Statement> {
        self.advance();
        let name = self.ident()?;
        self.expect_kw(Kw::FROM)?;
        let source = Box::new(self.expr()?);
        Ok(Statement::Prepare { name, source })
    }

    pub(super) fn execute(&mut self) -> SqlResult<Statement> {
        self.advance();
        if self.at_kw(Kw::IMMEDIATE) && self.peek_at(1).tok != Tok::End {
            self.advance();
            let source = Box::new(self.expr()?);
            return Ok(Statement::ExecuteImmediate { source, using: self.using()? });
        }
        let name = self.ident()?;
        Ok(Statement::Execute { name, using: self.using()? })
    }

    fn using(&mut self) -> SqlResult<Vec<Expr>> {
        if self.accept_kw(Kw::USING) { self.list(Self::expr_or_default) } else { Ok(Vec::new()) }
    }

    pub(super) fn deallocate(&mut self) -> SqlResult<Statement> {
        self.advance();
        self.expect_kw(Kw::PREPARE)?;
        Ok(Statement::Deallocate(self.ident()?))
    }

    pub(super) fn rename(&mut self) -> SqlResult<Statement> {
        self.advance();
        if self.accept_kw(Kw::USER) {
            let renames = self.list(|parser| {
                let old = parser.account()?;
                parser.expect_kw(Kw::TO)?;
                Ok((old, parser.account()?))
            })?;
            return Ok(Statement::RenameUser(renames));
        }
        self.expect_any(&[Kw::TABLE, Kw::TABLES])?;
        let if_exists = self.if_exists()?;
        let mut wait = None;
        let renames = self.list(|parser| {
            let old: ObjectName = parser.object_name()?;
            if wait.is_none() {
                wait = parser.lock_wait()?;
            }
            parser.expect_kw(Kw::TO)?;
            Ok((old, parser.object_name()?))
        })?;
        Ok(Statement::RenameTable { renames, if_exists, wait })
    }

    pub(super) fn truncate(&mut self) -> SqlResult<Statement> {
        self.advance();
        self.accept_any(&[Kw::TABLE]);
        let table = self.object_name()?;
        let wait = self.lock_wait()?;
        Ok(Statement::Truncate { table, wait })
    }

    pub(super) fn xa(&mut self) -> SqlResult<Statement> {
        self.advance();
        let words = [Kw::START, Kw::BEGIN, Kw::END, Kw::PREPARE, Kw::COMMIT, Kw::ROLLBACK, Kw::RECOVER];
        let xa = match self.expect_any(&words)? {
            Kw::START | Kw::BEGIN => {
                let xid = self.xid()?;
                let how = match self.accept_any(&[Kw::JOIN, Kw::RESUME]) {
                    Some(Kw::JOIN) => XaStart::Join,
                    Some(_) => XaStart::Resume,
                    None => XaStart::New,
                };
                Xa::Start { xid, how }
            }
            Kw::END => {
                let xid = self.xid()?;
                let suspend = self.accept_kw(Kw::SUSPEND);
                if suspend {
                    self.accept_then(Kw::FOR, &[Kw::MIGRATE])?;
                }
                Xa::End { xid, suspend }
            }
            Kw::PREPARE => Xa::Prepare(self.xid()?),
            Kw::COMMIT => {
                let xid = self.xid()?;
                Xa::Commit { xid, one_phase: self.accept_then(Kw::ONE, &[Kw::PHASE])? }
            }
            Kw::ROLLBACK => Xa::Rollback(self.xid()?),
            _ => {
                let said = self.accept_kw(Kw::FORMAT);
                let sql = said && {
                    self.expect(Tok::Eq)?;
                    let name = self.string()?.to_text();
                    let sql = name.eq_ignore_ascii_case("sql");
                    if !sql && !name.eq_ignore_ascii_case("raw") {
                        return Err(keel_base::errors::unknown_format("XA RECOVER", name));
                    }
                    sql
                };
                Xa::Recover { sql }
            }
        };
        Ok(Statement::Xa(xa))
    }

    fn xid(&mut self) -> SqlResult<Xid> {
        let gtrid = self.xid_part()?;
        let mut xid = Xid { gtrid, bqual: "".into(), format: 1 };
        if self.accept(Tok::Comma) {
            xid.bqual = self.xid_part()?;
            if self.accept(Tok::Comma) {
                let number = self.pos;
                xid.format = self.ulong()?;
                if xid.format > XID_FORMAT_MAX {
                    self.pos = number;
                    return Err(self.unexpected());
                }
            }
        }
        if xid.gtrid.len() > XID_PART_BYTES_MAX || xid.bqual.len() > XID_PART_BYTES_MAX {
            return Err(self.unexpected());
        }
        Ok(xid)
    }

    /// A string, or one in hexadecimal or binary.
    fn xid_part(&mut self) -> SqlResult<crate::ast::ByteStr> {
        match self.peek().tok {
            Tok::String => self.string(),
            Tok::Hex | Tok::QuotedHex | Tok::Bit | Tok::QuotedBit => {
                let first = self.pos;
                let literal = self.literal()?;
                self.fix_literals(first);
                match literal {
                    Expr::Literal(crate::ast::Literal {
                        value: LiteralValue::Hex { bytes, .. } | LiteralValue::Bit { bytes, .. },
                        ..
                    }) => Ok(bytes),
                    _ => Err(self.unexpected()),
                }
            }
            _ => Err(self.unexpected()),
        }
    }
}
