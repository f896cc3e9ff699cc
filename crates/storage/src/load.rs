//! Loading: a new tree that nobody else reads yet is filled with entries in order.
//!
//! Nothing is undone entry by entry: the entries are settled from the start ([`crate::row`]), and whoever gives up drops the
//! tree, as a restart does with a tree that no committed row of the registry names. So they cost no undo, and no marker.

use crate::alloc::Need;
use crate::engine::{Engine, TreeHandle};
use crate::error::{Error, Result};
use crate::row::SETTLED_HEAD;
use crate::tree::Tree;

/// Bytes of entries that are written in one mini-transaction.
const BATCH_BYTES: usize = 16 << 10;

/// Fills one tree.
pub struct Loader<'e> {
    engine: &'e Engine,
    tree: &'e TreeHandle,
    /// Keys and values, with their heads, that are not written yet.
    bytes: Vec<u8>,
    /// Where each of them ends.
    ends: Vec<(usize, usize)>,
}

impl Engine {
    /// A loader for a tree that was made for it, and that is dropped if loading fails.
    pub fn loader<'e>(&'e self, tree: &'e TreeHandle) -> Loader<'e> {
        Loader { engine: self, tree, bytes: Vec::new(), ends: Vec::new() }
    }
}

impl Loader<'_> {
    /// Adds an entry, whose key is greater than all before. Waits.
    pub fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if key.len() > Tree::KEY_MAX || SETTLED_HEAD.len() + value.len() > Tree::VALUE_MAX {
            return Err(Error::TooLarge);
        }
        self.bytes.extend_from_slice(key);
        let key_end = self.bytes.len();
        self.bytes.extend_from_slice(&SETTLED_HEAD);
        self.bytes.extend_from_slice(value);
        self.ends.push((key_end, self.bytes.len()));
        if self.bytes.len() < BATCH_BYTES {
            return Ok(());
        }
        self.write()
    }

    /// Writes what is left. Waits.
    pub fn finish(mut self) -> Result<()> {
        self.write()
    }

    fn write(&mut self) -> Result<()> {
        let (mut next, mut start) = (0, 0);
        while next < self.ends.len() {
            let (key_end, _) = self.ends[next];
            let first = &self.bytes[start..key_end];
            let mtr = self.engine.store.begin()?;
            let mut leaf = self.tree.tree().leaf_for_write(&mtr, first)?;
            let mut full = None;
            while let Some((key_end, end)) = self.ends.get(next).copied() {
                let (key, value) = (&self.bytes[start..key_end], &self.bytes[key_end..end]);
                // Keys ascend and nobody else writes: all belong behind what is there, in the last leaf.
                let slot = leaf.len();
                if leaf.insert(slot, key, value).is_err() {
                    full = Some((key, value.len()));
                    break;
                }
                (next, start) = (next + 1, end);
            }
            mtr.commit();
            if let Some((key, value_len)) = full {
                self.tree.tree().split_for(key, key.len() + value_len, Need::New)?;
            }
        }
        self.bytes.clear();
        self.ends.clear();
        Ok(())
    }
}
