//! Mini-transactions: the only way to change a page. A mini-transaction owns the exclusive latches and the redo of what
//! happened under them.
//!
//! Invariants:
//! 1. Every change goes through a [`PageWrite`] (or a guard built on it), which does it to the page and adds its redo in
//!    one step; so an unlogged change does not compile outside this module.
//! 2. [`Mtr::commit`] appends the redo as one group, stamps the pages with the group's end and only then releases the
//!    latches. Guards borrow the mini-transaction, so none outlives it.
//! 3. Between the first latch and commit nothing waits: pages that may be absent are pinned before. A mini-transaction
//!    that holds a latch and would need a read panics (the pool asserts it).
//! 4. Changes of pages of temporary trees are not logged: such a page becomes dirty without a place in the dirty queue.
//!
//! Dropping without changes releases the latches. Dropping with changes (a panic unwinds) leaves pages that no redo
//! describes: the log is declared dead and the server stops.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

use keel_base::{Lsn, PageNo, TreeId};

use crate::alloc::Spare;
use crate::buffer::Pin;
use crate::core::Core;
use crate::fault::StoreResult;
use crate::layout::*;
use crate::log::record::Group;
use crate::page::{NoRoom, PageMut, PageRef};
use crate::space::{Space, map_bit};
use crate::store::{PinnedPage, UndoSpare};

#[derive(Clone, Copy)]
struct Latched {
    frame: u32,
    /// Tree and page.
    at: (u32, u32),
    changed: bool,
}

impl Latched {
    fn is_unlogged(&self) -> bool {
        TreeId(self.at.0).is_temporary()
    }
}

#[derive(Default)]
struct Inner {
    group: Group,
    /// Pages of temporary trees were changed.
    unlogged: bool,
    latched: Vec<Latched>,
}

thread_local! {
    /// The buffers of the last finished mini-transaction on this thread.
    static SPARE: Cell<Option<Box<Inner>>> = const { Cell::new(None) };
}

/// A mini-transaction. Its pages are latched until [`Mtr::commit`].
pub struct Mtr<'s> {
    core: &'s Core,
    /// `None` only while committing or dropping.
    inner: RefCell<Option<Box<Inner>>>,
    /// A page is being changed.
    changing: Cell<bool>,
    _not_send: PhantomData<*const ()>,
}

/// A page latched exclusively by a mini-transaction.
pub struct PageWrite<'m> {
    mtr: &'m Mtr<'m>,
    frame: u32,
    at: (u32, u32),
    base: *mut u8,
}

/// An undo page latched exclusively by a mini-transaction.
pub struct UndoWrite<'m>(PageWrite<'m>);

impl<'s> Mtr<'s> {
    /// Starts one; room in the log was waited for.
    pub(crate) fn new(core: &'s Core) -> Mtr<'s> {
        let mut inner = SPARE.take().unwrap_or_default();
        inner.group.reset();
        inner.unlogged = false;
        Mtr { core, inner: RefCell::new(Some(inner)), changing: Cell::new(false), _not_send: PhantomData }
    }

    fn with<R>(&self, f: impl FnOnce(&mut Inner) -> R) -> R {
        f(self.inner.borrow_mut().as_mut().expect("a live mini-transaction"))
    }

    fn log(&self, frame: u32, at: (u32, u32), f: impl FnOnce(&mut Group)) {
        self.with(|inner| {
            match TreeId(at.0).is_temporary() {
                true => inner.unlogged = true,
                false => f(&mut inner.group),
            }
            if let Some(l) = inner.latched.iter_mut().find(|l| l.frame == frame) {
                l.changed = true;
            }
        });
    }

    /// Latches a page exclusively; waits for its read, so no other latch may be held unless it is resident.
    pub(crate) fn latch(&self, space: &Space, page: u32) -> StoreResult<PageWrite<'_>> {
        self.refuse_twice((space.id.0, page));
        let frame = self.core.pool.latch_exclusive(space, page)?;
        Ok(self.adopt(frame))
    }

