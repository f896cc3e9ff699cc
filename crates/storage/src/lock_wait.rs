//! Waiting for a lock, and finding deadlocks at each wait.
//!
//! A transaction waits for one thing at a time. Its request stands in a queue before it waits, so of the transactions
//! of a cycle the last to enter sees the others waiting when it searches: no cycle goes unseen, and none needs to be
//! looked for again later. The search follows holders depth first; the victim is the lightest member of the cycle
//! ([`crate::weight`]), the searcher on a tie. Several may find the same cycle at once, so whoever has described it looks once more,
//! alone, before it chooses. Where nobody wants the search (`innodb_deadlock_detect=OFF`), a cycle lasts until the first of
//! its waits times out.
//!
//! The state decides races: granter, victim's finder, and the waiter that gives up each try to move it from WAITING,
//! and only one succeeds. A waiter that was not granted removes its request itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use keel_runtime::fiber::{self, Fiber};
use keel_runtime::time::{self, Instant};
use keel_runtime::wait::WaitEvent;
use parking_lot::Mutex;

use crate::admission::STUCK_AFTER;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::lock::{LockKey, LockTable};
use crate::lock_gap::TreeGaps;
use crate::options::{Interrupt, LockMode};
use crate::trx::TrxShared;

/// What a transaction waits for.
#[derive(Clone)]
pub(crate) enum WaitTarget {
    /// A row.
    Row {
        /// Its name.
        name: LockKey,
        /// How it is wanted.
        mode: LockMode,
    },
    /// Room to insert.
    Gap {
        /// In this tree.
        gaps: Arc<TreeGaps>,
        /// At this key.
        key: Box<[u8]>,
    },
}

const IDLE: u8 = 0;
const WAITING: u8 = 1;
const GRANTED: u8 = 2;
const VICTIM: u8 = 3;
const GIVEN_UP: u8 = 4;

/// The wait of one transaction.
#[derive(Default)]
pub(crate) struct WaitCell {
    state: AtomicU8,
    inner: Mutex<WaitInner>,
}

#[derive(Default)]
struct WaitInner {
    fiber: Option<Fiber>,
    target: Option<WaitTarget>,
    /// When it began.
    since: Instant,
}

impl WaitCell {
    /// Says what is about to be waited for; called before the request is visible.
    pub(crate) fn start(&self, target: WaitTarget) {
        let mut inner = self.inner.lock();
        inner.target = Some(target);
        inner.fiber = Some(fiber::current());
        inner.since = time::now();
        self.state.store(WAITING, Ordering::SeqCst);
    }

