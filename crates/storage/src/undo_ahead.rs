//! Reading undo pages before the start or purge comes to them: a long history would cost a wait for each of its pages.
//!
//! Only a page itself names the next of its segment. But pages are given out in the order of the file, and the start takes
//! the segments' pages in that order too, as purge does nearly; so those that stand behind a page are wanted soon. As long as that
//! proves right, more are read at once each time, up to a part of the pool.

use std::sync::Arc;

use crate::buffer::translation::Entry;
use crate::core::Core;
use crate::fault::StoreResult;
use crate::layout::GROUP_PAGES;
use crate::space::{Space, map_bit};

/// Pages read at once, at first and at most.
const COUNT_MIN: usize = 8;
const COUNT_MAX: usize = 256;
/// The part of the pool that they may take, at the start and where sessions need it too.
const POOL_SHARE: usize = 8;
const POOL_SHARE_OF_PURGE: usize = 64;
/// Pages in no use are passed over; so many times the wanted number is looked at.
const LOOK_TIMES: u32 = 4;

/// What the next read takes.
pub(crate) struct UndoAhead {
    core: Arc<Core>,
    space: Arc<Space>,
    /// The part of the pool that they may take.
    share: usize,
    count: usize,
    /// The page behind the last that was read.
    end: u32,
}

impl UndoAhead {
    /// For the start.
    pub(crate) fn new(core: &Arc<Core>, space: Arc<Space>) -> UndoAhead {
        UndoAhead { core: core.clone(), space, share: POOL_SHARE, count: COUNT_MIN, end: 0 }
    }

    /// For purge.
    pub(crate) fn for_purge(self) -> UndoAhead {
        UndoAhead { share: POOL_SHARE_OF_PURGE, ..self }
    }

    /// Reads those of a segment's pages that are not in memory; as many as it may at once. Waits.
    pub(crate) fn read(&self, pages: &[u32]) -> StoreResult<()> {
        let wanted: Vec<_> = pages.iter().take(self.max()).map(|page| (self.space.clone(), *page)).collect();
        self.core.pool.read_together(wanted.iter())
    }

    /// Pages that it reads at once at most.
    pub(crate) fn max(&self) -> usize {
        (self.core.pool.len() / self.share).clamp(1, COUNT_MAX)
    }

    /// Somebody is at `page`: if it is not in memory, it is read with those that will follow. What cannot be read is left
    /// out; who needs it meets the error. Waits.
    pub(crate) fn come_to(&mut self, page: u32) -> StoreResult<()> {
        if self.space.map.get(page) != Entry::Absent {
            return Ok(());
        }
        let goes_on = page >= self.end && page - self.end < LOOK_TIMES * self.count as u32;
        self.count = if goes_on { self.count * 2 } else { self.count / 2 };
        let max = self.max();
        self.count = self.count.clamp(COUNT_MIN.min(max), max);
        let pool = &self.core.pool;
        let (group, ..) = map_bit(page);
        let behind = (page + LOOK_TIMES * self.count as u32).min(group + GROUP_PAGES).min(self.space.pages());
        let wanted: Vec<(Arc<Space>, u32)> = {
            let Ok(map) = pool.latch_shared(&self.space, group) else { return Ok(()) };
            let is_used = |page: &u32| {
                let (_, offset, bit) = map_bit(*page);
                map.page().bytes()[offset] & bit != 0
            };
            (page..behind).filter(is_used).take(self.count).map(|page| (self.space.clone(), page)).collect()
        };
        self.end = wanted.last().map_or(page, |(_, last)| *last) + 1;
        pool.read_together(wanted.iter())
    }
}
