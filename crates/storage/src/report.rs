//! What is told of transactions and locks to whoever looks at them from outside: the open ones, who waits for whom, and
//! the deadlocks found.
//!
//! All of it is copied under one mutex at a time, and no more than asked for: a partition of the lock table, the gaps of a
//! tree or the list of a transaction is held for one short look. So a report of many transactions is not of one moment; each
//! line of it was true at its own.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use keel_base::TreeId;
use keel_runtime::time::Instant;

use crate::engine::{Engine, TreeHandle};
use crate::error::Result;
use crate::lock_wait::{self, WaitTarget};
use crate::options::{Isolation, LockMode};
use crate::owner::{Owner, Who};
use crate::row::Header;
use crate::trx::TrxShared;

/// What a lock is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// A row.
    Row,
    /// The gap below a key.
    Gap,
    /// The gap below a key and the row there.
    NextKey,
    /// Leave to insert into a gap.
    Insert,
    /// The tree's counter (AUTO_INCREMENT).
    Counter,
}

/// One lock held or waited for.
#[derive(Debug, Clone)]
pub struct LockInfo {
    /// The tree.
    pub tree: TreeId,
    /// Key of the row, or upper end of the gap (empty: end of the tree), or the key to insert.
    pub key: Vec<u8>,
    /// What it is on.
    pub kind: LockKind,
    /// Its strength; gaps have none, and are said to be exclusive.
    pub mode: LockMode,
    /// Whether it is held.
    pub granted: bool,
    /// The owner's number ([`TrxInfo::number`]).
    pub owner: u64,
}

/// A wait for a lock.
#[derive(Debug, Clone)]
pub struct WaitInfo {
    /// The lock.
    pub lock: LockInfo,
    /// When the wait began.
    pub since: Instant,
}

/// One transaction in progress that has locked or written.
#[derive(Debug, Clone)]
pub struct TrxInfo {
    /// Its id if it has written, else a number above all ids, which stays until it writes.
    pub number: u64,
    /// The session that has it; none where recovery or a session that has ended left it.
    pub owner: Option<Arc<Owner>>,
    /// Its isolation level.
    pub isolation: Isolation,
    /// Entries changed: rows, and what secondary indexes have of them.
    pub changes: u64,
    /// Rows changed.
    pub rows_changed: u64,
    /// Row locks in the lock table, with the one that it waits for. Rows that it wrote are locked by its id in them alone.
    pub row_locks: u64,
    /// Trees in which it has locked gaps.
    pub gap_trees: u64,
    /// Locks as InnoDB would count them, about: of tables, of pages by kind, and the one that it waits for. With
    /// `rows_changed` the weight by which a deadlock's victim is chosen.
    pub locks: u64,
    /// Trees in which it has locks, or has written; the first [`TREES_MAX`].
    pub trees: Vec<TreeId>,
    /// Bytes that its locks take, about.
    pub lock_bytes: u64,
    /// What it waits for.
    pub wait: Option<WaitInfo>,
    /// Whether recovery or a lost session left it to be rolled back.
    pub rolling_back: bool,
    /// Whether it is prepared.
    pub prepared: bool,
}

/// Most trees of a transaction that are told.
pub const TREES_MAX: usize = 64;

/// A wait with those that it is for.
#[derive(Debug, Clone)]
pub struct LockWait {
    /// The lock asked for.
    pub asked: LockInfo,
    /// The locks of others that stand in its way.
    pub held: Vec<LockInfo>,
}

/// A ring of transactions that wait for each other, each for the next, the last for the first.
#[derive(Debug, Clone)]
pub struct Deadlock {
    /// The transactions; the first is the one whose wait closed the ring.
    pub parties: Vec<DeadlockParty>,
    /// Which of them is rolled back.
    pub victim: usize,
}

/// One transaction of a deadlock.
#[derive(Debug, Clone)]
pub struct DeadlockParty {
    /// The transaction, with what it waits for.
    pub trx: TrxInfo,
    /// Its lock for which the party before it waits; not granted where that stands in the queue behind it.
    pub holds: LockInfo,
}

/// Who wants to know of deadlocks.
pub trait DeadlockLog: Send + Sync {
    /// Describes a deadlock while all its parties still wait; what it gives is called once the victim is chosen for good,
    /// before anybody goes on. On the fiber of the first party, with no latch held; may wait for pages.
    fn describe(&self, deadlock: &Deadlock) -> Box<dyn FnOnce() + '_>;
}

impl TrxInfo {
    pub(crate) fn of(engine: &Engine, trx: &Arc<TrxShared>) -> TrxInfo {
        let (wait, since) = trx.wait.target_since();
        let held = trx.held.lock().summary();
        // Who waits for a row has it among those it holds.
        let asked_gap = match &wait {
            Some(WaitTarget::Gap { gaps, .. }) => Some(gaps.tree()),
            _ => None,
        };
        let mut trees: Vec<TreeId> = Vec::new();
        let written: Vec<TreeId> = trx.written.lock().iter().map(|written| written.tree).collect();
        for tree in written.into_iter().chain(held.trees).chain(asked_gap) {
            if trees.len() < TREES_MAX && !trees.contains(&tree) {
                trees.push(tree);
            }
        }
        TrxInfo {
            number: trx.number(),
            owner: trx.owner.clone().filter(|_| !trx.is_nobodys()),
            isolation: trx.isolation,
            changes: trx.changes.load(Ordering::Relaxed),
            rows_changed: trx.rows.load(Ordering::Relaxed),
            row_locks: held.rows + u64::from(asked_gap.is_some()),
            gap_trees: held.gaps,
            locks: engine.lock_count(trx),
            trees,
            lock_bytes: held.bytes,
            wait: wait.map(|target| WaitInfo { lock: asked(trx, &target), since }),
            rolling_back: trx.rolling_back.load(Ordering::Relaxed),
            prepared: trx.prepared.load(Ordering::Relaxed),
        }
    }