    fn leave(&self, to: u8) -> bool {
        self.state.compare_exchange(WAITING, to, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Grants what is waited for: `None` if the waiter has given up, else the fiber to wake.
    pub(crate) fn grant(&self) -> Option<Option<Fiber>> {
        self.leave(GRANTED).then(|| self.inner.lock().fiber)
    }

    /// Chooses the waiter as victim; false if it does not wait any more. It is not woken yet.
    fn make_victim(&self) -> bool {
        self.leave(VICTIM)
    }

    fn wake(&self) {
        if let Some(fiber) = self.inner.lock().fiber {
            fiber.wake();
        }
    }

    /// What is being waited for now.
    pub(crate) fn target(&self) -> Option<WaitTarget> {
        if self.state.load(Ordering::SeqCst) != WAITING {
            return None;
        }
        self.inner.lock().target.clone()
    }

    /// The same, and since when.
    pub(crate) fn target_since(&self) -> (Option<WaitTarget>, Instant) {
        let inner = self.inner.lock();
        let waits = self.state.load(Ordering::SeqCst) == WAITING;
        (inner.target.clone().filter(|_| waits), inner.since)
    }

    fn finish(&self) -> (u8, Option<WaitTarget>) {
        let mut inner = self.inner.lock();
        inner.fiber = None;
        (self.state.swap(IDLE, Ordering::SeqCst), inner.target.take())
    }
}

/// Counters of waiting, and the choice of victims.
#[derive(Default)]
pub(crate) struct WaitStats {
    /// Waits begun.
    pub(crate) waits: AtomicU64,
    /// Nanoseconds waited.
    pub(crate) nanos: AtomicU64,
    /// The longest wait.
    pub(crate) nanos_max: AtomicU64,
    /// Victims.
    pub(crate) deadlocks: AtomicU64,
    /// Waits that ended by their deadline.
    pub(crate) timeouts: AtomicU64,
    /// Held while a victim is chosen: all members of a ring may find it, and one victim is enough.
    choice: Mutex<()>,
}

/// Waits for what `me` has just been queued for. No latch may be held. On an error the request is gone.
pub(crate) fn wait(
    engine: &Engine,
    me: &Arc<TrxShared>,
    deadline: Instant,
    interrupt: &Interrupt,
) -> Result<()> {
    let (table, stats) = (&engine.locks, &engine.waits);
    let began = time::now();
    stats.waits.fetch_add(1, Ordering::Relaxed);
    engine.admission.wait_begins();
    interrupt.set_waiter(Some(fiber::current()));
    let (given_up, is_stuck) = wait_here(engine, me, began, deadline, interrupt);
    engine.admission.wait_ends(is_stuck);
    interrupt.set_waiter(None);
    let (state, target) = me.wait.finish();
    let nanos = time::now().since(began).as_nanos() as u64;
    stats.nanos.fetch_add(nanos, Ordering::Relaxed);
    stats.nanos_max.fetch_max(nanos, Ordering::Relaxed);
    if state == GRANTED {
        return Ok(());
    }
    match target {
        Some(WaitTarget::Row { name, .. }) => table.withdraw(me, &name),
        Some(WaitTarget::Gap { gaps, .. }) => gaps.withdraw(me),
        None => {}
    }
    if state == VICTIM {
        stats.deadlocks.fetch_add(1, Ordering::Relaxed);
        return Err(Error::Deadlock);
    }
    if matches!(given_up, Some(Error::LockWaitTimeout)) {
        stats.timeouts.fetch_add(1, Ordering::Relaxed);
    }
    Err(given_up.unwrap_or(Error::LockWaitTimeout))
}

/// Parks until the state leaves WAITING; why it did, if that was this waiter's own doing, and whether it took long.
fn wait_here(
    engine: &Engine,
    me: &Arc<TrxShared>,
    began: Instant,
    deadline: Instant,
    interrupt: &Interrupt,
) -> (Option<Error>, bool) {
    if engine.searches_deadlocks.load(Ordering::Relaxed) {
        break_deadlocks(engine, me);
    }
    let long_at = began + STUCK_AFTER;
    let mut is_stuck = false;
    while me.wait.state.load(Ordering::SeqCst) == WAITING {
        if interrupt.is_raised() && me.wait.leave(GIVEN_UP) {
            return (Some(Error::Interrupted), is_stuck);
        }
        let until = if is_stuck { deadline } else { deadline.min(long_at) };
        if fiber::park_until(WaitEvent::RowLock, until) {
            continue;
        }
        let now = time::now();
        if now >= deadline && me.wait.leave(GIVEN_UP) {
            return (Some(Error::LockWaitTimeout), is_stuck);
        }
        if now >= long_at && !is_stuck {
            is_stuck = true;
            engine.admission.is_stuck();
        }
    }
    (None, is_stuck)
}

fn break_deadlocks(engine: &Engine, me: &Arc<TrxShared>) {
    while me.wait.state.load(Ordering::SeqCst) == WAITING {
        let Some(cycle) = find_cycle(&engine.locks, me) else { return };
        let weights: Vec<u64> = cycle.iter().map(|trx| engine.weight(trx)).collect();
        let place = (0..cycle.len()).min_by_key(|place| weights[*place]).unwrap_or(0);
        let found = engine.deadlock_log.get().zip(engine.describe_ring(&cycle, place));
        let keep = found.as_ref().map(|(log, deadlock)| log.describe(deadlock));
        // If it is not the same any more, the cycle was broken meanwhile: search again.
        let one = engine.waits.choice.lock();
        let is_there = find_cycle(&engine.locks, me).is_some_and(|again| {
            again.len() == cycle.len() && again.iter().zip(&cycle).all(|(a, b)| Arc::ptr_eq(a, b))
        });
        let chosen = is_there && cycle[place].wait.make_victim();
        drop(one);
        if chosen {
            if let Some(keep) = keep {
                keep();
            }
            cycle[place].wait.wake();
        }
    }
}

/// The members of a cycle of waits through `me`, `me` first.
fn find_cycle(table: &LockTable, me: &Arc<TrxShared>) -> Option<Vec<Arc<TrxShared>>> {
    let mut visited = hashbrown::HashSet::<usize, foldhash::fast::RandomState>::default();
    let mut path: Vec<Arc<TrxShared>> = vec![me.clone()];
    let mut branches: Vec<Vec<Arc<TrxShared>>> = vec![blockers(table, me)];
    while let Some(branch) = branches.last_mut() {
        let Some(next) = branch.pop() else {
            branches.pop();
            path.pop();
            continue;
        };
        if Arc::ptr_eq(&next, me) {
            return Some(path);
        }
        if visited.insert(Arc::as_ptr(&next) as usize) {
            branches.push(blockers(table, &next));
            path.push(next);
        }
    }
    None
}

pub(crate) fn blockers(table: &LockTable, trx: &Arc<TrxShared>) -> Vec<Arc<TrxShared>> {
    let mut out = Vec::new();
    match trx.wait.target() {
        Some(WaitTarget::Row { name, .. }) => table.blockers(trx, &name, &mut out),
        Some(WaitTarget::Gap { gaps, key }) => gaps.blockers(trx, &key, &mut out),
        None => {}
    }
    out
}
