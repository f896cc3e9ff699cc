//! The tables and names that one query block sees.

use std::sync::Arc;

use keel_base::{SqlError, SqlResult, errors};
use keel_catalog::account::Privileges;
use keel_catalog::{TableDef, names};
use keel_exec::aggregate::AggregateCall;
use keel_expr::{ColumnRef, Derivation, Expr, Node, rights as see};
use keel_sql::ast::{ColumnName, Expr as Tree};
use keel_value::SqlType;

use super::{Binder, Clause, Resolved};
use crate::check;

/// A column that a scope offers.
#[derive(Debug, Clone)]
pub struct ScopeColumn {
    /// Its name.
    pub name: Arc<str>,
    /// Its type.
    pub ty: SqlType,
    /// Whether it may be NULL by itself.
    pub nullable: bool,
    /// Not part of `*`.
    pub invisible: bool,
    /// Coercibility of its collation; columns of real tables are implicit.
    pub derivation: Derivation,
}

/// A table in FROM.
#[derive(Clone)]
pub struct ScopeTable {
    /// Its place in the frame.
    pub slot: u16,
    /// Its database; empty for derived tables.
    pub schema: Arc<str>,
    /// Its own name.
    pub name: Arc<str>,
    /// The name it has here.
    pub alias: Arc<str>,
    /// Its columns.
    pub columns: Arc<[ScopeColumn]>,
    /// Its definition; none for derived tables.
    pub def: Option<Arc<TableDef>>,
    /// On the side of an outer join that may be empty.
    pub outer_joined: bool,
    /// What it is of a view.
    pub view: ViewPart,
    /// What those of its columns stand for that rows do not hold.
    pub worked_out: Vec<(usize, Expr)>,
}

/// What a table of a scope is of a view that was merged into the query.
#[derive(Debug, Clone, Default)]
pub enum ViewPart {
    /// Nothing.
    #[default]
    None,
    /// The view itself: what each of its columns stands for. It has no slot of its own.
    Whole(Arc<[Expr]>),
    /// A table within it, which answers to no name that a statement can write.
    Hidden,
    /// Nothing: it is JSON_TABLE.
    Function,
}

/// The name by which statements that change rows find a table's hidden row number; no statement can write it.
pub const ROW_NUMBER: &str = "\0row";

/// The type of hidden row numbers.
pub fn row_number_type() -> SqlType {
    SqlType { unsigned: true, ..SqlType::bigint() }
}

/// The name by which a key of one integer may be asked for.
const ROW_ID: &str = "_rowid";

/// A column that USING or NATURAL made of two.
#[derive(Debug, Clone)]
pub struct MergedColumn {
    /// Its name.
    pub name: Arc<str>,
    /// The columns hidden behind it, as (place of the table in the scope, column): the one whose value it has first, which
    /// is the left side's, the right side's under RIGHT JOIN.
    pub parts: Vec<(usize, u16)>,
}

impl MergedColumn {
    /// The column whose value it has.
    fn first(&self) -> (usize, usize) {
        let (place, column) = self.parts[0];
        (place, usize::from(column))
    }
}

/// A column that `*` stands for, and an unqualified name.
#[derive(Debug, Clone, Copy)]
pub enum Listed {
    /// One of USING or NATURAL, by its number.
    Merged(usize),
    /// One of a table: place of the table in the scope, column.
    Of(usize, usize),
}

impl Listed {
    /// Its name.
    pub fn name(self, scope: &Scope) -> &Arc<str> {
        match self {
            Listed::Merged(number) => &scope.merged[number].name,
            Listed::Of(place, index) => &scope.tables[place].columns[index].name,
        }
    }

    /// Its value.
    pub fn value(self, scope: &Scope) -> Expr {
        match self {
            // As it is now: its table may be on the empty side of an outer join meanwhile.
            Listed::Merged(number) => {
                let (place, index) = scope.merged[number].first();
                scope.tables[place].column(index)
            }
            Listed::Of(place, index) => scope.tables[place].column(index),
        }
    }

