//! Long values: chains of pages of the tree's own file, written before the row that refers to them. Rollback frees them after
//! the row, purge before it.
//! Each page is a mini-transaction of its own. Purge frees a value page by page, and each time what refers to the value
//! comes to name the rest of it, so a crash in between loses nothing ([`Tree::free_value_page`]). A crash before a row refers to
//! a new value, or while a rollback frees one, leaves pages that nobody refers to.

use std::sync::atomic::Ordering::*;

use keel_base::PageNo;
use keel_base::checksum::{crc32c, crc32c_append};

use crate::alloc::Need;
use crate::buffer::Pin;
use crate::fault::StoreResult;
use crate::layout::*;
use crate::mtr::Mtr;

use super::Tree;

/// Where a long value was put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverflowRef {
    /// First page of the chain.
    pub page: PageNo,
    /// Bytes in all; 0 where it is being freed and only the pages from the first on are left.
    pub len: u32,
    /// CRC32C of the bytes.
    pub crc: u32,
}

impl OverflowRef {
    /// Its stored form.
    pub fn to_bytes(self) -> [u8; 12] {
        let mut out = [0; 12];
        out[..4].copy_from_slice(&self.page.0.to_le_bytes());
        out[4..8].copy_from_slice(&self.len.to_le_bytes());
        out[8..].copy_from_slice(&self.crc.to_le_bytes());
        out
    }

    /// The first bytes of the stored form, in place of what they were: the value is being freed, and these are the rest.
    pub(crate) fn rest_bytes(rest: PageNo) -> [u8; 8] {
        let mut out = [0; 8];
        out[..4].copy_from_slice(&rest.0.to_le_bytes());
        out
    }

    /// Whether it is being freed.
    pub(crate) fn is_rest(self) -> bool {
        self.len == 0
    }

    /// From its stored form.
    pub fn from_bytes(b: &[u8; 12]) -> OverflowRef {
        let word = |i: usize| u32::from_le_bytes([b[i], b[i + 1], b[i + 2], b[i + 3]]);
        OverflowRef { page: PageNo(word(0)), len: word(4), crc: word(8) }
    }
}

/// A page of a long value and its map page, at hand to be freed.
pub(crate) struct ValuePage {
    number: u32,
    pin: Pin,
    map: Pin,
}

impl ValuePage {
    /// Its number.
    pub(crate) fn number(&self) -> PageNo {
        PageNo(self.number)
    }
}

impl Tree {
    /// Stores a long value in pages of its own; as durable as the log behind it. No latch held; waits.
    pub fn write_overflow(&self, bytes: &[u8]) -> StoreResult<OverflowRef> {
        let mut next = 0u32;
        for chunk in bytes.rchunks(CHAIN_ROOM) {
            match self.write_chunk(chunk, next) {
                Ok(page) => next = page,
                Err(e) => {
                    self.free_overflow_from(&mut PageNo(next))?;
                    return Err(e);
                }
            }
        }
        Ok(OverflowRef { page: PageNo(next), len: bytes.len() as u32, crc: crc32c(bytes) })
    }

    fn write_chunk(&self, chunk: &[u8], next: u32) -> StoreResult<u32> {
        let spare = self.core.reserve(&self.space, Need::New)?;
        let mtr = self.core.begin()?;
        let mut page = mtr.allocate(spare);
        page.format(KIND_OVERFLOW);
        page.write(AT_RIGHT, &next.to_le_bytes());
        page.write(AT_HEAP, &(chunk.len() as u16).to_le_bytes());
        page.write(HEADER, chunk);
        let number = page.page_no();
        mtr.commit();
        Ok(number)
    }

    /// Appends a long value to `out`. No latch held; waits.
    pub fn read_overflow(&self, at: OverflowRef, out: &mut Vec<u8>) -> StoreResult<()> {
        let start = out.len();
        let mut next = at.page.0;
        while next != 0 {
            let latch = self.core.pool.latch_shared(&self.space, next)?;
            let page = latch.page();
            if page.kind() != KIND_OVERFLOW || page.heap() == 0 || out.len() - start > at.len as usize {
                return Err(self.space.corrupt(next, "not part of the long value"));
            }
            out.extend_from_slice(&page.bytes()[HEADER..HEADER + page.heap()]);
            next = page.right();
        }
        if out.len() - start != at.len as usize || crc32c_append(0, &out[start..]) != at.crc {
            return Err(self.space.corrupt(at.page.0, "long value does not fit its checksum"));
        }
        Ok(())
    }

    /// Gets a page of a long value to be freed. No latch held; waits.
    pub(crate) fn value_page(&self, page: PageNo) -> StoreResult<ValuePage> {
        let pin = self.core.pool.pin(&self.space, page.0)?;
        // A damaged reference may name any page, such as the one that will be latched beside this.
        if pin.latch_shared().page().kind() != KIND_OVERFLOW {
            return Err(self.space.corrupt(page.0, "not part of a long value"));
        }
        Ok(ValuePage { number: page.0, pin, map: self.core.pin_map(&self.space, page.0)? })
    }

    /// Frees the first page of what is left of a long value in a mini-transaction in which `note` makes whatever refers to
    /// the value name the rest, which is given back. Call [`Tree::value_page_freed`] after the commit.
    pub(crate) fn free_value_page(
        &self,
        mtr: &Mtr<'_>,
        page: &ValuePage,
        note: impl FnOnce(PageNo),
    ) -> StoreResult<PageNo> {
        let latched = mtr.latch_pin(&page.pin);
        if latched.page().kind() != KIND_OVERFLOW {
            return Err(self.space.corrupt(page.number, "not part of a long value any more"));
        }
        let rest = PageNo(latched.page().right());
        note(rest);
        mtr.free(latched, &page.map);
        Ok(rest)
    }

    /// The page may be found free.
    pub(crate) fn value_page_freed(&self, page: &ValuePage) {
        self.space.free_hint.fetch_min(page.number, AcqRel);
    }

    /// Frees a long value's pages. No latch held; waits.
    pub fn free_overflow(&self, at: OverflowRef) -> StoreResult<()> {
        let mut place = at.page;
        self.free_overflow_from(&mut place)
    }

    /// Frees a long value's pages from `place` on, which moves along: after an error it says where to go on. No latch held;
    /// waits.
    pub fn free_overflow_from(&self, place: &mut PageNo) -> StoreResult<()> {
        while place.0 != 0 {
            let page = self.value_page(*place)?;
            let mtr = self.core.begin()?;
            let rest = self.free_value_page(&mtr, &page, |_| {})?;
            mtr.commit();
            *place = rest;
            self.value_page_freed(&page);
        }
        Ok(())
    }
}
