//! A connection's packets: authentication first (handshake.rs), then commands (commands.rs, execute.rs).
//!
//! A packet is copied out of the connection's input, so that it can be worked on while the answer goes to the output. The
//! copy's buffer stays with the session up to a kilobyte. A long packet takes room as its bytes come (admission.rs), and is
//! moved, not copied.

mod bulk;
mod commands;
mod cursor;
pub mod digests;
mod execute;
mod handshake;
mod init;
pub(crate) mod init_file;
mod logging;
mod secure;

use std::time::Duration;

use keel_base::{SqlError, errors};
use keel_context::admission::Share;
use keel_database::Params;
use keel_exec::InterruptState;
use keel_runtime::net::{self, After, Connection, Peer};
use keel_runtime::time::{self, Instant};
use keel_views::counters::Counter;
use keel_wire::capability::Status;
use keel_wire::packet::{self, Frame, FrameError, Framed};
use keel_wire::{auth, reply};

use crate::core::Core;
use crate::hosts;
use crate::sink;
use handshake::Phase;

pub use logging::Tally;

/// A longer buffer is given back after its packet.
const PACKET_BYTES_KEPT: usize = 1024;

/// The longest packet before authentication.
const HANDSHAKE_BYTES_MAX: usize = 64 * 1024;

/// Bytes of a packet beyond which it takes room.
const LONG_PACKET: usize = 32 << 10;

/// Bytes of a long packet that are taken in at a time.
const PACKET_STEP: usize = 256 << 10;

/// One client's session.
pub struct ClientSession {
    core: Core,
    phase: Phase,
    scramble: [u8; auth::SCRAMBLE_BYTES],
    /// The challenge of the plugin that the client was asked for last.
    nonce: [u8; auth::NONCE_BYTES],
    /// The number of the next packet, either way.
    sequence: u8,
    /// The packet being worked on.
    packet: Vec<u8>,
    /// Its room, if it is long.
    room: Option<Share>,
    params: Params,
    idle_timeout: Duration,
    /// That is the time-out of an open transaction.
    idles_in_transaction: bool,
    /// Its packets are compressed.
    compressed: bool,
    /// COMMIT RELEASE was said: the connection ends behind the answer.
    released: bool,
    /// The client has been let in once.
    is_known: bool,
    /// The client has taken its leave, or was refused: its going is nothing to count.
    dismissed: bool,
    /// A statement of `init_connect` failed.
    init_failed: bool,
    /// Where it comes from.
    peer: Peer,
    /// Handshakes with this address had failed when the client connected.
    had_failures: bool,
}

