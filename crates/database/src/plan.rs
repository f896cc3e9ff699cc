//! A bound and optimised statement, ready to run any number of times.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwapOption;
use keel_base::SqlError;
use keel_catalog::account::Privileges;
use keel_catalog::{Catalog, TableDef, View};
use keel_context::mdl::TableLock;
use keel_context::memory::Allowance;
use keel_context::result::ResultColumns;
use keel_exec::running::{Execution, Planned};
use keel_exec::session::Session;
use keel_expr::Expr;
use keel_planner::access::UnusableKey;
use keel_planner::bind::{Dependency, Shape, TableUse};
use keel_planner::check::Need;
use keel_sql::Literal;
use keel_sql::ast::{LockClause, QueryBody, Statement};
use keel_storage::Isolation;
use keel_storage::runtime::heap;
use keel_value::{CollationId, Value};

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
    Load,
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
    CreateTemporaryTable,
    DropTemporaryTable,
    AlterTable,
    AlterSequence,
    RenameTable,
    Truncate,
    CreateIndex,
    DropIndex,
    CreateView,
    AlterView,
    DropView,
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
                | AlterSequence
                | RenameTable
                | Truncate
                | CreateIndex
                | DropIndex
                | CreateView
                | AlterView
                | DropView
                | Check
                | Analyze
                | Optimize
                | Repair
        )
    }

    /// Whether it makes or drops temporary tables alone: no transaction ends, nobody else is concerned.
    pub fn defines_temporary(self) -> bool {
        matches!(self, StatementKind::CreateTemporaryTable | StatementKind::DropTemporaryTable)
    }

    /// Whether it ends the transaction that is open, so that it is refused in a branch of XA.
    pub fn ends_transaction(self) -> bool {
        use StatementKind::*;
        self.commits_implicitly() || matches!(self, Begin | Commit | Rollback)
    }

    /// Whether it changes definitions.
    pub fn defines(self) -> bool {
        use StatementKind::*;
        self.commits_implicitly() && !matches!(self, Check | Analyze | Optimize | Repair)
    }

    /// Whether it changes definitions or tables as wholes, so that it is refused in a READ ONLY transaction.
    pub fn changes_tables(self) -> bool {
        self.defines() || matches!(self, StatementKind::Optimize | StatementKind::Repair)
    }

    /// Whether it is a definition or maintenance of tables.
    fn names_tables(self) -> bool {
        use StatementKind::*;
        self == Checksum
            || self.defines_temporary()
            || self.commits_implicitly() && !matches!(self, CreateDatabase | AlterDatabase | DropDatabase)
    }

    /// Whether what it only reads is locked shared, as InnoDB does it: in statements that are no queries, so that what was
    /// written follows from what stays. READ COMMITTED spares UPDATE of one table and those that a query fills.
    pub fn locks_reads(self, isolation: Isolation) -> bool {
        use StatementKind::*;
        match self {
            Update | InsertSelect | ReplaceSelect => isolation.locks_gaps(),
            Do => true,
            other => other.changes_rows(),
        }
    }

    /// Whether it changes rows, so that it is refused in a READ ONLY transaction.
    pub fn changes_rows(self) -> bool {
        use StatementKind::*;
        matches!(
            self,
            Insert
                | InsertSelect
                | Replace
                | ReplaceSelect
                | Update
                | UpdateMulti
                | Delete
                | DeleteMulti
                | Load
        )
    }
}

/// Settings of a session that types of expressions depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    connection_collation: CollationId,
    div_precision_increment: u8,
    group_concat_max_len: u64,
}

impl Settings {
    /// Of a session.
    pub fn of(session: &Session) -> Settings {
        Settings {
            connection_collation: session.vars.connection_collation,
            div_precision_increment: session.vars.div_precision_increment,
            group_concat_max_len: session.vars.group_concat_max_len,
        }
    }
}

