//! `keel salvage`: what can be read of each table, as SQL that Keel and MariaDB load.
//!
//! Leaves are used by what they say of themselves, whether or not an inner page leads to them. Key ranges that no leaf covers
//! are lost; where an index holds every column of its rows, they come from there, else what it holds stands in comments.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use keel_runtime::fs::{self, File, OpenOptions, Sync};
use keel_runtime::sync::Mutex as FiberMutex;
use keel_storage::inspect::{Folder, Leaf, Visitor};
use keel_value::ValueRef;
use keel_value::row::RowRef;
use parking_lot::Mutex;

use super::literal::push_literal;
use super::{Inspection, read_catalog};
use keel_catalog::account::Account;
use keel_catalog::layout::Layout;
use keel_catalog::names::push_quoted;
use keel_catalog::row_entries::clustered_key;
use keel_catalog::{ColumnDef, IndexDef, Schema, TableDef, View, show_create};
use keel_definitions::account::show;

/// Bytes of SQL written at once, and of one INSERT at about.
const WRITE_BYTES: usize = 256 << 10;

/// What became of a table.
#[derive(Debug, Clone, Default)]
pub struct Salvaged {
    /// Database and table.
    pub table: String,
    /// File of SQL.
    pub file: String,
    /// Rows read from the table itself.
    pub rows: u64,
    /// Rows read from an index.
    pub rows_of_index: u64,
    /// Rows of which an index holds some columns; in comments.
    pub partial: u64,
    /// What is lost, in words.
    pub lost: Vec<String>,
}

/// A file of SQL that several fibers write.
struct Dump {
    file: File,
    state: FiberMutex<(u64, Option<io::Error>)>,
}

impl Dump {
    fn create(path: &Path) -> io::Result<Dump> {
        let file = File::open(path, &OpenOptions { create_new: true, ..OpenOptions::creating() })?;
        Ok(Dump { file, state: FiberMutex::new((0, None)) })
    }

    /// Appends; the first error stays.
    fn write(&self, sql: &[u8]) {
        let mut state = self.state.lock();
        if state.1.is_none() {
            state.1 = self.file.write_at(sql, state.0, Sync::None).err();
            state.0 += sql.len() as u64;
        }
    }

    /// Makes what was written durable; a reader that has ended may hold its `Arc` a moment longer.
    fn finish(&self) -> io::Result<()> {
        match self.state.lock().1.take() {
            Some(error) => Err(error),
            None => self.file.sync_all(),
        }
    }
}

/// INSERT statements in the making.
struct Inserts<'d> {
    dump: &'d Dump,
    head: &'d str,
    sql: Vec<u8>,
    count: usize,
}

impl Inserts<'_> {
    fn row<'v>(&mut self, table: &TableDef, value: impl Fn(usize) -> ValueRef<'v>) {
        self.sql.extend_from_slice(if self.count == 0 { self.head.as_bytes() } else { b",\n" });
        self.sql.push(b'(');
        for (number, (place, column)) in base_columns(table).enumerate() {
            if number > 0 {
                self.sql.push(b',');
            }
            push_literal(&mut self.sql, &column.ty, value(place));
        }
        self.sql.push(b')');
        self.count += 1;
        if self.sql.len() >= WRITE_BYTES {
            self.end();
        }
    }

    fn end(&mut self) {
        if self.count > 0 {
            self.sql.extend_from_slice(b";\n");
            self.dump.write(&self.sql);
            self.sql.clear();
            self.count = 0;
        }
    }
}

/// Keys from the first on, below the second.
type Span = (Vec<u8>, Option<Vec<u8>>);

/// Takes the rows of a table.
struct Rows {
    table: Arc<TableDef>,
    dump: Arc<Dump>,
    head: String,
    rows: AtomicU64,
    spans: Mutex<Vec<Span>>,
    unread: Mutex<Vec<String>>,
}

/// Rows named one by one that cannot be read.
const UNREAD_MAX: usize = 50;

impl Visitor for Rows {
    fn leaf(&self, leaf: &Leaf, count: i64) {
        if count < 0 {
            // Written already; a row that stands twice loads once.
            return;
        }
        let mut inserts = Inserts { dump: &self.dump, head: &self.head, sql: Vec::new(), count: 0 };
        for entry in leaf.entries().filter(|entry| entry.live) {
            match entry.row.filter(|row| self.table.layout.problem(row).is_none()) {
                Some(row) => {
                    let row = RowRef::new(&self.table.layout, row);
                    inserts.row(&self.table, |column| row.get(column));
                    self.rows.fetch_add(1, Relaxed);
                }
                None => {
                    let mut unread = self.unread.lock();
                    if unread.len() < UNREAD_MAX {
                        unread.push(format!(
                            "the row with key {} on page {}",
                            shown(self.table.clustered_index(), entry.key),
                            leaf.page
                        ));
                    }
                }
            }
        }
        inserts.end();
        self.spans.lock().push((leaf.low.clone(), leaf.high.clone()));
    }
}

