//! Versions of a row: the way back to the one that a reader sees, and how writers keep that way short.
//!
//! The newest version stands in the leaf. Its header names the undo record that holds the one before, whose header names the
//! next, and so on. A row that is changed often while a reader holds an old snapshot would have a version for each change,
//! and that reader would go through all of them. So the writer who replaces a version looks how the way goes on, and where
//! versions follow that nobody needs, its undo record gets a *jump*: past which transaction it leads, and the first older
//! version that is needed. Who does not see that transaction goes on there, all others go step by step:
//!
//! ```text
//! leaf: v9 ── record of v9: v8, past T8: v3 ── record of v8: v7, past T7: v3 ── ... ── record of v4: v3 ── record of v3: v2
//! ```
//!
//! A second jump leads the oldest reader past the versions that younger ones need, or needed once.
//!
//! 1. Versions of a row are in the order of commits. So who does not see a version sees none between it and the leaf.
//! 2. `past` ended where all readers see it who are not listed ([`crate::views`]), or is the writer itself, whom nobody else
//!    sees. No listed reader that does not see it sees any of the versions left out.
//! 3. The old version in a record stays as it was (but for its reference to a long value, once nobody goes behind it), so rollback and purge, which follow a transaction's records and not a
//!    row's, know nothing of jumps.
//!
//! The writer holds the leaf's latch meanwhile, so it reads only undo pages that are in memory, and not many: the way is
//! shortened by what was found. With no old reader about it costs one look at a flag.

use keel_base::{TreeId, TrxId};

use crate::engine::Engine;
use crate::error::Result;
use crate::row::Header;
use crate::snapshot::View;
use crate::txn::State;
use crate::undo::{ChangeRecord, JUMPS_MAX, OldVersion, decode_change};
use crate::views::Listed;

/// Undo records that one writer reads at most to find a jump.
const STEPS_MAX: u32 = 32;
/// Undo records that are read at most to learn whether somebody finds a row.
const STEPS_BEHIND_MAX: u32 = 256;

/// A row's version on the way back.
struct VersionPlace {
    header: Header,
    row: Vec<u8>,
}

/// What the undo record of a version holds.
struct Record {
    old: VersionPlace,
    /// Past whom, and where to, the newest first.
    jumps: Jumps,
}

/// A jump of a record: who does not see `past` goes on at this version.
#[derive(Clone)]
pub(crate) struct Found {
    pub(crate) past: TrxId,
    pub(crate) header: Header,
    pub(crate) row: Vec<u8>,
}

/// Jumps of one record, the newest first.
type Jumps = [Option<Found>; JUMPS_MAX];

const NO_JUMPS: Jumps = [None, None];

/// The row whose way back is looked at.
struct Way<'e> {
    engine: &'e Engine,
    tree: TreeId,
    key: &'e [u8],
    steps: u32,
}

impl State {
    /// Turns an entry into the version that this transaction's snapshot sees; `None` if it sees no row. Waits.
    pub(crate) fn version_for(
        &mut self,
        engine: &Engine,
        newest: Header,
        row: &mut Vec<u8>,
    ) -> Result<Option<Header>> {
        let mut count = 0;
        let found = walk(engine, newest, row, &mut count, |trx| self.sees(engine, trx));
        self.counts.versions += count;
        found
    }

    /// Turns an entry, which others have locked, into its last committed version; `None` if there was no row. `written`
    /// says that its writer was in progress under the leaf's latch: if it has ended since, the entry may be what it took
    /// back. A snapshot taken before keeps the versions and their overflow pages. Waits.
    pub(crate) fn committed_version(
        &mut self,
        engine: &Engine,
        newest: Header,
        written: bool,
        row: &mut Vec<u8>,
    ) -> Result<Option<Header>> {
        walk(engine, newest, row, &mut self.counts.versions, |trx| !written || trx != newest.trx)
    }
}