/// A statement bound to the catalog. Shared by sessions.
pub struct Plan {
    /// Which statement.
    pub kind: StatementKind,
    /// Its tree, from which it is bound again when a table changes.
    pub statement: Arc<Statement>,
    /// The text's literals, where they were bound as parameters.
    pub(crate) literals: Option<Box<[Literal]>>,
    /// Whether the plan cache may keep it.
    pub cacheable: bool,
    /// The default database it was bound under.
    pub database: Option<Arc<str>>,
    pub(crate) param_count: u32,
    /// Literals that the plan holds for, beside those that the parser fixed: in ascending order, each once.
    pub(crate) pinned: Box<[u32]>,
    /// Parameters that must be ASCII where they are texts: they meet a character set that may lack what they hold.
    pub(crate) narrow: Box<[u32]>,
    /// Parameters that the plan was made for, with their values: others need another plan.
    pub(crate) held: Box<[(u32, Value)]>,
    /// The kinds of values that parameters were bound for.
    pub(crate) shapes: Box<[Shape]>,
    /// The session's settings that it was bound under.
    pub(crate) settings: Settings,
    /// The collation of its literals: that of the connection when the statement was prepared.
    pub(crate) literal_collation: CollationId,
    /// The same statement bound again, for other kinds of values or after a table changed.
    pub(crate) successor: ArcSwapOption<Plan>,
    pub(crate) dependencies: Vec<Dependency>,
    /// The views that it names, and those below them, each once.
    pub(crate) views: Vec<Arc<View>>,
    /// Whether it locks a view FOR UPDATE, even one whose tables it only reads: then it is none of a READ ONLY transaction.
    pub(crate) locks_view: bool,
    /// Its real tables by the names that it gives them, what it changes first.
    pub(crate) uses: Vec<TableUse>,
    pub(crate) body: Body,
    /// LIMIT ROWS EXAMINED: the steps of readers after which it ends.
    pub(crate) rows_examined: Option<Expr>,
    /// What each execution warns of before it does anything.
    pub(crate) warnings: Box<[SqlError]>,
    /// Key parts that its conditions cannot use: each execution notes them if `note_verbosity` asks for it.
    pub(crate) unusable: Box<[Arc<UnusableKey>]>,
    /// The catalog's version under which the dependencies were last seen unchanged.
    pub(crate) seen_version: AtomicU64,
    /// What it wants of the tables.
    pub(crate) needs: Box<[Need]>,
    /// All that it wants: who may do that everywhere is asked nothing more.
    pub(crate) wanted: Privileges,
    /// The stamp of the last account that was found to have it ([`keel_catalog::account::Access`]).
    pub(crate) checked: AtomicU64,
    /// Bytes of heap that the plan and its tree keep, as counted while they were made; 0 without a counting allocator.
    pub(crate) heap_bytes: AtomicUsize,
    /// What it takes of the memory that sessions share, where a statement was prepared from it: as long as it lives.
    pub(crate) memory: OnceLock<Allowance>,
}

/// How a plan runs.
pub(crate) enum Body {
    /// Nothing to prepare: definitions, transactions, maintenance. The tree says all.
    Direct,
    /// A single-row SELECT.
    PointSelect(Box<crate::point::PointSelect>),
    /// Any other SELECT.
    Select(Box<keel_exec::select::SelectPlan>),
    /// INSERT and REPLACE.
    Insert(Box<keel_dml::InsertPlan>),
    /// UPDATE of one table.
    Update(Box<keel_dml::UpdatePlan>),
    /// DELETE from one table.
    Delete(Box<keel_dml::DeletePlan>),
    /// UPDATE or DELETE over several tables.
    Multi(Box<keel_dml::multi::MultiPlan>),
    /// DO.
    Do(Vec<keel_expr::Expr>),
    /// A change of the server's own tables that does nothing, and what it warns of.
    PassedOver(Option<SqlError>),
    /// EXPLAIN.
    Explain(Box<crate::explain::ExplainPlan>),
}

