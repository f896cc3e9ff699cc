//! New connections: number, limit, greeting.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, OnceLock, Weak};

use keel_base::{SqlError, errors};
use keel_context::admission::{LongValues, Operators};
use keel_exec::{Host, Session};
use keel_runtime::net::{ConnHandle, Connection, Peer, Service};
use keel_runtime::system;
use keel_settings::variables::{SessionSettings, apply};
use keel_storage::Owner;
use keel_value::collation;
use keel_views::counters::{Counter, SessionCounters};
use keel_views::registry::{Activity, Client};
use keel_wire::capability::{Capabilities, Status};
use keel_wire::handshake::{Greeting, VERSION_PREFIX};
use keel_wire::{auth, packet, reply};
use parking_lot::Mutex;

use crate::core::Core;
use crate::hosts;
use crate::prepared::Statements;
use crate::session::ClientSession;
use crate::state::{ServerState, VERSION};

/// Makes a session of each connection.
pub struct SqlService {
    /// What the sessions share.
    pub state: Arc<ServerState>,
    /// The server as the executor sees it.
    pub host: Arc<dyn Host>,
}

impl SqlService {
    fn session(&self, conn: &Connection, settings: SessionSettings) -> ClientSession {
        let names = peer_names(&conn.peer(), &self.state);
        let core = self.core("unauthenticated user", names, Some(conn.handle()), settings);
        ClientSession::new(core, &conn.peer())
    }

    /// A session of the server itself.
    pub(crate) fn core_of_server(&self, (user, host): (&str, &str)) -> Core {
        let settings = SessionSettings::new(self.state.globals.all());
        self.core(user, (host.into(), host.into()), None, settings)
    }

    fn core(
        &self,
        user: &str,
        (name, shown): (String, String),
        handle: Option<ConnHandle>,
        settings: SessionSettings,
    ) -> Core {
        let id = self.state.next_connection();
        let mut sql = Session::new(id, user, &name, self.host.clone());
        apply::all(&mut sql.vars, &settings);
        if let Some(handle) = handle {
            sql.interrupt.set_peer(move || handle.is_ended());
        }
        let history = self.state.histories.clone();
        let client = Arc::new_cyclic(|client: &Weak<Client>| Client {
            id,
            owner: Owner::new(client.clone()),
            tables: AtomicU32::new(0),
            host: shown.into(),
            interrupt: sql.interrupt.clone(),
            running: sql.running.clone(),
            handle,
            activity: Mutex::new(Activity::connecting(history)),
            counters: SessionCounters::default(),
            settings: Mutex::new(settings),
            tls: OnceLock::new(),
            compressed: AtomicBool::new(false),
        });
        sql.owner = Some(client.owner.clone());
        let values = Arc::new(LongValues::new(self.state.long_packets.clone(), id, sql.interrupt.clone()));
        sql.long_values = Some(values.clone());
        let owner = client.owner.clone();
        let urgent = Box::new(move || owner.is_locking());
        let room = self.state.operators.clone();
        sql.operators = Some(Arc::new(Operators::new(room, id, sql.interrupt.clone(), urgent)));
        client.owner.set_admission(Box::new(move |bytes, owner| values.admit(bytes, || owner.is_locking())));
        self.state.registry.add(client.clone());
        Core {
            state: self.state.clone(),
            client,
            sql,
            capabilities: Capabilities::default(),
            trimmed_names: Vec::new(),
            changes: Vec::new(),
            statements: Statements::default(),
            text_rooms: Vec::new(),
            limited: None,
            tally: Default::default(),
            database_dropped: false,
            keeps_warnings: false,
        }
    }
}

