//! What the five reports found, by scenario: what was divided by what, the figure, and where it stands in the report.
//!
//! Reports are named as in the mission: S0 the TPC-C of MariaDB 10.3 on a virtual machine (tests T1 to T4), S1 from 30 k to 101 k queries
//! per second, S2 and S3 TencentDB's strong sync and its ladder of memory, S4 XtraDB of 2009.
//!
//! An arm's name is its engine's and its setting's: `mariadb tuned`, or `keel` alone where nothing is set. A [`Claim`] names settings, an
//! empty name where none will do, so it is asked of each engine that has both. It is never asked across engines: what a report says of tuned over untuned is no statement
//! about one server against another.

use crate::record::Measurement;

/// A figure that arms are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Transactions per second.
    Transactions,
    /// Queries per second.
    Queries,
    /// New orders per minute of TPC-C.
    NewOrders,
    /// The 95th percentile of latency, ms.
    P95,
}

impl Figure {
    /// Its value in a run, where it was measured.
    pub fn of(self, run: &Measurement) -> Option<f64> {
        match self {
            Figure::Transactions => Some(run.result.tps),
            Figure::Queries => Some(run.result.qps),
            Figure::NewOrders => run.result.new_orders_per_minute,
            Figure::P95 => Some(run.result.p95_ms),
        }
    }

    /// Its name with its unit, for axes and tables.
    pub fn name(self) -> &'static str {
        match self {
            Figure::Transactions => "transactions/s",
            Figure::Queries => "queries/s",
            Figure::NewOrders => "new orders/min",
            Figure::P95 => "p95, ms",
        }
    }
}

/// Which cell a side of a claim is taken in.
#[derive(Debug, Clone, PartialEq)]
pub enum Place {
    /// Every cell, the same on both sides.
    Every,
    /// Cells whose names hold all these words, the same on both sides.
    Holding(String),
    /// The cell at this place on the axis, or within a twentieth of it.
    At(f64),
    /// The first cell whose name has this word.
    Word(&'static str),
    /// Among cells that hold the word, the one where the arm is best.
    Peak(&'static str),
}

/// A side of a division: a setting, by any of its names, and a place.
#[derive(Debug, Clone, PartialEq)]
pub struct Side {
    /// Names of the setting, in small letters; empty names any setting, the same on both sides.
    pub setting: &'static [&'static str],
    /// Where.
    pub place: Place,
}

/// A ratio that a report states.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// What is divided by what, in words.
    pub says: String,
    /// The figure divided.
    pub figure: Figure,
    /// The dividend.
    pub of: Side,
    /// The divisor.
    pub over: Side,
    /// The report's ratio; a range where it has several and no place for each.
    pub ratio: (f64, f64),
    /// Where it stands.
    pub source: &'static str,
}

/// What is known of a scenario from its report.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The scenario's name.
    pub scenario: &'static str,
    /// The report.
    pub report: &'static str,
    /// What is compared, in a line.
    pub asks: &'static str,
    /// What decides between arms.
    pub figure: Figure,
    /// Settings of the arm that all others are divided by, the best first; MariaDB's where several engines have it.
    pub reference: &'static [&'static str],
    /// What the cells' places are along, where their names do not say it.
    pub axis: Option<&'static str>,
    /// What it found; the first is the one that `docs/experiments.md` shows.
    pub claims: Vec<Claim>,
    /// Why.
    pub why: Why,
}

/// Why a result is what it is. Each sentence is true whatever is measured; which of them is told depends on that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Why {
    /// What makes the report's difference, where ours is like it.
    pub agrees: &'static str,
    /// What sets our runs apart from the report's, where ours is another.
    pub contradicts: &'static str,
}

/// All scenarios with a report behind them, in the order of their tables.
pub const SCENARIOS: [&str; 10] = [
    "default-vs-tuned",
    "ext4-vs-xfs",
    "binlog-cost",
    "thirty-to-hundred-k",
    "strong-sync",
    "memory-ladder",
    "xtradb",
    "io-scheduler",
    "connection-storm",
    "zero-tuning",
];

