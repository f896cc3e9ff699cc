//! Definitions of tables, columns and indexes.

use std::sync::Arc;

use keel_base::{SqlResult, TreeId};
use keel_storage::{Engine, ScanRange, TreeHandle};
use keel_value::key;
use keel_value::row::{self, Layout, Slot};
use keel_value::{CollationId, SqlType, Value, ValueRef};

use super::check::CheckConstraint;
use super::counter::{Counter, Counting};
use super::density::Densities;
use super::{EntryShape, ForeignKey};
use crate::sequence::Sequence;
use crate::series::Series;
use keel_context::engine_error;
use keel_context::mdl::TableLock;

/// A table, real or virtual. Immutable; DDL makes a new one with a greater `version`.
pub struct TableDef {
    /// Never used again, not even by a table of the same name.
    pub id: u64,
    /// Grows with each change of this definition.
    pub version: u64,
    /// Its database.
    pub schema: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
    /// All columns in order.
    pub columns: Vec<ColumnDef>,
    /// All indexes in MariaDB's order: primary, unique without NULL, unique, others.
    pub indexes: Vec<IndexDef>,
    /// Foreign keys in order of their names; [`Catalog::references_to`](super::Catalog::references_to) has those of others.
    pub foreign_keys: Vec<ForeignKey>,
    /// Position in `indexes` of the key that orders the rows; none for hidden row numbers.
    pub clustered: Option<usize>,
    /// The AUTO_INCREMENT column and the index whose tree counts it.
    pub auto_increment: Option<AutoIncrement>,
    /// The tree of the rows; 0 for virtual tables.
    pub tree_id: TreeId,
    /// Open handle of the tree of the rows; none for virtual tables.
    pub tree: Option<TreeHandle>,
    /// How a row's bytes are read.
    pub layout: Arc<Layout>,
    /// CHECK constraints that are not of columns.
    pub checks: Vec<CheckConstraint>,
    /// See [`super::TableRecord::slots`].
    pub slots: Vec<Slot>,
    /// Options and what else SHOW CREATE TABLE prints.
    pub options: TableOptions,
    /// Seconds since 1970 when it was created.
    pub created: i64,
    /// The engine that keeps it; none for virtual tables.
    pub engine: Option<Arc<Engine>>,
    /// What outlives a change of the definition.
    pub shared: Arc<Shared>,
    /// What memory knows of it where it is a sequence.
    pub sequence: Option<Box<Sequence>>,
    /// Its numbers, where its rows are nothing else.
    pub series: Option<Series>,
}

/// State of a table that stays when its definition changes.
#[derive(Default)]
pub struct Shared {
    /// Guards the table against DDL while statements use it.
    pub lock: Arc<TableLock>,
    /// AUTO_INCREMENT.
    pub auto_increment: Counter,
    /// Hidden row numbers.
    pub row_number: Counter,
    /// How many rows share a value, by index.
    pub densities: Densities,
}

/// Where AUTO_INCREMENT values come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AutoIncrement {
    /// The column.
    pub column: usize,
    /// The index that begins with it.
    pub index: usize,
}

/// What SHOW CREATE TABLE prints behind the parenthesis.
#[derive(Debug, Clone, PartialEq)]
pub struct TableOptions {
    /// DEFAULT CHARSET and COLLATE.
    pub collation: CollationId,
    /// COMMENT.
    pub comment: String,
    /// ROW_FORMAT in upper case, where given.
    pub row_format: Option<String>,
    /// Other accepted options, as SHOW CREATE TABLE prints them: `MAX_ROWS=1000000`. Names of those that engines name stand
    /// in backticks.
    pub others: Vec<(String, String)>,
}

impl TableOptions {
    /// The name under which an option that an engine names is kept.
    pub fn of_engine(name: &str) -> String {
        format!("`{name}`")
    }

    /// The options that engines name, with their values.
    pub fn engine_options(&self) -> impl Iterator<Item = (&str, &str)> {
        self.others.iter().filter_map(|(name, value)| {
            let bare = name.strip_prefix('`')?.strip_suffix('`')?;
            Some((bare, value.as_str()))
        })
    }

