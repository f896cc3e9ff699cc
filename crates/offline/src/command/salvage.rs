//! Runs a salvage and prints its result.

use std::path::Path;
use std::sync::Arc;

use crate::{Inspection, Salvaged};
use keel_runtime::fs;
use keel_storage::inspect::{Folder, Limits, Report};

use super::check::{Lines, print};
use super::json::{object, quoted};
use super::{CannotInspect, Format, InspectOptions, Verdict, enter};

/// Writes all readable rows of a data folder to files in `out`. It waits for files: call it on a fiber.
pub fn salvage(
    options: &InspectOptions,
    out: &Path,
    lines: &Arc<dyn Lines>,
) -> Result<Verdict, CannotInspect> {
    let _locks = enter(&options.folder)?;
    let cannot = |error: &dyn std::fmt::Display| CannotInspect(format!("{}: {error}", out.display()));
    if out.starts_with(&options.folder) {
        return Err(cannot(&"lies in the data folder, in which nothing is written"));
    }
    if fs::exists(out) && !fs::read_dir(out).map_err(|error| cannot(&error))?.is_empty() {
        return Err(cannot(&"is not empty"));
    }
    let (sink, format) = (lines.clone(), options.format);
    let report = Arc::new(Report::new(move |finding| sink.out(&print(finding, format))));
    let limits = Limits { memory: options.memory, ..Limits::new(options.temporary.clone()) };
    let folder = Folder::open(&options.folder, limits, &report)
        .map_err(|error| CannotInspect(format!("{} cannot be read: {error}", options.folder.display())))?;
    let inspection = Inspection::new(folder, report.clone());
    let all = inspection.salvage(out).map_err(|error| cannot(&error))?;
    for table in &all {
        lines.out(&describe(table, format));
    }
    let lost = report.damage_count() > 0 || all.iter().any(|table| !table.lost.is_empty());
    Ok(if lost { Verdict::Damaged } else { Verdict::Fine })
}

fn describe(table: &Salvaged, format: Format) -> String {
    if format == Format::Json {
        let lost: Vec<String> = table.lost.iter().map(|lost| quoted(lost)).collect();
        return object(&[
            ("table", quoted(&table.table)),
            ("file", quoted(&table.file)),
            ("rows", table.rows.to_string()),
            ("rows_of_index", table.rows_of_index.to_string()),
            ("partial", table.partial.to_string()),
            ("lost", format!("[{}]", lost.join(","))),
        ]);
    }
    let mut out = format!("table {}: {} rows in {}", table.table, table.rows, table.file);
    if table.rows_of_index > 0 {
        out += &format!(", {} of lost pages from an index", table.rows_of_index);
    }
    if table.partial > 0 {
        out += &format!(", {} of lost pages in part, as comments", table.partial);
    }
    for lost in &table.lost {
        out += &format!("\n  lost: {lost}");
    }
    out
}
