//! EXPLAIN: a plan as MariaDB's table of ten columns, one line per table in the order of reading; EXTENDED adds `filtered` and notes
//! the statement as it was understood, PARTITIONS adds a column that is empty.
//!
//! Queries are numbered from 1 in the order in which they stand; their lines follow those of the query that holds them.
//! UPDATE and DELETE show the SELECT that finds their rows. What Keel does otherwise than MariaDB is shown in MariaDB's
//! nearest words: a hash join as a join buffer, an IN subquery kept as a set as MATERIALIZED.

use std::collections::BTreeMap;
use std::sync::Arc;

use keel_base::{SqlResult, errors};
use keel_sql::ast::{self, ExplainTarget, Query, QueryBody, Select, SelectItem, SelectOptions, Statement};
use keel_sql::printer;
use keel_value::types::{NOT_SPECIFIED, flags};
use keel_value::{CollationId, SqlType, Value};

use crate::access::{AccessKind, AccessPath, PartCondition};
use crate::bind::{BindContext, Binder};
use crate::expr::typing::string_type;
use crate::expr::{Expr, Node, walk};
use crate::join::order::FUNCTION_ROWS;
use crate::join::{JoinSource, Source, TableSource};
use crate::plan::Notes;
use crate::result::{ColumnMeta, ResultColumns, RowSink, RowView};
use crate::select::{self, Block, Body, RecursivePlan, SelectPlan, Subquery, SubqueryTest};
use crate::session::Session;

/// Room that MariaDB announces for the names of all partitions that a table may have.
const PARTITIONS_CHARS: u64 = 1_579_008;

/// An explained statement: a result that is known when the plan is made.
pub(crate) struct ExplainPlan {
    /// The columns.
    pub columns: Arc<ResultColumns>,
    rows: Vec<Vec<Value>>,
    /// EXTENDED: the statement.
    text: Option<String>,
}

impl ExplainPlan {
    /// Sends the lines; gives their number.
    pub fn run(&self, session: &mut Session, sink: &mut dyn RowSink) -> SqlResult<u64> {
        if let Some(text) = &self.text {
            session.note(errors::yes(text));
        }
        sink.columns(&self.columns)?;
        for row in &self.rows {
            sink.row(RowView::Values(row))?;
            sink.breathe()?;
        }
        Ok(self.rows.len() as u64)
    }
}

/// Plans the statement within EXPLAIN and describes how it would run.
pub(crate) fn plan(cx: BindContext<'_>, explain: &ast::Explain, notes: &mut Notes) -> SqlResult<ExplainPlan> {
    if explain.analyze {
        return Err(errors::not_supported_yet("ANALYZE of a statement"));
    }
    if explain.json {
        return Err(errors::not_supported_yet("EXPLAIN FORMAT=JSON"));
    }
    let ExplainTarget::Statement(statement) = &explain.what else {
        return Err(errors::not_supported_yet("EXPLAIN FOR CONNECTION"));
    };
    let mut lines = Lines::default();
    let mut binder = Binder::new(cx);
    match &**statement {
        Statement::Query(query) => lines.explain(&select::plan_select(&mut binder, query)?),
        Statement::Update(update) => {
            let query = finder(&update.tables, &update.filter, &update.order_by, &update.limit);
            lines.explain(&select::plan_select(&mut binder, &query)?);
        }
        Statement::Delete(delete) => {
            let query = finder(&delete.from, &delete.filter, &delete.order_by, &delete.limit);
            lines.explain(&select::plan_select(&mut binder, &query)?);
        }
        Statement::Insert(insert) => {
            let view = binder.find_view(insert.table.db.as_deref(), &insert.table.name);
            let table = match view {
                Some(view) => {
                    let target = select::view::target(&mut Binder::new(cx), &view, None)?;
                    let first = target.and_then(|target| target.tables.into_iter().next().flatten());
                    first.ok_or_else(|| errors::non_insertable_table(&view.name, "INSERT"))?
                }
                None => binder.table(insert.table.db.as_deref(), &insert.table.name, None)?,
            };
            let select_type = if insert.replace { "REPLACE" } else { "INSERT" };
            lines.done.push(Line {
                id: Some(1),
                select_type,
                table: Some(table.name.to_string()),
                kind: Some("ALL"),
                extra: None,
                ..Line::default()
            });
            if let ast::InsertSource::Query(query) = &insert.source {
                lines.explain(&select::plan_select(&mut binder, query)?);
            }
        }
        _ => return Err(errors::not_supported_yet("EXPLAIN of this statement")),
    }
    let rows = lines.done.into_iter().map(|line| line.into_row(explain)).collect();
    notes.take(&binder);
    let text = if explain.extended { printer::statement(statement) } else { None };
    Ok(ExplainPlan { columns: columns(cx.session.vars.connection_collation, explain), rows, text })
}