    /// Whether InnoDB takes an option that an engine names.
    pub fn is_known(name: &str) -> bool {
        const KNOWN: [&str; 4] =
            ["PAGE_COMPRESSED", "PAGE_COMPRESSION_LEVEL", "ENCRYPTED", "ENCRYPTION_KEY_ID"];
        KNOWN.iter().any(|known| known.eq_ignore_ascii_case(name))
    }

    /// KEY_BLOCK_SIZE, which keys take that have none of their own.
    pub fn key_block_size(&self) -> Option<u32> {
        let (_, size) = self.others.iter().find(|(name, _)| name == "KEY_BLOCK_SIZE")?;
        size.parse().ok()
    }
}

impl Default for TableOptions {
    fn default() -> Self {
        TableOptions {
            collation: CollationId::UTF8MB4_GENERAL_CI,
            comment: String::new(),
            row_format: None,
            others: Vec::new(),
        }
    }
}

/// A column.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnDef {
    /// Its name, case kept; compared without case.
    pub name: Arc<str>,
    /// Its type.
    pub ty: SqlType,
    /// Whether it may be NULL.
    pub nullable: bool,
    /// DEFAULT.
    pub default: ColumnDefault,
    /// ON UPDATE CURRENT_TIMESTAMP.
    pub on_update_now: bool,
    /// AUTO_INCREMENT.
    pub auto_increment: bool,
    /// INVISIBLE: not part of `*` and of an INSERT without column list.
    pub invisible: bool,
    /// COMMENT.
    pub comment: String,
    /// CHECK: the condition as SQL text.
    pub check: Option<String>,
    /// GENERATED ALWAYS AS.
    pub generated: Option<Generated>,
    /// What rows show that were written before the column was added.
    pub added_with: Value,
}

/// What a generated column's values are worked out from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generated {
    /// The expression as SQL text.
    pub expression: String,
    /// STORED; else VIRTUAL.
    pub stored: bool,
}

/// DEFAULT of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum ColumnDefault {
    /// No DEFAULT clause and NOT NULL: must be given.
    None,
    /// A constant already converted to the column's type; NULL where the column may be NULL and nothing was said.
    Value(Value),
    /// CURRENT_TIMESTAMP with the column's fraction digits.
    Now,
    /// An expression, as SQL text.
    Expression(String),
}

/// Kinds of indexes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IndexKind {
    /// PRIMARY KEY.
    Primary,
    /// UNIQUE.
    Unique,
    /// KEY.
    Plain,
}

/// An index.
pub struct IndexDef {
    /// Its name; `PRIMARY` for the primary key.
    pub name: Arc<str>,
    /// Primary, unique or plain.
    pub kind: IndexKind,
    /// Its columns.
    pub parts: Vec<KeyPart>,
    /// COMMENT.
    pub comment: String,
    /// USING, where given: `BTREE` or `HASH` (which is a tree too).
    pub using: Option<String>,
    /// What else was said of it.
    pub options: IndexOptions,
    /// Its tree; the table's own for the clustered key.
    pub tree_id: TreeId,
    /// Open handle of its tree; none in virtual tables.
    pub tree: Option<TreeHandle>,
    /// How each part is encoded; of an index that is [hashed](IndexDef::hashed) how the digest is, and nothing else.
    pub encoders: Vec<key::KeyPart>,
    /// How each part is encoded before it is digested, where the index is hashed.
    pub digested: Vec<key::KeyPart>,
    /// How an entry is read.
    pub entry: Arc<EntryShape>,
    /// See [`super::IndexRecord::lean`].
    pub lean: bool,
    /// See [`super::IndexRecord::hashed`]. Such an index keeps rows apart and finds none for a query.
    pub hashed: bool,
}

/// What may be said of an index beside its columns.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IndexOptions {
    /// IGNORED: no plan uses it.
    pub ignored: bool,
    /// KEY_BLOCK_SIZE, which is only shown; 0 where not given.
    pub block_size: u32,
    /// A foreign key made the index: it goes when another one serves as well.
    pub made: bool,
}

