//! A bound and optimised statement, ready to run any number of times.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use keel_sql::ast::Statement;

use crate::catalog::{Catalog, TableDef};
use crate::result::ResultColumns;

/// Which statement, as status counters (`Com_select`) and the rules about transactions tell them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum StatementKind {
    Select,
    Insert,
    InsertSelect,
    Replace,
    ReplaceSelect,
    Update,
    UpdateMulti,
    Delete,
    DeleteMulti,
    Do,
    Explain,
    Begin,
    Commit,
    Rollback,
    Savepoint,
    RollbackToSavepoint,
    ReleaseSavepoint,
    CreateDatabase,
    AlterDatabase,
    DropDatabase,
    CreateTable,
    DropTable,
    AlterTable,
    RenameTable,
    Truncate,
    CreateIndex,
    DropIndex,
    Check,
    Analyze,
    Optimize,
    Repair,
    Checksum,
}

impl StatementKind {
    /// Whether it commits an open transaction before it runs, and itself after.
    pub fn commits_implicitly(self) -> bool {
        use StatementKind::*;
        matches!(
            self,
            CreateDatabase
                | AlterDatabase
                | DropDatabase
                | CreateTable
                | DropTable
                | AlterTable
                | RenameTable
                | Truncate
                | CreateIndex
                | DropIndex
                | Check
                | Analyze
                | Optimize
                | Repair
        )
    }

    /// Whether it changes rows, so that it is refused in a READ ONLY transaction.
    pub fn changes_rows(self) -> bool {
        use StatementKind::*;
        matches!(
            self,
            Insert | InsertSelect | Replace | ReplaceSelect | Update | UpdateMulti | Delete | DeleteMulti
        )
    }
}

/// A table that a plan was made for.
#[derive(Clone)]
pub struct Dependency {
    /// Its definition at that time.
    pub table: Arc<TableDef>,
    /// Whether the plan changes it.
    pub written: bool,
}

/// A statement bound to the catalog. Shared by sessions.
pub struct Plan {
    /// Which statement.
    pub kind: StatementKind,
    /// Its tree, from which it is bound anew when a table changes.
    pub statement: Arc<Statement>,
    /// Whether literals were bound as parameters.
    pub literals_are_params: bool,
    /// Whether the plan cache may keep it.
    pub cacheable: bool,
    /// The default database it was bound under.
    pub database: Option<Arc<str>>,
    pub(crate) param_count: u32,
    pub(crate) dependencies: Vec<Dependency>,
    pub(crate) body: Body,
    /// The catalog's version under which the dependencies were last seen unchanged.
    pub(crate) seen_version: AtomicU64,
}

/// How a plan runs.
pub(crate) enum Body {
    /// Nothing to prepare: definitions, transactions, maintenance. The tree says all.
    Direct,
}

impl Plan {
    /// The result's columns; none for statements that answer OK.
    pub fn columns(&self) -> Option<&Arc<ResultColumns>> {
        match &self.body {
            Body::Direct => None,
        }
    }

    /// How many parameters an execution passes: `?` of a prepared statement, literals of a cached one.
    pub fn param_count(&self) -> usize {
        self.param_count as usize
    }

    /// The tables it reads or changes.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableDef>> {
        self.dependencies.iter().map(|d| &d.table)
    }

    /// Whether it still fits the catalog: one comparison where nothing changed at all.
    pub(crate) fn is_current(&self, catalog: &Catalog) -> bool {
        if self.seen_version.load(Ordering::Relaxed) == catalog.version {
            return true;
        }
        let same = self.dependencies.iter().all(|d| {
            d.table.is_virtual()
                || catalog.table(&d.table.schema, &d.table.name).is_some_and(|t| Arc::ptr_eq(t, &d.table))
        });
        if same {
            self.seen_version.store(catalog.version, Ordering::Relaxed);
        }
        same
    }
}
