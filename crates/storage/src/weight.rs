//! How heavy a transaction is: the rows that it changed and its locks, counted about as InnoDB counts them (`TRX_WEIGHT` in
//! trx0trx.h). Of the members of a deadlock the lightest is rolled back.
//!
//! InnoDB has one lock for each table, for each page and kind of row lock, and for what is waited for. A row that its writer
//! found stays locked by a lock of its own, one that it inserted is locked by its id alone. Keel locks keys and ranges of keys:
//! the kinds are told from these, and so many rows of a tree are taken for a page.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use keel_base::TreeId;

use crate::engine::Engine;
use crate::lock_ranges::KeyRange;
use crate::lock_wait::WaitTarget;
use crate::options::LockMode;
use crate::trx::TrxShared;

/// Rows of a tree that one lock of InnoDB's may be for.
const ROWS_PER_PAGE: u64 = 128;
/// Entries that are looked at; beyond them the rows changed or the sheer number decides.
const ENTRIES_MAX: usize = 1024;

/// What a transaction has locked of one tree.
#[derive(Default)]
struct Tally {
    /// Rows alone, and rows with the gap before them; shared and exclusive.
    rows: [u64; 2],
    next_keys: [u64; 2],
    /// Gaps behind which no row is locked.
    gaps: u64,
    /// Whether it changed rows that were there.
    changed: bool,
    /// Whether the first of its rows that is still listed is shared: the table's intention to share came before the other.
    began_shared: bool,
    /// Whether it waits for a row exclusively, or to insert one.
    wants_exclusive: bool,
}

impl Tally {
    fn is_empty(&self) -> bool {
        self.rows == [0, 0] && self.next_keys == [0, 0]
    }

    /// Locks on pages.
    fn page_locks(&self) -> u64 {
        let kinds = self.rows.iter().chain(&self.next_keys).chain(std::iter::once(&self.gaps));
        let read: u64 = kinds.map(|rows| rows.div_ceil(ROWS_PER_PAGE)).sum();
        // Its entries of changed rows are gone.
        let is_found_by_gaps = self.gaps != 0 || self.next_keys[1] != 0;
        read + u64::from(self.changed && self.rows[1] == 0 && !is_found_by_gaps)
    }

    /// Intention locks on the table.
    fn table_locks(&self) -> u64 {
        let is_exclusive = self.wants_exclusive || self.rows[1] != 0 || self.next_keys[1] != 0;
        1 + u64::from(self.began_shared && is_exclusive && !self.changed)
    }
}

/// What was counted, by tree.
#[derive(Default)]
struct Tallies(Vec<(TreeId, Tally)>);

impl Tallies {
    fn of(&mut self, tree: TreeId) -> &mut Tally {
        let place = self.0.iter().position(|(known, _)| *known == tree).unwrap_or_else(|| {
            self.0.push((tree, Tally::default()));
            self.0.len() - 1
        });
        &mut self.0[place].1
    }
}

impl Engine {
    /// Rows that `trx` changed and its [locks](Engine::lock_count).
    pub(crate) fn weight(&self, trx: &Arc<TrxShared>) -> u64 {
        trx.rows.load(Ordering::Relaxed) + self.lock_count(trx)
    }

    /// The locks of `trx` on tables and on pages by kind, with the one that it waits for.
    pub(crate) fn lock_count(&self, trx: &Arc<TrxShared>) -> u64 {
        let (names, gaps, others) = trx.held.lock().first(ENTRIES_MAX);
        let mut tallies = Tallies::default();
        let ranges: Vec<(TreeId, Vec<KeyRange>)> =
            gaps.iter().map(|gaps| (gaps.tree(), gaps.ranges_of(trx))).collect();
        let ranges_of =
            |tree| ranges.iter().find(|(known, _)| *known == tree).map_or(&[][..], |(_, all)| all);
        for name in &names {
            let tree = name.tree();
            let Some((mode, true)) = self.locks.request_of(trx, name) else { continue };
            let tally = tallies.of(tree);
            tally.began_shared |= mode == LockMode::Shared && tally.is_empty();
            let kinds =
                if is_behind(ranges_of(tree), name.key()) { &mut tally.next_keys } else { &mut tally.rows };
            kinds[usize::from(mode == LockMode::Exclusive)] += 1;
        }
        for (tree, ranges) in &ranges {
            let is_row = |end: &[u8]| names.iter().any(|name| name.tree() == *tree && name.key() == end);
            let some = ranges.iter().take(ROWS_PER_PAGE as usize);
            let alone = some.filter(|range| !range.high.as_deref().is_some_and(is_row));
            tallies.of(*tree).gaps = alone.count() as u64;
        }
        for written in trx.written.lock().iter() {
            tallies.of(written.tree).changed |= written.changed;
        }
        let waits_for = trx.wait.target().map(|target| match target {
            WaitTarget::Row { name, mode } => (name.tree(), mode),
            WaitTarget::Gap { gaps, .. } => (gaps.tree(), LockMode::Exclusive),
        });
        if let Some((tree, mode)) = waits_for {
            tallies.of(tree).wants_exclusive |= mode == LockMode::Exclusive;
        }
        let known = self.trees.read();
        let is_table = |tree: &TreeId| known.get(tree).is_none_or(|handle| !handle.is_auxiliary());
        let tables: u64 =
            tallies.0.iter().filter(|(tree, _)| is_table(tree)).map(|(_, tally)| tally.table_locks()).sum();
        let pages: u64 = tallies.0.iter().map(|(_, tally)| tally.page_locks()).sum();
        // Who has read an index alone has its table too.
        let tables = tables.max(u64::from(!tallies.0.is_empty()));
        tables + pages + others.div_ceil(ROWS_PER_PAGE) + u64::from(waits_for.is_some())
    }
}

/// Whether the gap before the row at `key` is in one of `ranges`, which are in order.
fn is_behind(ranges: &[KeyRange], key: &[u8]) -> bool {
    let after = ranges.partition_point(|range| *range.low < *key);
    let range = after.checked_sub(1).map(|before| &ranges[before]);
    range.is_some_and(|range| range.high.as_deref().is_none_or(|high| key <= high))
}
