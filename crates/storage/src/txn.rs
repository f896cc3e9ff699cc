//! A transaction as its owner sees it: life, savepoints, end. Reading is in `txn_read`, writing in
//! `txn_write`, scanning in `scan`.
//!
//! A [`Txn`] costs nothing until it is used: the snapshot is taken at the first plain read, the part that others see at
//! the first lock, the id and the undo segment at the first write. After commit or rollback it is as new.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use keel_base::{Lsn, TreeId, TrxId};

use crate::alloc::Need;
use crate::engine::{Engine, TreeHandle};
use crate::error::{Error, Result};
use crate::lock::Ask;
use crate::lock_wait;
use crate::options::{
    Change, Changed, Insert, Interrupt, Isolation, OnDuplicate, Read, ScanRange, TxnOptions, Wait,
};
use crate::owner::Owner;
use crate::rollback::{UndoMark, Writes};
use crate::row::EVERYBODY;
use crate::scan::Scan;
use crate::snapshot::Snapshot;
use crate::stats::RowCounts;
use crate::trx::{TrxShared, TrxState};
use crate::undo::Kind;

/// A transaction. Owned by one session; dropping it rolls it back, unless it is prepared. After commit or rollback it is as new, with the
/// same options.
pub struct Txn {
    pub(crate) engine: Arc<Engine>,
    pub(crate) state: State,
}

/// Everything of a transaction but its engine.
pub(crate) struct State {
    pub(crate) isolation: Isolation,
    pub(crate) read_only: bool,
    /// Rows newer than the snapshot may not be locked.
    pub(crate) snapshot_isolation: bool,
    /// What its changes are for.
    pub(crate) need: Need,
    pub(crate) timeout: Option<Duration>,
    pub(crate) interrupt: Interrupt,
    pub(crate) owner: Option<Arc<Owner>>,
    /// Since its first lock.
    pub(crate) shared: Option<Arc<TrxShared>>,
    /// It has entered, as it may take locks (`admission`).
    entered: bool,
    /// Since its first write.
    pub(crate) writes: Option<Writes>,
    pub(crate) snapshot: Option<Snapshot>,
    /// A writer that the snapshot sees: most rows beside each other have one writer.
    pub(crate) seen_writer: Cell<TrxId>,
    /// The newest commit that its locks have met. Locks are given back before a commit is durable, snapshots see only what
    /// is: whoever was shown a row under a lock must not find an older one later.
    seen: u64,
    pub(crate) counts: RowCounts,
    statement: UndoMark,
    created: Vec<TreeId>,
    dropped: Vec<TreeId>,
    pub(crate) buffers: Buffers,
}

/// Scratch space, handed from transaction to transaction on a worker.
#[derive(Default)]
pub(crate) struct Buffers {
    /// An undo record.
    pub(crate) record: Vec<u8>,
    /// A leaf's value.
    pub(crate) value: Vec<u8>,
    /// A row.
    pub(crate) row: Vec<u8>,
}

/// More than this is not kept for the next transaction.
const KEPT_BYTES_MAX: usize = 64 << 10;

thread_local! {
    /// The scratch space of the last transaction that ended on this thread.
    static SPARE: Cell<Option<Buffers>> = const { Cell::new(None) };
}

impl Buffers {
    fn take() -> Buffers {
        SPARE.take().unwrap_or_default()
    }

    fn give_back(&mut self) {
        let bytes = self.record.capacity() + self.value.capacity() + self.row.capacity();
        if bytes <= KEPT_BYTES_MAX {
            SPARE.set(Some(std::mem::take(self)));
        }
    }
}

/// A point to which a transaction can be rolled back.
#[derive(Debug, Clone, Copy)]
pub struct Savepoint {
    /// The session had read, locked and written nothing: returning here ends the transaction and begins anew.
    begins_anew: bool,
    mark: UndoMark,
    created: usize,
    dropped: usize,
}

impl Txn {
    pub(crate) fn new(engine: Arc<Engine>, options: TxnOptions) -> Txn {
        let state = State {
            isolation: options.isolation,
            read_only: options.read_only,
            snapshot_isolation: options.snapshot_isolation && options.isolation.locks_gaps(),
            need: Need::New,
            timeout: options.lock_wait_timeout,
            interrupt: options.interrupt.unwrap_or_default(),
            owner: options.owner,
            shared: None,
            entered: false,
            writes: None,
            snapshot: None,
            seen_writer: Cell::new(EVERYBODY),
            seen: 0,
            counts: RowCounts::default(),
            statement: UndoMark::default(),
            created: Vec::new(),
            dropped: Vec::new(),
            buffers: Buffers::take(),
        };
        Txn { engine, state }
    }

