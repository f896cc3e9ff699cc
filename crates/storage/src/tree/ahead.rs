//! Reading leaves before a scan comes to them: a page above the leaves names those that follow.

use keel_base::PageNo;

use super::{Step, Target, Tree};
use crate::buffer::translation::Entry;
use crate::fault::StoreResult;

impl Tree {
    /// Whether reading the page would wait for the device.
    pub(crate) fn is_absent(&self, page: PageNo) -> bool {
        self.space.map.get(page.0) == Entry::Absent
    }

    /// Leaves that [`Tree::read_ahead`] reads at most.
    pub(crate) fn read_ahead_max(&self) -> usize {
        self.core.pool.read_ahead_max()
    }

    /// Reads the leaf of `key` and those behind it, up to that of `upper` and `max` of them, all at once; fewer where the
    /// page above them names no more. Waits.
    pub(crate) fn read_ahead(&self, key: &[u8], upper: Option<&[u8]>, max: usize) -> StoreResult<()> {
        let target = Target::At(key);
        let Some(parent) = self.locate(target, 1)? else { return Ok(()) };
        let mut leaves: Vec<u32> = Vec::with_capacity(max);
        {
            let latch = self.core.pool.latch_shared(&self.space, parent)?;
            let here = latch.page();
            if !here.is_node() || here.level() != 1 || !matches!(target.step(here), Step::Here) {
                // The tree changes; the scan finds its way without.
                return Ok(());
            }
            let last = upper.map_or(here.count() - 1, |upper| here.child_slot(upper));
            leaves.extend((here.child_slot(key)..=last).take(max).map(|slot| here.child(slot)));
        }
        self.core.pool.read_ahead(&self.space, &leaves);
        Ok(())
    }
}