    /// Whether it is found by its name alone.
    pub fn is_invisible(self, scope: &Scope) -> bool {
        match self {
            Listed::Merged(number) => scope.merged[number]
                .parts
                .first()
                .is_some_and(|(place, index)| scope.tables[*place].columns[usize::from(*index)].invisible),
            Listed::Of(place, index) => scope.tables[place].columns[index].invisible,
        }
    }

    /// The columns of tables that it stands for, the one whose value it has first.
    pub fn parts(self, scope: &Scope) -> Vec<(usize, u16)> {
        match self {
            Listed::Merged(number) => scope.merged[number].parts.clone(),
            Listed::Of(place, index) => vec![(place, index as u16)],
        }
    }

    /// How it is written in full; of merged columns the one whose value they have.
    pub(crate) fn whole_name(self, scope: &Scope) -> Option<ColumnName> {
        match self {
            Listed::Merged(number) => {
                let (place, index) = scope.merged[number].first();
                Some(scope.tables[place].whole_name(index))
            }
            Listed::Of(place, index) => Some(scope.tables[place].whole_name(index)),
        }
    }
}

/// A place in a query block where a subquery stands.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    /// Aggregates of the query's groups may stand there.
    pub takes_aggregates: bool,
    /// It is in the arguments of one.
    pub in_aggregate: bool,
    /// Names of the select list are known there.
    pub sees_aliases: bool,
    /// It is in HAVING.
    pub in_having: bool,
}

/// What one query block sees.
#[derive(Clone, Default)]
pub struct Scope {
    /// Tables in order of FROM.
    pub tables: Vec<ScopeTable>,
    /// Columns of USING and NATURAL.
    pub merged: Vec<MergedColumn>,
    /// What `*` and unqualified names mean, where that is not the tables' columns one after the other.
    pub listed: Option<Vec<Listed>>,
    /// Named items of the select list, which GROUP BY, HAVING and ORDER BY may use.
    pub aliases: Vec<(Arc<str>, Expr)>,
    /// Names of the select items that are not bound yet, the current one last.
    pub later_aliases: Vec<Arc<str>>,
    /// Aggregates met so far.
    pub aggregates: Vec<AggregateCall>,
    /// Window functions met so far.
    pub(crate) windows: Vec<crate::window::Pending>,
    /// The SELECT, by its address; 0 where it is none.
    pub select: usize,
    /// Whether this is a query block, whose rows can be grouped.
    pub takes_aggregates: bool,
    /// The slot of its aggregates, once FROM is bound.
    pub(crate) group_slot: Option<u16>,
    /// Where in this query the subquery stands that is being bound.
    pub(crate) subquery_at: Place,
    /// Cells needed per execution.
    pub once: u32,
    /// Columns of enclosing queries that were read: how many scopes outwards, slot, column.
    pub reads: Vec<(u16, u16, u16)>,
    /// GROUP BY, for HAVING to find its columns in.
    pub grouped: Vec<Expr>,
    /// Tables beyond this count are not visible yet (ON of a join sees its own tables only); none = all.
    pub visible: Option<std::ops::Range<usize>>,
}

impl ScopeTable {
    /// A real table under an alias.
    pub fn of(slot: u16, def: Arc<TableDef>, alias: Option<&str>) -> ScopeTable {
        let columns = def
            .columns
            .iter()
            .map(|c| ScopeColumn {
                name: c.name.clone(),
                ty: c.ty.clone(),
                nullable: c.nullable,
                invisible: c.invisible,
                derivation: Derivation::Implicit,
            })
            .collect();
        let alias = alias.map_or_else(|| def.name.clone(), Arc::from);
        ScopeTable {
            slot,
            schema: def.schema.clone(),
            name: def.name.clone(),
            alias,
            columns,
            def: Some(def),
            outer_joined: false,
            view: ViewPart::None,
            worked_out: Vec::new(),
        }
    }

    /// A table whose rows are gathered.
    pub fn derived(slot: u16, alias: &str, columns: Arc<[ScopeColumn]>) -> ScopeTable {
        ScopeTable {
            slot,
            schema: "".into(),
            name: alias.into(),
            alias: alias.into(),
            columns,
            def: None,
            outer_joined: false,
            view: ViewPart::None,
            worked_out: Vec::new(),
        }
    }