    /// Marks the start of a statement: READ COMMITTED forgets its snapshot, [`Txn::rollback_statement`] returns here.
    #[inline]
    pub fn start_statement(&mut self) {
        if !self.state.isolation.locks_gaps() {
            self.state.release_snapshot(&self.engine);
        }
        self.state.statement = self.state.mark();
    }

    /// It drops trees: on a full disk it may take some of the room that is kept for ends.
    pub fn releases(&mut self) {
        self.state.need = Need::Release;
    }

    /// How long it waits for rows from here on, and whether it hears 1020 of rows newer than its snapshot.
    #[inline]
    pub fn set_waits(&mut self, timeout: Duration, snapshot_isolation: bool) {
        self.state.timeout = Some(timeout);
        self.state.snapshot_isolation = snapshot_isolation && self.state.isolation.locks_gaps();
    }

    /// Takes the snapshot now (START TRANSACTION WITH CONSISTENT SNAPSHOT).
    pub fn take_snapshot(&mut self) {
        self.state.take_snapshot(&self.engine);
    }

    /// Reads the row at `key`; `f` sees it as a slice of the latched page if it can, so it must not wait. Waits for
    /// pages and, if it locks, for the row.
    pub fn get<R>(
        &mut self,
        tree: &TreeHandle,
        key: &[u8],
        read: Read,
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        match read.of(tree) {
            Read::Snapshot => self.state.get(&self.engine, tree, key, f),
            Read::Lock(mode, wait) => {
                self.state.enter(&self.engine)?;
                self.state.get_locked(&self.engine, tree, key, mode, wait, f)
            }
        }
    }

    /// Inserts a row; waits for an uncommitted other at the same key.
    pub fn insert(
        &mut self,
        tree: &TreeHandle,
        key: &[u8],
        row: &[u8],
        on_duplicate: OnDuplicate,
    ) -> Result<Insert> {
        self.state.insert(&self.engine, tree, key, row, on_duplicate)
    }

    /// Inserts an entry of a unique secondary index: `Duplicate` if another live entry begins with the same first
    /// `prefix_len` bytes of `key`. If so `found` is replaced by that entry's whole key.
    pub fn insert_unique(
        &mut self,
        tree: &TreeHandle,
        key: &[u8],
        prefix_len: usize,
        row: &[u8],
        on_duplicate: OnDuplicate,
        found: &mut Vec<u8>,
    ) -> Result<Insert> {
        self.state.insert_unique(&self.engine, tree, key, prefix_len, row, on_duplicate, found)
    }

    /// Replaces the row at `key` (locks it, waits); `NotFound` if there is none.
    pub fn update(&mut self, tree: &TreeHandle, key: &[u8], row: &[u8]) -> Result<()> {
        let write = |_: &[u8], new: &mut Vec<u8>| -> std::result::Result<Change, std::convert::Infallible> {
            new.extend_from_slice(row);
            Ok(Change::Update)
        };
        match self.state.update_by(&self.engine, tree, key, write)? {
            Ok(Changed::NotFound) => Err(Error::NotFound),
            Ok(_) => Ok(()),
            Err(never) => match never {},
        }
    }

    /// Deletes the row at `key` (locks it, waits); `NotFound` if there is none.
    pub fn delete(&mut self, tree: &TreeHandle, key: &[u8]) -> Result<()> {
        let delete = |_: &[u8], _: &mut Vec<u8>| -> std::result::Result<Change, std::convert::Infallible> {
            Ok(Change::Delete)
        };
        match self.state.update_by(&self.engine, tree, key, delete)? {
            Ok(Changed::NotFound) => Err(Error::NotFound),
            Ok(_) => Ok(()),
            Err(never) => match never {},
        }
    }

    /// Finds, locks (waits) and changes one row in one descent. `f` sees the newest row and fills the empty buffer if
    /// it answers [`Change::Update`]; it must not wait and may run more than once.
    pub fn update_by<E>(
        &mut self,
        tree: &TreeHandle,
        key: &[u8],
        f: impl FnMut(&[u8], &mut Vec<u8>) -> std::result::Result<Change, E>,
    ) -> Result<std::result::Result<Changed, E>> {
        self.state.update_by(&self.engine, tree, key, f)
    }

    /// Takes the tree's counter for this transaction alone, as far as others ask for it too; waits for them.
    pub fn lock_counter(&mut self, tree: &TreeHandle) -> Result<()> {
        self.state.enter(&self.engine)?;
        let me = self.state.shared().clone();
        match self.engine.locks.ask_counter(&me, tree.id()) {
            Ask::Queued => self.state.wait(&self.engine, Wait::Default),
            _ => Ok(()),
        }
    }

