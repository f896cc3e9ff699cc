//! Join order and access paths.
//!
//! Inner joins become a list of items in any order; an outer join's right side is one item that may come once all that
//! its ON names is there. Outer joins whose empty side WHERE would throw away become inner first. Orders are searched
//! depth first with the best cost so far as bound and a budget of steps; when it is spent, the best order found (at least
//! the greedy one) stands. So fifteen tables plan in milliseconds. Behind the first `optimizer_search_depth` tables of an order
//! only the most promising next one is tried; 0 sets no such bound.
//!
//! The cost of an order is the rows read: those of each step times the rows of the steps before.

use std::rc::Rc;
use std::sync::{Arc, LazyLock};

use hashbrown::HashMap;
use keel_base::{SqlResult, errors};
use keel_catalog::TableDef;
use keel_context::counts::{Counting, Counts};
use keel_exec::access::{AccessChoice, AccessKind, AccessPath, KeyOrder};
use keel_exec::join::{
    DerivedSource, DistinctSource, FunctionSource, HashPlan, JoinSource, Matching, Source, TableSource, hash,
};
use keel_exec::json_table::JsonTable;
use keel_exec::select::{Carry, SelectPlan, SlotColumns};
use keel_exec::session::Session;
use keel_expr::compare::is_tolerant;
use keel_expr::{CompareOp, Comparison, Expr, Node, walk};
use keel_sql::ast::IndexHint;
use keel_value::row::Layout;
use keel_value::{SqlType, Value};

use crate::access::unusable::{self, Inspected, UnusableKey};
use crate::access::{AccessRequest, choose};
use crate::bind::row_number_type;
use crate::join::disjunct;
use crate::join::semi::{self, Lead};

/// A table of FROM.
pub(crate) struct Leaf {
    /// Its slot.
    pub slot: u16,
    /// The name it has in the query.
    pub alias: Arc<str>,
    /// What it is.
    pub kind: LeafKind,
    /// Which of its columns anybody reads.
    pub needed: Vec<bool>,
    /// It is of a subquery that became a join: nothing above the joins reads it.
    pub merged: bool,
}

/// What a table of FROM is.
pub(crate) enum LeafKind {
    /// A table, with its index hints.
    Table(Arc<TableDef>, Vec<IndexHint>),
    /// A query, and how its rows are kept.
    Derived(Arc<SelectPlan>, Arc<Layout>, Option<u64>),
    /// JSON_TABLE.
    Function(Arc<JsonTable>),
}

/// FROM as written, conditions bound; and subqueries of WHERE that became joins.
#[derive(Clone)]
pub(crate) enum FromTree {
    /// A table, by slot.
    Leaf(u16),
    /// A join.
    Join {
        /// Which rows it gives (RIGHT JOIN has its sides exchanged).
        kind: Matching,
        /// STRAIGHT_JOIN.
        straight: bool,
        left: Box<FromTree>,
        right: Box<FromTree>,
        /// ON, taken apart at AND.
        on: Vec<Expr>,
    },
}

/// What the planner is asked.
#[derive(Clone)]
pub(crate) struct JoinRequest<'a> {
    pub session: &'a Session,
    /// By slot.
    pub leaves: &'a [Leaf],
    /// The order that would save a sort: a slot and its columns.
    pub order: Option<(u16, Vec<KeyOrder>)>,
    /// Rows after which the query ends, if it needs no sort.
    pub limit: Option<u64>,
    pub locking: bool,
    /// Rows are read to be changed.
    pub changing: bool,
    /// SELECT STRAIGHT_JOIN.
    pub straight: bool,
    /// The first execution's parameters, where known.
    pub sample: &'a [Value],
    /// Gives sources their counts, for ANALYZE.
    pub counting: Option<&'a Counting>,
}

impl JoinRequest<'_> {
    /// The only table whose rows are read above the joins; none where there are several.
    pub fn only(&self) -> Option<&Leaf> {
        let mut lasting = self.leaves.iter().filter(|leaf| !leaf.merged);
        lasting.next().filter(|_| lasting.next().is_none())
    }
}

/// The result.
pub(crate) struct Joined {
    pub source: Source,
    /// Rows come in the wished order.
    pub ordered: bool,
    /// Conditions of inner joins that name no table.
    pub rest: Vec<Expr>,
    /// Key parts that conditions cannot use.
    pub unusable: Vec<UnusableKey>,
}

/// Most tables of a query block: slots are bits of 64.
pub(crate) const TABLES_MAX: usize = 61;
/// Partial orders looked at before the best found so far is taken.
const STEPS_MAX: usize = 4000;
/// The same within a semi-join's right side, while orders around it are compared.
const STEPS_WITHIN_MAX: usize = 200;
/// Rows expected of a derived table.
const DERIVED_ROWS: f64 = 100.0;
/// Price of sorting a row, per doubling of their number.
const SORT: f64 = 0.2;
/// Price of finding a row in a hash table, in rows read.
pub(super) const PROBE: f64 = 0.3;

