//! Writing: insert, update, delete.
//!
//! The way of a write: find the leaf and latch it exclusively through a mini-transaction; decide about locks; latch the
//! undo segment's last page; put the entry, which now names the undo record to come; append that record; commit the
//! mini-transaction. Whatever is missing on the way (a lock, room in the leaf or in the undo page, an overflow value
//! to be read or written) is got with nothing latched and nothing changed, and the attempt starts again.
//!
//! The id in the entry is the row's lock. So an uncontended write makes no entry in the lock table.

use std::sync::Arc;

use keel_base::PageNo;

use crate::engine::{Engine, TreeHandle};
use crate::error::{Error, Result};
use crate::lock::{Ask, IfTaken};
use crate::mtr::Mtr;
use crate::options::{Change, Changed, Insert, LockMode, OnDuplicate, Wait};
use crate::rollback::overflow_ref;
use crate::row::{DELETED, FRESH, HEADER_BYTES, Header, OVERFLOW, is_settled};
use crate::tree::{LeafWrite, OverflowRef, Tree};
use crate::trx::TrxShared;
use crate::txn::{Buffers, State};
use crate::txn_read::RowLock;
use crate::undo::{END_HAS_DELETES, END_HAS_OVERFLOW, Kind, encode_change, push_jump};
use crate::undo_log::RECORD_MAX;
use crate::version::find_jumps;

/// What an attempt under the leaf's latch came to.
pub(crate) enum Step<T> {
    /// Entry and undo record are written.
    Wrote(T),
    /// Nothing to write.
    Done(T),
    /// A lock was asked for: wait.
    Wait,
    /// Look again.
    Again,
    /// The undo segment needs a page after this one.
    UndoFull(Option<PageNo>),
    /// The leaf needs room for so many bytes.
    Split(usize),
    /// The old row lies there and must be read first.
    Load(OverflowRef),
    /// The new row, left in the row buffer, must go to overflow pages first.
    Store,
}

/// An entry to be written.
struct Put<'a> {
    key: &'a [u8],
    /// Where it stands, or where it is to stand.
    slot: std::result::Result<usize, usize>,
    kind: Kind,
    flags: u8,
    /// The new row; not looked at for a delete, which leaves the row as it is.
    row: &'a [u8],
}

/// What the attempts of one write have got so far.
#[derive(Default)]
struct Progress {
    /// A lock was waited for.
    waited: bool,
    /// An old row that was read, and where it lay.
    loaded: Option<(OverflowRef, Vec<u8>)>,
    /// A new row that was written, and where it lies.
    stored: Option<(OverflowRef, Vec<u8>)>,
}

fn fits(row: &[u8]) -> bool {
    HEADER_BYTES + row.len() <= Tree::VALUE_MAX
}

impl State {
    /// Runs `attempt` with the leaf of `key` latched until it is through.
    fn write_loop<T>(
        &mut self,
        engine: &Engine,
        tree: &TreeHandle,
        key: &[u8],
        progress: &mut Progress,
        mut attempt: impl FnMut(&mut State, &Mtr<'_>, &mut LeafWrite<'_>, &Progress) -> Result<Step<T>>,
    ) -> Result<T> {
        loop {
            self.bound_locks(engine);
            let mtr = engine.store.begin()?;
            let step = {
                let mut leaf = tree.tree().leaf_for_write(&mtr, key)?;
                attempt(self, &mtr, &mut leaf, progress)?
            };
            if let Step::Wrote(done) = step {
                mtr.commit();
                return Ok(done);
            }
            drop(mtr);
            match step {
                Step::Done(done) | Step::Wrote(done) => return Ok(done),
                Step::Wait => {
                    progress.waited = true;
                    self.wait(engine, Wait::Default)?;
                }
                Step::Again => {}
                Step::UndoFull(full) => {
                    let segment = self.writes.as_ref().map_or(0, |writes| writes.segment);
                    engine.undo.roll_over(segment, full, self.need)?;
                }
                Step::Split(need) => {
                    if !tree.is_auxiliary() || !engine.settle_leaf(tree, key, need)? {
                        tree.tree().split_for(key, need, self.need)?;
                    }
                }
                Step::Load(at) => {
                    let mut row = Vec::new();
                    tree.tree().read_overflow(at, &mut row)?;
                    progress.loaded = Some((at, row));
                }
                Step::Store => {
                    let row = std::mem::take(&mut self.buffers.row);
                    progress.store(tree, row)?;
                }
            }
        }
    }

