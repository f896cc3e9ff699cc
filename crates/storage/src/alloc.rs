//! Finding free pages. A page is found and reserved with no latch held, in memory only; the mini-transaction that takes it
//! sets its bit on the map page ([`Mtr::allocate`]). So an allocation inside a mini-transaction never waits and never
//! fails, and a crash loses no page.
//!
//! On a full disk what has begun must still end. So the last pages of a file that has grown are kept: [`Need::New`] makes
//! the file longer than it needs, or meets the full disk; [`Need::Release`] may take some of what is kept,
//! [`Need::Finish`] all of it.
//!
//! [`Mtr::allocate`]: crate::mtr::Mtr::allocate

use std::sync::Arc;
use std::sync::atomic::Ordering::*;

use crate::buffer::Pin;
use crate::core::Core;
use crate::fault::StoreResult;
use crate::layout::*;
use crate::space::{Space, first_free, map_bit};

/// What a page is wanted for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Need {
    /// Something new.
    New,
    /// Giving back what takes much more: dropping trees.
    Release,
    /// Rolling back, ending a transaction, completing a split: work that has begun.
    Finish,
}

/// A reserved page with its frame, and its map page; given back on drop.
pub struct Spare {
    space: Arc<Space>,
    core_pool: Arc<crate::buffer::Pool>,
    /// The page's number.
    pub page: u32,
    /// Keeps the map page resident.
    pub map: Pin,
    /// Keeps the page's frame.
    pub pin: Pin,
}

impl Spare {
    /// One more pin on the page.
    pub fn pin_again(&self) -> Pin {
        self.pin.latch_shared().pin(&self.core_pool)
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        self.space.unreserve(self.page);
    }
}

impl Core {
    /// Finds a free page; waits. Grows the file, so a full disk is met here.
    pub fn reserve(&self, space: &Arc<Space>, need: Need) -> StoreResult<Spare> {
        loop {
            let hint = space.free_hint.load(Acquire);
            let group = hint - hint % GROUP_PAGES;
            self.provide_group(space, group)?;
            let map = self.pool.pin(space, group)?;
            let mut least_reserved = 0;
            let found = {
                let latch = map.latch_shared();
                let mut reserved = space.reserved.lock();
                let found = first_free(latch.page().bytes(), group, hint, &reserved);
                let found =
                    found.map(|page| if page < space.ceiling.load(SeqCst) { Ok(page) } else { Err(page) });
                if let Some(Ok(page)) = found {
                    reserved.push(page);
                    // Now, since who gives one back later lowers the hint by itself.
                    least_reserved = reserved.iter().copied().min().unwrap_or(page);
                    space.taken_end.fetch_max(page + 1, SeqCst);
                }
                found
            };
            let Some(page) = found else {
                // Fails if a page was freed meanwhile; then the scan starts there.
                let _ = space.free_hint.compare_exchange(hint, group + GROUP_PAGES, AcqRel, Acquire);
                continue;
            };
            let Ok(page) = page else {
                // The file is being cut; look again when that is over.
                drop(space.lock_growth());
                continue;
            };
            let _ = space.free_hint.compare_exchange(hint, least_reserved.max(hint), AcqRel, Acquire);
            return self.equip(space, page, map, need).inspect_err(|_| space.unreserve(page));
        }
    }

    fn equip(&self, space: &Arc<Space>, page: u32, map: Pin, need: Need) -> StoreResult<Spare> {
        match need {
            Need::New => space.grow_ahead_of(page)?,
            Need::Release => space.grow_for(page.saturating_add(space.kept() / 2))?,
            Need::Finish => space.grow_for(page)?,
        }
        let pin = self.pool.pin_fresh(space, page)?;
        Ok(Spare { space: space.clone(), core_pool: self.pool.clone(), page, map, pin })
    }

    /// Pins the map page of `page`.
    pub fn pin_map(&self, space: &Space, page: u32) -> StoreResult<Pin> {
        self.pool.pin(space, map_bit(page).0)
    }

    /// Makes the map page that begins at `group`, if it is not there; waits.
    fn provide_group(&self, space: &Arc<Space>, group: u32) -> StoreResult<()> {
        if group == 0 {
            return Ok(());
        }
        let header = self.pool.pin(space, 0)?;
        if groups(header.latch_shared().page().bytes()) > group / GROUP_PAGES {
            return Ok(());
        }
        space.grow_for(group)?;
        // One makes it: to others it may be there by now, and on the device alone.
        let _one = space.lock_growth();
        if groups(header.latch_shared().page().bytes()) > group / GROUP_PAGES {
            return Ok(());
        }
        let fresh = self.pool.pin_fresh(space, group)?;
        let mtr = self.begin()?;
        let mut first = mtr.latch_pin(&header);
        first.write(AT_GROUPS, &(group / GROUP_PAGES + 1).to_le_bytes());
        let mut map = mtr.latch_pin(&fresh);
        map.format(KIND_MAP);
        map.write(MAP_AT, &[1]);
        mtr.commit();
        Ok(())
    }
}

impl Core {
    /// Map pages that the file has.
    pub fn group_count(&self, space: &Space) -> StoreResult<u32> {
        Ok(groups(self.pool.latch_shared(space, 0)?.page().bytes()))
    }
}

fn groups(header: &[u8]) -> u32 {
    u32::from_le_bytes(header[AT_GROUPS..AT_GROUPS + 4].try_into().expect("four bytes"))
}
