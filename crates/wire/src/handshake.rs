//! The start of a connection: greeting, response, change of user, switch of the authentication plugin.

use crate::auth::SCRAMBLE_BYTES;
use crate::capability::{Capabilities, Status};
use crate::codec::{Malformed, Reader, put_lenenc, put_lenenc_bytes, put_nul_terminated};

/// The first byte of a greeting.
const PROTOCOL_VERSION: u8 = 10;

/// What stands before MariaDB's version, since old replicas would take `10.` for `1.0`.
pub const VERSION_PREFIX: &str = "5.5.5-";

/// What a server says first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// Version text as sent, [`VERSION_PREFIX`] included.
    pub version: String,
    /// The connection's number.
    pub connection_id: u32,
    /// The challenge.
    pub scramble: [u8; SCRAMBLE_BYTES],
    /// What the server can do.
    pub capabilities: Capabilities,
    /// The server's default collation.
    pub collation: u8,
    /// Status flags.
    pub status: Status,
    /// The authentication plugin that the challenge is for.
    pub plugin: String,
}

impl Greeting {
    /// Appends the payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let low = self.capabilities.low().to_le_bytes();
        out.push(PROTOCOL_VERSION);
        put_nul_terminated(out, self.version.as_bytes());
        out.extend_from_slice(&self.connection_id.to_le_bytes());
        out.extend_from_slice(&self.scramble[..8]);
        out.push(0);
        out.extend_from_slice(&low[..2]);
        out.push(self.collation);
        out.extend_from_slice(&self.status.0.to_le_bytes());
        out.extend_from_slice(&low[2..]);
        out.push(SCRAMBLE_BYTES as u8 + 1);
        out.extend_from_slice(&[0; 6]);
        out.extend_from_slice(&self.capabilities.high().to_le_bytes());
        put_nul_terminated(out, &self.scramble[8..]);
        put_nul_terminated(out, self.plugin.as_bytes());
    }

    /// Reads a payload.
    pub fn decode(payload: &[u8]) -> Result<Greeting, Malformed> {
        let mut reader = Reader::new(payload);
        if reader.u8()? != PROTOCOL_VERSION {
            return Err(Malformed);
        }
        let version = lossy(reader.nul_terminated()?);
        let connection_id = reader.u32()?;
        let mut scramble = [0; SCRAMBLE_BYTES];
        scramble[..8].copy_from_slice(reader.take(8)?);
        reader.u8()?;
        let low = reader.u16()?;
        let collation = reader.u8()?;
        let status = Status(reader.u16()?);
        let upper = reader.u16()?;
        reader.u8()?;
        reader.take(6)?;
        let extended = reader.u32()?;
        scramble[8..].copy_from_slice(reader.take(SCRAMBLE_BYTES - 8)?);
        reader.u8()?;
        let plugin = lossy(reader.nul_terminated_or_rest());
        let capabilities = Capabilities::from_halves(u32::from(low) | u32::from(upper) << 16, extended);
        Ok(Greeting { version, connection_id, scramble, capabilities, collation, status, plugin })
    }
}

/// What a client answers to the greeting.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Response {
    /// What the client wants to use.
    pub capabilities: Capabilities,
    /// The longest packet that the client takes.
    pub packet_max: u32,
    /// The client's collation.
    pub collation: u8,
    /// User name.
    pub user: Vec<u8>,
    /// The answer to the challenge.
    pub auth: Vec<u8>,
    /// The database to start in; empty for none.
    pub database: Vec<u8>,
    /// The plugin that made the answer; empty where the client names none.
    pub plugin: String,
    /// Connection attributes.
    pub attributes: Vec<(String, String)>,
}

/// Why a handshake response cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseError {
    /// Cut short or not what it says.
    Malformed,
    /// The same, by a client that speaks the protocol before 4.1.
    OldProtocol,
}

impl From<Malformed> for ResponseError {
    fn from(_: Malformed) -> Self {
        ResponseError::Malformed
    }
}

/// Most octets of connection attributes that are kept.
const ATTRIBUTES_BYTES_MAX: usize = 64 * 1024;

/// Whether a client's first packet asks for TLS before it says who it is: the head of a [`Response`] alone.
pub fn asks_for_tls(payload: &[u8]) -> bool {
    let wanted = Capabilities::SSL.with(Capabilities::PROTOCOL_41);
    Reader::new(payload).u32().is_ok_and(|low| Capabilities(u64::from(low)).has(wanted))
}

