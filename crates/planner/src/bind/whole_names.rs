//! What the names of a query mean, noted while it is bound: a view's definition is kept with whole names.
//!
//! Parts of the tree are known by their addresses, so the tree must stay where it is until the notes have been used.

use hashbrown::HashMap;
use keel_expr::Expr;
use keel_sql::ast::ColumnName;

use super::{Binder, Clause, ScopeTable};

/// The notes.
#[derive(Default)]
pub struct WholeNames {
    columns: HashMap<usize, ColumnName>,
    /// The same within windows, which are bound from copies: where the window stands, how the name is spelled, what it means.
    in_windows: Vec<(usize, ColumnName, ColumnName)>,
    /// The window that is being bound.
    window: Option<usize>,
    wildcards: HashMap<usize, Vec<ColumnName>>,
    databases: HashMap<usize, String>,
    joins: HashMap<usize, Vec<(ColumnName, ColumnName)>>,
}

/// By what a part of the tree is known.
pub fn place<T>(part: &T) -> usize {
    std::ptr::from_ref(part) as usize
}

impl WholeNames {
    /// What a column's name stands for.
    pub fn column(&self, name: &ColumnName) -> Option<&ColumnName> {
        self.columns.get(&place(name))
    }

    /// What a column's name stands for that is spelled so within a window.
    pub fn in_window(&self, window: usize, name: &ColumnName) -> Option<&ColumnName> {
        let is_it = |note: &&(usize, ColumnName, ColumnName)| note.0 == window && note.1 == *name;
        self.in_windows.iter().find(is_it).map(|(_, _, whole)| whole)
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
    pub(crate) fn note_name(&mut self, index: usize, name: &ColumnName, found: &Expr) {
        let Some(notes) = &mut self.whole_names else { return };
        let scope = &self.scopes[index];
        if self.clause == Clause::Having
            && let Some(item) = scope.alias(name)
            && (!keel_expr::walk::same(item, found)
                || scope.whole_name(found).is_some_and(|whole| whole.column != name.column))
        {
            // HAVING goes on naming the select list's items, also where columns hide them.
            return;
        }
        if let Some(whole) = self.scopes[index].whole_name(found).filter(|n| n.table.as_deref() != Some("")) {
            if let Some(window) = notes.window {
                // What is bound is a copy, whose place means nothing.
                notes.in_windows.push((window, name.clone(), whole));
                return;
            }
            notes.columns.insert(place(name), whole);
        }
    }

    /// Names are those of the window at such a place from now on, or of none.
    pub(crate) fn note_window(&mut self, window: Option<usize>) {
        if let Some(notes) = &mut self.whole_names {
            notes.window = window;
        }
    }

    /// The whole name of a table's column, where names are noted.
    pub(crate) fn whole_name_of(&self, table: &ScopeTable, index: usize) -> Option<ColumnName> {
        self.whole_names.as_ref().map(|_| table.whole_name(index))
    }
}
