//! What the five reports have in common: somebody turns knobs, and the same server is 1.5 to 5.6 times as fast. Here each engine without any
//! setting stands beside the best of a search for settings, on small, middling and larger machines (control groups) and with four workloads. What
//! the default leaves of the best is its regret.
//!
//! The search tries the reports' settings, three sets that an expert would write for the machine, and what it draws of some twenty knobs
//! ([`crate::search`]). Keel is searched with those of its settings that act, the others with MariaDB's. All commits are durable. What was
//! found runs again beside the default, pair by pair, and only these runs count.

use super::{THIRTY_K, TUNED, XTRADB, no_binlog};
use crate::clients::Workload;
use crate::data::DataSet;
use crate::engines::{Engine, Kind};
use crate::limits::Limits;
use crate::plan::{Arm, Cell, Choice, Plan, Scenario, Work, lines};
use crate::progress::Lengths;
use crate::search::{Candidate, Knob, Search};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "zero-tuning",
    report: "all five",
    what: "no settings against the best of a search (30 settings; 4 in the short form), in cells of machine and workload: the regret of each engine",
    found: "tuning gave 5.56, 3.4 and 1.5 times as much: regrets of 82 %, 70 % and 33 %",
    plan,
};

/// A machine: what a server may have.
#[derive(Debug, Clone, Copy)]
struct Machine {
    memory_mib: u64,
    cores: u32,
    iops: Option<u32>,
}

const QUICK: [Machine; 3] = [
    Machine { memory_mib: 256, cores: 1, iops: Some(500) },
    Machine { memory_mib: 512, cores: 2, iops: Some(4000) },
    Machine { memory_mib: 2048, cores: 2, iops: None },
];
const FULL: [Machine; 3] = [
    Machine { memory_mib: 512, cores: 1, iops: Some(500) },
    Machine { memory_mib: 1024, cores: 2, iops: Some(4000) },
    Machine { memory_mib: 4096, cores: 2, iops: None },
];

/// What clients do: the script, its name, the data in the short form and the full one.
#[derive(Debug, Clone, Copy)]
enum Load {
    Rows { script: &'static str, name: &'static str },
    Tpcc,
}

const LOADS: [Load; 4] = [
    Load::Rows { script: "select.lua", name: "reads" },
    Load::Rows { script: "our_oltp.lua", name: "four reads, an update" },
    Load::Rows { script: "oltp_new.lua", name: "transactions" },
    Load::Tpcc,
];
const CLIENTS: u32 = 32;
const TABLES: u32 = 4;

impl Machine {
    fn limits(self) -> Limits {
        Limits { memory: Some(self.memory_mib << 20), iops: self.iops, cores: Some(self.cores) }
    }

    fn words(self) -> String {
        let cores = if self.cores == 1 { "1 core".into() } else { format!("{} cores", self.cores) };
        let device = self.iops.map_or("device free".into(), |iops| format!("{iops} IO/s"));
        format!("{} MiB, {cores}, {device}", self.memory_mib)
    }

    /// A share of the memory, in percent, as a setting has it.
    fn share(self, percent: u64) -> String {
        format!("{}M", self.memory_mib * percent / 100)
    }
}

fn plan(choice: &Choice) -> Plan {
    let mut plan = Plan::new(choice);
    plan.seconds = choice.size(6, 30);
    plan.warm_up_max = choice.size(4, 30);
    for remote in choice.remote() {
        plan.skip(&remote.name, "a server at an address cannot be given settings");
    }
    if choice.quick {
        plan.skip(
            "the full search",
            "the short form has a cell for each machine and four settings, of twelve cells and thirty",
        );
    }
    let machines = choice.size(QUICK, FULL);
    for (at, machine) in machines.into_iter().enumerate() {
        for (load_at, load) in LOADS.into_iter().enumerate() {
            // The short form: the first machine reads, the second does a bit of both, the third transactions.
            if !choice.quick || at == load_at {
                plan.cells.push(cell(choice, machine, load));
            }
        }
    }
    plan
}

