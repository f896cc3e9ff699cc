//! Two answers to one query: the same rows, or what differs.

use crate::client::{Column, Reply};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// What differs, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The server or the connection is gone.
    Lost,
    /// Other rows.
    Rows,
    /// The partitions of a query are not the query.
    Partitions,
    /// An error on one side, or another error: MariaDB's number and Keel's, 0 for none.
    Error(u16, u16),
    /// Keel does not answer in time.
    Slow,
    /// Equal numbers with other digits.
    Form,
    /// Other names of columns.
    Names,
}

/// What is to be said of two answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// They agree.
    Same,
    /// They cannot be compared: an error depends on what is computed first.
    Skipped,
    /// They differ.
    Differs(Class),
}

/// FLOAT and DOUBLE on the wire.
const INEXACT: [u8; 2] = [4, 5];

/// Errors that a row raises: whether it is met is the plan's matter. Overflow, more than one row, division, bad values.
const RAISED_BY_ROWS: [u16; 6] = [1242, 1264, 1292, 1365, 1690, 1366];
/// `max_statement_time` is over.
const TIMED_OUT: u16 = 1969;

/// Compares MariaDB's answer with Keel's.
pub fn judge(maria: &Reply, keel: &Reply, ordered: bool) -> Verdict {
    match (maria.error_code(), keel.error_code()) {
        (Some(TIMED_OUT), _) => return Verdict::Skipped,
        (None, Some(TIMED_OUT)) => return Verdict::Differs(Class::Slow),
        (Some(theirs), Some(ours)) if theirs == ours => return Verdict::Same,
        (Some(code), None) | (None, Some(code)) if RAISED_BY_ROWS.contains(&code) => return Verdict::Skipped,
        // MariaDB's own limits: names of the select list that come later, subqueries in rows, outer names behind INTERSECT
        // and equal names among the keys of a group.
        (Some(1247 | 1235 | 1054), None) => return Verdict::Skipped,
        (None, None) => {}
        (theirs, ours) => {
            return Verdict::Differs(Class::Error(theirs.unwrap_or_default(), ours.unwrap_or_default()));
        }
    }
    let (Some(theirs), Some(ours)) = (Table::new(maria), Table::new(keel)) else {
        return Verdict::Differs(Class::Error(0, 0));
    };
    let inexact: Vec<bool> = theirs.inexact.iter().zip(&ours.inexact).map(|(a, b)| *a || *b).collect();
    let same = |digits: bool| {
        let rows = [theirs.rows(&inexact, digits), ours.rows(&inexact, digits)];
        match ordered {
            true => rows[0] == rows[1],
            false => counted(rows[0].clone()) == counted(rows[1].clone()),
        }
    };
    match () {
        () if theirs.names.len() != ours.names.len() => Verdict::Differs(Class::Rows),
        () if !same(false) => Verdict::Differs(if same(true) { Class::Form } else { Class::Rows }),
        () if theirs.names != ours.names => Verdict::Differs(Class::Names),
        () => Verdict::Same,
    }
}

/// Errors that one row or another raises when it is written: data too long, out of range, cut, doubled, NULL.
const RAISED_BY_WRITES: [u16; 5] = [1048, 1062, 1264, 1265, 1406];

/// Compares what a change left on MariaDB and on Keel.
pub fn judge_change(maria: &Reply, keel: &Reply) -> Verdict {
    let by_row = |code: u16| RAISED_BY_WRITES.contains(&code) || RAISED_BY_ROWS.contains(&code);
    match (maria.error_code(), keel.error_code()) {
        (Some(theirs), Some(ours)) if by_row(theirs) && by_row(ours) => Verdict::Skipped,
        _ => judge(maria, keel, true),
    }
}

/// Whether the three parts together are the whole.
pub fn adds_up(whole: &Reply, parts: &[Reply]) -> Verdict {
    if parts.iter().chain([whole]).any(|reply| reply.error_code().is_some()) {
        return Verdict::Skipped;
    }
    let rows = |reply: &Reply| match Table::new(reply) {
        Some(table) => table.rows(&table.inexact, false),
        None => Vec::new(),
    };
    let sum: Vec<Vec<String>> = parts.iter().flat_map(rows).collect();
    match counted(sum) == counted(rows(whole)) {
        true => Verdict::Same,
        false => Verdict::Differs(Class::Partitions),
    }
}

