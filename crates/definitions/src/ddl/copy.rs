//! Copying a table's rows into its altered self.
//!
//! Each row is decoded, its values converted to the new columns and tested, and inserted with its index entries. Where others
//! write the table meanwhile, their rows follow the same way. Under IGNORE what cannot be converted is bent with a warning,
//! and rows that are duplicates or fail a CHECK are left out.

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, code, errors};
use keel_catalog::counter::counted;
use keel_catalog::{ColumnDef, IndexDef, Shared, TableDef};
use keel_context::engine_error;
use keel_dml::{
    Checks, Generated, RowBuffers, Strictness, Written, delete_row, duplicate_error, insert_at, insert_row,
    into_column, is_ignorable, lock_row,
};
use keel_exec::session::Session;
use keel_storage::{OnDuplicate, Read, ScanRange, Txn};
use keel_value::convert::{self, Problem};
use keel_value::row::{self, RowRef};
use keel_value::types::Class;
use keel_value::{CollationId, SqlMode, SqlType, TypeKind, Value};

use super::PendingTrees;
use super::alter::Alteration;
use super::online::{Building, Follow, Writing};
use crate::ddl::Definer;

impl Definer<'_> {
    /// Copies all rows into new trees; a new AUTO_INCREMENT column counts on from `last_auto`.
    pub(super) fn copy<'b>(
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
        session.abort_on_warning = session.is_strict() && !alteration.words.ignore && !generated.is_empty();
        let mut copier = Copier {
            source,
            copy: &copy,
            origin,
            checks,
            generated,
            ignore: alteration.words.ignore,
            tests: alteration.tests_rows,
            last_auto,
            rows: 0,
            duplicates: 0,
            new: Vec::new(),
            buffers: RowBuffers::default(),
        };
        let mut building = open(session);
        self.copy_rows(session, &mut building.reading, &mut copier)?;
        let Copier { rows, duplicates, .. } = copier;
        building.finish(session, &mut copier)?;
        if copy.clustered.is_none() && source.clustered.is_none() {
            let last = source.row_counting().last()?;
            copy.row_counting().keep(last)?;
        }
        Ok(Copied { rows, duplicates, last_auto: copier.last_auto })
    }

    fn copy_rows(&self, session: &mut Session, reading: &mut Txn, copier: &mut Copier<'_>) -> SqlResult<()> {
        let mut writing = Writing::begin(self, session);
        let mut scan =
            reading.scan(copier.source.rows(), ScanRange::ALL, Read::Snapshot).map_err(engine_error)?;
        let (mut key, mut row) = (Vec::new(), Vec::new());
        session.current_row = 0;
        while let Some((found, bytes)) = scan.next(reading).map_err(engine_error)? {
            key.clear();
            key.extend_from_slice(found);
            row.clear();
            row.extend_from_slice(bytes);
            copier.rows += 1;
            session.current_row += 1;
            copier.put_in(session, &mut writing.txn, &key, None, &row)?;
            writing.count(session)?;
        }
        writing.txn.commit().map_err(engine_error)?;
        Ok(())
    }
}

/// What copying a table came to.
#[derive(Default)]
pub(super) struct Copied {
    /// Rows that were read, but for those that fail a CHECK.
    pub rows: u64,
    /// Rows that were left out since another has their key.
    pub duplicates: u64,
    /// The greatest AUTO_INCREMENT value.
    pub last_auto: u64,
}

impl Copied {
    /// What a client is told: the rows where MariaDB copies them too, else how many were held against foreign keys.
    pub fn shown(self, converts: bool, checked: u64) -> Copied {
        if converts { self } else { Copied { rows: checked, ..Copied::default() } }
    }
}

/// Rows of one table as rows of its altered self.
struct Copier<'c> {
    source: &'c TableDef,
    copy: &'c TableDef,
    origin: &'c [Option<usize>],
    checks: Checks,
    generated: Generated,
    /// Errors are warnings.
    ignore: bool,
    /// See [`Alteration::tests_rows`].
    tests: bool,
    last_auto: u64,
    /// [`Copied::rows`].
    rows: u64,
    /// [`Copied::duplicates`].
    duplicates: u64,
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
        let tested = match self.tests {
            true => self.checks.test_bytes(session, self.copy, &mut row),
            false => Ok(()),
        };
        match tested {
            Err(error) if self.ignore && is_ignorable(&error) => {
                session.warn(error);
                self.rows -= 1;
                return Ok(());
            }
            tested => tested?,
        }
        let before = txn.savepoint();
        let (copy, buffers) = (self.copy, &mut self.buffers);
        let keeps_number = copy.clustered.is_none() && self.source.clustered.is_none();
        let written = if keeps_number {
            buffers.key.clear();
            buffers.key.extend_from_slice(key);
            insert_at(copy, txn, &row, OnDuplicate::LockShared, buffers, None)?
        } else {
            insert_row(copy, txn, &row, OnDuplicate::LockShared, buffers, None)?
        };
        match written {
            Written::Done => {}
            Written::Duplicate(_) if self.ignore => {
                self.duplicates += 1;
                txn.rollback_to(before).map_err(engine_error)?;
            }
            Written::Duplicate(position) => {
                return Err(duplicate_error(copy, position, &row, &*session.vars.time_zone));
            }
        }
        self.new = row;
        Ok(())
    }
}

