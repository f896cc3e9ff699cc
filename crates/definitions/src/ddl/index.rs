//! Carrying out an alteration: building indexes, or copying the table, and showing the result.
//!
//! New trees are made and filled in transactions of their own, so many rows at a time, before the definition's transaction
//! names them: the undo log stays short, and a crash leaves trees that nobody names. Rows are read from a snapshot, and the
//! new trees follow what others write meanwhile ([`super::online`]). The entries of a new index are sorted first, on disk where they are many: a tree larger
//! than memory that is filled in any other order reads and writes a page for each row.

use std::sync::Arc;

use keel_base::{SqlResult, TreeId, errors};
use keel_catalog::counter::counted;
use keel_catalog::{AutoIncrement, ForeignKey, IndexKind, IndexRecord, Shared, TableDef, TableRecord, names};
use keel_context::engine_error;
use keel_context::mdl::Owned;
use keel_context::sort::{Sorted, Sorter};
use keel_dml::{EntryBuffers, RowBuffers, check_rows, duplicate_error, insert_entry, write_entry};
use keel_exec::sequence;
use keel_exec::session::Session;
use keel_storage::{Insert, OnDuplicate, Read, ScanRange, Txn};
use keel_value::row::RowRef;

use super::alter::Alteration;
use super::copy::Copied;
use super::online::{Building, Follow, Openness};
use super::{PendingTrees, algorithm, checks, columns, foreign, generated, kept, keys, row_size};
use crate::ddl::Definer;

