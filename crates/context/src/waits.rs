//! Who waits for whom: tables' metadata locks, LOCK TABLES, the global read lock, GET_LOCK().
//!
//! Who has to wait for one of these locks, and may wait for long, is written down with what it keeps. The wait that closes a
//! ring finds it at once, and one of the ring hears 1213: as in MariaDB rather one that uses tables than one that wants a lock
//! for itself or to write at all, rather that one than LOCK TABLES ... READ, and among equals the one that closed the ring. Before
//! all others the global read lock gives way, where it keeps no name of GET_LOCK(), and begins again.
//!
//! 1. A wait stands in the lock's queue before it stands here, and the search runs under the list's mutex: of a ring's
//!    waits the last to come sees all others.
//! 2. A wait that was granted and not yet taken, or has left the lock's queue, is no part of a ring. One that times out while
//!    a ring through it is broken may have made that unnecessary.
//! 3. Waits for rows are not seen here: a ring that passes through one ends by a time-out, as in MariaDB, or because whoever
//!    waits to own a table lets others pass (`mdl`).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use keel_base::SqlResult;
use keel_storage::Owner;
use keel_storage::runtime::fiber::{self, Fiber};
use keel_storage::runtime::time::{self, Instant};
use keel_storage::runtime::wait::WaitEvent;
use parking_lot::Mutex;

use crate::interrupt::Interrupt;
use crate::mdl::{Kind, TableLock};

/// What a session brings into a wait.
#[derive(Default)]
pub struct Stake {
    /// Who it is.
    pub owner: Option<Arc<Owner>>,
    /// What it keeps meanwhile, and how.
    pub kept: Vec<(Arc<TableLock>, Kind)>,
    /// Others of its ring end first: it is LOCK TABLES ... READ.
    pub firm: bool,
}

/// A session that takes locks which are not those of rows.
pub trait Contender {
    /// Where the waits of its server are written down.
    fn waits(&self) -> &Waits;

    /// What it keeps while it waits.
    fn stake(&self) -> Stake;

    /// What ends its waits from outside.
    fn interrupt(&self) -> &Interrupt;

    /// Who it is to others that wait for rows.
    fn owner(&self) -> Option<&Arc<Owner>>;

    /// Takes a lock; waits. 1213 where that closes a ring.
    fn wait_for(&self, lock: &Arc<TableLock>, kind: Kind, timeout: Duration) -> SqlResult<()> {
        self.waits().take(lock, kind, || self.stake(), self.interrupt(), timeout)
    }
}

/// A wait's state, shared by the waiter, the lock's queue and those that look for rings.
pub struct Claim {
    fiber: Fiber,
    granted: AtomicBool,
    victim: AtomicBool,
    /// It has left the lock's queue without the lock.
    left: AtomicBool,
    /// Its place in the lock's queue: less is earlier.
    place: AtomicU64,
}

impl Claim {
    /// Of the calling fiber.
    pub fn of_current_fiber() -> Claim {
        Claim {
            fiber: fiber::current(),
            granted: AtomicBool::new(false),
            victim: AtomicBool::new(false),
            left: AtomicBool::new(false),
            place: AtomicU64::new(0),
        }
    }

    /// Gives the waiter what it waits for.
    pub fn grant(&self) {
        self.granted.store(true, Ordering::Release);
        self.fiber.wake();
    }

    /// Whether it has been granted.
    pub fn is_granted(&self) -> bool {
        self.granted.load(Ordering::Acquire)
    }

    /// Says that it waits no more; under the queue's mutex.
    pub fn leave(&self) {
        self.left.store(true, Ordering::Release);
    }

    /// Gives it a place in the queue; under its mutex.
    pub fn set_place(&self, place: u64) {
        self.place.store(place, Ordering::Release);
    }

    fn place(&self) -> u64 {
        self.place.load(Ordering::Acquire)
    }

