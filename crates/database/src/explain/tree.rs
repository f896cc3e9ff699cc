//! A plan as MariaDB's JSON: query blocks with their tables, sorts and subqueries nested in each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use keel_context::counts::{Counts, Figures};
use keel_exec::access::{AccessKind, AccessPath, path_index};
use keel_exec::aggregate::{AggregateCall, AggregateKind};
use keel_exec::join::{
    DerivedSource, FUNCTION_ROWS, FunctionSource, JoinSource, Matching, Source, TableSource,
};
use keel_exec::select::{Block, Body, SelectPlan, SetPlan, Subquery, SubqueryTest};
use keel_expr::Expr;
use keel_expr::print::{self, PlanNames};
use keel_value::Value;

use super::Shown;
use super::found::Findings;
use super::json::{Json, Object};
use super::query::{Child, access_name, children, groups_by_index, joined_share, last_alias, references};

/// What a statement that was run took, in nanoseconds.
#[derive(Clone, Copy)]
pub(super) struct Times {
    pub planning: u64,
    /// What it took, or has taken so far.
    pub running: u64,
    /// It has not ended.
    pub in_progress: bool,
}

fn millis(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

/// What is shown, as text.
pub(super) fn text(
    (shown, found): (&Shown<'_>, &Findings),
    params: &[Value],
    times: Option<Times>,
    buffer_bytes: u64,
) -> String {
    let mut whole = Object::default();
    if let Some(times) = times {
        if times.in_progress {
            whole.number("r_query_time_in_progress_ms", millis(times.running).trunc());
        }
        let mut planning = Object::default();
        planning.number("r_total_time_ms", millis(times.planning));
        whole.object("query_optimization", planning);
    }
    let mut tree = Tree { queries: 0, found, params, buffer_bytes, names: PlanNames::default() };
    let block = match shown {
        Shown::Query(plan) | Shown::Insert { query: Some(plan), .. } => tree.whole(plan),
        Shown::Change { updates, finder, counted } => {
            let running = times.filter(|times| !times.in_progress).map(|times| times.running);
            tree.change(if *updates { "update" } else { "delete" }, finder, *counted, running)
        }
        Shown::Insert { table, query: None } => {
            let mut block = Object::default();
            block.number("select_id", 1.0);
            let mut named = Object::default();
            named.text("table_name", *table);
            block.object("table", named);
            block
        }
    };
    whole.object("query_block", block);
    whole.into_text()
}

struct Tree<'p> {
    /// Queries numbered so far.
    queries: u64,
    found: &'p Findings,
    params: &'p [Value],
    buffer_bytes: u64,
    names: PlanNames,
}

fn figures(counts: &Option<Arc<Counts>>) -> Option<Figures> {
    counts.as_ref().map(|counts| counts.figures())
}

/// How often a query ran, and how long.
fn runs(object: &mut Object, counted: Option<Figures>) {
    if let Some(counted) = counted.filter(|counted| counted.loops > 0) {
        object.number("r_loops", counted.loops as f64);
        object.number("r_total_time_ms", counted.millis());
    }
}

impl<'p> Tree<'p> {
    fn whole(&mut self, plan: &'p SelectPlan) -> Object {
        match &plan.body {
            Body::Block(block) => {
                self.queries = 1;
                self.block(block, 1, None, figures(&plan.counts))
            }
            Body::Set(set) => {
                self.queries = 0;
                self.set(set, figures(&plan.counts))
            }
            Body::Recursive(_) | Body::Working(_) => Object::default(),
        }
    }

    /// UPDATE or DELETE of one table.
    fn change(
        &mut self,
        word: &'static str,
        finder: &'p SelectPlan,
        counted: Option<Figures>,
        running: Option<u64>,
    ) -> Object {
        let Body::Block(block) = &finder.body else { return self.whole(finder) };
        let Source::Table(source) = &block.source else { return self.whole(finder) };
        self.queries = 1;
        let (_, subqueries) = self.inner(block);
        let mut out = Object::default();
        out.number("select_id", 1.0);
        if let Some(running) = running {
            out.number("r_total_time_ms", millis(running));
        }
        let table = match self.found.of(block) {
            Some(words) => message(words),
            None => {
                let mut table = Object::default();
                table.number(word, 1.0);
                self.access(source, &mut table);
                table.number("rows", source.choice.rows.max(1.0).trunc());
                if let Some(counted) = counted {
                    table.maybe("r_rows", counted.rows_each());
                    table.maybe("r_filtered", counted.filtered());
                    table.number("r_table_time_ms", counted.millis());
                }
                table.some_text("attached_condition", self.all(source.filter.iter().chain(&source.implied)));
                table
            }
        };
        if block.explain.sorts {
            out.object("filesort", Object::of("table", table));
        } else {
            out.object("table", table);
        }
        if !subqueries.is_empty() {
            out.set("subqueries", Json::List(subqueries));
        }
        out
    }

    fn set(&mut self, set: &'p SetPlan, counted: Option<Figures>) -> Object {
        let mut numbers = Vec::new();
        let mut parts = Vec::new();
        for (part, operation) in set.operations() {
            self.queries += 1;
            let id = self.queries;
            numbers.push(id.to_string());
            if let Body::Block(block) = &part.body {
                let block = self.block(block, id, operation, figures(&part.counts));
                parts.push(Object::of("query_block", block));
            }
        }
        let mut result = Object::default();
        if !set.is_union_all() || set.is_sorted() {
            result.text("table_name", format!("<{}{}>", set.word(), numbers.join(",")));
            result.text("access_type", "ALL");
            if let Some(counted) = counted {
                result.number("r_loops", counted.loops as f64);
                result.maybe("r_rows", counted.rows_each());
            }
        }
        if parts.is_empty() {
            // Rows of VALUES.
            let mut rows = Object::default();
            rows.number("select_id", 1.0);
            rows.object("table", message("No tables used"));
            parts.push(Object::of("query_block", rows));
        }
        result.set("query_specifications", Json::List(parts));
        Object::of("union_result", result)
    }

    fn recursive(&mut self, parts: &[&'p SelectPlan]) -> Object {
        let mut numbers = Vec::new();
        let mut blocks = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            self.queries += 1;
            let id = self.queries;
            numbers.push(id.to_string());
            if let Body::Block(block) = &part.body {
                let operation = (index > 0).then_some("UNION");
                blocks
                    .push(Object::of("query_block", self.block(block, id, operation, figures(&part.counts))));
            }
        }
        let mut result = Object::default();
        result.text("table_name", format!("<union{}>", numbers.join(",")));
        result.text("access_type", "ALL");
        result.set("query_specifications", Json::List(blocks));
        Object::of("recursive_union", result)
    }

    /// A query within a block.
    fn nested(&mut self, plan: &'p SelectPlan, id: u64) -> Object {
        let counted = figures(&plan.counts);
        match &plan.body {
            Body::Block(block) => self.block(block, id, None, counted),
            Body::Set(set) => {
                let before = std::mem::replace(&mut self.queries, id - 1);
                let object = self.set(set, counted);
                self.queries = self.queries.max(before);
                object
            }
            Body::Recursive(recursive) => {
                let before = std::mem::replace(&mut self.queries, id - 1);
                let object = self.recursive(&recursive.queries());
                self.queries = self.queries.max(before);
                object
            }
            Body::Working(_) => Object::default(),
        }
    }

    /// The queries within a block: those that are its tables, with their numbers, and subqueries.
    fn inner(&mut self, block: &'p Block) -> (BTreeMap<u16, (u64, Object)>, Vec<Object>) {
        let mut numbered = Vec::new();
        for child in children(block) {
            self.queries += 1;
            numbered.push((child, self.queries));
            if let Child::Subquery(subquery) = child {
                self.names.subqueries.push((Arc::as_ptr(&subquery.plan) as usize, self.queries));
            }
            self.queries += child.further_numbers();
        }
        let (mut derived, mut subqueries) = (BTreeMap::new(), Vec::new());
        for (child, id) in numbered {
            match child {
                Child::Derived(slot, plan) => drop(derived.insert(slot, (id, self.nested(plan, id)))),
                Child::Subquery(subquery) => subqueries.push(self.subquery(subquery, id)),
                Child::Reduced(_) => {}
            }
        }
        (derived, subqueries)
    }

    fn subquery(&mut self, subquery: &'p Subquery, id: u64) -> Object {
        let mut object = Object::of("query_block", self.nested(&subquery.plan, id));
        let kept = matches!(subquery.test, SubqueryTest::In { .. });
        if subquery.reads.is_empty() {
            return if kept { Object::of("materialization", object) } else { object };
        }
        if let Some(keyed) = &subquery.keyed {
            // One query for all that may be asked, numbered as the one in whose place it runs.
            let queries = self.queries;
            object.object("keyed_query_block", self.nested(&keyed.plan, id));
            self.queries = queries;
        }
        if subquery.memo.is_some() || subquery.keyed.is_some() {
            Object::of("expression_cache", object)
        } else {
            object
        }
    }

    fn block(
        &mut self,
        block: &'p Block,
        id: u64,
        operation: Option<&'static str>,
        counted: Option<Figures>,
    ) -> Object {
        let (mut derived, subqueries) = self.inner(block);
        let calls = block.group.iter().flat_map(|group| &group.aggregates);
        self.names.aggregates.clear();
        for call in calls {
            let text = self.aggregate(call);
            self.names.aggregates.push(text);
        }
        let mut out = Object::default();
        out.number("select_id", id as f64);
        if let Some(operation) = operation {
            out.text("operation", operation);
        }
        runs(&mut out, counted);
        if let Some(words) = self.found.of(block) {
            out.object("table", message(words));
        } else if matches!(block.source, Source::One) {
            out.object("table", message("No tables used"));
        } else {
            out.some_text("const_condition", self.all(block.constants.iter().chain(&block.row_filter)));
            out.some_text("having_condition", self.all(&block.having));
            let mut tables = Vec::new();
            self.source(&block.source, &mut derived, &mut tables);
            out.extend(self.stages(block, tables));
        }
        if !subqueries.is_empty() {
            out.set("subqueries", Json::List(subqueries));
        }
        out
    }

    /// What is done with the joined rows, around their tables.
    fn stages(&self, block: &Block, mut tables: Vec<Object>) -> Object {
        let in_order = block.explain.groups && groups_by_index(block);
        let grouped = block.explain.groups || (block.explain.distinct && block.group.is_some());
        let by_table = (grouped && !in_order) || block.explain.windows;
        let sort_key = if block.explain.sorts {
            Some(self.list(block.order.iter().map(|key| (&key.expr, key.part.key.descending))))
        } else if block.explain.groups && !in_order {
            block.group.as_ref().map(|group| self.list(group.keys.iter().map(|key| (key, false))))
        } else {
            None
        };
        let single = tables.len() == 1 && block.group.is_none() && !by_table;
        if let (Some(sort_key), true) = (&sort_key, single) {
            let mut sort = Object::default();
            sort.text("sort_key", sort_key);
            sort.extend(tables.pop().unwrap_or_default());
            let mut file = Object::default();
            file.object("filesort", sort);
            tables.push(Object::of("read_sorted_file", file));
        }
        let mut stages = Object::default();
        stages.set("nested_loop", Json::List(tables));
        if by_table || (sort_key.is_some() && !single) {
            stages = Object::of("temporary_table", stages);
        }
        if let Some(windows) = &block.windows {
            let sorted = windows.stages.iter().filter(|stage| !stage.keys.is_empty());
            let sorts = sorted.map(|stage| {
                let keys = stage.keys.iter().zip(&stage.parts).map(|(key, part)| (key, part.descending));
                let mut sort = Object::default();
                sort.text("sort_key", self.list(keys));
                Object::of("filesort", sort)
            });
            let mut computation = Object::default();
            computation.set("sorts", Json::List(sorts.collect()));
            computation.extend(stages);
            stages = Object::of("window_functions_computation", computation);
        }
        match sort_key.filter(|_| !single) {
            Some(sort_key) => {
                let mut sort = Object::default();
                sort.text("sort_key", sort_key);
                sort.extend(stages);
                Object::of("filesort", sort)
            }
            None => stages,
        }
    }

    fn source(&self, source: &Source, derived: &mut BTreeMap<u16, (u64, Object)>, out: &mut Vec<Object>) {
        match source {
            Source::One => {}
            Source::Table(table) => out.push(Object::of("table", self.table(table, None))),
            Source::Function(table) => out.push(Object::of("table", self.function(table, None))),
            Source::Derived(table) => out.push(Object::of("table", self.derived(table, derived, None))),
            Source::Join(join) => {
                self.join(join, derived, out);
                self.test(join, out);
            }
            Source::Distinct(distinct) => {
                self.source(&distinct.source, derived, out);
                innermost(out, |table| table.set("loose_scan", Json::True));
            }
        }
    }

    /// What ends a test, at its last table.
    fn test(&self, join: &JoinSource, out: &mut [Object]) {
        match (join.kind, last_alias(&join.left)) {
            (Matching::Semi, Some(alias)) => innermost(out, |table| table.text("first_match", alias)),
            (Matching::Anti, _) => innermost(out, |table| table.set("not_exists", Json::True)),
            _ => {}
        }
    }

    fn join(&self, join: &JoinSource, derived: &mut BTreeMap<u16, (u64, Object)>, out: &mut Vec<Object>) {
        self.source(&join.left, derived, out);
        let is_outer = join.kind == Matching::Outer;
        let rest = self.all(join.on.iter().chain(&join.filter));
        let rest = rest.map(|text| if is_outer { format!("trigcond({text})") } else { text });
        let Some(hash) = &join.hash else {
            match &join.right {
                Source::Table(table) => out.push(Object::of("table", self.table(table, rest))),
                Source::Function(table) => out.push(Object::of("table", self.function(table, rest))),
                Source::Derived(table) => out.push(Object::of("table", self.derived(table, derived, rest))),
                other => {
                    self.source(other, derived, out);
                    if let (Some(rest), Some(last)) = (rest, out.last_mut()) {
                        last.text("join_condition", rest);
                    }
                }
            }
            return;
        };
        let mut right = Vec::new();
        self.source(&join.right, derived, &mut right);
        let mut buffered = match right.len() {
            1 => right.pop().unwrap_or_default(),
            _ => {
                let mut several = Object::default();
                several.set("nested_loop", Json::List(right));
                several
            }
        };
        buffered.text("buffer_type", "flat");
        buffered.text("buffer_size", self.buffer_bytes.to_string());
        buffered.text("join_type", "BNLH");
        let pairs: Vec<String> = hash
            .left
            .iter()
            .zip(&hash.right)
            .map(|(left, right)| format!("{} = {}", self.text(right), self.text(left)))
            .collect();
        let keys = pairs.join(" and ");
        buffered.set("hash_keys", Json::Words(pairs));
        let keys = if is_outer { format!("trigcond({keys})") } else { keys };
        buffered.text("attached_condition", rest.map_or(keys.clone(), |rest| format!("{keys} and {rest}")));
        if let (Some(counts), Some(left)) = (&join.counts, join.left.counts()) {
            buffered.number("r_loops", left.figures().passed as f64);
            buffered.maybe("r_filtered", joined_share(join));
            buffered.number("r_effective_rows", counts.figures().passed as f64);
        }
        out.push(Object::of("block-nl-join", buffered));
    }

    /// Which table, and the way to its rows.
    fn access(&self, source: &TableSource, out: &mut Object) {
        let table = &source.table;
        let choice = &source.choice;
        let name = |position: usize| table.indexes[position].name.to_string();
        let parts = |position: usize, count: usize| {
            let parts = table.indexes[position].parts.iter().take(count);
            Json::Words(parts.map(|part| table.columns[part.column].name.to_string()).collect())
        };
        out.text("table_name", &*source.alias);
        out.some_text("access_type", access_name(source).map(String::from));
        if !choice.possible_keys.is_empty() {
            let names = choice.possible_keys.iter().map(|position| name(*position)).collect();
            out.set("possible_keys", Json::Words(names));
        }
        if let AccessPath::Union(branches) = &*source.path {
            out.text("key_length", keel_planner::access::union_key_len(table, branches));
            let ranges = branches.iter().map(|(index, lists)| {
                let mut range = Object::default();
                range.text("key", name(*index));
                range.set("used_key_parts", parts(*index, lists.iter().map(Vec::len).max().unwrap_or(0)));
                Object::of("range", range)
            });
            let mut merged = Object::default();
            merged.set("union", Json::List(ranges.collect()));
            out.object("index_merge", merged);
        }
        if let Some(index) = path_index(&source.path) {
            out.text("key", name(index));
            out.text("key_length", choice.key_len.to_string());
            let whole = table.indexes[index].parts.len();
            out.set(
                "used_key_parts",
                parts(index, if choice.key_parts > 0 { choice.key_parts } else { whole }),
            );
        }
        if let Some(list) = references(source) {
            out.set("ref", Json::Words(list));
        }
    }

    fn table(&self, source: &TableSource, joining: Option<String>) -> Object {
        let mut out = Object::default();
        self.access(source, &mut out);
        read(&mut out, figures(&source.counts), Some(source.choice.rows.max(1.0).trunc()));
        // What a key's value says is said by `ref`.
        let by_key = matches!(source.choice.kind, AccessKind::Const | AccessKind::EqRef | AccessKind::Ref);
        let implied = if by_key { &[][..] } else { &source.implied[..] };
        let own = match source.of_entry {
            Some(count) => {
                let (of_entry, others) = source.filter.split_at(count);
                out.some_text("index_condition", self.all(implied.iter().chain(of_entry)));
                self.all(others.iter())
            }
            None => self.all(source.filter.iter().chain(implied)),
        };
        out.some_text("attached_condition", both(own, joining));
        if source.covering {
            out.set("using_index", Json::True);
        }
        out
    }

    fn function(&self, source: &FunctionSource, joining: Option<String>) -> Object {
        let mut out = Object::default();
        out.text("table_name", &*source.alias);
        out.text("access_type", "ALL");
        read(&mut out, figures(&source.counts), Some(FUNCTION_ROWS));
        out.text("table_function", keel_exec::json_table::TABLE);
        out.some_text("attached_condition", both(self.all(&source.filter), joining));
        out
    }

    fn derived(
        &self,
        source: &DerivedSource,
        derived: &mut BTreeMap<u16, (u64, Object)>,
        joining: Option<String>,
    ) -> Object {
        let own = derived.remove(&source.slot);
        let mut out = Object::default();
        out.text(
            "table_name",
            match &own {
                Some((number, _)) => format!("<derived{number}>"),
                None => source.alias.to_string(),
            },
        );
        out.text("access_type", "ALL");
        read(&mut out, figures(&source.counts), Some(source.plan.expected_rows().max(1.0).trunc()));
        out.some_text("attached_condition", both(self.all(&source.filter), joining));
        if let Some((_, block)) = own {
            out.object("materialized", Object::of("query_block", block));
        }
        out
    }

    fn aggregate(&self, call: &AggregateCall) -> String {
        let args: Vec<String> = match call.kind {
            AggregateKind::CountStar => vec!["0".into()],
            _ => call.args.iter().map(|arg| self.text(arg)).collect(),
        };
        let distinct = if call.distinct { "distinct " } else { "" };
        format!("{}({distinct}{})", call.kind.name(), args.join(","))
    }

    /// Conditions that all hold.
    fn all<'e>(&self, conditions: impl IntoIterator<Item = &'e Expr>) -> Option<String> {
        let texts: Vec<String> = conditions.into_iter().map(|e| self.text(e)).collect();
        (!texts.is_empty()).then(|| texts.join(" and "))
    }

    /// Keys of an order.
    fn list<'e>(&self, keys: impl Iterator<Item = (&'e Expr, bool)>) -> String {
        let key = |(expr, descending): (&Expr, bool)| {
            let text = self.text(expr);
            if descending { format!("{text} desc") } else { text }
        };
        keys.map(key).collect::<Vec<_>>().join(", ")
    }

    fn text(&self, expr: &Expr) -> String {
        print::text_in_plan(expr, self.params, &self.names)
    }
}

/// Adds to the table that was told last.
fn innermost(tables: &mut [Object], add: impl FnOnce(&mut Object)) {
    if let Some(table) = tables.last_mut().and_then(Object::last_object) {
        add(table);
    }
}

fn message(words: &str) -> Object {
    let mut table = Object::default();
    table.text("message", words);
    table
}

fn both(one: Option<String>, other: Option<String>) -> Option<String> {
    match (one, other) {
        (Some(one), Some(other)) => Some(format!("{one} and {other}")),
        (one, other) => one.or(other),
    }
}

/// Rows expected and rows read.
fn read(out: &mut Object, counted: Option<Figures>, rows: Option<f64>) {
    if let Some(counted) = counted {
        out.number("r_loops", counted.loops as f64);
    }
    if let Some(rows) = rows {
        out.number("rows", rows);
    }
    if let Some(counted) = counted {
        out.maybe("r_rows", counted.rows_each());
        out.number("r_table_time_ms", counted.millis());
    }
    // Every row that a path gives is counted as one that is wanted.
    out.number("filtered", 100.0);
    if let Some(counted) = counted {
        out.maybe("r_filtered", counted.filtered());
    }
}