/// Goes back from an entry to the first version that `sees` accepts; `None` if there is no row then. Counts the records
/// read. Waits.
fn walk(
    engine: &Engine,
    newest: Header,
    row: &mut Vec<u8>,
    count: &mut u64,
    sees: impl Fn(TrxId) -> bool,
) -> Result<Option<Header>> {
    let mut header = newest;
    while !sees(header.trx) {
        if header.is_fresh() {
            return Ok(None);
        }
        *count += 1;
        header = engine.undo.read(header.undo, |bytes| {
            let change = decode_change(bytes)?;
            let old = change.old.filter(|_| change.common.trx == header.trx)?;
            old.apply(row)?;
            match jump_for(&change, old.header, &sees) {
                Some(jump) => jump.apply(row).map(|()| jump.header),
                None => Some(old.header),
            }
        })?;
    }
    Ok(Some(header).filter(|header| !header.is_deleted()))
}

/// Where a reader goes on behind `change`, which it does not see, if not at the old version, whose header is `old`.
fn jump_for<'a>(
    change: &'a ChangeRecord<'a>,
    old: Header,
    sees: impl Fn(TrxId) -> bool,
) -> Option<&'a OldVersion<'a>> {
    // Who is getting its commit number holds all latches that it needs: `sees` may wait for it under an undo page's.
    if change.jumps[0].is_none() || sees(old.trx) {
        return None;
    }
    change.jumps.iter().flatten().rev().find(|jump| !sees(jump.past)).map(|jump| &jump.version)
}

/// Whether a reader who does not see `change` finds a row there all the same, or may: the way back can be too long. Waits.
pub(crate) fn finds_row_behind(
    engine: &Engine,
    change: &ChangeRecord<'_>,
    sees: impl Fn(TrxId) -> bool,
) -> Result<bool> {
    let behind = |change: &ChangeRecord<'_>| {
        let old = change.old.as_ref()?.header;
        Some(jump_for(change, old, &sees).map_or(old, |jump| jump.header))
    };
    let Some(mut header) = behind(change) else { return Ok(false) };
    for _ in 0..STEPS_BEHIND_MAX {
        if sees(header.trx) {
            return Ok(!header.is_deleted());
        }
        if header.is_fresh() {
            return Ok(false);
        }
        header = engine.undo.read(header.undo, |bytes| {
            behind(&decode_change(bytes).filter(|change| change.common.trx == header.trx)?)
        })?;
    }
    Ok(true)
}

/// Looks for jumps for the undo record of whoever replaces the version `header`, `row` of `key`; `own` is the writer. The
/// leaf's latch is held; waits for nothing.
pub(crate) fn find_jumps(
    engine: &Engine,
    own: TrxId,
    (tree, key): (TreeId, &[u8]),
    header: Header,
    row: &[u8],
) -> Jumps {
    let mine = header.trx == own;
    if header.is_fresh() || (!mine && !engine.views.any()) {
        return NO_JUMPS;
    }
    let mut way = Way { engine, tree, key, steps: 0 };
    if mine {
        return [way.past_own(own, header, row), None];
    }
    let Some(listed) = engine.views.listed(engine, header.trx) else { return NO_JUMPS };
    let found = way.past_unneeded(&listed, header, row).unwrap_or(NO_JUMPS);
    if listed.is_current() { found } else { NO_JUMPS }
}

impl Record {
    /// Where a reader goes on that does not see the old version, `sees` what its others may; and past whom that leads,
    /// if it is not the next version.
    fn go_on(mut self, sees: impl Fn(TrxId) -> bool) -> (VersionPlace, Option<TrxId>) {
        if self.jumps[0].is_none() || sees(self.old.header.trx) {
            return (self.old, None);
        }
        let taken =
            self.jumps.iter_mut().rev().find(|jump| jump.as_ref().is_some_and(|jump| !sees(jump.past)));
        match taken.and_then(Option::take) {
            Some(jump) => (VersionPlace { header: jump.header, row: jump.row }, Some(jump.past)),
            None => (self.old, None),
        }
    }
}

