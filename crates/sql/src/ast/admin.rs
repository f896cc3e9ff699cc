//! Everything about the server and the session: SET, SHOW, transactions, accounts, maintenance.

use super::{ByteStr, Expr, LockWait, ObjectName, Statement, VarScope};

/// One item of SET.
#[derive(Debug, Clone, PartialEq)]
pub enum SetItem {
    /// A system variable: `SET a = 1`, `SET GLOBAL a = 1`, `SET @@session.a = DEFAULT`.
    SysVar {
        /// Whose value.
        scope: VarScope,
        /// The part before the point.
        instance: Option<String>,
        /// The name.
        name: String,
        /// The value; none is DEFAULT. A bare word (`ON`, `utf8mb4`, `READ`) is a column without table.
        value: Option<Expr>,
    },
    /// `@a = 1`.
    UserVar {
        /// The variable.
        name: String,
        /// Its value.
        value: Expr,
    },
    /// NAMES; none is DEFAULT.
    Names {
        /// The character set.
        charset: Option<String>,
        /// COLLATE; none where not said.
        collation: Option<String>,
    },
    /// CHARACTER SET; none is DEFAULT.
    Charset(Option<String>),
    /// `[SESSION | GLOBAL] TRANSACTION; scope Default means the next transaction only`.
    Transaction {
        /// Which transactions.
        scope: VarScope,
        /// ISOLATION LEVEL.
        isolation: Option<Isolation>,
        /// READ ONLY (true), READ WRITE (false).
        read_only: Option<bool>,
    },
    /// ROLE.
    Role(String),
    /// DEFAULT ROLE.
    DefaultRole {
        /// The role.
        role: RoleName,
        /// FOR user.
        user: Option<Account>,
    },
    /// PASSWORD.
    Password {
        /// FOR user; the current one where not said.
        user: Option<Account>,
        /// What it becomes.
        password: PasswordValue,
    },
}

/// A password as SET PASSWORD and IDENTIFIED give it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PasswordValue {
    /// PASSWORD('plain')
    Plain(ByteStr),
    /// '*HASH'
    Hash(ByteStr),
}

/// Isolation levels.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    ReadUncommitted,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

/// SHOW.
#[derive(Debug, Clone, PartialEq)]
pub struct Show {
    /// What is shown.
    pub what: ShowKind,
    /// LIKE or WHERE.
    pub filter: Option<ShowFilter>,
}

/// Which rows SHOW keeps.
#[derive(Debug, Clone, PartialEq)]
pub enum ShowFilter {
    /// LIKE 'pattern'.
    Like(ByteStr),
    /// WHERE, over the columns of the answer.
    Where(Box<Expr>),
}