    /// Writes entry and undo record; on anything but `Wrote` nothing is changed.
    fn put<T>(
        &mut self,
        engine: &Engine,
        tree: &TreeHandle,
        mtr: &Mtr<'_>,
        leaf: &mut LeafWrite<'_>,
        put: &Put<'_>,
        done: T,
    ) -> Result<Step<T>> {
        let writes = self.writes.as_mut().ok_or(Error::Ended)?;
        let Buffers { record, value, .. } = &mut self.buffers;
        let old = match put.slot {
            Ok(slot) => Some(Header::split(leaf.value(slot))),
            Err(_) => None,
        };
        let old_header = old.map(|(header, _)| header);
        let settled = put.slot.is_ok_and(|slot| is_settled(leaf.value(slot)));
        let same_len = !settled && old.is_some_and(|(_, row)| row.len() == put.row.len());
        let row = old.filter(|_| put.kind == Kind::Delete).map_or(put.row, |(_, row)| row);
        encode_change(record, put.kind, writes.id, writes.last, tree.id(), put.key, old, row);
        // Nobody asks for older versions of temporary rows.
        if let Some((header, row)) = old.filter(|_| !tree.is_temporary()) {
            for jump in find_jumps(engine, writes.id, (tree.id(), put.key), header, row).into_iter().flatten()
            {
                push_jump(record, jump.past, (jump.header, &jump.row), row, RECORD_MAX);
            }
        }
        if record.len() > RECORD_MAX {
            return Err(Error::TooLarge);
        }
        let room = match engine.undo.room(writes.segment, mtr, record.len(), &mut writes.start, self.need) {
            Ok(room) => room,
            Err(full) => return Ok(Step::UndoFull(full)),
        };
        let header = Header { flags: put.flags, trx: writes.id, undo: room.ptr() };
        let written = match put.slot {
            Ok(slot) if put.kind == Kind::Delete && !settled => {
                leaf.patch(slot, 0, &header.to_bytes());
                Ok(())
            }
            Ok(slot) if same_len => {
                patch_row(leaf, slot, header, put.row);
                Ok(())
            }
            slot => {
                value.clear();
                value.extend_from_slice(&header.to_bytes());
                value.extend_from_slice(row);
                match slot {
                    Ok(slot) => leaf.replace(slot, value),
                    Err(slot) => leaf.insert(slot, put.key, value),
                }
            }
        };
        if written.is_err() {
            return Ok(Step::Split(put.key.len() + value.len()));
        }
        writes.last = room.ptr();
        room.append(record);
        writes.count(tree, put.kind);
        match (put.kind, old_header) {
            (Kind::Delete, _) => writes.end_flags |= END_HAS_DELETES,
            (Kind::Update, Some(old)) if old.is_overflow() => writes.end_flags |= END_HAS_OVERFLOW,
            _ => {}
        }
        Ok(Step::Wrote(done))
    }

