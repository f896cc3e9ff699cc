//! What a transaction has written, taking it back, and ending it.
//!
//! A transaction's undo records form a chain from the newest backwards. Rolling back follows it; each record is undone
//! in a mini-transaction of its own, and only if the entry still bears the record's marker (the transaction's id and
//! the record's place). So undoing twice, after a crash in between, does nothing the second time.
//!
//! A rollback to a savepoint keeps the row locks: where the id in the row was the lock, it is entered into the lock
//! table before the id goes. A row that goes itself takes its lock along, as in InnoDB, and an entry of an index is
//! locked afterwards only if it was before it was changed.
//!
//! Ending writes an end record; the end of its mini-transaction is the commit number. COMMITTING is set before
//! ([`crate::trx`]), locks are released after, and only then the caller waits for the log.
//!
//! A crash before the end record is in the log leaves an unfinished transaction, which [`crate::restart`] rolls back.
//! Overflow pages of an undone value are freed after the entry is restored: a crash in between loses them. Where that fails
//! for want of room, the background fiber does it when there is some.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use keel_base::{Lsn, PageNo, TreeId, TrxId};
use keel_runtime::fiber;

use crate::alloc::Need;
use crate::engine::{Engine, TreeHandle};
use crate::error::{Error, Result};
use crate::fault::StoreError;
use crate::mtr::Mtr;
use crate::row::{HEADER_BYTES, Header};
use crate::tree::{LeafWrite, OverflowRef, Tree, ValuePage};
use crate::trx::{TrxShared, Written};
use crate::undo::{
    ChangeRecord, Common, END_BYTES, Kind, UndoPtr, decode_change, encode_end, encode_prepare,
};

/// A transaction's writes: what it takes to roll them back or end them.
pub(crate) struct Writes {
    pub(crate) shared: Arc<TrxShared>,
    pub(crate) id: TrxId,
    /// Segment of the undo log.
    pub(crate) segment: usize,
    /// Where in the segment it began; `None` before the first record.
    pub(crate) start: Option<u64>,
    /// Its newest record that counts.
    pub(crate) last: UndoPtr,
    /// Records written and not undone.
    pub(crate) changes: u64,
    /// Those of rows.
    pub(crate) rows: u64,
    /// Trees written of late, most often all of them.
    pub(crate) newest_trees: NewestTrees,
    /// What purge will have to do.
    pub(crate) end_flags: u8,
    /// A prepare record stands in the log.
    pub(crate) prepared: bool,
    /// Trees that last were changed: its end must be durable.
    pub(crate) lasting: bool,
    /// Temporary trees whose first changes stay, and how many changes there were by then.
    pub(crate) exempt: Vec<(TreeId, u64)>,
}

/// A point in a transaction's writes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct UndoMark {
    pub(crate) last: UndoPtr,
    pub(crate) changes: u64,
    pub(crate) rows: u64,
}

/// A few of the newest trees that were written.
#[derive(Default)]
pub(crate) struct NewestTrees {
    trees: [Written; 8],
    next: u8,
}

impl NewestTrees {
    /// Adds a tree; false if it was there.
    #[inline]
    fn add(&mut self, tree: Written) -> bool {
        if self.trees.contains(&tree) {
            return false;
        }
        self.trees[self.next as usize % self.trees.len()] = tree;
        self.next = self.next.wrapping_add(1);
        true
    }
}

/// Changes after which a rollback without an owner looks whether the engine stops.
const STOP_LOOK: u64 = 256;

/// What one step of undoing left to do once the latch is gone.
enum After {
    /// Nothing.
    Nothing,
    /// The entry must get more room first.
    Split(usize),
    /// The tree's counter must [note](Tree::note_gone) it first.
    Note,
    /// These overflow values are not referred to any more.
    Free([Option<OverflowRef>; 2]),
}

impl After {
    fn free(values: [Option<OverflowRef>; 2]) -> After {
        match values {
            [None, None] => After::Nothing,
            values => After::Free(values),
        }
    }
}

/// The reference in the row of an entry whose header says overflow.
pub(crate) fn overflow_ref(tree: TreeId, row: &[u8]) -> Result<OverflowRef> {
    let bytes: &[u8; 12] = row.try_into().map_err(|_| {
        let what = format!("overflow reference of {} bytes", row.len());
        Error::Store(StoreError::Corrupt { file: format!("t{tree}"), page: 0, what })
    })?;
    Ok(OverflowRef::from_bytes(bytes))
}

impl Writes {
    /// Where it stands now.
    pub(crate) fn mark(&self) -> UndoMark {
        UndoMark { last: self.last, changes: self.changes, rows: self.rows }
    }

