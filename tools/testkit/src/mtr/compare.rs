//! Two servers' answers to one statement: the same, or different for a reason that can be counted.

use super::masks::Masks;
use super::script::readable;
use super::values::{KEEL, MARIA};
use crate::client::{Column, Reply};

/// What became of a statement on one server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The server answered.
    Replies(Vec<Reply>),
    /// It did not within the bound, and the connection was given up.
    TimedOut,
    /// The connection broke.
    Lost(String),
    /// There is no such connection on this server.
    Absent,
}

/// How a statement is compared.
#[derive(Debug, Default)]
pub struct How {
    /// What is replaced in rows.
    pub masks: Masks,
    /// Rows are not looked at: the script itself does not show them.
    pub rows_hidden: bool,
    /// Warnings are not counted: the script switched them off.
    pub warnings_hidden: bool,
    /// Types and lengths of columns are compared too.
    pub metadata_shown: bool,
}

/// Why two answers are not the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// Something that has its words already.
    Cause(String),
    /// Another number of warnings; which ones is for the caller to ask.
    Warnings,
}

/// Compares; `None` if the answers agree, or if MariaDB gave none to compare with.
pub fn judge(sql: &str, outcomes: &[Outcome; 2], how: &How) -> Option<Difference> {
    let cause = |text: String| Some(Difference::Cause(text));
    match outcomes {
        [Outcome::Replies(maria), Outcome::Replies(keel)] => {
            for (ours, theirs) in keel.iter().zip(maria) {
                if let Some(found) = replies(sql, theirs, ours, how) {
                    return Some(found);
                }
            }
            match maria.len() == keel.len() {
                true => None,
                false => cause("number of results differs".into()),
            }
        }
        [Outcome::Replies(_), Outcome::TimedOut] => cause("no answer from Keel in time".into()),
        [Outcome::Replies(_), Outcome::Lost(why)] => cause(format!("Keel's connection broke: {why}")),
        [Outcome::Replies(_), Outcome::Absent] => cause("Keel refused the connection".into()),
        _ => None,
    }
}

/// Whether MariaDB's answer can be compared with at all.
pub fn comparable(outcomes: &[Outcome; 2]) -> bool {
    matches!(outcomes[MARIA], Outcome::Replies(_))
}

fn replies(sql: &str, maria: &Reply, keel: &Reply, how: &How) -> Option<Difference> {
    let cause = |text: &str| Some(Difference::Cause(text.to_string()));
    match (maria, keel) {
        (Reply::Error { code, state, .. }, Reply::Error { code: ours, state: our_state, .. }) => {
            match (code == ours, state == our_state) {
                (true, true) => None,
                (true, false) => cause(&format!("SQLSTATE of error {code} differs")),
                _ => cause(&error_cause(keel, Some(*code))),
            }
        }
        (_, Reply::Error { .. }) => cause(&error_cause(keel, None)),
        (Reply::Error { code, .. }, _) => cause(&format!("error {code} missing")),
        (
            Reply::Rows { columns, rows, warnings, .. },
            Reply::Rows { columns: our_columns, rows: our_rows, warnings: our_warnings, .. },
        ) => {
            let names =
                |columns: &[Column]| columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>();
            if names(columns) != names(our_columns) {
                return cause(&format!("column names differ: {}", subject(sql)));
            }
            if how.metadata_shown
                && columns.iter().zip(our_columns).any(|(a, b)| described(a) != described(b))
            {
                return cause("metadata differ");
            }
            if !how.rows_hidden && !rows_are_the_servers_own(sql) {
                let masked = |server: usize, rows: &[Vec<crate::client::Cell>]| -> Vec<String> {
                    let cardinality = columns.iter().position(|column| column.name == "Cardinality");
                    let lines = rows.iter().map(|row| {
                        let mut row = row.clone();
                        cardinality.into_iter().for_each(|at| row[at] = None);
                        how.masks.line(server, &row)
                    });
                    lines.collect()
                };
                let (mut theirs, mut ours) = (masked(MARIA, rows), masked(KEEL, our_rows));
                let same = theirs == ours;
                theirs.sort();
                ours.sort();
                if theirs != ours {
                    return cause(&format!("rows differ: {}", subject(sql)));
                }
                if !same && ordered(sql) && !how.masks.sorted {
                    return cause("order of rows differs");
                }
            }
            warned(*warnings, *our_warnings, how)
        }
        (Reply::Ok { affected, warnings, .. }, Reply::Ok { affected: ours, warnings: our_warnings, .. }) => {
            let counts = matches!(first_word(sql).as_str(), "INSERT" | "REPLACE" | "UPDATE" | "DELETE");
            if counts && affected != ours {
                return cause(&format!("affected rows differ: {}", first_word(sql)));
            }
            warned(*warnings, *our_warnings, how)
        }
        (Reply::Rows { .. }, _) => cause(&format!("rows missing: {}", subject(sql))),
        (Reply::Ok { .. }, _) => cause(&format!("rows where MariaDB has none: {}", subject(sql))),
    }
}

