//! A transaction as its owner sees it.

use keel_base::{Lsn, TrxId};

use crate::engine::TreeHandle;
use crate::error::Result;
use crate::options::{Change, Changed, Insert, Interrupt, Isolation, OnDuplicate, Read, ScanRange};
use crate::scan::Scan;

/// A transaction. Owned by one session; dropping it rolls it back.
pub struct Txn {
    _private: (),
}

/// A point to which a transaction can be rolled back; locks stay.
#[derive(Debug, Clone, Copy)]
pub struct Savepoint {
    _private: (),
}

impl Txn {
    /// Marks the start of a statement: READ COMMITTED forgets its snapshot, [`Txn::rollback_statement`] returns here.
    pub fn start_statement(&mut self) {
        unimplemented!()
    }
    /// Takes the snapshot now (START TRANSACTION WITH CONSISTENT SNAPSHOT).
    pub fn take_snapshot(&mut self) {
        unimplemented!()
    }
    /// Reads the row at `key`; `f` sees it as a slice of the latched page (so it must not wait).
    pub fn get<R>(
        &mut self,
        _tree: &TreeHandle,
        _key: &[u8],
        _read: Read,
        _f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>> {
        unimplemented!()
    }
    /// Inserts a row; waits for an uncommitted other at the same key.
    pub fn insert(
        &mut self,
        _tree: &TreeHandle,
        _key: &[u8],
        _row: &[u8],
        _on_duplicate: OnDuplicate,
    ) -> Result<Insert> {
        unimplemented!()
    }
    /// Inserts an entry of a unique secondary index: `Duplicate` if another live entry begins with the same first
    /// `prefix_len` bytes of `key`. If so `found` is replaced by that entry's whole key.
    pub fn insert_unique(
        &mut self,
        _tree: &TreeHandle,
        _key: &[u8],
        _prefix_len: usize,
        _row: &[u8],
        _on_duplicate: OnDuplicate,
        _found: &mut Vec<u8>,
    ) -> Result<Insert> {
        unimplemented!()
    }
    /// Replaces the row at `key` (locks it, waits); `NotFound` if there is none.
    pub fn update(&mut self, _tree: &TreeHandle, _key: &[u8], _row: &[u8]) -> Result<()> {
        unimplemented!()
    }
    /// Deletes the row at `key` (locks it, waits); `NotFound` if there is none.
    pub fn delete(&mut self, _tree: &TreeHandle, _key: &[u8]) -> Result<()> {
        unimplemented!()
    }
    /// Finds, locks (waits) and changes one row in one descent. `f` sees the newest row and fills the empty buffer if
    /// it answers [`Change::Update`]; it must not wait and may run more than once.
    pub fn update_by<E>(
        &mut self,
        _tree: &TreeHandle,
        _key: &[u8],
        _f: impl FnMut(&[u8], &mut Vec<u8>) -> std::result::Result<Change, E>,
    ) -> Result<std::result::Result<Changed, E>> {
        unimplemented!()
    }
    /// Starts a scan.
    pub fn scan(&mut self, _tree: &TreeHandle, _range: ScanRange<'_>, _read: Read) -> Result<Scan> {
        unimplemented!()
    }
    /// A point to return to.
    pub fn savepoint(&mut self) -> Savepoint {
        unimplemented!()
    }
    /// Undoes what was written since; locks stay. Waits.
    pub fn rollback_to(&mut self, _savepoint: Savepoint) -> Result<()> {
        unimplemented!()
    }
    /// Undoes what was written since [`Txn::start_statement`]; locks stay. Waits.
    pub fn rollback_statement(&mut self) -> Result<()> {
        unimplemented!()
    }
    /// Commits: waits until it is as durable as configured. On error nothing may be acknowledged.
    pub fn commit(&mut self) -> Result<Lsn> {
        unimplemented!()
    }
    /// Rolls back and releases all locks. Waits.
    pub fn rollback(&mut self) -> Result<()> {
        unimplemented!()
    }
    /// Whether it has written.
    pub fn has_writes(&self) -> bool {
        unimplemented!()
    }
    /// Its id, given at its first write.
    pub fn id(&self) -> Option<TrxId> {
        unimplemented!()
    }
    /// Rows changed so far.
    pub fn rows_changed(&self) -> u64 {
        unimplemented!()
    }
    /// Its isolation level.
    pub fn isolation(&self) -> Isolation {
        unimplemented!()
    }
    /// The switch that ends its waits and scans from outside.
    pub fn interrupt_handle(&self) -> Interrupt {
        unimplemented!()
    }
}