    pub(crate) fn update_by<E>(
        &mut self,
        engine: &Engine,
        tree: &TreeHandle,
        key: &[u8],
        mut f: impl FnMut(&[u8], &mut Vec<u8>) -> std::result::Result<Change, E>,
    ) -> Result<std::result::Result<Changed, E>> {
        self.begin_write(engine, tree)?;
        let mut progress = Progress::default();
        let result = self.write_loop(engine, tree, key, &mut progress, |state, mtr, leaf, progress| {
            state.try_update(engine, tree, mtr, leaf, key, progress, &mut f)
        });
        match &result {
            Ok(Ok(Changed::Updated)) => self.counts.updated += u64::from(!tree.is_auxiliary()),
            Ok(Ok(Changed::Deleted)) => self.counts.deleted += u64::from(!tree.is_auxiliary()),
            Ok(Ok(Changed::NotFound)) if progress.waited => self.unlock_row(engine, tree, key),
            _ => {}
        }
        if matches!(result, Ok(Ok(Changed::Updated | Changed::Deleted))) {
            tree.note_written(key);
        }
        progress.finish(tree, matches!(result, Ok(Ok(Changed::Updated))))?;
        result
    }

    #[allow(clippy::too_many_arguments)]
    fn try_update<E>(
        &mut self,
        engine: &Engine,
        tree: &TreeHandle,
        mtr: &Mtr<'_>,
        leaf: &mut LeafWrite<'_>,
        key: &[u8],
        progress: &Progress,
        f: &mut impl FnMut(&[u8], &mut Vec<u8>) -> std::result::Result<Change, E>,
    ) -> Result<Step<std::result::Result<Changed, E>>> {
        let slot = match leaf.search(key) {
            Ok(slot) => slot,
            Err(slot) => return Ok(self.missing(tree, leaf, slot)),
        };
        let (header, row) = Header::split(leaf.value(slot));
        let own = header.trx == self.own_id();
        if header.is_deleted() && !own && !engine.table.is_active(header.trx) {
            self.pass_deleted(engine, tree, header)?;
            if !tree.is_temporary() {
                self.note_seen(engine, header.trx);
            }
            return Ok(self.missing(tree, leaf, slot));
        }
        match self.lock_row(engine, tree, key, header, LockMode::Exclusive, false, IfTaken::Queue)? {
            RowLock::Mine(_) => {}
            RowLock::Wait => return Ok(Step::Wait),
            RowLock::Again | RowLock::Taken => return Ok(Step::Again),
        }
        if header.is_deleted() {
            // Another who deleted it has ended since that was asked above.
            let is_gone = own || tree.is_temporary();
            return Ok(if is_gone { Step::Done(Ok(Changed::NotFound)) } else { Step::Again });
        }
        if header.is_overflow() {
            let at = overflow_ref(tree.id(), row)?;
            if progress.loaded_at(at).is_none() {
                // Once the latch is gone only an entry in the lock table keeps the value where it is.
                return Ok(self.keep_row(engine, tree, key, header)?.unwrap_or(Step::Load(at)));
            }
        }
        let mut new = std::mem::take(&mut self.buffers.row);
        new.clear();
        let old = match progress.loaded.as_ref().filter(|_| header.is_overflow()) {
            Some((_, row)) => row,
            None => row,
        };
        let change = match f(old, &mut new) {
            Ok(change) => change,
            Err(error) => {
                self.buffers.row = new;
                return Ok(Step::Done(Err(error)));
            }
        };
        let step = match change {
            Change::Keep if !self.isolation.locks_gaps() => Ok(Step::Done(Ok(Changed::Unchanged))),
            Change::Keep | Change::Hold => {
                let kept = self.keep_row(engine, tree, key, header);
                kept.map(|otherwise| otherwise.unwrap_or(Step::Done(Ok(Changed::Unchanged))))
            }
            Change::Delete => {
                let flags = header.flags & OVERFLOW | DELETED;
                let put = Put { key, slot: Ok(slot), kind: Kind::Delete, flags, row: &[] };
                self.put(engine, tree, mtr, leaf, &put, Ok(Changed::Deleted))
            }
            Change::Update => match progress.form(&new) {
                Some((row, flags)) => {
                    let put = Put { key, slot: Ok(slot), kind: Kind::Update, flags, row: &row };
                    self.put(engine, tree, mtr, leaf, &put, Ok(Changed::Updated))
                }
                None => {
                    let kept = self.keep_row(engine, tree, key, header);
                    kept.map(|otherwise| otherwise.unwrap_or(Step::Store))
                }
            },
        };
        self.buffers.row = new;
        // That of an index's entry stays, for a rollback to a savepoint.
        if !own && !tree.is_auxiliary() && matches!(step, Ok(Step::Wrote(_))) {
            engine.locks.drop_written(self.shared(), tree.id(), key);
        }
        step
    }

