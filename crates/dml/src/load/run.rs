//! LOAD DATA while it runs.

use std::cell::OnceCell;

use keel_base::{SqlError, SqlResult, errors};
use keel_catalog::column_type::implicit_default;
use keel_catalog::{ColumnDef, ColumnDefault};
use keel_context::result::{Completion, RowSink};
use keel_context::user_variables::UserVariable;
use keel_exec::session::Session;
use keel_expr::frame::Kept;
use keel_expr::{Frame, RowSlot, files};
use keel_value::{Date, TypeKind, Value};

use super::super::assign::{Source, now_value, value_of};
use super::super::convert::{Strictness, text_into_column};
use super::super::insert::{InsertPlan, Work};
use super::reader::{FieldReader, Input};
use super::{FileRows, Target};

/// Runs a LOAD DATA.
pub(crate) fn run(
    plan: &InsertPlan,
    rows: &FileRows,
    session: &mut Session,
    params: &[Value],
    sink: &mut dyn RowSink,
) -> SqlResult<Completion> {
    super::check(session, rows.local)?;
    let strictness = Strictness::of(session, plan.ignore, false);
    session.abort_on_warning = strictness.strict;
    session.ignores = rows.says_ignore;
    if rows.non_ascii {
        session.warn(errors::non_ascii_separator());
    }
    let input = if rows.local {
        sink.request_file(&rows.file)?;
        Input::Client(sink)
    } else {
        Input::File(files::open(session, &rows.file)?)
    };
    let today = session.base_day();
    let reader = FieldReader::new(&rows.marks, input, session);
    let work = Work::begin(plan, session, params, strictness, None);
    let mut loader = Loader { rows, reader, work, today };
    let result = loader.all(session);
    let (counts, _) = loader.work.end(session);
    result?;
    let (records, deleted, skipped) = (counts.records, counts.displaced, counts.records - counts.copied);
    let warnings = session.diagnostics.warning_count;
    let info = format!("Records: {records}  Deleted: {deleted}  Skipped: {skipped}  Warnings: {warnings}");
    let affected_rows = counts.copied + deleted;
    Ok(Completion { affected_rows, info: Some(info), ..Completion::default() })
}

struct Loader<'p> {
    rows: &'p FileRows,
    reader: FieldReader<'p>,
    work: Work<'p>,
    today: Date,
}