    /// Latches a pinned page exclusively.
    pub(crate) fn latch_pin(&self, pin: &Pin) -> PageWrite<'_> {
        if let Some(at) = self.core.pool.frame(pin.frame()).identity() {
            self.refuse_twice(at);
        }
        self.adopt(self.core.pool.latch_pinned(pin))
    }

    /// As [`Mtr::latch_pin`], or the latch this mini-transaction already holds; for map pages, whose guards are short-lived.
    fn latch_map(&self, pin: &Pin) -> PageWrite<'_> {
        let held = self.with(|inner| inner.latched.iter().find(|l| l.frame == pin.frame()).copied());
        match held {
            Some(l) => self.guard(l),
            None => self.adopt(self.core.pool.latch_pinned(pin)),
        }
    }

    /// A second latch on a page by the same fiber would wait for itself for ever.
    fn refuse_twice(&self, at: (u32, u32)) {
        let twice = self.with(|inner| inner.latched.iter().any(|l| l.at == at));
        assert!(!twice, "page {at:?} latched twice in one mini-transaction");
    }

    fn adopt(&self, frame: u32) -> PageWrite<'_> {
        let at = self.core.pool.frame(frame).identity().expect("a latched frame holds a page");
        let latched = Latched { frame, at, changed: false };
        self.with(|inner| inner.latched.push(latched));
        self.guard(latched)
    }

    fn guard(&self, l: Latched) -> PageWrite<'_> {
        PageWrite { mtr: self, frame: l.frame, at: l.at, base: self.core.pool.bytes(l.frame) }
    }

    /// Gives up the latch of a page that was not changed.
    pub(crate) fn release(&self, page: PageWrite<'_>) {
        self.with(|inner| {
            let index = inner.latched.iter().position(|l| l.frame == page.frame).expect("a latched page");
            assert!(!inner.latched[index].changed, "a changed page stays latched until commit");
            inner.latched.swap_remove(index);
        });
        // SAFETY: the list said that this mini-transaction holds the latch, and says so no more.
        unsafe { self.core.pool.unlatch_exclusive(page.frame) };
    }

    /// Whether any page is latched.
    pub(crate) fn holds_latches(&self) -> bool {
        self.with(|inner| !inner.latched.is_empty())
    }

    /// Takes the page of `spare` into use, latched; its content is the caller's to format.
    pub(crate) fn allocate(&self, spare: Spare) -> PageWrite<'_> {
        let (_, offset, bit) = map_bit(spare.page);
        let mut map = self.latch_map(&spare.map);
        let byte = map.page().bytes()[offset];
        assert_eq!(byte & bit, 0, "page {} of tree {} given away twice", spare.page, map.at.0);
        map.write(offset, &[byte | bit]);
        self.adopt(self.core.pool.latch_pinned(&spare.pin))
    }

    /// Gives a latched page back; `map` pins its map page. Lower the space's hint after commit.
    pub(crate) fn free(&self, mut page: PageWrite<'_>, map: &Pin) {
        let (_, offset, bit) = map_bit(page.at.1);
        page.format(KIND_FREE);
        let mut map = self.latch_map(map);
        let byte = map.page().bytes()[offset];
        assert_ne!(byte & bit, 0, "page {:?} freed twice", page.at);
        map.write(offset, &[byte & !bit]);
    }

    /// Appends the redo as one atomic group, stamps the pages with its end, releases the latches. Gives the end of the
    /// group, or the end of the log if there was nothing to append.
    pub fn commit(self) -> Lsn {
        let mut inner = self.inner.borrow_mut().take().expect("a live mini-transaction");
        let pool = &self.core.pool;
        if inner.unlogged {
            inner
                .latched
                .iter()
                .filter(|l| l.changed && l.is_unlogged())
                .for_each(|l| pool.mark_unlogged(l.frame));
        }
        if inner.group.is_empty() {
            self.finish(inner);
            return Lsn(self.core.log.appended());
        }
        let Inner { group, latched, .. } = &mut *inner;
        let end = self.core.log.append(group.bytes_mut(), |start, end, dirty| {
            for l in latched.iter().filter(|l| l.changed && !l.is_unlogged()) {
                // SAFETY: the exclusive latch is ours, and guards, which borrow `self`, are gone.
                let bytes = unsafe { std::slice::from_raw_parts_mut(pool.bytes(l.frame), PAGE) };
                PageMut::new(bytes).set_lsn(end);
                pool.mark_dirty(l.frame, start, dirty);
            }
        });
        self.finish(inner);
        Lsn(end)
    }

    /// Releases the latches and keeps the buffers for the next mini-transaction.
    fn finish(&self, mut inner: Box<Inner>) {
        for l in inner.latched.drain(..) {
            // SAFETY: each entry stands for one exclusive latch of ours.
            unsafe { self.core.pool.unlatch_exclusive(l.frame) };
        }
        SPARE.set(Some(inner));
    }

    /// Whether anything was changed.
    pub fn has_changes(&self) -> bool {
        self.with(|inner| inner.unlogged || !inner.group.is_empty())
    }

    /// Adds an opaque record of the layer above, below 32 MiB.
    pub fn user_record(&self, kind: u8, payload: &[u8]) {
        self.with(|inner| inner.group.user(kind, payload));
    }

    pub(crate) fn start_record(&self, salt: u64) {
        self.with(|inner| inner.group.start(salt));
    }

    /// Latches a pinned undo page; never waits for I/O.
    pub fn undo_write<'m>(&'m self, page: &PinnedPage) -> UndoWrite<'m> {
        UndoWrite(self.latch_pin(&page.0))
    }

    /// Takes a fresh, formatted undo page out of `spare`, latched, with a pin that keeps it resident.
    pub fn undo_alloc<'m>(&'m self, spare: UndoSpare) -> StoreResult<(UndoWrite<'m>, PinnedPage)> {
        let pin = spare.0.pin_again();
        let mut page = self.allocate(spare.0);
        page.format(KIND_UNDO);
        Ok((UndoWrite(page), PinnedPage(pin)))
    }
}