const TUNED: &[&str] = &["tuned"];
const PACKAGE: &[&str] = &["package", "default", "defaults", ""];
const BINLOG_OFF: &[&str] = &["no binlog"];
const BINLOG_ON: &[&str] = &["binlog"];
const ALL_OF_S1: &[&str] = &["all"];
const NONE_OF_S1: &[&str] = &["defaults", "default", ""];
const STRONG: &[&str] = &["strong sync"];
const ASYNC: &[&str] = &["async", ""];
const XTRADB: &[&str] = &["xtradb"];
const INNODB: &[&str] = &["innodb 2008", "innodb"];
const BEST: &[&str] = &["best", "best of search"];
const UNSET: &[&str] = &["default", "defaults", "package", ""];
const ANY: &[&str] = &[];

/// What the reports say of a scenario; `None` for one that no report has.
pub fn of(scenario: &str) -> Option<Found> {
    let found = match scenario {
        "default-vs-tuned" => default_vs_tuned(),
        "ext4-vs-xfs" => ext4_vs_xfs(),
        "binlog-cost" => binlog_cost(),
        "thirty-to-hundred-k" => thirty_to_hundred_k(),
        "strong-sync" => strong_sync(),
        "memory-ladder" => memory_ladder(),
        "xtradb" => xtradb(),
        "io-scheduler" => io_scheduler(),
        "connection-storm" => connection_storm(),
        "zero-tuning" => zero_tuning(),
        _ => return None,
    };
    Some(found)
}

/// Two settings divided in every cell.
fn settings(
    says: &str,
    figure: Figure,
    of: &'static [&'static str],
    over: &'static [&'static str],
    ratio: (f64, f64),
    source: &'static str,
) -> Claim {
    let side = |setting| Side { setting, place: Place::Every };
    Claim { says: says.to_owned(), figure, of: side(of), over: side(over), ratio, source }
}

/// Two places of one setting divided.
fn places(says: &str, of: Place, over: Place, ratio: f64, source: &'static str) -> Claim {
    let side = |place| Side { setting: ANY, place };
    let figure = Figure::Queries;
    Claim { says: says.to_owned(), figure, of: side(of), over: side(over), ratio: (ratio, ratio), source }
}

fn one(ratio: f64) -> (f64, f64) {
    (ratio, ratio)
}

fn default_vs_tuned() -> Found {
    let source = "S0, T2 against T1: 177.80 tps and 31.98 tps";
    let latency = "S0, T2 against T1: 909.80 ms and 6135.91 ms";
    Found {
        scenario: "default-vs-tuned",
        report: "S0",
        asks: "TPC-C with the package's settings against the tuned ones",
        figure: Figure::Transactions,
        reference: PACKAGE,
        axis: None,
        claims: vec![
            settings("tuned over package settings", Figure::Transactions, TUNED, PACKAGE, one(5.56), source),
            settings("tuned over package settings", Figure::P95, TUNED, PACKAGE, one(0.148), latency),
        ],
        why: Why {
            agrees: "Of the eight changes the pool, ten times as large, decides how often a page must be read",
            contradicts: "a page that must be read costs what this device takes, not what the report's disks took behind a virtual machine",
        },
    }
}

fn ext4_vs_xfs() -> Found {
    let source = "S0, T3 against T2: 177.76 tps and 177.80 tps";
    Found {
        scenario: "ext4-vs-xfs",
        report: "S0",
        asks: "the same run on two file systems",
        figure: Figure::Transactions,
        reference: &["xfs"],
        axis: None,
        claims: vec![settings("ext4 over XFS", Figure::Transactions, &["ext4"], &["xfs"], one(1.0), source)],
        why: Why {
            agrees: "Pages are written in place into files that have their size, past the page cache, so a file system has little to do",
            contradicts: "both file systems are images behind loop devices here, whose files lie in a third one",
        },
    }
}

fn binlog_cost() -> Found {
    let source =
        "S0, T4 against T2: MySQL 5.7 without binary log 198.99 tps, MariaDB 10.3 with it 177.80 tps";
    let says = "without binary log over with it";
    Found {
        scenario: "binlog-cost",
        report: "S0",
        asks: "binary log off, on, on and synced",
        figure: Figure::Transactions,
        reference: BINLOG_ON,
        axis: None,
        claims: vec![settings(says, Figure::Transactions, BINLOG_OFF, BINLOG_ON, one(1.119), source)],
        why: Why {
            agrees: "The binary log is written beside the redo at each commit, and synced where that is asked for",
            contradicts: "the report compared two servers, MySQL without the log and MariaDB with it, not one setting of one server",
        },
    }
}