    /// Whether it waits, and is not to end.
    fn waits(&self) -> bool {
        !self.is_granted() && !self.is_victim() && !self.left.load(Ordering::Acquire)
    }

    /// Whether it was chosen to end a ring.
    pub fn is_victim(&self) -> bool {
        self.victim.load(Ordering::Acquire)
    }

    /// Chooses the waiter to end a ring; it hears of that when it is woken.
    fn make_victim(&self) {
        self.victim.store(true, Ordering::Release);
    }
}

/// One wait.
struct Waiting {
    stake: Stake,
    wanted: Arc<TableLock>,
    kind: Kind,
    since: Instant,
    claim: Arc<Claim>,
}

impl Waiting {
    /// The lock of `other` that this waits for, and how `other` has it; asks for it, where it only stands before this one.
    fn waits_for(&self, other: &Waiting) -> Option<RingLock> {
        let kept = other
            .stake
            .kept
            .iter()
            .find(|(lock, held)| Arc::ptr_eq(lock, &self.wanted) && self.kind.conflicts_with(*held));
        let stands_before = || {
            Arc::ptr_eq(&other.wanted, &self.wanted)
                && other.claim.place() < self.claim.place()
                && self.kind.queues_behind(other.kind)
        };
        match kept {
            Some((lock, held)) => Some(RingLock { lock: lock.clone(), kind: *held, granted: true }),
            None if stands_before() => Some(other.asked()),
            None => None,
        }
    }

    fn asked(&self) -> RingLock {
        RingLock { lock: self.wanted.clone(), kind: self.kind, granted: false }
    }

    /// How little it harms to end it, as MariaDB judges that: the lowest is the victim. The global read lock begins again; with
    /// a name of GET_LOCK in the same hands that would end as before.
    fn weight(&self) -> u8 {
        let keeps_name = || self.stake.kept.iter().any(|(lock, _)| lock.event() == WaitEvent::UserLock);
        match (self.wanted.event(), self.kind) {
            (WaitEvent::BackupLock, Kind::Refuse) if !keeps_name() => 0,
            (WaitEvent::MetadataLock, Kind::Read | Kind::Write | Kind::Upgrade) => 1,
            _ if self.stake.firm => 3,
            _ => 2,
        }
    }
}

/// A lock of a ring.
#[derive(Clone)]
pub struct RingLock {
    /// The lock that is waited for.
    pub lock: Arc<TableLock>,
    kind: Kind,
    /// Held, not asked for.
    pub granted: bool,
}

impl RingLock {
    /// Its mode in MariaDB's words.
    pub fn mode(&self) -> &'static str {
        match (self.lock.event(), self.kind) {
            (WaitEvent::BackupLock, Kind::Refuse) => "BACKUP_FTWRL",
            (WaitEvent::BackupLock, _) => "BACKUP_DML",
            (_, Kind::Read) => "SHARED_READ",
            (_, Kind::Write | Kind::Upgrade) => "SHARED_WRITE",
            (_, Kind::Refuse) => "SHARED_READ_ONLY",
            (_, Kind::Own | Kind::Regain) => "EXCLUSIVE",
        }
    }
}

/// A session of a ring.
#[derive(Clone)]
pub struct RingParty {
    /// Who it is.
    pub owner: Option<Arc<Owner>>,
    /// Since when it waits.
    pub since: Instant,
    /// What it waits for.
    pub waits_for: RingLock,
    /// Its lock for which the one before it waits.
    pub holds: RingLock,
}

/// Who wants to know of rings: all parties, each waiting for the next, the last for the first, whose wait closed the ring;
/// and which of them ends. All still wait.
pub trait RingLog: Send + Sync {
    /// Tells of one.
    fn ring(&self, parties: &[RingParty], victim: usize);
}

/// Who waits in a ring, each with its lock for which the one before waits.
type Ring = Vec<(Arc<Waiting>, RingLock)>;

/// The waits of a server.
#[derive(Default)]
pub struct Waits {
    list: Mutex<Vec<Arc<Waiting>>>,
    log: OnceLock<Arc<dyn RingLog>>,
}

