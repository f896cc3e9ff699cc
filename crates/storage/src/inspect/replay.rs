//! Applying the log to copies of pages, as recovery does to pages.

use std::collections::BTreeMap;

use keel_base::TreeId;
use keel_runtime::fs::AlignedBuf;

use super::files::identity_problem;
use super::log::{self, LogFacts};
use super::{Folder, Report};
use crate::doublewrite;
use crate::fault::{StoreError, StoreResult};
use crate::layout::PAGE;
use crate::log::scan::Scan;
use crate::log::segments::Segments;
use crate::page::{PageMut, PageRef};
use crate::recovery::{Change, Window};
use crate::space::file_name;

/// Bytes of log applied at a time.
const WINDOW_BYTES: usize = 32 << 20;

impl Folder {
    /// Brings pages up to the end of the log, in copies.
    pub(super) fn replay(&mut self, report: &Report) -> StoreResult<()> {
        let copies = self.take_mended(report)?;
        self.log.mended = copies;
        let Some((checkpoint, segment_bytes)) = log::checkpoint(&self.dir, report) else { return Ok(()) };
        let segments = Segments::open_for_reading(&self.dir, segment_bytes)?;
        let mut scan = Scan::new(&segments, checkpoint);
        let mut groups = 0;
        loop {
            let batch = scan.batch(WINDOW_BYTES)?;
            if batch.len() == 0 {
                break;
            }
            groups += batch.len() as u64;
            match Window::new(batch, scan.position(), 1) {
                Ok(window) => self.replay_window(&window, report)?,
                Err(e) => report.damage("log", "redo", None, e.to_string()),
            }
        }
        self.log = LogFacts { present: true, checkpoint, end: scan.position(), groups, mended: copies };
        if groups == 0 {
            let file = format!("redo.{}", checkpoint / segment_bytes);
            let why = if segments.file(checkpoint).is_some() {
                "no group begins there"
            } else {
                "the file is missing"
            };
            report.damage(
                "log",
                &file,
                None,
                format!("the checkpoint is {checkpoint}, but {why}: changes may be lost"),
            );
        }
        log::look_behind(&segments, scan.position(), report)
    }

    /// Lays pages that the doublewrite file makes whole over torn ones; says how many.
    fn take_mended(&mut self, report: &Report) -> StoreResult<u64> {
        let bytes = match doublewrite::read_all(&self.dir) {
            Ok(bytes) => bytes,
            Err(e) => {
                report.note(
                    "doublewrite",
                    doublewrite::NAME,
                    None,
                    format!("{e}: the next start makes it anew"),
                );
                return Ok(0);
            }
        };
        let mut mended = 0;
        let mut page = AlignedBuf::new(PAGE);
        for patch in doublewrite::patches(&bytes) {
            let (tree, number) = (patch.tree, patch.page);
            if !self.has(TreeId(tree)) {
                continue;
            }
            let error = self.raw_page(tree, number, &mut page);
            if error.is_some() || PageRef::new(&page).crc_ok() || !patch.mend(&mut page) {
                continue;
            }
            self.lay_over(tree, number, &page)?;
            let text = "torn; what the doublewrite file has of it makes it whole, as at the next start";
            report.note("torn", &file_name(TreeId(tree)), Some(number), text);
            mended += 1;
        }
        Ok(mended)
    }

    fn replay_window(&mut self, window: &Window, report: &Report) -> StoreResult<()> {
        let mut page = AlignedBuf::new(PAGE);
        let mut lost: BTreeMap<u32, u64> = BTreeMap::new();
        for run in window.take_sorted(0).chunk_by(|a, b| a.at == b.at) {
            let (tree, number) = run[0].at;
            if !self.has(TreeId(tree)) {
                continue;
            }
            let error = self.raw_page(tree, number, &mut page);
            let whole = PageRef::new(&page);
            let fine =
                error.is_none() && (whole.is_zero() || identity_problem(whole, tree, number).is_none());
            let from = match fine {
                true => run.partition_point(|change| window.end_of(change) <= whole.lsn()),
                // A change that writes the whole page needs nothing of what was there.
                false => match run.iter().position(|change| window.is_rewritten(change)) {
                    Some(first) => {
                        page.fill(0);
                        first
                    }
                    None => {
                        *lost.entry(tree).or_default() += run.len() as u64;
                        continue;
                    }
                },
            };
            match replay_page(window, &run[from..], &mut page) {
                Ok(false) => {}
                Ok(true) => self.lay_over(tree, number, &page)?,
                Err(e) => report.damage("log", &file_name(TreeId(tree)), Some(number), e.to_string()),
            }
        }
        for (tree, changes) in lost {
            let text =
                format!("{changes} changes in the log belong to pages of this file that cannot be read");
            report.damage("log", &file_name(TreeId(tree)), None, text);
        }
        Ok(())
    }
}

/// Applies what the page lacks; false where it lacks nothing.
fn replay_page(window: &Window, lacking: &[Change], page: &mut AlignedBuf) -> StoreResult<bool> {
    let Some(last) = lacking.last() else { return Ok(false) };
    let before = PageRef::new(page);
    if before.is_node()
        && let Some(what) = before.problem()
    {
        let what = format!("{what}: the log is not applied");
        return Err(StoreError::Corrupt { file: file_name(TreeId(last.at.0)), page: last.at.1, what });
    }
    lacking.iter().try_for_each(|change| window.apply(change, page).map(|_| ()))?;
    let mut sealed = PageMut::new(page);
    sealed.set_lsn(window.end_of(last));
    sealed.seal();
    Ok(true)
}
