//! Carrying out an alteration: building indexes, copying a table, and showing the result.
//!
//! New trees are made and filled in transactions of their own, so many rows at a time, before the definition's transaction
//! names them: the undo log stays short, and a crash leaves trees that nobody names. The table's exclusive lock keeps all
//! others out, so the rows stand still. The entries of a new index are sorted first, on disk where they are many: a tree larger
//! than memory that is filled in any other order reads and writes a page for each row.

use std::sync::Arc;

use keel_base::{SqlResult, TreeId, errors};
use keel_storage::{OnDuplicate, Read, ScanRange, Txn, TxnOptions};
use keel_value::row::{self, RowRef};
use keel_value::{SqlMode, TypeKind, Value, convert};

use super::PendingTrees;
use super::alter::Alteration;
use super::{algorithm, checks, columns, foreign, generated, keys};
use crate::Database;
use crate::catalog::{ForeignKey, Shared, TableDef, TableRecord, names};
use crate::dml::{
    Checks, EntryBuffers, Generated, RowBuffers, Strictness, Written, check_rows, duplicate_error,
    insert_row, into_column, write_entry,
};
use crate::engine_error;
use crate::sequence;
use crate::session::Session;
use crate::sort::{Sorted, Sorter};

/// Rows written between two commits while trees are filled.
const BATCH_ROWS: u64 = 4096;

impl Database {
    /// Makes an altered table real; gives the number of rows that MariaDB would have copied too.
    pub(super) fn carry_out(
        &self,
        session: &mut Session,
        table: &Arc<TableDef>,
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
        let (fitted, indexes) = (&alteration.record.columns, &mut alteration.record.indexes);
        alteration.copies |= keys::fit(session, fitted, indexes)?;
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
            alteration.converts = becomes || allowed.copies && alteration.copies;
        }
        let copies = alteration.copies || clustering(&old) != clustering(&alteration.record);
        // Where the column that counted is gone, another counts anew.
        let counts_on = alteration.keeps_auto_increment(table);
        let last_auto = if counts_on { self.next_auto_increment(table).saturating_sub(1) } else { 0 };
        let next = alteration.next_auto.unwrap_or(1);
        let last_auto = last_auto.max(next.saturating_sub(1));
        let mut pending = PendingTrees::new(self, table.is_temporary());
        let (rows, last_auto) = if copies {
            let copied = self.copy(session, table, &mut alteration, last_auto, &mut pending)?;
            (copied.rows, last_auto.max(copied.last_auto))
        } else {
            self.build_indexes(session, table, &mut alteration, &mut pending)?;
            (0, last_auto)
        };
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
        let mut reading = self.engine().begin(self.quiet(session));
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
    fn build_indexes(
        &self,
        session: &mut Session,
        table: &Arc<TableDef>,
        alteration: &mut Alteration,
        pending: &mut PendingTrees<'_>,
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
        self.fill_indexes(session, table, &built, &new)
    }

    fn fill_indexes(
        &self,
        session: &mut Session,
        source: &TableDef,
        built: &TableDef,
        new: &[usize],
    ) -> SqlResult<()> {
        let mut reading = self.engine().begin(self.quiet(session));
        let sorters = gather_entries(session, &mut reading, source, built, new)?;
        for (sorter, position) in sorters.into_iter().zip(new) {
            self.fill_index(session, &mut reading, built, *position, sorter.finish()?)?;
        }
        reading.rollback().map_err(engine_error)
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
    fn copy(
        &self,
        session: &mut Session,
        source: &Arc<TableDef>,
        alteration: &mut Alteration,
        last_auto: u64,
        pending: &mut PendingTrees<'_>,
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
        let mut copier = Copier { source, copy: &copy, origin, checks, generated, last_auto };
        let rows = self.copy_rows(session, &mut copier)?;
        Ok(Copied { rows, last_auto: copier.last_auto })
    }

    fn copy_rows(&self, session: &mut Session, copier: &mut Copier<'_>) -> SqlResult<u64> {
        // What generated columns are worked out from may warn, which then is an error.
        session.abort_on_warning = session.is_strict() && !copier.generated.is_empty();
        let mut reading = self.engine().begin(self.quiet(session));
        let mut writing = self.engine().begin(self.quiet(session));
        let mut scan =
            reading.scan(copier.source.rows(), ScanRange::ALL, Read::Snapshot).map_err(engine_error)?;
        let mut buffers = RowBuffers::default();
        let (mut old, mut new) = (Vec::new(), Vec::new());
        let mut count = 0;
        loop {
            match scan.next(&mut reading).map_err(engine_error)? {
                None => break,
                Some((_, bytes)) => {
                    old.clear();
                    old.extend_from_slice(bytes);
                }
            }
            count += 1;
            session.current_row = count;
            copier.convert(session, &old, &mut new)?;
            copier.checks.test_bytes(session, copier.copy, &mut new)?;
            let written =
                insert_row(copier.copy, &mut writing, &new, OnDuplicate::LockShared, &mut buffers, None)?;
            if let Written::Duplicate(position) = written {
                let error = duplicate_error(copier.copy, position, &new);
                writing.rollback().map_err(engine_error)?;
                return Err(error);
            }
            if count % BATCH_ROWS == 0 {
                writing = self.next_batch(session, writing)?;
            }
        }
        writing.commit().map_err(engine_error)?;
        reading.rollback().map_err(engine_error)?;
        Ok(count)
    }

    fn quiet(&self, session: &Session) -> TxnOptions {
        TxnOptions { interrupt: Some(session.interrupt.engine().clone()), ..TxnOptions::default() }
    }

    fn next_batch(&self, session: &Session, mut full: Txn) -> SqlResult<Txn> {
        session.check_interrupt()?;
        full.commit().map_err(engine_error)?;
        Ok(self.engine().begin(self.quiet(session)))
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
}

impl Copier<'_> {
    fn convert(&mut self, session: &mut Session, old: &[u8], new: &mut Vec<u8>) -> SqlResult<()> {
        let view = RowRef::new(&self.source.layout, old);
        let mut values = Vec::with_capacity(self.origin.len());
        for (place, origin) in self.origin.iter().enumerate() {
            let value = match origin {
                _ if self.copy.columns[place].generated.is_some() => Value::Null,
                Some(column) => {
                    let value = view.get(*column).to_owned();
                    match self.begins_to_count(place, *column) {
                        true => self.counted(session, place, *column, value)?,
                        false => self.converted(session, place, *column, value)?,
                    }
                }
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

    /// Whether a column becomes AUTO_INCREMENT.
    fn begins_to_count(&self, place: usize, column: usize) -> bool {
        self.copy.columns[place].auto_increment && !self.source.columns[column].auto_increment
    }

    /// A value of a column that becomes AUTO_INCREMENT: NULL and what is 0 there are numbered.
    fn counted(
        &mut self,
        session: &mut Session,
        place: usize,
        column: usize,
        value: Value,
    ) -> SqlResult<Value> {
        let on_zero = !session.vars.sql_mode.has(SqlMode::NO_AUTO_VALUE_ON_ZERO);
        let value = match value.is_null() {
            true => super::implicit_default(&self.copy.columns[place].ty),
            false => self.converted(session, place, column, value)?,
        };
        let is_zero = match &value {
            Value::Int(n) => *n == 0,
            Value::UInt(n) => *n == 0,
            _ => false,
        };
        if is_zero && on_zero { self.added(session, place) } else { Ok(value) }
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
