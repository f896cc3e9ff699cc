//! The latest deadlocks: every party with its locks and statements.
//!
//! A deadlock is described while all its parties wait, so their locks and statements are complete. The last
//! [`DEADLOCKS_MAX`] are kept in memory, fewer if they exceed [`BYTES_MAX`]; the oldest are removed first.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use keel_context::waits::{RingLock, RingLog, RingParty};
use keel_logs::secrets::{hidden, hidden_values};
use keel_runtime::time;
use keel_storage::{self as storage, DeadlockLog, DeadlockParty, TrxInfo};
use parking_lot::Mutex;

use super::history::{Statement, TEXT_BYTES_MAX, beginning};
use super::names::LockText;
use super::text;
use super::transactions::{self, Session};
use crate::Served;
use crate::registry::{Activity, Client};

/// The maximum number of kept deadlocks.
pub const DEADLOCKS_MAX: usize = 10_000;
/// The maximum size of all kept deadlocks in bytes.
pub const BYTES_MAX: usize = 32 << 20;

/// A deadlock that was found.
#[derive(Debug)]
pub struct Deadlock {
    /// Its number, from 1.
    pub number: u64,
    /// When it was found, microseconds since 1970.
    pub at: i64,
    /// Its parties. Each waits for the next one, the last one for the first; the wait of the first closed the cycle.
    pub parties: Box<[Party]>,
    /// The position of the party that was rolled back.
    pub victim: usize,
    /// The amount of detail in texts.
    pub told: Told,
}

/// The amount of detail about a deadlock in the report and the error log: `innodb_deadlock_report` when it was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// Nothing.
    Nothing,
    /// The transactions and what they wait for.
    Waits,
    /// Also the locks that block them.
    Conflicts,
}

impl Told {
    fn now(state: &Served) -> Told {
        match state.globals.named("innodb_deadlock_report").show().as_str() {
            "off" => Told::Nothing,
            "basic" => Told::Waits,
            _ => Told::Conflicts,
        }
    }
}

/// A transaction of a deadlock.
#[derive(Debug)]
pub struct Party {
    /// The session; `None` for a transaction without an owner.
    pub session: Option<Session>,
    /// Its number ([`keel_storage::TrxInfo::number`]).
    pub trx: u64,
    /// When it began, microseconds since 1970.
    pub started: i64,
    /// Its isolation level.
    pub isolation: storage::Isolation,
    /// Rows changed.
    pub rows_changed: u64,
    /// Row locks in the lock table.
    pub row_locks: u64,
    /// The number of locks.
    pub locks: u64,
    /// Tables with locks or changes.
    pub tables: u64,
    /// The size of its locks in memory.
    pub lock_bytes: u64,
    /// The lock that it waits for.
    pub waits_for: LockText,
    /// When the wait began, microseconds since 1970.
    pub waits_since: i64,
    /// Its lock that blocks the previous party.
    pub holds: LockText,
    /// Its statements; the last is the one that waits.
    pub statements: Box<[Statement]>,
    /// When each of them began, microseconds since 1970.
    pub begun: Box<[i64]>,
    /// The number of earlier statements that were not kept.
    pub lost: u64,
}

/// The latest deadlocks.
#[derive(Default)]
pub struct Deadlocks {
    kept: Mutex<KeptDeadlock>,
}

#[derive(Default)]
struct KeptDeadlock {
    list: VecDeque<Arc<Deadlock>>,
    bytes: usize,
    count: u64,
}

impl Deadlocks {
    /// All kept deadlocks, the oldest first.
    pub fn all(&self) -> Vec<Arc<Deadlock>> {
        self.kept.lock().list.iter().cloned().collect()
    }

    /// The last deadlock.
    pub fn last(&self) -> Option<Arc<Deadlock>> {
        self.kept.lock().list.back().cloned()
    }

    /// The last deadlock that texts show.
    pub fn last_told(&self) -> Option<Arc<Deadlock>> {
        self.kept.lock().list.iter().rev().find(|deadlock| deadlock.is_told()).cloned()
    }

    /// Its size in memory.
    pub fn bytes(&self) -> usize {
        self.kept.lock().bytes
    }