    /// Counts a record that has been written about an entry of `tree`.
    #[inline]
    pub(crate) fn count(&mut self, tree: &TreeHandle, kind: Kind) {
        self.changes += 1;
        self.lasting |= !tree.id().is_temporary();
        self.shared.changes.store(self.changes, Ordering::Relaxed);
        if !tree.is_auxiliary() {
            self.rows += 1;
            self.shared.rows.store(self.rows, Ordering::Relaxed);
        }
        let changed = !tree.is_auxiliary() && kind != Kind::Insert;
        let written = Written { tree: tree.id(), changed };
        if self.newest_trees.add(written) {
            self.shared.note_written(written);
        }
    }

    /// What was written so far in a temporary tree stays, whatever becomes of the transaction.
    pub(crate) fn exempt(&mut self, tree: TreeId) {
        self.exempt.push((tree, self.changes));
    }

    /// Whether the newest change that is not undone stays, if it is one of `tree`.
    fn is_exempt(&self, tree: TreeId) -> bool {
        self.exempt.iter().any(|(exempt, changes)| *exempt == tree && self.changes <= *changes)
    }

    /// Undoes everything after `mark`. With `keep_locks` the transaction lives on. What nobody owns is left where it is when
    /// the engine stops: the next start goes on. Waits.
    pub(crate) fn undo_to(&mut self, engine: &Engine, mark: UndoMark, keep_locks: bool) -> Result<()> {
        let mut record = Vec::new();
        let is_left = || engine.purge.stop.is_set() && self.shared.rolling_back.load(Ordering::Relaxed);
        while self.last != mark.last && !self.last.is_none() {
            if self.changes.is_multiple_of(STOP_LOOK) && is_left() {
                return Err(Error::Ended);
            }
            let at = self.last;
            read_record(engine, at, &mut record)?;
            let Some(change) = decode_change(&record) else {
                return Err(misplaced(at, "not a change record"));
            };
            if change.common.trx != self.id {
                return Err(misplaced(at, "undo record of another transaction"));
            }
            if !self.is_exempt(change.tree) {
                self.undo_one(engine, at, &change, keep_locks)?;
            }
            self.last = change.common.before;
            self.changes = self.changes.saturating_sub(1);
            self.shared.changes.store(self.changes, Ordering::Relaxed);
            engine.locks.bound(&self.shared);
            fiber::tick();
        }
        (self.changes, self.rows) = (mark.changes, mark.rows);
        // Those behind the mark have been passed; later changes have their numbers.
        self.exempt.retain(|(_, changes)| *changes <= mark.changes);
        self.shared.rows.store(self.rows, Ordering::Relaxed);
        Ok(())
    }

    fn undo_one(&self, engine: &Engine, at: UndoPtr, change: &ChangeRecord<'_>, keep: bool) -> Result<()> {
        let Some(handle) = engine.tree_of_change(change.tree, self.id) else { return Ok(()) };
        let tree = handle.tree();
        tree.look_at_counter();
        loop {
            let mtr = engine.store.begin()?;
            let after = {
                let mut leaf = tree.leaf_for_write(&mtr, change.key)?;
                self.undo_in_leaf(engine, &handle, &mut leaf, at, change, keep)?
            };
            match after {
                After::Split(_) | After::Note => drop(mtr),
                After::Nothing | After::Free(_) => _ = mtr.commit(),
            }
            match after {
                After::Nothing => return Ok(()),
                After::Split(need) => tree.split_for(change.key, need, Need::Finish)?,
                After::Note => tree.note_gone(change.key)?,
                After::Free(values) => {
                    // With the entry changed no later try finds them.
                    values.into_iter().flatten().for_each(|value| engine.free_value(&handle, value));
                    return Ok(());
                }
            }
        }
    }

