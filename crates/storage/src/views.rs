//! Which snapshots are old: what writers and purge ask to know which versions of a row nobody needs.
//!
//! The list holds the views of the readers there were at a moment, and a fence: whoever is not listed sees every commit up
//! to it. So a version whose successor ended at or before the fence is needed by listed readers or by nobody. Readers
//! that have ended since only make the answer more careful. There is a list only while some reader's snapshot is older
//! than the last look around, else writers find a flag and go on.
//!
//! 1. The list keeps a registered copy of its oldest snapshot: undo records of what a listed reader does not see stay while
//!    the list is held for reading.
//! 2. What the transaction table has forgotten is seen by all but frozen snapshots. A list made before the last time that
//!    snapshots were frozen does not know which those are: [`Listed::is_current`] is asked last.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use keel_base::TrxId;
use keel_runtime::time::{self, Instant};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use crate::engine::Engine;
use crate::snapshot::{Snapshot, View};
use crate::trx::TrxState;

/// A snapshot is old if it was there so long ago.
const OLD_AFTER: Duration = Duration::from_millis(20);
/// A writer that would know more with a newer list makes one this long after the last.
const RENEW_AFTER: Duration = Duration::from_millis(1);
/// Views in a list; younger readers only lower its fence.
const VIEWS_MAX: usize = 256;

/// The list, and whether there is one.
#[derive(Default)]
pub(crate) struct Views {
    any: AtomicBool,
    list: RwLock<List>,
    last_look: Mutex<Option<Look>>,
}

/// A look around: when, and what all snapshots see that were taken since.
#[derive(Clone, Copy)]
struct Look {
    at: Instant,
    fence: u64,
}

/// The readers of a moment.
#[derive(Default)]
pub(crate) struct Readers {
    /// The oldest first; none if there is no list.
    views: Vec<View>,
    fence: u64,
    freezes: u64,
}

#[derive(Default)]
struct List {
    readers: Arc<Readers>,
    /// Keeps what the oldest needs.
    oldest: Option<Snapshot>,
    made: Option<Instant>,
}

/// The list, for who asks what its readers need.
pub(crate) struct Listed<'e> {
    engine: &'e Engine,
    readers: Kept<'e>,
}

enum Kept<'e> {
    /// Held for reading.
    List(RwLockReadGuard<'e, List>),
    /// As it was.
    Copy(&'e Readers),
}

impl Views {
    /// Whether some reader is old.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Looks around: from time to time, by the background fiber.
    pub(crate) fn refresh(&self, engine: &Engine) {
        let now = time::now();
        let mut last = self.last_look.lock();
        if last.is_some_and(|last| now < last.at + OLD_AFTER) {
            return;
        }
        let look = Look { at: now, fence: engine.snapshot_floor() };
        let before = last.replace(look).map_or(0, |last| last.fence);
        match engine.snapshots.views().first() {
            // Equal where nothing was committed since: then it costs nobody anything.
            Some(oldest) if oldest.csn <= before => self.renew(engine, &mut self.list.write()),
            _ if self.any() => self.clear(engine),
            _ => {}
        }
    }

    /// The list, made anew where it is too old to know how `trx` ended. A latch may be held.
    pub(crate) fn listed<'e>(&'e self, engine: &'e Engine, trx: TrxId) -> Option<Listed<'e>> {
        let list = self.list.read();
        if list.readers.views.is_empty() {
            return None;
        }
        let stale = list.made.is_none_or(|made| made + RENEW_AFTER <= time::now());
        let listed = Listed { engine, readers: Kept::List(list) };
        let renew = stale && (!listed.is_current() || !listed.is_seen_by_others(trx));
        if renew {
            drop(listed);
            // Somebody else reads it or makes it anew: then the old one must do.
            if let Some(mut list) = self.list.try_write() {
                self.renew(engine, &mut list);
            }
            return Some(Listed { engine, readers: Kept::List(self.list.read()) });
        }
        Some(listed)
    }

    /// The readers of the list, for who waits while it asks. It may not be purged meanwhile: see invariant 1.
    pub(crate) fn readers(&self) -> Arc<Readers> {
        self.list.read().readers.clone()
    }

    fn renew(&self, engine: &Engine, list: &mut List) {
        let freezes = engine.snapshots.freezes();
        // Before the shards are visited: later snapshots are not older.
        let mut fence = engine.snapshot_floor();
        let mut views = engine.snapshots.views();
        if let Some(first_left_out) = views.get(VIEWS_MAX) {
            fence = fence.min(first_left_out.csn);
            // Who is left out must not be frozen: see invariant 2.
            if views[VIEWS_MAX..].iter().any(|view| view.unseen.is_some()) {
                views.clear();
            }
            views.truncate(VIEWS_MAX);
        }
        // If the oldest has just ended, this list is not worth keeping.
        let oldest = views.first().and_then(|view| engine.snapshots.keep(view));
        if oldest.is_none() {
            views.clear();
        }
        if let Some(before) = list.oldest.take() {
            engine.snapshots.release(before);
        }
        self.any.store(!views.is_empty(), Ordering::Relaxed);
        let readers = Arc::new(Readers { views, fence, freezes });
        *list = List { readers, oldest, made: Some(time::now()) };
    }

    /// Lets go of what the list keeps.
    pub(crate) fn clear(&self, engine: &Engine) {
        let mut list = self.list.write();
        if let Some(oldest) = list.oldest.take() {
            engine.snapshots.release(oldest);
        }
        self.any.store(false, Ordering::Relaxed);
        *list = List::default();
    }
}

impl Readers {
    /// The oldest of them.
    pub(crate) fn oldest(&self) -> Option<&View> {
        self.views.first()
    }

    /// They, for who asks.
    pub(crate) fn listed<'e>(&'e self, engine: &'e Engine) -> Listed<'e> {
        Listed { engine, readers: Kept::Copy(self) }
    }
}

impl Listed<'_> {
    fn readers(&self) -> &Readers {
        match &self.readers {
            Kept::List(list) => &list.readers,
            Kept::Copy(readers) => readers,
        }
    }

    /// Whether what was asked so far counts: see invariant 2.
    pub(crate) fn is_current(&self) -> bool {
        self.engine.snapshots.freezes() == self.readers().freezes
    }

    /// Whether all that are not listed see what `trx` wrote.
    pub(crate) fn is_seen_by_others(&self, trx: TrxId) -> bool {
        match self.engine.table.lookup(trx) {
            Some(TrxState::Active) => false,
            Some(TrxState::Ended(csn)) => csn <= self.readers().fence,
            None => true,
        }
    }

    /// Whether any of `views` sees what `trx` wrote.
    pub(crate) fn any_sees(&self, views: &[&View], trx: TrxId) -> bool {
        let state = self.engine.table.lookup(trx);
        views.iter().any(|view| sees(view, trx, state))
    }

    /// The listed readers that do not see what `trx` wrote.
    pub(crate) fn blind_to(&self, trx: TrxId) -> Vec<&View> {
        let state = self.engine.table.lookup(trx);
        self.readers().views.iter().filter(|view| !sees(view, trx, state)).collect()
    }
}

/// Whether `view` sees what `trx` wrote, whose state is `state`. An id that ended within the view was given before it.
fn sees(view: &View, trx: TrxId, state: Option<TrxState>) -> bool {
    match state {
        Some(TrxState::Active) => false,
        Some(TrxState::Ended(csn)) => csn <= view.csn,
        None => view.sees_forgotten(trx),
    }
}
