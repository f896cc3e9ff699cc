//! Carrying out an alteration: building indexes, copying a table, and showing the result.
//!
//! New trees are made and filled in transactions of their own, so many rows at a time, before the definition's transaction
//! names them: the undo log stays short, and a crash leaves trees that nobody names. Rows are read from a snapshot, and the
//! new trees follow what others write meanwhile ([`super::online`]). The entries of a new index are sorted first, on disk where they are many: a tree larger
//! than memory that is filled in any other order reads and writes a page for each row.

use std::sync::Arc;

use keel_base::{SqlResult, TreeId, errors};
use keel_storage::{Insert, OnDuplicate, Read, ScanRange, Txn};
use keel_value::row::{self, RowRef};
use keel_value::{TypeKind, Value, convert};

use super::PendingTrees;
use super::alter::Alteration;
use super::online::{BATCH_ROWS, Building, Follow, Openness, Writing};
use super::{algorithm, checks, columns, foreign, generated, keys};
use crate::Database;
use crate::catalog::{ForeignKey, IndexDef, Shared, TableDef, TableRecord, names};
use crate::dml::{
    Checks, EntryBuffers, Generated, RowBuffers, Strictness, Written, check_rows, delete_row,
    duplicate_error, insert_at, insert_entry, insert_row, into_column, lock_row, write_entry,
};
use crate::engine_error;
use crate::mdl::Owned;
use crate::sequence;
use crate::session::Session;
use crate::sort::{Sorted, Sorter};

impl Database {
    /// Makes an altered table real; gives the number of rows that MariaDB would have copied too.
    pub(super) fn carry_out(
        &self,
        session: &mut Session,
        table: &Arc<TableDef>,
        owned: &Owned,
        mut alteration: Alteration,
    ) -> SqlResult<u64> {
        let old = table.record();
        alteration.settle(table);
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
        checks::settle_names(&mut alteration.record);
        generated::settle(session, &self.catalog(), &alteration.record)?;
        checks::settle(session, &self.catalog(), &mut alteration.record, Some(&old))?;
        keys::sort(&alteration.record.columns, &mut alteration.record.indexes);
        keys::check_auto(&alteration.record.columns, &alteration.record.indexes)?;
        keys::check_ignored(&alteration.record)?;
        let kept = &alteration.kept_indexes;
        keys::take_block_size(&mut alteration.record, |name| !kept.iter().any(|k| names::same(k, name)));
        columns::check_invisible(&alteration.record.columns, &old.columns)?;
        let added: Vec<ForeignKey> = {
            let keys = alteration.record.foreign_keys.iter();
            keys.filter(|key| alteration.new_foreign_keys.contains(&key.name)).cloned().collect()
        };
        let place = |column| alteration.place_of(column);
        if table.is_temporary() && !added.is_empty() {
            return Err(foreign::refuse_temporary(session, &old.schema, &old.name, "Alter"));
        }
        if !table.is_temporary() {
            foreign::check_alteration(session, &self.catalog(), table, &alteration.record, &place)?;
        }
        for key in &added {
            foreign::check(session, &self.catalog(), &alteration.record, key, "Alter")?;
        }
        if !table.is_temporary() {
            let words = &alteration.words;
            let allowed = algorithm::allow(&session.vars, &words.actions, words.online, &old, &alteration)?;
            alteration.copies |= allowed.told;
            alteration.words.told_to_copy = allowed.told;
            alteration.converts = becomes || allowed.copies && alteration.copies;
        }
        let copies = alteration.copies || clustering(&old) != clustering(&alteration.record);
        // Where the column that counted is gone, another counts anew.
        let counts_on = alteration.keeps_auto_increment(table);
        let chosen = alteration.next_auto.unwrap_or(1).saturating_sub(1);
        let counted = || if counts_on { self.next_auto_increment(table).saturating_sub(1) } else { 0 };
        let mut pending = PendingTrees::new(self, table.is_temporary());
        let openness = Openness::of(session, table, &alteration, copies, owned);
        let patience = super::lock_timeout(session, alteration.words.wait.as_ref());
        let open = |session: &Session| Building::begin(self, session, table, owned, openness, patience);
        let (rows, copied_auto) = if copies {
            let last_auto = counted().max(chosen);
            let copied = self.copy(session, table, &mut alteration, last_auto, &mut pending, &open)?;
            (copied.rows, copied.last_auto)
        } else {
            self.build_indexes(session, table, &mut alteration, &mut pending, &open)?;
            (0, 0)
        };
        // Others may have counted on meanwhile.
        let last_auto = counted().max(chosen).max(copied_auto);
        let checked = self.check_added(session, &alteration.record, &added)?;
        let mut record = alteration.record.clone();
        let kept = record.trees();
        let gone: Vec<TreeId> = old.trees().into_iter().filter(|t| !kept.contains(t)).collect();
        if table.is_temporary() {
            let altered = self.replace_temporary(session, table, record)?;
            session.temporary.adopt(pending.keep());
            self.raise_auto_increment(&altered, last_auto)?;
            return Ok(if alteration.converts { rows } else { checked });
        }
        let mut definition = self.definition(session)?;
        record.version = definition.catalog.version + 1;
        let shared = Shared { lock: table.shared.lock.clone(), ..Shared::default() };
        definition.drop_trees(&gone)?;
        definition.remove_table(table)?;
        if definition.catalog.require_schema(&record.schema)?.has(&record.name) {
            return Err(errors::table_exists(&record.name));
        }
        definition.check_foreign_keys(session, &record, &added, "Alter")?;
        let renamed = (&record.schema, &record.name) != (&table.schema, &table.name);
        if renamed {
            definition.check_orphans(session, &record)?;
        }
        let names = (&*table.schema, &*table.name);
        definition.rename_references(names, &record, &|column| alteration.renamed(table, column))?;
        let altered = definition.put_table(record, Arc::new(shared))?;
        if renamed || !added.is_empty() {
            definition.tell_relatives(&altered)?;
        }
        definition.commit()?;
        pending.keep();
        self.raise_auto_increment(&altered, last_auto)?;
        Ok(if alteration.converts { rows } else { checked })
    }

