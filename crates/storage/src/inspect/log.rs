//! The log of a folder: where its checkpoint lies, how far its chain of groups reaches, what stands behind its end.

use std::path::Path;

use super::Report;
use crate::fault::StoreResult;
use crate::log::behind::{self, Behind};
use crate::log::head::{self, SlotState};
use crate::log::segments::Segments;

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
    let Some(behind) = behind::look_behind(segments, end)? else { return Ok(()) };
    let Behind { groups, first, last, durable } = behind;
    let text = format!(
        "the chain of groups breaks at {end}, but {groups} whole groups stand from {first} to {last} behind it"
    );
    let file = segments.name_at(end);
    match durable > end {
        true => {
            let text = format!("{text}, and the log was durable up to {durable}: it is damaged");
            report.damage("log-gap", &file, None, text);
        }
        false => {
            report.note("log-gap", &file, None, format!("{text}: a power cut tore the last write of the log"))
        }
    }
    Ok(())
}
