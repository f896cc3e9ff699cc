//! Tables, written once and shown as Markdown or as HTML.

use std::fmt::Write;

use crate::found::Place;
use crate::record::Measurement;
use crate::report::study::{Arm, Study};
use crate::report::verdict::Checked;
use crate::report::words;

/// A column.
#[derive(Debug, Clone)]
pub struct Column {
    /// What stands above it.
    pub head: String,
    /// Whether its cells are figures, set to the right.
    pub figures: bool,
}

/// Rows of plain text; escaping is left to where they are shown.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Its columns.
    pub columns: Vec<Column>,
    /// As many texts in each as there are columns.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Of names of columns; those that begin with `#` hold figures.
    pub fn new(heads: &[&str]) -> Table {
        let column = |head: &&str| Column {
            head: head.trim_start_matches('#').to_owned(),
            figures: head.starts_with('#'),
        };
        Table { columns: heads.iter().map(column).collect(), rows: Vec::new() }
    }

    /// Leaves out columns of which no row has anything but a dash.
    pub fn without_empty_columns(mut self) -> Table {
        let keep: Vec<bool> = (0..self.columns.len())
            .map(|column| self.rows.iter().any(|row| !matches!(row[column].as_str(), "" | "–")))
            .collect();
        let mut kept = keep.iter();
        self.columns.retain(|_| kept.next().copied().unwrap_or(true));
        for row in &mut self.rows {
            let mut kept = keep.iter();
            row.retain(|_| kept.next().copied().unwrap_or(true));
        }
        self
    }

    /// As Markdown.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut text = line(self.columns.iter().map(|column| words::markdown(&column.head)).collect());
        let rule = |column: &Column| if column.figures { "--:" } else { "---" }.to_owned();
        text.push_str(&line(self.columns.iter().map(rule).collect()));
        for row in &self.rows {
            text.push_str(&line(row.iter().map(|cell| words::markdown(cell)).collect()));
        }
        text
    }

    /// As HTML, in a frame that scrolls where the screen is narrow.
    pub fn html(&self, caption: &str) -> String {
        self.tags(caption, "scroll")
    }

    /// As HTML for rows of long texts: on a narrow screen each row is a card of its own.
    pub fn cards(&self, caption: &str) -> String {
        self.tags(caption, "scroll cards")
    }

    fn tags(&self, caption: &str, kind: &str) -> String {
        let caption = words::html(caption);
        let mut text = format!(
            "<div class=\"{kind}\" role=\"region\" aria-label=\"{caption}\" tabindex=\"0\"><table>\n<caption>{caption}</caption>\n<thead><tr>"
        );
        for column in &self.columns {
            let _ = write!(text, "<th scope=\"col\"{}>{}</th>", class(column), words::html(&column.head));
        }
        text.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            text.push_str("<tr>");
            for (index, (cell, column)) in row.iter().zip(&self.columns).enumerate() {
                let cell = words::html(cell);
                let _ = match index {
                    0 => write!(text, "<th scope=\"row\">{cell}</th>"),
                    _ => {
                        let head = words::html(&column.head);
                        write!(text, "<td{} data-head=\"{head}\">{cell}</td>", class(column))
                    }
                };
            }
            text.push_str("</tr>\n");
        }
        text.push_str("</tbody></table></div>\n");
        text
    }
}

fn class(column: &Column) -> &'static str {
    if column.figures { " class=\"n\"" } else { "" }
}

/// The scenario's table: a row for each arm in each cell.
pub fn arms(study: &Study, checked: &[Checked]) -> Table {
    let over = format!("#ratio to {} [95 %]", study.arms[study.reference].name);
    let mut table = Table::new(&[
        "arm",
        "cell",
        "#pairs",
        &over,
        "#the report's",
        "#tps",
        "#qps",
        "#new orders/min",
        "#p50 ms",
        "#p95 ms",
        "#p99 ms",
        "#max ms",
        "#CPU us/query",
        "#switches/tx",
        "#syncs/tx",
        "#written/tx",
        "#read/tx",
        "#hit rate",
        "#errors",
    ]);
    for cell in 0..study.cells.len() {
        for arm in 0..study.arms.len() {
            table.rows.push(row(study, checked, arm, cell));
        }
    }
    let names = names_of_more(study);
    if names.len() <= MORE_BESIDE_MAX {
        table.columns.extend(columns_of_more(&names));
        let places =
            (0..study.cells.len()).flat_map(|cell| (0..study.arms.len()).map(move |arm| (arm, cell)));
        for (row, (arm, cell)) in table.rows.iter_mut().zip(places) {
            row.extend(values_of_more(study, &names, arm, cell));
        }
    }
    table.without_empty_columns()
}