/// Appends the packet that asks for TLS.
pub fn encode_tls_request(out: &mut Vec<u8>, capabilities: Capabilities, collation: u8) {
    out.extend_from_slice(&capabilities.with(Capabilities::SSL).low().to_le_bytes());
    out.extend_from_slice(&(1u32 << 30).to_le_bytes());
    out.push(collation);
    out.extend_from_slice(&[0; 23]);
}

impl Response {
    /// Reads a payload.
    pub fn decode(payload: &[u8]) -> Result<Response, ResponseError> {
        let mut reader = Reader::new(payload);
        let low = reader.u32().or_else(|_| Reader::new(payload).u16().map(u32::from))?;
        let mut capabilities = Capabilities(u64::from(low));
        if !capabilities.has(Capabilities::PROTOCOL_41) {
            return Response::decode_old(payload);
        }
        let packet_max = reader.u32()?;
        let collation = reader.u8()?;
        reader.take(19)?;
        let extended = reader.u32()?;
        if !capabilities.has(Capabilities::MYSQL) {
            capabilities = Capabilities::from_halves(low, extended);
        }
        let user = reader.nul_terminated()?.to_vec();
        let auth = read_auth(&mut reader, capabilities)?;
        let database = if capabilities.has(Capabilities::CONNECT_WITH_DB) {
            reader.nul_terminated_or_rest().to_vec()
        } else {
            Vec::new()
        };
        let plugin = if capabilities.has(Capabilities::PLUGIN_AUTH) {
            lossy(reader.nul_terminated_or_rest())
        } else {
            String::new()
        };
        let attributes = read_attributes(&mut reader, capabilities)?;
        Ok(Response { capabilities, packet_max, collation, user, auth, database, plugin, attributes })
    }

    /// Reads the response of a client that speaks the protocol before 4.1, as health checks of proxies do.
    fn decode_old(payload: &[u8]) -> Result<Response, ResponseError> {
        let old = |_| ResponseError::OldProtocol;
        let mut reader = Reader::new(payload);
        let capabilities = Capabilities(u64::from(reader.u16()?));
        reader.take(3).map_err(old)?;
        let user = reader.nul_terminated().map_err(old)?.to_vec();
        let auth = read_auth(&mut reader, capabilities).map_err(old)?;
        let has_database = capabilities.has(Capabilities::CONNECT_WITH_DB);
        let database = if has_database { reader.nul_terminated_or_rest().to_vec() } else { Vec::new() };
        Ok(Response { capabilities, user, auth, database, ..Response::default() })
    }

    /// Appends the payload.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.capabilities.low().to_le_bytes());
        out.extend_from_slice(&self.packet_max.to_le_bytes());
        out.push(self.collation);
        out.extend_from_slice(&[0; 19]);
        let extended = if self.capabilities.has(Capabilities::MYSQL) { 0 } else { self.capabilities.high() };
        out.extend_from_slice(&extended.to_le_bytes());
        put_nul_terminated(out, &self.user);
        if self.capabilities.has(Capabilities::PLUGIN_AUTH_LENENC) {
            put_lenenc_bytes(out, &self.auth);
        } else {
            out.push(self.auth.len() as u8);
            out.extend_from_slice(&self.auth);
        }
        if self.capabilities.has(Capabilities::CONNECT_WITH_DB) {
            put_nul_terminated(out, &self.database);
        }
        if self.capabilities.has(Capabilities::PLUGIN_AUTH) {
            put_nul_terminated(out, self.plugin.as_bytes());
        }
        if self.capabilities.has(Capabilities::CONNECT_ATTRS) {
            put_attributes(out, &self.attributes);
        }
    }
}

fn read_auth(reader: &mut Reader<'_>, capabilities: Capabilities) -> Result<Vec<u8>, Malformed> {
    if capabilities.has(Capabilities::PLUGIN_AUTH_LENENC) {
        Ok(reader.lenenc_bytes()?.to_vec())
    } else if capabilities.has(Capabilities::SECURE_CONNECTION) {
        let length = reader.u8()?;
        Ok(reader.take(usize::from(length))?.to_vec())
    } else {
        Ok(reader.nul_terminated_or_rest().to_vec())
    }
}

