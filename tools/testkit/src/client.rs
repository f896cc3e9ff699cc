//! A blocking MySQL client that hides nothing: column metadata, warnings, affected rows, SQLSTATEs.
//!
//! Speaks protocol 4.1 with `mysql_native_password`, text and binary results, multi-results. Errors of the connection are
//! `io::Error`; what the server reports is [`Reply::Error`]. Files that LOAD DATA LOCAL asks for are sent as they are on this
//! machine, an empty one where there is none.

use sha1::{Digest, Sha1};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

const CLIENT_LONG_PASSWORD: u32 = 1;
const CLIENT_FOUND_ROWS: u32 = 1 << 1;
const CLIENT_CONNECT_WITH_DB: u32 = 1 << 3;
const CLIENT_LOCAL_FILES: u32 = 1 << 7;
const CLIENT_PROTOCOL_41: u32 = 1 << 9;
const CLIENT_INTERACTIVE: u32 = 1 << 10;
const CLIENT_TRANSACTIONS: u32 = 1 << 13;
const CLIENT_SECURE_CONNECTION: u32 = 1 << 15;
const CLIENT_MULTI_STATEMENTS: u32 = 1 << 16;
const CLIENT_MULTI_RESULTS: u32 = 1 << 17;
const CLIENT_PS_MULTI_RESULTS: u32 = 1 << 18;
const CLIENT_PLUGIN_AUTH: u32 = 1 << 19;
const UTF8MB4_GENERAL_CI: u8 = 45;
const SERVER_MORE_RESULTS_EXISTS: u16 = 8;

/// Where a server listens.
#[derive(Debug, Clone)]
pub enum Address {
    /// Host and port.
    Tcp(String, u16),
    /// A Unix domain socket.
    Unix(PathBuf),
}

/// Who connects, and how.
#[derive(Debug, Clone)]
pub struct Login {
    /// Account name.
    pub user: String,
    /// Empty for none.
    pub password: String,
    /// The database to start in.
    pub database: Option<String>,
    /// Count matched rows instead of changed ones.
    pub found_rows: bool,
    /// Somebody types: `interactive_timeout` holds.
    pub interactive: bool,
    /// Number of the collation to begin with.
    pub collation: u8,
}

impl Default for Login {
    fn default() -> Self {
        Login {
            user: "root".into(),
            password: String::new(),
            database: None,
            found_rows: false,
            interactive: false,
            collation: UTF8MB4_GENERAL_CI,
        }
    }
}

/// A column definition packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Database of the column's table.
    pub schema: String,
    /// Alias of the table.
    pub table: String,
    /// Name of the table.
    pub org_table: String,
    /// Alias of the column.
    pub name: String,
    /// Name of the column.
    pub org_name: String,
    /// Collation number.
    pub charset: u16,
    /// Maximum length in bytes.
    pub length: u32,
    /// `MYSQL_TYPE_*`.
    pub kind: u8,
    /// Column flags.
    pub flags: u16,
    /// Digits after the point.
    pub decimals: u8,
}

/// A cell in its text form; binary results are turned into text.
pub type Cell = Option<Vec<u8>>;

/// One result of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// The statement returned no rows.
    Ok {
        /// Rows changed, or found with `found_rows`.
        affected: u64,
        /// LAST_INSERT_ID of the statement.
        insert_id: u64,
        /// Number of warnings.
        warnings: u16,
        /// Server status flags.
        status: u16,
        /// "Rows matched: ..." and the like.
        info: String,
    },
    /// The statement returned a result set.
    Rows {
        /// Its columns.
        columns: Vec<Column>,
        /// Its rows.
        rows: Vec<Vec<Cell>>,
        /// Number of warnings.
        warnings: u16,
        /// Server status flags.
        status: u16,
    },
    /// The statement failed.
    Error {
        /// MariaDB's number.
        code: u16,
        /// SQLSTATE.
        state: String,
        /// Text.
        message: String,
    },
}

