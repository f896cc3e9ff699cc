//! Definitions: databases, tables, columns, indexes, views.

use super::{Account, ByteStr, ColumnName, Expr, LockWait, ObjectName, Query};

/// CREATE DATABASE.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateDatabase {
    /// OR REPLACE.
    pub or_replace: bool,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// Its name.
    pub name: String,
    /// Character set, collation, comment.
    pub options: DatabaseOptions,
}

/// What a database gives to its tables.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DatabaseOptions {
    /// CHARACTER SET; `default` as written.
    pub charset: Option<String>,
    /// COLLATE.
    pub collation: Option<String>,
    /// COMMENT.
    pub comment: Option<ByteStr>,
}

/// CREATE TABLE.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateTable {
    /// OR REPLACE.
    pub or_replace: bool,
    /// TEMPORARY.
    pub temporary: bool,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// Its name.
    pub name: ObjectName,
    /// LIKE another table; then all that follows is empty.
    pub like: Option<ObjectName>,
    /// Columns, in order.
    pub columns: Vec<ColumnDef>,
    /// Indexes and foreign keys written as elements; those inside column definitions stand there.
    pub keys: Vec<KeyDef>,
    /// CHECK constraints written as elements.
    pub checks: Vec<CheckDef>,
    /// ENGINE, CHARSET and the rest.
    pub options: Vec<TableOption>,
    /// AS SELECT.
    pub select: Option<CreateSelect>,
    /// CREATE SEQUENCE: what it is to count.
    pub sequence: Option<Box<super::SequenceOptions>>,
}

/// The query of CREATE TABLE ... SELECT.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateSelect {
    /// Which of rows with equal unique keys stays: IGNORE (first) or REPLACE (last); an error where not said.
    pub duplicates: Option<OnDuplicate>,
    /// The query.
    pub query: Box<Query>,
}

/// IGNORE or REPLACE.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDuplicate {
    Ignore,
    Replace,
}

/// One column.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnDef {
    /// Its name.
    pub name: String,
    /// Its type.
    pub data_type: DataType,
    /// NULL (true), NOT NULL (false), as last said.
    pub nullable: Option<bool>,
    /// DEFAULT.
    pub default: Option<Expr>,
    /// ON UPDATE CURRENT_TIMESTAMP(n).
    pub on_update: Option<Expr>,
    /// AUTO_INCREMENT.
    pub auto_increment: bool,
    /// PRIMARY KEY, UNIQUE.
    pub key: Option<ColumnKey>,
    /// COMMENT.
    pub comment: Option<ByteStr>,
    /// COLLATE written after the type.
    pub collation: Option<String>,
    /// GENERATED ALWAYS AS (expression).
    pub generated: Option<Generated>,
    /// CHECK (expression).
    pub check: Option<Box<Expr>>,
    /// REFERENCES.
    pub references: Option<Box<References>>,
    /// INVISIBLE.
    pub invisible: bool,
}

impl ColumnDef {
    /// A column of which only name and type are said.
    pub fn of(name: String, data_type: DataType) -> ColumnDef {
        ColumnDef {
            name,
            data_type,
            nullable: None,
            default: None,
            on_update: None,
            auto_increment: false,
            key: None,
            comment: None,
            collation: None,
            generated: None,
            check: None,
            references: None,
            invisible: false,
        }
    }
}

/// A key that a column definition asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKey {
    /// PRIMARY KEY, or KEY alone.
    Primary,
    /// UNIQUE.
    Unique,
}

/// A generated column.
#[derive(Debug, Clone, PartialEq)]
pub struct Generated {
    /// The expression.
    pub expr: Box<Expr>,
    /// STORED or PERSISTENT; else VIRTUAL.
    pub stored: bool,
}

/// A type with its attributes.
#[derive(Debug, Clone, PartialEq)]
pub struct DataType {
    /// Which.
    pub kind: DataTypeKind,
    /// The first number in parentheses: width, characters, digits, fraction digits of temporal types.
    pub length: Option<u64>,
    /// The second number.
    pub decimals: Option<u32>,
    /// UNSIGNED (ZEROFILL implies it).
    pub unsigned: bool,
    /// ZEROFILL.
    pub zerofill: bool,
    /// CHARACTER SET; `binary` for `CHAR BYTE`, `utf8mb3` for the NATIONAL types.
    pub charset: Option<String>,
    /// COLLATE.
    pub collation: Option<String>,
    /// BINARY as an attribute: the character set's `_bin` collation.
    pub binary: bool,
    /// Members of ENUM and SET.
    pub members: Vec<ByteStr>,
}

