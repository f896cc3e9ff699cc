//! What purge does for one transaction, and for many at once.
//!
//! Where data is larger than memory, each removal of an entry is likely a read. One after the other they would take longer than
//! the deletes did, which many sessions made beside each other; so the transactions of a batch are shared out to fibers. Their
//! order does not matter: an entry bears one marker, and an old value is named by one undo record.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use keel_base::PageNo;
use keel_runtime::fiber;
use keel_runtime::sync::Semaphore;
use keel_runtime::wait::WaitEvent;
use parking_lot::Mutex;

use crate::buffer::free::ForAll;
use crate::engine::{Engine, TreeHandle};
use crate::error::{Error, Result};
use crate::fault::StoreError;
use crate::layout::PAGE;
use crate::rollback::{bears_marker, overflow_ref, read_record, remove_deleted};
use crate::snapshot::View;
use crate::tree::{OverflowRef, Tree};
use crate::undo::{
    ChangeRecord, Common, END_HAS_DELETES, END_HAS_OVERFLOW, Kind, UndoPtr, decode_change, middle_offset,
};
use crate::undo_log::Ended;
use crate::version::finds_row_behind;
use crate::views::{Listed, Readers};

/// Fibers at work on a batch where nobody chose: about as many reads at once keep a device busy. Among many transactions that change
/// rows they would have too small a part of it, and of the processors: then one for so many of those.
const FIBERS_USUAL: usize = 32;
const TRANSACTIONS_FOR_EACH: usize = 4;
/// Frames of the pool for each of them: it pins some while it waits for another.
const FRAMES_EACH: u64 = 16;

/// Changes of one transaction that it is remembered to have changed again.
const REPLACED_MAX: usize = 1024;

/// A batch that is shared out.
struct Shared {
    ends: Vec<Common>,
    next: AtomicUsize,
    /// The first that failed, and why.
    failed: Mutex<Option<(usize, Error)>>,
    done: Semaphore,
    /// Who may need what they deleted; none where everybody sees them.
    readers: Option<Arc<Readers>>,
}

/// Says that a fiber is done with its share, however it ends.
struct Done {
    shared: Arc<Shared>,
    /// What it is at.
    at: usize,
}

impl Drop for Done {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.note(self.at, Error::Ended);
        }
        self.shared.done.release(1);
    }
}

impl Shared {
    fn note(&self, number: usize, error: Error) {
        let mut failed = self.failed.lock();
        if failed.as_ref().is_none_or(|(first, _)| number < *first) {
            *failed = Some((number, error));
        }
    }

    fn work(self: &Arc<Self>, engine: &Engine) {
        let mut done = Done { shared: self.clone(), at: 0 };
        while self.failed.lock().is_none() {
            done.at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(end) = self.ends.get(done.at) else { return };
            if let Err(error) = engine.purge_transaction(end, self.readers.as_deref()) {
                self.note(done.at, error);
            }
        }
    }
}

/// Changes that the same transaction has changed again, as those newer ones tell, which purge meets first.
///
/// The marker of a row that was deleted and inserted anew in one transaction is gone: to look for it would be a read for nothing.
#[derive(Default)]
struct Replaced(HashSet<UndoPtr>);

impl Replaced {
    /// Remembers the change at `at`; forgets it where there are many, which costs that read.
    fn add(&mut self, at: UndoPtr) {
        if self.0.len() < REPLACED_MAX {
            self.0.insert(at);
        }
    }

    /// Whether the change at `at` is one of them; it is asked for once.
    fn take(&mut self, at: UndoPtr) -> bool {
        self.0.remove(&at)
    }
}

/// Does what these transactions have left to do; gives how many of them, from the first on, are done with. Where not everybody
/// sees them, only what none of the `readers` needs goes. Waits.
pub(crate) fn purge_together(
    engine: &Arc<Engine>,
    ended: &[Ended],
    readers: Option<Arc<Readers>>,
) -> (usize, Result<()>) {
    let has_work = |ended: &&Ended| ended.common.flags & work_of(readers.as_deref()) != 0;
    let room = engine.pool_bytes() / PAGE as u64 / FRAMES_EACH;
    let usual = FIBERS_USUAL.max(engine.active.len() / TRANSACTIONS_FOR_EACH);
    let most = engine.purge.chosen(&engine.purge.fibers_max, usual);
    let fibers = ended.iter().filter(has_work).count().min(most).min(room.max(1) as usize);
    if fibers == 0 {
        return (ended.len(), Ok(()));
    }
    engine.purge.batches.fetch_add(1, Ordering::Relaxed);
    engine.purge.fibers.store(fibers as u64, Ordering::Relaxed);
    let shared = Arc::new(Shared {
        ends: ended.iter().map(|ended| ended.common).collect(),
        next: AtomicUsize::new(0),
        failed: Mutex::new(None),
        done: Semaphore::new(0),
        readers,
    });
    // All of them are fibers of their own: a panic in one is an error of this batch, and purge goes on.
    for _ in 0..fibers {
        let (shared, engine) = (shared.clone(), engine.clone());
        fiber::spawn(move || {
            let _for_all = ForAll::begin();
            shared.work(&engine);
        });
    }
    shared.done.acquire(fibers as u64, WaitEvent::Purge);
    match shared.failed.lock().take() {
        None => (ended.len(), Ok(())),
        Some((number, error)) => (number, Err(error)),
    }
}