    fn keep(&self, mut deadlock: Deadlock) -> Arc<Deadlock> {
        let mut kept = self.kept.lock();
        kept.count += 1;
        deadlock.number = kept.count;
        kept.bytes += deadlock.bytes();
        let deadlock = Arc::new(deadlock);
        kept.list.push_back(deadlock.clone());
        while kept.list.len() > DEADLOCKS_MAX || kept.bytes > BYTES_MAX && kept.list.len() > 1 {
            let oldest = kept.list.pop_front();
            kept.bytes -= oldest.map_or(0, |oldest| oldest.bytes());
        }
        deadlock
    }
}

impl Deadlock {
    /// The connection whose wait closed the cycle; 0 for none.
    pub fn finder(&self) -> u64 {
        self.parties[0].session.as_ref().map_or(0, |session| session.id)
    }

    /// Whether texts show it: InnoDB's texts cover only locks of tables and rows.
    fn is_told(&self) -> bool {
        self.told != Told::Nothing && self.parties.iter().all(|party| party.waits_for.other_mode.is_none())
    }

    fn bytes(&self) -> usize {
        size_of::<Deadlock>() + self.parties.iter().map(Party::bytes).sum::<usize>()
    }
}

impl Party {
    fn bytes(&self) -> usize {
        let of_statement =
            |s: &Statement| size_of::<Statement>() + size_of::<i64>() + s.text.len() + s.parameters.len();
        let statements: usize = self.statements.iter().map(of_statement).sum();
        let names = self.session.as_ref().map_or(0, Session::bytes);
        size_of::<Party>() + names + statements + self.waits_for.bytes() + self.holds.bytes()
    }
}

/// Records the deadlocks that the engine and the table locks find. `S` is the state of the server, which holds the
/// [`Served`].
pub struct Watch<S> {
    state: Weak<S>,
}

impl<S: AsRef<Served> + Send + Sync + 'static> Watch<S> {
    /// Registers a watch with the engine and the table locks of a server.
    pub fn start(state: &Arc<S>) {
        let watch = Arc::new(Watch { state: Arc::downgrade(state) });
        let served = (**state).as_ref();
        served.engine.set_deadlock_log(watch.clone());
        served.database().host().user_locks().waits().set_log(watch);
    }
}

impl<S: AsRef<Served> + Send + Sync + 'static> DeadlockLog for Watch<S> {
    fn describe(&self, deadlock: &storage::Deadlock) -> Box<dyn FnOnce() + '_> {
        let Some(state) = self.state.upgrade() else { return Box::new(|| {}) };
        let served = (*state).as_ref();
        let parties = deadlock.parties.iter().map(|party| describe(served, party)).collect();
        let (at, told) = (time::unix_micros(), Told::now(served));
        let found = Deadlock { number: 0, at, parties, victim: deadlock.victim, told };
        Box::new(move || {
            let served = (*state).as_ref();
            let found = served.deadlocks.keep(found);
            if found.is_told() && served.globals.named("innodb_print_all_deadlocks").is_on() {
                served.logs.asked(found.finder(), |note| text::deadlock_notes(&found, note));
            }
        })
    }
}

impl<S: AsRef<Served> + Send + Sync + 'static> RingLog for Watch<S> {
    fn ring(&self, parties: &[RingParty], victim: usize) {
        let Some(state) = self.state.upgrade() else { return };
        let served = (*state).as_ref();
        let parties = parties.iter().map(|party| describe_waiter(served, party)).collect();
        let (at, told) = (time::unix_micros(), Told::now(served));
        served.deadlocks.keep(Deadlock { number: 0, at, parties, victim, told });
    }
}

fn describe(state: &Served, party: &DeadlockParty) -> Party {
    let trx = &party.trx;
    let client = transactions::client_of(trx);
    let waits_for = trx.wait.as_ref().map_or(&party.holds, |wait| &wait.lock);
    let (waits_for, holds) = (LockText::of(state, waits_for), LockText::of(state, &party.holds));
    let waits_since = trx.wait.as_ref().map_or(0, |wait| transactions::unix_of(wait.since));
    let mut told = Party::without_transaction(waits_for, holds, waits_since);
    told.add_transaction(state, trx);
    if let Some(client) = client {
        add_story(&mut told, &client);
    }
    told
}