/// What SHOW shows.
#[derive(Debug, Clone, PartialEq)]
pub enum ShowKind {
    /// DATABASES, SCHEMAS
    Databases,
    /// `[FULL] TABLES [FROM db]`
    Tables {
        /// FULL
        full: bool,
        /// The database.
        db: Option<String>,
    },
    /// `[FULL] TRIGGERS [FROM db]`
    Triggers {
        /// The database.
        db: Option<String>,
    },
    /// `EVENTS [FROM db]`
    Events {
        /// The database.
        db: Option<String>,
    },
    /// `TABLE STATUS [FROM db]`
    TableStatus {
        /// The database.
        db: Option<String>,
    },
    /// `OPEN TABLES [FROM db]`
    OpenTables {
        /// The database.
        db: Option<String>,
    },
    /// `[FULL] COLUMNS FROM table [FROM db]`
    Columns {
        /// FULL
        full: bool,
        /// The table; its `db` is that of FROM db where written.
        table: ObjectName,
    },
    /// `INDEX FROM table [FROM db]`
    Indexes(ObjectName),
    /// `CREATE DATABASE [IF NOT EXISTS] db`
    CreateDatabase {
        /// The database.
        name: String,
        /// IF NOT EXISTS.
        if_not_exists: bool,
    },
    /// CREATE TABLE
    CreateTable(ObjectName),
    /// CREATE VIEW
    CreateView(ObjectName),
    /// CREATE SEQUENCE
    CreateSequence(ObjectName),
    /// CREATE PROCEDURE, FUNCTION, TRIGGER, EVENT, PACKAGE
    CreateOther {
        /// Upper-case kind.
        kind: String,
        /// The name.
        name: ObjectName,
    },
    /// `CREATE USER [account]`
    CreateUser(Option<Account>),
    /// `[GLOBAL | SESSION] VARIABLES`
    Variables(VarScope),
    /// `[GLOBAL | SESSION] STATUS`
    Status(VarScope),
    /// `[FULL] PROCESSLIST`
    Processlist {
        /// FULL
        full: bool,
    },
    /// `WARNINGS [LIMIT]`
    Warnings(Option<ShowLimit>),
    /// `ERRORS [LIMIT]`
    Errors(Option<ShowLimit>),
    /// COUNT(*) WARNINGS
    CountWarnings,
    /// COUNT(*) ERRORS
    CountErrors,
    /// `[STORAGE] ENGINES`
    Engines,
    /// `ENGINE name STATUS [FORMAT=JSON] | MUTEX | LOGS`
    Engine {
        /// The engine; none is ALL.
        engine: Option<String>,
        /// STATUS, MUTEX or LOGS.
        what: String,
        /// FORMAT=JSON.
        json: bool,
    },
    /// CHARACTER SET
    CharacterSets,
    /// COLLATION
    Collations,
    /// `PLUGINS [SONAME 'x']`
    Plugins,
    /// PLUGINS SONAME: those of libraries.
    PluginsOfFiles,
    /// PRIVILEGES
    Privileges,
    /// `GRANTS [FOR account]; none is the current user`.
    Grants(Option<Account>),
    /// PROCEDURE STATUS, FUNCTION STATUS, PACKAGE STATUS, PACKAGE BODY STATUS
    RoutineStatus {
        /// `PROCEDURE`, `FUNCTION`, `PACKAGE` or `PACKAGE BODY`.
        kind: String,
    },
    /// PROCEDURE CODE, FUNCTION CODE
    RoutineCode {
        /// `PROCEDURE` or `FUNCTION`.
        kind: String,
        /// The routine.
        name: ObjectName,
    },
    /// BINARY LOGS
    BinaryLogs,
    /// MASTER STATUS, BINLOG STATUS
    BinlogStatus,
    /// `[ALL] SLAVE[S] STATUS`
    ReplicaStatus {
        /// ALL
        all: bool,
    },
    /// SLAVE HOSTS
    ReplicaHosts,
    /// BINLOG EVENTS, RELAYLOG EVENTS
    BinlogEvents,
    /// PROFILES
    Profiles,
    /// PROFILE
    Profile,
    /// AUTHORS
    Authors,
    /// CONTRIBUTORS
    Contributors,
    /// EXPLAIN FOR CONNECTION's other spelling.
    Explain {
        /// SHOW ANALYZE.
        analyze: bool,
        /// FORMAT=JSON.
        json: bool,
        /// The connection.
        connection: Box<Expr>,
    },
    /// A table of information_schema by its plugin's SHOW: CLIENT_STATISTICS, INDEX_STATISTICS, TABLE_STATISTICS, USER_STATISTICS
    /// or USER_VARIABLES, in upper case.
    Plugin(String),
}

/// LIMIT of SHOW WARNINGS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShowLimit {
    /// Rows skipped.
    pub offset: u64,
    /// Rows at most.
    pub count: u64,
}

/// EXPLAIN and ANALYZE.
#[derive(Debug, Clone, PartialEq)]
pub struct Explain {
    /// ANALYZE: run it and count.
    pub analyze: bool,
    /// EXTENDED.
    pub extended: bool,
    /// PARTITIONS.
    pub partitions: bool,
    /// FORMAT=JSON.
    pub json: bool,
    /// What is explained.
    pub what: ExplainTarget,
}

/// What EXPLAIN explains.
#[derive(Debug, Clone, PartialEq)]
pub enum ExplainTarget {
    /// A statement.
    Statement(Box<Statement>),
    /// FOR CONNECTION id.
    Connection(Box<Expr>),
}

impl ExplainTarget {
    /// A target that says nothing.
    pub fn nothing() -> ExplainTarget {
        let name = super::ColumnName { db: None, table: None, column: String::new() };
        ExplainTarget::Connection(Box::new(Expr::Column(name)))
    }
}

/// BEGIN, START TRANSACTION.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StartTransaction {
    /// WITH CONSISTENT SNAPSHOT.
    pub consistent_snapshot: bool,
    /// READ ONLY (true), READ WRITE (false).
    pub read_only: Option<bool>,
}