/// The SELECT that finds the rows of an UPDATE or DELETE.
fn finder(
    tables: &[ast::TableRef],
    filter: &Option<ast::Expr>,
    order_by: &[ast::OrderItem],
    limit: &Option<ast::Limit>,
) -> Query {
    let select = Select {
        options: SelectOptions::default(),
        items: vec![SelectItem::Wildcard { db: None, table: None }],
        from: tables.to_vec(),
        filter: filter.clone(),
        group_by: Vec::new(),
        rollup: false,
        having: None,
        windows: Vec::new(),
    };
    Query {
        with: None,
        body: QueryBody::Select(Box::new(select)),
        order_by: order_by.to_vec(),
        limit: limit.clone(),
        into: None,
        late_into: ast::LateInto::default(),
        lock: Some(ast::LockClause { update: true, wait: None }),
    }
}

fn columns(collation: CollationId, explain: &ast::Explain) -> Arc<ResultColumns> {
    let text = |chars| SqlType::varchar(chars, collation).with_decimals(NOT_SPECIFIED);
    let mut described = vec![
        ("id", SqlType::bigint().with_length(3), true),
        ("select_type", text(19), false),
        ("table", text(64), true),
        ("type", text(10), true),
        ("possible_keys", text(4096), true),
        ("key", text(64), true),
        ("key_len", text(4096), true),
        ("ref", text(2048), true),
        ("rows", text(64), !explain.extended),
        ("Extra", text(255), false),
    ];
    if explain.extended {
        described.insert(9, ("filtered", SqlType::double().with_length(4).with_decimals(2), true));
    }
    if explain.partitions {
        described.insert(3, ("partitions", string_type(PARTITIONS_CHARS, collation), true));
    }
    ResultColumns::new(
        described
            .into_iter()
            .map(|(name, ty, nullable)| ColumnMeta {
                schema: "".into(),
                table: "".into(),
                org_table: "".into(),
                name: name.into(),
                org_name: "".into(),
                ty,
                nullable,
                flags: match name {
                    "id" => flags::BINARY | flags::UNSIGNED,
                    "filtered" => flags::BINARY,
                    _ => 0,
                },
                length: None,
            })
            .collect(),
    )
}

/// One line; what is None prints as NULL.
#[derive(Default)]
struct Line {
    id: Option<u64>,
    select_type: &'static str,
    table: Option<String>,
    kind: Option<&'static str>,
    possible_keys: Option<String>,
    key: Option<String>,
    key_len: Option<String>,
    reference: Option<String>,
    rows: Option<u64>,
    extra: Option<String>,
}

impl Line {
    fn into_row(self, explain: &ast::Explain) -> Vec<Value> {
        let text = |t: Option<String>| t.map_or(Value::Null, |t| Value::bytes(t.as_bytes()));
        // Every row that a path gives is counted as one that is wanted.
        let filtered = self.rows.map_or(Value::Null, |_| Value::Double(100.0));
        let mut row = vec![
            self.id.map_or(Value::Null, |id| Value::Int(id as i64)),
            Value::bytes(self.select_type.as_bytes()),
            text(self.table),
            text(self.kind.map(String::from)),
            text(self.possible_keys),
            text(self.key),
            text(self.key_len),
            text(self.reference),
            self.rows.map_or(Value::Null, |rows| Value::bytes(rows.to_string().as_bytes())),
            text(self.extra),
        ];
        if explain.extended {
            row.insert(9, filtered);
        }
        if explain.partitions {
            row.insert(3, Value::Null);
        }
        row
    }
}

/// Lines so far.
#[derive(Default)]
struct Lines {
    done: Vec<Line>,
    queries: u64,
}