fn thirty_to_hundred_k() -> Found {
    let source = "S1: 30 k to 101 k queries per second on 48 cores";
    let says = "all of the settings over none";
    Found {
        scenario: "thirty-to-hundred-k",
        report: "S1",
        asks: "pool instances, table caches, hash index parts and others: all, then each alone",
        figure: Figure::Queries,
        reference: NONE_OF_S1,
        axis: None,
        claims: vec![settings(says, Figure::Queries, ALL_OF_S1, NONE_OF_S1, one(3.4), source)],
        why: Why {
            agrees: "The settings part latches that many cores fight for",
            contradicts: "the settings part latches that 48 cores fought for in versions of 2015; on few cores nobody waits for them",
        },
    }
}

fn strong_sync() -> Found {
    const CLIENTS: [u32; 5] = [50, 100, 200, 500, 1000];
    let tables = [
        ("update", [1.17, 1.01, 0.99, 1.00, 1.02]),
        ("read", [1.01, 1.09, 1.15, 1.12, 1.17]),
        ("hybrid", [1.05, 1.07, 1.02, 0.99, 1.12]),
    ];
    let mut claims = Vec::new();
    for (workload, ratios) in tables {
        for (clients, ratio) in CLIENTS.into_iter().zip(ratios) {
            let side = |setting| Side { setting, place: Place::Holding(format!("{workload} {clients}")) };
            claims.push(Claim {
                says: format!("strong over async, {workload}, {clients} clients"),
                figure: Figure::Queries,
                of: side(STRONG),
                over: side(ASYNC),
                ratio: one(ratio),
                source: "S2 and S3: TencentDB for MariaDB against MySQL 5.6",
            });
        }
    }
    for (workload, kept) in [("update", 0.98), ("read", 0.94), ("hybrid", 0.86)] {
        let says = format!("{workload}, 1000 clients over the arm's best");
        let of = Place::Holding(format!("{workload} 1000"));
        let source = "S3, MySQL 5.6; TencentDB with its thread pool keeps 0.97 to 0.99";
        claims.push(places(&says, of, Place::Peak(workload), kept, source));
    }
    Found {
        scenario: "strong-sync",
        report: "S2, S3",
        asks: "acknowledged by a replica or not, from 50 to 1000 clients",
        figure: Figure::Queries,
        reference: ASYNC,
        axis: None,
        claims,
        why: Why {
            agrees: "Each waiting client has a thread there, and with very many the switches between them take their share",
            contradicts: "the report's server had 24 cores and clients of their own machines, and other versions",
        },
    }
}

fn memory_ladder() -> Found {
    // Rungs by the share of the data that memory holds, in the report's GB of both.
    let rung = |memory: f64, data: f64| Place::At(memory / data);
    let ladder = "S3, the ladder of memory";
    let says = |more: &str, less: &str| format!("{more} GB over {less} GB of memory, the same data");
    Found {
        scenario: "memory-ladder",
        report: "S3",
        asks: "pools from a twentieth of the data to all of it, in the report's proportions",
        figure: Figure::Queries,
        reference: &["", "default"],
        axis: Some("pool, as a share of the data"),
        claims: vec![
            places(
                "all in memory and tuned over 0.86 of it",
                Place::Word("tuned"),
                rung(488.0, 567.0),
                1.74,
                ladder,
            ),
            places(&says("32", "16"), rung(32.0, 238.0), rung(16.0, 238.0), 1.85, ladder),
            places(&says("96", "64"), rung(96.0, 378.0), rung(64.0, 378.0), 1.55, ladder),
            places(&says("128", "96"), rung(128.0, 378.0), rung(96.0, 378.0), 1.45, ladder),
            places(&says("488", "244"), rung(488.0, 567.0), rung(244.0, 567.0), 1.41, ladder),
        ],
        why: Why {
            agrees: "While data are larger than memory, each page kept saves a read of the device; when all is kept, the processor decides",
            contradicts: "the report's rungs are instances that differ in their disks too; here only memory and data change",
        },
    }
}

