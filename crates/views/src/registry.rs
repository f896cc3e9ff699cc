//! The connections: what SHOW PROCESSLIST shows and KILL ends.
//!
//! Each connection shares one [`Client`] with the registry. The session publishes what it runs under the client's own lock.
//! Only readers of the process list take that lock too.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, OnceLock};

use keel_exec::{Interrupt, InterruptState, Running, Session};
use keel_runtime::fiber::{self, Fiber};
use keel_runtime::net::ConnHandle;
use keel_runtime::time::{self, Instant};
use keel_settings::variables::SessionSettings;
use keel_storage::{Isolation, Owner};
use keel_tls::Acceptor;
use keel_tls::layer::{Established, TlsSession};
use keel_value::Value;
use parking_lot::Mutex;

use crate::counters::SessionCounters;
use crate::monitor::history::{self, History};

/// The published state of a connection.
pub struct Client {
    /// Connection id.
    pub id: u64,
    /// The client's address, as SHOW PROCESSLIST prints it.
    pub host: Arc<str>,
    /// Interrupts its statement or ends the connection.
    pub interrupt: Arc<Interrupt>,
    /// The running plan, for SHOW EXPLAIN.
    pub running: Arc<Running>,
    /// The owner of its transactions in the engine.
    pub owner: Arc<Owner>,
    /// Tables that the running statement has open.
    pub tables: AtomicU32,
    /// Closes its socket; `None` for an internal session.
    pub handle: Option<ConnHandle>,
    /// Its command and transaction.
    pub activity: Mutex<Activity>,
    /// Its counters.
    pub counters: SessionCounters,
    /// Its system variables.
    pub settings: Mutex<SessionSettings>,
    /// Its TLS state, once the client has requested TLS.
    pub tls: OnceLock<Arc<TlsSession>>,
    /// Its packets are compressed.
    pub compressed: AtomicBool,
}

/// The current command and transaction of a connection.
pub struct Activity {
    /// Account name; `unauthenticated user` until it is known.
    pub user: Arc<str>,
    /// The account's user, once it is known.
    pub account: Option<Arc<str>>,
    /// The default database.
    pub database: Option<Arc<str>>,
    /// The command, as SHOW PROCESSLIST names it.
    pub command: &'static str,
    /// When the command began.
    pub since: Instant,
    /// The number of the command, assigned when a view first shows it; 0 before.
    pub number: u64,
    /// The first [`TEXT_BYTES_MAX`] bytes of the statement; empty while idle.
    pub text: Vec<u8>,
    /// The values of its parameters, if it was prepared and may take locks.
    pub parameters: Vec<u8>,
    /// The running statement is a transaction of its own.
    pub is_autocommit: bool,
    /// The fiber that runs the command; `None` while idle.
    pub fiber: Option<Fiber>,
    /// The transaction that was open when the last command ended.
    pub transaction: Option<OpenTransaction>,
    /// The statements of that transaction.
    pub history: History,
}

/// The open transaction of a session.
#[derive(Debug, Clone, Copy)]
pub struct OpenTransaction {
    /// Its number within the session.
    pub number: u64,
    /// When its first statement began.
    pub began: Instant,
    /// Its isolation level.
    pub isolation: Isolation,
    /// READ ONLY.
    pub read_only: bool,
}

/// The maximum length of a statement in the process list, in bytes.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;

/// The part of a statement that the process list shows.
pub fn shown_text(text: &[u8]) -> &[u8] {
    &text[..text.len().min(TEXT_BYTES_MAX)]
}

/// A longer buffer is freed when a statement ends.
const TEXT_BYTES_KEPT: usize = 512;

impl Activity {
    /// A connection before authentication.
    pub fn connecting(room: Arc<history::Room>) -> Activity {
        Activity {
            user: "unauthenticated user".into(),
            account: None,
            database: None,
            command: "Connect",
            since: time::now(),
            number: 0,
            text: Vec::new(),
            parameters: Vec::new(),
            is_autocommit: false,
            fiber: None,
            transaction: None,
            history: History::new(room),
        }
    }

    /// Notes a command and its statement.
    #[inline]
    pub fn begin(&mut self, command: &'static str, text: &[u8], now: Instant) {
        self.command = command;
        self.since = now;
        self.number = 0;
        self.fiber = Some(fiber::current());
        self.show(text);
    }