/// A query whose lines come after those of the query that holds it.
enum Pending<'p> {
    Subquery(&'p Subquery, u64),
    Derived(&'p SelectPlan, u64),
}

impl Lines {
    /// The whole statement.
    fn explain(&mut self, plan: &SelectPlan) {
        match &plan.body {
            Body::Block(block) => {
                let simple = children(block).is_empty();
                self.queries = 1;
                self.block(block, 1, if simple { "SIMPLE" } else { "PRIMARY" });
            }
            Body::Set(set) => {
                self.queries = 0;
                self.parts(&set.queries(), "PRIMARY", !set.is_sorted(), set.is_union_all());
            }
            Body::Recursive(_) | Body::Working(_) => {}
        }
    }

    /// The parts of a set operation, and its result's line.
    fn parts(&mut self, parts: &[&SelectPlan], first: &'static str, unsorted: bool, streams: bool) {
        let mut numbers = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            self.queries += 1;
            let id = self.queries;
            numbers.push(id.to_string());
            if let Body::Block(block) = &part.body {
                self.block(block, id, if index == 0 { first } else { "UNION" });
            }
        }
        if streams && unsorted {
            return;
        }
        self.done.push(Line {
            select_type: "UNION RESULT",
            table: Some(format!("<union{}>", numbers.join(","))),
            kind: Some("ALL"),
            extra: Some(if unsorted { "" } else { "Using filesort" }.into()),
            ..Line::default()
        });
    }

    /// The parts of a recursive table, and its rows' line.
    fn recursive_parts(&mut self, recursive: &RecursivePlan, first: &'static str) {
        let mut numbers = Vec::new();
        for (index, part) in recursive.queries().into_iter().enumerate() {
            self.queries += 1;
            numbers.push(self.queries.to_string());
            let select_type = match index {
                0 => first,
                _ if index < recursive.anchor_count() => "UNION",
                _ => "RECURSIVE UNION",
            };
            if let Body::Block(block) = &part.body {
                self.block(block, self.queries, select_type);
            }
        }
        self.done.push(Line {
            select_type: "UNION RESULT",
            table: Some(format!("<union{}>", numbers.join(","))),
            kind: Some("ALL"),
            extra: Some(String::new()),
            ..Line::default()
        });
    }

    fn block(&mut self, block: &Block, id: u64, select_type: &'static str) {
        let mut derived: BTreeMap<u16, u64> = BTreeMap::new();
        let mut pending = Vec::new();
        for child in children(block) {
            self.queries += 1;
            match child {
                Child::Derived(slot, plan) => {
                    derived.insert(slot, self.queries);
                    pending.push(Pending::Derived(plan, self.queries));
                }
                Child::Subquery(subquery) => pending.push(Pending::Subquery(subquery, self.queries)),
            }
            let plan = match child {
                Child::Derived(_, plan) => plan,
                Child::Subquery(subquery) => &subquery.plan,
            };
            self.queries += match &plan.body {
                Body::Set(set) => set.queries().len() as u64 - 1,
                Body::Recursive(recursive) => recursive.queries().len() as u64 - 1,
                Body::Block(_) | Body::Working(_) => 0,
            };
        }
        if let Some(words) = without_tables(block) {
            let extra = Some(words.into());
            self.done.push(Line { id: Some(id), select_type, extra, ..Line::default() });
            pending.into_iter().for_each(|child| self.pending(child));
            return;
        }
        let from = self.done.len();
        self.source(&block.source, id, select_type, false, &derived);
        if self.done.len() == from {
            let extra = Some("No tables used".into());
            self.done.push(Line { id: Some(id), select_type, extra, ..Line::default() });
        }
        let grouped = block.explain.groups || (block.explain.distinct && block.group.is_some());
        let first = self.done[from].extra.get_or_insert_default();
        let in_order = grouped && groups_by_index(block);
        if (grouped && !in_order) || block.explain.windows {
            push(first, "Using temporary");
        }
        if block.explain.sorts || (block.explain.groups && !in_order) {
            push(first, "Using filesort");
        }
        for child in pending {
            self.pending(child);
        }
    }

    fn pending(&mut self, child: Pending<'_>) {
        let (plan, id, select_type) = match child {
            Pending::Derived(plan, id) => (plan, id, "DERIVED"),
            Pending::Subquery(subquery, id) => {
                let kept = matches!(subquery.test, SubqueryTest::In { .. });
                let select_type = match (subquery.reads.is_empty(), kept) {
                    (false, _) => "DEPENDENT SUBQUERY",
                    (true, true) => "MATERIALIZED",
                    (true, false) => "SUBQUERY",
                };
                (&*subquery.plan, id, select_type)
            }
        };
        match &plan.body {
            Body::Block(block) => self.block(block, id, select_type),
            Body::Set(set) => {
                let before = std::mem::replace(&mut self.queries, id - 1);
                self.parts(&set.queries(), select_type, !set.is_sorted(), set.is_union_all());
                self.queries = self.queries.max(before);
            }
            Body::Recursive(recursive) => {
                let before = std::mem::replace(&mut self.queries, id - 1);
                self.recursive_parts(recursive, select_type);
                self.queries = self.queries.max(before);
            }
            Body::Working(_) => {}
        }
    }

    fn source(
        &mut self,
        source: &Source,
        id: u64,
        select_type: &'static str,
        buffered: bool,
        derived: &BTreeMap<u16, u64>,
    ) {
        let mut line = match source {
            Source::One => return,
            Source::Join(join) => return self.join(join, id, select_type, derived),
            Source::Table(table) => table_line(table),
            Source::Function(function) => Line {
                table: Some(function.alias.to_string()),
                kind: Some("ALL"),
                rows: Some(FUNCTION_ROWS as u64),
                extra: Some(match function.filter.is_empty() {
                    true => "Table function: json_table".into(),
                    false => "Table function: json_table; Using where".into(),
                }),
                ..Line::default()
            },
            Source::Derived(table) => Line {
                table: Some(match derived.get(&table.slot) {
                    Some(number) => format!("<derived{number}>"),
                    None => table.alias.to_string(),
                }),
                kind: Some("ALL"),
                extra: Some(if table.filter.is_empty() { "" } else { "Using where" }.into()),
                ..Line::default()
            },
        };
        line.id = Some(id);
        line.select_type = select_type;
        if buffered {
            let extra = line.extra.get_or_insert_default();
            if !extra.contains("Using where") {
                push(extra, "Using where");
            }
            push(extra, "Using join buffer (flat, BNL join)");
        }
        self.done.push(line);
    }

    fn join(&mut self, join: &JoinSource, id: u64, select_type: &'static str, derived: &BTreeMap<u16, u64>) {
        self.source(&join.left, id, select_type, false, derived);
        let from = self.done.len();
        self.source(&join.right, id, select_type, join.hash.is_some(), derived);
        let conditions = !join.filter.is_empty() || !join.on.is_empty();
        if conditions && let Some(line) = self.done.get_mut(from) {
            let extra = line.extra.get_or_insert_default();
            if !extra.contains("Using where") {
                push(extra, "Using where");
            }
        }
    }
}

