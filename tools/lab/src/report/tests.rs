//! Whole reports of made-up results.

mod searched;

use std::fs;
use std::path::{Path, PathBuf};

use super::fixture::{self, Arm, Scenario};
use super::{compare, experiments, html, load, markdown, study, verdict};
use crate::record::Measurement;

/// A folder that is gone when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("keel-lab-report-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Folder(path)
    }

    fn with(name: &str, results: &str) -> Folder {
        let folder = Folder::new(name);
        fs::write(folder.0.join("results.jsonl"), results).expect("results");
        folder
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The package's settings against the tuned ones on two engines.
fn tuned(pairs: u32, seed: u64) -> Vec<Measurement> {
    let arms = [
        Arm { name: "mariadb package", engine: "mariadb", tps: &|_| 32.0 },
        Arm { name: "mariadb tuned", engine: "mariadb", tps: &|_| 178.0 },
        Arm { name: "keel", engine: "keel", tps: &|_| 410.0 },
        Arm { name: "keel tuned", engine: "keel", tps: &|_| 415.0 },
    ];
    let cells = [("64 clients", Some(64.0))];
    let scenario = Scenario {
        name: "default-vs-tuned",
        quick: true,
        cells: &cells,
        arms: &arms,
        pairs,
        seconds: 60,
        noise: 0.03,
    };
    fixture::runs(&scenario, seed)
}

/// Three workloads by five numbers of clients.
fn many_clients(seed: u64) -> Vec<Measurement> {
    let mut cells: Vec<(String, Option<f64>)> = Vec::new();
    for workload in ["read", "update", "hybrid"] {
        for clients in [50.0, 100.0, 200.0, 500.0, 1000.0] {
            cells.push((format!("{workload}, {clients} clients"), Some(clients)));
        }
    }
    let cells: Vec<(&str, Option<f64>)> = cells.iter().map(|(name, x)| (name.as_str(), *x)).collect();
    let shape = |cell: usize| [2400.0, 3300.0, 3900.0, 3700.0, 3100.0][cell % 5] / (1 + cell / 5) as f64;
    let flat = |cell: usize| [4400.0, 6300.0, 7900.0, 7900.0, 7700.0][cell % 5] / (1 + cell / 5) as f64;
    let arms = [
        Arm { name: "mariadb", engine: "mariadb", tps: &shape },
        Arm { name: "mariadb strong sync", engine: "mariadb", tps: &|cell| shape(cell) * 1.02 },
        Arm { name: "keel", engine: "keel", tps: &flat },
    ];
    let scenario = Scenario {
        name: "strong-sync",
        quick: false,
        cells: &cells,
        arms: &arms,
        pairs: 5,
        seconds: 90,
        noise: 0.02,
    };
    fixture::runs(&scenario, seed)
}

/// Twelve arms with long names in ten cells without an axis; some zero, some missing.
fn crowd(seed: u64) -> Vec<Measurement> {
    let names: Vec<String> = (0..12)
        .map(|arm| {
            format!("mariadb package settings but <innodb_setting_{arm}> & a \"rather\" long | name_{arm}")
        })
        .collect();
    let levels: Vec<Box<dyn Fn(usize) -> f64>> = (0..12)
        .map(|arm| {
            Box::new(
                move |cell: usize| if arm == 3 { 0.0 } else { 100.0 * (arm + 1) as f64 / (cell + 1) as f64 },
            ) as Box<dyn Fn(usize) -> f64>
        })
        .collect();
    let arms: Vec<Arm> = names
        .iter()
        .zip(&levels)
        .map(|(name, tps)| Arm { name, engine: "mariadb", tps: tps.as_ref() })
        .collect();
    let cells: Vec<String> =
        (0..10).map(|cell| format!("machine {cell} with 512M and one core, workload *{cell}*")).collect();
    let cells: Vec<(&str, Option<f64>)> = cells.iter().map(|name| (name.as_str(), None)).collect();
    let scenario = Scenario {
        name: "a scenario of its own",
        quick: false,
        cells: &cells,
        arms: &arms,
        pairs: 2,
        seconds: 700,
        noise: 0.05,
    };
    let mut runs = fixture::runs(&scenario, seed);
    runs.retain(|run| !(run.arm.ends_with("name_7") && run.cell.contains('4')));
    for run in runs.iter_mut().filter(|run| run.arm.ends_with("name_9")) {
        run.trouble = Some("the server ended in the run".to_owned());
    }
    runs
}

/// Pools along an axis of bytes, one pair.
fn ladder(seed: u64) -> Vec<Measurement> {
    let rungs =
        [(4, 76), (8, 142), (16, 238), (32, 238), (64, 378), (96, 378), (128, 378), (244, 567), (488, 567)];
    let name =
        |(pool, data): (u32, u32)| (format!("pool {} MiB, data {} MiB", pool * 16, data * 16), pool, data);
    let names: Vec<(String, u32, u32)> = rungs.into_iter().map(name).collect();
    let place = |pool: u32, data: u32| Some(f64::from(pool) / f64::from(data));
    let cells: Vec<(&str, Option<f64>)> =
        names.iter().map(|(name, pool, data)| (name.as_str(), place(*pool, *data))).collect();
    let arms = [
        Arm { name: "mariadb", engine: "mariadb", tps: &|cell| 40.0 * 1.6f64.powi(cell as i32) },
        Arm { name: "keel", engine: "keel", tps: &|cell| 70.0 * 1.6f64.powi(cell as i32) },
    ];
    let scenario = Scenario {
        name: "memory-ladder",
        quick: true,
        cells: &cells,
        arms: &arms,
        pairs: 1,
        seconds: 30,
        noise: 0.03,
    };
    fixture::runs(&scenario, seed)
}

fn studies(runs: Vec<Measurement>) -> Vec<study::Study> {
    study::studies(runs)
}

#[test]
fn what_was_put_in_is_what_the_report_says() {
    let studies = studies(tuned(5, 1));
    let (checked, _) = verdict::check(&studies[0]);
    assert_eq!(studies[0].arms[studies[0].reference].name, "mariadb package");
    let of = |engine: &str| {
        let first = checked
            .iter()
            .find(|checked| checked.number == 0 && studies[0].arms[checked.arms.0].engine == engine);
        first.expect("a claim").clone()
    };
    let (mariadb, keel) = (of("mariadb"), of("keel"));
    let (low, high) = mariadb.ours.interval.expect("an interval");
    assert!(low < 5.56 && 5.56 < high && high / low < 1.4, "{low} {high}");
    assert_eq!(mariadb.verdict, verdict::Verdict::Agrees);
    assert_eq!(keel.verdict, verdict::Verdict::Contradicts("no difference here"));
    let sentence = verdict::sentence(&studies[0], &checked);
    assert!(
        sentence.contains("mariadb agrees") && sentence.contains("keel contradicts (a finding)"),
        "{sentence}"
    );
}

#[test]
fn weather_that_pairs_share_is_not_in_the_ratio() {
    let mut runs = tuned(6, 3);
    for run in &mut runs {
        // The third pair ran on a machine three times as slow.
        if run.pair == 3 {
            run.result.tps /= 3.0;
        }
    }
    let studies = studies(runs);
    let group = studies[0].group(1, 0).expect("runs");
    let (low, high) = group.ratio.as_ref().and_then(|ratio| ratio.interval).expect("an interval");
    assert!(low > 4.5 && high < 6.9, "{low} {high}");
}

#[test]
fn markdown_has_a_row_for_each_arm_and_cell() {
    let text = markdown::page(&studies(many_clients(2)), &[]);
    let rows = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
    assert_eq!(rows("| keel | "), 15);
    assert_eq!(rows("| mariadb | "), 15);
    assert!(text.contains("**Verdict:** mariadb: of 15 comparisons"));
    assert!(text.contains("| strong over async, read, 1000 clients, queries/s | mariadb |"));
    let table: Vec<&str> = text.lines().filter(|line| line.starts_with("| arm")).collect();
    let columns = table[0].matches(" | ").count();
    assert!(
        text.lines()
            .filter(|line| line.starts_with("| keel | "))
            .all(|line| line.matches(" | ").count() == columns)
    );
}

#[test]
fn names_are_never_markup() {
    let studies = studies(crowd(4));
    let (text, page) = (markdown::page(&studies, &[]), html::page(&studies, &[]));
    assert!(!page.contains("<innodb_setting"));
    assert!(page.contains("&lt;innodb_setting_1&gt; &amp; a &quot;rather&quot;"));
    assert!(!text.contains("<innodb_setting") && text.contains("long \\| name_1"));
    for line in text.lines().filter(|line| line.starts_with("| mariadb package")) {
        let unescaped = line.replace("\\|", "");
        assert_eq!(unescaped.matches('|').count(), 19, "{line}");
    }
}

#[test]
fn missing_arms_and_troubles_are_said() {
    let studies = studies(crowd(4));
    let notes = studies[0].notes.join("\n");
    assert!(notes.contains("name_9: 20 runs are left out: the server ended in the run."), "{notes}");
    assert!(notes.contains("name_9 is missing: no run of it can be used."));
    assert!(notes.contains("name_7 is missing in machine 4"));
    assert!(notes.contains("2 pairs: intervals are wide"));
}

#[test]
fn one_pair_has_no_interval_and_no_verdict() {
    let studies = studies(ladder(5));
    let (checked, unasked) = verdict::check(&studies[0]);
    assert!(!checked.is_empty() && checked.iter().all(|checked| checked.verdict.word() == "cannot tell"));
    assert_eq!(unasked.len(), 1, "the rung that holds all: {unasked:?}");
    let text = markdown::page(&studies, &[]);
    assert!(text.contains("(one pair)") && text.contains("Each arm ran once"));
}

/// Tags that are opened are closed, in order.
fn assert_well_formed(page: &str) {
    let mut open: Vec<&str> = Vec::new();
    let body = &page[page.find("<body>").expect("a body")..];
    for part in body.split('<').skip(1) {
        let tag = part.split('>').next().unwrap_or_default();
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap_or_default();
        if let Some(closed) = tag.strip_prefix('/') {
            if closed == "html" {
                break;
            }
            assert_eq!(open.pop(), Some(closed), "near {part}");
        } else if !tag.ends_with('/') {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn html_is_one_file_with_charts_that_need_nothing_else() {
    for runs in [tuned(5, 1), tuned(1, 1), many_clients(2), crowd(4), ladder(5)] {
        let page = html::page(&studies(runs), &["a note".to_owned()]);
        assert_well_formed(&page);
        for banned in ["<script", "http://", "https://", "url(", "@import", "NaN", "inf "] {
            assert!(!page.contains(banned), "{banned}");
        }
        assert!(page.matches("<figure>").count() >= 3);
        assert_eq!(page.matches("<figure>").count(), page.matches("<figcaption>").count());
        assert_eq!(page.matches("role=\"img\"").count(), page.matches("<figure>").count());
    }
}

#[test]
fn charts_stay_within_their_frames() {
    for runs in [tuned(5, 1), many_clients(2), crowd(4), ladder(5)] {
        let page = html::page(&studies(runs), &[]);
        for chart in page.split("<svg viewBox=\"0 0 460 ").skip(1) {
            let chart = chart.split("</svg>").next().unwrap_or_default();
            let height: f64 =
                chart.split('"').next().and_then(|height| height.parse().ok()).expect("a height");
            for text in chart.split("<text ").skip(1) {
                let number = |name: &str| -> f64 {
                    let rest = text.split(&format!("{name}=\"")).nth(1).unwrap_or_default();
                    rest.split('"').next().and_then(|number| number.parse().ok()).expect("a number")
                };
                assert!(
                    (0.0..=460.0).contains(&number(" x")) && (0.0..=height).contains(&number(" y")),
                    "{text}"
                );
            }
        }
    }
}

#[test]
fn all_variables_that_differ_are_shown_and_addresses_are_not() {
    let page = html::page(&studies(tuned(2, 1)), &[]);
    for shown in
        ["innodb_log_file_size", "query_cache_size", "version_comment", "innodb_buffer_pool_size=640M"]
    {
        assert!(page.contains(shown), "{shown}");
    }
    assert!(!page.contains(">port<") && !page.contains(">sql_mode<"));
    assert!(page.contains("3 variables that differ between arms of one engine"));
    assert!(page.contains("one variable that differs between engines only"));
}

#[test]
fn a_cut_last_line_is_left_out_and_said() {
    let text = fixture::lines(&tuned(2, 1));
    let whole = text.lines().count();
    let folder = Folder::with("cut", &text[..text.len() - 100]);
    let loaded = load::load(folder.path()).expect("results");
    assert_eq!(loaded.runs.len(), whole - 1);
    assert!(loaded.notes[0].contains("was cut and is left out"), "{:?}", loaded.notes);
    super::report(&[folder.path().to_owned()]).expect("a report");
    let page = fs::read_to_string(folder.path().join("report.md")).expect("a page");
    assert!(page.contains("was cut and is left out"));
    assert!(folder.path().join("report.html").exists() && !folder.path().join("report.html.new").exists());
}

#[test]
fn a_line_cut_by_a_kill_and_written_on_is_left_out_and_said() {
    let text = fixture::lines(&tuned(2, 1));
    let mut lines: Vec<&str> = text.lines().collect();
    let joined = format!("{}{}", &lines[2][..200], lines[3]);
    lines.splice(2..4, [joined.as_str()]);
    let folder = Folder::with("joined", &format!("{}\n", lines.join("\n")));
    let loaded = load::load(folder.path()).expect("results");
    assert_eq!(loaded.runs.len(), 6);
    assert!(
        loaded.notes[0].starts_with("Line 3 of") && loaded.notes[0].contains("damaged"),
        "{:?}",
        loaded.notes
    );
}

#[test]
fn what_is_not_the_labs_is_refused_with_a_reason() {
    let refused = |name: &str, text: &str| {
        let folder = Folder::with(name, text);
        load::load(folder.path()).expect_err("an error")
    };
    assert!(refused("format", "{\"format\":7}\n").contains("format 7, and this keel reads format 1"));
    assert!(refused("other", "{\"a\":1}\n").contains("does not name its format"));
    assert!(refused("nothing", "").contains("it is empty"));
    assert!(refused("garbage", "\u{0}\u{1}\n%%%\n").contains("no line of it can be read"));
    let folder = Folder::new("empty");
    let error = load::load(folder.path()).expect_err("an error");
    assert!(error.contains("no folder that `keel lab run` wrote"), "{error}");
    assert!(super::report(&[]).is_err());
}

#[test]
fn a_folder_that_cannot_be_read_keeps_no_other_from_its_report() {
    let (good, bad) = (Folder::with("good", &fixture::lines(&tuned(1, 1))), Folder::new("bad"));
    let error = super::report(&[bad.path().to_owned(), good.path().to_owned()]).expect_err("an error");
    assert!(error.contains("bad") && good.path().join("report.html").exists());
}

#[test]
fn scenarios_in_one_folder_have_sections_of_their_own() {
    let mut runs = tuned(2, 1);
    runs.extend(ladder(5));
    let mut full = tuned(3, 8);
    full.iter_mut().for_each(|run| run.quick = false);
    runs.extend(full);
    let studies = studies(runs);
    let titles: Vec<String> = studies.iter().map(study::Study::title).collect();
    assert_eq!(titles, ["default-vs-tuned, quick", "memory-ladder, quick", "default-vs-tuned"]);
    assert_well_formed(&html::page(&studies, &[]));
}

#[test]
fn two_runs_of_the_same_agree_and_a_faster_build_does_not() {
    let a = Folder::with("a", &fixture::lines(&tuned(5, 1)));
    let b = Folder::with("b", &fixture::lines(&tuned(5, 2)));
    let same = compare::page(a.path(), b.path()).expect("a comparison");
    assert!(
        same.contains("**Verdict:** the two agree within their intervals in all of 4 comparisons."),
        "{same}"
    );
    let mut faster = tuned(5, 2);
    for run in faster.iter_mut().filter(|run| run.arm == "keel tuned") {
        run.result.tps *= 1.5;
        run.server.commit = Some("abcdef0123456789".to_owned());
    }
    let c = Folder::with("c", &fixture::lines(&faster));
    let other = compare::page(a.path(), c.path()).expect("a comparison");
    assert!(
        other.contains("the two differ in 1 of 4 comparisons") && other.contains("keel tuned, 64 clients"),
        "{other}"
    );
    assert!(other.contains("commit of keel tuned: 9b72702a8d4… in A, abcdef01234… in B"), "{other}");
    let one = Folder::with("one", &fixture::lines(&tuned(1, 2)));
    let untold = compare::page(a.path(), one.path()).expect("a comparison");
    assert!(untold.contains("cannot be told"), "{untold}");
    let else_where = Folder::with("else", &fixture::lines(&ladder(2)));
    let error = compare::page(a.path(), else_where.path()).expect_err("an error");
    assert!(error.contains("nothing to compare"), "{error}");
}

#[test]
fn experiments_have_a_row_for_each_scenario() {
    let mut full = tuned(5, 1);
    full.iter_mut().for_each(|run| run.quick = false);
    let a = Folder::with("row-a", &fixture::lines(&full));
    let b = Folder::with("row-b", &fixture::lines(&tuned(1, 7)));
    let c = Folder::with("row-c", &fixture::lines(&crowd(4)));
    let gone = a.path().join("nowhere");
    let dirs = [a.path().to_owned(), b.path().to_owned(), c.path().to_owned(), gone];
    let text = experiments(&dirs);
    let row = text.lines().find(|line| line.starts_with("| default-vs-tuned |")).expect("the full run's row");
    assert!(row.contains("mariadb: ") && row.contains("| 5.56 |"), "{row}");
    assert!(row.contains("mariadb agrees; keel contradicts"), "{row}");
    assert!(
        row.contains(
            "measured from mariadb package to mariadb tuned: bytes read a transaction 400 KiB to 8.79 KiB"
        ),
        "{row}"
    );
    // Keel has no settings here; MariaDB's best arm is the tuned one.
    let keel = 410.0 / 178.0;
    let shown =
        row.rsplit("| tuned: ").next().and_then(|rest| rest.split_whitespace().next()).expect("a ratio");
    assert!((shown.parse::<f64>().expect("a number") / keel - 1.0).abs() < 0.05, "{row}: {keel}");
    assert!(!text.contains("default-vs-tuned, quick"));
    assert!(text.contains("| a scenario of its own | none |"));
    assert!(text.contains("Not measured here: ext4-vs-xfs, ") && text.contains("nowhere"));
}

#[test]
fn what_the_lab_left_out_is_said() {
    let a = Folder::with("skipped", &fixture::lines(&tuned(1, 1)));
    let facts = r#"{"scenario":"default-vs-tuned","quick":true,"skipped":[{"what":"mysql","why":"no mysqld is in PATH"}]}"#;
    fs::write(a.path().join("lab.json"), facts).expect("facts");
    super::report(&[a.path().to_owned()]).expect("a report");
    for page in ["report.md", "report.html"] {
        let text = fs::read_to_string(a.path().join(page)).expect("a page");
        assert!(text.contains("mysql was left out: no mysqld is in PATH."), "{page}");
    }
    fs::write(a.path().join("lab.json"), "{").expect("facts");
    super::report(&[a.path().to_owned()]).expect("a report all the same");
}

#[test]
fn odd_figures_make_no_panic() {
    let mut runs = crowd(9);
    for (index, run) in runs.iter_mut().enumerate() {
        let odd = [0.0, -1.0, 1e-300, 1e300, 7.0][index % 5];
        run.result.tps = odd;
        run.result.p99_ms = -odd;
        run.result.series = vec![odd; index % 4];
        run.result.latencies = vec![(odd, 0.5), (odd, 2.0)];
        run.result.seconds = odd;
        run.x = Some(odd);
        run.cost.hit_rate = Some(odd);
    }
    let studies = studies(runs);
    assert_well_formed(&html::page(&studies, &[]));
    markdown::page(&studies, &[]);
}

/// Writes the made-up results and their reports to a folder, to be looked at in a browser.
#[test]
fn reports_to_look_at() {
    let Some(folder) = std::env::var_os("KEEL_LAB_SHOW").map(PathBuf::from) else { return };
    let all = [
        ("tuned", tuned(5, 1)),
        ("one", tuned(1, 1)),
        ("clients", many_clients(2)),
        ("crowd", crowd(4)),
        ("ladder", ladder(5)),
    ];
    for (name, runs) in all {
        let dir = folder.join(name);
        fs::create_dir_all(&dir).expect("a folder");
        fs::write(dir.join("results.jsonl"), fixture::lines(&runs)).expect("results");
        super::report(&[dir]).expect("a report");
    }
}