    /// No row to change at `slot`: under isolation levels that lock gaps, none will be inserted there by others.
    fn missing<E>(
        &mut self,
        tree: &TreeHandle,
        leaf: &LeafWrite<'_>,
        slot: usize,
    ) -> Step<std::result::Result<Changed, E>> {
        if self.isolation.locks_gaps() && !tree.is_temporary() {
            let (low, high) = gap_around(leaf, slot);
            let me = self.shared().clone();
            tree.gaps().lock(&me, &low, high.as_deref());
        }
        Step::Done(Ok(Changed::NotFound))
    }

    /// Enters a lock on a row that may be had, unless the row is this transaction's own. What to do where it cannot be had after
    /// all: another's locks may have become a span that covers it.
    fn keep_row<T>(
        &mut self,
        engine: &Engine,
        tree: &TreeHandle,
        key: &[u8],
        header: Header,
    ) -> Result<Option<Step<T>>> {
        if header.trx == self.own_id() {
            return Ok(None);
        }
        Ok(match self.lock_row(engine, tree, key, header, LockMode::Exclusive, true, IfTaken::Queue)? {
            RowLock::Mine(_) => None,
            RowLock::Wait => Some(Step::Wait),
            RowLock::Taken | RowLock::Again => Some(Step::Again),
        })
    }

    pub(crate) fn insert(
        &mut self,
        engine: &Engine,
        tree: &TreeHandle,
        key: &[u8],
        row: &[u8],
        on_duplicate: OnDuplicate,
    ) -> Result<Insert> {
        self.insert_checked(engine, tree, key, row, on_duplicate, |_, _| Ok(None))
    }