impl Definer<'_> {
    /// Makes an altered table real; gives the rows that MariaDB would have copied too.
    pub(super) fn carry_out(
        &self,
        session: &mut Session,
        table: &Arc<TableDef>,
        owned: &Owned,
        mut alteration: Alteration,
    ) -> SqlResult<Copied> {
        let old = table.record();
        alteration.settle(table)?;
        let becomes = alteration.record.options.is_sequence() != table.is_sequence();
        // MariaDB copies the row then, and counts it.
        alteration.copies |= becomes;
        alteration.converts |= becomes;
        if alteration.record.options.is_sequence() {
            sequence::check_shape(&alteration.record)?;
        }
        if alteration.record.options.is_sequence() && !table.is_sequence() {
            sequence::check_rows(session, table)?;
        }
        columns::check_defaults(session, &self.catalog(), &alteration.record.columns)?;
        if !alteration.words.is_simple() {
            let kept = alteration.record.columns.iter().filter(|column| old.columns.contains(column));
            columns::check_kept_defaults(session, kept)?;
        }
        checks::settle_names(&mut alteration.record);
        kept::check_literals(session, &alteration.record, Some(&old), &copy_name(session))?;
        generated::settle(session, &self.catalog(), &alteration.record)?;
        checks::settle(session, &self.catalog(), &mut alteration.record, Some(&old))?;
        let (fitted, indexes) = (&alteration.record.columns, &mut alteration.record.indexes);
        alteration.copies |= keys::fit(session, fitted, indexes)?;
        keys::sort(&alteration.record.columns, &mut alteration.record.indexes);
        keys::check_auto(&alteration.record.columns, &alteration.record.indexes)?;
        keys::check_ignored(&alteration.record)?;
        keys::check_primary(&alteration.record, self.forces_primary_key())?;
        let kept = &alteration.kept_indexes;
        keys::take_block_size(&mut alteration.record, |name| !kept.iter().any(|k| names::same(k, name)));
        let changes_format = alteration.record.options.row_format != old.options.row_format;
        let is_new = |name: &str| changes_format || !kept.iter().any(|k| names::same(k, name));
        keys::check_row_format(&alteration.record, is_new)?;
        columns::check_invisible(&alteration.record.columns, &old.columns)?;
        let added: Vec<ForeignKey> = {
            let keys = alteration.record.foreign_keys.iter();
            keys.filter(|key| alteration.new_foreign_keys.contains(&key.name)).cloned().collect()
        };
        if table.is_temporary() && !added.is_empty() {
            return Err(foreign::refuse_temporary(session, &old.schema, &old.name, "Alter"));
        }
        let reorders = clustering(&old, &Some)
            != clustering(&alteration.record, &|place| alteration.column_origin[place]);
        let mut verb = foreign::Verb::Alter;
        // What refers to the new name is not looked at then.
        let mut renames_copy = false;
        if !table.is_temporary() {
            let words = &alteration.words;
            let allowed = algorithm::allow(&session.vars, &words.actions, words.online, &old, &alteration)?;
            // Rows that are duplicates are left out as they are copied.
            let may_drop = alteration.words.ignore && adds_unique(&alteration);
            let as_there = alteration.rearranges || algorithm::moves_virtual(&old, &alteration);
            alteration.copies |= allowed.told || may_drop || allowed.copies && as_there;
            alteration.tests_rows = allowed.told || allowed.copies || becomes;
            alteration.converts |= may_drop;
            alteration.words.told_to_copy = allowed.told;
            alteration.converts = becomes || may_drop || allowed.copies && (alteration.copies || reorders);
            let checks = session.vars.foreign_key_checks;
            let way = foreign::Way { copies: allowed.copies, checks, copy: copy_name(session) };
            let place = |column| alteration.place_of(column);
            foreign::check_alteration(&self.catalog(), table, &alteration.record, &place, &way)?;
            row_size::check_columns(session, &alteration.record)?;
            if way.copies {
                row_size::check(session, &alteration.record, Some(&old))?;
            }
            if !way.copies && !alteration.copies {
                alteration.keep_same_indexes(&old);
            }
            renames_copy = way.copies && !checks;
            if !way.copies && !checks {
                verb = foreign::Verb::AlterInPlace;
                foreign::check_in_place(&self.catalog(), table, &alteration.record, &added)?;
            }
        } else if alteration.copies {
            algorithm::allow_temporary(&alteration.words.actions)?;
            row_size::check_columns(session, &alteration.record)?;
            row_size::check(session, &alteration.record, Some(&old))?;
        }
        for key in &added {
            foreign::check(session, &self.catalog(), &alteration.record, key, verb)?;
        }
        self.refuse_zero_dates(session, table, &alteration)?;
        let copies = alteration.copies || reorders;
        // Where the column that counted is gone, another counts again, and where the statement says so, the same one.
        let counts_on = alteration.keeps_auto_increment(table);
        let chosen = alteration.next_auto.map(|next| next.saturating_sub(1));
        let last_counted = || match chosen {
            Some(chosen) => Ok(chosen),
            None if counts_on => self.last_auto_increment(table),
            None => Ok(0),
        };
        let mut pending = PendingTrees::new(self, table.is_temporary());
        let openness = Openness::of(session, table, &alteration, copies, owned);
        let patience = super::lock_timeout(session, alteration.words.wait.as_ref());
        let open = |session: &Session| Building::begin(self, session, table, owned, openness, patience);
        let mut copied = Copied::default();
        if copies {
            copied = self.copy(session, table, &mut alteration, last_counted()?, &mut pending, &open)?;
        } else {
            self.build_indexes(session, table, &mut alteration, &mut pending, &open)?;
        }
        // Others may have counted on meanwhile.
        let last_auto = last_counted()?.max(copied.last_auto);
        let checked = self.check_added(session, &alteration.record, &added)?;
        let mut record = alteration.record.clone();
        // A counter in which the old table still counts may be lowered once that is gone.
        let lowers = chosen.is_some() && !table.is_temporary() && self.counts_in(&record, &old.trees())?;
        // Before the definition, so that it is as durable.
        match chosen.is_some() && !lowers {
            true => self.count_as_chosen(session, &record, last_auto)?,
            false => self.count_on(&record, last_auto)?,
        }
        let kept = record.trees();
        let gone: Vec<TreeId> = old.trees().into_iter().filter(|t| !kept.contains(t)).collect();
        if table.is_temporary() {
            self.replace_temporary(session, table, record)?;
            session.temporary.adopt(pending.keep());
            return Ok(copied.shown(alteration.converts, checked));
        }
        let mut definition = self.definition(session)?;
        record.version = definition.catalog.version + 1;
        let shared = Shared { lock: table.shared.lock.clone(), ..Shared::default() };
        definition.drop_trees(&gone)?;
        definition.remove_table(table)?;
        if definition.catalog.require_schema(&record.schema)?.has(&record.name) {
            return Err(errors::table_exists(&record.name));
        }
        definition.check_foreign_keys(session, &record, &old.foreign_keys, &added, verb)?;
        let renamed = (&record.schema, &record.name) != (&table.schema, &table.name);
        if renamed && !renames_copy {
            definition.check_renamed(table, &record)?;
        }
        let names = (&*table.schema, &*table.name);
        definition.rename_references(names, &record, &|column| alteration.renamed(table, column))?;
        let altered = definition.put_table(record, Arc::new(shared))?;
        if renamed || !added.is_empty() {
            definition.tell_relatives(&altered)?;
        }
        definition.commit()?;
        pending.keep();
        if lowers {
            // Where it fails, numbers are left out.
            let _ = self.count_as_chosen(session, &alteration.record, last_auto);
        }
        Ok(copied.shown(alteration.converts, checked))
    }

    /// A table in the making, if it counts.
    fn counting(&self, record: &TableRecord) -> SqlResult<Option<(TableDef, AutoIncrement)>> {
        if !record.columns.iter().any(|column| column.auto_increment) {
            return Ok(None);
        }
        let built = record.clone().open(self.engine(), Arc::new(Shared::default()))?;
        Ok(built.auto_increment.map(|auto| (built, auto)))
    }

    /// Whether a table in the making counts in one of these trees.
    fn counts_in(&self, record: &TableRecord, trees: &[TreeId]) -> SqlResult<bool> {
        let counting = self.counting(record)?;
        Ok(counting.is_some_and(|(built, auto)| trees.contains(&built.indexes[auto.index].entries().id())))
    }

    /// Has a table in the making count on behind `last`.
    fn count_on(&self, record: &TableRecord, last: u64) -> SqlResult<()> {
        self.counting(record)?.map_or(Ok(()), |(built, _)| self.raise_auto_increment(&built, last))
    }

    /// The same where `last` was chosen: it may be less than before, but not than the values that are there. Nobody else may use
    /// the table.
    fn count_as_chosen(&self, session: &Session, record: &TableRecord, last: u64) -> SqlResult<()> {
        let Some((built, auto)) = self.counting(record)? else { return Ok(()) };
        let index = &built.indexes[auto.index];
        let mut reading = self.engine().begin(super::online::quiet(session));
        let range = ScanRange { reverse: !index.parts[0].descending, ..ScanRange::ALL };
        let mut scan = reading.scan(index.entries(), range, Read::Snapshot).map_err(engine_error)?;
        let found = scan.next(&mut reading).map_err(engine_error)?;
        let greatest = found.and_then(|(key, value)| counted(index.entry.get(auto.column, key, value)));
        let last = last.max(greatest.unwrap_or(0)).min(u64::MAX - 1);
        reading.rollback().map_err(engine_error)?;
        self.engine().set_counter(index.entries(), last).map_err(engine_error)
    }

    /// Whether all rows have what new foreign keys ask for; gives the number of rows looked at. The table in the making and
    /// the parents are locked.
    pub(super) fn check_added(
        &self,
        session: &Session,
        record: &TableRecord,
        added: &[ForeignKey],
    ) -> SqlResult<u64> {
        if added.is_empty() || !session.vars.foreign_key_checks {
            return Ok(0);
        }
        let built = record.clone().open(self.engine(), Arc::new(Shared::default()))?;
        let catalog = self.catalog();
        // MariaDB names the table that it copies into.
        let name = copy_name(session);
        let mut reading = self.engine().begin(super::online::quiet(session));
        let mut count = 0;
        for key in added {
            let parent = match key.refers_to(&record.schema, &record.name) {
                true => Some(&built),
                false => catalog.table(&key.ref_schema, &key.ref_table).map(|parent| &**parent),
            };
            let failure = key.failure_in(&record.schema, &name);
            count = check_rows(session, &mut reading, &built, key, parent, &failure)?;
        }
        reading.rollback().map_err(engine_error)?;
        Ok(count)
    }

    /// Makes the trees of new indexes and fills them from the rows.
    fn build_indexes<'b>(
        &'b self,
        session: &mut Session,
        table: &'b Arc<TableDef>,
        alteration: &mut Alteration,
        pending: &mut PendingTrees<'_>,
        open: &dyn Fn(&Session) -> Building<'b>,
    ) -> SqlResult<()> {
        let clustered = alteration.record.clustered();
        let mut new = Vec::new();
        for position in 0..alteration.record.indexes.len() {
            let index = &alteration.record.indexes[position];
            let kept = alteration.kept_indexes.iter().any(|k| names::same(k, &index.name));
            // One that has ordered the rows and does not any more needs entries of its own.
            let of_rows = index.tree_id == alteration.record.tree_id;
            if clustered == Some(position) {
                alteration.record.indexes[position].tree_id = alteration.record.tree_id;
            } else if !kept || of_rows {
                alteration.record.indexes[position].set_new_tree(pending.create(session, table.id)?);
                new.push(position);
            }
        }
        if new.is_empty() {
            return Ok(());
        }
        let built = alteration.record.clone().open(self.engine(), Arc::new(Shared::default()))?;
        let mut building = open(session);
        let sorters = gather_entries(session, &mut building.reading, table, &built, &new)?;
        for (sorter, position) in sorters.into_iter().zip(&new) {
            self.fill_index(session, &mut building.reading, &built, *position, sorter.finish()?)?;
        }
        building.finish(session, &mut NewIndexes { built: &built, new: &new, buffers: RowBuffers::default() })
    }

    /// Fills an index with entries that come in order: its pages become full one after the other, and equal keys of a unique one
    /// are neighbours.
    fn fill_index(
        &self,
        session: &Session,
        reading: &mut Txn,
        built: &TableDef,
        position: usize,
        mut entries: Sorted,
    ) -> SqlResult<()> {
        let mut loader = self.engine().loader(built.indexes[position].entries());
        let mut last_unique = Vec::new();
        while let Some((key, payload)) = entries.next_entry()? {
            session.let_others_run()?;
            let (unique_len, value) = split_payload(payload);
            if unique_len != 0 && last_unique == key[..unique_len] {
                let print = |row: &[u8]| duplicate_error(built, position, row, &*session.vars.time_zone);
                let error = reading.get(built.rows(), &key[unique_len..], Read::Snapshot, print);
                return Err(error.map_err(engine_error)?.unwrap_or_else(|| errors::dup_entry("?", "?")));
            }
            last_unique.clear();
            last_unique.extend_from_slice(&key[..unique_len]);
            loader.push(key, value).map_err(engine_error)?;
        }
        loader.finish().map_err(engine_error)
    }
}

