//! Settling: entries of an index that everybody sees lose the marker that says who wrote them.
//!
//! A marker is most of a small entry. Once all that read now or later see its writer, nothing asks for it again: purge
//! looks for markers of deletes alone, and those stay. So a leaf that is full is settled before it is split, where that makes room
//! worth the while.

use keel_base::TrxId;

use crate::engine::{Engine, TreeHandle};
use crate::error::Result;
use crate::layout::ROOM;
use crate::row::{FRESH, HEADER_BYTES, Header, SETTLED_HEAD, is_settled};
use crate::tree::LeafWrite;

/// Less room than this is not worth it: the next entries would ask again.
const ROOM_MIN: usize = ROOM / 16;
/// What an entry becomes shorter by.
const GAIN: usize = HEADER_BYTES - SETTLED_HEAD.len();

impl Engine {
    /// Settles the entries of the leaf of `key` if that makes room for `need` bytes, and more; whether it did. No latch
    /// held; waits.
    pub(crate) fn settle_leaf(&self, tree: &TreeHandle, key: &[u8], need: usize) -> Result<bool> {
        let mtr = self.store.begin()?;
        let mut leaf = tree.tree().leaf_for_write(&mtr, key)?;
        let oldest = self.snapshots.take_oldest(&self.table, || self.store.durable_lsn().0);
        let (slots, count) = settled_by(&leaf, |trx| self.snapshots.sees(&oldest, &self.table, trx));
        self.snapshots.release(oldest);
        if count * GAIN < need.max(ROOM_MIN) {
            return Ok(false);
        }
        leaf.shorten(&slots, HEADER_BYTES, &SETTLED_HEAD);
        mtr.commit();
        Ok(true)
    }
}

/// The slots, as bits, and the number of the entries that can be settled; `all_see` says whose.
fn settled_by(leaf: &LeafWrite<'_>, all_see: impl Fn(TrxId) -> bool) -> (Vec<u8>, usize) {
    let mut slots = vec![0; leaf.len().div_ceil(8)];
    let mut count = 0;
    let mut last = None;
    for slot in 0..leaf.len() {
        let value = leaf.value(slot);
        let (header, _) = Header::split(value);
        if is_settled(value) || header.flags & !FRESH != 0 {
            continue;
        }
        // Neighbours often have one writer.
        let seen = match last {
            Some((trx, seen)) if trx == header.trx => seen,
            _ => all_see(header.trx),
        };
        last = Some((header.trx, seen));
        if seen {
            slots[slot / 8] |= 1 << (slot % 8);
            count += 1;
        }
    }
    (slots, count)
}
