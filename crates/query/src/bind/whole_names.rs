//! What the names of a query mean, noted while it is bound: a view's definition is kept with whole names.
//!
//! Parts of the tree are known by their addresses, so the tree must stay where it is until the notes have been used.

use hashbrown::HashMap;
use keel_sql::ast::ColumnName;

use super::{Binder, Clause, ScopeTable};
use crate::expr::Expr;

/// The notes.
#[derive(Default)]
pub(crate) struct WholeNames {
    columns: HashMap<usize, ColumnName>,
    /// The same by how they are spelled.
    spelled: Vec<(ColumnName, ColumnName)>,
    wildcards: HashMap<usize, Vec<ColumnName>>,
    databases: HashMap<usize, String>,
    joins: HashMap<usize, Vec<(ColumnName, ColumnName)>>,
}

fn place<T>(part: &T) -> usize {
    std::ptr::from_ref(part) as usize
}

impl WholeNames {
    /// What a column's name stands for.
    pub fn column(&self, name: &ColumnName) -> Option<&ColumnName> {
        self.columns.get(&place(name))
    }

    /// What a column's name stands for wherever it is spelled so; none where it does not mean the same everywhere.
    pub fn spelled(&self, name: &ColumnName) -> Option<&ColumnName> {
        let mut meanings = self.spelled.iter().filter(|(spelled, _)| spelled == name).map(|(_, whole)| whole);
        let first = meanings.next()?;
        meanings.all(|other| other == first).then_some(first)
    }

    /// The columns of a `*`.
    pub fn wildcard<T>(&self, item: &T) -> &[ColumnName] {
        self.wildcards.get(&place(item)).map_or(&[], Vec::as_slice)
    }

    /// The database of a table in FROM; none of those that WITH names.
    pub fn database<T>(&self, table: &T) -> Option<&String> {
        self.databases.get(&place(table))
    }

    /// The columns that USING or NATURAL compares.
    pub fn join<T>(&self, join: &T) -> &[(ColumnName, ColumnName)] {
        self.joins.get(&place(join)).map_or(&[], Vec::as_slice)
    }

    /// Notes the columns of a `*`.
    pub fn note_wildcard<T>(&mut self, item: &T, columns: Vec<ColumnName>) {
        self.wildcards.insert(place(item), columns);
    }

    /// Notes the database of a table.
    pub fn note_database<T>(&mut self, table: &T, database: &str) {
        self.databases.insert(place(table), database.to_string());
    }

    /// Notes two columns that USING or NATURAL compares.
    pub fn note_join<T>(&mut self, join: &T, pair: (ColumnName, ColumnName)) {
        let pairs = self.joins.entry(place(join)).or_default();
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
}

impl Binder<'_> {
    /// Notes what a name means that was found in the scope at `index`.
    pub(super) fn note_name(&mut self, index: usize, name: &ColumnName, found: &Expr) {
        let Some(notes) = &mut self.whole_names else { return };
        let scope = &self.scopes[index];
        if self.clause == Clause::Having
            && let Some(item) = scope.alias(name)
            && (!crate::expr::walk::same(item, found)
                || scope.whole_name(found).is_some_and(|whole| whole.column != name.column))
        {
            // HAVING goes on naming the select list's items, also where columns hide them.
            return;
        }
        if let Some(whole) = self.scopes[index].whole_name(found).filter(|n| n.table.as_deref() != Some("")) {
            let pair = (name.clone(), whole.clone());
            if !notes.spelled.contains(&pair) {
                notes.spelled.push(pair);
            }
            notes.columns.insert(place(name), whole);
        }
    }

    /// The whole name of a table's column, where names are noted.
    pub(crate) fn whole_name_of(&self, table: &ScopeTable, index: usize) -> Option<ColumnName> {
        self.whole_names.as_ref().map(|_| table.whole_name(index))
    }
}