fn row(study: &Study, checked: &[Checked], arm: usize, cell: usize) -> Vec<String> {
    let mut row = vec![study.arms[arm].name.clone(), study.cells[cell].name.clone()];
    let Some(group) = study.group(arm, cell) else {
        row.push("missing".to_owned());
        row.resize(19, "–".to_owned());
        return row;
    };
    let dash = words::figure_or_dash;
    let bytes = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), words::bytes);
    row.push(group.runs.len().to_string());
    row.push(match &group.ratio {
        _ if arm == study.reference => "1".to_owned(),
        Some(ratio) => words::estimate(ratio),
        None => "–".to_owned(),
    });
    row.push(reports_ratio(study, checked, arm, cell).map_or_else(|| "–".to_owned(), words::range));
    row.extend([
        dash(group.median(|run| Some(run.result.tps))),
        dash(group.median(|run| Some(run.result.qps))),
        dash(group.median(|run| run.result.new_orders_per_minute)),
        dash(group.median(|run| Some(run.result.p50_ms))),
        dash(group.median(|run| Some(run.result.p95_ms))),
        dash(group.median(|run| Some(run.result.p99_ms))),
        dash(group.median(|run| Some(run.result.max_ms))),
        dash(group.median(|run| run.cost.cpu_us_per_query)),
        dash(group.median(|run| run.cost.switches_per_transaction)),
        dash(group.median(|run| run.cost.syncs_per_transaction)),
        bytes(group.median(|run| run.cost.bytes_written_per_transaction)),
        bytes(group.median(|run| run.cost.bytes_read_per_transaction)),
        group
            .median(|run| run.cost.hit_rate)
            .map_or_else(|| "–".to_owned(), |rate| format!("{:.2} %", rate * 100.0)),
        group.errors().to_string(),
    ]);
    row
}

/// What the report says of the same division, where it does.
pub fn reports_ratio(study: &Study, checked: &[Checked], arm: usize, cell: usize) -> Option<(f64, f64)> {
    let same = |checked: &&Checked| {
        checked.arms == (arm, study.reference)
            && checked.cells == (cell, cell)
            && checked.claim.figure == study.figure
    };
    checked.iter().find(same).map(|checked| checked.claim.ratio)
}

/// What the report says and what is found here.
pub fn claims(study: &Study, checked: &[Checked]) -> Table {
    let mut table = Table::new(&[
        "the report says",
        "engine",
        "cell",
        "#the report's",
        "#ours [95 %]",
        "verdict",
        "source",
    ]);
    for checked in checked {
        let claim = &checked.claim;
        let arm = &study.arms[checked.arms.0];
        let engine = if claim.of.setting.is_empty() { &arm.name } else { &arm.engine };
        // A claim that is not of every cell says its own.
        let every = claim.of.place == Place::Every;
        let cell = if every { study.cells[checked.cells.0].name.as_str() } else { "" };
        table.rows.push(vec![
            format!("{}, {}", claim.says, claim.figure.name()),
            engine.clone(),
            cell.to_owned(),
            words::range(claim.ratio),
            words::estimate(&checked.ours),
            checked.verdict.text(),
            claim.source.to_owned(),
        ]);
    }
    table.without_empty_columns()
}

/// Further figures, as many as this, stand in the scenario's table.
const MORE_BESIDE_MAX: usize = 2;

/// Further figures that only this scenario has, where they are more than its table takes: a row for each arm in each cell.
pub fn more(study: &Study) -> Option<Table> {
    let names = names_of_more(study);
    if names.len() <= MORE_BESIDE_MAX {
        return None;
    }
    let mut table = Table::new(&["arm", "cell"]);
    table.columns.extend(columns_of_more(&names));
    for cell in 0..study.cells.len() {
        for arm in (0..study.arms.len()).filter(|arm| study.group(*arm, cell).is_some()) {
            let mut row = vec![study.arms[arm].name.clone(), study.cells[cell].name.clone()];
            row.extend(values_of_more(study, &names, arm, cell));
            table.rows.push(row);
        }
    }
    Some(table.without_empty_columns())
}

fn names_of_more(study: &Study) -> Vec<&str> {
    let mut names: Vec<&str> =
        study.runs().flat_map(|run| run.result.more.keys().map(String::as_str)).collect();
    names.sort_unstable();
    names.dedup();
    names.truncate(40);
    names
}

fn columns_of_more(names: &[&str]) -> Vec<Column> {
    names.iter().map(|name| Column { head: name.replace('_', " "), figures: true }).collect()
}

fn values_of_more(study: &Study, names: &[&str], arm: usize, cell: usize) -> Vec<String> {
    let group = study.group(arm, cell);
    let value = |name: &&str| group.and_then(|group| group.median(|run| run.result.more.get(*name).copied()));
    names.iter().map(value).map(words::figure_or_dash).collect()
}