struct Table<'a> {
    names: Vec<&'a str>,
    inexact: Vec<bool>,
    cells: &'a [Vec<Option<Vec<u8>>>],
}

impl Table<'_> {
    fn new(reply: &Reply) -> Option<Table<'_>> {
        let Reply::Rows { columns, rows, .. } = reply else { return None };
        let inexact = |column: &Column| INEXACT.contains(&column.kind);
        Some(Table {
            names: columns.iter().map(|column| column.name.as_str()).collect(),
            inexact: columns.iter().map(inexact).collect(),
            cells: rows,
        })
    }

    /// Rows in which equal cells have equal texts; with `digits` also numbers with other zeros at their end.
    fn rows(&self, inexact: &[bool], digits: bool) -> Vec<Vec<String>> {
        let cell = |cell: &Option<Vec<u8>>, inexact: bool| {
            let Some(bytes) = cell else { return "NULL".to_string() };
            let text = String::from_utf8_lossy(bytes).into_owned();
            match text.parse::<f64>() {
                Ok(number) if inexact || digits => rounded(number),
                _ => text,
            }
        };
        let row = |row: &Vec<Option<Vec<u8>>>| {
            let flags = inexact.iter().copied().chain(std::iter::repeat(false));
            row.iter().zip(flags).map(|(bytes, inexact)| cell(bytes, inexact)).collect()
        };
        self.cells.iter().map(row).collect()
    }
}

/// Ten digits: what two orders of adding may make differ lies behind them.
fn rounded(number: f64) -> String {
    match number.partial_cmp(&0.0) {
        Some(Ordering::Equal) => "0".into(),
        _ => format!("{number:.9e}"),
    }
}

fn counted(rows: Vec<Vec<String>>) -> BTreeMap<Vec<String>, usize> {
    let mut counts = BTreeMap::new();
    rows.into_iter().for_each(|row| *counts.entry(row).or_insert(0) += 1);
    counts
}

/// An answer for readers: its error, or its first rows.
pub fn shown(reply: &Reply) -> String {
    const ROWS_SHOWN: usize = 12;
    match reply {
        Reply::Error { code, message, .. } => format!("error {code}: {message}"),
        Reply::Ok { .. } => "OK".into(),
        Reply::Rows { columns, rows, .. } => {
            let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
            let mut lines = vec![format!("{} rows: {}", rows.len(), names.join(" | "))];
            let mut strings = reply.strings();
            strings.sort();
            lines.extend(strings.iter().take(ROWS_SHOWN).map(|row| format!("    {}", row.join(" | "))));
            lines.join("\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(kind: u8, cells: &[&str]) -> Reply {
        let column = Column {
            schema: String::new(),
            table: String::new(),
            org_table: String::new(),
            name: "c".into(),
            org_name: String::new(),
            charset: 63,
            length: 1,
            kind,
            flags: 0,
            decimals: 0,
        };
        let rows = cells.iter().map(|cell| vec![Some(cell.as_bytes().to_vec())]).collect();
        Reply::Rows { columns: vec![column], rows, warnings: 0, status: 0 }
    }

    #[test]
    fn rows_count_and_order_matters_where_there_is_one() {
        let (one, other) = (reply(3, &["1", "2"]), reply(3, &["2", "1"]));
        assert_eq!(judge(&one, &other, false), Verdict::Same);
        assert_eq!(judge(&one, &other, true), Verdict::Differs(Class::Rows));
        assert_eq!(judge(&one, &reply(3, &["1", "2", "2"]), false), Verdict::Differs(Class::Rows));
        assert_eq!(judge(&reply(246, &["1.0"]), &reply(246, &["1"]), false), Verdict::Differs(Class::Form));
        assert_eq!(judge(&reply(5, &["0.1"]), &reply(5, &["0.10000000000000001"]), false), Verdict::Same);
    }

    #[test]
    fn parts_add_up_to_the_whole() {
        let whole = reply(3, &["1", "1", "2"]);
        let parts = [reply(3, &["1"]), reply(3, &["2"]), reply(3, &["1"])];
        assert_eq!(adds_up(&whole, &parts), Verdict::Same);
        assert_eq!(adds_up(&whole, &parts[..2]), Verdict::Differs(Class::Partitions));
    }
}
