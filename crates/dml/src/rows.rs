//! Writing one row and its index entries.

use keel_base::{SqlError, SqlResult, errors};
use keel_catalog::counter::{Step, counted};
use keel_catalog::row_entries::{clustered_key, write_clustered_key, write_entry};
use keel_catalog::{IndexDef, TableDef};
use keel_context::engine_error;
use keel_exec::scratch::RowBuffers;
use keel_storage::{Insert, OnDuplicate, Read, Txn};
use keel_value::ValueRef;
use keel_value::row::RowRef;
use keel_value::temporal::Zone;

use super::entries;
use super::foreign::Ties;

/// What became of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    /// It is there.
    Done,
    /// Another row has the same key in the index of that position (none: the clustered key); its clustered key is in
    /// [`RowBuffers::existing`].
    Duplicate(usize),
}

/// Inserts a row and its entries. After a duplicate or an error, what was written of it stays until the caller undoes it.
pub fn insert(
    table: &TableDef,
    txn: &mut Txn,
    row: &[u8],
    on_duplicate: OnDuplicate,
    buffers: &mut RowBuffers,
    ties: Option<&Ties<'_>>,
) -> SqlResult<Written> {
    match table.clustered_index() {
        Some(index) => write_clustered_key(index, &RowRef::new(&table.layout, row), &mut buffers.key),
        None => next_row_number(table, &mut buffers.key)?,
    }
    insert_at(table, txn, row, on_duplicate, buffers, ties)
}

/// The same for a row whose clustered key is in [`RowBuffers::key`].
pub fn insert_at(
    table: &TableDef,
    txn: &mut Txn,
    row: &[u8],
    on_duplicate: OnDuplicate,
    buffers: &mut RowBuffers,
    ties: Option<&Ties<'_>>,
) -> SqlResult<Written> {
    let view = RowRef::new(&table.layout, row);
    if let Some(ties) = ties {
        ties.before_insert(txn, table.clustered, &view)?;
    }
    if txn.insert(table.rows(), &buffers.key, row, on_duplicate).map_err(engine_error)? == Insert::Duplicate {
        buffers.existing.clone_from(&buffers.key);
        return Ok(Written::Duplicate(table.clustered.unwrap_or(0)));
    }
    for (position, index) in table.indexes.iter().enumerate() {
        if table.clustered == Some(position) {
            continue;
        }
        write_entry(index, &view, &buffers.key, &mut buffers.entry);
        if let Some(ties) = ties {
            ties.before_insert(txn, Some(position), &view)?;
        }
        if insert_entry(txn, index, on_duplicate, buffers)? == Insert::Duplicate {
            return Ok(Written::Duplicate(position));
        }
    }
    Ok(Written::Done)
}

fn next_row_number(table: &TableDef, key: &mut Vec<u8>) -> SqlResult<()> {
    let number = table.row_counting().reserve(1, Step::ONE, u64::MAX - 1)?;
    let number = number.ok_or_else(errors::autoinc_read_failed)?;
    key.clear();
    key.extend_from_slice(&number.to_be_bytes());
    Ok(())
}

/// Inserts the entry in `buffers.entry`; on a duplicate leaves the other row's clustered key in `buffers.existing`.
pub fn insert_entry(
    txn: &mut Txn,
    index: &IndexDef,
    on_duplicate: OnDuplicate,
    buffers: &mut RowBuffers,
) -> SqlResult<Insert> {
    let RowBuffers { entry, found, existing, .. } = buffers;
    if !index.is_unique() || entry.has_null {
        return txn.insert(index.entries(), &entry.key, &entry.value, on_duplicate).map_err(engine_error);
    }
    let outcome = txn
        .insert_unique(index.entries(), &entry.key, entry.parts_len, &entry.value, on_duplicate, found)
        .map_err(engine_error)?;
    if outcome == Insert::Duplicate {
        existing.clear();
        existing.extend_from_slice(clustered_key(index, found));
    }
    Ok(outcome)
}

