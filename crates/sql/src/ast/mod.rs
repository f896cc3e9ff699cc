//! The tree of a statement, as written: nothing is looked up, folded or reordered.
//!
//! Everything is owned. Positions ([`Span`]) and remembered source text ([`SourceText`]) never take part in comparing two
//! trees, so that `parse(print(tree)) == tree` can be asked. Names keep the case they were written in.
//!
//! Literals carry their index: the n-th number or string token of the text. A plan takes literal `n` as a parameter unless
//! the parser marked it as fixed (see [`crate::Parsed::literals`]).

pub mod admin;
pub mod ddl;
pub mod dml;
pub mod expr;
pub mod program;
pub mod query;
pub mod sequence;
pub mod walk;

pub use admin::*;
pub use ddl::*;
pub use dml::*;
pub use expr::*;
pub use program::*;
pub use query::*;
pub use sequence::*;

use std::fmt;
use std::ops::Deref;

/// Bytes `start..end` of the statement's text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Span {
    /// First byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The text it covers.
    pub fn of(self, text: &[u8]) -> &[u8] {
        &text[self.start as usize..self.end as usize]
    }
}

impl PartialEq for Span {
    /// Positions never make two trees differ.
    fn eq(&self, _: &Span) -> bool {
        true
    }
}

/// Text remembered from the source, for column names and messages; never makes two trees differ.
#[derive(Clone, Default)]
pub struct SourceText(pub String);

impl PartialEq for SourceText {
    fn eq(&self, _: &SourceText) -> bool {
        true
    }
}

