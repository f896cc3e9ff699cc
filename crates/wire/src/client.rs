//! The client's side, for tests and tools: connects, sends statements, reads whole answers.
//!
//! It works over any `Read + Write`, keeps no more than one answer in memory and trusts the server no more than the server
//! trusts it: lengths are bounded by what arrived.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Read, Write};

use keel_value::Value;

use crate::capability::{Capabilities, Status};
use crate::codec::{Malformed, Reader};
use crate::handshake::{ChangeUser, Greeting, Response, decode_auth_switch, encode_tls_request};
use crate::packet::{self, FrameError, Framed};
use crate::reply::{self, Column, ErrReply, OkReply, PrepareOk, mark};
use crate::{auth, command::byte, params, rows};

/// The longest payload that the client takes.
const PAYLOAD_MAX: usize = 1 << 30;

/// Why a request has no result.
#[derive(Debug)]
pub enum ClientError {
    /// The connection broke.
    Io(io::Error),
    /// The server answered with an error.
    Server(ErrReply),
    /// The server sent what the protocol does not allow here.
    Protocol(&'static str),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Io(error) => write!(f, "connection: {error}"),
            ClientError::Server(e) => write!(f, "ERROR {} ({}): {}", e.code, e.sqlstate, e.message),
            ClientError::Protocol(what) => write!(f, "protocol: {what}"),
        }
    }
}

impl std::error::Error for ClientError {}

impl From<io::Error> for ClientError {
    fn from(error: io::Error) -> Self {
        ClientError::Io(error)
    }
}

impl From<Malformed> for ClientError {
    fn from(_: Malformed) -> Self {
        ClientError::Protocol("malformed packet")
    }
}

/// The result of a request.
pub type ClientResult<T> = Result<T, ClientError>;

/// How to connect.
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    /// User name.
    pub user: String,
    /// Password; empty for none.
    pub password: String,
    /// The database to start in; empty for none.
    pub database: String,
    /// The client's collation.
    pub collation: u8,
    /// What to ask for, as far as the server offers it.
    pub capabilities: Capabilities,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        ConnectOptions {
            user: "root".into(),
            password: String::new(),
            database: String::new(),
            collation: 45,
            capabilities: Capabilities::LONG_FLAG
                .with(Capabilities::PROTOCOL_41)
                .with(Capabilities::TRANSACTIONS)
                .with(Capabilities::SECURE_CONNECTION)
                .with(Capabilities::MULTI_STATEMENTS)
                .with(Capabilities::MULTI_RESULTS)
                .with(Capabilities::PS_MULTI_RESULTS)
                .with(Capabilities::PLUGIN_AUTH)
                .with(Capabilities::PLUGIN_AUTH_LENENC)
                .with(Capabilities::CONNECT_ATTRS)
                .with(Capabilities::SESSION_TRACK)
                .with(Capabilities::STMT_BULK),
        }
    }
}

/// Rows of a result: as text or as typed values.
#[derive(Debug, Clone, PartialEq)]
pub enum Rows {
    /// From COM_QUERY; None is NULL.
    Text(Vec<Vec<Option<Vec<u8>>>>),
    /// From a prepared statement.
    Binary(Vec<Vec<Value>>),
}

/// A result set.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultSet {
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows.
    pub rows: Rows,
    /// Status at its end.
    pub status: Status,
    /// Warnings of the statement.
    pub warnings: u16,
}

impl ResultSet {
    /// Rows as text, NULL as `NULL`; for printing and comparing.
    pub fn text_rows(&self) -> Vec<Vec<String>> {
        let shown = |bytes: &Option<Vec<u8>>| {
            bytes.as_ref().map_or_else(|| "NULL".to_string(), |b| String::from_utf8_lossy(b).into_owned())
        };
        match &self.rows {
            Rows::Text(rows) => rows.iter().map(|row| row.iter().map(shown).collect()).collect(),
            Rows::Binary(rows) => rows.iter().map(|row| row.iter().map(shown_value).collect()).collect(),
        }
    }
}

fn shown_value(value: &Value) -> String {
    use keel_value::{SqlType, TypeKind, text};
    let (kind, fraction) = match value {
        Value::Null => return "NULL".to_string(),
        Value::Int(_) => (TypeKind::BigInt, 0),
        Value::UInt(v) => return v.to_string(),
        Value::Double(_) => (TypeKind::Double, 31),
        Value::Float(_) => (TypeKind::Float, 31),
        Value::Decimal(v) => (TypeKind::Decimal, v.scale()),
        Value::Bytes(bytes) => return String::from_utf8_lossy(bytes).into_owned(),
        Value::Date(_) => (TypeKind::Date, 0),
        Value::Fixed(v) => (v.kind().type_kind(), 0),
        Value::Time(v) => (TypeKind::Time, if v.micros % 1_000_000 == 0 { 0 } else { 6 }),
        Value::DateTime(v) => (TypeKind::DateTime, if v.micros == 0 { 0 } else { 6 }),
    };
    let mut out = Vec::new();
    text::append(&mut out, &SqlType::new(kind).with_decimals(fraction), value.as_ref());
    String::from_utf8_lossy(&out).into_owned()
}