/// A text that becomes a number and is none as a whole, by the number that it begins with: MariaDB reads the old column then, and
/// says of the text what it is not (1292) before it looks at the new one. None for others.
fn as_number(
    session: &mut Session,
    from: &SqlType,
    to: &SqlType,
    value: &Value,
    ignore: bool,
) -> SqlResult<Option<(Value, SqlType)>> {
    if !from.is_string() || !to.is_numeric() || to.kind == TypeKind::Year {
        return Ok(None);
    }
    let mut problem = None;
    let mut report = |found| problem = Some(found);
    let number = match to.class() {
        Class::Int => (Value::Int(convert::to_i64(value.as_ref(), from, &mut report)), SqlType::bigint()),
        Class::Decimal => {
            let number = convert::to_decimal(value.as_ref(), from, &mut report);
            let ty = SqlType::decimal(65, number.scale() as u8);
            (Value::Decimal(number), ty)
        }
        _ => (Value::Double(convert::to_f64(value.as_ref(), from, &mut report)), SqlType::double()),
    };
    let Some(Problem::TruncatedIncorrect { kind, value }) = problem else { return Ok(None) };
    let error = errors::truncated_wrong_value(kind, value);
    if session.is_strict() && !ignore {
        return Err(error);
    }
    session.warn(error);
    Ok(Some(number))
}

/// A number as an altered column gets it where an assignment differs: texts get the text that a query shows, members the
/// whole number that it rounds to. None for others.
fn as_read(from: &SqlType, to: &SqlType, value: &Value) -> Option<(Value, SqlType)> {
    if !from.is_numeric() || from.kind == TypeKind::Bit {
        return None;
    }
    if to.has_members() {
        let number = convert::to_i64(value.as_ref(), from, &mut |_| {});
        return Some((Value::Int(number), SqlType::bigint()));
    }
    if !to.is_string() {
        return None;
    }
    let mut text = Vec::new();
    convert::to_text(value.as_ref(), from, &mut text);
    let ty = SqlType::varchar(text.len() as u32, CollationId::ASCII_GENERAL_CI);
    Some((Value::Bytes(text.into()), ty))
}

/// Whether a text or binary value keeps its kind and collation. MariaDB then copies characters and reports spaces that are
/// cut as lost data.
fn is_shortened(from: &SqlType, to: &SqlType) -> bool {
    let is_short =
        matches!(from.kind, TypeKind::VarChar | TypeKind::VarBinary | TypeKind::Char | TypeKind::Binary);
    is_short && from.kind == to.kind && from.collation == to.collation
}

/// A text that is too long for a VARCHAR of the same collation, cut to its length. None where nothing is cut.
fn cut<'v>(from: &SqlType, to: &SqlType, value: &'v Value) -> Option<&'v [u8]> {
    let Value::Bytes(bytes) = value else { return None };
    if to.kind != TypeKind::VarChar || !is_shortened(from, to) || to.length >= from.length {
        return None;
    }
    let kept = keel_value::collation::substring(to.collation, bytes, 0, to.length as usize);
    (kept.len() < bytes.len()).then_some(kept)
}

/// What copying a column says where storing a value would say something else.
fn of_copy(error: SqlError, from: &SqlType, to: &ColumnDef, row: u64) -> SqlError {
    match error.code {
        code::DATA_TOO_LONG if is_shortened(from, &to.ty) => errors::warn_data_truncated(&*to.name, row),
        code::TRUNCATED_WRONG_VALUE if to.ty.kind == TypeKind::Date && from.kind != TypeKind::Year => {
            let message = error.message.replacen("Incorrect date value", "Incorrect datetime value", 1);
            SqlError { message: message.into(), ..error }
        }
        _ => error,
    }
}

impl Copier<'_> {
    /// The clustered key that a row has in the copy. It was converted before: what there was to say was said.
    fn key_of(&mut self, session: &mut Session, index: &IndexDef, old: &[u8]) -> SqlResult<Vec<u8>> {
        let said = std::mem::take(&mut session.diagnostics);
        let view = RowRef::new(&self.source.layout, old);
        let mut values = vec![Value::Null; self.origin.len()];
        let converted = index.parts.iter().try_for_each(|part| {
            let origin =
                self.origin[part.column].expect("keys of rows that are followed are made of old columns");
            values[part.column] =
                self.converted(session, part.column, origin, view.get(origin).to_owned())?;
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
        let strictness = Strictness::of(session, self.ignore, false);
        self.generated.fill(session, self.copy, &mut values, strictness)?;
        // A column that begins to count goes on behind its values.
        if let Some(auto) = self.copy.auto_increment {
            let value = values[auto.column].as_ref();
            self.last_auto = self.last_auto.max(counted(value).unwrap_or(0));
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
            true => keel_catalog::column_type::implicit_default(&self.copy.columns[place].ty),
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
            if session.is_strict() && !self.ignore {
                return Err(error);
            }
            session.warn(error);
            return Ok(keel_catalog::column_type::implicit_default(&to.ty));
        }
        if let Some(kept) = cut(&from.ty, &to.ty, &value) {
            let error = errors::warn_data_truncated(&*to.name, session.current_row);
            if session.is_strict() && !self.ignore {
                return Err(error);
            }
            session.warn(error);
            return Ok(Value::bytes(kept));
        }
        let read = match as_number(session, &from.ty, &to.ty, &value, self.ignore)? {
            None => as_read(&from.ty, &to.ty, &value),
            number => number,
        };
        let (value, read) = read.unwrap_or_else(|| (value, from.ty.clone()));
        let strictness = Strictness::of(session, self.ignore, false);
        into_column(session, self.copy, place, &read, value, strictness)
            .map_err(|error| of_copy(error, &from.ty, to, session.current_row))
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