/// Deletes a row, which the caller has locked, and its entries. After an error, what was done of it stays until the caller
/// undoes it.
pub fn delete(
    table: &TableDef,
    txn: &mut Txn,
    primary: &[u8],
    row: &[u8],
    buffers: &mut RowBuffers,
    ties: Option<&Ties<'_>>,
) -> SqlResult<()> {
    txn.delete(table.rows(), primary).map_err(engine_error)?;
    delete_entries(table, txn, primary, row, buffers, ties)
}

/// Deletes the entries of a row that is gone from the clustered tree.
pub(super) fn delete_entries(
    table: &TableDef,
    txn: &mut Txn,
    primary: &[u8],
    row: &[u8],
    buffers: &mut RowBuffers,
    ties: Option<&Ties<'_>>,
) -> SqlResult<()> {
    let view = RowRef::new(&table.layout, row);
    if let (Some(ties), Some(position)) = (ties, table.clustered) {
        ties.after_delete(txn, position, &view)?;
    }
    for (position, index) in table.indexes.iter().enumerate() {
        if table.clustered == Some(position) {
            continue;
        }
        write_entry(index, &view, primary, &mut buffers.old_entry);
        txn.delete(index.entries(), &buffers.old_entry.key).map_err(engine_error)?;
        if let Some(ties) = ties {
            ties.after_delete(txn, position, &view)?;
        }
    }
    Ok(())
}

/// Which indexes an update may touch.
#[derive(Debug, Clone, Default)]
pub(super) struct Touched {
    /// Whether the clustered key may change.
    pub clustered: bool,
    /// Positions of the secondary indexes whose entries may change.
    pub indexes: Vec<usize>,
    /// How a row is locked that has a new key of the row already.
    pub on_duplicate: OnDuplicate,
}

impl Touched {
    /// The indexes of `table` that hold one of the columns that `changes` says.
    pub fn of(table: &TableDef, changes: impl Fn(usize) -> bool) -> Touched {
        let holds = |index: &IndexDef| {
            index.parts.iter().any(|p| changes(p.column)) || index.entry.columns().any(&changes)
        };
        let clustered = table.clustered_index().is_some_and(|i| i.parts.iter().any(|p| changes(p.column)));
        let secondary = |i: &usize| table.clustered != Some(*i);
        let indexes = (0..table.indexes.len())
            .filter(secondary)
            .filter(|i| clustered || holds(&table.indexes[*i]))
            .collect();
        Touched { clustered, indexes, on_duplicate: OnDuplicate::default() }
    }

    /// Whether entries of this index of `table` may change.
    pub fn has(&self, table: &TableDef, index: usize) -> bool {
        if table.clustered == Some(index) { self.clustered } else { self.indexes.contains(&index) }
    }
}

/// Puts `new` in the place of the row `old`, which the caller has locked.
#[expect(clippy::too_many_arguments, reason = "what a row's change is made of; all callers have them apart")]
pub(super) fn update(
    table: &TableDef,
    touched: &Touched,
    txn: &mut Txn,
    primary: &[u8],
    old: &[u8],
    new: &[u8],
    buffers: &mut RowBuffers,
    ties: Option<&Ties<'_>>,
) -> SqlResult<Written> {
    let view = RowRef::new(&table.layout, new);
    buffers.key.clear();
    buffers.key.extend_from_slice(primary);
    if touched.clustered
        && let Some(index) = table.clustered_index()
    {
        write_clustered_key(index, &view, &mut buffers.key);
    }
    if buffers.key == primary {
        txn.update(table.rows(), primary, new).map_err(engine_error)?;
        // Texts may change that are equal.
        if let (Some(ties), Some(position), true) = (ties, table.clustered, touched.clustered) {
            ties.after_change(txn, position, &RowRef::new(&table.layout, old), &view)?;
        }
    } else {
        txn.delete(table.rows(), primary).map_err(engine_error)?;
        if let (Some(ties), Some(position)) = (ties, table.clustered) {
            ties.after_change(txn, position, &RowRef::new(&table.layout, old), &view)?;
            ties.before_insert(txn, Some(position), &view)?;
        }
        let inserted =
            txn.insert(table.rows(), &buffers.key, new, touched.on_duplicate).map_err(engine_error)?;
        if inserted == Insert::Duplicate {
            buffers.existing.clone_from(&buffers.key);
            return Ok(Written::Duplicate(table.clustered.unwrap_or(0)));
        }
    }
    update_entries(table, touched, txn, primary, old, new, buffers, ties)
}