    /// Notes the statement that runs.
    #[inline]
    pub fn show(&mut self, text: &[u8]) {
        self.text.clear();
        self.text.extend_from_slice(shown_text(text));
    }

    /// The number of the command; `next` assigns one if it has none.
    pub fn number(&mut self, next: impl FnOnce() -> u64) -> u64 {
        if self.number == 0 {
            self.number = next();
        }
        self.number
    }

    /// Notes a prepared statement that runs, with the values of its parameters if it may take locks.
    #[inline]
    pub fn show_prepared(&mut self, text: &[u8], changes_rows: bool, values: &[Value]) {
        self.show(text);
        if !self.is_autocommit || changes_rows {
            self.note_parameters(values);
        }
    }

    /// Notes the values of the running statement's parameters.
    pub fn note_parameters(&mut self, values: &[Value]) {
        history::append_parameters(values, &mut self.parameters);
    }

    /// When the open transaction began; without one, when the running statement began.
    pub fn transaction_began(&self) -> Instant {
        self.transaction.map_or(self.since, |open| open.began)
    }

    /// Notes the end of the command and the open transaction, if any; `is_statement` says that the command was a statement of
    /// that transaction.
    #[inline]
    pub fn end_in(&mut self, open: Option<(u64, Isolation, bool)>, is_statement: bool) {
        match open {
            None => {
                self.transaction = None;
                self.history.clear();
            }
            Some((number, isolation, read_only)) => {
                // The command may have ended one and begun the next.
                if self.transaction.take_if(|before| before.number != number).is_some() {
                    self.history.clear();
                }
                let began = self.transaction_began();
                self.transaction = Some(OpenTransaction { number, began, isolation, read_only });
                if is_statement && !self.text.is_empty() {
                    self.history.push(self.since, &self.text, &self.parameters);
                }
            }
        }
        self.end();
    }

    /// Notes that the command has ended.
    #[inline]
    pub fn end(&mut self) {
        self.command = "Sleep";
        self.fiber = None;
        self.text.clear();
        self.parameters.clear();
        if self.text.capacity() > TEXT_BYTES_KEPT {
            self.text = Vec::new();
        }
    }
}

impl Client {
    /// The certificate and the result of the handshake; `None` without TLS.
    pub fn encryption(&self) -> Option<(&Acceptor, &Established)> {
        let session = self.tls.get()?;
        Some((&session.acceptor, session.established()?))
    }

    /// Whether the connection belongs to the user of `session`.
    pub fn is_own_of(&self, session: &Session) -> bool {
        self.id == session.id || self.activity.lock().account.as_deref() == Some(&*session.access.user)
    }

    /// KILL QUERY.
    pub fn kill_query(&self) {
        self.interrupt.raise(InterruptState::Query);
    }

    /// KILL CONNECTION.
    pub fn kill(&self) {
        self.activity.lock().command = "Killed";
        // First the connection: the statement that is woken would answer on it.
        self.interrupt.raise_after(InterruptState::Connection, || {
            if let Some(handle) = &self.handle {
                handle.shutdown();
            }
        });
    }

    /// Whether KILL CONNECTION has ended the connection.
    pub fn is_killed(&self) -> bool {
        self.interrupt.state() == InterruptState::Connection
    }
}

/// All connections by id.
#[derive(Default)]
pub struct Registry {
    clients: Mutex<BTreeMap<u64, Arc<Client>>>,
}

impl Registry {
    /// Adds a connection.
    pub fn add(&self, client: Arc<Client>) {
        self.clients.lock().insert(client.id, client);
    }

    /// Removes a connection.
    pub fn remove(&self, id: u64) {
        self.clients.lock().remove(&id);
    }

    /// The connection of that id.
    pub fn get(&self, id: u64) -> Option<Arc<Client>> {
        self.clients.lock().get(&id).cloned()
    }

    /// The connection whose running or last command has that number.
    pub fn with_query(&self, number: u64) -> Option<Arc<Client>> {
        let clients = self.clients.lock();
        clients.values().find(|client| number != 0 && client.activity.lock().number == number).cloned()
    }

    /// All connections, by id.
    pub fn all(&self) -> Vec<Arc<Client>> {
        self.clients.lock().values().cloned().collect()
    }

    /// The number of connections.
    pub fn len(&self) -> usize {
        self.clients.lock().len()
    }

    /// Whether there are no connections.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
