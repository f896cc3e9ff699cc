//! The log of a folder: where its checkpoint lies, how far its chain of groups reaches, what stands behind its end.

use std::path::Path;

use keel_runtime::fs::AlignedBuf;

use super::Report;
use crate::fault::StoreResult;
use crate::log::head::{self, SlotState};
use crate::log::record::{GROUP_HEAD, Records, check_group, group_len};
use crate::log::segments::{BLOCK, Segments};

/// Bytes behind the end of the log that are searched for groups.
const SEARCH: usize = 16 << 20;
/// Longest group that is looked for there.
const FOUND_MAX: usize = 256 << 10;

/// What the log says.
#[derive(Debug, Clone, Copy, Default)]
pub struct LogFacts {
    /// Whether there is a log that can be read.
    pub present: bool,
    /// Where the checkpoint lies.
    pub checkpoint: u64,
    /// End of the last whole group.
    pub end: u64,
    /// Groups since the checkpoint.
    pub groups: u64,
    /// Pages that were torn and are whole in the doublewrite file.
    pub mended: u64,
}

impl LogFacts {
    /// Bytes since the checkpoint.
    pub fn bytes(&self) -> u64 {
        self.end - self.checkpoint
    }

    /// Whether the server stopped without writing all pages.
    pub fn needs_recovery(&self) -> bool {
        // A clean stop leaves the last group, with which the chain begins.
        self.groups > 1
    }
}

/// The checkpoint to start from and the bytes of a log file; none where `redo.head` cannot be used.
pub(super) fn checkpoint(dir: &Path, report: &Report) -> Option<(u64, u64)> {
    let slots = match head::read_slots(dir) {
        Ok(slots) => slots,
        Err(e) => {
            report.damage("log", "redo.head", None, format!("{e}: pages are taken as they are in the files"));
            return None;
        }
    };
    let mut best: Option<head::Checkpoint> = None;
    for (number, slot) in slots.iter().enumerate() {
        match slot {
            SlotState::Valid(c) if best.is_none_or(|b| b.sequence < c.sequence) => best = Some(*c),
            SlotState::Valid(_) | SlotState::Empty => {}
            SlotState::Broken => {
                let text = format!(
                    "slot {number} is not whole; the other one counts. A crash while it was written leaves that"
                );
                report.note("log", "redo.head", None, text);
            }
        }
    }
    let Some(best) = best else {
        report.damage(
            "log",
            "redo.head",
            None,
            "no valid checkpoint: pages are taken as they are in the files",
        );
        return None;
    };
    Some((best.lsn, best.segment_bytes))
}

/// Says so where whole groups stand behind the end of the log, which lies at `end`.
pub(super) fn look_behind(segments: &Segments, end: u64, report: &Report) -> StoreResult<()> {
    let start = end / BLOCK as u64 * BLOCK as u64;
    let mut bytes = AlignedBuf::new(SEARCH);
    let got = segments.read(start, &mut bytes)?;
    let mut at = (end - start) as usize + 1;
    let (mut first, mut groups, mut last) = (None, 0u64, 0u64);
    while at + GROUP_HEAD <= got {
        let len = group_len(&bytes[at..got])
            .filter(|len| *len > GROUP_HEAD && *len <= FOUND_MAX && at + len <= got);
        // Old groups are full of words that could be lengths: their records tell most of these apart, far cheaper than a checksum.
        let found = len.filter(|len| {
            let group = &bytes[at..at + len];
            Records::new(group).all(|record| record.is_ok())
                && check_group(group, start + at as u64).is_some()
        });
        match found {
            Some(len) => {
                first.get_or_insert(start + at as u64);
                groups += 1;
                at += len;
                last = start + at as u64;
            }
            None => at += 1,
        }
    }
    let Some(first) = first else { return Ok(()) };
    let text = format!(
        "the chain of groups breaks at {end}, but {groups} whole groups stand from {first} to {last} behind it: the log is \
         damaged there, unless a power cut tore its last write"
    );
    report.note("log-gap", &format!("redo.{}", end / segments.bytes), None, text);
    Ok(())
}