    /// Whether no name of a statement means it.
    pub fn is_hidden(&self) -> bool {
        matches!(self.view, ViewPart::Hidden)
    }

    /// The expression of its n-th column.
    pub fn column(&self, index: usize) -> Expr {
        let column = &self.columns[index];
        if let Some((_, meaning)) = self.worked_out.iter().find(|(worked_out, _)| *worked_out == index) {
            return self.of_row(meaning);
        }
        if let ViewPart::Whole(meanings) = &self.view {
            return self.of_view(&meanings[index]);
        }
        let mut name = String::new();
        if !self.schema.is_empty() {
            names::push_quoted(&mut name, &self.schema);
            name.push('.');
        }
        names::push_quoted(&mut name, &self.alias);
        name.push('.');
        names::push_quoted(&mut name, &column.name);
        let node = Node::Column(ColumnRef { slot: self.slot, column: index as u16, name: name.into() });
        let derivation = if column.ty.is_string() || column.ty.has_members() {
            column.derivation
        } else {
            Derivation::Numeric
        };
        Expr { node, ty: column.ty.clone(), nullable: column.nullable || self.outer_joined, derivation }
    }

    /// The hidden number of its row, where it has one.
    fn row_number(&self) -> Option<Expr> {
        let def = self.def.as_ref().filter(|_| self.slot != super::NO_SLOT)?;
        let column = def.row_number_column()? as u16;
        let node = Node::Column(ColumnRef { slot: self.slot, column, name: ROW_NUMBER.into() });
        Some(Expr::new(node, row_number_type(), true))
    }

    /// What a merged view's column stands for, as seen from here.
    fn of_view(&self, meaning: &Expr) -> Expr {
        let mut expr = meaning.clone();
        if self.outer_joined {
            keel_expr::walk::visit_mut(&mut expr, &mut |e| e.nullable = true);
        }
        expr
    }

    /// What a column stands for that is worked out: NULL where an outer join has no row.
    fn of_row(&self, meaning: &Expr) -> Expr {
        let mut meaning = meaning.clone();
        if let (true, Node::Generated(value, _)) = (self.outer_joined, &mut meaning.node) {
            let inner = std::mem::replace(&mut **value, Expr::null());
            let (ty, derivation) = (inner.ty.clone(), inner.derivation);
            let node = Node::Case { whens: vec![(self.has_row(), inner)], otherwise: None };
            **value = Expr { node, ty, nullable: true, derivation };
        }
        meaning
    }

    /// Whether there is a row: a column that is never NULL has a value, or else any column has.
    fn has_row(&self) -> Expr {
        let is_known = |column: usize| {
            let mut value = Box::new(self.column(column));
            value.nullable = true;
            Expr::boolean(Node::IsNull { negated: true, value }, false)
        };
        let kept: Vec<usize> = (0..self.columns.len()).filter(|c| !self.is_worked_out(*c)).collect();
        match kept.iter().find(|column| !self.columns[**column].nullable) {
            Some(column) => is_known(*column),
            None if kept.len() == 1 => is_known(kept[0]),
            None => Expr::boolean(Node::Or(kept.into_iter().map(is_known).collect()), false),
        }
    }

    /// Whether rows do not hold a column.
    pub(crate) fn is_worked_out(&self, column: usize) -> bool {
        self.worked_out.iter().any(|(worked_out, _)| *worked_out == column)
    }

    fn answers_to(&self, db: Option<&str>, table: Option<&str>) -> bool {
        // Names of `information_schema` are the same in any case.
        let same = |said: &str, own: &str| match &*self.schema == "information_schema" {
            true => said.eq_ignore_ascii_case(own),
            false => said == own,
        };
        table.is_none_or(|t| same(t, &self.alias)) && db.is_none_or(|d| same(d, &self.schema))
    }

    /// The column of that name; `_rowid` is another name of an integer that is the whole key of the rows.
    pub fn position(&self, name: &str) -> Option<usize> {
        let own = self.columns.iter().position(|c| names::same(&c.name, name));
        own.or_else(|| {
            let def = self.def.as_ref().filter(|def| names::same(name, ROW_ID) && def.name == self.name)?;
            def.rowid_column()
        })
    }
}

