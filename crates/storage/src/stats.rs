//! Counters of rows and transactions, one shard for each worker so that none of them is shared on the way.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::engine::EngineStatus;

const SHARDS: usize = 16;

/// What one transaction did since it last reported.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct RowCounts {
    /// Rows read.
    pub(crate) read: u64,
    /// Rows inserted.
    pub(crate) inserted: u64,
    /// Rows updated.
    pub(crate) updated: u64,
    /// Rows deleted.
    pub(crate) deleted: u64,
    /// Commits of writers.
    pub(crate) commits: u64,
    /// Rollbacks of writers.
    pub(crate) rollbacks: u64,
    /// Undo records read for older versions.
    pub(crate) versions: u64,
}

impl RowCounts {
    fn fields(self) -> [u64; FIELDS] {
        [self.read, self.inserted, self.updated, self.deleted, self.commits, self.rollbacks, self.versions]
    }
}

const FIELDS: usize = 7;

#[repr(align(64))]
#[derive(Default)]
struct Shard([AtomicU64; FIELDS]);

/// The counters of an engine.
#[derive(Default)]
pub(crate) struct RowStats {
    shards: [Shard; SHARDS],
}

impl RowStats {
    /// Adds and empties `counts`.
    pub(crate) fn report(&self, worker: usize, counts: &mut RowCounts) {
        let shard = &self.shards[worker % SHARDS].0;
        for (counter, count) in shard.iter().zip(std::mem::take(counts).fields()) {
            if count != 0 {
                counter.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// Puts the sums into `status`.
    pub(crate) fn add_to(&self, status: &mut EngineStatus) {
        let sum = |field: usize| -> u64 {
            self.shards.iter().map(|shard| shard.0[field].load(Ordering::Relaxed)).sum()
        };
        status.rows_read = sum(0);
        status.rows_inserted = sum(1);
        status.rows_updated = sum(2);
        status.rows_deleted = sum(3);
        status.commits = sum(4);
        status.rollbacks = sum(5);
        status.versions_read = sum(6);
    }
}
