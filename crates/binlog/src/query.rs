//! Query events and their status variables: the session settings that a statement depends on.
//!
//! ```text
//! thread id u32 | seconds u32 | length of the database u8 | error u16 | length of the variables u16
//! | variables | database | 0 | text
//! ```
//! [`crate::compress`] describes compressed text. A variable is a number and a value whose format depends on
//! the number. Numbers ascend. A reader that meets an unknown number ignores the rest of the list.

use std::borrow::Cow;

use crate::bytes::{Input, Output};
use crate::compress;
use crate::error::{Error, Result};

/// A Query event, compressed or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Query<'a> {
    /// The connection's number.
    pub thread_id: u32,
    /// Seconds that the statement took.
    pub seconds: u32,
    /// The error that the statement is expected to end with, 0 for none.
    pub error: u16,
    /// The encoded status variables: [`Query::variables`] and [`StatusVar::encode`].
    pub status: &'a [u8],
    /// The default database.
    pub database: &'a [u8],
    /// The text of the statement, compressed if `compressed` is set.
    pub body: &'a [u8],
    /// Whether it is a Query_compressed event.
    pub compressed: bool,
}

/// The fixed part of a Query event.
pub(crate) struct QueryHead {
    thread_id: u32,
    seconds: u32,
    database_length: usize,
    error: u16,
    status_length: usize,
}

impl QueryHead {
    pub(crate) fn decode(input: &mut Input<'_>) -> Result<QueryHead> {
        Ok(QueryHead {
            thread_id: input.u32()?,
            seconds: input.u32()?,
            database_length: input.u8()?.into(),
            error: input.u16()?,
            status_length: input.u16()?.into(),
        })
    }
}

impl<'a> Query<'a> {
    pub(crate) fn decode(input: &mut Input<'a>, compressed: bool) -> Result<Query<'a>> {
        let head = QueryHead::decode(input)?;
        Query::decode_rest(input, &head, compressed)
    }

    pub(crate) fn decode_rest(
        input: &mut Input<'a>,
        head: &QueryHead,
        compressed: bool,
    ) -> Result<Query<'a>> {
        let status = input.take(head.status_length)?;
        let database = input.take(head.database_length)?;
        input.zero("end of the database's name")?;
        Ok(Query {
            thread_id: head.thread_id,
            seconds: head.seconds,
            error: head.error,
            status,
            database,
            body: input.rest(),
            compressed,
        })
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        self.encode_head(out)?;
        self.encode_rest(out);
        Ok(())
    }

    pub(crate) fn encode_head(&self, out: &mut Vec<u8>) -> Result<()> {
        out.put_uint(self.thread_id.into(), 4);
        out.put_uint(self.seconds.into(), 4);
        let Ok(database) = u8::try_from(self.database.len()) else {
            return Err(Error::no_room(out.len(), "the name of a database"));
        };
        out.push(database);
        out.put_uint(self.error.into(), 2);
        let Ok(status) = u16::try_from(self.status.len()) else {
            return Err(Error::no_room(out.len(), "the list of status variables"));
        };
        out.put_uint(status.into(), 2);
        Ok(())
    }

    pub(crate) fn encode_rest(&self, out: &mut Vec<u8>) {
        out.put(self.status);
        out.put(self.database);
        out.push(0);
        out.put(self.body);
    }

    /// The text of the statement. Fails if the uncompressed text is longer than `max`.
    pub fn text(&self, max: usize) -> Result<Cow<'a, [u8]>> {
        if self.compressed { compress::unpack(self.body, max).map(Cow::Owned) } else { Ok(self.body.into()) }
    }

    /// Decodes the status variables.
    pub fn variables(&self) -> StatusVars<'a> {
        StatusVars { input: Input::new(self.status, 0), failed: false }
    }
}