fn xtradb() -> Found {
    let says = "XtraDB's settings over InnoDB's of 2008";
    let source = "S4: about 1.5 times the new orders per minute";
    Found {
        scenario: "xtradb",
        report: "S4",
        asks: "I/O capacity, I/O threads and checkpoints of XtraDB against InnoDB's of 2008",
        figure: Figure::NewOrders,
        reference: INNODB,
        axis: None,
        claims: vec![settings(says, Figure::NewOrders, XTRADB, INNODB, one(1.5), source)],
        why: Why {
            agrees: "The report gave XtraDB four times the I/O threads and fifty times the I/O capacity: a part of its gain is these settings",
            contradicts: "the report compared two engines of 2009 that differed in their code too; here the settings alone differ, in a server that has taken up both",
        },
    }
}

fn io_scheduler() -> Found {
    let says = "no scheduler over the fair one";
    let source = "S4: noop four times CFQ on a RAID of disks";
    let fair = &["bfq", "cfq"];
    Found {
        scenario: "io-scheduler",
        report: "S4",
        asks: "none, mq-deadline and bfq on a loop device",
        figure: Figure::NewOrders,
        reference: fair,
        axis: None,
        claims: vec![settings(says, Figure::NewOrders, &["none", "noop"], fair, one(4.0), source)],
        why: Why {
            agrees: "A fair scheduler lets the device wait for the next request of a process",
            contradicts: "CFQ, which let disks stand idle to be fair between processes, is gone from the kernel; its successor works here on a loop device",
        },
    }
}

fn connection_storm() -> Found {
    Found {
        scenario: "connection-storm",
        report: "S2, S3",
        asks: "from none to 5000 clients in a second, then reads",
        figure: Figure::Queries,
        reference: &["", "default"],
        axis: None,
        claims: Vec::new(),
        why: Why {
            agrees: "The reports turn the thread pool on by default and give no figure for a storm",
            contradicts: "the reports give no figure for a storm",
        },
    }
}

fn zero_tuning() -> Found {
    let says = "the best searched settings over none";
    let source = "S0 5.56, S1 3.4, S4 1.5: regrets of 82 %, 70 % and 33 %";
    Found {
        scenario: "zero-tuning",
        report: "all",
        asks: "no settings against the best of a search, by machine and workload",
        figure: Figure::Transactions,
        reference: UNSET,
        axis: None,
        claims: vec![settings(says, Figure::Transactions, BEST, UNSET, (1.5, 5.56), source)],
        why: Why {
            agrees: "Default sizes that do not follow the machine leave a search much to find",
            contradicts: "the report's defaults were fixed sizes of their time, many times smaller than its machine",
        },
    }
}

/// The setting of an arm: its name without its engine's, in small letters, with spaces for hyphens.
pub fn setting(arm: &str, engine: &str) -> String {
    let plain = |text: &str| {
        let spaced: String =
            text.chars().map(|c| if matches!(c, '-' | '_' | ',') { ' ' } else { c }).collect();
        spaced.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let (arm, engine) = (plain(arm), plain(engine));
    match arm.strip_prefix(&engine) {
        Some(rest) if !engine.is_empty() && (rest.is_empty() || rest.starts_with(' ')) => {
            rest.trim().to_owned()
        }
        _ => arm,
    }
}

/// Whether a cell's name has all these words.
pub fn holds(cell: &str, words: &str) -> bool {
    let lower = cell.to_lowercase();
    let parts: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric() && c != '.').collect();
    words.split_whitespace().all(|word| parts.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_has_its_entry() {
        for name in SCENARIOS {
            let found = of(name).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(found.scenario, name);
            assert!(crate::scenarios::ALL.iter().any(|scenario| scenario.name == name), "{name}");
            for claim in &found.claims {
                assert!(claim.ratio.0 > 0.0 && claim.ratio.0 <= claim.ratio.1, "{name}: {}", claim.says);
            }
        }
        assert_eq!(of("another"), None);
    }

    #[test]
    fn settings_are_names_without_engines() {
        assert_eq!(setting("mariadb tuned", "mariadb"), "tuned");
        assert_eq!(setting("Keel", "keel"), "");
        assert_eq!(setting("mariadb binlog-off", "mariadb"), "binlog off");
        assert_eq!(setting("mariadbs", "mariadb"), "mariadbs");
        assert_eq!(setting("xfs", ""), "xfs");
    }

    #[test]
    fn words_of_a_cell_are_whole() {
        assert!(holds("read, 50 clients", "read 50"));
        assert!(!holds("read, 500 clients", "read 50"));
    }
}
