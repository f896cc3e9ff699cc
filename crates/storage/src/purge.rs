//! Purge: removes what no snapshot can see any more, in the order of commits.
//!
//! A round takes a copy of the oldest snapshot, then goes through the end records of each
//! segment that this snapshot sees: everybody sees those transactions, so the versions before them are needed by
//! nobody. A transaction that only inserted or updated in place needs no more than to be passed. Of one that deleted
//! rows the chain is walked, and entries that still bear the delete's marker are removed, those of many transactions at a
//! time ([`crate::purge_walk`]). Then undo pages are freed. Where an old reader keeps it back, it goes ahead for what came and
//! went meanwhile ([`crate::purge_ahead`]).
//!
//! A fiber of its own rolls back transactions that nobody owns: unfinished ones found by recovery, and those whose session
//! was lost without ending them. They hold their locks until then; a stop leaves the rest to the next start. It also drops
//! trees of definitions that failed, where these had no room to do so.
//!
//! When most of the undo file is free, its end is given back to the file system ([`crate::shrink`]).
//!
//! A crash makes purge start again from the last persisted place; walking a transaction twice does nothing the second
//! time, because markers are gone. Long values bear no markers; so whatever refers to one, a deleted entry or an undo record,
//! names what is left of it in the very mini-transactions that free its pages, one by one.
//!
//! A damaged page of one tree, or of one segment's undo, does not stop the others: entries that cannot be reached stay, deleted
//! for everybody, and transactions that cannot be rolled back are tried again and again, the others first.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use keel_base::TrxId;
use keel_runtime::console;
use keel_runtime::fiber;
use keel_runtime::time::{self, Instant};
use keel_runtime::wait::WaitEvent;

use crate::buffer::free::ForAll;
use crate::engine::{Engine, TreeHandle};
use crate::error::{Error, Result};
use crate::fault::StoreError;
use crate::purge_ahead::Ahead;
use crate::purge_walk::purge_together;
use crate::shrink::{Cut, CutDone};
use crate::snapshot::Snapshot;
use crate::tree::OverflowRef;
use crate::undo::Common;

/// Pause after a round that found nothing to do; doubled each time until the longest.
const IDLE_PAUSE: Duration = Duration::from_millis(25);
const IDLE_PAUSE_MAX: Duration = Duration::from_millis(400);
/// Pause after a round that failed.
const ERROR_PAUSE: Duration = Duration::from_secs(1);
/// Rounds that fail for a page that cannot be read before its entry is left where it is.
const READ_TRIES_MAX: u32 = 10;
/// Transactions purged in a segment before the next has its turn, where nobody chose.
pub(crate) const BATCH: usize = 512;

/// How often the undo file's length is looked at.
const LENGTH_LOOK: Duration = Duration::from_secs(2);
/// The file is too long if it has this many times the pages in use, and more than so many.
const LONG_TIMES: u64 = 4;
const LONG_PAGES: u64 = 1024;

/// Starts the background fibers.
pub(crate) fn start(engine: &Arc<Engine>) {
    let purging = engine.clone();
    fiber::spawn_service("purge", move || {
        let _for_all = ForAll::begin();
        let engine = purging;
        let mut length = Length { next_look: time::now(), cut: None };
        let mut ahead = Ahead::default();
        let round = || {
            let count = engine.background_round(&mut ahead);
            let minded = engine.mind_length(&mut length);
            let count = count.and_then(|count| minded.map(|()| count));
            // Other errors, such as a full disk, say nothing about the pages that cannot be read.
            if let Err(Error::Store(StoreError::Io { .. })) = &count {
                engine.purge.failures.fetch_add(1, Ordering::Relaxed);
            }
            count
        };
        until_stopped(&engine, round);
        engine.views.clear(&engine);
        engine.purge.stopped.set();
    });
    let engine = engine.clone();
    fiber::spawn_service("rollback", move || {
        let _for_all = ForAll::begin();
        until_stopped(&engine, || engine.roll_back_orphans());
        engine.purge.rollback_stopped.set();
    });
}