impl Body {
    /// How a query locks its rows; none where it does not.
    pub(crate) fn lock(&self) -> Option<&LockClause> {
        match self {
            Body::Select(select) => select.lock(),
            Body::PointSelect(point) => point.lock(),
            _ => None,
        }
    }
}

impl Planned for Plan {
    fn shared_locks(&self) -> Vec<(Arc<TableLock>, bool)> {
        self.locks().map(|(lock, writes)| (lock.clone(), writes)).collect()
    }
}

impl Plan {
    /// The execution that other sessions may see; none for statements that end at once.
    pub(crate) fn shown(self: &Arc<Plan>, params: &[Value]) -> Option<Execution> {
        let shows = match &self.body {
            Body::Insert(_) => self.kind != StatementKind::Load,
            Body::Select(_) | Body::Multi(_) => true,
            Body::Update(update) => !update.is_direct(),
            Body::Delete(delete) => !delete.is_direct(),
            Body::Explain(explain) => explain.analyzed().is_some(),
            Body::Do(_) => !self.dependencies.is_empty(),
            Body::PointSelect(_) | Body::PassedOver(_) | Body::Direct => false,
        };
        let rows_alone = matches!(&self.body, Body::Insert(insert) if insert.query().is_none());
        shows.then(|| Execution {
            plan: self.clone(),
            params: if rows_alone { Vec::new() } else { params.to_vec() },
        })
    }

    /// Counts as the plan's what this fiber's heap has grown by since `start`, a reading of [`heap::of_fiber`].
    pub fn note_heap(&self, start: i64) {
        let bytes = usize::try_from(heap::of_fiber() - start).unwrap_or(0);
        self.heap_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of heap that the plan and its successor keep.
    pub(crate) fn heap_bytes(&self) -> usize {
        let successor = self.successor.load();
        let next = successor.as_ref().map_or(0, |next| next.heap_bytes.load(Ordering::Relaxed));
        self.heap_bytes.load(Ordering::Relaxed) + next
    }

    /// Whether it reads or changes a table of the engine's.
    #[inline]
    pub(crate) fn has_stored_tables(&self) -> bool {
        self.dependencies.iter().any(|dependency| !dependency.table.is_virtual())
    }

    /// Whether a warning about a row it writes is an error.
    pub(crate) fn is_strict(&self, session: &Session) -> bool {
        let ignores = match &*self.statement {
            Statement::Insert(insert) => insert.ignore,
            Statement::Update(update) => update.ignore,
            _ => return false,
        };
        session.is_strict() && !ignores
    }

    /// Whether it uses temporary tables: then it is its session's alone.
    pub(crate) fn uses_temporary(&self) -> bool {
        self.dependencies.iter().any(|dependency| dependency.table.is_temporary())
    }

    /// Whether it changes, or locks for that, rows that last.
    pub(crate) fn writes_lasting(&self) -> bool {
        self.dependencies.iter().any(|dependency| dependency.locked && !dependency.table.is_temporary())
    }

    /// Whether `read_only` concerns it. Tables that an UPDATE or DELETE of several only reads do not count.
    pub(crate) fn needs_writes(&self) -> bool {
        match self.kind {
            StatementKind::UpdateMulti | StatementKind::DeleteMulti => {
                self.dependencies.iter().any(|read| read.written && !read.table.is_temporary())
            }
            _ => self.writes_lasting(),
        }
    }

    /// Whether it changes rows that last. One that only locks them does not.
    pub(crate) fn changes_lasting(&self) -> bool {
        !matches!(self.kind, StatementKind::Select | StatementKind::Do) && self.needs_writes()
    }

    /// Tables that it reads or changes.
    pub fn table_count(&self) -> usize {
        self.dependencies.len()
    }

    /// Whether it names tables: such a statement forgets earlier ones' warnings, others only replace them by their own.
    pub fn uses_tables(&self) -> bool {
        let has_from = match &*self.statement {
            Statement::Query(query) => {
                matches!(&query.body, QueryBody::Select(select) if !select.from.is_empty())
            }
            _ => false,
        };
        has_from || !self.dependencies.is_empty() || !self.views.is_empty() || self.kind.names_tables()
    }

    /// The result's columns; none for statements that answer OK.
    pub fn columns(&self) -> Option<&Arc<ResultColumns>> {
        match &self.body {
            Body::PointSelect(plan) => Some(plan.columns()),
            Body::Select(plan) if plan.is_into() => None,
            Body::Select(plan) => Some(plan.columns()),
            Body::Explain(plan) => Some(&plan.columns),
            Body::Insert(plan) => plan.returning.as_ref().map(|returning| &returning.columns),
            Body::Delete(plan) => plan.returning.as_ref().map(|returning| &returning.columns),
            Body::PassedOver(_) | Body::Direct | Body::Update(_) | Body::Multi(_) | Body::Do(_) => None,
        }
    }

    /// Warns of what is odd about the statement itself: when it is prepared, and at each execution.
    pub fn warn(&self, session: &mut Session) {
        for warning in &self.warnings {
            session.warn(warning.clone());
        }
    }

    /// Notes the key parts that conditions cannot use, where `note_verbosity` asks for that.
    pub(crate) fn note_unusable_keys(&self, session: &mut Session, params: &[Value]) {
        let verbosity = session.vars.note_verbosity;
        let explains = self.kind == StatementKind::Explain && verbosity.explain;
        if verbosity.unusable_keys || explains {
            let notes =
                self.unusable.iter().filter_map(|unusable| unusable.note(params, self.literals.is_some()));
            notes.for_each(|note| session.note(note));
        }
    }

    /// How many parameters an execution passes: `?` of a prepared statement, literals of a cached one.
    pub fn param_count(&self) -> usize {
        self.param_count as usize
    }

    /// The metadata locks that it needs, and whether as one that writes.
    pub(crate) fn locks(&self) -> impl Iterator<Item = (&Arc<TableLock>, bool)> {
        let used = self.dependencies.iter().filter(|d| !d.made);
        let tables = used.map(|d| (&d.table.shared.lock, d.locked));
        tables.chain(self.views.iter().map(|view| (&view.lock, false)))
    }

    /// The tables it reads or changes.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableDef>> {
        self.dependencies.iter().map(|d| &d.table)
    }

