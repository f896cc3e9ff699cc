//! Commands: the first byte of each packet of a client, and what follows it.

use crate::codec::{Malformed, Reader};

/// A command as sent, its payload borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command<'a> {
    /// The client leaves.
    Quit,
    /// USE.
    InitDb(&'a [u8]),
    /// One or several statements.
    Query(&'a [u8]),
    /// The columns of a table that match a pattern.
    FieldList {
        /// Table name.
        table: &'a [u8],
        /// Column pattern; empty for all.
        wild: &'a [u8],
    },
    /// FLUSH; which, by its bits.
    Refresh(u8),
    /// The binary log from a position on.
    BinlogDump,
    /// The one-line status text.
    Statistics,
    /// SHOW PROCESSLIST.
    ProcessInfo,
    /// KILL.
    ProcessKill(u32),
    /// Writes debug information to the server's log.
    Debug,
    /// Is the server there?
    Ping,
    /// Another user on this connection; see [`crate::handshake::ChangeUser`].
    ChangeUser(&'a [u8]),
    /// Prepares a statement.
    StmtPrepare(&'a [u8]),
    /// Executes a prepared statement; see [`crate::params`].
    StmtExecute(&'a [u8]),
    /// Executes a prepared statement for several rows of parameters; see [`crate::bulk`].
    StmtBulkExecute(&'a [u8]),
    /// A piece of one parameter; has no answer.
    StmtSendLongData {
        /// The statement.
        statement: u32,
        /// Number of the parameter.
        param: u16,
        /// The piece.
        data: &'a [u8],
    },
    /// Forgets a statement; has no answer.
    StmtClose(u32),
    /// Forgets a statement's long data and cursor.
    StmtReset(u32),
    /// Rows of an open cursor.
    StmtFetch {
        /// The statement.
        statement: u32,
        /// How many rows at most.
        rows: u32,
    },
    /// Multi-statements on (0) or off (1).
    SetOption(u16),
    /// As a new connection, without authentication.
    ResetConnection,
    /// Stops the server.
    Shutdown,
    /// Any other.
    Unknown(u8),
}

/// Command bytes.
#[allow(missing_docs)]
pub mod byte {
    pub const QUIT: u8 = 0x01;
    pub const INIT_DB: u8 = 0x02;
    pub const QUERY: u8 = 0x03;
    pub const FIELD_LIST: u8 = 0x04;
    pub const REFRESH: u8 = 0x07;
    pub const SHUTDOWN: u8 = 0x08;
    pub const STATISTICS: u8 = 0x09;
    pub const PROCESS_INFO: u8 = 0x0a;
    pub const PROCESS_KILL: u8 = 0x0c;
    pub const DEBUG: u8 = 0x0d;
    pub const PING: u8 = 0x0e;
    pub const CHANGE_USER: u8 = 0x11;
    pub const BINLOG_DUMP: u8 = 0x12;
    pub const STMT_PREPARE: u8 = 0x16;
    pub const STMT_EXECUTE: u8 = 0x17;
    pub const STMT_SEND_LONG_DATA: u8 = 0x18;
    pub const STMT_CLOSE: u8 = 0x19;
    pub const STMT_RESET: u8 = 0x1a;
    pub const SET_OPTION: u8 = 0x1b;
    pub const STMT_FETCH: u8 = 0x1c;
    pub const RESET_CONNECTION: u8 = 0x1f;
    pub const STMT_BULK_EXECUTE: u8 = 0xfa;
}

impl<'a> Command<'a> {
    /// Reads a payload.
    #[inline]
    pub fn decode(payload: &'a [u8]) -> Result<Command<'a>, Malformed> {
        let mut reader = Reader::new(payload);
        let command = reader.u8()?;
        Ok(match command {
            byte::QUERY => Command::Query(reader.take_rest()),
            byte::STMT_EXECUTE => Command::StmtExecute(reader.take_rest()),
            byte::STMT_BULK_EXECUTE => Command::StmtBulkExecute(reader.take_rest()),
            byte::STMT_PREPARE => Command::StmtPrepare(reader.take_rest()),
            byte::STMT_CLOSE => Command::StmtClose(reader.u32()?),
            byte::STMT_RESET => Command::StmtReset(reader.u32()?),
            byte::STMT_FETCH => Command::StmtFetch { statement: reader.u32()?, rows: reader.u32()? },
            byte::STMT_SEND_LONG_DATA => {
                let (statement, param) = (reader.u32()?, reader.u16()?);
                Command::StmtSendLongData { statement, param, data: reader.take_rest() }
            }
            byte::QUIT => Command::Quit,
            byte::PING => Command::Ping,
            byte::INIT_DB => Command::InitDb(reader.take_rest()),
            byte::FIELD_LIST => {
                let table = reader.nul_terminated_or_rest();
                Command::FieldList { table, wild: reader.take_rest() }
            }
            byte::REFRESH => Command::Refresh(reader.u8().unwrap_or(0)),
            byte::BINLOG_DUMP => Command::BinlogDump,
            byte::STATISTICS => Command::Statistics,
            byte::PROCESS_INFO => Command::ProcessInfo,
            byte::PROCESS_KILL => Command::ProcessKill(reader.u32()?),
            byte::DEBUG => Command::Debug,
            byte::CHANGE_USER => Command::ChangeUser(reader.take_rest()),
            byte::SET_OPTION => Command::SetOption(reader.u16()?),
            byte::RESET_CONNECTION => Command::ResetConnection,
            byte::SHUTDOWN => Command::Shutdown,
            other => Command::Unknown(other),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_borrow_their_payload() {
        assert_eq!(Command::decode(b"\x03SELECT 1"), Ok(Command::Query(b"SELECT 1")));
        assert_eq!(Command::decode(b"\x04t\0c%"), Ok(Command::FieldList { table: b"t", wild: b"c%" }));
        assert_eq!(
            Command::decode(b"\x18\x01\0\0\0\x02\0abc"),
            Ok(Command::StmtSendLongData { statement: 1, param: 2, data: b"abc" })
        );
        assert_eq!(Command::decode(b"\xfe"), Ok(Command::Unknown(0xfe)));
    }

    #[test]
    fn short_commands_are_malformed() {
        for payload in [&b""[..], b"\x19\x01\0\0", b"\x18\x01\0\0\0\x02", b"\x1b\0", b"\x0c\x01"] {
            assert_eq!(Command::decode(payload), Err(Malformed), "{payload:?}");
        }
    }
}