/// What a statement gives.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// No rows.
    Ok(OkReply),
    /// Rows.
    Rows(ResultSet),
}

impl Reply {
    /// The result set, where there is one.
    pub fn into_rows(self) -> Option<ResultSet> {
        match self {
            Reply::Rows(rows) => Some(rows),
            Reply::Ok(_) => None,
        }
    }
}

/// A prepared statement.
#[derive(Debug, Clone, PartialEq)]
pub struct Statement {
    /// The server's number for it.
    pub id: u32,
    /// How many parameters it takes.
    pub params: usize,
    /// The columns that it promised.
    pub columns: Vec<Column>,
    /// Warnings of the preparation.
    pub warnings: u16,
}

/// A connection that has been authenticated.
#[derive(Debug)]
pub struct Connection<S> {
    stream: S,
    input: Vec<u8>,
    sequence: u8,
    capabilities: Capabilities,
    greeting: Greeting,
}

impl<S: Read + Write> Connection<S> {
    /// Shakes hands over an open stream.
    pub fn connect(stream: S, options: &ConnectOptions) -> ClientResult<Connection<S>> {
        let mut connection = Connection::greeted(stream)?;
        connection.respond(options)?;
        Ok(connection)
    }

    /// The same, asking for TLS first; `secure` makes of the stream the one that goes on.
    pub fn connect_tls<T: Read + Write>(
        stream: S,
        options: &ConnectOptions,
        secure: impl FnOnce(S) -> T,
    ) -> ClientResult<Connection<T>> {
        let mut plain = Connection::greeted(stream)?;
        if !plain.greeting.capabilities.has(Capabilities::SSL) {
            return Err(ClientError::Protocol("the server has no TLS"));
        }
        let mut request = Vec::new();
        encode_tls_request(&mut request, options.capabilities, options.collation);
        plain.send(&request)?;
        let Connection { stream, input, sequence, capabilities, greeting } = plain;
        let mut connection = Connection { stream: secure(stream), input, sequence, capabilities, greeting };
        connection.respond(options)?;
        Ok(connection)
    }

    fn greeted(stream: S) -> ClientResult<Connection<S>> {
        let blank = Greeting {
            version: String::new(),
            connection_id: 0,
            scramble: [0; auth::SCRAMBLE_BYTES],
            capabilities: Capabilities::default(),
            collation: 0,
            status: Status::default(),
            plugin: String::new(),
        };
        let mut connection = Connection {
            stream,
            input: Vec::new(),
            sequence: 0,
            capabilities: Capabilities::default(),
            greeting: blank,
        };
        let payload = connection.receive()?;
        if payload.first() == Some(&mark::ERR) {
            return Err(ClientError::Server(reply::decode_err(&payload)?));
        }
        connection.greeting = Greeting::decode(&payload)?;
        Ok(connection)
    }

    fn respond(&mut self, options: &ConnectOptions) -> ClientResult<()> {
        let mut wanted = options.capabilities;
        wanted.set(Capabilities::CONNECT_WITH_DB, !options.database.is_empty());
        self.capabilities = Capabilities(wanted.0 & (self.greeting.capabilities.0 | Capabilities::MYSQL.0));
        let response = Response {
            capabilities: self.capabilities,
            packet_max: 1 << 30,
            collation: options.collation,
            user: options.user.clone().into_bytes(),
            auth: auth::answer(options.password.as_bytes(), &self.greeting.scramble),
            database: options.database.clone().into_bytes(),
            plugin: auth::NATIVE_PASSWORD.to_string(),
            attributes: vec![("_client_name".into(), "keel-wire".into())],
        };
        let mut payload = Vec::new();
        response.encode(&mut payload);
        self.send(&payload)?;
        self.finish_authentication(options.password.as_bytes())
    }

    fn finish_authentication(&mut self, password: &[u8]) -> ClientResult<()> {
        loop {
            let payload = self.receive()?;
            match payload.first() {
                Some(&mark::OK) => return Ok(()),
                Some(&mark::ERR) => return Err(ClientError::Server(reply::decode_err(&payload)?)),
                Some(&crate::handshake::AUTH_SWITCH) => {
                    let (plugin, challenge) = decode_auth_switch(&payload)?;
                    if plugin != auth::NATIVE_PASSWORD {
                        return Err(ClientError::Protocol("unknown authentication plugin"));
                    }
                    self.send(&auth::answer(password, &challenge))?;
                }
                _ => return Err(ClientError::Protocol("unexpected packet in the handshake")),
            }
        }
    }