/// Does rounds, with pauses where there was nothing to do.
fn until_stopped(engine: &Engine, mut round: impl FnMut() -> Result<u64>) {
    let mut idle_pause = IDLE_PAUSE;
    while !engine.purge.stop.is_set() {
        let pause = match round() {
            Ok(0) => idle_pause,
            Ok(_) => {
                idle_pause = IDLE_PAUSE;
                fiber::yield_now();
                continue;
            }
            Err(Error::Ended) if engine.purge.stop.is_set() => break,
            Err(error) => {
                engine.complain(&error);
                ERROR_PAUSE
            }
        };
        idle_pause = (idle_pause * 2).min(IDLE_PAUSE_MAX);
        engine.purge.stop.wait_until(WaitEvent::Purge, time::now() + pause);
    }
}

/// What becomes of the undo file's length.
struct Length {
    next_look: Instant,
    cut: Option<Cut>,
}

impl Engine {
    fn background_round(self: &Arc<Self>, ahead: &mut Ahead) -> Result<u64> {
        self.views.refresh(self);
        // None waits for the other's damage.
        let mut failed = None;
        let mut count =
            Self::done(self.free_values(), &mut failed) + Self::done(self.purge_round(), &mut failed);
        if count == 0 {
            count = Self::done(self.purge_ahead(ahead), &mut failed);
        }
        failed.map_or(Ok(()), Err)?;
        self.purge.failures.store(0, Ordering::Relaxed);
        if count == 0 && self.undo.history_len() != 0 && self.snapshots.len() == 0 {
            // What is left ended beyond the durable end of the log; a rollback waits for no log, so nobody else may.
            self.store.wait_durable(self.store.current_lsn())?;
        }
        Ok(count)
    }

    /// What a part of a round has done; an error goes to `failed`, that of a page that cannot be read in the place of others:
    /// these are counted, since such pages are given up some time.
    fn done(result: Result<u64>, failed: &mut Option<Error>) -> u64 {
        result.unwrap_or_else(|error| {
            if failed.is_none() || matches!(error, Error::Store(StoreError::Io { .. })) {
                *failed = Some(error);
            }
            0
        })
    }

    fn roll_back_orphans(self: &Arc<Self>) -> Result<u64> {
        let mut count = 0;
        let mut failed = None;
        let orphans = std::mem::take(&mut *self.purge.orphans.lock());
        for mut writes in orphans {
            match writes.roll_back(self) {
                Ok(()) => count += 1,
                Err(error) => {
                    self.purge.orphans.lock().push(writes);
                    failed = Some(error);
                }
            }
        }
        self.remove_suspects()?;
        self.drop_abandoned()?;
        failed.map_or(Ok(count), Err)
    }

    /// Removes the trees of transactions rolled back here that no row names; looks again at those of whom that is not known
    /// yet.
    fn remove_suspects(&self) -> Result<()> {
        let mut suspects = std::mem::take(&mut *self.purge.suspects.lock());
        let result = self.remove_unnamed(&mut suspects);
        self.purge.suspects.lock().append(&mut suspects);
        result
    }

    /// Says once what goes wrong in the background; not once the store has stopped, whose reason is told by others.
    pub(crate) fn complain(&self, error: &Error) {
        if self.failure().is_some() {
            return;
        }
        let text = error.to_string();
        let mut last = self.purge.complaint.lock();
        if *last != text {
            console::warning(format_args!("background rollback or purge failed, will retry: {text}"));
            *last = text;
        }
    }

    /// Whether what cannot be done to an entry is to be left undone: its page is damaged, or could not be read for long.
    pub(crate) fn passes_over(&self, error: &Error) -> bool {
        match error {
            Error::Store(StoreError::Corrupt { .. }) => true,
            Error::Store(StoreError::Io { .. }) => {
                self.purge.failures.load(Ordering::Relaxed) > READ_TRIES_MAX
            }
            _ => false,
        }
    }

