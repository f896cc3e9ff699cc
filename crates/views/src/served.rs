//! The parts of a server that views read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use keel_context::admission::Room;
use keel_database::Database;
use keel_logs::Logs;
use keel_runtime::heap;
use keel_runtime::time::{self, Instant};
use keel_settings::budget::{Budget, MemoryLimit};
use keel_settings::options::lines::Given;
use keel_settings::variables::Globals;
use keel_storage::Engine;
use keel_tls::Tls;
use parking_lot::Mutex;

use crate::counters::Counters;
use crate::monitor::deadlocks::Deadlocks;
use crate::monitor::figures::LastReport;
use crate::monitor::foreign::LastForeignKeyError;
use crate::monitor::names::Names;
use crate::registry::Registry;

/// The version that `VERSION()` and the greeting give, behind the greeting's prefix.
pub const VERSION: &str = "10.11.19-MariaDB-keel";

/// The parts of a server that views read.
pub struct Served {
    /// The storage engine.
    pub engine: Arc<Engine>,
    /// Global variables.
    pub globals: Globals,
    /// The limit of memory.
    pub memory: MemoryLimit,
    /// Admission of the trees and plans of long texts, in bytes of text.
    pub long_texts: Room,
    /// Admission of long packets.
    pub long_packets: Room,
    /// Admission of operators.
    pub operators: Room,
    /// Connections.
    pub registry: Registry,
    /// Counters of the server.
    pub counters: Counters,
    /// The latest deadlocks.
    pub deadlocks: Deadlocks,
    /// The last statement that failed because of a foreign key.
    pub foreign_key_error: LastForeignKeyError,
    /// Names of trees.
    pub names: Names,
    /// The engine's counts at its last report.
    pub last_report: Mutex<LastReport>,
    /// The general, slow and error log.
    pub logs: Logs,
    /// Encryption of connections.
    pub tls: Tls,
    /// When the server started.
    pub started: Instant,
    database: OnceLock<Arc<Database>>,
    given: OnceLock<Vec<Given>>,
    cut_reports: AtomicU64,
    next_query: AtomicU64,
    most_connections: AtomicU64,
    /// Seconds from the start to the last FLUSH STATUS.
    status_flushed: AtomicU64,
}

impl Served {
    /// The parts of a server that starts over `engine`. The databases and the options follow.
    pub fn new(engine: Arc<Engine>, globals: Globals, memory: MemoryLimit, tls: Tls, logs: Logs) -> Served {
        let [long_texts, long_packets, operators] = Room::together();
        Served {
            engine,
            globals,
            memory,
            long_texts,
            long_packets,
            operators,
            registry: Registry::default(),
            counters: Counters::new(),
            deadlocks: Deadlocks::default(),
            foreign_key_error: LastForeignKeyError::default(),
            names: Names::default(),
            last_report: Mutex::default(),
            logs,
            tls,
            started: time::now(),
            database: OnceLock::new(),
            given: OnceLock::new(),
            cut_reports: AtomicU64::new(0),
            next_query: AtomicU64::new(1),
            most_connections: AtomicU64::new(0),
            status_flushed: AtomicU64::new(0),
        }
    }

    /// Sets the databases, once.
    pub fn set_database(&self, database: Arc<Database>) {
        assert!(self.database.set(database).is_ok(), "the databases are opened once");
    }

    /// Notes the options of the start, once.
    pub fn set_given(&self, given: Vec<Given>) {
        assert!(self.given.set(given).is_ok(), "a server is started once");
    }

    /// The options of the start.
    pub fn given(&self) -> &[Given] {
        self.given.get().map_or(&[], Vec::as_slice)
    }

    /// All databases. They are opened before the first connection.
    #[inline]
    pub fn database(&self) -> &Arc<Database> {
        self.database.get().expect("the databases are open")
    }

    /// A number for a statement whose number is shown.
    pub fn next_query(&self) -> u64 {
        self.next_query.fetch_add(1, Ordering::Relaxed)
    }

    /// Notes the number of connections.
    pub fn note_connections(&self, count: u64) {
        self.most_connections.fetch_max(count, Ordering::Relaxed);
    }

    /// The largest number of connections so far.
    pub fn most_connections(&self) -> u64 {
        self.most_connections.load(Ordering::Relaxed)
    }

    /// Counts a report of the engine that was too long to list all transactions.
    pub fn note_cut_report(&self) {
        self.cut_reports.fetch_add(1, Ordering::Relaxed);
    }

    /// Reports of the engine that were too long to list all transactions.
    pub fn cut_reports(&self) -> u64 {
        self.cut_reports.load(Ordering::Relaxed)
    }

    /// FLUSH STATUS: the maximum of connections restarts at the current number.
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

    /// The division of memory at this moment.
    pub fn budget(&self) -> Budget {
        self.memory.budget(self.engine.pool_bytes())
    }

    /// Bytes of the pool that hold pages.
    pub fn pool_used_bytes(&self) -> u64 {
        self.engine.pool_bytes().saturating_sub(self.engine.pool_bytes_free())
    }

    /// Bytes of the `used` bytes of the process that are neither pages of the pool nor allocated: the allocator holds them,
    /// or they are stacks and static data. 0 without a counting allocator.
    pub fn unused_bytes(&self, used: u64) -> u64 {
        match heap::allocated_bytes() {
            0 => 0,
            allocated => used.saturating_sub(allocated + self.pool_used_bytes()),
        }
    }
}