/// Takes rows within lost spans from an index.
struct FromIndex {
    table: Arc<TableDef>,
    position: usize,
    dump: Arc<Dump>,
    head: String,
    lost: Vec<Span>,
    whole: bool,
    rows: AtomicU64,
}

impl Visitor for FromIndex {
    fn leaf(&self, leaf: &Leaf, count: i64) {
        let index = &self.table.indexes[self.position];
        let mut inserts = Inserts { dump: &self.dump, head: &self.head, sql: Vec::new(), count: 0 };
        for entry in leaf.entries().filter(|entry| entry.live && count > 0) {
            let Some(row) = entry.row.filter(|row| index.entry.problem(row).is_none()) else {
                continue;
            };
            let key = clustered_key(index, entry.key);
            if !self.lost.iter().any(|span| holds(span, key)) {
                continue;
            }
            let value = |column| index.entry.get(column, entry.key, row);
            self.rows.fetch_add(1, Relaxed);
            if self.whole {
                inserts.row(&self.table, value);
            } else {
                self.dump.write(&self.comment(index, value));
            }
        }
        inserts.end();
    }
}

impl FromIndex {
    /// What an index holds of a row, as a comment.
    fn comment<'e>(&self, index: &IndexDef, value: impl Fn(usize) -> ValueRef<'e>) -> Vec<u8> {
        let mut out = b"-- lost row, from index ".to_vec();
        out.extend_from_slice(index.name.as_bytes());
        for (number, place) in index.entry.columns().enumerate() {
            let column = &self.table.columns[place];
            out.extend_from_slice(if number == 0 { b": " } else { b", " });
            let mut name = String::new();
            push_quoted(&mut name, &column.name);
            out.extend_from_slice(name.as_bytes());
            out.push(b'=');
            push_literal(&mut out, &column.ty, value(place));
        }
        out.push(b'\n');
        out
    }
}

fn holds(span: &Span, key: &[u8]) -> bool {
    span.0.as_slice() <= key && span.1.as_ref().is_none_or(|high| key < high.as_slice())
}

/// Spans of keys that no leaf covers.
fn gaps(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort();
    let mut lost = Vec::new();
    let mut end: Option<Vec<u8>> = Some(Vec::new());
    for (low, high) in spans {
        let Some(reached) = &mut end else { break };
        if *reached < low {
            lost.push((reached.clone(), Some(low)));
        }
        match high {
            Some(high) if high > *reached => *reached = high,
            Some(_) => {}
            None => end = None,
        }
    }
    lost.extend(end.map(|reached| (reached, None)));
    lost
}

/// A key as people read it: values where it can be decoded, octets where not.
fn shown(index: Option<&IndexDef>, key: &[u8]) -> String {
    let octets = || key.escape_ascii().to_string();
    let Some(index) = index else {
        return key.try_into().map_or_else(|_| octets(), |number| u64::from_be_bytes(number).to_string());
    };
    let (mut out, mut rest) = (Vec::new(), key);
    let decoded = index.encoders.iter().try_for_each(|encoder| {
        let Some((value, len)) = encoder.decode(rest) else { return ControlFlow::Break(()) };
        if !out.is_empty() {
            out.push(b'-');
        }
        push_literal(&mut out, &encoder.ty, value.as_ref());
        rest = &rest[len..];
        ControlFlow::Continue(())
    });
    match decoded.is_continue() && rest.is_empty() {
        true => String::from_utf8_lossy(&out).into_owned(),
        false => octets(),
    }
}

fn shown_span(index: Option<&IndexDef>, span: &Span) -> String {
    let low = if span.0.is_empty() { "the start".into() } else { format!("key {}", shown(index, &span.0)) };
    let high = span.1.as_ref().map_or("the end".into(), |high| format!("key {}", shown(index, high)));
    format!("rows from {low} to {high}")
}

/// The file of the databases, which comes before those of the tables.
const SCHEMAS_FILE: &str = "0000.databases.sql";

/// The file of the accounts; those of tables begin with digits.
const ACCOUNTS_FILE: &str = "accounts.sql";