/// The types that MariaDB has. `BOOL` is TinyInt(1), `SERIAL` is BigInt with its attributes, `JSON` is Json.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataTypeKind {
    TinyInt,
    SmallInt,
    MediumInt,
    Int,
    BigInt,
    Decimal,
    Float,
    Double,
    Bit,
    Char,
    VarChar,
    Binary,
    VarBinary,
    TinyText,
    Text,
    MediumText,
    LongText,
    TinyBlob,
    Blob,
    MediumBlob,
    LongBlob,
    Json,
    Date,
    Time,
    DateTime,
    Timestamp,
    Year,
    Enum,
    Set,
    Uuid,
    Inet4,
    Inet6,
    Geometry,
    Point,
    LineString,
    Polygon,
    MultiPoint,
    MultiLineString,
    MultiPolygon,
    GeometryCollection,
}

/// An index or foreign key.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyDef {
    /// Which kind.
    pub kind: KeyKind,
    /// CONSTRAINT name.
    pub constraint: Option<String>,
    /// The index's name.
    pub name: Option<String>,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// Its columns.
    pub columns: Vec<KeyPart>,
    /// Options.
    pub options: KeyOptions,
    /// REFERENCES, of a foreign key.
    pub references: Option<Box<References>>,
}

/// Kinds of keys.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    Primary,
    Unique,
    Index,
    FullText,
    Spatial,
    Foreign,
}

/// One column of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPart {
    /// The column.
    pub column: String,
    /// Prefix length, in characters or bytes as the column counts.
    pub length: Option<u64>,
    /// DESC.
    pub desc: bool,
}

/// What may follow a key.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KeyOptions {
    /// USING.
    pub algorithm: Option<IndexAlgorithm>,
    /// COMMENT.
    pub comment: Option<ByteStr>,
    /// KEY_BLOCK_SIZE.
    pub block_size: Option<u64>,
    /// IGNORED: the optimizer does not use it.
    pub ignored: bool,
    /// WITH PARSER.
    pub parser: Option<String>,
    /// Options of engines, `name = value`.
    pub other: Vec<(String, ByteStr)>,
}

/// USING.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexAlgorithm {
    BTree,
    Hash,
    RTree,
}

/// REFERENCES.
#[derive(Debug, Clone, PartialEq)]
pub struct References {
    /// The parent.
    pub table: ObjectName,
    /// Its columns.
    pub columns: Vec<KeyPart>,
    /// ON DELETE.
    pub on_delete: Option<ReferenceAction>,
    /// ON UPDATE.
    pub on_update: Option<ReferenceAction>,
}

/// What a change of the parent does.
#[allow(missing_docs)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReferenceAction {
    Restrict,
    Cascade,
    SetNull,
    NoAction,
    SetDefault,
}

/// A CHECK constraint.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckDef {
    /// CONSTRAINT name.
    pub name: Option<String>,
    /// IF NOT EXISTS, in ALTER TABLE.
    pub if_not_exists: bool,
    /// The condition.
    pub expr: Expr,
}

/// One option of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum TableOption {
    /// ENGINE
    Engine(String),
    /// AUTO_INCREMENT
    AutoIncrement(u64),
    /// CHARACTER SET; `default` as written.
    Charset(String),
    /// COLLATE
    Collate(String),
    /// COMMENT
    Comment(ByteStr),
    /// ROW_FORMAT, upper case.
    RowFormat(String),
    /// WITH SYSTEM VERSIONING
    SystemVersioning,
    /// One that an engine names, as it is written, and its value.
    Named(String, ByteStr),
    /// Any other: upper-case name and value. MAX_ROWS, MIN_ROWS, AVG_ROW_LENGTH, KEY_BLOCK_SIZE, STATS_PERSISTENT, CHECKSUM,
    /// PACK_KEYS, DELAY_KEY_WRITE, DATA DIRECTORY, INDEX DIRECTORY, CONNECTION, PASSWORD, UNION, ...
    Other(String, ByteStr),
}

/// DROP TABLE.
#[derive(Debug, Clone, PartialEq)]
pub struct DropTable {
    /// TEMPORARY.
    pub temporary: bool,
    /// DROP SEQUENCE.
    pub sequence: bool,
    /// IF EXISTS.
    pub if_exists: bool,
    /// The tables.
    pub tables: Vec<ObjectName>,
    /// WAIT n or NOWAIT.
    pub wait: Option<LockWait>,
}

/// ALTER TABLE.
#[derive(Debug, Clone, PartialEq)]
pub struct AlterTable {
    /// ONLINE.
    pub online: bool,
    /// IGNORE.
    pub ignore: bool,
    /// IF EXISTS.
    pub if_exists: bool,
    /// The table.
    pub table: ObjectName,
    /// WAIT n or NOWAIT.
    pub wait: Option<LockWait>,
    /// What changes, in order.
    pub actions: Vec<AlterAction>,
}

