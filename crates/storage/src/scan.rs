//! Scans: rows of a range in key order, a leaf at a time.

use crate::error::Result;
use crate::txn::Txn;

/// A scan in progress; holds no latch between calls.
pub struct Scan {
    _private: (),
}

impl Scan {
    /// The next key and row. Waits for pages and, if it locks, for rows.
    #[allow(clippy::type_complexity)]
    pub fn next(&mut self, _txn: &mut Txn) -> Result<Option<(&[u8], &[u8])>> {
        unimplemented!()
    }
    /// Gives back the lock on the row that [`Scan::next`] gave last, if this scan took it and READ COMMITTED allows:
    /// the row did not match.
    pub fn unlock_current(&mut self, _txn: &mut Txn) {
        unimplemented!()
    }
}
