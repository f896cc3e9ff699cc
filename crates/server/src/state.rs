//! The state that all sessions of a server share.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use keel_catalog::TableDef;
use keel_runtime::sync::{Event, Semaphore};
use keel_settings::variables::key_caches::KeyCaches;
use keel_value::Value;
use keel_views::Served;
use keel_views::monitor::history;
use parking_lot::Mutex;

use crate::hosts::FailedHosts;
use crate::memory::Keeper;
use crate::session::digests::Digests;
use crate::timeouts::Timeouts;
use crate::usage::Usage;

pub use keel_views::VERSION;

/// A virtual table with its rows, for the executor.
pub type Staged = (Arc<TableDef>, Vec<Vec<Value>>);

/// The shared state of a server. It dereferences to [`Served`], the part that views read.
pub struct ServerState {
    /// What views read.
    pub served: Served,
    /// The keeper of memory.
    pub keeper: Keeper,
    /// Statements with a time limit.
    pub timeouts: Arc<Timeouts>,
    /// Raised by a request to stop the server.
    pub stop_requested: Event,
    /// Memory for the statements of open transactions.
    pub histories: Arc<history::Room>,
    /// Rows for the executor while SHOW ... WHERE runs, by name; at most one entry for each session.
    pub stage: Mutex<HashMap<String, Staged>>,
    /// Uses of accounts with limits.
    pub usage: Usage,
    /// Settings of key caches by name.
    pub key_caches: KeyCaches,
    /// Digests of passwords that have been proven.
    pub digests: Digests,
    /// Bounds the number of password proofs that run at once: each takes thousands of rounds.
    pub proofs: Semaphore,
    /// Client addresses with failed handshakes.
    pub failed_hosts: FailedHosts,
    next_connection: AtomicU64,
}

impl Deref for ServerState {
    type Target = Served;

    #[inline]
    fn deref(&self) -> &Served {
        &self.served
    }
}

impl AsRef<Served> for ServerState {
    fn as_ref(&self) -> &Served {
        &self.served
    }
}

impl ServerState {
    /// The state of a server that starts. [`Keeper::apply`] sets the bounds of memory later.
    pub fn new(served: Served) -> ServerState {
        ServerState {
            served,
            keeper: Keeper::default(),
            timeouts: Arc::new(Timeouts::new()),
            stop_requested: Event::default(),
            histories: Arc::default(),
            stage: Mutex::default(),
            usage: Usage::default(),
            key_caches: KeyCaches::default(),
            digests: Digests::default(),
            proofs: Semaphore::new(2),
            failed_hosts: FailedHosts::default(),
            next_connection: AtomicU64::new(1),
        }
    }

    /// A number for a new connection.
    pub fn next_connection(&self) -> u64 {
        self.next_connection.fetch_add(1, Ordering::Relaxed)
    }
}