/// New indexes that follow the rows.
struct NewIndexes<'i> {
    built: &'i TableDef,
    /// Their positions.
    new: &'i [usize],
    buffers: RowBuffers,
}

impl Follow for NewIndexes<'_> {
    fn name(&self) -> &str {
        &self.built.indexes[self.new[0]].name
    }

    fn take_out(
        &mut self,
        _: &mut Session,
        txn: &mut Txn,
        key: &[u8],
        old: &[u8],
        new: Option<&[u8]>,
    ) -> SqlResult<()> {
        let old = RowRef::new(&self.built.layout, old);
        let new = new.map(|new| RowRef::new(&self.built.layout, new));
        let RowBuffers { entry, old_entry, .. } = &mut self.buffers;
        for index in self.new.iter().map(|position| &self.built.indexes[*position]) {
            write_entry(index, &old, key, old_entry);
            if let Some(new) = &new {
                write_entry(index, new, key, entry);
                if entry.key == old_entry.key {
                    continue;
                }
            }
            txn.delete(index.entries(), &old_entry.key).map_err(engine_error)?;
        }
        Ok(())
    }

    fn put_in(
        &mut self,
        session: &mut Session,
        txn: &mut Txn,
        key: &[u8],
        old: Option<&[u8]>,
        new: &[u8],
    ) -> SqlResult<()> {
        let view = RowRef::new(&self.built.layout, new);
        let old = old.map(|old| RowRef::new(&self.built.layout, old));
        for position in self.new {
            let index = &self.built.indexes[*position];
            write_entry(index, &view, key, &mut self.buffers.entry);
            if let Some(old) = &old {
                let RowBuffers { entry, old_entry, .. } = &mut self.buffers;
                write_entry(index, old, key, old_entry);
                if entry.key == old_entry.key {
                    if entry.value != old_entry.value {
                        txn.update(index.entries(), &entry.key, &entry.value).map_err(engine_error)?;
                    }
                    continue;
                }
            }
            let inserted = insert_entry(txn, index, OnDuplicate::LockShared, &mut self.buffers)?;
            if inserted == Insert::Duplicate {
                return Err(duplicate_error(self.built, *position, new, &*session.vars.time_zone));
            }
        }
        Ok(())
    }
}