    /// Gives the end of the undo file back where it is much longer than what is used. Waits.
    fn mind_length(&self, length: &mut Length) -> Result<()> {
        let now = time::now();
        if now < length.next_look {
            return Ok(());
        }
        length.next_look = now + LENGTH_LOOK;
        if let Some(cut) = length.cut {
            match self.store.undo_cut(cut)? {
                CutDone::Over => length.cut = None,
                CutDone::Wait => self.store.welcome_checkpoint(cut.lsn()),
            }
            return Ok(());
        }
        let (used, there) = (self.undo.page_count(), u64::from(self.store.undo_file_pages()));
        if there > LONG_PAGES && there > LONG_TIMES * used {
            self.undo.leave_behind((2 * used).max(LONG_PAGES / 2) as u32)?;
            length.cut = self.store.undo_plan_cut()?;
            // The checkpoint stays before the last group of the log: here is one more.
            self.undo.save_purge(0)?;
        }
        Ok(())
    }

    /// Purges what all see; says how many transactions and pages. Waits.
    fn purge_round(self: &Arc<Self>) -> Result<u64> {
        let oldest = self.snapshots.take_oldest(&self.table, || self.store.durable_lsn().0);
        let result = self.purge_below(&oldest);
        self.snapshots.release(oldest);
        result
    }

    fn purge_below(self: &Arc<Self>, oldest: &Snapshot) -> Result<u64> {
        let (mut count, mut failed) = (0, None);
        let mut segments: Vec<usize> = (0..self.undo.segment_count()).collect();
        loop {
            let before = count;
            segments.retain(|segment| {
                let purged = self.purge_segment(*segment, oldest);
                let goes_on = purged.is_ok();
                count += Self::done(purged, &mut failed);
                goes_on
            });
            // The next round comes after a pause: the other segments are done first.
            if failed.is_none() || count == before || self.purge.stop.is_set() {
                return failed.map_or(Ok(count), Err);
            }
        }
    }

    fn purge_segment(self: &Arc<Self>, segment: usize, oldest: &Snapshot) -> Result<u64> {
        let batch = self.purge.chosen(&self.purge.batch_max, BATCH);
        let may_pass = |end: &Common| self.snapshots.sees(oldest, &self.table, end.trx);
        let ended = self.undo.next_ended(segment, batch, may_pass)?;
        let (purged, result) = purge_together(self, &ended, None);
        ended[..purged].iter().for_each(|ended| self.undo.pass(segment, ended));
        result?;
        Ok(purged as u64 + self.undo.free_passed(segment)?)
    }

    /// Whether purge may have passed the end of `trx`, or may by now.
    pub(crate) fn is_purgeable(&self, trx: TrxId) -> bool {
        self.snapshots.all_see(&self.table, || self.store.durable_lsn().0, trx)
    }

    /// Frees a long value that nothing refers to any more; later, where that fails now. Waits.
    pub(crate) fn free_value(&self, tree: &TreeHandle, value: OverflowRef) {
        let mut place = value.page;
        if tree.tree().free_overflow_from(&mut place).is_err() {
            self.purge.values.lock().push((tree.id(), place));
        }
    }

    /// Frees long values that could not be freed when that was due. Waits.
    fn free_values(&self) -> Result<u64> {
        let (mut count, mut failed) = (0, None);
        let values = std::mem::take(&mut *self.purge.values.lock());
        for (tree, mut place) in values {
            let Some(handle) = self.any_tree(tree) else { continue };
            match handle.tree().free_overflow_from(&mut place) {
                Err(StoreError::Corrupt { .. } | StoreError::NoTree(_)) | Ok(()) => count += 1,
                Err(error) => {
                    self.purge.values.lock().push((tree, place));
                    failed = Some(error.into());
                }
            }
        }
        failed.map_or(Ok(count), Err)
    }
}
