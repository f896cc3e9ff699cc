//! Capability flags of the handshake, status flags of replies, and type codes.

/// What a client and a server can do; MariaDB's extended flags are the upper 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities(pub u64);

macro_rules! flags {
    ($type:ident($inner:ty) { $($(#[$doc:meta])* $name:ident = $bit:literal,)* }) => {
        impl $type {
            $($(#[$doc])* pub const $name: $type = $type(1 << $bit);)*
        }

        impl $type {
            /// Whether all flags of `other` are set.
            #[inline]
            pub const fn has(self, other: $type) -> bool {
                self.0 & other.0 == other.0
            }

            /// Both sets together.
            #[must_use]
            pub const fn with(self, other: $type) -> $type {
                $type(self.0 | other.0)
            }

            /// The flags that are not in `other`.
            #[must_use]
            pub const fn without(self, other: $type) -> $type {
                $type(self.0 & !other.0)
            }

            /// Sets or clears flags.
            pub fn set(&mut self, flags: $type, on: bool) {
                *self = if on { self.with(flags) } else { self.without(flags) };
            }
        }
    };
}

flags! { Capabilities(u64) {
    /// CLIENT_LONG_PASSWORD of old, CLIENT_MYSQL of MariaDB: set by peers that do not know MariaDB's extensions.
    MYSQL = 0,
    /// Affected rows count rows that matched, not rows that changed.
    FOUND_ROWS = 1,
    /// Column flags have two bytes.
    LONG_FLAG = 2,
    /// The handshake response names a database.
    CONNECT_WITH_DB = 3,
    /// `db.table.column` is refused.
    NO_SCHEMA = 4,
    /// The compressed protocol.
    COMPRESS = 5,
    /// An ODBC client.
    ODBC = 6,
    /// LOAD DATA LOCAL.
    LOCAL_FILES = 7,
    /// Spaces before `(`.
    IGNORE_SPACE = 8,
    /// The protocol since 4.1. Without it only COM_PING and COM_QUIT are spoken.
    PROTOCOL_41 = 9,
    /// `interactive_timeout` instead of `wait_timeout`.
    INTERACTIVE = 10,
    /// TLS.
    SSL = 11,
    /// The client ignores SIGPIPE.
    IGNORE_SIGPIPE = 12,
    /// Status flags tell of transactions.
    TRANSACTIONS = 13,
    /// Unused.
    RESERVED = 14,
    /// Challenge and response of 20 bytes.
    SECURE_CONNECTION = 15,
    /// Several statements in one COM_QUERY.
    MULTI_STATEMENTS = 16,
    /// Several results for one command.
    MULTI_RESULTS = 17,
    /// Several results for COM_STMT_EXECUTE.
    PS_MULTI_RESULTS = 18,
    /// Authentication plugins.
    PLUGIN_AUTH = 19,
    /// Connection attributes.
    CONNECT_ATTRS = 20,
    /// The authentication response has a length-encoded length.
    PLUGIN_AUTH_LENENC = 21,
    /// The client can change an expired password.
    CAN_HANDLE_EXPIRED_PASSWORDS = 22,
    /// OK packets carry session state changes.
    SESSION_TRACK = 23,
    /// Result sets end with an OK packet and have no EOF after the columns.
    DEPRECATE_EOF = 24,
    /// The client copes with a missing greeting after a reconnect.
    REMEMBER_OPTIONS = 31,
    /// MariaDB: progress reports.
    PROGRESS = 32,
    /// MariaDB: bulk execution of prepared statements.
    STMT_BULK = 34,
    /// MariaDB: column definitions carry extended types.
    EXTENDED_METADATA = 35,
    /// MariaDB: column definitions that the client knows already are left out.
    CACHE_METADATA = 36,
} }

impl Capabilities {
    /// What a Keel server offers: as MariaDB 10.11 without progress reports. TLS comes to it where there is a certificate.
    pub const SERVER: Capabilities = Capabilities::FOUND_ROWS
        .with(Capabilities::LONG_FLAG)
        .with(Capabilities::CONNECT_WITH_DB)
        .with(Capabilities::NO_SCHEMA)
        .with(Capabilities::COMPRESS)
        .with(Capabilities::ODBC)
        .with(Capabilities::LOCAL_FILES)
        .with(Capabilities::IGNORE_SPACE)
        .with(Capabilities::PROTOCOL_41)
        .with(Capabilities::INTERACTIVE)
        .with(Capabilities::IGNORE_SIGPIPE)
        .with(Capabilities::TRANSACTIONS)
        .with(Capabilities::RESERVED)
        .with(Capabilities::SECURE_CONNECTION)
        .with(Capabilities::MULTI_STATEMENTS)
        .with(Capabilities::MULTI_RESULTS)
        .with(Capabilities::PS_MULTI_RESULTS)
        .with(Capabilities::PLUGIN_AUTH)
        .with(Capabilities::CONNECT_ATTRS)
        .with(Capabilities::PLUGIN_AUTH_LENENC)
        .with(Capabilities::CAN_HANDLE_EXPIRED_PASSWORDS)
        .with(Capabilities::SESSION_TRACK)
        .with(Capabilities::DEPRECATE_EOF)
        .with(Capabilities::REMEMBER_OPTIONS)
        .with(Capabilities::STMT_BULK)
        .with(Capabilities::CACHE_METADATA)
        .with(Capabilities::EXTENDED_METADATA);

    /// The flags of the first 32 bits.
    pub const fn low(self) -> u32 {
        self.0 as u32
    }

    /// MariaDB's extended flags.
    pub const fn high(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// From the two halves of a handshake packet.
    pub const fn from_halves(low: u32, high: u32) -> Capabilities {
        Capabilities(low as u64 | (high as u64) << 32)
    }
}

/// The server's status in OK and EOF packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Status(pub u16);

flags! { Status(u16) {
    /// A transaction is open.
    IN_TRANS = 0,
    /// Autocommit is on.
    AUTOCOMMIT = 1,
    /// Another result follows.
    MORE_RESULTS = 3,
    /// No good index was used.
    NO_GOOD_INDEX_USED = 4,
    /// No index was used.
    NO_INDEX_USED = 5,
    /// A cursor is open; rows come with COM_STMT_FETCH.
    CURSOR_EXISTS = 6,
    /// The cursor has given its last row.
    LAST_ROW_SENT = 7,
    /// A database was dropped.
    DB_DROPPED = 8,
    /// Backslash is no escape.
    NO_BACKSLASH_ESCAPES = 9,
    /// A re-prepared statement has other columns now.
    METADATA_CHANGED = 10,
    /// The query was slow.
    QUERY_WAS_SLOW = 11,
    /// The result set holds output parameters.
    PS_OUT_PARAMS = 12,
    /// A read-only transaction is open.
    IN_TRANS_READONLY = 13,
    /// Session state information follows.
    SESSION_STATE_CHANGED = 14,
    /// Double quotes quote identifiers.
    ANSI_QUOTES = 15,
} }

/// Type codes of column definitions and parameters.
#[allow(missing_docs)]
pub mod type_code {
    pub const DECIMAL: u8 = 0;
    pub const TINY: u8 = 1;
    pub const SHORT: u8 = 2;
    pub const LONG: u8 = 3;
    pub const FLOAT: u8 = 4;
    pub const DOUBLE: u8 = 5;
    pub const NULL: u8 = 6;
    pub const TIMESTAMP: u8 = 7;
    pub const LONGLONG: u8 = 8;
    pub const INT24: u8 = 9;
    pub const DATE: u8 = 10;
    pub const TIME: u8 = 11;
    pub const DATETIME: u8 = 12;
    pub const YEAR: u8 = 13;
    pub const NEWDATE: u8 = 14;
    pub const VARCHAR: u8 = 15;
    pub const BIT: u8 = 16;
    pub const JSON: u8 = 245;
    pub const NEWDECIMAL: u8 = 246;
    pub const ENUM: u8 = 247;
    pub const SET: u8 = 248;
    pub const TINY_BLOB: u8 = 249;
    pub const MEDIUM_BLOB: u8 = 250;
    pub const LONG_BLOB: u8 = 251;
    pub const BLOB: u8 = 252;
    pub const VAR_STRING: u8 = 253;
    pub const STRING: u8 = 254;
    pub const GEOMETRY: u8 = 255;
}