    /// Inserts once `check` has nothing against it, with the leaf of `key` latched.
    fn insert_checked(
        &mut self,
        engine: &Engine,
        tree: &TreeHandle,
        key: &[u8],
        row: &[u8],
        on_duplicate: OnDuplicate,
        mut check: impl FnMut(&mut State, &LeafWrite<'_>) -> Result<Option<Step<Insert>>>,
    ) -> Result<Insert> {
        if key.len() > Tree::KEY_MAX {
            return Err(Error::TooLarge);
        }
        self.begin_write(engine, tree)?;
        let mut progress = Progress::default();
        if !fits(row) {
            progress.store(tree, row.to_vec())?;
        }
        let result = self.write_loop(engine, tree, key, &mut progress, |state, mtr, leaf, progress| {
            if let Some(step) = check(state, leaf)? {
                return Ok(step);
            }
            let (row, flags) = progress.form(row).ok_or(Error::TooLarge)?;
            state.try_insert(engine, tree, mtr, leaf, key, &row, flags, on_duplicate)
        });
        if let Ok(Insert::Done) = result {
            tree.note_written(key);
            self.counts.inserted += u64::from(!tree.is_auxiliary());
        }
        progress.finish(tree, matches!(result, Ok(Insert::Done)))?;
        result
    }

    #[allow(clippy::too_many_arguments)]
    fn try_insert(
        &mut self,
        engine: &Engine,
        tree: &TreeHandle,
        mtr: &Mtr<'_>,
        leaf: &mut LeafWrite<'_>,
        key: &[u8],
        row: &[u8],
        flags: u8,
        on_duplicate: OnDuplicate,
    ) -> Result<Step<Insert>> {
        let slot = leaf.search(key);
        if let Ok(slot) = slot {
            let (header, _) = Header::split(leaf.value(slot));
            if let Some(step) = self.meet(engine, tree, key, header, on_duplicate)? {
                return Ok(step);
            }
            self.pass_deleted(engine, tree, header)?;
        }
        let me = self.shared().clone();
        if !tree.gaps().may_insert(&me, key) {
            return Ok(Step::Wait);
        }
        // Somebody may hold or want the key of a row that is gone.
        if engine.locks.is_queued(Some(&me), tree.id(), key) {
            match engine.locks.ask(&me, tree.id(), key, LockMode::Exclusive, None, IfTaken::Queue) {
                Ask::Granted | Ask::Held => {}
                Ask::Queued => return Ok(Step::Wait),
                Ask::Changed | Ask::Refused => return Ok(Step::Again),
            }
        }
        let put = match slot {
            Ok(_) => Put { key, slot, kind: Kind::Update, flags, row },
            Err(_) => Put { key, slot, kind: Kind::Insert, flags: flags | FRESH, row },
        };
        self.put(engine, tree, mtr, leaf, &put, Insert::Done)
    }

    /// An entry stands where one is to be inserted: what to do, or `None` if it is deleted and out of the way.
    fn meet(
        &mut self,
        engine: &Engine,
        tree: &TreeHandle,
        key: &[u8],
        header: Header,
        on_duplicate: OnDuplicate,
    ) -> Result<Option<Step<Insert>>> {
        let own = header.trx == self.own_id();
        // In a temporary tree whoever deleted it was of this session, and may be rolled back by the background now.
        if header.is_deleted() && (own || tree.is_temporary() || !engine.table.is_active(header.trx)) {
            return Ok(None);
        }
        let mode = match on_duplicate {
            OnDuplicate::LockShared => LockMode::Shared,
            OnDuplicate::LockExclusive => LockMode::Exclusive,
        };
        Ok(Some(match self.lock_row(engine, tree, key, header, mode, true, IfTaken::Queue)? {
            RowLock::Mine(_) if header.is_deleted() => Step::Again,
            RowLock::Mine(_) => Step::Done(Insert::Duplicate),
            RowLock::Wait => Step::Wait,
            RowLock::Taken | RowLock::Again => Step::Again,
        }))
    }

    #[allow(clippy::too_many_arguments)]
    pub(crate) fn insert_unique(
        &mut self,
        engine: &Engine,
        tree: &TreeHandle,
        key: &[u8],
        prefix_len: usize,
        row: &[u8],
        on_duplicate: OnDuplicate,
        found: &mut Vec<u8>,
    ) -> Result<Insert> {
        let prefix = &key[..prefix_len.min(key.len())];
        // Whether others are kept from the whole prefix, which lies in more than one leaf, and it was looked through.
        let mut guarded = false;
        let mut awaited = Awaited::Nothing;
        loop {
            let mut to_guard = false;
            let result = self.insert_checked(engine, tree, key, row, on_duplicate, |state, leaf| {
                if guarded {
                    return Ok(None);
                }
                if !lies_within(leaf, prefix) {
                    to_guard = true;
                    return Ok(Some(Step::Done(Insert::Duplicate)));
                }
                let first = leaf.search(prefix).unwrap_or_else(|slot| slot);
                for slot in first..leaf.len() {
                    leaf.key(slot, found);
                    if !found.starts_with(prefix) {
                        break;
                    }
                    let (header, _) = Header::split(leaf.value(slot));
                    if let Some(step) = state.meet(engine, tree, found, header, on_duplicate)? {
                        match step {
                            Step::Done(Insert::Duplicate) => state.lock_gap_below(tree, leaf, slot),
                            Step::Wait => awaited = awaited.max(Awaited::of(header)),
                            _ => {}
                        }
                        return Ok(Some(step));
                    }
                    if header.trx == state.own_id() && !tree.is_temporary() {
                        awaited = Awaited::Deleted;
                    }
                }
                // What was waited for is gone, or was deleted by this transaction.
                to_guard = awaited > Awaited::Nothing;
                Ok(to_guard.then_some(Step::Done(Insert::Duplicate)))
            })?;
            if !to_guard {
                return Ok(result);
            }
            if self.guard_prefix(engine, tree, prefix, on_duplicate, &mut awaited, found)? {
                return Ok(Insert::Duplicate);
            }
            if awaited > Awaited::Nothing {
                self.lock_gap_before(tree, prefix)?;
            }
            guarded = true;
        }
    }

    /// Keeps others from inserting before the entry in `slot`: InnoDB takes a next-key lock on the duplicate in a unique
    /// secondary index, under every isolation level.
    fn lock_gap_below(&mut self, tree: &TreeHandle, leaf: &LeafWrite<'_>, slot: usize) {
        let mut high = Vec::new();
        leaf.key(slot, &mut high);
        let me = self.shared().clone();
        tree.gaps().lock(&me, &leaf.gap_low(slot), Some(&high));
    }

    /// Keeps others from inserting keys that begin with `prefix`, and says whether a live one is there: it is locked
    /// then and in `found`. Where one was `awaited`, or was this transaction's until it deleted it, and none is there, the gap
    /// behind them is locked as well, under every isolation level, and the next entry if what was awaited was deleted: InnoDB
    /// has a next-key lock on the deleted entry, and one on the entry where it sees that there are no more equal ones. Waits.
    fn guard_prefix(
        &mut self,
        engine: &Engine,
        tree: &TreeHandle,
        prefix: &[u8],
        on_duplicate: OnDuplicate,
        awaited: &mut Awaited,
        found: &mut Vec<u8>,
    ) -> Result<bool> {
        let me: Arc<TrxShared> = self.shared().clone();
        tree.gaps().lock(&me, prefix, after_prefix(prefix).as_deref());
        let mut from = prefix.to_vec();
        loop {
            let leaf = tree.tree().leaf_for_read(&from)?;
            let first = leaf.search(&from).unwrap_or_else(|slot| slot);
            let mut stop = None;
            for slot in first..leaf.len() {
                leaf.key(slot, found);
                let (header, _) = Header::split(leaf.value(slot));
                if !found.starts_with(prefix) {
                    if *awaited > Awaited::Nothing {
                        tree.gaps().lock(&me, &from, Some(found));
                    }
                    if *awaited == Awaited::Deleted {
                        // Once it is locked, or deleted and so a part of the gap, nothing is left to do.
                        let met = self.meet(engine, tree, found, header, on_duplicate)?;
                        stop = met.filter(|step| !matches!(step, Step::Done(_)));
                    }
                    if stop.is_none() {
                        return Ok(false);
                    }
                    break;
                }
                stop = self.meet(engine, tree, found, header, on_duplicate)?;
                match stop {
                    Some(Step::Wait) => *awaited = (*awaited).max(Awaited::of(header)),
                    None if *awaited > Awaited::Nothing => *awaited = Awaited::Deleted,
                    _ => {}
                }
                if stop.is_some() {
                    break;
                }
            }
            let next = leaf.high_fence().map(<[u8]>::to_vec);
            if stop.is_none() && *awaited > Awaited::Nothing {
                tree.gaps().lock(&me, &from, next.as_deref());
            }
            drop(leaf);
            match (stop, next) {
                (Some(Step::Done(_)), _) => return Ok(true),
                (Some(Step::Wait), _) => self.wait(engine, Wait::Default)?,
                (Some(_), _) => {}
                (None, Some(next)) if *awaited > Awaited::Nothing || next.starts_with(prefix) => from = next,
                (None, _) => return Ok(false),
            }
        }
    }

    /// Keeps others from inserting between `key` and the entry before it, which may lie in an earlier leaf. Waits.
    fn lock_gap_before(&mut self, tree: &TreeHandle, key: &[u8]) -> Result<()> {
        let me: Arc<TrxShared> = self.shared().clone();
        let mut leaf = tree.tree().leaf_for_read(key)?;
        let mut slot = leaf.search(key).unwrap_or_else(|slot| slot);
        let mut high = key.to_vec();
        loop {
            tree.gaps().lock(&me, &leaf.gap_low(slot), Some(&high));
            if slot > 0 || leaf.low_fence().is_empty() {
                return Ok(());
            }
            high = leaf.low_fence().to_vec();
            drop(leaf);
            leaf = tree.tree().leaf_below(None, &high)?;
            slot = leaf.len();
        }
    }
}

/// What an insert has waited for, or deleted before, among the entries that are equal to its own, the most that it was.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Awaited {
    Nothing,
    /// An entry that was live.
    Live,
    /// One that somebody, this transaction too, had deleted.
    Deleted,
}

