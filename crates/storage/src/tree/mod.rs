//! B-link trees of byte strings (Lehman and Yao 1981), one per file, root at page 1 for ever.
//!
//! Invariants:
//! 1. Every page carries both fences; `[low, high)` of the pages of a level, followed by right links from the leftmost,
//!    partition the key space. A page tells by itself whether a key belongs to it, lies to its right, or was never its
//!    business: so no latch is held from one page to the next, and an outdated page number costs a restart at most.
//! 2. A split is one mini-transaction over the old page and the new right one; the separator enters the parent by a second
//!    one. A writer that had to move right inserts a missing separator itself.
//! 3. A separator enters a parent only while its child exists: the child is looked at under the parent's latch, and a page
//!    leaves the tree only in a mini-transaction that holds its parent and both neighbours.
//! 4. The root never moves: it splits by pushing its content down, and shrinks by pulling its only child up.
//!
//! Latches are taken from parent to child, from left to right. All methods that take a key may wait for page reads and
//! want no latch held; the guards they give must not be held across a wait.
//!
//! A crash between the two steps of a split leaves a tree that is correct and one separator short.

mod ahead;
mod counter;
mod merge;
mod overflow;
mod split;
mod survey;

use std::cmp::Ordering;
use std::sync::Arc;

use keel_base::{Lsn, PageNo, TreeId};
use keel_runtime::fiber;

use crate::buffer::Shared;
use crate::core::Core;
use crate::fault::StoreResult;
use crate::layout::{self, ROOT};
use crate::mtr::{Mtr, PageWrite};
use crate::page::{PageRef, key_head};
use crate::space::Space;

pub use crate::page::NoRoom;
pub use counter::CountOf;
pub(crate) use counter::Counter;
pub use overflow::OverflowRef;
pub(crate) use overflow::ValuePage;

/// Restarts after which a tree is declared damaged.
const RESTARTS_MAX: usize = 10_000;

/// A tree.
pub struct Tree {
    core: Arc<Core>,
    space: Arc<Space>,
}

/// A leaf, latched shared; hold it briefly and never across a wait.
pub struct LeafRead<'t> {
    latch: Shared<'t>,
}

/// A leaf, latched exclusively by a mini-transaction.
pub struct LeafWrite<'m> {
    page: PageWrite<'m>,
}

/// What a descent looks for.
#[derive(Clone, Copy)]
enum Target<'k> {
    /// The page whose range holds the key.
    At(&'k [u8]),
    /// The page whose range holds what is just below the key.
    Before(&'k [u8]),
    /// The rightmost page.
    Last,
}

enum Step {
    Here,
    Right(u32),
    Restart,
}

impl Target<'_> {
    /// Where to go from a page of the right level.
    #[inline]
    fn step(self, page: PageRef<'_>) -> Step {
        let (too_low, too_high) = match self {
            Target::At(key) => {
                let head = key_head(key);
                (page.cmp_low(key, head).is_gt(), page.cmp_high(key, head).is_le())
            }
            Target::Before(key) => {
                let head = key_head(key);
                (page.cmp_low(key, head).is_ge() && !page.low().is_empty(), page.cmp_high(key, head).is_lt())
            }
            Target::Last => (false, page.high().is_some()),
        };
        match (too_low, too_high) {
            (true, _) => Step::Restart,
            (_, true) => Step::Right(page.right()),
            _ => Step::Here,
        }
    }

    #[inline]
    fn child(self, page: PageRef<'_>) -> u32 {
        page.child(match self {
            Target::At(key) => page.child_slot(key),
            Target::Before(key) => page.child_slot_before(key),
            Target::Last => page.count() - 1,
        })
    }
}

impl Tree {
    /// Longest key.
    pub const KEY_MAX: usize = layout::KEY_MAX;
    /// Longest value kept in a leaf.
    pub const VALUE_MAX: usize = layout::VALUE_MAX;

