//! Giving the free end of a file back to the file system.
//!
//! The undo file grows while a reader holds an old snapshot, and most of it is free soon after that reader ends. Pages are
//! taken from the front, so the end stays free. It may not be cut off at once: a crash would repeat the log on pages that
//! are not there. So there are two looks. The first notes where the used part ends and the log's end; the second, once the
//! checkpoint has passed that, cuts if no page behind was taken meanwhile. Then no redo names them that recovery reads, and
//! no frame holds them newer than the file.
//!
//! A crash leaves the file long or short; both are right.

use std::sync::Arc;
use std::sync::atomic::Ordering::*;

use crate::core::Core;
use crate::fault::StoreResult;
use crate::layout::*;
use crate::space::{Space, last_used};

/// Pages that a file keeps.
const KEPT_MIN: u32 = 512;

/// What the first look found.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// The first page to go.
    page: u32,
    /// End of the log when all behind was free.
    lsn: u64,
}

impl Cut {
    /// Where the checkpoint must be.
    pub fn lsn(&self) -> u64 {
        self.lsn
    }
}

/// What became of a cut.
#[derive(Debug, PartialEq, Eq)]
pub enum CutDone {
    /// The checkpoint is not there yet.
    Wait,
    /// Done, or not possible any more.
    Over,
}

impl Core {
    /// Where the file could be cut, if that is worth while: a quarter more than what is used is kept. Waits.
    pub fn plan_cut(&self, space: &Arc<Space>) -> StoreResult<Option<Cut>> {
        if space.pages() <= 2 * KEPT_MIN {
            return Ok(None);
        }
        space.taken_end.store(0, SeqCst);
        let end = self.used_end(space)?;
        let page = end.saturating_add(end / 4).max(KEPT_MIN);
        let worth = page < space.pages() / 2;
        Ok(worth.then(|| Cut { page, lsn: self.log.appended() }))
    }

    /// The page behind the last that is used or about to be. Waits.
    fn used_end(&self, space: &Arc<Space>) -> StoreResult<u32> {
        let reserved = space.reserved.lock().iter().max().map_or(0, |page| page + 1);
        let mut group = (self.group_count(space)? - 1) * GROUP_PAGES;
        loop {
            let map = self.pool.latch_shared(space, group)?;
            match last_used(map.page().bytes()) {
                // The map page itself.
                0 if group > 0 => group -= GROUP_PAGES,
                last => return Ok(reserved.max(group + last + 1)),
            }
        }
    }

    /// Cuts the file as planned, or says why not. Waits.
    pub fn cut(&self, space: &Arc<Space>, cut: Cut) -> StoreResult<CutDone> {
        if self.log.checkpoint() < cut.lsn {
            return Ok(CutDone::Wait);
        }
        let _no_growth = space.lock_growth();
        // From here on nobody takes a page behind the cut; whoever did before is seen.
        space.ceiling.store(cut.page, SeqCst);
        let done = self.cut_below_ceiling(space, cut.page);
        space.ceiling.store(u32::MAX, SeqCst);
        done.map(|()| CutDone::Over)
    }

    fn cut_below_ceiling(&self, space: &Arc<Space>, page: u32) -> StoreResult<()> {
        let free = {
            let _reserved = space.reserved.lock();
            space.taken_end.load(SeqCst) <= page
        };
        if !free || !self.pool.discard_from(space, page) {
            return Ok(());
        }
        let groups = page.div_ceil(GROUP_PAGES);
        if groups < self.group_count(space)? {
            // The map pages go too, and must not be looked for.
            let header = self.pool.pin(space, 0)?;
            let mtr = self.begin()?;
            mtr.latch_pin(&header).write(AT_GROUPS, &groups.to_le_bytes());
            let end = mtr.commit();
            self.log.wait_durable(end.0)?;
        }
        space.cut_to(page)
    }
}