    /// What the server said first.
    pub fn greeting(&self) -> &Greeting {
        &self.greeting
    }

    /// What both sides agreed on.
    pub fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    /// The stream, for what goes beyond the protocol.
    pub fn stream(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Sends a payload as the next packets.
    pub fn send(&mut self, payload: &[u8]) -> ClientResult<()> {
        let mut out = Vec::with_capacity(payload.len() + packet::HEADER_BYTES);
        packet::append(&mut out, payload, &mut self.sequence);
        self.stream.write_all(&out)?;
        Ok(self.stream.flush()?)
    }

    /// Sends a command: its byte and what follows.
    pub fn command(&mut self, command: u8, rest: &[u8]) -> ClientResult<()> {
        self.sequence = 0;
        let mut payload = Vec::with_capacity(rest.len() + 1);
        payload.push(command);
        payload.extend_from_slice(rest);
        self.send(&payload)
    }

    /// Receives the next payload.
    pub fn receive(&mut self) -> ClientResult<Vec<u8>> {
        loop {
            let need = match packet::frame(&self.input, self.sequence, PAYLOAD_MAX) {
                Ok(Framed::Need(total)) => total - self.input.len(),
                Ok(Framed::Whole(frame)) => {
                    let payload = frame.payload(&self.input).into_owned();
                    self.input.drain(..frame.consumed());
                    self.sequence = frame.next_sequence();
                    return Ok(payload);
                }
                Err(FrameError::TooLarge) => return Err(ClientError::Protocol("packet too large")),
                Err(FrameError::OutOfOrder) => return Err(ClientError::Protocol("packets out of order")),
            };
            self.read_more(need)?;
        }
    }

    fn read_more(&mut self, need: usize) -> ClientResult<()> {
        let mut chunk = [0; 16 * 1024];
        let want = need.clamp(1, chunk.len()).max(4096);
        match self.stream.read(&mut chunk[..want])? {
            0 => Err(ClientError::Io(io::ErrorKind::UnexpectedEof.into())),
            count => {
                self.input.extend_from_slice(&chunk[..count]);
                Ok(())
            }
        }
    }

    /// Runs the statements of a text; gives all results, or the first error.
    pub fn query_all(&mut self, sql: &str) -> ClientResult<VecDeque<Reply>> {
        self.command(byte::QUERY, sql.as_bytes())?;
        let mut replies = VecDeque::new();
        loop {
            let (reply, more) = self.read_reply(None)?;
            replies.push_back(reply);
            if !more {
                return Ok(replies);
            }
        }
    }

    /// Runs one statement.
    pub fn query(&mut self, sql: &str) -> ClientResult<Reply> {
        self.query_all(sql)?.pop_front().ok_or(ClientError::Protocol("no result"))
    }

    /// Runs one statement and gives its rows as text.
    pub fn rows(&mut self, sql: &str) -> ClientResult<Vec<Vec<String>>> {
        Ok(self.query(sql)?.into_rows().map(|rows| rows.text_rows()).unwrap_or_default())
    }

    /// SHOW WARNINGS: level, number, text.
    pub fn warnings(&mut self) -> ClientResult<Vec<Vec<String>>> {
        self.rows("SHOW WARNINGS")
    }

    /// Prepares a statement.
    pub fn prepare(&mut self, sql: &str) -> ClientResult<Statement> {
        self.command(byte::STMT_PREPARE, sql.as_bytes())?;
        let payload = self.receive_ok()?;
        let ok = PrepareOk::decode(&payload)?;
        self.read_columns(usize::from(ok.params))?;
        let columns = self.read_columns(usize::from(ok.columns))?;
        Ok(Statement { id: ok.statement, params: usize::from(ok.params), columns, warnings: ok.warnings })
    }

    /// Executes a prepared statement.
    pub fn execute(&mut self, statement: &Statement, values: &[Value]) -> ClientResult<Reply> {
        self.sequence = 0;
        let mut payload = Vec::new();
        params::encode_execute(&mut payload, statement.id, 0, values);
        self.send(&payload)?;
        let (first, mut more) = self.read_reply(Some(&statement.columns))?;
        while more {
            more = self.read_reply(Some(&statement.columns))?.1;
        }
        Ok(first)
    }

    /// Forgets a prepared statement.
    pub fn close_statement(&mut self, statement: &Statement) -> ClientResult<()> {
        self.command(byte::STMT_CLOSE, &statement.id.to_le_bytes())
    }

    /// A command that is answered by OK.
    pub fn simple(&mut self, command: u8, rest: &[u8]) -> ClientResult<OkReply> {
        self.command(command, rest)?;
        let payload = self.receive_ok()?;
        if payload.first() == Some(&mark::EOF) {
            return Ok(OkReply::default());
        }
        Ok(reply::decode_ok(&payload, self.capabilities)?)
    }

    /// Is the server there?
    pub fn ping(&mut self) -> ClientResult<OkReply> {
        self.simple(byte::PING, b"")
    }

    /// The one-line status text.
    pub fn statistics(&mut self) -> ClientResult<String> {
        self.command(byte::STATISTICS, b"")?;
        Ok(String::from_utf8_lossy(&self.receive()?).into_owned())
    }

    /// Becomes another user.
    pub fn change_user(&mut self, options: &ConnectOptions) -> ClientResult<()> {
        let change = ChangeUser {
            user: options.user.clone().into_bytes(),
            auth: auth::answer(options.password.as_bytes(), &self.greeting.scramble),
            database: options.database.clone().into_bytes(),
            collation: Some(u16::from(options.collation)),
            plugin: auth::NATIVE_PASSWORD.to_string(),
            attributes: Vec::new(),
        };
        let mut rest = Vec::new();
        change.encode(&mut rest, self.capabilities);
        self.command(byte::CHANGE_USER, &rest)?;
        self.finish_authentication(options.password.as_bytes())
    }

    /// Leaves.
    pub fn quit(mut self) -> ClientResult<()> {
        self.command(byte::QUIT, b"")
    }

    fn receive_ok(&mut self) -> ClientResult<Vec<u8>> {
        let payload = self.receive()?;
        match payload.first() {
            Some(&mark::ERR) => Err(ClientError::Server(reply::decode_err(&payload)?)),
            Some(_) => Ok(payload),
            None => Err(ClientError::Protocol("empty packet")),
        }
    }

    /// `count` definitions and the EOF behind them.
    fn read_columns(&mut self, count: usize) -> ClientResult<Vec<Column>> {
        let mut columns = Vec::new();
        for _ in 0..count {
            columns.push(Column::decode(&self.receive()?)?);
        }
        if count > 0 && !self.capabilities.has(Capabilities::DEPRECATE_EOF) {
            self.receive()?;
        }
        Ok(columns)
    }

    /// One result and whether another follows; `prepared` holds the columns of a binary result.
    fn read_reply(&mut self, prepared: Option<&[Column]>) -> ClientResult<(Reply, bool)> {
        let payload = self.receive_ok()?;
        match payload[0] {
            mark::OK => {
                let ok = reply::decode_ok(&payload, self.capabilities)?;
                let more = ok.status.has(Status::MORE_RESULTS);
                Ok((Reply::Ok(ok), more))
            }
            mark::LOCAL_INFILE => Err(ClientError::Protocol("the server asks for a local file")),
            _ => self.read_result_set(&payload, prepared),
        }
    }

    fn read_result_set(&mut self, head: &[u8], prepared: Option<&[Column]>) -> ClientResult<(Reply, bool)> {
        let mut reader = Reader::new(head);
        let count = usize::try_from(reader.lenenc()?).map_err(|_| Malformed)?;
        let known = self.capabilities.has(Capabilities::CACHE_METADATA) && reader.u8()? == 0;
        let columns = if known {
            if !self.capabilities.has(Capabilities::DEPRECATE_EOF) {
                self.receive()?;
            }
            prepared.ok_or(ClientError::Protocol("no columns"))?.to_vec()
        } else {
            self.read_columns(count)?
        };
        let mut text = Vec::new();
        let mut binary = Vec::new();
        loop {
            let payload = self.receive_ok()?;
            if is_end_of_rows(&payload, self.capabilities) {
                let (status, warnings) = self.read_end(&payload)?;
                let rows = if prepared.is_some() { Rows::Binary(binary) } else { Rows::Text(text) };
                let more = status.has(Status::MORE_RESULTS);
                return Ok((Reply::Rows(ResultSet { columns, rows, status, warnings }), more));
            }
            if prepared.is_some() {
                binary.push(rows::decode_binary(&payload, &columns)?);
            } else {
                text.push(rows::decode_text(&payload, columns.len())?);
            }
        }
    }

    fn read_end(&self, payload: &[u8]) -> ClientResult<(Status, u16)> {
        if self.capabilities.has(Capabilities::DEPRECATE_EOF) {
            let ok = reply::decode_ok(payload, self.capabilities)?;
            return Ok((ok.status, ok.warnings));
        }
        let mut reader = Reader::new(payload);
        reader.u8()?;
        let warnings = reader.u16()?;
        Ok((Status(reader.u16()?), warnings))
    }
}

/// A row may begin with the mark of EOF too, but then it is longer than any EOF: as long as the value behind it.
fn is_end_of_rows(payload: &[u8], capabilities: Capabilities) -> bool {
    let longest = if capabilities.has(Capabilities::DEPRECATE_EOF) { packet::PAYLOAD_MAX - 1 } else { 8 };
    payload[0] == mark::EOF && payload.len() <= longest
}
