//! Jumps ([`crate::version`]) against the chain of versions that they shorten.
//!
//! Along the chain every jump is noted that its records have, and forgotten at the version that it leads to. That must come,
//! with the same row, behind a version of the transaction past which the jump leads. A reader of the next start, who takes
//! the jumps, must arrive where a reader arrives who does not.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use std::hash::BuildHasher;

use keel_base::TrxId;

use crate::row::Header;
use crate::undo::{ChangeRecord, UndoPtr};

/// A version on the chain: who wrote it, and where its record stands.
type Version = (TrxId, UndoPtr);

/// A jump whose target the chain has not reached.
struct Pending {
    /// The record that holds it.
    from: UndoPtr,
    past: TrxId,
    /// The step at which the record's old version stands.
    since: usize,
    flags: u8,
    row: u64,
    rest: u64,
}

/// The jumps met on the way back from one entry.
#[derive(Default)]
pub(super) struct Jumps {
    pending: HashMap<Version, Vec<Pending>>,
    /// The last step at which a transaction's version stood.
    seen: HashMap<TrxId, usize>,
    step: usize,
    /// Where the reader goes on who takes jumps, and the record that said so; none while it is with the chain.
    reader: Option<(Version, UndoPtr)>,
}

fn hash_of(row: &[u8]) -> u64 {
    FixedState::with_seed(0x6a75_6d70).hash_one(row)
}

/// The same of what purge leaves of a reference while it frees the long value: its checksum.
fn rest_hash_of(row: &[u8]) -> u64 {
    hash_of(row.get(8..).unwrap_or_default())
}

fn version(header: Header) -> Version {
    (header.trx, header.undo)
}

impl Jumps {
    /// The chain is at this version.
    pub(super) fn arrive(&mut self, header: Header, row: &[u8]) -> Result<(), String> {
        self.step += 1;
        if self.pending.is_empty() {
            return Ok(());
        }
        self.seen.insert(header.trx, self.step);
        if self.reader.is_some_and(|(target, _)| target == version(header)) {
            self.reader = None;
        }
        // Purge may have begun to free a long value after the jump was written.
        let is_rest = header.is_overflow() && row.get(4..8) == Some(&[0; 4]);
        for jump in self.pending.remove(&version(header)).unwrap_or_default() {
            let Pending { from, past, since, .. } = jump;
            let same = if is_rest { jump.rest == rest_hash_of(row) } else { jump.row == hash_of(row) };
            if jump.flags != header.flags || !same {
                let what = format!(
                    "the jump at {from:?} leads to another version than transaction {} wrote",
                    header.trx.0
                );
                return Err(what);
            }
            if self.seen.get(&past).is_none_or(|step| *step < since) {
                return Err(format!(
                    "the jump at {from:?} leads past transaction {}, none of whose versions it passes",
                    past.0
                ));
            }
        }
        if self.pending.is_empty() {
            self.seen.clear();
        }
        Ok(())
    }

    /// The chain goes on by this record, which stands at `from`, to the version `old_row`. `sees` says what a reader of the
    /// next start sees.
    pub(super) fn follow(
        &mut self,
        change: &ChangeRecord<'_>,
        from: UndoPtr,
        old_row: &[u8],
        sees: impl Fn(TrxId) -> bool,
    ) -> Result<(), String> {
        let Some(old) = &change.old else { return Ok(()) };
        for jump in change.jumps.iter().flatten() {
            let mut row = old_row.to_vec();
            jump.version.apply(&mut row).ok_or_else(|| {
                format!("the row that the jump at {from:?} leads to does not fit the old one")
            })?;
            let header = jump.version.header;
            let pending = Pending {
                from,
                past: jump.past,
                since: self.step + 1,
                flags: header.flags,
                row: hash_of(&row),
                rest: rest_hash_of(&row),
            };
            self.pending.entry(version(header)).or_default().push(pending);
        }
        if self.reader.is_none() && !sees(old.header.trx) {
            let taken = change.jumps.iter().flatten().rev().find(|jump| !sees(jump.past));
            self.reader = taken.map(|jump| (version(jump.version.header), from));
        }
        Ok(())
    }

    /// Readers of the next start see the version at which the chain is.
    pub(super) fn settle(&self) -> Result<(), String> {
        match self.reader {
            Some((_, from)) => Err(format!("the jump at {from:?} leads past the version that readers see")),
            None => Ok(()),
        }
    }

    /// The chain ends at the row's first version.
    pub(super) fn end(&self) -> Result<(), String> {
        match self.pending.values().flatten().next() {
            Some(jump) => Err(format!("the jump at {:?} leads to no version of the row", jump.from)),
            None => Ok(()),
        }
    }
}
