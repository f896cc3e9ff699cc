//! Whether a page is one: what readers and changes of a node take for granted, checked without taking anything for granted.
//!
//! A page with a right checksum may still be damaged: by memory that failed before it was written, or by whoever wrote the
//! checksum anew. [`PageRef::problem`] reads no byte outside of the page, whatever it holds, and where it finds nothing no
//! method of [`PageRef`] and no change of [`super::PageMut`] does either.

use std::ops::Range;

use super::*;

/// A problem in words; none lets the search go on.
type Verdict = Result<(), String>;

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(what()) }
}

impl PageRef<'_> {
    /// First violated invariant of a node page itself, in words.
    pub fn problem(self) -> Option<String> {
        self.header_holds().and_then(|()| self.fences_hold()).and_then(|()| self.entries_hold()).err()
    }

    fn header_holds(self) -> Verdict {
        let (kind, level, count) = (self.kind(), self.level(), self.count());
        ensure(self.is_node(), || format!("kind {kind} where a node was expected"))?;
        ensure((kind == KIND_LEAF) == (level == 0), || format!("level {level} on a page of kind {kind}"))?;
        let slots_end = HEADER + count * SLOT;
        let heap = self.heap();
        ensure((slots_end..=PAGE).contains(&heap), || {
            format!("{count} slots end at {slots_end}, cells begin at {heap}")
        })?;
        let last = self.insert_run().0;
        ensure(last <= count, || format!("newest entry {last} of {count}"))
    }

    /// Where a fence lies, if within the cells.
    fn fence(self, at_offset: usize, at_len: usize) -> Result<Range<usize>, String> {
        let (offset, len) = (u16_at(self.0, at_offset) as usize, u16_at(self.0, at_len) as usize);
        let holds = offset >= self.heap() && offset + len <= PAGE && len <= KEY_MAX;
        ensure(holds, || format!("a fence of {len} bytes at {offset}"))?;
        Ok(offset..offset + len)
    }

    fn fences_hold(self) -> Verdict {
        let low = &self.0[self.fence(AT_LOW_OFF, AT_LOW_LEN)?];
        let mut prefix = 0;
        let mut heads = u64_at(self.0, AT_LOW_HEAD) == key_head(low);
        if u16_at(self.0, AT_FLAGS) & FLAG_HIGH != 0 {
            let high = &self.0[self.fence(AT_HIGH_OFF, AT_HIGH_LEN)?];
            ensure(low < high, || "low fence not below the high fence".into())?;
            heads &= u64_at(self.0, AT_HIGH_HEAD) == key_head(high);
            prefix = common_prefix(low, high);
        }
        ensure(heads, || "wrong head of a fence".into())?;
        let found = self.prefix_len();
        ensure(found == prefix, || format!("prefix of {found} bytes, the fences share {prefix}"))
    }

    /// Bytes of the cell of `index`, if it lies within the cells.
    fn cell(self, index: usize) -> Result<usize, String> {
        let slot = self.slot(index);
        let at = slot.offset;
        ensure(at >= self.heap() && at + CELL_HEAD <= PAGE, || format!("cell of slot {index} at {at}"))?;
        let value_len = u16_at(self.0, at) as usize;
        let len = CELL_HEAD + slot.key_len + value_len;
        ensure(at + len <= PAGE, || format!("cell of slot {index} at {at} with {len} bytes"))?;
        let child = self.kind() == KIND_LEAF || value_len == 4;
        ensure(child, || format!("child of slot {index} in {value_len} bytes"))?;
        ensure(value_len <= VALUE_MAX && self.prefix_len() + slot.key_len <= KEY_MAX, || {
            format!("entry of slot {index} too long: {} and {value_len} bytes", slot.key_len)
        })?;
        Ok(len)
    }

    fn entries_hold(self) -> Verdict {
        let prefix = self.prefix_len();
        let (low, high) = (&self.low()[prefix..], self.high().map(|high| &high[prefix..]));
        let mut live = 0;
        let mut last: Option<&[u8]> = None;
        for index in 0..self.count() {
            live += self.cell(index)?;
            let suffix = self.suffix(index);
            ensure(self.slot(index).head == head_of(suffix), || format!("wrong head at slot {index}"))?;
            ensure(last.is_none_or(|last| last < suffix), || format!("keys not ascending at slot {index}"))?;
            // Without a high fence nothing is cut off, so that suffixes are keys.
            let inside = low <= suffix && high.is_none_or(|high| suffix < high);
            ensure(inside, || format!("key outside the fences at slot {index}"))?;
            last = Some(suffix);
        }
        let fences = self.low().len() + self.high().map_or(0, <[u8]>::len);
        let (garbage, heap) = (self.garbage(), PAGE - self.heap());
        ensure(live + fences + garbage == heap, || {
            format!("cells {live} + fences {fences} + garbage {garbage} != heap {heap}")
        })
    }
}