/// What follows COMMIT and ROLLBACK; none is the variable `completion_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Completion {
    /// AND CHAIN, AND NO CHAIN.
    pub chain: Option<bool>,
    /// RELEASE, NO RELEASE.
    pub release: Option<bool>,
}

/// KILL.
#[derive(Debug, Clone, PartialEq)]
pub struct Kill {
    /// SOFT; else HARD.
    pub soft: bool,
    /// What ends.
    pub what: KillTarget,
}

/// What KILL ends.
#[derive(Debug, Clone, PartialEq)]
pub enum KillTarget {
    /// The connection with this id.
    Connection(Expr),
    /// The statement that the connection with this id runs.
    Query(Expr),
    /// The statement with this query id.
    QueryId(Expr),
    /// All connections of a user.
    User(Account),
    /// All statements of a user.
    QueryOfUser(Account),
}

/// One table of LOCK TABLES.
#[derive(Debug, Clone, PartialEq)]
pub struct TableLock {
    /// The table.
    pub table: ObjectName,
    /// AS.
    pub alias: Option<String>,
    /// How.
    pub kind: TableLockKind,
}

/// How LOCK TABLES locks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableLockKind {
    /// READ
    Read,
    /// READ LOCAL
    ReadLocal,
    /// WRITE
    Write,
    /// WRITE CONCURRENT
    WriteConcurrent,
    /// LOW_PRIORITY WRITE
    LowPriorityWrite,
}

/// FLUSH.
#[derive(Debug, Clone, PartialEq)]
pub struct Flush {
    /// NO_WRITE_TO_BINLOG, LOCAL.
    pub local: bool,
    /// What, in order.
    pub what: Vec<FlushKind>,
}

/// What FLUSH flushes.
#[derive(Debug, Clone, PartialEq)]
pub enum FlushKind {
    /// `TABLES [a, b] [WITH READ LOCK | FOR EXPORT]`
    Tables {
        /// The tables; all where empty.
        tables: Vec<ObjectName>,
        /// WITH READ LOCK.
        read_lock: bool,
        /// FOR EXPORT.
        export: bool,
    },
    /// PRIVILEGES
    Privileges,
    /// STATUS
    Status,
    /// Any other, upper-case words: LOGS, BINARY LOGS, HOSTS, QUERY CACHE, USER_RESOURCES, ...
    Other(String),
}

/// CHECK, ANALYZE, OPTIMIZE, REPAIR, CHECKSUM TABLE.
#[derive(Debug, Clone, PartialEq)]
pub struct Maintain {
    /// Which.
    pub op: MaintainOp,
    /// NO_WRITE_TO_BINLOG, LOCAL.
    pub local: bool,
    /// VIEW, not TABLE.
    pub view: bool,
    /// The tables.
    pub tables: Vec<ObjectName>,
    /// Options, upper case: QUICK, FAST, MEDIUM, EXTENDED, CHANGED, FOR UPGRADE, USE_FRM, FROM MYSQL.
    pub options: Vec<String>,
    /// PERSISTENT FOR.
    pub persistent: Option<Persistent>,
    /// WAIT, NOWAIT.
    pub wait: Option<LockWait>,
}

/// Of what ANALYZE TABLE gathers statistics that do not depend on the engine; none is ALL.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Persistent {
    /// COLUMNS.
    pub columns: Option<Vec<String>>,
    /// INDEXES.
    pub indexes: Option<Vec<String>>,
}

/// Which maintenance.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MaintainOp {
    Check,
    Analyze,
    Optimize,
    Repair,
    Checksum,
}

/// `user@host`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Account {
    /// A user at a host; `%` where no host is written.
    User {
        /// The name.
        user: String,
        /// The host.
        host: String,
    },
    /// CURRENT_USER
    CurrentUser,
    /// CURRENT_ROLE
    CurrentRole,
    /// PUBLIC and role names are users without a host.
    Role(String),
}

/// A role where no user can stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoleName {
    /// Its name; NONE and PUBLIC are names too.
    Named(String),
    /// CURRENT_ROLE
    Current,
}

/// CREATE USER, ALTER USER.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateUser {
    /// ALTER USER.
    pub alter: bool,
    /// OR REPLACE.
    pub or_replace: bool,
    /// IF NOT EXISTS, or IF EXISTS under ALTER.
    pub if_exists_clause: bool,
    /// The accounts.
    pub users: Vec<UserSpec>,
    /// What follows: REQUIRE, WITH limits, PASSWORD EXPIRE, ACCOUNT LOCK.
    pub options: UserOptions,
}

