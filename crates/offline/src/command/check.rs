//! Running a check and printing what it finds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::{Inspection, Summary};
use keel_runtime::{fiber, fs, time};
use keel_storage::inspect::{Finding, Folder, Limits, Report, Severity};

use super::json::{object, quoted};
use super::{CannotInspect, Format, InspectOptions, Verdict, enter};
use keel_storage::folder::FORMAT;

/// Larger folders report progress.
const PROGRESS_BYTES_MIN: u64 = 1 << 30;
/// The interval of progress lines.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// The output of an inspection: findings and the summary go to `out`, progress to `aside`.
pub trait Lines: Send + Sync {
    /// Prints a line of the result.
    fn out(&self, line: &str);
    /// Prints a line that is not part of the result.
    fn aside(&self, line: &str);
}

/// Checks a data folder. It waits for files: call it on a fiber.
pub fn check(options: &InspectOptions, lines: &Arc<dyn Lines>) -> Result<Verdict, CannotInspect> {
    let _locks = enter(&options.folder)?;
    let began = time::now();
    let (sink, format) = (lines.clone(), options.format);
    let report = Arc::new(Report::new(move |finding| sink.out(&print(finding, format))));
    check_format(options, &report)?;
    if Folder::is_unfinished(&options.folder) {
        let text = "the first start on this folder was cut short: it holds nothing yet, and the next one makes it anew";
        report.note("new", "redo.head", None, text);
        return Ok(if report.damage_count() == 0 { Verdict::Fine } else { Verdict::Damaged });
    }
    let limits = Limits { memory: options.memory, ..Limits::new(options.temporary.clone()) };
    let folder = Folder::open(&options.folder, limits, &report)
        .map_err(|error| CannotInspect(format!("{} cannot be checked: {error}", options.folder.display())))?;
    if folder.log.needs_recovery() && !options.silent && format == Format::Text {
        lines.aside(&format!(
            "not shut down cleanly: {} bytes of redo since the checkpoint, which change {} pages; what the next start makes of \
             them is checked",
            folder.log.bytes(),
            folder.pages_changed()
        ));
    }
    let inspection = Inspection::new(folder, report.clone());
    let done = Arc::new(AtomicBool::new(false));
    if !options.silent && inspection.bytes() >= PROGRESS_BYTES_MIN {
        show_progress(inspection.progress.clone(), inspection.bytes(), done.clone(), lines.clone());
    }
    let summary = inspection.check();
    done.store(true, Ordering::SeqCst);
    if !options.silent {
        lines.out(&sum_up(&inspection, &summary, format, time::now() - began));
    }
    Ok(if report.damage_count() == 0 { Verdict::Fine } else { Verdict::Damaged })
}

/// Checks that the folder has the format that this program reads.
fn check_format(options: &InspectOptions, report: &Report) -> Result<(), CannotInspect> {
    let text = match fs::read_to_end(&options.folder.join("FORMAT")) {
        Ok(text) => text,
        Err(error) => {
            report.damage("format", "FORMAT", None, format!("cannot be read: {error}"));
            return Ok(());
        }
    };
    let found = String::from_utf8_lossy(&text).trim().to_string();
    if found == FORMAT.to_string() {
        return Ok(());
    }
    if found.parse::<u64>().is_ok() {
        let shown = options.folder.display();
        return Err(CannotInspect(format!("{shown} has format {found}, this program reads {FORMAT}")));
    }
    report.damage("format", "FORMAT", None, format!("says {found:?}, expected {FORMAT}"));
    Ok(())
}

fn show_progress(progress: Arc<AtomicU64>, bytes: u64, done: Arc<AtomicBool>, lines: Arc<dyn Lines>) {
    fiber::spawn(move || {
        let mut next = time::now() + PROGRESS_INTERVAL;
        while !done.load(Ordering::SeqCst) {
            fiber::sleep(Duration::from_millis(100));
            if time::now() < next {
                continue;
            }
            next = time::now() + PROGRESS_INTERVAL;
            let read = progress.load(Ordering::Relaxed).min(bytes);
            lines.aside(&format!("{} of {} MiB, {} %", read >> 20, bytes >> 20, read * 100 / bytes.max(1)));
        }
    });
}

fn word(severity: Severity) -> &'static str {
    match severity {
        Severity::Damage => "damage",
        Severity::Note => "note",
    }
}

/// A finding as a line.
pub(super) fn print(finding: &Finding, format: Format) -> String {
    let severity = word(finding.severity);
    if format == Format::Json {
        return object(&[
            ("severity", quoted(severity)),
            ("kind", quoted(finding.kind)),
            ("file", quoted(&finding.file)),
            ("page", finding.page.map_or("null".into(), |page| page.to_string())),
            ("object", finding.object.as_deref().map_or("null".into(), quoted)),
            ("text", quoted(&finding.text)),
        ]);
    }
    let page = finding.page.map_or(String::new(), |page| format!(" page {page}"));
    let object = finding.object.as_deref().map_or(String::new(), |object| format!(" ({object})"));
    format!("{severity}: {}: {}{page}{object}: {}", finding.kind, finding.file, finding.text)
}

fn sum_up(inspection: &Inspection, summary: &Summary, format: Format, took: Duration) -> String {
    let (damage, notes) = (inspection.report.damage_count(), inspection.report.note_count());
    let (history, log) = (&inspection.history, &inspection.folder.log);
    if format == Format::Json {
        return object(&[
            ("damage", damage.to_string()),
            ("notes", notes.to_string()),
            ("tables", summary.tables.to_string()),
            ("trees", summary.trees.to_string()),
            ("rows", summary.rows.to_string()),
            ("entries", summary.entries.to_string()),
            ("bytes", inspection.bytes().to_string()),
            ("redo_bytes", log.bytes().to_string()),
            ("unfinished", history.unfinished().to_string()),
            ("prepared", history.prepared.len().to_string()),
            ("seconds", format!("{:.3}", took.as_secs_f64())),
        ]);
    }
    let verdict = match (damage, notes) {
        (0, 0) => "nothing is wrong".to_string(),
        (0, _) => format!("nothing is wrong, {notes} notes"),
        _ => format!("{damage} findings of damage, {notes} notes"),
    };
    let prepared = match history.prepared.len() {
        0 => String::new(),
        count => format!(" and {count} prepared"),
    };
    format!(
        "{} tables, {} files of {} MiB, {} rows, {} index entries, {} unfinished transactions{prepared}, {:.1} s: {verdict}",
        summary.tables,
        summary.trees,
        inspection.bytes() >> 20,
        summary.rows,
        summary.entries,
        history.unfinished(),
        took.as_secs_f64()
    )
}