    /// Whether all rows have what new foreign keys ask for; gives the number of rows looked at. The table in the making and
    /// the parents are locked.
    fn check_added(&self, session: &Session, record: &TableRecord, added: &[ForeignKey]) -> SqlResult<u64> {
        if added.is_empty() || !session.vars.foreign_key_checks {
            return Ok(0);
        }
        let built = record.clone().open(self.engine(), Arc::new(Shared::default()))?;
        let catalog = self.catalog();
        // MariaDB names the table that it copies into.
        let name = format!("#sql-alter-{:x}-{:x}", std::process::id(), session.id);
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
            if clustered == Some(position) {
                alteration.record.indexes[position].tree_id = alteration.record.tree_id;
            } else if !kept {
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
        let mut count = 0;
        while let Some((key, payload)) = entries.next()? {
            let (unique_len, value) = split_payload(payload);
            if unique_len != 0 && last_unique == key[..unique_len] {
                let print = |row: &[u8]| duplicate_error(built, position, row);
                let error = reading.get(built.rows(), &key[unique_len..], Read::Snapshot, print);
                return Err(error.map_err(engine_error)?.unwrap_or_else(|| errors::dup_entry("?", "?")));
            }
            last_unique.clear();
            last_unique.extend_from_slice(&key[..unique_len]);
            loader.push(key, value).map_err(engine_error)?;
            count += 1;
            if count % BATCH_ROWS == 0 {
                session.check_interrupt()?;
            }
        }
        loader.finish().map_err(engine_error)
    }

    /// Copies all rows into new trees; a new AUTO_INCREMENT column counts on from `last_auto`.
    fn copy<'b>(
        &'b self,
        session: &mut Session,
        source: &'b Arc<TableDef>,
        alteration: &mut Alteration,
        last_auto: u64,
        pending: &mut PendingTrees<'_>,
        open: &dyn Fn(&Session) -> Building<'b>,
    ) -> SqlResult<Copied> {
        let record = &mut alteration.record;
        record.columns.iter_mut().for_each(|c| c.added_with = Value::Null);
        record.make_trees(|| pending.create(session, source.id))?;
        let copy = record.clone().open(self.engine(), Arc::new(Shared::default()))?;
        let copy = Arc::new(copy);
        let checks = Checks::bind(&self.catalog(), session, &copy)?;
        let mut generated = Generated::bind(&self.catalog(), session, &copy)?;
        let origin = &alteration.column_origin;
        let added = (0..origin.len()).filter(|place| origin[*place].is_none());
        generated.add_defaults(&self.catalog(), session, &copy, added)?;
        // What generated columns are worked out from may warn, which then is an error.
        session.abort_on_warning = session.is_strict() && !generated.is_empty();
        let mut copier = Copier {
            source,
            copy: &copy,
            origin,
            checks,
            generated,
            last_auto,
            new: Vec::new(),
            buffers: RowBuffers::default(),
        };
        let mut building = open(session);
        let rows = self.copy_rows(session, &mut building.reading, &mut copier)?;
        building.finish(session, &mut copier)?;
        if copy.clustered.is_none() && source.clustered.is_none() {
            let last = source.shared.row_number.last(self.engine(), source.rows())?;
            copy.shared.row_number.raise(self.engine(), copy.rows(), last)?;
        }
        Ok(Copied { rows, last_auto: copier.last_auto })
    }