impl Drop for Mtr<'_> {
    fn drop(&mut self) {
        let Some(inner) = self.inner.borrow_mut().take() else { return };
        if inner.unlogged || !inner.group.is_empty() || self.changing.get() {
            self.core.log.fail("a mini-transaction was abandoned after changing pages".into());
        }
        self.finish(inner);
    }
}

impl PageWrite<'_> {
    /// The page.
    #[inline]
    pub(crate) fn page(&self) -> PageRef<'_> {
        // SAFETY: the exclusive latch is held until commit, which this borrow precedes; changes take `&mut self`, and a
        // page has one guard at a time (see `refuse_twice`).
        PageRef::new(unsafe { std::slice::from_raw_parts(self.base, PAGE) })
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `page`, and `&mut self` excludes readers through this guard.
        unsafe { std::slice::from_raw_parts_mut(self.base, PAGE) }
    }

    /// Changes the page, and notes where, for the write in place.
    #[inline]
    fn change<R>(&mut self, f: impl FnOnce(&mut PageMut<'_>) -> R) -> R {
        self.mtr.changing.set(true);
        let mut page = PageMut::new(self.bytes_mut());
        let result = f(&mut page);
        let touched = page.touched();
        self.mtr.core.pool.frame(self.frame).touch_bytes(touched);
        self.mtr.changing.set(false);
        result
    }

    /// The page's number.
    pub(crate) fn page_no(&self) -> u32 {
        self.at.1
    }

    /// Inserts an entry whose key after the page's prefix is `suffix`.
    pub(crate) fn insert(&mut self, slot: usize, suffix: &[u8], value: &[u8]) -> Result<(), NoRoom> {
        self.change(|page| page.insert(slot, suffix, value))?;
        self.mtr.log(self.frame, self.at, |g| g.insert(self.at, slot, suffix, value));
        Ok(())
    }

    /// Removes an entry.
    pub(crate) fn remove(&mut self, slot: usize) {
        self.change(|page| page.remove(slot));
        self.mtr.log(self.frame, self.at, |g| g.remove(self.at, slot));
    }

    /// Replaces a value, logging only what differs.
    pub(crate) fn replace(&mut self, slot: usize, value: &[u8]) -> Result<(), NoRoom> {
        let old = self.page().value(slot);
        let start = crate::page::common_prefix(old, value);
        let end = crate::page::common_suffix(&old[start..], &value[start..]);
        let old_len = old.len() - start - end;
        let middle = &value[start..value.len() - end];
        if old_len == middle.len() {
            if old_len > 0 {
                self.patch(slot, start, middle);
            }
            return Ok(());
        }
        self.change(|page| page.splice(slot, start, old_len, middle))?;
        self.mtr.log(self.frame, self.at, |g| g.splice(self.at, slot, start, old_len, middle));
        Ok(())
    }

    /// Replaces the first `old_len` bytes of each value whose bit is set in `slots` by `head`, which is no longer.
    pub(crate) fn shorten(&mut self, slots: &[u8], old_len: usize, head: &[u8]) {
        self.change(|page| page.shorten(slots, old_len, head)).expect("shorter values have room");
        self.mtr.log(self.frame, self.at, |g| g.shorten(self.at, slots, old_len, head));
    }

    /// Overwrites bytes within a value.
    pub(crate) fn patch(&mut self, slot: usize, offset: usize, bytes: &[u8]) {
        self.change(|page| page.patch(slot, offset, bytes));
        self.mtr.log(self.frame, self.at, |g| g.patch(self.at, slot, offset, bytes));
    }

    /// Keeps the first `keep` entries; the right half of a split.
    pub(crate) fn truncate(&mut self, keep: usize, high: &[u8], right: u32) {
        self.change(|page| page.truncate(keep, high, right));
        self.mtr.log(self.frame, self.at, |g| g.truncate(self.at, keep, high, right));
    }

    /// Lets `f` build the page anew and logs the result as a whole.
    pub(crate) fn rebuild(&mut self, f: impl FnOnce(&mut [u8])) {
        self.change(|page| page.rebuild(f));
        self.mtr.log(self.frame, self.at, |g| g.image(self.at, self.page()));
    }

    /// Makes it an empty page of that kind.
    pub(crate) fn format(&mut self, kind: u8) {
        let at = self.at;
        self.change(|page| page.format(at.0, at.1, kind));
        self.mtr.log(self.frame, self.at, |g| g.format(at, kind));
    }

    /// Overwrites bytes at a fixed place.
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.change(|page| page.write(offset, bytes));
        self.mtr.log(self.frame, self.at, |g| g.write(self.at, offset, bytes));
    }
}