/// Price of reading a row back that a hash join has in its file, in rows read.
const READ_BACK: f64 = 2.0;
/// Octets that a hash join is expected to keep of a row: of its own, and for each column.
const ROW_BYTES: f64 = 16.0;
const COLUMN_BYTES: f64 = 8.0;

/// Plans the joins of a query block. Conditions that name no table are the caller's to ask.
pub(crate) fn plan(request: &JoinRequest<'_>, tree: FromTree, conditions: Vec<Expr>) -> SqlResult<Joined> {
    if request.leaves.len() > TABLES_MAX {
        return Err(errors::too_many_tables(TABLES_MAX));
    }
    let mut planner = Planner {
        request,
        choices: HashMap::new(),
        tests: HashMap::new(),
        steps: 0,
        steps_max: STEPS_MAX,
        limited: false,
    };
    let conditions = disjunct::refine(conditions);
    let tree = to_inner(tree, &conditions);
    let unusable = unusable_keys(request, &tree, &conditions);
    let group = planner.group(tree, conditions, 0)?;
    Ok(Joined { source: group.source, ordered: group.ordered, rest: group.rest, unusable })
}

/// The key parts that the conditions of a tree cannot use, and those above it.
fn unusable_keys(request: &JoinRequest<'_>, tree: &FromTree, above: &[Expr]) -> Vec<UnusableKey> {
    let mut found = Vec::new();
    if request.limit == Some(0) {
        return found;
    }
    let tables: Vec<Inspected<'_>> = request.leaves.iter().filter_map(Leaf::inspected).collect();
    if request.changing && request.leaves.len() == 1 {
        tables.iter().for_each(|of| unusable::of_change(of.table, of.hints, above, &mut found));
        return found;
    }
    unusable_in(tree, above, &tables, &mut found, &mut |tables, conditions, found| {
        unusable::of_equalities(tables, conditions, found);
    });
    unusable_in(tree, above, &tables, &mut found, &mut |tables, conditions, found| {
        tables.iter().for_each(|of| unusable::of_intervals(of, conditions, found));
    });
    found
}

/// What inspects conditions, which may use keys of some tables.
type Inspect<'f> = &'f mut dyn FnMut(&[Inspected<'_>], &[&Expr], &mut Vec<UnusableKey>);

/// Inspects conditions above a tree together with those of its inner joins, then those of its outer joins, which say
/// nothing of the tables outside of them.
fn unusable_in(
    tree: &FromTree,
    above: &[Expr],
    tables: &[Inspected<'_>],
    found: &mut Vec<UnusableKey>,
    inspect: Inspect<'_>,
) {
    let mut conditions: Vec<&Expr> = above.iter().collect();
    let mut outer = Vec::new();
    let mut left = vec![tree];
    while let Some(tree) = left.pop() {
        let FromTree::Join { kind, left: first, right: second, on, .. } = tree else { continue };
        match kind {
            Matching::Inner | Matching::Semi => {
                conditions.extend(on);
                left.push(second);
            }
            Matching::Outer | Matching::Anti => outer.push((&**second, on)),
        }
        left.push(first);
    }
    inspect(tables, &conditions, found);
    for (tree, on) in outer {
        let slots = slots_of(tree);
        let within: Vec<Inspected<'_>> =
            tables.iter().filter(|of| slots & bit(of.slot) != 0).copied().collect();
        unusable_in(tree, on, &within, found, inspect);
    }
}

/// One thing to be joined.
#[derive(Clone)]
pub(super) struct Item {
    pub slots: u64,
    /// Slots that must be there before.
    pub requires: u64,
    /// Slots that its conditions read: ON, and all within.
    pub reads: u64,
    /// What is within reads nothing outside of it, so that it can be read at any time.
    pub closed: bool,
    pub kind: ItemKind,
}

#[derive(Clone)]
pub(super) enum ItemKind {
    Leaf(u16),
    /// The right side of a join that is no inner one, and its ON.
    Right(Matching, Box<FromTree>, Vec<Expr>),
    /// The right side of a semi-join that comes first of all.
    Lead(Box<Lead>),
}

/// A group of items, planned.
struct Group {
    source: Source,
    /// Conditions about known slots only.
    rest: Vec<Expr>,
    ordered: bool,
}

/// An order, and the items and conditions that it is for where those are not as given.
type Chosen = (Vec<Step>, Option<(Vec<Item>, Vec<Expr>)>);

/// One step of an order: an item's price and rows per row before it.
#[derive(Clone)]
pub(super) struct Step {
    pub item: usize,
    pub cost: f64,
    pub rows: f64,
    pub hash: bool,
}

pub(super) struct Planner<'a> {
    request: &'a JoinRequest<'a>,
    /// Choices made, by slot, those known slots that matter to it, whether it comes first, and whether it is limited.
    choices: HashMap<(u16, u64, bool, bool), Rc<AccessChoice>>,
    /// What one run of a semi-join's right side costs and gives, by its first slot and those known slots that matter.
    pub tests: HashMap<(u32, u64), (f64, f64)>,
    steps: usize,
    /// Partial orders to look at.
    steps_max: usize,
    /// The first table is read in the wished order, and no further than the limit needs.
    pub limited: bool,
}

pub(super) fn bit(slot: u16) -> u64 {
    1 << slot
}

pub(super) fn slots_of(tree: &FromTree) -> u64 {
    match tree {
        FromTree::Leaf(slot) => bit(*slot),
        FromTree::Join { left, right, .. } => slots_of(left) | slots_of(right),
    }
}

/// Turns outer joins inner where a condition above is never true for their NULL rows.
fn to_inner(tree: FromTree, above: &[Expr]) -> FromTree {
    let FromTree::Join { kind, straight, left, right, on } = tree else { return tree };
    let right_slots = slots_of(&right);
    let is_inner = kind == Matching::Outer && above.iter().any(|c| rejects_null(c, right_slots));
    let kind = if is_inner { Matching::Inner } else { kind };
    let (left, right) = match kind {
        Matching::Outer | Matching::Anti => (to_inner(*left, above), to_inner(*right, &on)),
        Matching::Inner | Matching::Semi => {
            let both: Vec<Expr> = above.iter().chain(&on).cloned().collect();
            (to_inner(*left, &both), to_inner(*right, &both))
        }
    };
    FromTree::Join { kind, straight, left: Box::new(left), right: Box::new(right), on }
}

/// Whether a condition is never true when all columns of some slots are NULL.
fn rejects_null(condition: &Expr, slots: u64) -> bool {
    match &condition.node {
        Node::Compare { op: CompareOp::NullSafeEq, .. } => false,
        Node::Compare { left, right, .. } => null_in(left, slots) || null_in(right, slots),
        Node::Between { value, .. } | Node::In { value, .. } => null_in(value, slots),
        Node::Like { value, .. } => null_in(value, slots),
        Node::IsNull { negated: true, value } => null_in(value, slots),
        Node::And(parts) => parts.iter().any(|p| rejects_null(p, slots)),
        Node::Or(parts) => parts.iter().all(|p| rejects_null(p, slots)),
        Node::OneOf(any, _) => rejects_null(any, slots),
        _ => null_in(condition, slots),
    }
}

/// Whether an expression is NULL when all columns of some slots are.
fn null_in(expr: &Expr, slots: u64) -> bool {
    match &expr.node {
        Node::Column(column) => slots & bit(column.slot) != 0,
        Node::Arith(_, a, b) => null_in(a, slots) || null_in(b, slots),
        Node::Negate(a) | Node::Convert(a) | Node::Generated(a, _) | Node::Cast(a) | Node::Collate(a) => {
            null_in(a, slots)
        }
        _ => false,
    }
}

/// A condition, and the slots that it reads.
#[derive(Clone, Copy)]
struct Asked<'e> {
    expr: &'e Expr,
    slots: u64,
}

impl Asked<'_> {
    /// Whether it says something about a slot and can be asked where others are known.
    fn is_about(&self, slot: u16, known: u64) -> bool {
        self.slots & bit(slot) != 0 && self.slots & !(known | bit(slot)) == 0
    }
}