    pub(crate) fn new(core: Arc<Core>, space: Arc<Space>) -> Tree {
        Tree { core, space }
    }

    pub(crate) fn space(&self) -> &Arc<Space> {
        &self.space
    }

    /// The tree's id.
    pub fn id(&self) -> TreeId {
        self.space.id
    }

    /// The number of the page of `level` where the search for `target` goes on; `None` if the tree is lower than that.
    #[inline]
    fn locate(&self, target: Target<'_>, level: u8) -> StoreResult<Option<u32>> {
        'restart: for attempt in 0..RESTARTS_MAX {
            if attempt > 100 {
                fiber::yield_now();
            }
            let (mut page, mut expected) = (ROOT, None);
            loop {
                let latch = self.core.pool.latch_shared(&self.space, page)?;
                let here = latch.page();
                if !here.is_node() || expected.is_some_and(|l| l != here.level()) {
                    continue 'restart;
                }
                if here.level() <= level {
                    // Only the root is met at or below the level asked for: parents end the loop above it.
                    return Ok((here.level() == level).then_some(page));
                }
                match target.step(here) {
                    Step::Restart => continue 'restart,
                    Step::Right(right) => {
                        expected = Some(here.level());
                        page = right;
                    }
                    Step::Here => {
                        let child = target.child(here);
                        if here.level() == level + 1 {
                            return Ok(Some(child));
                        }
                        expected = Some(here.level() - 1);
                        page = child;
                    }
                }
            }
        }
        Err(self.space.corrupt(ROOT, "a search never ends"))
    }

    /// The page of `level` for `target`, latched shared.
    #[inline]
    fn find(&self, target: Target<'_>, level: u8) -> StoreResult<Option<Shared<'_>>> {
        'restart: for _ in 0..RESTARTS_MAX {
            let Some(mut page) = self.locate(target, level)? else { return Ok(None) };
            loop {
                let latch = self.core.pool.latch_shared(&self.space, page)?;
                let here = latch.page();
                if !here.is_node() || here.level() != level {
                    continue 'restart;
                }
                match target.step(here) {
                    Step::Here => return Ok(Some(latch)),
                    Step::Right(right) => page = right,
                    Step::Restart => continue 'restart,
                }
            }
        }
        Err(self.space.corrupt(ROOT, "a search never ends"))
    }

    fn find_leaf(&self, target: Target<'_>) -> StoreResult<LeafRead<'_>> {
        match self.find(target, 0)? {
            Some(latch) => Ok(LeafRead { latch }),
            None => Err(self.space.corrupt(ROOT, "no leaf level")),
        }
    }

    /// The page of `level` whose range holds `key`, latched by `mtr`, which must hold no other latch.
    fn find_exclusive<'m>(
        &self,
        mtr: &'m Mtr<'_>,
        key: &[u8],
        level: u8,
    ) -> StoreResult<Option<PageWrite<'m>>> {
        let target = Target::At(key);
        'restart: for _ in 0..RESTARTS_MAX {
            let Some(mut page) = self.locate(target, level)? else { return Ok(None) };
            let mut repaired = false;
            loop {
                let write = mtr.latch(&self.space, page)?;
                let here = write.page();
                if !here.is_node() || here.level() != level {
                    mtr.release(write);
                    continue 'restart;
                }
                match target.step(here) {
                    Step::Here => return Ok(Some(write)),
                    Step::Restart => {
                        mtr.release(write);
                        continue 'restart;
                    }
                    Step::Right(right) => {
                        let separator = here.high().unwrap_or_default().to_vec();
                        mtr.release(write);
                        if !std::mem::replace(&mut repaired, true) {
                            self.add_separator(level + 1, &separator, right)?;
                        }
                        page = right;
                    }
                }
            }
        }
        Err(self.space.corrupt(ROOT, "a search never ends"))
    }

    /// The leaf whose range holds `key`, latched shared. Waits for reads before.
    #[inline]
    pub fn leaf_for_read(&self, key: &[u8]) -> StoreResult<LeafRead<'_>> {
        self.find_leaf(Target::At(key))
    }

    /// The leaf whose range holds `key`, latched by `mtr`, which must hold no other latch.
    pub fn leaf_for_write<'m>(&self, mtr: &'m Mtr<'_>, key: &[u8]) -> StoreResult<LeafWrite<'m>> {
        assert!(!mtr.holds_latches(), "the leaf is the first latch of a mini-transaction");
        match self.find_exclusive(mtr, key, 0)? {
            Some(page) => Ok(LeafWrite { page }),
            None => Err(self.space.corrupt(ROOT, "no leaf level")),
        }
    }

    /// As [`Tree::leaf_for_write`], trying page `hint` first.
    pub fn leaf_for_write_by_page<'m>(
        &self,
        mtr: &'m Mtr<'_>,
        hint: PageNo,
        key: &[u8],
    ) -> StoreResult<LeafWrite<'m>> {
        assert!(!mtr.holds_latches(), "the leaf is the first latch of a mini-transaction");
        if hint.0 != 0 && hint.0 < self.space.pages() {
            let page = mtr.latch(&self.space, hint.0)?;
            let here = page.page();
            if here.kind() == layout::KIND_LEAF && matches!(Target::At(key).step(here), Step::Here) {
                return Ok(LeafWrite { page });
            }
            mtr.release(page);
        }
        self.leaf_for_write(mtr, key)
    }

    /// The leftmost leaf.
    pub fn first_leaf(&self) -> StoreResult<LeafRead<'_>> {
        self.find_leaf(Target::At(&[]))
    }

    /// The rightmost leaf.
    pub fn last_leaf(&self) -> StoreResult<LeafRead<'_>> {
        self.find_leaf(Target::Last)
    }

    /// The leaf that holds the greatest key below `key`, or the leftmost leaf if there is none.
    pub fn leaf_before(&self, key: &[u8]) -> StoreResult<LeafRead<'_>> {
        let mut bound = key.to_vec();
        loop {
            let leaf = self.leaf_below(None, &bound)?;
            let low = leaf.low_fence();
            let found = !leaf.is_empty() && leaf.cmp(0, key) == Ordering::Less;
            if found || low.is_empty() {
                return Ok(leaf);
            }
            let low = low.to_vec();
            drop(leaf);
            bound = low;
        }
    }

    /// The leaf whose range holds what is just below `key`, be there anything or not; page `hint` is tried first.
    pub fn leaf_below(&self, hint: Option<PageNo>, key: &[u8]) -> StoreResult<LeafRead<'_>> {
        if let Some(hint) = hint.filter(|hint| hint.0 != 0 && hint.0 < self.space.pages()) {
            let latch = self.core.pool.latch_shared(&self.space, hint.0)?;
            let here = latch.page();
            if here.kind() == layout::KIND_LEAF && matches!(Target::Before(key).step(here), Step::Here) {
                return Ok(LeafRead { latch });
            }
        }
        self.find_leaf(Target::Before(key))
    }

    /// As [`Tree::leaf_for_read`], trying page `hint` first.
    #[inline]
    pub fn leaf_by_page(&self, hint: PageNo, key: &[u8]) -> StoreResult<LeafRead<'_>> {
        if hint.0 != 0 && hint.0 < self.space.pages() {
            let latch = self.core.pool.latch_shared(&self.space, hint.0)?;
            let here = latch.page();
            if here.kind() == layout::KIND_LEAF && matches!(Target::At(key).step(here), Step::Here) {
                return Ok(LeafRead { latch });
            }
        }
        self.leaf_for_read(key)
    }
}

