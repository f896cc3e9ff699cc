//! A plan as a table of ten columns, one line per table in the order of reading.

use std::collections::BTreeMap;
use std::sync::Arc;

use keel_context::counts::{Counts, Figures};
use keel_exec::access::{AccessKind, AccessPath, PartCondition};
use keel_exec::join::{FUNCTION_ROWS, JoinSource, Matching, Source, TableSource};
use keel_exec::select::{Block, Body, RecursivePlan, SelectPlan, SetPlan, Subquery, SubqueryTest};
use keel_expr::{CompareOp, Expr, Node};
use keel_sql::ast;
use keel_value::Value;

use super::Shown;
use super::found::Findings;
use super::query::{
    Child, Nature, access_name, children, groups_by_index, has_tests, is_simple, joined_share, last_alias,
    nature, references,
};

/// What a line of INSERT and REPLACE says they are.
const INSERT: &str = "INSERT";
/// Rows that MariaDB expects of a derived table at least.
const DERIVED_ROWS_MIN: f64 = 2.0;

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
    /// What ANALYZE counted.
    counted: Option<Figures>,
    /// What it counted of a join that a buffer serves: its share of what could be joined.
    joined: Option<f64>,
}

impl Line {
    fn into_row(self, explain: &ast::Explain) -> Vec<Value> {
        let text = |t: Option<String>| t.map_or(Value::Null, |t| Value::bytes(t.as_bytes()));
        // Every row that a path gives is counted as one that is wanted.
        let inserts = self.select_type == INSERT;
        let filtered = if inserts || self.rows.is_some() { Value::Double(100.0) } else { Value::Null };
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
        if explain.analyze {
            // What changes one row at a place has nothing that was read.
            let counted = self.counted;
            let share = |c: Figures| Some(c.filtered()? * self.joined.unwrap_or(100.0) / 100.0);
            row.insert(
                9,
                counted.and_then(|c| c.rows_each()).map_or(Value::Null, |n| text(Some(format!("{n:.2}")))),
            );
            row.insert(10, filtered.clone());
            let of_rows = counted.filter(|_| self.rows.is_some());
            let share = if inserts { Some(100.0) } else { of_rows.and_then(share) };
            row.insert(11, share.map_or(Value::Null, Value::Double));
        } else if explain.extended {
            row.insert(9, filtered);
        }
        if explain.partitions {
            row.insert(3, Value::Null);
        }
        row
    }
}

/// Lines so far.
struct Lines<'f> {
    done: Vec<Line>,
    queries: u64,
    found: &'f Findings,
    /// Pairs of columns that joins compare, as slot and column each.
    pairs: Vec<[(u16, u16); 2]>,
}

/// Where a query stands, which decides what its parts are called.
#[derive(Clone, Copy)]
enum Stand {
    /// It depends on nothing around it: so its first part is called.
    Top(&'static str),
    /// In an expression.
    Within,
    /// On the right of IN, asked for each row: all of its parts depend on the left.
    Asked,
}

impl Stand {
    fn first(self, own: Nature, some_depend: bool) -> &'static str {
        match self {
            Stand::Top(name) => name,
            Stand::Asked => "DEPENDENT SUBQUERY",
            Stand::Within if own.dependent => "DEPENDENT SUBQUERY",
            Stand::Within if own.uncacheable || some_depend => "UNCACHEABLE SUBQUERY",
            Stand::Within => "SUBQUERY",
        }
    }

    fn union(self, own: Nature, some_depend: bool) -> &'static str {
        match self {
            Stand::Asked => "DEPENDENT UNION",
            Stand::Within if own.dependent => "DEPENDENT UNION",
            _ if own.uncacheable || some_depend => "UNCACHEABLE UNION",
            _ => "UNION",
        }
    }
}