/// Brings the entries of a row up to date after its change in the clustered tree to the key `buffers.key`.
#[expect(clippy::too_many_arguments, reason = "what a row's change is made of; all callers have them apart")]
pub(super) fn update_entries(
    table: &TableDef,
    touched: &Touched,
    txn: &mut Txn,
    primary: &[u8],
    old: &[u8],
    new: &[u8],
    buffers: &mut RowBuffers,
    ties: Option<&Ties<'_>>,
) -> SqlResult<Written> {
    let (old, new) = (RowRef::new(&table.layout, old), RowRef::new(&table.layout, new));
    for position in &touched.indexes {
        let index = &table.indexes[*position];
        write_entry(index, &old, primary, &mut buffers.old_entry);
        write_entry(index, &new, &buffers.key, &mut buffers.entry);
        let (before, after) = (&buffers.old_entry, &buffers.entry);
        if before.key == after.key {
            if before.value != after.value {
                txn.update(index.entries(), &after.key, &after.value).map_err(engine_error)?;
            }
            if let Some(ties) = ties {
                ties.after_change(txn, *position, &old, &new)?;
                if buffers.key != primary {
                    ties.before_insert(txn, Some(*position), &new)?;
                }
            }
            continue;
        }
        txn.delete(index.entries(), &before.key).map_err(engine_error)?;
        if let Some(ties) = ties {
            ties.after_change(txn, *position, &old, &new)?;
            ties.before_insert(txn, Some(*position), &new)?;
        }
        if insert_entry(txn, index, touched.on_duplicate, buffers)? == Insert::Duplicate {
            return Ok(Written::Duplicate(*position));
        }
    }
    Ok(Written::Done)
}

/// Reads and locks the row at `primary` into `out`; false if it is gone.
pub fn lock_row(table: &TableDef, txn: &mut Txn, primary: &[u8], out: &mut Vec<u8>) -> SqlResult<bool> {
    let found = txn.get(table.rows(), primary, Read::FOR_UPDATE, |row| {
        out.clear();
        out.extend_from_slice(row);
    });
    Ok(found.map_err(engine_error)?.is_some())
}

/// A row's key in an index, as errors print it.
pub(super) fn printed_row_key(
    table: &TableDef,
    position: usize,
    row: &RowRef<'_>,
    zone: &dyn Zone,
) -> String {
    let printed = |index| entries::printed_key(table, index, row, zone);
    table.indexes.get(position).map_or_else(String::new, printed)
}

/// 1062 for a row and the index in which it is a duplicate.
#[cold]
pub fn duplicate_error(table: &TableDef, position: usize, row: &[u8], zone: &dyn Zone) -> SqlError {
    let Some(index) = table.indexes.get(position) else { return errors::dup_entry("?", "PRIMARY") };
    let view = RowRef::new(&table.layout, row);
    errors::dup_entry(entries::printed_key(table, index, &view, zone), &index.name)
}

/// Keeps the table's AUTO_INCREMENT counter above a stored value; gives the value where it is one that counts.
pub(super) fn raise_auto_increment(
    table: &TableDef,
    value: ValueRef<'_>,
    step: Step,
) -> SqlResult<Option<u64>> {
    let (Some(counting), Some(given)) = (table.counting(), counted(value)) else { return Ok(None) };
    counting.raise(given)?;
    counting.counter.pass(given, step);
    Ok(Some(given))
}