    /// Who has it, while the session lives.
    pub fn who(&self) -> Option<Arc<Who>> {
        self.owner.as_ref()?.who()
    }
}

/// The lock that `trx` asks for.
fn asked(trx: &Arc<TrxShared>, target: &WaitTarget) -> LockInfo {
    let (tree, key, kind, mode) = match target {
        WaitTarget::Row { name, mode } => (name.tree(), name.key().to_vec(), name.kind(), *mode),
        WaitTarget::Gap { gaps, key } => (gaps.tree(), key.to_vec(), LockKind::Insert, LockMode::Exclusive),
    };
    LockInfo { tree, key, kind, mode, granted: false, owner: trx.number() }
}

impl Engine {
    /// Has all deadlocks told to `log`; once.
    pub fn set_deadlock_log(&self, log: Arc<dyn DeadlockLog>) {
        assert!(self.deadlock_log.set(log).is_ok(), "there is one log of deadlocks");
    }

    /// Transactions in progress that have written and that nobody owns, or owns any more, at most `limit`.
    pub fn transactions(&self, limit: usize) -> Vec<TrxInfo> {
        let all = self.active.all();
        let free = all.iter().filter(|trx| trx.owner.is_none() || trx.is_nobodys());
        free.take(limit).map(|trx| TrxInfo::of(self, trx)).collect()
    }

    /// The open transaction of `owner`, if it has locked or written anything.
    pub fn transaction_of(&self, owner: &Owner) -> Option<TrxInfo> {
        owner.open().map(|trx| TrxInfo::of(self, &trx))
    }

    /// Locks held and waited for, at most `limit`. Rows locked by their writer's id alone do not appear.
    pub fn locks(&self, limit: usize) -> Vec<LockInfo> {
        let mut out = self.locks.list(limit);
        let trees: Vec<TreeHandle> = self.trees.read().values().cloned().collect();
        for tree in trees {
            tree.gaps().list(limit, &mut out);
        }
        out
    }

    /// What the transaction of `owner` waits for and who stands in its way, each with one lock.
    pub fn lock_wait(&self, owner: &Owner) -> Option<LockWait> {
        let trx = owner.open()?;
        let (target, _) = trx.wait.target_since();
        let target = target?;
        let blockers = lock_wait::blockers(&self.locks, &trx);
        let held = blockers.iter().map(|other| self.standing(other, &target)).collect();
        Some(LockWait { asked: asked(&trx, &target), held })
    }

    /// The lock of `holder` that stands in the way of `target`, or the one that it waits for before who waits for `target`.
    fn standing(&self, holder: &Arc<TrxShared>, target: &WaitTarget) -> LockInfo {
        let owner = holder.number();
        match target {
            WaitTarget::Row { name, .. } => {
                let request = self.locks.request_of(holder, name);
                let (mode, granted) = request.unwrap_or((LockMode::Exclusive, true));
                let (tree, key, kind) = (name.tree(), name.key().to_vec(), name.kind());
                LockInfo { tree, key, kind, mode, granted, owner }
            }
            WaitTarget::Gap { gaps, key } => {
                let (tree, end) = (gaps.tree(), gaps.end_of(holder, key).unwrap_or_default());
                let mode = self.locks.mode_at(holder, tree, &end);
                let kind = if mode.is_some() { LockKind::NextKey } else { LockKind::Gap };
                let mode = mode.unwrap_or(LockMode::Exclusive);
                LockInfo { tree, key: end, kind, mode, granted: true, owner }
            }
        }
    }

    /// A deadlock as it stands, `ring` waiting each for the next; none if one of them does not wait any more.
    pub(crate) fn describe_ring(&self, ring: &[Arc<TrxShared>], victim: usize) -> Option<Deadlock> {
        let before = |index: usize| &ring[(index + ring.len() - 1) % ring.len()];
        let party = |(index, trx): (usize, &Arc<TrxShared>)| {
            let holds = before(index).wait.target_since().0.map(|target| self.standing(trx, &target));
            let info = TrxInfo::of(self, trx);
            Some(DeadlockParty { holds: holds.filter(|_| info.wait.is_some())?, trx: info })
        };
        let parties: Option<Vec<DeadlockParty>> = ring.iter().enumerate().map(party).collect();
        Some(Deadlock { parties: parties?, victim })
    }

    /// The newest row at `key`, committed or not, for reports; none where it is gone or too long for its leaf. Waits.
    pub fn peek(&self, tree: &TreeHandle, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let leaf = tree.tree().leaf_for_read(key)?;
        let Ok(slot) = leaf.search(key) else { return Ok(None) };
        let (header, row) = Header::split(leaf.value(slot));
        Ok((!header.is_overflow()).then(|| row.to_vec()))
    }
}