impl Reply {
    /// The rows as strings, NULL as "NULL"; empty for any other reply.
    pub fn strings(&self) -> Vec<Vec<String>> {
        let Reply::Rows { rows, .. } = self else { return Vec::new() };
        let text = |cell: &Cell| match cell {
            None => "NULL".to_string(),
            Some(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        };
        rows.iter().map(|row| row.iter().map(text).collect()).collect()
    }

    /// The first cell of the first row.
    pub fn scalar(&self) -> Option<String> {
        self.strings().into_iter().next()?.into_iter().next()
    }

    /// The error number, if this is an error.
    pub fn error_code(&self) -> Option<u16> {
        match self {
            Reply::Error { code, .. } => Some(*code),
            _ => None,
        }
    }
}

trait Transport: Read + Write + Send {
    fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()>;
}

impl Transport for TcpStream {
    fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(timeout)
    }
}

impl Transport for UnixStream {
    fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(timeout)
    }
}

/// A prepared statement's handle.
#[derive(Debug, Clone)]
pub struct Statement {
    id: u32,
    /// Number of `?`.
    pub params: u16,
    /// Columns announced at PREPARE.
    pub columns: Vec<Column>,
}

/// One connection.
pub struct Client {
    stream: Box<dyn Transport>,
    sequence: u8,
    /// The server's connection id.
    pub connection_id: u32,
    /// The server's version string.
    pub version: String,
    /// Octets of each packet of a file that the server asks for.
    pub file_packet_bytes: usize,
}

/// As the `mariadb` client sends files.
const FILE_PACKET_BYTES: usize = 16 << 10;

fn bad(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_string())
}

impl Client {
    /// Connects and logs in; an error of the server is returned as `io::Error` with its text.
    pub fn connect(address: &Address, login: &Login) -> io::Result<Client> {
        let stream: Box<dyn Transport> = match address {
            Address::Tcp(host, port) => {
                let stream = TcpStream::connect((host.as_str(), *port))?;
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            Address::Unix(path) => Box::new(UnixStream::connect(path)?),
        };
        let mut client = Client {
            stream,
            sequence: 0,
            connection_id: 0,
            version: String::new(),
            file_packet_bytes: FILE_PACKET_BYTES,
        };
        client.log_in(login)?;
        Ok(client)
    }

    /// Bounds how long a read may take; `None` waits for ever.
    pub fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.stream.set_timeout(timeout)
    }

    fn log_in(&mut self, login: &Login) -> io::Result<()> {
        let greeting = self.read_packet()?;
        if greeting.first() == Some(&0xff) {
            return Err(server_error(&greeting));
        }
        let mut at = Cursor(&greeting[1..]);
        self.version = String::from_utf8_lossy(at.until_zero()?).into_owned();
        self.connection_id = u32::from_le_bytes(at.take(4)?.try_into().expect("four bytes"));
        let mut seed = at.take(8)?.to_vec();
        at.take(1 + 2 + 1 + 2 + 2 + 1 + 10)?;
        seed.extend_from_slice(at.take(12)?);
        let mut flags = CLIENT_LONG_PASSWORD
            | CLIENT_LOCAL_FILES
            | CLIENT_PROTOCOL_41
            | CLIENT_TRANSACTIONS
            | CLIENT_SECURE_CONNECTION
            | CLIENT_MULTI_STATEMENTS
            | CLIENT_MULTI_RESULTS
            | CLIENT_PS_MULTI_RESULTS
            | CLIENT_PLUGIN_AUTH;
        if login.found_rows {
            flags |= CLIENT_FOUND_ROWS;
        }
        if login.interactive {
            flags |= CLIENT_INTERACTIVE;
        }
        if login.database.is_some() {
            flags |= CLIENT_CONNECT_WITH_DB;
        }
        let mut packet = flags.to_le_bytes().to_vec();
        packet.extend_from_slice(&(1u32 << 24).to_le_bytes());
        packet.push(login.collation);
        packet.extend_from_slice(&[0; 23]);
        packet.extend_from_slice(login.user.as_bytes());
        packet.push(0);
        let token = scramble(&login.password, &seed);
        packet.push(token.len() as u8);
        packet.extend_from_slice(&token);
        if let Some(database) = &login.database {
            packet.extend_from_slice(database.as_bytes());
            packet.push(0);
        }
        packet.extend_from_slice(b"mysql_native_password\0");
        self.write_packet(&packet)?;
        let mut answer = self.read_packet()?;
        if answer.first() == Some(&0xfe) {
            let mut at = Cursor(&answer[1..]);
            at.until_zero()?;
            let seed = at.0.strip_suffix(&[0]).unwrap_or(at.0).to_vec();
            self.write_packet(&scramble(&login.password, &seed))?;
            answer = self.read_packet()?;
        }
        match answer.first() {
            Some(0) => Ok(()),
            Some(0xff) => Err(server_error(&answer)),
            _ => Err(bad("unexpected answer to the login")),
        }
    }