/// What EXPLAIN says where no table is read for the result.
fn without_tables(block: &Block) -> Option<&'static str> {
    if matches!(block.source, Source::One) {
        return None;
    }
    let never = |e: &Expr| matches!(&e.node, Node::Constant(Value::Null | Value::Int(0) | Value::UInt(0)));
    if block.constants.iter().any(never) {
        return Some("Impossible WHERE");
    }
    let unconditional = match &block.source {
        Source::Table(table) => table
            .filter
            .iter()
            .chain(&table.implied)
            .all(|c| matches!(c.node, Node::IsNull { negated: true, .. })),
        _ => false,
    };
    let found_first = block.first_row_of.is_some() || !block.extremes.is_empty();
    (found_first && unconditional).then_some("Select tables optimized away")
}

/// Whether the groups are the leading columns of the index that the only table is read by.
fn groups_by_index(block: &Block) -> bool {
    let (Source::Table(source), Some(group)) = (&block.source, &block.group) else { return false };
    let Some(index) = crate::access::path_index(&source.path) else { return false };
    let parts = &source.table.indexes[index].parts;
    !group.keys.is_empty()
        && group.keys.len() <= parts.len()
        && group
            .keys
            .iter()
            .zip(parts)
            .all(|(k, p)| k.as_column().is_some_and(|c| c.column as usize == p.column))
}

fn push(extra: &mut String, words: &str) {
    if !extra.is_empty() {
        extra.push_str("; ");
    }
    extra.push_str(words);
}