    fn undo_in_leaf(
        &self,
        engine: &Engine,
        handle: &TreeHandle,
        leaf: &mut LeafWrite<'_>,
        at: UndoPtr,
        change: &ChangeRecord<'_>,
        keep_locks: bool,
    ) -> Result<After> {
        let Ok(slot) = leaf.search(change.key) else { return Ok(After::Nothing) };
        let (header, row) = Header::split(leaf.value(slot));
        if header.trx != self.id || header.undo != at {
            return Ok(After::Nothing);
        }
        let new_value = match header.is_overflow() && change.common.kind != Kind::Delete {
            true => Some(overflow_ref(handle.id(), row)?),
            false => None,
        };
        let Some(old) = change.old else {
            if is_to_note(handle.tree(), leaf, slot, change.key) {
                return Ok(After::Note);
            }
            leaf.remove(slot);
            if keep_locks {
                engine.locks.release_one(&self.shared, handle.id(), change.key);
            }
            return Ok(After::free([new_value, None]));
        };
        let mut old_value = None;
        if old.header.is_deleted() && old.header.trx != self.id && engine.is_purgeable(old.header.trx) {
            // Purge may have met this transaction's entry and passed: then it does not come for the deleted one again.
            if is_to_note(handle.tree(), leaf, slot, change.key) {
                return Ok(After::Note);
            }
            if old.header.is_overflow() {
                old_value = Some(overflow_ref(handle.id(), old.middle())?);
            }
            leaf.remove(slot);
        } else if change.common.kind == Kind::Delete {
            leaf.patch(slot, 0, &old.header.to_bytes());
        } else {
            let mut value = row.to_vec();
            old.apply(&mut value).ok_or_else(|| misplaced(at, "old row does not fit"))?;
            value.splice(0..0, old.header.to_bytes());
            if leaf.replace(slot, &value).is_err() {
                return Ok(After::Split(value.len() + change.key.len()));
            }
        }
        if keep_locks && old.header.trx != self.id && !handle.is_auxiliary() {
            engine.locks.keep_own(&self.shared, handle.id(), change.key);
        }
        Ok(After::free([new_value, old_value]))
    }

    /// Undoes everything and ends the transaction. Waits for pages, not for the log.
    pub(crate) fn roll_back(&mut self, engine: &Engine) -> Result<()> {
        if self.prepared {
            // A crash on the way back must not leave half of it for somebody to commit.
            self.write_prepare(engine, b"")?;
            self.prepared = false;
            self.shared.prepared.store(false, Ordering::Relaxed);
        }
        self.undo_to(engine, UndoMark::default(), false)?;
        self.end(engine, Kind::Abort)?;
        Ok(())
    }

    /// Writes the end record, publishes the end and releases the locks; gives the commit number. Waits for log space.
    pub(crate) fn end(&mut self, engine: &Engine, kind: Kind) -> Result<Lsn> {
        let lsn = match self.start {
            Some(start) => {
                let flags = if kind == Kind::Commit { self.end_flags } else { 0 };
                let lsn = self.write_end(engine, kind, flags)?;
                // Purge may pass it as soon as it has ended.
                engine.undo.add_ended(self.segment);
                engine.table.set_ended(self.id, lsn.0);
                engine.undo.left(self.segment, start);
                lsn
            }
            None => {
                let lsn = engine.store.current_lsn();
                engine.table.set_ended(self.id, lsn.0);
                lsn
            }
        };
        engine.active.remove(self.id);
        engine.locks.release_all(&self.shared);
        Ok(lsn)
    }

    fn write_end(&mut self, engine: &Engine, kind: Kind, flags: u8) -> Result<Lsn> {
        let mut record = Vec::with_capacity(END_BYTES);
        encode_end(&mut record, kind, self.id, self.last, flags);
        let id = self.id;
        self.append(engine, &record, || engine.table.set_committing(id))
    }

    /// Writes a prepare record; gives the LSN up to which the log must be durable. Waits for log space.
    pub(crate) fn write_prepare(&mut self, engine: &Engine, name: &[u8]) -> Result<Lsn> {
        let mut record = Vec::with_capacity(END_BYTES + name.len());
        encode_prepare(&mut record, self.id, self.last, self.end_flags, name);
        self.append(engine, &record, || {})
    }

    /// Appends a record in a mini-transaction of its own; `first` is called before it is in the log.
    fn append(&mut self, engine: &Engine, record: &[u8], first: impl Fn()) -> Result<Lsn> {
        loop {
            let mtr = engine.store.begin()?;
            let room = engine.undo.room(self.segment, &mtr, record.len(), &mut self.start, Need::Finish);
            match room {
                Ok(room) => {
                    first();
                    room.append(record);
                    return Ok(mtr.commit());
                }
                Err(full) => {
                    drop(mtr);
                    let new = engine.undo.roll_over(self.segment, full, Need::New);
                    if let Err(StoreError::DiskFull { .. }) = new {
                        engine.undo.roll_over(self.segment, full, Need::Finish)?;
                    } else {
                        new?;
                    }
                }
            }
        }
    }
}

impl Writes {
    /// The trees that it has changed. Waits for pages.
    pub(crate) fn changed_trees(&self, engine: &Engine) -> Result<Vec<TreeId>> {
        let mut trees: Vec<TreeId> = Vec::new();
        let mut record = Vec::new();
        let mut at = self.last;
        while !at.is_none() {
            read_record(engine, at, &mut record)?;
            let change = decode_change(&record).ok_or_else(|| misplaced(at, "not a change record"))?;
            if !trees.contains(&change.tree) {
                trees.push(change.tree);
            }
            at = change.common.before;
            fiber::tick();
        }
        Ok(trees)
    }
}