macro_rules! leaf_reading {
    ($self:ident => $page:expr) => {
        /// The page's number: a hint for [`Tree::leaf_by_page`].
        #[inline]
        pub fn page_no(&$self) -> PageNo {
            PageNo($page.page_no())
        }

        /// End of the last mini-transaction that changed the page.
        #[inline]
        pub fn lsn(&$self) -> Lsn {
            Lsn($page.lsn())
        }

        /// Number of entries.
        #[inline]
        pub fn len(&$self) -> usize {
            $page.count()
        }

        /// Whether there is no entry.
        pub fn is_empty(&$self) -> bool {
            $page.count() == 0
        }

        /// `Ok` with the slot of `key`, or `Err` with the slot where it would be inserted.
        #[inline]
        pub fn search(&$self, key: &[u8]) -> Result<usize, usize> {
            $page.search(key)
        }

        /// Compares the key in `slot` with `key`.
        pub fn cmp(&$self, slot: usize, key: &[u8]) -> Ordering {
            $page.cmp(slot, key)
        }

        /// Replaces `out` by the whole key in `slot`.
        pub fn key(&$self, slot: usize, out: &mut Vec<u8>) {
            $page.key(slot, out);
        }

        /// What all keys of the page begin with.
        pub fn prefix(&$self) -> &[u8] {
            $page.prefix()
        }

        /// The key in `slot` after the prefix.
        pub fn key_suffix(&$self, slot: usize) -> &[u8] {
            $page.suffix(slot)
        }

        /// The value in `slot`.
        #[inline]
        pub fn value(&$self, slot: usize) -> &[u8] {
            $page.value(slot)
        }

        /// Least key the page may hold; empty on the leftmost.
        pub fn low_fence(&$self) -> &[u8] {
            $page.low()
        }

        /// Least key beyond the page; `None` on the rightmost.
        pub fn high_fence(&$self) -> Option<&[u8]> {
            $page.high()
        }

        /// Least key above the entry below `slot`, or the low fence: where the gap below `slot` begins.
        pub fn gap_low(&$self, slot: usize) -> Vec<u8> {
            let mut low = Vec::new();
            match slot {
                0 => low.extend_from_slice($page.low()),
                _ => {
                    $page.key(slot - 1, &mut low);
                    low.push(0);
                }
            }
            low
        }

        /// The right neighbour.
        pub fn right(&$self) -> Option<PageNo> {
            Some($page.right()).filter(|&p| p != 0).map(PageNo)
        }

        /// Bytes that inserts may still take, slots included.
        pub fn room(&$self) -> usize {
            $page.room()
        }
    };
}

