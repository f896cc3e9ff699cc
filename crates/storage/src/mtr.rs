//! Mini-transactions: the only way to change a page. Owns exclusive latches and the redo of what happened under them.

use std::cell::RefCell;
use std::marker::PhantomData;

use keel_base::{Lsn, PageNo};

use crate::fault::StoreResult;
use crate::store::{PinnedPage, Store, UndoSpare};

/// A mini-transaction. Its pages are latched until [`Mtr::commit`]; guards borrow it, so none outlives it.
pub struct Mtr<'s> {
    _store: &'s Store,
    _log: RefCell<Vec<u8>>,
    _not_send: PhantomData<*const ()>,
}

/// An undo page latched exclusively by a mini-transaction.
pub struct UndoWrite<'m> {
    _not_send: PhantomData<&'m *const ()>,
}

impl<'s> Mtr<'s> {
    /// Appends the redo as one atomic group, stamps the pages with its end, releases the latches.
    pub fn commit(self) -> Lsn {
        unimplemented!()
    }
    /// Whether anything was changed.
    pub fn has_changes(&self) -> bool {
        unimplemented!()
    }
    /// Adds an opaque record of the layer above.
    pub fn user_record(&self, _kind: u8, _payload: &[u8]) {
        unimplemented!()
    }
    /// Latches a pinned undo page; never waits for I/O.
    pub fn undo_write<'m>(&'m self, _page: &PinnedPage) -> UndoWrite<'m> {
        unimplemented!()
    }
    /// Takes a fresh, formatted undo page out of `spare`, latched, with a pin that keeps it resident.
    pub fn undo_alloc<'m>(&'m self, _spare: UndoSpare) -> StoreResult<(UndoWrite<'m>, PinnedPage)> {
        unimplemented!()
    }
}

impl UndoWrite<'_> {
    /// The page's number.
    pub fn page_no(&self) -> PageNo {
        unimplemented!()
    }
    /// Bytes in use.
    pub fn used(&self) -> usize {
        unimplemented!()
    }
    /// Bytes in use, as they are now.
    pub fn bytes(&self) -> &[u8] {
        unimplemented!()
    }
    /// Bytes that still fit.
    pub fn room(&self) -> usize {
        unimplemented!()
    }
    /// Appends; gives the offset within the data area. Panics without room.
    pub fn append(&mut self, _bytes: &[u8]) -> usize {
        unimplemented!()
    }
    /// Overwrites bytes within the used area (segment directory, commit marks).
    pub fn write(&mut self, _offset: usize, _bytes: &[u8]) {
        unimplemented!()
    }
    /// The next page of the chain.
    pub fn next(&self) -> Option<PageNo> {
        unimplemented!()
    }
    /// Sets the next page of the chain.
    pub fn set_next(&mut self, _next: Option<PageNo>) {
        unimplemented!()
    }
}