fn cell(choice: &Choice, machine: Machine, load: Load) -> Cell {
    let (script, name, data, options) = match load {
        Load::Rows { script, name } => {
            let rows = choice.size(200_000, 800_000);
            let options = vec![
                format!("--tables={TABLES}"),
                format!("--table_size={rows}"),
                "--rand-type=special".into(),
            ];
            (script, name, DataSet::tables(TABLES, rows), options)
        }
        Load::Tpcc => {
            let warehouses = choice.size(2, 8);
            ("tpcc.lua", "TPC-C", DataSet::tpcc(warehouses), vec![format!("--warehouses={warehouses}")])
        }
    };
    let mut workload = Workload::new(script, &[], CLIENTS);
    workload.options = options;
    let arms = choice.local().flat_map(|engine| arms(choice, engine, machine)).collect();
    Cell {
        name: format!("{}, {name}", machine.words()),
        x: None,
        data,
        work: Work::Sysbench(workload),
        // Fresh data for each run, also where it only reads: the list of pages that a server leaves at its end would help who ran more often.
        writes: true,
        arms,
    }
}

/// An engine without settings, and with the best that is found for it.
fn arms(choice: &Choice, engine: &Engine, machine: Machine) -> [Arm; 2] {
    let unset = no_binlog(Arm::new(&engine.name, engine).within(machine.limits()));
    // What a search must not win by.
    let durable = ["innodb_flush_log_at_trx_commit=1", "innodb_doublewrite=1"];
    let mut best = Arm { name: format!("{} best", engine.name), ..unset.clone() }.set(durable);
    best.search = Some(Search {
        given: given(choice, machine),
        knobs: if engine.kind == Kind::Keel { keels(machine) } else { mariadbs(machine) },
        trials: choice.size(4, 30),
        finalists: choice.size(0, 4),
        lengths: Lengths { seconds: choice.size(4, 15), warm_up_max: choice.size(2, 15) },
    });
    [unset, best]
}

/// The reports' settings with their pools scaled to the machine, and what an expert would write for it.
fn given(choice: &Choice, machine: Machine) -> Vec<Candidate> {
    let pool = |percent| format!("innodb_buffer_pool_size={}", machine.share(percent));
    let capacity = machine.iops.unwrap_or(10_000);
    let report = |name: &str, file: &str, more: &[&str]| {
        let more = more.iter().map(|line| line.to_string()).chain([pool(60)]);
        Candidate::new(format!("the report's: {name}"), lines(file).into_iter().chain(more))
    };
    let expert = |name: &str, percent: u64, more: &[&str]| {
        let fixed = [
            pool(percent),
            format!("innodb_io_capacity={capacity}"),
            format!("innodb_io_capacity_max={}", capacity * 2),
        ];
        let more = more.iter().map(|line| line.to_string());
        Candidate::new(format!("an expert's: {name}"), fixed.into_iter().chain(more))
    };
    let mut given = vec![
        report("tuned", TUNED, &[]),
        expert(
            "large pool and log",
            70,
            &[
                "innodb_log_file_size=1G",
                "innodb_log_buffer_size=64M",
                "innodb_flush_method=O_DIRECT",
                "innodb_flush_neighbors=0",
                "innodb_max_dirty_pages_pct_lwm=0.001",
                "thread_handling=pool-of-threads",
                "table_open_cache=8000",
            ],
        ),
    ];
    if !choice.quick {
        // Sizes of a machine of 500 GB as they are on a small one.
        let scaled = ["innodb_log_file_size=1G", "innodb_log_buffer_size=64M"];
        given.extend([
            report("30 k to 101 k", THIRTY_K, &scaled),
            report("XtraDB", XTRADB, &[]),
            expert(
                "hash index, change buffer",
                60,
                &[
                    "innodb_log_file_size=512M",
                    "innodb_adaptive_hash_index=ON",
                    "innodb_change_buffering=all",
                    "innodb_max_dirty_pages_pct_lwm=10",
                    "innodb_purge_batch_size=1000",
                ],
            ),
            expert(
                "the kernel's cache",
                40,
                &["innodb_log_file_size=256M", "innodb_flush_method=fsync", "innodb_purge_threads=1"],
            ),
        ]);
    }
    given
}