    /// Sends a statement as COM_QUERY and reads all its results.
    pub fn query(&mut self, sql: &str) -> io::Result<Vec<Reply>> {
        self.send(3, sql.as_bytes())?;
        self.read_replies(false)
    }

    /// As [`Client::query`], for a statement with a single result.
    pub fn one(&mut self, sql: &str) -> io::Result<Reply> {
        let mut replies = self.query(sql)?;
        Ok(replies.swap_remove(0))
    }

    /// As [`Client::one`]; any error of the server becomes an `io::Error`.
    pub fn run(&mut self, sql: &str) -> io::Result<Reply> {
        match self.one(sql)? {
            Reply::Error { code, state, message } => Err(bad(&format!("{code} ({state}) {message}: {sql}"))),
            reply => Ok(reply),
        }
    }

    /// Sends without waiting; [`Client::receive`] reads the answer.
    pub fn post(&mut self, sql: &str) -> io::Result<()> {
        self.send(3, sql.as_bytes())
    }

    /// As [`Client::post`], for a text in any character set.
    pub fn post_bytes(&mut self, sql: &[u8]) -> io::Result<()> {
        self.send(3, sql)
    }

    /// COM_RESET_CONNECTION.
    pub fn reset(&mut self) -> io::Result<Reply> {
        self.send(0x1f, &[])?;
        self.read_reply(false)
    }

    /// Reads the answer to [`Client::post`].
    pub fn receive(&mut self) -> io::Result<Vec<Reply>> {
        self.read_replies(false)
    }

    /// Prepares a statement; `Err` in the inner result is the server's refusal.
    pub fn prepare(&mut self, sql: &str) -> io::Result<Result<Statement, Reply>> {
        self.send(0x16, sql.as_bytes())?;
        let packet = self.read_packet()?;
        if packet.first() == Some(&0xff) {
            return Ok(Err(error_reply(&packet)));
        }
        let mut at = Cursor(&packet[1..]);
        let id = u32::from_le_bytes(at.take(4)?.try_into().expect("four bytes"));
        let columns = at.u16()?;
        let params = at.u16()?;
        if params > 0 {
            self.read_columns(params as u64)?;
        }
        let columns = if columns > 0 { self.read_columns(columns as u64)? } else { Vec::new() };
        Ok(Ok(Statement { id, params, columns }))
    }

    /// Executes with parameters sent as strings; NULL is `None`.
    pub fn execute(&mut self, statement: &Statement, params: &[Option<&str>]) -> io::Result<Vec<Reply>> {
        let mut body = statement.id.to_le_bytes().to_vec();
        body.push(0);
        body.extend_from_slice(&1u32.to_le_bytes());
        if !params.is_empty() {
            let mut nulls = vec![0u8; params.len().div_ceil(8)];
            for (index, _) in params.iter().enumerate().filter(|(_, value)| value.is_none()) {
                nulls[index / 8] |= 1 << (index % 8);
            }
            body.extend_from_slice(&nulls);
            body.push(1);
            params.iter().for_each(|_| body.extend_from_slice(&[0xfd, 0]));
            for value in params.iter().flatten() {
                put_length(&mut body, value.len() as u64);
                body.extend_from_slice(value.as_bytes());
            }
        }
        self.send(0x17, &body)?;
        self.read_replies(true)
    }

