//! What lies in the buffer pool, frame by frame, for reports.

use std::sync::atomic::Ordering;

use keel_base::TreeId;

use crate::buffer::UNLOGGED;
use crate::engine::Engine;
use crate::layout::*;
use crate::store::Store;

/// What a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageKind {
    /// Of the tree, and free.
    Free,
    /// A node of a tree: leaf or inner page.
    Node,
    /// A part of a row that is too long for its leaf.
    Overflow,
    /// Undo records.
    Undo,
    /// Which pages of a file are free.
    Map,
}

/// A page in the buffer pool.
#[derive(Debug, Clone)]
pub struct PoolPage {
    /// Its frame.
    pub frame: u32,
    /// Its tree.
    pub tree: TreeId,
    /// Its number there.
    pub page: u32,
    /// What it is.
    pub kind: PageKind,
    /// How often it is pinned.
    pub pins: u32,
    /// Whether the next sweep may evict it.
    pub is_old: bool,
    /// LSN of its last change.
    pub newest: u64,
    /// LSN of its first change that the file has not; 0 for none.
    pub oldest: u64,
    /// Entries of a node.
    pub records: u64,
    /// Bytes that these take.
    pub data_bytes: u64,
}

impl Engine {
    /// The pages in the buffer pool in the order of their frames, `limit` at most. Each is looked at by itself: the pool
    /// goes on meanwhile.
    pub fn pool_pages(&self, limit: usize) -> Vec<PoolPage> {
        self.store.pool_pages(limit)
    }
}

impl Store {
    fn pool_pages(&self, limit: usize) -> Vec<PoolPage> {
        let pool = self.pool();
        (0..pool.len() as u32).filter_map(|frame| self.pool_page(frame)).take(limit).collect()
    }

    fn pool_page(&self, index: u32) -> Option<PoolPage> {
        let pool = self.pool();
        let frame = pool.frame(index);
        frame.identity()?;
        let latch = pool.latch_frame(index);
        let (tree, number) = frame.identity()?;
        let page = latch.page();
        let kind = match page.kind() {
            KIND_FREE => PageKind::Free,
            KIND_OVERFLOW => PageKind::Overflow,
            KIND_UNDO => PageKind::Undo,
            KIND_MAP => PageKind::Map,
            _ => PageKind::Node,
        };
        let (records, data_bytes) =
            if page.is_node() { (page.count() as u64, page.used() as u64) } else { (0, 0) };
        Some(PoolPage {
            frame: index,
            tree: TreeId(tree),
            page: number,
            kind,
            pins: frame.pins(),
            is_old: frame.is_old(),
            newest: page.lsn(),
            oldest: Some(frame.first_redo.load(Ordering::Relaxed)).filter(|at| *at != UNLOGGED).unwrap_or(0),
            records,
            data_bytes,
        })
    }
}