fn pools(machine: Machine) -> Knob {
    let values = [25, 40, 55, 70].map(|percent| machine.share(percent));
    Knob { name: "innodb_buffer_pool_size", values: values.to_vec() }
}

/// Settings that act in Keel; a test asks it.
fn keels(machine: Machine) -> Vec<Knob> {
    let mut knobs = vec![pools(machine)];
    knobs.extend(KEELS.iter().map(|(name, values)| Knob::new(name, values)));
    knobs
}

fn mariadbs(machine: Machine) -> Vec<Knob> {
    let mut knobs = vec![pools(machine)];
    knobs.extend(MARIADBS.iter().map(|(name, values)| Knob::new(name, values)));
    knobs
}

type Values = (&'static str, &'static [&'static str]);

const KEELS: &[Values] = &[
    ("innodb_log_file_size", &["64M", "256M", "1G", "4G"]),
    ("innodb_log_buffer_size", &["2M", "16M", "64M"]),
    ("innodb_io_capacity", &["200", "2000", "10000"]),
    ("innodb_io_capacity_max", &["2000", "20000"]),
    ("innodb_flush_method", &["O_DIRECT", "fsync"]),
    ("innodb_purge_threads", &["1", "4", "32"]),
    ("innodb_purge_batch_size", &["16", "127", "5000"]),
    ("thread_pool_size", &["1", "2", "4"]),
    ("sort_buffer_size", &["256K", "2M", "16M"]),
    ("join_buffer_size", &["256K", "4M"]),
    ("tmp_memory_table_size", &["4M", "64M"]),
    ("optimizer_search_depth", &["0", "62"]),
    ("reactor", &["io_uring", "epoll"]),
];

const MARIADBS: &[Values] = &[
    ("innodb_log_file_size", &["48M", "256M", "1G", "4G"]),
    ("innodb_log_buffer_size", &["8M", "16M", "64M"]),
    ("innodb_io_capacity", &["100", "500", "2000", "10000"]),
    ("innodb_io_capacity_max", &["2000", "20000"]),
    ("innodb_flush_method", &["O_DIRECT", "fsync"]),
    ("innodb_flush_neighbors", &["0", "1"]),
    ("innodb_max_dirty_pages_pct", &["50", "90"]),
    ("innodb_max_dirty_pages_pct_lwm", &["0.001", "10"]),
    ("innodb_adaptive_flushing", &["ON", "OFF"]),
    ("innodb_adaptive_hash_index", &["ON", "OFF"]),
    ("innodb_change_buffering", &["none", "all"]),
    ("innodb_purge_threads", &["1", "4", "8"]),
    ("innodb_purge_batch_size", &["127", "1000", "5000"]),
    ("innodb_read_io_threads", &["2", "4", "16"]),
    ("innodb_write_io_threads", &["2", "4", "16"]),
    ("innodb_lru_scan_depth", &["256", "1024", "4096"]),
    ("innodb_sync_spin_loops", &["0", "30", "100"]),
    ("table_open_cache", &["400", "2000", "8000"]),
    ("thread_handling", &["one-thread-per-connection", "pool-of-threads"]),
    ("thread_pool_size", &["2", "4"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_full_form_has_twelve_cells_and_thirty_settings() {
        let engine = Engine {
            kind: Kind::Keel,
            name: "keel".into(),
            program: "keel".into(),
            version: String::new(),
            commit: None,
            remote: None,
        };
        for (quick, cells, trials) in [(false, 12, 30), (true, 3, 4)] {
            let plan = plan(&Choice { engines: vec![engine.clone()], quick });
            assert_eq!(plan.cells.len(), cells);
            let search = plan.cells[0].arms[1].search.as_ref().expect("a search");
            assert_eq!(search.trials, trials);
            assert!(search.given.len() < trials as usize);
            assert!(
                plan.cells
                    .iter()
                    .all(|cell| cell.arms[0].settings.is_empty() && cell.arms[0].overrides.is_empty())
            );
        }
    }

    #[test]
    fn knobs_have_names_of_their_own() {
        for knobs in [keels(FULL[0]), mariadbs(FULL[0])] {
            let mut names: Vec<&str> = knobs.iter().map(|knob| knob.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), knobs.len());
        }
    }
}
