//! TLS as a layer of a connection, and the result of its handshake.

use std::io::{self, Read, Write};
use std::sync::{Arc, OnceLock};

use keel_runtime::net::{Decoded, Layer};
use rustls::{ProtocolVersion, ServerConnection};

use crate::Acceptor;
use crate::certificate::{self, one_line};
use crate::suites;

/// One connection's TLS, shared by its layer and its session.
pub struct TlsSession {
    /// The acceptor that the connection began with.
    pub acceptor: Arc<Acceptor>,
    established: OnceLock<Established>,
}

/// The result of a handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Established {
    /// `TLSv1.2` or `TLSv1.3`.
    pub version: &'static str,
    /// OpenSSL's name of the cipher.
    pub cipher: &'static str,
    /// The names in the client's certificate, if it sent one; the certificate has been verified.
    pub client: Option<ClientName>,
}

/// The names in a client's certificate, as OpenSSL prints them in one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientName {
    /// The issuer.
    pub issuer: String,
    /// The subject.
    pub subject: String,
}

impl TlsSession {
    /// The result of the handshake; `None` until it is complete.
    pub fn established(&self) -> Option<&Established> {
        self.established.get()
    }
}

/// Decodes and encodes the bytes of one connection.
pub struct TlsLayer {
    tls: ServerConnection,
    session: Arc<TlsSession>,
}

impl TlsLayer {
    /// The server's side of a connection, before the handshake.
    pub fn new(acceptor: Arc<Acceptor>) -> io::Result<(TlsLayer, Arc<TlsSession>)> {
        let mut tls = ServerConnection::new(acceptor.config.clone()).map_err(io::Error::other)?;
        // Output is taken out at once; the connection's buffer bounds it.
        tls.set_buffer_limit(None);
        acceptor.accepts.add();
        let session = Arc::new(TlsSession { acceptor, established: OnceLock::new() });
        Ok((TlsLayer { tls, session: session.clone() }, session))
    }

    fn note_established(&self) {
        if self.session.established().is_some() || self.tls.is_handshaking() {
            return;
        }
        let version = match self.tls.protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
            _ => "TLSv1.3",
        };
        let suite = self.tls.negotiated_cipher_suite();
        let cipher = suite.map_or("", |suite| suites::name(suite.suite()));
        let leaf = self.tls.peer_certificates().and_then(|chain| chain.first());
        let client = leaf.and_then(|leaf| certificate::read(leaf)).map(|certificate| ClientName {
            issuer: one_line(certificate.issuer()),
            subject: one_line(certificate.subject()),
        });
        if self.session.established.set(Established { version, cipher, client }).is_ok() {
            self.session.acceptor.finished.add();
        }
    }

    fn take_out(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        while self.tls.wants_write() {
            self.tls.write_tls(out)?;
        }
        Ok(())
    }
}

impl Layer for TlsLayer {
    fn decode(&mut self, arrived: &[u8], input: &mut Vec<u8>, room: usize) -> io::Result<Decoded> {
        let had = input.len();
        let mut rest = arrived;
        while !rest.is_empty() && input.len() - had < room {
            self.tls.read_tls(&mut rest)?;
            let state = self.tls.process_new_packets().map_err(io::Error::other)?;
            self.note_established();
            let plain = state.plaintext_bytes_to_read();
            if plain > 0 {
                let at = input.len();
                input.resize(at + plain, 0);
                self.tls.reader().read_exact(&mut input[at..])?;
            }
            if state.peer_has_closed() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(Decoded { taken: arrived.len() - rest.len(), more: !rest.is_empty() })
    }

    fn encode(&mut self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.tls.writer().write_all(plain)?;
        self.take_out(out)
    }

    fn speak(&mut self, out: &mut Vec<u8>) {
        // Writing to memory does not fail.
        let _ = self.take_out(out);
    }

    fn take_leave(&mut self, _out: &mut Vec<u8>) {
        self.tls.send_close_notify();
    }
}