    fn copy_rows(
        &self,
        session: &mut Session,
        reading: &mut Txn,
        copier: &mut Copier<'_>,
    ) -> SqlResult<u64> {
        let mut writing = Writing::begin(self, session);
        let mut scan =
            reading.scan(copier.source.rows(), ScanRange::ALL, Read::Snapshot).map_err(engine_error)?;
        let (mut key, mut row) = (Vec::new(), Vec::new());
        let mut count = 0;
        while let Some((found, bytes)) = scan.next(reading).map_err(engine_error)? {
            key.clear();
            key.extend_from_slice(found);
            row.clear();
            row.extend_from_slice(bytes);
            count += 1;
            session.current_row = count;
            copier.put_in(session, &mut writing.txn, &key, None, &row)?;
            writing.count(session)?;
        }
        writing.txn.commit().map_err(engine_error)?;
        Ok(count)
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
        _: &mut Session,
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
                return Err(duplicate_error(self.built, *position, new));
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
    let sorter = |_| Sorter::new(None, session.vars.tmp_memory_bytes, session.host.clone());
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

/// What orders the rows: names and directions of the clustered key's columns.
fn clustering(record: &TableRecord) -> Option<Vec<(usize, bool)>> {
    let index = &record.indexes[record.clustered()?];
    Some(index.parts.iter().map(|p| (p.column, p.descending)).collect())
}

struct Copied {
    rows: u64,
    last_auto: u64,
}

/// Rows of one table as rows of its altered self.
struct Copier<'c> {
    source: &'c TableDef,
    copy: &'c TableDef,
    origin: &'c [Option<usize>],
    checks: Checks,
    generated: Generated,
    last_auto: u64,
    /// A row of the copy.
    new: Vec<u8>,
    buffers: RowBuffers,
}

impl Follow for Copier<'_> {
    fn name(&self) -> &str {
        "PRIMARY"
    }

    fn take_out(
        &mut self,
        session: &mut Session,
        txn: &mut Txn,
        key: &[u8],
        old: &[u8],
        _: Option<&[u8]>,
    ) -> SqlResult<()> {
        let key = match self.copy.clustered_index() {
            Some(index) => self.key_of(session, index, old)?,
            None => key.to_vec(),
        };
        if !lock_row(self.copy, txn, &key, &mut self.new)? {
            return Err(errors::internal_error("a row that was copied is gone"));
        }
        delete_row(self.copy, txn, &key, &self.new, &mut self.buffers, None)
    }