fn misplaced(at: UndoPtr, what: &str) -> Error {
    let what = format!("{what} at {}", at.offset);
    Error::Store(StoreError::Corrupt { file: "undo".into(), page: at.page, what })
}

/// Copies the record at `at` into `out`. Waits.
pub(crate) fn read_record(engine: &Engine, at: UndoPtr, out: &mut Vec<u8>) -> Result<Common> {
    engine.undo.read(at, |bytes| {
        let common = crate::undo::decode_common(bytes)?;
        out.clear();
        out.extend_from_slice(&bytes[..common.len]);
        Some(common)
    })
}

/// What one step of removing a deleted entry came to.
enum Removal {
    /// It is not there, or not as it was.
    Nothing,
    /// It is gone; whether its leaf has become sparse.
    Gone(bool),
    /// Its long value, or what is left of it, begins at this page and goes first.
    Value(PageNo),
    /// The tree's counter must [note](Tree::note_gone) it first.
    Note,
}

/// Whether the tree's counter must note the entry at `slot`, whose key is `key`, before it goes.
fn is_to_note(tree: &Tree, leaf: &LeafWrite<'_>, slot: usize, key: &[u8]) -> bool {
    slot + 1 == leaf.len() && tree.is_to_note(key)
}

/// Removes the deleted entry at `key` if it still bears the marker of the delete at `at` by `trx`; its long value goes before
/// it, page by page, while the entry names the rest. Waits.
pub(crate) fn remove_deleted(
    engine: &Engine,
    tree: &Tree,
    key: &[u8],
    trx: TrxId,
    at: UndoPtr,
) -> Result<bool> {
    let mut page: Option<ValuePage> = None;
    tree.look_at_counter();
    loop {
        let mtr: Mtr<'_> = engine.store.begin()?;
        let step = {
            let mut leaf = tree.leaf_for_write(&mtr, key)?;
            remove_step(&mtr, tree, &mut leaf, key, (trx, at), page.as_ref())?
        };
        mtr.commit();
        if let Some(page) = page.take() {
            tree.value_page_freed(&page);
        }
        match step {
            Removal::Nothing => return Ok(false),
            Removal::Value(rest) => page = Some(tree.value_page(rest)?),
            Removal::Note => tree.note_gone(key)?,
            Removal::Gone(sparse) => {
                if sparse {
                    tree.after_remove(key)?;
                }
                return Ok(true);
            }
        }
    }
}

/// Whether an entry is deleted, and by the delete at `at` by `trx`.
fn is_marker(header: Header, trx: TrxId, at: UndoPtr) -> bool {
    header.is_deleted() && header.trx == trx && header.undo == at
}

/// Whether the entry at `key` still bears the marker of the delete at `at` by `trx`. Waits.
pub(crate) fn bears_marker(tree: &Tree, key: &[u8], trx: TrxId, at: UndoPtr) -> Result<bool> {
    let leaf = tree.leaf_for_read(key)?;
    Ok(leaf.search(key).is_ok_and(|slot| is_marker(Header::split(leaf.value(slot)).0, trx, at)))
}

/// Frees `page` if the entry's long value begins there; once there is no long value the entry goes.
fn remove_step(
    mtr: &Mtr<'_>,
    tree: &Tree,
    leaf: &mut LeafWrite<'_>,
    key: &[u8],
    (trx, at): (TrxId, UndoPtr),
    page: Option<&ValuePage>,
) -> Result<Removal> {
    let Ok(slot) = leaf.search(key) else { return Ok(Removal::Nothing) };
    let (header, row) = Header::split(leaf.value(slot));
    if !is_marker(header, trx, at) {
        return Ok(Removal::Nothing);
    }
    if is_to_note(tree, leaf, slot, key) {
        return Ok(Removal::Note);
    }
    if header.is_overflow() {
        let mut rest = overflow_ref(tree.id(), row)?.page;
        if let Some(page) = page.filter(|page| page.number() == rest) {
            rest = tree.free_value_page(mtr, page, |rest| {
                leaf.patch(slot, HEADER_BYTES, &OverflowRef::rest_bytes(rest));
            })?;
        }
        if rest.0 != 0 {
            return Ok(Removal::Value(rest));
        }
    }
    leaf.remove(slot);
    Ok(Removal::Gone(leaf.room() > SPARSE_BYTES || leaf.is_empty()))
}

/// A leaf with this much room is worth merging.
const SPARSE_BYTES: usize = 12 << 10;
