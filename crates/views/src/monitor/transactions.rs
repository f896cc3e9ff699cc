//! The open transactions: the data of the engine with the session that owns each.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use keel_base::TreeId;
use keel_logs::secrets::hidden;
use keel_runtime::time::{self, Instant};
use keel_storage::{Engine, Isolation, TrxInfo, Who};

use super::history::beginning;
use crate::Served;
use crate::counters::Counter;
use crate::registry::{Activity, Client};
use crate::show::admin::state_of;

/// The maximum number of shown transactions without an owner.
const ORPHANS_MAX: usize = 1000;

/// The session that owns a transaction.
#[derive(Debug, Clone)]
pub struct Session {
    /// Connection id.
    pub id: u64,
    /// Number of the running or last statement among those of its connection.
    pub query: u64,
    /// Account name.
    pub user: Arc<str>,
    /// The client's address.
    pub host: Arc<str>,
    /// The default database.
    pub database: Option<Arc<str>>,
    /// Its state, as the process list shows it.
    pub state: &'static str,
}

impl Session {
    /// The current data of a connection.
    pub fn of(client: &Client, activity: &Activity) -> Session {
        Session {
            id: client.id,
            query: client.counters.get(Counter::Queries),
            user: activity.user.clone(),
            host: client.host.clone(),
            database: activity.database.clone(),
            state: state_of(activity),
        }
    }

    /// The size of its names in bytes.
    pub fn bytes(&self) -> usize {
        self.user.len() + self.host.len() + self.database.as_ref().map_or(0, |name| name.len())
    }
}

/// An open transaction.
pub struct Open {
    /// Its session; `None` after recovery or the loss of the session.
    pub session: Option<Session>,
    /// The connection itself.
    pub client: Option<Arc<Client>>,
    /// When it began.
    pub began: Instant,
    /// Its locks and changes, if it has any.
    pub locking: Option<TrxInfo>,
    /// Whether it holds a snapshot.
    pub is_reading: bool,
    /// Its isolation level.
    pub isolation: Isolation,
    /// READ ONLY.
    pub read_only: bool,
    /// It is one statement, and ends with it.
    pub is_autocommit: bool,
    /// The running statement.
    pub text: Option<Box<[u8]>>,
    /// Tables that the running statement has open.
    pub tables: u64,
}

impl Open {
    /// Its number in INNODB_TRX: 0 if it has neither locked nor written.
    pub fn number(&self) -> u64 {
        self.locking.as_ref().map_or(0, |trx| trx.number)
    }

    /// Its name in INNODB_TRX.
    pub fn state(&self) -> &'static str {
        match &self.locking {
            Some(trx) if trx.rolling_back => "ROLLING BACK",
            Some(trx) if trx.wait.is_some() => "LOCK WAIT",
            _ => "RUNNING",
        }
    }
}

/// The maximum length of a shown statement, in bytes.
const SHOWN_MAX: usize = 4096;

/// The session that has a transaction.
pub fn client_of(trx: &TrxInfo) -> Option<Arc<Client>> {
    let who: Arc<Who> = trx.who()?;
    who.downcast::<Client>().ok()
}

/// A time as microseconds since 1970.
pub fn unix_of(moment: Instant) -> i64 {
    time::unix_micros() - moment.elapsed().as_micros() as i64
}

/// The number of tables that own the trees.
pub fn table_count(state: &Served, trees: &[TreeId]) -> u64 {
    let mut tables: Vec<u64> =
        trees.iter().filter_map(|tree| state.names.owner(state, *tree)).map(|owner| owner.table.id).collect();
    tables.sort_unstable();
    tables.dedup();
    tables.len() as u64
}

/// All open transactions: the newest connection first, transactions without an owner last.
pub fn open(state: &Served) -> Vec<Open> {
    let clients = state.registry.all();
    let mut found: Vec<Open> =
        clients.into_iter().rev().filter_map(|client| of_client(&state.engine, client)).collect();
    found.extend(state.engine.transactions(ORPHANS_MAX).into_iter().map(|trx| Open {
        session: None,
        client: None,
        began: state.started,
        isolation: trx.isolation,
        locking: Some(trx),
        is_reading: false,
        read_only: false,
        is_autocommit: false,
        text: None,
        tables: 0,
    }));
    found
}

/// The transaction of a connection, if it has locked, written or taken a snapshot.
pub fn of_client(engine: &Engine, client: Arc<Client>) -> Option<Open> {
    let is_reading = client.owner.is_reading();
    let locking = engine.transaction_of(&client.owner);
    if !is_reading && locking.is_none() {
        return None;
    }
    let activity = client.activity.lock();
    let known = activity.transaction;
    let by_setting = || isolation_of(client.settings.lock().named("tx_isolation").as_text());
    let isolation = locking.as_ref().map(|trx| trx.isolation).or(known.map(|open| open.isolation));
    let open = Open {
        session: Some(Session::of(&client, &activity)),
        began: activity.transaction_began(),
        is_reading,
        isolation: isolation.unwrap_or_else(by_setting),
        read_only: known.is_some_and(|open| open.read_only),
        is_autocommit: known.is_none() && activity.is_autocommit,
        text: (!activity.text.is_empty()).then(|| beginning(&hidden(&activity.text), SHOWN_MAX).into()),
        tables: u64::from(client.tables.load(Ordering::Relaxed)),
        locking,
        client: None,
    };
    drop(activity);
    Some(Open { client: Some(client), ..open })
}

fn isolation_of(name: &str) -> Isolation {
    match name {
        "READ-UNCOMMITTED" => Isolation::ReadUncommitted,
        "READ-COMMITTED" => Isolation::ReadCommitted,
        "SERIALIZABLE" => Isolation::Serializable,
        _ => Isolation::RepeatableRead,
    }
}

/// The name of a level in INNODB_TRX.
pub fn isolation_name(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::ReadUncommitted => "READ UNCOMMITTED",
        Isolation::ReadCommitted => "READ COMMITTED",
        Isolation::RepeatableRead => "REPEATABLE READ",
        Isolation::Serializable => "SERIALIZABLE",
    }
}