impl ClientSession {
    /// A session that has not been greeted.
    pub fn new(mut core: Core, peer: &Peer) -> ClientSession {
        let mut random = [0; auth::SCRAMBLE_BYTES];
        keel_runtime::rand::fill(&mut random);
        let had_failures = hosts::has_failures(peer, &core.state);
        let seeds = keel_runtime::rand::u64();
        core.sql.rand = (seeds as u32, (seeds >> 32) as u32);
        ClientSession {
            core,
            phase: Phase::Greeted,
            scramble: auth::challenge(random),
            nonce: [0; auth::NONCE_BYTES],
            sequence: 0,
            packet: Vec::new(),
            room: None,
            params: Params::default(),
            idle_timeout: Duration::ZERO,
            idles_in_transaction: false,
            compressed: false,
            released: false,
            is_known: false,
            dismissed: false,
            init_failed: false,
            peer: peer.clone(),
            had_failures,
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

    /// Takes the next packet out of the input; false where there is none.
    fn next_packet(&mut self, conn: &mut Connection) -> Result<bool, After> {
        let ready = matches!(self.phase, Phase::Ready);
        let max = match ready {
            true => self.core.sql.vars.max_allowed_packet as usize,
            false => HANDSHAKE_BYTES_MAX,
        };
        let expected = if ready { 0 } else { self.sequence };
        let mut end = None;
        loop {
            let framed = if self.compressed {
                packet::frame_unnumbered(conn.input(), max)
            } else {
                packet::frame(conn.input(), expected, max)
            };
            match framed {
                Ok(Framed::Whole(frame)) => {
                    self.make_room(conn, frame.consumed())?;
                    self.sequence = frame.next_sequence();
                    self.core.count(Counter::BytesReceived, frame.consumed() as u64);
                    self.take_packet(conn, frame);
                    return Ok(true);
                }
                Ok(Framed::Need(_)) if conn.input().is_empty() => return Ok(false),
                Ok(Framed::Need(total)) => {
                    let end = *end.get_or_insert_with(|| self.packet_end());
                    let next = total.min(conn.input().len() + PACKET_STEP);
                    self.make_room(conn, next)?;
                    if total > LONG_PACKET {
                        conn.reserve_input(total);
                    }
                    conn.fill_before(next, end).map_err(|_| After::Close)?;
                }
                Err(error) => return Err(self.refuse_frame(conn, error)),
            }
        }
    }

    fn take_packet(&mut self, conn: &mut Connection, frame: Frame) {
        let consumed = frame.consumed();
        if consumed > LONG_PACKET {
            self.packet = frame.into_payload(conn.take_input(consumed));
            return;
        }
        self.packet.clear();
        self.packet.extend_from_slice(&frame.payload(conn.input()));
        conn.consume(consumed);
    }

    /// When a packet of which a part is here must be whole: before authentication within `connect_timeout`, however slowly it
    /// comes; later never, as long as something comes.
    fn packet_end(&self) -> Instant {
        match self.phase {
            Phase::Ready => Instant::FAR,
            Phase::Securing(end) => end,
            _ => time::now() + self.seconds("connect_timeout"),
        }
    }

    /// Takes room for a packet of which `bytes` are here or are taken in next; while it waits, the rest stays with the
    /// kernel.
    fn make_room(&mut self, conn: &mut Connection, bytes: usize) -> Result<(), After> {
        if bytes <= LONG_PACKET {
            return Ok(());
        }
        let urgent = self.core.sql.holds_locks();
        let session = self.core.client.id;
        let room = self.room.get_or_insert_with(|| self.core.state.long_packets.packet_of(session));
        let more = (bytes as u64).saturating_sub(room.bytes());
        if more == 0 || room.try_take(more, urgent) {
            return Ok(());
        }
        conn.hold_input();
        let ends = |state| state == InterruptState::Connection;
        if room.take(more, urgent, &self.core.sql.interrupt, ends) { Ok(()) } else { Err(After::Close) }
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
        let (capabilities, sequence) = (self.core.capabilities, &mut self.sequence);
        match sink::message_in_results(&error.message, self.core.sql.vars.results_collation) {
            None => reply::append_err(conn.output(), error, capabilities, sequence),
            Some(text) => reply::append_err_text(conn.output(), error, &text, capabilities, sequence),
        }
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

    /// Tells the connection how long it may be idle, and how long the network may take, now.
    fn renew_timeouts(&mut self, conn: &mut Connection) {
        let interactive = self.core.capabilities.has(keel_wire::capability::Capabilities::INTERACTIVE);
        let in_transaction = self.transaction_timeout();
        self.idles_in_transaction = in_transaction.is_some();
        let timeout =
            in_transaction.unwrap_or_else(|| self.core.client.settings.lock().idle_timeout(interactive));
        if timeout != self.idle_timeout {
            self.idle_timeout = timeout;
            conn.set_idle_timeout(Some(timeout));
        }
        conn.set_read_timeout(Some(self.seconds("net_read_timeout")));
        conn.set_write_timeout(Some(self.seconds("net_write_timeout")));
    }

    /// How long the session may be idle in its open transaction, where that is bounded.
    fn transaction_timeout(&self) -> Option<Duration> {
        let sql = &self.core.sql;
        let [any, reading, writing] = sql.vars.idle_transaction_timeouts;
        if !sql.in_transaction() {
            return None;
        }
        let own = if sql.txn.as_ref().is_some_and(|txn| txn.has_writes()) { writing } else { reading };
        [own, any].into_iter().find(|seconds| *seconds > 0).map(Duration::from_secs)
    }

    /// Whether the time-out of an idle session depends on its transaction.
    #[inline]
    fn has_transaction_timeouts(&self) -> bool {
        self.idles_in_transaction || self.core.sql.vars.idle_transaction_timeouts != [0; 3]
    }

    /// A variable that is a time.
    fn seconds(&self, name: &str) -> Duration {
        Duration::from_secs(self.core.setting(name).as_u64().max(1))
    }
}

impl net::Session for ClientSession {
    fn data(&mut self, conn: &mut Connection) -> After {
        loop {
            match self.next_packet(conn) {
                Ok(true) => {}
                Ok(false) => return self.bound_handshake(conn),
                Err(after) => return after,
            }
            let packet = std::mem::take(&mut self.packet);
            let after = match self.phase {
                Phase::Ready if self.init_failed => self.report_failed_init(conn),
                Phase::Ready => self.command(conn, &packet),
                _ => self.authenticate(conn, &packet),
            };
            self.packet = packet;
            if self.packet.capacity() > PACKET_BYTES_KEPT {
                self.packet = Vec::new();
            }
            self.room = None;
            let is_killed = self.core.client.is_killed() && !self.init_failed;
            if self.flush(conn).is_err() || after == After::Close || is_killed {
                return After::Close;
            }
        }
    }

    fn closed(&mut self) {
        self.core.end_rooms();
        self.room = None;
        if !self.dismissed {
            let lost = if matches!(self.phase, Phase::Ready) {
                Counter::AbortedClients
            } else {
                Counter::AbortedConnects
            };
            self.core.count(lost, 1);
            if lost == Counter::AbortedConnects {
                hosts::note_failure(&self.peer, &self.core.state);
            }
            if lost == Counter::AbortedClients {
                self.log_lost();
            }
        }
        self.core.close();
    }
}