fn asked(conditions: &[Expr]) -> Vec<Asked<'_>> {
    conditions.iter().map(|expr| Asked { expr, slots: walk::slots_read(expr) }).collect()
}

/// A guess at the share of rows that fulfil a condition.
fn selectivity(condition: &Expr) -> f64 {
    match &condition.node {
        Node::Compare { op: CompareOp::Eq | CompareOp::NullSafeEq, .. } => 0.1,
        Node::Compare { op: CompareOp::Ne, .. } => 0.9,
        Node::Compare { .. } => 0.33,
        Node::Between { .. } => 0.2,
        Node::In { list, .. } => (0.1 * list.len() as f64).min(0.5),
        Node::IsNull { negated: false, .. } => 0.1,
        Node::And(parts) => parts.iter().map(selectivity).product(),
        _ => 0.5,
    }
}

impl Planner<'_> {
    /// Plans a tree whose conditions may name slots in `known` besides its own.
    fn group(&mut self, tree: FromTree, mut conditions: Vec<Expr>, known: u64) -> SqlResult<Group> {
        let mut items = Vec::new();
        flatten(tree, &mut items, &mut conditions);
        for item in &mut items {
            item.requires |= self.read_by_functions(item.slots) & !item.slots;
        }
        let own: u64 = items.iter().map(|i| i.slots).fold(0, |a, b| a | b);
        let (mut conditions, rest): (Vec<Expr>, Vec<Expr>) =
            conditions.into_iter().partition(|c| walk::slots_read(c) & own != 0);
        // What costs a query of its own is asked last.
        conditions.sort_by_key(|c| walk::facts(c).subquery);
        let (order, lead) = self.choose_order(&items, &conditions, known)?;
        if let Some(turned) = lead {
            (items, conditions) = turned;
        }
        let mut placed = known;
        let mut source = Source::One;
        let mut ordered = false;
        let mut pool: Vec<Option<Expr>> = conditions.into_iter().map(Some).collect();
        let mut items: Vec<Option<Item>> = items.into_iter().map(Some).collect();
        for step in order {
            let first = matches!(source, Source::One);
            let item = items[step.item].take().expect("an order names each item once");
            let slots = item.slots;
            if first {
                let built = self.right_side(item, &mut pool, placed, true)?;
                ordered = built.1;
                source = built.0;
            } else {
                source = self.join(source, item, &mut pool, placed, step.hash)?;
            }
            placed |= slots;
        }
        let left_over: Vec<Expr> = pool.into_iter().flatten().collect();
        debug_assert!(left_over.is_empty(), "every condition has found its place");
        Ok(Group { source, rest, ordered })
    }

    /// The same for the right side of a join: the wished order is that of the outermost group alone.
    fn group_within(&mut self, tree: FromTree, conditions: Vec<Expr>, known: u64) -> SqlResult<Group> {
        let limited = std::mem::take(&mut self.limited);
        let group = self.group(tree, conditions, known);
        self.limited = limited;
        group
    }

    fn counts(&self) -> Option<Arc<Counts>> {
        self.request.counting.map(Counting::one_more)
    }

    /// Slots that table functions at some slots read.
    fn read_by_functions(&self, slots: u64) -> u64 {
        let leaves = self.request.leaves.iter().filter(|leaf| slots & bit(leaf.slot) != 0);
        leaves.map(Leaf::requires).fold(0, |a, b| a | b)
    }

    /// The cheapest order; with the items and conditions that it is for, where a semi-join's right side comes first. Where
    /// a sort can be saved, and with it most of the rows behind a limit, that is weighed too.
    fn choose_order(&mut self, items: &[Item], conditions: &[Expr], known: u64) -> SqlResult<Chosen> {
        let Some((mut cost, mut steps)) = self.best_order(items, conditions, known)? else {
            let slots = items.iter().fold(0, |slots, item| slots | item.slots);
            // A document that would be read from a row that stands behind it; nothing else leaves no order.
            let reads = self.read_by_functions(slots) != 0;
            debug_assert!(reads, "some order is allowed");
            let what = if reads { "JSON_TABLE within nested RIGHT JOINs" } else { "this order of joins" };
            return Err(errors::not_supported_yet(what));
        };
        let mut lead = None;
        if known == 0 && !self.request.straight {
            for turned in semi::leads(items, conditions) {
                if let Some((price, order)) = self.best_order(&turned.0, &turned.1, known)?
                    && price < cost
                {
                    (cost, steps, lead) = (price, order, Some(turned));
                }
            }
        }
        let (Some(_), Some(limit)) = (&self.request.order, self.request.limit) else {
            return Ok((steps, lead));
        };
        let own: u64 = items.iter().map(|i| i.slots).fold(0, |a, b| a | b);
        if self.request.leaves.len() == 1 || own.count_ones() as usize != self.request.leaves.len() {
            return Ok((steps, lead));
        }
        let sorted: f64 = steps.iter().map(|s| s.rows).product();
        let cost = cost + sorted * SORT * (sorted + 2.0).log2();
        self.limited = true;
        if let Some((part, in_order)) = self.best_order(items, conditions, known)? {
            let found: f64 = in_order.iter().map(|s| s.rows).product();
            if part * (limit as f64 / found.max(0.001)).max(1.0) < cost {
                return Ok((in_order, None));
            }
        }
        self.limited = false;
        Ok((steps, lead))
    }

    /// The cheapest order of what stands within a test, found in few steps: its cost and the rows that it gives.
    pub fn cost_within(
        &mut self,
        items: &[Item],
        conditions: &[Expr],
        known: u64,
    ) -> SqlResult<Option<(f64, f64)>> {
        let before = (self.steps, self.steps_max, self.limited);
        (self.steps_max, self.limited) = (STEPS_WITHIN_MAX.min(before.1), false);
        let best = self.best_order(items, conditions, known);
        (self.steps, self.steps_max, self.limited) = before;
        Ok(best?.map(|(cost, steps)| (cost, steps.iter().map(|s| s.rows).product())))
    }

    /// The cheapest order found, with its cost; none where no order is allowed.
    fn best_order(
        &mut self,
        items: &[Item],
        conditions: &[Expr],
        known: u64,
    ) -> SqlResult<Option<(f64, Vec<Step>)>> {
        let mut best: Option<(f64, Vec<Step>)> = None;
        let mut path = Vec::with_capacity(items.len());
        self.steps = 0;
        self.search(items, &asked(conditions), known, known, 1.0, 0.0, &mut path, &mut best)?;
        Ok(best)
    }

    /// Whether an item may come first, where the wished order is to be kept.
    fn may_begin(&self, item: &Item) -> bool {
        let wished = self.request.order.as_ref().map(|(slot, _)| *slot);
        !self.limited || matches!(item.kind, ItemKind::Leaf(slot) if Some(slot) == wished)
    }

    #[allow(clippy::too_many_arguments)]
    fn search(
        &mut self,
        items: &[Item],
        conditions: &[Asked<'_>],
        known: u64,
        placed: u64,
        rows: f64,
        cost: f64,
        path: &mut Vec<Step>,
        best: &mut Option<(f64, Vec<Step>)>,
    ) -> SqlResult<()> {
        if path.len() == items.len() {
            if best.as_ref().is_none_or(|(c, _)| cost < *c) {
                *best = Some((cost, path.clone()));
            }
            return Ok(());
        }
        let mut candidates = Vec::new();
        let lead = items.iter().position(|item| matches!(item.kind, ItemKind::Lead(_)));
        for (index, item) in items.iter().enumerate() {
            if path.is_empty() && lead.is_some_and(|lead| lead != index) {
                continue;
            }
            let ready = placed & item.slots == 0 && item.requires & !placed == 0;
            let in_order = !self.request.straight || index == path.len();
            let begins = !path.is_empty() || placed != 0 || self.may_begin(item);
            if ready && in_order && begins {
                candidates.push(self.step(items, index, conditions, placed, known, rows)?);
            }
        }
        // Rows that a step leaves are read by the next one at least.
        let promise = |step: &Step| step.cost + step.rows * rows;
        candidates.sort_by(|a, b| promise(a).total_cmp(&promise(b)));
        let depth = self.request.session.vars.optimizer_search_depth as usize;
        let is_deep = depth != 0 && path.len() >= depth;
        for (number, step) in candidates.into_iter().enumerate() {
            let spent = self.steps > self.steps_max || is_deep && number > 0;
            if best.is_some() && spent {
                return Ok(());
            }
            self.steps += 1;
            let total = cost + step.cost;
            if best.as_ref().is_some_and(|(c, _)| total >= *c) {
                continue;
            }
            let (slots, next_rows) = (items[step.item].slots, rows * step.rows);
            path.push(step);
            self.search(items, conditions, known, placed | slots, next_rows, total, path, best)?;
            path.pop();
        }
        Ok(())
    }

    /// What it costs to add an item to rows that are there.
    fn step(
        &mut self,
        items: &[Item],
        index: usize,
        conditions: &[Asked<'_>],
        placed: u64,
        known: u64,
        rows: f64,
    ) -> SqlResult<Step> {
        let (slot, own): (u16, Vec<Expr>) = match &items[index].kind {
            ItemKind::Leaf(slot) => (*slot, Vec::new()),
            ItemKind::Lead(lead) => return self.lead_step(index, lead),
            ItemKind::Right(kind, tree, on) if kind.is_test() => {
                return self.test_step(&items[index], (index, *kind, tree, on), placed, rows);
            }
            ItemKind::Right(_, tree, on) => (items[index].slots.trailing_zeros() as u16, {
                let mut all = on.clone();
                inner_conditions(tree, &mut all);
                all
            }),
        };
        let outer = matches!(items[index].kind, ItemKind::Right(..));
        let own = asked(&own);
        let pool = if outer { &own[..] } else { conditions };
        let with = self.choice(slot, pool, placed, placed == known && !outer)?;
        // What reads rows of other tables is read again for each of them.
        let slots = items[index].slots;
        let alone = self.read_by_functions(slots) & !slots == 0;
        let keyed = |c: &Asked<'_>| c.is_about(slot, placed) && hash_key(c.expr, bit(slot), placed).is_some();
        let joins = alone && pool.iter().any(keyed);
        let residual: f64 = pool
            .iter()
            .filter(|c| c.is_about(slot, placed))
            .enumerate()
            .filter(|(number, _)| !with.exact.contains(number))
            .map(|(_, c)| selectivity(c.expr))
            .product();
        let mut found = (with.rows * residual).max(0.001);
        if self.limited && placed == 0 {
            if !with.ordered {
                return Ok(Step { item: index, cost: f64::INFINITY, rows: found, hash: false });
            }
            found = found.min(self.request.limit.unwrap_or(u64::MAX) as f64);
        }
        let found = if outer { found.max(1.0) } else { found };
        let by_loop = rows * with.cost.max(0.1);
        if placed != known && joins {
            let alone = self.choice(slot, pool, known, false)?;
            let read_back = if self.is_filed(slot, alone.rows) { rows * found * READ_BACK } else { 0.0 };
            let by_hash = alone.cost + rows * PROBE + read_back;
            if by_hash < by_loop {
                return Ok(Step { item: index, cost: by_hash + rows * found * 0.1, rows: found, hash: true });
            }
        }
        Ok(Step { item: index, cost: by_loop, rows: found, hash: false })
    }

    /// Whether so many rows of a table fill more than the memory of a hash join.
    fn is_filed(&self, slot: u16, rows: f64) -> bool {
        let kept = self.request.leaves[slot as usize].needed.iter().filter(|needed| **needed).count();
        rows * (ROW_BYTES + kept as f64 * COLUMN_BYTES) > hash::bytes_max(self.request.session) as f64
    }

    /// The way to a slot's rows when some slots are known, for comparing orders: choices made before are remembered.
    fn choice(
        &mut self,
        slot: u16,
        pool: &[Asked<'_>],
        known: u64,
        first: bool,
    ) -> SqlResult<Rc<AccessChoice>> {
        let about = pool.iter().filter(|c| c.is_about(slot, known));
        let relevant = about.fold(0, |relevant, c| relevant | c.slots & known);
        let key = (slot, relevant, first, self.limited);
        if let Some(choice) = self.choices.get(&key) {
            return Ok(choice.clone());
        }
        let choice = Rc::new(self.choose(slot, pool, known, first)?);
        self.choices.insert(key, choice.clone());
        Ok(choice)
    }

    /// The way to a slot's rows; `exact` of the result counts the conditions of the pool that can be asked.
    fn choose(&self, slot: u16, pool: &[Asked<'_>], known: u64, first: bool) -> SqlResult<AccessChoice> {
        let (table, hints) = match &self.request.leaves[slot as usize].kind {
            LeafKind::Table(table, hints) => (table, hints),
            LeafKind::Derived(..) => return Ok(gathered_choice(DERIVED_ROWS)),
            LeafKind::Function(_) => return Ok(gathered_choice(keel_exec::join::FUNCTION_ROWS)),
        };
        let usable: Vec<&Expr> = pool.iter().filter(|c| c.is_about(slot, known)).map(|c| c.expr).collect();
        let order: &[KeyOrder] = match &self.request.order {
            Some((ordered, keys)) if *ordered == slot && first => keys,
            _ => &[],
        };
        let single = self.request.leaves.len() == 1;
        choose(&AccessRequest {
            table,
            slot,
            predicates: &usable,
            known: &|s| known & bit(s) != 0,
            once: first && known == 0,
            needed: &self.request.leaves[slot as usize].needed,
            order,
            limit: if order.is_empty() || !(single || self.limited) { None } else { self.request.limit },
            locking: self.request.locking,
            hints,
            session: self.request.session,
            sample: self.request.sample,
        })
    }

    /// A leaf, with all conditions from the pool that can be asked of its rows.
    fn leaf(
        &mut self,
        slot: u16,
        pool: &mut [Option<Expr>],
        known: u64,
        first: bool,
    ) -> SqlResult<(Source, bool)> {
        let about = |c: &Expr| {
            let slots = walk::slots_read(c);
            slots & bit(slot) != 0 && slots & !(known | bit(slot)) == 0
        };
        let all: Vec<Expr> = pool.iter().flatten().cloned().collect();
        let choice = self.choose(slot, &asked(&all), known, first)?;
        let mut filter = Vec::new();
        let mut implied = Vec::new();
        let mut number = 0;
        for condition in pool.iter_mut() {
            if condition.as_ref().is_some_and(about) {
                let taken = condition.take().expect("checked");
                if choice.exact.contains(&number) {
                    implied.push(taken)
                } else {
                    filter.push(taken)
                }
                number += 1;
            }
        }
        let leaf = &self.request.leaves[slot as usize];
        let numbered =
            |table: &TableDef| table.row_number_column().is_some_and(|n| leaf.needed.get(n) == Some(&true));
        let of_entry = match &leaf.kind {
            // An entry does not tell a hidden number; rows to be changed MariaDB too looks at themselves.
            LeafKind::Table(table, _) if !self.request.changing && !numbered(table) => {
                put_of_entry_first(table, slot, &choice, &mut filter)
            }
            _ => None,
        };
        let counts = self.counts();
        let ordered = choice.ordered && first;
        Ok(match &leaf.kind {
            LeafKind::Table(table, _) => (
                Source::Table(Box::new(TableSource {
                    slot,
                    numbered: numbered(table),
                    table: table.clone(),
                    alias: leaf.alias.clone(),
                    path: Arc::new(choice.path.clone()),
                    covering: choice.covering,
                    shares: false,
                    filter,
                    of_entry,
                    implied,
                    choice,
                    counts,
                })),
                ordered,
            ),
            LeafKind::Function(table) => {
                filter.extend(implied);
                let (alias, table, needed) = (leaf.alias.clone(), table.clone(), leaf.needed.clone());
                (
                    Source::Function(Box::new(FunctionSource { slot, alias, table, needed, filter, counts })),
                    false,
                )
            }
            LeafKind::Derived(plan, layout, kept_as) => {
                filter.extend(implied);
                let (alias, plan, layout) = (leaf.alias.clone(), plan.clone(), layout.clone());
                let kept_as = *kept_as;
                (
                    Source::Derived(Box::new(DerivedSource {
                        slot,
                        alias,
                        plan,
                        layout,
                        kept_as,
                        filter,
                        counts,
                    })),
                    false,
                )
            }
        })
    }

    /// An item as the right side of a nested loop (or as the first of all).
    fn right_side(
        &mut self,
        item: Item,
        pool: &mut [Option<Expr>],
        known: u64,
        first: bool,
    ) -> SqlResult<(Source, bool, Vec<Expr>)> {
        match item.kind {
            ItemKind::Leaf(slot) => {
                let (source, ordered) = self.leaf(slot, pool, known, first)?;
                Ok((source, ordered, Vec::new()))
            }
            ItemKind::Right(_, tree, on) => {
                let group = self.group_within(*tree, on, known)?;
                Ok((group.source, false, group.rest))
            }
            ItemKind::Lead(lead) => {
                let group = self.group_within(lead.tree, lead.own, 0)?;
                let (keys, by): (Vec<Expr>, Vec<Comparison>) = lead.keys.into_iter().unzip();
                let carry = semi::carry(self.request.leaves, item.slots, &keys);
                let (source, filter) = (group.source, group.rest);
                let distinct = DistinctSource { source, filter, keys, by, carry };
                Ok((Source::Distinct(Box::new(distinct)), false, Vec::new()))
            }
        }
    }

    /// Joins an item to the rows that are there.
    fn join(
        &mut self,
        left: Source,
        item: Item,
        pool: &mut [Option<Expr>],
        placed: u64,
        by_hash: bool,
    ) -> SqlResult<Source> {
        let kind = match &item.kind {
            ItemKind::Right(kind, ..) => *kind,
            ItemKind::Leaf(_) | ItemKind::Lead(_) => Matching::Inner,
        };
        let slots = item.slots;
        let right_slots: Vec<u16> = (0..64).filter(|s| slots & bit(*s) != 0).collect();
        let (right, on, hash) = if by_hash {
            self.hashed(item, pool, placed)?
        } else {
            let (right, _, rest) = self.right_side(item, pool, placed, false)?;
            (right, rest, None)
        };
        let now = placed | slots;
        // WHERE may be asked of the joined rows now.
        let filter = take(pool, |c| walk::slots_read(c) & !now == 0);
        let counts = self.counts();
        Ok(Source::Join(Box::new(JoinSource { kind, left, right, right_slots, on, filter, hash, counts })))
    }

    /// An item read once into a hash table. Its own conditions are asked when it is read, join columns are the keys, and
    /// what else joins is asked of each match.
    fn hashed(
        &mut self,
        item: Item,
        pool: &mut [Option<Expr>],
        placed: u64,
    ) -> SqlResult<(Source, Vec<Expr>, Option<HashPlan>)> {
        let slots = item.slots;
        let slot = slots.trailing_zeros() as u16;
        let mut own_pool: Vec<Option<Expr>>;
        let mut kind = Matching::Inner;
        let (tree, joining): (Option<FromTree>, Vec<Expr>) = match item.kind {
            ItemKind::Right(how, tree, on) => {
                kind = how;
                (Some(*tree), on)
            }
            ItemKind::Leaf(_) | ItemKind::Lead(_) => (
                None,
                take(pool, |c| {
                    let read = walk::slots_read(c);
                    read & slots != 0 && read & !(slots | placed) == 0 && read & placed != 0
                }),
            ),
        };
        let given = tree.as_ref().map_or(slots, semi::given_slots);
        let sides = if kind.is_test() { slots } else { bit(slot) };
        let (mut left, mut right, mut by, mut on, mut own) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for condition in joining {
            let domain = match &condition.node {
                Node::Compare { by, .. } => Some(*by),
                _ => None,
            };
            match (hash_key(&condition, sides, placed), domain) {
                (Some((l, r)), Some(domain)) => {
                    left.push(l.clone());
                    right.push(r.clone());
                    by.push(domain);
                    // Keys are local times.
                    if l.ty.is_instant() && r.ty.is_instant() {
                        on.push(condition);
                    }
                }
                _ if walk::slots_read(&condition) & placed == 0 => own.push(condition),
                _ => on.push(condition),
            }
        }
        let source = match tree {
            None => self.leaf(slot, pool, 0, false)?.0,
            Some(FromTree::Leaf(slot)) => {
                own_pool = own.drain(..).map(Some).collect();
                let source = self.leaf(slot, &mut own_pool, 0, false)?.0;
                on.extend(own_pool.into_iter().flatten());
                source
            }
            Some(tree) => {
                let group = self.group_within(tree, std::mem::take(&mut own), 0)?;
                on.extend(group.rest);
                group.source
            }
        };
        on.extend(own);
        let once = kind.is_test() && on.is_empty();
        let carry = if kind.is_test() {
            semi::carry(self.request.leaves, slots, &on)
        } else {
            let kept = |leaf: &&Leaf| given & bit(leaf.slot) != 0;
            Carry::new(self.request.leaves.iter().filter(kept).map(Leaf::columns))
        };
        Ok((source, on, Some(HashPlan { left, right, by, carry, once })))
    }
}

/// The sides of `left = right` where one side is about known slots and the other about some others alone.
pub(crate) fn hash_key(condition: &Expr, slots: u64, known: u64) -> Option<(&Expr, &Expr)> {
    let Node::Compare { op: CompareOp::Eq, by, left, right } = &condition.node else { return None };
    if is_tolerant(*by, &left.ty, &right.ty) {
        return None;
    }
    let (l, r) = (walk::slots_read(left), walk::slots_read(right));
    let is_own = |read: u64| read != 0 && read & !slots == 0;
    let is_known = |read: u64| read != 0 && read & !known == 0;
    match () {
        () if is_own(r) && is_known(l) => Some((left, right)),
        () if is_own(l) && is_known(r) => Some((right, left)),
        () => None,
    }
}

/// The type of hidden row numbers.
static ROW_NUMBER_TYPE: LazyLock<SqlType> = LazyLock::new(row_number_type);

impl Leaf {
    /// The table whose keys conditions may use.
    fn inspected(&self) -> Option<Inspected<'_>> {
        match &self.kind {
            LeafKind::Table(table, hints) if !table.is_made_up() => {
                Some(Inspected { slot: self.slot, table, hints })
            }
            _ => None,
        }
    }

    /// Its columns, and which are needed.
    pub fn columns(&self) -> SlotColumns<'_> {
        let types = match &self.kind {
            LeafKind::Table(table, _) => {
                let number = (self.needed.len() > table.columns.len()).then_some(&*ROW_NUMBER_TYPE);
                table.columns.iter().map(|c| &c.ty).chain(number).collect()
            }
            LeafKind::Derived(plan, ..) => plan.types.iter().map(|(ty, _)| ty).collect(),
            LeafKind::Function(table) => table.columns.iter().map(|column| &column.ty).collect(),
        };
        SlotColumns { slot: self.slot, types, wanted: &self.needed }
    }

    /// Slots whose rows must be there before its own can be read.
    pub fn requires(&self) -> u64 {
        match &self.kind {
            LeafKind::Function(table) => walk::slots_read(&table.document),
            LeafKind::Table(..) | LeafKind::Derived(..) => 0,
        }
    }
}

/// Puts the conditions that an entry of the chosen index answers before the others; how many there are. None where rows
/// are read without looking at an entry before.
fn put_of_entry_first(
    table: &TableDef,
    slot: u16,
    choice: &AccessChoice,
    filter: &mut Vec<Expr>,
) -> Option<usize> {
    let (AccessPath::Ranges { index, .. } | AccessPath::Point { index, .. }) = &choice.path else {
        return None;
    };
    // MariaDB too looks at the row itself where it is known beforehand to be one at most.
    if choice.covering || choice.kind == AccessKind::Const || table.clustered == Some(*index) {
        return None;
    }
    let entry = &table.indexes[*index].entry;
    let is_answered = |condition: &Expr| {
        let facts = walk::facts(condition);
        let mut holds = !(facts.volatile || facts.subquery || facts.assigns || facts.sequences);
        walk::for_each_column(condition, &mut |of, column| {
            holds &= of != slot || entry.holds(column as usize);
        });
        holds
    };
    let (mut first, others): (Vec<Expr>, Vec<Expr>) =
        std::mem::take(filter).into_iter().partition(is_answered);
    let count = first.len();
    first.extend(others);
    *filter = first;
    Some(count)
}

/// Takes conditions out of a pool.
fn take(pool: &mut [Option<Expr>], wanted: impl Fn(&Expr) -> bool) -> Vec<Expr> {
    pool.iter_mut().filter(|c| c.as_ref().is_some_and(&wanted)).filter_map(Option::take).collect()
}

fn gathered_choice(rows: f64) -> AccessChoice {
    AccessChoice {
        path: AccessPath::Empty,
        covering: false,
        rows,
        cost: rows,
        exact: Vec::new(),
        ordered: false,
        kind: AccessKind::All,
        possible_keys: Vec::new(),
        key_parts: 0,
        key_len: 0,
    }
}

/// The conditions of inner joins within a tree.
fn inner_conditions(tree: &FromTree, out: &mut Vec<Expr>) {
    if let FromTree::Join { kind: Matching::Inner, left, right, on, .. } = tree {
        out.extend(on.iter().cloned());
        inner_conditions(left, out);
        inner_conditions(right, out);
    }
}

/// Inner joins to a list of items; their ON joins the other conditions.
pub(super) fn flatten(tree: FromTree, items: &mut Vec<Item>, conditions: &mut Vec<Expr>) {
    match tree {
        FromTree::Leaf(slot) => {
            let kind = ItemKind::Leaf(slot);
            items.push(Item { slots: bit(slot), requires: 0, reads: 0, closed: true, kind })
        }
        FromTree::Join { kind: Matching::Inner, straight, left, right, on } => {
            let left_slots = slots_of(&left);
            flatten(*left, items, conditions);
            let from = items.len();
            flatten(*right, items, conditions);
            if straight {
                items[from..].iter_mut().for_each(|i| i.requires |= left_slots);
            }
            conditions.extend(on);
        }
        FromTree::Join { kind, left, mut right, mut on, .. } => {
            let left_slots = slots_of(&left);
            let slots = slots_of(&right);
            flatten(*left, items, conditions);
            if kind.is_test() {
                semi::lift(&mut right, slots, &mut on);
            }
            let within = semi::slots_within(&right);
            let reads = on.iter().map(walk::slots_read).fold(within, |a, b| a | b);
            let named = reads & left_slots;
            let requires = if named == 0 { left_slots } else { named };
            let (closed, kind) = (within & !slots == 0, ItemKind::Right(kind, right, on));
            items.push(Item { slots, requires, reads, closed, kind });
        }
    }
}