/// What a name means in one scope.
enum NameMeaning {
    Nothing,
    One(Expr),
    Ambiguous,
}

impl Scope {
    /// Adds a table; 1066 if its name is there already.
    pub fn add_table(&mut self, table: ScopeTable) -> SqlResult<()> {
        let is_function = |t: &ScopeTable| matches!(t.view, ViewPart::Function);
        let is_same = |t: &ScopeTable| t.schema == table.schema || is_function(t) || is_function(&table);
        if self.tables.iter().any(|t| t.alias == table.alias && is_same(t)) {
            return Err(errors::nonuniq_table(&table.alias));
        }
        self.tables.push(table);
        Ok(())
    }

    /// The columns of a table by its place; none of one that is hidden.
    pub(crate) fn columns_of(&self, place: usize) -> impl Iterator<Item = Listed> {
        let table = &self.tables[place];
        let count = if table.is_hidden() { 0 } else { table.columns.len() };
        (0..count).map(move |index| Listed::Of(place, index))
    }

    fn visible_tables(&self) -> &[ScopeTable] {
        match &self.visible {
            Some(range) => &self.tables[range.clone()],
            None => &self.tables,
        }
    }

    fn column(&self, name: &ColumnName) -> NameMeaning {
        let mut found = NameMeaning::Nothing;
        if name.table.is_none()
            && let Some(listed) = &self.listed
        {
            for column in listed.iter().filter(|column| names::same(column.name(self), &name.column)) {
                if matches!(found, NameMeaning::One(_)) {
                    return NameMeaning::Ambiguous;
                }
                found = NameMeaning::One(column.value(self));
            }
            return found;
        }
        for table in self.visible_tables() {
            let named = !table.is_hidden() || name.table.is_some();
            if !named || !table.answers_to(name.db.as_deref(), name.table.as_deref()) {
                continue;
            }
            let column = match table.position(&name.column) {
                Some(index) => Some(table.column(index)),
                None if name.column == ROW_NUMBER => table.row_number(),
                None => None,
            };
            if let Some(column) = column {
                if matches!(found, NameMeaning::One(_)) {
                    return NameMeaning::Ambiguous;
                }
                found = NameMeaning::One(column);
            }
        }
        found
    }

    /// HAVING sees the select list, by its items' names and columns, and what is grouped by. A column that is grouped by
    /// hides another item of its name; whether it does comes with it.
    fn in_having(&self, name: &ColumnName) -> SqlResult<Option<(Expr, bool)>> {
        let column = match self.column(name) {
            NameMeaning::One(column) => Some(column),
            _ => None,
        };
        let is_grouped = |column: &Expr| self.grouped.iter().any(|e| keel_expr::walk::same(e, column));
        if let Some(item) = self.listed(name, Clause::Having)? {
            let hides = |column: &Expr| is_grouped(column) && !keel_expr::walk::same(item, column);
            return Ok(Some(match column.filter(hides) {
                Some(column) => (column, true),
                None => (item.clone(), false),
            }));
        }
        let is_seen = |column: &Expr| {
            is_grouped(column) || self.aliases.iter().any(|(_, e)| keel_expr::walk::same(e, column))
        };
        Ok(column.filter(is_seen).map(|column| (column, false)))
    }

    /// Whether subqueries in HAVING do not see a column of a table: the query is grouped, and the column is neither grouped by
    /// nor selected. As in MariaDB columns of merged views are always seen.
    fn hides_in_having(&self, column: &Expr) -> bool {
        let is_column = |e: &Expr| keel_expr::walk::same(e, column);
        let of_table = |slot: u16| self.tables.iter().any(|table| table.slot == slot && !table.is_hidden());
        self.subquery_at.in_having
            && column.as_any_column().is_some_and(|column| of_table(column.slot))
            && !self.subquery_at.in_aggregate
            && (!self.grouped.is_empty() || !self.aggregates.is_empty())
            && !self.grouped.iter().any(is_column)
            && !self.aliases.iter().any(|(_, e)| is_column(e))
    }

