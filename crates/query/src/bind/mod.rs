//! Names to columns, trees of the statement to typed expressions.
//!
//! A [`Binder`] holds a stack of [`Scope`]s, one per query block, the innermost last. A name is looked up from the
//! innermost outwards; found further out it becomes [`Node::Outer`] and makes the blocks between correlated. Errors are
//! MariaDB's: 1054 unknown column, 1052 ambiguous, 1305 unknown function, 1582 wrong argument count, 1111 and 1140 for
//! misplaced aggregates, 1241 for rows where scalars belong.
//!
//! Literals: in a statement that came as text each literal that the parser did not mark as fixed becomes a parameter, so
//! that the plan serves every statement of the same digest. In a prepared statement literals are constants and `?` are
//! the parameters.

mod call;
mod expr;
pub(crate) mod literal;
mod scope;
mod subquery;

pub(crate) use expr::to_charset;
pub use literal::literal_value;
pub(crate) use literal::octets_as_number;
pub use scope::{MergedColumn, Scope, ScopeColumn, ScopeTable};

use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_sql::ast;
use keel_value::{SqlType, Value};

use crate::account::Privileges;
use crate::account::check::{self, ColumnNeed, Need};
use crate::catalog::{Catalog, TableDef};
use crate::expr::{Expr, Node};
use crate::session::Session;

/// Where an execution's parameters come from.
#[derive(Clone, Copy, Default)]
pub struct ParamSource<'a> {
    /// The literals of a text statement, which become parameters under their index; none in prepared statements.
    pub literals: Option<&'a [keel_sql::Literal]>,
    /// Types of the `?` of a prepared statement; missing ones are taken as NULL's type.
    pub types: &'a [SqlType],
    /// The values of the first execution, where known: for estimates only.
    pub values: &'a [Value],
}

/// What binding depends on.
#[derive(Clone, Copy)]
pub struct BindContext<'a> {
    /// The tables.
    pub catalog: &'a Catalog,
    /// Current database, modes, connection's collation.
    pub session: &'a Session,
    /// The parameters.
    pub params: ParamSource<'a>,
    /// User variables that the statement itself assigns, in lower case, where that is known already: reading one gives
    /// another value from row to row.
    pub assigned: &'a [Arc<str>],
}

impl BindContext<'_> {
    /// A table of the server's own in a database that has real ones too.
    fn system_table(&self, db: &str, name: &str) -> Option<Arc<TableDef>> {
        match self.catalog.table(db, name) {
            Some(_) => None,
            None => self.session.host.virtual_table(db, name),
        }
    }
}

/// A real table as a query names it.
pub(crate) struct NamedTable {
    pub table: Arc<TableDef>,
    /// Under its own name, not under an alias.
    pub by_own_name: bool,
    /// Its alias, or its name.
    pub alias: Arc<str>,
    /// Its rows are locked FOR UPDATE.
    pub locks: bool,
    /// Within a derived table, whose rows are gathered before they are used.
    pub in_derived: bool,
    /// Within a subquery of the statement's own block.
    pub in_subquery: bool,
}

/// What a subquery being bound reads of enclosing queries.
#[derive(Debug, Default)]
pub(crate) struct SubqueryReads {
    /// Scopes below the subquery's own.
    pub depth: usize,
    /// Level, slot, column.
    pub columns: Vec<(u16, u16, u16)>,
}

/// The clause an expression stands in, as messages name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clause {
    /// The select list.
    Fields,
    /// What UPDATE assigns, and to what.
    Set,
    /// What ON DUPLICATE KEY UPDATE assigns to.
    Update,
    /// VALUES of INSERT.
    Values,
    /// DO.
    Do,
    /// WHERE.
    Where,
    /// ON.
    On,
    /// GROUP BY.
    Group,
    /// HAVING.
    Having,
    /// ORDER BY.
    Order,
    /// PARTITION BY of a window.
    Partition,
    /// ORDER BY of a window, and arguments of window functions in ORDER BY.
    Window,
}

impl Clause {
    /// The words in 1054 and 1052.
    pub fn words(self) -> &'static str {
        match self {
            Clause::Fields => "SELECT",
            Clause::Set => "SET",
            Clause::Update => "UPDATE",
            Clause::Values => "VALUES",
            Clause::Do => "DO",
            Clause::Where => "WHERE",
            Clause::On => "ON",
            Clause::Group => "GROUP BY",
            Clause::Having => "HAVING",
            Clause::Order | Clause::Window => "ORDER BY",
            Clause::Partition => "GROUP BY",
        }
    }

    /// Whether aggregates may stand in it.
    pub fn takes_aggregates(self) -> bool {
        matches!(self, Clause::Fields | Clause::Having | Clause::Order | Clause::Partition | Clause::Window)
    }
}

