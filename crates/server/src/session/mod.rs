//! A connection's packets: authentication first (handshake.rs), then commands (commands.rs, execute.rs).
//!
//! A packet is copied out of the connection's input, so that it can be worked on while the answer goes to the output. The
//! copy's buffer stays with the session up to a kilobyte.

mod commands;
mod cursor;
mod execute;
mod handshake;

use std::time::Duration;

use keel_base::{SqlError, errors};
use keel_query::Params;
use keel_runtime::net::{self, After, Connection};
use keel_wire::capability::Status;
use keel_wire::packet::{self, FrameError, Framed};
use keel_wire::{auth, reply};

use crate::core::Core;
use crate::counters::Counter;
use crate::state::LongPacket;
use handshake::Phase;

/// A longer buffer is given back after its packet.
const PACKET_BYTES_KEPT: usize = 1024;

/// The longest packet before authentication.
const HANDSHAKE_BYTES_MAX: usize = 64 * 1024;

/// One client's session.
pub struct ClientSession {
    core: Core,
    phase: Phase,
    scramble: [u8; auth::SCRAMBLE_BYTES],
    /// The number of the next packet, either way.
    sequence: u8,
    /// The packet being worked on.
    packet: Vec<u8>,
    /// Its room, if it is long.
    room: Option<LongPacket>,
    params: Params,
    idle_timeout: Duration,
    /// COMMIT RELEASE was said: the connection ends behind the answer.
    released: bool,
    /// The client has taken its leave, or was refused: its going is nothing to count.
    dismissed: bool,
}

impl ClientSession {
    /// A session that has not been greeted.
    pub fn new(core: Core) -> ClientSession {
        let mut random = [0; auth::SCRAMBLE_BYTES];
        keel_runtime::rand::fill(&mut random);
        ClientSession {
            core,
            phase: Phase::Greeted,
            scramble: auth::challenge(random),
            sequence: 0,
            packet: Vec::new(),
            room: None,
            params: Params::default(),
            idle_timeout: Duration::ZERO,
            released: false,
            dismissed: false,
        }
    }

    /// The connection's number.
    pub fn id(&self) -> u64 {
        self.core.client.id
    }

    /// The challenge that the client is to answer.
    pub fn scramble(&self) -> &[u8; auth::SCRAMBLE_BYTES] {
        &self.scramble
    }

    /// The number of the next packet.
    pub fn sequence(&mut self) -> &mut u8 {
        &mut self.sequence
    }

    /// Copies the next packet out of the input; false where it is not whole yet.
    fn next_packet(&mut self, conn: &mut Connection) -> Result<bool, After> {
        let ready = matches!(self.phase, Phase::Ready);
        let max = match ready {
            true => self.core.sql.vars.max_allowed_packet as usize,
            false => HANDSHAKE_BYTES_MAX,
        };
        let expected = if ready { 0 } else { self.sequence };
        loop {
            match packet::frame(conn.input(), expected, max) {
                Ok(Framed::Whole(frame)) => {
                    self.packet.clear();
                    self.packet.extend_from_slice(&frame.payload(conn.input()));
                    self.sequence = frame.next_sequence();
                    let consumed = frame.consumed();
                    conn.consume(consumed);
                    self.core.count(Counter::BytesReceived, consumed as u64);
                    return Ok(true);
                }
                Ok(Framed::Need(_)) if conn.input().is_empty() => return Ok(false),
                Ok(Framed::Need(total)) => {
                    if self.room.is_none() {
                        let client = &self.core.client;
                        let goes_on = || !client.is_killed() && !conn.is_ended();
                        let room = LongPacket::admit(&self.core.state, total, goes_on);
                        self.room = room.ok_or(After::Close)?;
                    }
                    conn.fill(total).map_err(|_| After::Close)?;
                }
                Err(error) => return Err(self.refuse_frame(conn, error)),
            }
        }
    }

    #[cold]
    fn refuse_frame(&mut self, conn: &mut Connection, error: FrameError) -> After {
        self.sequence = packet::last_sequence(conn.input()).map_or(1, |sequence| sequence.wrapping_add(1));
        let error = match error {
            FrameError::TooLarge => errors::net_packet_too_large(),
            FrameError::OutOfOrder => errors::net_packets_out_of_order(),
        };
        self.send_error(conn, &error);
        let _ = self.flush(conn);
        After::Close
    }

    /// Appends an ERR packet and notes the error where SHOW WARNINGS finds it.
    #[cold]
    fn send_error(&mut self, conn: &mut Connection, error: &SqlError) {
        self.core.note_error(error);
        reply::append_err(conn.output(), error, self.core.capabilities, &mut self.sequence);
    }

    /// Appends an OK packet.
    fn send_ok(&mut self, conn: &mut Connection, ok: reply::Ok<'_>, more: bool) {
        let mut status = self.core.status();
        status.set(Status::MORE_RESULTS, more);
        let changes = std::mem::take(&mut self.core.changes);
        let ok = reply::Ok { status, warnings: self.core.warning_count(), changes: &changes, ..ok };
        reply::append_ok(conn.output(), &ok, self.core.capabilities, &mut self.sequence);
        self.core.database_dropped = false;
    }

    fn flush(&mut self, conn: &mut Connection) -> std::io::Result<()> {
        let bytes = conn.output().len() as u64;
        self.core.count(Counter::BytesSent, bytes);
        conn.flush()
    }

    /// Tells the connection how long it may be idle now.
    fn renew_idle_timeout(&mut self, conn: &mut Connection) {
        let interactive = self.core.capabilities.has(keel_wire::capability::Capabilities::INTERACTIVE);
        let timeout = crate::variables::set::idle_timeout(&self.core.client.settings.lock(), interactive);
        if timeout != self.idle_timeout {
            self.idle_timeout = timeout;
            conn.set_idle_timeout(Some(timeout));
        }
    }
}

impl net::Session for ClientSession {
    fn data(&mut self, conn: &mut Connection) -> After {
        loop {
            match self.next_packet(conn) {
                Ok(true) => {}
                Ok(false) => return After::Idle,
                Err(after) => return after,
            }
            let packet = std::mem::take(&mut self.packet);
            let after = match self.phase {
                Phase::Ready => self.command(conn, &packet),
                _ => self.authenticate(conn, &packet),
            };
            self.packet = packet;
            if self.packet.capacity() > PACKET_BYTES_KEPT {
                self.packet = Vec::new();
            }
            self.room = None;
            if self.flush(conn).is_err() || after == After::Close || self.core.client.is_killed() {
                return After::Close;
            }
        }
    }

    fn closed(&mut self) {
        if !self.dismissed {
            let lost = if matches!(self.phase, Phase::Ready) {
                Counter::AbortedClients
            } else {
                Counter::AbortedConnects
            };
            self.core.count(lost, 1);
        }
        let database = self.core.state.database().clone();
        if self.core.sql.txn.is_some() || self.core.sql.in_transaction() {
            // The client is gone: there is nobody to tell.
            let _ = database.rollback(&mut self.core.sql);
        }
        self.core.statements.clear(&self.core.state);
        self.core.state.registry.remove(self.core.client.id);
    }
}