    /// The select item that a clause names: the first that is no column, else a column; 1052 where different columns have
    /// that name.
    fn listed(&self, name: &ColumnName, clause: Clause) -> SqlResult<Option<&Expr>> {
        let mut found: Option<&Expr> = None;
        let is_named = |alias: &str| name.table.is_none() && names::same(alias, &name.column);
        for (_, expr) in self.aliases.iter().filter(|(alias, _)| is_named(alias)) {
            match found {
                _ if expr.as_any_column().is_none() => return Ok(Some(expr)),
                Some(first) if !keel_expr::walk::same(first, expr) => {
                    return Err(errors::non_uniq(&name.column, clause.words()));
                }
                _ => found = Some(expr),
            }
        }
        Ok(found)
    }

    /// The select item of that name.
    pub(crate) fn alias(&self, name: &ColumnName) -> Option<&Expr> {
        if name.table.is_some() {
            return None;
        }
        self.aliases.iter().find(|(alias, _)| names::same(alias, &name.column)).map(|(_, expr)| expr)
    }
}

/// A column's name as messages show it.
pub fn display(name: &ColumnName) -> String {
    let parts = [name.db.as_deref(), name.table.as_deref(), Some(name.column.as_str())];
    parts.into_iter().flatten().collect::<Vec<_>>().join(".")
}