/// The client's host as accounts name it, and as the process list shows it.
fn peer_names(peer: &Peer, state: &ServerState) -> (String, String) {
    match peer {
        Peer::Unix => ("localhost".into(), "localhost".into()),
        Peer::Tcp(address) => {
            // The one name that is known without looking it up.
            let is_named = address.ip().is_loopback() && !state.globals.named("skip_name_resolve").is_on();
            let host = if is_named { "localhost".to_string() } else { address.ip().to_string() };
            let shown = format!("{host}:{}", address.port());
            (host, shown)
        }
    }
}

/// The address that patterns of hosts are compared with.
pub fn address_of(peer: &Peer) -> Option<IpAddr> {
    match peer {
        Peer::Tcp(address) => Some(address.ip().to_canonical()),
        Peer::Unix => None,
    }
}

impl Service for SqlService {
    type Session = ClientSession;

    fn connected(&self, conn: &mut Connection) -> Option<ClientSession> {
        let state = &self.state;
        state.counters.add(Counter::Connections, 1);
        let settings = SessionSettings::new(state.globals.all());
        let max = connections_max(state, settings.named("max_connections").as_u64());
        let count = state.registry.len() as u64;
        if count > max {
            state.counters.add(Counter::ErrorsMaxConnections, 1);
            return refuse(conn, &errors::con_count_error());
        }
        let (host, _) = peer_names(&conn.peer(), &self.state);
        if is_blocked(&conn.peer(), state, &settings) {
            state.counters.add(Counter::AbortedConnects, 1);
            return refuse(conn, &errors::host_is_blocked(&host));
        }
        if !state.database().catalog().accounts.knows_host(&host, address_of(&conn.peer())) {
            state.counters.add(Counter::AbortedConnects, 1);
            return refuse(conn, &errors::host_not_privileged(&host));
        }
        state.note_connections(count + 1);
        let collation = collation::by_name(settings.named("collation_server").as_text());
        // Half a packet counts as no answer: each packet of the handshake must be whole in time.
        let timeout = connect_timeout(&settings);
        conn.set_idle_timeout(Some(timeout));
        conn.set_read_timeout(Some(timeout));
        conn.set_write_timeout(Some(timeout));
        let mut session = self.session(conn, settings);
        let mut capabilities = Capabilities::SERVER;
        capabilities.set(Capabilities::SSL, state.tls.files().is_some());
        let greeting = Greeting {
            version: format!("{VERSION_PREFIX}{VERSION}"),
            connection_id: session.id() as u32,
            scramble: *session.scramble(),
            capabilities,
            collation: collation.map_or(45, |c| c.0 as u8),
            status: Status::AUTOCOMMIT,
            plugin: auth::NATIVE_PASSWORD.to_string(),
        };
        let out = conn.output();
        let start = packet::begin(out);
        greeting.encode(out);
        packet::finish(out, start, session.sequence());
        if conn.flush().is_err() {
            keel_runtime::net::Session::closed(&mut session);
            return None;
        }
        Some(session)
    }
}

/// Whether too many handshakes with the address of a peer have failed.
fn is_blocked(peer: &Peer, state: &ServerState, settings: &SessionSettings) -> bool {
    let failures = hosts::counted(peer, state).map_or(0, |address| state.failed_hosts.count(address));
    failures > 0 && failures >= settings.named("max_connect_errors").as_u64()
}

/// Sends an error in place of the greeting. The connection closes whether or not the client reads it.
#[cold]
fn refuse(conn: &mut Connection, error: &SqlError) -> Option<ClientSession> {
    reply::append_err(conn.output(), error, Capabilities::default(), &mut 0);
    let _ = conn.flush();
    None
}

/// How many connections there may be: as many as are wished, as far as the process may open files.
pub fn connections_max(state: &ServerState, configured: u64) -> u64 {
    configured.min(keel_settings::descriptors::room_for_connections(
        system::descriptors_max(),
        state.engine.files_max(),
    ))
}

fn connect_timeout(settings: &SessionSettings) -> std::time::Duration {
    std::time::Duration::from_secs(settings.named("connect_timeout").as_u64().max(1))
}