    /// Gives the tree's counter back, if it was taken and the transaction has not ended since.
    pub fn unlock_counter(&mut self, tree: &TreeHandle) {
        if let Some(me) = &self.state.shared {
            self.engine.locks.release_counter(me, tree.id());
        }
    }

    /// Refuses a tree that came into use after the transaction's snapshot, if it has one: what was there then is not known.
    /// Plain reads ask by themselves; changes and locking reads need not.
    pub fn check_current(&self, tree: &TreeHandle) -> Result<()> {
        match self.state.isolation == Isolation::ReadUncommitted || tree.is_temporary() {
            true => Ok(()),
            false => self.state.check_known(tree),
        }
    }

    /// Starts a scan. Waits, if it locks, where too many wait already.
    pub fn scan(&mut self, tree: &TreeHandle, range: ScanRange<'_>, read: Read) -> Result<Scan> {
        let read = self.prepare_scan(tree, read)?;
        Ok(Scan::new(tree, range, read))
    }

    /// The same in the buffers of a scan that is over.
    pub fn scan_again(
        &mut self,
        scan: Scan,
        tree: &TreeHandle,
        range: ScanRange<'_>,
        read: Read,
    ) -> Result<Scan> {
        let read = self.prepare_scan(tree, read)?;
        Ok(scan.again(tree, range, read))
    }

    fn prepare_scan(&mut self, tree: &TreeHandle, read: Read) -> Result<Read> {
        let read = read.of(tree);
        if tree.is_temporary() {
            return Ok(read);
        }
        if read == Read::Snapshot && self.state.isolation != Isolation::ReadUncommitted {
            self.state.take_snapshot(&self.engine);
            self.state.check_known(tree)?;
        }
        if matches!(read, Read::Lock(..)) {
            self.state.enter(&self.engine)?;
        }
        Ok(read)
    }

    /// A point within a statement to return to.
    pub fn savepoint(&self) -> Savepoint {
        self.savepoint_here(false)
    }

    /// A point between statements, as SAVEPOINT sets it. Where nothing was done before, returning to it ends the
    /// transaction, locks and snapshot with it, and begins anew, as in MariaDB.
    pub fn savepoint_of_session(&self) -> Savepoint {
        self.savepoint_here(self.state.shared.is_none() && self.state.snapshot.is_none())
    }

    fn savepoint_here(&self, begins_anew: bool) -> Savepoint {
        Savepoint {
            begins_anew,
            mark: self.state.mark(),
            created: self.state.created.len(),
            dropped: self.state.dropped.len(),
        }
    }

    /// Undoes what was written since; locks stay, unless the session had done nothing before. On an error the transaction
    /// may be half undone and must not be committed. Waits.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        if savepoint.begins_anew {
            return self.state.rollback(&self.engine);
        }
        self.state.undo_to(&self.engine, savepoint.mark)?;
        self.state.dropped.truncate(savepoint.dropped);
        let engine = &self.engine;
        self.state.created.drain(savepoint.created..).for_each(|id| engine.remove_tree(id));
        Ok(())
    }

    /// Undoes what was written since [`Txn::start_statement`]; locks stay. Waits.
    pub fn rollback_statement(&mut self) -> Result<()> {
        let mark = self.state.statement;
        self.state.undo_to(&self.engine, mark)
    }

    /// What was written so far in a temporary tree stays, whatever becomes of the transaction. Waits for nothing.
    pub fn exempt(&mut self, tree: TreeId) {
        assert!(tree.is_temporary(), "changes of tree {tree} can be taken back");
        self.state.writes.iter_mut().for_each(|writes| writes.exempt(tree));
    }

    /// Commits: waits until it is as durable as configured. On error nothing may be acknowledged.
    pub fn commit(&mut self) -> Result<Lsn> {
        self.state.commit(&self.engine)
    }

    /// Rolls back and releases all locks. Waits.
    pub fn rollback(&mut self) -> Result<()> {
        self.state.rollback(&self.engine)
    }

    /// Whether it holds row or gap locks, or has written.
    pub fn holds_locks(&self) -> bool {
        let held = |shared: &Arc<TrxShared>| shared.held.lock().len() > 0;
        self.state.writes.is_some() || self.state.shared.as_ref().is_some_and(held)
    }

    /// Whether it has written.
    pub fn has_writes(&self) -> bool {
        self.state.writes.is_some()
    }

    /// Its id, given at its first write.
    pub fn id(&self) -> Option<TrxId> {
        self.state.writes.as_ref().map(|writes| writes.id)
    }

    /// Entries changed so far, those of secondary indexes included.
    pub fn rows_changed(&self) -> u64 {
        self.state.mark().changes
    }

    /// Adds what it counted so far to the engine's counters, as its end does.
    pub fn report_counts(&mut self) {
        self.state.report(&self.engine);
    }

    /// Its isolation level.
    pub fn isolation(&self) -> Isolation {
        self.state.isolation
    }

    /// The switch that ends its waits and scans from outside.
    pub fn interrupt_handle(&self) -> Interrupt {
        self.state.interrupt.clone()
    }

    /// Whether it is prepared and has not ended: also what could not be committed or rolled back.
    pub fn is_prepared(&self) -> bool {
        self.state.writes.as_ref().is_some_and(|writes| writes.prepared)
    }

    pub(crate) fn created_tree(&mut self, id: TreeId) {
        self.state.created.push(id);
    }

    pub(crate) fn dropped_tree(&mut self, id: TreeId) {
        self.state.dropped.push(id);
    }
}