impl Way<'_> {
    /// Reads the record of the version at `at`, if it is at hand.
    fn read(&mut self, at: &VersionPlace) -> Option<Record> {
        if self.steps == STEPS_MAX {
            return None;
        }
        self.steps += 1;
        self.engine.undo.try_read(at.header.undo, |bytes| {
            let change = decode_change(bytes)?;
            let right =
                change.common.trx == at.header.trx && change.tree == self.tree && change.key == self.key;
            let old = step(change.old.as_ref().filter(|_| right)?, &at.row)?;
            let mut jumps = NO_JUMPS;
            for (jump, found) in change.jumps.iter().zip(&mut jumps) {
                let Some(jump) = jump else { break };
                let to = step(&jump.version, &old.row)?;
                *found = Some(Found { past: jump.past, header: to.header, row: to.row });
            }
            Some(Record { old, jumps })
        })
    }

    /// Past the writer's own versions, which nobody else sees: only the newest of them counts.
    fn past_own(&mut self, own: TrxId, header: Header, row: &[u8]) -> Option<Found> {
        let first = self.read(&VersionPlace { header, row: row.to_vec() })?;
        if first.old.header.trx != own {
            return None;
        }
        let mut at = first.go_on(|trx| trx != own).0;
        while at.header.trx == own && !at.header.is_fresh() {
            let Some(record) = self.read(&at) else { break };
            at = record.old;
        }
        Some(Found { past: own, header: at.header, row: at.row })
    }

    /// Past versions that no reader needs.
    fn past_unneeded(&mut self, listed: &Listed<'_>, header: Header, row: &[u8]) -> Option<Jumps> {
        let mut at = VersionPlace { header, row: row.to_vec() };
        let mut before = None;
        // Newer versions may be needed by readers to come.
        while !listed.is_seen_by_others(at.header.trx) {
            if at.header.is_fresh() {
                return None;
            }
            match self.read(&at) {
                Some(record) => {
                    before.get_or_insert(record.jumps);
                    at = record.old;
                }
                // The jumps of the record before are as good as they were.
                None => return before,
            }
        }
        let past = at.header.trx;
        let blind = listed.blind_to(past);
        // Purge may have taken the records behind a version that all see.
        let oldest = *blind.first()?;
        let near_is_far = at.header != header;
        let (mut moved, mut jumped) = (false, false);
        while !at.header.is_fresh() {
            let Some(record) = self.read(&at) else { break };
            before.get_or_insert_with(|| record.jumps.clone());
            let (next, past) = record.go_on(|trx| listed.any_sees(&blind, trx));
            jumped |= moved || past.is_some();
            moved = true;
            at = next;
            if listed.any_sees(&blind, at.header.trx) {
                break;
            }
        }
        let far = self.past_younger(listed, oldest, &at, before.unwrap_or(NO_JUMPS));
        // One step leads there anyway.
        let near = (near_is_far || jumped).then_some(Found { past, header: at.header, row: at.row });
        Some(if near.is_some() { [near, far] } else { [far, None] })
    }

    /// The way of the oldest reader from the version `from`, which is needed, to the one that it sees, or closer to it.
    fn past_younger(
        &mut self,
        listed: &Listed<'_>,
        oldest: &View,
        from: &VersionPlace,
        known: Jumps,
    ) -> Option<Found> {
        let sees = |trx| listed.any_sees(&[oldest], trx);
        if sees(from.header.trx) || from.header.is_fresh() {
            return None;
        }
        let mut found = known.into_iter().flatten().rev().find(|jump| !sees(jump.past));
        let mut at = match &found {
            Some(jump) => VersionPlace { header: jump.header, row: jump.row.clone() },
            None => VersionPlace { header: from.header, row: from.row.clone() },
        };
        while !sees(at.header.trx) && !at.header.is_fresh() {
            let Some(record) = self.read(&at) else { break };
            let (next, past) = record.go_on(sees);
            let past = past.unwrap_or(at.header.trx);
            at = next;
            found = Some(Found { past, header: at.header, row: at.row.clone() });
        }
        found
    }
}

/// The older version that `old` makes of `row`.
fn step(old: &OldVersion<'_>, row: &[u8]) -> Option<VersionPlace> {
    let mut row = row.to_vec();
    old.apply(&mut row)?;
    Some(VersionPlace { header: old.header, row })
}