impl LeafRead<'_> {
    leaf_reading!(self => self.latch.page());
}

impl LeafWrite<'_> {
    leaf_reading!(self => self.page.page());

    /// Inserts before `slot`, which [`LeafWrite::search`] gave for `key`.
    pub fn insert(&mut self, slot: usize, key: &[u8], value: &[u8]) -> Result<(), NoRoom> {
        debug_assert!(
            matches!(Target::At(key).step(self.page.page()), Step::Here),
            "key outside the leaf's fences"
        );
        let prefix_len = self.page.page().prefix_len();
        self.page.insert(slot, &key[prefix_len..], value)
    }

    /// Replaces the value; logs only what differs.
    pub fn replace(&mut self, slot: usize, value: &[u8]) -> Result<(), NoRoom> {
        self.page.replace(slot, value)
    }

    /// Overwrites bytes within the value.
    pub fn patch(&mut self, slot: usize, offset: usize, bytes: &[u8]) {
        self.page.patch(slot, offset, bytes);
    }

    /// Replaces the first `old_len` bytes of each value whose bit is set in `slots` by `head`, which is no longer.
    pub fn shorten(&mut self, slots: &[u8], old_len: usize, head: &[u8]) {
        self.page.shorten(slots, old_len, head);
    }

    /// Removes the entry.
    pub fn remove(&mut self, slot: usize) {
        self.page.remove(slot);
    }
}
