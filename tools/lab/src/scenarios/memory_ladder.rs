//! The sizes of "Performance of TencentDB for MariaDB": instances of 4 to 488 GB, of which most hold far more data than memory. Here pools and
//! data are in the same proportions, on a device that is capped alike for all, and 32 clients do four reads and an update.

use super::{TUNED, memory, no_binlog, pool};
use crate::clients::Workload;
use crate::data::{DataSet, ROW_BYTES};
use crate::engines::{Engine, Kind};
use crate::limits::Limits;
use crate::plan::{Arm, Cell, Choice, Plan, Scenario, Work};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "memory-ladder",
    report: "Performance of TencentDB for MariaDB, 4 to 488 GB",
    what: "our_oltp (4 reads, 1 indexed update), 32 clients: pools from a twentieth of the data to all of it, 4000 reads and writes a second",
    found: "nearly linear up to a third of the data; 1.74 times more when all is cached and tuned",
    plan,
};

const IOPS: u32 = 4000;
const TABLES: u32 = 4;
/// The report's rungs: GB of memory and of data.
const RUNGS: &[(u64, u64)] = &[
    (4, 76),
    (8, 142),
    (16, 238),
    (32, 238),
    (64, 378),
    (96, 378),
    (128, 378),
    (244, 567),
    (488, 567),
    (488, 140),
];
/// What a GB of the report is here.
const SCALED_GB: u64 = 16 << 20;
/// The short form: pools in percent of one data set.
const SHARES: &[u64] = &[5, 13, 34, 86, 200];

fn plan(choice: &Choice) -> Plan {
    let mut plan = Plan::new(choice);
    plan.seconds = choice.size(10, 60);
    plan.warm_up_max = choice.size(8, 60);
    let rungs: Vec<(u64, u64)> = match choice.quick {
        true => {
            let data = u64::from(TABLES) * 200_000 * ROW_BYTES;
            SHARES.iter().map(|share| (data * share / 100, data)).collect()
        }
        false => RUNGS.iter().map(|(memory, data)| (memory * SCALED_GB, data * SCALED_GB)).collect(),
    };
    for (size, bytes) in rungs {
        plan.cells.push(rung(choice, size, bytes));
    }
    plan
}

fn rung(choice: &Choice, size: u64, bytes: u64) -> Cell {
    let rows = (bytes / ROW_BYTES / u64::from(TABLES)) as u32;
    let within = Limits { iops: Some(IOPS), ..memory(size) };
    let arm = |engine: &Engine| {
        let arm = Arm::new(&engine.name, engine).within(within);
        let arm = if engine.kind == Kind::Keel { arm } else { no_binlog(arm.settings(TUNED)) };
        arm.set([pool(size)])
    };
    let options = [format!("--tables={TABLES}"), format!("--table_size={rows}")];
    let workload = Workload::new("our_oltp.lua", &[&options[0], &options[1], "--rand-type=special"], 32);
    Cell {
        // The report's last rung, of less data than memory, is the one that it calls tuned.
        name: format!(
            "pool {} MiB, data {} MiB{}",
            size >> 20,
            bytes >> 20,
            if size > bytes { ", tuned" } else { "" }
        ),
        x: Some(size as f64 / bytes as f64),
        data: DataSet::tables(TABLES, rows),
        work: Work::Sysbench(workload),
        writes: true,
        arms: choice.local().map(arm).collect(),
    }
}
