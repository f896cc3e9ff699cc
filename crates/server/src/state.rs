//! What all sessions of a server share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hashbrown::HashMap;
use keel_query::Database;
use keel_query::catalog::TableDef;
use keel_runtime::sync::{Event, Semaphore};
use keel_runtime::time::{self, Instant};
use keel_runtime::wait::WaitEvent;
use keel_storage::Engine;
use keel_value::Value;
use parking_lot::Mutex;

use crate::counters::Counters;
use crate::registry::Registry;
use crate::timeouts::Timeouts;
use crate::variables::Globals;

/// The version that `VERSION()` and the greeting give, behind the greeting's prefix.
pub const VERSION: &str = "10.11.19-MariaDB-keel";

/// A table that was put up for the executor, with its rows.
pub type Staged = (Arc<TableDef>, Vec<Vec<Value>>);

/// One server's shared state.
pub struct ServerState {
    /// The engine.
    pub engine: Arc<Engine>,
    /// Global variables.
    pub globals: Globals,
    /// Who is connected.
    pub registry: Registry,
    /// Counters.
    pub counters: Counters,
    /// Statements with a time limit.
    pub timeouts: Arc<Timeouts>,
    /// When the server started.
    pub started: Instant,
    /// Raised when somebody asks the server to stop.
    pub stop_requested: Event,
    /// Room for the trees and plans of long texts, in bytes of text; see [`LongText`].
    long_texts: Semaphore,
    /// Room for packets that are long, in bytes; see [`LongPacket`].
    long_packets: Semaphore,
    /// Rows put up for the executor while SHOW ... WHERE runs, by name; one per session at most.
    pub stage: Mutex<HashMap<String, Staged>>,
    database: OnceLock<Arc<Database>>,
    next_connection: AtomicU64,
    next_query: AtomicU64,
    /// The most connections there have been at once.
    most_connections: AtomicU64,
    /// Seconds from the start to the last FLUSH STATUS.
    status_flushed: AtomicU64,
}

/// Bytes of text beyond which a statement asks for room before it is read.
const LONG_TEXT: usize = 64 << 10;
/// Bytes of long texts that may be in work at once. A tree and its plan take some forty times the text.
const LONG_TEXTS_MAX: u64 = 8 << 20;
/// How much less a text takes whose rows stay text.
const ROWS_SHARE: u64 = 20;

/// Bytes of a packet beyond which a connection asks for room before it takes it in.
const LONG_PACKET: usize = 256 << 10;
/// Bytes of long packets that may be on their way or in work at once.
const LONG_PACKETS_MAX: u64 = 32 << 20;

/// The room that a long packet takes from its first bytes to its answer, given back when dropped. Until there is room the
/// connection's bytes wait with the kernel.
pub struct LongPacket {
    state: Arc<ServerState>,
    bytes: u64,
}

impl LongPacket {
    /// Waits for room for a packet of `bytes`; none is needed for a short one. Looks every second whether `goes_on`;
    /// `None` where it does not.
    pub fn admit(
        state: &Arc<ServerState>,
        bytes: usize,
        goes_on: impl Fn() -> bool,
    ) -> Option<Option<LongPacket>> {
        if bytes <= LONG_PACKET {
            return Some(None);
        }
        // Of a packet in several pieces only the first is known: it takes all.
        let in_pieces = bytes > keel_wire::packet::PAYLOAD_MAX;
        let bytes = if in_pieces { LONG_PACKETS_MAX } else { bytes as u64 };
        let second = Duration::from_secs(1);
        while !state.long_packets.acquire_until(bytes, WaitEvent::Queue, time::now() + second) {
            if !goes_on() {
                return None;
            }
        }
        Some(Some(LongPacket { state: state.clone(), bytes }))
    }
}

impl Drop for LongPacket {
    fn drop(&mut self) {
        self.state.long_packets.release(self.bytes);
    }
}

/// The room that a long text in work takes, given back when dropped. Without this bound a thousand clients that each send
/// half a megabyte of rows would take twenty gigabytes.
pub struct LongText {
    state: Arc<ServerState>,
    bytes: u64,
}

impl LongText {
    /// Waits for room for `text`; none is needed where it is short. `stays_text` says that its rows become no tree.
    pub fn admit(state: &Arc<ServerState>, text: &[u8], stays_text: bool) -> Option<LongText> {
        if text.len() <= LONG_TEXT {
            return None;
        }
        let share = if stays_text { ROWS_SHARE } else { 1 };
        let bytes = (text.len() as u64 / share).min(LONG_TEXTS_MAX);
        state.long_texts.acquire(bytes, WaitEvent::Queue);
        Some(LongText { state: state.clone(), bytes })
    }
}

impl Drop for LongText {
    fn drop(&mut self) {
        self.state.long_texts.release(self.bytes);
    }
}

impl ServerState {
    /// The state of a server that starts over `engine`.
    pub fn new(engine: Arc<Engine>, globals: Globals) -> ServerState {
        ServerState {
            engine,
            globals,
            registry: Registry::default(),
            counters: Counters::new(),
            timeouts: Arc::new(Timeouts::new()),
            started: time::now(),
            stop_requested: Event::default(),
            long_texts: Semaphore::new(LONG_TEXTS_MAX),
            long_packets: Semaphore::new(LONG_PACKETS_MAX),
            stage: Mutex::default(),
            database: OnceLock::new(),
            next_connection: AtomicU64::new(1),
            next_query: AtomicU64::new(1),
            most_connections: AtomicU64::new(0),
            status_flushed: AtomicU64::new(0),
        }
    }

    /// Gives the state its databases, once.
    pub fn set_database(&self, database: Arc<Database>) {
        assert!(self.database.set(database).is_ok(), "the databases are opened once");
    }

    /// All databases; opened before anybody connects.
    #[inline]
    pub fn database(&self) -> &Arc<Database> {
        self.database.get().expect("the databases are open")
    }

    /// A number for a new connection.
    pub fn next_connection(&self) -> u64 {
        self.next_connection.fetch_add(1, Ordering::Relaxed)
    }

    /// A number for a statement that shows its number.
    pub fn next_query(&self) -> u64 {
        self.next_query.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes how many are connected now.
    pub fn note_connections(&self, count: u64) {
        self.most_connections.fetch_max(count, Ordering::Relaxed);
    }

    /// The most connections there have been at once.
    pub fn most_connections(&self) -> u64 {
        self.most_connections.load(Ordering::Relaxed)
    }

    /// FLUSH STATUS: the most connections are those of now.
    pub fn flush_status(&self) {
        self.most_connections.store(self.registry.len() as u64, Ordering::Relaxed);
        self.status_flushed.store(self.uptime(), Ordering::Relaxed);
    }

    /// Seconds since the last FLUSH STATUS, or the start.
    pub fn since_flush_status(&self) -> u64 {
        self.uptime() - self.status_flushed.load(Ordering::Relaxed)
    }

    /// Seconds since the start.
    pub fn uptime(&self) -> u64 {
        self.started.elapsed().as_secs()
    }
}
