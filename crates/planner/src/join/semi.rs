//! Semi-joins and anti-joins in the order of joins: what IN, EXISTS and NOT EXISTS of WHERE became.
//!
//! Such a test is an item that may come once all is there that it names. It is asked of each row that is there, its right
//! side read up to the first match: through an index, or in a hash table by its keys. A semi-join that is tied to its
//! surroundings by equalities alone may also lead: its right side comes first of all, each key once, and the
//! equalities are conditions of inner joins.

use keel_base::SqlResult;
use keel_exec::join::Matching;
use keel_exec::select::{Carry, SlotColumns};
use keel_expr::{CompareOp, Comparison, Expr, Node, walk};

use crate::join::order::{
    FromTree, Item, ItemKind, Leaf, PROBE, Planner, Step, bit, flatten, hash_key, slots_of,
};

/// Semi-joins of a group that are tried as its first.
const LEADS_MAX: usize = 4;
/// The share of rows that a test leaves at most, and an anti-join at least, whatever it is expected to find.
const SHARE_MAX: f64 = 0.9;

/// The right side of a semi-join that comes first.
#[derive(Clone)]
pub(super) struct Lead {
    pub tree: FromTree,
    /// Conditions about it alone.
    pub own: Vec<Expr>,
    /// Its sides of the equalities, and how they compare.
    pub keys: Vec<(Expr, Comparison)>,
}

/// Slots whose rows come out of a tree: not those of tests within it.
pub(super) fn given_slots(tree: &FromTree) -> u64 {
    match tree {
        FromTree::Leaf(slot) => bit(*slot),
        FromTree::Join { kind, left, .. } if kind.is_test() => given_slots(left),
        FromTree::Join { left, right, .. } => given_slots(left) | given_slots(right),
    }
}

/// Slots that the conditions within a tree read.
pub(super) fn slots_within(tree: &FromTree) -> u64 {
    match tree {
        FromTree::Leaf(_) => 0,
        FromTree::Join { left, right, on, .. } => {
            on.iter().map(walk::slots_read).fold(slots_within(left) | slots_within(right), |a, b| a | b)
        }
    }
}

/// Takes conditions out of a tree's inner joins that name slots outside of it: they belong to the join with the tree.
pub(super) fn lift(tree: &mut FromTree, slots: u64, out: &mut Vec<Expr>) {
    if let FromTree::Join { kind: Matching::Inner, left, right, on, .. } = tree {
        let (outside, own) = on.drain(..).partition(|c| walk::slots_read(c) & !slots != 0);
        *on = own;
        out.extend::<Vec<Expr>>(outside);
        lift(left, slots, out);
        lift(right, slots, out);
    }
}

/// The items and conditions for each semi-join that may lead.
pub(super) fn leads(items: &[Item], conditions: &[Expr]) -> Vec<(Vec<Item>, Vec<Expr>)> {
    let turned = (0..items.len()).filter_map(|index| turned(items, conditions, index));
    turned.take(LEADS_MAX).collect()
}

fn turned(items: &[Item], conditions: &[Expr], index: usize) -> Option<(Vec<Item>, Vec<Expr>)> {
    let ItemKind::Right(Matching::Semi, tree, on) = &items[index].kind else { return None };
    let (slots, closed) = (items[index].slots, items[index].closed);
    let (own, ties): (Vec<Expr>, Vec<Expr>) =
        on.iter().cloned().partition(|c| walk::slots_read(c) & !slots == 0);
    let keys: Option<Vec<(Expr, Comparison)>> = ties.iter().map(|c| key(c, slots)).collect();
    let keys = keys.filter(|keys| !keys.is_empty() && closed)?;
    let mut items = items.to_vec();
    let lead = Lead { tree: (**tree).clone(), own, keys };
    items[index] = Item { slots, requires: 0, reads: slots, closed, kind: ItemKind::Lead(Box::new(lead)) };
    let conditions = conditions.iter().cloned().chain(ties).collect();
    Some((items, conditions))
}