impl Inspection {
    /// Writes what can be read of each table to a file of SQL in `out`, a new folder. Waits.
    pub fn salvage(&self, out: &Path) -> io::Result<Vec<Salvaged>> {
        fs::create_dir_all(out)?;
        let mut known = read_catalog(self);
        // Tables have defaults that name sequences.
        known.tables.sort_by_key(|table| !table.is_sequence());
        let mut all = Vec::new();
        for table in &known.tables {
            self.name(table);
        }
        self.tell_prepared();
        self.salvage_accounts(&known.accounts, out)?;
        salvage_schemas(&known.schemas, out)?;
        for table in known.tables {
            let schema = make_schema(&known.schemas, &table.schema);
            all.push(self.salvage_table(Arc::new(table), &schema, out, all.len())?);
        }
        if !known.views.is_empty() {
            all.push(salvage_views(known.views, &known.schemas, out, all.len())?);
        }
        fs::sync_dir(out)?;
        self.report.finish();
        Ok(all)
    }

    /// Writes the accounts, to be made behind the tables that they have privileges on.
    fn salvage_accounts(&self, accounts: &[Account], out: &Path) -> io::Result<()> {
        let dump = Dump::create(&out.join(ACCOUNTS_FILE))?;
        for statement in show::script(accounts.iter()) {
            dump.write(statement.as_bytes());
            dump.write(b";\n");
        }
        dump.finish()
    }

    /// `schema` makes the table's database.
    fn salvage_table(
        &self,
        table: Arc<TableDef>,
        schema: &str,
        out: &Path,
        number: usize,
    ) -> io::Result<Salvaged> {
        let name = format!("{}.{}", table.schema, table.name);
        let plain = name.chars().map(|c| if c.is_alphanumeric() || "._-".contains(c) { c } else { '_' });
        let file = format!("{:04}.{}.sql", number + 1, plain.collect::<String>());
        let mut salvaged = Salvaged { table: name, file, ..Salvaged::default() };
        let dump = Arc::new(Dump::create(&out.join(&salvaged.file))?);
        dump.write(self.header(&table, schema).as_bytes());
        let head = insert_head(&table);
        if !self.folder.has(table.tree_id) {
            salvaged.lost.push(format!("all rows: {} is missing", Folder::file_name(table.tree_id)));
        }
        let rows = Arc::new(Rows {
            table: table.clone(),
            dump: dump.clone(),
            head: head.clone(),
            rows: AtomicU64::new(0),
            spans: Mutex::default(),
            unread: Mutex::default(),
        });
        let outcome = self.pass(table.tree_id, rows.clone());
        salvaged.rows = rows.rows.load(Relaxed);
        salvaged.lost.append(&mut rows.unread.lock());
        let spans = std::mem::take(&mut *rows.spans.lock());
        let (leaves, lost) = (spans.len() as u64, gaps(spans));
        let each = salvaged.rows / leaves.max(1);
        if !lost.is_empty() {
            self.take_from_indexes(&table, &dump, &head, &lost, &mut salvaged);
        }
        for span in &lost {
            salvaged.lost.push(format!(
                "{}, about {each} rows for each lost page",
                shown_span(table.clustered_index(), span)
            ));
        }
        debug_assert!(outcome.leaves <= leaves || outcome.has_lost);
        dump.finish()?;
        Ok(salvaged)
    }

    fn take_from_indexes(
        &self,
        table: &Arc<TableDef>,
        dump: &Arc<Dump>,
        head: &str,
        lost: &[Span],
        salvaged: &mut Salvaged,
    ) {
        let missing =
            |index: &IndexDef| (0..table.columns.len()).filter(|column| !index.entry.holds(*column)).count();
        let secondary = (0..table.indexes.len()).filter(|at| table.clustered != Some(*at));
        let there = secondary.filter(|at| self.folder.has(table.indexes[*at].tree_id));
        let Some(position) = there.min_by_key(|at| missing(&table.indexes[*at])) else { return };
        let index = &table.indexes[position];
        let whole = missing(index) == 0;
        let visitor = Arc::new(FromIndex {
            table: table.clone(),
            position,
            dump: dump.clone(),
            head: head.to_string(),
            lost: lost.to_vec(),
            whole,
            rows: AtomicU64::new(0),
        });
        self.pass(index.tree_id, visitor.clone());
        let rows = visitor.rows.load(Relaxed);
        if whole {
            salvaged.rows_of_index = rows;
        } else {
            salvaged.partial = rows;
        }
    }

