//! B-link trees of byte strings.

use std::cmp::Ordering;
use std::marker::PhantomData;

use keel_base::{Lsn, PageNo, TreeId};

use crate::fault::StoreResult;
use crate::mtr::Mtr;

/// The value does not fit into the leaf as it is; split and retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoRoom;

/// Where a long value was put: first page and length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverflowRef {
    /// First page of the chain.
    pub page: PageNo,
    /// Bytes in all.
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
    /// From its stored form.
    pub fn from_bytes(b: &[u8; 12]) -> OverflowRef {
        let word = |i: usize| u32::from_le_bytes([b[i], b[i + 1], b[i + 2], b[i + 3]]);
        OverflowRef { page: PageNo(word(0)), len: word(4), crc: word(8) }
    }
}

/// A tree.
pub struct Tree {
    _private: (),
}

/// A leaf, latched shared; hold it briefly and never across a wait.
pub struct LeafRead<'t> {
    _not_send: PhantomData<&'t *const ()>,
}

/// A leaf, latched exclusively by a mini-transaction.
pub struct LeafWrite<'m> {
    _not_send: PhantomData<&'m *const ()>,
}

macro_rules! leaf_reading {
    () => {
        /// The page's number: a hint for [`Tree::leaf_by_page`].
        pub fn page_no(&self) -> PageNo {
            unimplemented!()
        }
        /// End of the last mini-transaction that changed the page.
        pub fn lsn(&self) -> Lsn {
            unimplemented!()
        }
        /// Number of entries.
        pub fn len(&self) -> usize {
            unimplemented!()
        }
        /// Whether there is no entry.
        pub fn is_empty(&self) -> bool {
            unimplemented!()
        }
        /// `Ok` with the slot of `key`, or `Err` with the slot where it would be inserted.
        pub fn search(&self, _key: &[u8]) -> Result<usize, usize> {
            unimplemented!()
        }
        /// Compares the key in `slot` with `key`.
        pub fn cmp(&self, _slot: usize, _key: &[u8]) -> Ordering {
            unimplemented!()
        }
        /// Replaces `out` by the whole key in `slot`.
        pub fn key(&self, _slot: usize, _out: &mut Vec<u8>) {
            unimplemented!()
        }
        /// What all keys of the page begin with.
        pub fn prefix(&self) -> &[u8] {
            unimplemented!()
        }
        /// The key in `slot` after the prefix.
        pub fn key_suffix(&self, _slot: usize) -> &[u8] {
            unimplemented!()
        }
        /// The value in `slot`.
        pub fn value(&self, _slot: usize) -> &[u8] {
            unimplemented!()
        }
        /// Least key the page may hold; empty on the leftmost.
        pub fn low_fence(&self) -> &[u8] {
            unimplemented!()
        }
        /// Least key beyond the page; `None` on the rightmost.
        pub fn high_fence(&self) -> Option<&[u8]> {
            unimplemented!()
        }
        /// The right neighbour.
        pub fn right(&self) -> Option<PageNo> {
            unimplemented!()
        }
        /// Bytes that inserts may still take, slots included.
        pub fn room(&self) -> usize {
            unimplemented!()
        }
    };
}

impl LeafRead<'_> {
    leaf_reading!();
}

impl LeafWrite<'_> {
    leaf_reading!();

    /// Inserts before `slot`, which [`LeafWrite::search`] gave for `key`.
    pub fn insert(&mut self, _slot: usize, _key: &[u8], _value: &[u8]) -> Result<(), NoRoom> {
        unimplemented!()
    }
    /// Replaces the value; logs only what differs.
    pub fn replace(&mut self, _slot: usize, _value: &[u8]) -> Result<(), NoRoom> {
        unimplemented!()
    }
    /// Overwrites bytes within the value.
    pub fn patch(&mut self, _slot: usize, _offset: usize, _bytes: &[u8]) {
        unimplemented!()
    }
    /// Removes the entry.
    pub fn remove(&mut self, _slot: usize) {
        unimplemented!()
    }
}

impl Tree {
    /// Longest key.
    pub const KEY_MAX: usize = 3072;
    /// Longest value kept in a leaf.
    pub const VALUE_MAX: usize = 4096;

    /// The tree's id.
    pub fn id(&self) -> TreeId {
        unimplemented!()
    }
    /// The leaf whose range holds `key`, latched shared. Waits for reads before.
    pub fn leaf_for_read(&self, _key: &[u8]) -> StoreResult<LeafRead<'_>> {
        unimplemented!()
    }
    /// The leaf whose range holds `key`, latched by `mtr`, which must hold no other latch.
    pub fn leaf_for_write<'m>(&self, _mtr: &'m Mtr<'_>, _key: &[u8]) -> StoreResult<LeafWrite<'m>> {
        unimplemented!()
    }
    /// The leftmost leaf.
    pub fn first_leaf(&self) -> StoreResult<LeafRead<'_>> {
        unimplemented!()
    }
    /// The rightmost leaf.
    pub fn last_leaf(&self) -> StoreResult<LeafRead<'_>> {
        unimplemented!()
    }
    /// The leaf that holds the greatest key below `key` (or the leftmost leaf if there is none).
    pub fn leaf_before(&self, _key: &[u8]) -> StoreResult<LeafRead<'_>> {
        unimplemented!()
    }
    /// As [`Tree::leaf_for_read`], trying page `hint` first.
    pub fn leaf_by_page(&self, _hint: PageNo, _key: &[u8]) -> StoreResult<LeafRead<'_>> {
        unimplemented!()
    }
    /// Splits so that an entry of `need_bytes` (key and value) at `key` fits. No latch held; waits.
    pub fn split_for(&self, _key: &[u8], _need_bytes: usize) -> StoreResult<()> {
        unimplemented!()
    }
    /// Merges the leaf around `key` with a neighbour if both are sparse. No latch held; waits.
    pub fn after_remove(&self, _key: &[u8]) -> StoreResult<()> {
        unimplemented!()
    }
    /// Stores a long value in pages of its own; durable with the log. Waits.
    pub fn write_overflow(&self, _bytes: &[u8]) -> StoreResult<OverflowRef> {
        unimplemented!()
    }
    /// Appends a long value to `out`. Waits.
    pub fn read_overflow(&self, _at: OverflowRef, _out: &mut Vec<u8>) -> StoreResult<()> {
        unimplemented!()
    }
    /// Frees a long value's pages. Waits.
    pub fn free_overflow(&self, _at: OverflowRef) -> StoreResult<()> {
        unimplemented!()
    }
    /// Pages of the file in use or free.
    pub fn page_count(&self) -> u64 {
        unimplemented!()
    }
    /// Estimated number of entries in `[low, high)`; `None` is unbounded. Waits.
    pub fn estimate_range(&self, _low: Option<&[u8]>, _high: Option<&[u8]>) -> StoreResult<u64> {
        unimplemented!()
    }
    /// The tree's persistent counter (AUTO_INCREMENT).
    pub fn counter(&self) -> StoreResult<u64> {
        unimplemented!()
    }
    /// Raises the counter to at least `to`; after a crash it may be a little higher.
    pub fn raise_counter(&self, _to: u64) -> StoreResult<()> {
        unimplemented!()
    }
    /// Structural problems, in words. Waits; meant for quiet trees.
    pub fn verify(&self) -> StoreResult<Vec<String>> {
        unimplemented!()
    }
}
