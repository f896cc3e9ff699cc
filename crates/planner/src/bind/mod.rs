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
mod early;
mod expr;
pub mod generated;
mod in_list;
pub mod literal;
mod notes;
mod scope;
mod sequence;
mod shape;
mod subquery;
mod whole_names;
mod year;

pub use keel_expr::NO_SLOT;
pub use keel_expr::OUTSIDE;
pub use keel_expr::typing::bytes_as_number;
pub use keel_expr::typing::to_charset;
pub use literal::{literal_value, temporal_check};
pub use notes::{Dependency, Notes, TableUse};
pub use scope::{Listed, MergedColumn, Scope, ScopeColumn, ScopeTable, ViewPart};
pub use scope::{ROW_NUMBER, display, row_number_type};
pub(crate) use sequence::NamedSequence;
pub use shape::Shape;
pub use whole_names::{WholeNames, place};

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, errors};
use keel_catalog::account::Privileges;
use keel_catalog::{Catalog, TableDef, View, names, series};
use keel_context::counts::{Counting, Counts};
use keel_exec::session::Session;
use keel_expr::{CompareOp, Expr, Node, typing};
use keel_sql::ast;
use keel_value::{CollationId, Date, SqlType, TypeKind, Value};

use crate::access::UnusableKey;
use crate::check::{self, Asked, ColumnNeed, Need};

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
    /// Gives the operators of the plan their counts, for ANALYZE.
    pub counting: Option<&'a Counting>,
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
pub struct NamedTable {
    /// The table.
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
    /// Named by a view, not by the statement.
    pub in_view: bool,
}

/// A view as a query names it.
pub struct NamedView {
    /// The view.
    pub view: Arc<View>,
    /// Its alias, or its name.
    pub alias: Arc<str>,
    /// Its rows are locked FOR UPDATE.
    pub locks: bool,
    /// Named by the statement's own block: not within a derived table, a subquery or another view.
    pub is_own: bool,
    /// Named by another view, not by the statement.
    pub in_view: bool,
}