/// A query whose lines come after those of the query that holds it.
enum Pending<'p> {
    Subquery(&'p Subquery, u64),
    Derived(&'p SelectPlan, u64),
}

/// What is shown, as rows.
pub(super) fn rows(shown: &Shown<'_>, found: &Findings, explain: &ast::Explain) -> Vec<Vec<Value>> {
    let mut lines = Lines { done: Vec::new(), queries: 0, found, pairs: Vec::new() };
    if let Shown::Change { updates: false, finder, .. } = shown
        && let Some(count) = rows_of_all(finder)
    {
        lines.done.push(all_deleted(count));
        return lines.done.into_iter().map(|line| line.into_row(explain)).collect();
    }
    match shown {
        Shown::Query(plan) => lines.explain(plan),
        Shown::Change { finder, counted, .. } => {
            lines.explain(finder);
            if let Some(line) = lines.done.first_mut().filter(|line| line.kind.is_some()) {
                line.counted = *counted;
            }
        }
        Shown::Insert { query: Some(query), .. } => lines.explain(query),
        Shown::Insert { table, query: None } => {
            let (table, kind) = (Some(table.to_string()), Some("ALL"));
            lines.done.push(Line { id: Some(1), select_type: INSERT, table, kind, ..Line::default() });
        }
    }
    lines.done.into_iter().map(|line| line.into_row(explain)).collect()
}

fn figures(counts: &Option<Arc<Counts>>) -> Option<Figures> {
    counts.as_ref().map(|counts| counts.figures())
}

impl Lines<'_> {
    /// The whole statement.
    fn explain(&mut self, plan: &SelectPlan) {
        match &plan.body {
            Body::Block(block) => {
                let simple = is_simple(block) && !has_tests(&block.source);
                self.queries = 1;
                self.block(block, 1, if simple { "SIMPLE" } else { "PRIMARY" });
            }
            Body::Set(set) => {
                if set.queries().is_empty() {
                    let extra = Some("No tables used".into());
                    self.done.push(Line { id: Some(1), select_type: "SIMPLE", extra, ..Line::default() });
                    return;
                }
                self.queries = 0;
                let counted = figures(&plan.counts);
                self.parts(set, Stand::Top("PRIMARY"), counted);
            }
            Body::Recursive(_) | Body::Working(_) => {}
        }
    }

    /// The parts of a set operation, and its result's line.
    fn parts(&mut self, set: &SetPlan, stand: Stand, counted: Option<Figures>) {
        let mut numbers = Vec::new();
        let parts = set.operations();
        let natures: Vec<Nature> = parts.iter().map(|(part, _)| nature(part)).collect();
        let some_depend = natures.iter().any(|nature| nature.dependent);
        for ((part, operation), own) in parts.iter().zip(natures) {
            self.queries += 1;
            let id = self.queries;
            numbers.push(id.to_string());
            let select_type = match operation {
                None => stand.first(own, some_depend),
                Some("UNION") => stand.union(own, some_depend),
                Some(other) => other,
            };
            if let Body::Block(block) = &part.body {
                self.block(block, id, select_type);
            }
        }
        let unsorted = !set.is_sorted();
        if set.is_union_all() && unsorted {
            return;
        }
        let select_type = match set.word() {
            "except" => "EXCEPT RESULT",
            "intersect" => "INTERSECT RESULT",
            "unit" => "UNIT RESULT",
            _ => "UNION RESULT",
        };
        self.done.push(Line {
            select_type,
            table: Some(format!("<{}{}>", set.word(), numbers.join(","))),
            kind: Some("ALL"),
            extra: Some(if unsorted { "" } else { "Using filesort" }.into()),
            counted,
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
                Child::Reduced(_) => {}
            }
            self.queries += child.further_numbers();
        }
        if let Some(words) = self.found.of(block) {
            let extra = Some(words.into());
            self.done.push(Line { id: Some(id), select_type, extra, ..Line::default() });
            pending.into_iter().for_each(|child| self.pending(child));
            return;
        }
        let from = self.done.len();
        self.pairs = compared_columns(&block.source);
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
        let (plan, id, stand) = match child {
            Pending::Derived(plan, id) => (plan, id, Stand::Top("DERIVED")),
            Pending::Subquery(subquery, id) => {
                let is_in = matches!(subquery.test, SubqueryTest::In { .. });
                let stand = match (subquery.reads.is_empty(), is_in) {
                    (false, true) => Stand::Asked,
                    (true, true) => Stand::Top("MATERIALIZED"),
                    (_, false) => Stand::Within,
                };
                (&*subquery.plan, id, stand)
            }
        };
        let select_type = match &plan.body {
            Body::Block(_) => {
                let own = nature(plan);
                stand.first(own, own.dependent)
            }
            _ => stand.first(Nature::default(), false),
        };
        match &plan.body {
            Body::Block(block) => self.block(block, id, select_type),
            Body::Set(set) => {
                let before = std::mem::replace(&mut self.queries, id - 1);
                let counted = figures(&plan.counts);
                self.parts(set, stand, counted);
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
            Source::Join(join) => {
                let from = self.done.len();
                self.join(join, id, select_type, derived);
                if let Some(line) = self.done.get_mut(from).filter(|_| buffered) {
                    push_buffered(line);
                }
                return;
            }
            Source::Distinct(distinct) => {
                self.source(&distinct.source, id, select_type, false, derived);
                if let Some(line) = self.done.last_mut() {
                    push(line.extra.get_or_insert_default(), "LooseScan");
                }
                return;
            }
            Source::Table(table) => table_line(table, self.found.reads_whole(table), &self.pairs),
            Source::Function(function) => Line {
                table: Some(function.alias.to_string()),
                kind: Some("ALL"),
                rows: Some(FUNCTION_ROWS as u64),
                extra: Some(match function.filter.is_empty() {
                    true => "Table function: json_table".into(),
                    false => "Table function: json_table; Using where".into(),
                }),
                counted: figures(&function.counts),
                ..Line::default()
            },
            Source::Derived(table) => Line {
                table: Some(match derived.get(&table.slot) {
                    Some(number) => format!("<derived{number}>"),
                    None => table.alias.to_string(),
                }),
                kind: Some("ALL"),
                extra: Some(if table.filter.is_empty() { "" } else { "Using where" }.into()),
                rows: Some(table.plan.expected_rows().max(DERIVED_ROWS_MIN) as u64),
                counted: figures(&table.counts),
                ..Line::default()
            },
        };
        line.id = Some(id);
        line.select_type = select_type;
        if buffered {
            push_buffered(&mut line);
        }
        self.done.push(line);
    }

    fn join(&mut self, join: &JoinSource, id: u64, select_type: &'static str, derived: &BTreeMap<u16, u64>) {
        self.source(&join.left, id, select_type, false, derived);
        let from = self.done.len();
        self.source(&join.right, id, select_type, join.hash.is_some(), derived);
        if join.hash.is_some()
            && let Some(line) = self.done.get_mut(from)
        {
            line.joined = joined_share(join);
        }
        let conditions = !join.filter.is_empty() || !join.on.is_empty();
        if conditions && let Some(line) = self.done.get_mut(from) {
            let extra = line.extra.get_or_insert_default();
            if !extra.contains("Using where") {
                push(extra, "Using where");
            }
        }
        let test = match (join.kind, last_alias(&join.left)) {
            (Matching::Semi, Some(alias)) => format!("FirstMatch({alias})"),
            (Matching::Anti, _) => "Not exists".to_string(),
            _ => return,
        };
        if let Some(line) = self.done.last_mut() {
            push(line.extra.get_or_insert_default(), &test);
        }
    }
}

/// What a table says that is read once, into a hash table; of several that are the first says it.
fn push_buffered(line: &mut Line) {
    let extra = line.extra.get_or_insert_default();
    if !extra.contains("Using where") {
        push(extra, "Using where");
    }
    push(extra, "Using join buffer (flat, BNL join)");
}

/// The pairs of columns that joins compare for equality: by indexes, and by hash.
fn compared_columns(source: &Source) -> Vec<[(u16, u16); 2]> {
    let mut pairs = Vec::new();
    gather_compared(source, &mut pairs);
    pairs
}

fn gather_compared(source: &Source, pairs: &mut Vec<[(u16, u16); 2]>) {
    let columns = |a: &Expr, b: &Expr| {
        let (a, b) = (a.as_column()?, b.as_column()?);
        Some([(a.slot, a.column), (b.slot, b.column)])
    };
    match source {
        Source::Join(join) => {
            gather_compared(&join.left, pairs);
            gather_compared(&join.right, pairs);
            for condition in join.on.iter().chain(&join.filter) {
                if let Node::Compare { op: CompareOp::Eq, left, right, .. } = &condition.node {
                    pairs.extend(columns(left, right));
                }
            }
        }
        Source::Table(table) => {
            let values: Vec<&Expr> = match &*table.path {
                AccessPath::Point { key, .. } => key.iter().collect(),
                AccessPath::Ranges { alternatives, .. } => {
                    alternatives.iter().flatten().map_while(equal).collect()
                }
                _ => return,
            };
            let Some(index) = keel_exec::access::path_index(&table.path) else { return };
            let parts = &table.table.indexes[index].parts;
            for (part, value) in parts.iter().zip(values) {
                if let Some(column) = value.as_column() {
                    pairs.push([(table.slot, part.column as u16), (column.slot, column.column)]);
                }
            }
        }
        _ => {}
    }
}

fn equal(condition: &PartCondition) -> Option<&Expr> {
    match condition {
        PartCondition::Equal(value) => Some(value),
        _ => None,
    }
}

/// Whether the first column of an index is compared with a column of another table.
fn is_compared(source: &TableSource, index: usize, pairs: &[[(u16, u16); 2]]) -> bool {
    let index = &source.table.indexes[index];
    let Some(first) = index.parts.first().filter(|_| !index.options.ignored) else { return false };
    let own = (source.slot, first.column as u16);
    pairs.iter().any(|[a, b]| *a == own && b.0 != own.0 || *b == own && a.0 != own.0)
}

fn push(extra: &mut String, words: &str) {
    if !extra.is_empty() {
        extra.push_str("; ");
    }
    extra.push_str(words);
}

/// How many rows a DELETE expects that takes all of a table.
fn rows_of_all(finder: &SelectPlan) -> Option<u64> {
    let Body::Block(block) = &finder.body else { return None };
    let Source::Table(table) = &block.source else { return None };
    let is_all = table.filter.is_empty() && table.implied.is_empty() && block.constants.is_empty();
    let in_order = block.order.is_empty() && block.limit.is_none() && block.row_filter.is_empty();
    let whole = matches!(*table.path, AccessPath::Scan { .. });
    (is_all && in_order && whole).then_some(table.choice.rows as u64)
}

fn all_deleted(count: u64) -> Line {
    let extra = Some("Deleting all rows".into());
    Line { id: Some(1), select_type: "SIMPLE", rows: Some(count), extra, ..Line::default() }
}

fn table_line(source: &TableSource, reads_whole: bool, pairs: &[[(u16, u16); 2]]) -> Line {
    let table = &source.table;
    let choice = &source.choice;
    let name = |position: usize| table.indexes[position].name.to_string();
    let index = match &*source.path {
        AccessPath::Scan { index: None, .. } => None,
        path => keel_exec::access::path_index(path),
    };
    let merged = match &*source.path {
        AccessPath::Union(branches) => branches.iter().map(|(index, _)| name(*index)).collect::<Vec<_>>(),
        _ => Vec::new(),
    };
    let merged_len = match &*source.path {
        AccessPath::Union(branches) => Some(keel_planner::access::union_key_len(table, branches)),
        _ => None,
    };
    let usable = |place: &usize| {
        let offered = choice.possible_keys.contains(place);
        offered && !(reads_whole && index == Some(*place)) || is_compared(source, *place, pairs)
    };
    let possible: Vec<String> = (0..table.indexes.len()).filter(usable).map(name).collect();
    let kind = match reads_whole {
        true if source.covering => AccessKind::Index,
        true => AccessKind::All,
        false => choice.kind,
    };
    let index = index.filter(|_| !reads_whole || source.covering);
    let key_len = match reads_whole {
        true => index.map(|place| keel_planner::access::whole_key_len(table, place)),
        false => index.map(|_| choice.key_len),
    };
    let rows = match reads_whole {
        true => table.row_estimate().map_or(choice.rows, |rows| rows as f64),
        false => choice.rows,
    };
    let mut extra = String::new();
    if !merged.is_empty() {
        push(&mut extra, &format!("Using union({})", merged.join(",")));
    }
    let ranged = choice.kind == AccessKind::Range && !source.implied.is_empty();
    let of_index = source.of_entry.is_some_and(|count| count > 0 || ranged);
    if of_index {
        push(&mut extra, "Using index condition");
    }
    if source.filter.len() > source.of_entry.unwrap_or(0) || ranged && !of_index {
        push(&mut extra, "Using where");
    }
    if source.covering {
        push(&mut extra, "Using index");
    }
    Line {
        table: Some(source.alias.to_string()),
        kind: if reads_whole { kind.name() } else { access_name(source) },
        possible_keys: (!possible.is_empty()).then(|| possible.join(",")),
        key: if merged.is_empty() { index.map(name) } else { Some(merged.join(",")) },
        key_len: key_len.map(|len| len.to_string()).or(merged_len),
        reference: references(source).map(|list| list.join(",")),
        counted: figures(&source.counts),
        rows: Some(rows.max(1.0) as u64),
        extra: Some(extra),
        ..Line::default()
    }
}