/// One change of ALTER TABLE.
#[derive(Debug, Clone, PartialEq)]
pub enum AlterAction {
    /// ADD COLUMN.
    AddColumn {
        /// IF NOT EXISTS.
        if_not_exists: bool,
        /// The column.
        column: Box<ColumnDef>,
        /// FIRST, AFTER.
        position: Option<ColumnPosition>,
    },
    /// DROP COLUMN.
    DropColumn {
        /// IF EXISTS.
        if_exists: bool,
        /// The column.
        name: String,
    },
    /// MODIFY and CHANGE COLUMN.
    ChangeColumn {
        /// IF EXISTS.
        if_exists: bool,
        /// The column as it was.
        old: String,
        /// What it becomes; the same name under MODIFY.
        column: Box<ColumnDef>,
        /// FIRST, AFTER.
        position: Option<ColumnPosition>,
    },
    /// RENAME COLUMN.
    RenameColumn {
        /// IF EXISTS.
        if_exists: bool,
        /// Old name.
        old: String,
        /// New name.
        new: String,
    },
    /// ALTER COLUMN SET DEFAULT (some), DROP DEFAULT (none).
    SetDefault {
        /// IF EXISTS.
        if_exists: bool,
        /// The column.
        name: String,
        /// The default.
        default: Option<Expr>,
    },
    /// ADD INDEX, PRIMARY KEY, FOREIGN KEY, ...
    AddKey(Box<KeyDef>),
    /// ADD CHECK.
    AddCheck(Box<CheckDef>),
    /// DROP INDEX.
    DropKey {
        /// IF EXISTS.
        if_exists: bool,
        /// The index.
        name: String,
    },
    /// DROP PRIMARY KEY.
    DropPrimaryKey {
        /// IF EXISTS.
        if_exists: bool,
    },
    /// DROP FOREIGN KEY.
    DropForeignKey {
        /// IF EXISTS.
        if_exists: bool,
        /// The constraint.
        name: String,
    },
    /// DROP CONSTRAINT.
    DropConstraint {
        /// IF EXISTS.
        if_exists: bool,
        /// The constraint.
        name: String,
    },
    /// RENAME INDEX.
    RenameKey {
        /// IF EXISTS.
        if_exists: bool,
        /// Old name.
        old: String,
        /// New name.
        new: String,
    },
    /// ALTER INDEX name IGNORED (true), NOT IGNORED (false).
    IgnoreKey {
        /// IF EXISTS.
        if_exists: bool,
        /// The index.
        name: String,
        /// IGNORED.
        ignored: bool,
    },
    /// RENAME TO.
    Rename(ObjectName),
    /// ENGINE=... and other options.
    Option(TableOption),
    /// CONVERT TO CHARACTER SET.
    ConvertTo {
        /// The character set.
        charset: String,
        /// The collation.
        collation: Option<String>,
    },
    /// ORDER BY.
    OrderBy(Vec<ColumnName>),
    /// ENABLE KEYS (true), DISABLE KEYS (false).
    EnableKeys(bool),
    /// FORCE: build anew.
    Force,
    /// ALGORITHM=, upper case; as written where it is none.
    Algorithm(String),
    /// LOCK=, upper case.
    Lock(String),
    /// An action that Keel does not know yet: partitions, tablespaces. Upper-case words.
    Unsupported(String),
}

/// Where a column goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnPosition {
    /// FIRST.
    First,
    /// AFTER column.
    After(String),
}

/// CREATE INDEX.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateIndex {
    /// OR REPLACE.
    pub or_replace: bool,
    /// The table.
    pub table: ObjectName,
    /// The index; its name is always there.
    pub key: KeyDef,
    /// WAIT n or NOWAIT.
    pub wait: Option<LockWait>,
    /// ALGORITHM= and LOCK=.
    pub options: Vec<AlterAction>,
}

/// DROP INDEX.
#[derive(Debug, Clone, PartialEq)]
pub struct DropIndex {
    /// IF EXISTS.
    pub if_exists: bool,
    /// The index.
    pub name: String,
    /// The table.
    pub table: ObjectName,
    /// WAIT n or NOWAIT.
    pub wait: Option<LockWait>,
}

/// CREATE VIEW, ALTER VIEW.
#[derive(Debug, Clone, PartialEq)]
pub struct CreateView {
    /// ALTER VIEW.
    pub alter: bool,
    /// OR REPLACE.
    pub or_replace: bool,
    /// IF NOT EXISTS.
    pub if_not_exists: bool,
    /// ALGORITHM, upper case.
    pub algorithm: Option<String>,
    /// DEFINER.
    pub definer: Option<Account>,
    /// SQL SECURITY, where said: INVOKER.
    pub invoker: Option<bool>,
    /// Its name.
    pub name: ObjectName,
    /// Its columns' names.
    pub columns: Vec<String>,
    /// Its rows.
    pub query: Box<Query>,
    /// WITH CHECK OPTION: `Some(true)` is LOCAL.
    pub check_option: Option<bool>,
}
