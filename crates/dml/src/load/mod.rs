//! LOAD DATA INFILE: rows of an INSERT that come from a file.
//!
//! It is planned as an INSERT whose rows are a `FileRows`, and its rows are written by the same code, one after the other.
//! What differs is where values come from: fields become values of columns by the rules of assignment, as text, and are
//! missing, NULL or too many in ways that only a file knows.

mod reader;
mod run;

pub(super) use run::run;

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_catalog::TableDef;
use keel_exec::session::Session;
use keel_expr::{Expr, files};
use keel_planner::bind::{BindContext, Binder, Clause, NamedTable, Notes};
use keel_sql::ast::{self, LoadTarget, OnDuplicateRow};
use keel_value::collation::Charset;
use keel_value::{CollationId, SqlMode, SqlType, TypeKind};

use self::reader::Marks;
use super::assign::{Assignments, Source};
use super::insert::{self, InsertPlan};
use super::through;

/// Rows that a file holds.
pub(super) struct FileRows {
    file: Box<[u8]>,
    /// The client sends it.
    local: bool,
    /// IGNORE is written: LOCAL alone passes over what is wrong with rows, not over what is wrong with subqueries.
    says_ignore: bool,
    marks: Marks,
    /// The type of its text.
    ty: SqlType,
    /// Lines that are left out at its start.
    skip: u64,
    /// What the fields of a line go to.
    targets: Vec<Target>,
    /// Rows of fixed size: bytes of each field.
    widths: Option<Vec<usize>>,
    /// SET.
    assignments: Vec<(usize, Source)>,
    /// SET of generated columns, which is not taken.
    refused: Vec<(usize, Expr)>,
    /// 1638.
    non_ascii: bool,
}

enum Target {
    Column(usize),
    Variable(Arc<str>),
}

/// 4166 where clients may not be asked for files.
fn require_local(session: &Session) -> SqlResult<()> {
    if session.sends_files && session.host.file_rules().local_infile {
        return Ok(());
    }
    Err(errors::load_infile_capability_disabled())
}

/// Whether the session may use the file at all: 4166, 1045.
pub fn check(session: &Session, local: bool) -> SqlResult<()> {
    if local { require_local(session) } else { files::require_to_read(session) }
}

/// Binds a LOAD DATA.
pub fn plan(
    cx: BindContext<'_>,
    load: &ast::LoadData,
    find: super::Find<'_>,
    notes: &mut Notes,
) -> SqlResult<InsertPlan> {
    let charset = match &load.charset {
        Some(name) => Charset::by_name(name).ok_or_else(|| errors::unknown_character_set(name))?,
        None => cx.session.vars.database_collation.charset(),
    };
    let collation = charset.default_collation();
    let mut binder = Binder::new(cx);
    binder.rows_change = true;
    let columns: Vec<&ast::ColumnName> = load.targets.iter().filter_map(column_name).collect();
    let filled = match binder.find_view(load.table.db.as_deref(), &load.table.name) {
        Some(view) => through::bind_load(&mut binder, &view, &columns, load.targets.is_empty())?,
        None => {
            if find(&load.table)?.is_virtual() {
                let access = &cx.session.access;
                let schema = keel_expr::env::schema_of(cx.session, &load.table)?;
                return Err(errors::dbaccess_denied(&access.user, &access.host, schema));
            }
            let changed = through::bind(&mut binder, &load.table, None, find, "LOAD")?;
            let columns = match load.targets.is_empty() || !columns.is_empty() {
                true => table_columns(&changed.table, &columns)?,
                false => Vec::new(),
            };
            through::Filled { changed, columns }
        }
    };
    if !load.partitions.is_empty() {
        return Err(errors::partition_clause_on_nonpartitioned());
    }
    let table = filled.changed.table.clone();
    let targets = targets(load, &filled.columns);
    let names = targets.iter().filter_map(|target| match target {
        Target::Variable(name) => Some(name.clone()),
        Target::Column(_) => None,
    });
    let ty = SqlType::varchar(0, collation);
    binder.loaded = Some((names.collect(), collation));
    let clauses = (Clause::Fields, Clause::Fields);
    let bound = Assignments::bind(&mut binder, &table, 0, &load.assignments, clauses)?;
    let (assignments, refused) = (bound.list, bound.refused);
    let reads = |named: &NamedTable| named.by_own_name && Arc::ptr_eq(&named.table, &table);
    if binder.named.iter().any(reads) {
        return Err(errors::update_table_used(&table.name, "LOAD DATA"));
    }
    let (marks, non_ascii) = marks(cx.session, &load.format, collation)?;
    let widths = widths(&table, &targets, &marks)?;
    let (local, skip) = (load.local, load.skip);
    let says_ignore = load.duplicates == Some(OnDuplicateRow::Ignore);
    let rows = FileRows {
        file: load.file.0.clone(),
        local,
        says_ignore,
        marks,
        ty,
        skip,
        targets,
        widths,
        assignments,
        refused,
        non_ascii,
    };
    let replace = load.duplicates == Some(OnDuplicateRow::Replace);
    // The client cannot be stopped in the middle, so what is wrong is passed over.
    let ignore = says_ignore || local && !replace;
    notes.unique = true;
    insert::plan_file(cx, binder, filled, rows, (replace, ignore), notes)
}