impl fmt::Debug for SourceText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Deref for SourceText {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

/// The bytes of a string literal, escapes resolved. Usually UTF-8; anything after `_binary`.
#[derive(Clone, PartialEq, Eq, Default, Hash)]
pub struct ByteStr(pub Box<[u8]>);

impl fmt::Debug for ByteStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl Deref for ByteStr {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl ByteStr {
    /// As text, with replacement characters for what is not UTF-8.
    pub fn to_text(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

impl From<&str> for ByteStr {
    fn from(text: &str) -> Self {
        ByteStr(text.as_bytes().into())
    }
}

/// A table, view or routine: `db.name` or `name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectName {
    /// The database, where written.
    pub db: Option<String>,
    /// The name itself.
    pub name: String,
}

/// One statement.
#[derive(Debug, Clone, PartialEq)]
pub enum Statement {
    /// Nothing but comments: answered OK.
    Empty,
    /// SELECT, VALUES, set operations and parenthesised queries.
    Query(Box<Query>),
    /// INSERT and REPLACE.
    Insert(Box<Insert>),
    /// UPDATE.
    Update(Box<Update>),
    /// DELETE.
    Delete(Box<Delete>),
    /// LOAD DATA INFILE.
    Load(Box<LoadData>),
    /// DO: evaluates and answers OK.
    Do(Vec<Expr>),
    /// SET of variables, character sets, transaction characteristics, roles, passwords.
    Set(Vec<SetItem>),
    /// SET STATEMENT a=1 FOR statement.
    SetStatement {
        /// The variables and their values.
        variables: Vec<SetItem>,
        /// What runs under them.
        statement: Box<Statement>,
    },
    /// SHOW.
    Show(Box<Show>),
    /// `DESCRIBE table [column or pattern]`.
    Describe {
        /// The table.
        table: ObjectName,
        /// A column name or a LIKE pattern.
        column: Option<String>,
    },
    /// EXPLAIN and ANALYZE of a statement or a connection.
    Explain(Box<Explain>),
    /// USE db.
    Use(String),
    /// BEGIN, START TRANSACTION.
    StartTransaction(StartTransaction),
    /// COMMIT.
    Commit(Completion),
    /// ROLLBACK.
    Rollback(Completion),
    /// SAVEPOINT name.
    Savepoint(String),
    /// ROLLBACK TO SAVEPOINT name.
    RollbackTo(String),
    /// RELEASE SAVEPOINT name.
    ReleaseSavepoint(String),
    /// KILL.
    Kill(Box<Kill>),
    /// LOCK TABLES.
    LockTables {
        /// What is locked, and how.
        tables: Vec<TableLock>,
        /// WAIT n or NOWAIT.
        wait: Option<LockWait>,
    },
    /// UNLOCK TABLES.
    UnlockTables,
    /// FLUSH.
    Flush(Flush),
    /// CHECK, ANALYZE, OPTIMIZE, REPAIR, CHECKSUM TABLE.
    Maintain(Maintain),
    /// PREPARE name FROM text.
    Prepare {
        /// The statement's name.
        name: String,
        /// A string literal, a user variable, or another expression.
        source: Box<Expr>,
    },
    /// EXECUTE name USING values.
    Execute {
        /// The statement's name.
        name: String,
        /// Values of the parameters.
        using: Vec<Expr>,
    },
    /// EXECUTE IMMEDIATE text USING values.
    ExecuteImmediate {
        /// The statement's text.
        source: Box<Expr>,
        /// Values of the parameters.
        using: Vec<Expr>,
    },
    /// DEALLOCATE or DROP PREPARE name.
    Deallocate(String),
    /// CREATE DATABASE.
    CreateDatabase(CreateDatabase),
    /// ALTER DATABASE.
    AlterDatabase {
        /// The database; none is the current one.
        name: Option<String>,
        /// New character set, collation, comment.
        options: DatabaseOptions,
    },
    /// DROP DATABASE.
    DropDatabase {
        /// The database.
        name: String,
        /// IF EXISTS.
        if_exists: bool,
    },
    /// CREATE TABLE.
    CreateTable(Box<CreateTable>),
    /// DROP TABLE.
    DropTable(DropTable),
    /// ALTER SEQUENCE.
    AlterSequence(Box<AlterSequence>),
    /// ALTER TABLE.
    AlterTable(Box<AlterTable>),
    /// RENAME TABLE a TO b, ...
    RenameTable {
        /// Old and new names, in order.
        renames: Vec<(ObjectName, ObjectName)>,
        /// IF EXISTS.
        if_exists: bool,
        /// WAIT n or NOWAIT.
        wait: Option<LockWait>,
    },
    /// `TRUNCATE [TABLE]`.
    Truncate {
        /// The table.
        table: ObjectName,
        /// WAIT n or NOWAIT.
        wait: Option<LockWait>,
    },
    /// CREATE INDEX.
    CreateIndex(Box<CreateIndex>),
    /// DROP INDEX.
    DropIndex(DropIndex),
    /// CREATE VIEW.
    CreateView(Box<CreateView>),
    /// DROP VIEW.
    DropView {
        /// The views.
        names: Vec<ObjectName>,
        /// IF EXISTS.
        if_exists: bool,
    },
    /// CREATE USER, ALTER USER.
    CreateUser(CreateUser),
    /// DROP USER.
    DropUser {
        /// The accounts.
        users: Vec<Account>,
        /// IF EXISTS.
        if_exists: bool,
    },
    /// CREATE ROLE.
    CreateRole(CreateRole),
    /// DROP ROLE.
    DropRole {
        /// The roles.
        roles: Vec<RoleName>,
        /// IF EXISTS.
        if_exists: bool,
    },
    /// RENAME USER a TO b, ...
    RenameUser(Vec<(Account, Account)>),
    /// GRANT.
    Grant(Box<Grant>),
    /// REVOKE.
    Revoke(Box<Grant>),
    /// XA.
    Xa(Xa),
    /// HELP 'topic'.
    Help(ByteStr),
    /// SHUTDOWN.
    Shutdown,
    /// DROP, ALTER and CALL of stored programs and servers.
    Program(Box<ProgramStatement>),
    /// A statement that MariaDB knows and Keel does not; the server answers error 1235.
    Unsupported {
        /// The leading words, upper case: `CREATE TRIGGER`.
        what: String,
        /// What it asks privileges for.
        wants: Option<Box<Wanted>>,
    },
}
