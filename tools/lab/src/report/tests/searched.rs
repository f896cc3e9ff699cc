//! Reports of searches, of open runs, and why results are what they are.

use super::{Arm, Folder, Scenario, assert_well_formed, fixture, many_clients, studies as studies_of, tuned};
use crate::record::Measurement;
use crate::report::{experiments, html, markdown};

/// Two engines in two cells, without settings and with the best that a search found.
fn searched(keels: f64) -> Vec<Measurement> {
    let arms = [
        Arm { name: "mariadb", engine: "mariadb", tps: &|_| 100.0 },
        Arm { name: "mariadb best", engine: "mariadb", tps: &|cell| [400.0, 200.0][cell] },
        Arm { name: "keel", engine: "keel", tps: &|_| 500.0 },
        Arm { name: "keel best", engine: "keel", tps: &|_| 500.0 * keels },
    ];
    let cells = [("256 MiB, 1 core, reads", None), ("512 MiB, 2 cores, TPC-C", None)];
    let scenario = Scenario {
        name: "zero-tuning",
        quick: false,
        cells: &cells,
        arms: &arms,
        pairs: 5,
        seconds: 30,
        noise: 0.002,
    };
    let mut runs = fixture::runs(&scenario, 3);
    for run in runs.iter_mut().filter(|run| run.arm.ends_with("best")) {
        run.server.settings = vec![format!("innodb_log_file_size={}G", run.cell.len())];
        run.server.settings_hash = run.cell.clone();
    }
    runs
}

#[test]
fn regret_is_what_the_default_leaves() {
    let studies = studies_of(searched(1.0));
    let text = markdown::page(&studies, &[]);
    assert!(text.contains("| mariadb | all 2 cells | median 62."), "{text}");
    assert!(text.contains("worst 75.") || text.contains("worst 74."), "{text}");
    assert!(text.contains("at worst (256 MiB, 1 core, reads)"), "{text}");
    assert!(text.contains("| keel | all 2 cells | median "), "{text}");
    let page = html::page(&studies, &[]);
    assert_well_formed(&page);
    assert!(page.contains("Regret: what no settings leave of the best found"));
    // What was found in each cell has a row of its own.
    assert!(page.contains("innodb_log_file_size=22G") && page.contains("innodb_log_file_size=23G"));
    // Searched settings that are worse than none leave a regret below zero.
    let worse = markdown::page(&studies_of(searched(0.8)), &[]);
    assert!(worse.contains("| keel | all 2 cells | median -2"), "{worse}");
    assert!(!markdown::page(&studies_of(tuned(2, 1)), &[]).contains("regret"));
}

#[test]
fn experiments_say_why_by_what_was_found() {
    let folder = Folder::with("why", &fixture::lines(&searched(1.0)));
    let text = experiments(&[folder.path().to_owned()]);
    let row = text.lines().find(|line| line.starts_with("| zero-tuning |")).expect("a row");
    assert!(row.contains("mariadb agrees") && row.contains("keel contradicts"), "{row}");
    assert!(
        row.contains("Default sizes that do not follow the machine leave a search much to find"),
        "{row}"
    );
    assert!(row.contains("the regret of keel is ") && row.contains("the regret of mariadb is 62."), "{row}");
    let mut same = tuned(5, 1);
    for run in same.iter_mut().filter(|run| run.arm == "mariadb tuned") {
        run.result.tps /= 5.56;
    }
    let folder = Folder::with("why-not", &fixture::lines(&same));
    let text = experiments(&[folder.path().to_owned()]);
    assert!(text.contains("A finding (no difference here): a page that must be read costs"), "{text}");
    let one = Folder::with("why-one", &fixture::lines(&tuned(1, 1)));
    let text = experiments(&[one.path().to_owned()]);
    assert!(text.contains("Cannot be told: one pair has no interval; measured from"), "{text}");
}

#[test]
fn what_came_at_a_rate_has_a_chart_of_its_own() {
    let mut runs = many_clients(2);
    runs.retain(|run| run.cell.starts_with("hybrid"));
    let mut open: Vec<Measurement> = Vec::new();
    for run in runs.iter().filter(|run| run.clients > 0 && run.cell == "hybrid, 200 clients") {
        for percent in [50.0, 90.0] {
            let mut run = run.clone();
            run.cell = format!("hybrid, due at {percent} % of the peak");
            (run.x, run.order) = (Some(percent), run.order + 1000 + percent as u32);
            run.result.more.insert(crate::runner::OFFERED.into(), run.result.tps * percent / 100.0);
            run.result.more.insert(crate::runner::OFFERED_SHARE.into(), percent / 100.0);
            open.push(run);
        }
    }
    runs.extend(open);
    let page = html::page(&studies_of(runs), &[]);
    assert_well_formed(&page);
    assert_eq!(page.matches("<h4>Latency against load: hybrid</h4>").count(), 1);
    assert!(page.contains("At 90 % of its own peak, 99 % take no longer than: "));
}