impl Awaited {
    fn of(header: Header) -> Awaited {
        if header.is_deleted() { Awaited::Deleted } else { Awaited::Live }
    }
}

/// Writes header and row over an entry whose row is as long, logging only what differs.
fn patch_row(leaf: &mut LeafWrite<'_>, slot: usize, header: Header, row: &[u8]) {
    let old = &leaf.value(slot)[HEADER_BYTES..];
    let first = old.iter().zip(row).position(|(a, b)| a != b);
    let last = old.iter().zip(row).rposition(|(a, b)| a != b);
    leaf.patch(slot, 0, &header.to_bytes());
    if let (Some(first), Some(last)) = (first, last) {
        leaf.patch(slot, HEADER_BYTES + first, &row[first..=last]);
    }
}

/// The gap between the live neighbours of `slot` within the leaf, or its fences.
fn gap_around(leaf: &LeafWrite<'_>, slot: usize) -> (Vec<u8>, Option<Vec<u8>>) {
    let key = |slot: usize| {
        let mut key = Vec::new();
        leaf.key(slot, &mut key);
        key
    };
    // A deleted entry in `slot` belongs to the gap.
    let deleted = slot < leaf.len() && Header::split(leaf.value(slot)).0.is_deleted();
    let above = slot + usize::from(deleted);
    let high = if above < leaf.len() { Some(key(above)) } else { leaf.high_fence().map(<[u8]>::to_vec) };
    (leaf.gap_low(slot), high)
}

