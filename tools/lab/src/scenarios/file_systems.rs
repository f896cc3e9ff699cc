//! T3 of "sysbench TPC-C on a VM": T2's settings on ext4 and on XFS, on two disks of the lab's own.

use super::{TUNED, memory, no_binlog, pool};
use crate::clients::Workload;
use crate::data::DataSet;
use crate::disk::DiskKind;
use crate::plan::{Arm, Cell, Choice, Plan, Scenario, Work};

pub(super) const SCENARIO: Scenario = Scenario {
    name: "ext4-vs-xfs",
    report: "sysbench TPC-C on a VM, T2 and T3",
    what: "TPC-C, 64 clients, T2's settings, data 3.9 times the pool: ext4 against XFS, both on loop devices (needs root)",
    found: "no difference: 177.76 against 177.80 transactions a second",
    plan,
};

fn plan(choice: &Choice) -> Plan {
    let mut plan = Plan::new(choice);
    plan.warm_up_max = choice.size(10, 30);
    let warehouses = choice.size(4, 10);
    let data = DataSet::tpcc(warehouses);
    let mut arms = Vec::new();
    for engine in choice.local() {
        for file_system in ["ext4", "xfs"] {
            let arm = Arm::new(format!("{} {file_system}", engine.name), engine).settings(TUNED);
            let arm = no_binlog(arm.set([pool(data.bytes * 10 / 39)]).within(memory(data.bytes * 4 / 10)));
            let disk = DiskKind { file_system, scheduler: Some("none"), bytes: data.bytes * 3 + (2 << 30) };
            arms.push(Arm { disk: Some(disk), ..arm });
        }
    }
    let workload = Workload::new("tpcc.lua", &[&format!("--warehouses={warehouses}")], 64);
    plan.cells.push(Cell {
        name: String::new(),
        x: None,
        data,
        work: Work::Sysbench(workload),
        writes: true,
        arms,
    });
    plan.without_missing_disks()
}