/// One column of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyPart {
    /// The column.
    pub column: usize,
    /// Characters (octets of binary types) of a prefix; none for the whole column.
    pub prefix: Option<u32>,
    /// DESC.
    pub descending: bool,
}

impl TableDef {
    /// Where AUTO_INCREMENT values come from, if the table has such a column.
    pub fn counting(&self) -> Option<Counting<'_>> {
        let index = &self.indexes[self.auto_increment?.index];
        let key = index.encoders.first();
        Some(Counting { key, ..self.counting_in(&self.shared.auto_increment, index.entries()) })
    }

    /// Where hidden row numbers come from.
    pub fn row_counting(&self) -> Counting<'_> {
        self.counting_in(&self.shared.row_number, self.rows())
    }

    fn counting_in<'t>(&'t self, counter: &'t Counter, tree: &'t TreeHandle) -> Counting<'t> {
        let engine = self.engine.as_ref().expect("only real tables are written");
        Counting { counter, engine, tree, key: None }
    }

    /// The column of that name.
    pub fn column_index(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| super::names::same(&c.name, name))
    }

    /// Whether rows hold a column's value. Those of a VIRTUAL column do where an index has it; else it is worked out by who
    /// reads it, and rows hold anything.
    pub fn is_kept(&self, column: usize) -> bool {
        let is_indexed = || self.indexes.iter().any(|i| i.parts.iter().any(|p| p.column == column));
        self.columns[column].generated.as_ref().is_none_or(|g| g.stored || is_indexed())
    }

    /// The generated columns, in order.
    pub fn generated_columns(&self) -> impl Iterator<Item = (usize, &Generated)> {
        let columns = self.columns.iter().enumerate();
        columns.filter_map(|(place, column)| Some((place, column.generated.as_ref()?)))
    }

    /// The place of the hidden row number behind the columns, for statements that find rows by it; none of a table with a
    /// clustered key.
    pub fn row_number_column(&self) -> Option<usize> {
        (self.clustered.is_none() && !self.is_virtual()).then_some(self.columns.len())
    }

    /// The integer that is the whole clustered key, which `_rowid` means.
    pub fn rowid_column(&self) -> Option<usize> {
        match &*self.indexes[self.clustered?].parts {
            [part] if self.columns[part.column].ty.is_integer() => Some(part.column),
            _ => None,
        }
    }

    /// The index of that name.
    pub fn index_position(&self, name: &str) -> Option<usize> {
        self.indexes.iter().position(|i| super::names::same(&i.name, name))
    }

    /// The index of that name, unless it is IGNORED.
    pub fn usable_index(&self, name: &str) -> Option<usize> {
        self.index_position(name).filter(|position| !self.indexes[*position].options.ignored)
    }

    /// The index that a hint names: by its name or the beginning of it, where no other name begins so; none that is IGNORED.
    pub fn hinted_index(&self, name: &str) -> Option<usize> {
        if name.is_empty() {
            return None;
        }
        self.usable_index(name).or_else(|| {
            let begins = |index: &IndexDef| {
                index.name.get(..name.len()).is_some_and(|part| super::names::same(part, name))
            };
            let mut found = (0..self.indexes.len()).filter(|position| begins(&self.indexes[*position]));
            let first = found.next().filter(|position| !self.indexes[*position].options.ignored)?;
            found.next().is_none().then_some(first)
        })
    }

    /// The clustered key, unless rows have hidden numbers.
    pub fn clustered_index(&self) -> Option<&IndexDef> {
        self.clustered.map(|i| &self.indexes[i])
    }

    /// The PRIMARY KEY, where declared.
    pub fn primary_key(&self) -> Option<&IndexDef> {
        self.indexes.first().filter(|i| i.kind == IndexKind::Primary)
    }

    /// Rows as the engine estimates them; none of a virtual table. Waits.
    pub fn row_estimate(&self) -> SqlResult<u64> {
        match (&self.engine, &self.tree) {
            (Some(engine), Some(tree)) => engine.row_estimate(tree, ScanRange::ALL).map_err(engine_error),
            _ => Ok(self.series.map_or(0, |series| series.rows())),
        }
    }

    /// For each number of leading parts of an index, rows per combination of their values in a table of so many rows, as
    /// the engine guesses. Waits.
    pub fn rows_per_value(&self, index: &IndexDef, rows: f64) -> SqlResult<Vec<f64>> {
        match &self.engine {
            Some(engine) => self.shared.densities.of(engine, index, rows),
            None if self.series.is_some() => Ok(vec![1.0]),
            None => Ok(vec![rows.max(1.0).sqrt(); index.parts.len()]),
        }
    }

    /// Whether its rows are made up by the server.
    pub fn is_virtual(&self) -> bool {
        self.tree.is_none()
    }

    /// Whether it shows what the general or the slow log wrote.
    pub fn is_log(&self) -> bool {
        self.is_virtual() && &*self.schema == "mysql" && ["general_log", "slow_log"].contains(&&*self.name)
    }

    /// Whether it is a temporary table, a session's own.
    #[inline]
    pub fn is_temporary(&self) -> bool {
        self.tree_id.is_temporary()
    }

    /// The tree of the rows; only asked of tables that are not virtual.
    pub fn rows(&self) -> &TreeHandle {
        self.tree.as_ref().expect("a virtual table has no tree")
    }

    /// A table whose rows the host makes: columns of `(name, type, nullable)`.
    pub fn virtual_table(schema: &str, name: &str, columns: Vec<(&str, SqlType, bool)>) -> TableDef {
        let columns: Vec<ColumnDef> = columns
            .into_iter()
            .map(|(name, ty, nullable)| ColumnDef::virtual_column(name, ty, nullable))
            .collect();
        let layout = layout_of(&columns);
        TableDef {
            id: 0,
            version: 0,
            schema: schema.into(),
            name: name.into(),
            columns,
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            clustered: None,
            auto_increment: None,
            tree_id: TreeId(0),
            tree: None,
            layout,
            checks: Vec::new(),
            slots: Vec::new(),
            options: TableOptions::default(),
            created: 0,
            engine: None,
            shared: Arc::default(),
            sequence: None,
            series: None,
        }
    }

    /// Gives a virtual table other columns.
    pub fn set_virtual_columns(&mut self, columns: Vec<ColumnDef>) {
        self.columns = columns;
        self.layout = layout_of(&self.columns);
    }

    /// Gives a virtual table a key, which is only shown. `kind` is `primary`, `unique` or another word.
    pub fn add_virtual_index(&mut self, name: &str, kind: &str, columns: &[usize], using: &str) {
        let kind = match kind {
            "primary" => IndexKind::Primary,
            "unique" => IndexKind::Unique,
            _ => IndexKind::Plain,
        };
        let is_whole = || columns.iter().all(|column| !self.columns[*column].nullable);
        if kind == IndexKind::Primary || kind == IndexKind::Unique && self.clustered.is_none() && is_whole() {
            self.clustered = Some(self.indexes.len());
        }
        let part = |column: &usize| KeyPart { column: *column, prefix: None, descending: false };
        let encoder = |column: &usize| {
            let column = &self.columns[*column];
            key::KeyPart::new(column.ty.clone(), column.nullable)
        };
        let index = IndexDef {
            name: name.into(),
            kind,
            parts: columns.iter().map(part).collect(),
            comment: String::new(),
            using: Some(using.into()).filter(|_| !using.is_empty()),
            options: IndexOptions::default(),
            tree_id: TreeId(0),
            tree: None,
            encoders: columns.iter().map(encoder).collect(),
            digested: Vec::new(),
            hashed: false,
            entry: Arc::new(EntryShape::of_rows(&self.layout)),
            lean: true,
        };
        self.indexes.push(index);
    }

    /// Makes a virtual table one of consecutive numbers, whose one column is its primary key.
    pub fn make_series(&mut self, series: Series, column: ColumnDef) {
        let part = KeyPart { column: 0, prefix: None, descending: series.falls };
        let encoder = key::KeyPart {
            descending: series.falls,
            ..key::KeyPart::new(column.ty.clone(), column.nullable)
        };
        self.columns = vec![column];
        self.layout = layout_of(&self.columns);
        self.indexes = vec![IndexDef {
            name: "PRIMARY".into(),
            kind: IndexKind::Primary,
            parts: vec![part],
            comment: String::new(),
            using: None,
            options: IndexOptions::default(),
            tree_id: TreeId(0),
            tree: None,
            encoders: vec![encoder],
            entry: Arc::new(EntryShape::of_rows(&self.layout)),
            lean: true,
            digested: Vec::new(),
            hashed: false,
        }];
        self.clustered = Some(0);
        self.series = Some(series);
    }

    /// Whether it is a sequence.
    #[inline]
    pub fn is_sequence(&self) -> bool {
        self.sequence.is_some()
    }

    /// Whether it has nothing but consecutive numbers, which no tree keeps.
    #[inline]
    pub fn is_series(&self) -> bool {
        self.series.is_some()
    }

    /// What memory knows of it; only asked of sequences.
    pub fn sequence(&self) -> &Sequence {
        self.sequence.as_deref().expect("a plan calls sequences only")
    }

    /// Whether its rows are made up as they are read, all of them each time: those of the server's own tables and the one of a
    /// sequence.
    pub fn is_made_up(&self) -> bool {
        self.is_virtual() && self.series.is_none() || self.is_sequence()
    }
}