impl Binder<'_> {
    /// What a column name means here or in an enclosing query.
    pub(crate) fn column(&mut self, name: &ColumnName) -> SqlResult<Expr> {
        let innermost = self.scopes.len() - 1;
        for index in (0..=innermost).rev() {
            let level = (innermost - index) as u16;
            let clause = self.clause;
            if let Some(expr) = self.look_in(index, name, level, clause)? {
                self.note_named(index, name, &expr);
                self.note_name(index, name, &expr);
                if level == 0 {
                    return Ok(expr);
                }
                if self.resolved.is_some() {
                    self.note_resolved(index, name, &expr);
                }
                keel_expr::walk::for_each_read(&expr, &mut |further, slot, column| {
                    for (distance, scope) in self.scopes[index + 1..].iter_mut().enumerate() {
                        let read = (distance as u16 + 1 + further, slot, column);
                        if !scope.reads.contains(&read) {
                            scope.reads.push(read);
                        }
                    }
                });
                return Ok(outwards(expr, level));
            }
        }
        Err(self.unknown_column(name))
    }

    /// Notes that a name belongs to an enclosing query.
    #[cold]
    fn note_resolved(&mut self, scope: usize, name: &ColumnName, expr: &Expr) {
        let is_column = matches!(self.scopes[scope].column(name), NameMeaning::One(_));
        let column = expr.as_any_column().filter(|_| is_column);
        let shown = column.map_or_else(|| display(name), |column| column.name.replace('`', ""));
        self.note_outer(std::ptr::from_ref(name) as usize, scope, shown, false);
    }

    /// Notes that what stands at an address belongs to the query of a scope; once, though it may be bound again.
    pub(crate) fn note_outer(&mut self, place: usize, scope: usize, name: String, is_aggregate: bool) {
        let selects = (self.scope().select, self.scopes[scope].select);
        if let Some(resolved) = &mut self.resolved
            && !resolved.iter().any(|known| known.place == place)
        {
            resolved.push(Resolved { place, name, is_aggregate, selects });
        }
    }

    /// The select item that an entry of GROUP BY or PARTITION BY means by its name; none where a column has that name too,
    /// which is what counts, with a warning if it is another.
    pub(crate) fn grouped_item(&mut self, entry: &Tree, clause: Clause) -> SqlResult<Option<Expr>> {
        let Tree::Column(name) = entry else { return Ok(None) };
        let scope = self.scope();
        let Some(item) = scope.listed(name, clause)? else { return Ok(None) };
        match scope.column(name) {
            NameMeaning::One(column) => {
                if !keel_expr::walk::same(item, &column) {
                    self.note_hidden(name, clause);
                }
                Ok(None)
            }
            NameMeaning::Nothing | NameMeaning::Ambiguous => Ok(Some(item.clone())),
        }
    }

    /// Notes that a column is taken where a select item has its name too. What is bound twice is told once.
    fn note_hidden(&mut self, name: &ColumnName, clause: Clause) {
        let place = std::ptr::from_ref(name) as usize;
        if !self.hidden.iter().any(|(known, _)| *known == place) {
            self.hidden.push((place, errors::non_uniq(display(name), clause.words())));
        }
    }

    /// Notes the column that a name means, if it means one of a table.
    fn note_named(&mut self, scope: usize, name: &ColumnName, expr: &Expr) {
        let means = |table: &ScopeTable| {
            let place = table.position(&name.column).filter(|_| !table.is_hidden());
            place.filter(|_| table.answers_to(name.db.as_deref(), name.table.as_deref()))
        };
        let tables = self.scopes[scope].tables.iter().enumerate();
        let found = tables.filter_map(|(place, table)| Some((place, means(table)?)));
        let is_it = |(place, index): &(usize, usize)| {
            keel_expr::walk::same(&self.scopes[scope].tables[*place].column(*index), expr)
        };
        let found: Vec<(usize, usize)> = found.filter(is_it).collect();
        found.into_iter().for_each(|(place, index)| self.note_column(scope, place, index, false));
    }

    /// 1054; 1143 to who may not read a table as a whole, and so not know its columns.
    #[cold]
    fn unknown_column(&self, name: &ColumnName) -> SqlError {
        let (session, accounts) = (self.cx.session, &*self.cx.catalog.accounts);
        let hides = |table: &&ScopeTable| {
            table.def.as_ref().filter(|def| !def.is_temporary()).is_some_and(|def| {
                table.answers_to(name.db.as_deref(), name.table.as_deref())
                    && !see::on_whole_table(session, accounts, &def.schema, &def.name).has(Privileges::SELECT)
            })
        };
        match self.scope().visible_tables().iter().find(hides) {
            Some(table) if self.within_views.is_empty() => {
                check::column_denied(session, Privileges::SELECT, &name.column, &table.alias)
            }
            _ => self
                .unknown_table(name)
                .unwrap_or_else(|| errors::bad_field(display(name), self.clause.words())),
        }
    }

    /// 1109 for a column with a table where a query of its own reads no table.
    fn unknown_table(&self, name: &ColumnName) -> Option<SqlError> {
        use Clause::{Do, Fields, Group, Order, Partition, Where, Window};
        // The first scope is the binder's own; each query adds one.
        let outermost = self.scopes.len() <= 2 && self.subquery_depth == 0;
        let reads_none = outermost && self.scopes.iter().all(|scope| scope.tables.is_empty());
        let reads = matches!(self.clause, Fields | Do | Where | Group | Order | Partition | Window);
        let table = name.table.as_deref().filter(|_| reads && reads_none)?;
        let db = name.db.as_deref().map_or_else(String::new, |db| format!("{db}."));
        Some(errors::unknown_table(format_args!("{db}{table}"), self.clause.words()))
    }

    fn look_in(
        &mut self,
        index: usize,
        name: &ColumnName,
        level: u16,
        clause: Clause,
    ) -> SqlResult<Option<Expr>> {
        let scope = &self.scopes[index];
        let prefers_alias = level == 0 && !self.in_aggregate && matches!(clause, Clause::Order);
        if prefers_alias && let Some(expr) = scope.listed(name, clause)? {
            return Ok(Some(expr.clone()));
        }
        if level == 0 && clause == Clause::Having && !self.in_aggregate {
            let found = scope.in_having(name)?;
            if let Some((_, true)) = found {
                self.note_hidden(name, clause);
            }
            return Ok(found.map(|(expr, _)| expr));
        }
        let found = match scope.column(name) {
            NameMeaning::One(expr) => {
                if level > 0 && !self.in_aggregate && scope.hides_in_having(&expr) {
                    let whole = expr.as_any_column().filter(|_| clause != Clause::Having);
                    let shown = whole.map_or_else(|| display(name), |column| column.name.replace('`', ""));
                    return Err(errors::bad_field(shown, clause.words()));
                }
                Some(expr)
            }
            NameMeaning::Ambiguous => return Err(errors::non_uniq(display(name), clause.words())),
            NameMeaning::Nothing => None,
        };
        if found.is_none()
            && level == 0
            && matches!(clause, Clause::Group | Clause::Partition | Clause::Window)
            && let Some(expr) = scope.alias(name)
        {
            return Ok(Some(expr.clone()));
        }
        if found.is_none()
            && level > 0
            && scope.subquery_at.sees_aliases
            && let Some(expr) = scope.alias(name)
        {
            let facts = keel_expr::walk::facts(expr);
            let mut of_groups = facts.aggregates;
            keel_expr::walk::for_each_read(expr, &mut |further, slot, _| {
                of_groups |= further == 0 && scope.group_slot == Some(slot);
            });
            if of_groups && clause != Clause::Having {
                return Err(errors::illegal_reference(&name.column, "reference to group function"));
            }
            if facts.windows {
                return Err(errors::bad_field(display(name), clause.words()));
            }
            let mut expr = expr.clone();
            if let Some(groups) = scope.group_slot.filter(|_| facts.aggregates) {
                crate::select::place_aggregates(&mut expr, groups);
            }
            self.saw_volatile |= facts.volatile || facts.assigns;
            return Ok(Some(expr));
        }
        if found.is_none()
            && level > 0
            && scope.subquery_at.sees_aliases
            && name.table.is_none()
            && scope.later_aliases.iter().any(|later| names::same(later, &name.column))
        {
            return Err(errors::illegal_reference(&name.column, "forward reference in item list"));
        }
        Ok(found)
    }
}

