//! Reading leaves before somebody comes to them: a page above the leaves names those that follow, and who has the keys of many
//! rows knows where he will look.

use std::ops::Bound;

use keel_base::PageNo;

use super::{Step, Target, Tree};
use crate::buffer::read_ahead::Purpose;
use crate::buffer::translation::Entry;
use crate::fault::StoreResult;
use crate::layout::ROOT;
use crate::page::PageRef;

/// An end of a range of keys.
pub(crate) type KeyBound<'k> = Bound<&'k [u8]>;

/// A range of so many leaves or fewer is read whole at its beginning: one time of the device, where one leaf after the other takes as
/// many. Who ends early has read a few pages too many.
const WHOLE_MAX: usize = 4;

impl Tree {
    /// The number of the leaf where a search for `key` ends, for [`Tree::leaf_by_page`]: a leaf that splits meanwhile is not
    /// that any more. Waits for pages above it.
    pub(crate) fn leaf_page(&self, key: &[u8]) -> StoreResult<PageNo> {
        self.page_of(Target::At(key))
    }

    /// The same of the leaf of what is just below `key`, for [`Tree::leaf_below`].
    pub(crate) fn leaf_page_before(&self, key: &[u8]) -> StoreResult<PageNo> {
        self.page_of(Target::Before(key))
    }

    fn page_of(&self, target: Target<'_>) -> StoreResult<PageNo> {
        let page = self.locate(target, 0)?;
        page.map(PageNo).ok_or_else(|| self.space.corrupt(ROOT, "no leaf level"))
    }

    /// Whether reading the page would wait for the device.
    pub(crate) fn is_absent(&self, page: PageNo) -> bool {
        self.space.map.get(page.0) == Entry::Absent
    }

    /// Leaves that are read ahead at once, at most.
    pub(crate) fn read_ahead_max(&self) -> usize {
        self.core.pool.read_ahead_max()
    }

    /// Reads the leaf of `key` and those behind it, up to that of `upper` and `max` of them, all at once, for a scan of many
    /// leaves; fewer where the page above them names no more. Waits.
    pub(crate) fn read_ahead(&self, key: &[u8], upper: KeyBound<'_>, max: usize) -> StoreResult<()> {
        let leaves = self.leaves(key, upper, max)?;
        self.core.pool.read_ahead(&self.space, &leaves, Purpose::Scan);
        Ok(())
    }

    /// The same downwards, from the leaf of what is just below `key` to that of `lower`.
    pub(crate) fn read_ahead_down(&self, key: &[u8], lower: KeyBound<'_>, max: usize) -> StoreResult<()> {
        let mut leaves = self.leaves_before(key, lower, max)?;
        leaves.reverse();
        self.core.pool.read_ahead(&self.space, &leaves, Purpose::Scan);
        Ok(())
    }

    /// Finds the leaf where a range begins; if it is not in memory and the range is short, reads all leaves of the range at once.
    /// Waits.
    pub(crate) fn enter_range(&self, lower: &[u8], upper: KeyBound<'_>) -> StoreResult<PageNo> {
        let first = self.leaf_page(lower)?;
        if upper != Bound::Unbounded && self.is_absent(first) {
            self.read_range(lower, upper)?;
        }
        Ok(first)
    }

    /// The same for a range that is gone through downwards, from what is just below `upper`.
    pub(crate) fn enter_range_above(&self, lower: KeyBound<'_>, upper: &[u8]) -> StoreResult<PageNo> {
        let first = self.leaf_page_before(upper)?;
        if let Bound::Included(lower) | Bound::Excluded(lower) = lower
            && self.is_absent(first)
        {
            self.read_range(lower, Bound::Excluded(upper))?;
        }
        Ok(first)
    }

    /// Reads the leaves of both ends of a range at once, and those between them if the range is short, unless the first is in
    /// memory. Waits.
    pub(super) fn read_ends(&self, low: &[u8], high: &[u8]) -> StoreResult<()> {
        if self.is_absent(self.leaf_page(low)?) && !self.read_range(low, Bound::Included(high))? {
            self.read_leaves([low, high]);
        }
        Ok(())
    }

    /// Reads all leaves from that of `key` to that of `upper` at once, if they are few; whether they are. Waits.
    fn read_range(&self, key: &[u8], upper: KeyBound<'_>) -> StoreResult<bool> {
        let leaves = self.leaves(key, upper, WHOLE_MAX + 1)?;
        let is_short = leaves.len() <= WHOLE_MAX;
        if is_short && leaves.len() > 1 {
            self.core.pool.read_ahead(&self.space, &leaves, Purpose::Rows);
        }
        Ok(is_short)
    }

    /// Reads the leaves of `keys` at once, as many as the pool and a device that others use allow, if that of the first key is not
    /// in memory: if it is, the others may be as well, and looking for them all would cost more than it saves. Gives for how many
    /// keys. Who comes to a page that cannot be read meets the error. Waits.
    pub(crate) fn read_leaves<'k>(&self, keys: impl IntoIterator<Item = &'k [u8]>) -> usize {
        let max = self.core.pool.rows_ahead_max();
        let mut leaves: Vec<u32> = Vec::new();
        let mut done = 0;
        for key in keys {
            if leaves.len() >= max {
                break;
            }
            let Ok(leaf) = self.leaf_page(key) else { break };
            if self.is_absent(leaf) && !leaves.contains(&leaf.0) {
                leaves.push(leaf.0);
            }
            if leaves.is_empty() {
                break;
            }
            done += 1;
        }
        if leaves.len() > 1 {
            // Neighbours in the file are one request.
            leaves.sort_unstable();
            self.core.pool.read_ahead(&self.space, &leaves, Purpose::Rows);
        }
        done
    }

    /// Numbers of up to `max` leaves from that of `key` to that of `upper`, as far as the page above the first names them. Waits.
    fn leaves(&self, key: &[u8], upper: KeyBound<'_>, max: usize) -> StoreResult<Vec<u32>> {
        self.named_above(Target::At(key), |here| {
            let first = here.child_slot(key);
            let last = match upper {
                Bound::Unbounded => here.count() - 1,
                Bound::Included(upper) => here.child_slot(upper),
                Bound::Excluded(upper) => here.child_slot_before(upper),
            };
            (first..=last).take(max).map(|slot| here.child(slot)).collect()
        })
    }

    /// Numbers of up to `max` leaves from that of what is just below `key` down to that of `lower`, as far as the page above the
    /// first names them. Waits.
    fn leaves_before(&self, key: &[u8], lower: KeyBound<'_>, max: usize) -> StoreResult<Vec<u32>> {
        self.named_above(Target::Before(key), |here| {
            let first = match lower {
                Bound::Unbounded => 0,
                Bound::Included(lower) | Bound::Excluded(lower) => here.child_slot(lower),
            };
            (first..=here.child_slot_before(key)).rev().take(max).map(|slot| here.child(slot)).collect()
        })
    }

    /// What `list` finds in the page above the leaf of `target`; nothing where the tree is a leaf, or changes: who wants the
    /// leaves finds his way without. Waits.
    fn named_above(
        &self,
        target: Target<'_>,
        list: impl FnOnce(PageRef<'_>) -> Vec<u32>,
    ) -> StoreResult<Vec<u32>> {
        let Some(parent) = self.locate(target, 1)? else { return Ok(Vec::new()) };
        let latch = self.core.pool.latch_shared(&self.space, parent)?;
        let here = latch.page();
        if !here.is_node() || here.level() != 1 || !matches!(target.step(here), Step::Here) {
            return Ok(Vec::new());
        }
        Ok(list(here))
    }
}