    /// Closes a prepared statement; the server does not answer.
    pub fn close(&mut self, statement: Statement) -> io::Result<()> {
        self.send(0x19, &statement.id.to_le_bytes())
    }

    fn read_replies(&mut self, binary: bool) -> io::Result<Vec<Reply>> {
        let mut replies = Vec::new();
        loop {
            let reply = self.read_reply(binary)?;
            let more = match &reply {
                Reply::Ok { status, .. } | Reply::Rows { status, .. } => {
                    status & SERVER_MORE_RESULTS_EXISTS != 0
                }
                Reply::Error { .. } => false,
            };
            replies.push(reply);
            if !more {
                return Ok(replies);
            }
        }
    }

    fn read_reply(&mut self, binary: bool) -> io::Result<Reply> {
        let packet = self.read_packet()?;
        match packet.first() {
            Some(0) => {
                let mut at = Cursor(&packet[1..]);
                let (affected, insert_id) = (at.length()?, at.length()?);
                let (status, warnings) = (at.u16()?, at.u16()?);
                let info = String::from_utf8_lossy(at.0).into_owned();
                Ok(Reply::Ok { affected, insert_id, warnings, status, info })
            }
            Some(0xff) => Ok(error_reply(&packet)),
            Some(0xfb) => {
                self.send_file(&packet[1..])?;
                self.read_reply(binary)
            }
            _ => {
                let count = Cursor(&packet).length()?;
                let columns = self.read_columns(count)?;
                let mut rows = Vec::new();
                loop {
                    let packet = self.read_packet()?;
                    if packet.first() == Some(&0xff) {
                        return Ok(error_reply(&packet));
                    }
                    if packet.first() == Some(&0xfe) && packet.len() < 9 {
                        let mut at = Cursor(&packet[1..]);
                        let (warnings, status) = (at.u16()?, at.u16()?);
                        return Ok(Reply::Rows { columns, rows, warnings, status });
                    }
                    rows.push(if binary {
                        binary_row(&packet, &columns)?
                    } else {
                        text_row(&packet, columns.len())?
                    });
                }
            }
        }
    }

    /// Sends a file in packets of [`Client::file_packet_bytes`], and an empty one.
    fn send_file(&mut self, name: &[u8]) -> io::Result<()> {
        let path = std::str::from_utf8(name).map_err(|_| bad("a file's name is no text"))?;
        let content = std::fs::read(path).unwrap_or_default();
        for piece in content.chunks(self.file_packet_bytes) {
            self.write_packet(piece)?;
        }
        self.write_packet(&[])
    }

    fn read_columns(&mut self, count: u64) -> io::Result<Vec<Column>> {
        let columns =
            (0..count).map(|_| parse_column(&self.read_packet()?)).collect::<io::Result<Vec<_>>>()?;
        let end = self.read_packet()?;
        if end.first() != Some(&0xfe) {
            return Err(bad("no EOF after the column definitions"));
        }
        Ok(columns)
    }

    fn send(&mut self, command: u8, body: &[u8]) -> io::Result<()> {
        self.sequence = 0;
        let mut packet = Vec::with_capacity(body.len() + 1);
        packet.push(command);
        packet.extend_from_slice(body);
        self.write_packet(&packet)
    }

    fn write_packet(&mut self, mut body: &[u8]) -> io::Result<()> {
        let mut frame = Vec::with_capacity(body.len() + 4);
        loop {
            let piece = body.len().min(0xff_ffff);
            frame.extend_from_slice(&(piece as u32).to_le_bytes()[..3]);
            frame.push(self.sequence);
            self.sequence = self.sequence.wrapping_add(1);
            frame.extend_from_slice(&body[..piece]);
            body = &body[piece..];
            if piece < 0xff_ffff {
                break;
            }
        }
        self.stream.write_all(&frame)
    }