    /// Whether it was made for such values; NULL fits everywhere.
    #[inline]
    pub(crate) fn fits(&self, params: &[Value]) -> bool {
        params.len() == self.shapes.len()
            && params
                .iter()
                .zip(&self.shapes)
                .all(|(value, shape)| value.is_null() || Shape::of(value) == *shape)
            && self.narrow.iter().all(|index| match params.get(*index as usize) {
                Some(Value::Bytes(text)) => text.is_ascii(),
                _ => true,
            })
            && self.held.iter().all(|(index, value)| params.get(*index as usize) == Some(value))
    }

    /// Whether it still fits the catalog: one comparison where nothing changed at all.
    pub(crate) fn is_current(&self, catalog: &Catalog) -> bool {
        if self.seen_version.load(Ordering::Relaxed) == catalog.version {
            return true;
        }
        let tables = self.dependencies.iter().all(|d| match d.named {
            // A table that has been made since then comes before numbers.
            _ if d.table.series.is_some() => catalog.table(&d.table.schema, &d.table.name).is_none(),
            true => d.table.is_virtual() || catalog.has(&d.table),
            false => d.table.is_virtual() || catalog.has_lasting(&d.table),
        });
        let is_there = |view: &Arc<View>| {
            catalog.view(&view.schema, &view.name).is_some_and(|now| Arc::ptr_eq(now, view))
        };
        let same = tables && self.views.iter().all(is_there);
        // What one session sees says nothing to others, who share the plan.
        if same && (!catalog.is_of_session() || self.uses_temporary()) {
            self.seen_version.store(catalog.version, Ordering::Relaxed);
        }
        same
    }
}
