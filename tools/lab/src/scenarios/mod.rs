//! The experiments of the five reports, one file each.

use crate::engines::Kind;
use crate::limits::Limits;
use crate::plan::{Arm, Choice, Scenario};

mod binlog_cost;
mod connection_storm;
mod default_vs_tuned;
mod file_systems;
mod io_scheduler;
mod memory_ladder;
mod strong_sync;
mod thirty_to_hundred_k;
mod xtradb;
mod zero_tuning;

/// All of them.
pub const ALL: &[&Scenario] = &[
    &default_vs_tuned::SCENARIO,
    &file_systems::SCENARIO,
    &binlog_cost::SCENARIO,
    &thirty_to_hundred_k::SCENARIO,
    &strong_sync::SCENARIO,
    &memory_ladder::SCENARIO,
    &xtradb::SCENARIO,
    &io_scheduler::SCENARIO,
    &connection_storm::SCENARIO,
    &zero_tuning::SCENARIO,
];

/// The package's settings, of T1.
const PACKAGE: &str = include_str!("../../settings/s0-t1-package.cnf");
/// The settings of T2.
const TUNED: &str = include_str!("../../settings/s0-t2-tuned.cnf");
/// The list of 30 k to 101 k.
const THIRTY_K: &str = include_str!("../../settings/s1-thirty-k.cnf");
/// InnoDB's, of 2008.
const INNODB_2008: &str = include_str!("../../settings/s4-innodb.cnf");
/// XtraDB's.
const XTRADB: &str = include_str!("../../settings/s4-xtradb.cnf");

/// What a program takes beside what scales with the data.
const PROGRAM_BYTES: u64 = 192 << 20;

/// A size of the pool as a setting, at least what all servers take.
fn pool(bytes: u64) -> String {
    format!("innodb_buffer_pool_size={}M", (bytes >> 20).max(8))
}

/// Memory of a server that needs so much beside its program.
fn memory(bytes: u64) -> Limits {
    Limits { memory: Some(bytes + PROGRAM_BYTES), ..Limits::default() }
}

/// The binary log off, where there is one that is on by itself.
fn no_binlog(arm: Arm) -> Arm {
    if arm.engine.kind == Kind::MySql { arm.set(["skip_log_bin"]) } else { arm }
}

/// Servers at an address, as they are.
fn remotes(choice: &Choice) -> Vec<Arm> {
    choice.remote().map(|engine| Arm::new(engine.name.clone(), engine)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::Engine;
    use crate::progress::{Lengths, load_seconds, run_seconds, search_seconds};
    use std::collections::HashSet;
    use std::path::PathBuf;

    fn engine(kind: Kind, name: &str) -> Engine {
        Engine {
            kind,
            name: name.into(),
            program: PathBuf::from(name),
            version: String::new(),
            commit: None,
            remote: None,
        }
    }

    #[test]
    fn every_plan_has_arms_with_names_of_their_own() {
        let engines =
            vec![engine(Kind::Keel, "keel"), engine(Kind::MariaDb, "mariadb"), engine(Kind::MySql, "mysql")];
        for quick in [true, false] {
            let choice = Choice { engines: engines.clone(), quick };
            for scenario in ALL {
                let plan = (scenario.plan)(&choice);
                assert!(!plan.cells.is_empty() && plan.seconds > 0 && plan.pairs > 0, "{}", scenario.name);
                let cells: HashSet<&str> = plan.cells.iter().map(|cell| cell.name.as_str()).collect();
                assert_eq!(cells.len(), plan.cells.len(), "{}", scenario.name);
                for cell in &plan.cells {
                    let arms: HashSet<&str> = cell.arms.iter().map(|arm| arm.name.as_str()).collect();
                    assert!(
                        arms.len() == cell.arms.len() && arms.len() > 1,
                        "{} {}",
                        scenario.name,
                        cell.name
                    );
                }
            }
        }
    }

    #[test]
    fn quick_forms_are_quick() {
        let engines = vec![engine(Kind::Keel, "keel"), engine(Kind::MariaDb, "mariadb")];
        let choice = Choice { engines, quick: true };
        let mut all = 0.0;
        for scenario in ALL {
            let plan = (scenario.plan)(&choice);
            let lengths = Lengths { seconds: plan.seconds, warm_up_max: plan.warm_up_max };
            let mut seconds = 0.0;
            let mut loads: HashSet<(String, String)> = HashSet::new();
            for cell in &plan.cells {
                for arm in &cell.arms {
                    seconds +=
                        f64::from(plan.pairs) * run_seconds(cell, lengths) + search_seconds(cell, arm).0;
                    if loads.insert((arm.engine.name.clone(), cell.data.name.clone())) {
                        seconds += load_seconds(cell);
                    }
                }
            }
            all += seconds;
            println!("{}: {seconds:.0} s", scenario.name);
            assert!(seconds < 1000.0, "{}: {seconds} s", scenario.name);
        }
        assert!(all < 7200.0, "{all} s");
    }
}
