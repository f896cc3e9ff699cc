//! What a run leaves: one line of JSON.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The format's number; readers refuse others.
pub const FORMAT: u32 = 1;

/// One run of a workload against one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// [`FORMAT`].
    pub format: u32,
    /// The scenario's name, such as `default-vs-tuned`.
    pub scenario: String,
    /// Whether it was the short form.
    pub quick: bool,
    /// What is compared with what: `keel`, `mariadb tuned`.
    pub arm: String,
    /// What else varies, such as `64 clients`; empty where nothing does.
    pub cell: String,
    /// The cell's place on an axis, where it has one.
    pub x: Option<f64>,
    /// Runs of the same pair and cell are neighbours in time and are compared with each other; from 1.
    pub pair: u32,
    /// The run's place in the order in which all ran; from 1.
    pub order: u32,
    /// When it began, in UTC, RFC 3339.
    pub started: String,
    /// Of the workload's random numbers.
    pub seed: u64,
    /// The workload, such as `sysbench oltp_point_select --tables=10 ...` without addresses.
    pub workload: String,
    /// Clients at once.
    pub clients: u32,
    /// What the server is and how it is set.
    pub server: ServerFacts,
    /// Where it ran.
    pub machine: Machine,
    /// What clients saw.
    pub result: Outcome,
    /// What it took.
    pub cost: Cost,
    /// Why figures are missing or not to be trusted: `the server ended in the run`.
    pub trouble: Option<String>,
}

/// A server and its settings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerFacts {
    /// `keel`, `mariadb`, `mysql`.
    pub engine: String,
    /// What the server answers to `SELECT VERSION()`.
    pub version: String,
    /// The commit it was built of, of a Keel.
    pub commit: Option<String>,
    /// A hash of the settings it was started with.
    pub settings_hash: String,
    /// The settings it was started with, as they stand in the option file.
    pub settings: Vec<String>,
    /// What the lab set beside them, such as sizes scaled down to its data; these win.
    #[serde(default)]
    pub overrides: Vec<String>,
    /// What held the server, such as `memory 256 MiB`, `1200 reads/s`.
    #[serde(default)]
    pub limits: Vec<String>,
    /// All of `SHOW GLOBAL VARIABLES` when the run began.
    pub variables: BTreeMap<String, String>,
}

/// The machine of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Cores that the run could use.
    pub cores: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// The kernel's release.
    pub kernel: String,
    /// The file system of the data, such as `ext4`.
    pub file_system: String,
    /// The I/O scheduler of the device below it, where it is known.
    #[serde(default)]
    pub scheduler: Option<String>,
    /// The cores of the client, where it had its own.
    #[serde(default)]
    pub client_cores: Option<String>,
}

/// What clients saw.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Seconds measured, without the warm-up.
    pub seconds: f64,
    /// Transactions per second.
    pub tps: f64,
    /// Queries per second.
    pub qps: f64,
    /// New orders per minute, of TPC-C.
    pub new_orders_per_minute: Option<f64>,
    /// Milliseconds of a transaction: the median.
    pub p50_ms: f64,
    /// The 95th percentile.
    pub p95_ms: f64,
    /// The 99th percentile.
    pub p99_ms: f64,
    /// The longest.
    pub max_ms: f64,
    /// Errors that clients saw, deadlocks and the like among them.
    pub errors: u64,
    /// Transactions of each second.
    pub series: Vec<f64>,
    /// The distribution of latencies: milliseconds, and the share of transactions that took no longer; both rising.
    pub latencies: Vec<(f64, f64)>,
    /// Further figures of the scenario by name, such as `connections_per_second`.
    pub more: BTreeMap<String, f64>,
}

/// What a run took of the machine; `None` where it could not be known, such as of a server at another address.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Microseconds of the server's processor time for each query.
    pub cpu_us_per_query: Option<f64>,
    /// Context switches of the server's threads for each transaction.
    pub switches_per_transaction: Option<f64>,
    /// Syncs of files for each transaction.
    pub syncs_per_transaction: Option<f64>,
    /// Bytes that the server wrote to the device for each transaction.
    pub bytes_written_per_transaction: Option<f64>,
    /// Bytes that it read from there.
    pub bytes_read_per_transaction: Option<f64>,
    /// Share of page requests that the buffer pool answered without the device.
    pub hit_rate: Option<f64>,
    /// Threads of the server at the end.
    pub threads: Option<u64>,
    /// Bytes of memory that were resident at most.
    pub resident_bytes: Option<u64>,
}