/// The flags of transactions that have something to do.
fn work_of(readers: Option<&Readers>) -> u8 {
    match readers {
        Some(_) => END_HAS_DELETES,
        None => END_HAS_DELETES | END_HAS_OVERFLOW,
    }
}

impl Engine {
    fn purge_transaction(&self, end: &Common, readers: Option<&Readers>) -> Result<()> {
        if end.flags & work_of(readers) == 0 {
            return Ok(());
        }
        let listed = readers.map(|readers| readers.listed(self));
        let blind = listed.as_ref().map_or_else(Vec::new, |listed| listed.blind_to(end.trx));
        let mut replaced = Replaced::default();
        self.walk_transaction(end, |at, change, tree| {
            if let Some(old) = change.old.filter(|old| old.header.is_deleted() && old.header.trx == end.trx) {
                replaced.add(old.header.undo);
            }
            match (change.common.kind, &change.old) {
                (Kind::Delete, _) if replaced.take(at) => Ok(()),
                (Kind::Delete, _) => match &listed {
                    Some(listed) if self.must_stay(listed, &blind, at, change, tree.tree())? => Ok(()),
                    _ => {
                        let removed = remove_deleted(self, tree.tree(), change.key, end.trx, at)?;
                        if removed && listed.is_some() {
                            self.purge.ahead.fetch_add(1, Ordering::Relaxed);
                        }
                        Ok(())
                    }
                },
                (Kind::Update, Some(old)) if listed.is_none() && old.header.is_overflow() => {
                    let value = overflow_ref(change.tree, old.middle())?;
                    self.free_old_value(at, change.key.len(), tree.tree(), value.page)
                }
                _ => Ok(()),
            }
        })
    }

    /// Whether the entry that the record at `at` deleted must stay for one of `blind`, who do not see the delete; also where
    /// that is not known, or the entry is not there. Waits.
    fn must_stay(
        &self,
        listed: &Listed<'_>,
        blind: &[&View],
        at: UndoPtr,
        change: &ChangeRecord<'_>,
        tree: &Tree,
    ) -> Result<bool> {
        let Some(old) = &change.old else { return Ok(true) };
        if old.header.is_overflow() {
            return Ok(true);
        }
        // The way back may be long: it is worth going only from the newest version.
        if !old.header.is_fresh() && !bears_marker(tree, change.key, change.common.trx, at)? {
            return Ok(true);
        }
        for view in blind {
            if finds_row_behind(self, change, |trx| listed.any_sees(&[*view], trx))? {
                return Ok(true);
            }
        }
        Ok(!listed.is_current())
    }

    /// Frees what is left of the old value that the undo record at `at` names, which comes to name less and less. Waits.
    fn free_old_value(&self, at: UndoPtr, key_len: usize, tree: &Tree, mut rest: PageNo) -> Result<()> {
        if rest.0 == 0 {
            return Ok(());
        }
        let record = self.store.undo_pin(PageNo(at.page))?;
        let offset = usize::from(at.offset) + middle_offset(key_len);
        while rest.0 != 0 {
            if self.purge.stop.is_set() {
                return Err(Error::Ended);
            }
            let page = tree.value_page(rest)?;
            let mtr = self.store.begin()?;
            rest = tree.free_value_page(&mtr, &page, |rest| {
                mtr.undo_write(&record).write(offset, &OverflowRef::rest_bytes(rest));
            })?;
            mtr.commit();
            tree.value_page_freed(&page);
        }
        Ok(())
    }

    /// Calls `f` with each change of a transaction, the newest first, where it stands, and its tree.
    fn walk_transaction(
        &self,
        end: &Common,
        mut f: impl FnMut(UndoPtr, &ChangeRecord<'_>, &TreeHandle) -> Result<()>,
    ) -> Result<()> {
        let mut at = end.before;
        let mut record = Vec::new();
        while !at.is_none() {
            let common = read_record(self, at, &mut record)?;
            let change = decode_change(&record).filter(|_| common.trx == end.trx);
            let Some(change) = change else { break };
            if let Some(tree) = self.tree_of_change(change.tree, end.trx) {
                match f(at, &change, &tree) {
                    // Dropped meanwhile.
                    Err(Error::Store(StoreError::NoTree(_))) => {}
                    Err(error) if self.passes_over(&error) => self.complain(&error),
                    result => result?,
                }
            }
            if self.purge.stop.is_set() {
                return Err(Error::Ended);
            }
            at = change.common.before;
            fiber::tick();
        }
        Ok(())
    }
}
