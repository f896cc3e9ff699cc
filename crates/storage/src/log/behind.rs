//! What stands behind the end of the log, where the chain of checksums breaks.
//!
//! A power cut may tear the last write: later blocks of it are there, earlier ones are not. A damaged log looks the same,
//! but for what was written after the damaged place was durable: the marks there say so ([`super::record::Record::Durable`]).

use keel_runtime::fs::AlignedBuf;

use super::record::{GROUP_HEAD, Record, Records, begins_group, check_group, group_len};
use super::segments::{BLOCK, Segments};
use crate::fault::StoreResult;

/// Bytes that are searched: what two batches of writes hold.
const SEARCH: u64 = 2 * super::BUFFERED_MAX;
/// Longest group that is looked for.
const FOUND_MAX: usize = 256 << 10;
/// So many zero bytes hold no group's beginning but for the last three, which may be the first of a length.
const ZEROS: usize = 8;

/// Whole groups behind the end of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behind {
    /// How many.
    pub groups: u64,
    /// Where the first one begins.
    pub first: u64,
    /// Where the last one ends.
    pub last: u64,
    /// How far the log was durable when they were written, by the newest mark among them; 0 without one.
    pub durable: u64,
}

/// Searches behind `end`, where the log breaks off. Waits.
pub fn look_behind(segments: &Segments, end: u64) -> StoreResult<Option<Behind>> {
    let start = end / BLOCK as u64 * BLOCK as u64;
    let there = segments.end(end).saturating_sub(start).min(SEARCH);
    let mut bytes = AlignedBuf::new(there as usize);
    let got = segments.read(start, &mut bytes)?;
    let mut at = (end - start) as usize + 1;
    let mut behind: Option<Behind> = None;
    while at + GROUP_HEAD <= got {
        if bytes[at..at + ZEROS] == [0; ZEROS] {
            at += ZEROS - 3;
            continue;
        }
        let Some(group) = group_at(&bytes[at..got], start + at as u64) else {
            at += 1;
            continue;
        };
        let first = start + at as u64;
        at += group.len();
        let found = behind.get_or_insert(Behind { groups: 0, first, last: 0, durable: 0 });
        found.groups += 1;
        found.last = start + at as u64;
        for record in Records::new(group) {
            if let Ok(Record::Durable(lsn)) = record {
                found.durable = found.durable.max(lsn);
            }
        }
    }
    Ok(behind)
}

/// The whole group with which `bytes`, at `lsn`, begin.
fn group_at(bytes: &[u8], lsn: u64) -> Option<&[u8]> {
    let len = group_len(bytes).filter(|len| (GROUP_HEAD + 1..=FOUND_MAX).contains(len))?;
    let group = bytes.get(..len)?;
    // Old groups are full of words that could be lengths: what follows tells most of these apart, far cheaper than a checksum.
    let sound = begins_group(group[GROUP_HEAD])
        && Records::new(group).all(|record| record.is_ok())
        && check_group(group, lsn).is_some();
    sound.then_some(group)
}
