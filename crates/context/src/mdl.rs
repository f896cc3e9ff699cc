//! Metadata locks: statements share a table, definitions own it.
//!
//! Each table name has a [`TableLock`]. A statement takes it shared before it looks at the trees and, in a transaction,
//! keeps it to the end; DDL takes it exclusively and so waits for all of them, and they for it. While it only reads rows and
//! fills new trees, it leaves the table to them ([`Owned::lower`]); other DDL waits.
//!
//! 1. The word counts sharers, and among them writers; its top bit says that the queue is to be asked: somebody owns or awaits
//!    the lock exclusively, or keeps writers out. DDL has its turn, and sharers pay one atomic addition.
//! 2. Waiters that ask for the whole lock come before those that ask for less, as in MariaDB; among equals the queue is
//!    first come, first served. Sharers are let in past waiters that do not wait for them.
//! 3. Waits end by KILL, by `lock_wait_timeout` (1205), and soon after the client has gone.
//! 4. Who waits for an exclusive lock, or to keep writers out, holds no lock of another table for long: definitions
//!    take several in order of their places in memory, and let go of all when the next one is not there soon; so does LOCK
//!    TABLES where trying alone did not help. Rings that remain are found when they close ([`crate::waits`]). Those that
//!    also pass through row locks are not; but who awaits a lock exclusively lets those behind it pass from time to
//!    time (`PATIENCE`), which breaks every ring, and keeps one forgotten transaction from blocking a table for all.
//!    Each time it waits longer, so transactions of any length end.
//!
//! Nothing of this survives a crash.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use keel_base::{SqlResult, errors};
use keel_storage::runtime::fiber;
use keel_storage::runtime::time;
use keel_storage::runtime::wait::WaitEvent;
use parking_lot::Mutex;

use crate::interrupt::{Interrupt, InterruptState, interrupted};
use crate::waits::{Claim, Contender};

const SLOW: u64 = 1 << 63;
/// What a sharer that writes adds to the word beyond one.
const WRITER: u64 = 1 << 32;
const SHARERS: u64 = WRITER - 1;

fn share_of(writes: bool) -> u64 {
    if writes { 1 + WRITER } else { 1 }
}

/// How long an exclusive waiter holds up the sharers behind it before it first lets them pass; doubled each time until
/// the longest.
const PATIENCE: Duration = Duration::from_millis(200);
const PATIENCE_MAX: Duration = Duration::from_secs(5);
/// How often a waiter looks whether its client is still there: nobody would take back what it keeps from others.
const PEER_LOOK: Duration = Duration::from_millis(500);

/// The lock of one table name. A line of the cache of its own, since every statement counts itself in `word`.
#[repr(align(64))]
pub struct TableLock {
    /// What a waiter is seen to wait for.
    event: WaitEvent,
    /// Sharers, writers among them in units of [`WRITER`], and [`SLOW`] while `queue` is not empty.
    word: AtomicU64,
    queue: Mutex<Queue>,
}

/// What the definition that holds a lock leaves to others.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Hold {
    /// None holds it.
    #[default]
    Free,
    /// Nothing.
    All,
    /// They may read.
    Writing,
    /// They may read and write.
    Altering,
}

#[derive(Default)]
struct Queue {
    hold: Hold,
    /// Holders of LOCK TABLES ... READ.
    refusals: usize,
    waiters: VecDeque<Waiter>,
    next_ticket: u64,
}

impl Queue {
    /// Moves the last waiter before those that ask for less than the whole lock.
    fn move_last_before_sharers(&mut self) {
        let Some(last) = self.waiters.pop_back() else { return };
        let is_before = |waiter: &Waiter| waiter.kind.is_exclusive() || waiter.claim.is_granted();
        let exclusive = self.waiters.iter().rposition(is_before);
        let place = exclusive.map_or(0, |place| place + 1);
        self.waiters.insert(place, last);
        for waiter in self.waiters.iter().skip(place) {
            waiter.claim.set_place(self.next_ticket);
            self.next_ticket += 1;
        }
    }
}

struct Waiter {
    ticket: u64,
    kind: Kind,
    claim: Arc<Claim>,
}

/// What is waited for, or kept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A share, to read.
    Read,
    /// A share, to write.
    Write,
    /// To write where the waiter shares already.
    Upgrade,
    /// That nobody writes.
    Refuse,
    /// All of it.
    Own,
    /// All of it again, where the waiter has lowered its hold.
    Regain,
}