/// CREATE ROLE.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateRole {
    /// OR REPLACE.
    pub or_replace: bool,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// The roles.
    pub roles: Vec<RoleName>,
    /// WITH ADMIN: who may grant them; none is who makes them.
    pub admin: Option<Account>,
}

/// An account with its authentication.
#[derive(Debug, Clone, PartialEq)]
pub struct UserSpec {
    /// The account.
    pub account: Account,
    /// Ways to authenticate, any of which will do; unchanged where empty.
    pub auth: Vec<AuthSpec>,
}

/// One way to authenticate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthSpec {
    /// IDENTIFIED BY 'plain'
    Password(ByteStr),
    /// IDENTIFIED BY PASSWORD '*HASH'
    Hash(ByteStr),
    /// `IDENTIFIED VIA plugin [USING ...]`
    Plugin {
        /// Its name.
        name: String,
        /// What it is given.
        using: Option<PasswordValue>,
    },
}

/// What CREATE USER, ALTER USER and GRANT say about an account.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UserOptions {
    /// REQUIRE NONE, SSL, X509, or the SUBJECT, ISSUER, CIPHER with their text; upper-case words.
    pub require: Vec<(String, Option<ByteStr>)>,
    /// WITH limits: upper-case name and number; MAX_STATEMENT_TIME may have a fraction.
    pub limits: Vec<(String, f64)>,
    /// ACCOUNT LOCK (true), ACCOUNT UNLOCK (false).
    pub lock: Option<bool>,
    /// PASSWORD EXPIRE ...
    pub expire: Option<PasswordExpire>,
}

/// When a password expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PasswordExpire {
    /// Now.
    Now,
    /// NEVER
    Never,
    /// DEFAULT
    Default,
    /// INTERVAL n DAY
    Days(u64),
}

/// GRANT and REVOKE.
#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    /// What is given.
    pub what: GrantWhat,
    /// To whom.
    pub to: Vec<UserSpec>,
    /// REQUIRE and WITH limits.
    pub options: UserOptions,
    /// WITH GRANT OPTION, or ADMIN OPTION of a role.
    pub grant_option: bool,
}

/// What GRANT gives.
#[derive(Debug, Clone, PartialEq)]
pub enum GrantWhat {
    /// Privileges on something.
    Privileges {
        /// Upper-case names (`SELECT`, `ALL PRIVILEGES`) with columns.
        privileges: Vec<(String, Vec<String>)>,
        /// On what.
        on: GrantLevel,
    },
    /// REVOKE ALL PRIVILEGES, GRANT OPTION FROM ...
    Everything,
    /// A role.
    Role(RoleName),
    /// PROXY ON account.
    Proxy(Account),
}

/// On what a privilege holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantLevel {
    /// `*.*`
    Global,
    /// `db.*`; none is `*`, the current database.
    Database(Option<String>),
    /// A table.
    Table(ObjectName),
    /// PROCEDURE, FUNCTION, PACKAGE: upper-case kind and name.
    Routine(String, ObjectName),
}

/// XA.
#[derive(Debug, Clone, PartialEq)]
pub enum Xa {
    /// `XA START xid [JOIN | RESUME]`
    Start {
        /// The transaction.
        xid: Xid,
        /// JOIN or RESUME
        how: XaStart,
    },
    /// `XA END xid [SUSPEND]`
    End {
        /// The transaction.
        xid: Xid,
        /// SUSPEND
        suspend: bool,
    },
    /// XA PREPARE xid
    Prepare(Xid),
    /// `XA COMMIT xid [ONE PHASE]`
    Commit {
        /// The transaction.
        xid: Xid,
        /// ONE PHASE
        one_phase: bool,
    },
    /// XA ROLLBACK xid
    Rollback(Xid),
    /// `XA RECOVER [FORMAT='SQL']`
    Recover {
        /// FORMAT='SQL'
        sql: bool,
    },
}

/// What XA START does with a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum XaStart {
    /// Begins.
    New,
    /// JOIN
    Join,
    /// RESUME
    Resume,
}

/// A transaction's name in XA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Xid {
    /// Global part.
    pub gtrid: ByteStr,
    /// Branch.
    pub bqual: ByteStr,
    /// Format, 1 where not said.
    pub format: u64,
}