fn read_attributes(
    reader: &mut Reader<'_>,
    capabilities: Capabilities,
) -> Result<Vec<(String, String)>, Malformed> {
    let mut attributes = Vec::new();
    if !capabilities.has(Capabilities::CONNECT_ATTRS) || reader.is_empty() {
        return Ok(attributes);
    }
    let bytes = reader.lenenc_bytes()?;
    if bytes.len() > ATTRIBUTES_BYTES_MAX {
        return Err(Malformed);
    }
    let mut pairs = Reader::new(bytes);
    while !pairs.is_empty() {
        attributes.push((lossy(pairs.lenenc_bytes()?), lossy(pairs.lenenc_bytes()?)));
    }
    Ok(attributes)
}

fn put_attributes(out: &mut Vec<u8>, attributes: &[(String, String)]) {
    let mut pairs = Vec::new();
    for (name, value) in attributes {
        put_lenenc_bytes(&mut pairs, name.as_bytes());
        put_lenenc_bytes(&mut pairs, value.as_bytes());
    }
    put_lenenc(out, pairs.len() as u64);
    out.extend_from_slice(&pairs);
}

/// COM_CHANGE_USER without its command byte.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ChangeUser {
    /// User name.
    pub user: Vec<u8>,
    /// The answer to the challenge of the greeting.
    pub auth: Vec<u8>,
    /// The database to start in; empty for none.
    pub database: Vec<u8>,
    /// The client's collation, where it names one.
    pub collation: Option<u16>,
    /// The plugin that made the answer; empty where the client names none.
    pub plugin: String,
    /// Connection attributes.
    pub attributes: Vec<(String, String)>,
}

impl ChangeUser {
    /// Reads what follows the command byte.
    pub fn decode(payload: &[u8], capabilities: Capabilities) -> Result<ChangeUser, Malformed> {
        let mut reader = Reader::new(payload);
        let user = reader.nul_terminated()?.to_vec();
        let auth = read_auth(&mut reader, capabilities.without(Capabilities::PLUGIN_AUTH_LENENC))?;
        let database = reader.nul_terminated_or_rest().to_vec();
        let collation = if reader.is_empty() { None } else { Some(reader.u16()?) };
        let plugin = if capabilities.has(Capabilities::PLUGIN_AUTH) {
            lossy(reader.nul_terminated_or_rest())
        } else {
            String::new()
        };
        let attributes = read_attributes(&mut reader, capabilities)?;
        Ok(ChangeUser { user, auth, database, collation, plugin, attributes })
    }

    /// Appends what follows the command byte.
    pub fn encode(&self, out: &mut Vec<u8>, capabilities: Capabilities) {
        put_nul_terminated(out, &self.user);
        out.push(self.auth.len() as u8);
        out.extend_from_slice(&self.auth);
        put_nul_terminated(out, &self.database);
        if let Some(collation) = self.collation {
            out.extend_from_slice(&collation.to_le_bytes());
            if capabilities.has(Capabilities::PLUGIN_AUTH) {
                put_nul_terminated(out, self.plugin.as_bytes());
            }
            if capabilities.has(Capabilities::CONNECT_ATTRS) {
                put_attributes(out, &self.attributes);
            }
        }
    }
}

/// The first byte of a request to switch the authentication plugin.
pub const AUTH_SWITCH: u8 = 0xfe;

/// Appends a request to answer `challenge` with another plugin.
pub fn encode_auth_switch(out: &mut Vec<u8>, plugin: &str, challenge: &[u8; SCRAMBLE_BYTES]) {
    out.push(AUTH_SWITCH);
    put_nul_terminated(out, plugin.as_bytes());
    put_nul_terminated(out, challenge);
}

/// The same with the challenge of a plugin that takes it as it is.
pub fn encode_auth_switch_raw(out: &mut Vec<u8>, plugin: &str, challenge: &[u8]) {
    out.push(AUTH_SWITCH);
    put_nul_terminated(out, plugin.as_bytes());
    out.extend_from_slice(challenge);
}

/// Reads a request to switch the plugin, its first byte included: the plugin's name and the challenge.
pub fn decode_auth_switch(payload: &[u8]) -> Result<(String, Vec<u8>), Malformed> {
    let mut reader = Reader::new(payload);
    if reader.u8()? != AUTH_SWITCH {
        return Err(Malformed);
    }
    let plugin = lossy(reader.nul_terminated()?);
    Ok((plugin, reader.nul_terminated_or_rest().to_vec()))
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