/// The entries that rows have in each of the new indexes.
fn gather_entries(
    session: &Session,
    reading: &mut Txn,
    source: &TableDef,
    built: &TableDef,
    new: &[usize],
) -> SqlResult<Vec<Sorter>> {
    let sorter = |_| Sorter::new(None, session.vars.tmp_memory_bytes, session.work());
    let mut sorters: Vec<Sorter> = new.iter().map(sorter).collect();
    let mut scan = reading.scan(source.rows(), ScanRange::ALL, Read::Snapshot).map_err(engine_error)?;
    let mut entry = EntryBuffers::default();
    let mut payload = Vec::new();
    while let Some((key, bytes)) = scan.next(reading).map_err(engine_error)? {
        let view = RowRef::new(&built.layout, bytes);
        for (sorter, position) in sorters.iter_mut().zip(new) {
            let index = &built.indexes[*position];
            write_entry(index, &view, key, &mut entry);
            let is_unique = index.is_unique() && !entry.has_null;
            write_payload(if is_unique { entry.parts_len } else { 0 }, &entry.value, &mut payload);
            sorter.push_bytes(&entry.key, &payload)?;
        }
    }
    Ok(sorters)
}

/// What an entry's key carries through the sort: how much of it no other may have, 0 for nothing, and the entry's value.
fn write_payload(unique_len: usize, value: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&(unique_len as u32).to_le_bytes());
    out.extend_from_slice(value);
}

fn split_payload(payload: &[u8]) -> (usize, &[u8]) {
    let (unique_len, value) = payload.split_first_chunk().expect("what write_payload wrote");
    (u32::from_le_bytes(*unique_len) as usize, value)
}

/// The name of the table that MariaDB copies into.
pub(super) fn copy_name(session: &Session) -> String {
    format!("#sql-alter-{:x}-{:x}", std::process::id(), session.id)
}

/// Whether an index is new that takes no key twice.
fn adds_unique(alteration: &Alteration) -> bool {
    let kept = |index: &IndexRecord| alteration.kept_indexes.iter().any(|k| names::same(k, &index.name));
    alteration.record.indexes.iter().any(|index| index.kind != IndexKind::Plain && !kept(index))
}

/// A part of the key that orders the rows: the place of its column in the old table, its prefix and its direction.
type Order = (Option<usize>, Option<u32>, bool);

/// What orders the rows.
fn clustering(record: &TableRecord, origin: &dyn Fn(usize) -> Option<usize>) -> Option<Vec<Order>> {
    let index = &record.indexes[record.clustered()?];
    Some(index.parts.iter().map(|p| (origin(p.column), p.prefix, p.descending)).collect())
}