impl Drop for Txn {
    fn drop(&mut self) {
        self.state.release_snapshot(&self.engine);
        self.state.report(&self.engine);
        self.state.buffers.give_back();
        if self.is_prepared() {
            return;
        }
        if !self.state.entered && self.state.shared.is_none() && self.state.created.is_empty() {
            return;
        }
        // A panic unwinds: the rollback would wait. The background fiber does it.
        if std::thread::panicking()
            || !keel_runtime::fiber::in_fiber()
            || self.state.rollback(&self.engine).is_err()
        {
            self.state.abandon(&self.engine);
        }
    }
}

impl State {
    fn mark(&self) -> UndoMark {
        self.writes.as_ref().map(Writes::mark).unwrap_or_default()
    }

    fn undo_to(&mut self, engine: &Engine, mark: UndoMark) -> Result<()> {
        match &mut self.writes {
            Some(writes) => writes.undo_to(engine, mark, true),
            None => Ok(()),
        }
    }

    /// Takes the snapshot if there is none yet.
    #[inline]
    pub(crate) fn take_snapshot(&mut self, engine: &Engine) {
        if self.snapshot.is_none() {
            if self.seen > engine.snapshot_lsn() {
                // A dead log leaves the older snapshot; nothing is acknowledged any more.
                let _ = engine.store.wait_durable(Lsn(self.seen));
            }
            let worker = keel_runtime::worker_index();
            self.snapshot = Some(engine.snapshots.take(worker, &engine.table, || engine.snapshot_lsn()));
            if let Some(owner) = &self.owner {
                owner.set_reading(true);
            }
        }
    }

    pub(crate) fn release_snapshot(&mut self, engine: &Engine) {
        if let Some(snapshot) = self.snapshot.take() {
            self.seen_writer.set(EVERYBODY);
            engine.snapshots.release(snapshot);
            if let Some(owner) = &self.owner {
                owner.set_reading(false);
            }
        }
    }

    /// Notes that a lock has met what `trx` left, which is not in progress.
    #[inline]
    pub(crate) fn note_seen(&mut self, engine: &Engine, trx: TrxId) {
        if let Some(TrxState::Ended(csn)) = engine.table.lookup(trx) {
            self.seen = self.seen.max(csn);
        }
    }

    /// The part that other transactions see.
    pub(crate) fn shared(&mut self) -> &Arc<TrxShared> {
        self.shared.get_or_insert_with(|| {
            let shared = TrxShared::new(TrxId(0), self.owner.clone(), self.isolation);
            if let Some(owner) = &self.owner {
                owner.set_transaction(Some(shared.clone()));
            }
            shared
        })
    }

    /// Before its first lock: waits where too many transactions wait for each other.
    #[inline]
    pub(crate) fn enter(&mut self, engine: &Engine) -> Result<()> {
        if !self.entered {
            engine.admission.enter(&self.interrupt)?;
            self.entered = true;
            if self.snapshot_isolation && self.isolation == Isolation::Serializable {
                // Its plain reads lock, so that none of them would begin the snapshot.
                self.take_snapshot(engine);
            }
        }
        Ok(())
    }

    /// Folds row locks that are too many. No latch may be held.
    #[inline]
    pub(crate) fn bound_locks(&self, engine: &Engine) {
        if let Some(shared) = &self.shared {
            engine.locks.bound(shared);
        }
    }

