//! The differential runner: one script, two servers, every visible difference.
//!
//! A script (`tests/sql/*.test`) is SQL statements that end with `;` at the end of a line, and `#` comments. A directive on
//! a line of its own changes how the next statement is compared:
//!
//! - `--sorted`: rows are compared as a set;
//! - `--only CODE`: both must fail with this error number, the text may differ;
//! - `--no-metadata`: column definitions are not compared;
//! - `--prepared`: the statement runs through PREPARE and EXECUTE of the binary protocol;
//! - `--ok`: both must succeed, the rows may differ (process lists, clocks).
//!
//! Whether an index was used is the plan's business: those two status bits are not compared; nor is, of rows, that the
//! session's state has changed, which MariaDB says where it has looked into routines of another database.
//!
//! `$FOLDER` stands for an empty folder that the server may use, each its own.
//!
//! After each statement SHOW WARNINGS is compared too. A script runs in a database of its own name, which is dropped.

use crate::client::{Cell, Client, Column, Reply};
use crate::process::scratch_dir;
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

/// One statement with how to compare it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Line in the script, from 1.
    pub line: usize,
    /// Without the final `;`.
    pub sql: String,
    /// Directives before it.
    pub rules: Vec<Rule>,
}

/// A directive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rule {
    /// Rows as a set.
    Sorted,
    /// This error number, any text.
    Only(u16),
    /// Columns are not compared.
    NoMetadata,
    /// Through the binary protocol.
    Prepared,
    /// Success is all that matters.
    Succeeds,
}

/// Splits a script into steps; `Err` names the line that is not understood.
pub fn parse(text: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let (mut sql, mut rules, mut first) = (String::new(), Vec::new(), 0);
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        if sql.is_empty() {
            let trimmed = line.trim();
            if trimmed.is_empty() || trimmed.starts_with('#') {
                continue;
            }
            if let Some(rule) = trimmed.strip_prefix("--").filter(|rest| !rest.starts_with(' ')) {
                rules.push(
                    parse_rule(rule).ok_or_else(|| format!("line {number}: no such directive: {trimmed}"))?,
                );
                continue;
            }
            first = number;
        }
        if !sql.is_empty() {
            sql.push('\n');
        }
        sql.push_str(line);
        if let Some(statement) = sql.trim_end().strip_suffix(';') {
            steps.push(Step { line: first, sql: statement.to_string(), rules: std::mem::take(&mut rules) });
            sql.clear();
        }
    }
    if sql.trim().is_empty() { Ok(steps) } else { Err(format!("line {first}: statement without end")) }
}

fn parse_rule(text: &str) -> Option<Rule> {
    Some(match text.split_once(' ').unwrap_or((text, "")) {
        ("sorted", "") => Rule::Sorted,
        ("only", code) => Rule::Only(code.parse().ok()?),
        ("no-metadata", "") => Rule::NoMetadata,
        ("prepared", "") => Rule::Prepared,
        ("ok", "") => Rule::Succeeds,
        _ => return None,
    })
}

/// What a script calls its folder.
const FOLDER: &str = "$FOLDER";

/// The folders of the two servers: of equal length, and otherwise found in no text.
struct Folders {
    both: PathBuf,
    ours: String,
    theirs: String,
}

impl Folders {
    fn new() -> io::Result<Folders> {
        let both = scratch_dir("files");
        let [ours, theirs] = ["ours__", "theirs"].map(|name| both.join(name).display().to_string());
        for folder in [&ours, &theirs] {
            std::fs::create_dir(folder)?;
        }
        Ok(Folders { both, ours, theirs })
    }

    /// Lets our reply speak of their folder.
    fn as_theirs(&self, reply: &mut Reply) {
        match reply {
            Reply::Ok { .. } => {}
            Reply::Error { message, .. } => *message = message.replace(&self.ours, &self.theirs),
            Reply::Rows { columns, rows, .. } => {
                for column in columns {
                    column.name = column.name.replace(&self.ours, &self.theirs);
                }
                for cell in rows.iter_mut().flatten().flatten() {
                    if let Ok(text) = std::str::from_utf8(cell)
                        && text.contains(&self.ours)
                    {
                        *cell = text.replace(&self.ours, &self.theirs).into_bytes();
                    }
                }
            }
        }
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.both);
    }
}

/// Runs `steps` on both servers in database `name`; returns how many were compared and a text for each difference.
pub fn compare(
    name: &str,
    steps: &[Step],
    keel: &mut Client,
    maria: &mut Client,
) -> io::Result<(usize, Vec<String>)> {
    let folders = Folders::new()?;
    for client in [&mut *keel, &mut *maria] {
        client.run(&format!("DROP DATABASE IF EXISTS `{name}`"))?;
        client.run(&format!("CREATE DATABASE `{name}` CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"))?;
        client.run(&format!("USE `{name}`"))?;
    }
    let mut differences = Vec::new();
    for step in steps {
        let mut ours = run_step(keel, step, &folders.ours)?;
        ours.iter_mut().for_each(|reply| folders.as_theirs(reply));
        let theirs = run_step(maria, step, &folders.theirs)?;
        if let Some(text) = difference(&ours, &theirs, &step.rules) {
            differences.push(format!("{name}:{}: {}\n{text}", step.line, step.sql));
        }
    }
    for client in [&mut *keel, &mut *maria] {
        client.run(&format!("DROP DATABASE `{name}`"))?;
    }
    Ok((steps.len(), differences))
}