fn warned(maria: u16, keel: u16, how: &How) -> Option<Difference> {
    (maria != keel && !how.warnings_hidden).then_some(Difference::Warnings)
}

fn described(column: &Column) -> (u8, u32, u16, u8) {
    (column.kind, column.length, column.charset, column.decimals)
}

/// Keel's error as a cause: the text of what is not supported, else numbers.
fn error_cause(keel: &Reply, maria: Option<u16>) -> String {
    let Reply::Error { code, message, .. } = keel else { return String::new() };
    if *code == 1235 {
        let quoted = message.split_once(" '").and_then(|(_, rest)| rest.rsplit_once('\''));
        return format!("1235: {}", quoted.map_or(message.as_str(), |(text, _)| text));
    }
    let theirs = maria.map_or("success".to_string(), |code| code.to_string());
    // These say by a name what is missing; others only repeat the statement.
    let named = matches!(code, 1115 | 1128 | 1193 | 1231 | 1273 | 1286 | 1305);
    match named && maria.is_none() {
        true => format!("{code} for success: {}", short(message)),
        false => format!("{code} for {theirs}: {}", short(&without_quoted(message))),
    }
}

fn short(text: &str) -> String {
    text.chars().take(90).collect::<String>().replace(['\n', '|'], " ")
}

/// What stands between quotes gives way to dots, numbers to `N`.
fn without_quoted(text: &str) -> String {
    // The quote of "doesn't" opens nothing.
    let text = text.replace("n't ", "nt ");
    let mut out = String::new();
    for (index, part) in text.split('\'').enumerate() {
        out.push_str(if index % 2 == 0 { part } else { "'...'" });
    }
    let mut shown = String::new();
    for char in out.chars() {
        match char.is_ascii_digit() {
            true if shown.ends_with('N') => {}
            true => shown.push('N'),
            false => shown.push(char),
        }
    }
    shown
}

/// What kind of statement: its first words.
pub fn subject(sql: &str) -> String {
    let words: Vec<String> = upper_words(sql).take(3).collect();
    let count = match words.first().map(String::as_str) {
        Some("SHOW") if words.get(1).is_some_and(|word| word == "CREATE") => 3,
        Some("SHOW" | "CREATE" | "ALTER" | "DROP") => 2,
        _ => 1,
    };
    words.into_iter().take(count).collect::<Vec<_>>().join(" ")
}

fn first_word(sql: &str) -> String {
    upper_words(sql).next().unwrap_or_default()
}

fn upper_words(sql: &str) -> impl Iterator<Item = String> {
    let mut text = sql.trim_start();
    while let Some((_, rest)) = text.strip_prefix("/*").and_then(|rest| rest.split_once("*/")) {
        text = rest.trim_start();
    }
    let words = text.split(|char: char| !char.is_ascii_alphanumeric() && char != '_' && char != '@');
    words.filter(|word| !word.is_empty()).map(str::to_ascii_uppercase)
}

/// ORDER BY outside of parentheses: within, it says nothing of the rows that come out.
fn ordered(sql: &str) -> bool {
    let (mut depth, mut outer) = (0i32, String::new());
    for char in sql.chars() {
        depth += (char == '(') as i32 - (char == ')') as i32;
        outer.push(if depth == 0 { char } else { ' ' });
    }
    let words: Vec<String> = upper_words(&outer).collect();
    words.windows(2).any(|pair| pair[0] == "ORDER" && pair[1] == "BY")
}