/// Versions and settings of the arms; of an arm whose settings differ between cells, a row for each.
pub fn settings(study: &Study) -> Table {
    let heads =
        ["arm", "cell", "engine", "version", "commit", "settings", "set by the lab", "limits", "hash"];
    let mut table = Table::new(&heads);
    for (arm, of) in study.arms.iter().enumerate() {
        let cells = (0..study.cells.len()).filter_map(|cell| {
            Some((study.cells[cell].name.as_str(), study.group(arm, cell)?.runs.values().next()?))
        });
        let mut runs: Vec<(&str, &Measurement)> = cells.collect();
        runs.dedup_by(|(_, a), (_, b)| {
            (&a.server.settings_hash, &a.server.limits) == (&b.server.settings_hash, &b.server.limits)
        });
        let one = runs.len() == 1;
        table.rows.extend(runs.iter().map(|(cell, run)| settings_row(of, if one { "" } else { cell }, run)));
    }
    table.without_empty_columns()
}

fn settings_row(arm: &Arm, cell: &str, run: &Measurement) -> Vec<String> {
    let server = &run.server;
    let settings = if server.settings.is_empty() { "none".to_owned() } else { server.settings.join("; ") };
    vec![
        arm.name.clone(),
        cell.to_owned(),
        server.engine.clone(),
        server.version.clone(),
        server.commit.as_deref().map(|commit| words::cut(commit, 12)).unwrap_or_default(),
        settings,
        server.overrides.join("; "),
        server.limits.join(", "),
        words::cut(&server.settings_hash, 12),
    ]
}

/// Variables that name places, moments or the server itself; they differ always and mean nothing here.
const ADDRESSES: [&str; 24] = [
    "basedir",
    "bind_address",
    "character_sets_dir",
    "datadir",
    "general_log_file",
    "hostname",
    "identity",
    "innodb_data_home_dir",
    "innodb_log_group_home_dir",
    "innodb_undo_directory",
    "last_insert_id",
    "lc_messages_dir",
    "log_bin_basename",
    "log_bin_index",
    "log_error",
    "pid_file",
    "plugin_dir",
    "port",
    "rand_seed1",
    "server_uid",
    "slow_query_log_file",
    "socket",
    "timestamp",
    "tmpdir",
];

/// Variables that differ between arms: those of one engine, and those between engines. A column for each arm.
pub fn variables(study: &Study) -> (Table, Table) {
    let runs: Vec<_> = (0..study.arms.len()).filter_map(|arm| Some((arm, study.run_of(arm)?))).collect();
    let mut heads = vec!["variable"];
    heads.extend(runs.iter().map(|(arm, _)| study.arms[*arm].name.as_str()));
    let (mut within, mut across) = (Table::new(&heads), Table::new(&heads));
    let mut names: Vec<&String> = runs.iter().flat_map(|(_, run)| run.server.variables.keys()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names.into_iter().filter(|name| !ADDRESSES.contains(&name.as_str())) {
        let values: Vec<Option<&String>> =
            runs.iter().map(|(_, run)| run.server.variables.get(name)).collect();
        if values.iter().all(|value| *value == values[0]) {
            continue;
        }
        let differs_within = runs.iter().zip(&values).any(|((a, _), value)| {
            let same_engine = |b: usize| study.arms[b].engine == study.arms[*a].engine;
            runs.iter().zip(&values).any(|((b, _), other)| same_engine(*b) && value != other)
        });
        let mut row = vec![name.clone()];
        row.extend(
            values.iter().map(|value| value.map_or_else(|| "–".to_owned(), |value| words::cut(value, 200))),
        );
        if differs_within { within.rows.push(row) } else { across.rows.push(row) }
    }
    (within, across)
}

/// Workloads and seeds: a row for each workload, seeds by pair.
pub fn workloads(study: &Study) -> Table {
    let mut table = Table::new(&["workload", "seeds by pair"]);
    let mut seeds: Vec<(&str, Vec<(u32, u64)>)> = Vec::new();
    for run in study.runs() {
        let entry = (run.pair, run.seed);
        match seeds.iter_mut().find(|(workload, _)| *workload == run.workload) {
            Some((_, pairs)) if pairs.contains(&entry) => {}
            Some((_, pairs)) => pairs.push(entry),
            None => seeds.push((&run.workload, vec![entry])),
        }
    }
    for (workload, mut pairs) in seeds {
        pairs.sort_unstable();
        let pairs: Vec<String> = pairs.iter().map(|(pair, seed)| format!("{pair}: {seed}")).collect();
        table.rows.push(vec![workload.to_owned(), pairs.join(", ")]);
    }
    table
}
