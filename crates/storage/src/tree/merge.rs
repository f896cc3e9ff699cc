//! Merges: a sparse page and a neighbour under the same parent become one, in one mini-transaction over parent, both
//! pages and the map page. The left one takes all; the right one is freed. So a queue table, which grows at one end and
//! shrinks at the other, keeps its size.

use std::sync::atomic::Ordering::*;

use crate::fault::StoreResult;
use crate::layout::*;
use crate::mtr::{Mtr, PageWrite};
use crate::page::{NodeMeta, PageBuilder, PageRef, common_prefix};

use super::{Target, Tree};

/// A page is sparse below this many bytes.
const SPARSE: usize = ROOM / 4;
/// Two pages are merged if together they fill no more than this, so that the next insert does not split them again.
const MERGED_MAX: usize = ROOM * 3 / 4;

/// Two neighbours under one parent.
struct Pair {
    parent: u32,
    left: u32,
    right: u32,
    separator: Vec<u8>,
}

/// The pair around the child that covers `key`.
fn pair_in(parent: PageRef<'_>, key: &[u8]) -> Option<Pair> {
    let slot = parent.child_slot(key);
    let right_slot = if slot + 1 < parent.count() { slot + 1 } else { slot };
    if right_slot == 0 {
        return None;
    }
    let mut separator = Vec::new();
    parent.key(right_slot, &mut separator);
    let (left, right) = (parent.child(right_slot - 1), parent.child(right_slot));
    Some(Pair { parent: parent.page_no(), left, right, separator })
}

/// Bytes that both pages' entries take on one page with both outer fences.
fn merged_bytes(left: PageRef<'_>, right: PageRef<'_>) -> usize {
    let high = right.high();
    let prefix = high.map_or(0, |h| common_prefix(left.low(), h));
    let entries = |page: PageRef<'_>| -> usize {
        let wider = page.prefix_len() - prefix;
        (0..page.count()).map(|slot| page.entry_bytes(slot) + wider).sum()
    };
    entries(left) + entries(right) + left.low().len() + high.map_or(0, <[u8]>::len)
}

fn mergeable(left: PageRef<'_>, right: PageRef<'_>) -> bool {
    let limit = if left.count() == 0 || right.count() == 0 { ROOM } else { MERGED_MAX };
    merged_bytes(left, right) <= limit
}

/// Does the parent still say what it said?
fn still_parent(parent: PageRef<'_>, level: u8, pair: &Pair) -> Option<usize> {
    if !parent.is_node() || parent.level() != level {
        return None;
    }
    let slot = parent.search(&pair.separator).ok().filter(|&slot| slot > 0)?;
    (parent.child(slot) == pair.right && parent.child(slot - 1) == pair.left).then_some(slot)
}

/// Are they neighbours, without a third between that the parent does not know yet?
fn still_neighbours(left: PageRef<'_>, right: PageRef<'_>, level: u8, pair: &Pair) -> bool {
    left.is_node()
        && right.is_node()
        && left.level() == level
        && right.level() == level
        && left.right() == pair.right
        && left.high() == Some(&pair.separator)
        && right.low() == pair.separator
}

impl Tree {
    /// Merges the leaf around `key` with a neighbour if it is sparse. No latch held; waits.
    pub fn after_remove(&self, key: &[u8]) -> StoreResult<()> {
        let mut level = 0;
        while self.merge_at(level, key)? {
            level += 1;
        }
        if level > 0 {
            while self.lower_root()? {}
        }
        Ok(())
    }

    fn is_sparse(&self, level: u8, key: &[u8]) -> StoreResult<bool> {
        let latch = self.find(Target::At(key), level)?;
        Ok(latch.is_some_and(|l| l.page().used() < SPARSE && l.page().page_no() != ROOT))
    }

    /// Merges on one level; whether it did.
    fn merge_at(&self, level: u8, key: &[u8]) -> StoreResult<bool> {
        if !self.is_sparse(level, key)? {
            return Ok(false);
        }
        let pair = match self.find(Target::At(key), level + 1)? {
            Some(latch) => pair_in(latch.page(), key),
            None => None,
        };
        let Some(pair) = pair else { return Ok(false) };
        let pool = &self.core.pool;
        let parent = pool.pin(&self.space, pair.parent)?;
        let left = pool.pin(&self.space, pair.left)?;
        let right = pool.pin(&self.space, pair.right)?;
        let map = self.core.pin_map(&self.space, pair.right)?;
        let mtr = self.core.begin()?;
        let mut parent = mtr.latch_pin(&parent);
        let Some(slot) = still_parent(parent.page(), level + 1, &pair) else { return Ok(false) };
        let mut left = mtr.latch_pin(&left);
        let right = mtr.latch_pin(&right);
        if !still_neighbours(left.page(), right.page(), level, &pair) || !mergeable(left.page(), right.page())
        {
            return Ok(false);
        }
        absorb(&mut left, &right);
        mtr.free(right, &map);
        parent.remove(slot);
        mtr.commit();
        self.space.free_hint.fetch_min(pair.right, AcqRel);
        Ok(true)
    }

    /// Pulls the root's only child up; whether it did.
    fn lower_root(&self) -> StoreResult<bool> {
        let child = match self.core.pool.latch_shared(&self.space, ROOT)?.page() {
            root if root.level() > 0 && root.count() == 1 => root.child(0),
            _ => return Ok(false),
        };
        let pool = &self.core.pool;
        let (root, below) = (pool.pin(&self.space, ROOT)?, pool.pin(&self.space, child)?);
        let map = self.core.pin_map(&self.space, child)?;
        let mtr = self.core.begin()?;
        let mut root = mtr.latch_pin(&root);
        let page = root.page();
        if page.level() == 0 || page.count() != 1 || page.child(0) != child {
            return Ok(false);
        }
        let below = mtr.latch_pin(&below);
        // A child with a right neighbour was split, and the separator is on its way.
        if below.page().high().is_some() {
            return Ok(false);
        }
        pull_up(&mtr, &mut root, below, &map);
        mtr.commit();
        self.space.free_hint.fetch_min(child, AcqRel);
        Ok(true)
    }
}

/// Rebuilds `left` with the entries of both.
fn absorb(left: &mut PageWrite<'_>, right: &PageWrite<'_>) {
    let mut copy = [0; PAGE];
    copy.copy_from_slice(left.page().bytes());
    let (old, right) = (PageRef::new(&copy), right.page());
    let meta = NodeMeta {
        tree: old.tree(),
        page: old.page_no(),
        level: old.level(),
        right: right.right(),
        low: old.low(),
        high: right.high(),
    };
    left.rebuild(|bytes| {
        let mut builder = PageBuilder::new(bytes, meta);
        builder.push_all(old, 0..old.count());
        builder.push_all(right, 0..right.count());
    });
}

fn pull_up(mtr: &Mtr<'_>, root: &mut PageWrite<'_>, below: PageWrite<'_>, map: &crate::buffer::Pin) {
    let (tree, child) = (root.page().tree(), below.page());
    let meta = NodeMeta { tree, page: ROOT, level: child.level(), right: 0, low: &[], high: None };
    root.rebuild(|bytes| PageBuilder::new(bytes, meta).push_all(child, 0..child.count()));
    mtr.free(below, map);
}
