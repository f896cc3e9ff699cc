//! Foreign keys as the catalog keeps them.
//!
//! Tables and columns stand by their names, so a parent may be missing (`foreign_key_checks` = 0) and columns may move.
//! Definitions that rename one write the name anew wherever it stands.

use std::sync::Arc;

use super::names::push_quoted;
use super::{KeyPart, TableDef, TableRecord, names};

/// A foreign key of the table that has the referencing columns, the child.
#[derive(Debug, Clone, PartialEq)]
pub struct ForeignKey {
    /// Its name, one of its kind in the child's database.
    pub name: Arc<str>,
    /// Columns of the child.
    pub columns: Vec<Arc<str>>,
    /// Database of the parent.
    pub ref_schema: Arc<str>,
    /// The parent.
    pub ref_table: Arc<str>,
    /// Its columns, as many.
    pub ref_columns: Vec<Arc<str>>,
    /// ON DELETE.
    pub on_delete: ForeignAction,
    /// ON UPDATE.
    pub on_update: ForeignAction,
}

/// What becomes of the child's rows when the row that they refer to goes or changes its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ForeignAction {
    /// They keep it from that.
    #[default]
    Restrict,
    /// The same, said as NO ACTION.
    NoAction,
    /// They go, or change with it.
    Cascade,
    /// Their columns become NULL.
    SetNull,
}

impl ForeignAction {
    /// All of them, in the order of their numbers on disk.
    pub(super) const ALL: [ForeignAction; 4] =
        [ForeignAction::Restrict, ForeignAction::NoAction, ForeignAction::Cascade, ForeignAction::SetNull];

    /// As SQL has it.
    pub fn name(self) -> &'static str {
        match self {
            ForeignAction::Restrict => "RESTRICT",
            ForeignAction::NoAction => "NO ACTION",
            ForeignAction::Cascade => "CASCADE",
            ForeignAction::SetNull => "SET NULL",
        }
    }

    /// Whether rows of the child change.
    pub fn changes_child(self) -> bool {
        matches!(self, ForeignAction::Cascade | ForeignAction::SetNull)
    }
}

impl ForeignKey {
    /// Whether it refers to that table.
    pub fn refers_to(&self, schema: &str, table: &str) -> bool {
        *self.ref_schema == *schema && *self.ref_table == *table
    }

    /// `CONSTRAINT ... FOREIGN KEY (...) REFERENCES ...`, as SHOW CREATE TABLE of a table in `schema` prints it.
    pub fn push_definition(&self, schema: &str, out: &mut String) {
        out.push_str("CONSTRAINT ");
        push_quoted(out, &self.name);
        out.push_str(" FOREIGN KEY (");
        push_list(out, &self.columns);
        out.push_str(") REFERENCES ");
        if *self.ref_schema != *schema {
            push_quoted(out, &self.ref_schema);
            out.push('.');
        }
        push_quoted(out, &self.ref_table);
        out.push_str(" (");
        push_list(out, &self.ref_columns);
        out.push(')');
        for (event, action) in [(" ON DELETE ", self.on_delete), (" ON UPDATE ", self.on_update)] {
            if action != ForeignAction::Restrict {
                out.push_str(event);
                out.push_str(action.name());
            }
        }
    }

    /// Which constraint fails, as errors 1451 and 1452 say it.
    pub fn failure(&self, child: &TableDef) -> String {
        self.failure_in(&child.schema, &child.name)
    }

    /// The same for a child of that name.
    pub fn failure_in(&self, schema: &str, table: &str) -> String {
        let mut out = String::new();
        push_quoted(&mut out, schema);
        out.push('.');
        push_quoted(&mut out, table);
        out.push_str(", ");
        self.push_definition(schema, &mut out);
        out
    }

    /// The same as TRUNCATE TABLE says it: the parent with its database, and no actions.
    pub fn plain_failure(&self, child: &TableDef) -> String {
        let plain = ForeignKey {
            on_delete: ForeignAction::Restrict,
            on_update: ForeignAction::Restrict,
            ..self.clone()
        };
        let mut out = String::new();
        push_quoted(&mut out, &child.schema);
        out.push('.');
        push_quoted(&mut out, &child.name);
        out.push_str(", ");
        plain.push_definition("", &mut out);
        out
    }

    /// Whether its name was made from the table's: `t_ibfk_1`; gives the number.
    pub fn generated_number(&self, table: &str) -> Option<u64> {
        self.name.strip_prefix(table)?.strip_prefix("_ibfk_")?.parse().ok()
    }
}

fn push_list(out: &mut String, columns: &[Arc<str>]) {
    for (number, column) in columns.iter().enumerate() {
        if number > 0 {
            out.push_str(", ");
        }
        push_quoted(out, column);
    }
}

/// Whether an index of these parts finds rows by the columns at `places`, in that order: it begins with them, whole.
fn begins_with(parts: &[KeyPart], places: &[usize]) -> bool {
    parts.len() >= places.len()
        && parts.iter().zip(places).all(|(part, place)| part.column == *place && part.prefix.is_none())
}

/// Places of columns; none where one is missing.
fn places<'c>(columns: &[Arc<str>], all: impl Iterator<Item = &'c Arc<str>> + Clone) -> Option<Vec<usize>> {
    columns.iter().map(|column| all.clone().position(|name| names::same(name, column))).collect()
}

impl TableDef {
    /// Places of the columns of that name; none where one is missing.
    pub fn column_places(&self, columns: &[Arc<str>]) -> Option<Vec<usize>> {
        places(columns, self.columns.iter().map(|column| &column.name))
    }

    /// The index that finds rows by these columns.
    pub fn index_beginning_with(&self, places: &[usize]) -> Option<usize> {
        self.indexes.iter().position(|index| !index.hashed && begins_with(&index.parts, places))
    }
}

impl TableRecord {
    /// Places of the columns of that name; none where one is missing.
    pub fn column_places(&self, columns: &[Arc<str>]) -> Option<Vec<usize>> {
        places(columns, self.columns.iter().map(|column| &column.name))
    }

    /// The index that finds rows by these columns.
    pub fn index_beginning_with(&self, places: &[usize]) -> Option<usize> {
        self.indexes.iter().position(|index| !index.hashed && begins_with(&index.parts, places))
    }
}