    fn read_packet(&mut self) -> io::Result<Vec<u8>> {
        let mut whole = Vec::new();
        loop {
            let mut head = [0; 4];
            self.stream.read_exact(&mut head)?;
            let len = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
            self.sequence = head[3].wrapping_add(1);
            let start = whole.len();
            whole.resize(start + len, 0);
            self.stream.read_exact(&mut whole[start..])?;
            if len < 0xff_ffff {
                return Ok(whole);
            }
        }
    }
}

fn scramble(password: &str, seed: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let first = Sha1::digest(password.as_bytes());
    let second = Sha1::digest(first);
    let mix = Sha1::new().chain_update(seed).chain_update(second).finalize();
    first.iter().zip(mix).map(|(a, b)| a ^ b).collect()
}

fn error_reply(packet: &[u8]) -> Reply {
    let code = u16::from_le_bytes([packet[1], packet[2]]);
    let (state, message) = match packet.get(3) {
        Some(b'#') => (&packet[4..9], &packet[9..]),
        _ => (&b"HY000"[..], &packet[3..]),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Reply::Error { code, state: text(state), message: text(message) }
}

fn server_error(packet: &[u8]) -> io::Error {
    let Reply::Error { code, state, message } = error_reply(packet) else { unreachable!("made just above") };
    io::Error::new(io::ErrorKind::PermissionDenied, format!("{code} ({state}) {message}"))
}

fn parse_column(packet: &[u8]) -> io::Result<Column> {
    let mut at = Cursor(packet);
    at.bytes()?;
    let mut text = || -> io::Result<String> { Ok(String::from_utf8_lossy(at.bytes()?).into_owned()) };
    let (schema, table, org_table, name, org_name) = (text()?, text()?, text()?, text()?, text()?);
    at.length()?;
    let charset = at.u16()?;
    let length = u32::from_le_bytes(at.take(4)?.try_into().expect("four bytes"));
    let kind = at.take(1)?[0];
    let flags = at.u16()?;
    let decimals = at.take(1)?[0];
    Ok(Column { schema, table, org_table, name, org_name, charset, length, kind, flags, decimals })
}

fn text_row(packet: &[u8], columns: usize) -> io::Result<Vec<Cell>> {
    let mut at = Cursor(packet);
    (0..columns)
        .map(|_| match at.0.first() {
            Some(0xfb) => at.take(1).map(|_| None),
            _ => Ok(Some(at.bytes()?.to_vec())),
        })
        .collect()
}

fn binary_row(packet: &[u8], columns: &[Column]) -> io::Result<Vec<Cell>> {
    let mut at = Cursor(&packet[1..]);
    let nulls = at.take((columns.len() + 9) / 8)?.to_vec();
    let mut row = Vec::with_capacity(columns.len());
    for (index, column) in columns.iter().enumerate() {
        let bit = index + 2;
        row.push(match nulls[bit / 8] & 1 << (bit % 8) {
            0 => Some(binary_cell(&mut at, column)?.into_bytes_lossless()),
            _ => None,
        });
    }
    Ok(row)
}

enum Decoded {
    Text(String),
    Bytes(Vec<u8>),
}

impl Decoded {
    fn into_bytes_lossless(self) -> Vec<u8> {
        match self {
            Decoded::Text(text) => text.into_bytes(),
            Decoded::Bytes(bytes) => bytes,
        }
    }
}

fn binary_cell(at: &mut Cursor<'_>, column: &Column) -> io::Result<Decoded> {
    let unsigned = column.flags & 32 != 0;
    let integer = |bytes: &[u8]| {
        let mut wide = [if !unsigned && bytes[bytes.len() - 1] & 0x80 != 0 { 0xff } else { 0 }; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        if unsigned { u64::from_le_bytes(wide).to_string() } else { i64::from_le_bytes(wide).to_string() }
    };
    Ok(match column.kind {
        1 => Decoded::Text(integer(at.take(1)?)),
        2 | 13 => Decoded::Text(integer(at.take(2)?)),
        3 | 9 => Decoded::Text(integer(at.take(4)?)),
        8 => Decoded::Text(integer(at.take(8)?)),
        4 => Decoded::Text(f32::from_le_bytes(at.take(4)?.try_into().expect("four bytes")).to_string()),
        5 => Decoded::Text(f64::from_le_bytes(at.take(8)?.try_into().expect("eight bytes")).to_string()),
        7 | 10 | 12 => Decoded::Text(binary_datetime(at, column.kind == 10)?),
        11 => Decoded::Text(binary_time(at)?),
        _ => Decoded::Bytes(at.bytes()?.to_vec()),
    })
}

fn binary_datetime(at: &mut Cursor<'_>, date_only: bool) -> io::Result<String> {
    let len = at.take(1)?[0] as usize;
    let mut raw = [0u8; 11];
    raw[..len].copy_from_slice(at.take(len)?);
    let year = u16::from_le_bytes([raw[0], raw[1]]);
    let mut text = format!("{year:04}-{:02}-{:02}", raw[2], raw[3]);
    if !date_only {
        text += &format!(" {:02}:{:02}:{:02}", raw[4], raw[5], raw[6]);
        if len == 11 {
            text += &format!(".{:06}", u32::from_le_bytes([raw[7], raw[8], raw[9], raw[10]]));
        }
    }
    Ok(text)
}

fn binary_time(at: &mut Cursor<'_>) -> io::Result<String> {
    let len = at.take(1)?[0] as usize;
    let mut raw = [0u8; 12];
    raw[..len].copy_from_slice(at.take(len)?);
    let hours = u32::from_le_bytes([raw[1], raw[2], raw[3], raw[4]]) * 24 + raw[5] as u32;
    let sign = if raw[0] == 1 { "-" } else { "" };
    let mut text = format!("{sign}{hours:02}:{:02}:{:02}", raw[6], raw[7]);
    if len == 12 {
        text += &format!(".{:06}", u32::from_le_bytes([raw[8], raw[9], raw[10], raw[11]]));
    }
    Ok(text)
}

fn put_length(out: &mut Vec<u8>, value: u64) {
    match value {
        0..=250 => out.push(value as u8),
        251..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&(value as u16).to_le_bytes());
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend_from_slice(&(value as u32).to_le_bytes()[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&value.to_le_bytes());
        }
    }
}

struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> io::Result<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(len).ok_or_else(|| bad("packet too short"))?;
        self.0 = tail;
        Ok(head)
    }

    fn u16(&mut self) -> io::Result<u16> {
        Ok(u16::from_le_bytes(self.take(2)?.try_into().expect("two bytes")))
    }

    fn until_zero(&mut self) -> io::Result<&'a [u8]> {
        let len = self.0.iter().position(|byte| *byte == 0).ok_or_else(|| bad("no terminating zero"))?;
        let head = self.take(len)?;
        self.take(1)?;
        Ok(head)
    }

    fn length(&mut self) -> io::Result<u64> {
        let width = match self.take(1)?[0] {
            small @ 0..=250 => return Ok(small as u64),
            0xfc => 2,
            0xfd => 3,
            0xfe => 8,
            _ => return Err(bad("not a length")),
        };
        let mut wide = [0; 8];
        wide[..width].copy_from_slice(self.take(width)?);
        Ok(u64::from_le_bytes(wide))
    }

    fn bytes(&mut self) -> io::Result<&'a [u8]> {
        let len = self.length()? as usize;
        self.take(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_read_back() {
        for value in [0, 250, 251, 0xffff, 0x1_0000, 0xff_ffff, 0x100_0000] {
            let mut out = Vec::new();
            put_length(&mut out, value);
            assert_eq!(Cursor(&out).length().unwrap(), value);
        }
    }

    #[test]
    fn an_empty_password_sends_no_token() {
        assert!(scramble("", b"12345678901234567890").is_empty());
        assert_eq!(scramble("x", b"12345678901234567890").len(), 20);
    }
}