/// Describes a session that waits for a lock other than a row lock.
fn describe_waiter(state: &Served, party: &RingParty) -> Party {
    let text = |lock: &RingLock| LockText::of_thing(&state.database().locked_thing(lock), lock);
    let waits_since = transactions::unix_of(party.since);
    let mut told = Party::without_transaction(text(&party.waits_for), text(&party.holds), waits_since);
    let Some(owner) = &party.owner else { return told };
    if let Some(trx) = state.engine.transaction_of(owner) {
        told.add_transaction(state, &trx);
    }
    if let Some(client) = owner.who().and_then(|who| who.downcast::<Client>().ok()) {
        add_story(&mut told, &client);
    }
    told
}

impl Party {
    fn without_transaction(waits_for: LockText, holds: LockText, waits_since: i64) -> Party {
        Party {
            session: None,
            trx: 0,
            started: waits_since,
            isolation: storage::Isolation::RepeatableRead,
            rows_changed: 0,
            row_locks: 0,
            locks: 0,
            tables: 0,
            lock_bytes: 0,
            waits_for,
            waits_since,
            holds,
            statements: Box::default(),
            begun: Box::default(),
            lost: 0,
        }
    }

    fn add_transaction(&mut self, state: &Served, trx: &TrxInfo) {
        self.trx = trx.number;
        self.isolation = trx.isolation;
        self.rows_changed = trx.rows_changed;
        self.row_locks = trx.row_locks;
        self.locks = trx.locks;
        self.tables = transactions::table_count(state, &trx.trees);
        self.lock_bytes = trx.lock_bytes;
    }
}

/// Adds the session and the statements of a party.
fn add_story(told: &mut Party, client: &Client) {
    let activity = client.activity.lock();
    told.session = Some(Session::of(client, &activity));
    told.started = transactions::unix_of(activity.transaction_began());
    told.lost = activity.history.lost();
    let statements: Vec<Statement> = activity.history.statements().chain(running(&activity)).collect();
    told.begun = statements.iter().map(|statement| transactions::unix_of(statement.since)).collect();
    told.statements = statements.into();
}

/// The running statement.
pub fn running(activity: &Activity) -> Option<Statement> {
    (!activity.text.is_empty()).then(|| Statement {
        since: activity.since,
        text: beginning(&hidden(&activity.text), TEXT_BYTES_MAX).into(),
        text_len: activity.text.len() as u64,
        parameters: hidden_values(&activity.text, &activity.parameters).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deadlock(text_bytes: usize) -> Deadlock {
        let lock = LockText {
            table: "`a`.`b`".into(),
            index: "PRIMARY".into(),
            tree: 7,
            kind: storage::LockKind::Row,
            mode: storage::LockMode::Exclusive,
            waits: false,
            data: "1".into(),
            fields: Box::default(),
            other_mode: None,
        };
        let statement = Statement {
            since: time::now(),
            text: vec![b'x'; text_bytes].into(),
            text_len: text_bytes as u64,
            parameters: Box::default(),
        };
        let mut party = Party::without_transaction(lock.clone(), lock, 0);
        party.statements = [statement].into();
        party.begun = [0].into();
        Deadlock { number: 0, at: 0, parties: [party].into(), victim: 0, told: Told::Conflicts }
    }

    #[test]
    fn the_last_ten_thousand_are_kept() {
        let deadlocks = Deadlocks::default();
        (0..DEADLOCKS_MAX + 100).for_each(|_| drop(deadlocks.keep(deadlock(50))));
        let all = deadlocks.all();
        assert_eq!((all.len(), all[0].number), (DEADLOCKS_MAX, 101));
        assert_eq!(deadlocks.last().unwrap().number, DEADLOCKS_MAX as u64 + 100);
    }

    #[test]
    fn they_take_no_more_than_their_bytes() {
        let deadlocks = Deadlocks::default();
        let one = deadlock(1 << 20).bytes();
        (0..100).for_each(|_| drop(deadlocks.keep(deadlock(1 << 20))));
        assert_eq!(deadlocks.all().len(), BYTES_MAX / one);
        assert_eq!(deadlocks.bytes(), one * (BYTES_MAX / one));
        (0..2000).for_each(|_| drop(deadlocks.keep(deadlock(10))));
        assert!(deadlocks.bytes() <= BYTES_MAX);
    }
}