    /// What stands before the rows.
    fn header(&self, table: &TableDef, schema: &str) -> String {
        let mut out = String::from("-- Read from a damaged data folder by keel salvage.\n");
        if !self.history.complete {
            out += "-- The undo log is lost: these are the newest versions, and changes that were not committed may be among them.\n";
        }
        if !self.history.prepared.is_empty() {
            let count = self.history.prepared.len();
            out += &format!(
                "-- Without the changes of {count} prepared branches, about which nobody had decided.\n"
            );
        }
        out += "SET NAMES utf8mb4;\nSET time_zone = '+00:00';\nSET sql_mode = 'NO_AUTO_VALUE_ON_ZERO';\n";
        // A table may come before those that it refers to, or without them, and keeps the rows that it had.
        out += "SET foreign_key_checks = 0;\nSET check_constraint_checks = 0;\n";
        let mut home = String::new();
        push_quoted(&mut home, &table.schema);
        out += &format!("{schema};\nUSE {home};\n");
        out += &show_create::table(table, 0);
        out + ";\n"
    }
}

/// The statement that makes a database unless it is there.
fn make_schema(schemas: &[Schema], name: &str) -> String {
    match schemas.iter().find(|schema| *schema.name == *name) {
        Some(schema) => show_create::schema(&schema.name, schema.collation, &schema.comment, true),
        None => {
            let mut out = String::from("CREATE DATABASE IF NOT EXISTS ");
            push_quoted(&mut out, name);
            out
        }
    }
}

/// Writes all databases to one file, since some have no table.
fn salvage_schemas(schemas: &[Schema], out: &Path) -> io::Result<()> {
    let dump = Dump::create(&out.join(SCHEMAS_FILE))?;
    let mut sql = String::from("SET NAMES utf8mb4;\n");
    for schema in schemas {
        sql += &make_schema(schemas, &schema.name);
        sql += ";\n";
    }
    dump.write(sql.as_bytes());
    dump.finish()
}

/// Writes all views to one file, to be loaded behind the tables.
fn salvage_views(views: Vec<View>, schemas: &[Schema], out: &Path, number: usize) -> io::Result<Salvaged> {
    let file = format!("{:04}.views.sql", number + 1);
    let salvaged = Salvaged { table: "views".into(), file, rows: views.len() as u64, ..Salvaged::default() };
    let dump = Dump::create(&out.join(&salvaged.file))?;
    let mut sql =
        String::from("-- Read from a damaged data folder by keel salvage. Load it behind the tables.\n");
    for view in in_order(views) {
        sql += &make_schema(schemas, &view.schema);
        sql += &format!(";\nSET NAMES {};\n", view.client_collation.charset().name());
        sql += &format!("SET collation_connection = {};\n", view.connection_collation.name());
        sql += &show_create::view(&view, &view.text, true, Layout::FULL);
        sql += ";\n";
    }
    dump.write(sql.as_bytes());
    dump.finish()?;
    Ok(salvaged)
}

/// Views behind those that they name.
fn in_order(mut views: Vec<View>) -> Vec<View> {
    let mut out = Vec::with_capacity(views.len());
    while !views.is_empty() {
        let waits = |view: &View| {
            let names = |other: &View| {
                let mut name = String::new();
                push_quoted(&mut name, &other.schema);
                name.push('.');
                push_quoted(&mut name, &other.name);
                other.id != view.id && view.text.contains(&name)
            };
            views.iter().any(names)
        };
        let waiting: Vec<bool> = views.iter().map(waits).collect();
        let stuck = waiting.iter().all(|waits| *waits);
        let mut rest = Vec::new();
        for (view, waits) in views.into_iter().zip(waiting) {
            if waits && !stuck { rest.push(view) } else { out.push(view) }
        }
        views = rest;
    }
    out
}

fn insert_head(table: &TableDef) -> String {
    let mut head = String::from("INSERT IGNORE INTO ");
    push_quoted(&mut head, &table.name);
    head.push_str(" (");
    for (number, (_, column)) in base_columns(table).enumerate() {
        head.push_str(if number == 0 { "" } else { "," });
        push_quoted(&mut head, &column.name);
    }
    head + ") VALUES\n"
}

/// The columns that are given values, with their places: the others are generated.
fn base_columns(table: &TableDef) -> impl Iterator<Item = (usize, &ColumnDef)> {
    table.columns.iter().enumerate().filter(|(_, column)| column.generated.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_between_leaves_are_found() {
        let key = |text: &str| text.as_bytes().to_vec();
        let span = |low: &str, high: &str| (key(low), Some(key(high)));
        assert_eq!(gaps(vec![(key("m"), None), span("", "m")]), []);
        assert_eq!(gaps(vec![(key("m"), None), span("", "c"), span("b", "f")]), [span("f", "m")]);
        assert_eq!(gaps(vec![]), [(key(""), None)]);
        assert_eq!(gaps(vec![span("b", "c")]), [span("", "b"), (key("c"), None)]);
        assert!(holds(&span("b", "d"), b"cx") && !holds(&span("b", "d"), b"d"));
    }
}