/// Whether all keys that begin with `prefix` have their place in this leaf.
fn lies_within(leaf: &LeafWrite<'_>, prefix: &[u8]) -> bool {
    leaf.low_fence() <= prefix && leaf.high_fence().is_none_or(|high| !high.starts_with(prefix))
}

/// The least key above all that begin with `prefix`.
pub(crate) fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut out = prefix[..=last].to_vec();
    out[last] += 1;
    Some(out)
}

impl Progress {
    fn loaded_at(&self, at: OverflowRef) -> Option<&[u8]> {
        self.loaded.as_ref().filter(|(loaded, _)| *loaded == at).map(|(_, row)| row.as_slice())
    }

    /// What stands in the entry for `row`, and its flags; `None` if it must be stored first.
    fn form<'a>(&self, row: &'a [u8]) -> Option<(std::borrow::Cow<'a, [u8]>, u8)> {
        if fits(row) {
            return Some((row.into(), 0));
        }
        let (at, _) = self.stored.as_ref().filter(|(_, stored)| stored == row)?;
        Some((at.to_bytes().to_vec().into(), OVERFLOW))
    }

    /// Puts `row` into overflow pages, instead of one stored before. Waits.
    fn store(&mut self, tree: &TreeHandle, row: Vec<u8>) -> Result<()> {
        if let Some((at, _)) = self.stored.take() {
            tree.tree().free_overflow(at)?;
        }
        let at = tree.tree().write_overflow(&row)?;
        self.stored = Some((at, row));
        Ok(())
    }

    /// Frees a stored row that no entry refers to. Waits.
    fn finish(self, tree: &TreeHandle, used: bool) -> Result<()> {
        match self.stored {
            Some((at, _)) if !used => Ok(tree.tree().free_overflow(at)?),
            _ => Ok(()),
        }
    }
}