/// Plans, counters and sizes: every server has its own, and nobody expects them to agree.
fn rows_are_the_servers_own(sql: &str) -> bool {
    let words: Vec<String> = upper_words(sql).take(4).collect();
    let word = |index: usize| words.get(index).map_or("", String::as_str);
    match word(0) {
        "EXPLAIN" | "ANALYZE" => true,
        "DESC" | "DESCRIBE" => {
            matches!(
                word(1),
                "SELECT" | "EXTENDED" | "UPDATE" | "DELETE" | "INSERT" | "FORMAT" | "PARTITIONS"
            )
        }
        "SHOW" => words.iter().skip(1).any(|word| {
            matches!(word.as_str(), "STATUS" | "PROFILE" | "PROFILES" | "ENGINES" | "PLUGINS" | "PROCESSLIST")
        }),
        _ => false,
    }
}

/// An outcome in a few lines, for the listing.
pub fn describe(outcome: &Outcome) -> String {
    let Outcome::Replies(found) = outcome else { return format!("{outcome:?}") };
    let shown = found.iter().map(|reply| {
        let text = crate::differential::describe(reply);
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("column ")).take(24);
        let lines = lines.map(|line| line.chars().take(300).collect::<String>());
        let names = match reply {
            Reply::Rows { columns, .. } => {
                columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>()
            }
            _ => Vec::new(),
        };
        let head = if names.is_empty() { String::new() } else { format!("[{}] ", names.join(" | ")) };
        head + &lines.collect::<Vec<_>>().join("\n")
    });
    shown.collect::<Vec<_>>().join("\n")
}

/// A statement for the listing.
pub fn shown(sql: &str) -> String {
    readable(sql).chars().take(600).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(cells: &[&str], warnings: u16) -> Reply {
        let rows = cells.iter().map(|cell| vec![Some(cell.as_bytes().to_vec())]).collect();
        Reply::Rows { columns: Vec::new(), rows, warnings, status: 2 }
    }

    fn error(code: u16, message: &str) -> Reply {
        Reply::Error { code, state: "HY000".into(), message: message.into() }
    }

    fn found(sql: &str, maria: Reply, keel: Reply) -> Option<Difference> {
        judge(sql, &[Outcome::Replies(vec![maria]), Outcome::Replies(vec![keel])], &How::default())
    }

    fn cause(text: &str) -> Option<Difference> {
        Some(Difference::Cause(text.into()))
    }

    #[test]
    fn order_counts_where_it_is_asked_for() {
        assert_eq!(found("select a", rows(&["1", "2"], 0), rows(&["2", "1"], 0)), None);
        let sorted = found("select a order\nby b", rows(&["1", "2"], 0), rows(&["2", "1"], 0));
        assert_eq!(sorted, cause("order of rows differs"));
        assert_eq!(found("select a", rows(&["1"], 0), rows(&["2"], 0)), cause("rows differ: SELECT"));
        let within =
            found("(select a order by b) union select c", rows(&["1", "2"], 0), rows(&["2", "1"], 0));
        assert_eq!(within, None);
        assert_eq!(found("explain select a", rows(&["1"], 0), rows(&["2"], 0)), None);
        assert_eq!(found("select a", rows(&["1"], 0), rows(&["1"], 1)), Some(Difference::Warnings));
    }

    #[test]
    fn errors_are_named_by_what_is_missing() {
        let unsupported = error(1235, "This version of MariaDB doesn't yet support 'CREATE VIEW'");
        assert_eq!(found("create view", rows(&[], 0), unsupported), cause("1235: CREATE VIEW"));
        let syntax = error(1064, "near 'x y' at line 12");
        assert_eq!(found("x", rows(&[], 0), syntax.clone()), cause("1064 for success: near '...' at line N"));
        assert_eq!(found("x", syntax.clone(), rows(&[], 0)), cause("error 1064 missing"));
        assert_eq!(found("x", syntax.clone(), syntax), None);
    }

    #[test]
    fn what_mariadb_did_not_answer_is_not_compared() {
        let outcomes = [Outcome::TimedOut, Outcome::TimedOut];
        assert!(!comparable(&outcomes) && judge("x", &outcomes, &How::default()).is_none());
        let outcomes = [Outcome::Replies(vec![]), Outcome::TimedOut];
        assert!(judge("x", &outcomes, &How::default()).is_some());
    }

    #[test]
    fn subjects() {
        assert_eq!(subject(" /* x */ show create table t1"), "SHOW CREATE TABLE");
        assert_eq!(subject("select 1 from t"), "SELECT");
        assert_eq!(subject("drop table t"), "DROP TABLE");
    }
}