impl Loader<'_> {
    fn all(&mut self, session: &mut Session) -> SqlResult<()> {
        self.work.warn_of_defaults(session);
        let mut skip = self.rows.skip;
        if !self.rows.marks.line_end.is_empty() {
            while skip > 0 && self.reader.next_line()? {
                skip -= 1;
            }
            // The file had no more lines.
            if skip > 0 {
                return Ok(());
            }
        }
        session.current_row = 1;
        loop {
            let has_row = match &self.rows.widths {
                Some(widths) => self.fixed_row(session, widths, skip > 0)?,
                None => self.row(session, skip > 0)?,
            };
            if !has_row {
                return Ok(());
            }
            if skip > 0 {
                skip -= 1;
                continue;
            }
            if !self.write(session)? {
                return Ok(());
            }
        }
    }

    /// Reads a line into the values; false where there is none.
    fn row(&mut self, session: &mut Session, skips: bool) -> SqlResult<bool> {
        if !skips {
            self.work.begin_row(session)?;
        }
        let rows = self.rows;
        let mut read = 0;
        while read < rows.targets.len() && self.reader.next_field()? {
            if !skips {
                self.field(session, &rows.targets[read])?;
            }
            read += 1;
        }
        if read == 0 {
            return Ok(false);
        }
        for target in rows.targets.iter().skip(if skips { usize::MAX } else { read }) {
            self.missing(session, target, false)?;
        }
        Ok(true)
    }

    /// A field that was read.
    fn field(&mut self, session: &mut Session, target: &Target) -> SqlResult<()> {
        let text = self.reader.field();
        let is_word = !self.reader.enclosed && self.rows.marks.enclosed.is_some() && text == b"NULL";
        let is_null = is_word || text.len() == 1 && self.reader.found_null;
        match target {
            Target::Column(column) if self.is_generated(*column) => Ok(()),
            Target::Column(column) if is_null => self.null(session, *column),
            Target::Column(column) => {
                let (plan, strictness) = (self.work.plan, self.work.strictness);
                let value = text_into_column(
                    session,
                    &plan.table,
                    *column,
                    (&self.rows.ty, text),
                    self.today,
                    strictness,
                )?;
                self.work.values[*column] = value;
                Ok(())
            }
            Target::Variable(name) => {
                let value = if is_null { Value::Null } else { Value::bytes(text) };
                session.user_variables.set(name, UserVariable { value, ty: self.rows.ty.clone() })
            }
        }
    }

    /// A row of fixed size; false where there is none.
    fn fixed_row(&mut self, session: &mut Session, widths: &[usize], skips: bool) -> SqlResult<bool> {
        if !self.reader.next_fixed(widths.iter().sum())? {
            return Ok(false);
        }
        if skips {
            return Ok(true);
        }
        self.work.begin_row(session)?;
        let rows = self.rows;
        let mut at = 0;
        for (target, width) in rows.targets.iter().zip(widths) {
            let Target::Column(column) = target else { continue };
            let line = self.reader.field();
            if at == line.len() {
                self.missing(session, target, true)?;
                continue;
            }
            let end = line.len().min(at + width);
            if self.is_generated(*column) {
                at = end;
                continue;
            }
            let (plan, strictness) = (self.work.plan, self.work.strictness);
            let text = (&rows.ty, &line[at..end]);
            let value = text_into_column(session, &plan.table, *column, text, self.today, strictness)?;
            self.work.values[*column] = value;
            at = end;
        }
        if at != self.reader.field().len() {
            self.problem(session, errors::warn_too_many_records(session.current_row))?;
        }
        Ok(true)
    }

    /// Works out SET, writes the row and goes to the next line; false where there is none.
    fn write(&mut self, session: &mut Session) -> SqlResult<bool> {
        self.work.finish_row(session)?;
        self.assign(session)?;
        let records = self.work.counts.records;
        self.work.write(session, 0)?;
        let has_next = self.reader.next_line()?;
        // A row that a condition refuses is none.
        if self.work.counts.records == records {
            return Ok(has_next);
        }
        if has_next && self.reader.line_cut {
            self.problem(session, errors::warn_too_many_records(session.current_row))?;
        }
        session.current_row += 1;
        Ok(has_next)
    }

    /// SET: each value sees those before it.
    fn assign(&mut self, session: &mut Session) -> SqlResult<()> {
        for (column, source) in &self.rows.assignments {
            let mut slots = [RowSlot::Values(std::mem::take(&mut self.work.values))];
            let value = self.assigned(session, &slots, &self.work.once, *column, source);
            if let RowSlot::Values(values) = &mut slots[0] {
                self.work.values = std::mem::take(values);
            }
            self.work.values[*column] = value?;
        }
        for (column, value) in &self.rows.refused {
            let source = Source::Expr(value.clone());
            let slots = [RowSlot::Values(self.work.values.clone())];
            self.assigned(session, &slots, &self.work.once, *column, &source)?;
        }
        Ok(())
    }

    /// What a file says of a generated column is passed over.
    fn is_generated(&self, column: usize) -> bool {
        self.work.plan.table.columns[column].generated.is_some()
    }

    fn assigned(
        &self,
        session: &mut Session,
        slots: &[RowSlot],
        once: &[OnceCell<Kept>],
        column: usize,
        source: &Source,
    ) -> SqlResult<Value> {
        let frame = Frame { slots, params: self.work.params, once, outer: None };
        match source {
            Source::Expr(_) => self.work.value(session, column, source, frame),
            _ => value_of(session, &self.work.plan.table, column, source, frame, self.work.strictness, None),
        }
    }

    /// What is an error in a strict statement, else a warning.
    fn problem(&self, session: &mut Session, error: SqlError) -> SqlResult<()> {
        if self.work.strictness.strict {
            return Err(error);
        }
        session.warn(error);
        Ok(())
    }

    /// NULL for a column.
    fn null(&mut self, session: &mut Session, column: usize) -> SqlResult<()> {
        let def = &self.work.plan.table.columns[column];
        let value = if def.nullable || def.auto_increment {
            Value::Null
        } else if def.ty.kind == TypeKind::Timestamp {
            now_value(session, &def.ty)
        } else {
            let error = errors::warn_null_to_notnull(&def.name, session.current_row);
            self.problem(session, error)?;
            zero(def)
        };
        self.work.values[column] = value;
        Ok(())
    }

    /// The line has no field for a target.
    fn missing(&mut self, session: &mut Session, target: &Target, fixed: bool) -> SqlResult<()> {
        let column = match target {
            Target::Column(column) => *column,
            Target::Variable(name) => {
                let unset = UserVariable { value: Value::Null, ty: self.rows.ty.clone() };
                return session.user_variables.set(name, unset);
            }
        };
        let def = &self.work.plan.table.columns[column];
        let is_null_at_first = matches!(def.default, ColumnDefault::None | ColumnDefault::Now)
            || matches!(def.default, ColumnDefault::Value(Value::Null));
        let value = if def.ty.kind == TypeKind::Timestamp && !def.nullable {
            now_value(session, &def.ty)
        } else if !fixed && (def.auto_increment || def.nullable && is_null_at_first) {
            Value::Null
        } else {
            zero(def)
        };
        self.work.values[column] = value;
        self.problem(session, errors::warn_too_few_records(session.current_row))
    }
}

/// The zero of a column's type.
fn zero(def: &ColumnDef) -> Value {
    match def.ty.kind {
        TypeKind::Enum => Value::UInt(0),
        _ => implicit_default(&def.ty),
    }
}