impl Kind {
    /// A share.
    pub fn of_share(writes: bool) -> Kind {
        if writes { Kind::Write } else { Kind::Read }
    }

    /// Whether it cannot be granted while another keeps the lock so.
    pub fn conflicts_with(self, held: Kind) -> bool {
        match self {
            Kind::Read => held == Kind::Own,
            Kind::Write | Kind::Upgrade => matches!(held, Kind::Own | Kind::Refuse),
            Kind::Refuse => matches!(held, Kind::Own | Kind::Write | Kind::Upgrade),
            Kind::Own | Kind::Regain => true,
        }
    }

    /// Whether it ends with the whole lock in the waiter's hands.
    fn is_exclusive(self) -> bool {
        matches!(self, Kind::Own | Kind::Regain)
    }

    /// Whether it is not granted past a waiter of that kind.
    pub fn queues_behind(self, before: Kind) -> bool {
        match self {
            // It shares the lock already: whoever waits to own it waits for this one.
            Kind::Upgrade => false,
            // Whoever waits before it cannot be helped by its waiting, and holds nothing of the lock.
            Kind::Regain => false,
            Kind::Read => before.is_exclusive(),
            Kind::Write => before.is_exclusive() || before == Kind::Refuse,
            Kind::Refuse => before.is_exclusive() || matches!(before, Kind::Write | Kind::Upgrade),
            Kind::Own => before != Kind::Read,
        }
    }
}

impl Default for TableLock {
    fn default() -> TableLock {
        TableLock::new(WaitEvent::MetadataLock)
    }
}

impl TableLock {
    /// A free one; who waits for it is shown to wait for `event`.
    pub fn new(event: WaitEvent) -> TableLock {
        TableLock { event, word: AtomicU64::new(0), queue: Mutex::default() }
    }

    /// What a waiter is seen to wait for.
    pub fn event(&self) -> WaitEvent {
        self.event
    }

