//! What a query would examine, by the optimizer's figures and MariaDB's prices: `max_join_size` bounds it.
//!
//! A row that conditions look at costs a fifth, a row found by key 1, a page of a scan 1. A table behind others costs its
//! rows for each of theirs; where it is scanned it is read once, and only its rows are looked at again.

use super::{Matching, Source, TableSource};
use crate::access::{AccessKind, AccessPath};
use crate::expr::walk;

/// Rows that one price unit looks at.
const ROWS_COMPARED: f64 = 5.0;
/// Bytes of a page.
const PAGE_BYTES: f64 = 16384.0;
/// The price of a table that the server makes up.
const MADE_UP: f64 = 12.0;

impl Source {
    /// The price of all that is read.
    pub fn examined(&self) -> f64 {
        self.examined_behind(1.0).0
    }

    /// The price of reading it for so many rows before it, and the rows that come out.
    fn examined_behind(&self, before: f64) -> (f64, f64) {
        match self {
            Source::One => (0.0, before),
            Source::Table(table) => of_table(table, before),
            Source::Derived(_) | Source::Function(_) => {
                let rows = before * self.expected_rows().max(1.0);
                (rows / ROWS_COMPARED, rows)
            }
            Source::Distinct(distinct) => distinct.source.examined_behind(before),
            Source::Join(join) => {
                let (left, rows) = join.left.examined_behind(before);
                let (right, joined) = join.right.examined_behind(rows);
                let tests = matches!(join.kind, Matching::Semi | Matching::Anti);
                (left + right, if tests { rows } else { joined })
            }
        }
    }
}

fn of_table(source: &TableSource, before: f64) -> (f64, f64) {
    let found = before * source.choice.rows.max(1.0);
    match &*source.path {
        AccessPath::Empty => (0.0, before),
        AccessPath::Virtual(..) => (MADE_UP, found),
        AccessPath::Point { key, .. } if key.iter().all(|part| walk::facts(part).is_constant()) => {
            (0.0, before)
        }
        AccessPath::Point { .. } => (before + before / ROWS_COMPARED, before),
        AccessPath::Ranges { .. } if matches!(source.choice.kind, AccessKind::Ref | AccessKind::EqRef) => {
            (found + found / ROWS_COMPARED, found)
        }
        AccessPath::Ranges { index, .. } => {
            let clustered = source.covering || source.table.clustered == Some(*index);
            let each = if clustered { 1.0 / ROWS_COMPARED } else { 1.0 };
            (found * each + found / ROWS_COMPARED, found)
        }
        AccessPath::Union(_) => (found + found / ROWS_COMPARED, found),
        AccessPath::Scan { .. } => {
            let all = source.table.row_estimate().map_or(source.choice.rows, |rows| rows as f64);
            let width = source.table.layout.columns().len() as f64 * 8.0;
            let pages = (all * width / PAGE_BYTES).max(1.0);
            (pages + before * all / ROWS_COMPARED, before * all)
        }
    }
}