    /// Gives the transaction its id before its first write. Waits at times.
    pub(crate) fn begin_write(&mut self, engine: &Engine, tree: &TreeHandle) -> Result<()> {
        if self.read_only && !tree.is_temporary() {
            return Err(Error::ReadOnly);
        }
        if self.writes.is_some() {
            return Ok(());
        }
        if engine.purge.stop.is_set() {
            return Err(Error::Ended);
        }
        self.enter(engine)?;
        let id = loop {
            match engine.table.allocate(&engine.snapshots, || engine.store.durable_lsn().0) {
                Some(id) => break id,
                None => engine.raise_trx_ids()?,
            }
        };
        let shared = self.shared().clone();
        shared.set_id(id);
        engine.active.add(&shared);
        self.writes = Some(Writes {
            shared,
            id,
            segment: keel_runtime::worker_index() % engine.undo.segment_count(),
            start: None,
            last: Default::default(),
            changes: 0,
            rows: 0,
            newest_trees: Default::default(),
            end_flags: 0,
            prepared: false,
            lasting: false,
            exempt: Vec::new(),
        });
        Ok(())
    }

    /// Waits for the lock just asked for. As a deadlock's victim the transaction is rolled back, in the background if it
    /// cannot be here: what is half undone must never be committed. No latch may be held.
    pub(crate) fn wait(&mut self, engine: &Engine, wait: Wait) -> Result<()> {
        let timeout = match wait {
            Wait::Timeout(timeout) => Some(timeout),
            _ => self.timeout,
        };
        let deadline = engine.lock_deadline(timeout);
        let interrupt = self.interrupt.clone();
        let result = lock_wait::wait(engine, self.shared(), deadline, &interrupt);
        if matches!(result, Err(Error::Deadlock)) && self.rollback(engine).is_err() {
            self.abandon(engine);
        }
        result
    }

    fn report(&mut self, engine: &Engine) {
        engine.rows.report(keel_runtime::worker_index(), &mut self.counts);
    }

    /// It will take no more locks.
    pub(crate) fn leave(&mut self, engine: &Engine) {
        if std::mem::take(&mut self.entered) {
            engine.admission.leave();
        }
    }

    /// As new.
    fn reset(&mut self, engine: &Engine) {
        self.leave(engine);
        if self.shared.take().is_some()
            && let Some(owner) = &self.owner
        {
            owner.set_transaction(None);
        }
        self.writes = None;
        self.seen = 0;
        self.statement = UndoMark::default();
    }

    fn commit(&mut self, engine: &Engine) -> Result<Lsn> {
        self.release_snapshot(engine);
        let seen = Lsn(self.seen);
        let Some(writes) = &mut self.writes else {
            if let Some(shared) = &self.shared {
                engine.locks.release_all(shared);
            }
            self.report(engine);
            self.reset(engine);
            engine.store.wait_commit(seen)?;
            return Ok(Lsn(0));
        };
        let wrote = writes.start.is_some();
        let lasting = writes.lasting;
        let lsn = writes.end(engine, Kind::Commit)?;
        self.reset(engine);
        if wrote {
            self.counts.commits += 1;
        }
        self.report(engine);
        let created = std::mem::take(&mut self.created);
        let dropped = std::mem::take(&mut self.dropped);
        drop(created);
        engine.store.wait_commit(if wrote && lasting { lsn } else { seen })?;
        if !dropped.is_empty() {
            engine.store.wait_durable(lsn)?;
            dropped.into_iter().for_each(|id| engine.remove_tree(id));
        }
        Ok(lsn)
    }

    pub(crate) fn rollback(&mut self, engine: &Engine) -> Result<()> {
        self.release_snapshot(engine);
        if let Some(writes) = &mut self.writes {
            if writes.start.is_some() {
                self.counts.rollbacks += 1;
            }
            writes.roll_back(engine)?;
        } else if let Some(shared) = &self.shared {
            engine.locks.release_all(shared);
        }
        self.reset(engine);
        self.report(engine);
        self.dropped.clear();
        std::mem::take(&mut self.created).into_iter().for_each(|id| engine.remove_tree(id));
        Ok(())
    }

    /// Leaves the rollback to the background fiber; the transaction is as new then.
    fn abandon(&mut self, engine: &Engine) {
        if let Some(writes) = self.writes.take() {
            writes.shared.rolling_back.store(true, Ordering::Relaxed);
            engine.purge.orphans.lock().push(writes);
        } else if let Some(shared) = &self.shared {
            engine.locks.release_all(shared);
        }
        engine.purge.suspects.lock().append(&mut self.created);
        self.dropped.clear();
        self.reset(engine);
    }
}