fn run_step(client: &mut Client, step: &Step, folder: &str) -> io::Result<Vec<Reply>> {
    let sql = step.sql.replace(FOLDER, folder);
    let mut replies = if step.rules.contains(&Rule::Prepared) {
        match client.prepare(&sql)? {
            Err(error) => vec![error],
            Ok(statement) => {
                let replies = client.execute(&statement, &[])?;
                client.close(statement)?;
                replies
            }
        }
    } else {
        client.query(&sql)?
    };
    let shows_diagnostics = step.sql.trim_start().to_ascii_uppercase().starts_with("SHOW ");
    if !shows_diagnostics && !step.rules.iter().any(|rule| matches!(rule, Rule::Only(_) | Rule::Succeeds)) {
        replies.push(client.one("SHOW WARNINGS")?);
    }
    Ok(replies)
}

fn difference(ours: &[Reply], theirs: &[Reply], rules: &[Rule]) -> Option<String> {
    for rule in rules {
        match rule {
            Rule::Only(code) => {
                let same = [ours, theirs].iter().all(|replies| replies[0].error_code() == Some(*code));
                return if same { None } else { Some(both(&ours[..1], &theirs[..1])) };
            }
            Rule::Succeeds => {
                let failed = [ours, theirs].iter().any(|replies| replies[0].error_code().is_some());
                return if failed { Some(both(&ours[..1], &theirs[..1])) } else { None };
            }
            _ => {}
        }
    }
    let (a, b) = (normalised(ours, rules), normalised(theirs, rules));
    if a == b { None } else { Some(both(&a, &b)) }
}

/// SERVER_QUERY_NO_GOOD_INDEX_USED and SERVER_QUERY_NO_INDEX_USED.
const INDEX_USE: u16 = 0x30;
/// SERVER_SESSION_STATE_CHANGED.
const STATE_CHANGED: u16 = 0x4000;

/// What is left to compare once the rules have been applied.
fn normalised(replies: &[Reply], rules: &[Rule]) -> Vec<Reply> {
    let mut replies = replies.to_vec();
    for reply in &mut replies {
        if let Reply::Rows { status, .. } | Reply::Ok { status, .. } = reply {
            *status &= !INDEX_USE;
        }
        if let Reply::Rows { status, .. } = reply {
            *status &= !STATE_CHANGED;
        }
        if let Reply::Rows { columns, rows, .. } = reply {
            if rules.contains(&Rule::Sorted) {
                rows.sort();
            }
            if rules.contains(&Rule::NoMetadata) {
                columns.clear();
            }
        }
    }
    replies
}

fn both(ours: &[Reply], theirs: &[Reply]) -> String {
    let mut out = String::new();
    for index in 0..ours.len().max(theirs.len()) {
        let (a, b) = (ours.get(index), theirs.get(index));
        if a != b {
            let show = |reply: Option<&Reply>| reply.map_or("nothing".to_string(), describe);
            let _ = write!(out, "  keel:    {}\n  mariadb: {}\n", show(a), show(b));
        }
    }
    out
}

/// A reply in a line or a few.
pub fn describe(reply: &Reply) -> String {
    match reply {
        Reply::Ok { affected, insert_id, warnings, status, info } => {
            format!(
                "ok, affected {affected}, insert id {insert_id}, warnings {warnings}, status {status:#x}, info {info:?}"
            )
        }
        Reply::Error { code, state, message } => format!("error {code} ({state}): {message}"),
        Reply::Rows { columns, rows, warnings, status } => {
            let mut text = format!("{} rows, warnings {warnings}, status {status:#x}", rows.len());
            for column in columns {
                let _ = write!(text, "\n    column {}", describe_column(column));
            }
            for row in rows.iter().take(20) {
                let _ =
                    write!(text, "\n    {}", row.iter().map(describe_cell).collect::<Vec<_>>().join(" | "));
            }
            text
        }
    }
}

fn describe_column(column: &Column) -> String {
    format!(
        "{}.{}.{} ({}.{}) type {} length {} charset {} flags {:#x} decimals {}",
        column.schema,
        column.table,
        column.name,
        column.org_table,
        column.org_name,
        column.kind,
        column.length,
        column.charset,
        column.flags,
        column.decimals
    )
}

fn describe_cell(cell: &Cell) -> String {
    cell.as_ref().map_or("NULL".into(), |bytes| String::from_utf8_lossy(bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_split_into_statements_and_rules() {
        let steps = parse("# comment\nSELECT 1;\n--sorted\nSELECT 2\nFROM t;\n").unwrap();
        assert_eq!(steps.len(), 2);
        assert_eq!((steps[1].line, steps[1].sql.as_str()), (4, "SELECT 2\nFROM t"));
        assert_eq!(steps[1].rules, vec![Rule::Sorted]);
        assert!(parse("--nonsense\nSELECT 1;").is_err());
        assert!(parse("SELECT 1").is_err());
    }

    #[test]
    fn a_different_row_is_a_difference_unless_only_success_counts() {
        let rows = |text: &str| {
            vec![Reply::Rows { columns: vec![], rows: vec![vec![Some(text.into())]], warnings: 0, status: 2 }]
        };
        assert!(difference(&rows("1"), &rows("2"), &[]).is_some());
        assert!(difference(&rows("1"), &rows("2"), &[Rule::Succeeds]).is_none());
        assert!(difference(&rows("1"), &rows("1"), &[]).is_none());
    }
}
