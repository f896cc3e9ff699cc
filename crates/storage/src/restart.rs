//! Opening the engine, after a clean stop or a crash.
//!
//! The store has repeated the log when it comes back, so pages are as of the last durable mini-transaction. The undo
//! log tells who had ended: a transaction with records and no end record is unfinished. It gets its place in the
//! transaction table and its locks (the ids in its rows) back before anybody else may begin, and is rolled back: at once
//! as far as that is soon done, else by the background fiber while others already work. One that is prepared ([`crate::prepared`])
//! keeps its locks and waits for its verdict.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use keel_base::{TreeId, TrxId};
use keel_runtime::console;
use parking_lot::RwLock;

use crate::admission::Admission;
use crate::engine::{Background, Engine, TreeHandle};
use crate::error::{Error, Result};
use crate::fault::StoreError;
use crate::lock::LockTable;
use crate::lock_wait::WaitStats;
use crate::options::EngineConfig;
use crate::options::Isolation;
use crate::own_trees::{REGISTRY, UNDO};
use crate::prepared::Recovered;
use crate::rollback::Writes;
use crate::snapshot::SnapshotSet;
use crate::space::file_name;
use crate::stats::RowStats;
use crate::store::{Durability, Store};
use crate::trx::{ActiveSet, TrxShared, TrxTable};
use crate::undo_log::{UndoLog, Unfinished};
use crate::views::Views;

/// Changes of unfinished transactions, the smallest first, that are taken back before the engine opens.
const CHANGES_FIRST: u64 = 2000;

/// Opens the engine. Waits.
pub(crate) fn open(config: EngineConfig) -> Result<Arc<Engine>> {
    let store = Store::open(config.store.clone(), &mut |_| {})?;
    open_on(store.clone(), &config).map_err(|error| match error {
        Error::Store(error) => store.explain(error).into(),
        error => error,
    })
}

fn open_on(store: Arc<Store>, config: &EngineConfig) -> Result<Arc<Engine>> {
    let durability = config.store.durability;
    let (undo, unfinished) = UndoLog::open(&store)?;
    let (next, limit) = undo.raise_trx_limit()?;
    let registry = match store.tree(REGISTRY) {
        Some(tree) => tree,
        None if !store.tree_ids().is_empty() => {
            let why = "trees/t1.kt is missing, which names all other trees".into();
            return Err(StoreError::Unusable(why).into());
        }
        None => {
            // Its pages say where the log ends.
            store.wait_durable(store.current_lsn())?;
            store.create_tree(REGISTRY)?
        }
    };
    let engine = Engine {
        table: TrxTable::new(next, limit),
        active: ActiveSet::new(),
        snapshots: SnapshotSet::new(keel_runtime::slot_count()),
        views: Views::default(),
        locks: LockTable::new(config.row_locks_max),
        waits: WaitStats::default(),
        searches_deadlocks: AtomicBool::new(true),
        deadlock_log: Default::default(),
        admission: Admission::default(),
        undo,
        trees: RwLock::default(),
        temporary_ids: AtomicU32::new(1),
        first_trx: next,
        registry: TreeHandle::new(registry),
        tree_ids: keel_runtime::sync::Mutex::new(()),
        trx_ids: keel_runtime::sync::Mutex::new(()),
        rows: RowStats::default(),
        lock_wait_nanos_max: AtomicU64::new(config.lock_wait_timeout.as_nanos() as u64),
        relaxed: AtomicBool::new(durability != Durability::Commit),
        tightening: AtomicBool::new(false),
        purge: Background::default(),
        prepared: Default::default(),
        store,
    };
    engine.open_trees();
    engine.take_over(unfinished)?;
    let engine = Arc::new(engine);
    engine.stand_in_for_lost()?;
    crate::purge::start(&engine);
    Ok(engine)
}

impl Engine {
    fn open_trees(&self) {
        let mut trees = self.trees.write();
        for id in self.store.tree_ids() {
            if id != UNDO && id != REGISTRY {
                trees.extend(self.store.tree(id).map(|tree| (id, TreeHandle::new(tree))));
            }
        }
    }

    /// Keeps what is prepared, rolls back what is small, leaves the rest to the background, removes files that nobody names.
    fn take_over(&self, unfinished: Vec<Unfinished>) -> Result<()> {
        let (prepared, unfinished): (Vec<_>, Vec<_>) =
            unfinished.into_iter().partition(|found| found.prepared.is_some());
        *self.prepared.lock() = prepared.into_iter().filter_map(|found| self.adopt_prepared(found)).collect();
        let mut orphans: Vec<Writes> = unfinished.into_iter().map(|found| self.adopt(found)).collect();
        orphans.sort_by_key(|writes| writes.changes);
        let mut sum = 0;
        let first = orphans.iter().take_while(|writes| {
            sum += writes.changes;
            sum <= CHANGES_FIRST
        });
        let large = orphans.split_off(first.count());
        for mut writes in orphans {
            match writes.roll_back(self) {
                Err(Error::Store(StoreError::LogFailed)) => return Err(StoreError::LogFailed.into()),
                // A full disk or a damaged page: the background tries again, others need not wait for that.
                Err(_) => self.purge.orphans.lock().push(writes),
                Ok(()) => {}
            }
        }
        let mut all: Vec<TreeId> = self.trees.read().keys().copied().collect();
        self.remove_unnamed(&mut all)?;
        *self.purge.suspects.lock() = all;
        self.purge.orphans.lock().extend(large);
        Ok(())
    }

    /// Trees that are named and have no file can be dropped, and nothing else.
    fn stand_in_for_lost(self: &Arc<Self>) -> Result<()> {
        for (id, _) in self.trees()? {
            if self.tree(id).is_none() {
                console::error(format_args!("the file trees/{} is missing, its data is lost", file_name(id)));
                let tree = self.store.stand_in(id)?;
                self.trees.write().insert(id, TreeHandle::new(tree));
            }
        }
        Ok(())
    }

    fn adopt_prepared(&self, mut found: Unfinished) -> Option<Recovered> {
        let (end_flags, name) = found.prepared.take()?;
        let writes = Writes { end_flags, prepared: true, ..self.adopt(found) };
        writes.shared.rolling_back.store(false, Ordering::Relaxed);
        writes.shared.prepared.store(true, Ordering::Relaxed);
        Some(Recovered { name, writes })
    }

    fn adopt(&self, found: Unfinished) -> Writes {
        let id = TrxId(found.trx);
        let shared = TrxShared::new(id, None, Isolation::RepeatableRead);
        shared.changes.store(found.changes, Ordering::Relaxed);
        shared.rows.store(found.changes, Ordering::Relaxed);
        shared.rolling_back.store(true, Ordering::Relaxed);
        self.table.adopt(found.trx);
        self.active.add(&shared);
        Writes {
            shared,
            id,
            segment: found.segment,
            start: Some(found.start_seq),
            last: found.last,
            changes: found.changes,
            rows: found.changes,
            newest_trees: Default::default(),
            end_flags: 0,
            prepared: false,
            lasting: true,
            exempt: Vec::new(),
        }
    }
}