impl UndoWrite<'_> {
    /// The page's number.
    pub fn page_no(&self) -> PageNo {
        PageNo(self.0.page_no())
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.0.page().heap()
    }

    /// Bytes in use, as they are now.
    pub fn bytes(&self) -> &[u8] {
        &self.0.page().bytes()[HEADER..HEADER + self.used()]
    }

    /// Bytes that still fit.
    pub fn room(&self) -> usize {
        CHAIN_ROOM - self.used()
    }

    /// Appends; gives the offset within the data area. Panics without room.
    pub fn append(&mut self, bytes: &[u8]) -> usize {
        let used = self.used();
        assert!(bytes.len() <= CHAIN_ROOM - used, "undo page overrun: {used} + {}", bytes.len());
        self.0.write(HEADER + used, bytes);
        self.0.write(AT_HEAP, &((used + bytes.len()) as u16).to_le_bytes());
        used
    }

    /// Overwrites bytes within the used area (segment directory, commit marks).
    pub fn write(&mut self, offset: usize, bytes: &[u8]) {
        assert!(offset + bytes.len() <= self.used(), "write beyond the used bytes of an undo page");
        self.0.write(HEADER + offset, bytes);
    }

    /// The next page of the chain.
    pub fn next(&self) -> Option<PageNo> {
        Some(self.0.page().right()).filter(|&p| p != 0).map(PageNo)
    }

    /// Sets the next page of the chain.
    pub fn set_next(&mut self, next: Option<PageNo>) {
        self.0.write(AT_RIGHT, &next.map_or(0, |p| p.0).to_le_bytes());
    }
}
