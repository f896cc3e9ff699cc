//! Scores of many scripts as tables: `docs/MTR.md`, and a listing per script to read.

use super::groups;
use super::run::ScriptScore;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Causes that the report lists.
const CAUSES_MAX: usize = 60;

/// The report as a page of Markdown.
pub fn page(scores: &[ScriptScore], version: &str) -> String {
    let mut out = String::from(INTRODUCTION);
    let (agreed, statements) = sums(scores.iter());
    let (alone, follow) = disagreements(scores);
    // MariaDB puts an old version before its own, for old replicas.
    let version = version.trim_start_matches("5.5.5-");
    let _ = write!(
        out,
        "\nOracle: {version}. **{agreed} of {statements} statements agree: {}.** Of the others {alone} stand on their own, {follow} follow\n\
         from one before (a table that is missing, a prepared statement that was refused).\n\n\
         | group | scripts | statements | agree | |\n|---|---|---|---|---|\n",
        percent(agreed, statements)
    );
    for name in groups::names() {
        let members = || scores.iter().filter(move |score| groups::group_of(&score.name) == Some(name));
        let (agreed, statements) = sums(members());
        if members().next().is_some() {
            let _ = writeln!(
                out,
                "| {name} | {} | {statements} | {agreed} | {} |",
                members().count(),
                percent(agreed, statements)
            );
        }
    }
    let _ = writeln!(
        out,
        "| all | {} | {statements} | {agreed} | {} |",
        scores.len(),
        percent(agreed, statements)
    );
    out.push_str(CAUSES);
    for (cause, (alone, follow), first) in causes(scores).into_iter().take(CAUSES_MAX) {
        let _ = writeln!(out, "| {} | {alone} | {follow} | {first} |", cell(&cause));
    }
    out.push_str("\n## Scripts\n\n`left out`: commands that the runner does not do. `silent`: MariaDB gave no answer in time.\n");
    for name in groups::names().map(Some).chain([None]) {
        let members: Vec<_> = scores.iter().filter(|score| groups::group_of(&score.name) == name).collect();
        if members.is_empty() {
            continue;
        }
        let _ = write!(
            out,
            "\n### {}\n\n| script | statements | agree | | left out | silent | ended early |\n|---|---|---|---|---|---|---|\n",
            name.unwrap_or("others")
        );
        for score in members {
            let ended: String = score.ended.as_deref().unwrap_or("").chars().take(60).collect();
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} | {} | {} | {} |",
                score.name,
                score.statements,
                score.agreed,
                percent(score.agreed, score.statements),
                score.unsupported,
                score.unanswered,
                cell(&ended)
            );
        }
    }
    out
}

const INTRODUCTION: &str = "\
# MariaDB's own test suite as the judge

`cargo x mtr --score` writes this page. It takes the scripts of suite `main` from Debian's package `mariadb-test` where it is installed
(none of them is part of this repository), runs them statement by statement against MariaDB and Keel side by side
(`tools/testkit/src/mtr`), and compares for each statement: success or error number and SQLSTATE, names of columns, rows, affected
rows of changes, warnings by number; types and lengths where the script itself shows metadata. Each statement counts by itself, and
the script goes on whatever came out.

What is not compared: rows of EXPLAIN, ANALYZE and SHOW STATUS and their like, which are each server's own; the order of rows without
ORDER BY; rows and warnings that the script switches off; texts of errors. The engines MyISAM, Aria and MEMORY are replaced by InnoDB on
both sides. Options that a script wants the server started with are not given. A statement may take 10 seconds.
";

const CAUSES: &str = "
## Causes

Most frequent first: a number behind which Keel says what it does not support (1235), else its error and MariaDB's, or what differs.
`alone` counts statements that differ by themselves, `follow` those that name something an earlier one should have made.

| cause | alone | follow | first seen in |
|---|---|---|---|
";

/// All causes: how often alone and how often following, and where first; most frequent first.
pub fn causes(scores: &[ScriptScore]) -> Vec<(String, (usize, usize), String)> {
    let mut all: BTreeMap<&str, ((usize, usize), &str)> = BTreeMap::new();
    for score in scores {
        for (cause, (alone, follow)) in &score.causes {
            let entry = all.entry(cause).or_insert(((0, 0), &score.name));
            entry.0.0 += alone;
            entry.0.1 += follow;
        }
    }
    let mut found: Vec<_> = all
        .into_iter()
        .map(|(cause, (counts, first))| (cause.to_string(), counts, first.to_string()))
        .collect();
    found.sort_by(|a, b| (b.1.0 + b.1.1).cmp(&(a.1.0 + a.1.1)).then(a.0.cmp(&b.0)));
    found
}

/// What a script's statements came to, to read.
pub fn listing(score: &ScriptScore) -> String {
    let mut out = format!(
        "{}: {} of {} agree ({}), {} left out, {} silent{}\n",
        score.name,
        score.agreed,
        score.statements,
        percent(score.agreed, score.statements),
        score.unsupported,
        score.unanswered,
        score.ended.as_deref().map(|why| format!(", ended: {why}")).unwrap_or_default()
    );
    for crash in &score.crashes {
        let _ = write!(out, "\n!!! Keel died:\n{crash}\n");
    }
    for found in &score.disagreements {
        let follows = if found.follows { " (follows)" } else { "" };
        let _ = write!(
            out,
            "\n{}{follows} [{}]\n{}\n  mariadb: {}\n  keel:    {}\n",
            found.place, found.cause, found.sql, found.maria, found.keel
        );
    }
    out
}

/// How many agree, and of how many.
pub fn sums<'a>(scores: impl Iterator<Item = &'a ScriptScore>) -> (usize, usize) {
    scores.fold((0, 0), |sum, score| (sum.0 + score.agreed, sum.1 + score.statements))
}

fn disagreements(scores: &[ScriptScore]) -> (usize, usize) {
    let all = scores.iter().flat_map(|score| score.causes.values());
    all.fold((0, 0), |sum, (alone, follow)| (sum.0 + alone, sum.1 + follow))
}

/// A share with one decimal; nothing of nothing is no share.
pub fn percent(part: usize, whole: usize) -> String {
    match whole {
        0 => "-".into(),
        _ => format!("{:.1} %", part as f64 * 100.0 / whole as f64),
    }
}

fn cell(text: &str) -> String {
    text.replace(['|', '\n'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_counts_groups_and_causes() {
        let causes =
            [("1235: CREATE VIEW".to_string(), (2, 3)), ("rows differ: SELECT".to_string(), (1, 0))].into();
        let score =
            ScriptScore { name: "view".into(), statements: 10, agreed: 4, causes, ..ScriptScore::default() };
        let page = page(&[score], "10.11");
        assert!(page.contains("4 of 10 statements agree: 40.0 %"));
        assert!(page.contains("| view | 1 | 10 | 4 | 40.0 % |"));
        assert!(page.contains("| 1235: CREATE VIEW | 2 | 3 | view |"));
    }
}