impl Scope {
    /// How a column of the tables is written in full.
    pub(crate) fn whole_name(&self, expr: &Expr) -> Option<ColumnName> {
        let column = expr.as_any_column()?;
        let table = self.tables.iter().find(|t| t.slot == column.slot)?;
        Some(table.whole_name(column.column as usize))
    }

    /// The column of one of the tables that a name means, if it means one; for a merged view with its place.
    pub fn view_column(&self, name: &ColumnName) -> Option<(usize, usize)> {
        if name.table.is_none() && self.merged.iter().any(|m| names::same(&m.name, &name.column)) {
            return None;
        }
        let answers =
            |t: &&ScopeTable| !t.is_hidden() && t.answers_to(name.db.as_deref(), name.table.as_deref());
        let tables = self.tables.iter().enumerate();
        tables
            .filter(|(_, t)| answers(t))
            .find_map(|(place, t)| Some((place, t.position(&name.column)?)))
            .filter(|(place, _)| matches!(self.tables[*place].view, ViewPart::Whole(_)))
    }
}

impl ScopeTable {
    /// How its n-th column is written in full: with the database where it is a table under its own name.
    pub(crate) fn whole_name(&self, index: usize) -> ColumnName {
        let own = self.def.is_some() && self.answers_to(None, Some(&self.name));
        ColumnName {
            db: own.then(|| self.schema.to_string()),
            table: Some(self.alias.to_string()),
            column: self.columns[index].name.to_string(),
        }
    }
}

/// The same expression seen from `level` queries further in.
fn outwards(mut expr: Expr, level: u16) -> Expr {
    // Subqueries and cells belong to the frame of their own query.
    let facts = keel_expr::walk::facts(&expr);
    if facts.subquery || facts.assigns || facts.volatile || keel_expr::walk::has_cells(&expr) {
        let (ty, nullable, derivation) = (expr.ty.clone(), expr.nullable, expr.derivation);
        return Expr { node: Node::Above { level, expr: Box::new(expr) }, ty, nullable, derivation };
    }
    keel_expr::walk::visit_mut(&mut expr, &mut |e| {
        match &mut e.node {
            Node::Column(column) => {
                let column = column.clone();
                e.node = Node::Outer { level, column };
            }
            Node::Outer { level: l, .. } => *l += level,
            // To who sees it from within, it is no column of his tables.
            Node::Generated(_, column) => column.slot = super::OUTSIDE,
            _ => {}
        };
    });
    expr
}
