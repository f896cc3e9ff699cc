//! What binding a statement says about its plan: tables, privileges, and for which other executions it serves.

use std::sync::Arc;

use keel_base::SqlError;
use keel_catalog::{TableDef, View};
use keel_expr::Expr;
use keel_value::Value;

use super::{Binder, NamedTable};
use crate::access::UnusableKey;
use crate::check::{self, Need};

pub use keel_exec::named_locks::TableUse;

/// A table that a plan was made for.
#[derive(Clone)]
pub struct Dependency {
    /// Its definition at that time.
    pub table: Arc<TableDef>,
    /// Whether the plan changes it.
    pub written: bool,
    /// Whether its metadata lock is a writer's: it is changed, or its rows are locked FOR UPDATE.
    pub locked: bool,
    /// Whether the statement names it itself: what views and foreign keys name no temporary table hides.
    pub named: bool,
    /// Whether the statement makes it, and so has its lock already.
    pub made: bool,
}

/// What binding says about the plan's use for other executions.
#[derive(Default)]
pub struct Notes {
    /// Literals whose text must be the same for the plan to fit.
    pub pinned: Vec<u32>,
    /// See `Plan::narrow`.
    pub narrow: Vec<u32>,
    /// See `Plan::held`.
    pub held: Vec<(u32, Value)>,
    /// It serves this execution only.
    pub unique: bool,
    /// The tables that its queries name, subqueries included.
    pub tables: Vec<Arc<TableDef>>,
    /// The real ones by the names that it gives them, each as often as it is named.
    pub uses: Vec<TableUse>,
    /// The user variables that it assigns.
    pub assigned: Vec<Arc<str>>,
    /// What it wants of the tables.
    pub needs: Vec<Need>,
    /// The views that it reaches, each once.
    pub views: Vec<Arc<View>>,
    /// The tables that it names itself, not through a view.
    pub named: Vec<Arc<TableDef>>,
    /// The real tables of which it needs a writer's lock without changing them.
    pub locked: Vec<Arc<TableDef>>,
    /// Whether it locks a view FOR UPDATE, or would in MariaDB.
    pub locks_view: bool,
    /// The sequences that it asks for something, and whether they may move on.
    pub sequences: Vec<(Arc<TableDef>, bool)>,
    /// LIMIT ROWS EXAMINED, the last one that it says.
    pub rows_examined: Option<Expr>,
    /// What each execution warns of.
    pub warnings: Vec<SqlError>,
    /// Key parts that conditions cannot use.
    pub unusable: Vec<Arc<UnusableKey>>,
}

impl Notes {
    /// Takes what a binder noted.
    pub fn take(&mut self, binder: &Binder<'_>) {
        self.pinned.extend_from_slice(&binder.pinned);
        self.narrow.extend_from_slice(&binder.narrow);
        self.held.extend_from_slice(&binder.held);
        self.unique |= !binder.cacheable;
        if let Some(most) = &binder.rows_examined {
            self.rows_examined = Some(most.clone());
        }
        self.warnings.extend(binder.hidden.iter().map(|(_, warning)| warning.clone()));
        self.warnings.extend_from_slice(&binder.odd_lengths);
        self.unusable.extend_from_slice(&binder.unusable);
        self.tables.extend_from_slice(&binder.tables);
        self.named
            .extend(binder.named.iter().filter(|named| !named.in_view).map(|named| named.table.clone()));
        self.lock(binder, |named| named.locks);
        self.locks_view |= binder.views.iter().any(|named| named.locks);
        let of_table = |named: &&NamedTable| !named.table.is_virtual() && !named.table.is_temporary();
        let real = binder.named.iter().filter(of_table).filter(|named| !named.in_view);
        self.uses.extend(real.map(by_query));
        for sequence in &binder.sequences {
            let (table, writes) = (&sequence.table, sequence.writes);
            self.sequences.push((table.clone(), writes));
            if !sequence.in_view {
                self.named.push(table.clone());
            }
            if !sequence.in_view && !table.is_temporary() {
                self.uses.push(TableUse::of(table, writes));
            }
        }
        for named in &binder.views {
            if !named.in_view {
                let (lock, alias) = (named.view.lock.clone(), named.alias.clone());
                self.uses.push(TableUse { lock, alias, writes: false, is_view: true, in_view: false });
            }
            if !self.views.iter().any(|view| Arc::ptr_eq(view, &named.view)) {
                self.views.push(named.view.clone());
            }
        }
        let locked = binder.named.iter().filter(of_table).filter(|named| named.in_view && named.locks);
        self.uses.extend(locked.map(|named| TableUse::through_view(&named.table)));
        self.assigned.extend_from_slice(&binder.assigned);
        binder.needs.iter().for_each(|need| check::add(&mut self.needs, need.clone()));
    }

    /// Wants a writer's lock of some of the tables that a binder has named.
    pub fn lock(&mut self, binder: &Binder<'_>, which: impl Fn(&NamedTable) -> bool) {
        let named = binder.named.iter().filter(|named| which(named) && !named.table.is_virtual());
        self.locked.extend(named.map(|named| named.table.clone()));
    }

    /// Takes what a change wants that is only explained: its privileges, its tables, and the locks that it would need.
    pub fn take_explained(&mut self, changing: Notes, dependencies: &[Dependency], uses: Vec<TableUse>) {
        self.needs = changing.needs;
        self.uses = uses;
        self.locks_view |= changing.locks_view;
        for changed in dependencies.iter().filter(|dependency| dependency.locked) {
            let table = &changed.table;
            self.locked.push(table.clone());
            if !self.tables.iter().any(|other| Arc::ptr_eq(other, table)) {
                self.tables.push(table.clone());
            }
            if changed.named {
                self.named.push(table.clone());
            }
        }
    }
}

/// A table as a query names it.
fn by_query(named: &NamedTable) -> TableUse {
    TableUse { alias: named.alias.clone(), ..TableUse::of(&named.table, named.locks) }
}
