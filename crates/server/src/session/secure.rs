//! What stands between the session and the network: TLS and compression; and whether it is enough for an account.

use std::io;
use std::sync::atomic::Ordering;

use keel_base::errors;
use keel_catalog::account::{Account, Require};
use keel_runtime::net::{After, Connection, Decoded, Layer, Peer};
use keel_runtime::time;
use keel_tls::layer::TlsLayer;
use keel_wire::capability::Capabilities;
use keel_wire::compress::Compressed;

use super::ClientSession;
use super::handshake::Phase;

/// The compressed protocol.
struct Compression(Compressed);

impl Layer for Compression {
    fn decode(&mut self, arrived: &[u8], input: &mut Vec<u8>, room: usize) -> io::Result<Decoded> {
        let unpacked = self.0.unpack(arrived, input, room);
        let (taken, more) = unpacked.map_err(|bad| io::Error::new(io::ErrorKind::InvalidData, bad))?;
        Ok(Decoded { taken, more })
    }

    fn encode(&mut self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.0.pack(plain, out);
        Ok(())
    }
}

impl ClientSession {
    /// The client asks for TLS: what it sends from here on is the handshake, which must be done within `connect_timeout`,
    /// together with the answer to the greeting.
    pub(super) fn begin_tls(&mut self, conn: &mut Connection) -> After {
        let acceptor = self.core.state.tls.acceptor();
        let Some(Ok((layer, session))) = acceptor.map(TlsLayer::new) else {
            return self.fail_handshake(conn, &errors::handshake_error());
        };
        conn.push_layer(Box::new(layer));
        // A client asks once: later packets are read as answers.
        let _ = self.core.client.tls.set(session);
        self.phase = Phase::Securing(time::now() + self.seconds("connect_timeout"));
        After::Idle
    }

    /// Gives a client that is about to say who it is no more time than it has.
    pub(super) fn bound_handshake(&mut self, conn: &mut Connection) -> After {
        let Phase::Securing(end) = self.phase else { return After::Idle };
        let now = time::now();
        if now >= end {
            return After::Close;
        }
        conn.set_idle_timeout(Some(end.since(now)));
        After::Idle
    }

    /// Compresses all that follows, if the client can.
    pub(super) fn begin_compression(&mut self, conn: &mut Connection) -> io::Result<()> {
        if !self.core.capabilities.has(Capabilities::COMPRESS) || self.compressed {
            return Ok(());
        }
        self.compressed = true;
        self.core.client.compressed.store(true, Ordering::Relaxed);
        // The OK before it goes out as it is.
        self.flush(conn)?;
        conn.push_layer(Box::new(Compression(Compressed::new())));
        Ok(())
    }

    /// Whether nobody between can read along: TLS, or a socket of this machine.
    pub(super) fn is_private(&self, conn: &Connection) -> bool {
        self.core.client.encryption().is_some() || conn.peer() == Peer::Unix
    }

    /// Whether the connection is what `require_secure_transport` and the account's REQUIRE ask for.
    pub(super) fn is_secure_enough(&self, conn: &Connection, account: &Account) -> bool {
        if self.core.state.globals.named("require_secure_transport").is_on() && !self.is_private(conn) {
            return false;
        }
        let established = self.core.client.encryption().map(|(_, established)| established);
        let client = established.and_then(|established| established.client.as_ref());
        match &account.require {
            Require::None => true,
            Require::Ssl => established.is_some(),
            Require::X509 => client.is_some(),
            Require::Specified { issuer, subject, cipher } => {
                let fits = |wanted: &str, found: Option<&str>| wanted.is_empty() || found == Some(wanted);
                established.is_some_and(|established| fits(cipher, Some(established.cipher)))
                    && fits(issuer, client.map(|client| client.issuer.as_str()))
                    && fits(subject, client.map(|client| client.subject.as_str()))
            }
        }
    }
}