/// Binds one statement.
pub struct Binder<'a> {
    /// What binding depends on.
    pub cx: BindContext<'a>,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) clause: Clause,
    /// Within an aggregate's arguments: another aggregate is 1111.
    pub(crate) in_aggregate: bool,
    /// Within a window function's arguments: another window function is 4074.
    pub(crate) in_window: bool,
    /// Literals met now are constants of the plan: their form shows in column names and types.
    pub pins_literals: bool,
    /// The same for decimals only: the scale of a quotient follows from that of its operands.
    pub(crate) pins_decimals: bool,
    /// Literals that the plan holds for, beyond those that the parser fixed: their text must be the same for the plan to fit.
    pub pinned: Vec<u32>,
    /// Whether the plan serves other executions: false where it depends on types of user variables.
    pub cacheable: bool,
    /// The slot that VALUES(column) reads, in ON DUPLICATE KEY UPDATE.
    pub values_slot: Option<u16>,
    /// Columns of enclosing queries read by the subqueries being bound, innermost last: how many queries outwards as seen
    /// from the subquery, slot, column; and the depth of scopes below each.
    pub(crate) reads: Vec<SubqueryReads>,
    /// Every table named so far, once.
    pub tables: Vec<Arc<TableDef>>,
    /// What is wanted of them.
    pub(crate) needs: Vec<Need>,
    /// Columns that are met now are assigned to, not read.
    pub(crate) names_only: bool,
    /// Every naming of a table so far.
    pub(crate) named: Vec<NamedTable>,
    /// The statement is SELECT ... FOR UPDATE.
    pub(crate) locks_rows: bool,
    /// Derived tables and WITH's around what is being bound.
    pub(crate) derived_depth: usize,
    /// Something was met that gives another value at each call.
    pub(crate) saw_volatile: bool,
    /// User variables that assignments were met of.
    pub(crate) assigned: Vec<Arc<str>>,
    /// Where a derived table's name may not be found: WITH's tables, innermost last.
    pub(crate) common: Vec<crate::select::CommonTable>,
    /// Names of tables of WITH RECURSIVE that are bound later.
    pub(crate) later_common: Vec<String>,
    /// Recursive tables so far.
    pub(crate) recursions: u32,
    /// Recursive tables that the part being bound names, by their numbers.
    pub(crate) working_uses: Vec<u32>,
}