fn table_line(source: &TableSource) -> Line {
    let table = &source.table;
    let choice = &source.choice;
    let name = |position: usize| table.indexes[position].name.to_string();
    let index = match &*source.path {
        AccessPath::Scan { index: None, .. } => None,
        path => crate::access::path_index(path),
    };
    let merged = match &*source.path {
        AccessPath::Union(branches) => branches.iter().map(|(index, _)| name(*index)).collect::<Vec<_>>(),
        _ => Vec::new(),
    };
    let merged_len = match &*source.path {
        AccessPath::Union(branches) => Some(crate::access::union_key_len(table, branches)),
        _ => None,
    };
    let possible: Vec<String> = choice.possible_keys.iter().map(|p| name(*p)).collect();
    let mut extra = String::new();
    if !merged.is_empty() {
        push(&mut extra, &format!("Using union({})", merged.join(",")));
    }
    let ranged = choice.kind == AccessKind::Range && !source.implied.is_empty();
    if !source.filter.is_empty() || ranged {
        push(&mut extra, "Using where");
    }
    if source.covering {
        push(&mut extra, "Using index");
    }
    Line {
        table: Some(source.alias.to_string()),
        kind: choice.kind.name(),
        possible_keys: (!possible.is_empty()).then(|| possible.join(",")),
        key: if merged.is_empty() { index.map(name) } else { Some(merged.join(",")) },
        key_len: index.map(|_| choice.key_len.to_string()).or(merged_len),
        reference: references(source),
        rows: Some(choice.rows.max(1.0) as u64),
        extra: Some(extra),
        ..Line::default()
    }
}

/// What each used part of the index is compared with: `const`, a column, or `func`.
fn references(source: &TableSource) -> Option<String> {
    if !matches!(source.choice.kind, AccessKind::Const | AccessKind::EqRef | AccessKind::Ref) {
        return None;
    }
    let values: Vec<&Expr> = match &*source.path {
        AccessPath::Point { key, .. } => key.iter().collect(),
        AccessPath::Ranges { alternatives, .. } => alternatives
            .first()?
            .iter()
            .map_while(|c| match c {
                PartCondition::Equal(value) | PartCondition::NullSafeEqual(value) => Some(value),
                _ => None,
            })
            .collect(),
        _ => return None,
    };
    let shown: Vec<String> = values
        .into_iter()
        .map(|value| match &value.node {
            _ if value.is_constant() => "const".to_string(),
            Node::Column(column) | Node::Outer { column, .. } => column.name.replace('`', ""),
            _ => "func".to_string(),
        })
        .collect();
    Some(shown.join(","))
}

/// A query within a query.
enum Child<'p> {
    Derived(u16, &'p SelectPlan),
    Subquery(&'p Subquery),
}

impl Clone for Child<'_> {
    fn clone(&self) -> Self {
        *self
    }
}

impl Copy for Child<'_> {}

/// The queries within a block: derived tables, then subqueries in the select list, conditions and orders.
fn children(block: &Block) -> Vec<Child<'_>> {
    let mut out = Vec::new();
    let mut conditions: Vec<&Expr> = Vec::new();
    gather(&block.source, &mut out, &mut conditions);
    let keys = block.group.iter().flat_map(|g| g.keys.iter());
    let all = block
        .project
        .iter()
        .chain(&block.constants)
        .chain(&block.row_filter)
        .chain(conditions)
        .chain(keys)
        .chain(&block.having)
        .chain(block.windows.iter().flat_map(|windows| windows.expressions()))
        .chain(block.order.iter().map(|k| &k.expr));
    for expr in all {
        walk::visit(expr, &mut |e| {
            if let Node::Subquery(subquery) = &e.node {
                let known = out
                    .iter()
                    .any(|c| matches!(c, Child::Subquery(s) if Arc::ptr_eq(&s.plan, &subquery.plan)));
                if !known {
                    out.push(Child::Subquery(subquery));
                }
            }
        });
    }
    out
}

fn gather<'p>(source: &'p Source, out: &mut Vec<Child<'p>>, conditions: &mut Vec<&'p Expr>) {
    match source {
        Source::One => {}
        Source::Table(table) => conditions.extend(table.filter.iter().chain(&table.implied)),
        Source::Derived(derived) => {
            if !matches!(derived.plan.body, Body::Working(_)) {
                out.push(Child::Derived(derived.slot, &derived.plan));
            }
            conditions.extend(&derived.filter);
        }
        Source::Function(function) => {
            conditions.push(&function.table.document);
            conditions.extend(&function.filter);
        }
        Source::Join(join) => {
            gather(&join.left, out, conditions);
            gather(&join.right, out, conditions);
            conditions.extend(join.on.iter().chain(&join.filter));
        }
    }
}