    fn put_in(
        &mut self,
        session: &mut Session,
        txn: &mut Txn,
        key: &[u8],
        _: Option<&[u8]>,
        new: &[u8],
    ) -> SqlResult<()> {
        let mut row = std::mem::take(&mut self.new);
        self.convert(session, new, &mut row)?;
        self.checks.test_bytes(session, self.copy, &mut row)?;
        let (copy, buffers) = (self.copy, &mut self.buffers);
        let keeps_number = copy.clustered.is_none() && self.source.clustered.is_none();
        let written = if keeps_number {
            buffers.key.clear();
            buffers.key.extend_from_slice(key);
            insert_at(copy, txn, &row, OnDuplicate::LockShared, buffers, None)?
        } else {
            insert_row(copy, txn, &row, OnDuplicate::LockShared, buffers, None)?
        };
        if let Written::Duplicate(position) = written {
            return Err(duplicate_error(copy, position, &row));
        }
        self.new = row;
        Ok(())
    }
}

impl Copier<'_> {
    /// The clustered key that a row has in the copy. It was converted before: what there was to say was said.
    fn key_of(&mut self, session: &mut Session, index: &IndexDef, old: &[u8]) -> SqlResult<Vec<u8>> {
        let said = std::mem::take(&mut session.diagnostics);
        let view = RowRef::new(&self.source.layout, old);
        let mut values = vec![Value::Null; self.origin.len()];
        let converted = index.parts.iter().try_for_each(|part| {
            let origin = self.origin[part.column].expect("keys of rows that are followed are made of old columns");
            values[part.column] = self.converted(session, part.column, origin, view.get(origin).to_owned())?;
            Ok(())
        });
        session.diagnostics = said;
        converted?;
        let mut key = Vec::new();
        index.encode_parts(|column| values[column].as_ref(), &mut key);
        Ok(key)
    }

    fn convert(&mut self, session: &mut Session, old: &[u8], new: &mut Vec<u8>) -> SqlResult<()> {
        let view = RowRef::new(&self.source.layout, old);
        let mut values = Vec::with_capacity(self.origin.len());
        for (place, origin) in self.origin.iter().enumerate() {
            let value = match origin {
                _ if self.copy.columns[place].generated.is_some() => Value::Null,
                Some(column) => self.converted(session, place, *column, view.get(*column).to_owned())?,
                None => self.added(session, place)?,
            };
            values.push(value);
        }
        let strictness = Strictness::of(session, false, false);
        self.generated.fill(session, self.copy, &mut values, strictness)?;
        // A column that begins to count goes on behind its values.
        if let Some(auto) = self.copy.auto_increment {
            let counted = match &values[auto.column] {
                Value::Int(n) => u64::try_from(*n).unwrap_or(0),
                Value::UInt(n) => *n,
                _ => 0,
            };
            self.last_auto = self.last_auto.max(counted);
        }
        new.clear();
        row::encode_values(&self.copy.layout, &values, new);
        Ok(())
    }

    fn converted(
        &self,
        session: &mut Session,
        place: usize,
        column: usize,
        value: Value,
    ) -> SqlResult<Value> {
        let (from, to) = (&self.source.columns[column], &self.copy.columns[place]);
        if from.ty == to.ty && (to.nullable || !value.is_null()) {
            return Ok(value);
        }
        let value = match value {
            Value::DateTime(utc) if from.ty.kind == TypeKind::Timestamp => {
                Value::DateTime(convert::timestamp_to_local(utc, &*session.vars.time_zone))
            }
            other => other,
        };
        if value.is_null() && !to.nullable {
            let error = errors::warn_data_truncated(&*to.name, session.current_row);
            if session.is_strict() {
                return Err(error);
            }
            session.warn(error);
            return Ok(super::implicit_default(&to.ty));
        }
        let strictness = Strictness::of(session, false, false);
        into_column(session, self.copy, place, &from.ty, value, strictness)
    }

    fn added(&mut self, session: &mut Session, place: usize) -> SqlResult<Value> {
        let column = &self.copy.columns[place];
        if column.auto_increment {
            self.last_auto += 1;
            let next = self.last_auto;
            return Ok(if column.ty.unsigned { Value::UInt(next) } else { Value::Int(next as i64) });
        }
        super::columns::value_for_old_rows(session, column)
    }
}