/// The inner side of an equality with what stands outside.
fn key(condition: &Expr, slots: u64) -> Option<(Expr, Comparison)> {
    let Node::Compare { op: CompareOp::Eq, by, .. } = &condition.node else { return None };
    let (_, inner) = hash_key(condition, slots, !slots)?;
    Some((inner.clone(), *by))
}

/// What is kept of slots for some expressions.
pub(super) fn carry(leaves: &[Leaf], slots: u64, exprs: &[Expr]) -> Carry {
    let read = exprs.iter().map(walk::slots_read).fold(0, |a, b| a | b) & slots;
    let leaves: Vec<&Leaf> = leaves.iter().filter(|leaf| read & bit(leaf.slot) != 0).collect();
    let mut wanted: Vec<Vec<bool>> = leaves.iter().map(|leaf| vec![false; leaf.needed.len()]).collect();
    for expr in exprs {
        walk::for_each_column(expr, &mut |slot, column| {
            if let Some(place) = leaves.iter().position(|leaf| leaf.slot == slot) {
                wanted[place][column as usize] = true;
            }
        });
    }
    let columns = |(leaf, wanted)| SlotColumns { wanted, ..Leaf::columns(leaf) };
    Carry::new(leaves.iter().copied().zip(wanted.iter().map(Vec::as_slice)).map(columns))
}

impl Planner<'_> {
    /// What it costs to read the right side of a semi-join first.
    pub fn lead_step(&mut self, index: usize, lead: &Lead) -> SqlResult<Step> {
        let (cost, rows) = self.one_run(&lead.tree, || lead.own.clone(), 0, 0)?;
        Ok(Step { item: index, cost: cost + rows * PROBE, rows: rows.max(0.001), hash: false })
    }

    /// What it costs to ask a test of rows that are there, and the share of them that it leaves.
    pub fn test_step(
        &mut self,
        item: &Item,
        (index, kind, tree, on): (usize, Matching, &FromTree, &[Expr]),
        placed: u64,
        rows: f64,
    ) -> SqlResult<Step> {
        let slots = item.slots;
        let (cost, found) = self.one_run(tree, || on.to_vec(), placed, item.reads & placed)?;
        let share = found.min(SHARE_MAX);
        let share = if kind == Matching::Anti { 1.0 - share } else { share.max(0.001) };
        let by_loop = rows * cost.max(0.1);
        if item.closed && on.iter().any(|c| hash_key(c, slots, placed).is_some()) {
            let own = || on.iter().filter(|c| walk::slots_read(c) & !slots == 0).cloned().collect();
            let (alone, _) = self.one_run(tree, own, 0, 0)?;
            let by_hash = alone + rows * PROBE;
            // A limit may need more rows than are guessed: no second look at a whole table for it.
            let looks = if self.limited { rows.max(2.0) } else { rows };
            if alone + looks * PROBE < looks * cost.max(0.1) {
                return Ok(Step { item: index, cost: by_hash, rows: share, hash: true });
            }
        }
        Ok(Step { item: index, cost: by_loop, rows: share, hash: false })
    }

    /// What one run of a tree costs where some slots are known, of which `relevant` are read, and the rows that it gives.
    fn one_run(
        &mut self,
        tree: &FromTree,
        conditions: impl FnOnce() -> Vec<Expr>,
        known: u64,
        relevant: u64,
    ) -> SqlResult<(f64, f64)> {
        let slots = slots_of(tree);
        let key = (slots.trailing_zeros(), relevant);
        if let Some(run) = self.tests.get(&key) {
            return Ok(*run);
        }
        let (mut items, mut all) = (Vec::new(), conditions());
        flatten(tree.clone(), &mut items, &mut all);
        all.retain(|c| walk::slots_read(c) & slots != 0);
        let run = self.cost_within(&items, &all, known)?.unwrap_or((f64::MAX, 1.0));
        self.tests.insert(key, run);
        Ok(run)
    }
}