impl<'a> Binder<'a> {
    /// A binder with one empty scope.
    pub fn new(cx: BindContext<'a>) -> Binder<'a> {
        Binder {
            cx,
            scopes: vec![Scope::default()],
            clause: Clause::Fields,
            in_aggregate: false,
            in_window: false,
            pins_literals: false,
            pins_decimals: false,
            pinned: Vec::new(),
            cacheable: true,
            values_slot: None,
            reads: Vec::new(),
            tables: Vec::new(),
            named: Vec::new(),
            locks_rows: false,
            derived_depth: 0,
            saw_volatile: false,
            assigned: Vec::new(),
            needs: Vec::new(),
            names_only: false,
            common: Vec::new(),
            later_common: Vec::new(),
            recursions: 0,
            working_uses: Vec::new(),
        }
    }

    /// The innermost scope.
    pub fn scope(&self) -> &Scope {
        self.scopes.last().expect("a binder always has a scope")
    }

    /// The innermost scope, to add tables to.
    pub fn scope_mut(&mut self) -> &mut Scope {
        self.scopes.last_mut().expect("a binder always has a scope")
    }

    /// Cells that executions of the innermost scope's expressions need (see [`crate::expr::frame::once_cells`]).
    pub fn once_count(&self) -> u32 {
        self.scope().once
    }

    /// Binds an expression of a clause; a row is 1241.
    pub fn bind(&mut self, tree: &ast::Expr, clause: Clause) -> SqlResult<Expr> {
        let bound = self.bind_any(tree, clause)?;
        if let Node::Row(_) = bound.node {
            return Err(errors::operand_columns(1));
        }
        Ok(bound)
    }

    /// Binds a condition and takes its AND apart: all of the result must be true. Constants are computed once.
    pub fn bind_condition(&mut self, tree: &ast::Expr, clause: Clause) -> SqlResult<Vec<Expr>> {
        let mut bound = self.bind(tree, clause)?;
        self.hoist(&mut bound);
        Ok(match bound.node {
            Node::And(parts) => parts,
            _ => vec![bound],
        })
    }

    /// Makes what does not depend on rows be computed once per execution.
    pub fn hoist(&mut self, expr: &mut Expr) {
        crate::expr::walk::hoist(expr, &mut self.scope_mut().once);
    }

    /// The table that a query names, in the current database where none is said: a real one, or one of the server's own.
    pub(crate) fn table(
        &mut self,
        db: Option<&str>,
        name: &str,
        alias: Option<&str>,
    ) -> SqlResult<Arc<TableDef>> {
        let session = self.cx.session;
        let db = match db {
            Some(db) => db,
            None => session.require_database()?,
        };
        check::table(session, &self.cx.catalog.accounts, (db, name), Privileges::SELECT)?;
        let table = if session.host.virtual_schemas().iter().any(|s| s.eq_ignore_ascii_case(db)) {
            session
                .host
                .virtual_table(db, name)
                .ok_or_else(|| errors::unknown_table(name, db.to_lowercase()))?
        } else if let Some(system) = self.cx.system_table(db, name) {
            system
        } else {
            let found = self.cx.catalog.require_table(db, name);
            found.map_err(|error| session.named_locks.unknown(alias.unwrap_or(name), error))?.clone()
        };
        check::add(&mut self.needs, Need::of(&table, Privileges::SELECT));
        if !self.tables.iter().any(|t| Arc::ptr_eq(t, &table)) {
            self.tables.push(table.clone());
        }
        let by_own_name = alias.is_none_or(|alias| *alias == *table.name);
        self.named.push(NamedTable {
            table: table.clone(),
            by_own_name,
            alias: alias.filter(|_| !by_own_name).map_or_else(|| table.name.clone(), Arc::from),
            locks: self.locks_rows && self.derived_depth == 0 && self.reads.is_empty(),
            in_derived: self.derived_depth > 0,
            in_subquery: !self.reads.is_empty(),
        });
        Ok(table)
    }

    /// Notes that a column of a table is read, which `unnamed` says nobody has named.
    pub(crate) fn note_read(&mut self, table: &Arc<TableDef>, column: usize, unnamed: bool) {
        if self.names_only {
            return;
        }
        let column = ColumnNeed { column: column as u16, wanted: Privileges::SELECT, unnamed };
        check::add(&mut self.needs, Need { columns: vec![column], ..Need::of(table, Privileges::NONE) });
    }

    /// Notes the columns that an expression reads of one of the scopes.
    pub(crate) fn note_reads(&mut self, scope: usize, expr: &Expr, unnamed: bool) {
        let mut found: Vec<(Arc<TableDef>, usize)> = Vec::new();
        let tables = &self.scopes[scope].tables;
        crate::expr::walk::for_each_column(expr, &mut |slot, column| {
            let table = tables.iter().find(|t| t.slot == slot).and_then(|t| t.def.clone());
            found.extend(table.map(|table| (table, usize::from(column))));
        });
        found.iter().for_each(|(table, column)| self.note_read(table, *column, unnamed));
    }

    /// Whether a query bound so far reads the table.
    pub(crate) fn reads_table(&self, table: &Arc<TableDef>) -> bool {
        self.tables.iter().any(|named| Arc::ptr_eq(named, table))
    }

    /// Ends the innermost scope; what it read of enclosing queries is noted for the subquery being bound.
    pub(crate) fn pop_scope(&mut self) -> Scope {
        let scope = self.scopes.pop().expect("a scope was pushed");
        if let Some(reads) = self.reads.last_mut()
            && reads.depth == self.scopes.len()
        {
            reads.columns.extend_from_slice(&scope.reads);
        }
        scope
    }

    /// A number for something kept per execution.
    pub(crate) fn new_once(&mut self) -> u32 {
        let scope = self.scope_mut();
        scope.once += 1;
        scope.once - 1
    }

    pub(crate) fn bind_any(&mut self, tree: &ast::Expr, clause: Clause) -> SqlResult<Expr> {
        let before = std::mem::replace(&mut self.clause, clause);
        let bound = self.expr(tree);
        self.clause = before;
        bound
    }
}