impl Waits {
    /// Has all rings told to `log`; once.
    pub fn set_log(&self, log: Arc<dyn RingLog>) {
        assert!(self.log.set(log).is_ok(), "there is one log of rings");
    }

    /// Takes a lock; waits. 1213 where the wait would never end, or another's that this one is chosen to end.
    pub fn take(
        &self,
        wanted: &Arc<TableLock>,
        kind: Kind,
        stake: impl FnOnce() -> Stake,
        interrupt: &Interrupt,
        timeout: Duration,
    ) -> SqlResult<()> {
        let claim = Arc::new(Claim::of_current_fiber());
        let ticket = wanted.ask(kind, claim.clone());
        // Who does not wait closes no ring.
        if claim.is_granted() || timeout.is_zero() {
            return wanted.await_grant(ticket, kind, &claim, interrupt, timeout);
        }
        let (wanted, since) = (wanted.clone(), time::now());
        let own = Arc::new(Waiting { stake: stake(), wanted, kind, since, claim });
        self.list.lock().push(own.clone());
        self.break_rings(&own);
        let result = own.wanted.await_grant(ticket, kind, &own.claim, interrupt, timeout);
        self.list.lock().retain(|other| !Arc::ptr_eq(other, &own));
        result
    }

    /// Ends every ring through `own`.
    fn break_rings(&self, own: &Arc<Waiting>) {
        while let Some((ring, victim)) = self.break_ring(own) {
            if let Some(log) = self.log.get() {
                let party = |(waiting, holds): &(Arc<Waiting>, RingLock)| RingParty {
                    owner: waiting.stake.owner.clone(),
                    since: waiting.since,
                    waits_for: waiting.asked(),
                    holds: holds.clone(),
                };
                let parties: Vec<RingParty> = ring.iter().map(party).collect();
                log.ring(&parties, victim);
            }
            ring[victim].0.claim.fiber.wake();
        }
    }

    /// Chooses who ends a ring through `own`; under one lock with the search, so that a ring that two close at once has one
    /// victim.
    fn break_ring(&self, own: &Arc<Waiting>) -> Option<(Ring, usize)> {
        let list = self.list.lock();
        let ring = find_ring(&list, own)?;
        let victim = (0..ring.len()).min_by_key(|place| ring[*place].0.weight()).unwrap_or(0);
        ring[victim].0.claim.make_victim();
        Some((ring, victim))
    }
}

/// The members of a ring of waits through `own`, `own` first, each with its lock for which the one before waits.
fn find_ring(list: &[Arc<Waiting>], own: &Arc<Waiting>) -> Option<Ring> {
    let still: Vec<&Arc<Waiting>> = list.iter().filter(|waiting| waiting.claim.waits()).collect();
    let start = still.iter().position(|waiting| Arc::ptr_eq(waiting, own))?;
    // For each that was reached: from whom.
    let mut from: Vec<Option<usize>> = vec![None; still.len()];
    let mut reached = vec![start];
    let mut next = 0;
    while let Some(&place) = reached.get(next) {
        next += 1;
        for (other, waiting) in still.iter().enumerate() {
            let is_new = other != place && from[other].is_none();
            if !is_new || still[place].waits_for(waiting).is_none() {
                continue;
            }
            from[other] = Some(place);
            if other == start {
                return Some(trace(&still, &from, start));
            }
            reached.push(other);
        }
    }
    None
}

fn trace(still: &[&Arc<Waiting>], from: &[Option<usize>], start: usize) -> Ring {
    let mut ring = Vec::new();
    let mut place = start;
    while let Some(before) = from[place] {
        if let Some(holds) = still[before].waits_for(still[place]) {
            ring.push((still[place].clone(), holds));
        }
        place = before;
        if place == start {
            break;
        }
    }
    // From the last back to the second: the first is in its place.
    ring[1..].reverse();
    ring
}