/// A name or an aggregate of a subquery that belongs to an enclosing query.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// Where it stands, by its address.
    place: usize,
    /// Its name.
    pub name: String,
    /// It is an aggregate.
    pub is_aggregate: bool,
    /// The SELECT that it stands in and the one that it belongs to, by their addresses.
    pub selects: (usize, usize),
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
    /// RETURNING.
    Returning,
    /// WHERE.
    Where,
    /// ON.
    On,
    /// The document of JSON_TABLE.
    TableFunction,
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
            Clause::Returning => "RETURNING",
            Clause::Where => "WHERE",
            Clause::On => "ON",
            Clause::TableFunction => "JSON_TABLE",
            Clause::Group => "GROUP BY",
            Clause::Having => "HAVING",
            Clause::Order | Clause::Window => "ORDER BY",
            Clause::Partition => "GROUP BY",
        }
    }

    /// Whether names of the select list mean something to subqueries in it.
    pub fn sees_aliases(self) -> bool {
        self.takes_aggregates() || self == Clause::Group
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
    /// In no order, and one may stand twice.
    pub pinned: Vec<u32>,
    /// Parameters that must be ASCII where they are texts: they meet a character set that may lack what they hold.
    pub narrow: Vec<u32>,
    /// Parameters that the plan was made for, with their values: others need another plan.
    pub held: Vec<(u32, Value)>,
    /// Whether the plan serves other executions: false where it depends on types of user variables.
    pub cacheable: bool,
    /// The slot that VALUES(column) reads, in ON DUPLICATE KEY UPDATE.
    pub values_slot: Option<u16>,
    /// Tables at the beginning of the outermost scope that a statement changes, where others follow that it reads.
    pub target_tables: Option<usize>,
    /// User variables, in lower case, that LOAD DATA sets before each row, and the collation of their text.
    pub loaded: Option<(Vec<Arc<str>>, CollationId)>,
    /// Columns of enclosing queries read by the subqueries being bound, innermost last: how many queries outwards as seen
    /// from the subquery, slot, column; and the depth of scopes below each.
    pub(crate) reads: Vec<SubqueryReads>,
    /// The statement writes rows that a subquery may read between one evaluation and the next, so that its answers are not
    /// kept: INSERT, RETURNING, and what foreign keys carry on to other tables.
    pub rows_change: bool,
    /// The SELECT, by its address, that finds the rows of an UPDATE or DELETE of several tables: they are not grouped.
    pub changing: Option<usize>,
    /// A subquery is being bound as one query for all that it may be asked.
    pub(crate) in_keyed: bool,
    /// Subqueries that were tried as joins.
    pub(crate) joins_tried: u32,
    /// Every table named so far, once.
    pub tables: Vec<Arc<TableDef>>,
    /// What is wanted of them.
    pub needs: Vec<Need>,
    /// Columns that are met now are assigned to, not read.
    pub names_only: bool,
    /// The view that is met next is changed, not read.
    pub(crate) changes_view: bool,
    /// The view that is bound is the one that a statement changes.
    pub(crate) in_changed_view: bool,
    /// Privileges on tables have been checked already.
    pub asked_before: bool,
    /// A view that a statement changes reads its one table again in a subquery.
    pub(crate) reads_changed_table: bool,
    /// Every naming of a table so far.
    pub named: Vec<NamedTable>,
    /// The statement is SELECT ... FOR UPDATE.
    pub locks_rows: bool,
    /// The SELECT being bound locks the rows of its own tables, but not those of its derived tables.
    pub(crate) locks_own: bool,
    /// Derived tables and subqueries around the SELECT FOR UPDATE that is being bound: the tables that it names there are its
    /// own, with those of views that are merged into it.
    pub(crate) updates_at: Option<(usize, u32)>,
    /// Derived tables and WITH's around what is being bound.
    pub(crate) derived_depth: usize,
    /// Names and aggregates that belong to enclosing queries, where EXPLAIN EXTENDED asks for them.
    pub resolved: Option<Vec<Resolved>>,
    /// Select items whose names are hidden by columns, by where they were asked for: what executions warn of.
    pub hidden: Vec<(usize, SqlError)>,
    /// What is wrong with constants that types of calls depend on: what executions warn of before they begin.
    pub(crate) odd_lengths: Vec<SqlError>,
    /// Key parts that conditions cannot use.
    pub unusable: Vec<Arc<UnusableKey>>,
    /// SELECTs whose only item stands for them, by their addresses, inner ones first.
    pub reduced: Vec<usize>,
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
    /// Numbers of recursive tables that are used beyond what the standard allows.
    pub(crate) free_recursions: Vec<u32>,
    /// Every call of a sequence so far.
    pub sequences: Vec<NamedSequence>,
    /// A column's DEFAULT is being bound.
    pub of_default: bool,
    /// Every naming of a view so far.
    pub views: Vec<NamedView>,
    /// The views whose queries are being bound, innermost last.
    pub(crate) within_views: Vec<Arc<View>>,
    /// Subqueries around what is being bound, also around the views and derived tables that hide them from it.
    pub(crate) subquery_depth: u32,
    /// Views bound so far, whatever became of them.
    pub(crate) views_met: u32,
    /// JSON_TABLE was met.
    pub met_function: bool,
    /// What names mean, where somebody wants to know: while a view is defined.
    pub whole_names: Option<Box<WholeNames>>,
    /// LIMIT ROWS EXAMINED, wherever the statement says it last.
    pub rows_examined: Option<Expr>,
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
            narrow: Vec::new(),
            held: Vec::new(),
            cacheable: true,
            values_slot: None,
            target_tables: None,
            loaded: None,
            reads: Vec::new(),
            tables: Vec::new(),
            named: Vec::new(),
            locks_rows: false,
            locks_own: false,
            updates_at: None,
            derived_depth: 0,
            resolved: None,
            hidden: Vec::new(),
            odd_lengths: Vec::new(),
            unusable: Vec::new(),
            reduced: Vec::new(),
            saw_volatile: false,
            rows_change: false,
            changing: None,
            in_keyed: false,
            joins_tried: 0,
            assigned: Vec::new(),
            needs: Vec::new(),
            names_only: false,
            changes_view: false,
            in_changed_view: false,
            asked_before: false,
            reads_changed_table: false,
            common: Vec::new(),
            later_common: Vec::new(),
            recursions: 0,
            working_uses: Vec::new(),
            free_recursions: Vec::new(),
            sequences: Vec::new(),
            of_default: false,
            views: Vec::new(),
            within_views: Vec::new(),
            subquery_depth: 0,
            views_met: 0,
            met_function: false,
            whole_names: None,
            rows_examined: None,
        }
    }

    /// Runs `f` while names of the outermost scope mean the tables alone that the statement changes.
    pub fn among_targets<T>(&mut self, f: impl FnOnce(&mut Self) -> T) -> T {
        let Some(targets) = self.target_tables else { return f(self) };
        self.scopes[0].visible = Some(0..targets);
        let found = f(self);
        self.scopes[0].visible = None;
        found
    }

    /// Counts for one more operator, where the statement is analyzed.
    pub fn counts(&self) -> Option<Arc<Counts>> {
        self.cx.counting.map(Counting::one_more)
    }

    /// The innermost scope.
    pub fn scope(&self) -> &Scope {
        self.scopes.last().expect("a binder always has a scope")
    }

    /// The innermost scope, to add tables to.
    pub fn scope_mut(&mut self) -> &mut Scope {
        self.scopes.last_mut().expect("a binder always has a scope")
    }

    /// Cells that executions of the innermost scope's expressions need (see [`keel_expr::frame::once_cells`]).
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
        let bound = self.bind(tree, clause)?;
        typing::refuse_condition(&bound, "bigint", "<>")?;
        self.conditions_of(bound)
    }

    /// The conditions that a bound one has joined by AND.
    pub(crate) fn conditions_of(&mut self, mut bound: Expr) -> SqlResult<Vec<Expr>> {
        self.look_for_zero_dates(&mut bound)?;
        self.convert_bounds_early(&mut bound);
        self.hoist(&mut bound);
        Ok(match bound.node {
            Node::And(parts) => parts,
            _ => vec![bound],
        })
    }

    /// MariaDB takes IS NULL of a date that cannot be NULL for a question whether it is zero, in conditions that rows must meet.
    fn look_for_zero_dates(&mut self, condition: &mut Expr) -> SqlResult<()> {
        match &mut condition.node {
            Node::And(parts) | Node::Or(parts) => {
                parts.iter_mut().try_for_each(|part| self.look_for_zero_dates(part))
            }
            Node::IsNull { negated: false, value }
                if value.as_column().is_some()
                    && !value.nullable
                    && matches!(value.ty.kind, TypeKind::Date | TypeKind::DateTime) =>
            {
                let column = std::mem::replace(&mut **value, Expr::null());
                let zero = Expr::constant(Value::Date(Date::default()), SqlType::new(TypeKind::Date));
                *condition = self.compare(CompareOp::Eq, column, zero)?;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Makes what does not depend on rows be computed once per execution.
    pub fn hoist(&mut self, expr: &mut Expr) {
        keel_expr::walk::hoist(expr, &mut self.scope_mut().once);
    }

    /// The table that a query names, in the current database where none is said: a real one, or one of the server's own.
    pub fn table(&mut self, db: Option<&str>, name: &str, alias: Option<&str>) -> SqlResult<Arc<TableDef>> {
        let session = self.cx.session;
        let db = match db {
            Some(db) => db,
            None => session.require_database()?,
        };
        if self.whole_names.is_some() && session.temporary.get(db, name).is_some() {
            return Err(errors::view_select_tmptable(name));
        }
        self.may_read(db, name)?;
        let table = if session.host.virtual_schemas().iter().any(|s| s.eq_ignore_ascii_case(db)) {
            session.host.virtual_table(db, name).ok_or_else(|| no_virtual_table(db, name))?
        } else if let Some(system) = self.cx.system_table(db, name) {
            system
        } else {
            let found = match self.within_views.is_empty() {
                true => self.cx.catalog.require_table(db, name),
                // No temporary table hides what a view names.
                false => self.cx.catalog.require_lasting_table(db, name),
            };
            match (found, series::table(db, name)) {
                (Ok(table), _) => table.clone(),
                (Err(_), Some(series)) => Arc::new(series),
                (Err(error), None) => {
                    return Err(session.named_locks.unknown(alias.unwrap_or(name), error));
                }
            }
        };
        if !table.is_temporary() {
            let need = Need::of(&table.schema, &table.name, Privileges::SELECT);
            let need = Need { asked: self.asked(), changed: self.is_changed_part(), ..need };
            check::add(&mut self.needs, need);
        }
        if !self.tables.iter().any(|t| Arc::ptr_eq(t, &table)) {
            self.tables.push(table.clone());
        }
        let by_own_name = alias.is_none_or(|alias| *alias == *table.name);
        self.named.push(NamedTable {
            table: table.clone(),
            by_own_name,
            alias: alias.filter(|_| !by_own_name).map_or_else(|| table.name.clone(), Arc::from),
            locks: self.updates_at == Some((self.derived_depth, self.subquery_depth)),
            in_derived: self.derived_depth > 0,
            in_subquery: self.subquery_depth > 0,
            in_view: !self.within_views.is_empty(),
        });
        Ok(table)
    }

    /// Refuses a table of which the session may read nothing, before anything is said about it; what a view names is asked
    /// for when all is bound.
    fn may_read(&self, db: &str, name: &str) -> SqlResult<()> {
        if !self.within_views.is_empty() || self.asked_before {
            return Ok(());
        }
        let session = self.cx.session;
        let may = check::table(session, &self.cx.catalog.accounts, (db, name), Privileges::SELECT);
        may.map_err(|error| match self.whole_names {
            // CREATE VIEW asks in other words.
            Some(_) => {
                errors::tableaccess_denied("ANY", &session.access.user, &session.access.host, db, name)
            }
            None => error,
        })
    }

    /// Whose privileges what is bound now needs.
    pub(crate) fn asked(&self) -> Asked {
        Asked {
            definer: self.within_views.iter().rev().find(|view| !view.invoker).cloned(),
            within: self.within_views.first().cloned(),
        }
    }

    /// Whether what is bound now is a table or view of the view that a statement changes, outside its subqueries.
    pub(crate) fn is_changed_part(&self) -> bool {
        self.in_changed_view && self.derived_depth == 0 && self.subquery_depth == 0
    }

    /// Notes that a query names a view.
    pub(crate) fn note_view(&mut self, view: &View) -> SqlResult<()> {
        self.may_read(&view.schema, &view.name)?;
        let need = Need::of(&view.schema, &view.name, Privileges::SELECT);
        let need = Need { asked: self.asked(), changed: self.is_changed_part(), ..need };
        check::add(&mut self.needs, need);
        Ok(())
    }

    /// Notes that a column of a table or view is read, which `unnamed` says nobody has named.
    pub(crate) fn note_read(
        &mut self,
        (schema, name): (&Arc<str>, &Arc<str>),
        column: &Arc<str>,
        unnamed: bool,
    ) {
        if self.names_only {
            return;
        }
        let column = ColumnNeed { column: column.clone(), wanted: Privileges::SELECT, unnamed };
        let need = Need::of(schema, name, Privileges::NONE);
        let need =
            Need { columns: vec![column], asked: self.asked(), changed: self.is_changed_part(), ..need };
        check::add(&mut self.needs, need);
    }

    /// The same of the column at a place of a scope's table; not of derived tables, and of those within merged views.
    pub(crate) fn note_column(&mut self, scope: usize, place: usize, index: usize, unnamed: bool) {
        let table = &self.scopes[scope].tables[place];
        if table.is_hidden() {
            return;
        }
        let (schema, name, column) = match &table.def {
            Some(def) if def.is_temporary() => return,
            Some(def) => (def.schema.clone(), def.name.clone(), def.columns[index].name.clone()),
            None if table.schema.is_empty() => return,
            None => (table.schema.clone(), table.name.clone(), table.columns[index].name.clone()),
        };
        self.note_read((&schema, &name), &column, unnamed);
        if matches!(self.clause, Clause::Where | Clause::Order | Clause::Returning)
            && let ViewPart::Whole(meanings) = &self.scopes[scope].tables[place].view
        {
            let meaning = meanings[index].clone();
            self.note_below(&meaning);
        }
    }

    /// Notes what a column of the view that a statement changes reads of the tables below.
    pub fn note_below(&mut self, meaning: &Expr) {
        let scope = &self.scopes[self.scopes.len() - 1];
        let mut read = Vec::new();
        keel_expr::walk::for_each_column(meaning, &mut |slot, column| {
            let table = scope.tables.iter().find(|table| table.slot == slot);
            if let Some(def) = table.and_then(|table| table.def.as_ref()) {
                read.push((def.clone(), column));
            }
        });
        for (def, column) in read {
            let is_it = |need: &&mut Need| need.changed && need.schema == def.schema && need.name == def.name;
            let Some(need) = self.needs.iter_mut().find(is_it) else { continue };
            let column = def.columns[column as usize].name.clone();
            let column = ColumnNeed { column, wanted: Privileges::SELECT, unnamed: false };
            if !need.columns.contains(&column) {
                need.columns.push(column);
            }
        }
    }

    /// The view that a query names, in the current database where none is said.
    pub fn find_view(&self, db: Option<&str>, name: &str) -> Option<Arc<View>> {
        let db = db.or(self.cx.session.database.as_deref())?;
        match self.within_views.is_empty() {
            true => self.cx.catalog.view(db, name).cloned(),
            false => self.cx.catalog.schema(db)?.view(name).cloned(),
        }
    }

    /// Whether a query bound so far reads the table.
    pub fn reads_table(&self, table: &Arc<TableDef>) -> bool {
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

/// 1109 in `information_schema`, 1146 elsewhere.
fn no_virtual_table(db: &str, name: &str) -> keel_base::SqlError {
    match db.eq_ignore_ascii_case("information_schema") {
        true => errors::unknown_table(name, db.to_lowercase()),
        false => names::missing_table(db, name),
    }
}