fn column_name(target: &LoadTarget) -> Option<&ast::ColumnName> {
    match target {
        LoadTarget::Column(name) => Some(name),
        LoadTarget::UserVar(_) => None,
    }
}

/// The columns of a table that are named; all that are visible where none is.
fn table_columns(table: &TableDef, names: &[&ast::ColumnName]) -> SqlResult<Vec<usize>> {
    if names.is_empty() {
        return Ok((0..table.columns.len()).filter(|column| !table.columns[*column].invisible).collect());
    }
    let find = |name: &&ast::ColumnName| {
        let foreign = name.table.as_deref().is_some_and(|other| *other != *table.name);
        let found = table.column_index(&name.column).filter(|_| !foreign);
        found.ok_or_else(|| errors::bad_field(insert::qualified(name), Clause::Fields.words()))
    };
    names.iter().map(find).collect()
}

/// What fields go to; `columns` are those that the statement names, in order.
fn targets(load: &ast::LoadData, columns: &[usize]) -> Vec<Target> {
    if load.targets.is_empty() {
        return columns.iter().map(|column| Target::Column(*column)).collect();
    }
    let mut columns = columns.iter();
    let target = |target: &LoadTarget| match target {
        LoadTarget::Column(_) => columns.next().map(|column| Target::Column(*column)),
        LoadTarget::UserVar(name) => Some(Target::Variable(name.to_lowercase().into())),
    };
    load.targets.iter().filter_map(target).collect()
}

/// The marks in force, and whether one of them is not ASCII.
fn marks(session: &Session, format: &ast::FileFormat, collation: CollationId) -> SqlResult<(Marks, bool)> {
    let said = |clause: &Option<ast::ByteStr>, default: &[u8]| -> Box<[u8]> {
        clause.as_ref().map_or_else(|| default.into(), |text| text.0.clone())
    };
    let enclosed = said(&format.enclosed, b"");
    let escaped = said(&format.escaped, b"\\");
    if enclosed.len() > 1 || escaped.len() > 1 {
        return Err(errors::wrong_field_terminators());
    }
    let texts =
        [said(&format.terminated, b"\t"), said(&format.line_end, b"\n"), said(&format.line_start, b"")];
    let non_ascii = texts.iter().chain([&enclosed, &escaped]).any(|text| !text.is_ascii());
    let backslash = format.escaped.is_some() || !session.vars.sql_mode.has(SqlMode::NO_BACKSLASH_ESCAPES);
    let escape = escaped.first().copied().filter(|_| backslash);
    Ok((Marks::new(texts, enclosed.first().copied(), escape, collation), non_ascii))
}

/// Bytes of a field that is as long as it gets in a row of fixed size.
const BLOB_WIDTH: usize = 256;

/// Bytes of each field where nothing ends fields: 1084, 1409.
fn widths(table: &TableDef, targets: &[Target], marks: &Marks) -> SqlResult<Option<Vec<usize>>> {
    if !marks.field_end.is_empty() || marks.enclosed.is_some() {
        return Ok(None);
    }
    let mut widths = Vec::with_capacity(targets.len());
    for target in targets {
        let Target::Column(column) = target else {
            return Err(errors::load_from_fixed_size_rows_to_var());
        };
        let ty = &table.columns[*column].ty;
        let is_blob = ty.is_blob();
        if is_blob && marks.line_end.is_empty() {
            return Err(errors::blobs_and_no_terminated());
        }
        let width = match ty.kind {
            TypeKind::Bit => (ty.length as usize).div_ceil(8),
            _ => ty.wire_length(CollationId::BINARY) as usize,
        };
        widths.push(if is_blob { BLOB_WIDTH } else { width });
    }
    // Rows of nothing would have no end.
    if marks.line_end.is_empty() && widths.iter().all(|width| *width == 0) {
        return Err(errors::blobs_and_no_terminated());
    }
    Ok(Some(widths))
}

impl FileRows {
    /// The columns that lines or SET give values for, each once.
    pub fn given(&self) -> Vec<usize> {
        let mut given: Vec<usize> = self.filled().collect();
        given.extend(self.assignments.iter().map(|(column, _)| *column));
        given.sort_unstable();
        given.dedup();
        given
    }

    /// The columns that fields go to.
    pub fn filled(&self) -> impl Iterator<Item = usize> {
        self.targets.iter().filter_map(|target| match target {
            Target::Column(column) => Some(*column),
            Target::Variable(_) => None,
        })
    }

    /// Whether SET gives a column its value.
    pub fn assigns(&self, column: usize) -> bool {
        self.assignments.iter().any(|(assigned, _)| *assigned == column)
    }
}