impl ColumnDef {
    /// A column of a virtual table: without DEFAULT even where it may be NULL.
    fn virtual_column(name: &str, ty: SqlType, nullable: bool) -> ColumnDef {
        ColumnDef { default: ColumnDefault::None, ..ColumnDef::plain(name, ty, nullable) }
    }

    /// A column without anything special.
    pub fn plain(name: &str, ty: SqlType, nullable: bool) -> ColumnDef {
        ColumnDef {
            name: name.into(),
            ty,
            nullable,
            default: if nullable { ColumnDefault::Value(Value::Null) } else { ColumnDefault::None },
            on_update_now: false,
            auto_increment: false,
            invisible: false,
            comment: String::new(),
            check: None,
            generated: None,
            added_with: Value::Null,
        }
    }
}

impl IndexDef {
    /// Appends the index's parts as they stand in its keys; `value` gives a row's columns.
    #[inline]
    pub fn encode_parts<'v>(&self, value: impl Fn(usize) -> ValueRef<'v>, key: &mut Vec<u8>) {
        if self.hashed {
            super::digest::encode(self, value, key);
            return;
        }
        for (encoder, part) in self.encoders.iter().zip(&self.parts) {
            encoder.encode(value(part.column), key);
        }
    }

    /// PRIMARY or UNIQUE.
    pub fn is_unique(&self) -> bool {
        self.kind != IndexKind::Plain
    }

    /// Whether every given column can be read from an entry.
    pub fn covers(&self, mut columns: impl Iterator<Item = usize>) -> bool {
        columns.all(|c| self.entry.holds(c))
    }

    /// The tree of its entries; only asked in tables that are not virtual.
    pub fn entries(&self) -> &TreeHandle {
        self.tree.as_ref().expect("a virtual table has no tree")
    }
}

/// The layout of rows whose places are the columns in their order.
pub fn layout_of(columns: &[ColumnDef]) -> Arc<Layout> {
    layout_with(columns, &[])
}

/// The layout of rows with these places, where there are some.
pub fn layout_with(columns: &[ColumnDef], slots: &[Slot]) -> Arc<Layout> {
    let columns = columns
        .iter()
        .map(|c| row::Column { ty: c.ty.clone(), nullable: c.nullable, default: c.added_with.clone() })
        .collect();
    Arc::new(match slots.is_empty() {
        true => Layout::with_defaults(columns),
        false => Layout::with_slots(columns, slots),
    })
}
