//! What all sessions of a server share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use hashbrown::HashMap;
use keel_database::Database;
use keel_query::admission::Room;
use keel_query::catalog::TableDef;
use keel_runtime::sync::{Event, Semaphore};
use keel_runtime::time::{self, Instant};
use keel_storage::Engine;
use keel_value::Value;
use parking_lot::Mutex;

use crate::counters::Counters;
use crate::memory::Keeper;
use crate::monitor::deadlocks::Deadlocks;
use crate::monitor::figures::LastReport;
use crate::monitor::foreign::LastForeignKeyError;
use crate::monitor::history;
use crate::monitor::names::Names;
use crate::registry::Registry;
use crate::session::digests::Digests;
use crate::timeouts::Timeouts;
use crate::usage::Usage;
use keel_logs::Logs;
use keel_settings::options::lines::Given;
use keel_settings::variables::Globals;
use keel_settings::variables::key_caches::KeyCaches;
use keel_tls::Tls;

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
    /// Who divides the memory.
    pub keeper: Keeper,
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
    /// Room for the trees and plans of long texts, in bytes of text.
    pub long_texts: Room,
    /// Room for packets that are long.
    pub long_packets: Room,
    /// Room for operators of statements.
    pub operators: Room,
    /// The deadlocks of late.
    pub deadlocks: Deadlocks,
    /// The last statement that failed for a foreign key.
    pub foreign_key_error: LastForeignKeyError,
    /// What the trees of tables are called.
    pub names: Names,
    /// Room for the statements of open transactions.
    pub histories: Arc<history::Room>,
    /// What the engine had counted when it last reported.
    pub last_report: Mutex<LastReport>,
    /// Rows put up for the executor while SHOW ... WHERE runs, by name; one per session at most.
    pub stage: Mutex<HashMap<String, Staged>>,
    /// What accounts with limits have used.
    pub usage: Usage,
    /// The general, slow and error log.
    pub logs: Logs,
    /// How connections are encrypted.
    pub tls: Tls,
    /// Settings of key caches by name.
    pub key_caches: KeyCaches,
    /// Digests of passwords that have been proven.
    pub digests: Digests,
    /// Passwords that may be proven by thousands of rounds at once.
    pub proofs: Semaphore,
    database: OnceLock<Arc<Database>>,
    /// What the server was started with.
    given: OnceLock<Vec<Given>>,
    cut_reports: AtomicU64,
    next_connection: AtomicU64,
    next_query: AtomicU64,
    /// The most connections there have been at once.
    most_connections: AtomicU64,
    /// Seconds from the start to the last FLUSH STATUS.
    status_flushed: AtomicU64,
}

impl ServerState {
    /// The state of a server that starts over `engine`; its keeper says later who gets how much memory.
    pub fn new(engine: Arc<Engine>, globals: Globals, keeper: Keeper, tls: Tls, logs: Logs) -> ServerState {
        let [long_texts, long_packets, operators] = Room::together();
        ServerState {
            engine,
            globals,
            keeper,
            registry: Registry::default(),
            counters: Counters::new(),
            timeouts: Arc::new(Timeouts::new()),
            started: time::now(),
            stop_requested: Event::default(),
            long_texts,
            long_packets,
            operators,
            deadlocks: Deadlocks::default(),
            foreign_key_error: LastForeignKeyError::default(),
            names: Names::default(),
            histories: Arc::default(),
            last_report: Mutex::default(),
            stage: Mutex::default(),
            usage: Usage::default(),
            logs,
            tls,
            key_caches: KeyCaches::default(),
            digests: Digests::default(),
            proofs: Semaphore::new(2),
            database: OnceLock::new(),
            given: OnceLock::new(),
            cut_reports: AtomicU64::new(0),
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

    /// Notes what the server was started with, once.
    pub fn set_given(&self, given: Vec<Given>) {
        assert!(self.given.set(given).is_ok(), "a server is started once");
    }

    /// What the server was started with.
    pub fn given(&self) -> &[Given] {
        self.given.get().map_or(&[], Vec::as_slice)
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

    /// Counts a report of the engine that had no room for all transactions.
    pub fn note_cut_report(&self) {
        self.cut_reports.fetch_add(1, Ordering::Relaxed);
    }

    /// Reports of the engine that had no room for all transactions.
    pub fn cut_reports(&self) -> u64 {
        self.cut_reports.load(Ordering::Relaxed)
    }

    /// FLUSH STATUS: the most connections are those of now.
    pub fn flush_status(&self) {
        self.most_connections.store(self.registry.len() as u64, Ordering::Relaxed);
        self.status_flushed.store(self.uptime(), Ordering::Relaxed);
    }

    /// Seconds since the last FLUSH STATUS, or the start.
    pub fn since_flush_status(&self) -> u64 {
        self.uptime().saturating_sub(self.status_flushed.load(Ordering::Relaxed))
    }

    /// Seconds since the start.
    pub fn uptime(&self) -> u64 {
        self.started.elapsed().as_secs()
    }
}