    /// Takes it shared if nobody owns or awaits it exclusively.
    #[inline]
    pub fn try_share(&self, writes: bool) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & SLOW == 0 {
            match self.word.compare_exchange_weak(
                word,
                word + share_of(writes),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Makes a reader's share a writer's where nobody keeps writers out and nobody waits.
    pub fn try_become_writer(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & SLOW == 0 {
            match self.word.compare_exchange_weak(word, word + WRITER, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }

    /// Keeps writers out if none is in and nobody waits.
    pub fn try_refuse_writers(&self) -> bool {
        let mut queue = self.queue.lock();
        if queue.hold == Hold::All || !queue.waiters.is_empty() {
            return false;
        }
        let word = self.word.fetch_or(SLOW, Ordering::AcqRel) & !SLOW;
        let free = word / WRITER == 0;
        queue.refusals += usize::from(free);
        self.grant(&mut queue);
        free
    }

    /// Lets writers in again.
    pub fn admit_writers(&self) {
        let mut queue = self.queue.lock();
        queue.refusals -= 1;
        self.grant(&mut queue);
    }

    /// Gives a shared lock back.
    #[inline]
    pub fn unshare(&self, writes: bool) {
        let before = self.word.fetch_sub(share_of(writes), Ordering::Release);
        if before & SLOW != 0 {
            self.grant(&mut self.queue.lock());
        }
    }

    /// Takes it exclusively if nobody uses it.
    pub fn try_own(&self) -> bool {
        let mut queue = self.queue.lock();
        if queue.hold != Hold::Free || queue.refusals > 0 || !queue.waiters.is_empty() {
            return false;
        }
        if self.word.compare_exchange(0, SLOW, Ordering::AcqRel, Ordering::Relaxed).is_err() {
            return false;
        }
        queue.hold = Hold::All;
        true
    }

    /// Gives an exclusive lock back, lowered or not.
    pub fn disown(&self) {
        self.hold(Hold::Free);
    }

    /// Whether the definition that holds it leaves others only reading.
    fn is_kept_from_writers(&self) -> bool {
        self.queue.lock().hold == Hold::Writing
    }

    /// Changes what the definition that holds the lock leaves to others, to more than before.
    fn hold(&self, hold: Hold) {
        let mut queue = self.queue.lock();
        queue.hold = hold;
        self.grant(&mut queue);
    }

    /// Enters the queue, of which [`TableLock::await_grant`] is the end; it may be granted at once.
    pub fn ask(&self, kind: Kind, claim: Arc<Claim>) -> u64 {
        let mut queue = self.queue.lock();
        self.word.fetch_or(SLOW, Ordering::AcqRel);
        let ticket = queue.next_ticket;
        queue.next_ticket += 1;
        claim.set_place(ticket);
        queue.waiters.push_back(Waiter { ticket, kind, claim });
        if kind == Kind::Own {
            queue.move_last_before_sharers();
        }
        self.grant(&mut queue);
        ticket
    }

    /// Waits until what was asked for is granted; on an error the request is gone.
    pub fn await_grant(
        &self,
        ticket: u64,
        kind: Kind,
        claim: &Claim,
        interrupt: &Interrupt,
        timeout: Duration,
    ) -> SqlResult<()> {
        let began = time::now();
        let deadline = began + timeout;
        let mut patience = PATIENCE;
        let mut look = if kind.is_exclusive() { deadline.min(began + patience) } else { deadline };
        interrupt.woken_during(|| {
            loop {
                if self.take_grant(ticket) {
                    return Ok(());
                }
                if interrupt.state() != InterruptState::None {
                    return self.give_up(ticket, || interrupted(interrupt.state()));
                }
                if claim.is_victim() {
                    return self.give_up(ticket, errors::lock_deadlock);
                }
                let until = look.min(time::now() + PEER_LOOK);
                if fiber::park_until(self.event, until) {
                    continue;
                }
                if interrupt.is_peer_gone() {
                    return self.give_up(ticket, errors::lock_wait_timeout);
                }
                if until < look {
                    continue;
                }
                if look >= deadline {
                    return self.give_up(ticket, errors::lock_wait_timeout);
                }
                self.let_pass(ticket);
                patience = (patience * 2).min(PATIENCE_MAX);
                look = deadline.min(time::now() + patience);
            }
        })
    }

    fn take_grant(&self, ticket: u64) -> bool {
        let mut queue = self.queue.lock();
        let place =
            queue.waiters.iter().position(|w| w.ticket == ticket).expect("a waiter stays until it leaves");
        if queue.waiters[place].claim.is_granted() {
            queue.waiters.remove(place);
            self.grant(&mut queue);
            return true;
        }
        false
    }

    /// Lets the sharers behind it pass that can be let in now.
    fn let_pass(&self, ticket: u64) {
        let mut queue = self.queue.lock();
        let place =
            queue.waiters.iter().position(|w| w.ticket == ticket).expect("a waiter stays until it leaves");
        let sharers_wait = queue.waiters.iter().skip(place).any(|w| !w.kind.is_exclusive());
        if queue.waiters[place].claim.is_granted() || !sharers_wait {
            return;
        }
        let waiter = queue.waiters.remove(place).expect("just found");
        let kind = waiter.kind;
        waiter.claim.set_place(queue.next_ticket);
        queue.next_ticket += 1;
        queue.waiters.push_back(waiter);
        self.grant(&mut queue);
        // Sharers that could not be let in wait behind it again.
        let is_last = queue.waiters.back().is_some_and(|last| !last.claim.is_granted());
        if kind == Kind::Own && is_last {
            queue.move_last_before_sharers();
        }
    }

    /// Leaves the queue, unless the lock was granted at the last moment.
    fn give_up(&self, ticket: u64, error: impl FnOnce() -> keel_base::SqlError) -> SqlResult<()> {
        let mut queue = self.queue.lock();
        let place =
            queue.waiters.iter().position(|w| w.ticket == ticket).expect("a waiter stays until it leaves");
        let waiter = queue.waiters.remove(place).expect("just found");
        waiter.claim.leave();
        self.grant(&mut queue);
        if waiter.claim.is_granted() { Ok(()) } else { Err(error()) }
    }

    /// Grants in order what can be granted, and leaves the fast path open where nothing is left.
    fn grant(&self, queue: &mut Queue) {
        let Queue { hold, refusals, waiters, .. } = queue;
        // Who waits before the one looked at.
        let (mut owner_waits, mut refusal_waits, mut writer_waits) = (false, false, false);
        for waiter in waiters.iter_mut().filter(|waiter| !waiter.claim.is_granted()) {
            let word = self.word.load(Ordering::Acquire) & !SLOW;
            let (sharers, writers) = (word & SHARERS, word / WRITER);
            let may_write = *hold != Hold::Writing && *refusals == 0;
            let free = *hold != Hold::All
                && match waiter.kind {
                    Kind::Read => !owner_waits,
                    Kind::Write => may_write && !owner_waits && !refusal_waits,
                    // It shares the lock already: whoever waits to own it waits for this one.
                    Kind::Upgrade => may_write,
                    Kind::Refuse => writers == 0 && !owner_waits && !writer_waits,
                    Kind::Own => {
                        let before = owner_waits || refusal_waits || writer_waits;
                        *hold == Hold::Free && sharers == 0 && *refusals == 0 && !before
                    }
                    Kind::Regain => sharers == 0 && *refusals == 0,
                };
            if !free {
                // Behind a definition that leaves the table to others the next one waits alone.
                owner_waits |= match waiter.kind {
                    Kind::Own => matches!(hold, Hold::Free | Hold::All),
                    kind => kind == Kind::Regain,
                };
                refusal_waits |= waiter.kind == Kind::Refuse;
                writer_waits |= matches!(waiter.kind, Kind::Write | Kind::Upgrade);
                continue;
            }
            match waiter.kind {
                Kind::Read => _ = self.word.fetch_add(share_of(false), Ordering::AcqRel),
                Kind::Write => _ = self.word.fetch_add(share_of(true), Ordering::AcqRel),
                Kind::Upgrade => _ = self.word.fetch_add(WRITER, Ordering::AcqRel),
                Kind::Refuse => *refusals += 1,
                Kind::Own | Kind::Regain => *hold = Hold::All,
            }
            waiter.claim.grant();
        }
        let is_open = matches!(hold, Hold::Free | Hold::Altering);
        if is_open && *refusals == 0 && waiters.is_empty() {
            self.word.fetch_and(!SLOW, Ordering::AcqRel);
        }
    }
}

/// Exclusive locks that a definition holds while it works; given back when dropped.
#[derive(Default)]
pub struct Owned {
    locks: Vec<Arc<TableLock>>,
}

impl Owned {
    /// Whether it is none.
    pub fn is_empty(&self) -> bool {
        self.locks.is_empty()
    }

    /// How many they are.
    pub fn len(&self) -> usize {
        self.locks.len()
    }

    /// They.
    pub fn locks(&self) -> &[Arc<TableLock>] {
        &self.locks
    }

    /// Leaves the tables to others, until [`Owned::regain`], to read or also to write; other definitions wait.
    pub fn lower(&self, may_write: bool) {
        let hold = if may_write { Hold::Altering } else { Hold::Writing };
        self.locks.iter().for_each(|lock| lock.hold(hold));
    }

    /// Takes the tables back for itself after [`Owned::lower`]: waits for all who use them. Where that fails, they are as
    /// before.
    pub fn regain(&self, session: &impl Contender, timeout: Duration) -> SqlResult<()> {
        // Who reads now and wants to write waits for this one, which waits for him.
        let kept: Vec<_> = self.locks.iter().map(|lock| (lock.clone(), Kind::Refuse)).collect();
        let waits = session.waits();
        self.locks.iter().try_for_each(|lock| {
            let stake = || {
                let mut stake = session.stake();
                stake.kept.extend(kept.iter().filter(|(lock, _)| lock.is_kept_from_writers()).cloned());
                stake
            };
            waits.take(lock, Kind::Regain, stake, session.interrupt(), timeout)
        })
    }

    /// Takes one more; the same lock twice is taken once. Waits.
    pub fn take(
        &mut self,
        lock: &Arc<TableLock>,
        session: &impl Contender,
        timeout: Duration,
    ) -> SqlResult<()> {
        if !self.locks.iter().any(|held| Arc::ptr_eq(held, lock)) {
            session.wait_for(lock, Kind::Own, timeout)?;
            self.locks.push(lock.clone());
            // Others wait for the table now: its statement does not wait for those who wait.
            if let Some(owner) = session.owner() {
                owner.set_has_locks(true);
            }
        }
        Ok(())
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.locks.iter().for_each(|lock| lock.disown());
    }
}