/// One status variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatusVar<'a> {
    /// Options of the session: `auto_is_null`, `foreign_key_checks` and their kind.
    Flags2(u32),
    /// `sql_mode`.
    SqlMode(u64),
    /// The catalog with a zero byte, as servers before 5.0.4 wrote it.
    CatalogWithZero(&'a [u8]),
    /// `auto_increment_increment` and `auto_increment_offset`.
    AutoIncrement {
        /// The step.
        increment: u16,
        /// The start.
        offset: u16,
    },
    /// Numbers of `character_set_client`, `collation_connection` and `collation_server`.
    Charset {
        /// Of the client.
        client: u16,
        /// Of the connection.
        connection: u16,
        /// Of the server.
        server: u16,
    },
    /// `time_zone`.
    TimeZone(&'a [u8]),
    /// The catalog, always `std`.
    Catalog(&'a [u8]),
    /// The number of `lc_time_names`.
    LcTimeNames(u16),
    /// The number of `collation_database`.
    DatabaseCollation(u16),
    /// Bitmap of the tables that a multi-table UPDATE changes.
    TablesForUpdate(u64),
    /// Length of the event on the first source.
    MasterDataWritten(u32),
    /// The account that runs the statement.
    Invoker {
        /// The user.
        user: &'a [u8],
        /// The host.
        host: &'a [u8],
    },
    /// Microseconds of the statement's time, below 2^24.
    Microseconds(u32),
    /// Transaction number of a DDL statement, used by crash recovery.
    Xid(u64),
    /// Additional flags of the group, and the start of the ALTER that this statement ends.
    GtidFlags {
        /// Bits of [`crate::gtid::event::extra`].
        flags: u8,
        /// seq_no of the START ALTER; only with COMMIT_ALTER or ROLLBACK_ALTER.
        start_alter: Option<u64>,
    },
    /// A number that 10.11 does not know, and the rest of the list.
    Unknown {
        /// The number.
        code: u8,
        /// The rest of the list.
        rest: &'a [u8],
    },
}

/// Numbers of the variables.
mod code {
    pub const FLAGS2: u8 = 0;
    pub const SQL_MODE: u8 = 1;
    pub const CATALOG_WITH_ZERO: u8 = 2;
    pub const AUTO_INCREMENT: u8 = 3;
    pub const CHARSET: u8 = 4;
    pub const TIME_ZONE: u8 = 5;
    pub const CATALOG: u8 = 6;
    pub const LC_TIME_NAMES: u8 = 7;
    pub const DATABASE_COLLATION: u8 = 8;
    pub const TABLES_FOR_UPDATE: u8 = 9;
    pub const MASTER_DATA_WRITTEN: u8 = 10;
    pub const INVOKER: u8 = 11;
    pub const MICROSECONDS: u8 = 128;
    pub const XID: u8 = 129;
    pub const GTID_FLAGS: u8 = 130;
}

/// With one of these flags, [`StatusVar::GtidFlags`] has the start of its ALTER.
const ENDS_ALTER: u8 = crate::gtid::event::extra::COMMIT_ALTER | crate::gtid::event::extra::ROLLBACK_ALTER;

impl<'a> StatusVar<'a> {
    fn decode(input: &mut Input<'a>) -> Result<StatusVar<'a>> {
        Ok(match input.u8()? {
            code::FLAGS2 => StatusVar::Flags2(input.u32()?),
            code::SQL_MODE => StatusVar::SqlMode(input.u64()?),
            code::CATALOG_WITH_ZERO => {
                let name = input.short_bytes()?;
                input.zero("end of the catalog's name")?;
                StatusVar::CatalogWithZero(name)
            }
            code::AUTO_INCREMENT => {
                StatusVar::AutoIncrement { increment: input.u16()?, offset: input.u16()? }
            }
            code::CHARSET => {
                StatusVar::Charset { client: input.u16()?, connection: input.u16()?, server: input.u16()? }
            }
            code::TIME_ZONE => StatusVar::TimeZone(input.short_bytes()?),
            code::CATALOG => StatusVar::Catalog(input.short_bytes()?),
            code::LC_TIME_NAMES => StatusVar::LcTimeNames(input.u16()?),
            code::DATABASE_COLLATION => StatusVar::DatabaseCollation(input.u16()?),
            code::TABLES_FOR_UPDATE => StatusVar::TablesForUpdate(input.u64()?),
            code::MASTER_DATA_WRITTEN => StatusVar::MasterDataWritten(input.u32()?),
            code::INVOKER => StatusVar::Invoker { user: input.short_bytes()?, host: input.short_bytes()? },
            code::MICROSECONDS => StatusVar::Microseconds(input.uint(3)? as u32),
            code::XID => StatusVar::Xid(input.u64()?),
            code::GTID_FLAGS => {
                let flags = input.u8()?;
                let start_alter = if flags & ENDS_ALTER != 0 { Some(input.u64()?) } else { None };
                StatusVar::GtidFlags { flags, start_alter }
            }
            code => StatusVar::Unknown { code, rest: input.rest() },
        })
    }

    /// Appends the variable to a list. Callers must append in the order of [`StatusVar`]'s members.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<()> {
        let mut number = |code: u8, v: u64, count: usize| {
            out.push(code);
            out.put_uint(v, count);
        };
        match *self {
            StatusVar::Flags2(v) => number(code::FLAGS2, v.into(), 4),
            StatusVar::SqlMode(v) => number(code::SQL_MODE, v, 8),
            StatusVar::AutoIncrement { increment, offset } => {
                number(code::AUTO_INCREMENT, increment.into(), 2);
                out.put_uint(offset.into(), 2);
            }
            StatusVar::Charset { client, connection, server } => {
                number(code::CHARSET, client.into(), 2);
                out.put_uint(connection.into(), 2);
                out.put_uint(server.into(), 2);
            }
            StatusVar::LcTimeNames(v) => number(code::LC_TIME_NAMES, v.into(), 2),
            StatusVar::DatabaseCollation(v) => number(code::DATABASE_COLLATION, v.into(), 2),
            StatusVar::TablesForUpdate(v) => number(code::TABLES_FOR_UPDATE, v, 8),
            StatusVar::MasterDataWritten(v) => number(code::MASTER_DATA_WRITTEN, v.into(), 4),
            StatusVar::Microseconds(v) if v >> 24 == 0 => number(code::MICROSECONDS, v.into(), 3),
            StatusVar::Microseconds(_) => return Err(Error::no_room(out.len(), "the fraction of a second")),
            StatusVar::Xid(v) => number(code::XID, v, 8),
            StatusVar::CatalogWithZero(_)
            | StatusVar::TimeZone(_)
            | StatusVar::Catalog(_)
            | StatusVar::Invoker { .. } => self.encode_name(out)?,
            StatusVar::GtidFlags { flags, start_alter } => {
                if start_alter.is_some() != (flags & ENDS_ALTER != 0) {
                    return Err(Error::invalid(out.len(), "flags of an ALTER in two phases"));
                }
                number(code::GTID_FLAGS, flags.into(), 1);
                start_alter.iter().for_each(|v| out.put_uint(*v, 8));
            }
            StatusVar::Unknown { code, rest } => {
                out.push(code);
                out.put(rest);
            }
        }
        Ok(())
    }

    fn encode_name(&self, out: &mut Vec<u8>) -> Result<()> {
        match *self {
            StatusVar::CatalogWithZero(name) => {
                out.push(code::CATALOG_WITH_ZERO);
                out.put_short_bytes(name, "the name of a catalog")?;
                out.push(0);
            }
            StatusVar::TimeZone(name) => {
                out.push(code::TIME_ZONE);
                out.put_short_bytes(name, "the name of a time zone")?;
            }
            StatusVar::Catalog(name) => {
                out.push(code::CATALOG);
                out.put_short_bytes(name, "the name of a catalog")?;
            }
            StatusVar::Invoker { user, host } => {
                out.push(code::INVOKER);
                out.put_short_bytes(user, "the name of a user")?;
                out.put_short_bytes(host, "the name of a host")?;
            }
            _ => {}
        }
        Ok(())
    }
}

/// Decodes status variables; ends after the first error.
#[derive(Debug, Clone)]
pub struct StatusVars<'a> {
    input: Input<'a>,
    failed: bool,
}

impl<'a> Iterator for StatusVars<'a> {
    type Item = Result<StatusVar<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.input.is_empty() {
            return None;
        }
        let variable = StatusVar::decode(&mut self.input);
        self.failed = variable.is_err();
        Some(variable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One of each.
    const ALL: &[StatusVar<'static>] = &[
        StatusVar::Flags2(0x04000000),
        StatusVar::SqlMode(1411383296),
        StatusVar::CatalogWithZero(b"std"),
        StatusVar::AutoIncrement { increment: 2, offset: 1 },
        StatusVar::Charset { client: 45, connection: 224, server: 8 },
        StatusVar::TimeZone(b"Europe/Berlin"),
        StatusVar::Catalog(b"std"),
        StatusVar::LcTimeNames(4),
        StatusVar::DatabaseCollation(45),
        StatusVar::TablesForUpdate(5),
        StatusVar::MasterDataWritten(77),
        StatusVar::Invoker { user: b"root", host: b"localhost" },
        StatusVar::Microseconds(999_999),
        StatusVar::Xid(u64::MAX),
        StatusVar::GtidFlags { flags: 2, start_alter: None },
        StatusVar::GtidFlags { flags: 4, start_alter: Some(9) },
        StatusVar::Unknown { code: 131, rest: b"\x00" },
    ];

    fn list(variables: &[StatusVar<'_>]) -> Vec<u8> {
        let mut out = Vec::new();
        variables.iter().for_each(|v| v.encode(&mut out).unwrap());
        out
    }

    #[test]
    fn status_variables_survive_a_round_trip() {
        let status = list(ALL);
        let query = Query { status: &status, ..Query::default() };
        let read: Result<Vec<_>> = query.variables().collect();
        assert_eq!(read.unwrap(), ALL);
    }

    #[test]
    fn a_truncated_variable_is_an_error() {
        for variable in &ALL[..ALL.len() - 1] {
            let status = list(&[*variable]);
            for end in 1..status.len() {
                let query = Query { status: &status[..end], ..Query::default() };
                let read: Vec<_> = query.variables().collect();
                assert!(read.len() == 1 && read[0].is_err(), "{variable:?} cut to {end}");
            }
        }
    }

    #[test]
    fn values_without_room_are_refused() {
        let long = [b'x'; 256];
        let mut out = Vec::new();
        assert!(StatusVar::TimeZone(&long).encode(&mut out).is_err());
        assert!(StatusVar::Microseconds(1 << 24).encode(&mut out).is_err());
        assert!(StatusVar::GtidFlags { flags: 4, start_alter: None }.encode(&mut out).is_err());
        assert!(StatusVar::GtidFlags { flags: 1, start_alter: Some(1) }.encode(&mut out).is_err());
        assert!(Query { database: &long, ..Query::default() }.encode(&mut out).is_err());
        let long = [0; 65_536];
        assert!(Query { status: &long, ..Query::default() }.encode(&mut out).is_err());
    }
}
